"""An HTTP server from which the gateway pulls, with all the faults that origins have."""

import time
from dataclasses import dataclass, field
from email.utils import formatdate

from harness.http_server import LocalServer


@dataclass
class Resource:
    """A content and how it is served; tests change it while it is."""

    data: bytes
    etag: str | None = '"one"'
    modified: float | None = None
    ranges: bool = True
    content_type: str | None = "application/octet-stream"
    headers: dict = field(default_factory=dict)
    # Bytes of the content after which the connection of the n-th request is reset; then, none is.
    cuts: list = field(default_factory=list)
    # Statuses of the first requests, each with further headers.
    statuses: list = field(default_factory=list)
    # Announces another length than the real one.
    announced_length: int | None = None
    chunked: bool = False
    # Seconds after each piece of `piece` bytes.
    delay: float = 0
    piece: int = 65536
    # Headers that a request must have.
    required: dict = field(default_factory=dict)
    # Called with the resource before each answer.
    before: object = None
    requests: list = field(default_factory=list)
    sent: int = 0


class Origin(LocalServer):
    """Serves `resources`, by path."""

    def __init__(self, certificate=None, host="127.0.0.1"):
        self.resources = {}
        super().__init__(certificate=certificate, host=host)

    def add(self, path, data=b"", **options):
        """Serves a content and returns it, so that the test can change and inspect it."""
        self.resources[path] = Resource(data, **options)
        return self.resources[path]

    def redirect(self, path, target, status=302):
        return self.add(path, statuses=[(status, {"Location": target})] * 1000)

    def handle(self, handler):
        resource = self.resources.get(handler.path.split("?")[0])
        if resource is None:
            return self.refuse(handler, 404)
        number = len(resource.requests)
        resource.requests.append({name.lower(): value for name, value in handler.headers.items()})
        if resource.before:
            resource.before(resource)
        if any(handler.headers.get(name) != value for name, value in resource.required.items()):
            return self.refuse(handler, 403)
        if number < len(resource.statuses) and resource.statuses[number] is not None:
            return self.refuse(handler, *resource.statuses[number])
        data, offset, status = resource.data, 0, 200
        wanted = handler.headers.get("Range")
        modified = formatdate(resource.modified, usegmt=True) if resource.modified else None
        if wanted and resource.ranges and handler.headers.get("If-Range") in (resource.etag or modified, None):
            offset = int(wanted.removeprefix("bytes=").rstrip("-"))
            if offset >= len(data):
                return self.refuse(handler, 416, {"Content-Range": f"bytes */{len(data)}"})
            status = 206
        length = len(data) - offset if resource.announced_length is None else resource.announced_length
        fields = {
            "ETag": resource.etag or None,
            "Last-Modified": modified,
            "Content-Range": f"bytes {offset}-{len(data) - 1}/{len(data)}" if status == 206 else None,
            "Transfer-Encoding": "chunked" if resource.chunked else None,
            "Content-Length": None if resource.chunked else length,
        }
        handler.respond(status, b"", resource.content_type, **fields | resource.headers)
        cut = resource.cuts[number] if number < len(resource.cuts) else None
        self.send(handler, resource, memoryview(data)[offset:], cut)
        if resource.announced_length is not None:
            handler.close_connection = True

    def send(self, handler, resource, data, cut):
        sent = 0
        for begin in range(0, len(data), resource.piece):
            piece = data[begin : begin + resource.piece]
            if cut is not None and sent + len(piece) > cut:
                handler.wfile.write(piece[: max(0, cut - sent)])
                handler.wfile.flush()
                # What was sent must reach the other side before the reset throws it away.
                time.sleep(0.2)
                handler.reset()
                return
            if resource.chunked:
                handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            else:
                handler.wfile.write(piece)
            handler.wfile.flush()
            sent += len(piece)
            resource.sent += len(piece)
            if resource.delay:
                time.sleep(resource.delay)
        if resource.chunked:
            handler.wfile.write(b"0\r\n\r\n")

    def refuse(self, handler, status, headers=None):
        handler.respond(status, **(headers or {}))
