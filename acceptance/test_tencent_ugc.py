"""Shipped upload SDKs of Tencent Cloud VOD, whose calls and bytes come to the gateway."""

import base64
import hmac
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
import requests

from harness.api import API
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.server import Server, run
from harness.ugc import IOS, Android, CPlusPlus, MiniProgram, Refused, VodJS, announced, parameters, signer
from harness.wire import until

BUCKET = "vod-1250000000"
UGC = "/v3/index.php"
VIDEO = content(3 * MIB + 77, 1)
COVER = content(2 * KIB, 2)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    # Most tests are of one user.
    settings = {"SLUICE_UPLOADS_SWEEP_EVERY": "1s", "SLUICE_TENCENT_APPLIES_PER_SECOND": "1000"}
    with ObjectServer(tmp_path_factory.mktemp("ugc") / "data", free_port(), settings) as server:
        yield server


def stored(server, data, kind="video"):
    """The bytes behind the URL of a commit, read by S3."""
    path = data[kind]["url"].split(f"/{BUCKET}/", 1)[1]
    return server.client().get_object(Bucket=BUCKET, Key=path)["Body"].read()


def call(server, action, body, **options):
    """The code and message of one call."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = requests.post(f"{server.url}{UGC}?Action={action}", data=text, timeout=30, **options)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert set(document) <= {"code", "message", "data"} and type(document["code"]) is int
    return document["code"], document["message"]


def refused(code, work, *arguments, **options):
    with pytest.raises(Refused) as caught:
        work(*arguments, **options)
    assert caught.value.code == code, caught.value
    return caught.value


# The SDKs


@pytest.mark.parametrize("sdk", [VodJS, MiniProgram, IOS, Android])
@pytest.mark.parametrize("size", [1, MIB, 3 * MIB + 77])
def test_a_video_and_its_cover_become_one_media(gateway, sdk, size):
    video = content(size, size)
    data = sdk(gateway, signer(gateway)).upload(video, COVER)
    assert stored(gateway, data) == video
    assert stored(gateway, data, "cover") == COVER
    assert f"/{data['fileId']}/" in data["video"]["url"] and f"/{data['fileId']}/" in data["cover"]["url"]


def test_the_sdk_of_2019(gateway):
    data = CPlusPlus(gateway, signer(gateway)).upload(VIDEO)
    assert stored(gateway, data) == VIDEO
    assert "cover" not in data


@pytest.mark.parametrize("type", ["jpg", "PNG", "mp3", "m3u8", "pag"])
def test_any_type_is_taken(gateway, type):
    client = VodJS(gateway, signer(gateway))
    path = client.apply({"videoName": "x", "videoType": type, "videoSize": 3})["video"]["storagePath"]
    assert path.endswith("." + type.lower())
    client.send_file(path, b"abc")
    assert stored(gateway, client.commit()) == b"abc"


def test_an_app_server_can_check_where_a_file_id_comes_from(gateway):
    pair = json.loads(run("credentials", "tencent", environment=gateway.environment).stdout)
    data = VodJS(gateway, signer(gateway)).upload(b"1")
    raw = base64.b64decode(data["video"]["verify_content"], validate=True)
    assert hmac.digest(pair["secretKey"].encode(), raw[20:], "sha1") == raw[:20]
    expiry, identifier = raw[20:].decode().split("&")
    assert identifier == f"FileId={data['fileId']}"
    assert 3500 < int(expiry.removeprefix("ExpTime=")) - time.time() <= 3600


def test_a_page_of_another_origin_may_call(gateway):
    fields = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for url in [f"{gateway.url}{UGC}?Action=ApplyUploadUGC", f"{gateway.object_url}/vod/1/2/f0.mp4"]:
        preflight = requests.options(url, headers=fields, timeout=30)
        assert preflight.status_code in (200, 204)
        assert preflight.headers["Access-Control-Allow-Origin"] in ("*", "https://app.example")
        assert "content-type" in preflight.headers["Access-Control-Allow-Headers"].lower()
    answer = requests.post(
        f"{gateway.url}{UGC}?Action=ApplyUploadUGC", data=b"{}", headers={"Origin": "https://app.example"}, timeout=30
    )
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_reports_of_sdks_are_counted(gateway):
    for path in ["/ugcupload_new", "/ugcupload"]:
        answer = requests.post(gateway.url + path, json={"reqType": 40001}, timeout=30)
        assert (answer.status_code, answer.json()) == (200, {})
    text = API(gateway.url, gateway.admin_key).get("/metrics").text
    assert 'sluice_tencent_calls_total{call="report",code="0"} 2' in text


def test_the_settings_are_in_the_answers(tmp_path):
    settings = {
        "SLUICE_TENCENT_BUCKET": "films",
        "SLUICE_TENCENT_APP_ID": "77",
        "SLUICE_TENCENT_VOD_APP_ID": "88",
        "SLUICE_TENCENT_REGION": "ap-chongqing",
        "SLUICE_TENCENT_DOMAIN": "vod.example",
        "SLUICE_TENCENT_COS_DOMAIN": "cos.example:9000",
        "SLUICE_TENCENT_MEDIA_URL": "https://cdn.example/films",
        "SLUICE_TENCENT_CERTIFICATE_LIFETIME": "10m",
    }
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        # Android would send everything to an accelerated name of Tencent, and the others do not know the member.
        for sdk in [IOS, Android, MiniProgram, VodJS]:
            client = sdk(server, signer(server))
            data = client.apply(announced(3))
            accelerated = {"isOpen": 1, "domain": "cos.example:9000"} if sdk is IOS else None
            assert data.get("cosAcc") == accelerated, sdk
        assert (data["storageBucket"], data["storageAppId"], data["appId"]) == ("films", 77, 88)
        assert (data["storageRegion"], data["storageRegionV5"], data["domain"]) == ("cq", "ap-chongqing", "vod.example")
        assert data["tempCertificate"]["expiredTime"] - data["timestamp"] == 600
        client.send_file(data["video"]["storagePath"], b"abc")
        # Android would make `httpss:` of `https:`.
        assert client.commit()["video"]["url"] == f"http://cdn.example/films{data['video']['storagePath']}"


def test_the_region_of_the_signature_comes_before_that_of_the_client(gateway):
    body = announced(3) | {"storageRegion": "ap-shanghai"}
    client = VodJS(gateway, signer(gateway))
    assert client.apply(announced(3))["storageRegionV5"] == "ap-guangzhou"
    assert client.apply(body)["storageRegionV5"] == "ap-shanghai"
    client = VodJS(gateway, signer(gateway, storageRegion="ap-beijing", vodSubAppId=1500000009))
    data = client.apply(body)
    assert (data["storageRegionV5"], data["storageRegion"], data["appId"]) == ("ap-beijing", "bj", 1500000009)
    assert data["video"]["storagePath"].startswith("/vod/1500000009/")


@pytest.mark.parametrize("region", ["ap-chongqing", "ap-singapore", "eu-frankfurt"])
@pytest.mark.parametrize("sdk", [VodJS, MiniProgram, IOS])
def test_the_bytes_come_under_the_name_of_any_region(gateway, sdk, region):
    client = sdk(gateway, signer(gateway, storageRegion=region))
    data = client.upload(VIDEO, COVER)
    assert client.cos_host == f"{BUCKET}.cos.{region}.myqcloud.com"
    assert stored(gateway, data) == VIDEO and stored(gateway, data, "cover") == COVER


# Resuming


@pytest.mark.parametrize("sdk", [IOS, Android, VodJS])
def test_an_upload_goes_on_after_app_and_gateway_were_killed(gateway, sdk):
    first = sdk(gateway, signer(gateway))
    assert first.upload(VIDEO, COVER, stop_after=2) is None
    gateway.kill()
    gateway.start()
    second = sdk(gateway, signer(gateway))
    sent = []
    put_part = second.put_part
    second.put_part = lambda path, upload, number, data: sent.append(number) or put_part(path, upload, number, data)
    if sdk is VodJS:
        data = second.upload(VIDEO, COVER, session_key=first.applied["vodSessionKey"])
        # The last one is that of the cover.
        assert sent == [3, 4, 1]
    else:
        second.kept = first.kept
        data = second.upload(VIDEO, COVER)
        assert sent == [3, 4]
    assert second.applied["video"] == first.applied["video"] and second.applied["cover"] == first.applied["cover"]
    assert second.applied["tempCertificate"] != first.applied["tempCertificate"]
    assert stored(gateway, data) == VIDEO


@pytest.mark.parametrize(("sdk", "retcode"), [(IOS, 1002), (Android, 1001)])
@pytest.mark.parametrize(
    ("before", "now"),
    [(None, COVER), (COVER, None), (COVER, COVER + b"x")],
    ids=["none before", "none now", "another size"],
)
def test_a_phone_that_resumes_with_another_cover_begins_again(gateway, sdk, retcode, before, now):
    """Phones keep a session by the video alone, and name all files again."""
    phone = sdk(gateway, signer(gateway))
    assert phone.upload(VIDEO, before, stop_after=2) is None
    first = phone.applied["video"]
    assert refused(10022, phone.upload, VIDEO, now).retcode == retcode
    # By then the phone has forgotten the session.
    data = phone.upload(VIDEO, now)
    assert phone.applied["video"] != first
    assert stored(gateway, data) == VIDEO
    assert ("cover" in data) == (now is not None)
    if now is not None:
        assert stored(gateway, data, "cover") == now


@pytest.mark.parametrize("sdk", [IOS, Android])
def test_a_phone_that_names_a_video_anew_goes_on(gateway, sdk):
    phone = sdk(gateway, signer(gateway))
    assert phone.upload(VIDEO, COVER, stop_after=2, name="IMG_1") is None
    first = phone.applied["video"]
    # The picker of photos makes another copy each time, and the cover was made anew.
    cover = COVER[::-1]
    data = phone.upload(VIDEO, cover, name="IMG_2")
    assert phone.applied["video"] == first
    assert stored(gateway, data) == VIDEO and stored(gateway, data, "cover") == cover


def test_files_of_another_session_are_not_resumed(gateway):
    client = VodJS(gateway, signer(gateway))
    made = client.upload(b"abc", b"c")
    client.apply(announced(3, 1))
    media = {"vodSessionKey": client.applied["vodSessionKey"]}
    client.apply({"fileId": made["fileId"], "coverName": "n", "coverType": "png", "coverSize": 1})
    cover = {"vodSessionKey": client.applied["vodSessionKey"]}
    cover_file = {"coverName": "n", "coverType": "png", "coverSize": 1}
    for wanted in [
        media,
        media | announced(3, 1),
        media | announced(3, 1) | {"videoType": "MP4", "videoName": "w"},
        media | {"videoName": "v", "videoType": "mp4", "coverType": "jpg"},
        cover,
        cover | cover_file | {"fileId": made["fileId"]},
    ]:
        client.apply(wanted)
    for wanted in [
        media | announced(4, 1),
        media | announced(3, 2),
        media | announced(3),
        media | announced(3, 1) | {"videoType": "mov"},
        media | announced(3, 1) | {"coverType": "png"},
        media | cover_file,
        media | {"fileId": made["fileId"]},
        cover | announced(3, 1),
        cover | cover_file | {"fileId": "1764000000000000000"},
    ]:
        refused(10022, client.apply, wanted)
    # A refusal ends nothing.
    client.apply(media)
    client.send_file(client.applied["video"]["storagePath"], b"abc")
    client.send_file(client.applied["cover"]["storagePath"], b"c")
    client.commit()


def test_a_commit_can_be_repeated(gateway):
    client = VodJS(gateway, signer(gateway))
    data = client.upload(VIDEO)
    with ThreadPoolExecutor(20) as pool:
        again = list(pool.map(lambda _: client.commit(), range(20)))
    assert {one["fileId"] for one in again} == {data["fileId"]}
    gateway.stop()
    gateway.start()
    assert client.commit()["fileId"] == data["fileId"]
    # The session is over.
    refused(10022, client.apply, {"vodSessionKey": client.applied["vodSessionKey"]})


def test_commits_at_once_make_one_media(gateway):
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(3))
    client.send_file(client.applied["video"]["storagePath"], b"abc")
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: client.commit(), range(20)))
    assert len({one["fileId"] for one in found}) == 1


def test_a_commit_without_all_bytes_loses_nothing(gateway):
    client = Android(gateway, signer(gateway))
    assert client.upload(VIDEO, stop_after=1) is None
    refused(10024, client.commit)
    data = client.upload(VIDEO)
    assert stored(gateway, data) == VIDEO
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(3, 1))
    client.send_file(client.applied["video"]["storagePath"], b"abc")
    assert "cover" in refused(10024, client.commit).message
    client.send_file(client.applied["cover"]["storagePath"], b"c")
    client.commit()
    # Fewer bytes than were announced.
    client.apply(announced(3))
    client.send_file(client.applied["video"]["storagePath"], b"ab")
    assert "2 bytes instead of 3" in refused(10024, client.commit).message
    client.send_file(client.applied["video"]["storagePath"], b"abc")
    client.commit()


def test_sessions_belong_to_a_user_and_an_application(gateway):
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(3))
    key = client.applied["vodSessionKey"]
    others = [signer(gateway, subject="eve"), signer(gateway, vodSubAppId=1500000001)]
    for signature in others:
        for action in ["ApplyUploadUGC", "CommitUploadUGC"]:
            assert call(gateway, action, {"signature": signature(), "vodSessionKey": key})[0] == 10022
    for broken in ["x", key[:-4], key[4:], key + "AAAA", "A" * len(key)]:
        assert call(gateway, "CommitUploadUGC", {"signature": signer(gateway)(), "vodSessionKey": broken})[0] == 10022


def test_another_cover(gateway):
    client = VodJS(gateway, signer(gateway))
    made = client.upload(VIDEO, COVER)
    session = None
    for cover in [content(KIB, 3), content(KIB, 4)]:
        client.apply({"fileId": made["fileId"], "coverName": "n", "coverType": "png", "coverSize": len(cover)})
        session = client.applied["vodSessionKey"]
        client.send_file(client.applied["cover"]["storagePath"], cover)
        data = client.commit()
        assert data["fileId"] == made["fileId"] and "video" not in data
        assert stored(gateway, data, "cover") == cover
        assert client.commit(session) == data | {"cover": client.commit(session)["cover"]}
    assert stored(gateway, made) == VIDEO
    listed = gateway.client().list_objects_v2(Bucket=BUCKET, Prefix=f"vod/1500000000/{made['fileId']}/")
    assert listed["KeyCount"] == 2
    body = {"fileId": "1764000000000000000", "coverName": "n", "coverType": "png", "coverSize": 1}
    assert call(gateway, "ApplyUploadUGC", {"signature": signer(gateway)()} | body)[0] == 10025
    body["fileId"] = made["fileId"]
    assert call(gateway, "ApplyUploadUGC", {"signature": signer(gateway, subject="eve")()} | body)[0] == 10025


def test_an_expired_session_leaves_nothing(tmp_path):
    settings = {"SLUICE_TENCENT_SESSION_LIFETIME": "2s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        done, left = VodJS(server, signer(server)), VodJS(server, signer(server))
        kept = done.upload(b"kept")
        left.apply(announced(3))
        left.send_file(left.applied["video"]["storagePath"], b"abc")
        listing = {"Bucket": BUCKET, "Prefix": "vod/"}
        assert server.client().list_objects_v2(**listing)["KeyCount"] == 2
        until(lambda: server.client().list_objects_v2(**listing)["KeyCount"] == 1)
        refused(10022, left.commit)
        assert stored(server, kept) == b"kept"


# Signatures


def own(server, **changes):
    """A signature by the gateway's own pair, made here."""
    pair = json.loads(run("credentials", "tencent", environment=server.environment).stdout)
    now = int(time.time())
    values = {"secretId": pair["secretId"], "currentTimeStamp": now, "expireTime": now + 600, "random": 7} | changes
    text = urlencode({name: value for name, value in values.items() if value is not None}).encode()
    return text, pair["secretKey"]


