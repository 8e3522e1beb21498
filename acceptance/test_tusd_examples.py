"""tusd's own examples of hook handlers (`examples/hooks`), unchanged, from a copy of its repository: SLUICE_TUSD.

What they rely on is tested without a copy, too, in test_hooks.py and test_hook_programs.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.api import API, upload_id
from harness.wire import until

COPY = os.environ.get("SLUICE_TUSD")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not COPY, reason="SLUICE_TUSD names no copy of https://github.com/tus/tusd"),
]
ALL = "pre-create, post-create, post-receive, pre-finish, post-finish, pre-terminate, post-terminate"
# The example listens on port 8000. Its file runs as it is, on another port.
FREE_PORT = """
import http.server, runpy, sys
class Server(http.server.HTTPServer):
    def __init__(self, address, handler):
        super().__init__((address[0], 0), handler)
        print("port", self.server_address[1], flush=True)
http.server.HTTPServer = Server
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def example(tmp_path):
    """The URL of the example server, and what it prints."""
    printed = tmp_path / "printed"
    script = Path(COPY) / "examples/hooks/http/server.py"
    with printed.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", FREE_PORT, script], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        lines = until(lambda: process.poll() is None and (lines := printed.read_text().splitlines()) and lines)
        yield f"http://localhost:{lines[0].split()[1]}", printed
    finally:
        process.kill()
        process.wait()


def test_the_http_server(make_server, example):
    url, printed = example
    settings = {"SLUICE_HOOKS_URL": url, "SLUICE_HOOKS_EVENTS": ALL}
    with make_server(environment=settings) as server:
        api = API(server.url, server.admin_key)
        answer = api.create(3)
        assert (answer.status_code, answer.text) == (400, "no filename provided")
        answer = api.create(5, metadata={"filename": "a.txt", "secret": "x"})
        assert answer.status_code == 201
        made = answer.headers["Location"]
        # It gives a name of its own and replaces the metadata.
        assert "/files/prefix-" in made
        metadata = api.head(made).headers["Upload-Metadata"]
        assert {pair.split()[0] for pair in metadata.split(",")} == {"filename", "creation_time"}
        assert api.patch(made, 0, b"hello").status_code == 204
        until(lambda: "(5 bytes) is finished. Find the file at:" in printed.read_text())
        # By what it prints, the app finds the file.
        text = printed.read_text().partition("is finished. Find the file at:\n")[2]
        storage = text.splitlines()[0]
        assert "'Type': 'sluice'" in storage
        media = storage.partition("'ID': '")[2].partition("'")[0]
        assert api.get(f"/media/{media}").content == b"hello"
        assert api.terminate(api.created(5, metadata={"filename": "b.txt"})).status_code == 204
        until(lambda: "'Type': 'post-terminate'" in printed.read_text())
        assert "Traceback" not in printed.read_text()


def test_the_programs(make_server, tmp_path):
    settings = {"SLUICE_HOOKS_DIRECTORY": str(Path(COPY).resolve() / "examples/hooks/file"), "SLUICE_HOOKS_EVENTS": ALL}
    with make_server(environment=settings) as server:
        api = API(server.url, server.admin_key)
        made = api.created(5, metadata={"filename": "a.txt"})
        name = upload_id(made)
        assert api.patch(made, 0, b"he").status_code == 204
        until(lambda: f"Upload {name} is at 40% (2/5)" in server.log.read_text())
        assert api.patch(made, 2, b"llo").status_code == 204
        said = [
            f"Upload created with ID {name} and size 5",
            f"Upload {name} is at 100% (5/5)",
            f"Upload {name} (5 bytes) finished",
        ]
        other = upload_id(created := api.created(5))
        assert api.terminate(created).status_code == 204
        said.append(f"Upload {other} terminated")
        until(lambda: all(line in server.log.read_text() for line in said))
        # What jq prints of the payloads.
        assert '\\"Type\\": \\"pre-finish\\"' in server.log.read_text()
