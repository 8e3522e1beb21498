"""File systems of a test's own."""

import contextlib
import shutil
import subprocess

import pytest


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
