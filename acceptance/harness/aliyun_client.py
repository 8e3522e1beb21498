"""Upload SDKs of ApsaraVideo VOD, replayed with their rules for errors (protocol, sections 5 and 6), and an app's
server.

The SDKs themselves run only on phones and in browsers. Signing is written here, so the gateway is not checked by its
own code.

    app = App(gateway)
    client = IOS(data)
    client.start(app.begin(data))
    while client.state == "expired":
        client.resume(app.refresh())
"""

import email.utils
import hashlib
import hmac
import json
import re
import time
import uuid
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree import ElementTree

import requests

from harness.api import API
from harness.data import KIB
from harness.ugc import Clock
from harness.vod_proxy import Respond

REGION = "cn-shanghai"
# What a smaller file is sent in one request for.
SMALL = 100 * KIB


def escaped(text):
    return quote(text, safe="-_.~")


def code_of(secret, text):
    return b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()


# The API


def rpc_signature(method, parameters, secret):
    """`Signature` of a call, version 1.0 (protocol, section 3.1)."""
    line = "&".join(
        f"{escaped(name)}={escaped(value)}"
        for name, value in sorted(parameters.items(), key=lambda one: one[0].encode())
    )
    return code_of(secret + "&", f"{method}&%2F&{escaped(line)}")


