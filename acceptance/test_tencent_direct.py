"""`direct` mode of Tencent VOD: calls of upload SDKs are checked here and answered by the service, whose place a server
of harness/vod_cloud.py takes. The bytes go past the gateway."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import requests

from harness.api import API
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.receiver import Receiver
from harness.server import ROOT, Server, run
from harness.ugc import IOS, Android, CPlusPlus, Refused, VodJS, announced, signer
from harness.vod_cloud import (
    APP_ID,
    BUCKET,
    STORAGE_APP_ID,
    Answer,
    Noise,
    Reset,
    Silence,
    VODCloud,
    code_of,
    parameters,
    signed,
)
from harness.wire import until

UGC = "/v3/index.php"
# The vendor's published example pair.
PAIR = ("AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv", "bLcPnl88WU30VY57ipRhSePfPdOfSruK")
HOOK_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
VIDEO = content(3 * MIB + 77, 1)
COVER = content(2 * KIB, 2)
SDKS = [VodJS, IOS, Android]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """In place of COS."""
    settings = {"SLUICE_OBJECT_BUCKETS": f"{BUCKET}-{STORAGE_APP_ID}"}
    with ObjectServer(tmp_path_factory.mktemp("cos") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture
def cloud(store):
    with VODCloud(PAIR, store) as service:
        yield service


@pytest.fixture
def start(tmp_path, cloud, store):
    """Gateways in front of the service, without an object endpoint; the secret key must not appear in their logs."""
    servers = []

    def started(**settings):
        settings = {
            "SLUICE_TENCENT_MODE": "direct",
            "SLUICE_TENCENT_SECRET_ID": PAIR[0],
            "SLUICE_TENCENT_SECRET_KEY": PAIR[1],
            "SLUICE_TENCENT_ENDPOINT": cloud.url,
        } | {f"SLUICE_{name}": value for name, value in settings.items()}
        log = tmp_path / f"gateway-{len(servers)}.log"
        server = Server(tmp_path / f"data-{len(servers)}", environment=settings, log=log).start()
        servers.append(server)
        return server

    yield started
    for server in servers:
        text = server.whole_log()
        server.stop()
        assert PAIR[1] not in text
    assert not [one for one in cloud.calls if PAIR[1].encode() in str(one.fields).encode() + one.body]


@pytest.fixture
def gateway(start):
    return start()


def apart(server, store):
    """What an SDK uses: calls go to one host, bytes to another."""
    return SimpleNamespace(url=server.url, admin_key=server.admin_key, object_url=store.object_url)


def post(server, action, body, **options):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requests.post(f"{server.url}{UGC}?Action={action}", data=text, timeout=30, **options)


def code(server, action, body, **options):
    """The code of a call."""
    answer = post(server, action, body, **options)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json()["code"]


def applied(server, **files):
    """The code of one Apply."""
    return code(server, "ApplyUploadUGC", {"signature": signer(server)()} | announced(3) | files)


def own(pair=PAIR, **changes):
    """A signature that the app's backend has made itself."""
    now = int(time.time())
    values = {"secretId": pair[0], "currentTimeStamp": now, "expireTime": now + 600, "random": 7} | changes
    return signed(urlencode({name: value for name, value in values.items() if value is not None}), pair[1])


def unavailable(answer):
    assert (answer.status_code, answer.json()["code"]) == (503, 503), answer.text
    assert answer.headers["Content-Type"] == "application/json"


def counted(server, call, code):
    text = API(server.url, server.admin_key).get("/metrics").text
    found = re.search(f'sluice_tencent_calls_total{{call="{call}",code="{code}"}} (\\d+)', text)
    return int(found[1]) if found else 0


# The service


def vectors():
    """Those of the vendor, and those that four implementations computed alike."""
    for path in sorted((ROOT / "Tests/Fixtures/tencent").iterdir()):
        for block in path.read_text().split("\n\n"):
            entry = dict(re.findall(r"(?m)^(\w+) = (.*)$", block))
            if "original" in entry:
                yield entry


