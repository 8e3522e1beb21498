"""Bytes of Alibaba Cloud VOD uploads: the vendor's upload SDK for servers and its two SDKs of OSS, unmodified, with the
credentials of an upload."""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import alibabacloud_oss_v2 as oss_v2
import oss2
import pytest
import requests

from harness import clock, hosts
from harness.aliyun_vod import (
    BUCKET,
    Plain,
    create,
    grant,
    media_id,
    newer_oss,
    oss,
    oss_refusal,
    refresh,
    refusal,
    stored,
    voduploadsdk,
)
from harness.api import API
from harness.callback_app import ANSWER, CallbackApp, named
from harness.daemon import free_port
from harness.data import GIB, KIB, MIB, content, digest_and_size, hash_file, write_file
from harness.object_client import DOMAIN, ObjectServer
from harness.server import run
from harness.wire import until

PART = 100 * KIB
# Some minutes and gigabytes: by hand.
long = pytest.mark.skipif("SLUICE_ALIYUN_LONG" not in os.environ, reason="runs with SLUICE_ALIYUN_LONG=1")
VIDEO = content(5 * PART + 77, 1)
LIFETIME = 3
EXPIRED = (403, "SecurityTokenExpired")
TOO_LARGE = (400, "EntityTooLarge")
NO_UPLOAD = (404, "NoSuchUpload")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with ObjectServer(tmp_path_factory.mktemp("vod") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A gateway whose credentials of uploads last three seconds."""
    settings = {"SLUICE_UPLOADS_SWEEP_EVERY": "1s", "SLUICE_ALIYUN_VOD_AUTH_LIFETIME": f"{LIFETIME}s"}
    with ObjectServer(tmp_path_factory.mktemp("hasty") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def vod(gateway):
    return Plain(gateway)


def status(server, answer):
    """Status and size of a media."""
    video = Plain(server)("GetVideoInfo", VideoId=media_id(answer))["Video"]
    return video["Status"], video.get("Size")


def wait_until_expired(*grants):
    """For what ends last."""
    end = max(datetime.fromisoformat(one.auth["ExpireUTCTime"]) for one in grants)
    # It is written in whole seconds.
    time.sleep(max(0, (end - datetime.now(UTC) + timedelta(seconds=1.1)).total_seconds()))


# SDKs of OSS, behind the same few calls


class Older:
    """oss2."""

    version = "v1"

    def __init__(self, granted, endpoint=None, **options):
        self.key = granted.key
        self.oss = oss(granted, self.version, endpoint, **options)

    def put(self, data, key=None, **headers):
        return self.oss.put_object(key or self.key, data, headers=headers)

    def create(self, key=None, **headers):
        return self.oss.init_multipart_upload(key or self.key, headers=headers).upload_id

    def part(self, upload, number, data, key=None):
        return self.oss.upload_part(key or self.key, upload, number, data).etag

    def parts(self, upload, **options):
        return [one.part_number for one in self.oss.list_parts(self.key, upload, **options).parts]

    def complete(self, upload, tags, **headers):
        parts = [oss2.models.PartInfo(number, tag) for number, tag in sorted(tags.items())]
        return self.oss.complete_multipart_upload(self.key, upload, parts, headers=headers)

    def abort(self, upload):
        self.oss.abort_multipart_upload(self.key, upload)

    def upload(self, path, folder, part=PART):
        """What is left of it, after one that broke off."""
        store = oss2.ResumableStore(root=str(folder))
        options = {"multipart_threshold": part, "part_size": part, "num_threads": 1}
        return oss2.resumable_upload(self.oss, self.key, str(path), store=store, **options)


class Older4(Older):
    version = "v4"


class Newer:
    """alibabacloud-oss-v2."""

    def __init__(self, granted, endpoint=None, **options):
        self.about = {"bucket": granted.bucket, "key": granted.key}
        self.oss = newer_oss(granted, endpoint, **options)

    def put(self, data, key=None):
        return self.oss.put_object(oss_v2.PutObjectRequest(**(self.about | ({"key": key} if key else {})), body=data))

    def create(self, key=None):
        about = self.about | ({"key": key} if key else {})
        return self.oss.initiate_multipart_upload(oss_v2.InitiateMultipartUploadRequest(**about)).upload_id

    def part(self, upload, number, data, key=None):
        about = self.about | ({"key": key} if key else {}) | {"upload_id": upload, "part_number": number}
        return self.oss.upload_part(oss_v2.UploadPartRequest(**about, body=data)).etag

    def parts(self, upload):
        answer = self.oss.list_parts(oss_v2.ListPartsRequest(**self.about, upload_id=upload))
        return [one.part_number for one in answer.parts or []]

    def complete(self, upload, tags):
        parts = [oss_v2.UploadPart(part_number=number, etag=tag) for number, tag in sorted(tags.items())]
        whole = oss_v2.CompleteMultipartUpload(parts)
        request = oss_v2.CompleteMultipartUploadRequest(**self.about, upload_id=upload, complete_multipart_upload=whole)
        return self.oss.complete_multipart_upload(request)

    def abort(self, upload):
        self.oss.abort_multipart_upload(oss_v2.AbortMultipartUploadRequest(**self.about, upload_id=upload))

    def upload(self, path, folder, part=PART):
        uploader = self.oss.uploader(part_size=part, parallel_num=1, enable_checkpoint=True, checkpoint_dir=str(folder))
        return uploader.upload_file(oss_v2.PutObjectRequest(**self.about), str(path))


SDKS = {"oss2-v1": Older, "oss2-v4": Older4, "oss-v2": Newer}


@pytest.fixture(params=SDKS)
def sdk(request):
    return SDKS[request.param]


def send(client, upload, data, numbers=None):
    """Parts of some numbers, or all; their tags."""
    tags = {}
    for start in range(0, len(data), PART):
        number = start // PART + 1
        if numbers is None or number in numbers:
            tags[number] = client.part(upload, number, data[start : start + PART])
    return tags


# The upload SDK for servers


@pytest.mark.parametrize("size", [1, MIB + 1])
def test_the_upload_sdk_for_servers(gateway, vod, tmp_path, size):
    path = tmp_path / "ein film 日本.mp4"
    digest = write_file(path, size, size)
    fields = {"title": "Film", "tags": "a,b", "description": "d", "cateId": 7, "userData": '{"Extend":{"n":1}}'}
    done = voduploadsdk(gateway, "video", path, **fields)
    video = vod("GetVideoInfo", VideoId=done["MediaId"])["Video"]
    assert (video["Status"], video["Size"], video["Title"], video["Tags"]) == ("Normal", size, "Film", "a,b")
    assert video["CateId"] == 7
    assert digest_and_size(
        stored(gateway, grant(done | {"UploadAddress": done["OriUploadAddress"], "UploadAuth": done["OriUploadAuth"]}))
    ) == (digest, size)


def test_the_upload_sdk_for_servers_sends_parts(gateway, vod, tmp_path):
    path = tmp_path / "film.mp4"
    write_file(path, 10 * MIB + 1, 3)
    done = voduploadsdk(gateway, "video", path)
    # It reports each part, to a host that cannot be set.
    (detail,) = vod("GetUploadDetails", MediaIds=done["MediaId"])["UploadDetails"]
    assert detail["UploadSource"] == "PythonSDK" and detail["UploadRatio"] == 1
    assert vod("GetVideoInfo", VideoId=done["MediaId"])["Video"]["Size"] == 10 * MIB + 1
    link = vod("GetMezzanineInfo", VideoId=done["MediaId"])["Mezzanine"]["FileURL"]
    (tmp_path / "copy").write_bytes(requests.get(link).content)
    assert hash_file(tmp_path / "copy") == hash_file(path)


def test_the_upload_sdk_for_servers_sends_images_and_attached_media(gateway, vod, tmp_path):
    path = tmp_path / "bild.png"
    path.write_bytes(VIDEO)
    done = voduploadsdk(gateway, "image", path, title="Bild", imageType="cover")
    image = vod("GetImageInfo", ImageId=done["ImageId"])["ImageInfo"]
    assert (image["Title"], image["Status"], image["ImageType"]) == ("Bild", "Normal", "cover")
    assert requests.get(image["URL"]).content == VIDEO
    done = voduploadsdk(gateway, "attached", path, businessType="watermark", title="Marke")
    found = vod("SearchMedia", SearchType="attached", Match=f"MediaId = '{done['MediaId']}'", Fields="Title,Status")
    assert [one["AttachedMedia"]["Title"] for one in found["MediaList"]] == ["Marke"]


def test_the_upload_sdk_for_servers_gets_new_credentials(hasty, tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(VIDEO)
    done = voduploadsdk(hasty, "video", path, wait=LIFETIME + 1)
    # It says so of failures, too.
    assert status(hasty, done) == ("Normal", len(VIDEO))


# SDKs of OSS


@pytest.mark.parametrize("size", [1, 5 * MIB])
def test_one_request(gateway, sdk, size):
    data = content(size, 5)
    for type in ("video", "image", "attachedMedia"):
        answer = create(gateway, type)
        result = sdk(grant(answer)).put(data)
        assert result.etag.strip('"') == hashlib.md5(data).hexdigest().upper()
        assert stored(gateway, grant(answer)) == data
        if type == "video":
            assert status(gateway, answer) == ("Normal", size)


def test_parts_in_any_order(gateway, sdk):
    answer = create(gateway, fileSize=len(VIDEO))
    client = sdk(grant(answer))
    upload = client.create()
    tags = send(client, upload, VIDEO, {6, 2}) | send(client, upload, VIDEO, {1, 3, 4, 5})
    # The same once more.
    tags |= send(client, upload, VIDEO, {3})
    assert client.parts(upload) == [1, 2, 3, 4, 5, 6]
    assert status(gateway, answer)[0] == "Uploading"
    first = client.complete(upload, tags)
    assert stored(gateway, grant(answer)) == VIDEO and status(gateway, answer) == ("Normal", len(VIDEO))
    # Its answer may have been lost.
    assert client.complete(upload, tags).etag == first.etag
    assert oss_refusal(client.part, upload, 1, b"1") == NO_UPLOAD


@long
def test_a_gibibyte(gateway, sdk, tmp_path):
    block, number = content(MIB, 3), GIB // MIB
    wanted = hashlib.sha256()
    with open(tmp_path / "film.mp4", "wb") as file:
        for _ in range(number):
            file.write(block)
            wanted.update(block)
    answer = create(gateway, fileSize=GIB)
    sdk(grant(answer)).upload(tmp_path / "film.mp4", tmp_path, 8 * MIB)
    assert status(gateway, answer) == ("Normal", GIB)
    found = hashlib.sha256()
    body = gateway.client().get_object(Bucket=BUCKET, Key=grant(answer).key)["Body"]
    for chunk in body.iter_chunks(MIB):
        found.update(chunk)
    assert found.digest() == wanted.digest()
    Plain(gateway)("DeleteVideo", VideoIds=answer["VideoId"])


def test_fields_of_the_sdk_for_browsers(gateway):
    """They are signed, and mean nothing here."""
    notification = base64.b64encode(b'{"Vod":{"UserData":"{}"}}').decode()
    for version in (Older, Older4):
        answer = create(gateway)
        client = version(grant(answer))
        upload = client.create(**{"x-oss-notification": notification, "Content-Type": "video/mp4"})
        client.complete(upload, send(client, upload, VIDEO), **{"x-oss-notification": notification})
        assert stored(gateway, grant(answer)) == VIDEO


def test_the_bucket_is_found_in_host_path_or_nowhere(gateway, monkeypatch):
    port = int(gateway.object_url.rsplit(":", 1)[1])
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({DOMAIN: port, "media.localtest": port}))
    for version in ("v1", "v4"):
        for endpoint, options in [
            (gateway.object_url, {}),
            (f"http://{DOMAIN}:{port}", {}),
            ("http://media.localtest", {"is_cname": True}),
            (gateway.object_url, {"is_cname": True}),
        ]:
            answer = create(gateway)
            granted = grant(answer)
            bucket = oss(granted, version, endpoint, **options)
            upload = bucket.init_multipart_upload(granted.key).upload_id
            tag = bucket.upload_part(granted.key, upload, 1, VIDEO).etag
            bucket.complete_multipart_upload(granted.key, upload, [oss2.models.PartInfo(1, tag)])
            assert stored(gateway, granted) == VIDEO, (version, endpoint, options)
            # The right to write has ended; a refresh gives it anew.
            with pytest.raises(oss2.exceptions.ServerError) as refused:
                bucket.put_object(granted.key, b"1")
            assert (refused.value.status, refused.value.code) == (409, "FileAlreadyExists")
            assert stored(gateway, granted) == VIDEO
            bucket = oss(grant(refresh(gateway, media_id(answer))), version, endpoint, **options)
            for _ in range(2):
                bucket.put_object(granted.key, b"1")
            assert status(gateway, answer) == ("Normal", 1)


def test_the_right_to_write_is_none_to_tags(gateway):
    """By tags, the lifecycle of a bucket may delete what is in it."""
    granted = grant(create(gateway))
    bucket = oss(granted, "v4")
    tags = oss2.models.Tagging()
    tags.tag_set.add("tmp", "yes")
    for _ in range(2):
        for call in (
            lambda: bucket.put_object_tagging(granted.key, tags),
            lambda: bucket.get_object_tagging(granted.key),
            lambda: bucket.delete_object_tagging(granted.key),
        ):
            with pytest.raises(oss2.exceptions.AccessDenied):
                call()
        bucket.put_object(granted.key, VIDEO)
    granted = grant(create(gateway))
    bucket = oss(granted, "v4")
    field = {"x-oss-tagging": "tmp=yes"}
    for write in (
        lambda: bucket.put_object(granted.key, VIDEO, headers=field),
        lambda: bucket.append_object(granted.key, 0, b"1", headers=field),
        lambda: bucket.init_multipart_upload(granted.key, headers=field),
    ):
        with pytest.raises(oss2.exceptions.AccessDenied):
            write()
    bucket.put_object(granted.key, VIDEO)


def test_signed_urls_and_forms(gateway):
    for version in ("v1", "v4"):
        granted = grant(create(gateway))
        url = oss(granted, version).sign_url("PUT", granted.key, 600, slash_safe=True)
        for data, expected in ((version.encode(), 200), (b"evil", 409), (version.encode(), 200)):
            assert requests.put(url, data=data, timeout=30).status_code == expected
        assert stored(gateway, granted) == version.encode()
    answer = create(gateway)
    granted = grant(answer)
    key_id, secret, token = granted.credentials
    expiration = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    text = json.dumps({"expiration": expiration, "conditions": [{"bucket": granted.bucket}]})
    policy = base64.b64encode(text.encode()).decode()

    def post(key, data=VIDEO):
        fields = {
            "key": key,
            "OSSAccessKeyId": key_id,
            "policy": policy,
            "Signature": base64.b64encode(hmac.digest(secret.encode(), policy.encode(), "sha1")).decode(),
            "x-oss-security-token": token,
        }
        files = {"file": ("v.mp4", data, "video/mp4")}
        return requests.post(f"{gateway.object_url}/{granted.bucket}", data=fields, files=files, timeout=30)

    # As mini programs send.
    for _ in range(2):
        done = post(granted.key)
        assert done.status_code in (200, 204), done.text
    refused = post(granted.key, b"evil")
    assert refused.status_code == 409 and "<Code>FileAlreadyExists</Code>" in refused.text
    assert status(gateway, answer) == ("Normal", len(VIDEO))
    assert post(granted.key + ".mp4").status_code == 403


def test_appended_bytes_complete_nothing(gateway):
    answer = create(gateway)
    bucket = oss(grant(answer))
    with contextlib.suppress(oss2.exceptions.OssError):
        bucket.append_object(grant(answer).key, 0, b"1")
    assert status(gateway, answer)[0] == "Uploading"
    fresh = grant(refresh(gateway, answer["VideoId"]))
    oss(fresh).put_object(fresh.key, VIDEO)
    assert status(gateway, answer) == ("Normal", len(VIDEO))


def test_callbacks_of_oss_go_on_working(tmp_path):
    with CallbackApp() as app:
        settings = {"SLUICE_OBJECT_CALLBACK_HOSTS": app.host}
        with ObjectServer(tmp_path / "data", free_port(), settings) as server:
            app.secret = run("credentials", "callbacks", environment=server.environment).stdout.strip()
            answer = create(server)
            result = Older(grant(answer)).put(VIDEO, **named(app.url + "/done"))
            assert json.loads(result.resp.read()) == ANSWER
            (call,) = app.to("/done")
            assert call.form["object"] == grant(answer).key and call.form["size"] == str(len(VIDEO))
            assert status(server, answer) == ("Normal", len(VIDEO))


# Resuming


class Broken(Exception):
    """The app was killed."""


class Stopping(oss_v2.credentials.CredentialsProvider):
    """Ends an upload before the request that follows so many."""

    def __init__(self, granted, count):
        self.credentials = oss_v2.credentials.StaticCredentialsProvider(*granted.credentials).get_credentials()
        self.left = count

    def get_credentials(self):
        self.left -= 1
        if self.left < 0:
            raise Broken
        return self.credentials


def interrupted(sdk, granted, path, folder, count):
    """An upload that ends before the request after `count`."""
    left = [count]

    def change(_):
        left[0] -= 1
        if left[0] < 0:
            raise Broken

    options = {"provider": Stopping(granted, count)} if sdk is Newer else {"change": change}
    with pytest.raises((Broken, oss_v2.exceptions.BaseError)):
        sdk(granted, **options).upload(path, folder)


def requests_of(server, granted):
    """The uploads of this object that are open."""
    found = server.client().list_multipart_uploads(Bucket=granted.bucket, Prefix=granted.key)
    return [one["UploadId"] for one in found.get("Uploads", [])]


def recorded(client):
    """The numbers of the parts that this client sends from now on."""
    sent, put_part = [], client.oss.upload_part

    def record(*arguments, **options):
        sent.append(arguments[0].part_number if isinstance(client, Newer) else arguments[2])
        return put_part(*arguments, **options)

    client.oss.upload_part = record
    return sent


def test_a_checkpoint_is_resumed_with_new_credentials(gateway, sdk, tmp_path):
    path = tmp_path / "film.mp4"
    path.write_bytes(VIDEO)
    answer = create(gateway, fileSize=len(VIDEO))
    # The beginning, and some parts.
    interrupted(sdk, grant(answer), path, tmp_path, 4)
    (upload,) = requests_of(gateway, grant(answer))
    there = Older(grant(answer)).parts(upload)
    assert there in ([1, 2], [1, 2, 3])
    gateway.kill()
    gateway.start()
    fresh = refresh(gateway, answer["VideoId"])
    assert fresh["VideoId"] == answer["VideoId"] and grant(fresh).address == grant(answer).address
    client = sdk(grant(fresh))
    sent = recorded(client)
    client.upload(path, tmp_path)
    assert sorted(there + sent) == [1, 2, 3, 4, 5, 6]
    assert stored(gateway, grant(answer)) == VIDEO and status(gateway, answer) == ("Normal", len(VIDEO))
    assert requests_of(gateway, grant(answer)) == []


@pytest.mark.usefixtures("on_file")
@pytest.mark.parametrize("hours", [20, 40])
def test_a_checkpoint_of_yesterday(tmp_path, monkeypatch, hours):
    path = tmp_path / "film.mp4"
    path.write_bytes(VIDEO)
    seconds = hours * 3600
    with ObjectServer(tmp_path / "data", free_port()) as server:
        server.stop()
        present = dict(server.environment)
        server.environment |= clock.shifted(-seconds)
        server.start()
        answer = create(server)
        with monkeypatch.context() as patched:
            then = email.utils.formatdate(time.time() - seconds, usegmt=True)
            patched.setattr(oss2.utils, "http_date", lambda *_: then)
            interrupted(Older, grant(answer), path, tmp_path, 4)
        server.stop()
        server.environment = present
        server.start()
        assert oss_refusal(Older(grant(answer)).upload, path, tmp_path) == EXPIRED
        client = Older(grant(refresh(server, answer["VideoId"])))
        sent = recorded(client)
        client.upload(path, tmp_path)
        assert sent == list(range(7 - len(sent), 7)) and len(sent) < 6
        assert stored(server, grant(answer)) == VIDEO and status(server, answer) == ("Normal", len(VIDEO))


def test_credentials_that_expire_five_times(hasty):
    """Each time the SDK's app gets new ones and goes on; nothing is sent twice, and no second media appears."""

    def life(number):
        sdk, app_id = list(SDKS.values())[number], f"app-800000{number}"
        data = content(6 * PART + 5, number)
        answer = create(hasty, appId=app_id)
        granted = grant(answer)
        client = sdk(granted)
        upload, tags, expiries = client.create(), {}, 0
        for part in range(1, 8):
            while part not in tags:
                try:
                    tags |= send(client, upload, data, {part})
                except Exception as error:
                    assert "SecurityTokenExpired" in str(error)
                    expiries += 1
                    fresh = refresh(hasty, answer["VideoId"])
                    assert fresh["VideoId"] == answer["VideoId"] and grant(fresh).address == granted.address
                    client = sdk(grant(fresh))
                    assert client.parts(upload) == list(range(1, part))
                    current = grant(fresh)
                else:
                    current = granted if expiries == 0 else current
            if expiries < 5:
                wait_until_expired(current)
        assert expiries == 5
        client.complete(upload, tags)
        assert stored(hasty, granted) == data and status(hasty, answer) == ("Normal", len(data))
        found = Plain(hasty)("SearchMedia", SearchType="video", Match=f"AppId = '{app_id}'")
        assert [one["MediaId"] for one in found["MediaList"]] == [answer["VideoId"]]

    # They mostly wait.
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(life, range(3)))


