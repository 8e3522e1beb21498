"""Gateways with one store and one database behind nginx, in turns: any node serves any request and can die."""

import concurrent.futures
import contextlib
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from botocore.exceptions import BotoCoreError
from test_clients import CLIENTS, run_client

from harness import clock, object_client
from harness import faulty_store as faults
from harness.api import API, TUS, patch_fields, path_of, upload_id
from harness.daemon import free_port
from harness.data import KIB, MIB, content, digest_and_size, write_file
from harness.draft import Client
from harness.origin import Origin
from harness.relay import PART, Cluster
from harness.vimeo import Plain
from harness.wire import Closed, Wire, until


@pytest.fixture
def make_cluster(rgw, postgres, bucket_name, tmp_path):
    made = []

    def make(**options):
        cluster = Cluster(tmp_path, rgw, bucket_name, postgres.make_database(), **options)
        cluster.__enter__()
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.__exit__(None)
    rgw.wipe(bucket_name)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


@pytest.fixture(scope="module")
def lasting(rgw, postgres, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), rgw, "lasting", postgres.make_database()) as cluster:
        yield cluster
    rgw.wipe("lasting")


@pytest.fixture
def calm(lasting):
    """A cluster for all tests that harm no node, without uploads."""
    yield lasting
    for upload in lasting.api.get("/v1/uploads", params={"limit": 200}).json()["uploads"]:
        lasting.api.delete(f"/v1/uploads/{upload['id']}")
    until(lambda: (lasting.store.keys(lasting.bucket), lasting.store.multiparts(lasting.bucket)) == ({}, []))
    lasting.proxy.clear()
    lasting.proxy.forget()


def assert_whole(cluster, url, data, strays=False):
    """Completed and one object. A node that was paused may have left tail objects, which the sweep removes later."""
    until(lambda: cluster.api.upload(upload_id(url))["state"] == "completed", timeout=30, interval=0.1)
    assert cluster.api.download_hash(upload_id(url)) == digest_and_size(data)
    if strays:
        assert [key for key in cluster.store.keys(cluster.bucket) if not key.startswith(".sluice/")] != []
        assert digest_and_size(data) in cluster.objects()
        return
    until(lambda: len(cluster.store.keys(cluster.bucket)) == 1, timeout=20, interval=0.1)
    until(lambda: cluster.store.multiparts(cluster.bucket) == [], timeout=20, interval=0.1)
    cluster.assert_stored(digest_and_size(data))


# In turns


@pytest.mark.parametrize("step", [900 * KIB, 3 * MIB, PART + 1])
def test_each_request_meets_another_node(calm, step):
    data = content(3 * PART + 5, 1)
    url = calm.api.created(len(data))
    for offset in range(0, len(data), step):
        # Reading changes whose turn it is.
        assert calm.api.offset(url) == offset
        answer = calm.api.patch(url, offset, data[offset : offset + step])
        assert answer.status_code == 204, answer.text
        assert int(answer.headers["Upload-Offset"]) == min(offset + step, len(data))
    assert_whole(calm, url, data)


def test_all_nodes_return_the_same(calm):
    """At once after a response, on every node, with keys and tokens from one of them."""
    token = calm.direct(0).post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    url = calm.direct(1).created(100, key=token)
    assert calm.direct(2).patch(calm.nodes[2].url + path_of(url), 0, b"x" * 40).status_code == 204
    for node in calm.nodes:
        api = API(node.url, node.admin_key)
        assert api.offset(node.url + path_of(url)) == 40
        assert api.upload(upload_id(url))["subject"] == "anna"
        assert upload_id(url) in [one["id"] for one in api.get("/v1/uploads").json()["uploads"]]
    assert calm.direct(1).terminate(calm.nodes[1].url + path_of(url)).status_code == 204
    for number, node in enumerate(calm.nodes):
        assert calm.direct(number).head(node.url + path_of(url)).status_code in (404, 410)


