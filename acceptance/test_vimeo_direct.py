"""`direct` mode of Vimeo: videos are made at the service, whose place servers of harness/vimeo_cloud.py take.

Bytes of tus clients go past the gateway; those of Old Upload and of approach `streaming`, which the service itself no
longer takes, come to the gateway and are sent on (protocol notes, section 11).
"""

import itertools
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import requests

from harness import clock
from harness.api import API, TUS, patch_fields
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.receiver import Receiver
from harness.relay import Cluster
from harness.server import Server, run
from harness.vimeo import NEW, OLD, Plain, PyVimeo, token
from harness.vimeo_cloud import USER, USER_NAME, USER_NUMBER, VimeoCloud
from harness.wire import until

ACCOUNT = "6d1c5f0b8e7a49d2a3b4c5d6e7f80912"
HOOK_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
VIDEO = content(2 * MIB + 77, 1)
OTHER = content(300 * KIB + 5, 2)
LINKS = r"/files/.+"
FINAL = ["available", "uploading_error", "transcoding_error", "quota_exceeded", "total_cap_exceeded"]
PROGRESS = ["uploading", "transcode_starting", "transcoding"]


@pytest.fixture
def cloud():
    with VimeoCloud(ACCOUNT) as service:
        yield service


def settings_of(cloud, **settings):
    return {
        "SLUICE_VIMEO_MODE": "direct",
        "SLUICE_VIMEO_ACCESS_TOKEN": ACCOUNT,
        "SLUICE_VIMEO_ENDPOINT": cloud.url,
        "SLUICE_VIMEO_POLL_INTERVAL": "1s",
        # Tests ask often.
        "SLUICE_VIMEO_CALLS_PER_MINUTE": "100000",
    } | {f"SLUICE_{name}": value for name, value in settings.items()}


def check_calls(cloud, log):
    """Neither the service nor the log may have seen what does not concern them."""
    assert [(one.method, one.path, one.problem) for one in cloud.problems] == []
    seen = "".join(one.text for one in cloud.calls if one.host == "api")
    assert "slv_" not in seen, "a client's token went to the service"
    assert ACCOUNT not in log
    links = [file.token for video in cloud.videos.values() for file in video.files]
    assert not [one for one in links if one in log], "a link is a credential"


@pytest.fixture
def start(tmp_path, cloud):
    servers = []

    def started(**settings):
        # Links keep working after a restart.
        settings = {"GATEWAY_LISTEN": f"127.0.0.1:{free_port()}"} | settings
        server = Server(tmp_path / f"data-{len(servers)}", environment=settings_of(cloud, **settings)).start()
        servers.append(server)
        return server

    yield started
    for server in servers:
        server.stop()
        check_calls(cloud, server.log.read_text(errors="replace"))


@pytest.fixture
def gateway(start):
    return start()


@pytest.fixture
def quiet(start):
    """A gateway that does not call the service by itself."""
    return start(VIMEO_POLL_INTERVAL="1h")


