"""Counts the instructions of the server for each request; see `benchmarks/instructions`.

Unlike CPU they are the same on a busy machine, so differences of one in a hundred can be seen. What the kernel does for
a request is not among them.
"""

import argparse
import collections
import contextlib
import re
import subprocess
import tempfile
import time
from pathlib import Path

from common import say
from guard_requests import BINARY, OPERATIONS, Gateway

NUMBER = re.compile(r"[+\-*\d]")
NAME = re.compile(r"(c?)fn=\((\d+)\)(?: (.*))?")


def parse_options():
    names = [name for name, _, _ in OPERATIONS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=names, action="append", help="this operation; may be repeated")
    parser.add_argument("--requests", type=int, default=1000, help="counted, after half as many (default 1000)")
    parser.add_argument("--functions", type=int, default=0, help="how many of the most expensive functions to list")
    return parser.parse_args()


def without_debug_information(folder):
    """The program with its names only: valgrind cannot read what the compiler writes for debuggers."""
    program = folder / "sluice"
    subprocess.run(["objcopy", "--strip-debug", BINARY, program], check=True)
    return program


def count(program, folder, kind, requests, number):
    """Instructions of each function by its name, for `number` requests."""
    output = folder / "counts"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", str(program)]
    gateway = Gateway(folder / "server", kind, command=command, patience=300)
    with contextlib.ExitStack() as stack:
        stack.callback(gateway.stop)
        send(requests(gateway), number // 2)
        # Until the counted requests, and after them, the server does what is left to do.
        time.sleep(1)
        later = requests(gateway)
        send(later, 1)
        control(gateway, "--zero")
        send(later, number)
        time.sleep(0.5)
        control(gateway, "--dump")
    return functions(Path(f"{output}.1").read_text(errors="replace"))


def send(requests, number):
    for _ in range(number):
        connection, request, status = next(requests)
        connection.send((request, status))


def control(gateway, what):
    subprocess.run(["callgrind_control", what, str(gateway.pid)], capture_output=True, check=True)


def functions(text):
    """Reads callgrind's format: the costs of a function's own lines, without those of what it calls."""
    names, own = {}, collections.Counter()
    function, is_call = None, False
    for line in text.splitlines():
        if match := NAME.match(line):
            if match[3]:
                names[match[2]] = match[3]
            if not match[1]:
                function = match[2]
        elif line.startswith("calls="):
            is_call = True
        elif NUMBER.match(line):
            if not is_call:
                own[function] += int(line.split()[-1])
            is_call = False
    by_name = collections.Counter()
    for number, instructions in own.items():
        by_name[names[number]] += instructions
    return by_name


def demangled(names):
    done = subprocess.run(
        ["swift", "demangle", "--compact", "--simplified"], input="\n".join(names), stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines() if done.returncode == 0 else names


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = without_debug_information(folder)
        totals = {}
        for number, (name, kind, requests) in enumerate(OPERATIONS):
            if options.only and name not in options.only:
                continue
            place = folder / str(number)
            place.mkdir()
            found = count(program, place, kind, requests, options.requests)
            totals[name] = found.total() / options.requests
            say(f"{name}: {totals[name]:,.0f} instructions")
            top = found.most_common(options.functions)
            for text, (_, cost) in zip(demangled([text for text, _ in top]), top, strict=True):
                print(f"{cost / options.requests:10.1f}  {text[:150]}")
    print("\n| request | instructions |\n|---|---|")
    for name, total in totals.items():
        print(f"| {name} | {total:,.0f} |")
    plain, logged = totals.get("mint"), totals.get("mint with a line in the log")
    if plain and logged:
        print(f"\na line in the log: {logged / plain - 1:.1%} of a mint")


if __name__ == "__main__":
    main()
