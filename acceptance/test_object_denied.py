"""What the object endpoint refuses the vendors' SDKs for S3, OSS and COS, each with the code that it expects."""

import base64
import contextlib
import hashlib
import socket
from dataclasses import dataclass

import pytest
import requests

from harness import clock, hosts
from harness.api import API
from harness.daemon import free_port
from harness.object_client import ObjectServer, client, code, minted
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import DIALECTS, changed_url, refusal
from harness.relay import new_secret

BUCKET = "media-1250000000"
OTHER = "other-1250000000"
MINUTE = 60
HOUR = 60 * MINUTE
# Servers whose clocks differ take each other's credentials.
SETTINGS = {
    "SLUICE_OBJECT_BUCKETS": f"{BUCKET},{OTHER}",
    "SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values()),
    "SLUICE_MASTER_SECRET": new_secret(),
}
UNKNOWN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """By how much later it is for them, in seconds."""
    made = {}
    with contextlib.ExitStack() as stack:

        def server(seconds):
            if seconds not in made:
                folder = tmp_path_factory.mktemp("denied")
                settings = SETTINGS | (clock.shifted(seconds) if seconds else {})
                one = ObjectServer(folder / "data", free_port(), settings)
                if seconds:
                    # Else the time would be that of the database.
                    one.environment.pop("SLUICE_DATABASE_URL", None)
                made[seconds] = stack.enter_context(one)
            return made[seconds]

        yield server


@dataclass
class Way:
    """To speak to the gateway."""

    calls: type
    servers: object
    monkeypatch: object

    @property
    def tag_case(self):
        return str.upper if self.calls.format == "aliyun" else str.lower

    def tag(self, data):
        return self.tag_case(hashlib.md5(data).hexdigest())

    def credentials(self, **wanted):
        wanted = {"bucket": BUCKET, "keyPrefix": "dora/"} | wanted
        return minted(self.servers(0), self.calls.format, **wanted)

    def client(self, *, later=0, bucket=BUCKET, credentials=None, change=None, **wanted):
        """With credentials for uploads below `dora/`, unless others are given or wanted."""
        port = int(self.servers(later).object_url.rsplit(":", 1)[1])
        self.monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({DOMAINS["cos"]: port}))
        credentials = self.credentials(**wanted) if credentials is None else credentials
        return self.calls(port, bucket, credentials, change)


@pytest.fixture(params=DIALECTS)
def way(request, servers, monkeypatch):
    return Way(DIALECTS[request.param], servers, monkeypatch)


def administrator(way):
    return (*way.servers(0).pair(), None)


# What the credentials are not for


def another_key(way):
    return way.client().code("put", "eve/1")


def another_key_by_parts(way):
    return way.client().code("create", "eve/1")


def another_bucket(way):
    return way.client(bucket=OTHER).code("put", "dora/1")


def reading(way):
    way.client().put("dora/1")
    return way.client().code("get", "dora/1")


def deleting(way):
    return way.client(actions=["upload", "read"]).code("delete", "dora/1")


def listing(way):
    return way.client().code("list", "dora/")


def listing_another_prefix(way):
    return way.client(actions=["read"]).code("list", "eve/")


def listing_uploads_of_another_prefix(way):
    return way.client().code("uploads", "eve/")


def writing_with_what_is_for_reading(way):
    return way.client(actions=["read"]).code("put", "dora/1")


def twice_with_what_is_for_once(way):
    client = way.client(oneTime=True)
    client.put("dora/1")
    return client.code("put", "dora/2")


def more_than_allowed(way):
    return way.client(maxBytes=3).code("put", "dora/1", b"1234")


def another_type(way):
    return way.client(contentTypes=["video/*"]).code("put", "dora/1", **{"Content-Type": "text/plain"})


# Credentials and signatures that are wrong


def none_at_all(way):
    return way.client(credentials=()).code("put", "dora/1")


def wrong_secret(way):
    key, _, token = way.credentials()
    return way.client(credentials=(key, "x" * 40, token)).code("put", "dora/1")


def key_of_other_credentials(way):
    _, secret, token = way.credentials()
    return way.client(credentials=(way.credentials()[0], secret, token)).code("put", "dora/1")


def no_token(way):
    return way.client(credentials=(*way.credentials()[:2], None)).code("put", "dora/1")


