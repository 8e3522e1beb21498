"""Many hostile clients at once. A good client is served all the time, and afterwards the server has released its
resources: descriptors, threads, memory."""

import asyncio
import contextlib
import itertools
import multiprocessing
import random
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest

from harness.data import MIB
from harness.naps import Naps
from harness.server import ADMIN_KEY, Server
from harness.wire import Closed, Wire, head

TIMEOUTS = {
    "SLUICE_TIMEOUTS_HEAD": "1s",
    "SLUICE_TIMEOUTS_IDLE": "2s",
    "SLUICE_TIMEOUTS_BODY_PROGRESS": "1s",
    "SLUICE_LIMITS_BODY_RATE": "5",
    "SLUICE_TIMEOUTS_WRITE": "1s",
}
POST = head(
    "POST",
    "/v1/tencent/signatures",
    [("Authorization", f"Bearer {ADMIN_KEY}"), ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")],
)
SEED = 20_240_607


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("plain") / "data", environment=TIMEOUTS) as server:
        warm_up(server, None)
        yield server


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """With the default timeouts, so that a machine that stands still for a second does not end a request."""
    with Server(tmp_path_factory.mktemp("patient") / "data") as server:
        warm_up(server, None)
        yield server


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory, certificate):
    environment = TIMEOUTS | certificate.settings
    with Server(tmp_path_factory.mktemp("encrypted") / "data", environment=environment) as server:
        warm_up(server, certificate.context())
        yield server


def warm_up(server, context):
    """Makes the server fill its caches and the heap that the allocator keeps."""

    async def crowd(address):
        await asyncio.gather(
            *(exchange(address, [head("GET", "/openapi.yaml")], tls=context, end=True) for _ in range(200))
        )

    asyncio.run(crowd(server.address))


# Looking at the server


class Usage:
    """What a process has now."""

    def __init__(self, pid):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        self.descriptors = sum(not is_state(path) for path in Path(f"/proc/{pid}/fd").iterdir())
        self.threads = int(status["Threads"])
        self.memory = int(status["VmRSS"].split()[0]) * 1024

    def is_back(self, before):
        return (
            self.descriptors <= before.descriptors + 2
            and self.threads <= before.threads + 2
            and self.memory <= before.memory + 24 * MIB
        )

    def __repr__(self):
        return f"{self.descriptors} descriptors, {self.threads} threads, {self.memory / MIB:.1f} MiB"


def is_state(path):
    """Whether it is one of the connections to the state, of which a pool keeps a few."""
    try:
        return "/state.sqlite" in str(path.readlink())
    except FileNotFoundError:
        return True  # Closed meanwhile.


class GoodClient:
    """Sends requests continuously, on new connections and on one that it keeps; in a separate process."""

    def __init__(self, address, context=None):
        processes = multiprocessing.get_context("fork")
        self.end, child = processes.Pipe()
        self.process = processes.Process(target=ask, args=(address, context, child), daemon=True)
        self.process.start()
        child.close()

    def stop(self):
        """The duration of each response in seconds, and failures."""
        self.end.send(None)
        try:
            return self.end.recv()
        finally:
            self.process.join(10)


def ask(address, context, end):
    times, failures = [], []
    while not end.poll():
        try:
            with Wire(address, timeout=10, context=context) as wire:
                for _ in range(5):
                    begin = time.monotonic()
                    status = wire.exchange("GET", "/healthz").status
                    times.append(time.monotonic() - begin)
                    if status != 200:
                        failures.append(f"status {status}")
                    end.poll(0.005)
        except (OSError, Closed) as failure:
            failures.append(repr(failure))
    end.send((times, failures))