def test_expired_credentials(hasty, sdk):
    whole, grace, left, single = (create(hasty) for _ in range(4))
    clients = [sdk(grant(answer)) for answer in (whole, grace, left, single)]
    uploads = [client.create() for client in clients[:3]]
    tags = [send(client, upload, VIDEO) for client, upload in zip(clients, uploads, strict=False)]
    clients[0].complete(uploads[0], tags[0])
    wait_until_expired(*(grant(answer) for answer in (whole, grace, left, single)))
    client, upload = clients[2], uploads[2]
    # Clients take this for the end of their credentials, and any other 403 too.
    assert oss_refusal(client.put, b"1") == oss_refusal(client.create) == EXPIRED
    assert oss_refusal(client.part, upload, 1, b"1") == oss_refusal(client.parts, upload) == EXPIRED
    assert oss_refusal(clients[3].put, b"1") == EXPIRED
    assert oss_refusal(client.put, b"1", grant(whole).key) == EXPIRED
    # An upload that began in time is completed, once more if the answer was lost.
    assert clients[1].complete(uploads[1], tags[1]).etag == clients[1].complete(uploads[1], tags[1]).etag
    assert status(hasty, grace) == ("Normal", len(VIDEO)) and stored(hasty, grant(grace)) == VIDEO
    assert clients[0].complete(uploads[0], tags[0]).etag
    # New credentials go on, also beside those that have ended.
    fresh = sdk(grant(refresh(hasty, media_id(left))))
    fresh.complete(upload, tags[2])
    assert stored(hasty, grant(left)) == VIDEO
    assert oss_refusal(client.put, b"1") == EXPIRED
    fresh = sdk(grant(refresh(hasty, media_id(single))))
    fresh.put(VIDEO)
    assert status(hasty, single) == ("Normal", len(VIDEO))


