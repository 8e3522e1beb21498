"""A full disk: 507, the offset is kept, and the upload continues once there is space."""

import contextlib
import hashlib
import os

import pytest

from harness.api import API, checksum, problem, tus_error, upload_id
from harness.data import MIB, content, sha256
from harness.disk import small

SIZE = 24 * MIB


@pytest.fixture
def small_disk(tmp_path):
    with small(tmp_path / "disk", "tmpfs", SIZE) as folder:
        yield folder


@pytest.fixture(params=["tmpfs", "ext4"])
def larger_disk(request, tmp_path):
    """Space for more than what a fast upload reserves, and for the reserve."""
    with small(tmp_path / "disk", request.param, 5 * SIZE) as folder:
        yield folder


@pytest.fixture
def server(small_disk, make_server, tmp_path):
    server = make_server("disk/data", log=tmp_path / "server.log")
    yield server.start()
    server.stop()


@contextlib.contextmanager
def ballast(folder, leave):
    """Fills the disk but for `leave` bytes. The server may write at the same time, so less than was free may fit."""
    path = folder / "ballast"
    free = os.statvfs(folder)
    size = max(0, free.f_bavail * free.f_frsize - leave)
    try:
        with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while size > 0:
                size -= file.write(bytes(min(size, MIB)))
        yield
    finally:
        path.unlink()


def test_the_upload_continues_once_there_is_space(small_disk, server, report):
    api = API(server.url, server.admin_key)
    data = content(8 * MIB, 1)
    url = api.created(len(data))
    assert api.patch(url, 0, data[:MIB]).status_code == 204
    with ballast(small_disk, leave=2 * MIB):
        tus_error(api.patch(url, MIB, data[MIB:]), 507)
        offset = api.offset(url)
        assert MIB <= offset < len(data)
        report(f"disk full: 507, offset {offset} of {len(data)} kept")
        # Again: still full, still nothing lost, and the server still answers.
        tus_error(api.patch(url, offset, data[offset:]), 507)
        again = api.offset(url)
        assert again >= offset
        assert api.get("/healthz").status_code == 200
    answer = api.patch(url, again, data[again:])
    assert answer.status_code == 204, answer.text
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_a_checksummed_request_keeps_nothing_when_the_disk_is_full(small_disk, server):
    api = API(server.url, server.admin_key)
    data = content(8 * MIB, 2)
    url = api.created(len(data))
    field = checksum("sha1", hashlib.sha1(data).digest())
    with ballast(small_disk, leave=2 * MIB):
        tus_error(api.patch(url, 0, data, headers=field), 507)
        assert api.offset(url) == 0
    assert api.patch(url, 0, data, headers=field).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_creating_without_space_is_refused(small_disk, server):
    api = API(server.url, server.admin_key)
    kept = api.uploaded(b"kept")
    with ballast(small_disk, leave=0):
        # Some records still fit into space that the database has already; in the end there is no more.
        answers = [api.create(10, metadata={"note": "x" * 2000}) for _ in range(300)]
        refused = [answer for answer in answers if answer.status_code != 201]
        assert refused, "the disk never ran full"
        for answer in refused:
            tus_error(answer, 507)
        problem(api.post("/v1/tus/uploads", {"length": 10, "metadata": {"note": "x" * 2000}}), 507, "storage_full")
        assert api.get(f"/media/{kept}").content == b"kept"
    identifier = api.uploaded(b"there is room again")
    assert api.get(f"/media/{identifier}").content == b"there is room again"


def test_a_restart_on_a_full_disk_loses_nothing(small_disk, server):
    api = API(server.url, server.admin_key)
    data = content(4 * MIB, 3)
    url = api.created(len(data))
    with ballast(small_disk, leave=MIB):
        tus_error(api.patch(url, 0, data), 507)
        offset = api.offset(url)
    server.kill()
    server.start()
    api = API(server.url, server.admin_key)
    url = server.url + "/files/" + url.rsplit("/", 1)[1]
    assert api.offset(url) == offset
    assert api.patch(url, offset, data[offset:]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


@pytest.mark.parametrize("protocol", ["http", "https"])
def test_a_fast_upload_releases_reserved_space(larger_disk, make_server, certificate, protocol, report, request):
    """More blocks are reserved than the disk has; unused ones are released, and the upload continues."""
    environment = certificate.settings if protocol == "https" else {}
    server = make_server("disk/data", environment=environment, log=larger_disk.parent / "server.log").start()
    api = API(server.url, server.admin_key, verify=str(certificate.path))
    data = content(80 * MIB, 4)
    url = api.created(len(data))
    with ballast(larger_disk, leave=50 * MIB):
        tus_error(api.patch(url, 0, data), 507)
        offset = api.offset(url)
        assert 32 * MIB < offset < len(data)
        assert server.stored_bytes(upload_id(url)) <= offset + MIB
        tus_error(api.patch(url, offset, data[offset:]), 507)
        again = api.offset(url)
        assert again >= offset
        assert server.stored_bytes(upload_id(url)) <= again + MIB
    assert api.patch(url, again, data[again:]).status_code == 204
    assert server.stored_bytes(upload_id(url)) <= len(data) + MIB
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
    report(f"disk full, {request.node.callspec.id}: 507 at {offset / MIB:.1f} MiB of {len(data) / MIB:.0f}")
    server.stop()
