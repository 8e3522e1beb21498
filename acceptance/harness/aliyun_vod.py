"""App servers and upload clients of Alibaba Cloud VOD: the vendor's SDKs, unmodified, aimed at a gateway; signing of
version 1 and 3 that shares nothing with the gateway; and apps that receive its events."""

import base64
import hashlib
import hmac
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

import alibabacloud_oss_v2 as oss_v2
import oss2
import requests
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException
from alibabacloud_tea_openapi.models import Config
from alibabacloud_vod20170321 import models
from alibabacloud_vod20170321.client import Client
from aliyunsdkcore.acs_exception.exceptions import ServerException
from aliyunsdkcore.auth.credentials import AccessKeyCredential, StsTokenCredential
from aliyunsdkcore.client import AcsClient
from aliyunsdksts.request.v20150401.AssumeRoleRequest import AssumeRoleRequest

from harness.api import API
from harness.http_server import Recorder
from harness.object_clients.calls import Changing

VERSION = "2017-03-21"
REGION = "cn-shanghai"
BUCKET = "outin-sluice"
APP = "app-1000000"
ROLE = "acs:ram::1234567890123456:role/uploader"
# Where SDKs send what their settings do not redirect.
HOST = f"vod.{REGION}.aliyuncs.com"
ACTIONS = {
    "mint": ["CreateUploadVideo", "CreateUploadImage", "CreateUploadAttachedMedia", "RefreshUploadVideo"],
    "upload": ["UpdateVideoInfo", "UploadMediaByURL", "SetMessageCallback"],
    "read": [
        "GetURLUploadInfos",
        "GetUploadDetails",
        "GetVideoInfo",
        "GetVideoInfos",
        "GetMezzanineInfo",
        "GetPlayInfo",
        "GetImageInfo",
        "SearchMedia",
        "GetMessageCallback",
    ],
    "delete": ["DeleteMultipartUpload", "DeleteVideo", "DeleteImage"],
}


class Refused(Exception):
    """The answer to a call was an error."""

    def __init__(self, status, code, message, request_id):
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id


def address(server):
    return urlsplit(server.url).netloc


# SDKs. Each is called with an action and its parameters, and returns plain objects. `credentials`: a pair, or a pair
# and a token.


class Core:
    """aliyun-python-sdk-core and -vod. By default it sends an empty POST with all parameters in the query."""

    def __init__(self, server, credentials=None, method="POST", is_form=False):
        credentials = credentials or server.pair()
        credential = StsTokenCredential(*credentials) if len(credentials) == 3 else AccessKeyCredential(*credentials)
        self.client = AcsClient(region_id=REGION, credential=credential, auto_retry=False, timeout=60)
        self.client.add_endpoint(REGION, "vod", address(server))
        self.method = method
        self.is_form = is_form

    def __call__(self, action, **parameters):
        module = importlib.import_module(f"aliyunsdkvod.request.v20170321.{action}Request")
        request = getattr(module, f"{action}Request")()
        request.set_protocol_type("http")
        request.set_method(self.method)
        for name, value in parameters.items():
            if self.is_form:
                request.add_body_params(name, value)
            else:
                getattr(request, f"set_{name}")(value)
        try:
            return json.loads(self.client.do_action_with_exception(request))
        except ServerException as error:
            raise Refused(
                error.get_http_status(), error.get_error_code(), error.get_error_msg(), error.get_request_id()
            ) from error


class Tea:
    """alibabacloud-vod20170321; answers have what its models know, with the types that they say."""

    METHODS = {
        name.replace("_", ""): name
        for name in dir(Client)
        if not name.endswith(("_with_options", "_async")) and not name.startswith("_")
    }

    def __init__(self, server, credentials=None, **settings):
        credentials = credentials or server.pair()
        token = {"security_token": credentials[2], "type": "sts"} if len(credentials) == 3 else {}
        self.client = Client(
            Config(
                access_key_id=credentials[0],
                access_key_secret=credentials[1],
                endpoint=address(server),
                protocol="http",
                region_id=REGION,
                read_timeout=60_000,
                **token,
                **settings,
            )
        )

    def __call__(self, action, **parameters):
        request = getattr(models, f"{action}Request")().from_map(parameters)
        try:
            body = getattr(self.client, self.METHODS[action.lower()])(request).body
        except AlibabaCloudException as error:
            data = error.data or {}
            raise Refused(error.status_code, error.code, error.message, data.get("RequestId")) from error
        check_types(body)
        return body.to_map()


