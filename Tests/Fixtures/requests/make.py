"""Writes oss, cos, tencent, aliyun, aliyun-hard, aws and tokens.json: requests as the SDKs of the vendors sign them.

    python3 -m venv /tmp/sdks && /tmp/sdks/bin/pip install oss2==2.19.1 alibabacloud-oss-v2==1.4.1 \\
        cos-python-sdk-v5==1.9.44 tencentcloud-sdk-python-common==3.1.195 qcloud-python-sts==3.1.6 \\
        aliyun-python-sdk-core==2.16.1 alibabacloud-tea-openapi==0.4.6 botocore==1.44.5 \\
        aliyun-python-sdk-sts==3.1.3 alibabacloud-sts20150401==1.2.0 tencentcloud-sdk-python-sts==3.0.1459
    /tmp/sdks/bin/python Tests/Fixtures/requests/make.py [NAME ...]

With names such as `aws` only these files are written. The same requests come out each time. Each says in `source` which
package has signed it. The files are read by Tests/SigningTests/Requests/RequestVector.swift, aws.json by
Tests/ObjectStoreTests/S3/S3Vector.swift, tokens.json by Tests/ObjectStoreTests/Tokens/TokenVector.swift.
"""

import base64
import copy
import hashlib
import importlib.metadata
import io
import json
import random
import socket
import sys
import threading
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
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

    real_post, requests.post = requests.post, post
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
    requests.post = real_post


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


# Unusual requests: what is unusual, the parameters in the query, and those in the form of a POST.
HARD = [
    ("spaces", {"Title": " a  b "}, {"Description": "a b"}),
    ("plus", {"Title": "+a+b++"}, {"Description": "1+1=2"}),
    ("star", {"Title": "*a**"}, {"Tags": "*"}),
    ("tilde", {"Title": "~a~%7E%7e"}, {"Tags": "~"}),
    ("percent", {"Title": "100% %20 %2B %zz %"}, {"Tags": "%2A%25"}),
    ("slash", {"Title": "/a//b/../c\\"}, {"Tags": "/"}),
    ("ampersand", {"Title": "a&b=c&Action=x&"}, {"Tags": "&"}),
    ("equals", {"Title": "=a==b="}, {"Tags": "="}),
    ("Chinese", {"Title": "中文 标题"}, {"Tags": "标签,视频"}),
    ("emoji", {"Title": "🎬👩‍🚀🇨🇳"}, {"Tags": "👍🏽"}),
    ("accents", {"Title": "é e\u0301 ñ Ü ß"}, {"Tags": "ÅK\u212b\u212a"}),
    ("quotes", {"Title": "\"it's\" `x` «y»"}, {"Tags": "''"}),
    ("newlines", {"Title": "a\nb\r\n\tc"}, {"Description": "\n"}),
    ("punctuation", {"Title": "!$'(),:;@?#[]{}|^<>"}, {"Tags": "-_."}),
    ("empty values", {"Title": "", "Tags": ""}, {"Description": ""}),
    ("numbers", {"Tag.1.Key": "a", "Tag.1.Value": "b", "Tag.10.Key": "c", "Tag.2.Key": ""}, {"Tag.2.Value": "a"}),
    ("upper and lower case", {"a": "1", "B": "2", "b": "3", "A": "4"}, {"Z": "5", "z": "6"}),
    ("alike names", {"a-b": "1", "a.b": "2", "a_b": "3", "a~": "4", "aB": "5"}, {"a": "6", "a0": "7", "ab": ""}),
    ("names like those of the scheme", {"Signatur": "1", "SignatureX": "2", "Time": "3"}, {"AccessKey": "4"}),
    ("JSON", {"UserData": '{"a":["b c",null],"é":1.5}'}, {"TemplateGroupId": "0"}),
    ("a URL", {"CoverURL": "https://x.example/a%20b.jpg?c=d&e=f+g#h"}, {"CateId": "-1"}),
    ("control characters", {"Title": "\x01\x1f\x7f\u0085\u2028"}, {"Tags": "\ufeff"}),
    ("no parameters", {}, {}),
    ("2 KiB", {"Description": "0 +/~é中🎬" + "0123456789abcdef" * 127 + "\n*"}, {}),
]  # fmt: skip
HARD_TOKENS = ["CAIS+/==", "a+b/c=", "CAIS%2B~*", "=/+"]
HARD_TIMES = [NOW, 1709251199, 1830297600]  # And 2024-02-29 23:59:59 UTC, 2028-01-01 00:00:00 UTC.


