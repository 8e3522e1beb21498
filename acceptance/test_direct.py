"""`direct` mode: credentials and URLs with which apps upload to a real cloud, past Sluice.

AWS is Ceph's object gateway with its own token service and store. Alibaba Cloud and Tencent Cloud are not available
here; a second Sluice replaces them with its token services and its object endpoint, whose signature checks other
tests compare with the vendors' vectors and SDKs.
"""

import json
import re
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import requests

from harness import hosts
from harness.api import API, field_problem, moment, problem
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.faulty_store import FaultyStore, LoseAnswer, Refuse
from harness.http_server import LocalServer
from harness.object_client import MINTED, REGION, ObjectServer, client
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import COSCalls, OSSCalls, S3Calls, refusal
from harness.rgw import RGW
from harness.server import Server, run
from harness.wire import until

BUCKET = "media"
COS_BUCKET = "media-1250000000"
DENIED = (403, "AccessDenied")
FORMATS = ["aws", "aliyun", "tencent"]
BUCKETS = {"aws": BUCKET, "aliyun": BUCKET, "tencent": COS_BUCKET}
# The minimum size of a part that is not the last.
PARTS = {"aws": 5 * MIB, "aliyun": 100 * KIB, "tencent": MIB}
RAM_ROLE = "acs:ram::1234567890123456:role/uploader"


@pytest.fixture(scope="module")
def rgw(tmp_path_factory):
    with RGW(tmp_path_factory.mktemp("rgw") / "cluster", has_sts=True) as store:
        yield store


@pytest.fixture(scope="module")
def role(rgw):
    rgw.make_bucket(BUCKET)
    rgw.make_bucket("unlisted")
    return rgw.add_role("uploader")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    """Replaces Alibaba Cloud and Tencent Cloud."""
    # The gateway resolves names below localhost by itself, clients those of the table below.
    domains = ["oss.localhost", "cos.localhost", *DOMAINS.values()]
    settings = {
        "SLUICE_OBJECT_BUCKETS": f"{BUCKET},{COS_BUCKET},unlisted",
        "SLUICE_OBJECT_DOMAINS": ",".join(domains),
    }
    with ObjectServer(tmp_path_factory.mktemp("cloud") / "data", free_port(), environment=settings) as server:
        yield server


def port(server):
    return int(server.object_url.rpartition(":")[2])


@pytest.fixture(scope="module")
def settings(rgw, role, cloud):
    identifier, secret = cloud.pair()
    return {
        "SLUICE_AWS_BUCKETS": BUCKET,
        "SLUICE_AWS_ACCESS_KEY_ID": rgw.access_key,
        "SLUICE_AWS_SECRET_ACCESS_KEY": rgw.secret_key,
        "SLUICE_AWS_ROLE_ARN": role,
        "SLUICE_AWS_STS_ENDPOINT": rgw.url,
        "SLUICE_AWS_S3_ENDPOINT": rgw.url,
        "SLUICE_AWS_PATH_STYLE": "true",
        "SLUICE_ALIYUN_BUCKETS": BUCKET,
        "SLUICE_ALIYUN_ACCESS_KEY_ID": identifier,
        "SLUICE_ALIYUN_ACCESS_KEY_SECRET": secret,
        "SLUICE_ALIYUN_REGION": REGION,
        "SLUICE_ALIYUN_ROLE_ARN": RAM_ROLE,
        "SLUICE_ALIYUN_STS_ENDPOINT": cloud.object_url,
        "SLUICE_ALIYUN_OSS_ENDPOINT": f"http://oss.localhost:{port(cloud)}",
        "SLUICE_TENCENT_BUCKETS": COS_BUCKET,
        "SLUICE_TENCENT_SECRET_ID": identifier,
        "SLUICE_TENCENT_SECRET_KEY": secret,
        "SLUICE_TENCENT_REGION": "ap-guangzhou",
        "SLUICE_TENCENT_STS_ENDPOINT": cloud.object_url,
        "SLUICE_TENCENT_COS_ENDPOINT": f"http://cos.localhost:{port(cloud)}",
    }


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, settings, cloud):
    """Without an object endpoint of its own: it mints nothing for itself."""
    log = tmp_path_factory.mktemp("direct") / "gateway.log"
    with Server(log.parent / "data", environment=settings, log=log) as server:
        yield server
    text = log.read_text()
    secrets = [settings["SLUICE_AWS_SECRET_ACCESS_KEY"], settings["SLUICE_ALIYUN_ACCESS_KEY_SECRET"], *SECRETS]
    assert not [secret for secret in secrets if secret in text]


