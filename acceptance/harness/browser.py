"""A browser with a page of some origin, which reports what it saw."""

import contextlib
import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def command(profile):
    return [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
    ]  # fmt: skip


def dump(url, profile):
    """Opens a page, waits until its scripts have ended, and returns what it shows then, as HTML."""
    return subprocess.run(
        [*command(profile), "--virtual-time-budget=5000", "--dump-dom", url],
        capture_output=True,
        timeout=120,
        check=True,
        text=True,
    ).stdout


class SiteHandler(BaseHTTPRequestHandler):
    """Answers with HTML, and logs nothing."""

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Page:
    """The site of a page on a port of its own, which is its origin."""

    def __init__(self):
        self.html = b""
        self.result = None
        self.has_result = threading.Event()
        page = self

        class Handler(SiteHandler):
            def do_GET(self):
                self.answer(page.html if self.path == "/" else b"")

            def do_POST(self):
                page.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.answer(b"")
                page.has_result.set()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def run(self, script, values, profile, timeout=120):
        """Runs an asynchronous function body in the page, with `values` as `given`, and returns its result."""
        self.html = f"""<!doctype html><meta charset=utf-8><script type=module>
            const given = {json.dumps(values)}
            let result
            try {{ result = await (async () => {{ {script} }})() }}
            catch (error) {{ result = {{error: String(error)}} }}
            await fetch("/result", {{method: "POST", body: JSON.stringify(result)}})
            </script>""".encode()
        self.has_result.clear()
        process = subprocess.Popen(
            [*command(profile), self.origin],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert self.has_result.wait(timeout), "the page returned nothing"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        return self.result
