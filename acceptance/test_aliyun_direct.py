"""`direct` mode of ApsaraVideo VOD: calls are checked here, signed by the account's key and answered by the service,
whose place a server of harness/aliyun_cloud.py takes."""

import json
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.aliyun_cloud import AliyunVODCloud, canonical, signature
from harness.aliyun_vod import Core, Plain, Refused, Tea
from harness.api import API
from harness.daemon import free_port
from harness.object_client import ObjectServer
from harness.receiver import Receiver
from harness.server import run
from harness.wire import until

PAIR = ("LTAIexample", "examplesecret")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOOK_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
VIDEO = {"Title": "日本 a+b*~/&=é", "FileName": "D:\\x y.mp4"}


@pytest.fixture
def cloud():
    with AliyunVODCloud(PAIR) as service:
        yield service


@pytest.fixture
def start(tmp_path, cloud):
    servers = []

    def begin(**settings):
        settings = {
            "SLUICE_ALIYUN_VOD_MODE": "direct",
            "SLUICE_ALIYUN_VOD_ENDPOINT": cloud.url,
            "SLUICE_ALIYUN_ACCESS_KEY_ID": PAIR[0],
            "SLUICE_ALIYUN_ACCESS_KEY_SECRET": PAIR[1],
        } | settings
        server = ObjectServer(tmp_path / f"data{len(servers)}", free_port(), settings)
        server.__enter__()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def gateway(start):
    return start()


def limited(server, *options, scopes=("mint", "read", "delete")):
    """A new key with limits: its secret and its pair."""
    named = [text for scope in scopes for text in ("--scope", scope)]
    made = run("keys", "create", "--name", "vod", *named, *options, environment=server.environment).stdout
    return re.search(r"slk_\S+", made)[0], server.pair(re.search(r"key_\w+", made)[0])


def last(cloud):
    call = cloud.calls[-1]
    assert call.problem is None, call
    return call


def test_the_stand_in_signs_as_the_vendor_does():
    """The vectors of the protocol, section 3.2: one of the documentation, one of the vendor's SDK."""
    headers = {
        "host": "ecs.cn-shanghai.aliyuncs.com",
        "x-acs-action": "RunInstances",
        "x-acs-content-sha256": EMPTY,
        "x-acs-date": "2023-10-26T10:22:32Z",
        "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
        "x-acs-version": "2014-05-26",
    }
    query = [
        ("ImageId", "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd"),
        ("RegionId", "cn-shanghai"),
    ]
    text = canonical("POST", "/", query, headers.items(), sorted(headers), EMPTY)
    expected = "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
    assert signature(text, "YourAccessKeySecret") == expected
    headers = {
        "accept": "application/json",
        "host": "127.0.0.1:18480",
        "user-agent": "ua",
        "x-acs-accesskey-id": "STS.NUexample",
        "x-acs-action": "CreateUploadVideo",
        "x-acs-content-sha256": EMPTY,
        "x-acs-credentials-provider": "static_sts",
        "x-acs-date": "2026-01-02T03:04:05Z",
        "x-acs-security-token": "CAIStoken+/=",
        "x-acs-signature-nonce": "00000000111122223333444444444444",
        "x-acs-version": "2017-03-21",
    }
    query = [("Title", "a b+c"), ("FileName", "x.mp4")]
    text = canonical("POST", "/", query, headers.items(), sorted(headers), EMPTY)
    expected = "ab6dd3efde34d35d90bf61d743d1a5e8f2aeb53350cb8fe70752600fdca51955"
    assert signature(text, "examplesecret") == expected


@pytest.mark.parametrize("sdk", [Core, Tea, Plain])
def test_an_app_server_gets_the_answer_of_the_cloud_unchanged(gateway, cloud, sdk):
    made = sdk(gateway)("CreateUploadVideo", **VIDEO)
    call = last(cloud)
    assert call.action == "CreateUploadVideo"
    # The SDKs add parameters of their own; nothing of the caller's signature reaches the cloud.
    assert {name: call.parameters[name] for name in VIDEO} == VIDEO
    assert not {"AccessKeyId", "Signature", "SignatureNonce", "SecurityToken", "Timestamp"} & set(call.parameters)
    assert made["VideoId"] in cloud.media
    assert {"VideoId", "UploadAddress", "UploadAuth", "RequestId"} <= set(made)
    refreshed = sdk(gateway)("RefreshUploadVideo", VideoId=made["VideoId"])
    assert refreshed["VideoId"] == made["VideoId"]
    assert sdk(gateway)("GetVideoInfo", VideoId=made["VideoId"])["Video"]["Status"] == "Normal"


def test_xml_stays_xml(gateway, cloud):
    secret, pair = limited(gateway, "--subject", "dora")
    made = Plain(gateway, pair, format="XML")("CreateUploadVideo", **VIDEO)
    assert last(cloud).parameters["Format"] == "XML"
    identifier = made["VideoId"] if isinstance(made, dict) else made.find("VideoId").text
    # It was recorded, so its owner may refresh it.
    assert Plain(gateway, pair)("RefreshUploadVideo", VideoId=identifier)["VideoId"] == identifier


