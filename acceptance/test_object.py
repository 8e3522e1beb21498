"""The object endpoint: boto3 uploads, lists, reads and removes, with keys and with credentials that expire."""

import base64
import contextlib
import email.utils
import hashlib
import io
import json
import random
import re
import socket
import threading
import time
import zlib
from email.header import decode_header, make_header

import pytest
import requests
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness import object_client
from harness.api import API
from harness.daemon import free_port
from harness.data import KIB, MIB, content, crc32c, sha256
from harness.object_client import BUCKET, DOMAIN, ROLE, ObjectServer, code, session
from harness.server import run
from harness.tls import Certificate
from harness.wire import until

PART = 5 * MIB


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with ObjectServer(tmp_path_factory.mktemp("object") / "data", free_port()) as server:
        yield server


@pytest.fixture(scope="module")
def s3(gateway):
    return gateway.client()


@pytest.fixture(scope="module")
def sts(gateway):
    return gateway.client(service="sts")


@pytest.fixture
def names_of_hosts(monkeypatch):
    """Every bucket of the domain is on this machine."""
    resolve = socket.getaddrinfo

    def resolved(host, *arguments, **options):
        return resolve("127.0.0.1" if str(host).endswith(DOMAIN) else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


def parts_of(data, size=PART):
    return [data[start : start + size] for start in range(0, len(data), size)]


def upload_parts(s3, key, pieces, numbers=None, **options):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key, **options)["UploadId"]
    parts = []
    for number, piece in zip(numbers or range(1, len(pieces) + 1), pieces, strict=True):
        part = s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=piece)
        assert part["ETag"] == f'"{hashlib.md5(piece).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    return upload, parts


def complete(s3, key, upload, parts, **options):
    return s3.complete_multipart_upload(
        Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **options
    )


def read(s3, key, **options):
    return s3.get_object(Bucket=BUCKET, Key=key, **options)["Body"].read()


def composite_tag(pieces):
    digests = b"".join(hashlib.md5(piece).digest() for piece in pieces)
    return f'"{hashlib.md5(digests).hexdigest()}-{len(pieces)}"'


# Whole objects


@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * MIB + 5])
def test_an_object_comes_back_as_it_was_put(s3, size):
    data = content(size, size)
    put = s3.put_object(
        Bucket=BUCKET, Key="a/b", Body=data, ContentType="text/x", CacheControl="no-store", Metadata={"k": "v"}
    )
    assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    got = s3.get_object(Bucket=BUCKET, Key="a/b")
    assert got["Body"].read() == data
    assert (got["ETag"], got["ContentType"], got["CacheControl"], got["Metadata"]) == (
        put["ETag"],
        "text/x",
        "no-store",
        {"k": "v"},
    )
    head = s3.head_object(Bucket=BUCKET, Key="a/b")
    assert head["ContentLength"] == size and head["ETag"] == put["ETag"]


@pytest.mark.parametrize(
    "key", ["ü ñ 漢/字.bin", "a+b%20c", "x//y", "/x", "x/", "q?x=1&y", "tilde~'()*!", ".", "a/../b", "😀"]
)
def test_keys_are_kept_byte_by_byte(s3, key):
    s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    assert read(s3, key) == key.encode()
    assert key in [found["Key"] for found in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    s3.delete_object(Bucket=BUCKET, Key=key)
    assert code(s3.get_object, Bucket=BUCKET, Key=key) == (404, "NoSuchKey")


def test_parts_of_an_object_and_conditions(s3):
    s3.put_object(Bucket=BUCKET, Key="r", Body=b"0123456789")
    tag = s3.head_object(Bucket=BUCKET, Key="r")["ETag"]
    for wanted, expected in [
        ("bytes=1-3", b"123"),
        ("bytes=7-", b"789"),
        ("bytes=-2", b"89"),
        ("bytes=5-99", b"56789"),
    ]:
        assert read(s3, "r", Range=wanted) == expected
    assert code(s3.get_object, Bucket=BUCKET, Key="r", Range="bytes=10-")[1] == "InvalidRange"
    assert code(s3.get_object, Bucket=BUCKET, Key="r", IfNoneMatch=tag)[0] == 304
    assert code(s3.get_object, Bucket=BUCKET, Key="r", IfMatch='"other"')[1] == "PreconditionFailed"
    assert read(s3, "r", IfMatch=tag) == b"0123456789"
    assert code(s3.put_object, Bucket=BUCKET, Key="r", Body=b"x", IfNoneMatch="*")[1] == "PreconditionFailed"
    assert code(s3.put_object, Bucket=BUCKET, Key="r", Body=b"x", IfMatch='"other"')[1] == "PreconditionFailed"
    s3.put_object(Bucket=BUCKET, Key="r", Body=b"x", IfMatch=tag)
    assert read(s3, "r") == b"x"
    assert code(s3.put_object, Bucket=BUCKET, Key="none", Body=b"x", IfMatch=tag)[1] == "NoSuchKey"
    tag = s3.head_object(Bucket=BUCKET, Key="r")["ETag"].strip('"')
    attributes = s3.get_object_attributes(Bucket=BUCKET, Key="r", ObjectAttributes=["ETag", "ObjectSize"])
    assert (attributes["ETag"], attributes["ObjectSize"]) == (tag, 1)
    assert read(s3, "r", IfMatch=tag) == b"x"
    assert code(s3.delete_object, Bucket=BUCKET, Key="r", IfMatch='"other"')[1] == "PreconditionFailed"
    s3.delete_object(Bucket=BUCKET, Key="r", IfMatch=tag)
    assert code(s3.head_object, Bucket=BUCKET, Key="r")[0] == 404


def crc64nvme(data):
    """Bit by bit; for small content."""
    value = (1 << 64) - 1
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
    return (value ^ (1 << 64) - 1).to_bytes(8, "big")


CHECKSUMS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "CRC32C": crc32c,
    "CRC64NVME": crc64nvme,
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
}


