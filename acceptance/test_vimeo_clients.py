"""Clients of Vimeo's API that do not run here, replayed with their own rules (protocol, sections 4.3, 5 and 8).

They are vimeo.php, vimeo.js, websemantics, vimeo-dot-net, Unity, vimeo_me2, go-vimeo, and VimeoUpload on iOS with its
predecessor.
"""

import os
import re
import time
from datetime import datetime

import pytest
import requests

from harness.api import API
from harness.data import MIB, content
from harness.origin import Origin, Resource
from harness.server import Server, run
from harness.vimeo import PULLS, Plain, stored, token, upload_of
from harness.vimeo_clients import (
    JS1,
    JS3,
    PHP1,
    PHP2,
    PHP4,
    DotNet,
    DotNet2,
    Go,
    IOSNew,
    IOSNewApple,
    IOSOld,
    Me2,
    Refused,
    Stuck,
    Suspended,
    Unity,
    VIMUpload,
    Websemantics,
)
from harness.wire import until

OLD = [PHP1, JS1, Websemantics, DotNet2, IOSOld, VIMUpload]
CLIENTS = [*OLD, PHP2, PHP4, JS3, DotNet, Unity, Me2, Go, IOSNew, IOSNewApple]
DATA = content(2500, seed=19)


def name(value):
    return getattr(value, "__name__", str(value))


def of(clients):
    return pytest.mark.parametrize("kind", clients, ids=name)


def state(server, uri):
    return upload_of(server, uri)["state"]


def tell_quota(server, user, **limits):
    answer = API(server.url, server.admin_key).request("PUT", f"/v1/quota/subjects/{user}", json=limits)
    assert answer.status_code == 200, answer.text


# Uploads


@pytest.mark.parametrize(
    ("kind", "size"),
    [(kind, size) for kind in CLIENTS for size in (0, 1, 2500) if size > 0 or kind.can_be_empty],
    ids=name,
)
def test_each_client_uploads(server, kind, size):
    client = kind(server, token(server))
    uri = client.upload(DATA[:size])
    assert re.fullmatch(r"/videos/\d+", uri)
    assert stored(server, uri) == DATA[:size]
    video = Plain(server, client.token)("GET", uri).json()
    assert (video["status"], video["upload"]["status"]) == ("available", "complete")
    assert client.pauses == []


@of([PHP4, Go, DotNet, Unity, DotNet2])
def test_clients_that_send_pieces_send_them(server, kind):
    client = kind(server, token(server))
    client.upload(DATA)
    assert client.line.starts == [0, 1000, 2000]


@of(CLIENTS)
def test_a_larger_file(server, kind):
    """Guzzle and curl ask for leave to send so much; the clients with pieces send them as large as that."""
    data = content(2 * MIB + 1, seed=20)
    client = kind(server, token(server))
    client.chunk = client.chunk and MIB
    assert stored(server, client.upload(data)) == data
    assert is_asked_for_content(client)


def is_asked_for_content(client):
    """Whether curl and Guzzle got 100 for each request that is not a probe."""
    asked = [one for one in client.line.sent if "Expect" in one.fields and "*/" not in str(one.fields)]
    return all(one.continued for one in asked)


def test_websemantics_in_pieces(server):
    """With `chunkSize`, 308 makes it send the next piece, and 200 complete the ticket."""
    client = Websemantics(server, token(server))
    client.chunk = 1000
    assert stored(server, client.upload(DATA)) == DATA
    assert client.line.starts == [0, 1000, 2000]


def test_what_each_client_asks_first(server):
    requests = {kind: kind(server, token(server)) for kind in (PHP2, PHP4, JS3, PHP1)}
    for client in requests.values():
        client.upload(DATA)
    tus = {kind: [line.split()[0] for line in client.line.requests] for kind, client in requests.items()}
    assert tus[PHP2] == ["POST", "PATCH"]
    assert tus[PHP4] == ["POST", *["HEAD", "PATCH"] * 3]
    assert tus[JS3] == ["POST", "HEAD", "PATCH"]
    assert tus[PHP1] == ["POST", "PUT", "PUT", "DELETE"]
    # curl need not wait a second for leave to send a probe that is chunked, and has a length, too.
    assert [one.continued for one in requests[PHP1].line.sent if "Expect" in one.fields] != [False]