def test_backends_without_an_sdk(gateway, cloud):
    api = API(gateway.url, gateway.admin_key)
    wanted = {"type": "video", "title": "t", "fileName": "t.mp4", "fileSize": 5, "subject": "dora", "maxBytes": 10}
    answer = api.post("/v1/aliyun/uploads", wanted)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert set(made) == {"RequestId", "VideoId", "UploadAddress", "UploadAuth"}
    assert last(cloud).parameters == {"Title": "t", "FileName": "t.mp4", "FileSize": "5", "Format": "JSON"}
    answer = api.post(f"/v1/aliyun/uploads/{made['VideoId']}/refresh", {})
    assert answer.status_code == 200, answer.text
    assert answer.json()["VideoId"] == made["VideoId"]
    count = len(cloud.calls)
    for wrong in [
        {"title": "t"},
        {"title": "t", "fileName": "t"},
        {"title": "t", "fileName": "t.mp4", "maxBytes": 10},
        {"title": "t", "fileName": "t.mp4", "fileSize": 11, "maxBytes": 10},
        {"type": "image", "imageType": "x"},
    ]:
        assert api.post("/v1/aliyun/uploads", wrong).status_code == 422, wrong
    assert len(cloud.calls) == count, "what is refused here never reaches the cloud"


def test_callers_reach_only_the_media_of_their_users(gateway, cloud):
    _, dora = limited(gateway, "--subject", "dora")
    _, emil = limited(gateway, "--subject", "emil")
    video = Tea(gateway, dora)("CreateUploadVideo", **VIDEO)["VideoId"]
    assert Tea(gateway, dora)("GetVideoInfo", VideoId=video)
    count = len(cloud.calls)
    for action in ("RefreshUploadVideo", "GetVideoInfo", "GetPlayInfo", "GetMezzanineInfo"):
        with pytest.raises(Refused) as caught:
            Tea(gateway, emil)(action, VideoId=video)
        assert (caught.value.status, caught.value.code) == (404, "InvalidVideo.NotFound")
    with pytest.raises(Refused) as caught:
        Tea(gateway, emil)("DeleteVideo", VideoIds=video)
    assert caught.value.code == "InvalidVideo.NotFound"
    # What concerns the whole account is for keys without limits.
    for action in ("SearchMedia", "GetMessageCallback"):
        with pytest.raises(Refused) as caught:
            Tea(gateway, emil)(action)
        assert (caught.value.status, caught.value.code) == (403, "Forbidden")
    with pytest.raises(Refused) as caught:
        Tea(gateway, emil)("GetVideoInfo", ReferenceId="other-media")
    assert caught.value.status == 400
    assert len(cloud.calls) == count
    assert Tea(gateway)("GetVideoInfo", VideoId=video)
    assert Tea(gateway)("SearchMedia") is not None


def test_quotas_and_the_app_are_asked_first(start, cloud):
    with Receiver(HOOK_SECRET, reply={"RejectUpload": True}) as receiver:
        server = start(
            SLUICE_HOOKS_URL=receiver.url,
            SLUICE_HOOKS_EVENTS="pre-create",
            SLUICE_HOOKS_SECRET=HOOK_SECRET,
            SLUICE_LIMITS_UPLOAD_BYTES="1MiB",
        )
        with pytest.raises(Refused) as caught:
            Tea(server)("CreateUploadVideo", **VIDEO, FileSize=5)
        assert (caught.value.status, caught.value.code) == (403, "Forbidden")
        assert receiver.calls
        with pytest.raises(Refused) as caught:
            Tea(server)("CreateUploadVideo", **VIDEO, FileSize=2 << 20)
        assert (caught.value.status, caught.value.code) == (400, "InvalidParameter")
    assert cloud.calls == []


def test_uploads_that_the_cloud_accepts_use_up_the_period(start, cloud):
    server = start(SLUICE_QUOTA_SUBJECT_PERIOD_UPLOADS="2", SLUICE_QUOTA_SUBJECT_PERIOD_BYTES="100")
    api = API(server.url, server.admin_key)

    def begun(size):
        body = {"title": "t", "fileName": "t.mp4", "fileSize": size, "subject": "dora"}
        return api.post("/v1/aliyun/uploads", body).status_code

    def used():
        usage = api.get("/v1/quota/subjects/dora").json()["used"]
        return usage["periodUploads"], usage["periodBytes"], usage["openUploads"], usage["storedBytes"]

    accepts, cloud.answer = cloud.answer, lambda call: (400, {"Code": "Throttling.User", "Message": "too many"})
    assert begun(60) == 502
    assert used() == (0, 0, 0, 0)
    cloud.answer = accepts
    assert begun(60) == 201
    assert used() == (1, 60, 0, 0)
    assert begun(41) == 403
    assert begun(40) == 201
    assert used() == (2, 100, 0, 0)
    calls = len(cloud.calls)
    assert begun(0) in (400, 403)
    assert begun(1) == 403
    assert len(cloud.calls) == calls


