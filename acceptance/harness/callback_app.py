"""An app that receives OSS callbacks: a real HTTP server with all the faults that apps have."""

import base64
import contextlib
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

from standardwebhooks import Webhook

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
    fields = {"Content-Type": "application/json", "Content-Length": len(body)} | {
        name.replace("_", "-"): value for name, value in fields.items()
    }
    return status, {name: value for name, value in fields.items() if value is not None}, body


class CallbackApp:
    """Answers each path as `replies` says: what `reply` makes, or a function of the callback that returns that.

    `secret`: verifies the signatures of calls.
    """

    def __init__(self, secret=None):
        self.secret = secret
        self.replies = {}
        self.calls = []
        self.failures = []
        self.changed = threading.Condition()
        app = self

        class Handler(BaseHTTPRequestHandler):
            # A response without a length ends with the connection.
            protocol_version = "HTTP/1.0"

            def do_POST(self):
                app.handle(self)

            def log_message(self, *_):
                pass

        class HTTPServer(ThreadingHTTPServer):
            daemon_threads = True

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def url(self, path):
        return f"http://{self.host}{path}"

    def handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        call = Callback(request.path, dict(request.headers.items()), body)
        try:
            # The library reads JSON, but not every callback is JSON.
            Webhook(self.secret).verify(body, {name.lower(): value for name, value in call.fields.items()})
        except json.JSONDecodeError:
            pass
        except Exception as failure:
            self.failures.append(failure)
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()
        answer = self.replies.get(request.path.partition("?")[0], reply())
        status, fields, content = answer(call) if callable(answer) else answer
        # The peer may have disconnected.
        with contextlib.suppress(OSError):
            request.send_response(status)
            for name, value in fields.items():
                request.send_header(name, str(value))
            request.end_headers()
            request.wfile.write(content)

    def to(self, path):
        """The callbacks to a path so far."""
        with self.changed:
            return [call for call in self.calls if call.path.partition("?")[0] == path]

    def wait(self, path, count=1, timeout=20):
        """Waits for this many callbacks to a path and returns them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.to(path)) >= count, timeout), (
                f"no {count} callbacks to {path}"
            )
        return self.to(path)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        assert self.failures == []
