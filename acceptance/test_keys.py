"""API keys: scopes, expiry, revocation."""

import os
import re
from pathlib import Path

import pytest

from harness import faults
from harness.api import problem, tus_error
from harness.server import run
from harness.wire import until

UNKNOWN = "0" * 26
READ = [
    ("GET", "/v1/uploads"),
    ("GET", f"/v1/uploads/{UNKNOWN}"),
    ("GET", f"/v1/media/{UNKNOWN}"),
    ("POST", f"/v1/media/{UNKNOWN}/links"),
    ("GET", f"/media/{UNKNOWN}"),
    ("GET", "/metrics"),
]
MINT = [("POST", "/v1/tencent/signatures"), ("POST", "/v1/tus/tokens")]
UPLOAD = [("POST", "/v1/tus/uploads"), ("DELETE", f"/v1/uploads/{UNKNOWN}")]
DELETE = [("DELETE", f"/v1/media/{UNKNOWN}")]
PROTECTED = (
    [(*route, "read") for route in READ]
    + [(*route, "mint") for route in MINT]
    + [(*route, "upload") for route in UPLOAD]
    + [(*route, "delete") for route in DELETE]
)


def make_key(server, *scopes, extra=()):
    """A new key made by the command while the server runs."""
    arguments = [text for scope in scopes for text in ("--scope", scope)]
    done = run("keys", "create", "--name", "test", *arguments, *extra, environment=server.environment)
    return re.search(r"slk_\S+", done.stdout)[0]


@pytest.fixture(scope="module")
def keys(server):
    return {scope: make_key(server, scope) for scope in ("mint", "upload", "read", "delete", "admin")}


# Keys


@pytest.mark.parametrize(("method", "path", "scope"), PROTECTED)
def test_a_key_is_needed(api, method, path, scope):
    for headers in (
        {},
        {"Authorization": "Bearer slk_unknown"},
        {"Authorization": "Bearer "},
        {"Authorization": "slk_x"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": f"Bearer {api.key}x"},
    ):
        answer = api.request(method, path, key=None, headers=headers)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path", "scope"), PROTECTED)
def test_the_right_scope_is_needed(api, keys, method, path, scope):
    for other, key in keys.items():
        status = api.request(method, path, key=key).status_code
        assert (status == 403) == (other not in (scope, "admin")), (other, status)
        assert status != 401
    wrong = next(key for other, key in keys.items() if other not in (scope, "admin"))
    document = problem(api.request(method, path, key=wrong), 403, "forbidden")
    assert scope in document["detail"]


def test_creating_by_tus_needs_scope_upload(api, keys):
    assert api.create(1, key=keys["upload"]).status_code == 201
    for scope in ("mint", "read"):
        tus_error(api.create(1, key=keys[scope]), 403)


def key_ids(server):
    return set(re.findall(r"key_[0-9a-z]+", run("keys", "list", environment=server.environment).stdout))


def test_a_key_is_listed_and_revoked(server, api):
    kept = make_key(server, "read")
    before = key_ids(server)
    key = make_key(server, "read")
    assert api.get("/v1/uploads", key=key).status_code == 200
    assert key not in run("keys", "list", environment=server.environment).stdout
    (identifier,) = key_ids(server) - before
    run("keys", "revoke", identifier, environment=server.environment)
    until(lambda: api.get("/v1/uploads", key=key).status_code == 401, timeout=5)
    problem(api.get("/v1/uploads", key=key), 401, "unauthenticated")
    assert api.get("/v1/uploads", key=kept).status_code == 200


def test_revoking_an_unknown_key_fails(server):
    assert run("keys", "revoke", "key_unknown", environment=server.environment, check=False).returncode != 0


def test_a_key_expires(server, api):
    key = make_key(server, "read", extra=["--expires-in", "2s"])
    assert api.get("/v1/uploads", key=key).status_code == 200
    until(lambda: api.get("/v1/uploads", key=key).status_code == 401, timeout=10)


def test_an_upload_token_is_not_an_api_key(api):
    token = api.post("/v1/tus/tokens", {"subject": "u"}).json()["token"]
    for path in ("/v1/uploads", "/metrics"):
        problem(api.get(path, key=token), 403, "forbidden")
    problem(api.post("/v1/tus/tokens", {"subject": "u"}, key=token), 403, "forbidden")


@pytest.mark.parametrize(
    "arguments", [["keys", "list"], ["keys", "revoke", "key_0"], ["keys", "--help"], ["keys", "list", "-x"]]
)
def test_commands_end_without_destructors(server, arguments):
    """Threads may still use what the destructors of OpenSSL and libpq destroy; a command once died of it."""
    library = faults.compiled(Path(faults.__file__).with_name("destructors.c"))
    environment = server.environment | {"LD_PRELOAD": os.fspath(library)}
    done = run(*arguments, environment=environment, check=False)
    assert done.stdout or done.stderr
    assert "destructors" not in done.stderr