def encoded(text, key, encode=base64.b64encode):
    return encode(hmac.digest(key.encode(), text, "sha1") + text).decode()


def test_signatures_that_are_refused(gateway):
    now = int(time.time())
    text, key = own(gateway)
    good = encoded(text, key)
    apply = announced(3)

    def code(signature):
        return call(gateway, "ApplyUploadUGC", {"signature": signature} | apply)[0]

    assert code(good) == 0
    wrong = {
        "no Base64": "%%%%",
        "URL-safe": good[:30] + "-" + good[31:],
        "a line feed": good[:20] + "\n" + good[20:],
        "no padding": good.rstrip("=") if good.endswith("=") else good + "=",
        "short": base64.b64encode(b"1" * 20).decode(),
        "other key": encoded(text, key + "x"),
        "hexadecimal code": base64.b64encode(hmac.new(key.encode(), text, "sha1").hexdigest().encode() + text).decode(),
        "twice": encoded(text + b"&random=8", key),
    }
    changes = {
        "other id": {"secretId": "AKID" + "x" * 32},
        "no id": {"secretId": None},
        "no time": {"currentTimeStamp": None},
        "fraction": {"currentTimeStamp": f"{now}.5"},
        "text": {"expireTime": "tomorrow"},
        "random": {"random": 1 << 32},
        "90 days": {"currentTimeStamp": now, "expireTime": now + 7_776_001},
        "flag": {"oneTimeValid": 2},
        "subject": {"sluiceSubject": "a\nb"},
        "no subject": {"sluiceSubject": ""},
        "size": {"sluiceMaxBytes": "many"},
        "types": {"sluiceContentTypes": "video"},
        "application": {"vodSubAppId": -1},
        "region": {"storageRegion": "../x"},
        "long region": {"storageRegion": "a" * 65},
        "source": {"sourceContext": "ü" * 251},
        "session": {"sessionContext": "x" * 1001},
        "class": {"classId": -1},
        "priority": {"taskPriority": 11},
        "notification": {"taskNotifyMode": "Later"},
    }
    wrong |= {name: encoded(own(gateway, **change)[0], key) for name, change in changes.items()}
    assert {name: code(signature) for name, signature in wrong.items()} == dict.fromkeys(wrong, 10004)
    assert code(encoded(own(gateway, currentTimeStamp=now - 20, expireTime=now - 10)[0], key)) == 10010
    assert code("") == 10004 and code(None) == 10004
    # The longest contexts; and what backends sign that have nothing to say.
    good = {"sourceContext": "ü" * 250, "sessionContext": "x" * 1000, "taskPriority": -10, "classId": 0}
    assert code(encoded(own(gateway, **good)[0], key)) == 0
    optional = ["classId", "procedure", "taskPriority", "taskNotifyMode", "sourceContext", "oneTimeValid"]
    optional += ["vodSubAppId", "sessionContext", "storageRegion"]
    for values in [dict.fromkeys(optional, ""), {"vodSubAppId": 0}]:
        client = VodJS(gateway, lambda values=values: encoded(own(gateway, **values)[0], key))
        data = client.apply(announced(1))
        assert (data["appId"], data["storageRegionV5"]) == (1500000000, "ap-guangzhou")
        assert data["video"]["storagePath"].startswith("/vod/1500000000/")
    # Both encodings of a space.
    for space in [b"a+b", b"a%20b"]:
        assert code(encoded(text + b"&sourceContext=" + space, key)) == 0


