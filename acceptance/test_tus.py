"""tus 1.0.0 on the wire: cases that the clients do not cover."""

import hashlib
import re
import threading
import time
from email.utils import parsedate_to_datetime

import pytest

from harness.api import API, OFFSET_TYPE, TUS, checksum, encode_metadata, path_of, tus_error, tus_patch, upload_id
from harness.data import MIB, content, crc32c, sha256
from harness.wire import Wire, until

ALGORITHMS = {
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
    "md5": lambda data: hashlib.md5(data).digest(),
    "crc32c": crc32c,
}


# Discovery


@pytest.mark.parametrize("path", ["/files", "/files/anything"])
def test_options_tells_what_is_offered(api, path):
    answer = api.request("OPTIONS", path, key=None)
    assert answer.status_code in (200, 204)
    assert answer.headers["Tus-Version"] == "1.0.0"
    assert answer.headers["Tus-Resumable"] == "1.0.0"
    extensions = set(answer.headers["Tus-Extension"].split(","))
    assert {
        "creation",
        "creation-with-upload",
        "creation-defer-length",
        "concatenation",
        "concatenation-unfinished",
        "termination",
        "expiration",
        "checksum",
        "checksum-trailer",
    } <= extensions
    assert set(ALGORITHMS) <= set(answer.headers["Tus-Checksum-Algorithm"].split(","))
    assert int(answer.headers["Tus-Max-Size"]) > 0


# Creation


def test_location_is_absolute_and_unguessable(api):
    urls = [api.created(1) for _ in range(2)]
    for url in urls:
        assert re.fullmatch(re.escape(api.url) + r"/files/[0-9a-z]{26}\.[A-Za-z0-9_-]{22}", url), url
    assert urls[0].rsplit(".", 1)[1] != urls[1].rsplit(".", 1)[1]


def test_a_guessed_url_is_not_found(api):
    url = api.created(1)
    other = api.created(1)
    for wrong in (
        url[:-1] + ("A" if url[-1] != "A" else "B"),
        url.rsplit(".", 1)[0],
        url + "A",
        url.rsplit(".", 1)[0] + "." + other.rsplit(".", 1)[1],
    ):
        assert api.head(wrong).status_code == 404, wrong
        tus_error(api.patch(wrong, 0, b"x"), 404)
        tus_error(api.terminate(wrong), 404)
    assert api.offset(url) == 0


def test_an_empty_upload_is_complete_at_creation(api):
    url = api.created(0)
    assert api.offset(url) == 0
    assert api.upload(upload_id(url))["state"] == "completed"
    assert api.download_hash(upload_id(url)) == (sha256(b""), 0)


def test_metadata_comes_back_exactly_as_sent(api):
    # The order, a key without value in both spellings, an empty value, bytes that are not UTF-8.
    raw = "zeta /w==,filename aGVsbG8udHh0,flag,empty ,filetype dGV4dC9wbGFpbg=="
    answer = api.create(1, headers={"Upload-Metadata": raw})
    assert answer.status_code == 201
    assert api.head(answer.headers["Location"]).headers["Upload-Metadata"] == raw
    upload = api.upload(upload_id(answer.headers["Location"]))
    assert (upload["filename"], upload["contentType"]) == ("hello.txt", "text/plain")
    assert "zeta" not in upload["metadata"]


def test_an_empty_metadata_field_is_accepted(api):
    assert api.create(1, headers={"Upload-Metadata": ""}).status_code == 201


@pytest.mark.parametrize("raw", ["filename ???", "a YQ==,a Yg==", "a YQ== YQ==", "a YQ==,,b YQ=="])
def test_bad_metadata_is_refused(api, raw):
    tus_error(api.create(1, headers={"Upload-Metadata": raw}), 400)


@pytest.mark.parametrize("length", ["-1", "1.5", "0x10", "", "abc", "99999999999999999999", "1 2", "+1"])
def test_a_bad_length_is_refused(api, length):
    tus_error(api.request("POST", "/files", headers=TUS | {"Upload-Length": length}), 400)


def test_a_length_is_needed(api):
    tus_error(api.request("POST", "/files", headers=TUS), 400)


def test_a_length_above_the_maximum_is_refused(api):
    most = int(api.request("OPTIONS", "/files", key=None).headers["Tus-Max-Size"])
    tus_error(api.create(most + 1), 413)


