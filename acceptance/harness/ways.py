"""Every way in: how a client of each dialect sends a file, with what it says of it, and how it is refused.

Requests are signed here or by the vendors' SDKs, so that the gateway is not checked by its own code.
"""

import email.utils
import functools
import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree

import requests

from harness.aliyun_client import decoded, oss_signature
from harness.api import API, OFFSET_TYPE, TUS, encode_metadata
from harness.object_client import minted
from harness.ugc import sign
from harness.wire import until

BUCKET = "media-1250000000"


@dataclass
class File:
    """What a client sends, and what it says of it."""

    data: bytes
    name: str = "a.png"
    type: str = "image/png"

    @property
    def suffix(self):
        return self.name.rsplit(".", 1)[-1]

    @property
    def metadata(self):
        return {"filename": self.name, "filetype": self.type}


# What goes with a file that cannot be alone.
COMPANION = File(b"\x89PNG\r\n\x1a\n", "v.png")


class Refused(Exception):
    """A step was refused, in the form of its dialect."""

    def __init__(self, answer):
        self.answer = answer
        super().__init__(f"{answer.status_code} {answer.text[:500]}")


def is_problem(answer):
    document = answer.json()
    return answer.headers["Content-Type"] == "application/problem+json" and document["code"] and document["detail"]


def is_tus(answer):
    return answer.headers["Content-Type"].startswith("text/plain") and re.search(r"ERR_[A-Z_]+: .", answer.text)


def is_xml(answer):
    root = ElementTree.fromstring(answer.content)
    return root.tag == "Error" and root.findtext("Code") and root.findtext("Message") and root.findtext("RequestId")


def is_ugc(answer):
    document = answer.json()
    return answer.status_code == 200 and document["code"] >= 10000 and document["message"]


def is_ugc_busy(answer):
    """A fault of the server's own, after which the SDKs ask again."""
    with suppress(ValueError, KeyError, TypeError):
        return answer.status_code == 503 and answer.json()["code"] == 503
    return False


def is_vimeo(answer):
    document = answer.json()
    kind = answer.headers["Content-Type"]
    return kind == "application/vnd.vimeo.error+json" and document["error"] and "developer_message" in document


class Way:
    """A way to send one file with one credential."""

    # What the credential can be limited by.
    limits = frozenset()
    # What the client says of a file.
    says = frozenset({"name", "type"})
    # Files that are sent before it, each as `COMPANION`.
    companions = 0
    # The forms in which it is refused.
    forms = ()
    # Cases that do not concern it.
    without = frozenset()

    def __init__(self, name):
        self.name = name

    def need(self, answer, succeeds=lambda answer: answer.status_code < 300):
        """The answer, if it is no refusal; a refusal must have one of the forms."""
        if succeeds(answer):
            return answer
        for form in self.forms:
            with suppress(ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError):
                if form(answer):
                    raise Refused(answer)
        raise AssertionError(f"{self.name} refuses in no form of its dialect: {answer.status_code} {answer.text[:500]}")

    def mint(self, world, subject, file, **limits):
        raise NotImplementedError

    def send(self, world, held, file):
        raise NotImplementedError

    def again(self, world, sent, file):
        """Sends other bytes to where `send` has sent some; `sent` is what that returned."""
        raise NotImplementedError

    replaces = False


