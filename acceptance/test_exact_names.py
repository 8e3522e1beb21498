"""Users whose names differ only in their Unicode form are two users: names are compared by their bytes.

Swift's `==` finds such names equal. They look alike, and an identity provider may have both.
"""

import base64
import hashlib
import re
import time

import pytest
import requests
from botocore.exceptions import ClientError

from harness.api import API, path_of, upload_id
from harness.daemon import free_port
from harness.events import Stream
from harness.object_client import BUCKET, ObjectServer, client, code, minted
from harness.ugc import Refused, VodJS, announced, signer
from harness.vimeo import Plain
from harness.vimeo import token as vimeo_token
from harness.wire import until

PAIRS = [
    pytest.param("jos\u00e9", "jose\u0301", id="composed"),
    pytest.param("do jose\u0301", "do jos\u00e9", id="decomposed"),
    pytest.param("\u212b", "\u00c5", id="sign"),
    pytest.param("a\u0323\u0307", "a\u0307\u0323", id="order"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("names") / "data", free_port(), {"SLUICE_OBJECT_BUCKETS": BUCKET}) as one:
        yield one


@pytest.fixture(scope="module")
def api(server):
    return API(server.url, server.admin_key)


def token(api, subject, **more):
    answer = api.post("/v1/tus/tokens", {"subject": subject} | more)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_parts_of_another_user_are_not_joined(api, name, other):
    part = api.created(3, key=token(api, name), headers={"Upload-Concat": "partial"})
    assert api.patch(part, 0, b"abc").status_code == 204
    final = {"Upload-Concat": f"final;{path_of(part)}"}
    assert api.create(None, key=token(api, other), headers=final).status_code == 403
    assert api.create(None, key=token(api, name), headers=final).status_code == 201


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_a_stream_has_no_events_of_another_user(server, api, name, other):
    limited = api.post("/v1/keys", {"name": "k", "scopes": ["read"], "subjects": [name]}).json()["secret"]
    with Stream(server, key=limited) as stream:
        until(lambda: len(stream.events) >= 1)
        api.created(3, key=token(api, other))
        own = upload_id(api.created(3, key=token(api, name)))
        until(lambda: len(stream.events) >= 2)
        assert [event.upload["id"] for event in stream.events[1:]] == [own]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_a_revocation_is_of_one_user(api, name, other):
    tokens = [token(api, name), token(api, other)]
    # The next millisecond.
    time.sleep(0.01)
    assert api.post("/v1/revocations", {"subject": name}).status_code == 201
    until(lambda: api.create(1, key=tokens[0]).status_code == 401)
    assert api.create(1, key=tokens[1]).status_code == 201


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_a_quota_is_of_one_user(api, name, other):
    assert api.request("PUT", f"/v1/quota/subjects/{name}x", json={"uploadBytes": 1}).status_code == 200
    assert api.create(2, key=token(api, name + "x")).status_code == 413
    assert api.create(2, key=token(api, other + "x")).status_code == 201
    assert api.get(f"/v1/quota/subjects/{other}x").json()["policySource"] == "default"


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_objects_in_parts_are_of_one_user(server, api, name, other):
    def session(subject):
        pair = minted(server, "aws", subject=subject, bucket=BUCKET, keyPrefix="shared/", actions=["upload"])
        return client(server.object_url, pair[:2], token=pair[2])

    own, others = session(name), session(other)
    upload = {"Bucket": BUCKET, "Key": "shared/a"}
    upload |= {"UploadId": own.create_multipart_upload(**upload)["UploadId"]}
    part = {"PartNumber": 1, "Body": b"x"}
    assert code(others.upload_part, **upload, **part) is not None
    assert code(others.list_parts, **upload) is not None
    assert code(others.abort_multipart_upload, **upload) is not None
    assert code(own.upload_part, **upload, **part) is None
    assert code(own.abort_multipart_upload, **upload) is None


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_uploads_of_uppy_are_of_one_user(api, name, other):
    own, others = token(api, name, objects=True), token(api, other, objects=True)
    begun = api.post("/s3/multipart", {"filename": "a", "type": "a/b", "metadata": {}}, key=own).json()
    place = f"/s3/multipart/{begun['uploadId']}"
    query = {"key": begun["key"]}
    assert api.get(place, params=query, key=others).status_code in (403, 404)
    assert api.delete(place, params=query, key=others).status_code in (403, 404)
    assert api.get(place, params=query, key=own).status_code == 200


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_videos_are_of_one_user(server, name, other):
    video = Plain(server, vimeo_token(server, name)).create(5)["uri"]
    others = Plain(server, vimeo_token(server, other))
    for method in ("GET", "PATCH", "DELETE"):
        assert others(method, video, json={} if method == "PATCH" else None).status_code == 404
    assert others("GET", "/me/videos").json()["total"] == 0


def test_extensions_are_compared_by_their_bytes(api):
    assert api.request("PUT", "/v1/quota/subjects/extensions", json={"extensions": ["mkv"]}).status_code == 200
    key = token(api, "extensions")
    statuses = {}
    for name in ("a.mkv", "a.MKV", "a.m\u212av", "a.mkv\u0301", "a.mkv\u200b", "a.exe\u2024mkv", "a.mkv."):
        statuses[name] = api.create(1, key=key, metadata={"filename": name}).status_code
    assert [name for name, status in statuses.items() if status == 201] == ["a.mkv", "a.MKV"], statuses


@pytest.mark.parametrize(("name", "alike"), [("orderKey", "order\u212aey"), ("a`b", "a\u1fefb"), ("a;b", "a\u037eb")])
@pytest.mark.parametrize("by", ["tus", "form"])
def test_metadata_of_a_token_keeps_its_names(api, by, name, alike):
    """A client that sends a name that looks alike does not take the app's from it."""
    key = token(api, "anna", metadata={name: "of the app"})
    if by == "tus":
        metadata = {"Upload-Metadata": f"{alike} {base64.b64encode(b'of the client').decode()}".encode()}
        known = upload_id(api.created(1, key=key, headers=metadata))
        found = api.get(f"/v1/uploads/{known}").json()["metadata"]
    else:
        parts = {alike: (None, "of the client"), "file": ("f", b"hello")}
        answer = api.request("POST", "/v1/media", files=parts, key=key)
        found = answer.json()["media"][0]["metadata"]
    assert {one.encode(): value for one, value in found.items()}[name.encode()] == "of the app"
    assert "of the client" not in found.values()


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_media_of_tencent_are_of_one_user(server, name, other):
    # Users of their own: signatures state whole seconds, and one before may be that of a revocation.
    own = VodJS(server, signer(server, subject="video " + name))
    others = VodJS(server, signer(server, subject="video " + other))
    path = own.apply(announced(3))["video"]["storagePath"]
    own.send_file(path, b"abc")
    key = own.applied["vodSessionKey"]
    with pytest.raises(Refused):
        others.commit(key)
    with pytest.raises(Refused):
        others.apply(announced(3) | {"vodSessionKey": key})
    assert own.commit()["fileId"]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_keys_of_two_objects(server, name, other):
    s3 = server.client()
    for key in (name, other):
        s3.put_object(Bucket=BUCKET, Key=f"keys/{key}", Body=key.encode())
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="keys/")["Contents"]
    assert [entry["Key"] for entry in listed] == sorted(f"keys/{key}" for key in (name, other))
    s3.delete_object(Bucket=BUCKET, Key=f"keys/{name}")
    assert code(s3.head_object, Bucket=BUCKET, Key=f"keys/{name}") is not None
    assert s3.get_object(Bucket=BUCKET, Key=f"keys/{other}")["Body"].read() == other.encode()
    s3.delete_object(Bucket=BUCKET, Key=f"keys/{other}")


