"""kill -9 of a gateway while clients of Vimeo's API create, send, complete, add, replace and delete.

Nothing that was acknowledged is lost, and each creation makes at most one video.
"""

import contextlib
import itertools
import os
import random
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
import requests
from urllib3.exceptions import NewConnectionError

from harness.api import API, TUS
from harness.clock import shifted
from harness.daemon import free_port
from harness.data import KIB, content
from harness.origin import Origin
from harness.vimeo import Plain, token
from harness.wire import until

# In each of them as often as in the others.
MOMENTS = ("create", "bytes", "complete", "picture", "text track", "version", "delete")
LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
CLIENTS = 3
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
    """Uploads one video after the other until it is asked to stop; remembers what it was told."""

    def __init__(self, place, seed, number):
        super().__init__(daemon=True)
        self.number = number
        self.generator = random.Random(seed + number)
        self.subject = f"killed-{number}"
        self.api = Plain(place, token(place, self.subject))
        # Links need no token (§1, 11).
        self.link = Plain(place)
        self.stopping = threading.Event()
        self.failure = None
        self.activity = "idle"
        # Requests so far.
        self.requests = 0
        self.numbers = itertools.count()
        # Names of creations whose answer was lost: each has made one video or none.
        self.uncertain = set()
        # By uri: name, link of the bytes, content, description, contents of pictures and text tracks by their uris.
        self.kept = {}
        # The same of what was deleted.
        self.deleted = {}

    def run(self):
        try:
            while not self.stopping.is_set():
                self.upload()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error
        self.activity = "idle"

    def persist(self, activity, work, *wanted, after_loss=()):
        """Repeats a request whose answer was lost; then further statuses are right."""
        deadline = time.monotonic() + 120
        was_lost = False
        while True:
            self.activity = activity
            self.requests += 1
            try:
                answer = work()
            except LOST as error:
                assert time.monotonic() < deadline, error
                was_lost = True
                time.sleep(0.01)
                continue
            allowed = (*wanted, *after_loss) if was_lost else wanted
            assert answer.status_code in allowed, (activity, answer.status_code, answer.text)
            return answer

    def look(self, path, status=200):
        return self.persist("look", lambda: self.api("GET", path), status)

    def bytes_of(self, link):
        return self.persist("look", lambda: self.link("GET", link), 200).content

    def data(self):
        return content(self.generator.choice([1, 64 * KIB, 300 * KIB + 5]), self.generator.randrange(1 << 30))

    def create(self, body, status, **options):
        """Sends creations with different names until one is answered, as a user does: its name, and the answer."""
        sent = []

        def send():
            name = f"{self.number}-{next(self.numbers)}"
            try:
                answer = self.api("POST", "/me/videos", json={"name": name} | body, **options)
            except LOST as error:
                # A refused connection has sent nothing.
                if not isinstance(getattr(error.args[0], "reason", None), NewConnectionError):
                    self.uncertain.add(name)
                raise
            sent.append(name)
            return answer

        answer = self.persist("create", send, status)
        return sent[-1], answer.json()

    # Bytes

    def by_tus(self, link, data):
        """In requests of random size; each begins where HEAD says."""
        at_least, at_most = 0, 0
        while True:
            answer = self.persist("bytes", lambda: self.link("HEAD", link, headers=TUS), 200)
            offset = int(answer.headers["Upload-Offset"])
            assert at_least <= offset <= at_most, f"{offset} of at least {at_least} and at most {at_most} at {link}"
            if offset == len(data):
                return
            piece = Slow(data[offset : offset + self.generator.randint(1, 200 * KIB)])
            fields = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            at_least, at_most = offset, offset + len(piece)
            self.activity = "bytes"
            self.requests += 1
            try:
                answer = self.link("PATCH", link, data=piece, headers=fields)
            except LOST:
                continue
            assert answer.status_code == 204, answer.text
            assert int(answer.headers["Upload-Offset"]) == at_most
            at_least = at_most

    def by_put(self, link, data):
        """The whole, then the rest after what a probe says (§5.3), or now and then all again, as iOS does (§8.4)."""
        start, size = 0, len(data)
        while True:
            fields = {"Content-Range": f"bytes {start}-{size}/{size}"}
            self.activity = "bytes"
            self.requests += 1
            acknowledged = start
            try:
                answer = self.link("PUT", link, data=Slow(data[start:]), headers=fields)
                assert answer.status_code == 200, answer.text
                acknowledged = size
            except LOST:
                pass
            stored = self.probe(link)
            assert acknowledged <= stored <= size, f"{stored} instead of {acknowledged} at {link}"
            if stored == size:
                return
            start = 0 if self.generator.random() < 0.3 else stored

    def probe(self, link):
        answer = self.persist("bytes", lambda: self.link("PUT", link, headers={"Content-Range": "bytes */*"}), 308)
        return int(answer.headers["Range"].removeprefix("bytes=0-"))

    def complete(self, ticket):
        """Twice, as if an answer was lost (§5.5)."""
        uris = {
            self.persist("complete", lambda: self.api("DELETE", ticket["complete_uri"]), 201).headers["Location"]
            for _ in range(2)
        }
        assert len(uris) == 1, uris
        return uris.pop()

    # Videos

    def upload(self):
        data = self.data()
        approach = self.generator.choice(["tus", "streaming", "ticket"])
        if approach == "ticket":
            name, ticket = self.create({"type": "streaming"}, 201, headers={"Accept": "*/*"})
            link = ticket["upload_link"]
            assert self.probe(link) == 0
            self.by_put(link, data)
            uri = self.complete(ticket)
        else:
            upload = {"approach": approach, "size": len(data)}
            name, video = self.create({"upload": upload}, 200 if approach == "tus" else 201)
            uri, link = video["uri"], video["upload"]["upload_link"]
            # It was answered, so it exists.
            assert self.look(uri).json()["status"] == "uploading"
            (self.by_tus if approach == "tus" else self.by_put)(link, data)
        kept = SimpleNamespace(name=name, link=link, data=data, description=None, attachments={})
        self.assert_kept(uri, kept)
        if self.generator.random() < 0.5:
            kept.data = self.replace(uri)
        for kind in ("picture", "text track"):
            if self.generator.random() < 0.5:
                self.attach(kind, uri, kept)
        if self.generator.random() < 0.3:
            kept.description = str(self.generator.random())
            body = {"description": kept.description}
            self.persist("edit", lambda: self.api("PATCH", uri, json=body), 200)
        self.assert_kept(uri, kept)
        if self.generator.random() < 0.6:
            self.delete(uri, kept)
        else:
            self.kept[uri] = kept

    def replace(self, uri):
        """Another file of another size, by tus or by a ticket."""
        data = self.data() + b"other"
        if self.generator.random() < 0.5:
            body = {"file_name": "other.mp4", "upload": {"approach": "tus", "size": len(data)}}
            made = self.persist("version", lambda: self.api("POST", uri + "/versions", json=body), 201).json()
            self.by_tus(made["upload"]["upload_link"], data)
        else:
            ticket = self.persist("version", lambda: self.ticket_for(uri), 201).json()
            self.by_put(ticket["upload_link"], data)
            assert self.complete(ticket) == uri
        return data

    def ticket_for(self, uri):
        return self.api("PUT", uri + "/files", json={"type": "streaming"}, headers={"Accept": "*/*"})

    def attach(self, kind, uri, kept):
        collection = "pictures" if kind == "picture" else "texttracks"
        body = {} if kind == "picture" else {"type": "captions", "language": "en"}
        made = self.persist(kind, lambda: self.api("POST", f"{uri}/{collection}", json=body), 201).json()
        data = self.data()
        # The second one repeats the first.
        for _ in range(self.generator.randint(1, 2)):
            self.persist(kind, lambda: self.link("PUT", made["link"], data=Slow(data)), 200)
        kept.attachments[made["uri"]] = data
        self.persist(kind, lambda: self.api("PATCH", made["uri"], json={"active": "true"}), 200)

    def delete(self, uri, kept):
        # If its answer was lost, it may have been done.
        self.persist("delete", lambda: self.api("DELETE", uri), 204, after_loss=(404,))
        self.deleted[uri] = kept
        self.assert_deleted(uri, kept)

    # What must be true

    def assert_kept(self, uri, kept):
        video = self.look(uri).json()
        assert (video["name"], video["status"]) == (kept.name, "available"), video
        assert video["description"] == kept.description
        assert self.bytes_of(video["files"][0]["link"]) == kept.data, uri
        for attachment, data in kept.attachments.items():
            found = self.look(attachment).json()
            assert found["active"] is True
            link = found["sizes"][0]["link"] if "sizes" in found else found["hls_link"]
            assert self.bytes_of(link) == data, attachment

    def assert_deleted(self, uri, kept):
        for one in (uri, *kept.attachments):
            self.look(one, 404)
        is_tus = "/files/" in kept.link
        method, fields = ("HEAD", TUS) if is_tus else ("PUT", {"Content-Range": "bytes */*"})
        self.persist("look", lambda: self.link(method, kept.link, headers=fields), 404)

    def listed(self):
        """Name and uri of each video of the list; pages are asked for one after the other."""
        found, path = [], "/me/videos?per_page=100"
        while path:
            page = self.look(path).json()
            found += [(video["name"], video["uri"]) for video in page["data"]]
            path = page["paging"]["next"]
        return found

    def check(self):
        """After all kills: each video that was answered is there once, each other creation made one at most."""
        for uri, kept in self.kept.items():
            self.assert_kept(uri, kept)
        for uri, kept in self.deleted.items():
            self.assert_deleted(uri, kept)
        counts = Counter(name for name, _ in self.listed())
        assert all(count == 1 for count in counts.values()), counts
        answered = {kept.name for kept in self.kept.values()}
        assert answered <= counts.keys() <= answered | self.uncertain, (answered, self.uncertain, counts)

    def delete_all(self):
        for _, uri in self.listed():
            self.persist("delete", lambda one=uri: self.api("DELETE", one), 204)
            self.look(uri, 404)

    def used(self):
        return self.look("/me").json()["upload_quota"]["lifetime"]["used"]


