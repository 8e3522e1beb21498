"""Revocation of what was minted: with the key that minted it, for one user, or everything older than a time."""

import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import requests

from harness.api import API, field_problem, path_of, problem, tus_error, upload_id
from harness.daemon import free_port
from harness.naps import Naps
from harness.object_client import BUCKET, ObjectServer, client
from harness.server import run
from harness.vimeo import Plain
from harness.wire import until


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("revocation") / "data", free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def api(gateway):
    return API(gateway.url, gateway.admin_key)


def made_key(server, *scopes, extra=()):
    arguments = [text for scope in scopes for text in ("--scope", scope)]
    done = run("keys", "create", "--name", "r", *arguments, *extra, environment=server.environment)
    return re.search(r"id: (\S+)", done.stdout)[1], re.search(r"slk_\S+", done.stdout)[0]


class Handed:
    """Everything that one key has issued to one user."""

    def __init__(self, gateway, admin, key, subject):
        app = API(gateway.url, key)
        self.gateway = gateway
        self.subject = subject
        self.token = app.post("/v1/tus/tokens", {"subject": subject, "expiresIn": 604800}).json()["token"]
        keys = {"subject": subject, "bucket": BUCKET, "keyPrefix": f"{subject}/"}
        pair = app.post("/v1/sts/tokens", keys | {"actions": ["upload"]}).json()["Credentials"]
        self.client = client(
            gateway.object_url, pair=(pair["AccessKeyId"], pair["SecretAccessKey"]), token=pair["SessionToken"]
        )
        self.url = app.post("/v1/presigned-urls", {"subject": subject, "bucket": BUCKET, "key": f"{subject}/u"}).json()
        media = admin.post("/v1/tus/uploads", {"length": 0, "subject": subject}).json()["id"]
        self.link = app.post(f"/v1/media/{media}/links", {}).json()["url"]

    def works(self):
        """What of it still works."""
        works = {
            "token": API(self.gateway.url, self.token).create(1).status_code == 201,
            "url": requests.put(self.url["url"], data=b"1", timeout=10).status_code == 200,
            "link": requests.get(self.link, timeout=10).status_code == 200,
        }
        try:
            self.client.put_object(Bucket=BUCKET, Key=f"{self.subject}/s", Body=b"1")
            works["session"] = True
        except self.client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "ExpiredToken"
            works["session"] = False
        assert len(set(works.values())) == 1, works
        return works["session"]


SCOPES = ("mint", "read")


def test_a_revoked_key_ends_what_it_minted(gateway, api):
    identifier, key = made_key(gateway, *SCOPES)
    _, kept = made_key(gateway, *SCOPES)
    handed, other = Handed(gateway, api, key, "u1"), Handed(gateway, api, kept, "u1")
    assert handed.works() and other.works()
    run("keys", "revoke", identifier, environment=gateway.environment)
    time.sleep(1)
    assert not handed.works()
    assert other.works()
    tus_error(API(gateway.url, handed.token).create(1), 401)
    problem(requests.get(handed.link, timeout=10), 401, "unauthenticated")


@pytest.mark.parametrize("by", ["API", "command"])
def test_all_of_one_user(gateway, api, by):
    _, key = made_key(gateway, *SCOPES)
    anna, bert = (Handed(gateway, api, key, f"{name} {by}".replace(" ", "-")) for name in ("anna", "bert"))
    assert anna.works() and bert.works()
    if by == "API":
        answer = api.post("/v1/revocations", {"subject": anna.subject})
        assert answer.status_code == 201 and answer.json()["subject"] == anna.subject, answer.text
    else:
        run("revoke", "--subject", anna.subject, environment=gateway.environment)
        time.sleep(1)
    assert not anna.works()
    assert bert.works()
    # What is minted from now on is good again.
    assert Handed(gateway, api, key, anna.subject).works()


def test_everything_older(gateway, api):
    _, key = made_key(gateway, *SCOPES)
    old = [Handed(gateway, api, key, name) for name in ("old-1", "old-2")]
    time.sleep(0.01)
    moment = datetime.now(UTC).isoformat()
    time.sleep(0.01)
    new = Handed(gateway, api, key, "old-1")
    assert api.post("/v1/revocations", {"issuedBefore": moment}).status_code == 201
    assert [one.works() for one in old] == [False, False]
    assert new.works()


