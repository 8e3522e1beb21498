"""Measures Sluice beside nginx and a bare splice sink, in turns, with the same client, and prints medians and ratios.

Run it by `benchmarks/run`. Nothing is asserted about time; an answer that is not a success ends it.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import resident

HERE = Path(__file__).resolve().parent
BINARY = os.environ.get("SLUICE_BINARY", str(HERE.parent / ".build/release/sluice"))
KEY = "slk_benchmark_key_0123456789abcdefghijklmnopqrstuvwx"
MEBIBYTE = 1 << 20
CONNECTIONS = (1, 64, 512)


class Peer:
    """A server process (with its children) on loopback."""

    def __init__(self, name, command, environment=None, port=None, pattern=None, log=None):
        self.name = name
        self.output = open(log, "wb+")
        variables = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        self.process = subprocess.Popen(
            command, env=variables | (environment or {}), stdout=self.output, stderr=subprocess.STDOUT
        )
        self.port = port or self._find_port(pattern)
        self.url = f"http://127.0.0.1:{self.port}"
        self._wait()

    def _find_port(self, pattern):
        for _ in range(500):
            if found := re.search(pattern, Path(self.output.name).read_text(errors="replace")):
                return int(found[1])
            time.sleep(0.02)
        self.stop()
        sys.exit(f"{self.name} did not start: {Path(self.output.name).read_text(errors='replace')}")

    def _wait(self):
        for _ in range(500):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.02)
        self.stop()
        sys.exit(f"{self.name} does not listen: {Path(self.output.name).read_text(errors='replace')}")

    def processes(self):
        yield self.process.pid
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        yield from map(int, children)

    def cpu_seconds(self):
        total = 0
        for pid in self.processes():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def peak_memory(self):
        """Largest of its processes, in bytes."""
        found = []
        for pid in self.processes():
            status = Path(f"/proc/{pid}/status").read_text()
            found.append(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024)
        return max(found)

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        if self.process.poll() is None:
            self.process.kill()
        self.output.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def start_nginx(folder):
    command = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if not command:
        sys.exit("nginx is missing: scripts/setup --bench installs it (Debian package nginx-light)")
    (folder / "up").mkdir(parents=True)
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    constant = json.dumps(sample_answer()).replace("'", "")
    (folder / "nginx.conf").write_text(
        f"""
        {user} worker_processes auto; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        worker_rlimit_nofile 20000; events {{ worker_connections 12000; }}
        http {{
            access_log off; keepalive_requests 1000000000; keepalive_timeout 300; default_type application/json;
            client_body_temp_path {folder}/body; client_max_body_size 0; client_body_buffer_size 256k;
            proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
            uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
            server {{
                listen 127.0.0.1:{port};
                location /up/ {{ root {folder}; dav_methods PUT DELETE; create_full_put_path on; }}
                location /constant {{ return 200 '{constant}'; }}
            }}
        }}
        """
    )
    arguments = [command, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    return Peer("nginx", arguments, port=port, log=folder / "output")


def sample_answer():
    """As long as an answer of Sluice."""
    return {
        "currentTimeStamp": 1571215095,
        "expireTime": 1571301495,
        "random": 2206253333,
        "secretId": "A" * 36,
        "signature": "A" * 176,
    }


def start_sink(folder, program, synchronous, copying=False):
    folder.mkdir(parents=True)
    command = [str(program), str(folder), *(["sync"] if synchronous else []), *(["copy"] if copying else [])]
    name = f"{'copy sink' if copying else 'sink'}{' + fdatasync' if synchronous else ''}"
    return Peer(name, command, pattern=r"^(\d+)\n", log=folder / "output")


def start_sluice(folder, durability):
    folder.mkdir(parents=True)
    environment = {
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_ADMIN_KEY": KEY,
        "SLUICE_DURABILITY": durability,
    }
    pattern = r"listening on http://127\.0\.0\.1:(\d+)"
    return Peer(f"sluice, {durability}", [BINARY, "serve"], environment, pattern=pattern, log=folder / "output")


# Uploads


def curl(*arguments):
    """Seconds that curl took for an upload; ends the program unless the answer is a success."""
    command = [
        "curl",
        "-sS",
        "-o",
        os.devnull,
        "-H",
        "Expect:",
        "-w",
        "%{time_total} %{http_code}",
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    seconds, _, status = done.stdout.partition(" ")
    if done.returncode != 0 or not status.startswith("2"):
        sys.exit(f"{' '.join(command)}: {done.stdout} {done.stderr}")
    return float(seconds)


def put(peer, folder, source):
    """Seconds and CPU seconds; the file is deleted after both were read, so that its pages serve the next."""
    before = peer.cpu_seconds()
    seconds = curl("-T", source, f"{peer.url}/up/file")
    cpu = peer.cpu_seconds() - before
    for path in (folder / "upload", folder / "up" / "file"):
        path.unlink(missing_ok=True)
    return seconds, cpu


def patch(peer, source):
    """Seconds of the PATCH and CPU seconds with the creation; then the upload is deleted, as in `put`."""
    before = peer.cpu_seconds()
    headers = {"Authorization": f"Bearer {KEY}", "Tus-Resumable": "1.0.0", "Upload-Length": str(source.stat().st_size)}
    request = urllib.request.Request(f"{peer.url}/files", method="POST", headers=headers)
    with urllib.request.urlopen(request) as answer:
        url = answer.headers["Location"]
    fields = ["Tus-Resumable: 1.0.0", "Upload-Offset: 0", "Content-Type: application/offset+octet-stream"]
    seconds = curl("-X", "PATCH", "-T", source, *[text for field in fields for text in ("-H", field)], url)
    cpu = peer.cpu_seconds() - before
    request = urllib.request.Request(url, method="DELETE", headers={"Tus-Resumable": "1.0.0"})
    urllib.request.urlopen(request).close()
    return seconds, cpu


def measure_uploads(folder, source_folder, rounds, size):
    program = folder / "splice_sink"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    subprocess.run([compiler, "-O2", "-Wall", "-o", program, HERE / "peers" / "splice_sink.c"], check=True)
    source = source_folder / "source"
    with open(source, "wb") as file:
        for _ in range(size // MEBIBYTE):
            file.write(os.urandom(MEBIBYTE))
    # Everything into the page cache.
    with open(source, "rb") as file:
        while file.read(16 * MEBIBYTE):
            pass

    peers = []
    with contextlib.ExitStack() as stack:

        def add(peer, upload):
            stack.callback(peer.stop)
            peers.append((peer, upload))

        for name, synchronous, copying in (
            ("sink", False, False),
            ("sink-sync", True, False),
            ("copy", False, True),
            ("copy-sync", True, True),
        ):
            here = folder / name
            add(start_sink(here, program, synchronous, copying), lambda peer, here=here: put(peer, here, source))
        here = folder / "nginx"
        add(start_nginx(here), lambda peer: put(peer, here, source))
        for durability in ("none", "acknowledged"):
            add(start_sluice(folder / f"sluice-{durability}", durability), lambda peer: patch(peer, source))

        results = {peer.name: {"seconds": [], "cpu": []} for peer, _ in peers}
        for number in range(rounds + 1):
            # The first round warms up and is not counted; the order moves on, so that none always follows the same.
            order = peers[number % len(peers) :] + peers[: number % len(peers)]
            for peer, upload in order:
                # What was written before is on disk, so that its write-back does not disturb.
                os.sync()
                seconds, cpu = upload(peer)
                if number > 0:
                    results[peer.name]["seconds"].append(seconds)
                    results[peer.name]["cpu"].append(cpu)
            print(f"upload round {number} of {rounds}{' (warm-up)' if number == 0 else ''}", file=sys.stderr)
        for peer, _ in peers:
            results[peer.name]["peakMemory"] = peer.peak_memory()
    source.unlink()

    gibibytes = size / (1 << 30)
    for one in results.values():
        speeds = [size / 1e6 / seconds for seconds in one["seconds"]]
        one |= {
            "megabytesPerSecond": statistics.median(speeds),
            "best": max(speeds),
            "worst": min(speeds),
            "cpuSecondsPerGibibyte": statistics.median(one["cpu"]) / gibibytes,
        }
    return results


def print_uploads(results, size):
    print(f"\nUpload of {size // MEBIBYTE} MiB over loopback; medians")
    print(
        f"{'':24}{'MB/s':>8}{'(worst-best)':>16}{'CPU s/GiB':>11}{'peak MiB':>10}{'of its sink':>13}{'CPU of it':>11}"
    )
    for name, one in results.items():
        sink = results["sink + fdatasync" if name == "sluice, acknowledged" or name.endswith("fdatasync") else "sink"]
        speed = one["megabytesPerSecond"] / sink["megabytesPerSecond"]
        cpu = one["cpuSecondsPerGibibyte"] / sink["cpuSecondsPerGibibyte"] if sink["cpuSecondsPerGibibyte"] else 0
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        print(
            f"{name:24}{one['megabytesPerSecond']:8.0f}{span:>16}{one['cpuSecondsPerGibibyte']:11.2f}"
            f"{one['peakMemory'] / MEBIBYTE:10.1f}{speed:13.2f}{cpu:11.2f}"
        )


# Minting


def wrk(url, seconds, connections):
    """Requests, requests a second, and the median and 99th percentile of the latency in milliseconds."""
    sizes = [f"-t{min(2, connections)}", f"-c{connections}", f"-d{seconds}s"]
    command = ["wrk", *sizes, "-s", str(HERE / "mint.lua"), url]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SLUICE_BENCHMARK_KEY": KEY})
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+)", done.stdout)
    if not found or int(found[4]) or not int(found[1]):
        sys.exit(f"{' '.join(command)}: {done.stdout} {done.stderr}")
    requests, microseconds = int(found[1]), int(found[2])
    return requests, requests / (microseconds / 1e6), int(found[5]) / 1000, int(found[3]) / 1000


def measure_minting(folder, rounds, seconds, connections):
    with contextlib.ExitStack() as stack:
        peers = []
        for peer, path in (
            (start_nginx(folder / "nginx-constant"), "/constant"),
            (start_sluice(folder / "sluice-mint", "acknowledged"), "/v1/tencent/signatures"),
        ):
            stack.callback(peer.stop)
            peers.append((peer, path))
        names = {"nginx": "nginx, constant answer", "sluice, acknowledged": "sluice, signature"}
        results = {name: {"rates": [], "medians": [], "latencies": [], "cpu": []} for name in names.values()}
        for number in range(rounds + 1):
            for peer, path in peers[number % 2 :] + peers[: number % 2]:
                before = peer.cpu_seconds()
                requests, rate, median, latency = wrk(peer.url + path, seconds if number else 1, connections)
                cpu = peer.cpu_seconds() - before
                if number > 0:
                    one = results[names[peer.name]]
                    one["rates"].append(rate)
                    one["medians"].append(median)
                    one["latencies"].append(latency)
                    one["cpu"].append(cpu / requests * 1e6)
            print(f"mint round {number} of {rounds}{' (warm-up)' if number == 0 else ''}", file=sys.stderr)
        for peer, _ in peers:
            results[names[peer.name]]["peakMemory"] = peer.peak_memory()
    for one in results.values():
        one |= {
            "requestsPerSecond": statistics.median(one["rates"]),
            "latency50Milliseconds": statistics.median(one["medians"]),
            "latency99Milliseconds": statistics.median(one["latencies"]),
            "cpuMicrosecondsPerRequest": statistics.median(one["cpu"]),
        }
    return results


def print_minting(results, connections):
    print(f"\nPOST over {connections} connections; medians")
    print(f"{'':24}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'peak MiB':>10}{'of nginx':>10}")
    base = results["nginx, constant answer"]["requestsPerSecond"]
    for name, one in results.items():
        print(
            f"{name:24}{one['requestsPerSecond']:12.0f}{one['latency50Milliseconds']:9.2f}{one['latency99Milliseconds']:9.2f}"
            f"{one['cpuMicrosecondsPerRequest']:9.1f}{one['peakMemory'] / MEBIBYTE:10.1f}"
            f"{one['requestsPerSecond'] / base:10.2f}"
        )


def measure_idle(folder, count):
    results = {}
    for start, path in ((start_nginx, "/constant"), (lambda here: start_sluice(here, "none"), "/healthz")):
        peer = start(folder / str(len(results)))
        try:
            results[peer.name] = resident.idle(peer, path, count)
        finally:
            peer.stop()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (default 7)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of an upload (default 1024)")
    parser.add_argument("--seconds", type=int, default=5, help="length of a mint round (default 5)")
    parser.add_argument("--directory", type=Path, help="where the servers store (default: a new folder in .build)")
    parser.add_argument("--only", choices=["upload", "mint", "idle", "start"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows only that everything runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.mebibytes, options.seconds = 1, 16, 1

    parent = options.directory or HERE.parent / ".build"
    parent.mkdir(parents=True, exist_ok=True)
    memory = Path("/dev/shm")
    free = os.statvfs(memory).f_bavail * os.statvfs(memory).f_frsize if memory.is_dir() else 0
    size = options.mebibytes * MEBIBYTE
    results = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "loadBefore": os.getloadavg()},
        "options": {"rounds": options.rounds, "mebibytes": options.mebibytes, "seconds": options.seconds},
    }
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent) as folder,
        tempfile.TemporaryDirectory(prefix="benchmark-", dir=memory if free > size * 1.2 else parent) as source,
    ):
        folder = Path(folder)
        chosen = [options.only] if options.only else ["upload", "mint", "idle", "start"]
        if "upload" in chosen:
            results["upload"] = measure_uploads(folder, Path(source), options.rounds, size)
        if "mint" in chosen:
            results["mint"] = {
                count: measure_minting(folder / f"mint-{count}", options.rounds, options.seconds, count)
                for count in CONNECTIONS
            }
        if "idle" in chosen:
            results["idle"] = measure_idle(folder / "idle", 200 if options.quick else 10_000)
        if "start" in chosen:
            count = 2 if options.quick else 10
            results["start"] = resident.start_up(lambda number: start_sluice(folder / f"s{number}", "none"), count)
    results["machine"]["loadAfter"] = os.getloadavg()
    if "upload" in results:
        print_uploads(results["upload"], size)
    for count, one in results.get("mint", {}).items():
        print_minting(one, count)
    for name, one in results.get("idle", {}).items():
        before, after = (one[key] / MEBIBYTE for key in ("before", "after"))
        text = f"{before:.1f} -> {after:.1f} MiB, {one['bytesPerConnection']:.0f} bytes each"
        print(f"\n{one['connections']} idle connections, {name}: {text}")
    if "start" in results:
        print(f"\nstart to first answer: {results['start']['median']:.0f} ms (median)")
    loads = [f"{results['machine'][key][0]:.2f}" for key in ("loadBefore", "loadAfter")]
    print(f"\nload average before and after: {', '.join(loads)}")
    target = HERE / "results" / f"{results['date'].replace(':', '').replace('+0000', 'Z')}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    main()
