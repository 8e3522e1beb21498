"""kill -9 at random moments: no acknowledged byte is lost, and every upload ends with the right content.

A thread uploads without pause, one upload after the other, in requests of random size; the server is killed at a random
moment and started again on the same data directory; every upload continues at the offset from HEAD.
"""

import contextlib
import http.client
import random
import threading
import time
from dataclasses import dataclass, field

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of, tus_patch, upload_id
from harness.data import KIB, MIB, content, sha256
from harness.wire import Closed, Wire, until

LARGEST_REQUEST = 3 * MIB


@dataclass
class Ongoing:
    """The client's knowledge of an upload."""

    url: str
    data: bytes
    acknowledged: int = 0
    sent: int = 0
    is_done: bool = False


@dataclass
class Client:
    """Uploads until the server dies; records what was acknowledged and the current request."""

    server: object
    seed: int
    uploads: list = field(default_factory=list)
    activity: str = "idle"
    failures: list = field(default_factory=list)

    def __post_init__(self):
        self.generator = random.Random(self.seed)

    def run(self):
        connection = http.client.HTTPConnection(*self.server.address, timeout=20)
        try:
            while True:
                upload = next((one for one in self.uploads if not one.is_done), None) or self.create(connection)
                self.append(connection, upload)
        except (OSError, http.client.HTTPException):
            pass  # killed
        except Exception as failure:
            self.failures.append(failure)
        finally:
            connection.close()

    def create(self, connection):
        size = self.generator.randint(1, 12 * MIB)
        data = content(size, self.generator.getrandbits(32))
        self.activity = "create"
        connection.request(
            "POST",
            "/files",
            headers=TUS | {"Upload-Length": str(size), "Authorization": f"Bearer {self.server.admin_key}"},
        )
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201, answer.status
        self.activity = "idle"
        self.uploads.append(Ongoing(path_of(answer.headers["Location"]), data))
        return self.uploads[-1]

    def append(self, connection, upload):
        offset = upload.acknowledged
        piece = upload.data[offset : offset + self.generator.randint(1, LARGEST_REQUEST)]
        self.activity = "append"
        connection.putrequest("PATCH", upload.url)
        for name, value in (TUS | {"Upload-Offset": offset, "Content-Type": OFFSET_TYPE}).items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", len(piece))
        connection.endheaders()
        step = self.generator.randint(16 * KIB, 512 * KIB)
        for begin in range(0, len(piece), step):
            connection.send(piece[begin : begin + step])
            upload.sent = offset + min(begin + step, len(piece))
            time.sleep(self.generator.random() * 0.004)
        self.activity = "answer"
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 204, answer.status
        assert int(answer.headers["Upload-Offset"]) == offset + len(piece)
        upload.acknowledged = offset + len(piece)
        upload.is_done = upload.acknowledged == len(upload.data)
        self.activity = "idle"