def changed_token(way):
    key, secret, token = way.credentials()
    return way.client(credentials=(key, secret, token[:-6] + "AAAAAA")).code("put", "dora/1")


def changed_field(way):
    def change(request):
        request.headers["Content-Type"] = "text/html"

    return way.client(change=change).code("put", "dora/1", **{"Content-Type": "video/mp4"})


def changed_key(way):
    client = way.client(change=lambda request: changed_url(request, "first", "other"))
    return client.code("put", "dora/first")


def changed_number_of_a_part(way):
    upload = way.client().create("dora/1")
    client = way.client(change=lambda request: changed_url(request, "partNumber=1", "partNumber=2"))
    return client.code("part", "dora/1", upload, 1, b"1")


def expired(way):
    credentials = way.credentials(expiresIn=MINUTE)
    return way.client(later=2 * MINUTE, credentials=credentials).code("put", "dora/1")


def clock_far_off(way):
    # A signature for COS has a beginning and an end; the SDK says the end is hours away.
    later = -20 * MINUTE if way.calls.format == "tencent" else 16 * MINUTE
    return way.client(later=later).code("put", "dora/1")


def presigned_url_that_expired(way):
    client = way.client(later=2 * MINUTE)
    return refusal(requests.put(client.presigned("dora/1", MINUTE), data=b"1", timeout=10))


def presigned_url_for_another_key(way):
    url = way.client().presigned("dora/first", MINUTE).replace("first", "other")
    return refusal(requests.put(url, data=b"1", timeout=10))


def presigned_url_for_another_method(way):
    return refusal(requests.delete(way.client().presigned("dora/1", MINUTE), timeout=10))


# What is not there


def no_such_key(way):
    return way.client(actions=["read"]).code("get", "dora/none")


def no_such_key_for_head(way):
    return way.client().code("head", "dora/none")


def no_such_bucket(way):
    return way.client(bucket="none-1250000000", credentials=administrator(way)).code("put", "dora/1")


def part_of_no_upload(way):
    return way.client().code("part", "dora/1", UNKNOWN, 1, b"1")


def parts_of_no_upload(way):
    return way.client().code("parts", "dora/1", UNKNOWN)


def completing_no_upload(way):
    return way.client().code("complete", "dora/1", UNKNOWN, [(1, way.tag(b"1"))])


def aborting_twice(way):
    client = way.client()
    upload = client.create("dora/1")
    client.abort("dora/1", upload)
    return client.code("abort", "dora/1", upload)


def upload_of_another_key(way):
    client = way.client()
    return client.code("part", "dora/2", client.create("dora/1"), 1, b"1")


# Parts and content that are not as they should be


def completed(way, parts):
    """The refusal of a completion by these parts, of two of one byte."""
    client = way.client()
    upload = client.create("dora/1")
    for number in (1, 2):
        client.part("dora/1", upload, number, b"1")
    return client.code("complete", "dora/1", upload, parts)


def wrong_tag(way):
    return completed(way, [(1, way.tag(b"2"))])


def part_that_is_not_there(way):
    return completed(way, [(3, way.tag(b"1"))])


def part_twice(way):
    return completed(way, [(1, way.tag(b"1")), (1, way.tag(b"1"))])


def small_parts(way):
    return completed(way, [(1, way.tag(b"1")), (2, way.tag(b"1"))])


def number_of_a_part_out_of_range(way):
    client = way.client()
    return client.code("part", "dora/1", client.create("dora/1"), 10_001, b"1")


def wrong_digest(way):
    digest = base64.b64encode(hashlib.md5(b"2").digest()).decode()
    return way.client().code("put", "dora/1", b"1", **{"Content-MD5": digest})


def digest_that_is_none(way):
    return way.client().code("put", "dora/1", b"1", **{"Content-MD5": "nonsense"})