def test_credentials_beside_each_other(gateway, sdk):
    """Those of before a refresh work until they end."""
    answer = create(gateway)
    clients = [sdk(grant(one)) for one in (answer, refresh(gateway, answer["VideoId"]))]
    upload = clients[0].create()
    tags = send(clients[1], upload, VIDEO, {1, 3, 5}) | send(clients[0], upload, VIDEO, {2, 4, 6})
    clients[1].complete(upload, tags)
    assert stored(gateway, grant(answer)) == VIDEO


# Limits


def test_credentials_work_for_one_object(gateway, sdk):
    mine, other = create(gateway), create(gateway)
    client = sdk(grant(mine))
    denied = (403, "AccessDenied")
    for key in [grant(other).key, grant(mine).key + "2", "x.mp4", "app-1000000/"]:
        assert oss_refusal(client.put, b"1", key) == denied, key
        assert oss_refusal(client.create, key) == denied, key
    upload = sdk(grant(other)).create()
    assert oss_refusal(client.part, upload, 1, b"1", grant(other).key) == denied
    # The other upload's id with the own key.
    assert oss_refusal(client.part, upload, 1, b"1") == NO_UPLOAD
    assert oss_refusal(client.complete, upload, {1: "x"}) == NO_UPLOAD
    bucket = oss(grant(mine))
    bucket.put_object(grant(mine).key, b"1")
    assert oss_refusal(bucket.get_object, grant(other).key) in (denied, (404, "NoSuchKey"))
    assert oss_refusal(bucket.delete_object, grant(mine).key) == denied
    assert oss_refusal(bucket.list_objects_v2) == denied
    foreign = oss2.Bucket(bucket.auth, grant(mine).address["Endpoint"], "uploads")
    assert oss_refusal(foreign.put_object, grant(mine).key, b"1") == denied
    assert stored(gateway, grant(mine)) == b"1" and status(gateway, other)[0] == "Uploading"


