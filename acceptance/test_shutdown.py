"""SIGTERM: received bytes are kept, running requests can finish, the exit code is 0."""

import base64
import signal
import subprocess
import threading
import time

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of, tus_patch, upload_id
from harness.data import content
from harness.receiver import Receiver
from harness.server import BINARY
from harness.wire import Closed, Wire, until

# Shutdown


def stalled(server, api, size=100_000, count=40_000):
    url = api.created(size)
    wire = Wire(server.address)
    wire.send(tus_patch(url, 0, size) + content(count, 1))
    until(lambda: api.upload(upload_id(url))["offset"] == count)
    return url, wire


def test_sigterm_keeps_received_bytes(make_server):
    server = make_server(environment={"SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s"}).start()
    url, wire = stalled(server, API(server.url, server.admin_key))
    server.process.send_signal(signal.SIGTERM)
    with wire:
        try:
            answer = wire.reply("PATCH")
            assert answer.status == 503, answer
            assert answer["upload-offset"] is None
        except Closed:
            pass
    server.stop()
    server.start()
    api = API(server.url, server.admin_key)
    url = server.url + path_of(url)
    assert api.offset(url) == 40_000
    assert api.patch(url, 40_000, bytes(60_000)).status_code == 204


def test_sigterm_lets_running_requests_finish(make_server):
    server = make_server(environment={"SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "20s"}).start()
    api = API(server.url, server.admin_key)
    url, wire = stalled(server, api, size=50_000, count=40_000)
    with wire:
        server.process.send_signal(signal.SIGTERM)
        # No new connections are accepted.
        until(lambda: not accepts(server.address))
        wire.send(bytes(10_000))
        answer = wire.reply("PATCH")
        assert (answer.status, answer["upload-offset"]) == (204, "50000")
        assert wire.is_closed()
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 10, "the grace time was waited out although nothing was running"


@pytest.mark.parametrize("waits", ["before content", "before the answer"])
def test_a_wait_for_a_rate_ends_with_the_grace_time(make_server, waits):
    """`bytesPerSecond` makes a request wait for a minute and more; the shutdown does not."""
    environment = {
        "SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s",
        "SLUICE_LIMITS_KEY_BYTES_PER_SECOND": "1024",
    }
    server = make_server(environment=environment).start()
    api = API(server.url, server.admin_key)
    size = 100_000 if waits == "before content" else 1024
    url = api.created(200_000)
    wire = Wire(server.address)
    wire.send(tus_patch(url, 0, size) + content(size, 1))
    if waits == "before the answer":
        with wire:
            assert wire.reply("PATCH").status == 204
        # Each of them takes its bytes at once, and waits until those before it are paid.
        wires = [Wire(server.address) for _ in range(60)]
        for other in wires:
            other.send(tus_patch(api.created(100_000), 0, 1024) + content(1024, 1))
        wires.append(Wire(server.address))
        wires[-1].send(tus_patch(api.created(100_000), 0, 100_000) + content(100_000, 1))
        # Connections without a request would be closed at once.
        time.sleep(0.5)
    else:
        until(lambda: api.upload(upload_id(url))["offset"] > 0)
    begin = time.monotonic()
    server.stop(60)
    assert time.monotonic() - begin < 18, "what docs/install.md promises"
    server.start()
    offset = API(server.url, server.admin_key).offset(server.url + path_of(url))
    assert 0 < offset < 100_000
    server.stop()


@pytest.mark.parametrize("on_failure", ["refuse", "allow"])
@pytest.mark.parametrize("hook", ["pre-create", "pre-finish"])
def test_a_hook_without_an_answer_does_not_outlive_the_grace_time(make_server, hook, on_failure):
    """The request is refused, also if failures of hooks allow it: the app may be well."""
    secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    waiting, release = threading.Event(), threading.Event()

    def reply(_):
        waiting.set()
        release.wait()
        return {}

    receiver = Receiver(secret, reply)
    environment = {
        "SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s",
        "SLUICE_HOOKS_URL": receiver.url,
        "SLUICE_HOOKS_SECRET": secret,
        "SLUICE_HOOKS_EVENTS": hook,
        "SLUICE_HOOKS_TIMEOUT": "10m",
        "SLUICE_HOOKS_ON_FAILURE": on_failure,
    }
    server = make_server(environment=environment).start()
    try:
        with Wire(server.address, timeout=60) as wire:
            fields = [*TUS.items(), ("Authorization", f"Bearer {server.admin_key}"), ("Upload-Length", "5")]
            wire.request("POST", "/files", [*fields, ("Content-Type", OFFSET_TYPE)], b"hello")
            assert waiting.wait(60)
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            answer = wire.reply("POST")
            # An upload that has its bytes can be finished by the next request.
            assert answer.status in ((503,) if hook == "pre-create" else (201, 503)), answer
            server.stop(60)
            assert time.monotonic() - begin < 18, "what docs/install.md promises"
    finally:
        release.set()


def test_a_node_that_drains_says_so_and_still_serves(make_server):
    environment = {"SLUICE_TIMEOUTS_DRAIN": "2s", "SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "5s"}
    server = make_server(environment=environment).start()
    api = API(server.url, server.admin_key)
    assert api.get("/readyz", key=None).status_code == 200
    server.process.send_signal(signal.SIGTERM)
    until(lambda: api.get("/readyz", key=None, headers={"Connection": "close"}).status_code == 503)
    answer = api.get("/readyz", key=None, headers={"Connection": "close"})
    assert answer.status_code == 503 and "shuts down" in answer.json()["detail"]
    assert api.get("/healthz", key=None, headers={"Connection": "close"}).status_code == 200
    # New connections are accepted, and uploads are complete.
    fresh = API(server.url, server.admin_key)
    data = content(50_000, 1)
    url = fresh.created(len(data))
    assert fresh.patch(url, 0, data).status_code == 204
    until(lambda: not accepts(server.address))
    server.stop()


def accepts(address):
    try:
        with Wire(address, timeout=2) as wire:
            return wire.exchange("GET", "/healthz").status == 200
    except (OSError, Closed):
        return False


def test_sigterm_closes_idle_connections(make_server):
    server = make_server().start()
    with Wire(server.address) as wire:
        assert wire.exchange("GET", "/healthz").status == 200
        server.process.send_signal(signal.SIGTERM)
        assert wire.is_closed(10)
    server.stop()


def test_sigint_ends_it_too(make_server):
    server = make_server().start()
    server.process.send_signal(signal.SIGINT)
    server.stop()


def test_a_second_server_on_the_same_data_is_refused(server):
    done = subprocess.run([BINARY, "serve"], env=server.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode != 0
    assert str(server.data) in done.stderr + done.stdout