# Secrets and tokens that were minted.
SECRETS = []


@pytest.fixture(scope="module")
def api(gateway):
    return API(gateway.url, gateway.admin_key)


@pytest.fixture(autouse=True)
def names(monkeypatch, cloud):
    """Hosts of buckets resolve to the cloud."""
    table = dict.fromkeys(["oss.localhost", "cos.localhost", DOMAINS["cos"]], port(cloud))
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver(table))


def asked(api, format="aws", **wanted):
    wanted = {"mode": "direct", "format": format, "subject": "user 42", "bucket": BUCKETS[format]} | wanted
    return api.post("/v1/sts/tokens", wanted)


def minted(api, format="aws", **wanted):
    """Key, secret and token of new credentials, and the whole response."""
    answer = asked(api, format, **wanted)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    document = answer.json()
    credentials = document.get("Credentials") or document.get("credentials") or document
    held = tuple(credentials[name] for name in MINTED[format])
    SECRETS.extend(held[1:])
    return held, document


@pytest.fixture
def calls(rgw, cloud):
    """The vendor's SDK, with credentials, directly at the store."""

    def make(format, held):
        if format == "aws":
            return S3Calls(rgw.port, BUCKET, held)
        kind = {"aliyun": OSSCalls, "tencent": COSCalls}[format]
        return kind(port(cloud), BUCKETS[format], held)

    return make


@pytest.fixture
def reader(rgw, cloud):
    """The content of a store, read with its own keys."""

    def read(format, key):
        store = rgw.client() if format == "aws" else cloud.client()
        return store.get_object(Bucket=BUCKETS[format], Key=key)["Body"].read()

    return read


def entity_tag(answer):
    """Of a part, as each SDK tells it."""
    tag = answer["ETag"] if isinstance(answer, dict) else answer.etag
    return tag.strip('"')


# Credentials of sessions


@pytest.mark.parametrize("format", FORMATS)
def test_an_sdk_uploads_directly_to_the_cloud(api, calls, reader, format):
    held, document = minted(api, format, keyPrefix="user 42/", expiresIn=1800)
    session = calls(format, held)
    session.put("user 42/ü 1", b"whole")
    assert reader(format, "user 42/ü 1") == b"whole"
    parts = [content(PARTS[format], 1), b"the end"]
    upload = session.create("user 42/parts")
    tags = [entity_tag(session.part("user 42/parts", upload, n, data)) for n, data in enumerate(parts, 1)]
    session.parts("user 42/parts", upload)
    session.complete("user 42/parts", upload, list(enumerate(tags, 1)))
    assert reader(format, "user 42/parts") == b"".join(parts)
    session.abort("user 42/gone", session.create("user 42/gone"))
    assert document["bucket"] == BUCKETS[format]
    assert document["region"] == ("ap-guangzhou" if format == "tencent" else REGION)
    assert document["endpoint"].startswith("http://")
    end = moment(document.get("Credentials", document).get("Expiration") or document["expiration"])
    assert abs(end - datetime.now(UTC) - timedelta(seconds=1800)) < timedelta(seconds=60)


