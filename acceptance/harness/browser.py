"""A browser with a page of some origin, which reports what it saw."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from harness.http_server import LocalServer
from harness.wire import until

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

# The bytes of a page's files repeat after so many.
PERIOD = bytes(range(251)) * 6


def content(size):
    """What `bytes(size)` makes in the pages of uploads: `(index + (index >> 10)) % 251`, by KiB."""
    return b"".join(PERIOD[1025 * kib % 251 :][: min(1024, size - 1024 * kib)] for kib in range(-(-size // 1024)))


def command(profile, *rules):
    rules = rules or ("MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1")
    return [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", f"--host-resolver-rules={' , '.join(rules)}",
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


class Page(LocalServer):
    """The site of a page, whose result it takes. `url` is its origin."""

    # What stands before each script, and what a script that fails returns.
    scripts = ()
    failure = "{error: String(error)}"

    def __init__(self, certificate=None):
        self.html = b""
        # Other files, by path.
        self.files = {}
        self.result = None
        self.has_result = threading.Event()
        super().__init__(certificate=certificate)

    def handle(self, request):
        if request.command == "POST":
            content = self.take(request.path, json.loads(request.content() or b"null"))
        else:
            content = self.html if request.path == "/" else self.files.get(request.path, b"")
        request.respond(200, content, "text/html; charset=utf-8")

    def take(self, path, body):
        """What the page posts, and the response."""
        if path == "/result":
            self.result = body
            self.has_result.set()
        return b""

    def show(self, script, values):
        """The page runs an asynchronous function body, with `values` as `given`, and reports its result."""
        self.html = f"""<!doctype html><meta charset=utf-8><script type=module>
            const given = {json.dumps(values)}
            {"".join(path.read_text() for path in self.scripts)}
            let result
            try {{ result = await (async () => {{ {script} }})() }}
            catch (error) {{ result = {self.failure} }}
            await fetch("/result", {{method: "POST", body: JSON.stringify(result)}})
            </script>""".encode()
        self.result = None
        self.has_result.clear()

    def finished(self, browser, timeout=120):
        """What the page in this browser reports."""

        def ended():
            assert browser.process.poll() is None, "the browser ended"
            return self.has_result.is_set()

        until(ended, timeout, 0.05)
        return self.result

    def run(self, script, values, profile, timeout=120):
        """Shows a script in a new browser, and returns its result."""
        self.show(script, values)
        with Browser(profile, self.url) as browser:
            return self.finished(browser, timeout)


class Browser:
    """A process with a profile that is kept. `ports`: where each host name leads; others lead nowhere.

    The names of loopback lead there.
    """

    def __init__(self, profile, url, ports=None):
        self.profile = profile
        rules = [f"MAP {host} 127.0.0.1:{port}" for host, port in (ports or {}).items()]
        rules += ["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in ("127.0.0.1", "localhost", "*.localhost"))]
        self.process = subprocess.Popen(
            [*command(profile, *rules), "--ignore-certificate-errors", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

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

    def keeps(self, text):
        """Whether a text is in the files of localStorage, which the browser writes some seconds later."""
        folder = self.profile / "Default/Local Storage/leveldb"
        return any(text.encode() in path.read_bytes() for path in folder.glob("*.log"))

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
