"""Upload SDKs of Tencent Cloud VOD while calls and parts fail: what they try again, and what their apps see.

The SDKs are replayed with their rules (harness/ugc.py); cos-python-sdk-v5 is the real one. Proxies between them and the
gateway make single requests fail.
"""

import hashlib
import re
import time
from types import SimpleNamespace

import pytest
import qcloud_cos
import requests

from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.faulty_store import Drop, LoseAnswer, Refuse
from harness.object_client import ObjectServer
from harness.ugc import (
    MiniProgram,
    Refused,
    RetryingAndroid,
    RetryingIOS,
    RetryingJS,
    Unreachable,
    VodJS,
    announced,
    crc64,
    sign,
    signer,
)
from harness.vod_cos import BUCKET, DOMAIN, cos_client
from harness.vod_proxy import Respond, VODProxy, cos_error
from harness.wire import until

# Three parts.
VIDEO = content(2 * MIB + 77, 1)
SMALL = content(100 * KIB, 3)
COVER = content(2 * KIB, 2)
SDKS = [RetryingJS, RetryingIOS, RetryingAndroid]
PHONES = [RetryingIOS, RetryingAndroid]
EXPIRED = "Request has expired"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_OBJECT_DOMAINS": DOMAIN}
    with ObjectServer(tmp_path_factory.mktemp("faults") / "data", free_port(), settings) as server:
        yield server


def proxied(server, main, backup, cos):
    """Looks like a server to an SDK: the proxies before its two hosts and before COS."""
    return SimpleNamespace(url=main.url, object_url=cos.url, main=main, backup=backup, cos=cos, server=server)


@pytest.fixture
def front(gateway):
    port = int(gateway.object_url.rsplit(":", 1)[1])
    with VODProxy(gateway.port) as main, VODProxy(gateway.port) as backup, VODProxy(port) as cos:
        yield proxied(gateway, main, backup, cos)


def made(front, sdk, **wanted):
    """A client that knows both hosts."""
    return sdk(front, signer(front.server, **wanted), front.backup.url)


def stored(server, data, kind="video"):
    """The bytes behind the URL of a commit, read by S3."""
    path = data[kind]["url"].split(f"/{BUCKET}/", 1)[1]
    return server.client().get_object(Bucket=BUCKET, Key=path)["Body"].read()


def refused(code, work, *arguments, **options):
    with pytest.raises(Refused) as caught:
        work(*arguments, **options)
    assert caught.value.code == code, caught.value
    return caught.value


def calls_of(front, name):
    """At the first host and at the second one."""
    return front.main.count(name), front.backup.count(name)


# Parts


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize(
    "fault",
    [cos_error(500, "InternalError"), cos_error(503, "SlowDown"), Drop(), LoseAnswer()],
    ids=["500", "503", "drop", "lost answer"],
)
def test_a_part_that_fails_once_is_sent_again(front, sdk, fault):
    front.cos.fault("UploadPart", fault, part=2)
    client = made(front, sdk)
    data = client.upload(VIDEO, COVER)
    assert stored(front.server, data) == VIDEO and stored(front.server, data, "cover") == COVER
    assert front.cos.parts(key=client.applied["video"]["storagePath"][1:]) == [1, 2, 2, 3]
    assert front.main.count("ApplyUploadUGC") == 1


def test_pages_send_a_part_again_after_a_403(front):
    front.cos.fault("UploadPart", cos_error(403, "AccessDenied", EXPIRED), part=2, times=2)
    client = made(front, RetryingJS)
    assert stored(front.server, client.upload(VIDEO)) == VIDEO
    assert front.cos.parts() == [1, 2, 2, 2, 3]
    assert front.main.count("ApplyUploadUGC") == 1


def test_pages_give_up_after_three_tries_of_a_part(front):
    front.cos.fault("UploadPart", cos_error(403, "AccessDenied"), part=2, times=9)
    client = made(front, RetryingJS)
    refused("AccessDenied", client.upload, VIDEO)
    assert front.cos.parts() == [1, 2, 2, 2] and front.main.count("CommitUploadUGC") == 0
    # The page has forgotten the session.
    assert client.storage == {}
    front.cos.clear()
    assert stored(front.server, made(front, RetryingJS).upload(VIDEO)) == VIDEO


@pytest.mark.parametrize("sdk", SDKS)
def test_a_server_error_is_tried_again_wherever_it_happens(front, sdk):
    for name in ["CreateMultipartUpload", "ListMultipartUploads", "CompleteMultipartUpload", "PutObject"]:
        front.cos.fault(name, cos_error(500, "InternalError"))
    data = made(front, sdk).upload(VIDEO, COVER)
    assert stored(front.server, data) == VIDEO and stored(front.server, data, "cover") == COVER


