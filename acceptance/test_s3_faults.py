"""An object store and a database that fail in every way, and kill -9 of the gateway at every step.

In each case no acknowledged byte is lost, the upload completes afterwards, and the object has the right bytes.
"""

import base64
import contextlib
import hashlib
import random
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import faulty_store as faults
from harness.api import API, patch_fields, path_of, upload_id
from harness.data import KIB, MIB, content, digest_and_size
from harness.disk import mounted
from harness.lossy import is_available, loss
from harness.relay import PART
from harness.wire import Closed, Wire, until

ALWAYS = float("inf")


@pytest.fixture
def relay(make_relay):
    return make_relay()


def test_start_waits_for_a_store_that_starts_later(relay):
    """The log says for what."""
    relay.server.stop()
    relay.proxy.down()
    starting = threading.Thread(target=relay.server.start, kwargs={"timeout": 60})
    before = len(relay.server.log.read_text())
    starting.start()
    try:
        until(lambda: "waiting for the store" in relay.server.log.read_text()[before:], 30)
        assert starting.is_alive()
    finally:
        relay.proxy.up()
        starting.join()
    assert API(relay.server.url, relay.server.admin_key).uploaded(b"abc")


def resume(relay, url, data, timeout=60, step=None):
    """A client: reads the offset and continues there, again and again, until everything is stored.

    It remembers acknowledged offsets: the offset must never be below them afterwards.
    """
    deadline = time.monotonic() + timeout
    acknowledged, answers = 0, []
    while time.monotonic() < deadline:
        try:
            answer = relay.api.head(url)
            answers.append(answer.status_code)
            if answer.status_code in (200, 204):
                offset = int(answer.headers["Upload-Offset"])
                assert acknowledged <= offset <= len(data), (acknowledged, offset, answers)
                acknowledged = offset
                if offset == len(data) and relay.api.upload(upload_id(url))["state"] == "completed":
                    return answers
                piece = data[offset : offset + (step or len(data))]
                answer = relay.api.patch(url, offset, piece, {"Content-Length": str(len(piece))})
                answers.append(answer.status_code)
                if answer.status_code == 204:
                    acknowledged = int(answer.headers["Upload-Offset"])
        except OSError as failure:
            answers.append(type(failure).__name__)
        time.sleep(0.2)
    raise AssertionError(f"not complete within {timeout} s: {answers[-20:]}, {relay.proxy.counts()}")


def assert_whole(relay, url, data, others=()):
    """Completed by itself soon, downloadable, and one object; nothing else is in the store."""
    until(lambda: relay.api.upload(upload_id(url))["state"] == "completed", timeout=30, interval=0.1)
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)
    until(lambda: len(relay.store.keys(relay.bucket)) == 1 + len(others), timeout=20, interval=0.1)
    until(lambda: relay.store.multiparts(relay.bucket) == [], timeout=20, interval=0.1)
    relay.assert_stored(digest_and_size(data), *map(digest_and_size, others))


# One request that fails: the client does not notice

FAULTS = [
    faults.Refuse(500, "InternalError"),
    faults.Refuse(503, "SlowDown"),
    faults.Refuse(503, "SlowDown", retry_after=1),
    faults.Refuse(503, "ServiceUnavailable", early=True),
    faults.Refuse(502, body="<html>bad gateway</html>"),
    faults.Refuse(400, "RequestTimeout"),
    faults.Refuse(409, "OperationAborted"),
    faults.Reset(),
    faults.Reset(after=0),
    faults.Drop(),
    faults.LoseAnswer(),
    faults.Hang(2),
    faults.Hang(1, after_bytes=1000),
]


def named(fault):
    values = ",".join(f"{value}" for value in vars(fault).values() if value not in (None, False))
    return f"{type(fault).__name__}({values[:40]})"


@pytest.mark.rows
@pytest.mark.parametrize("fault", FAULTS, ids=named)
@pytest.mark.parametrize("part", [1, 2, 4])
def test_a_part_fails_once(relay, part, fault):
    data = content(3 * PART + 3, 1)
    relay.proxy.fault("UploadPart", fault, part=part)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)


@pytest.mark.rows(
    "CreateMultipartUpload-LoseAnswer()",
    "CreateMultipartUpload-Refuse(409,OperationAborted)",
    "CompleteMultipartUpload-Refuse(503,SlowDown)",
    "PutObject-LoseAnswer()",
    "PutObject-Hang(1,1000)",
    "DeleteObject-Refuse(503,ServiceUnavailable,True)",
)
@pytest.mark.parametrize("fault", FAULTS, ids=named)
@pytest.mark.parametrize(
    "operation",
    ["CreateMultipartUpload", "CompleteMultipartUpload", "PutObject", "DeleteObject"],
)
def test_another_request_fails_once(relay, operation, fault):
    """With PATCHes that leave tail objects."""
    data = content(2 * PART + 3, 2)
    rule = relay.proxy.fault(operation, fault)
    url = relay.api.created(len(data))
    offset = 0
    for size in (MIB, 2 * MIB, PART, PART):
        answer = relay.api.patch(url, offset, data[offset : offset + size])
        assert answer.status_code == 204, answer.text
        offset += min(size, len(data) - offset)
        assert int(answer.headers["Upload-Offset"]) == offset
    assert_whole(relay, url, data)
    # Tail objects are deleted after the response.
    assert rule.met == 1