def test_the_service_in_these_tests_keeps_the_vectors_of_the_vendor():
    found = list(vectors())
    assert len(found) >= 6
    for one in found:
        whole = signed(one["original"], one["secretKey"])
        if "signature" in one:
            assert whole == one["signature"]
            assert parameters(one["signature"], one["secretKey"]) is not None
            assert parameters(one["signature"], one["secretKey"] + "x") is None
            assert parameters(one["signature"][:-8] + "AAAAAAA=", one["secretKey"]) is None
    original = next(one["original"] for one in found if one.get("name") == "V1")
    good = signed(original, PAIR[1])
    assert code_of(good, *PAIR, now=1571301494)[0] == 0
    assert code_of(good, *PAIR, now=1571301495)[0] == 10010
    assert code_of(good, "AKIDother", PAIR[1], now=1571301494)[0] == 10004
    assert code_of("%", *PAIR, now=0)[0] == 10004


# SDKs


@pytest.mark.parametrize("sdk", SDKS)
def test_bytes_go_past_the_gateway(gateway, cloud, store, sdk):
    client = sdk(apart(gateway, store), signer(gateway))
    data = client.upload(VIDEO, COVER)
    for kind, expected in [("video", VIDEO), ("cover", COVER)]:
        key = data[kind]["url"].partition("/vod/")[2]
        got = store.client().get_object(Bucket=f"{BUCKET}-{STORAGE_APP_ID}", Key=f"vod/{key}")
        assert got["Body"].read() == expected
    prepared = [] if sdk is VodJS else ["PrepareUploadUGC"]
    assert [one.action for one in cloud.calls] == [*prepared, "ApplyUploadUGC", "CommitUploadUGC"]
    # Nothing of it is here.
    assert API(gateway.url, gateway.admin_key).get("/v1/uploads").json()["uploads"] == []
    for one in cloud.calls:
        assert one.parameters["sourceContext"] == "dora"
        assert counted(gateway, one.action, 0) == 1


def test_the_sdk_of_2019(gateway, cloud, store):
    data = CPlusPlus(apart(gateway, store), signer(gateway)).upload(b"abc")
    assert data["video"]["url"] == f"http://{APP_ID}.vod2.myqcloud.com/vod/1a2b3c4d{data['fileId']}/f0.mp4"
    # Its query has more items.
    assert [one.target for one in cloud.calls] == [f"{UGC}?Action={one}UploadUGC" for one in ("Apply", "Commit")]
    assert {one.method for one in cloud.calls} == {"POST"}


def test_an_upload_is_resumed(gateway, cloud, store):
    for sdk in SDKS:
        first = sdk(apart(gateway, store), signer(gateway))
        assert first.upload(VIDEO, stop_after=1) is None
        second = sdk(apart(gateway, store), signer(gateway))
        if sdk is VodJS:
            second.upload(VIDEO, session_key=first.applied["vodSessionKey"])
        else:
            second.kept = first.kept
            second.upload(VIDEO)
        assert second.applied["video"] == first.applied["video"]
    with pytest.raises(Refused) as caught:
        VodJS(apart(gateway, store), signer(gateway)).upload(VIDEO, session_key="unknown")
    assert caught.value.code == 20055


# What is forwarded


