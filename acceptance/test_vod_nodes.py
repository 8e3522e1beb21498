"""The video dialects by three nodes with Ceph and PostgreSQL: any node serves any request of an upload, and can die.

First what holds for each dialect (harness/vod_dialects.py), then what only the SDKs of one do. PyVimeo's requests go
through a proxy that can cut connections, then through nginx, which gives each to the next node.
"""

import contextlib
import hashlib
import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import urlsplit

import alibabacloud_oss_v2 as oss_v2
import oss2
import pytest
import requests
from tusclient.client import TusClient

from harness import aliyun_vod, ugc
from harness import faulty_store as faults
from harness.aliyun_vod import grant, oss
from harness.api import TUS, patch_fields
from harness.cutter import Cutter
from harness.daemon import free_port, free_ports
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.postgres import Postgres
from harness.relay import PART, Cluster
from harness.vimeo import NEW, OLD, PROGRAM, VERSIONS, Failed, Plain, PyVimeo, packages, pulled, token
from harness.vod_api import call, own_pair
from harness.vod_api import upload as uploaded_by_sdk
from harness.vod_dialects import COVER, DIALECTS, LOST, PIECE, is_temporary, persistently
from harness.wire import Closed, Wire, until

BUCKET = "vod-nodes"
VIDEO = content(PART + 300 * KIB, 1)
OTHER = content(PART + 200 * KIB, 2)
TUS_PATCH = TUS | {"Content-Type": "application/offset+octet-stream"}


@pytest.fixture(scope="module")
def cutter():
    with Cutter() as made:
        yield made


@pytest.fixture(scope="module")
def dialects():
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(make()) for name, make in DIALECTS.items()}


