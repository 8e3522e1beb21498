"""kill -9 of a gateway while clients of each video dialect begin, send, finish, replace, add and delete.

Nothing that was acknowledged is lost, each creation makes at most one media, and each event that apps are told has
happened, in order. harness/vod_dialects.py has the steps. More by hand: SLUICE_VOD_KILLS=100; a run can be repeated
with SLUICE_VOD_SEED.
"""

import contextlib
import itertools
import os
import random
import threading
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from urllib3.exceptions import NewConnectionError

from harness.api import API
from harness.clock import shifted
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.vod_dialects import LOST, PIECE, Aliyun, Refused, Tencent, Vimeo, is_temporary
from harness.wire import until

CLIENTS = 2
DAY = 86_400
PULLED = content(100 * KIB, 1)


class Slow:
    """A request body that is sent in pieces with pauses, so that a kill can come between them."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for begin in range(0, len(self.data), 32 * KIB):
            yield self.data[begin : begin + 32 * KIB]
            time.sleep(0.002)


class Client(threading.Thread):
    """Uploads one file after the other until it is asked to stop; remembers what it was told."""

    sizes = (1, MIB, 2 * MIB + 5)
    # Each of them is killed as often as the others.
    moments = ("begin", "bytes", "finish", "delete")

    def __init__(self, dialect, place, pair, seed, number):
        super().__init__(daemon=True)
        self.dialect, self.number = dialect, number
        self.generator = random.Random(seed + number)
        self.pair = pair
        self.steps = dialect.client(place, pair)
        self.stopping = threading.Event()
        self.failure = None
        self.activity = "idle"
        # Requests so far.
        self.requests = 0
        # Names are unique in the gateway's life.
        self.names = (f"kill-{seed}-{number}-{count}" for count in itertools.count())
        # Names of creations whose answer was lost: each has made one media or none.
        self.uncertain = set()
        # What each media is, by its id; the same of what was deleted.
        self.kept = {}
        self.deleted = {}

    def run(self):
        try:
            while not self.stopping.is_set():
                self.upload()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error
        self.activity = "idle"

    def tried(self, activity, work):
        """The result of one request in a tuple; `None` if its answer was lost or asks to try again."""
        self.activity = activity
        self.requests += 1
        try:
            return (work(),)
        except Exception as error:
            if not isinstance(error, LOST) and not is_temporary(error):
                raise
            self.lost = error
            return None

    def persist(self, activity, work):
        """Repeats a request until it is answered."""
        return until(lambda: self.tried(activity, work), timeout=120)[0]

    def data(self):
        return content(self.generator.choice(self.sizes), self.generator.randrange(1 << 30))

    def begin(self, size):
        """An upload and its name. Where the gateway cannot know a repetition, each try has a name of its own."""
        while True:
            name = next(self.names)
            if self.dialect.has_references:
                return self.persist("begin", partial(self.steps.begin, size, name)), name
            if found := self.tried("begin", partial(self.steps.begin, size, name)):
                return found[0], name
            # A refused connection has sent nothing.
            if not isinstance(getattr(self.lost.args[0], "reason", None), NewConnectionError):
                self.uncertain.add(name)
            time.sleep(0.01)

    def piece(self, data, offset):
        """The offset and the bytes of the next request, where this much is there."""
        return offset, data[offset : offset + PIECE]

    def send(self, upload, data):
        """What was acknowledged is there, and nothing that was not sent."""
        at_least = at_most = 0
        while True:
            offset = self.persist("bytes", lambda: self.steps.known(upload))
            assert at_least <= offset <= at_most, f"{offset} of at least {at_least} and at most {at_most}"
            if offset == len(data):
                return
            start, piece = self.piece(data, offset)
            at_least, at_most = start, start + len(piece)
            if self.tried("bytes", partial(self.steps.send, upload, start, piece)):
                at_least = at_most
            if self.generator.random() < 0.3:
                self.persist("begin", lambda: self.steps.resume(upload))

    def upload(self):
        data = self.data()
        upload, name = self.begin(len(data))
        if upload is None:
            # The gateway died before it had made the media, and keeps the reference for a while.
            return
        self.send(upload, data)
        self.persist("finish", lambda: self.steps.complete(upload))
        # Twice, as if an answer was lost.
        found = {self.persist("finish", lambda: self.steps.commit(upload)) for _ in range(2)}
        assert len(found) == 1, found
        media = found.pop()
        kept = SimpleNamespace(name=name, upload=upload, data=data, told=[("uploaded", len(data))])
        self.change(media, kept)
        self.assert_kept(media, kept)
        if self.generator.random() < 0.5:
            self.persist("delete", lambda: self.steps.delete(media))
            kept.told.append(("deleted", None))
            self.deleted[media] = kept
            self.assert_deleted(media, kept)
        else:
            self.kept[media] = kept

    def change(self, media, kept):
        """What becomes of some media before it is kept or deleted."""

    # What must be true

    def assert_kept(self, media, kept):
        assert self.persist("look", lambda: self.steps.look(media)) == len(kept.data), media
        assert self.persist("look", lambda: self.steps.read(media)) == kept.data, media

    def assert_deleted(self, media, kept):
        assert self.persist("look", lambda: self.steps.look(media)) is None

    def check(self):
        """After all kills: each media that was answered is there once, each other creation made one at most."""
        for media, kept in self.kept.items():
            self.assert_kept(media, kept)
        for media, kept in self.deleted.items():
            self.assert_deleted(media, kept)
        own = f"-{self.number}-"
        counts = Counter(name for name in self.steps.listed().values() if own in name)
        assert all(count == 1 for count in counts.values()), counts
        answered = {kept.name for kept in self.kept.values()}
        assert answered <= counts.keys() <= answered | self.uncertain, (answered, self.uncertain, counts)
        for media, kept in (self.kept | self.deleted).items():
            wanted = [one for one in kept.told if one[0] in self.dialect.tells]
            if media in self.deleted and self.dialect.forgets_deleted:
                assert self.told(media) in ([], wanted), media
                continue
            # The claims of killed processes may have to end.
            until(lambda m=media, w=wanted: len(self.told(m)) >= len(w), timeout=180, interval=0.05)
            assert self.told(media) == wanted, media

    def told(self, media):
        """An event whose answer was lost is repeated."""
        return [one for one, _ in itertools.groupby(self.dialect.told(media))]


class Replacing(Client):
    """Some media gets other bytes of another size."""

    moments = (*Client.moments, "replace")

    def change(self, media, kept):
        if self.generator.random() < 0.4:
            data = content(len(kept.data) + self.generator.randint(1, 50 * KIB), self.generator.randrange(1 << 30))
            self.persist("replace", lambda: self.steps.replace(kept.upload, data))
            kept.data = data
            kept.told.append(("uploaded", len(data)))


class VimeoClient(Replacing):
    """By each of its approaches, in requests of random size, or all again from the start, as iOS does (§8.4)."""

    sizes = (1, 64 * KIB, 300 * KIB + 5)
    moments = (*Replacing.moments, "picture", "text track")

    def begin(self, size):
        self.steps.approach = self.generator.choice(["tus", "streaming", "ticket"])
        return super().begin(size)

    def piece(self, data, offset):
        if self.steps.approach == "tus":
            return offset, Slow(data[offset : offset + self.generator.randint(1, 200 * KIB)])
        start = 0 if self.generator.random() < 0.3 else offset
        return start, Slow(data[start:])

    def change(self, media, kept):
        super().change(media, kept)
        kept.attachments = {}
        for kind in ("picture", "text track"):
            if self.generator.random() < 0.5:
                self.attach(kind, media, kept)
        kept.description = None
        if self.generator.random() < 0.3:
            kept.description = str(self.generator.random())
            body = {"description": kept.description}
            self.persist("edit", lambda: self.steps.ask(200, method="PATCH", path=media, json=body))

    def attach(self, kind, media, kept):
        ask, data = self.steps.ask, self.data()
        made = self.persist(kind, lambda: self.steps.attach(kind, media))
        link = {"client": self.steps.link, "method": "PUT", "path": self.steps.at(made["link"])}
        # The second one repeats the first.
        for _ in range(self.generator.randint(1, 2)):
            self.persist(kind, lambda: ask(200, data=Slow(data), **link))
        kept.attachments[made["uri"]] = data
        self.persist(kind, lambda: ask(200, method="PATCH", path=made["uri"], json={"active": "true"}))

    def assert_kept(self, media, kept):
        super().assert_kept(media, kept)
        ask = self.steps.ask
        video = self.persist("look", lambda: ask(200, method="GET", path=media)).json()
        assert (video["name"], video["description"]) == (kept.name, kept.description)
        for attachment, data in kept.attachments.items():
            found = self.persist("look", lambda one=attachment: ask(200, method="GET", path=one)).json()
            assert found["active"] is True
            link = found["sizes"][0]["link"] if "sizes" in found else found["hls_link"]
            assert self.persist("look", lambda at=link: ask(200, method="GET", path=at)).content == data, attachment

    def assert_deleted(self, media, kept):
        super().assert_deleted(media, kept)
        for one in kept.attachments:
            self.persist("look", lambda at=one: self.steps.ask(404, method="GET", path=at))
        with pytest.raises(Refused) as caught:
            self.persist("look", lambda: self.steps.known(kept.upload))
        assert caught.value.status == 404


# The dialect, and what its clients do.
KILLED = {"tencent": (Tencent, Client), "aliyun": (Aliyun, Replacing), "vimeo": (lambda: Vimeo("tus"), VimeoClient)}


@pytest.fixture(params=KILLED)
def dialect(request):
    with KILLED[request.param][0]() as made:
        made.clients = KILLED[request.param][1]
        yield made


@pytest.fixture(params=["file", "postgres"])
def server(request, dialect, tmp_path, monkeypatch):
    """A gateway whose ports stay, also while it is dead."""
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    settings = dialect.settings | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}"}
    if request.param == "postgres":
        settings |= request.getfixturevalue("postgres").environment(tmp_path)
    server = ObjectServer(tmp_path / "data", free_port(), settings)
    with server:
        yield server


@pytest.fixture
def make_client(dialect, server, seed):
    pair = dialect.pair(server)
    place = SimpleNamespace(url=server.url, object_url=server.object_url, admin_key=server.admin_key, pair=server.pair)
    return lambda number=0: dialect.clients(dialect, place, pair, seed, number)


@pytest.fixture
def kills(quick):
    return int(os.environ.get("SLUICE_VOD_KILLS", 6 if quick else 20))


@pytest.fixture
def seed():
    value = int(os.environ.get("SLUICE_VOD_SEED", random.randrange(2**32)))
    print(f"again with SLUICE_VOD_SEED={value}")
    return value


@pytest.mark.rows
def test_nothing_acknowledged_is_lost_and_each_creation_makes_one_media(
    server, dialect, make_client, kills, seed, report
):
    generator = random.Random(seed)
    clients = [make_client(number) for number in range(CLIENTS)]
    moments = Counter()
    try:
        for client in clients:
            client.start()
        for number in range(kills):
            reach(dialect.clients.moments[number % len(dialect.clients.moments)], clients, seed)
            time.sleep(generator.choice([0, generator.uniform(0, 0.005), generator.uniform(0, 0.03)]))
            moments.update(client.activity for client in clients)
            server.kill()
            server.start()
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(120)
            assert not client.is_alive() and client.failure is None, (seed, client.failure)
    finally:
        for client in clients:
            client.stopping.set()
    kept, deleted = (sum(len(getattr(client, name)) for client in clients) for name in ("kept", "deleted"))
    assert kept + deleted >= CLIENTS
    server.kill()
    server.start()
    for client in clients:
        client.check()
    least = sum(len(kept.data) for client in clients for kept in client.kept.values())
    assert used(server, dialect) >= least, seed
    if "SLUICE_DATABASE_URL" not in server.environment:
        assert_nothing_stays(server, dialect, clients[0], seed)
    name = type(dialect).__name__
    report(f"kill -9, {name}, seed {seed}: {kills} kills, {dict(moments)}, {kept} media kept, {deleted} deleted")


def reach(moment, clients, seed):
    """Waits until a client has begun a request of this kind."""
    before = [client.requests for client in clients]

    def reached():
        failures = [client.failure for client in clients if client.failure]
        assert not failures, (seed, failures)
        return any(
            client.activity == moment and client.requests > count for client, count in zip(clients, before, strict=True)
        )

    until(reached, timeout=120, interval=0.0005)


# Requests that are never repeated


def prepared(kind, client, source):
    """A request that makes, replaces, pulls or deletes media of 1000 bytes."""
    steps = client.steps
    if kind == "pull":
        return lambda: steps.pull(source)
    upload = steps.begin(1000, next(client.names))
    steps.send(upload, 0, b"x" * 1000)
    if kind == "completion":
        return lambda: steps.finish(upload)
    media = steps.finish(upload)
    if kind == "replacement":
        return lambda: steps.replace(upload, b"y" * 2000)
    client.change(media, SimpleNamespace(upload=upload, data=b"x" * 1000, told=[]))
    return lambda: steps.delete(media)


@pytest.mark.rows
@pytest.mark.parametrize("server", ["file"], indirect=True)
@pytest.mark.parametrize("kind", ["completion", "replacement", "pull", "deletion"])
def test_what_is_interrupted_and_never_repeated_does_not_stay(server, dialect, make_client, kills, seed, kind):
    """Users see an error and begin again; what was begun must not fill their quota for ever."""
    if kind == "replacement" and not dialect.replaces:
        pytest.skip("media of this dialect is not replaced")
    generator, client = random.Random(seed), make_client()
    if hasattr(client.steps, "approach"):
        client.steps.approach = "ticket" if kind == "completion" else "tus"
    with Origin() as origin:
        origin.add("/clip.mp4", PULLED, content_type="video/mp4")
        source, seconds = origin.url + "/clip.mp4", 0
        for _ in range(3):
            request = prepared(kind, client, source)
            begin = time.monotonic()
            request()
            # The last one is as fast as those that follow.
            seconds = time.monotonic() - begin
        for _ in range(kills):
            interrupt(server, prepared(kind, client, source), generator.uniform(0, 1.2 * seconds))
        assert_nothing_stays(server, dialect, client, seed)


@pytest.mark.rows
def test_replaced_bytes_do_not_come_back(server, dialect, make_client, kills, seed):
    """What is left of media whose deletion was interrupted is all of it or nothing."""
    if not dialect.replaces:
        pytest.skip("media of this dialect is not replaced")
    generator, client = random.Random(seed), make_client()
    for _ in range(kills):
        upload = client.steps.begin(9, next(client.names))
        client.steps.send(upload, 0, b"x" * 9)
        media = client.steps.finish(upload)
        client.steps.replace(upload, b"y" * 10)
        interrupt(server, lambda one=media: client.steps.delete(one), generator.uniform(0, 0.02))
        found = client.persist("look", lambda one=media: client.steps.look(one))
        assert found in (None, 10), (seed, found)
        assert found is None or client.steps.read(media) == b"y" * 10


def interrupt(server, request, seconds):
    """Kills the gateway after some time of a request, and starts it again."""

    def send():
        with contextlib.suppress(*LOST):
            request()

    thread = threading.Thread(target=send)
    thread.start()
    time.sleep(seconds)
    server.kill()
    thread.join()
    server.start()


def used(server, dialect):
    """Bytes that count for the user of the clients, or for all if the dialect's media is of no user."""
    return sum(
        one.get("length") or one["offset"] for one in uploads(server) if one["state"] not in ("terminated", "expired")
    )


