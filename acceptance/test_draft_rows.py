"""Resumable Uploads for HTTP, rule by rule and version by version, in addition to `test_resumable_http.py`."""

import base64
import gzip
import hashlib
import json
import re
import time

import pytest

from harness.api import API, path_of, upload_id
from harness.data import content
from harness.draft import PARTIAL, VERSIONS, Client, assert_media, problem
from harness.wire import Closed, head, until

LIMIT = re.compile(r"[a-z-]+=\d{1,15}(, [a-z-]+=\d{1,15})*")


def authorized(client):
    return ("Authorization", f"Bearer {client.server.admin_key}")


def begun(client, data, count, *fields):
    """The URL of an upload whose creation, of all bytes at once, has sent `count` of them and stalls."""
    fields = client.fields(authorized(client), client.complete(True), ("Content-Length", len(data)), *fields)
    client.wire.send(head("POST", "/files", fields))
    reply = client.wire.reply("POST", skip_interim=False)
    assert reply.status == 104, reply
    client.wire.send(data[:count])
    return reply["Location"]


def limits(text, version):
    """The members of `Upload-Limit`, whose key for the age is that of the version."""
    assert LIMIT.fullmatch(text), text
    members = dict(member.split("=") for member in text.split(", "))
    assert members.keys() == {"max-size", "max-age" if version in (7, 8, None) else "expires"}, text
    return members


# Vocabulary


@pytest.mark.parametrize("value", ["1", "true", "?2", '"?1"', "?1, ?0", "?T", ""])
def test_completeness_in_another_form_is_ignored(client, api, value):
    """A creation is a plain upload then, and an append one that does not say whether it is the last."""
    name = client.complete(True)[0]
    reply = client.exchange("POST", "/files", authorized(client), (name, value), body=b"hello")
    assert_media(api, reply, b"hello")
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    reply = client.append(url, 5, b"!", None, (name, value))
    if client.version in (7, 8, None):
        problem(reply, 400)
        assert client.offset(url) == (5, False)
    else:
        assert_media(api, reply, b"hello!")


def test_parameters_of_completeness_are_ignored(client, api):
    name, value = client.complete(False)
    reply = client.exchange("POST", "/files", authorized(client), (name, value + ";a=b"), body=b"hello")
    assert reply.status == 201 and not client.is_complete(reply)


def test_the_flag_of_another_version_is_ignored(speaking, api):
    """`Upload-Incomplete` is that of version 3 only."""
    other = ("Upload-Complete", "?0") if speaking.version == 3 else ("Upload-Incomplete", "?1")
    reply = speaking.exchange("POST", "/files", authorized(speaking), other, body=b"hello")
    assert_media(api, reply, b"hello")


@pytest.mark.parametrize("value", ["x", "-1", "1.0", "1234567890123456"])
@pytest.mark.parametrize("version", [8, None])
def test_a_length_in_another_form_is_ignored(server, api, version, value):
    """ "Other values MUST cause the entire header field to be ignored" (draft, Length)."""
    client = Client(server, version)
    _, reply = client.create(b"hello", False, ("Upload-Length", value))
    assert reply.status == 201
    assert_media(api, client.append(reply["Location"], 5, b"!", True, ("Upload-Length", value)), b"hello!")


def test_all_responses_to_a_creation_have_the_same_location(speaking):
    interim, reply = speaking.create(b"hello", False)
    assert [one["Location"] for one in interim] == [reply["Location"]]


def test_104_does_not_replace_100(speaking, api):
    fields = [authorized(speaking), speaking.complete(True), ("Content-Length", 5), ("Expect", "100-continue")]
    speaking.wire.send(head("POST", "/files", speaking.fields(*fields)))
    statuses = [speaking.wire.interim().status for _ in range(2)]
    assert sorted(statuses) == [100, 104]
    speaking.wire.send(b"hello")
    assert_media(api, speaking.wire.reply("POST"), b"hello")


def test_100_is_sent_for_an_append(client, api):
    _, reply = client.create(b"hello", False)
    fields = [("Upload-Offset", 5), client.complete(True), ("Content-Type", PARTIAL), ("Content-Length", 1)]
    url = path_of(reply["Location"])
    client.wire.send(head("PATCH", url, client.fields(*fields, ("Expect", "100-continue"))))
    assert client.wire.interim().status == 100
    client.wire.send(b"!")
    assert_media(api, client.wire.reply("PATCH"), b"hello!")


