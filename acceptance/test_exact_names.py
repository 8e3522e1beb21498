"""Users whose names differ only in their Unicode form are two users: names are compared by their bytes.

Swift's `==` finds such names equal. They look alike, and an identity provider may have both.
"""

import time
from base64 import b64encode

import pytest

from harness.api import API, path_of, upload_id
from harness.daemon import free_port
from harness.events import Stream
from harness.object_client import BUCKET, ObjectServer, client, code, minted
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
        metadata = {"Upload-Metadata": f"{alike} {b64encode(b'of the client').decode()}".encode()}
        known = upload_id(api.created(1, key=key, headers=metadata))
        found = api.get(f"/v1/uploads/{known}").json()["metadata"]
    else:
        parts = {alike: (None, "of the client"), "file": ("f", b"hello")}
        answer = api.request("POST", "/v1/media", files=parts, key=key)
        found = answer.json()["media"][0]["metadata"]
    assert {one.encode(): value for one, value in found.items()}[name.encode()] == "of the app"
    assert "of the client" not in found.values()