class World:
    """A gateway, an origin, and a counter for names."""

    def __init__(self, server, origin):
        self.server = server
        self.api = API(server.url, server.admin_key)
        self.origin = origin
        self.count = 0
        self.session = requests.Session()
        self.session.trust_env = False

    @functools.cached_property
    def admin(self):
        """A client of S3 with the key of the operator."""
        return self.server.client()

    def next(self):
        self.count += 1
        return self.count

    def call(self, method, url, **options):
        url = url if url.startswith("http") else self.server.url + url
        return self.session.request(method, url, timeout=60, allow_redirects=False, **options)

    def made(self, path, **body):
        answer = self.api.post(path, {name: value for name, value in body.items() if value is not None})
        assert answer.status_code == 201, answer.text
        return answer.json()

    @staticmethod
    def window():
        """Of a signature of COS."""
        now = int(time.time())
        return now - 60, now + 600

    def uploads(self, subject, state="completed"):
        """What the gateway's own API tells of a user's uploads."""
        answer = self.api.get("/v1/uploads", params={"subject": subject, "state": state, "limit": 100})
        # A part is no file.
        return [one for one in answer.json()["uploads"] if one.get("concatenation") != "partial"]

    def upload_of(self, subject, uri):
        """The id of the upload of a Vimeo video."""
        answer = self.api.get("/v1/uploads", params={"subject": subject, "limit": 100})
        return next(one["id"] for one in answer.json()["uploads"] if one["metadata"].get("vimeo_uri") == uri)

    def serve(self, file):
        """The URL from which the file can be pulled."""
        path = f"/{self.next()}/{quote(file.name)}"
        self.origin.add(path, file.data, content_type=file.type)
        return self.origin.url + path


# tus, the draft, single files, forms: upload tokens


class Token(Way):
    limits = frozenset({"maxBytes", "contentTypes", "oneTime", "expiresIn", "subject"})
    forms = (is_problem,)

    def mint(self, world, subject, file, **limits):
        return world.made("/v1/tus/tokens", subject=subject, **limits)["token"]

    def fields(self, held):
        return {"Authorization": f"Bearer {held}"}


class TusWay(Token):
    forms = (is_tus, is_problem)

    def __init__(self, name, *, steps=(), together=False, deferred=False):
        super().__init__(name)
        self.steps, self.together, self.deferred = steps, together, deferred

    def patch(self, world, url, offset, data, **more):
        fields = TUS | {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE} | more
        return self.need(world.call("PATCH", url, headers=fields, data=data))

    def send(self, world, held, file):
        length = {"Upload-Defer-Length": "1"} if self.deferred else {"Upload-Length": str(len(file.data))}
        fields = self.fields(held) | TUS | length | {"Upload-Metadata": encode_metadata(file.metadata)}
        data = None
        if self.together:
            fields["Content-Type"] = OFFSET_TYPE
            data = file.data
        url = self.need(world.call("POST", "/files", headers=fields, data=data)).headers["Location"]
        offset = 0
        if not self.together:
            for end in (*self.steps, len(file.data)):
                is_last = end == len(file.data)
                more = {"Upload-Length": str(end)} if self.deferred and is_last else {}
                self.patch(world, url, offset, file.data[offset:end], **more)
                offset = end
        return url

    def again(self, world, sent, file):
        for offset in (0, len(file.data)):
            with suppress(Refused):
                # Nothing is sent, or it is repeated.
                self.patch(world, sent, offset, file.data)
        raise Refused(world.call("PATCH", sent, headers=TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}))


class Concatenated(TusWay):
    # Each part is an upload, too.
    without = frozenset({"one-time", "uploads of a period"})

    def send(self, world, held, file):
        half = len(file.data) // 2
        urls = []
        for data in (file.data[:half], file.data[half:]):
            fields = self.fields(held) | TUS | {"Upload-Length": str(len(data)), "Upload-Concat": "partial"}
            fields["Content-Type"] = OFFSET_TYPE
            urls.append(self.need(world.call("POST", "/files", headers=fields, data=data)).headers["Location"])
        paths = " ".join("/files/" + url.rsplit("/", 1)[1] for url in urls)
        fields = self.fields(held) | TUS | {"Upload-Concat": f"final;{paths}"}
        fields["Upload-Metadata"] = encode_metadata(file.metadata)
        return self.need(world.call("POST", "/files", headers=fields)).headers["Location"]