def test_no_more_bytes_than_announced(gateway, sdk):
    answer = create(gateway, fileSize=2 * PART)
    client = sdk(grant(answer))
    assert oss_refusal(client.put, b"x" * (2 * PART + 1)) == TOO_LARGE
    upload = client.create()
    assert oss_refusal(client.part, upload, 1, b"x" * (2 * PART + 1)) == TOO_LARGE
    tags = {1: client.part(upload, 1, b"1" * PART), 2: client.part(upload, 2, b"2" * PART)}
    # Each part by itself is small enough.
    try:
        tags[3] = client.part(upload, 3, b"3")
    except Exception as error:
        assert "EntityTooLarge" in str(error)
    else:
        assert oss_refusal(client.complete, upload, tags) == TOO_LARGE
        del tags[3]
        client.abort(upload)
        upload = client.create()
        tags = {1: client.part(upload, 1, b"1" * PART), 2: client.part(upload, 2, b"2" * PART)}
    assert status(gateway, answer)[0] == "Uploading"
    client.complete(upload, tags)
    assert status(gateway, answer) == ("Normal", 2 * PART)
    small = create(gateway, maxBytes=PART)
    client = sdk(grant(small))
    assert oss_refusal(client.put, b"x" * (PART + 1)) == TOO_LARGE
    assert oss_refusal(client.part, client.create(), 1, b"x" * (PART + 1)) == TOO_LARGE
    client.put(b"x" * PART)


