"""`sluice migrate`: the state into PostgreSQL and the bytes into a store, with kill -9 between, and nothing is lost."""

import base64
import itertools
import os
import random
import sqlite3
import subprocess
import time

import oss2
import pytest

from harness.api import API, path_of, upload_id
from harness.daemon import free_port
from harness.data import MIB, content, sha256
from harness.events import Stream
from harness.faulty_store import FaultyStore, Refuse
from harness.object_client import BUCKET, ObjectServer, minted
from harness.origin import Origin
from harness.postgres import shared
from harness.receiver import Receiver
from harness.server import BINARY, Server, run
from harness.wire import until

STATE = ("--from", "sqlite", "--to", "postgres")
# Used grants that are added to the file, so that copying takes long enough to be killed.
ROWS = 40_000
KIB = 1 << 10
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def postgres():
    return shared()


class Migration:
    """The command, and its longest duration so far."""

    def __init__(self, data, environment, *arguments):
        self.arguments = [BINARY, "migrate", *arguments, "--data-dir", str(data)]
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        self.environment |= environment

    def start(self):
        return subprocess.Popen(
            self.arguments, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def kill_after(self, pattern, delay):
        """Starts it and kills it `delay` seconds after a line with `pattern`, or after its start.

        Returns what it said, or None if it was killed in time.
        """
        process = self.start()
        lines = []
        for line in process.stdout if pattern else ():
            lines.append(line)
            if pattern in line:
                break
        time.sleep(delay)
        process.kill()
        output = "".join(lines) + process.stdout.read()
        status = process.wait()
        assert status in (0, -9), output
        return None if status else output

    def finish_with_kills(self, patterns=("",), *, delay=0.1, after=lambda: None):
        """Kills it at random moments, later each time, until it finishes; calls `after` after each kill.

        Returns how often it was killed, and what it said in the end.
        """
        for kills in itertools.count():
            moment = random.uniform(0, delay * (1 + 0.5 * kills))
            said = self.kill_after(patterns[kills % len(patterns)], moment)
            if said is not None:
                return kills, said
            after()

    def finish(self):
        """Runs it to its end, which must be good, and returns what it says."""
        process = self.start()
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return output

    def refuse(self):
        process = self.start()
        output, _ = process.communicate(timeout=120)
        assert process.returncode != 0, output
        return output


class Filled:
    """What a gateway on SQLite and disk was filled with, and how to find it again elsewhere."""

    def __init__(self, folder, origin):
        self.data = folder / "data"
        with Receiver(SECRET) as gone:
            nowhere = gone.url
        self.settings = {
            "SLUICE_HOOKS_URL": nowhere,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_HOOKS_EVENTS": "post-create, post-finish, post-terminate",
            "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        }
        self.source = Server(self.data, environment=self.settings)
        # Whatever the other tests run on.
        for name in ("SLUICE_DATABASE_URL", "SLUICE_MASTER_SECRET"):
            self.source.environment.pop(name, None)
        with self.source as server:
            # From now on all events are kept.
            with Stream(server) as stream:
                until(lambda: stream.events)
            self.fill(server, API(server.url, server.admin_key), origin)

    def without_hooks(self):
        return {name: value for name, value in self.settings.items() if "HOOKS" not in name}

    def fill(self, server, api, origin):
        self.media = {}
        for size in (0, 1, *range(20 * KIB, 60 * KIB, 2 * KIB), 100 * KIB, 6 * 1024 * KIB, 16 * 1024 * KIB):
            body = content(size, size)
            metadata = {"filename": f"f{size}.bin", "filetype": "application/x-test", "note": "ä\u0001z"}
            self.media[api.uploaded(body, metadata=metadata)] = sha256(body)
        self.finished = api.created(3)
        assert api.patch(self.finished, 0, b"abc").status_code == 204
        # Open, with none, some, and many bytes.
        self.open = []
        for size, offset in ((10, 0), (200 * KIB, 70 * KIB), (12 * 1024 * KIB, 7 * 1024 * KIB)):
            body = content(size, size + 1)
            url = api.created(size, metadata={"filename": "open"})
            if offset:
                assert api.patch(url, 0, body[:offset]).status_code == 204
            self.open.append((path_of(url), body, offset))
        self.ended = api.created(10)
        assert api.terminate(self.ended).status_code == 204
        # Parts, one of them complete, and the final upload that waits for the other.
        self.parts = [api.created(5, headers={"Upload-Concat": "partial"}) for _ in range(2)]
        assert api.patch(self.parts[0], 0, b"Hello").status_code == 204
        answer = api.create(None, headers={"Upload-Concat": "final;" + " ".join(map(path_of, self.parts))})
        assert answer.status_code == 201, answer.text
        self.final = path_of(answer.headers["Location"])
        made = api.post("/v1/tus/tokens", {"subject": "user-1", "oneTime": True})
        self.used = made.json()["token"]
        assert api.create(1, key=self.used).status_code == 201
        policy = {"storedBytes": 1 << 30, "openUploads": 3}
        assert api.request("PUT", "/v1/quota/subjects/user-1", json=policy).status_code == 200
        self.quota = api.get("/v1/quota/subjects/user-1").json()
        text = run("keys", "create", "--name", "second", "--scope", "read", data=server.data).stdout
        self.key = text.split("API key: ")[1].split()[0]
        # A pull that has got nothing yet.
        self.pulled = content(50_000, 7)
        self.resource = origin.add("/file", self.pulled, statuses=[(503, {})] * 1000)
        pull = api.post("/v1/media/pull", {"url": f"{origin.url}/file"})
        assert pull.status_code in (201, 202), pull.text
        self.pull = pull.json()["id"]
        self.views = {one: api.upload(one) for one in self.media}
        self.history = self.events(server)

    def events(self, server):
        """All events that are kept, from the first on."""
        with Stream(server, last_id=0) as stream:
            until(lambda: len(stream.recorded) >= len(getattr(self, "history", [0] * 10)), timeout=20)
            time.sleep(0.3)
            return stream.recorded

    def check_state(self, server, api):
        """Everything is there, and all credentials are still valid."""
        for one, view in self.views.items():
            assert api.upload(one) == view
        assert self.events(server)[: len(self.history)] == self.history
        reader = API(api.url, self.key)
        assert reader.get("/v1/uploads").status_code == 200
        assert reader.delete(f"/v1/uploads/{upload_id(self.open[0][0])}").status_code == 403
        assert api.create(1, key=self.used).status_code in (401, 403)
        assert api.get("/v1/quota/subjects/user-1").json() == self.quota
        assert api.upload(upload_id(self.ended))["state"] == "terminated"
        assert api.head(path_of(self.ended)).status_code in (404, 410)

    def check_bytes(self, api):
        for one, digest in self.media.items():
            assert api.download_hash(one)[0] == digest
        assert api.offset(path_of(self.finished)) == 3

    def go_on(self, api):
        """Open uploads continue at their offsets and complete."""
        for url, body, offset in self.open:
            assert api.offset(url) == offset
            assert api.patch(url, offset, body[offset:]).status_code == 204
            assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
        assert api.patch(path_of(self.parts[1]), 0, b"World").status_code == 204
        assert api.get(f"/media/{upload_id(self.final)}").content == b"HelloWorld"
        self.resource.statuses.clear()
        until(lambda: api.upload(self.pull)["state"] == "completed", timeout=60, interval=0.2)
        assert api.download_hash(self.pull) == (sha256(self.pulled), len(self.pulled))


def add_rows(data, count):
    with sqlite3.connect(data / "state.sqlite") as file:
        file.executemany(
            "INSERT INTO used_grant (id, upload_id, expires_at) VALUES (?, 'gone', 4000000000000)",
            ((f"filler-{number:08}-ä",) for number in range(count)),
        )
    file.close()


def dump(data):
    """Every row of the file."""
    with sqlite3.connect(f"file:{data}/state.sqlite?mode=ro", uri=True) as file:
        return list(file.iterdump())


def serves(postgres, folder, filled):
    """Settings of the gateway on a new database, with the secret of the data directory."""
    return filled.settings | {
        "SLUICE_DATABASE_URL": postgres.make_database(),
        "SLUICE_MASTER_SECRET_FILE": str(filled.data / "master.secret"),
    }


@pytest.fixture
def filled(tmp_path):
    with Origin() as origin:
        yield Filled(tmp_path, origin)


def test_the_state_moves_and_everything_continues(tmp_path, postgres, filled, report):
    add_rows(filled.data, ROWS)
    before = dump(filled.data)
    settings = serves(postgres, tmp_path, filled)
    migration = Migration(filled.data, settings, *STATE)
    refusals = []

    def refused():
        # Half of it must not be taken for all of it.
        if not refusals and has_begun(postgres, settings):
            done = run("serve", data=tmp_path / "other", environment=settings, check=False)
            assert done.returncode != 0 and "not finished" in done.stderr
            refusals.append(done)

    kills, said = migration.finish_with_kills(("", "media", "grant", "", "compared"), after=refused)
    report(f"migration of the state: {kills} kills")
    assert kills > 1 and refusals
    assert finished(postgres, settings)
    secret = (filled.data / "master.secret").read_text().strip()
    assert "SLUICE_MASTER_SECRET_FILE" in said and secret not in said
    assert dump(filled.data) == before, "the source was changed"
    assert "before" in migration.finish(), "it was done again"
    for command in (["serve"], ["keys", "list"]):
        done = run(*command, data=filled.data, environment={}, check=False)
        assert done.returncode == 1 and "migrated to a database: set SLUICE_DATABASE_URL" in done.stderr
    count = postgres.query("SELECT count(*) FROM used_grant", database(settings))
    assert count == [[str(ROWS + 1)]]

    with Receiver(SECRET) as receiver:
        settings["SLUICE_HOOKS_URL"] = receiver.url
        with Server(filled.data, environment=settings) as server:
            api = API(server.url, server.admin_key)
            filled.check_state(server, api)
            filled.check_bytes(api)
            for one in filled.media:
                receiver.wait("post-create", upload=one, timeout=30)
                receiver.wait("post-finish", upload=one)
            filled.go_on(api)
            new = api.uploaded(b"new")
            assert filled.events(server)[-1][2] == new
            numbers = [number for number, _, _ in filled.events(server)]
            assert numbers == sorted(set(numbers)), "a number was given twice"


def database(settings):
    return settings["SLUICE_DATABASE_URL"]


def has_begun(postgres, settings):
    rows = postgres.query("SELECT count(*) FROM pg_tables WHERE tablename = 'state_import'", database(settings))
    return rows == [["1"]]


def finished(postgres, settings):
    rows = postgres.query("SELECT count(*) FROM state_import WHERE finished_at IS NOT NULL", database(settings))
    return rows == [["1"]]


def test_unsafe_migrations_are_refused(tmp_path, postgres, filled):
    settings = serves(postgres, tmp_path, filled)
    migration = Migration(filled.data, settings, *STATE)
    with filled.source:
        said = migration.refuse()
        assert "in use by process" in said
    wrong = settings | {"SLUICE_MASTER_SECRET": base64.b64encode(os.urandom(32)).decode()}
    del wrong["SLUICE_MASTER_SECRET_FILE"]
    said = Migration(filled.data, wrong, *STATE).refuse()
    assert "does not have the secrets" in said and wrong["SLUICE_MASTER_SECRET"] not in said
    assert "no data directory" in Migration(tmp_path / "nothing", settings, *STATE).refuse()
    assert not (tmp_path / "nothing").exists()
    assert "SLUICE_DATABASE_URL" in Migration(filled.data, {}, *STATE).refuse()
    assert postgres.password not in said

    # A database that somebody uses.
    with Server(tmp_path / "other", environment=settings):
        pass
    assert "in use" in migration.refuse()
    assert not has_begun(postgres, settings)

    # What another data directory has begun.
    settings = serves(postgres, tmp_path, filled)
    migration = Migration(filled.data, settings, *STATE)
    migration.finish()
    other = Server(tmp_path / "second", environment=filled.settings)
    other.environment.pop("SLUICE_DATABASE_URL", None)
    other.environment.pop("SLUICE_MASTER_SECRET", None)
    with other:
        pass
    secret = {"SLUICE_MASTER_SECRET_FILE": str(tmp_path / "second" / "master.secret")}
    assert "another data directory" in Migration(tmp_path / "second", settings | secret, *STATE).refuse()


def test_a_changed_source_is_detected_and_the_migration_restarts(tmp_path, postgres, filled):
    add_rows(filled.data, ROWS // 2)
    settings = serves(postgres, tmp_path, filled)
    migration = Migration(filled.data, settings, *STATE)
    assert migration.kill_after("pull:", 0) is None
    with filled.source as server:
        api = API(server.url, server.admin_key)
        first = next(iter(filled.media))
        assert api.delete(f"/v1/media/{first}").status_code in (200, 204)
    said = migration.refuse()
    assert "--restart" in said and not finished(postgres, settings)
    migration.arguments.append("--restart")
    assert "rows are there" not in migration.finish()
    assert finished(postgres, settings)


BYTES = ("--media", "disk", "--to", "s3")


def stores(store, bucket):
    """Settings of the gateway with the store; small parts, so that few bytes make many."""
    return store.settings(bucket=bucket) | {"SLUICE_S3_PART_SIZE": "5MiB", "SLUICE_S3_RETRY_TIME": "10s"}


def blobs(data):
    """The sizes of the files of uploads, by id."""
    return {path.name: path.stat().st_size for path in (data / "blobs").glob("??/*")}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_bytes_move_and_everything_continues(tmp_path, postgres, rgw, bucket_name, filled, kind, report):
    settings = filled.without_hooks() | stores(rgw, bucket_name)
    if kind == "postgres":
        settings = serves(postgres, tmp_path, filled) | settings
        Migration(filled.data, settings, *STATE).finish()
    before = blobs(filled.data)
    migration = Migration(filled.data, settings, *BYTES)
    kills, said = migration.finish_with_kills(delay=0.15)
    report(f"migration of bytes ({kind}): {kills} kills")
    assert kills > 1 and "All bytes" in said
    assert blobs(filled.data) == before, "the source was changed"
    assert rgw.multiparts(bucket_name) != [], "an open upload has parts"
    # Again: nothing is sent, and nothing is left behind by those that were killed.
    objects = rgw.hashes(bucket_name)
    assert "0 uploads copied" in migration.finish()
    assert rgw.hashes(bucket_name) == objects

    server = Server(filled.data, environment=settings)
    if kind == "sqlite":
        for name in ("SLUICE_DATABASE_URL", "SLUICE_MASTER_SECRET"):
            server.environment.pop(name, None)
    with server:
        api = API(server.url, server.admin_key)
        assert "in use by" in migration.refuse()
        filled.check_state(server, api)
        filled.check_bytes(api)
        # One goes on in the store before the disk is cleaned.
        url, body, offset = filled.open[2]
        assert api.patch(url, offset, body[offset : offset + 100]).status_code == 204
        filled.open[2] = (url, body, offset + 100)
    migration.arguments.append("--remove")
    _, said = migration.finish_with_kills(delay=0.15)
    assert "0 uploads copied" in said
    # What no upload needs is left alone.
    assert all(one == upload_id(filled.ended) for one in blobs(filled.data)), blobs(filled.data)
    with server:
        api = API(server.url, server.admin_key)
        filled.check_bytes(api)
        filled.go_on(api)
        wanted = sorted([*filled.media.values(), *(sha256(body) for _, body, _ in filled.open)])
        found = [digest for digest, _ in rgw.hashes(bucket_name).values()]
        assert [one for one in wanted if one not in found] == []
        assert rgw.multiparts(bucket_name) == []


def test_open_multipart_uploads_continue_in_the_store(tmp_path, rgw, bucket_name, report):
    """Parts of both sizes: those that the store takes, and those that wait beside the object."""
    data = tmp_path / "data"
    pieces = {"s3": [content(5 * MIB + n, n) for n in range(4)] + [b"end"], "oss": [content(MIB, n) for n in range(9)]}
    uploads = {}
    with ObjectServer(data, free_port()) as server:
        for key, multipart in multiparts(server).items():
            uploads[key] = multipart.begin(key)
            # The last one is yet to come; and one came twice, so that it is not in its place.
            tags = [multipart.put(key, uploads[key], n, piece) for n, piece in enumerate(pieces[key][:-1], 1)]
            assert multipart.put(key, uploads[key], 2, pieces[key][1]) == tags[1]
    migration = Migration(data, stores(rgw, bucket_name), *BYTES, "--remove")
    kills, said = migration.finish_with_kills(delay=0.1)
    report(f"migration of open multipart uploads: {kills} kills")
    assert "All bytes" in said and blobs(data) == {}
    with ObjectServer(data, free_port(), stores(rgw, bucket_name)) as server:
        for key, multipart in multiparts(server).items():
            assert multipart.list(key, uploads[key]) == [len(piece) for piece in pieces[key][:-1]]
            multipart.put(key, uploads[key], len(pieces[key]), pieces[key][-1])
            multipart.complete(key, uploads[key])
            assert multipart.read(key) == b"".join(pieces[key])
    assert rgw.multiparts(bucket_name) == []


def test_a_store_that_first_refuses_multipart_uploads(tmp_path, rgw, bucket_name):
    """The remains of such a run do not make the next one fail."""
    data = tmp_path / "data"
    with ObjectServer(data, free_port()) as server:
        s3 = S3Multipart(server)
        # One of them without a part yet.
        uploads = {key: s3.begin(key) for key in ("with", "without")}
        s3.put("with", uploads["with"], 1, b"first")
    with FaultyStore(rgw.port) as proxy:
        proxy.fault(
            "CreateMultipartUpload|DeleteObject|HeadObject|ListMultipartUploads", Refuse(503), times=float("inf")
        )
        settings = rgw.settings(proxy.url, bucket_name) | {"SLUICE_S3_RETRY_TIME": "1s", "SLUICE_S3_PART_SIZE": "5MiB"}
        migration = Migration(data, settings, *BYTES, "--remove")
        migration.refuse()
        assert proxy.of("CreateMultipartUpload") != []
        proxy.clear()
        migration.finish()
    assert blobs(data) == {}
    with ObjectServer(data, free_port(), stores(rgw, bucket_name)) as server:
        s3 = S3Multipart(server)
        s3.put("without", uploads["without"], 1, b"first")
        for key, upload in uploads.items():
            s3.complete(key, upload)
            assert s3.read(key) == b"first"
    assert rgw.multiparts(bucket_name) == []


def test_multipart_uploads_that_were_completed_in_the_store_meanwhile(tmp_path, rgw, bucket_name):
    """The disk is no longer responsible for them, and their files are removed."""
    data = tmp_path / "data"
    with ObjectServer(data, free_port()) as server:
        s3 = S3Multipart(server)
        upload = s3.begin("k")
        s3.put("k", upload, 1, content(5 * MIB, 1))
        s3.put("k", upload, 2, b"end")
    migration = Migration(data, stores(rgw, bucket_name), *BYTES)
    migration.finish()
    assert blobs(data) != {}
    with ObjectServer(data, free_port(), stores(rgw, bucket_name)) as server:
        S3Multipart(server).complete("k", upload)
    migration.arguments.append("--remove")
    assert "continued in the store" in migration.finish()
    assert blobs(data) == {}
    with ObjectServer(data, free_port(), stores(rgw, bucket_name)) as server:
        assert S3Multipart(server).read("k") == content(5 * MIB, 1) + b"end"


class S3Multipart:
    def __init__(self, server):
        self.s3 = server.client()

    def begin(self, key):
        return self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]

    def put(self, key, upload, number, piece):
        about = {"Bucket": BUCKET, "Key": key, "UploadId": upload, "PartNumber": number}
        return self.s3.upload_part(**about, Body=piece)["ETag"]

    def parts(self, key, upload):
        return self.s3.list_parts(Bucket=BUCKET, Key=key, UploadId=upload)["Parts"]

    def list(self, key, upload):
        return [part["Size"] for part in self.parts(key, upload)]

    def complete(self, key, upload):
        parts = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in self.parts(key, upload)]
        self.s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})

    def read(self, key):
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