def test_a_call_arrives_byte_for_byte_and_without_fields_of_the_client(gateway, cloud):
    signature = signer(gateway)()
    body = (
        b'{ "x":[1.0, null],\t"videoName":"\\u6d4b \xe8\xaf\x95", "videoType":"MP4","videoSize":3e0,'
        b'"signature" : "' + signature.encode() + b'" }\n'
    ).replace(b"3e0", b"3")
    secrets = {
        "Cookie": "session=client",
        "Authorization": "Bearer of-the-client",
        "X-Forwarded-For": "192.0.2.1",
        "Forwarded": "for=192.0.2.1",
        "Referer": "https://app.example/private",
        "Origin": "https://app.example",
        "X-Any": "of the client",
        "Content-Type": "text/plain; of=client",
        "User-Agent": "client/1",
        "Accept-Language": "client",
    }
    query = f"{gateway.url}{UGC}?Action=ApplyUploadUGC&Region=gzp&Nonce=client"
    in_head = {"originalBody": body.replace(b"\n", b"").replace(b"\t", b" ").decode("latin-1")}
    sent = [
        (body, requests.post(query, data=body, headers=secrets, timeout=30)),
        (body, requests.request("GET", query, data=body, headers=secrets, timeout=30)),
        (None, requests.post(query, headers=secrets | in_head, timeout=30)),
    ]
    for (expected, answer), one in zip(sent, cloud.calls, strict=True):
        assert answer.status_code == 200 and answer.json()["code"] == 0, answer.text
        assert (one.method, one.target) == ("POST", f"{UGC}?Action=ApplyUploadUGC")
        assert one.body == (expected or body.replace(b"\n", b"").replace(b"\t", b" "))
        fields = {name.lower(): value for name, value in one.fields}
        assert len(fields) == len(one.fields)
        assert fields.pop("content-type") == "application/json"
        assert fields.pop("user-agent").startswith("Sluice/")
        assert fields.pop("host") == cloud.url.removeprefix("http://")
        assert fields.pop("content-length") == str(len(one.body))
        assert fields in ({}, {"accept": "*/*"})
        # The answer, too: the service says text/html.
        assert answer.content == one.answer
        assert answer.headers["Content-Type"] == "application/json"


