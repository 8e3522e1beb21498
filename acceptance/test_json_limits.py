"""JSON that is large in another way than by its bytes: answers stay small, and so does memory."""

import base64
import itertools
import json
import re

import boto3
import pytest
import requests

from harness import vod_api
from harness.aliyun_vod import Plain as ApsaraVOD
from harness.api import API
from harness.daemon import free_port
from harness.data import KIB, MIB
from harness.object_client import ObjectServer
from harness.openapi import DOCUMENT
from harness.ugc import announced, signer
from harness.vimeo import Plain as Vimeo
from harness.vimeo import token as vimeo_token

# JSON limits

PATHS = ["/v1/tus/tokens", "/v1/tencent/signatures", "/v1/sts/tokens", "/v1/presigned-urls"]


def many(count, make_name=str):
    return "{" + ",".join(f"{json.dumps(make_name(number))}:1" for number in range(count)) + "}"


def refusal(api, path, text, status, code):
    answer = api.request("POST", path, data=text.encode(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text[:500]
    assert len(answer.content) < 16 * KIB
    return answer.json()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "text",
    [
        many(100_000),
        "{" + '"a":1,' * 100_000 + '"a":1}',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":[' + "1," * 100_000 + "1]}",
        '{"a":[' + '{"b":1},' * 100_000 + "1]}",
    ],
    ids=["members", "one-name", "depth", "elements", "objects"],
)
def test_documents_beyond_the_limits_are_refused(api, path, text):
    assert len(text) < MIB
    assert "may have at most" in refusal(api, path, text, 400, "invalid_json")["detail"]


@pytest.mark.parametrize("path", PATHS)
def test_the_first_of_many_unknown_members_are_listed(api, path):
    problem = refusal(api, path, many(1000, "{:04}".format), 422, "invalid_field")
    listed = [error["field"] for error in problem["errors"]]
    # What is required and is not there comes first.
    assert len(listed) == 10 and {f"{number:04}" for number in range(5)} < set(listed)
    assert re.search(r"; and 99\d more$", problem["detail"])


@pytest.mark.parametrize("path", PATHS)
def test_long_names_are_not_repeated(api, path):
    problem = refusal(api, path, many(900, lambda number: f"{number:03}" + "x" * 1000), 422, "invalid_field")
    assert max(len(error["field"]) for error in problem["errors"]) == 65
    repeated = "{" + ",".join(['"' + "y" * 100_000 + '":1'] * 8) + "}"
    assert max(len(error["field"]) for error in refusal(api, path, repeated, 422, "invalid_field")["errors"]) == 65


def test_memory_does_not_grow(make_server):
    with make_server() as server:
        api = API(server.url, server.admin_key)
        for path in PATHS:
            refusal(api, path, many(10), 422, "invalid_field")
        before = server.peak_memory()
        for path in PATHS:
            refusal(api, path, many(100_000), 400, "invalid_json")
            refusal(api, path, many(900, lambda number: f"{number:03}" + "x" * 1000), 422, "invalid_field")
        assert server.peak_memory() < before + 24 * MIB


# Each place where JSON of a caller is read


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {
        "SLUICE_PULL_ALLOW": "127.0.0.1",
        "SLUICE_VIMEO_CALLS_PER_MINUTE": "100000",
        "SLUICE_JWT_ISSUERS": json.dumps([{"issuer": "https://issuer.example", "audience": "a"}]),
    }
    with ObjectServer(tmp_path_factory.mktemp("places") / "data", free_port(), settings) as server:
        yield server


# Calls with JSON that name no resource, by their paths; calls of vendors are signed in ways of their own.
ROUTES = [
    path
    for path, item in DOCUMENT["paths"].items()
    if path.startswith("/v1/") and "{" not in path
    if "application/json" in item.get("post", {}).get("requestBody", {}).get("content", {})
]


def coded(text):
    return base64.b64encode(text.encode()).decode()


def rest(path):
    def call(server, text):
        fields = {"Content-Type": "application/json"}
        return API(server.url, server.admin_key).request("POST", path, data=text.encode(), headers=fields)

    return call


def companion(path):
    """With a user's token, as pages have it."""

    def call(server, text):
        api = API(server.url, server.admin_key)
        minted = api.post("/v1/tus/tokens", {"subject": "dora", "objects": True}).json()
        fields = {"Content-Type": "application/json"}
        return api.request("POST", path, key=minted["token"], data=text.encode(), headers=fields)

    return call


