"""Shared code of the benchmarks."""

import random
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY = "slk_benchmark_key_0123456789abcdefghijklmnopqrstuvwx"
MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


def say(text):
    print(text, file=sys.stderr, flush=True)


def in_turns(peers, rounds, label):
    """Yields (number, peer) for a round that warms up (number 0, not to be counted) and `rounds` others.

    Each round has an order of its own, the same in every run, so that none always follows the same.
    """
    for number in range(rounds + 1):
        order = list(peers)
        random.Random(number).shuffle(order)
        for peer in order:
            yield number, peer
        say(f"{label}: round {number} of {rounds}{' (warm-up)' if number == 0 else ''}")