class Draft(Token):
    """The IETF draft, interop version 8."""

    def __init__(self, name, is_split):
        super().__init__(name)
        self.is_split = is_split

    def send(self, world, held, file):
        version = {"Upload-Draft-Interop-Version": "8"}
        fields = self.fields(held) | version | {"Upload-Metadata": encode_metadata(file.metadata)}
        if not self.is_split:
            fields["Upload-Complete"] = "?1"
            return self.need(world.call("POST", "/files", headers=fields, data=file.data)).headers["Location"]
        half = len(file.data) // 2
        fields["Upload-Complete"] = "?0"
        url = self.need(world.call("POST", "/files", headers=fields, data=file.data[:half])).headers["Location"]
        fields = version | {"Upload-Complete": "?1", "Upload-Offset": str(half)}
        fields["Content-Type"] = "application/partial-upload"
        self.need(world.call("PATCH", url, headers=fields, data=file.data[half:]))
        return url


class Single(Token):
    def __init__(self, name, method, is_chunked=False):
        super().__init__(name)
        self.method, self.is_chunked = method, is_chunked

    def send(self, world, held, file):
        disposition = f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"
        fields = self.fields(held) | {"Content-Type": file.type, "Content-Disposition": disposition}
        data = iter([file.data]) if self.is_chunked else file.data
        return self.need(world.call(self.method, "/files", headers=fields, data=data)).headers.get("Location")


class FormWay(Token):
    def __init__(self, name, has_field):
        super().__init__(name)
        self.has_field = has_field

    def send(self, world, held, file):
        fields = {"token": (None, held)} if self.has_field else {}
        headers = {} if self.has_field else self.fields(held)
        files = fields | {"f": (file.name, file.data, file.type)}
        self.need(world.call("POST", "/files", headers=headers, files=files))


class KeyUpload(Token):
    """Uploads that a backend creates, and a client sends."""

    limits = frozenset({"subject"})
    forms = (is_tus, is_problem)

    def mint(self, world, subject, file, **limits):
        return subject

    def send(self, world, held, file):
        body = {"subject": held, "length": len(file.data), "filename": file.name, "contentType": file.type}
        url = self.need(world.api.post("/v1/tus/uploads", body)).headers["Location"]
        fields = TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}
        self.need(world.call("PATCH", url, headers=fields, data=file.data))
        return url


# Pulls


def waited(world, upload):
    """A pulled upload once it is over."""
    found = []

    def is_over():
        found[:] = [world.api.get(f"/v1/uploads/{upload}").json()]
        return found[0]["state"] != "open" and found[0]["pull"]["state"] in ("failed", "ended")

    until(is_over)
    return found[0]


class Pull(Way):
    limits = frozenset({"maxBytes", "contentTypes", "subject"})
    forms = (is_problem,)

    def mint(self, world, subject, file, **limits):
        return {"subject": subject} | limits

    def send(self, world, held, file):
        answer = self.need(world.api.post("/v1/media/pull", held | {"url": world.serve(file)}))
        upload = waited(world, answer.json()["id"])
        if upload["state"] != "completed":
            if upload["pull"]["state"] == "failed":
                assert upload["pull"]["lastError"]["message"] and upload["pull"]["lastError"]["code"], upload
            raise Refused(world.api.get(f"/v1/uploads/{upload['id']}"))


# The object endpoint


