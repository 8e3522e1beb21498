"""Who learns the links by which bytes come to what Vimeo's API has: each set of scopes, each document."""

import itertools
import json
import re
from types import SimpleNamespace

import pytest
import requests

from harness.api import API, TUS
from harness.identity import IdentityProvider
from harness.server import Server
from harness.vimeo import Plain, token
from harness.vimeo_cloud import VimeoCloud

ACCOUNT = "account-token"
OLD = {"Accept": "*/*"}
SCOPES = ("upload", "edit", "private", "delete")
# What the scopes of a JSON Web Token stand for.
OF_USERS = {"upload": {"upload", "edit"}, "read": {"private"}, "delete": {"delete"}}


def subsets(names):
    return [subset for count in range(len(names) + 1) for subset in itertools.combinations(names, count)]


def name_of(scopes):
    return "+".join(scopes) or "none"


@pytest.fixture(scope="module")
def provider():
    with IdentityProvider() as one:
        yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory, provider):
    issuer = {"issuer": provider.url, "audience": "app", "scopes": "upload, read, delete", "scopeClaim": "scope"}
    settings = {"SLUICE_JWT_ISSUERS": json.dumps([issuer]), "SLUICE_VIMEO_CALLS_PER_MINUTE": "100000"}
    with Server(tmp_path_factory.mktemp("links") / "data", environment=settings) as running:
        yield running


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    with VimeoCloud(ACCOUNT) as cloud:
        settings = {
            "SLUICE_VIMEO_MODE": "direct",
            "SLUICE_VIMEO_ACCESS_TOKEN": ACCOUNT,
            "SLUICE_VIMEO_ENDPOINT": cloud.url,
            "SLUICE_VIMEO_CALLS_PER_MINUTE": "100000",
            "SLUICE_VIMEO_POLL_INTERVAL": "1h",
        }
        with Server(tmp_path_factory.mktemp("direct") / "data", environment=settings) as running:
            running.cloud = cloud
            yield running


