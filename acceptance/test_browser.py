"""A real browser uploads from a page of another origin."""

import json

import pytest

from harness import browser
from harness.daemon import free_port
from harness.data import MIB, sha256
from harness.object_client import BUCKET, ObjectServer, session
from harness.wire import until

pytestmark = pytest.mark.skipif(not browser.PROGRAM, reason="there is no browser: install chromium")

PART = 5 * MIB
# The bytes of the page: 11 MiB and 3 bytes of a counter, so that no two parts are the same.
CONTENT = "const bytes = Uint8Array.from({length: 11 * 1048576 + 3}, (_, index) => (index >> 12) * 31 + index)\n"
DATA = bytes(((index >> 12) * 31 + index) & 255 for index in range(11 * MIB + 3))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("browser") / "data", free_port()) as server:
        yield server


@pytest.fixture
def s3(gateway):
    """With the credentials of an app."""
    credentials = gateway.client(service="sts").get_federation_token(Name="anna")["Credentials"]
    return gateway.client(**session(credentials))


def allow(gateway, origin):
    rule = {
        "AllowedOrigins": [origin],
        "AllowedMethods": ["GET", "PUT", "POST"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag", "Date"],
    }
    gateway.client().put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [rule]})


def stored(gateway, key):
    return sha256(gateway.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())


def test_a_presigned_form(gateway, s3, tmp_path):
    form = s3.generate_presigned_post(
        BUCKET,
        "clips/${filename}",
        Fields={"Content-Type": "video/mp4", "success_action_status": "201"},
        Conditions=[
            ["content-length-range", 1, 20 * MIB],
            {"Content-Type": "video/mp4"},
            {"success_action_status": "201"},
        ],
    )
    script = f"""{CONTENT}
        attempt(async () => {{
            const form = new FormData()
            for (const [name, value] of Object.entries({json.dumps(form["fields"])})) form.append(name, value)
            form.append("file", new File([bytes], "ü b.mp4", {{type: "video/mp4"}}))
            const answer = await fetch({json.dumps(form["url"])}, {{method: "POST", body: form}})
            return {{status: answer.status, tag: answer.headers.get("ETag"), text: await answer.text()}}
        }})"""
    with browser.site(script) as (origin, run):
        allow(gateway, origin)
        told = run(tmp_path / "profile")
    assert told["status"] == 201 and told["tag"], told
    assert "<Key>clips/ü b.mp4</Key>" in told["text"]
    assert stored(gateway, "clips/ü b.mp4") == sha256(DATA)
    head = gateway.client().head_object(Bucket=BUCKET, Key="clips/ü b.mp4")
    assert (head["ContentType"], head["ContentLength"]) == ("video/mp4", len(DATA))


def test_presigned_parts(gateway, s3, tmp_path):
    name = {"Bucket": BUCKET, "Key": "parts.mp4"}
    upload = name | {"UploadId": s3.create_multipart_upload(**name)["UploadId"]}
    urls = [
        s3.generate_presigned_url("upload_part", Params=upload | {"PartNumber": number}, ExpiresIn=600)
        for number in range(1, 4)
    ]
    finish = s3.generate_presigned_url("complete_multipart_upload", Params=upload, ExpiresIn=600, HttpMethod="POST")
    script = f"""{CONTENT}
        attempt(async () => {{
            const tags = await Promise.all({json.dumps(urls)}.map(async (url, index) => {{
                const body = bytes.slice(index * {PART}, (index + 1) * {PART})
                const answer = await fetch(url, {{method: "PUT", body}})
                if (!answer.ok) throw new Error(await answer.text())
                return answer.headers.get("ETag")
            }}))
            const parts = tags.map((tag, index) =>
                `<Part><PartNumber>${{index + 1}}</PartNumber><ETag>${{tag}}</ETag></Part>`)
            const document = `<CompleteMultipartUpload>${{parts.join("")}}</CompleteMultipartUpload>`
            const answer = await fetch({json.dumps(finish)}, {{
                method: "POST", body: document, headers: {{"Content-Type": "application/xml"}}}})
            return {{status: answer.status, text: await answer.text(), tags, date: answer.headers.get("Date")}}
        }})"""
    with browser.site(script) as (origin, run):
        allow(gateway, origin)
        told = run(tmp_path / "profile")
    assert told["status"] == 200 and None not in told["tags"] and told["date"], told
    assert stored(gateway, "parts.mp4") == sha256(DATA)


def test_a_page_of_another_origin_can_not(gateway, s3, tmp_path):
    """Neither write nor read the error: the browser sees to that, because no rule of the bucket allows it."""
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "evil"}, ExpiresIn=600)
    script = f"attempt(async () => (await fetch({json.dumps(url)}, {{method: 'PUT', body: 'x'}})).status)"
    with browser.site(script) as (_, run):
        allow(gateway, "https://app.example")
        told = run(tmp_path / "profile")
    assert "Failed to fetch" in told["error"], told
    until(lambda: "Contents" not in gateway.client().list_objects_v2(Bucket=BUCKET, Prefix="evil"))


def test_an_error_can_be_read_by_the_page(gateway, tmp_path):
    """Not only what was answered well: the page must see that its credentials are over."""
    url = f"{gateway.object_url}/{BUCKET}/a"
    script = f"""attempt(async () => {{
        const answer = await fetch({json.dumps(url)}, {{method: "PUT", body: "x", headers: {{
            "Authorization": "AWS4-HMAC-SHA256 Credential=ASIAX/20260101/us-east-1/s3/aws4_request, "
                + "SignedHeaders=host, Signature=" + "0".repeat(64), "x-amz-date": "20260101T000000Z",
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}}})
        return {{status: answer.status, text: await answer.text()}}
    }})"""
    with browser.site(script) as (origin, run):
        allow(gateway, origin)
        told = run(tmp_path / "profile")
    assert told["status"] == 403 and "<Code>" in told["text"], told