@pytest.mark.parametrize("sdk", SDKS)
def test_a_completion_whose_response_is_lost_is_repeated(front, sdk):
    front.cos.fault("CompleteMultipartUpload", LoseAnswer())
    client = made(front, sdk)
    data = client.upload(VIDEO)
    assert stored(front.server, data) == VIDEO
    assert front.cos.count("CompleteMultipartUpload") == 2


def test_pages_fail_at_once_if_they_may_not_list_uploads(front):
    front.cos.fault("ListMultipartUploads", cos_error(403, "AccessDenied"))
    refused("AccessDenied", made(front, RetryingJS).upload, VIDEO)
    assert front.cos.counts() == {"ListMultipartUploads": 1}


# Clocks


def test_pages_recover_from_a_skewed_part(front):
    """Their clock is right, so only the retry of the part helps."""
    front.cos.fault("UploadPart", cos_error(403, "RequestTimeTooSkewed"), part=2)
    client = made(front, RetryingJS)
    assert stored(front.server, client.upload(VIDEO)) == VIDEO
    assert front.cos.parts() == [1, 2, 2, 3] and client.clock.correction == 0


@pytest.mark.parametrize("error", [("RequestTimeTooSkewed", "x"), ("AccessDenied", EXPIRED)], ids=["skewed", "expired"])
def test_pages_correct_their_clock_by_the_date_of_the_response(front, error):
    front.cos.fault("CreateMultipartUpload", cos_error(403, *error))
    client = made(front, RetryingJS)
    client.clock.error = 3600
    assert stored(front.server, client.upload(VIDEO)) == VIDEO
    assert front.cos.count("CreateMultipartUpload") == 2
    assert abs(client.clock.now() - time.time()) < 60


def test_android_applies_again_after_a_skewed_part(front):
    front.cos.fault("UploadPart", cos_error(403, "RequestTimeTooSkewed"), part=2)
    client = made(front, RetryingAndroid)
    paths, apply = [], client.apply

    def applied(body):
        paths.append(apply(body)["video"]["storagePath"])
        return client.applied

    client.apply = applied
    assert stored(front.server, client.upload(VIDEO, COVER)) == VIDEO
    assert front.cos.parts() == [1, 2, 2, 3]
    # The session, and with it the path, stays.
    assert front.main.count("ApplyUploadUGC") == 2 and len(set(paths)) == 1


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("error", [-86_400, -400, -250, 250, 590, 1200, 86_400])
def test_devices_whose_clock_is_wrong_upload(front, sdk, error):
    """Some sign with their own time as the start, when it differs by less than ten minutes."""
    client = made(front, sdk)
    client.clock.error = error
    data = client.upload(SMALL, COVER)
    assert stored(front.server, data) == SMALL
    assert {call.status for call in front.cos.of()} == {200}
    assert front.main.count("ApplyUploadUGC") == 1


# Hosts of the calls


@pytest.mark.parametrize("fault", [Refuse(500, body="x"), Refuse(503, body="x"), Drop()], ids=["500", "503", "drop"])
def test_pages_change_the_host_if_the_transport_fails(front, fault):
    front.main.fault("ApplyUploadUGC", fault)
    assert stored(front.server, made(front, RetryingJS).upload(SMALL)) == SMALL
    # It stays with the second one.
    assert (calls_of(front, "ApplyUploadUGC"), calls_of(front, "CommitUploadUGC")) == ((1, 1), (0, 1))


def test_pages_upload_while_the_first_host_is_down(front):
    front.main.down()
    assert stored(front.server, made(front, RetryingJS).upload(SMALL)) == SMALL
    front.main.up()


def test_pages_give_up_after_four_calls_by_turns(front):
    for proxy in [front.main, front.backup]:
        proxy.fault("ApplyUploadUGC", Refuse(500, body="x"), times=9)
    with pytest.raises(Unreachable, match="500"):
        made(front, RetryingJS).upload(SMALL)
    assert calls_of(front, "ApplyUploadUGC") == (2, 2)


def test_pages_report_an_expired_signature_after_four_calls(front):
    signature = signer(front.server, expiresIn=1)()
    asked = []
    client = RetryingJS(front, lambda: asked.append(1) or signature, front.backup.url)
    prepare = f"{front.server.url}/v3/index.php?Action=PrepareUploadUGC"
    body = {"signature": signature}
    until(lambda: requests.post(prepare, json=body, timeout=30).json()["code"] == 10010, interval=0.1)
    refused(10010, client.upload, SMALL)
    # A code does not change the host, and each try asks the app for a signature.
    assert (front.main.count("ApplyUploadUGC"), front.backup.count(), len(asked)) == (4, 0, 4)
    assert front.cos.count() == 0


