"""A proxy with faults between the SDKs of Tencent Cloud VOD and a gateway or its object endpoint.

with VODProxy(gateway.port) as main:
    main.fault("ApplyUploadUGC", Refuse(500, "InternalError"))
    …
    assert main.count("ApplyUploadUGC") == 2
"""

import email.utils
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from harness.faulty_store import Fault, FaultyStore, Rule


@dataclass
class Respond(Fault):
    """Responds with this body instead of the server, and with the current date unless `headers` have another."""

    status: int = 200
    body: str = ""
    headers: dict = field(default_factory=dict)

    async def handle(self, exchange):
        await exchange.take_body()
        dated = {"Date": email.utils.formatdate(usegmt=True)} | self.headers
        await exchange.answer(self.status, self.body, dated)
        return True


def cos_error(status, code, message="The store says so.", **headers):
    """An error of COS (protocol, section 4.5)."""
    body = (
        "<?xml version='1.0' encoding='utf-8' ?>\n<Error>"
        f"<Code>{code}</Code><Message>{message}</Message><Resource>host/key</Resource><RequestId>1</RequestId></Error>"
    )
    return Respond(status, body, headers)


def operation(method, target):
    """The name and the key of a request: an action of the calls, or an operation of COS in a bucket's host."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    key = unquote(parts.path).removeprefix("/")
    if key == "v3/index.php":
        return query.get("Action", method), key
    if not key:
        plain = {"GET": "ListObjects", "HEAD": "HeadBucket"}.get(method, method)
        return "ListMultipartUploads" if method == "GET" and "uploads" in query else plain, key
    if "uploadId" in query:
        names = {
            "PUT": "UploadPart",
            "POST": "CompleteMultipartUpload",
            "GET": "ListParts",
            "DELETE": "AbortMultipartUpload",
        }
        return names.get(method, method), key
    if method == "POST" and "uploads" in query:
        return "CreateMultipartUpload", key
    return {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject"}.get(method, method), key


class VODProxy(FaultyStore):
    """Its rules and its records have the names of the vendor's calls, and whole keys."""

    def __init__(self, port):
        super().__init__(port)
        # Beside `rules`, which the proxy compares with the names of requests in path style.
        self.scripted = []

    def fault(self, operation, fault, **about):
        rule = Rule(operation, fault, **about)
        with self.lock:
            self.scripted.append(rule)
        return rule

    def clear(self):
        with self.lock:
            self.scripted = []

    def _record(self, head):
        call = super()._record(head)
        with self.lock:
            call.operation, call.key = operation(call.method, call.target)
            call.fault = next((rule.fault for rule in self.scripted if rule.takes(call)), None)
        return call

    def parts(self, **about):
        """The numbers of the parts that were sent, in order."""
        return [call.part for call in self.of("UploadPart", **about)]