# Resumption


@pytest.mark.parametrize(
    ("kind", "starts"),
    [
        (PHP1, [0, 400, 700]),
        (JS1, [0, 400, 700]),
        (Websemantics, [0, 400, 700]),
        (PHP4, [0, 400, 700, 1700]),
        (JS3, [0, 400, 700]),
        (Unity, [0, 400, 700, 1000, 2000]),
        (IOSNew, [0, 0, 0]),
        (IOSOld, [0, 0, 0]),
    ],
    ids=name,
)
def test_a_cut_upload_goes_on_where_the_client_can(server, kind, starts):
    client = kind(server, token(server))
    client.line.cuts = [400, 300]
    assert stored(server, client.upload(DATA)) == DATA
    assert client.line.starts == starts
    assert client.pauses == {PHP4: [1, 2], JS3: [0, 0], Unity: [5, 5]}.get(kind, [])


@of([PHP1, JS1, Websemantics, PHP2, PHP4, JS3, Unity, IOSNew, IOSOld])
def test_a_connection_is_cut_before_the_first_byte(server, kind):
    client = kind(server, token(server))
    client.line.cuts = [0]
    assert stored(server, client.upload(DATA)) == DATA
    assert client.line.starts[:2] == [0, 0]


@of([PHP1, JS1, Websemantics, PHP4, JS3, IOSNew, IOSOld])
def test_only_the_answer_is_lost(server, kind):
    client = kind(server, token(server))
    client.chunk = client.chunk and len(DATA)
    client.line.cuts = [len(DATA)]
    assert stored(server, client.upload(DATA)) == DATA
    assert set(client.line.starts) <= {0, len(DATA)}


@of([DotNet, DotNet2, Me2, Go, VIMUpload])
def test_clients_that_give_up_begin_another_video(server, kind):
    client = kind(server, token(server))
    attempt = client.create(DATA)
    client.line.cuts = [400]
    with pytest.raises(Refused) as caught:
        client.send(attempt, DATA)
    assert caught.value.status is None
    uri = client.upload(DATA)
    assert stored(server, uri) == DATA
    begun = attempt["uri"].split("/")[-1]
    assert begun != uri.split("/")[-1]
    assert state(server, f"/videos/{begun}") == "open"


def test_vimeo_php_2_meets_409_and_another_client_goes_on(server):
    """It never learns the offset, which is its own fault: whoever asks goes on from the bytes that were kept."""
    client = PHP2(server, token(server))
    attempt = client.create(DATA)
    client.line.cuts = [400]
    with pytest.raises(Stuck):
        client.send(attempt, DATA)
    answers = [one.status for one in client.line.sent if one.method == "PATCH"]
    assert answers[0] is None
    assert set(answers[1:]) == {409}
    fields = [("Tus-Resumable", "1.0.0"), ("Upload-Offset", 0), ("Content-Type", "application/offset+octet-stream")]
    other = PHP4(server, client.token)
    refused = other.line("PATCH", attempt["upload"]["upload_link"], [*fields, ("Content-Length", 1)], b"x")
    assert (refused.status, refused["Upload-Offset"]) == (409, "400")
    other.line.sent.clear()
    assert other.send(attempt, DATA) == attempt["uri"]
    assert other.line.starts == [400, 1400, 2400]
    assert stored(server, attempt["uri"]) == DATA


# The connection that the app has reset may still be read when the next one comes, so once says little.
ROUNDS = 10