def test_phones_report_an_expired_signature(gateway):
    now = int(time.time())
    text, key = own(gateway, currentTimeStamp=now - 20, expireTime=now - 10)
    for sdk in [IOS, Android]:
        client = sdk(gateway, lambda: encoded(text, key))
        client.prepare = lambda: None
        assert refused(10010, client.upload, b"1").retcode == 1020


def test_phones_report_any_refused_commit_alike(gateway):
    """Also 10010: 1020 and 1002 come from the begin of an upload alone."""
    now = int(time.time())
    good, key = own(gateway)
    expired, _ = own(gateway, currentTimeStamp=now - 20, expireTime=now - 10)
    for sdk in [IOS, Android]:
        for text, secret, code in [(expired, key, 10010), (good, "x", 10004)]:
            client = sdk(gateway, lambda: encoded(good, key))
            send = client.send_video

            def sent(*arguments, client=client, send=send, text=text, secret=secret):
                client.signature = lambda: encoded(text, secret)
                return send(*arguments)

            client.send_video = sent
            assert refused(code, client.upload, b"1").retcode == 1006


def test_phones_report_what_the_gateway_refuses(gateway):
    for sdk, retcode in [(IOS, 1002), (Android, 1001)]:
        assert refused(10023, sdk(gateway, signer(gateway, maxBytes=1)).upload, b"12").retcode == retcode
        client = sdk(gateway, signer(gateway))
        client.send_video = lambda *_: True
        assert refused(10024, client.upload, b"1").retcode == 1006