DENIED = (403, "AccessDenied")
FORGED = (403, "SignatureDoesNotMatch")
UNKNOWN_KEY = (403, "InvalidAccessKeyId")
NO_UPLOAD = (404, "NoSuchUpload")
WRONG_TOKEN = {"aws": (400, "InvalidToken"), "aliyun": (403, "InvalidSecurityToken"), "tencent": UNKNOWN_KEY}
BAD_DIGEST = (400, "BadDigest")
INVALID_DIGEST = (400, "InvalidDigest")
EXPECTED = {
    another_key: DENIED,
    another_key_by_parts: DENIED,
    another_bucket: DENIED,
    reading: DENIED,
    deleting: DENIED,
    listing: DENIED,
    listing_another_prefix: DENIED,
    listing_uploads_of_another_prefix: DENIED,
    writing_with_what_is_for_reading: DENIED,
    twice_with_what_is_for_once: DENIED,
    more_than_allowed: (400, "EntityTooLarge"),
    another_type: {"aws": (403, "ContentTypeRefused"), "aliyun": (400, "InvalidArgument"), "tencent": DENIED},
    none_at_all: DENIED,
    wrong_secret: FORGED,
    key_of_other_credentials: WRONG_TOKEN,
    no_token: UNKNOWN_KEY,
    changed_token: WRONG_TOKEN,
    changed_field: FORGED,
    changed_key: FORGED,
    changed_number_of_a_part: FORGED,
    expired: {"aws": (400, "ExpiredToken"), "aliyun": (403, "SecurityTokenExpired"), "tencent": DENIED},
    clock_far_off: (403, "RequestTimeTooSkewed"),
    presigned_url_that_expired: DENIED,
    presigned_url_for_another_key: FORGED,
    presigned_url_for_another_method: FORGED,
    no_such_key: (404, "NoSuchKey"),
    # An answer to HEAD has no document. OSS tells the code in a field; the SDK of COS makes up its own.
    no_such_key_for_head: {"aws": (404, "404"), "aliyun": (404, "NoSuchKey"), "tencent": (404, "NoSuchResource")},
    no_such_bucket: (404, "NoSuchBucket"),
    part_of_no_upload: NO_UPLOAD,
    parts_of_no_upload: NO_UPLOAD,
    completing_no_upload: NO_UPLOAD,
    aborting_twice: NO_UPLOAD,
    upload_of_another_key: NO_UPLOAD,
    wrong_tag: (400, "InvalidPart"),
    part_that_is_not_there: (400, "InvalidPart"),
    part_twice: (400, "InvalidPartOrder"),
    small_parts: (400, "EntityTooSmall"),
    number_of_a_part_out_of_range: (400, "InvalidArgument"),
    wrong_digest: {"aws": BAD_DIGEST, "aliyun": INVALID_DIGEST, "tencent": BAD_DIGEST},
    digest_that_is_none: INVALID_DIGEST,
}


@pytest.mark.parametrize("attempt", EXPECTED, ids=lambda attempt: attempt.__name__)
def test_denials_have_the_vendors_codes(way, attempt):
    expected = EXPECTED[attempt]
    assert attempt(way) == (expected if isinstance(expected, tuple) else expected[way.calls.format])


def test_clients_of_cos_recognise_an_expired_signature(servers, monkeypatch):
    """On exactly this message, SDKs for browsers and phones sign again with the server's clock."""
    way = Way(DIALECTS["cos"], servers, monkeypatch)
    client = way.client(later=4 * HOUR, expiresIn=12 * HOUR)
    with pytest.raises(client.refusals) as caught:
        client.put("dora/1")
    assert client.refusal(caught.value) == DENIED
    assert caught.value.get_error_msg() == "Request has expired"


def test_multipart_uploads_of_another_user(servers):
    """Same bucket and prefix, another user: neither parts nor a completion, with the id of the upload in hand."""

    def user(subject):
        pair = minted(servers(0), "aws", subject=subject, bucket=BUCKET, keyPrefix="dora/", actions=["upload"])
        return client(servers(0).object_url, pair=pair[:2], token=pair[2])

    anna, bob = user("anna"), user("bob")
    named = {"Bucket": BUCKET, "Key": "dora/shared"}
    upload = named | {"UploadId": anna.create_multipart_upload(**named)["UploadId"]}
    tag = anna.upload_part(**upload, PartNumber=1, Body=b"anna's")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    assert code(bob.upload_part, **upload, PartNumber=1, Body=b"bob's") == NO_UPLOAD
    source = {"Bucket": BUCKET, "Key": "dora/source"}
    bob.put_object(**source, Body=b"bob's")
    assert code(bob.upload_part_copy, **upload, PartNumber=1, CopySource=source) in {NO_UPLOAD, (403, "AccessDenied")}
    assert code(bob.complete_multipart_upload, **upload, MultipartUpload=parts) == NO_UPLOAD
    # A new session of the same user goes on.
    user("anna").complete_multipart_upload(**upload, MultipartUpload=parts)
    # The same list again after a lost response, but no other.
    anna.complete_multipart_upload(**upload, MultipartUpload=parts)
    for number, other in ((1, '"' + "0" * 32 + '"'), (7, '"' + "1" * 32 + '"')):
        listed = {"Parts": [{"PartNumber": number, "ETag": other}]}
        assert code(anna.complete_multipart_upload, **upload, MultipartUpload=listed) == (400, "InvalidPart")