class Client(Plain):
    """A user of the app, who must not learn about the account."""

    def __init__(self, server, user="dora", **options):
        super().__init__(server, token(server, user, **options))

    def __call__(self, *arguments, **options):
        answer = super().__call__(*arguments, **options)
        told = f"{answer.headers} {answer.text}"
        assert not [one for one in (ACCOUNT, USER_NAME, USER_NUMBER) if one in told], told
        return answer

    def listed(self, query=""):
        answer = self("GET", f"/me/videos?fields=uri,status,link{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def statuses(self):
        return {one["uri"]: one["status"] for one in self.listed()}

    def filled(self, data, **more):
        """A ticket all of whose bytes are there."""
        ticket = self.ticket(**more)
        self.put(ticket["upload_link_secure"], data)
        return ticket

    def put(self, link, data, start=0, total=None):
        fields = {"Content-Range": f"bytes {start}-{start + len(data)}/{total or len(data)}"}
        answer = self("PUT", link, data=data, headers=fields)
        assert answer.status_code == 200, answer.text

    def complete(self, ticket):
        """The video that a ticket becomes."""
        answer = self("DELETE", ticket["complete_uri"])
        assert answer.status_code == 201, answer.text
        assert answer.json() == {}
        return answer.headers["Location"]


@pytest.fixture
def client(gateway):
    return Client(gateway)


@pytest.fixture
def make_file(tmp_path):
    def make(data, name="video.mp4"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return make


def send(link, data, offset=0):
    """What a tus client does with a link."""
    answer = requests.patch(link, data=data, headers=dict(patch_fields(str(offset), str(len(data)))), timeout=30)
    assert answer.status_code == 204, answer.text
    assert answer.headers["Upload-Offset"] == str(offset + len(data))


def arrived(cloud, uri, data=VIDEO):
    # Pauses between attempts grow.
    until(lambda: cloud.content(uri) == data, 60)


def uploads(server):
    """Those that hold space at the gateway, as its own API tells."""
    answer = API(server.url, server.admin_key).get("/v1/uploads", params={"limit": 200})
    return [one["id"] for one in answer.json()["uploads"] if one["state"] in ("open", "completed")]


def used(server, user="dora"):
    usage = API(server.url, server.admin_key).get(f"/v1/quota/subjects/{user}").json()["used"]
    return tuple(usage[name] for name in ("periodUploads", "periodBytes", "openUploads", "storedBytes"))


def ended(server, *uploads_before):
    """The gateway keeps nothing of what it has sent."""
    until(lambda: uploads(server) == [], 30)
    until(lambda: used(server)[2:] == (0, 0))
    # They go after the records have ended.
    until(lambda: not [one for one in uploads_before if server.stored_files(one)])


def counted(server, metric, **labels):
    text = API(server.url, server.admin_key).get("/metrics").text
    names = ",".join(f'{name}="{value}"' for name, value in labels.items())
    found = re.search(rf"(?m)^{metric}\{{{names}\}} (\d+)$", text)
    return int(found[1]) if found else 0


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/vnd.vimeo.error+json"
    assert answer.json().get("error_code") == code, answer.text
    assert answer.json()["error"] and answer.json()["developer_message"]
    return answer


def refusal(code, *parameters, text="Something is wrong."):
    """An error of the service (section 3.4)."""
    document = {"error": text, "link": None, "developer_message": f"For developers: {text}", "error_code": code}
    listed = [
        {"field": name, "error_code": inner, "error": "No.", "developer_message": "No, because."}
        for name, inner in parameters
    ]
    return document | ({"invalid_parameters": listed} if listed else {})


# The service


def service(cloud, accept="application/vnd.vimeo.*+json;version=3.4", account=ACCOUNT):
    return Plain(SimpleNamespace(url=cloud.url), account, accept)


@pytest.mark.nightly
@pytest.mark.parametrize("version", NEW)
def test_the_service_in_these_tests_serves_pyvimeo(cloud, make_file, version):
    sdk = PyVimeo(SimpleNamespace(url=cloud.url), version, ACCOUNT)
    uri = sdk.upload(make_file(VIDEO), data={"name": "Holiday", "chunk_size": MIB})
    assert cloud.content(uri) == VIDEO
    # The older one has no pieces.
    assert [one.size for one in cloud.of("PATCH", LINKS)] == ([MIB, MIB, 77] if version == "1.1.2" else [len(VIDEO)])
    assert [sdk.get(uri)["json"]["status"] for _ in range(3)] == ["transcode_starting", "available", "available"]
    assert sdk.replace(uri, make_file(OTHER)) == uri
    assert cloud.content(uri) == OTHER
    sdk.upload_picture(uri, make_file(b"picture"), activate=True)
    sdk.upload_texttrack(uri, "captions", "en-US", make_file(b"track"))
    found = cloud.video(uri).attachments.values()
    assert {one.kind: (one.content, one.is_active) for one in found} == {
        "pictures": (b"picture", True),
        "texttracks": (b"track", False),
    }
    assert sdk.delete(uri)["status"] == 204
    assert sdk.delete(uri)["status"] == 404
    # What this SDK does and a broker must not, and nothing else: it sends its token to all links but those of tus.
    assert {one.problem for one in cloud.problems} == {
        "unknown members: ['chunk_size']",
        "no `fields`",
        "the account's token is sent to the servers that take bytes",
    }


def test_the_service_in_these_tests_answers_as_recorded(cloud):
    call = service(cloud)
    answer = service(cloud, account="another")("GET", "/me")
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
    assert answer.headers["Content-Type"] == "application/vnd.vimeo.error+json"
    assert answer.json() == {"error": "You must provide a valid authenticated access token."}
    assert "X-RateLimit-Limit" not in answer.headers
    answer = call("POST", "/me/videos?fields=uri,upload.upload_link", json={"upload": {"approach": "tus", "size": "9"}})
    assert (answer.status_code, answer.json().keys()) == (200, {"uri", "upload"})
    uri, link = answer.json()["uri"], answer.json()["upload"]["upload_link"]
    assert answer.json()["upload"].keys() == {"upload_link"} and link.startswith(cloud.data_url)
    for upload, code, inner in [
        ({"approach": "streaming", "size": 9}, 2204, 2552),
        ({"approach": "gcs", "size": 9}, 2230, None),
        ({"approach": "tus", "size": "x"}, 2204, 2254),
        ({"approach": "tus", "size": (1 << 40) + 1}, 4101, None),
        ({"approach": "pull"}, 2204, 2204),
    ]:
        document = call("POST", "/me/videos?fields=uri", json={"upload": upload}).json()
        assert document["error_code"] == code
        assert [one["error_code"] for one in document.get("invalid_parameters", [])] == ([inner] if inner else [])
    for upload in ({"approach": "post"}, {"approach": "pull", "link": "https://a/b"}):
        assert call("POST", "/me/videos?fields=uri", json={"upload": upload}).status_code == 201
    head = requests.head(link, headers=TUS, timeout=10)
    assert (head.status_code, head.headers["Upload-Offset"], head.headers["Upload-Length"]) == (200, "0", "9")
    assert requests.head(link, timeout=10).status_code == 412
    assert [requests.request(method, link, timeout=10).status_code for method in ("GET", "POST")] == [405, 405]
    wrong = requests.patch(link, data=b"x", headers=dict(patch_fields("3", "1")), timeout=10)
    assert (wrong.status_code, wrong.text) == (409, "mismatched offset")
    # Of a PATCH that breaks nothing is kept.
    cloud.fault("PATCH", LINKS, after=4, is_cut=True)
    with pytest.raises(requests.ConnectionError):
        send(link, b"123456789")
    assert requests.head(link, headers=TUS, timeout=10).headers["Upload-Offset"] == "0"
    send(link, b"123456789")
    assert cloud.content(uri) == b"123456789"
    assert call("DELETE", uri).status_code == 204
    assert call("DELETE", uri).json()["error_code"] == 5000
    assert requests.head(link, headers=TUS, timeout=10).status_code == 404


@pytest.mark.parametrize(
    ("problem", "accept", "method", "path", "options"),
    [
        ("no `fields`", None, "GET", "/me", {}),
        ("no `fields`", None, "PATCH", "{uri}?fields=", {"json": {"name": "x"}}),
        ("Accept does not name version 3.4", "application/vnd.vimeo.*+json;version=3.2", "GET", "/me?fields=uri", {}),
        ("the body is not JSON", None, "PATCH", "{uri}?fields=uri", {"data": b"{}"}),
        ("unknown members: ['size']", None, "PATCH", "{uri}?fields=uri", {"json": {"size": 1}}),
        ("there is no such call", None, "GET", "/oauth/verify?fields=uri", {}),
        ("the account's token is sent to the servers that take bytes", None, "HEAD", "{link}", {"headers": TUS}),
        ("a call before the time that the service has told", None, "GET", "/me?fields=uri", {}),
    ],
)
def test_the_service_in_these_tests_is_strict(cloud, problem, accept, method, path, options):
    call = service(cloud)
    made = call("POST", "/me/videos?fields=uri,upload", json={"upload": {"approach": "tus", "size": "9"}}).json()
    assert cloud.problems == []
    if problem.startswith("a call before"):
        cloud.limit(60)
        answer = call("GET", "/me?fields=uri")
        assert (answer.status_code, answer.headers["X-RateLimit-Remaining"]) == (429, "0")
        assert cloud.problems == []
    names = {"uri": made["uri"], "link": made["upload"]["upload_link"]}
    service(cloud, accept or call.fields["Accept"])(method, path.format(**names), **options)
    assert [one.problem for one in cloud.problems] == [problem]


# Settings


def test_direct_mode_needs_the_token_of_the_account(tmp_path):
    environment = {"SLUICE_VIMEO_MODE": "direct"}
    done = run("serve", data=tmp_path / "data", environment=environment, check=False)
    assert done.returncode != 0
    assert re.search(r"SLUICE_VIMEO_ACCESS_TOKEN|vimeo\.accessToken", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODE", "both"),
        ("ENDPOINT", "ftp://a"),
        ("ENDPOINT", "http://a/path?x=y"),
        ("POLL_INTERVAL", "500ms"),
        ("POLL_INTERVAL", "61m"),
        ("UPLOAD_LIFETIME", "59s"),
    ],
)
def test_settings_that_are_wrong(tmp_path, name, value):
    environment = {"SLUICE_VIMEO_MODE": "direct", "SLUICE_VIMEO_ACCESS_TOKEN": ACCOUNT}
    run("check", data=tmp_path / "data", environment=environment)
    done = run("check", data=tmp_path / "data", environment=environment | {f"SLUICE_VIMEO_{name}": value}, check=False)
    assert done.returncode != 0
    assert f"SLUICE_VIMEO_{name}" in done.stdout + done.stderr
    assert ACCOUNT not in done.stdout + done.stderr


# New Upload


@pytest.mark.parametrize("version", NEW)
def test_pyvimeo_uploads_to_the_service(gateway, cloud, make_file, version):
    sdk = PyVimeo(gateway, version, token(gateway))
    uri = sdk.upload(make_file(VIDEO), data={"name": "Holiday", "chunk_size": MIB})
    assert cloud.content(uri) == VIDEO
    until(lambda: sdk.get(uri)["json"]["status"] == "available")
    assert sdk.replace(uri, make_file(OTHER)) == uri
    assert cloud.content(uri) == OTHER
    sdk.upload_picture(uri, make_file(b"picture"), activate=True)
    sdk.upload_texttrack(uri, "captions", "en-US", make_file(b"track"))
    found = cloud.video(uri).attachments.values()
    assert {one.kind: (one.content, one.is_active) for one in found} == {
        "pictures": (b"picture", True),
        "texttracks": (b"track", False),
    }
    assert sdk.patch(uri, data={"name": "Other"})["json"]["name"] == "Other"
    assert cloud.video(uri).labels["name"] == "Other"
    assert [sdk.delete(uri)["status"] for _ in range(2)] == [204, 404]
    assert cloud.videos == {}
    assert uploads(gateway) == []


@pytest.mark.parametrize(("status", "omits_nulls"), [(200, False), (201, True)])
def test_a_video_is_made_at_the_service(gateway, client, cloud, status, omits_nulls):
    cloud.created_status, cloud.omits_nulls = status, omits_nulls
    labels = {
        "name": "N",
        "description": "日本",
        "privacy": {"view": "password", "download": False},
        "password": "secret",
        "license": "by",
        "locale": "en",
        "content_rating": ["safe"],
    }
    more = {"chunk_size": 5, "machine": {"a": 1}, "embed": {"color": "red"}}
    made = client("POST", "/me/videos", json=labels | more | {"upload": {"approach": "tus", "size": 7, "x": 1}})
    # Clients insist on 200, whatever the service answers (section 1, item 1).
    assert made.status_code == 200, made.text
    assert made.headers["Content-Type"] == "application/vnd.vimeo.video+json"
    [call] = cloud.of("POST")
    assert call.json == labels | {"upload": {"approach": "tus", "size": "7"}}
    video = made.json()
    [theirs] = cloud.videos.values()
    assert (video["uri"], video["upload"]["upload_link"]) == (theirs.uri, cloud.link(theirs.files[0]))
    assert (video["status"], video["upload"]["approach"], int(video["upload"]["size"])) == ("uploading", "tus", 7)
    assert video["link"] == f"https://vimeo.com/{theirs.id}"
    # What strict clients read (section 4.2).
    me = client("GET", "/me").json()
    assert {name: video["user"][name] for name in ("uri", "name")} == {"uri": me["uri"], "name": "dora"}
    assert video["user"]["upload_quota"]["space"]["unit"] == "video_size"
    assert video["resource_key"] == f"{theirs.id:040x}"
    for name in ("pictures", "texttracks"):
        assert video["metadata"]["connections"][name]["uri"] == f"{theirs.uri}/{name}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", video["created_time"])
    send(video["upload"]["upload_link"], b"1234567")
    assert client("GET", theirs.uri).json()["user"]["uri"] == me["uri"]
    assert client("GET", f"{theirs.uri}?fields=user.name").json() == {"user": {"name": "dora"}}
    until(lambda: client("GET", theirs.uri).json()["status"] == "available")
    # What the client does not say the account's own settings decide.
    path = "/me/videos?fields=upload.upload_link,uri&fields=uri"
    filtered = client("POST", path, json={"upload": {"approach": "tus", "size": 7}})
    assert (filtered.json().keys(), filtered.json()["upload"].keys()) == ({"uri", "upload"}, {"upload_link"})
    assert cloud.of("POST")[-1].json == {"upload": {"approach": "tus", "size": "7"}}
    empty = client.create(0)
    assert cloud.content(empty["uri"]) == b""


