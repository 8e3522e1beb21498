"""Pulls: the gateway fetches uploads from an origin that behaves in every way that origins do."""

import contextlib
import gzip
import random
import re
import socket
import time

import pytest

from harness.api import API, field_problem, problem
from harness.daemon import free_port
from harness.data import KIB, MIB, content, sha256
from harness.http_server import LocalServer
from harness.origin import Origin
from harness.padded_origin import PaddedOrigin
from harness.receiver import Receiver
from harness.server import Server, run
from harness.vimeo import Plain as Vimeo
from harness.wire import until

SECRET = "whsec_" + "QUFB" * 11

# Quick retries, and the origin on loopback is allowed.
SETTINGS = {
    "SLUICE_PULL_ALLOW": "127.0.0.1",
    "SLUICE_PULL_RETRY_DELAY": "20ms",
    "SLUICE_PULL_ATTEMPTS": "4",
    "SLUICE_PULL_TIMEOUT": "1s",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server") / "data", environment=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def origin():
    with Origin() as one:
        yield one


def pull(api, url, **fields):
    """Begins a pull and returns its id."""
    answer = api.post("/v1/media/pull", json={"url": url} | fields)
    assert answer.status_code == 202, answer.text
    view = answer.json()
    assert answer.headers["Location"] == f"{api.url}/v1/uploads/{view['id']}"
    assert view["dialect"] == "pull" and view["state"] == "open"
    shown = re.sub(r"//[^/@]*@", "//", url).partition("?")[0].partition("#")[0]
    assert view["pull"]["url"].lower().rstrip("/") == shown.lower().rstrip("/")
    return view["id"]


def ended(api, identifier, timeout=60):
    """The upload once it is no longer open."""

    def look():
        view = api.upload(identifier)
        return view if view["state"] != "open" and view["pull"]["state"] in ("ended", "failed") else None

    return until(look, timeout)


def completed(api, identifier, data, timeout=60):
    """Checks that it is complete, and returns the upload."""
    view = ended(api, identifier, timeout)
    assert view["state"] == "completed", view
    assert view["length"] == view["offset"] == len(data)
    assert api.download_hash(identifier) == (sha256(data), len(data))
    assert view["pull"]["state"] == "ended" and "lastError" not in view["pull"]
    return view


def failed(api, identifier, code, timeout=60):
    """Checks that it failed for this reason, and returns the pull."""
    view = ended(api, identifier, timeout)
    assert view["state"] == "terminated", view
    assert view["pull"]["state"] == "failed", view
    assert view["pull"]["lastError"]["code"] == code, view
    assert "nextAttemptAt" not in view["pull"]
    return view["pull"]


# What comes


@pytest.mark.parametrize("size", [0, 1, 300 * KIB, 20 * MIB])
@pytest.mark.parametrize("chunked", [False, True])
def test_content_arrives_completely(api, origin, size, chunked):
    data = content(size, size)
    resource = origin.add(f"/whole-{size}-{chunked}", data, chunked=chunked, content_type="video/mp4")
    identifier = pull(api, f"{origin.url}/whole-{size}-{chunked}?token=secret", subject="alice", metadata={"note": "n"})
    view = completed(api, identifier, data)
    assert view["subject"] == "alice" and view["metadata"]["note"] == "n"
    assert view["filename"] == f"whole-{size}-{chunked}" and view["contentType"] == "video/mp4"
    assert view["pull"]["attempts"] == 1 and "url" not in view["pull"]
    assert len(resource.requests) == 1 and resource.requests[0]["accept-encoding"] == "identity"
    media = api.get(f"/v1/media/{identifier}").json()
    assert media["filename"] == view["filename"] and media["contentType"] == "video/mp4"


def test_over_tls(make_server, certificate):
    data = content(3 * MIB, 1)
    with Origin(certificate) as secure:
        secure.add("/file", data, cuts=[1_000_000])
        trusting = make_server(environment=SETTINGS | {"SLUICE_PULL_AUTHORITIES": str(certificate.path)}).start()
        api = API(trusting.url, trusting.admin_key)
        view = completed(api, pull(api, f"{secure.url}/file"), data)
        assert view["pull"]["attempts"] == 2

        doubting = make_server("other", environment=SETTINGS).start()
        api = API(doubting.url, doubting.admin_key)
        failed(api, pull(api, f"{secure.url}/file"), "tls")


@pytest.mark.parametrize(
    ("path", "headers", "declared", "expected"),
    [
        ("/a/movie%20one.mp4", {}, {}, "movie one.mp4"),
        ("/a/x", {"Content-Disposition": 'attachment; filename="r.pdf"'}, {}, "r.pdf"),
        ("/a/y", {"Content-Disposition": "attachment; filename*=UTF-8''%C3%9C.pdf"}, {}, "Ü.pdf"),
        ("/a/z", {"Content-Disposition": 'attachment; filename="../../etc/passwd"'}, {}, "passwd"),
        ("/a/named", {"Content-Disposition": "attachment; filename=r.pdf"}, {"filename": "mine.bin"}, "mine.bin"),
        ("/", {}, {}, None),
    ],
)
def test_names(api, origin, path, headers, declared, expected):
    origin.add(path, b"data", headers=headers)
    assert completed(api, pull(api, origin.url + path, **declared), b"data").get("filename") == expected


def test_headers_reach_the_origin_and_nothing_else(server, api, origin):
    secret = "Bearer very-secret-origin-token"
    with Origin() as other:
        target = other.add("/target", b"data")
        resource = origin.add("/private", b"data", required={"Authorization": secret, "X-Tenant": "seven"})
        headers = {"Authorization": secret, "X-Tenant": "seven"}
        url = origin.url.replace("//", "//user:hidden-password@") + "/private?signature=hidden-query"
        identifier = pull(api, url, headers=headers)
        view = completed(api, identifier, b"data")
        # From where is not kept.
        assert "url" not in view["pull"]
        assert len(resource.requests) == 1
        # A redirect to another host takes nothing of it along.
        origin.redirect("/moved", f"{other.url}/target")
        completed(api, pull(api, f"{origin.url}/moved", headers=headers), b"data")
        assert "authorization" not in target.requests[0] and "x-tenant" not in target.requests[0]
    address = origin.url.partition("//")[2]
    log = server.whole_log()
    for part in ("very-secret-origin-token", "hidden-password", "hidden-query", address):
        assert part not in log
        for file in server.data.glob("state.sqlite*"):
            assert part.encode() not in file.read_bytes()


@pytest.mark.parametrize("location", ["/final", "final", "//{host}/final", "{url}/final"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects(api, origin, location, status):
    origin.add("/final", b"data")
    origin.redirect("/begin", location.format(url=origin.url, host=origin.url.split("//")[1]), status)
    completed(api, pull(api, f"{origin.url}/begin"), b"data")


# What breaks


@pytest.mark.parametrize("validator", ["etag", "modified"])
def test_continues_after_broken_connections(api, origin, validator):
    data = content(5 * MIB, 2)
    options = {"etag": None, "modified": time.time() - 1000} if validator == "modified" else {}
    resource = origin.add("/cut", data, cuts=[100_000, 1_500_000, 0, 2_000_000], **options)
    view = completed(api, pull(api, f"{origin.url}/cut"), data)
    assert view["pull"]["attempts"] == 5
    first, *others = resource.requests
    assert "range" not in first
    assert all(other["range"].startswith("bytes=") and "if-range" in other for other in others)
    # Nothing came twice but what was on its way.
    assert resource.sent <= len(data) + MIB


@pytest.mark.parametrize(
    "options",
    [
        {"etag": 'W/"weak"'},
        {"etag": None},
        {"etag": None, "modified": 1e9, "headers": {"Accept-Ranges": "none"}},
        {"ranges": False},
        {"chunked": True, "etag": None},
    ],
)
def test_restarts_if_it_cannot_resume(api, origin, options):
    data = content(2 * MIB, 3)
    resource = origin.add("/anew", data, cuts=[1_000_000, 300_000], **options)
    view = completed(api, pull(api, f"{origin.url}/anew"), data)
    assert view["pull"]["attempts"] == 3 and len(resource.requests) == 3


@pytest.mark.parametrize("size", [100 * KIB, 3 * MIB])
def test_a_content_that_changes_midway(api, origin, size):
    """Longer or shorter than before: no byte of the old one may remain."""
    data = content(size, 4)
    resource = origin.add("/changes", content(2 * MIB, 5), cuts=[1_000_000])

    def change(resource):
        if len(resource.requests) == 2:
            resource.data, resource.etag = data, '"two"'

    resource.before = change
    completed(api, pull(api, f"{origin.url}/changes"), data)
    assert resource.requests[1]["if-range"] == '"one"'


def test_an_origin_that_ignores_if_range(api, origin):
    """It sends a part of the new content; the total tells."""
    data = content(3 * MIB, 6)
    resource = origin.add("/ignores", content(2 * MIB, 7), cuts=[1_000_000])

    def change(resource):
        if len(resource.requests) == 2:
            resource.data, resource.etag = data, '"two"'

    resource.before = change
    origin_handle = origin.handle

    def answer(handler):
        if handler.path == "/ignores":
            del handler.headers["If-Range"]
        origin_handle(handler)

    origin.handle = answer
    try:
        completed(api, pull(api, f"{origin.url}/ignores"), data)
    finally:
        origin.handle = origin_handle


def test_temporary_statuses(api, origin):
    resource = origin.add("/later", b"data", statuses=[(503, {}), (429, {"Retry-After": "1"}), (500, {})])
    begin = time.monotonic()
    completed(api, pull(api, f"{origin.url}/later"), b"data")
    assert len(resource.requests) == 4
    assert time.monotonic() - begin >= 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204, 304, 300])
def test_final_statuses(api, origin, status):
    resource = origin.add("/refuses", statuses=[(status, {})] * 9)
    said = failed(api, pull(api, f"{origin.url}/refuses"), "origin_status")
    assert str(status) in said["lastError"]["message"]
    assert said["attempts"] == 1 and len(resource.requests) == 1


def test_fails_after_some_attempts(api, origin):
    resource = origin.add("/broken", statuses=[(502, {})] * 99)
    said = failed(api, pull(api, f"{origin.url}/broken"), "origin_status")
    assert said["attempts"] == len(resource.requests) == 4


def test_a_wait_is_shown(api, origin):
    origin.add("/wait", b"data", statuses=[(503, {"Retry-After": "3000"})])
    identifier = pull(api, f"{origin.url}/wait")
    # Running until the attempt, whose error is recorded by then, has ended.
    view = until(lambda: (v := api.upload(identifier)) and "lastError" in v["pull"] and v)
    view = until(lambda: (v := api.upload(identifier))["pull"]["state"] == "waiting" and v)
    assert view["state"] == "open" and view["pull"]["nextAttemptAt"]
    assert view["pull"]["lastError"] == {"code": "origin_status", "message": "the origin responded with status 503"}
    assert api.delete(f"/v1/uploads/{identifier}").status_code == 204
    assert ended(api, identifier)["pull"]["state"] == "ended"


@pytest.mark.parametrize("difference", [-1000, 1000])
def test_a_wrong_content_length(api, origin, difference):
    data = content(200_000, 8)
    origin.add("/wrong", data, announced_length=len(data) + difference, ranges=False)
    identifier = pull(api, f"{origin.url}/wrong")
    if difference > 0:
        failed(api, identifier, "disconnected")
    else:
        # By the framing of HTTP it is whole.
        completed(api, identifier, data[:difference])


def test_too_slow(api, origin):
    resource = origin.add("/slow", content(200_000, 9), delay=30, piece=1000, etag=None)
    said = failed(api, pull(api, f"{origin.url}/slow"), "timed_out", timeout=90)
    assert said["attempts"] == len(resource.requests) >= 4


def test_an_unreachable_origin(api):
    failed(api, pull(api, f"http://127.0.0.1:{free_port()}/"), "unreachable")


def test_a_redirect_loop(api, origin):
    origin.redirect("/loop", "/loop")
    failed(api, pull(api, f"{origin.url}/loop"), "too_many_redirects")


def test_an_unrequested_coding(api, origin):
    origin.add("/gzip", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    failed(api, pull(api, f"{origin.url}/gzip"), "content_encoded")


# Framing that another reader could take for another content


def in_chunks(data):
    return b"%x\r\n" % len(data) + data + b"\r\n0\r\n\r\n"


LETTERS = b"abcde" * 20
NESTED = gzip.compress(gzip.compress(gzip.compress(bytes(MIB))))

FRAMING = {
    "nested-gzip": (b"Transfer-Encoding: gzip, gzip, gzip, chunked", in_chunks(NESTED)),
    "gzip": (b"Transfer-Encoding: gzip, chunked", in_chunks(gzip.compress(LETTERS))),
    "gzip-without-chunks": (b"Transfer-Encoding: gzip", gzip.compress(LETTERS)),
    "two-codings": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", in_chunks(LETTERS)),
    "chunks-in-chunks": (b"Transfer-Encoding: chunked, chunked", in_chunks(LETTERS)),
    "identity": (b"Transfer-Encoding: identity", LETTERS),
    "length-and-chunks": (b"Content-Length: 5\r\nTransfer-Encoding: chunked", in_chunks(LETTERS)),
    "folded-coding": (b"Transfer-Encoding:\r\n chunked", in_chunks(LETTERS)),
    "two-lengths": (b"Content-Length: 5\r\nContent-Length: 100", LETTERS),
    "list-of-lengths": (b"Content-Length: 5, 100", LETTERS),
    "plus": (b"Content-Length: +100", LETTERS),
    "64-bits": (b"Content-Length: 99999999999999999999999", LETTERS),
    "folded-length": (b"Content-Length: 1\r\n 00", LETTERS),
    "space-before-colon": (b"Content-Length : 1", LETTERS),
    "length-of-interim": (b"Content-Length: 5\r\n\r\nHTTP/1.1 200 OK", LETTERS),
}


@pytest.mark.parametrize("name", FRAMING)
def test_unclear_framing(api, name):
    fields, data = FRAMING[name]
    status = b"HTTP/1.1 103 Early\r\n" if "interim" in name else b"HTTP/1.1 200 OK\r\n"

    def answer(handler):
        handler.wfile.write(status + fields + b"\r\n\r\n" + data)
        handler.close_connection = True

    with LocalServer(answer) as origin:
        identifier = pull(api, f"{origin.url}/a.mp4")
        failed(api, identifier, "malformed_answer")
    assert api.upload(identifier)["offset"] == 0


@pytest.mark.parametrize("block", [1, 16384])
def test_content_in_padded_records(make_server, certificate, block):
    data = content(2000, 11)
    trusting = make_server(environment=SETTINGS | {"SLUICE_PULL_AUTHORITIES": str(certificate.path)}).start()
    api = API(trusting.url, trusting.admin_key)
    with PaddedOrigin(certificate, data, block) as origin:
        identifier = pull(api, f"{origin.url}/a.mp4")
        if block == 1:
            completed(api, identifier, data)
        else:
            assert failed(api, identifier, "malformed_answer")["attempts"] == 1


# Limits


@pytest.mark.parametrize("chunked", [False, True])
def test_too_large(api, origin, chunked):
    resource = origin.add("/large", content(MIB, 10), chunked=chunked)
    failed(api, pull(api, f"{origin.url}/large", maxBytes=MIB - 1), "content_too_large")
    assert len(resource.requests) == 1
    completed(api, pull(api, f"{origin.url}/large", maxBytes=MIB), resource.data)


def test_content_types(api, origin):
    origin.add("/typed", b"data", content_type="text/html; charset=utf-8")
    failed(api, pull(api, f"{origin.url}/typed", contentTypes=["video/*"]), "content_type_refused")
    completed(api, pull(api, f"{origin.url}/typed", contentTypes=["video/*", "text/html"]), b"data")
    origin.add("/untyped", b"data", content_type=None)
    failed(api, pull(api, f"{origin.url}/untyped", contentTypes=["video/*"]), "content_type_refused")
    members = {"url": f"{origin.url}/typed", "contentTypes": ["video/*"], "contentType": "text/plain"}
    problem(api.post("/v1/media/pull", json=members), 415, "content_type_refused")


def test_concurrency_is_limited(make_server, origin):
    server = make_server(environment=SETTINGS | {"SLUICE_PULL_CONCURRENCY": "2"}).start()
    api = API(server.url, server.admin_key)
    data = content(400 * KIB, 11)
    paths = [f"/some-{number}" for number in range(7)]
    most = 0
    resources = [origin.add(path, data, delay=0.05) for path in paths]
    identifiers = [pull(api, origin.url + path) for path in paths]
    while not all(api.upload(one)["state"] == "completed" for one in identifiers):
        running = sum(0 < one.sent < len(data) for one in resources)
        most = max(most, running)
    assert most == 2
    for identifier in identifiers:
        completed(api, identifier, data)


def test_a_user_whose_pulls_never_end_leaves_a_place_to_others(make_server, origin):
    """Each sends just fast enough; they are begun by two protocols."""
    server = make_server(environment=SETTINGS | {"SLUICE_PULL_CONCURRENCY": "3", "SLUICE_PULL_ALLOW_USERS": "true"})
    server.start()
    api = API(server.url, server.admin_key)
    slow = [origin.add(f"/slow-{number}", content(4 * MIB, 12), delay=0.5, piece=2 * KIB) for number in range(5)]
    token = api.post("/v1/vimeo/tokens", {"subject": "mallory", "scopes": ["upload"]}).json()["access_token"]
    for number in range(5):
        url = f"{origin.url}/slow-{number}"
        if number % 2:
            pull(api, url, subject="mallory")
        else:
            video = {"upload": {"approach": "pull", "link": url}}
            assert Vimeo(server, token)("POST", "/me/videos", json=video).status_code == 201
    until(lambda: sum(one.sent > 0 for one in slow) == 2)
    data = content(3 * KIB, 13)
    origin.add("/quick", data)
    for fields in ({"subject": "bob"}, {}):
        completed(api, pull(api, origin.url + "/quick", **fields), data, timeout=20)
    assert sum(one.sent > 0 for one in slow) == 2


def test_two_users_whose_pulls_never_end_give_way_to_a_third(make_server, origin):
    """Both wait with more when it comes; what gave way goes on where it was."""
    server = make_server(environment=SETTINGS | {"SLUICE_PULL_CONCURRENCY": "3"}).start()
    api = API(server.url, server.admin_key)
    slow = [origin.add(f"/slow-{number}", content(4 * MIB, 12), delay=0.5, piece=2 * KIB) for number in range(6)]
    for number in range(6):
        pull(api, f"{origin.url}/slow-{number}", subject=("mallory", "trudy")[number % 2])
    until(lambda: sum(one.sent > 0 for one in slow) == 3)
    data = content(3 * KIB, 13)
    origin.add("/quick", data)
    for subject in ("bob", "carol"):
        completed(api, pull(api, origin.url + "/quick", subject=subject), data, timeout=20)


def test_memory_does_not_grow_with_the_content(make_server, origin):
    server = make_server(environment=SETTINGS).start()
    api = API(server.url, server.admin_key)
    origin.add("/small", b"data")
    completed(api, pull(api, f"{origin.url}/small"), b"data")
    before = server.peak_memory()
    data = content(96 * MIB, 12)
    origin.add("/huge", data, piece=MIB)
    completed(api, pull(api, f"{origin.url}/huge"), data)
    assert server.peak_memory() - before < 24 * MIB


# Ends


@pytest.mark.parametrize("moment", ["head", "content"])
def test_a_deleted_upload_is_no_longer_fetched(server, api, origin, moment):
    if moment == "head":
        resource = origin.add("/deleted", before=lambda _: time.sleep(3))
    else:
        resource = origin.add("/deleted", content(20 * MIB, 13), delay=0.1)
    identifier = pull(api, f"{origin.url}/deleted")
    until(lambda: resource.requests and (moment == "head" or resource.sent > MIB))
    assert api.delete(f"/v1/uploads/{identifier}").status_code == 204
    view = ended(api, identifier)
    assert view["state"] == "terminated" and view["pull"]["state"] == "ended"
    assert server.stored_files(identifier) == []
    time.sleep(0.5)
    sent = resource.sent
    time.sleep(0.5)
    assert resource.sent == sent and len(resource.requests) == 1


def test_a_stop_keeps_received_bytes(make_server, origin):
    server = make_server(environment=SETTINGS).start()
    api = API(server.url, server.admin_key)
    data = content(8 * MIB, 14)
    resource = origin.add("/stop", data, delay=0.02)
    identifier = pull(api, f"{origin.url}/stop")
    until(lambda: resource.sent > 2 * MIB)
    server.stop()
    resource.delay = 0
    server.start()
    api = API(server.url, server.admin_key)
    completed(api, identifier, data)
    assert int(resource.requests[1]["range"].removeprefix("bytes=").rstrip("-")) >= MIB


@pytest.mark.nightly
def test_a_pull_that_takes_longer_than_an_upload_lives(make_server, origin):
    server = make_server(environment=SETTINGS | {"SLUICE_UPLOADS_EXPIRE_AFTER": "6s"}).start()
    api = API(server.url, server.admin_key)
    data = content(10 * MIB, 16)
    resource = origin.add("/long", data, delay=0.08)
    identifier = pull(api, f"{origin.url}/long")
    time.sleep(9)
    server.kill()
    resource.delay = 0
    server.start()
    completed(API(server.url, server.admin_key), identifier, data)
    assert len(resource.requests) == 2 and int(resource.requests[1]["range"][6:-1]) > 5 * MIB


@pytest.mark.parametrize("validator", ["etag", None])
def test_kill(make_server, origin, quick, report, validator):
    """Several at once, `kill -9` at random moments: each ends with the right content, and none is lost."""
    server = make_server(environment=SETTINGS | {"SLUICE_PULL_ATTEMPTS": "100"}).start()
    api = API(server.url, server.admin_key)
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    options = {} if validator else {"etag": None}
    expected, resources = {}, []
    for number in range(4):
        data = content(generator.randint(1, 12 * MIB), number)
        resources.append(origin.add(f"/kill-{number}", data, delay=0.002, **options))
        expected[pull(api, f"{origin.url}/kill-{number}")] = data
    kills = 0
    while kills < (4 if quick else 15):
        time.sleep(generator.uniform(0.02, 0.4))
        server.kill()
        kills += 1
        server.start()
        api = API(server.url, server.admin_key)
        if all(api.upload(one)["state"] != "open" for one in expected):
            data = content(8 * MIB, 100 + kills)
            resources.append(origin.add(f"/more-{kills}", data, delay=0.002, **options))
            expected[pull(api, f"{origin.url}/more-{kills}")] = data
    for resource in resources:
        resource.delay = 0
    for identifier, data in expected.items():
        completed(api, identifier, data)
    size = sum(map(len, expected.values()))
    sent = sum(one.sent for one in resources)
    if validator:
        assert sent <= size + kills * 8 * MIB
    report(
        f"pull, kill -9, {'etag' if validator else 'no validator'}, seed {seed}: {kills} kills, {len(expected)} pulls,"
        f" {size / MIB:.0f} MiB, {sent / MIB:.0f} MiB fetched"
    )


# Server-side request forgery

INSIDE = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::]",
    "0.0.0.0",
    "0",
    "169.254.169.254",
    "10.0.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "100.64.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "224.0.0.1",
    "255.255.255.255",
    "localhost.",
    "①②⑦.⓪.⓪.①",
]


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A server with the default rule: only public addresses."""
    settings = {key: value for key, value in SETTINGS.items() if key != "SLUICE_PULL_ALLOW"}
    with Server(tmp_path_factory.mktemp("strict") / "data", environment=settings) as running:
        yield API(running.url, running.admin_key)


@pytest.fixture
def inside():
    """A service on loopback that must not be called."""
    with Origin() as one, contextlib.closing(socket.create_server(("::1", 0, 0, 0), family=socket.AF_INET6)):
        one.add("/secret", b"inside")
        yield one


def refused(api, url, codes=("address_refused",)):
    """Checks that it is refused, at once or when it is fetched, with a message that reveals nothing."""
    answer = api.post("/v1/media/pull", json={"url": url})
    if answer.status_code == 422:
        message = str(field_problem(answer, "url")["errors"])
    else:
        assert answer.status_code == 202, answer.text
        said = ended(api, answer.json()["id"])["pull"]
        assert said["state"] == "failed" and said["lastError"]["code"] in codes, said
        message = str(said["lastError"])
    assert "127.0.0" not in message and "::" not in message


@pytest.mark.parametrize("host", INSIDE)
def test_an_address_inside_is_refused(strict, inside, host):
    # Not every resolver takes the last two for anything.
    codes = ("address_refused", "unreachable", "url_refused") if host in INSIDE[-2:] else ("address_refused",)
    refused(strict, f"http://{host}:{inside.port}/secret", codes)
    assert inside.resources["/secret"].requests == []


def test_a_name_for_an_address_inside_is_refused(strict, inside):
    """The machine's own name, if it stands for loopback, and names that always do."""
    names = ["localhost", "ip6-localhost", "a.localhost", socket.gethostname()]
    for name in names:
        with contextlib.suppress(OSError):
            found = {info[4][0] for info in socket.getaddrinfo(name, None)}
            if all(one.startswith("127.") or one == "::1" for one in found):
                refused(strict, f"http://{name}:{inside.port}/secret")
    assert inside.resources["/secret"].requests == []


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost:{port}", "[::1]", "0x7f000002", "169.254.169.254"])
def test_a_redirect_inside_is_refused(api, origin, inside, host):
    """127.0.0.1 is allowed here, and nothing else."""
    target = host.format(port=inside.port)
    if "localhost" in host:
        # Its IPv4 address is allowed, so another range must be asked for.
        target = f"127.0.0.3:{inside.port}"
    elif "169" not in host:
        target += f":{inside.port}"
    origin.redirect("/inside", f"http://{target}/secret")
    said = failed(api, pull(api, f"{origin.url}/inside"), "address_refused")
    assert target.split(":")[0] not in str(said["lastError"])
    assert inside.resources["/secret"].requests == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1:70/_x",
        "ftp://127.0.0.1/x",
        "dict://127.0.0.1:11211/stat",
        "ldap://127.0.0.1/",
        "/etc/passwd",
        "etc",
        "",
        "http://",
        "http://127.0.0.1:0x50/",
        "http://a b/",
        "javascript:1",
        "http://x" + "y" * 9000,
    ],
)
def test_other_urls_are_refused(strict, api, url):
    for one in (strict, api):
        field_problem(one.post("/v1/media/pull", json={"url": url}), "url")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1:70/", "ftp://127.0.0.1/"])