@pytest.fixture
def server(on_file):
    settings = {
        # Its port stays, also while it is dead.
        "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
        "SLUICE_PULL_ALLOW": "127.0.0.1",
        "SLUICE_PULL_ALLOW_USERS": "true",
        "SLUICE_VIMEO_CALLS_PER_MINUTE": "1000000",
    }
    return on_file(environment=settings).start()


@pytest.fixture
def source():
    """Where a file can be pulled from."""
    with Origin() as origin:
        origin.add("/clip.mp4", PULLED, content_type="video/mp4")
        yield origin.url + "/clip.mp4"


@pytest.fixture
def kills(quick):
    """More of them by hand, with SLUICE_VIMEO_KILLS=100."""
    return int(os.environ.get("SLUICE_VIMEO_KILLS", 7 if quick else 21))


@pytest.fixture
def seed():
    """By which a run can be repeated."""
    value = int(os.environ.get("SLUICE_VIMEO_SEED", random.randrange(2**32)))
    print(f"again with SLUICE_VIMEO_SEED={value}")
    return value


def test_nothing_acknowledged_is_lost_and_each_creation_makes_one_video(server, kills, seed, report):
    generator = random.Random(seed)
    place = SimpleNamespace(url=server.url, admin_key=server.admin_key)
    clients = [Client(place, seed, number) for number in range(CLIENTS)]
    moments = Counter()
    try:
        for client in clients:
            client.start()
        for number in range(kills):
            reach(MOMENTS[number % len(MOMENTS)], clients, seed)
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
        assert client.used() >= sum(len(kept.data) for kept in client.kept.values()), seed
    assert_nothing_stays(server, clients, seed)
    report(
        f"kill -9 while Vimeo clients upload, seed {seed}: {kills} kills, {dict(moments)}, {kept} videos kept, "
        f"{deleted} deleted"
    )


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


