"""What minted credentials can really do: each is used for what its key may not do itself."""

import base64
import itertools
import json

import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness.aliyun_vod import Plain as ApsaraVOD
from harness.api import API
from harness.object_client import BUCKET, REGION
from harness.openapi import DOCUMENT
from harness.ugc import own_signature
from harness.vimeo import Plain as Vimeo
from harness.vimeo import basic
from harness.vimeo import token as vimeo_token

# Ten thousands of requests: one connection, and no look at the environment each time.
HTTP = requests.Session()
HTTP.trust_env = False

OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation.get("x-access") or {})
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if isinstance(operation, dict) and "operationId" in operation
}
MINTING = {name for name, (_, _, access) in OPERATIONS.items() if access.get("mints")}

# What can be done to what somebody else began, and the operation by which a key does it itself.
DEEDS = {
    "read": "downloadMedia",
    "list": "listUploads",
    "edit": "editMedia",
    "delete": "deleteMedia",
    "abort": "deleteUpload",
}
OWNER, OTHER = "anna", "bert"
SCOPES = ("mint", "upload", "read", "delete")
LIMITS = {
    "all": {},
    "subject": {"subjects": [OTHER]},
    "subjects": {"subjects": ["b*"]},
    "bucket": {"buckets": [BUCKET]},
    "prefix": {"buckets": [BUCKET], "prefixes": ["bert/"]},
    "elsewhere": {"buckets": ["elsewhere"]},
}
KEYS = [(("admin",), "all")] + [
    (scopes, limit)
    for count in range(1, len(SCOPES) + 1)
    for scopes in itertools.combinations(SCOPES, count)
    for limit in LIMITS
]


def name_of(key):
    return "+".join(key[0]) + "-" + key[1]


class Resource:
    """Something that another one began, for `OWNER`; with a bucket it is an object."""

    def __init__(self, bucket=None, key=None):
        self.bucket, self.key = bucket, key


MEDIA, OBJECT = Resource(), Resource(BUCKET, "anna/o")


def can(key, deed, resource):
    """Whether a key may do it itself."""
    scopes, limit = key
    needed = OPERATIONS[DEEDS[deed]][2]["key"]
    limits = LIMITS[limit]
    if "admin" not in scopes and needed not in scopes:
        return False
    if "subjects" in limits:
        return False
    if "buckets" not in limits:
        return True
    prefixes = limits.get("prefixes", [""])
    return resource.bucket in limits["buckets"] and any(resource.key.startswith(prefix) for prefix in prefixes)


class Key:
    def __init__(self, world, key):
        self.scopes, self.limit = self.name = key
        body = {"name": name_of(key), "scopes": list(self.scopes)} | LIMITS[self.limit]
        made = world.admin.post("/v1/keys", body)
        assert made.status_code == 201, made.text
        self.id, self.secret = made.json()["id"], made.json()["secret"]
        self.api = API(world.server.url, self.secret)
        self.pair = world.server.pair(self.id)


class World:
    """The server, and what there is to be touched."""

    def __init__(self, server):
        self.server = server
        self.admin = API(server.url, server.admin_key)
        self.keys = {}
        self.owner = Vimeo(server, vimeo_token(server, OWNER))
        self.store = Store(server.object_url, server.pair())
        self.restore()

    def key(self, key):
        name = name_of(key)
        if name not in self.keys:
            self.keys[name] = Key(self, key)
        return self.keys[name]

    def picture_of(self, video):
        """The uri of a complete picture."""
        made = self.owner("POST", f"{video}/pictures").json()
        assert HTTP.put(made["link"], data=b"picture", timeout=60).status_code == 200
        return made["uri"]

    def restore(self):
        """Creates again what was deleted."""
        self.media = self.admin.post("/v1/tus/uploads", {"length": 0, "subject": OWNER}).json()["id"]
        signed = self.admin.post("/v1/presigned-urls", {"subject": OWNER, "bucket": BUCKET, "key": OBJECT.key}).json()
        assert HTTP.put(signed["url"], data=b"anna's", timeout=60).status_code == 200
        self.multipart = self.store.begin(BUCKET, OBJECT.key)
        self.video = self.owner.create(0)["uri"]
        self.picture = self.picture_of(self.video)
        self.apsara = self.admin.post(
            "/v1/aliyun/uploads", {"title": "t", "fileName": "t.mp4", "subject": OWNER}
        ).json()["VideoId"]


