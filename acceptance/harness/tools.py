"""Programs of others that tests use: from a package of PyPI, beside this Python, or from the system."""

import os
import sys
from pathlib import Path

import pytest

from harness.daemon import program

ROOT = Path(__file__).resolve().parents[2]


def tool(name, package):
    """The path of a program. Without it, the test is skipped, or fails where everything must be there."""
    own = Path(sys.executable).parent / name
    if own.is_file():
        return str(own)
    try:
        return program(name, folders=[ROOT / ".build/nginx/usr/sbin"], package=package)
    except AssertionError as missing:
        lacking(str(missing))


def lacking(reason):
    if os.environ.get("SLUICE_TEST_REQUIRE"):
        pytest.fail(reason)
    pytest.skip(reason)