@of([IOSNew, IOSNewApple])
def test_ios_suspends_and_overwrites_at_the_same_link(server, kind):
    client = kind(server, token(server))
    for _ in range(ROUNDS):
        video = client.create(DATA)
        client.line.sent.clear()
        client.suspends_at = 400
        with pytest.raises(Suspended):
            client.send(video, bytes(2500))
        client.send(video, DATA)
        assert client.line.starts == [0, 0]
        assert len({one.target for one in client.line.sent}) == 1
        assert client.line.sent[-1].status == 200
        assert client.refresh(video["uri"]) == ["available"]
        assert stored(server, video["uri"]) == DATA


def test_ios_suspends_and_makes_another_ticket(server):
    client = IOSOld(server, token(server))
    client.suspends_at = 400
    with pytest.raises(Suspended):
        client.upload(DATA)
    assert stored(server, client.upload(DATA)) == DATA
    assert client.line.requests.count("POST /me/videos") == 2
    assert client.line.starts == [0, 0]


def test_vimupload_suspends_and_overwrites(server):
    client = VIMUpload(server, token(server))
    for _ in range(ROUNDS):
        ticket = client.create(DATA)
        client.line.sent.clear()
        client.line.cuts, client.line.is_abrupt = [400], True
        with pytest.raises(Refused):
            client.send(ticket, bytes(2500))
        assert stored(server, client.send(ticket, DATA)) == DATA


# Refusals

REFUSALS = {
    "token": (401, 8000, "access token"),
    "quota": (403, 4101, "quota"),
    "scope": (403, None, "scope"),
    "calls": (429, None, "Too many"),
}


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory):
    """Where each user has one call in a minute."""
    data = tmp_path_factory.mktemp("slow") / "data"
    with Server(data, environment={"SLUICE_VIMEO_CALLS_PER_MINUTE": "1"}) as running:
        yield running


@pytest.mark.parametrize("refusal", REFUSALS)
@of(CLIENTS)
def test_each_client_understands_a_refusal(server, slow_server, kind, refusal):
    user = f"refused-{name(kind)}"
    if refusal == "token":
        client = kind(server, "nobody")
    elif refusal == "scope":
        client = kind(server, token(server, user, scopes=["public", "private", "edit", "delete"]))
    elif refusal == "quota":
        # Nothing is left, so it does not matter whether a client tells the size first.
        tell_quota(server, user, storedBytes=10)
        Plain(server, token(server, user)).create(10)
        client = kind(server, token(server, user))
    else:
        client = kind(slow_server, token(slow_server, user))
        if time.time() % 60 > 55:
            time.sleep(6)
        Plain(slow_server, client.token)("GET", "/me")
    status, code, text = REFUSALS[refusal]
    with pytest.raises(Refused) as caught:
        client.upload(DATA)
    told = caught.value
    if told.name == "InvalidOperationException":
        # A client that compares the size with what the ticket tells.
        assert (kind, refusal) == (DotNet2, "quota")
        return
    if "text" in client.tells:
        assert text in told.text
    if "status" in client.tells:
        assert told.status == status
    if "code" in client.tells:
        assert told.code == code
    if "domain" in client.tells:
        assert told.domain in ("CreateVideoErrorDomain", "CreateVideoOperationErrorDomain")
    if refusal == "token" and kind in (IOSNew, IOSNewApple):
        # Then the app signs in again.
        assert told.name == "InvalidToken"
    if refusal == "calls":
        if kind is Go:
            assert told.name == "RateLimitError"
        if kind in (Go, DotNet, DotNet2):
            assert 0 < client.reset.timestamp() - time.time() <= 60


@pytest.mark.parametrize(
    ("kind", "status"),
    # What the others do: vimeo.php 1.3.0, 2.0.5 and websemantics never end, Unity and iOS do not look.
    [(JS1, 404), (JS3, 404), (DotNet, 404), (DotNet2, 404), (Go, 404), (VIMUpload, 404), (PHP4, None), (Me2, None)],
    ids=name,
)
def test_a_link_after_its_video_was_deleted(server, kind, status):
    client = kind(server, token(server))
    attempt = client.create(DATA)
    if kind in OLD:
        # No client can delete a ticket.
        uri = f"/videos/{attempt['ticket_id']}"
        API(server.url, server.admin_key).delete(f"/v1/uploads/{upload_of(server, uri)['id']}")
    else:
        assert Plain(server, client.token)("DELETE", attempt["uri"]).status_code == 204
    with pytest.raises((Refused, ValueError)) as caught:
        client.send(attempt, DATA)
    if status:
        assert caught.value.status == status
    if kind is PHP4:
        # Guzzle raises what the SDK repeats.
        assert client.pauses == [1, 2, 4, 8, 8, 8, 8, 8, 8, 8]
        assert {one.status for one in client.line.sent if one.method == "HEAD"} == {404}


