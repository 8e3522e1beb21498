"""An app that receives OSS callbacks: a real HTTP server with all the faults that apps have."""

import base64
import json
from dataclasses import dataclass
from urllib.parse import parse_qsl

from standardwebhooks import Webhook

from harness.http_server import Recorder

ANSWER = {"Status": "OK", "who": "é"}
FORM = "bucket=${bucket}&object=${object}&etag=${etag}&size=${size}&type=${mimeType}&op=${operation}&u=${x:user}"
JSON = '{"object":${object},"size":${size},"pic":"${imageInfo.width},${imageInfo.height}","u":${x:user}}'
VARIABLES = {"x:user": 'Zoë "Z" & 1+1'}


def encoded(value):
    return base64.b64encode(json.dumps(value).encode()).decode()


def callback(url, body=FORM, **more):
    """As a client names it."""
    return encoded({"callbackUrl": url, "callbackBody": body} | more)


def named(url, body=FORM, **more):
    """The header fields of a request that names one."""
    return {"x-oss-callback": callback(url, body, **more), "x-oss-callback-var": encoded(VARIABLES)}


@dataclass
class Callback:
    """One as it came."""

    path: str
    fields: dict
    body: bytes

    @property
    def form(self):
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))

    @property
    def json(self):
        return json.loads(self.body)


def reply(status=200, body=None, **fields):
    """A response with its length, unless `Content_Length` is `None`."""
    body = json.dumps(ANSWER, ensure_ascii=False).encode() if body is None else body
    return status, body, {"Content_Type": "application/json"} | fields


class CallbackApp(Recorder):
    """Answers each path as `replies` says: what `reply` makes, or a function of the callback that returns that.

    `secret`: verifies the signatures of calls.
    """

    def __init__(self, secret=None):
        self.secret = secret
        self.replies = {}
        # A response without a length ends with the connection.
        super().__init__(version="HTTP/1.0")

    def handle(self, request):
        body = request.content()
        call = Callback(request.path, dict(request.headers.items()), body)
        try:
            # The library reads JSON, but not every callback is JSON.
            Webhook(self.secret).verify(body, {name.lower(): value for name, value in call.fields.items()})
        except json.JSONDecodeError:
            pass
        except Exception as failure:
            self.failures.append(failure)
        self.record(call)
        answer = self.replies.get(request.path.partition("?")[0], reply())
        status, content, fields = answer(call) if callable(answer) else answer
        request.respond(status, content, **fields)

    def to(self, path):
        """The callbacks to a path so far."""
        return self.those(lambda call: call.path.partition("?")[0] == path)

    def wait(self, path, count=1, timeout=20):
        """Waits for this many callbacks to a path and returns them."""
        self.wait_for(lambda: len(self.to(path)) >= count, f"{count} callbacks to {path}", timeout)
        return self.to(path)
