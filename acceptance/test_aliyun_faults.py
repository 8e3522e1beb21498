"""Upload SDKs of ApsaraVideo VOD while requests fail: what they try again, when they ask for other credentials, and
what becomes of the media.

The SDKs are replayed with their rules (harness/aliyun_client.py). A proxy before the object endpoint makes single
requests fail as the vendor's service does; other errors come from the gateway itself.
"""

import email.utils
import hashlib
import threading
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
import requests

from harness.aliyun_client import (
    IOS,
    VOD,
    Android,
    App,
    OSSError,
    PatientVodJS,
    VodJS,
    decoded,
    document,
    oss_error,
    oss_signature,
    rpc_signature,
)
from harness.daemon import free_port
from harness.data import KIB, content
from harness.faulty_store import Drop, LoseAnswer
from harness.object_client import ObjectServer
from harness.ugc import crc64
from harness.vod_proxy import VODProxy

# Six parts, and less than one.
VIDEO = content(520 * KIB, 1)
CLIP = content(20 * KIB, 2)
PARTS = range(1, 7)
PHONES = [IOS, Android]
SDKS = [IOS, Android, VodJS]
ORIGIN = "http://app.example"
EXPIRED = (403, "SecurityTokenExpired")

INITIATE, PART, COMPLETE, PUT = "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject"
OPERATIONS = [INITIATE, PART, COMPLETE, PUT]


