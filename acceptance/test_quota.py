"""Quotas and policies: what is reserved, adjusted and released, and that no user gets more than the quota."""

import contextlib
import hashlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from harness.api import API, TUS, checksum, field_problem, problem, tus_error, tus_patch, upload_id
from harness.daemon import free_port
from harness.data import KIB, MIB, content, sha256
from harness.vimeo import Plain
from harness.vimeo import token as vimeo_token
from harness.wire import Wire, head, until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(600)
MP4 = b"\x00\x00\x00\x18ftypmp42" + bytes(600)
UNKNOWN = b"just some text, which no signature knows. " * 20


class User:
    """An app user with an upload token of their own."""

    def __init__(self, api, name=None, **policy):
        self.api = api
        self.name = name or f"user-{random.randrange(2**48)}"
        answer = api.post("/v1/tus/tokens", {"subject": self.name})
        assert answer.status_code == 201
        self.token = answer.json()["token"]
        self.limit(**policy)

    def limit(self, **policy):
        answer = self.api.request("PUT", f"/v1/quota/subjects/{self.name}", json=policy)
        assert answer.status_code == 200, answer.text

    @property
    def quota(self):
        answer = self.api.get("/v1/quota", key=self.token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def used(self):
        used = self.quota["used"]
        return used["storedBytes"], used["openUploads"], used["periodBytes"], used["periodUploads"]

    def create(self, length, **options):
        return self.api.create(length, key=self.token, **options)

    def created(self, length, **options):
        return self.api.created(length, key=self.token, **options)


@pytest.fixture
def user(api):
    return lambda **policy: User(api, **policy)


# Accounts


def test_usage_follows_the_uploads(api, user):
    one = user(storedBytes=100)
    assert one.used == (0, 0, 0, 0)
    url = one.created(60)
    assert one.used == (60, 1, 60, 1)
    assert one.quota["left"] == {"storedBytes": 40}
    document = problem_of(one.create(41), 403)
    assert "40 of 100 bytes" in document and "41 are needed" in document
    assert api.patch(url, 0, bytes(60)).status_code == 204
    assert one.used == (60, 0, 60, 1)
    open_one = one.created(40)
    assert api.patch(open_one, 0, bytes(7)).status_code == 204
    assert api.terminate(open_one).status_code == 204
    # Seven bytes have been sent; nothing of them is stored.
    assert one.used == (60, 0, 67, 2)
    assert api.delete(f"/v1/uploads/{upload_id(url)}").status_code == 204
    assert one.used == (0, 0, 67, 2)


def problem_of(answer, status):
    assert tus_error(answer, status) == "ERR_QUOTA_EXCEEDED"
    return answer.text


def test_a_refusal_has_the_remaining_quota(api, user):
    one = user(storedBytes=10, openUploads=1, periodUploads=2, periodBytes=15)
    answer = api.request("PUT", "/v1/media/a", data=bytes(11), key=one.token)
    quota = problem(answer, 403, "quota_exceeded")["quota"]
    assert quota == {
        "account": "subject",
        "measure": "storedBytes",
        "limit": 10,
        "used": 0,
        "left": 10,
        "wanted": 11,
    }
    url = one.created(9)
    document = problem(api.request("PUT", "/v1/media/a", data=b"x", key=one.token), 403, "quota_exceeded")
    assert document["quota"]["measure"] == "openUploads"
    assert api.terminate(url).status_code == 204
    one.created(1)
    answer = api.request("PUT", "/v1/media/a", data=b"", key=one.token)
    assert answer.status_code == 403
    one.limit(periodUploads=2)
    answer = api.request("PUT", "/v1/media/a", data=b"x", key=one.token)
    document = problem(answer, 429, "quota_exceeded")
    assert document["quota"]["measure"] == "periodUploads" and document["quota"]["resetsAt"]
    assert 0 < int(answer.headers["Retry-After"]) <= 86400
    assert problem_of(one.create(1), 429)


def test_the_api_key_has_an_account_too(api, make_server):
    server = make_server(environment={"SLUICE_QUOTA_KEY_STORED_BYTES": "100"}).start()
    api = API(server.url, server.admin_key)
    user = User(api, storedBytes=1000)
    user.created(60)
    assert api.get("/v1/quota").json()["used"]["storedBytes"] == 60
    assert problem_of(user.create(41), 403)
    assert problem_of(api.create(41), 403)
    document = api.get("/v1/quota").json()
    assert (document["account"], document["policySource"]) == ("key", "default")
    assert document["policy"]["storedBytes"] == 100 and document["left"] == {"storedBytes": 40}
    name = document["name"]
    assert api.request("PUT", f"/v1/quota/keys/{name}", json={"storedBytes": 101}).status_code == 200
    user.created(41)
    assert api.delete(f"/v1/quota/keys/{name}").status_code == 204
    assert api.get(f"/v1/quota/keys/{name}").json()["left"] == {"storedBytes": 0}


def test_defaults_and_policies_of_their_own(make_server):
    settings = {"SUBJECT_STORED_BYTES": "10", "SUBJECT_EXTENSIONS": "mp4, mov", "SUBJECT_UPLOAD_BYTES": "8"}
    server = make_server(environment={f"SLUICE_QUOTA_{key}": value for key, value in settings.items()}).start()
    api = API(server.url, server.admin_key)
    name = "somebody/else ü"
    token = api.post("/v1/tus/tokens", {"subject": name}).json()["token"]
    video = {"filename": "A.MP4"}
    assert api.get("/v1/quota", key=token).json()["policySource"] == "default"
    assert tus_error(api.create(9, key=token, metadata=video), 413) == "ERR_MAX_SIZE_EXCEEDED"
    for metadata in ({"filename": "a.exe"}, {"filename": "mp4"}, {}):
        assert tus_error(api.create(1, key=token, metadata=metadata), 415) == "ERR_CONTENT_TYPE_REFUSED"
    api.created(8, key=token, metadata=video)
    assert problem_of(api.create(3, key=token, metadata=video), 403)
    path = "/v1/quota/subjects/somebody%2Felse%20%C3%BC"
    assert api.request("PUT", path, json={}).json()["policySource"] == "own"
    api.created(1000, key=token)
    assert api.get(path).json()["used"]["storedBytes"] == 1008


def test_who_can_read_and_set_policies(api, user):
    one = user()
    problem(api.get("/v1/quota", key=None), 401, "unauthenticated")
    problem(api.get(f"/v1/quota/subjects/{one.name}", key=one.token), 403, "forbidden")
    problem(api.request("PUT", f"/v1/quota/subjects/{one.name}", json={}, key=one.token), 403, "forbidden")
    problem(api.get("/v1/quota/planets/x"), 404, "not_found")
    for body, field in [
        ({"storedBytes": -1}, "storedBytes"),
        ({"contentTypes": ["video"]}, "contentTypes"),
        ({"extensions": [".mp4"]}, "extensions"),
        ({"bytes": 1}, "bytes"),
    ]:
        field_problem(api.request("PUT", "/v1/quota/subjects/x", json=body), field)


# Nobody gets more than there is


def test_many_at_once(api, user):
    """Of many uploads that begin at the same time, as many are admitted as the quota allows."""
    one = user(storedBytes=10 * 1000)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: one.create(1000).status_code, range(64)))
    assert sorted(set(answers)) == [201, 403] and answers.count(201) == 10
    assert one.used[0] == 10_000


