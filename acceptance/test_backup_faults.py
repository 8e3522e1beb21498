"""`sluice backup` and `sluice restore` on full disks, and killed at any moment."""

import contextlib
import fcntl
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_backup import backup, copies, restore, verified
from test_disk_full import ballast

from harness.api import API, upload_id
from harness.daemon import free_port
from harness.data import KIB, MIB, content, sha256
from harness.disk import small
from harness.faults import SLOW_WRITES, compiled
from harness.object_client import BUCKET, ObjectServer
from harness.server import BINARY, run
from harness.wire import until

SIZE = 48 * MIB


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request, tmp_path):
    """A small file system."""
    # Blocks as of larger file systems: with smaller ones SQLite's index of the log has holes (SIGBUS).
    with small(tmp_path / "disk", request.param, SIZE) as folder:
        yield folder


@contextlib.contextmanager
def serving(folder, monkeypatch):
    """A gateway with five small media, an object and an upload that is not complete."""
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    # The log is not on that disk.
    with ObjectServer(folder, free_port(), log=folder.parent.parent / f"{folder.name}.log") as server:
        api = API(server.url, server.admin_key)
        server.media = {api.uploaded(body): body for body in (content(100 * KIB, n) for n in range(5))}
        server.client().create_bucket(Bucket=BUCKET)
        server.client().put_object(Bucket=BUCKET, Key="object", Body=b"object")
        server.open = api.created(5000)
        assert api.patch(server.open, 0, bytes(1000)).status_code == 204
        server.api = api
        yield server


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    with serving(tmp_path / "own/data", monkeypatch) as server:
        yield server


@pytest.fixture(scope="module")
def slowly():
    """Environment of a command that takes its time to copy files, so that it can be met in the middle."""
    library = compiled(SLOW_WRITES)
    if not library:
        pytest.skip("there is no C compiler")
    return {"LD_PRELOAD": str(library)}


def fill(server, count, size=4 * MIB):
    for number in range(count):
        body = content(size, 100 + number)
        server.media[server.api.uploaded(body)] = body


def elsewhere(server, folder):
    """The settings for another data directory."""
    return server.environment | {"SLUICE_DATA_DIR": str(folder)}


def check(server, target, folder, media):
    """The newest copy makes a data directory with these media, in which nothing is missing."""
    for copy in copies(target):
        assert subprocess.run(["sha256sum", "-c", "--quiet", "manifest"], cwd=copy).returncode == 0
        for sums in (copy / "sums").iterdir():
            assert subprocess.run(["sha256sum", "-c", "--quiet", sums], cwd=copy).returncode == 0
    run("restore", target, environment=elsewhere(server, folder))
    done = run("verify", "--digests", environment=elsewhere(server, folder), check=False)
    assert done.returncode == 0, done.stdout
    there = {path.name: sha256(path.read_bytes()) for path in folder.glob("blobs/*/*")}
    assert {identifier: there.get(identifier) for identifier in media} == {
        identifier: sha256(body) for identifier, body in media.items()
    }
    shutil.rmtree(folder)