def test_a_clock_that_is_ahead_is_revoked_in_advance(gateway, api):
    """What states a time that is not yet, and all that is minted until then."""
    _, key = made_key(gateway, *SCOPES)
    moment = datetime.now(UTC) + timedelta(seconds=6)
    body = {"subject": "ahead", "issuedBefore": moment.isoformat()}
    assert api.post("/v1/revocations", body).status_code == 201
    early = Handed(gateway, api, key, "ahead")
    until(lambda: datetime.now(UTC) > moment)
    assert not early.works()
    assert Handed(gateway, api, key, "ahead").works()


def test_invalid_revocations(gateway, api):
    _, key = made_key(gateway, "mint", "upload", "read", "delete")
    problem(api.post("/v1/revocations", {"subject": "u"}, key=key), 403, "forbidden")
    field_problem(api.post("/v1/revocations", {}), "subject")
    for subject in ["", "x" * 257, "a\nb", "\u0085"]:
        field_problem(api.post("/v1/revocations", {"subject": subject}), "subject")
    for moment in ["yesterday", "2999-01-01T00:00:00Z"]:
        field_problem(api.post("/v1/revocations", {"issuedBefore": moment}), "issuedBefore")
    for arguments in [[], ["--subject", ""], ["--issued-before", "2999-01-01T00:00:00Z"], ["--issued-before", "x"]]:
        assert run("revoke", *arguments, environment=gateway.environment, check=False).returncode != 0


# Event streams


def test_an_event_stream_ends_with_its_key_within_a_second(gateway, api):
    identifier, key = made_key(gateway, "read")
    _, kept = made_key(gateway, "read")
    upload = api.post("/v1/tus/uploads", {"length": 1}).json()
    ended = {}

    def listen(name, path, key):
        with API(gateway.url, key).get(path, stream=True) as answer:
            assert answer.status_code == 200
            ended[name] = None
            for _ in answer.iter_content(None):
                pass
        ended[name] = True

    by_id = f"/v1/uploads/{upload['id']}/events"
    by_url = f"/v1/uploads/{path_of(upload['url']).rsplit('/', 1)[1]}/events"
    listeners = [("all", "/v1/events", key), ("one", by_id, key), ("kept", "/v1/events", kept), ("url", by_url, None)]
    for listener in listeners:
        threading.Thread(target=listen, args=listener, daemon=True).start()
    until(lambda: len(ended) == len(listeners))
    run("keys", "revoke", identifier, environment=gateway.environment)
    with Naps() as naps:
        while not (ended["all"] and ended["one"]):
            # A second more than promised, for a busy machine.
            assert naps.count < 200, "streams of a revoked key go on"
            time.sleep(0.01)
    assert ended["kept"] is None and ended["url"] is None
    api.delete(f"/v1/uploads/{upload['id']}")
    until(lambda: ended["url"])


# Upload URLs


@pytest.mark.parametrize("ends", [False, True], ids=["outlives", "ends"])
def test_an_upload_url_and_its_key(make_server, ends):
    server = make_server(environment={"SLUICE_UPLOADS_REVOKE_WITH_KEY": "true" if ends else "false"})
    with server:
        admin = API(server.url, server.admin_key)
        identifier, key = made_key(server, "upload", "mint")
        app = API(server.url, key)
        token = app.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
        urls = [app.post("/v1/tus/uploads", {"length": 2}).json()["url"], app.created(2, key=token)]
        draft = {"Upload-Draft-Interop-Version": "6"}
        for url in urls:
            assert admin.patch(url, 0, b"1").status_code == 204
        run("keys", "revoke", identifier, environment=server.environment)
        time.sleep(1)
        for url in urls:
            events = f"{server.url}/v1/uploads/{url.rsplit('/', 1)[1]}/events"
            with requests.get(events, stream=True, timeout=10) as answer:
                assert answer.status_code == (403 if ends else 200)
            statuses = [
                admin.head(url).status_code,
                requests.head(url, headers=draft, timeout=10).status_code,
                admin.patch(url, 1, b"2").status_code,
            ]
            assert [status == 403 for status in statuses] == [ends] * 3, statuses
        other = [admin.created(1, key=token_of(admin, name)) for name in ("bert", "carl")]
        assert admin.post("/v1/revocations", {"subject": "bert"}).status_code == 201
        assert [admin.head(url).status_code for url in other] == ([403, 200] if ends else [200, 200])