# iOS


@of([IOSNew, IOSOld])
def test_ios_learns_of_a_refused_put_elsewhere(server, kind):
    """It does not look at the status of the PUT: the failure must show at the activation, or in the video's status."""
    client = kind(server, token(server))
    attempt = client.create(DATA)
    if kind is IOSOld:
        wrong = dict(attempt, upload_link_secure=attempt["upload_link_secure"] + "x")
        with pytest.raises(Refused) as caught:
            client.send(wrong, DATA)
        assert caught.value.domain == "ActivateVideoErrorDomain"
        assert state(server, f"/videos/{attempt['ticket_id']}") == "open"
    else:
        wrong = dict(attempt, upload=attempt["upload"] | {"upload_link": attempt["upload"]["upload_link"] + "x"})
        client.send(wrong, DATA)
        assert [one.status for one in client.line.sent][-1] == 404
        [video] = [one for one in client.my_videos() if one["uri"] == attempt["uri"]]
        assert (video["status"], video["upload"]["status"]) == ("uploading", "in_progress")
        client.send(attempt, DATA)
        assert client.refresh(attempt["uri"]) == ["available"]


def test_ios_polls_until_the_bytes_are_there(server):
    client = IOSNew(server, token(server))
    video = client.create(DATA)

    def pause(seconds):
        client.pauses.append(seconds)
        if len(client.pauses) == 2:
            client.send(video, DATA)

    client.pause = pause
    assert client.refresh(video["uri"]) == ["uploading", "uploading", "available"]
    assert client.pauses == [3, 3]
    assert video["uri"] in [one["uri"] for one in client.my_videos()]


@pytest.mark.parametrize("is_apple", [True, False])
def test_ios_stops_polling_when_the_bytes_exceed_the_quota(server, is_apple):
    user = f"full-{is_apple}"
    tell_quota(server, user, storedBytes=1000)
    client = IOSNew(server, token(server, user))
    client.is_apple, client.tells_size = is_apple, False
    video = client.create(DATA)
    client.send(video, DATA)
    assert client.refresh(video["uri"]) == ["quota_exceeded"]
    assert client.cancel(video["uri"])
    # What it held is free again.
    client.tells_size = True
    assert stored(server, client.upload(DATA[:1000])) == DATA[:1000]


def test_ios_is_refused_at_activation_when_the_bytes_exceed_the_quota(server):
    tell_quota(server, "full-ticket", storedBytes=1000)
    client = IOSOld(server, token(server, "full-ticket"))
    ticket = Plain(server, client.token).ticket()
    with pytest.raises(Refused) as caught:
        client.send(ticket, DATA)
    assert caught.value.domain == "ActivateVideoErrorDomain"
    assert Plain(server, client.token)("GET", "/me/videos").json()["total"] == 0


def test_ios_cancels(server):
    client = IOSNew(server, token(server))
    video = client.create(DATA)
    client.suspends_at = 400
    with pytest.raises(Suspended):
        client.send(video, DATA)
    client.line.sent.clear()
    assert client.cancel(video["uri"])
    # 404 is as good.
    assert client.cancel(video["uri"])
    assert [one.status for one in client.line.sent] == [204, 404]
    assert client.refresh(video["uri"]) == [None]
    assert state(server, video["uri"]) == "terminated"
    client.send(video, DATA)
    assert client.line.sent[-1].status == 404
    assert client.refresh(video["uri"]) == [None]


