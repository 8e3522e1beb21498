"""The REST API: content, methods, paths, uploads."""

import json
import time
from datetime import UTC, datetime

import pytest

from harness.api import field_problem, moment, patch_fields, path_of, problem, upload_id
from harness.data import MIB
from harness.wire import Wire, until

UNKNOWN = "0" * 26
WITH_JSON = [
    ("/v1/tencent/signatures", {}),
    ("/v1/tus/tokens", {"subject": "u"}),
    ("/v1/tus/uploads", {"length": 1}),
    ("/v1/media/{media}/links", {}),
]


# Bodies


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'"text"', b"1", b"{}{}", b"\xff\xfe", b"{'a':1}", b'{"a":1,}', b'{"a":NaN}', b"{}x"]
)
def test_malformed_json(api, media, path, good, body):
    answer = api.request("POST", path.format(media=media), data=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "invalid_json")


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
def test_deeply_nested_json_does_no_harm(api, media, path, good):
    body = b'{"metadata":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    answer = api.request("POST", path.format(media=media), data=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413, 422)
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
def test_an_unknown_member_is_named(api, media, path, good):
    field_problem(api.post(path.format(media=media), good | {"unknownMember": 1}), "unknownMember")


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
def test_an_oversized_body(api, media, path, good):
    body = json.dumps(good | {"subject": "x" * 8 * MIB}).encode()
    answer = api.request("POST", path.format(media=media), data=body, headers={"Content-Type": "application/json"})
    problem(answer, 413, "content_too_large")
    chunks = (body[begin : begin + 65536] for begin in range(0, len(body), 65536))
    try:
        answer = api.request(
            "POST", path.format(media=media), data=chunks, headers={"Content-Type": "application/json"}
        )
    except OSError:
        return  # the client was still sending and did not look at the answer
    problem(answer, 413, "content_too_large")


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "nonsense"])
def test_another_content_type(api, media, path, good, kind):
    answer = api.request("POST", path.format(media=media), data=json.dumps(good), headers={"Content-Type": kind})
    problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(("path", "good"), WITH_JSON)
@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
def test_the_right_content_type(api, media, path, good, kind):
    answer = api.request("POST", path.format(media=media), data=json.dumps(good), headers={"Content-Type": kind})
    assert answer.status_code == 201, answer.text


# Methods and paths


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/tencent/signatures", {"POST"}),
        ("PUT", "/v1/tus/tokens", {"POST"}),
        ("GET", "/v1/tus/uploads", {"POST"}),
        ("POST", "/v1/uploads", {"GET"}),
        ("PUT", f"/v1/uploads/{UNKNOWN}", {"GET", "DELETE"}),
        ("POST", f"/v1/media/{UNKNOWN}", {"GET", "PATCH", "DELETE"}),
        ("POST", "/v1/events", {"GET"}),
        ("GET", f"/v1/media/{UNKNOWN}/links", {"POST"}),
        ("PUT", f"/media/{UNKNOWN}", {"GET", "HEAD"}),
        ("POST", "/healthz", {"GET"}),
        ("POST", "/readyz", {"GET"}),
        ("DELETE", "/metrics", {"GET"}),
        ("PATCH", "/openapi.yaml", {"GET"}),
        ("BREW", "/v1/uploads", {"GET"}),
    ],
)
def test_a_wrong_method(api, method, path, allowed):
    answer = api.request(method, path)
    problem(answer, 405, "method_not_allowed")
    assert allowed <= {name.strip() for name in answer.headers["Allow"].split(",")}
    assert method not in answer.headers["Allow"].split(", ")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/uploads/a/b",
        "/v2/uploads",
        "/media",
        "/..",
        "/v1/../healthz",
        "/Healthz",
    ],
)
def test_an_unknown_path(server, path):
    with Wire(server.address) as wire:
        answer = wire.exchange("GET", path, [("Authorization", f"Bearer {server.admin_key}")])
    assert answer.status == 404, answer
    assert json.loads(answer.body)["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "template"),
    [
        ("GET", "/v1/uploads/{}"),
        ("PATCH", "/v1/uploads/{}"),
        ("DELETE", "/v1/uploads/{}"),
        ("GET", "/v1/uploads/{}/events"),
        ("GET", "/v1/media/{}"),
        ("PATCH", "/v1/media/{}"),
        ("DELETE", "/v1/media/{}"),
        ("POST", "/v1/media/{}/links"),
        ("GET", "/media/{}"),
    ],
)
@pytest.mark.parametrize("identifier", [UNKNOWN, "x", "UPPER" * 5 + "A", "..%2f..%2fetc%2fpasswd", "é", "1" * 5000])
def test_an_unknown_id(api, method, template, identifier):
    problem(api.request(method, template.format(identifier)), 404, "not_found")


