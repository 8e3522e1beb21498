"""Access control: every operation of openapi.yaml with every kind of credential, as its `x-access` says."""

import base64
import re

import pytest

from harness.api import API, OFFSET_TYPE, TUS, path_of
from harness.daemon import free_port
from harness.object_client import BUCKET, ObjectServer
from harness.openapi import DOCUMENT
from harness.server import run
from harness.vimeo import Plain as Vimeo
from harness.vimeo import token as vimeo_token
from harness.wire import until

METHODS = {"get", "head", "post", "put", "patch", "delete", "options"}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation.get("x-access"))
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in METHODS
}
# The accessed resources belong to the first of them.
OWNER, OTHER = "anna", "bert"
ALL = ("mint", "upload", "read", "delete")
DRAFT = {"Upload-Draft-Interop-Version": "6", "Upload-Complete": "?1"}


class Actor:
    """A credential; `limit` is what a key is limited to."""

    def __init__(self, kind, *, scopes=(), limit=None, subject=None, objects=False):
        self.kind, self.scopes, self.limit, self.subject, self.objects = kind, set(scopes), limit, subject, objects


ACTORS = {
    "nobody": Actor("none"),
    "unknown key": Actor("unknown"),
    "revoked key": Actor("revoked key"),
    "revoked token": Actor("revoked token"),
    "mint": Actor("key", scopes=["mint"]),
    "upload": Actor("key", scopes=["upload"]),
    "read": Actor("key", scopes=["read"]),
    "delete": Actor("key", scopes=["delete"]),
    "all but admin": Actor("key", scopes=ALL),
    "admin": Actor("key", scopes=["admin"]),
    "key of the owner": Actor("key", scopes=ALL, limit="owner"),
    "reading key of the owner": Actor("key", scopes=["read"], limit="owner"),
    "key of another": Actor("key", scopes=ALL, limit="other"),
    "key of several": Actor("key", scopes=ALL, limit="several"),
    "key of a bucket": Actor("key", scopes=ALL, limit="bucket"),
    "token of the owner": Actor("token", subject=OWNER),
    "token of the owner for objects": Actor("token", subject=OWNER, objects=True),
    "token of another for objects": Actor("token", subject=OTHER, objects=True),
    "upload URL": Actor("url"),
    "signed link": Actor("link"),
}
STRANGERS = {"nobody", "unknown key", "revoked key", "revoked token"}
LIMITS = {
    "owner": ["--subject", OWNER],
    "other": ["--subject", OTHER],
    "several": ["--subject", OWNER, "--subject", OTHER],
    "bucket": ["--bucket", BUCKET],
}


def is_allowed(access, actor, state, begun_by_actor):
    """What the document allows."""
    if access.get("public"):
        return True
    if state == "complete" and access.get("complete") == "nobody":
        return False
    match actor.kind:
        case "url" | "link":
            return access.get(actor.kind, False)
        case "token":
            rule = access.get("token")
            if not rule or (rule == "objects" and not actor.objects):
                return False
            return access.get("reach") != "begun" or actor.subject == OWNER
        case "key":
            needed = {access.get("key")} | ({access["complete"]} if state == "complete" else set())
            if "key" not in access or not ("admin" in actor.scopes or needed <= actor.scopes | {"any"}):
                return False
            return reaches(access, actor, begun_by_actor)
    return False


def reaches(access, actor, begun_by_actor):
    match access.get("reach"), actor.limit:
        case None, limit:
            return limit is None
        case "account", _:
            return True
        case "begun", limit:
            return begun_by_actor and limit in (None, "owner", "other")
        case "user", limit:
            return limit in ("owner", "other")
        case _, "bucket":
            return access.get("objects", False)
        case "self", limit:
            return limit != "several"
        case "subjects", limit:
            return limit != "other"
    raise AssertionError(f"x-access has a reach that nobody knows: {access}")


def cases():
    for name, (_, _, access) in OPERATIONS.items():
        states = ["open", "complete"] if access and "complete" in access else [None]
        for actor in ACTORS:
            for state in states:
                yield name, actor, state, False
        if access and access.get("reach") == "begun":
            for actor in ("upload", "admin", "key of the owner"):
                yield name, actor, None, True


CASES = list(cases())


