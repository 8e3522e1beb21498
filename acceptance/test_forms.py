"""Files from forms (multipart/form-data): curl, requests, httpx, aiohttp, and raw bytes."""

import asyncio
import hashlib
import io
import json
import subprocess
import time

import aiohttp
import httpx
import pytest
import requests

from harness import browser
from harness.api import API, problem
from harness.data import MIB, content, sha256, write_file
from harness.disk import mounted
from harness.wire import Wire, until
from hostile.forms import MALFORMED

PATHS = ["/files", "/v1/media"]
TYPE = "multipart/form-data; boundary=b"


def part(name, body, filename=None, kind=None):
    head = f'--b\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        head += f'; filename="{filename}"'
    if kind:
        head += f"\r\nContent-Type: {kind}"
    return head.encode() + b"\r\n\r\n" + body + b"\r\n"


END = b"--b--\r\n"


def send(server, body, *fields, path="/files", key=True):
    """The answer to a form as raw bytes."""
    with Wire(server.address, timeout=60) as wire:
        own = [("Content-Type", TYPE), *([("Authorization", f"Bearer {server.admin_key}")] if key else []), *fields]
        wire.request("POST", path, own, body)
        reply = wire.reply("POST")
    return reply.status, json.loads(reply.body)


def assert_stored(api, media, data, **expected):
    assert api.download_hash(media["id"]) == (sha256(data), len(data))
    assert {key: media[key] for key in expected} == expected


def states(api):
    """How many uploads there are in each state."""
    found = {}
    for upload in api.get("/v1/uploads?limit=200").json()["uploads"]:
        found[upload["state"]] = found.get(upload["state"], 0) + 1
    return found


@pytest.fixture
def own(make_server):
    """A server for one test, and its API."""
    server = make_server(environment={"SLUICE_DURABILITY": "none"}).start()
    return server, API(server.url, server.admin_key)


# Clients


@pytest.mark.parametrize("path", PATHS)
def test_curl(server, api, tmp_path, path):
    data = content(3 * MIB + 5, 1)
    (tmp_path / "a b.mp4").write_bytes(data)
    (tmp_path / "empty").write_bytes(b"")
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {server.admin_key}",
         "-F", 'title=Ümläut "x"', "-F", f"clip=@{tmp_path / 'a b.mp4'};type=video/mp4",
         "-F", f"clip=@{tmp_path / 'empty'}", "-F", "last=1", server.url + path],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    first, second = answer["media"]
    assert_stored(api, first, data, field="clip", filename="a b.mp4", contentType="video/mp4")
    assert first["metadata"]["title"] == 'Ümläut "x"'
    assert_stored(api, second, b"", filename="empty", size=0)
    assert answer["fields"] == {"title": 'Ümläut "x"', "last": "1"}
    assert api.get(f"/v1/media/{first['id']}").json()["filename"] == "a b.mp4"


@pytest.mark.parametrize("path", PATHS)
def test_curl_with_a_file_name_in_quotes(server, api, path):
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {server.admin_key}",
         "-F", 'f=@-;filename="a \\"b\\" ü;c.txt"', server.url + path],
        input=b"x", capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    (media,) = json.loads(done.stdout)["media"]
    assert_stored(api, media, b"x", filename='a "b" ü;c.txt')


def test_curl_chunked(server, api):
    """`Transfer-Encoding: chunked`, after 100 Continue."""
    data = content(2 * MIB, 2)
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {server.admin_key}",
         "-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked",
         "-F", "f=@-;filename=x", server.url + "/files"],
        input=data, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    (media,) = json.loads(done.stdout)["media"]
    assert_stored(api, media, data)


NAME = 'Ü "中" 🎬.mp4'


def test_requests(server, api):
    data = content(MIB, 3)
    answer = requests.post(
        server.url + "/files",
        headers={"Authorization": f"Bearer {server.admin_key}"},
        data={"title": "T", "note": "a\r\nb"},
        files=[("clip", (NAME, data, "video/mp4")), ("clip", ("b", io.BytesIO(b"b")))],
        timeout=60,
    )
    assert answer.status_code == 201, answer.text
    first, second = answer.json()["media"]
    assert_stored(api, first, data, filename=NAME, contentType="video/mp4")
    assert first["metadata"]["note"] == "a\r\nb"
    assert_stored(api, second, b"b", filename="b")


def test_httpx(server, api):
    data = content(MIB, 4)
    answer = httpx.post(
        server.url + "/v1/media",
        headers={"Authorization": f"Bearer {server.admin_key}"},
        data={"title": "T"},
        files=[("clip", (NAME, data, "video/mp4")), ("clip", ("a\\b.txt", b"b"))],
        timeout=60,
    )
    assert answer.status_code == 201, answer.text
    first, second = answer.json()["media"]
    assert_stored(api, first, data, filename=NAME, contentType="video/mp4")
    assert first["metadata"]["title"] == "T"
    assert_stored(api, second, b"b", filename="b.txt")


