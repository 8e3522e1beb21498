"""The HTTP engine, byte by byte: framing, persistence, expectations, early answers, peers that leave."""

import json
import os
import threading
import time

import pytest

from harness.api import tus_patch, upload_id
from harness.data import KIB, MIB, content, sha256
from harness.wire import Closed, Wire, head, until

SIGNATURES = "/v1/tencent/signatures"


# Persistence


def test_a_connection_is_kept(wire):
    for _ in range(3):
        answer = wire.exchange("GET", "/healthz")
        assert (answer.version, answer.status) == ("HTTP/1.1", 200)
    assert wire.exchange("GET", "/nothing-here").status == 404
    assert wire.exchange("GET", "/healthz").status == 200


def test_close_is_honoured(wire):
    answer = wire.exchange("GET", "/healthz", [("Connection", "close")])
    assert answer.status == 200
    assert (answer["connection"] or "").lower() == "close"
    assert wire.is_closed()


def test_pipelined_requests_are_answered_in_order(wire, key):
    post = head("POST", SIGNATURES, [key, ("Content-Type", "application/json")], b"{}") + b"{}"
    wire.send(
        head("GET", "/healthz")
        + head("GET", "/openapi.yaml")
        + post
        + head("HEAD", "/openapi.yaml")
        + head("GET", "/nothing-here")
        + head("GET", "/healthz", [("Connection", "close")])
    )
    health, document, signature, same, nothing, last = (
        wire.reply(),
        wire.reply(),
        wire.reply(),
        wire.reply("HEAD"),
        wire.reply(),
        wire.reply(),
    )
    assert [answer.status for answer in (health, document, signature, same, nothing, last)] == [
        200,
        200,
        201,
        200,
        404,
        200,
    ]
    assert document.body.startswith(b"openapi:")
    assert "signature" in json.loads(signature.body)
    assert wire.is_closed()


def test_a_hundred_pipelined_requests(wire):
    wire.send(head("GET", "/healthz") * 100)
    assert [wire.reply().status for _ in range(100)] == [200] * 100


def test_a_request_in_single_bytes(wire, key):
    request = head("POST", SIGNATURES, [key, ("Content-Type", "application/json")], b'{"random":5}') + b'{"random":5}'
    for byte in request:
        wire.send(bytes([byte]))
    assert json.loads(wire.reply().body)["random"] == 5


def test_empty_lines_before_a_request_are_skipped(wire):
    wire.send(b"\r\n\r\n" + head("GET", "/healthz"))
    assert wire.reply().status == 200


def test_unread_content_does_not_become_a_request(wire):
    smuggled = head("GET", "/openapi.yaml")
    wire.request("POST", "/nothing-here", body=smuggled)
    assert wire.reply().status == 404
    wire.request("GET", "/healthz")
    try:
        assert not wire.reply().body.startswith(b"openapi:")
    except Closed:
        pass


# Methods and targets


def test_head_is_get_without_content(wire):
    full = wire.exchange("GET", "/openapi.yaml")
    only = wire.exchange("HEAD", "/openapi.yaml")
    assert only.status == 200
    assert only["content-length"] == str(len(full.body))
    assert only["content-type"] == full["content-type"]
    assert wire.exchange("GET", "/healthz").status == 200


def test_absolute_form(wire):
    assert wire.exchange("GET", "http://127.0.0.1/healthz").status == 200


def test_percent_encoding_is_decoded_once(wire):
    assert wire.exchange("GET", "/%68ealthz").status == 200
    assert wire.exchange("GET", "/%2568ealthz").status == 404
    assert wire.exchange("GET", "/v1%2Fuploads").status == 404


def test_every_response_has_a_request_id(wire, key):
    seen = {
        wire.exchange("GET", path)["x-request-id"] for path in ("/healthz", "/nothing", "/openapi.yaml", "/v1/uploads")
    }
    assert len(seen) == 4 and None not in seen


