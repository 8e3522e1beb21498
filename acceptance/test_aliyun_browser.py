"""A page in a real browser uploads as VOD-JS does: another origin, expired credentials, killed and resumed."""

import hashlib
import json
from collections import Counter
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest

from harness.aliyun_client import IOS, VOD, App
from harness.aliyun_page import Site
from harness.browser import BROWSER, Browser, content
from harness.daemon import free_port
from harness.data import MIB
from harness.faulty_store import Hold
from harness.object_client import ObjectServer
from harness.vod_proxy import VODProxy
from harness.wire import until

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")

UPLOAD = "return await upload(video(given.size))"
# Ten parts.
SIZE = 9 * MIB + 5
NUMBERS = list(range(1, 11))


@pytest.fixture(scope="module")
def site():
    with Site() as site:
        yield site


def serving(folder, site, host="127.0.0.1", **settings):
    """A gateway behind a proxy for uploads, which has this name."""
    port = free_port()
    with VODProxy(port) as proxy:
        settings = {
            "SLUICE_OBJECT_PUBLIC_URL": f"http://{host}:{proxy.port}",
            "SLUICE_CORS_ORIGINS": site.url,
        } | settings
        with ObjectServer(folder / "data", port, settings) as server:
            yield SimpleNamespace(server=server, proxy=proxy, vod=VOD(server), s3=server.client(), site=site)


@pytest.fixture(scope="module")
def by_address(tmp_path_factory, site):
    yield from serving(tmp_path_factory.mktemp("address"), site)


@pytest.fixture(scope="module")
def by_name(tmp_path_factory, site):
    """The bucket is in the host."""
    yield from serving(tmp_path_factory.mktemp("name"), site, "localhost", SLUICE_OBJECT_DOMAINS="localhost")


@pytest.fixture(scope="module")
def hasty(tmp_path_factory, site):
    """Its credentials last for two seconds."""
    yield from serving(tmp_path_factory.mktemp("hasty"), site, SLUICE_ALIYUN_VOD_AUTH_LIFETIME="2s")


def prepared(world):
    world.proxy.clear()
    world.proxy.forget()
    world.app = world.site.app = App(world.server)
    world.site.wait = lambda body: None
    return world


@pytest.fixture
def world(by_address):
    return prepared(by_address)


@pytest.fixture
def short(hasty):
    """`/wait` lasts until the page's credentials have expired."""
    prepared(hasty)

    def wait(_):
        client = IOS(b"")
        client.address, client.auth = hasty.app.address, hasty.app.auth
        client.wait_for_expiry()

    hasty.site.wait = wait
    return hasty


def browse(world, profile, script=UPLOAD, **given):
    """What the page returns."""
    return world.site.run(script, given, profile)


def check(world, result, size):
    """The media is there, and it is the only one."""
    assert result["events"][-1] == "succeeded", result
    assert result["videoId"] == world.app.id
    video = world.vod("GetVideoInfo", VideoId=world.app.id).json()["Video"]
    assert (video["Status"], video["Size"]) == ("Normal", size)
    address = world.app.address
    body = world.s3.get_object(Bucket=address["Bucket"], Key=address["FileName"])["Body"].read()
    assert hashlib.sha256(body).digest() == hashlib.sha256(content(size)).digest()
    # The checkpoint is dropped.
    assert result["kept"] == 0


def number(request):
    """Of the part that a request of the page sends; `None` if it is no part."""
    query = dict(item.partition("=")[::2] for item in urlsplit(request["path"]).query.split("&"))
    return int(query["partNumber"]) if "partNumber" in query else None


def sent(result, status=200):
    """Numbers of the parts that the page sent with this status."""
    found = [number(request) for request in result["requests"] if request["status"] == status]
    return sorted(one for one in found if one is not None)


def preflights(world):
    """How many of each kind so far."""
    lines = [json.loads(line) for line in world.server.whole_log().splitlines() if '"method":"OPTIONS"' in line]
    return Counter((line["route"], line["status"]) for line in lines)


