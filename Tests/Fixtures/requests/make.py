"""Writes oss.json, cos.json, tencent.json and aliyun.json: requests as the SDKs of the vendors sign them.

    python3 -m venv /tmp/sdks && /tmp/sdks/bin/pip install oss2==2.19.1 alibabacloud-oss-v2==1.4.1 \\
        cos-python-sdk-v5==1.9.44 tencentcloud-sdk-python-common==3.1.195 qcloud-python-sts==3.1.6 \\
        aliyun-python-sdk-core==2.16.1 alibabacloud-tea-openapi==0.4.6
    /tmp/sdks/bin/python Tests/Fixtures/requests/make.py

The same requests come out each time. Each says in `source` which package has signed it. The files are read by
Tests/SigningTests/RequestVector.swift.
"""

import copy
import hashlib
import importlib.metadata
import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl, quote, urlsplit

FOLDER = Path(__file__).parent
RANDOM = random.Random(20260102)
NOW = 1767323045  # 2026-01-02 03:04:05 UTC
KEYS = [
    "sv/日本 a+b~/1.mp4", "a.txt", "a b/c d", "100%", "a+b", "~tilde_-.", "'(quote)*!", "a//b/./c", "é/e\u0301/🎬",
    "a;b:c@d,e$f", "[x]{y}|^`", "中文/文件 1.mp4",
]  # fmt: skip
OPERATIONS = [
    ("PUT", {}), ("POST", {"uploads": ""}), ("PUT", {"partNumber": "2", "uploadId": "0004B9895DBBB6EC98E36"}),
    ("GET", {"uploadId": "0004B9895DBBB6EC98E36", "max-parts": "1000", "part-number-marker": ""}),
    ("DELETE", {"uploadId": "a+b/c=d&e f"}), ("HEAD", {}),
    ("GET", {"response-content-disposition": 'attachment; filename="ü 1.mp4"'}),
    ("POST", {"append": "", "position": "0"}),
]  # fmt: skip
real_time = time.time
time.time = lambda: NOW


def package(name):
    return f"{name} {importlib.metadata.version(name)}"


def digest(body):
    return hashlib.sha256(body).hexdigest()


def pairs(mapping):
    return [[k, v.decode() if isinstance(v, bytes) else str(v)] for k, v in mapping.items() if v is not None]


def query_of(url):
    return [list(pair) for pair in parse_qsl(urlsplit(url).query, keep_blank_values=True)]


def vector(source, scheme, keys, **parts):
    identity, secret, token = keys
    return {"source": source, "scheme": scheme, "id": identity, "secret": secret, "token": token, "time": NOW} | parts


# MARK: OSS

BUCKET = "outin-0123456789abcdef0123456789abcdef"
LONG_TERM = ("LTAIexample", "examplesecret", None)
TEMPORARY = ("STS.NUexample", "examplesecret", "CAIStoken+/=")
OSS_HEADERS = [
    {"Content-Type": "video/mp4"},
    {"Content-Type": "application/octet-stream", "Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="},
    {"Content-Type": "text/plain; charset=utf-8", "x-oss-meta-b": "2", "X-Oss-Meta-A": "x y", "x-oss-callback": "e30="},
    {},
]


class FrozenDatetime(datetime):
    @classmethod
    def utcnow(cls):
        return datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)