def test_parts_that_are_wrong(gateway, sdk):
    answer = create(gateway)
    client = sdk(grant(answer))
    upload = client.create()
    tags = send(client, upload, VIDEO)
    assert oss_refusal(client.complete, upload, tags | {1: "undefined"}) == (400, "InvalidPart")
    gap = {number: tag for number, tag in tags.items() if number != 6} | {7: tags[6]}
    assert oss_refusal(client.complete, upload, gap) == (400, "InvalidPart")
    assert oss_refusal(client.part, upload, 10_001, b"1") == (400, "InvalidArgument")
    small = client.create()
    few = {number: client.part(small, number, b"1") for number in (1, 2)}
    assert oss_refusal(client.complete, small, few) == (400, "EntityTooSmall")
    client.abort(small)
    assert oss_refusal(client.parts, small) == oss_refusal(client.part, small, 1, b"1") == NO_UPLOAD
    client.complete(upload, tags)
    assert stored(gateway, grant(answer)) == VIDEO


def test_pages_of_parts(gateway):
    answer = create(gateway)
    client = Older(grant(answer))
    upload = client.create()
    for number in range(1, 8):
        client.part(upload, number * 3, b"1")
    assert client.parts(upload, max_parts=3) == [3, 6, 9]
    assert client.parts(upload, marker="9", max_parts=3) == [12, 15, 18]
    assert client.parts(upload, marker="18") == [21]
    found = [one.part_number for one in oss2.PartIterator(client.oss, client.key, upload, max_parts=2)]
    assert found == [3, 6, 9, 12, 15, 18, 21]