def test_a_one_time_signature_admits_one_upload(gateway):
    once = signer(gateway, oneTimeValid=True)()
    body = {"signature": once} | announced(3)
    with ThreadPoolExecutor(50) as pool:
        codes = list(pool.map(lambda _: call(gateway, "ApplyUploadUGC", body)[0], range(50)))
    assert sorted(codes) == [0] + [10021] * 49
    assert call(gateway, "PrepareUploadUGC", {"signature": once})[0] == 0
    # One for all calls, as phones do, also when the upload is resumed; and another for each, as pages do.
    phone = Android(gateway, signer(gateway, oneTimeValid=True))
    assert phone.upload(VIDEO, stop_after=1) is None
    phone.upload(VIDEO)
    page = VodJS(gateway, signer(gateway, oneTimeValid=True))
    page.upload(b"1")
    page.commit()
    # That of one upload does not commit another.
    other = VodJS(gateway, signer(gateway))
    other.apply(announced(1))
    refused(10021, VodJS(gateway, lambda: once).commit, other.applied["vodSessionKey"])


def test_the_pair_of_an_api_key_signs_and_is_revoked(gateway):
    made = run("keys", "create", "--name", "app", "--scope", "mint", environment=gateway.environment).stdout
    identifier, key = re.search(r"key_\w+", made)[0], re.search(r"slk_\S+", made)[0]
    secret_id, secret = gateway.pair(identifier)
    signature = encoded(own(gateway, secretId=secret_id)[0], secret)
    client = VodJS(gateway, lambda: signature)
    client.upload(b"1")
    minted = VodJS(gateway, signer(gateway, key))
    minted.apply(announced(1))
    assert f"sluiceKey={identifier}" in parameters(minted.signature())
    kept = minted.signature()
    run("keys", "revoke", identifier, environment=gateway.environment)
    time.sleep(1.1)
    refused(10004, client.apply, announced(1))
    minted.signature = lambda: kept
    refused(10004, minted.commit)
    refused("AccessDenied", minted.send_file, minted.applied["video"]["storagePath"], b"1")


