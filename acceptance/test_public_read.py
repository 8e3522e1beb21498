"""Objects that anyone can read: boto3 without a key, curl, nginx as a cache, a browser, and all that is refused."""

import email.utils
import subprocess

import pytest
import requests
from botocore import UNSIGNED
from test_limits import COUNTED, ask

from harness import object_client
from harness.api import API
from harness.browser import BROWSER, Page
from harness.daemon import free_port
from harness.data import KIB, MIB, content, sha256
from harness.nginx import Nginx
from harness.object_client import ObjectServer, code
from harness.tools import tool
from harness.wire import until

BUCKET = "media"
DATA = content(300 * KIB, 1)
RULES = {
    "SLUICE_OBJECT_BUCKETS": "media, open, private",
    "SLUICE_OBJECT_PUBLIC_READ": "media/public/, open, nowhere/x/",
    "SLUICE_OBJECT_PUBLIC_MAX_AGE": "90s",
}


@pytest.fixture(scope="module")
def page():
    with Page() as page:
        yield page


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, page):
    environment = RULES | {"SLUICE_CORS_ORIGINS": page.url}
    with ObjectServer(tmp_path_factory.mktemp("public") / "data", free_port(), environment=environment) as server:
        client = server.client()
        for key in ("public/a.bin", "secret/a.bin", "publicity/a.bin", "public"):
            client.put_object(Bucket=BUCKET, Key=key, Body=DATA, ContentType="video/mp4", Metadata={"k": "v"})
        client.put_object(Bucket="open", Key="a.bin", Body=DATA, ContentType="video/mp4")
        client.put_object(Bucket="private", Key="a.bin", Body=DATA, ContentType="video/mp4")
        yield server


@pytest.fixture(scope="module")
def anyone(gateway):
    return object_client.client(gateway.object_url, ("none", "none"), signature_version=UNSIGNED)


def refusal(answer):
    return answer.status_code, answer.text.partition("<Code>")[2].partition("</Code>")[0]


DENIED = (403, "AccessDenied")


def test_boto3_reads_without_a_key(anyone, tmp_path):
    found = anyone.get_object(Bucket=BUCKET, Key="public/a.bin")
    assert found["Body"].read() == DATA
    assert (found["CacheControl"], found["ContentType"]) == ("public, max-age=90", "video/mp4")
    assert found["Metadata"] == {"k": "v"} and "TagCount" not in found
    head = anyone.head_object(Bucket=BUCKET, Key="public/a.bin")
    assert (head["ContentLength"], head["ETag"]) == (len(DATA), found["ETag"])
    part = anyone.get_object(Bucket=BUCKET, Key="public/a.bin", Range="bytes=10-19")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206 and part["Body"].read() == DATA[10:20]
    anyone.download_file("open", "a.bin", str(tmp_path / "a.bin"))
    assert (tmp_path / "a.bin").read_bytes() == DATA


def test_boto3_is_refused_everything_else(anyone):
    public = {"Bucket": BUCKET, "Key": "public/a.bin"}
    for call, given in [
        (anyone.list_buckets, {}),
        (anyone.list_objects_v2, {"Bucket": BUCKET, "Prefix": "public/"}),
        (anyone.list_objects_v2, {"Bucket": "open"}),
        (anyone.list_objects, {"Bucket": "open"}),
        (anyone.list_multipart_uploads, {"Bucket": "open"}),
        (anyone.get_bucket_location, {"Bucket": "open"}),
        (anyone.get_bucket_versioning, {"Bucket": "open"}),
        (anyone.get_bucket_cors, {"Bucket": "open"}),
        (anyone.get_bucket_acl, {"Bucket": "open"}),
        (anyone.list_object_versions, {"Bucket": "open"}),
        (anyone.get_object_acl, public),
        (anyone.get_object_tagging, public),
        (anyone.get_object_attributes, public | {"ObjectAttributes": ["ETag"]}),
        (anyone.get_object, public | {"ResponseContentType": "text/html"}),
        (anyone.get_object, public | {"VersionId": "null"}),
        (anyone.put_object, public | {"Body": b"x"}),
        (anyone.delete_object, public),
        (anyone.delete_objects, {"Bucket": BUCKET, "Delete": {"Objects": [{"Key": "public/a.bin"}]}}),
        (anyone.copy_object, {"Bucket": BUCKET, "Key": "public/b", "CopySource": "media/public/a.bin"}),
        (anyone.create_multipart_upload, public),
        (anyone.get_object, {"Bucket": BUCKET, "Key": "secret/a.bin"}),
        (anyone.get_object, {"Bucket": BUCKET, "Key": "publicity/a.bin"}),
        (anyone.get_object, {"Bucket": BUCKET, "Key": "public"}),
        (anyone.get_object, {"Bucket": "private", "Key": "a.bin"}),
    ]:
        assert code(call, **given) == DENIED, (call, given)
    assert code(anyone.head_bucket, Bucket="open") == (403, "403")
    assert code(anyone.head_object, Bucket=BUCKET, Key="secret/a.bin") == (403, "403")
    assert code(anyone.get_bucket_policy, Bucket=BUCKET) == (403, "AccessDenied")


