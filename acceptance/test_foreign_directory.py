"""Data directories in which other users may have put something: refused, and nothing in them is opened."""

import os

import pytest

from harness.api import API, path_of, upload_id
from harness.server import run

OTHER = 12_345

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")


@pytest.fixture
def precious(tmp_path):
    """Files that a link may lead to."""
    (tmp_path / "file").write_text("precious")
    (tmp_path / "file").chmod(0o644)
    (tmp_path / "folder").mkdir(mode=0o755)
    yield tmp_path
    assert (tmp_path / "file").read_text() == "precious"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o755
    assert list((tmp_path / "folder").iterdir()) == []


def plant(data, precious, name):
    (data / name).symlink_to(precious / ("folder" if name in ("blobs", "spool") else "file"))


def refused(data, *command):
    """The error with which a command ends."""
    done = run(*(command or ("serve", "--gateway-listen", "127.0.0.1:0")), "--data-dir", data, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.parametrize("name", ["lock", "blobs", "master.secret", "state.sqlite", "spool"])
@pytest.mark.parametrize("owner", [OTHER, 0])
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_planted_link_is_not_followed(precious, name, owner, mode):
    data = precious / "data"
    data.mkdir()
    plant(data, precious, name)
    os.chown(data, owner, owner)
    data.chmod(mode)
    text = refused(data)
    if owner:
        assert f"belongs to user {OTHER}" in text and "user 0" in text
    elif mode == 0o777:
        assert "other users can write" in text and "chmod 0700" in text
    else:
        assert str(data / name) in text and "link" in text
    if owner or mode == 0o777:
        assert [path.name for path in data.iterdir()] == [name]


@pytest.mark.parametrize("name", ["master.secret", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm"])
def test_commands_of_root_follow_no_link_either(precious, make_server, name):
    server = make_server(precious / "data").start()
    server.stop()
    (server.data / name).unlink(missing_ok=True)
    plant(server.data, precious, name)
    os.chown(server.data, OTHER, OTHER)
    command = ("secret", "list") if name == "master.secret" else ("keys", "create", "--name", "x", "--scope", "read")
    done = run(*command, environment=server.environment, check=False)
    assert done.returncode != 0 and str(server.data / name.partition("-")[0]) in done.stderr


def test_a_directory_that_is_a_link_is_used(precious, make_server):
    """What the operator names is trusted; what is in it is not."""
    (precious / "real").mkdir(mode=0o700)
    (precious / "data").symlink_to(precious / "real")
    make_server(precious / "data").start()
    assert (precious / "real/state.sqlite").exists()


@pytest.mark.parametrize("is_running, recent", [(True, 0), (True, 128), (False, 128)])
def test_a_link_in_place_of_a_folder_of_bytes_is_not_followed(tmp_path, make_server, is_running, recent):
    server = make_server(tmp_path / "data", environment={"SLUICE_UPLOADS_RECENT": str(recent)}).start()
    api = API(server.url, server.admin_key)
    media = api.uploaded(b"hello")

    def blob_of(identifier):
        (blob,) = (tmp_path / "data" / "blobs").glob(f"??/{identifier}")
        return blob

    while True:
        url = api.created(10)
        assert api.patch(url, 0, b"12345").status_code == 204
        if blob_of(upload_id(url)).parent != blob_of(media).parent:
            break

    def replace(identifier, text):
        """The folder of an upload by a link to one with other bytes."""
        blob = blob_of(identifier)
        outside = tmp_path / identifier
        outside.mkdir()
        (outside / identifier).write_bytes(text)
        blob.parent.rename(tmp_path / f"was {identifier}")
        blob.parent.symlink_to(outside)
        return outside / identifier

    if not is_running:
        server.stop()
    outside = [replace(media, b"evil!"), replace(upload_id(url), b"evil!")]
    if not is_running:
        server.start()
        api = API(server.url, server.admin_key)
    shown = api.get(f"/media/{media}")
    assert shown.status_code >= 400 and b"evil" not in shown.content
    status = api.patch(path_of(url), 5, b"67890").status_code
    # The file of a recent append is still open, wherever it is now.
    assert status == 204 if is_running and recent else status >= 400
    for one in (media, upload_id(url)):
        api.delete(f"/v1/uploads/{one}")
    assert [file.read_bytes() for file in outside] == [b"evil!"] * 2


def test_a_pipe_in_place_of_bytes_holds_nobody_up(tmp_path, make_server):
    server = make_server(tmp_path / "data").start()
    api = API(server.url, server.admin_key)
    url = api.created(10)
    assert api.patch(url, 0, b"12345").status_code == 204
    (blob,) = (tmp_path / "data" / "blobs").glob(f"??/{upload_id(url)}")
    blob.unlink()
    os.mkfifo(blob)
    assert api.patch(url, 5, b"67890").status_code >= 400
    assert api.uploaded(b"more")
