"""The soak in its short form: right responses, and descriptors and threads as before. Also tests its judge."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.data import MIB
from harness.server import BINARY
from soak.judge import LEAST_LOAD, judge
from soak.watch import Sample

HERE = Path(__file__).resolve().parent


@pytest.mark.nightly
def test_half_a_minute(tmp_path, report):
    result = tmp_path / "soak.json"
    options = ["--minutes", "0.5", "--json", result, "--directory", tmp_path]
    environment = os.environ | {"SLUICE_BINARY": str(BINARY), "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-m", "soak", *options], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(result.read_text())
    assert document["passed"] and document["failures"] == []
    # It did what it is for.
    counts = document["counts"]
    for name in ("uploads completed", "signatures verified", "downloads of a range", "cut by reset", "garbage: table"):
        assert counts[name] >= 5, counts
    assert {"plain", "tls"} == document["samples"].keys()
    report(done.stdout.splitlines()[-1])


# The judge


def samples(rise=0.0, **end):
    """Twice as long as it takes to judge memory; what is resident rises by so many bytes a second."""
    usual = {"descriptors": 20, "threads": 26, "metrics": {"bad": 0, "storage errors": 0}}

    def sample(phase, time, **values):
        # Scatters, as memory does.
        size = int(40 * MIB + rise * time + (time * 7919 % 13 - 6) / 6 * MIB)
        return Sample(phase, time, **(usual | {"resident": size, "private": size - 30 * MIB} | values))

    load = [sample("load", time) for time in range(0, 2 * LEAST_LOAD, 5)]
    return [sample("idle", 0), *load, sample("end", 2 * LEAST_LOAD, **end)]


def names_of_bad(series):
    return {check.name for check in judge(series) if not check.is_good}


def test_flat_values_pass():
    assert names_of_bad(samples()) == set()
    assert names_of_bad(samples(pipe_ends=8, descriptors=28)) == set()


@pytest.mark.parametrize(
    ("end", "name"),
    [
        ({"descriptors": 23}, "descriptors"),
        ({"descriptors": 90, "pipe_ends": 70}, "pipe ends kept"),
        ({"threads": 29}, "threads"),
        ({"metrics": {"bad": 1, "storage errors": 0}}, "answers 500, 502, 504"),
        ({"metrics": {"bad": 0, "storage errors": 1}}, "failures of storage and state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_leaks_are_detected(end, name):
    assert names_of_bad(samples(**end)) == {name}


def test_rising_memory_is_detected():
    bad = names_of_bad(samples(rise=20 * MIB / LEAST_LOAD / 2))
    assert {"resident, under load", "resident, trend", "resident, idle"} <= bad
    assert {"private, under load", "private, trend", "private, idle"} <= bad
