"""`sluice backup` and `sluice restore` of a data directory while uploads run; the original is destroyed."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import ways
from harness.api import API, path_of, upload_id
from harness.daemon import free_port
from harness.data import MIB, content, sha256
from harness.object_client import BUCKET, ObjectServer
from harness.origin import Origin
from harness.server import BINARY, run
from harness.stages import PausedWorld
from harness.ways import File
from harness.wire import until


@pytest.fixture
def objects(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    server = ObjectServer(tmp_path / "data", free_port())
    server.start()
    server.client().create_bucket(Bucket=BUCKET)
    yield server
    server.stop()


def api_of(server):
    return API(server.url, server.admin_key)


def backup(server, target, *arguments, check=True):
    return run("backup", target, *arguments, environment=server.environment, check=check)


def restore(server, target, check=True):
    return run("restore", target, environment=server.environment, check=check)


def verified(server):
    """What `sluice verify --digests` finds."""
    done = run("verify", "--digests", environment=server.environment, check=False)
    return done.returncode, done.stdout


def copies(target):
    return sorted(path for path in target.iterdir() if path.name.endswith("Z"))


class Load:
    """Clients that upload, replace, abort and remove, and what was acknowledged to them."""

    def __init__(self, server, count):
        self.server = server
        self.stopped = threading.Event()
        self.failures = []
        self.media, self.objects = {}, {}
        self.turns = [0] * count
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert self.failures == []

    def work(self, number):
        try:
            api, client = api_of(self.server), self.server.client()
            while not self.stopped.is_set():
                self.turn(number, api, client)
                self.turns[number] += 1
        except Exception as error:  # noqa: BLE001
            self.failures.append(error)

    def turn(self, number, api, client):
        turn = self.turns[number]
        name = f"{number}-{turn}"
        body = content(70_000, turn + 1000 * number)
        self.media[api.uploaded(body)] = body
        # Removed at once, and the next one begun and left.
        assert api.delete(f"/v1/media/{api.uploaded(body[:50_000])}").status_code in (200, 204)
        assert api.patch(api.created(5000), 0, body[:1000]).status_code == 204
        client.put_object(Bucket=BUCKET, Key=name, Body=body)
        self.objects[name] = body
        client.put_object(Bucket=BUCKET, Key=f"replaced-{number}", Body=body)
        given = {"Bucket": BUCKET, "Key": f"parts-{name}"}
        given["UploadId"] = client.create_multipart_upload(**given)["UploadId"]
        tags = [
            client.upload_part(**given, PartNumber=part, Body=data)["ETag"]
            for part, data in ((1, body[:20_000]), (2, body), (1, body))
        ]
        if turn % 3 == 0:
            client.abort_multipart_upload(**given)
        elif turn % 3 == 1:
            parts = [{"PartNumber": 1, "ETag": tags[2]}]
            client.complete_multipart_upload(**given, MultipartUpload={"Parts": parts})
            self.objects[given["Key"]] = body


def test_a_backup_under_load_replaces_the_original(objects, tmp_path):
    target = tmp_path / "backups"
    api, client = api_of(objects), objects.client()
    body = content(3 * MIB, 99)
    url = api.created(len(body))
    assert api.patch(url, 0, body[:MIB]).status_code == 204
    big = [content(5 * MIB, 50), content(MIB, 51)]
    given = {"Bucket": BUCKET, "Key": "big"}
    given["UploadId"] = client.create_multipart_upload(**given)["UploadId"]
    tags = [client.upload_part(**given, PartNumber=1, Body=big[0])["ETag"]]
    with Load(objects, 3) as load:
        until(lambda: min(load.turns) >= 3)
        backup(objects, target)
        until(lambda: min(load.turns) >= 6)
        media, made = dict(load.media), dict(load.objects)
        said = backup(objects, target).stdout
        until(lambda: min(load.turns) >= 7)
    assert " unchanged" in said and "master secret" in said
    assert len(copies(target)) == 2
    objects.kill()
    shutil.rmtree(objects.data)

    assert "files restored" in restore(objects, target).stdout
    assert (objects.data / "master.secret").stat().st_mode & 0o777 == 0o600
    assert objects.data.stat().st_mode & 0o777 == 0o700
    status, found = verified(objects)
    assert status == 0, found
    objects.start()
    api, client = api_of(objects), objects.client()
    assert api.get("/readyz", key=None).status_code == 200
    for identifier, data in media.items():
        assert api.download_hash(identifier) == (sha256(data), len(data))
    for key, data in made.items():
        assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == data
    # Clients go on.
    url = objects.url + path_of(url)
    assert api.offset(url) == MIB
    assert api.patch(url, MIB, body[MIB:]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
    tags.append(client.upload_part(**given, PartNumber=2, Body=big[1])["ETag"])
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    client.complete_multipart_upload(**given, MultipartUpload={"Parts": parts})
    assert client.get_object(Bucket=BUCKET, Key="big")["Body"].read() == b"".join(big)
    status, found = verified(objects)
    assert status == 0, found


def test_clients_of_each_dialect_go_on(tmp_path, monkeypatch):
    """Each way of sending a file is interrupted before each of its requests; the rest is sent to what was restored."""
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    settings = {
        "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
        "SLUICE_OBJECT_BUCKETS": f"{BUCKET}, {ways.BUCKET}",
        "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        "SLUICE_PULL_ALLOW_USERS": "true",
        "SLUICE_TENCENT_APPLIES_PER_SECOND": "10000",
    }
    file = File(b"\x89PNG\r\n\x1a\n" + content(50_000, 7))
    target, origin = tmp_path / "backups", Origin()
    server = ObjectServer(tmp_path / "data", free_port(), settings)
    with contextlib.ExitStack() as stack:
        stack.callback(origin.close)
        stack.callback(server.stop)
        server.start()
        worlds = {}

        def begin(way, before=None):
            subject = f"u{len(worlds)}"
            worlds[subject] = world = PausedWorld(server, origin, before)
            held = way.mint(world, subject, file)
            return world, lambda: way.send(world, held, file)

        def check():
            for subject, world in worlds.items():
                found = [one for one in world.uploads(subject) if one["length"] == len(file.data)]
                assert found, subject
                for one in found:
                    assert world.api.download_hash(one["id"]) == (sha256(file.data), len(file.data)), subject

        clients = []
        for way in ways.ALL:
            world, send = begin(way)
            send()
            clients += [(way.name, number, *begin(way, number)) for number in range(1, world.calls + 1)]
        with ThreadPoolExecutor(len(clients)) as pool:
            running = {(name, number): (world, pool.submit(send)) for name, number, world, send in clients}
            for world, sent in running.values():
                until(lambda world=world, sent=sent: world.paused.is_set() or sent.done())
            with Load(server, 2) as load:
                until(lambda: min(load.turns) >= 1)
                backup(server, target)
                until(lambda: min(load.turns) >= 3)
                backup(server, target)
            server.kill()
            shutil.rmtree(server.data)
            restore(server, target)
            assert verified(server)[0] == 0, verified(server)[1]
            server.start()
            for world, _ in running.values():
                world.go.set()
            broken = {name: failure for name, (_, sent) in running.items() if (failure := sent.exception())}
        assert not broken, broken
        # Each has begun before the backup, and was interrupted before the last request as well.
        assert {way.name for way in ways.ALL} - {name for name, _ in running} == {"pull"}
        check()
        assert verified(server)[0] == 0, verified(server)[1]


def test_only_what_is_new_is_copied(objects, tmp_path):
    api, target = api_of(objects), tmp_path / "backups"
    old = api.uploaded(content(MIB, 1))
    path = f"blobs/{old[-2:]}/{old}"
    os.utime(objects.data / path, (time.time() - 60, time.time() - 60))
    backup(objects, target, "--keep", "3")
    new = api.uploaded(content(1000, 2))
    done = backup(objects, target, "--keep", "3").stdout
    assert "1 unchanged" in done
    first, second = copies(target)
    assert (first / path).stat().st_ino == (second / path).stat().st_ino
    assert not (first / f"blobs/{new[-2:]}/{new}").exists() and (second / f"blobs/{new[-2:]}/{new}").exists()
    backup(objects, target, "--keep", "1")
    assert len(copies(target)) == 1 and copies(target)[0] > second
    # It can be checked without Sluice.
    checked = subprocess.run(["sha256sum", "-c", "--quiet", "manifest"], cwd=copies(target)[0])
    assert checked.returncode == 0


def test_a_backup_that_is_killed_leaves_the_one_before(objects, tmp_path):
    api, target = api_of(objects), tmp_path / "backups"
    kept = {api.uploaded(body): body for body in (content(100_000, n) for n in range(5))}
    backup(objects, target)
    for number in range(20):
        api.uploaded(content(4 * MIB, number))
    before = copies(target)
    process = subprocess.Popen([BINARY, "backup", target], env=objects.environment, stdout=subprocess.DEVNULL)
    until(lambda: list(target.glob("unfinished/blobs/*/*")))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert copies(target) == before and (target / "unfinished").exists()
    objects.stop()
    elsewhere = tmp_path / "elsewhere"
    environment = objects.environment | {"SLUICE_DATA_DIR": str(elsewhere)}
    run("restore", target, environment=environment)
    assert {path.name for path in elsewhere.glob("blobs/*/*")} == set(kept)
    assert run("verify", "--digests", environment=environment).returncode == 0
    # The next one takes its place.
    backup(objects, target)
    assert len(copies(target)) == 2 and not (target / "unfinished").exists()
    objects.start()


def test_a_damaged_backup_and_a_full_directory_are_refused(objects, tmp_path):
    api, target = api_of(objects), tmp_path / "backups"
    identifier = api.uploaded(content(1000, 1))
    backup(objects, target)
    done = restore(objects, target, check=False)
    assert done.returncode == 1 and "is not empty" in done.stderr
    path = copies(target)[0] / f"blobs/{identifier[-2:]}/{identifier}"
    environment = objects.environment | {"SLUICE_DATA_DIR": str(tmp_path / "new")}
    state = copies(target)[0] / "state.sqlite"
    for damaged in (path, state):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
        done = run("restore", target, environment=environment, check=False)
        assert done.returncode == 1 and "is damaged" in done.stderr and damaged.name in done.stderr
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]
        damaged.write_bytes(whole)
    path.unlink()
    done = run("restore", target, environment=environment, check=False)
    assert done.returncode == 1 and "is damaged" in done.stderr
    path.write_bytes(content(1000, 1))
    run("restore", target, environment=environment)
    done = run("restore", tmp_path / "nothing", environment=environment, check=False)
    assert done.returncode == 1 and "no complete backup" in done.stderr


def test_what_is_elsewhere_is_named(objects, tmp_path):
    environment = objects.environment | {
        "SLUICE_DATABASE_URL": "postgres://nobody:hidden@127.0.0.1:1/none",
        "SLUICE_MASTER_SECRET": "x" * 44,
    }
    done = run("backup", tmp_path / "backups", environment=environment, check=False)
    assert done.returncode == 1 and "pg_dump" in done.stderr and "hidden" not in done.stderr
    assert not (tmp_path / "backups").exists()


def test_a_store_keeps_the_bytes(make_relay, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    relay = make_relay()
    identifier = relay.api.uploaded(content(1000, 1))
    said = backup(relay.server, tmp_path / "backups").stdout
    assert "copy the bucket" in said
    relay.server.kill()
    shutil.rmtree(relay.server.data)
    restore(relay.server, tmp_path / "backups")
    relay.server.start()
    api = API(relay.server.url, relay.server.admin_key)
    assert api.download_hash(identifier)[1] == 1000
