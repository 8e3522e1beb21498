"""The token calls of Alibaba Cloud and Tencent Cloud at the object endpoint, by the vendors' own SDKs, unmodified."""

import ast
import base64
import hashlib
import hmac
import json
import random
import re
import socket
import time
import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
import requests
from alibabacloud_sts20150401.client import Client as StsClient
from alibabacloud_sts20150401.models import AssumeRoleRequest as TeaAssumeRoleRequest
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException
from alibabacloud_tea_openapi.models import Config
from aliyunsdkcore.acs_exception.exceptions import ServerException
from aliyunsdkcore.auth.credentials import AccessKeyCredential, StsTokenCredential
from aliyunsdkcore.client import AcsClient
from aliyunsdksts.request.v20150401.AssumeRoleRequest import AssumeRoleRequest
from sts.sts import Sts
from tencentcloud.common.credential import Credential
from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException
from tencentcloud.common.profile.client_profile import ClientProfile
from tencentcloud.common.profile.http_profile import HttpProfile
from tencentcloud.sts.v20180813.models import AssumeRoleRequest as TencentAssumeRoleRequest
from tencentcloud.sts.v20180813.models import GetFederationTokenRequest
from tencentcloud.sts.v20180813.sts_client import StsClient as TencentStsClient

from harness import hosts
from harness.api import API, moment
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import COSCalls
from harness.server import run

