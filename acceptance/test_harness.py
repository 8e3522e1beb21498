"""The harness itself, without the gateway: stores, database, faults and nginx do what the tests rely on."""

import concurrent.futures
import contextlib
import hashlib
import itertools
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import conftest
import pytest
import requests
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, HTTPClientError

from harness import faulty_store as faults
from harness.data import MIB, content, hash_file, sha256, write_file
from harness.faulty_store import FaultyStore
from harness.http_server import LocalServer
from harness.nginx import Nginx
from harness.objects import ObjectStore
from harness.order import SECONDS, longest_first, unit
from harness.rows import left_out
from harness.server import run
from harness.wire import Wire, until

PART = 5 * MIB


def test_the_order_names_tests_that_exist():
    for name in SECONDS:
        file, _, test = name.partition("::")
        text = Path(__file__).with_name(file).read_text()
        assert not test or f"def {test}(" in text, name


def test_the_order_of_units():
    name = next(name for name in SECONDS if "::" in name)
    file = name.partition("::")[0]
    assert unit(f"acceptance/{name}[a-b]") == unit(f"acceptance/{name}") == f"acceptance/{name}"
    assert unit(f"acceptance/{file}::test_other[::]") == f"acceptance/{file}"
    assert longest_first(f"acceptance/{name}[a]") == longest_first(name) == -SECONDS[name]
    assert longest_first("test_not_named.py::test_a") == 0


def test_commands_that_serve_need_no_usual_port(tmp_path):
    """Other programs may use them on this machine."""
    bad = tmp_path / "bad.pem"
    with contextlib.ExitStack() as stack:
        for port in (8080, 9000):
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", port))
                taken.listen()
        environment = {"SLUICE_TLS_CERTIFICATE": str(bad), "SLUICE_TLS_KEY": str(bad)}
        done = run("serve", data=tmp_path / "data", environment=environment, check=False)
    assert done.returncode != 0 and str(bad) in done.stderr


def test_a_worker_has_its_tests_in_that_order():
    """xdist tells workers that nothing is distributed."""
    options = {"dist": "no", "--gate": False}
    items = [SimpleNamespace(nodeid=f"{name}::test_a") for name in ("test_tus.py", "test_cluster.py")]
    for workers, expected in (({}, "test_tus.py"), ({"workerinput": {}}, "test_cluster.py")):
        config = SimpleNamespace(getoption=lambda name, *_: options[name], **workers)
        ordered = list(items)
        conftest.pytest_collection_modifyitems(config, ordered)
        assert ordered[0].nodeid == f"{expected}::test_a"


def code_of(failure):
    return failure.value.response["Error"]["Code"]


def begun(client, bucket, key="k"):
    return client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]


def put_part(client, bucket, upload, number, data, key="k"):
    answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data)
    return {"PartNumber": number, "ETag": answer["ETag"]}


def complete(client, bucket, upload, parts, key="k"):
    return client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


# Stores


