"""A rolling restart in its short form: each of three nodes ends and comes back below HAProxy, and no client sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.server import BINARY

HERE = Path(__file__).resolve().parent


@pytest.mark.nightly
def test_three_restarts(tmp_path, report):
    result = tmp_path / "result.json"
    environment = os.environ | {"SLUICE_BINARY": str(BINARY), "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-m", "rolling", "--restarts", "3", "--json", result],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(result.read_text())
    assert document["passed"] and document["failures"] == []
    assert document["restarts"] == 3
    # It did what it is for.
    for kind in ("Tuspy", "Phone", "Boto3", "Tencent", "Aliyun", "PyVimeo", "Backend"):
        assert document["counts"][f"{kind}: uploads"] >= 3, document["counts"]
    report(done.stdout.splitlines()[-1])
