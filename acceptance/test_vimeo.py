"""Vimeo's API by PyVimeo of four versions, and by requests as other clients send them (protocol, sections 3 to 9)."""

import email.utils
import http.client
import itertools
import os
import re
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from harness.api import API, TUS
from harness.cutter import Cutter
from harness.events import Stream
from harness.origin import Origin, Resource
from harness.receiver import Receiver
from harness.server import Server, run
from harness.vimeo import NEW, OLD, PULLS, VERSIONS, Failed, Plain, PyVimeo, basic, pulled, stored, token, upload_of
from harness.wire import until

MIB = 1 << 20
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("vimeo") / "data") as running:
        yield running


@pytest.fixture
def make_file(tmp_path):
    def make(size, name="video.mp4"):
        path = tmp_path / name
        path.write_bytes(os.urandom(size))
        return path

    return make


@pytest.fixture
def client(server):
    return Plain(server, token(server))


# PyVimeo


@pytest.mark.rows
@pytest.mark.parametrize("size", [1, 5 * MIB + 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_uploads(server, make_file, version, size):
    sdk = PyVimeo(server, version, token(server))
    path = make_file(size)
    options = {"data": {"name": "Holiday", "chunk_size": MIB}} if version in NEW else {}
    uri = sdk.upload(str(path), **options)
    assert re.fullmatch(r"/videos/\d+", uri)
    assert stored(server, uri) == path.read_bytes()
    answer = sdk.get(uri)
    assert answer["status"] == 200
    assert answer["json"]["status"] == "available"
    changed = sdk.patch(uri, data={"name": "Other", "privacy": {"view": "nobody"}})
    assert changed["status"] == 200
    assert (changed["json"]["name"], changed["json"]["privacy"]["view"]) == ("Other", "nobody")
    assert sdk.delete(uri)["status"] == 204
    assert sdk.delete(uri)["status"] == 404
    assert sdk.get(uri)["status"] == 404


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_uploads_an_empty_file(server, make_file, version):
    """Those of before 1.0 make a ticket, send nothing, and complete it."""
    sdk = PyVimeo(server, version, token(server))
    uri = sdk.upload(str(make_file(0)))
    assert stored(server, uri) == b""
    assert sdk.get(uri)["json"]["status"] == "available"
    assert sdk.replace(uri, str(make_file(0, "other.mp4"))) == uri
    assert Plain(server, sdk.credentials["token"])("GET", uri + "/versions").json()["total"] == 2


@pytest.mark.nightly
def test_pyvimeo_goes_on_after_a_cut(server, make_file):
    """It waits 30 s, asks for the offset, and sends the rest; those before 1.1 give up."""
    path = make_file(5 * MIB)
    sdk = PyVimeo(server, NEW[0], token(server))
    with Cutter(server.address, [3 * MIB]) as cutter:
        # Links are made with the host that was asked.
        call = ["upload", [str(path)], {"data": {"chunk_size": 2 * MIB}}]
        [uri] = sdk.calls(call, root=cutter.url)
        assert cutter.done
        # Bytes of the broken PATCH stayed.
        assert cutter.sent < 6 * MIB
    assert stored(server, uri) == path.read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_tells_that_a_quota_is_used_up(server, make_file, version):
    user = f"full-{version}"
    api = API(server.url, server.admin_key)
    assert api.request("PUT", f"/v1/quota/subjects/{user}", json={"storedBytes": 100}).status_code == 200
    with pytest.raises(Failed) as caught:
        PyVimeo(server, version, token(server, user)).upload(str(make_file(101)))
    # 0.4 compares by itself with what the ticket says; 0.3 learns it from the PUT.
    assert caught.value.name in (
        "UploadAttemptCreationFailure",
        "UploadQuotaExceeded",
        "VideoUploadFailure",
        "VideoCreationFailure",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_gets_tokens(server, version):
    made = run("keys", "create", "--name", "vimeo", "--scope", "mint", environment=server.environment).stdout
    key, secret = re.search(r"id: (\S+)", made)[1], re.search(r"slk_\S+", made)[0]
    sdk = PyVimeo(server, version, key=key, secret=secret)
    bearer = sdk.load_client_credentials(*([] if version in OLD else [["public", "private"]]))
    assert bearer.startswith("slv_")
    assert Plain(server, bearer)("GET", "/me").json()["error_code"] == 8002
    code = API(server.url, secret).post("/v1/vimeo/tokens", {"subject": "dora", "code": True}).json()["code"]
    exchanged = sdk.exchange_code(code, "http://app.example/")
    assert exchanged[0].startswith("slv_")
    assert Plain(server, exchanged[0])("GET", "/me").json()["name"] == "dora"
    with pytest.raises(Failed):
        sdk.exchange_code(code, "http://app.example/")


# Tickets


def parts(path):
    content = path.read_bytes()
    return content, len(content)


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        # PyVimeo, vimeo.php and vimeo.js, websemantics, VimeoUpload, dot-net.
        ("bytes: 0-{n}/{n}", "bytes: {k}-{n}/{n}"),
        ("bytes 0-{n}/{n}", "bytes {k}-{n}/{n}"),
        ("bytes 0-{m}/{n}", "bytes {k}-{m}/{n}"),
        ("bytes 0-{n}.0/{n}.0", "bytes {k}.0-{n}.0/{n}.0"),
        ("bytes 0-{k}/*", "bytes {k}-{n}/*"),
    ],
)
def test_a_ticket_in_two_pieces_as_each_client_sends_it(server, client, make_file, first, rest):
    content, n = parts(make_file(1000))
    k = 400
    ticket = client.ticket()
    link = ticket["upload_link"]
    assert link == ticket["upload_link_secure"]
    values = {"n": n, "k": k, "m": n - 1}
    plain = Plain(server)
    answer = plain("PUT", link, data=content[:k], headers={"Content-Range": first.format(**values)})
    assert (answer.status_code, answer.content) == (200, b"")
    probe = plain("PUT", link, headers={"Content-Range": "bytes */*"})
    is_inclusive = "{m}" in first
    assert probe.status_code == 308
    assert probe.headers["Range"] == f"bytes=0-{k - 1 if is_inclusive else k}"
    assert "Location" not in probe.headers
    early = client("DELETE", ticket["complete_uri"])
    if "*" not in first:
        assert (early.status_code, early.json()["error_code"]) == (400, 4011)
    answer = plain("PUT", link, data=content[k:], headers={"Content-Range": rest.format(**values)})
    if "*" in first:
        # What is complete was a file of the size so far.
        assert early.status_code == 201
        return
    assert answer.status_code == 200
    for _ in range(2):
        done = client("DELETE", ticket["complete_uri"])
        assert done.status_code == 201
        assert re.fullmatch(r"/videos/\d+", done.headers["Location"])
        assert done.json() == {}
    assert stored(server, done.headers["Location"]) == content
    again = plain("PUT", link, headers={"Content-Range": "bytes */*"})
    assert (again.status_code, again.headers["Range"]) == (308, f"bytes=0-{n - 1 if is_inclusive else n}")


def test_old_sdks_that_announce_more_than_they_send_resume_at_once(server, client, make_file):
    content, n = parts(make_file(1000))
    ticket = client.ticket()
    Plain(server)("PUT", ticket["upload_link"], data=content[:400], headers={"Content-Range": f"bytes 0-{n}/{n}"})
    # vimeo.php 1.3.0 and vimeo.js 1.2.1: Content-Length is that of the whole file.
    target = urlsplit(ticket["upload_link"])
    with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
        head = (
            f"PUT {target.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\nContent-Range: bytes 400-{n}/{n}\r\n\r\n"
        )
        connection.sendall(head.encode() + content[400:])
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 ")
    done = client("DELETE", ticket["complete_uri"])
    assert stored(server, done.headers["Location"]) == content


def raw(link, head, body=b""):
    """The status line and the fields of the answer to a request that HTTP libraries cannot send."""
    target = urlsplit(link)
    with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
        connection.sendall(f"PUT {target.path} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = connection.recv(4096)
            assert piece, answer
            answer += piece
            if answer.startswith(b"HTTP/1.1 100 "):
                answer = answer.partition(b"\r\n\r\n")[2]
    return answer


def test_links_to_content_end_with_the_token(server):
    """A link of one with a longer life is good for a day."""
    minted = API(server.url, server.admin_key).post("/v1/vimeo/tokens", {"subject": "short", "expiresIn": 60}).json()
    client = Plain(server, minted["access_token"])
    video = client.create(0)["uri"]
    for path, body in (("/pictures", {}), ("/texttracks", {"type": "captions"})):
        made = client("POST", video + path, json=body).json()
        assert requests.put(made["link"], data=b"content", timeout=20).status_code == 200
    picture = client("GET", video + "/pictures").json()["data"][0]["sizes"][0]["link"]
    track = client("GET", video + "/texttracks").json()["data"][0]
    found = client("GET", video).json()
    ends = [
        int(parse_qs(urlsplit(link).query)["expires"][0])
        for link in (picture, track["hls_link"], found["files"][0]["link"], found["download"][0]["link"])
    ]
    assert max(ends) <= time.time() + 61 and track["hls_link_expires_time"] == max(ends)
    # With another token there are other links, also for a client that knows the document.
    longer = Plain(server, token(server, "short"))
    seen = {"If-Modified-Since": email.utils.formatdate(time.time() - 1, usegmt=True)}
    again = longer("GET", video, headers=seen)
    assert again.status_code == 200
    assert int(parse_qs(urlsplit(again.json()["files"][0]["link"]).query)["expires"][0]) > time.time() + 3600


def test_foundation_sends_lengths_as_floats(server, client, make_file):
    """URLSession with the fields that VimeoUpload sets, as Swift's Foundation sends them on Linux."""
    content, n = parts(make_file(1000))
    video = client.create(n, "streaming")
    head = f"Content-Type: video/mp4\r\nContent-Length: {n}.0\r\nContent-Range: bytes 0-{n}.0/{n}.0"
    assert raw(video["upload"]["upload_link"], head, content).startswith(b"HTTP/1.1 200 ")
    assert stored(server, video["uri"]) == content
    # VimeoUpload does so for thumbnails, too.
    for path, body in (("/pictures", {}), ("/texttracks", {"type": "captions"})):
        made = client("POST", video["uri"] + path, json=body).json()
        assert raw(made["link"], head, content).startswith(b"HTTP/1.1 200 ")
        found = client("GET", made["uri"]).json()
        shown = found["sizes"][0]["link"] if path == "/pictures" else found["hls_link"]
        assert requests.get(shown, timeout=20).content == content
    assert raw(server.url + "/v1/media/x", head, content).startswith(b"HTTP/1.1 400 ")


def test_the_probe_of_vimeo_php_1_has_two_lengths(server, client):
    link = client.ticket()["upload_link"]
    head = (
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\nExpect: 100-continue\r\nContent-Range: bytes */*\r\n"
        "Accept: */*"
    )
    answer = raw(link, head, b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 308 ")
    assert b"\r\nRange: bytes=0-0\r\n" in answer
    assert raw(server.url + "/v1/media/x", head, b"0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_vimeo_php_2_repeats_the_length_of_the_whole_file(server, client, make_file):
    content, n = parts(make_file(1000))
    link = client.create(n)["upload"]["upload_link"]
    fields = TUS | {"Content-Type": "application/offset+octet-stream"}
    requests.patch(link, data=content[:300], headers=fields | {"Upload-Offset": "0"}, timeout=20)
    target = urlsplit(link)
    with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
        head = f"PATCH {target.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\nUpload-Offset: 300\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in fields.items()
        )
        connection.sendall((head + "\r\n").encode() + content[300:])
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert f"Upload-Offset: {n}".encode() in answer


def test_tickets_are_not_videos_and_videos_are_not_tickets(client):
    ticket = client.ticket(size=10)
    video = f"/videos/{ticket['ticket_id']}"
    assert client("GET", video).status_code == 404
    assert client("DELETE", video).status_code == 404
    assert client("GET", ticket["uri"]).json()["upload_link"] == ticket["upload_link"]
    other = client.create(10)
    assert client("GET", ticket["uri"].replace(ticket["ticket_id"], other["uri"].split("/")[-1])).status_code == 404
    complete = ticket["complete_uri"]
    answers = [
        (complete.split("?")[0], 5007),
        (complete[:-1] + ("A" if complete[-1] != "A" else "B"), 8400),
        (complete.replace(ticket["ticket_id"], "217340000123456"), 5006),
    ]
    for uri, code in answers:
        answer = client("DELETE", uri)
        assert (answer.status_code, answer.json()["error_code"]) == (404, code)


# Videos


def test_the_answer_to_a_creation_is_complete(server, client):
    made = client("POST", "/me/videos", json={"name": "N", "upload": {"approach": "tus", "size": "3000000"}})
    assert made.headers["Content-Type"] == "application/vnd.vimeo.video+json"
    video = made.json()
    assert re.fullmatch(r"/videos/\d+", video["uri"])
    assert re.fullmatch(r"[0-9a-f]{40}", video["resource_key"])
    assert video["status"] == "uploading"
    upload = video["upload"]
    assert (upload["approach"], upload["size"], upload["status"]) == ("tus", 3000000, "in_progress")
    assert upload["upload_link"].startswith(server.url)
    assert isinstance(video["privacy"]["download"], bool)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", video["created_time"])
    space = video["user"]["upload_quota"]["space"]
    assert space["unit"] == "video_size"
    assert space["free"] > 0
    for name in ("pictures", "texttracks"):
        assert video["metadata"]["connections"][name]["uri"] == f"{video['uri']}/{name}"
    fields = made.headers
    assert int(fields["X-RateLimit-Remaining"]) < int(fields["X-RateLimit-Limit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", fields["X-RateLimit-Reset"])
    filtered = client(
        "POST", "/me/videos?fields=upload.upload_link%2Curi&fields=uri", json={"upload": {"approach": "tus", "size": 1}}
    )
    assert filtered.json().keys() == {"uri", "upload"}
    assert filtered.json()["upload"].keys() == {"upload_link"}


def test_what_a_user_may_still_upload(server):
    """`space` mirrors the tighter limit, and says which (section 7)."""
    api = API(server.url, server.admin_key)
    for number, (policy, showing, most) in enumerate(
        (
            ({"storedBytes": 1000, "periodBytes": 5000}, "lifetime", 1000),
            ({"storedBytes": 1000, "periodBytes": 500}, "periodic", 500),
            ({"periodBytes": 500}, "periodic", 500),
            ({"storedBytes": 1000}, "lifetime", 1000),
        )
    ):
        assert api.request("PUT", f"/v1/quota/subjects/left-{number}", json=policy).status_code == 200
        client = Plain(server, token(server, f"left-{number}"))
        made = client.create(100)["user"]["upload_quota"]
        quota = client("GET", "/me").json()["upload_quota"]
        assert quota["space"] == {
            "free": most - 100,
            "max": most,
            "used": 100,
            "unit": "video_size",
            "showing": showing,
        }
        for name, limit in (("periodic", "periodBytes"), ("lifetime", "storedBytes")):
            found = {key: quota[name][key] for key in ("free", "max", "used", "unit")}
            limit = policy.get(limit)
            assert found == {"free": limit and limit - 100, "max": limit, "used": 100, "unit": "video_size"}
        periodic = quota["periodic"]
        assert (periodic["period"] in ("week", "month", "year")) == ("periodBytes" in policy)
        assert (periodic["reset_date"] is not None) == ("periodBytes" in policy)
        # A creation tells what was left before it, or after.
        assert made["space"]["max"] == most
        assert quota["quota"] == {"hd": True, "sd": True}


def test_a_streamed_file(server, client, make_file):
    content, n = parts(make_file(MIB))
    video = client.create(n, "streaming")
    fields = {"Content-Type": "video/mp4", "Content-Range": f"bytes 0-{n}.0/{n}.0"}
    for _ in range(2):
        assert client("PUT", video["upload"]["upload_link"], data=content, headers=fields).status_code == 200
    found = client("GET", video["uri"]).json()
    assert (found["status"], found["upload"]["status"], found["transcode"]["status"]) == (
        "available",
        "complete",
        "complete",
    )
    assert stored(server, video["uri"]) == content


def test_a_client_that_starts_again_overwrites(server, client, make_file):
    content, n = parts(make_file(1000))
    link = client.create(n, "streaming")["upload"]["upload_link"]
    target = urlsplit(link)
    with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
        connection.sendall(
            f"PUT {target.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n".encode() + bytes(500)
        )
        time.sleep(0.3)
        # The first is still there when the second comes: the newer wins.
        assert client("PUT", link, data=content).status_code == 200
    probe = client("PUT", link, headers={"Content-Range": "bytes */*"})
    assert probe.headers["Range"] == f"bytes=0-{n}"
    beyond = client.create(n, "streaming")["upload"]["upload_link"]
    answer = client("PUT", beyond, data=content[5:], headers={"Content-Range": f"bytes 5-{n}/{n}"})
    assert (answer.status_code, answer.headers["Range"]) == (308, "bytes=0-0")


def test_a_form(server, client, make_file):
    content, _ = parts(make_file(1000))
    video = client.create(None, "post", upload={"approach": "post", "redirect_url": "https://app.example/done?a=1"})
    upload = video["upload"]
    assert 'name="file_data"' in upload["form"]
    assert upload["upload_link"] in upload["form"]
    answer = Plain(server)("POST", upload["upload_link"], files={"file_data": ("x.mp4", content)}, data={"other": "1"})
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"https://app.example/done?a=1&video_uri={video['uri'].replace('/', '%2F')}"
    assert stored(server, video["uri"]) == content
    # A client that loses its body gets a form, too.
    lost = client("POST", "/me/videos")
    assert (lost.status_code, lost.json()["upload"]["approach"]) == (201, "post")


def test_a_form_of_the_old_upload(server, make_file):
    """Its ticket has a form, and nothing completes it but the form (protocol notes §5.2)."""
    client = Plain(server, token(server), accept="application/vnd.vimeo.*+json;version=3.2")
    content, _ = parts(make_file(1000))
    place = "https://app.example/done?a=1"
    made = client("POST", "/me/videos", json={"type": "POST", "redirect_url": place, "name": "N"})
    assert (made.status_code, made.headers["Content-Type"]) == (201, "application/vnd.vimeo.uploadticket+json")
    ticket = made.json()
    assert (ticket["complete_uri"], ticket["upload_link"]) == (None, ticket["upload_link_secure"])
    assert f'action="{ticket["upload_link"]}"' in ticket["form"] and 'name="file_data"' in ticket["form"]
    assert client("GET", ticket["uri"]).json() | {"quota": 0, "user": 0} == ticket | {"quota": 0, "user": 0}
    answer = Plain(server)("POST", ticket["upload_link"], files={"file_data": ("x.mp4", content)})
    video = f"/videos/{ticket['ticket_id']}"
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{place}&video_uri={video.replace('/', '%2F')}")
    assert stored(server, video) == content
    assert client("GET", video).json()["name"] == "N"
    assert client("DELETE", ticket["uri"] + "?signature=x").status_code == 404
    # Also with the members in the query, and without a place to go to.
    other = client("POST", "/me/videos?type=post").json()
    assert Plain(server)("POST", other["upload_link"], files={"file_data": ("x.mp4", content)}).status_code == 200


def test_a_video_is_an_upload_like_all_others(server, client):
    video = client.create(10)
    upload = upload_of(server, video["uri"])
    assert (upload["dialect"], upload["length"], upload["subject"]) == ("vimeo", 10, "dora")
    assert client("DELETE", video["uri"]).status_code == 204
    assert upload_of(server, video["uri"])["state"] == "terminated"
    for method in ("HEAD", "PATCH", "OPTIONS"):
        fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        answer = requests.request(method, video["upload"]["upload_link"], headers=fields, timeout=20)
        assert answer.status_code == 404
        assert "410" not in answer.text and "GONE" not in answer.text


def test_the_app_is_told_of_videos_by_their_uri(tmp_path):
    """Creation and completion, by hooks and by the stream of events; also of a file that came by the Old Upload."""
    secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
    with Receiver(secret) as receiver:
        events = "post-create, post-finish, pre-terminate, post-terminate"
        hooks = {"URL": receiver.url, "SECRET": secret, "EVENTS": events}
        settings = {f"SLUICE_HOOKS_{name}": value for name, value in hooks.items()}
        with Server(tmp_path / "data", environment=settings) as server, Stream(server) as stream:
            client = Plain(server, token(server))
            video = client.create(5)
            fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            requests.patch(video["upload"]["upload_link"], data=b"hello", headers=fields, timeout=20)
            ticket = client.ticket()
            client("PUT", ticket["upload_link"], data=b"hello")
            done = client("DELETE", ticket["complete_uri"]).headers["Location"]
            for uri in (video["uri"], done):
                identifier = upload_of(server, uri)["id"]
                # Events come when they come, but the question before a removal is asked at once.
                receiver.wait("post-finish", upload=identifier)
                # The app keeps it at first.
                receiver.reply = {"RejectTermination": True}
                assert client("DELETE", uri).status_code == 403
                assert client("GET", uri).json()["status"] == "available"
                receiver.reply = {}
                assert client("DELETE", uri).status_code == 204
                receiver.wait("post-terminate", upload=identifier)
                told = [call for call in receiver.calls if call.upload["ID"] == identifier]
                wanted = ["post-create", "post-finish", "pre-terminate", "pre-terminate", "post-terminate"]
                assert [call.type for call in told] == wanted
                assert {call.upload["MetaData"]["vimeo_uri"] for call in told} == {uri}
                assert {call.upload["Subject"] for call in told} == {"dora"}
                until(
                    lambda identifier=identifier: [
                        e
                        for e in stream.events
                        if e.name == "upload.terminated" and e.json["upload"]["id"] == identifier
                    ]
                )
                shown = [e for e in stream.events if e.name != "ready" and e.json["upload"]["id"] == identifier]
                assert {e.json["upload"]["metadata"]["vimeo_uri"] for e in shown} == {uri}


def test_lists_have_pages(server):
    client = Plain(server, token(server, "lister"))
    made = [client.create(1)["uri"] for _ in range(5)]
    client.ticket()
    page = client("GET", "/me/videos?per_page=2&page=2&fields=uri").json()
    assert (page["total"], page["page"], page["per_page"]) == (5, 2, 2)
    assert [video["uri"] for video in page["data"]] == made[::-1][2:4]
    # What was asked for stays.
    assert page["paging"]["next"] == "/me/videos?page=3&per_page=2&fields=uri"
    assert page["paging"]["previous"] == "/me/videos?page=1&per_page=2&fields=uri"
    last = client("GET", page["paging"]["last"]).json()
    assert last["paging"]["next"] is None
    assert [video.keys() for video in last["data"]] == [{"uri"}]
    found, path = [], "/me/videos?fields=uri%2Cname&sort=date&per_page=2&direction=asc"
    while path:
        page = client("GET", path).json()
        assert all(video.keys() == {"uri", "name"} for video in page["data"])
        found += [video["uri"] for video in page["data"]]
        path = page["paging"]["next"]
        assert path is None or path.endswith("&fields=uri%2Cname&sort=date&direction=asc")
    assert found == made[::-1]
    for query in ("per_page=101", "page=0", "page=x"):
        assert client("GET", f"/me/videos?{query}").json()["error_code"] == 2204


def unmodified(client, uri):
    """When the video was modified last, for `If-Modified-Since`, once the gateway answers 304 for that."""
    known = client("GET", uri).headers["Last-Modified"]

    def is_known():
        nonlocal known
        answer = client("GET", uri, headers={"If-Modified-Since": known})
        known = answer.headers["Last-Modified"]
        return answer.status_code == 304 and answer.content == b""

    until(is_known, timeout=20, interval=0.1)
    return {"If-Modified-Since": known}


def test_unmodified_videos_are_not_sent_again(client):
    uri = client.create(1)["uri"]
    since = unmodified(client, uri)
    assert client("GET", uri, headers=since).status_code == 304
    old = client("GET", uri, headers={"If-Modified-Since": "Mon, 01 Jan 2024 00:00:00 GMT"})
    assert old.status_code == 200


def test_what_changes_in_the_second_of_an_answer_is_not_missed(client):
    """By the time of the last change, and by the time of the answer."""
    uri = client.create(1)["uri"]
    for number in range(30):
        client("PATCH", uri, json={"name": f"first {number}"})
        answer = client("GET", uri)
        client("PATCH", uri, json={"name": f"second {number}"})
        for name in ("Last-Modified", "Date"):
            if name in answer.headers:
                again = client("GET", uri, headers={"If-Modified-Since": answer.headers[name]})
                assert again.status_code == 200 and again.json()["name"] == f"second {number}", name


def test_what_belongs_to_a_video_changes_it(server):
    client = Plain(server, token(server, "changes"))
    uri = client.create(3, "streaming")["uri"]
    link = client("GET", uri).json()["upload"]["upload_link"]
    made = {}

    def add(name, **body):
        made[name] = client("POST", f"{uri}/{name}", json=body)
        return made[name]

    def send(name):
        return client("PUT", made[name].json()["link"], data=b"abc")

    upload = {"approach": "tus", "size": 1}
    steps = [
        lambda: client("PUT", link, data=b"abc"),
        lambda: add("pictures", active=True),
        lambda: send("pictures"),
        lambda: add("texttracks", type="captions"),
        lambda: send("texttracks"),
        lambda: client("PATCH", made["texttracks"].json()["uri"], json={"name": "x"}),
        lambda: client("PATCH", made["texttracks"].json()["uri"], json={"active": True}),
        lambda: client("DELETE", made["texttracks"].json()["uri"]),
        lambda: client("PATCH", made["pictures"].json()["uri"], json={"active": False}),
        lambda: client("DELETE", made["pictures"].json()["uri"]),
        lambda: add("versions", file_name="b.mp4", upload=upload),
    ]
    for number, step in enumerate(steps):
        since = unmodified(client, uri)
        answer = step()
        assert answer.status_code in (200, 201, 204), answer.text
        assert client("GET", uri, headers=since).status_code == 200, number
    # A refusal of its bytes is seen in its status.
    api = API(server.url, server.admin_key)
    uri = client("POST", "/me/videos", json={"upload": {"approach": "streaming"}}).json()["uri"]
    since = unmodified(client, uri)
    assert api.request("PUT", "/v1/quota/subjects/changes", json={"storedBytes": 5}).status_code == 200
    link = client("GET", uri).json()["upload"]["upload_link"]
    assert client("PUT", link, data=bytes(100)).status_code == 403
    assert client("GET", uri, headers=since).json()["status"] == "quota_exceeded"


def test_edits_come_in_several_forms(client):
    uri = client.create(1)["uri"]
    edited = client(
        "PATCH", uri, data="name=A%20B&privacy.view=nobody", headers={"Content-Type": "text/plain;charset=UTF-8"}
    )
    assert (edited.json()["name"], edited.json()["privacy"]["view"]) == ("A B", "nobody")
    edited = client("POST", uri, json={"description": "D"}, headers={"X-HTTP-Method-Override": "PATCH"})
    assert (edited.json()["name"], edited.json()["description"]) == ("A B", "D")
    edited = client("PATCH", uri, data={"privacy.download": "true"})
    assert edited.json()["privacy"]["download"] is True
    assert client("PATCH", uri, json={"name": "x" * 129}).json()["invalid_parameters"][0]["error_code"] == 2250


def test_a_client_in_java_sends_dotted_forms_and_chunks(server, client, make_file):
    """As clickntap's: a form with dotted names, a PATCH without a length, a space before its type."""
    content, n = parts(make_file(100_000))
    form = {"upload.approach": "tus", "upload.size": str(n), "name": "A", "privacy.view": "nobody"}
    accept = {"Accept": "application/vnd.vimeo.*+json;version=3.4"}
    made = client("POST", "/me/videos", data=form, headers=accept)
    assert (made.status_code, made.json()["upload"]["approach"], made.json()["upload"]["size"]) == (200, "tus", n)
    assert (made.json()["name"], made.json()["privacy"]["view"]) == ("A", "nobody")
    link = urlsplit(made.json()["upload"]["upload_link"])
    tus = {"Tus-Resumable": "1.0.0"}

    def send(method, headers, body=None):
        connection = http.client.HTTPConnection(link.hostname, link.port, timeout=30)
        connection.request(method, link.path, body, accept | tus | headers, encode_chunked=body is not None)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    assert send("HEAD", {}).headers["Upload-Offset"] == "0"
    fields = {"Upload-Offset": "0", "Content-Type": "  application/offset+octet-stream", "Transfer-Encoding": "chunked"}
    assert send("PATCH", fields, iter([content[:70_000], content[70_000:]])).status == 204
    assert send("HEAD", {}).headers["Upload-Offset"] == str(n)
    assert stored(server, made.json()["uri"]) == content
    uri = made.json()["uri"]
    track = client(
        "POST", uri + "/texttracks", data={"active": "true", "type": "captions", "language": "en", "name": "n"}
    )
    assert track.status_code == 201
    chunks = iter([b"WEBVTT\n", b"\n"])
    sent = requests.put(track.json()["link"], data=chunks, headers={"Content-Type": "multipart/form-data"}, timeout=30)
    assert sent.status_code == 200
    # Java writes the names of a form in ISO 8859-1, unless it is told otherwise.
    latin = client("POST", "/me/videos", data="upload.approach=tus&upload.size=1&name=%C4", headers=FORM)
    assert latin.status_code == 400


# Access


def test_tokens_and_their_scopes(server):
    api = API(server.url, server.admin_key)
    made = api.post("/v1/vimeo/tokens", {"subject": "capped", "scopes": ["public", "upload"], "quota": 1000}).json()
    assert made["token_type"] == "bearer"
    assert made["scope"] == "public upload"
    assert made["user"]["upload_quota"]["space"]["max"] == 1000
    client = Plain(server, made["access_token"])
    client.fields["Authorization"] = client.fields["Authorization"].replace("Bearer", "bearer")
    uri = client.create(1)["uri"]
    for method, scope in (("PATCH", "edit"), ("DELETE", "delete")):
        answer = client(method, uri, json={"name": "x"})
        assert answer.status_code == 403
        assert scope in answer.json()["error"]
    assert client("GET", "/oauth/verify").json()["scope"] == "public upload"
    refused = client("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 1001}})
    assert (refused.status_code, refused.json()["error_code"]) == (403, 3428)
    assert client("DELETE", "/tokens").status_code == 204
    ended = client("GET", "/me")
    assert ended.status_code == 401
    assert ended.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert ended.headers["Content-Type"] == "application/vnd.vimeo.error+json"


def test_users_reach_only_their_own(server):
    dora, eve = Plain(server, token(server, "dora")), Plain(server, token(server, "eve"))
    video, ticket = dora.create(1), dora.ticket()
    for method, path in (
        ("GET", video["uri"]),
        ("PATCH", video["uri"]),
        ("DELETE", video["uri"]),
        ("GET", video["uri"] + "/status"),
        ("GET", ticket["uri"]),
        ("DELETE", ticket["complete_uri"]),
        ("GET", video["user"]["uri"]),
        ("POST", video["user"]["uri"] + "/videos"),
        ("GET", video["user"]["uri"] + "/videos"),
    ):
        assert eve(method, path).status_code == 404, path
        assert dora("GET", video["user"]["uri"]).status_code == 200


def test_wrong_credentials(server):
    for fields, code in (
        ({}, 8003),
        ({"Authorization": "Bearer x"}, 8000),
        ({"Authorization": f"Bearer {server.admin_key}"}, 8000),
        ({"Authorization": "Digest x"}, 8000),
        (basic("key_x", "y"), 8001),
    ):
        answer = Plain(server)("GET", "/me", headers=fields)
        assert (answer.status_code, answer.json()["error_code"]) == (401, code)
    answer = Plain(server)(
        "POST", "/oauth/authorize/client", data={"grant_type": "client_credentials"}, headers=basic("a", "b")
    )
    assert (answer.status_code, answer.json()["error_code"]) == (401, 8001)


def test_versions_and_bodies_must_fit(client):
    for accept, body in (("3.4", {"type": "streaming"}), ("3.2", {"upload": {"approach": "tus", "size": 1}})):
        answer = client(
            "POST", "/me/videos", json=body, headers={"Accept": f"application/vnd.vimeo.*+json;version={accept}"}
        )
        assert (answer.status_code, answer.json()["error_code"]) == (400, 3116)


@pytest.mark.parametrize("size", [-1, "-1", "x", "1.5", 1.5, True, [], 1 << 70])
def test_sizes_that_are_none(client, size):
    answer = client("POST", "/me/videos", json={"upload": {"approach": "tus", "size": size}})
    assert answer.status_code == 400
    assert answer.json()["error_code"] == 2204
    assert answer.json()["invalid_parameters"][0]["field"] == "upload.size"


def test_too_many_calls_are_refused(tmp_path):
    with Server(tmp_path / "data", environment={"SLUICE_VIMEO_CALLS_PER_MINUTE": "3"}) as server:
        # Again, if a new minute began in the middle.
        for attempt in itertools.count():
            client = Plain(server, token(server, f"user{attempt}"))
            answers = [client("GET", "/me") for _ in range(4)]
            if len({answer.headers["X-RateLimit-Reset"] for answer in answers}) == 1:
                break
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
        assert Plain(server, token(server, "eve"))("GET", "/me").status_code == 200


def test_a_key_ends_only_so_many_tokens(tmp_path):
    """Each is a record that frees nothing, and a key that may mint chooses another user for each."""
    with Server(tmp_path / "data", environment={"SLUICE_VIMEO_CALLS_PER_MINUTE": "1"}) as server:
        # Again, if a new minute began in the middle.
        for attempt in itertools.count():
            tokens = [token(server, f"user{attempt}-{number}") for number in range(12)]
            answers = [Plain(server, one)("DELETE", "/tokens") for one in tokens]
            if [answer.status_code for answer in answers][:10] == [204] * 10 and (
                len({answer.headers["X-RateLimit-Reset"] for answer in answers}) == 1
            ):
                break
            assert attempt < 5
        assert [answer.status_code for answer in answers[10:]] == [429, 429]
        assert "Retry-After" in answers[11].headers
        assert Plain(server, token(server, "eve"))("GET", "/me").status_code == 200


def test_links_do_not_ask_who_comes(server, client):
    video = client.create(3, "streaming")
    link = video["upload"]["upload_link"]
    for query in ("?fields=error", "?a=b&fields=error"):
        answer = Plain(server, "anything")("PUT", link + query, headers={"Content-Range": "bytes */*"})
        assert answer.status_code == 308
    wrong = link[:-1] + ("A" if link[-1] != "A" else "B")
    assert Plain(server)("PUT", wrong, data=b"abc").status_code == 404
    other = client.create(3, "streaming")["upload"]["upload_link"]
    mixed = other.rsplit(".", 1)[0] + "." + link.rsplit(".", 1)[1]
    assert Plain(server)("PUT", mixed, data=b"abc").status_code == 404
    for method in ("GET", "DELETE", "PATCH", "POST"):
        assert Plain(server)(method, link).status_code == 405
    client("DELETE", video["uri"])
    assert Plain(server)("PUT", link, data=b"abc").status_code == 404


# Other files, pictures, text tracks


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_replaces_a_file(server, make_file, version):
    sdk = PyVimeo(server, version, token(server))
    uri = sdk.upload(str(make_file(1000)))
    client = Plain(server, sdk.credentials["token"])
    for size in (2000, 3000):
        path = make_file(size, f"other-{size}.mp4")
        assert sdk.replace(uri, str(path)) == uri
        video = client("GET", uri).json()
        assert video["status"] == "available"
        assert requests.get(video["files"][0]["link"], timeout=20).content == path.read_bytes()
    versions = client("GET", uri + "/versions").json()
    assert versions["total"] == 3
    assert [one["active"] for one in versions["data"]] == [True, False, False]
    assert [one["filesize"] for one in versions["data"]] == [3000, 2000, 1000]
    assert sdk.delete(uri)["status"] == 204
    assert client("GET", uri).status_code == 404
    uploads = API(server.url, server.admin_key).get("/v1/uploads", params={"limit": 10}).json()["uploads"]
    assert {one["state"] for one in uploads if one["metadata"].get("vimeo_uri") == uri} == {"terminated"}


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_adds_a_picture_and_a_text_track(server, make_file, version):
    sdk = PyVimeo(server, version, token(server))
    uri = sdk.upload(str(make_file(1000)))
    image, track = make_file(500, "cover.jpg"), make_file(100, "sub.vtt")
    client = Plain(server, sdk.credentials["token"])
    sdk.upload_picture(uri, str(image), activate=True)
    sdk.upload_texttrack(uri, "captions", "en-US", str(track))
    video = client("GET", uri).json()
    assert video["pictures"]["active"] is True
    assert requests.get(video["pictures"]["sizes"][0]["link"], timeout=20).content == image.read_bytes()
    connections = video["metadata"]["connections"]
    assert (connections["pictures"]["total"], connections["texttracks"]["total"]) == (1, 1)
    [found] = client("GET", uri + "/texttracks").json()["data"]
    assert (found["type"], found["language"]) == ("captions", "en-US")
    assert requests.get(found["hls_link"], timeout=20).content == track.read_bytes()
    assert client("DELETE", found["uri"]).status_code == 204
    assert client("DELETE", found["uri"]).status_code == 404
    assert client("DELETE", uri).status_code == 204
    for gone in (video["pictures"]["uri"], found["uri"]):
        assert client("GET", gone).status_code == 404
    uploads = API(server.url, server.admin_key).get("/v1/uploads", params={"limit": 10}).json()["uploads"]
    states = {one["state"] for one in uploads if one["metadata"].get("vimeo_uri", "").startswith(uri)}
    assert states == {"terminated"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pictures", {}),
        ("texttracks", {"type": "captions", "language": "en", "name": "t"}),
        ("versions", {"file_name": "a.mp4", "upload": {"approach": "tus", "size": 5}}),
    ],
)
def test_no_video_has_more_than_a_hundred_of_a_kind(server, kind, body):
    """However many are added at once; each has an id of its own."""
    # Calls are limited for each user and minute.
    client = Plain(server, token(server, subject=f"many {kind}"))
    uri = client.create(0)["uri"]
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: client("POST", f"{uri}/{kind}", json=body), range(130)))
    statuses = Counter(answer.status_code for answer in made)
    assert statuses == {201: 100, 403: 30}, statuses
    uris = [answer.json()["uri"] for answer in made if answer.status_code == 201]
    assert len(set(uris)) == 100
    listed = client("GET", f"{uri}/{kind}?per_page=100").json()
    # The video itself is its first version.
    own = 1 if kind == "versions" else 0
    assert listed["total"] == 100 + own


def test_pictures_as_other_clients_send_them(server, client):
    uri = client.create(0)["uri"]
    made = client("POST", uri + "/pictures?fields=link,uri,active")
    assert (made.status_code, made.json()["active"]) == (201, False)
    assert made.headers["Content-Type"] == "application/vnd.vimeo.picture+json"
    link = made.json()["link"]
    # vimeo.php sends it chunked, PyVimeo with another query item and a token.
    answer = client("PUT", link + "?fields=error", data=iter([b"ab", b"c"]))
    assert (answer.status_code, answer.json()["Status"]) == (200, "success")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for data in (b"abc", iter([b"a", b"bc"])):
        # As after a response that was lost.
        assert Plain(server)("PUT", link, data=data, headers=form).status_code == 200
    for data in (b"evil", iter([b"evil"]), b""):
        answer = Plain(server)("PUT", link, data=data, headers=form)
        assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/vnd.vimeo.error+json")
    for active, kept in (("true", True), (True, True), (False, False), ("true", True)):
        assert client("PATCH", made.json()["uri"], json={"active": active}).json()["active"] is kept
    video = client("GET", uri).json()
    assert requests.get(video["pictures"]["sizes"][0]["link"], timeout=20).content == b"abc"
    query = parse_qs(urlsplit(video["pictures"]["sizes"][0]["link"]).query)
    # In milliseconds the one, in seconds the other.
    assert int(query["expires"][0]) - int(query["issued"][0]) // 1000 == 86_400
    for method in ("GET", "POST", "DELETE"):
        assert Plain(server)(method, link).status_code == 405
    assert Plain(server)("PUT", link[:-1] + ("A" if link[-1] != "A" else "B"), data=b"x").status_code == 404
    assert Plain(server)("PUT", link.replace("/pictures/", "/texttracks/"), data=b"x").status_code == 404
    other = Plain(server, token(server, "eve"))
    assert other("GET", made.json()["uri"]).status_code == 404
    assert other("POST", uri + "/pictures").status_code == 404
    client("DELETE", uri)
    assert Plain(server)("PUT", link, data=b"x").status_code == 404


def test_a_text_track_is_renamed(client):
    """go-vimeo's EditTextTrack sends name and language; others stay as they are."""
    uri = client.create(0)["uri"]
    track = {"type": "captions", "language": "en", "name": "a.vtt"}
    made = client("POST", uri + "/texttracks", json=track).json()["uri"]
    changes = [{"name": "b.vtt"}, {"language": "de-AT"}, {"type": "subtitles", "active": True}, {"active": "false"}]
    for change in changes:
        answer = client("PATCH", made, json=change)
        assert answer.status_code == 200
        track |= change
        for found in (answer.json(), client("GET", made).json(), client("GET", uri + "/texttracks").json()["data"][0]):
            assert {name: found[name] for name in ("type", "language", "name")} == {
                name: track[name] for name in ("type", "language", "name")
            }
            assert found["display_language"] == track["language"]
            assert found["active"] is (track.get("active") is True)
    answer = client("PATCH", made, data="name=c.vtt&language=fr", headers={"Content-Type": "text/plain"})
    assert (answer.json()["name"], answer.json()["language"]) == ("c.vtt", "fr")
    for body in ({"type": "songs"}, {"language": 7}, {"name": "x" * 257}, {"active": "maybe", "name": "y"}):
        answer = client("PATCH", made, json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 2204)
    assert client("GET", made).json()["name"] == "c.vtt"


def test_text_tracks_that_are_wrong(client):
    uri = client.create(0)["uri"]
    for body in ({"type": "songs", "language": "en"}, {"language": "en"}, {"type": "captions", "name": "x" * 257}):
        answer = client("POST", uri + "/texttracks", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 2204)


def test_lists_of_a_video_have_pages(client):
    uri = client.create(3, "streaming")["uri"]
    link = client("GET", uri).json()["upload"]["upload_link"]
    assert client("PUT", link, data=b"abc").status_code == 200
    for name in ("pictures", "texttracks", "versions"):
        upload = {"approach": "tus", "size": 5}
        body = {"type": "captions", "file_name": "x.mp4", "upload": upload}
        made = [client("POST", f"{uri}/{name}", json=body).json()["uri"] for _ in range(4)]
        if name == "versions":
            made = [*made[::-1], uri + "/versions/" + uri.rsplit("/", 1)[1]]
        page = client("GET", f"{uri}/{name}?per_page=2&page=2&fields=uri").json()
        assert (page["total"], page["page"], page["per_page"]) == (len(made), 2, 2)
        assert [one["uri"] for one in page["data"]] == made[2:4]
        assert page["paging"]["previous"] == f"{uri}/{name}?page=1&per_page=2&fields=uri"
        # Each has its own uri.
        for one in made:
            found = client("GET", one)
            assert (found.status_code, found.json()["uri"]) == (200, one)
        assert client("GET", f"{uri}/{name}/7").status_code == 404
        assert client("GET", f"{uri}/{name}?per_page=101").json()["error_code"] == 2204
    # The first file tells how it was uploaded.
    last = client("GET", uri + "/versions?page=5&per_page=1").json()["data"][0]
    assert (last["upload"]["approach"], last["upload"]["upload_link"]) == ("streaming", link)
    assert (last["active"], last["filesize"]) == (True, 3)


def test_versions_that_are_wrong(client):
    uri = client.create(0)["uri"]
    upload = {"approach": "tus", "size": 5}
    for where, body, code in (
        (uri, {"file_name": "x.mp4"}, 5011),
        ("/videos/217340000123456", {"file_name": "x.mp4", "upload": upload}, 5012),
        (uri, {"file_name": "x.mp4", "upload": upload | {"approach": "post"}}, 5013),
    ):
        answer = client("POST", where + "/versions", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (404, code)
    assert client("POST", uri + "/versions", json={"upload": upload}).json()["error_code"] == 2204
    made = client("POST", uri + "/versions", json={"file_name": "x.mp4", "upload": upload})
    assert made.status_code == 201
    assert made.headers["Content-Type"] == "application/vnd.vimeo.video.version+json"
    assert re.fullmatch(uri + r"/versions/\d+", made.json()["uri"])
    shown = client("GET", made.json()["uri"])
    assert shown.headers["Content-Type"] == "application/vnd.vimeo.video.version+json"
    assert shown.json()["upload"] == made.json()["upload"]
    assert client("GET", made.json()["uri"] + "?fields=filename").json() == {"filename": "x.mp4"}
    assert Plain(client.server, token(client.server, "eve"))("GET", made.json()["uri"]).status_code == 404
    assert client("DELETE", made.json()["uri"]).status_code == 405
    # Until it is complete, the video shows what it had.
    assert client("GET", uri).json()["status"] == "available"


# Pulls


def test_a_pulled_video(tmp_path):
    content = os.urandom(100_000)
    with Origin() as origin, Server(tmp_path / "data", environment=PULLS) as server:
        origin.resources["/clip.mp4"] = Resource(content, content_type="video/mp4")
        check_pulls(server, origin, content)


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_has_a_file_pulled(tmp_path, version):
    """With a raw POST, because `upload` always sends the bytes itself (protocol notes §4.5, §5.2)."""
    content = os.urandom(100_000)
    with Origin() as origin, Server(tmp_path / "data", environment=PULLS) as server:
        origin.resources["/clip.mp4"] = Resource(content, content_type="video/mp4")
        sdk = PyVimeo(server, version, token(server))
        made = sdk.post("/me/videos", data=pulled(version, origin.url + "/clip.mp4"))
        assert made["status"] == 201
        uri = made["json"]["uri"]
        until(lambda: sdk.get(uri)["json"]["status"] == "available")
        assert stored(server, uri) == content


def test_pulls_of_the_old_upload(tmp_path):
    """`type` is `pull` before 3.4, with the link beside it, also in the query (protocol notes §5.2)."""
    content = os.urandom(10_000)
    with Origin() as origin, Server(tmp_path / "data", environment=PULLS) as server:
        origin.resources["/clip.mp4"] = Resource(content, content_type="video/mp4")
        link = origin.url + "/clip.mp4"
        client = Plain(server, token(server), accept="application/vnd.vimeo.*+json;version=3.2")
        for options in ({"json": {"type": "pull", "link": link}}, {"params": {"type": "pull", "link": link}}):
            made = client("POST", "/me/videos", **options)
            assert (made.status_code, made.headers["Content-Type"]) == (201, "application/vnd.vimeo.video+json")
            uri = made.json()["uri"]
            until(lambda uri=uri: client("GET", uri).json()["status"] == "available")
            assert stored(server, uri) == content
        for wrong in ("ftp://x/y", "http://10.0.0.1/x", "", 7, None):
            answer = client("POST", "/me/videos", json={"type": "pull", "link": wrong})
            assert answer.status_code == 400
            assert [one["field"] for one in answer.json()["invalid_parameters"]] == ["link"]
        # The file of a video is replaced by its bytes only.
        answer = client("PUT", uri + "/files", json={"type": "pull", "link": link})
        assert (answer.status_code, answer.json()["invalid_parameters"][0]["error_code"]) == (400, 2230)


def check_pulls(server, origin, content):
    client = Plain(server, token(server))
    for name in ("link", "upload_link"):
        made = client.create(None, "pull", upload={"approach": "pull", name: origin.url + "/clip.mp4"})
        until(lambda uri=made["uri"]: client("GET", uri).json()["status"] == "available")
        assert stored(server, made["uri"]) == content
    lost = client.create(None, "pull", upload={"approach": "pull", "link": origin.url + "/missing"})
    until(lambda: client("GET", lost["uri"]).json()["status"] == "uploading_error")
    assert client("GET", lost["uri"] + "/status").json()["state"] == "failed"
    assert client("DELETE", lost["uri"]).status_code == 204
    # What a limit refuses has the status that clients know for it.
    api = API(server.url, server.admin_key)
    for name, policy, cap, status in (
        ("stored", {"storedBytes": 1000}, None, "quota_exceeded"),
        ("period", {"periodBytes": 1000}, None, "quota_exceeded"),
        ("largest", {"uploadBytes": 1000}, None, "quota_exceeded"),
        ("capped", {}, 1000, "total_cap_exceeded"),
        ("both", {"periodBytes": 1000}, 1000, "quota_exceeded"),
    ):
        assert api.request("PUT", f"/v1/quota/subjects/{name}", json=policy).status_code == 200
        other = Plain(server, token(server, name, **({"quota": cap} if cap else {})))
        uri = other.create(None, "pull", upload={"approach": "pull", "link": origin.url + "/clip.mp4"})["uri"]
        until(lambda uri=uri, other=other: other("GET", uri).json()["status"] != "uploading")
        found, state = other("GET", uri).json(), other("GET", uri + "/status").json()["state"]
        wanted = "exceeds_quota" if status == "quota_exceeded" else "exceeds_total_cap"
        assert (found["status"], state, found["upload"]["status"]) == (status, wanted, "error"), name
    for link in ("ftp://x/y", "http://10.0.0.1/x", "", 7):
        answer = client("POST", "/me/videos", json={"upload": {"approach": "pull", "link": link}})
        assert (answer.status_code, answer.json()["error_code"]) == (400, 2204)


def test_a_link_for_tus_is_no_url_of_an_upload(server):
    """It brings bytes; what ends an upload and tells of it is another credential."""
    vimeo = Plain(server, token(server))
    link = vimeo.create(5)["upload"]["upload_link"]
    name = link.rsplit("/", 1)[1]
    tus = {"Tus-Resumable": "1.0.0"}
    for method, path in (("HEAD", "/files/"), ("PATCH", "/files/"), ("DELETE", "/files/"), ("GET", "/v1/uploads/")):
        url = f"{server.url}{path}{name}" + ("/events" if method == "GET" else "")
        fields = tus | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        answer = requests.request(method, url, headers=fields, data=b"hello" if method == "PATCH" else None, timeout=30)
        assert answer.status_code in {401, 404}, (method, answer.status_code)
    fields = tus | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert requests.patch(link, headers=fields, data=b"hello", timeout=30).status_code == 204
