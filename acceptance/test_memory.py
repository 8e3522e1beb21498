"""Memory does not depend on the size of uploads and downloads."""

import contextlib
import hashlib
import resource
import socket
import threading
import time

import pytest

from harness.api import API, OFFSET_TYPE, TUS, checksum, path_of, upload_id
from harness.data import GIB, MIB, content
from harness.server import MEMORY
from harness.wire import Wire, until

PIECE = content(4 * MIB, seed=5)


def stream(wire, size, chunked=False):
    """Sends `size` bytes of repeated content and returns their SHA-256."""
    digest = hashlib.sha256()
    while size > 0:
        piece = PIECE[: min(size, len(PIECE))]
        digest.update(piece)
        wire.send(b"%x\r\n" % len(piece) + piece + b"\r\n" if chunked else piece)
        size -= len(piece)
    if chunked:
        wire.send(b"0\r\n\r\n")
    return digest.hexdigest()


def patch(server, url, size, extra=()):
    with Wire(server.address, timeout=120) as wire:
        length = () if extra else (("Content-Length", size),)
        wire.request(
            "PATCH", path_of(url), [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), *length, *extra]
        )
        digest = stream(wire, size, chunked=bool(extra))
        answer = wire.reply("PATCH")
    assert answer.status == 204, answer
    assert answer["upload-offset"] == str(size)
    return digest


def test_an_idle_connection_holds_little(make_server, report):
    """What the heap keeps besides depends on the order of events, so the least of three gateways counts."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    found = []
    while len(found) < 3 and min(found, default=1536) >= 1536:
        with make_server(f"idle{len(found)}") as server:
            found.append(held_by_an_idle_connection(server))
    report(f"an idle connection holds {min(found):.0f} bytes")
    assert min(found) < 1536, found


def held_by_an_idle_connection(server):
    count = 6000
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with contextlib.ExitStack() as stack:

        def connect(number):
            connections = [stack.enter_context(socket.create_connection(server.address)) for _ in range(number)]
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")

        connect(200)
        before = server.anonymous_memory()
        connect(count)
        # The heap is given back after some of the connections have been idle for a moment.
        deadline = time.monotonic() + 20
        while (each := (server.anonymous_memory() - before) / count) >= 1536 and time.monotonic() < deadline:
            time.sleep(0.1)
        return each


def test_an_idle_gateway_holds_less_than_its_start(make_server, report):
    """The code that only the start needed is unmapped; all of it can still be used."""
    with make_server() as server:
        peak = server.peak_memory()
        until(lambda: server.resident_memory() < peak / 2, timeout=10)
        idle = server.resident_memory()
        api = API(server.url, server.admin_key)
        data = content(MIB, seed=8)
        assert api.download_hash(api.uploaded(data)) == (hashlib.sha256(data).hexdigest(), len(data))
        assert api.get("/metrics").status_code == 200
        used = server.resident_memory()
        report(f"resident after the start: {peak >> 10} KiB at most, then {idle >> 10}, in use {used >> 10}")


@pytest.mark.nightly
@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_gibibyte_in_one_request(make_server, report, framing):
    with make_server() as server:
        server.forget_start()
        api = API(server.url, server.admin_key)
        url = api.created(GIB)
        idle = server.peak_own_memory()
        begin, cpu = time.monotonic(), server.cpu_seconds()
        digest = patch(server, url, GIB, [("Transfer-Encoding", "chunked")] if framing == "chunked" else ())
        seconds, cpu = time.monotonic() - begin, server.cpu_seconds() - cpu
        uploaded = server.peak_own_memory()
        assert api.download_hash(upload_id(url)) == (digest, GIB)
        peak = server.peak_own_memory()
        report(
            f"1 GiB PATCH, {framing}: {GIB / 1e6 / seconds:.0f} MB/s, {cpu:.2f} s CPU,"
            f" peak memory {uploaded / MIB:.1f} MiB ({idle / MIB:.1f} before); after the download {peak / MIB:.1f} MiB"
        )
        assert peak < MEMORY


def test_with_a_checksum(make_server, report):
    size = 128 * MIB
    data = PIECE * (size // len(PIECE))
    with make_server() as server:
        server.forget_start()
        api = API(server.url, server.admin_key)
        url = api.created(size)
        answer = api.patch(url, 0, data, headers=checksum("sha256", hashlib.sha256(data).digest()))
        assert answer.status_code == 204
        report(f"128 MiB PATCH with SHA-256: peak memory {server.peak_own_memory() / MIB:.1f} MiB")
        assert server.peak_own_memory() < MEMORY


def test_sixteen_at_once(make_server, report):
    """Sixteen uploads at once stay within the same bound as one, twice over."""
    size = 16 * MIB
    with make_server() as server:
        server.forget_start()
        api = API(server.url, server.admin_key)
        urls = [api.created(size) for _ in range(16)]
        failures = []

        def upload(url):
            try:
                patch(server, url, size)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=upload, args=(url,)) for url in urls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        report(f"16 uploads of 16 MiB at once: peak memory {server.peak_own_memory() / MIB:.1f} MiB")
        assert server.peak_own_memory() < 2 * MEMORY