@pytest.mark.parametrize("algorithm", CHECKSUMS)
def test_checksums_are_verified_and_returned(s3, algorithm):
    data = content(20_000, 3)
    name = f"Checksum{algorithm}"
    right = CHECKSUMS[algorithm](data)
    checksums = {name: base64.b64encode(right).decode()}
    put = s3.put_object(Bucket=BUCKET, Key="sum", Body=data, **checksums)
    assert put[name] == checksums[name]
    assert s3.head_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED")[name] == checksums[name]
    wrong = {name: base64.b64encode(bytes(len(right))).decode()}
    assert code(s3.put_object, Bucket=BUCKET, Key="sum2", Body=data, **wrong) == (400, "BadDigest")
    assert code(s3.head_object, Bucket=BUCKET, Key="sum2")[0] == 404


def test_an_object_replaces_another_completely(gateway, s3):
    before = sum(path.stat().st_size for path in gateway.data.rglob("blobs/*/*"))
    for round in range(5):
        s3.put_object(Bucket=BUCKET, Key="same", Body=content(300_000, round))
    assert read(s3, "same") == content(300_000, 4)
    s3.delete_object(Bucket=BUCKET, Key="same")
    assert sum(path.stat().st_size for path in gateway.data.rglob("blobs/*/*")) == before


def test_copies(s3):
    data = content(6 * MIB, 8)
    s3.put_object(Bucket=BUCKET, Key="source ü", Body=data, Metadata={"a": "1"}, ContentType="text/a")
    source = {"Bucket": BUCKET, "Key": "source ü"}
    copied = s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    head = s3.head_object(Bucket=BUCKET, Key="copy")
    assert (head["Metadata"], head["ContentType"]) == ({"a": "1"}, "text/a")
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"})
    assert s3.head_object(Bucket=BUCKET, Key="copy")["Metadata"] == {"b": "2"}
    assert code(s3.copy_object, Bucket=BUCKET, Key="source ü", CopySource=source)[1] == "InvalidRequest"
    missing = {"Bucket": BUCKET, "Key": "none"}
    assert code(s3.copy_object, Bucket=BUCKET, Key="copy", CopySource=missing)[1] == "NoSuchKey"

    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="copied parts")["UploadId"]
    parts = []
    for number, wanted in [(1, f"bytes=0-{PART - 1}"), (2, f"bytes=7-{7 + 99}")]:
        part = s3.upload_part_copy(
            Bucket=BUCKET,
            Key="copied parts",
            UploadId=upload,
            PartNumber=number,
            CopySource=source,
            CopySourceRange=wanted,
        )
        parts.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
    complete(s3, "copied parts", upload, parts)
    assert read(s3, "copied parts") == data[:PART] + data[7:107]


# Listings


def test_listings_are_in_the_order_of_bytes_and_in_pages(s3):
    keys = sorted(
        ["l/a", "l/a-", "l/aB", "l/aa", "l/b/1", "l/b/2", "l/ä", "l/漢", "l/😀"], key=lambda key: key.encode()
    )
    for key in reversed(keys):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    for size in [1, 2, 3, 1000]:
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix="l/", PaginationConfig={"PageSize": size}
        )
        assert [found["Key"] for page in pages for found in page.get("Contents", [])] == keys
        grouped = s3.get_paginator("list_objects").paginate(
            Bucket=BUCKET, Prefix="l/", Delimiter="/", PaginationConfig={"PageSize": size}
        )
        found = [
            entry.get("Key") or entry["Prefix"]
            for page in grouped
            for entry in page.get("Contents", []) + page.get("CommonPrefixes", [])
        ]
        assert sorted(found) == sorted([key for key in keys if not key.startswith("l/b")] + ["l/b/"])
    found = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    assert sorted(one["Key"] for one in found["Deleted"]) == sorted(keys)
    empty = s3.list_objects_v2(Bucket=BUCKET, Prefix="l/", ContinuationToken="")
    assert (empty["KeyCount"], empty["ContinuationToken"], empty["IsTruncated"]) == (0, "", False)


def test_many_objects_are_deleted_and_each_failure_is_told(s3):
    keys = [f"many/{number:03d}" for number in range(150)]
    tags = {key: s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())["ETag"] for key in keys}
    kept = keys[10::20]
    objects = [{"Key": key} | ({"ETag": tags[keys[0]]} if key in kept else {}) for key in keys]
    found = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": objects})
    assert [one["Key"] for one in found["Deleted"]] == [key for key in keys if key not in kept]
    assert [(one["Key"], one["Code"]) for one in found["Errors"]] == [(key, "PreconditionFailed") for key in kept]
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="many/")
    assert [one["Key"] for one in listed["Contents"]] == kept
    # The second time the object is gone, so the condition no longer holds.
    key = kept[0]
    objects = [{"Key": other} for other in kept[1:]] + [{"Key": key}, {"Key": key, "ETag": tags[key]}]
    found = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": objects})
    assert [one["Key"] for one in found["Deleted"]] == [*kept[1:], key]
    assert [one["Key"] for one in found["Errors"]] == [key]
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="many/")["KeyCount"] == 0


