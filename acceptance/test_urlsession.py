"""Plain uploads by URLSession, as apps make them, and by curl: no unrequested responses arrive."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cutter import Cutter
from harness.data import MIB, write_file
from harness.server import ROOT

SOURCE = Path(__file__).parent / "clients" / "urlsession" / "main.swift"
SIZES = [0, 1, 3 * MIB + 1, 64 * MIB]
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")


class Recorder(Cutter):
    """Cuts nothing, and records the statuses of all responses, including interim ones."""

    def __init__(self, target):
        self.statuses = []
        super().__init__(target)

    def _down(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self.statuses += [int(status) for status in STATUS.findall(data)]
                client.sendall(data)
            client.shutdown(2)
        server.close()


@pytest.fixture(scope="session")
def client():
    """The program, built once for each of its versions."""
    compiler = shutil.which("swiftc")
    if not compiler:
        pytest.skip("there is no swiftc")
    folder = ROOT / ".build-clients"
    program = folder / f"urlsession-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"urlsession-{os.getpid()}"
        subprocess.run([compiler, "-O", "-swift-version", "6", "-o", unfinished, SOURCE], check=True, timeout=600)
        unfinished.rename(program)
    return program


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each size, and its hash."""
    folder = tmp_path_factory.mktemp("files")
    return {size: (folder / f"{size}.bin", write_file(folder / f"{size}.bin", size, size)) for size in SIZES}


@pytest.fixture
def recorder(server):
    with Recorder(server.address) as one:
        yield one


def upload(client, url, key, method, mode, path, *fields):
    """The statuses that the client received, the bytes that it reports as sent, and the content of the response."""
    done = subprocess.run(
        [client, method, url, mode, path, f"Authorization:Bearer {key}", *fields],
        capture_output=True,
        timeout=120,
        # A proxy of the environment would be asked for 127.0.0.1 otherwise.
        env={name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
    )
    assert done.returncode == 0, done.stderr
    statuses, sent, answer = done.stdout.decode().split("\n", 2)
    return [int(status) for status in statuses.split()], int(sent), answer


@pytest.mark.rows
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["data", "file", "body", "stream"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/files"), ("POST", "/v1/media"), ("PUT", "/files"), ("PUT", "/v1/media/a%20b.mov")]
)
def test_urlsession(server, api, client, files, recorder, method, path, mode, size):
    name, digest = files[size]
    statuses, sent, answer = upload(
        client, recorder.url + path, server.admin_key, method, mode, name, "Content-Type:video/quicktime"
    )
    # A client that waits for it before the content gets 100 Continue (RFC 9110 §10.1.1).
    assert statuses == recorder.statuses in ([201], [100, 201]), answer
    assert sent == size
    media = json.loads(answer)
    assert (media["size"], media["contentType"]) == (size, "video/quicktime")
    assert api.download_hash(media["id"]) == (digest, size)
    if path.endswith(".mov"):
        assert media["filename"] == "a b.mov"


@pytest.mark.parametrize("mode", ["data", "file"])
def test_urlsession_that_gets_interim_responses(server, api, client, files, recorder, mode):
    """One that says that it speaks the draft, as that of Apple's systems does, is sent interim answers."""
    name, digest = files[3 * MIB + 1]
    fields = ["Upload-Draft-Interop-Version:6", "Upload-Complete:?1"]
    statuses, _, answer = upload(client, recorder.url + "/files", server.admin_key, "POST", mode, name, *fields)
    assert statuses == recorder.statuses, answer
    assert api.download_hash(json.loads(answer)["id"]) == (digest, 3 * MIB + 1)
    assert [status for status in statuses if status != 100] == [104, 201]


def test_urlsession_that_is_refused(client, files, recorder):
    """The client gets the response, although the content was not read."""
    name, _ = files[1]
    statuses, _, answer = upload(client, recorder.url + "/files", "slk_wrong", "POST", "file", name)
    assert (statuses, json.loads(answer)["code"]) == ([401], "unauthenticated")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ["/files", "/v1/media"])
@pytest.mark.parametrize("way", ["-T", "--data-binary", "-F"])
def test_curl(server, api, files, recorder, way, path, size):
    name, digest = files[size]
    arguments = {"-T": ["-T", name], "--data-binary": ["--data-binary", f"@{name}"], "-F": ["-F", f"file=@{name}"]}[way]
    url = recorder.url + path + ("/" if way == "-T" and path == "/v1/media" else "")
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "--fail-with-body", "-H", f"Authorization: Bearer {server.admin_key}"]
        + [*arguments, url],
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done
    answer = json.loads(done.stdout)
    media = answer["media"][0] if way == "-F" else answer
    assert api.download_hash(media["id"]) == (digest, size)
    if way == "-F":
        assert media["filename"] == name.name
    assert recorder.statuses in ([201], [100, 201])