def test_creation_needs_a_credential(api):
    for key in (None, "slk_unknown", "slg_unknown"):
        answer = api.create(1, key=key)
        tus_error(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("version", [None, "0.2.2", "1.0"])
def test_another_protocol_version_is_refused(api, version):
    url = api.created(1)
    headers = {"Tus-Resumable": version} if version else {}
    answer = api.request("POST", "/files", headers=headers | {"Upload-Length": "1"})
    tus_error(answer, 412)
    assert answer.headers["Tus-Version"] == "1.0.0"
    answer = api.request("PATCH", url, headers=headers | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}, data=b"x")
    tus_error(answer, 412)
    assert api.offset(url) == 0


def test_the_first_bytes_may_come_with_the_creation(api):
    data = content(100_000, 1)
    answer = api.create(len(data), body=data[:60_000])
    assert answer.status_code == 201
    assert answer.headers["Upload-Offset"] == "60000"
    url = answer.headers["Location"]
    assert api.patch(url, 60_000, data[60_000:]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))

    answer = api.create(len(data), body=data)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (201, str(len(data)))
    assert api.upload(upload_id(answer.headers["Location"]))["state"] == "completed"


def test_more_bytes_than_announced_create_nothing(api):
    before = {upload["id"] for upload in api.get("/v1/uploads").json()["uploads"]}
    tus_error(api.create(10, body=b"x" * 11), 413)
    assert {upload["id"] for upload in api.get("/v1/uploads").json()["uploads"]} == before


def test_other_content_of_a_creation_is_ignored(api):
    answer = api.request(
        "POST",
        "/files",
        headers=TUS | {"Upload-Length": "5", "Content-Type": "application/octet-stream"},
        data=b"abcde",
    )
    assert answer.status_code == 201
    assert api.offset(answer.headers["Location"]) == 0


# HEAD and PATCH


def test_head_tells_offset_and_length(api):
    url = api.created(10)
    api.patch(url, 0, b"abc")
    answer = api.head(url)
    assert answer.status_code in (200, 204)
    assert (answer.headers["Upload-Offset"], answer.headers["Upload-Length"]) == ("3", "10")
    assert "no-store" in answer.headers["Cache-Control"]


def test_head_of_nothing_has_no_offset(api):
    answer = api.head(api.url + "/files/nothing")
    assert answer.status_code == 404
    assert "Upload-Offset" not in answer.headers


def test_a_wrong_offset_is_a_conflict_that_tells_the_right_one(api):
    url = api.created(10)
    api.patch(url, 0, b"abc")
    for offset in (0, 2, 4, 10):
        answer = api.patch(url, offset, b"xyz")
        tus_error(answer, 409)
        assert answer.headers["Upload-Offset"] == "3"
    assert api.offset(url) == 3


@pytest.mark.parametrize("offset", ["-1", "3x", "", "99999999999999999999", "0x3"])
def test_a_bad_offset_is_refused(api, offset):
    url = api.created(10)
    answer = api.patch(url, 0, b"abc", headers={"Upload-Offset": offset})
    tus_error(answer, 400)
    assert "Upload-Offset" not in answer.headers
    assert api.offset(url) == 0


def test_an_offset_is_needed(api):
    url = api.created(10)
    tus_error(api.request("PATCH", url, headers=TUS | {"Content-Type": OFFSET_TYPE}, data=b"abc", key=None), 400)


@pytest.mark.parametrize("kind", [None, "application/octet-stream", "application/offset+octet-streams"])
def test_another_content_type_is_refused(api, kind):
    url = api.created(10)
    headers = TUS | {"Upload-Offset": "0"} | ({"Content-Type": kind} if kind else {})
    tus_error(api.request("PATCH", url, headers=headers, data=b"abc", key=None), 415)
    assert api.offset(url) == 0


def test_more_bytes_than_there_is_room_for_are_refused(api):
    url = api.created(10)
    tus_error(api.patch(url, 0, b"x" * 11), 413)
    assert api.offset(url) == 0


def test_more_chunked_bytes_than_there_is_room_for_are_refused(api):
    url = api.created(10)
    tus_error(api.patch(url, 0, iter([b"x" * 6, b"y" * 6])), 413)
    assert api.offset(url) <= 10


def test_a_chunked_patch_is_stored(api):
    data = content(3 * MIB + 7, 2)
    url = api.created(len(data))
    answer = api.patch(url, 0, (data[begin : begin + 70_001] for begin in range(0, len(data), 70_001)))
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(len(data)))
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_an_empty_patch_changes_nothing(api):
    url = api.created(10)
    api.patch(url, 0, b"abc")
    answer = api.patch(url, 3, b"")
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, "3")


def test_byte_by_byte(api):
    url = api.created(11)
    for offset, byte in enumerate(b"hello world"):
        answer = api.patch(url, offset, bytes([byte]))
        assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(offset + 1))
    assert api.get(f"/media/{upload_id(url)}").content == b"hello world"


