"""Upload SDKs of Tencent Cloud VOD, replayed from what is known of their requests (protocol, sections 2 and 4).

The SDKs themselves run only on phones, in mini programs and in browsers. Signing is written here, so that the gateway
is not checked by its own code; each class has the quirks of its SDK.
"""

import contextlib
import email.utils
import hashlib
import hmac
import json
import re
import time
from base64 import b64decode, b64encode
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import crcmod
import requests

from harness.api import API

PART = 1 << 20


class Refused(Exception):
    """The gateway answered with a code, or COS with an error; `retcode` is what the SDK tells its app.

    `answer`: the response of COS.
    """

    def __init__(self, code, message, retcode=None, answer=None):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retcode = retcode
        self.answer = answer


def signer(server, key=None, **wanted):
    """Signatures of an app's backend for its user."""

    def signature():
        # The port may change with a restart.
        answer = API(server.url, key or server.admin_key).post("/v1/tencent/signatures", {"subject": "dora"} | wanted)
        assert answer.status_code == 201, answer.text
        return answer.json()["signature"]

    return signature


def announced(video, cover=None):
    """What a client says of its files when it begins."""
    files = {"videoName": "v", "videoType": "mp4", "videoSize": video}
    return files | ({} if cover is None else {"coverName": "c", "coverType": "jpg", "coverSize": cover})


def escaped(text):
    return quote(text, safe="-_.~")


def sign(method, path, parameters, headers, certificate, window):
    """`Authorization` of a request to COS (protocol, section 4.2)."""

    def line(items):
        pairs = sorted((escaped(name).lower(), escaped(str(value))) for name, value in items.items())
        return ";".join(name for name, _ in pairs), "&".join(f"{name}={value}" for name, value in pairs)

    def code(key, text):
        return hmac.new(key.encode(), text.encode(), hashlib.sha1).hexdigest()

    key_time = f"{window[0]};{window[1]}"
    names, values = line(parameters)
    header_names, header_values = line(headers)
    text = f"{method.lower()}\n{path}\n{values}\n{header_values}\n"
    to_sign = f"sha1\n{key_time}\n{hashlib.sha1(text.encode()).hexdigest()}\n"
    signature = code(code(certificate["secretKey"], key_time), to_sign)
    return (
        f"q-sign-algorithm=sha1&q-ak={certificate['secretId']}&q-sign-time={key_time}&q-key-time={key_time}"
        f"&q-header-list={header_names}&q-url-param-list={names}&q-signature={signature}"
    )