def test_a_form_of_the_service(gateway, client, cloud):
    place = "https://app.example/done?a=1"
    made = client.create(None, "post", upload={"approach": "post", "redirect_url": place}, name="N")
    assert cloud.calls[0].json == {"name": "N", "upload": {"approach": "post", "redirect_url": place}}
    upload = made["upload"]
    assert upload["upload_link"].startswith(cloud.data_url) and 'name="file_data"' in upload["form"]
    files = {"file_data": ("x.mp4", VIDEO)}
    answer = requests.post(upload["upload_link"], files=files, timeout=30, allow_redirects=False)
    assert answer.headers["Location"] == f"{place}&video_uri={made['uri'].replace('/', '%2F')}"
    assert cloud.content(made["uri"]) == VIDEO
    until(lambda: client.statuses() == {made["uri"]: "available"}, 20)
    # A client that loses its body gets a form, too (section 4.1).
    lost = client("POST", "/me/videos")
    assert (lost.status_code, lost.json()["upload"]["approach"]) == (201, "post")
    assert uploads(gateway) == []


def test_forms_and_pulls_of_the_old_upload(gateway, client, cloud):
    """They become those of version 3.4, which the service still has."""
    old = Client(gateway)
    old.fields["Accept"] = "application/vnd.vimeo.*+json;version=3.2"
    place = "https://app.example/done"
    ticket = old("POST", "/me/videos", json={"type": "POST", "redirect_url": place, "name": "N"}).json()
    assert cloud.calls[0].json == {"name": "N", "upload": {"approach": "post", "redirect_url": place}}
    assert ticket["upload_link"].startswith(cloud.data_url) and 'name="file_data"' in ticket["form"]
    assert (ticket["upload_link_secure"], ticket["complete_uri"]) == (ticket["upload_link"], None)
    assert old("GET", ticket["uri"] + "?fields=form").json() == {"form": ticket["form"]}
    files = {"file_data": ("x.mp4", VIDEO)}
    requests.post(ticket["upload_link"], files=files, timeout=30, allow_redirects=False)
    assert cloud.content(f"/videos/{ticket['ticket_id']}") == VIDEO
    other = Plain(gateway, token(gateway, "eve"))
    assert other("GET", ticket["uri"]).status_code == 404
    made = old("POST", "/me/videos?fields=uri", json={"type": "pull", "link": "https://a.example/x.mp4"})
    assert (made.status_code, list(made.json())) == (201, ["uri"])
    assert cloud.calls[-1].json["upload"] == {"approach": "pull", "link": "https://a.example/x.mp4"}
    assert uploads(gateway) == []


@pytest.mark.parametrize("name", ["link", "upload_link"])
def test_a_pull_by_the_service(gateway, client, cloud, name):
    made = client.create(None, "pull", upload={"approach": "pull", name: "https://a.example/x.mp4"})
    assert cloud.calls[0].json["upload"] == {"approach": "pull", "link": "https://a.example/x.mp4"}
    assert made["uri"] in client.statuses()
    cloud.end(made["uri"])
    until(lambda: client.statuses() == {made["uri"]: "available"}, 20)
    lost = client.create(None, "pull", upload={"approach": "pull", "link": "https://a.example/y.mp4"})
    cloud.end(lost["uri"], "uploading_error")
    until(lambda: client.statuses()[lost["uri"]] == "uploading_error", 20)
    refused(client("POST", "/me/videos", json={"upload": {"approach": "pull", "link": "ftp://a"}}), 400, 2204)


def test_an_answer_without_tus_is_none(start, cloud):
    """The service has lost the body (section 11, item 1)."""
    server = start(QUOTA_SUBJECT_PERIOD_UPLOADS="9")
    client = Client(server)
    cloud.forgets_tus = True
    for approach in ("tus", "streaming"):
        answer = client("POST", "/me/videos", json={"upload": {"approach": approach, "size": 7}})
        assert answer.status_code == 502, answer.text
        until(lambda: cloud.videos == {})
    assert client.listed() == []
    assert used(server) == (0, 0, 0, 0) and uploads(server) == []


# Access


def reach(video):
    """All calls that concern a video."""
    version = {"file_name": "x.mp4", "upload": {"approach": "tus", "size": 5}}
    track = {"type": "captions", "language": "en", "name": "n"}
    return [
        ("GET", video, None),
        ("PATCH", video, {"name": "x"}),
        ("DELETE", video, None),
        ("GET", f"{video}/status", None),
        ("GET", f"{video}/versions", None),
        ("POST", f"{video}/versions", version),
        ("PUT", f"{video}/files", {"type": "streaming"}),
        ("GET", f"{video}/pictures", None),
        ("POST", f"{video}/pictures", None),
        ("GET", f"{video}/pictures/7", None),
        ("PATCH", f"{video}/pictures/7", {"active": True}),
        ("DELETE", f"{video}/pictures/7", None),
        ("GET", f"{video}/texttracks", None),
        ("POST", f"{video}/texttracks", track),
        ("GET", f"{video}/texttracks/7", None),
        ("PATCH", f"{video}/texttracks/7", {"active": True}),
        ("DELETE", f"{video}/texttracks/7", None),
    ]


def test_users_reach_only_videos_of_their_own(quiet, cloud):
    """The account has also videos of other users, and some that are not from here."""
    client, eve = Client(quiet), Client(quiet, "eve")
    hers = client.create(5)["uri"]
    query = "/me/videos?fields=uri"
    another = service(cloud)("POST", query, json={"upload": {"approach": "tus", "size": "5"}}).json()["uri"]
    count = len(cloud.calls)
    old = {"Accept": "application/vnd.vimeo.*+json;version=3.2"}
    for uri in (hers, another, "/videos/1", "/videos/99999999999999999999", "/videos/0", "/videos/-5", "/videos/x"):
        for method, path, body in reach(uri):
            answer = eve(method, path, json=body, headers=old if "files" in path else {})
            code = 5012 if (method, path) == ("POST", f"{uri}/versions") else 5000
            assert (answer.status_code, answer.json()["error_code"]) in [(404, code), (404, 5000)], (method, path)
    assert eve.listed() == []
    # Other forms of the same path.
    number = hers.rsplit("/", 1)[1]
    for path in (f"/videos/{number}%2Fpictures", f"/videos/{number}%3Fx=y", f"/videos/{number}:1"):
        assert eve("GET", path).status_code == 404, path
        assert client("GET", path).status_code == 404, path
    assert [one.path for one in cloud.calls[count:]] == []
    assert client("GET", hers).status_code == 200


def test_numbers_of_pictures_do_not_lead_elsewhere(quiet, cloud):
    client = Client(quiet)
    uri = client.create(5)["uri"]
    count = len(cloud.calls)
    for name in ("..%2F..%2Fme", "7%2F..%2F8", "7%3Ffields=x", "x", "-1", "7/8"):
        for method in ("GET", "PATCH", "DELETE"):
            assert client(method, f"{uri}/pictures/{name}").status_code == 404, name
    assert len(cloud.calls) == count