def test_ios_gives_a_cancellation_up_after_three_more(server):
    uri = Plain(server, token(server, "careful")).create(10)["uri"]
    client = IOSNew(server, token(server, "careful", scopes=["public", "private", "upload"]))
    assert not client.cancel(uri)
    assert client.line.requests == [f"DELETE {uri}"] * 4
    assert (client.error.status, client.error.domain) == (403, "DeleteVideoOperationErrorDomain")
    assert '"delete" scope' in client.error.text


def test_ios_reads_the_codes_of_errors(server):
    client = IOSNew(server, token(server))
    client.settings = {"name": "x" * 129, "privacy": {"view": "me"}, "users": [{"uri": "/users/1"}]}
    with pytest.raises(Refused) as caught:
        client.create(DATA)
    assert (caught.value.status, caught.value.code, sorted(caught.value.parameters)) == (400, 2204, [2232, 2250])
    for call, domain in (
        (lambda: client.data_task("GET", "/videos/1", domain="VideoOperationErrorDomain"), "VideoOperationErrorDomain"),
        (
            lambda: client.download_task("PATCH", "/videos/1", {"name": "N"}, domain="VideoSettingsErrorDomain"),
            "VideoSettingsErrorDomain",
        ),
        (
            lambda: client.download_task("POST", "/videos/1/pictures", domain="CreateVideoThumbnailErrorDomain"),
            "CreateVideoThumbnailErrorDomain",
        ),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.domain == domain


# Edits, other files, pictures, text tracks


def test_edits_by_websemantics_unity_me2_and_ios(server):
    bearer = token(server)
    web = Websemantics(server, bearer)
    uri = web.upload(DATA)
    assert (web.metadata["name"], web.metadata["description"]) == ("Default name", "A & B")
    assert web.metadata["privacy"]["view"] == "nobody"
    video = Unity(server, bearer).save(
        uri, **{"name": "A B", "privacy.view": "unlisted", "privacy.download": "true", "review_page.active": "false"}
    )
    assert (video["name"], video["privacy"]["view"], video["privacy"]["download"]) == ("A B", "unlisted", True)
    # Everything that it has read comes back, nulls and objects, too.
    me2 = Me2(server, bearer)
    uri = me2.upload(DATA)
    renamed = Plain(server, bearer)("GET", uri).json()
    later = {"name", "modified_time", "files", "download", "user"}
    assert renamed["name"] == "M"
    assert {name: renamed[name] for name in renamed.keys() - later} == {
        name: me2.video[name] for name in me2.video.keys() - later
    }
    me2.destroy(uri)
    ios = IOSOld(server, bearer)
    video = Plain(server, bearer)("GET", ios.upload(DATA)).json()
    assert (video["name"], video["description"], video["privacy"]["view"]) == ("My holiday", "Beach", "nobody")


@of([PHP1, PHP2, PHP4, JS1, JS3, DotNet])
def test_each_client_replaces_a_file(server, kind):
    client = kind(server, token(server))
    uri = client.upload(DATA)
    other = DATA[::-1][:2000]
    client.line.cuts = [] if kind in (PHP2, DotNet) else [400]
    client.replace(uri, other)
    video = Plain(server, client.token)("GET", uri).json()
    assert requests.get(video["files"][0]["link"], timeout=20).content == other
    assert video["metadata"]["connections"]["versions"]["total"] == 2


@of([PHP1, PHP2, PHP4, DotNet, IOSNew, IOSNewApple])
def test_each_client_uploads_a_picture(server, kind):
    client = kind(server, token(server))
    uri = client.upload(DATA)
    image = content(20_000, seed=21)
    picture = client.upload_image(uri, image)
    video = Plain(server, client.token)("GET", uri).json()
    assert (video["pictures"]["uri"], video["pictures"]["active"]) == (picture, True)
    assert requests.get(video["pictures"]["sizes"][0]["link"], timeout=20).content == image
    assert is_asked_for_content(client)


@of([PHP1, PHP2, PHP4, DotNet])
def test_each_client_uploads_a_text_track(server, kind):
    client = kind(server, token(server))
    uri = client.upload(DATA)
    text = b"WEBVTT\n\n00:01.000 --> 00:02.000\na=b&c=d 100%\n"
    track = client.upload_texttrack(uri, text)
    [found] = Plain(server, client.token)("GET", uri + "/texttracks").json()["data"]
    assert (found["uri"], found["name"], found["language"]) == (track, "sub.vtt", "en-US")
    assert requests.get(found["hls_link"], timeout=20).content == text


@of([DotNet, Go])
def test_pulls_in_forms_and_in_json(tmp_path, kind):
    with Origin() as origin, Server(tmp_path / "data", environment=PULLS) as server:
        origin.resources["/clip.mp4"] = Resource(DATA, content_type="video/mp4")
        client = kind(server, token(server))
        uri = client.pull(origin.url + "/clip.mp4")
        until(lambda: Plain(server, client.token)("GET", uri).json()["status"] == "available")
        assert stored(server, uri) == DATA


# Other


def test_vimeo_js_gets_a_token_of_the_app(server):
    made = run("keys", "create", "--name", "app", "--scope", "mint", environment=server.environment).stdout
    key, secret = re.search(r"id: (\S+)", made)[1], re.search(r"slk_\S+", made)[0]
    bearer = JS3(server, None).client_credentials(key, secret)
    assert Plain(server, bearer)("GET", "/oauth/verify").json()["scope"] == "public private"


def test_a_user_without_limits_has_numbers_for_dot_net(server):
    client = DotNet(server, token(server, "unlimited"))
    space = client.create(DATA)["user"]["upload_quota"]["space"]
    assert space["unit"] == "video_size"
    assert space["free"] > len(DATA)
    assert client.remaining > 0
    # Versions before 3 read dates that cannot be missing.
    ticket = DotNet2(server, token(server, "unlimited")).create(DATA)
    assert datetime.fromisoformat(ticket["quota"]["resets"]).utcoffset().seconds == 0


def test_a_browser_may_read_what_it_needs(server):
    """Fields of the answers across origins, for websemantics and for tus in a page."""
    client = Websemantics(server, token(server))
    ticket = client.create(DATA)
    probe = client.xhr("PUT", ticket["upload_link_secure"], {"Content-Range": "bytes */2500"})
    # Nothing is stored, and it adds one to whatever number it reads.
    assert (probe.status, probe.header("Range")) == (308, None)
    assert client.xhr("PUT", ticket["upload_link_secure"], {"Content-Range": "bytes 0-2499/2500"}, DATA).status == 200
    probe = client.xhr("PUT", ticket["upload_link_secure"], {"Content-Range": "bytes */2500"})
    assert (probe.status, probe.header("Range")) == (308, "bytes=0-2499")
    done = client.xhr("DELETE", server.url + ticket["complete_uri"], client.authorized())
    assert re.fullmatch(r"/videos/\d+", done.header("Location"))
    link = Plain(server, client.token).create(len(DATA))["upload"]["upload_link"]
    head = client.xhr("HEAD", link, {"Tus-Resumable": "1.0.0"})
    headers = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    patched = client.xhr("PATCH", link, headers, DATA)
    assert (head.header("Upload-Offset"), head.header("Upload-Length")) == ("0", "2500")
    assert (patched.status, patched.header("Upload-Offset"), patched.header("Tus-Resumable")) == (204, "2500", "1.0.0")
    refused = client.xhr("GET", server.url + "/videos/1", client.authorized())
    assert refused.status == 404


def test_abandoned_tickets_do_not_disturb(server):
    """Each new try of iOS leaves one."""
    client = IOSOld(server, token(server, "leaky"))
    client.line.cuts = [os.urandom(1)[0] for _ in range(5)]
    uri = client.upload(DATA)
    assert client.line.requests.count("POST /me/videos") == 6
    assert [one["uri"] for one in client.my_videos()] == [uri]
    assert stored(server, uri) == DATA