class S3(Way):
    limits = frozenset({"maxBytes", "contentTypes", "oneTime", "expiresIn", "prefix", "subject"})
    forms = (is_xml,)
    format = "aws"
    replaces = True

    def __init__(self, name, kind):
        super().__init__(name)
        self.kind = kind

    def mint(self, world, subject, file, **limits):
        prefix = f"{subject}/"
        wanted = {"subject": subject, "bucket": BUCKET, "keyPrefix": prefix} | limits
        if self.kind.startswith("copy"):
            wanted["actions"] = ["upload", "read"]
        return minted(world.server, self.format, **wanted), prefix

    def key(self, world, held, file):
        return f"{held[1]}{world.next()}/{file.name}"

    def request(self, world, held, method, key, query=None, data=b"", headers=None):
        raise NotImplementedError

    def parts(self, world, held, key, file, part=None):
        answer = self.request(world, held, "POST", key, {"uploads": ""}, headers={"Content-Type": file.type})
        upload = re.search("<UploadId>(.*?)</UploadId>", self.need(answer).text)[1]
        query = {"partNumber": "1", "uploadId": upload}
        tag = (
            part(query) if part else self.need(self.request(world, held, "PUT", key, query, file.data)).headers["ETag"]
        )
        body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
        body += "</CompleteMultipartUpload>"
        self.need(self.request(world, held, "POST", key, {"uploadId": upload}, body.encode()))

    def send(self, world, held, file, key=None):
        key = key or self.key(world, held, file)
        typed = {"Content-Type": file.type}
        if self.kind == "put":
            self.need(self.request(world, held, "PUT", key, data=file.data, headers=typed))
        elif self.kind == "append":
            query = {"append": "", "position": "0"}
            self.need(self.request(world, held, "POST", key, query, file.data, typed))
        elif self.kind == "parts":
            self.parts(world, held, key, file)
        else:
            source = f"{held[1]}source-{world.next()}/{file.name}"
            world.admin.put_object(Bucket=BUCKET, Key=source, Body=file.data, ContentType=file.type)
            copied = {"x-amz-copy-source": quote(f"/{BUCKET}/{source}")}
            if self.kind == "copy":
                self.need(self.request(world, held, "PUT", key, headers=copied))
            else:

                def part(query):
                    answer = self.need(self.request(world, held, "PUT", key, query, headers=copied))
                    return re.search("<ETag>(.*?)</ETag>", answer.text)[1].replace("&quot;", '"')

                self.parts(world, held, key, file, part)
        return held, key

    def again(self, world, sent, file):
        return self.send(world, sent[0], file, sent[1])


class AWS(S3):
    def request(self, world, held, method, key, query=None, data=b"", headers=None):
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        url = f"{world.server.object_url}/{BUCKET}/{quote(key)}"
        signed = AWSRequest(method, url, params=query or {}, data=data, headers=headers or {})
        S3SigV4Auth(Credentials(*held[0]), "s3", "us-east-1").add_auth(signed)
        prepared = signed.prepare()
        return world.call(method, prepared.url, data=data, headers=dict(prepared.headers))


class OSS(S3):
    format = "aliyun"

    def request(self, world, held, method, key, query=None, data=b"", headers=None, bucket=BUCKET):
        pair = held[0]
        headers = (headers or {}) | {"Date": email.utils.formatdate(usegmt=True), "x-oss-security-token": pair[2]}
        query = query or {}
        # Both are part of what is signed.
        names = {name: value for name, value in query.items()}
        signature = oss_signature(pair[1], method, bucket, key, names, headers)
        headers["Authorization"] = f"OSS {pair[0]}:{signature}"
        line = "&".join(f"{name}={quote(value)}" if value else name for name, value in query.items())
        url = f"{world.server.object_url}/{bucket}/{quote(key)}" + (f"?{line}" if line else "")
        return world.call(method, url, data=data, headers=headers)


class COS(S3):
    format = "tencent"

    def request(self, world, held, method, key, query=None, data=b"", headers=None, bucket=BUCKET):
        pair = held[0]
        host = f"{bucket}.cos.ap-guangzhou.myqcloud.com"
        query = query or {}
        window = world.window()
        certificate = {"secretId": pair[0], "secretKey": pair[1]}
        headers = (headers or {}) | {
            "Host": host,
            "Authorization": sign(method, f"/{key}", query, {"host": host}, certificate, window),
            "x-cos-security-token": pair[2],
        }
        line = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        url = f"{world.server.object_url}/{quote(key)}" + (f"?{line}" if line else "")
        return world.call(method, url, data=data, headers=headers)