@pytest.mark.parametrize("format", FORMATS)
def test_a_session_does_what_was_granted_and_nothing_else(api, calls, rgw, cloud, format):
    own = rgw.client() if format == "aws" else cloud.client()
    for key in ("user 42/there", "user 43/there"):
        own.put_object(Bucket=BUCKETS[format], Key=key, Body=b"there")
    writer = calls(format, minted(api, format, keyPrefix="user 42/")[0])
    for call in [
        lambda: writer.code("put", "user 43/1"),
        lambda: writer.code("put", "user 42"),
        lambda: writer.code("get", "user 42/there"),
        lambda: writer.code("delete", "user 42/there"),
        lambda: writer.code("create", "user 43/1"),
        lambda: writer.code("list", ""),
        lambda: writer.code("list", "user 42/"),
    ]:
        assert call() == DENIED

    reader = calls(format, minted(api, format, keyPrefix="user 42/", actions=["read"])[0])
    assert reader.get("user 42/there") == b"there"
    reader.list("user 42/")
    assert reader.code("get", "user 43/there") == DENIED
    assert reader.code("list", "user 43/") == DENIED
    assert reader.code("list", "") == DENIED
    assert reader.code("put", "user 42/2") == DENIED

    remover = calls(format, minted(api, format, key="user 42/there", actions=["delete"])[0])
    assert remover.code("delete", "user 43/there") == DENIED
    remover.delete("user 42/there")
    assert remover.code("put", "user 42/there") == DENIED

    single = calls(format, minted(api, format, key="user 42/1")[0])
    single.put("user 42/1")
    assert single.code("put", "user 42/11") == DENIED


def test_another_bucket_is_denied_by_the_cloud(api, rgw):
    held, _ = minted(api, keyPrefix="")
    other = S3Calls(rgw.port, "unlisted", held)
    assert other.code("put", "1") == DENIED
    S3Calls(rgw.port, BUCKET, held).put("any")


def test_media_types_are_a_condition_of_cos(api, calls):
    session = calls("tencent", minted(api, "tencent", keyPrefix="t/", contentTypes=["video/*"])[0])
    session.put("t/1", **{"Content-Type": "video/mp4"})
    assert session.code("put", "t/2", **{"Content-Type": "text/html"}) == DENIED


def test_without_a_role_the_user_is_federated(tmp_path, settings, cloud):
    """With Sluice's own token service, because Ceph has no GetFederationToken."""
    identifier, secret = cloud.pair()
    federating = {name: value for name, value in settings.items() if name.startswith("SLUICE_AWS")}
    del federating["SLUICE_AWS_ROLE_ARN"]
    federating |= {
        "SLUICE_AWS_ACCESS_KEY_ID": identifier,
        "SLUICE_AWS_SECRET_ACCESS_KEY": secret,
        "SLUICE_AWS_STS_ENDPOINT": cloud.object_url,
        "SLUICE_AWS_S3_ENDPOINT": cloud.object_url,
    }
    with Server(tmp_path / "data", environment=federating) as server:
        held, _ = minted(API(server.url, server.admin_key), keyPrefix="f/", expiresIn=129_600)
    session = S3Calls(port(cloud), BUCKET, held)
    session.put("f/1")
    assert session.code("put", "g/1") == DENIED


# URLs and forms


