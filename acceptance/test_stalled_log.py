"""The log is not read: the server still serves and stops, and later reports lost lines."""

import os
import re
import signal
import subprocess
import threading

import pytest

from harness.api import API, upload_id
from harness.daemon import free_port
from harness.data import content, sha256
from harness.server import BINARY
from harness.wire import Wire, until

# A stalled log


class Unread:
    """A server whose outputs go to one full pipe, which is not read until `read` is called."""

    def __init__(self, server):
        self.read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        self.filling = 0
        try:
            while True:
                self.filling += os.write(write_end, b"\n" * 4096)
        except BlockingIOError:
            os.set_blocking(write_end, True)
        self.process = subprocess.Popen(
            [BINARY, "serve"], env=server.environment, stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end
        )
        os.close(write_end)
        self.text = b""
        self.reader = None

    def read(self):
        def drain():
            while piece := os.read(self.read_end, 65536):
                self.text += piece

        self.reader = threading.Thread(target=drain, daemon=True)
        self.reader.start()


@pytest.fixture
def unread(make_server):
    port = free_port()
    server = make_server(environment={"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{port}", "SLUICE_LOG_LEVEL": "debug"})
    started = Unread(server)
    started.address = ("127.0.0.1", port)
    started.api = API(f"http://127.0.0.1:{port}", server.admin_key)
    try:
        until(lambda: accepts(started.address), timeout=60)
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait()


def accepts(address):
    try:
        with Wire(address) as wire:
            return wire.exchange("GET", "/healthz").status == 200
    except OSError:
        return False


def refuse_many(address, count):
    """Each costs a line of the log."""
    fields = [("Authorization", "Bearer slk_none"), ("X-Filler", "x" * 100)]
    with Wire(address) as wire:
        for _ in range(count):
            assert wire.exchange("GET", "/v1/uploads", fields).status == 401


def lost(api):
    return int(re.search(r"^sluice_log_lines_lost_total (\d+)$", api.get("/metrics").text, re.M)[1])


def test_an_unread_log_stops_nothing(unread):
    data = content(300_000, 3)
    url = unread.api.created(len(data))
    assert unread.api.patch(url, 0, data).status_code == 204
    assert unread.api.download_hash(upload_id(url)) == (sha256(data), len(data))

    def is_lossy():
        refuse_many(unread.address, 2000)
        return lost(unread.api) > 0

    until(is_lossy, timeout=300)
    assert accepts(unread.address)
    count = lost(unread.api)
    unread.read()
    until(lambda: b"log lines were lost" in unread.text, timeout=60)
    assert accepts(unread.address)
    reported = sum(map(int, re.findall(rb"(\d+) log lines were lost", unread.text)))
    assert reported >= count
    assert b"listening on " in unread.text
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(30) == 0
    unread.reader.join(10)
    assert b"stopped" in unread.text


def test_sigterm_ends_a_server_with_an_unread_log(unread):
    assert unread.api.get("/v1/uploads", key="slk_none").status_code == 401
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(30) == 0
