"""A page in a real browser uploads as Tencent's web SDK does: other origins, the vendor's host names, TLS."""

import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest

from harness.api import API
from harness.browser import BROWSER, Browser, content
from harness.daemon import free_port
from harness.data import MIB, sha256
from harness.object_client import ObjectServer
from harness.tls import Certificate
from harness.vod_cos import BUCKET, DOMAIN
from harness.vod_page import ORIGIN, Gate, Site
from harness.wire import until

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")

COS_HOST = f"{BUCKET}.{DOMAIN}"
CALLS = "/v3/index.php?Action="
# The files that the page makes.
FILES = """
    const bytes = size => new Uint8Array(size).map((_, index) => (index + (index >> 10)) % 251)
    const video = new File([bytes(given.size)], "测试 vid.MP4", {type: "video/mp4"})
    const cover = given.cover && new File([bytes(given.cover)], "c.jpg", {type: "image/jpeg"})
    const onPart = number => fetch("/part", {method: "POST", body: JSON.stringify(number)})
"""
UPLOAD = FILES + "return await upload(video, cover, onPart)"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("tls"), ["*.qcloud.com", COS_HOST, "app.example"])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, certificate):
    settings = certificate.settings | {"SLUICE_OBJECT_DOMAINS": DOMAIN, "SLUICE_CORS_ORIGINS": ORIGIN}
    with ObjectServer(tmp_path_factory.mktemp("browser") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture
def app(gateway, certificate):
    """The app's site, the ports behind the names of hosts, and a client that sees what was stored."""
    api = API(gateway.url, gateway.admin_key, verify=str(certificate.path))

    def sign():
        return api.post("/v1/tencent/signatures", {"subject": "dora", "oneTimeValid": True}).json()["signature"]

    with Site(certificate, sign) as site:
        ports = {
            "app.example": site.port,
            "vod2.qcloud.com": gateway.port,
            "vodreport.qcloud.com": gateway.port,
            COS_HOST: int(gateway.object_url.rsplit(":", 1)[1]),
        }
        s3 = gateway.client(verify=str(certificate.path))
        yield SimpleNamespace(site=site, ports=ports, s3=s3, api=api)


def stored(app, result, kind="video"):
    key = result["applied"][kind]["storagePath"][1:]
    return sha256(app.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def counted(app):
    """Reports of SDKs so far."""
    found = re.search(r'sluice_tencent_calls_total\{call="report",code="0"\} (\d+)', app.api.get("/metrics").text)
    return int(found[1]) if found else 0


def preflights(gateway):
    """How many of each kind so far."""
    lines = [json.loads(line) for line in gateway.log.read_text().splitlines() if '"method":"OPTIONS"' in line]
    return Counter((line["route"], line["status"]) for line in lines)


def test_a_video_and_its_cover(gateway, app, tmp_path):
    size = 4 * MIB + 77
    reports, asked = counted(app), preflights(gateway)
    app.site.show(UPLOAD, {"size": size, "cover": 3000})
    with Browser(tmp_path / "profile", ORIGIN, app.ports) as browser:
        result = app.site.finished(browser)
    assert "error" not in result, result
    assert stored(app, result) == sha256(content(size))
    assert stored(app, result, "cover") == sha256(content(3000))
    assert f"/{result['done']['fileId']}/" in result["done"]["video"]["url"]
    # The page has seen the ETag of each part.
    assert [len(tag) for tag in result["video"]["tags"] + result["cover"]["tags"]] == [34] * 6
    # A signature for each call.
    assert app.site.signatures == 2
    assert {request["status"] for request in result["requests"]} == {200}
    assert [request["path"] for request in result["requests"] if CALLS in request["path"]] == [
        f"{CALLS}ApplyUploadUGC",
        f"{CALLS}CommitUploadUGC",
    ]
    path = result["applied"]["video"]["storagePath"]
    prefix = path[1:].replace("/", "%2F")
    sent = [
        (request["method"], request["path"])
        for request in result["requests"]
        if request["host"] == COS_HOST and (path in request["path"] or prefix in request["path"])
    ]
    upload = sent[-1][1].rpartition("=")[2]
    assert sent[:2] == [("GET", f"/?uploads&prefix={prefix}"), ("POST", f"{path}?uploads")]
    parts = [("PUT", f"{path}?partNumber={number}&uploadId={upload}") for number in range(1, 6)]
    assert sorted(sent[2:-1]) == parts
    assert sent[-1] == ("POST", f"{path}?uploadId={upload}")
    # All of it was across origins. The SDK reports four times.
    assert counted(app) == reports + 4
    asked = preflights(gateway) - asked
    assert set(asked) == {("/v3/index.php", 204), ("/ugcupload_new", 204), ("Preflight", 200)}
    assert asked["Preflight", 200] >= 6


def test_a_killed_browser_goes_on(app, tmp_path):
    """Also the parts that were under way when it was killed are sent again, and no others."""
    size = 9 * MIB + 5
    profile = tmp_path / "profile"
    app.site.show(UPLOAD, {"size": size})
    with Gate(app.ports[COS_HOST], 5 * MIB + MIB // 2) as gate:
        app.ports[COS_HOST] = gate.port
        with Browser(profile, ORIGIN, app.ports) as browser:
            assert gate.is_reached.wait(120)
            until(lambda: browser.keeps("webugc_"), timeout=60, interval=0.1)
            browser.kill()
        gate.open()
        acknowledged = set(app.site.acknowledged)
        app.site.show(UPLOAD, {"size": size})
        with Browser(profile, ORIGIN, app.ports) as browser:
            result = app.site.finished(browser)
    assert "error" not in result and result["resumed"], result
    known, sent = result["video"]["known"], result["video"]["sent"]
    # No acknowledged part is lost.
    assert acknowledged and acknowledged <= set(known), (acknowledged, known)
    assert sorted(known + sent) == list(range(1, 11)) and len(sent) >= 5
    requests = [(request["method"], request["path"]) for request in result["requests"] if request["host"] == COS_HOST]
    path = result["applied"]["video"]["storagePath"]
    upload = requests[-1][1].rpartition("=")[2]
    assert requests[1] == ("GET", f"{path}?uploadId={upload}")
    numbers = [int(path.split("partNumber=")[1].split("&")[0]) for method, path in requests if method == "PUT"]
    assert sorted(numbers) == sorted(sent)
    assert len(requests) == 3 + len(sent)
    assert app.site.signatures == 2
    assert stored(app, result) == sha256(content(size))


def test_without_an_exposed_etag_the_page_says_so(app, tmp_path):
    """An administrator has given the bucket a rule of its own."""
    app.s3.create_bucket(Bucket=BUCKET)
    rule = {"AllowedOrigins": [ORIGIN], "AllowedMethods": ["GET", "PUT", "POST"], "AllowedHeaders": ["*"]}
    app.s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})
    try:
        app.site.show(UPLOAD, {"size": 1000})
        with Browser(tmp_path / "profile", ORIGIN, app.ports) as browser:
            result = app.site.finished(browser)
    finally:
        app.s3.delete_bucket_cors(Bucket=BUCKET)
    assert result["error"] == 'get ETag error, please add "ETag" to CORS ExposeHeader setting.'
