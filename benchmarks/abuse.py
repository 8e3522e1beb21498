"""What legitimate clients lose beside each kind of abuse: their rate and the 99th percentile of their times.

    benchmarks/abuse --seconds 5
    benchmarks/abuse --only slow-heads,many-connections --json abuse.json

Legitimate clients (127.0.0.2) create an upload, send 64 KiB and ask for its offset, at a steady rate that leaves the
machine time to spare. The abuse comes from 127.0.0.3, at a bounded rate, by one process. Each kind is measured in turn
with the same time without it, so that whatever else the machine does hits both; medians, also of the ratios. The
gateway limits both addresses alike. Everything ends by itself. Nothing is asserted; SLUICE_BINARY chooses the binary.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import resource
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from slow_uploaders import AUTHORIZED, KEY, TUS, Gateway

LEGITIMATE, ABUSIVE = "127.0.0.2", "127.0.0.3"
CLIENTS = 4
# Pause of each legitimate client between its rounds, in seconds.
THINK = 0.05
BODY = os.urandom(64 * 1024)
JSON = AUTHORIZED | {"Content-Type": "application/json"}
LIMITS = {
    "SLUICE_LIMITS_ADDRESS_EXEMPT": "",
    "SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "500",
    "SLUICE_LIMITS_ADDRESS_BURST": "1000",
    "SLUICE_LIMITS_ADDRESS_CONNECTIONS": "200",
    "SLUICE_LIMITS_ADDRESS_UPLOADS": "100",
    "SLUICE_LIMITS_SUBJECT_REQUESTS_PER_SECOND": "100",
    "SLUICE_LIMITS_SUBJECT_BURST": "100",
    "SLUICE_TIMEOUTS_HEAD": "2s",
    "SLUICE_TIMEOUTS_BODY_PROGRESS": "2s",
}


def connect(port, source=ABUSIVE):
    found = socket.create_connection(("127.0.0.1", port), 5, source_address=(source, 0))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


# Legitimate clients


def rounds(port, end):
    """The times of requests of one client until `end`, in seconds; a failure counts as at least one second."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(LEGITIMATE, 0))
    times = []

    def ask(method, path, headers, body=None):
        begin = time.monotonic()
        try:
            connection.request(method, path, body, TUS | headers)
            answer = connection.getresponse()
            answer.read()
            good = answer.status < 300
        except (OSError, http.client.HTTPException):
            connection.close()
            good, answer = False, None
        times.append(time.monotonic() - begin if good else max(1.0, time.monotonic() - begin))
        return answer if good else None

    while time.monotonic() < end:
        answer = ask("POST", "/files", AUTHORIZED | {"Upload-Length": str(len(BODY))})
        if answer:
            path = urlsplit(answer.headers["Location"]).path
            patch = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            ask("PATCH", path, patch, BODY)
            ask("HEAD", path, {})
        time.sleep(THINK)
    connection.close()
    return times


def measure(port, seconds):
    """Requests in a second, and the 99th percentile in seconds."""
    begin = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        times = sorted(sum(pool.map(lambda _: rounds(port, begin + seconds), range(CLIENTS)), []))
    return len(times) / (time.monotonic() - begin), times[int(len(times) * 0.99)]


# Abuse: each goes on until it is told to stop, with a pause that bounds what it needs itself


def crowd(port, stop, count, first, drip, pause=0.2):
    """Keeps connections open, and sends a byte on each now and then."""
    sockets = []
    while not stop.is_set():
        while len(sockets) < count and not stop.is_set():
            try:
                found = connect(port)
                found.setblocking(False)
                found.send(first)
                sockets.append(found)
            except OSError:
                break
            if len(sockets) % 50 == 0:
                time.sleep(0.01)
        alive = []
        for found in sockets:
            try:
                if drip:
                    found.send(drip)
                elif found.recv(1) == b"":
                    raise ConnectionError
                alive.append(found)
            except BlockingIOError:
                alive.append(found)
            except OSError:
                found.close()
        sockets = alive
        time.sleep(pause)
    for found in sockets:
        found.close()


def slow_heads(port, stop):
    crowd(port, stop, 1000, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"x")


def slow_bodies(port, stop):
    head = (
        f"PUT /v1/media/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: text/plain\r\n"
        "Content-Length: 1000000\r\n\r\n"
    )
    crowd(port, stop, 1000, head.encode(), b"x")


def many_connections(port, stop):
    crowd(port, stop, 2000, b"", b"", pause=0.1)


def flood(port, stop, request, each=20, pause=0.01):
    """Pipelines the same request on one connection after the other."""
    while not stop.is_set():
        with contextlib.suppress(OSError), connect(port) as found:
            found.settimeout(2)
            for _ in range(20):
                if stop.is_set():
                    return
                found.sendall(request * each)
                found.recv(1 << 20)
                time.sleep(pause)


def request(method, path, fields, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + f"\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def address_flood(port, stop):
    flood(port, stop, request("GET", "/healthz", {}))


def key_flood(port, stop):
    flood(port, stop, request("GET", "/v1/uploads?limit=100", AUTHORIZED))


def wrong_tokens(port, stop):
    fields = TUS | {"Authorization": "Bearer slg_" + "x" * 1000, "Upload-Length": "1"}
    flood(port, stop, request("POST", "/files", fields))


def huge_json(port, stop):
    body = b'{"subject":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    flood(port, stop, request("POST", "/v1/tus/tokens", JSON, body), each=1)


def many_tokens(port, stop):
    body = b'{"subject":"one","maxBytes":1}'
    flood(port, stop, request("POST", "/v1/tus/tokens", JSON, body))


KINDS = {
    "slow-heads": slow_heads,
    "slow-bodies": slow_bodies,
    "many-connections": many_connections,
    "address-flood": address_flood,
    "key-flood": key_flood,
    "wrong-tokens": wrong_tokens,
    "huge-json": huge_json,
    "many-tokens": many_tokens,
}


@contextlib.contextmanager
def abuse(kind, port):
    stop = multiprocessing.Event()
    process = multiprocessing.Process(target=KINDS[kind], args=(port, stop), daemon=True)
    process.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        stop.set()
        process.join(5)
        process.kill()
        process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement; there are six for each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=f"kinds, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--unlimited", action="store_true", help="without limits of addresses and subjects")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kinds = options.only.split(",") if options.only else list(KINDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 8192), hard))
    settings = {"SLUICE_LIMITS_ADDRESS_EXEMPT": "127.0.0.0/8"} if options.unlimited else LIMITS
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder) / "gateway", "none", settings)
        try:
            print(f"{'abuse':18}{'requests/s':>11}{'beside':>9}{'ratio':>7}{'p99 ms':>9}{'beside':>9}{'ratio':>7}")
            for kind in kinds:
                pairs = []
                for _ in range(options.rounds):
                    alone = measure(gateway.port, options.seconds)
                    with abuse(kind, gateway.port):
                        pairs.append((alone, measure(gateway.port, options.seconds)))
                    time.sleep(1)
                rate, beside, p99, p99_beside = (
                    statistics.median(pair[side][index] for pair in pairs) for index in (0, 1) for side in (0, 1)
                )
                rates = statistics.median(pair[1][0] / pair[0][0] for pair in pairs)
                tails = statistics.median(pair[1][1] / pair[0][1] for pair in pairs)
                results[kind] = {"rate": rates, "p99": tails}
                print(
                    f"{kind:18}{rate:11.0f}{beside:9.0f}{rates:7.2f}"
                    f"{p99 * 1000:9.1f}{p99_beside * 1000:9.1f}{tails:7.2f}",
                    flush=True,
                )
        finally:
            gateway.stop()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
