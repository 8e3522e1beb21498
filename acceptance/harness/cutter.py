"""A TCP proxy that cuts connections."""

import contextlib
import socket
import struct
import threading


class Cutter:
    """Forwards bytes to `target` until the planned number has been sent; then it resets the connection on both sides.

    `cuts` are totals of bytes over all connections, ascending. After the last one nothing is cut.
    """

    def __init__(self, target=None, cuts=()):
        self.target = target
        self.cuts = sorted(cuts)
        self.done = []
        self.sent = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def plan(self, cuts):
        """Starts counting anew."""
        with self.lock:
            self.cuts, self.done, self.sent = sorted(cuts), [], 0

    def close(self):
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        threading.Thread(target=self._down, args=(server, client), daemon=True).start()
        try:
            while data := client.recv(65536):
                keep, cut = self._count(len(data))
                server.sendall(data[:keep])
                if cut:
                    # What was sent before reaches the server; then both sides see the connection break.
                    server.shutdown(socket.SHUT_WR)
                    reset(client)
                    return
            server.shutdown(socket.SHUT_WR)
        except OSError:
            reset(client)
            server.close()

    def _down(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        server.close()

    def _count(self, count):
        """How many of `count` bytes to forward, and whether to cut the connection after them."""
        with self.lock:
            if self.cuts and self.sent + count >= self.cuts[0]:
                cut = self.cuts.pop(0)
                keep = max(0, cut - self.sent)
                self.sent += keep
                self.done.append(self.sent)
                return keep, True
            self.sent += count
            return count, False


def reset(connection):
    """Closes with RST instead of FIN."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