def test_what_is_missing_is_only_seen_where_objects_are_public(anyone):
    assert code(anyone.get_object, Bucket=BUCKET, Key="public/none") == (404, "NoSuchKey")
    assert code(anyone.head_object, Bucket="open", Key="none") == (404, "404")
    for bucket, key in ((BUCKET, "secret/none"), ("private", "none"), ("unknown", "none")):
        assert code(anyone.get_object, Bucket=bucket, Key=key) == DENIED
    assert code(anyone.get_object, Bucket="nowhere", Key="x/1") == (404, "NoSuchBucket")


def test_a_rule_without_a_bucket_is_in_the_log(gateway):
    assert '"rule":"nowhere/x/"' in gateway.whole_log().replace(" ", "")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/media/public/a.bin", 200),
        ("/media/%70ublic/a.bin", 200),
        ("/media/public%2Fa.bin", 200),
        ("/media%2Fpublic/a.bin", 200),
        # A key of this name could exist; this one does not.
        ("/media/public/../secret/a.bin", 404),
        ("/media/public/%2E%2E/secret/a.bin", 404),
        ("/media/public/..%2Fsecret%2Fa.bin", 404),
        ("/media/x/../public/a.bin", 403),
        ("/media/./public/a.bin", 403),
        ("/media//public/a.bin", 403),
        ("//media/public/a.bin", 400),
        ("/media/PUBLIC/a.bin", 403),
        ("/media/public%252Fa.bin", 403),
        ("/media/public%00/a.bin", 400),
        ("/media/public", 403),
        ("/media/publicity/a.bin", 403),
        ("/media/secret/a.bin?/media/public/a.bin", 403),
        ("/media/secret/a.bin#/public/", 403),
    ],
)
def test_a_path_means_what_it_says(gateway, path, status):
    command = ["curl", "-sS", "--path-as-is", "-o", "-", "-w", "\n%{http_code}", gateway.object_url + path]
    *body, last = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\n")
    assert int(last) == status
    assert (b"\n".join(body) == DATA) == (status == 200)


def test_a_wrong_signature_is_refused(gateway):
    key, secret = gateway.pair()
    wrong = object_client.client(gateway.object_url, (key, secret[:-1] + ("a" if secret[-1] != "a" else "b")))
    asked = {"Bucket": BUCKET, "Key": "public/a.bin"}
    assert code(wrong.get_object, **asked) == (403, "SignatureDoesNotMatch")
    url = wrong.generate_presigned_url("get_object", Params=asked)
    assert refusal(requests.get(url)) == (403, "SignatureDoesNotMatch")
    for parameters in ("X-Amz-Signature=1", "AWSAccessKeyId=x&Signature=y&Expires=1", "OSSAccessKeyId=x", "q-ak=x"):
        answer = requests.get(f"{gateway.object_url}/media/public/a.bin?{parameters}")
        assert answer.status_code in (400, 403), parameters
    for fields in ({"Authorization": "Bearer x"}, {"x-amz-security-token": "x"}):
        assert requests.get(f"{gateway.object_url}/media/public/a.bin", headers=fields).status_code in (400, 403)


