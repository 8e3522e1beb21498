"""Concatenation: blocks are shared if the file system supports it, otherwise copied, and a kill loses nothing."""

import os
import random
import shutil
import subprocess
import threading
import time

import pytest

from harness.api import API, path_of, upload_id
from harness.data import MIB, content, sha256
from harness.disk import mounted
from harness.server import Server


def partial(api, data=b"", length=None):
    url = api.created(len(data) if length is None else length, headers={"Upload-Concat": "partial"})
    if data:
        assert api.patch(url, 0, data).status_code == 204
    return url


def final(api, urls, **options):
    answer = api.create(None, headers={"Upload-Concat": "final;" + " ".join(urls)}, **options)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def test_parts_by_any_url_become_one(api):
    data = [content(MIB + 1, 1), content(5, 2), content(3 * MIB, 3)]
    urls = [partial(api, piece) for piece in data]
    named = [urls[0], path_of(urls[1]), urls[2].replace("127.0.0.1", "elsewhere.example"), urls[1].rsplit("/", 1)[1]]
    # As the app can have it named.
    named[1] = named[1].replace("/files/", "/files/a%2Ffilm%2C1~")
    url = final(api, named, metadata={"filename": "whole.bin"})
    whole = data[0] + data[1] + data[2] + data[1]
    identifier = upload_id(url)
    assert api.download_hash(identifier) == (sha256(whole), len(whole))
    document = api.upload(identifier)
    assert (document["state"], document["concatenation"], document["length"]) == ("completed", "final", len(whole))
    part = api.upload(upload_id(urls[0]))
    assert (part["state"], part["concatenation"]) == ("completed", "partial") and part["expiresAt"]
    assert api.get(f"/v1/media/{upload_id(urls[0])}").status_code == 404
    assert api.get(f"/media/{identifier}").headers["Content-Disposition"].endswith('whole.bin"')


def test_bytes_of_another_user_are_not_joined(api):
    """Who has the URL of a partial upload can write to it, but not read it."""

    def token(subject):
        return api.post("/v1/tus/tokens", {"subject": subject}).json()["token"]

    user = {name: API(api.url, token(name)) for name in ("anna", "bob")}
    url = partial(user["anna"], b"secret")
    joined = {"Upload-Concat": "final;" + url}
    answer = user["bob"].create(None, headers=joined)
    assert answer.status_code == 403 and "another user" in answer.text
    assert user["anna"].create(None, headers=joined).status_code == 201
    assert api.create(None, headers=joined).status_code == 201


def test_no_url_is_fetched(api):
    """A list that names another server is refused although its host answers."""
    with pytest.raises(AssertionError, match="ERR_UPLOAD_NOT_FOUND"):
        final(api, [api.url + "/openapi.yaml"])


SEPARATORS = {
    "tab": "\t",
    "comma": ",",
    "two fields": ", ",
    "semicolon": ";",
    "path": "/",
    "tilde": "~",
    "query": "?",
    "several": " ,\t",
}


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_urls_are_separated_by_spaces_only(api, separator):
    """All but the last were left out, and their URLs went to hooks."""
    urls = [partial(api, b"a"), partial(api, b"b")]
    for named in (urls, [path_of(url) for url in urls], [url.rsplit("/", 1)[1] for url in urls]):
        answer = api.create(None, headers={"Upload-Concat": "final;" + separator.join(named)})
        assert answer.status_code == 400 and "ERR_INVALID_CONCAT" in answer.text, answer.text
    spaced = api.create(None, headers={"Upload-Concat": "final;" + "  ".join(urls)})
    assert api.upload(upload_id(spaced.headers["Location"]))["length"] == 2


def disk_usage(folder):
    subprocess.run(["sync", "-f", str(folder)], check=True)
    status = os.statvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
@pytest.mark.parametrize(
    "part", [8 * MIB, pytest.param(256 * MIB, marks=pytest.mark.nightly)], ids=["8 MiB", "256 MiB"]
)
def test_shared_blocks(tmp_path, kind, part, report):
    """Nothing is copied: the used disk space does not change."""
    maker = shutil.which(f"mkfs.{kind}", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not maker:
        pytest.skip(f"there is no mkfs.{kind}")
    image = tmp_path / "disk.img"
    with open(image, "wb") as file:
        # Sparse: only what is written takes space.
        file.truncate(max(512 * MIB, 24 * part))
    subprocess.run([maker, "-q", str(image)], check=True, capture_output=True)
    with mounted(tmp_path / "disk", ["-o", "loop"], image) as folder:
        with Server(folder / "data", log=tmp_path / "server.log") as server:
            api = API(server.url, server.admin_key)
            data = content(part, 5)
            urls = [partial(api, data) for _ in range(4)]
            before = disk_usage(folder)
            begin = time.monotonic()
            url = final(api, urls)
            seconds = time.monotonic() - begin
            grown = disk_usage(folder) - before
            assert api.upload(upload_id(url))["length"] == 4 * part
            assert grown < 4 * MIB
            files = [path for path in server.stored_files(upload_id(url)) if path.stat().st_size == 4 * part]
            begin = time.monotonic()
            subprocess.run(["cp", "--reflink=never", str(files[0]), str(folder / "copy")], check=True)
            subprocess.run(["sync", "-f", str(folder / "copy")], check=True)
            copying = time.monotonic() - begin
            report(
                f"4 x {part / MIB:.0f} MiB joined on {kind} in {seconds * 1000:.1f} ms, {seconds / copying:.4f} of"
                f" copying them; the disk grew by {grown / MIB:.1f} MiB"
            )
            assert api.download_hash(upload_id(url))[1] == 4 * part


def test_kills_while_parts_are_joined(make_server, report, quick):
    """Whatever was joined when the process died, the final upload gets all its parts, and no file is left."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    server = make_server().start()
    moments = {"before": 0, "between": 0, "after": 0}
    kills = 5 if quick else 30
    data = [content(24 * MIB + number, number) for number in range(3)]
    whole = sha256(b"".join(data))
    size = sum(map(len, data))
    for _ in range(kills):
        api = API(server.url, server.admin_key)
        urls = [partial(api, piece) for piece in data[:2]]
        urls.append(partial(api, length=len(data[2])))
        url = final(api, urls)
        identifier = upload_id(url)
        assert "Upload-Offset" not in api.head(url).headers
        assert api.patch(urls[2], 0, data[2][:-1]).status_code == 204
        # The last byte completes the last part, and that joins them.
        thread = threading.Thread(target=ignore(api.patch), args=(urls[2], len(data[2]) - 1, data[2][-1:]))
        thread.start()
        time.sleep(generator.uniform(0, 0.06))
        server.kill()
        thread.join()
        joined = sum(path.stat().st_size for path in server.stored_files(identifier))
        moments["before" if joined == 0 else "after" if joined == size else "between"] += 1
        server.start()
        api = API(server.url, server.admin_key)
        urls = [server.url + path_of(one) for one in urls]
        if api.offset(urls[2]) < len(data[2]):
            assert api.patch(urls[2], len(data[2]) - 1, data[2][-1:]).status_code == 204
        assert api.offset(server.url + path_of(url)) == size, seed
        assert api.download_hash(identifier) == (whole, size), seed
        for one in [*urls, server.url + path_of(url)]:
            assert api.remove(one).status_code == 204
        stored = [path for path in (server.data / "blobs").rglob("*") if path.is_file()]
        assert stored == [], (seed, stored)
    report(f"kill -9 while parts are joined, seed {seed}: {kills} kills, {moments}")


def ignore(call):
    def run(*arguments):
        try:
            call(*arguments)
        except OSError:
            pass  # killed

    return run