def signed(api, format="aws", **wanted):
    answer = api.post("/v1/presigned-urls", {"mode": "direct", "format": format, "bucket": BUCKETS[format]} | wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()


def send(url, data=None, **headers):
    """What an app does with a URL."""
    return requests.request(url["method"], url["url"], data=data, headers=url["headers"] | headers, timeout=30)


@pytest.mark.parametrize("format", FORMATS)
def test_urls_for_one_object(api, reader, format):
    key = f"urls/ü 1+2&=%41.{format}"
    put = signed(api, format, key=key, contentType="video/mp4", expiresIn=60)
    assert 50 < moment(put["expiresAt"]).timestamp() - time.time() <= 60
    answer = send(put, b"0123456789")
    assert answer.status_code == 200, answer.text
    assert reader(format, key) == b"0123456789"
    assert send(put, b"1", **{"Content-Type": "text/html"}).status_code == 403
    other = put | {"url": put["url"].replace("urls/", "others/")}
    assert send(other, b"1").status_code == 403
    got = send(signed(api, format, key=key, method="GET"))
    assert (got.status_code, got.content, got.headers["Content-Type"]) == (200, b"0123456789", "video/mp4")
    assert send(signed(api, format, key=key, method="HEAD")).headers["Content-Length"] == "10"
    assert send(signed(api, format, key=key, method="DELETE")).status_code == 204
    assert send(signed(api, format, key=key, method="GET")).status_code == 404


@pytest.mark.parametrize("format", FORMATS)
def test_urls_for_parts(api, reader, format):
    key = f"parts/ü.{format}"
    begun = signed(api, format, key=key, parts=[1, 2], contentType="video/mp4")
    more = signed(api, format, key=key, parts=[3], uploadId=begun["uploadId"])
    assert more["uploadId"] == begun["uploadId"]
    pieces = [content(PARTS[format], 2), content(PARTS[format], 3), b"the end"]
    tags = [send(url, piece) for url, piece in zip(begun["parts"] + more["parts"], pieces, strict=True)]
    assert [answer.status_code for answer in tags] == [200] * 3, tags[0].text
    listed = send(begun["list"]).text
    assert re.findall(r"<PartNumber>(\d+)</PartNumber>", listed) == ["1", "2", "3"]
    entries = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['ETag']}</ETag></Part>"
        for number, answer in enumerate(tags, 1)
    )
    document = f"<CompleteMultipartUpload>{entries}</CompleteMultipartUpload>"
    answer = send(begun["complete"], document)
    assert answer.status_code == 200, answer.text
    assert reader(format, key) == b"".join(pieces)
    assert send(signed(api, format, key=key, method="HEAD")).headers["Content-Type"] == "video/mp4"
    given_up = signed(api, format, key=key + "2", parts=[1])
    assert send(given_up["parts"][0], b"1").status_code == 200
    assert send(given_up["abort"]).status_code == 204
    assert refusal(send(given_up["parts"][0], b"1")) == (404, "NoSuchUpload")


@pytest.mark.parametrize("format", FORMATS)
def test_a_form(api, reader, format):
    form = signed(api, format, keyPrefix="form/", method="POST", contentType="image/*", maxBytes=10)

    def post(data, type="image/png", **fields):
        fields = form["fields"] | {"Content-Type": type} | fields
        return requests.post(form["url"], data=fields, files={"file": ("a.png", data)}, timeout=30)

    answer = post(b"0123456789")
    assert answer.status_code == 201, answer.text
    assert reader(format, "form/a.png") == b"0123456789"
    assert post(b"0123456789+").status_code == 400
    assert post(b"1", type="text/html").status_code == 403
    assert post(b"1", key="other/a.png").status_code == 403


# What is refused


@pytest.mark.parametrize(
    ("format", "field", "wanted"),
    [
        ("aws", "maxBytes", {"maxBytes": 1}),
        ("aws", "oneTime", {"oneTime": True}),
        ("aws", "metadata", {"metadata": {"a": "b"}}),
        ("aws", "contentTypes", {"contentTypes": ["video/*"]}),
        ("aliyun", "contentTypes", {"contentTypes": ["video/*"]}),
        ("tencent", "maxBytes", {"maxBytes": 1}),
        ("aws", "keyPrefix", {"keyPrefix": "a*"}),
        ("aws", "expiresIn", {"expiresIn": 899}),
        ("aws", "expiresIn", {"expiresIn": 43_201}),
        ("aliyun", "expiresIn", {"expiresIn": 43_201}),
        ("aws", "bucket", {"bucket": "unlisted"}),
        ("tencent", "bucket", {"bucket": BUCKET}),
        ("tencent", "contentTypes", {"contentTypes": ["image/*g"]}),
        ("aws", "mode", {"mode": "elsewhere"}),
    ],
)
def test_limits_that_no_session_can_have(api, format, field, wanted):
    field_problem(asked(api, format, **({"keyPrefix": "a/"} | wanted)), field)


