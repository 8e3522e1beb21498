"""The cost of a thousand slow uploaders: for a fast one, and in memory of the server.

    python3 benchmarks/slow_uploaders.py --rounds 5
    python3 benchmarks/slow_uploaders.py --step 1536 --json slow.json

A fast client sends uploads by sendfile(2), one after the other, to one of two servers. Each has a crowd of slow
uploaders that sends or is silent on command: `alone` while both are silent, `beside` while those of the same server
send, `elsewhere` while those of the other one do. A crowd is one small process, which needs some of the same cores;
`elsewhere` shows how much the fast one loses to that, and to the work itself, wherever it is done. The three take turns
upload by upload, so that whatever else the machine does hits all of them; medians, also of the ratios of neighbours;
nothing is asserted about time. SLUICE_BINARY chooses the binary.
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

from processes import environment_with

BINARY = os.environ.get("SLUICE_BINARY", str(Path(__file__).resolve().parent.parent / ".build/release/sluice"))
KEY = "slk_benchmark_key_0123456789abcdefghijklmnopqrstuvwx"
MEBIBYTE = 1 << 20
MODES = ("alone", "beside", "elsewhere")
TUS = {"Tus-Resumable": "1.0.0"}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
# Longer than any slow upload gets.
SLOW_LENGTH = 1024 * MEBIBYTE
# Seconds for a crowd to get going, or to become silent.
PAUSE = 0.2


class Gateway:
    """A server on a port of its own."""

    def __init__(self, folder, durability, settings=None, prefix=()):
        """`prefix`: a command that runs the server in its place."""
        folder.mkdir()
        environment = environment_with(
            {
                "SLUICE_DATA_DIR": str(folder / "data"),
                "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
                "SLUICE_OBJECT_LISTEN": "none",
                "SLUICE_ADMIN_KEY": KEY,
                "SLUICE_DURABILITY": durability,
                "SLUICE_LOG_LEVEL": "warning",
                "SLUICE_TIMEOUTS_BODY_PROGRESS": "1h",
            }
            | (settings or {})
        )
        with open(folder / "errors", "wb") as errors:
            command = [*prefix, BINARY, "serve"]
            self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors)
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
        """Reads the upload without interrupting it."""
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
    """Slow uploaders in a process of their own; the uploads are deleted at its end."""

    def __init__(self, port, options):
        self.port, self.options = port, options
        client = Client(port)
        self.paths = [client.create(SLOW_LENGTH) for _ in range(options.slow)]
        processes = multiprocessing.get_context("fork")
        self.end, child = processes.Pipe()
        self.process = processes.Process(target=drip, args=(port, self.paths, options, child), daemon=True)
        self.process.start()
        child.close()
        self.ask("pause")

    def ask(self, command):
        """Bytes that it has sent so far, and CPU seconds that it took for them while it sent."""
        self.end.send(command)
        return self.end.recv()

    def stored(self):
        """Bytes of all that the server has."""
        client = Client(self.port)
        return sum(client.offset(path) for path in self.paths)

    def stop(self):
        with contextlib.suppress(EOFError, OSError):
            self.ask("stop")
        self.process.join(10)
        self.process.kill()
        client = Client(self.port)
        for path in self.paths:
            client.delete(path)


def drip(port, paths, options, end):
    """Sends a step on each connection in its turn, in small batches, when `go` is set."""
    piece = os.urandom(options.step)
    extra = "Upload-Checksum: sha256 " + "A" * 43 + "=\r\n" if options.checksum else ""
    connections = []
    for path in paths:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(patch_head(path, SLOW_LENGTH, extra) + piece)
        connections.append(connection)
    per_second = options.slow * options.rate / options.step
    command, sent = "pause", len(connections)
    while command != "stop":
        if command == "go":
            began, before = time.monotonic(), sent
            while not end.poll(0.01):
                due = before + int((time.monotonic() - began) * per_second)
                while sent < due:
                    connections[sent % len(connections)].sendall(piece)
                    sent += 1
        command = end.recv()
        end.send((sent * options.step, time.process_time()))


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


def measure(gateways, source, options):
    """Of each mode, seconds and CPU seconds of each upload; memory; and how far the slow uploads came."""
    size = options.mebibytes * MEBIBYTE
    memory = [gateways[0].memory()]
    with contextlib.ExitStack() as stack:
        crowds = []
        for gateway in gateways:
            crowds.append(Crowd(gateway.port, options))
            stack.callback(crowds[-1].stop)
        time.sleep(1)
        memory.append(gateways[0].memory())
        sending = {"alone": None, "beside": crowds[0], "elsewhere": crowds[1]}
        results = {mode: {"seconds": [], "cpu": []} for mode in MODES}
        for number in range(-options.uploads, options.rounds * options.uploads):
            # The order moves on, so that none always follows the same.
            for mode in MODES[number % 3 :] + MODES[: number % 3]:
                if sending[mode]:
                    sending[mode].ask("go")
                time.sleep(PAUSE)
                cpu = gateways[0].cpu_seconds()
                seconds = fast_upload(gateways[0].port, source, size)
                cpu = gateways[0].cpu_seconds() - cpu
                if sending[mode]:
                    sending[mode].ask("pause")
                if number >= 0:  # What comes before warms up.
                    results[mode]["seconds"].append(seconds)
                    results[mode]["cpu"].append(cpu)
            memory.append(gateways[0].memory())
            if (number + 1) % options.uploads == 0:
                print(f"round {(number + 1) // options.uploads} of {options.rounds}", file=sys.stderr)
        time.sleep(1)
        sent, cpu = crowds[0].ask("pause")
        stored = None if options.checksum else crowds[0].stored()
    return {"modes": results, "memory": memory, "slowSent": sent, "slowStored": stored, "slowClientCPU": cpu}


# Results


def summarize(measured, options):
    size = options.mebibytes * MEBIBYTE
    modes, memory = measured["modes"], measured["memory"]
    summary = {}
    for mode in MODES:
        seconds = modes[mode]["seconds"]
        ratios = [one / alone for one, alone in zip(seconds, modes["alone"]["seconds"], strict=True)]
        summary[mode] = {
            "megabytesPerSecond": size / 1e6 / statistics.median(seconds),
            "best": size / 1e6 / min(seconds),
            "worst": size / 1e6 / max(seconds),
            "timeOfAlone": statistics.median(ratios),
            "bestTimeOfAlone": min(seconds) / min(modes["alone"]["seconds"]),
            "cpuPerUpload": statistics.median(modes[mode]["cpu"]),
        }
    pairs = zip(modes["beside"]["seconds"], modes["elsewhere"]["seconds"], strict=True)
    summary["besideOfElsewhere"] = statistics.median(one / other for one, other in pairs)
    for name in ("resident", "private"):
        summary[f"{name}PerSlowUploader"] = (memory[1][name] - memory[0][name]) / options.slow
        summary[f"{name}Most"] = max(one[name] for one in memory)
    return summary


def print_results(summary, measured, options):
    rate = options.slow * options.rate / MEBIBYTE
    print(
        f"\n{options.mebibytes} MiB uploads, durability {options.durability}; {options.slow} slow uploaders of"
        f" {options.rate} B/s in steps of {options.step} B ({rate:.1f} MiB/s in all); medians"
    )
    titles = ("MB/s", "(worst-best)", "time of alone", "(of best)", "server CPU s")
    print(f"{'fast upload':14}{titles[0]:>8}{titles[1]:>16}{titles[2]:>15}{titles[3]:>11}{titles[4]:>14}")
    for mode in MODES:
        one = summary[mode]
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        ratios = f"{one['timeOfAlone']:15.3f}{one['bestTimeOfAlone']:11.3f}"
        print(f"{mode:14}{one['megabytesPerSecond']:8.0f}{span:>16}{ratios}{one['cpuPerUpload']:14.3f}")
    print(f"time beside, of elsewhere: {summary['besideOfElsewhere']:.3f}")
    resident, private = (summary[f"{name}PerSlowUploader"] / 1024 for name in ("resident", "private"))
    most = summary["residentMost"] / MEBIBYTE
    print(f"memory per slow uploader: {resident:.1f} KiB resident, {private:.1f} KiB private; most {most:.1f} MiB")
    if measured["slowStored"] is not None:
        share = measured["slowStored"] / measured["slowSent"]
        print(f"bytes of the slow ones that were stored: {share:.3f} of {measured['slowSent'] / MEBIBYTE:.1f} MiB sent")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds after one that warms up (default 5)")
    parser.add_argument("--uploads", type=int, default=6, help="fast uploads of each mode in a round (default 6)")
    parser.add_argument("--mebibytes", type=int, default=512, help="size of a fast upload (default 512)")
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
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * options.slow + 1000)), hard))
    parent = options.directory or Path(__file__).resolve().parent.parent / ".build"
    parent.mkdir(parents=True, exist_ok=True)
    shared = Path("/dev/shm")
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent)))
        sources = tempfile.TemporaryDirectory(prefix="benchmark-", dir=shared if shared.is_dir() else parent)
        source = Path(stack.enter_context(sources)) / "source"
        source.write_bytes(os.urandom(MEBIBYTE) * options.mebibytes)
        gateways = []
        for name in ("first", "second"):
            gateways.append(Gateway(folder / name, options.durability))
            stack.callback(gateways[-1].stop)
        measured = measure(gateways, source, options)
    summary = summarize(measured, options)
    print_results(summary, measured, options)
    print(f"load average before and after: {load:.2f}, {os.getloadavg()[0]:.2f}")
    if options.json:
        document = {"options": {key: str(value) for key, value in vars(options).items()}, "summary": summary}
        options.json.write_text(json.dumps(document | measured, indent=1) + "\n")
    else:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
