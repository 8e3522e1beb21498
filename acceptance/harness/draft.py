"""A client of "Resumable Uploads for HTTP", as raw bytes: Python's HTTP client treats a 104 as the final response."""

import json

from harness.api import path_of
from harness.data import sha256
from harness.wire import Wire

VERSIONS = [3, 4, 5, 6, 7, 8]
PARTIAL = "application/partial-upload"
TYPES = "https://iana.org/assignments/http-problem-types#"


class Client:
    """Uses one version of the draft, or the newest without the version field (`None`)."""

    def __init__(self, server, version):
        self.server = server
        self.version = version
        self.wire = Wire(server.address)

    def complete(self, value):
        if self.version == 3:
            return ("Upload-Incomplete", "?0" if value else "?1")
        return ("Upload-Complete", "?1" if value else "?0")

    def is_complete(self, reply):
        if self.version == 3:
            return {"?0": True, "?1": False}[reply["Upload-Incomplete"]]
        return {"?1": True, "?0": False}[reply["Upload-Complete"]]

    def fields(self, *more):
        own = [("Upload-Draft-Interop-Version", str(self.version))] if self.version else []
        return [*own, *[field for field in more if field is not None]]

    def send(self, method, path, *fields, body=b""):
        self.wire.request(method, path, self.fields(*fields), body)

    def exchange(self, method, path, *fields, body=b""):
        self.send(method, path, *fields, body=body)
        return self.wire.reply(method)

    def create(self, body, last, *fields, path="/files", method="POST", kind="video/mp4"):
        """The interim answers and the final one."""
        key = ("Authorization", f"Bearer {self.server.admin_key}")
        self.send(method, path, key, self.complete(last), ("Content-Type", kind), *fields, body=body)
        interim = []
        while (reply := self.wire.reply(method, skip_interim=False)).status < 200:
            interim.append(reply)
        return interim, reply

    def append(self, url, offset, body, last, *fields, kind=PARTIAL):
        flag = None if last is None else self.complete(last)
        kind = ("Content-Type", kind) if kind else None
        self.send("PATCH", path_of(url), ("Upload-Offset", str(offset)), flag, kind, *fields, body=body)
        return self.wire.reply("PATCH")

    def offset(self, url):
        reply = self.exchange("HEAD", path_of(url))
        assert reply.status == 204, reply
        assert reply["Cache-Control"] == "no-store"
        return int(reply["Upload-Offset"]), self.is_complete(reply)


def assert_media(api, reply, data):
    """The answer of the target: the media, which can be downloaded."""
    assert reply.status == 201, reply
    document = json.loads(reply.body)
    assert document["size"] == len(data)
    assert api.download_hash(document["id"]) == (sha256(data), len(data))
    return document


def problem(reply, status, kind=None):
    assert reply.status == status, (reply, reply.body)
    assert reply["Content-Type"] == "application/problem+json"
    document = json.loads(reply.body)
    assert document["status"] == status
    assert document["type"] == (TYPES + kind if kind else "about:blank")
    return document
