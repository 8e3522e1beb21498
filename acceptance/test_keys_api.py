"""API keys by REST: creation, lists, rotation, revocation, last use, and the audit log."""

import base64
import hmac
import json
import re
import socket
import time
from datetime import datetime
from urllib.parse import urlencode

import pytest
import requests

from harness import hosts
from harness.aliyun_vod import Core
from harness.api import API, field_problem, problem, upload_id
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer, client
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import DIALECTS
from harness.server import Server, run
from harness.ugc import announced
from harness.vod_api import SDK
from harness.wire import until

LIMITED = {
    "name": "team",
    "scopes": ["mint", "read"],
    "subjects": ["team:*"],
    "buckets": ["uploads"],
    "prefixes": ["in/"],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values()), "SLUICE_LOG_LEVEL": "debug"}
    with ObjectServer(tmp_path_factory.mktemp("keys") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def api(gateway):
    return API(gateway.url, gateway.admin_key)


def made(api, **fields):
    answer = api.post("/v1/keys", {"name": "made", "scopes": ["read"]} | fields)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json()


def status(gateway, secret):
    return API(gateway.url, secret).get("/v1/uploads").status_code


def logged(gateway):
    return [json.loads(line) for line in gateway.whole_log().splitlines() if line.startswith("{")]


def audit(gateway, **wanted):
    """Lines of the audit log with these fields."""
    lines = [line for line in logged(gateway) if line["message"] == "audit"]
    return [line for line in lines if wanted.items() <= line.items()]


def test_a_created_key_has_the_limits_and_shows_its_secret_once(gateway, api):
    key = made(api, **LIMITED, expiresIn=3600)
    assert re.fullmatch(r"slk_[A-Za-z0-9_-]{43}", key["secret"])
    assert {name: key[name] for name in LIMITED} == LIMITED
    lifetime = datetime.fromisoformat(key["expiresAt"]) - datetime.fromisoformat(key["createdAt"])
    assert lifetime.total_seconds() == 3600
    shown = api.get(f"/v1/keys/{key['id']}")
    assert shown.headers["Cache-Control"] == "no-store"
    assert shown.json() == {name: value for name, value in key.items() if name != "secret"}
    assert key["secret"] not in api.get("/v1/keys?limit=1000").text + gateway.whole_log()
    # The key is valid at once, and its limits hold.
    problem(API(gateway.url, key["secret"]).post("/v1/tus/tokens", {"subject": "other"}), 403, "forbidden")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        # One character for people.
        ({"name": "x" + "\u20dd" * 100}, "name"),
        ({"name": None}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": ["admin"], "subjects": ["a"]}, "scopes"),
        ({"prefixes": ["a/"]}, "scopes"),
        ({"subjects": [""]}, "subjects"),
        ({"expiresIn": 0}, "expiresIn"),
        ({"expiresIn": 3155760001}, "expiresIn"),
        ({"secret": "slk_mine"}, "secret"),
    ],
)
def test_a_wrong_key_is_refused_and_not_created(api, fields, wrong):
    before = len(api.get("/v1/keys?limit=1000").json()["keys"])
    answer = api.post("/v1/keys", {"name": "bad", "scopes": ["read"]} | fields)
    field_problem(answer, wrong)
    assert len(api.get("/v1/keys?limit=1000").json()["keys"]) == before


def test_pages_show_each_key_once(api):
    for number in range(3):
        made(api, name=f"page {number}")
    whole = [key["id"] for key in api.get("/v1/keys?limit=1000").json()["keys"]]
    seen, path = [], "/v1/keys?limit=2"
    while path:
        page = api.get(path).json()
        assert len(page["keys"]) <= 2
        seen += [key["id"] for key in page["keys"]]
        path = f"/v1/keys?limit=2&cursor={page['nextCursor']}" if "nextCursor" in page else None
    assert seen == whole and len(seen) == len(set(seen)) >= 4
    field_problem(api.get("/v1/keys?cursor=key_unknown"), "cursor")
    field_problem(api.get("/v1/keys?limit=0"), "limit")