def completion(client, source):
    ticket = client.api.ticket()
    client.by_put(ticket["upload_link"], b"x" * 1000)
    return lambda: client.api("DELETE", ticket["complete_uri"])


def replacement(client, source):
    ticket = client.ticket_for(client.api.create(0)["uri"]).json()
    client.by_put(ticket["upload_link"], b"x" * 1000)
    return lambda: client.api("DELETE", ticket["complete_uri"])


def pull(client, source):
    return lambda: client.api("POST", "/me/videos", json={"upload": {"approach": "pull", "link": source}})


def deletion(client, source):
    uri = replaced(client)
    client.attach("picture", uri, SimpleNamespace(attachments={}))
    return lambda: client.api("DELETE", uri)


def replaced(client):
    """A video with an older and a newer file."""
    uri = client.api.create(0)["uri"]
    made = client.api("POST", uri + "/versions", json={"file_name": "x", "upload": {"approach": "tus", "size": 9}})
    client.by_tus(made.json()["upload"]["upload_link"], b"x" * 9)
    return uri


@pytest.mark.parametrize("prepare", [completion, replacement, pull, deletion])
def test_what_is_interrupted_and_never_repeated_does_not_stay(server, source, kills, seed, prepare):
    """Users of PyVimeo see an exception and begin again; what was begun must not fill their quota for ever."""
    generator = random.Random(seed)
    client = Client(server, seed, 0)
    seconds = 0
    for _ in range(3):
        request = prepare(client, source)
        begin = time.monotonic()
        assert request().status_code in (201, 204)
        # The last one is as fast as those that follow.
        seconds = time.monotonic() - begin
    for _ in range(kills):
        interrupt(server, prepare(client, source), generator.uniform(0, 1.2 * seconds))
    assert_nothing_stays(server, [client], seed)


