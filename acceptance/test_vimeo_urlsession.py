"""Vimeo uploads by Foundation's URLSession, with the requests and reply rules of VimeoUpload (protocol, section 8)."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
import requests

from harness.cutter import Cutter
from harness.data import KIB, MIB, content
from harness.server import ROOT
from harness.vimeo import Plain, stored, token, upload_of

SOURCE = Path(__file__).parent / "clients" / "vimeo" / "main.swift"
OLD, NEW = "3.3.1", "3.4.2"


# As in test_urlsession.py, for another program.
@pytest.fixture(scope="session")
def program():
    """The program, built once for each of its versions."""
    compiler = shutil.which("swiftc")
    if not compiler:
        pytest.skip("there is no swiftc")
    folder = ROOT / ".build-clients"
    program = folder / f"vimeo-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"vimeo-{os.getpid()}"
        subprocess.run([compiler, "-O", "-swift-version", "6", "-o", unfinished, SOURCE], check=True, timeout=600)
        unfinished.rename(program)
    return program


class Recorder(Cutter):
    """Cuts nothing, and records what clients send: that Foundation sends floats is the point of these tests."""

    def __init__(self, target):
        self.seen = bytearray()
        super().__init__(target)

    def _serve(self, client):
        with contextlib.suppress(OSError), socket.create_connection(self.target) as server:
            down = threading.Thread(target=self._down, args=(server, client), daemon=True)
            down.start()
            while data := client.recv(65536):
                self.seen += data
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            down.join()

    def fields(self, method):
        """The header fields of each request with this method."""
        heads = re.findall(rf"{method} /\S* HTTP/1\.1\r\n(.*?)\r\n\r\n", self.seen.decode("latin-1"), re.S)
        return [dict(line.split(": ", 1) for line in head.split("\r\n")) for head in heads]


@pytest.fixture
def recorder(server):
    with Recorder(server.address) as one:
        yield one


@pytest.fixture
def run(server, program):
    """Runs a flow as a user of its own, and returns its steps by their names."""

    def run(flow, root, *files):
        bearer = token(server, f"session-{flow}")
        done = subprocess.run(
            [program, flow, root, bearer, *files],
            capture_output=True,
            timeout=120,
            # A proxy of the environment would be asked for 127.0.0.1 otherwise.
            env={name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        )
        assert done.returncode == 0, done.stderr
        steps = json.loads(done.stdout)
        return {step["name"]: step for step in steps}, Plain(server, bearer)

    return run


@pytest.fixture
def make_file(tmp_path):
    def make(size, name="video.mp4"):
        path = tmp_path / name
        path.write_bytes(content(size, size))
        return path

    return make


def check_content(recorder, version, *wanted):
    """The PUTs had the fields of section 8.2: types, and sizes as floats."""
    sent = recorder.fields("PUT")
    assert len(sent) == len(wanted)
    for fields, (kind, size) in zip(sent, wanted, strict=True):
        assert fields["Content-Type"] == kind
        assert fields["Content-Length"] == f"{size}.0"
        assert fields["Content-Range"] == f"bytes 0-{size}.0/{size}.0"
        assert fields["Accept"] == f"application/vnd.vimeo.*+json; version={version}"
        assert fields["Authorization"].startswith("Bearer slv_")


@pytest.mark.parametrize("size", [0, 1, 3 * MIB + 1])
def test_new_upload(server, recorder, run, make_file, size):
    path = make_file(size)
    steps, _ = run("new", recorder.url, path)
    assert [(name, step["status"]) for name, step in steps.items()] == [
        ("create", 201),
        ("content", 200),
        ("poll", 200),
    ]
    check_content(recorder, NEW, ("video/mp4", size))
    assert steps["content"]["sent"] == size
    created, found = steps["create"], steps["poll"]
    assert created["state"] == ("uploading" if size else "available")
    assert (found["uri"], found["state"], found["view"]) == (created["uri"], "available", "nobody")
    assert stored(server, created["uri"]) == path.read_bytes()
    assert upload_of(server, created["uri"])["metadata"]["filetype"] == "video/mp4"


@pytest.mark.parametrize("size", [1, 3 * MIB + 1])
def test_old_upload(server, recorder, run, make_file, size):
    path = make_file(size)
    steps, _ = run("old", recorder.url, path)
    assert [(name, step["status"]) for name, step in steps.items()] == [
        ("create", 201),
        ("content", 200),
        ("activate", 201),
        ("settings", 200),
        ("poll", 200),
    ]
    check_content(recorder, OLD, ("video/mp4", size))
    uri = steps["activate"]["location"]
    assert re.fullmatch(r"/videos/\d+", uri)
    for name in ("settings", "poll"):
        found = steps[name]
        assert (found["uri"], found["label"], found["view"]) == (uri, "Settings", "nobody")
    assert steps["poll"]["state"] == "available"
    assert stored(server, uri) == path.read_bytes()


def test_suspend_and_resume(server, run, make_file):
    """There is no offset: a task that was stopped is followed by one from 0, on the same link."""
    path = make_file(64 * MIB)
    for _ in range(10):
        steps, _ = run("suspend", server.url, path)
        stopped = steps["stopped"]
        # On a busy machine the client may have sent everything before it is stopped.
        if stopped["sent"] < path.stat().st_size:
            break
    assert "status" not in stopped
    assert path.stat().st_size // 2 <= stopped["sent"] < path.stat().st_size
    assert steps["status"]["state"] == "uploading"
    assert steps["content"]["status"] == 200
    assert steps["poll"]["state"] == "available"
    assert stored(server, steps["create"]["uri"]) == path.read_bytes()


def test_cancel(server, run, make_file):
    path = make_file(64 * MIB)
    steps, client = run("cancel", server.url, path)
    assert "status" not in steps["stopped"]
    assert (steps["delete"]["status"], steps["repeated"]["status"]) == (204, 404)
    assert steps["repeated"]["code"] == 5000
    # The link is dead, and polling ends.
    assert (steps["content"]["status"], steps["poll"]["status"]) == (404, 404)
    assert client("GET", "/me/videos").json()["total"] == 0
    upload = upload_of(server, steps["create"]["uri"])
    assert upload["state"] == "terminated"
    # Nothing is held for it any more.
    assert client("GET", "/me").json()["upload_quota"]["space"]["used"] == 0


def test_a_picture(server, recorder, run, make_file):
    path, image = make_file(MIB), make_file(20 * KIB, "cover.jpg")
    steps, client = run("picture", recorder.url, path, image)
    check_content(recorder, NEW, ("video/mp4", MIB), ("image/jpeg", 20 * KIB))
    assert (steps["thumbnail"]["status"], steps["thumbnail"]["active"]) == (201, False)
    assert (steps["content"]["status"], steps["image"]["status"]) == (200, 200)
    assert (steps["activate"]["status"], steps["activate"]["active"]) == (200, True)
    assert steps["poll"]["state"] == "available"
    assert stored(server, steps["create"]["uri"]) == path.read_bytes()
    pictures = client("GET", steps["create"]["uri"]).json()["pictures"]
    assert (pictures["uri"], pictures["active"]) == (steps["activate"]["uri"], True)
    assert requests.get(pictures["sizes"][0]["link"], timeout=20).content == image.read_bytes()
