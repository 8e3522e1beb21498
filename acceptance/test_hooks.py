"""Webhooks with the names, payloads and responses of tusd 2: https://tus.github.io/tusd/advanced-topics/hooks/."""

import base64
import json
import threading
import time
from urllib.parse import quote

import pytest
import requests

from harness.api import API, TUS, moment, path_of, problem, tus_error, tus_patch, upload_id
from harness.daemon import free_port
from harness.data import MIB, content
from harness.draft import VERSIONS, Client, assert_media
from harness.http_server import LocalServer
from harness.receiver import Receiver
from harness.server import run
from harness.vimeo import Plain as Vimeo
from harness.vimeo import token as vimeo_token
from harness.wire import Wire, head, until

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
EVERYTHING = "pre-create, post-create, post-receive, pre-finish, post-finish, pre-terminate, post-terminate"


@pytest.fixture
def receiver():
    with Receiver(SECRET) as one:
        yield one


@pytest.fixture
def hooked(make_server, receiver):
    """A server that sends hooks to the receiver; called with further settings."""

    def start(**environment):
        defaults = {"URL": receiver.url, "SECRET": SECRET, "EVENTS": EVERYTHING, "TIMEOUT": "5s"}
        settings = {f"SLUICE_HOOKS_{name}": value for name, value in (defaults | environment).items()}
        # As tusd, whose payloads these are.
        settings["SLUICE_UPLOADS_DELETE_AFTER_COMPLETION"] = "true"
        server = make_server(environment=settings).start()
        return server, API(server.url, server.admin_key)

    return start


# Payloads