def test_credentials_for_one_upload_set_tags_only_of_what_they_upload(servers):
    """By tags, the lifecycle of a bucket may delete what is in it."""
    owner = client(servers(0).object_url, pair=servers(0).pair())
    other = {"Bucket": BUCKET, "Key": "tags/other"}
    owner.put_object(**other, Body=b"1", Tagging="keep=1")
    pair = minted(servers(0), "aws", bucket=BUCKET, keyPrefix="tags/", oneTime=True)
    once = client(servers(0).object_url, pair=pair[:2], token=pair[2])
    tags = {"TagSet": [{"Key": "temp", "Value": "1"}]}

    def others_are_refused():
        assert code(once.put_object_tagging, **other, Tagging=tags) == (403, "AccessDenied")
        assert code(once.delete_object_tagging, **other) == (403, "AccessDenied")
        assert owner.get_object_tagging(**other)["TagSet"] == [{"Key": "keep", "Value": "1"}]

    others_are_refused()
    own = {"Bucket": BUCKET, "Key": "tags/own"}
    once.put_object(**own, Body=b"1", Tagging="own=1")
    once.put_object_tagging(**own, Tagging=tags)
    assert once.get_object_tagging(**own)["TagSet"] == tags["TagSet"]
    others_are_refused()
    # What replaced it is another upload.
    owner.put_object(**own, Body=b"2")
    assert code(once.put_object_tagging, **own, Tagging=tags) == (403, "AccessDenied")


@pytest.mark.parametrize("field", ["attachment; filename=a.exe", "attachment; filename=a.png; filename*=UTF-8''a.exe"])
def test_file_names_in_content_disposition_have_an_extension_of_the_policy(servers, field):
    """Browsers save a public object under such a name."""
    gateway = servers(0)
    user = API(gateway.url, gateway.admin_key)
    assert user.request("PUT", "/v1/quota/subjects/names", json={"extensions": ["png"]}).status_code == 200
    wanted = {"subject": "names", "bucket": BUCKET, "keyPrefix": "names/", "actions": ["upload", "read"]}
    pair = minted(gateway, "aws", **wanted)
    s3 = client(gateway.object_url, pair=pair[:2], token=pair[2])
    named = {"Bucket": BUCKET, "Key": "names/a.png"}
    refused = (403, "ContentTypeRefused")
    for allowed in ("attachment", "inline; filename=a.png; filename*=UTF-8''%C3%BC.PNG"):
        s3.put_object(**named, Body=b"1", ContentDisposition=allowed)
        assert s3.head_object(**named)["ContentDisposition"] == allowed
    assert code(s3.put_object, **named, Body=b"1", ContentDisposition=field) == refused
    assert code(s3.create_multipart_upload, **named, ContentDisposition=field) == refused
    copy = {"CopySource": named, "MetadataDirective": "REPLACE", "ContentDisposition": field}
    assert code(s3.copy_object, **named, **copy) == refused
    fields = {"Content-Disposition": field}
    form = s3.generate_presigned_post(BUCKET, "names/a.png", Fields=fields, Conditions=[fields], ExpiresIn=60)
    answer = requests.post(form["url"], data=form["fields"], files={"file": b"1"}, timeout=10)
    assert (answer.status_code, "<Code>ContentTypeRefused</Code>" in answer.text) == (403, True)
    # The URL need not say anything of the field.
    wanted = {"subject": "names", "bucket": BUCKET, "key": "names/b.png"}
    url = user.post("/v1/presigned-urls", wanted).json()["url"]
    assert requests.put(url, data=b"1", headers={"Content-Disposition": field}, timeout=10).status_code == 403