def test_tokens_users_and_rates_are_those_of_the_gateway(start, cloud):
    server = start(VIMEO_CALLS_PER_MINUTE="1000", VIMEO_POLL_INTERVAL="1h")
    dora = Client(server)
    me = dora("GET", "/me")
    assert me.json()["name"] == "dora"
    assert (me.headers["X-RateLimit-Limit"], me.headers["X-RateLimit-Remaining"]) == ("1000", "999")
    assert dora("GET", me.json()["uri"]).json() == me.json()
    assert dora("GET", USER).status_code == 404
    assert dora("GET", "/oauth/verify").json()["user"] == me.json()
    for bearer in (None, "x", ACCOUNT):
        answer = Plain(server, bearer)("GET", "/me")
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
    assert cloud.calls == []
    uri = dora.create(5)["uri"]
    limited = Client(server, scopes=["public"])
    count = len(cloud.calls)
    for method, path, body in reach(uri):
        if method != "GET":
            assert limited(method, path, json=body).status_code == 403, (method, path)
    assert limited("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 1}}).status_code == 403
    assert len(cloud.calls) == count
    assert dora("DELETE", "/tokens").status_code == 204
    assert dora("GET", uri).status_code == 401
    assert len(cloud.calls) == count


def test_a_user_with_too_many_calls_does_not_reach_the_service(start, cloud):
    server = start(VIMEO_CALLS_PER_MINUTE="1")
    # Two of three calls are in one minute.
    statuses = [Client(server)("POST", "/me/videos", json={}).status_code for _ in range(3)]
    assert 429 in statuses
    assert len(cloud.of("POST")) == 3 - statuses.count(429)


# Calls that are passed on


def test_edits_are_passed_on_as_they_are(gateway, client, cloud):
    uri = client.create(5, name="A", privacy={"view": "nobody", "embed": "private"})["uri"]
    forms = [
        ({"json": {"name": "B", "x": 1}}, {"name": "B"}),
        ({"data": "name=C&privacy.view=anybody", "headers": {"Content-Type": "text/plain;charset=UTF-8"}}, None),
        ({"data": {"privacy.download": "true"}}, {"privacy": {"download": True}}),
    ]
    for count, (options, wanted) in enumerate(forms):
        answer = client("PATCH", f"{uri}?fields=name,privacy", **options)
        assert answer.status_code == 200, answer.text
        assert answer.json().keys() == {"name", "privacy"}
        assert cloud.of("PATCH", uri)[count].json == (wanted or {"name": "C", "privacy": {"view": "anybody"}})
    assert (answer.json()["name"], answer.json()["privacy"]["download"]) == ("C", True)
    over = {"X-HTTP-Method-Override": "PATCH"}
    assert client("POST", uri, json={"description": "D"}, headers=over).json()["description"] == "D"
    assert cloud.of("PATCH", uri)[-1].json == {"description": "D"}
    # Lists show it without another call.
    count = len(cloud.of("GET", "/me/videos"))
    assert client("GET", "/me/videos?fields=name,description").json()["data"] == [{"name": "C", "description": "D"}]
    assert len(cloud.of("GET", "/me/videos")) == count
    # Nothing else gets into the query.
    assert client("GET", f"{uri}?fields=uri,a%26page%3D7,x%23,%E6%97%A5&page=3").json() == {"uri": uri}
    assert {name for one in cloud.of("GET", uri) for name in one.query} == {"fields"}
    state = client("GET", f"{uri}/status").json()
    assert state == {"state": "upload_incomplete", "progress": 37, "time_left": 11}
    assert client("DELETE", uri).status_code == 204
    assert client("GET", uri).status_code == 404
    assert client.listed() == []
    refused(client("DELETE", uri), 404, 5000)


def test_versions(gateway, client, cloud):
    made = client.create(len(VIDEO))
    uri = made["uri"]
    send(made["upload"]["upload_link"], VIDEO)
    upload = {"approach": "tus", "size": len(OTHER)}
    answer = client("POST", f"{uri}/versions", json={"file_name": "x.mp4", "upload": upload, "chunk_size": 1})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Content-Type"] == "application/vnd.vimeo.video.version+json"
    version = answer.json()
    assert cloud.of("POST")[-1].json == {"file_name": "x.mp4", "upload": {"approach": "tus", "size": str(len(OTHER))}}
    assert version["uri"] == f"{uri}/versions/{cloud.video(uri).files[1].id}"
    assert version["user"]["name"] == "dora"
    until(lambda: client.statuses() == {uri: "available"}, 20)
    send(version["upload"]["upload_link"], OTHER)
    assert cloud.content(uri) == OTHER
    # What was settled is no longer.
    assert client("GET", uri).json()["status"] == "transcode_starting"
    until(lambda: client.statuses() == {uri: "available"}, 20)
    page = client("GET", f"{uri}/versions?per_page=1").json()
    assert (page["total"], page["per_page"], [one["uri"] for one in page["data"]]) == (2, 1, [version["uri"]])
    older = client("GET", f"{uri}/versions?page=2&per_page=1&fields=uri,active").json()
    assert older["data"] == [{"uri": f"{uri}/versions/{cloud.video(uri).id}", "active": False}]
    for body, status, code in [
        ({"file_name": "x.mp4"}, 404, 5011),
        ({"file_name": "x.mp4", "upload": upload | {"approach": "post"}}, 404, 5013),
        ({"upload": upload}, 400, 2204),
        ({"file_name": "x.mp4", "upload": {"approach": "tus", "size": -1}}, 400, 2204),
    ]:
        refused(client("POST", f"{uri}/versions", json=body), status, code)


def test_numbers_that_cannot_be(client, cloud):
    """The service, or who answers in its place, counts to the ends of 64 bits and beyond."""
    uri = client.create(10)["uri"]
    for total in (2**63 - 1, 2**63 - 2, -(2**63), -1, 2**64, 1e300, "9", None):
        for size in (1, 2, 100):
            cloud.fault("GET", f"{uri}/versions", status=200, body={"data": [], "total": total})
            page = client("GET", f"{uri}/versions?per_page={size}")
            assert page.status_code == 200 and page.json()["data"] == [], page.text
            assert page.json()["total"] == (total if isinstance(total, int) and 0 <= total < 2**63 else 0)
    assert client("GET", uri).status_code == 200


def test_pictures_and_text_tracks(gateway, client, cloud):
    uri = client.create(5)["uri"]
    picture = client("POST", f"{uri}/pictures", json={"active": False})
    assert picture.status_code == 201
    assert picture.headers["Content-Type"] == "application/vnd.vimeo.picture+json"
    labels = {"type": "captions", "language": "en-US", "name": "sub.vtt"}
    track = client("POST", f"{uri}/texttracks", json=labels)
    assert track.status_code == 201
    assert track.headers["Content-Type"] == "application/vnd.vimeo.video.texttrack+json"
    assert {name: track.json()[name] for name in labels} == labels
    for kind, made in (("pictures", picture.json()), ("texttracks", track.json())):
        assert requests.put(made["link"] + "&fields=error", data=b"bytes", timeout=10).status_code == 200
        [found] = [one for one in cloud.video(uri).attachments.values() if one.kind == kind]
        assert (made["uri"], found.content) == (f"{uri}/{kind}/{found.id}", b"bytes")
        changed = client("PATCH", f"{made['uri']}?fields=active", json={"active": "true"})
        assert (changed.status_code, changed.json(), found.is_active) == (200, {"active": True}, True)
        assert client("GET", made["uri"]).json()["link"] == made["link"]
        page = client("GET", f"{uri}/{kind}?fields=uri").json()
        assert (page["total"], page["data"]) == (1, [{"uri": made["uri"]}])
        assert [client("DELETE", made["uri"]).status_code for _ in range(2)] == [204, 404]
    refused(client("POST", f"{uri}/texttracks", json={"type": "songs", "language": "en"}), 400, 2204)


# Limits


def test_limits_and_the_app_are_asked_first(start, cloud):
    with Receiver(HOOK_SECRET) as receiver:
        server = start(
            LIMITS_UPLOAD_BYTES="1MiB",
            HOOKS_URL=receiver.url,
            HOOKS_SECRET=HOOK_SECRET,
            HOOKS_EVENTS="pre-create",
        )
        client = Client(server)
        for approach in ("tus", "streaming"):
            upload = {"approach": approach, "size": (1 << 20) + 1}
            refused(client("POST", "/me/videos", json={"upload": upload}), 400, 2204)
            assert client.create(5, approach)["uri"]
            asked = receiver.calls.pop()
            assert (asked.upload["Size"], asked.upload["Subject"], receiver.calls) == (5, "dora", [])
        client.complete(client.filled(b"12345"))
        assert len(receiver.calls) == 1, "one upload, one question"
        count = len(cloud.of("POST"))
        receiver.reply = {"RejectUpload": True}
        uri = client.listed()[0]["uri"]
        version = {"file_name": "x", "upload": {"approach": "tus", "size": 5}}
        for path, body in [("/me/videos", {"upload": {"approach": one, "size": 5}}) for one in ("tus", "streaming")] + [
            (f"{uri}/versions", version)
        ]:
            assert client("POST", path, json=body).status_code == 403
        assert len(cloud.of("POST")) == count


def test_videos_of_the_service_use_up_the_period(start, cloud):
    server = start(QUOTA_SUBJECT_PERIOD_UPLOADS="4", QUOTA_SUBJECT_PERIOD_BYTES="100")
    client = Client(server)

    def begun(size, approach="tus"):
        return client("POST", "/me/videos", json={"upload": {"approach": approach, "size": size}})

    for approach in ("tus", "streaming"):
        for status in (403, 500):
            cloud.fault("POST", "/me/videos", status, refusal(4101))
            assert begun(60, approach).status_code == (403 if status == 403 else 503)
    assert used(server) == (0, 0, 0, 0), "what the service refuses does not count"
    uri = begun(60).json()["uri"]
    assert used(server) == (1, 60, 0, 0)
    count = len(cloud.of("POST"))
    refused(begun(41), 403, 4102)
    version = {"file_name": "x", "upload": {"approach": "tus", "size": 41}}
    refused(client("POST", f"{uri}/versions", json=version), 403, 4102)
    assert len(cloud.of("POST")) == count
    version["upload"]["size"] = 10
    cloud.fault("POST", f"{uri}/versions", 403, refusal(3427))
    refused(client("POST", f"{uri}/versions", json=version), 403, 3427)
    assert used(server)[:2] == (1, 60)
    assert client("POST", f"{uri}/versions", json=version).status_code == 201
    assert used(server)[:2] == (2, 70)
    # What passes through the gateway counts once.
    streamed = begun(10, "streaming").json()
    client.put(streamed["upload"]["upload_link"], VIDEO[:10])
    ticket = client.filled(VIDEO[:20])
    assert used(server)[:2] == (4, 100)
    arrived(cloud, streamed["uri"], VIDEO[:10])
    arrived(cloud, client.complete(ticket), VIDEO[:20])
    ended(server)
    assert used(server) == (4, 100, 0, 0)
    refused(begun(0), 403, 4104)
    # The period's quota does not come back with what is deleted.
    client("DELETE", uri)
    assert used(server)[:2] == (4, 100)


# Lists


def test_lists_have_pages(gateway, cloud):
    client = Client(gateway)
    Client(gateway, "eve").create(1)
    made = [client.create(1, approach)["uri"] for approach in ("tus", "streaming", "post", "tus", "tus")]
    client.ticket()
    calls = len(cloud.of("GET", "/me/videos"))
    page = client("GET", "/me/videos?per_page=2&page=2&fields=uri").json()
    assert (page["total"], page["page"], page["per_page"]) == (5, 2, 2)
    assert page["data"] == [{"uri": uri} for uri in made[::-1][2:4]]
    assert page["paging"]["next"] == "/me/videos?page=3&per_page=2&fields=uri"
    assert len(cloud.of("GET", "/me/videos")) == calls
    entries = client("GET", "/me/videos").json()["data"]
    assert [one["uri"] for one in entries] == made[::-1]
    assert {one["user"]["name"] for one in entries} == {"dora"}


def test_videos_are_polled_to_their_end(gateway, client, cloud):
    """Nobody but the gateway itself asks the service; clients read lists."""
    cloud.transcoding = 2
    hidden = client.create(5, privacy={"view": "unlisted"})
    made = {status: client.create(5)["uri"] for status in FINAL[1:]}
    pending = client.create(5)["uri"]
    assert set(client.statuses().values()) == {"uploading"}
    send(hidden["upload"]["upload_link"], b"12345")
    for status, uri in made.items():
        cloud.end(uri, status)
    seen = []

    def settled():
        statuses = client.statuses()
        seen.append(statuses[hidden["uri"]])
        wanted = {uri: status for status, uri in made.items()}
        return statuses == wanted | {hidden["uri"]: "available", pending: "uploading"}

    until(settled, 30, interval=0.1)
    assert set(seen) <= {*PROGRESS, "available"}
    [link] = [one["link"] for one in client.listed() if one["uri"] == hidden["uri"]]
    assert link == f"https://vimeo.com/{cloud.video(hidden['uri']).id}/{cloud.video(hidden['uri']).hash}"
    # What has ended is left alone, while others are still polled.
    until(lambda: client.statuses() and len(cloud.of("GET", pending)) >= 2, 30)
    count = {uri: len(cloud.of("GET", uri)) for uri in client.statuses()}
    until(lambda: len(cloud.of("GET", pending)) > count[pending], 30)
    assert {uri: len(cloud.of("GET", uri)) for uri in count if uri != pending} == {
        uri: number for uri, number in count.items() if uri != pending
    }
    # One that the account's owner has deleted.
    del cloud.videos[cloud.video(pending).id]
    until(lambda: pending not in client.statuses(), 60)
    assert client("GET", pending).status_code == 404


@pytest.fixture
def earlier():
    """What happens in it happens some days ago; afterwards the gateway has the right time."""

    @contextmanager
    def going_back(days, server):
        usual = server.environment
        server.stop()
        server.environment = usual | clock.shifted(-86_400 * days)
        server.start()
        yield Client(server)
        server.stop()
        server.environment = usual
        server.start()

    return going_back


def test_videos_that_stay_without_bytes_are_deleted(earlier, gateway, cloud):
    """At the account they would count (section 11, item 5)."""
    with earlier(8, gateway) as client:
        orphan, whole, streamed = client.create(5), client.create(5), client.create(5, "streaming")
        send(whole["upload"]["upload_link"], b"12345")
    young = Client(gateway).create(5)
    until(lambda: {one.uri for one in cloud.videos.values()} == {whole["uri"], young["uri"]}, 60)
    until(lambda: Client(gateway).statuses().keys() == {whole["uri"], young["uri"]})
    assert {one.path for one in cloud.of("DELETE")} == {orphan["uri"], streamed["uri"]}
    ended(gateway)


def test_old_videos_are_polled_rarely(earlier, gateway, cloud):
    """The older a video, the longer the pause: calls are limited."""
    with earlier(1, gateway) as client:
        old = client.create(5)["uri"]
    new = Client(gateway).create(5)["uri"]
    until(lambda: len(cloud.of("GET", new)) >= 3, 30)
    assert len(cloud.of("GET", old)) == 1


# Errors


REFUSALS = [
    (400, refusal(2204, ("name", 2250), ("privacy.view", 2232))),
    (403, refusal(4101, text="Der Platz ist verbraucht – 空")),
    (403, refusal(3428)),
    (403, refusal(3400)),
    (404, refusal(5000)),
    (409, {"error": "Only a text."}),
]


@pytest.mark.parametrize(("status", "document"), REFUSALS)
def test_refusals_of_the_service_come_back_as_they_are(gateway, client, cloud, status, document):
    uri = client.create(5)["uri"]
    body = {"upload": {"approach": "tus", "size": 5}}
    streaming = {"upload": {"approach": "streaming", "size": 5}}
    for method, path, members in [
        ("POST", "/me/videos", body),
        ("POST", "/me/videos", streaming),
        ("POST", f"{uri}/versions", body | {"file_name": "x"}),
        ("PATCH", uri, {"name": "x"}),
        ("POST", f"{uri}/pictures", None),
        ("GET", f"{uri}/status", None),
    ]:
        if (status, path) == (404, uri):
            continue
        cloud.fault(method, path, status, document, {"Set-Cookie": "a=b", "Vimeo-X": "y"})
        answer = client(method, path, json=members)
        assert answer.status_code == status, (path, answer.text)
        told = answer.json()
        for name in ("error", "developer_message", "error_code"):
            if name in document:
                assert told[name] == document[name]
        assert told.get("invalid_parameters") == document.get("invalid_parameters")
        assert answer.headers["Content-Type"] == "application/vnd.vimeo.error+json"
        assert not {"Set-Cookie", "Vimeo-X"} & set(answer.headers)
    assert uploads(gateway) == []


def unavailable(answer):
    assert answer.status_code == 503, answer.text
    assert answer.headers["Content-Type"] == "application/vnd.vimeo.error+json"
    assert int(answer.headers["Retry-After"]) > 0
    assert "WWW-Authenticate" not in answer.headers


def test_a_token_that_the_service_does_not_take(gateway, client, cloud):
    """It is not the client's: iOS would end its session (section 3.1)."""
    uri = client.create(5)["uri"]
    theirs = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    for method, path in [("POST", "/me/videos"), ("PATCH", uri), ("GET", uri), ("DELETE", uri)]:
        cloud.fault(method, path, 401, {"error": "You must provide a valid authenticated access token."}, theirs)
        answer = client(method, path, json={"name": "x"} if method == "PATCH" else None)
        assert answer.status_code == 503
        assert "WWW-Authenticate" not in answer.headers
    assert re.search(r"(?i)access ?token|401", gateway.whole_log())
    assert client("GET", uri).status_code == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500, "body": refusal(4003)},
        {"status": 502, "body": b"<html>\xff</html>", "fields": {"Content-Type": "text/html"}},
        {"status": 503, "fields": {"Retry-After": "99"}},
        {"status": 200, "body": b"{", "fields": {"Content-Type": "application/vnd.vimeo.video+json"}},
        {"status": 200, "body": b"[]"},
        {"status": 200, "body": {"name": "no uri"}},
        {"status": 200, "body": b'"' + b"x" * (8 << 20) + b'"'},
        {"is_cut": True},
        {"is_lost": True},
    ],
    ids=lambda fault: str(fault)[:40],
)
def test_a_service_that_answers_nothing_of_use(gateway, client, cloud, fault):
    uri = client.create(5)["uri"]
    for method, path, body in [("GET", uri, None), ("POST", "/me/videos", {"upload": {"approach": "tus", "size": 5}})]:
        # A kept connection that breaks may be tried once more, but a second call would make a second video.
        cloud.fault(method, path, times=2 if method == "GET" else 1, **fault)
        count = len(cloud.of(method, path))
        answer = client(method, path, json=body)
        if fault.get("body") == {"name": "no uri"} and method == "GET":
            # Little, but a document.
            continue
        if fault.get("status") == 200:
            assert answer.status_code in (502, 503), answer.text
        else:
            unavailable(answer)
        assert method == "GET" or len(cloud.of(method, path)) == count + 1
        cloud.faults.clear()
    assert used(gateway)[:1] == (1,)
    assert client("GET", uri).status_code == 200
    client.create(5)


