"""A page that uploads as vod-js-sdk-v6 does, in a real browser, with the host names of the vendor.

Everything is TLS on loopback: the browser resolves each name to the port that the test gives it.
"""

import contextlib
import json
import math
import os
import signal
import socket
import ssl
import subprocess
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from harness.browser import BROWSER, SiteHandler
from harness.cutter import reset

# The uploader needs the first one.
SCRIPTS = [Path(__file__).with_name(name) for name in ("md5.js", "vod_uploader.js")]
ORIGIN = "https://app.example"


class Site:
    """The app's server: its page at `/`, and signatures for the page's user, each of which `sign()` makes."""

    def __init__(self, certificate, sign):
        self.sign = sign
        self.signatures = 0
        self.html = b""
        self.result = None
        self.has_result = threading.Event()
        # Numbers of the parts that the page has seen acknowledged.
        self.acknowledged = []
        site = self

        class Handler(SiteHandler):
            def do_GET(self):
                self.answer(site.html if self.path == "/" else b"")

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(site.take(self.path, body))

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                """A browser that was killed."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path, certificate.key_path)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, body):
        """What the page posts, and the response."""
        if path == "/signature":
            self.signatures += 1
            return self.sign().encode()
        if path == "/part":
            self.acknowledged.append(json.loads(body))
        elif path == "/result":
            self.result = json.loads(body)
            self.has_result.set()
        return b""

    def show(self, script, values):
        """The page runs an asynchronous function body after the uploader, with `values` as `given`."""
        self.html = f"""<!doctype html><meta charset=utf-8><script type=module>
            const given = {json.dumps(values)}
            {"".join(path.read_text() for path in SCRIPTS)}
            let result
            try {{ result = await (async () => {{ {script} }})() }}
            catch (error) {{ result = {{error: error.message, requests}} }}
            await fetch("/result", {{method: "POST", body: JSON.stringify(result)}})
            </script>""".encode()
        self.result = None
        self.signatures = 0
        self.acknowledged = []
        self.has_result.clear()


class Browser:
    """A process with a profile that is kept. `ports`: where each host name leads; others lead nowhere.

    The names of loopback lead there.
    """

    def __init__(self, profile, ports, url=ORIGIN):
        rules = [f"MAP {host} 127.0.0.1:{port}" for host, port in ports.items()]
        rules += ["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in ("127.0.0.1", "localhost", "*.localhost"))]
        self.process = subprocess.Popen(
            [
                BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-background-networking", "--ignore-certificate-errors",
                f"--host-resolver-rules={' , '.join(rules)}", f"--user-data-dir={profile}", url,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """As a user closes it; the profile is complete then."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()

    def kill(self):
        """SIGKILL to each of its processes."""
        for process in tree(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


def tree(process):
    """A process and all that it has started, the first one first."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, which can contain spaces, is in brackets.
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [process]
    for one in found:
        found += parents.get(one, [])
    return found


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
