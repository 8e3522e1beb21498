"""URLs and forms that a backend mints for its app: what they allow at the object endpoint, and what they do not."""

import base64
import hashlib
import hmac
import json
import re
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests

from harness import object_client
from harness.api import API, field_problem, moment, problem
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.object_client import BUCKET, ObjectServer
from harness.server import run

PART = 5 * MIB
MINT = "/v1/presigned-urls"
ORIGIN = "https://app.example"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("presign") / "data", free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def api(gateway):
    return API(gateway.url, gateway.admin_key)


@pytest.fixture(scope="module")
def s3(gateway):
    return gateway.client()


def minted(api, key, **wanted):
    """What a backend gets and passes to its app."""
    answer = api.post(MINT, {"bucket": BUCKET, "key": key} | wanted)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json()


def send(signed, data=None, **headers):
    """What an app does with a URL."""
    return requests.request(signed["method"], signed["url"], data=data, headers=signed["headers"] | headers, timeout=30)


def parameters_of(signed):
    return dict(parse_qsl(urlsplit(signed["url"]).query))


def altered(signed, **parameters):
    """The same with another query."""
    base, _, query = signed["url"].partition("?")
    return signed | {"url": f"{base}?{urlencode(dict(parse_qsl(query)) | parameters)}"}


def error(answer):
    """Status and code of the endpoint's error."""
    return answer.status_code, re.search(r"<Code>(\w+)</Code>", answer.text)[1]


def read(s3, key):
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()


# One URL


def test_one_put(api, s3):
    key = "user-42/ü 1+2&=?#%41.mp4"
    signed = minted(
        api, key, subject="user-42", contentType="video/mp4", maxBytes=10, expiresIn=60, metadata={"album": "7"}
    )
    assert (signed["method"], signed["headers"]) == ("PUT", {"Content-Type": "video/mp4"})
    assert 50 < moment(signed["expiresAt"]).timestamp() - time.time() <= 60
    answer = send(signed, b"0123456789")
    assert answer.status_code == 200, answer.text
    assert answer.headers["ETag"] == f'"{hashlib.md5(b"0123456789").hexdigest()}"'
    assert read(s3, key) == b"0123456789"
    assert s3.head_object(Bucket=BUCKET, Key=key)["ContentType"] == "video/mp4"
    upload = api.get("/v1/uploads?subject=user-42&state=completed&limit=1").json()["uploads"][0]
    assert upload["metadata"]["album"] == "7"

    assert error(send(signed, b"0123456789+")) == (400, "EntityTooLarge")
    assert error(send(signed, b"1", **{"Content-Type": "text/html"})) == (403, "SignatureDoesNotMatch")
    assert error(send(signed, b"1", **{"x-amz-meta-album": "8"})) == (403, "AccessDenied")
    assert read(s3, key) == b"0123456789"


def test_what_a_url_does_not_do(api, s3):
    signed = minted(api, "own/1", expiresIn=600)
    for other in [
        signed | {"method": "GET"},
        signed | {"method": "DELETE"},
        signed | {"method": "POST"},
        signed | {"url": signed["url"].replace("/own/1?", "/own/2?")},
        signed | {"url": signed["url"].replace(f"/{BUCKET}/", "/other/")},
        signed | {"url": signed["url"].replace("127.0.0.1", "localhost")},
        altered(signed, uploads=""),
        altered(signed, **{"X-Amz-Expires": "601"}),
        altered(signed, **{"X-Amz-Security-Token": parameters_of(signed)["X-Amz-Security-Token"][:40]}),
    ]:
        answer = send(other, b"1")
        assert answer.status_code in (400, 403, 405), (other, answer.text)
    # A valid token of another URL, alone and with the key that belongs to it.
    other = parameters_of(minted(api, "own/1", expiresIn=3600))
    token = {"X-Amz-Security-Token": other["X-Amz-Security-Token"]}
    pair = token | {"X-Amz-Credential": other["X-Amz-Credential"]}
    assert not pair.items() & parameters_of(signed).items()
    assert error(send(altered(signed, **token), b"1")) == (400, "InvalidToken")
    assert error(send(altered(signed, **pair), b"1")) == (403, "SignatureDoesNotMatch")
    assert error(requests.put(signed["url"].partition("?")[0], data=b"1", timeout=10)) == (403, "AccessDenied")
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="own/")["KeyCount"] == 0
    assert send(signed, b"1").status_code == 200


