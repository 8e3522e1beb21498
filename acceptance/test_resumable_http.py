"""Resumable Uploads for HTTP (draft-ietf-httpbis-resumable-upload), interop versions 3 to 8, and plain uploads.

Requests are raw bytes, because Python's HTTP client treats a 104 as the final response.
"""

import base64
import hashlib
import json
import subprocess
import time

import pytest

from harness.api import API, path_of, upload_id
from harness.data import MIB, content, sha256
from harness.draft import PARTIAL, Client, assert_media, problem
from harness.wire import Wire, head, until

# Creation


def test_all_at_once(client, api):
    data = content(3 * MIB + 1, 1)
    interim, reply = client.create(data, True, ("Content-Disposition", 'attachment; filename="a b.mp4"'))
    document = assert_media(api, reply, data)
    assert (document["filename"], document["contentType"]) == ("a b.mp4", "video/mp4")
    assert client.is_complete(reply)
    if client.version is None:
        assert interim == []
        return
    # At once, before any content: the client learns where to go on.
    assert interim[0].status == 104
    assert interim[0]["Upload-Draft-Interop-Version"] == str(client.version)
    assert upload_id(interim[0]["Location"]) == document["id"]
    limit = interim[0]["Upload-Limit"]
    assert (limit is not None) == (client.version >= 6)
    if limit:
        assert ("max-age=" if client.version >= 7 else "expires=") in limit and "max-size=" in limit
    if client.version < 5:
        assert len(interim) == 1
    # Before -06 the answer names the upload resource.
    assert ("/media/" in reply["Location"]) == (client.version >= 7)


def test_an_interruption_and_the_rest(speaking, server, api):
    data = content(2 * MIB, 2)
    key = ("Authorization", f"Bearer {server.admin_key}")
    speaking.wire.send(
        b"POST /files HTTP/1.1\r\nHost: a\r\n"
        + b"".join(
            f"{name}: {value}\r\n".encode()
            for name, value in speaking.fields(key, speaking.complete(True), ("Content-Length", str(len(data))))
        )
        + b"\r\n"
    )
    # Before a byte of the content has been sent.
    reply = speaking.wire.reply("POST", skip_interim=False)
    assert reply.status == 104
    url = reply["Location"]
    speaking.wire.send(data[:700_000])
    until(lambda: api.upload(upload_id(url))["offset"] == 700_000)
    speaking.wire.close()
    speaking.wire = Wire(server.address)
    assert speaking.offset(url) == (700_000, False)
    reply = speaking.append(url, 700_000, data[700_000:], True)
    assert_media(api, reply, data)
    assert speaking.is_complete(reply)


def test_in_parts(client, api):
    data = content(300_000, 3)
    interim, reply = client.create(data[:100_000], False, ("Upload-Length", str(len(data))))
    assert reply.status == 201
    url = reply["Location"]
    assert int(reply["Upload-Offset"]) == 100_000 and not client.is_complete(reply)
    assert json.loads(reply.body)["state"] == "open"
    reply = client.append(url, 100_000, data[100_000:250_000], False)
    assert reply.status == (201 if client.version in (3, 4, 5, 6) else 204)
    assert int(reply["Upload-Offset"]) == 250_000 and not client.is_complete(reply)
    assert client.offset(url) == (250_000, False)
    assert_media(api, client.append(url, 250_000, data[250_000:], True), data)
    assert client.offset(url) == (len(data), True)


def test_all_bytes_do_not_complete_an_upload(client, api):
    """Only a request that says so completes the upload; without content, too."""
    _, reply = client.create(b"hello", False, ("Upload-Length", "5"))
    url = reply["Location"]
    assert client.offset(url) == (5, False)
    assert api.upload(upload_id(url))["state"] == "open"
    assert_media(api, client.append(url, 5, b"", True), b"hello")


def test_without_a_length(client, api):
    _, reply = client.create(b"", False)
    url = reply["Location"]
    head = client.exchange("HEAD", path_of(url))
    assert head["Upload-Length"] is None
    assert client.append(url, 0, b"hello ", False).status in (201, 204)
    assert_media(api, client.append(url, 6, b"world", True), b"hello world")


def test_other_targets(speaking, api):
    for method, path in [
        ("PUT", "/files"),
        ("PATCH", "/files"),
        ("POST", "/v1/media"),
        ("PUT", "/v1/media/n%C3%A4me.txt"),
    ]:
        _, reply = speaking.create(b"hello", True, path=path, method=method, kind="text/plain")
        document = assert_media(api, reply, b"hello")
    assert document["filename"] == "näme.txt"