# Uploads


def test_an_upload_is_created_for_a_client(api):
    answer = api.post(
        "/v1/tus/uploads",
        {
            "length": 11,
            "subject": "user-1",
            "filename": "hello.txt",
            "contentType": "text/plain",
            "metadata": {"album": "7"},
        },
    )
    assert answer.status_code == 201
    document = answer.json()
    assert answer.headers["Location"] == document["url"]
    assert document["id"] == upload_id(document["url"])
    assert (document["state"], document["offset"], document["length"]) == ("open", 0, 11)
    assert (document["dialect"], document["subject"]) == ("tus", "user-1")
    assert (document["filename"], document["contentType"]) == ("hello.txt", "text/plain")
    assert document["metadata"]["album"] == "7"
    assert moment(document["createdAt"]) <= datetime.now(UTC) < moment(document["expiresAt"])
    assert "endedAt" not in document
    assert api.head(document["url"]).headers["Upload-Metadata"]

    assert api.patch(document["url"], 0, b"hello ").status_code == 204
    assert api.upload(document["id"])["offset"] == 6
    assert api.patch(document["url"], 6, b"world").status_code == 204
    upload = api.upload(document["id"])
    assert (upload["state"], upload["offset"]) == ("completed", 11)
    assert moment(upload["endedAt"])
    assert "url" not in upload, "the URL is a credential and is returned once"


def test_an_empty_upload_is_complete(api):
    document = api.post("/v1/tus/uploads", {"length": 0}).json()
    assert document["state"] == "completed"
    assert api.get(f"/media/{document['id']}").content == b""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("length", -1),
        ("length", "11"),
        ("length", 1.5),
        ("length", 2**63),
        ("length", True),
        ("subject", 1),
        ("subject", "x" * 257),
        ("filename", []),
        ("filename", "x" * 1025),
        ("contentType", "nonsense"),
        ("contentType", 1),
        ("metadata", []),
        ("metadata", {"a": 1}),
        ("metadata", {"a b": "x"}),
        ("metadata", {"": "x"}),
        ("metadata", {str(number): "x" for number in range(65)}),
        ("metadata", {"a": "x" * 5000}),
    ],
)
def test_an_invalid_new_upload(api, field, value):
    field_problem(api.post("/v1/tus/uploads", {"length": 11} | {field: value}), field)


def test_the_length_of_a_new_upload_can_be_declared_later(api):
    document = api.post("/v1/tus/uploads", {}).json()
    assert "length" not in document
    assert api.head(document["url"]).headers["Upload-Defer-Length"] == "1"
    assert api.patch(document["url"], 0, b"hello", {"Upload-Length": "5"}).status_code == 204
    document = api.upload(document["id"])
    assert (document["state"], document["length"]) == ("completed", 5)


def test_a_new_upload_that_is_too_large(api):
    problem(api.post("/v1/tus/uploads", {"length": 2**62}), 413, "content_too_large")


def test_uploads_are_listed_newest_first_in_pages(api):
    subject = f"lister-{time.time_ns()}"
    made = [api.post("/v1/tus/uploads", {"length": 1, "subject": subject}).json()["id"] for _ in range(7)]
    seen, cursor, pages = [], None, 0
    while True:
        query = {"subject": subject, "limit": 3} | ({"cursor": cursor} if cursor else {})
        page = api.get("/v1/uploads", params=query).json()
        seen += [upload["id"] for upload in page["uploads"]]
        pages += 1
        cursor = page.get("nextCursor")
        if not cursor:
            break
    assert seen == made[::-1]
    assert pages == 3


