"""Digest fields (RFC 9530): `Repr-Digest` of whole uploads, and digests of downloads."""

import base64
import hashlib
import json
import socket

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of, upload_id
from harness.data import KIB, MIB, content, sha256
from harness.draft import VERSIONS, Client, assert_media, problem
from harness.wire import Wire, until

ALGORITHMS = ["sha-256", "sha-512"]


def digest(data, algorithm="sha-256"):
    value = hashlib.new(algorithm.replace("-", ""), data).digest()
    return f"{algorithm}=:{base64.b64encode(value).decode()}:"


@pytest.fixture(params=[*VERSIONS, None], ids=[*map(str, VERSIONS), "none"])
def client(request, server):
    return Client(server, request.param)


def state(api, identifier):
    return api.upload(identifier)["state"]


def newest(api):
    return api.get("/v1/uploads?limit=1").json()["uploads"][0]


# Uploads by the draft


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_in_one_request(client, api, algorithm):
    data = content(MIB + 1, 1)
    _, reply = client.create(data, True, ("Repr-Digest", digest(data, algorithm)))
    assert_media(api, reply, data)
    _, reply = client.create(data, True, ("Repr-Digest", digest(b"x", algorithm)))
    assert problem(reply, 400)["code"] == "digest_mismatch"
    assert newest(api)["state"] == "terminated"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_in_pieces(client, api, algorithm):
    data = content(MIB, 2)
    for right in [True, False]:
        field = ("Repr-Digest", digest(data if right else b"x", algorithm))
        _, reply = client.create(data[:1000], False, field)
        url = reply["Location"]
        # It does not apply to a part; in an append it would mean the patch (RFC 9530 §3.1).
        assert client.append(url, 1000, data[1000:5000], False, ("Repr-Digest", digest(b"y"))).status in (201, 204)
        reply = client.append(url, 5000, data[5000:], True)
        if right:
            assert_media(api, reply, data)
        else:
            assert problem(reply, 400)["code"] == "digest_mismatch"
            assert state(api, upload_id(url)) == "terminated"
            assert client.exchange("HEAD", path_of(url)).status in (404, 410)


def test_with_tus(api):
    """`Repr-Digest` of a creation and `Content-Digest` of each content hold, in pieces of any size."""
    for size in [50, 100 * KIB, 2 * MIB]:
        data = content(size, 5)
        for right in [True, False]:
            url = path_of(api.created(size, headers={"Repr-Digest": digest(data if right else b"x")}))
            half = size // 2
            wrong = api.patch(url, 0, data[:half], headers={"Content-Digest": digest(b"x")})
            assert (wrong.status_code, wrong.text.split(":")[0]) == (460, "ERR_CHECKSUM_MISMATCH")
            assert api.offset(url) == 0
            answer = api.patch(url, 0, data[:half], headers={"Content-Digest": digest(data[:half], "sha-512")})
            assert answer.status_code == 204, answer.text
            answer = api.patch(url, half, data[half:])
            if right:
                assert answer.status_code == 204, answer.text
                assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
            else:
                assert (answer.status_code, answer.text.split(":")[0]) == (400, "ERR_DIGEST_MISMATCH")
                assert state(api, upload_id(url)) == "terminated"
        wrong = api.create(size, body=data, headers={"Content-Digest": digest(b"x")})
        assert (wrong.status_code, newest(api)["state"]) == (460, "terminated") or size == 50


def test_finished_by_tus(client, api, server):
    data = content(100 * KIB, 3)
    for right in [True, False]:
        field = ("Repr-Digest", digest(data if right else b"x"))
        _, reply = client.create(data[:1000], False, field, ("Upload-Length", str(len(data))))
        url = reply["Location"]
        answer = api.patch(path_of(url), 1000, data[1000:])
        if right:
            assert answer.status_code == 204, answer.text
            assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
        else:
            assert (answer.status_code, answer.text.split(":")[0]) == (400, "ERR_DIGEST_MISMATCH")
            assert state(api, upload_id(url)) == "terminated"
            assert api.head(path_of(url)).status_code == 410


def test_with_a_digest_of_the_content(client, api):
    data = content(100 * KIB, 4)
    both = [("Content-Digest", digest(data)), ("Repr-Digest", digest(data, "sha-512"))]
    _, reply = client.create(data, True, *both)
    assert_media(api, reply, data)
    _, reply = client.create(data, True, both[0], ("Repr-Digest", digest(b"x", "sha-512")))
    assert problem(reply, 400)["code"] == "digest_mismatch"
    _, reply = client.create(data, True, ("Content-Digest", digest(b"x")), both[1])
    assert problem(reply, 400)["code"] == "checksum_mismatch"