def test_only_calls_that_are_known_are_forwarded(gateway, cloud):
    signature = signer(gateway)()
    good = {"signature": signature} | announced(3)
    for action in ["", "applyUploadUGC", "DeleteUGC", "../x", "ApplyUploadUGC%00", "x&Action=ApplyUploadUGC"]:
        assert code(gateway, action, good) == 10001, action
    answer = requests.put(f"{gateway.url}{UGC}?Action=ApplyUploadUGC", json=good, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (200, 10001)
    for path in ["/v3/index.php/x", "/v3/", "/v2/index.php"]:
        assert requests.post(gateway.url + path, json=good, timeout=30).status_code == 404
    assert code(gateway, "CommitUploadUGC", b'{"x":"' + b"x" * 70_000 + b'"}') == 10001
    assert code(gateway, "ApplyUploadUGC", b"{") == 10001
    assert cloud.calls == []


def test_reports_are_counted_and_not_forwarded(gateway, cloud):
    for path in ["/ugcupload_new", "/ugcupload"]:
        answer = requests.post(gateway.url + path, json={"reqType": 40001}, timeout=30)
        assert (answer.status_code, answer.json()) == (200, {})
    assert counted(gateway, "report", 0) == 2
    assert cloud.calls == []


# Signatures


def test_signatures_are_checked_before_the_service_is_asked(gateway, cloud):
    now = int(time.time())
    wrong = {
        "no Base64": "%%%%",
        "other key": own((PAIR[0], "x" * 32)),
        "other id": own(("AKIDother", PAIR[1])),
        "90 days": own(currentTimeStamp=now, expireTime=now + 7_776_001),
        "fraction": own(currentTimeStamp=f"{now}.5"),
        "twice": signed(f"secretId={PAIR[0]}&currentTimeStamp={now}&expireTime={now + 9}&random=1&random=2", PAIR[1]),
        "none": "",
    }
    for action in ["PrepareUploadUGC", "ApplyUploadUGC", "CommitUploadUGC"]:
        body = announced(3) | {"vodSessionKey": "x"}
        codes = {name: code(gateway, action, {"signature": text} | body) for name, text in wrong.items()}
        assert codes == dict.fromkeys(wrong, 10004)
        expired = own(currentTimeStamp=now - 20, expireTime=now - 10)
        assert code(gateway, action, {"signature": expired} | body) == 10010
        assert counted(gateway, action, 10004) == len(wrong) and counted(gateway, action, 10010) == 1
    assert cloud.calls == []
    # A backend may sign by itself, in either encoding.
    for text in [own(), own(sourceContext="a b", vodSubAppId=5)]:
        assert code(gateway, "ApplyUploadUGC", {"signature": text} | announced(3)) == 0


def test_signatures_of_relay_mode_are_not_those_of_the_account(gateway, cloud, tmp_path):
    with Server(tmp_path / "relay") as relay:
        signature = signer(relay)()
    assert code(gateway, "ApplyUploadUGC", {"signature": signature} | announced(3)) == 10004
    assert cloud.calls == []


def test_a_revoked_user_is_refused(gateway, cloud):
    signature = signer(gateway)()
    run("revoke", "--subject", "dora", environment=gateway.environment)
    until(lambda: code(gateway, "PrepareUploadUGC", {"signature": signature}) == 10004)
    before = len(cloud.calls)
    for action in ["PrepareUploadUGC", "ApplyUploadUGC", "CommitUploadUGC"]:
        assert code(gateway, action, {"signature": signature, "vodSessionKey": "x"}) == 10004
    assert len(cloud.calls) == before
    assert code(gateway, "ApplyUploadUGC", {"signature": signer(gateway, subject="eve")()} | announced(3)) == 0


# Answers


@pytest.mark.parametrize("number", [10001, 10004, 10010, 20055, -1, "10010"])
def test_codes_of_the_service_come_back_as_they_are(gateway, cloud, number):
    document = {"message": "ugc upload | 测试", "code": number, "x-unknown": {"a": [1.50, None]}}
    text = json.dumps(document, indent=3).encode() + b"\r\n "
    for sdk in SDKS:
        cloud.faults = [] if sdk is VodJS else [Answer(body=b'{"code":0,"data":{"appId":1,"cosRegionList":[]}}')]
        cloud.faults.append(Answer(body=text, fields={"Set-Cookie": "a=b", "X-Secret": "1"}))
        with pytest.raises(Refused) as caught:
            sdk(gateway, signer(gateway)).upload(b"1")
        assert caught.value.code == number
        if sdk is not VodJS and number == 10010:
            assert caught.value.retcode == 1020
    cloud.faults = [Answer(body=text, fields={"Set-Cookie": "a=b", "X-Secret": "1"})]
    answer = post(gateway, "CommitUploadUGC", {"signature": signer(gateway)(), "vodSessionKey": "x"})
    assert (answer.status_code, answer.content) == (200, text)
    assert "Set-Cookie" not in answer.headers and "X-Secret" not in answer.headers
    assert counted(gateway, "CommitUploadUGC", number if number in (10001, 10004, 10010) else "other") == 1


@pytest.mark.parametrize("status", [201, 302, 307, 400, 404, 429, 500, 502, 503])
def test_statuses_of_the_service_come_back_as_they_are(gateway, cloud, status):
    body = b"<html>\xff something of the service</html>"
    cloud.faults = [Answer(status, body, {"Location": f"{cloud.url}/elsewhere"})]
    answer = post(gateway, "CommitUploadUGC", {"signature": signer(gateway)()}, allow_redirects=False)
    assert (answer.status_code, answer.content) == (status, body)
    assert "Location" not in answer.headers
    assert answer.headers["Content-Type"] == "application/json"
    # A redirect is not followed.
    assert len(cloud.calls) == 1
    assert counted(gateway, "CommitUploadUGC", "other") == 1
    log = gateway.whole_log()
    assert f"the response has status {status}" in log and "something of the service" not in log


def test_an_sdk_uses_its_other_host(gateway, cloud, store):
    for fault in [Answer(500), Reset(), Answer(body=bytes(1 << 20))]:
        cloud.faults = [fault]
        VodJS(apart(gateway, store), signer(gateway), backup=gateway.url).upload(b"1")


@pytest.mark.parametrize("fault", [Silence(), Reset(), Noise(), Answer(204, b""), Answer(304, b""), Answer(999, b"{}")])
def test_a_service_that_does_not_answer(start, cloud, fault):
    server = start(TENCENT_ENDPOINT_TIMEOUT="300ms")
    body = {"signature": signer(server)(), "vodSessionKey": "x"}
    cloud.faults = [fault]
    unavailable(post(server, "CommitUploadUGC", body))
    assert counted(server, "CommitUploadUGC", 503) == 1
    assert "a call of a Tencent VOD client was not served" in server.whole_log()
    # It is there again.
    assert code(server, "CommitUploadUGC", body) == 20055


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_answer_has_a_limit(gateway, cloud, is_chunked):
    body = {"signature": signer(gateway)(), "vodSessionKey": "x"}
    most = b'{"code":0}' + b" " * ((256 << 10) - 10)
    cloud.faults = [Answer(body=most, is_chunked=is_chunked), Answer(body=most + b" ", is_chunked=is_chunked)]
    assert post(gateway, "CommitUploadUGC", body).content == most
    unavailable(post(gateway, "CommitUploadUGC", body))


def test_a_service_that_is_away(start):
    server = start(TENCENT_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    unavailable(post(server, "ApplyUploadUGC", {"signature": signer(server)()} | announced(3)))
    assert "the host cannot be reached" in server.whole_log()


def test_an_apply_with_a_one_time_signature_is_sent_once(gateway, cloud):
    """A request on a kept connection that breaks is sent again, but it could use up the signature twice."""
    signature = signer(gateway)()
    assert code(gateway, "PrepareUploadUGC", {"signature": signature}) == 0
    cloud.faults = [Reset()]
    assert code(gateway, "PrepareUploadUGC", {"signature": signature}) == 0
    assert len(cloud.calls) == 3
    cloud.faults = [Reset()]
    once = {"signature": signer(gateway, oneTimeValid=True)()} | announced(3)
    unavailable(post(gateway, "ApplyUploadUGC", once))
    assert len(cloud.calls) == 4
    # The service decides about one-time signatures.
    assert [code(gateway, "ApplyUploadUGC", once) for _ in range(2)] == [0, 20056]


# Limits


def test_what_is_too_large_is_refused_here(start, cloud):
    server = start(LIMITS_UPLOAD_BYTES="100")
    assert applied(server, videoSize=100) == 0
    assert applied(server, videoSize=101) == 10023
    assert applied(server, coverName="c", coverType="jpg", coverSize=101) == 10023
    assert counted(server, "ApplyUploadUGC", 10023) == 2
    assert len(cloud.calls) == 1


def test_a_policy_holds_for_the_user_of_the_signature(start, cloud):
    server = start(QUOTA_SUBJECT_CONTENT_TYPES="video/*", QUOTA_SUBJECT_UPLOAD_BYTES="50")
    assert applied(server) == 0
    assert applied(server, videoType="exe") == 10023
    assert applied(server, videoType="jpg") == 10023
    assert applied(server, videoSize=51) == 10023
    # An app that signs by itself names its user so.
    body = announced(51)
    assert code(server, "ApplyUploadUGC", {"signature": own(sourceContext="eve")} | body) == 10023
    # Neither has a user, and so no policy of users.
    assert code(server, "ApplyUploadUGC", {"signature": own()} | body) == 0
    assert code(server, "ApplyUploadUGC", {"signature": own(sourceContext="ä" * 250)} | body) == 0
    assert len(cloud.calls) == 3


def test_a_quota_must_have_room_for_all_files(start, cloud):
    server = start(QUOTA_SUBJECT_STORED_BYTES="100")
    cover = {"coverName": "c", "coverType": "jpg"}
    assert applied(server, videoSize=100) == 0
    assert applied(server, videoSize=101) == 10023
    assert applied(server, videoSize=60, coverSize=41, **cover) == 10023
    # What the service has does not count.
    assert applied(server, videoSize=60, coverSize=40, **cover) == 0
    api = API(server.url, server.admin_key)
    token = api.post("/v1/tus/tokens", {"subject": "dora"}).json()["token"]
    api.created(50, key=token)
    assert applied(server, videoSize=51) == 10023
    assert applied(server, videoSize=50) == 0
    assert len(cloud.calls) == 3


def test_files_that_the_cloud_accepts_use_up_the_period(start, cloud):
    server = start(QUOTA_SUBJECT_PERIOD_UPLOADS="3", QUOTA_SUBJECT_PERIOD_BYTES="100")
    api = API(server.url, server.admin_key)

    def used():
        usage = api.get("/v1/quota/subjects/dora").json()["used"]
        return usage["periodUploads"], usage["periodBytes"], usage["openUploads"], usage["storedBytes"]

    cloud.faults = [Answer(body=b'{"code":10004,"message":"no"}'), Answer(500)]
    assert applied(server, videoSize=60) == 10004
    # The signature was right here, so the operator learns which settings to look at.
    until(lambda: "tencent.secretId and tencent.secretKey" in server.log.read_text())
    signature = signer(server)()
    post(server, "ApplyUploadUGC", {"signature": signature} | announced(60))
    assert used() == (0, 0, 0, 0)
    assert applied(server, videoSize=60, coverSize=1, coverName="c", coverType="jpg") == 0
    assert used() == (2, 61, 0, 0)
    assert applied(server, videoSize=40) == 10023
    # Phones name files again.
    assert applied(server, videoSize=39, vodSessionKey=next(iter(cloud.sessions))) == 0
    assert used() == (2, 61, 0, 0)
    assert applied(server, videoSize=39) == 0
    assert applied(server, videoSize=1) == 10023
    assert used() == (3, 100, 0, 0)


def test_a_session_is_no_way_past_the_limits(start, cloud):
    server = start(LIMITS_UPLOAD_BYTES="100")
    signature = signer(server)()
    body = {"signature": signature, "vodSessionKey": "made-up"}
    assert code(server, "ApplyUploadUGC", body | announced(101)) == 10023
    assert cloud.calls == []
    # A web page names no files; the service has them.
    assert code(server, "ApplyUploadUGC", body) == 20055


def test_wrong_files_are_refused_here(gateway, cloud):
    for files in [
        {"videoSize": 0},
        {"videoSize": "3"},
        {"videoName": "a/b"},
        {"videoType": "../x"},
        {"videoType": None},
        {"coverSize": 3},
        {"fileId": "1"},
        {"VIDEONAME": "w"},
    ]:
        assert applied(gateway, **files) == 10001, files
    assert code(gateway, "ApplyUploadUGC", {"signature": signer(gateway)()}) == 10001
    assert cloud.calls == []
    # Another cover.
    body = {"fileId": "5285890784418605123", "coverName": "c", "coverType": "png", "coverSize": 3}
    assert code(gateway, "ApplyUploadUGC", {"signature": signer(gateway)()} | body) == 0


def test_an_application_cannot_begin_too_many_uploads(start, cloud):
    server = start(TENCENT_APPLIES_PER_SECOND="5")
    body = {"signature": signer(server)()} | announced(1)
    with ThreadPoolExecutor(10) as pool:
        codes = list(pool.map(lambda _: code(server, "ApplyUploadUGC", body), range(200)))
    assert set(codes) == {0, 10026}
    assert len(cloud.calls) == codes.count(0) < 200
    assert code(server, "ApplyUploadUGC", body | {"signature": signer(server, vodSubAppId=9)()}) == 0


# Hooks


@pytest.fixture
def receiver():
    with Receiver(HOOK_SECRET) as one:
        yield one


@pytest.fixture
def hooked(start, receiver):
    return start(HOOKS_URL=receiver.url, HOOKS_SECRET=HOOK_SECRET, HOOKS_TIMEOUT="1s")


def test_the_app_is_asked_before_the_service(hooked, cloud, receiver, store):
    # What it changes has no effect: the answer is that of the service.
    receiver.reply = {
        "HTTPResponse": {"StatusCode": 299, "Body": "of the app", "Header": {"X-App": "1"}},
        "ChangeFileInfo": {"ID": "other", "MetaData": {"a": "b"}},
    }
    IOS(apart(hooked, store), signer(hooked, sessionContext="s")).upload(VIDEO, COVER)
    video, cover = receiver.wait("pre-create", 2)
    assert (video.upload["Size"], cover.upload["Size"]) == (len(VIDEO), len(COVER))
    assert video.upload["Subject"] == "dora" and video.upload["ID"] == ""
    assert video.upload["MetaData"] == {
        "filename": "clip.mp4",
        "filetype": "video/mp4",
        "sourceContext": "dora",
        "sessionContext": "s",
    }
    assert cover.upload["MetaData"]["filename"] == "cover.png"
    # The signature is a credential.
    signature = cloud.calls[0].json["signature"]
    assert signature not in json.dumps([video.payload, cover.payload])
    answer = post(hooked, "ApplyUploadUGC", {"signature": signature} | announced(3))
    assert (answer.status_code, answer.content) == (200, cloud.calls[-1].answer)
    assert "X-App" not in answer.headers


def test_the_app_rejects_an_upload(hooked, cloud, receiver):
    receiver.reply = {"RejectUpload": True, "HTTPResponse": {"StatusCode": 400, "Body": "no"}}
    answer = post(hooked, "ApplyUploadUGC", {"signature": signer(hooked)()} | announced(3))
    assert (answer.status_code, answer.json()["code"]) == (200, 10023)
    # Only the second file.
    receiver.reply = lambda call: {"RejectUpload": call.upload["Size"] == 5}
    assert applied(hooked, coverName="c", coverType="jpg", coverSize=5) == 10023
    assert cloud.calls == []
    assert applied(hooked) == 0


def test_an_app_that_is_away_decides_nothing(hooked, cloud, receiver):
    receiver.reply = 500
    unavailable(post(hooked, "ApplyUploadUGC", {"signature": signer(hooked)()} | announced(3)))
    assert cloud.calls == []


# Pages


def test_a_page_of_another_origin_may_call(start, cloud):
    server = start(CORS_ORIGINS="https://app.example", TENCENT_APPLIES_PER_SECOND="1")
    url = f"{server.url}{UGC}?Action=ApplyUploadUGC"
    origin = {"Origin": "https://app.example"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    preflight = requests.options(url, headers=origin | asked, timeout=30)
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "content-type" in preflight.headers["Access-Control-Allow-Headers"].lower()
    assert cloud.calls == []
    body = {"signature": signer(server)(), "vodSessionKey": "x"}
    theirs = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true"}
    cloud.faults = [Answer(fields=theirs), Answer(500, b"", theirs), Noise()]
    for action, wanted in [("CommitUploadUGC", 200), ("CommitUploadUGC", 500), ("CommitUploadUGC", 503), ("", 200)]:
        answer = post(server, action, body, headers=origin)
        assert answer.status_code == wanted
        assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert "Access-Control-Allow-Credentials" not in answer.headers
    other = post(server, "CommitUploadUGC", body, headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


# Secrets


def test_the_secret_key_is_nowhere(start, cloud, store):
    server = start(LOG_LEVEL="debug")
    seen = []
    signature = signer(server)()
    cloud.faults = [None, Answer(500), Reset()]
    for action in ["ApplyUploadUGC", "CommitUploadUGC", "PrepareUploadUGC", "x"]:
        for text in [signature, own(("AKIDother", PAIR[1])), signature[:-8]]:
            answer = post(server, action, {"signature": text, "vodSessionKey": "session-1"} | announced(3))
            seen.append(str(answer.headers) + answer.text)
    seen.append(API(server.url, server.admin_key).get("/metrics").text)
    log = server.whole_log()
    assert PAIR[1] not in log + "".join(seen)
    # Signatures are credentials, too.
    assert signature not in log
    assert not [one for one in cloud.calls if PAIR[1] in str(one.fields) + one.body.decode() + one.target]


def test_calls_of_one_user_leave_places_for_those_of_others(start, cloud):
    """256 calls are under way at once; one user has half of them, however many wait."""
    gateway = start(TENCENT_ENDPOINT_TIMEOUT="60s")
    eve, bob = ({"signature": signer(gateway, subject=name)()} for name in ("eve", "bob"))
    cloud.faults = [Silence() for _ in range(128)]
    with ThreadPoolExecutor(140) as pool:
        answers = [pool.submit(post, gateway, "PrepareUploadUGC", eve) for _ in range(140)]
        until(lambda: len(cloud.calls) >= 128)
        for _ in range(3):
            assert code(gateway, "PrepareUploadUGC", bob) == 0
        assert len(cloud.calls) == 131
        cloud.ended.set()
        assert {one.result().status_code for one in answers} <= {200, 503}