class Client:
    """What all SDKs share."""

    # Header fields that it signs besides those that a request needs.
    signs_host = True
    agent = None

    def __init__(self, server, signature, backup=None):
        """`signature`: a function, as most SDKs take it. `backup`: the second host of the calls."""
        self.server = server
        self.signature = signature
        self.backup = backup
        self.session = requests.Session()
        self.session.trust_env = False
        if self.agent:
            self.session.headers["User-Agent"] = self.agent
        self.applied = None

    # Calls

    @property
    def hosts(self):
        return [self.server.url] + ([self.backup] if self.backup else [])

    def send(self, host, action, body):
        return self.session.post(
            f"{host}/v3/index.php?Action={action}",
            data=json.dumps(body, ensure_ascii=False).encode(),
            headers={"Content-Type": "application/json;charset=UTF-8"},
            timeout=30,
        )

    def call(self, action, body):
        """The answer of a call; each host is tried."""
        last = None
        for host in self.hosts:
            try:
                answer = self.send(host, action, body)
            except requests.ConnectionError as error:
                last = error
                continue
            if answer.status_code == 200:
                return answer.json()
            last = Refused(answer.status_code, answer.text)
        raise last

    def apply(self, body):
        answer = self.call("ApplyUploadUGC", {"signature": self.signature()} | body)
        if answer["code"] != 0:
            raise Refused(answer["code"], answer["message"])
        self.check_application(answer["data"], body)
        self.applied = answer["data"]
        return self.applied

    def check_application(self, data, body):
        """Types as the strictest SDK wants them (protocol, section 2.3)."""
        for name in ("storageAppId", "appId", "timestamp"):
            assert type(data[name]) is int, (name, data[name])
        for name in ("storageBucket", "storageRegion", "storageRegionV5", "domain", "vodSessionKey"):
            assert type(data[name]) is str and data[name], (name, data[name])
        certificate = data["tempCertificate"]
        assert all(type(certificate[name]) is str and certificate[name] for name in ("secretId", "secretKey", "token"))
        assert type(certificate["expiredTime"]) is int and certificate["expiredTime"] > data["timestamp"]
        assert data["StorageRegionV5"] == data["storageRegionV5"]
        for kind in ("video", "cover"):
            if f"{kind}Type" in body:
                assert data[kind]["storagePath"].startswith("/") and not data[kind]["storagePath"].startswith("//")

    def commit(self, session_key=None):
        key = session_key or self.applied["vodSessionKey"]
        answer = self.call("CommitUploadUGC", {"signature": self.signature(), "vodSessionKey": key})
        if answer["code"] != 0:
            raise Refused(answer["code"], answer["message"])
        self.check_commitment(answer["data"])
        return answer["data"]

    def check_commitment(self, data):
        assert type(data["fileId"]) is str and re.fullmatch("[1-9][0-9]{18}", data["fileId"]), data
        for kind in ("video", "cover"):
            if kind in data:
                # Android makes `httpss:` of `https:`.
                assert data[kind]["url"].startswith("http://"), data[kind]

    # COS

    @property
    def bucket(self):
        return f"{self.applied['storageBucket']}-{self.applied['storageAppId']}"

    @property
    def cos_host(self):
        return f"{self.bucket}.cos.{self.applied['storageRegionV5']}.myqcloud.com"

    def window(self):
        return self.applied["timestamp"], self.applied["tempCertificate"]["expiredTime"]

    def cos(self, method, path, parameters=None, data=b"", headers=None, signed=None, host=None):
        """A request to COS; `signed`: the header fields that the SDK signs."""
        parameters = parameters or {}
        headers = dict(headers or {})
        host = host or self.cos_host
        to_sign = {name: headers[name] for name in signed or [] if name in headers}
        if signed and "content-length" in signed:
            to_sign["content-length"] = str(len(data))
        if self.signs_host:
            to_sign["host"] = host
        certificate = self.applied["tempCertificate"]
        headers |= self.address(host) | {
            "Authorization": sign(method, path, parameters, to_sign, certificate, self.window()),
            "x-cos-security-token": certificate["token"],
        }
        query = "&".join(f"{escaped(name)}={escaped(str(value))}" for name, value in parameters.items())
        url = self.cos_url() + quote(path) + (f"?{query}" if query else "")
        answer = self.session.request(method, url, data=data, headers=headers, timeout=120)
        if answer.status_code >= 300:
            code = re.search("<Code>(.*?)</Code>", answer.text)
            raise Refused(code.group(1) if code else answer.status_code, answer.text, answer=answer)
        return answer

    def address(self, host):
        return {"Host": host}

    def cos_url(self):
        return self.server.object_url

    def xml(self, answer):
        root = ElementTree.fromstring(answer.content)
        for element in root.iter():
            element.tag = element.tag.rsplit("}", 1)[-1]
        return root

    def initiate(self, path):
        answer = self.cos("POST", path, {"uploads": ""}, signed=["content-length"])
        return self.xml(answer).findtext("UploadId")

    def put_part(self, path, upload, number, data):
        answer = self.cos("PUT", path, {"partNumber": number, "uploadId": upload}, data, signed=["content-length"])
        tag = answer.headers["ETag"]
        # iOS compares MD5 only of a tag with 34 characters.
        assert tag == f'"{hashlib.md5(data).hexdigest()}"'
        return tag

    def parts(self, path, upload):
        """Number and tag of each part that has arrived, as Android pages: while the next marker is not empty."""
        found, marker = {}, ""
        while True:
            more = {"part-number-marker": marker} if marker else {}
            root = self.xml(self.cos("GET", path, {"uploadId": upload} | more))
            found |= {int(part.findtext("PartNumber")): part.findtext("ETag") for part in root.iter("Part")}
            marker = root.findtext("NextPartNumberMarker") or ""
            if not marker:
                assert root.findtext("IsTruncated") == "false"
                return found
            assert root.findtext("IsTruncated") == "true"

    def complete(self, path, upload, tags):
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tags[number]}</ETag></Part>" for number in sorted(tags)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        root = self.xml(self.cos("POST", path, {"uploadId": upload}, body))
        assert root.findtext("ETag")

    def send_parts(self, path, upload, data, known=None, stop_after=None):
        """Sends what is missing; `stop_after`: so many parts, as if the app was killed."""
        tags = dict(known or {})
        sent = 0
        for start in range(0, len(data), PART):
            number = start // PART + 1
            if number in tags:
                continue
            if stop_after is not None and sent == stop_after:
                return tags, False
            tags[number] = self.put_part(path, upload, number, data[start : start + PART])
            sent += 1
        return tags, True