@pytest.fixture(params=["rgw", "swift_s3"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def bucket(engine, bucket_name):
    engine.make_bucket(bucket_name)
    yield bucket_name
    engine.wipe(bucket_name)


@pytest.mark.nightly
def test_a_store_keeps_the_uploads_of_boto3(engine, bucket, tmp_path):
    digest = write_file(tmp_path / "file", 20 * MIB + 7, seed=1)
    engine.upload(tmp_path / "file", "a/b c", bucket=bucket)
    assert engine.keys(bucket) == {"a/b c": 20 * MIB + 7}
    assert engine.hashes(bucket) == {"a/b c": (digest, 20 * MIB + 7)}
    with pytest.raises(AssertionError):
        engine.assert_empty(bucket)


def test_multipart_uploads_are_seen_and_wiped(engine, bucket):
    client = engine.client()
    upload = begun(client, bucket)
    put_part(client, bucket, upload, 1, b"x" * PART)
    assert engine.multiparts(bucket) == [("k", upload)]
    assert engine.parts("k", upload, bucket) == {1: PART}
    with pytest.raises(AssertionError):
        engine.assert_empty(bucket)
    engine.wipe(bucket)
    engine.assert_empty(bucket)


def test_a_killed_store_restarts_with_its_objects(engine, bucket):
    engine.client().put_object(Bucket=bucket, Key="k", Body=b"kept")
    engine.kill()
    with pytest.raises(EndpointConnectionError):
        engine.keys(bucket)
    engine.restart()
    assert engine.hashes(bucket) == {"k": (sha256(b"kept"), 4)}


def test_a_paused_store_is_silent(engine, bucket):
    engine.pause()
    try:
        with pytest.raises(HTTPClientError):
            engine.client(read_timeout=0.5).list_objects_v2(Bucket=bucket)
    finally:
        engine.go_on()
    assert engine.keys(bucket) == {}


def test_keys_are_rotated(rgw, bucket_name):
    rgw.make_bucket(bucket_name)
    before = rgw.access_key, rgw.secret_key
    rgw.rotate_keys()
    with pytest.raises(ClientError) as failure:
        rgw.client(access_key=before[0], secret_key=before[1]).list_objects_v2(Bucket=bucket_name)
    assert code_of(failure) == "InvalidAccessKeyId"
    assert rgw.keys(bucket_name) == {}


def test_a_user_is_suspended_or_over_quota(rgw, bucket_name):
    rgw.make_bucket(bucket_name)
    client = rgw.client()
    rgw.suspend()
    try:
        with pytest.raises(ClientError) as failure:
            client.put_object(Bucket=bucket_name, Key="k", Body=b"x")
        assert code_of(failure) == "UserSuspended"
    finally:
        rgw.unsuspend()
    client.put_object(Bucket=bucket_name, Key="k", Body=b"x")
    rgw.set_quota(MIB)
    try:
        with pytest.raises(ClientError) as failure:
            client.put_object(Bucket=bucket_name, Key="k", Body=bytes(2 * MIB))
        assert code_of(failure) == "QuotaExceeded"
    finally:
        rgw.set_quota(None)
    client.put_object(Bucket=bucket_name, Key="k", Body=bytes(2 * MIB))
    rgw.wipe(bucket_name)


# The deviations of the engines, on which tests of the gateway rely


def test_ceph_completes_without_an_etag(rgw, bucket_name):
    rgw.make_bucket(bucket_name)
    client = rgw.client()
    upload = begun(client, bucket_name)
    parts = [put_part(client, bucket_name, upload, 1, b"x")]
    assert not complete(client, bucket_name, upload, parts).get("ETag", "").strip('"')
    assert complete(client, bucket_name, upload, parts)["ETag"].strip('"').endswith("-1")
    # Even a multipart upload that was aborted is completed "again" if the key has an object; else it is an error.
    for key in ("k", "other"):
        upload = begun(client, bucket_name, key)
        client.abort_multipart_upload(Bucket=bucket_name, Key=key, UploadId=upload)
        if key == "k":
            complete(client, bucket_name, upload, parts, key)
            continue
        with pytest.raises(ClientError) as failure:
            complete(client, bucket_name, upload, parts, key)
        assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 500)
    rgw.wipe(bucket_name)


def test_swift_refuses_parts_out_of_order(swift_s3, bucket_name):
    swift_s3.make_bucket(bucket_name)
    client = swift_s3.client()
    upload = begun(client, bucket_name)
    parts = [put_part(client, bucket_name, upload, number, b"x" * PART) for number in (1, 2)]
    with pytest.raises(ClientError) as failure:
        complete(client, bucket_name, upload, parts[::-1])
    assert code_of(failure) == "InvalidPartOrder"
    swift_s3.wipe(bucket_name)


# The proxy


@pytest.fixture
def proxied(rgw, bucket_name):
    """(proxy, client through it, bucket)."""
    rgw.make_bucket(bucket_name)
    with FaultyStore(rgw.port) as proxy:
        yield proxy, rgw.client(proxy.url), bucket_name
    rgw.wipe(bucket_name)


def test_requests_pass_with_their_signatures(engine, bucket, tmp_path):
    with FaultyStore(engine.port) as proxy:
        check_requests(engine, proxy, bucket, tmp_path)


def check_requests(engine, proxy, bucket, tmp_path):
    client = engine.client(proxy.url)
    digest = write_file(tmp_path / "file", 20 * MIB + 7, seed=2)
    engine.upload(tmp_path / "file", "a/b c+ü", bucket=bucket, url=proxy.url)
    assert engine.object_hash("a/b c+ü", bucket) == (digest, 20 * MIB + 7)
    assert proxy.counts() == {"CompleteMultipartUpload": 1, "CreateMultipartUpload": 1, "UploadPart": 3}
    parts = proxy.of("UploadPart")
    assert sorted((call.part, call.received, call.status) for call in parts) == [
        (1, 8 * MIB, 200),
        (2, 8 * MIB, 200),
        (3, 4 * MIB + 7, 200),
    ]
    assert {call.key for call in parts} == {"a/b c+ü"}
    assert all(call.ended > call.began and call.received == call.forwarded == call.length for call in parts)
    answer = client.get_object(Bucket=bucket, Key="a/b c+ü", Range="bytes=5-9")
    with open(tmp_path / "file", "rb") as file:
        assert answer["Body"].read() == file.read(10)[5:]
    client.head_object(Bucket=bucket, Key="a/b c+ü")
    client.list_objects_v2(Bucket=bucket)
    client.list_multipart_uploads(Bucket=bucket)
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a/b c+ü"}]})
    upload = begun(client, bucket)
    client.put_object(Bucket=bucket, Key="source", Body=b"x" * PART)
    client.upload_part_copy(
        Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, CopySource={"Bucket": bucket, "Key": "source"}
    )
    client.list_parts(Bucket=bucket, Key="k", UploadId=upload)
    client.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    names = "GetObject HeadObject ListObjects ListMultipartUploads DeleteObjects PutObject UploadPartCopy ListParts"
    for name in [*names.split(), "AbortMultipartUpload"]:
        assert proxy.count(name) == 1, name
    assert proxy.count("GetObject|HeadObject") == 2
    proxy.forget()
    assert proxy.count() == 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fault",
    [
        faults.Refuse(503, "SlowDown"),
        faults.Refuse(500, "InternalError", early=True),
        faults.Reset(),
        faults.Reset(after=0),
        faults.Drop(),
        faults.LoseAnswer(),
        faults.Hang(1, then_reset=True),
        faults.Hang(1, after_bytes=MIB, then_reset=True),
    ],
    ids=repr,
)
def test_boto3_repeats_a_part_that_failed(rgw, proxied, fault, tmp_path):
    proxy, _, bucket = proxied
    digest = write_file(tmp_path / "file", 15 * MIB, seed=3)
    proxy.fault("UploadPart", fault, part=2)
    client = rgw.client(proxy.url, attempts=4)
    upload, parts = begun(client, bucket), []
    with open(tmp_path / "file", "rb") as file:
        for number in (1, 2, 3):
            parts.append(put_part(client, bucket, upload, number, file.read(PART)))
    complete(client, bucket, upload, parts)
    assert rgw.object_hash("k", bucket) == (digest, 15 * MIB)
    assert [call.fault is not None for call in proxy.of("UploadPart", part=2)] == [True, False]
    assert proxy.count("UploadPart") == 4