@pytest.mark.parametrize(
    ("format", "field", "wanted"),
    [
        ("aws", "maxBytes", {"maxBytes": 1}),
        ("aws", "oneTime", {"oneTime": True}),
        ("aws", "metadata", {"metadata": {"a": "b"}}),
        ("aws", "contentType", {"contentType": "image/*"}),
        ("aws", "maxBytes", {"parts": [1], "maxBytes": 1}),
        ("aws", "oneTime", {"method": "POST", "oneTime": True}),
        ("aliyun", "bucket", {"bucket": "unlisted"}),
        ("aws", "uploadId", {"parts": [1], "uploadId": ""}),
        ("aws", "mode", {"mode": ""}),
    ],
)
def test_limits_that_no_url_can_have(api, format, field, wanted):
    wanted = {"mode": "direct", "format": format, "bucket": BUCKETS[format], "key": "a"} | wanted
    field_problem(api.post("/v1/presigned-urls", wanted), field)


def test_scopes_are_the_same_as_in_relay_mode(gateway):
    minter, uploader = (API(gateway.url, created_key(gateway, scope)) for scope in ("mint", "upload"))
    problem(asked(uploader, keyPrefix="a/"), 403, "forbidden")
    problem(uploader.post("/v1/presigned-urls", {"mode": "direct", "bucket": BUCKET, "key": "a"}), 403, "forbidden")
    minted(minter, keyPrefix="a/")
    field_problem(asked(minter, keyPrefix="a/", actions=["read"]), "actions")
    wanted = {"mode": "direct", "bucket": BUCKET, "key": "a", "method": "GET"}
    field_problem(minter.post("/v1/presigned-urls", wanted), "method")


@pytest.mark.parametrize("format", FORMATS)
def test_a_session_ends_no_later_than_the_key(api, gateway, format):
    """It cannot be revoked here."""
    made = api.post("/v1/keys", {"name": "short", "scopes": ["mint"], "expiresIn": 1800}).json()
    end = moment(made["expiresAt"])
    short = API(gateway.url, made["secret"])
    for lifetime in (43_200, 1800, 900):
        wanted = {"expiresIn": lifetime, "keyPrefix": "a/"}
        (_, document) = minted(short, format, **wanted)
        last = min(end, datetime.now(UTC) + timedelta(seconds=lifetime))
        assert last - timedelta(seconds=60) < ending(document) <= last + timedelta(seconds=2), (lifetime, document)


@pytest.mark.parametrize("format", FORMATS)
def test_no_session_is_made_that_would_outlive_the_key(api, gateway, format):
    made = api.post("/v1/keys", {"name": "short", "scopes": ["mint"], "expiresIn": 60}).json()
    short = API(gateway.url, made["secret"])
    # Tencent's can last a minute, which is over for this key by now.
    for lifetime in (43_200, 900):
        field_problem(asked(short, format, expiresIn=lifetime, keyPrefix="a/"), "expiresIn")


def ending(document):
    """When credentials end."""
    inner = document.get("Credentials") or document.get("credentials") or document
    for text in (inner.get("Expiration"), document.get("Expiration")):
        if text:
            return moment(text)
    return datetime.fromtimestamp(document["expiredTime"], UTC)


def created_key(gateway, scope):
    made = run("keys", "create", "--name", scope, "--scope", scope, environment=gateway.environment).stdout
    return re.search(r"slk_\S+", made)[0]