def test_a_url_expires(api):
    signed = minted(api, "expires", expiresIn=1)
    deadline = time.monotonic() + 30
    while (answer := send(signed, b"1")).status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert error(answer) == (403, "AccessDenied")
    # Uppy recognises this text and requests another URL.
    assert "<Message>Request has expired</Message>" in answer.text


def test_a_one_time_url_is_used_once(api, s3):
    signed = minted(api, "once", oneTime=True)
    assert send(signed, b"1").status_code == 200
    assert error(send(signed, b"2")) == (403, "AccessDenied")
    assert read(s3, "once") == b"1"


def test_types_by_pattern(api):
    signed = minted(api, "typed", contentType="image/*")
    assert signed["headers"] == {}
    assert send(signed, b"1", **{"Content-Type": "image/png"}).status_code == 200
    assert error(send(signed, b"1", **{"Content-Type": "text/html"}))[1] == "ContentTypeRefused"
    assert error(send(signed, b"1"))[1] == "ContentTypeRefused"


def test_reading_and_removing(api, s3):
    s3.put_object(Bucket=BUCKET, Key="there", Body=b"0123456789")
    got = minted(api, "there", method="GET")
    assert (got["method"], got["headers"]) == ("GET", {})
    assert send(got).content == b"0123456789"
    assert send(got, Range="bytes=2-4").content == b"234"
    assert send(minted(api, "there", method="HEAD")).headers["Content-Length"] == "10"
    assert error(send(got | {"method": "PUT"}, b"1")) == (403, "SignatureDoesNotMatch")
    assert send(minted(api, "there", method="DELETE")).status_code == 204
    assert error(send(got)) == (404, "NoSuchKey")


# Parts


def document(parts):
    entries = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in parts)
    return f"<CompleteMultipartUpload>{entries}</CompleteMultipartUpload>"


def test_a_multipart_upload(api, s3):
    data = content(2 * PART + 7, 1)
    wanted = {"subject": "user-42", "contentType": "video/mp4", "maxBytes": len(data), "metadata": {"album": "9"}}
    first = minted(api, "parts/1", parts=[1, 2], **wanted)
    rest = minted(api, "parts/1", parts=[3], uploadId=first["uploadId"])
    assert rest["uploadId"] == first["uploadId"]
    urls = first["parts"] + rest["parts"]
    assert [url["partNumber"] for url in urls] == [1, 2, 3]
    tags = []
    for number, url in enumerate(urls):
        answer = send(url, data[number * PART : (number + 1) * PART])
        assert answer.status_code == 200, answer.text
        tags.append((number + 1, answer.headers["ETag"]))
    assert error(send(urls[2], data[:8])) == (400, "EntityTooLarge")
    assert re.findall(r"<PartNumber>(\d+)<", send(first["list"]).text) == ["1", "2", "3"]
    assert error(send(first["complete"], document([(1, '"0"')])))[1] == "InvalidPart"
    answer = send(first["complete"], document(tags))
    assert answer.status_code == 200, answer.text
    assert read(s3, "parts/1") == data
    assert s3.head_object(Bucket=BUCKET, Key="parts/1")["ContentType"] == "video/mp4"
    upload = api.get(f"/v1/uploads/{first['uploadId']}").json()
    assert (upload["subject"], upload["metadata"]["album"]) == ("user-42", "9")
    problem(
        api.post(MINT, {"bucket": BUCKET, "key": "parts/1", "uploadId": first["uploadId"], "parts": [4]}),
        404,
        "not_found",
    )


def test_urls_of_parts_are_for_their_upload_only(api):
    one, other = minted(api, "parts/2", parts=[1]), minted(api, "parts/2", parts=[1])
    part = one["parts"][0]
    for changed in [
        altered(part, partNumber="2"),
        altered(part, uploadId=other["uploadId"]),
        part | {"method": "GET"},
        one["abort"] | {"method": "PUT"},
        one["complete"] | {"method": "DELETE"},
    ]:
        assert error(send(changed, b"1")) in [(403, "SignatureDoesNotMatch"), (400, "InvalidRequest")]
    assert re.findall("<PartNumber>", send(one["list"]).text + send(other["list"]).text) == []
    assert send(one["abort"]).status_code == 204
    assert error(send(part, b"1")) == (404, "NoSuchUpload")
    assert send(other["abort"]).status_code == 204


def test_many_parts_at_once(api):
    many = minted(api, "parts/3", parts=list(range(9_001, 10_001)))
    assert len({url["url"] for url in many["parts"]}) == 1000
    assert send(many["parts"][-1], b"1").status_code == 200
    assert send(many["abort"]).status_code == 204