def test_a_fault_applies_to_matching_requests(proxied):
    proxy, client, bucket = proxied
    rule = proxy.fault("PutObject", faults.Refuse(503), key="^a", first=2, times=2)
    outcomes = []
    for key in ["a1", "b1", "a2", "b2", "a3", "a4"]:
        try:
            client.put_object(Bucket=bucket, Key=key, Body=b"x")
            outcomes.append(key)
        except ClientError as failure:
            assert failure.response["Error"]["Code"] == "SlowDown"
    assert outcomes == ["a1", "b1", "b2", "a4"]
    assert (rule.seen, rule.met) == (4, 2)
    assert [call.status for call in proxy.of("PutObject")] == [200, 200, 503, 200, 503, 200]
    proxy.fault(".*", faults.Refuse(403, "RequestTimeTooSkewed"), times=float("inf"))
    with pytest.raises(ClientError) as failure:
        client.get_object(Bucket=bucket, Key="a1")
    assert code_of(failure) == "RequestTimeTooSkewed"
    proxy.clear()
    assert client.get_object(Bucket=bucket, Key="a1")["Body"].read() == b"x"


def test_a_lost_part_is_detected_at_completion(rgw, proxied):
    proxy, client, bucket = proxied
    proxy.fault("UploadPart", faults.Lose(), part=2)
    upload = begun(client, bucket)
    parts = [put_part(client, bucket, upload, number, content(PART, number)) for number in (1, 2)]
    assert parts[1]["ETag"].strip('"') == hashlib.md5(content(PART, 2)).hexdigest()
    assert rgw.parts("k", upload, bucket) == {1: PART}
    with pytest.raises(ClientError) as failure:
        complete(client, bucket, upload, parts)
    assert code_of(failure) == "InvalidPart"


