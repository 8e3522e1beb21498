"""After each response exactly the announced content was read, or it says `close` and the connection closes."""

import base64
import functools
import random
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from test_access_matrix import CONTENT, FIELDS, OPERATIONS, QUERY

from harness.api import API, path_of
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer
from harness.vimeo import Plain
from harness.vimeo import token as vimeo_token
from harness.wire import Closed, Wire, head

SEED = 38
# Announced and sent bytes of a content.
LENGTHS = [(1, 0), (200, 10), (200, 200), (65_536, 10), (65_536, 65_536), (65_537, 10), (70_000, 70_000)]
PROBE = head("GET", "/healthz")
OBJECTS = [
    ("GET", "/"),
    ("PUT", f"/{BUCKET}"),
    ("GET", f"/{BUCKET}"),
    ("PUT", f"/{BUCKET}/key"),
    ("PUT", f"/{BUCKET}/key?partNumber=1&uploadId=x"),
    ("GET", f"/{BUCKET}/key"),
    ("HEAD", f"/{BUCKET}/key"),
    ("DELETE", f"/{BUCKET}/key"),
    ("POST", f"/{BUCKET}/key?uploads"),
    ("POST", f"/{BUCKET}/key?uploadId=x"),
    ("POST", f"/{BUCKET}?delete"),
    ("POST", f"/{BUCKET}"),
    ("OPTIONS", f"/{BUCKET}/key"),
    ("PATCH", f"/{BUCKET}/key"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    # Handlers that read content do not wait long for what never comes.
    settings = {"SLUICE_TIMEOUTS_BODY_PROGRESS": "1s"}
    with ObjectServer(tmp_path_factory.mktemp("unread") / "data", free_port(), environment=settings) as server:
        api = API(server.url, server.admin_key)
        yield SimpleNamespace(server=server, api=api, vimeo=Plain(server, vimeo_token(server, "dora")))


def target(world, name, path, random):
    """The path of an operation; with something to write to, where there is such a thing."""
    values = dict.fromkeys(("id", "key", "kind", "name", "media", "video", "ticket", "item", "uploadId"), "1")
    values |= {"user": "1", "partNumber": "1", "upload": "1.x", "link": "0-1.x"}
    if "{upload}" in path and random.random() < 0.7:
        values["upload"] = path_of(world.api.created(random.choice([5, 100_000]))).rsplit("/", 1)[1]
    if "{link}" in path and random.random() < 0.7:
        approach = "post" if name == "postVimeoForm" else "streaming"
        values["link"] = path_of(world.vimeo.create(10, approach)["upload"]["upload_link"]).rsplit("/", 1)[1]
    for key, value in values.items():
        path = path.replace("{" + key + "}", value)
    query = "&".join(f"{key}={value}" for key, value in QUERY.get(name, {}).items())
    return path + (f"?{query}" if query else "")


def rows(world):
    """All handlers × what was announced and sent × a request that follows at once or after the response."""
    chance = random.Random(SEED)
    key = ("Authorization", f"Bearer {world.server.admin_key}")
    basic = base64.b64encode(b"a:b").decode()
    found = []
    for lengths in LENGTHS:
        for is_pipelined in (False, True):
            for name, (method, path, _) in OPERATIONS.items():
                for credential in (None, key):
                    fields = [*(CONTENT.get(name) or FIELDS.get(name) or {}).items()]
                    # Otherwise the handlers refuse what they would read.
                    fields = [(one, value) for one, value in fields if one != "Upload-Length"]
                    if name == "putVimeoContent":
                        fields.append(("Content-Range", chance.choice(["bytes 0-10/10", "bytes 0-9/10", "bytes */10"])))
                    if credential:
                        fields.append(credential)
                    place = target(world, name, path, chance)
                    found.append((name, world.server.address, method, place, fields, lengths, is_pipelined))
            objects = ("127.0.0.1", int(world.server.object_url.rsplit(":", 1)[1]))
            for method, place in OBJECTS:
                for authorization in (None, f"Basic {basic}", "AWS4-HMAC-SHA256 Credential=x"):
                    fields = [("Authorization", authorization)] if authorization else []
                    found.append(("object", objects, method, place, fields, lengths, is_pipelined))
    return found


@functools.cache
def alone(address):
    """The status of the request that follows, on a connection of its own."""
    with Wire(address) as wire:
        return wire.exchange("GET", "/healthz").status


def check(row):
    """What is wrong; `None` if nothing is."""
    _, address, method, place, fields, (declared, sent), is_pipelined = row
    with Wire(address, timeout=60) as wire:
        start = head(method, place, [*fields, ("Content-Length", declared)])
        try:
            wire.send(start + b" " * sent + (PROBE if is_pipelined else b""))
            reply = wire.interim()
            while reply.status < 200:
                reply = wire.interim()
            says_close = (reply["connection"] or "").lower() == "close"
            if (reply["content-type"] or "").startswith("text/event-stream"):
                # What follows can be the content that was announced.
                is_whole = sent == declared or (is_pipelined and sent + len(PROBE) >= declared)
                return None if says_close or is_whole else "an endless response without close"
            read_content(wire, method, reply)
            if says_close:
                rest = wire.rest()
                return f"{rest[:100]} after close" if rest else None
            if sent < declared:
                if not is_pipelined or sent + len(PROBE) < declared:
                    return f"{reply.status} without close, {declared - sent} bytes missing"
                # The probe was content, as announced; what is left of it is no request.
                return None
            if not is_pipelined:
                wire.send(PROBE)
            answer = wire.reply()
            return None if answer.status == alone(address) else f"the next response is {answer}"
        except Closed as end:
            return f"closed after {end.partial[:100]}"
        except TimeoutError:
            return "no response"


def read_content(wire, method, reply):
    if method == "HEAD" or reply.status in (204, 304):
        return
    if (reply["transfer-encoding"] or "").lower() == "chunked":
        wire._chunks()
        wire._fields()
    elif reply["content-length"] is not None:
        wire._take(int(reply["content-length"]))


def test_no_response_leaves_a_connection_with_content_to_come(world, report):
    found = rows(world)
    assert len(found) >= 2000
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(check, found))
    pairs = zip(found, results, strict=True)
    wrong = [f"{row[0]} {row[2]} {row[3]} {row[5:]}: {result}" for row, result in pairs if result]
    report(f"unread content: {len(found)} rows, seed {SEED}")
    assert not wrong, "\n".join(wrong[:20])


def test_vimeo_announces_more_than_it_sends(world):
    """`bytes 0-10/10` with ten bytes of 200: the next request is served, on a connection of its own."""
    link = path_of(world.vimeo.create(10, "streaming")["upload"]["upload_link"])
    for announced in (200, 65_536, 65_537):
        with Wire(world.server.address) as wire:
            fields = [("Content-Range", "bytes 0-10/10"), ("Content-Length", announced)]
            wire.send(head("PUT", link, fields) + b"0123456789")
            assert wire.reply("PUT")["connection"] == "close"
            assert wire.is_closed()
        with Wire(world.server.address) as wire:
            assert wire.exchange("GET", "/healthz").status == 200