# Multipart uploads


def test_parts_in_any_order_become_an_object(s3):
    pieces = parts_of(content(3 * PART + 1234, 1))
    order = [3, 1, 4, 2]
    upload, parts = upload_parts(s3, "mp", [pieces[number - 1] for number in order], order)
    parts.sort(key=lambda part: part["PartNumber"])
    listed = s3.list_parts(Bucket=BUCKET, Key="mp", UploadId=upload)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in listed] == [
        (number + 1, len(piece)) for number, piece in enumerate(pieces)
    ]
    done = complete(s3, "mp", upload, parts)
    assert done["ETag"] == composite_tag(pieces)
    assert read(s3, "mp") == b"".join(pieces)
    assert read(s3, "mp", PartNumber=2) == pieces[1]
    assert complete(s3, "mp", upload, parts)["ETag"] == done["ETag"]
    assert code(s3.list_parts, Bucket=BUCKET, Key="mp", UploadId=upload)[1] == "NoSuchUpload"


def test_parts_that_cannot_be_joined(s3):
    pieces = parts_of(content(PART + 10, 2)) + [b"end"]
    upload, parts = upload_parts(s3, "bad", pieces)
    wrong = {"PartNumber": 2, "ETag": parts[0]["ETag"]}
    for named, expected in [
        ([parts[1], parts[0]], "InvalidPartOrder"),
        ([parts[0], wrong], "InvalidPart"),
        ([{"PartNumber": 9, "ETag": parts[0]["ETag"]}], "InvalidPart"),
        (parts, "EntityTooSmall"),
        ([], "MalformedXML"),
    ]:
        assert code(complete, s3, "bad", upload, named) == (400, expected)
    assert code(complete, s3, "other", upload, parts[:1]) == (404, "NoSuchUpload")
    complete(s3, "bad", upload, parts[:2])
    assert read(s3, "bad") == b"".join(pieces[:2])


def test_an_upload_that_was_aborted_leaves_nothing(gateway, s3):
    upload, parts = upload_parts(s3, "gone", [content(PART, 1), b"x", b"y"], [1, 2, 2])
    listed = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="gone")["Uploads"]
    assert [(one["Key"], one["UploadId"]) for one in listed] == [("gone", upload)]
    assert gateway.stored_files(upload)
    s3.abort_multipart_upload(Bucket=BUCKET, Key="gone", UploadId=upload)
    assert not gateway.stored_files(upload)
    assert (
        code(s3.upload_part, Bucket=BUCKET, Key="gone", UploadId=upload, PartNumber=1, Body=b"x")[1] == "NoSuchUpload"
    )
    assert code(complete, s3, "gone", upload, parts[:1])[1] == "NoSuchUpload"


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_the_transfer_manager_uploads_and_downloads(gateway, names_of_hosts, tmp_path, style):
    url = gateway.object_url if style == "path" else gateway.object_url.replace("127.0.0.1", DOMAIN)
    s3 = object_client.client(url, gateway.pair(), style=style)
    data = content(43 * MIB + 17, 4)
    settings = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=6)
    s3.upload_fileobj(io.BytesIO(data), BUCKET, "big", Config=settings, ExtraArgs={"ContentType": "video/mp4"})
    target = io.BytesIO()
    s3.download_fileobj(BUCKET, "big", target, Config=settings)
    assert sha256(target.getvalue()) == sha256(data)
    assert s3.head_object(Bucket=BUCKET, Key="big")["ContentType"] == "video/mp4"


def test_over_tls(tmp_path):
    certificate = Certificate(tmp_path)
    with ObjectServer(tmp_path / "data", free_port(), certificate.settings) as server:
        s3 = server.client(verify=str(certificate.path))
        pieces = parts_of(content(2 * PART + 3, 5))
        upload, parts = upload_parts(s3, "tls", pieces)
        complete(s3, "tls", upload, parts)
        assert read(s3, "tls") == b"".join(pieces)


def test_on_a_store(make_relay, bucket_name):
    """Parts become parts of the store's own multipart upload, and the object is one there."""
    relay = make_relay(SLUICE_OBJECT_LISTEN=f"127.0.0.1:{free_port()}")
    s3 = object_client.client(relay.server.object_url, relay.server.pair())
    pieces = parts_of(content(3 * PART + 99, 6))
    upload, parts = upload_parts(s3, "on a store", [pieces[1], b"x" * 100, *pieces], [2, 1, 1, 2, 3, 4])
    done = complete(s3, "on a store", upload, parts[2:])
    assert done["ETag"] == composite_tag(pieces)
    data = b"".join(pieces)
    assert read(s3, "on a store") == data
    assert read(s3, "on a store", Range="bytes=5242879-5242882") == data[5242879:5242883]
    relay.assert_stored((sha256(data), len(data)))
    s3.put_object(Bucket=BUCKET, Key="on a store", Body=b"small")
    assert read(s3, "on a store") == b"small"
    relay.assert_stored((sha256(b"small"), 5))
    s3.delete_object(Bucket=BUCKET, Key="on a store")
    relay.assert_stored()


# What goes wrong