class VOD:
    """Calls of an app's server, signed by hand; each returns the response."""

    def __init__(self, server):
        self.server = server
        self.pair = server.pair()

    def __call__(self, action, **parameters):
        parameters = {name: str(value) for name, value in parameters.items()} | {
            "Action": action,
            "Version": "2017-03-21",
            "Format": "JSON",
            "AccessKeyId": self.pair[0],
            "SignatureMethod": "HMAC-SHA1",
            "SignatureVersion": "1.0",
            "SignatureNonce": str(uuid.uuid4()),
            "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        signature = rpc_signature("POST", parameters, self.pair[1])
        return requests.post(self.server.url + "/", data=parameters | {"Signature": signature}, timeout=30)


def decoded(text):
    """An UploadAuth or an UploadAddress."""
    return json.loads(b64decode(text))


class App:
    """An app's server: one media, and how often its credentials were refreshed."""

    def __init__(self, server, **wanted):
        self.server = server
        self.wanted = wanted
        self.begun = None
        # The credentials that it has given last.
        self.auth = None
        self.refreshes = 0

    @property
    def api(self):
        return API(self.server.url, self.server.admin_key, verify=getattr(self.server, "authority", True))

    @property
    def id(self):
        return self.begun["VideoId"]

    @property
    def address(self):
        return decoded(self.begun["UploadAddress"])

    def begin(self, data=b"", **wanted):
        body = {"title": "Holiday", "fileName": "日本 a+b~.mp4", "fileSize": len(data), "subject": "dora"}
        body = {name: value for name, value in (body | self.wanted | wanted).items() if value is not None}
        answer = self.api.post("/v1/aliyun/uploads", body)
        assert answer.status_code == 201, answer.text
        self.begun = answer.json()
        self.auth = decoded(self.begun["UploadAuth"])
        return self.begun

    def refresh(self):
        """Other credentials for the same media and the same address."""
        answer = self.api.post(f"/v1/aliyun/uploads/{self.id}/refresh")
        assert answer.status_code == 200, answer.text
        begun = answer.json()
        assert (begun["VideoId"], begun["UploadAddress"]) == (self.id, self.begun["UploadAddress"])
        assert begun["UploadAuth"] != self.begun["UploadAuth"]
        self.auth = decoded(begun["UploadAuth"])
        self.refreshes += 1
        return begun


# Signatures and errors of OSS

SUBRESOURCES = {"uploads", "uploadId", "partNumber"}


def oss_signature(secret, method, bucket, key, query=None, headers=None):
    """The signature of version 1 in a header field (protocol, section 5.2)."""
    fields = {name.lower(): value for name, value in (headers or {}).items()}
    own = "".join(f"{name}:{fields[name]}\n" for name in sorted(fields) if name.startswith("x-oss-"))
    parts = [
        f"{name}={value}" if value != "" else name
        for name, value in sorted((query or {}).items())
        if name in SUBRESOURCES
    ]
    resource = f"/{bucket}/{key}" + ("?" + "&".join(parts) if parts else "")
    date = fields.get("x-oss-date", fields.get("date", ""))
    lines = [method, fields.get("content-md5", ""), fields.get("content-type", ""), date, own + resource]
    return code_of(secret, "\n".join(lines))


class OSSError(Exception):
    """A response that is no success; `code`: of its document, or the status as text if it has none."""

    def __init__(self, answer):
        found = re.search("<Code>(.*?)</Code>", answer.text)
        self.code = found[1] if found else str(answer.status_code)
        self.status = answer.status_code
        self.answer = answer
        super().__init__(f"{self.status} {answer.text}")

    def element(self, name):
        found = re.search(f"<{name}>(.*?)</{name}>", self.answer.text)
        return found and found[1]


MESSAGES = {
    "SecurityTokenExpired": "The security token you provided has expired.",
    "InvalidAccessKeyId": "The OSS Access Key Id you provided does not exist in our records.",
    "SignatureDoesNotMatch": "The request signature we calculated does not match the signature you provided.",
    "RequestTimeTooSkewed": "The difference between the request time and the current time is too large.",
    "AccessDenied": "You have no right to access this object because of bucket acl.",
    "InvalidSecurityToken": "The security token you provided is invalid.",
    "InternalError": "Please contact the server administrator, oss@service.aliyun.com.",
    "NoSuchUpload": (
        "The specified upload does not exist. "
        "The upload ID may be invalid, or the upload may have been aborted or completed."
    ),
}


def iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def oss_error(status, code):
    """A fault of the proxy: an error as the vendor's service sends it (protocol, section 5.5)."""
    now = time.time()
    elements = {
        "Code": code,
        "Message": MESSAGES[code],
        "RequestId": "5C9F6CBDB007B7575C5395BA",
        "HostId": "bucket.oss-cn-shanghai.aliyuncs.com",
    }
    if code == "RequestTimeTooSkewed":
        elements |= {
            "MaxAllowedSkewMilliseconds": "900000",
            "RequestTime": iso(now - 3600),
            "ServerTime": iso(now),
        }
    body = "".join(f"\n  <{name}>{value}</{name}>" for name, value in elements.items())
    headers = {
        "Content-Type": "application/xml",
        "Server": "AliyunOSS",
        "x-oss-request-id": elements["RequestId"],
        "x-oss-server-time": "1",
    }
    return Respond(status, f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{body}\n</Error>\n', headers)


def document(answer):
    root = ElementTree.fromstring(answer.content)
    for element in root.iter():
        element.tag = element.tag.rsplit("}", 1)[-1]
    return root


# Clients


class Failed(Exception):
    """An error that the SDK itself finds."""


class Uploader:
    """What the SDKs have in common.

    After `start` and `resume`, `state` is what the app knows: `finished`, `expired` (it has to call `resume`),
    `failed`, or `hangs` (it hears nothing any more). What the SDK keeps on the device is in `record`.
    """

    # Bytes; the SDKs have 1 MiB.
    part_size = 100 * KIB
    parallel = 5
    # How often a request is sent again.
    retries = 0

    def __init__(self, data, record=None):
        self.data = data
        self.record = {} if record is None else record
        self.state = None
        self.error = None
        self.expiries = 0
        self.auth = None
        self.clock = Clock()
        # Called with the number of each part, before it is sent.
        self.before_part = lambda number: None
        self.http = requests.Session()
        self.http.trust_env = False

    def again(self):
        """The client of an app that was started again, with what the first one has kept."""
        return type(self)(self.data, self.record)

    # The app's side

    def start(self, begun):
        self.address = decoded(begun["UploadAddress"])
        self.auth = decoded(begun["UploadAuth"])
        self.run()

    def resume(self, begun):
        """Takes the credentials alone; the address is kept."""
        assert self.state == "expired"
        self.auth = decoded(begun["UploadAuth"])
        self.run()

    def upload(self, app, begun=None, most=10):
        """Whole, with other credentials as often as the SDK asks for them."""
        self.start(begun or app.begin(self.data))
        while self.state == "expired" and self.expiries <= most:
            self.resume(app.refresh())
        return self.state

    def run(self):
        try:
            self.transfer()
            self.state = "finished"
        except (OSSError, Failed, requests.RequestException) as error:
            self.error = error
            self.state = self.reaction(error)
            if self.state == "expired":
                self.expiries += 1

    def reaction(self, error):
        """The state after an error."""
        raise NotImplementedError

    def wait_for_expiry(self):
        """Until the credentials are refused, whenever that is."""
        while True:
            try:
                self.list_parts("0" * 32)
            except OSSError as error:
                if error.code == "SecurityTokenExpired":
                    return
            time.sleep(0.05)

    # Requests

    def may_repeat(self, error):
        """Whether a request is sent again after an error; corrects the clock if that helps."""
        if isinstance(error, requests.RequestException):
            return True
        if error.code != "RequestTimeTooSkewed":
            return False
        self.clock.correct(email.utils.parsedate_to_datetime(error.answer.headers["Date"]).timestamp())
        return True

    def dated(self):
        return {"Date": email.utils.formatdate(self.clock.now(), usegmt=True)}

    def send(self, method, query=None, data=b"", headers=None):
        """A request for the object, and again as the SDK does."""
        for left in reversed(range(self.retries + 1)):
            try:
                return self.send_once(method, query, data, headers)
            except (OSSError, requests.RequestException) as error:
                if not self.may_repeat(error) or not left:
                    raise
            data = self.repeated(method, data)
        return None

    def repeated(self, method, data):
        """What a request that is sent again carries."""
        return data

    def send_once(self, method, query=None, data=b"", headers=None):
        bucket, key = self.address["Bucket"], self.address["FileName"]
        query = {name: str(value) for name, value in (query or {}).items()}
        token = self.auth.get("SecurityToken")
        headers = (headers or {}) | self.dated() | ({"x-oss-security-token": token} if token else {})
        signature = oss_signature(self.auth["AccessKeySecret"], method, bucket, key, query, headers)
        headers["Authorization"] = f"OSS {self.auth['AccessKeyId']}:{signature}"
        line = "&".join(f"{name}={escaped(value)}" if value else name for name, value in query.items())
        url = f"{self.address['Endpoint']}/{bucket}/{quote(key)}" + (f"?{line}" if line else "")
        answer = self.http.request(method, url, data=data, headers=headers, timeout=60)
        if answer.status_code >= 300 or answer.status_code == 203:
            raise OSSError(answer)
        return answer

    # Operations

    content_type = {"Content-Type": "video/mp4"}
    # Besides the type, for the first and the last request.
    notification = {}

    def put(self):
        return self.send("PUT", data=self.data, headers=self.content_type | self.notification)

    def initiate(self):
        answer = self.send("POST", {"uploads": ""}, headers=self.content_type | self.notification)
        return document(answer).findtext("UploadId")

    def put_part(self, upload, number, data):
        """The tag of the part."""
        return self.send("PUT", {"partNumber": number, "uploadId": upload}, data).headers["ETag"]

    def list_parts(self, upload):
        """Tag and size of each part."""
        found, marker = {}, ""
        while True:
            more = {"part-number-marker": marker} if marker else {}
            root = document(self.send("GET", {"uploadId": upload} | more))
            for part in root.iter("Part"):
                found[int(part.findtext("PartNumber"))] = part.findtext("ETag"), int(part.findtext("Size"))
            if root.findtext("IsTruncated") != "true":
                return found
            marker = root.findtext("NextPartNumberMarker")

    def complete(self, upload, tags):
        parts = "".join(
            f"<Part>\n<PartNumber>{number}</PartNumber>\n<ETag>{tag}</ETag>\n</Part>\n"
            for number, tag in sorted(tags.items())
        )
        body = f"<CompleteMultipartUpload>\n{parts}</CompleteMultipartUpload>".encode()
        md5 = b64encode(hashlib.md5(body).digest()).decode()
        headers = {"Content-Type": "application/xml", "Content-MD5": md5} | self.notification
        answer = self.send("POST", {"uploadId": upload}, body, headers)
        # Otherwise it would be the response of a callback for iOS.
        assert answer.headers["Content-Type"] == "application/xml"
        return document(answer).findtext("ETag")

    # The upload

    @property
    def numbers(self):
        return range(1, -(-len(self.data) // self.part_size) + 1)

    def piece(self, number):
        return self.data[(number - 1) * self.part_size : number * self.part_size]

    def send_parts(self, upload, tags):
        """Sends parts at once, and adds their tags; none are begun after one has failed, which is raised."""
        left = [number for number in self.numbers if number not in tags]
        errors = []

        def work():
            while left and not errors:
                try:
                    number = left.pop(0)
                except IndexError:
                    return
                self.before_part(number)
                try:
                    tag = self.put_part(upload, number, self.piece(number))
                except (OSSError, requests.RequestException) as error:
                    errors.append(error)
                    return
                if not errors or self.keeps_late_parts:
                    self.arrived(tags, number, tag)

        with ThreadPoolExecutor(self.parallel) as pool:
            for one in [pool.submit(work) for _ in range(self.parallel)]:
                one.result()
        if errors:
            raise errors[0]

    # Whether a part that was under way when another one failed counts.
    keeps_late_parts = True

    def arrived(self, tags, number, tag):
        tags[number] = tag

    def transfer(self):
        raise NotImplementedError


class Phone(Uploader):
    """Keeps the id of the upload, and asks which parts have arrived."""

    retries = 2

    def transfer(self):
        if len(self.data) < SMALL:
            self.put()
            return
        upload, tags = self.found()
        if not upload:
            upload = self.record["uploadId"] = self.initiate()
        self.send_parts(upload, tags)
        self.complete(upload, tags)
        del self.record["uploadId"]

    def found(self):
        """The upload that was begun, with the tags of the parts that fit."""
        upload = self.record.get("uploadId")
        if not upload:
            return None, {}
        try:
            listed = self.list_parts(upload)
        except OSSError as error:
            if error.status != 404:
                raise
            return None, {}
        return upload, {number: tag for number, (tag, size) in listed.items() if self.fits(number, size)}

    def fits(self, number, size):
        raise NotImplementedError

    def reaction(self, error):
        """Any 403 is taken for expired credentials."""
        return "expired" if isinstance(error, OSSError) and error.status == 403 else "failed"


class IOS(Phone):
    """Section 6.1. Sends again after losses and for its clock."""

    retries = 3

    def fits(self, number, size):
        return size == len(self.piece(number))

    def put_part(self, upload, number, data):
        md5 = b64encode(hashlib.md5(data).digest()).decode()
        return self.send("PUT", {"partNumber": number, "uploadId": upload}, data, {"Content-MD5": md5}).headers["ETag"]


class Android(Phone):
    """Section 6.2. Sends again after errors of the server, too."""

    def may_repeat(self, error):
        return super().may_repeat(error) or (isinstance(error, OSSError) and error.status >= 500)

    def fits(self, number, size):
        if size != len(self.piece(number)):
            raise Failed(f"part {number} has {size} bytes")
        return True


class VodJS(Uploader):
    """Section 6.3: VOD-JS 1.5.0 with OSS JS 5.3.1. Never asks which parts have arrived.

    `again` is a page that was loaded again; one that was killed begins with other media.
    """

    # Only for its clock.
    retries = 5
    keeps_late_parts = False
    notification = {"x-oss-notification": b64encode(b'{"Vod":{}}').decode()}

    def may_repeat(self, error):
        """The right time is in the document; without it the SDK sends the request again without end."""
        if not isinstance(error, OSSError) or error.code != "RequestTimeTooSkewed":
            return False
        if not (now := error.element("ServerTime")):
            raise Failed("no ServerTime")
        self.clock.correct(datetime.fromisoformat(now).timestamp())
        return True

    def repeated(self, method, data):
        """It has read the file, and reads nothing more."""
        return b"" if method == "PUT" else data

    def dated(self):
        date = email.utils.formatdate(self.clock.now(), usegmt=True)
        return {"x-oss-date": date, "x-oss-user-agent": "aliyun-sdk-js/5.3.1 Chrome on Linux 64-bit"}

    def transfer(self):
        if "uploadId" not in self.record and len(self.data) < SMALL:
            self.put()
            return
        if "uploadId" not in self.record:
            self.record |= {"uploadId": self.initiate(), "doneParts": {}}
        upload, tags = self.record["uploadId"], self.record["doneParts"]
        if self.parallel > 1 and all(number in tags for number in self.numbers):
            # It waits for parts to end, and there are none.
            raise Failed("nothing to do")
        self.send_parts(upload, tags)
        self.complete(upload, tags)
        self.record.clear()

    def reaction(self, error):
        if isinstance(error, Failed):
            return "hangs"
        if not isinstance(error, OSSError):
            return "failed"
        if error.code in {"SecurityTokenExpired", "InvalidAccessKeyId", "SignatureDoesNotMatch"}:
            return "expired"
        if error.code == "NoSuchUpload":
            self.record.clear()
        return "failed"


class PatientVodJS(VodJS):
    """The same with `parallel: 1`."""

    parallel = 1
