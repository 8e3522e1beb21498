"""Processes whose clock is wrong."""

from pathlib import Path

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def shifted(seconds):
    """The environment of a process for which it is so much later, or earlier; it waits as long as ever."""
    assert FAKETIME.exists(), "there is no libfaketime (Debian package faketime): scripts/setup --test installs it"
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME": f"{seconds:+d}s"}