def test_kill_9_between_and_within_parts(tmp_path, report):
    """Every part that was acknowledged is in the object, whatever was under way when the process died."""
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)
    kills = 0
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ObjectServer(tmp_path / "data", free_port()))
        for round in range(4):
            s3 = server.client()
            pieces = parts_of(content(4 * PART + 500, seed + round))
            upload = s3.create_multipart_upload(Bucket=BUCKET, Key="k")["UploadId"]
            tags = {}
            while len(tags) < len(pieces):
                timer = threading.Timer(generator.uniform(0.005, 0.25), server.kill)
                timer.start()
                with contextlib.suppress(Exception):
                    for number, piece in enumerate(pieces, 1):
                        if number not in tags or generator.random() < 0.3:
                            tags[number] = s3.upload_part(
                                Bucket=BUCKET, Key="k", UploadId=upload, PartNumber=number, Body=piece
                            )["ETag"]
                    complete(s3, "k", upload, [{"PartNumber": n, "ETag": t} for n, t in sorted(tags.items())])
                timer.join()
                kills += 1
                server.start()
                with contextlib.suppress(s3.exceptions.ClientError):
                    listed = s3.list_parts(Bucket=BUCKET, Key="k", UploadId=upload).get("Parts", [])
                    found = {part["PartNumber"]: part["ETag"] for part in listed}
                    assert tags.items() <= found.items(), f"seed {seed}"
            complete(s3, "k", upload, [{"PartNumber": n, "ETag": t} for n, t in sorted(tags.items())])
            assert sha256(read(s3, "k")) == sha256(b"".join(pieces)), f"seed {seed}"
    report(f"kill -9 while parts are put, seed {seed}: {kills} kills, 4 objects")


def test_an_interrupted_upload_keeps_the_previous_object(gateway, s3):
    s3.put_object(Bucket=BUCKET, Key="cut", Body=b"before")
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "cut"}, ExpiresIn=60)
    host, port = gateway.object_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        target = url.removeprefix(gateway.object_url)
        head = f"PUT {target} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 100000\r\n\r\n"
        connection.sendall(head.encode() + b"x" * 50_000)
    assert read(s3, "cut") == b"before"


# Credentials


def federated(sts, policy=None, name="alice", seconds=900):
    options = {"Policy": json.dumps(policy)} if policy else {}
    return sts.get_federation_token(Name=name, DurationSeconds=seconds, **options)["Credentials"]


def allow(actions, resources, effect="Allow", **condition):
    statement = {"Effect": effect, "Action": actions, "Resource": resources}
    if condition:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}


def test_session_credentials_upload_what_their_policy_allows(gateway, sts):
    policy = allow(["s3:PutObject", "s3:AbortMultipartUpload"], [f"arn:aws:s3:::{BUCKET}/alice/*"])
    s3 = gateway.client(**session(federated(sts, policy)))
    s3.put_object(Bucket=BUCKET, Key="alice/1", Body=b"1")
    upload, parts = upload_parts(s3, "alice/2", [content(PART, 1), b"end"])
    complete(s3, "alice/2", upload, parts)
    for method, parameters in [
        ("put_object", {"Key": "bob/1", "Body": b"1"}),
        ("get_object", {"Key": "alice/1"}),
        ("delete_object", {"Key": "alice/1"}),
        ("create_multipart_upload", {"Key": "bob/2"}),
        ("list_objects_v2", {}),
    ]:
        assert code(getattr(s3, method), Bucket=BUCKET, **parameters) == (403, "AccessDenied")
    assert code(s3.create_bucket, Bucket="other-bucket") == (403, "AccessDenied")
    assert code(s3.list_buckets) == (403, "AccessDenied")


def test_the_name_of_a_session_is_its_subject(gateway, s3, sts):
    credentials = sts.assume_role(RoleArn=ROLE, RoleSessionName="carol")["Credentials"]
    gateway.client(**session(credentials)).put_object(Bucket=BUCKET, Key="of carol", Body=b"abc")
    uploads = API(gateway.url, gateway.admin_key).get("/v1/uploads?subject=carol").json()["uploads"]
    assert [(one["dialect"], one["offset"]) for one in uploads] == [("s3", 3)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c | {"SessionToken": c["SessionToken"][:-4] + "AAAA"}, (400, "InvalidToken")),
        (lambda c: c | {"SessionToken": "nonsense"}, (400, "InvalidToken")),
        (lambda c: c | {"SessionToken": None}, (403, "InvalidAccessKeyId")),
        (lambda c: c | {"SecretAccessKey": "x" * 40}, (403, "SignatureDoesNotMatch")),
        (lambda c: c | {"AccessKeyId": "ASIAAAAAAAAAAAAAAAAA"}, (400, "InvalidToken")),
    ],
)
def test_changed_credentials_are_refused(gateway, sts, change, expected):
    s3 = gateway.client(**session(change(federated(sts))))
    assert code(s3.put_object, Bucket=BUCKET, Key="no", Body=b"1") == expected


def test_unsupported_policies_are_refused(sts):
    for policy in [
        allow("s3:PutObject", "*", NotIpAddress={"aws:SourceIp": "10.0.0.0/8"}),
        allow("s3:PutObjectAcl", "*"),
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "NotAction": "s3:GetObject", "Resource": "*"}]},
        {"Version": "2011-01-01", "Statement": []},
    ]:
        assert code(federated, sts, policy) == (400, "MalformedPolicyDocument")


def new_key(gateway, *scopes):
    """The pair of a new API key."""
    return gateway.pair(new_key_id(gateway, *scopes))