def check_types(model):
    """SDKs in languages with static types cannot read a number where they expect a text."""
    texts = inspect.get_annotations(type(model).__init__)
    for name, annotation in texts.items():
        value = getattr(model, name, None)
        if value is None or name == "return":
            continue
        values, kind = ([value], annotation)
        if found := re.fullmatch(r"List\[(.*)\]", str(annotation)):
            assert isinstance(value, list), (type(model).__name__, name, value)
            values, kind = value, found[1]
        for one in values:
            if hasattr(one, "to_map"):
                check_types(one)
                continue
            types = {"str": str, "int": int, "float": (int, float), "bool": bool}
            wanted = types.get(kind if isinstance(kind, str) else kind.__name__)
            good = wanted and isinstance(one, wanted) and (wanted is bool or not isinstance(one, bool))
            assert good, f"{type(model).__name__}.{name} is {one!r}, and the SDK expects {kind}"


class Plain:
    """No SDK: signed here by version 1, with any method, format and place of the parameters."""

    def __init__(self, server, credentials=None, method="POST", place="query", format="JSON"):
        self.server = server
        self.credentials = credentials or server.pair()
        self.method = method
        self.place = place
        self.format = format

    def answer(self, action, parameters=None, **options):
        """The response; `options` of `version1`."""
        text = {name: str(value) for name, value in (parameters or {}).items()}
        text |= {"Action": action, "Format": self.format}
        signed = version1(self.credentials, text, self.method, **options)
        return sent(self.server.url, signed, self.method, self.place)

    def __call__(self, action, **parameters):
        return checked(self.answer(action, parameters), action, self.format)