def test_the_time_of_an_upload_moves_with_its_bytes(api, server):
    """Also while one long request sends them, which the records do not know of, and in lists."""
    subject = f"moving-{time.time_ns()}"
    length = 16 * MIB
    made = api.post("/v1/tus/uploads", {"length": length, "subject": subject}).json()

    def times():
        (listed,) = api.get("/v1/uploads", params={"subject": subject}).json()["uploads"]
        return moment(api.upload(made["id"])["updatedAt"]), moment(listed["updatedAt"])

    def moved(before):
        wire.send(b"x" * 4096)
        now = times()
        return now if min(now) > before else None

    start = moment(made["createdAt"])
    assert times() == (start, start)
    with Wire(server.address) as wire:
        wire.request("PATCH", path_of(made["url"]), patch_fields(0, length))
        first = until(lambda: moved(start))
        second = until(lambda: moved(max(first)))
        assert max(second) <= datetime.now(UTC)
        assert 4096 <= api.upload(made["id"])["offset"] < length
    # The request is over, and the time stays.
    until(lambda: api.offset(made["url"]) >= 4096)
    assert min(times()) >= max(first)


def test_uploads_are_filtered_by_state(api):
    subject = f"states-{time.time_ns()}"
    urls = [api.post("/v1/tus/uploads", {"length": 1, "subject": subject}).json()["url"] for _ in range(3)]
    api.patch(urls[1], 0, b"x")
    api.terminate(urls[2])
    for state, url in zip(("open", "completed", "terminated"), urls, strict=True):
        page = api.get("/v1/uploads", params={"subject": subject, "state": state}).json()
        assert [upload["id"] for upload in page["uploads"]] == [upload_id(url)]
    assert api.get("/v1/uploads", params={"subject": subject, "state": "expired"}).json()["uploads"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "unknown"),
        ("state", ""),
        ("state", "open,unknown"),
        ("state", "open,"),
        ("createdAfter", "yesterday"),
        ("createdBefore", "2025-02-29T00:00:00Z"),
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", "abc"),
        ("limit", "100000"),
        ("limit", ""),
        ("cursor", "nonsense"),
        ("unknown", "1"),
    ],
)
def test_an_invalid_query(api, field, value):
    field_problem(api.get("/v1/uploads", params={field: value}), field)


def test_a_repeated_parameter(api):
    field_problem(api.get("/v1/uploads?limit=1&limit=2"), "limit")


def test_client_text_is_not_interpreted(api):
    """Text that looks like SQL or a pattern is just a subject."""
    subject = "' OR 1=1; DROP TABLE uploads; -- % _ *"
    identifier = api.post("/v1/tus/uploads", {"length": 1, "subject": subject}).json()["id"]
    for query, found in ((subject, [identifier]), ("%", []), ("_", []), ("*", [])):
        page = api.get("/v1/uploads", params={"subject": query}).json()
        assert [upload["id"] for upload in page["uploads"]] == found


def test_an_upload_is_deleted(server, api):
    url = api.created(10)
    api.patch(url, 0, b"abc")
    identifier = upload_id(url)
    assert api.delete(f"/v1/uploads/{identifier}").status_code == 204
    assert api.head(url).status_code in (404, 410)
    assert server.stored_files(identifier) == []
    upload = api.upload(identifier)
    assert upload["state"] == "terminated" and moment(upload["endedAt"])
    assert api.delete(f"/v1/uploads/{identifier}").status_code in (404, 410)


def test_media_are_deleted_with_their_upload(server, api):
    identifier = api.uploaded(b"abc")
    assert api.delete(f"/v1/uploads/{identifier}").status_code == 204
    for path in (f"/v1/media/{identifier}", f"/media/{identifier}"):
        assert api.get(path).status_code in (404, 410)
    assert server.stored_files(identifier) == []