def new_key_id(gateway, *scopes):
    options = [text for scope in scopes for text in ("--scope", scope)]
    made = run("keys", "create", "--name", "test", *options, environment=gateway.environment).stdout
    return re.search(r"id: (\S+)", made)[1]


def test_sessions_cannot_do_more_than_their_key(gateway, s3):
    s3.put_object(Bucket=BUCKET, Key="of somebody", Body=b"1")
    minted = {}
    for scopes in [("mint",), ("mint", "read")]:
        sts = gateway.client(service="sts", pair=new_key(gateway, *scopes))
        minted[scopes] = gateway.client(**session(federated(sts)))
    for client in minted.values():
        client.put_object(Bucket=BUCKET, Key="minted", Body=b"1")
        assert code(client.delete_object, Bucket=BUCKET, Key="of somebody") == (403, "AccessDenied")
    assert code(minted["mint",].get_object, Bucket=BUCKET, Key="of somebody") == (403, "AccessDenied")
    assert read(minted["mint", "read"], "of somebody") == b"1"


def test_credentials_end_with_the_key_that_minted_them(gateway):
    """And those of another key do not."""
    clients = {}
    for name in ("revoked", "kept"):
        key = new_key_id(gateway, "mint")
        sts = gateway.client(service="sts", pair=gateway.pair(key))
        clients[name] = key, gateway.client(**session(federated(sts)))
    for _, client in clients.values():
        client.put_object(Bucket=BUCKET, Key="before", Body=b"1")
    run("keys", "revoke", clients["revoked"][0], environment=gateway.environment)
    put = {"Bucket": BUCKET, "Key": "after", "Body": b"1"}
    until(lambda: code(clients["revoked"][1].put_object, **put) == (400, "ExpiredToken"), timeout=30, interval=0.2)
    clients["kept"][1].put_object(**put)


def test_callers_that_cannot_mint(gateway, sts):
    for scope in ["upload", "read"]:
        client = gateway.client(service="sts", pair=new_key(gateway, scope))
        assert code(client.get_session_token) == (403, "InvalidClientTokenId")
    unknown = gateway.client(service="sts", pair=("SLAKNOTTHERE", "x" * 40))
    assert code(unknown.get_session_token) == (403, "InvalidClientTokenId")
    forged = gateway.client(service="sts", pair=(gateway.pair()[0], "x" * 40))
    assert code(forged.get_session_token) == (403, "SignatureDoesNotMatch")
    again = gateway.client(service="sts", **session(federated(sts)))
    assert code(again.get_session_token) == (403, "InvalidClientTokenId")


# Credentials of the REST API


def minted(gateway, **wanted):
    wanted = {"subject": "dora", "bucket": BUCKET, "keyPrefix": "dora/"} | wanted
    answer = API(gateway.url, gateway.admin_key).post("/v1/sts/tokens", wanted)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json()


def test_tokens_in_the_format_of_each_vendor(gateway):
    aws = minted(gateway)["Credentials"]
    aliyun = minted(gateway, format="aliyun")
    tencent = minted(gateway, format="tencent", expiresIn=600)
    assert tencent["expiredTime"] - tencent["startTime"] in (599, 600)
    pairs = [
        (aws["AccessKeyId"], aws["SecretAccessKey"], aws["SessionToken"]),
        (aliyun["AccessKeyId"], aliyun["AccessKeySecret"], aliyun["SecurityToken"]),
        tuple(tencent["credentials"][name] for name in ("tmpSecretId", "tmpSecretKey", "sessionToken")),
    ]
    assert [pair[0][:4] for pair in pairs] == ["ASIA", "STS.", "AKID"]
    for number, (identifier, secret, token) in enumerate(pairs):
        s3 = gateway.client(pair=(identifier, secret), token=token)
        s3.put_object(Bucket=BUCKET, Key=f"dora/{number}", Body=b"1")
        assert code(s3.put_object, Bucket=BUCKET, Key="eve/1", Body=b"1") == (403, "AccessDenied")


def test_tokens_enforce_their_limits(gateway):
    limited = session(minted(gateway, maxBytes=3, contentTypes=["video/*"], metadata={"album": "7"})["Credentials"])
    s3 = gateway.client(**limited)
    assert (
        code(s3.put_object, Bucket=BUCKET, Key="dora/4", Body=b"1234", ContentType="video/mp4")[1] == "EntityTooLarge"
    )
    assert (
        code(s3.put_object, Bucket=BUCKET, Key="dora/4", Body=b"123", ContentType="text/a")[1] == "ContentTypeRefused"
    )
    s3.put_object(Bucket=BUCKET, Key="dora/4", Body=b"123", ContentType="video/mp4", Metadata={"album": "8"})
    api = API(gateway.url, gateway.admin_key)
    uploads = api.get("/v1/uploads?subject=dora&state=completed&limit=1").json()["uploads"]
    assert uploads[0]["metadata"]["album"] == "7"

    once = gateway.client(**session(minted(gateway, oneTime=True)["Credentials"]))
    once.put_object(Bucket=BUCKET, Key="dora/5", Body=b"1")
    assert code(once.put_object, Bucket=BUCKET, Key="dora/6", Body=b"1") == (403, "AccessDenied")

    wanted = {"keyPrefix": None, "key": "dora/7", "actions": ["upload", "read", "delete"]}
    only = gateway.client(**session(minted(gateway, **wanted)["Credentials"]))
    only.put_object(Bucket=BUCKET, Key="dora/7", Body=b"1")
    assert read(only, "dora/7") == b"1"
    assert code(only.get_object, Bucket=BUCKET, Key="dora/4") == (403, "AccessDenied")
    only.delete_object(Bucket=BUCKET, Key="dora/7")


