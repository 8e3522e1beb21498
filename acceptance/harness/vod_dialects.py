"""The video dialects behind the same few steps, for scenarios that must hold with each of them.

with DIALECTS["aliyun"]() as dialect:
    client = dialect.client(gateway)                # another one for each node
    upload = client.begin(len(data), "a name")
    client.send(upload, 0, data[:PIECE])
    media = client.finish(upload)
"""

import copy
import functools
import itertools
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import urlsplit

import botocore.exceptions
import oss2
import requests

from harness import aliyun_vod, ugc, vimeo
from harness.api import TUS
from harness.data import KIB, MIB, content
from harness.object_client import ObjectServer
from harness.receiver import Receiver
from harness.vod_api import call, own_pair
from harness.wire import until

# Bytes of each step of an upload but the last.
PIECE = MIB
COVER = content(2 * KIB, 2)
SECRET = "whsec_" + "c2Vj" * 8
PULLS = {"SLUICE_PULL_ALLOW": "127.0.0.0/8", "SLUICE_PULL_ALLOW_USERS": "true", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
LOST = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    oss2.exceptions.RequestError,
    botocore.exceptions.ConnectionError,
    botocore.exceptions.HTTPClientError,
)


class Refused(Exception):
    """An answer with another status than those that are right."""

    def __init__(self, answer):
        super().__init__(f"{answer.status_code}: {answer.text}")
        self.status = answer.status_code


def is_temporary(error):
    """Whether the gateway asks to try again: as without its database, or until the claims of a dead node end."""
    if isinstance(error, ugc.Refused):
        return error.code == 503 or (error.answer is not None and error.answer.status_code in (409, 503))
    return isinstance(error, (Refused, aliyun_vod.Refused, oss2.exceptions.ServerError)) and error.status in (
        409,
        423,
        503,
    )


def persistently(work, timeout=120):
    """The result of `work`, repeated while its answer is lost or the gateway asks to try again."""

    def tried():
        try:
            return (work(),)
        except Exception as error:
            if not isinstance(error, LOST) and not is_temporary(error):
                raise
            return None

    return until(tried, timeout=timeout, interval=0.02)[0]


def number_of(offset):
    return offset // PIECE + 1


