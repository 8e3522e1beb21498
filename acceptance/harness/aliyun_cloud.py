"""ApsaraVideo VOD of Alibaba Cloud in its own place: a real HTTP server for the calls of a gateway in direct mode.

It checks signatures (ACS3-HMAC-SHA256; protocol, section 3.2) by code of its own, which test_aliyun_direct.py compares
with the vendor's vectors.
"""

import hashlib
import hmac
import json
import threading
import time
import uuid
from base64 import b64encode
from calendar import timegm
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlsplit

from harness.http_server import LocalServer


def escaped(text):
    return quote(text, safe="-_.~")


def canonical(method, path, query, headers, names, content_hash):
    """What is signed: `query` and `headers` are pairs, `names` the signed headers in order."""
    values = {name.lower(): value.strip() for name, value in headers}
    lines = [f"{escaped(name)}={escaped(value)}" for name, value in sorted(query)]
    signed = "".join(f"{name}:{values[name]}\n" for name in names)
    return f"{method}\n{path}\n{'&'.join(lines)}\n{signed}\n{';'.join(names)}\n{content_hash}"


def signature(text, secret):
    digest = hashlib.sha256(text.encode()).hexdigest()
    return hmac.new(secret.encode(), f"ACS3-HMAC-SHA256\n{digest}".encode(), hashlib.sha256).hexdigest()


@dataclass
class Call:
    """A request that arrived, and what is wrong with it."""

    action: str
    parameters: dict
    problem: str | None


class AliyunVODCloud(LocalServer):
    """`pair` is that of the account. `answer`, if set, takes a call and returns status and document, or `None`."""

    def __init__(self, pair):
        self.pair = pair
        self.calls = []
        self.nonces = set()
        self.media = {}
        self.answer = None
        self.lock = threading.Lock()
        super().__init__()

    def problem(self, request, query, body):
        """Why a call is refused: strict, as in the documentation."""
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        fields = dict(headers)
        if len(fields) != len(headers):
            return "a header field is repeated"
        scheme, _, rest = fields.get("authorization", "").partition(" ")
        parts = dict(part.split("=", 1) for part in rest.split(",") if "=" in part)
        if scheme != "ACS3-HMAC-SHA256" or set(parts) != {"Credential", "SignedHeaders", "Signature"}:
            return "another scheme"
        names = parts["SignedHeaders"].split(";")
        wanted = {"host"} | {name for name in fields if name.startswith("x-acs-")}
        if names != sorted(names) or not wanted <= set(names):
            return "not all header fields are signed"
        if fields.get("x-acs-content-sha256") != hashlib.sha256(body).hexdigest():
            return "the hash of the content is wrong"
        text = canonical(
            request.command, urlsplit(request.path).path, query, headers, names, fields["x-acs-content-sha256"]
        )
        if parts["Credential"] != self.pair[0] or parts["Signature"] != signature(text, self.pair[1]):
            return "SignatureDoesNotMatch"
        if abs(timegm(time.strptime(fields["x-acs-date"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()) > 900:
            return "InvalidTimeStamp.Expired"
        if fields["x-acs-version"] != "2017-03-21":
            return "InvalidVersion"
        nonce = fields.get("x-acs-signature-nonce", "")
        with self.lock:
            if not nonce or nonce in self.nonces:
                return "SignatureNonceUsed"
            self.nonces.add(nonce)
        return None

    def handle(self, request):
        body = request.content()
        query = parse_qsl(urlsplit(request.path).query, keep_blank_values=True)
        call = Call(request.headers.get("x-acs-action", ""), dict(query), self.problem(request, query, body))
        with self.lock:
            self.calls.append(call)
        if call.problem:
            status, document = 400, {"Code": call.problem, "Message": "refused", "HostId": "vod", "RequestId": "R"}
        else:
            status, document = (self.answer and self.answer(call)) or self.document(call)
        if call.parameters.get("Format") == "XML":
            root = "Error" if status != 200 else f"{call.action}Response"
            inner = "".join(f"<{name}>{value}</{name}>" for name, value in document.items())
            content, kind = f'<?xml version="1.0"?><{root}>{inner}</{root}>'.encode(), "text/xml;charset=utf-8"
        else:
            content, kind = json.dumps(document).encode(), "application/json;charset=utf-8"
        request.respond(status, content, kind)

    def document(self, call):
        """The answer of the real service, in its form."""
        identifier = {"RequestId": str(uuid.uuid4()).upper()}
        if call.action.startswith("CreateUpload"):
            names = {"CreateUploadVideo": "VideoId", "CreateUploadImage": "ImageId"}
            media = uuid.uuid4().hex
            self.media[media] = call.parameters
            return 200, identifier | {names.get(call.action, "MediaId"): media} | self.upload(media)
        named = call.parameters.get("VideoId") or call.parameters.get("MediaIds") or call.parameters.get("ImageId")
        if named is not None and named not in self.media:
            return 404, identifier | {"Code": "InvalidVideo.NotFound", "Message": "no video", "HostId": "vod"}
        match call.action:
            case "RefreshUploadVideo":
                return 200, identifier | {"VideoId": named} | self.upload(named)
            case "GetVideoInfo":
                return 200, identifier | {"Video": {"VideoId": named, "Status": "Normal", "Size": 5}}
            case "GetUploadDetails":
                detail = {"MediaId": named, "Status": "Normal", "FileSize": 5}
                return 200, identifier | {"UploadDetails": [detail]}
        return 200, identifier

    @staticmethod
    def upload(media):
        address = {"Endpoint": "https://oss.example", "Bucket": "outin-1", "FileName": f"sv/{media}.mp4"}
        auth = {"AccessKeyId": "STS.x", "AccessKeySecret": "y", "SecurityToken": "z", "Expiration": "3000"}
        return {
            "UploadAddress": b64encode(json.dumps(address).encode()).decode(),
            "UploadAuth": b64encode(json.dumps(auth).encode()).decode(),
        }