@pytest.mark.parametrize("version", [5, 8])
def test_progress_of_an_append_has_no_location(server, version):
    client = Client(server, version)
    _, reply = client.create(b"", False)
    fields = [("Upload-Offset", 0), client.complete(False), ("Content-Type", PARTIAL), ("Content-Length", 10)]
    client.wire.send(head("PATCH", path_of(reply["Location"]), client.fields(*fields)))
    for piece in (b"01", b"23", b"45", b"67"):
        client.wire.send(piece)
        time.sleep(0.9)
    interim = client.wire.reply("PATCH", skip_interim=False)
    assert (interim.status, interim["Location"]) == (104, None)
    assert interim["Upload-Draft-Interop-Version"] == str(version)
    # The rest never comes; what was reported is there.
    offset, is_complete = Client(server, version).offset(reply["Location"])
    assert 0 < int(interim["Upload-Offset"]) <= offset and not is_complete


def test_content_that_ends_before_the_length(client):
    """It cannot be the end, although it says so; without `Content-Length` this shows only at the end."""
    _, reply = client.create(b"hello", False, ("Upload-Length", "8"))
    url = reply["Location"]
    fields = [("Upload-Offset", 5), client.complete(True), ("Content-Type", PARTIAL), ("Transfer-Encoding", "chunked")]
    client.wire.send(head("PATCH", path_of(url), client.fields(*fields)) + b"1\r\n!\r\n0\r\n\r\n")
    problem(client.wire.reply("PATCH"), 400, "inconsistent-upload-length")
    assert client.offset(url) == (6, False)


def test_the_length_of_a_creation_that_broke_off_stays(speaking, server, api):
    """`Content-Length` declared it (since -02), and later requests must agree."""
    url = begun(speaking, b"0123456789", 4)
    until(lambda: api.upload(upload_id(url))["offset"] == 4)
    speaking.wire.close()
    client = Client(server, speaking.version)
    assert client.exchange("HEAD", path_of(url))["Upload-Length"] == "10"
    problem(client.append(url, 4, b"45678", True), 400, "inconsistent-upload-length")
    assert client.offset(url) == (4, False)
    assert_media(api, client.append(url, 4, b"456789", True), b"0123456789")


def test_lost_bytes_deactivate_an_upload(make_server):
    """The offset must never decrease (draft, "Offset values")."""
    server = make_server().start()
    client = Client(server, 8)
    _, reply = client.create(b"0123456789", False)
    path = path_of(reply["Location"])
    assert client.offset(path) == (10, False)
    server.kill()
    (stored,) = [file for file in server.stored_files(upload_id(path)) if file.stat().st_size == 10]
    stored.unlink()
    server.start()
    client = Client(server, 8)
    reply = client.exchange("HEAD", path)
    assert reply.status >= 400 and reply["Upload-Offset"] is None
    assert client.append(path, 4, b"456789", True).status >= 400


# Operations


def test_limits(client):
    """Of versions that know them: on creation, HEAD and append, with the keys of the version."""
    _, created = client.create(b"a", False)
    url = path_of(created["Location"])
    for reply in (created, client.exchange("HEAD", url), client.append(url, 1, b"b", False)):
        if client.version in (3, 4, 5):
            assert reply["Upload-Limit"] is None
        else:
            members = limits(reply["Upload-Limit"], client.version)
            assert 86_000 < int(members.get("max-age") or members["expires"]) <= 86_400


def test_a_limit_has_at_most_15_digits(make_server):
    with make_server(environment={"SLUICE_LIMITS_UPLOAD_BYTES": "9223372036854775807"}) as server:
        _, reply = Client(server, 8).create(b"a", False)
        assert limits(reply["Upload-Limit"], 8)["max-size"] == "999999999999999"