def test_what_the_cloud_refuses_or_does_not_answer(gateway, cloud):
    api = API(gateway.url, gateway.admin_key)
    refusal = {"Code": "Throttling.User", "Message": "too many", "HostId": "vod", "RequestId": "R-1"}
    cloud.answer = lambda call: (400, refusal)
    answer = Plain(gateway).answer("CreateUploadVideo", VIDEO)
    assert (answer.status_code, answer.json()) == (400, refusal)
    answer = api.post("/v1/aliyun/uploads", {"title": "t", "fileName": "t.mp4"})
    assert (answer.status_code, answer.json()["code"]) == (502, "cloud_failed")
    assert "Throttling.User" in answer.json()["detail"]
    cloud.close()
    answer = Plain(gateway).answer("CreateUploadVideo", VIDEO)
    assert (answer.status_code, answer.json()["Code"]) == (503, "ServiceUnAvailable")
    answer = api.post("/v1/aliyun/uploads", {"title": "t", "fileName": "t.mp4"})
    assert (answer.status_code, answer.json()["code"]) == (503, "cloud_unavailable")
    assert answer.headers["Retry-After"]
    log = gateway.log.read_text()
    assert PAIR[1] not in log


# What a cloud says of the account's key, of what was signed by it, and of its rights.
ACCOUNT_CODES = [
    (400, "SignatureDoesNotMatch"),
    (400, "IncompleteSignature"),
    (404, "InvalidAccessKeyId.NotFound"),
    (400, "InvalidAccessKeyId.Inactive"),
    (400, "InvalidTimeStamp.Expired"),
    (400, "SignatureNonceUsed"),
    (403, "Forbidden.RAM"),
    (403, "NoPermission"),
]


def told(gateway, text):
    """Lines of the log, which has each within a tenth of a second."""
    return [line for line in gateway.log.read_text().splitlines() if text in line]


@pytest.mark.parametrize("form", ["JSON", "XML"])
def test_what_the_cloud_refuses_the_account_is_the_gateways_fault(gateway, cloud, form):
    """An app's backend cannot mend it: it learns that the gateway fails, and the operator learns what to look at."""
    api = API(gateway.url, gateway.admin_key)
    media = Plain(gateway)("CreateUploadVideo", **VIDEO)["VideoId"]
    for status, code in ACCOUNT_CODES:
        body = {"Code": code, "Message": "signed: hush", "HostId": "vod", "RequestId": "R-1"}
        cloud.answer = lambda call, answer=(status, body): answer
        for action, parameters in (("CreateUploadVideo", VIDEO), ("GetVideoInfo", {"VideoId": media})):
            answer = Plain(gateway, format=form).answer(action, parameters)
            assert answer.status_code == 502, (code, answer.text)
            assert "ServiceUnAvailable" in answer.text and f"refused {action}: {code}" in answer.text
            assert "hush" not in answer.text
        answer = api.post("/v1/aliyun/uploads", {"title": "t", "fileName": "t.mp4"})
        assert (answer.status_code, answer.json()["code"]) == (502, "cloud_failed"), answer.text
        assert code in answer.json()["detail"] and "hush" not in answer.text
        until(lambda code=code: len(told(gateway, f": {code}")) >= 3)
        lines = told(gateway, f": {code}")
        assert len(lines) == 3, lines
        assert all("aliyun.accessKeyId, aliyun.accessKeySecret" in line for line in lines)
    log = gateway.log.read_text()
    assert "hush" not in log and PAIR[1] not in log


def test_what_the_cloud_says_of_media_is_recorded(gateway, cloud):
    video = Tea(gateway)("CreateUploadVideo", **VIDEO)["VideoId"]
    assert recorded(gateway, video)["status"] == "Uploading"
    Tea(gateway)("GetUploadDetails", MediaIds=video)
    found = recorded(gateway, video)
    assert (found["status"], found["size"]) == ("Normal", 5)


def recorded(server, video):
    """The gateway's record of media at the cloud, from its database."""
    database = sqlite3.connect(f"file:{server.data}/state.sqlite?mode=ro", uri=True)
    query = "SELECT text FROM dialect_record WHERE kind = 'aliyun cloud media' AND key = ?"
    return json.loads(database.execute(query, (video,)).fetchone()[0])


def test_calls_of_one_user_leave_places_for_those_of_others(gateway, cloud):
    """64 calls are under way at once; one user has half of them, however many wait."""
    eve, bob = (Plain(gateway, limited(gateway, "--subject", name)[1]) for name in ("eve", "bob"))
    slow, quick = (user("CreateUploadVideo", **VIDEO)["VideoId"] for user in (eve, bob))
    go = threading.Event()

    def held():
        return sum(call.parameters.get("VideoId") == slow for call in cloud.calls)

    cloud.answer = lambda call: go.wait(60) and None if call.parameters.get("VideoId") == slow else None
    with ThreadPoolExecutor(70) as pool:
        answers = [pool.submit(eve.answer, "GetVideoInfo", {"VideoId": slow}) for _ in range(70)]
        until(lambda: held() >= 32)
        for _ in range(3):
            assert bob("GetVideoInfo", VideoId=quick)["Video"]["VideoId"] == quick
        assert held() == 32
        go.set()
        assert {one.result().status_code for one in answers} <= {200, 503}
