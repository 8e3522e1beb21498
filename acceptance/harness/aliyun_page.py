"""A page on a port of its own that uploads as VOD-JS does (harness/aliyun_uploader.js), and its app's server."""

import json
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from harness.browser import SiteHandler

SCRIPTS = [Path(__file__).with_name(name) for name in ("md5.js", "aliyun_uploader.js")]


class Site:
    """Serves the page at `/`, and what the page asks its own server for by POST.

    `app`: an `App`, which `/begin` and `/refresh` ask. `/wait` is answered when `wait(body)` returns.
    """

    def __init__(self):
        self.html = b""
        # Other files, by path.
        self.files = {}
        self.app = None
        self.wait = lambda body: None
        self.result = None
        self.has_result = threading.Event()
        # What the page has reported meanwhile.
        self.reports = []
        site = self

        class Handler(SiteHandler):
            def do_GET(self):
                self.answer(site.html if self.path == "/" else site.files.get(self.path, b""))

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer(site.take(self.path, json.loads(body or b"null")))

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                """A browser that was killed."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, body):
        """What the page posts, and the response."""
        if path == "/begin":
            return json.dumps(self.app.begin(**body)).encode()
        if path == "/refresh":
            return json.dumps(self.app.refresh()).encode()
        if path == "/wait":
            self.wait(body)
        elif path == "/report":
            self.reports.append(body)
        elif path == "/result":
            self.result = body
            self.has_result.set()
        return b"{}"

    def show(self, script, values):
        """The page runs an asynchronous function body after the uploader, with `values` as `given`."""
        self.html = f"""<!doctype html><meta charset=utf-8><script type=module>
            const given = {json.dumps(values)}
            {"".join(path.read_text() for path in SCRIPTS)}
            let result
            try {{ result = await (async () => {{ {script} }})() }}
            catch (error) {{ result = {{error: error.message, requests}} }}
            await post("/result", result)
            </script>""".encode()
        self.result = None
        self.reports = []
        self.has_result.clear()