class Presigned(Way):
    limits = frozenset({"maxBytes", "oneTime", "expiresIn", "subject"})
    forms = (is_xml,)
    replaces = True

    def __init__(self, name, format, method="PUT"):
        super().__init__(name)
        self.format, self.method = format, method

    # A URL is for one key, and so for one name.
    def mint(self, world, subject, file, **limits):
        key = f"{subject}/{world.next()}/{file.name}"
        wanted = {"subject": subject, "bucket": BUCKET, "key": key, "method": self.method, "format": self.format}
        # It is signed, and so cannot be said later.
        wanted["contentType"] = file.type
        return world.made("/v1/presigned-urls", **wanted, **limits)

    def send(self, world, held, file):
        if self.method == "POST":
            files = {name: (None, value) for name, value in held["fields"].items()} | {"file": (file.name, file.data)}
            self.need(world.call("POST", held["url"], files=files))
        else:
            self.need(world.call(held["method"], held["url"], data=file.data, headers=held["headers"]))
        return held

    def again(self, world, sent, file):
        return self.send(world, sent, file)


class PresignedParts(Way):
    limits = frozenset({"maxBytes", "subject"})
    forms = (is_xml, is_problem)
    says = frozenset({"name", "type"})

    def mint(self, world, subject, file, **limits):
        return {"subject": subject} | limits

    def send(self, world, held, file):
        key = f"{held['subject']}/{world.next()}/{file.name}"
        body = held | {"bucket": BUCKET, "key": key, "parts": [1], "contentType": file.type}
        begun = self.need(world.api.post("/v1/presigned-urls", body)).json()
        part = begun["parts"][0]
        tag = self.need(world.call("PUT", part["url"], data=file.data, headers=part["headers"])).headers["ETag"]
        document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
        document += "</CompleteMultipartUpload>"
        done = begun["complete"]
        self.need(world.call("POST", done["url"], data=document.encode(), headers=done["headers"]))
        return part, file

    def again(self, world, sent, file):
        return self.need(world.call("PUT", sent[0]["url"], data=file.data, headers=sent[0]["headers"]))


# Tencent VOD


class UGC(COS):
    """The upload SDKs; `kind`: put, silent (no size), parts, or cover, for which the file is the cover of a video."""

    limits = frozenset({"maxBytes", "contentTypes", "oneTime", "expiresIn", "subject"})
    forms = (is_ugc, is_ugc_busy, is_xml)
    replaces = False

    def __init__(self, name, kind):
        super().__init__(name, kind)
        self.companions = 1 if kind == "cover" else 0

    def mint(self, world, subject, file, **limits):
        if "oneTime" in limits:
            limits["oneTimeValid"] = limits.pop("oneTime")
        return world.made("/v1/tencent/signatures", subject=subject, **limits)["signature"]

    def ask(self, world, action, **body):
        answer = world.call("POST", f"/v3/index.php?Action={action}", data=json.dumps(body))
        return self.need(answer, lambda answer: answer.json()["code"] == 0).json()["data"]

    def send(self, world, held, file, key=None):
        stem = file.name.removesuffix("." + file.suffix)
        if self.kind == "cover":
            files = {"videoName": "v", "videoType": "png", "videoSize": len(COMPANION.data)}
            files |= {"coverName": stem, "coverType": file.suffix, "coverSize": len(file.data)}
        else:
            files = {"videoName": stem, "videoType": file.suffix}
            if self.kind != "silent":
                files["videoSize"] = len(file.data)
        applied = self.ask(world, "ApplyUploadUGC", signature=held, **files)
        certificate = applied["tempCertificate"]
        pair = ((certificate["secretId"], certificate["secretKey"], certificate["token"]), "")
        bucket = f"{applied['storageBucket']}-{applied['storageAppId']}"
        if self.kind == "cover":
            path = applied["video"]["storagePath"].removeprefix("/")
            self.need(self.request(world, pair, "PUT", path, data=COMPANION.data, bucket=bucket))
            path = applied["cover"]["storagePath"].removeprefix("/")
        else:
            path = applied["video"]["storagePath"].removeprefix("/")
        self.store(world, pair, path, file, bucket)
        self.ask(world, "CommitUploadUGC", signature=held, vodSessionKey=applied["vodSessionKey"])
        return pair, path, bucket

    def store(self, world, pair, path, file, bucket):
        if self.kind == "parts":
            one = replace_bucket(self, bucket)
            one.parts(world, pair, path, file)
        else:
            typed = {"Content-Type": file.type}
            self.need(self.request(world, pair, "PUT", path, data=file.data, headers=typed, bucket=bucket))

    def again(self, world, sent, file):
        self.store(world, sent[0], sent[1], file, sent[2])