ROLE = "acs:ram::1234567890123456:role/uploader"
TENCENT_ROLE = "qcs::cam::uin/100000000001:roleName/uploader"
# Clients of Tencent Cloud have names of buckets that end with the number of an account.
COS_BUCKET = f"{BUCKET}-1250000000"
RAM = {
    "Version": "1",
    "Statement": [
        {"Effect": "Allow", "Action": ["oss:PutObject", "oss:ListParts"], "Resource": f"acs:oss:*:*:{BUCKET}/a b/*"}
    ],
}
CAM = {
    "version": "2.0",
    "statement": [
        {
            "effect": "allow",
            "action": ["name/cos:PutObject", "name/cos:UploadPart"],
            "resource": [f"qcs::cos:ap-guangzhou:uid/1250000000:{COS_BUCKET}/a b/*"],
        }
    ],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_OBJECT_BUCKETS": COS_BUCKET, "SLUICE_OBJECT_DOMAINS": DOMAINS["cos"]}
    with ObjectServer(tmp_path_factory.mktemp("tokens") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def pairs(gateway):
    """Access key, secret and optional token of callers that can and cannot mint."""

    def new_key(scope):
        made = run("keys", "create", "--name", scope, "--scope", scope, environment=gateway.environment).stdout
        return gateway.pair(re.search(r"id: (\S+)", made)[1])

    admin = gateway.pair()
    return {
        "admin": admin,
        "minter": new_key("mint"),
        "uploader": new_key("upload"),
        "wrong": (admin[0], "x" * 40),
        "unknown": ("SLAKNOTTHERE", "x" * 40),
    }


def host(gateway):
    return gateway.object_url.partition("//")[2]


# Each returns access key, secret, token and expiry, or raises an error for `refusal`.


def core(gateway, pair, method="POST", policy=None, **parameters):
    """aliyun-python-sdk-core and -sts: all parameters in the query."""
    credential = StsTokenCredential(*pair) if len(pair) == 3 else AccessKeyCredential(*pair)
    client = AcsClient(region_id="cn-shanghai", credential=credential, auto_retry=False)
    client.add_endpoint("cn-shanghai", "Sts", host(gateway))
    request = AssumeRoleRequest()
    request.set_protocol_type("http")
    request.set_method(method)
    for name, value in {"RoleArn": ROLE, "RoleSessionName": "alice", "DurationSeconds": 900, **parameters}.items():
        request.add_query_param(name, value)
    if policy:
        request.set_Policy(json.dumps(policy))
    document = json.loads(client.do_action_with_exception(request))
    assert document["RequestId"]
    user, credentials = document["AssumedRoleUser"], document["Credentials"]
    assert user["Arn"] == f"{ROLE}/alice" and user["AssumedRoleId"].endswith(":alice")
    return (
        credentials["AccessKeyId"],
        credentials["AccessKeySecret"],
        credentials["SecurityToken"],
        moment(credentials["Expiration"]),
    )


def tea(gateway, pair, policy=None, duration=900, **settings):
    """alibabacloud-sts20150401: signed in the header, or, as its second version, a form."""
    token = {"security_token": pair[2], "type": "sts"} if len(pair) == 3 else {}
    client = StsClient(
        Config(
            access_key_id=pair[0],
            access_key_secret=pair[1],
            endpoint=host(gateway),
            protocol="http",
            region_id="cn-shanghai",
            **token,
            **settings,
        )
    )
    request = TeaAssumeRoleRequest(
        role_arn=ROLE,
        role_session_name="alice",
        duration_seconds=duration,
        policy=json.dumps(policy) if policy else None,
    )
    body = client.assume_role(request).body
    assert body.request_id
    assert body.assumed_role_user.arn == f"{ROLE}/alice"
    assert body.assumed_role_user.assumed_role_id.endswith(":alice")
    found = body.credentials
    return found.access_key_id, found.access_key_secret, found.security_token, moment(found.expiration)


def tencent(
    gateway, pair, scheme="TC3-HMAC-SHA256", method="POST", policy=CAM, duration=900, unsigned=False, role=None
):
    """tencentcloud-sdk-python-sts: AssumeRole if there is a role, GetFederationToken otherwise."""
    http = HttpProfile(protocol="http", endpoint=host(gateway), reqMethod=method)
    profile = ClientProfile(scheme, http)
    profile.unsignedPayload = unsigned
    client = TencentStsClient(Credential(*pair), "ap-guangzhou", profile)
    if role:
        call, request = client.AssumeRole, TencentAssumeRoleRequest()
        request.RoleArn, request.RoleSessionName = role, "alice"
    else:
        call, request = client.GetFederationToken, GetFederationTokenRequest()
        request.Name = "alice"
    request.Policy = quote(json.dumps(policy)) if policy else None
    request.DurationSeconds = duration
    answer = call(request)
    assert answer.RequestId
    end = moment(answer.Expiration)
    assert end.timestamp() == answer.ExpiredTime
    found = answer.Credentials
    return found.TmpSecretId, found.TmpSecretKey, found.Token, end


def tool(gateway, pair, policy=CAM, duration=900):
    """qcloud-python-sts."""
    settings = {
        "url": f"{gateway.object_url}/",
        "domain": host(gateway),
        "duration_seconds": duration,
        "secret_id": pair[0],
        "secret_key": pair[1],
        "policy": policy,
        "region": "ap-guangzhou",
    }
    answer = Sts(settings).get_credential()
    assert answer["requestId"]
    assert answer["startTime"] + duration == answer["expiredTime"]
    end = moment(answer["expiration"])
    assert end.timestamp() == answer["expiredTime"]
    found = answer["credentials"]
    return found["tmpSecretId"], found["tmpSecretKey"], found["sessionToken"], end


def refusal(call, *arguments, **parameters):
    """Status and code of a response, as far as the SDK exposes them; `None` if nothing was refused."""
    try:
        call(*arguments, **parameters)
    except ServerException as error:
        return error.get_http_status(), error.get_error_code()
    except AlibabaCloudException as error:
        return error.status_code, error.code
    except TencentCloudSDKException as error:
        assert error.requestId
        return error.code
    except Exception as error:
        # The tool tells what came as a text.
        return ast.literal_eval(error.args[0].removeprefix("result: "))["Error"]["Code"]
    return None


ALIYUN = {
    "core GET": lambda *a, **k: core(*a, method="GET", **k),
    "core POST": core,
    "tea ACS3": tea,
    "tea RPC": lambda *a, **k: tea(*a, signature_algorithm="v2", **k),
}
TENCENT = {
    "TC3 POST": tencent,
    "TC3 GET": lambda *a, **k: tencent(*a, method="GET", **k),
    "TC3 unsigned": lambda *a, **k: tencent(*a, unsigned=True, **k),
    "SHA1 POST": lambda *a, **k: tencent(*a, scheme="HmacSHA1", **k),
    "SHA1 GET": lambda *a, **k: tencent(*a, scheme="HmacSHA1", method="GET", **k),
    "SHA256 POST": lambda *a, **k: tencent(*a, scheme="HmacSHA256", **k),
    "SHA256 GET": lambda *a, **k: tencent(*a, scheme="HmacSHA256", method="GET", **k),
    "TC3 role POST": lambda *a, **k: tencent(*a, role=TENCENT_ROLE, **k),
    "TC3 role GET": lambda *a, **k: tencent(*a, role=TENCENT_ROLE, method="GET", **k),
    "SHA1 role POST": lambda *a, **k: tencent(*a, role=TENCENT_ROLE, scheme="HmacSHA1", **k),
    "SHA256 role GET": lambda *a, **k: tencent(*a, role=TENCENT_ROLE, scheme="HmacSHA256", method="GET", **k),
    "tool": tool,
}
CLIENTS = ALIYUN | TENCENT


@pytest.mark.parametrize("name", CLIENTS)
def test_an_sdk_gets_credentials(gateway, pairs, name):
    policy = RAM if name in ALIYUN else CAM
    for holder in ("admin", "minter"):
        identifier, secret, token, end = CLIENTS[name](gateway, pairs[holder], policy=policy)
        assert re.fullmatch(r"STS\.[A-Z2-7]{24}" if name in ALIYUN else r"AKID[A-Z2-7]{32}", identifier)
        assert re.fullmatch(r"[A-Z2-7]{40}", secret)
        assert re.fullmatch(r"[A-Za-z0-9_.-]{100,4096}", token)
        assert abs(end - datetime.now(UTC) - timedelta(seconds=900)) < timedelta(seconds=60)


UNKNOWN = {name: (404, "InvalidAccessKeyId.NotFound") for name in ALIYUN} | {
    name: "AuthFailure.SecretIdNotFound" for name in TENCENT
}


@pytest.mark.parametrize("name", CLIENTS)
def test_callers_that_cannot_mint(gateway, pairs, name):
    call = CLIENTS[name]
    expected = UNKNOWN[name]
    assert refusal(call, gateway, pairs["unknown"]) == expected
    assert refusal(call, gateway, pairs["uploader"]) == expected


@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrong_secret(gateway, pairs, name):
    if name.startswith("core"):
        # How the SDK reports its own string to sign.
        expected = (400, "InvalidAccessKeySecret")
    else:
        expected = (400, "SignatureDoesNotMatch") if name in ALIYUN else "AuthFailure.SignatureFailure"
    assert refusal(CLIENTS[name], gateway, pairs["wrong"]) == expected


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "tool"])
def test_sessions_mint_no_sessions(gateway, pairs, name):
    call = CLIENTS[name]
    session = call(gateway, pairs["admin"])[:3]
    assert refusal(call, gateway, session) == ((403, "NoPermission") if name in ALIYUN else "AuthFailure.TokenFailure")


