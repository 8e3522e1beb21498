"""Alibaba Cloud VOD with several gateways, with gateways that are killed, and without a database."""

import hashlib
import itertools
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import alibabacloud_oss_v2 as oss_v2
import oss2
import pytest
import requests

from harness.aliyun_vod import (
    APP,
    Core,
    EventApp,
    Plain,
    Refused,
    Tea,
    create,
    grant,
    newer_oss,
    oss,
    oss_refusal,
    refusal,
    voduploadsdk,
)
from harness.daemon import free_port, free_ports
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.postgres import Postgres
from harness.relay import Cluster
from harness.wire import until

PART = 100 * KIB
VIDEO = content(5 * PART + 77, 1)
VIDEO_FIELDS = {"Title": "t", "FileName": "v.mp4"}
NO_VIDEO = (404, "InvalidVideo.NotFound")


@pytest.fixture
def app():
    with EventApp() as made:
        yield made


@pytest.fixture
def cluster(rgw, postgres, bucket_name, tmp_path, app):
    each = {
        number: {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}", "SLUICE_OBJECT_CALLBACK_HOSTS": app.host}
        for number, port in enumerate(free_ports(3))
    }
    with Cluster(tmp_path, rgw, bucket_name, postgres.make_database(), each=each) as made:
        yield made
    rgw.wipe(bucket_name)


@pytest.fixture
def calls(cluster):
    """The calls of each node."""
    pair = cluster.nodes[0].pair()
    return [Plain(node, pair) for node in cluster.nodes]


def read(node, granted):
    return ObjectServer.client(node).get_object(Bucket=granted.bucket, Key=granted.key)["Body"].read()


def subscribed(vod, app):
    vod("SetMessageCallback", CallbackType="HTTP", CallbackURL=app.url + "/events", EventTypeList="ALL")


def told(app, media):
    """What the app knows of a media: each kind and size once, in order."""
    events = [(event.type, event.payload.get("Size")) for event in app.of(media)]
    return [one for one, _ in itertools.groupby(events)]


def test_each_step_is_made_by_another_node(cluster, calls, app):
    subscribed(calls[2], app)
    first, second, third = cluster.nodes
    answer = calls[0]("CreateUploadVideo", **VIDEO_FIELDS, ReferenceId="steps-1")
    granted, video = grant(answer), answer["VideoId"]
    key = granted.key
    upload = oss(granted, endpoint=second.object_url).init_multipart_upload(key).upload_id
    fresh = calls[1]("RefreshUploadVideo", VideoId=video)
    assert fresh["VideoId"] == video and grant(fresh).key == key
    assert calls[2]("RefreshUploadVideo", ReferenceId="steps-1")["VideoId"] == video
    parts = []
    for number in range(1, 7):
        node = cluster.nodes[number % 3]
        bucket = oss(grant(fresh) if number > 3 else granted, endpoint=node.object_url)
        piece = VIDEO[(number - 1) * PART : number * PART]
        parts.append(oss2.models.PartInfo(number, bucket.upload_part(key, upload, number, piece).etag))
        for other in cluster.nodes:
            listed = oss(grant(fresh), endpoint=other.object_url).list_parts(key, upload).parts
            assert [one.part_number for one in listed] == list(range(1, number + 1))
    oss(grant(fresh), endpoint=third.object_url).complete_multipart_upload(key, upload, parts)
    # Its answer may have been lost.
    oss(granted, endpoint=first.object_url).complete_multipart_upload(key, upload, parts)
    for node, vod in zip(cluster.nodes, calls, strict=True):
        assert read(node, granted) == VIDEO
        found = vod("GetVideoInfo", VideoId=video)["Video"]
        assert (found["Status"], found["Size"]) == ("Normal", len(VIDEO))
        (stream,) = vod("GetPlayInfo", VideoId=video)["PlayInfoList"]["PlayInfo"]
        assert requests.get(stream["PlayURL"]).content == VIDEO
    calls[1]("DeleteVideo", VideoIds=video)
    for vod in calls:
        assert refusal(vod, "GetVideoInfo", VideoId=video) == NO_VIDEO
    app.wait(video, "DeleteMediaComplete")
    assert told(app, video) == [("FileUploadComplete", len(VIDEO)), ("DeleteMediaComplete", None)]


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