@pytest.mark.parametrize("version", [8, None])
def test_a_content_coding_is_kept_or_refused(server, api, version):
    """Offsets count coded bytes; without the name of the coding the media is not what was sent (RFC 9110 §8.4)."""
    _, reply = Client(server, version).create(gzip.compress(b"hello"), True, ("Content-Encoding", "gzip"))
    if reply.status != 415:
        answer = api.get(f"/media/{json.loads(reply.body)['id']}")
        assert answer.headers.get("Content-Encoding") == "gzip" and answer.content == b"hello"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_the_state_of_an_upload(client, method):
    _, reply = client.create(b"hello", False, ("Upload-Length", "9"))
    reply = client.exchange(method, path_of(reply["Location"]))
    assert reply.status == 204 and not client.is_complete(reply)
    assert (reply["Upload-Offset"], reply["Upload-Length"], reply["Cache-Control"]) == ("5", "9", "no-store")


def test_an_unknown_upload(client):
    for method in ("HEAD", "DELETE", "GET"):
        reply = client.exchange(method, "/files/nothing")
        assert reply.status == 404 and reply["Upload-Offset"] is None
    reply = client.append("/files/nothing", 0, b"hello", True)
    problem(reply, 404)
    assert reply["Upload-Offset"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_status_of_an_ended_upload(server, version):
    """Until -05 an upload that is not active is 404 (Offset Retrieval, Append, Cancellation); then 410, too."""
    client = Client(server, version)
    _, reply = client.create(b"hello", False)
    url = path_of(reply["Location"])
    assert client.exchange("DELETE", url).status == 204
    replies = [client.exchange("HEAD", url), client.exchange("DELETE", url), client.append(url, 5, b"", True)]
    assert {reply.status for reply in replies} <= ({404} if version <= 6 else {404, 410})


@pytest.mark.parametrize("method", ["HEAD", "DELETE"])
def test_completeness_with_other_methods(client, method):
    """Refused until -05."""
    _, reply = client.create(b"hello", False)
    reply = client.exchange(method, path_of(reply["Location"]), client.complete(True))
    assert reply.status == (400 if client.version in (3, 4, 5, 6) else 204)


def test_a_length_with_other_methods(server):
    """HEAD with it is refused by -05 only, which has the field since, and drops the rule after."""
    client = Client(server, 6)
    _, reply = client.create(b"hello", False)
    assert client.exchange("HEAD", path_of(reply["Location"]), ("Upload-Length", "9")).status == 400


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_an_append_that_is_not_the_last_is_201(server, version):
    """Until -05 ("MUST acknowledge it by responding with a 201")."""
    client = Client(server, version)
    _, reply = client.create(b"hello", False)
    reply = client.append(reply["Location"], 5, b"!", False)
    assert (reply.status, reply["Upload-Offset"]) == (201, "6") and not client.is_complete(reply)


WRONG = {
    "length": (True, b"!", ("Upload-Length", "9")),
    "overlong": (False, b"12345", None),
    "digest": (True, b"123", ("Content-Digest", f"sha-256=:{base64.b64encode(bytes(32)).decode()}:")),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("version", VERSIONS)
def test_responses_of_an_active_upload_have_the_offset(server, version, case):
    """Failures, too, until -05; not demanded since."""
    client = Client(server, version)
    last, body, field = WRONG[case]
    _, reply = client.create(b"hello", False, ("Upload-Length", "8"))
    url = reply["Location"]
    reply = client.append(url, 5, body, last, field)
    assert reply.status == 400
    if version <= 6:
        assert reply["Upload-Offset"] == "5"
        assert client.offset(url) == (5, False)


@pytest.mark.parametrize("method", ["HEAD", "PATCH", "DELETE"])
def test_a_newer_request_interrupts_a_running_one(speaking, server, api, method):
    """The next append is accepted at the returned offset."""
    data = content(100_000, 31)
    url = begun(speaking, data, 40_000)
    until(lambda: api.upload(upload_id(url))["offset"] == 40_000)
    client = Client(server, speaking.version)
    if method == "HEAD":
        assert client.offset(url) == (40_000, False)
        assert_media(api, client.append(url, 40_000, data[40_000:], True), data)
    elif method == "PATCH":
        assert_media(api, client.append(url, 40_000, data[40_000:], True), data)
    else:
        assert client.exchange("DELETE", path_of(url)).status == 204
        assert server.stored_files(upload_id(url)) == []
    try:
        assert speaking.wire.reply("POST").status >= 400
    except Closed:
        pass


@pytest.mark.parametrize("version", [3, 8])
def test_a_creation_that_times_out_can_be_continued(make_server, version):
    """After a 104 the client knows the URL; received bytes are kept."""
    environment = {"SLUICE_TIMEOUTS_BODY_PROGRESS": "1s", "SLUICE_UPLOADS_INTERIM_RESPONSES": "always"}
    with make_server(environment=environment) as server:
        client = Client(server, version)
        url = begun(client, b"0123456789", 4)
        assert client.wire.reply("POST").status == 408
        client = Client(server, version)
        assert client.offset(url) == (4, False)
        assert_media(API(server.url, server.admin_key), client.append(url, 4, b"456789", True), b"0123456789")


@pytest.mark.parametrize(
    "path",
    [
        "/files",
        "*",
        "/v1/media",
        "/v1/media/a",
    ],
)
def test_limits_are_returned_where_uploads_are_created(wire, path):
    """By OPTIONS without `Upload-Complete`; for `*` that was mandatory until -08."""
    reply = wire.exchange("OPTIONS", path)
    assert reply.status in (200, 204)
    assert limits(reply["Upload-Limit"], None)
    assert reply["Accept-Patch"] == PARTIAL


@pytest.mark.parametrize("version", [6, 7, 8])
def test_discovery_follows_the_version(server, version):
    reply = Client(server, version).exchange("OPTIONS", "/files")
    assert limits(reply["Upload-Limit"], version)
    assert reply["Accept-Patch"] == PARTIAL


def test_problems_of_other_requests_have_no_offset(speaking):
    """A client must not take the offset of an error for that of an upload."""
    speaking.send("POST", "/files", speaking.complete(True), body=b"hello")
    reply = speaking.wire.reply("POST")
    problem(reply, 401)
    assert reply["Upload-Offset"] is None and reply["Location"] is None


def test_a_page_can_read_responses_and_errors(client):
    """As with tus."""
    origin = ("Origin", "https://app.example")
    _, reply = client.create(b"hello", False, origin)
    replies = [reply, client.append(reply["Location"], 4, b"x", True, origin)]
    replies.append(client.exchange("HEAD", "/files/nothing", origin))
    for reply in replies:
        assert reply["Access-Control-Allow-Origin"] in ("*", "https://app.example"), reply
        exposed = {name.strip().lower() for name in reply["Access-Control-Expose-Headers"].split(",")}
        assert {"location", "upload-offset", "upload-complete", "upload-length", "upload-limit"} <= exposed


def test_preflight_for_the_draft(wire):
    names = "upload-complete,upload-incomplete,upload-draft-interop-version,upload-offset,content-digest"
    fields = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "PATCH")]
    reply = wire.exchange("OPTIONS", "/files/a", [*fields, ("Access-Control-Request-Headers", names)])
    allowed = {name.strip().lower() for name in reply["Access-Control-Allow-Headers"].split(",")}
    assert reply.status in (200, 204) and set(names.split(",")) <= allowed
    methods = {name.strip() for name in reply["Access-Control-Allow-Methods"].split(",")}
    assert {"HEAD", "PATCH", "DELETE"} <= methods