def test_pages_begin_again_if_their_session_is_unknown(front):
    first = made(front, RetryingJS)
    assert first.upload(VIDEO, stop_after=1) is None
    second = made(front, RetryingJS, subject="eve")
    second.storage = dict(first.storage)
    assert stored(front.server, second.upload(VIDEO)) == VIDEO
    assert front.main.count("ApplyUploadUGC") == 3
    assert second.applied["video"] != first.applied["video"]
    assert second.storage == {}


def test_pages_resume_with_the_session_that_they_kept(front):
    first = made(front, RetryingJS)
    assert first.upload(VIDEO, stop_after=2) is None
    second = made(front, RetryingJS)
    second.storage = first.storage
    assert stored(front.server, second.upload(VIDEO)) == VIDEO
    assert front.cos.parts() == [1, 2, 3]


@pytest.mark.parametrize("sdk", PHONES)
def test_phones_try_each_host_twice(front, sdk):
    front.main.fault("ApplyUploadUGC", Drop(), times=9)
    front.backup.fault("ApplyUploadUGC", Drop())
    front.main.fault("CommitUploadUGC", Drop())
    assert stored(front.server, made(front, sdk).upload(SMALL)) == SMALL
    # Each call begins with the first host.
    assert (calls_of(front, "ApplyUploadUGC"), calls_of(front, "CommitUploadUGC")) == ((2, 2), (2, 0))


@pytest.mark.parametrize("sdk", PHONES)
def test_phones_upload_while_the_first_host_is_down(front, sdk):
    front.main.down()
    assert stored(front.server, made(front, sdk).upload(SMALL, COVER)) == SMALL
    front.main.up()


def test_ios_tries_again_after_a_bad_status(front):
    front.main.fault("ApplyUploadUGC", Refuse(503, body="x"), times=9)
    assert stored(front.server, made(front, RetryingIOS).upload(SMALL)) == SMALL
    assert calls_of(front, "ApplyUploadUGC") == (2, 1)


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("is_one_time", [False, True], ids=["reusable", "one-time"])
def test_a_commit_whose_responses_are_lost_makes_one_media(front, sdk, is_one_time):
    front.main.fault("CommitUploadUGC", LoseAnswer(), times=2)
    front.backup.fault("CommitUploadUGC", LoseAnswer())
    client = made(front, sdk, oneTimeValid=is_one_time)
    data = client.upload(SMALL, COVER)
    assert stored(front.server, data) == SMALL
    assert f"/{data['fileId']}/" in client.applied["video"]["storagePath"]
    assert calls_of(front, "CommitUploadUGC") == (2, 2)


@pytest.mark.parametrize("sdk", SDKS)
def test_an_apply_whose_response_is_lost_is_repeated(front, sdk):
    front.main.fault("ApplyUploadUGC", LoseAnswer())
    assert stored(front.server, made(front, sdk).upload(SMALL)) == SMALL


def test_pages_have_another_one_time_signature_after_a_lost_response(front):
    front.main.fault("ApplyUploadUGC", LoseAnswer())
    assert stored(front.server, made(front, RetryingJS, oneTimeValid=True).upload(SMALL)) == SMALL


@pytest.mark.parametrize(("sdk", "retcode"), [(RetryingIOS, 1002), (RetryingAndroid, 1001)])
def test_phones_need_another_one_time_signature_after_a_lost_response(front, sdk, retcode):
    """They keep one signature, which the gateway has used up when the response was lost."""
    front.main.fault("ApplyUploadUGC", LoseAnswer())
    assert refused(10021, made(front, sdk, oneTimeValid=True).upload, SMALL).retcode == retcode
    assert stored(front.server, made(front, sdk, oneTimeValid=True).upload(SMALL)) == SMALL


# What apps on phones see


def at_both(front, name, fault):
    for proxy in [front.main, front.backup]:
        proxy.fault(name, fault, times=99)


def reported(front, sdk, video=SMALL):
    """The retcode of an upload, and the client."""
    client = made(front, sdk)
    with pytest.raises(Refused) as caught:
        client.upload(video, COVER)
    # The app forgets it.
    assert client.kept is None
    return caught.value.retcode, client


def succeeds_later(front, client, video=SMALL):
    """Without faults the app's next attempt is a new upload."""
    path = client.applied and client.applied["video"]["storagePath"]
    for proxy in [front.main, front.backup, front.cos]:
        proxy.clear()
    data = client.upload(video, COVER)
    assert client.applied["video"]["storagePath"] != path
    assert stored(front.server, data) == video and stored(front.server, data, "cover") == COVER


@pytest.mark.parametrize("sdk", PHONES)
def test_1001_the_apply_request_failed(front, sdk):
    at_both(front, "ApplyUploadUGC", Drop())
    retcode, client = reported(front, sdk)
    assert (retcode, calls_of(front, "ApplyUploadUGC")) == (1001, (2, 2))
    succeeds_later(front, client)