def test_redirects_are_not_followed(gateway, client, cloud):
    for status in (301, 302, 307, 308):
        cloud.fault("POST", "/me/videos", status, b"", {"Location": f"{cloud.data_url}/elsewhere"})
        answer = client("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 5}})
        assert answer.status_code in (502, 503)
        assert "Location" not in answer.headers
    assert [one for one in cloud.calls if one.host == "data"] == []


def test_a_service_that_is_away(start, cloud):
    server = start(VIMEO_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    unavailable(Client(server)("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 5}}))
    assert used(server) == (0, 0, 0, 0)


@pytest.mark.parametrize("first", ["client", "poll"])
def test_the_rate_limit_of_the_service_is_obeyed(gateway, client, cloud, first):
    uri = client.create(5)["uri"]
    cloud.limit(5)
    if first == "poll":
        until(lambda: [one for one in cloud.of("GET", uri) if one.status == 429])
    for method, path in [("POST", "/me/videos"), ("GET", uri), ("DELETE", uri), ("GET", f"{uri}/pictures")]:
        answer = client(method, path, json={"upload": {"approach": "tus", "size": 5}} if method == "POST" else None)
        assert answer.status_code == 429, answer.text
        # go-vimeo and dot-net read these (section 3.5).
        assert answer.headers["X-RateLimit-Remaining"] == "0"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", answer.headers["X-RateLimit-Reset"])
        assert int(answer.headers["Retry-After"]) > 0
    assert len([one for one in cloud.calls if one.status == 429]) == 1
    # What the gateway knows by itself is not limited.
    assert client("GET", "/me").status_code == 200
    assert client.statuses() == {uri: "uploading"}
    until(lambda: client("GET", uri).status_code == 200)
    assert used(gateway)[:1] == (1,)
    client.create(5)


def test_calls_are_counted(gateway, client, cloud):
    client.create(5)
    before = counted(gateway, "sluice_cloud_calls_total", cloud="Vimeo", outcome="answered")
    assert before >= 1
    cloud.fault("POST", "/me/videos", is_cut=True)
    unavailable(client("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 5}}))
    text = API(gateway.url, gateway.admin_key).get("/metrics").text
    outcomes = dict(re.findall(r'(?m)^sluice_cloud_calls_total\{cloud="Vimeo",outcome="(\w+)"\} (\d+)', text))
    assert sum(int(number) for name, number in outcomes.items() if name != "answered") == 1, outcomes


# Old Upload


@pytest.mark.parametrize("version", OLD)
def test_pyvimeo_with_tickets(gateway, cloud, make_file, version):
    sdk = PyVimeo(gateway, version, token(gateway))
    uri = sdk.upload(make_file(VIDEO))
    assert re.fullmatch(r"/videos/\d+", uri)
    arrived(cloud, uri)
    [call] = cloud.of("POST", "/me/videos")
    assert call.json == {"upload": {"approach": "tus", "size": str(len(VIDEO))}}
    changed = sdk.patch(uri, data={"name": "Other"})
    assert (changed["json"]["name"], cloud.video(uri).labels["name"]) == ("Other", "Other")
    assert sdk.replace(uri, make_file(OTHER)) == uri
    arrived(cloud, uri, OTHER)
    assert len(cloud.video(uri).files) == 2 and len(cloud.videos) == 1
    ended(gateway)
    assert sdk.delete(uri)["status"] == 204
    assert cloud.videos == {}
    assert counted(gateway, "sluice_vimeo_transfers_total", outcome="sent") == 2


@pytest.mark.parametrize(
    ("first", "rest", "colon"),
    [("bytes: 0-{n}/{n}", "bytes: {k}-{n}/{n}", 0), ("bytes 0-{n}.0/{n}.0", "bytes {k}-{m}/{n}", -1)],
)
def test_a_ticket_becomes_a_video_of_the_service(gateway, client, cloud, first, rest, colon):
    n, k = len(VIDEO), MIB
    values = {"n": n, "k": k, "m": n - 1}
    ticket = client.ticket(size=n)
    link = ticket["upload_link"]
    assert link.startswith(gateway.url)
    answer = client("PUT", link, data=VIDEO[:k], headers={"Content-Range": first.format(**values)})
    assert (answer.status_code, answer.content) == (200, b"")
    probe = client("PUT", link, headers={"Content-Range": "bytes */*"})
    assert (probe.status_code, probe.headers["Range"]) == (308, f"bytes=0-{k}")
    refused(client("DELETE", ticket["complete_uri"]), 400, 4011)
    answer = client("PUT", link, data=VIDEO[k:], headers={"Content-Range": rest.format(**values)})
    assert answer.status_code == 200
    for uri, code in [
        (ticket["complete_uri"].split("?")[0], 5007),
        (ticket["complete_uri"][:-1] + ("A" if ticket["complete_uri"][-1] != "A" else "B"), 8400),
        (ticket["complete_uri"].replace(ticket["ticket_id"], "217340000123456"), 5006),
    ]:
        refused(client("DELETE", uri), 404, code)
    # None of this concerns the service.
    assert cloud.calls == []
    held = [one for one in uploads(gateway)]
    uri = client.complete(ticket)
    assert cloud.video(uri).files[0].size == n
    assert client.complete(ticket) == uri
    arrived(cloud, uri)
    ended(gateway, *held)
    # A client whose answer was lost may ask much later.
    assert client.complete(ticket) == uri
    gateway.stop()
    gateway.start()
    assert client.complete(ticket) == uri
    assert len(cloud.of("POST", "/me/videos")) == 1
    until(lambda: client.statuses() == {uri: "available"}, 30)
    assert client("GET", uri).json()["status"] == "available"
    client("DELETE", uri)
    assert client.listed() == []


def test_labels_of_a_ticket_reach_the_service(client, cloud):
    """In the private form of 2017 metadata is in the ticket (section 8.2)."""
    labels = {
        "name": "N",
        "description": "D",
        "privacy": {"view": "nobody", "download": False, "embed": "private"},
        "license": "by",
        "content_rating": ["safe"],
    }
    uri = client.complete(client.filled(OTHER, **labels))
    assert cloud.of("POST")[0].json == labels | {"upload": {"approach": "tus", "size": str(len(OTHER))}}
    arrived(cloud, uri, OTHER)


@pytest.mark.parametrize("is_version", [False, True])
def test_completions_at_once_make_one_video(gateway, client, cloud, is_version):
    if is_version:
        uri = client.create(0)["uri"]
        ticket = client("PUT", f"{uri}/files", json={"type": "streaming"}, headers={"Accept": "*/*"}).json()
        client.put(ticket["upload_link"], VIDEO)
    else:
        ticket = client.filled(VIDEO)
    slow = cloud.fault("POST", ".*", delay=0.3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client("DELETE", ticket["complete_uri"]), range(8)))
    assert slow.reached.is_set()
    # Another one may be told to ask again.
    assert {one.status_code for one in answers} <= {201, 409}
    uri = client.complete(ticket)
    assert {one.headers["Location"] for one in answers if one.status_code == 201} == {uri}
    arrived(cloud, uri)
    until(lambda: [one.uri for one in cloud.videos.values()] == [uri])
    assert len(cloud.video(uri).files) == (2 if is_version else 1)


def test_a_completion_that_the_service_refuses(gateway, client, cloud):
    ticket = client.filled(VIDEO)
    cloud.free = 5
    refused(client("DELETE", ticket["complete_uri"]), 403, 4101)
    cloud.free = 1 << 40
    cloud.fault("POST", "/me/videos", 500)
    unavailable(client("DELETE", ticket["complete_uri"]))
    cloud.forgets_tus = True
    assert client("DELETE", ticket["complete_uri"]).status_code == 502
    until(lambda: cloud.videos == {})
    cloud.forgets_tus = False
    # The bytes are still here.
    uri = client.complete(ticket)
    arrived(cloud, uri)
    assert list(cloud.videos) == [cloud.video(uri).id]


@pytest.mark.parametrize("is_killed", [False, True])
def test_tickets_survive_a_restart(gateway, client, cloud, is_killed):
    ticket, other = client.ticket(), client.filled(OTHER)
    client.put(ticket["upload_link"], VIDEO[:MIB], total=len(VIDEO))
    gateway.kill() if is_killed else gateway.stop()
    gateway.start()
    probe = client("PUT", ticket["upload_link"], headers={"Content-Range": "bytes */*"})
    assert probe.headers["Range"] == f"bytes=0-{MIB}"
    client.put(ticket["upload_link"], VIDEO[MIB:], MIB, len(VIDEO))
    arrived(cloud, client.complete(ticket))
    arrived(cloud, client.complete(other), OTHER)
    ended(gateway)


# Approach streaming


@pytest.mark.parametrize("data", [VIDEO, b""], ids=len)
def test_a_phone_streams(gateway, client, cloud, data):
    """VimeoUpload: its link is the gateway's, its video the service's (section 8.2)."""
    n = len(data)
    body = {"name": "N", "upload": {"approach": "streaming", "size": n, "mime_type": "video/mp4"}}
    answer = client("POST", "/me/videos", json=body)
    assert answer.status_code == 201, answer.text
    made, uri = answer.json(), answer.json()["uri"]
    [call] = cloud.of("POST")
    assert call.json == {"name": "N", "upload": {"approach": "tus", "size": str(n)}}
    assert (made["upload"]["approach"], made["status"] in [*PROGRESS, "available"]) == ("streaming", True)
    assert int(made["upload"]["size"]) == n
    assert made["upload"]["upload_link"].startswith(gateway.url)
    fields = {"Content-Type": "video/mp4", "Content-Range": f"bytes 0-{n}.0/{n}.0"}
    if n:
        # It begins anew after a pause.
        client("PUT", made["upload"]["upload_link"], data=data[:MIB], headers=fields)
        shown = client("GET", uri).json()
        assert (shown["status"], shown["upload"]["approach"]) == ("uploading", "streaming")
        assert shown["upload"]["upload_link"] == made["upload"]["upload_link"]
        assert cloud.of("PATCH", LINKS) == []
        assert client("PUT", made["upload"]["upload_link"], data=data, headers=fields).status_code == 200
    arrived(cloud, uri, data)
    until(lambda: client("GET", uri).json()["status"] == "available")
    shown = client("GET", uri).json()
    assert (shown["upload"]["status"], shown["upload"]["approach"], shown["name"]) == ("complete", "streaming", "N")
    ended(gateway)
    assert cloud.content(uri) == data


@pytest.mark.parametrize("upload", [{}, {"size": -1}, {"size": "x"}])
def test_a_phone_must_say_how_much_it_streams(client, cloud, upload):
    """The size of a tus upload is fixed when it is created (section 11, item 3)."""
    answer = client("POST", "/me/videos", json={"upload": {"approach": "streaming"} | upload})
    refused(answer, 400, 2204)
    assert [one["field"] for one in answer.json()["invalid_parameters"]] == ["upload.size"]
    assert cloud.calls == []


def test_a_phone_streams_another_size(gateway, client, cloud):
    made = client.create(100, "streaming")
    fields = {"Content-Range": "bytes 0-101/101"}
    assert 400 <= client("PUT", made["upload"]["upload_link"], data=VIDEO[:101], headers=fields).status_code < 500
    # Less than announced is not all.
    client("PUT", made["upload"]["upload_link"], data=VIDEO[:99], headers={"Content-Range": "bytes 0-100/100"})
    assert client("GET", made["uri"]).json()["status"] == "uploading"
    assert cloud.of("PATCH", LINKS) == []
    client.put(made["upload"]["upload_link"], VIDEO[:100])
    arrived(cloud, made["uri"], VIDEO[:100])


# The transfer


def test_a_transfer_goes_on_after_a_failure(gateway, client, cloud):
    # What happens once, and where the PATCHes begin.
    faults = [
        ("PATCH", {"after": 100_000, "is_cut": True}, [0, 0]),
        ("PATCH", {"after": 100_000, "is_cut": True, "keeps_partial": True}, [0, 100_000]),
        # Nothing of these is stored, whatever the answer says.
        ("PATCH", {"status": 204, "fields": TUS}, [0, 0]),
        ("PATCH", {"status": 500}, [0, 0]),
        ("PATCH", {"status": 409, "fields": TUS}, [0, 0]),
        ("PATCH", {"is_lost": True}, [0]),
        ("HEAD", {"status": 503}, [0]),
        ("HEAD", {"status": 200, "fields": TUS}, [0]),
        ("HEAD", {"is_cut": True, "times": 2}, [0]),
        # More than there is: it must not be given up for bytes that are not its own.
        ("HEAD", {"status": 200, "fields": TUS | {"Upload-Offset": str(len(OTHER) + 1)}}, [0]),
        ("HEAD", {"status": 200, "fields": TUS | {"Upload-Offset": str(2**63 - 1)}}, [0]),
        ("HEAD", {"status": 200, "fields": TUS | {"Upload-Offset": "-1"}}, [0]),
    ]
    paths = {}
    for method, fault, offsets in faults:
        made = client.create(len(OTHER), "streaming")
        path = urlsplit(cloud.link(cloud.video(made["uri"]).files[0])).path
        cloud.fault(method, re.escape(path), **fault)
        paths[made["uri"]] = path, offsets
        client.put(made["upload"]["upload_link"], OTHER)
    for uri, (path, offsets) in paths.items():
        arrived(cloud, uri, OTHER)
        calls = cloud.of("HEAD|PATCH", path)
        assert [int(one.fields["upload-offset"]) for one in calls if one.method == "PATCH"] == offsets
        # Each begins where the service has said just before (section 11, item 9).
        assert all(before.method == "HEAD" for before, one in itertools.pairwise(calls) if one.method == "PATCH")
        assert calls[0].method == "HEAD"
    ended(gateway)
    assert counted(gateway, "sluice_vimeo_transfers_total", outcome="sent") == len(faults)
    assert "uploading_error" not in client.statuses().values()


def test_a_link_that_takes_nothing_is_asked_again_after_pauses(client, cloud):
    """Each attempt sends everything again."""
    made = client.create(len(OTHER), "streaming")
    path = urlsplit(cloud.link(cloud.video(made["uri"]).files[0])).path
    cloud.fault("PATCH", re.escape(path), status=204, fields=TUS | {"Upload-Offset": "0"}, times=2)
    begin = time.monotonic()
    client.put(made["upload"]["upload_link"], OTHER)
    arrived(cloud, made["uri"], OTHER)
    assert time.monotonic() - begin > 5
    assert len([one for one in cloud.of("PATCH", path)]) == 3


@pytest.mark.parametrize("status", [404, 410])
def test_a_link_that_is_gone(gateway, client, cloud, status):
    for method in ("HEAD", "PATCH"):
        cloud.fault(method, LINKS, status, b"", TUS, times=1000)
    uri = client.complete(client.filled(VIDEO))
    until(lambda: client("GET", uri).json()["status"] == "uploading_error", 30)
    assert client("GET", uri).json()["upload"]["status"] == "error"
    assert client.statuses() == {uri: "uploading_error"}
    assert counted(gateway, "sluice_vimeo_transfers_total", outcome="gone") == 1
    assert client("DELETE", uri).status_code == 204
    assert cloud.videos == {}
    ended(gateway)


@pytest.mark.parametrize("approach", ["ticket", "streaming", "version"])
def test_a_video_that_is_deleted_ends_its_transfer(gateway, client, cloud, approach):
    held = cloud.fault("PATCH", LINKS, after=MIB, is_held=True)
    if approach == "ticket":
        uri = client.complete(client.filled(VIDEO))
    elif approach == "version":
        uri = client.create(5)["uri"]
        ticket = client("PUT", f"{uri}/files", json={"type": "streaming"}, headers={"Accept": "*/*"}).json()
        client.put(ticket["upload_link"], VIDEO)
        assert client.complete(ticket) == uri
    else:
        made = client.create(len(VIDEO), "streaming")
        uri = made["uri"]
        client.put(made["upload"]["upload_link"], VIDEO)
    assert held.reached.wait(30)
    assert client("GET", uri).json()["status"] == "uploading"
    assert client("DELETE", uri).status_code == 204
    assert cloud.videos == {}
    refused(client("DELETE", uri), 404, 5000)
    assert client.listed() == []
    held.go.set()
    ended(gateway)
    # The next one is not affected.
    other = client.complete(client.filled(OTHER))
    arrived(cloud, other, OTHER)
    assert client.statuses().keys() == {other}


def test_a_video_that_is_deleted_before_its_bytes_are_there(gateway, client, cloud):
    made = client.create(len(VIDEO), "streaming")
    client.put(made["upload"]["upload_link"], VIDEO[:MIB], total=len(VIDEO))
    assert client("DELETE", made["uri"]).status_code == 204
    assert cloud.videos == {}
    ended(gateway)
    assert client("PUT", made["upload"]["upload_link"], data=VIDEO).status_code == 404


@pytest.mark.parametrize("keeps_partial", [False, True])
def test_a_transfer_survives_kill_9(gateway, client, cloud, keeps_partial):
    cloud.keeps_partial = keeps_partial
    held = cloud.fault("PATCH", LINKS, after=MIB, is_held=True)
    ticket = client.filled(VIDEO)
    uri = client.complete(ticket)
    assert held.reached.wait(30)
    gateway.kill()
    gateway.start()
    assert client.complete(ticket) == uri
    arrived(cloud, uri)
    ended(gateway)
    assert len(cloud.videos) == 1
    offsets = [int(one.fields["upload-offset"]) for one in cloud.of("PATCH", LINKS)]
    assert offsets == [0, MIB if keeps_partial else 0]
    assert counted(gateway, "sluice_vimeo_transfers_total", outcome="sent") == 1


@pytest.mark.nightly
def test_a_large_file_is_sent_in_pieces(gateway, client, cloud, tmp_path):
    """The stand-in finds fault with a PATCH of more than 256 MiB."""
    size = (256 << 20) + 1
    path = tmp_path / "large.mp4"
    with open(path, "wb") as file:
        file.truncate(size - 1)
        file.seek(size - 1)
        file.write(b"x")
    made = client.create(size, "streaming")
    with open(path, "rb") as file:
        assert client("PUT", made["upload"]["upload_link"], data=file).status_code == 200
    until(lambda: cloud.content(made["uri"]) is not None, 300, interval=0.5)
    assert cloud.content(made["uri"]) == bytes(size - 1) + b"x"
    assert len(cloud.of("PATCH", LINKS)) == 2


# Nodes


@pytest.fixture
def nodes(rgw, postgres, bucket_name, tmp_path, cloud):
    database = postgres.make_database()
    with Cluster(tmp_path, rgw, bucket_name, database, nodes=2, environment=settings_of(cloud)) as made:
        yield made
    rgw.wipe(bucket_name)
    for node in made.nodes:
        check_calls(cloud, node.log.read_text(errors="replace"))


def test_nodes_share_the_transfers(nodes, cloud):
    client = Client(nodes)
    tickets = [client.filled(OTHER) for _ in range(6)]

    def complete(way):
        node, ticket = way
        answer = client("DELETE", node.url + ticket["complete_uri"])
        # Another one may be told to ask again.
        assert answer.status_code in (201, 409), answer.text

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(complete, itertools.product(nodes.nodes, tickets)))
    uris = [client.complete(ticket) for ticket in tickets]
    for uri in uris:
        arrived(cloud, uri, OTHER)
    until(lambda: uploads(nodes) == [], 30)
    assert len(set(uris)) == 6
    assert {one.uri for one in cloud.videos.values()} == set(uris)
    assert [one.status for one in cloud.of("PATCH", LINKS)] == [204] * 6
    for node in nodes.nodes:
        assert Client(node).statuses().keys() == set(uris)


@pytest.mark.nightly
def test_a_node_takes_over_what_another_has_left(nodes, cloud):
    first, second = nodes.nodes
    second.stop()
    held = cloud.fault("PATCH", LINKS, after=MIB, is_held=True)
    client = Client(first)
    ticket = client.filled(VIDEO)
    uri = client.complete(ticket)
    assert held.reached.wait(30)
    second.start()
    first.kill()
    assert Client(second).complete(ticket) == uri
    # The claim of the other must have ended.
    until(lambda: cloud.content(uri) == VIDEO, 120)
    until(lambda: uploads(second) == [], 30)
    until(lambda: Client(second).statuses() == {uri: "available"}, 30)
    first.start()


# Secrets


def test_a_long_text_of_the_service_has_no_part_of_the_token(start, cloud):
    """It is removed before the text is cut: wherever it begins, none of it is told."""
    server = start()
    client = Client(server)
    for before in range(1000 - len(ACCOUNT) - 20, 1001, 3):
        text = "x" * before + ACCOUNT + "y" * 100
        body = {"error": text, "developer_message": text, "error_code": 2204}
        body["invalid_parameters"] = [{"field": text, "error": text, "developer_message": text, "error_code": 1}]
        cloud.fault("POST", "/me/videos", status=400, body=body)
        answer = client("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 7}})
        assert answer.status_code == 400 and "xxx" in answer.text
        assert not [size for size in range(4, len(ACCOUNT)) if f"x{ACCOUNT[:size]}" in answer.text], before
    assert ACCOUNT[:8] not in server.whole_log()


def test_the_token_of_the_account_is_nowhere(start, cloud, tmp_path):
    server = start(LOG_LEVEL="debug")
    client = Client(server)
    text = {"error": f"Bearer {ACCOUNT} is wrong", "developer_message": ACCOUNT, "error_code": 2204, "link": ACCOUNT}
    uri = client.create(5)["uri"]
    for fault in ({"status": 400, "body": text}, {"status": 401, "body": text}, {"status": 500, "body": text}):
        for method, path in [("POST", "/me/videos"), ("GET", uri), ("PATCH", uri)]:
            cloud.fault(method, path, **fault)
            client(method, path, json={"name": "x"} if method != "GET" else None)
    arrived(cloud, client.complete(client.filled(OTHER)), OTHER)
    api = API(server.url, server.admin_key)
    seen = [api.get(path).text for path in ("/metrics", "/v1/uploads", "/healthz", "/readyz")]
    seen.append(run("check", environment=server.environment).stdout)
    assert ACCOUNT not in json.dumps(seen)
    assert ACCOUNT not in server.whole_log()


def test_calls_of_one_user_leave_places_for_those_of_others(quiet, cloud):
    """64 calls are under way at once; one user has half of them, however many wait."""
    eve, bob = Client(quiet, "eve"), Client(quiet, "bob")
    slow, quick = eve.create(10)["uri"], bob.create(10)["uri"]
    held = cloud.fault("GET", re.escape(slow), is_held=True, times=32)
    with ThreadPoolExecutor(70) as pool:
        answers = [pool.submit(eve, "GET", slow) for _ in range(70)]
        until(lambda: len(cloud.of("GET", re.escape(slow))) >= 32)
        for _ in range(3):
            assert bob("GET", quick).status_code == 200
        assert len(cloud.of("GET", re.escape(slow))) == 32
        held.go.set()
        assert {one.result().status_code for one in answers} <= {200, 503}
