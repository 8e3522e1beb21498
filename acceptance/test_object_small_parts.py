"""Parts that are too small for the store behind the gateway: OSS accepts them from 100 KiB, COS from 1 MiB.

They are stored as separate objects and joined when the upload is completed.
"""

import contextlib
import random
import threading
import time

import oss2
import pytest

from harness import faulty_store as faults
from harness.daemon import free_port
from harness.data import KIB, MIB, content, sha256
from harness.object_client import BUCKET, minted
from harness.wire import until

SIZE = 700 * KIB
ALWAYS = float("inf")
SETTINGS = {"SLUICE_S3_PART_SIZE": "5MiB", "SLUICE_S3_RETRY_TIME": "2s"}


@pytest.fixture
def relay(make_relay):
    return make_relay(SLUICE_OBJECT_LISTEN=f"127.0.0.1:{free_port()}", SLUICE_OBJECT_BUCKETS=BUCKET, **SETTINGS)


def oss(relay):
    held = minted(relay.server, "aliyun", bucket=BUCKET, keyPrefix="", actions=["upload", "read", "delete"])
    auth = oss2.StsAuth(*held, auth_version="v4")
    return oss2.Bucket(auth, relay.server.object_url, BUCKET, region="cn-shanghai", connect_timeout=60)


def pieces_of(count, last, seed):
    return [content(SIZE, seed + number) for number in range(count)] + [content(last, seed - 1)]


def put(bucket, key, upload, pieces, numbers=None):
    """The parts, as they are named in the end."""
    numbered = zip(numbers or range(1, len(pieces) + 1), pieces, strict=True)
    return [
        oss2.models.PartInfo(number, bucket.upload_part(key, upload, number, piece).etag) for number, piece in numbered
    ]


def begun(bucket, key):
    return bucket.init_multipart_upload(key).upload_id


def test_they_become_parts_of_the_store(relay):
    bucket = oss(relay)
    pieces = pieces_of(19, 1234, 1)
    data = b"".join(pieces)
    upload = begun(bucket, "k")
    parts = put(bucket, "k", upload, pieces)
    assert relay.proxy.of("UploadPart") == []
    listed = bucket.list_parts("k", upload).parts
    assert [(one.part_number, one.size) for one in listed] == [(n, len(p)) for n, p in enumerate(pieces, 1)]
    done = bucket.complete_multipart_upload("k", upload, parts)
    assert done.crc == crc64(data)
    assert sorted(call.part for call in relay.proxy.of("UploadPart")) == [1, 9, 17]
    relay.assert_stored((sha256(data), len(data)))
    assert bucket.get_object("k").read() == data
    assert bucket.get_object("k", byte_range=(SIZE - 1, SIZE)).read() == data[SIZE - 1 : SIZE + 1]


def test_parts_whose_length_only_their_end_tells(relay):
    """Small ones and large ones, with and without room for a part of the store."""
    bucket = oss(relay)
    pieces = [content(5 * MIB, 1), content(6 * MIB, 2), content(9 * MIB, 3), b"end"]
    upload = begun(bucket, "k")

    def in_chunks(data):
        yield from (data[start : start + 100_000] for start in range(0, len(data), 100_000))

    parts = put(bucket, "k", upload, [in_chunks(piece) for piece in pieces])
    data = b"".join(pieces)
    assert bucket.complete_multipart_upload("k", upload, parts).crc == crc64(data)
    relay.assert_stored((sha256(data), len(data)))
    assert bucket.get_object("k").read() == data
    small = pieces_of(19, 1234, 30)
    upload = begun(bucket, "small")
    parts = put(bucket, "small", upload, [in_chunks(piece) for piece in small])
    bucket.complete_multipart_upload("small", upload, parts)
    assert bucket.get_object("small").read() == b"".join(small)


def crc64(data):
    running = oss2.utils.Crc64()
    running.update(data)
    return running.crc


def test_repeated_parts_and_parts_that_are_left_out(relay):
    bucket = oss(relay)
    pieces = pieces_of(10, 100, 40)
    upload = begun(bucket, "k")
    put(bucket, "k", upload, [content(SIZE, 90), content(SIZE, 91)], [1, 2])
    parts = put(bucket, "k", upload, [*pieces, content(SIZE, 92)])
    bucket.complete_multipart_upload("k", upload, parts[:-1])
    data = b"".join(pieces)
    assert bucket.get_object("k").read() == data
    relay.assert_stored((sha256(data), len(data)))