def test_the_pair_of_a_limited_key_signs_for_its_user_only(gateway):
    made = run(
        *("keys", "create", "--name", "app", "--scope", "mint", "--subject", "dora"), environment=gateway.environment
    ).stdout
    secret_id, secret = gateway.pair(re.search(r"key_\w+", made)[0])

    def code(**more):
        signature = encoded(own(gateway, secretId=secret_id, **more)[0], secret)
        return call(gateway, "ApplyUploadUGC", {"signature": signature} | announced(3))[0]

    assert code(sluiceSubject="dora") == 0
    assert code(sluiceSubject="eve") == 10004
    assert code() == 10004
    # The key itself, too.
    api = API(gateway.url, re.search(r"slk_\S+", made)[0])
    statuses = [
        api.post("/v1/tencent/signatures", fields).status_code
        for fields in [{"subject": "dora"}, {"subject": "eve"}, {}]
    ]
    assert statuses == [201, 403, 403]


def test_certificates_end_with_the_key(gateway):
    admin = API(gateway.url, gateway.admin_key)
    end = int(time.time()) + 101
    key = admin.post("/v1/keys", {"name": "brief", "scopes": ["mint"], "expiresIn": 100}).json()
    secret_id, secret = gateway.pair(key["id"])
    minted = signer(gateway, key["secret"])()
    made = encoded(own(gateway, secretId=secret_id, sluiceSubject="dora")[0], secret)
    assert int(parameters(minted).split("sluiceUntil=")[1].split("&")[0]) <= end
    for signature in [minted, made]:
        client = VodJS(gateway, lambda signature=signature: signature)
        session = client.apply(announced(1))["vodSessionKey"]
        assert client.applied["tempCertificate"]["expiredTime"] <= end
        assert client.apply({"vodSessionKey": session})["tempCertificate"]["expiredTime"] <= end
    # What a key without an end signs has the certificate of the settings.
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(1))
    assert client.applied["tempCertificate"]["expiredTime"] > end + 7000