def oss2_vectors():
    import oss2
    import oss2.auth
    import oss2.http

    oss2.auth.datetime = FrozenDatetime
    source = package("oss2")
    for index, (key, (method, params)) in enumerate(product(KEYS, OPERATIONS)):
        keys = (LONG_TERM, TEMPORARY)[index % 2]
        headers = OSS_HEADERS[index % 4]
        for scheme, is_query in [("oss1", False), ("oss1", True), ("oss4", False), ("oss4", True)]:
            version = "v4" if scheme == "oss4" else "v1"
            if keys[2]:
                auth = oss2.StsAuth(*keys, auth_version=version)
            else:
                auth = oss2.make_auth(keys[0], keys[1], version)
            request = oss2.http.Request(
                method, "http://host/", params=dict(params), headers=dict(headers), region="cn-shanghai", product="oss"
            )
            additional = {}
            if scheme == "oss4" and index % 3 == 0 and not keys[2]:
                request.headers.update({"range": "bytes=0-9", "cache-control": "no-store", "content-language": "en"})
                # Sorted by their first letters only, so the list that is signed is out of order.
                names = ["range"] if is_query else ["range", "content-language", "cache-control"]
                additional = {"in_additional_headers": names}
            del request.headers["User-Agent"]
            if is_query:
                query = query_of(auth._sign_url(request, BUCKET, key, 600, **additional))
                request.headers.pop("date", None)
            else:
                auth._sign_request(request, BUCKET, key, **additional)
                query = pairs(request.params)
            yield vector(
                source, scheme, keys, method=method, bucket=BUCKET, key=key, query=query,
                headers=pairs(request.headers) + [["host", f"{BUCKET}.example"]], lifetime=600 if is_query else None,
            )  # fmt: skip


def oss_v2_vectors():
    import alibabacloud_oss_v2 as v2
    from alibabacloud_oss_v2.signer import SignerV1, SignerV4
    from alibabacloud_oss_v2.types import HttpRequest, SigningContext

    source = package("alibabacloud-oss-v2")
    moment = datetime.fromtimestamp(NOW, UTC)
    for index, (key, (method, params)) in enumerate(product(KEYS, OPERATIONS)):
        keys = (LONG_TERM, TEMPORARY)[index % 2]
        for scheme, is_query in [("oss1", False), ("oss1", True), ("oss4", False), ("oss4", True)]:
            if scheme == "oss1" and not is_query and keys[2]:
                continue  # It puts the token into a header that is not signed.
            url = "http://host/"
            if params:
                url += "?" + "&".join(quote(k, safe="") + ("=" + quote(v, safe="") if v else "") for k, v in params.items())
            request = HttpRequest(method, url, headers=dict(OSS_HEADERS[index % 4]))
            context = SigningContext(
                product="oss", region="cn-shanghai", bucket=BUCKET, key=key, request=request, signing_time=moment,
                credentials=v2.credentials.Credentials(keys[0], keys[1], keys[2]),
            )  # fmt: skip
            if scheme == "oss4" and index % 3 == 0:
                request.headers["Range"] = "bytes=0-9"
                request.headers["host"] = "x"
                context.additional_headers = {"range", "Host"}
            if scheme == "oss1":
                context.sub_resource = []
            context.auth_method_query = is_query
            context.expiration_time = moment + timedelta(seconds=600)
            (SignerV4 if scheme == "oss4" else SignerV1)().sign(context)
            if is_query:
                request.headers.pop("Date", None)
            yield vector(
                source, scheme, keys, method=method, bucket=BUCKET, key=key, query=query_of(request.url),
                headers=pairs(request.headers), lifetime=600 if is_query else None,
            )  # fmt: skip