def test_signed_requests_go_on_as_before(gateway):
    client = gateway.client()
    found = client.get_object(Bucket=BUCKET, Key="public/a.bin", ResponseContentType="text/x")
    assert found["ContentType"] == "text/x" and "CacheControl" not in found
    url = client.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "secret/a.bin"})
    answer = requests.get(url)
    assert answer.content == DATA and "Cache-Control" not in answer.headers


def test_conditions(gateway):
    url = f"{gateway.object_url}/open/a.bin"
    first = requests.get(url)
    tag, modified = first.headers["ETag"], first.headers["Last-Modified"]
    for fields in ({"If-None-Match": tag}, {"If-None-Match": "*"}, {"If-Modified-Since": modified}):
        for ask_for in (requests.get, requests.head):
            answer = ask_for(url, headers=fields)
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["Cache-Control"] == "public, max-age=90"
            assert answer.headers["ETag"] == tag and "Origin" in answer.headers["Vary"]
    earlier = email.utils.format_datetime(email.utils.parsedate_to_datetime(modified).replace(year=2020), usegmt=True)
    for fields in ({"If-None-Match": '"x"'}, {"If-Modified-Since": earlier}, {"If-Range": '"x"', "Range": "bytes=0-1"}):
        assert requests.get(url, headers=fields).status_code == 200
    assert requests.get(url, headers={"If-Match": '"x"'}).status_code == 412
    answer = requests.get(url, headers={"Range": "bytes=-5", "If-Range": tag})
    assert (answer.status_code, answer.content) == (206, DATA[-5:])
    assert answer.headers["Content-Range"] == f"bytes {len(DATA) - 5}-{len(DATA) - 1}/{len(DATA)}"
    answer = requests.get(url, headers={"Range": f"bytes={len(DATA)}-"})
    assert refusal(answer) == (416, "InvalidRange") and "Cache-Control" not in answer.headers


def test_an_object_says_how_long_it_is_kept(gateway):
    client = gateway.client()
    client.put_object(Bucket="open", Key="own", Body=b"x", CacheControl="public, max-age=31536000, immutable")
    client.put_object(Bucket="open", Key="date", Body=b"x", Expires="2030-01-01T00:00:00Z")
    assert requests.get(f"{gateway.object_url}/open/own").headers["Cache-Control"].endswith("immutable")
    answer = requests.get(f"{gateway.object_url}/open/date")
    assert "2030" in answer.headers["Expires"] and "Cache-Control" not in answer.headers


def test_nginx_keeps_objects_and_asks_by_their_tags(gateway, page, tmp_path):
    client = gateway.client()
    client.put_object(Bucket="open", Key="cached", Body=b"1", ContentType="text/plain")
    client.put_object(Bucket="open", Key="asked", Body=b"1", CacheControl="max-age=1")
    client.put_object(Bucket="private", Key="cached", Body=b"1", CacheControl="max-age=3600")
    with Nginx(tmp_path / "nginx", [gateway.object_url.rpartition(":")[2]], is_cache=True) as nginx:

        def seen(path, **fields):
            answer = requests.get(nginx.url + path, headers=fields)
            return answer.headers.get("X-Cache"), answer.status_code, answer.content

        assert seen("/open/cached") == ("MISS", 200, b"1")
        assert seen("/open/cached") == ("HIT", 200, b"1")
        # Until the time is over, a new object is not seen through the cache.
        client.put_object(Bucket="open", Key="cached", Body=b"2")
        assert seen("/open/cached") == ("HIT", 200, b"1")
        # A page gets what allows it to read, although the cache was filled for another client.
        answer = requests.get(f"{nginx.url}/open/cached", headers={"Origin": page.url})
        assert (answer.headers["X-Cache"], answer.headers["Access-Control-Allow-Origin"]) == ("MISS", page.url)
        assert seen("/open/asked") == ("MISS", 200, b"1")
        assert until(lambda: (found := seen("/open/asked")) and found[0] == "REVALIDATED" and found)[1:] == (200, b"1")
        client.put_object(Bucket="open", Key="asked", Body=b"3", CacheControl="max-age=1")
        assert until(lambda: (found := seen("/open/asked")) and found[0] == "EXPIRED" and found)[1:] == (200, b"3")
        for _ in range(2):
            assert seen("/private/cached")[:2] == ("MISS", 403)
        signed = object_client.client(nginx.url, gateway.pair())
        for _ in range(2):
            found = signed.get_object(Bucket="private", Key="cached")["ResponseMetadata"]
            assert found["HTTPHeaders"]["x-cache"] == "BYPASS"
            assert seen("/private/cached")[1] == 403