def shape(value):
    """The JSON types of a value, member by member."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


def test_payloads_are_those_of_tusd(hooked, receiver):
    """Every member of tusd's `HookRequest` and `Subject`, with its type; headers in Go's spelling, as lists."""
    server, api = hooked()
    url = api.created(5, metadata={"filename": "a.txt"}, headers={"x-TENANT": "t1"})
    identifier = upload_id(url)
    assert api.patch(url, 0, b"ab").status_code == 204
    assert api.patch(url, 2, b"cde").status_code == 204
    receiver.wait("post-finish", upload=identifier)
    assert api.terminate(url).status_code == 204
    receiver.wait("post-terminate", upload=identifier)

    common = {
        "ID": identifier,
        "Size": 5,
        "SizeIsDeferred": False,
        "MetaData": {"filename": "a.txt"},
        "Subject": None,
        "IsPartial": False,
        "IsFinal": False,
        "PartialUploads": None,
        "Storage": {"Type": "sluice", "ID": identifier},
    }
    expected = {
        "pre-create": (common | {"ID": "", "Offset": 0, "Storage": None}, "POST", "/files"),
        "post-create": (common | {"Offset": 0}, "POST", "/files"),
        "pre-finish": (common | {"Offset": 5}, "PATCH", f"/files/{identifier}"),
        "post-finish": (common | {"Offset": 5}, "PATCH", f"/files/{identifier}"),
        "pre-terminate": (common | {"Offset": 5}, "DELETE", f"/files/{identifier}"),
        "post-terminate": (common | {"Offset": 5}, "DELETE", f"/files/{identifier}"),
    }
    for kind, (upload, method, uri) in expected.items():
        (call,) = receiver.of(kind)
        assert set(call.payload) == {"Type", "Event"}
        assert set(call.payload["Event"]) == {"Upload", "HTTPRequest"}
        assert call.upload == upload, kind
        assert set(call.request) == {"Method", "URI", "RemoteAddr", "Header"}
        assert (call.request["Method"], call.request["URI"]) == (method, uri)
        address, port = call.request["RemoteAddr"].rsplit(":", 1)
        assert address == "127.0.0.1" and 0 < int(port) < 65536
        assert call.request["Header"]["Tus-Resumable"] == ["1.0.0"]
        assert call.request["Header"]["Host"] == [f"127.0.0.1:{server.port}"]
        assert all(isinstance(one, str) for values in call.request["Header"].values() for one in values)
    (created,) = receiver.of("post-create")
    assert created.request["Header"]["X-Tenant"] == ["t1"]
    assert [one.upload["Offset"] for one in receiver.of("post-receive")][-1] == 5


def test_hooks_have_the_subject_of_the_upload(hooked, receiver):
    _, api = hooked()
    token = api.post("/v1/tus/tokens", json={"subject": "alice"}).json()["token"]
    url = api.created(3, key=token)
    assert api.patch(url, 0, b"abc").status_code == 204
    receiver.wait("post-finish")
    kinds = ("pre-create", "post-create", "post-receive", "pre-finish", "post-finish")
    assert {kind: receiver.of(kind)[-1].upload["Subject"] for kind in kinds} == dict.fromkeys(kinds, "alice")


def test_hooks_contain_no_credentials(hooked, receiver):
    _, api = hooked()
    url = api.created(3, headers={"Cookie": "session=1"})
    assert api.patch(url, 0, b"abc").status_code == 204
    receiver.wait("post-finish")
    parts = [api.created(1, headers={"Upload-Concat": "partial"}) for _ in range(2)]
    named = [parts[0], parts[1].rsplit("/", 1)[1]]
    answer = api.create(None, headers={"Upload-Concat": "final;" + " ".join(named)})
    assert answer.status_code == 201, answer.text
    (call,) = receiver.wait("post-create", upload=upload_id(answer.headers["Location"]))
    assert upload_id(parts[0]) in call.request["Header"]["Upload-Concat"][0]
    text = repr([(one.payload, one.fields) for one in receiver.calls])
    assert all(path_of(one).rsplit(".", 1)[1] not in text for one in parts)
    assert api.key not in text and "session=1" not in text
    assert path_of(url).rsplit(".", 1)[1] not in text


def test_hooks_contain_no_links_of_vimeo_and_no_presigned_urls(hooked, receiver):
    server, api = hooked()
    vimeo = Vimeo(server, vimeo_token(server, "dora"))
    video = vimeo.create(3)
    link = video["upload"]["upload_link"]
    fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert requests.patch(link, data=b"abc", headers=fields, timeout=20).status_code == 204
    ticket = vimeo.ticket()
    put = requests.put(ticket["upload_link_secure"], data=b"abc", timeout=20)
    assert put.status_code == 200
    assert vimeo("DELETE", ticket["complete_uri"]).status_code == 201
    picture = vimeo("POST", video["uri"] + "/pictures").json()["link"]
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
    requests.put(picture, data=jpeg, headers={"Referer": link + "?token=secret-1"}, timeout=20)
    receiver.wait("post-finish")
    text = repr([(one.payload, one.fields) for one in receiver.calls])
    for one in (link, ticket["upload_link_secure"], picture):
        assert path_of(one).rsplit(".", 1)[1] not in text
        assert path_of(one).rsplit(".", 1)[0] in text
    assert ticket["complete_uri"].rsplit("signature=", 1)[1] not in text and "secret-1" not in text


def test_hooks_contain_no_credentials_in_whatever_field_they_come(hooked, receiver):
    """Proxies add the URL before a rewrite; pages have upload URLs in their own."""
    _, api = hooked()
    url, terminated = api.created(3), api.created(3)
    quoted = quote(url, safe="")
    fields = {
        "X-Original-URI": path_of(url) + "?X-Amz-Signature=secret-1",
        "X-Forwarded-Uri": url,
        "X-Page": f"https://a.example/?upload={quoted}&next={quote(quoted, safe='')}",
        "Link": f"<{url}>; rel=x",
        "Referer": f"https://user:secret-2@a.example/?upload={quoted}#token=secret-3",
        "X-Auth-Token": api.key,
        "X-Amz-Security-Token": "secret-4",
    }
    api.created(3, headers=fields)
    for form in (";x", "#f", "%20", "."):
        api.created(3, headers={"Referer": url + form})
    answer = api.request("DELETE", f"{terminated}?a={quote(path_of(terminated), safe='')}", headers=TUS, key=None)
    assert answer.status_code == 204
    receiver.wait("post-create", 7)
    receiver.wait("post-terminate", upload=upload_id(terminated))
    text = repr([(one.payload, one.fields) for one in receiver.calls])
    for one in (url, terminated):
        assert path_of(one).rsplit(".", 1)[1] not in text
    assert api.key not in text and "secret-" not in text
    (call,) = [one for one in receiver.of("pre-create") if "X-Page" in one.request["Header"]]
    assert call.request["Header"]["X-Original-Uri"] == [f"/files/{upload_id(url)}?X-Amz-Signature="]
    assert call.request["Header"]["Referer"][0].startswith("https://a.example/?upload=http")


def test_configured_fields_are_forwarded_to_blocking_hooks(hooked, receiver):
    _, api = hooked(FORWARD_HEADERS="Cookie, X-Tenant, Host")
    url = api.created(1, headers={"cookie": "session=1", "x-tenant": "t1"})
    (call,) = receiver.of("pre-create")
    assert (call.fields["Cookie"], call.fields["X-Tenant"]) == ("session=1", "t1")
    assert call.fields["Host"] == f"127.0.0.1:{receiver.port}"
    assert call.request["Header"]["Cookie"] == ["session=1"]
    (created,) = receiver.wait("post-create", upload=upload_id(url))
    assert "Cookie" not in created.request["Header"] and "Cookie" not in created.fields


def test_concatenation_and_deferred_lengths(hooked, receiver):
    _, api = hooked()
    deferred = api.created(None, headers={"Upload-Defer-Length": "1", "Upload-Concat": "partial"})
    (call,) = receiver.wait("post-create", upload=upload_id(deferred))
    assert (call.upload["Size"], call.upload["SizeIsDeferred"], call.upload["IsPartial"]) == (0, True, True)
    assert api.patch(deferred, 0, b"abc", headers={"Upload-Length": "3"}).status_code == 204
    answer = api.create(None, headers={"Upload-Concat": f"final;{path_of(deferred)}"}, metadata={"filename": "w"})
    assert answer.status_code == 201
    whole = upload_id(answer.headers["Location"])
    (call,) = receiver.wait("post-finish", upload=whole)
    assert (call.upload["IsFinal"], call.upload["PartialUploads"]) == (True, [upload_id(deferred)])
    assert (call.upload["Size"], call.upload["Offset"], call.upload["MetaData"]) == (3, 3, {"filename": "w"})


def test_every_protocol_has_hooks(hooked, receiver):
    _, api = hooked()
    answer = api.request("PUT", "/v1/media/clip.mp4", data=b"abc")
    assert answer.status_code == 201
    (call,) = receiver.wait("post-finish")
    assert call.upload["ID"] == answer.json()["id"]
    assert call.upload["MetaData"]["filename"] == "clip.mp4"
    assert call.request["URI"] == "/v1/media/clip.mp4"
    assert api.delete(f"/v1/uploads/{answer.json()['id']}").status_code == 204
    receiver.wait("post-terminate", upload=answer.json()["id"])


def test_expiry_is_reported_as_termination(hooked, receiver, make_server):
    server, api = hooked()
    server.environment |= {"SLUICE_UPLOADS_EXPIRE_AFTER": "1s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    server.stop()
    server.start()
    api = API(server.url, server.admin_key)
    url = api.created(3)
    (call,) = receiver.wait("post-terminate", upload=upload_id(url))
    assert call.request == {"Method": "", "URI": "", "RemoteAddr": "", "Header": {}}


# Answers


def test_a_creation_is_rejected(hooked, receiver):
    receiver.reply = {
        "RejectUpload": True,
        "HTTPResponse": {
            "StatusCode": 402,
            "Body": '{"pay":"first"}',
            "Header": {"Content-Type": "application/json", "X-Reason": "quota", "Content-Length": "7"},
        },
    }
    server, api = hooked()
    answer = api.create(5)
    assert (answer.status_code, answer.json(), answer.headers["X-Reason"]) == (402, {"pay": "first"}, "quota")
    assert "Location" not in answer.headers
    answer = api.request("PUT", "/v1/media/a", data=b"abc")
    assert (answer.status_code, answer.json()) == (402, {"pay": "first"})
    receiver.reply = {"RejectUpload": True}
    assert tus_error(api.create(5), 400) == "ERR_REJECTED"
    problem(api.post("/v1/tus/uploads", {"length": 5}), 400, "rejected")
    assert api.get("/v1/uploads").json()["uploads"] == []
    assert [path for path in (server.data / "blobs").rglob("*") if path.is_file()] == []
    assert {one.type for one in receiver.calls} == {"pre-create"}


def test_a_creation_is_changed(hooked, receiver):
    receiver.reply = lambda call: (
        {
            "ChangeFileInfo": {
                "ID": "videos/42 x".replace(" ", "%20"),
                "MetaData": {"filename": "named.mp4", "owner": "ü"},
                "Storage": {"Path": "bucket/videos/42.mp4"},
            },
            "HTTPResponse": {"Header": {"X-Hook": "yes"}},
        }
        if call.type == "pre-create"
        else {}
    )
    _, api = hooked()
    answer = api.create(3, metadata={"filename": "a.txt", "secret": "s"})
    assert answer.status_code == 201 and answer.headers["X-Hook"] == "yes"
    url = answer.headers["Location"]
    assert "videos%2F42%2520x" in url
    field = api.head(url).headers["Upload-Metadata"]
    pairs = dict(pair.split(" ") for pair in field.split(","))
    assert {key: base64.b64decode(value).decode() for key, value in pairs.items()} == {
        "filename": "named.mp4",
        "owner": "ü",
    }
    assert api.patch(url, 0, b"abc").status_code == 204
    (call,) = receiver.wait("post-finish")
    assert call.upload["ID"] == "videos/42%20x"
    assert call.upload["MetaData"] == {"filename": "named.mp4", "owner": "ü"}
    assert call.upload["Storage"]["Key"] == "bucket/videos/42.mp4"
    assert api.get(f"/media/{call.upload['Storage']['ID']}").content == b"abc"
    # The alias is in use now.
    assert tus_error(api.create(3), 400) == "ERR_REJECTED"


def test_a_handler_in_the_way_of_the_example_of_tusd(make_server):
    """HTTP/1.0, one request at a time, answers without a length, and a member that is unknown (`Headers`)."""
    seen = []

    def handle(request):
        hook = json.loads(request.content())
        seen.append(hook)
        answer = {"HTTPResponse": {"Headers": {}}}
        if hook["Type"] == "pre-create":
            metadata = hook["Event"]["Upload"]["MetaData"]
            if "filename" in metadata:
                answer["ChangeFileInfo"] = {"ID": f"prefix-{len(seen)}", "MetaData": metadata | {"made": "today"}}
            else:
                answer |= {"RejectUpload": True}
                answer["HTTPResponse"] |= {"StatusCode": 400, "Body": "no filename provided"}
        request.respond(200, json.dumps(answer).encode(), "application/json", Content_Length=None)

    with LocalServer(handle, version="HTTP/1.0", is_serial=True) as app:
        settings = {"SLUICE_HOOKS_URL": app.url, "SLUICE_HOOKS_EVENTS": EVERYTHING}
        with make_server(environment=settings) as server:
            api = API(server.url, server.admin_key)
            answer = api.create(3)
            assert (answer.status_code, answer.text) == (400, "no filename provided")
            url = api.created(3, metadata={"filename": "a"})
            assert "/files/prefix-" in url and "made dG9kYXk=" in api.head(url).headers["Upload-Metadata"]
            assert api.patch(url, 0, b"abc").status_code == 204
            done = until(lambda: [one for one in seen if one["Type"] == "post-finish"])[0]["Event"]["Upload"]
            assert done["ID"].startswith("prefix-") and done["Size"] == 3
            assert api.get(f"/media/{done['Storage']['ID']}").content == b"abc"


def test_the_app_changes_the_response_to_the_last_request(hooked, receiver):
    receiver.reply = lambda call: (
        {"HTTPResponse": {"StatusCode": 200, "Body": "thanks", "Header": {"X-Media": "1"}}}
        if call.type == "pre-finish"
        else {}
    )
    _, api = hooked()
    url = api.created(5)
    first = api.patch(url, 0, b"ab")
    assert (first.status_code, first.text) == (204, "") and "X-Media" not in first.headers
    last = api.patch(url, 2, b"cde")
    assert (last.status_code, last.text, last.headers["X-Media"]) == (200, "thanks", "1")
    assert last.headers["Upload-Offset"] == "5"
    # The hook's success does not hide an error of the server.
    assert api.patch(url, 9, b"x").status_code == 409


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", [202, 422])
def test_the_app_changes_the_response_to_the_last_request_of_the_draft(hooked, receiver, version, status):
    """With any status, and with the field that tells the client not to resume."""
    answer = {"HTTPResponse": {"StatusCode": status, "Body": "thanks"}}
    receiver.reply = lambda call: answer if call.type == "pre-finish" else {}
    server, api = hooked()
    client = Client(server, version)
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    reply = client.append(url, 5, b"!", True)
    assert (reply.status, reply.body) == (status, b"thanks") and client.is_complete(reply)
    assert client.offset(url) == (6, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_end_is_repeated_without_content(hooked, receiver, version):
    """5xx: the client reads the offset, which includes all bytes, and repeats the last request."""
    server, api = hooked()
    receiver.reply = lambda call: 500 if call.type == "pre-finish" else {}
    client = Client(server, version)
    _, reply = client.create(b"hello", False)
    url = reply["Location"]
    reply = client.append(url, 5, b"!", True)
    assert reply.status >= 500 and reply["Upload-Complete"] != "?1" and reply["Upload-Incomplete"] != "?0"
    client = Client(server, version)
    assert client.offset(url) == (6, False)
    receiver.reply = {}
    assert_media(api, client.append(url, 6, b"", True), b"hello!")


def test_an_upload_that_is_ending_is_locked(make_server, receiver):
    """423, never 5xx: a client that sees it tries again, with its upload."""
    settings = {"URL": receiver.url, "SECRET": SECRET, "EVENTS": "pre-finish", "TIMEOUT": "1m"}
    environment = {f"SLUICE_HOOKS_{name}": value for name, value in settings.items()}
    server = make_server(environment=environment | {"SLUICE_UPLOADS_TAKE_OVER_TIMEOUT": "200ms"}).start()
    api = API(server.url, server.admin_key)
    released = threading.Event()
    receiver.reply = lambda call: {} if released.wait(30) else 500
    url = api.created(5)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 5) + b"hello")
        for _ in range(2):
            until(lambda: api.upload(upload_id(url))["offset"] == 5)
            answer = api.head(url)
            assert answer.status_code == 423 and "Upload-Offset" not in answer.headers
            assert tus_error(api.patch(url, 5, b""), 423) == "ERR_UPLOAD_LOCKED"
        released.set()
        assert wire.reply("PATCH").status == 204
    assert api.offset(url) == 5


def test_a_termination_is_rejected(hooked, receiver):
    receiver.reply = lambda call: (
        {"RejectTermination": True, "HTTPResponse": {"StatusCode": 409, "Body": "in use"}}
        if call.type == "pre-terminate"
        else {}
    )
    _, api = hooked()
    url = api.created(3)
    answer = api.terminate(url)
    assert (answer.status_code, answer.text) == (409, "in use")
    assert api.patch(url, 0, b"abc").status_code == 204
    receiver.reply = {"RejectTermination": True}
    problem(api.delete(f"/v1/uploads/{upload_id(url)}"), 400, "rejected")
    assert api.get(f"/media/{upload_id(url)}").content == b"abc"


def test_a_running_upload_is_stopped(hooked, receiver):
    receiver.reply = lambda call: (
        {"StopUpload": True, "HTTPResponse": {"StatusCode": 451, "Body": "stopped"}}
        if call.type == "post-receive"
        else {}
    )
    server, api = hooked(PROGRESS_EVERY="200ms")
    url = api.created(50 * MIB)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 50 * MIB) + content(MIB, 1))
        answer = wire.reply("PATCH")
    assert (answer.status, answer.body) == (451, b"stopped")
    until(lambda: api.head(url).status_code == 410)
    receiver.wait("post-terminate", upload=upload_id(url))
    assert server.stored_files(upload_id(url)) == []


def test_a_stopped_upload_without_a_hook_response_responds_like_tusd(hooked, receiver):
    receiver.reply = lambda call: {"StopUpload": True} if call.type == "post-receive" else {}
    server, api = hooked(PROGRESS_EVERY="200ms")
    url = api.created(50 * MIB)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 50 * MIB) + content(MIB, 1))
        answer = wire.reply("PATCH")
    assert answer.status == 400 and answer.body.startswith(b"ERR_UPLOAD_STOPPED: ")


def test_progress_is_reported_while_bytes_arrive(hooked, receiver):
    server, api = hooked(PROGRESS_EVERY="200ms")
    url = api.created(3 * MIB)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 3 * MIB))
        for number in range(3):
            wire.send(content(MIB, number))
            received = receiver.wait("post-receive", number + 1, timeout=30)[-1]
            assert received.upload["Offset"] >= number * MIB
            assert received.request["Method"] == "PATCH"
        assert wire.reply("PATCH").status == 204
    receiver.wait("post-finish")
    offsets = [one.upload["Offset"] for one in receiver.of("post-receive")]
    assert offsets == sorted(offsets) and offsets[-1] == 3 * MIB


# Failures


UNUSABLE = [{"HTTPResponse": {"StatusCode": 99}}, {"ChangeFileInfo": {"ID": "/x"}}, {"RejectUpload": 7}]


@pytest.mark.parametrize("reply", [500, 404, *UNUSABLE])
def test_a_hook_that_fails_refuses(hooked, receiver, reply):
    receiver.reply = reply
    _, api = hooked(EVENTS="pre-create, pre-finish, pre-terminate", TIMEOUT="500ms")
    assert tus_error(api.create(3), 503) == "ERR_UNAVAILABLE"
    assert api.get("/v1/uploads").json()["uploads"] == []
    receiver.reply = {}
    url = api.created(3)
    receiver.reply = reply
    if reply != {"ChangeFileInfo": {"ID": "/x"}}:
        # All bytes are kept, and the next request calls the hook again.
        assert tus_error(api.patch(url, 0, b"abc"), 503) == "ERR_UNAVAILABLE"
        assert api.upload(upload_id(url))["state"] == "open"
        # tus-js-client begins again after 5xx to HEAD, and tries again after 423.
        assert api.head(url).status_code == 423
        receiver.reply = {}
        assert api.offset(url) == 3
        assert api.upload(upload_id(url))["state"] == "completed"


@pytest.mark.parametrize("reply", [500, 503, None])
def test_an_outage_of_the_app_allows_if_the_settings_say_so(hooked, receiver, reply):
    events = {"EVENTS": "pre-create, pre-finish, pre-terminate", "TIMEOUT": "500ms", "ON_FAILURE": "allow"}
    if reply is None:
        events["URL"] = f"http://127.0.0.1:{free_port()}/"
    receiver.reply = reply
    _, api = hooked(**events)
    assert api.download_hash(api.uploaded(b"abc"))[1] == 3


@pytest.mark.parametrize("reply", [302, 400, 401, 403, 404, 406, 408, 413, 414, 415, 422, 429, 431, *UNUSABLE])
def test_an_answer_that_is_no_approval_allows_nothing(hooked, receiver, reply):
    """A client can bring most of them about, and a wrong URL must not allow everything."""
    receiver.reply = reply
    _, api = hooked(EVENTS="pre-create, pre-finish", TIMEOUT="500ms", ON_FAILURE="allow")
    answer = api.create(3)
    assert tus_error(answer, 503) == "ERR_UNAVAILABLE" and int(answer.headers["Retry-After"]) > 0
    assert api.get("/v1/uploads").json()["uploads"] == []


def test_a_rejection_counts_whatever_else_is_wrong_with_the_response(hooked, receiver):
    """As an ID that the app makes of a file name that the client chose."""
    _, api = hooked(EVENTS="pre-create, pre-terminate", TIMEOUT="500ms", ON_FAILURE="allow")
    url = api.created(3)
    receiver.reply = lambda call: {
        "RejectUpload": True,
        "ChangeFileInfo": {"ID": "u/" + call.upload["MetaData"].get("filename", "")},
        "HTTPResponse": {"StatusCode": 402, "Body": "no"},
    }
    answer = api.create(3, metadata={"filename": "my film.mp4"})
    assert (answer.status_code, answer.text) == (402, "no")
    for response in ({"StatusCode": 1000}, {"StatusCode": 400, "Header": {"X-Limit": 5}}):
        receiver.reply = {"RejectUpload": True, "RejectTermination": True, "HTTPResponse": response}
        assert tus_error(api.create(3), 400) == "ERR_REJECTED"
        assert api.terminate(url).status_code == 400
    # More than 64 KiB cannot be read, and is no outage.
    receiver.reply = {"RejectUpload": True, "HTTPResponse": {"StatusCode": 400, "Body": "x" * 70_000}}
    assert tus_error(api.create(3), 503) == "ERR_UNAVAILABLE"


def test_a_client_does_not_get_past_the_app_by_padding(make_server):
    """A receiver that closes the connection on what is too large for it."""
    sizes = []

    def handle(request):
        sizes.append(len(request.content()))
        if sizes[-1] < 20_000:
            request.respond(200, b'{"RejectUpload": true}', Content_Length=None)

    with LocalServer(handle, version="HTTP/1.0", is_serial=True) as app:
        hooks = {"URL": app.url, "EVENTS": "pre-create", "TIMEOUT": "500ms"}
        hooks |= {"ON_FAILURE": "allow", "FORWARD_HEADERS": "X-Tenant"}
        with make_server(environment={f"SLUICE_HOOKS_{name}": value for name, value in hooks.items()}) as server:
            api = API(server.url, server.admin_key)
            assert api.create(3).status_code == 400
            assert tus_error(api.create(3, metadata={"a": "\x01" * 6000}), 503) == "ERR_UNAVAILABLE"
            assert sizes[-1] > 36_000
            assert tus_error(api.create(3, headers={"X-Tenant": "t" * 20_000}), 503) == "ERR_UNAVAILABLE"
            # Neither URI nor header fields are larger for having to be escaped.
            padding = [(f"X-Pad-{number}", "\\" * 3900) for number in range(4)]
            fields = [*TUS.items(), ("Authorization", f"Bearer {server.admin_key}"), ("Upload-Length", 3), *padding]
            with Wire(server.address) as wire:
                answer = wire.exchange("POST", "/files?" + "\\" * 20_000, fields)
            assert (answer.status, sizes[-1] < 8000) == (400, True)


def test_hooks_have_fields_of_limited_size(hooked, receiver):
    _, api = hooked(EVENTS="pre-create")
    many = {f"X-Many-{number}": "é".encode() * 1000 for number in range(20)}
    api.created(1, headers=many | {"X-Long": '"' * 5000, "X-Tenant": "t1"})
    (call,) = receiver.of("pre-create")
    header = call.request["Header"]
    assert "X-Long" not in header and 5 <= sum(name.startswith("X-Many-") for name in header) < 9
    assert len(repr(header)) < 40_000


def test_padding_does_not_take_the_place_of_other_fields(hooked, receiver):
    """As those that a proxy adds behind what the client sent."""
    _, api = hooked(EVENTS="pre-create")
    api.created(1, headers={f"X-Pad-{number}": "p" * 600 for number in range(80)} | {"X-Tenant": "t" * 150})
    (call,) = receiver.of("pre-create")
    assert call.request["Header"]["X-Tenant"] == ["t" * 150]
    assert 20 <= sum(name.startswith("X-Pad-") for name in call.request["Header"]) < 28


def test_requests_without_content_that_wait_for_the_app_count(make_server, receiver):
    begun, opened = threading.Semaphore(0), threading.Event()

    def reply(call):
        if call.upload["MetaData"].get("held"):
            begun.release()
            opened.wait(20)
        return {}

    receiver.reply = reply
    settings = {"HOOKS_URL": receiver.url, "HOOKS_SECRET": SECRET, "HOOKS_EVENTS": "pre-create"}
    settings |= {"LIMITS_SUBJECT_UPLOADS": "2"}
    server = make_server(environment={f"SLUICE_{name}": value for name, value in settings.items()}).start()
    api = API(server.url, server.admin_key)
    busy, other = (api.post("/v1/tus/tokens", json={"subject": one}).json()["token"] for one in ("eve", "bob"))
    held = [
        threading.Thread(target=api.create, args=(3,), kwargs={"key": busy, "metadata": {"held": "1"}}) for _ in "12"
    ]
    for thread in held:
        thread.start()
    for _ in held:
        assert begun.acquire(timeout=20)
    try:
        assert api.create(3, key=busy).status_code == 429
        assert api.create(3, key=other).status_code == 201
    finally:
        opened.set()
        for thread in held:
            thread.join()
    assert api.create(3, key=busy).status_code == 201


def test_the_events_of_one_user_do_not_keep_those_of_others_waiting(hooked, receiver):
    """However many there are: users have turns."""
    _, api = hooked(EVENTS="post-finish")
    opened = threading.Event()

    def reply(_):
        opened.wait(20)
        return {}

    receiver.reply = reply
    busy, other = (api.post("/v1/tus/tokens", json={"subject": one}).json()["token"] for one in ("eve", "bob"))
    for _ in range(120):
        api.created(0, key=busy)
    api.created(0, key=other)
    opened.set()
    receiver.wait("post-finish", 121)
    subjects = [call.upload["Subject"] for call in receiver.of("post-finish")]
    assert subjects.index("bob") < 80, "those in flight, and as many again, may come before"


def test_a_hook_is_repeated_while_its_receiver_restarts(make_server):
    port = free_port()
    settings = {"SLUICE_HOOKS_URL": f"http://127.0.0.1:{port}/", "SLUICE_HOOKS_SECRET": SECRET}
    server = make_server(environment=settings).start()
    api = API(server.url, server.admin_key)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(api.create(3).status_code))
    thread.start()
    time.sleep(0.3)
    with Receiver(SECRET, port=port) as receiver:
        thread.join()
        assert answers == [201]
        assert len(receiver.of("pre-create")) == 1


def test_a_blocking_hook_is_repeated_without_the_wait_that_its_receiver_asks_for(hooked, receiver):
    receiver.retry_after = "3000"
    receiver.reply = lambda call: {} if receiver.of("pre-create") else 503
    _, api = hooked(TIMEOUT="20s")
    assert api.create(3).status_code == 201
    assert len(receiver.of("pre-create")) == 2


def test_a_slow_hook_does_not_delay_other_uploads(hooked, receiver):
    gate = threading.Event()
    receiver.reply = lambda call: gate.wait(20) and {} or {}
    server, api = hooked(TIMEOUT="10s")
    thread = threading.Thread(target=api.create, args=(3,))
    thread.start()
    with Wire(server.address) as wire:
        for _ in range(100):
            assert wire.exchange("GET", "/healthz").status == 200
    gate.set()
    thread.join()


def test_undelivered_events_are_delivered_later_in_order(make_server):
    """The events of an upload are delivered in order, even after the receiver was unavailable."""
    port = free_port()
    settings = {
        "SLUICE_HOOKS_URL": f"http://127.0.0.1:{port}/",
        "SLUICE_HOOKS_SECRET": SECRET,
        "SLUICE_HOOKS_EVENTS": "post-create, post-finish, post-terminate",
    }
    server = make_server(environment=settings).start()
    api = API(server.url, server.admin_key)
    urls = [api.created(3) for _ in range(5)]
    for url in urls:
        assert api.patch(url, 0, b"abc").status_code == 204
        assert api.remove(url).status_code == 204
    until(lambda: any(one["attempts"] for one in deliveries(api, "pending")))
    assert all(one["lastError"] for one in deliveries(api, "pending") if one["attempts"])
    with Receiver(SECRET, port=port) as receiver:
        for url in urls:
            receiver.wait("post-terminate", upload=upload_id(url), timeout=60)
        for url in urls:
            kinds = [one.type for one in receiver.calls if one.upload["ID"] == upload_id(url)]
            assert kinds == ["post-create", "post-finish", "post-terminate"]
        until(lambda: deliveries(api, "pending") == [])
        assert len(deliveries(api, "delivered")) == 15
        metrics = api.get("/metrics").text
        assert 'sluice_hook_calls_total{hook="post-finish",outcome="delivered"} 5' in metrics


def deliveries(api, state):
    found, cursor = [], None
    while True:
        answer = api.get(
            "/v1/hooks/deliveries", params={"state": state, "limit": 4} | ({"cursor": cursor} if cursor else {})
        )
        assert answer.status_code == 200, answer.text
        found += answer.json()["deliveries"]
        cursor = answer.json().get("nextCursor")
        if not cursor:
            return found


def test_dead_letters_and_redelivery(hooked, receiver):
    receiver.reply = lambda call: 500 if call.type == "post-create" else {}
    _, api = hooked(ATTEMPTS="2", EVENTS="post-create, post-finish")
    identifier = api.uploaded(b"abc")
    # A dead event does not hold back later ones for ever.
    receiver.wait("post-finish", upload=identifier)
    (dead,) = deliveries(api, "dead")
    assert (dead["hook"], dead["uploadId"], dead["attempts"]) == ("post-create", identifier, 2)
    assert "500" in dead["lastError"]
    assert {one.id for one in receiver.of("post-create")} == {dead["id"]}
    receiver.reply = {}
    assert api.post("/v1/hooks/redeliveries", {"state": "dead"}).json() == {"count": 1}
    assert receiver.wait("post-create", 3)[-1].id == dead["id"]
    until(lambda: len(deliveries(api, "delivered")) == 2)
    assert deliveries(api, "dead") == []
    assert api.post("/v1/hooks/redeliveries", {"ids": [dead["id"], "msg_none"]}).json() == {"count": 1}
    receiver.wait("post-create", 4)
    for body in ({}, {"state": "pending"}, {"ids": [dead["id"]], "state": "dead"}, {"ids": ["x"]}):
        problem(api.post("/v1/hooks/redeliveries", body), 422, "invalid_field")
    problem(api.get("/v1/hooks/deliveries?state=lost&cursor=x&limit=0"), 422, "invalid_field")
    problem(api.get("/v1/hooks/deliveries", key=None), 401, "unauthenticated")


@pytest.mark.parametrize(("retry_after", "delay"), [("2000", 2000), ("100000", 3600)])
def test_retry_after_delays_the_next_attempt(hooked, receiver, retry_after, delay):
    """It is a number of seconds, and counts up to an hour."""
    receiver.reply, receiver.retry_after = 503, retry_after
    _, api = hooked(EVENTS="post-create")
    before = time.time()
    api.created(3)
    (event,) = until(lambda: [one for one in deliveries(api, "pending") if one["attempts"] == 1])
    next_attempt = moment(event["nextAttemptAt"]).timestamp()
    # The attempt was made after `before` and before now; times are in milliseconds.
    assert before + delay - 0.01 <= next_attempt <= time.time() + delay + 0.01


def test_the_secret_is_derived_and_printed(tmp_path, make_server):
    server = make_server().start()
    server.stop()
    secret = run("credentials", "webhooks", environment=server.environment).stdout.strip()
    assert secret.startswith("whsec_") and len(base64.b64decode(secret[6:])) == 32
    with Receiver(secret) as receiver:
        server.environment["SLUICE_HOOKS_URL"] = receiver.url
        server.start()
        identifier = API(server.url, server.admin_key).uploaded(b"abc")
        receiver.wait("post-finish", upload=identifier)
        server.stop()


def test_invalid_settings_are_named(tmp_path):
    environment = {
        "SLUICE_HOOKS_URL": "ftp://x",
        "SLUICE_HOOKS_EVENTS": "pre-create, on-create",
        "SLUICE_HOOKS_SECRET": "whsec_AAAA",
    }
    done = run("check", environment=environment, check=False)
    assert done.returncode != 0
    for name in environment:
        assert name in done.stderr
    assert "whsec_AAAA" not in done.stderr


def test_a_hook_over_the_draft(hooked, receiver):
    """An interrupted upload of the draft: rejected creations get no 104."""
    receiver.reply = {"RejectUpload": True}
    server, api = hooked()
    fields = [
        ("Authorization", f"Bearer {server.admin_key}"),
        ("Upload-Draft-Interop-Version", "8"),
        ("Upload-Complete", "?0"),
    ]
    with Wire(server.address) as wire:
        wire.send(head("POST", "/files", fields, b"abc") + b"abc")
        answer = wire.reply("POST", skip_interim=False)
    assert answer.status == 400 and b"rejected" in answer.body


def test_tus_options_are_not_a_hook(hooked, receiver):
    _, api = hooked()
    assert api.request("OPTIONS", "/files", headers=TUS).status_code == 204
    assert api.head(api.url + "/files/none").status_code == 404
    assert receiver.calls == []
