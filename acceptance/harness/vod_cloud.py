"""Tencent Cloud VOD in its own place: the calls that upload SDKs make, as a real HTTP server (protocol, section 2).

Signatures are checked by code of its own (protocol, section 1), which test_tencent_direct.py compares with the vendor's
vectors. For the bytes it hands out credentials of a gateway in relay mode, which stands for COS.
"""

import hashlib
import hmac
import json
import re
import threading
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from harness.api import API
from harness.http_server import LocalServer

MOST_SECONDS = 7_776_000
APP_ID = 1_400_000_001
BUCKET = "vodtest"
STORAGE_APP_ID = 1_250_000_000


def signed(original, secret_key):
    """A signature of the text `original` (protocol, section 1.1)."""
    raw = original.encode() if isinstance(original, str) else original
    return b64encode(hmac.new(secret_key.encode(), raw, hashlib.sha1).digest() + raw).decode()


def parameters(signature, secret_key):
    """The parameters of a signature that this key has made; `None` for any other (protocol, section 1.5)."""
    try:
        raw = b64decode(signature, validate=True)
    except ValueError:
        return None
    code, original = raw[:20], raw[20:]
    if not original or not hmac.compare_digest(code, hmac.new(secret_key.encode(), original, hashlib.sha1).digest()):
        return None
    pairs = parse_qsl(original.decode(), keep_blank_values=True, strict_parsing=True)
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


def code_of(signature, secret_id, secret_key, now):
    """The code with which the service answers a signature, and its parameters."""
    values = parameters(signature, secret_key)
    if values is None or values.get("secretId") != secret_id:
        return 10004, None
    numbers = [values.get(name, "") for name in ("currentTimeStamp", "expireTime", "random")]
    if not all(re.fullmatch("[0-9]+", number) for number in numbers):
        return 10004, None
    start, end, random = map(int, numbers)
    if end - start > MOST_SECONDS or random > 4_294_967_295:
        return 10004, None
    return (0, values) if end > now else (10010, None)


@dataclass
class Call:
    """A request as it came, and the answer."""

    method: str
    target: str
    fields: list
    body: bytes
    # Of the connection: a kept one has the same.
    peer: tuple
    parameters: dict | None = None
    status: int | None = None
    answer: bytes | None = None

    @property
    def action(self):
        return dict(parse_qsl(urlsplit(self.target).query)).get("Action")

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Answer:
    """What is sent in place of the true answer."""

    status: int = 200
    body: bytes = b"{}"
    fields: dict = field(default_factory=dict)
    is_chunked: bool = False


class Silence:
    """No answer, until the test ends."""


class Reset:
    """The connection is reset in place of an answer."""


class Noise:
    """Bytes that are not HTTP."""


def chunks(body):
    for start in range(0, len(body), 1 << 16):
        piece = body[start : start + (1 << 16)]
        yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    yield b"0\r\n\r\n"