@pytest.mark.rows("tuspy", "tus.py from a pipe")
@pytest.mark.parametrize("client", [*CLIENTS, "aiotus in parallel", "tus.py from a pipe"])
def test_unmodified_clients(calm, tmp_path, client):
    path = tmp_path / "file.bin"
    digest = write_file(path, 13 * MIB + 1, 2)
    done = run_client(client, f"{calm.url}/files", calm.admin_key, path, chunk=2 * MIB)
    assert calm.api.download_hash(upload_id(done["url"])) == (digest, 13 * MIB + 1)


@pytest.mark.parametrize("version", [3, 8, None])
def test_the_draft(calm, version):
    data = content(2 * PART + 9, 3)
    front = SimpleNamespace(address=("127.0.0.1", calm.nginx.port), admin_key=calm.admin_key)
    client = Client(front, version)
    _, answer = client.create(data[:PART], False)
    url = answer["Location"]
    assert client.offset(url) == (PART, False)
    assert client.append(url, PART, data[PART : 2 * PART], False).status in (201, 204)
    assert client.append(url, 2 * PART, data[2 * PART :], True).status in (200, 201)
    until(lambda: calm.objects() == [digest_and_size(data)])


def test_concatenation_of_parts_from_different_nodes(calm):
    pieces = [content(size, size) for size in (PART, 10, 2 * PART + 1)]
    urls = []
    for number, piece in enumerate(pieces):
        api = calm.direct(number)
        urls.append(api.created(len(piece), headers={"Upload-Concat": "partial"}))
        assert api.patch(calm.nodes[number].url + path_of(urls[-1]), 0, piece).status_code == 204
    answer = calm.api.create(None, headers={"Upload-Concat": "final;" + " ".join(map(path_of, urls))})
    assert answer.status_code == 201, answer.text
    identifier = upload_id(answer.headers["Location"])
    until(lambda: calm.api.upload(identifier)["state"] == "completed")
    assert calm.api.download_hash(identifier) == digest_and_size(b"".join(pieces))


def test_limits_apply_across_nodes(make_cluster):
    """Twenty at once on three nodes, where five are allowed."""
    cluster = make_cluster(environment={"SLUICE_QUOTA_SUBJECT_OPEN_UPLOADS": "5"})
    token = cluster.api.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda number: cluster.direct(number % 3).create(10, key=token), range(20)))
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(201) == 5, statuses
    assert all(status in (201, 403, 413, 429) for status in statuses)


def test_a_one_time_grant_admits_one_upload(calm):
    token = calm.api.post("/v1/tus/tokens", {"subject": "anna", "oneTime": True}).json()["token"]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda number: calm.direct(number % 3).create(10, key=token), range(12)))
    assert [answer.status_code for answer in answers].count(201) == 1


# One writer


def stalled(cluster, number, url, data, count, offset=0):
    """A PATCH to one node that has sent `count` bytes and stalls."""
    wire = Wire(cluster.nodes[number].address, timeout=60)
    wire.request("PATCH", path_of(url), patch_fields(offset, len(data) - offset))
    wire.send(data[offset : offset + count])
    identifier = upload_id(url)
    until(lambda: arrived(cluster, number, identifier) >= offset + count or not wire.is_silent(0.01), timeout=30)
    assert wire.is_silent(0.01), wire.reply("PATCH")
    return wire


def arrived(cluster, number, identifier):
    return cluster.direct(number).upload(identifier)["offset"]