@pytest.mark.parametrize(("sdk", "calls"), [(RetryingIOS, (2, 2)), (RetryingAndroid, (1, 0))])
def test_1001_the_status_of_apply_is_bad(front, sdk, calls):
    """As while the gateway's database does not respond."""
    at_both(front, "ApplyUploadUGC", Refuse(503, body='{"code":503,"message":"try again"}'))
    assert reported(front, sdk)[0] == 1001
    assert calls_of(front, "ApplyUploadUGC") == calls


BROKEN = {"empty": "", "a page": "<html>Sign in</html>", "cut": '{"code":0,"data":{"video":', "no data": '{"code":0}'}


@pytest.mark.parametrize("sdk", PHONES)
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_1002_the_response_of_apply_is_unusable(front, sdk, body):
    at_both(front, "ApplyUploadUGC", Respond(200, body))
    # The SDK does not ask again.
    retcode, client = reported(front, sdk)
    assert (retcode, calls_of(front, "ApplyUploadUGC")) == (1002, (1, 0))
    succeeds_later(front, client)


@pytest.mark.parametrize("sdk", PHONES)
@pytest.mark.parametrize(
    ("name", "fault", "tries"),
    [
        ("UploadPart", cos_error(403, "AccessDenied"), 1),
        ("UploadPart", cos_error(500, "InternalError"), 4),
        ("UploadPart", Drop(), 4),
        ("CompleteMultipartUpload", cos_error(400, "InvalidPart"), 1),
    ],
    ids=["403", "500", "drop", "completion"],
)
def test_1003_the_video_cannot_be_sent(front, sdk, name, fault, tries):
    front.cos.fault(name, fault, times=99)
    retcode, client = reported(front, sdk, VIDEO)
    assert (retcode, front.cos.count(name), front.main.count("CommitUploadUGC")) == (1003, tries, 0)
    succeeds_later(front, client, VIDEO)


@pytest.mark.parametrize("sdk", PHONES)
def test_1003_the_video_has_grown_since_it_was_announced(front, sdk):
    client = made(front, sdk)
    request = client.request
    client.request = lambda *arguments: request(*arguments) | {"videoSize": len(VIDEO) - 1}
    assert refused("EntityTooLarge", client.upload, VIDEO).retcode == 1003
    assert front.cos.parts() == [1, 2, 3]


@pytest.mark.parametrize("sdk", PHONES)
@pytest.mark.parametrize(("fault", "tries"), [(cos_error(403, "AccessDenied"), 1), (Drop(), 4)], ids=["403", "drop"])
def test_1004_the_cover_cannot_be_sent(front, sdk, fault, tries):
    front.cos.fault("PutObject", fault, times=99)
    retcode, client = reported(front, sdk, VIDEO)
    assert (retcode, front.cos.count("PutObject"), front.main.count("CommitUploadUGC")) == (1004, tries, 0)
    succeeds_later(front, client, VIDEO)


@pytest.mark.parametrize("sdk", PHONES)
@pytest.mark.parametrize("fault", [Drop(), LoseAnswer()], ids=["drop", "lost answer"])
def test_1005_the_commit_request_failed(front, sdk, fault):
    at_both(front, "CommitUploadUGC", fault)
    retcode, client = reported(front, sdk)
    assert (retcode, calls_of(front, "CommitUploadUGC")) == (1005, (2, 2))
    succeeds_later(front, client)


@pytest.mark.parametrize(("sdk", "calls"), [(RetryingIOS, (2, 2)), (RetryingAndroid, (1, 0))])
def test_1005_the_status_of_commit_is_bad(front, sdk, calls):
    at_both(front, "CommitUploadUGC", Refuse(503, body='{"code":503,"message":"try again"}'))
    assert reported(front, sdk)[0] == 1005
    assert calls_of(front, "CommitUploadUGC") == calls


@pytest.mark.parametrize("sdk", PHONES)
@pytest.mark.parametrize("body", [*BROKEN.values(), '{"code":0,"data":{"fileId":7}}'], ids=[*BROKEN, "a number"])
def test_1006_the_response_of_commit_is_unusable(front, sdk, body):
    at_both(front, "CommitUploadUGC", Respond(200, body))
    assert reported(front, sdk)[0] == 1006
    assert calls_of(front, "CommitUploadUGC") == (1, 0)


@pytest.mark.parametrize("sdk", PHONES)
def test_1006_the_commit_is_refused(front, sdk):
    """A proxy between them has dropped the cover."""
    front.cos.fault("PutObject", Respond(200, "", {"ETag": '"x"'}), times=99)
    retcode, client = reported(front, sdk, VIDEO)
    assert (retcode, calls_of(front, "CommitUploadUGC")) == (1006, (1, 0))
    succeeds_later(front, client, VIDEO)