def test_a_cloud_that_is_not_configured(tmp_path):
    with Server(tmp_path / "data") as server:
        api = API(server.url, server.admin_key)
        named = {
            "aws": ["aws.buckets"],
            "aliyun": ["aliyun.accessKeyId", "aliyun.region", "aliyun.buckets"],
            "tencent": ["tencent.secretId", "tencent.region", "tencent.buckets"],
        }
        for format, settings in named.items():
            for answer in [
                asked(api, format, keyPrefix=""),
                api.post("/v1/presigned-urls", {"mode": "direct", "format": format, "bucket": BUCKET, "key": "a"}),
            ]:
                field_problem(answer, "mode")
                assert all(name in answer.text for name in settings)
        # As before.
        assert asked(api, mode="relay", keyPrefix="").status_code == 201


def test_sessions_of_alibaba_cloud_need_a_role_and_urls_do_not(tmp_path, settings):
    without = {name: value for name, value in settings.items() if name != "SLUICE_ALIYUN_ROLE_ARN"}
    with gateway_at(tmp_path, without) as api:
        field_problem(answer := asked(api, "aliyun", keyPrefix=""), "mode")
        assert "aliyun.roleArn" in answer.text
        assert send(signed(api, "aliyun", key="1"), b"1").status_code == 200


# Clouds in trouble


@contextmanager
def gateway_at(path, settings, **changes):
    with Server(path / "data", environment=settings | changes) as server:
        api = API(server.url, server.admin_key)
        api.log = server.log
        yield api


def metric(api, cloud, outcome):
    found = re.search(
        f'sluice_cloud_calls_total{{cloud="{cloud}",outcome="{outcome}"}} (\\d+)', api.get("/metrics").text
    )
    return int(found[1]) if found else 0


def test_a_refusal_of_the_cloud_is_reported(rgw, tmp_path, settings):
    nobody = rgw.add_role("not-mine", trusted="somebody-else")
    with gateway_at(
        tmp_path, settings, SLUICE_AWS_ROLE_ARN=nobody, SLUICE_ALIYUN_ACCESS_KEY_SECRET="wrong-secret"
    ) as api:
        document = problem(asked(api, keyPrefix="a/"), 502, "cloud_failed")
        assert document["detail"].startswith("AWS refused AssumeRole: AccessDenied")
        document = problem(asked(api, "aliyun", keyPrefix="a/"), 502, "cloud_failed")
        assert document["detail"] == "Alibaba Cloud refused AssumeRole: SignatureDoesNotMatch"
        # The operator learns which settings to look at.
        for cloud, names in (
            ("AWS", "aws.accessKeyId, aws.secretAccessKey"),
            ("Alibaba Cloud", "aliyun.accessKeyId, aliyun.accessKeySecret"),
        ):
            told = re.compile(f"^.*{cloud} refused.*{names}.*$|^.*{names}.*{cloud} refused.*$", re.M)
            until(lambda told=told: told.search(api.log.read_text()))
        assert metric(api, "AWS", "refused") == metric(api, "Alibaba Cloud", "refused") == 1
        # The store refuses, too.
        wanted = {"mode": "direct", "format": "aliyun", "bucket": BUCKET, "key": "a", "parts": [1]}
        document = problem(api.post("/v1/presigned-urls", wanted), 502, "cloud_failed")
        assert "CreateMultipartUpload: SignatureDoesNotMatch" in document["detail"]


def test_a_cloud_that_is_down_or_responds_with_nonsense(tmp_path, settings, gateway):
    nowhere = f"http://127.0.0.1:{free_port()}"
    changes = {
        "SLUICE_AWS_STS_ENDPOINT": nowhere,
        "SLUICE_AWS_S3_ENDPOINT": nowhere,
        # A server that is not a cloud.
        "SLUICE_ALIYUN_STS_ENDPOINT": gateway.url,
        "SLUICE_TENCENT_STS_ENDPOINT": gateway.url,
    }
    with gateway_at(tmp_path, settings, **changes) as api:
        wanted = {"mode": "direct", "bucket": BUCKET, "key": "a", "parts": [1]}
        for answer in [asked(api, keyPrefix="a/"), api.post("/v1/presigned-urls", wanted)]:
            assert "cannot be reached" in problem(answer, 503, "cloud_unavailable")["detail"]
            assert answer.headers["Retry-After"] == "5"
        for format in ["aliyun", "tencent"]:
            problem(asked(api, format, keyPrefix="a/"), 502, "cloud_failed")
        assert metric(api, "AWS", "unavailable") == 2
        # URLs need only the keys.
        assert api.post("/v1/presigned-urls", wanted | {"parts": None}).status_code == 201