@pytest.mark.parametrize("count", [1000, PART + 1000])
def test_another_node_takes_over(calm, report, count):
    """The older request is ended on its node, its bytes are kept, and the newer one continues after them."""
    seconds = []
    for attempt in range(5):
        data = content(2 * PART + 1, attempt)
        url = calm.api.created(len(data))
        with stalled(calm, 0, url, data, count) as wire, Wire(calm.nodes[1].address, timeout=30) as second:
            begin = time.perf_counter()
            answer = second.exchange("HEAD", path_of(url), TUS.items())
            seconds.append(time.perf_counter() - begin)
            assert answer.status in (200, 204)
            assert answer["upload-offset"] == str(count)
            try:
                assert wire.reply("PATCH").status == 423
            except Closed:
                pass
        answer = calm.direct(2).patch(calm.nodes[2].url + path_of(url), count, data[count:])
        assert answer.status_code == 204, answer.text
        assert calm.api.download_hash(upload_id(url)) == digest_and_size(data)
    report(
        f"HEAD on another node beside a stalled PATCH with {count} bytes, ms: "
        + ", ".join(f"{one * 1000:.0f}" for one in seconds)
    )


def test_a_chain_of_take_overs(calm):
    """PATCHes that stall, each on the next node, each taken over by the next."""
    data = content(6 * PART, 5)
    url = calm.api.created(len(data))
    wires, offset = [], 0
    for number in range(12):
        count = [1000, PART, 300 * KIB][number % 3]
        wires.append(stalled(calm, number % 3, url, data, count, offset))
        offset += count
    answer = calm.direct(0).patch(calm.nodes[0].url + path_of(url), offset, data[offset:])
    assert answer.status_code == 204, answer.text
    for wire in wires:
        wire.close()
    assert_whole(calm, url, data)


@pytest.mark.rows("0")
@pytest.mark.parametrize("attempt", range(3))
def test_concurrent_patches_on_all_nodes(calm, attempt):
    """For one upload, at one offset: whatever the responses are, no byte is duplicated or missing."""
    data = content(3 * PART, 6 + attempt)
    url = calm.api.created(len(data))
    generator = random.Random(attempt)
    deadline = time.monotonic() + 90

    def patch(number, offset):
        node = calm.nodes[number % 3]
        size = generator.choice([1, 200 * KIB, MIB, PART])
        try:
            answer = API(node.url).patch(node.url + path_of(url), offset, data[offset : offset + size])
        except OSError:
            return None
        if answer.status_code == 204:
            return int(answer.headers["Upload-Offset"])
        assert answer.status_code in (409, 410, 423, 503), answer.text
        return None

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        offset = 0
        while offset < len(data):
            assert time.monotonic() < deadline, f"only {offset} bytes"
            reported_offsets = list(pool.map(patch, range(6), [offset] * 6))
            now = calm.api.upload(upload_id(url))["offset"]
            assert now >= max([one for one in reported_offsets if one is not None], default=offset)
            if now == offset:
                until(lambda: calm.api.head(url).status_code in (200, 204))
                now = calm.api.offset(url)
            offset = now
    assert_whole(calm, url, data)


