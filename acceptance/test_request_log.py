"""The line of the log for a request: each dialect names itself, what the request was about, and who sent it."""

import hashlib
import json
import re
from types import SimpleNamespace

import pytest
import requests

from harness import object_client, vimeo
from harness.aliyun_vod import Plain as Aliyun
from harness.api import API, OFFSET_TYPE, TUS, upload_id
from harness.daemon import free_port
from harness.object_client import BUCKET, ROLE, ObjectServer
from harness.ugc import announced
from harness.ugc import signer as ugc_signer
from harness.vod_api import SDK, own_pair

UPLOAD = re.compile("[0-9a-z]{26}")
# The client, as a trusted proxy names it.
CLIENT = {"X-Forwarded-For": "192.0.2.7"}
TYPES = {"status": int, "in": int, "out": int, "ms": (int, float)}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    settings = {
        "SLUICE_LOG_LEVEL": "debug",
        "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
        "SLUICE_OBJECT_BUCKETS": BUCKET,
    }
    with ObjectServer(tmp_path_factory.mktemp("server") / "data", free_port(), settings) as server:
        api = API(server.url, server.admin_key)
        token = api.post("/v1/tus/tokens", {"subject": "dora", "objects": True}).json()["token"]
        yield SimpleNamespace(
            server=server,
            api=api,
            token=token,
            bearer={"Authorization": f"Bearer {token}"},
            key="key_" + hashlib.sha256(server.admin_key.encode()).digest()[:8].hex(),
        )


def lines(world):
    found = [json.loads(line) for line in world.server.whole_log().splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == "request" and line.get("route") != "/healthz"]


def send(world, method, path, body=b"", **fields):
    headers = world.bearer | CLIENT | {name.replace("_", "-"): value for name, value in fields.items()}
    return requests.request(method, world.server.url + path, data=body, headers=headers, timeout=30)


