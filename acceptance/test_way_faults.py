"""Faults that the operator has to mend, at each way in: the credentials of the store, a full disk, few descriptors.

Whoever uploads is refused for a while, in the form of the dialect; nothing half is stored; afterwards the same works.
"""

import contextlib
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from harness import faulty_store as faults
from harness import object_client, ways
from harness.api import API, OFFSET_TYPE, TUS
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.disk import small, take_all
from harness.faulty_store import FaultyStore
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.relay import SETTINGS as RELAY
from harness.relay import new_secret
from harness.server import Server
from harness.ways import BUCKET, COMPANION, File, Refused, World
from harness.wire import Closed, Wire, until

SETTINGS = {
    "SLUICE_OBJECT_BUCKETS": BUCKET,
    "SLUICE_PULL_ALLOW": "127.0.0.0/8",
    "SLUICE_PULL_ALLOW_USERS": "true",
    "SLUICE_TENCENT_APPLIES_PER_SECOND": "10000",
}
PNG = b"\x89PNG\r\n\x1a\n"
STORE = "way-faults"
# Its records are in another state.
STORE_OF_DATABASE = "way-faults-database"
BUSY = "way-faults-busy"
FILE = File(PNG + content(100, 1))
LARGE = File(PNG + content(MIB, 2))
ALWAYS = float("inf")
# What the gateway fetches itself waits until the fault is over.
PULLS = [way for way in ways.ALL if way.name in ("pull", "Vimeo pull")]
# The source of a copy is stored first.
SENT = [way for way in ways.ALL if way not in PULLS and not way.name.startswith("S3 copy")]
# Their creation succeeds without a byte, which its answer says.
TOGETHER = ("tus with the creation", "tus in parts")


def files_of(world, subject):
    return [one for one in world.uploads(subject) if one["length"] != len(COMPANION.data)]


def assert_stored(world, subject, file):
    [one] = files_of(world, subject)
    assert world.api.get(f"/media/{one['id']}").content == file.data


def refused(way, world, held, file):
    with pytest.raises(Refused) as caught:
        way.send(world, held, file)
    return caught.value.answer


def assert_try_again(answer):
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, (answer, answer.text)


def tus_creation(world, subject, file):
    """A file in its creation, where nothing can be stored: 201, and the offset is that of what is stored."""
    fields = {"Authorization": f"Bearer {world.made('/v1/tus/tokens', subject=subject)['token']}", **TUS}
    fields |= {"Upload-Length": str(len(file.data)), "Content-Type": OFFSET_TYPE}
    answer = world.call("POST", "/files", headers=fields, data=file.data)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"], int(answer.headers["Upload-Offset"])


@pytest.fixture(scope="module")
def store(rgw):
    with FaultyStore(rgw.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def relayed(rgw, store, tmp_path_factory):
    """A gateway before a store."""
    origin = Origin()
    settings = SETTINGS | RELAY | rgw.settings(store.url, STORE) | {"SLUICE_S3_RETRY_TIME": "1s"}
    with ObjectServer(tmp_path_factory.mktemp("ways") / "data", free_port(), settings) as server:
        yield World(server, origin)
        store.clear()
    origin.close()
    rgw.wipe(STORE)


CODES = ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AccessDenied"]


@pytest.mark.rows
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in SENT if way.name not in TOGETHER])
def test_a_store_that_refuses_the_credentials(relayed, store, way, code):
    subject = f"u{relayed.next()}"
    held = way.mint(relayed, subject, FILE)
    rule = faults.Refuse(400 if code == "ExpiredToken" else 403, code)
    store.fault(".*", rule, times=ALWAYS)
    try:
        answer = refused(way, relayed, held, FILE)
    finally:
        store.clear()
    assert code not in answer.text
    assert_try_again(answer)
    assert files_of(relayed, subject) == []
    held = way.mint(relayed, subject, FILE)
    way.send(relayed, held, FILE)
    assert_stored(relayed, subject, FILE)