# The kelvin sign for K, the Greek question mark for a semicolon, and what is no type at all.
TYPES = ["video/x-matros\u212aa", "video/x-matroska\u037ex", "video/x-matroska\u0301", "video/x-matroska x", "\u00e9/a"]


@pytest.mark.parametrize("kind", [*TYPES, "text/html", "video/X-Matroska", "video/x-matroska; a=b"])
@pytest.mark.parametrize("allowed", [["video/x-matroska"], ["video/*"]], ids=["type", "family"])
def test_a_media_type_is_allowed_by_its_bytes(server, api, kind, allowed):
    key = token(api, "types", contentTypes=allowed)
    limits = {"keyPrefix": "types/", "actions": ["upload"], "contentTypes": allowed}
    pair = minted(server, "aws", subject="types", bucket=BUCKET, **limits)
    s3 = client(server.object_url, pair[:2], token=pair[2])

    def sent(method, call, key):
        url = s3.generate_presigned_url(call, Params={"Bucket": BUCKET, "Key": key})
        answer = requests.request(method, url, data=b"", headers={"Content-Type": kind.encode()}, timeout=30)
        return answer.status_code

    form = (
        b'--B\r\nContent-Disposition: form-data; name="f"; filename="f"\r\nContent-Type: '
        + kind.encode()
        + b"\r\n\r\nx\r\n--B--\r\n"
    )
    fields = {"Content-Type": kind.encode(), "Authorization": f"Bearer {key}"}
    ways = {
        "tus": api.create(1, key=key, metadata={"filetype": kind}).status_code,
        "raw": requests.post(f"{server.url}/v1/media", b"x", headers=fields, timeout=30).status_code,
        "form": api.request(
            "POST", "/v1/media", data=form, key=key, headers={"Content-Type": "multipart/form-data; boundary=B"}
        ).status_code,
        "put": sent("PUT", "put_object", "types/a"),
        "parts": sent("POST", "create_multipart_upload", "types/b"),
    }
    if "atroska" in kind and kind not in TYPES:
        assert ways == {"tus": 201, "raw": 201, "form": 201, "put": 200, "parts": 200}
    else:
        assert ways == {"tus": 415, "raw": 415, "form": 415, "put": 403, "parts": 403}


