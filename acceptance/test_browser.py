"""A real browser uploads from a page of another origin, with forms and URLs that an SDK signed."""

import pytest

from harness.browser import BROWSER, Page
from harness.daemon import free_port
from harness.data import MIB, sha256
from harness.object_client import BUCKET, ObjectServer, session
from harness.wire import until

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")

PART = 5 * MIB
SIZE = 11 * MIB + 3
# The bytes that the page makes.
CONTENT = "const bytes = new Uint8Array(given.size).map((_, index) => index % 251)\n"
DATA = (bytes(range(251)) * (SIZE // 251 + 1))[:SIZE]


@pytest.fixture(scope="module")
def page():
    with Page() as page:
        yield page


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


def test_a_presigned_form(gateway, s3, page, tmp_path):
    conditions = [{"Content-Type": "video/mp4"}, {"success_action_status": "201"}]
    form = s3.generate_presigned_post(
        BUCKET,
        "clips/${filename}",
        Fields={"Content-Type": "video/mp4", "success_action_status": "201"},
        Conditions=[["content-length-range", 1, 20 * MIB], *conditions],
    )
    allow(gateway, page.url)
    script = """
        const form = new FormData()
        for (const [name, value] of Object.entries(given.fields)) form.append(name, value)
        form.append("file", new File([bytes], "ü b.mp4", {type: "video/mp4"}))
        const answer = await fetch(given.url, {method: "POST", body: form})
        return {status: answer.status, tag: answer.headers.get("ETag"), text: await answer.text()}"""
    result = page.run(CONTENT + script, form | {"size": SIZE}, tmp_path / "profile")
    assert result["status"] == 201 and result["tag"], result
    assert "<Key>clips/ü b.mp4</Key>" in result["text"]
    assert stored(gateway, "clips/ü b.mp4") == sha256(DATA)
    head = gateway.client().head_object(Bucket=BUCKET, Key="clips/ü b.mp4")
    assert (head["ContentType"], head["ContentLength"]) == ("video/mp4", SIZE)


def test_presigned_parts(gateway, s3, page, tmp_path):
    name = {"Bucket": BUCKET, "Key": "parts.mp4"}
    upload = name | {"UploadId": s3.create_multipart_upload(**name)["UploadId"]}
    urls = [
        s3.generate_presigned_url("upload_part", Params=upload | {"PartNumber": number}, ExpiresIn=600)
        for number in range(1, 4)
    ]
    finish = s3.generate_presigned_url("complete_multipart_upload", Params=upload, ExpiresIn=600, HttpMethod="POST")
    allow(gateway, page.url)
    script = """
        const tags = await Promise.all(given.urls.map(async (url, index) => {
            const body = bytes.slice(index * given.part, (index + 1) * given.part)
            const answer = await fetch(url, {method: "PUT", body})
            if (!answer.ok) throw new Error(await answer.text())
            return answer.headers.get("ETag")
        }))
        const parts = tags.map((tag, index) =>
            `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`)
        const answer = await fetch(given.finish, {
            method: "POST", headers: {"Content-Type": "application/xml"},
            body: `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`})
        return {status: answer.status, text: await answer.text(), tags, date: answer.headers.get("Date")}"""
    given = {"urls": urls, "finish": finish, "part": PART, "size": SIZE}
    result = page.run(CONTENT + script, given, tmp_path / "profile")
    assert result["status"] == 200 and None not in result["tags"] and result["date"], result
    assert stored(gateway, "parts.mp4") == sha256(DATA)


def test_a_page_of_another_origin_is_refused(gateway, s3, page, tmp_path):
    """The page can neither upload nor read the error: no rule of the bucket allows it."""
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "evil"}, ExpiresIn=600)
    allow(gateway, "https://app.example")
    script = "return (await fetch(given.url, {method: 'PUT', body: 'x'})).status"
    result = page.run(script, {"url": url}, tmp_path / "profile")
    assert "Failed to fetch" in result["error"], result
    until(lambda: "Contents" not in gateway.client().list_objects_v2(Bucket=BUCKET, Prefix="evil"))


@pytest.mark.parametrize(
    "authorization",
    [
        "AWS4-HMAC-SHA256 Credential=ASIAX/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature="
        + "0" * 64,
        "OSS STS.X:c2lnbmF0dXJlc2lnbmF0dXJlMTI=",
        "q-sign-algorithm=sha1&q-ak=AKIDX&q-sign-time=1;2&q-key-time=1;2&q-header-list=&q-url-param-list=&q-signature="
        + "0" * 40,
    ],
    ids=["s3", "oss", "cos"],
)
def test_an_error_can_be_read_by_the_page(gateway, page, tmp_path, authorization):
    """Not only successful responses: the page must see that its credentials have expired."""
    given = {"url": f"{gateway.object_url}/{BUCKET}/a", "authorization": authorization}
    allow(gateway, page.url)
    script = """
        const answer = await fetch(given.url, {method: "PUT", body: "x", headers: {
            "Authorization": given.authorization, "x-amz-date": "20260101T000000Z",
            "x-oss-date": "20260101T000000Z", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}})
        return {status: answer.status, text: await answer.text()}"""
    result = page.run(script, given, tmp_path / "profile")
    assert result["status"] in (400, 403) and "<Code>" in result["text"], result