def test_bytes_before_a_broken_connection_are_kept(server, api):
    data = content(200_000, 3)
    url = api.created(len(data))
    with Wire(server.address) as wire:
        fields = [*TUS.items(), ("Upload-Offset", "0"), ("Content-Type", OFFSET_TYPE), ("Content-Length", len(data))]
        wire.request("PATCH", path_of(url), fields)
        wire.send(data[:123_457])
    until(lambda: api.upload(upload_id(url))["offset"] == 123_457)
    assert api.offset(url) == 123_457
    assert api.patch(url, 123_457, data[123_457:]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


# Checksums


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_right_checksum_is_accepted(api, algorithm):
    data = content(300_000 if algorithm != "crc32c" else 30_000, 4)
    url = api.created(len(data))
    half = len(data) // 2
    for offset, piece in ((0, data[:half]), (half, data[half:])):
        answer = api.patch(url, offset, piece, headers=checksum(algorithm, ALGORITHMS[algorithm](piece)))
        assert answer.status_code == 204, answer.text
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bytes_with_a_wrong_checksum_are_dropped(api, algorithm):
    url = api.created(10)
    assert api.patch(url, 0, b"ab").status_code == 204
    answer = api.patch(url, 2, b"cdefghij", headers=checksum(algorithm, ALGORITHMS[algorithm](b"something else")))
    tus_error(answer, 460)
    assert api.offset(url) == 2
    assert api.patch(url, 2, b"cdefghij").status_code == 204
    assert api.get(f"/media/{upload_id(url)}").content == b"abcdefghij"


@pytest.mark.parametrize(
    "value", ["sha3 AAAA", "sha1", "sha1 ???", "sha1 AAAA", "", "SHA1 2jmj7l5rSw0yVb/vlWAYkK/YBwk="]
)
def test_a_bad_checksum_field_is_refused(api, value):
    url = api.created(3)
    tus_error(api.patch(url, 0, b"abc", headers={"Upload-Checksum": value}), 400)
    assert api.offset(url) == 0


def test_a_checksum_of_a_broken_request_keeps_nothing(server, api):
    url = api.created(1000)
    assert api.patch(url, 0, b"x" * 100).status_code == 204
    fields = [
        *TUS.items(),
        ("Upload-Offset", "100"),
        ("Content-Type", OFFSET_TYPE),
        ("Content-Length", 900),
        *checksum("sha1", hashlib.sha1(b"y" * 900).digest()).items(),
    ]
    with Wire(server.address) as wire:
        wire.request("PATCH", path_of(url), fields)
        wire.send(b"y" * 500)
        time.sleep(0.1)
    assert api.offset(url) == 100
    assert api.patch(url, 100, b"z" * 900).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(b"x" * 100 + b"z" * 900), 1000)


def test_a_checksum_of_a_creation_is_checked(api):
    assert api.create(3, body=b"abc", headers=checksum("sha1", hashlib.sha1(b"abc").digest())).status_code == 201
    tus_error(api.create(3, body=b"abc", headers=checksum("sha1", hashlib.sha1(b"abd").digest())), 460)


# Termination and expiration


@pytest.mark.parametrize("body", [b"", b"abc"], ids=["empty", "begun"])
def test_a_terminated_upload_is_gone(server, api, body):
    url = api.created(10)
    if body:
        api.patch(url, 0, body)
    assert api.terminate(url).status_code == 204
    assert api.head(url).status_code in (404, 410)
    assert api.patch(url, len(body), b"x").status_code in (404, 410)
    assert api.terminate(url).status_code in (404, 410)
    assert api.get(f"/media/{upload_id(url)}").status_code in (404, 410)
    assert server.stored_files(upload_id(url)) == []
    assert api.upload(upload_id(url))["state"] == "terminated"


def test_a_complete_upload_is_not_deleted_by_its_url(api):
    """tus 1.0.0 lets a server refuse; clients terminate uploads that they abandon, and those are not complete."""
    url = api.created(3)
    api.patch(url, 0, b"abc")
    tus_error(api.terminate(url), 403)
    assert api.get(f"/media/{upload_id(url)}").content == b"abc"
    assert api.offset(url) == 3


def test_upload_expires_is_returned(api):
    answer = api.create(10)
    url = answer.headers["Location"]
    created = parsedate_to_datetime(answer.headers["Upload-Expires"])
    patched = parsedate_to_datetime(api.patch(url, 0, b"abc").headers["Upload-Expires"])
    assert patched >= created
    assert created.timestamp() > time.time()


