"""API 3.0 of Tencent Cloud VOD, as an app's server calls it."""

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
import requests
from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException

from harness.api import API
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer, client, minted
from harness.origin import Origin
from harness.receiver import Receiver
from harness.server import Server, run
from harness.ugc import Refused, VodJS, announced, signer
from harness.vod_api import SDK, address, call, checked, own_pair, refused, tc3, tccli, upload, version1
from harness.wire import until

BUCKET = "vod-1250000000"
SUB, OTHER = 1500000001, 1500000002
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_UPLOADS_SWEEP_EVERY": "1s", "SLUICE_TENCENT_EVENTS": "pull"}
    with ObjectServer(tmp_path_factory.mktemp("vod") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def pair(gateway):
    return own_pair(gateway)


@pytest.fixture(scope="module")
def sdk(gateway):
    return SDK(gateway)


def code(work, *arguments, **parameters):
    """The code with which the SDK's call is refused."""
    with pytest.raises(TencentCloudSDKException) as caught:
        work(*arguments, **parameters)
    assert caught.value.get_request_id()
    return caught.value.get_code()


def key(server, *options):
    """The id of a new API key, and its pair."""
    made = run("keys", "create", "--name", "vod", *options, environment=server.environment).stdout
    identifier = re.search(r"key_\w+", made)[0]
    return identifier, server.pair(identifier)


def stored(server, url):
    """The bytes behind a URL of a media, read by S3."""
    return server.client().get_object(Bucket=BUCKET, Key=url.split(f"/{BUCKET}/", 1)[1])["Body"].read()


def applied(server, pair, **fields):
    """The answer of ApplyUpload, and a client with its certificate."""
    answer = call(server, pair, "ApplyUpload", {"MediaType": "mp4"} | fields)
    client = VodJS(server, None)
    bucket, _, number = answer["StorageBucket"].rpartition("-")
    certificate = answer["TempCertificate"]
    client.applied = {
        "storageBucket": bucket,
        "storageAppId": int(number),
        "storageRegionV5": answer["StorageRegion"],
        "timestamp": int(time.time()),
        "tempCertificate": {
            "secretId": certificate["SecretId"],
            "secretKey": certificate["SecretKey"],
            "token": certificate["Token"],
            "expiredTime": certificate["ExpiredTime"],
        },
    }
    return answer, client


def sent(server, data=b"abc", user="dora", **fields):
    """Media of an app's user; its id."""
    body = announced(len(data)) | {name: fields.pop(name) for name in ("videoName", "videoType") if name in fields}
    client = VodJS(server, signer(server, subject=user, **fields))
    path = client.apply(body)["video"]["storagePath"]
    client.send_file(path, data)
    return client.commit()["fileId"]


# Uploads


@pytest.mark.parametrize("size", [1, 5 * MIB])
def test_the_upload_sdk_for_servers(gateway, pair, sdk, tmp_path, size):
    video, cover = content(size, 1), content(2 * KIB, 2)
    (tmp_path / "film.mp4").write_bytes(video)
    (tmp_path / "still.jpg").write_bytes(cover)
    answer = upload(gateway, pair, tmp_path / "film.mp4", tmp_path / "still.jpg", SourceContext="order-7", ClassId=3)
    assert stored(gateway, answer["MediaUrl"]) == video
    assert stored(gateway, answer["CoverUrl"]) == cover
    found = sdk("DescribeMediaInfos", FileIds=[answer["FileId"]])["MediaInfoSet"][0]
    basic = found["BasicInfo"]
    assert (basic["Name"], basic["Type"], basic["ClassId"], basic["Category"]) == ("film", "mp4", 3, "Video")
    assert (basic["MediaUrl"], basic["CoverUrl"]) == (answer["MediaUrl"], answer["CoverUrl"])
    assert basic["SourceInfo"]["SourceType"] == "ServerUpload"
    assert basic["SourceInfo"]["SourceContext"] == "order-7"
    assert found["MetaData"]["Size"] == size
    if size == 1:
        assert found["MetaData"]["Md5"] == hashlib.md5(video).hexdigest()


@pytest.mark.nightly
def test_a_gigabyte_by_the_upload_sdk_for_servers(gateway, pair, tmp_path):
    block, number = content(MIB, 3), 1024
    with open(tmp_path / "film.mp4", "wb") as file:
        for _ in range(number):
            file.write(block)
    answer = upload(gateway, pair, tmp_path / "film.mp4")
    wanted, found = hashlib.sha256(), hashlib.sha256()
    for _ in range(number):
        wanted.update(block)
    body = gateway.client().get_object(Bucket=BUCKET, Key=answer["MediaUrl"].split(f"/{BUCKET}/", 1)[1])["Body"]
    for chunk in body.iter_chunks(MIB):
        found.update(chunk)
    assert found.digest() == wanted.digest()
    assert refused(gateway, pair, "DeleteMedia", {"FileId": answer["FileId"]}) is None


def test_an_empty_file_is_refused_when_it_is_committed(gateway, pair, tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"")
    assert code(upload, gateway, pair, tmp_path / "film.mp4") == "FailedOperation.UploadCosFail"


def test_the_command_line(gateway, pair):
    answer = tccli(gateway, pair, "ApplyUpload", "--MediaType", "mp4", "--MediaName", "clip", "--CoverType", "png")
    assert answer["StorageBucket"] == BUCKET
    assert answer["MediaStoragePath"].endswith("/f0.mp4") and answer["CoverStoragePath"].endswith(".png")
    assert answer["TempCertificate"]["ExpiredTime"] > time.time()
    text = tccli(gateway, pair, "CommitUpload", "--VodSessionKey", answer["VodSessionKey"], check=False)
    assert "FailedOperation.UploadCosFail" in text
    identifier = sent(gateway)
    found = tccli(gateway, pair, "DescribeMediaInfos", "--FileIds", json.dumps([identifier, "1"]))
    assert [one["FileId"] for one in found["MediaInfoSet"]] == [identifier]
    assert found["NotExistFileIdSet"] == ["1"]


def test_an_interrupted_upload_goes_on_after_the_gateway_was_killed(tmp_path):
    with ObjectServer(tmp_path / "data", free_port()) as server:
        pair = own_pair(server)
        data = content(3 * MIB, 4)
        answer, client = applied(server, pair)
        assert not client.send_file(answer["MediaStoragePath"], data, stop_after=2)
        server.kill()
        server.start()
        assert client.send_file(answer["MediaStoragePath"], data)
        session = {"VodSessionKey": answer["VodSessionKey"]}
        done = [call(server, pair, "CommitUpload", session) for _ in range(2)]
        assert done[0]["FileId"] == done[1]["FileId"]
        assert stored(server, done[0]["MediaUrl"]) == data


@pytest.mark.parametrize("size", [3, 12 * MIB])
def test_the_sdk_for_php_sends_the_storage_path_as_it_is(gateway, pair, size):
    """It puts the path, which begins with a slash, behind another one, and signs that."""
    data = content(size, 9)
    answer, client = applied(gateway, pair)
    client.signs_host = True
    path = "/" + answer["MediaStoragePath"]
    assert path.startswith("//vod/")
    if size < 5 * MIB:
        client.cos("PUT", path, data=data, signed=["content-length"])
    else:
        upload = client.initiate(path)
        tags, _ = client.send_parts(path, upload, data)
        assert client.parts(path, upload) == tags
        client.complete(path, upload, tags)
    done = call(gateway, pair, "CommitUpload", {"VodSessionKey": answer["VodSessionKey"]})
    assert done["MediaUrl"].endswith(answer["MediaStoragePath"])
    assert stored(gateway, done["MediaUrl"]) == data


# Playlists


def playlist(*lines):
    return "\n".join(["#EXTM3U", *lines, ""]).encode()


FILM = {
    "film.m3u8": playlist(
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="N",URI="audio/list.m3u8"',
        '#EXT-X-STREAM-INF:BANDWIDTH=200000,AUDIO="a"',
        "low/list.m3u8",
        '#EXT-X-STREAM-INF:BANDWIDTH=400000,AUDIO="a"',
        "low/list.m3u8",
    ),
    "audio/list.m3u8": playlist("#EXT-X-TARGETDURATION:10", "#EXTINF:10,", "a 1.ts", "#EXT-X-ENDLIST"),
    "audio/a 1.ts": content(10, 1),
    "low/list.m3u8": playlist(
        "#EXT-X-TARGETDURATION:10",
        '#EXT-X-MAP:URI="init.mp4"',
        "#EXTINF:10,",
        "test/1.ts",
        "#EXTINF:10,",
        "test/2.ts",
        "#EXT-X-ENDLIST",
    ),
    "low/init.mp4": content(20, 2),
    "low/test/1.ts": content(3 * MIB, 3),
    "low/test/2.ts": content(30, 4),
}


def films(server):
    return server.client().list_objects_v2(Bucket=BUCKET, Prefix="vod/").get("Contents", [])


def test_a_playlist_and_its_files_by_the_upload_sdk_for_servers(tmp_path):
    for path, data in FILM.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    (tmp_path / "still.jpg").write_bytes(b"cover")
    with ObjectServer(tmp_path / "data", free_port()) as server:
        pair = own_pair(server)
        answer = upload(server, pair, tmp_path / "film.m3u8", tmp_path / "still.jpg")
        folder = answer["MediaUrl"].rsplit("/", 1)[0]
        assert answer["MediaUrl"].endswith("/f0.m3u8")
        for path, data in FILM.items():
            url = answer["MediaUrl"] if path == "film.m3u8" else f"{folder}/{path}"
            assert stored(server, url) == data, path
        assert stored(server, answer["CoverUrl"]) == b"cover"
        assert len(films(server)) == len(FILM) + 1
        segment = folder.split(f"/{BUCKET}/", 1)[1] + "/low/test/1.ts"
        assert server.client().head_object(Bucket=BUCKET, Key=segment)["ContentType"] == "video/mp2t"
        found = call(server, pair, "DescribeMediaInfos", {"FileIds": [answer["FileId"]]})["MediaInfoSet"][0]
        assert (found["BasicInfo"]["Type"], found["BasicInfo"]["Category"]) == ("m3u8", "Video")
        # As in Tencent's answers, of all its files, without the cover.
        assert found["MetaData"]["Size"] == sum(map(len, FILM.values()))
        assert refused(server, pair, "DeleteMedia", {"FileId": answer["FileId"]}) is None
        assert films(server) == []


def test_a_playlist_that_names_files_elsewhere_is_refused(gateway, pair, sdk, tmp_path):
    wrong = "InvalidParameterValue.MediaManifestContent"
    for line in ["https://cdn.example/1.ts", "/1.ts", "../1.ts"]:
        (tmp_path / "film.m3u8").write_bytes(playlist("#EXTINF:10,", line))
        assert code(upload, gateway, pair, tmp_path / "film.m3u8") == wrong
    (tmp_path / "film.m3u8").write_bytes(b"no playlist")
    assert code(upload, gateway, pair, tmp_path / "film.m3u8") == wrong
    (tmp_path / "film.mpd").write_bytes(b"<MPD/>")
    assert code(upload, gateway, pair, tmp_path / "film.mpd") == "InvalidParameterValue.ManifestType"
    action = "ParseStreamingManifest"
    assert code(sdk, action) == "MissingParameter"
    # The type that is meant by none.
    lines = [line for number in range(10_000) for line in ("#EXTINF:9.009,", f"film/segment-{number:05}.ts")]
    long = playlist(*lines).decode()
    assert sdk(action, MediaManifestContent=long)["MediaSegmentSet"] == lines[1::2]
    assert code(sdk, action, MediaManifestContent=long * 4) == "InvalidParameter"
    # Only this call may be so long.
    assert code(sdk, "SearchMedia", Text=long) == "InvalidParameter"


def test_the_certificate_of_a_playlist_is_for_its_directory(gateway, pair):
    answer, client = applied(gateway, pair, MediaType="m3u8")
    client.signs_host = True
    folder = answer["MediaStoragePath"].rsplit("/", 1)[0]
    other, _ = applied(gateway, pair, MediaType="m3u8")
    for path in [folder[:-1] + "x/1.ts", folder + "x/1.ts", "/vod/1.ts", "/1.ts", other["MediaStoragePath"]]:
        with pytest.raises(Refused, match="AccessDenied"):
            client.cos("PUT", path, data=b"1")
    for path in [folder + "/1.ts", folder + "/a/b/2.ts", "/" + folder + "/3.ts", answer["MediaStoragePath"]]:
        client.cos("PUT", path, data=b"1")
    for method, path in [("GET", folder + "/1.ts"), ("DELETE", folder + "/1.ts")]:
        with pytest.raises(Refused, match="AccessDenied"):
            client.cos(method, path)
    # That of any other file is for the file.
    answer, client = applied(gateway, pair)
    client.signs_host = True
    with pytest.raises(Refused, match="AccessDenied"):
        client.cos("PUT", answer["MediaStoragePath"].rsplit("/", 1)[0] + "/1.ts", data=b"1")


def test_a_playlist_that_is_never_committed_leaves_nothing(tmp_path):
    settings = {"SLUICE_TENCENT_SESSION_LIFETIME": "2s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        answer, client = applied(server, own_pair(server), MediaType="m3u8")
        client.signs_host = True
        folder = answer["MediaStoragePath"].rsplit("/", 1)[0]
        for path in ["1.ts", "a/2.ts", "f0.m3u8"]:
            client.cos("PUT", f"{folder}/{path}", data=b"1")
        assert len(films(server)) == 3
        until(lambda: not films(server))


def test_commits_at_once_make_one_media(gateway, pair):
    client = VodJS(gateway, signer(gateway, subject="erin"))
    data = client.apply(announced(3))
    client.send_file(data["video"]["storagePath"], b"abc")
    body = {"VodSessionKey": data["vodSessionKey"]}
    # An app's server may end what a user has begun.
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: call(gateway, pair, "CommitUpload", body), range(20)))
    assert len({answer["FileId"] for answer in answers}) == 1
    assert client.commit()["fileId"] == answers[0]["FileId"]


