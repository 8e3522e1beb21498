"""Lifecycle rules of buckets: objects expire, and old multipart uploads are aborted."""

import re

import oss2
import pytest
from botocore.exceptions import ClientError

from harness import clock
from harness.api import API
from harness.daemon import free_port
from harness.object_client import ObjectServer
from harness.wire import until

DAY = 86_400
BUCKET = "uploads"


@pytest.fixture
def server(tmp_path):
    # Uploads do not expire by themselves.
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_UPLOADS_EXPIRE_AFTER": "0"}) as one:
        yield one


def rule(prefix, **actions):
    return {"Status": "Enabled", "Filter": {"Prefix": prefix}} | actions


def later(server, days):
    """Runs the gateway so many days ahead until it has applied the rules, and then again in the present."""
    server.stop()
    before = len(server.log.read_text())
    usual = dict(server.environment)
    server.environment |= clock.shifted(days * DAY)
    server.start()
    until(lambda: "applied lifecycle rules" in server.log.read_text()[before:])
    text = API(server.url, server.admin_key).get("/metrics").text
    server.stop()
    server.environment = usual
    server.start()
    return dict(re.findall(r'^sluice_lifecycle_removed_total\{what="(\w+)"\} (\d+)$', text, re.M))


def test_rules_are_applied(server):
    s3 = server.client()
    for key in ("tmp/a", "tmp/b", "kept/a"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"hello")
    uploads = {key: s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"] for key in ("tmp/m", "kept/m")}
    for key, upload in uploads.items():
        s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=b"part")
    rules = [
        rule("tmp/", Expiration={"Days": 5}) | {"ID": "objects"},
        rule("tmp/", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}) | {"ID": "uploads"},
        rule("kept/", Expiration={"Days": 1}) | {"Status": "Disabled", "ID": "off"},
    ]
    s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": rules})
    assert later(server, 3) == {"upload": "1"}
    s3 = server.client()
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["kept/a", "tmp/a", "tmp/b"]
    assert [one["Key"] for one in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]] == ["kept/m"]
    with pytest.raises(ClientError, match="NoSuchUpload"):
        s3.upload_part(Bucket=BUCKET, Key="tmp/m", UploadId=uploads["tmp/m"], PartNumber=2, Body=b"part")
    assert later(server, 6) == {"object": "2"}
    s3 = server.client()
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["kept/a"]
    assert s3.get_object(Bucket=BUCKET, Key="kept/a")["Body"].read() == b"hello"
    # Nothing of them is left on the disk.
    files = (path for path in (server.data / "blobs").rglob("*") if path.is_file())
    assert len({path.name.partition(".")[0] for path in files}) == 2


def test_rules_of_oss(server):
    bucket = oss2.Bucket(oss2.Auth(*server.pair()), server.object_url, BUCKET, is_path_style=True)
    bucket.put_object("tmp/a", b"hello")
    bucket.put_object("tmp/b", b"hello", headers={"x-oss-tagging": "keep=yes"})
    bucket.init_multipart_upload("tmp/m")
    rules = [
        oss2.models.LifecycleRule(
            "a",
            "tmp/",
            expiration=oss2.models.LifecycleExpiration(days=1),
            abort_multipart_upload=oss2.models.AbortMultipartUpload(days=1),
        )
    ]
    bucket.put_bucket_lifecycle(oss2.models.BucketLifecycle(rules))
    (found,) = bucket.get_bucket_lifecycle().rules
    assert (found.id, found.prefix, found.expiration.days, found.abort_multipart_upload.days) == ("a", "tmp/", 1, 1)
    assert later(server, 3) == {"object": "2", "upload": "1"}


def test_what_is_refused(server):
    s3 = server.client()
    transition = {"Days": 1, "StorageClass": "GLACIER"}
    for wrong, code in (
        (rule("", Transitions=[transition]), "NotImplemented"),
        (rule("", Expiration={"Days": 0}), "InvalidArgument"),
        (rule(""), "InvalidRequest"),
    ):
        with pytest.raises(ClientError) as refused:
            s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [wrong]})
        assert refused.value.response["Error"]["Code"] == code
    with pytest.raises(ClientError, match="NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)