@pytest.mark.parametrize("quote", [True, False])
def test_aiohttp(server, api, quote):
    data = content(MIB, 5)

    async def pieces():
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    async def post():
        form = aiohttp.FormData(quote_fields=quote)
        form.add_field("title", "T")
        form.add_field("clip", pieces(), filename="ü 1.mp4", content_type="video/mp4")
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(server.url + "/files", data=form) as answer,
        ):
            assert answer.status == 201, await answer.text()
            return await answer.json()

    answer = asyncio.run(post())
    (media,) = answer["media"]
    assert_stored(api, media, data, contentType="video/mp4")
    # Encoded as in a URL, which is no encoding of forms: it is kept as it came.
    assert media["filename"] == "%C3%BC%201.mp4" if quote else "ü 1.mp4"
    assert media["metadata"]["title"] == "T"


def test_a_hundred_files(server, api):
    files = [("f", (f"{number}.bin", content(number * 37, number))) for number in range(100)]
    answer = api.request("POST", "/files", files=files)
    assert answer.status_code == 201, answer.text
    media = answer.json()["media"]
    assert [one["filename"] for one in media] == [f"{number}.bin" for number in range(100)]
    for one, (_, (_, data)) in zip(media, files, strict=True):
        assert api.download_hash(one["id"]) == (sha256(data), len(data))


# What browsers send


@pytest.mark.parametrize("size", [1, 3, 64])
def test_packets_of_any_size(server, api, size):
    boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
    data = b"\r\n--" + boundary.encode()[:-1] + b"\r\n\r\n--\r\n-"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="a%22b"\r\n\r\nc\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="x%22%.bin"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode() + data + f"\r\n--{boundary}--\r\n".encode()  # fmt: skip
    with Wire(server.address) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        kind = ("Content-Type", f"multipart/form-data; boundary={boundary}")
        wire.request("POST", "/files", [key, kind, ("Content-Length", len(body))])
        for start in range(0, len(body), size):
            wire.send(body[start : start + size])
        reply = wire.reply("POST")
        assert reply.status == 201, reply.body
        # The connection goes on.
        assert wire.exchange("GET", "/healthz").status == 200
    (media,) = json.loads(reply.body)["media"]
    assert_stored(api, media, data, filename='x"%.bin')
    assert media["metadata"]['a"b'] == "c"
    assert api.get(f"/media/{media['id']}").headers["Content-Disposition"].startswith("attachment; ")


