"""Uploads of a file by awscli, and small requests, to the object endpoint, compared with an S3 emulator and Ceph.

Run it by `benchmarks/object`. Nothing is asserted about time.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import small_objects
import tools
from common import GIBIBYTE, HERE, KEY, MEBIBYTE, in_turns, say
from processes import Peer, cpu_seconds, free_port
from servers import BINARY

sys.path.insert(0, str(HERE.parent / "acceptance"))

from harness.objects import ObjectStore  # noqa: E402
from harness.rgw import RGW  # noqa: E402

BUCKET = "benchmark"
NAME = "object"
# The target ratio to each peer.
WANTED = {"moto": 1.0, "ceph": 0.9}


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/object", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the upload (default 1024)")
    parser.add_argument("--only", choices=["large", "small"], help="one part; default: both")
    parser.add_argument("--seconds", type=int, default=4, help="of each load of small requests (default 4)")
    parser.add_argument("--directory", type=Path, help="where Sluice stores (default: below .build)")
    parser.add_argument("--moto", type=Path, required=True, help="the program moto_server")
    parser.add_argument("--quick", action="store_true", help="128 MiB, and a second, once: shows only that it runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.mebibytes, options.seconds = 1, 128, 1
    return options


# Peers


@dataclass
class Target:
    """A store, and the processes that it consists of."""

    name: str
    store: ObjectStore
    pids: list
    end: object
    # A function: the last lines of its log.
    log_tail: object

    @property
    def url(self):
        return self.store.url

    def cpu_seconds(self):
        return cpu_seconds(self.pids)


def start_sluice(folder, durability):
    folder.mkdir(parents=True)
    port = free_port()
    environment = {
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}",
        "SLUICE_OBJECT_BUCKETS": BUCKET,
        "SLUICE_ADMIN_KEY": KEY,
        "SLUICE_DURABILITY": durability,
        "SLUICE_LOG_LEVEL": "warning",
    }
    name = f"sluice, {durability}"
    peer = Peer(name, [BINARY, "serve"], environment=environment, port=port, log=folder / "output")
    key = "key_" + hashlib.sha256(KEY.encode()).digest()[:8].hex()
    printed = subprocess.run(
        [BINARY, "keys", "pair", key], env=os.environ | environment, capture_output=True, text=True, check=True
    ).stdout
    pair = [line.partition("=")[2] for line in printed.splitlines()]
    return Target(name, ObjectStore(peer.url, *pair), [peer.process.pid], peer.stop, peer.log_tail)


def start_moto(folder, program):
    """Keeps objects in memory and in temporary files."""
    folder.mkdir(parents=True)
    port = free_port()
    command = [program, "-H", "127.0.0.1", "-p", str(port)]
    peer = Peer("moto", command, environment={"TMPDIR": str(folder)}, port=port, log=folder / "output")
    return Target("moto", ObjectStore(peer.url, "test", "test"), [peer.process.pid], peer.stop, peer.log_tail)


def start_ceph(folder):
    """Keeps objects in memory."""
    ceph = RGW(folder).start()
    return Target("ceph", ceph, [daemon.pid for daemon in (ceph.rgw, ceph.osd)], ceph.stop, ceph.rgw.log_tail)


# Uploads


def upload(target, source, folder):
    """Seconds that `aws s3 cp` takes, and its CPU seconds."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AWS_ACCESS_KEY_ID": target.store.access_key,
        "AWS_SECRET_ACCESS_KEY": target.store.secret_key,
        "AWS_REGION": target.store.region,
        "AWS_ENDPOINT_URL": target.store.url,
        "AWS_MAX_ATTEMPTS": "1",
    }
    command = [sys.executable, Path(sys.executable).with_name("aws"), "s3", "cp", "--only-show-errors"]
    before, begin = client_seconds(), time.monotonic()
    done = subprocess.run([*command, source, f"s3://{BUCKET}/{NAME}"], env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"{target.name}: {done.stdout}{done.stderr}")
    return seconds, client_seconds() - before


def client_seconds():
    times = os.times()
    return times.children_user + times.children_system


def check_and_wipe(target, digest, size, is_thorough):
    """The store must have the file; then it is removed, so that the next one finds as much room."""
    if target.store.keys(BUCKET) != {NAME: size}:
        sys.exit(f"{target.name}: the store has {target.store.keys(BUCKET)}, not one object of {size} bytes")
    if is_thorough and target.store.object_hash(NAME, BUCKET)[0] != digest:
        sys.exit(f"{target.name}: the object has other bytes than the file")
    target.store.wipe(BUCKET)