# Forms


def post(form, data, name="photo.png", origin=None, **fields):
    return requests.post(
        form["url"],
        data=form["fields"] | fields,
        files={"file": (name, data)},
        headers={"Origin": origin} if origin else None,
        timeout=30,
    )


def test_a_form_for_one_key(api, s3):
    form = minted(api, "form/1", method="POST", contentType="image/png", maxBytes=10, subject="user-42")
    assert (form["method"], form["fields"]["key"], form["fields"]["Content-Type"]) == ("POST", "form/1", "image/png")
    answer = post(form, b"0123456789")
    assert answer.status_code == 201 and "<Key>form/1</Key>" in answer.text
    assert read(s3, "form/1") == b"0123456789"
    assert s3.head_object(Bucket=BUCKET, Key="form/1")["ContentType"] == "image/png"
    for data, changes, code in [
        (b"0123456789+", {}, "EntityTooLarge"),
        (b"1", {"key": "form/2"}, "AccessDenied"),
        (b"1", {"Content-Type": "text/html"}, "AccessDenied"),
        (b"1", {"x-amz-meta-more": "1"}, "AccessDenied"),
        (b"1", {"success_action_status": "200"}, "AccessDenied"),
        (b"1", {"x-amz-signature": "0" * 64}, "SignatureDoesNotMatch"),
    ]:
        assert error(post(form, data, **changes))[1] == code
    assert error(post(form | {"url": form["url"].replace(BUCKET, "other")}, b"1"))[1] in (
        "AccessDenied",
        "NoSuchBucket",
    )
    assert read(s3, "form/1") == b"0123456789"


def test_a_form_for_a_prefix(api, s3):
    wanted = {"bucket": BUCKET, "keyPrefix": "user-42/", "method": "POST", "contentType": "image/*", "oneTime": True}
    form = api.post(MINT, wanted).json()
    assert error(post(form, b"1", **{"Content-Type": "text/html"}))[1] == "AccessDenied"
    assert error(post(form, b"1", key="user-43/1", **{"Content-Type": "image/png"}))[1] == "AccessDenied"
    assert post(form, b"1", **{"Content-Type": "image/png"}).status_code == 201
    assert read(s3, "user-42/photo.png") == b"1"
    assert error(post(form, b"2", **{"Content-Type": "image/png"})) == (403, "AccessDenied")


def test_an_expired_form(api):
    form = minted(api, "form/3", method="POST", expiresIn=1)
    deadline = time.monotonic() + 30
    while (answer := post(form, b"1")).status_code == 201 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert error(answer)[0] in (400, 403)


# Minting


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"bucket": None}, "bucket"),
        ({"bucket": "No Bucket"}, "bucket"),
        ({"key": None}, "key"),
        ({"key": ""}, "key"),
        ({"key": "a/../b"}, "key"),
        ({"key": "./b"}, "key"),
        ({"key": "a\nb"}, "key"),
        ({"keyPrefix": "a"}, "keyPrefix"),
        ({"key": None, "keyPrefix": "a"}, "key"),
        ({"key": "a/${filename}", "method": "POST"}, "key"),
        ({"keyPrefix": "a", "method": "POST"}, "key"),
        ({"method": "PATCH"}, "method"),
        ({"method": "PUT", "parts": [1]}, "method"),
        ({"parts": []}, "parts"),
        ({"parts": [0]}, "parts"),
        ({"parts": [10_001]}, "parts"),
        ({"parts": [1, 1]}, "parts"),
        ({"parts": list(range(1, 1002))}, "parts"),
        ({"uploadId": "1"}, "parts"),
        ({"parts": [1], "oneTime": True}, "oneTime"),
        ({"parts": [1], "contentType": "video/*"}, "contentType"),
        ({"contentType": "video"}, "contentType"),
        ({"method": "GET", "contentType": "video/mp4"}, "contentType"),
        ({"method": "GET", "maxBytes": 1}, "maxBytes"),
        ({"maxBytes": -1}, "maxBytes"),
        ({"expiresIn": 0}, "expiresIn"),
        ({"expiresIn": 604_801}, "expiresIn"),
        ({"format": "gcp"}, "format"),
        ({"metadata": {"a b": "1"}}, "metadata"),
        ({"more": 1}, "more"),
    ],
)
def test_invalid_requests_to_mint(api, wanted, field):
    request = {"bucket": BUCKET, "key": "a"} | wanted
    field_problem(api.post(MINT, {name: value for name, value in request.items() if value is not None}), field)