def under(attack, server, report, context=None):
    """Runs an attack; checks the good client, and the server afterwards."""
    before = Usage(server.pid)
    name = attack.__name__
    good = GoodClient(server.address, context)
    begin = time.monotonic()
    try:
        result = asyncio.run(asyncio.wait_for(attack, 120))
    finally:
        duration = time.monotonic() - begin
        peak = Usage(server.pid)
        times, failures = good.stop()
    assert not failures, failures
    assert len(times) >= 10, f"the good client was served {len(times)} times"
    deadline = time.monotonic() + 60
    while not (after := Usage(server.pid)).is_back(before):
        assert time.monotonic() < deadline, f"{name}: before {before}; at the end {peak}; a minute later {after}"
        time.sleep(0.05)
    report(
        f"{name}: {duration:.1f} s, good client {len(times)} times, slowest {max(times) * 1000:.0f} ms; "
        f"before {before}; at the end {peak}; after {after}"
    )
    return result


# Hostile clients


async def exchange(address, pieces, *, pause=0, tls=None, end=False, limit=20):
    """Sends the pieces while it reads; returns what it received until the server closed the connection.

    With `end` it closes its sending side after the pieces, otherwise it waits for the server.
    """
    if tls is not None:
        return await encrypted_exchange(address, pieces, pause, tls, end, limit)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as link:
        link.setblocking(False)

        async def send():
            for piece in pieces:
                await loop.sock_sendall(link, piece)
                await asyncio.sleep(pause)
            if end:
                link.shutdown(socket.SHUT_WR)

        async def receive():
            received = b""
            # Not a stream of asyncio: it drops what has arrived if its next write fails.
            with contextlib.suppress(OSError):
                async with asyncio.timeout(limit):
                    while data := await loop.sock_recv(link, 65536):
                        received += data
            return received

        try:
            await loop.sock_connect(link, address)
        except OSError:
            return b""
        sender = asyncio.create_task(send())
        try:
            return await receive()
        finally:
            sender.cancel()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await sender


async def encrypted_exchange(address, pieces, pause, tls, end, limit):
    """The same with TLS, whose sending side is not closed alone: with `end` it goes once it has an answer."""
    try:
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
    except (OSError, ssl.SSLError):
        return b""

    async def send():
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    sender = asyncio.create_task(send())
    answer = b""
    try:
        async with asyncio.timeout(limit):
            while data := await reader.read(65536):
                answer += data
                if end and sender.done():
                    break
    except (OSError, ssl.SSLError):
        pass
    finally:
        sender.cancel()
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.CancelledError):
            await sender
        writer.transport.abort()
    return answer