def measure(targets, folder, source, small, digest, options):
    size = source.stat().st_size
    results = {target.name: {"seconds": [], "start": [], "cpu": [], "client": []} for target in targets}
    for number, target in in_turns(targets, options.rounds, "object"):
        # Mostly the start of awscli, which does not count.
        start, _ = upload(target, small, folder)
        before = target.cpu_seconds()
        seconds, client = upload(target, source, folder)
        cpu = target.cpu_seconds() - before
        check_and_wipe(target, digest, size, is_thorough=number == 0)
        if number > 0:
            for name, value in {"seconds": seconds, "start": start, "cpu": cpu, "client": client}.items():
                results[target.name][name].append(value)
    for one in results.values():
        speeds = [size / 1e6 / (seconds - start) for seconds, start in zip(one["seconds"], one["start"], strict=True)]
        one["megabytesPerSecond"], one["best"], one["worst"] = statistics.median(speeds), max(speeds), min(speeds)
        for name in ("cpu", "client"):
            one[f"{name}SecondsPerGibibyte"] = statistics.median(one[name]) / (size / GIBIBYTE)
    return results


def print_all(results):
    options, peers = results["options"], results["peers"]
    print(f"\n{options['mebibytes']} MiB by aws s3 cp, medians of {options['rounds']} rounds")
    print(f"{'':24}{'MB/s':>8}{'(worst-best)':>16}{'CPU s/GiB':>11}{'of awscli':>11}{'to moto':>9}{'to ceph':>9}")
    for name, one in peers.items():
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        ratios = [one["megabytesPerSecond"] / peers[base]["megabytesPerSecond"] for base in WANTED]
        print(
            f"{name:24}{one['megabytesPerSecond']:8.0f}{span:>16}{one['cpuSecondsPerGibibyte']:11.2f}"
            f"{one['clientSecondsPerGibibyte']:11.2f}" + "".join(f"{ratio:9.2f}" for ratio in ratios)
        )
    mean = " (sizes of --quick: this means nothing)" if options["quick"] else ""
    for base, wanted in WANTED.items():
        ratio = peers["sluice, acknowledged"]["megabytesPerSecond"] / peers[base]["megabytesPerSecond"]
        state = "ok" if ratio >= wanted else "short"
        print(f"sluice, acknowledged / {base}: {ratio:.2f}, wanted at least {wanted:.2f}: {state}{mean}")


def main():
    options = parse_options()
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > options.mebibytes * MEBIBYTE * 1.2
    directory = options.directory or HERE.parent / ".build"
    directory.mkdir(parents=True, exist_ok=True)
    results = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "loadBefore": os.getloadavg()},
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="object-", dir=directory)))
        sources = stack.enter_context(tempfile.TemporaryDirectory(prefix="object-", dir=memory if has_room else None))
        source = tools.make_source(Path(sources) / "source", options.mebibytes * MEBIBYTE)
        small = tools.make_source(Path(sources) / "small", 1024)
        with open(source, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        targets = []
        for start in (
            lambda: start_sluice(folder / "none", "none"),
            lambda: start_sluice(folder / "acknowledged", "acknowledged"),
            lambda: start_moto(folder / "moto", options.moto),
            lambda: start_ceph(folder / "ceph"),
        ):
            targets.append(start())
            stack.callback(targets[-1].end)
            targets[-1].store.make_bucket(BUCKET)
        if options.only != "small":
            say(f"object: {options.mebibytes} MiB")
            results["peers"] = measure(targets, folder, source, small, digest, options)
            print_all(results)
        if options.only != "large":
            listed = small_objects.FEW_LISTED if options.quick else small_objects.LISTED
            # moto takes one request after the other.
            others = [target for target in targets if target.name != "moto"]
            results["small"] = small_objects.measure(others, BUCKET, options.rounds, options.seconds, listed)
            small_objects.print_table(results["small"], others)
    results["machine"]["loadAfter"] = os.getloadavg()
    loads = [f"{results['machine'][key][0]:.2f}" for key in ("loadBefore", "loadAfter")]
    print(f"load average before and after: {', '.join(loads)}")
    target = HERE / "results" / f"object-{results['date'].replace(':', '').replace('+0000', 'Z')}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    sys.exit(main())
