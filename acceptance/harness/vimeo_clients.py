"""Clients of Vimeo's API that are not written in Python, replayed (protocol, sections 4.3, 5 and 8; the rest is read
from their sources): what they send, byte by byte, when they send again, and which answers they accept.

Each has `create(data)`, `send(attempt, data)` and both as `upload(data)`, which returns the video's uri. `Refused` is
what it tells its app. Pauses are noted instead of waited for.

    client = PHP4(server, token(server))
    client.line.cuts = [400]
    uri = client.upload(data)
"""

import contextlib
import http.client
import json
import re
import select
import socket
import time
from collections import namedtuple
from datetime import datetime
from urllib.parse import quote, urlencode, urlsplit

from harness.api import OFFSET_TYPE
from harness.vimeo import basic

# Connections and answers

# One request: what was sent of it, and what came back.
Sent = namedtuple("Sent", "method target fields continued status")


class Cut(Exception):
    """The connection broke before the answer."""


class Stuck(Exception):
    """The client would send requests for ever."""


class Line:
    """Sends requests exactly as given, each on a connection of its own.

    `cuts`: after how many bytes of their content the next requests with content of a file break. A broken one sends no
    more and waits until the server has closed, so that what it has kept is known. `is_abrupt`: it resets instead.
    """

    MOST = 60

    def __init__(self):
        self.cuts = []
        self.is_abrupt = False
        self.sent = []

    def __call__(self, method, url, fields, body=b"", *, is_file=False):
        if len(self.sent) >= self.MOST:
            raise Stuck(f"{self.sent[-1]}")
        place = urlsplit(url)
        if not place.hostname or "http" in place.netloc:
            raise Cut(f"{url} is no URL")
        target = place.path + (f"?{place.query}" if place.query else "")
        fields = [("Host", place.netloc), *((name, str(value)) for name, value in fields)]
        head = f"{method} {target} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}".rstrip() + "\r\n" for name, value in fields)
        names = {name.lower() for name, _ in fields}
        continued, status = None, None
        try:
            with socket.create_connection((place.hostname, place.port), 20) as connection:
                connection.sendall(head.encode("latin-1") + b"\r\n")
                if "expect" in names:
                    continued = self._continued(connection)
                if is_file and self.cuts:
                    self._cut(connection, body)
                if continued is not None or "expect" not in names:
                    # A server that has seen enough closes, and has answered before.
                    with contextlib.suppress(ConnectionError):
                        connection.sendall(body)
                answer = Answer(connection, method)
                status = answer.status
        except (ConnectionError, http.client.HTTPException) as error:
            raise Cut(f"{method} {target}: {error!r}") from error
        finally:
            self.sent.append(Sent(method, target, dict(fields), continued, status))
        return answer

    def _cut(self, connection, body):
        count = self.cuts.pop(0)
        if self.is_abrupt:
            connection.sendall(body[: count // 2])
            # Long enough for the server to begin: it cannot take a later request for an earlier one.
            time.sleep(0.05)
            connection.sendall(body[count // 2 : count])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        else:
            connection.sendall(body[:count])
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        raise ConnectionResetError("as planned")

    @staticmethod
    def _continued(connection):
        """Whether 100 comes; after a second curl sends the content without. `None`: the answer came instead."""
        if not select.select([connection], [], [], 1)[0]:
            return False
        return True if connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 100" else None

    # For tests

    @property
    def requests(self):
        return [f"{one.method} {one.target.partition('?')[0]}" for one in self.sent]

    @property
    def starts(self):
        """Where the content of each request with content of a file began."""
        starts = []
        for one in self.sent:
            fields = {name.lower(): value for name, value in one.fields.items()}
            if one.method == "PATCH" and "upload-offset" in fields:
                starts.append(int(fields["upload-offset"]))
            elif one.method == "PUT" and one.target.startswith("/vimeo/"):
                start = re.search(r"\d+-|\*", fields.get("content-range", "0-"))[0]
                starts += [int(start[:-1])] if start != "*" else []
        return starts


class Answer:
    def __init__(self, connection, method):
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        self.status = response.status
        self.fields = response.getheaders()
        self.body = response.read()

    def __getitem__(self, name):
        """A field by its exact spelling, as PHP and iOS look it up."""
        found = dict(self.fields)
        assert name in found, f"{name} is missing in {self}"
        return found[name]

    def get(self, name):
        """A field in any spelling."""
        return {key.lower(): value for key, value in self.fields}.get(name.lower())

    @property
    def type(self):
        return (self.get("Content-Type") or "").partition(";")[0]

    def json(self):
        return json.loads(self.body)

    @property
    def is_success(self):
        return 200 <= self.status <= 299

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:300]!r}>"


class Refused(Exception):
    """What the client tells its app."""

    def __init__(self, name, *, status=None, text=None, code=None, domain=None, parameters=()):
        super().__init__(f"{name} {status} {code} {domain} {text}")
        self.name = name
        self.status = status
        self.text = text
        self.code = code
        self.domain = domain
        self.parameters = list(parameters)


def member(document, path):
    """The member, or the element of a list, that a dotted name means; `None` if it is missing."""
    for name in path.split("."):
        if isinstance(document, list):
            document = document[int(name)] if int(name) < len(document) else None
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return document


def has(document, path):
    parent, _, name = path.rpartition(".")
    document = member(document, parent) if parent else document
    return isinstance(document, dict) and name in document


def moment(text):
    """A time as .NET, Go and iOS read it: no fractions, and an offset with a colon."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", text), text
    return datetime.fromisoformat(text)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def slashed(value):
    """JSON as PHP and Apple's serializer write it."""
    return compact(value).replace("/", "\\/")


class Client:
    # What `Refused` tells of a refused creation.
    tells = ("text",)
    # Whether it ends with an empty file: some ask for ever then, or leave the size out.
    can_be_empty = True
    # Bytes of each request, for those that send a file in several; the SDKs' own numbers are too large for tests.
    chunk = 1000

    def __init__(self, server, token):
        self.root = server.url
        self.token = token
        self.line = Line()
        self.pauses = []

    def pause(self, seconds):
        self.pauses.append(seconds)

    def upload(self, data):
        return self.send(self.create(data), data)


# vimeo.php


class PHP(Client):
    """The part that all versions have; curl sends its requests."""

    version = None
    api_version = "3.4"

    def request(self, method, path, parameters=None):
        fields = [
            ("Accept", f"application/vnd.vimeo.*+json; version={self.api_version}"),
            ("User-Agent", f"vimeo.php {self.version}; (http://developer.vimeo.com/api/docs)"),
            ("Authorization", f"Bearer {self.token}"),
        ]
        body = slashed(parameters).encode() if parameters else b""
        if method != "GET":
            kind = "application/json" if parameters else "application/x-www-form-urlencoded"
            fields += [("Content-Type", kind), ("Content-Length", len(body))]
        return self.line(method, self.root + path, fields, body)

    def refused(self, answer):
        return Refused("VimeoUploadException", text=answer.json().get("error"))

    def attached(self, uri, name, parameters, data):
        """Creates a picture or a text track, and returns its uri."""
        made = self.request("POST", f"{uri}/{name}", parameters)
        if made.status != 201:
            raise Refused("VimeoUploadException", text="Unable to request an upload url from vimeo")
        done = self.put_attachment(name, made.json()["link"], data)
        if done.status != 200:
            raise Refused("VimeoUploadException", text=done.body.decode())
        return made.json()["uri"]

    def put_attachment(self, name, link, data):
        """A stream whose size curl does not know."""
        fields = [("Accept", "*/*"), ("Transfer-Encoding", "chunked"), ("Expect", "100-continue")]
        pieces = [data[start : start + 16384] for start in range(0, len(data), 16384)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        return self.line("PUT", link, fields, body + b"0\r\n\r\n", is_file=True)

    def upload_image(self, uri, data):
        picture = self.attached(uri, "pictures", None, data)
        self.request("PATCH", picture, {"active": True})
        return picture

    def upload_texttrack(self, uri, data):
        return self.attached(uri, "texttracks", {"type": "captions", "language": "en-US", "name": "sub.vtt"}, data)


class PHP1(PHP):
    """1.3.0, the last with the Old Upload."""

    version = "1.3.0"
    api_version = "3.2"

    def create(self, data, replaced=None):
        method, path = ("PUT", replaced + "/files") if replaced else ("POST", "/me/videos")
        answer = self.request(method, path, {"type": "streaming"})
        if answer.status != 201:
            raise self.refused(answer)
        return answer.json()

    def replace(self, uri, data):
        return self.send(self.create(data, uri), data)

    def send(self, ticket, data):
        link, size, start = ticket["upload_link_secure"], len(data), 0
        while True:
            fields = [("Accept", "*/*"), ("Content-Range", f"bytes {start}-{size}/{size}"), ("Content-Length", size)]
            # Its status does not matter.
            with contextlib.suppress(Cut):
                self.line("PUT", link, fields, data[start:], is_file=True)
            probe = [
                ("Accept", "*/*"),
                ("Transfer-Encoding", "chunked"),
                ("Content-Length", 0),
                ("Content-Range", "bytes */*"),
                ("Expect", "100-continue"),
            ]
            start = int(self.line("PUT", link, probe, b"0\r\n\r\n")["Range"].split("-")[1])
            if start >= size:
                break
        done = self.request("DELETE", ticket["complete_uri"])
        if done.status != 201:
            raise self.refused(done)
        return done["Location"]


class TusPHP(PHP):
    def create(self, data):
        parameters = {"name": "N", "upload": {"approach": "tus", "size": len(data)}}
        answer = self.request("POST", "/me/videos?fields=uri,upload", parameters)
        if answer.status != 200:
            raise self.refused(answer)
        return answer.json()

    def replace(self, uri, data):
        parameters = {"file_name": "clip.mp4", "upload": {"approach": "tus", "size": len(data)}}
        answer = self.request("POST", f"{uri}/versions?fields=upload", parameters)
        if answer.status != 201:
            raise self.refused(answer)
        return self.send(answer.json() | {"uri": uri}, data)


class PHP2(TusPHP):
    """2.0.5: whole files, and no question about the offset that works."""

    version = "2.0.5"

    def send(self, attempt, data):
        link, size, start, failures = attempt["upload"]["upload_link"], len(data), 0, 0
        while True:
            fields = [
                ("Accept", "*/*"),
                ("Content-Type", OFFSET_TYPE),
                ("Tus-Resumable", "1.0.0"),
                ("Upload-Offset", start),
                ("Content-Length", size),
            ]
            try:
                answer = self.line("PATCH", link, fields, data[start:], is_file=True)
                failures = 0
                if answer.status == 204:
                    start = int(answer["Upload-Offset"])
                else:
                    # The address of the API before that of the link: curl cannot read it.
                    start = int(self.request("HEAD", link)["Upload-Offset"])
            except Cut as cut:
                if failures >= 3:
                    raise Refused("VimeoRequestException", text=str(cut)) from cut
                failures += 1
                self.pause(4**failures)
            if start >= size:
                return attempt["uri"]


class PHP4(TusPHP):
    """4.0.1: HEAD before each PATCH, by Guzzle, which raises for each status from 400 on before the SDK looks."""

    version = "4.0.1"

    def guzzle(self, method, link, fields, body=b""):
        fields = [("Tus-Resumable", "1.0.0"), *fields, ("User-Agent", "GuzzleHttp/7")]
        if len(body) >= 1 << 20:
            fields.append(("Expect", "100-Continue"))
        answer = self.line(method, link, fields, body, is_file=method == "PATCH")
        if answer.status >= 400:
            raise Cut(f"{answer}")
        if answer.status not in (200, 204):
            raise Refused("VimeoUploadException", status=answer.status)
        return int(answer.get("upload-offset") or 0)

    def send(self, attempt, data):
        link, sent, failures = attempt["upload"]["upload_link"], 0, 0
        while True:
            try:
                # An option that the SDK passes as a field.
                start = self.guzzle("HEAD", link, [("http_errors", "")])
                piece = data[start : start + self.chunk]
                fields = [("Content-Type", OFFSET_TYPE), ("Content-Length", len(piece)), ("Upload-Offset", start)]
                sent = self.guzzle("PATCH", link, fields, piece)
            except Cut as cut:
                if failures >= 10:
                    raise Refused("VimeoUploadException", text=str(cut)) from cut
                failures += 1
                self.pause(min(2 ** (failures - 1), 8))
            if sent >= len(data):
                return attempt["uri"]

    def put_attachment(self, name, link, data):
        if name == "pictures":
            return super().put_attachment(name, link, data)
        fields = [
            ("Accept", "*/*"),
            ("Content-Length", len(data)),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ]
        return self.line("PUT", link, fields, data, is_file=True)


# vimeo.js


class JS(Client):
    version = None
    api_version = "3.4"

    def request(self, method, path, query=None, **more):
        fields = more | {
            "Accept": f"application/vnd.vimeo.*+json;version={self.api_version}",
            "User-Agent": f"Vimeo.js/{self.version}",
        }
        if self.token:
            fields["Authorization"] = f"Bearer {self.token}"
        body = b""
        if method != "GET":
            fields.setdefault("Content-Type", "application/json")
            body = (compact(query) if fields["Content-Type"] == "application/json" else urlencode(query)).encode()
            body = body if query else b""
            fields["Content-Length"] = len(body)
        answer = self.line(method, self.root + path, [*fields.items(), ("Connection", "close")], body)
        if answer.status >= 400:
            raise Refused("Error", text=answer.json()["error"])
        # The app gets the object, and whatever fields it reads.
        answer.document = answer.json() if answer.body else {}
        return answer


class JS1(JS):
    """1.2.1, the last with the Old Upload."""

    version = "1.2.1"
    api_version = "3.2"

    def create(self, data, replaced=None):
        method, path = ("PUT", replaced + "/files") if replaced else ("POST", "/me/videos")
        return self.request(method, path, {"type": "streaming"}).document

    def replace(self, uri, data):
        return self.send(self.create(data, uri), data)

    def send(self, ticket, data):
        link, size, start = ticket["upload_link_secure"], len(data), 0
        while True:
            fields = [
                ("Content-Length", size),
                ("Content-Type", "video/mp4"),
                ("Content-Range", f"bytes {start}-{size}/{size}"),
                ("Connection", "close"),
            ]
            with contextlib.suppress(Cut):
                put = self.line("PUT", link, fields, data[start:], is_file=True)
                if put.status > 399:
                    raise Refused("Error", status=put.status, text=put.body.decode())
            probe = [("Content-Range", "bytes */*"), ("Content-Type", "application/octet-stream")]
            answer = self.line("PUT", link, [*probe, ("Connection", "close"), ("Content-Length", 0)])
            if answer.status != 308:
                raise Refused("Error", status=answer.status, text="Invalid http status returned from range query")
            start = int(answer.get("Range").split("-")[1])
            if start >= size:
                return self.request("DELETE", ticket["complete_uri"]).get("location")


class JS3(JS):
    """3.0.3 with tus-js-client 1.8.0."""

    version = "2.1.1"
    delays = (0, 1, 3, 5)

    def create(self, data):
        query = {"name": "N", "upload": {"approach": "tus", "size": len(data)}}
        return self.request("POST", "/me/videos?fields=uri,name,upload", query).document

    def replace(self, uri, data):
        query = {"file_name": "clip.mp4", "upload": {"approach": "tus", "size": len(data)}}
        return self.send(self.request("POST", f"{uri}/versions?fields=upload", query).document | {"uri": uri}, data)

    def client_credentials(self, key, secret):
        self.token = None
        answer = self.request(
            "POST",
            "/oauth/authorize/client",
            {"grant_type": "client_credentials", "scope": "public private"},
            **{"Content-Type": "application/x-www-form-urlencoded"},
            **basic(key, secret),
        )
        return answer.document["access_token"]

    def send(self, attempt, data):
        attempts, before, self.offset = 0, 0, None
        while True:
            try:
                self.resume(attempt["upload"]["upload_link"], data)
                return attempt["uri"]
            except (Cut, Refused) as failure:
                if self.offset is not None and self.offset > before:
                    attempts = 0
                status = getattr(failure, "status", None) or 0
                is_temporary = not 400 <= status <= 499 or status in (409, 423)
                if attempts >= len(self.delays) or not is_temporary:
                    raise Refused("DetailedError", status=status, text=str(failure)) from failure
                self.pause(self.delays[attempts])
                attempts, before = attempts + 1, self.offset or 0

    def resume(self, link, data):
        head = self.tus("HEAD", link)
        self.offset, length = int(head.get("Upload-Offset")), int(head.get("Upload-Length"))
        while self.offset < length:
            piece = data[self.offset :]
            fields = [("Upload-Offset", self.offset), ("Content-Type", OFFSET_TYPE), ("Content-Length", len(piece))]
            self.offset = int(self.tus("PATCH", link, fields, piece).get("Upload-Offset"))

    def tus(self, method, link, fields=(), body=b""):
        fields = [("Tus-Resumable", "1.0.0"), *fields, ("Connection", "close")]
        answer = self.line(method, link, fields, body, is_file=method == "PATCH")
        if not answer.is_success:
            raise Refused("DetailedError", status=answer.status)
        return answer


# websemantics, in a browser


class XHR(namedtuple("XHR", "status text headers")):
    def header(self, name):
        return self.headers.get(name.lower())


class Browser(Client):
    """XMLHttpRequest across origins, by the rules of the Fetch standard."""

    origin = "https://app.example"
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    plain_types = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
    readable = {
        "cache-control",
        "content-language",
        "content-length",
        "content-type",
        "expires",
        "last-modified",
        "pragma",
    }

    def xhr(self, method, url, headers, body=b"", *, is_file=False):
        unsafe = sorted(
            name.lower()
            for name, value in headers.items()
            if name != "Content-Type" or value.partition(";")[0] not in self.plain_types
        )
        if unsafe or method not in ("GET", "HEAD", "POST"):
            self.preflight(method, url, unsafe)
        fields = [("User-Agent", self.agent), ("Accept", "*/*"), ("Origin", self.origin), *headers.items()]
        if method != "GET":
            fields.append(("Content-Length", len(body)))
        answer = self.line(method, url, fields, body, is_file=is_file)
        self.check(answer)
        # A browser would follow it.
        assert answer.status != 308 or answer.get("Location") is None, answer
        exposed = {name.strip().lower() for name in (answer.get("Access-Control-Expose-Headers") or "").split(",")}
        found = {name.lower(): value for name, value in answer.fields if name.lower() in self.readable | exposed}
        return XHR(answer.status, answer.body.decode(), found)

    def preflight(self, method, url, names):
        fields = [("Accept", "*/*"), ("Origin", self.origin), ("Access-Control-Request-Method", method)]
        if names:
            fields.append(("Access-Control-Request-Headers", ",".join(names)))
        answer = self.line("OPTIONS", url, fields)
        assert answer.is_success, answer
        self.check(answer)
        methods = {name.strip() for name in (answer.get("Access-Control-Allow-Methods") or "").split(",")}
        assert methods & {method, "*"} or method in ("GET", "HEAD", "POST"), (method, answer)
        allowed = {name.strip().lower() for name in (answer.get("Access-Control-Allow-Headers") or "").split(",")}
        # `*` is not meant for Authorization.
        assert all(name in allowed or "*" in allowed and name != "authorization" for name in names), (names, answer)

    def check(self, answer):
        assert answer.get("Access-Control-Allow-Origin") in ("*", self.origin), answer


class Websemantics(Browser):
    can_be_empty = False
    # `chunkSize`, 0 by default: whole files.
    chunk = 0

    def authorized(self):
        return {"Authorization": f"Bearer {self.token}"}

    def create(self, data):
        headers = self.authorized() | {"Content-Type": "application/json"}
        body = compact({"type": "streaming", "upgrade_to_1080": False}).encode()
        answer = self.xhr("POST", self.root + "/me/videos", headers, body)
        if answer.status >= 400:
            raise Refused("onError", text=json.loads(answer.text)["error"])
        return json.loads(answer.text)

    def send(self, ticket, data):
        link, size, start, is_probe = ticket["upload_link_secure"], len(data), 0, False
        while True:
            try:
                if is_probe:
                    headers = {"Content-Range": f"bytes */{size}", "X-Upload-Content-Type": "video/mp4"}
                    answer = self.xhr("PUT", link, headers)
                else:
                    end = min(start + self.chunk, size) if self.chunk else size
                    headers = {"Content-Type": "video/mp4", "Content-Range": f"bytes {start}-{end - 1}/{size}"}
                    answer = self.xhr("PUT", link, headers, data[start:end], is_file=True)
            except Cut:
                is_probe = True
                continue
            is_probe = False
            if answer.status in (200, 201):
                return self.complete(ticket)
            if answer.status != 308:
                # It neither goes on nor tells its app.
                raise Stuck(f"{answer}")
            if found := answer.header("Range"):
                start = int(re.findall(r"\d+", found)[-1]) + 1

    def complete(self, ticket):
        answer = self.xhr("DELETE", self.root + ticket["complete_uri"], self.authorized())
        if answer.status >= 400:
            raise Refused("onError", text=json.loads(answer.text)["error"])
        video = answer.header("Location").split("/")[-1]
        body = {"name": "Default name", "description": "A & B", "privacy.view": "nobody"}
        text = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in body.items())
        headers = self.authorized() | {"Content-Type": "text/plain;charset=UTF-8"}
        edited = self.xhr("PATCH", f"{self.root}/videos/{video}", headers, text.encode())
        if edited.status >= 400:
            raise Refused("onError", text=json.loads(edited.text)["error"])
        self.metadata = json.loads(edited.text)
        return f"/videos/{video}"


# vimeo-dot-net


class NET(Client):
    """The part that versions 2 and 3 have."""

    tells = ("status", "text")
    can_be_empty = False
    version = "3.4"
    # Members that .NET reads into types without null.
    typed = {
        "width": int,
        "height": int,
        "created_time": moment,
        "modified_time": moment,
        "release_time": moment,
        "privacy.download": bool,
        "privacy.add": bool,
        "pictures.active": bool,
        "user.created_time": moment,
        "user.upload_quota.space.max": int,
        "user.upload_quota.space.free": int,
        "user.upload_quota.space.used": int,
        "user.upload_quota.resets": int,
        "user.upload_quota.quota.hd": bool,
        "user.upload_quota.quota.sd": bool,
        "is_playable": bool,
        "has_audio": bool,
        "metadata.connections.pictures.total": int,
        "metadata.connections.texttracks.total": int,
    }

    def request(self, method, url, body=None, kind=None, *, is_api=True, is_file=False, **more):
        fields = []
        if is_api:
            fields.append(("Authorization", f"Bearer {self.token}"))
        fields.append(("Accept", f"application/vnd.vimeo.*+json; version={self.version}, application/json"))
        fields += [(name.replace("_", "-"), value) for name, value in more.items()]
        if kind:
            fields.append(("Content-Type", kind))
        if body is not None or method not in ("GET", "HEAD", "DELETE"):
            fields.append(("Content-Length", len(body or b"")))
        url = url if url.startswith("http") else self.root + url
        return self.line(method, url, fields, body or b"", is_file=is_file)

    def model(self, answer, message):
        """Reads the object first, also of a refusal, then the limits, then the status."""
        document = answer.json()
        for path, kind in self.typed.items():
            if has(document, path):
                value = member(document, path)
                assert moment(value) if kind is moment else type(value) is kind, (path, value)
        unit = member(document, "user.upload_quota.space.unit")
        assert unit in ("video_size", "video_count", None), unit
        self.limits(answer)
        self.succeed(answer, message)
        return document

    def limits(self, answer):
        self.remaining = int(answer.get("X-RateLimit-Remaining") or 0)
        int(answer.get("X-RateLimit-Limit") or 0)
        if text := answer.get("X-RateLimit-Reset"):
            self.reset = moment(text)

    def succeed(self, answer, message, *others):
        if not answer.is_success and answer.status not in others:
            raise Refused("VimeoUploadException", status=answer.status, text=f"{message} {answer.body.decode()}")

    def check_space(self, ticket, data):
        space = ticket["user"]["upload_quota"]["space"]
        if len(data) > space["free"]:
            raise Refused("InvalidOperationException", text="User does not have enough free space")


class DotNet2(NET):
    """2.2.0: the Old Upload, with the type of the ticket in the query and a total that it does not tell."""

    version = "3.2"
    typed = NET.typed | {
        "quota.sd": bool,
        "quota.hd": bool,
        "quota.total_space": int,
        "quota.space_used": int,
        "quota.free_space": int,
        "quota.max_file_size": int,
        "quota.resets": moment,
    }

    def create(self, data):
        answer = self.request("POST", "/me/videos?type=streaming")
        return self.model(answer, "Error generating upload ticket.")

    def send(self, ticket, data):
        assert ticket["ticket_id"].strip()
        link, start = ticket["upload_link_secure"], 0
        while True:
            self.check_space(ticket, data)
            end = min(start + self.chunk, len(data))
            fields = {"Content_Range": f"bytes {start}-{end}/*"}
            try:
                answer = self.request("PUT", link, data[start:end], is_api=False, is_file=True, **fields)
            except Cut as cut:
                raise Refused("VimeoUploadException", text="Error uploading file chunk") from cut
            self.succeed(answer, "Error uploading file chunk.", 400)
            start = self.verified(link, data) if answer.status == 400 else end
            if start == len(data) and self.verified(link, data) == len(data):
                break
        done = self.request("DELETE", ticket["complete_uri"])
        self.succeed(done, "Error marking file upload as complete.")
        return done.get("Location")

    def verified(self, link, data):
        answer = self.request("PUT", link, b"", is_api=False, Content_Range="bytes */*")
        self.succeed(answer, "Error verifying file upload.", 308)
        if answer.status == 200:
            return len(data)
        start, end = re.search(r"bytes\s*=\s*(\d+)-(\d+)", answer.get("Range") or "bytes=0-0").groups()
        return int(end) - int(start)


class DotNet(NET):
    """3.4.0."""

    def create(self, data):
        body = f'{{"upload": {{ "approach": "tus", "size": "{len(data)}"}}}}'.encode()
        answer = self.request("POST", "/me/videos", body, "application/json; charset=utf-8")
        ticket = self.model(answer, "Error generating upload ticket.")
        assert type(ticket["upload"]["size"]) is int
        # What it gives its app.
        assert ticket["link"]
        return ticket

    def replace(self, uri, data):
        body = '{ "file_name": "x.mp4", "upload": { "status": "in_progress",'
        body += f' "size": "{len(data)}", "approach": "tus"}}}}'
        answer = self.request("POST", f"{uri}/versions", body.encode(), "application/json; charset=utf-8")
        self.send(self.model(answer, "Error generating upload ticket to replace video."), data)

    def send(self, ticket, data):
        link, start = ticket["upload"]["upload_link"], 0
        while True:
            self.check_space(ticket, data)
            end = min(start + self.chunk, len(data))
            fields = {"Tus_Resumable": "1.0.0", "Upload_Offset": start}
            try:
                answer = self.request("PATCH", link, data[start:end], OFFSET_TYPE, is_api=False, is_file=True, **fields)
            except Cut as cut:
                raise Refused("VimeoUploadException", text="Error uploading file chunk") from cut
            self.succeed(answer, "Error uploading file chunk.")
            start = end
            if start == len(data):
                check = self.request("HEAD", link, is_api=False, Tus_Resumable="1.0.0")
                self.succeed(check, "Error verifying file upload.")
                assert check.status == 200, check
                return ticket["uri"]

    def pull(self, link):
        body = urlencode({"upload.approach": "pull", "upload.link": link}).encode()
        answer = self.request("POST", "/me/videos", body, "application/x-www-form-urlencoded")
        return self.model(answer, "Error generating upload ticket.")["uri"]

    def upload_image(self, uri, data):
        video = self.model(self.request("GET", uri), "Error getting video settings.")
        made = self.request("POST", video["metadata"]["connections"]["pictures"]["uri"])
        self.succeed(made, "Error posting thumbnail placeholder.")
        link, picture = made.json()["link"], made.json()["uri"]
        put = self.request("PUT", link, data, is_api=False, is_file=True)
        self.succeed(put, "Error putting thumbnail data.")
        self.form("PATCH", picture, {"active": "true"})
        return picture

    def upload_texttrack(self, uri, data):
        values = {"active": "true", "name": "sub.vtt", "language": "en-US", "type": "captions"}
        track = self.model(self.form("POST", f"{uri}/texttracks/", values), "Error generating text track ticket.")
        put = self.request("PUT", track["link"], data, is_api=False, is_file=True)
        self.succeed(put, "Error uploading text track file.", 400)
        return track["uri"]

    def form(self, method, path, values):
        answer = self.request(method, path, urlencode(values).encode(), "application/x-www-form-urlencoded")
        self.succeed(answer, "Error")
        return answer


# vimeo-unity-sdk


class Unity(Client):
    can_be_empty = False

    def fields(self, more):
        return [
            ("User-Agent", "UnityPlayer/2018.3.0f2 (UnityWebRequest/1.0, libcurl/7.52.0-DEV)"),
            ("Accept-Encoding", "identity"),
            ("X-Unity-Version", "2018.3.0f2"),
            ("Accept", "application/vnd.vimeo.*+json;version=3.4"),
            *more,
        ]

    def request(self, method, path, body=b"", **more):
        fields = [("Authorization", f"bearer {self.token}"), *((name.replace("_", "-"), v) for name, v in more.items())]
        if method != "GET":
            fields.append(("Content-Length", len(body)))
        answer = self.line(method, self.root + path, self.fields(fields), body)
        if answer.status >= 400:
            raise Refused("OnError", text=answer.json()["error"])
        return answer.json()

    def create(self, data):
        body = f'{{ "upload": {{ "approach": "tus", "size": "{len(data)}" }} }}'.encode()
        video = self.request("POST", "/me/videos", body, Content_Type="application/json")
        assert video["link"].startswith("http")
        return video

    def send(self, video, data):
        link = video["upload"]["upload_link"]
        for start in range(0, len(data), self.chunk):
            self.send_chunk(link, data, start, min(start + self.chunk, len(data)))
        return video["uri"]

    def send_chunk(self, link, data, start, end):
        for retries in range(4):
            fields = self.fields(
                [
                    ("Tus-Resumable", "1.0.0"),
                    ("Upload-Offset", start),
                    ("Content-Type", OFFSET_TYPE),
                    ("Content-Length", end - start),
                ]
            )
            try:
                # It looks at no status.
                return self.line("PATCH", link, fields, data[start:end], is_file=True)
            except Cut as cut:
                if retries == 3:
                    raise Refused("OnUploadError", text=str(cut)) from cut
            self.pause(5)
            answer = self.line("HEAD", link, self.fields([("Tus-Resumable", "1.0.0")]))
            start = int(answer.get("Upload-Offset") or start)

    def save(self, uri, **values):
        body = urlencode(values).encode()
        fields = {"Content_Type": "application/x-www-form-urlencoded", "X_HTTP_Method_Override": "PATCH"}
        return self.request("POST", uri, body, **fields)


# vimeo_me2


class Me2(Client):
    tells = ("status", "text")

    def request(self, method, url, allowed=(200,), body=None, **more):
        fields = {
            "authorization": f"Bearer {self.token}",
            "Accept": "application/vnd.vimeo.*+json;version=3.4",
            "User-Agent": "Vimeo_Me2",
        } | {name.replace("_", "-"): value for name, value in more.items()}
        content = b""
        if isinstance(body, dict):
            fields["Content-Type"], content = "application/json", compact(body).encode()
        elif body is not None:
            content = body
        if body is not None:
            fields["Content-Length"] = len(content)
        url = url if url.startswith("http") else self.root + url
        answer = self.line(method, url, fields.items(), content, is_file=isinstance(body, bytes))
        if answer.status not in allowed:
            text = answer.json()["error"] if answer.body else None
            raise Refused("RequestFailed", status=answer.status, text=text)
        answer.document = answer.json() if answer.body else None
        return answer

    def create(self, data):
        assert self.request("GET", "/me").document["uri"]
        body = {"upload": {"approach": "tus", "size": str(len(data))}}
        return self.request("POST", "/me/videos", body=body).document

    def send(self, ticket, data):
        start = 0
        while True:
            fields = {"Content_Type": OFFSET_TYPE, "Tus_Resumable": "1.0.0", "Upload_Offset": start}
            try:
                answer = self.request("PATCH", ticket["upload"]["upload_link"], (204,), data[start:], **fields)
            except Cut as cut:
                raise Refused("EOFError", text=str(cut)) from cut
            start = int(answer.get("upload-offset"))
            if start == len(data):
                break
        # It sends back what it has read, except two members, with another name.
        self.video = self.request("GET", ticket["uri"]).document
        body = {name: value for name, value in self.video.items() if name not in ("privacy", "type")} | {"name": "M"}
        self.request("PATCH", ticket["uri"], (200, 204), body=body)
        return ticket["uri"]

    def destroy(self, uri):
        self.request("DELETE", uri, (204,))


# go-vimeo


class Go(Client):
    """2.2.4, with go-tus for the bytes, as its documentation shows."""

    tells = ("status", "text", "code")
    # `omitempty`
    can_be_empty = False
    typed = {
        int: "duration width height stats.plays upload.size files.0.size download.0.size pictures.sizes.0.width "
        "error_code",
        str: "uri name description link language license status resource_key embed.html upload.status "
        "upload.upload_link upload.redirect_url upload.link upload.form upload.approach transcode.status user.uri "
        "user.name user.link user.account user.resource_key pictures.uri pictures.type app.uri app.name privacy.view "
        "privacy.embed error developer_message",
        bool: "privacy.download privacy.add pictures.active",
        list: "content_rating tags categories files download pictures.sizes",
    }

    def request(self, method, path, body=None):
        fields = [("User-Agent", "go-vimeo/2.2.4"), ("Accept", "application/vnd.vimeo.*+json;version=3.4")]
        content = b""
        if body is not None:
            content = (compact(body) + "\n").encode()
            fields += [("Content-Length", len(content)), ("Content-Type", "application/json")]
        fields += [("Authorization", f"Bearer {self.token}"), ("Accept-Encoding", "gzip")]
        answer = self.line(method, f"{self.root}/{path}", fields, content)
        if answer.is_success or answer.status == 308:
            return self.decoded(answer)
        error = self.decoded(answer)
        text = error["error"]
        if answer.status == 429 and answer.get("X-RateLimit-Remaining") == "0":
            self.reset = moment(answer.get("X-RateLimit-Reset"))
            raise Refused("RateLimitError", status=429, text=text)
        raise Refused("ErrorResponse", status=answer.status, text=text, code=error.get("error_code") or None)

    def decoded(self, answer):
        """Go refuses a member of another type; null it passes over."""
        if not answer.body:
            return None
        document = answer.json()
        for kind, names in self.typed.items():
            for path in names.split():
                value = member(document, path)
                assert value is None or type(value) is kind, (path, value)
        for path in ("created_time", "modified_time", "release_time", "user.created_time", "files.0.created_time"):
            if text := member(document, path):
                moment(text)
        return document

    def create(self, data):
        video = self.request("POST", "me/videos", {"name": "N", "upload": self.wanted(data)})
        self.id = int(video["uri"].split("/")[-1])
        return video

    def wanted(self, data):
        return {"approach": "tus", "size": len(data)}

    def send(self, video, data):
        start = 0
        while start < len(data):
            piece = data[start : start + self.chunk]
            fields = [
                ("User-Agent", "Go-http-client/1.1"),
                ("Content-Length", len(piece)),
                ("Content-Type", OFFSET_TYPE),
                ("Tus-Resumable", "1.0.0"),
                ("Upload-Offset", start),
                ("Accept-Encoding", "gzip"),
            ]
            try:
                answer = self.line("PATCH", video["upload"]["upload_link"], fields, piece, is_file=True)
            except Cut as cut:
                raise Refused("EOF", text=str(cut)) from cut
            if answer.status != 204:
                raise Refused("ClientError", status=answer.status)
            start = int(answer.get("Upload-Offset"))
        return self.request("GET", f"videos/{self.id}")["uri"]

    def pull(self, link):
        return self.request("POST", "me/videos", {"name": "", "upload": {"link": link, "approach": "pull"}})["uri"]


# VimeoUpload and VimeoNetworking (iOS)

FINAL = {"available", "uploading_error", "transcoding_error", "quota_exceeded", "total_cap_exceeded"}
STATUSES = FINAL | {"unavailable", "uploading", "transcode_starting", "transcoding"}
KINDS = (
    "video cover service comment user picture activity uploadticket error trigger category channel song ondemand.page "
    "ondemand.season programmed.cinema policydocument notification notification.subscriptions product stats album"
)
TYPES = {"application/json", "text/json", "text/html", "text/javascript"} | {
    f"application/vnd.vimeo.{kind}+json" for kind in KINDS.split()
}


class IOS(Client):
    """The session. `is_apple`: the loader of Apple's platforms writes the length as an integer, Foundation on Linux as
    the SDK sets it."""

    tells = ("status", "text", "code", "domain")
    api_version = "3.4"
    is_apple = False

    def fields(self, more=()):
        return [
            ("Accept", f"application/vnd.vimeo.*+json; version={self.api_version}"),
            ("Authorization", f"Bearer {self.token}"),
            ("Accept-Language", "en;q=1"),
            ("Accept-Encoding", "gzip, deflate"),
            ("User-Agent", "VimeoUpload-iOS/1.0 (iPhone; iOS 14.4; Scale/3.00) VimeoNetworking/5.1.0"),
            ("Connection", "keep-alive"),
            *more,
        ]

    def call(self, method, path, parameters=None):
        body = slashed(parameters).encode() if parameters else b""
        more = [("Content-Type", "application/json")] if parameters else []
        if method in ("POST", "PATCH"):
            more.append(("Content-Length", len(body)))
        return self.line(method, self.root + path, self.fields(more), body)

    def put(self, link, data, kind="video/mp4"):
        """The only request with bytes; nobody looks at its status."""
        size = float(len(data))
        length = len(data) if self.is_apple else size
        more = [("Content-Type", kind), ("Content-Length", length), ("Content-Range", f"bytes 0-{size}/{size}")]
        self.line("PUT", link, self.fields(more), data, is_file=True)

    def data_task(self, method, path, parameters=None, *, domain=None):
        """Calls whose answer is checked by type and status; `domain` is that of the operation around it."""
        answer = self.call(method, path, parameters)
        assert not answer.body or answer.type in TYPES, answer
        if answer.is_success:
            return answer.json() if answer.body else {}
        document = answer.json() if answer.body else {}
        code = answer.get("Vimeo-Error-Code")
        code = int(code) if code else document.get("error_code")
        assert code is None or isinstance(code, int), code
        is_token = answer.status == 401 and answer.get("WWW-Authenticate") == 'Bearer error="invalid_token"'
        raise Refused(
            "InvalidToken" if is_token else "NSError",
            status=answer.status,
            text=document["error"],
            code=code,
            domain=domain,
            parameters=[one["error_code"] for one in document.get("invalid_parameters", [])],
        )

    def download_task(self, method, path, parameters=None, *, domain):
        """Calls whose answer is read from a file: only status and object matter, and no text of the server is told."""
        answer = self.call(method, path, parameters)
        document = answer.json() if answer.body else {}
        if not answer.is_success:
            raise Refused("VimeoResponseSerializerErrorDomain", domain=domain)
        assert isinstance(document, dict), document
        answer.document = document
        return answer

    @staticmethod
    def video(document):
        assert document["uri"] and document["resource_key"] and document["user"]["uri"], document
        # The app is ended by an assertion.
        assert document["status"] in STATUSES, document["status"]
        for name in ("created_time", "modified_time", "release_time"):
            moment(document[name])
        assert isinstance(document["privacy"]["download"], bool)
        return document

    def my_videos(self):
        return [self.video(one) for one in self.data_task("GET", "/me/videos")["data"]]

    def refresh(self, uri):
        """Asks until the status is final; returns all that it saw. `None` at the end: the video is gone."""
        seen = []
        while not seen or seen[-1] not in FINAL:
            if seen:
                self.pause(3)
            try:
                seen.append(self.video(self.data_task("GET", uri, domain="VideoOperationErrorDomain"))["status"])
            except Refused as refused:
                if refused.status == 404:
                    return [*seen, None]
        return seen

    def cancel(self, uri):
        """Deletes a video; returns whether it is gone. Three times again after an error."""
        for _ in range(4):
            try:
                self.data_task("DELETE", uri, domain="DeleteVideoOperationErrorDomain")
                return True
            except Refused as refused:
                self.error = refused
                if refused.status == 404:
                    return True
        return False


class Suspended(Exception):
    """The app has suspended the upload."""


class Descriptor(IOS):
    """An upload of one file. Connection errors repeat it from its beginning, without limit.

    `suspends_at`: after how many bytes the app suspends it; `run` again is what `resume` does.
    """

    suspends_at = None

    def run(self, prepare):
        while True:
            if self.suspends_at is not None:
                self.line.cuts, self.line.is_abrupt = [self.suspends_at], True
            try:
                return prepare()
            except Cut:
                if self.suspends_at is not None:
                    self.suspends_at, self.line.is_abrupt = None, False
                    raise Suspended from None


class IOSOld(Descriptor):
    """OldUploadDescriptor: create, upload, activate, settings."""

    tells = ("domain",)
    api_version = "3.3.1"
    settings = {"name": "My holiday", "description": "Beach", "privacy": {"view": "nobody"}}

    def create(self, data):
        parameters = {"type": "streaming", "size": len(data)}
        return self.download_task("POST", "/me/videos", parameters, domain="CreateVideoErrorDomain").document

    def upload(self, data):
        return self.run(lambda: self.send(self.create(data), data))

    def send(self, ticket, data):
        self.put(ticket["upload_link_secure"], data)
        done = self.download_task("DELETE", ticket["complete_uri"], domain="ActivateVideoErrorDomain")
        uri = done["Location"]
        if self.settings:
            self.video(self.download_task("PATCH", uri, self.settings, domain="VideoSettingsErrorDomain").document)
        return uri


class IOSNew(Descriptor):
    """CreateVideoOperation, then UploadDescriptor with the strategy for streaming; nothing is sent after the bytes."""

    settings = {"name": "My holiday"}
    tells_size = True

    def create(self, data):
        size = {"size": len(data)} if self.tells_size else {}
        upload = size | {"mime_type": "video/mp4", "approach": "streaming"}
        domain = "CreateVideoOperationErrorDomain"
        return self.video(self.data_task("POST", "/me/videos", {"upload": upload} | self.settings, domain=domain))

    def send(self, video, data):
        upload = video["upload"]
        assert upload["approach"] == "streaming", "UploadLinkError.wrongType"
        assert upload["upload_link"], "UploadLinkError.unavailable"
        self.run(lambda: self.put(upload["upload_link"], data))
        return video["uri"]

    def upload_image(self, uri, data):
        """The last three requests of CAMUploadDescriptor."""
        made = self.download_task("POST", f"{uri}/pictures", domain="CreateVideoThumbnailErrorDomain").document
        assert made["uri"] and made["link"] and made["resource_key"], made
        self.put(made["link"], data, "image/jpeg")
        domain = "ActivateVideoThumbnailErrorDomain"
        active = self.download_task("PATCH", made["uri"], {"active": "true"}, domain=domain).document
        assert active["uri"] == made["uri"] and active["resource_key"], active
        return made["uri"]


class IOSNewApple(IOSNew):
    is_apple = True


class VIMUpload(IOS):
    """The predecessor in Objective-C: a PUT without Content-Range, whose status it checks."""

    tells = ("text",)
    api_version = "3.2"

    def create(self, data):
        answer = self.call("POST", "/me/videos", {"type": "streaming", "size": len(data)})
        ticket = answer.json()
        if not answer.is_success:
            raise Refused("VIMCreateRecordTaskErrorDomain", text=ticket["error"])
        assert ticket["upload_link_secure"] and ticket["complete_uri"]
        return ticket

    def send(self, ticket, data):
        self.put(ticket["upload_link_secure"], data)
        done = self.checked(self.call("DELETE", ticket["complete_uri"]), "VIMActivateRecordTaskErrorDomain")
        metadata = {"name": "N", "description": "D", "privacy": {"view": "nobody"}}
        self.checked(self.call("PATCH", done["Location"], metadata), "VIMMetadataTaskErrorDomain")
        return done["Location"]

    def put(self, link, data):
        fields = self.fields([("Content-Length", len(data)), ("Content-Type", "video/mp4")])
        try:
            answer = self.line("PUT", link, fields, data, is_file=True)
        except Cut as cut:
            raise Refused("VIMUploadFileTaskErrorDomain", text=str(cut)) from cut
        self.checked(answer, "VIMUploadFileTaskErrorDomain")

    @staticmethod
    def checked(answer, domain):
        if not answer.is_success:
            raise Refused(domain, status=answer.status)
        return answer