def status(answer):
    """Of the first answer; None without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


async def crowd(address, count, make_pieces, **options):
    """Runs this many clients at once; returns their statuses."""
    answers = await asyncio.gather(*(exchange(address, make_pieces(number), **options) for number in range(count)))
    return [status(answer) for answer in answers]


def test_slow_heads(plain, report):
    request = head("GET", "/healthz", [("X-Long", "a" * 5000)])

    async def slow_heads():
        drops = lambda number: (request[index : index + 1] for index in range(len(request)))  # noqa: E731
        return await crowd(plain.address, 300, drops, pause=0.1)

    attack = slow_heads()
    assert set(under(attack, plain, report)) == {408}


@pytest.mark.parametrize("pause", [0.04, 0.002])
def test_one_slow_head(plain, pause):
    """However often a byte arrives, even more often than the server checks its deadlines."""

    async def slow_head():
        # All of it takes longer than `exchange` waits.
        answer = await exchange(plain.address, [b"GET / HTTP/1.1\r\nX: ", *[b"a"] * 10_000], pause=pause)
        assert status(answer) == 408

    asyncio.run(slow_head())


@pytest.mark.parametrize("pause", [0.04, 0.002])
def test_one_slow_content(make_server, pause):
    """With a total timeout, a byte now and then does not prolong the request."""
    request = head(
        "POST", "/v1/tencent/signatures", [("Authorization", f"Bearer {ADMIN_KEY}"), ("Content-Length", 10**9)]
    )

    async def slow_content(server):
        answer = await exchange(server.address, [request, *[b" "] * 10_000], pause=pause)
        assert status(answer) == 408

    limits = {"SLUICE_TIMEOUTS_REQUEST": "1s", "SLUICE_LIMITS_BODY_BYTES": "1GiB"}
    with make_server(environment=TIMEOUTS | limits) as server:
        asyncio.run(slow_content(server))


def test_slow_contents_that_stop(plain, report):
    """Slow content is allowed as long as something arrives; stalled content is not."""
    request = head(
        "POST", "/v1/tencent/signatures", [("Authorization", f"Bearer {ADMIN_KEY}"), ("Content-Length", 1000)]
    )

    async def slow_contents():
        begin = time.monotonic()
        result = await crowd(plain.address, 200, lambda number: [request, *[b" "] * 15], pause=0.1)
        assert time.monotonic() - begin > 2, "cut off while something came"
        return result

    assert set(under(slow_contents(), plain, report)) == {408}


def test_endless_slow_contents(plain, report):
    """Bytes always arrive in time, but below the minimum rate; the whole content would get 400."""
    count = 15
    request = head(
        "POST", "/v1/tencent/signatures", [("Authorization", f"Bearer {ADMIN_KEY}"), ("Content-Length", count)]
    )
    attack = crowd(plain.address, 200, lambda number: [request, *[b" "] * count], pause=0.6)
    assert set(under(attack, plain, report)) == {408}


@pytest.mark.parametrize(
    ("start", "piece", "wanted"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"X-Flood: " + b"a" * 200 + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"a:\r\n" * 100, 431),
        (b"GET /", b"a" * 1000, 414),
        (POST + b"1;", b"a" * 1000, 400),
        (POST, b"1;" + b"a" * 90 + b"\r\n \r\n", 400),
        (POST + b"0\r\n", b"X-Flood: " + b"a" * 200 + b"\r\n", 400),
        (POST, b"1\r\n \r\n" * 2000, 413),
    ],
    ids=["fields", "short fields", "target", "extension", "extensions", "trailers", "small chunks"],
)
def test_floods(patient, quick, report, start, piece, wanted):
    def pieces(number):
        yield start
        yield from itertools.repeat(piece)

    async def flood():
        begin, result = time.monotonic(), []
        while time.monotonic() - begin < (0.3 if quick else 1):
            result += await crowd(patient.address, 20, pieces, limit=100)
        return result

    statuses = under(flood(), patient, report)
    # A client that goes on sending may lose its response to a reset, but not every client does.
    assert set(statuses) <= {wanted, None}
    assert wanted in statuses, f"none of {len(statuses)} clients got a response"


def test_garbage(patient, report):
    generator = random.Random(SEED)

    async def garbage():
        return await crowd(
            patient.address,
            500,
            lambda number: [generator.randbytes(generator.choice([1, 100, 5000, 100_000]))],
            end=True,
            limit=100,
        )

    statuses = under(garbage(), patient, report)
    assert set(statuses) <= {400, 414, 431, 501, 505, None}
    # Most of it is refused as a bad request; a response may be lost to a reset only where more was sent than was read.
    assert 400 in statuses, f"none of {len(statuses)} clients got a response"


def test_clients_that_vanish(plain, report):
    """By FIN, by RST, before, within and after a request."""
    request = head("POST", "/files", [("Tus-Resumable", "1.0.0"), ("Upload-Length", "100")], b"x" * 100) + b"x" * 50

    async def vanish(number):
        reader, writer = await asyncio.open_connection(*plain.address)
        writer.write(request[: number % len(request)])
        if number % 2:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await asyncio.sleep(0.01 * (number % 3))
        writer.transport.abort()

    async def vanishing():
        for _ in range(3):
            await asyncio.gather(*(vanish(number) for number in range(300)))

    under(vanishing(), plain, report)


def test_clients_that_do_not_read(plain, report):
    """Unread responses do not accumulate: the next request is not read before."""

    async def deaf(number):
        reader, writer = await asyncio.open_connection(*plain.address, limit=1024)
        writer.transport.pause_reading()
        writer.write(head("GET", "/openapi.yaml") * 2000)
        # Closed by the server, which is seen when writing fails.
        with contextlib.suppress(OSError):
            for _ in range(100):
                await asyncio.sleep(0.1)
                writer.write(b"\r\n")
                if writer.transport.is_closing():
                    break
            else:
                raise AssertionError("a client that takes no answer was not cut off")
        writer.transport.abort()

    async def deafness():
        before = Usage(plain.pid).memory
        crowd = asyncio.gather(*(deaf(number) for number in range(50)))
        await asyncio.sleep(0.8)
        assert Usage(plain.pid).memory - before < 64 * MIB
        await crowd

    under(deafness(), plain, report)


TERABYTE = [("Content-Length", 10**12)]
FLOODS_OF_ONE = {
    "content that nobody wants": (head("POST", "/nothing", TERABYTE), bytes(MIB)),
    "content behind a refusal": (b"GET / HTTP/1.1\r\n\r\n", bytes(MIB)),
    "small chunks": (POST, b"1\r\n \r\n" * 100_000),
    "requests": (b"", head("GET", "/healthz") * 20_000),
}


@pytest.mark.parametrize("name", FLOODS_OF_ONE)
def test_a_client_that_never_pauses_does_not_delay_others(make_server, name):
    """On a server with one loop: others are served however fast one client sends."""
    with make_server(environment={"SLUICE_GATEWAY_LOOPS": "1"}) as server:
        processes = multiprocessing.get_context("fork")
        flooder = processes.Process(target=flood_alone, args=(server.address, *FLOODS_OF_ONE[name]), daemon=True)
        flooder.start()
        try:
            answers = 0
            with Naps() as naps:
                while naps.count < 100:
                    with Wire(server.address, timeout=10) as wire:
                        answers += wire.exchange("GET", "/healthz").status == 200
        finally:
            flooder.kill()
            flooder.join()
        assert answers >= 50, f"{answers} answers in {naps.count} naps of 10 ms"


def flood_alone(address, start, piece):
    """Sends for ever and discards responses; starts again when the server closes the connection."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection(address) as one:
            threading.Thread(target=swallow, args=(one,), daemon=True).start()
            one.sendall(start)
            while True:
                one.sendall(piece)