@pytest.mark.parametrize("where", ["by_address", "by_name"])
def test_a_video(request, where, tmp_path):
    world = prepared(request.getfixturevalue(where))
    result = browse(world, tmp_path, size=SIZE, userData='{"Vod":{}}')
    assert result["events"] == ["started", "succeeded"], result
    check(world, result, SIZE)
    address = world.app.address
    host, key = urlsplit(address["Endpoint"]).netloc, quote(address["FileName"])
    bucket = address["Bucket"]
    named = {"by_address": (host, f"/{bucket}/{key}"), "by_name": (f"{bucket}.{host}", f"/{key}")}[where]
    assert {(one["host"], urlsplit(one["path"]).path) for one in result["requests"]} == {named}
    assert [one["status"] for one in result["requests"]] == [200] * 12
    assert result["requests"][0]["path"].endswith("?uploads") and sent(result) == NUMBERS
    # The page has seen each ETag and each request id.
    assert [len(one["tag"]) for one in result["requests"] if number(one)] == [34] * 10
    assert all(one["id"] for one in result["requests"])
    # A preflight for each method and URL.
    asked = [call.headers for call in world.proxy.of("OPTIONS")]
    assert len(asked) == 12
    names = {name for headers in asked for name in headers["access-control-request-headers"].split(",")}
    assert names >= {
        "authorization",
        "content-md5",
        "content-type",
        "x-oss-date",
        "x-oss-notification",
        "x-oss-security-token",
        "x-oss-user-agent",
    }
    assert preflights(world)["Preflight", 200] >= 12


def test_a_small_file_in_one_request(world, tmp_path):
    result = browse(world, tmp_path, size=3000)
    assert [(one["method"], one["status"]) for one in result["requests"]] == [("PUT", 200)]
    check(world, result, 3000)


def test_credentials_that_expire_between_parts(short, tmp_path):
    """Five parts are refused at once; the page has other credentials, and sends only what is missing."""
    script = """
        let expiry
        const onPart = number => number > 3 ? expiry ??= post("/wait") : null
        return await upload(video(given.size), {onPart})
    """
    result = browse(short, tmp_path, script, size=SIZE)
    check(short, result, SIZE)
    # A busy machine may take longer than two seconds.
    assert result["events"][:2] == ["started", "expired"]
    assert short.app.refreshes == result["events"].count("expired")
    refused = [one for one in result["requests"] if one["status"] != 200]
    assert refused and {(one["status"], one["code"]) for one in refused} == {(403, "SecurityTokenExpired")}
    assert sent(result) == NUMBERS
    assert {1, 2, 3}.isdisjoint(sent(result, 403))
    assert short.proxy.count("CreateMultipartUpload") == short.proxy.count("CompleteMultipartUpload") == 1
    assert short.proxy.count("ListParts", status=200) == 0


@pytest.mark.parametrize("size", [SIZE, 3000], ids=["parts", "put"])
def test_credentials_that_expire_before_the_first_request(short, tmp_path, size):
    begin = short.app.begin

    def begin_late(**wanted):
        begun = begin(**wanted)
        short.site.wait(None)
        return begun

    short.app.begin = begin_late
    result = browse(short, tmp_path, size=size)
    check(short, result, size)
    assert result["events"][:2] == ["started", "expired"]
    assert (result["requests"][0]["status"], result["requests"][0]["code"]) == (403, "SecurityTokenExpired")


def test_credentials_that_expire_before_the_end(short, tmp_path):
    """The page would wait for ever if its last request were refused."""
    script = "return await upload(video(given.size), {onComplete: () => post('/wait')})"
    result = browse(short, tmp_path, script, size=SIZE)
    check(short, result, SIZE)
    assert [call.status for call in short.proxy.of("CompleteMultipartUpload")] == [200]


# Leaves after five parts have arrived, and comes back. It waits before each.
RELOAD = """
    const isBack = sessionStorage.getItem("left")
    if (isBack) await post("/wait")
    let count = 0
    const onUploadProgress = async number => {
        await post("/report", number)
        if (++count < 5) return
        await post("/wait")
        sessionStorage.setItem("left", "yes")
        location.reload()
    }
    return await upload(video(given.size), isBack ? {} : {onUploadProgress})
"""


def held(world):
    """The sixth part and those after it do not arrive."""
    hold = Hold(after_bytes=1000)
    world.proxy.fault("UploadPart", hold, first=6, times=99)
    return hold


def hold_until_it_is_back(world, then=lambda: None):
    """Parts are held until the page has left: otherwise it might end its upload first."""
    hold = held(world)

    def come_back(_):
        world.proxy.clear()
        then()

    def leave(_):
        assert hold.reached.wait(60)
        world.site.wait = come_back

    world.site.wait = leave


