"""What a thousand slow uploaders cost a fast one, and the server in memory.

    python3 benchmarks/slow_uploaders.py --rounds 5
    python3 benchmarks/slow_uploaders.py --step 1536 --json slow.json

A fast client sends uploads by sendfile(2), one after the other, to one server: `alone`, `beside` slow uploaders of the
same server, and `elsewhere`, while the same slow uploaders go to a second server. The slow ones are one small process,
which needs some of the same cores; `elsewhere` shows how much the fast one loses to that, and to the work itself,
wherever it is done. All in turns; medians; nothing is asserted about time. SLUICE_BINARY chooses the binary.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

BINARY = os.environ.get("SLUICE_BINARY", str(Path(__file__).resolve().parent.parent / ".build/release/sluice"))
KEY = "slk_benchmark_key_0123456789abcdefghijklmnopqrstuvwx"
MEBIBYTE = 1 << 20
MODES = ("alone", "beside", "elsewhere")
TUS = {"Tus-Resumable": "1.0.0"}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
# Longer than any slow upload gets within a turn.
SLOW_LENGTH = 64 * MEBIBYTE


class Gateway:
    """A server on a port of its own."""

    def __init__(self, folder, durability):
        folder.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")} | {
            "SLUICE_DATA_DIR": str(folder / "data"),
            "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
            "SLUICE_ADMIN_KEY": KEY,
            "SLUICE_DURABILITY": durability,
            "SLUICE_LOG_LEVEL": "warning",
        }
        with open(folder / "errors", "wb") as errors:
            self.process = subprocess.Popen([BINARY, "serve"], env=environment, stdout=subprocess.PIPE, stderr=errors)
        for line in self.process.stdout:
            if found := re.search(rb"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        sys.exit(f"the server did not start: {(folder / 'errors').read_text(errors='replace')}")

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Resident and private bytes."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        sizes = {name: int(size) * 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
        return {"resident": sizes["Rss"], "private": sizes["Private_Clean"] + sizes["Private_Dirty"]}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()


class Client:
    """Requests on one connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, headers, wanted):
        self.connection.request(method, path, headers=TUS | headers)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != wanted:
            sys.exit(f"{method} {path}: {answer.status} {body!r}")
        return answer, body

    def create(self, length):
        answer, _ = self.ask("POST", "/files", AUTHORIZED | {"Upload-Length": str(length)}, 201)
        return urlsplit(answer.headers["Location"]).path

    def delete(self, path):
        self.ask("DELETE", path, {}, 204)

    def offset(self, path):
        """As an onlooker, who does not disturb the upload."""
        identifier = path.rsplit("/", 1)[1].split(".", 1)[0]
        _, body = self.ask("GET", f"/v1/uploads/{identifier}", AUTHORIZED, 200)
        return json.loads(body)["offset"]


def patch_head(path, length, extra=""):
    return (
        f"PATCH {path} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
        f"Content-Type: application/offset+octet-stream\r\nContent-Length: {length}\r\n{extra}\r\n"
    ).encode()


# Slow


class Crowd:
    """Slow uploaders in a process of their own, from `with` on; the uploads are deleted at its end."""

    def __init__(self, port, options):
        self.port, self.options = port, options
        self.paths = []

    def __enter__(self):
        client = Client(self.port)
        self.paths = [client.create(SLOW_LENGTH) for _ in range(self.options.slow)]
        processes = multiprocessing.get_context("fork")
        self.end, child = processes.Pipe()
        self.process = processes.Process(target=drip, args=(self.port, self.paths, self.options, child), daemon=True)
        self.process.start()
        child.close()
        self.end.recv()
        return self

    def __exit__(self, *_):
        self.end.send("stop")
        with contextlib.suppress(EOFError):
            self.sent, self.cpu = self.end.recv()
        self.process.join(10)
        self.process.kill()
        client = Client(self.port)
        for path in self.paths:
            client.delete(path)

    def stored(self):
        """Bytes of all that the server has."""
        client = Client(self.port)
        return sum(client.offset(path) for path in self.paths)