@pytest.mark.rows("Refuse(503,SlowDown)", "Reset()1", "LoseAnswer()", "Hang(2)")
@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_a_copy_into_a_part_fails_once(relay, fault):
    """The last bytes are a tail object when the client says that they are the last."""
    data = content(PART + 3, 3)
    rule = relay.proxy.fault("UploadPartCopy", fault)
    url = relay.api.created(None, headers={"Upload-Defer-Length": "1"})
    assert relay.api.patch(url, 0, data).status_code == 204
    assert relay.api.patch(url, len(data), b"", {"Upload-Length": str(len(data))}).status_code == 204
    assert_whole(relay, url, data)
    assert rule.met == 1


def test_every_third_request_fails(relay, report):
    """Each of them in another way."""
    generator = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    brief = [fault for fault in FAULTS if not isinstance(fault, faults.Hang)]
    for number in range(2, 400, 3):
        relay.proxy.fault(".*", generator.choice(brief), first=number, times=1)
    data = content(8 * PART + 77, 3)
    url = relay.api.created(len(data))
    answers = resume(relay, url, data, step=3 * MIB, timeout=120)
    report(f"every third store request fails, seed {seed}: {relay.proxy.counts()}; answers {answers}")
    relay.proxy.clear()
    assert_whole(relay, url, data)


def test_a_part_that_was_refused_leaves_no_gap(relay):
    """20 MB, part 2 refused (tusd counted the parts behind it, and could never complete): whatever the response,
    the client continues and ends with the right bytes."""
    data = content(20_000_000, 4)
    rule = relay.proxy.fault("UploadPart", faults.Refuse(500, "InternalError"), part=2)
    url = relay.api.created(len(data))
    answer = relay.api.patch(url, 0, data)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, "20000000")
    assert rule.met == 1
    assert_whole(relay, url, data)


def test_a_part_that_is_refused_for_long_leaves_no_gap(make_relay):
    """Longer than the gateway retries: only contiguous bytes count."""
    relay = make_relay(SLUICE_S3_RETRY_TIME="1s")
    data = content(20_000_000, 4)
    relay.proxy.fault("UploadPart", faults.Refuse(500, "InternalError"), part=2, times=ALWAYS)
    url = relay.api.created(len(data))
    assert unanswered(relay.api, url, 0, data) in (None, 503)
    offset = relay.api.offset(url)
    assert offset <= PART
    relay.proxy.clear()
    resume(relay, url, data)
    assert_whole(relay, url, data)


def unanswered(api, url, offset, data):
    """The status of a PATCH that may also be cut off."""
    try:
        return api.patch(url, offset, data).status_code
    except OSError:
        return None


# Responses that differ from what the store has