def sent(url, parameters, method="POST", place="query"):
    """The response to a call with these parameters; `place`: `query`, `form` or `both`."""
    items = list(parameters.items())
    cut = {"query": len(items), "form": 0, "both": len(items) // 2}[place]
    return requests.request(method, url + "/", params=items[:cut], data=items[cut:] or None, timeout=60)


def checked(answer, action="", format="JSON"):
    """What is in an answer, or its error; its form is always that of the vendor."""
    assert answer.headers["Cache-Control"] == "no-store"
    kind = {"JSON": "application/json;charset=utf-8", "XML": "text/xml;charset=utf-8"}[format]
    assert answer.headers["Content-Type"].replace(" ", "").lower() == kind, answer.headers
    if format == "JSON":
        document = answer.json()
        if answer.status_code == 200:
            assert document["RequestId"]
            return document
        assert document.keys() >= {"RequestId", "HostId", "Code", "Message"}, document
    else:
        root = ElementTree.fromstring(answer.content)
        if answer.status_code == 200:
            assert root.tag == f"{action}Response" and root.findtext("RequestId")
            return root
        assert root.tag == "Error"
        document = {one.tag: one.text for one in root}
        assert document.keys() >= {"RequestId", "HostId", "Code", "Message"}, document
    raise Refused(answer.status_code, document["Code"], document["Message"], document["RequestId"])


def refusal(call, *arguments, **parameters):
    """Status and code with which a call is refused; `None` if it is not."""
    try:
        call(*arguments, **parameters)
    except Refused as error:
        assert error.request_id and error.message
        return error.status, error.code
    return None


def session(server, pair=None, policy=None, name="alice", duration=900):
    """Credentials of AssumeRole at the object endpoint, by the vendor's SDK."""
    client = AcsClient(region_id=REGION, credential=AccessKeyCredential(*(pair or server.pair())), auto_retry=False)
    client.add_endpoint(REGION, "Sts", urlsplit(server.object_url).netloc)
    request = AssumeRoleRequest()
    request.set_protocol_type("http")
    request.set_RoleArn(ROLE)
    request.set_RoleSessionName(name)
    request.set_DurationSeconds(duration)
    if policy:
        request.set_Policy(json.dumps(policy))
    found = json.loads(client.do_action_with_exception(request))["Credentials"]
    return found["AccessKeyId"], found["AccessKeySecret"], found["SecurityToken"]


def allowing(*actions, resource="*"):
    """A policy of RAM."""
    return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": resource}]}


# Signatures (protocol, section 3)


def escaped(text):
    return quote(text, safe="~")


def version1(credentials, parameters, method="POST", when=None, nonce=None, stamp="%Y-%m-%dT%H:%M:%SZ", **changes):
    """All parameters of a call, with its signature. `changes`: other common parameters; `None` leaves one out."""
    token = {"SecurityToken": credentials[2]} if len(credentials) == 3 else {}
    common = {
        "Version": VERSION,
        "AccessKeyId": credentials[0],
        "SignatureMethod": "HMAC-SHA1",
        "SignatureVersion": "1.0",
        "SignatureNonce": str(uuid.uuid4()) if nonce is None else nonce,
        "Timestamp": (when or datetime.now(UTC)).strftime(stamp),
    }
    parameters = {name: value for name, value in (common | token | parameters | changes).items() if value is not None}
    return parameters | {"Signature": version1_signature(credentials[1], parameters, method)}


def version1_signature(secret, parameters, method):
    query = "&".join(
        f"{escaped(name)}={escaped(value)}"
        for name, value in sorted(parameters.items(), key=lambda item: item[0].encode())
    )
    text = f"{method}&%2F&{escaped(query)}"
    return base64.b64encode(hmac.digest(f"{secret}&".encode(), text.encode(), "sha1")).decode()


def acs3(secret, fields, parameters, method="POST"):
    """Canonical hash and signature of version 3 over these header fields; the hash of the body is one of them."""
    lower = sorted((name.lower(), value.strip()) for name, value in fields.items())
    query = "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sorted(parameters.items()))
    block = "".join(f"{name}:{value}\n" for name, value in lower)
    names = ";".join(name for name, _ in lower)
    canonical = f"{method}\n/\n{query}\n{block}\n{names}\n{fields['x-acs-content-sha256']}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"ACS3-HMAC-SHA256\n{hashed}"
    return hashed, hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def version3(server, credentials, action, parameters, body=b"", method="POST", when=None, **changes):
    """The response to a call that is signed by version 3. `changes`: header fields with `_` for `-`, after signing."""
    fields = {
        "host": address(server),
        "x-acs-action": action,
        "x-acs-version": VERSION,
        "x-acs-date": (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-signature-nonce": uuid.uuid4().hex,
        "x-acs-content-sha256": hashlib.sha256(body).hexdigest(),
    }
    if len(credentials) == 3:
        fields |= {"x-acs-accesskey-id": credentials[0], "x-acs-security-token": credentials[2]}
    _, signature = acs3(credentials[1], fields, parameters, method)
    names = ";".join(sorted(fields))
    fields["Authorization"] = (
        f"ACS3-HMAC-SHA256 Credential={credentials[0]},SignedHeaders={names},Signature={signature}"
    )
    fields |= {name.replace("_", "-"): value for name, value in changes.items()}
    fields = {name: value for name, value in fields.items() if value is not None}
    url = f"{server.url}/?{urlencode(parameters)}"
    return requests.request(method, url, data=body, headers=fields, timeout=60)


# Addresses and credentials of uploads (protocol, section 2.4)


@dataclass
class Grant:
    """UploadAddress and UploadAuth of an answer, decoded as upload SDKs do."""

    address: dict
    auth: dict

    @property
    def key(self):
        return self.address["FileName"]

    @property
    def bucket(self):
        return self.address["Bucket"]

    @property
    def credentials(self):
        return self.auth["AccessKeyId"], self.auth["AccessKeySecret"], self.auth["SecurityToken"]


def media_id(answer):
    return answer.get("VideoId") or answer.get("ImageId") or answer.get("MediaId")


def grant(answer):
    """Checks that each upload SDK can read it."""

    def decoded(name):
        text = base64.b64decode(answer[name], validate=True).decode()
        value = json.loads(text)
        assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False) or "\\" in text, text
        return value

    found = Grant(decoded("UploadAddress"), decoded("UploadAuth"))
    assert re.fullmatch("[0-9a-f]{32}", media_id(answer)), answer
    # Without a scheme, and without one of these, the SDK for browsers does not begin.
    assert re.match("https?://", found.address["Endpoint"]) and found.bucket and found.key
    assert found.auth.keys() == {
        "AccessKeyId",
        "AccessKeySecret",
        "SecurityToken",
        "ExpireUTCTime",
        "Expiration",
        "Region",
    }
    # Signatures split the id at these characters, and not every SDK encodes others.
    assert re.fullmatch(r"STS\.[A-Za-z0-9]+", found.auth["AccessKeyId"])
    assert re.fullmatch("[A-Za-z0-9]+", found.auth["AccessKeySecret"])
    assert re.fullmatch("[A-Za-z0-9+/=_.-]{1,4095}", found.auth["SecurityToken"])
    assert re.fullmatch(r"\d+", found.auth["Expiration"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.auth["ExpireUTCTime"])
    return found


def create(server, type="video", key=None, **fields):
    """A new upload by the REST API: its answer. It needs no clock."""
    wanted = {"video": {"title": "t", "fileName": "v.mp4"}, "image": {"imageType": "default"}}
    wanted = wanted.get(type, {"businessType": "material", "mediaExt": "txt"})
    answer = API(server.url, key or server.admin_key).post("/v1/aliyun/uploads", {"type": type} | wanted | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refresh(server, identifier, key=None):
    answer = API(server.url, key or server.admin_key).post(f"/v1/aliyun/uploads/{identifier}/refresh")
    assert answer.status_code == 200, answer.text
    return answer.json()


def oss(granted, version="v1", endpoint=None, change=None, **options):
    """oss2 with the credentials of an upload. `change(request)` sees each request before it is sent."""
    auth = oss2.StsAuth(*granted.credentials, auth_version=version)
    endpoint = endpoint or granted.address["Endpoint"]
    new = oss2.Session(adapter=Changing(change)) if change else oss2.Session()
    return oss2.Bucket(auth, endpoint, granted.bucket, session=new, region=REGION, connect_timeout=60, **options)


def newer_oss(granted, endpoint=None, provider=None):
    """alibabacloud-oss-v2."""
    config = oss_v2.config.load_default()
    config.credentials_provider = provider or oss_v2.credentials.StaticCredentialsProvider(*granted.credentials)
    config.region = REGION
    config.endpoint = endpoint or granted.address["Endpoint"]
    config.retry_max_attempts = 1
    config.readwrite_timeout = 60
    return oss_v2.Client(config)


def oss_refusal(call, *arguments, **parameters):
    """Status and code with which either SDK of OSS is refused; `None` if it is not."""
    try:
        call(*arguments, **parameters)
    except oss2.exceptions.OssError as error:
        return error.status, error.code
    except oss_v2.exceptions.BaseError as error:
        # The response is inside the errors of the request and of the uploader.
        while not isinstance(error, oss_v2.exceptions.ServiceError):
            error = error.unwrap()
        return error.status_code, error.code
    return None


def stored(server, granted):
    """The bytes of an upload, read by S3."""
    return server.client().get_object(Bucket=granted.bucket, Key=granted.key)["Body"].read()


def voduploadsdk(server, kind, path, pair=None, check=True, **options):
    """voduploadsdk in a process of its own, for its settings are global: what it returned.

    `options`: the fields of its request, and `wait`, seconds between the call and the bytes.
    """
    wanted = {
        "pair": pair or server.pair(),
        "address": address(server),
        "kind": kind,
        "path": str(path),
        "options": options,
    }
    acceptance = Path(__file__).resolve().parents[1]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    # What goes to the host of the vendor comes to the gateway with an absolute target.
    environment |= {"http_proxy": server.url, "no_proxy": "127.0.0.1", "PYTHONPATH": str(acceptance)}
    done = subprocess.run(
        [sys.executable, "-m", "harness.aliyun_upload"],
        input=json.dumps(wanted),
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(last)
    return done.returncode, done.stdout + done.stderr


# Events (protocol, section 7)


def event_signature(url, timestamp, key):
    return hashlib.md5(f"{url}|{timestamp}|{key}".encode()).hexdigest()


@dataclass
class Event:
    path: str
    fields: dict
    payload: dict

    @property
    def type(self):
        return self.payload["EventType"]

    @property
    def media(self):
        for name in ("VideoId", "ImageId", "AttachedMediaId", "MediaId"):
            if self.payload.get(name):
                return self.payload[name]
        return None


class EventApp(Recorder):
    """Receives events and answers with `reply(event)`, by default 200."""

    def __init__(self, reply=lambda _: 200, port=0):
        self.reply = reply
        super().__init__(port=port)

    def handle(self, request):
        body = request.content()
        try:
            assert request.headers["Content-Type"].startswith("application/json"), dict(request.headers)
            event = Event(request.path, dict(request.headers.items()), json.loads(body))
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.payload["EventTime"]), event
            assert event.type
        except Exception as failure:
            self.failures.append(failure)
            request.send_error(400)
            return
        self.record(event)
        request.respond(self.reply(event))

    def of(self, media, type=None):
        """The events of a media so far."""
        return self.those(lambda one: one.media == media and type in (None, one.type))

    def wait(self, media, type=None, count=1, timeout=30):
        """Waits for this many events of a media and returns them."""
        self.wait_for(lambda: len(self.of(media, type)) >= count, f"{count} × {type} of {media}", timeout)
        return self.of(media, type)