# Apps that were killed between two steps


@pytest.mark.parametrize("sdk", [RetryingAndroid, RetryingJS])
def test_an_app_that_was_killed_before_its_commit_goes_on(front, sdk):
    """Android recognises the video by its CRC-64; pages send it again."""
    first = made(front, sdk)
    first.commit = lambda: None
    assert first.upload(VIDEO) is None
    second = made(front, sdk)
    if sdk is RetryingAndroid:
        second.kept = (first.applied["vodSessionKey"], front.cos.of("UploadPart")[0].upload_id)
    else:
        second.storage = first.storage
    data = second.upload(VIDEO)
    assert second.applied["video"] == first.applied["video"]
    assert stored(front.server, data) == VIDEO
    sent = [1, 2, 3]
    assert front.cos.parts() == (sent if sdk is RetryingAndroid else sent * 2)


def test_android_does_not_take_another_video_for_its_own(front):
    first = made(front, RetryingAndroid)
    first.commit = lambda: None
    first.upload(VIDEO)
    second = made(front, RetryingAndroid)
    second.kept = (first.applied["vodSessionKey"], front.cos.of("UploadPart")[0].upload_id)
    assert refused("NoSuchUpload", second.upload, content(len(VIDEO), 5)).retcode == 1003


# cos-python-sdk-v5


@pytest.fixture
def python(front, tmp_path):
    """`send()`: the SDK uploads the video with the credentials of an upload, which `vod` commits."""
    client = VodJS(front.server, signer(front.server))
    client.apply(announced(len(VIDEO)))
    path = tmp_path / "video"
    path.write_bytes(VIDEO)
    sdk = cos_client(client.applied, front.cos.url)
    key = client.applied["video"]["storagePath"]
    return SimpleNamespace(vod=client, send=lambda: sdk.upload_file(BUCKET, key, str(path)))


def test_python_sends_a_part_again_after_a_server_error(front, python):
    front.cos.fault("UploadPart", cos_error(500, "InternalError"), part=2)
    python.send()
    assert sorted(front.cos.parts()) == [1, 2, 2, 3]
    marks = [call.headers.get("x-cos-sdk-retry") for call in front.cos.of("UploadPart", part=2)]
    assert marks == [None, "true"]
    assert stored(front.server, python.vod.commit()) == VIDEO


def test_python_never_repeats_a_403_and_resumes_later(front, python):
    front.cos.fault("UploadPart", cos_error(403, "AccessDenied", EXPIRED), part=2)
    with pytest.raises(qcloud_cos.CosClientError):
        python.send()
    assert sorted(front.cos.parts()) == [1, 2, 3]
    front.cos.forget()
    python.send()
    assert front.cos.parts() == [2]
    assert stored(front.server, python.vod.commit()) == VIDEO


def test_python_fails_at_once_if_it_may_not_list_uploads(front, python):
    front.cos.fault("ListMultipartUploads", cos_error(403, "AccessDenied"))
    with pytest.raises(qcloud_cos.CosServiceError) as caught:
        python.send()
    assert (caught.value.get_status_code(), caught.value.get_error_code()) == (403, "AccessDenied")
    assert front.cos.counts() == {"ListMultipartUploads": 1}