def hard_requests(lines):
    """For each line its index, name, query, form, keys, time in seconds and as text."""
    for index, (name, query, form) in enumerate(lines):
        token = HARD_TOKENS[index // 2 % 4] if index % 2 else None
        keys = (("STS.NU" if token else "LTAI") + f"x{index}", f"secret+/ é{index}", token)
        moment = HARD_TIMES[index // 4 % 3]
        yield index, name, query, form, keys, moment, datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rpc_hard_vectors():
    from aliyunsdkcore.auth.composer import rpc_signature_composer as composer

    # The other SDK does not escape names.
    names = {"a b": "1", "a+b": "2", "a*": "3", "~": "4", "标签": "5", "é": "6", "x/y&z=": "7", "%41": "8", "A%": "9"}
    lines = [*HARD, ("names to escape", names, {"🎬": "", '"': "1", "": "2"})]
    for index, name, query, form, keys, moment, text in hard_requests(lines):
        composer.helper.get_iso_8061_date = lambda text=text: text
        composer.helper.get_uuid = lambda index=index: f"n-{index}"
        method = "POST" if index % 3 else "GET"
        parameters = {"Action": "CreateUploadVideo", "Version": "2017-03-21"} | query
        if keys[2]:
            parameters["SecurityToken"] = keys[2]
        if method == "GET":
            parameters, form = parameters | form, {}
        url, _ = composer.get_signed_url(parameters, keys[0], keys[1], "JSON" if index % 4 else None, method, form)
        yield vector(
            package("aliyun-python-sdk-core"), "rpc", keys, name=name, time=moment, method=method, path="/",
            query=query_of(url) + pairs(form), headers=[["host", "127.0.0.1"]],
        )  # fmt: skip


HARD_PATHS = ["/", "/", "", "/api/v1/a%20b/%E6%97%A5", "/~a.b_c-d//", "/*+=&"]
HARD_HEADERS = [
    {"accept": "application/json", "user-agent": "AlibabaCloud (Linux) TeaDSL/2"},
    {},
    {"User-Agent": "a  b\tc", "x-acs-empty": ""},
    {"Accept": " */* ", "X-Acs-Retry-Attempts": "1", "X-ACS-B": "2", "x-acs-a-b": "3", "x-acs-a": "4"},
    {"accept-language": 'de, "x";q=0.5', "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==", "x~!#$%&'*+.^_`|": "5"},
]  # fmt: skip


def acs_hard_vectors():
    from alibabacloud_tea_openapi.utils import Utils

    for index, name, query, form, keys, moment, text in hard_requests(HARD):
        method = ("POST", "GET", "POST", "PUT", "DELETE")[index % 5]
        body, more = "", {}
        if method in ("GET", "DELETE"):
            query = query | form
        if method == "POST":
            body, more = Utils.to_form(form), {"content-type": "application/x-www-form-urlencoded"}
        elif method == "PUT":
            body, more = json.dumps(form, ensure_ascii=False), {"Content-Type": "application/json; charset=utf-8"}
        headers = {
            "host": ("127.0.0.1:18480", "vod.cn-shanghai.aliyuncs.com")[index % 2], "x-acs-version": "2017-03-21",
            "x-acs-action": "CreateUploadVideo", "x-acs-date": text, "x-acs-signature-nonce": f"n-{index}",
        } | HARD_HEADERS[index % 4 if index % 6 else 4] | more  # fmt: skip
        payload = Utils.hash(body.encode(), "ACS3-HMAC-SHA256").hex()
        headers["x-acs-content-sha256"] = payload
        if keys[2]:
            headers |= {"x-acs-accesskey-id": keys[0], "x-acs-security-token": keys[2]}
        request = SimpleNamespace(method=method, pathname=HARD_PATHS[index % 6], headers=headers, query=query)
        headers["Authorization"] = Utils.get_authorization(request, "ACS3-HMAC-SHA256", payload, keys[0], keys[1])
        yield vector(
            package("alibabacloud-tea-openapi"), "acs3", keys, name=name, time=moment, method=method,
            path=request.pathname, query=pairs(query), headers=pairs(headers), payload=payload, body=body,
        )  # fmt: skip


def aliyun_known_vectors():
    """Requests whose signatures are known; those of the documentation first. The SDKs make the same signatures."""
    from alibabacloud_tea_openapi.utils import Utils
    from aliyunsdkcore.auth.composer import rpc_signature_composer as composer

    ecs = {
        "AccessKeyId": "testid", "Timestamp": "2016-02-23T12:46:24Z",
        "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
    }  # fmt: skip
    upload = {"Action": "CreateUploadVideo", "Version": "2017-03-21", "Format": "JSON", "SignatureType": ""}
    hard = ecs | upload | {
        "RegionId": "cn-shanghai", "Title": "日本 a+b*~/&=é", "FileName": "D:\\x y.mp4", "Tags": "a,b",
    }  # fmt: skip
    rpc = [
        ("documentation of ApsaraVideo VOD", "GET", "testAccessKeySecret", "Ibgh7y8Vp47LBuAsf5Xhi1SvDss=", {
            "Action": "GetVideoPlayAuth", "VideoId": "5aed81b74ba84920be578cdfe004af4b", "Version": "2017-03-21",
            "Format": "JSON", "AccessKeyId": "testAccessKeyId", "Timestamp": "2017-10-10T12:02:54Z",
            "SignatureNonce": "8f8a035d-6496-4268-afd4-67c22837e38d"}),
        ("documentation of ECS", "GET", "testsecret", "OLeaidS1JvxuMvnyHOwuJ+uX5qY=",
            ecs | {"Action": "DescribeRegions", "Format": "XML", "Version": "2014-05-26"}),
        (package("aliyun-python-sdk-core"), "POST", "testsecret", "CMHjTJlMx17KN/Kq+uN6gJjhMO0=", hard),
        (package("aliyun-python-sdk-core"), "GET", "testsecret", "axVJpMrIEiiSjtSq2SqPtVnXC8s=", hard),
        (package("aliyun-python-sdk-core"), "POST", "examplesecret", "TLMe91603susWqj9DGb6KjInYMQ=", upload | {
            "Title": "a b+c", "FileName": "x.mp4", "AccessKeyId": TEMPORARY[0], "SecurityToken": TEMPORARY[2],
            "Timestamp": "2026-01-02T03:04:05Z", "SignatureNonce": "00000000-1111-2222-3333-444444444444"}),
    ]  # fmt: skip
    for source, method, secret, signature, parameters in rpc:
        parameters |= {"SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0"}
        text = vars(composer)["__compose_string_to_sign"](method, parameters)
        assert vars(composer)["__get_signature"](text, secret) == signature
        keys = (parameters["AccessKeyId"], secret, parameters.get("SecurityToken"))
        moment = int(datetime.fromisoformat(parameters["Timestamp"]).timestamp())
        yield vector(
            source, "rpc", keys, name="known", time=moment, method=method, path="/",
            query=pairs(parameters | {"Signature": signature}), headers=[["host", "127.0.0.1"]],
        )  # fmt: skip
    acs = [
        ("documentation of ECS", ("YourAccessKeyId", "YourAccessKeySecret", None),
            "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0", {
                "ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", "RegionId": "cn-shanghai",
            }, {
                "host": "ecs.cn-shanghai.aliyuncs.com", "x-acs-action": "RunInstances",
                "x-acs-content-sha256": digest(b""), "x-acs-date": "2023-10-26T10:22:32Z",
                "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d", "x-acs-version": "2014-05-26",
            }),
        (package("alibabacloud-tea-openapi"), TEMPORARY,
            "ab6dd3efde34d35d90bf61d743d1a5e8f2aeb53350cb8fe70752600fdca51955",
            {"Title": "a b+c", "FileName": "x.mp4"}, {
                "accept": "application/json", "host": "127.0.0.1:18480", "user-agent": "ua",
                "x-acs-accesskey-id": TEMPORARY[0], "x-acs-action": "CreateUploadVideo",
                "x-acs-content-sha256": digest(b""), "x-acs-credentials-provider": "static_sts",
                "x-acs-date": "2026-01-02T03:04:05Z", "x-acs-security-token": TEMPORARY[2],
                "x-acs-signature-nonce": "00000000111122223333444444444444", "x-acs-version": "2017-03-21",
            }),
    ]  # fmt: skip
    for source, keys, signature, query, headers in acs:
        authorization = (
            f"ACS3-HMAC-SHA256 Credential={keys[0]},SignedHeaders={';'.join(headers)},Signature={signature}"
        )
        request = SimpleNamespace(method="POST", pathname="/", headers=headers, query=query)
        assert Utils.get_authorization(request, "ACS3-HMAC-SHA256", digest(b""), *keys[:2]) == authorization
        yield vector(
            source, "acs3", keys, name="known",
            time=int(datetime.fromisoformat(headers["x-acs-date"]).timestamp()), method="POST", path="/",
            query=pairs(query), headers=pairs(headers | {"Authorization": authorization}), payload=digest(b""), body="",
        )  # fmt: skip


# MARK: Amazon S3

AWS_LONG_TERM = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None)
AWS_TEMPORARY = ("ASIAEXAMPLE234567ABC", "examplesecret", "AQoDYXdzEJr/token+/==")
AWS_HOST = "s3.example.org:8443"
AWS_BODY = bytes(range(256)) * 3


def aws_client(keys, style="path", checksums="when_required", **s3):
    import botocore.auth
    import botocore.session
    import botocore.signers
    from botocore.config import Config

    for module in [botocore.auth, botocore.signers]:
        module.get_current_datetime = lambda *a, **k: datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)
    config = Config(
        signature_version="s3v4", s3={"addressing_style": style} | s3, request_checksum_calculation=checksums,
        inject_host_prefix=False, user_agent="botocore",
    )  # fmt: skip
    return botocore.session.Session().create_client(
        "s3", region_name="us-east-1", endpoint_url=f"https://{AWS_HOST}", aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1], aws_session_token=keys[2], config=config,
    )  # fmt: skip


