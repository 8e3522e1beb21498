"""Processes whose clock is wrong."""

from pathlib import Path

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def shifted(seconds):
    """The environment of a process whose clock is ahead or behind by this much; its waits are not affected."""
    assert FAKETIME.exists(), "there is no libfaketime (Debian package faketime): scripts/setup --test installs it"
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME": f"{seconds:+d}s"}