def drip(port, paths, options, end):
    """Sends a step on each connection in its turn, in small batches, until it is told to stop."""
    piece = os.urandom(options.step)
    extra = "Upload-Checksum: sha256 " + "A" * 43 + "=\r\n" if options.checksum else ""
    connections = []
    for path in paths:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(patch_head(path, SLOW_LENGTH, extra) + piece)
        connections.append(connection)
    end.send("ready")
    per_second = options.slow * options.rate / options.step
    began, sent, cpu = time.monotonic(), 0, time.process_time()
    while not end.poll(0.01):
        due = int((time.monotonic() - began) * per_second)
        while sent < due:
            connections[sent % len(connections)].sendall(piece)
            sent += 1
    share = (time.process_time() - cpu) / (time.monotonic() - began)
    for connection in connections:
        connection.close()
    end.send(((sent + len(connections)) * options.step, share))


# Fast


def fast_upload(port, source, size):
    """Seconds from the first byte of the request to the end of the answer."""
    client = Client(port)
    path = client.create(size)
    with socket.create_connection(("127.0.0.1", port)) as connection, open(source, "rb") as file:
        began = time.monotonic()
        connection.sendall(patch_head(path, size))
        position = 0
        while position < size:
            position += os.sendfile(connection.fileno(), file.fileno(), position, size - position)
        answer = connection.recv(4096)
        seconds = time.monotonic() - began
    if not answer.startswith(b"HTTP/1.1 204 "):
        sys.exit(f"fast upload: {answer!r}")
    # Deleted at once, so that the next one reuses its pages.
    client.delete(path)
    return seconds


def turn(mode, peers, source, options):
    """Seconds of each fast upload, CPU of both servers, and what the crowd cost."""
    crowd = None
    with contextlib.ExitStack() as stack:
        before = peers[0].memory()
        if mode != "alone":
            crowd = stack.enter_context(Crowd(peers[MODES.index(mode) - 1].port, options))
            # All of them have had their turn.
            time.sleep(min(5, options.step / options.rate))
        during = peers[0].memory()
        cpu = [peer.cpu_seconds() for peer in peers]
        seconds = [fast_upload(peers[0].port, source, options.mebibytes * MEBIBYTE) for _ in range(options.uploads)]
        cpu = [peer.cpu_seconds() - one for peer, one in zip(peers, cpu, strict=True)]
        after = peers[0].memory()
        stored = crowd.stored() if crowd and not options.checksum else None
    result = {"seconds": seconds, "cpu": cpu, "memory": [before, during, after]}
    if crowd:
        # Of what was sent in all; the look was a little before the end.
        result |= {"slowStored": stored, "slowSent": crowd.sent, "clientCores": crowd.cpu}
    return result


# Results


def summarize(turns, options):
    size = options.mebibytes * MEBIBYTE
    result = {}
    for mode in MODES:
        seconds = [one for result in turns[mode] for one in result["seconds"]]
        result[mode] = {
            "megabytesPerSecond": size / 1e6 / statistics.median(seconds),
            "best": size / 1e6 / min(seconds),
            "worst": size / 1e6 / max(seconds),
            "cpuPerUpload": statistics.median(one["cpu"][0] / options.uploads for one in turns[mode]),
        }
    medians = {mode: [statistics.median(one["seconds"]) for one in turns[mode]] for mode in MODES}
    result["timeOfAlone"] = {
        mode: statistics.median(one / alone for one, alone in zip(medians[mode], medians["alone"], strict=True))
        for mode in MODES[1:]
    }
    result["timeOfElsewhere"] = statistics.median(
        one / other for one, other in zip(medians["beside"], medians["elsewhere"], strict=True)
    )
    grown = [[one["memory"][index] for index in (0, 1)] for one in turns["beside"]]
    for name in ("resident", "private"):
        # The first time shows what a crowd takes; later ones find what the allocator kept.
        result[f"{name}PerSlowUploader"] = (grown[0][1][name] - grown[0][0][name]) / options.slow
        result[f"{name}Most"] = max(part[name] for one in turns["beside"] for part in one["memory"])
    return result