def vimeo(server, text):
    fields = {"Content-Type": "application/json"}
    return Vimeo(server, vimeo_token(server))("POST", "/me/videos", data=text.encode(), headers=fields)


def ugc(server, text):
    text = text.replace('"signature"', f'"signature":"{signer(server)()}"')
    return requests.post(f"{server.url}/v3/index.php?Action=ApplyUploadUGC", data=text.encode(), timeout=60)


def tencent(server, text):
    data = text.encode()
    fields = vod_api.tc3(server.pair(), vod_api.address(server), data, "DescribeMediaInfos")
    return requests.post(server.url + "/", data=data, headers=fields, timeout=60)


def apsara(action, parameter, **others):
    return lambda server, text: ApsaraVOD(server).answer(action, others | {parameter: text})


def policy(server, text):
    pair = dict(zip(("aws_access_key_id", "aws_secret_access_key"), server.pair(), strict=True))
    sts = boto3.client("sts", endpoint_url=server.object_url, region_name="us-east-1", **pair)
    answers = []
    sts.meta.events.register("after-call.sts.AssumeRole", lambda http_response, **_: answers.append(http_response))
    try:
        sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="bob", Policy=text)
    except sts.exceptions.ClientError:
        pass
    return answers[0]


# A text with a place for an object, and how it is sent.
PLACES = {
    **{path: ('{"zz":§}', rest(path)) for path in ROUTES},
    "metadata of tokens": ('{"subject":"a","metadata":§}', rest("/v1/tus/tokens")),
    "parameters of Companion": ('{"filename":"a","type":"a/b","zz":§}', companion("/s3/multipart")),
    "metadata of Companion": ('{"filename":"a","type":"a/b","metadata":{"b":§}}', companion("/s3/multipart")),
    "parts of Companion": (
        '{"parts":[{"PartNumber":1,"ETag":"a","zz":§}]}',
        companion("/s3/multipart/x/complete?key=dora/a"),
    ),
    "Vimeo": ('{"upload":{"approach":"tus","size":1},"zz":§}', vimeo),
    "members for Vimeo": ('{"upload":{"approach":"tus","size":1,"zz":§}}', vimeo),
    "Tencent UGC": ('{"signature",' + json.dumps(announced(1))[1:-1] + ',"zz":§}', ugc),
    "Tencent's API": ('{"FileIds":["1"],"zz":§}', tencent),
    "UserData": ('{"Extend":§}', apsara("CreateUploadVideo", "UserData", Title="t", FileName="a.mp4")),
    "UserData as text": (
        '{"MessageCallback":"{\\"CallbackURL\\":\\"http://127.0.0.1/\\",\\"zz\\":§}"}',
        apsara("CreateUploadVideo", "UserData", Title="t", FileName="a.mp4"),
    ),
    "UploadInfoList": (
        '[{"FileName":"a","FileSize":1,"FileHash":"h","zz":§}]',
        apsara("GetUploadProgress", "UploadInfoList", UserId="u", ClientId="c"),
    ),
    "policy of a session": (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*","zz":§}]}',
        policy,
    ),
}

NAMES = [('"k"', '"k"'), ('"k"', '"\\u006b"'), ('"\\ud83d\\ude00"', '"\U0001f600"'), ('""', '""')]
VALUES = ["1", '"a"', "null", "{}", "[[]]"]
WRAPS = ["§", '{"o":§}', "[§]", '[0,{"o":[{"p":§}]}]', '{"a":{"k":1},"b":[{"k":1},{"k":2}],"o":§}']


def combined(quick):
    """Of all of them; in the gate each form with each pair of names."""
    if not quick:
        return itertools.product(WRAPS, NAMES, VALUES)
    pairs = itertools.product(WRAPS, NAMES)
    return [(wrap, names, VALUES[number % len(VALUES)]) for number, (wrap, names) in enumerate(pairs)]


def nested(wrap, first, second, value):
    """An object with these two members among others, somewhere inside."""
    return wrap.replace("§", f'{{"x":0,{first}:{value},"y":{{"k":3}},{second}:"b"}}')


def outcome(answer):
    """What an answer says, without what differs each time."""
    text = answer.data.decode() if hasattr(answer, "data") else getattr(answer, "text", None)
    text = answer.content.decode() if text is None else text
    return answer.status_code, text


