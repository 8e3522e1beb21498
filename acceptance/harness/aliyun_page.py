"""A page on a port of its own that uploads as VOD-JS does (harness/aliyun_uploader.js), and its app's server."""

import json
from pathlib import Path

from harness.browser import Page


class Site(Page):
    """Serves the page at `/`, and what the page asks its own server for by POST.

    `app`: an `App`, which `/begin` and `/refresh` ask. `/wait` is answered when `wait(body)` returns.
    """

    scripts = [Path(__file__).with_name(name) for name in ("md5.js", "aliyun_uploader.js")]
    failure = "{error: error.message, requests}"

    def __init__(self):
        self.app = None
        self.wait = lambda body: None
        # What the page has reported meanwhile.
        self.reports = []
        super().__init__()

    def take(self, path, body):
        if path == "/begin":
            return json.dumps(self.app.begin(**body)).encode()
        if path == "/refresh":
            return json.dumps(self.app.refresh()).encode()
        if path == "/wait":
            self.wait(body)
        elif path == "/report":
            self.reports.append(body)
        return super().take(path, body) or b"{}"

    def show(self, script, values):
        super().show(script, values)
        self.reports = []