def test_a_file_in_its_creation_and_a_store_that_refuses_the_credentials(relayed, store):
    store.fault(".*", faults.Refuse(403, "InvalidAccessKeyId"), times=ALWAYS)
    try:
        url, offset = tus_creation(relayed, "dora", FILE)
        assert offset == 0
        fields = TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}
        assert_try_again(relayed.call("PATCH", url, headers=fields, data=FILE.data))
        assert relayed.call("HEAD", url, headers=TUS).headers["Upload-Offset"] == "0"
    finally:
        store.clear()
    assert relayed.call("PATCH", url, headers=fields, data=FILE.data).status_code == 204


def test_what_is_read_and_deleted_waits_for_the_store(relayed, store):
    admin, api = relayed.admin, relayed.api
    media = api.uploaded(FILE.data)
    admin.put_object(Bucket=BUCKET, Key="read", Body=FILE.data)
    fault = faults.Refuse(403, "InvalidAccessKeyId")
    store.fault(".*", fault, times=ALWAYS)
    try:
        assert_try_again(api.get(f"/media/{media}"))
        until(lambda: api.get("/readyz").status_code == 503)
        assert api.get("/healthz").status_code == 200
        busy = (503, "ServiceUnavailable")
        assert object_client.code(admin.get_object, Bucket=BUCKET, Key="read") == busy
        assert object_client.code(admin.copy_object, Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/read") == busy
        # Their records end at once; the bytes are removed when the store is back.
        assert api.delete(f"/v1/uploads/{media}").status_code == 204
        assert object_client.code(admin.delete_object, Bucket=BUCKET, Key="read") is None
    finally:
        store.clear()
    until(lambda: api.get("/readyz").status_code == 200)
    assert api.get(f"/media/{media}").status_code == 410
    assert object_client.code(admin.get_object, Bucket=BUCKET, Key="read") == (404, "NoSuchKey")


@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in PULLS])
def test_a_pull_waits_for_a_store_that_refuses_the_credentials(relayed, store, way):
    subject = f"u{relayed.next()}"
    held = way.mint(relayed, subject, FILE)
    store.fault(".*", faults.Refuse(403, "InvalidAccessKeyId"), times=ALWAYS)
    timer = threading.Timer(4, store.clear)
    timer.start()
    try:
        way.send(relayed, held, FILE)
    finally:
        timer.join()
    assert_stored(relayed, subject, FILE)


@pytest.fixture(scope="module")
def with_database(rgw, store, postgres, tmp_path_factory):
    """A gateway with its state in PostgreSQL, before the same store."""
    origin = Origin()
    settings = SETTINGS | RELAY | rgw.settings(store.url, STORE_OF_DATABASE) | {"SLUICE_S3_RETRY_TIME": "1s"}
    settings |= {"SLUICE_DATABASE_URL": postgres.make_database(), "SLUICE_MASTER_SECRET": new_secret()}
    with ObjectServer(tmp_path_factory.mktemp("both") / "data", free_port(), settings) as server:
        yield World(server, origin)
    origin.close()
    rgw.wipe(STORE_OF_DATABASE)


@pytest.mark.rows
@pytest.mark.parametrize("drops", [False, True], ids=["open connections", "new connections"])
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in SENT])
def test_few_descriptors(with_database, store, postgres, way, drops):
    """What needs connections to the store or the database, and has none, is refused for a while."""
    world = with_database
    pid = world.server.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with Wire(world.server.address) as health:
        for left in range(-1, 4):
            subject = f"u{world.next()}"
            held = way.mint(world, subject, FILE)
            for url in (world.server.url, world.server.object_url):
                world.session.get(url + "/healthz")
            if drops:
                store.down()
                store.up()
                postgres.terminate_connections()
            most = max(map(int, os.listdir(f"/proc/{pid}/fd")))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most + 1 + left, before[1]))
            answer = None
            try:
                way.send(world, held, FILE)
            except Refused as refusal:
                answer = refusal.answer
            # A connection that was closed cannot be replaced then.
            except requests.ConnectionError:
                pass
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            if answer is not None:
                assert_try_again(answer)
            # What could not be opened, by whatever request, is tried again after a moment.
            for path in ("/readyz", "/v1/uploads?limit=1"):
                until(lambda path=path: world.api.get(path).status_code == 200)
            if answer is not None:
                assert files_of(world, subject) == []
            assert health.exchange("GET", "/healthz").status == 200
    subject = f"u{world.next()}"
    way.send(world, way.mint(world, subject, FILE), FILE)
    assert_stored(world, subject, FILE)


