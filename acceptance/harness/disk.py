"""File systems of a test's own."""

import contextlib
import errno
import os
import shutil
import subprocess

import pytest

from harness.tools import lacking

SBIN = os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}


@contextlib.contextmanager
def mounted(folder, options, device):
    """Mounts it for a while; skips the test if mounting is not possible."""
    folder.mkdir()
    command = ["mount", *options, str(device), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True) if shutil.which("mount") else None
    if done is None or done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip() if done else 'there is no mount'}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def small(folder, kind, size, block=4096):
    """A file system with so many bytes: `tmpfs`, `ext4`, `xfs` or `btrfs`; ext4 with blocks of that many."""
    options, device = ["-t", "tmpfs", "-o", f"size={size}"], "tmpfs"
    if kind != "tmpfs":
        if not shutil.which(f"mkfs.{kind}", path=SBIN["PATH"]):
            lacking(f"there is no mkfs.{kind}")
        device, options = folder.with_suffix(".img"), ["-o", "loop"]
        with open(device, "wb") as file:
            file.truncate(size)
        own = {"ext4": ["-q", "-F", "-m", "0", "-b", str(block)], "xfs": ["-q"], "btrfs": ["-q"]}
        subprocess.run([f"mkfs.{kind}", *own[kind], device], check=True, env=SBIN)
    with mounted(folder, options, device):
        yield folder


def take_all(path):
    """Appends to a file until the disk has no free block."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 65536, 4096, 512):
            while True:
                try:
                    written = file.write(bytes(size))
                except OSError as error:
                    assert error.errno in (errno.ENOSPC, errno.EDQUOT), error
                    break
                if written < size:
                    break
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())