@long
@pytest.mark.parametrize("number, size", [(4097, MIB), (10_000, 100 * KIB)])
def test_many_parts(gateway, number, size):
    block = content(size, 9)
    answer = create(gateway, fileSize=number * size)
    granted = grant(answer)
    bucket = oss(granted, enable_crc=False)
    upload = bucket.init_multipart_upload(granted.key).upload_id
    tag = f"{hashlib.md5(block).hexdigest().upper()}"
    for part in range(1, number + 1):
        assert bucket.upload_part(granted.key, upload, part, block).etag == tag
        if part == number // 2:
            bucket.auth = oss(grant(refresh(gateway, answer["VideoId"]))).auth
    first = bucket.list_parts(granted.key, upload)
    assert len(first.parts) == 1000 and first.is_truncated and first.next_marker == "1000"
    listed = list(oss2.PartIterator(bucket, granted.key, upload))
    assert [one.part_number for one in listed] == list(range(1, number + 1))
    assert {one.size for one in listed} == {size}
    parts = [oss2.models.PartInfo(part, tag) for part in range(1, number + 1)]
    bucket.complete_multipart_upload(granted.key, upload, parts)
    assert status(gateway, answer) == ("Normal", number * size)
    body = gateway.client().get_object(Bucket=granted.bucket, Key=granted.key)["Body"]
    assert all(body.read(size) == block for _ in range(number)) and body.read() == b""
    Plain(gateway)("DeleteVideo", VideoIds=answer["VideoId"])


