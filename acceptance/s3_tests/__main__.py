"""Runs a copy of s3-tests against a gateway, and compares each case with docs/s3-tests.md; see `scripts/s3-tests`."""

import argparse
import contextlib
import fnmatch
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from harness.api import API
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer
from harness.server import ROOT

LIST = ROOT / "docs/s3-tests.md"
CASES = ["s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py"]
# Kinds of cases that are never run: docs/s3-tests.md says why.
LEFT_OUT = "s3website s3website_routing_rules s3website_redirect_location storage_class".split()
LEFT_OUT += "lifecycle_expiration lifecycle_transition cloud_transition cloud_restore".split()
# Sections of the configuration, each with a key of its own.
USERS = ["s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"]
# Of one case, in seconds: it ends what hangs.
TIMEOUT = 300


def expected_failures(path):
    """Patterns and reasons of all tables, whose rows are `| `test_a_*` `test_b` | reason |` below a heading."""
    found, heading = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif row := re.fullmatch(r"\| (`test_[^|]*`) \| *(.*?) *\|", line):
            reason = f"{heading}: {row[2]}" if row[2] else heading
            found += [(pattern, reason) for pattern in re.findall(r"`([^`]*)`", row[1])]
    return found


def configuration(server):
    """What s3-tests read, with a key for each of their users."""
    api = API(server.url, server.admin_key)
    lines = ["[DEFAULT]", "host = 127.0.0.1", f"port = {server.object_url.rpartition(':')[2]}", "is_secure = False"]
    lines += ["[fixtures]", "bucket prefix = s3-tests-{random}-"]
    for user in USERS:
        name = user.replace(" ", "-")
        key = api.post("/v1/keys", {"name": name, "scopes": ["admin"]})
        assert key.status_code == 201, key.text
        access, secret = server.pair(key.json()["id"])
        # The owner in all documents.
        name = "sluice" if user == "s3 main" else name
        lines += [f"[{user}]", f"access_key = {access}", f"secret_key = {secret}", f"user_id = {name}"]
        lines += [f"display_name = {name}", f"email = {name}@example.com", "tenant = tenant", "api_name = us-east-1"]
    return "\n".join(lines) + "\n"


def outcomes(report):
    """`passed`, `failed` or `skipped`, and the reason, by case."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag: child.get("message") or "" for child in case}
        name = case.get("name")
        for kind in ("failure", "error", "skipped"):
            if kind in kinds:
                found[name] = ("skipped" if kind == "skipped" else "failed", kinds[kind])
                break
        else:
            found.setdefault(name, ("passed", ""))
    return found


def run(options, folder):
    """Outcome by case."""
    server = ObjectServer(folder / "data", free_port(), environment=dict(one.split("=", 1) for one in options.setting))
    with server:
        # One case counts all buckets.
        server.client().delete_bucket(Bucket=BUCKET)
        (folder / "s3tests.conf").write_text(configuration(server))
        markers = " and ".join(f"not {one}" for one in LEFT_OUT)
        command = [options.python, "-m", "pytest", *CASES, "-q", "--tb=short", "-p", "no:cacheprovider", "-m", markers]
        command += ["-n", str(options.processes) if options.processes > 1 else "0", f"--timeout={TIMEOUT}"]
        command += ["--junitxml", str(folder / "report.xml"), *options.arguments]
        own = ("SLUICE_", "PYTEST_", "PYTHON", "AWS_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        environment |= {"S3TEST_CONF": str(folder / "s3tests.conf"), "PYTHONDONTWRITEBYTECODE": "1"}
        with open(folder / "output.txt", "wb") as output:
            done = subprocess.run(command, cwd=options.copy, env=environment, stdout=output, stderr=output)
        if done.returncode not in (0, 1):
            print((folder / "output.txt").read_text(errors="replace")[-4000:])
            sys.exit(f"error: pytest ended with {done.returncode}")
    if options.keep:
        for name in ("report.xml", "output.txt", "data.log"):
            (options.keep / name).write_bytes((folder / name).read_bytes())
    return outcomes(folder / "report.xml")


def judge(results, listed, is_whole):
    """Prints what differs from the list; true if every case that must pass did."""
    reasons = {}
    used = Counter()
    for name in results:
        for pattern, reason in listed:
            # Brackets are part of the names of cases.
            if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")):
                reasons.setdefault(name, reason)
                used[pattern] += 1
    broken = [name for name, (kind, _) in results.items() if kind != "passed" and name not in reasons]
    mended = [name for name, (kind, _) in results.items() if kind == "passed" and name in reasons]
    for name in broken:
        kind, message = results[name]
        print(f"{kind}: {name}: {message[:300]}")
    for name in mended:
        print(f"passes, although docs/s3-tests.md has it: {name} ({reasons[name]})")
    if is_whole:
        for pattern, reason in listed:
            if not used[pattern]:
                print(f"no such case, although docs/s3-tests.md has it: {pattern} ({reason})")
    counts = Counter(kind for kind, _ in results.values())
    figures = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped"))
    print(f"{len(results)} cases: {figures}; {len(reasons)} in the list")
    return not broken


def main():
    parser = argparse.ArgumentParser(prog="scripts/s3-tests", description=__doc__.splitlines()[0])
    parser.add_argument("copy", type=Path, help="a copy of https://github.com/ceph/s3-tests")
    parser.add_argument("--python", required=True, help="the Python that has what s3-tests need")
    text = "how many cases at once (default 1; a case that counts all buckets fails with more)"
    parser.add_argument("--processes", type=int, default=1, help=text)
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of the gateway")
    parser.add_argument("--keep", type=Path, help="a folder for the report, the output and the log of the gateway")
    # What is not known here goes to pytest, such as -k multipart.
    options, options.arguments = parser.parse_known_args()
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda *_: sys.exit(1))
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="s3-tests-")))
        results = run(options, folder)
    is_good = judge(results, expected_failures(LIST), not options.arguments)
    print(f"{'passed' if is_good else 'FAILED'} in {time.monotonic() - began:.0f} s")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