@pytest.mark.parametrize(("durability", "kills"), [("acknowledged", 50), ("none", 10)])
def test_no_acknowledged_byte_is_lost(make_server, report, quick, durability, kills):
    kills = max(5, kills // 10) if quick else kills
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    server = make_server(environment={"SLUICE_DURABILITY": durability}).start()
    client = Client(server, seed)
    moments = {"append": 0, "answer": 0, "create": 0, "idle": 0}
    total = beyond = 0

    while moments["append"] + moments["answer"] < kills:
        thread = threading.Thread(target=client.run)
        thread.start()
        time.sleep(generator.uniform(0.01, 0.4))
        activity = client.activity
        server.kill()
        thread.join(30)
        assert not thread.is_alive() and client.failures == [], (seed, client.failures)
        moments[activity] += 1
        total += 1

        server.start()
        api = API(server.url, server.admin_key)
        for upload in client.uploads:
            if upload.is_done:
                continue
            offset = api.offset(server.url + upload.url)
            assert upload.acknowledged <= offset <= upload.sent, (
                f"seed {seed}, kill {total}: acknowledged {upload.acknowledged}, HEAD says {offset}, sent {upload.sent}"
            )
            beyond += offset - upload.acknowledged
            upload.acknowledged = upload.sent = offset
            upload.is_done = offset == len(upload.data)

    # The rest of the last one, without kills; then everything is compared.
    for upload in client.uploads:
        if not upload.is_done:
            answer = api.patch(server.url + upload.url, upload.acknowledged, upload.data[upload.acknowledged :])
            assert answer.status_code == 204, (seed, answer.text)
        identifier = upload_id(upload.url)
        assert api.upload(identifier)["state"] == "completed", seed
        assert api.download_hash(identifier) == (sha256(upload.data), len(upload.data)), f"seed {seed}, {identifier}"
    size = sum(len(upload.data) for upload in client.uploads)
    report(
        f"kill -9, durability {durability}, seed {seed}: {total} kills ({moments['append']} while sending,"
        f" {moments['answer']} while waiting for the answer, {moments['create']} while creating,"
        f" {moments['idle']} between),"
        f" {len(client.uploads)} uploads, {size / MIB:.0f} MiB;"
        f" kept beyond what was acknowledged: {beyond / MIB:.1f} MiB"
    )


@pytest.mark.parametrize("durability", ["acknowledged", "none"])
def test_a_fast_upload_is_killed(make_server, report, durability):
    """A fast upload reserves disk blocks; the next append releases them."""
    server = make_server(environment={"SLUICE_DURABILITY": durability}).start()
    api = API(server.url, server.admin_key)
    data = content(160 * MIB, 7)
    url = api.created(len(data))
    identifier = upload_id(url)

    def send():
        with contextlib.suppress(OSError, Closed), Wire(server.address) as wire:
            wire.send(tus_patch(url, 0, len(data)))
            for begin in range(0, len(data), MIB):
                wire.send(data[begin : begin + MIB])

    thread = threading.Thread(target=send)
    thread.start()
    until(lambda: sum(path.stat().st_size for path in server.stored_files(identifier)) >= 70 * MIB, interval=0.001)
    server.kill()
    thread.join()
    server.start()
    api = API(server.url, server.admin_key)
    url = server.url + path_of(url)
    offset = api.offset(url)
    assert 70 * MIB <= offset <= len(data)
    left = server.stored_bytes(identifier)
    assert left <= offset + 64 * MIB
    if offset < len(data):
        assert api.patch(url, offset, data[offset : offset + 1]).status_code == 204
        assert server.stored_bytes(identifier) <= offset + MIB
        if offset + 1 < len(data):
            assert api.patch(url, offset + 1, data[offset + 1 :]).status_code == 204
    assert api.download_hash(identifier) == (sha256(data), len(data))
    report(
        f"kill -9 in a fast upload, durability {durability}: {offset / MIB:.1f} of {len(data) / MIB:.0f} MiB kept,"
        f" {max(0, left - offset) / MIB:.1f} MiB set aside and given back"
    )


def test_a_killed_creation_or_termination_leaves_nothing_half_done(make_server, quick):
    """After a kill an upload either exists with its bytes or is gone; media of completed ones stay."""
    server = make_server().start()
    api = API(server.url, server.admin_key)
    kept = api.uploaded(b"kept")
    for _ in range(3 if quick else 10):
        urls = [api.created(3) for _ in range(5)]
        stop = threading.Event()

        def terminate(urls=urls, stop=stop):
            api = API(server.url, server.admin_key)
            for url in urls:
                if stop.is_set():
                    return
                try:
                    api.terminate(url)
                except OSError:
                    return

        thread = threading.Thread(target=terminate)
        thread.start()
        time.sleep(random.random() * 0.02)
        server.kill()
        stop.set()
        thread.join()
        server.start()
        api = API(server.url, server.admin_key)
        for url in urls:
            path = server.url + path_of(url)
            answer = api.head(path)
            state = api.upload(upload_id(url))["state"]
            assert (answer.status_code in (200, 204)) == (state == "open"), (answer.status_code, state)
            if state == "open":
                assert api.patch(path, 0, b"abc").status_code == 204
        assert api.get(f"/media/{kept}").content == b"kept"