def test_too_small_before_a_large_one(relay):
    """Reported at completion, and the upload can still be corrected."""
    bucket = oss(relay)
    pieces = [content(SIZE, 1), content(6 * MIB, 2), b"end"]
    upload = begun(bucket, "k")
    parts = put(bucket, "k", upload, pieces)
    with pytest.raises(oss2.exceptions.ServerError) as failure:
        bucket.complete_multipart_upload("k", upload, parts)
    assert (failure.value.status, failure.value.code) == (400, "EntityTooSmall")
    parts[:1] = put(bucket, "k", upload, [pieces[1]], [1])
    bucket.complete_multipart_upload("k", upload, parts)
    assert bucket.get_object("k").read() == pieces[1] + pieces[1] + b"end"


def test_an_upload_that_is_aborted_leaves_nothing(relay):
    bucket = oss(relay)
    upload = begun(bucket, "k")
    put(bucket, "k", upload, pieces_of(2, 10, 1))
    # On another node nobody remembers that there are such parts.
    relay.restart()
    oss(relay).abort_multipart_upload("k", upload)
    until(lambda: relay.objects() == [], 20)
    relay.assert_nothing_left()


@pytest.mark.rows
@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        ("PutObject", faults.Refuse(503, "SlowDown")),
        ("PutObject", faults.Reset()),
        ("PutObject", faults.LoseAnswer()),
        ("PutObject", faults.Corrupt(at=SIZE // 2)),
        ("GetObject", faults.Refuse(500, "InternalError")),
        ("GetObject", faults.Reset()),
        ("GetObject", faults.Drop()),
        ("GetObject", faults.ResetAnswer(after=SIZE // 2)),
        ("UploadPart", faults.Refuse(503, "SlowDown")),
        ("UploadPart", faults.Reset()),
        ("UploadPart", faults.LoseAnswer()),
        ("UploadPart", faults.Corrupt(at=SIZE)),
        ("CompleteMultipartUpload", faults.LoseAnswer()),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_store_fails_once(relay, operation, fault):
    bucket = oss(relay)
    pieces = pieces_of(9, 77, 7)
    rule = relay.proxy.fault(operation, fault, times=1)
    upload = begun(bucket, "k")
    parts = put(bucket, "k", upload, pieces)
    bucket.complete_multipart_upload("k", upload, parts)
    assert rule.met == 1
    data = b"".join(pieces)
    relay.assert_stored((sha256(data), len(data)))


def test_an_unavailable_store_while_they_are_joined(relay):
    """The client is asked to retry, and then everything is there."""
    bucket = oss(relay)
    pieces = pieces_of(9, 77, 20)
    upload = begun(bucket, "k")
    parts = put(bucket, "k", upload, pieces)
    relay.proxy.fault("GetObject|UploadPart", faults.Refuse(503, "SlowDown"), times=ALWAYS)
    with pytest.raises(oss2.exceptions.ServerError) as failure:
        bucket.complete_multipart_upload("k", upload, parts)
    assert failure.value.status == 503
    relay.proxy.clear()
    bucket.complete_multipart_upload("k", upload, parts)
    data = b"".join(pieces)
    relay.assert_stored((sha256(data), len(data)))


@pytest.mark.nightly
def test_kills_while_they_are_joined(relay, report):
    """Every acknowledged part is in the object; of what the dead have left beside it the hourly sweep takes care."""
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)
    kills, contents = 0, []
    for round in range(6):
        pieces = pieces_of(15, generator.randrange(1, SIZE), generator.randrange(1 << 20))
        key = f"k{round}"
        bucket = oss(relay)
        upload = begun(bucket, key)
        parts = put(bucket, key, upload, pieces)
        # The time that joining takes here is not known: each request to the store is a moment to die at.
        gate = threading.Event()
        at = generator.choice(["GetObject", "UploadPart", "CompleteMultipartUpload", "DeleteObject"])
        relay.proxy.forget()
        watcher = threading.Thread(target=kill_at, args=(relay, at, generator.uniform(0, 0.05), gate))
        watcher.start()
        with contextlib.suppress(oss2.exceptions.RequestError, oss2.exceptions.ServerError):
            bucket.complete_multipart_upload(key, upload, parts)
        gate.set()
        watcher.join()
        kills += 1
        relay.server.kill()
        relay.server.start()
        bucket = oss(relay)
        # Completed by the one that died, or by this.
        bucket.complete_multipart_upload(key, upload, parts)
        data = b"".join(pieces)
        assert sha256(bucket.get_object(key).read()) == sha256(data), f"seed {seed}, round {round}, at {at}"
        contents.append((sha256(data), len(data)))
    objects = [found for key, found in relay.store.hashes(relay.bucket).items() if not key.startswith(".sluice/")]
    assert sorted(objects) == sorted(contents)
    assert relay.store.multiparts(relay.bucket) == []
    report(f"kill -9 while small parts are joined, seed {seed}: {kills} kills")


def kill_at(relay, operation, delay, gate):
    while not gate.is_set():
        if relay.proxy.of(operation):
            time.sleep(delay)
            break
        time.sleep(0.001)
    relay.server.process.kill()