def aws_vector(keys, operation, method, url, headers, body, content, **more):
    """`content` is what the body stands for once the coding of its chunks is off."""
    parts = urlsplit(url)
    target = parts.path + ("?" + parts.query if parts.query else "")
    fields = [[k, v.decode() if isinstance(v, bytes) else str(v)] for k, v in headers.items()]
    fields = [f for f in fields if f[0].lower() not in ("user-agent", "host", "amz-sdk-invocation-id", "amz-sdk-request")]
    identity, secret, token = keys
    return {
        "source": package("botocore"), "id": identity, "secret": secret, "token": token, "time": NOW,
        "operation": operation, "method": method, "target": target, "headers": [["Host", parts.netloc], *fields],
        "body": base64.b64encode(body).decode(), "content": base64.b64encode(content).decode(),
    } | more  # fmt: skip


def aws_sent(keys, operation, content=b"", client=None, **parameters):
    """What a client sends for an operation; nothing goes out."""
    from botocore.awsrequest import AWSResponse

    sent = []

    def catch(request, **_):
        sent.append(request)
        return AWSResponse(request.url, 500, {}, io.BytesIO(b""))

    client = client or aws_client(keys)
    client.meta.events.register("before-send.s3", catch)
    try:
        getattr(client, operation)(**parameters)
    except Exception:  # There is no answer that it could understand.
        if not sent:
            raise
    request = sent[0]
    body = request.body or b""
    body = body.read() if hasattr(body, "read") else body
    if isinstance(body, str):
        body = body.encode()
    name = client.meta.method_to_api_mapping[operation]
    return aws_vector(keys, name, request.method, request.url, request.headers, body, content or body)