@pytest.mark.parametrize("place", PLACES)
def test_repeated_names_are_refused_at_every_depth(gateway, quick, place):
    """Two readers could take another one of the values: nothing that is said twice is accepted, wherever it is."""
    text, call = PLACES[place]

    def sent(inner):
        inner = json.dumps(inner)[1:-1] if place == "UserData as text" else inner
        return outcome(call(gateway, text.replace("§", inner)))

    assert not says_repeated(sent(nested("§", '"k"', '"l"', "1")))
    for wrap, (first, second), value in combined(quick):
        answer = sent(nested(wrap, first, second, value))
        assert says_repeated(answer), (wrap, first, second, value, answer)


def test_repeated_names_of_metadata_for_a_pull_are_refused(gateway):
    """Their values are texts."""
    url = "http://127.0.0.1:9/a.mp4"
    call = apsara("UploadMediaByURL", "UploadMetadatas", UploadURLs=url)
    for names, is_accepted in [
        (("Title", "Tags"), True),
        (("Title", "Title"), False),
        (("Title", "T\\u0069tle"), False),
    ]:
        one = f'{{"SourceURL":"{url}",' + ",".join(f'"{name}":"{number}"' for number, name in enumerate(names)) + "}"
        for text in (f"[{one}]", f'[{{"SourceURL":"{url}"}},{one}]'):
            answer = call(gateway, text)
            assert (answer.status_code == 200) == is_accepted, (text, answer.text)


def says_repeated(answer):
    status, text = answer
    said = re.search(r"twice|only once|occur once|repeated names|JSON object|JSON list|must be JSON", text)
    is_refused = status >= 400 or re.search(r'"code":(?!0\b)|"Error":', text)
    return bool(said and is_refused)


# Depth


def bearer(server, head, claims):
    """A token that nobody has signed."""
    parts = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (head, claims, "x" * 64)]
    fields = {"Authorization": "Bearer " + ".".join(parts), "Tus-Resumable": "1.0.0", "Upload-Length": "1"}
    return requests.post(f"{server.url}/files", headers=fields, timeout=60)


def unsigned(server, text):
    return requests.post(f"{server.url}/v3/index.php?Action=ApplyUploadUGC", data=text, timeout=60)


DEEP = {
    "head of a token": lambda server, inner: bearer(server, f'{{"alg":"RS256","x":{inner}}}', '{"iss":"x"}'),
    "claims of a token": lambda server, inner: bearer(server, '{"alg":"RS256"}', f'{{"iss":"x","x":{inner}}}'),
    "call of Tencent UGC": lambda server, inner: unsigned(server, f'{{"signature":"x","x":{inner}}}'),
}


@pytest.mark.parametrize("place", DEEP)
def test_depth_costs_no_more_than_length(gateway, place):
    """What nobody has signed yet takes time by its bytes, not by a power of its depth."""

    def cost(inner):
        before = gateway.cpu_seconds()
        for _ in range(20):
            assert DEEP[place](gateway, inner).status_code in (200, 401)
        return gateway.cpu_seconds() - before

    # Clients of vendors may nest less than others, and so more often.
    if place == "call of Tencent UGC":
        deep = "[" * 30 + "[]," * 19_000 + "[]" + "]" * 30
    else:
        deep = "[" * 500 + "]" * 500
    flat = json.dumps("x" * (len(deep) - 2))
    cost(flat)
    assert cost(deep) < 5 + 5 * cost(flat)


@pytest.mark.parametrize("place", ["parts of Companion", "UploadInfoList", "policy of a session"])
@pytest.mark.parametrize(
    "deep", ["[" * 500 + "]" * 500, "[" * 25 + "[]," * 300 + "[]" + "]" * 25], ids=["deep", "wide"]
)
def test_what_is_signed_costs_no_more_than_its_length(gateway, place, deep):
    """Whether it is taken or refused."""
    text, call = PLACES[place]

    def cost(inner):
        before = gateway.cpu_seconds()
        for _ in range(10):
            call(gateway, text.replace("§", inner))
        return gateway.cpu_seconds() - before

    flat = json.dumps("x" * (len(deep) - 2))
    cost(flat)
    assert cost(deep) < 2 + 5 * cost(flat)
