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
