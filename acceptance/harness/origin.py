"""An HTTP server from which the gateway pulls, with all the faults that origins have."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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


class Origin:
    """Serves `resources`, by path, on a port of its own."""

    def __init__(self, certificate=None, host="127.0.0.1"):
        self.resources = {}
        origin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
                    origin.answer(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server((host, 0), Handler)
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.path, certificate.key_path)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.scheme = "https"
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def add(self, path, data=b"", **options):
        """Serves a content and returns it, so that the test can change and inspect it."""
        self.resources[path] = Resource(data, **options)
        return self.resources[path]

    def redirect(self, path, target, status=302):
        return self.add(path, statuses=[(status, {"Location": target})] * 1000)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def answer(self, handler):
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
        handler.send_response(status)
        for name, value in resource.headers.items():
            handler.send_header(name, value)
        if resource.content_type:
            handler.send_header("Content-Type", resource.content_type)
        if resource.etag:
            handler.send_header("ETag", resource.etag)
        if modified:
            handler.send_header("Last-Modified", modified)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {offset}-{len(data) - 1}/{len(data)}")
        if resource.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            length = len(data) - offset if resource.announced_length is None else resource.announced_length
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
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
                reset(handler.connection)
                handler.close_connection = True
                return
            if resource.chunked:
                handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            else:
                handler.wfile.write(piece)
            sent += len(piece)
            resource.sent += len(piece)
            if resource.delay:
                time.sleep(resource.delay)
        if resource.chunked:
            handler.wfile.write(b"0\r\n\r\n")

    def refuse(self, handler, status, headers=None):
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


def reset(connection):
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