@pytest.mark.parametrize("announced", [True, False])
def test_uploads_of_unknown_length_share_what_is_left(server, api, user, announced):
    """Unannounced bytes are reserved before they are read, and unused reservations are released."""
    limit = 3 * MIB
    one = user(storedBytes=limit)
    urls = [one.created(None, headers={"Upload-Defer-Length": "1"}) for _ in range(6)]
    statuses = []

    def send(url):
        with Wire(server.address, timeout=60) as wire:
            data = content(MIB, 1)
            try:
                if announced:
                    wire.send(tus_patch(url, 0, len(data)) + data)
                else:
                    wire.send(tus_patch(url, 0, None, [("Transfer-Encoding", "chunked")]))
                    for begin in range(0, len(data), 64 * KIB):
                        piece = data[begin : begin + 64 * KIB]
                        wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                    wire.send(b"0\r\n\r\n")
            except OSError:
                pass  # refused while it was sending
            statuses.append(wire.reply("PATCH").status)

    threads = [threading.Thread(target=send, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {204, 403} and 1 <= statuses.count(204) <= 3
    stored = sum(path.stat().st_size for url in urls for path in server.stored_files(upload_id(url)))
    assert stored <= limit
    assert one.used[0] == stored if not announced else stored <= one.used[0] <= limit
    for url in urls:
        assert api.terminate(url).status_code == 204
    assert one.used[0] == 0


def test_a_length_that_is_declared_later_is_reserved(api, user):
    one = user(storedBytes=100)
    url = one.created(None, headers={"Upload-Defer-Length": "1"})
    assert problem_of(api.patch(url, 0, b"abc", headers={"Upload-Length": "101"}), 403)
    assert api.patch(url, 0, b"abc", headers={"Upload-Length": "100"}).status_code == 204
    assert one.used == (100, 1, 100, 1)
    assert problem_of(one.create(1), 403)
    assert api.patch(url, 3, bytes(97)).status_code == 204
    assert one.used == (100, 0, 100, 1)


def test_what_came_before_a_limit_counts_with_the_next_append(api, user):
    one = user()
    url = one.created(None, headers={"Upload-Defer-Length": "1"})
    assert api.patch(url, 0, bytes(60)).status_code == 204
    assert one.used[:2] == (0, 1)
    one.limit(storedBytes=100)
    problem_of(api.patch(url, 60, bytes(41)), 403)
    assert api.patch(url, 60, bytes(30)).status_code == 204
    assert one.used[:2] == (90, 1)
    problem_of(one.create(11), 403)


def test_parts_are_not_counted_twice(api, user):
    one = user(storedBytes=100)
    urls = [one.created(50, headers={"Upload-Concat": "partial"}) for _ in range(2)]
    for url in urls:
        assert api.patch(url, 0, bytes(50)).status_code == 204
    assert one.used == (100, 0, 100, 2)
    answer = one.create(None, headers={"Upload-Concat": f"final;{urls[0]} {urls[1]}"})
    assert answer.status_code == 201, answer.text
    assert one.used == (100, 0, 100, 3)
    for url in urls:
        assert api.terminate(url).status_code == 204
    assert one.used == (100, 0, 100, 3)
    # The same parts once more would be more than there is.
    parts = [one.created(0, headers={"Upload-Concat": "partial"})]
    assert one.create(None, headers={"Upload-Concat": f"final;{parts[0]}"}).status_code == 201


def test_a_repeated_part_needs_quota_twice(api, user):
    one = user(storedBytes=99)
    url = one.created(50, headers={"Upload-Concat": "partial"})
    assert api.patch(url, 0, bytes(50)).status_code == 204
    twice = {"Upload-Concat": f"final;{url} {url}"}
    assert problem_of(one.create(None, headers=twice), 403)
    assert one.used == (50, 0, 50, 1)
    one.limit(storedBytes=100)
    assert one.create(None, headers=twice).status_code == 201
    assert one.used == (100, 0, 50, 2)


def test_parts_of_a_deleted_final_upload_count_until_they_end(api, user):
    """They stay on the disk; nobody may fill it with them."""
    one = user(storedBytes=120)
    part = one.created(50, headers={"Upload-Concat": "partial"})
    assert api.patch(part, 0, bytes(50)).status_code == 204
    joined = {"Upload-Concat": f"final;{part}"}
    for number in range(2, 5):
        answer = one.create(None, headers=joined)
        assert answer.status_code == 201, answer.text
        assert one.used == (50, 0, 50, number)
        media = upload_id(answer.headers["Location"])
        assert api.delete(f"/v1/media/{media}").status_code == 204
        assert one.used == (50, 0, 50, number)
    first, second = (one.create(None, headers=joined) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert one.used[0] == 100
    assert problem_of(one.create(21), 403)
    # The part is on the disk beside the one that is left.
    assert api.delete(f"/v1/media/{upload_id(first.headers['Location'])}").status_code == 204
    assert one.used[0] == 100
    assert api.terminate(part).status_code == 204
    assert one.used[0] == 50
    assert api.delete(f"/v1/media/{upload_id(second.headers['Location'])}").status_code == 204
    assert one.used[0] == 0


def test_final_uploads_that_a_quota_refuses_are_no_uploads_of_the_period(api, user):
    one = user(storedBytes=99, periodUploads=2)
    part = one.created(50, headers={"Upload-Concat": "partial"})
    assert api.patch(part, 0, bytes(50)).status_code == 204
    for _ in range(3):
        answer = one.create(None, headers={"Upload-Concat": f"final;{part} {part}"})
        assert "50 are needed" in problem_of(answer, 403)
        assert one.used == (50, 0, 50, 1)
    assert one.create(None, headers={"Upload-Concat": f"final;{part}"}).status_code == 201
    assert one.used == (50, 0, 50, 2)


def test_expired_uploads_release_quota(make_server):
    server = make_server(environment={"SLUICE_UPLOADS_EXPIRE_AFTER": "1s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}).start()
    one = User(API(server.url, server.admin_key), storedBytes=100)
    one.created(100)
    assert one.used[:2] == (100, 1)
    until(lambda: one.used[:2] == (0, 0))
    one.created(100)


def test_lengths_beyond_any_disk(make_server):
    """Sums of lengths are checked like lengths."""
    server = make_server(environment={"SLUICE_LIMITS_UPLOAD_BYTES": str(2**63 - 1)}).start()
    api = API(server.url, server.admin_key)
    url = api.created(2**63 - 1)
    assert tus_error(api.create(1), 413) == "ERR_MAX_SIZE_EXCEEDED"
    assert api.get("/v1/quota").json()["used"]["storedBytes"] == 2**63 - 1
    assert api.terminate(url).status_code == 204
    api.created(1)


def test_a_period_ends(make_server):
    server = make_server(environment={"SLUICE_QUOTA_PERIOD": "2s"}).start()
    one = User(API(server.url, server.admin_key), periodUploads=1)
    until(lambda: one.create(1).status_code == 429)
    until(lambda: one.create(1).status_code == 201)


# What is in it


@pytest.mark.parametrize(
    ("data", "declared", "status"),
    [
        (PNG, "image/png", 204),
        (PNG, "image/jpeg", 415),
        (MP4, "video/mp4", 204),
        (MP4, "image/png", 415),
        (UNKNOWN, "image/png", 415),
        (b"\x89PNG", "image/png", 415),
    ],
)
@pytest.mark.parametrize("cut", [0, 3])
def test_content_is_checked(server, api, user, data, declared, status, cut):
    """Whatever the client declares, and however small the pieces are."""
    one = user(contentTypes=["image/*", "video/mp4"], checksContent=True)
    url = one.created(len(data), metadata={"filetype": declared})
    offset = 0
    if cut:
        assert api.patch(url, 0, data[:cut]).status_code == 204
        offset = cut
    answer = api.patch(url, offset, data[offset:])
    assert answer.status_code == status, answer.text
    if status == 415:
        assert tus_error(answer, 415) == "ERR_CONTENT_TYPE_REFUSED"
        assert api.head(url).status_code == 410
        assert server.stored_files(upload_id(url)) == []
        assert one.used[:2] == (0, 0)
    else:
        assert api.download_hash(upload_id(url))[1] == len(data)


def test_content_is_checked_with_a_checksum_and_in_final_uploads(api, user):
    one = user(contentTypes=["image/png"], checksContent=True)
    metadata = {"filetype": "image/png"}
    url = one.created(len(PNG), metadata=metadata)
    digest = checksum("sha1", hashlib.sha1(PNG).digest())
    assert api.patch(url, 0, PNG, headers=digest).status_code == 204
    parts = [one.created(len(MP4), headers={"Upload-Concat": "partial"})]
    assert api.patch(parts[0], 0, MP4).status_code == 204
    answer = one.create(None, headers={"Upload-Concat": f"final;{parts[0]}"}, metadata=metadata)
    assert tus_error(answer, 415) == "ERR_CONTENT_TYPE_REFUSED"
    assert one.used[1] == 0


def test_a_large_checked_file_is_still_fast(server, api, user):
    """The first bytes are checked; the others are transferred as usual."""
    one = user(contentTypes=["image/png"], checksContent=True)
    data = PNG + content(64 * MIB, 1)
    url = one.created(len(data), metadata={"filetype": "image/png"})
    before = server.cpu_seconds()
    assert api.patch(url, 0, data).status_code == 204
    assert server.cpu_seconds() - before < 5
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_the_draft_and_plain_uploads_have_quotas(server, api, user):
    one = user(storedBytes=10)
    fields = [
        ("Authorization", f"Bearer {one.token}"),
        ("Upload-Draft-Interop-Version", "8"),
        ("Upload-Complete", "?1"),
    ]
    with Wire(server.address) as wire:
        wire.send(head("POST", "/files", fields, bytes(11)) + bytes(11))
        answer = wire.reply("POST", skip_interim=False)
    assert answer.status == 403 and b"quota_exceeded" in answer.body
    assert one.used[0] == 0
    assert api.request("OPTIONS", "/files", headers=TUS).status_code == 204


PIECES = [b"x" * 100] * 3


def chunked(method, path, **fields):
    """A whole upload in one request, with neither a length of the content nor one of the upload."""

    def send(server, one):
        named = {"Authorization": f"Bearer {one.token}", "Content-Type": "video/mp4"} | {
            name.replace("_", "-"): value for name, value in fields.items()
        }
        return requests.request(method, server.url + path, data=iter(PIECES), headers=named, timeout=60)

    return send


def chunked_form(server, one):
    text = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'
    named = {"Authorization": f"Bearer {one.token}", "Content-Type": "multipart/form-data; boundary=b"}
    parts = iter([text, *PIECES, b"\r\n--b--\r\n"])
    return requests.post(f"{server.url}/files", data=parts, headers=named, timeout=60)


WAYS = {
    "tus": chunked(
        "POST",
        "/files",
        Tus_Resumable="1.0.0",
        Upload_Defer_Length="1",
        Content_Type="application/offset+octet-stream",
    ),
    "plain": chunked("POST", "/v1/media"),
    "put": chunked("PUT", "/v1/media/a.mp4"),
    "form": chunked_form,
}


@pytest.mark.parametrize("limit", ["storedBytes", "periodBytes"])
@pytest.mark.parametrize("way", WAYS)
def test_what_a_quota_refuses_is_no_upload_of_the_period(server, api, user, way, limit):
    """The same as for an upload whose length is known, which is refused before it begins."""
    one = user(periodUploads=2, **{limit: 250})
    for _ in range(3):
        answer = WAYS[way](server, one)
        assert answer.status_code in (403, 429), (answer.status_code, answer.text)
        until(lambda: one.quota["used"]["openUploads"] == 0)
        assert one.quota["used"]["periodUploads"] == 0
        if limit == "periodBytes":
            one.limit(periodUploads=2, periodBytes=one.quota["used"]["periodBytes"] + 250)
    one.limit(periodUploads=2)
    for number in range(2):
        assert WAYS[way](server, one).status_code in (200, 201)
        assert one.quota["used"]["periodUploads"] == number + 1
    assert WAYS[way](server, one).status_code in (403, 429)


def draft_in_chunks(server, one):
    """The final answer to a whole file in one request of the IETF draft without a length, and the URL of its 104."""
    fields = [("Authorization", f"Bearer {one.token}"), ("Content-Type", "video/mp4"), ("Transfer-Encoding", "chunked")]
    fields += [("Upload-Draft-Interop-Version", "8"), ("Upload-Complete", "?1")]
    with Wire(server.address) as wire:
        wire.send(head("POST", "/files", fields))
        # None, if it is refused at once.
        url = None
        with contextlib.suppress(OSError):
            for piece in PIECES:
                wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            wire.send(b"0\r\n\r\n")
        while (reply := wire.reply("POST", skip_interim=False)).status < 200:
            url = url or reply["Location"]
        return reply.status, url


def test_the_draft_with_interim_responses_and_a_quota(server, api, user):
    one = user(periodUploads=2, storedBytes=250)
    for _ in range(3):
        status, url = draft_in_chunks(server, one)
        assert status in (403, 429) and url
        assert api.upload(upload_id(url))["state"] == "terminated"
        assert one.quota["used"]["periodUploads"] == 0
    one.limit(periodUploads=2)
    assert [draft_in_chunks(server, one)[0] for _ in range(3)] == [201, 201, 429]


def test_pictures_that_a_quota_refuses_are_no_uploads_of_the_period(server, api, user):
    one = user()
    client = Plain(server, vimeo_token(server, one.name))
    uri = client.create(0)["uri"]
    one.limit(storedBytes=250, periodUploads=one.quota["used"]["periodUploads"] + 2)
    before = one.quota["used"]["periodUploads"]
    links = [client("POST", f"{uri}/{kind}", json=body).json()["link"] for kind, body in ATTACHED * 2]
    for link in links:
        answer = requests.put(link, data=iter(PIECES), timeout=60)
        assert answer.status_code in (403, 429), answer.text
        until(lambda: one.quota["used"]["openUploads"] == 0)
        assert one.quota["used"]["periodUploads"] == before
    one.limit(periodUploads=before + 2)
    assert [requests.put(link, data=iter(PIECES), timeout=60).status_code for link in links[:3]] == [200, 200, 403]
    assert one.quota["used"]["periodUploads"] == before + 2


ATTACHED = [("pictures", {}), ("texttracks", {"type": "captions", "language": "en", "name": "t"})]


@pytest.mark.parametrize("vendor", ["aliyun", "tencent"])
def test_chunked_objects_that_a_quota_refuses_are_no_uploads_of_the_period(make_server, vendor):
    server = make_server(environment={"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"}).start()
    api = API(server.url, server.admin_key)
    one = User(api, storedBytes=250, periodUploads=2)

    def put():
        wanted = {"format": vendor, "bucket": "uploads", "key": f"{one.name}/a.mp4", "subject": one.name}
        signed = api.post("/v1/presigned-urls", wanted).json()
        return requests.put(signed["url"], data=iter(PIECES), headers=signed["headers"], timeout=60)

    for _ in range(3):
        answer = put()
        assert answer.status_code == 400 and "QuotaExceeded" in answer.text, answer.text
        assert one.used == (0, 0, one.used[2], 0)
    one.limit(storedBytes=1000, periodUploads=2)
    assert [put().status_code for _ in range(3)] == [200, 200, 400]
    server.stop()
