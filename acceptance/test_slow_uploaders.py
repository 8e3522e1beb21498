"""A thousand slow uploaders at once: all are served, a fast one passes them, and memory stays bounded.

`benchmarks/slow_uploaders.py` measures how much they slow down the fast one.
"""

import base64
import hashlib
import json
import resource
import threading

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of, upload_id
from harness.data import KIB, MIB, content, sha256
from harness.server import ADMIN_KEY
from harness.wire import Wire, head, until

COUNT = 1000
STEP = 512
SIZE = 48 * KIB
FAST = 256 * MIB
# A connection with a request on its way: buffers, the open file, what the runtime keeps. Twice what was measured.
MOST_EACH = 64 * KIB
# What else may come: the fast upload, its pipe, what the allocator keeps.
MOST_BESIDES = 32 * MIB
# All slow uploads are slices of this.
SOURCE = content(SIZE + COUNT, seed=11)


@pytest.fixture(autouse=True)
def descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = COUNT + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} descriptors may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Slow:
    """One upload by one PATCH, a step at a time."""

    def __init__(self, server, framing, number, path):
        self.data = SOURCE[number : number + SIZE]
        self.path = path
        self.is_chunked = framing == "chunked"
        self.sent = 0
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE)]
        fields.append(("Transfer-Encoding", "chunked") if self.is_chunked else ("Content-Length", SIZE))
        if framing == "checksum":
            digest = base64.b64encode(hashlib.sha256(self.data).digest()).decode()
            fields.append(("Upload-Checksum", f"sha256 {digest}"))
        self.wire = Wire(server.address, timeout=60)
        self.wire.send(head("PATCH", path, fields))

    def step(self, count=STEP):
        piece = self.data[self.sent : self.sent + count]
        self.wire.send(b"%x\r\n%b\r\n" % (len(piece), piece) if self.is_chunked else piece)
        self.sent += len(piece)

    def finish(self):
        self.step(SIZE)
        if self.is_chunked:
            self.wire.send(b"0\r\n\r\n")
        answer = self.wire.reply("PATCH")
        assert answer.status == 204 and answer["upload-offset"] == str(SIZE), answer


class Dripping(threading.Thread):
    """Sends step after step for all in turn, until stopped or only the reserve is left."""

    def __init__(self, crowd):
        super().__init__()
        self.crowd = crowd
        self.is_over = threading.Event()
        self.failure = None

    def run(self):
        try:
            while self.crowd[-1].sent < SIZE - 8 * KIB:
                for slow in self.crowd:
                    slow.step()
                    # 2,000 steps in a second, 1 MiB, leave both cores to the others.
                    if self.is_over.wait(0.0005):
                        return
        except OSError as failure:
            self.failure = failure


def fast_upload(server, url):
    """One upload in one PATCH; the SHA-256 of what was sent."""
    piece, digest = content(4 * MIB, seed=12), hashlib.sha256()
    with Wire(server.address, timeout=120) as wire:
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", FAST)]
        wire.send(head("PATCH", path_of(url), fields))
        for _ in range(FAST // len(piece)):
            digest.update(piece)
            wire.send(piece)
        answer = wire.reply("PATCH")
    assert answer.status == 204 and answer["upload-offset"] == str(FAST), answer
    return digest.hexdigest()


def create_all(server):
    fields = [*TUS.items(), ("Authorization", f"Bearer {ADMIN_KEY}"), ("Upload-Length", SIZE)]
    with Wire(server.address) as wire:
        return [path_of(wire.exchange("POST", "/files", fields)["location"]) for _ in range(COUNT)]


def connections(api):
    """As the server counts them."""
    lines = api.get("/metrics").text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("sluice_http_connections "))))


def wait_until_stored(server, crowd):
    """Reading by REST does not interrupt the writers."""
    fields = [("Authorization", f"Bearer {ADMIN_KEY}")]
    with Wire(server.address) as wire:

        def offset(slow):
            answer = wire.exchange("GET", f"/v1/uploads/{upload_id(slow.path)}", fields)
            assert answer.status == 200, answer
            return json.loads(answer.body)["offset"]

        for slow in crowd:
            until(lambda slow=slow: offset(slow) == slow.sent, timeout=60)


@pytest.mark.rows("chunked")
@pytest.mark.parametrize("framing", ["content-length", "chunked", "checksum"])
def test_a_thousand_slow_uploaders(make_server, report, framing):
    server = make_server().start()
    api = API(server.url, server.admin_key)
    paths = create_all(server)
    before = server.peak_memory()
    crowd = []
    try:
        for number, path in enumerate(paths):
            crowd.append(Slow(server, framing, number, path))
            crowd[-1].step()
        until(lambda: connections(api) >= COUNT, timeout=60)
        if framing != "checksum":  # Bytes count when the checksum is verified.
            wait_until_stored(server, crowd)
        waiting = server.peak_memory()
        drips = Dripping(crowd)
        drips.start()
        try:
            url = api.created(FAST)
            digest = fast_upload(server, url)
        finally:
            drips.is_over.set()
            drips.join()
        assert drips.failure is None
        assert api.download_hash(upload_id(url)) == (digest, FAST)
        # All slow ones are still on their way, and go on.
        assert connections(api) >= COUNT
        for slow in crowd:
            slow.step()
        if framing != "checksum":
            wait_until_stored(server, crowd)
        for slow in crowd:
            slow.finish()
        peak = server.peak_memory()
    finally:
        for slow in crowd:
            slow.wire.close()
    check_contents(server, crowd)
    report(
        f"{COUNT} slow uploaders, {framing}: {(waiting - before) / COUNT / KIB:.1f} KiB each,"
        f" peak {peak / MIB:.1f} MiB ({before / MIB:.1f} before)"
    )
    assert peak < before + COUNT * MOST_EACH + MOST_BESIDES


def check_contents(server, crowd):
    fields = [("Authorization", f"Bearer {ADMIN_KEY}")]
    with Wire(server.address) as wire:
        for slow in crowd:
            answer = wire.exchange("GET", f"/media/{upload_id(slow.path)}", fields)
            assert answer.status == 200
            assert sha256(answer.body) == sha256(slow.data)