def swallow(connection):
    with contextlib.suppress(OSError):
        while connection.recv(MIB):
            pass


def test_a_connection_is_served_without_a_following_one(plain):
    """One after the other: no later connection may be needed to wake a waiting one."""
    request = head("GET", "/healthz", [("Connection", "close")])
    for _ in range(10_000):
        with socket.create_connection(plain.address, 5) as one:
            one.sendall(request)
            assert one.recv(1000).startswith(b"HTTP/1.1 200 ")


# TLS


def test_garbage_for_tls(encrypted, certificate, report):
    generator = random.Random(SEED)
    hello = client_hello(certificate)

    def garbage(number):
        match number % 5:
            case 0:
                return [generator.randbytes(generator.choice([1, 5, 100, 20_000]))]
            case 1:  # plain HTTP
                return [head("GET", "/healthz") * 10]
            case 2:  # a record that is larger than any may be
                return [b"\x16\x03\x01\xff\xff" + generator.randbytes(70_000)]
            case 3:  # a broken hello
                broken = bytearray(hello)
                for _ in range(5):
                    broken[generator.randrange(len(broken))] ^= 1 << generator.randrange(8)
                return [bytes(broken)]
            case _:  # a good hello, then nonsense
                return [hello, generator.randbytes(1000)]

    async def tls_garbage():
        return await crowd(encrypted.address, 300, garbage, end=True)

    assert set(under(tls_garbage(), encrypted, report, certificate.context())) == {None}


