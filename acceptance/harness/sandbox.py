"""Runs a command as a systemd unit would: without rights, and with its filter of system calls.

    python -m harness.sandbox UNIT COMMAND ARGUMENT…

It keeps SystemCallFilter, MemoryDenyWriteExecute, RestrictAddressFamilies and NoNewPrivileges of the unit. Root becomes
another user without capabilities. A refused call gets EPERM.
"""

import ctypes
import errno
import mmap
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

USER = 10001
NO_NEW_PRIVILEGES = 38


class Unit:
    """The settings of a unit file; some can be repeated."""

    def __init__(self, *texts):
        lines = [line for text in texts for line in text.splitlines() if re.match(r"\w+=", line)]
        self.pairs = [tuple(line.split("=", 1)) for line in lines]

    def all(self, name):
        return [value for key, value in self.pairs if key == name]

    def __getitem__(self, name):
        found = self.all(name)
        assert len(found) == 1, f"{name} is there {len(found)} times"
        return found[0]


def sets():
    """The groups of system calls of this systemd, by name."""
    text = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("@"):
            current = found.setdefault(line.strip(), [])
        elif line.startswith("    ") and current is not None and not line.lstrip().startswith("#"):
            current.append(line.strip())
        elif line.startswith("#"):
            current = None
    return found


def members(name, groups):
    if not name.startswith("@"):
        return {name}
    return set().union(*(members(one, groups) for one in groups[name]))


def allowed(unit):
    """A filter that begins with a list of allowed calls always has those of @default as well (systemd.exec(5))."""
    groups = sets()
    calls = members("@default", groups)
    for line in unit.all("SystemCallFilter"):
        listed = set().union(*(members(name, groups) for name in line.lstrip("~").split()))
        calls = calls - listed if line.startswith("~") else calls | listed
    return calls


def confine(unit):
    import pyseccomp as seccomp

    calls = allowed(unit)
    families = [getattr(socket, name) for name in unit["RestrictAddressFamilies"].split()]
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    prot = 2
    for name in calls - {"mmap", "mprotect", "socket", "pkey_mprotect"}:
        try:
            rules.add_rule(seccomp.ALLOW, name)
        except (OSError, RuntimeError, ValueError):
            continue  # not on this machine
    assert unit["MemoryDenyWriteExecute"] == "yes"
    both = mmap.PROT_WRITE | mmap.PROT_EXEC
    for some in (0, mmap.PROT_WRITE, mmap.PROT_EXEC):
        rules.add_rule(seccomp.ALLOW, "mmap", seccomp.Arg(prot, seccomp.MASKED_EQ, both, some))
    rules.add_rule(seccomp.ALLOW, "mprotect", seccomp.Arg(prot, seccomp.MASKED_EQ, mmap.PROT_EXEC, 0))
    for family in families:
        rules.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, int(family)))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    assert unit["NoNewPrivileges"] == "yes"
    ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    rules.load()


def main():
    os.umask(0o077)
    confine(Unit(Path(sys.argv[1]).read_text()))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