class OSSMultipart:
    def __init__(self, server):
        held = minted(server, "aliyun", bucket=BUCKET, keyPrefix="", actions=["upload", "read"])
        auth = oss2.StsAuth(*held, auth_version="v4")
        self.oss = oss2.Bucket(auth, server.object_url, BUCKET, region="cn-shanghai")

    def begin(self, key):
        return self.oss.init_multipart_upload(key).upload_id

    def put(self, key, upload, number, piece):
        return self.oss.upload_part(key, upload, number, piece).etag

    def list(self, key, upload):
        return [part.size for part in self.oss.list_parts(key, upload).parts]

    def complete(self, key, upload):
        parts = self.oss.list_parts(key, upload).parts
        self.oss.complete_multipart_upload(key, upload, parts)

    def read(self, key):
        return self.oss.get_object(key).read()


def multiparts(server):
    return {"s3": S3Multipart(server), "oss": OSSMultipart(server)}


def test_wrong_or_missing_bytes_are_reported_and_the_others_move(tmp_path, rgw, bucket_name, filled):
    settings = filled.without_hooks() | stores(rgw, bucket_name)
    migration = Migration(filled.data, settings, *BYTES, "--remove")
    media = sorted(filled.media, key=lambda one: path_in(filled.data, one).stat().st_size)
    short, gone = media[-3], media[-2]
    path_in(filled.data, short).write_bytes(b"short")
    body = path_in(filled.data, gone).read_bytes()
    path_in(filled.data, gone).unlink()
    said = migration.refuse()
    assert f"{short}: The disk has 5 of its" in said and f"{gone}: it is not in the store" in said
    assert "2 uploads are not in the store" in said
    assert set(blobs(filled.data)) <= {short, upload_id(filled.ended)}
    path_in(filled.data, gone).write_bytes(body)
    said = migration.refuse()
    assert gone not in said and "1 uploads copied" in said
    assert filled.media[gone] in [digest for digest, _ in rgw.hashes(bucket_name).values()]