@pytest.mark.parametrize("name", CLIENTS)
def test_unsupported_policies_are_refused(gateway, pairs, name):
    if name in ALIYUN:
        statement, expected = RAM["Statement"][0], (400, "InvalidParameter.PolicyGrammar")
        bad = [
            {**RAM, "Version": "2"},
            {"Version": "1", "Statement": [statement | {"Condition": {"IpAddress": {"acs:SourceIp": "10.0.0.1"}}}]},
            {"Version": "1", "Statement": [statement | {"Action": "oss:PutBucketAcl"}]},
        ]
    else:
        statement, expected = CAM["statement"][0], "InvalidParameter.StrategyFormatError"
        bad = [
            {**CAM, "version": "3.0"},
            {"version": "2.0", "statement": [statement | {"condition": {"ip_equal": {"qcs:ip": "10.0.0.1"}}}]},
            {"version": "2.0", "statement": [statement | {"action": ["name/cos:PutBucketACL"]}]},
        ]
    for policy in bad:
        assert refusal(CLIENTS[name], gateway, pairs["minter"], policy=policy) == expected


def test_durations(gateway, pairs):
    pair = pairs["minter"]
    assert refusal(core, gateway, pair, DurationSeconds=899) == (400, "InvalidParameter.DurationSeconds")
    assert refusal(tea, gateway, pair, duration=43_201) == (400, "InvalidParameter.DurationSeconds")
    assert refusal(tencent, gateway, pair, duration=129_601) == "InvalidParameter.OverTimeError"
    assert refusal(tool, gateway, pair, duration=129_601) == "InvalidParameter.OverTimeError"
    assert refusal(tencent, gateway, pair, duration=43_201, role=TENCENT_ROLE) == "InvalidParameter.OverTimeError"
    assert tencent(gateway, pair, duration=1)[3] <= datetime.now(UTC) + timedelta(seconds=2)


