"""A receiver of webhooks: a real HTTP server that checks signatures with the library of Standard Webhooks."""

import json
from dataclasses import dataclass

from standardwebhooks import Webhook

from harness.http_server import Recorder


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


class Receiver(Recorder):
    """Answers hooks as `reply` says: a dict, or a status, or a function of the call that returns one of them."""

    def __init__(self, secret, reply=None, port=0):
        self.secret = secret
        self.reply = reply if reply is not None else {}
        # The field `Retry-After` of all responses.
        self.retry_after = None
        super().__init__(port=port)
        self.url += "/hooks"

    def handle(self, request):
        body = request.content()
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
        self.record(call)
        status, content = (reply, b"") if isinstance(reply, int) else (200, json.dumps(reply).encode())
        request.respond(status, content, "application/json", Retry_After=self.retry_after)

    def of(self, kind, upload=None):
        """The calls of a kind so far."""
        return self.those(lambda one: one.type == kind and upload in (None, one.upload["ID"]))

    def wait(self, kind, count=1, upload=None, timeout=20):
        """Waits for this many calls of a kind and returns them."""
        self.wait_for(lambda: len(self.of(kind, upload)) >= count, f"{count} × {kind}", timeout)
        return self.of(kind, upload)