def begun(command, environment, folder, pattern):
    """A command that has made the first file of this pattern, or has ended already."""
    process = subprocess.Popen(
        [BINARY, *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        # A shell without job control starts what runs in the background, such as these tests, with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(lambda: process.poll() is not None or list(folder.glob(pattern)), timeout=60, interval=0.001)
    return process


def pause(process):
    """Stops a process, unless it has ended."""
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: process.poll() is not None or stat.read_text().rpartition(") ")[2].startswith("T"))


def ended_by(sent, process):
    """Whether the process was ended by this signal, which is sent to it; otherwise it had finished before."""
    process.send_signal(sent)
    status = process.wait()
    assert status in (-sent, 0)
    return status != 0


def refused(done):
    """The only line of a command that found no space."""
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    assert any(text in line for text in ("full", "No space left", "enough space")), line
    return line


@pytest.mark.rows
# The destination is full when the directory is made, when the state is copied, and when the bytes are.
@pytest.mark.parametrize("space", [0, 20 * KIB, 200 * KIB, 8 * MIB])
def test_a_full_destination_keeps_the_copies_that_it_has(server, disk, tmp_path, space):
    target = disk / "backups"
    backup(server, target)
    before, old = copies(target), dict(server.media)
    fill(server, 6)
    with ballast(disk, leave=space):
        line = refused(backup(server, target, check=False))
        assert str(target) in line
        assert copies(target) == before and not (target / "unfinished").exists()
        # Again: it does not get worse.
        refused(backup(server, target, check=False))
        check(server, target, tmp_path / "restored", old)
    assert backup(server, target).returncode == 0
    assert len(copies(target)) == 2
    check(server, target, tmp_path / "restored", server.media)


def test_a_first_backup_without_space_leaves_nothing_that_looks_like_one(server, disk, tmp_path):
    target = disk / "backups"
    fill(server, 3)
    with ballast(disk, leave=4 * MIB):
        refused(backup(server, target, check=False))
        assert copies(target) == []
        done = restore(server, target, check=False)
        assert done.returncode == 1 and "no complete backup" in done.stderr
    backup(server, target)
    check(server, target, tmp_path / "restored", server.media)


@pytest.mark.parametrize("ending", ["serving", "stopped", "killed"])
def test_a_full_source_can_be_copied(disk, tmp_path, monkeypatch, ending):
    with serving(disk / "data", monkeypatch) as server:
        fill(server, 2)
        if ending == "killed":
            server.kill()
        elif ending == "stopped":
            server.stop()
        with ballast(disk, leave=0):
            backup(server, tmp_path / "backups")
        check(server, tmp_path / "backups", tmp_path / "restored", server.media)
        # There is space again.
        backup(server, tmp_path / "backups")
        check(server, tmp_path / "backups", tmp_path / "restored", server.media)
        if ending != "serving":
            server.start()


def test_no_gateway_starts_while_files_are_copied_at_rest(disk, tmp_path, monkeypatch, slowly):
    with serving(disk / "data", monkeypatch) as server:
        fill(server, 4)
        server.stop()
        with ballast(disk, leave=0):
            for attempt in range(20):
                target = tmp_path / f"backups{attempt}"
                process = begun(["backup", target], server.environment | slowly, target, "unfinished/blobs/*/*")
                pause(process)
                is_copying = process.poll() is None and (target / "unfinished").exists()
                if is_copying:
                    started = run("serve", environment=server.environment, check=False)
                    assert started.returncode == 1 and "in use" in started.stderr
                process.send_signal(signal.SIGCONT)
                assert process.wait() == 0
                if is_copying:
                    break
            else:
                pytest.fail("all backups finished before they were looked at")
        check(server, target, tmp_path / "restored", server.media)
        server.start()


def test_a_backup_beside_the_data_fills_their_disk_and_clears_it(disk, tmp_path, monkeypatch):
    with serving(disk / "data", monkeypatch) as server:
        fill(server, 6)
        target = disk / "backups"
        with ballast(disk, leave=10 * MIB):
            refused(backup(server, target, check=False))
            # What the command took is given back to the gateway.
            assert server.api.uploaded(content(4 * MIB, 1))
        assert verified(server)[0] == 0


def test_killed_backups_leave_the_copies_before(server, tmp_path):
    target = tmp_path / "backups"
    backup(server, target)
    old = dict(server.media)
    fill(server, 8)
    kills = 0
    for number in range(12):
        before = copies(target)
        process = subprocess.Popen([BINARY, "backup", target], env=server.environment, stdout=subprocess.DEVNULL)
        time.sleep(0.01 + 0.02 * number)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            kills += 1
            # It could have been killed after its end.
            assert copies(target)[: len(before)] == before or len(copies(target)) <= 2
    assert kills
    check(server, target, tmp_path / "restored", old)
    backup(server, target)
    assert not (target / "unfinished").exists()
    check(server, target, tmp_path / "restored", server.media)
    assert verified(server)[0] == 0


def test_an_interrupted_backup_ends_at_once_and_leaves_the_copies_before(server, tmp_path, slowly):
    target = tmp_path / "backups"
    backup(server, target)
    old, before = dict(server.media), copies(target)
    for sent in (signal.SIGINT, signal.SIGTERM):
        for _ in range(10):
            fill(server, 5)
            command = begun(["backup", target], server.environment | slowly, target, "unfinished/blobs/*/*")
            if ended_by(sent, command):
                break
            old, before = dict(server.media), copies(target)
        else:
            pytest.fail("all backups finished before their signal")
        assert copies(target) == before
    check(server, target, tmp_path / "restored", old)
    backup(server, target)
    check(server, target, tmp_path / "restored", server.media)


def test_a_restore_without_space_leaves_nothing_but_the_lock(server, disk, tmp_path):
    target, folder = tmp_path / "backups", disk / "restored"
    fill(server, 4)
    backup(server, target)
    for space in (0, 100 * KIB, 8 * MIB):
        with ballast(disk, leave=space):
            line = refused(run("restore", target, environment=elsewhere(server, folder), check=False))
            assert str(folder) in line
            assert not folder.exists() or {path.name for path in folder.iterdir()} <= {"lock"}
    check(server, target, folder, server.media)


@pytest.mark.parametrize("names", [["lock"], ["lock", "restoring"]], ids="-".join)
def test_a_directory_that_another_process_has_locked_is_not_filled(server, tmp_path, names):
    """A gateway, or another restore: what they put there stays."""
    target, folder = tmp_path / "backups", tmp_path / "restored"
    backup(server, target)
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    with open(folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("restore", target, environment=elsewhere(server, folder), check=False)
        assert done.returncode == 1 and "in use" in done.stderr
        assert sorted(path.name for path in folder.iterdir()) == names
    check(server, target, folder, server.media)


def test_a_killed_restore_is_begun_again(server, tmp_path, slowly):
    target, folder = tmp_path / "backups", tmp_path / "restored"
    fill(server, 5)
    backup(server, target)
    environment = elsewhere(server, folder) | {
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_LISTEN": "none",
    }
    for _ in range(20):
        if ended_by(signal.SIGKILL, begun(["restore", target], environment | slowly, folder, "blobs/*/*")):
            break
        shutil.rmtree(folder)
    else:
        pytest.fail("all restores finished before their signal")

    def content_there():
        # A process that locks the directory writes its id.
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}

    there = content_there()
    # No gateway uses what is there.
    started = run("serve", environment=environment, check=False)
    assert started.returncode == 1 and "restore" in started.stderr, started
    assert content_there() == there
    check(server, target, folder, server.media)
    # An upload continues in what was restored.
    run("restore", target, environment=environment)
    port = free_port()
    with ObjectServer(folder, port) as restored:
        api = API(restored.url, server.admin_key)
        assert api.get("/readyz", key=None).status_code == 200
        url = restored.url + server.open.partition(server.url)[2]
        assert api.offset(url) == 1000
        assert api.patch(url, 1000, bytes(4000)).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(bytes(5000)), 5000)
