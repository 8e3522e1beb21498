"""Vimeo's API for app users with a JSON Web Token of an issuer, without a token of the gateway."""

import itertools
import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from harness.api import API
from harness.daemon import free_port
from harness.identity import IdentityProvider, Key
from harness.object_client import ObjectServer
from harness.server import Server
from harness.vimeo import PULLS, Plain, token, upload_of
from harness.wire import until

SCOPES = ("upload", "read", "delete")
SUBSETS = [subset for count in range(len(SCOPES) + 1) for subset in itertools.combinations(SCOPES, count)]
# What a token of the gateway with the same rights has.
VIMEO = {"upload": ["upload", "create", "edit"], "read": ["private"], "delete": ["delete"]}


@pytest.fixture(scope="module")
def provider():
    with IdentityProvider() as one:
        yield one


def settings(provider, **more):
    entry = {"issuer": provider.url, "audience": "app", "scopes": "upload, read, delete, mint", "scopeClaim": "scope"}
    return {"SLUICE_JWT_ISSUERS": json.dumps([entry | more])} | PULLS


def bearer(provider, subject, scopes=SCOPES, **claims):
    return provider.token(sub=subject, scope=" ".join(scopes), **claims)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, provider):
    with ObjectServer(tmp_path_factory.mktemp("jwt") / "data", free_port(), settings(provider)) as server:
        yield server


@pytest.fixture
def make_gateway(tmp_path):
    made = []

    def make(environment):
        made.append(Server(tmp_path / f"data{len(made)}", environment=environment))
        return made[-1].start()

    yield make
    for one in made:
        one.stop()


def put(video, body):
    """Sends all bytes to the link of a video that was created for a PUT."""
    return requests.put(video["upload"]["upload_link"], data=body, timeout=30)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_user_uploads_and_reads(gateway, provider, scheme):
    client = Plain(gateway, bearer(provider, f"whole-{scheme}"))
    client.fields["Authorization"] = client.fields["Authorization"].replace("Bearer", scheme)
    me = client("GET", "/me").json()
    assert me["name"] == f"whole-{scheme}"
    video = client.create(5)
    fields = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    answer = requests.patch(video["upload"]["upload_link"], data=b"hello", headers=fields, timeout=30)
    assert answer.status_code == 204
    found = client("GET", video["uri"]).json()
    assert found["status"] == "available"
    assert requests.get(found["download"][0]["link"], timeout=30).content == b"hello"
    upload = upload_of(gateway, video["uri"])
    assert upload["subject"] == f"whole-{scheme}" and upload["issuer"].startswith("identity_")
    # The user's next token sees it, and so does a token of the gateway.
    for other in (bearer(provider, f"whole-{scheme}"), token(gateway, f"whole-{scheme}")):
        assert Plain(gateway, other)("GET", "/me/videos").json()["total"] == 1
    assert Plain(gateway, bearer(provider, "stranger"))("GET", video["uri"]).status_code == 404
    assert client("GET", "/oauth/verify").json()["scope"] == (
        "public private purchased create edit delete upload stats email video_files"
    )


def prepared(gateway, subject):
    """A video with one of each, begun with another token of its user."""
    owner = Plain(gateway, token(gateway, subject))
    video = owner.create(5, "streaming")
    assert put(video, b"hello").status_code == 200
    picture = owner("POST", video["uri"] + "/pictures", json={}).json()
    assert requests.put(picture["link"], data=b"picture", timeout=30).status_code == 200
    track = owner("POST", video["uri"] + "/texttracks", json={"type": "captions"}).json()
    return {"uri": video["uri"], "picture": picture["uri"], "track": track["uri"], "user": video["user"]["uri"]}


NEW = {"name": "N", "upload": {"approach": "tus", "size": 3}}
VERSION = {"file_name": "f.mp4", "upload": {"status": "in_progress", "approach": "tus", "size": 3}}
# In this order: what removes comes last.
ROUTES = {
    "user": ("GET", "/me", None),
    "user by number": ("GET", "{user}", None),
    "videos": ("GET", "/me/videos", None),
    "create": ("POST", "/me/videos", NEW),
    "create by number": ("POST", "{user}/videos", NEW),
    "ticket": ("POST", "/me/videos?type=streaming", None),
    "video": ("GET", "{uri}", None),
    "status": ("GET", "{uri}/status", None),
    "edit": ("PATCH", "{uri}", {"name": "other"}),
    "versions": ("GET", "{uri}/versions", None),
    "new version": ("POST", "{uri}/versions", VERSION),
    "pictures": ("GET", "{uri}/pictures", None),
    "new picture": ("POST", "{uri}/pictures", {}),
    "picture": ("GET", "{picture}", None),
    "edit picture": ("PATCH", "{picture}", {"active": True}),
    "tracks": ("GET", "{uri}/texttracks", None),
    "new track": ("POST", "{uri}/texttracks", {"type": "captions"}),
    "edit track": ("PATCH", "{track}", {"name": "n"}),
    "remove track": ("DELETE", "{track}", None),
    "remove picture": ("DELETE", "{picture}", None),
    "verify": ("GET", "/oauth/verify", None),
    "remove": ("DELETE", "{uri}", None),
}
# The status for a token with none of the scopes, and the scopes with which there is another one.
NEEDS = {
    "create": "upload",
    "create by number": "upload",
    "ticket": "upload",
    "edit": "upload",
    "new version": "upload",
    "new picture": "upload",
    "edit picture": "upload",
    "new track": "upload",
    "edit track": "upload",
    "remove": "delete",
    "video": "read",
    "status": "read",
    "versions": "read",
    "pictures": "read",
    "tracks": "read",
}


