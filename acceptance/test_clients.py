"""Unmodified tus clients upload, are interrupted and resume; the stored bytes are the source's."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.api import API, upload_id
from harness.cutter import Cutter
from harness.data import GIB, MIB, hash_file, write_file
from harness.server import MEMORY, Server

CLIENTS = ["tuspy", "aiotus", "tus.py"]
RUNNER = Path(__file__).parent / "harness" / "tus_clients.py"
CLIENT_MEMORY = 256 * MIB


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files by size, created on demand: `files(size)` returns path and SHA-256."""
    folder = tmp_path_factory.mktemp("files")
    made = {}

    def file(size):
        if size not in made:
            path = folder / f"{size}.bin"
            made[size] = (path, write_file(path, size, seed=size + 1))
        return made[size]

    yield file
    for path, _ in made.values():
        path.unlink()


def run_client(client, endpoint, key, path, chunk=4 * MIB, retries=0, checksum=False, timeout=300):
    arguments = [
        sys.executable,
        RUNNER,
        client,
        endpoint,
        key,
        path,
        chunk,
        retries,
        *(["checksum"] if checksum else []),
    ]
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{client}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def assert_stored(server, api, url, path, digest):
    """Checks that the upload is complete, and that download and stored file equal the source."""
    identifier = upload_id(url)
    size = path.stat().st_size
    upload = api.upload(identifier)
    assert (upload["state"], upload["offset"], upload["length"]) == ("completed", size, size)
    assert upload["filename"] == "file.bin"
    assert api.download_hash(identifier) == (digest, size)
    media = api.get(f"/v1/media/{identifier}").json()
    assert (media["size"], media["filename"]) == (size, "file.bin")
    hashes = [hash_file(stored) for stored in server.stored_files(identifier) if stored.stat().st_size == size]
    assert digest in hashes


@pytest.mark.rows
@pytest.mark.parametrize("size", [0, 1, 5 * MIB, 5 * MIB + 1])
@pytest.mark.parametrize("client", CLIENTS)
def test_uploads_a_file(server, api, files, client, size):
    path, digest = files(size)
    done = run_client(client, f"{server.url}/files", server.admin_key, path, chunk=2 * MIB)
    assert_stored(server, api, done["url"], path, digest)


@pytest.mark.parametrize("size", [1, 5 * MIB + 1, 40 * MIB])
@pytest.mark.parametrize("client", ["aiotus in parallel", "tus.py from a pipe"])
def test_uploads_in_parts_or_without_a_length(server, api, files, client, size):
    path, digest = files(size)
    done = run_client(client, f"{server.url}/files", server.admin_key, path, chunk=2 * MIB)
    assert_stored(server, api, done["url"], path, digest)


@pytest.mark.parametrize("size", [0, 1, 5 * MIB])
def test_uploads_with_checksums(server, api, files, size):
    path, digest = files(size)
    done = run_client("tuspy", f"{server.url}/files", server.admin_key, path, chunk=MIB, checksum=True)
    assert_stored(server, api, done["url"], path, digest)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_upload_token_is_enough(server, api, files, client):
    path, digest = files(5 * MIB)
    token = api.post("/v1/tus/tokens", {"subject": "user-1", "maxBytes": 5 * MIB}).json()
    done = run_client(client, token["endpoint"], token["token"], path)
    assert_stored(server, api, done["url"], path, digest)
    assert api.upload(upload_id(done["url"]))["subject"] == "user-1"


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A server behind a proxy that cuts connections, whose address is the public one."""
    with Cutter() as cutter:
        environment = {"SLUICE_PUBLIC_URL": cutter.url}
        with Server(tmp_path_factory.mktemp("cut") / "data", environment=environment) as server:
            cutter.target = server.address
            yield server, cutter


@pytest.mark.parametrize(
    ("client", "checksum"),
    [("tuspy", False), ("tuspy", True), ("aiotus", False), ("tus.py", False)],
    ids=["tuspy", "tuspy with checksums", "aiotus", "tus.py"],
)
def test_resumes_after_the_connection_is_cut(cut, files, report, client, checksum):
    server, cutter = cut
    path, digest = files(24 * MIB + 17)
    cutter.plan([3 * MIB + 5, 11 * MIB, 20 * MIB - 1])
    done = run_client(
        client, f"{cutter.url}/files", server.admin_key, path, chunk=6 * MIB, retries=6, checksum=checksum
    )
    assert len(cutter.done) == 3, f"cut only {cutter.done}"
    assert done["url"].startswith(cutter.url)
    report(
        f"{client}{' with checksums' if checksum else ''}: resumed after cuts at {cutter.done} of {24 * MIB + 17} bytes"
    )
    assert_stored(server, API(server.url, server.admin_key), done["url"], path, digest)


@pytest.mark.nightly
@pytest.mark.parametrize("client", CLIENTS)
def test_uploads_a_gibibyte_in_fixed_memory(tmp_path, files, report, client):
    path, digest = files(GIB)
    with Server(tmp_path / "data") as server:
        server.forget_start()
        begin = time.monotonic()
        done = run_client(client, f"{server.url}/files", server.admin_key, path, chunk=16 * MIB)
        seconds = time.monotonic() - begin
        assert_stored(server, API(server.url, server.admin_key), done["url"], path, digest)
        peak = server.peak_own_memory()
    report(
        f"{client}: 1 GiB in {seconds:.1f} s; peak memory client {done['peakMemory'] / MIB:.0f} MiB,"
        f" server {peak / MIB:.1f} MiB"
    )
    assert done["peakMemory"] < CLIENT_MEMORY
    assert peak < MEMORY


@pytest.mark.nightly
def test_uploads_a_gibibyte_with_checksums_and_cuts(cut, files, report):
    server, cutter = cut
    server.forget_start()
    path, digest = files(GIB)
    cutter.plan([100 * MIB + 1, 700 * MIB])
    done = run_client("tuspy", f"{cutter.url}/files", server.admin_key, path, chunk=32 * MIB, retries=6, checksum=True)
    assert len(cutter.done) == 2
    report(
        f"with checksums: 1 GiB, cut at {cutter.done}; memory of the server {server.peak_own_memory() / MIB:.1f} MiB"
    )
    assert_stored(server, API(server.url, server.admin_key), done["url"], path, digest)
    assert server.peak_own_memory() < MEMORY
