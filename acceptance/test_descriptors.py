"""Few descriptors left: who needs one gets 503 with `Retry-After` in the form of the protocol; health answers."""

import contextlib
import os
import resource
import signal

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of, upload_id
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer
from harness.vimeo import Plain
from harness.vimeo import token as vimeo_token
from harness.wire import Wire, until

DRAFT = [("Upload-Draft-Interop-Version", "6"), ("Upload-Complete", "?1")]
FORM = b"--b\r\nContent-Disposition: form-data; name=file; filename=f\r\n\r\nhello\r\n--b--\r\n"


@pytest.fixture
def server(tmp_path):
    with ObjectServer(tmp_path / "data", free_port()) as server:
        yield server


def requests_of(server, api):
    """What a client of each protocol sends to upload: address, method, target, fields, content."""
    key = ("Authorization", f"Bearer {server.admin_key}")
    objects = ("127.0.0.1", int(server.object_url.rsplit(":", 1)[1]))
    wanted = {"bucket": BUCKET, "key": "a", "method": "PUT", "subject": "dora"}
    signed = api.post("/v1/presigned-urls", wanted)
    assert signed.status_code == 201, signed.text
    place = signed.json()["url"].partition(objects[0])[2].partition("/")[2]
    link = Plain(server, vimeo_token(server, "dora")).create(5, "streaming")["upload"]["upload_link"]
    url = path_of(api.created(5))
    length = ("Content-Length", 5)
    return {
        "tus creation": (server.address, "POST", "/files", [key, *TUS.items(), ("Upload-Length", 5), length], b"hello"),
        "tus append": (
            server.address,
            "PATCH",
            url,
            [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), length],
            b"hello",
        ),
        "draft": (server.address, "POST", "/files", [key, *DRAFT, length], b"hello"),
        "file": (server.address, "PUT", "/v1/media/name", [key, length], b"hello"),
        "form": (
            server.address,
            "POST",
            "/v1/media",
            [key, ("Content-Type", "multipart/form-data; boundary=b"), ("Content-Length", len(FORM))],
            FORM,
        ),
        "Vimeo": (server.address, "PUT", path_of(link), [length], b"hello"),
        "object": (objects, "PUT", "/" + place, [("Host", f"{objects[0]}:{objects[1]}"), length], b"hello"),
    }


def test_uploads_are_refused_for_a_while(server, report):
    api = API(server.url, server.admin_key)
    calls = requests_of(server, api)
    # The connections are there before.
    with contextlib.ExitStack() as stack:
        wires = {name: stack.enter_context(Wire(call[0])) for name, call in calls.items()}
        health = stack.enter_context(Wire(server.address))
        for wire in (*wires.values(), health):
            wire.exchange("GET", "/healthz")
        before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        most = max(map(int, os.listdir(f"/proc/{server.pid}/fd")))
        statuses = {}
        for left in range(-1, 6):
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most + 1 + left, before[1]))
            for name, (address, method, place, fields, body) in calls.items():
                reply = wires[name].exchange(method, place, fields, body)
                statuses.setdefault(name, []).append(reply.status)
                assert reply.status < 500 or reply.status == 503, f"{name} with {left} left: {reply}"
                if reply.status == 503:
                    assert int(reply["retry-after"]) > 0, f"{name} with {left} left: {reply}"
                if reply["connection"] == "close":
                    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
                    wires[name].close()
                    wires[name] = stack.enter_context(Wire(address))
                    wires[name].exchange("GET", "/healthz")
                    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most + 1 + left, before[1]))
            assert health.exchange("GET", "/healthz").status == 200
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        report(f"few descriptors: {statuses}")
        assert any(503 in found for found in statuses.values()), statuses
    assert api.get(f"/media/{api.uploaded(b'hello')}").content == b"hello"


def test_connections_leave_descriptors_for_files(tmp_path, make_server):
    """With as many connections as there may be, an upload on one of them works."""
    limit = ["prlimit", "--nofile=128:128"]
    server = make_server(prefix=limit).start()
    api = API(server.url, server.admin_key)
    url = api.created(5)
    with contextlib.ExitStack() as stack:
        # The last of them wait in the kernel.
        wires = [stack.enter_context(Wire(server.address)) for _ in range(150)]
        assert wires[0].exchange("GET", "/healthz").status == 200
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE)]
        assert wires[0].exchange("PATCH", path_of(url), fields, b"hello").status == 204


@pytest.mark.parametrize("is_over", [True, False], ids=["descriptors again", "no descriptor"])
def test_a_gateway_that_had_no_descriptor_ends_when_asked(tmp_path, is_over):
    """With bytes of an upload under way, which are kept."""
    environment = {"SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s"}
    server = ObjectServer(tmp_path / "data", free_port(), environment).start()
    try:
        api = API(server.url, server.admin_key)
        url = api.created(10)
        with Wire(server.address) as idle, Wire(server.address) as upload:
            assert idle.exchange("GET", "/healthz").status == 200
            fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", 10)]
            upload.request("PATCH", path_of(url), fields)
            upload.send(b"hello")
            until(lambda: api.upload(upload_id(url))["offset"] == 5)
            before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
            # A new connection waits, and what needs a file is refused.
            with Wire(server.address) as late:
                late.request("GET", "/healthz")
                assert idle.exchange("GET", "/healthz").status == 200
                if is_over:
                    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
                server.process.send_signal(signal.SIGTERM)
                # 0, and nothing of what libraries do without a descriptor.
                server.stop()
        server.start()
        assert API(server.url, server.admin_key).offset(server.url + path_of(url)) == 5
        server.stop()
    finally:
        server.kill()
