"""What SDKs of OSS and COS ask of the object endpoint beside uploads: listings, copies, conditions, tags, URLs."""

import base64
import hashlib
import hmac
import io
import re
import socket
from email.utils import formatdate

import alibabacloud_oss_v2 as oss_v2
import oss2
import pytest
import requests

from harness import hosts, object_client
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.minio_go import MinioGo
from harness.object_client import ObjectServer, minted
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import DIALECTS, COSCalls, OSS4Calls, OSSCalls, refusal
from harness.wire import Wire, head

BUCKET = "media-1250000000"
ACTIONS = ["upload", "read", "delete"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_OBJECT_BUCKETS": BUCKET, "SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values())}
    with ObjectServer(tmp_path_factory.mktemp("vendors") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture
def make(gateway, request, monkeypatch):
    """Makes a client that may do all below a prefix of its own, which is its `prefix`."""
    port = int(gateway.object_url.rsplit(":", 1)[1])
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({domain: port for domain in DOMAINS.values()}))

    def client(calls):
        prefix = f"{request.node.name}/"
        held = minted(gateway, calls.format, bucket=BUCKET, keyPrefix=prefix, actions=ACTIONS)
        made = calls(port, BUCKET, held)
        made.prefix = prefix
        return made

    return client


@pytest.fixture(params=[OSSCalls, OSS4Calls], ids=["v1", "v4"])
def oss(make, request):
    return make(request.param)


@pytest.fixture
def cos(make):
    return make(COSCalls)


def md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