def test_a_redirect_to_another_scheme_is_refused(api, origin, target):
    origin.redirect("/scheme", target)
    failed(api, pull(api, f"{origin.url}/scheme"), "url_refused")


def test_proxies_of_the_environment_are_not_used(make_server, origin):
    with Origin() as proxy:
        environment = {"http_proxy": proxy.url, "HTTP_PROXY": proxy.url, "ALL_PROXY": proxy.url, "all_proxy": proxy.url}
        server = make_server(environment=SETTINGS | environment).start()
        api = API(server.url, server.admin_key)
        origin.add("/direct", b"data")
        completed(api, pull(api, f"{origin.url}/direct"), b"data")


# Requests


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"url": None}, "url"),
        ({"url": 1}, "url"),
        ({"maxBytes": -1}, "maxBytes"),
        ({"contentType": "nonsense"}, "contentType"),
        ({"contentTypes": ["nonsense"]}, "contentTypes"),
        ({"headers": {"Host": "other"}}, "headers"),
        ({"headers": {"Range": "bytes=0-"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers"),
        ({"headers": {"Proxy-Authorization": "x"}}, "headers"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "headers"),
        ({"headers": {"X A": "1"}}, "headers"),
        ({"headers": {"X:A": "1"}}, "headers"),
        ({"headers": ["X-A"]}, "headers"),
        ({"metadata": {"a b": "c"}}, "metadata"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_invalid_fields(api, origin, fields, name):
    field_problem(api.post("/v1/media/pull", json={"url": f"{origin.url}/x"} | fields), name)


def test_who_can_pull(make_server, origin):
    server = make_server(environment=SETTINGS).start()
    api = API(server.url, server.admin_key)
    body = {"url": f"{origin.url}/x"}
    problem(api.post("/v1/media/pull", json=body, key=None), 401, "unauthenticated")
    made = run("keys", "create", "--name", "n", "--scope", "mint", "--scope", "read", environment=server.environment)
    key = next(word for word in made.stdout.split() if word.startswith("slk_"))
    problem(api.post("/v1/media/pull", json=body, key=key), 403, "forbidden")
    token = api.post("/v1/tus/tokens", json={"subject": "a"}).json()["token"]
    problem(api.post("/v1/media/pull", json=body, key=token), 403, "forbidden")
    off = make_server("off", environment=SETTINGS | {"SLUICE_PULL_ENABLED": "false"}).start()
    problem(API(off.url, off.admin_key).post("/v1/media/pull", json=body), 403, "forbidden")


def test_metrics(api, origin):
    origin.add("/metric", b"data")
    completed(api, pull(api, f"{origin.url}/metric"), b"data")
    text = api.get("/metrics").text
    assert 'sluice_pulls_total{result="completed"}' in text
    assert 'sluice_uploads_created_total{dialect="pull"}' in text


def test_a_pulled_upload_accepts_no_other_bytes(api, origin):
    """Its upload URL is not returned, so no client can send bytes to it."""
    origin.add("/mine", content(KIB, 15), delay=1)
    answer = api.post("/v1/media/pull", json={"url": f"{origin.url}/mine"})
    assert "url" not in answer.json()
    identifier = answer.json()["id"]
    assert api.head(f"{api.url}/files/{identifier}").status_code == 404
    assert api.delete(f"/v1/uploads/{identifier}").status_code == 204


def test_quotas_and_hooks_apply_to_pulls(make_server, origin):
    """Policies apply to the origin's response, quotas to the bytes, and hooks are called."""
    asked = {"pre-create": {}}
    with Receiver(SECRET, reply=lambda call: asked.get(call.type, {})) as receiver:
        settings = {
            "SLUICE_HOOKS_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_QUOTA_SUBJECT_STORED_BYTES": "100KiB",
        }
        server = make_server(environment=SETTINGS | settings).start()
        api = API(server.url, server.admin_key)
        data = content(80 * KIB, 9)
        origin.add("/quota/a.bin", data)
        url = f"{origin.url}/quota/a.bin"
        first = pull(api, url, subject="alice")
        completed(api, first, data)
        (finished,) = receiver.wait("post-finish", upload=first)
        assert finished.upload["Size"] == len(data)
        second = pull(api, url, subject="alice")
        assert failed(api, second, "quota_exceeded")["lastError"]
        receiver.wait("post-terminate", upload=second)
        used = api.get("/v1/quota/subjects/alice").json()["used"]
        assert (used["storedBytes"], used["openUploads"]) == (len(data), 0)
        asked["pre-create"] = {"RejectUpload": True, "HTTPResponse": {"StatusCode": 402}}
        assert api.post("/v1/media/pull", json={"url": url, "subject": "bob"}).status_code == 402
        server.stop()


def test_a_file_can_have_the_name_of_the_route(api):
    answer = api.request("PUT", "/v1/media/pull", data=b"abc")
    assert answer.status_code == 201 and answer.json()["filename"] == "pull"
