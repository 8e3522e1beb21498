"""The gateway's framing compared with another parser, h11, on valid, hostile and mutated streams of requests.

Request smuggling needs two parsers that see different requests in the same bytes. Each may refuse what the other
accepts; but as long as both accept, they must see the same requests: where each begins, its Host, and which bytes are
its content. The gateway shows what it saw by uploads: the response to a creation has the request's Host in its
Location, and the content is stored.
"""

import os
import random
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11
import pytest

from harness.api import upload_id
from harness.server import ADMIN_KEY, Server
from harness.wire import Closed, Wire
from hostile import table

# Other streams with another seed; a failure names the stream itself.
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "9112"))
ROUNDS = int(os.environ.get("DIFFERENTIAL_ROUNDS", "3000"))


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("differential") / "data", environment={"SLUICE_DURABILITY": "none"}) as server:
        yield server


# What the two see


@dataclass
class Request:
    host: str
    method: str
    content: bytes
    is_whole: bool = False


@dataclass
class Reading:
    """What h11 sees: requests, and why there are no more: end, close, old, refused, or incomplete."""

    requests: list
    end: str


def read_by_h11(data):
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    connection.receive_data(b"")
    requests = []
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as failure:
            return Reading(requests, "incomplete" if "closed connection" in str(failure) else "refused")
        match event:
            case h11.ConnectionClosed():
                return Reading(requests, "end")
            case h11.Request():
                host = dict(event.headers).get(b"host", b"").decode("latin-1")
                if b"://" in event.target:
                    host = re.split("[/?]", event.target.decode("latin-1").split("://", 1)[1])[0]
                requests.append(Request(host, event.method.decode(), b""))
                version = event.http_version
            case h11.Data():
                requests[-1].content += bytes(event.data)
            case h11.EndOfMessage():
                requests[-1].is_whole = True
                connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.their_state is h11.MUST_CLOSE:
                    # h11 keeps no connection of HTTP/1.0, also where it is asked to.
                    return Reading(requests, "old" if version == b"1.0" else "close")
                connection.start_next_cycle()
            case _:
                raise AssertionError(event)


@dataclass
class Answers:
    """What the gateway answers, one for each head that it accepts, and why there are no more: end, close, refused."""

    answers: list
    end: str


def answers_of(server, data, methods):
    answers = []
    with Wire(server.address) as wire:
        try:
            wire.send(data)
            wire.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # Refused before everything was out.
        while True:
            try:
                answer = wire.reply(methods[len(answers)] if len(answers) < len(methods) else "GET")
            except Closed as closed:
                assert closed.was_reset or closed.partial == b"", closed
                is_last = closed.was_reset or (answers and answers[-1]["connection"] == "close")
                return Answers(answers, "close" if is_last else "end")
            # Every handler names its request; nobody names a head that is refused.
            if answer["x-request-id"] is None:
                return Answers(answers, "refused")
            answers.append(answer)


def stored(server):
    """The content of all uploads by their ids."""
    return {path.name: path for path in (server.data / "blobs").rglob("*") if path.is_file()}


# Comparing


def compare(data, reading, got):
    """Says how the two disagree, if they do; and gives the contents that are to be compared, by upload id."""
    contents = {}
    for index, (request, answer) in enumerate(zip(reading.requests, got.answers, strict=False)):
        if answer.status != 201:
            continue
        location = urlsplit(answer["location"])
        # HTTP/1.0 needs no Host.
        if request.host and location.netloc != request.host:
            return f"the host is {location.netloc} for the gateway and {request.host} for h11", {}
        if not request.is_whole and reading.end == "incomplete" and index < len(got.answers) - 1:
            return "the content has an end for the gateway and none for h11", {}
        # Without an offset the content was none of the upload. What came of one that was cut off is kept.
        if answer["upload-offset"] is not None and (request.is_whole or reading.end == "incomplete"):
            contents[upload_id(answer["location"])] = request.content
    if len(got.answers) > len(reading.requests) and reading.end not in ("refused", "old"):
        return f"{len(got.answers)} requests for the gateway and {len(reading.requests)} for h11 ({reading.end})", {}
    whole = sum(request.is_whole for request in reading.requests)
    if whole > len(got.answers) and got.end == "end":
        return f"{len(got.answers)} requests for the gateway and {whole} for h11", {}
    return None, contents


def run(server, streams):
    """Compares all streams; returns how many requests both accepted, with their contents."""

    def one(data):
        reading = read_by_h11(data)
        got = answers_of(server, data, [request.method for request in reading.requests])
        return data, *compare(data, reading, got)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, streams))
    blobs = stored(server)
    disagreements, count = [], 0
    for data, disagreement, contents in results:
        for identifier, content in contents.items():
            count += 1
            kept = blobs[identifier].read_bytes() if identifier in blobs else b""
            if kept != content:
                disagreement = f"the content is {kept!r} for the gateway and {content!r} for h11"
        if disagreement:
            disagreements.append(f"{disagreement}: {data!r}")
    assert not disagreements, f"{len(disagreements)} of {len(streams)} (seed {SEED}):\n" + "\n".join(disagreements[:10])
    return count


# Streams


CREATION = [
    b"Authorization: Bearer " + ADMIN_KEY.encode(),
    b"Tus-Resumable: 1.0.0",
    b"Upload-Length: 100000",
    b"Content-Type: application/offset+octet-stream",
]