# Limits


def test_limits_hold_before_a_byte_is_sent(gateway):
    def code(body, **limits):
        files = {"videoName": "v", "videoType": "mp4", "videoSize": 10} | body
        return call(gateway, "ApplyUploadUGC", {"signature": signer(gateway, **limits)()} | files)[0]

    assert code({}, maxBytes=10, contentTypes=["video/*"]) == 0
    assert code({}, maxBytes=9) == 10023
    cover = {"coverName": "c", "coverType": "jpg", "coverSize": 11}
    assert code(cover, maxBytes=10) == 10023
    assert code({"videoType": "exe"}, contentTypes=["video/*"]) == 10023
    assert code({"videoType": "jpg"}, contentTypes=["video/*"]) == 10023
    assert code({"videoSize": 1 << 62}) == 10023


def test_quotas_hold_before_a_byte_is_sent(tmp_path):
    settings = {"SLUICE_QUOTA_SUBJECT_STORED_BYTES": "100"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        client = VodJS(server, signer(server))
        assert "left" in refused(10023, client.upload, bytes(101)).message
        client.upload(bytes(60))
        refused(10023, client.upload, bytes(41))
        client.upload(bytes(40))


def test_credentials_allow_what_was_announced(gateway):
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(100, 5))
    video, cover = client.applied["video"]["storagePath"], client.applied["cover"]["storagePath"]
    client.signs_host = True
    for path in ["/x", "/vod/1/2/f0.mp4", video + "x", video.replace("f0", "f1"), video.rsplit("/", 1)[0] + "/"]:
        refused("AccessDenied", client.cos, "PUT", path, data=b"1")
        refused("AccessDenied", client.initiate, path)
    refused("AccessDenied", client.cos, "PUT", cover, data=b"123456")
    refused("EntityTooLarge", client.cos, "PUT", video, data=bytes(101))
    upload = client.initiate(video)
    client.put_part(video, upload, 1, bytes(60))
    refused("EntityTooLarge", client.put_part, video, upload, 2, bytes(60))
    refused("AccessDenied", client.cos, "GET", video)
    refused("AccessDenied", client.cos, "GET", "/", {"prefix": "vod/"})
    refused("AccessDenied", client.cos, "DELETE", video)