def token_of(admin, subject):
    return admin.post("/v1/tus/tokens", {"subject": subject}).json()["token"]


@pytest.mark.parametrize("allowed", [False, True], ids=["by default", "by the setting"])
def test_an_upload_url_does_not_allow_to_delete_media(make_server, allowed):
    environment = {"SLUICE_UPLOADS_DELETE_AFTER_COMPLETION": "true"} if allowed else {}
    with make_server(environment=environment) as server:
        admin = API(server.url, server.admin_key)
        draft = {"Upload-Draft-Interop-Version": "6"}
        for headers in ({"Tus-Resumable": "1.0.0"}, draft):
            url = admin.created(1)
            assert requests.delete(url, headers=headers, timeout=10).status_code == 204
            url = admin.created(1)
            admin.patch(url, 0, b"1")
            status = requests.delete(url, headers=headers, timeout=10).status_code
            assert status == (204 if allowed else 403)
            assert admin.upload(upload_id(url))["state"] == ("terminated" if allowed else "completed")
        # A partial upload is no media, and a client that gives up removes those that it has.
        url = admin.created(1, headers={"Upload-Concat": "partial"})
        admin.patch(url, 0, b"1")
        assert admin.terminate(url).status_code == 204


# Names of users


@pytest.mark.parametrize("subject", ["", "x" * 257, "ü" * 129, "a\nb", "a\u007f", "\u009f"])
def test_an_invalid_name_is_refused_everywhere(api, subject):
    there = {"subject": subject}
    for path, body in [
        ("/v1/tus/tokens", {}),
        ("/v1/tus/uploads", {"length": 1}),
        ("/v1/sts/tokens", {"bucket": BUCKET, "keyPrefix": "a/"}),
        ("/v1/presigned-urls", {"bucket": BUCKET, "key": "a"}),
        ("/v1/media/pull", {"url": "http://192.0.2.1/a"}),
        ("/v1/tencent/signatures", {}),
        ("/v1/revocations", {}),
    ]:
        field_problem(api.post(path, body | there), "subject")
    for path in ("/v1/uploads", "/v1/events"):
        field_problem(api.get(path, params=there), "subject")


def test_a_token_creates_objects_only_if_minted_so(gateway, api):
    plain, full = (
        API(gateway.url, api.post("/v1/tus/tokens", {"subject": "anna"} | wanted).json()["token"])
        for wanted in ({}, {"objects": True})
    )
    for page in (plain, full):
        assert page.create(1).status_code == 201
    for path in ("/s3/sts", "/s3/params?filename=a"):
        assert "objects" in problem(plain.get(path), 403, "forbidden")["detail"]
        assert full.get(path).status_code == 200
    problem(plain.post("/s3/multipart", {"filename": "a"}), 403, "forbidden")
    # Nor is there a way to credentials for all keys.
    problem(api.get("/s3/sts"), 403, "forbidden")


# Limited keys


def test_a_key_for_a_bucket_and_prefix(gateway, api):
    extra = ["--bucket", BUCKET, "--prefix", "in/", "--subject", "team:*"]
    identifier, key = made_key(gateway, *SCOPES, extra=extra)
    assert re.search(rf"{identifier} .*bucket={BUCKET}", run("keys", "list", environment=gateway.environment).stdout)
    app = API(gateway.url, key)
    wanted = {"subject": "team:1", "bucket": BUCKET}
    assert app.post("/v1/sts/tokens", wanted | {"keyPrefix": "in/a/"}).status_code == 201
    assert app.post("/v1/presigned-urls", wanted | {"key": "in/a"}).status_code == 201
    for changed in [{"keyPrefix": ""}, {"keyPrefix": "i"}, {"key": "out/a"}, {"keyPrefix": "in/", "subject": "x"}]:
        problem(app.post("/v1/sts/tokens", wanted | changed), 403, "forbidden")
    problem(app.post("/v1/tus/tokens", {"subject": "team:1"}), 403, "forbidden")

    pair = gateway.pair(identifier)
    sts = client(gateway.object_url, service="sts", pair=pair)
    role = {"RoleArn": "arn:aws:iam::123456789012:role/app", "DurationSeconds": 900}
    with pytest.raises(sts.exceptions.ClientError, match="AccessDenied"):
        sts.get_session_token()
    with pytest.raises(sts.exceptions.ClientError, match="AccessDenied"):
        sts.assume_role(RoleSessionName="other", **role)