def test_a_page_goes_on_from_its_checkpoint(world, tmp_path):
    """It asks the app to refresh, and sends the parts that its checkpoint lacks, without asking which have arrived."""
    hold_until_it_is_back(world)
    result = browse(world, tmp_path, RELOAD, size=SIZE)
    assert result["events"] == ["resumed", "succeeded"], result
    assert world.app.refreshes == 1
    check(world, result, SIZE)
    known = sorted(world.site.reports)
    assert len(known) == 5 and sent(result) == [one for one in NUMBERS if one not in known]
    assert result["requests"][-1]["path"].endswith(world.proxy.of("CompleteMultipartUpload")[0].upload_id)
    assert world.proxy.count("CreateMultipartUpload") == 1 and world.proxy.count("ListParts") == 0


def test_a_checkpoint_of_an_upload_that_is_gone(world, tmp_path):
    """The page fails once, and forgets it; then it begins again."""

    def delete():
        assert world.vod("DeleteMultipartUpload", MediaId=world.app.id, MediaType="video").status_code == 200

    hold_until_it_is_back(world, delete)
    result = browse(world, tmp_path, RELOAD, size=SIZE)
    assert (result["events"], result["status"], result["code"]) == (["resumed", "failed"], 404, "NoSuchUpload"), result
    assert result["kept"] == 0
    prepared(world)
    result = browse(world, tmp_path, size=SIZE)
    assert result["events"] == ["started", "succeeded"]
    check(world, result, SIZE)


def test_a_killed_browser_begins_again(world, tmp_path):
    """The SDK does not trust the checkpoint of a page that did not end; the app gets other media."""
    script = "return await upload(video(given.size), {onUploadProgress: number => post('/report', number)})"
    hold = held(world)
    world.site.show(script, {"size": SIZE})
    with Browser(tmp_path, world.site.url) as browser:
        assert hold.reached.wait(120)
        until(lambda: browser.keeps('"uploadId"'), timeout=60, interval=0.1)
        browser.kill()
    first = world.app
    hold.release()
    prepared(world)
    result = browse(world, tmp_path, script, size=SIZE)
    assert result["events"] == ["started", "succeeded"], result
    check(world, result, SIZE)
    assert sorted(world.site.reports) == NUMBERS
    # What was left can be dropped.
    assert world.vod("GetVideoInfo", VideoId=first.id).json()["Video"]["Status"] == "Uploading"
    assert world.vod("DeleteMultipartUpload", MediaId=first.id, MediaType="video").status_code == 200


def test_a_page_reports_its_progress(world, tmp_path):
    """The SDK always does, with a signature that it has no key for."""
    script = """
        const begun = await post("/begin", {fileName: "a.mp4", fileSize: given.size})
        const now = new Date()
        const [Timestamp, SignatureNonce] = [now.toISOString().split(".")[0] + "Z", crypto.randomUUID()]
        const file = {FileName: "a.mp4", FileSize: given.size, FileCreateTime: 1, FileHash: "0".repeat(32)}
        const call = async (Action, more) => {
            const query = new URLSearchParams({
                Source: "WebSDK", BusinessType: "UploadVideo", Action, TerminalType: "H5", DeviceModel: "Chrome156",
                AppVersion: "1.5.0", AuthTimestamp: Math.floor(now / 1000), Timestamp, AuthInfo: "0".repeat(32),
                UserId: "1", ...more, Version: "2017-03-21", Format: "JSON", SignatureMethod: "HMAC-SHA1",
                SignatureVersion: "1.0", SignatureNonce, ClientId: "c",
            })
            query.set("Signature", await hmac("undefined&", query.toString()))
            const answer = await fetch(`${given.gateway}/?${query}`)
            return [answer.status, await answer.json()]
        }
        const asked = await call("GetUploadProgress", {UploadInfoList: JSON.stringify([file])})
        const reported = await call("ReportUploadProgress", {
            ...file, UploadId: "u", PartSize: PART, DonePartsCount: 1, UploadPoint: "{}", UploadRatio: 0.5,
            VideoId: begun.VideoId,
        })
        return {asked, reported}
    """
    result = browse(world, tmp_path, script, size=2 * MIB, gateway=world.server.url)
    assert [result["asked"][0], result["reported"][0]] == [200, 200], result
    details = world.vod("GetUploadDetails", MediaIds=world.app.id, MediaType="video").json()["UploadDetails"][0]
    assert (details["UploadRatio"], details["UploadSource"]) == (0.5, "WebSDK")