def test_an_expired_upload_is_removed(make_server):
    with make_server(environment={"SLUICE_UPLOADS_EXPIRE_AFTER": "1s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}) as server:
        api = API(server.url, server.admin_key)
        kept = api.uploaded(b"abc")
        url = api.created(10)
        assert api.patch(url, 0, b"abc").status_code == 204
        time.sleep(1.2)
        assert api.head(url).status_code in (404, 410)
        tus_error(api.patch(url, 3, b"def"), 410)
        until(lambda: api.upload(upload_id(url))["state"] == "expired", timeout=20)
        until(lambda: server.stored_files(upload_id(url)) == [], timeout=20)
        assert api.get(f"/media/{kept}").content == b"abc"


# Method override and CORS


def test_the_method_can_be_overridden(api):
    url = api.created(4)
    fields = TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE, "X-HTTP-Method-Override": "PATCH"}
    assert api.request("POST", url, headers=fields, data=b"abc", key=None).headers["Upload-Offset"] == "3"
    answer = api.request("POST", url, headers=TUS | {"X-HTTP-Method-Override": "HEAD"}, key=None)
    assert answer.headers["Upload-Offset"] == "3"
    answer = api.request("POST", url, headers=TUS | {"X-HTTP-Method-Override": "DELETE"}, key=None)
    assert answer.status_code == 204
    assert api.head(url).status_code in (404, 410)


def test_a_method_can_be_overridden_in_any_case(api):
    url = api.created(3)
    fields = TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE, "X-HTTP-Method-Override": "patch"}
    assert api.request("POST", url, headers=fields, data=b"abc", key=None).headers["Upload-Offset"] == "3"
    answer = api.request("POST", url, headers=TUS | {"X-HTTP-Method-Override": "Head"}, key=None)
    assert answer.headers["Upload-Offset"] == "3"
    # A request without the tus version removes nothing.
    answer = api.request("POST", url, headers={"X-HTTP-Method-Override": "DELETE"}, key=None)
    assert answer.status_code == 412
    assert api.offset(url) == 3