def test_a_role_of_tencent_is_narrowed_by_the_policy_alone(gateway, pairs, monkeypatch):
    port = int(gateway.object_url.rsplit(":", 1)[1])
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({DOMAINS["cos"]: port}))

    def client(**asked):
        held = tencent(gateway, pairs["admin"], role=TENCENT_ROLE, **asked)[:3]
        return COSCalls(port, COS_BUCKET, held)

    narrowed, whole = client(), client(policy=None)
    narrowed.put("a b/1", b"narrowed")
    denied = (403, "AccessDenied")
    assert [narrowed.code("put", "b/1"), narrowed.code("get", "a b/1"), narrowed.code("delete", "a b/1")] == [
        denied
    ] * 3
    assert whole.get("a b/1") == b"narrowed"
    whole.put("b/1")
    whole.delete("a b/1")


def test_what_an_assumed_role_of_tencent_must_have(gateway, pairs):
    pair = pairs["minter"]
    wrong = "qcs::cam::uin/100000000001:user/uploader"
    assert refusal(tencent, gateway, pair, role=wrong) == "InvalidParameter.ResouceError"
    profile = ClientProfile(httpProfile=HttpProfile(protocol="http", endpoint=host(gateway)))
    client = TencentStsClient(Credential(*pair), "ap-guangzhou", profile)
    request = TencentAssumeRoleRequest()
    request.RoleArn, request.RoleSessionName = TENCENT_ROLE, "alice"
    answer = client.AssumeRole(request)
    assert abs(moment(answer.Expiration) - datetime.now(UTC) - timedelta(seconds=7200)) < timedelta(seconds=60)
    request.SerialNumber = "qcs::cam:uin/100000000001::mfa/softToken"
    assert refusal(client.AssumeRole, request) == "UnknownParameter"
    request.SerialNumber, request.RoleSessionName = None, "a/b"
    assert refusal(client.AssumeRole, request) == "InvalidParameter.ParamError"


def test_other_calls(gateway, pairs):
    from aliyunsdksts.request.v20150401.GetCallerIdentityRequest import GetCallerIdentityRequest
    from tencentcloud.sts.v20180813.models import GetCallerIdentityRequest as TencentIdentityRequest

    client = AcsClient(*pairs["minter"], "cn-shanghai", auto_retry=False)
    client.add_endpoint("cn-shanghai", "Sts", host(gateway))
    request = GetCallerIdentityRequest()
    request.set_protocol_type("http")
    assert refusal(client.do_action_with_exception, request) == (404, "InvalidAction.NotFound")
    profile = ClientProfile(httpProfile=HttpProfile(protocol="http", endpoint=host(gateway)))
    tencent_client = TencentStsClient(Credential(*pairs["minter"]), "ap-guangzhou", profile)
    assert refusal(tencent_client.GetCallerIdentity, TencentIdentityRequest()) == "InvalidAction"