@pytest.mark.rows("while sending a part")
@pytest.mark.parametrize("moment", ["while receiving", "while sending a part", "before the completion"])
def test_a_paused_node_never_writes_again(cluster, moment):
    """SIGSTOP in the middle of a PATCH, another node takes over and completes, SIGCONT: nothing changes after that."""
    data = content(3 * PART + 9, 10)
    url = cluster.api.created(len(data))
    paused = cluster.nodes[0]
    hold = faults.Hold()
    if moment == "while sending a part":
        hold = faults.Hold(after_bytes=PART // 2)
        cluster.proxy.fault("UploadPart", hold, part=2)
    elif moment == "before the completion":
        cluster.proxy.fault("CompleteMultipartUpload", hold)
    with Wire(paused.address, timeout=60) as wire:
        wire.request("PATCH", path_of(url), patch_fields(0, len(data)))
        sent = len(data) if moment == "before the completion" else 2 * PART + MIB
        wire.send(data[:sent])
        if moment == "while receiving":
            until(lambda: cluster.direct(0).upload(upload_id(url))["offset"] >= PART, timeout=20)
        else:
            assert hold.reached.wait(20)
        paused.process.send_signal(signal.SIGSTOP)
        try:
            other = cluster.direct(1)
            base = cluster.nodes[1].url
            deadline = time.monotonic() + 60
            while other.upload(upload_id(url))["state"] != "completed":
                assert time.monotonic() < deadline, other.upload(upload_id(url))
                answer = other.head(base + path_of(url))
                if answer.status_code in (200, 204):
                    offset = int(answer.headers["Upload-Offset"])
                    other.patch(base + path_of(url), offset, data[offset:])
                time.sleep(0.2)
            assert other.download_hash(upload_id(url)) == digest_and_size(data)
        finally:
            paused.process.send_signal(signal.SIGCONT)
        hold.release()
        # It may try to continue with the bytes that it has and with new ones.
        try:
            wire.send(data[sent:])
            answer = wire.reply("PATCH")
            assert answer.status in (204, 423, 409, 410, 500, 503), answer
        except (Closed, OSError):
            pass
    time.sleep(2)
    cluster.proxy.settle()
    assert cluster.direct(0).upload(upload_id(url))["state"] == "completed"
    assert_whole(cluster, url, data, strays=True)


def test_a_paused_node_aborts_no_multipart_upload_of_another(cluster):
    """It was about to abort one from a killed process when another node took over and began its own."""
    data = content(3 * PART + 9, 12)
    url = cluster.api.created(len(data))
    begun, listed = faults.Hold(), faults.Hold()
    cluster.proxy.fault("CreateMultipartUpload", begun)
    cluster.proxy.fault("ListMultipartUploads", listed)
    first = cluster.nodes[0]
    with Wire(first.address) as wire:
        wire.request("PATCH", path_of(url), patch_fields(0, len(data)))
        wire.send(data[: 256 * KIB])
        assert begun.reached.wait(20)
        first.kill()
    first.start()
    with Wire(first.address, timeout=60) as wire:
        wire.request("PATCH", path_of(url), patch_fields(0, len(data)))
        wire.send(data[: 256 * KIB])
        assert listed.reached.wait(20)
        first.process.send_signal(signal.SIGSTOP)
        base, api = cluster.nodes[1].url, cluster.direct(1)
        try:
            until(lambda: api.head(base + path_of(url)).status_code in (200, 204), timeout=60)
            offset = api.offset(base + path_of(url))
            assert api.patch(base + path_of(url), offset, data[offset : 2 * PART]).status_code == 204
        finally:
            first.process.send_signal(signal.SIGCONT)
        begun.release()
        listed.release()
        with contextlib.suppress(Closed, OSError):
            assert wire.reply("PATCH").status != 204
    cluster.proxy.settle()
    assert api.offset(base + path_of(url)) == 2 * PART
    assert api.patch(base + path_of(url), 2 * PART, data[2 * PART :]).status_code == 204
    assert_whole(cluster, url, data)


@pytest.mark.rows
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("aborts", [False, True], ids=["no abort", "abort"])
def test_a_removal_by_another_node_during_a_completion(make_cluster, after, aborts):
    """It cannot see that the store is completing; the node that completes finds no record, and removes the object."""
    cluster = make_cluster(environment={"SLUICE_S3_COMPLETION_WAIT": "300ms", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"})
    data = content(2 * PART, 42)
    hold = faults.Hold(after=after)
    cluster.proxy.fault("CompleteMultipartUpload", hold)
    if not aborts:
        cluster.proxy.fault("AbortMultipartUpload", faults.Refuse(404, "NoSuchUpload"), times=float("inf"))
    first, second = cluster.direct(0), cluster.direct(1)
    url = cluster.nodes[0].url + path_of(first.created(len(data)))
    answer = first.patch(url, 0, data)
    assert answer.status_code == 204 or (answer.status_code == 503 and "Retry-After" in answer.headers)
    assert hold.reached.wait(20)
    removed = f"/v1/uploads/{upload_id(url)}"
    until(lambda: second.delete(removed).status_code in (204, 404, 410), timeout=30, interval=0.1)
    hold.release()
    cluster.proxy.settle()
    for api in (first, second):
        assert api.get(f"/media/{upload_id(url)}").status_code in (404, 410)
    until(lambda: cluster.store.keys(cluster.bucket) == {}, timeout=30, interval=0.2)
    until(lambda: cluster.store.multiparts(cluster.bucket) == [], timeout=30, interval=0.2)


@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_another_node_continues_after_the_writer_dies(cluster, report, kind):
    data = content(3 * PART, 11)
    url = cluster.api.created(len(data))
    with stalled(cluster, 0, url, data, PART + 1000):
        if kind == "kill":
            cluster.nodes[0].kill()
        else:
            cluster.nodes[0].process.send_signal(signal.SIGSTOP)
        begin = time.perf_counter()
        base, api = cluster.nodes[1].url, cluster.direct(1)
        until(lambda: api.head(base + path_of(url)).status_code in (200, 204), timeout=60)
        seconds = time.perf_counter() - begin
        offset = api.offset(base + path_of(url))
        assert api.patch(base + path_of(url), offset, data[offset:]).status_code == 204
        if kind == "pause":
            cluster.nodes[0].process.send_signal(signal.SIGCONT)
    report(f"the writer's node is gone ({kind}): another one answers HEAD after {seconds:.2f} s")
    if kind == "kill":
        cluster.nodes[0].start()
    assert_whole(cluster, url, data, strays=True)


def test_parts_of_an_object_reach_different_nodes(make_cluster):
    """One of them dies within a part and another after it, and the object is completed on two at once."""
    cluster = make_cluster(environment={"SLUICE_OBJECT_LISTEN": "127.0.0.1:0"})
    pair = cluster.nodes[0].pair()
    clients = [object_client.client(node.object_url, pair) for node in cluster.nodes]
    pieces = [content(PART, number) for number in range(1, 5)] + [b"end"]
    name = {"Bucket": object_client.BUCKET, "Key": "of all nodes"}
    upload = name | {"UploadId": clients[0].create_multipart_upload(**name)["UploadId"]}

    def put(node, number):
        answer = clients[node].upload_part(**upload, PartNumber=number, Body=pieces[number - 1])
        return {"PartNumber": number, "ETag": answer["ETag"]}

    parts = {number: put(number % 3, number) for number in (5, 1, 2)}
    held = faults.Hold()
    cluster.proxy.fault("UploadPart", held)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        cut = pool.submit(put, 0, 3)
        assert held.reached.wait(20)
        cluster.nodes[0].kill()
        held.release()
        with pytest.raises(BotoCoreError):
            cut.result()
        parts[3] = put(1, 3)
        parts[4] = put(2, 4)
        # Repeated, and only the last one counts.
        parts[2] = put(1, 2)
        listed = clients[2].list_parts(**upload)["Parts"]
        assert [part["PartNumber"] for part in listed] == [1, 2, 3, 4, 5]
        named = {"Parts": [parts[number] for number in sorted(parts)]}
        done = [
            pool.submit(clients[node].complete_multipart_upload, **upload, MultipartUpload=named) for node in (1, 2)
        ]
        assert len({one.result()["ETag"] for one in done}) == 1
    cluster.nodes[0].start()
    again = object_client.client(cluster.nodes[0].object_url, pair)
    data = b"".join(pieces)
    for client in [again, *clients[1:]]:
        assert digest_and_size(client.get_object(**name)["Body"].read()) == digest_and_size(data)
    until(lambda: cluster.objects() == [digest_and_size(data)], timeout=30, interval=0.2)
    again.delete_object(**name)
    until(lambda: cluster.objects() == [], timeout=30, interval=0.2)


def test_clocks_can_differ(make_cluster):
    """By five minutes between nodes: leases, expiry, signatures and links still hold."""
    cluster = make_cluster(each={1: clock.shifted(300), 2: clock.shifted(-300)})
    data = content(3 * PART + 5, 12)
    url = cluster.api.created(len(data))
    offset = 0
    for number in range(12):
        count = [1000, MIB, 2 * MIB][number % 3]
        with stalled(cluster, (number + 1) % 3, url, data, count, offset):
            offset += count
            node = cluster.nodes[number % 3]
            assert cluster.direct(number % 3).offset(node.url + path_of(url)) == offset
    answer = cluster.direct(1).patch(cluster.nodes[1].url + path_of(url), offset, data[offset:])
    assert answer.status_code == 204, answer.text
    for number in range(3):
        link = cluster.direct(number).post(f"/v1/media/{upload_id(url)}/links", {"expiresIn": 900})
        assert link.status_code == 201, link.text
        for node in cluster.nodes:
            assert API(node.url).get(node.url + link.json()["url"].removeprefix(cluster.url)).status_code == 200
    assert_whole(cluster, url, data)


def test_what_one_node_made_another_takes_whose_clock_is_an_hour_off(make_cluster):
    """Times of what is made, expiry, revocations, quotas and claims of work are by the database's clock."""
    listening = [{"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"} for _ in range(3)]
    each = {0: listening[0], 1: listening[1] | clock.shifted(3600), 2: listening[2] | clock.shifted(-3600)}
    settings = {"SLUICE_UPLOADS_EXPIRE_AFTER": "30m", "SLUICE_PULL_ALLOW": "127.0.0.0/8"}
    cluster = make_cluster(environment=settings | {"SLUICE_OBJECT_BUCKETS": "uploads"}, each=each)
    kept = path_of(cluster.api.created(1000))
    # A start sweeps.
    cluster.nodes[1].stop()
    cluster.nodes[1].start()
    nodes = [cluster.direct(number) for number in range(3)]
    until(lambda: "\nsluice_sweeps_total 0\n" not in nodes[1].get("/metrics").text, timeout=60)
    assert [node.head(node.url + kept).headers["Upload-Offset"] for node in nodes] == ["0"] * 3
    assert nodes[0].request("PUT", "/v1/quota/subjects/quota", json={"periodUploads": 2}).status_code == 200

    def minted(node, subject, **wanted):
        answer = node.post("/v1/tus/tokens", {"subject": subject, "expiresIn": 600} | wanted)
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def statuses(token):
        return [node.create(10, key=token).status_code for node in nodes]

    for number, maker in enumerate(nodes):
        assert statuses(minted(maker, "anna")) == [201] * 3
        assert statuses(minted(maker, "anna", oneTime=True)) == [201, 403, 403]
        key = maker.post("/v1/keys", {"name": "k", "scopes": ["upload"], "expiresIn": 600}).json()["secret"]
        assert statuses(key) == [201] * 3
        for other, revoker in enumerate(nodes):
            subject = f"{number}-{other}"
            token = minted(maker, subject)
            vimeo = maker.post("/v1/vimeo/tokens", {"subject": subject}).json()["access_token"]
            assert revoker.post("/v1/revocations", {"subject": subject}).status_code == 201
            until(lambda token=token: statuses(token) == [401] * 3)
            assert [Plain(node, vimeo)("GET", "/me").status_code for node in cluster.nodes] == [401] * 3
            until(lambda maker=maker, subject=subject: statuses(minted(maker, subject)) == [201] * 3)
        client = object_client.client(cluster.nodes[number].object_url, cluster.nodes[number].pair())
        client.put_object(Bucket="uploads", Key=f"k{number}", Body=b"x")
    quotas = [node.create(10, key=minted(node, "quota")).status_code for node in nodes]
    assert quotas == [201, 201, 429]
    origin = Origin()
    try:
        origin.add("/a", b"a")
        for node in nodes:
            pull = node.post("/v1/media/pull", {"url": origin.url + "/a"}).json()["id"]
            until(lambda pull=pull: nodes[0].upload(pull)["state"] == "completed", timeout=60)
    finally:
        origin.close()


# Continuous failures


@dataclass
class Uploader:
    """Uploads contents through nginx like a patient client, and records what was acknowledged."""

    cluster: object
    seed: int
    stop: threading.Event
    done: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    answers: dict = field(default_factory=dict)
    largest: int = 4 * PART
    # Seconds between two uploads, at most.
    pause: float = 0

    def run(self):
        generator = random.Random(self.seed)
        try:
            while not self.stop.is_set():
                self.one(generator)
                self.stop.wait(generator.uniform(0, self.pause))
        except BaseException as failure:
            self.failures.append(failure)

    def count(self, answer):
        self.answers[answer] = self.answers.get(answer, 0) + 1

    def again(self, request):
        """The first response that is neither from nginx nor asks to retry."""
        deadline = time.monotonic() + 120
        while True:
            try:
                answer = request()
                self.count(answer.status_code)
                if answer.status_code not in (423, 429, 500, 502, 503, 504):
                    return answer
            except OSError as failure:
                self.count(type(failure).__name__)
            assert time.monotonic() < deadline, f"nothing works for two minutes: {self.answers}"
            time.sleep(0.1)

    def one(self, generator):
        api = API(self.cluster.url, self.cluster.admin_key)
        data = content(generator.choice([1, MIB, generator.randint(1, self.largest)]), generator.getrandbits(32))
        url = self.again(lambda: api.create(len(data))).headers["Location"]
        acknowledged = 0
        deadline = time.monotonic() + 180
        while True:
            assert time.monotonic() < deadline, (self.seed, url, acknowledged, self.answers)
            answer = self.again(lambda: api.head(url))
            assert answer.status_code in (200, 204), (self.seed, url, answer.status_code)
            offset = int(answer.headers["Upload-Offset"])
            assert acknowledged <= offset <= len(data), (self.seed, url, acknowledged, offset)
            acknowledged = offset
            if offset == len(data):
                state = self.again(lambda: api.get(f"/v1/uploads/{upload_id(url)}")).json()["state"]
                if state == "completed":
                    break
                # All bytes are stored, and the store is combining them.
                time.sleep(0.2)
            piece = data[offset : offset + generator.choice([MIB, 3 * MIB, PART, 2 * PART])]
            try:
                answer = api.patch(url, offset, piece, {"Content-Length": str(len(piece))})
                self.count(answer.status_code)
                if answer.status_code == 204:
                    acknowledged = int(answer.headers["Upload-Offset"])
                    assert acknowledged == offset + len(piece), (self.seed, url)
            except OSError as failure:
                self.count(type(failure).__name__)
        self.done.append((upload_id(url), digest_and_size(data)))


@pytest.mark.parametrize("seed", [None])
def test_nodes_are_killed_continuously(cluster, report, quick, seed, tmp_path):
    """One node at a time by kill -9, and started again, while clients of every kind upload."""
    kills, uploads, clients = (12, 12, 3) if quick else (100, 100, 4)
    seed = seed or random.randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    stop = threading.Event()
    # Not as many uploads as possible, but some on their way at each kill.
    uploaders = [Uploader(cluster, seed + number, stop, pause=0.8) for number in range(clients)]
    threads = [threading.Thread(target=uploader.run) for uploader in uploaders]
    path = tmp_path / "file.bin"
    digest = write_file(path, 11 * MIB + 1, 13)
    unmodified, others = [], []

    def run_others():
        """aiotus retries everything itself; tus.py is called again, like its command line."""
        number = 0
        while not stop.is_set():
            client = ["aiotus", "tus.py"][number % 2]
            number += 1
            try:
                done = run_client(
                    client, f"{cluster.url}/files", cluster.admin_key, path, chunk=2 * MIB, retries=100, timeout=300
                )
                unmodified.append(upload_id(done["url"]))
            except AssertionError as failure:
                # This client does not retry a creation whose response was lost.
                others.append(str(failure)[-300:])

    threads.append(threading.Thread(target=run_others))
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    killed = 0
    try:
        while killed < kills or sum(len(one.done) for one in uploaders) + len(unmodified) < uploads:
            assert not any(one.failures for one in uploaders), [one.failures for one in uploaders]
            node = generator.choice(cluster.nodes)
            time.sleep(generator.uniform(0.05, 1.0))
            node.kill()
            killed += 1
            time.sleep(generator.uniform(0.0, 0.5))
            node.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join(300)
    seconds = time.monotonic() - begin
    assert not any(thread.is_alive() for thread in threads)
    assert [one.failures for one in uploaders] == [[]] * clients
    done = [pair for one in uploaders for pair in one.done] + [(one, (digest, 11 * MIB + 1)) for one in unmodified]
    for identifier, expected in done:
        assert cluster.api.upload(identifier)["state"] == "completed", (seed, identifier)
        assert cluster.api.download_hash(identifier) == expected, (seed, identifier)
    objects = cluster.objects()
    assert all(objects.count(one) >= 1 for _, one in done)
    answers = {}
    for one in uploaders:
        for key, value in one.answers.items():
            answers[key] = answers.get(key, 0) + value
    report(
        f"three nodes behind nginx, seed {seed}: {killed} kills, {len(done)} uploads ({len(unmodified)} by aiotus and"
        f" tus.py, which gave up {len(others)} times), {sum(size for _, (_, size) in done) / MIB:.0f} MiB in"
        f" {seconds:.0f} s; answers {answers}; store {cluster.proxy.counts()}"
    )
    assert killed >= kills and len(done) >= uploads


def test_the_database_restarts_under_load(cluster, postgres, report, quick):
    stop = threading.Event()
    uploaders = [Uploader(cluster, number, stop, pause=0.6 if quick else 0) for number in range(3)]
    threads = [threading.Thread(target=one.run) for one in uploaders]
    for thread in threads:
        thread.start()
    for number in range(3 if quick else 10):
        time.sleep(1.5)
        if number % 3 == 0:
            postgres.restart()
        elif number % 3 == 1:
            postgres.kill()
            postgres.start()
        else:
            postgres.terminate_connections()
    stop.set()
    for thread in threads:
        thread.join(200)
    assert [one.failures for one in uploaders] == [[]] * 3
    done = [pair for one in uploaders for pair in one.done]
    assert done
    for identifier, expected in done:
        assert cluster.api.download_hash(identifier) == expected
    report(f"the database restarts under load: {len(done)} uploads, answers {[one.answers for one in uploaders]}")


def test_the_store_fails_under_load(cluster, rgw, report, quick):
    generator = random.Random(1)
    failures = [
        faults.Refuse(503),
        faults.Refuse(500, "InternalError"),
        faults.Reset(),
        faults.LoseAnswer(),
        faults.Drop(),
    ]
    for number in range(5, 2000, 7):
        cluster.proxy.fault(".*", generator.choice(failures), first=number)
    stop = threading.Event()
    uploaders = [Uploader(cluster, number, stop, pause=0.6 if quick else 0) for number in range(3)]
    threads = [threading.Thread(target=one.run) for one in uploaders]
    for thread in threads:
        thread.start()
    for _ in range(2 if quick else 8):
        time.sleep(2)
        rgw.kill()
        time.sleep(1)
        rgw.restart()
    stop.set()
    for thread in threads:
        thread.join(200)
    cluster.proxy.clear()
    assert [one.failures for one in uploaders] == [[]] * 3
    done = [pair for one in uploaders for pair in one.done]
    assert done
    for identifier, expected in done:
        assert cluster.api.download_hash(identifier) == expected
    report(f"the store fails under load: {len(done)} uploads, answers {[one.answers for one in uploaders]}")