# Chunked


@pytest.mark.parametrize(
    "body",
    [
        b'c\r\n{"random":5}\r\n0\r\n\r\n',
        b'1\r\n{\r\nb\r\n"random":5}\r\n0\r\n\r\n',
        b'00C;name=value;other="a;b"\r\n{"random":5}\r\n0\r\n\r\n',
        b'c\r\n{"random":5}\r\n0\r\nX-Trailer: value\r\nAnother: one\r\n\r\n',
    ],
    ids=["one", "two", "extensions", "trailers"],
)
def test_chunked_content(wire, key, body):
    fields = [key, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    wire.send(head("POST", SIGNATURES, fields) + body)
    answer = wire.reply()
    assert answer.status == 201, answer
    assert json.loads(answer.body)["random"] == 5
    assert wire.exchange("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x1\r\n{\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"\r\n\r\n",
        b" 1\r\n{\r\n0\r\n\r\n",
        b"1 \r\n{\r\n0\r\n\r\n",
        b"2\r\n{}X\r\n0\r\n\r\n",
        b"2\r\n{}0\r\n\r\n",
        b"2\n{}\n0\n\n",
        b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n",
        b"2;" + b"x" * 100_000,
    ],
    ids=[
        "letters",
        "negative",
        "0x",
        "overflow",
        "empty",
        "space before",
        "space after",
        "no CRLF",
        "no CRLF at all",
        "LF",
        "trailer",
        "extension without end",
    ],
)
def test_bad_chunks_are_refused(server, wire, key, body):
    fields = [key, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    wire.send(head("POST", SIGNATURES, fields) + body + head("GET", "/healthz"))
    answer = wire.reply()
    assert answer.status in (400, 413, 431), answer
    assert wire.rest() == b"", "something after the refusal was answered"


# Expect


def test_100_is_sent_when_the_content_is_read(wire, key):
    fields = [key, ("Content-Type", "application/json"), ("Content-Length", 12), ("Expect", "100-continue")]
    wire.send(head("POST", SIGNATURES, fields))
    interim = wire.interim()
    assert interim.status == 100
    wire.send(b'{"random":5}')
    assert json.loads(wire.reply().body)["random"] == 5


def test_100_is_sent_for_an_upload(wire, api):
    url = api.created(5)
    wire.send(tus_patch(url, 0, 5, [("Expect", "100-continue")]))
    assert wire.interim().status == 100
    wire.send(b"hello")
    assert wire.reply("PATCH").status == 204
    assert api.get(f"/media/{upload_id(url)}").content == b"hello"


def test_an_error_comes_without_100(wire, api, key):
    url = api.created(5)
    for request, status in (
        (tus_patch(url, 3, 2, [("Expect", "100-continue")]), 409),
        (tus_patch(url, 0, 6, [("Expect", "100-continue")]), 413),
        (head("POST", SIGNATURES, [("Content-Length", 2), ("Expect", "100-continue")]), 401),
    ):
        with Wire(wire.socket.getpeername()) as one:
            one.send(request)
            answer = one.interim()
            assert answer.status == status, answer


def test_no_100_for_http_1_0_or_without_content(wire, api, server):
    assert wire.exchange("GET", "/healthz", [("Expect", "100-continue")]).status == 200
    wire.send(head("GET", "/healthz"))
    assert wire.interim().status == 200


@pytest.mark.parametrize("status", [201, 401])
def test_100_is_sent_before_announced_empty_content(wire, key, status):
    """Whatever the response is: botocore waits for it."""
    fields = [key] if status == 201 else []
    wire.send(head("POST", "/v1/media", [*fields, ("Content-Length", 0), ("Expect", "100-continue")]))
    assert wire.interim().status == 100
    assert wire.reply("POST").status == status


def test_another_expectation_fails(wire):
    assert wire.exchange("GET", "/healthz", [("Expect", "the-unexpected")]).status == 417


# Early answers


class Sender(threading.Thread):
    """Sends without looking at answers until everything is out or the connection is gone."""

    def __init__(self, wire, size):
        super().__init__(daemon=True)
        self.wire, self.size, self.sent = wire, size, 0

    def run(self):
        piece = bytes(256 * KIB)
        try:
            while self.sent < self.size:
                self.sent += self.wire.socket.send(piece)
        except OSError:
            pass


@pytest.mark.parametrize(("offset", "status"), [(3, 409), (0, 413)])
@pytest.mark.parametrize("size", [64 * KIB, MIB, 64 * MIB])
def test_an_early_response_reaches_a_client_that_is_still_sending(server, api, offset, status, size):
    url = api.created(10)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, offset, size))
        sender = Sender(wire, size)
        sender.start()
        answer = wire.reply("PATCH")
        assert answer.status == status
        assert answer.body.startswith(b"ERR_")
    assert api.offset(url) == 0