def test_empty_content_is_a_whole_upload(client, api):
    _, reply = client.create(b"", True)
    assert_media(api, reply, b"")


# Rules of versions


def test_the_media_type_of_an_append(client):
    _, reply = client.create(b"hello", False)
    reply = client.append(reply["Location"], 5, b"", False, kind="application/octet-stream")
    if client.version in (3, 4, 5):
        assert reply.status == 201
    else:
        problem(reply, 415)
        assert reply["Accept-Patch"] == PARTIAL


def test_an_append_without_completeness(client, api):
    _, reply = client.create(b"hello", False)
    reply = client.append(reply["Location"], 5, b"!", None)
    if client.version in (7, 8, None):
        problem(reply, 400)
    else:
        assert_media(api, reply, b"hello!")


@pytest.mark.parametrize("method", ["HEAD", "DELETE"])
def test_fields_of_an_append_with_other_methods(client, method):
    _, reply = client.create(b"hello", False)
    reply = client.exchange(method, path_of(reply["Location"]), ("Upload-Offset", "5"))
    assert reply.status == (400 if client.version in (3, 4, 5, 6) else 204)


def test_an_unknown_version_gets_no_interim_response(server, api):
    for version in (2, 9, "x"):
        interim, reply = Client(server, version).create(b"hello", True)
        assert interim == []
        assert_media(api, reply, b"hello")


def test_http_1_0_gets_no_interim_response(server):
    with Wire(server.address) as wire:
        wire.send(
            f"POST /files HTTP/1.0\r\nAuthorization: Bearer {server.admin_key}\r\nUpload-Complete: ?1\r\n"
            "Upload-Draft-Interop-Version: 6\r\nContent-Length: 5\r\n\r\nhello".encode()
        )
        assert wire.reply("POST", skip_interim=False).status == 201


