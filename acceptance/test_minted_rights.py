"""A key never mints a credential that can do more than the key itself.

Each key, each route that mints, and what the result really does; and what concerns all subjects needs a key without
limits.
"""

from collections import Counter

import pytest

from harness.aliyun_vod import Plain as ApsaraVOD
from harness.daemon import free_port
from harness.minted import DEEDS, KEYS, MINTING, OPERATIONS, ROUTES, World, can, name_of
from harness.object_client import ObjectServer
from harness.vimeo import Plain as Vimeo

# One of the names of each route.
UNIQUE = {route: name for name, route in reversed(ROUTES.items())}
# In the gate those with one scope, those that mint and have another one, and those with all.
MARKED_KEYS = [
    pytest.param(
        key,
        id=name_of(key),
        marks=[] if len(key[0]) in (1, 4) or (len(key[0]) == 2 and "mint" in key[0]) else pytest.mark.nightly,
    )
    for key in KEYS
]
# (route, deed) that were done by keys that may.
DONE = set()
ROWS = Counter()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    settings = {"SLUICE_VIMEO_CALLS_PER_MINUTE": "1000000"}
    settings |= {"SLUICE_TENCENT_APPLIES_PER_SECOND": "10000"}
    with ObjectServer(tmp_path_factory.mktemp("rights") / "data", free_port(), environment=settings) as server:
        yield World(server)


@pytest.mark.parametrize("route", UNIQUE, ids=UNIQUE.values())
@pytest.mark.parametrize("key", MARKED_KEYS)
def test_what_a_key_mints_does_only_what_the_key_does(world, key, route):
    for way, done, resource in route(world, world.key(key)):
        for deed in DEEDS:
            ROWS["minted"] += 1
            assert deed not in done or can(key, deed, resource), f"{way}: {deed}"
        if key == (("admin",), "all"):
            DONE.update((route.__name__, deed) for deed in done)


# What concerns all subjects

CONCERNING_ALL = {
    name: (method, path)
    for name, (method, path, access) in OPERATIONS.items()
    if "key" in access and "reach" not in access and not access.get("public")
}
LIMITED = [key for key in KEYS if key[1] != "all"]


@pytest.mark.parametrize("name", CONCERNING_ALL)
def test_a_limited_key_does_nothing_that_concerns_all(world, name):
    method, path = CONCERNING_ALL[name]
    path = path.replace("{kind}", "subjects").replace("{name}", "bert").replace("{key}", "key_x")
    for key in LIMITED:
        ROWS["all"] += 1
        answer = world.key(key).api.request(method, path, json={} if method in ("POST", "PUT", "PATCH") else None)
        assert answer.status_code == 403, f"{name_of(key)}: {answer.status_code} {answer.text}"


@pytest.mark.parametrize("key", MARKED_KEYS)
def test_callbacks_of_all_need_a_key_without_limits(world, key):
    callback = {"CallbackURL": "http://127.0.0.1:1/", "EventTypeList": ""}
    scopes, limit = key
    pair = world.key(key).pair
    for action, scope, parameters in (
        ("SetMessageCallback", "upload", callback),
        ("GetMessageCallback", "read", {}),
    ):
        ROWS["all"] += 1
        may = limit == "all" and ("admin" in scopes or scope in scopes)
        answer = ApsaraVOD(world.server, pair).answer(action, parameters)
        assert (answer.status_code == 200) == may, f"{action}: {answer.status_code} {answer.text}"
    sts = world.server.client(service="sts", pair=pair)
    for name in ("anna", "bert"):
        try:
            role = "arn:aws:iam::123456789012:role/app"
            given = sts.assume_role(RoleArn=role, RoleSessionName=name, DurationSeconds=900)["Credentials"]
        except sts.exceptions.ClientError:
            continue
        ROWS["all"] += 1
        session = (given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
        # The session of one user controls nothing that concerns the others.
        assert ApsaraVOD(world.server, session).answer("SetMessageCallback", callback).status_code == 403, name


# The matrix itself


def test_the_matrix_is_complete_and_large(world):
    """It must also see what is allowed; otherwise it would prove nothing."""
    assert set(ROUTES) == MINTING, "tell in harness/minted.py what the credentials of these operations can do"
    assert {route for route, _ in DONE} >= {"session_credentials", "presigned_urls", "vimeo_tokens", "media_links"}
    assert {deed for _, deed in DONE} == set(DEEDS)
    assert sum(ROWS.values()) >= 1000, ROWS
    print(dict(ROWS))


# Vimeo


def test_a_token_of_a_key_that_only_mints_uploads_and_sees_what_it_began(world):
    key = world.key((("mint",), "all"))
    made = key.api.post("/v1/vimeo/tokens", {"subject": "anna"})
    assert made.json()["scope"] == "public upload"
    for scope in ("private", "edit", "delete", "video_files"):
        answer = key.api.post("/v1/vimeo/tokens", {"subject": "anna", "scopes": ["upload", scope]})
        assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "scopes", answer.text
    client = Vimeo(world.server, made.json()["access_token"])
    video = client.create(0)
    document = client("GET", video["uri"])
    assert document.status_code == 200 and document.json()["status"] == "available"
    assert not {"files", "download"} & set(document.json())
    assert [one["uri"] for one in client("GET", "/me/videos").json()["data"]] == [video["uri"]]
    assert client("POST", video["uri"] + "/pictures", json={}).status_code == 201
    assert client("PATCH", video["uri"], json={"name": "x"}).status_code == 403
    assert client("DELETE", video["uri"]).status_code == 403
    assert client("GET", world.video).status_code == 404
    assert client("POST", world.video + "/pictures", json={}).status_code == 403


def test_what_a_key_mints_ends_no_later_than_the_key(world):
    body = {"name": "short", "scopes": ["mint", "read", "upload"], "expiresIn": 120}
    made = world.admin.post("/v1/keys", body).json()
    key = made["secret"]
    end = made["expiresAt"][:19]
    about = {"subject": "anna", "bucket": "uploads"}
    expiries = [
        world.admin.post("/v1/tus/tokens", {"subject": "anna", "expiresIn": 86400}, key=key).json()["expiresAt"],
        world.admin.post("/v1/vimeo/tokens", {"subject": "anna", "code": True}, key=key).json()["expiresAt"],
        world.admin.post("/v1/presigned-urls", about | {"key": "a"}, key=key).json()["expiresAt"],
        world.admin.post("/v1/sts/tokens", about | {"key": "a"}, key=key).json()["Credentials"]["Expiration"],
        world.admin.post(f"/v1/media/{world.media}/links", {}, key=key).json()["expiresAt"],
    ]
    assert max(one[:19] for one in expiries) <= end, (expiries, end)
    signed = world.admin.post("/v1/tencent/signatures", {}, key=key).json()
    assert signed["expireTime"] - signed["currentTimeStamp"] <= 120