def test_metadata_of_credentials_wins_where_objects_are_read(gateway, s3):
    """PutObject, a multipart upload, copies: a client's field says nothing else than the metadata of its session."""
    given = minted(gateway, metadata={"album": "7", "Owner": "dora"}, actions=["upload", "read"])["Credentials"]
    dora = gateway.client(**session(given))
    sent = {"album": "8", "owner": "eve", "own": "1"}
    s3.put_object(Bucket=BUCKET, Key="dora/source", Body=b"1", Metadata=sent)
    source = {"Bucket": BUCKET, "Key": "dora/source"}

    def multipart(key):
        upload = dora.create_multipart_upload(Bucket=BUCKET, Key=key, Metadata=sent)["UploadId"]
        part = dora.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=b"1")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        dora.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload=parts)

    ways = {
        "put": lambda key: dora.put_object(Bucket=BUCKET, Key=key, Body=b"1", Metadata=sent),
        "multipart": multipart,
        "copy": lambda key: dora.copy_object(Bucket=BUCKET, Key=key, CopySource=source),
        "replace": lambda key: dora.copy_object(
            Bucket=BUCKET, Key=key, CopySource=source, Metadata=sent, MetadataDirective="REPLACE"
        ),
    }
    for name, way in ways.items():
        way(f"dora/m-{name}")
        found = s3.head_object(Bucket=BUCKET, Key=f"dora/m-{name}")["Metadata"]
        assert found == {"album": "7", "owner": "dora", "own": "1"}, name
        upload = API(gateway.url, gateway.admin_key).get("/v1/uploads?subject=dora&limit=1").json()["uploads"][0]
        assert upload["metadata"].items() >= {"album": "7", "Owner": "dora", "own": "1"}.items(), name
        assert "owner" not in upload["metadata"]
    # What the client does not send is not shown.
    dora.put_object(Bucket=BUCKET, Key="dora/m-none", Body=b"1")
    assert s3.head_object(Bucket=BUCKET, Key="dora/m-none")["Metadata"] == {}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"subject": None}, "subject"),
        ({"bucket": None}, "bucket"),
        ({"keyPrefix": None}, "keyPrefix"),
        ({"key": "a"}, "key"),
        ({"keyPrefix": None, "key": ""}, "key"),
        ({"actions": ["everything"]}, "actions"),
        ({"expiresIn": 59}, "expiresIn"),
        ({"expiresIn": 129_601}, "expiresIn"),
        ({"format": "gcp"}, "format"),
        ({"maxBytes": -1}, "maxBytes"),
        ({"more": 1}, "more"),
    ],
)
def test_invalid_tokens_are_refused(gateway, changes, field):
    wanted = {"subject": "dora", "bucket": BUCKET, "keyPrefix": "dora/"} | changes
    answer = API(gateway.url, gateway.admin_key).post(
        "/v1/sts/tokens", {name: value for name, value in wanted.items() if value is not None}
    )
    assert answer.status_code == 422, answer.text
    assert field in [error["field"] for error in answer.json()["errors"]]


def test_keys_mint_tokens_only_for_their_own_rights(gateway):
    made = run(
        "keys", "create", "--name", "m", "--scope", "mint", "--scope", "read", environment=gateway.environment
    ).stdout
    api = API(gateway.url, re.search(r"API key: (\S+)", made)[1])
    wanted = {"subject": "dora", "bucket": BUCKET, "keyPrefix": "dora/"}
    assert api.post("/v1/sts/tokens", wanted | {"actions": ["upload", "read"]}).status_code == 201
    assert api.post("/v1/sts/tokens", wanted | {"actions": ["delete"]}).status_code == 422
    reader = run("keys", "create", "--name", "r", "--scope", "read", environment=gateway.environment).stdout
    api = API(gateway.url, re.search(r"API key: (\S+)", reader)[1])
    assert api.post("/v1/sts/tokens", wanted).status_code == 403


# Presigned


def test_presigned_urls(s3):
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "pre"}, ExpiresIn=60)
    assert requests.put(url, data=b"presigned", timeout=10).status_code == 200
    got = s3.generate_presigned_url(
        "get_object", Params={"Bucket": BUCKET, "Key": "pre", "ResponseContentType": "text/x"}, ExpiresIn=60
    )
    answer = requests.get(got, timeout=10)
    assert (answer.content, answer.headers["Content-Type"]) == (b"presigned", "text/x")
    for bad in [url.replace("/pre?", "/other?"), url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"), url + "&x=1"]:
        assert "SignatureDoesNotMatch" in requests.put(bad, data=b"1", timeout=10).text
    assert "AccessDenied" in requests.put(url.split("?")[0], data=b"1", timeout=10).text


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0000", "UTC", "+0800", "+080", "CET"])
def test_a_date_can_be_that_of_mail(gateway, zone):
    """Without `X-Amz-Date`; botocore writes `-0000` if a caller sets `Date`, `date -R` the zone of the machine."""
    ahead = 8 * 3600 if zone == "+0800" else 0
    now = int(time.time())
    date = email.utils.formatdate(now + ahead).replace("-0000", zone)
    auth = S3SigV4Auth(Credentials(*gateway.pair()), "s3", "us-east-1")
    request = AWSRequest("GET", f"{gateway.object_url}/{BUCKET}", headers={"Date": date})
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    names = auth.signed_headers(auth.headers_to_sign(request))
    request.headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"
    )
    # The time that is signed is that of the date, to the second.
    answer = requests.get(request.url, headers=dict(request.headers.items()), timeout=10)
    assert answer.status_code == (403 if zone in ("+080", "CET") else 200), answer.text


