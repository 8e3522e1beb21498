"""A real browser uploads from a page of another origin, with URLs and forms that a backend minted, and as Uppy does."""

import hashlib

import pytest

from harness.api import API
from harness.browser import BROWSER, Page
from harness.daemon import free_port
from harness.data import MIB
from harness.object_client import BUCKET, ObjectServer

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no browser: install chromium")

PART = 5 * MIB
SIZE = 2 * PART + 7
# The bytes that the page makes.
DATA = bytes(range(251)) * (SIZE // 251 + 1)

TOOLS = """
    const data = new Uint8Array(given.size).map((_, index) => index % 251)
    const send = (method, url, headers, body) => new Promise(resolve => {
        const request = new XMLHttpRequest()
        request.open(method, url)
        for (const name in headers) request.setRequestHeader(name, headers[name])
        request.onload = () => resolve({
            status: request.status, tag: request.getResponseHeader("ETag"),
            location: request.getResponseHeader("Location"), text: request.responseText,
        })
        request.onerror = () => resolve({status: 0})
        request.send(body)
    })
    const post = (form, file) => {
        const body = new FormData()
        for (const name in form.fields) body.set(name, form.fields[name])
        body.set("file", file)
        return send("POST", form.url, {}, body)
    }
    const piece = number => data.slice((number - 1) * given.part, number * given.part)
    const call = async (path, method = "GET", body) => (await fetch(given.gateway + path, {
        method, headers: {Authorization: "Bearer " + given.token, "Content-Type": "application/json"},
        body: body && JSON.stringify(body),
    })).json()
"""


@pytest.fixture(scope="module")
def page():
    with Page() as page:
        yield page


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, page):
    environment = {"SLUICE_CORS_ORIGINS": page.url}
    with ObjectServer(tmp_path_factory.mktemp("browser") / "data", free_port(), environment=environment) as server:
        yield server


@pytest.fixture(scope="module")
def api(gateway):
    return API(gateway.url, gateway.admin_key)


def given(gateway, api, **values):
    token = api.post("/v1/tus/tokens", {"subject": "user-42", "objects": True}).json()["token"]
    return {"size": SIZE, "part": PART, "gateway": gateway.url, "token": token} | values


def mint(api, key, **wanted):
    return api.post("/v1/presigned-urls", {"bucket": BUCKET, "key": key, "subject": "user-42"} | wanted).json()


def digest(gateway, key):
    body = gateway.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return hashlib.sha256(body).hexdigest()


EXPECTED = hashlib.sha256(DATA[:SIZE]).hexdigest()


def test_a_presigned_form(gateway, api, page, tmp_path):
    form = mint(api, "browser/form", method="POST", contentType="video/mp4", maxBytes=SIZE)
    script = "return await post(given.form, new Blob([data]))"
    result = page.run(TOOLS + script, given(gateway, api, form=form), tmp_path)
    assert result["status"] == 201, result
    assert result["tag"] == f'"{hashlib.md5(DATA[:SIZE]).hexdigest()}"'
    assert result["location"] == f"{gateway.object_url}/{BUCKET}/browser/form"
    assert digest(gateway, "browser/form") == EXPECTED


def test_presigned_parts(gateway, api, page, tmp_path):
    urls = mint(api, "browser/parts", parts=[1, 2, 3], contentType="video/mp4")
    script = """
        const tags = await Promise.all(given.urls.parts.map(async part =>
            (await send(part.method, part.url, part.headers, piece(part.partNumber))).tag))
        const list = await send(given.urls.list.method, given.urls.list.url, {})
        const parts = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`)
        const complete = given.urls.complete
        const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`
        return {tags, list: list.text, done: await send(complete.method, complete.url, {}, body)}
    """
    result = page.run(TOOLS + script, given(gateway, api, urls=urls), tmp_path)
    assert [tag and len(tag) for tag in result["tags"]] == [34, 34, 34], result
    assert all(tag.strip('"') in result["list"] for tag in result["tags"])
    assert result["done"]["status"] == 200 and "CompleteMultipartUploadResult" in result["done"]["text"], result
    assert digest(gateway, "browser/parts") == EXPECTED


def test_a_put_with_its_type(gateway, api, page, tmp_path):
    signed = mint(api, "browser/put", contentType="video/mp4")
    script = """
        const {method, url, headers} = given.signed
        const wrong = await send(method, url, {"Content-Type": "text/html"}, piece(1))
        return {right: await send(method, url, headers, piece(1)), wrong}
    """
    result = page.run(TOOLS + script, given(gateway, api, signed=signed), tmp_path)
    assert (result["right"]["status"], result["wrong"]["status"]) == (200, 403), result


def test_the_calls_of_uppy(gateway, api, page, tmp_path):
    script = """
        const form = await call("/s3/params?" + new URLSearchParams({filename: "ü.mp4", type: "video/mp4"}))
        const small = await post(form, new Blob([piece(3)]))
        const metadata = {name: "film.mp4", type: "video/mp4"}
        const upload = await call("/s3/multipart", "POST", {filename: "film.mp4", type: "video/mp4", metadata})
        const path = `/s3/multipart/${upload.uploadId}`, key = "?key=" + encodeURIComponent(upload.key)
        const parts = []
        for (const number of [1, 2, 3]) {
            const {url} = await call(`${path}/${number}${key}`)
            parts.push({PartNumber: number, ETag: (await send("PUT", url, {}, piece(number))).tag})
        }
        const list = await call(path + key)
        const done = await call(`${path}/complete${key}`, "POST", {parts})
        const given_up = await call("/s3/multipart", "POST", {filename: "a", type: "a/b"})
        const gone = await call(`/s3/multipart/${given_up.uploadId}?key=${given_up.key}`, "DELETE")
        return {form, small, upload, list, parts, done, gone, error: await call(path)}
    """
    result = page.run(TOOLS + script, given(gateway, api), tmp_path)
    assert result["small"]["status"] == 201, result
    assert [part["PartNumber"] for part in result["list"]] == [1, 2, 3]
    assert [part["ETag"] for part in result["list"]] == [part["ETag"] for part in result["parts"]]
    assert result["done"]["location"].startswith(gateway.object_url)
    assert result["gone"] == {}
    assert result["error"]["message"]
    assert digest(gateway, result["upload"]["key"]) == EXPECTED
    assert digest(gateway, result["form"]["fields"]["key"]) == hashlib.sha256(DATA[2 * PART : SIZE]).hexdigest()


def test_pages_of_other_origins_are_kept_out(gateway, api, tmp_path):
    urls = mint(api, "browser/other", parts=[1])
    script = """
        const part = given.urls.parts[0]
        const refused = await call("/s3/params?filename=a").then(() => "answered", () => "refused")
        return {refused, put: await send(part.method, part.url, {}, piece(3))}
    """
    with Page() as other:
        result = other.run(TOOLS + script, given(gateway, api, urls=urls), tmp_path)
    assert result == {"refused": "refused", "put": {"status": 0}}