class Dialect:
    """What a gateway needs for the scenarios, and whom it tells. `subject`: the user of its clients."""

    # A creation that is repeated with the same name, of 6 to 64 letters, digits and hyphens, makes one media.
    has_references = False
    # Which kinds of events there are, and whether the content of media can be replaced.
    tells = ()
    replaces = False
    # Media that is deleted before an event of it is posted gets none.
    forgets_deleted = False
    # Seconds, of the gateway's clock.
    ahead = 0

    def __init__(self, subject="dora"):
        self.subject = subject
        self.settings = dict(PULLS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def client(self, place, pair=None):
        """Its steps at a node, or at something that looks like one."""
        made = self.steps(place, pair or self.pair(place))
        made.ahead = self.ahead
        return made

    def told(self, media):
        """Kind and size of each event of a media, in order, also of those that were repeated."""
        return []


class Client:
    """The steps at one node. A size of -1: the file is not there yet."""

    ahead = 0

    def complete(self, upload):
        """What comes before the call that makes the media."""

    def finish(self, upload):
        """The id of the media; it can be repeated, as after a lost answer, and so can `commit`, its last call."""
        self.complete(upload)
        return self.commit(upload)


class TencentClient(Client):
    """vod-js-sdk for an upload with a cover, and the API of app servers."""

    def __init__(self, place, pair, subject):
        self.place, self.pair = place, pair
        # Also for calls without a database, which makes none.
        signature = ugc.signer(place, subject=subject)()
        self.sdk = ugc.VodJS(place, lambda: signature)

    def using(self, upload=None):
        """One of its own, for steps at the same time."""
        sdk = copy.copy(self.sdk)
        sdk.applied = upload and upload.applied
        return sdk

    def begin(self, size, name=None):
        sdk = self.using()
        applied = sdk.apply(ugc.announced(size, len(COVER)) | {"videoName": name or "v"})
        path = applied["video"]["storagePath"]
        return SimpleNamespace(size=size, applied=applied, path=path, id=sdk.initiate(path), tags={})

    def resume(self, upload):
        """As after a restart of the app: nothing changes."""
        upload.applied = self.using().apply({"vodSessionKey": upload.applied["vodSessionKey"]})
        assert upload.applied["video"]["storagePath"] == upload.path

    def known(self, upload):
        tags = self.using(upload).parts(upload.path, upload.id)
        assert tags.items() >= upload.tags.items(), (tags, upload.tags)
        # Those whose answers were lost, too.
        upload.tags = tags
        return min(len(tags) * PIECE, upload.size)

    def send(self, upload, offset, data):
        number = number_of(offset)
        upload.tags[number] = self.using(upload).put_part(upload.path, upload.id, number, data)

    def complete(self, upload):
        sdk = self.using(upload)
        sdk.cos("PUT", upload.applied["cover"]["storagePath"], data=COVER)
        try:
            sdk.complete(upload.path, upload.id, upload.tags)
        except ugc.Refused as error:
            # As Android: it may be complete already.
            if error.code != "NoSuchUpload":
                raise

    def commit(self, upload):
        return self.using(upload).commit()["fileId"]

    def call(self, action, **body):
        answer = call(self.place, self.pair, action, body, now=int(time.time()) + self.ahead)
        if (code := answer.get("Error", {}).get("Code")) is not None:
            raise ugc.Refused(503 if code.startswith(("InternalError", "FailedOperation")) else code, answer["Error"])
        return answer

    def found(self, media):
        return next(iter(self.call("DescribeMediaInfos", FileIds=[media])["MediaInfoSet"]), None)

    def look(self, media):
        found = self.found(media)
        return found and found["MetaData"]["Size"]

    bucket = "vod-1250000000"

    @functools.cached_property
    def s3(self):
        return ObjectServer.client(self.place)

    def object(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def read(self, media):
        about = self.found(media)["BasicInfo"]
        if about["SourceInfo"]["SourceType"] == "Upload":
            assert self.object(about["CoverUrl"].split(f"/{self.bucket}/", 1)[1]) == COVER
        return self.object(about["StoragePath"].removeprefix("/"))

    def delete(self, media):
        try:
            self.call("DeleteMedia", FileId=media)
        except ugc.Refused as error:
            # The answer to the first try may have been lost.
            if error.code != "ResourceNotFound.FileNotExist":
                raise
            return False
        return True

    def listed(self):
        found = self.call("SearchMedia", Limit=5000)["MediaInfoSet"]
        return {one["FileId"]: one["BasicInfo"]["Name"] for one in found}

    def pull(self, url):
        return self.call("PullUpload", MediaUrl=url)["TaskId"]

    def pulled(self, task):
        found = self.call("DescribeTaskDetail", TaskId=task)
        assert found["Status"] != "FINISH" or found["PullUploadTask"]["ErrCode"] == 0, found
        return found["PullUploadTask"]["FileId"] if found["Status"] == "FINISH" else None


class Tencent(Dialect):
    tells = ("uploaded",)
    forgets_deleted = True

    def __enter__(self):
        self.app = Receiver(SECRET).__enter__()
        self.settings |= {
            "SLUICE_TENCENT_EVENTS": "push",
            "SLUICE_TENCENT_CALLBACK_URL": self.app.url,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_TENCENT_APPLIES_PER_SECOND": "1000",
        }
        return self

    def __exit__(self, *_):
        if self.ahead:
            # What a clock that is ahead has signed is refused.
            self.app.failures.clear()
        self.app.__exit__()

    def pair(self, gateway):
        return own_pair(gateway)

    def steps(self, place, pair):
        return TencentClient(place, pair, self.subject)

    def told(self, media):
        events = [
            one.payload["FileUploadEvent"]
            for one in self.app.those(lambda one: one.payload["EventType"] == "NewFileUpload")
        ]
        return [("uploaded", one["MetaData"]["Size"]) for one in events if one["FileId"] == media]


class AliyunClient(Client):
    """oss2 with the credentials of an upload, and the API of app servers by hand."""

    def __init__(self, place, pair):
        self.place = place
        self.plain = aliyun_vod.Plain(place, pair)

    def vod(self, action, **parameters):
        when = datetime.now(UTC) + timedelta(seconds=self.ahead)
        return aliyun_vod.checked(self.plain.answer(action, parameters, when=when))

    def bucket(self, upload):
        # Its checksum takes most of the time of a test, and others have it on.
        return aliyun_vod.oss(upload.granted, endpoint=self.place.object_url, enable_crc=False)

    def begin(self, size, name=None):
        """Repeated, it finds the media by its reference; `None` if it was never made, and the reference is in use."""
        reference = {"ReferenceId": name} if name else {}
        try:
            answer = self.vod("CreateUploadVideo", Title=name or "v", FileName="v.mp4", **reference)
        except aliyun_vod.Refused as error:
            if error.code != "InvalidReferenceId.Duplicated":
                raise
            try:
                answer = self.vod("RefreshUploadVideo", ReferenceId=name)
            except aliyun_vod.Refused as error:
                if error.code != "InvalidVideo.NotFound":
                    raise
                return None
        granted = aliyun_vod.grant(answer)
        upload = SimpleNamespace(size=size, media=answer["VideoId"], granted=granted, tags={})
        upload.id = self.bucket(upload).init_multipart_upload(granted.key).upload_id
        return upload

    def resume(self, upload):
        again = self.vod("RefreshUploadVideo", VideoId=upload.media)
        fresh = aliyun_vod.grant(again)
        assert again["VideoId"] == upload.media and fresh.key == upload.granted.key
        upload.granted = fresh

    def known(self, upload):
        listed = self.bucket(upload).list_parts(upload.granted.key, upload.id).parts
        tags = {one.part_number: one.etag for one in listed}
        assert tags.items() >= upload.tags.items(), (tags, upload.tags)
        upload.tags = tags
        return min(len(tags) * PIECE, upload.size)

    def send(self, upload, offset, data):
        number = number_of(offset)
        upload.tags[number] = self.bucket(upload).upload_part(upload.granted.key, upload.id, number, data).etag

    def commit(self, upload):
        parts = [oss2.models.PartInfo(number, tag) for number, tag in sorted(upload.tags.items())]
        self.bucket(upload).complete_multipart_upload(upload.granted.key, upload.id, parts)
        return upload.media

    def replace(self, upload, data):
        """In one request, with credentials of its own: those of the first upload end with it."""
        self.resume(upload)
        self.bucket(upload).put_object(upload.granted.key, data)

    def look(self, media):
        try:
            found = self.vod("GetVideoInfo", VideoId=media)["Video"]
        except aliyun_vod.Refused as error:
            if (error.status, error.code) != (404, "InvalidVideo.NotFound"):
                raise
            return None
        return found["Size"] if found["Status"] == "Normal" else -1

    def read(self, media):
        # The first stream is the file itself.
        stream = self.vod("GetPlayInfo", VideoId=media)["PlayInfoList"]["PlayInfo"][0]
        answer = requests.get(stream["PlayURL"], timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.content

    def delete(self, media):
        try:
            self.vod("DeleteVideo", VideoIds=media)
        except aliyun_vod.Refused as error:
            if error.code != "InvalidVideo.NotFound":
                raise
            return False
        return True

    def listed(self):
        found, total = {}, 1
        for page in itertools.count(1):
            answer = self.vod("SearchMedia", Match=f"AppId = '{aliyun_vod.APP}'", PageNo=page, PageSize=100)
            found |= {one["MediaId"]: one["Video"]["Title"] for one in answer["MediaList"]}
            total = answer["Total"]
            if page * 100 >= total:
                assert len(found) == total
                return found

    def pull(self, url):
        return self.vod("UploadMediaByURL", UploadURLs=url)["UploadJobs"][0]["JobId"]

    def pulled(self, job):
        found = self.vod("GetURLUploadInfos", JobIds=job)["URLUploadInfoList"][0]
        assert "FAIL" not in found["Status"], found
        return found["MediaId"] if "SUCC" in found["Status"] else None


class Aliyun(Dialect):
    has_references = True
    tells = ("uploaded", "deleted")
    replaces = True
    KINDS = {"FileUploadComplete": "uploaded", "DeleteMediaComplete": "deleted"}

    def __enter__(self):
        self.app = aliyun_vod.EventApp().__enter__()
        self.settings |= {"SLUICE_OBJECT_CALLBACK_HOSTS": self.app.host}
        return self

    def __exit__(self, *_):
        self.app.__exit__()

    def pair(self, gateway):
        pair = gateway.pair()
        settings = {"CallbackType": "HTTP", "CallbackURL": self.app.url + "/events", "EventTypeList": "ALL"}
        aliyun_vod.Plain(gateway, pair)("SetMessageCallback", **settings)
        return pair

    def steps(self, place, pair):
        return AliyunClient(place, pair)

    def told(self, media):
        return [(self.KINDS[one.type], one.payload.get("Size")) for one in self.app.of(media) if one.type in self.KINDS]


class VimeoClient(Client):
    """Calls by hand. Links need no token, and are asked at the client's own node."""

    def __init__(self, place, bearer, approach):
        self.place, self.approach = place, approach
        self.api = vimeo.Plain(place, bearer)
        self.link = vimeo.Plain(place)

    def at(self, link):
        parts = urlsplit(link)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def ask(self, *statuses, client=None, method, path, **options):
        answer = (client or self.api)(method, path, **options)
        if answer.status_code not in statuses:
            raise Refused(answer)
        return answer

    def begin(self, size, name=None):
        wanted = {"name": name or "v"}
        if self.approach == "ticket":
            wanted |= {"type": "streaming"}
            options = {"headers": {"Accept": "*/*"}}
        else:
            wanted |= {"upload": {"approach": self.approach, "size": size}}
            options = {}
        statuses = 200 if self.approach == "tus" else 201
        made = self.ask(statuses, method="POST", path="/me/videos", json=wanted, **options).json()
        if self.approach == "ticket":
            found = {"link": made["upload_link"], "end": made["complete_uri"], "media": None}
        else:
            found = {"link": made["upload"]["upload_link"], "media": made["uri"]}
        return SimpleNamespace(size=size, approach=self.approach, uri=made["uri"], **found)

    def resume(self, upload):
        found = self.ask(200, method="GET", path=upload.uri).json()
        assert found.get("upload_link", found.get("upload", {}).get("upload_link")) == upload.link

    def known(self, upload):
        if upload.approach == "tus":
            answer = self.ask(200, client=self.link, method="HEAD", path=self.at(upload.link), headers=TUS)
            return int(answer.headers["Upload-Offset"])
        fields = {"Content-Range": "bytes */*"}
        answer = self.ask(308, client=self.link, method="PUT", path=self.at(upload.link), headers=fields)
        return int(answer.headers["Range"].removeprefix("bytes=0-"))

    def send(self, upload, offset, data):
        path = self.at(upload.link)
        if upload.approach == "tus":
            fields = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            self.ask(204, client=self.link, method="PATCH", path=path, data=data, headers=fields)
        else:
            fields = {"Content-Range": f"bytes {offset}-{upload.size}/{upload.size}"}
            self.ask(200, client=self.link, method="PUT", path=path, data=data, headers=fields)

    def commit(self, upload):
        if upload.approach == "ticket":
            upload.media = self.ask(201, method="DELETE", path=upload.end).headers["Location"]
        return upload.media

    def replace(self, upload, data):
        body = {"file_name": "other.mp4", "upload": {"approach": "tus", "size": len(data)}}
        made = self.ask(201, method="POST", path=f"{upload.media}/versions", json=body).json()
        fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        path = self.at(made["upload"]["upload_link"])
        self.ask(204, client=self.link, method="PATCH", path=path, data=data, headers=fields)

    def attach(self, kind, media):
        """A new picture or text track, without its bytes."""
        collection, body = {
            "picture": ("pictures", {}),
            "text track": ("texttracks", {"type": "captions", "language": "en"}),
        }[kind]
        return self.ask(201, method="POST", path=f"{media}/{collection}", json=body).json()

    def look(self, media):
        answer = self.ask(200, 404, method="GET", path=media)
        if answer.status_code == 404:
            return None
        video = answer.json()
        return video["files"][0]["size"] if video["status"] == "available" else -1

    def read(self, media):
        link = self.ask(200, method="GET", path=media).json()["files"][0]["link"]
        return self.ask(200, client=self.link, method="GET", path=self.at(link)).content

    def delete(self, media):
        return self.ask(204, 404, method="DELETE", path=media).status_code == 204

    def listed(self):
        found, path = {}, "/me/videos?per_page=100"
        while path:
            page = self.ask(200, method="GET", path=path).json()
            found |= {video["uri"]: video["name"] for video in page["data"]}
            path = page["paging"]["next"]
        return found

    def pull(self, url):
        body = {"upload": {"approach": "pull", "link": url}}
        return self.ask(201, method="POST", path="/me/videos", json=body).json()["uri"]

    def pulled(self, media):
        return media if self.look(media) not in (None, -1) else None


class Vimeo(Dialect):
    replaces = True

    def __init__(self, approach, subject="dora"):
        super().__init__(subject)
        self.approach = approach
        self.settings |= {"SLUICE_VIMEO_CALLS_PER_MINUTE": "1000000"}

    def pair(self, gateway):
        return vimeo.token(gateway, self.subject)

    def steps(self, place, pair):
        return VimeoClient(place, pair, self.approach)


DIALECTS = {
    "tencent": Tencent,
    "aliyun": Aliyun,
    "vimeo tus": lambda: Vimeo("tus"),
    "vimeo ticket": lambda: Vimeo("ticket"),
}
