"""Uploads whose bytes are kept in an S3-compatible store, on Ceph and on OpenStack Swift, while everything works."""

import hashlib
import random
import re
import subprocess
import threading

import pytest
import requests
from test_clients import CLIENTS, run_client

from harness.api import OFFSET_TYPE, TUS, checksum, path_of, tus_patch, upload_id
from harness.data import KIB, MIB, content, digest_and_size, hash_file, write_file
from harness.draft import Client
from harness.relay import PART, Relay
from harness.wire import Wire, until

SIZES = [0, 1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 7]


@pytest.fixture(params=["rgw", "swift_s3"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def relay(engine, bucket_name, tmp_path):
    with Relay(tmp_path, engine, bucket_name) as relay:
        yield relay
    engine.wipe(bucket_name)


@pytest.fixture
def ceph(make_relay):
    return make_relay()


def assert_whole(relay, url, data):
    """Completed, downloadable, and one object in the store."""
    document = relay.api.upload(upload_id(url))
    assert (document["state"], document["offset"], document["length"]) == ("completed", len(data), len(data))
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)
    relay.assert_stored(digest_and_size(data))


def send(api, url, data, step, offset=0):
    """In PATCHes of `step` bytes (or of those of a function)."""
    while offset < len(data):
        piece = data[offset : offset + (step() if callable(step) else step)]
        answer = api.patch(url, offset, piece)
        assert answer.status_code == 204, answer.text
        offset += len(piece)
        assert int(answer.headers["Upload-Offset"]) == offset


# Ways to upload


@pytest.mark.rows
@pytest.mark.parametrize("size", SIZES)
def test_one_patch(relay, size):
    data = content(size, size + 1)
    url = relay.api.created(size)
    if size:
        send(relay.api, url, data, size)
    assert_whole(relay, url, data)
    # A small one is one request with bytes; of a large one each byte is sent once.
    assert sum(call.received for call in relay.proxy.of("UploadPart|PutObject")) == size
    assert relay.proxy.count("GetObject") <= 1


@pytest.mark.rows
@pytest.mark.parametrize("step", [700 * KIB, MIB, 3 * MIB, PART, PART + 1, 12 * MIB], ids=str)
def test_patches_below_and_above_the_size_of_a_part(relay, step):
    data = content(17 * MIB + 13, 1)
    url = relay.api.created(len(data))
    send(relay.api, url, data, step)
    assert_whole(relay, url, data)


def test_patches_of_random_size(ceph):
    generator = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    data = content(30 * MIB + 1, 2)
    url = ceph.api.created(len(data))
    send(ceph.api, url, data, lambda: generator.choice([1, 1000, 300 * KIB, 2 * MIB, 6 * MIB, 11 * MIB]))
    assert_whole(ceph, url, data)


@pytest.mark.rows
@pytest.mark.parametrize("size", [0, 1, PART, 2 * PART + 1])
def test_the_length_is_declared_later(relay, size):
    data = content(size, 3)
    url = relay.api.created(None, headers={"Upload-Defer-Length": "1"})
    send(relay.api, url, data, 3 * MIB)
    answer = relay.api.patch(url, size, b"", {"Upload-Length": str(size)})
    assert answer.status_code == 204, answer.text
    assert_whole(relay, url, data)


def test_with_the_creation(relay):
    data = content(2 * PART + 1, 4)
    answer = relay.api.create(len(data), body=data)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (201, str(len(data)))
    assert_whole(relay, answer.headers["Location"], data)


def test_with_checksums(ceph):
    """After a wrong one the offset is unchanged, and its bytes are not stored."""
    data = content(3 * PART, 5)
    url = ceph.api.created(len(data))
    step, offset = 7 * MIB, 0
    while offset < len(data):
        piece = data[offset : offset + step]
        wrong = ceph.api.patch(url, offset, bytes(len(piece)), checksum("sha1", hashlib.sha1(piece).digest()))
        assert wrong.status_code == 460
        assert ceph.api.offset(url) == offset
        right = ceph.api.patch(url, offset, piece, checksum("sha256", hashlib.sha256(piece).digest()))
        assert right.status_code == 204
        offset += len(piece)
    assert_whole(ceph, url, data)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_request_without_a_length(ceph, framing):
    data = content(2 * PART + 5, 6)
    url = ceph.api.created(len(data))
    body = data if framing == "length" else iter([data[:100], data[100 : 6 * MIB], data[6 * MIB :]])
    assert ceph.api.patch(url, 0, body).status_code == 204
    assert_whole(ceph, url, data)


def test_the_draft(ceph):
    data = content(2 * PART + 9, 7)
    client = Client(ceph.server, 8)
    _, answer = client.create(data[:PART], False)
    url = answer["Location"]
    assert client.append(url, PART, data[PART:], True).status in (200, 201)
    assert_whole(ceph, url, data)


def test_a_form_and_a_plain_upload(ceph):
    first, second = content(PART + 3, 8), content(2 * PART, 9)
    answer = ceph.api.post("/files", files={"file": ("a.bin", first)})
    assert answer.status_code in (200, 201), answer.text
    answer = ceph.api.post("/files", data=second, headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == 201, answer.text
    ceph.assert_stored(digest_and_size(first), digest_and_size(second))


@pytest.mark.rows
@pytest.mark.parametrize("client", [*CLIENTS, "aiotus in parallel", "tus.py from a pipe"])
def test_unmodified_clients(relay, tmp_path, client):
    path = tmp_path / "file.bin"
    digest = write_file(path, 13 * MIB + 1, 10)
    done = run_client(client, f"{relay.server.url}/files", relay.server.admin_key, path, chunk=2 * MIB)
    assert relay.api.download_hash(upload_id(done["url"])) == (digest, 13 * MIB + 1)
    assert (digest, 13 * MIB + 1) in relay.objects()


# What the store is asked


def test_reading_the_state_costs_no_request(relay):
    """HEAD, OPTIONS and the REST API answer from the record, also in a new process."""
    data = content(3 * PART, 11)
    url = relay.api.created(len(data))
    send(relay.api, url, data[: 2 * PART + 5], 3 * MIB)
    for _ in range(2):
        # What is removed behind, or looked for at the start.
        relay.proxy.settle()
        relay.proxy.forget()
        for _ in range(3):
            assert relay.api.offset(url) == 2 * PART + 5
            assert relay.api.upload(upload_id(url))["offset"] == 2 * PART + 5
            relay.api.request("OPTIONS", url)
            relay.api.get("/v1/uploads")
        assert relay.proxy.counts() == {}
        relay.restart()
        relay.wait_for_sweep()
    send(relay.api, url, data, PART, offset=2 * PART + 5)
    assert_whole(relay, url, data)


def test_a_part_is_sent_while_it_is_received(relay):
    data = content(3 * PART, 12)
    url = relay.api.created(len(data))
    with Wire(relay.server.address, timeout=60) as wire:
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", len(data))]
        wire.request("PATCH", path_of(url), fields)
        wire.send(data[: 2 * MIB])
        until(lambda: any(call.received >= MIB for call in relay.proxy.of("UploadPart")))
        wire.send(data[2 * MIB :])
        assert wire.reply("PATCH").status == 204
    assert_whole(relay, url, data)


def test_requests_of_a_large_upload(relay, report):
    """Only what S3 needs: begin, parts, complete."""
    data = content(8 * PART, 13)
    url = relay.api.created(len(data))
    send(relay.api, url, data, len(data))
    counts = relay.proxy.counts()
    report(f"40 MiB in one PATCH asks {type(relay.store).__name__}: {counts}")
    assert counts.pop("UploadPart") == 8
    assert counts.pop("CreateMultipartUpload") == counts.pop("CompleteMultipartUpload") == 1
    # Ceph does not tell the tag of a completed object.
    counts.pop("HeadObject", None)
    assert counts == {}
    assert_whole(relay, url, data)


def test_the_tail_is_overwritten_first_and_deleted_last(ceph):
    """Acknowledged bytes are never only in the process: each response follows a write, and so does each removal."""
    data = content(2 * PART, 14)
    url = ceph.api.created(len(data))
    offset = 0
    for number in range(9):
        piece = data[offset : offset + 900 * KIB]
        begun = len(ceph.proxy.of())
        assert ceph.api.patch(url, offset, piece).status_code == 204
        offset += len(piece)
        writes = [call for call in ceph.proxy.of()[begun:] if call.operation in ("PutObject", "UploadPart")]
        assert sum(call.received for call in writes if call.status == 200) >= len(piece), number
        # What the store has now is enough: parts and tail objects cover the offset.
        stored = sum(ceph.store.keys(ceph.bucket).values())
        for key, identifier in ceph.store.multiparts(ceph.bucket):
            stored += sum(ceph.store.parts(key, identifier, ceph.bucket).values())
        assert stored >= offset
    send(ceph.api, url, data, PART, offset=offset)
    assert_whole(ceph, url, data)


def test_equal_parts(make_relay):
    relay = make_relay(SLUICE_S3_EQUAL_PARTS="true")
    data = content(4 * PART + 3, 15)
    url = relay.api.created(len(data))
    generator = random.Random(1)
    send(relay.api, url, data[:-1], lambda: generator.choice([MIB, 3 * MIB, 7 * MIB]))
    found = [
        list(relay.store.parts(key, identifier, relay.bucket).values())
        for key, identifier in relay.store.multiparts(relay.bucket)
    ]
    assert found == [[PART] * 4]
    send(relay.api, url, data, 1, offset=len(data) - 1)
    assert_whole(relay, url, data)
    parts = {call.part: call.received for call in relay.proxy.of("UploadPart") if call.received}
    assert all(parts[number] == PART for number in range(1, 5))


def test_the_size_of_parts_follows_the_length(make_relay):
    relay = make_relay(SLUICE_S3_MAXIMUM_PARTS="100")
    length = 2000 * MIB
    url = relay.api.created(length)
    piece = bytes(40 * MIB)
    assert relay.api.patch(url, 0, piece).status_code == 204
    (key, identifier), *_ = relay.store.multiparts(relay.bucket)
    sizes = list(relay.store.parts(key, identifier, relay.bucket).values())
    assert sizes and length / min(sizes) <= 100
    relay.api.terminate(url)
    until(lambda: relay.store.multiparts(relay.bucket) == [])


def test_names_of_objects(make_relay):
    relay = make_relay(SLUICE_S3_KEY="{subject}/{yyyy}/{mm}/{id}{ext}")
    token = relay.api.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    url = relay.api.created(4, key=token, metadata={"filename": "../../holiday ü.mp4"})
    send(relay.api, url, b"abcd", 4)
    (key,) = relay.store.keys(relay.bucket)
    subject, year, month, name = key.split("/")
    assert (subject, name) == ("anna", f"{upload_id(url)}.mp4")
    assert year.isdigit() and len(month) == 2


# Cuts and restarts


@pytest.mark.rows
@pytest.mark.parametrize("sent", [1, MIB, PART, PART + 1, 2 * PART + 3 * MIB])
def test_bytes_before_a_broken_connection_are_kept(relay, sent):
    data = content(4 * PART, 16)
    url = relay.api.created(len(data))
    with Wire(relay.server.address) as wire:
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", len(data))]
        wire.request("PATCH", path_of(url), fields)
        wire.send(data[:sent])
        until(lambda: relay.api.upload(upload_id(url))["offset"] == sent)
    assert relay.api.offset(url) == sent
    relay.restart()
    assert relay.api.offset(url) == sent
    send(relay.api, url, data, len(data), offset=sent)
    assert_whole(relay, url, data)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_each_patch_reaches_a_new_process(ceph, ending):
    """Not after the last one: the sweep removes what the killed process has left."""
    data = content(3 * PART, 17)
    url = ceph.api.created(len(data))
    offset = 0
    for size in (MIB, 3 * MIB, 6 * MIB, 1, 4 * MIB, PART):
        if offset:
            getattr(ceph.server, ending)()
            ceph.server.start()
            assert ceph.api.offset(url) == offset
        send(ceph.api, url, data[: offset + size], size, offset=offset)
        offset = min(len(data), offset + size)
    assert_whole(ceph, url, data)


# Concatenation


@pytest.mark.rows
@pytest.mark.parametrize(
    "sizes",
    [
        [PART, PART + 1],
        [10, 20, 30],
        [PART + 1, 10, PART],
        [10, 3 * PART],
        [0, PART, 0],
        [MIB] * 12,
        [2 * PART + 1] * 3,
    ],
    ids=str,
)
def test_concatenation(relay, sizes):
    pieces = [content(size, seed) for seed, size in enumerate(sizes, 20)]
    urls = []
    for piece in pieces:
        urls.append(relay.api.created(len(piece), headers={"Upload-Concat": "partial"}))
        send(relay.api, urls[-1], piece, len(piece) or 1)
    relay.proxy.forget()
    answer = relay.api.create(None, headers={"Upload-Concat": "final;" + " ".join(map(path_of, urls))})
    assert answer.status_code == 201, answer.text
    whole = b"".join(pieces)
    fetched = sum(call.answered for call in relay.proxy.of("GetObject"))
    url = answer.headers["Location"]
    until(lambda: relay.api.upload(upload_id(url))["state"] == "completed")
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(whole)
    assert digest_and_size(whole) in relay.objects()
    if min(sizes) >= PART:
        # The store copies by itself.
        assert fetched == 0 and relay.proxy.count("UploadPartCopy|CopyObject") >= len(sizes)
    else:
        assert fetched <= len(sizes) * PART
    for one in [*urls, url]:
        relay.api.delete(f"/v1/uploads/{upload_id(one)}")
    until(lambda: relay.store.keys(relay.bucket) == {})
    relay.assert_nothing_left()


# Downloads


RANGES = [
    ("bytes=0-0", 0, 0),
    ("bytes=5-9", 5, 9),
    (f"bytes={PART - 2}-{PART + 2}", PART - 2, PART + 2),
    ("bytes=-7", 2 * PART - 7, 2 * PART - 1),
    (f"bytes={PART}-", PART, 2 * PART - 1),
    ("bytes=10-99999999999", 10, 2 * PART - 1),
]


def test_ranges(relay):
    data = content(2 * PART, 30)
    identifier = relay.api.uploaded(data)
    for value, first, last in RANGES:
        relay.proxy.forget()
        answer = relay.api.get(f"/media/{identifier}", headers={"Range": value})
        assert answer.status_code == 206, value
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(data)}"
        assert answer.content == data[first : last + 1], value
        # No more than that was fetched.
        relay.proxy.settle(0)
        assert sum(call.answered for call in relay.proxy.of("GetObject")) == last - first + 1, value


def test_another_object_under_the_key_is_not_served(relay):
    """Other software wrote to the bucket: the response is an error, not foreign bytes."""
    data = content(2 * PART, 60)
    url = relay.api.created(len(data))
    send(relay.api, url, data, len(data))
    client = relay.store.client()
    client.put_object(Bucket=relay.bucket, Key=upload_id(url), Body=bytes(len(data)))
    assert relay.api.get(f"/media/{upload_id(url)}").status_code == 500
    assert relay.api.get(f"/media/{upload_id(url)}", headers={"Range": "bytes=5-9"}).status_code == 500


def test_unsatisfiable_ranges_cost_nothing(ceph):
    identifier = ceph.api.uploaded(b"0123456789")
    empty = ceph.api.uploaded(b"")
    ceph.proxy.forget()
    assert ceph.api.get(f"/media/{identifier}", headers={"Range": "bytes=10-"}).status_code == 416
    assert ceph.api.get(f"/media/{empty}", headers={"Range": "bytes=0-0"}).status_code == 416
    assert ceph.api.request("HEAD", f"/media/{identifier}").headers["Content-Length"] == "10"
    tag = ceph.api.request("HEAD", f"/media/{identifier}").headers["ETag"]
    assert ceph.api.get(f"/media/{identifier}", headers={"If-None-Match": tag}).status_code == 304
    assert ceph.proxy.count("GetObject") == 0


def test_a_slow_reader_does_not_fill_the_memory(ceph, report):
    data = content(100 * MIB, 31)
    identifier = ceph.api.uploaded(data)
    before = ceph.server.peak_memory()
    with Wire(ceph.server.address, timeout=60) as wire:
        key = ("Authorization", f"Bearer {ceph.server.admin_key}")
        wire.request("GET", f"/media/{identifier}", [key])
        until(lambda: any(call.answered > 0 for call in ceph.proxy.of("GetObject")))
        amounts = []
        until(
            lambda: amounts.append(ceph.proxy.of("GetObject")[-1].answered) or amounts[-5:] == amounts[-1:] * 5, 10, 0.1
        )
        assert amounts[-1] < len(data)
        assert wire.reply("GET").body == data
    report(f"100 MiB for a slow reader: peak memory {before / MIB:.0f} -> {ceph.server.peak_memory() / MIB:.0f} MiB")


def test_a_reader_that_disconnects_ends_the_request(ceph):
    identifier = ceph.api.uploaded(content(60 * MIB, 32))
    ceph.proxy.forget()
    with Wire(ceph.server.address) as wire:
        wire.request("GET", f"/media/{identifier}", [("Authorization", f"Bearer {ceph.server.admin_key}")])
        until(lambda: any(call.answered > 0 for call in ceph.proxy.of("GetObject")))
    until(lambda: ceph.proxy.of("GetObject")[0].ended is not None)


def test_a_redirect_to_the_store(make_relay):
    relay = make_relay(SLUICE_S3_REDIRECT_FOR="1m")
    data = content(PART + 1, 33)
    identifier = relay.api.uploaded(data, metadata={"filename": "a.bin", "filetype": "application/x-thing"})
    answer = relay.api.get(f"/media/{identifier}", allow_redirects=False)
    assert answer.status_code in (302, 303, 307)
    assert answer.headers["Cache-Control"] in ("no-store", "private, no-store")
    fetched = requests.get(answer.headers["Location"], headers={"Range": "bytes=5-"}, proxies={"http": None})
    assert (fetched.status_code, fetched.content) == (206, data[5:])
    # The link is signed for GET alone.
    answer = relay.api.request("HEAD", f"/media/{identifier}")
    assert (answer.status_code, answer.headers["Content-Length"]) == (200, str(len(data)))


# Removal


def test_deleted_uploads_leave_nothing(relay):
    """At each stage: with no bytes, a tail object, parts, parts and a tail object, complete, and as one object."""
    data = content(3 * PART, 40)
    stages = [(3 * PART, sent) for sent in (0, MIB, 2 * PART, 2 * PART + 5, 3 * PART)] + [(1000, 1000)]
    for length, sent in stages:
        url = relay.api.created(length)
        send(relay.api, url, data[:sent], PART + 1)
        answer = relay.api.delete(f"/v1/uploads/{upload_id(url)}")
        assert answer.status_code in (200, 204), (length, sent, answer.text)
        until(lambda: relay.store.keys(relay.bucket) == {} and relay.store.multiparts(relay.bucket) == [])
        relay.assert_nothing_left()


def test_termination_during_a_running_patch(ceph):
    data = content(3 * PART, 41)
    url = ceph.api.created(len(data))
    with Wire(ceph.server.address) as wire:
        fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", len(data))]
        wire.request("PATCH", path_of(url), fields)
        wire.send(data[: PART + MIB])
        until(lambda: ceph.proxy.count("UploadPart"))
        assert ceph.api.terminate(url).status_code == 204
    until(lambda: ceph.store.keys(ceph.bucket) == {} and ceph.store.multiparts(ceph.bucket) == [])


def test_expired_uploads_leave_nothing(make_relay):
    relay = make_relay(SLUICE_UPLOADS_EXPIRE_AFTER="1s", SLUICE_UPLOADS_SWEEP_EVERY="1s")
    for size in (0, MIB, PART, PART + 1):
        url = relay.api.created(3 * PART)
        assert size == 0 or relay.api.patch(url, 0, content(size, 42)).status_code == 204
    until(lambda: relay.api.head(url).status_code in (404, 410), timeout=20)
    until(lambda: relay.store.keys(relay.bucket) == {} and relay.store.multiparts(relay.bucket) == [], timeout=20)


# Many at once


def at_once(count, work):
    failures = []

    def one(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_token_names_the_bucket(make_relay, rgw, bucket_name):
    """Also for joined parts from different buckets, and for the clean-up."""
    other = bucket_name + "-other"
    relay = make_relay(SLUICE_S3_OTHER_BUCKETS=other)
    try:
        answer = relay.api.post("/v1/tus/tokens", {"subject": "u", "bucket": other})
        assert answer.status_code == 201, answer.text
        token = answer.json()["token"]
        data = content(2 * PART + 7, 41)
        url = relay.api.created(len(data), key=token)
        send(relay.api, url, data, 3 * MIB)
        assert rgw.hashes(other) == {upload_id(url): digest_and_size(data)} and relay.objects() == []
        assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)
        pieces = [data[: PART + 1], data[PART + 1 :]]
        urls = []
        elsewhere = relay.api.post("/v1/tus/tokens", {"subject": "u"}).json()["token"]
        for piece, key in zip(pieces, (token, elsewhere), strict=True):
            urls.append(relay.api.created(len(piece), key=key, headers={"Upload-Concat": "partial"}))
            send(relay.api, urls[-1], piece, len(piece))
        parts = "final;" + " ".join(map(path_of, urls))
        final = relay.api.create(None, key=token, headers={"Upload-Concat": parts}).headers["Location"]
        assert rgw.hashes(other)[upload_id(final)] == digest_and_size(data)
        by_backend = relay.api.post("/v1/tus/uploads", {"length": 3, "bucket": other}).json()["url"]
        assert relay.api.patch(by_backend, 0, b"abc").status_code == 204
        assert upload_id(by_backend) in rgw.keys(other)
        for one in (url, final, by_backend, *urls):
            assert relay.api.remove(one).status_code == 204
        until(lambda: (rgw.keys(other), rgw.multiparts(other)) == ({}, []))
        for path in ("/v1/tus/tokens", "/v1/tus/uploads"):
            refused = relay.api.post(path, {"subject": "u", "bucket": "somebody-elses"})
            assert refused.status_code == 422 and "bucket" in refused.text
    finally:
        rgw.wipe(other)


def test_without_a_store_there_are_no_buckets(api):
    refused = api.post("/v1/tus/tokens", {"subject": "u", "bucket": "any"})
    assert refused.status_code == 422 and "bucket" in refused.text


def metric(api, name):
    """The value of a metric without labels."""
    found = re.search(rf"^{name} (\S+)$", api.get("/metrics").text, re.MULTILINE)
    return float(found[1])


def test_memory_is_released_and_the_spool_is_only_used_if_needed(make_relay):
    """Also by interrupted and refused uploads."""
    relay = make_relay(SLUICE_S3_MEMORY="64MiB")
    data = content(12 * MIB + 5, 40)
    for number in range(6):
        url = relay.api.created(len(data))
        with Wire(relay.server.address) as wire:
            wire.send(tus_patch(url, 0, len(data)) + data[: number * 2 * MIB + 1])
            until(lambda: metric(relay.api, "sluice_leases_held") == 1)
            until(lambda url=url, least=number * 2 * MIB: relay.api.upload(upload_id(url))["offset"] >= least)
        offset = relay.api.offset(url)
        wrong = checksum("sha1", bytes(20))
        assert relay.api.patch(url, offset, data[offset:], headers=wrong).status_code == 460
        send(relay.api, url, data, len(data), offset=offset)
    until(lambda: metric(relay.api, "sluice_store_memory_bytes") == 0)
    assert metric(relay.api, "sluice_store_spool_files_total") == 0
    assert metric(relay.api, "sluice_store_memory_limit_bytes") == 64 * MIB


def test_thirty_two_at_once(make_relay, report, quick):
    """Memory depends on the pool, not on the number of uploads."""
    pool = 32
    relay = make_relay(SLUICE_S3_MEMORY=f"{pool}MiB")
    relay.server.forget_start()
    size = (12 if quick else 48) * MIB
    data = content(size, 43)

    def upload(number):
        url = relay.api.created(size)
        with Wire(relay.server.address, timeout=120) as wire:
            fields = [*TUS.items(), ("Upload-Offset", 0), ("Content-Type", OFFSET_TYPE), ("Content-Length", size)]
            wire.request("PATCH", path_of(url), fields)
            wire.send(data)
            assert wire.reply("PATCH").status == 204

    at_once(32, upload)
    peak, own = relay.server.peak_memory(), relay.server.peak_own_memory()
    report(
        f"32 uploads of {size / MIB:.0f} MiB at once, pool of {pool} MiB:"
        f" peak memory {peak / MIB:.0f} MiB, {own / MIB:.0f} without the program's pages"
    )
    assert relay.objects() == [digest_and_size(data)] * 32
    # Not the program and its libraries, which grow with every protocol.
    assert own < (32 + pool) * MIB


def test_curl(ceph, tmp_path):
    """The line of the documentation: a plain upload by curl."""
    path = tmp_path / "file"
    digest = write_file(path, 3 * PART + 1, 44)
    done = subprocess.run(
        ["curl", "-sS", "-f", "-T", path, "-X", "POST", "-H", f"Authorization: Bearer {ceph.server.admin_key}"]
        + ["-H", "Content-Type: video/mp4", f"{ceph.server.url}/files"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert hash_file(path) == digest
    ceph.assert_stored((digest, 3 * PART + 1))
