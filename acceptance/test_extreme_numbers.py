"""Numbers at the ends of 64 bits, wherever a client or a receiver states one: they never end the gateway.

Sums of two numbers that a client has stated do not fit, and Swift ends the process for a sum that does not fit.
"""

import itertools
from urllib.parse import urlsplit

import pytest

from harness.api import API, path_of
from harness.daemon import free_port
from harness.http_server import LocalServer
from harness.object_client import BUCKET, ObjectServer
from harness.ugc import VodJS, own_signature, signer
from harness.vimeo import Plain, token
from harness.wire import Closed, Wire, until

MOST = (1 << 63) - 1
EDGES = [MOST, MOST - 1, MOST - 4, 1 << 62, (1 << 62) + 1, 1 << 63, (1 << 64) - 1, -1, -(1 << 63)]
DRAFT = [("Upload-Draft-Interop-Version", "6")]
DEFERRED = {"Upload-Defer-Length": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("numbers") / "data", free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def api(server):
    return API(server.url, server.admin_key)


def address(url):
    return urlsplit(url).hostname, urlsplit(url).port


def status(at, method, target, fields, content=b"abc"):
    """Of the first response; 0 if there is none, for example because more content is announced than comes."""
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {at[0]}:{at[1]}",
        *(f"{name}: {value}" for name, value in fields),
        "",
        "",
    ]
    try:
        with Wire(at, timeout=0.5) as wire:
            wire.send("\r\n".join(lines).encode() + content)
            return wire.reply(method).status
    except (Closed, TimeoutError, ConnectionError):
        return 0


def check(server, found, allowed=range(400, 500)):
    assert found == 0 or found in allowed, found
    assert server.process.poll() is None, "the gateway ended"
    assert API(server.url).get("/healthz").status_code == 200


def authorised(server):
    return [("Authorization", f"Bearer {server.admin_key}")]


@pytest.mark.parametrize("number", EDGES)
def test_tus(server, api, number):
    tus = [("Tus-Resumable", "1.0.0")]
    bytes_ = [*tus, ("Content-Type", "application/offset+octet-stream")]
    at = address(server.url)
    check(server, status(at, "POST", "/files", [*authorised(server), *tus, ("Upload-Length", number)], b""))
    for url in (path_of(api.created(10)), path_of(api.created(None, headers=DEFERRED))):
        for offset, count in itertools.product((0, number), (3, number)):
            fields = [*bytes_, ("Upload-Offset", offset), ("Content-Length", count)]
            found = status(at, "PATCH", url, fields)
            check(server, found, {204, *range(400, 500)})
        fields = [*bytes_, ("Upload-Offset", 3), ("Upload-Length", number), ("Content-Length", number)]
        check(server, status(at, "PATCH", url, fields))


@pytest.mark.parametrize("number", EDGES)
def test_resumable_http(server, api, number):
    at = address(server.url)
    for complete in ("?0", "?1"):
        fields = [*authorised(server), *DRAFT, ("Upload-Complete", complete), ("Upload-Length", number)]
        check(server, status(at, "POST", "/files", [*fields, ("Content-Length", number)]), {104, 201, *range(400, 500)})
        check(server, status(at, "POST", "/files", [*fields, ("Content-Length", 3)]), {104, 201, *range(400, 500)})
        url = path_of(api.created(None, headers=DEFERRED))
        for offset, count in ((0, number), (number, 3), (number, number)):
            fields = [*DRAFT, ("Upload-Complete", complete), ("Upload-Offset", offset), ("Content-Length", count)]
            fields += [("Content-Type", "application/partial-upload")]
            check(server, status(at, "PATCH", url, fields))


RANGES = [
    "bytes 0-{0}/{0}", "bytes 0-{0}/*", "bytes {0}-{0}/{0}", "bytes {0}-{0}/*", "bytes 3-{0}/{0}", "bytes 3-10/{0}",
    "bytes 0-9/{0}", "bytes */{0}", "bytes 3-{0}/10", "bytes 3-5/*", "bytes: 0-{0}/{0}", "bytes 0-{0}.0/{0}.0",
]  # fmt: skip


@pytest.mark.parametrize("number", EDGES)
def test_vimeo(server, number):
    vimeo = Plain(server, token(server))
    at = address(server.url)
    for approach in ("tus", "post", "streaming", "pull"):
        upload = {"approach": approach, "size": number, "link": "http://127.0.0.1:9/x", "redirect_url": "http://x/"}
        assert vimeo("POST", "/me/videos", json={"upload": upload}).status_code < 500
    assert vimeo("GET", f"/me/videos?page={number}&per_page={number}").status_code < 500
    links = [vimeo.create(10, "streaming")["upload"]["upload_link"]]
    links.append(vimeo.create(10, "post")["upload"]["upload_link"])
    links.append(vimeo.ticket()["upload_link_secure"])
    video = vimeo.create(10, "streaming")
    links.append(vimeo("POST", f"{video['uri']}/pictures", json={}).json()["link"])
    for link in links:
        target = path_of(link)
        status(at, "PUT", target, [("Content-Range", "bytes 0-3/10"), ("Content-Length", 3)])
        for text, count in itertools.product(RANGES, (3, number)):
            fields = [("Content-Range", text.format(number)), ("Content-Length", count)]
            found = status(at, "PUT", target, fields)
            check(server, found, {200, 201, 308, *range(400, 500)})
        check(server, status(at, "PUT", target, [("Content-Length", number)]), {200, 201, 308, *range(400, 500)})
    target = path_of(vimeo.create(10, "tus")["upload"]["upload_link"])
    for offset, count in ((0, number), (number, 3), (number, number)):
        fields = [("Tus-Resumable", "1.0.0"), ("Content-Type", "application/offset+octet-stream")]
        fields += [("Upload-Offset", offset), ("Content-Length", count)]
        check(server, status(at, "PATCH", target, fields))