def test_a_rotation_ends_the_secret_before_it(gateway, api):
    key = made(api, scopes=["read", "mint"], subjects=["ann"])
    token = API(gateway.url, key["secret"]).post("/v1/tus/tokens", {"subject": "ann"}).json()["token"]
    assert status(gateway, key["secret"]) == 200
    answer = api.post(f"/v1/keys/{key['id']}/rotations")
    assert answer.status_code == 201 and answer.headers["Cache-Control"] == "no-store"
    new = answer.json()
    assert {**new, "secret": 0, "lastUsedAt": 0} == {**key, "secret": 0, "lastUsedAt": 0}
    assert new["secret"] != key["secret"]
    # On this node at once.
    refused = API(gateway.url, key["secret"]).get("/v1/uploads")
    problem(refused, 401, "unauthenticated")
    assert status(gateway, new["secret"]) == 200
    # What it minted stays valid.
    assert API(gateway.url, token).create(1).status_code == 201


def test_an_overlap_keeps_the_secret_for_its_time_only(gateway, api):
    key = made(api)
    new = api.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 3}).json()
    assert new["previousSecretUntil"] > key["createdAt"]
    assert status(gateway, key["secret"]) == status(gateway, new["secret"]) == 200
    until(lambda: status(gateway, key["secret"]) == 401)
    problem(API(gateway.url, key["secret"]).get("/v1/uploads"), 401, "unauthenticated")
    assert status(gateway, new["secret"]) == 200
    assert "previousSecretUntil" not in api.get(f"/v1/keys/{key['id']}").json()
    # A second rotation ends the first secret even while its overlap lasts.
    second = api.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 600}).json()
    third = api.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 600}).json()
    assert [status(gateway, each["secret"]) for each in (new, second, third)] == [401, 200, 200]
    field_problem(api.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 2592001}), "overlap")


def test_the_pair_for_s3_follows_the_secret(gateway, api):
    key = made(api, scopes=["admin"])
    before = gateway.pair(key["id"])
    api.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 600})
    after = gateway.pair(key["id"])
    assert before[0] == after[0] and before[1] != after[1]
    for pair in (before, after):
        client(gateway.object_url, pair=pair).list_buckets()
    api.post(f"/v1/keys/{key['id']}/rotations")

    def is_refused():
        try:
            client(gateway.object_url, pair=before).list_buckets()
        except Exception as error:
            assert "SignatureDoesNotMatch" in str(error)
            return True
        return False

    until(is_refused)


def test_what_cannot_be_rotated(gateway, api):
    preset = next(key["id"] for key in api.get("/v1/keys?limit=1000").json()["keys"] if key["preset"])
    assert "adminKey" in problem(api.post(f"/v1/keys/{preset}/rotations"), 409, "conflict")["detail"]
    revoked = made(api)
    assert api.delete(f"/v1/keys/{revoked['id']}").status_code == 204
    assert "revoked" in problem(api.post(f"/v1/keys/{revoked['id']}/rotations"), 409, "conflict")["detail"]
    for method, path in (("POST", "/rotations"), ("GET", ""), ("DELETE", "")):
        problem(api.request(method, f"/v1/keys/key_unknown{path}"), 404, "not_found")
    done = run("keys", "rotate", preset, environment=gateway.environment, check=False)
    assert done.returncode == 1 and "adminKey" in done.stderr
    done = run("keys", "rotate", "key_unknown", environment=gateway.environment, check=False)
    assert done.returncode == 1 and "no such key" in done.stderr


def test_a_revoked_key_ends_with_what_it_minted(gateway, api):
    key = made(api, scopes=["mint", "read"])
    token = API(gateway.url, key["secret"]).post("/v1/tus/tokens", {"subject": "ann"}).json()["token"]
    assert API(gateway.url, token).create(1).status_code == 201
    assert api.delete(f"/v1/keys/{key['id']}").status_code == 204
    assert status(gateway, key["secret"]) == 401
    assert API(gateway.url, token).create(1).status_code == 401
    shown = api.get(f"/v1/keys/{key['id']}").json()
    assert shown["status"] == "revoked"
    assert api.delete(f"/v1/keys/{key['id']}").status_code == 204
    assert api.get(f"/v1/keys/{key['id']}").json()["revokedAt"] == shown["revokedAt"]
    assert len(audit(gateway, action="key.revoke", key=key["id"])) == 1


