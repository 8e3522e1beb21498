"""Media objects, downloads and signed links."""

import email.utils
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.api import field_problem, moment, path_of, problem, upload_id
from harness.data import MIB, content, sha256
from harness.wire import until

UNKNOWN = "0" * 26


# Media and downloads


def test_a_media_object(api, media):
    document = api.get(f"/v1/media/{media}").json()
    assert document["id"] == media
    assert (document["size"], document["filename"], document["contentType"]) == (1000, "digits.txt", "text/plain")
    assert document["metadata"]["note"] == "n"
    assert moment(document["createdAt"]) <= datetime.now(UTC)
    answer = api.get(document["url"])
    assert answer.headers["ETag"] == document["etag"]
    assert answer.content == b"0123456789" * 100


def test_an_unfinished_upload_has_no_media(api):
    identifier = upload_id(api.created(3))
    for path in (f"/v1/media/{identifier}", f"/media/{identifier}"):
        problem(api.get(path), 404, "not_found")


def test_a_download_is_safe(api, media):
    answer = api.get(f"/media/{media}")
    assert answer.headers["Content-Type"].split(";")[0] == "text/plain"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="digits.txt"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Length"] == "1000"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert email.utils.parsedate_to_datetime(answer.headers["Last-Modified"])


@pytest.mark.parametrize(
    ("kind", "inline"),
    [
        ("text/plain", True),
        ("image/png", True),
        ("video/mp4", True),
        ("audio/mpeg", True),
        ("text/html", False),
        ("image/svg+xml", False),
        ("image/x+xml", False),
        ("video/x+xml", False),
        ("application/pdf", False),
        ("application/javascript", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_only_harmless_types_are_shown_in_place(api, kind, inline):
    identifier = api.uploaded(b"<script>", metadata={"filetype": kind, "filename": "a"})
    answer = api.get(f"/media/{identifier}", params={"disposition": "inline"})
    assert answer.headers["Content-Disposition"].startswith("inline" if inline else "attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["filename", "filetype"])
def test_nothing_can_be_injected_into_a_header(api, name):
    for end in ("\r\n", "\n", "\r"):
        answer = api.create(1, metadata={name: f"text/plain{end}X-Injected: 1"})
        assert answer.status_code == 400 and "control character" in answer.text


@pytest.mark.parametrize("name", ['a".txt', "../../etc/passwd", "日本.txt", "\u202etxt.exe", "", " ", "a\\b"])
def test_no_file_name_breaks_the_header(api, name):
    identifier = api.uploaded(b"x", metadata={"filename": name})
    answer = api.get(f"/media/{identifier}")
    assert answer.status_code == 200
    value = answer.headers["Content-Disposition"]
    assert value.startswith("attachment; filename=")
    assert "/" not in value.replace("UTF-8''", "") and "\\" not in value


def test_head_of_a_download(api, media):
    answer = api.request("HEAD", f"/media/{media}")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == "1000"
    assert answer.headers["ETag"]


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=0-999", 0, 999),
        ("bytes=10-19", 10, 19),
        ("bytes=990-", 990, 999),
        ("bytes=-10", 990, 999),
        ("bytes=500-5000", 500, 999),
        ("bytes=-5000", 0, 999),
        ("BYTES=1-2", 1, 2),
    ],
)
def test_a_range(api, media, value, first, last):
    answer = api.get(f"/media/{media}", headers={"Range": value})
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/1000"
    assert answer.content == (b"0123456789" * 100)[first : last + 1]


@pytest.mark.parametrize("value", ["bytes=1000-", "bytes=5000-6000", "bytes=-0"])
def test_a_range_beyond_the_end(api, media, value):
    answer = api.get(f"/media/{media}", headers={"Range": value})
    problem(answer, 416, "range_not_satisfiable")
    assert answer.headers["Content-Range"] == "bytes */1000"


@pytest.mark.parametrize("value", ["bytes=5-2", "bytes=a-b", "lines=0-1", "bytes", "bytes=", "bytes=0-1,5-6"])
def test_a_malformed_range_is_ignored(api, media, value):
    answer = api.get(f"/media/{media}", headers={"Range": value})
    assert (answer.status_code, len(answer.content)) == (200, 1000)


def test_a_range_of_an_empty_file(api):
    identifier = api.uploaded(b"")
    assert api.get(f"/media/{identifier}", headers={"Range": "bytes=0-0"}).status_code == 416
    assert api.get(f"/media/{identifier}").content == b""


def test_a_file_in_many_ranges(api):
    data = content(2 * MIB + 5, 9)
    identifier = api.uploaded(data)
    step = 333_333
    parts = [
        api.get(f"/media/{identifier}", headers={"Range": f"bytes={begin}-{begin + step - 1}"}).content
        for begin in range(0, len(data), step)
    ]
    assert sha256(b"".join(parts)) == sha256(data)


def test_conditions(api, media):
    path = f"/media/{media}"
    tag = api.get(path).headers["ETag"]
    assert tag.startswith('"') and not tag.startswith("W/")
    for value, status in ((tag, 304), (f"W/{tag}", 304), ("*", 304), (f'"other", {tag}', 304), ('"other"', 200)):
        answer = api.get(path, headers={"If-None-Match": value})
        assert answer.status_code == status, value
        assert answer.headers["ETag"] == tag
        assert (answer.content == b"") == (status == 304)
    for value, status in ((tag, 200), ("*", 200), ('"other"', 412), (f"W/{tag}", 412)):
        assert api.get(path, headers={"If-Match": value}).status_code == status, value
    for value, status in ((tag, 206), ('"other"', 200), (f"W/{tag}", 200)):
        answer = api.get(path, headers={"If-Range": value, "Range": "bytes=0-1"})
        assert answer.status_code == status, value
    assert api.get(path, headers={"If-None-Match": tag, "Range": "bytes=0-1"}).status_code == 304


def test_a_failed_condition_is_a_problem(api, media):
    problem(api.get(f"/media/{media}", headers={"If-Match": '"other"'}), 412, "precondition_failed")


@pytest.mark.parametrize(("field", "value"), [("disposition", "nonsense"), ("unknown", "1")])
def test_an_invalid_download_query(api, media, field, value):
    field_problem(api.get(f"/media/{media}", params={field: value}), field)


# Links


def test_a_link_needs_no_key(api, media):
    answer = api.post(f"/v1/media/{media}/links", {"expiresIn": 60})
    assert answer.status_code == 201
    document = answer.json()
    assert 50 < (moment(document["expiresAt"]) - datetime.now(UTC)).total_seconds() <= 62
    assert document["url"].startswith(f"{api.url}/media/{media}?")
    download = api.get(document["url"], key=None)
    assert (download.status_code, download.content) == (200, b"0123456789" * 100)
    assert api.request("HEAD", document["url"], key=None).status_code == 200
    ranged = api.get(document["url"], key=None, headers={"Range": "bytes=0-1"})
    assert (ranged.status_code, ranged.content) == (206, b"01")
    inline = api.get(document["url"] + "&disposition=inline", key=None)
    assert inline.headers["Content-Disposition"].startswith("inline")


def test_a_changed_link_is_refused(api, media):
    other = api.uploaded(b"other")
    url = api.post(f"/v1/media/{media}/links", {"expiresIn": 60}).json()["url"]
    query = {key: value[0] for key, value in parse_qs(urlsplit(url).query).items()}
    path = path_of(url)
    changes = [
        (path, query | {"expires": str(int(query["expires"]) + 1)}),
        (path, query | {"expires": "9" * 30}),
        (path, query | {"expires": "abc"}),
        (path, {"signature": query["signature"]}),
        (path, query | {"signature": query["signature"][:-1]}),
        (path, query | {"signature": ""}),
        (path, query | {"signature": "A" * len(query["signature"])}),
        (path.replace(media, other), query),
        (path.replace(media, UNKNOWN), query),
    ]
    for changed, values in changes:
        answer = api.get(changed, params=values, key=None)
        assert answer.status_code in (401, 403), (changed, values, answer.status_code)
        assert answer.json()["code"] in ("forbidden", "unauthenticated")
    assert api.get(path, params={"expires": query["expires"]}, key=None).status_code == 401


def test_a_link_expires(api, media):
    url = api.post(f"/v1/media/{media}/links", {"expiresIn": 1}).json()["url"]
    assert api.get(url, key=None).status_code == 200
    until(lambda: api.get(url, key=None).status_code in (401, 403, 410), timeout=10)


@pytest.mark.parametrize("value", [0, -1, "60", 1.5, 604_801, True])
def test_an_invalid_link_request(api, media, value):
    field_problem(api.post(f"/v1/media/{media}/links", {"expiresIn": value}), "expiresIn")