# Signed here, to send requests that no SDK would.


def aliyun_parameters(pair, method="GET", when=None, stamp="%Y-%m-%dT%H:%M:%SZ", **changes):
    """Parameters of AssumeRole, signed as "Request signatures" of the OpenAPI describes."""
    parameters = {
        "Action": "AssumeRole",
        "Version": "2015-04-01",
        "RoleArn": ROLE,
        "RoleSessionName": "alice",
        "AccessKeyId": pair[0],
        "SignatureMethod": "HMAC-SHA1",
        "SignatureVersion": "1.0",
        "SignatureNonce": str(uuid.uuid4()),
        "Timestamp": (when or datetime.now(UTC)).strftime(stamp),
    } | changes
    query = "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in sorted(parameters.items()))
    text = f"{method}&%2F&{quote(query, safe='~')}"
    code = hmac.new(f"{pair[1]}&".encode(), text.encode(), hashlib.sha1).digest()
    return parameters | {"Signature": base64.b64encode(code).decode()}


def aliyun_answer(answer):
    """Status, content type and code of an answer in XML."""
    root = ElementTree.fromstring(answer.content)
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.status_code, answer.headers["Content-Type"], root.findtext("Code")


GOOD = (200, "text/xml;charset=utf-8", None)


def test_without_a_format_the_answer_is_xml(gateway, pairs):
    answer = requests.get(gateway.object_url, params=aliyun_parameters(pairs["minter"]), timeout=10)
    root = ElementTree.fromstring(answer.content)
    assert root.tag == "AssumeRoleResponse" and root.findtext("RequestId")
    assert root.findtext("AssumedRoleUser/Arn") == f"{ROLE}/alice"
    assert root.findtext("Credentials/AccessKeyId").startswith("STS.")
    assert {one.tag for one in root.find("Credentials")} == {
        "AccessKeyId",
        "AccessKeySecret",
        "SecurityToken",
        "Expiration",
    }
    assert abs(moment(root.findtext("Credentials/Expiration")) - datetime.now(UTC)) < timedelta(seconds=3660)


def test_a_nonce_works_once(gateway, pairs):
    url = gateway.object_url
    signed = aliyun_parameters(pairs["minter"])
    assert aliyun_answer(requests.get(url, params=signed, timeout=10)) == GOOD
    used = (400, "text/xml;charset=utf-8", "SignatureNonceUsed")
    assert aliyun_answer(requests.get(url, params=signed, timeout=10)) == used
    nonce = signed["SignatureNonce"]
    again = aliyun_parameters(pairs["minter"], "POST", SignatureNonce=nonce)
    assert aliyun_answer(requests.post(url, data=again, timeout=10)) == used
    other = aliyun_parameters(pairs["admin"], "POST", SignatureNonce=nonce)
    assert aliyun_answer(requests.post(url, data=other, timeout=10)) == GOOD


def test_parameters_are_in_the_query_or_in_a_form_or_in_both(gateway, pairs):
    url = gateway.object_url
    for count in (0, 1, 5, 9, 10):
        items = list(aliyun_parameters(pairs["minter"], "POST").items())
        random.shuffle(items)
        answer = requests.post(url, params=dict(items[:count]), data=dict(items[count:]), timeout=10)
        assert aliyun_answer(answer) == GOOD


