"""Processes whose clock is wrong."""

import os
from pathlib import Path

from harness.faults import compiled

SOURCE = Path(__file__).with_suffix(".c")


def shifted(seconds):
    """The environment of a process whose clock is ahead or behind by this much; its waits are not affected."""
    path = compiled(SOURCE)
    assert path, "there is no C compiler: scripts/setup --test installs one"
    return {"LD_PRELOAD": os.fspath(path), "CLOCK_SHIFT": str(seconds)}