def aws_chunked(keys, key, trailer=None, sizes=(500, 11)):
    """Chunks signed one by one, which botocore does not write: its signer signs the request and each chunk."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")

    class Signer(S3SigV4Auth):
        def payload(self, request):
            return kind

    headers = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(sum(sizes))}
    content = AWS_BODY[: sum(sizes)]
    if trailer:
        headers["x-amz-trailer"] = trailer
    request = AWSRequest("PUT", f"https://{AWS_HOST}/bucket-1/{quote(key, safe='/~')}", headers=headers)
    aws_client(keys)  # Sets the clock.
    signer = Signer(Credentials(*keys), "s3", "us-east-1")
    signer.add_auth(request)
    scope = signer.credential_scope(request)
    previous = request.headers["Authorization"].rsplit("Signature=", 1)[1]
    date = request.headers["X-Amz-Date"]
    body, start = b"", 0
    for size in [*sizes, 0]:
        data = content[start : start + size]
        start += size
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", date, scope, previous, digest(b""), digest(data)])
        previous = signer.signature(text, request)
        body += f"{size:x};chunk-signature={previous}\r\n".encode() + data + (b"\r\n" if size else b"")
    if trailer:
        value = base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
        text = "\n".join(
            ["AWS4-HMAC-SHA256-TRAILER", date, scope, previous, digest(f"{trailer}:{value}\n".encode())]
        )
        body += f"{trailer}:{value}\r\nx-amz-trailer-signature:{signer.signature(text, request)}\r\n".encode()
    body += b"\r\n"
    request.headers["Content-Length"] = str(len(body))
    return aws_vector(keys, "PutObject", "PUT", request.url, request.headers, body, content)


def aws_vectors():
    for index, key in enumerate(KEYS + ["a/", "folder/.hidden", "%2F", "x?y=1&z"]):
        keys = (AWS_LONG_TERM, AWS_TEMPORARY)[index % 2]
        style = ("path", "virtual")[index // 2 % 2]
        client = aws_client(keys, style, payload_signing_enabled=index % 3 != 0)
        put = {"Body": AWS_BODY[:index], "ContentType": "video/mp4", "Metadata": {"name": "x y"}}
        yield aws_sent(keys, "put_object", Bucket="bucket-1", Key=key, client=client, **put)
        client = aws_client(keys, style)
        url = client.generate_presigned_url(
            ("get_object", "put_object")[index % 2], Params={"Bucket": "bucket-1", "Key": key}, ExpiresIn=600
        )
        name, method = (("GetObject", "GET"), ("PutObject", "PUT"))[index % 2]
        yield aws_vector(keys, name, method, url, {"Content-Length": "3"}, b"abc", b"abc", lifetime=600)
    keys = AWS_TEMPORARY
    upload = {"Bucket": "bucket-1", "Key": "a b+c/ü.bin", "UploadId": "0004B9895DBBB6EC98E36"}
    part = upload | {"PartNumber": 7}
    parts = {"Parts": [{"PartNumber": 1, "ETag": '"5d41402abc4b2a76b9719d911017c592"'}]}
    for operation, parameters in [
        ("list_buckets", {}), ("create_bucket", {"Bucket": "bucket-1"}), ("head_bucket", {"Bucket": "bucket-1"}),
        ("delete_bucket", {"Bucket": "bucket-1"}), ("get_bucket_location", {"Bucket": "bucket-1"}),
        ("list_objects", {"Bucket": "bucket-1", "Prefix": "a b/", "Delimiter": "/", "Marker": "a b/+"}),
        ("list_objects_v2", {"Bucket": "bucket-1", "Prefix": "ü", "ContinuationToken": "AQ+/=", "MaxKeys": 7}),
        ("list_multipart_uploads", {"Bucket": "bucket-1", "Prefix": "a", "KeyMarker": "a b", "UploadIdMarker": "1"}),
        ("delete_objects", {"Bucket": "bucket-1", "Delete": {"Objects": [{"Key": "a&<b>"}], "Quiet": True}}),
        ("get_object", {"Bucket": "bucket-1", "Key": "a", "Range": "bytes=1-3", "ResponseContentType": "text/x; a=b"}),
        ("head_object", {"Bucket": "bucket-1", "Key": "a", "PartNumber": 3, "ChecksumMode": "ENABLED"}),
        ("delete_object", {"Bucket": "bucket-1", "Key": "a//b"}),
        ("copy_object", {"Bucket": "bucket-1", "Key": "copy", "CopySource": {"Bucket": "bucket-2", "Key": "a b+c?/ü"}}),
        ("put_object_tagging", {"Bucket": "bucket-1", "Key": "a", "Tagging": {"TagSet": [{"Key": "k", "Value": "v"}]}}),
        ("get_object_tagging", {"Bucket": "bucket-1", "Key": "a"}),
        ("create_multipart_upload", {"Bucket": "bucket-1", "Key": "a b+c/ü.bin", "ChecksumAlgorithm": "SHA256"}),
        ("upload_part", part | {"Body": AWS_BODY}),
        ("upload_part_copy", part | {"CopySource": {"Bucket": "bucket-2", "Key": "a b"}, "CopySourceRange": "bytes=0-9"}),
        ("list_parts", upload | {"MaxParts": 2, "PartNumberMarker": 1}),
        ("complete_multipart_upload", upload | {"MultipartUpload": parts}),
        ("abort_multipart_upload", upload),
    ]:  # fmt: skip
        yield aws_sent(keys, operation, **parameters)
    for keys in [AWS_LONG_TERM, AWS_TEMPORARY]:
        client = aws_client(keys, checksums="when_supported")
        put = {"Bucket": "bucket-1", "Key": "trailing", "Body": AWS_BODY}
        yield aws_sent(keys, "put_object", content=AWS_BODY, client=client, **put)
        yield aws_chunked(keys, "signed chunks.bin")
        yield aws_chunked(keys, "ü/signed trailer", trailer="x-amz-checksum-crc32")
        yield aws_chunked(keys, "empty", sizes=())
        yield aws_form(keys)


def aws_form(keys):
    conditions = [["content-length-range", 1, 10], ["starts-with", "$key", "form/"], {"acl": "private"}]
    form = aws_client(keys).generate_presigned_post(
        "bucket-1", "form/${filename}", Fields={"acl": "private"}, Conditions=conditions, ExpiresIn=600
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": "0"}
    return aws_vector(keys, "PostObject", "POST", form["url"], headers, b"", b"", form=pairs(form["fields"]))


# MARK: Token services

# Signed as the host.
TOKEN_HOST = ("127.0.0.1", 18480)
TOKEN_KEYS = ("SLAKKNOWN", "examplesecret")
TOKEN_POLICIES = {
    "s3": {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket-1250000000/a b/*"}]},
    "oss": {"Version": "1", "Statement": [
        {"Effect": "Allow", "Action": ["oss:PutObject"], "Resource": ["acs:oss:*:*:bucket-1250000000/a b/*"]}]},
    "cos": {"version": "2.0", "statement": [
        {"effect": "allow", "action": ["name/cos:PutObject"],
         "resource": ["qcs::cos:ap-guangzhou:uid/1250000000:bucket-1250000000/a b/*"]}]},
}  # fmt: skip
# Not signed, or about the machine.
TOKEN_HEADERS_LEFT_OUT = {"accept-encoding", "connection", "x-tc-traceid", "amz-sdk-invocation-id", "amz-sdk-request"}


def token_calls():
    """Package, name of the session, and a call."""
    import boto3
    import sts.sts
    from alibabacloud_sts20150401 import client as tea
    from alibabacloud_sts20150401 import models as tea_models
    from alibabacloud_tea_openapi.models import Config
    from alibabacloud_tea_openapi.utils import Utils
    from aliyunsdkcore.client import AcsClient
    from aliyunsdkcore.utils import parameter_helper
    from aliyunsdksts.request.v20150401.AssumeRoleRequest import AssumeRoleRequest
    from botocore.config import Config as BotoConfig
    from tencentcloud.common.credential import Credential
    from tencentcloud.common.profile.client_profile import ClientProfile
    from tencentcloud.common.profile.http_profile import HttpProfile
    from tencentcloud.sts.v20180813 import models, sts_client

    address = "{}:{}".format(*TOKEN_HOST)
    policies = {name: json.dumps(policy) for name, policy in TOKEN_POLICIES.items()}
    role = "acs:ram::1234567890123456:role/adminrole"
    aws_client(AWS_LONG_TERM)  # Sets the clock.
    aws = boto3.client(
        "sts", region_name="us-east-1", endpoint_url=f"http://{address}", aws_access_key_id=TOKEN_KEYS[0],
        aws_secret_access_key=TOKEN_KEYS[1], config=BotoConfig(retries={"total_max_attempts": 1}, user_agent="boto3"),
    )  # fmt: skip
    narrowed = {"Policy": policies["s3"], "DurationSeconds": 900}
    arn = "arn:aws:iam::123456789012:role/uploader"
    yield "boto3", "s3", lambda: aws.assume_role(RoleArn=arn, RoleSessionName="alice", **narrowed)
    yield "boto3", "s3", lambda: aws.get_federation_token(Name="alice", **narrowed)

    def core(method, index):
        client = AcsClient(*TOKEN_KEYS, "cn-shanghai", auto_retry=False)
        client.add_endpoint("cn-shanghai", "Sts", address)
        request = AssumeRoleRequest()
        request.set_protocol_type("http")
        request.set_method(method)
        request.set_RoleArn(role)
        request.set_RoleSessionName("alice")
        request.set_Policy(policies["oss"])
        request.set_DurationSeconds(900)
        if index == 2:  # All but the signature in the content, as other SDKs have it.
            request._body_params, request._params = request._params, {}
        with (
            mock.patch.object(parameter_helper, "get_iso_8061_date", lambda: "2026-01-02T03:04:05Z"),
            mock.patch.object(parameter_helper, "get_uuid", lambda: f"00000000-1111-2222-3333-{index:012}"),
        ):
            client.do_action_with_exception(request)

    for index, method in enumerate(["GET", "POST", "POST"]):
        yield "aliyun-python-sdk-core", "oss", lambda method=method, index=index: core(method, index)

    def acs():
        keys = {"access_key_id": TOKEN_KEYS[0], "access_key_secret": TOKEN_KEYS[1]}
        client = tea.Client(Config(**keys, endpoint=address, protocol="http", region_id="cn-shanghai", user_agent="ua"))
        request = tea_models.AssumeRoleRequest(
            role_arn=role, role_session_name="alice", policy=policies["oss"], duration_seconds=900
        )
        with (
            mock.patch.object(Utils, "get_timestamp", staticmethod(lambda: "2026-01-02T03:04:05Z")),
            mock.patch.object(Utils, "get_nonce", staticmethod(lambda: "0" * 32)),
        ):
            client.assume_role(request)

    yield "alibabacloud-tea-openapi", "oss", acs

    def tencent(scheme, method):
        profile = ClientProfile(scheme, HttpProfile(protocol="http", endpoint=address, reqMethod=method))
        client = sts_client.StsClient(Credential(*TOKEN_KEYS), "ap-guangzhou", profile)
        request = models.GetFederationTokenRequest()
        request.Name = "alice"
        request.Policy = quote(policies["cos"])
        request.DurationSeconds = 900
        client.GetFederationToken(request)

    for scheme in ["TC3-HMAC-SHA256", "HmacSHA1", "HmacSHA256"]:
        for method in ["POST", "GET"]:
            call = lambda scheme=scheme, method=method: tencent(scheme, method)  # noqa: E731
            yield "tencentcloud-sdk-python-common", "cos", call
    tool = {
        "url": f"http://{address}/", "domain": TOKEN_HOST[0], "duration_seconds": 900, "secret_id": TOKEN_KEYS[0],
        "secret_key": TOKEN_KEYS[1], "policy": TOKEN_POLICIES["cos"], "region": "ap-guangzhou",
    }  # fmt: skip
    yield "qcloud-python-sts", "cos", lambda: sts.sts.Sts(tool).get_credential()


def token_vectors():
    """Whole requests, as they come to a server, which understands none."""
    random.seed(9)
    received = []
    listener = socket.create_server(TOKEN_HOST)

    def serve():
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                line = stream.readline().decode().split()
                headers = []
                while text := stream.readline().decode().strip():
                    name, _, value = text.partition(":")
                    headers.append([name, value.strip()])
                length = next((int(v) for k, v in headers if k.lower() == "content-length"), 0)
                received.append((line[0], line[1], headers, stream.read(length)))
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")

    threading.Thread(target=serve, daemon=True).start()
    for name, vendor, call in token_calls():
        try:
            call()
        except Exception:  # There is no answer that it could understand.
            if not received:
                raise
        method, target, headers, body = received.pop()
        signed = next((v for k, v in headers if k.lower() == "authorization"), "")
        left_out = TOKEN_HEADERS_LEFT_OUT | (set() if "user-agent" in signed else {"user-agent"})
        yield {
            "source": package(name), "vendor": vendor, "id": TOKEN_KEYS[0], "secret": TOKEN_KEYS[1], "time": NOW,
            "method": method, "target": target, "headers": [h for h in headers if h[0].lower() not in left_out],
            "body": body.decode(),
        }  # fmt: skip


def write(name, *groups):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    vectors = [vector for group in groups for vector in group]
    lines = ",\n".join("  " + json.dumps(v, ensure_ascii=True) for v in vectors)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")
    print(name, len(vectors))


write("oss", oss2_vectors(), oss_v2_vectors())
write("cos", cos_vectors())
write("tencent", tencent_vectors(), sts_vectors())
write("aliyun", rpc_vectors(), acs_vectors())
write("aliyun-hard", rpc_hard_vectors(), acs_hard_vectors(), aliyun_known_vectors())
write("aws", aws_vectors())
write("tokens", token_vectors())
