"""Processes whose clock is wrong."""

import functools
import os
import tempfile
from pathlib import Path

from harness.faults import compiled

SOURCE = Path(__file__).with_suffix(".c")


@functools.cache
def library():
    # One for each process that runs tests; the link to it ends with the process.
    folder = tempfile.TemporaryDirectory(prefix="clock-")
    # Also for servers of another user.
    os.chmod(folder.name, 0o755)
    return folder, compiled(folder.name, SOURCE)


def shifted(seconds):
    """The environment of a process whose clock is ahead or behind by this much; its waits are not affected."""
    path = library()[1]
    assert path, "there is no C compiler: scripts/setup --test installs one"
    return {"LD_PRELOAD": os.fspath(path), "CLOCK_SHIFT": str(seconds)}