KEYS = ["ü ñ 漢/字.bin", "a+b%20c", "x//y", "/x", "x/", "q?x=1&y", "tilde~'()*!", " x", "<&>\"'", "😀", "e\u0301"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_keys_are_kept_byte_by_byte(make, dialect):
    client = make(DIALECTS[dialect])
    for number, name in enumerate(KEYS):
        key = client.prefix + name
        client.put(key, b"%d" % number)
        assert client.get(key) == b"%d" % number
        client.head(key)
        client.delete(key)
        assert client.code("get", key) == (404, "NoSuchKey")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tags(make, dialect):
    client = make(DIALECTS[dialect])
    key = client.prefix + "tagged"
    client.put(key)
    for value in ("1", "2"):
        if dialect == "s3":
            tags = {"TagSet": [{"Key": "a", "Value": value}]}
            client.s3.put_object_tagging(Bucket=BUCKET, Key=key, Tagging=tags)
            assert client.s3.get_object_tagging(Bucket=BUCKET, Key=key)["TagSet"] == tags["TagSet"]
        elif dialect == "cos":
            tags = [{"Key": "a", "Value": value}]
            client.cos.put_object_tagging(BUCKET, key, {"TagSet": {"Tag": tags}})
            assert client.cos.get_object_tagging(BUCKET, key)["TagSet"]["Tag"] == tags
        else:
            rule = oss2.models.TaggingRule()
            rule.add("a", value)
            client.oss.put_object_tagging(key, oss2.models.Tagging(rule))
            assert client.oss.get_object_tagging(key).tag_set.tagging_rule == {"a": value}
    assert client.get(key) == b"1"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_presigned_urls(make, dialect):
    client = make(DIALECTS[dialect])
    key = client.prefix + "é +~.bin"
    answer = requests.put(client.presigned(key, 60), data=b"presigned", timeout=10)
    assert refusal(answer) is None
    assert client.get(key) == b"presigned"


def put_with(client, dialect, key, name):
    """Uploads with a further header field, which is signed."""
    if dialect == "s3":

        def add(request, **_):
            request.headers.add_header(name, "1")

        client.s3.meta.events.register("before-sign.s3.PutObject", add)
        client.put(key)
    elif dialect == "cos":
        client.cos.put_object(BUCKET, b"1", key, Metadata={name: "1"})
    else:
        client.put(key, **{name: "1"})


HARMLESS = {
    "s3": ["x-amz-request-payer", "x-amz-te", "x-amz-made-up"],
    "cos": ["x-cos-sdk-retry", "x-cos-traffic-limit", "x-cos-made-up"],
}
MEANT = {
    "s3": ["x-amz-rename-source", "x-amz-made-up-acl"],
    "cos": ["x-cos-server-side-encryption", "x-cos-made-up-acl"],
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_header_fields_that_are_not_heeded_are_refused_unless_they_are_harmless(make, dialect):
    # The newest VOD SDK for browsers sends x-oss-md5.
    harmless = HARMLESS.get(dialect, ["x-oss-request-payer", "x-oss-traffic-limit", "x-oss-md5", "x-oss-made-up"])
    meant = MEANT.get(dialect, ["x-oss-server-side-encryption", "x-oss-made-up-acl"])
    for name in harmless:
        client = make(DIALECTS[dialect])
        put_with(client, dialect, client.prefix + name, name)
        client.head(client.prefix + name)
    for name in meant:
        client = make(DIALECTS[dialect])
        key = client.prefix + name
        with pytest.raises(client.refusals) as caught:
            put_with(client, dialect, key, name)
        status = 400 if dialect.startswith("oss") else 501
        assert client.refusal(caught.value) == (status, "NotImplemented")
        assert make(DIALECTS[dialect]).code("get", key) == (404, "NoSuchKey")


# Vendors refuse them; letters of all languages are allowed.
WRONG_TAGS = [
    ({"key1&": "v"}, "InvalidTag"),
    ({"k": "a,b"}, "InvalidTag"),
    ({"k": "#1"}, "InvalidTag"),
    ({f"k{number}": "v" for number in range(11)}, None),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tags_that_are_not_allowed(make, dialect):
    client = make(DIALECTS[dialect])
    key = client.prefix + "tagged"
    client.put(key)

    def tag(tags):
        pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
        if dialect == "s3":
            client.s3.put_object_tagging(Bucket=BUCKET, Key=key, Tagging={"TagSet": pairs})
        elif dialect == "cos":
            client.cos.put_object_tagging(BUCKET, key, {"TagSet": {"Tag": pairs}})
        else:
            rule = oss2.models.TaggingRule()
            rule.tagging_rule = tags
            client.oss.put_object_tagging(key, oss2.models.Tagging(rule))

    tag({"größe 日本": "a+b-c=d.e_f:g/h@i"})
    for tags, code in WRONG_TAGS:
        with pytest.raises(client.refusals) as caught:
            tag(tags)
        many = "BadRequest" if dialect.startswith("oss") else "InvalidTag"
        assert client.refusal(caught.value) == (400, code or many), tags


@pytest.mark.parametrize("tags, code", [("key1%26=v", "InvalidTag"), ("a=1&a=2", "InvalidArgument")])
def test_oss_tags_in_a_header(oss, tags, code):
    assert oss.code("put", oss.prefix + "a", **{"x-oss-tagging": tags}) == (400, code)
    many = "&".join(f"k{number}=v" for number in range(11))
    assert oss.code("put", oss.prefix + "a", **{"x-oss-tagging": many}) == (400, "BadRequest")
    oss.put(oss.prefix + "a", **{"x-oss-tagging": "a%2B=%C3%BC"})


# OSS


def test_oss_lists_in_pages_and_by_folders(oss):
    prefix = oss.prefix
    names = ["a", "b/1", "b/2", "c d", "é"]
    for name in names:
        oss.put(prefix + name)
    for iterator in (oss2.ObjectIterator, oss2.ObjectIteratorV2):
        for size in (1, 2, 100):
            found = [one.key for one in iterator(oss.oss, prefix=prefix, max_keys=size)]
            assert found == [prefix + name for name in names]
            folders = {one.key: one.is_prefix() for one in iterator(oss.oss, prefix, delimiter="/", max_keys=size)}
            assert folders == {prefix + name: name == "b/" for name in ("a", "b/", "c d", "é")}
    keys = [prefix + name for name in names]
    assert sorted(oss.oss.batch_delete_objects(keys).deleted_keys) == sorted(keys)
    assert oss.oss.list_objects(prefix).object_list == []


def test_oss_has_no_content_after_a_quiet_deletion(oss):
    """The SDK in C++ takes each document for the list of what is left."""
    oss.put(oss.prefix + "a")
    for key, left in ((oss.prefix + "a", False), (oss.prefix + "none", False), ("other/a", True)):
        document = f"<Delete><Quiet>true</Quiet><Object><Key>{key}</Key></Object></Delete>".encode()
        fields = {"Content-MD5": md5(document)}
        answer = oss.oss._do("POST", BUCKET, "", data=document, params={"delete": ""}, headers=fields)
        text = answer.read()
        assert answer.status == 200
        assert (b"<Code>AccessDenied</Code>" in text) if left else (text == b""), key
    assert oss.oss.list_objects(oss.prefix).object_list == []


def test_oss_copies_and_conditions(oss):
    key, copy = oss.prefix + "source", oss.prefix + "copy"
    put = oss.put(key, b"0123456789", **{"Content-Type": "text/x", "x-oss-meta-a": "1"})
    oss.oss.copy_object(BUCKET, key, copy)
    head = oss.head(copy)
    assert (head.content_type, head.headers["x-oss-meta-a"], head.etag) == ("text/x", "1", put.etag)
    assert oss.oss.get_object(copy, byte_range=(2, 4)).read() == b"234"
    # Metadata is changed by a copy to itself, as update_object_meta does, whatever the directive says.
    for directive, value in (("COPY", "2"), ("REPLACE", "3")):
        changes = {"x-oss-metadata-directive": directive, "x-oss-meta-a": value}
        oss.oss.copy_object(BUCKET, key, key, headers=changes)
        assert oss.head(key).headers["x-oss-meta-a"] == value
    oss.oss.update_object_meta(key, {"x-oss-meta-a": "4"})
    assert (oss.head(key).headers["x-oss-meta-a"], oss.get(key)) == ("4", b"0123456789")
    # The SDK takes the quotation marks off, and sends the tag without.
    assert oss.oss.get_object(copy, headers={"If-Match": put.etag}).read() == b"0123456789"
    with pytest.raises(oss2.exceptions.NotModified):
        oss.oss.get_object(copy, headers={"If-None-Match": put.etag})
    with pytest.raises(oss2.exceptions.PreconditionFailed):
        oss.oss.get_object(copy, headers={"If-Match": "0" * 32})
    assert oss.code("put", copy, **{"x-oss-forbid-overwrite": "true"}) == (409, "FileAlreadyExists")
    assert (oss.oss.object_exists(copy), oss.oss.object_exists(oss.prefix + "none")) == (True, False)


def test_oss_keys_have_at_most_1023_bytes(oss):
    key = oss.prefix.ljust(1023, "A")
    oss.put(key)
    assert oss.get(key) == b"1"
    assert oss.code("put", key + "A") == (400, "InvalidObjectName")
    with pytest.raises(oss2.exceptions.OssError) as caught:
        oss.oss.copy_object(BUCKET, key + "A", oss.prefix + "copy")
    assert (caught.value.status, caught.value.code) == (400, "InvalidObjectName")


@pytest.mark.parametrize("name, refused", [("x-param-null", None), ("param-null", (400, "NotImplemented"))])
def test_a_bare_parameter_of_a_client_is_no_subresource(oss, name, refused):
    """The tests of the SDK in C++ send one with an object."""
    key = oss.prefix + "k"
    if refused is None:
        assert oss.oss._do("PUT", BUCKET, key, data=b"q", params={name: ""}).status == 200
        assert oss.get(key) == b"q"
        return
    with pytest.raises(oss2.exceptions.OssError) as caught:
        oss.oss._do("PUT", BUCKET, key, data=b"q", params={name: ""})
    assert (caught.value.status, caught.value.code) == refused


def test_oss_ranges_beyond_the_object(oss):
    key = oss.prefix + "ranges"
    oss.put(key, b"0123456789")

    def read(byte_range, **fields):
        found = oss.oss.get_object(key, byte_range=byte_range, headers=fields)
        return found.status, found.content_range, found.read()

    whole = (200, None, b"0123456789")
    assert read((5, 9)) == (206, "bytes 5-9/10", b"56789")
    assert [read(beyond) for beyond in [(5, 20), (10, None), (10, 20), (None, 11)]] == [whole] * 4
    standard = {"x-oss-range-behavior": "standard"}
    assert read((5, 20), **standard) == (206, "bytes 5-9/10", b"56789")
    assert read((None, 11), **standard) == (206, "bytes 0-9/10", b"0123456789")
    with pytest.raises(oss2.exceptions.ServerError) as caught:
        read((10, None), **standard)
    assert (caught.value.status, caught.value.code) == (416, "InvalidRange")
    assert read(None, Range="byte=0-1") == whole
    assert read(None, Range="bytes=2-3,5-6") == (206, "bytes 2-3/10", b"23")


def test_oss_appends(oss):
    key = oss.prefix + "appended"
    first = oss.oss.append_object(key, 0, b"abc", init_crc=0)
    oss.oss.append_object(key, first.next_position, b"def", init_crc=first.crc)
    assert oss.get(key) == b"abcdef"
    with pytest.raises(oss2.exceptions.PositionNotEqualToLength) as caught:
        oss.oss.append_object(key, 3, b"x")
    assert caught.value.next_position == 6


def test_oss_parts_that_are_copied_and_listed_in_pages(oss):
    source, key = oss.prefix + "source", oss.prefix + "parts é"
    pieces = [content(100 * KIB, number) for number in range(3)]
    oss.put(source, b"".join(pieces))
    upload = oss.create(key)
    oss.part(key, upload, 1, pieces[0])
    copied = oss.oss.upload_part_copy(BUCKET, source, (100 * KIB, 200 * KIB - 1), key, upload, 2)
    # ali-oss lists it from the field to complete the upload (multipartUploadCopy).
    assert copied.etag == hashlib.md5(pieces[1]).hexdigest().upper()
    oss.part(key, upload, 3, b"end")
    assert [(one.key, one.upload_id) for one in oss2.MultipartUploadIterator(oss.oss, prefix=key)] == [(key, upload)]
    parts = list(oss2.iterators.PartIterator(oss.oss, key, upload, max_parts=1))
    assert [(part.part_number, part.size) for part in parts] == [(1, 100 * KIB), (2, 100 * KIB), (3, 3)]
    oss.oss.complete_multipart_upload(key, upload, parts)
    assert oss.get(key) == pieces[0] + pieces[1] + b"end"


def test_parts_whose_length_only_their_end_tells(make):
    """The Ruby SDK sends all parts like this, and Java's with `setUseChunkEncoding`."""

    def in_chunks(data):
        yield from (data[start : start + 10_000] for start in range(0, len(data), 10_000))

    pieces = [content(2 * MIB, 1), content(2 * MIB, 2), b"end"]
    for calls in (OSSCalls, OSS4Calls, COSCalls):
        client = make(calls)
        key = client.prefix + "chunked"
        upload = client.create(key)
        parts = []
        for number, piece in enumerate(pieces, 1):
            if calls is COSCalls:
                tag = client.cos.upload_part(BUCKET, key, in_chunks(piece), number, upload)["ETag"]
            else:
                tag = client.oss.upload_part(key, upload, number, in_chunks(piece)).etag
            parts.append((number, tag))
        client.complete(key, upload, parts)
        assert client.get(key) == b"".join(pieces)


def test_oss_v2(make):
    """The newer SDK, which asks for keys to be encoded everywhere."""
    old = make(OSS4Calls)
    config = oss_v2.config.load_default()
    config.credentials_provider = oss_v2.credentials.StaticCredentialsProvider(*old.credentials)
    config.region, config.endpoint = "cn-shanghai", f"http://{DOMAINS['oss']}"
    config.retry_max_attempts = 1
    client = oss_v2.Client(config)
    key, copy = old.prefix + "é +<&>", old.prefix + "copy"
    put = client.put_object(oss_v2.PutObjectRequest(BUCKET, key, body=b"abc", metadata={"a": "1"}))
    assert put.content_md5 == md5(b"abc")
    client.copy_object(oss_v2.CopyObjectRequest(BUCKET, copy, source_key=key))
    assert client.head_object(oss_v2.HeadObjectRequest(BUCKET, copy)).metadata == {"a": "1"}
    assert client.append_object(oss_v2.AppendObjectRequest(BUCKET, f"{key}2", position=0, body=b"x")).next_position == 1
    pages = client.list_objects_paginator().iter_page(oss_v2.ListObjectsRequest(BUCKET, prefix=old.prefix, max_keys=1))
    assert [one.key for page in pages for one in page.contents or []] == [copy, key, f"{key}2"]
    for request in (oss_v2.PutObjectRequest(BUCKET, key), oss_v2.GetObjectRequest(BUCKET, key)):
        signed = client.presign(request)
        answer = requests.request(signed.method, signed.url, headers=signed.signed_headers, data=b"", timeout=10)
        assert refusal(answer) is None
    upload = client.initiate_multipart_upload(oss_v2.InitiateMultipartUploadRequest(BUCKET, key)).upload_id
    part = oss_v2.UploadPartRequest(BUCKET, key, part_number=1, upload_id=upload, body=b"part")
    assert client.upload_part(part).content_md5 == md5(b"part")
    client.abort_multipart_upload(oss_v2.AbortMultipartUploadRequest(BUCKET, key, upload_id=upload))
    objects = [oss_v2.DeleteObject(key=one) for one in (key, copy, f"{key}2")]
    deleted = client.delete_multiple_objects(oss_v2.DeleteMultipleObjectsRequest(BUCKET, objects=objects))
    assert [one.key for one in deleted.deleted_objects] == [key, copy, f"{key}2"]
    assert (client.is_object_exist(BUCKET, key), client.is_bucket_exist(BUCKET)) == (False, True)


# COS


def test_cos_lists_in_pages_and_by_folders(cos):
    prefix = cos.prefix
    names = ["a", "b/1", "b/2", "c d", "é"]
    for name in names:
        cos.put(prefix + name)
    page = cos.cos.list_objects(BUCKET, Prefix=prefix, Delimiter="/")
    assert [one["Key"] for one in page["Contents"]] == [prefix + name for name in ("a", "c d", "é")]
    assert [one["Prefix"] for one in page["CommonPrefixes"]] == [f"{prefix}b/"]
    objects = [{"Key": prefix + name} for name in names]
    assert cos.cos.delete_objects(BUCKET, {"Object": objects})["Deleted"] == objects
    assert "Contents" not in cos.cos.list_objects(BUCKET, Prefix=prefix)


def test_cos_copies_and_conditions(cos):
    key, copy = cos.prefix + "source", cos.prefix + "copy"
    put = cos.cos.put_object(BUCKET, b"0123456789", key, Metadata={"x-cos-meta-a": "1"}, ContentType="text/x")
    cos.cos.copy_object(BUCKET, copy, {"Bucket": BUCKET, "Key": key, "Endpoint": DOMAINS["cos"]})
    head = cos.head(copy)
    assert (head["Content-Type"], head["x-cos-meta-a"], head["ETag"]) == ("text/x", "1", put["ETag"])
    got = cos.cos.get_object(BUCKET, copy, Range="bytes=2-4", ResponseContentType="text/y")
    assert (got["Body"].get_raw_stream().read(), got["Content-Type"]) == (b"234", "text/y")
    for tag in (put["ETag"], put["ETag"].strip('"')):
        assert cos.cos.get_object(BUCKET, copy, IfMatch=tag)["ETag"] == put["ETag"]
    assert cos.cos.object_exists(BUCKET, copy) and not cos.cos.object_exists(BUCKET, cos.prefix + "none")


def test_cos_parts_that_are_copied_and_listed_in_pages(cos):
    source, key = cos.prefix + "source", cos.prefix + "parts é"
    pieces = [content(MIB, number) for number in range(2)]
    cos.put(source, b"".join(pieces))
    upload = cos.create(key)
    cos.part(key, upload, 1, pieces[0])
    copied = {"Bucket": BUCKET, "Key": source, "Endpoint": DOMAINS["cos"]}
    cos.cos.upload_part_copy(BUCKET, key, 2, upload, copied, CopySourceRange=f"bytes={MIB}-{2 * MIB - 1}")
    cos.part(key, upload, 3, b"end")
    listed = cos.cos.list_multipart_uploads(BUCKET, Prefix=key)["Upload"]
    assert [(one["Key"], one["UploadId"]) for one in listed] == [(key, upload)]
    first = cos.cos.list_parts(BUCKET, key, upload, MaxParts=2)
    assert (first["IsTruncated"], first["NextPartNumberMarker"]) == ("true", "2")
    rest = cos.cos.list_parts(BUCKET, key, upload, PartNumberMarker=2)
    # Clients on phones go on as long as there is a marker.
    assert rest["IsTruncated"] == "false" and not rest.get("NextPartNumberMarker")
    parts = [(int(part["PartNumber"]), part["ETag"]) for part in first["Part"] + rest["Part"]]
    cos.complete(key, upload, parts)
    assert cos.get(key) == b"".join(pieces) + b"end"


def test_cos_uploads_from_a_stream(cos):
    data = content(2 * MIB + 5, 3)
    cos.cos.upload_file_from_buffer(BUCKET, cos.prefix + "stream", io.BytesIO(data), PartSize=1)
    assert cos.get(cos.prefix + "stream") == data


def test_administrators_have_buckets_in_each_dialect(gateway, make):
    pair = gateway.pair()
    service = oss2.Service(oss2.make_auth(*pair, auth_version="v4"), gateway.object_url, region="cn-shanghai")
    for name, calls in DIALECTS.items():
        client = make(calls)
        bucket = f"made-by-{name}-1250000000"
        admin = calls(client.port, bucket, (*pair, None))
        if name == "s3":
            admin.s3.create_bucket(Bucket=bucket)
        elif name == "cos":
            admin.cos.create_bucket(bucket)
        else:
            admin.oss.create_bucket()
        admin.put("a")
        assert bucket in [one.name for one in oss2.BucketIterator(service)]
        assert bucket in [one.name for one in oss2.BucketIterator(service, prefix="made-by-", max_keys=1)]
        assert bucket not in [one.name for one in oss2.BucketIterator(service, prefix="other-", max_keys=1)]
        assert object_client.code(gateway.client().delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")


def test_the_oss_sdk_in_cpp_lists_buckets_with_two_slashes(gateway):
    """Where the endpoint is an address; it signs the resource `/`."""
    identifier, secret = gateway.pair()
    date = formatdate(usegmt=True)
    signature = base64.b64encode(hmac.digest(secret.encode(), f"GET\n\n\n{date}\n/".encode(), "sha1")).decode()
    fields = f"Date: {date}\r\nAuthorization: OSS {identifier}:{signature}\r\n"
    host, _, port = gateway.object_url.rpartition("//")[2].partition(":")
    with Wire((host, int(port))) as wire:
        wire.send(f"GET //?max-keys=1 HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode())
        answer = wire.reply()
    assert answer.status == 200, answer
    assert b"<ListAllMyBucketsResult>" in answer.body


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_oss_creates_a_bucket_as_ossutil_does(gateway, version):
    auth = oss2.make_auth(*gateway.pair(), auth_version=version)
    bucket = oss2.Bucket(auth, gateway.object_url, f"by-ossutil-{version}", region="cn-shanghai")
    # Its SDK for Go names the class of the storage in each request, and the owner of a bucket may repeat it.
    for _ in range(2):
        bucket.create_bucket(input=oss2.models.BucketCreateConfig("Standard"))
    bucket.create_bucket(oss2.BUCKET_ACL_PRIVATE, oss2.models.BucketCreateConfig("Standard", "LRS"))
    for other in [("IA",), ("Standard", "ZRS")]:
        with pytest.raises(oss2.exceptions.OssError) as caught:
            bucket.create_bucket(input=oss2.models.BucketCreateConfig(*other))
        assert (caught.value.status, caught.value.code) == (400, "NotImplemented"), other


def test_access_rights_that_everything_has_can_be_set(gateway, make):
    pair = (*gateway.pair(), None)
    port = make(OSSCalls).port
    for calls in (OSSCalls, OSS4Calls):
        oss = calls(port, BUCKET, pair)
        oss.put("own")
        oss.oss.put_bucket_acl("private")
        for acl in ("private", "default"):
            oss.oss.put_object_acl("own", acl)
        refused = [
            (400, "InvalidArgument", oss.oss.put_bucket_acl, "default"),
            (400, "InvalidArgument", oss.oss.put_object_acl, "own", "public-read"),
            (400, "InvalidArgument", oss.oss.put_bucket_acl, "public-read"),
            (404, "NoSuchKey", oss.oss.put_object_acl, "none", "private"),
        ]
        for status, code, call, *arguments in refused:
            with pytest.raises(oss2.exceptions.OssError) as caught:
                call(*arguments)
            assert (caught.value.status, caught.value.code) == (status, code)
        with pytest.raises(oss2.exceptions.OssError) as caught:
            oss.oss._do("PUT", BUCKET, "own", params={"acl": ""})
        assert (caught.value.status, caught.value.code) == (400, "MissingArgument")
    cos = COSCalls(port, BUCKET, pair)
    cos.cos.put_bucket_acl(BUCKET, ACL="private")
    cos.cos.put_object_acl(BUCKET, "own", ACL="private")
    with pytest.raises(cos.refusals) as caught:
        cos.cos.put_object_acl(BUCKET, "own", ACL="public-read")
    assert cos.refusal(caught.value) == (400, "InvalidArgument")
    # S3 refuses them for buckets without access control lists.
    s3 = gateway.client()
    assert object_client.code(s3.put_object_acl, Bucket=BUCKET, Key="own", ACL="private") == (
        400,
        "AccessControlListNotSupported",
    )


def test_oss_names_the_location_of_a_bucket_with_a_prefix(gateway):
    bucket = oss2.Bucket(oss2.Auth(*gateway.pair()), gateway.object_url, BUCKET)
    location = f"oss-{object_client.REGION}"
    assert bucket.get_bucket_location().location == bucket.get_bucket_info().location == location
    assert {one.location for one in oss2.BucketIterator(oss2.Service(bucket.auth, gateway.object_url))} == {location}


def test_oss_reads_the_fields_of_cors_rules_in_lower_case(gateway):
    bucket = oss2.Bucket(oss2.Auth(*gateway.pair()), gateway.object_url, "by-oss-cors")
    bucket.create_bucket()
    rule = oss2.models.CorsRule(["https://a.example"], ["PUT"], ["X-Oss-Test", "*"], ["ETag"], 9)
    bucket.put_bucket_cors(oss2.models.BucketCors([rule]))
    found = bucket.get_bucket_cors().rules[0]
    assert (found.allowed_origins, found.allowed_methods) == (["https://a.example"], ["PUT"])
    assert (found.allowed_headers, found.expose_headers) == (["x-oss-test", "*"], ["ETag"])
    assert found.max_age_seconds == 9


def test_who_may_not_write_sets_no_access_rights(gateway, make):
    oss = make(OSSCalls)
    oss.put(oss.prefix + "a")
    held = minted(gateway, "aliyun", bucket=BUCKET, keyPrefix=oss.prefix, actions=["read"])
    reader = OSSCalls(oss.port, BUCKET, held)
    for call in (
        lambda: reader.oss.put_object_acl(oss.prefix + "a", "private"),
        lambda: oss.oss.put_bucket_acl("private"),
    ):
        with pytest.raises(oss2.exceptions.OssError) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (403, "AccessDenied")


def test_an_empty_version_is_none(cos):
    # COS's SDK for Go downloads each part so.
    key = cos.prefix + "parts"
    cos.put(key, b"0123456789")
    found = cos.cos.get_object(BUCKET, key, Range="bytes=2-4", VersionId="")
    assert found["Body"].get_raw_stream().read() == b"234"
    assert cos.cos.head_object(BUCKET, key, VersionId="")["Content-Length"] == "10"
    with pytest.raises(cos.refusals) as caught:
        cos.cos.get_object(BUCKET, key, VersionId="1")
    assert cos.refusal(caught.value) == (501, "NotImplemented")


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_oss_reads_what_no_bucket_has(gateway, version):
    """As consoles and Terraform do: each answer has the class that the SDK knows, and what is counted is right."""
    auth = oss2.make_auth(*gateway.pair(), auth_version=version)
    bucket = oss2.Bucket(auth, gateway.object_url, f"bare-{version}", region="cn-shanghai")
    bucket.create_bucket()
    assert bucket.get_bucket_stat().object_count == 0
    bucket.put_object("a", b"abc")
    bucket.put_object("b/c", b"de")
    bucket.init_multipart_upload("parts")
    stat = bucket.get_bucket_stat()
    assert (stat.object_count, stat.storage_size_in_bytes, stat.multi_part_upload_count) == (2, 5, 1)
    assert [one.key for one in bucket.list_object_versions().versions] == ["a", "b/c"]
    known = oss2.exceptions
    for absent, call in [
        (known.NoSuchBucketPolicy, bucket.get_bucket_policy),
        (known.NoSuchCors, bucket.get_bucket_cors),
        (known.NoSuchLifecycle, bucket.get_bucket_lifecycle),
        (known.NoSuchServerSideEncryptionRule, bucket.get_bucket_encryption),
        (known.NoSuchTransferAccelerationConfiguration, bucket.get_bucket_transfer_acceleration),
        (known.NoSuchWebsite, bucket.get_bucket_website),
        (known.NoSuchWORMConfiguration, bucket.get_bucket_worm),
        (known.NoSuchReplicationRule, lambda: bucket.get_bucket_replication_progress("none")),
    ]:
        with pytest.raises(absent):
            call()
    with pytest.raises(known.ServerError) as caught:
        bucket.get_bucket_style("none")
    assert (caught.value.status, caught.value.code) == (404, "NoSuchStyle")
    domains = bucket.list_bucket_cname()
    assert (domains.bucket, domains.cname) == (f"bare-{version}", [])
    assert bucket.list_bucket_style().styles == []
    assert bucket.list_bucket_access_points().access_points == []
    assert bucket.list_bucket_data_redundancy_transition().data_redundancy_transitions == []
    assert bucket.get_bucket_replication_location().location_list == []
    assert bucket.get_bucket_storage_capacity().storage_capacity == -1
    assert bucket.get_bucket_qos_info().total_qps == -1
    assert bucket.get_bucket_resource_group().resource_group_id == "rg-default-id"
    assert bucket.get_bucket_access_monitor().access_monitor.status == "Disabled"
    assert bucket.get_bucket_archive_direct_read().enabled is False
    assert bucket.get_bucket_https_config().tls_enabled is False
    assert bucket.get_bucket_logging().target_bucket == ""
    assert bucket.get_bucket_referer().referers == []
    assert bucket.get_bucket_request_payment().payer == "BucketOwner"
    assert bucket.get_bucket_tagging().tag_set.tagging_rule == {}
    assert bucket.get_bucket_versioning().status is None
    for delete in (bucket.delete_bucket_policy, bucket.delete_bucket_tagging, bucket.delete_bucket_website):
        assert delete().status == 204
    for refused in (
        lambda: bucket.put_bucket_policy("{}"),
        lambda: bucket.put_bucket_referer(oss2.models.BucketReferer(False, ["https://a.example"])),
    ):
        with pytest.raises(known.OssError) as caught:
            refused()
        assert (caught.value.status, caught.value.code) == (400, "NotImplemented")


def test_cos_reads_what_no_bucket_has(gateway, make):
    port = make(COSCalls).port
    admin = COSCalls(port, BUCKET, (*gateway.pair(), None))
    cos = admin.cos
    for code, call in [
        ("NoSuchTagSet", cos.get_bucket_tagging),
        ("NoSuchWebsiteConfiguration", cos.get_bucket_website),
        ("NoSuchEncryptionConfiguration", cos.get_bucket_encryption),
        ("ReplicationConfigurationnotFoundError", cos.get_bucket_replication),
        ("NoSuchRefererConfiguration", cos.get_bucket_referer),
        ("NoSuchCORSConfiguration", cos.get_bucket_cors),
        ("NoSuchLifecycleConfiguration", cos.get_bucket_lifecycle),
        ("NoSuchPolicy", cos.get_bucket_policy),
        ("NoSuchConfiguration", cos.get_bucket_origin),
    ]:
        with pytest.raises(admin.refusals) as caught:
            call(BUCKET)
        assert admin.refusal(caught.value) == (404, code)
    assert cos.get_bucket_logging(BUCKET) == {"BucketLoggingStatus": None}
    assert cos.get_bucket_domain(BUCKET) == {"DomainConfiguration": None}
    assert cos.list_bucket_inventory_configurations(BUCKET) == {"IsTruncated": "false"}
    # The SDK does not sign its parameter.
    assert cos.list_bucket_intelligenttiering_configurations(BUCKET) == {"IsTruncated": "false"}
    for delete in (
        cos.delete_bucket_policy,
        cos.delete_bucket_tagging,
        cos.delete_bucket_website,
        cos.delete_bucket_origin,
    ):
        delete(BUCKET)


def test_sdks_in_c_delete_several_objects(make):
    # Their curl calls all content of a POST a form, and the bucket is in the host: nothing else is in the path.
    form = "application/x-www-form-urlencoded"
    cos, oss = make(COSCalls), make(OSSCalls)
    for number in range(3):
        cos.put(f"{cos.prefix}{number}", b"a")
    named = {"Object": [{"Key": f"{cos.prefix}{number}"} for number in range(2)]}
    answer = cos.cos.delete_objects(BUCKET, Delete=named, ContentType=form)
    assert len(answer["Deleted"]) == 2
    # That of OSS states four bytes behind the digest, too.
    document = f"<Delete><Object><Key>{oss.prefix}2</Key></Object></Delete>".encode()
    padded = base64.b64encode(hashlib.md5(document).digest() + b"\x00L\x8b\x4c").decode()
    fields = {"Content-Type": form, "Content-MD5": padded}
    answer = oss.oss._do("POST", BUCKET, "", data=document, params={"delete": ""}, headers=fields)
    assert answer.status == 200
    fields["Content-MD5"] = base64.b64encode(bytes(20)).decode()
    with pytest.raises(oss.refusals) as caught:
        oss.oss._do("POST", BUCKET, "", data=document, params={"delete": ""}, headers=fields)
    assert oss.refusal(caught.value)[0] == 400
    assert [one.key for one in oss.oss.list_objects(oss.prefix).object_list] == []


@pytest.mark.parametrize("more", [0, 1, -1])
def test_the_oss_sdk_in_c_sends_a_length_beside_chunks(gateway, more):
    """The chunks alone count, and the connection ends: nothing behind them is a request."""
    identifier, secret = gateway.pair()
    key, kind = f"c/{more}", "application/octet-stream"
    date = formatdate(usegmt=True)
    text = f"PUT\n\n{kind}\n{date}\n/{BUCKET}/{key}"
    signature = base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()
    start = (
        f"PUT /{BUCKET}/{key} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: aliyun-sdk-c/3.11.2(Compatible Unknown)\r\n"
        f"Accept: */*\r\nTransfer-Encoding: chunked\r\nContent-Length: {14 + more}\r\nContent-Type: {kind}\r\n"
        f"Date: {date}\r\nAuthorization: OSS {identifier}:{signature}\r\n\r\n"
    )
    host, _, port = gateway.object_url.rpartition("//")[2].partition(":")
    with Wire((host, int(port))) as wire:
        wire.send(start.encode() + b"e\r\ntest oss c sdk\r\n0\r\n\r\n" + head("GET", "/"))
        answer = wire.reply()
        assert answer.status == 200, answer
        assert answer["connection"] == "close"
        assert wire.rest() == b""
    assert gateway.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"test oss c sdk"


def test_oss_keeps_8_kib_of_user_metadata(oss):
    """The SDK in C sends 5 KiB in its own tests; 8 KiB are the vendor's limit."""
    key, longest = oss.prefix + "described", "a" * (8 * KIB - len("user-meta"))
    oss.put(key, b"x", **{"x-oss-meta-user-meta": longest})
    assert oss.head(key).headers["x-oss-meta-user-meta"] == longest
    with pytest.raises(oss.refusals) as caught:
        oss.put(key, b"y", **{"x-oss-meta-user-meta": longest + "a"})
    assert oss.refusal(caught.value) == (400, "InvalidArgument")


@pytest.mark.parametrize("value, code", [("中文".encode("gbk"), 400), ("中文".encode(), 200)])
def test_oss_names_a_field_that_is_not_utf_8(gateway, value, code):
    """As clients in C and C++ on Windows send it. A phone takes 403 for wrong credentials."""
    identifier, secret = gateway.pair()
    date = formatdate(usegmt=True)
    text = f"PUT\n\n\n{date}\nx-oss-meta-n:".encode() + value + f"\n/{BUCKET}/gbk".encode()
    signature = base64.b64encode(hmac.digest(secret.encode(), text, "sha1")).decode()
    fields = f"Date: {date}\r\nAuthorization: OSS {identifier}:{signature}\r\nContent-Length: 0\r\nx-oss-meta-n: "
    host, _, port = gateway.object_url.rpartition("//")[2].partition(":")
    with Wire((host, int(port))) as wire:
        wire.send(f"PUT /{BUCKET}/gbk HTTP/1.1\r\nHost: {host}\r\n{fields}".encode() + value + b"\r\n\r\n")
        answer = wire.reply()
    assert answer.status == code, answer
    if code == 400:
        assert b"<Code>InvalidArgument</Code>" in answer.body and b"x-oss-meta-n" in answer.body


def test_oss_lists_no_parts_without_a_marker(oss):
    upload = oss.create(oss.prefix + "k")
    listed = oss.oss.list_parts(oss.prefix + "k", upload, max_parts=1)
    assert (listed.parts, listed.is_truncated, listed.next_marker) == ([], False, "")


def test_oss_completes_an_upload_without_parts(oss):
    """As the SDK in C expects, and as those do that cut an empty file into parts."""
    key = oss.prefix + "k"
    upload = oss.create(key)
    for _ in range(2):
        oss.complete(key, upload, [])
    assert oss.get(key) == b""


def test_cos_is_told_that_images_are_not_processed(cos):
    key = cos.prefix + "a.jpg"
    operations = '{"is_pic_info":1,"rules":[{"fileid":"b.png","rule":"imageMogr2/format/png"}]}'
    with pytest.raises(cos.refusals) as caught:
        cos.cos.put_object(BUCKET, b"1", key, PicOperations=operations)
    assert cos.refusal(caught.value) == (501, "NotImplemented")
    assert cos.code("get", key) == (404, "NoSuchKey")
    cos.put(key)
    session = {"x-cos-security-token": cos.token} if cos.token else {}
    for command in ("imageMogr2/thumbnail/!50p", "imageView2/1/w/100", "imageInfo", "watermark/2/text/YQ"):
        url = cos.cos.get_presigned_url(Bucket=BUCKET, Key=key, Method="GET", Params={command: ""} | session)
        assert refusal(requests.get(url, timeout=10)) == (501, "NotImplemented"), command


def test_cos_appends(cos):
    key = cos.prefix + "appended"
    first = cos.cos.append_object(BUCKET, key, 0, b"abc")
    assert first["x-cos-next-append-position"] == "3"
    assert cos.cos.append_object(BUCKET, key, 3, b"def")["x-cos-next-append-position"] == "6"
    assert cos.get(key) == b"abcdef"
    assert cos.cos.head_object(BUCKET, key)["x-cos-object-type"] == "appendable"
    with pytest.raises(cos.refusals) as caught:
        cos.cos.append_object(BUCKET, key, 3, b"x")
    assert cos.refusal(caught.value) == (409, "PositionNotEqualToLength")
    cos.put(key, b"new")
    with pytest.raises(cos.refusals) as caught:
        cos.cos.append_object(BUCKET, key, 3, b"x")
    assert cos.refusal(caught.value) == (409, "ObjectNotAppendable")


def test_s3_reads_what_no_bucket_has(gateway):
    s3 = gateway.client()
    for absent, call in [
        ("NoSuchBucketPolicy", s3.get_bucket_policy),
        ("NoSuchBucketPolicy", s3.get_bucket_policy_status),
        ("NoSuchTagSet", s3.get_bucket_tagging),
        ("NoSuchWebsiteConfiguration", s3.get_bucket_website),
        ("ServerSideEncryptionConfigurationNotFoundError", s3.get_bucket_encryption),
        ("ReplicationConfigurationNotFoundError", s3.get_bucket_replication),
        ("ObjectLockConfigurationNotFoundError", s3.get_object_lock_configuration),
        ("NoSuchPublicAccessBlockConfiguration", s3.get_public_access_block),
        ("NoSuchCORSConfiguration", s3.get_bucket_cors),
        ("NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration),
    ]:
        assert object_client.code(call, Bucket=BUCKET) == (404, absent)
        assert object_client.code(call, Bucket="none-1250000000") == (404, "NoSuchBucket")
    rules = s3.get_bucket_ownership_controls(Bucket=BUCKET)["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert s3.get_bucket_request_payment(Bucket=BUCKET)["Payer"] == "BucketOwner"
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=BUCKET)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=BUCKET)
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=BUCKET)
    assert s3.list_bucket_inventory_configurations(Bucket=BUCKET)["IsTruncated"] is False
    assert object_client.code(s3.get_bucket_inventory_configuration, Bucket=BUCKET, Id="a") == (
        404,
        "NoSuchConfiguration",
    )
    s3.delete_bucket_policy(Bucket=BUCKET)
    # What is not offered is refused, and never deletes the empty bucket.
    s3.create_bucket(Bucket="bare")
    for delete, expected, named in [
        (s3.delete_bucket_ownership_controls, (501, "NotImplemented"), {}),
        (s3.delete_bucket_inventory_configuration, (404, "NoSuchConfiguration"), {"Id": "a"}),
        (s3.delete_bucket_metrics_configuration, (404, "NoSuchConfiguration"), {"Id": "a"}),
        (s3.delete_bucket_analytics_configuration, (404, "NoSuchConfiguration"), {"Id": "a"}),
        (s3.delete_bucket_intelligent_tiering_configuration, (404, "NoSuchConfiguration"), {"Id": "a"}),
        (s3.delete_bucket_metadata_configuration, (501, "NotImplemented"), {}),
    ]:
        assert object_client.code(delete, Bucket="bare", **named) == expected
        s3.head_bucket(Bucket="bare")
    assert object_client.code(s3.put_bucket_policy, Bucket=BUCKET, Policy="{}") == (501, "NotImplemented")


def test_s3_names_the_account_that_owns_the_buckets(gateway):
    s3 = gateway.client()
    owner = gateway.client(service="sts").get_federation_token(Name="me")["FederatedUser"]["Arn"].split(":")[4]
    s3.put_object(Bucket=BUCKET, Key="owned", Body=b"a", ExpectedBucketOwner=owner)
    s3.copy_object(
        Bucket=BUCKET,
        Key="copied",
        CopySource=f"{BUCKET}/owned",
        ExpectedBucketOwner=owner,
        ExpectedSourceBucketOwner=owner,
    )
    for call in (s3.head_object, s3.delete_object):
        assert object_client.code(call, Bucket=BUCKET, Key="owned", ExpectedBucketOwner="123456789012")[0] == 403
    assert object_client.code(s3.list_objects_v2, Bucket=BUCKET, ExpectedBucketOwner="me") == (
        400,
        "InvalidBucketOwnerAWSAccountID",
    )
    assert s3.get_object(Bucket=BUCKET, Key="owned")["Body"].read() == b"a"


def test_minio_for_go(gateway):
    go = MinioGo(gateway)
    assert "LocationConstraint" in go("GET", f"/{BUCKET}/?location=").text
    small = content(200_000, 1)
    put = go("PUT", f"/{BUCKET}/go/a%20b/%C3%BC%2B.txt", small, True, Content_MD5=md5(small), X_Amz_Meta_X="y")
    assert put.headers["ETag"] == f'"{hashlib.md5(small).hexdigest()}"'
    go("PUT", f"/{BUCKET}/go/empty", b"", True)
    upload = re.search(r"<UploadId>(.+)</UploadId>", go("POST", f"/{BUCKET}/go/m?uploads=").text)[1]
    large = content(5 * MIB + 5, 2)
    listed = ""
    for number, part in enumerate((large[: 5 * MIB], large[5 * MIB :]), 1):
        tag = go("PUT", f"/{BUCKET}/go/m?partNumber={number}&uploadId={upload}", part, True).headers["ETag"]
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    document = f'<CompleteMultipartUpload xmlns="{space}">{listed}</CompleteMultipartUpload>'
    go("POST", f"/{BUCKET}/go/m?uploadId={upload}", document.encode(), Content_Type="application/octet-stream")
    assert go("GET", f"/{BUCKET}/go/m").content == large
    head = go("HEAD", f"/{BUCKET}/go/a%20b/%C3%BC%2B.txt").headers
    assert (head["Content-Length"], head["X-Amz-Meta-X"]) == ("200000", "y")
    assert "Content-Encoding" not in head
    for query in [
        "delimiter=&encoding-type=url&fetch-owner=true&list-type=2&prefix=go%2F",
        "delimiter=&encoding-type=url&prefix=go%2F&versions=",
        "delimiter=&encoding-type=url&prefix=go%2F",
    ]:
        keys = re.findall(r"<Key>(.+?)</Key>", go("GET", f"/{BUCKET}/?{query}").text)
        assert keys == ["go/a%20b/%C3%BC%2B.txt", "go/empty", "go/m"], query
    assert "<Upload>" not in go("GET", f"/{BUCKET}/?delimiter=&encoding-type=url&prefix=go%2F&uploads=").text
    assert "Status" not in go("GET", f"/{BUCKET}/?versioning=").text
    tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
    go("PUT", f"/{BUCKET}/go/empty?tagging=", tags, Content_MD5=md5(tags))
    assert "<Value>b</Value>" in go("GET", f"/{BUCKET}/go/empty?tagging=").text
    go("PUT", f"/{BUCKET}/go/copy", X_Amz_Copy_Source=f"{BUCKET}/go/a%20b/%C3%BC%2B.txt")
    named = "".join(f"<Object><Key>{key}</Key></Object>" for key in ("go/empty", "go/copy", "go/m"))
    document = f"<Delete><Quiet>true</Quiet>{named}</Delete>".encode()
    assert "<Error>" not in go("POST", f"/{BUCKET}/?delete=", document, Content_MD5=md5(document)).text
    go("DELETE", f"/{BUCKET}/go/a%20b/%C3%BC%2B.txt")
    assert "<Key>" not in go("GET", f"/{BUCKET}/?delimiter=&list-type=2&prefix=go%2F").text