@pytest.mark.parametrize("number", EDGES)
def test_objects(server, number):
    """Requests that are signed with long-lived URLs, so that the other fields can be chosen."""
    at = address(server.object_url)
    client = server.client()

    def target(call, **parameters):
        url = client.generate_presigned_url(call, Params={"Bucket": BUCKET, **parameters})
        parts = urlsplit(url)
        return f"{parts.path}?{parts.query}"

    put = target("put_object", Key="n")
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="m")["UploadId"]
    part = target("upload_part", Key="m", UploadId=upload, PartNumber=1)
    for one in (put, part):
        check(server, status(at, "PUT", one, [("Content-Length", number)]))
        chunked = [("x-amz-decoded-content-length", number), ("Content-Encoding", "aws-chunked")]
        chunked += [("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")]
        for count in (3, number):
            check(server, status(at, "PUT", one, [*chunked, ("Content-Length", count)]))
        size = f"{number & MOST:x}\r\n".encode()
        check(server, status(at, "PUT", one, [("Transfer-Encoding", "chunked")], size + b"abc"))
    client.put_object(Bucket=BUCKET, Key="g", Body=b"0123456789")
    get = target("get_object", Key="g")
    for text in (f"bytes={number}-", f"bytes=0-{number}", f"bytes=-{number}", f"bytes={number}-{number}"):
        check(server, status(at, "GET", get, [("Range", text)], b""), {200, 206, 416, 400})
    pair = server.pair()
    for name in ("max-keys", "max-parts", "part-number-marker", "max-uploads", "partNumber", "position"):
        for path in (f"/{BUCKET}", f"/{BUCKET}/g"):
            found = status(at, "GET", f"{path}?{name}={number}&x-cos-test=1", [], b"")
            check(server, found)
    for field in (f"q-key-time={number};{number}", f"q-sign-time=0;{number}&q-key-time=0;{number}"):
        query = f"q-sign-algorithm=sha1&q-ak={pair[0]}&q-header-list=&q-url-param-list=&q-signature={'0' * 40}&{field}"
        check(server, status(at, "GET", f"/{BUCKET}/g?{query}", [], b""))
    for query in (f"Expires={number}&OSSAccessKeyId={pair[0]}&Signature=AAAA", f"X-Amz-Expires={number}"):
        check(server, status(at, "GET", f"/{BUCKET}/g?{query}", [], b""))


@pytest.mark.parametrize("number", EDGES)
def test_calls(server, api, number):
    at = address(server.url)
    for body in ({"currentTimeStamp": number}, {"expireTime": number}, {"expiresIn": number}):
        assert api.post("/v1/tencent/signatures", body).status_code in {201, 422}
    pair = server.pair()
    signed = own_signature(pair, currentTimeStamp=number, expireTime=number)
    found = api.post("/v3/index.php?Action=ApplyUploadUGC", {"signature": signed, "videoSize": number})
    assert found.status_code == 200 and found.json()["code"] != 0
    for field in ("X-TC-Timestamp", "Date", "x-acs-date"):
        fields = [(field, number), ("Content-Length", 2), ("X-TC-Action", "DescribeMediaInfos"), ("X-TC-Version", "x")]
        fields += [
            (
                "Authorization",
                "TC3-HMAC-SHA256 Credential=a/2026-01-01/vod/tc3_request, SignedHeaders=host, Signature=00",
            )
        ]
        check(server, status(at, "POST", "/", fields, b"{}"), {200, *range(400, 500)})
    for body in (
        {"length": number},
        {"length": 5, "expiresIn": number},
    ):
        assert api.post("/v1/tus/uploads", body).status_code in {201, 400, 413, 422}
    for query in (f"limit={number}", f"cursor={number}", f"after={number}"):
        assert api.get(f"/v1/uploads?{query}").status_code in {200, 400, 422}
    for last in (number, f"{number}-{number}"):
        fields = [*authorised(server), ("Last-Event-ID", last)]
        check(server, status(at, "GET", "/v1/events", fields, b""), {200, 204, *range(400, 500)})


@pytest.mark.parametrize("wait", ["nan", "-nan", "inf", "-inf", "1e999", str(MOST), "9" * 40, "-5", "0x1p3"])
@pytest.mark.parametrize("kind", ["tencent", "hooks"])
def test_receivers(tmp_path, wait, kind):
    """What a receiver of events asks for."""
    seen = []

    def refuse(request):
        seen.append(request.content())
        request.respond(503, Retry_After=wait)

    with LocalServer(refuse) as receiver:
        environment = {
            "tencent": {"SLUICE_TENCENT_EVENTS": "push", "SLUICE_TENCENT_CALLBACK_URL": receiver.url + "/"},
            "hooks": {"SLUICE_HOOKS_URL": receiver.url + "/", "SLUICE_HOOKS_EVENTS": "post-finish"},
        }[kind]
        with ObjectServer(tmp_path / "data", free_port(), environment=environment) as server:
            api = API(server.url, server.admin_key)
            if kind == "hooks":
                api.uploaded(b"abc")
            else:
                VodJS(server, signer(server)).upload(b"abc")
            until(lambda: seen)
            assert api.get("/healthz").status_code == 200
            # What the answer says is used a moment later.
            assert api.uploaded(b"more")
            assert server.process.poll() is None
