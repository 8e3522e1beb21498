"""App servers that call Tencent Cloud VOD API 3.0: the vendor's SDK, its upload SDK for servers and its command line,
unmodified, aimed at a gateway; and signing of version 1 and 3 that shares nothing with the gateway."""

import functools
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import qcloud_vod.vod_upload_client
import requests
from qcloud_vod.model import VodUploadRequest
from qcloud_vod.vod_upload_client import VodUploadClient
from tencentcloud.common.credential import Credential
from tencentcloud.common.profile.client_profile import ClientProfile
from tencentcloud.common.profile.http_profile import HttpProfile
from tencentcloud.vod.v20180717 import models
from tencentcloud.vod.v20180717.vod_client import VodClient

from harness.server import run

VERSION = "2018-07-17"
REGION = "ap-guangzhou"


def own_pair(server):
    """The pair with which the gateway signs for upload SDKs."""
    printed = json.loads(run("credentials", "tencent", environment=server.environment).stdout)
    return printed["secretId"], printed["secretKey"]


def address(server):
    return urlsplit(server.url).netloc


def profile(server, scheme="TC3-HMAC-SHA256", method="POST"):
    protocol = urlsplit(server.url).scheme
    http = HttpProfile(protocol=protocol, endpoint=address(server), reqMethod=method, reqTimeout=60)
    # As for requests; the SDK itself knows only public authorities.
    http.certification = os.environ.get("REQUESTS_CA_BUNDLE")
    return ClientProfile(scheme, http)


class SDK:
    """tencentcloud-sdk-python-vod; answers are plain objects."""

    def __init__(self, server, pair=None, **options):
        self.client = VodClient(Credential(*(pair or own_pair(server))), REGION, profile(server, **options))

    def __call__(self, action, **parameters):
        request = getattr(models, f"{action}Request")()
        request.from_json_string(json.dumps(parameters))
        return json.loads(getattr(self.client, action)(request).to_json_string())


def upload(server, pair, path, cover=None, sub_app=None, **fields):
    """vod-python-sdk: a whole upload from files. Returns `FileId`, `MediaUrl` and `CoverUrl`."""
    request = VodUploadRequest()
    request.MediaFilePath = str(path)
    if cover:
        request.CoverFilePath = str(cover)
    request.SubAppId = sub_app
    for name, value in fields.items():
        setattr(request, name, value)
    objects = urlsplit(server.object_url)
    # The SDK has no setting for its endpoints.
    module = qcloud_vod.vod_upload_client
    api, config = module.vod_client.VodClient, module.CosConfig
    patched = mock.Mock()
    patched.VodClient = lambda credential, region: api(credential, region, profile(server))
    # With TLS, the name of the bucket is in the host, which must match the certificate.
    where = {"IP": objects.hostname, "Port": objects.port} if objects.scheme == "http" else {"Endpoint": objects.netloc}
    cos = functools.partial(config, Scheme=objects.scheme, **where)
    with mock.patch.object(module, "vod_client", patched), mock.patch.object(module, "CosConfig", cos):
        answer = VodUploadClient(*pair).upload(REGION, request)
    return json.loads(answer.to_json_string())


def tccli(server, pair, action, *arguments, check=True):
    """The vendor's command line. Returns its answer, or what it prints of an error."""
    command = Path(sys.executable).parent / "tccli"
    environment = {
        name: value for name, value in os.environ.items() if "proxy" not in name.lower() and "TENCENT" not in name
    } | {"TENCENTCLOUD_SECRET_ID": pair[0], "TENCENTCLOUD_SECRET_KEY": pair[1]}
    done = subprocess.run(
        [command, "vod", action, *arguments, "--region", REGION, "--endpoint", server.url],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)
    return done.stdout + done.stderr


def tc3(pair, host, body, action, now=None, service="vod", version=VERSION, day=None):
    """Header fields of a call that is signed by version 3 (protocol, section 3.2)."""
    now = int(time.time()) if now is None else now
    day = day or time.strftime("%Y-%m-%d", time.gmtime(now))

    def digest(data):
        return hashlib.sha256(data).hexdigest()

    def code(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256)

    signed = f"content-type:application/json\nhost:{host}\n"
    canonical = f"POST\n/\n\n{signed}\ncontent-type;host\n{digest(body)}"
    scope = f"{day}/{service}/tc3_request"
    text = f"TC3-HMAC-SHA256\n{now}\n{scope}\n{digest(canonical.encode())}"
    key = f"TC3{pair[1]}".encode()
    for part in scope.split("/"):
        key = code(key, part).digest()
    return {
        "Content-Type": "application/json",
        "Host": host,
        "X-TC-Action": action,
        "X-TC-Version": version,
        "X-TC-Timestamp": str(now),
        "Authorization": f"TC3-HMAC-SHA256 Credential={pair[0]}/{scope}, SignedHeaders=content-type;host, "
        f"Signature={code(key, text).hexdigest()}",
    }


def call(server, pair, action, body, **options):
    """The `Response` of a call with any content; its status and type are always the same."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = requests.post(server.url + "/", data=data, headers=tc3(pair, address(server), data, action, **options))
    return checked(answer)


def checked(answer):
    assert answer.status_code == 200, answer.text
    # The Python SDK overlooks errors with any other type.
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    document = answer.json()
    assert set(document) == {"Response"} and document["Response"]["RequestId"]
    return document["Response"]


def refused(server, pair, action, body, **options):
    """The code with which a call is refused; `None` if it is not."""
    return call(server, pair, action, body, **options).get("Error", {}).get("Code")


def version1(pair, host, parameters, method="POST", now=None, nonce=1, algorithm="HmacSHA1"):
    """All parameters of a call that is signed by version 1 (protocol, section 5.1)."""
    parameters = parameters | {
        "SecretId": pair[0],
        "Timestamp": str(int(time.time()) if now is None else now),
        "Nonce": str(nonce),
        "SignatureMethod": algorithm,
    }
    joined = "&".join(f"{name}={parameters[name]}" for name in sorted(parameters))
    hashed = {"HmacSHA1": "sha1", "HmacSHA256": "sha256"}[algorithm]
    code = hmac.digest(pair[1].encode(), f"{method}{host}/?{joined}".encode(), hashed)
    return parameters | {"Signature": b64encode(code).decode()}