def uploads(server):
    api, found, query = API(server.url, server.admin_key), [], {"limit": 200}
    while True:
        page = api.get("/v1/uploads", params=query).json()
        found += page["uploads"]
        if not (cursor := page.get("nextCursor")):
            return found
        query["cursor"] = cursor


def blobs(server):
    """Files with bytes of uploads, also those that were set aside."""
    return [path for path in server.data.glob("*/**/*") if path.is_file()]


def delete_all(client):
    for media in client.steps.listed():
        client.steps.delete(media)
        assert client.steps.look(media) is None


def assert_nothing_stays(server, dialect, client, seed):
    """When all media is deleted and the rest has had time to expire, the disk is empty.

    Only with SQLite: with PostgreSQL its clock counts, which cannot be shifted.
    """
    delete_all(client)
    server.kill()
    server.environment |= shifted(8 * DAY) | {"SLUICE_UPLOADS_SWEEP_EVERY": "1s", "SLUICE_UPLOADS_QUARANTINE": "0"}
    server.start()
    # Signatures of before have ended.
    dialect.ahead = 8 * DAY
    client.steps = dialect.client(client.steps.place, client.pair)

    def is_empty():
        # What was interrupted may have become media.
        delete_all(client)
        return not used(server, dialect) and not blobs(server)

    try:
        until(is_empty, timeout=30, interval=0.2)
    except AssertionError:
        raise AssertionError(f"seed {seed}: {uploads(server)}, {blobs(server)}") from None