def test_sdks_with_a_store(cluster, tmp_path):
    node = cluster.nodes[0]
    path = tmp_path / "film.mp4"
    path.write_bytes(VIDEO)
    done = voduploadsdk(node, "video", path)
    for sdk in (Core(node), Tea(node)):
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
                multipart_threshold=PART,
                part_size=PART,
            )
            assert read(node, grant(answer)) == VIDEO
        sdk("DeleteVideo", VideoIds=answer["VideoId"])
    answer = create(node, "attachedMedia")
    request = oss_v2.PutObjectRequest(grant(answer).bucket, grant(answer).key)
    uploader = newer_oss(grant(answer), cluster.nodes[1].object_url).uploader(part_size=PART, parallel_num=2)
    uploader.upload_file(request, str(path))
    assert read(cluster.nodes[2], grant(answer)) == VIDEO


def test_an_upload_goes_on_after_its_node_died(cluster, calls, app):
    subscribed(calls[0], app)
    answer = calls[0]("CreateUploadVideo", **VIDEO_FIELDS)
    granted = grant(answer)
    bucket = oss(granted, endpoint=cluster.nodes[0].object_url)
    upload = bucket.init_multipart_upload(granted.key).upload_id
    parts = [oss2.models.PartInfo(1, bucket.upload_part(granted.key, upload, 1, VIDEO[:PART]).etag)]
    cluster.nodes[0].kill()
    fresh = grant(calls[1]("RefreshUploadVideo", VideoId=answer["VideoId"]))
    bucket = oss(fresh, endpoint=cluster.nodes[2].object_url)
    assert [one.part_number for one in bucket.list_parts(granted.key, upload).parts] == [1]
    parts.append(oss2.models.PartInfo(2, bucket.upload_part(granted.key, upload, 2, VIDEO[PART:]).etag))
    bucket.complete_multipart_upload(granted.key, upload, parts)
    assert read(cluster.nodes[1], granted) == VIDEO
    # The claim of the killed process may have to end.
    app.wait(answer["VideoId"], "FileUploadComplete", timeout=120)


def test_nodes_agree(cluster, calls):
    fields = VIDEO_FIELDS | {"ReferenceId": "agreed-1"}
    with ThreadPoolExecutor(15) as pool:
        made = list(pool.map(lambda n: refusal(calls[n % 3], "CreateUploadVideo", **fields), range(15)))
        assert made.count(None) == 1
        again = list(pool.map(lambda n: calls[n % 3]("RefreshUploadVideo", ReferenceId="agreed-1"), range(15)))
        assert len({one["VideoId"] for one in again}) == 1 == len({grant(one).key for one in again})
        granted = grant(again[0])
        bucket = oss(granted, endpoint=cluster.nodes[0].object_url)
        upload = bucket.init_multipart_upload(granted.key).upload_id
        parts = [oss2.models.PartInfo(1, bucket.upload_part(granted.key, upload, 1, VIDEO).etag)]

        def complete(number):
            one = oss(granted, endpoint=cluster.nodes[number % 3].object_url)
            return one.complete_multipart_upload(granted.key, upload, parts).etag

        assert len(set(pool.map(complete, range(15)))) == 1
    assert [vod("SearchMedia", Match=f"AppId = '{APP}'")["Total"] for vod in calls] == [1, 1, 1]


def test_events_of_several_nodes_come_in_order(cluster, calls, app):
    subscribed(calls[0], app)

    def life(number):
        node = itertools.cycle([0, 1, 2][number % 3 :] + [0, 1, 2][: number % 3])
        answer = calls[next(node)]("CreateUploadVideo", **VIDEO_FIELDS)
        video = answer["VideoId"]
        for size in (number + 1, number + 100, number + 1):
            granted = grant(calls[next(node)]("RefreshUploadVideo", VideoId=video))
            bucket = oss(granted, endpoint=cluster.nodes[next(node)].object_url)
            bucket.put_object(granted.key, b"x" * size)
        calls[next(node)]("DeleteVideo", VideoIds=video)
        return video

    with ThreadPoolExecutor(6) as pool:
        videos = list(pool.map(life, range(18)))
    for number, video in enumerate(videos):
        app.wait(video, "DeleteMediaComplete")
        sizes = (number + 1, number + 100, number + 1)
        wanted = [("FileUploadComplete", size) for size in sizes] + [("DeleteMediaComplete", None)]
        assert told(app, video) == wanted, app.of(video)