class Store:
    """Requests to the object endpoint, signed by version 4."""

    def __init__(self, url, pair, token=None):
        self.url = url
        self.credentials = Credentials(*pair, token)

    def __call__(self, method, path, data=b""):
        request = AWSRequest(method, self.url + path, data=data)
        S3SigV4Auth(self.credentials, "s3", REGION).add_auth(request)
        prepared = request.prepare()
        return HTTP.request(method, prepared.url, data=data, headers=dict(prepared.headers), timeout=60)

    def begin(self, bucket, key):
        answer = self("POST", f"/{bucket}/{key}?uploads=")
        assert answer.status_code == 200, answer.text
        return answer.text.partition("<UploadId>")[2].partition("<")[0]

    def deeds(self, world):
        """What of all deeds these credentials did to `OBJECT`."""
        done = set()
        path = f"/{BUCKET}/{OBJECT.key}"
        if self("GET", path).status_code == 200:
            done.add("read")
        copied = AWSRequest("PUT", f"{self.url}/{BUCKET}/bert/copy", headers={"x-amz-copy-source": path})
        S3SigV4Auth(self.credentials, "s3", REGION).add_auth(copied)
        if HTTP.put(copied.url, headers=dict(copied.prepare().headers), timeout=60).status_code == 200:
            done.add("read")
        for query in ("", "?list-type=2&prefix=anna%2F"):
            listed = self("GET", f"/{BUCKET}{query}")
            if listed.status_code == 200 and OBJECT.key in listed.text:
                done.add("list")
        for query in ("?uploads=", "?uploads=&prefix=anna%2F", f"?uploads=&prefix={OBJECT.key.replace('/', '%2F')}"):
            listed = self("GET", f"/{BUCKET}{query}")
            if listed.status_code == 200 and world.multipart in listed.text:
                done.add("list")
        if self("GET", f"{path}?uploadId={world.multipart}").status_code == 200:
            done.add("list")
        if self("DELETE", f"{path}?uploadId={world.multipart}").status_code == 204:
            done.add("abort")
        self("DELETE", path)
        if world.store("HEAD", path).status_code == 404:
            done.add("delete")
        if done & {"abort", "delete"}:
            world.restore()
        return done


def bearer_deeds(world, credential):
    """What a bearer token did to `MEDIA` by the gateway's own API."""
    api = API(world.server.url, credential)
    done = set()
    if api.get(f"/media/{world.media}").status_code == 200 or api.get(f"/v1/media/{world.media}").status_code == 200:
        done.add("read")
    if (
        api.get("/v1/uploads", params={"subject": OWNER}).status_code == 200
        or api.get("/v1/uploads").status_code == 200
    ):
        done.add("list")
    if api.request("PATCH", f"/v1/media/{world.media}", json={"metadata": {"a": "b"}}).status_code < 300:
        done.add("edit")
    api.delete(f"/v1/media/{world.media}")
    if world.admin.get(f"/v1/media/{world.media}").status_code != 200:
        done.add("delete")
        world.restore()
    return done


def vimeo_deeds(world, token):
    """What an access token of Vimeo's API did to the video of another token."""
    api = Vimeo(world.server, token)
    video = world.video
    done = set()
    for path in ("/me/videos?per_page=100", f"{api('GET', '/me').json().get('uri', '/users/1')}/videos?per_page=100"):
        listed = api("GET", path)
        if listed.status_code == 200 and f'"{video}"' in listed.text.replace("\\/", "/"):
            done.add("list")
    for path in ("", "/status", "/versions", "/pictures", "/texttracks"):
        if api("GET", video + path).status_code == 200:
            done.add("read")
    document = api("PATCH", video, json={"name": "changed"})
    if document.status_code == 200:
        done.add("edit")
        if "files" in document.json():
            done.add("read")
    upload = {"file_name": "a", "upload": {"approach": "tus", "size": 1}}
    for path, body in (("/versions", upload), ("/pictures", {}), ("/texttracks", {"type": "captions"})):
        if api("POST", video + path, json=body).status_code < 300:
            done.add("edit")
    if api("PUT", video + "/files", json={"type": "streaming"}).status_code < 300:
        done.add("edit")
    for uri in (world.picture, video):
        if api("DELETE", uri).status_code == 204:
            done.add("delete")
            world.restore()
    return done