def test_cut_and_resumed(client, api, server):
    """Bytes before the broken connection are kept, although the digest of the whole is not known yet."""
    if client.version is None:
        pytest.skip("without a version nobody learns the URL before the end")
    data = content(MIB, 5)
    key = ("Authorization", f"Bearer {server.admin_key}")
    fields = client.fields(key, client.complete(True), ("Repr-Digest", digest(data)), ("Content-Length", len(data)))
    client.wire.request("POST", "/files", fields)
    interim = client.wire.reply("POST", skip_interim=False)
    assert interim.status == 104
    client.wire.send(data[:500_000])
    url = interim["Location"]
    until(lambda: api.upload(upload_id(url))["offset"] > 0)
    client.wire.socket.shutdown(socket.SHUT_RDWR)
    client.wire.close()
    client.wire = Wire(server.address)
    offset, is_complete = client.offset(url)
    assert 0 < offset <= 500_000 and not is_complete
    assert_media(api, client.append(url, offset, data[offset:], True), data)


def test_requested_digest_of_an_upload(client, api):
    data = content(100 * KIB, 6)
    _, reply = client.create(data, True, ("Want-Repr-Digest", "sha-512=3, sha-256=10, md5=9"))
    assert_media(api, reply, data)
    assert reply["Repr-Digest"] == digest(data)
    _, reply = client.create(data[:10], False)
    assert reply["Repr-Digest"] is None
    wants = [("Want-Repr-Digest", "sha-512=1"), ("Want-Content-Digest", "sha-256=1")]
    reply = client.append(reply["Location"], 10, data[10:], True, *wants)
    assert_media(api, reply, data)
    assert reply["Repr-Digest"] == digest(data, "sha-512")
    assert reply["Content-Digest"] == digest(reply.body)


# Plain uploads


@pytest.mark.parametrize("size", [0, 1, 200 * KIB, 3 * MIB])
@pytest.mark.parametrize(("method", "path"), [("POST", "/files"), ("POST", "/v1/media"), ("PUT", "/v1/media/x")])
def test_plain(api, method, path, size):
    data = content(size, 7)
    for field in [digest(data), digest(data, "sha-512"), f"md5=:AAAA:, {digest(data)}, {digest(data, 'sha-512')}"]:
        answer = api.request(method, path, data=data, headers={"Repr-Digest": field, "Want-Repr-Digest": "sha-256=1"})
        assert answer.status_code == 201, answer.text
        assert answer.headers["Repr-Digest"] == digest(data)
        assert api.download_hash(answer.json()["id"]) == (sha256(data), size)
    before = newest(api)["id"]
    for field in [digest(data + b"x"), f"{digest(data)}, {digest(b'x', 'sha-512')}"]:
        answer = api.request(method, path, data=data, headers={"Repr-Digest": field})
        assert (answer.status_code, answer.json()["code"]) == (400, "digest_mismatch"), answer.text
        # A small upload that is refused was never created.
        if size > 32 * KIB:
            assert newest(api)["state"] == "terminated"
        else:
            assert newest(api)["id"] == before
    # Unknown and deprecated algorithms prove nothing.
    answer = api.request(method, path, data=data, headers={"Repr-Digest": "md5=:AAAA:, x=:AAAA:"})
    assert answer.status_code == 201


def test_chunked(api):
    data = content(MIB, 8)
    for right in [True, False]:
        answer = api.request(
            "POST",
            "/files",
            data=iter([data[:1000], data[1000:]]),
            headers={"Repr-Digest": digest(data if right else b"x")},
        )
        assert answer.status_code == (201 if right else 400), answer.text