class World:
    """The server, all credentials, and resources to access."""

    def __init__(self, server):
        self.server = server
        self.api = API(server.url, server.admin_key)
        self.credentials = {name: self.make(actor) for name, actor in ACTORS.items()}
        self.owner = self.token(OWNER, objects=True)
        self.media = self.upload("complete")["id"]
        video = {"title": "t", "fileName": "t.mp4", "subject": OWNER}
        self.video = self.api.post("/v1/aliyun/uploads", video).json()["VideoId"]
        self.vimeo = Vimeo(server, vimeo_token(server, OWNER))

    def key(self, scopes, *extra):
        arguments = [text for scope in sorted(scopes) for text in ("--scope", scope)]
        done = run("keys", "create", "--name", "m", *arguments, *extra, environment=self.server.environment)
        return re.search(r"id: (\S+)", done.stdout)[1], re.search(r"slk_\S+", done.stdout)[0]

    def token(self, subject, key=..., **wanted):
        answer = self.api.post("/v1/tus/tokens", {"subject": subject} | wanted, key=key)
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def make(self, actor):
        match actor.kind:
            case "none" | "url" | "link":
                return None
            case "unknown":
                return "slk_unknown"
            case "token":
                return self.token(actor.subject, **({"objects": True} if actor.objects else {}))
            case "key":
                return self.key(actor.scopes, *LIMITS.get(actor.limit, []))[1]
        identifier, secret = self.key(ALL)
        token = self.token(OWNER, key=secret, objects=True)
        run("keys", "revoke", identifier, environment=self.server.environment)
        # The server notices it within a second.
        until(lambda: self.api.get("/v1/uploads", key=secret).status_code == 401)
        until(lambda: self.api.create(3, key=token).status_code == 401)
        return secret if actor.kind == "revoked key" else token

    def upload(self, state="open"):
        length = 0 if state == "complete" else 3
        answer = self.api.post("/v1/tus/uploads", {"length": length, "subject": OWNER})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def multipart(self, key):
        answer = self.api.post("/s3/multipart", {"filename": "f", "type": "a/b"}, key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()["uploadId"], answer.json()["key"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    data = tmp_path_factory.mktemp("matrix") / "data"
    with ObjectServer(data, free_port(), environment={"SLUICE_PULL_ALLOW": "127.0.0.1"}) as server:
        yield World(server)


JSON = {
    "createTencentSignature": {"subject": OWNER},
    "callCloud": {"FileIds": ["1"]},
    "beginAliyunUpload": {"title": "t", "fileName": "t.mp4", "subject": OWNER},
    "refreshAliyunUpload": {},
    "callTencentUGC": {"signature": "x"},
    "reportTencentUGC": {"reqType": 40001},
    "reportTencentUGCOfOldClients": {"reqType": 40001},
    "createSessionCredentials": {"subject": OWNER, "bucket": BUCKET, "keyPrefix": "a/"},
    "createPresignedURLs": {"subject": OWNER, "bucket": BUCKET, "key": "a/b"},
    "createUploadToken": {"subject": OWNER},
    "createVimeoToken": {"subject": OWNER},
    "createVimeoOwnVideo": {"upload": {"approach": "tus", "size": 3}},
    "createVimeoUserVideo": {"upload": {"approach": "tus", "size": 3}},
    "editVimeoVideo": {"name": "n"},
    "replaceVimeoFile": {"type": "streaming"},
    "createVimeoVersion": {"file_name": "f", "upload": {"approach": "tus", "size": 3}},
    "createVimeoPicture": {},
    "editVimeoPicture": {"active": True},
    "createVimeoTextTrack": {"type": "captions"},
    "editVimeoTextTrack": {"active": True},
    "createTusUpload": {"subject": OWNER, "length": 1},
    "editUpload": {"metadata": {"a": "b"}},
    "editMedia": {"metadata": {"a": "b"}},
    "pullMedia": {"subject": OWNER, "url": "http://127.0.0.1:9/x"},
    "createMediaLink": {"expiresIn": 60},
    "setQuota": {},
    "redeliverHooks": {"state": "dead"},
    "createRevocation": {"subject": "nobody at all"},
    "createKey": {"name": "matrix", "scopes": ["read"]},
    "rotateKey": {},
    "beginCompanionUpload": {"filename": "f", "type": "a/b"},
    "completeCompanionUpload": {"parts": []},
}
CONTENT = {
    "uploadMedia": {},
    "uploadMediaByPatch": DRAFT | {"Content-Type": "application/partial-upload"},
    "putMediaNamedPull": {},
    "putMedia": {},
    "createUploadByPut": DRAFT,
    "createUploadByPatch": DRAFT | {"Content-Type": "application/partial-upload"},
    "appendVimeoUpload": TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE},
    "putVimeoContent": {},
    "putVimeoPicture": {},
    "putVimeoTextTrack": {},
    "appendUpload": TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE},
    "overrideUpload": TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE, "X-HTTP-Method-Override": "PATCH"},
}
FIELDS = {
    "createUpload": TUS | {"Upload-Length": "3"},
    "callCloud": {"X-TC-Action": "DescribeMediaInfos"},
    "headUpload": TUS,
    "headVimeoUpload": TUS,
    "postVimeoForm": {"Content-Type": "multipart/form-data; boundary=b"},
    "createVimeoClientToken": {"Content-Type": "application/x-www-form-urlencoded"},
    "exchangeVimeoCode": {"Content-Type": "application/x-www-form-urlencoded"},
    "terminateUpload": TUS,
}
QUERY = {
    "listUploads": {"subject": OWNER},
    "followUploads": {"subject": OWNER},
    "getCompanionParameters": {"filename": "f"},
    "signCompanionParts": {"partNumbers": "1"},
    "callCloudByGet": {"Action": "SearchMedia", "SecretId": "x"},
    "callTencentUGCByGet": {"Action": "PrepareUploadUGC"},
}
# Without query and content.
BARE = {
    "getUpload",
    "deleteUpload",
    "followUpload",
    "getMedia",
    "deleteMedia",
    "getOwnQuota",
    "getQuota",
    "resetQuota",
    "listHookDeliveries",
    "listKeys",
    "getKey",
    "revokeKey",
    "downloadMedia",
    "headMedia",
    "discoverTus",
    "discoverTusUpload",
    "listCompanionParts",
    "abortCompanionUpload",
    "signCompanionPart",
    "getCompanionCredentials",
    "getHealth",
    "getReadiness",
    "getMetrics",
    "getDescription",
    "getVimeoMe",
    "getVimeoUser",
    "listVimeoOwnVideos",
    "listVimeoUserVideos",
    "getVimeoTicket",
    "completeVimeoTicket",
    "getVimeoVideo",
    "deleteVimeoVideo",
    "getVimeoVideoStatus",
    "verifyVimeoToken",
    "revokeVimeoToken",
    "listVimeoVersions",
    "getVimeoVersion",
    "listVimeoPictures",
    "getVimeoPicture",
    "deleteVimeoPicture",
    "listVimeoTextTracks",
    "getVimeoTextTrack",
    "deleteVimeoTextTrack",
}