def replace_bucket(way, bucket):
    """The same way, for another bucket."""

    class Other(type(way)):
        def request(self, *arguments, **options):
            return super().request(*arguments, **options, bucket=bucket)

    return Other(way.name, way.kind)


# ApsaraVideo VOD


class Apsara(OSS):
    limits = frozenset({"maxBytes", "subject"})
    forms = (is_problem, is_xml)
    replaces = False

    def mint(self, world, subject, file, **limits):
        return {"subject": subject} | limits

    def send(self, world, held, file, key=None):
        body = held | {"title": "t"}
        if self.kind == "image":
            body |= {"type": "image", "imageType": "default", "imageExt": file.suffix, "originalFileName": file.name}
        else:
            body |= {"fileName": file.name}
        if self.kind != "silent" and self.kind != "image":
            body["fileSize"] = len(file.data)
        begun = self.need(world.api.post("/v1/aliyun/uploads", body)).json()
        address, auth = decoded(begun["UploadAddress"]), decoded(begun["UploadAuth"])
        pair = ((auth["AccessKeyId"], auth["AccessKeySecret"], auth["SecurityToken"]), "")
        self.store(world, pair, address["FileName"], file, address["Bucket"])
        return pair, address["FileName"], address["Bucket"]

    def store(self, world, pair, path, file, bucket):
        one = replace_bucket(self, bucket)
        if self.kind == "parts":
            one.parts(world, pair, path, file)
        else:
            self.need(one.request(world, pair, "PUT", path, data=file.data, headers={"Content-Type": file.type}))

    def again(self, world, sent, file):
        self.store(world, sent[0], sent[1], file, sent[2])


# Vimeo