class VodJS(Client):
    """vod-js-sdk-v6: a fresh signature for each call, always multipart, signs neither host nor token."""

    signs_host = False

    def uploads(self, path):
        """Ids of open uploads of exactly this key, the last one last."""
        root = self.xml(self.cos("GET", "/", {"uploads": "", "prefix": path.removeprefix("/")}))
        return [
            one.findtext("UploadId") for one in root.iter("Upload") if one.findtext("Key") == path.removeprefix("/")
        ]

    def send_file(self, path, data, stop_after=None):
        found = self.uploads(path)
        upload = found[-1] if found else self.initiate(path)
        known = self.parts(path, upload) if found else {}
        tags, is_whole = self.send_parts(path, upload, data, known, stop_after)
        if is_whole:
            self.complete(path, upload, tags)
        return is_whole

    def upload(self, video, cover=None, name="测试 vid", session_key=None, stop_after=None):
        if session_key:
            body = {"vodSessionKey": session_key}
        else:
            body = {"videoName": name, "videoType": "mp4", "videoSize": len(video)}
            if cover is not None:
                body |= {"coverName": "c", "coverType": "jpg", "coverSize": len(cover)}
        self.apply(body)
        for kind, data in [("video", video), ("cover", cover)]:
            if data is not None and not self.send_file(self.applied[kind]["storagePath"], data, stop_after):
                return None
        return self.commit()


class MiniProgram(VodJS):
    """vod-wx-sdk-v2: everything goes to the host of the calls, the host of COS is in a header, and is signed."""

    signs_host = True

    def __init__(self, server, signature, backup=None):
        once = signature()
        super().__init__(server, lambda: once, backup)

    def address(self, host):
        return {"Vod-Forward-Cos": host}

    def cos_url(self):
        return self.server.url


class Phone(Client):
    """What iOS and Android share: one signature for all calls, and an upload that is resumed by ListParts alone."""

    def __init__(self, server, signature, backup=None):
        once = signature()
        super().__init__(server, lambda: once, backup)
        # What it keeps for a day.
        self.kept = None

    def prepare(self):
        answer = self.call("PrepareUploadUGC", {"clientVersion": "12.4", "signature": self.signature()})
        assert answer["code"] == 0 and type(answer["data"]["appId"]) is int
        assert answer["data"]["cosRegionList"] == []

    def request(self, video, cover, name):
        body = {
            "videoName": name,
            "videoType": "MP4",
            "videoSize": len(video),
            "clientReportId": "user",
            "clientVersion": "12.4",
        }
        if cover is not None:
            body |= {"coverName": "cover", "coverType": "png", "coverSize": len(cover)}
        if self.kept:
            body["vodSessionKey"] = self.kept[0]
        return body

    def send_video(self, path, data, stop_after):
        upload = self.kept[1] if self.kept else self.initiate(path)
        known = self.parts(path, upload) if self.kept else {}
        self.kept = (self.applied["vodSessionKey"], upload)
        tags, is_whole = self.send_parts(path, upload, data, known, stop_after)
        if is_whole:
            self.complete(path, upload, tags)
        return is_whole

    def upload(self, video, cover=None, name="clip", stop_after=None):
        self.prepare()
        try:
            self.apply(self.request(video, cover, name))
        except Refused as error:
            self.kept = None
            raise Refused(error.code, error.message, self.retcode_of_apply(error.code)) from error
        if not self.send_video(self.applied["video"]["storagePath"], video, stop_after):
            return None
        if cover is not None:
            path = self.applied["cover"]["storagePath"]
            fields = {"content-type": "image/png"}
            self.cos("PUT", path, data=cover, headers=fields, signed=["content-type", "content-length"])
        try:
            data = self.commit()
        except Refused as error:
            raise Refused(error.code, error.message, 1006) from error
        assert cover is None or "cover" in data
        self.kept = None
        return data


