"""The OpenAPI of Alibaba Cloud VOD, as app servers and SDKs with temporary credentials call it."""

import hashlib
import json
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
import requests
from oss2.models import PartInfo

from harness import clock
from harness.aliyun_vod import (
    ACTIONS,
    APP,
    BUCKET,
    HOST,
    REGION,
    Core,
    EventApp,
    Plain,
    Tea,
    acs3,
    address,
    allowing,
    checked,
    create,
    escaped,
    event_signature,
    grant,
    media_id,
    oss,
    refresh,
    refusal,
    sent,
    session,
    stored,
    version1,
    version1_signature,
    version3,
)
from harness.api import API, field_problem, moment, problem
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer, minted
from harness.origin import Origin
from harness.server import Server, run
from harness.wire import until

VIDEO = content(70_003, 1)
VIDEO_FIELDS = {"Title": "t", "FileName": "v.mp4"}
FORM = "application/x-www-form-urlencoded"
UNKNOWN = "0123456789abcdef0123456789abcdef"
DENIED = (403, "Forbidden")
NO_KEY = (404, "InvalidAccessKeyId.NotFound")
NO_VIDEO = (404, "InvalidVideo.NotFound")
WRONG_SIGNATURE = (400, "SignatureDoesNotMatch")


@pytest.fixture(scope="module")
def app():
    with EventApp() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, app):
    settings = {
        "SLUICE_UPLOADS_SWEEP_EVERY": "1s",
        "SLUICE_OBJECT_CALLBACK_HOSTS": app.host,
        "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        "SLUICE_PULL_ATTEMPTS": "2",
        "SLUICE_PULL_RETRY_DELAY": "10ms",
    }
    with ObjectServer(tmp_path_factory.mktemp("vod") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def pair(gateway):
    return gateway.pair()


@pytest.fixture(scope="module")
def vod(gateway, pair):
    return Plain(gateway, pair)


SDKS = {
    "core": Core,
    "core-get": lambda *a: Core(*a, method="GET"),
    "core-form": lambda *a: Core(*a, is_form=True),
    "tea": Tea,
    "tea-rpc": lambda *a: Tea(*a, signature_algorithm="v2"),
    "plain-get": lambda *a: Plain(*a, method="GET"),
    "plain-form": lambda *a: Plain(*a, place="form"),
    "plain-both": lambda *a: Plain(*a, place="both"),
}


@pytest.fixture(params=SDKS)
def sdk(request, gateway, pair):
    return SDKS[request.param](gateway, pair)


@pytest.fixture
def app_id(request):
    """An application of one test's own, as its name says."""
    return f"app-{int(hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:6], 16)}"


def key(server, *options):
    """The id of a new API key, its pair, and its text."""
    made = run("keys", "create", "--name", "vod", *options, environment=server.environment).stdout
    identifier = re.search(r"key_\w+", made)[0]
    return identifier, server.pair(identifier), re.search(r"slk_\S+", made)[0]


def test_what_a_session_is_handed_ends_with_it(gateway, vod):
    granted = grant(vod("CreateUploadVideo", **VIDEO_FIELDS))
    assert int(granted.auth["Expiration"]) > 2900
    end = int(datetime.now(UTC).timestamp()) + 901
    own = Plain(gateway, session(gateway))
    video = own("CreateUploadVideo", **VIDEO_FIELDS)
    granted = grant(video)
    again = grant(own("RefreshUploadVideo", VideoId=video["VideoId"]))
    for one in [granted, again]:
        assert int(one.auth["Expiration"]) <= 900 and moment(one.auth["ExpireUTCTime"]).timestamp() <= end
    oss(again).put_object(again.key, VIDEO)
    for action, place in [("GetPlayInfo", "PlayURL"), ("GetMezzanineInfo", "FileURL")]:
        answer = json.dumps(own(action, VideoId=video["VideoId"], AuthTimeout="604800"))
        url = re.search(rf'"{place}": ?"([^"]+)"', answer)[1]
        assert int(re.search(r"[?&]x-oss-expires=(\d+)", url)[1]) <= 900
        assert requests.get(url).content == VIDEO


def uploaded(server, vod, data=VIDEO, **fields):
    """A new video with its bytes: the id, and where they are."""
    answer = vod("CreateUploadVideo", **(VIDEO_FIELDS | fields))
    granted = grant(answer)
    oss(granted).put_object(granted.key, data)
    return answer["VideoId"], granted


def info(vod, identifier):
    return vod("GetVideoInfo", VideoId=identifier)["Video"]


# The SDKs


def test_a_video_from_its_creation_to_its_deletion(gateway, sdk, app_id):
    title, description, tags = "Alpen & 日本 +~*", 'a "b" <c> %41', "rot,blau grün"
    answer = sdk(
        "CreateUploadVideo",
        Title=title,
        FileName="D:\\films\\x y.MP4",
        FileSize=len(VIDEO),
        Description=description,
        Tags=tags,
        CateId=7,
        CoverURL="http://pictures.example/1.jpg",
        AppId=app_id,
        ReferenceId=f"order-{app_id}",
        UserData='{"Extend":{"order":7}}',
    )
    identifier, granted = answer["VideoId"], grant(answer)
    assert answer.keys() == {"RequestId", "VideoId", "UploadAddress", "UploadAuth"}
    assert granted.bucket == BUCKET and granted.auth["Region"] == REGION
    assert granted.key.startswith(f"{app_id}/") and granted.key.lower().endswith(".mp4")
    assert 2900 < int(granted.auth["Expiration"]) <= 3000
    video = sdk("GetVideoInfo", VideoId=identifier)["Video"]
    assert (video["Status"], video["Size"], video["ReferenceId"]) == ("Uploading", len(VIDEO), f"order-{app_id}")
    assert refusal(sdk, "GetPlayInfo", VideoId=identifier) == (403, "Forbidden.IllegalStatus")
    again = sdk("RefreshUploadVideo", VideoId=identifier)
    assert again["VideoId"] == identifier and grant(again).address == granted.address
    assert grant(again).credentials != granted.credentials
    # The SDK for browsers asks so in STS mode, and would wait for ever after an answer.
    assert refusal(sdk, "RefreshUploadVideo", VideoId=granted.key) == NO_VIDEO
    oss(grant(again)).put_object(granted.key, VIDEO)
    video = sdk("GetVideoInfo", VideoId=identifier)["Video"]
    assert video["Status"] == "Normal" and video["Size"] == len(VIDEO)
    assert (video["Title"], video["Description"], video["Tags"]) == (title, description, tags)
    assert (video["CateId"], video["AppId"], video["CoverURL"]) == (7, app_id, "http://pictures.example/1.jpg")
    assert abs(moment(video["CreationTime"]) - datetime.now(UTC)) < timedelta(minutes=5)
    mezzanine = sdk("GetMezzanineInfo", VideoId=identifier)["Mezzanine"]
    assert (mezzanine["VideoId"], mezzanine["Size"], mezzanine["Status"]) == (identifier, len(VIDEO), "Normal")
    assert requests.get(mezzanine["FileURL"]).content == VIDEO
    play = sdk("GetPlayInfo", VideoId=identifier)
    assert (play["VideoBase"]["VideoId"], play["VideoBase"]["Title"]) == (identifier, title)
    (stream,) = play["PlayInfoList"]["PlayInfo"]
    assert (stream["Format"], stream["Size"], stream["Status"]) == ("mp4", len(VIDEO), "Normal")
    assert requests.get(stream["PlayURL"]).content == VIDEO
    sdk("UpdateVideoInfo", VideoId=identifier, Title="new", Tags="one", CateId=8, Description="")
    listed = sdk("GetVideoInfos", VideoIds=f"{identifier},{UNKNOWN}")
    (video,) = listed["VideoList"]
    assert (video["Title"], video["Tags"], video["CateId"]) == ("new", "one", 8)
    assert not video.get("Description")
    assert listed["NonExistVideoIds"] == [UNKNOWN]
    found = sdk("SearchMedia", SearchType="video", Match=f"VideoId = '{identifier}'", Fields="Title,Status")
    assert found["Total"] == 1
    (media,) = found["MediaList"]
    assert (media["MediaId"], media["MediaType"], media["Video"]["Title"]) == (identifier, "video", "new")
    details = sdk("GetUploadDetails", MediaIds=f"{identifier},{UNKNOWN}", MediaType="video")
    (detail,) = details["UploadDetails"]
    assert (detail["MediaId"], detail["Title"], detail["FileSize"]) == (identifier, "new", len(VIDEO))
    assert detail["UploadSize"] == len(VIDEO) and detail["UploadRatio"] == 1
    assert details["NonExistMediaIds"] == [UNKNOWN]
    deleted = sdk("DeleteVideo", VideoIds=f"{identifier},{UNKNOWN}")
    assert deleted["NonExistVideoIds"] == [UNKNOWN]
    assert refusal(sdk, "GetVideoInfo", VideoId=identifier) == NO_VIDEO
    assert refusal(sdk, "RefreshUploadVideo", VideoId=identifier) == NO_VIDEO
    prefix = {"Bucket": BUCKET, "Prefix": f"{app_id}/"}
    assert gateway.client().list_objects_v2(**prefix)["KeyCount"] == 0


def test_an_image_from_its_creation_to_its_deletion(gateway, sdk, app_id):
    picture = content(2 * KIB, 2)
    answer = sdk(
        "CreateUploadImage",
        ImageType="default",
        ImageExt="jpg",
        Title="Bild",
        Tags="a,b",
        AppId=app_id,
        OriginalFileName="IMG 1.jpg",
    )
    granted = grant(answer)
    assert answer.keys() == {"RequestId", "ImageId", "ImageURL", "FileURL", "UploadAddress", "UploadAuth"}
    assert granted.key.startswith(f"{app_id}/") and granted.key.endswith(".jpg")
    assert answer["FileURL"].endswith(granted.key) and granted.key in answer["ImageURL"]
    assert sdk("GetImageInfo", ImageId=answer["ImageId"])["ImageInfo"]["Status"] == "Uploading"
    oss(granted).put_object(granted.key, picture)
    image = sdk("GetImageInfo", ImageId=answer["ImageId"], AuthTimeout=3600)["ImageInfo"]
    assert (image["Title"], image["Tags"], image["Status"], image["AppId"]) == ("Bild", "a,b", "Normal", app_id)
    assert image["Mezzanine"]["OriginalFileName"] == "IMG 1.jpg" and image["Mezzanine"]["FileSize"] == str(len(picture))
    assert image["Mezzanine"]["FileURL"].endswith(granted.key)
    assert requests.get(image["URL"]).content == picture
    found = sdk("SearchMedia", SearchType="image", Match=f"ImageId = '{answer['ImageId']}'", Fields="Title")
    assert [one["Image"]["Title"] for one in found["MediaList"]] == ["Bild"]
    sdk("DeleteImage", DeleteImageType="ImageId", ImageIds=answer["ImageId"])
    assert refusal(sdk, "GetImageInfo", ImageId=answer["ImageId"]) == (404, "InvalidImage.NotFound")


def test_attached_media(gateway, sdk, app_id):
    answer = sdk("CreateUploadAttachedMedia", BusinessType="subtitle", MediaExt="srt", Title="en", AppId=app_id)
    granted = grant(answer)
    assert answer.keys() == {"RequestId", "MediaId", "MediaURL", "FileURL", "UploadAddress", "UploadAuth"}
    assert granted.key.startswith(f"{app_id}/") and granted.key.endswith(".srt")
    oss(granted).put_object(granted.key, b"1")
    assert stored(gateway, granted) == b"1"
    match = f"MediaId = '{answer['MediaId']}'"
    found = sdk("SearchMedia", SearchType="attached", Match=match, Fields="Title,BusinessType,Status")
    (media,) = found["MediaList"]
    assert media["MediaId"] == answer["MediaId"]
    assert (media["AttachedMedia"]["Title"], media["AttachedMedia"]["BusinessType"]) == ("en", "subtitle")
    assert media["AttachedMedia"]["Status"] == "Normal"


def leaves(value):
    """All texts of an answer in JSON, as XML has them."""
    if isinstance(value, dict):
        return [text for name, one in value.items() if name != "RequestId" for text in leaves(one)]
    if isinstance(value, list):
        return [text for one in value for text in leaves(one)]
    if isinstance(value, float):
        value = int(value) if value.is_integer() else value
    return [json.dumps(value) if isinstance(value, bool | float | int) else value or ""]


def test_answers_in_xml_say_what_those_in_json_say(gateway, pair, vod):
    video, granted = uploaded(gateway, vod, Title="a & <b> é", Tags="x,y", Description="d")
    image = media_id(vod("CreateUploadImage", ImageType="cover"))
    xml = Plain(gateway, pair, format="XML")
    for action, parameters in [
        ("GetVideoInfo", {"VideoId": video}),
        ("GetVideoInfos", {"VideoIds": f"{video},{UNKNOWN}"}),
        ("GetImageInfo", {"ImageId": image}),
        ("GetUploadDetails", {"MediaIds": f"{video},{UNKNOWN}"}),
        ("SearchMedia", {"Match": f"VideoId = '{video}'", "Fields": "Title,Tags,Status"}),
        ("GetURLUploadInfos", {"JobIds": UNKNOWN}),
        ("GetMezzanineInfo", {"VideoId": video}),
        ("GetPlayInfo", {"VideoId": video}),
        ("GetMessageCallback", {}),
        ("UpdateVideoInfo", {"VideoId": video, "Title": "n"}),
    ]:
        root = xml(action, **parameters)
        texts = [one.text or "" for one in root.iter() if len(one) == 0 and one.tag != "RequestId"]
        texts = [text.removesuffix(".0") for text in texts]
        wanted = leaves(vod(action, **parameters))
        # Links are signed anew.
        differences = Counter(texts) - Counter(wanted), Counter(wanted) - Counter(texts)
        for texts in differences:
            assert all(text.startswith("http") or text == "" for text in texts), (action, differences)
    for action, parameters in [
        ("CreateUploadVideo", VIDEO_FIELDS),
        ("CreateUploadImage", {"ImageType": "default"}),
        ("CreateUploadAttachedMedia", {"BusinessType": "material", "MediaExt": "txt"}),
        ("RefreshUploadVideo", {"VideoId": video}),
    ]:
        document = {one.tag: one.text for one in xml(action, **parameters)}
        assert document.keys() == vod(action, **parameters).keys()
        grant(document)
    assert refusal(xml, "GetVideoInfo", VideoId=UNKNOWN) == NO_VIDEO
    # Without a format.
    answer = Plain(gateway, pair).answer("GetVideoInfo", {"VideoId": video}, Format=None)
    assert checked(answer, "GetVideoInfo", "XML").findtext("Video/VideoId") == video
    # The other signature's clients expect JSON.
    answer = version3(gateway, pair, "GetVideoInfo", {"VideoId": video})
    assert checked(answer)["Video"]["VideoId"] == video
    answer = version3(gateway, pair, "GetVideoInfo", {"VideoId": video, "Format": "XML"})
    assert checked(answer, "GetVideoInfo", "XML").findtext("Video/VideoId") == video


# Media


def test_each_creation_makes_another_media(gateway, vod):
    answers = [vod("CreateUploadVideo", **VIDEO_FIELDS) for _ in range(5)]
    assert len({answer["VideoId"] for answer in answers}) == 5
    assert len({grant(answer).key for answer in answers}) == 5
    with ThreadPoolExecutor(10) as pool:
        again = list(pool.map(lambda _: vod("RefreshUploadVideo", VideoId=answers[0]["VideoId"]), range(20)))
    assert {answer["VideoId"] for answer in again} == {answers[0]["VideoId"]}
    assert {grant(answer).key for answer in again} == {grant(answers[0]).key}


def test_media_is_found(vod, gateway, app_id):
    names = ["Alps", "alpine lake", "Baltic"]
    ids = [uploaded(gateway, vod, Title=name, AppId=app_id, CateId=9, Tags=f"n{i}")[0] for i, name in enumerate(names)]
    ids.append(vod("CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id, CateId=10)["VideoId"])

    def found(match, **query):
        match = f"AppId = '{app_id}'" + (f" and {match}" if match else "")
        answer = vod("SearchMedia", SearchType="video", Match=match, **query)
        return answer["Total"], [one["MediaId"] for one in answer["MediaList"]]

    assert found("") == (4, ids[::-1])
    assert found("", SortBy="CreationTime:Asc") == (4, ids)
    assert found("", PageNo=2, PageSize=3) == (4, [ids[0]])
    assert found("Title = 'ALP'") == (2, [ids[1], ids[0]])
    assert found("Title in ('Baltic','Alps')") == (2, [ids[2], ids[0]])
    assert found("Tags = 'n1'") == (1, [ids[1]])
    assert found("CateId = 10") == (1, [ids[3]]) == found("CateId = '10'")
    assert found("Status = 'Uploading'") == (1, [ids[3]])
    assert found("Status in ('Normal','Uploading')")[0] == 4
    assert found(f"VideoId in ('{ids[0]}','{UNKNOWN}')") == (1, [ids[0]])
    now = datetime.now(UTC)
    before, after = ((now + timedelta(minutes=shift)).strftime("%Y-%m-%dT%H:%M:%SZ") for shift in (-10, 10))
    assert found(f"CreationTime = ('{before}','{after}')")[0] == 4
    assert found(f"CreationTime = ('{after}','{after}')") == (0, [])
    match = f"VideoId = '{ids[0]}'"
    (media,) = vod("SearchMedia", SearchType="video", Match=match, Fields="Title,Tags")["MediaList"]
    assert (media["MediaId"], media["MediaType"]) == (ids[0], "video") and moment(media["CreationTime"])
    assert (media["Video"]["Title"], media["Video"]["Tags"]) == ("Alps", "n0")
    # From page to page by its token.
    seen, token = [], ""
    while len(seen) < 4:
        more = {"ScrollToken": token} if token else {}
        answer = vod("SearchMedia", SearchType="video", Match=f"AppId = '{app_id}'", PageSize=1, **more)
        seen += [one["MediaId"] for one in answer["MediaList"]]
        token = answer.get("ScrollToken")
        assert len(answer["MediaList"]) == 1 and (token or len(seen) == 4)
    assert seen == ids[::-1]


def test_reference_ids(vod, app_id):
    reference = f"ref_{app_id}"
    first = vod("CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id, ReferenceId=reference)["VideoId"]
    used = (400, "InvalidReferenceId.Duplicated")
    assert refusal(vod, "CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id, ReferenceId=reference) == used
    assert vod("CreateUploadVideo", **VIDEO_FIELDS, AppId=f"{app_id}-2", ReferenceId=reference)["VideoId"] != first
    alone = f"only-{app_id}"
    made = vod("CreateUploadVideo", **VIDEO_FIELDS, ReferenceId=alone)["VideoId"]
    assert vod("GetVideoInfo", ReferenceId=alone)["Video"]["VideoId"] == made
    assert vod("RefreshUploadVideo", ReferenceId=alone)["VideoId"] == made
    listed = vod("GetVideoInfos", ReferenceIds=f"{alone},nothing-here")
    assert [one["VideoId"] for one in listed["VideoList"]] == [made]
    assert listed["NonExistReferenceIds"] == ["nothing-here"]
    vod("UpdateVideoInfo", ReferenceId=alone, Title="by reference")
    assert info(vod, made)["Title"] == "by reference"
    deleted = vod("DeleteVideo", ReferenceIds=f"{alone},nothing-here")
    assert deleted["NonExistReferenceIds"] == ["nothing-here"]
    assert refusal(vod, "GetVideoInfo", ReferenceId=alone) == NO_VIDEO
    # It is free again.
    assert vod("CreateUploadVideo", **VIDEO_FIELDS, ReferenceId=alone)["VideoId"] != made
    with ThreadPoolExecutor(10) as pool:
        fields = VIDEO_FIELDS | {"AppId": app_id, "ReferenceId": f"race-{app_id}"}
        results = list(pool.map(lambda _: refusal(vod, "CreateUploadVideo", **fields), range(10)))
    assert results.count(None) == 1 and results.count(used) == 9


def test_reference_ids_in_any_application(sdk, app_id):
    """Only calls that begin an upload can name an application."""
    made = sdk("CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id, ReferenceId=f"ref-{app_id}")["VideoId"]
    assert sdk("RefreshUploadVideo", ReferenceId=f"ref-{app_id}")["VideoId"] == made
    assert sdk("GetVideoInfo", ReferenceId=f"ref-{app_id}")["Video"]["VideoId"] == made


def test_fragments_are_dropped(gateway, vod):
    answer = vod("CreateUploadVideo", **VIDEO_FIELDS)
    granted, identifier = grant(answer), answer["VideoId"]
    about = {"MediaId": identifier, "MediaType": "video"}
    assert refusal(vod, "DeleteMultipartUpload", **about) == (400, "InvalidMultipartUpload.NotFound")
    bucket = oss(granted)
    upload = bucket.init_multipart_upload(granted.key).upload_id
    bucket.upload_part(granted.key, upload, 1, VIDEO)
    (detail,) = vod("GetUploadDetails", MediaIds=identifier)["UploadDetails"]
    assert detail["Status"] == "Uploading" and detail["UploadSize"] in (0, len(VIDEO))
    vod("DeleteMultipartUpload", **about)
    assert refusal(vod, "DeleteMultipartUpload", **about) == (400, "InvalidMultipartUpload.NotFound")
    uploads = gateway.client().list_multipart_uploads(Bucket=BUCKET, Prefix=granted.key)
    assert "Uploads" not in uploads
    # The media is still there, and can be uploaded.
    bucket.put_object(granted.key, VIDEO)
    assert info(vod, identifier)["Status"] == "Normal"


def progress(action, media, **fields):
    """As voduploadsdk and the SDK for browsers report: not signed, or by a secret that they do not have."""
    now = int(time.time())
    return {
        "Action": action,
        "Format": "JSON",
        "Version": "2017-03-21",
        "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "SignatureNonce": str(time.monotonic_ns()),
        "VideoId": media,
        "Source": "PythonSDK",
        "ClientId": "client-1",
        "BusinessType": "UploadVideo",
        "TerminalType": "PC",
        "DeviceModel": "Server",
        "AppVersion": "1.3.1",
        "AuthTimestamp": str(now),
        "AuthInfo": hashlib.md5(f"client-1|key|{now}".encode()).hexdigest(),
        "FileName": "/films/x.mp4",
        "FileHash": hashlib.md5(VIDEO).hexdigest(),
        "FileSize": str(len(VIDEO)),
        "UploadRatio": "0.5",
        "UploadId": "x",
        "DonePartsCount": "1",
        "PartSize": "1048576",
        "UploadPoint": '{"upMethod": "multipart", "partSize": 1048576, "doneBytes": 1}',
    } | fields


def test_progress_is_reported_without_a_signature(gateway, vod):
    answer = vod("CreateUploadVideo", **VIDEO_FIELDS)
    identifier = answer["VideoId"]
    assert checked(sent(gateway.url, progress("ReportUploadProgress", identifier), place="form"))["RequestId"]
    browser = {"Source": "WebSDK", "TerminalType": "H5", "UserId": "1", "SignatureMethod": "HMAC-SHA1"}
    browser |= {"SignatureVersion": "1.0", "Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    assert checked(sent(gateway.url, progress("ReportUploadProgress", identifier, **browser), "GET"))["RequestId"]
    asked = [{"FileName": "/films/x.mp4", "FileSize": len(VIDEO), "FileHash": hashlib.md5(VIDEO).hexdigest()}]
    asked = progress("GetUploadProgress", identifier, UploadInfoList=json.dumps(asked), **browser)
    found = checked(sent(gateway.url, asked, "GET"))
    assert isinstance(found.get("UploadProgress", {}).get("UploadProgressList", []), list)
    # Of what people take for one character, as much is kept as of other texts.
    model = "d" + "\u20dd" * 5000
    checked(sent(gateway.url, progress("ReportUploadProgress", identifier, DeviceModel=model), place="form"))
    (detail,) = vod("GetUploadDetails", MediaIds=identifier)["UploadDetails"]
    assert detail["DeviceModel"] == model[:64]
    # Nothing that strangers report changes a media.
    checked(sent(gateway.url, progress("ReportUploadProgress", UNKNOWN), place="form"))
    checked(sent(gateway.url, progress("ReportUploadProgress", identifier, UploadRatio="1"), place="form"))
    video = info(vod, identifier)
    assert video["Status"] == "Uploading"


def test_a_browser_continues_where_it_stood(gateway, vod):
    """The SDK for browsers asks when a file is added; only the one that reported it is told."""
    answer = vod("CreateUploadVideo", **VIDEO_FIELDS)
    identifier = answer["VideoId"]
    granted = grant(answer)
    bucket = oss(granted)
    upload = bucket.init_multipart_upload(granted.key).upload_id
    point = json.dumps({"loaded": 0.5, "checkpoint": {"uploadId": upload, "doneParts": [{"number": 1, "etag": "x"}]}})
    file = {"FileName": "a é.mp4", "FileSize": len(VIDEO), "FileCreateTime": 1_700_000_000_123, "FileHash": "0" * 32}
    browser = {"Source": "WebSDK", "UserId": "1", "ClientId": "a-random-id", "SignatureMethod": "HMAC-SHA1"}
    browser |= {"SignatureVersion": "1.0", "Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}

    def asked(**changes):
        given = browser | {"UploadInfoList": json.dumps([file])} | changes
        parameters = progress("GetUploadProgress", identifier, **given)
        return checked(sent(gateway.url, parameters, "GET"))["UploadProgress"]["UploadProgressList"]

    assert asked() == []
    report = progress("ReportUploadProgress", identifier, **browser, **file, UploadId=upload, UploadPoint=point)
    checked(sent(gateway.url, report, "GET"))
    (found,) = asked()
    assert (found["VideoId"], found["UploadPoint"], found["ClientId"]) == (identifier, point, "a-random-id")
    assert asked(ClientId="another") == [] and asked(UserId="2") == []
    bucket.abort_multipart_upload(granted.key, upload)
    assert asked() == []


def test_a_page_of_another_origin_may_call(gateway, vod, pair):
    """The SDK for browsers calls with temporary credentials, and reports."""
    origin = {"Origin": "https://app.example"}
    signed = version1(pair, {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"}, "GET")
    for parameters in (signed, progress("ReportUploadProgress", UNKNOWN)):
        answer = requests.get(gateway.url + "/", params=parameters, headers=origin, timeout=30)
        assert answer.headers["Access-Control-Allow-Origin"] in ("*", origin["Origin"]), answer.text


# Uploads by URL


def finished(vod, job):
    def detail():
        (found,) = vod("GetURLUploadInfos", JobIds=job)["URLUploadInfoList"]
        return found if found.get("CompleteTime") else None

    return until(detail, timeout=60, interval=0.1)


@pytest.mark.parametrize("name", ["core", "tea"])
def test_media_is_pulled(gateway, app, name, app_id):
    sdk = SDKS[name](gateway)
    subscribed(sdk, app, app_id)
    with Origin() as origin:
        origin.add("/films/holi%20day.mp4", VIDEO)
        urls = [f"{origin.url}/films/holi%20day.mp4?token=secret", f"{origin.url}/nothing.mp4"]
        metadata = [{"SourceURL": urls[0], "Title": "urlaub", "CateId": 5, "Tags": "a,b"}]
        answer = sdk(
            "UploadMediaByURL",
            UploadURLs=",".join(urls),
            UploadMetadatas=json.dumps(metadata),
            AppId=app_id,
            UserData='{"Extend":{"n":1}}',
        )
        jobs = {one["SourceURL"]: one["JobId"] for one in answer["UploadJobs"]}
        assert len(jobs) == 2
        good, bad = (next(job for url, job in jobs.items() if word in url) for word in ("holi", "nothing"))
        done, failed = finished(sdk, good), finished(sdk, bad)
    assert "SUCC" in done["Status"] and "FAIL" in failed["Status"]
    assert done["FileSize"] == str(len(VIDEO)) and done["CompleteTime"] and not done.get("ErrorCode")
    assert failed["ErrorCode"] and "404" in failed["ErrorMessage"]
    video = sdk("GetVideoInfo", VideoId=done["MediaId"])["Video"]
    assert (video["Title"], video["CateId"], video["Tags"], video["Status"]) == ("urlaub", 5, "a,b", "Normal")
    assert (video["Size"], video["AppId"]) == (len(VIDEO), app_id)
    assert requests.get(sdk("GetMezzanineInfo", VideoId=done["MediaId"])["Mezzanine"]["FileURL"]).content == VIDEO
    events = app.wait(done["MediaId"], "UploadByURLComplete")
    assert events[0].payload.items() >= {"JobId": good, "Status": "success", "VideoId": done["MediaId"]}.items()

    def of_failure():
        return [one for one in app.calls if one.payload.get("JobId") == bad]

    (event, *_) = until(of_failure)
    assert event.type == "UploadByURLComplete" and event.payload["Status"] == "fail"
    assert event.payload["ErrorCode"] and event.payload["ErrorMessage"]
    assert sdk("GetURLUploadInfos", JobIds=f"{good},{UNKNOWN}")["NonExists"] == [UNKNOWN]


def test_the_name_in_a_url_is_a_title_as_far_as_a_client_could_send_it(gateway, vod):
    names = {
        "caf%C3%A9.mp4": "café.mp4",
        # One character for people, of any length.
        "a" + "%E2%83%9D" * 500 + ".mp4": "a" + "\u20dd" * 127,
        # More combining marks than text of requests may have: it stays encoded.
        "a" + "%CC%81" * 65 + ".mp4": ("a" + "%CC%81" * 65)[:128],
    }
    with Origin() as origin:
        for name, title in names.items():
            origin.add("/" + name, VIDEO)
            (job,) = vod("UploadMediaByURL", UploadURLs=f"{origin.url}/{name}")["UploadJobs"]
            media = finished(vod, job["JobId"])["MediaId"]
            assert info(vod, media)["Title"] == title, name[:20]


def test_pulls_that_are_refused(gateway, vod, tmp_path):
    def told(**parameters):
        return refusal(vod, "UploadMediaByURL", **parameters)

    assert told() == (400, "MissingParameter")
    # A host, too, is text with few combining marks in a row.
    marks = f"http://a{'%CC%81' * 65}.example/x.mp4"
    for url in ["ftp://127.0.0.1/x.mp4", "x", "http://", "http://10.0.0.1/x.mp4", marks]:
        assert told(UploadURLs=url) == (400, "InvalidParameter"), url
    many = ",".join(f"http://127.0.0.1:1/{n}.mp4" for n in range(21))
    assert told(UploadURLs=many) == (400, "InvalidParameter")
    for metadata in ["x", "{}", '[{"Title":"t"}]', "[" * 1000]:
        found = told(UploadURLs="http://127.0.0.1:1/1.mp4", UploadMetadatas=metadata)
        assert found == (400, "InvalidParameter"), metadata
    assert refusal(vod, "GetURLUploadInfos") == (400, "MissingParameter")
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_PULL_ENABLED": "false"}) as server:
        found = refusal(Plain(server), "UploadMediaByURL", UploadURLs="http://example.com/x.mp4")
        assert found == (403, "OperationDenied")


# Addresses and credentials


def test_the_settings_are_in_the_answers(tmp_path):
    settings = {
        "SLUICE_ALIYUN_VOD_BUCKET": "films",
        "SLUICE_ALIYUN_VOD_REGION": "ap-southeast-1",
        "SLUICE_ALIYUN_VOD_APP_IDS": "app-2000001,app-2000002",
        "SLUICE_ALIYUN_VOD_AUTH_LIFETIME": "10m",
        "SLUICE_OBJECT_PUBLIC_URL": "http://oss.example:9000",
    }
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        vod = Plain(server)
        answer = vod("CreateUploadVideo", **VIDEO_FIELDS, AppId="app-2000001")
        granted = grant(answer)
        assert granted.address["Endpoint"] == "http://oss.example:9000"
        assert (granted.bucket, granted.auth["Region"]) == ("films", "ap-southeast-1")
        assert 590 < int(granted.auth["Expiration"]) <= 600
        left = moment(granted.auth["ExpireUTCTime"]) - datetime.now(UTC)
        assert timedelta(seconds=590) < left <= timedelta(seconds=600)
        oss(granted, endpoint=server.object_url).put_object(granted.key, b"1")
        assert info(vod, answer["VideoId"])["Status"] == "Normal"
        status, code = refusal(vod, "CreateUploadVideo", **VIDEO_FIELDS, AppId="app-2000003")
        assert (status, code) == (404, "InvalidAppId.NotFound")


def test_without_an_object_endpoint_there_are_no_uploads(tmp_path):
    with Server(tmp_path / "data") as server:
        assert refusal(Plain(server), "CreateUploadVideo", **VIDEO_FIELDS) == (403, "OperationDenied")


def test_rest_answers_are_those_of_the_api(gateway, vod, app_id):
    for type, names in [
        ("video", {"VideoId"}),
        ("image", {"ImageId", "ImageURL", "FileURL"}),
        ("attachedMedia", {"MediaId", "MediaURL", "FileURL"}),
    ]:
        fields = {"title": "Bild 日本", "tags": "a,b", "cateId": 3, "appId": app_id, "description": "d"}
        answer = create(gateway, type, **fields)
        granted = grant(answer)
        assert answer.keys() == {"RequestId", "UploadAddress", "UploadAuth"} | names
        assert granted.key.startswith(f"{app_id}/")
        again = refresh(gateway, media_id(answer))
        assert grant(again).address == granted.address and media_id(again) == media_id(answer)
        assert grant(again).credentials != granted.credentials
        oss(grant(again)).put_object(granted.key, VIDEO)
        assert stored(gateway, granted) == VIDEO
    video = create(gateway, title="REST", userData='{"Extend":{"a":1}}', referenceId=f"rest-{app_id}", fileSize=3)
    found = info(vod, video["VideoId"])
    assert (found["Title"], found["AppId"], found["Status"]) == ("REST", APP, "Uploading")
    bucket, name = oss(grant(video)), grant(video).key
    with pytest.raises(Exception, match="EntityTooLarge"):
        bucket.put_object(name, b"1234")
    bucket.put_object(name, b"123")
    small = grant(create(gateway, maxBytes=10, subject="gus"))
    with pytest.raises(Exception, match="EntityTooLarge"):
        oss(small).put_object(small.key, b"x" * 11)
    oss(small).put_object(small.key, b"x" * 10)


def test_rest_requests_that_are_refused(gateway, app_id):
    api, path = API(gateway.url, gateway.admin_key), "/v1/aliyun/uploads"
    good = {"type": "video", "title": "t", "fileName": "v.mp4"}
    assert api.post(path, good, key=None).status_code == 401
    _, _, reader = key(gateway, "--scope", "read")
    assert api.post(path, good, key=reader).status_code == 403
    assert api.post(f"{path}/{UNKNOWN}/refresh", key=reader).status_code == 403
    problem(api.post(f"{path}/{UNKNOWN}/refresh"), 404, "not_found")
    for change, field in [
        ({"type": "film"}, "type"),
        ({"title": None}, "title"),
        ({"title": "x" * 129}, "title"),
        ({"fileName": "video"}, "fileName"),
        ({"fileSize": -1}, "fileSize"),
        ({"fileSize": "3"}, "fileSize"),
        ({"tags": ",".join("abcdefghijklmnopq")}, "tags"),
        ({"description": "x" * 1025}, "description"),
        ({"userData": "x"}, "userData"),
        ({"referenceId": "short"}, "referenceId"),
        ({"appId": "a/b"}, "appId"),
        ({"maxBytes": -1}, "maxBytes"),
        ({"subject": "a\nb"}, "subject"),
        ({"what": 1}, "what"),
    ]:
        body = {name: value for name, value in (good | change).items() if value is not None}
        field_problem(api.post(path, body), field)
    assert api.post(path, {"type": "image"}).status_code == 422
    assert api.post(path, {"type": "attachedMedia"}).status_code == 422
    reference = {"referenceId": f"rest-{app_id}", "appId": app_id}
    assert api.post(path, good | reference).status_code == 201
    assert api.post(path, good | reference).status_code in (409, 422)
    for data in [b"", b"{", b"[]", b'{"type":"video","type":"image"}']:
        answer = api.request("POST", path, data=data, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500


def test_names_do_not_lead_out_of_the_application(gateway, vod):
    names = [
        "../../etc/passwd.mp4",
        "/abs/olute.mp4",
        "D:\\video\\x y.mp4",
        "a//b.mp4",
        "..%2F..%2Fx.mp4",
        "....//x.mp4",
        "..\\..\\x.mp4",
        "%00.mp4",
        "?.mp4",
        "a?b#c&d=e.mp4",
        "\u202egnp.mp4",
        "视" * 341 + ".mp4",
        "/数据/" + "频道/" * 50 + "视频.mp4",
    ]
    for name in names:
        granted = grant(vod("CreateUploadVideo", Title="t", FileName=name))
        assert granted.key.startswith(f"{APP}/") and granted.key.endswith(".mp4"), (name, granted.key)
        assert len(granted.key.encode()) <= 1023
        assert not {"", ".", ".."} & set(granted.key.split("/")) and "\\" not in granted.key, (name, granted.key)
    oss(granted).put_object(granted.key, VIDEO)
    assert stored(gateway, granted) == VIDEO


# Bad input


def test_texts_of_greatest_length(vod, sdk, app_id):
    """Most SDKs send them in the query, in which each of these characters takes nine bytes."""
    tags = ",".join(f"{n:02}" + "标" * 30 for n in range(16))
    texts = {"Title": "视" * 128, "Description": "频" * 1024, "Tags": tags}
    made = sdk("CreateUploadVideo", **(VIDEO_FIELDS | texts), AppId=app_id)
    video = info(vod, made["VideoId"])
    assert {name: video[name] for name in texts} == texts


def test_parameters_of_uploads_that_are_wrong(gateway, pair):
    vod = Plain(gateway, pair, place="form")

    def told(change, action="CreateUploadVideo", good=VIDEO_FIELDS):
        parameters = {name: value for name, value in (good | change).items() if value is not None}
        return refusal(vod, action, **parameters)

    missing, invalid = (400, "MissingParameter"), (400, "InvalidParameter")
    assert told({"Title": None}) == told({"FileName": None}) == told({"Title": "", "FileName": "v.mp4"}) == missing
    for name in ["video", "video.", "dir.mp4/video", "C:\\a.mp4\\video", "v.m p4", "v.ümp"]:
        assert told({"FileName": name}) == (400, "InvalidFileName.Extension"), name
    for name in ["a\x01b.mp4", "a\x7fb.mp4"]:
        assert told({"FileName": name}) == (400, "IllegalCharacters"), name
    long = (400, "LengthExceededMax")
    assert told({"Title": "x" * 129}) == told({"Title": "视" * 341}) == told({"Description": "x" * 1025}) == long
    assert told({"Tags": ",".join("abcdefghijklmnopq")}) == (400, "TagsExceededMax")
    assert told({"Tags": "x" * 33}) == long
    assert told({"Tags": ",".join(f"{n:032}" for n in range(16))}) is None
    for field in ("Title", "Description", "Tags"):
        for text in ["a\x01", "a\x7f"]:
            assert told({field: text}) == (400, "IllegalCharacters"), (field, text)
    for change in [
        {"FileSize": "x"},
        {"FileSize": "-1"},
        {"FileSize": "1.5"},
        {"FileSize": str(1 << 64)},
        {"CateId": "x"},
        {"ReferenceId": "short"},
        {"ReferenceId": "x" * 65},
        {"ReferenceId": "with space"},
        {"UserData": "x"},
        {"UserData": "[]"},
        {"UserData": '{"MessageCallback":"x"}'},
        {"UserData": '{"MessageCallback":{"CallbackType":"mns","CallbackURL":"http://127.0.0.1"}}'},
    ]:
        status, code = told(change) or (200, None)
        assert (status, code) == invalid, change
    for app_id in ("a/b", "..", "x" * 129):
        assert told({"AppId": app_id}) == (404, "InvalidAppId.NotFound"), app_id
    assert told({"UserData": json.dumps({"Extend": {"a": "x" * 513}})}) == invalid
    assert told({"UserData": json.dumps({"Extend": {"a": "x" * 400}})}) is None
    # There are no others than the own storage, and no templates.
    kept = {"StorageLocation": "other.oss-cn-shanghai.aliyuncs.com", "TemplateGroupId": "t", "WorkflowId": "w"}
    assert told(kept | {"Unknown": "x"}) is None
    # SDKs for phones send these, with temporary credentials.
    assert told({"TranscodeMode": "NoTranscode", "TransCodeMode": "NoTranscode", "RequestId": "1"}) is None

    def image(**change):
        return told(change, "CreateUploadImage", {"ImageType": "default"})

    assert image(ImageType=None) == missing
    assert image(ImageType="x") == image(ImageExt="exe") == invalid
    assert image(Title="x" * 129) == long and image(Tags=",".join("abcdefghijklmnopq")) == (400, "TagsExceededMax")
    assert [image(ImageExt=kind) for kind in ("png", "jpg", "jpeg", "gif")] == [None] * 4

    def attached(**change):
        return told(change, "CreateUploadAttachedMedia", {"BusinessType": "watermark", "MediaExt": "png"})

    assert attached(BusinessType=None) == missing
    assert attached(BusinessType="x") == invalid
    assert attached(MediaExt="a/b")[0] == 400
    assert attached(CateIds="1,2,3,4,5,6")[0] == 400 and attached(CateIds="1,2,3,4,5") is None
    assert attached(Title="x" * 129) == long
    assert told({}, "RefreshUploadVideo", {}) == missing
    for identifier in [UNKNOWN, "x", "../x", "x" * 1000, "视"]:
        assert told({"VideoId": identifier}, "RefreshUploadVideo", {}) == NO_VIDEO, identifier


def test_parameters_of_other_calls_that_are_wrong(gateway, vod, app):
    video, _ = uploaded(gateway, vod)
    missing, invalid = (400, "MissingParameter"), (400, "InvalidParameter")

    def told(action, **parameters):
        return refusal(vod, action, **parameters)

    many = ",".join(UNKNOWN[:30] + f"{n:02}" for n in range(21))
    assert told("GetUploadDetails") == told("DeleteMultipartUpload") == missing
    assert told("GetUploadDetails", MediaIds=many) == (400, "LimitExceeded.MediaIds")
    assert told("GetUploadDetails", MediaIds=video, MediaType="film") == invalid
    assert told("DeleteMultipartUpload", MediaId=UNKNOWN, MediaType="video") == NO_VIDEO
    assert told("DeleteMultipartUpload", MediaId=video, MediaType="film") == invalid
    assert told("GetVideoInfo") == told("GetVideoInfos") == told("UpdateVideoInfo") == missing
    assert told("GetVideoInfo", VideoId=UNKNOWN) == told("UpdateVideoInfo", VideoId=UNKNOWN, Title="x") == NO_VIDEO
    assert told("GetVideoInfo", ReferenceId="nothing-here") == NO_VIDEO
    assert told("GetVideoInfos", VideoIds=many) == (400, "VideoIdsExceededMax")
    assert told("DeleteVideo", VideoIds=many) == (400, "VideoIdsExceededMax")
    assert told("DeleteVideo") == missing
    assert told("UpdateVideoInfo", VideoId=video, Title="x" * 129) == (400, "LengthExceededMax")
    assert told("UpdateVideoInfo", VideoId=video, Tags=",".join("abcdefghijklmnopq")) == (400, "TagsExceededMax")
    assert told("UpdateVideoInfo", VideoId=video, Title="a\x01") == (400, "IllegalCharacters")
    assert told("UpdateVideoInfo", VideoId=video, CateId="x") == invalid
    assert info(vod, video)["Title"] == "t"
    assert told("GetMezzanineInfo") == told("GetPlayInfo") == missing
    assert told("GetMezzanineInfo", VideoId=UNKNOWN) == told("GetPlayInfo", VideoId=UNKNOWN) == NO_VIDEO
    assert told("GetPlayInfo", VideoId=video, Formats="flv") == (404, "InvalidVideo.NoneStream")
    assert told("GetPlayInfo", VideoId=video, Formats="flv,mp4") is None
    for wrong in [{"OutputType": "x"}, {"AuthTimeout": "x"}, {"AuthTimeout": "-1"}]:
        assert told("GetPlayInfo", VideoId=video, **wrong) == invalid, wrong
    assert told("GetImageInfo") == told("DeleteImage") == missing
    assert told("GetImageInfo", ImageId=UNKNOWN) == (404, "InvalidImage.NotFound")
    assert told("GetImageInfo", ImageId=video)[0] == 404
    assert told("DeleteImage", DeleteImageType="x", ImageIds=UNKNOWN) == invalid
    assert told("DeleteImage", DeleteImageType="ImageId") == missing
    for wrong in [
        {"SearchType": "x"},
        {"PageNo": "0"},
        {"PageSize": "0"},
        {"PageSize": "101"},
        {"PageNo": "x"},
        {"SortBy": "x"},
        {"Match": "Title in ("},
        {"Match": "What = 'x'"},
        {"Match": "Title = 'x' and"},
        {"Match": "(" * 1000},
        {"Match": "Title = 'x"},
        # Each is searched for in the title of every media.
        {"Match": f"Title in ({', '.join(['x'] * 65)})"},
        {"Match": f"Tags in ({', '.join(['x'] * 257)})"},
        {"Match": f"Title = '{'É' * 257}'"},
        {"Match": f"Description != '{'x' * 257}'"},
        {"Match": f"Title in (x, '{'x' * 257}')"},
        {"Match": f"Tags = '{'x' * 16376}'"},
        {"ScrollToken": "x"},
    ]:
        assert told("SearchMedia", **wrong)[0] == 400, wrong
    good = {"CallbackType": "HTTP", "CallbackURL": app.url + "/", "EventTypeList": "ALL", "AppId": "app-7000001"}
    assert told("SetMessageCallback", **good) is None
    for wrong in [
        {"CallbackType": "x"},
        {"CallbackURL": "x"},
        {"CallbackURL": "ftp://" + app.host},
        {"CallbackURL": "http://other.example/"},
        {"CallbackURL": app.url + "/" + "x" * 257},
        {"EventTypeList": "a b"},
        {"AuthSwitch": "x"},
        {"AuthSwitch": "on", "AuthKey": "Aa1" * 11},
    ]:
        assert told("SetMessageCallback", **(good | wrong))[0] == 400, wrong
    assert told("SetMessageCallback", **(good | {"AppId": "a/b"})) == (404, "InvalidAppId.NotFound")
    assert told("GetURLUploadInfos") == missing


def test_calls_that_do_not_exist(gateway, pair, vod):
    for action in ["SubmitTranscodeJobs", "createUploadVideo", "AssumeRole", "x" * 300, "视"]:
        assert refusal(vod, action) == (404, "InvalidAction.NotFound"), action[:20]
    for version in ("2016-01-01", None):
        answer = Plain(gateway, pair).answer("GetVideoInfo", {"VideoId": UNKNOWN}, Version=version)
        assert told(answer) == (400, "InvalidVersion")
    assert requests.put(gateway.url + "/", params=version1(pair, {"Action": "GetVideoInfo"}, "PUT")).status_code >= 400
    # Nothing else at the root changes.
    assert requests.get(gateway.url + "/").status_code == 404
    assert requests.get(gateway.url + "/?a=b").status_code == 404
    assert requests.post(gateway.url + "/", data=b"x", headers={"Content-Type": "text/plain"}).status_code == 404


def test_calls_that_are_malformed(gateway, pair, vod):
    url = gateway.url + "/"
    signed = version1(pair, {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"}, "POST")
    twice = [*signed.items(), ("VideoId", "x")]
    assert requests.post(url, params=twice).status_code == 400
    assert requests.post(url, params=signed, data={"VideoId": "x"}).status_code == 400
    unknown = Plain(gateway, pair, format="YAML")
    assert unknown.answer("GetVideoInfo", {"VideoId": UNKNOWN}).status_code == 400
    assert refusal(vod, "GetVideoInfo", VideoId=UNKNOWN) == NO_VIDEO


def test_texts_that_no_call_can_have(sdk):
    """A client that sends them learns what is wrong, in the form that its SDK reads."""
    assert refusal(sdk, "CreateUploadVideo", Title="a\0b", FileName="v.mp4") == (400, "IllegalCharacters")


def test_texts_that_are_none(gateway, pair):
    signed = version1(pair, {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"})
    for text in ("%FF%FE", "%ED%A0%80"):
        # The form is not what shows for whom the call is.
        query, form = f"{urlencode(signed)}&Title={text}", f"Title={text}"
        assert told(requests.post(f"{gateway.url}/?{query}", timeout=30))[0] == 400, text
        answer = requests.post(
            f"{gateway.url}/?{urlencode(signed)}", data=form, headers={"Content-Type": FORM}, timeout=30
        )
        assert told(answer)[0] == 400, text


def test_a_form_that_is_too_large(gateway, pair):
    core = Core(gateway, pair, is_form=True)
    status, _ = refusal(core, "CreateUploadVideo", Title="x" * (100 * KIB), FileName="v.mp4")
    assert status in (400, 413)


# Signatures


def test_the_signatures_of_the_tests_are_those_of_the_vendor():
    common = {"SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0"}
    parameters = common | {
        "Action": "GetVideoPlayAuth",
        "VideoId": "5aed81b74ba84920be578cdfe004af4b",
        "Version": "2017-03-21",
        "Format": "JSON",
        "AccessKeyId": "testAccessKeyId",
        "Timestamp": "2017-10-10T12:02:54Z",
        "SignatureNonce": "8f8a035d-6496-4268-afd4-67c22837e38d",
    }
    assert version1_signature("testAccessKeySecret", parameters, "GET") == "Ibgh7y8Vp47LBuAsf5Xhi1SvDss="
    parameters = common | {
        "Action": "CreateUploadVideo",
        "Version": "2017-03-21",
        "Format": "JSON",
        "RegionId": REGION,
        "AccessKeyId": "testid",
        "SignatureType": "",
        "Timestamp": "2016-02-23T12:46:24Z",
        "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
        "Title": "日本 a+b*~/&=é",
        "FileName": "D:\\x y.mp4",
        "Tags": "a,b",
    }
    assert version1_signature("testsecret", parameters, "POST") == "CMHjTJlMx17KN/Kq+uN6gJjhMO0="
    assert version1_signature("testsecret", parameters, "GET") == "axVJpMrIEiiSjtSq2SqPtVnXC8s="
    fields = {
        "accept": "application/json",
        "host": "127.0.0.1:18480",
        "user-agent": "ua",
        "x-acs-accesskey-id": "STS.NUexample",
        "x-acs-action": "CreateUploadVideo",
        "x-acs-content-sha256": hashlib.sha256(b"").hexdigest(),
        "x-acs-credentials-provider": "static_sts",
        "x-acs-date": "2026-01-02T03:04:05Z",
        "x-acs-security-token": "CAIStoken+/=",
        "x-acs-signature-nonce": "00000000111122223333444444444444",
        "x-acs-version": "2017-03-21",
    }
    assert acs3("examplesecret", fields, {"Title": "a b+c", "FileName": "x.mp4"}) == (
        "952d7c313eb0c9a2e084e03798f54909ebb43d45158c7ad384e017f3dc5dccea",
        "ab6dd3efde34d35d90bf61d743d1a5e8f2aeb53350cb8fe70752600fdca51955",
    )
    url = "https://www.example.com/your/callback"
    assert event_signature(url, 1519375990, "test123") == "c72b60894140fa98920f1279219b7ed4"


def told(answer, format="JSON"):
    """Status and code of an answer."""
    return refusal(checked, answer, "GetVideoInfo", format)


@pytest.mark.parametrize("name", SDKS)
def test_a_wrong_key(gateway, pair, name):
    # What one SDK says if the string to sign in the message is its own.
    expected = (400, "InvalidAccessKeySecret") if name.startswith("core") else WRONG_SIGNATURE
    assert refusal(SDKS[name](gateway, (pair[0], "x" * 40)), "GetVideoInfo", VideoId=UNKNOWN) == expected
    assert refusal(SDKS[name](gateway, ("LTAInobody", pair[1])), "GetVideoInfo", VideoId=UNKNOWN) == NO_KEY


def test_signatures_of_version_1_that_are_refused(gateway, pair):
    parameters = {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON", "Title": "a b+c~*/é"}
    for method, place in [("GET", "query"), ("POST", "query"), ("POST", "form"), ("POST", "both")]:
        signed = version1(pair, parameters, method)
        assert told(sent(gateway.url, signed, method, place)) == NO_VIDEO
        for name in ("VideoId", "Title", "SignatureNonce"):
            changed = version1(pair, parameters, method) | {name: signed[name][:-2] + "zz"}
            assert told(sent(gateway.url, changed, method, place)) == WRONG_SIGNATURE, name
    signed = version1((pair[0], "x"), parameters)
    answer = sent(gateway.url, signed)
    assert told(answer) == WRONG_SIGNATURE
    del signed["Signature"]
    query = "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sorted(signed.items()))
    text = f"POST&%2F&{escaped(query)}"
    message = answer.json()["Message"]
    assert "string to sign is:" in message and message.split(":") == [message.partition(":")[0], text]
    assert pair[1] not in answer.text
    answer = sent(gateway.url, signed)
    incomplete = (400, "IncompleteSignature")
    assert told(answer) == (400, "MissingParameter")
    for text in ("x", "A" * 28, "=" * 28, signed["SignatureNonce"]):
        assert told(sent(gateway.url, signed | {"Signature": text})) in (incomplete, WRONG_SIGNATURE), text
    assert told(sent(gateway.url, signed | {"Signature": "A" * 27 + "="})) == WRONG_SIGNATURE
    # The method is signed.
    assert told(sent(gateway.url, version1(pair, parameters, "POST"), "GET")) == WRONG_SIGNATURE
    for change in [{"SignatureMethod": "HMAC-MD5"}, {"SignatureVersion": "9.9"}]:
        assert told(sent(gateway.url, version1(pair, parameters, **change))) == incomplete, change
    for name in ["AccessKeyId", "Timestamp", "SignatureNonce"]:
        changed = version1(pair, parameters, **{name: None})
        assert told(sent(gateway.url, changed)) == (400, "MissingParameter"), name


def test_a_nonce_works_once(gateway, pair):
    parameters = {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"}
    signed = version1(pair, parameters)
    used = (400, "SignatureNonceUsed")
    assert told(sent(gateway.url, signed)) == NO_VIDEO
    assert told(sent(gateway.url, signed)) == used
    again = version1(pair, parameters | {"VideoId": "x"}, nonce=signed["SignatureNonce"])
    assert told(sent(gateway.url, again)) == used
    nonce = {"x_acs_signature_nonce": None}
    answer = version3(gateway, pair, "GetVideoInfo", {"VideoId": UNKNOWN}, **nonce)
    assert answer.status_code == 400
    # Another key has its own.
    _, other, _ = key(gateway, "--scope", "read")
    assert told(sent(gateway.url, version1(other, parameters, nonce=signed["SignatureNonce"]))) == NO_VIDEO
    # A refused signature does not use it up.
    nonce = "n" * 40
    assert told(sent(gateway.url, version1((pair[0], "x"), parameters, nonce=nonce))) == WRONG_SIGNATURE
    assert told(sent(gateway.url, version1(pair, parameters, nonce=nonce))) == NO_VIDEO
    with ThreadPoolExecutor(10) as pool:
        signed = version1(pair, parameters)
        results = list(pool.map(lambda _: told(sent(gateway.url, signed)), range(10)))
    assert results.count(NO_VIDEO) == 1 and results.count(used) == 9


def test_clocks(gateway, pair):
    parameters = {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"}
    now = datetime.now(UTC)
    expired = (400, "InvalidTimeStamp.Expired")
    for minutes, expected in [(-20, expired), (-10, NO_VIDEO), (10, NO_VIDEO), (20, expired)]:
        when = now + timedelta(minutes=minutes)
        assert told(sent(gateway.url, version1(pair, parameters, when=when))) == expected, minutes
        assert told(version3(gateway, pair, "GetVideoInfo", {"VideoId": UNKNOWN}, when=when)) == expected, minutes
    assert told(sent(gateway.url, version1(pair, parameters, stamp="%Y-%m-%dT%H:%M:%S.123Z"))) == NO_VIDEO
    for stamp in ["%Y-%m-%d %H:%M:%S", "%s", ""]:
        found = told(sent(gateway.url, version1(pair, parameters, stamp=stamp)))
        assert found == (400, "InvalidTimeStamp.Format"), stamp


def test_signatures_of_version_3(gateway, pair):
    parameters = {"VideoId": UNKNOWN, "Title": "a b+c~*/é"}

    def answer(**changes):
        return version3(gateway, pair, "GetVideoInfo", parameters, **changes)

    assert told(answer()) == told(answer(method="GET")) == NO_VIDEO
    # A form beside the query.
    form = urlencode({"ReferenceId": "nothing-here"}).encode()
    kind = {"content_type": FORM}
    assert told(answer(body=form, **kind)) == NO_VIDEO
    for change, expected in [
        ({"x_acs_action": "DeleteVideo"}, "SignatureDoesNotMatch"),
        ({"x_acs_version": "2017-03-22"}, "InvalidVersion"),
        ({"x_acs_signature_nonce": "other"}, "SignatureDoesNotMatch"),
        ({"x_acs_content_sha256": hashlib.sha256(b"x").hexdigest()}, None),
        ({"host": "other.example"}, "SignatureDoesNotMatch"),
        ({"Authorization": "ACS3-HMAC-SHA256 Credential=x"}, "MissingParameter"),
        ({"Authorization": "ACS3-HMAC-SHA256 x"}, None),
        ({"x_acs_date": None}, "MissingParameter"),
        ({"x_acs_content_sha256": None}, "MissingParameter"),
    ]:
        status, code = told(answer(**change))
        assert status == 400 and expected in (code, None), change
    assert answer(Authorization=None).status_code == 400
    # Another body than the signed one.
    fields = {"x_acs_content_sha256": hashlib.sha256(b"").hexdigest()}
    assert answer(body=form, **kind, **fields).status_code == 400
    wrong = version3(gateway, (pair[0], "x"), "GetVideoInfo", parameters)
    assert told(wrong) == WRONG_SIGNATURE and pair[1] not in wrong.text
    assert told(version3(gateway, ("LTAInobody", "x"), "GetVideoInfo", parameters)) == NO_KEY


def test_targets_with_a_host(gateway, pair):
    """As a proxy gets them: what SDKs send to the vendor's host, if `http_proxy` leads here."""
    proxies = {"http": gateway.url}
    parameters = {"Action": "GetVideoInfo", "VideoId": UNKNOWN, "Format": "JSON"}
    client = requests.Session()
    client.trust_env = False
    for method, place in [("GET", "params"), ("POST", "params"), ("POST", "data")]:
        signed = version1(pair, parameters, method)
        answer = client.request(method, f"http://{HOST}/", **{place: signed}, proxies=proxies, timeout=30)
        assert told(answer) == NO_VIDEO
        assert answer.json()["HostId"] in (HOST, address(gateway))
    answer = client.post(f"http://{HOST}/", data=progress("ReportUploadProgress", UNKNOWN), proxies=proxies, timeout=30)
    assert checked(answer)["RequestId"]


# Keys


@pytest.mark.parametrize("scope", ACTIONS)
def test_each_action_needs_one_scope(gateway, scope):
    _, pair, _ = key(gateway, "--scope", scope)
    vod = Plain(gateway, pair)
    # Whatever is wrong with the rest, the scope comes first.
    codes = {action: refusal(vod, action) for actions in ACTIONS.values() for action in actions}
    allowed = {action for action, found in codes.items() if found != NO_KEY}
    assert allowed == set(ACTIONS[scope])


def test_a_revoked_key(gateway):
    name, pair, _ = key(gateway, "--scope", "read")
    vod = Plain(gateway, pair)
    assert refusal(vod, "GetVideoInfo", VideoId=UNKNOWN) == NO_VIDEO
    run("keys", "revoke", name, environment=gateway.environment)
    until(lambda: refusal(vod, "GetVideoInfo", VideoId=UNKNOWN) == NO_KEY)


SCOPES = [part for scope in ACTIONS for part in ("--scope", scope)]


def test_a_key_that_is_limited_to_an_application(gateway, vod):
    mine, other = "app-3000001", "app-3000002"
    _, pair, text = key(gateway, *SCOPES, "--bucket", BUCKET, "--prefix", f"{mine}/")
    limited = Plain(gateway, pair)
    foreign, granted = uploaded(gateway, vod, AppId=other)
    own, _ = uploaded(gateway, limited, AppId=mine)
    assert info(limited, own)["AppId"] == mine
    body = {"type": "video", "title": "t", "fileName": "v.mp4"}
    url = "http://127.0.0.1:1/x.mp4"
    for named, rest in [({"AppId": other}, {"appId": other}), ({}, {})]:
        assert refusal(limited, "CreateUploadVideo", **VIDEO_FIELDS, **named) == DENIED
        assert refusal(limited, "CreateUploadImage", ImageType="cover", **named) == DENIED
        about = {"BusinessType": "material", "MediaExt": "txt"}
        assert refusal(limited, "CreateUploadAttachedMedia", **about, **named) == DENIED
        assert refusal(limited, "UploadMediaByURL", UploadURLs=url, **named) == DENIED
        assert API(gateway.url, text).post("/v1/aliyun/uploads", body | rest).status_code == 403
    for action in ["GetVideoInfo", "RefreshUploadVideo", "GetPlayInfo", "GetMezzanineInfo"]:
        assert refusal(limited, action, VideoId=foreign) == NO_VIDEO, action
    assert refusal(limited, "UpdateVideoInfo", VideoId=foreign, Title="x") == NO_VIDEO
    assert refusal(limited, "DeleteMultipartUpload", MediaId=foreign, MediaType="video") == NO_VIDEO
    listed = limited("GetVideoInfos", VideoIds=f"{own},{foreign}")
    assert [one["VideoId"] for one in listed["VideoList"]] == [own]
    details = limited("GetUploadDetails", MediaIds=f"{own},{foreign}")
    assert [one["MediaId"] for one in details["UploadDetails"]] == [own]
    limited("DeleteVideo", VideoIds=foreign)
    assert stored(gateway, granted) == VIDEO and info(vod, foreign)["Title"] == "t"
    found = limited("SearchMedia", SearchType="video", PageSize=100)
    assert {one["MediaId"] for one in found["MediaList"]} == {own} and found["Total"] == 1
    callback = {"CallbackURL": "http://127.0.0.1:1/", "EventTypeList": "ALL", "AppId": other}
    assert refusal(limited, "SetMessageCallback", **callback) == DENIED
    assert refusal(limited, "GetMessageCallback", AppId=other) == DENIED


def test_a_key_of_one_user_works_for_that_user_only(gateway, vod, app_id):
    _, pair, text = key(gateway, *SCOPES, "--subject", "gus")
    gus = Plain(gateway, pair)
    foreign = create(gateway, subject="hal", appId=app_id)["VideoId"]
    mine = create(gateway, subject="gus", appId=app_id)["VideoId"]
    own = gus("CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id)["VideoId"]
    assert {info(gus, one)["VideoId"] for one in (mine, own)} == {mine, own}
    assert refusal(gus, "GetVideoInfo", VideoId=foreign) == NO_VIDEO
    assert refusal(gus, "RefreshUploadVideo", VideoId=foreign) == NO_VIDEO
    found = gus("SearchMedia", SearchType="video", Match=f"AppId = '{app_id}'")
    assert {one["MediaId"] for one in found["MediaList"]} == {mine, own}
    api = API(gateway.url, text)
    assert api.post(f"/v1/aliyun/uploads/{foreign}/refresh").status_code in (403, 404)
    body = {"type": "video", "title": "t", "fileName": "v.mp4"}
    assert api.post("/v1/aliyun/uploads", body | {"subject": "hal"}).status_code == 403
    gus("DeleteVideo", VideoIds=f"{foreign},{mine}")
    assert info(vod, foreign)["Status"] == "Uploading"
    assert refusal(vod, "GetVideoInfo", VideoId=mine) == NO_VIDEO


def test_a_key_of_several_users_does_not_upload_for_none(gateway):
    _, pair, text = key(gateway, *SCOPES, "--subject", "u:*")
    several = Plain(gateway, pair)
    assert refusal(several, "CreateUploadVideo", **VIDEO_FIELDS) == DENIED
    answer = create(gateway, key=text, subject="u:7")
    assert info(several, answer["VideoId"])["Status"] == "Uploading"
    assert several("RefreshUploadVideo", VideoId=answer["VideoId"])["VideoId"] == answer["VideoId"]


# Temporary credentials


@pytest.mark.parametrize("name", ["core", "core-get", "tea", "tea-rpc", "plain-get", "plain-form"])
def test_sdks_with_temporary_credentials(gateway, vod, name):
    sdk = SDKS[name](gateway, session(gateway))
    answer = sdk("CreateUploadVideo", **VIDEO_FIELDS, FileSize=3, Tags="a")
    granted = grant(answer)
    oss(granted).put_object(granted.key, b"abc")
    assert sdk("GetVideoInfo", VideoId=answer["VideoId"])["Video"]["Status"] == "Normal"
    assert sdk("RefreshUploadVideo", VideoId=answer["VideoId"])["VideoId"] == answer["VideoId"]
    grant(sdk("CreateUploadImage", ImageType="default"))
    # Each session uploads for its own user.
    other = SDKS[name](gateway, session(gateway, name="bob"))
    assert refusal(other, "GetVideoInfo", VideoId=answer["VideoId"]) == NO_VIDEO
    assert refusal(other, "RefreshUploadVideo", VideoId=answer["VideoId"]) == NO_VIDEO
    assert info(vod, answer["VideoId"])["Tags"] == "a"


def test_a_page_goes_on_with_another_session(gateway, vod):
    """As the SDK for browsers does in STS mode: `setSTSToken` when the session begins, and when UploadAuth expires."""

    def call(action, credentials, **parameters):
        parameters |= {"Action": action, "Format": "JSON"}
        signed = version1(credentials, parameters, method="GET", Timestamp=None)
        answer = requests.get(gateway.url + "/", params=signed, timeout=60)
        return answer.status_code, answer.json()

    first, second = session(gateway), session(gateway)
    content = bytes(index % 251 for index in range(300_000))
    status, begun = call("CreateUploadVideo", first, **VIDEO_FIELDS)
    assert status == 200, begun
    granted = grant(begun)
    upload = oss(granted).init_multipart_upload(granted.key).upload_id
    parts = [oss(granted).upload_part(granted.key, upload, 1, content[:200_000])]
    status, again = call("RefreshUploadVideo", second, VideoId=begun["VideoId"])
    assert status == 200 and again["VideoId"] == begun["VideoId"], again
    fresh = grant(again)
    assert fresh.address == granted.address
    parts.append(oss(fresh).upload_part(granted.key, upload, 2, content[200_000:]))
    listed = [PartInfo(number, part.etag) for number, part in enumerate(parts, 1)]
    oss(fresh).complete_multipart_upload(granted.key, upload, listed)
    assert stored(gateway, fresh) == content
    # Another user's session does not get at it, by its id or by its key.
    other = session(gateway, name="bob")
    for name in (begun["VideoId"], granted.key):
        status, answer = call("RefreshUploadVideo", other, VideoId=name)
        assert (status, answer["Code"]) == NO_VIDEO


def test_policies_of_sessions(gateway):
    upload = {"CreateUploadVideo", "CreateUploadImage", "RefreshUploadVideo"}

    def allowed(policy):
        video = create(gateway, subject="alice")["VideoId"]
        calls = {
            "CreateUploadVideo": VIDEO_FIELDS,
            "CreateUploadImage": {"ImageType": "cover"},
            "RefreshUploadVideo": {"VideoId": video},
            "GetVideoInfo": {"VideoId": video},
            "DeleteVideo": {"VideoIds": video},
        }
        sdk = Plain(gateway, session(gateway, policy=policy))
        return {action for action, parameters in calls.items() if refusal(sdk, action, **parameters) != DENIED}

    assert allowed(None) >= upload
    assert allowed(allowing("vod:CreateUploadVideo")) == {"CreateUploadVideo"}
    # What the vendor's own policy AliyunVODUploadAuth says.
    assert allowed(allowing(*(f"vod:{action}" for action in sorted(upload)))) == upload
    assert allowed(allowing("vod:*")) == upload | {"GetVideoInfo", "DeleteVideo"}
    assert allowed(allowing("vod:CreateUpload*")) == {"CreateUploadVideo", "CreateUploadImage"}
    assert allowed(allowing("oss:PutObject")) == set()
    denying = allowing("vod:*")
    denying["Statement"].append({"Effect": "Deny", "Action": "vod:CreateUploadImage", "Resource": "*"})
    assert allowed(denying) == {"CreateUploadVideo", "RefreshUploadVideo", "GetVideoInfo", "DeleteVideo"}
    mixed = allowing("vod:GetVideoInfo", "oss:GetObject")
    assert allowed(mixed) == {"GetVideoInfo"}
    # A session cannot do more than its key.
    _, minter, _ = key(gateway, "--scope", "mint")
    sdk = Plain(gateway, session(gateway, minter))
    video = sdk("CreateUploadVideo", **VIDEO_FIELDS)["VideoId"]
    assert refusal(sdk, "GetVideoInfo", VideoId=video) == refusal(sdk, "DeleteVideo", VideoIds=video) == DENIED
    # Nor can its policy reach other objects by these calls.
    sdk = session(gateway, policy=allowing("vod:CreateUploadVideo"))
    granted = grant(Plain(gateway, sdk)("CreateUploadVideo", **VIDEO_FIELDS))
    granted.auth |= dict(zip(("AccessKeyId", "AccessKeySecret", "SecurityToken"), sdk, strict=True))
    with pytest.raises(Exception, match="AccessDenied"):
        oss(granted).put_object(f"{APP}/other.mp4", b"1")


def test_tokens_that_are_wrong(gateway):
    held = session(gateway)
    call = {"VideoId": UNKNOWN}

    def told(*credentials):
        return refusal(Plain(gateway, credentials), "GetVideoInfo", **call)

    assert told(*held) == NO_VIDEO
    # Without its token a key is none.
    assert told(*held[:2]) == NO_KEY
    for token in [held[2][:-3] + "AAA", held[2][3:], "x", "x" * 5000]:
        assert told(*held[:2], token) == (400, "InvalidSecurityToken.Malformed"), token
    other = session(gateway, name="bob")[2]
    assert told(*held[:2], other) == (400, "InvalidSecurityToken.MismatchWithAccessKey")
    assert told(held[0], "x", held[2]) == WRONG_SIGNATURE
    # Credentials of an upload, or of a bucket, call nothing.
    granted = grant(Plain(gateway)("CreateUploadVideo", **VIDEO_FIELDS))
    assert told(*granted.credentials) == DENIED
    assert told(*minted(gateway, "aliyun", bucket=BUCKET, keyPrefix=f"{APP}/", actions=["upload", "read"])) == DENIED


@pytest.mark.usefixtures("on_file")
def test_expired_tokens(tmp_path):
    with ObjectServer(tmp_path / "data", free_port()) as server:
        held, pair = session(server), server.pair()
        server.stop()
        server.environment |= clock.shifted(1000)
        server.start()
        later = datetime.now(UTC) + timedelta(seconds=1000)
        expired = (400, "InvalidSecurityToken.Expired")
        signed = version1(held, {"Action": "CreateUploadVideo", "Format": "JSON"} | VIDEO_FIELDS, when=later)
        assert refusal(checked, sent(server.url, signed)) == expired
        assert told(version3(server, held, "GetVideoInfo", {"VideoId": UNKNOWN}, when=later)) == expired
        assert told(version3(server, pair, "GetVideoInfo", {"VideoId": UNKNOWN}, when=later)) == NO_VIDEO


# Events


def subscribed(vod, app, app_id, **fields):
    """Sets the callback of an application and returns its URL."""
    url = f"{app.url}/{app_id}"
    settings = {"CallbackType": "HTTP", "CallbackURL": url, "EventTypeList": "ALL", "AppId": app_id} | fields
    vod("SetMessageCallback", **settings)
    return url


def test_events_of_each_kind_are_signed(gateway, vod, app, app_id):
    url = subscribed(vod, app, app_id, AuthSwitch="on", AuthKey="Dsf346dvet")
    found = vod("GetMessageCallback", AppId=app_id)["MessageCallback"]
    assert (found["CallbackType"], found["CallbackURL"], found["AuthSwitch"]) == ("HTTP", url, "on")
    assert found["EventTypeList"] == "ALL"
    video, _ = uploaded(gateway, vod, AppId=app_id, UserData='{"Extend":{"order":7}}')
    image = vod("CreateUploadImage", ImageType="cover", AppId=app_id)
    attached = vod("CreateUploadAttachedMedia", BusinessType="watermark", MediaExt="png", AppId=app_id)
    for answer in (image, attached):
        oss(grant(answer)).put_object(grant(answer).key, b"123")
    vod("DeleteVideo", VideoIds=video)
    events = [
        app.wait(video, "FileUploadComplete")[0],
        app.wait(image["ImageId"], "ImageUploadComplete")[0],
        app.wait(attached["MediaId"], "AttachedMediaUploadComplete")[0],
        app.wait(video, "DeleteMediaComplete")[0],
    ]
    payloads = [event.payload for event in events]
    # Without object.publicURL nobody knows the host: that of the vendor could be registered by anybody.
    assert payloads[0]["Size"] == len(VIDEO) and "FileUrl" not in payloads[0]
    assert json.loads(payloads[0]["Extend"]) == {"order": 7}
    assert payloads[1].items() >= {"Size": 3, "Status": "success", "AppId": app_id}.items()
    assert "FileURL" not in payloads[1] and "FileURL" not in payloads[2]
    assert payloads[2].items() >= {"Size": 3, "Status": "success"}.items()
    wanted = {"Status": "success", "MediaType": "video", "DeleteType": "all", "MediaId": video}
    assert payloads[3].items() >= wanted.items()
    for event in events:
        assert event.path == f"/{app_id}"
        stamp = event.fields["X-VOD-TIMESTAMP"]
        assert re.fullmatch(r"\d{10}", stamp) and abs(int(stamp) - time.time()) < 300
        assert event.fields["X-VOD-SIGNATURE"] == event_signature(url, stamp, "Dsf346dvet")
    assert [event.type for event in app.of(video)] == ["FileUploadComplete", "DeleteMediaComplete"]


def test_chosen_events_without_signatures(gateway, vod, app, app_id):
    subscribed(vod, app, app_id, EventTypeList="DeleteMediaComplete,ImageUploadComplete", AuthSwitch="off")
    video, _ = uploaded(gateway, vod, AppId=app_id)
    vod("DeleteVideo", VideoIds=video)
    (event,) = app.wait(video)
    assert event.type == "DeleteMediaComplete"
    assert not any(name.upper().startswith("X-VOD-") for name in event.fields)
    # No event types: no events.
    subscribed(vod, app, app_id, EventTypeList="")
    silent, _ = uploaded(gateway, vod, AppId=app_id)
    subscribed(vod, app, app_id)
    heard, _ = uploaded(gateway, vod, AppId=app_id)
    app.wait(heard, "FileUploadComplete")
    assert app.of(silent) == []


def test_a_media_has_its_own_callback_if_there_is_a_global_one(gateway, vod, app, app_id):
    own = f"{app.url}/own/{app_id}"
    data = json.dumps({"MessageCallback": {"CallbackURL": own, "CallbackType": "http"}, "Extend": {"a": "é"}})
    lonely, _ = uploaded(gateway, vod, AppId=app_id, UserData=data)
    subscribed(vod, app, app_id)
    video, _ = uploaded(gateway, vod, AppId=app_id, UserData=data)
    event = next(one for one in app.wait(video) if one.path == f"/own/{app_id}")
    assert event.type == "FileUploadComplete" and json.loads(event.payload["Extend"]) == {"a": "é"}
    assert app.of(lonely) == []
    other = json.dumps({"MessageCallback": {"CallbackURL": "http://other.example/", "CallbackType": "http"}})
    status, code = refusal(vod, "CreateUploadVideo", **VIDEO_FIELDS, AppId=app_id, UserData=other)
    assert status == 400 and code.startswith("InvalidParameter")


def test_events_are_posted_until_the_app_has_them(tmp_path):
    status = [503]
    with EventApp(lambda _: status[0]) as app:
        settings = {"SLUICE_OBJECT_CALLBACK_HOSTS": app.host}
        with ObjectServer(tmp_path / "data", free_port(), settings) as server:
            vod = Plain(server)
            subscribed(vod, app, APP)
            first, _ = uploaded(server, vod)
            second, _ = uploaded(server, vod)
            vod("DeleteVideo", VideoIds=first)
            # As often as the vendor tries.
            app.wait(first, count=3)
            assert {one.type for one in app.of(first)} == {"FileUploadComplete"}
            server.kill()
            status[0] = 200
            server.start()
            # The claim of the killed process may have to end.
            app.wait(first, "DeleteMediaComplete", timeout=120)
            app.wait(second, "FileUploadComplete", timeout=120)
            types = [one.type for one in app.of(first)]
            number = types.index("DeleteMediaComplete")
            assert set(types[:number]) == {"FileUploadComplete"} and "FileUploadComplete" not in types[number:]
            payloads = {json.dumps(one.payload, sort_keys=True) for one in app.of(first, "FileUploadComplete")}
            assert len(payloads) == 1


def test_an_overwritten_video_is_told_again(gateway, vod, app, app_id):
    subscribed(vod, app, app_id)
    video, granted = uploaded(gateway, vod, AppId=app_id)
    app.wait(video)
    again = grant(vod("RefreshUploadVideo", VideoId=video))
    oss(again).put_object(again.key, b"other")
    events = app.wait(video, "FileUploadComplete", count=2)
    assert [event.payload["Size"] for event in events] == [len(VIDEO), 5]
    assert info(vod, video)["Size"] == 5


# Counting


def test_calls_are_counted_by_action_and_code(gateway, vod):
    refusal(vod, "DeleteVideo")
    refusal(vod, "Nonsense" * 9)
    text = API(gateway.url, gateway.admin_key).get("/metrics").text
    assert re.search(r'sluice_aliyun_vod_calls_total\{[^}]*"DeleteVideo"[^}]*"MissingParameter"', text)
    assert "Nonsense" not in text


def test_quotas_hold(tmp_path):
    """Bytes of media are bytes of any other upload."""
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_LIMITS_UPLOAD_BYTES": str(MIB)}) as server:
        granted = grant(Plain(server)("CreateUploadVideo", **VIDEO_FIELDS))
        with pytest.raises(Exception, match="EntityTooLarge"):
            oss(granted).put_object(granted.key, b"x" * (MIB + 1))
        oss(granted).put_object(granted.key, b"x" * MIB)


def test_every_answer_is_whole(gateway, vod):
    """Errors too: no header of one client is in the answer of another."""
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda n: vod("CreateUploadVideo", Title=f"t{n}", FileName="v.mp4"), range(100)))
    assert len({one["RequestId"] for one in results}) == 100 == len({one["VideoId"] for one in results})
