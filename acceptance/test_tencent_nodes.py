"""Upload SDKs of Tencent Cloud VOD with several gateways, with gateways that are killed, and without a database."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest
import requests

from harness.daemon import free_port, free_ports
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.postgres import Postgres
from harness.relay import Cluster
from harness.ugc import Android, Refused, VodJS, announced, signer
from harness.vod_api import call, own_pair, upload
from harness.wire import until

BUCKET = "vod-1250000000"
VIDEO = content(3 * MIB + 77, 1)
COVER = content(2 * KIB, 2)


def object_key(data, kind="video"):
    return data[kind]["url"].split(f"/{BUCKET}/", 1)[1]


class Turns:
    """Looks like a server, and is another node each time."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.turn = count()
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


@pytest.fixture
def cluster(rgw, postgres, bucket_name, tmp_path):
    ports = free_ports(3)
    each = {
        number: {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}", "SLUICE_TENCENT_EVENTS": "pull"}
        for number, port in enumerate(ports)
    }
    # It checks who answers, so URLs of the commit lead to the object endpoint of the asked node.
    with Cluster(tmp_path, rgw, bucket_name, postgres.make_database(), each=each) as made:
        yield made
    rgw.wipe(bucket_name)


def read(node, key):
    return ObjectServer.client(node).get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_any_node_serves_any_call(cluster):
    turns = Turns(cluster.nodes)
    for sdk in [VodJS, Android]:
        data = sdk(turns, signer(turns)).upload(VIDEO, COVER)
        for node in cluster.nodes:
            assert read(node, object_key(data)) == VIDEO
            assert read(node, object_key(data, "cover")) == COVER


def test_an_upload_goes_on_at_another_node(cluster):
    turns = Turns(cluster.nodes)
    client = Android(turns, signer(turns))
    assert client.upload(VIDEO, stop_after=2) is None
    cluster.nodes[0].kill()
    data = client.upload(VIDEO)
    assert read(cluster.nodes[1], object_key(data)) == VIDEO


def test_nodes_agree_on_one_commit_and_one_use(cluster):
    turns = Turns(cluster.nodes)
    client = VodJS(turns, signer(turns))
    client.apply(announced(3))
    client.send_file(client.applied["video"]["storagePath"], b"abc")
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: client.commit()["fileId"], range(20)))
    assert len(set(found)) == 1
    once = signer(turns, oneTimeValid=True)()

    def begin(_):
        try:
            VodJS(turns, lambda: once).apply(announced(3))
        except Refused as error:
            return error.code
        return 0

    with ThreadPoolExecutor(50) as pool:
        codes = list(pool.map(begin, range(50)))
    assert sorted(codes) == [0] + [10021] * 49


def test_app_servers_may_ask_any_node(cluster, tmp_path):
    turns, pair = Turns(cluster.nodes), own_pair(cluster.nodes[0])
    (tmp_path / "film.mp4").write_bytes(VIDEO)
    (tmp_path / "still.jpg").write_bytes(COVER)
    answer = upload(turns, pair, tmp_path / "film.mp4", tmp_path / "still.jpg")
    for node in cluster.nodes:
        found = call(node, pair, "DescribeMediaInfos", {"FileIds": [answer["FileId"]]})["MediaInfoSet"][0]
        key = found["BasicInfo"]["StoragePath"].removeprefix("/")
        assert read(node, key) == VIDEO
        assert read(node, found["BasicInfo"]["CoverUrl"].split(f"/{BUCKET}/", 1)[1]) == COVER
    assert "Error" not in call(cluster.nodes[1], pair, "DeleteMedia", {"FileId": answer["FileId"]})
    for node in cluster.nodes:
        found = call(node, pair, "DescribeMediaInfos", {"FileIds": [answer["FileId"]]})
        assert found["NotExistFileIdSet"] == [answer["FileId"]]
        objects = ObjectServer.client(node).list_objects_v2(Bucket=BUCKET, Prefix=f"vod/1500000000/{answer['FileId']}")
        assert objects["KeyCount"] == 0


def test_nodes_give_each_event_to_one_that_asks(cluster):
    turns, pair = Turns(cluster.nodes), own_pair(cluster.nodes[0])
    made = {VodJS(turns, signer(turns)).upload(b"abc")["fileId"] for _ in range(20)}
    found = []
    while len(found) < len(made):
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda n: call(cluster.nodes[n % 3], pair, "PullEvents", {}), range(6)))
        events = [event for answer in answers for event in answer["EventSet"]]
        assert events, f"{len(found)} of {len(made)}"
        handles = [event["EventHandle"] for event in events]
        for start in range(0, len(handles), 16):
            body = {"EventHandles": handles[start : start + 16]}
            assert "Error" not in call(cluster.nodes[0], pair, "ConfirmEvents", body)
        found += [event["FileUploadEvent"]["FileId"] for event in events]
    assert sorted(found) == sorted(made)