def test_a_busy_gateway_without_a_descriptor_goes_on(rgw, postgres, quick, tmp_path):
    """libdispatch ends a process that cannot open a file while work waits for a thread; it looks each second."""
    settings = RELAY | rgw.settings(rgw.url, BUSY) | {"SLUICE_S3_RETRY_TIME": "1s"}
    settings |= {"SLUICE_DATABASE_URL": postgres.make_database(), "SLUICE_MASTER_SECRET": new_secret()}
    server = Server(tmp_path / "data", environment=settings).start()
    pid = server.pid
    key = ("Authorization", f"Bearer {server.admin_key}")
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    over = threading.Event()

    def send(wire):
        with contextlib.suppress(Closed, ConnectionError):
            while not over.is_set():
                reply = wire.exchange("PUT", "/v1/media/a", [key, ("Content-Length", 5)], b"hello")
                assert reply.status in (201, 503), reply
                if reply["connection"] == "close":
                    return

    with contextlib.ExitStack() as stack:
        stack.callback(rgw.wipe, BUSY)
        stack.callback(server.kill)
        wires = [stack.enter_context(Wire(server.address)) for _ in range(48)]
        for wire in wires:
            assert wire.exchange("GET", "/healthz").status == 200
        health = wires.pop()
        with ThreadPoolExecutor(len(wires)) as pool:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
            try:
                sent = [pool.submit(send, wire) for wire in wires]
                over.wait(3 if quick else 8)
                assert health.exchange("GET", "/healthz").status == 200
            finally:
                over.set()
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            for one in sent:
                one.result()
        assert server.process.poll() is None
        until(lambda: API(server.url).get("/readyz").status_code == 200)

        # Threads that began meanwhile take their work at once.
        def upload(_):
            with Wire(server.address) as wire:
                return wire.exchange("PUT", "/v1/media/a", [key, ("Content-Length", 5)], b"hello").status

        with ThreadPoolExecutor(8) as pool:
            # Connections to the database are tried again after a while.
            until(lambda: list(pool.map(upload, range(40))) == [201] * 40)
        # It ends as ever.
        server.stop()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    with small(tmp_path_factory.mktemp("disk") / "disk", "tmpfs", 64 * MIB) as folder:
        yield folder


@pytest.fixture(scope="module")
def on_disk(disk, tmp_path_factory):
    origin = Origin()
    log = tmp_path_factory.mktemp("log") / "server.log"
    settings = SETTINGS
    with ObjectServer(disk / "data", free_port(), settings, log=log) as server:
        yield World(server, origin)
        (disk / "ballast").unlink(missing_ok=True)
    origin.close()


@pytest.mark.rows
@pytest.mark.parametrize("left", [0, 256 * KIB])
@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in SENT])
def test_a_full_disk(on_disk, disk, way, left):
    subject = f"u{on_disk.next()}"
    held = way.mint(on_disk, subject, LARGE)
    ballast = disk / "ballast"
    take_all(ballast)
    if left:
        os.truncate(ballast, ballast.stat().st_size - left)
    try:
        if way.name == "tus with the creation" and left:
            assert tus_creation(on_disk, subject, LARGE)[1] < len(LARGE.data)
        else:
            answer = refused(way, on_disk, held, LARGE)
            if ways.is_ugc_busy(answer):
                assert_try_again(answer)
            else:
                assert answer.status_code == 507, answer.text
        assert files_of(on_disk, subject) == []
    finally:
        ballast.unlink()

    def is_stored():
        try:
            way.send(on_disk, way.mint(on_disk, subject, LARGE), LARGE)
        except Refused as refusal:
            # The reserve is filled up again first.
            assert refusal.answer.status_code in (503, 507), refusal
            return False
        return True

    until(is_stored)
    assert_stored(on_disk, subject, LARGE)
    for one in on_disk.uploads(subject, "open") + on_disk.uploads(subject):
        assert on_disk.api.delete(f"/v1/uploads/{one['id']}").status_code < 300