# Afterwards


def test_a_video_is_overwritten(gateway, sdk):
    answer = create(gateway)
    sdk(grant(answer)).put(VIDEO)
    again = refresh(gateway, answer["VideoId"])
    assert again["VideoId"] == answer["VideoId"]
    client = sdk(grant(again))
    upload = client.create()
    other = content(2 * PART, 8)
    tags = send(client, upload, other)
    # Until it is complete the old one is there.
    assert stored(gateway, grant(answer)) == VIDEO and status(gateway, answer)[1] == len(VIDEO)
    client.complete(upload, tags)
    assert stored(gateway, grant(again)) == other and status(gateway, answer) == ("Normal", 2 * PART)


def test_a_video_is_deleted_in_the_middle(gateway, vod, sdk):
    answer, single = create(gateway), create(gateway)
    client = sdk(grant(answer))
    upload = client.create()
    tags = send(client, upload, VIDEO)
    assert vod("DeleteVideo", VideoIds=f"{answer['VideoId']},{single['VideoId']}")["NonExistVideoIds"] == []
    assert oss_refusal(client.part, upload, 1, b"1") == NO_UPLOAD
    assert oss_refusal(client.complete, upload, tags) == NO_UPLOAD
    for one in (client, sdk(grant(single))):
        # It must not come back.
        found = oss_refusal(one.put, b"1")
        assert found is not None and 400 <= found[0] < 500
        assert oss_refusal(one.create) is not None
    for one in (answer, single):
        assert refusal(vod, "GetVideoInfo", VideoId=one["VideoId"]) == (404, "InvalidVideo.NotFound")
        found = gateway.client().list_objects_v2(Bucket=BUCKET, Prefix=grant(one).key)
        assert found["KeyCount"] == 0 and requests_of(gateway, grant(one)) == []
    assert (
        API(gateway.url, gateway.admin_key).post(f"/v1/aliyun/uploads/{answer['VideoId']}/refresh").status_code == 404
    )


@pytest.mark.usefixtures("on_file")
def test_uploads_that_nobody_ends_are_removed(tmp_path):
    settings = {"SLUICE_ALIYUN_VOD_UPLOAD_LIFETIME": "1h", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        done, left = create(server), create(server)
        Older(grant(done)).put(VIDEO)
        client = Older(grant(left))
        send(client, client.create(), VIDEO, {1})
        pair = server.pair()
        server.stop()
        server.environment |= clock.shifted(3 * 3600)
        server.start()
        now = datetime.now(UTC) + timedelta(hours=3)

        def info(answer):
            return Plain(server, pair).answer("GetVideoInfo", {"VideoId": answer["VideoId"]}, when=now)

        # Each look at them takes a while. A refresh would keep it.
        until(lambda: info(left).status_code == 404, timeout=90, interval=0.2)
        found = info(done).json()["Video"]
        assert (found["Status"], found["Size"]) == ("Normal", len(VIDEO))
        api = API(server.url, server.admin_key)
        assert api.post(f"/v1/aliyun/uploads/{left['VideoId']}/refresh").status_code == 404