def test_without_a_database_clients_are_asked_to_try_again(tmp_path):
    with Postgres() as postgres:
        environment = postgres.environment(tmp_path) | {"SLUICE_TENCENT_APPLIES_PER_SECOND": "1000"}
        with ObjectServer(tmp_path / "data", free_port(), environment) as server:
            kept = signer(server)()
            client = VodJS(server, lambda: kept)
            client.apply(announced(3))
            client.send_file(client.applied["video"]["storagePath"], b"abc")
            postgres.stop()
            for action, more in [
                ("ApplyUploadUGC", announced(3)),
                ("ApplyUploadUGC", {"vodSessionKey": client.applied["vodSessionKey"]}),
                ("CommitUploadUGC", {"vodSessionKey": client.applied["vodSessionKey"]}),
            ]:
                answer = requests.post(
                    f"{server.url}/v3/index.php?Action={action}", json={"signature": kept} | more, timeout=60
                )
                assert (answer.status_code, answer.json()["code"]) == (503, 503), answer.text
                assert "Postgres" not in answer.text and "sql" not in answer.text.lower()
            postgres.start()

            def works():
                try:
                    return client.commit()
                except Refused as error:
                    assert error.code == 503
                    return None

            data = until(works, timeout=60, interval=0.2)
            assert read(server, object_key(data)) == b"abc"


class Uploader(threading.Thread):
    """Uploads without end until it is asked to stop; survives the deaths of the gateway, and remembers."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server = server
        self.generator = random.Random(seed)
        self.stopping = threading.Event()
        # File id, video and cover of each committed upload.
        self.done = []
        self.failure = None
        self.calls = {"apply": 0, "send": 0, "commit": 0}
        self.activity = "apply"

    def run(self):
        try:
            while not self.stopping.is_set():
                self.upload()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error

    def persist(self, activity, work):
        """Repeats what the end of a connection has interrupted, as SDKs do."""
        self.activity = activity
        deadline = time.monotonic() + 120
        while True:
            try:
                return work()
            except (requests.ConnectionError, requests.Timeout) as error:
                assert time.monotonic() < deadline, error
                time.sleep(0.02)
            except Refused as error:
                assert error.code == 503 and time.monotonic() < deadline, error
                time.sleep(0.02)

    def upload(self):
        video = content(self.generator.choice([1, MIB, 2 * MIB + 5]), self.generator.randrange(1 << 30))
        cover = content(KIB, self.generator.randrange(1 << 30)) if self.generator.random() < 0.5 else None
        client = VodJS(self.server, signer(self.server))
        self.persist("apply", lambda: client.apply(announced(len(video), cover and len(cover))))
        files = {kind: data for kind, data in [("video", video), ("cover", cover)] if data is not None}
        paths = {kind: client.applied[kind]["storagePath"] for kind in files}
        key = client.applied["vodSessionKey"]
        for kind, data in files.items():
            self.send(client, paths[kind], data)
        # Resumed before the commit, as after a restart of the app: nothing changes.
        again = self.persist("apply", lambda: client.apply({"vodSessionKey": key}))
        assert again["video"]["storagePath"] == paths["video"]
        found = {self.persist("commit", lambda: client.commit(key))["fileId"] for _ in range(2)}
        assert len(found) == 1
        data = self.persist("commit", lambda: client.commit(key))
        self.done.append((data, video, cover))

    def send(self, client, path, data):
        """All parts in turn; each acknowledged one must still be there afterwards."""
        upload = self.persist("send", lambda: client.initiate(path))
        tags = {}
        for start in range(0, len(data), MIB):
            number = start // MIB + 1
            piece = data[start : start + MIB]
            tags[number] = self.persist("send", lambda n=number, p=piece: client.put_part(path, upload, n, p))
            assert self.persist("send", lambda: client.parts(path, upload)) == tags

        def complete():
            try:
                client.complete(path, upload, tags)
            except Refused as error:
                # As Android: it may be complete already.
                if error.code != "NoSuchUpload":
                    raise

        self.persist("send", complete)


def test_no_acknowledged_part_is_lost_and_each_session_makes_one_media(tmp_path, quick, report):
    # More of them by hand: 100 take a minute and a half.
    kills = 5 if quick else int(os.environ.get("SLUICE_VOD_KILLS", 25))
    seed = random.randrange(2**32)
    settings = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}"}
    server = ObjectServer(tmp_path / "data", free_port(), settings).start()
    generator = random.Random(seed)
    # Its ports stay, also while it is dead.
    place = SimpleNamespace(url=server.url, object_url=server.object_url, admin_key=server.admin_key)
    uploaders = [Uploader(place, seed + number) for number in range(2)]
    moments = {"apply": 0, "send": 0, "commit": 0}
    try:
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
        assert len(done) >= 2 and len({data["fileId"] for data, _, _ in done}) == len(done)
        for data, video, cover in done:
            assert read(server, object_key(data)) == video, seed
            assert cover is None or read(server, object_key(data, "cover")) == cover, seed
        report(f"kill -9 while VOD clients upload, seed {seed}: {kills} kills, {moments}, {len(done)} media")
    finally:
        for uploader in uploaders:
            uploader.stopping.set()
        server.kill()