def test_no_field_of_a_form_gets_lost(api):
    def fields(*names):
        parts = "".join(
            f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{number}\r\n'
            for number, name in enumerate(names)
        )
        file = '--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nhello\r\n--B--\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=B"}
        return api.request("POST", "/v1/media", data=(parts + file).encode(), headers=kind)

    for one, other in [("jos\u00e9", "jose\u0301"), ("K", "\u212a"), ("a;", "a\u037e"), ("`", "\u1fef")]:
        assert fields(one, other).status_code == 400
        assert fields(one, "x").json()["fields"] == {one: "0", "x": "1"}
        assert fields(other, "x").json()["fields"] == {other: "0", "x": "1"}
    assert fields("a", "a").json()["fields"] == {"a": "1"}


def deletion(server, entries):
    """The code of the refusal of a request that deletes several objects."""
    body = f"<Delete>{entries}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    s3 = server.client()

    def spoiled(request, **_):
        request.data = body
        request.headers["Content-MD5"] = digest
        for name in ("x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"):
            del request.headers[name]

    s3.meta.events.register("before-sign.s3.DeleteObjects", spoiled)
    try:
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "unused"}]})
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def test_an_element_of_a_document_has_one_name_and_is_there_once(server):
    s3 = server.client()
    tag = s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")["ETag"]
    for entry in (
        "<\u212aey>a</\u212aey>",
        f'<Key>a</Key><ETag>{tag}</ETag><ETag>"other"</ETag>',
        "<Key>a</Key><Key>b</Key>",
        "<Key>a</Key><VersionId>null</VersionId><VersionId>1</VersionId>",
    ):
        assert deletion(server, f"<Object>{entry}</Object>") == "MalformedXML", entry
    assert deletion(server, "<Quiet>true</Quiet><Quiet>false</Quiet><Object><Key>a</Key></Object>") == "MalformedXML"
    assert code(s3.head_object, Bucket=BUCKET, Key="a") is None
    assert deletion(server, "<Object><Key>a</Key></Object>") is None


def test_a_part_is_named_once_and_by_no_checksum_that_nobody_checks(server):
    s3 = server.client(request_checksum_calculation="when_required")
    data = b"tail"
    right = base64.b64encode(hashlib.sha256(data).digest()).decode()
    wrong = base64.b64encode(bytes(32)).decode()

    def completed(rest, **more):
        upload = {"Bucket": BUCKET, "Key": "m"}
        upload |= {"UploadId": s3.create_multipart_upload(**upload, **more)["UploadId"]}
        given = {"ChecksumSHA256": right} if more else {}
        tag = s3.upload_part(**upload, PartNumber=1, Body=data, **given)["ETag"]
        body = rest.format(tag=tag)
        url = s3.generate_presigned_url("complete_multipart_upload", Params=upload)
        document = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>{body}</Part></CompleteMultipartUpload>"
        answer = requests.post(url, document.encode(), timeout=30)
        return (re.findall("<Code>(.*?)</Code>", answer.text) or [answer.status_code])[0]

    sha = {"ChecksumAlgorithm": "SHA256"}
    tag, crc = "<ETag>{tag}</ETag>", "<ChecksumCRC32>AAAAAA==</ChecksumCRC32>"
    good, bad = (f"<ChecksumSHA256>{value}</ChecksumSHA256>" for value in (right, wrong))
    assert completed(tag + good, **sha) == 200
    assert completed(tag + bad, **sha) == "InvalidPart"
    assert completed(tag + good + bad, **sha) == "MalformedXML"
    assert completed(tag + "<ETag>0</ETag>", **sha) == "MalformedXML"
    assert completed(tag + crc, **sha) == "BadDigest"
    assert completed(tag + good + crc, **sha) == "BadDigest"
    assert completed(tag) == 200
    assert completed(tag + crc) == "InvalidPart"
