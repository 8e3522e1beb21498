"""URLs and forms that a backend mints for its app: what they do at the object endpoint, and what they do not."""

import hashlib
import re
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests

from harness.api import API, field_problem, moment, problem
from harness.daemon import free_port
from harness.data import MIB, content
from harness.object_client import BUCKET, ObjectServer
from harness.server import run

PART = 5 * MIB
MINT = "/v1/presigned-urls"


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
    """What a backend gets, and its app has then."""
    answer = api.post(MINT, {"bucket": BUCKET, "key": key} | wanted)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json()


def send(signed, data=None, **headers):
    """What an app does with a URL."""
    return requests.request(signed["method"], signed["url"], data=data, headers=signed["headers"] | headers, timeout=30)


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
        altered(signed, **{"X-Amz-Security-Token": minted(api, "own/1")["url"].partition("Token=")[2][:40]}),
    ]:
        answer = send(other, b"1")
        assert answer.status_code in (400, 403, 405), (other, answer.text)
    assert error(requests.put(signed["url"].partition("?")[0], data=b"1", timeout=10)) == (403, "AccessDenied")
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="own/")["KeyCount"] == 0
    assert send(signed, b"1").status_code == 200


def test_a_url_expires(api):
    signed = minted(api, "expires", expiresIn=1)
    deadline = time.monotonic() + 30
    while (answer := send(signed, b"1")).status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert error(answer) == (403, "AccessDenied")
    # By this text Uppy knows that it is to ask for another URL.
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


def post(form, data, name="photo.png", **fields):
    return requests.post(
        form["url"],
        data=form["fields"] | fields,
        files={"file": (name, data)},
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
        ({"format": "tencent", "method": "POST"}, "format"),
        ({"metadata": {"a b": "1"}}, "metadata"),
        ({"more": 1}, "more"),
    ],
)
def test_what_can_not_be_minted(api, wanted, field):
    request = {"bucket": BUCKET, "key": "a"} | wanted
    field_problem(api.post(MINT, {name: value for name, value in request.items() if value is not None}), field)


def test_what_fits_into_no_token(api):
    wanted = {"bucket": BUCKET, "key": "é" * 500, "subject": '"' * 256, "metadata": {"a": '"' * 1000}}
    problem(api.post(MINT, wanted), 422, "grant_too_long")


def test_uploads_that_can_not_begin(api):
    wanted = {"bucket": BUCKET, "key": "a", "parts": [1]}
    for changes in [{"bucket": "not-there"}, {"uploadId": "1"}]:
        problem(api.post(MINT, wanted | changes), 404, "not_found")


def test_keys_mint_what_they_may_do_themselves(gateway, api):
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


@pytest.mark.parametrize("form", ["aliyun", "tencent"])
def test_other_forms_of_signatures(api, form):
    """That they are right is told by unit tests of the signatures."""
    signed = minted(api, "a b", format=form, parts=[1], contentType="video/mp4")
    names = {"aliyun": "x-oss-signature", "tencent": "q-signature"}
    for url in [*signed["parts"], signed["list"], signed["complete"], signed["abort"]]:
        assert urlsplit(url["url"]).path == f"/{BUCKET}/a%20b"
        assert names[form] in dict(parse_qsl(urlsplit(url["url"]).query))


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