# Media


def test_media_is_found(gateway, pair):
    sdk = SDK(gateway)
    names = ["Alps", "alpine lake", "Baltic"]
    ids = [sent(gateway, vodSubAppId=SUB, videoName=name, user=f"user{i}") for i, name in enumerate(names)]
    ids.append(sent(gateway, vodSubAppId=SUB, videoName="song", videoType="mp3", classId=9, sourceContext="x"))

    def found(**query):
        answer = sdk("SearchMedia", SubAppId=SUB, **query)
        return answer["TotalCount"], [one["FileId"] for one in answer["MediaInfoSet"]]

    assert found() == (4, ids[::-1])
    assert found(Sort={"Field": "CreateTime", "Order": "Asc"}) == (4, ids)
    assert found(Offset=1, Limit=2) == (4, [ids[2], ids[1]])
    assert found(Names=["ALP"]) == (2, [ids[1], ids[0]])
    assert found(Text="balt") == (1, [ids[2]])
    assert found(NamePrefixes=["Al", "so"]) == (2, [ids[3], ids[0]])
    assert found(ClassIds=[9]) == (1, [ids[3]])
    assert found(Categories=["Audio"]) == (1, [ids[3]]) == found(MediaTypes=["MP3"])
    assert found(FileIds=[ids[2], "7"]) == (1, [ids[2]])
    assert found(SourceTypes=["ServerUpload"]) == (0, [])
    now = time.time()

    def moment(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))

    assert found(CreateTime={"After": moment(-600), "Before": moment(600)})[0] == 4
    assert found(CreateTime={"Before": moment(-600)}) == (0, [])
    assert found(CreateTime={"After": moment(600)}) == (0, [])
    tag = {"AddTags": ["red", "blue"], "Description": "Sea and sand", "Name": "Ostsee", "ClassId": 4}
    assert refused(gateway, pair, "ModifyMediaInfo", {"SubAppId": SUB, "FileId": ids[2]} | tag) is None
    assert found(Tags=["blue"]) == (1, [ids[2]]) == found(Descriptions=["SAND"])
    assert (
        refused(gateway, pair, "ModifyMediaInfo", {"SubAppId": SUB, "FileId": ids[2], "DeleteTags": ["blue"]}) is None
    )
    basic = sdk("DescribeMediaInfos", SubAppId=SUB, FileIds=[ids[2]], Filters=["basicInfo"])["MediaInfoSet"][0]
    assert "MetaData" not in basic or basic["MetaData"] is None
    basic = basic["BasicInfo"]
    assert (basic["Name"], basic["Description"], basic["TagSet"], basic["ClassId"]) == (
        "Ostsee",
        "Sea and sand",
        ["red"],
        4,
    )
    many = {"AddTags": [f"t{i}" for i in range(16)]}
    wanted = "LimitExceeded.TagCountReachMax"
    assert refused(gateway, pair, "ModifyMediaInfo", {"SubAppId": SUB, "FileId": ids[2]} | many) == wanted
    assert refused(gateway, pair, "ModifyMediaInfo", {"SubAppId": SUB, "FileId": ids[2], "ClearTags": 1} | many) is None