def documents(owner):
    """Where what a caller has begun, and not sent, is told: documents and lists, read and changed."""
    uris = SimpleNamespace(**{approach: owner.create(5, approach)["uri"] for approach in ("tus", "post", "streaming")})
    version = {"file_name": "f.mp4", "upload": {"approach": "tus", "size": 5}}
    track = {"type": "captions", "language": "en", "name": "n"}

    def made(path, body):
        answer = owner("POST", uris.tus + path, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["uri"]

    second = made("/versions", version)
    pictures = [made("/pictures", {}), made("/pictures", {"active": True})]
    texts = made("/texttracks", track)
    form = owner("POST", "/me/videos", json={"type": "POST"}, headers=OLD).json()["uri"]
    videos = [uris.tus, uris.post, uris.streaming]
    reads = [
        *videos,
        *(f"{uri}?fields=upload.upload_link,upload.form,uri" for uri in videos),
        f"{uris.tus}?fields=upload",
        f"{uris.tus}?fields=uri,pictures.link,upload.upload_link",
        "/me/videos?per_page=100",
        "/me/videos?per_page=100&fields=upload.upload_link",
        f"{uris.tus}/versions",
        f"{uris.tus}/versions?fields=upload.upload_link",
        second,
        f"{uris.tus}/pictures",
        f"{uris.tus}/pictures?fields=link",
        pictures[0],
        f"{uris.tus}/texttracks",
        f"{uris.tus}/texttracks?fields=link",
        texts,
        f"{texts}?fields=link",
        owner.ticket()["uri"],
        form,
    ]
    changes = [
        (uris.tus, {"name": "other"}),
        (uris.post, {"name": "other"}),
        (uris.streaming, {"name": "other"}),
        (pictures[0], {"active": True}),
        (texts, {"name": "other"}),
    ]
    return [("GET", path, None) for path in reads] + [("PATCH", path, body) for path, body in changes]


def links_of(server, answer):
    """The links that a document tells: those of the gateway, those of its own Vimeo, and `complete_uri`."""
    links = r"/vimeo/(?:files|videos|pictures|texttracks)/[^\"\\ ]+|[^\"\\ ]+[?&]signature=[\w-]+"
    if hasattr(server, "cloud"):
        links += "|" + re.escape(server.cloud.data_url) + r"/[^\"\\ ]+"
    return sorted(re.findall(links, json.dumps(answer.json())))


def check(server, owner, caller, scopes, *, is_own=False):
    """Each document tells its links exactly to callers that may add to it; the others get the rest."""
    may_add = "upload" in scopes and (is_own or "edit" in scopes)
    counts = {"told": 0, "kept": 0, "refused": 0}
    for method, path, body in documents(owner):
        right = "edit" if method == "PATCH" else "private"
        answer = caller(method, path, json=body)
        if right not in scopes and not (is_own and right == "private" and "upload" in scopes):
            # Lists have nothing of what cannot be read.
            assert answer.status_code in (403, 404) or answer.json().get("data") == [], (path, answer.text)
            counts["refused"] += 1
            continue
        assert answer.status_code == 200, (path, answer.text)
        known = links_of(server, owner(method, path, json=body))
        assert known, f"{path} tells nobody a link"
        assert links_of(server, answer) == (known if may_add else []), (method, path)
        counts["told" if may_add else "kept"] += 1
    assert sum(counts.values()) >= 27
    return counts


@pytest.mark.parametrize("scopes", subsets(SCOPES), ids=name_of)
def test_links_are_for_tokens_that_may_add(server, scopes):
    user = f"minted-{name_of(scopes)}"
    owner = Plain(server, token(server, user))
    caller = Plain(server, token(server, user, scopes=["public", *scopes]))
    counts = check(server, owner, caller, scopes)
    assert counts["told"] > 0 or not {"upload", "edit"} <= set(scopes)
    assert counts["kept"] > 0 or not {"edit", "private"} & set(scopes) or {"upload", "edit"} <= set(scopes)


def test_a_token_that_only_begins_knows_its_own_links(server):
    caller = Plain(server, token(server, "begins", scopes=["public", "upload"]))
    assert check(server, caller, caller, {"upload"}, is_own=True)["told"] > 20


@pytest.mark.parametrize("scopes", subsets(list(OF_USERS)), ids=name_of)
def test_links_are_for_users_that_may_upload(server, provider, scopes):
    """Their tokens stand for one caller, whatever their scopes are."""
    rights = set().union(*(OF_USERS[scope] for scope in scopes))
    for is_own in (False, True):
        user = f"user-{name_of(scopes)}-{is_own}"
        owner = provider.token(sub=user, scope="upload read") if is_own else token(server, user)
        caller = Plain(server, provider.token(sub=user, scope=" ".join(scopes)))
        check(server, Plain(server, owner), caller, rights, is_own=is_own)


@pytest.mark.parametrize("scopes", subsets(SCOPES), ids=name_of)
def test_links_of_the_service_are_for_tokens_that_may_add(direct, scopes):
    user = f"direct-{name_of(scopes)}"
    owner = Plain(direct, token(direct, user))
    caller = Plain(direct, token(direct, user, scopes=["public", *scopes]))
    check(direct, owner, caller, scopes)


def test_what_a_key_that_reads_mints_does_not_write(server):
    """The links that its token finds, used: none changes what another token began."""
    admin = API(server.url, server.admin_key)
    key = admin.post("/v1/keys", {"name": "reads", "scopes": ["mint", "read"]}).json()["secret"]
    body = {"subject": "written", "scopes": ["public", "private"]}
    made = API(server.url, key).post("/v1/vimeo/tokens", body).json()["access_token"]
    owner, reader = Plain(server, token(server, "written")), Plain(server, made)
    fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    for approach in ("tus", "post", "streaming"):
        uri = owner.create(5, approach)["uri"]
        link = reader("GET", uri).json()["upload"]["upload_link"]
        if link:
            requests.request("PATCH" if approach == "tus" else "PUT", link, data=b"other", headers=fields, timeout=30)
        assert reader("GET", uri).json()["status"] == "uploading", approach
        assert link is None, approach