def test_a_changed_byte_arrives(rgw, proxied):
    proxy, _, bucket = proxied
    proxy.fault("PutObject", faults.Corrupt(at=70_000))
    # Over plain HTTP boto3 signs the hash of what it sends, which the store compares.
    with pytest.raises(ClientError):
        rgw.client(proxy.url).put_object(Bucket=bucket, Key="k", Body=bytes(100_000))
    assert rgw.keys(bucket) == {}


@pytest.mark.parametrize("declares", [False, True])
def test_a_slow_completion_succeeds(rgw, proxied, declares):
    proxy, client, bucket = proxied
    proxy.fault("CompleteMultipartUpload", faults.SlowBody(0.5, declares=declares))
    upload = begun(client, bucket)
    parts = [put_part(client, bucket, upload, 1, b"x")]
    begin = time.monotonic()
    complete(client, bucket, upload, parts)
    assert time.monotonic() - begin >= 0.5
    assert rgw.keys(bucket) == {"k": 1}


@pytest.mark.parametrize("takes_effect", [False, True])
def test_an_error_in_a_successful_response(rgw, proxied, takes_effect):
    proxy, client, bucket = proxied
    fault = faults.SlowBody(0.3, code="InternalError", takes_effect=takes_effect)
    proxy.fault("CompleteMultipartUpload", fault)
    upload = begun(client, bucket)
    parts = [put_part(client, bucket, upload, 1, b"x")]
    with pytest.raises(ClientError) as failure:
        complete(client, bucket, upload, parts)
    assert code_of(failure) == "InternalError"
    assert proxy.of("CompleteMultipartUpload")[0].status == 200
    assert rgw.keys(bucket) == ({"k": 1} if takes_effect else {})


def test_the_response_to_a_completion_is_lost(rgw, proxied):
    proxy, client, bucket = proxied
    proxy.fault("CompleteMultipartUpload", faults.LoseAnswer())
    upload = begun(client, bucket)
    parts = [put_part(client, bucket, upload, 1, b"x")]
    with pytest.raises((ConnectionClosedError, HTTPClientError)):
        complete(client, bucket, upload, parts)
    assert rgw.keys(bucket) == {"k": 1}