class IOS(Phone):
    """Puts its JSON into a header when it has resolved the host itself."""

    def send(self, host, action, body):
        return self.session.post(
            f"{host}/v3/index.php?Action={action}",
            headers={
                "Content-Type": "application/json; charset=UTF-8",
                "originalBody": json.dumps(body).encode(),
                "Host": "vod2.qcloud.com",
                "Accept-Encoding": "gzip",
                "User-Agent": "Film/1.0 CFNetwork/1494.0.7 Darwin/23.4.0",
            },
            timeout=30,
        )

    def retcode_of_apply(self, code):
        return 1020 if code == 10010 else 1002


class Android(Phone):
    agent = "okhttp/3.12.6"

    def retcode_of_apply(self, code):
        return 1020 if code == 10010 else 1001


class CPlusPlus(Client):
    """The SDK of 2019: GET with a body, and capital letters."""

    def send(self, host, action, body):
        names = {"coverName": "Covername"}
        body = {names.get(name, name[0].upper() + name[1:]): value for name, value in body.items()}
        return self.session.request(
            "GET",
            f"{host}/v3/index.php?Action={action}&Region=gzp&Timestamp={int(time.time())}&Nonce=1",
            data=json.dumps(body).encode(),
            timeout=30,
        )

    def upload(self, video):
        self.apply({"videoName": "v", "videoType": "mp4", "videoSize": len(video)})
        self.cos("PUT", self.applied["video"]["storagePath"], data=video)
        return self.commit()


def parameters(signature):
    """The text in a signature, without checking it."""
    return b64decode(signature)[20:].decode()


# Retries


class Unreachable(Exception):
    """A call got no response with status 200."""


class Unusable(Exception):
    """A call got a response with status 200 that the SDK cannot read."""


# CRC-64/XZ (protocol, section 4.4).
crc64 = crcmod.mkCrcFun(0x142F0E1EBA9EA3693, initCrc=0, xorOut=(1 << 64) - 1, rev=True)


def is_clock_problem(error):
    """Whether an error of COS says that a clock is wrong, as all SDKs understand it (protocol, section 4.5)."""
    has_expired = error.code == "AccessDenied" and "<Message>Request has expired</Message>" in error.message
    return error.code == "RequestTimeTooSkewed" or has_expired


def date_of(error):
    """The time of the server in its response; `None` if it does not say."""
    text = error.answer.headers.get("Date")
    return email.utils.parsedate_to_datetime(text).timestamp() if text else None


class Clock:
    """The clock of a device, which may be wrong and is corrected by its SDK."""

    # Seconds that it is ahead.
    error = 0
    # What the SDK adds.
    correction = 0

    def now(self):
        return time.time() + self.error + self.correction

    def correct(self, server_time):
        self.correction += server_time - self.now()