# Credentials that expire


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A gateway whose credentials last five seconds."""
    settings = {"SLUICE_OBJECT_DOMAINS": DOMAIN, "SLUICE_TENCENT_CERTIFICATE_LIFETIME": "5s"}
    with ObjectServer(tmp_path_factory.mktemp("hasty") / "data", free_port(), settings) as server:
        yield server


def test_pages_renew_credentials_of_five_seconds(hasty):
    port = int(hasty.object_url.rsplit(":", 1)[1])
    with VODProxy(hasty.port) as main, VODProxy(hasty.port) as backup, VODProxy(port) as cos:
        front = proxied(hasty, main, backup, cos)
        # Each call has a signature of its own.
        client = made(front, RetryingJS, oneTimeValid=True)
        paths, apply = [], client.apply

        def applied(files):
            data = apply(files)
            paths.append((data["video"]["storagePath"], data["tempCertificate"]["secretId"]))
            return data

        client.apply = applied
        put_part = client.put_part

        def slowly(*arguments):
            time.sleep(0.7)
            return put_part(*arguments)

        client.put_part = slowly
        video = content(8 * MIB + 5, 3)
        # The SDK counts whole seconds from its first request to COS, which has to be in that of the call.
        until(lambda: time.time() % 1 < 0.1, interval=0.02)
        assert stored(hasty, client.upload(video)) == video
        # At least once, for the same path, with other credentials.
        assert main.count("ApplyUploadUGC") == len(paths) >= 2
        assert len({path for path, _ in paths}) == 1 and len({key for _, key in paths}) == len(paths)


@pytest.mark.parametrize("signs_until", ["the end of its credentials", "later", "earlier"])
def test_an_upload_can_be_completed_after_its_credentials(hasty, signs_until):
    """JS and phones sign until their credentials end, cos-python for hours."""
    client = VodJS(hasty, signer(hasty))
    client.signs_host = True
    client.apply(announced(len(VIDEO)))
    path = client.applied["video"]["storagePath"]
    upload = client.initiate(path)
    tags, _ = client.send_parts(path, upload, VIDEO)
    start, end = client.window()
    until(lambda: time.time() > end + 1, timeout=30, interval=0.1)
    if signs_until != "the end of its credentials":
        end = end - 1 if signs_until == "earlier" else int(time.time()) + 10_000
    client.window = lambda: (start, end)
    for work in [
        lambda: client.put_part(path, upload, 4, b"x"),
        lambda: client.parts(path, upload),
        lambda: client.uploads(path),
        lambda: client.initiate(path),
        lambda: client.cos("PUT", path, data=b"x"),
    ]:
        assert f"<Message>{EXPIRED}</Message>" in refused("AccessDenied", work).message
    if signs_until == "earlier":
        error = refused("AccessDenied", client.complete, path, upload, tags)
        assert f"<Message>{EXPIRED}</Message>" in error.message
        return
    client.complete(path, upload, tags)
    assert stored(hasty, client.commit()) == VIDEO


# COS with the credentials of one upload (protocol, sections 4.3 to 4.5)


@pytest.fixture
def cos(gateway):
    """A client that has applied for a video of three parts and a cover, and signs hosts."""
    client = VodJS(gateway, signer(gateway))
    client.signs_host = True
    client.apply(announced(len(VIDEO), len(COVER)))
    client.video, client.cover = (client.applied[kind]["storagePath"] for kind in ("video", "cover"))
    return client


def test_mini_programs_get_the_answers_of_cos_without_signature(gateway, cos):
    fields = {"Vod-Forward-Cos": cos.cos_host}
    assert requests.head(gateway.url + "/", headers=fields, timeout=30).status_code == 200
    answer = requests.get(gateway.url + cos.video, headers=fields, timeout=30)
    assert answer.status_code == 403
    assert "<Code>AccessDenied</Code>" in answer.text and "<TraceId>" in answer.text


def test_parts_are_listed_in_pages_and_the_last_names_no_next_one(cos):
    upload = cos.initiate(cos.video)
    tags, _ = cos.send_parts(cos.video, upload, VIDEO)

    def page(**more):
        more = {name.replace("_", "-"): value for name, value in more.items()}
        root = cos.xml(cos.cos("GET", cos.video, {"uploadId": upload} | more))
        found = {int(part.findtext("PartNumber")): part.findtext("ETag") for part in root.iter("Part")}
        return found, root.findtext("IsTruncated"), root.findtext("NextPartNumberMarker")

    assert page() == (tags, "false", None)
    assert page(max_parts=3) == (tags, "false", None)
    for number in range(1, 4):
        expected = ("true", str(number)) if number < 3 else ("false", None)
        assert page(max_parts=1, part_number_marker=number - 1) == ({number: tags[number]}, *expected)
    assert page(part_number_marker=3) == ({}, "false", None)


def test_a_probe_needs_no_signature(cos, gateway):
    answer = requests.head(gateway.object_url, headers={"Host": cos.cos_host}, timeout=30)
    assert answer.status_code == 200 and answer.headers["Date"] and answer.headers["x-cos-request-id"]
    answer = requests.get(gateway.object_url, headers={"Host": cos.cos_host}, timeout=30)
    assert answer.status_code == 403 and "<Code>AccessDenied</Code>" in answer.text


# Protocol, section 4.4.
VECTORS = {
    b"123456789": 11051210869376104954,
    b"hello": 11177612005948864433,
    b"a" * MIB: 6701094182323390671,
    b"b": 8406248661285262385,
}
TWO_PARTS = (b"a" * MIB, b"b")
TWO_PARTS_CRC = 1366072505388208955
TWO_PARTS_TAG = '"57e31b7c64f9aaf0bc6be54ab1722dbd-2"'


def described(answer):
    return answer.headers["ETag"], answer.headers["x-cos-hash-crc64ecma"]


@pytest.mark.parametrize("data", VECTORS, ids=len)
def test_digests_of_whole_files(gateway, data):
    assert crc64(data) == VECTORS[data]
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(len(data)))
    path = client.applied["video"]["storagePath"]
    expected = (f'"{hashlib.md5(data).hexdigest()}"', str(VECTORS[data]))
    assert described(client.cos("PUT", path, data=data)) == expected
    assert described(client.cos("HEAD", path)) == expected


def test_digests_of_a_file_in_two_parts(gateway):
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(MIB + 1))
    path = client.applied["video"]["storagePath"]
    upload, tags = client.initiate(path), {}
    for number, data in enumerate(TWO_PARTS, 1):
        answer = client.cos("PUT", path, {"partNumber": number, "uploadId": upload}, data)
        assert described(answer) == (f'"{hashlib.md5(data).hexdigest()}"', str(VECTORS[data]))
        tags[number] = answer.headers["ETag"]
    bodies = []
    for quote in ['"', "&quot;", ""]:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tag.replace(chr(34), quote)}</ETag></Part>"
            for number, tag in tags.items()
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        # A completion can be repeated, however its tags are quoted.
        answer = client.cos("POST", path, {"uploadId": upload}, body)
        assert answer.headers["x-cos-hash-crc64ecma"] == str(TWO_PARTS_CRC)
        bodies.append(client.xml(answer).findtext("ETag"))
    assert bodies == [TWO_PARTS_TAG] * 3
    assert described(client.cos("HEAD", path)) == (TWO_PARTS_TAG, str(TWO_PARTS_CRC))


def test_a_completion_can_be_repeated_until_the_commit_and_after_it(cos):
    upload = cos.initiate(cos.video)
    tags, _ = cos.send_parts(cos.video, upload, VIDEO)
    for _ in range(2):
        cos.complete(cos.video, upload, tags)
    cos.cos("PUT", cos.cover, data=COVER)
    data = cos.commit()
    cos.complete(cos.video, upload, tags)
    assert cos.cos("HEAD", cos.video).headers["x-cos-hash-crc64ecma"] == str(crc64(VIDEO))
    # Parts of it are no longer listed or taken.
    refused("NoSuchUpload", cos.parts, cos.video, upload)
    refused("NoSuchUpload", cos.put_part, cos.video, upload, 1, b"x")
    assert stored(cos.server, data) == VIDEO


def test_keys_that_were_not_issued_are_refused(cos):
    upload = cos.initiate(cos.video)
    cos.put_part(cos.video, upload, 1, VIDEO[:MIB])
    for path in ["/x", cos.video + "x", cos.video[:-1], "/vod/1500000000/1764000000000000000/f0.mp4"]:
        for work in [
            lambda path=path: cos.initiate(path),
            lambda path=path: cos.put_part(path, upload, 1, b"x"),
            lambda path=path: cos.parts(path, upload),
            lambda path=path: cos.complete(path, upload, {1: "x"}),
            lambda path=path: cos.cos("DELETE", path, {"uploadId": upload}),
            lambda path=path: cos.cos("PUT", path, data=b"x"),
            lambda path=path: cos.cos("DELETE", path),
        ]:
            assert refused("AccessDenied", work).answer.status_code == 403
        assert refused(403, cos.cos, "HEAD", path).answer.status_code == 403
    # Not even the names of others.
    for prefix in ["", "vod/", "x"]:
        error = refused("AccessDenied", cos.cos, "GET", "/", {"uploads": "", "prefix": prefix})
        assert error.answer.status_code == 403
    assert cos.parts(cos.video, upload).keys() == {1}


def test_content_without_a_length_is_limited_too(cos):
    def put(path, *pieces):
        certificate = cos.applied["tempCertificate"]
        headers = {"Host": cos.cos_host, "x-cos-security-token": certificate["token"]}
        headers["Authorization"] = sign("PUT", path, {}, {"host": cos.cos_host}, certificate, cos.window())
        # An iterator makes it chunked.
        answer = requests.put(cos.cos_url() + path, data=iter(pieces), headers=headers, timeout=60)
        return answer.status_code, "".join(re.findall("<Code>(.*?)</Code>", answer.text))

    assert put(cos.video, VIDEO) == (200, "")
    assert put(cos.video, VIDEO, b"x") == (400, "EntityTooLarge")
    # The limit of the smaller file is a condition on the length.
    assert put(cos.cover, COVER, b"x") == (403, "AccessDenied")
    assert described(cos.cos("HEAD", cos.video)) == (f'"{hashlib.md5(VIDEO).hexdigest()}"', str(crc64(VIDEO)))


def test_credentials_do_not_work_for_the_key_of_another_session(cos, gateway):
    other = VodJS(gateway, signer(gateway))
    other.signs_host = True
    other.apply(announced(len(VIDEO)))
    path = other.applied["video"]["storagePath"]
    upload = other.initiate(path)
    other.put_part(path, upload, 1, VIDEO[:MIB])
    for work in [
        lambda: cos.put_part(path, upload, 2, b"x"),
        lambda: cos.complete(path, upload, {1: "x"}),
        lambda: cos.cos("DELETE", path, {"uploadId": upload}),
        lambda: cos.parts(path, upload),
        lambda: cos.uploads(path),
        lambda: cos.cos("PUT", path, data=b"x"),
    ]:
        assert refused("AccessDenied", work).answer.status_code == 403
    # The upload of the other session does not belong to its own key.
    refused("NoSuchUpload", cos.put_part, cos.video, upload, 2, b"x")
    refused("NoSuchUpload", cos.parts, cos.video, upload)
    # Nor do an id and a token work that do not belong together.
    cos.applied["tempCertificate"]["token"] = other.applied["tempCertificate"]["token"]
    assert refused("InvalidAccessKeyId", cos.initiate, cos.video).answer.status_code == 403
    assert other.parts(path, upload).keys() == {1}


def test_mini_programs_cannot_name_another_bucket_than_they_signed(gateway):
    gateway.client().create_bucket(Bucket="other-1250000000")
    client = MiniProgram(gateway, signer(gateway))
    client.apply(announced(3))
    path = client.applied["video"]["storagePath"]
    own, other = client.cos_host, client.cos_host.replace("vod-", "other-")

    def put(signed, named):
        client.address = lambda _: {"Vod-Forward-Cos": named}
        client.signs_host = signed is not None
        return client.cos("PUT", path, data=b"abc", host=signed)

    assert put(own, own).status_code == 200
    # The host that is signed is the one that is used.
    for signed, named, code in [
        (own, other, "SignatureDoesNotMatch"),
        (other, own, "SignatureDoesNotMatch"),
        (other, other, "AccessDenied"),
        (None, other, "AccessDenied"),
        (own, own.replace("ap-", "eu-"), "SignatureDoesNotMatch"),
    ]:
        assert refused(code, put, signed, named).answer.status_code == 403, (signed, named)
    # So is the host of a bucket, without the proxy.
    client.cos_url = lambda: gateway.object_url
    client.address = lambda host: {"Host": host}
    client.signs_host = True
    assert refused("AccessDenied", client.cos, "PUT", path, data=b"abc", host=other).answer.status_code == 403
    assert client.cos("PUT", path, data=b"abc", host=own).status_code == 200


def test_signatures_may_begin_fifteen_minutes_later(cos):
    end = cos.applied["tempCertificate"]["expiredTime"]

    def begin(start):
        cos.window = lambda: (int(time.time()) + start, end)
        return cos.initiate(cos.video)

    for start in [-86_400, 0, 300, 880]:
        assert begin(start)
    error = refused("RequestTimeTooSkewed", begin, 960)
    assert error.answer.status_code == 403 and error.answer.headers["Date"]
    # One that has ended is a clock problem for SDKs, too.
    cos.window = lambda: (int(time.time()) - 100, int(time.time()) - 1)
    error = refused("AccessDenied", cos.initiate, cos.video)
    assert f"<Message>{EXPIRED}</Message>" in error.message and error.answer.status_code == 403


def test_errors_have_what_sdks_read(cos):
    """Python needs text in each of these, or reports `Unknown`."""
    upload = cos.initiate(cos.video)
    gone = upload[:-1] + ("0" if upload[-1] != "0" else "1")
    signed = cos.applied["tempCertificate"]
    cases = {
        "NoSuchUpload": (404, lambda: cos.parts(cos.video, gone)),
        "InvalidPart": (400, lambda: cos.complete(cos.video, upload, {1: '"' + "0" * 32 + '"'})),
        "MalformedXML": (400, lambda: cos.cos("POST", cos.video, {"uploadId": upload}, b"<x")),
        "InvalidDigest": (400, lambda: cos.cos("PUT", cos.cover, data=b"1", headers={"content-md5": "x"})),
        "BadDigest": (
            400,
            lambda: cos.cos("PUT", cos.cover, data=b"1", headers={"content-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}),
        ),
    }
    for code, (status, work) in cases.items():
        error = refused(code, work)
        root = cos.xml(error.answer)
        assert root.tag == "Error" and error.answer.status_code == status
        assert all(root.findtext(name) for name in ("Code", "Message", "Resource", "RequestId")), error.message
        assert error.answer.headers["Content-Type"] == "application/xml" and error.answer.headers["Date"]
    cos.applied["tempCertificate"] = signed | {"secretKey": "x"}
    assert refused("SignatureDoesNotMatch", cos.initiate, cos.video).answer.status_code == 403
    cos.applied["tempCertificate"] = signed | {"secretId": "AKIDx"}
    assert refused("InvalidAccessKeyId", cos.initiate, cos.video).answer.status_code == 403
    cos.applied["tempCertificate"] = signed | {"token": signed["token"][:-4]}
    assert refused("InvalidAccessKeyId", cos.initiate, cos.video).answer.status_code == 403