def print_results(result, turns, options):
    rate = options.slow * options.rate / MEBIBYTE
    print(
        f"\n{options.mebibytes} MiB uploads, durability {options.durability}; {options.slow} slow uploaders of"
        f" {options.rate} B/s in steps of {options.step} B ({rate:.1f} MiB/s in all); medians"
    )
    print(f"{'fast upload':14}{'MB/s':>8}{'(worst-best)':>16}{'time of alone':>15}{'server CPU s':>14}")
    for mode in MODES:
        one = result[mode]
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        ratio = f"{result['timeOfAlone'].get(mode, 1):.3f}"
        print(f"{mode:14}{one['megabytesPerSecond']:8.0f}{span:>16}{ratio:>15}{one['cpuPerUpload']:14.3f}")
    print(f"time beside, of elsewhere: {result['timeOfElsewhere']:.3f}")
    first = turns["beside"][0]
    print(
        f"memory per slow uploader: {result['residentPerSlowUploader'] / 1024:.1f} KiB resident,"
        f" {result['privatePerSlowUploader'] / 1024:.1f} KiB private; most {result['residentMost'] / MEBIBYTE:.1f} MiB"
    )
    if first["slowStored"] is not None:
        shares = [one["slowStored"] / one["slowSent"] for one in turns["beside"] + turns["elsewhere"]]
        print(f"slow bytes stored when last looked at, of those sent until the end: {min(shares):.2f} or more")
    print(f"cores that the slow clients took: {max(one['clientCores'] for one in turns['beside']):.3f} at most")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds after one that warms up (default 5)")
    parser.add_argument("--uploads", type=int, default=4, help="fast uploads in each turn (default 4)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of a fast upload (default 1024)")
    parser.add_argument("--slow", type=int, default=1000, help="number of slow uploaders (default 1000)")
    parser.add_argument("--rate", type=int, default=3072, help="bytes a second of each (default 3072)")
    parser.add_argument("--step", type=int, default=6144, help="bytes of each sent at once (default 6144)")
    parser.add_argument("--checksum", action="store_true", help="the slow ones announce a checksum")
    parser.add_argument("--durability", default="acknowledged", choices=["acknowledged", "completed", "none"])
    parser.add_argument("--directory", type=Path, help="where the servers store (default: a new folder in .build)")
    parser.add_argument("--json", type=Path, help="where to write all figures (default: they are printed)")
    return parser.parse_args()


def main():
    options = parse()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, options.slow + 1000)), hard))
    parent = options.directory or Path(__file__).resolve().parent.parent / ".build"
    parent.mkdir(parents=True, exist_ok=True)
    shared = Path("/dev/shm")
    turns = {mode: [] for mode in MODES}
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent)))
        sources = tempfile.TemporaryDirectory(prefix="benchmark-", dir=shared if shared.is_dir() else parent)
        source = Path(stack.enter_context(sources)) / "source"
        source.write_bytes(os.urandom(MEBIBYTE) * options.mebibytes)
        peers = []
        for name in ("first", "second"):
            peers.append(Gateway(folder / name, options.durability))
            stack.callback(peers[-1].stop)
        for number in range(options.rounds + 1):
            # The order moves on, so that none always follows the same.
            for mode in MODES[number % 3 :] + MODES[: number % 3]:
                os.sync()
                result = turn(mode, peers, source, options)
                # The memory of the first crowd counts, its time does not.
                if number > 0:
                    turns[mode].append(result)
                elif mode == "beside":
                    first = result["memory"]
            print(f"round {number} of {options.rounds}{' (warm-up)' if number == 0 else ''}", file=sys.stderr)
    turns["beside"][0]["memory"] = first
    result = summarize(turns, options)
    print_results(result, turns, options)
    print(f"load average before and after: {load:.2f}, {os.getloadavg()[0]:.2f}")
    document = {"options": {key: str(value) for key, value in vars(options).items()}, "result": result, "turns": turns}
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    else:
        print(json.dumps(document["result"]))


if __name__ == "__main__":
    main()