def test_limits_that_fit_into_no_token(api):
    wanted = {"bucket": BUCKET, "key": "é" * 500, "subject": '"' * 256, "metadata": {"a": '"' * 1000}}
    problem(api.post(MINT, wanted), 422, "grant_too_long")


def test_uploads_that_cannot_begin(api):
    wanted = {"bucket": BUCKET, "key": "a", "parts": [1]}
    for changes in [{"bucket": "not-there"}, {"uploadId": "1"}]:
        problem(api.post(MINT, wanted | changes), 404, "not_found")


def test_keys_mint_only_their_own_rights(gateway, api):
    def client(*scopes):
        arguments = [text for scope in scopes for text in ("--scope", scope)]
        made = run("keys", "create", "--name", "m", *arguments, environment=gateway.environment).stdout
        return API(gateway.url, re.search(r"API key: (\S+)", made)[1])

    wanted = {"bucket": BUCKET, "key": "scopes"}
    minter = client("mint")
    for method in ["PUT", "HEAD", "POST"]:
        assert minter.post(MINT, wanted | {"method": method}).status_code == 201
    assert minter.post(MINT, wanted | {"parts": [1]}).status_code == 201
    for method in ["GET", "DELETE"]:
        field_problem(minter.post(MINT, wanted | {"method": method}), "method")
    assert client("mint", "read").post(MINT, wanted | {"method": "GET"}).status_code == 201
    problem(client("read", "upload").post(MINT, wanted), 403, "forbidden")
    problem(api.post(MINT, wanted, key=None), 401, "unauthenticated")


# As the other vendors sign


@pytest.mark.parametrize(
    ("form", "signature", "expiry"),
    [("aliyun", "x-oss-signature", "x-oss-expires"), ("tencent", "q-signature", "q-sign-time")],
)
def test_signatures_of_other_vendors(api, s3, form, signature, expiry):
    key = f"{form}/ü 1+2&=?#%41"
    signed = minted(api, key, format=form, contentType="video/mp4", maxBytes=10, subject="user-42")
    query = dict(parse_qsl(urlsplit(signed["url"]).query))
    assert {signature, expiry} <= query.keys()
    assert send(signed, b"0123456789").status_code == 200
    assert read(s3, key) == b"0123456789"
    assert send(signed, b"0123456789+").status_code == 400
    for other in [
        signed | {"method": "GET"},
        signed | {"headers": {"Content-Type": "text/html"}},
        signed | {"url": signed["url"].replace(f"/{form}/", f"/{form}-/")},
        altered(signed, uploads=""),
        altered(signed, **{signature: "0" * len(query[signature])}),
        altered(signed, **{expiry: "1;9999999999" if ";" in query[expiry] else "604800"}),
    ]:
        answer = send(other, b"1")
        assert answer.status_code in (400, 403), (other, answer.text)
    assert read(s3, key) == b"0123456789"
    assert send(minted(api, key, format=form, method="GET")).content == b"0123456789"
    assert send(minted(api, key, format=form, method="HEAD")).headers["Content-Length"] == "10"
    assert send(minted(api, key, format=form, method="DELETE")).status_code == 204


@pytest.mark.parametrize("form", ["aliyun", "tencent"])
def test_parts_signed_as_other_vendors_do(api, s3, form):
    data = content(2 * MIB + 7, 3)
    urls = minted(api, f"{form}/parts", format=form, contentType="video/mp4", parts=[1, 2, 3])
    tags = []
    for number, url in enumerate(urls["parts"]):
        answer = send(url, data[number * MIB : (number + 1) * MIB])
        assert answer.status_code == 200, answer.text
        tags.append((number + 1, answer.headers["ETag"]))
    assert re.findall(r"<PartNumber>(\d+)<", send(urls["list"]).text) == ["1", "2", "3"]
    answer = send(urls["complete"], document(tags))
    assert answer.status_code == 200, answer.text
    assert read(s3, f"{form}/parts") == data
    given_up = minted(api, f"{form}/parts", format=form, parts=[1])
    assert send(given_up["abort"]).status_code == 204
    assert send(given_up["parts"][0], b"1").status_code == 404


