"""Runs the load and prints what came of it; see `scripts/soak`."""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness.data import MIB
from harness.tls import Certificate
from harness.wire import Closed
from soak.common import Log, Rate, Target
from soak.downloads import Downloader
from soak.garbage import Garbage
from soak.judge import Check, judge
from soak.report import print_report
from soak.small import Idler, Minter
from soak.uploads import Uploader
from soak.watch import take_sample, wait_until_idle

# How many of each for the server with this name.
CROWD = {
    "plain": {Uploader: 5, Minter: 2, Downloader: 2, Garbage: 2, Idler: 1},
    "tls": {Uploader: 2, Minter: 1, Downloader: 1, Garbage: 1, Idler: 1},
}
# A second, over both servers.
RATES = {"upload": 32 * MIB, "download": 64 * MIB, "mint": 500}
# Seconds that a worker may need to end what it is doing.
END_TIMEOUT = 120


class Soak:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.log = Log()
        self.rates = {name: Rate(value) for name, value in RATES.items()}
        self.targets = []
        self.samples = {}
        self.checks = {}
        self.begin = time.monotonic()
        self.began = 0

    def run(self):
        seconds = self.options.minutes * 60
        warm_up = min(120, seconds / 5)
        try:
            self.start()
            self.sample("start")
            self.load("warm-up", warm_up)
            self.settle("idle")
            self.load("load", seconds - warm_up)
            self.settle("end")
            self.checks = {target.name: judge(self.samples[target.name]) for target in self.targets}
        except (AssertionError, OSError, Closed) as failure:
            self.log.fail(f"the run broke off: {type(failure).__name__}: {failure}", is_last=True)
        finally:
            for target in self.targets:
                if failure := target.end():
                    self.log.fail(f"{target.name}: {failure}", is_last=True)
            self.check_logs()

    def start(self):
        self.targets.append(Target("plain", self.folder))
        certificate = Certificate(self.folder)
        self.targets.append(Target("tls", self.folder, certificate.context(), certificate.settings))
        self.samples = {target.name: [] for target in self.targets}

    def sample(self, phase):
        for target in self.targets:
            if target.server.process.poll() is not None:
                self.log.over.set()
                raise AssertionError(f"the server {target.name} has ended by itself: {target.server.log_tail(5)}")
            self.samples[target.name].append(take_sample(target, phase, self.begin))

    def load(self, phase, seconds):
        stop = threading.Event()
        workers = []
        for target in self.targets:
            for kind, count in CROWD[target.name].items():
                for number in range(count):
                    seed = f"{self.options.seed} {phase} {number}"
                    workers.append(kind(target, self.log, self.rates, stop, seed))
        interval = min(5, seconds / 12)
        end = time.monotonic() + seconds
        for worker in workers:
            worker.start()
        try:
            while (left := end - time.monotonic()) > 0 and not self.log.over.wait(min(left, interval)):
                self.sample(phase)
                self.tell(phase, end)
        finally:
            stop.set()
            deadline = time.monotonic() + END_TIMEOUT
            for worker in workers:
                worker.join(max(0, deadline - time.monotonic()))
        for worker in workers:
            if worker.is_alive():
                self.log.fail(f"{worker.name} did not end within {END_TIMEOUT} s")

    def settle(self, phase):
        for target in self.targets:
            if not wait_until_idle(target):
                self.log.fail(f"{target.name}: connections stay open without clients")
        self.sample(phase)

    def tell(self, phase, end):
        """A line on standard error now and then."""
        minute = int((time.monotonic() - self.begin) / 60)
        if minute > self.began:
            self.began = minute
            counts = self.log.counts
            text = f"{counts['uploads completed']} uploads, {counts['signatures verified']} signatures"
            left = max(0, end - time.monotonic())
            text += f", {counts['failures']} failures; {left:.0f} s left"
            print(f"minute {minute}, {phase}: {text}", file=sys.stderr)

    def check_logs(self):
        """No line of a server's log is an error; anything else would have been seen by nobody."""
        for target in self.targets:
            lines = target.server.log.read_text(errors="replace").splitlines()
            bad = [line for line in lines if '"level":"error"' in line or '"level":"critical"' in line]
            text = f"{len(bad)} (at most 0)" + "".join(f"\n    {line[:300]}" for line in bad[:5])
            self.checks.setdefault(target.name, []).append(Check("errors in the log", text, not bad))

    @property
    def is_good(self):
        checks = [check for checks in self.checks.values() for check in checks]
        is_complete = all(samples and samples[-1].phase == "end" for samples in self.samples.values())
        return is_complete and not self.log.failures and all(check.is_good for check in checks)


def write_json(soak, path):
    document = {
        "minutes": soak.options.minutes,
        "seed": soak.options.seed,
        "passed": soak.is_good,
        "counts": dict(sorted(soak.log.counts.items())),
        "failures": soak.log.failures,
        "checks": {name: [dataclasses.asdict(check) for check in checks] for name, checks in soak.checks.items()},
        "samples": {name: [dataclasses.asdict(one) for one in samples] for name, samples in soak.samples.items()},
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def end_by_signal(number, frame):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Mixed load for a given time, and a verdict.")
    parser.add_argument("--minutes", type=float, default=15, help="length of the load (default 15)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of everything random")
    parser.add_argument("--json", type=Path, help="where to write all samples and figures")
    parser.add_argument("--directory", type=Path, help="where the servers store (default: that for temporary files)")
    options = parser.parse_args()
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, end_by_signal)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=options.directory))
    print(f"seed {options.seed}, {options.minutes:g} minutes, servers in {folder}", file=sys.stderr)
    soak = Soak(options, folder)
    try:
        soak.run()
    except KeyboardInterrupt:
        soak.log.fail("interrupted", is_last=True)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    print_report(soak)
    if options.json:
        write_json(soak, options.json)
    sys.stdout.flush()
    # Without waiting for threads that hang.
    os._exit(0 if soak.is_good else 1)


if __name__ == "__main__":
    main()