def test_progress(speaking, server, api):
    """While content arrives slowly, clients with a version that supports it receive the offset."""
    key = ("Authorization", f"Bearer {server.admin_key}")
    fields = speaking.fields(key, speaking.complete(True), ("Content-Length", "12"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    speaking.wire.send(f"POST /files HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
    assert speaking.wire.reply("POST", skip_interim=False)["Location"]
    offsets = []

    for piece in (b"ab", b"cd", b"ef", b"gh", b"ij", b"kl"):
        speaking.wire.send(piece)
        time.sleep(0.9)
    while (reply := speaking.wire.reply("POST", skip_interim=False)).status == 104:
        assert reply["Location"] is None
        offsets.append(int(reply["Upload-Offset"]))
    assert_media(api, reply, b"abcdefghijkl")
    assert bool(offsets) == (speaking.version >= 5), offsets
    assert offsets == sorted(offsets) and all(0 < offset <= 12 for offset in offsets)


# Refusals


def test_a_wrong_offset(client):
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    for offset in (4, 6):
        reply = client.append(url, offset, b"x", True)
        document = problem(reply, 409, "mismatching-upload-offset")
        assert (document["expected-offset"], document["provided-offset"]) == (5, offset)
        assert reply["Upload-Offset"] == "5" and not client.is_complete(reply)
    assert client.offset(url) == (5, False)


@pytest.mark.parametrize("value", ["-1", "x", "5.0", "1234567890123456", "", '"5"'])
def test_malformed_numbers(client, value):
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    fields = [client.complete(True), ("Content-Type", PARTIAL)]
    problem(client.exchange("PATCH", path_of(url), ("Upload-Offset", value), *fields), 400)
    assert client.offset(url) == (5, False)
    # A length in another form is as none (draft, Length).
    reply = client.exchange("PATCH", path_of(url), ("Upload-Offset", "5"), ("Upload-Length", value), *fields)
    assert reply.status == 201 and client.offset(url) == (5, True)


def test_contradicting_lengths(client):
    _, reply = client.create(b"hello", True, ("Upload-Length", "6"))
    problem(reply, 400, "inconsistent-upload-length")
    _, reply = client.create(b"hello", False, ("Upload-Length", "4"))
    problem(reply, 400, "inconsistent-upload-length")
    _, reply = client.create(b"hello", False, ("Upload-Length", "8"))
    url = reply["Location"]
    problem(client.append(url, 5, b"12", True), 400, "inconsistent-upload-length")
    problem(client.append(url, 5, b"1", False, ("Upload-Length", "9")), 400, "inconsistent-upload-length")
    assert client.offset(url) == (5, False)


def test_more_than_the_length(client):
    """Since -06 that ends the upload."""
    _, reply = client.create(b"hello", False, ("Upload-Length", "6"))
    url = reply["Location"]
    problem(client.append(url, 5, b"123", False), 400, "inconsistent-upload-length")
    reply = client.exchange("HEAD", path_of(url))
    assert reply.status == (410 if client.version in (7, 8, None) else 204)


def test_an_append_to_a_complete_upload(client):
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    assert client.append(url, 5, b"", True).status == 201
    more, none = client.append(url, 5, b"x", True), client.append(url, 5, b"", True)
    if client.version in (8, None):
        problem(more, 400, "inconsistent-upload-length")
        problem(none, 410)
    else:
        problem(more, 400, "completed-upload")
        problem(none, 400, "completed-upload")
    assert client.offset(url) == (5, True)


def test_too_large(client, api):
    token = api.post("/v1/tus/tokens", {"subject": "u", "maxBytes": 4}).json()["token"]
    client.send("POST", "/files", ("Authorization", f"Bearer {token}"), client.complete(True), body=b"hello")
    reply = client.wire.reply("POST")
    problem(reply, 413)
    assert (reply["Upload-Limit"] is not None) == (client.version not in (3, 4, 5))


def test_cancelling(client):
    _, reply = client.create(b"hello", False)
    url = path_of(reply["Location"])
    assert client.exchange("DELETE", url).status == 204
    status = 404 if client.version in (3, 4, 5, 6) else 410
    assert client.exchange("HEAD", url).status == status
    problem(client.append(url, 5, b"", True), status)


def test_no_credential(client):
    client.send("POST", "/files", client.complete(True), body=b"hello")
    problem(client.wire.reply("POST", skip_interim=False), 401)


# Digests


def digest(data, algorithm="sha-256"):
    value = base64.b64encode(hashlib.new(algorithm.replace("-", ""), data).digest()).decode()
    return f"{algorithm}=:{value}:"


@pytest.mark.parametrize("algorithm", ["sha-256", "sha-512"])
def test_content_digests(client, api, algorithm):
    data = content(400_000, 4)
    _, reply = client.create(data[:300_000], False, ("Content-Digest", digest(data[:300_000], algorithm)))
    url = reply["Location"]
    problem(client.append(url, 300_000, data[300_000:], True, ("Content-Digest", digest(b"x", algorithm))), 400)
    assert client.offset(url) == (300_000, False)
    field = ("Content-Digest", f"md5=:AAAA:, {digest(data[300_000:], algorithm)}")
    assert_media(api, client.append(url, 300_000, data[300_000:], True, field), data)


# Both protocols on one upload


def test_begun_by_tus_finished_by_the_draft(client, api):
    url = api.created(10, metadata={"filename": "a.txt"})
    assert api.patch(url, 0, b"01234").status_code == 204
    assert client.offset(url) == (5, False)
    document = assert_media(api, client.append(url, 5, b"56789", True), b"0123456789")
    assert document["filename"] == "a.txt"


def test_begun_by_the_draft_finished_by_tus(client, api):
    _, reply = client.create(b"01234", False, ("Upload-Length", "10"))
    url = api.url + path_of(reply["Location"])
    assert api.offset(url) == 5
    assert api.patch(url, 5, b"56789").status_code == 204
    assert client.offset(url) == (10, True)
    assert api.download_hash(upload_id(url)) == (sha256(b"0123456789"), 10)


def test_a_partial_upload_of_tus_becomes_no_media(client, api):
    url = api.created(5, headers={"Upload-Concat": "partial"})
    reply = client.append(url, 0, b"hello", True)
    assert reply.status == 201 and client.is_complete(reply)
    assert json.loads(reply.body)["concatenation"] == "partial"


def test_a_final_upload_of_tus_accepts_no_content(client, api):
    part = api.created(5, headers={"Upload-Concat": "partial"})
    answer = api.create(None, headers={"Upload-Concat": f"final;{part}"})
    reply = client.append(answer.headers["Location"], 0, b"hello", True)
    assert reply.status == 400


def test_more_than_the_length_of_an_upload_of_tus(client, api):
    """Without an announced length it is seen only when the upload is full: it must not have become media before."""
    url = api.created(5)
    fields = [
        client.complete(False),
        ("Content-Type", PARTIAL),
        ("Upload-Offset", "0"),
        ("Transfer-Encoding", "chunked"),
    ]
    client.wire.send(head("PATCH", path_of(url), client.fields(*fields)) + b"6\r\nhello!\r\n0\r\n\r\n")
    problem(client.wire.reply("PATCH"), 400, "inconsistent-upload-length")
    state = api.upload(upload_id(url))["state"]
    assert state == ("terminated" if client.version in (7, 8, None) else "open")


@pytest.mark.parametrize("version", [3, 8])
def test_the_server_is_killed(make_server, version):
    """Bytes acknowledged by 104 are there after the restart, and the upload continues to its end."""
    server = make_server(environment={"SLUICE_UPLOADS_INTERIM_RESPONSES": "always"}).start()
    data = content(6 * MIB, 10)
    speaking = Client(server, version)
    key = ("Authorization", f"Bearer {server.admin_key}")
    fields = speaking.fields(key, speaking.complete(True), ("Content-Length", str(len(data))))
    speaking.wire.send(head("POST", "/files", fields))
    url = speaking.wire.reply("POST", skip_interim=False)["Location"]
    speaking.wire.send(data[: 4 * MIB])
    api = API(server.url, server.admin_key)
    until(lambda: api.upload(upload_id(url))["offset"] == 4 * MIB)
    server.kill()
    server.start()
    api, speaking = API(server.url, server.admin_key), Client(server, version)
    assert speaking.offset(url) == (4 * MIB, False)
    # All bytes, and killed before anybody said that they are all.
    assert speaking.append(url, 4 * MIB, data[4 * MIB :], False).status in (201, 204)
    server.kill()
    server.start()
    api, speaking = API(server.url, server.admin_key), Client(server, version)
    assert speaking.offset(url) == (6 * MIB, False)
    assert_media(api, speaking.append(url, 6 * MIB, b"", True), data)


def test_discovery(server, api):
    answer = api.request("OPTIONS", "/files", key=None)
    assert "max-size=" in answer.headers["Upload-Limit"] and answer.headers["Accept-Patch"] == PARTIAL
    assert "concatenation" in answer.headers["Tus-Extension"]


# Plain uploads


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("path", ["/files", "/v1/media"])
def test_plain(server, api, method, path):
    data = content(MIB, 5)
    if (method, path) == ("PUT", "/v1/media"):
        path = "/v1/media/clip.mp4"
    answer = api.request(method, path, data=data, headers={"Content-Type": "video/mp4"})
    assert answer.status_code == 201, answer.text
    document = answer.json()
    assert (document["size"], document["contentType"]) == (len(data), "video/mp4")
    assert api.download_hash(document["id"]) == (sha256(data), len(data))
    assert answer.headers["Location"] == f"{server.url}/media/{document['id']}"


@pytest.mark.parametrize("path", ["/files", "/v1/media/a.txt"])
def test_a_form_is_not_stored_as_a_file(api, path):
    answer = api.request("PUT", path, files={"file": ("a.txt", b"hello")})
    assert answer.status_code == 415
    assert answer.json()["code"] == "unsupported_media_type"


def test_curl(server, api, tmp_path):
    path = tmp_path / "a file.bin"
    path.write_bytes(content(3 * MIB, 6))
    key = f"Authorization: Bearer {server.admin_key}"
    for arguments in (["-T", path, f"{server.url}/v1/media/"], ["--data-binary", f"@{path}", f"{server.url}/files"]):
        done = subprocess.run(["curl", "-sS", "-f", "-H", key, *arguments], capture_output=True, check=True)
        document = json.loads(done.stdout)
        assert api.download_hash(document["id"])[1] == 3 * MIB
        if arguments[0] == "-T":
            assert document["filename"] == "a file.bin"


def test_an_interrupted_plain_upload_leaves_nothing(server, api):
    """No client could continue it."""
    before = {one["id"] for one in api.get("/v1/uploads?limit=100").json()["uploads"]}
    with Wire(server.address) as wire:
        wire.send(
            f"POST /files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.admin_key}\r\n"
            "Content-Length: 1000\r\n\r\nhello".encode()
        )
        until(lambda: {one["id"] for one in api.get("/v1/uploads?limit=100").json()["uploads"]} - before)
    made = {one["id"] for one in api.get("/v1/uploads?limit=100").json()["uploads"]} - before
    until(lambda: all(api.upload(one)["state"] == "terminated" for one in made))