def test_an_etag_is_changed(proxied):
    proxy, client, bucket = proxied
    for etag, seen in (('""', '""'), (None, None), ('"other"', '"other"')):
        proxy.fault("PutObject", faults.ChangeETag(etag))
        assert client.put_object(Bucket=bucket, Key="k", Body=b"x").get("ETag") == seen
    assert client.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"] == f'"{hashlib.md5(b"x").hexdigest()}"'


@pytest.mark.parametrize("after", [False, True])
def test_a_request_is_held(rgw, proxied, after):
    proxy, client, bucket = proxied
    hold = faults.Hold(after=after)
    proxy.fault("PutObject", hold)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.put_object, Bucket=bucket, Key="k", Body=b"x")
        assert hold.reached.wait(10)
        assert rgw.keys(bucket) == ({"k": 1} if after else {})
        assert not waiting.done()
        hold.release()
        waiting.result(10)
    assert rgw.keys(bucket) == {"k": 1}


def test_a_part_is_held_in_its_middle(proxied):
    proxy, client, bucket = proxied
    hold = faults.Hold(after_bytes=MIB)
    proxy.fault("PutObject", hold)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.put_object, Bucket=bucket, Key="k", Body=content(4 * MIB, 9))
        assert hold.reached.wait(10)
        assert proxy.of("PutObject")[0].forwarded == MIB
        hold.release()
        waiting.result(10)
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == content(4 * MIB, 9)


def test_a_download_breaks(proxied):
    proxy, client, bucket = proxied
    client.put_object(Bucket=bucket, Key="k", Body=bytes(MIB))
    proxy.fault("GetObject", faults.ResetAnswer(after=300_000))
    with pytest.raises(Exception, match="(?i)connection|incomplete|read"):
        client.get_object(Bucket=bucket, Key="k")["Body"].read()
    assert proxy.of("GetObject")[0].answered == 300_000
    assert len(client.get_object(Bucket=bucket, Key="k")["Body"].read()) == MIB


def test_the_store_is_unavailable(proxied):
    proxy, client, bucket = proxied
    proxy.down()
    with pytest.raises((EndpointConnectionError, ConnectionClosedError)):
        client.list_objects_v2(Bucket=bucket)
    proxy.up()
    client.list_objects_v2(Bucket=bucket)


