"""The REST API and the tus routes, as a backend and a client use them."""

import base64
import hashlib
import re
from datetime import datetime
from urllib.parse import urlsplit

import requests

from harness.wire import head

# Of a body that is read at once. Its pieces of 10 KiB cost more than all else of a large download.
requests.models.CONTENT_CHUNK_SIZE = 1 << 20

TUS = {"Tus-Resumable": "1.0.0"}
OFFSET_TYPE = "application/offset+octet-stream"


def patch_fields(offset, length):
    """Header fields of a PATCH that is sent by hand."""
    return [*TUS.items(), ("Upload-Offset", offset), ("Content-Type", OFFSET_TYPE), ("Content-Length", length)]


class API:
    """Requests with one key; answers are `requests.Response`."""

    def __init__(self, url, key=None, verify=True):
        self.url = url
        self.key = key
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = verify

    def request(self, method, path, *, key=..., **options):
        key = self.key if key is ... else key
        headers = dict(options.pop("headers", None) or {})
        if key and "Authorization" not in headers:
            headers["Authorization"] = f"Bearer {key}"
        url = path if path.startswith("http") else self.url + path
        return self.session.request(method, url, headers=headers, timeout=60, **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.request("POST", path, json=json, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    # tus

    def create(self, length, *, metadata=None, key=..., body=None, headers=None):
        fields = TUS | ({} if length is None else {"Upload-Length": str(length)}) | (headers or {})
        if metadata is not None:
            fields["Upload-Metadata"] = encode_metadata(metadata)
        if body is not None:
            fields["Content-Type"] = OFFSET_TYPE
        return self.request("POST", "/files", headers=fields, data=body, key=key)

    def created(self, length, **options):
        """The URL of a new upload."""
        answer = self.create(length, **options)
        assert answer.status_code == 201, f"{answer.status_code} {answer.text}"
        return answer.headers["Location"]

    def patch(self, url, offset, body, headers=None):
        fields = TUS | {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE} | (headers or {})
        return self.request("PATCH", url, headers=fields, data=body, key=None)

    def head(self, url):
        return self.request("HEAD", url, headers=TUS, key=None)

    def offset(self, url):
        answer = self.head(url)
        assert answer.status_code in (200, 204), answer.status_code
        return int(answer.headers["Upload-Offset"])

    def terminate(self, url):
        return self.request("DELETE", url, headers=TUS, key=None)

    def remove(self, url):
        """Ends an upload by the REST API, also one that is complete."""
        return self.delete(f"/v1/uploads/{upload_id(url)}")

    def uploaded(self, body, **options):
        """The id of a completed upload."""
        url = self.created(len(body), **options)
        if body:
            answer = self.patch(url, 0, body)
            assert answer.status_code == 204, f"{answer.status_code} {answer.text}"
        return upload_id(url)

    # Looking

    def upload(self, identifier):
        answer = self.get(f"/v1/uploads/{identifier}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def download_hash(self, identifier):
        """SHA-256 and size of the content, streamed."""
        digest, size = hashlib.sha256(), 0
        with self.get(f"/media/{identifier}", stream=True) as answer:
            assert answer.status_code == 200, answer.text
            for piece in answer.iter_content(1024 * 1024):
                digest.update(piece)
                size += len(piece)
        return digest.hexdigest(), size


def upload_id(url):
    """The id in an upload URL: the text before the dot in its last part."""
    return path_of(url).rsplit("/", 1)[1].split(".", 1)[0]


def path_of(url):
    return urlsplit(url).path


def encode_metadata(values):
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())


def checksum(algorithm, digest):
    return {"Upload-Checksum": f"{algorithm} {base64.b64encode(digest).decode()}"}


def problem(answer, status, code):
    """Checks that an answer is a complete problem document (RFC 9457) and returns it."""
    assert answer.status_code == status, f"{answer.status_code} instead of {status}: {answer.text}"
    assert answer.headers["Content-Type"].split(";")[0] == "application/problem+json", answer.headers
    document = answer.json()
    assert {"type", "title", "status", "code", "detail", "requestId"} <= document.keys(), document
    assert document["status"] == status
    assert document["code"] == code, document
    assert document["detail"], document
    assert document["requestId"] == answer.headers["X-Request-ID"], document
    return document


def field_problem(answer, field):
    """Checks that an answer refuses this field."""
    document = problem(answer, 422, "invalid_field")
    assert field in [error["field"] for error in document["errors"]], document
    assert all(error["message"] for error in document["errors"]), document
    return document


def tus_error(answer, status):
    """Checks that an answer is an error in tus form and returns its code."""
    assert answer.status_code == status, f"{answer.status_code} instead of {status}: {answer.text}"
    assert answer.headers["Content-Type"].split(";")[0] == "text/plain", answer.headers
    code, _, text = answer.text.partition(": ")
    assert code.startswith("ERR_") and text.strip(), answer.text
    assert answer.headers["Tus-Resumable"] == "1.0.0"
    return code


def moment(text):
    """A time as the API writes it (RFC 3339, UTC)."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text), text
    return datetime.fromisoformat(text)


def tus_patch(url, offset, length, extra=()):
    """The head of a PATCH as raw bytes."""
    fields = [*TUS.items(), ("Upload-Offset", offset), ("Content-Type", OFFSET_TYPE), *extra]
    if length is not None:
        fields.append(("Content-Length", length))
    return head("PATCH", path_of(url), fields)