def test_a_page_reads_the_errors(world, tmp_path):
    """Without CORS it would see a failed connection, and nothing of the code."""
    script = """
        const begun = await post("/begin", {fileName: "a.mp4", fileSize: given.size})
        const [auth, address] = [decoded(begun.UploadAuth), decoded(begun.UploadAddress)]
        const attempt = async (changes, query = {}, method = "PUT", options = {body: new Blob(["x"])}) => {
            const oss = new OSS({...auth, ...changes}, {...address, ...changes})
            return oss.send(method, query, options).then(() => [200], ({status, code}) => [status, code])
        }
        const {element} = await new OSS(auth, address).send("POST", {uploads: ""})
        const uploadId = element("UploadId")
        const xml = etag => `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`
            + "</CompleteMultipartUpload>"
        const results = {
            key: await attempt({AccessKeyId: "STS.unknown"}),
            secret: await attempt({AccessKeySecret: "x"}),
            token: await attempt({SecurityToken: "x"}),
            object: await attempt({FileName: address.FileName + "x"}),
            upload: await attempt({}, {partNumber: 1, uploadId: "0".repeat(32)}),
            number: await attempt({}, {partNumber: 10001, uploadId}),
            tag: await attempt({}, {uploadId}, "POST", {body: xml("undefined")}),
            document: await attempt({}, {uploadId}, "POST", {body: "<x"}),
            size: await attempt({}, {}, "PUT", {body: new Blob([bytes(given.size + 1)])}),
        }
        await post("/wait")
        results.deleted = await attempt({}, {partNumber: 1, uploadId})
        results.again = await attempt({}, {uploads: ""}, "POST")
        return {results, requests}
    """
    world.site.wait = lambda _: world.vod("DeleteVideo", VideoIds=world.app.id)
    result = browse(world, tmp_path, script, size=2000)
    results = result["results"]
    assert {name: one for name, one in results.items() if name not in {"again", "key", "token"}} == {
        "secret": [403, "SignatureDoesNotMatch"],
        "object": [403, "AccessDenied"],
        "upload": [404, "NoSuchUpload"],
        "number": [400, "InvalidArgument"],
        "tag": [400, "InvalidPart"],
        "document": [400, "MalformedXML"],
        "size": [400, "EntityTooLarge"],
        "deleted": [404, "NoSuchUpload"],
    }, result
    assert [results["key"][0], results["token"][0], results["again"][0]] == [403, 403, 404]
    assert all(one["id"] for one in result["requests"])


@pytest.mark.parametrize("size", [3 * MIB, 3000], ids=["parts", "put"])
def test_a_page_whose_clock_is_wrong(world, tmp_path, size):
    """If it had to correct it, it would send an empty file."""
    result = browse(world, tmp_path, size=size, clock=-3_600_000)
    assert result["events"] == ["started", "succeeded"], result
    check(world, result, size)


def test_without_an_exposed_etag_nothing_is_completed(world, tmp_path):
    """An administrator has given the bucket a rule of its own. The SDK sends `undefined` as the tags."""
    bucket = "outin-sluice"
    world.s3.create_bucket(Bucket=bucket)
    rule = {"AllowedOrigins": [world.site.url], "AllowedMethods": ["PUT", "POST"], "AllowedHeaders": ["*"]}
    world.s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    try:
        result = browse(world, tmp_path, size=2 * MIB)
    finally:
        world.s3.delete_bucket_cors(Bucket=bucket)
    assert (result["events"], result["status"], result["code"]) == (["started", "failed"], 400, "InvalidPart"), result
    assert world.vod("GetVideoInfo", VideoId=world.app.id).json()["Video"]["Status"] == "Uploading"


def test_pages_of_other_origins_are_kept_out(world, tmp_path):
    """They are told nothing, so they do not ask for other credentials either."""
    with Site() as other:
        other.app = world.app
        world = SimpleNamespace(**{**vars(world), "site": other})
        result = browse(world, tmp_path, size=2 * MIB)
    assert (result["events"], result["status"]) == (["started", "failed"], -1), result
    assert {one["status"] for one in result["requests"]} == {0}