def test_the_certificate_sets_no_tags(gateway):
    """By tags, the lifecycle of a bucket may delete what is in it."""
    client = VodJS(gateway, signer(gateway))
    client.apply(announced(1))
    client.signs_host = True
    path = client.applied["video"]["storagePath"]
    field = {"x-cos-tagging": "tmp=yes"}
    signed = {"headers": field, "signed": list(field)}
    refused("AccessDenied", client.cos, "PUT", path, data=b"1", **signed)
    refused("AccessDenied", client.cos, "POST", path, {"uploads": ""}, **signed)
    client.cos("PUT", path, data=b"1")


def test_an_app_cannot_begin_too_many_uploads(tmp_path):
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_TENCENT_APPLIES_PER_SECOND": "5"}) as server:
        signature = signer(server)()
        body = {"signature": signature} | announced(1)
        with ThreadPoolExecutor(10) as pool:
            codes = list(pool.map(lambda _: call(server, "ApplyUploadUGC", body)[0], range(200)))
        assert set(codes) == {0, 10026} and codes.count(0) < 200
        assert call(server, "ApplyUploadUGC", body | {"signature": signer(server, vodSubAppId=9)()})[0] == 0


def test_one_user_does_not_keep_out_others(tmp_path):
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_TENCENT_APPLIES_PER_SECOND": "20"}) as server:
        dora, eve = ({"signature": signer(server, subject=name)()} | announced(1) for name in ("dora", "eve"))
        codes, others = [], []

        def flood():
            while len(others) < 5:
                codes.append(call(server, "ApplyUploadUGC", dora)[0])

        with ThreadPoolExecutor(4) as pool:
            floods = [pool.submit(flood) for _ in range(4)]
            assert until(lambda: 10026 in codes)
            for _ in range(5):
                others.append(call(server, "ApplyUploadUGC", eve)[0])
            for one in floods:
                one.result()
        assert set(codes) == {0, 10026} and others == [0] * 5