# Routes: each yields, for each way of asking, what was done and to what.


def tus_tokens(world, key):
    for subject in (OWNER, OTHER):
        made = key.api.post("/v1/tus/tokens", {"subject": subject, "objects": True})
        if made.status_code != 201:
            continue
        token = made.json()["token"]
        yield subject, bearer_deeds(world, token), MEDIA
        yield from companion_sts(world, API(world.server.url, token), subject)


def companion_sts(world, api, subject=None):
    found = api.get("/s3/sts")
    if found.status_code == 200:
        given = found.json()["credentials"]
        pair = (given["AccessKeyId"], given["SecretAccessKey"])
        yield f"sts {subject}", Store(world.server.object_url, pair, given["SessionToken"]).deeds(world), OBJECT


def upload_urls(world, key):
    for subject in (OWNER, OTHER):
        made = key.api.post("/v1/tus/uploads", {"length": 1, "subject": subject})
        if made.status_code == 201:
            yield subject, bearer_deeds(world, made.json()["url"].rsplit("/", 1)[1]), MEDIA


def vimeo_tokens(world, key):
    wanted = [{}] + [{"scopes": [one]} for one in ("private", "video_files", "edit", "delete", "upload", "stats")]
    for body in wanted:
        made = key.api.post("/v1/vimeo/tokens", {"subject": OWNER} | body)
        if made.status_code == 201:
            yield str(body), vimeo_deeds(world, made.json()["access_token"]), MEDIA


def vimeo_codes(world, key):
    made = key.api.post("/v1/vimeo/tokens", {"subject": OWNER, "code": True})
    if made.status_code == 201:
        form = {"grant_type": "authorization_code", "code": made.json()["code"]}
        token = Vimeo(world.server)("POST", "/oauth/access_token", data=form, headers=basic(key.id, key.secret))
        yield "code", vimeo_deeds(world, token.json()["access_token"]), MEDIA


def vimeo_clients(world, key):
    for scope in ("public", "private", "public private"):
        form = {"grant_type": "client_credentials", "scope": scope}
        made = Vimeo(world.server)("POST", "/oauth/authorize/client", data=form, headers=basic(key.id, key.secret))
        if made.status_code == 200:
            yield scope, vimeo_deeds(world, made.json()["access_token"]), MEDIA
    for path in ("/me/videos", world.video):
        seen = Vimeo(world.server)("GET", path, headers=basic(key.id, key.secret)).status_code == 200
        yield path, {"read"} if seen else set(), MEDIA


SESSION = ("AccessKeyId", "SecretAccessKey", "SessionToken")


def session_credentials(world, key):
    for subject, prefix in itertools.product((OWNER, OTHER), ("", "anna/", "bert/")):
        for actions in (["upload"], ["read"], ["delete"]):
            body = {"subject": subject, "bucket": BUCKET, "keyPrefix": prefix, "actions": actions}
            made = key.api.post("/v1/sts/tokens", body)
            if made.status_code == 201:
                access, secret, token = (made.json()["Credentials"][name] for name in SESSION)
                store = Store(world.server.object_url, (access, secret), token)
                yield f"{subject} {prefix} {actions}", store.deeds(world), OBJECT


def presigned_urls(world, key):
    for subject in (None, OWNER, OTHER):
        about = {"bucket": BUCKET, "key": OBJECT.key} | ({"subject": subject} if subject else {})
        for method, deed in (("GET", "read"), ("DELETE", "delete")):
            made = key.api.post("/v1/presigned-urls", about | {"method": method})
            if made.status_code == 201:
                done = HTTP.request(method, made.json()["url"], timeout=60).status_code < 300
                if done and deed == "delete":
                    world.restore()
                yield f"{subject} {method}", {deed} if done else set(), OBJECT
        made = key.api.post("/v1/presigned-urls", about | {"parts": [1], "uploadId": world.multipart})
        if made.status_code == 201:
            urls = made.json()
            done = set()
            if HTTP.get(urls["list"]["url"], timeout=60).status_code == 200:
                done.add("list")
            if HTTP.delete(urls["abort"]["url"], timeout=60).status_code == 204:
                done.add("abort")
                world.restore()
            yield f"{subject} parts", done, OBJECT