@pytest.mark.parametrize("fields", [TUS, {}], ids=["tus", "no version"])
@pytest.mark.parametrize("override", ["DELETE", "delete", "PATCH", "POST", "HEAD", "GET", "PURGE"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_only_post_can_be_overridden(api, method, override, fields):
    """A request that caches and browsers may repeat or send ahead changes nothing; nor does one that says both."""
    url = api.created(3)
    content = {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}
    data = None if method in ("GET", "HEAD") else b"abc"
    headers = fields | content | {"X-HTTP-Method-Override": override}
    for path in (url, "/files"):
        answer = api.request(method, path, headers=headers, data=data, key=None)
        same = method == override.upper()
        assert same or answer.status_code == 400
    if not same:
        assert api.offset(url) == 0


def test_ended_uploads_can_be_not_found(make_server):
    """tus-java-client creates a new upload only after 404."""
    with make_server(environment={"SLUICE_UPLOADS_GONE_STATUS": "notFound"}) as server:
        api = API(server.url, server.admin_key)
        url = api.created(3)
        assert api.terminate(url).status_code == 204
        answer = api.patch(url, 0, b"abc")
        assert answer.status_code == 404 and answer.text.startswith("ERR_UPLOAD_NOT_FOUND: ")
        assert api.head(url).status_code == 404


def test_an_overridden_method_is_not_exempt_from_authentication(api):
    answer = api.request(
        "GET", "/files", headers=TUS | {"X-HTTP-Method-Override": "POST", "Upload-Length": "1"}, key=None
    )
    assert answer.status_code == 400
    answer = api.request(
        "POST", "/files", headers=TUS | {"X-HTTP-Method-Override": "POST", "Upload-Length": "1"}, key=None
    )
    assert answer.status_code == 401


@pytest.mark.parametrize("method", ["PUT", "TRACE", "GET"])
def test_other_methods_are_not_allowed(api, method):
    url = api.created(3)
    answer = api.request(method, url, headers=TUS, key=None)
    assert answer.status_code == 405
    assert {"HEAD", "PATCH", "DELETE", "OPTIONS"} <= {name.strip() for name in answer.headers["Allow"].split(",")}


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/files", "POST", {"POST", "OPTIONS"}),
        ("/files/anything", "PATCH", {"HEAD", "PATCH", "DELETE", "POST", "OPTIONS"}),
    ],
)
def test_preflight(api, path, method, allowed):
    answer = api.request(
        "OPTIONS",
        path,
        key=None,
        headers={
            "Origin": "https://app.example",
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,tus-resumable,upload-offset,content-type,x-custom",
        },
    )
    assert answer.status_code in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", "https://app.example")
    assert allowed <= {name.strip() for name in answer.headers["Access-Control-Allow-Methods"].split(",")}
    names = {name.strip().lower() for name in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert {
        "authorization",
        "content-type",
        "tus-resumable",
        "upload-length",
        "upload-offset",
        "upload-metadata",
    } <= names
    assert {"upload-checksum", "x-http-method-override", "x-custom"} <= names


@pytest.mark.parametrize("status", [201, 401, 404, 409])
def test_answers_and_errors_can_be_read_by_a_page(api, status):
    origin = {"Origin": "https://app.example"}
    url = api.created(3)
    answer = {
        201: lambda: api.create(3, headers=origin),
        401: lambda: api.create(3, headers=origin, key=None),
        404: lambda: api.request("PATCH", "/files/x", headers=TUS | origin | {"Upload-Offset": "0"}, key=None),
        409: lambda: api.patch(url, 1, b"a", headers=origin),
    }[status]()
    assert answer.status_code in (status, 415) if status == 404 else answer.status_code == status
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", "https://app.example")
    exposed = {name.strip().lower() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
    assert {"location", "upload-offset", "upload-length", "tus-resumable", "upload-expires"} <= exposed


# Location behind a proxy


def test_forwarding_fields_of_strangers_do_not_change_the_location(api):
    headers = {
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "Forwarded": "host=evil.example;proto=https",
    }
    assert api.create(1, headers=headers).headers["Location"].startswith(api.url + "/files/")


def test_the_public_url_is_the_base_of_locations(make_server):
    with make_server(environment={"SLUICE_PUBLIC_URL": "https://upload.example/base"}) as server:
        api = API(server.url, server.admin_key)
        assert api.create(1).headers["Location"].startswith("https://upload.example/base/files/")
        created = api.post("/v1/tus/uploads", {"length": 1})
        assert created.json()["url"].startswith("https://upload.example/base/files/")
        assert created.headers["Location"] == created.json()["url"]


# Checksums in trailers


def chunked(pieces, trailer=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.rows
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [6, 3 * MIB])
def test_a_checksum_in_a_trailer(server, api, algorithm, size):
    data = content(size, 8)
    url = api.created(size)
    pieces = [data[begin : begin + 100_000] for begin in range(0, size, 100_000)]
    head = tus_patch(url, 0, None, [("Transfer-Encoding", "chunked"), ("Trailer", "Upload-Checksum")])

    def field(value):
        return "".join(f"{name}: {text}\r\n" for name, text in checksum(algorithm, value).items()).encode()

    with Wire(server.address) as wire:
        for trailer in (b"", field(ALGORITHMS[algorithm](b"other"))):
            wire.send(head + chunked(pieces, trailer))
            assert wire.reply("PATCH").status == (460 if trailer else 400)
            assert api.offset(url) == 0
        wire.send(head + chunked(pieces, field(ALGORITHMS[algorithm](data))))
        assert wire.reply("PATCH").status == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), size)


def test_a_body_that_breaks_off_before_its_trailer_is_not_kept(server, api):
    """Bytes that cannot be verified must not become part of the upload, even after a restart."""
    url = api.created(2 * MIB)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, None, [("Transfer-Encoding", "chunked"), ("Trailer", "Upload-Checksum")]))
        wire.send(chunked([content(MIB, 9)])[:-5])
        # All bytes have arrived and wait for their digest.
        until(lambda: any(path.stat().st_size >= MIB for path in server.stored_files(upload_id(url))))
    assert api.offset(url) == 0


# Several at once


def test_many_uploads_at_once(api, server):
    failures = []

    def upload(seed):
        try:
            mine = API(server.url, server.admin_key)
            data = content(MIB + seed, seed)
            url = mine.created(len(data), metadata={"filename": f"{seed}.bin"})
            for offset in range(0, len(data), 200_000):
                assert mine.patch(url, offset, data[offset : offset + 200_000]).status_code == 204
            assert mine.download_hash(upload_id(url)) == (sha256(data), len(data))
        except Exception as failure:  # reported below, from the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=upload, args=(seed,)) for seed in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_encoded_metadata_of_unicode(api):
    url = api.created(1, metadata={"filename": "日本語 – ü.txt"})
    assert api.upload(upload_id(url))["filename"] == "日本語 – ü.txt"
    assert api.head(url).headers["Upload-Metadata"] == encode_metadata({"filename": "日本語 – ü.txt"})
