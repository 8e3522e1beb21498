"""HTTP servers on loopback: receivers of hooks and events, origins, clouds and pages of apps are all made from one."""

import socket
import ssl
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer


class Request(BaseHTTPRequestHandler):
    """A request, with the ways to respond to it."""

    # A response in two pieces would wait for the acknowledgement of the first.
    wbufsize = -1
    owner: "LocalServer"

    def content(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def respond(self, status=200, content=b"", kind=None, **fields):
        """`fields`: header fields, with `_` for `-`; one that is `None` is not sent, not even the length."""
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        self.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": len(content)} | fields).items():
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def reset(self):
        """The connection ends with a reset instead of a response."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def serve(self):
        self.owner.handle(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve

    def log_message(self, *_):
        pass


class LocalServer:
    """Serves from its creation until it is closed. `handle` takes each request: of a subclass, or as a parameter.

    `is_serial`: one request at a time. `failures`: what `handle` raised; a peer that disconnects is none.
    """

    def __init__(self, handle=None, port=0, host="127.0.0.1", certificate=None, version="HTTP/1.1", is_serial=False):
        if handle:
            self.handle = handle
        self.failures = []
        handler = type("Handler", (Request,), {"owner": self, "protocol_version": version})
        failures = self.failures

        class Server(HTTPServer if is_serial else ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            request_queue_size = 256

            def handle_error(self, *_):
                if not isinstance(failure := sys.exc_info()[1], OSError):
                    failures.append(failure)

        self.server = Server((host, port), handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.path, certificate.key_path)
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self.server.server_port
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"{'https' if certificate else 'http'}://{self.host}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        assert self.failures == []


class Recorder(LocalServer):
    """Keeps what it received in `calls`; tests can wait for it."""

    def __init__(self, *arguments, **options):
        # Before the first request.
        self.calls = []
        self.changed = threading.Condition()
        super().__init__(*arguments, **options)

    def record(self, call):
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()

    def those(self, matches):
        with self.changed:
            return [call for call in self.calls if matches(call)]

    def wait_for(self, condition, what, timeout):
        with self.changed:
            assert self.changed.wait_for(condition, timeout), f"not {what}: {self.calls}"