def test_media_is_deleted_with_its_files(gateway, sdk):
    client = VodJS(gateway, signer(gateway))
    done = client.upload(b"film", b"cover")
    sdk("DeleteMedia", FileId=done["fileId"])
    prefix = done["video"]["url"].split(f"/{BUCKET}/", 1)[1].rsplit("/", 1)[0]
    assert gateway.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)["KeyCount"] == 0
    assert sdk("DescribeMediaInfos", FileIds=[done["fileId"]])["NotExistFileIdSet"] == [done["fileId"]]
    assert code(sdk, "DeleteMedia", FileId=done["fileId"]) == "ResourceNotFound.FileNotExist"
    assert code(sdk, "ModifyMediaInfo", FileId=done["fileId"], Name="x") == "ResourceNotFound.FileNotExist"


@pytest.mark.usefixtures("on_file")
def test_a_deletion_that_was_interrupted_is_finished(tmp_path):
    settings = {"SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        identifier, kept = sent(server), sent(server)
        application = call(server, own_pair(server), "DescribeSubAppIds", {})["SubAppIdInfoSet"][0]["SubAppId"]
        server.kill()
        # What it wrote before it died.
        row = ("tencent removal", f"{application}/{identifier}", "{}", 1, int(time.time() * 1000))
        with contextlib.closing(sqlite3.connect(server.data / "state.sqlite")) as state, state:
            state.execute(
                "INSERT INTO dialect_record (kind, key, text, version, created_at) VALUES (?, ?, ?, ?, ?)", row
            )
        server.start()
        listing = {"Bucket": BUCKET, "Prefix": "vod/"}
        until(lambda: server.client().list_objects_v2(**listing)["KeyCount"] == 1)
        answer = call(server, own_pair(server), "DescribeMediaInfos", {"FileIds": [identifier, kept]})
        assert answer["NotExistFileIdSet"] == [identifier]


# Applications and keys


def test_applications_do_not_see_each_other(gateway, sdk):
    mine, other = sent(gateway, vodSubAppId=SUB), sent(gateway, vodSubAppId=OTHER)
    for application, identifier, foreign in [(SUB, mine, other), (OTHER, other, mine)]:
        answer = sdk("DescribeMediaInfos", SubAppId=application, FileIds=[mine, other])
        assert [one["FileId"] for one in answer["MediaInfoSet"]] == [identifier]
        assert answer["NotExistFileIdSet"] == [foreign]
        assert code(sdk, "DeleteMedia", SubAppId=application, FileId=foreign) == "ResourceNotFound.FileNotExist"
    assert sdk("DescribeMediaInfos", FileIds=[mine])["NotExistFileIdSet"] == [mine]
    client = VodJS(gateway, signer(gateway, vodSubAppId=SUB))
    session = client.apply(announced(3))["vodSessionKey"]
    wanted = "InvalidParameterValue.VodSessionKey"
    assert code(sdk, "CommitUpload", SubAppId=OTHER, VodSessionKey=session) == wanted
    assert code(sdk, "CommitUpload", VodSessionKey=session) == wanted


def test_a_key_that_is_limited_to_an_application(gateway):
    scopes = ["--scope", "mint", "--scope", "read", "--scope", "delete", "--scope", "upload"]
    name, pair = key(gateway, *scopes, "--bucket", BUCKET, "--prefix", f"vod/{SUB}/")
    mine, other = sent(gateway, vodSubAppId=SUB), sent(gateway, vodSubAppId=OTHER)
    sdk = SDK(gateway, pair)
    assert len(sdk("DescribeMediaInfos", SubAppId=SUB, FileIds=[mine])["MediaInfoSet"]) == 1
    for parameters in [{"SubAppId": OTHER}, {}]:
        assert code(sdk, "DescribeMediaInfos", FileIds=[other], **parameters) == "UnauthorizedOperation"
        assert code(sdk, "DeleteMedia", FileId=other, **parameters) == "UnauthorizedOperation"
        assert code(sdk, "ApplyUpload", MediaType="mp4", **parameters) == "UnauthorizedOperation"
        assert code(sdk, "SearchMedia", **parameters) == "UnauthorizedOperation"
        assert code(sdk, "ModifyMediaInfo", FileId=other, Name="x", **parameters) == "UnauthorizedOperation"
        assert code(sdk, "CommitUpload", VodSessionKey="x", **parameters) == "UnauthorizedOperation"
        assert code(sdk, "PullEvents", **parameters) == "UnauthorizedOperation"
        assert code(sdk, "ConfirmEvents", EventHandles=["x"], **parameters) == "UnauthorizedOperation"
    assert sdk("DescribeSubAppIds")["SubAppIdInfoSet"] == []
    assert sdk("ApplyUpload", SubAppId=SUB, MediaType="mp4")["MediaStoragePath"].startswith(f"/vod/{SUB}/")
    # This call names no application.
    assert sdk("ParseStreamingManifest", MediaManifestContent="#EXTM3U\n1.ts")["MediaSegmentSet"] == ["1.ts"]
    run("keys", "revoke", name, environment=gateway.environment)
    until(lambda: refused(gateway, pair, "DescribeSubAppIds", {}) == "AuthFailure.SecretIdNotFound")


def test_a_key_that_is_limited_to_an_application_mints_for_that_only(gateway):
    made = run(
        *("keys", "create", "--name", "vod", "--scope", "mint", "--bucket", BUCKET, "--prefix", f"vod/{SUB}/"),
        environment=gateway.environment,
    ).stdout
    api = API(gateway.url, re.search(r"slk_\S+", made)[0])
    path = "/v1/tencent/signatures"
    assert api.post(path, {"vodSubAppId": SUB}).status_code == 201
    for fields in [{"vodSubAppId": OTHER}, {"vodSubAppId": 0}, {}]:
        assert api.post(path, fields).status_code == 403
    # Its pair can sign without the gateway.
    secret_id, secret = gateway.pair(re.search(r"key_\w+", made)[0])
    now = int(time.time())

    def applied(**fields):
        fields = {"secretId": secret_id, "currentTimeStamp": now, "expireTime": now + 600, "random": 7} | fields
        text = urlencode(fields).encode()
        signature = base64.b64encode(hmac.digest(secret.encode(), text, "sha1") + text).decode()
        return VodJS(gateway, lambda: signature).apply(announced(3))

    assert applied(vodSubAppId=SUB)["video"]["storagePath"].startswith(f"/vod/{SUB}/")
    for fields in [{"vodSubAppId": OTHER}, {}]:
        with pytest.raises(Refused, match="10004"):
            applied(**fields)


ACTIONS = {
    "mint": ["ApplyUpload", "CommitUpload", "ParseStreamingManifest"],
    "upload": ["ModifyMediaInfo", "PullUpload"],
    "read": [
        "DescribeMediaInfos",
        "SearchMedia",
        "DescribeSubAppIds",
        "DescribeTaskDetail",
        "PullEvents",
        "ConfirmEvents",
    ],
    "delete": ["DeleteMedia"],
}


@pytest.mark.parametrize("scope", ACTIONS)
def test_each_action_needs_one_scope(gateway, scope):
    _, pair = key(gateway, "--scope", scope)
    # A value that no action takes: it is refused after the key.
    codes = {
        action: refused(gateway, pair, action, {"SubAppId": "x"}) for actions in ACTIONS.values() for action in actions
    }
    unknown, wrong = "AuthFailure.SecretIdNotFound", "InvalidParameterValue.SubAppId"
    assert codes == {action: wrong if action in ACTIONS[scope] else unknown for action in codes}


def test_a_key_of_one_user_works_for_that_user_only(gateway):
    application = 1500000011
    mine, other = (sent(gateway, user=user, vodSubAppId=application) for user in ("gus", "hal"))
    scopes = ["--scope", "mint", "--scope", "read", "--scope", "upload"]
    _, pair = key(gateway, *scopes, "--subject", "gus")
    everything = own_pair(gateway)

    def told(action, **parameters):
        return refused(gateway, pair, action, {"SubAppId": application} | parameters)

    assert told("ModifyMediaInfo", FileId=mine, Name="x") is None
    assert told("ModifyMediaInfo", FileId=other, Name="x") == "ResourceNotFound.FileNotExist"
    events = call(gateway, pair, "PullEvents", {"SubAppId": application})["EventSet"]
    assert [event["FileUploadEvent"]["FileId"] for event in events] == [mine]
    foreign = call(gateway, everything, "PullEvents", {"SubAppId": application})["EventSet"][0]
    assert foreign["FileUploadEvent"]["FileId"] == other
    assert told("ConfirmEvents", EventHandles=[foreign["EventHandle"]]) == "InvalidParameterValue.EventHandles"
    assert told("ConfirmEvents", EventHandles=[events[0]["EventHandle"]]) is None
    assert (
        refused(
            gateway, everything, "ConfirmEvents", {"SubAppId": application, "EventHandles": [foreign["EventHandle"]]}
        )
        is None
    )
    # What it uploads belongs to that user; it cannot end uploads of others.
    session = call(gateway, pair, "ApplyUpload", {"SubAppId": application, "MediaType": "mp4"})["VodSessionKey"]
    assert told("CommitUpload", VodSessionKey=session) == "FailedOperation.UploadCosFail"
    client = VodJS(gateway, signer(gateway, subject="hal", vodSubAppId=application))
    session = client.apply(announced(3))["vodSessionKey"]
    assert told("CommitUpload", VodSessionKey=session) == "InvalidParameterValue.VodSessionKey"


def test_a_key_needs_the_scope_of_the_action_and_sees_its_users_only(gateway):
    identifier, other = sent(gateway, user="u:1"), sent(gateway, user="v:1")
    _, pair = key(gateway, "--scope", "read", "--subject", "u:*")
    assert refused(gateway, pair, "DeleteMedia", {"FileId": identifier}) == "AuthFailure.SecretIdNotFound"
    answer = call(gateway, pair, "DescribeMediaInfos", {"FileIds": [identifier, other]})
    assert answer["NotExistFileIdSet"] == [other]
    found = call(gateway, pair, "SearchMedia", {"Limit": 5000})["MediaInfoSet"]
    assert identifier in [one["FileId"] for one in found]
    assert other not in [one["FileId"] for one in found]
    _, deleter = key(gateway, "--scope", "delete", "--subject", "u:*")
    assert refused(gateway, deleter, "DeleteMedia", {"FileId": other}) == "ResourceNotFound.FileNotExist"
    assert refused(gateway, deleter, "DeleteMedia", {"FileId": identifier}) is None


def test_a_key_of_several_users_does_not_upload_for_none(gateway):
    _, pair = key(gateway, "--scope", "mint", "--scope", "upload", "--subject", "u:*")
    assert refused(gateway, pair, "ApplyUpload", {"MediaType": "mp4"}) == "UnauthorizedOperation"
    assert refused(gateway, pair, "PullUpload", {"MediaUrl": "http://origin.example/x.mp4"}) == "UnauthorizedOperation"
    # It may end what one of its users has begun.
    client = VodJS(gateway, signer(gateway, subject="u:7"))
    client.send_file(client.apply(announced(3))["video"]["storagePath"], b"abc")
    session = {"VodSessionKey": client.applied["vodSessionKey"]}
    assert call(gateway, pair, "CommitUpload", session)["FileId"]


def test_sub_applications_can_be_listed_in_the_settings(tmp_path):
    settings = {"SLUICE_TENCENT_SUB_APPLICATIONS": f"{SUB},{OTHER}"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        sdk = SDK(server)
        answer = sdk("DescribeSubAppIds", Offset=1)
        assert answer["TotalCount"] == 3
        assert [one["SubAppId"] for one in answer["SubAppIdInfoSet"]] == [SUB, OTHER]
        assert code(sdk, "SearchMedia", SubAppId=7) == "InvalidParameterValue.SubAppId"
        with pytest.raises(Refused, match="10004"):
            VodJS(server, signer(server, vodSubAppId=7)).apply(announced(3))
        assert VodJS(server, signer(server, vodSubAppId=SUB)).apply(announced(3))["appId"] == SUB


# Signatures


def test_the_signature_of_the_tests_is_that_of_the_vendor():
    pair = ("AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv", "bLcPnl88WU30VY57ipRhSePfPdOfSruK")
    body = b'{"MediaType": "mp4", "SubAppId": 1500012345, "MediaName": "demo"}'
    fields = tc3(pair, "vod.tencentcloudapi.com", body, "ApplyUpload", now=1571215095)
    assert fields["Authorization"].endswith("e186ae518dee32a6708883753d18ec4f5b140e3f58a04055e25808440392fa6f")


def test_signatures_that_are_refused(gateway, pair):
    body = {"FileIds": ["1"]}
    now = int(time.time())

    def told(pair=pair, **options):
        return refused(gateway, pair, "DescribeMediaInfos", body, **options)

    assert told() is None
    assert told((pair[0], "wrong")) == "AuthFailure.SignatureFailure"
    assert told(("AKIDnobody", pair[1])) == "AuthFailure.SecretIdNotFound"
    assert told(now=now - 400) == "AuthFailure.SignatureExpire"
    assert told(now=now + 400) == "AuthFailure.SignatureExpire"
    assert told(service="sts") == "AuthFailure.InvalidAuthorization"
    assert told(day="2020-01-01") == "AuthFailure.InvalidAuthorization"
    assert told(version="2017-03-12") == "NoSuchVersion"
    data = json.dumps(body).encode()
    fields = tc3(pair, address(gateway), data, "DescribeMediaInfos")
    for change in [{"Content-Type": "text/plain"}, {"X-TC-Timestamp": str(now - 60)}]:
        answer = checked(requests.post(gateway.url + "/", data=data, headers=fields | change))
        assert answer["Error"]["Code"] == "AuthFailure.SignatureFailure"
    answer = checked(requests.post(gateway.url + "/", data=data + b" ", headers=fields))
    assert answer["Error"]["Code"] == "AuthFailure.SignatureFailure"
    answer = checked(requests.post(gateway.url + "/", data=data, headers=fields | {"X-TC-Token": "t"}))
    assert answer["Error"]["Code"] == "AuthFailure.TokenFailure"
    del fields["Authorization"]
    answer = checked(requests.post(gateway.url + "/", data=data, headers=fields))
    assert answer["Error"]["Code"] == "AuthFailure.InvalidAuthorization"


@pytest.mark.parametrize("scheme", ["HmacSHA1", "HmacSHA256"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_older_signature_of_the_sdk(gateway, scheme, method):
    identifier = sent(gateway, videoName="older")
    sdk = SDK(gateway, scheme=scheme, method=method)
    answer = sdk("DescribeMediaInfos", FileIds=[identifier, "1"])
    assert answer["MediaInfoSet"][0]["BasicInfo"]["Name"] == "older"
    assert answer["NotExistFileIdSet"] == ["1"]
    answer = sdk("SearchMedia", Names=["older"], Sort={"Field": "CreateTime", "Order": "Asc"}, Limit=1)
    assert len(answer["MediaInfoSet"]) == 1


def test_the_newer_signature_in_a_query(gateway):
    identifier = sent(gateway)
    assert SDK(gateway, method="GET")("DescribeMediaInfos", FileIds=[identifier])["MediaInfoSet"]


def refusal(answer):
    return answer.json()["Response"]["Error"]["Code"]


@pytest.mark.parametrize(
    "text",
    ["a=&" * 16_000, "a=%26B&" * 7000, "".join(f"a.{number}=&" for number in range(6000))],
    ids=["empty", "alike", "distinct"],
)
def test_a_form_that_nobody_has_signed_costs_its_length(gateway, text):
    """However many parameters it has."""

    def cost(form):
        before = gateway.cpu_seconds()
        for _ in range(10):
            answer = requests.post(
                gateway.url, data=form, headers={"Content-Type": "application/x-www-form-urlencoded"}, timeout=60
            )
            assert refusal(answer).startswith("AuthFailure."), answer.text
        return gateway.cpu_seconds() - before

    one = "a=" + "x" * (len(text) - 2)
    cost(one)
    assert cost(text) < 1 + 5 * cost(one)


# Of two letters and of three; none is a parameter of a call.
NAMES = [
    "".join(name) for count in (2, 3) for name in itertools.product("bcdfghjkmnpqrstvwxyz0123456789", repeat=count)
]


def test_a_signature_that_nobody_has_made_costs_its_length(gateway):
    """However many parameters it has."""

    def cost(parameters):
        encoded = base64.b64encode(bytes(20) + parameters.encode()).decode()
        before = gateway.cpu_seconds()
        for _ in range(10):
            sent = {"signature": encoded} | announced(1)
            answer = requests.post(f"{gateway.url}/v3/index.php?Action=ApplyUploadUGC", json=sent, timeout=60)
            assert answer.json()["code"] != 0, answer.text
        return gateway.cpu_seconds() - before

    many = "&".join(f"{name}=" for name in NAMES[:2300])
    one = "a=" + "x" * (len(many) - 2)
    cost(one)
    assert cost(many) < 1 + 5 * cost(one)


def test_a_signed_form_costs_its_length(gateway, pair):
    """However many of its names begin alike."""

    def cost(parameters):
        before = gateway.cpu_seconds()
        for number in range(10):
            call = {"Action": "SearchMedia", "Version": "2018-07-17"} | parameters
            signed = version1(pair, address(gateway), call, nonce=1000 + number)
            answer = requests.post(gateway.url, data=signed, timeout=60)
            assert refusal(answer) in ("UnknownParameter", "InvalidParameter", "AuthFailure.SignatureFailure"), (
                answer.text
            )
        return gateway.cpu_seconds() - before

    many = {f"a.{name}": "" for name in NAMES[:8000]}
    one = {"a": "x" * sum(len(name) + 2 for name in many)}
    cost(one)
    assert cost(many) < 1 + 5 * cost(one)


@pytest.mark.parametrize(
    ("size", "code"), [(60 * KIB, "AuthFailure.InvalidAuthorization"), (65 * KIB, "InvalidParameter")]
)
def test_no_playlist_comes_in_a_form(gateway, size, code):
    """Of which each parameter costs time before anybody is authenticated: it is no larger than those of other calls."""
    fields = {"X-TC-Action": "ParseStreamingManifest", "Content-Type": "application/x-www-form-urlencoded"}
    answer = requests.post(gateway.url, data="a=&" * (size // 3), headers=fields, timeout=30)
    assert refusal(answer) == code, answer.text


def test_an_older_signature_is_good_once(gateway, pair):
    parameters = {"Action": "DescribeMediaInfos", "Version": "2018-07-17", "FileIds.0": "1"}
    signed = version1(pair, address(gateway), parameters, nonce=5)
    answers = [checked(requests.post(gateway.url + "/", data=signed)) for _ in range(2)]
    assert "Error" not in answers[0]
    assert answers[1]["Error"]["Code"] == "AuthFailure.SignatureFailure"
    # The same text is signed if the value of one parameter contains the next one.
    signed = version1(pair, address(gateway), parameters, nonce=6)
    joined = {name: value for name, value in signed.items() if name != "Nonce"} | {
        "FileIds.0": f"1&Nonce={signed['Nonce']}"
    }
    assert checked(requests.post(gateway.url + "/", data=joined))["Error"]["Code"] == "InvalidParameter"
    parameters = {"Action": "ApplyUpload", "Version": "2018-07-17", "MediaName": "a", "MediaType": "mp4"}
    signed = version1(pair, address(gateway), parameters, nonce=7)
    joined = {name: value for name, value in signed.items() if name != "MediaType"} | {"MediaName": "a&MediaType=mp4"}
    assert checked(requests.post(gateway.url + "/", data=joined))["Error"]["Code"] == "InvalidParameter"
    assert "Error" not in checked(requests.post(gateway.url + "/", data=signed))
    plain = parameters | {"MediaName": "a&b=c", "SourceContext": "x=1&y=2"}
    assert "Error" not in checked(
        requests.post(gateway.url + "/", data=version1(pair, address(gateway), plain, nonce=8))
    )


# Bad input


def test_calls_that_are_wrong(gateway, pair):
    def told(action, body):
        return refused(gateway, pair, action, body)

    assert told("DescribeMediaInfos", b"[]") == "InvalidParameter"
    assert told("DescribeMediaInfos", b"{") == "InvalidParameter"
    assert told("DescribeMediaInfos", b'{"FileIds": ["1"], "FileIds": ["2"]}') == "InvalidParameter"
    assert told("DescribeMediaInfos", b"[" * 2000) == "InvalidParameter"
    assert told("DescribeMediaInfos", b'{"FileIds": ["' + b"1" * (70 << 10) + b'"]}') == "InvalidParameter"
    assert told("DescribeMediaInfos", {}) == "MissingParameter"
    assert told("DescribeMediaInfos", {"FileIds": "1"}) == "InvalidParameterValue.FileIds"
    assert told("DescribeMediaInfos", {"FileIds": ["1"] * 21}) == "InvalidParameterValue.FileIds"
    assert told("DescribeMediaInfos", {"FileIds": ["a\0b"]}) == "InvalidParameterValue.FileIds"
    assert told("DescribeMediaInfos", {"FileIds": ["../1"]}) is None
    assert told("DescribeMediaInfos", {"FileIds": ["1"], "What": 1}) == "UnknownParameter"
    assert told("DescribeMediaInfos", {"FileIds": ["1"], "SubAppId": 0}) is None
    assert told("DescribeMediaInfos", {"FileIds": ["1"], "SubAppId": -1}) == "InvalidParameterValue.SubAppId"
    assert told("DescribeMediaInfos", {"FileIds": ["1"], "SubAppId": 1.5}) == "InvalidParameterValue.SubAppId"
    assert told("ApplyUpload", {}) == "MissingParameter"
    for type in ["", "m p4", "../x", "x" * 17, 4]:
        wanted = "MissingParameter" if type == "" else "InvalidParameterValue.MediaType"
        assert told("ApplyUpload", {"MediaType": type}) == wanted, type
    good = {"MediaType": "mp4"}
    assert told("ApplyUpload", good | {"CoverType": "a/b"}) == "InvalidParameterValue.CoverType"
    for name in ["a/b", "a\\b", "a:b", 'a"b', "a\nb", "a|b"]:
        assert told("ApplyUpload", good | {"MediaName": name}) == "InvalidParameterValue.MediaName"
    assert told("ApplyUpload", good | {"ClassId": "x"}) == "InvalidParameterValue.ClassId"
    assert told("ApplyUpload", good | {"StorageRegion": "Gz"}) == "InvalidParameterValue.StorageRegion"
    assert told("ApplyUpload", good | {"ExpireTime": "tomorrow"}) == "InvalidParameterValue.ExpireTime"
    assert told("ApplyUpload", good | {"ExpireTime": "2030-01-01T00:00:00Z"}) == "UnsupportedOperation"
    assert told("ApplyUpload", good | {"ExpireTime": "9999-12-31T23:59:59Z"}) is None
    assert told("ApplyUpload", good | {"SourceContext": "x" * 251}) == "InvalidParameterValue.SourceContext"
    assert told("ApplyUpload", good | {"SessionContext": "x" * 1001}) == "InvalidParameterValue.SessionContext"
    assert told("ApplyUpload", good | {"MediaStoragePath": "/a/b"}) == "UnknownParameter"
    assert told("CommitUpload", {}) == "MissingParameter"
    assert told("CommitUpload", {"VodSessionKey": "x"}) == "InvalidParameterValue.VodSessionKey"
    assert told("SearchMedia", {"Limit": 0}) == "InvalidParameterValue.Limit"
    assert told("SearchMedia", {"Offset": 4999, "Limit": 2}) == "InvalidParameterValue.Limit"
    assert told("SearchMedia", {"Sort": {"Field": "Name"}}) == "InvalidParameterValue.Sort"
    assert told("SearchMedia", {"CreateTime": {"After": "x"}}) == "InvalidParameterValue.CreateTime"
    assert told("SearchMedia", {"SourceTypes": ["Record"]}) == "InvalidParameterValue.SourceTypes"
    assert told("DeleteMedia", {"FileId": "1", "DeleteParts": []}) == "UnsupportedOperation"
    assert told("ModifyMediaInfo", {"FileId": "1", "Name": "x" * 65}) == "InvalidParameterValue.Name"
    assert told("ModifyMediaInfo", {"FileId": "1", "CoverData": "eA=="}) == "UnknownParameter"
    answer = call(gateway, pair, "LiveRealTimeClip", {})["Error"]
    assert answer["Code"] == "InvalidAction" and "LiveRealTimeClip" in answer["Message"]


def test_nothing_else_at_the_root_changes(gateway):
    assert requests.get(gateway.url + "/").status_code == 404
    assert requests.post(gateway.url + "/", data=b"x", headers={"Content-Type": "text/plain"}).status_code == 404


def test_calls_are_counted_by_action_and_code(gateway, pair):
    refused(gateway, pair, "DeleteMedia", {"FileId": "1"})
    refused(gateway, pair, "Nonsense" * 9, {})
    text = API(gateway.url, gateway.admin_key).get("/metrics").text
    assert 'sluice_tencent_calls_total{call="DeleteMedia",code="ResourceNotFound"}' in text
    assert 'sluice_tencent_calls_total{call="other",code="InvalidAction"}' in text
    assert "Nonsense" not in text


def test_a_gateway_without_object_endpoint_says_so(tmp_path):
    with Server(tmp_path / "data") as server:
        assert refused(server, own_pair(server), "ApplyUpload", {"MediaType": "mp4"}) == "ResourceUnavailable"


def test_direct_mode_does_not_serve_the_api(tmp_path):
    settings = {
        "SLUICE_TENCENT_MODE": "direct",
        "SLUICE_TENCENT_SECRET_ID": "AKIDx",
        "SLUICE_TENCENT_SECRET_KEY": "secret",
    }
    with Server(tmp_path / "data", environment=settings) as server:
        data = b"{}"
        fields = tc3(("AKIDx", "secret"), address(server), data, "SearchMedia")
        assert requests.post(server.url + "/", data=data, headers=fields).status_code == 404


# Events


def test_events_are_pulled_until_they_are_confirmed(gateway, sdk):
    user, application = "pia", 1500000009
    first = sent(gateway, user=user, vodSubAppId=application, sourceContext='{"order": 7}', videoName="seen")
    second = sent(gateway, user=user, vodSubAppId=application)
    events = sdk("PullEvents", SubAppId=application)["EventSet"]
    assert [event["FileUploadEvent"]["FileId"] for event in events] == [first, second]
    assert {event["EventType"] for event in events} == {"NewFileUpload"}
    event = events[0]["FileUploadEvent"]
    basic = event["MediaBasicInfo"]
    assert basic["Name"] == "seen"
    assert basic["SourceInfo"]["SourceType"] == "ClientUpload"
    assert json.loads(basic["SourceInfo"]["SourceContext"]) == {"order": 7}
    assert event["MetaData"]["Size"] == 3
    # The others are claimed for half a minute, and other applications have their own.
    assert code(sdk, "ConfirmEvents", SubAppId=SUB, EventHandles=[events[0]["EventHandle"]]) == (
        "InvalidParameterValue.EventHandles"
    )
    sdk("ConfirmEvents", SubAppId=application, EventHandles=[event["EventHandle"] for event in events])
    # A repeated confirmation, whose first answer may have been lost.
    sdk("ConfirmEvents", SubAppId=application, EventHandles=[event["EventHandle"] for event in events])
    assert sdk("PullEvents", SubAppId=application)["EventSet"] == []
    assert code(sdk, "ConfirmEvents", SubAppId=application, EventHandles=["x"]) == "InvalidParameterValue.EventHandles"
    assert code(sdk, "ConfirmEvents", SubAppId=application) == "MissingParameter"


@pytest.mark.parametrize("way", ["session", "url", "parts"])
def test_record_and_event_follow_what_replaces_the_content(gateway, sdk, way):
    application = 1500000020 + ["session", "url", "parts"].index(way)
    file = sent(gateway, b"good", user="bob", vodSubAppId=application)
    path = f"vod/{application}/{file}/f0.mp4"

    def told():
        events = sdk("PullEvents", SubAppId=application)["EventSet"]
        if events:
            sdk("ConfirmEvents", SubAppId=application, EventHandles=[event["EventHandle"] for event in events])
        return [(event["FileUploadEvent"]["FileId"], event["FileUploadEvent"]["MetaData"]["Size"]) for event in events]

    assert told() == [(file, 4)]
    data = b"other content"
    if way == "url":
        api = API(gateway.url, gateway.admin_key)
        put = api.post("/v1/presigned-urls", {"bucket": BUCKET, "key": path, "subject": "eve"}).json()
        assert requests.put(put["url"], data=data, headers=put.get("headers"), timeout=30).status_code == 200
    else:
        access, secret, token = minted(gateway, "aws", subject="eve", bucket=BUCKET, keyPrefix="vod/")
        store = client(gateway.object_url, pair=(access, secret), token=token)
        if way == "session":
            store.put_object(Bucket=BUCKET, Key=path, Body=data)
        else:
            names = {"Bucket": BUCKET, "Key": path}
            names["UploadId"] = store.create_multipart_upload(**names)["UploadId"]
            tag = store.upload_part(**names, PartNumber=1, Body=data)["ETag"]
            store.complete_multipart_upload(**names, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert told() == [(file, len(data))]
    (found,) = sdk("DescribeMediaInfos", SubAppId=application, FileIds=[file])["MediaInfoSet"]
    assert found["MetaData"]["Size"] == len(data)
    assert found["MetaData"].get("Md5") == (None if way == "parts" else hashlib.md5(data).hexdigest())


def test_a_call_waits_for_an_event(gateway, sdk):
    application = 1500000010
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sdk, "PullEvents", SubAppId=application)
        identifier = sent(gateway, vodSubAppId=application)
        assert waiting.result()["EventSet"][0]["FileUploadEvent"]["FileId"] == identifier


def test_events_are_posted_until_the_app_has_them(tmp_path):
    status = [503]
    with Receiver(SECRET, reply=lambda _: status[0]) as receiver:
        settings = {
            "SLUICE_TENCENT_EVENTS": "push",
            "SLUICE_TENCENT_CALLBACK_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
        }
        with ObjectServer(tmp_path / "data", free_port(), settings) as server:
            identifier = sent(server, sourceContext="order-8", videoName="posted")
            until(lambda: len(receiver.calls) >= 2, timeout=30)
            server.kill()
            status[0] = 200
            number = len(receiver.calls)
            server.start()
            # The claim of the killed process may have to end.
            until(lambda: len(receiver.calls) > number, timeout=120)
            metrics = API(server.url, server.admin_key)
            until(lambda: 'events_total{outcome="delivered"} 1' in metrics.get("/metrics").text)
            payload = receiver.calls[-1].payload
            assert payload["EventType"] == "NewFileUpload" and "EventHandle" not in payload
            event = payload["FileUploadEvent"]
            assert event["FileId"] == identifier
            assert event["MediaBasicInfo"]["SourceInfo"]["SourceContext"] == "order-8"
            assert event["MediaBasicInfo"]["MediaUrl"].endswith(f"/{identifier}/f0.mp4")
            assert {one.id for one in receiver.calls} == {f"msg_{identifier}NewFileUpload"}
            assert refused(server, own_pair(server), "PullEvents", {}) == "UnsupportedOperation"


@pytest.mark.usefixtures("on_file")
def test_a_posted_event_is_forgotten(tmp_path):
    with Receiver(SECRET) as receiver:
        settings = {
            "SLUICE_TENCENT_EVENTS": "push",
            "SLUICE_TENCENT_CALLBACK_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
        }
        with ObjectServer(tmp_path / "data", free_port(), settings) as server:
            sent(server)
            until(lambda: receiver.calls)

            def events():
                with contextlib.closing(sqlite3.connect(f"file:{server.data}/state.sqlite?mode=ro", uri=True)) as state:
                    query = "SELECT count(*) FROM dialect_record WHERE kind = 'tencent event'"
                    return state.execute(query).fetchone()[0]

            until(lambda: events() == 0)


def test_without_events_there_are_none(tmp_path):
    with ObjectServer(tmp_path / "data", free_port()) as server:
        sent(server)
        assert refused(server, own_pair(server), "PullEvents", {}) == "UnsupportedOperation"
        assert refused(server, own_pair(server), "ConfirmEvents", {"EventHandles": ["1"]}) == "UnsupportedOperation"


# Pulled uploads


@pytest.fixture(scope="module")
def puller(tmp_path_factory):
    settings = {
        "SLUICE_UPLOADS_SWEEP_EVERY": "1s",
        "SLUICE_TENCENT_EVENTS": "pull",
        "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        "SLUICE_PULL_ATTEMPTS": "2",
        "SLUICE_PULL_RETRY_DELAY": "10ms",
    }
    with ObjectServer(tmp_path_factory.mktemp("pull") / "data", free_port(), settings) as server:
        yield server


def finished(server, pair, task, **parameters):
    """The task when it is finished."""

    def detail():
        answer = call(server, pair, "DescribeTaskDetail", {"TaskId": task} | parameters)
        assert answer["TaskType"] == "PullUpload" and answer["PullUploadTask"]["Status"] == answer["Status"]
        return answer["PullUploadTask"] if answer["Status"] == "FINISH" else None

    return until(detail, timeout=60, interval=0.1)


def test_media_is_pulled(puller):
    video = content(3 * MIB, 5)
    sdk, pair = SDK(puller), own_pair(puller)
    with Origin() as origin:
        origin.add("/films/holi%20day.mp4", video)
        answer = sdk(
            "PullUpload",
            MediaUrl=origin.url + "/films/holi%20day.mp4?token=secret",
            SubAppId=SUB,
            ClassId=5,
            SourceContext="order-9",
            SessionContext="context",
            SessionId="mine",
        )
        task = finished(puller, pair, answer["TaskId"], SubAppId=SUB)
    assert (task["ErrCode"], task["SessionContext"], task["SessionId"]) == (0, "context", "mine")
    assert "secret" not in json.dumps(task)
    basic = task["MediaBasicInfo"]
    assert (basic["Name"], basic["Type"], basic["ClassId"]) == ("holi day", "mp4", 5)
    assert basic["SourceInfo"] == {"SourceType": "PullUpload", "SourceContext": "order-9"}
    assert task["MetaData"]["Size"] == len(video)
    assert stored(puller, basic["MediaUrl"]) == video
    found = sdk("DescribeMediaInfos", SubAppId=SUB, FileIds=[task["FileId"]])["MediaInfoSet"][0]
    assert found["BasicInfo"]["Name"] == "holi day"
    events = sdk("PullEvents", SubAppId=SUB)["EventSet"]
    assert [(one["EventType"], one["PullCompleteEvent"]["FileId"]) for one in events] == [
        ("PullComplete", task["FileId"])
    ]
    assert events[0]["PullCompleteEvent"]["TaskId"] == answer["TaskId"]
    # Other applications do not see the task.
    assert refused(puller, pair, "DescribeTaskDetail", {"TaskId": answer["TaskId"]}) == "ResourceNotFound"
    wrong = {"TaskId": answer["TaskId"], "SubAppId": OTHER}
    assert refused(puller, pair, "DescribeTaskDetail", wrong) == "ResourceNotFound"
    sdk("DeleteMedia", SubAppId=SUB, FileId=task["FileId"])
    assert puller.client().list_objects_v2(Bucket=BUCKET, Prefix=f"vod/{SUB}/{task['FileId']}")["KeyCount"] == 0


def test_the_name_in_a_url_is_a_name_as_far_as_a_client_could_send_it(puller):
    sdk, pair = SDK(puller), own_pair(puller)
    with Origin() as origin:
        # One character for people, of any length.
        path = "/a" + "%E2%83%9D" * 500 + ".mp4"
        origin.add(path, b"film")
        answer = sdk("PullUpload", MediaUrl=origin.url + path)
        task = finished(puller, pair, answer["TaskId"])
        assert task["MediaBasicInfo"]["Name"] == "a" + "\u20dd" * 127
        sdk("DeleteMedia", FileId=task["FileId"])
        # More combining marks than text of requests may have: as one that is not UTF-8.
        for name in ("a" + "%CC%81" * 65, "a%FF"):
            body = {"MediaUrl": f"{origin.url}/{name}.mp4"}
            assert refused(puller, pair, "PullUpload", body) == "InvalidParameterValue.MediaType"


def test_a_pull_that_fails_says_why(puller):
    sdk, pair = SDK(puller), own_pair(puller)
    with Origin() as origin:
        answer = sdk("PullUpload", MediaUrl=origin.url + "/nothing.mp4", SubAppId=OTHER)
        task = finished(puller, pair, answer["TaskId"], SubAppId=OTHER)
    assert task["ErrCode"] == 60000 and "404" in task["Message"], task
    assert task["FileId"] == "" and "MediaBasicInfo" not in task
    event = sdk("PullEvents", SubAppId=OTHER)["EventSet"][0]
    assert event["EventType"] == "PullComplete" and event["PullCompleteEvent"]["ErrCode"] == 60000
    assert sdk("SearchMedia", SubAppId=OTHER)["TotalCount"] == 0


def test_a_pull_goes_on_after_the_gateway_was_killed(puller):
    video = content(6 * MIB, 6)
    pair = own_pair(puller)
    with Origin() as origin:
        resource = origin.add("/film.mp4", video)
        resource.delay = 0.05
        answer = call(puller, pair, "PullUpload", {"MediaUrl": origin.url + "/film.mp4", "MediaName": "film"})
        until(lambda: resource.sent > MIB)
        puller.kill()
        resource.delay = 0
        puller.start()
        task = finished(puller, pair, answer["TaskId"])
    assert task["ErrCode"] == 0
    path = task["MediaBasicInfo"]["StoragePath"].removeprefix("/")
    assert puller.client().get_object(Bucket=BUCKET, Key=path)["Body"].read() == video


def test_pulls_that_are_refused(puller, gateway, tmp_path):
    pair = own_pair(puller)

    def told(**body):
        return refused(puller, pair, "PullUpload", body)

    assert told() == "MissingParameter"
    # A host, too, is text with few combining marks in a row.
    marks = f"http://a{'%CC%81' * 65}.example/x.mp4"
    for url in ["ftp://127.0.0.1/x.mp4", "x", "http://", "http://10.0.0.1/x.mp4", marks]:
        assert told(MediaUrl=url) == "InvalidParameterValue.MediaUrl", url
    assert told(MediaUrl="http://127.0.0.1:1/x") == "InvalidParameterValue.MediaType"
    assert told(MediaUrl="http://127.0.0.1:1/x.mp4", MediaName="a/b") == "InvalidParameterValue.MediaName"
    assert told(MediaUrl="http://127.0.0.1:1/x.mp4", CoverUrl="http://127.0.0.1:1/x.jpg") == "UnknownParameter"
    assert told(MediaUrl="http://127.0.0.1:1/x.mp4", SessionId="x" * 51) == "InvalidParameterValue.SessionId"
    assert refused(gateway, own_pair(gateway), "PullUpload", {"MediaUrl": "http://127.0.0.1:1/x.mp4"}) == (
        "InvalidParameterValue.MediaUrl"
    )
    _, reader = key(puller, "--scope", "read")
    assert refused(puller, reader, "PullUpload", {"MediaUrl": "http://127.0.0.1:1/x.mp4"}) == (
        "AuthFailure.SecretIdNotFound"
    )
    assert refused(puller, pair, "DescribeTaskDetail", {"TaskId": "x"}) == "ResourceNotFound"
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_PULL_ENABLED": "false"}) as server:
        body = {"MediaUrl": "http://example.com/x.mp4"}
        assert refused(server, own_pair(server), "PullUpload", body) == "ResourceUnavailable"