def test_without_a_database_clients_are_asked_to_try_again(tmp_path):
    with Postgres() as postgres:
        with ObjectServer(tmp_path / "data", free_port(), postgres.environment(tmp_path)) as server:
            pair = server.pair()
            vod = Plain(server, pair)
            answer = vod("CreateUploadVideo", **VIDEO_FIELDS)
            granted = grant(answer)
            oss(granted).put_object(granted.key, VIDEO)
            postgres.stop()
            for action, parameters in [
                ("CreateUploadVideo", VIDEO_FIELDS),
                ("RefreshUploadVideo", {"VideoId": answer["VideoId"]}),
                ("GetVideoInfo", {"VideoId": answer["VideoId"]}),
            ]:
                response = vod.answer(action, parameters)
                assert response.status_code == 503 and response.json()["Code"] == "ServiceUnAvailable", response.text
                assert "Postgres" not in response.text and "sql" not in response.text.lower()
            found = oss_refusal(oss(granted).put_object, granted.key, b"1")
            assert found[0] in (500, 503)
            postgres.start()

            def works():
                try:
                    return vod("GetVideoInfo", VideoId=answer["VideoId"])
                except Refused as error:
                    assert error.status == 503
                    return None

            assert until(works, timeout=60, interval=0.2)["Video"]["Status"] == "Normal"
            assert read(server, granted) == VIDEO


class Uploader(threading.Thread):
    """Uploads without end until it is asked to stop; survives the deaths of the gateway, and remembers."""

    def __init__(self, place, pair, seed):
        super().__init__(daemon=True)
        self.place = place
        self.vod = Plain(place, pair)
        self.seed = seed
        self.generator = random.Random(seed)
        self.stopping = threading.Event()
        # Of each media: its id, where it is, its bytes (`None` once it is deleted), and what the app must be told.
        self.done = []
        self.failure = None
        self.activity = "create"

    def run(self):
        try:
            for number in itertools.count():
                if self.stopping.is_set():
                    return
                self.upload(f"kill-{self.seed}-{number}")
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error

    def persist(self, activity, work):
        """Repeats what the end of a connection has interrupted, as apps do."""
        self.activity = activity
        deadline = time.monotonic() + 120
        while True:
            try:
                return work()
            except (requests.ConnectionError, requests.Timeout, oss2.exceptions.RequestError) as error:
                assert time.monotonic() < deadline, error
            except (Refused, oss2.exceptions.ServerError) as error:
                if error.status != 503:
                    raise
                assert time.monotonic() < deadline, error
            time.sleep(0.02)

    def create(self, reference):
        """If the answer was lost, the media is known by its reference; `None` if it was never made."""
        try:
            return self.vod("CreateUploadVideo", **VIDEO_FIELDS, ReferenceId=reference)
        except Refused as error:
            if error.code != "InvalidReferenceId.Duplicated":
                raise
        try:
            return self.vod("RefreshUploadVideo", ReferenceId=reference)
        except Refused as error:
            if error.code != "InvalidVideo.NotFound":
                raise
            return None

    def delete(self, video):
        try:
            self.vod("DeleteVideo", VideoIds=video)
        except Refused as error:
            # The answer to the first try may have been lost.
            if error.code != "InvalidVideo.NotFound":
                raise

    def upload(self, reference):
        answer = self.persist("create", lambda: self.create(reference))
        if answer is None:
            # The gateway died before it had made the media, and keeps the reference for a while.
            return
        video = answer["VideoId"]
        data = self.send(answer)
        wanted = [("FileUploadComplete", len(data))]
        if self.generator.random() < 0.3:
            data = self.send(answer, other_than=len(data))
            wanted.append(("FileUploadComplete", len(data)))
        if self.generator.random() < 0.3:
            self.persist("delete", lambda: self.delete(video))
            found = self.persist("delete", lambda: refusal(self.vod, "GetVideoInfo", VideoId=video))
            assert found == NO_VIDEO, found
            data = None
            wanted.append(("DeleteMediaComplete", None))
        self.done.append((video, grant(answer), data, wanted))

    def send(self, answer, other_than=None):
        """The bytes, by one request or in parts, with new credentials in the middle."""
        sizes = [size for size in (1, PART, 3 * PART + 5, MIB) if size != other_than]
        data = content(self.generator.choice(sizes), self.generator.randrange(1 << 30))
        video, granted = answer["VideoId"], grant(answer)
        key = granted.key

        def refreshed():
            again = self.persist("refresh", lambda: self.vod("RefreshUploadVideo", VideoId=video))
            assert again["VideoId"] == video and grant(again).address == granted.address
            return oss(grant(again))

        if len(data) <= PART:
            bucket = refreshed()
            self.persist("put", lambda: bucket.put_object(key, data))
        else:
            # The first credentials end with the first upload.
            bucket = oss(granted) if other_than is None else refreshed()
            upload = self.persist("begin", lambda: bucket.init_multipart_upload(key).upload_id)
            tags = {}
            for start in range(0, len(data), PART):
                number, piece = start // PART + 1, data[start : start + PART]
                tags[number] = self.part(bucket, key, upload, number, piece)
                listed = self.persist("part", lambda one=bucket: one.list_parts(key, upload).parts)
                # What was acknowledged is there.
                assert {one.part_number: one.etag for one in listed} == tags
                if number == 2:
                    bucket = refreshed()
            parts = [oss2.models.PartInfo(number, tag) for number, tag in tags.items()]
            self.persist("complete", lambda: bucket.complete_multipart_upload(key, upload, parts))
        found = self.persist("complete", lambda: self.vod("GetVideoInfo", VideoId=video))["Video"]
        assert (found["Status"], found["Size"]) == ("Normal", len(data))
        return data

    def part(self, bucket, key, upload, number, piece):
        return self.persist("part", lambda: bucket.upload_part(key, upload, number, piece).etag)