@pytest.mark.parametrize(
    ("format", "signature", "digits"), [("aliyun", "x-oss-signature", 64), ("tencent", "q-signature", 40)]
)
def test_a_form_signed_as_other_vendors_do(api, s3, format, signature, digits):
    wanted = {"method": "POST", "contentType": "image/png", "maxBytes": 10, "format": format}
    form = minted(api, f"{format}/form", **wanted)
    assert signature in form["fields"]
    answer = post(form, b"0123456789")
    assert answer.status_code == 201, answer.text
    assert read(s3, f"{format}/form") == b"0123456789"
    for data, changes in [
        (b"0123456789+", {}),
        (b"1", {"key": f"{format}/other"}),
        (b"1", {"Content-Type": "text/html"}),
        (b"1", {signature: "0" * digits}),
    ]:
        assert post(form, data, **changes).status_code in (400, 403)
    assert read(s3, f"{format}/form") == b"0123456789"


COS_FORMS = [
    ({}, {}, 200, None),
    ({}, {"x-cos-meta-a": "1"}, 200, None),
    ({}, {"key": "other"}, 403, "AccessDenied"),
    ({}, {"q-ak": "AKIDother"}, 403, "InvalidAccessKeyId"),
    ({}, {"q-signature": "0" * 40}, 403, "SignatureDoesNotMatch"),
    ({}, {"q-key-time": "1;4000000000"}, 403, "SignatureDoesNotMatch"),
    ({}, {"x-cos-security-token": "other"}, 403, "InvalidAccessKeyId"),
    ({"key": "other"}, {}, 403, "AccessDenied"),
    ({"q-sign-time": "1;2"}, {}, 403, "AccessDenied"),
    ({"q-ak": None}, {}, 403, "AccessDenied"),
]


@pytest.mark.parametrize(("conditions", "fields", "status", "wanted"), COS_FORMS)
def test_a_form_that_an_app_signed_for_cos(gateway, s3, conditions, fields, status, wanted):
    """As the vendor documents it, with credentials of a session."""
    identifier, secret, token = object_client.minted(gateway, "tencent", bucket=BUCKET, keyPrefix="cos-form/")
    window = f"{int(time.time()) - 10};{int(time.time()) + 600}"
    said = {"q-sign-algorithm": "sha1", "q-ak": identifier, "q-sign-time": window, "key": "cos-form/1"} | conditions
    policy = json.dumps(
        {
            "expiration": "2100-01-01T00:00:00.000Z",
            "conditions": [{name: value} for name, value in said.items() if value is not None],
        }
    ).encode()
    key = hmac.new(secret.encode(), window.encode(), "sha1").hexdigest()
    signature = hmac.new(key.encode(), hashlib.sha1(policy).hexdigest().encode(), "sha1").hexdigest()
    form = {
        "key": "cos-form/1",
        "success_action_status": "200",
        "policy": base64.b64encode(policy).decode(),
        "q-sign-algorithm": "sha1",
        "q-ak": identifier,
        "q-key-time": window,
        "q-signature": signature,
        "x-cos-security-token": token,
    }
    answer = requests.post(
        f"{gateway.object_url}/{BUCKET}/", data=form | fields, files={"file": ("f", b"of COS")}, timeout=60
    )
    assert (answer.status_code, error(answer)[1] if wanted else None) == (status, wanted), answer.text
    if status == 200:
        assert read(s3, "cos-form/1") == b"of COS"
        assert answer.headers["x-cos-hash-crc64ecma"]


# Where the endpoint is