def test_forms(s3):
    form = s3.generate_presigned_post(
        BUCKET,
        "form/${filename}",
        Fields={"success_action_status": "201", "Content-Type": "text/x"},
        Conditions=[
            ["content-length-range", 2, 10],
            ["starts-with", "$key", "form/"],
            {"success_action_status": "201"},
            {"Content-Type": "text/x"},
        ],
        ExpiresIn=60,
    )

    def post(data, **changes):
        fields = form["fields"] | changes
        return requests.post(form["url"], data=fields, files={"file": ("dir/f.txt", data)}, timeout=10)

    answer = post(b"12345")
    assert answer.status_code == 201 and "<Key>form/f.txt</Key>" in answer.text
    assert read(s3, "form/f.txt") == b"12345"
    assert s3.head_object(Bucket=BUCKET, Key="form/f.txt")["ContentType"] == "text/x"
    for data, changes, expected in [
        (b"1" * 11, {}, "EntityTooLarge"),
        (b"1", {}, "EntityTooSmall"),
        (b"123", {"key": "elsewhere"}, "AccessDenied"),
        (b"123", {"Content-Type": "text/html"}, "AccessDenied"),
        (b"123", {"x-amz-meta-more": "1"}, "AccessDenied"),
        (b"123", {"x-amz-signature": "0" * 64}, "SignatureDoesNotMatch"),
    ]:
        answer = post(data, **changes)
        assert answer.status_code in (400, 403) and expected in answer.text
    assert read(s3, "form/f.txt") == b"12345"
    # The file must be the last field.
    late = [("file", ("f.txt", b"123")), *((name, (None, value)) for name, value in form["fields"].items())]
    answer = requests.post(form["url"], files=late, timeout=10)
    assert answer.status_code == 400 and "InvalidArgument" in answer.text and "order of the fields" in answer.text


def posted(s3, key, conditions, fields, query="", header=None):
    """The response to a form with a file of type `text/html`."""
    form = s3.generate_presigned_post(BUCKET, key, Conditions=conditions, ExpiresIn=60)
    content = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
        for name, value in [*form["fields"].items(), *fields]
    )
    content += b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
    content += b"Content-Type: text/html\r\n\r\n<script>\r\n--b--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    return requests.post(form["url"] + query, data=content, headers=headers | (header or {}), timeout=10)


@pytest.mark.parametrize("control", ["\0", "\1", "\t", "\r", "\n", "\r\n", "\x7f"], ids=repr)
@pytest.mark.parametrize(
    "name",
    [
        "Content-Type",
        "Cache-Control",
        "Content-Disposition",
        "Content-MD5",
        "x-amz-meta-a",
        "x-amz-server-side-encryption",
        "x-amz-checksum-sha256",
    ],
)
def test_a_field_of_a_form_that_no_header_can_have_is_refused(s3, name, control):
    """It was left out, as if the policy did not name it."""
    value = "image/" + control
    for condition in (["starts-with", "$" + name, "image/"], ["eq", "$" + name, value]):
        refused = posted(s3, "control", [condition], [(name, value)])
        assert refused.status_code == 400 and "<Code>InvalidArgument</Code>" in refused.text, refused.text
    assert code(s3.head_object, Bucket=BUCKET, Key="control") == (404, "404")


def test_a_form_asks_only_for_access_rights_that_every_object_has(s3):
    condition = ["starts-with", "$acl", ""]
    refused = posted(s3, "rights", [condition], [("acl", "public-read")])
    assert refused.status_code == 400 and "<Code>AccessControlListNotSupported</Code>" in refused.text
    assert code(s3.head_object, Bucket=BUCKET, Key="rights") == (404, "404")
    for allowed in ("private", "bucket-owner-full-control"):
        assert posted(s3, "rights", [condition], [("acl", allowed)]).status_code == 204


def test_the_md5_in_a_form_is_compared(s3):
    condition = ["starts-with", "$Content-MD5", ""]
    for hashed, status in ((b"other", 400), (b"<script>", 204)):
        value = base64.b64encode(hashlib.md5(hashed).digest()).decode()
        assert posted(s3, "digest", [condition], [("Content-MD5", value)]).status_code == status


@pytest.mark.parametrize("name", ["x-oss-forbid-overwrite", "x-cos-forbid-overwrite", "x-oss-tagging", "x-cos-tagging"])
def test_fields_of_another_vendor_in_a_form_are_refused(s3, name):
    """They were left out: the object was replaced, or had no tags."""
    s3.put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
    value = "true" if name.endswith("overwrite") else "a=1"
    in_form = posted(s3, "kept", [["starts-with", "$" + name, ""]], [(name, value)])
    in_head = posted(s3, "kept", [], [], header={name: value})
    tagged = posted(s3, "kept", [], [], header={"x-amz-tagging": "a=1"})
    for refused in (in_form, in_head, tagged):
        assert refused.status_code == 400 and "<Code>InvalidArgument</Code>" in refused.text, refused.text
    assert read(s3, "kept") == b"kept"


def test_a_form_gets_no_fields_from_its_query(s3):
    query = "?X-Amz-Signature=1&x-amz-meta-a=1&x-amz-meta-filename=a.exe"
    assert posted(s3, "by query", [], [], query).status_code == 204
    assert s3.head_object(Bucket=BUCKET, Key="by query")["Metadata"] == {}