@pytest.mark.parametrize("scopes", SUBSETS, ids=["+".join(subset) or "none" for subset in SUBSETS])
def test_rights_are_those_of_a_token_of_the_gateway(gateway, provider, scopes):
    """Each subset of the scopes at each route."""
    subject = "rights-" + ("+".join(scopes) or "none")
    names = ["public", *itertools.chain.from_iterable(VIMEO[scope] for scope in scopes)]
    callers = {
        "minted": Plain(gateway, token(gateway, subject, scopes=names)),
        "own": Plain(gateway, bearer(provider, subject, scopes)),
    }
    found = {}
    for kind, client in callers.items():
        places = prepared(gateway, subject)
        found[kind] = {}
        for route, (method, path, body) in ROUTES.items():
            headers = {"Accept": "application/vnd.vimeo.*+json;version=3.2"} if route == "ticket" else {}
            answer = client(method, path.format(**places), json=body, headers=headers)
            found[kind][route] = answer.status_code
            # Links to content need `read`.
            if route == "video" and answer.status_code == 200:
                assert bool(answer.json().get("download")) == ("read" in scopes)
    assert found["own"] == found["minted"]
    for route, scope in NEEDS.items():
        assert (found["own"][route] < 300) == (scope in scopes), (route, found["own"][route])


def test_other_credentials_are_refused(gateway, provider, make_gateway):
    stranger = Key("stranger")
    refused = [
        bearer(provider, "anna", exp=int(time.time()) - 600, iat=int(time.time()) - 700),
        bearer(provider, "anna", aud="other"),
        bearer(provider, "anna", iss="https://other.example"),
        provider.token(stranger, sub="anna"),
        gateway.admin_key,
    ]
    for credential in refused:
        answer = Plain(gateway, credential)("GET", "/me")
        assert (answer.status_code, answer.json()["error_code"]) == (401, 8000)
        assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
        assert credential not in answer.text
    without = make_gateway({})
    assert Plain(without, bearer(provider, "anna"))("GET", "/me").status_code == 401


def test_what_only_tokens_of_the_gateway_do(gateway, provider):
    client = Plain(gateway, bearer(provider, "only"))
    assert client("DELETE", "/tokens").status_code == 403
    assert client("GET", "/me").status_code == 200
    pull = {"upload": {"approach": "pull", "link": "http://127.0.0.1:9/x"}}
    assert client("POST", "/me/videos", json=pull).status_code == 403
    assert client("GET", "/me/videos").json()["total"] == 0


def test_limits_and_metadata_hold_for_all_bytes(make_gateway, provider):
    gateway = make_gateway(
        settings(
            provider,
            maximumBytes=10,
            contentTypes="video/mp4, image/png",
            metadata={"tenant": "tenant"},
        )
    )
    client = Plain(gateway, bearer(provider, "limited", tenant=7))

    def create(size, approach="streaming", kind="video/mp4"):
        upload = {"approach": approach, "size": size, "mime_type": kind}
        return client("POST", "/me/videos", json={"name": "N", "upload": upload})

    assert [create(11).status_code, create(5, kind="text/plain").status_code] == [400, 400]
    assert client("GET", "/me/videos").json()["total"] == 0
    video = create(None).json()
    assert upload_of(gateway, video["uri"])["metadata"]["tenant"] == "7"
    # Content from its begin makes another upload, with the same limits.
    link = video["upload"]["upload_link"]
    part = {"Content-Range": "bytes 0-1/10"}
    assert requests.put(link, data=b"he", headers=part, timeout=30).status_code == 308
    assert requests.put(link, data=b"x" * 11, timeout=30).status_code == 413
    assert requests.put(link, data=b"x" * 10, timeout=30).status_code == 200
    assert upload_of(gateway, video["uri"])["metadata"]["tenant"] == "7"
    picture = client("POST", video["uri"] + "/pictures", json={}).json()["link"]
    assert requests.put(picture, data=b"x", headers={"Content-Type": "text/html"}, timeout=30).status_code >= 400
    assert requests.put(picture, data=b"x" * 11, headers={"Content-Type": "image/png"}, timeout=30).status_code == 413
    assert requests.put(picture, data=b"x" * 5, headers={"Content-Type": "image/png"}, timeout=30).status_code == 200
    uploads = API(gateway.url, gateway.admin_key).get("/v1/uploads?state=completed").json()["uploads"]
    assert [upload["metadata"].get("tenant") for upload in uploads] == ["7", "7"]


def test_links_end_as_the_issuer_says(make_gateway, provider):
    """`mintedLifetime` from now at the latest, though the token lasts longer; links stay the same for a while."""
    gateway = make_gateway(settings(provider, mintedLifetime="2m"))
    client = Plain(gateway, bearer(provider, "links"))
    video = client.create(5, "streaming")
    assert put(video, b"hello").status_code == 200
    before = time.time()
    links = [client("GET", video["uri"]).json()["download"][0]["link"] for _ in range(3)]
    ends = [int(parse_qs(urlsplit(link).query)["expires"][0]) for link in links]
    assert all(before + 59 <= end <= time.time() + 120 for end in ends)
    assert len(set(ends)) <= 2
    assert requests.get(links[-1], timeout=30).content == b"hello"


def test_a_revocation_ends_the_token(gateway, provider):
    client = Plain(gateway, bearer(provider, "revoked"))
    assert client("GET", "/me").status_code == 200
    admin = API(gateway.url, gateway.admin_key)
    assert admin.post("/v1/revocations", {"subject": "revoked"}).status_code == 201
    until(lambda: client("GET", "/me").status_code == 401)
    assert Plain(gateway, bearer(provider, "kept"))("GET", "/me").status_code == 200