def test_handshakes_that_stop(encrypted, certificate, report):
    """Stopped after every byte: the head timeout applies."""
    hello = client_hello(certificate)

    async def silence():
        begin = time.monotonic()
        await crowd(encrypted.address, len(hello), lambda number: [hello[:number]])
        assert time.monotonic() - begin < 10, "handshakes that stop are not cut off"

    under(silence(), encrypted, report, certificate.context())


@pytest.mark.parametrize("pause", [0.04, 0.002])
def test_one_slow_handshake(encrypted, certificate, pause):
    hello = client_hello(certificate)
    # A record that announces more than comes.
    hello = hello[:3] + b"\x3f\x00" + hello[5:] + bytes(15_000)
    drops = iter(hello[index : index + 1] for index in range(len(hello)))
    asyncio.run(exchange(encrypted.address, drops, pause=pause, limit=300))
    # In a second not even a tenth of it can have been sent.
    assert len(list(drops)) > len(hello) / 2


def test_slow_handshakes(encrypted, certificate, report):
    hello = client_hello(certificate)

    async def slow_handshakes():
        begin = time.monotonic()
        drops = lambda number: (hello[index : index + 1] for index in range(len(hello)))  # noqa: E731
        await crowd(encrypted.address, 100, drops, pause=0.1)
        assert time.monotonic() - begin < 10, "handshakes that drip are not cut off"

    under(slow_handshakes(), encrypted, report, certificate.context())


def test_records_that_are_cut_or_changed(encrypted, certificate, report):
    """After a good handshake: half a record, a changed one, an end without close_notify, heads that drip."""
    context = certificate.context()
    generator = random.Random(SEED)

    def attack(number):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with socket.create_connection(encrypted.address, 10) as one:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    one.sendall(outgoing.read())
                    incoming.write(one.recv(65536))
            one.sendall(outgoing.read())
            client.write(head("GET", "/healthz"))
            record = bytearray(outgoing.read())
            match number % 3:
                case 0:
                    record = record[: generator.randrange(len(record))]
                case 1:
                    record[generator.randrange(5, len(record))] ^= 1
                case _:
                    record += b"\x17\x03\x03\x00\x10" + bytes(16)
            try:
                one.sendall(record)
            except ConnectionError:
                # On a busy machine it can come after the time for a head.
                return
            if number % 3 == 0:
                return
            with contextlib.suppress(ConnectionError):
                while data := one.recv(65536):
                    incoming.write(data)
            if number % 3 == 1:
                with pytest.raises(ssl.SSLError):
                    while client.read(65536):
                        pass

    async def changed_records():
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, attack, number) for number in range(90)))

    under(changed_records(), encrypted, report, context)


def test_renegotiation_is_refused(encrypted, certificate, report):
    """TLS 1.2 by `openssl s_client`, whose command R asks for a new handshake (RFC 5746, CVE-2011-1473)."""

    async def ask():
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{encrypted.port}", "-tls1_2"]
        command += ["-CAfile", certificate.path]
        pipe = asyncio.subprocess.PIPE
        client = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        output = b""
        while b"Verify return code" not in output:
            data = await client.stdout.read(4096)
            assert data, output
            output += data
        client.stdin.write(b"R\n")
        await client.stdin.drain()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await asyncio.sleep(0.5)
            client.stdin.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            await client.stdin.drain()
            client.stdin.close()
        rest = await client.stdout.read()
        await client.wait()
        return rest

    async def renegotiation():
        return await asyncio.gather(*(ask() for _ in range(5)))

    for rest in under(renegotiation(), encrypted, report, certificate.context()):
        assert b"RENEGOTIATING" in rest
        assert b"no renegotiation" in rest or b"handshake failure" in rest, rest
        assert b"HTTP/1.1 200" not in rest, rest


def client_hello(certificate):
    """The first flight of a client."""
    outgoing = ssl.MemoryBIO()
    client = certificate.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