# Digests


@pytest.mark.parametrize("right", [True, False])
def test_a_content_digest_in_a_trailer(client, api, right):
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    fields = [("Upload-Offset", 5), client.complete(True), ("Content-Type", PARTIAL), ("Transfer-Encoding", "chunked")]
    digest = base64.b64encode(hashlib.sha256(b"!" if right else b"?").digest())
    client.wire.send(head("PATCH", path_of(url), client.fields(*fields, ("Trailer", "Content-Digest"))))
    client.wire.send(b"1\r\n!\r\n0\r\nContent-Digest: sha-256=:" + digest + b":\r\n\r\n")
    reply = client.wire.reply("PATCH")
    if right:
        assert_media(api, reply, b"hello!")
    else:
        problem(reply, 400)
        assert client.offset(url) == (5, False)


@pytest.mark.parametrize("value", ["sha-256=AAAA", "sha-256=:AAAA:", "sha-256", "sha-256=:AAAA", "=", "sha-256=1"])
def test_an_invalid_digest_is_refused(client, value):
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    problem(client.append(url, 5, b"!", True, ("Content-Digest", value)), 400)
    assert client.offset(url) == (5, False)


@pytest.mark.parametrize("value", ["md5=:AAAA:", "unixsum=30637, crc32c=:AAAA:", "sha=:AAAA:"])
def test_deprecated_digests_prove_nothing(client, api, value):
    _, reply = client.create(b"hello", True, ("Content-Digest", value))
    assert_media(api, reply, b"hello")


