"""Upload tokens: subject, limits, expiry, one-time use."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from harness.api import API, field_problem, moment, tus_error, upload_id
from harness.wire import until

# Tokens


def test_a_token_creates_uploads_of_its_subject(api):
    begin = datetime.now(UTC)
    answer = api.post("/v1/tus/tokens", {"subject": "user-7", "expiresIn": 60, "metadata": {"album": "7"}})
    assert answer.status_code == 201
    document = answer.json()
    assert document["token"].startswith("slg_")
    assert document["endpoint"] == f"{api.url}/files"
    assert 55 < (moment(document["expiresAt"]) - begin).total_seconds() < 65
    url = api.created(3, key=document["token"], metadata={"album": "forged", "filename": "a.txt"})
    upload = api.upload(upload_id(url))
    assert upload["subject"] == "user-7"
    assert upload["metadata"]["album"] == "7", "the client overrode what the backend said"
    assert upload["filename"] == "a.txt"
    assert document["grantId"] in json.dumps(upload)
    assert document["token"] not in json.dumps(upload)


def test_a_token_limits_the_size(api):
    token = api.post("/v1/tus/tokens", {"subject": "u", "maxBytes": 10}).json()["token"]
    assert api.create(10, key=token).status_code == 201
    tus_error(api.create(11, key=token), 413)


def test_a_token_limits_the_content_types(api):
    token = api.post("/v1/tus/tokens", {"subject": "u", "contentTypes": ["video/*", "image/png"]}).json()["token"]
    for kind, status in (("video/mp4", 201), ("image/png", 201), ("image/jpeg", 415), ("text/html", 415), (None, 415)):
        metadata = {"filetype": kind} if kind else {"filename": "a"}
        assert api.create(10, key=token, metadata=metadata).status_code == status, kind


def test_a_token_expires(api):
    token = api.post("/v1/tus/tokens", {"subject": "u", "expiresIn": 1}).json()["token"]
    url = api.created(3, key=token)
    until(lambda: api.create(3, key=token).status_code == 401, timeout=10)
    # An upload that has begun continues.
    assert api.patch(url, 0, b"abc").status_code == 204


def test_a_one_time_token_creates_one_upload(api):
    token = api.post("/v1/tus/tokens", {"subject": "u", "oneTime": True}).json()["token"]
    url = api.created(3, key=token)
    tus_error(api.create(3, key=token), 403)
    assert api.patch(url, 0, b"abc").status_code == 204
    tus_error(api.create(3, key=token), 403)


def test_a_one_time_token_used_at_once_by_many_creates_one_upload(api, server):
    token = api.post("/v1/tus/tokens", {"subject": "u", "oneTime": True}).json()["token"]
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: API(server.url, token).create(3).status_code, range(32)))
    assert sorted(statuses) == [201] + [403] * 31


def test_a_changed_token_is_refused(api):
    token = api.post("/v1/tus/tokens", {"subject": "u"}).json()["token"]
    middle = len(token) // 2
    for wrong in (
        token[:-1],
        token + "A",
        token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :],
    ):
        tus_error(api.create(1, key=wrong), 401)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", 1),
        ("subject", None),
        ("subject", "x" * 257),
        ("maxBytes", -1),
        ("maxBytes", "10"),
        ("maxBytes", 1.5),
        ("contentTypes", "video/*"),
        ("contentTypes", [1]),
        ("contentTypes", ["nonsense"]),
        ("contentTypes", ["a/b"] * 33),
        ("expiresIn", 0),
        ("expiresIn", -5),
        ("expiresIn", 604801),
        ("expiresIn", 10**9),
        ("expiresIn", "60"),
        ("oneTime", 1),
        ("oneTime", "yes"),
        ("metadata", {"a": 1}),
        ("metadata", "x"),
        ("metadata", {"a": "x" * 3000}),
    ],
)
def test_a_bad_token_request(api, field, value):
    field_problem(api.post("/v1/tus/tokens", {"subject": "u"} | {field: value}), field)