class RetryingJS(VodJS):
    """vod-js-sdk-v6 with its retries (protocol, sections 2.5, 2.6 and 2.8)."""

    # Seconds between two tries of a call; one in the SDK.
    pause = 0.05
    tries = 4
    part_tries = 3

    def __init__(self, server, signature, backup=None):
        super().__init__(server, signature, backup)
        # What the browser keeps for the page.
        self.storage = {}
        self.clock = Clock()
        # The number of the host that is asked.
        self.turn = 0
        self.session_key = None
        self.files = None
        # When it first used its credentials.
        self.since = None

    # Calls

    def call(self, action, body):
        """The data of one try. A failure of the transport makes it change the host."""
        try:
            answer = self.send(self.hosts[self.turn], action, body)
            if answer.status_code != 200:
                raise Unreachable(answer.status_code)
        except (requests.RequestException, Unreachable):
            self.turn = (self.turn + 1) % len(self.hosts)
            raise
        answer = answer.json()
        if answer["code"] != 0:
            raise Refused(answer["code"], answer["message"])
        return answer["data"]

    def persist(self, action, body, failed=lambda: None):
        """The data of a call. Each try has a new signature and a new `body()`."""
        for left in reversed(range(self.tries)):
            try:
                return self.call(action, {"signature": self.signature()} | body())
            except (requests.RequestException, Unreachable, Refused):
                failed()
                if not left:
                    raise
            time.sleep(self.pause)
        return None

    def apply(self, files):
        name = json.dumps(files)

        def body():
            key = self.session_key or self.storage.get(name)
            return {"vodSessionKey": key} if key else files

        data = self.persist("ApplyUploadUGC", body, lambda: self.storage.pop(name, None))
        self.check_application(data, files)
        self.storage[name] = self.session_key = data["vodSessionKey"]
        self.applied, self.files = data, files
        return data

    def commit(self, session_key=None):
        self.forget()
        data = self.persist("CommitUploadUGC", lambda: {"vodSessionKey": session_key or self.session_key})
        self.check_commitment(data)
        return data

    def forget(self):
        self.storage.pop(json.dumps(self.files), None)

    # COS

    def refresh(self):
        """Applies again once 90 % of the life of the credentials, and all but their last minute, have passed."""
        now = int(self.clock.now())
        end = self.applied["tempCertificate"]["expiredTime"]
        if self.since is None:
            self.since = now
        elif end - now <= 60 and now - self.since >= 0.9 * (end - self.applied["timestamp"]):
            self.apply(self.files)
            self.since = now

    def may_repeat(self, error):
        if not is_clock_problem(error):
            return error.answer.status_code >= 500
        date = date_of(error)
        if date is None or abs(self.clock.now() - date) < 30:
            return False
        self.clock.correct(date)
        return True

    def cos(self, *arguments, **options):
        for has_another_try in (True, False):
            self.refresh()
            try:
                return super().cos(*arguments, **options)
            except Refused as error:
                if not has_another_try or not self.may_repeat(error):
                    raise
        return None

    def repeat(self, work):
        """Whatever the failure is, also after a 403."""
        for left in reversed(range(self.part_tries)):
            try:
                return work()
            except (requests.RequestException, Refused):
                if not left:
                    raise
        return None

    def put_part(self, path, upload, number, data):
        send = super().put_part
        return self.repeat(lambda: send(path, upload, number, data))

    def complete(self, path, upload, tags):
        parts = "".join(
            f"\n  <Part>\n    <PartNumber>{number}</PartNumber>\n    <ETag>{tags[number]}</ETag>\n  </Part>"
            for number in sorted(tags)
        ).replace('"', "&quot;")
        body = (
            '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
            f"<CompleteMultipartUpload>{parts}\n</CompleteMultipartUpload>"
        ).encode()
        digest = b64encode(hashlib.md5(body).digest()).decode()
        fields = {"content-type": "application/xml", "content-md5": digest}
        about = {"uploadId": upload}
        answer = self.repeat(lambda: self.cos("POST", path, about, body, fields, signed=["content-md5"]))
        assert self.xml(answer).findtext("ETag")

    def upload(self, video, cover=None, name="测试 vid", stop_after=None):
        files = announced(len(video), cover and len(cover)) | {"videoName": name}
        self.apply(files)
        try:
            for kind, data in [("video", video), ("cover", cover)]:
                if data is not None and not self.send_file(self.applied[kind]["storagePath"], data, stop_after):
                    return None
        except (requests.RequestException, Refused):
            self.forget()
            raise
        return self.commit()