# Who speaks what


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("with_data", [False, True])
def test_tus_js_client(server, api, version, with_data):
    """`ietf-draft-03` and `-05`: metadata of tus, and a POST with data has the media type of an append."""
    client = Client(server, version)
    metadata = ("Upload-Metadata", "filename Y2xpcC5tcDQ=,filetype dmlkZW8vbXA0")
    data = b"hello world"
    first = data[:6] if with_data else b""
    kind = [("Content-Type", PARTIAL)] if with_data else []
    fields = [authorized(client), client.complete(False), ("Upload-Length", len(data)), metadata, *kind]
    reply = client.exchange("POST", "/files", *fields, body=first)
    assert reply.status == 201
    url = reply["Location"]
    assert client.offset(url) == (len(first), False)
    assert client.exchange("HEAD", path_of(url))["Upload-Length"] == "11"
    middle = client.append(url, len(first), data[len(first) : 8], False)
    assert middle.status in (201, 204) and middle["Upload-Offset"] == "8"
    last = client.append(url, 8, data[8:], True)
    assert last["Upload-Offset"] == "11"
    document = assert_media(api, last, data)
    assert (document["filename"], document["contentType"]) == ("clip.mp4", "video/mp4")


@pytest.mark.parametrize("version", [3, 5, 6, 8])
@pytest.mark.parametrize(("method", "path"), [("POST", "/files"), ("PUT", "/v1/media/n"), ("POST", "/v1/media")])
def test_url_session(server, api, version, method, path):
    """It makes an ordinary upload resumable, with any method and URL, and learns the upload URL from a 104."""
    client = Client(server, version)
    fields = [("Content-Disposition", "inline; filename*=UTF-8''n%C3%A4me.mp4")]
    if version == 8:
        fields.append(("Upload-Length", "10"))
    interim, reply = client.create(b"0123456789", True, *fields, method=method, path=path)
    document = assert_media(api, reply, b"0123456789")
    assert (document["filename"], document["contentType"]) == ("näme.mp4", "video/mp4")
    assert upload_id(interim[0]["Location"]) == document["id"]
    assert "/files/" in interim[0]["Location"]
    assert interim[0]["Upload-Draft-Interop-Version"] == str(version)


def test_a_plain_upload_gets_no_interim_response(wire, key, api):
    """Clients without the field of the version take a 104 for the final answer."""
    fields = [key, ("Upload-Complete", "?1"), ("Content-Type", "video/mp4")]
    wire.request("POST", "/files", fields, b"hello")
    reply = wire.reply("POST", skip_interim=False)
    assert_media(api, reply, b"hello")
    assert json.loads(reply.body)["contentType"] == "video/mp4"


# Complete


@pytest.mark.parametrize("offset", [0, 3, 6, 999_999_999_999_999])
def test_a_wrong_offset_of_a_complete_upload_reports_completeness(client, api, offset):
    _, reply = client.create(b"hel", False)
    url = reply["Location"]
    assert_media(api, client.append(url, 3, b"lo", True), b"hello")
    reply = client.append(url, offset, b"lo", True)
    problem(reply, 409, "mismatching-upload-offset")
    assert reply["Upload-Offset"] == "5"
    assert client.is_complete(reply)
    _, reply = client.create(b"hel", False)
    reply = client.append(reply["Location"], 1, b"lo", True)
    assert reply["Upload-Offset"] == "3" and not client.is_complete(reply)


@pytest.mark.parametrize(
    "text", ["9223372036854775807", "9223372036854775808", "18446744073709551616", "-1", "00x", "1.0"]
)
def test_numbers_beyond_the_format_are_refused(client, api, text):
    _, reply = client.create(b"hel", False)
    url = reply["Location"]
    problem(client.append(url, text, b"lo", True), 400)
    assert client.offset(url) == (3, False)
    _, reply = client.create(b"hel", False, ("Upload-Length", text))
    assert reply.status in (201, 400)
