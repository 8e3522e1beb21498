"""Speed and cost of an upload through the gateway to an object store, compared with boto3's own upload.

Run it by `benchmarks/relay`. The store is a private Ceph in memory; nothing is asserted about time.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import tools
import transfer
from common import GIBIBYTE, HERE, KEY, MEBIBYTE, in_turns, say
from processes import Peer, free_port
from servers import BINARY, TUSD

sys.path.insert(0, str(HERE.parent / "acceptance"))

from harness.rgw import RGW  # noqa: E402

BUCKET = "benchmark"
# Parts and requests at once: boto3's defaults, and faster values for most stores.
BOTO3 = {"boto3": (8, 10), "boto3, 64 MiB x 4": (64, 4)}
UPLOADER = """
import json, sys, time
import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

parameters = json.loads(sys.argv[1])
session = boto3.session.Session(parameters["access"], parameters["secret"], region_name="us-east-1")
config = Config(s3={"addressing_style": "path"}, proxies={})
client = session.client("s3", endpoint_url=parameters["url"], config=config)
client.head_bucket(Bucket=parameters["bucket"])
size = parameters["part"] << 20
transfer = TransferConfig(multipart_threshold=size, multipart_chunksize=size, max_concurrency=parameters["threads"])
begin = time.monotonic()
client.upload_file(parameters["file"], parameters["bucket"], "boto3", Config=transfer)
print(time.monotonic() - begin)
"""


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/relay", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the upload (default 1024)")
    parser.add_argument("--part-mebibytes", type=int, default=64, help="size of each of 32 uploads (default 64)")
    parser.add_argument("--pool-mebibytes", type=int, default=128, help="memory of the gateway for parts (default 128)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows only that everything runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.mebibytes, options.part_mebibytes = 1, 24, 6
    return options


# Peers


def start_sluice(folder, store, pool):
    folder.mkdir(parents=True)
    # With the mark of the gateway before it, whose state this one has not.
    store.wipe(BUCKET)
    environment = store.settings(bucket=BUCKET) | {
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_LISTEN": "none",
        "SLUICE_ADMIN_KEY": KEY,
        "SLUICE_LOG_LEVEL": "warning",
        "SLUICE_S3_MEMORY": f"{pool}MiB",
    }
    return Peer(
        "sluice",
        [BINARY, "serve"],
        environment=environment,
        pattern=r"listening on https?://127\.0\.0\.1:(\d+)\n",
        log=folder / "output",
        protocol="tus",
        creation="/files",
    )


def start_tusd(folder, store):
    """The binary that SLUICE_PEER_TUSD names, by its documented flags."""
    folder.mkdir(parents=True)
    port = free_port()
    where = ["-host", "127.0.0.1", "-port", str(port), "-base-path", "/files/", "-verbose=false"]
    return Peer(
        "tusd",
        [TUSD, *where, "-s3-bucket", BUCKET, "-s3-endpoint", store.url],
        environment={
            "AWS_ACCESS_KEY_ID": store.access_key,
            "AWS_SECRET_ACCESS_KEY": store.secret_key,
            "AWS_REGION": store.region,
        },
        port=port,
        log=folder / "output",
        protocol="tus",
        creation="/files/",
    )


class Boto3:
    """Not a server, but measured as one: `cpu_seconds` are those of the processes that have ended."""

    def __init__(self, name, store):
        self.name = name
        self.store = store
        self.part, self.threads = BOTO3[name]

    def send(self, source):
        parameters = {"url": self.store.url, "access": self.store.access_key, "secret": self.store.secret_key}
        parameters |= {"bucket": BUCKET, "file": str(source), "part": self.part, "threads": self.threads}
        command = [sys.executable, "-c", UPLOADER, json.dumps(parameters)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {done.stderr}")
        return float(done.stdout)

    def stop(self):
        pass


def send(peer, source):
    """Seconds of one upload."""
    if isinstance(peer, Boto3):
        return peer.send(source)
    (path,) = transfer.create(peer, 1, source.stat().st_size)
    method, headers = transfer.METHODS["tus"], transfer.HEADERS["tus"]
    return tools.curl(peer.url + path, source, method, headers)[0]


def check_and_wipe(store, peer, digest, size, is_thorough):
    """The store must have the file; then it is removed, so that the next one finds as much memory."""
    sizes = {key: found for key, found in store.keys(BUCKET).items() if not key.endswith((".info", ".part"))}
    if list(sizes.values()) != [size]:
        sys.exit(f"{peer.name}: the store has {sizes}, not one object of {size} bytes")
    if is_thorough and store.object_hash(next(iter(sizes)), BUCKET)[0] != digest:
        sys.exit(f"{peer.name}: the object has other bytes than the file")
    store.wipe(BUCKET)


def measure_single(folder, store, source, digest, options):
    size = source.stat().st_size
    with contextlib.ExitStack() as stack:
        peers = [Boto3(name, store) for name in BOTO3]
        peers.append(start_sluice(folder / "sluice", store, options.pool_mebibytes))
        if TUSD:
            peers.append(start_tusd(folder / "tusd", store))
        for peer in peers:
            stack.callback(peer.stop)
        results = {peer.name: {"seconds": [], "cpu": []} for peer in peers}
        for number, peer in in_turns(peers, options.rounds, "relay"):
            before = cpu_seconds(peer)
            seconds = send(peer, source)
            cpu = cpu_seconds(peer) - before
            check_and_wipe(store, peer, digest, size, is_thorough=number == 0)
            if number > 0:
                results[peer.name]["seconds"].append(seconds)
                results[peer.name]["cpu"].append(cpu)
        for peer in peers:
            if isinstance(peer, Peer):
                results[peer.name]["peakMemory"] = peer.peak_memory()
    for one in results.values():
        speeds = [size / 1e6 / seconds for seconds in one["seconds"]]
        one["megabytesPerSecond"], one["best"], one["worst"] = statistics.median(speeds), max(speeds), min(speeds)
        one["cpuSecondsPerGibibyte"] = statistics.median(one["cpu"]) / (size / GIBIBYTE)
    return results


def cpu_seconds(peer):
    if isinstance(peer, Peer):
        return peer.cpu_seconds()
    times = os.times()
    return times.children_user + times.children_system


# Many at once


class Watch:
    """Samples a process: its private memory, and its open files without a name."""

    def __init__(self, pid):
        self.pid = pid
        self.private = 0
        self.files = set()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.is_over.wait(0.01):
            text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
            private = sum(int(value) for value in re.findall(r"(?m)^Private_\w+:\s+(\d+) kB", text)) * 1024
            self.private = max(self.private, private)
            for link in Path(f"/proc/{self.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(link)
                    if target.startswith("/") and ("spool" in target or target.endswith(" (deleted)")):
                        self.files.add(target)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def measure_many(folder, store, source, digest, options):
    """32 uploads at once to a new gateway."""
    size = source.stat().st_size
    peer = start_sluice(folder / "many", store, options.pool_mebibytes)
    with contextlib.ExitStack() as stack:
        stack.callback(peer.stop)
        before = peer.peak_memory()
        paths = transfer.create(peer, 32, size)
        method, headers = transfer.METHODS["tus"], transfer.HEADERS["tus"]
        begin = time.monotonic()
        with Watch(peer.process.pid) as watch, concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda path: tools.curl(peer.url + path, source, method, headers), paths))
        seconds = time.monotonic() - begin
        hashes = {found for found, _ in store.hashes(BUCKET).values()}
        if hashes != {digest} or len(store.keys(BUCKET)) != 32:
            sys.exit(f"the store has not the 32 files: {store.keys(BUCKET)}")
        store.wipe(BUCKET)
        return {
            "megabytesPerSecond": 32 * size / 1e6 / seconds,
            "pool": options.pool_mebibytes * MEBIBYTE,
            "before": before,
            "peakMemory": peer.peak_memory(),
            "peakPrivate": watch.private,
            "spoolFiles": len(watch.files),
        }


def print_all(results):
    options = results["options"]
    print(f"\n{options['mebibytes']} MiB to Ceph in memory, medians of {options['rounds']} rounds")
    print(f"{'':24}{'MB/s':>8}{'(worst-best)':>16}{'CPU s/GiB':>11}{'peak MiB':>10}{'of boto3':>10}")
    base = results["single"]["boto3"]["megabytesPerSecond"]
    for name, one in results["single"].items():
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        peak = f"{one['peakMemory'] / MEBIBYTE:.1f}" if "peakMemory" in one else ""
        print(
            f"{name:24}{one['megabytesPerSecond']:8.0f}{span:>16}{one['cpuSecondsPerGibibyte']:11.2f}{peak:>10}"
            f"{one['megabytesPerSecond'] / base:10.2f}"
        )
    many = results["many"]
    print(
        f"\n32 x {options['part_mebibytes']} MiB at once, pool of {many['pool'] / MEBIBYTE:.0f} MiB:"
        f" {many['megabytesPerSecond']:.0f} MB/s; resident {many['before'] / MEBIBYTE:.0f} MiB before, at most"
        f" {many['peakMemory'] / MEBIBYTE:.0f} MiB ({many['peakPrivate'] / MEBIBYTE:.0f} MiB its own), wanted at most"
        f" {64 + many['pool'] / MEBIBYTE:.0f}; spool files seen: {many['spoolFiles']}"
    )
    ratio = results["single"]["sluice"]["megabytesPerSecond"] / base
    mean = " (sizes of --quick: this means nothing)" if options["quick"] else ""
    print(f"relay / boto3: {ratio:.2f}, wanted at least 0.90: {'ok' if ratio >= 0.9 else 'short'}{mean}")
    if not TUSD:
        print("left out: tusd (SLUICE_PEER_TUSD names no binary)")


def main():
    options = parse_options()
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > options.mebibytes * MEBIBYTE * 1.2
    results = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "loadBefore": os.getloadavg()},
        "options": vars(options),
    }
    with (
        tempfile.TemporaryDirectory(prefix="relay-") as folder,
        tempfile.TemporaryDirectory(prefix="relay-", dir=memory if has_room else None) as sources,
        RGW(Path(folder) / "store") as store,
    ):
        store.make_bucket(BUCKET)
        for part, size, measure in (
            ("single", options.mebibytes, measure_single),
            ("many", options.part_mebibytes, measure_many),
        ):
            say(f"{part}: {size} MiB")
            source = tools.make_source(Path(sources) / "source", size * MEBIBYTE)
            with open(source, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            results[part] = measure(Path(folder), store, source, digest, options)
            source.unlink()
    results["machine"]["loadAfter"] = os.getloadavg()
    print_all(results)
    loads = [f"{results['machine'][key][0]:.2f}" for key in ("loadBefore", "loadAfter")]
    print(f"load average before and after: {', '.join(loads)}")
    target = HERE / "results" / f"relay-{results['date'].replace(':', '').replace('+0000', 'Z')}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    sys.exit(main())