@pytest.mark.parametrize("name", ["Repr-Digest", "Content-Digest"])
@pytest.mark.parametrize(
    "value", ["sha-256", "sha-256=1", "sha-256=:AAAA:", "sha-256=:!:", "=", "sha-256=:AAAA", digest(b"") + ","]
)
def test_malformed_input_is_refused(api, name, value):
    answer = api.request("POST", "/files", data=b"", headers={name: value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_wrong_digest_of_a_whole_file_with_tus(api):
    data = content(1000, 9)
    answer = api.request(
        "POST",
        "/files",
        data=data,
        headers=TUS | {"Upload-Length": "1000", "Content-Type": OFFSET_TYPE, "Repr-Digest": digest(b"x")},
    )
    assert (answer.status_code, answer.text.split(":")[0]) == (400, "ERR_DIGEST_MISMATCH")


# Media


@pytest.fixture(scope="module")
def data():
    return content(300_001, 10)


@pytest.fixture(scope="module")
def stored(api, data):
    return api.uploaded(data)


@pytest.mark.parametrize(
    ("wanted", "algorithm"),
    [
        ("sha-256=1", "sha-256"),
        ("sha-512=1", "sha-512"),
        ("sha-256=1, sha-512=2", "sha-512"),
        ("sha-256=2, sha-512=2", "sha-256"),
        ("sha-256=0, sha-512=1", "sha-512"),
        ("sha-256=10, md5=10, x=9", "sha-256"),
        ("sha-256=0", None),
        ("sha-256=11", None),
        ("sha-256=-1", None),
        ("sha-256", None),
        ("sha-256=1.5", None),
        ("md5=10", None),
        ("sha-256=1,", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_requested_digest_of_media(api, data, stored, method, wanted, algorithm):
    expected = algorithm and digest(data, algorithm)
    answer = api.request(method, f"/media/{stored}", headers={"Want-Repr-Digest": wanted})
    assert (answer.status_code, answer.headers.get("Repr-Digest")) == (200, expected)
    assert "Content-Digest" not in answer.headers
    answer = api.request(method, f"/media/{stored}", headers={"Want-Content-Digest": wanted})
    assert answer.headers.get("Content-Digest") == (expected if method == "GET" else None)
    assert "Repr-Digest" not in answer.headers


def test_a_range_of_media(api, data, stored):
    wants = {"Want-Repr-Digest": "sha-256=1", "Want-Content-Digest": "sha-256=1", "Range": "bytes=5-9"}
    answer = api.get(f"/media/{stored}", headers=wants)
    assert (answer.status_code, answer.content) == (206, data[5:10])
    # Of the whole (RFC 9530 §3); the digest of the part would need reading it first.
    assert answer.headers["Repr-Digest"] == digest(data)
    assert "Content-Digest" not in answer.headers
    answer = api.get(f"/media/{stored}", headers=wants | {"Range": "bytes=999999-"})
    assert (answer.status_code, "Repr-Digest" in answer.headers) == (416, False)


def test_by_a_link(api, data, stored):
    url = api.post(f"/v1/media/{stored}/links", {}).json()["url"]
    answer = api.request("GET", url, key=None, headers={"Want-Repr-Digest": "sha-512=1"})
    assert answer.headers["Repr-Digest"] == digest(data, "sha-512")


def test_a_digest_is_computed_once(make_server, tmp_path):
    """Once known it is read from the record, even if the bytes are gone."""
    with make_server() as server:
        api = API(server.url, server.admin_key)
        data = content(MIB, 11)
        identifier = api.uploaded(data)
        wants = {"Want-Repr-Digest": "sha-256=1"}
        assert api.request("HEAD", f"/media/{identifier}", headers=wants).headers["Repr-Digest"] == digest(data)
        (blob,) = server.stored_files(identifier)
        blob.write_bytes(bytes(MIB))
        assert api.request("HEAD", f"/media/{identifier}", headers=wants).headers["Repr-Digest"] == digest(data)
        wants = {"Want-Repr-Digest": "sha-512=1"}
        value = api.request("HEAD", f"/media/{identifier}", headers=wants).headers["Repr-Digest"]
        assert value == digest(bytes(MIB), "sha-512")


def test_kill(make_server):
    """kill -9 between the last byte and the end of the upload: the digest is still known, and checked."""
    server = make_server().start()
    data = content(MIB, 12)
    client = Client(server, 8)
    urls = []
    for field in [digest(data), digest(b"x")]:
        _, reply = client.create(data, False, ("Repr-Digest", field))
        urls.append(reply["Location"])
    server.kill()
    server.start()
    api = API(server.url, server.admin_key)
    client = Client(server, 8)
    right, wrong = [path_of(url) for url in urls]
    assert_media(api, client.append(right, len(data), b"", True), data)
    assert problem(client.append(wrong, len(data), b"", True), 400)["code"] == "digest_mismatch"


def test_cross_origin(api, stored):
    answer = api.request(
        "OPTIONS",
        f"/media/{stored}",
        key=None,
        headers={
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "want-repr-digest",
        },
    )
    assert "want-repr-digest" in answer.headers["Access-Control-Allow-Headers"].lower()
    answer = api.get(f"/media/{stored}", headers={"Origin": "https://app.example"})
    assert "repr-digest" in answer.headers["Access-Control-Expose-Headers"].lower()


def test_the_response_to_a_form_has_no_digest(api):
    """Its content is the form, and there may be many files."""
    answer = api.request("POST", "/files", files={"f": ("x", b"1")}, headers={"Repr-Digest": digest(b"1")})
    assert answer.status_code == 201
    assert json.loads(answer.text)["media"][0]["size"] == 1