def test_nothing_acknowledged_is_lost_and_every_media_is_told(tmp_path, quick, report):
    # More of them by hand: 100 take about a minute and a half.
    kills = int(os.environ.get("SLUICE_ALIYUN_KILLS", 5 if quick else 10))
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    with EventApp() as app:
        settings = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}", "SLUICE_OBJECT_CALLBACK_HOSTS": app.host}
        server = ObjectServer(tmp_path / "data", free_port(), settings).start()
        uploaders = []
        moments = dict.fromkeys(["create", "refresh", "put", "begin", "part", "complete", "delete"], 0)
        try:
            pair = server.pair()
            # Its ports stay, also while it is dead.
            place = SimpleNamespace(url=server.url, object_url=server.object_url)
            subscribed(Plain(place, pair), app)
            uploaders = [Uploader(place, pair, seed + number) for number in range(2)]
            for uploader in uploaders:
                uploader.start()
            for _ in range(kills):
                time.sleep(generator.uniform(0.02, 0.5))
                for uploader in uploaders:
                    moments[uploader.activity] += 1
                server.kill()
                server.start()
                assert [uploader.failure for uploader in uploaders] == [None, None], seed
            for uploader in uploaders:
                uploader.stopping.set()
            for uploader in uploaders:
                uploader.join(120)
                assert not uploader.is_alive() and uploader.failure is None, (seed, uploader.failure)
            done = [one for uploader in uploaders for one in uploader.done]
            assert len(done) >= 2 and len({video for video, *_ in done}) == len(done)
            for video, granted, data, wanted in done:
                if data is None:
                    assert refusal(Plain(place, pair), "GetVideoInfo", VideoId=video) == NO_VIDEO
                else:
                    assert read(server, granted) == data, seed
                # The claims of killed processes may have to end.
                until(lambda v=video, w=wanted: len(told(app, v)) >= len(w), timeout=180, interval=0.05)
                assert told(app, video) == wanted, (seed, app.of(video))
            alive = sum(data is not None for _, _, data, _ in done)
            assert Plain(place, pair)("SearchMedia", Match=f"AppId = '{APP}'")["Total"] == alive
            report(
                f"kill -9 while videos of Alibaba Cloud VOD are uploaded, seed {seed}: {kills} kills, {moments}, "
                f"{len(done)} media, {len(app.calls)} events"
            )
        finally:
            for uploader in uploaders:
                uploader.stopping.set()
            server.kill()


def test_nothing_is_told_twice_without_need(cluster, calls, app):
    """Three nodes look for events at once; each is posted by one of them."""
    subscribed(calls[0], app)
    videos = []
    for number in range(6):
        answer = calls[number % 3]("CreateUploadVideo", **VIDEO_FIELDS)
        granted = grant(answer)
        oss(granted, endpoint=cluster.nodes[(number + 1) % 3].object_url).put_object(granted.key, b"1")
        videos.append(answer["VideoId"])
    for video in videos:
        app.wait(video, "FileUploadComplete")
    assert [len(app.of(video)) for video in videos] == [1] * 6