class VODCloud(LocalServer):
    """The service. `pair`: the account's; `store`: a gateway with an object endpoint, in place of COS."""

    def __init__(self, pair, store=None):
        self.secret_id, self.secret_key = pair
        self.store = store
        self.calls = []
        # What happens to the next calls in place of an answer, first to last.
        self.faults = []
        self.sessions = {}
        self.used = set()
        self.ended = threading.Event()
        super().__init__()

    def close(self):
        self.ended.set()
        super().close()

    # The wire

    def handle(self, request):
        body = request.content()
        call = Call(request.command, request.path, request.headers.items(), body, request.client_address)
        self.calls.append(call)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Silence):
            self.ended.wait()
        if isinstance(fault, Reset):
            request.reset()
        if isinstance(fault, Noise):
            request.wfile.write(b"HELLO\r\n\r\n")
        if fault and not isinstance(fault, Answer):
            request.close_connection = True
            return
        answer = fault or Answer(body=self.answer(call))
        call.status, call.answer = answer.status, answer.body
        length = None if answer.is_chunked else len(answer.body)
        content = b"".join(chunks(answer.body)) if answer.is_chunked else answer.body
        fields = {"Transfer-Encoding": "chunked" if answer.is_chunked else None} | answer.fields
        request.respond(answer.status, content, "text/html", Content_Length=length, **fields)

    # The calls

    def answer(self, call):
        code, message, data = self.outcome(call)
        document = {"code": code, "message": message, "requestId": f"r-{len(self.calls)}"}
        # Neither the order of members nor white space is that of the gateway's own answers.
        return (json.dumps(document | ({"data": data} if data else {}), ensure_ascii=False, indent=1) + "\n\n").encode()

    def outcome(self, call):
        names = {"PrepareUploadUGC": self.prepare, "ApplyUploadUGC": self.apply, "CommitUploadUGC": self.commit}
        if call.method != "POST" or urlsplit(call.target).path != "/v3/index.php" or call.action not in names:
            return 10001, "ugc upload | invalid request", None
        # The SDK in C++ has capital letters.
        body = {name[0].lower() + name[1:]: value for name, value in call.json.items()}
        code, call.parameters = code_of(body.get("signature", ""), self.secret_id, self.secret_key, time.time())
        if code != 0:
            return code, "ugc upload | invalid signature", None
        return names[call.action](body, call)

    def prepare(self, body, call):
        return 0, "成功", {"appId": APP_ID, "cosRegionList": []}

    def apply(self, body, call):
        if key := body.get("vodSessionKey"):
            if key not in self.sessions:
                return 20055, "session expired", None
        else:
            if call.parameters.get("oneTimeValid") == "1":
                if body["signature"] in self.used:
                    return 20056, "duplicate signature", None
                self.used.add(body["signature"])
            number = 5_285_890_784_418_605_000 + len(self.sessions)
            key = f"session-{number}"
            directory = f"/vod/1a2b3c4d{number}/"
            files = {"video": f"{directory}f0.{body.get('videoType', '').lower()}"}
            if "coverType" in body:
                files["cover"] = f"{directory}{number + 1}.{body['coverType']}"
            self.sessions[key] = (str(number), directory, files)
        _, directory, files = self.sessions[key]
        return 0, "成功", self.application(key, directory, files)

    def application(self, key, directory, files):
        now = int(time.time())
        return {kind: {"storageSignature": "", "storagePath": path} for kind, path in files.items()} | {
            "storageAppId": STORAGE_APP_ID,
            "storageBucket": BUCKET,
            "storageRegion": "cq",
            "storageRegionV5": "ap-chongqing",
            "StorageRegionV5": "ap-chongqing",
            "domain": "vod2.qcloud.com",
            "vodSessionKey": key,
            "tempCertificate": self.certificate(directory, now),
            "appId": APP_ID,
            "timestamp": now,
            "UnknownMember": {"Größe": [1, None]},
        }

    def certificate(self, directory, now):
        if not self.store:
            return {"secretId": "AKID-temp", "secretKey": "temp", "token": "token", "expiredTime": now + 7200}
        wanted = {"format": "tencent", "bucket": f"{BUCKET}-{STORAGE_APP_ID}", "keyPrefix": directory.removeprefix("/")}
        answer = API(self.store.url, self.store.admin_key).post("/v1/sts/tokens", wanted | {"subject": "cloud"})
        assert answer.status_code == 201, answer.text
        document = answer.json()
        return {
            "secretId": document["credentials"]["tmpSecretId"],
            "secretKey": document["credentials"]["tmpSecretKey"],
            "token": document["credentials"]["sessionToken"],
            "expiredTime": document["expiredTime"],
        }

    def commit(self, body, call):
        if body.get("vodSessionKey") not in self.sessions:
            return 20055, "session expired", None
        number, _, files = self.sessions[body["vodSessionKey"]]
        links = {kind: {"url": f"http://{APP_ID}.vod2.myqcloud.com{path}"} for kind, path in files.items()}
        return 0, "成功", links | {"fileId": number}