class RetryingPhone(Phone):
    """A phone with its retries over two hosts, and the retcode for each failure (protocol, section 2.5)."""

    host_tries = 2
    cos_tries = 4
    # Whether a status other than 200 is tried again.
    repeats_refusals = False

    def __init__(self, server, signature, backup=None):
        super().__init__(server, signature, backup)
        self.clock = Clock()
        self.body = None

    # Calls

    def call(self, action, body):
        last = None
        for host in [host for host in self.hosts for _ in range(self.host_tries)]:
            try:
                answer = self.send(host, action, body)
            except requests.RequestException as error:
                last = Unreachable(str(error))
                continue
            if answer.status_code == 200:
                try:
                    return answer.json()
                except ValueError as error:
                    raise Unusable(answer.text) from error
            last = Unreachable(f"status {answer.status_code}")
            if not self.repeats_refusals:
                break
        raise last

    def apply(self, body):
        self.body = body
        with self.readable():
            return super().apply(body)

    def commit(self, session_key=None):
        with self.readable():
            data = super().commit(session_key)
            assert "coverName" not in self.body or "cover" in data
            return data

    @contextlib.contextmanager
    def readable(self):
        """A response without something that the SDK needs is unusable."""
        try:
            yield
        except (AssertionError, KeyError, TypeError) as error:
            raise Unusable(repr(error)) from error

    # COS

    def may_repeat(self, error):
        return error.answer.status_code >= 500

    def cos(self, *arguments, **options):
        for left in reversed(range(self.cos_tries)):
            try:
                return super().cos(*arguments, **options)
            except requests.RequestException:
                if not left:
                    raise
            except Refused as error:
                if not left or not self.may_repeat(error):
                    raise
        return None

    # The upload

    @contextlib.contextmanager
    def reporting(self, unreachable, unusable, refused):
        """Retcodes of a step; `refused`: a function of the code. After any failure the session is forgotten."""
        try:
            yield
        except (Unreachable, requests.RequestException) as error:
            self.kept = None
            raise Refused("unreachable", str(error), unreachable) from error
        except Unusable as error:
            self.kept = None
            raise Refused("unusable", str(error), unusable) from error
        except Refused as error:
            self.kept = None
            raise Refused(error.code, error.message, refused(error.code), error.answer) from error

    def upload(self, video, cover=None, name="clip", stop_after=None):
        with contextlib.suppress(Unreachable, Unusable, Refused):
            self.prepare()
        with self.reporting(1001, 1002, self.retcode_of_apply):
            self.apply(self.request(video, cover, name))
        with self.reporting(1003, 1003, lambda _: 1003):
            if not self.send_video(self.applied["video"]["storagePath"], video, stop_after):
                return None
        if cover is not None:
            with self.reporting(1004, 1004, lambda _: 1004):
                self.put_cover(self.applied["cover"]["storagePath"], cover)
        with self.reporting(1005, 1006, lambda _: 1006):
            data = self.commit()
        self.kept = None
        return data

    def put_cover(self, path, data):
        self.cos("PUT", path, data=data, headers={"content-type": "image/png"}, signed=["content-type"])


class RetryingIOS(RetryingPhone, IOS):
    repeats_refusals = True

    def window(self):
        start, end = super().window()
        local = int(self.clock.now())
        return (start if local > start + 600 else local), end

    def may_repeat(self, error):
        if not is_clock_problem(error):
            return super().may_repeat(error)
        date = date_of(error)
        if date is None or self.clock.now() - date < 60:
            return False
        self.clock.correct(date)
        return True

    def send_video(self, path, data, stop_after):
        if len(data) > PART:
            return super().send_video(path, data, stop_after)
        self.cos("PUT", path, data=data, signed=["content-length"])
        return True


class RetryingAndroid(RetryingPhone, Android):
    def window(self):
        start, end = super().window()
        local = int(self.clock.now())
        return (start if abs(local - start) > 300 else local), end

    def may_repeat(self, error):
        if error.code != "RequestTimeTooSkewed":
            return super().may_repeat(error)
        self.apply(self.body | {"vodSessionKey": self.applied["vodSessionKey"]})
        return True

    def send_video(self, path, data, stop_after):
        """If COS does not know the upload any more, it may be complete."""
        try:
            return super().send_video(path, data, stop_after)
        except Refused as error:
            if error.code != "NoSuchUpload":
                raise
            head = self.cos("HEAD", path)
            if head.headers["x-cos-hash-crc64ecma"] != str(crc64(data)):
                raise
            return True


def own_signature(pair, **fields):
    """A signature that a backend makes itself, with any pair; a field that is `None` is left out."""
    now = int(time.time())
    values = {"secretId": pair[0], "currentTimeStamp": now, "expireTime": now + 600, "random": 7} | fields
    text = urlencode({name: value for name, value in values.items() if value is not None}).encode()
    return b64encode(hmac.digest(pair[1].encode(), text, "sha1") + text).decode()
