"""Worlds whose clients pause at chosen places: within the content of a request, or before one."""

import threading

import requests

from harness.ways import World


class Ticks:
    """Moments that a test chooses, for which clients wait."""

    def __init__(self):
        self.count = 0
        self.changed = threading.Condition()

    def next(self):
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def after(self, seen):
        """The number of moments so far, once it is above `seen`."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.count > seen, 120), "the test does not go on"
            return self.count


class Pieces:
    """The content of a request; each piece after the first one waits for the next tick."""

    def __init__(self, body, count, ticks):
        size = -(-len(body) // count)
        self.pieces = [body[at : at + size] for at in range(0, len(body), size)]
        self.ticks = ticks
        self.seen = ticks.count
        self.rest = b""
        self.is_first = True

    def __iter__(self):
        while piece := self.read(1 << 20):
            yield piece

    def read(self, size):
        if not self.rest and self.pieces:
            if not self.is_first:
                self.seen = self.ticks.after(self.seen)
            self.is_first = False
            self.rest = self.pieces.pop(0)
        data, self.rest = self.rest[:size], self.rest[size:]
        return data


class SteppedWorld(World):
    """Content of more than `least` bytes is sent in `count` pieces, one after each tick."""

    def __init__(self, server, origin, ticks, count, least):
        super().__init__(server, origin)
        self.ticks, self.count_of_pieces, self.least = ticks, count, least
        # Requests whose content came in pieces.
        self.stepped = 0

    def call(self, method, url, **options):
        url = url if url.startswith("http") else self.server.url + url
        is_chunked = hasattr(options.get("data"), "__next__")
        if is_chunked:
            options["data"] = b"".join(options["data"])
        prepared = self.session.prepare_request(requests.Request(method, url, **options))
        body = prepared.body or b""
        if len(body) > self.least:
            self.stepped += 1
            pieces = Pieces(body, self.count_of_pieces, self.ticks)
            prepared.body = iter(pieces) if is_chunked else pieces
            if is_chunked:
                del prepared.headers["Content-Length"]
                prepared.headers["Transfer-Encoding"] = "chunked"
        return self.session.send(prepared, timeout=120, allow_redirects=False)


class PausedWorld(World):
    """Pauses before the request of this number, from 1 on, until `go` is set; counts its requests."""

    def __init__(self, server, origin, before=None):
        super().__init__(server, origin)
        self.before = before
        self.calls = 0
        self.paused, self.go = threading.Event(), threading.Event()

    def call(self, method, url, **options):
        self.calls += 1
        if self.calls == self.before:
            self.paused.set()
            assert self.go.wait(300), "the test does not go on"
        return super().call(method, url, **options)
