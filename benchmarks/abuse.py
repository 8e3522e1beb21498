"""What legitimate clients lose beside each kind of abuse: their rate and the 99th percentile of their times.

    benchmarks/abuse --seconds 5
    benchmarks/abuse --only slow-heads,many-connections --json abuse.json

Legitimate clients (127.0.0.2) create an upload, send 64 KiB and ask for its offset, at a steady rate that leaves the
machine time to spare. The abuse comes from 127.0.0.3, at a bounded rate, by one process; the flood of a key comes from
250 addresses. Each kind is measured in turn with the same time without it, so that whatever else the machine does hits
both; medians, also of the ratios. The gateway limits all addresses and keys alike.

The gateway has a core of its own. Clients and abuse share the others, where abuse runs only while no client wants to
(SCHED_IDLE): what is measured is what abuse costs inside the gateway, and not what its sender takes from the clients on
the same machine. `--shared` leaves all of that to the kernel.

Everything ends by itself. Nothing is asserted; SLUICE_BINARY chooses the binary.
"""

import argparse
import contextlib
import http.client
import itertools
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

from slow_uploaders import AUTHORIZED, TUS, Gateway

LEGITIMATE, ABUSIVE = "127.0.0.2", "127.0.0.3"
MANY = [f"127.0.1.{number}" for number in range(1, 251)]
CLIENTS = 4
# Pause of each legitimate client between its rounds, in seconds.
THINK = 0.05
BODY = os.urandom(64 * 1024)
JSON = {"Content-Type": "application/json"}
LIMITS = {
    "SLUICE_LIMITS_ADDRESS_EXEMPT": "",
    "SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "500",
    "SLUICE_LIMITS_ADDRESS_BURST": "1000",
    "SLUICE_LIMITS_ADDRESS_CONNECTIONS": "200",
    "SLUICE_LIMITS_ADDRESS_UPLOADS": "100",
    "SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "200",
    "SLUICE_LIMITS_KEY_BURST": "200",
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


class Abuse:
    """What a kind of abuse knows: where to, until when, and how much it has done."""

    def __init__(self, port, key, pace):
        self.port, self.key, self.pace = port, key, pace
        self.stop = multiprocessing.Event()
        # Connections of a crowd now, or requests of a flood so far.
        self.count = multiprocessing.Value("q", 0)

    @property
    def authorized(self):
        return {"Authorization": f"Bearer {self.key}"}


def crowd(about, count, first, drip, pause=0.2):
    """Keeps connections open, and sends a byte on each now and then."""
    port, stop = about.port, about.stop
    sockets = []
    while not stop.is_set():
        about.count.value = len(sockets)
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


def slow_heads(about):
    crowd(about, 1000, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"x")


def slow_bodies(about):
    head = (
        f"PUT /v1/media/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {about.key}\r\nContent-Type: text/plain\r\n"
        "Content-Length: 1000000\r\n\r\n"
    )
    crowd(about, 1000, head.encode(), b"x")


def many_connections(about):
    crowd(about, 2000, b"", b"", pause=0.1)


def flood(about, request, each=20, weight=1, sources=(ABUSIVE,)):
    """Pipelines the same request on one connection after the other; one of weight n counts as n for the pace."""
    pause = each * weight / about.pace
    for source in itertools.cycle(sources):
        with contextlib.suppress(OSError), connect(about.port, source) as found:
            found.settimeout(2)
            for _ in range(20):
                if about.stop.is_set():
                    return
                found.sendall(request * each)
                found.recv(1 << 20)
                about.count.value += each
                time.sleep(pause)


def request(method, path, fields, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + f"\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def address_flood(about):
    flood(about, request("GET", "/healthz", {}))


def key_flood(about):
    flood(about, request("GET", "/v1/uploads?limit=20", about.authorized), sources=MANY)


def wrong_tokens(about):
    fields = TUS | {"Authorization": "Bearer slg_" + "x" * 1000, "Upload-Length": "1"}
    flood(about, request("POST", "/files", fields))


def huge_json(about):
    body = b'{"subject":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    flood(about, request("POST", "/v1/tus/tokens", about.authorized | JSON, body), each=1, weight=20)


def many_tokens(about):
    body = b'{"subject":"one","maxBytes":1}'
    flood(about, request("POST", "/v1/tus/tokens", about.authorized | JSON, body))


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


def run(kind, about, is_idle):
    if is_idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    KINDS[kind](about)


@contextlib.contextmanager
def abuse(kind, about, is_idle):
    about.stop.clear()
    process = multiprocessing.Process(target=run, args=(kind, about, is_idle), daemon=True)
    process.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        about.stop.set()
        process.join(5)
        process.kill()
        process.join()


def new_key(port):
    """A key of the abuser's own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(LEGITIMATE, 0))
    body = {"name": "abuse", "scopes": ["read", "mint", "upload"]}
    connection.request("POST", "/v1/keys", json.dumps(body), AUTHORIZED | JSON)
    answer = connection.getresponse()
    return json.loads(answer.read())["secret"]


def measured(gateway, seconds, about):
    """Rate and 99th percentile of the clients, the gateway's share of a core, and what the abuse did in a second."""
    begin, cpu, count = time.monotonic(), gateway.cpu_seconds(), about.count.value
    rate, tail = measure(gateway.port, seconds)
    passed = time.monotonic() - begin
    return rate, tail, (gateway.cpu_seconds() - cpu) / passed, (about.count.value - count) / passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement; there are two for each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=f"kinds, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--unlimited", action="store_true", help="without limits of addresses, keys and subjects")
    parser.add_argument("--shared", action="store_true", help="gateway, clients and abuse on all cores alike")
    parser.add_argument("--pace", type=int, default=2000, help="requests per second of a flood, at most")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kinds = options.only.split(",") if options.only else list(KINDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 8192), hard))
    settings = {"SLUICE_LIMITS_ADDRESS_EXEMPT": "127.0.0.0/8"} if options.unlimited else LIMITS
    cores = sorted(os.sched_getaffinity(0))
    is_apart = len(cores) > 1 and not options.shared
    prefix = ["taskset", "-c", str(cores[-1])] if is_apart else []
    if is_apart:
        os.sched_setaffinity(0, cores[:-1])
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder) / "gateway", "none", settings, prefix)
        try:
            about = Abuse(gateway.port, new_key(gateway.port), options.pace)
            names = "requests/s", "beside", "ratio", "p99 ms", "beside", "ratio", "CPU", "beside", "abuse"
            print(f"{'abuse':18}" + "".join(f"{name:>11}" for name in names))
            for kind in kinds:
                pairs = []
                for _ in range(options.rounds):
                    alone = measured(gateway, options.seconds, about)
                    with abuse(kind, about, is_apart):
                        pairs.append((alone, measured(gateway, options.seconds, about)))
                        crowd_of = about.count.value
                    about.count.value = 0
                    # What was refused, and what has to end.
                    time.sleep(1)
                alone, beside = (
                    [statistics.median(pair[side][index] for pair in pairs) for index in range(4)] for side in (0, 1)
                )
                rates = statistics.median(pair[1][0] / pair[0][0] for pair in pairs)
                tails = statistics.median(pair[1][1] / pair[0][1] for pair in pairs)
                is_flood = kind not in ("slow-heads", "slow-bodies", "many-connections")
                done = f"{beside[3]:9.0f}/s" if is_flood else f"{crowd_of:7} open"
                results[kind] = {"rate": rates, "p99": tails, "gateway CPU": [alone[2], beside[2]]}
                results[kind]["abuse"] = done.strip()
                print(
                    f"{kind:18}{alone[0]:11.0f}{beside[0]:11.0f}{rates:11.2f}"
                    f"{alone[1] * 1000:11.1f}{beside[1] * 1000:11.1f}{tails:11.2f}"
                    f"{alone[2]:11.0%}{beside[2]:11.0%}{done:>12}"
                    f"  {'ok' if rates >= 0.9 and tails <= 2 else 'short'}",
                    flush=True,
                )
        finally:
            gateway.stop()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