@pytest.mark.parametrize(
    ("kind", "is_inline"),
    [
        ("image/png", True),
        ("video/mp4", True),
        ("text/plain", True),
        ("text/html", False),
        ("image/svg+xml", False),
        ("application/xhtml+xml", False),
        ("text/xml", False),
        ("text/javascript", False),
        ("application/pdf", False),
    ],
)
def test_only_what_runs_no_script_is_displayed_in_place(gateway, kind, is_inline):
    gateway.client().put_object(Bucket="open", Key="d/ü.x", Body=b"<script>", ContentType=kind)
    answer = requests.get(f"{gateway.object_url}/open/d/ü.x")
    disposition = answer.headers.get("Content-Disposition", "")
    assert (disposition == "") if is_inline else disposition.startswith("attachment; filename=")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")
def test_a_page_of_another_origin_reads_and_shows_objects(gateway, page, tmp_path):
    image = b'<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"><script>fetch("/ran")</script></svg>'
    gateway.client().put_object(Bucket="open", Key="i.svg", Body=image, ContentType="image/svg+xml")
    script = """
        const image = new Image()
        const size = await new Promise(resolve => {
            image.onload = () => resolve([image.width, image.height])
            image.onerror = () => resolve([0, 0])
            image.src = given.url + "/open/i.svg"
        })
        const answer = await fetch(given.url + "/open/a.bin", {headers: {Range: "bytes=0-9"}})
        const denied = await fetch(given.url + "/private/a.bin")
        return {size, status: answer.status, length: (await answer.arrayBuffer()).byteLength, denied: denied.status}
    """
    found = page.run(script, {"url": gateway.object_url}, tmp_path / "profile")
    assert found == {"size": [7, 5], "status": 206, "length": 10, "denied": 403}


def test_limits_of_an_address_hold_for_anyone(make_server):
    port = free_port()
    few = {"SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_ADDRESS_BURST": "3"}
    # No key and no subject: these do not count for anyone.
    few |= {"SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_KEY_BURST": "1"}
    environment = RULES | COUNTED | few | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}"}
    with make_server(environment=environment) as server:
        answers = ask("127.0.0.2", ("127.0.0.1", port), 50, target="/open/none")
        assert [answer.status for answer in answers[:3]] == [404] * 3
        assert {answer.status for answer in answers} == {404, 503}
        assert b"<Code>SlowDown</Code>" in answers[-1].body
        assert b"SlowDown" not in ask("127.0.0.3", ("127.0.0.1", port), 1, target="/open/none")[0].body
        metrics = until(lambda: (found := API(server.url, server.admin_key).get("/metrics")).ok and found.text)
        assert 'route="GetObject"' in metrics


def test_without_the_setting_nothing_is_public(make_server):
    port = free_port()
    with make_server(environment={"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}"}):
        for path in ("/uploads/x", "/uploads/", "/"):
            assert refusal(requests.get(f"http://127.0.0.1:{port}{path}")) == DENIED


def test_a_large_object_arrives_whole(gateway, anyone, tmp_path):
    data = content(20 * MIB, 3)
    gateway.client().put_object(Bucket="open", Key="large", Body=data)
    path = tmp_path / "large"
    command = [tool("curl", "curl"), "-sS", "-o", path, f"{gateway.object_url}/open/large"]
    subprocess.run(command, check=True)
    assert sha256(path.read_bytes()) == sha256(data)
    # In parts, by several connections.
    anyone.download_file("open", "large", str(path))
    assert sha256(path.read_bytes()) == sha256(data)