def creation(number, *fields, content=b"", target=b"/files", version=b"HTTP/1.1"):
    """An upload that names itself by its Host."""
    lines = [b"POST " + target + b" " + version, b"Host: r%d.example" % number, *CREATION, *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


def with_length(number, content, *fields):
    return creation(number, b"Content-Length: %d" % len(content), *fields, content=content)


def with_chunks(number, content, *fields):
    return creation(number, b"Transfer-Encoding: chunked", *fields, content=content)


INNER = b"POST /files HTTP/1.1\r\nHost: inner.example\r\nContent-Length: 0\r\n\r\n"
LETTERS = b"abcdefghijklmnopqrstuvwxyz"

GOOD = [
    with_length(1, b"hello") + with_length(2, b"0123456789") + with_length(3, LETTERS),
    with_chunks(1, b"5\r\nhello\r\n0\r\n\r\n")
    + with_chunks(2, b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")
    + with_length(3, b"x"),
    with_chunks(1, b"1A;a=b\r\n" + LETTERS + b"\r\n0;c\r\n\r\n") + with_length(2, b"after"),
    with_chunks(1, b"005\r\nhello\r\n000\r\nX-Trailer: a\r\nX-Other: b\r\n\r\n") + with_length(2, b"after"),
    with_length(1, INNER) + with_length(2, b"after"),
    with_chunks(1, b"%x\r\n" % len(INNER) + INNER + b"\r\n0\r\n\r\n") + with_length(2, b"after"),
    creation(1) + creation(2) + with_length(3, b"after"),
    with_length(1, b"5\r\nhello\r\n0\r\n\r\n")
    + with_chunks(2, b"4\r\n\r\n\r\n\r\n0\r\n\r\n")
    + with_length(3, b"after"),
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    + with_length(2, b"hello")
    + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    with_length(1, b"hello", b"Expect: 100-continue") + with_length(2, b"after"),
    with_length(1, b"hello", b"Connection: close") + with_length(2, b"after"),
    with_length(1, b"hello", b"Connection: keep-alive") + with_length(2, b"after"),
    creation(1, b"Content-Length: 5", content=b"hello", version=b"HTTP/1.0") + with_length(2, b"after"),
    creation(1, b"Content-Length: 5", content=b"hello", target=b"http://absolute.example/files")
    + with_length(2, b"after"),
    with_length(1, b"hello") + b"\r\n" + with_length(2, b"after"),
    with_length(1, b"") + with_length(2, b"after") + with_length(3, b"\r\n\r\n"),
]

# What a mutation puts in.
WORDS = [
    *(bytes([byte]) for byte in b'\x00\t\n\r "+,-0123456789:;=Aafx_\x7f\x80\xa0\xff'),
    *(
        b"\r\n",
        b"\n\n",
        b"\r\r\n",
        b"\r\n\r\n",
        b"\r\n ",
        b"\r\n\t",
        b" \r\n",
        b"0\r\n\r\n",
        b"0x",
        b"00",
        b";a=b",
        b";",
        b", ",
    ),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 100\r\n", b"content-length:3\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding:\tchunked\r\n"),
    *(
        b"chunked",
        b"identity",
        b"gzip, ",
        b", chunked",
        b"Connection: close\r\n",
        b"Host: other\r\n",
        b"HTTP/1.0",
        b"HTTP/1.1",
    ),
    INNER,
]


def mutated(generator, data):
    """A stream with one to four changes, most of them near what frames it."""
    data = bytearray(data)
    for _ in range(generator.randint(1, 4)):
        place = generator.randrange(len(data) + 1)
        if generator.random() < 0.6:
            anchor = generator.choice(
                [b"Content-Length", b"Transfer-Encoding", b"\r\n", b"\r\n\r\n", b"POST", b"HTTP/1", b"Host"]
            )
            found = data.find(anchor, place)
            if found >= 0:
                place = max(0, found + generator.randint(-2, len(anchor) + 4))
        end = min(len(data), place + generator.choice([1, 1, 2, 3, 10, 40]))
        match generator.randrange(7):
            case 0:
                data[place:place] = generator.choice(WORDS)
            case 1:
                data[place:end] = generator.choice(WORDS)
            case 2:
                del data[place:end]
            case 3:
                data[end:end] = data[place:end]
            case 4 if place < len(data):
                data[place] ^= 1 << generator.randrange(8)
            case 5 if place < len(data):
                data[place] = generator.randrange(256)
            case _:
                lines = bytes(data).split(b"\r\n")
                line = lines.pop(generator.randrange(len(lines)))
                lines.insert(generator.randrange(len(lines) + 1), line)
                if generator.random() < 0.5:
                    lines.insert(generator.randrange(len(lines) + 1), line)
                data = bytearray(b"\r\n".join(lines))
    return bytes(data)


def test_good_streams(echo, report):
    """All of it is accepted by both, but what a connection that is to end leaves behind."""
    count = run(echo, GOOD)
    assert count >= 2 * len(GOOD) - 4, count
    report(f"differential: {len(GOOD)} good streams, {count} contents compared")


def test_hostile_streams(echo, report):
    """The tables of `hostile/`, made to uploads, with a good one behind each."""
    streams = []
    for case in table():
        data = case.data.replace(b"POST /v1/tencent/signatures ", b"POST /files ")
        data = data.replace(CREATION[0] + b"\r\nContent-Type: application/json", b"\r\n".join(CREATION))
        if len(data) < 20_000:
            streams.append(data + with_length(1, b"after"))
    count = run(echo, streams)
    assert count >= 50, count
    report(f"differential: {len(streams)} hostile streams, {count} contents compared")


def test_mutated_streams(echo, report):
    generator = random.Random(SEED)
    streams = [mutated(generator, generator.choice(GOOD)) for _ in range(ROUNDS)]
    count = run(echo, streams)
    # Else the mutations are such that hardly anything is compared.
    assert count >= ROUNDS // 3, count
    report(f"differential: {ROUNDS} mutated streams (seed {SEED}), {count} contents compared")