def test_a_cloud_that_does_not_respond(tmp_path, settings):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with gateway_at(tmp_path, settings, SLUICE_AWS_STS_ENDPOINT=url) as api:
            document = problem(asked(api, keyPrefix="a/"), 503, "cloud_unavailable")
            assert document["detail"] == "AssumeRole of AWS did not respond: the response did not arrive in time"
            # It does not delay other requests.
            assert asked(api, "tencent", keyPrefix="a/").status_code == 201


def test_a_multipart_upload_is_begun_once_even_if_the_response_is_lost(tmp_path, rgw, settings):
    wanted = {"mode": "direct", "bucket": BUCKET, "key": "lost", "parts": [1]}
    with FaultyStore(rgw.port) as proxy, gateway_at(tmp_path, settings, SLUICE_AWS_S3_ENDPOINT=proxy.url) as api:
        # A connection may be left from it.
        assert api.post("/v1/presigned-urls", wanted).status_code == 201
        for fault, status, code in [
            (LoseAnswer(), 503, "cloud_unavailable"),
            (Refuse(503, "SlowDown"), 503, "cloud_unavailable"),
            (Refuse(500, "InternalError"), 502, "cloud_failed"),
        ]:
            before = proxy.count("CreateMultipartUpload")
            proxy.fault("CreateMultipartUpload", fault)
            problem(api.post("/v1/presigned-urls", wanted), status, code)
            assert proxy.count("CreateMultipartUpload") == before + 1
        assert api.post("/v1/presigned-urls", wanted).status_code == 201


@contextmanager
def agent(credentials, end):
    """The URL of an agent of containers, which issues session credentials."""
    answer = {name: credentials[name] for name in ("AccessKeyId", "SecretAccessKey")}
    answer |= {"Token": credentials["SessionToken"], "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    body = json.dumps(answer).encode()

    with LocalServer(lambda request: request.respond(content=body)) as server:
        yield server.url + "/"


def test_credentials_of_the_environment(tmp_path, rgw, settings):
    without = {name: value for name, value in settings.items() if name.startswith("SLUICE_AWS_")}
    del without["SLUICE_AWS_ACCESS_KEY_ID"], without["SLUICE_AWS_SECRET_ACCESS_KEY"]
    tokens = client(rgw.url, (rgw.access_key, rgw.secret_key), service="sts")
    session = tokens.assume_role(RoleArn=settings["SLUICE_AWS_ROLE_ARN"], RoleSessionName="sluice")
    credentials = session["Credentials"]
    found = {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }
    with gateway_at(tmp_path, without | found) as api:
        url = signed(api, key="chain/1")
        assert "X-Amz-Security-Token=" in url["url"]
        assert send(url, b"1").status_code == 200
    # A URL ends with the credentials that signed it, where it is known when they do.
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1000)
    with (
        agent(credentials, end) as url,
        gateway_at(tmp_path, without | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}) as api,
    ):
        for wanted in [{"key": "chain/2"}, {"key": "chain/3", "parts": [1]}, {"keyPrefix": "chain/", "method": "POST"}]:
            assert moment(signed(api, **wanted, expiresIn=3600)["expiresAt"]) == end
        url = signed(api, key="chain/2", expiresIn=60)
        assert moment(url["expiresAt"]) < end
        assert send(url, b"1").status_code == 200
    with gateway_at(tmp_path, without | {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}) as api:
        document = problem(asked(api, keyPrefix="a/"), 503, "cloud_unavailable")
        assert document["detail"] == "there are no credentials for AWS now; the server's log says why"