def test_metadata_that_is_not_ascii_is_returned_in_encoded_words(s3):
    values = {"a": "Größe = 1_?", "b": "漢字" * 60, "c": "plain_?=", "d": "=?UTF-8?B?w7w=?="}
    fields = {f"x-amz-meta-{name}": value for name, value in values.items()}
    conditions = [{name: value} for name, value in fields.items()]
    form = s3.generate_presigned_post(BUCKET, "words", Fields=fields, Conditions=conditions, ExpiresIn=60)
    answer = requests.post(form["url"], data=form["fields"], files={"file": b"1"}, timeout=10)
    assert answer.status_code == 204
    s3.copy_object(Bucket=BUCKET, Key="copied words", CopySource={"Bucket": BUCKET, "Key": "words"})
    for key in ("words", "copied words"):
        received = s3.head_object(Bucket=BUCKET, Key=key)["Metadata"]
        assert all(value.isascii() for value in received.values())
        assert (received["c"], received["d"]) == (values["c"], values["d"])
        assert {name: str(make_header(decode_header(received[name]))) for name in "ab"} == {n: values[n] for n in "ab"}


# Raw requests


class TrailerAuth(S3SigV4Auth):
    kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    def payload(self, request):
        return self.kind


def test_chunks_with_a_trailer(gateway, s3):
    body = bytes(range(256)) * 500
    checksum = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    for announced, status in [(checksum, 200), ("AAAAAA==", 400)]:
        wire = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in parts_of(body, 64 * KIB))
        wire += b"0\r\nx-amz-checksum-crc32:" + announced.encode() + b"\r\n\r\n"
        request = AWSRequest(
            "PUT",
            f"{gateway.object_url}/{BUCKET}/chunks",
            headers={
                "content-encoding": "aws-chunked",
                "x-amz-trailer": "x-amz-checksum-crc32",
                "x-amz-decoded-content-length": str(len(body)),
                "X-Amz-Content-SHA256": TrailerAuth.kind,
            },
        )

        TrailerAuth(Credentials(*gateway.pair()), "s3", "us-east-1").add_auth(request)
        answer = requests.put(request.url, data=wire, headers=dict(request.headers.items()), timeout=10)
        assert answer.status_code == status, answer.text
    assert read(s3, "chunks") == body


# Buckets


def test_buckets(s3):
    s3.create_bucket(Bucket="of-its-own")
    # As in Amazon's oldest region.
    s3.create_bucket(Bucket="of-its-own")
    assert "Status" not in s3.get_bucket_versioning(Bucket="of-its-own")
    assert {"of-its-own", BUCKET} <= {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    s3.put_object(Bucket="of-its-own", Key="a", Body=b"")
    assert code(s3.delete_bucket, Bucket="of-its-own") == (409, "BucketNotEmpty")
    s3.delete_object(Bucket="of-its-own", Key="a")
    s3.delete_bucket(Bucket="of-its-own")
    assert code(s3.list_objects_v2, Bucket="of-its-own") == (404, "NoSuchBucket")
    assert code(s3.put_object, Bucket="of-its-own", Key="a", Body=b"") == (404, "NoSuchBucket")


def test_buckets_are_listed_in_pages_and_by_prefix(s3):
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        s3.create_bucket(Bucket=name)
    for size in [1, 2, 5, 6]:
        found = s3.get_paginator("list_buckets").paginate(Prefix="page-", PaginationConfig={"PageSize": size})
        pages = [[bucket["Name"] for bucket in page["Buckets"]] for page in found]
        assert pages == [names[first : first + size] for first in range(0, len(names), size)]
    page = s3.list_buckets(Prefix="page-", MaxBuckets=1, BucketRegion="us-east-1")
    assert (page["Prefix"], page["Buckets"][0]["BucketRegion"]) == ("page-", "us-east-1")
    assert s3.list_buckets(BucketRegion="eu-west-1")["Buckets"] == []
    assert code(s3.list_buckets, ContinuationToken="x") == (400, "InvalidArgument")
    assert code(s3.list_buckets, MaxBuckets=10001) == (400, "InvalidArgument")
    everything = s3.list_buckets()
    assert "Prefix" not in everything and "ContinuationToken" not in everything
    assert "BucketRegion" not in everything["Buckets"][0]
    for name in names:
        s3.delete_bucket(Bucket=name)


def test_pages_of_other_origins(gateway, s3):
    s3.create_bucket(Bucket="for-pages")
    rule = {
        "AllowedMethods": ["PUT", "GET"],
        "AllowedOrigins": ["https://app.example"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 60,
    }
    s3.put_bucket_cors(Bucket="for-pages", CORSConfiguration={"CORSRules": [rule]})
    url = f"{gateway.object_url}/for-pages/x"
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}
    answer = requests.options(url, headers=asked, timeout=10)
    assert answer.status_code == 200 and answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert requests.options(url, headers=asked | {"Origin": "https://evil.example"}, timeout=10).status_code == 403
    signed = s3.generate_presigned_url("put_object", Params={"Bucket": "for-pages", "Key": "x"}, ExpiresIn=60)
    put = requests.put(signed, data=b"1", headers={"Origin": "https://app.example"}, timeout=10)
    assert put.status_code == 200 and put.headers["Access-Control-Expose-Headers"] == "ETag"