@pytest.mark.parametrize("size", [64 * KIB, MIB, 16 * MIB])
def test_an_early_response_reaches_a_client_that_reads_only_after_sending(server, api, size):
    url = api.created(10)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 3, size) + bytes(size))
        assert wire.reply("PATCH").status == 409


def test_too_large_json_is_refused_early(server, key):
    with Wire(server.address) as wire:
        wire.send(head("POST", SIGNATURES, [key, ("Content-Type", "application/json"), ("Content-Length", 2**40)]))
        Sender(wire, 32 * MIB).start()
        answer = wire.reply()
        assert answer.status == 413
        assert json.loads(answer.body)["code"] == "content_too_large"


# HTTP/1.0


def test_http_1_0(server):
    with Wire(server.address) as wire:
        wire.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = wire.reply()
        assert answer.status == 200
        assert answer["transfer-encoding"] is None
        assert wire.is_closed()


def test_http_1_0_with_keep_alive(server):
    with Wire(server.address) as wire:
        for _ in range(2):
            wire.send(b"GET /openapi.yaml HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            answer = wire.reply()
            assert answer.status == 200
            assert (answer["connection"] or "").lower() == "keep-alive"


def test_metrics_of_http_1_0_are_not_chunked(server, key):
    with Wire(server.address) as wire:
        wire.send(f"GET /metrics HTTP/1.0\r\n{key[0]}: {key[1]}\r\n\r\n")
        answer = wire.reply()
        assert answer.status == 200
        assert answer["transfer-encoding"] is None
        assert b"# TYPE" in answer.body


# Peers that leave


def test_clients_that_disconnect_do_no_harm(server, api):
    identifier = api.uploaded(content(4 * MIB, 1))
    for _ in range(20):
        with Wire(server.address) as wire:
            wire.request("GET", f"/media/{identifier}", [("Authorization", f"Bearer {server.admin_key}")])
            wire.socket.recv(1000)
        with Wire(server.address) as wire:
            wire.send(b"POST /files HTTP/1.1\r\nHost: a\r\nContent-Le")
    assert api.download_hash(identifier) == (sha256(content(4 * MIB, 1)), 4 * MIB)


def test_a_client_that_does_not_read_does_not_delay_others(server, api):
    identifier = api.uploaded(bytes(32 * MIB))
    with Wire(server.address) as wire:
        wire.request("GET", f"/media/{identifier}", [("Authorization", f"Bearer {server.admin_key}")])
        for _ in range(10):
            begin = time.monotonic()
            assert api.get("/healthz").status_code == 200
            assert time.monotonic() - begin < 5


def test_descriptors_are_released(server, api):
    def count():
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    api.uploaded(b"x")
    until(lambda: count() < 200)
    before = count()
    for number in range(50):
        with Wire(server.address) as wire:
            wire.exchange("GET", "/healthz")
            url = api.created(1000)
            wire.send(tus_patch(url, 0, 1000) + b"x" * number)
    until(lambda: count() <= before + 5)
