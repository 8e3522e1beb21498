"""What an operator can switch off."""

import boto3
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError

from harness.api import API, upload_id
from harness.daemon import free_port

VERSIONS = [{"Tus-Resumable": "1.0.0"}, {"Upload-Draft-Interop-Version": "8"}]


@pytest.mark.parametrize("fields", VERSIONS)
def test_no_termination(make_server, fields):
    with make_server(environment={"SLUICE_UPLOADS_TERMINATION": "false"}) as server:
        api = API(server.url, server.admin_key)
        url = api.created(5)
        refused = requests.delete(url, headers=fields, timeout=30)
        assert refused.status_code == 405
        assert "DELETE" not in refused.headers["Allow"] and "PATCH" in refused.headers["Allow"]
        if "Tus-Resumable" in fields:
            hidden = fields | {"X-HTTP-Method-Override": "DELETE"}
            assert requests.post(url, headers=hidden, timeout=30).status_code == 405
            found = requests.options(url, headers=fields, timeout=30).headers
            assert "termination" not in found["Tus-Extension"] and "creation" in found["Tus-Extension"]
            assert "DELETE" not in found["Allow"]
        # The upload goes on; the app can still remove the media.
        assert api.patch(url, 0, b"hello").status_code == 204
        assert api.request("DELETE", f"/v1/media/{upload_id(url)}").status_code == 204


def test_no_downloads(make_server):
    environment = {"SLUICE_MEDIA_DOWNLOADS": "false", "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"}
    with make_server(environment=environment) as server:
        api = API(server.url, server.admin_key)
        media = api.uploaded(b"hello")
        for refused in (api.get(f"/media/{media}"), api.post(f"/v1/media/{media}/links", {})):
            assert refused.status_code == 403
            assert "media.downloads" in refused.json()["detail"]
        assert api.request("HEAD", f"/media/{media}").headers["Content-Length"] == "5"
        assert api.get(f"/v1/media/{media}").json()["size"] == 5
        assert requests.get(f"{server.url}/media/{media}", timeout=30).status_code == 401
        key, secret = server.pair()
        s3 = boto3.client(
            "s3",
            endpoint_url=server.object_url,
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )
        s3.put_object(Bucket="uploads", Key="a", Body=b"hello")
        assert s3.head_object(Bucket="uploads", Key="a")["ContentLength"] == 5
        with pytest.raises(ClientError, match="AccessDenied.*media.downloads"):
            s3.get_object(Bucket="uploads", Key="a")
        # A copy leaves the server nowhere.
        s3.copy_object(Bucket="uploads", Key="b", CopySource="uploads/a")
        assert s3.head_object(Bucket="uploads", Key="b")["ContentLength"] == 5


def test_content_by_the_upload_url(make_server):
    with make_server(environment={"SLUICE_MEDIA_DOWNLOADS_BY_UPLOAD_URL": "true"}) as server:
        api = API(server.url, server.admin_key)
        data = b"hello world"
        url = api.created(len(data), metadata={"filename": "a.png", "filetype": "image/png"})
        open_upload = requests.get(url, timeout=30)
        assert open_upload.status_code == 404
        assert api.patch(url, 0, data).status_code == 204
        for fields in ({}, {"Tus-Resumable": "1.0.0"}):
            whole = requests.get(url, headers=fields | {"Want-Repr-Digest": "sha-256=1"}, timeout=30)
            assert (whole.status_code, whole.content) == (200, data)
            assert whole.headers["Content-Type"] == "image/png"
            assert whole.headers["Content-Disposition"].startswith("attachment")
            assert whole.headers["X-Content-Type-Options"] == "nosniff" and "Repr-Digest" in whole.headers
        part = requests.get(url + "?disposition=inline", headers={"Range": "bytes=6-"}, timeout=30)
        assert (part.status_code, part.content) == (206, b"world")
        assert part.headers["Content-Disposition"].startswith("inline")
        tagged = requests.get(url, headers={"If-None-Match": whole.headers["ETag"]}, timeout=30)
        assert tagged.status_code == 304
        assert requests.get(url + "?disposition=x", timeout=30).status_code == 422
        assert requests.get(url[:-1] + ("A" if url[-1] != "A" else "B"), timeout=30).status_code == 404
        # HEAD is the protocols', and so is GET with the field of the draft.
        assert requests.head(url, headers=VERSIONS[0], timeout=30).headers["Upload-Offset"] == str(len(data))
        offset = requests.get(url, headers=VERSIONS[1], timeout=30)
        assert (offset.status_code, offset.headers["Upload-Offset"]) == (204, str(len(data)))
        # A part of others is no file, and what was deleted is gone.
        partial = api.created(1, headers={"Upload-Concat": "partial"})
        assert api.patch(partial, 0, b"a").status_code == 204
        assert requests.get(partial, timeout=30).status_code == 404
        assert api.request("DELETE", f"/v1/media/{upload_id(url)}").status_code == 204
        assert requests.get(url, timeout=30).status_code in (404, 410)


def test_no_content_by_the_upload_url_without_the_setting_or_downloads(make_server):
    both = {"SLUICE_MEDIA_DOWNLOADS_BY_UPLOAD_URL": "true", "SLUICE_MEDIA_DOWNLOADS": "false"}
    for environment, status in (({}, 204), (both, 403)):
        with make_server(environment=environment) as server:
            api = API(server.url, server.admin_key)
            url = api.created(5)
            assert api.patch(url, 0, b"hello").status_code == 204
            answer = requests.get(url, timeout=30)
            assert (answer.status_code, b"hello" in answer.content) == (status, False)


def test_content_by_the_upload_url_ends_with_the_key(make_server):
    environment = {"SLUICE_MEDIA_DOWNLOADS_BY_UPLOAD_URL": "true", "SLUICE_UPLOADS_REVOKE_WITH_KEY": "true"}
    with make_server(environment=environment) as server:
        api = API(server.url, server.admin_key)
        key = api.post("/v1/keys", {"name": "one", "scopes": ["upload"]}).json()
        url = api.created(5, key=key["secret"])
        assert api.patch(url, 0, b"hello").status_code == 204
        assert requests.get(url, timeout=30).content == b"hello"
        assert api.request("DELETE", f"/v1/keys/{key['id']}").status_code == 204
        assert requests.get(url, timeout=30).status_code == 403