def test_a_client_that_disconnects_leaves_nothing(rgw, proxied):
    """The store sees half a request, too."""
    proxy, client, bucket = proxied
    url = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    with Wire(("127.0.0.1", proxy.port)) as wire:
        target = url.removeprefix(proxy.url)
        wire.request("PUT", target, [("Host", f"127.0.0.1:{proxy.port}"), ("Content-Length", MIB)])
        wire.send(bytes(MIB // 2))
        until(lambda: proxy.of("PutObject") and proxy.of("PutObject")[0].forwarded == MIB // 2)
    until(lambda: proxy.of("PutObject")[0].ended is not None)
    assert proxy.of("PutObject")[0].status is None
    assert rgw.keys(bucket) == {}


# The database


def test_a_database_survives_all_faults(postgres):
    url = postgres.make_database()
    postgres.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)", url)
    postgres.kill()
    assert not postgres.is_ready()
    postgres.start()
    assert postgres.query("SELECT n FROM t", url) == [["1"]]
    before = postgres.daemon.pid
    postgres.restart()
    assert postgres.daemon.pid != before
    assert postgres.query("SELECT n FROM t", url) == [["1"]]
    assert postgres.make_database() != url


def test_connections_are_cut(postgres):
    failures = []

    def wait():
        try:
            postgres.query("SELECT pg_sleep(60)")
        except AssertionError as failure:
            failures.append(str(failure))

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + 10
    while postgres.connections() == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert postgres.terminate_connections() == 1
    thread.join(10)
    assert len(failures) == 1 and "terminat" in failures[0]


def test_a_paused_database_is_silent(postgres):
    postgres.pause()
    try:
        assert not postgres.is_ready()
    finally:
        postgres.go_on()
    assert postgres.is_ready()


# nginx


@pytest.fixture
def backends():
    """Three servers that say who they are, and how much they were sent."""

    def backend():
        def handle(request):
            size, left = b"", int(request.headers.get("Content-Length", 0))
            if request.command == "PATCH":
                made.begun.set()
                while left and (data := request.rfile.read1(min(left, 65536))):
                    left -= len(data)
                    made.received += len(data)
                size = b"%d" % made.received
            request.respond(content=b"%s %d %s" % (size, made.port, request.headers["Host"].encode()))

        made = LocalServer(handle)
        made.begun, made.received = threading.Event(), 0
        return made

    servers = [backend() for _ in range(3)]
    yield servers
    for server in servers:
        server.close()


def test_nginx_distributes_requests_in_turn(backends, tmp_path):
    ports = [server.port for server in backends]
    with Nginx(tmp_path / "nginx", ports) as nginx:
        session = requests.Session()
        session.trust_env = False
        texts = [session.get(nginx.url).text for _ in range(12)]
        assert {text.split()[1] for text in texts} == {f"127.0.0.1:{nginx.port}"}
        found = [int(text.split()[0]) for text in texts]
        assert {found.count(port) for port in ports} == {4}
        # Nobody else is asked for who does not answer: the client decides.
        backends[0].close()
        statuses = [session.get(nginx.url).status_code for _ in range(12)]
        assert statuses.count(502) == 4 and statuses.count(200) == 8


def test_nginx_forwards_a_body_while_it_arrives(backends, tmp_path):
    with Nginx(tmp_path / "nginx", [server.port for server in backends]) as nginx:
        with Wire(("127.0.0.1", nginx.port)) as wire:
            wire.request("PATCH", "/x", [("Content-Length", 100 * MIB)])
            wire.send(bytes(MIB))
            until(lambda: sum(server.received for server in backends) == MIB)
            for _ in range(99):
                wire.send(bytes(MIB))
            answer = wire.reply("PATCH")
        assert re.fullmatch(rb"%d \d+ 127.0.0.1" % (100 * MIB), answer.body)
        assert not any(path.is_file() and path.stat().st_size > MIB for path in nginx.folder.rglob("*"))


# The reference


def test_the_reference_upload(engine, bucket, tmp_path):
    digest = write_file(tmp_path / "file", 9 * MIB, seed=4)
    assert hash_file(tmp_path / "file") == digest
    ObjectStore(engine.url, engine.access_key, engine.secret_key).upload(tmp_path / "file", "k", bucket=bucket)
    assert engine.object_hash("k", bucket) == (digest, 9 * MIB)


# Which rows of a table are in the gate


@dataclass(eq=False)
class Row:
    nodeid: str
    params: dict
    mark: object

    @property
    def callspec(self):
        return SimpleNamespace(id=self.nodeid.split("[")[1][:-1], params=self.params)

    def get_closest_marker(self, name):
        return self.mark if name == "rows" else None


def table(mark, *axes):
    rows = itertools.product(*axes)
    return [Row(f"test_x.py::test[{'-'.join(row)}]", dict(enumerate(row)), mark) for row in rows]


def test_the_gate_has_each_value_of_each_parameter():
    rows = table(pytest.mark.rows.mark, "abcd", "xyz", "12")
    left = left_out([*rows, *table(None, "ab", "xy")])
    kept = [row for row in rows if row not in left]
    assert len(kept) == 4 and len(left) == len(rows) - 4
    assert {value for row in kept for value in row.params.items()} == {
        value for row in rows for value in row.params.items()
    }


def test_the_gate_has_the_rows_that_a_mark_names():
    rows = table(pytest.mark.rows("a-x", "b-y").mark, "ab", "xy")
    assert [row.callspec.id for row in left_out(rows)] == ["a-y", "b-x"]
    with pytest.raises(ValueError, match="no row has the id c-z"):
        left_out(table(pytest.mark.rows("a-x", "c-z").mark, "ab", "xy"))
