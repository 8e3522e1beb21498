"""File systems of a test's own."""

import contextlib
import os
import shutil
import subprocess

import pytest

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
    """A file system with so many bytes, of the kind `tmpfs` or `ext4`; the latter with blocks of that many bytes."""
    options, device = ["-t", "tmpfs", "-o", f"size={size}"], "tmpfs"
    if kind == "ext4":
        if not shutil.which("mkfs.ext4", path=SBIN["PATH"]):
            pytest.skip("there is no mkfs.ext4")
        device, options = folder.with_suffix(".img"), ["-o", "loop"]
        with open(device, "wb") as file:
            file.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(block), device], check=True, env=SBIN)
    with mounted(folder, options, device):
        yield folder