def test_clocks_and_fractions_of_seconds(gateway, pairs):
    now = datetime.now(UTC)
    expired = (400, "text/xml;charset=utf-8", "InvalidTimeStamp.Expired")
    for minutes, expected in [(-20, expired), (-10, GOOD), (10, GOOD), (20, expired)]:
        signed = aliyun_parameters(pairs["minter"], when=now + timedelta(minutes=minutes))
        assert aliyun_answer(requests.get(gateway.object_url, params=signed, timeout=10)) == expected
    signed = aliyun_parameters(pairs["minter"], stamp="%Y-%m-%dT%H:%M:%S.123Z")
    assert aliyun_answer(requests.get(gateway.object_url, params=signed, timeout=10)) == GOOD
    signed = aliyun_parameters(pairs["minter"], stamp="%Y-%m-%d %H:%M:%S")
    answer = aliyun_answer(requests.get(gateway.object_url, params=signed, timeout=10))
    assert answer == (400, "text/xml;charset=utf-8", "InvalidTimeStamp.Format")


def test_who_changes_a_call(gateway, pairs):
    signed = aliyun_parameters(pairs["minter"], Format="JSON", Policy=json.dumps(RAM))
    for changes in ({"RoleSessionName": "bob"}, {"Policy": ""}, {"DurationSeconds": "43200"}):
        answer = requests.get(gateway.object_url, params=signed | changes, timeout=10)
        assert answer.status_code == 400 and answer.json()["Code"] == "SignatureDoesNotMatch"
        assert answer.json()["HostId"] == host(gateway)
        assert pairs["minter"][1] not in answer.text
    del signed["Policy"]
    answer = requests.get(gateway.object_url, params=signed, timeout=10)
    assert answer.json()["Code"] == "SignatureDoesNotMatch"


def test_tencent_answers_with_200_always(gateway, pairs):
    url = gateway.object_url
    for headers, content, code in [
        ({"X-TC-Action": "GetFederationToken"}, b"{}", "AuthFailure.InvalidAuthorization"),
        ({"X-TC-Action": "x", "Authorization": "TC3-HMAC-SHA256 x"}, b"", "AuthFailure.InvalidAuthorization"),
        ({"X-TC-Action": "GetFederationToken"}, b"{" * 70_000, "InvalidParameter"),
    ]:
        answer = requests.post(url, data=content, headers=headers, timeout=10)
        assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/json"
        assert answer.json()["Response"]["Error"]["Code"] == code and answer.json()["Response"]["RequestId"]


def test_a_nonce_of_tencent_works_once_in_its_second(gateway, pairs):
    parameters = {
        "Action": "GetFederationToken",
        "Version": "2018-08-13",
        "Name": "alice",
        "Policy": quote(json.dumps(CAM)),
        "SecretId": pairs["minter"][0],
        "Nonce": "100",
    }

    def send(timestamp):
        values = parameters | {"Timestamp": str(timestamp)}
        query = "&".join(f"{name}={value}" for name, value in sorted(values.items()))
        text = f"POST{host(gateway)}/?{query}"
        signature = hmac.new(pairs["minter"][1].encode(), text.encode(), hashlib.sha1).digest()
        values["Signature"] = base64.b64encode(signature).decode()
        return requests.post(gateway.object_url, data=values, timeout=10).json()["Response"]

    now = int(time.time())
    assert "Credentials" in send(now)
    assert send(now)["Error"]["Code"] == "AuthFailure.SignatureFailure"
    assert "Credentials" in send(now + 1)
    assert send(now - 320)["Error"]["Code"] == "AuthFailure.SignatureExpire"


def test_credentials_are_counted(gateway, pairs):
    def minted():
        text = API(gateway.url, gateway.admin_key).get("/metrics").text
        found = re.search(r'^sluice_minted_total\{kind="sts_token"\} (\d+)$', text, re.MULTILINE)
        return int(found[1]) if found else 0

    before = minted()
    core(gateway, pairs["minter"])
    tencent(gateway, pairs["minter"])
    assert refusal(tencent, gateway, pairs["wrong"])
    assert minted() == before + 2