def serving(folder, **settings):
    """A gateway whose address for uploads is a proxy's."""
    port = free_port()
    with VODProxy(port) as proxy:
        settings = {"SLUICE_OBJECT_PUBLIC_URL": proxy.url, "SLUICE_CORS_ORIGINS": ORIGIN} | settings
        with ObjectServer(folder / "data", port, settings) as server:
            yield SimpleNamespace(
                server=server,
                proxy=proxy,
                vod=VOD(server),
                s3=server.client(),
                app=lambda **wanted: App(server, **wanted),
            )


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    yield from serving(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """Its credentials last for a second."""
    yield from serving(tmp_path_factory.mktemp("hasty"), SLUICE_ALIYUN_VOD_AUTH_LIFETIME="1s")


def calm(world):
    world.proxy.clear()
    world.proxy.forget()
    return world


@pytest.fixture
def world(patient):
    return calm(patient)


@pytest.fixture
def short(hasty):
    return calm(hasty)


def check(world, app, data):
    """The media of the app is there, with these bytes."""
    video = world.vod("GetVideoInfo", VideoId=app.id).json()["Video"]
    assert (video["VideoId"], video["Status"], video["Size"]) == (app.id, "Normal", len(data))
    address = app.address
    assert world.s3.get_object(Bucket=address["Bucket"], Key=address["FileName"])["Body"].read() == data
    streams = world.vod("GetPlayInfo", VideoId=app.id).json()["PlayInfoList"]["PlayInfo"]
    assert requests.get(streams[0]["PlayURL"], timeout=30).content == data


def answer(work, *arguments, **options):
    """Status and code of a request that fails."""
    with pytest.raises(OSSError) as caught:
        work(*arguments, **options)
    return caught.value.status, caught.value.code


def begun(world, sdk=IOS, data=VIDEO, parts=(), **wanted):
    """An app and a client with the first parts of an upload, if there are any: the id and the tags."""
    app = world.app(**wanted)
    client = sdk(data)
    started = app.begin(data)
    client.address, client.auth = decoded(started["UploadAddress"]), decoded(started["UploadAuth"])
    found = SimpleNamespace(app=app, client=client, upload=None, tags={})
    found.upload = fresh(found, client.initiate) if parts else None
    for number in parts:
        found.tags[number] = fresh(found, client.put_part, found.upload, number, client.piece(number))
    return found


def fresh(found, work, *arguments):
    """A request that is repeated with other credentials if a second was too short for it."""
    while True:
        try:
            return work(*arguments)
        except OSSError as error:
            if error.code != "SecurityTokenExpired":
                raise
            found.client.auth = decoded(found.app.refresh()["UploadAuth"])


# Signatures

BUCKET = "outin-0123456789abcdef0123456789abcdef"
KEY = "sv/日本 a+b~/1.mp4"
DATE = {"Date": "Fri, 02 Jan 2026 03:04:05 GMT"}
TYPE = {"Content-Type": "video/mp4"}
TOKEN = {"x-oss-security-token": "CAIStoken+/="}
PART_FIELDS = {"Content-Type": "application/octet-stream", "Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
BROWSER = TYPE | TOKEN | {"x-oss-date": DATE["Date"], "x-oss-user-agent": "aliyun-sdk-js/5.3.1 test"}
VECTORS = [
    ("PUT", KEY, {}, DATE | TYPE, "QcAezuNXCf604dKFDXkSCjHchX0="),
    ("POST", KEY, {"uploads": ""}, DATE | TYPE, "NXeKj+iuALKhyEqqEEUDoT22wy0="),
    (
        "PUT",
        KEY,
        {"uploadId": "0004B9895DBBB6EC98E36", "partNumber": "2"},
        DATE | PART_FIELDS,
        "YHpG9IISVJXGWj7wa9xSRBEvH1U=",
    ),
    ("PUT", KEY, {}, DATE | TYPE | TOKEN, "Q+i0P9iI7cbV4kq9+wwU1O9lJHs="),
    ("POST", KEY, {"uploads": ""}, DATE | TYPE | TOKEN, "WiZ4PZwOuQ/M89YAiv5XEPnhJss="),
    ("PUT", "sv/1.mp4", {}, BROWSER, "D+18Cxa+fwozPatG284+A+++ugU="),
]


@pytest.mark.parametrize(("method", "key", "query", "headers", "signature"), VECTORS, ids=range(1, len(VECTORS) + 1))
def test_the_clients_sign_as_the_vendor(method, key, query, headers, signature):
    """Protocol, section 5.2."""
    assert oss_signature("examplesecret", method, BUCKET, key, query, headers) == signature


@pytest.mark.parametrize(
    ("md5", "signature"),
    [
        ("ODBGOERFMDMzQTczRUY3NUE3NzA5QzdFNUYzMDQxNEM=", "26NBxoKdsyly4EDv6inkoDft/yA="),
        ("eB5eJF1ptWaXm4bijSPyxw==", "hD208RWMpg77svXkQRwWXS+V5KQ="),
    ],
)
def test_the_clients_sign_as_in_the_documentation(md5, signature):
    fields = {
        "Content-MD5": md5,
        "Content-Type": "text/html",
        "Date": "Thu, 17 Nov 2005 18:49:58 GMT",
        "X-OSS-Meta-Author": "foo@bar.com",
        "X-OSS-Magic": "abracadabra",
    }
    secret = "OtxrzxIsfpFjA7SwPzILwy8Bw21TLhquhboDYROV"
    assert oss_signature(secret, "PUT", "oss-example", "nelson", {}, fields) == signature


def test_calls_are_signed_as_the_vendor_does():
    """Protocol, section 3.1."""
    parameters = {
        "Action": "CreateUploadVideo",
        "Version": "2017-03-21",
        "Format": "JSON",
        "RegionId": "cn-shanghai",
        "AccessKeyId": "testid",
        "SignatureMethod": "HMAC-SHA1",
        "SignatureType": "",
        "SignatureVersion": "1.0",
        "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
        "Timestamp": "2016-02-23T12:46:24Z",
        "Title": "日本 a+b*~/&=é",
        "FileName": "D:\\x y.mp4",
        "Tags": "a,b",
    }
    assert rpc_signature("POST", parameters, "testsecret") == "CMHjTJlMx17KN/Kq+uN6gJjhMO0="
    assert rpc_signature("GET", parameters, "testsecret") == "axVJpMrIEiiSjtSq2SqPtVnXC8s="


# Errors of the vendor's service

ERRORS = [
    (403, "SecurityTokenExpired"),
    (403, "InvalidAccessKeyId"),
    (403, "SignatureDoesNotMatch"),
    (403, "RequestTimeTooSkewed"),
    (403, "AccessDenied"),
    (400, "InvalidSecurityToken"),
    (500, "InternalError"),
    (404, "NoSuchUpload"),
]
TAKEN_FOR_EXPIRY = {"SecurityTokenExpired", "InvalidAccessKeyId", "SignatureDoesNotMatch"}


def expected(sdk, operation, status, code):
    """How often the app is asked for credentials, and the state in the end (protocol, sections 5.5 and 6)."""
    is_page = issubclass(sdk, VodJS)
    if code == "RequestTimeTooSkewed":
        # A page repeats it without content, which is no part.
        return 0, "failed" if is_page and operation == PART else "finished"
    if is_page:
        if code not in TAKEN_FOR_EXPIRY:
            return 0, "failed"
        return 1, "hangs" if operation == COMPLETE and sdk.parallel > 1 else "finished"
    if status == 403:
        return 1, "finished"
    return 0, "finished" if status == 500 and sdk is Android else "failed"


@pytest.mark.rows
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("status", "code"), ERRORS, ids=[f"{status} {code}" for status, code in ERRORS])
@pytest.mark.parametrize("sdk", [*SDKS, PatientVodJS])
def test_an_error_of_the_service(world, sdk, operation, status, code):
    data = CLIP if operation == PUT else VIDEO
    world.proxy.fault(operation, oss_error(status, code), part=2 if operation == PART else None)
    app = world.app()
    client = sdk(data)
    ending = client.upload(app)
    assert (client.expiries, ending) == expected(sdk, operation, status, code), client.error
    assert app.refreshes == client.expiries
    if code == "RequestTimeTooSkewed" and issubclass(sdk, VodJS) and operation in {PUT, PART}:
        check_empty(world, app, client, operation)
        return
    if ending == "failed":
        assert (client.error.status, client.error.code) == (status, code)
    if ending != "finished":
        client = goes_on(world, app, client)
    check(world, app, data)
    assert client.record == {}
    if operation == PUT:
        assert world.proxy.counts() | {"GetObject": 0} == {PUT: 2, "GetObject": 0}
        return
    check_parts(world, operation, code, ending, sdk)


def check_empty(world, app, client, operation):
    """What a page has repeated without content. So the gateway must not say that its clock is wrong."""
    if operation == PUT:
        check(world, app, b"")
        return
    assert (client.error.status, client.error.code) == (400, "EntityTooSmall")
    client.record.clear()
    goes_on(world, app, client)
    check(world, app, VIDEO)


def goes_on(world, app, failed):
    """The app is started again; pages forget an upload that lacks nothing but its end."""
    client = failed.again()
    client.upload(app, app.refresh())
    if client.state == "hangs":
        assert isinstance(client, VodJS) and set(client.record["doneParts"]) == set(PARTS)
        client.record.clear()
        client = client.again()
        client.upload(app, app.refresh())
    assert client.state == "finished", client.error
    return client


def check_parts(world, operation, code, ending, sdk):
    """Which requests it took."""
    calls = world.proxy.of(PART)
    uploads = {call.upload_id for call in calls}
    sent = [call.part for call in calls]
    is_page = issubclass(sdk, VodJS)
    # A page begins again if the upload is gone, or if it could not end it; phones ask, and learn that it is not.
    begins_again = is_page and (
        (operation == COMPLETE and ending == "hangs")
        or (operation != INITIATE and code == "NoSuchUpload")
        or (operation == COMPLETE and ending == "failed" and sdk.parallel > 1)
    )
    assert len(uploads) == (2 if begins_again else 1)
    assert world.proxy.count(INITIATE) == len(uploads) + (operation == INITIATE)
    final = world.proxy.of(COMPLETE)[-1]
    assert sorted({call.part for call in calls if call.upload_id == final.upload_id}) == list(PARTS)
    assert world.proxy.count(COMPLETE) == 1 + (operation == COMPLETE)
    if not is_page:
        # Nothing is sent twice but what has failed.
        assert sorted(sent) == sorted([*PARTS, 2] if operation == PART else PARTS)
        asks = operation != INITIATE and (ending == "failed" or (code != "RequestTimeTooSkewed" and code in CODES_403))
        assert world.proxy.count("ListParts") == asks
    elif not begins_again:
        # Parts that were under way at the same time may be sent again.
        assert world.proxy.count("ListParts") == 0 and len(sent) <= len(PARTS) + (5 if operation == PART else 0)


CODES_403 = {code for status, code in ERRORS if status == 403}


@pytest.mark.parametrize("sdk", SDKS)
def test_only_what_is_missing_is_sent_after_a_refresh(world, sdk):
    world.proxy.fault(PART, oss_error(*EXPIRED), part=4)
    app = world.app()
    client = sdk(VIDEO)
    client.parallel = 1
    client.start(app.begin(VIDEO))
    assert client.state == "expired"
    acknowledged = world.proxy.parts(status=200)
    world.proxy.forget()
    client.resume(app.refresh())
    assert client.state == "finished"
    assert acknowledged == [1, 2, 3] and world.proxy.parts() == [4, 5, 6]
    check(world, app, VIDEO)


def test_android_gives_up_after_three_errors_of_the_server(world):
    world.proxy.fault(PART, oss_error(500, "InternalError"), part=2, times=3)
    app = world.app()
    client = Android(VIDEO)
    assert client.upload(app) == "failed"
    assert world.proxy.parts().count(2) == 3
    goes_on(world, app, client)
    check(world, app, VIDEO)


# Lost responses


@pytest.mark.rows
@pytest.mark.parametrize("fault", [LoseAnswer(), Drop()], ids=["response", "request"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("sdk", [*SDKS, PatientVodJS])
def test_something_is_lost(world, sdk, operation, fault):
    """Phones repeat it at once; pages fail, and the app is started again."""
    data = CLIP if operation == PUT else VIDEO
    world.proxy.fault(operation, fault, part=3 if operation == PART else None)
    app = world.app()
    client = sdk(data)
    ending = client.upload(app)
    assert ending == ("failed" if issubclass(sdk, VodJS) else "finished"), client.error
    assert client.expiries == 0
    if ending == "failed":
        goes_on(world, app, client)
    check(world, app, data)
    if operation == COMPLETE and sdk is not VodJS:
        assert world.proxy.count(COMPLETE) == 2 and world.proxy.count(INITIATE) == 1


@pytest.mark.parametrize("sdk", SDKS)
def test_a_completion_whose_response_was_lost_is_repeated_after_a_refresh(short, sdk):
    """With credentials of their own, or with those that have expired meanwhile."""
    found = begun(short, sdk, parts=PARTS)
    short.proxy.fault(COMPLETE, LoseAnswer())
    found.client.retries = 0
    with pytest.raises(requests.RequestException):
        found.client.complete(found.upload, found.tags)
    found.client.wait_for_expiry()
    first = found.client.complete(found.upload, found.tags)
    found.client.auth = decoded(found.app.refresh()["UploadAuth"])
    assert found.client.complete(found.upload, found.tags) == first
    check(short, found.app, VIDEO)


# Expired credentials


@pytest.mark.rows
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("sdk", [*SDKS, PatientVodJS])
def test_credentials_that_have_expired(short, sdk, operation):
    """At the start, while parts are sent, before the end, and for a file in one request."""
    data = CLIP if operation == PUT else VIDEO
    app = short.app()
    client = sdk(data)
    started = app.begin(data)
    client.address, client.auth = decoded(started["UploadAddress"]), decoded(started["UploadAuth"])
    once = threading.Event()
    lock = threading.Lock()

    def expire():
        with lock:
            if not once.is_set():
                client.wait_for_expiry()
                once.set()

    if operation == PART:
        client.before_part = lambda number: number >= 3 and expire()
    elif operation == COMPLETE:
        complete = client.complete
        client.complete = lambda *arguments: (expire(), complete(*arguments))
    else:
        expire()
    assert client.upload(app, started) == "finished", client.error
    assert once.is_set() and client.expiries == app.refreshes
    check(short, app, data)
    # On a busy machine others can expire, too.
    refused = [call for call in short.proxy.of("|".join(OPERATIONS)) if call.status != 200]
    assert {call.status for call in refused} <= {403}
    if operation == COMPLETE:
        # Credentials that have just expired are good enough for this.
        assert [call.status for call in short.proxy.of(COMPLETE)] == [200]
    else:
        assert refused[0].operation == operation and client.expiries >= 1
    assert len({call.upload_id for call in short.proxy.of(PART)}) == (operation != PUT)


@pytest.mark.parametrize("sdk", SDKS)
def test_credentials_that_expire_five_times(short, sdk):
    """Two parts go through with each, and all that follow are refused."""
    data = content(1200 * KIB, 5)
    app = short.app()
    client = sdk(data)
    lock = threading.Lock()
    passed = {}

    def before_part(_):
        auth = client.auth["AccessKeyId"]
        with lock:
            passed[auth] = passed.get(auth, 0) + 1
            if app.refreshes < 5 and passed[auth] == 3:
                client.wait_for_expiry()

    client.before_part = before_part
    assert client.upload(app, most=30) == "finished", client.error
    assert client.expiries == app.refreshes >= 5
    check(short, app, data)
    assert len({call.upload_id for call in short.proxy.of(PART)}) == 1
    # On a busy machine one of them can expire, too, and is repeated.
    assert short.proxy.count(INITIATE, status=200) == short.proxy.count(COMPLETE, status=200) == 1
    # No part that was acknowledged is sent again by a phone.
    arrived = short.proxy.parts(status=200)
    assert set(arrived) == set(client.numbers)
    if sdk in PHONES:
        assert len(arrived) == len(client.numbers)


def test_the_error_for_expired_credentials(short):
    """As the vendor's (protocol, section 5.5)."""
    found = begun(short, parts=[1])
    client = found.client
    client.wait_for_expiry()
    for work in [
        client.put,
        client.initiate,
        lambda: client.put_part(found.upload, 2, b"x"),
        lambda: client.list_parts(found.upload),
    ]:
        with pytest.raises(OSSError) as caught:
            work()
        error = caught.value
        assert (error.status, error.code) == EXPIRED
        assert error.element("Message") == "The security token you provided has expired."
        assert error.element("RequestId") == error.answer.headers["x-oss-request-id"]
        assert error.element("HostId")
        assert error.answer.headers["Content-Type"] == "application/xml"
        check_date(error.answer)


def test_the_error_for_expired_credentials_names_the_token(short):
    client = begun(short).client
    client.wait_for_expiry()
    with pytest.raises(OSSError) as caught:
        client.put()
    assert caught.value.element("SecurityToken") == client.auth["SecurityToken"]
    assert caught.value.element("EC") == "0002-00000007"


def test_earlier_credentials_are_valid_until_their_own_end(short):
    """So parts arrive that are under way while the app refreshes; after that they expire, and nothing else."""
    found = begun(short, parts=[1])
    old = found.client.auth
    new = decoded(found.app.refresh()["UploadAuth"])
    assert old["AccessKeyId"] != new["AccessKeyId"]
    found.client.wait_for_expiry()
    assert answer(found.client.put_part, found.upload, 2, found.client.piece(2)) == EXPIRED
    found.client.auth = new
    found.client.wait_for_expiry()
    listed = fresh(found, found.client.list_parts, found.upload)
    assert listed == {1: (found.tags[1], len(found.client.piece(1)))}


def test_both_credentials_work_after_a_refresh(world):
    found = begun(world, parts=[1, 2])
    old, new = found.client.auth, decoded(found.app.refresh()["UploadAuth"])
    for number in range(3, 7):
        found.client.auth = old if number % 2 else new
        found.tags[number] = found.client.put_part(found.upload, number, found.client.piece(number))
    found.client.auth = new
    found.client.complete(found.upload, found.tags)
    check(world, found.app, VIDEO)


# Clocks


@pytest.mark.rows
@pytest.mark.parametrize("error", [-86_400, -1200, -600, 600, 1200, 86_400])
@pytest.mark.parametrize("data", [CLIP, VIDEO], ids=["put", "parts"])
@pytest.mark.parametrize("sdk", SDKS)
def test_devices_whose_clock_is_wrong_upload(world, sdk, data, error):
    """Phones correct it by the Date of a response; a page that has to would send an empty file."""
    app = world.app()
    client = sdk(data)
    client.clock.error = error
    assert client.upload(app) == "finished", client.error
    assert (client.expiries, app.refreshes) == (0, 0)
    check(world, app, data)


def test_the_error_for_a_wrong_clock(world):
    """With the elements that the vendor sends: without `ServerTime`, SDKs for browsers repeat it without end."""
    client = begun(world).client
    # Not the credentials of an upload, for which the gateway need not care.
    client.auth = dict(zip(["AccessKeyId", "AccessKeySecret"], world.vod.pair, strict=True))
    client.initiate()
    client.clock.error = -3600
    client.retries = 0
    with pytest.raises(OSSError) as caught:
        client.initiate()
    error = caught.value
    assert (error.status, error.code) == (403, "RequestTimeTooSkewed")
    check_date(error.answer)
    sent = datetime.fromisoformat(error.element("RequestTime")).timestamp()
    now = datetime.fromisoformat(error.element("ServerTime")).timestamp()
    assert error.element("MaxAllowedSkewMilliseconds") == "900000"
    assert abs(now - sent - 3600) < 60 and abs(now - time.time()) < 60


def check_date(response):
    assert abs(email.utils.parsedate_to_datetime(response.headers["Date"]).timestamp() - time.time()) < 60


# What pages and phones read


def check_exposed(response):
    """A page can read the response, its tag and its request id (protocol, section 5.7)."""
    assert response.headers["Access-Control-Allow-Origin"] in {ORIGIN, "*"}
    exposed = {name.strip().lower() for name in response.headers["Access-Control-Expose-Headers"].split(",")}
    assert exposed >= {"etag", "x-oss-request-id", "x-oss-hash-crc64ecma", "date"}


def of_page(client):
    """Each request has an origin, and its response is checked."""
    send = client.http.request

    def request(*arguments, headers, **options):
        response = send(*arguments, headers=headers | {"Origin": ORIGIN}, **options)
        check_exposed(response)
        check_date(response)
        assert response.headers["x-oss-request-id"]
        return response

    client.http.request = request
    return client


@pytest.mark.parametrize("notification", ["", "eyJWb2QiOnt9fQ=="], ids=["none", "data"])
@pytest.mark.parametrize("data", [CLIP, VIDEO], ids=["put", "parts"])
def test_pages_can_read_each_response(world, data, notification):
    """The SDK sends the field also if the app gives it nothing for it."""
    app = world.app()
    client = of_page(VodJS(data))
    client.notification = {"x-oss-notification": notification}
    assert client.upload(app) == "finished", client.error
    check(world, app, data)


def test_pages_can_read_each_error(short):
    """Without these header fields they would see a failed connection, and would not ask for credentials."""
    found = begun(short, VodJS, parts=[1])
    client = of_page(found.client)
    for auth in [{"AccessKeyId": "STS.unknown"}, {"AccessKeySecret": "x"}, {"SecurityToken": "x"}]:
        good, client.auth = client.auth, client.auth | auth
        assert answer(client.put_part, found.upload, 2, b"x")[0] == 403
        client.auth = good
    assert answer(fresh, found, client.put_part, "0" * 32, 2, b"x") == (404, "NoSuchUpload")
    assert answer(client.complete, found.upload, {1: "undefined"}) == (400, "InvalidPart")
    client.wait_for_expiry()
    assert answer(client.put_part, found.upload, 2, b"x") == EXPIRED
    assert answer(client.put) == EXPIRED


def test_digests_of_each_response(world):
    found = begun(world, parts=[1])
    client = found.client

    def digests(response):
        return response.headers["ETag"], response.headers["x-oss-hash-crc64ecma"]

    def of(data):
        return f'"{hashlib.md5(data).hexdigest().upper()}"', str(crc64(data))

    for number in PARTS:
        data = client.piece(number)
        response = client.send("PUT", {"partNumber": number, "uploadId": found.upload}, data)
        assert digests(response) == of(data)
        found.tags[number] = response.headers["ETag"]
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in found.tags.items()
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    response = client.send("POST", {"uploadId": found.upload}, body, {"Content-Type": "application/xml"})
    tag, crc = digests(response)
    assert crc == str(crc64(VIDEO))
    assert document(response).findtext("ETag") == tag and tag.startswith('"') and tag.endswith('"')
    other = begun(world, data=CLIP).client
    assert digests(other.put()) == of(CLIP)


# Media and uploads that are gone, or others


@pytest.mark.parametrize("sdk", SDKS)
def test_media_that_is_deleted_meanwhile(world, sdk):
    """With a 403 the clients would ask for other credentials without end."""
    found = begun(world, sdk, parts=[1, 2])
    assert world.vod("DeleteVideo", VideoIds=found.app.id).status_code == 200
    client = found.client
    for work in [
        client.put,
        client.initiate,
        lambda: client.put_part(found.upload, 3, client.piece(3)),
        lambda: client.list_parts(found.upload),
        lambda: client.complete(found.upload, found.tags),
    ]:
        assert answer(work)[0] == 404
    # With the id it has kept, or with the parts that it knows.
    if sdk is VodJS:
        client.record |= {"uploadId": found.upload, "doneParts": dict(found.tags)}
    else:
        client.record["uploadId"] = found.upload
    client.start(found.app.begun)
    assert (client.state, client.error.status, client.expiries) == ("failed", 404, 0)
    assert client.record == {} or sdk is not VodJS
    refreshed = found.app.api.post(f"/v1/aliyun/uploads/{found.app.id}/refresh")
    assert refreshed.status_code == 404
    assert world.vod("RefreshUploadVideo", VideoId=found.app.id).json()["Code"] == "InvalidVideo.NotFound"


@pytest.mark.parametrize("sdk", SDKS)
def test_media_that_is_deleted_during_an_upload(world, sdk):
    app = world.app()
    client = sdk(VIDEO)
    client.parallel = 1
    client.before_part = lambda number: number == 4 and world.vod("DeleteVideo", VideoIds=app.id)
    client.upload(app)
    assert (client.state, client.error.status, client.error.code) == ("failed", 404, "NoSuchUpload")
    assert client.expiries == 0 and world.proxy.count(COMPLETE) == 0


@pytest.mark.parametrize("sdk", SDKS)
def test_an_upload_that_is_gone(world, sdk):
    """Phones ask for its parts, are told 404, and begin another one; pages fail once and forget it."""
    found = begun(world, sdk, parts=[1, 2, 3])
    assert world.vod("DeleteMultipartUpload", MediaId=found.app.id, MediaType="video").status_code == 200
    client = found.client
    client.record |= {"uploadId": found.upload} | ({"doneParts": dict(found.tags)} if sdk is VodJS else {})
    world.proxy.forget()
    client.start(found.app.refresh())
    if sdk is VodJS:
        assert (client.state, client.error.code, client.record) == ("failed", "NoSuchUpload", {})
        client = client.again()
        client.start(found.app.refresh())
    else:
        assert world.proxy.of("ListParts")[0].status == 404
    assert (client.state, client.expiries) == ("finished", 0), client.error
    check(world, found.app, VIDEO)


@pytest.mark.parametrize(("sdk", "ending"), [(IOS, "finished"), (Android, "failed"), (VodJS, "finished")])
def test_parts_of_another_size(world, sdk, ending):
    """iOS sends them again, Android gives up, a page has kept the size."""
    found = begun(world, sdk, parts=[1, 2])
    client = sdk(VIDEO, {"uploadId": found.upload})
    client.part_size = 150 * KIB
    if sdk is VodJS:
        client.part_size = found.client.part_size
        client.record["doneParts"] = dict(found.tags)
    world.proxy.forget()
    client.start(found.app.refresh())
    assert client.state == ending, client.error
    if sdk is Android:
        assert world.proxy.count() == 1
        return
    assert sorted(world.proxy.parts()) == ([1, 2, 3, 4] if sdk is IOS else [3, 4, 5, 6])
    check(world, found.app, VIDEO)


# A policy of the app's user, and what the app's server says when it begins.
LIMITS = {
    "more than announced": ({}, {"fileSize": 100 * KIB}),
    "more than allowed": ({}, {"fileSize": None, "maxBytes": 100 * KIB}),
    "quota": ({"storedBytes": 200 * KIB}, {"fileSize": None}),
    "quota of an upload": ({"uploadBytes": 200 * KIB}, {"fileSize": None}),
    "content": ({"checksContent": True, "contentTypes": ["video/*"]}, {}),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("sdk", SDKS)
def test_a_limit_is_not_taken_for_expiry(world, sdk, limit):
    """A phone that gets a 403 asks for other credentials, and gets them, and so on without end."""
    policy, wanted = LIMITS[limit]
    user = f"{sdk.__name__} {limit}".lower().replace(" ", "-")
    app = world.app(subject=user)
    answered = app.api.request("PUT", f"/v1/quota/subjects/{user}", json=policy)
    assert answered.status_code == 200, answered.text
    # What it sends is no video, and is more than these limits allow.
    client = sdk(VIDEO)
    started = app.begin(VIDEO, **wanted)
    client.upload(app, started)
    assert (client.state, client.expiries) == ("failed", 0), client.error
    assert 400 <= client.error.status < 500 and client.error.status != 403
    assert world.vod("GetVideoInfo", VideoId=app.id).json()["Video"]["Status"] == "Uploading"


@pytest.mark.parametrize("data", [CLIP, VIDEO], ids=["put", "parts"])
@pytest.mark.parametrize("sdk", PHONES)
def test_a_phone_that_does_not_know_the_type(world, sdk, data):
    """The user may upload videos, and the app's server has said that this is one."""
    app = world.app(subject="a-user-with-videos")
    policy = {"contentTypes": ["video/*"]}
    assert app.api.request("PUT", "/v1/quota/subjects/a-user-with-videos", json=policy).status_code == 200
    client = sdk(data)
    client.content_type = {"Content-Type": "application/octet-stream"}
    client.upload(app)
    assert (client.state, client.expiries) == ("finished", 0), client.error
    check(world, app, data)


def test_an_upload_of_other_media(world):
    one, other = begun(world, parts=[1]), begun(world, parts=[1])
    client = one.client
    assert answer(client.put_part, other.upload, 2, b"x") == (404, "NoSuchUpload")
    assert answer(client.list_parts, other.upload) == (404, "NoSuchUpload")
    assert answer(client.complete, other.upload, other.tags) == (404, "NoSuchUpload")
    # Its key neither, with the credentials of the first.
    client.address = other.client.address
    assert answer(client.put_part, other.upload, 2, b"x") == (403, "AccessDenied")
    assert answer(client.put) == (403, "AccessDenied")
    assert other.client.list_parts(other.upload).keys() == {1}


def test_the_same_part_twice(world):
    """The last one counts."""
    found = begun(world, parts=PARTS)
    client = found.client
    tag = client.put_part(found.upload, 2, content(100 * KIB, 9))
    assert answer(client.complete, found.upload, found.tags) == (400, "InvalidPart")
    assert client.put_part(found.upload, 2, client.piece(2)) == found.tags[2] != tag
    assert client.list_parts(found.upload)[2] == (found.tags[2], 100 * KIB)
    client.complete(found.upload, found.tags)
    check(world, found.app, VIDEO)


def test_the_same_part_at_once(world):
    """As when a phone has given up a request that is still under way."""
    found = begun(world, parts=PARTS)
    threads = [
        threading.Thread(target=found.client.put_part, args=(found.upload, 2, found.client.piece(2))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.client.complete(found.upload, found.tags)
    check(world, found.app, VIDEO)


def test_completed_twice(world):
    found = begun(world, parts=PARTS)
    client = found.client
    tag = client.complete(found.upload, found.tags)
    assert client.complete(found.upload, found.tags) == tag
    client.auth = decoded(found.app.refresh()["UploadAuth"])
    assert client.complete(found.upload, found.tags) == tag
    # The same id with other parts is no repetition.
    wrong = answer(client.complete, found.upload, {number: found.tags[number] for number in [1, 2, 3]})
    assert wrong == (404, "NoSuchUpload")
    assert answer(client.put_part, found.upload, 1, client.piece(1)) == (404, "NoSuchUpload")
    assert answer(client.list_parts, found.upload) == (404, "NoSuchUpload")
    check(world, found.app, VIDEO)


def test_completed_twice_at_once(world):
    found = begun(world, parts=PARTS)
    tags, lock = [], threading.Lock()

    def complete():
        tag = found.client.complete(found.upload, found.tags)
        with lock:
            tags.append(tag)

    threads = [threading.Thread(target=complete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tags) == 4 and len(set(tags)) == 1
    check(world, found.app, VIDEO)


@pytest.mark.parametrize("tag", ["undefined", "", '"' + "0" * 32 + '"'], ids=["undefined", "empty", "wrong"])
def test_a_page_that_cannot_read_a_tag_does_not_complete(world, tag):
    found = begun(world, VodJS, parts=PARTS)
    assert answer(found.client.complete, found.upload, found.tags | {3: tag})[0] == 400
    assert world.vod("GetVideoInfo", VideoId=found.app.id).json()["Video"]["Status"] == "Uploading"
    found.client.complete(found.upload, found.tags)
    check(world, found.app, VIDEO)
