"""What is ambiguous or too large is refused, and nothing after it is taken for a request."""

import json
import socket
import threading
import urllib.parse
import xml.etree.ElementTree

import pytest

from harness.daemon import free_port
from harness.object_client import ObjectServer
from harness.wire import Wire, head

SIGNATURES = "/v1/tencent/signatures"


# Ambiguity is refused (RFC 9112)


REFUSED = {
    # §6.1, §6.3
    "Content-Length and Transfer-Encoding": (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "Transfer-Encoding and Content-Length": (b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", b"0\r\n\r\n"),
    "differing Content-Lengths": (b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{}"),
    "repeated Content-Length": (b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
    "list of Content-Lengths": (b"Content-Length: 2, 2\r\n", b"{}"),
    "Content-Length with sign": (b"Content-Length: +2\r\n", b"{}"),
    "negative Content-Length": (b"Content-Length: -2\r\n", b"{}"),
    "hexadecimal Content-Length": (b"Content-Length: 0x2\r\n", b"{}"),
    "empty Content-Length": (b"Content-Length:\r\n", b"{}"),
    "Content-Length with space inside": (b"Content-Length: 1 0\r\n", b"{}"),
    "huge Content-Length": (b"Content-Length: 99999999999999999999999\r\n", b"{}"),
    "unknown transfer coding": (b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "chunked twice": (b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    "chunked not last": (b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n"),
    "identity": (b"Transfer-Encoding: identity\r\n", b"{}"),
    "disguised chunked": (b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "quoted chunked": (b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    # §5
    "space before colon": (b"Content-Length : 2\r\n", b"{}"),
    "tab before colon": (b"Content-Length\t: 2\r\n", b"{}"),
    "folded line": (b"X-Folded: a\r\n b\r\nContent-Length: 2\r\n", b"{}"),
    "line without colon": (b"Content-Length 2\r\n", b"{}"),
    "empty name": (b": value\r\nContent-Length: 2\r\n", b"{}"),
    "name with a control character": (b"X\x01Y: value\r\nContent-Length: 2\r\n", b"{}"),
    "NUL in a value": (b"X-Value: a\x00b\r\nContent-Length: 2\r\n", b"{}"),
    "bare CR in a value": (b"X-Value: a\rb\r\nContent-Length: 2\r\n", b"{}"),
    "control character in a value": (b"X-Value: a\x07b\r\nContent-Length: 2\r\n", b"{}"),
    "bare LF after a field": (b"X-Value: a\nContent-Length: 2\r\n", b"{}"),
    # §3.2
    "second Host": (b"Host: other\r\nContent-Length: 2\r\n", b"{}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_fields_are_refused(server, key, name):
    lines, body = REFUSED[name]
    with Wire(server.address) as wire:
        start = (
            f"POST {SIGNATURES} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key[0]}: {key[1]}\r\nContent-Type: application/json\r\n"
        )
        wire.send(start.encode() + lines + b"\r\n" + body + head("GET", "/openapi.yaml"))
        answer = wire.reply()
        assert answer.status in (400, 501), f"{name}: {answer}"
        assert answer["content-type"] == "application/problem+json"
        assert json.loads(answer.body)["status"] == answer.status
        assert wire.rest() == b"", f"{name}: something after the refusal was answered"


@pytest.mark.parametrize(
    ("request_head", "statuses"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\r\nHost: user@host\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\nHost: a\n\n", {400}),
        (b"GET /healthz\r\n\r\n", {400}),
        (b"GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /healthz  HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /health z HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b" GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET healthz HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /%0 HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /healthz#part HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", {400, 404, 405, 501}),
        (b"GE(T /healthz HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", {505}),
        (b"GET /healthz HTTP/0.9\r\nHost: a\r\n\r\n", {400, 505}),
        (b"GET /healthz HTTP/1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /healthz http/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), {400}),
        (b"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ],
)
def test_bad_request_lines_and_hosts_are_refused(wire, request_head, statuses):
    wire.send(request_head)
    answer = wire.reply()
    assert answer.status in statuses, answer
    if answer.status in (400, 501, 505):
        assert wire.rest() == b""


# Limits


def test_a_long_target_is_414(wire):
    assert wire.exchange("GET", "/" + "a" * 100_000).status == 414


@pytest.mark.parametrize(
    "fields",
    [[("X-Large", "a" * 200_000)], [(f"X-{number}", "a") for number in range(2000)], [("X" * 100_000, "a")]],
    ids=["value", "count", "name"],
)
def test_a_large_head_is_431(server, fields):
    with Wire(server.address) as wire:
        wire.send(head("GET", "/healthz", fields))
        answer = wire.reply()
        assert answer.status == 431
        assert json.loads(answer.body)["code"] == "header_too_large"


def test_a_head_that_never_ends_is_431(server):
    with Wire(server.address) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        sender = threading.Thread(target=endless, args=(wire,), daemon=True)
        sender.start()
        assert wire.reply().status == 431


def endless(wire):
    try:
        for _ in range(10_000):
            wire.send(b"X-More: " + b"a" * 100 + b"\r\n")
    except OSError:
        pass


def test_a_normal_number_of_fields_is_accepted(wire):
    fields = [(f"X-{number}", "a" * 100) for number in range(60)]
    assert wire.exchange("GET", "/healthz", fields).status == 200


def test_idle_connections_do_not_hinder_others(server, api):
    idle = [socket.create_connection(server.address) for _ in range(300)]
    half = [socket.create_connection(server.address) for _ in range(100)]
    try:
        for one in half:
            one.sendall(b"GET /healthz HT")
        assert api.get("/healthz").status_code == 200
        assert api.uploaded(b"abc")
    finally:
        for one in idle + half:
            one.close()


# The object endpoint


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """The address of an object endpoint that does not wait long."""
    settings = {"SLUICE_TIMEOUTS_HEAD": "1s"}
    with ObjectServer(tmp_path_factory.mktemp("objects") / "data", free_port(), settings) as running:
        url = urllib.parse.urlsplit(running.object_url)
        yield url.hostname, url.port


@pytest.mark.parametrize(
    ("request_head", "outcome"),
    [
        (b"GET /bucket HTTP/1.1\r\nHost: a\r\nHost: b\r\nx-amz-date: x\r\n\r\n", (400, "BadRequest", "x-amz-")),
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", (400, "BadRequest", "x-amz-")),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", (505, "BadRequest", "x-amz-")),
        (b"PUT /k HTTP/1.1\r\nAuthorization: OSS a:b\r\n\r\n", (400, "BadRequest", "x-oss-")),
        (b"PUT /k HTTP/1.1\r\nHost: b.cos.ap-x.myqcloud.com\r\nX: \x01\r\n\r\n", (400, "BadRequest", "x-cos-")),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n", (414, "InvalidURI", "x-amz-")),
        (
            b"PUT /k HTTP/1.1\r\nx-oss-meta-a: " + b"a" * 200_000 + b"\r\n\r\n",
            (400, "RequestHeaderSectionTooLarge", "x-oss-"),
        ),
        (
            b"PUT /k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            (501, "NotImplemented", "x-amz-"),
        ),
    ],
)
def test_the_object_endpoint_refuses_in_the_form_of_its_clients(endpoint, request_head, outcome):
    with Wire(endpoint) as wire:
        wire.send(request_head)
        answer = wire.reply()
        status, code, prefix = outcome
        assert (answer.status, answer["content-type"]) == (status, "application/xml")
        root = xml.etree.ElementTree.fromstring(answer.body)
        assert (root.tag, root.findtext("Code")) == ("Error", code)
        assert root.findtext("RequestId") == answer[prefix + "request-id"]
        assert wire.rest() == b""


def test_the_object_endpoint_tells_late_clients_so(endpoint):
    with Wire(endpoint) as wire:
        wire.send(b"PUT /k HTTP/1.1\r\nx-oss-date: x\r\n")
        answer = wire.reply()
        assert (answer.status, answer["content-type"]) == (400, "application/xml")
        assert xml.etree.ElementTree.fromstring(answer.body).findtext("Code") == "RequestTimeout"


# Combining marks: comparing texts takes time by the square of a run of them

# Not in their canonical order, as a comparison puts them; and as many as are allowed.
MARKS = "\u0301\u0323" * 15_000
FEW = "\u0301\u0323" * 32
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
# The first line, fields and content, with a place for the marks.
MARKED = {
    "an action in a form": ("POST / HTTP/1.1", FORM, "Version=2011-06-15&Action=A{marks}"),
    "an escaped action in a form": ("POST / HTTP/1.1", FORM, "Version=2011-06-15&Action=A{escaped}"),
    "the name of a parameter": ("POST / HTTP/1.1", FORM, "Version=2011-06-15&Action=A&A{marks}=1"),
    "a secret id in a form": ("POST / HTTP/1.1", FORM, "Action=A&SecretId={marks}"),
    "an action in a field": ("POST / HTTP/1.1", "X-TC-Action: A{marks}\r\n", ""),
    "a media type": ("POST /files HTTP/1.1", "Content-Type: a{marks}/b\r\nTus-Resumable: 1.0.0\r\n", ""),
    "a credential": ("GET /a HTTP/1.1", "Authorization: A{marks}\r\n", ""),
    "a method": ("POST /files/a HTTP/1.1", "X-HTTP-Method-Override: A{marks}\r\nTus-Resumable: 1.0.0\r\n", ""),
    "a path": ("GET /{escaped} HTTP/1.1", "", ""),
}
WITH_A_KEY = {
    "a query": ("GET /v1/uploads?subject={escaped} HTTP/1.1", "{key}", ""),
    "a member of JSON": (f"POST {SIGNATURES} HTTP/1.1", "{key}", '{{"{marks}":1}}'),
    "an escaped text of JSON": (f"POST {SIGNATURES} HTTP/1.1", "{key}", '{{"procedure":"{json}"}}'),
}


def form_with_a_name(value, name):
    parts = [("key", "a"), ("x-amz-algorithm", value), ("policy", "e30="), ("x-amz-signature", "0" * 64)]
    parts += [("x-amz-credential", "a"), ("x-amz-date", "20260101T000000Z")]
    head = '--b\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    body = "".join(head.format(field, "") + text + "\r\n" for field, text in parts)
    return (body + head.format("file", f'; filename="{name}"') + "x\r\n--b--\r\n").encode()


@pytest.mark.parametrize(
    ("times", "name", "said"),
    [
        (1800, "\u0301\u0323" * 32, b"combining marks"),
        (3, "\u0301\u0323" * 32, b"combining marks"),
        (1700, "n" * 1000, b"20 KiB"),
        (3, "\u0301\u0323" * 10, None),
        (3, "n" * 100, None),
    ],
    ids=["many marks", "marks", "a long text", "few marks", "a short text"],
)
def test_a_file_name_is_put_into_a_form_only_so_often(endpoint, times, name, said):
    """Texts that are allowed alone make one together that is not, before anybody has verified a signature."""
    body = form_with_a_name("${filename}" * times, name)
    head = f"POST /uploads HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    with Wire(endpoint) as wire:
        wire.send(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode() + body)
        answer = wire.reply()
        code = xml.etree.ElementTree.fromstring(answer.body).findtext("Code")
        if said is None:
            assert code not in ("MalformedPOSTRequest", "InternalError"), answer
        else:
            assert (answer.status, code) == (400, "MalformedPOSTRequest") and said in answer.body, answer


def marked(row, key, marks):
    values = {
        "marks": marks,
        "escaped": urllib.parse.quote(marks[:2000]),
        "json": "".join(f"\\u{ord(mark):04x}" for mark in marks[:5000]),
        "key": f"{key[0]}: {key[1]}\r\nContent-Type: application/json\r\n",
    }
    line, fields, content = (text.format(**values).encode() for text in row)
    return line + b"\r\nHost: a\r\nContent-Length: %d\r\n" % len(content) + fields + b"\r\n" + content


@pytest.mark.parametrize(
    ("where", "name"),
    [("gateway", name) for name in MARKED | WITH_A_KEY] + [("object endpoint", name) for name in MARKED],
)
def test_many_combining_marks_in_a_row_are_refused(server, endpoint, key, where, name):
    address = server.address if where == "gateway" else endpoint
    row = (MARKED | WITH_A_KEY)[name]
    with Wire(address) as wire:
        wire.send(marked(row, key, MARKS))
        answer = wire.reply()
        assert b"combining marks" in answer.body, answer
    with Wire(address) as wire:
        wire.send(marked(row, key, FEW))
        answer = wire.reply()
        assert answer.status < 500 and b"combining marks" not in answer.body, answer