def test_bytes_that_the_store_lost_are_sent_again(tmp_path, rgw, bucket_name, filled):
    migration = Migration(filled.data, filled.without_hooks() | stores(rgw, bucket_name), *BYTES)
    migration.finish()
    before = rgw.hashes(bucket_name)
    keys = {digest: key for key, (digest, _) in before.items()}
    media = sorted(filled.media, key=lambda one: path_in(filled.data, one).stat().st_size)
    spoiled, lost, rotten = media[-3], media[-1], media[-2]
    rgw.client().put_object(Bucket=bucket_name, Key=keys[filled.media[spoiled]], Body=content(100 * KIB, 99))
    rgw.client().delete_object(Bucket=bucket_name, Key=keys[filled.media[lost]])
    # What was compared before is not asked for again; so that is forgotten.
    assert "0 uploads copied" in migration.finish()
    (filled.data / "migrated").unlink()
    assert "2 uploads copied" in migration.finish()
    assert rgw.hashes(bucket_name) == before
    # Nor is what is right in the store replaced by what is wrong on disk.
    (filled.data / "migrated").unlink()
    path_in(filled.data, rotten).write_bytes(content(path_in(filled.data, rotten).stat().st_size, 98))
    said = migration.refuse()
    assert f"{rotten}: The bytes on disk are not" in said and "0 uploads copied" in said
    assert rgw.hashes(bucket_name) == before


def path_in(data, identifier):
    return data / "blobs" / identifier[-2:] / identifier


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--to", "s3"),
        ("--from", "sqlite", "--to", "s3"),
        ("--media", "disk", "--to", "postgres"),
        (*STATE, "--remove"),
        (*BYTES, "--restart"),
        BYTES,
    ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments):
    done = run("migrate", *arguments, data=tmp_path / "data", check=False)
    assert done.returncode != 0 and "Error:" in done.stderr
    assert not (tmp_path / "data").exists()