def test_an_older_file_does_not_come_back(server, kills, seed):
    """What is left of a video whose deletion was interrupted is all of it or nothing."""
    generator = random.Random(seed)
    client = Client(server, seed, 0)
    for _ in range(kills):
        uri = replaced(client)
        interrupt(server, lambda one=uri: client.api("DELETE", one), generator.uniform(0, 0.02))
        found = client.api("GET", uri + "/versions")
        sizes = [one["filesize"] for one in found.json()["data"]] if found.status_code == 200 else None
        assert sizes in (None, [9, 0]), (seed, sizes)


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


def assert_nothing_stays(server, clients, seed):
    """When all videos are deleted and the rest has had time to expire, quotas are free and the disk is empty."""
    for client in clients:
        client.delete_all()
        # What killed processes had begun without an answer, and tickets that nobody completed.
        used, left = client.used(), uploads(server, client)
        assert used <= sum(one.get("length", one["offset"]) for one in left), (seed, left)
    server.kill()
    server.environment |= shifted(8 * DAY) | {"SLUICE_UPLOADS_SWEEP_EVERY": "1s", "SLUICE_UPLOADS_QUARANTINE": "0"}
    server.start()

    def is_empty():
        for client in clients:
            # What was interrupted may have become a video.
            client.delete_all()
        return not any(client.used() for client in clients) and not blobs(server)

    try:
        until(is_empty, timeout=30, interval=0.2)
    except AssertionError:
        left = [one for client in clients for one in uploads(server, client)]
        raise AssertionError(f"seed {seed}: {left}, {blobs(server)}") from None


def uploads(server, client):
    """The uploads of a client that have not ended."""
    api, found, query = API(server.url, server.admin_key), [], {"subject": client.subject, "limit": 200}
    while True:
        page = api.get("/v1/uploads", params=query).json()
        found += [one for one in page["uploads"] if one["state"] not in ("terminated", "expired")]
        if not (cursor := page.get("nextCursor")):
            return found
        query["cursor"] = cursor


def blobs(server):
    """Files with bytes of uploads, also those that were set aside."""
    return [path for path in server.data.glob("*/**/*") if path.is_file()]