@pytest.fixture(scope="module")
def cluster(rgw, postgres, cutter, dialects, tmp_path_factory):
    settings = {"SLUICE_PUBLIC_URL": cutter.url}
    for dialect in dialects.values():
        settings |= dialect.settings
    # Here apps ask for the events of Tencent's dialect.
    settings |= {"SLUICE_TENCENT_EVENTS": "pull", "SLUICE_TENCENT_CALLBACK_URL": None}
    settings = {name: value for name, value in settings.items() if value is not None}
    each = {number: {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}"} for number, port in enumerate(free_ports(3))}
    folder = tmp_path_factory.mktemp(BUCKET)
    with Cluster(folder, rgw, BUCKET, postgres.make_database(), environment=settings, each=each) as made:
        cutter.target = ("127.0.0.1", made.nginx.port)
        yield made
    rgw.wipe(BUCKET)


@pytest.fixture
def dying(cluster):
    """The first node, which the test kills; it lives again afterwards."""
    yield cluster.nodes[0]
    cluster.proxy.clear()
    if cluster.nodes[0].process is None:
        cluster.nodes[0].start()


@pytest.fixture
def make_file(tmp_path):
    def make(name, data):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return make


# What holds for each dialect


@pytest.fixture(params=DIALECTS)
def dialect(request, dialects):
    made = dialects[request.param]
    # Of Vimeo's API, which lists the videos of a user.
    made.subject = request.node.name
    return made


@pytest.fixture
def clients(cluster, dialect):
    """A client at each node, with the credentials that the first one gave."""
    pair = dialect.pair(cluster.nodes[0])
    return [dialect.client(node, pair) for node in cluster.nodes]


def sent(clients, upload, data):
    """The pieces, each to the next node."""
    for number, offset in enumerate(range(0, len(data), PIECE)):
        clients[number % 3].send(upload, offset, data[offset : offset + PIECE])
    return upload


def made(clients, data, name=None):
    """The upload and the id of new media; each step by another node."""
    upload = sent(clients, clients[2].begin(len(data), name), data)
    return upload, clients[1].finish(upload)


def assert_there(clients, media, data):
    """At all nodes: clients poll until the store has put the file together."""
    for client in clients:
        until(lambda c=client: c.look(media) == len(data), timeout=60, interval=0.1)
        assert client.read(media) == data


def assert_nowhere(clients, media):
    assert [client.look(media) for client in clients] == [None] * len(clients)


def test_each_step_is_made_by_another_node(dialect, clients):
    first, second, third = clients
    upload = second.begin(len(VIDEO))
    for number, offset in enumerate(range(0, len(VIDEO), PIECE)):
        assert [client.known(upload) for client in clients] == [offset] * 3
        clients[(number + 2) % 3].send(upload, offset, VIDEO[offset : offset + PIECE])
        if number == 2:
            third.resume(upload)
    media = third.finish(upload)
    # Its answer may have been lost.
    assert [client.commit(upload) for client in clients] == [media] * 3
    assert_there(clients, media, VIDEO)
    if dialect.replaces:
        first.replace(upload, OTHER)
        assert_there(clients, media, OTHER)
    assert second.delete(media)
    assert_nowhere(clients, media)
    assert [client.delete(media) for client in clients] == [False] * 3


def test_an_upload_goes_on_after_its_node_died(clients, dying):
    first, second, third = clients
    upload = first.begin(len(VIDEO))
    for offset in (0, PIECE):
        first.send(upload, offset, VIDEO[offset : offset + PIECE])
    dying.kill()
    assert persistently(lambda: second.known(upload)) == 2 * PIECE
    third.resume(upload)
    for offset in range(2 * PIECE, len(VIDEO), PIECE):
        persistently(lambda at=offset: third.send(upload, at, VIDEO[at : at + PIECE]))
    media = persistently(lambda: second.finish(upload))
    assert_there([second, third], media, VIDEO)


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_node_dies_in_the_middle_of_a_completion(clients, dying, cluster, after):
    """While the store puts the object together, and after it has done so; another node finishes."""
    first, second, third = clients
    upload = second.begin(len(VIDEO))
    last = (len(VIDEO) - 1) // PIECE * PIECE
    for offset in range(0, last, PIECE):
        third.send(upload, offset, VIDEO[offset : offset + PIECE])
    hold = faults.Hold(after=after)
    cluster.proxy.fault("CompleteMultipartUpload", hold)

    def complete():
        first.send(upload, last, VIDEO[last:])
        return first.finish(upload)

    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(complete)
        assert hold.reached.wait(60)
        dying.kill()
        with pytest.raises(LOST):
            lost.result()
    try:
        # The client has lost its answer, and asks how much is there.
        persistently(lambda: third.known(upload))
        media = persistently(lambda: third.finish(upload))
        assert second.commit(upload) == media
        assert_there([second, third], media, VIDEO)
    finally:
        hold.release()
    dying.start()
    # What the dead node asked for comes late.
    cluster.proxy.settle()
    assert_there(clients, media, VIDEO)
    assert media in clients[0].listed()


def test_media_is_finished_by_all_nodes_at_once(dialect, clients):
    """As a client does whose first try lasts too long: all answers name the same media."""
    before = len(clients[2].listed())
    with ThreadPoolExecutor(6) as pool:
        for number in range(3):
            upload = sent(clients, clients[0].begin(3, f"at-once-{number}"), b"abc")
            clients[1].complete(upload)
            assert len(set(pool.map(lambda n, one=upload: clients[n % 3].commit(one), range(12)))) == 1
        if dialect.has_references:
            uploads = pool.map(lambda n: clients[n % 3].begin(3, "one-reference"), range(12))
            # One makes it; those that come before its end find none yet.
            assert len({upload.media for upload in uploads if upload}) == 1
    assert len(clients[2].listed()) == before + 3 + dialect.has_references


def test_lists_of_all_nodes_agree(clients):
    """Each creation makes one media, also many at once; what is not finished is none, or none with content."""
    before = clients[0].listed()

    def make(number):
        turned = clients[number % 3 :] + clients[: number % 3]
        return made(turned, b"x" * (number + 1), f"listed-{number}")[1]

    with ThreadPoolExecutor(8) as pool:
        media = list(pool.map(make, range(16)))
        lists = list(pool.map(lambda number: clients[number % 3].listed(), range(6)))
    assert {one: name for one, name in lists[0].items() if one not in before} == {
        one: f"listed-{number}" for number, one in enumerate(media)
    }
    assert all(one == lists[0] for one in lists)


def test_media_is_deleted_while_clients_poll(clients):
    """Whoever deletes is told so, whatever the others read at the same time."""

    def ask(number, media):
        client = clients[number % 3]
        return client.delete(media) if number in (2, 7) else client.look(media)

    with ThreadPoolExecutor(12) as pool:
        for _ in range(5):
            _, media = made(clients, b"abc")
            answers = list(pool.map(ask, range(12), [media] * 12))
            assert True in (answers[2], answers[7]), answers
            looks = [answer for number, answer in enumerate(answers) if number not in (2, 7)]
            assert set(looks) <= {3, None}, looks
            assert_nowhere(clients, media)


def test_a_file_is_pulled_once(clients):
    """All nodes look for what is to be pulled."""
    with Origin() as origin:
        resource = origin.add("/clip.mp4", VIDEO, content_type="video/mp4")
        task = clients[0].pull(origin.url + "/clip.mp4")
        media = until(lambda: clients[1].pulled(task), timeout=60, interval=0.1)
        assert_there(clients, media, VIDEO)
        assert len(resource.requests) == 1


def test_events_of_several_nodes_come_once_and_in_order(dialects, cluster):
    """Three nodes look for events at once; each is posted by one of them."""
    dialect = dialects["aliyun"]
    pair = dialect.pair(cluster.nodes[2])
    clients = [dialect.client(node, pair) for node in cluster.nodes]

    def life(number):
        turn = itertools.cycle(clients[number % 3 :] + clients[: number % 3])
        upload, media = made(clients, b"x" * (number + 1), f"life-{number}")
        for size in (number + 100, number + 1):
            next(turn).replace(upload, b"x" * size)
        next(turn).delete(media)
        return media

    with ThreadPoolExecutor(6) as pool:
        media = list(pool.map(life, range(18)))
    for number, one in enumerate(media):
        wanted = [("uploaded", size) for size in (number + 1, number + 100, number + 1)] + [("deleted", None)]
        until(lambda m=one, w=wanted: len(dialect.told(m)) >= len(w), timeout=60)
        assert dialect.told(one) == wanted


def test_without_a_database_clients_are_asked_to_try_again(dialects, tmp_path):
    settings = {}
    for dialect in dialects.values():
        settings |= dialect.settings
    with (
        Postgres() as postgres,
        ObjectServer(tmp_path / "data", free_port(), settings | postgres.environment(tmp_path)) as server,
    ):
        clients = [dialect.client(server) for dialect in dialects.values()]
        finished = [made([client] * 3, b"abc", f"before-{number}")[1] for number, client in enumerate(clients)]
        begun = [client.begin(3, f"begun-{number}") for number, client in enumerate(clients)]
        postgres.stop()
        for client, media, upload in zip(clients, finished, begun, strict=True):
            for work in (
                lambda one=client: one.begin(3, "without-it"),
                lambda one=client, at=media: one.look(at),
                lambda one=client, at=upload: one.resume(at),
                lambda one=client, at=upload: one.send(at, 0, b"abc"),
            ):
                with pytest.raises(Exception) as caught:  # noqa: PT011 - each dialect has its own
                    work()
                assert is_temporary(caught.value), caught.value
                assert not any(word in str(caught.value).lower() for word in ("postgres", "sql"))
        postgres.start()
        for client, media, upload in zip(clients, finished, begun, strict=True):
            assert persistently(lambda one=client, at=media: one.look(at)) == 3
            persistently(lambda one=client, at=upload: one.send(at, 0, b"abc"))
            assert client.read(client.finish(upload)) == b"abc"


# Tencent Cloud VOD


class Turns:
    """Looks like a server, and is another node each time."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.turn = itertools.count()
        self.admin_key = nodes[0].admin_key

    def next(self):
        alive = [node for node in self.nodes if node.process and node.process.poll() is None]
        return alive[next(self.turn) % len(alive)]

    @property
    def url(self):
        return self.next().url

    @property
    def object_url(self):
        return self.next().object_url


def object_key(data, kind="video"):
    return data[kind]["url"].split("/vod-1250000000/", 1)[1]


def read_object(node, key, bucket="vod-1250000000"):
    return ObjectServer.client(node).get_object(Bucket=bucket, Key=key)["Body"].read()


def test_tencents_sdks_meet_another_node_with_each_request(cluster):
    turns = Turns(cluster.nodes)
    for sdk in [ugc.VodJS, ugc.Android]:
        data = sdk(turns, ugc.signer(turns)).upload(VIDEO, COVER)
        for node in cluster.nodes:
            assert read_object(node, object_key(data)) == VIDEO
            assert read_object(node, object_key(data, "cover")) == COVER


def test_an_android_app_goes_on_at_another_node(cluster, dying):
    client = ugc.Android(Turns(cluster.nodes), ugc.signer(Turns(cluster.nodes)))
    assert client.upload(VIDEO, stop_after=2) is None
    dying.kill()
    assert read_object(cluster.nodes[1], object_key(client.upload(VIDEO))) == VIDEO


def test_nodes_agree_on_one_use_of_a_signature(cluster):
    turns = Turns(cluster.nodes)
    once = ugc.signer(turns, oneTimeValid=True)()

    def begin(_):
        try:
            ugc.VodJS(turns, lambda: once).apply(ugc.announced(3))
        except ugc.Refused as error:
            return error.code
        return 0

    with ThreadPoolExecutor(50) as pool:
        codes = list(pool.map(begin, range(50)))
    assert sorted(codes) == [0] + [10021] * 49


def test_app_servers_of_tencent_may_ask_any_node(cluster, make_file):
    turns, pair = Turns(cluster.nodes), own_pair(cluster.nodes[0])
    answer = uploaded_by_sdk(turns, pair, make_file("film.mp4", VIDEO), make_file("still.jpg", COVER))
    for node in cluster.nodes:
        found = call(node, pair, "DescribeMediaInfos", {"FileIds": [answer["FileId"]]})["MediaInfoSet"][0]
        assert read_object(node, found["BasicInfo"]["StoragePath"].removeprefix("/")) == VIDEO
    assert "Error" not in call(cluster.nodes[1], pair, "DeleteMedia", {"FileId": answer["FileId"]})
    prefix = f"vod/1500000000/{answer['FileId']}"
    for node in cluster.nodes:
        objects = ObjectServer.client(node).list_objects_v2(Bucket="vod-1250000000", Prefix=prefix)
        assert objects["KeyCount"] == 0


def test_nodes_give_each_event_of_tencent_to_one_that_asks(cluster):
    turns, pair = Turns(cluster.nodes), own_pair(cluster.nodes[0])
    media = {ugc.VodJS(turns, ugc.signer(turns)).upload(b"abc")["fileId"] for _ in range(20)}
    found = []
    while not media <= set(found):
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda n: call(cluster.nodes[n % 3], pair, "PullEvents", {}), range(6)))
        events = [event for answer in answers for event in answer.get("EventSet", [])]
        assert events, media - set(found)
        handles = [event["EventHandle"] for event in events]
        for start in range(0, len(handles), 16):
            body = {"EventHandles": handles[start : start + 16]}
            assert "Error" not in call(cluster.nodes[0], pair, "ConfirmEvents", body)
        # Also those of other tests.
        found += [event["FileUploadEvent"]["FileId"] for event in events if event["EventType"] == "NewFileUpload"]
    assert len(found) == len(set(found))


# ApsaraVideo VOD


# Less than the store takes as a part.
ALIYUN_PART = MIB
VIDEO_FIELDS = {"Title": "t", "FileName": "v.mp4"}


@pytest.fixture
def calls(cluster):
    """The calls of each node."""
    pair = cluster.nodes[0].pair()
    return [aliyun_vod.Plain(node, pair) for node in cluster.nodes]


@pytest.mark.skipif("SLUICE_ALIYUN_LONG" not in os.environ, reason="runs with SLUICE_ALIYUN_LONG=1")
@pytest.mark.parametrize("version", ["v1", "v4"])
def test_a_gibibyte_through_three_nodes(cluster, calls, tmp_path, version):
    """With a checkpoint, refreshed at each step; each node gets a third, and one is killed in the middle."""
    block, size = content(MIB, 3), 1 << 30
    path = tmp_path / "film.mp4"
    wanted = hashlib.sha256()
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(block)
            wanted.update(block)
    answer = calls[0]("CreateUploadVideo", **VIDEO_FIELDS, FileSize=size)
    video, key = answer["VideoId"], grant(answer).key
    store = oss2.ResumableStore(root=str(tmp_path / "checkpoints"))
    uploads = set()

    class Enough(Exception):
        pass

    for number, node in enumerate(cluster.nodes):
        most = size if number == 2 else size * (number + 1) // 3

        def progress(done, total, most=most):
            if done >= most and done < total:
                raise Enough

        granted = grant(calls[number]("RefreshUploadVideo", VideoId=video))
        assert granted.key == key
        try:
            oss2.resumable_upload(
                oss(granted, version, node.object_url),
                key,
                str(path),
                store=store,
                multipart_threshold=MIB,
                part_size=8 * MIB,
                progress_callback=progress,
                num_threads=3,
            )
        except Enough:
            listed = ObjectServer.client(node).list_multipart_uploads(Bucket=granted.bucket, Prefix=key)
            uploads |= {one["UploadId"] for one in listed["Uploads"]}
            if number == 0:
                node.kill()
                node.start()
    # None of them began anew.
    assert len(uploads) == 1
    for node, vod in zip(cluster.nodes, calls, strict=True):
        found = vod("GetVideoInfo", VideoId=video)["Video"]
        assert (found["Status"], found["Size"]) == ("Normal", size)
        body = ObjectServer.client(node).get_object(Bucket=grant(answer).bucket, Key=key)["Body"]
        got = hashlib.sha256()
        for chunk in body.iter_chunks(MIB):
            got.update(chunk)
        assert got.digest() == wanted.digest()
    calls[1]("DeleteVideo", VideoIds=video)


def test_sdks_of_apsara_with_a_store(cluster, tmp_path):
    node = cluster.nodes[0]
    path = tmp_path / "film.mp4"
    path.write_bytes(VIDEO)
    done = aliyun_vod.voduploadsdk(node, "video", path)
    for sdk in (aliyun_vod.Core(node), aliyun_vod.Tea(node)):
        assert sdk("GetVideoInfo", VideoId=done["MediaId"])["Video"]["Size"] == len(VIDEO)
        answer = sdk("CreateUploadVideo", **VIDEO_FIELDS)
        for version in ("v1", "v4"):
            if version == "v4":
                # Those of the first upload have ended with it.
                answer = sdk("RefreshUploadVideo", VideoId=answer["VideoId"])
            other = cluster.nodes[1 if version == "v1" else 2]
            store = oss2.ResumableStore(root=str(tmp_path / version))
            oss2.resumable_upload(
                oss(grant(answer), version, other.object_url),
                grant(answer).key,
                str(path),
                store=store,
                multipart_threshold=ALIYUN_PART,
                part_size=ALIYUN_PART,
            )
            assert read_object(node, grant(answer).key, grant(answer).bucket) == VIDEO
        sdk("DeleteVideo", VideoIds=answer["VideoId"])
    answer = aliyun_vod.create(node, "attachedMedia")
    request = oss_v2.PutObjectRequest(grant(answer).bucket, grant(answer).key)
    uploader = aliyun_vod.newer_oss(grant(answer), cluster.nodes[1].object_url).uploader(
        part_size=ALIYUN_PART, parallel_num=2
    )
    uploader.upload_file(request, str(path))
    assert read_object(cluster.nodes[2], grant(answer).key, grant(answer).bucket) == VIDEO


# Vimeo


@pytest.fixture
def front(cluster, cutter):
    """What SDKs take for the API."""
    cutter.plan([])
    return SimpleNamespace(url=cutter.url, admin_key=cluster.admin_key)


@pytest.fixture
def nodes(cluster, request):
    """The calls of each node, with a token of the first one for a user of the test's own."""
    bearer = token(cluster.nodes[0], request.node.name)
    return [Plain(node, bearer) for node in cluster.nodes]


def at(client, link):
    """A link at the node of a client."""
    parts = urlsplit(link)
    return client.server.url + parts.path + (f"?{parts.query}" if parts.query else "")


def head(client, link):
    return requests.head(at(client, link), headers=TUS, timeout=60)


def patch(client, link, offset, data):
    return requests.patch(at(client, link), data=data, headers=TUS_PATCH | {"Upload-Offset": str(offset)}, timeout=60)


def put(client, link, data=b"", content_range=None):
    """The bytes of a link, which needs no token (§1, 11)."""
    fields = {"Content-Range": content_range} if content_range else {}
    return requests.put(at(client, link), data=data, headers=fields, timeout=60)


def probe(client, link):
    answer = put(client, link, content_range="bytes */*")
    assert answer.status_code == 308, answer.text
    return int(answer.headers["Range"].removeprefix("bytes=0-"))


def read(client, link):
    answer = requests.get(at(client, link), timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.content


def show(client, uri):
    answer = client("GET", uri)
    assert answer.status_code == 200, answer.text
    return answer.json()


def assert_available(nodes, uri, data):
    """At all nodes: nodes poll until the store has put the video together."""
    for client in nodes:
        video = until(lambda c=client: (v := show(c, uri))["status"] == "available" and v, timeout=60, interval=0.1)
        assert (video["upload"]["status"], video["transcode"]["status"]) == ("complete", "complete")
        assert read(client, video["files"][0]["link"]) == data
        assert client("GET", uri + "/status").json()["state"] == "ready"


def assert_gone(nodes, *uris):
    for client in nodes:
        for uri in uris:
            assert client("GET", uri).status_code == 404, uri


def listed(client):
    """The videos of the list, which has one page, by their uris."""
    page = client("GET", "/me/videos?per_page=100").json()
    assert page["total"] == len(page["data"])
    return [video["uri"] for video in page["data"]]


def completed(client, ticket):
    """The uri of the video that a ticket has become."""
    answer = client("DELETE", ticket["complete_uri"])
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def arrived(client, uri):
    """Bytes of a video's or ticket's first upload as a node knows them, asked without disturbing the writer."""
    headers = {"Authorization": f"Bearer {client.server.admin_key}"}
    found = requests.get(client.server.url + "/v1/uploads", params={"limit": 100}, headers=headers, timeout=60).json()
    return next((one["offset"] for one in found["uploads"] if one["metadata"].get("vimeo_uri") == uri), 0)


def served(node):
    """Calls of Vimeo's API that a node has served."""
    lines = requests.get(node.url + "/metrics", headers={"Authorization": f"Bearer {node.admin_key}"}, timeout=60).text
    return sum(float(one.rsplit(" ", 1)[1]) for one in lines.splitlines() if one.startswith("sluice_vimeo_calls_total"))


# PyVimeo


@pytest.mark.rows("1.1.2", "0.3.10")
@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_meets_another_node_with_each_request(cluster, front, nodes, make_file, version):
    calls = [served(node) for node in cluster.nodes]
    sdk = PyVimeo(front, version, nodes[0].fields["Authorization"].split()[1])
    image, track = content(500, 3), b"WEBVTT\n"
    options = {"data": {"name": "N", "chunk_size": PIECE}} if version in NEW else {}
    uri = sdk.upload(make_file("video.mp4", VIDEO), **options)
    assert_available(nodes, uri, VIDEO)
    if version in NEW:
        options = {"data": {"chunk_size": PIECE}}
    replaced, _, _, changed, found = sdk.calls(
        ["replace", [uri, make_file("other.mp4", OTHER)], options],
        ["upload_picture", [uri, make_file("cover.jpg", image)], {"activate": True}],
        ["upload_texttrack", [uri, "captions", "en-US", make_file("sub.vtt", track)], {}],
        ["patch", [uri], {"data": {"description": "D"}}],
        ["get", [uri], {}],
    )
    assert replaced == uri
    assert (changed["status"], found["status"]) == (200, 200)
    assert_available(nodes, uri, OTHER)
    for client in nodes:
        video = show(client, uri)
        assert video["description"] == "D"
        assert read(client, video["pictures"]["sizes"][0]["link"]) == image
        [text] = client("GET", uri + "/texttracks").json()["data"]
        assert (text["type"], text["language"], text["name"]) == ("captions", "en-US", "sub.vtt")
        assert read(client, text["hls_link"]) == track
        assert listed(client) == [uri]
    assert [one["status"] for one in sdk.calls(["delete", [uri], {}], ["get", [uri], {}])] == [204, 404]
    assert_gone(nodes, uri, video["pictures"]["uri"], text["uri"])
    assert all(served(node) > before for node, before in zip(cluster.nodes, calls, strict=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_has_a_file_pulled_once(front, nodes, version):
    """With a raw POST, because `upload` always sends the bytes itself (§4.5, §5.2)."""
    with Origin() as origin:
        resource = origin.add("/clip.mp4", VIDEO, content_type="video/mp4")
        sdk = PyVimeo(front, version, nodes[0].fields["Authorization"].split()[1])
        made = sdk.post("/me/videos", data=pulled(version, origin.url + "/clip.mp4"))
        assert made["status"] == 201
        assert_available(nodes, made["json"]["uri"], VIDEO)
        # All nodes look for what is to be pulled.
        assert len(resource.requests) == 1


def cut_and_killed(sdk, cutter, name, *arguments, **options):
    """Runs a method of PyVimeo until its connection is cut; it would try again after 30 s (§4.3)."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(packages(sdk.version))},
    )
    wanted = {"root": sdk.server.url, "credentials": sdk.credentials, "calls": [[name, arguments, options]]}
    try:
        process.stdin.write(json.dumps(wanted).encode())
        process.stdin.close()
        until(lambda: cutter.done or process.poll() is not None, timeout=120)
        assert process.poll() is None, process.stdout.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("version", NEW)
def test_an_interrupted_tus_upload_goes_on_at_another_node(front, nodes, cutter, make_file, version):
    first, second, third = nodes
    path = make_file("video.mp4", VIDEO)
    sdk = PyVimeo(front, version, first.fields["Authorization"].split()[1])
    # In the second chunk; the heads of requests count, too.
    cutter.plan([3 * PIECE])
    cut_and_killed(sdk, cutter, "upload", path, data={"chunk_size": 2 * PIECE})
    [uri] = listed(second)
    # Whoever asks for the offset takes the upload over from its writer, which may still have bytes to store.
    until(lambda: max(arrived(client, uri) for client in nodes) > 2 * PIECE, timeout=60)
    link = show(third, uri)["upload"]["upload_link"]
    # Not only whole chunks: bytes of the broken PATCH stay.
    kept = int(head(second, link).headers["Upload-Offset"])
    assert 2 * PIECE < kept < 3 * PIECE
    assert show(first, uri)["status"] == "uploading"
    uploader = TusClient(second.server.url).uploader(path, url=at(third, link), chunk_size=2 * PIECE)
    assert uploader.offset == kept
    uploader.upload()
    assert_available(nodes, uri, VIDEO)


@pytest.mark.parametrize("version", OLD)
def test_an_interrupted_ticket_goes_on_at_another_node(front, nodes, cutter, cluster, make_file, version):
    first, second, third = nodes
    sdk = PyVimeo(front, version, first.fields["Authorization"].split()[1])
    cutter.plan([2 * PIECE])
    with pytest.raises(Failed) as caught:
        sdk.upload(make_file("video.mp4", VIDEO))
    assert caught.value.name == "ConnectionError"
    assert listed(first) == []
    subject = first("GET", "/me").json()["name"]
    [upload] = cluster.api.get("/v1/uploads", params={"subject": subject}).json()["uploads"]
    made = upload["metadata"]["vimeo_uri"]
    user = first("GET", "/me").json()["uri"]
    ticket = second("GET", made.replace("/videos/", f"{user}/uploads/")).json()
    # Until its writer has stored them, other nodes do not know the bytes.
    until(lambda: arrived(third, made) > PIECE, timeout=60)
    # As PyVimeo goes on after a timeout: a probe, then the rest (§5.3, §5.4).
    kept = probe(third, ticket["upload_link"])
    assert PIECE < kept < 2 * PIECE
    size = len(VIDEO)
    early = second("DELETE", ticket["complete_uri"])
    assert (early.status_code, early.json()["error_code"]) == (400, 4011)
    answer = put(first, ticket["upload_link"], VIDEO[kept:], f"bytes: {kept}-{size}/{size}")
    assert (answer.status_code, answer.content) == (200, b"")
    assert probe(second, ticket["upload_link"]) == size
    uri = completed(third, ticket)
    assert_available(nodes, uri, VIDEO)
    assert [listed(client) for client in nodes] == [[uri]] * 3


# Step by step


def test_another_file_is_shown_by_all_nodes_once_it_is_complete(nodes):
    first, second, third = nodes
    made = second.create(len(VIDEO))
    uri = made["uri"]
    assert patch(first, made["upload"]["upload_link"], 0, VIDEO).status_code == 204
    assert_available(nodes, uri, VIDEO)
    body = {"file_name": "other.mp4", "upload": {"approach": "tus", "size": len(OTHER)}}
    made = third("POST", uri + "/versions", json=body)
    assert made.status_code == 201, made.text
    link = made.json()["upload"]["upload_link"]
    assert patch(first, link, 0, OTHER[:PIECE]).status_code == 204
    assert_available(nodes, uri, VIDEO)
    assert patch(second, link, PIECE, OTHER[PIECE:]).status_code == 204
    assert_available(nodes, uri, OTHER)
    assert first("DELETE", uri).status_code == 204
    assert_gone(nodes, uri, uri + "/versions")
    assert [head(client, link).status_code for client in nodes] == [404] * 3


def test_each_step_of_a_ticket_that_replaces_is_made_at_another_node(nodes):
    first, second, third = nodes
    video = third.create(len(OTHER), "streaming")
    assert put(first, video["upload"]["upload_link"], OTHER).status_code == 200
    assert_available(nodes, video["uri"], OTHER)
    made = second("PUT", video["uri"] + "/files", json={"type": "streaming"}, headers={"Accept": "*/*"})
    assert made.status_code == 201, made.text
    ticket, size = made.json(), len(VIDEO)
    for number, offset in enumerate(range(0, size, PIECE)):
        assert [probe(client, ticket["upload_link"]) for client in nodes] == [offset] * 3
        piece = VIDEO[offset : offset + PIECE]
        answer = put(nodes[number % 3], ticket["upload_link"], piece, f"bytes {offset}-{size}/{size}")
        assert answer.status_code == 200, answer.text
    assert first("GET", ticket["uri"]).json()["upload_link"] == ticket["upload_link"]
    # Repeated: a client does not know whether its answer was lost.
    assert [completed(client, ticket) for client in nodes] == [video["uri"]] * 3
    assert_available(nodes, video["uri"], VIDEO)
    assert [listed(client) for client in nodes] == [[video["uri"]]] * 3


def test_each_step_of_pictures_and_text_tracks_is_made_at_another_node(nodes):
    first, second, third = nodes
    uri = first.create(0)["uri"]
    for name, body in (("pictures", {}), ("texttracks", {"type": "captions", "language": "en"})):
        made = second("POST", f"{uri}/{name}", json=body)
        assert made.status_code == 201, made.text
        made = made.json()
        data = b"before"
        assert put(first, made["link"], data).status_code == 200
        # At each node: the same bytes are a repetition, and a link takes no others.
        for client in nodes:
            assert put(client, made["link"], data).status_code == 200
            assert put(client, made["link"], b"after").status_code == 409
        assert second("PATCH", made["uri"], json={"active": True}).json()["active"] is True
        for client in nodes:
            found = show(client, made["uri"])
            assert found["active"] is True
            assert read(client, found["sizes"][0]["link"] if name == "pictures" else found["hls_link"]) == data
        assert third("DELETE", made["uri"]).status_code == 204
        assert_gone(nodes, made["uri"])
        for client in nodes:
            assert put(client, made["link"], b"x").status_code == 404
            assert client("GET", f"{uri}/{name}").json()["total"] == 0


def test_an_ended_token_is_ended_at_all_nodes(nodes):
    assert [client("GET", "/me").status_code for client in nodes] == [200] * 3
    assert nodes[1]("DELETE", "/tokens").status_code == 204
    assert [client("GET", "/me").status_code for client in nodes] == [401] * 3


# Two PUTs


def begun(client, approach, size):
    """A ticket or a video, the uri in its upload's metadata, and the link of its bytes."""
    if approach == "ticket":
        made = client.ticket()
        return made, f"/videos/{made['ticket_id']}", made["upload_link"]
    made = client.create(size, approach)
    return made, made["uri"], made["upload"]["upload_link"]


def target(link):
    return urlsplit(link).path


@pytest.mark.parametrize("sent", [1000, PART + 1000])
@pytest.mark.parametrize("approach", ["ticket", "streaming"])
def test_of_two_puts_at_two_nodes_the_newer_wins(nodes, approach, sent):
    first, second, third = nodes
    older, newer = content(len(VIDEO), 4), VIDEO
    made, uri, link = begun(third, approach, len(newer))
    with Wire(first.server.address, timeout=60) as wire:
        wire.request("PUT", target(link), [("Content-Length", len(older))])
        wire.send(older[:sent])
        # Its bytes have arrived: then it is the older one.
        until(lambda: arrived(first, uri) >= sent, timeout=30)
        assert put(second, link, newer).status_code == 200
        # It is told that it failed, or loses its connection.
        with contextlib.suppress(Closed, OSError):
            wire.send(older[sent:])
            assert wire.reply("PUT").status >= 400
    if approach == "ticket":
        assert probe(third, link) == len(newer)
        uri = completed(third, made)
    assert_available(nodes, uri, newer)


def test_puts_at_once_are_never_mixed(nodes):
    """Six nodes with different bytes and one link, at three nodes; each tries until it is told that it succeeded."""
    contents = [content(2 * MIB, number) for number in range(6)]
    ticket = nodes[0].ticket()

    def send(number):
        def succeeded():
            try:
                answer = put(nodes[number % 3], ticket["upload_link"], contents[number])
            except requests.ConnectionError:
                return False
            assert answer.status_code in (200, 409, 423), answer.text
            return answer.status_code == 200

        until(succeeded, timeout=120, interval=0.05 * (number + 1))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    assert [probe(client, ticket["upload_link"]) for client in nodes] == [2 * MIB] * 3
    uri = completed(nodes[1], ticket)
    found = read(nodes[2], show(nodes[2], uri)["files"][0]["link"])
    assert found in contents
    assert_available(nodes, uri, found)


# Nodes that die


def persist(work, *statuses):
    """The first answer with one of these statuses; until the claims of a dead node end, the others ask to wait."""

    def answered():
        answer = work()
        if answer.status_code in statuses:
            return answer
        assert answer.status_code in (409, 423, 503), answer.text
        return None

    return until(answered, timeout=120, interval=0.2)


@pytest.mark.parametrize("sent", [MIB + 1000, PART + 1000])
def test_a_node_dies_in_the_middle_of_a_patch(nodes, dying, sent):
    first, second, third = nodes
    made = second.create(len(VIDEO))
    link = made["upload"]["upload_link"]
    assert patch(third, link, 0, VIDEO[:PIECE]).status_code == 204
    with Wire(dying.address, timeout=60) as wire:
        wire.request("PATCH", target(link), patch_fields(PIECE, len(VIDEO) - PIECE))
        wire.send(VIDEO[PIECE:sent])
        until(lambda: arrived(first, made["uri"]) >= sent, timeout=30)
        dying.kill()
    answer = persist(lambda: head(second, link), 200)
    kept = int(answer.headers["Upload-Offset"])
    # What was acknowledged is there; what was not may be.
    assert PIECE <= kept <= sent
    assert patch(third, link, kept, VIDEO[kept:]).status_code == 204
    assert_available([second, third], made["uri"], VIDEO)
    assert listed(second) == [made["uri"]]
