"""A real browser without a window: Debian's package chromium."""

import contextlib
import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
# What each page begins with: `done` tells the test what became of its script.
PRELUDE = """<!doctype html><meta charset=utf-8><script>
const done = value => fetch("/done", {method: "POST", body: JSON.stringify(value)})
const attempt = work => work().then(done, error => done({error: String(error)}))
</script>"""


def dump(url, profile):
    """Opens a page and waits until its scripts have ended."""
    subprocess.run(
        [*command(profile), "--virtual-time-budget=5000", "--dump-dom", url],
        capture_output=True,
        timeout=120,
        check=True,
    )


def command(profile):
    return [
        PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
    ]  # fmt: skip


@contextlib.contextmanager
def site(script):
    """A web site of one page with a script, which calls `done` or `attempt` in the end.

    Gives its origin, and a function that opens the page in a browser with a profile and returns what the script told.
    """
    told, arrived = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = (PRELUDE + f"<script>{script}</script>").encode() if self.path == "/" else b""
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"

    def run(profile):
        process = subprocess.Popen([*command(profile), origin], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert arrived.wait(90), "the page told nothing"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return told[-1]

    try:
        yield origin, run
    finally:
        server.shutdown()
        server.server_close()
