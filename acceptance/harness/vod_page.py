"""A page that uploads as vod-js-sdk-v6 does, in a real browser, with the host names of the vendor.

Everything is TLS on loopback: the browser resolves each name to the port that the test gives it.
"""

import contextlib
import math
import socket
import threading
from pathlib import Path

from harness.browser import Page
from harness.cutter import reset

ORIGIN = "https://app.example"


class Site(Page):
    """The app's server: its page at `/`, and signatures for the page's user, each of which `sign()` makes."""

    # The uploader needs the first one.
    scripts = [Path(__file__).with_name(name) for name in ("md5.js", "vod_uploader.js")]
    failure = "{error: error.message, requests}"

    def __init__(self, certificate, sign):
        self.sign = sign
        self.signatures = 0
        # Numbers of the parts that the page has seen acknowledged.
        self.acknowledged = []
        super().__init__(certificate)

    def take(self, path, body):
        if path == "/signature":
            self.signatures += 1
            return self.sign().encode()
        if path == "/part":
            self.acknowledged.append(body)
        return super().take(path, body)

    def show(self, script, values):
        super().show(script, values)
        self.signatures = 0
        self.acknowledged = []


class Gate:
    """A TCP proxy to `port` that holds everything back once so many bytes have passed, until it is opened."""

    def __init__(self, port, limit):
        self.target = ("127.0.0.1", port)
        self.left = limit
        self.is_reached = threading.Event()
        self.held = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.open()

    def open(self):
        """What is held back never arrives."""
        with self.lock:
            self.left = math.inf
            held, self.held = self.held, []
        for connection in held:
            reset(connection)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
                for work in (self._up, self._down):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _up(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                with self.lock:
                    keep = min(len(data), self.left)
                    self.left -= keep
                    if keep < len(data):
                        self.held += [client, server]
                server.sendall(data[:keep])
                if keep < len(data):
                    self.is_reached.set()
                    return
            server.shutdown(socket.SHUT_WR)

    def _down(self, client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