def test_invalid_limits_are_refused(gateway):
    for scope, extra in [
        ("admin", ["--subject", "a"]),
        ("mint", ["--subject", ""]),
        ("mint", ["--subject", "*"]),
        ("mint", ["--prefix", "a/"]),
        ("mint", ["--bucket", BUCKET, "--prefix", ""]),
    ]:
        arguments = ["keys", "create", "--name", "r", "--scope", scope, *extra]
        assert run(*arguments, environment=gateway.environment, check=False).returncode != 0


# The data directory


def test_a_data_directory_that_others_can_read_is_made_private(make_server):
    server = make_server()
    with server:
        pass
    secret = server.data / "master.secret"
    server.data.chmod(0o755)
    for path in (secret, server.data / "state.sqlite"):
        path.chmod(0o644)
    with server:
        assert [path.stat().st_mode & 0o077 for path in (server.data, secret, server.data / "state.sqlite")] == [0] * 3
    assert "other users had access" in server.log.read_text()


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("by", ["subject", "time", "key"])
def test_links_of_vimeo_end_with_their_key(make_server, ends, by):
    server = make_server(environment={"SLUICE_UPLOADS_REVOKE_WITH_KEY": "true" if ends else "false"})
    server.start()
    admin = API(server.url, server.admin_key)
    identifier, key = made_key(server, "mint", "upload", "read", "delete")
    token = API(server.url, key).post("/v1/vimeo/tokens", {"subject": "dora"}).json()["access_token"]
    vimeo = Plain(server, token)
    tus = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    video = vimeo("POST", "/me/videos", json={"upload": {"approach": "tus", "size": 1}}).json()
    assert requests.patch(video["upload"]["upload_link"], data=b"x", headers=tus, timeout=10).status_code == 204
    track = {"type": "captions", "language": "en", "name": "n"}
    version = {"file_name": "a.mp4", "upload": {"approach": "tus", "size": 10}}

    def link(approach):
        upload = {"approach": approach, "size": 10}
        return vimeo("POST", "/me/videos", json={"upload": upload}).json()["upload"]["upload_link"]

    calls = {
        "tus": ("PATCH", link("tus"), {"headers": tus, "data": b"0123456789"}),
        "streaming": ("PUT", link("streaming"), {"data": b"0123456789"}),
        "probe": ("PUT", link("streaming"), {"headers": {"Content-Range": "bytes */*"}}),
        "post": ("POST", link("post"), {"files": {"file_data": b"0123456789"}}),
        "ticket": ("PUT", vimeo.ticket()["upload_link_secure"], {"data": b"0123456789"}),
        "picture": ("PUT", vimeo("POST", video["uri"] + "/pictures", json={}).json()["link"], {"data": b"\x89PNG"}),
        "track": ("PUT", vimeo("POST", video["uri"] + "/texttracks", json=track).json()["link"], {"data": b"WEBVTT"}),
        "version": (
            "PATCH",
            vimeo("POST", video["uri"] + "/versions", json=version).json()["upload"]["upload_link"],
            {"headers": tus, "data": b"0123456789"},
        ),
    }
    if by == "key":
        assert admin.delete(f"/v1/keys/{identifier}").status_code < 300
    else:
        time.sleep(0.01)
        body = {"subject": "dora"} if by == "subject" else {"issuedBefore": datetime.now(UTC).isoformat()}
        assert admin.post("/v1/revocations", body).status_code == 201
    for name, (method, url, options) in calls.items():
        status = requests.request(method, url, timeout=10, **options).status_code
        assert (status == 403) == ends, (name, status)
        assert ends or status < 400, (name, status)