def test_a_changed_byte_is_detected(relay):
    data = content(3 * PART, 5)
    relay.proxy.fault("UploadPart", faults.Corrupt(at=PART // 2), part=2)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)


@pytest.mark.parametrize("size", [1000, MIB])
def test_a_changed_byte_of_a_small_object_is_detected(relay, size):
    data = content(size, 6)
    relay.proxy.fault("PutObject", faults.Corrupt(at=size // 2))
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)


@pytest.mark.rows
@pytest.mark.parametrize("size", [1000, MIB, 3 * PART + 5])
@pytest.mark.parametrize("engine", ["rgw", "swift_s3"])
def test_a_changed_byte_is_refused_by_the_store(make_relay, request, engine, size):
    """With Content-MD5 the store verifies, whatever its tags are."""
    relay = make_relay(
        store=request.getfixturevalue(engine), SLUICE_S3_CHECK_TAGS="false", SLUICE_S3_CONTENT_MD5="true"
    )
    data = content(size, 7)
    relay.proxy.fault("UploadPart|PutObject", faults.Corrupt(at=size // 7))
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: size // 2]).status_code == 204
    assert relay.api.patch(url, size // 2, data[size // 2 :]).status_code == 204
    assert_whole(relay, url, data)
    sent = relay.proxy.of("UploadPart|PutObject")
    assert sent and all("content-md5" in call.headers for call in sent)
    assert sum(call.status == 400 for call in sent) == 1


def test_a_wrong_tag_does_not_count_as_confirmation(relay):
    data = content(3 * PART, 7)
    relay.proxy.fault("UploadPart", faults.ChangeETag('"0123456789abcdef0123456789abcdef"'), part=2)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert relay.proxy.count("UploadPart", part=2) == 2
    assert_whole(relay, url, data)


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_part_that_the_store_lost(relay, part):
    """It was confirmed and is missing at completion: a wrong object never counts as complete."""
    data = content(3 * PART, 8)
    relay.proxy.fault("UploadPart", faults.Lose(), part=part)
    url = relay.api.created(len(data))
    answer = unanswered(relay.api, url, 0, data)
    document = relay.api.upload(upload_id(url))
    assert answer != 204 or document["state"] == "completed"
    if document["state"] != "completed":
        # The client gets the offset of what the store really has, and continues there.
        until(lambda: relay.api.offset(url) < len(data), timeout=20)
        resume(relay, url, data)
    assert_whole(relay, url, data)


@pytest.mark.rows
@pytest.mark.parametrize("tag", ['""', '"0-0"', "none"])
@pytest.mark.parametrize("size", [1000, 2 * PART + 5])
def test_a_tag_that_the_object_does_not_have(relay, size, tag):
    """The store tells a tag, and refuses it later: what was acknowledged can still be read, by whose object it is."""
    data = content(size, 10)
    rule = relay.proxy.fault("PutObject|CompleteMultipartUpload|HeadObject", faults.ChangeETag(tag), times=ALWAYS)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    until(lambda: relay.api.upload(upload_id(url))["state"] == "completed")
    relay.proxy.clear()
    assert rule.met
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)
    answer = relay.api.get(f"/media/{upload_id(url)}", headers={"Range": "bytes=5-9"})
    assert answer.status_code == 206 and answer.content == data[5:10]
    # The object of another is not served, whatever tag it has.
    key = next(key for key in relay.store.keys(relay.bucket) if not key.startswith(".sluice"))
    relay.store.client().put_object(Bucket=relay.bucket, Key=key, Body=data)
    assert relay.api.get(f"/media/{upload_id(url)}").status_code == 500


@dataclass
class Rewrite(faults.Fault):
    """Changes an answer of the store; `change` gets its head and its body."""

    change: object = None

    async def handle(self, exchange):
        return await exchange.forward(rewrite=self.change)


def test_another_range_than_the_one_that_was_asked_for(relay):
    identifier = relay.api.uploaded(content(1000, 11))
    other = re.compile(rb"(?im)^(content-range: bytes )5-9(/1000)")
    relay.proxy.fault("GetObject", Rewrite(lambda head, body: (other.sub(rb"\g<1>15-19\2", head), body)))
    answer = relay.api.get(f"/media/{identifier}", headers={"Range": "bytes=5-9"})
    assert answer.status_code == 500
    answer = relay.api.get(f"/media/{identifier}", headers={"Range": "bytes=5-9"})
    assert answer.status_code == 206 and answer.content == content(1000, 11)[5:10]


@pytest.mark.parametrize("size", [1000, 2 * PART + 5])
def test_no_digest_of_a_part_of_an_object(relay, size):
    """A store whose body is too short, with a length that agrees: what was read of it has no digest."""
    data = content(size, 13)
    identifier = relay.api.uploaded(data)
    wanted = {"Want-Repr-Digest": "sha-512=10"}
    for cut in (0, 1, size - 1):
        short = relay.proxy.fault("GetObject", Rewrite(lambda head, body, cut=cut: (head, body[:cut])), times=ALWAYS)
        answer = relay.api.request("HEAD", f"/media/{identifier}", headers=wanted)
        assert short.met and answer.status_code in (200, 503), answer.status_code
        assert "Repr-Digest" not in answer.headers, answer.headers["Repr-Digest"]
        relay.proxy.clear()
    answer = relay.api.request("HEAD", f"/media/{identifier}", headers=wanted)
    expected = base64.b64encode(hashlib.sha512(data).digest()).decode()
    assert answer.status_code == 200 and answer.headers["Repr-Digest"] == f"sha-512=:{expected}:"


def test_a_list_without_an_end(relay):
    """A store that returns the same page for ever is not asked for ever."""
    page = (
        "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>{}</NextKeyMarker>"
        "<NextUploadIdMarker>u</NextUploadIdMarker></ListMultipartUploadsResult>"
    )

    def endless(head, _):
        key = relay.proxy.of("CreateMultipartUpload")[0].key
        return head, page.format(key).encode()

    # A lost response makes the gateway look for what it began.
    relay.proxy.fault("CreateMultipartUpload", faults.LoseAnswer())
    listing = relay.proxy.fault("ListMultipartUploads", Rewrite(endless), times=ALWAYS)
    data = content(2 * PART + 5, 12)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 500
    assert 2 <= listing.met <= 10
    relay.proxy.clear()
    resume(relay, url, data)
    assert_whole(relay, url, data)


def test_tags_that_are_not_digests(make_relay):
    relay = make_relay(SLUICE_S3_CHECK_TAGS="false")
    data = content(2 * PART + 1, 9)
    relay.proxy.fault("UploadPart|PutObject", faults.LoseAnswer())
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    assert relay.api.patch(url, PART + 5, data[PART + 5 :]).status_code == 204
    assert_whole(relay, url, data)


# Completion


@pytest.mark.parametrize("declares", [True, False])
def test_a_slow_completion_within_the_wait(relay, declares):
    data = content(2 * PART, 10)
    relay.proxy.fault("CompleteMultipartUpload", faults.SlowBody(3, declares=declares))
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert relay.proxy.count("CompleteMultipartUpload") == 1
    assert_whole(relay, url, data)


def test_a_slow_completion_beyond_the_wait(make_relay):
    """The waiting client gets a response in time, nothing is repeated, and the upload completes without it."""
    relay = make_relay(SLUICE_S3_COMPLETION_WAIT="500ms")
    data = content(2 * PART, 11)
    hold = faults.Hold(after=True)
    relay.proxy.fault("CompleteMultipartUpload", hold)
    url = relay.api.created(len(data))
    answer = relay.api.patch(url, 0, data)
    # All bytes are there; or the client is asked to try again.
    assert answer.status_code == 204 or (answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0)
    assert relay.api.upload(upload_id(url))["state"] != "completed"
    for _ in range(3):
        looked = relay.api.head(url)
        assert looked.headers.get("Upload-Offset") in (str(len(data)), None) and looked.status_code < 500
        again = relay.api.patch(url, len(data), b"")
        assert again.status_code in (204, 423, 503)
    assert relay.proxy.count("CompleteMultipartUpload") == 1
    hold.release()
    assert_whole(relay, url, data)
    assert relay.proxy.count("CompleteMultipartUpload") == 1


@pytest.mark.rows
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("aborts", [False, True], ids=["no abort", "abort"])
def test_a_removal_during_a_completion(make_relay, after, killed, aborts):
    """Removing an upload that the store is just combining leaves nothing in the store, and no object without a record:
    the removal waits, or also removes the new object. Some stores report a multipart upload as missing while they
    complete it."""
    relay = make_relay(SLUICE_S3_COMPLETION_WAIT="300ms", SLUICE_UPLOADS_SWEEP_EVERY="1s")
    data = content(2 * PART, 41)
    # A process that was killed sends nothing more: the store has the request by then.
    hold = faults.Hold(after=True) if after else faults.Hold(after_bytes=20)
    relay.proxy.fault("CompleteMultipartUpload", hold)
    if not aborts:
        relay.proxy.fault("AbortMultipartUpload", faults.Refuse(404, "NoSuchUpload"), times=ALWAYS)
    url = relay.api.created(len(data))
    with contextlib.suppress(OSError):
        relay.api.patch(url, 0, data)
    assert hold.reached.wait(20)
    if killed:
        relay.restart()
    removed = f"/v1/uploads/{upload_id(url)}"
    answer = relay.api.delete(removed)
    # Done, or done soon, or to be asked for again.
    assert answer.status_code in (202, 204) or (answer.status_code in (423, 503) and "Retry-After" in answer.headers)
    hold.release()
    until(lambda: relay.api.delete(removed).status_code in (204, 404, 410), timeout=30, interval=0.1)
    relay.proxy.settle()
    assert relay.api.head(url).status_code in (404, 410)
    assert relay.api.get(f"/media/{upload_id(url)}").status_code in (404, 410)
    until(lambda: relay.store.keys(relay.bucket) == {}, timeout=30, interval=0.2)
    until(lambda: relay.store.multiparts(relay.bucket) == [], timeout=30, interval=0.2)
    relay.assert_nothing_left()


@pytest.mark.rows
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("code", ["InternalError", "SlowDown"])
def test_an_error_in_a_successful_response(relay, code, takes_effect):
    data = content(2 * PART, 12)
    relay.proxy.fault("CompleteMultipartUpload", faults.SlowBody(0.3, code=code, takes_effect=takes_effect), times=2)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert takes_effect or relay.proxy.count("CompleteMultipartUpload") == 3
    assert_whole(relay, url, data)


@pytest.mark.rows
@pytest.mark.parametrize(
    "fault",
    [
        faults.LoseAnswer(),
        faults.Drop(),
        faults.ResetAnswer(after=20),
        faults.SlowBody(0.5, times_out=True),
        faults.ChangeETag('""'),
        faults.ChangeETag(None),
        # What Ceph says when it is still at it, and others when it is over.
        faults.Refuse(500, "InternalError"),
    ],
    ids=named,
)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("engine", ["rgw", "swift_s3"])
def test_the_response_to_a_completion_is_lost(make_relay, request, bucket_name, engine, fault, times):
    store = request.getfixturevalue(engine)
    relay = make_relay(store)
    data = content(2 * PART + 1, 13)
    relay.proxy.fault("CompleteMultipartUpload", fault, times=times)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)
    if isinstance(fault, faults.LoseAnswer | faults.ResetAnswer):
        # Asked again, a gateway of Ceph that was killed meanwhile would later remove the parts of the object.
        assert relay.proxy.count("CompleteMultipartUpload") == 1


def test_a_repeated_completion_finds_no_upload(relay):
    """As on Amazon: the response was lost, and the second attempt gets 404 NoSuchUpload."""
    data = content(2 * PART + 1, 14)
    relay.proxy.fault("CompleteMultipartUpload", faults.LoseAnswer())
    relay.proxy.fault("CompleteMultipartUpload", faults.Refuse(404, "NoSuchUpload"), times=ALWAYS)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)


# kill -9


@pytest.mark.parametrize(
    ("operation", "hold"),
    [
        ("CreateMultipartUpload", faults.Hold()),
        ("CreateMultipartUpload", faults.Hold(after=True)),
        ("UploadPart", faults.Hold(after_bytes=PART // 2)),
        ("UploadPart", faults.Hold(after=True)),
        ("CompleteMultipartUpload", faults.Hold()),
        ("CompleteMultipartUpload", faults.Hold(after=True)),
    ],
    ids=["before create", "after create", "in a part", "after a part", "before complete", "after complete"],
)
def test_kill_at_a_step_of_a_large_upload(relay, operation, hold):
    hold = faults.Hold(after=hold.after, after_bytes=hold.after_bytes)
    data = content(3 * PART + 1, 15)
    relay.proxy.fault(operation, hold)
    url = relay.api.created(len(data))
    thread = threading.Thread(target=unanswered, args=(relay.api, url, 0, data))
    thread.start()
    assert hold.reached.wait(20)
    relay.server.kill()
    thread.join(20)
    hold.release()
    relay.server.start()
    if operation == "CompleteMultipartUpload":
        # No client needs to return for it.
        assert_whole(relay, url, data)
        if hold.after:
            assert relay.proxy.count("CompleteMultipartUpload") == 1
        return
    resume(relay, url, data)
    assert_whole(relay, url, data)


def test_a_creation_that_takes_effect_after_its_process_was_killed(relay):
    """Even after the next process has looked for remains: it looks again at the end."""
    data = content(3 * PART + 1, 15)
    hold = faults.Hold()
    relay.proxy.fault("CreateMultipartUpload", hold)
    url = relay.api.created(len(data))
    thread = threading.Thread(target=unanswered, args=(relay.api, url, 0, data))
    thread.start()
    assert hold.reached.wait(20)
    relay.server.kill()
    thread.join(20)
    relay.server.start()
    assert relay.api.patch(url, 0, data[: PART + 1]).status_code == 204
    known = relay.store.multiparts(relay.bucket)
    assert len(known) == 1
    hold.release()
    until(lambda: len(relay.store.multiparts(relay.bucket)) == 2, timeout=20)
    resume(relay, url, data)
    assert_whole(relay, url, data)


@pytest.mark.rows
@pytest.mark.parametrize(
    ("operation", "after", "first"),
    [
        ("PutObject", False, 1),
        ("PutObject", True, 1),
        ("PutObject", False, 2),
        ("PutObject", True, 2),
        ("DeleteObject", False, 1),
        ("DeleteObject", True, 1),
        ("UploadPart|UploadPartCopy|CopyObject", True, 1),
    ],
)
def test_kill_at_a_step_of_a_tail(relay, operation, after, first):
    """A tail object is written before the one it replaces is removed, so one of them is always there."""
    hold = faults.Hold(after=after)
    data = content(PART + 3 * MIB, 16)
    relay.proxy.fault(operation, hold, first=first)
    url = relay.api.created(len(data))
    acknowledged = [0]

    def send():
        with contextlib.suppress(OSError, AssertionError):
            while acknowledged[0] < len(data):
                begin = acknowledged[0]
                assert relay.api.patch(url, begin, data[begin : begin + MIB]).status_code == 204
                acknowledged[0] = min(begin + MIB, len(data))

    thread = threading.Thread(target=send)
    thread.start()
    assert hold.reached.wait(30)
    # Who removes may do so while the next bytes come.
    time.sleep(0.2)
    relay.server.kill()
    thread.join(20)
    hold.release()
    relay.server.start()
    if relay.api.upload(upload_id(url))["state"] != "completed":
        assert relay.api.offset(url) >= acknowledged[0]
    resume(relay, url, data, step=MIB)
    until(lambda: relay.api.upload(upload_id(url))["state"] == "completed")
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)
    assert digest_and_size(data) in relay.objects()


@pytest.mark.parametrize("kills", [30])
def test_kills_at_random_moments(relay, report, quick, kills):
    """One upload after the other in requests of random size; the server is killed at a random moment each time."""
    kills = 6 if quick else kills
    generator = random.Random(seed := random.randrange(2**32))
    print(f"seed {seed}")
    whole, moments = [], 0
    while moments < kills:
        data = content(generator.randint(1, 5 * PART), generator.getrandbits(32))
        url = relay.api.created(len(data))
        acknowledged, is_done = 0, False
        while not is_done:
            stop = threading.Timer(generator.uniform(0.02, 0.8), relay.server.kill)
            stop.start()
            while stop.is_alive() and acknowledged < len(data):
                try:
                    piece = data[acknowledged : acknowledged + generator.randint(1, 2 * PART)]
                    answer = relay.api.patch(url, acknowledged, piece)
                    assert answer.status_code == 204, (seed, answer.text)
                    acknowledged += len(piece)
                except OSError:
                    break
            stop.join()
            moments += 1
            relay.server.start()
            until(lambda: relay.api.get("/healthz").status_code == 200)
            state = relay.api.upload(upload_id(url))["state"]
            if state != "completed":
                offset = relay.api.offset(url)
                assert offset >= acknowledged, f"seed {seed}: acknowledged {acknowledged}, HEAD says {offset}"
                acknowledged = offset
            is_done = state == "completed" or acknowledged == len(data)
        until(lambda url=url: relay.api.upload(upload_id(url))["state"] == "completed", timeout=30)
        assert relay.api.download_hash(upload_id(url)) == digest_and_size(data), seed
        whole.append(digest_and_size(data))
    report(f"kill -9 with Ceph, seed {seed}: {moments} kills, {len(whole)} uploads, {relay.proxy.counts()}")
    objects = relay.objects()
    assert all(objects.count(one) >= whole.count(one) for one in whole)
    assert relay.store.multiparts(relay.bucket) == []


# Keys


def test_keys_are_rotated(make_relay, rgw):
    """With static keys: 503 and the offset intact until the gateway is started with the new ones."""
    relay = make_relay(SLUICE_S3_RETRY_TIME="1s")
    data = content(3 * PART, 17)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    rgw.rotate_keys()
    answer = relay.api.patch(url, PART + 5, data[PART + 5 :])
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
    assert relay.api.offset(url) == PART + 5
    relay.server.stop()
    relay.server.environment["SLUICE_S3_ACCESS_KEY_ID"] = rgw.access_key
    relay.server.environment["SLUICE_S3_SECRET_ACCESS_KEY"] = rgw.secret_key
    relay.server.start()
    assert relay.api.patch(url, PART + 5, data[PART + 5 :]).status_code == 204
    assert_whole(relay, url, data)


def test_keys_in_a_file_are_rotated(make_relay, rgw, tmp_path):
    """A new file is read when the old key is refused: the client does not notice."""
    path = tmp_path / "credentials"

    def write():
        text = f"[default]\naws_access_key_id = {rgw.access_key}\naws_secret_access_key = {rgw.secret_key}\n"
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(path)

    write()
    relay = make_relay(
        SLUICE_S3_ACCESS_KEY_ID=None, SLUICE_S3_SECRET_ACCESS_KEY=None, AWS_SHARED_CREDENTIALS_FILE=str(path)
    )
    data = content(3 * PART, 18)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    rgw.rotate_keys()
    write()
    assert relay.api.patch(url, PART + 5, data[PART + 5 :]).status_code == 204
    assert_whole(relay, url, data)


@pytest.mark.parametrize(
    "code", ["ExpiredToken", "InvalidAccessKeyId", "RequestTimeTooSkewed", "SignatureDoesNotMatch"]
)
def test_a_refused_signature_is_tried_again(relay, code):
    data = content(2 * PART, 19)
    relay.proxy.fault("UploadPart", faults.Refuse(403, code), part=2)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data).status_code == 204
    assert_whole(relay, url, data)


def test_a_suspended_user_and_a_full_account(make_relay, rgw):
    relay = make_relay(SLUICE_S3_RETRY_TIME="1s")
    data = content(3 * PART, 20)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    try:
        rgw.suspend()
        answer = relay.api.patch(url, PART + 5, data[PART + 5 :])
        assert answer.status_code == 503, answer.text
        assert relay.api.offset(url) == PART + 5
    finally:
        rgw.unsuspend()
    try:
        rgw.set_quota(MIB)
        answer = relay.api.patch(url, PART + 5, data[PART + 5 :])
        assert answer.status_code in (503, 507), answer.text
        assert relay.api.offset(url) == PART + 5
    finally:
        rgw.set_quota(None)
    resume(relay, url, data)
    assert_whole(relay, url, data)


# The store is unavailable


@pytest.mark.parametrize("way", ["refuses connections", "is killed", "hangs", "answers 503"])
def test_the_store_is_unavailable_for_long(make_relay, rgw, way):
    """503 with Retry-After, the offset intact and readable; afterwards the upload continues."""
    relay = make_relay(SLUICE_S3_RETRY_TIME="2s")
    data = content(4 * PART, 21)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    leave, come_back = {
        "refuses connections": (relay.proxy.down, relay.proxy.up),
        "is killed": (rgw.kill, rgw.restart),
        "hangs": (rgw.pause, rgw.go_on),
        "answers 503": (
            lambda: relay.proxy.fault(".*", faults.Refuse(503, "ServiceUnavailable"), times=ALWAYS),
            relay.proxy.clear,
        ),
    }[way]
    leave()
    try:
        with Wire(relay.server.address, timeout=120) as wire:
            wire.request("PATCH", path_of(url), patch_fields(PART + 5, len(data) - PART - 5))
            # It may be answered before all is read.
            with contextlib.suppress(OSError):
                wire.send(data[PART + 5 :])
            answer = wire.reply("PATCH")
        assert answer.status == 503, answer
        assert int(answer["Retry-After"]) > 0
        offset = relay.api.offset(url)
        assert PART + 5 <= offset <= len(data)
        # Others get the same response, and the state is still served.
        assert relay.api.get("/healthz").status_code == 200
        assert relay.api.upload(upload_id(url))["offset"] == offset
    finally:
        come_back()
    resume(relay, url, data)
    assert_whole(relay, url, data)


@pytest.mark.nightly
def test_the_store_is_unavailable_for_a_minute(rgw, make_relay):
    """With the default times; a client that follows the responses succeeds."""
    relay = make_relay(SLUICE_S3_RETRY_TIME="30s")
    data = content(4 * PART, 22)
    url = relay.api.created(len(data))
    rgw.kill()
    timer = threading.Timer(60, rgw.restart)
    timer.start()
    try:
        answers = resume(relay, url, data, timeout=150)
    finally:
        timer.join()
    assert 503 in answers
    assert_whole(relay, url, data)


@pytest.mark.parametrize("seconds", [1, 4])
def test_the_store_is_unavailable_for_a_moment(relay, rgw, seconds):
    """Within the retry time: the client sees a slow upload."""
    data = content(6 * PART, 23)
    url = relay.api.created(len(data))
    with Wire(relay.server.address, timeout=60) as wire:
        wire.request("PATCH", path_of(url), patch_fields(0, len(data)))
        wire.send(data[: 2 * PART + MIB])
        until(lambda: relay.proxy.count("UploadPart", part=3))
        rgw.kill()
        timer = threading.Timer(seconds, rgw.restart)
        timer.start()
        wire.send(data[2 * PART + MIB :])
        assert wire.reply("PATCH").status == 204
        timer.join()
    assert_whole(relay, url, data)


def test_a_slow_store_slows_the_client_down(make_relay):
    """Back-pressure: bytes that the store has not accepted are in the pool and in the spool, and no more are read."""
    relay = make_relay(SLUICE_S3_MEMORY="16MiB", SLUICE_S3_SPOOL="0")
    data = content(100 * MIB, 24)
    hold = faults.Hold()
    relay.proxy.fault("UploadPart", hold, times=ALWAYS)
    url = relay.api.created(len(data))
    sent = [0]
    with Wire(relay.server.address, timeout=120) as wire:
        wire.request("PATCH", path_of(url), patch_fields(0, len(data)))

        def send():
            for begin in range(0, len(data), 64 * KIB):
                wire.send(data[begin : begin + 64 * KIB])
                sent[0] = begin + 64 * KIB

        thread = threading.Thread(target=send)
        thread.start()
        amounts = []
        until(lambda: amounts.append(sent[0]) or amounts[-5:] == amounts[-1:] * 5, timeout=20, interval=0.2)
        # The buffers of the sockets are some MiB more.
        assert amounts[-1] < 48 * MIB
        hold.release()
        thread.join(60)
        assert wire.reply("PATCH").status == 204
    assert_whole(relay, url, data)


def test_the_disk_for_the_spool_is_full(make_relay, tmp_path):
    """Then a client waits for the store as if there were none."""
    with mounted(tmp_path / "spool", ["-t", "tmpfs", "-o", "size=8m"], "tmpfs") as folder:
        relay = make_relay(SLUICE_S3_MEMORY="16MiB", SLUICE_S3_SPOOL="1GiB", SLUICE_S3_SPOOL_DIR=str(folder))
        contents = [content(40 * MIB, seed) for seed in (25, 26)]
        hold = faults.Hold()
        relay.proxy.fault("UploadPart", hold, times=ALWAYS)
        urls = [relay.api.created(len(data)) for data in contents]
        statuses = []

        def send(url, data):
            statuses.append(API(relay.server.url).patch(url, 0, data).status_code)

        threads = [threading.Thread(target=send, args=pair) for pair in zip(urls, contents, strict=True)]
        for thread in threads:
            thread.start()
        assert hold.reached.wait(20)
        time.sleep(2)
        assert statuses == []
        hold.release()
        for thread in threads:
            thread.join(60)
        assert statuses == [204, 204]
        assert_whole(relay, urls[0], contents[0], others=[contents[1]])
        relay.server.stop()


def unread(client, server):
    """Bytes that the process behind `server` has not read of a connection, as the kernel counts; 0 once it is over."""
    names = [f"0100007F:{port:04X}" for port in (server[1], client[1])]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        if [local, remote, state] == [*names, "01"]:
            return int(queues.split(":")[1], 16)
    return 0


def test_the_unfinished_parts_of_one_user_leave_room_for_others(make_relay):
    relay = make_relay(SLUICE_S3_MEMORY="16MiB", SLUICE_S3_SPOOL="32MiB", SLUICE_S3_RETRY_TIME="1s")
    eve, bob = (relay.api.post("/v1/tus/tokens", {"subject": one}).json()["token"] for one in ("eve", "bob"))
    nearly = content(PART - 100_000, 32)
    with contextlib.ExitStack() as stack:
        # Less than a part is left of both.
        for _ in range(9):
            url = relay.api.created(100 * MIB, key=eve)
            wire = stack.enter_context(Wire(relay.server.address, timeout=60))
            wire.request("PATCH", path_of(url), patch_fields(0, 100 * MIB))
            # Where there is no room for her, the gateway reads no more, and ends the request.
            with contextlib.suppress(OSError, Closed):
                wire.send(nearly)
                client = wire.socket.getsockname()
                until(lambda client=client: not unread(client, relay.server.address))
        data = content(PART + 1, 33)
        url = relay.api.created(len(data), key=bob)
        assert relay.api.patch(url, 0, data).status_code == 204
    assert relay.api.download_hash(upload_id(url)) == digest_and_size(data)


# Downloads


@pytest.mark.parametrize("after", [0, 100_000, 7 * MIB])
def test_a_download_that_breaks_is_never_wrong(relay, after):
    """The reader gets all bytes, or detects that some are missing."""
    data = content(10 * MIB, 27)
    identifier = relay.api.uploaded(data)
    relay.proxy.fault("GetObject", faults.ResetAnswer(after=after))
    try:
        received = relay.api.get(f"/media/{identifier}")
        assert received.status_code in (200, 502, 503)
        assert received.status_code != 200 or received.content == data
    except OSError:
        pass
    assert relay.api.download_hash(identifier) == digest_and_size(data)


def test_an_object_that_was_removed_in_the_store(relay):
    identifier = relay.api.uploaded(b"x" * 100)
    relay.store.wipe(relay.bucket)
    answer = relay.api.get(f"/media/{identifier}")
    assert answer.status_code in (404, 410, 500, 502, 503)


def test_removal_is_repeated_until_it_is_done(make_relay):
    """The store refuses: deleted uploads are gone for clients at once, and from the store later."""
    relay = make_relay(SLUICE_S3_RETRY_TIME="1s", SLUICE_UPLOADS_SWEEP_EVERY="1s")
    data = content(2 * PART + 1, 28)
    url = relay.api.created(len(data) + 1)
    assert relay.api.patch(url, 0, data).status_code == 204
    relay.proxy.fault("AbortMultipartUpload|DeleteObject|DeleteObjects", faults.Refuse(503), times=ALWAYS)
    assert relay.api.terminate(url).status_code in (204, 500, 503)
    relay.proxy.clear()
    relay.api.terminate(url)
    until(lambda: relay.store.keys(relay.bucket) == {}, timeout=30, interval=0.2)
    until(lambda: relay.store.multiparts(relay.bucket) == [], timeout=30, interval=0.2)


# The database


@pytest.fixture
def with_database(make_relay, postgres):
    return make_relay(database=postgres.make_database())


@pytest.mark.rows
@pytest.mark.parametrize("event", ["restart", "kill", "cut connections", "pause"])
@pytest.mark.parametrize("moment", ["between", "in a patch"])
def test_something_happens_to_the_database(with_database, postgres, event, moment):
    relay = with_database
    data = content(4 * PART + 1, 30)
    url = relay.api.created(len(data))

    def happen():
        if event == "restart":
            postgres.restart()
        elif event == "kill":
            postgres.kill()
            # A new process on the same port.
            postgres.start()
        elif event == "cut connections":
            postgres.terminate_connections()
        else:
            postgres.pause()
            time.sleep(2)
            postgres.go_on()

    if moment == "between":
        assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
        happen()
        answers = resume(relay, url, data)
        assert relay.proxy.count("UploadPart") < 10, answers
    else:
        with Wire(relay.server.address, timeout=60) as wire:
            wire.request("PATCH", path_of(url), patch_fields(0, len(data)))
            wire.send(data[: PART + 5])
            until(lambda: relay.proxy.count("UploadPart"))
            happen()
            with contextlib.suppress(OSError, Closed):
                wire.send(data[PART + 5 :])
                assert wire.reply("PATCH").status in (204, 423, 500, 503)
        resume(relay, url, data)
    assert_whole(relay, url, data)


def test_the_database_is_unavailable(with_database, postgres):
    """Errors ask the client to retry, no offset is lost, and everything continues by itself afterwards."""
    relay = with_database
    data = content(3 * PART, 31)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 5]).status_code == 204
    postgres.stop()
    try:
        assert relay.api.get("/healthz").status_code == 200
        answer = relay.api.patch(url, PART + 5, data[PART + 5 :])
        assert answer.status_code in (500, 503), answer.text
        assert relay.api.create(10).status_code in (500, 503)
    finally:
        postgres.start()
    until(lambda: relay.api.head(url).status_code in (200, 204), timeout=30)
    assert relay.api.offset(url) == PART + 5
    resume(relay, url, data)
    assert_whole(relay, url, data)


@pytest.mark.nightly
def test_the_database_is_unavailable_for_a_minute(with_database, postgres):
    relay = with_database
    data = content(3 * PART, 32)
    url = relay.api.created(len(data))
    postgres.stop()
    timer = threading.Timer(60, postgres.start)
    timer.start()
    try:
        resume(relay, url, data, timeout=150)
    finally:
        timer.join()
    assert_whole(relay, url, data)


@pytest.mark.parametrize("hold", ["Hold()", "Hold(after=True)"])
def test_the_database_fails_around_a_completion(with_database, postgres, hold):
    relay = with_database
    data = content(2 * PART, 33)
    hold = faults.Hold(after="after" in hold)
    relay.proxy.fault("CompleteMultipartUpload", hold)
    url = relay.api.created(len(data))
    thread = threading.Thread(target=unanswered, args=(relay.api, url, 0, data))
    thread.start()
    assert hold.reached.wait(20)
    postgres.stop()
    hold.release()
    time.sleep(1)
    postgres.start()
    thread.join(60)
    resume(relay, url, data)
    assert_whole(relay, url, data)


# Links that lose packets


@pytest.mark.skipif(not is_available(), reason="needs the right to filter packets")
@pytest.mark.parametrize("side", ["store", "client"])
def test_a_link_that_loses_packets_and_is_cut(relay, side, quick):
    """By the kernel's packet filter: retransmissions, stalls, and an interruption shorter than the retry time."""
    port = relay.proxy.port if side == "store" else relay.server.port
    data = content((4 if quick else 12) * PART + 99, 30)
    url = relay.api.created(len(data))
    with loss(port, 2) as link:
        cut = threading.Timer(1, link.lose, [100])
        back = threading.Timer(4, link.lose, [2])
        for timer in (cut, back):
            timer.start()
        answers = resume(relay, url, data, step=3 * MIB, timeout=180)
        for timer in (cut, back):
            timer.join()
    assert all(answer in (200, 204, 409, 423, 503) or isinstance(answer, str) for answer in answers), answers
    assert_whole(relay, url, data)


@pytest.mark.skipif(not is_available(), reason="needs the right to filter packets")
def test_the_link_to_the_store_is_cut_for_long(relay):
    """Longer than the retry time: the client gets an error, and nothing acknowledged is lost."""
    data = content(4 * PART, 31)
    url = relay.api.created(len(data))
    assert relay.api.patch(url, 0, data[: PART + 1]).status_code == 204
    with loss(relay.proxy.port, 100) as link:
        answer = relay.api.patch(url, PART + 1, data[PART + 1 :])
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
        assert relay.api.offset(url) == PART + 1
        link.lose(0)
        resume(relay, url, data)
    assert_whole(relay, url, data)