def product(keys, operations):
    """Each key and each operation at least once, some of their pairs."""
    for index in range(24):
        yield keys[index % len(keys)], operations[(index + index // len(keys)) % len(operations)]


# MARK: COS

COS_LONG_TERM = ("AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv", "bLcPnl88WU30VY57ipRhSePfPdOfSruK", None)
COS_TEMPORARY = (COS_LONG_TERM[0], COS_LONG_TERM[1], "tok+/=")
COS_BUCKET = "vodtest-1250000000"
COS_HEADERS = [
    {"Content-Length": "5", "Content-Type": "video/mp4"},
    {"Content-Length": "0"},
    {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg==", "x-cos-meta-a": "x y+z", "x-cos-storage-class": "STANDARD"},
    {"Cache-Control": "no-cache", "If-Match": '"0"', "X-Other": "not signed"},
]
COS_OPERATIONS = OPERATIONS[:7] + [
    ("GET", {"uploads": "", "prefix": "a/b c", "delimiter": "/", "encoding-type": "url", "max-uploads": "1000"}),
    ("GET", {"a/b": "1", "C D": "~", "ключ": "", "x": "100%"}),
]


def cos_vectors():
    import requests
    from qcloud_cos import CosConfig, CosS3Client
    from qcloud_cos.cos_auth import CosS3Auth

    source = package("cos-python-sdk-v5")
    for index, (key, (method, params)) in enumerate(product(KEYS, COS_OPERATIONS)):
        keys = (COS_LONG_TERM, COS_TEMPORARY)[index % 2]
        config = CosConfig(Region="ap-chongqing", SecretId=keys[0], SecretKey=keys[1], Token=keys[2], Scheme="http")
        headers = dict(COS_HEADERS[index % 4])
        if keys[2]:
            headers["x-cos-security-token"] = keys[2]
        url = config.uri(bucket=COS_BUCKET, path=key)
        host = urlsplit(url).netloc
        request = requests.Request(method, url, params=params, headers=dict(headers))
        CosS3Auth(config, key, params)(request)
        path = "/" + quote(key)
        yield vector(
            source, "cos", keys, method=method, path=path, query=pairs(params),
            headers=[["Host", host], *pairs(request.headers)], lifetime=10000,
        )  # fmt: skip
        client = CosS3Client(config)
        signed = {"x-cos-meta-a": "x y"} if index % 3 else {}
        url = client.get_presigned_url(COS_BUCKET, key, method, 600, params, dict(signed), SignHost=index % 4 != 0)
        query = query_of(url)
        if keys[2]:
            query.append(["x-cos-security-token", keys[2]])
        yield vector(
            source, "cos", keys, method=method, path=path, query=query, headers=[["host", host], *pairs(signed)],
            lifetime=600,
        )  # fmt: skip


# MARK: Tencent Cloud API


def tencent_vectors():
    from tencentcloud.common.abstract_client import AbstractClient
    from tencentcloud.common.credential import Credential
    from tencentcloud.common.http.request import RequestInternal
    from tencentcloud.common.profile.client_profile import ClientProfile
    from tencentcloud.common.profile.http_profile import HttpProfile

    class Client(AbstractClient):
        _apiVersion = "2018-07-17"
        _service = "vod"
        _endpoint = "vod.tencentcloudapi.com"

    source = package("tencentcloud-sdk-python-common")
    random.seed(7)
    bodies = [
        {"MediaType": "mp4", "SubAppId": 1500012345, "MediaName": "demo"},
        {"MediaName": "日本 a+b*~/&=é", "SourceContext": "", "Tags": ["a", "b c"]},
        {},
    ]
    for method in ["HmacSHA1", "HmacSHA256", "TC3-HMAC-SHA256"]:
        for verb in ["POST", "GET"]:
            for keys in [COS_LONG_TERM, COS_TEMPORARY]:
                for index, body in enumerate(bodies):
                    endpoint = None if index == 0 else "127.0.0.1:8080"
                    profile = ClientProfile(method, HttpProfile(reqMethod=verb, endpoint=endpoint))
                    profile.unsignedPayload = method.startswith("TC3") and index == 2
                    client = Client(Credential(*keys), "ap-guangzhou", profile)
                    host = endpoint or "vod.tencentcloudapi.com"
                    request = RequestInternal(host, verb, "/")
                    client._build_req_inter("ApplyUpload", copy.deepcopy(body), request)
                    is_tc3 = method.startswith("TC3")
                    is_query = verb == "GET" or not is_tc3
                    headers = {"Host": host} | request.header
                    yield vector(
                        source, "tc3" if is_tc3 else "tc1", keys, method=verb, path="/",
                        query=[list(p) for p in parse_qsl(request.data, keep_blank_values=True)] if is_query else [],
                        headers=pairs(headers),
                        payload=digest(b"" if is_query else request.data.encode()),
                    )  # fmt: skip


def sts_vectors():
    import requests
    import sts.sts

    source = package("qcloud-python-sts")
    random.seed(8)
    sent = []

    def post(url, data=None, **_):
        sent.append(data)
        return SimpleNamespace(json=lambda: {"Response": {"ExpiredTime": NOW}})

    requests.post = post
    for index in range(10):
        client = sts.sts.Sts({
            "duration_seconds": 1800 + index, "secret_id": COS_LONG_TERM[0], "secret_key": COS_LONG_TERM[1],
            "bucket": COS_BUCKET, "region": "ap-chongqing", "allow_prefix": [f"dir {index}/*", "a+b/é"],
            "allow_actions": ["name/cos:PutObject", "name/cos:UploadPart"], "domain": "127.0.0.1",
            "url": "http://127.0.0.1:8080/",
        })  # fmt: skip
        client.get_credential()
        data = {k: v.decode() if isinstance(v, bytes) else str(v) for k, v in sent[-1].items()}
        yield vector(
            source, "tc1", COS_LONG_TERM, method="POST", path="/", query=pairs(data),
            headers=[["host", "127.0.0.1:8080"]],
        )  # fmt: skip


# MARK: OpenAPI of Alibaba Cloud

TITLES = ["demo", "日本 a+b*~/&=é", "a b+c", "100%", "~'()!", ""]


def rpc_vectors():
    from aliyunsdkcore.auth.composer import rpc_signature_composer as composer

    source = package("aliyun-python-sdk-core")
    composer.helper.get_iso_8061_date = lambda: "2026-01-02T03:04:05Z"
    for index in range(12):
        composer.helper.get_uuid = lambda index=index: f"00000000-1111-2222-3333-{index:012}"
        keys = (LONG_TERM, TEMPORARY)[index % 2]
        method = ("GET", "POST")[index // 2 % 2]
        parameters = {"Action": "CreateUploadVideo", "Version": "2017-03-21", "Title": TITLES[index % 6], "RegionId": "r"}
        if keys[2]:
            parameters["SecurityToken"] = keys[2]
        form = {"FileName": "D:\\x y.mp4", "Tags": "a,b"} if method == "POST" else {}
        url, _ = composer.get_signed_url(parameters, keys[0], keys[1], "JSON", method, form)
        yield vector(
            source, "rpc", keys, method=method, path="/", query=query_of(url) + pairs(form),
            headers=[["host", "127.0.0.1"]],
        )  # fmt: skip


def acs_vectors():
    from alibabacloud_tea_openapi.utils import Utils

    source = package("alibabacloud-tea-openapi")
    for index in range(12):
        keys = (LONG_TERM, TEMPORARY)[index % 2]
        body = b"" if index % 3 else b'{"a": "b c"}'
        headers = {
            "host": "127.0.0.1:18480", "x-acs-version": "2017-03-21", "x-acs-action": "CreateUploadVideo",
            "user-agent": "ua", "x-acs-date": "2026-01-02T03:04:05Z", "accept": "application/json",
            "x-acs-signature-nonce": f"{index:032}", "x-acs-content-sha256": digest(body),
            "x-acs-credentials-provider": "static_sts" if keys[2] else "static_ak",
        }  # fmt: skip
        if keys[2]:
            headers |= {"x-acs-accesskey-id": keys[0], "x-acs-security-token": keys[2]}
        request = SimpleNamespace(
            method="POST", pathname="/", headers=headers,
            query={"Title": TITLES[index % 6], "FileName": "x.mp4", "Tag.1.Key": "a&b"},
        )  # fmt: skip
        headers["Authorization"] = Utils.get_authorization(request, "ACS3-HMAC-SHA256", digest(body), keys[0], keys[1])
        yield vector(
            source, "acs3", keys, method="POST", path="/", query=pairs(request.query), headers=pairs(headers),
            payload=digest(body),
        )  # fmt: skip


def write(name, *groups):
    vectors = [vector for group in groups for vector in group]
    lines = ",\n".join("  " + json.dumps(v, ensure_ascii=True) for v in vectors)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")
    print(name, len(vectors))


write("oss", oss2_vectors(), oss_v2_vectors())
write("cos", cos_vectors())
write("tencent", tencent_vectors(), sts_vectors())
write("aliyun", rpc_vectors(), acs_vectors())