def presigned(world, format):
    wanted = {"subject": "dora", "bucket": BUCKET, "key": f"dora/{format}", "method": "PUT", "format": format}
    answer = world.api.post("/v1/presigned-urls", wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()


def put_presigned(world, format):
    made = presigned(world, format)
    headers = dict(made.get("headers") or {}) | CLIENT
    answer = requests.put(made["url"], data=b"hello", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text


def tus(world):
    answer = send(world, "POST", "/files", b"hello", **TUS, Upload_Length="5", Content_Type=OFFSET_TYPE)
    assert answer.status_code == 201, answer.text
    return {"upload": upload_id(answer.headers["Location"]), "media": upload_id(answer.headers["Location"])}


def half(world):
    answer = send(world, "POST", "/files", b"hel", **TUS, Upload_Length="5", Content_Type=OFFSET_TYPE)
    return {"upload": upload_id(answer.headers["Location"])}


def draft(world):
    answer = send(world, "POST", "/files", b"hello", Upload_Draft_Interop_Version="8", Upload_Complete="?1")
    assert answer.status_code == 201, answer.text
    return {"upload": answer.json()["id"], "media": answer.json()["id"]}


def plain(world):
    answer = send(world, "PUT", "/v1/media/name", b"hello")
    assert answer.status_code == 201, answer.text
    return {"upload": answer.json()["id"], "media": answer.json()["id"]}


def form(world):
    headers = world.bearer | CLIENT
    files = {"file": ("name", b"hello")}
    answer = requests.post(world.server.url + "/v1/media", files=files, headers=headers, timeout=30)
    assert answer.status_code == 201, answer.text


def companion(world):
    answer = send(world, "POST", "/s3/multipart", b'{"filename": "f", "type": "a/b"}', Content_Type="application/json")
    assert answer.status_code == 200, answer.text
    return {"upload": answer.json()["uploadId"]}


def assume_role(world):
    pair = world.server.pair()
    sts = object_client.client(world.server.object_url, pair, "sts")
    sts.assume_role(RoleArn=ROLE, RoleSessionName="dora")


def ugc(world):
    call = {"signature": ugc_signer(world.server)()} | announced(5)
    answer = send(world, "POST", "/v3/index.php?Action=ApplyUploadUGC", json.dumps(call).encode())
    assert answer.json()["code"] == 0, answer.text


def tencent(world):
    SDK(world.server, own_pair(world.server))("ApplyUpload", MediaType="mp4")


def aliyun(world):
    begun = Aliyun(world.server)("CreateUploadVideo", Title="t", FileName="t.mp4")
    return {"media": begun["VideoId"]}


def video(world):
    token = world.api.post("/v1/vimeo/tokens", {"subject": "dora"}).json()["access_token"]
    made = vimeo.Plain(world.server, token).create(5)
    return {"media": made["uri"].rsplit("/", 1)[1], "upload": vimeo.upload_of(world.server, made["uri"])["id"]}


def download(world):
    media = plain(world)["media"]
    assert send(world, "GET", f"/v1/media/{media}", Authorization=f"Bearer {world.api.key}").status_code == 200
    return {"upload": media, "media": media}


USER = {"key": ..., "subject": "dora"}
KEY = {"key": ..., "subject": None}
HALF = {"media": None}
ALL = {"upload": UPLOAD, "media": UPLOAD}
# What is sent; dialect, route, status and bytes of the content; what else the line has, `None` for nothing.
ROWS = {
    "tus": (tus, "tus", "/files", 201, 5, USER | ALL),
    "incomplete": (half, "tus", "/files", 201, 3, USER | ALL | HALF),
    "draft": (draft, "http", "/files", 201, 5, USER | ALL),
    "plain": (plain, "http", "/v1/media/{id}", 201, 5, USER | ALL),
    "form": (form, "form", "/v1/media", 201, ..., USER | ALL),
    "s3": (lambda world: put_presigned(world, "aws"), "s3", "PutObject", 200, 5, USER | ALL),
    "oss": (lambda world: put_presigned(world, "aliyun"), "oss", "PutObject", 200, 5, USER | ALL),
    "cos": (lambda world: put_presigned(world, "tencent"), "cos", "PutObject", 200, 5, USER | ALL),
    "sts": (assume_role, "sts", "STS", 200, ..., USER | {"upload": None, "media": None, "client": None}),
    "ugc": (ugc, "tencent", "/v3/index.php", 200, ..., USER | {"media": re.compile("[1-9][0-9]{18}")}),
    "tencent": (tencent, "tencent", "/", 200, ..., {"media": re.compile("[1-9][0-9]{18}"), "client": None}),
    "aliyun": (aliyun, "aliyun", "/", 200, ..., KEY | {"media": re.compile("[0-9a-f]{32}"), "client": None}),
    "vimeo": (video, "vimeo", "/me/{collection}", 200, ..., USER | {"client": None, "upload": UPLOAD}),
    "companion": (companion, "companion", "/s3/multipart", 200, ..., USER | ALL | HALF),
    "management": (download, "management", "/v1/media/{id}", 200, 0, KEY | ALL),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_line_of_each_dialect(world, name):
    act, dialect, route, status, received, more = ROWS[name]
    before = len(lines(world))
    known = act(world) or {}
    found = [line for line in lines(world)[before:] if (line.get("dialect"), line["route"]) == (dialect, route)]
    assert found, (dialect, route, lines(world)[before:])
    line = found[-1]
    expected = {"client": CLIENT["X-Forwarded-For"]} | more | known
    if expected.get("key") is ...:
        expected["key"] = world.key
    for field, value in expected.items():
        if isinstance(value, re.Pattern):
            assert value.fullmatch(line[field]), (field, line)
        else:
            assert line.get(field) == value, (field, line)
    assert (line["status"], line["level"], line["peer"]) == (status, "info", "127.0.0.1"), line
    assert received is ... or line["in"] == received, line
    assert line["method"] in ("GET", "POST", "PUT") and line["request"], line
    for field, value in line.items():
        kind = TYPES.get(field, str)
        assert isinstance(value, kind) and not isinstance(value, bool), (field, line)


def test_the_end_of_an_upload_has_its_media(world):
    """Of a request that completes it, and not of one that does not."""
    url = world.api.created(5)
    before = len(lines(world))
    assert [world.api.patch(url, at, body).status_code for at, body in ((0, b"hel"), (3, b"lo"))] == [204] * 2
    first, last = lines(world)[before:]
    assert (first["upload"], first.get("media")) == (upload_id(url), None)
    assert (last["upload"], last["media"]) == (upload_id(url), upload_id(url))


def test_refusals_have_their_code(world):
    """Also those of SDKs that want status 200 for everything."""
    before = len(lines(world))
    send(world, "POST", "/v3/index.php?Action=ApplyUploadUGC", b'{"signature": "x"}')
    requests.get(world.server.url + "/me", timeout=30)
    requests.post(world.server.url + "/files", headers=TUS | {"Upload-Length": "1"}, timeout=30)
    requests.put(f"{world.server.object_url}/{BUCKET}/k", data=b"", timeout=30)
    requests.get(world.server.url + "/v1/uploads", timeout=30)
    requests.get(world.server.url + "/nothing/here", timeout=30)
    found = [(line.get("dialect"), line["status"], line.get("code")) for line in lines(world)[before:]]
    assert [one[0] for one in found] == ["tencent", "vimeo", "tus", "s3", "management", None]
    assert found[0][1:] == (200, "10004") and found[1][1:] == (401, "8003")
    assert found[2][1:] == (401, "ERR_UNAUTHENTICATED") and found[3][1:] == (403, "AccessDenied")
    assert found[4][1:] == (401, "unauthenticated") and found[5][1:] == (404, "not_found")


def test_without_debug_nobody_is_named(make_server):
    """Fields of the request stay, and cost nothing else."""
    with make_server() as server:
        identifier = API(server.url, server.admin_key).uploaded(b"hello")
        (line,) = [
            json.loads(line) for line in server.whole_log().splitlines() if '"PATCH"' in line and line.startswith("{")
        ]
        assert (line["dialect"], line["upload"], line["media"]) == ("tus", identifier, identifier)
        assert "key" not in line and "subject" not in line