def test_only_admin_manages_keys(gateway, api):
    key = made(api, scopes=["mint", "upload", "read", "delete"])
    other = API(gateway.url, key["secret"])
    for method, path in (
        ("POST", "/v1/keys"),
        ("GET", "/v1/keys"),
        ("GET", f"/v1/keys/{key['id']}"),
        ("POST", f"/v1/keys/{key['id']}/rotations"),
        ("DELETE", f"/v1/keys/{key['id']}"),
    ):
        problem(other.request(method, path), 403, "forbidden")
        problem(requests.request(method, gateway.url + path, timeout=10), 401, "unauthenticated")
    assert status(gateway, key["secret"]) == 200


def test_each_change_is_one_line_of_the_audit_log(gateway, api):
    admin = made(api, scopes=["admin"])
    actor = API(gateway.url, admin["secret"])
    key = made(actor)
    actor.post(f"/v1/keys/{key['id']}/rotations", {"overlap": 60})
    actor.delete(f"/v1/keys/{key['id']}")
    for place in (f"/v1/quota/keys/{key['id']}", "/v1/quota/subjects/somebody"):
        assert actor.request("PUT", place, json={"openUploads": 1}).status_code == 200
        assert actor.delete(place).status_code == 204
    deleted = {"upload.delete": upload_id(api.created(5)), "media.delete": api.uploaded(b"hello")}
    for action, known in deleted.items():
        assert actor.delete(f"/v1/{'media' if action.startswith('media') else 'uploads'}/{known}").status_code == 204
    actor.post("/v1/revocations", {"subject": "somebody"})
    by = {"message": "audit", "by": admin["id"], "client": "127.0.0.1"}
    until(lambda: audit(gateway, action="revocation.create", subject="somebody", **by))
    for action in ("key.create", "key.rotate", "key.revoke", "policy.set", "policy.remove"):
        assert len(audit(gateway, action=action, key=key["id"], **by)) == 1
    for action in ("policy.set", "policy.remove"):
        assert len(audit(gateway, action=action, subject="somebody", **by)) == 1
    for action, known in deleted.items():
        assert len(audit(gateway, action=action, upload=known, **by)) == 1


def test_deletions_of_users_are_not_in_the_audit_log(gateway, api):
    token = api.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    known = api.created(5, key=token)
    assert api.request("DELETE", known, key=token).status_code == 204
    # What comes later is there.
    key = made(api)
    until(lambda: audit(gateway, action="key.create", key=key["id"]))
    assert audit(gateway, upload=upload_id(known)) == []


def test_commands_write_the_audit_log_too(gateway, api):
    environment = gateway.environment | {"SLUICE_LOG_FORMAT": "json"}

    def changed(*arguments):
        done = run(*arguments, environment=environment)
        (line,) = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        assert line["message"] == "audit" and line["by"] == "cli" and "slk_" not in done.stderr
        return line, done.stdout

    line, text = changed("keys", "create", "--name", "c", "--scope", "read")
    identifier, secret = line["key"], re.search(r"slk_\S+", text)[0]
    assert line["action"] == "key.create"
    line, text = changed("keys", "rotate", identifier, "--overlap", "1h")
    assert line["action"] == "key.rotate" and line["previousSecretUntil"]
    new = re.search(r"slk_\S+", text)[0]
    assert status(gateway, secret) == status(gateway, new) == 200
    changed("keys", "rotate", identifier)
    until(lambda: status(gateway, secret) == status(gateway, new) == 401)
    assert changed("keys", "revoke", identifier)[0]["action"] == "key.revoke"
    assert changed("revoke", "--subject", "nobody")[0]["action"] == "revocation.create"
    assert run("keys", "rotate", identifier, "--overlap", "31d", environment=environment, check=False).returncode != 0


