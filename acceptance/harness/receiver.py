"""A receiver of webhooks: a real HTTP server that checks signatures with the library of Standard Webhooks."""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook


@dataclass
class Call:
    """One received hook."""

    id: str
    fields: dict
    payload: dict

    @property
    def type(self):
        return self.payload["Type"]

    @property
    def upload(self):
        return self.payload["Event"]["Upload"]

    @property
    def request(self):
        return self.payload["Event"]["HTTPRequest"]


class Receiver:
    """Answers hooks as `reply` says: a dict, or a status, or a function of the call that returns one of them."""

    def __init__(self, secret, reply=None, port=0):
        self.secret = secret
        self.reply = reply if reply is not None else {}
        # The field `Retry-After` of all responses.
        self.retry_after = None
        self.calls = []
        self.changed = threading.Condition()
        self.failures = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.handle(self)

            def log_message(self, *_):
                pass

        class HTTPServer(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self.server = HTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hooks"

    def handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        fields = dict(request.headers.items())
        try:
            payload = Webhook(self.secret).verify(body, {key.lower(): value for key, value in fields.items()})
            assert fields["Content-Type"] == "application/json"
        except Exception as failure:
            self.failures.append(failure)
            request.send_error(401)
            return
        call = Call(request.headers["webhook-id"], fields, payload)
        reply = self.reply(call) if callable(self.reply) else self.reply
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()
        status, content = (reply, b"") if isinstance(reply, int) else (200, json.dumps(reply).encode())
        try:
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(content)))
            if self.retry_after is not None:
                request.send_header("Retry-After", self.retry_after)
            request.end_headers()
            request.wfile.write(content)
        except OSError:
            pass  # killed

    def of(self, kind, upload=None):
        """The calls of a kind so far."""
        with self.changed:
            return [one for one in self.calls if one.type == kind and upload in (None, one.upload["ID"])]

    def wait(self, kind, count=1, upload=None, timeout=20):
        """Waits for this many calls of a kind and returns them."""
        with self.changed:
            enough = self.changed.wait_for(
                lambda: sum(one.type == kind and upload in (None, one.upload["ID"]) for one in self.calls) >= count,
                timeout,
            )
        assert enough, f"no {count} × {kind}: {[(one.type, one.upload['ID']) for one in self.calls]}"
        return self.of(kind, upload)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        assert self.failures == []
