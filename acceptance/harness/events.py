"""Event streams, read byte by byte as the WHATWG standard says (HTML §9.2.6), strictly."""

import json
import socket
import threading
import time

from harness.wire import Closed, Wire


class Event:
    def __init__(self, name, identifier, data):
        self.name = name
        #: None if the block has no id of its own.
        self.id = identifier
        self.data = data
        self.at = time.monotonic()

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def upload(self):
        return self.json["upload"]

    def __repr__(self):
        return f"<{self.id} {self.name} {self.data[:300]}>"


class Stream:
    """A stream on a socket of its own; `events` grows while it runs."""

    def __init__(
        self,
        server,
        path="/v1/events",
        *,
        key=...,
        last_id=None,
        version="HTTP/1.1",
        buffer=None,
        fields=(),
        context=None,
    ):
        self.events = []
        self.comments = 0
        self.retry = None
        self.ended_well = False
        self.wire = Wire(server.address, timeout=60, context=context)
        if buffer:
            self.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        fields = list(fields)
        key = server.admin_key if key is ... else key
        if key:
            fields.append(("Authorization", f"Bearer {key}"))
        if last_id is not None:
            fields.append(("Last-Event-ID", last_id))
        lines = [f"GET {path} {version}", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in fields)]
        self.wire.send("\r\n".join(lines) + "\r\n\r\n")
        self.head = self.wire.interim()
        self.status = self.head.status
        if self.status != 200:
            self.head.body = self.wire._take(int(self.head["content-length"] or 0))
            return
        assert self.head["content-type"] == "text/event-stream", self.head
        assert "no-store" in self.head["cache-control"]

    def start(self):
        """Starts reading in a thread."""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.wire.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.wire.close()

    def _pieces(self):
        if self.head["transfer-encoding"] != "chunked":
            while True:
                data = self.wire.socket.recv(65536)
                if not data:
                    self.ended_well = True
                    return
                yield data
        while size := int(self.wire._line(), 16):
            yield self.wire._take(size)
            assert self.wire._take(2) == b"\r\n"
        assert self.wire._line() == ""
        self.ended_well = True

    def _read(self):
        rest = b""
        name, identifier, data = "", None, []
        try:
            for piece in self._pieces():
                rest += piece
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    text = line.decode()
                    field, _, value = text.partition(":")
                    value = value.removeprefix(" ")
                    if not text:
                        if data:
                            self.events.append(Event(name or "message", identifier, "\n".join(data)))
                        name, identifier, data = "", None, []
                    elif not field:
                        self.comments += 1
                    elif field == "event":
                        name = value
                    elif field == "id":
                        identifier = int(value)
                    elif field == "data":
                        data.append(value)
                    elif field == "retry":
                        self.retry = int(value)
                    else:
                        raise AssertionError(text)
        except (OSError, Closed, ValueError):
            pass

    # What came

    def names(self, *without):
        return [event.name for event in self.events if event.name not in without]

    @property
    def recorded(self):
        """Events that are kept, as (id, name, upload)."""
        return [
            (event.id, event.name, event.upload["id"])
            for event in list(self.events)
            if event.name.startswith("upload.") and event.name != "upload.progress"
        ]

    @property
    def progress(self):
        return [event for event in list(self.events) if event.name == "upload.progress"]

    @property
    def last_id(self):
        return [event.id for event in self.events if event.id is not None][-1]

    def wait(self, timeout=60):
        """Waits for the end of the stream."""
        self.thread.join(timeout)
        assert not self.thread.is_alive(), f"the stream did not end: {self.events}"
        return self