class VimeoWay(Way):
    limits = frozenset({"quota", "expiresIn", "subject"})
    forms = (is_vimeo, is_tus)

    def __init__(self, name, kind):
        super().__init__(name)
        self.kind = kind
        if kind in ("version", "pictures", "texttracks"):
            self.companions = 1
        says = {"ticket": ("name",), "version": ("name",), "texttracks": ("name",), "pictures": ("type",)}
        self.says = frozenset(says.get(kind, ("name", "type")))
        if kind == "pictures":
            # What says that it is no image is stored as one.
            self.without = frozenset({"types", "types by policy"})

    def mint(self, world, subject, file, **limits):
        scopes = ["public", "private", "create", "edit", "delete", "upload"]
        return world.made("/v1/vimeo/tokens", subject=subject, scopes=scopes, **limits)["access_token"], subject

    def call(self, world, held, method, path, **options):
        accept = "application/vnd.vimeo.*+json;version=3.4" if self.kind != "ticket" else "*/*"
        headers = {"Accept": accept, "Authorization": f"Bearer {held[0]}"} | options.pop("headers", {})
        return self.need(world.call(method, path, headers=headers, **options))

    def create(self, world, held, file, **upload):
        body = {"name": "N", "file_name": file.name, "upload": {"mime_type": file.type} | upload}
        return self.call(world, held, "POST", "/me/videos", json=body).json()

    def put(self, world, link, data, kind=None):
        headers = {"Content-Type": kind} if kind else {}
        self.need(world.call("PUT", link, data=data, headers=headers))

    def patch(self, world, link, data):
        fields = TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}
        self.need(world.call("PATCH", link, data=data, headers=fields))

    def send(self, world, held, file):
        size = len(file.data)
        if self.kind == "tus":
            link = self.create(world, held, file, approach="tus", size=size)["upload"]["upload_link"]
            self.patch(world, link, file.data)
            return link
        if self.kind in ("streaming", "silent"):
            more = {"size": size} if self.kind == "streaming" else {}
            link = self.create(world, held, file, approach="streaming", **more)["upload"]["upload_link"]
            self.put(world, link, file.data)
            return link
        if self.kind == "chunked":
            link = self.create(world, held, file, approach="streaming")["upload"]["upload_link"]
            self.put(world, link, iter([file.data[:50], file.data[50:]]))
            return link
        if self.kind == "post":
            link = self.create(world, held, file, approach="post")["upload"]["upload_link"]
            self.need(world.call("POST", link, files={"file_data": (file.name, file.data)}))
            return link
        if self.kind == "ticket":
            ticket = self.call(world, held, "POST", "/me/videos", json={"type": "streaming", "name": file.name}).json()
            self.put(world, ticket["upload_link_secure"], file.data)
            self.call(world, held, "DELETE", ticket["complete_uri"])
            return ticket["upload_link_secure"]
        if self.kind == "pull":
            uri = self.create(world, held, file, approach="pull", link=world.serve(file))["uri"]
            upload = world.upload_of(held[1], uri)
            if waited(world, upload)["state"] != "completed":
                video = self.call(world, held, "GET", uri).json()
                assert video["status"] in ("uploading_error", "quota_exceeded", "total_cap_exceeded"), video["status"]
                raise Refused(world.api.get(f"/v1/uploads/{upload}"))
            return None
        # What belongs to a video.
        video = self.create(world, held, COMPANION, approach="tus", size=len(COMPANION.data))
        self.patch(world, video["upload"]["upload_link"], COMPANION.data)
        uri = video["uri"]
        if self.kind == "version":
            body = {"file_name": file.name, "upload": {"approach": "tus", "size": size}}
            link = self.call(world, held, "POST", uri + "/versions", json=body).json()["upload"]["upload_link"]
            self.patch(world, link, file.data)
            return link
        body = {"type": "captions", "language": "en", "name": file.name} if self.kind == "texttracks" else {}
        link = self.call(world, held, "POST", f"{uri}/{self.kind}", json=body).json()["link"]
        self.put(world, link, file.data, file.type)
        return link

    def again(self, world, sent, file):
        if self.kind in ("tus", "version"):
            self.patch(world, sent, file.data)
        elif self.kind == "post":
            self.need(world.call("POST", sent, files={"file_data": (file.name, file.data)}))
        else:
            self.put(world, sent, file.data, file.type)


ALL = [
    TusWay("tus"),
    TusWay("tus with the creation", together=True),
    TusWay("tus in steps", steps=(10, 60)),
    TusWay("tus without a length", deferred=True),
    TusWay("tus without a length in steps", deferred=True, steps=(10, 60)),
    Concatenated("tus in parts"),
    Draft("draft", False),
    Draft("draft in steps", True),
    Single("POST of a file", "POST"),
    Single("POST of a file in chunks", "POST", True),
    Single("PUT of a file", "PUT"),
    FormWay("form", False),
    FormWay("form with a token", True),
    KeyUpload("upload of a backend"),
    Pull("pull"),
    *[AWS(f"S3 {kind}", kind) for kind in ("put", "parts", "copy", "copy of parts")],
    *[OSS(f"OSS {kind}", kind) for kind in ("put", "parts")],
    *[COS(f"COS {kind}", kind) for kind in ("put", "parts")],
    *[Presigned(f"URL of {format}", format) for format in ("aws", "aliyun", "tencent")],
    *[Presigned(f"form of {format}", format, "POST") for format in ("aws", "aliyun", "tencent")],
    PresignedParts("URLs of parts"),
    *[UGC(f"UGC {kind}", kind) for kind in ("put", "silent", "parts", "cover")],
    *[Apsara(f"ApsaraVideo {kind}", kind) for kind in ("put", "silent", "parts", "image")],
    *[
        VimeoWay(f"Vimeo {kind}", kind)
        for kind in ("tus", "streaming", "silent", "chunked", "post", "ticket", "pull", "version", "pictures")
    ],
    VimeoWay("Vimeo texttracks", "texttracks"),
]