def media_links(world, key):
    stored = world.admin.get("/v1/uploads", params={"subject": OWNER, "limit": 200}).json()["uploads"]
    objects = [one["id"] for one in stored if one.get("key") == OBJECT.key and one["state"] == "completed"]
    for identifier, resource in [(world.media, MEDIA)] + [(one, OBJECT) for one in objects[:1]]:
        made = key.api.post(f"/v1/media/{identifier}/links", {})
        if made.status_code == 201:
            done = HTTP.get(made.json()["url"], timeout=60).status_code == 200
            yield identifier, {"read"} if done else set(), resource


def tencent(world, key):
    signatures = []
    for subject in (None, OWNER, OTHER):
        made = key.api.post("/v1/tencent/signatures", {"subject": subject} if subject else {})
        if made.status_code == 201:
            signatures.append(made.json()["signature"])
    # What a backend signs itself with the pair of its key.
    signatures += [own_signature(key.pair, **fields) for fields in ({}, {"sluiceSubject": OWNER})]
    for signature in signatures:
        body = {"signature": signature, "videoName": "v", "videoType": "mp4", "videoSize": 3}
        url = world.server.url + "/v3/index.php?Action=ApplyUploadUGC"
        applied = HTTP.post(url, json=body, timeout=60).json()
        if applied["code"] == 0:
            given = applied["data"]["tempCertificate"]
            pair = (given["secretId"], given["secretKey"])
            yield "certificate", Store(world.server.object_url, pair, given["token"]).deeds(world), OBJECT


def aliyun(world, key):
    for subject in (OWNER, OTHER):
        body = {"title": "t", "fileName": "t.mp4", "subject": subject}
        yield from upload_auth(world, key.api.post("/v1/aliyun/uploads", body), 201)
    yield from upload_auth(world, key.api.post(f"/v1/aliyun/uploads/{world.apsara}/refresh"), 200)
    for action, parameters in (
        ("CreateUploadVideo", {"Title": "t", "FileName": "t.mp4"}),
        ("RefreshUploadVideo", {"VideoId": world.apsara}),
    ):
        yield from upload_auth(world, ApsaraVOD(world.server, key.pair).answer(action, parameters), 200)


def upload_auth(world, answer, status):
    if answer.status_code == status:
        given = json.loads(base64.b64decode(answer.json()["UploadAuth"]))
        pair = (given["AccessKeyId"], given["AccessKeySecret"])
        store = Store(world.server.object_url, pair, given["SecurityToken"])
        yield "UploadAuth", store.deeds(world), OBJECT


def companion(world, key):
    yield from companion_sts(world, key.api)
    query = {"key": OBJECT.key}
    done = set()
    if key.api.get(f"/s3/multipart/{world.multipart}", params=query).status_code == 200:
        done.add("list")
    if key.api.delete(f"/s3/multipart/{world.multipart}", params=query).status_code == 200:
        done.add("abort")
        world.restore()
    yield "multipart", done, OBJECT


def assumed_roles(world, key):
    """The token services of the object endpoint, which have no operation in the document."""
    for name in (OWNER, OTHER):
        found = world.server.client(service="sts", pair=key.pair)
        try:
            given = found.assume_role(
                RoleArn="arn:aws:iam::123456789012:role/app", RoleSessionName=name, DurationSeconds=900
            )["Credentials"]
        except found.exceptions.ClientError:
            continue
        pair = (given["AccessKeyId"], given["SecretAccessKey"])
        yield name, Store(world.server.object_url, pair, given["SessionToken"]).deeds(world), OBJECT


# By operation; those that sign parts belong to what they continue.
ROUTES = {
    "createUploadToken": tus_tokens,
    "createTusUpload": upload_urls,
    "createVimeoToken": vimeo_tokens,
    "exchangeVimeoCode": vimeo_codes,
    "createVimeoClientToken": vimeo_clients,
    "createSessionCredentials": session_credentials,
    "createPresignedURLs": presigned_urls,
    "createMediaLink": media_links,
    "createTencentSignature": tencent,
    "callTencentUGC": tencent,
    "beginAliyunUpload": aliyun,
    "refreshAliyunUpload": aliyun,
    "callCloud": assumed_roles,
    "getCompanionCredentials": companion,
    "beginCompanionUpload": companion,
    "signCompanionPart": companion,
    "signCompanionParts": companion,
    "getCompanionParameters": companion,
}