def test_inputs_without_a_file(server, api):
    empty = part("f", b"", "", "application/octet-stream")
    status, answer = send(server, empty + part("g", b"1", "x") + empty + END)
    assert (status, len(answer["media"])) == (201, 1)
    status, answer = send(server, empty + END)
    assert (status, answer["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("path", PATHS)
def test_cross_origin(server, path):
    """A form of another site needs its own token; cookies do not count."""
    with Wire(server.address) as wire:
        wire.request(
            "POST", path, [("Content-Type", TYPE), ("Origin", "https://app.example")], part("f", b"1", "x") + END
        )
        reply = wire.reply("POST")
    assert reply.status == 401


def test_clients_that_could_resume(server):
    """They declare that the request is complete, and learn from the response that they cannot resume."""
    body = part("f", b"1", "x") + END
    for fields in [
        [("Upload-Draft-Interop-Version", "6"), ("Upload-Complete", "?1")],
        [("Upload-Draft-Interop-Version", "3"), ("Upload-Incomplete", "?0")],
    ]:
        with Wire(server.address) as wire:
            key = ("Authorization", f"Bearer {server.admin_key}")
            wire.request("POST", "/files", [key, ("Content-Type", TYPE), *fields], body)
            assert wire.reply("POST", skip_interim=False).status == 201
    assert send(server, body, ("Upload-Complete", "?0"))[0] == 415


# Credentials


def test_token_in_the_form(own):
    server, api = own
    token = api.post("/v1/tus/tokens", {"subject": "anna", "metadata": {"album": "7"}}).json()["token"]
    body = part("token", token.encode()) + part("title", b"T") + part("f", b"1", "x") + END
    status, answer = send(server, body, key=False)
    assert status == 201, answer
    (media,) = answer["media"]
    assert (media["subject"], media["metadata"]) == ("anna", {"album": "7", "title": "T", "filename": "x"})
    assert answer["fields"] == {"title": "T"}
    assert token not in json.dumps(answer)
    file = part("f", b"1", "x")
    for body in [
        file + END,
        file + part("token", token.encode()) + END,
        part("token", b"slg_wrong") + file + END,
        part("token", server.admin_key.encode()) + file + END,
    ]:
        status, answer = send(server, body, key=False)
        assert (status, answer["code"]) == (401, "unauthenticated")
    server.stop()
    assert token not in server.log.read_text()


def test_a_one_time_token_admits_one_file(api, server):
    token = api.post("/v1/tus/tokens", {"subject": "anna", "oneTime": True}).json()["token"]
    body = part("token", token.encode()) + part("f", b"1", "x") + part("g", b"2", "y") + END
    status, answer = send(server, body, key=False)
    assert (status, answer["code"]) == (403, "grant_used")
    assert [(error["field"], error["filename"], error["code"]) for error in answer["errors"]] == [
        ("g", "y", "grant_used")
    ]
    (media,) = answer["media"]
    assert_stored(api, media, b"1", filename="x")


def test_a_refused_file_does_not_affect_the_others(api, server):
    token = api.post("/v1/tus/tokens", {"subject": "anna", "maxBytes": 10, "contentTypes": ["video/*"]}).json()["token"]
    body = (
        part("a", b"1", "1", "video/mp4") + part("b", b"2", "2", "text/html") + part("c", b"3" * 5000, "3", "video/mp4")
        + part("d", b"4", "4", "video/mp4") + END
    )  # fmt: skip
    status, answer = send(server, body, ("Authorization", f"Bearer {token}"), key=False)
    assert (status, answer["code"]) == (415, "content_type_refused")
    assert [media["field"] for media in answer["media"]] == ["a", "d"]
    assert [(error["field"], error["code"]) for error in answer["errors"]] == [
        ("b", "content_type_refused"),
        ("c", "content_too_large"),
    ]


def test_without_a_credential_no_content_is_read(server):
    with Wire(server.address) as wire:
        fields = [("Content-Type", TYPE), ("Authorization", "Bearer slk_wrong"), ("Content-Length", 10**9)]
        wire.request("POST", "/files", [*fields, ("Expect", "100-continue")])
        assert wire.reply("POST", skip_interim=False).status == 401


# What must be refused


def test_malformed_input_is_refused(own):
    server, api = own
    for name, body, status in MALFORMED:
        found, answer = send(server, body)
        assert found == status, (name, answer)
        assert answer["detail"], (name, answer)
        # A file before the fault is stored; what may have been cut off by it is not.
        assert all(api.download_hash(media["id"]) == (sha256(b"x"), 1) for media in answer["media"]), (name, answer)
    assert "open" not in states(api)
    assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", 'multipart/form-data; boundary=""', "multipart/form-data; boundary=" + "x" * 71]
)
def test_a_missing_boundary_is_refused(api, kind):
    answer = api.request("POST", "/files", data=b"--b--", headers={"Content-Type": kind})
    problem(answer, 400, "invalid_request")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_forms_need_post(api, method):
    path = "/v1/media/x" if method == "PUT" else "/v1/media"
    answer = api.request(method, path, data=END, headers={"Content-Type": TYPE, "Upload-Complete": "?1"})
    problem(answer, 415, "unsupported_media_type")


# Faults


def test_an_interrupted_connection(own):
    server, api = own
    whole = content(MIB, 7)
    with Wire(server.address) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        wire.request("POST", "/files", [key, ("Content-Type", TYPE), ("Content-Length", 10 * MIB)])
        wire.send(part("a", whole, "a") + part("b", bytes(MIB), "b")[:-100])
        until(lambda: states(api) == {"completed": 1, "open": 1})
    until(lambda: states(api) == {"completed": 1, "terminated": 1})
    uploads = api.get("/v1/uploads").json()["uploads"]
    (complete,) = [upload["id"] for upload in uploads if upload["state"] == "completed"]
    assert api.download_hash(complete) == (sha256(whole), len(whole))
    (ended,) = [upload["id"] for upload in uploads if upload["state"] == "terminated"]
    until(lambda: server.stored_files(ended) == [])


def test_kill(make_server):
    """kill -9 within a file: complete files remain, the other one expires."""
    environment = {"SLUICE_UPLOADS_EXPIRE_AFTER": "2s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    server = make_server(environment=environment).start()
    api = API(server.url, server.admin_key)
    whole = content(2 * MIB, 8)
    with Wire(server.address) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        wire.request("POST", "/files", [key, ("Content-Type", TYPE), ("Content-Length", 10 * MIB)])
        wire.send(part("a", whole, "a") + part("b", bytes(MIB), "b")[:-100])
        until(lambda: states(api) == {"completed": 1, "open": 1})
        server.kill()
    server.start()
    api = API(server.url, server.admin_key)
    until(lambda: states(api) == {"completed": 1, "expired": 1}, timeout=20)
    (complete,) = [upload["id"] for upload in api.get("/v1/uploads?state=completed").json()["uploads"]]
    assert api.download_hash(complete) == (sha256(whole), len(whole))


def test_shutdown(own):
    """SIGTERM while a file arrives: the server does not wait for its end."""
    server, api = own
    with Wire(server.address) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        wire.request("POST", "/files", [key, ("Content-Type", TYPE), ("Content-Length", 10 * MIB)])
        wire.send(part("a", b"1", "a") + part("b", bytes(1000), "b")[:-100])
        until(lambda: states(api) == {"completed": 1, "open": 1})
        server.stop()


def test_a_full_disk(tmp_path, make_server):
    with mounted(tmp_path / "disk", ["-t", "tmpfs", "-o", f"size={24 * MIB}"], "tmpfs"):
        server = make_server("disk/data", log=tmp_path / "server.log").start()
        api = API(server.url, server.admin_key)
        data = content(MIB, 9)
        status, answer = send(server, part("a", data, "a") + part("b", bytes(40 * MIB), "b") + END)
        assert (status, answer["code"]) == (507, "storage_full")
        assert [error["field"] for error in answer["errors"]] == ["b"]
        (media,) = answer["media"]
        assert_stored(api, media, data)
        # What was stored of the other one is given back.
        status, answer = send(server, part("a", bytes(8 * MIB), "a") + END)
        assert status == 201, answer
        server.stop()


# Size


def test_memory(make_server, report, tmp_path):
    size = 200 * MIB
    digest = write_file(tmp_path / "large", size, 10)
    with make_server() as server:
        api = API(server.url, server.admin_key)
        idle = server.peak_memory()
        begin, cpu = time.monotonic(), server.cpu_seconds()
        done = subprocess.run(
            ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {server.admin_key}", "-F", "a=1",
             "-F", f"f=@{tmp_path / 'large'}", "-F", "b=2", server.url + "/files"],
            capture_output=True, timeout=300, check=True,
        )  # fmt: skip
        seconds, cpu = time.monotonic() - begin, server.cpu_seconds() - cpu
        peak = server.peak_memory()
        report(
            f"200 MiB in a form: {size / 1e6 / seconds:.0f} MB/s, {cpu:.2f} s CPU, peak memory {peak / MIB:.1f} MiB"
            f" ({idle / MIB:.1f} before)"
        )
        answer = json.loads(done.stdout)
        assert answer["fields"] == {"a": "1", "b": "2"}
        assert api.download_hash(answer["media"][0]["id"]) == (digest, size)
        assert peak - idle < 8 * MIB


def test_content_with_many_partial_boundaries(server, api, report):
    """Many beginnings of the boundary: the time is proportional to the size."""
    boundary = "-" * 60 + "b"
    data = (b"\r\n--" + b"-" * 60) * (32 * MIB // 64)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n'.encode()
    with Wire(server.address, timeout=120) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        begin = time.monotonic()
        wire.request(
            "POST",
            "/files",
            [key, ("Content-Type", f"multipart/form-data; boundary={boundary}")],
            head + data + f"\r\n--{boundary}--\r\n".encode(),
        )
        reply = wire.reply("POST")
    report(f"32 MiB of beginnings of a boundary: {time.monotonic() - begin:.2f} s")
    assert reply.status == 201, reply.body
    (media,) = json.loads(reply.body)["media"]
    assert api.download_hash(media["id"]) == (hashlib.sha256(data).hexdigest(), len(data))


@pytest.mark.skipif(not browser.BROWSER, reason="there is no browser: install chromium")
def test_browser(server, api, tmp_path):
    """A real browser makes a form of what a page holds, and sends it."""
    page = """<!doctype html><meta charset=utf-8><pre id=out></pre><script>
    const form = new FormData()
    form.append("token", "TOKEN")
    form.append('ti"tle', "Ü\\r\\nx")
    form.append("clip", new File(["abc"], 'a "b" ü.txt', {type: "text/plain"}))
    form.append("none", new File([], ""))
    fetch("URL/files", {method: "POST", body: form})
        .then(answer => answer.text()).then(text => document.getElementById("out").textContent = text)
    </script>"""
    token = api.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    path = tmp_path / "page.html"
    path.write_text(page.replace("TOKEN", token).replace("URL", server.url))
    before = states(api)
    browser.dump(path.as_uri(), tmp_path / "profile")
    until(lambda: states(api) != before)
    newest = api.get("/v1/uploads?limit=1").json()["uploads"][0]
    assert newest["metadata"] == {
        'ti"tle': "Ü\r\nx",
        "filename": 'a "b" ü.txt',
        "filetype": "text/plain",
    }