def places(world, name, path, actor, state, begun_by_actor):
    """Values of the path parameters, and required query parameters."""
    if "{uploadId}" in path:
        key = world.credentials[actor] if begun_by_actor else world.owner
        upload, key = world.multipart(key)
        return {"uploadId": upload, "partNumber": "1"}, {"key": key}
    if "{media}" in path:
        return {"media": world.video}, {}
    if path.startswith(("/users/", "/videos/")):
        return dict.fromkeys(("video", "ticket", "item"), "217340000123456") | {"user": "1"}, {}
    if "{link}" in path:
        video = world.vimeo.create(3, "post" if name == "postVimeoForm" else "streaming")
        made = video["upload"]["upload_link"]
        if name in ("putVimeoPicture", "putVimeoTextTrack"):
            collection = path.split("/")[2]
            made = world.vimeo("POST", f"{video['uri']}/{collection}", json={"type": "captions"}).json()["link"]
        link = path_of(made).rsplit("/", 1)[1]
        return {"link": link if ACTORS[actor].kind == "url" else "0-1.x"}, {}
    if "{key}" in path:
        made = world.api.post("/v1/keys", {"name": "made", "scopes": ["read"]}).json()
        return {"key": made["id"]}, {}
    if "{kind}" in path:
        return {"kind": "subjects", "name": OWNER}, {}
    if "{upload}" in path or path.startswith("/v1/uploads/"):
        upload = world.upload(state or "open")
        token = path_of(upload["url"]).rsplit("/", 1)[1]
        if ACTORS[actor].kind != "url":
            # The id alone is not a credential.
            token = f"{upload['id']}.{base64.urlsafe_b64encode(bytes(16)).decode()[:22]}"
        return {"upload": token, "id": token if ACTORS[actor].kind == "url" else upload["id"]}, {}
    if name == "deleteMedia":
        return {"id": world.upload("complete")["id"]}, {}
    query = {}
    if ACTORS[actor].kind == "link" and path.startswith("/media/"):
        link = world.api.post(f"/v1/media/{world.media}/links", {}).json()["url"]
        query = dict(pair.split("=", 1) for pair in link.partition("?")[2].split("&"))
    return {"id": world.media}, query


@pytest.mark.parametrize(
    ("name", "actor", "state", "begun_by_actor"),
    CASES,
    ids=["-".join(str(part) for part in case if part) for case in CASES],
)
def test_access_to_each_operation_matches_the_document(world, name, actor, state, begun_by_actor):
    method, path, access = OPERATIONS[name]
    expected = is_allowed(access, ACTORS[actor], state, begun_by_actor)
    values, query = places(world, name, path, actor, state, begun_by_actor)
    for parameter, value in values.items():
        path = path.replace("{" + parameter + "}", value)
    answer = world.api.request(
        method,
        path,
        key=world.credentials[actor],
        params=query | QUERY.get(name, {}),
        json=JSON.get(name),
        data=b"abc" if name in CONTENT else None,
        headers=CONTENT.get(name) or FIELDS.get(name),
        stream=True,
    )
    with answer:
        status = answer.status_code
        text = answer.text if status >= 400 else ""
    assert (status not in (401, 403, 404)) == expected, f"{status} {text}"
    assert status < 500, f"{status} {text}"
    if not expected and actor in STRANGERS and "url" not in access:
        assert status == 401, f"{status} {text}"


def test_the_matrix_is_complete():
    """OpenAPITests of the unit tests compares document and router, so every served operation is covered here."""
    described = set(JSON) | set(CONTENT) | set(FIELDS) | set(QUERY) | BARE
    assert set(OPERATIONS) == described, "tell in this file what a request for these operations is"
    assert [name for name, (_, _, access) in OPERATIONS.items() if not access] == [], "they need x-access"
    assert len(CASES) >= 400