def test_where_the_endpoint_is(tmp_path, gateway):
    port = free_port()
    environment = {"SLUICE_OBJECT_PUBLIC_URL": "https://S3.example.com:443", "SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
    with ObjectServer(tmp_path / "data", port, environment=environment) as server:
        signed = minted(API(server.url, server.admin_key), "a")
    assert signed["url"].startswith(f"https://s3.example.com/{BUCKET}/a?")

    answer = API(gateway.url, gateway.admin_key).post(
        MINT, {"bucket": BUCKET, "key": "a"}, headers={"Host": "uploads.example.com:8080"}
    )
    port = urlsplit(gateway.object_url).port
    assert answer.json()["url"].startswith(f"http://uploads.example.com:{port}/{BUCKET}/a?")


def test_without_an_endpoint_there_are_no_urls(tmp_path):
    with ObjectServer(tmp_path / "data", free_port(), environment={"SLUICE_OBJECT_LISTEN": "none"}) as server:
        api = API(server.url, server.admin_key)
        assert "object.listen" in problem(api.post(MINT, {"bucket": BUCKET, "key": "a"}), 403, "forbidden")["detail"]
        assert "object.listen" in problem(api.get("/s3/params?filename=a"), 403, "forbidden")["detail"]


# Uppy


@pytest.fixture(scope="module")
def uppy(gateway, api):
    """What a page has: an upload token in `headers`."""
    wanted = {"subject": "user-42", "objects": True, "contentTypes": ["video/*"], "metadata": {"album": "7"}}
    answer = api.post("/v1/tus/tokens", wanted)
    return API(gateway.url, answer.json()["token"])


def companion_problem(answer, status, code):
    """A problem whose text Uppy finds."""
    document = problem(answer, status, code)
    assert document["error"] == document["message"] == document["detail"]
    return document


def created(api, **wanted):
    answer = api.post("/s3/multipart", {"filename": "film.mp4", "type": "video/mp4", "metadata": {}} | wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_uppy_sends_a_small_file(uppy, api, s3):
    metadata = {"metadata[name]": "fïlm 1.mp4", "metadata[type]": "video/mp4", "metadata[relativePath]": "null"}
    query = urlencode({"filename": "a/fïlm 1.mp4", "type": "video/mp4"} | metadata)
    answer = uppy.get(f"/s3/params?{query}", headers={"Origin": ORIGIN, "Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    form = answer.json()
    key = form["fields"]["key"]
    assert (form["method"], form["url"][-1]) == ("POST", "/")
    assert 3500 < form["expires"] <= 3600
    assert re.fullmatch(r"user-42/[0-9a-z]{26}-fïlm 1\.mp4", key)
    stored = post(form, b"small", name="blob")
    assert stored.status_code == 201, stored.text
    assert stored.headers["ETag"] == f'"{hashlib.md5(b"small").hexdigest()}"'
    assert stored.headers["Location"].startswith(form["url"])
    assert read(s3, key) == b"small"
    upload = api.get("/v1/uploads?subject=user-42&state=completed&limit=1").json()["uploads"][0]
    assert upload["metadata"]["album"] == "7" and upload["metadata"]["name"] == "fïlm 1.mp4"
    assert key != uppy.get(f"/s3/params?{query}").json()["fields"]["key"]


def test_uppy_sends_a_large_file(uppy, s3):
    data = content(2 * PART + 100 * KIB, 2)
    pieces = [data[start : start + PART] for start in range(0, len(data), PART)]
    upload = created(uppy, metadata={"caption": "x", "size": 7, "relativePath": None})
    assert upload["bucket"] == BUCKET
    path, key = f"/s3/multipart/{upload['uploadId']}", {"key": upload["key"]}
    assert uppy.get(path, params=key).json() == []

    def signed(number):
        answer = uppy.get(f"{path}/{number}", params=key)
        assert answer.status_code == 200 and answer.json()["expires"] > 0, answer.text
        return answer.json()["url"]

    tags = [requests.put(signed(1), data=pieces[0], timeout=30).headers["ETag"]]
    batch = uppy.get(f"{path}/batch", params=key | {"partNumbers": "2,3"}).json()["presignedUrls"]
    assert sorted(batch) == ["2", "3"]
    tags += [requests.put(batch[str(number)], data=pieces[number - 1], timeout=30).headers["ETag"] for number in (2, 3)]
    # A reloaded page continues with the uploaded parts.
    assert uppy.get(path, params=key).json() == [
        {"PartNumber": number, "ETag": tag, "Size": len(piece)}
        for number, (tag, piece) in enumerate(zip(tags, pieces, strict=True), 1)
    ]
    parts = {"parts": [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]}
    for _ in range(2):
        done = uppy.post(f"{path}/complete", parts, params=key)
        assert done.status_code == 200, done.text
        assert done.json()["key"] == upload["key"] and done.json()["bucket"] == BUCKET
        assert urlsplit(done.json()["location"]).path == f"/{BUCKET}/{upload['key']}"
    assert read(s3, upload["key"]) == data
    head = s3.head_object(Bucket=BUCKET, Key=upload["key"])
    assert (head["ContentType"], head["Metadata"]) == ("video/mp4", {"caption": "x", "size": "7"})
    companion_problem(uppy.get(path, params=key), 404, "not_found")


def test_uppy_gives_up(uppy):
    upload = created(uppy)
    path, key = f"/s3/multipart/{upload['uploadId']}", {"key": upload["key"]}
    answer = uppy.delete(path, params=key)
    assert (answer.status_code, answer.json()) == (200, {})
    companion_problem(uppy.delete(path, params=key), 404, "not_found")
    companion_problem(uppy.get(f"{path}/1", params=key), 404, "not_found")


def test_users_do_not_reach_each_other(gateway, api, uppy):
    token = api.post("/v1/tus/tokens", {"subject": "user-43", "objects": True}).json()["token"]
    other = API(gateway.url, token)
    upload = created(uppy)
    path, key = f"/s3/multipart/{upload['uploadId']}", {"key": upload["key"]}
    for client in [other, api]:
        for answer in [
            client.get(path, params=key),
            client.get(f"{path}/1", params=key),
            client.get(f"{path}/batch", params=key | {"partNumbers": "1"}),
            client.post(f"{path}/complete", {"parts": [{"PartNumber": 1, "ETag": "0"}]}, params=key),
            client.delete(path, params=key),
        ]:
            companion_problem(answer, 404, "not_found")
    # The same user with a later token.
    later = API(gateway.url, api.post("/v1/tus/tokens", {"subject": "user-42", "objects": True}).json()["token"])
    assert later.delete(path, params=key).status_code == 200


def test_tokens_limit_what_uppy_sends(gateway, api, uppy):
    companion_problem(uppy.post("/s3/multipart", {"filename": "a", "type": "text/html"}), 415, "content_type_refused")
    companion_problem(uppy.get("/s3/params?filename=a&type=text/html"), 415, "content_type_refused")
    terms = {"subject": "user-42", "objects": True, "maxBytes": 3, "expiresIn": 60}
    limited = API(gateway.url, api.post("/v1/tus/tokens", terms).json()["token"])
    form = limited.get("/s3/params?filename=a&type=text/html").json()
    assert form["expires"] <= 60
    assert error(post(form, b"1234")) == (400, "EntityTooLarge")
    assert post(form, b"123").status_code == 201
    once = API(gateway.url, api.post("/v1/tus/tokens", terms | {"oneTime": True}).json()["token"])
    form = once.get("/s3/params?filename=a&type=text/html").json()
    assert post(form, b"123").status_code == 201
    assert error(post(form, b"123")) == (403, "AccessDenied")
    companion_problem(once.post("/s3/multipart", {"filename": "a", "type": "a/b"}), 403, "grant_used")


def test_quotas_are_checked_before_uppy_sends_anything(gateway, api):
    token = api.post("/v1/tus/tokens", {"subject": "full", "objects": True}).json()["token"]
    page = API(gateway.url, token)
    assert page.get("/s3/params?filename=a.mp4&type=video/mp4").status_code == 200
    api.request("PUT", "/v1/quota/subjects/full", json={"extensions": ["mov"], "periodUploads": 0})
    for type in ("video/mp4", ""):
        companion_problem(page.get(f"/s3/params?filename=a.mp4&type={type}"), 415, "content_type_refused")
    companion_problem(page.get("/s3/params?filename=a.mov&type=video/mp4"), 429, "quota_exceeded")


def test_callers_that_cannot_use_uppy(gateway, api):
    companion_problem(api.get("/s3/params?filename=a", key=None), 401, "unauthenticated")
    made = run("keys", "create", "--name", "m", "--scope", "mint", environment=gateway.environment).stdout
    minter = API(gateway.url, re.search(r"API key: (\S+)", made)[1])
    companion_problem(minter.get("/s3/params?filename=a"), 403, "forbidden")
    assert api.get("/s3/params?filename=a").json()["fields"]["key"].endswith("-a")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/s3/params", None),
        ("GET", "/s3/params?filename=", None),
        ("GET", "/s3/params?filename=a%0Ab", None),
        ("GET", "/s3/params?filename=a&metadata[a%20b]=1", None),
        ("GET", "/s3/params?filename=a&metadata[a]=%7F", None),
        ("GET", "/s3/params?filename=a&metadata[a]=" + "x" * 2048, None),
        ("POST", "/s3/multipart", {}),
        ("POST", "/s3/multipart", {"filename": ""}),
        ("POST", "/s3/multipart", {"filename": 1}),
        ("POST", "/s3/multipart", [1]),
        ("GET", "/s3/multipart/{id}", None),
        ("GET", "/s3/multipart/{id}/0?key={key}", None),
        ("GET", "/s3/multipart/{id}/10001?key={key}", None),
        ("GET", "/s3/multipart/{id}/one?key={key}", None),
        ("GET", "/s3/multipart/{id}/1", None),
        ("GET", "/s3/multipart/{id}/batch?key={key}", None),
        ("GET", "/s3/multipart/{id}/batch?key={key}&partNumbers=1,,2", None),
        ("POST", "/s3/multipart/{id}/complete?key={key}", {}),
        ("POST", "/s3/multipart/{id}/complete?key={key}", {"parts": [{"PartNumber": "1", "ETag": "0"}]}),
        ("POST", "/s3/multipart/{id}/complete", {"parts": []}),
        ("DELETE", "/s3/multipart/{id}", None),
    ],
)
def test_errors_have_the_format_of_companion(uppy, method, path, body):
    upload = created(uppy)
    path = path.replace("{id}", upload["uploadId"]).replace("{key}", upload["key"])
    companion_problem(uppy.request(method, path, json=body), 400, "invalid_request")


def test_invalid_parts(uppy):
    upload = created(uppy)
    path = f"/s3/multipart/{upload['uploadId']}/complete"
    for parts in [[], [{"PartNumber": 1, "ETag": '"0"'}]]:
        companion_problem(uppy.post(path, {"parts": parts}, params={"key": upload["key"]}), 400, "invalid_parts")


def test_a_page_that_signs_by_itself(gateway, uppy, s3):
    answer = uppy.get("/s3/sts").json()
    assert (answer["bucket"], answer["region"], answer["keyPrefix"]) == (BUCKET, "us-east-1", "user-42/")
    pair = answer["credentials"]
    own = gateway.client(pair=(pair["AccessKeyId"], pair["SecretAccessKey"]), token=pair["SessionToken"])
    own.put_object(Bucket=BUCKET, Key="user-42/own", Body=b"1", ContentType="video/mp4")
    assert read(s3, "user-42/own") == b"1"
    for key in ["user-43/own", "own"]:
        with pytest.raises(own.exceptions.ClientError, match="AccessDenied"):
            own.put_object(Bucket=BUCKET, Key=key, Body=b"1", ContentType="video/mp4")


def test_names_of_users_and_files(gateway, api, s3):
    for subject, prefix in [("..", "%2E%2E/"), ("a/b", "a%2Fb/"), ("ü", "%C3%BC/")]:
        client = API(gateway.url, api.post("/v1/tus/tokens", {"subject": subject, "objects": True}).json()["token"])
        form = client.get("/s3/params", params={"filename": "../" + "é" * 1200 + ".txt"}).json()
        key = form["fields"]["key"]
        assert key.startswith(prefix) and key.endswith("é.txt") and 1000 < len(key.encode()) <= 1024
        assert post(form, b"1").status_code == 201
        assert read(s3, key) == b"1"


# Across origins


def test_pages_of_other_origins(uppy, s3):
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "authorization"
    answer = uppy.request("OPTIONS", "/s3/multipart", headers=asked, key=None)
    assert answer.status_code == 204 and "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    refused = uppy.get("/s3/params", headers={"Origin": ORIGIN})
    companion_problem(refused, 400, "invalid_request")
    assert refused.headers["Access-Control-Allow-Origin"] == "*"

    upload = created(uppy)
    part = uppy.get(f"/s3/multipart/{upload['uploadId']}/1", params={"key": upload["key"]}).json()["url"]
    rule = {"AllowedOrigins": [ORIGIN], "AllowedMethods": ["PUT", "POST"], "AllowedHeaders": ["*"]}
    rule["ExposeHeaders"] = ["ETag", "Location"]
    # By the settings for all pages, then by the bucket for one.
    for allowed in ["*", ORIGIN]:
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT"}
        asked["Access-Control-Request-Headers"] = "content-type"
        answer = requests.options(part, headers=asked, timeout=10)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, allowed)
        form = uppy.get("/s3/params?filename=a&type=video/mp4").json()
        for answer in [
            requests.put(part, data=b"1", headers={"Origin": ORIGIN}, timeout=10),
            post(form, b"1", origin=ORIGIN),
        ]:
            assert answer.ok and answer.headers["Access-Control-Allow-Origin"] == allowed
            assert {"ETag", "Location"} <= set(answer.headers["Access-Control-Expose-Headers"].split(", "))
        s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})
    refused = requests.options(part, headers=asked | {"Origin": "https://evil.example"}, timeout=10)
    assert refused.status_code == 403
    s3.delete_bucket_cors(Bucket=BUCKET)


def test_only_configured_pages_are_allowed(tmp_path):
    environment = {"SLUICE_CORS_ORIGINS": ORIGIN}
    with ObjectServer(tmp_path / "data", free_port(), environment=environment) as server:
        url = minted(API(server.url, server.admin_key), "a")["url"]
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "PUT"}
        assert requests.options(url, headers=asked, timeout=10).headers["Access-Control-Allow-Origin"] == ORIGIN
        assert requests.options(url, headers=asked | {"Origin": "https://b.example"}, timeout=10).status_code == 403