def test_the_last_use_outlives_the_process(tmp_path):
    with Server(tmp_path / "data") as server:
        api = API(server.url, server.admin_key)
        used, unused = made(api), made(api)
        assert "lastUsedAt" not in api.get(f"/v1/keys/{used['id']}").json()
        before = time.time()
        assert status(server, used["secret"]) == 200
        # A wrong secret is no use.
        assert status(server, unused["secret"] + "x") == 401
        shown = api.get(f"/v1/keys/{used['id']}").json()["lastUsedAt"]
        assert datetime.fromisoformat(shown).timestamp() > before - 2
        server.stop()
        listed = run("keys", "list", environment=server.environment).stdout
        assert "LAST USED" in listed
        (row,) = [line for line in listed.splitlines() if line.startswith(used["id"])]
        # Recorded in whole milliseconds, which may round differently.
        recorded = datetime.fromisoformat(row.split()[-2])
        assert abs((recorded - datetime.fromisoformat(shown)).total_seconds()) < 0.002
        (row,) = [line for line in listed.splitlines() if line.startswith(unused["id"])]
        assert row.split().count("never") == 2


def by_dialect(name):
    def use(gateway, pair):
        port = int(gateway.object_url.rsplit(":", 1)[1])
        DIALECTS[name](port, BUCKET, (*pair, None)).put(f"used-by-{name}")

    return use


def by_form(gateway, pair):
    form = client(gateway.object_url, pair).generate_presigned_post(BUCKET, "form")
    answer = requests.post(form["url"], form["fields"], files={"file": b"form"}, timeout=10)
    assert answer.status_code == 204, answer.text


def by_signature(gateway, pair):
    """A client of Tencent VOD with a signature that the app's backend made."""
    now = int(time.time())
    text = urlencode({"secretId": pair[0], "currentTimeStamp": now, "expireTime": now + 600, "random": 7}).encode()
    signature = base64.b64encode(hmac.digest(pair[1].encode(), text, "sha1") + text).decode()
    body = json.dumps(announced(3) | {"signature": signature})
    answer = requests.post(f"{gateway.url}/v3/index.php?Action=ApplyUploadUGC", body, timeout=10).json()
    assert answer["code"] == 0, answer


USES = {
    "s3": by_dialect("s3"),
    "oss": by_dialect("oss-v1"),
    "cos": by_dialect("cos"),
    "form": by_form,
    "sts": lambda gateway, pair: client(gateway.object_url, pair, "sts").get_session_token(),
    "aliyun": lambda gateway, pair: Core(gateway, pair)("CreateUploadVideo", Title="t", FileName="a.mp4"),
    "tencent": lambda gateway, pair: SDK(gateway, pair)("ApplyUpload", MediaType="mp4"),
    "ugc": by_signature,
}


@pytest.mark.parametrize("kind", USES)
def test_a_request_signed_with_its_pair_is_a_use(gateway, api, kind, monkeypatch):
    port = int(gateway.object_url.rsplit(":", 1)[1])
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver(dict.fromkeys(DOMAINS.values(), port)))
    key = made(api, scopes=["admin" if kind in ("s3", "oss", "cos", "form") else "mint"])
    pair = gateway.pair(key["id"])

    def last_use():
        return api.get(f"/v1/keys/{key['id']}").json().get("lastUsedAt")

    with pytest.raises(Exception):  # noqa: B017 Each SDK has its own.
        USES[kind](gateway, (pair[0], pair[1] + "x"))
    assert last_use() is None
    before = time.time()
    USES[kind](gateway, pair)
    assert datetime.fromisoformat(last_use()).timestamp() > before - 2
    # The log says of each request whose it was.
    statuses = [
        line["status"] for line in logged(gateway) if line["message"] == "request" and line.get("key") == key["id"]
    ]
    assert set(statuses) & {200, 204}