# Requests that are wrong


def test_requests_that_are_wrong(gateway):
    signature = signer(gateway)()
    good = {"signature": signature} | announced(3)

    def code(body, action="ApplyUploadUGC"):
        return call(gateway, action, body)[0]

    assert code(good) == 0
    for size in [0, -1, 1.5, "3", [3], {}, True, 1 << 64]:
        assert code(good | {"videoSize": size}) == 10001, size
    for name in ["a/b", "..\\x", "a:b", "a*b", "a?b", 'a"b', "a<b", "a>b", "a|b", "a\0b", "a\nb", "x" * 513, 5, []]:
        assert code(good | {"videoName": name}) == 10001, name
    for kind in ["", None, "m p4", "../x", "x" * 17, "ümp", 4]:
        assert code(good | {"videoType": kind}) == 10001, kind
    assert code({"signature": signature}) == 10001
    assert code(good | {"coverSize": 3}) == 10001
    assert code(good | {"VIDEONAME": "w"}) == 10001
    assert code(good | {"storageRegion": "../x"}) == 10001
    assert code(good | {"fileId": "1"}) == 10001
    twice = b'{"signature":"a","signature":"b"}'
    for text in [b"", b"{", b"[]", b"null", b"\xff", b"1", b'{"a":1,}', b"[" * 100, twice]:
        assert code(text) in (10001, 10004), text
    assert code(b'{"x":"' + b"x" * 70_000 + b'"}') == 10001
    assert code(good, "CommitUploadUGC") == 10001
    for action in ["", "applyUploadUGC", "DeleteUGC", "ApplyUploadUGC&Action=CommitUploadUGC"]:
        assert code(good, action) in (0, 10001), action
    answer = requests.put(f"{gateway.url}{UGC}?Action=ApplyUploadUGC", json=good, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (200, 10001)


def test_a_gateway_without_object_endpoint_says_so(tmp_path):
    with Server(tmp_path / "data") as server:
        body = {"signature": signer(server)()} | announced(1)
        code, message = call(server, "ApplyUploadUGC", body)
        assert code == 10027 and "object.listen" in message


def test_direct_mode_has_no_sessions(tmp_path):
    settings = {
        "SLUICE_TENCENT_MODE": "direct",
        "SLUICE_TENCENT_SECRET_ID": "AKID" + "x" * 32,
        "SLUICE_TENCENT_SECRET_KEY": "y" * 32,
    }
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        answer = requests.post(f"{server.url}{UGC}?Action=ApplyUploadUGC", json={}, timeout=30)
        assert answer.status_code == 404
