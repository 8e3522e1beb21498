"""Callbacks of OSS (`x-oss-callback`), by its unmodified SDKs, to an app that is a real HTTP server."""

import base64
import hashlib
import hmac
import json
import re
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import alibabacloud_oss_v2 as oss_v2
import oss2
import pytest
import requests
from standardwebhooks import Webhook, WebhookVerificationError

from harness.callback_app import ANSWER, JSON, VARIABLES, CallbackApp, callback, encoded, named, reply
from harness.daemon import free_port
from harness.data import KIB, content
from harness.object_client import ObjectServer, minted
from harness.object_clients.aliyun import REGION
from harness.object_clients.calls import OSS4Calls, OSSCalls, refusal
from harness.server import run
from harness.wire import Wire

BUCKET = "media-1250000000"
DATA = content(70_003, seed=1)


def etag(data):
    return hashlib.md5(data).hexdigest().upper()


@pytest.fixture(scope="module")
def app():
    with CallbackApp() as made:
        yield made


@pytest.fixture(scope="module")
def unused():
    """A port without a listener."""
    return free_port()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, app, unused):
    hosts = [app.host, f"127.0.0.1:{unused}", f"*.localhost:{app.port}"]
    settings = {"SLUICE_OBJECT_BUCKETS": BUCKET, "SLUICE_OBJECT_CALLBACK_HOSTS": ",".join(hosts)}
    with ObjectServer(tmp_path_factory.mktemp("callbacks") / "data", free_port(), settings) as server:
        app.secret = run("credentials", "callbacks", environment=server.environment).stdout.strip()
        yield server


def port(server):
    return int(server.object_url.rsplit(":", 1)[1])


@pytest.fixture
def held(gateway):
    return minted(gateway, "aliyun", bucket=BUCKET, keyPrefix="", actions=["upload", "read", "delete"])


@pytest.fixture(params=[OSSCalls, OSS4Calls], ids=["v1", "v4"])
def client(gateway, held, request):
    return request.param(port(gateway), BUCKET, held)


@pytest.fixture
def client_v2(gateway, held):
    config = oss_v2.config.load_default()
    config.credentials_provider = oss_v2.credentials.StaticCredentialsProvider(*held)
    config.region = REGION
    config.endpoint = gateway.object_url
    config.retry_max_attempts = 1
    return oss_v2.Client(config)


@pytest.fixture
def path(request):
    """Of the app, for one test."""
    return "/" + re.sub(r"\W", "-", request.node.name)


def test_the_app_responds_to_a_put(app, client, path):
    key = "a b/ü&=.mp4"
    fields = named(app.url + path + "?q=%20", callbackHost="127.0.0.1") | {"Content-Type": "video/mp4"}
    result = client.put(key, DATA, **fields)
    assert result.status == 200 and json.loads(result.resp.read()) == ANSWER
    assert result.etag == etag(DATA) and result.headers["Content-Type"] == "application/json"
    (call,) = app.to(path)
    assert call.path == path + "?q=%20" and call.fields["Host"] == "127.0.0.1"
    assert call.fields["Content-Type"] == "application/x-www-form-urlencoded"
    assert call.form == {
        "bucket": BUCKET,
        "object": key,
        "etag": etag(DATA),
        "size": str(len(DATA)),
        "type": "video/mp4",
        "op": "PutObject",
        "u": VARIABLES["x:user"],
    }
    # Nothing of the client goes with it.
    assert {name.lower() for name in call.fields} == {
        "host",
        "user-agent",
        "accept",
        "content-type",
        "content-length",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }
    assert client.get(key) == DATA


def test_json_has_values_and_parts_of_texts(app, client, path):
    key = 'with "quotes"\\.gif'
    gif = b"GIF89a\x20\x03\x58\x02\x00\x00\x00;"
    for data, picture in ((gif, "800,600"), (b"no picture", ",")):
        client.put(key, data, **named(app.url + path, JSON, callbackBodyType="application/json"))
        call = app.to(path)[-1]
        assert call.fields["Content-Type"] == "application/json"
        assert call.json == {"object": key, "size": len(data), "pic": picture, "u": VARIABLES["x:user"]}


def test_the_app_responds_to_each_completion(app, client, path):
    key, parts, tags = f"parts{path}", [content(100 * KIB, seed=2), b"end"], []
    fields = named(app.url + path)
    # An SDK that names it with all that it sends.
    upload = client.oss.init_multipart_upload(key, headers=fields).upload_id
    for number, data in enumerate(parts, 1):
        tags.append(
            oss2.models.PartInfo(number, client.oss.upload_part(key, upload, number, data, headers=fields).etag)
        )
    assert app.to(path) == []
    for count in (1, 2):
        # The answer to the first may have been lost.
        result = client.oss.complete_multipart_upload(key, upload, tags, headers=fields)
        assert json.loads(result.resp.read()) == ANSWER and result.etag.endswith("-2")
        assert len(app.to(path)) == count
    first, second = app.to(path)
    assert first.body == second.body and first.fields["webhook-id"] == second.fields["webhook-id"]
    assert first.form["size"] == str(100 * KIB + 3) and first.form["op"] == "CompleteMultipartUpload"
    assert client.get(key) == b"".join(parts)


def test_the_sdk_in_c_completes_with_a_callback(app, gateway, path):
    """Its document comes in chunks with a length beside them, as a form, after an interim response."""
    identifier, secret = gateway.pair()
    calls = OSSCalls(port(gateway), BUCKET, (identifier, secret, None))
    key, kind = "c/parts", "application/x-www-form-urlencoded"
    upload = calls.create(key)
    tag = calls.oss.upload_part(key, upload, 1, b"test oss c sdk").etag
    date, value = formatdate(usegmt=True), callback(app.url + path, "size=${size}&op=${operation}")
    target = f"/{BUCKET}/{key}?uploadId={upload}"
    text = f"POST\n\n{kind}\n{date}\nx-oss-callback:{value}\n{target}"
    signature = base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha1")).decode()
    document = (
        '<?xml version="1.0" encoding="utf-8"?><CompleteMultipartUpload><Part><PartNumber>1</PartNumber>'
        f"<ETag>&quot;{tag}&quot;</ETag></Part></CompleteMultipartUpload>\n"
    ).encode()
    with Wire(("127.0.0.1", port(gateway))) as wire:
        wire.send(
            f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: aliyun-sdk-c/3.11.2(Compatible Unknown)\r\n"
            f"Accept: */*\r\nTransfer-Encoding: chunked\r\nContent-Length: {len(document)}\r\n"
            f"x-oss-callback: {value}\r\nContent-Type: {kind}\r\nDate: {date}\r\n"
            f"Authorization: OSS {identifier}:{signature}\r\nExpect: 100-continue\r\n\r\n"
        )
        assert wire.interim().status == 100
        wire.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(document), document))
        answer = wire.reply()
    assert answer.status == 200 and json.loads(answer.body) == ANSWER, answer
    (call,) = app.to(path)
    assert call.form == {"size": "14", "op": "CompleteMultipartUpload"}
    assert calls.get(key) == b"test oss c sdk"


def test_resumable_upload_of_an_sdk_that_names_it_at_the_beginning(app, client, path, tmp_path):
    """oss2 sends it with the first request only, which makes no object: as at the vendor, no app is called."""
    file = tmp_path / "file"
    file.write_bytes(content(250 * KIB, seed=3))
    settings = {"multipart_threshold": 100 * KIB, "part_size": 100 * KIB, "num_threads": 1}
    store = oss2.ResumableStore(root=str(tmp_path))
    oss2.resumable_upload(client.oss, "resumed", str(file), headers=named(app.url + path), store=store, **settings)
    assert app.to(path) == [] and client.get("resumed") == file.read_bytes()


def test_signed_url(app, client, path):
    params = {"callback": callback(app.url + path), "callback-var": encoded(VARIABLES)}
    url = client.oss.sign_url("PUT", "signed", 3600, params=params, slash_safe=True)
    answer = requests.put(url, data=DATA, timeout=30)
    assert (answer.status_code, answer.json()) == (200, ANSWER), answer.text
    assert answer.headers["ETag"] == f'"{etag(DATA)}"'
    assert app.to(path)[0].form["u"] == VARIABLES["x:user"]
    # A signed callback cannot be redirected elsewhere.
    changed = re.sub(r"callback=[^&]+", "callback=e30%3D", url)
    assert refusal(requests.put(changed, data=DATA, timeout=30)) == (403, "SignatureDoesNotMatch")


def test_the_newer_sdk(app, client_v2, path):
    asked = {"callback": callback(app.url + path), "callback_var": encoded(VARIABLES)}
    result = client_v2.put_object(oss_v2.PutObjectRequest(BUCKET, "v2", body=DATA, **asked))
    assert json.loads(result.callback_result) == ANSWER and result.etag == f'"{etag(DATA)}"'
    upload = client_v2.initiate_multipart_upload(oss_v2.InitiateMultipartUploadRequest(BUCKET, "v2 parts")).upload_id
    part = client_v2.upload_part(
        oss_v2.UploadPartRequest(BUCKET, "v2 parts", part_number=1, upload_id=upload, body=DATA)
    )
    parts = oss_v2.CompleteMultipartUpload([oss_v2.UploadPart(part_number=1, etag=part.etag)])
    done = client_v2.complete_multipart_upload(
        oss_v2.CompleteMultipartUploadRequest(
            BUCKET, "v2 parts", upload_id=upload, complete_multipart_upload=parts, **asked
        )
    )
    assert json.loads(done.callback_result) == ANSWER
    assert [call.form["op"] for call in app.to(path)] == ["PutObject", "CompleteMultipartUpload"]


def test_form(app, gateway, held, path):
    key_id, secret, token = held
    expiration = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    policy = encoded({"expiration": expiration, "conditions": [{"bucket": BUCKET}]})
    signature = base64.b64encode(hmac.digest(secret.encode(), policy.encode(), "sha1")).decode()

    def post(key, **fields):
        fields = {
            "key": key,
            "OSSAccessKeyId": key_id,
            "policy": policy,
            "Signature": signature,
            "x-oss-security-token": token,
        } | fields
        files = {"file": ("f.txt", DATA, "text/plain")}
        return requests.post(f"{gateway.object_url}/{BUCKET}", data=fields, files=files, timeout=30)

    # Names of fields are compared without regard to case.
    asked = {"callback": callback(app.url + path), "X:User": VARIABLES["x:user"]}
    answer = post("form", **asked, success_action_status="201")
    assert (answer.status_code, answer.json()) == (200, ANSWER), answer.text
    assert app.to(path)[0].form["op"] == "PostObject" and app.to(path)[0].form["u"] == VARIABLES["x:user"]
    app.replies[path] = reply(500)
    answer = post("form failed", **asked)
    assert answer.status_code == 203 and "<Code>CallbackFailed</Code>" in answer.text
    much = callback(app.url + path, "${x:user}" * 4)
    for wrong in (
        {"callback": "e30="},
        asked | {"callback-var": encoded({"x:user": "another"})},
        {"callback": much, "x:user": "/" * (10 * KIB)},
    ):
        assert refusal(post("form refused", **wrong)) == (400, "InvalidArgument")
    assert len(app.to(path)) == 2
    calls = OSSCalls(port(gateway), BUCKET, held)
    assert calls.get("form") == calls.get("form failed") == DATA
    assert calls.code("get", "form refused") == (404, "NoSuchKey")


UNREACHABLE = "Error status : -1. The server of the callbackUrl cannot be reached, please check it."

# What an app answers, and how the message to the client begins.
FAULTS = {
    "500": (reply(500), "Error status : 500."),
    "201": (reply(201), "Error status : 201."),
    "redirect": (reply(302, Location="/other"), "Error status : 302."),
    "text": (reply(body=b"OK"), "Response body is not valid json format."),
    "byte order mark": (reply(body=b'\xef\xbb\xbf{"a":1}'), "Response body is not valid json format."),
    "empty": (reply(body=b""), "Response body is not valid json format."),
    "without length": (reply(Content_Length=None), "Error status : 400."),
    "too large": (reply(body=b'"' + b"x" * (1 << 20) + b'"'), "Error status : 400."),
    "cut off": (
        reply(Content_Length=1000),
        "Error status : -1. The server of the callbackUrl did not respond: the connection ended before the response.",
    ),
}


def held_back():
    """A response of an app, and the event for which it waits."""
    goes_on = threading.Event()

    def answer(_):
        goes_on.wait()
        return reply()

    return answer, goes_on


def assert_failed(result, message):
    """An answer as SDKs take it: for them it is a success."""
    assert result.status == 203
    body = result.resp.read().decode()
    assert "<Code>CallbackFailed</Code>" in body and f"<Message>{message}" in body, body
    assert result.etag == etag(DATA) and result.headers["Content-Type"] == "application/xml"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_object_is_kept_when_the_app_fails(app, gateway, held, fault, path):
    client = OSSCalls(port(gateway), BUCKET, held)
    app.replies[path], message = FAULTS[fault]
    assert_failed(client.put(f"failed {fault}", DATA, **named(app.url + path)), message)
    assert len(app.to(path)) == 1 and app.to("/other") == []
    assert client.get(f"failed {fault}") == DATA


def test_a_slow_app_does_not_delay_the_client(app, gateway, held, path):
    """It responds, but after the client has got its response."""
    app.replies[path], goes_on = held_back()
    client = OSSCalls(port(gateway), BUCKET, held)
    try:
        assert_failed(client.put("slow", DATA, **named(app.url + path)), "Error status : -1.")
    finally:
        goes_on.set()
    assert len(app.to(path)) == 1 and client.get("slow") == DATA


def test_an_app_that_is_not_listening(unused, client):
    assert_failed(client.put("unused", DATA, **named(f"http://127.0.0.1:{unused}/")), UNREACHABLE)
    assert client.get("unused") == DATA


def test_the_first_successful_url_counts(app, unused, client, path):
    app.replies[path + "/1"] = reply(503)
    urls = [f"127.0.0.1:{unused}/", *(f"{app.url}{path}/{number}" for number in (1, 2, 3))]
    result = client.put("order", DATA, **named(";".join(urls)))
    assert json.loads(result.resp.read()) == ANSWER
    assert [len(app.to(f"{path}/{number}")) for number in (1, 2, 3)] == [1, 1, 0]


def test_other_hosts_are_refused_before_anything_is_stored(app, client, path):
    urls = [
        "http://127.0.0.1/",
        f"http://localhost:{app.port}{path}",
        f"http://user:password@{app.host}{path}",
        f"{app.url}{path};http://other.example/",
        f"ftp://{app.host}/",
    ]
    for url in urls:
        assert client.code("put", "refused", DATA, **named(url)) == (400, "InvalidArgument"), url
    other = named(app.url + path, callbackHost="other.example")
    assert client.code("put", "refused", DATA, **other) == (400, "InvalidArgument")
    assert client.code("get", "refused") == (404, "NoSuchKey") and app.to(path) == []


def test_a_callback_cannot_pass_for_a_hook(app, gateway, client, path):
    """Clients choose the text, and hooks may go to the same host."""
    hook = '{"Type":"post-finish","Event":{"Upload":{"ID":"1","Size":1}}}'
    client.put("hook", DATA, **named(app.url + path, hook, callbackBodyType="application/json"))
    (call,) = app.to(path)
    fields = {name.lower(): value for name, value in call.fields.items()}
    assert Webhook(app.secret).verify(call.body, fields) == json.loads(hook)
    secret = run("credentials", "webhooks", environment=gateway.environment).stdout.strip()
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(call.body, fields)


def test_private_addresses_behind_a_wildcard_host(app, client, path):
    """The owner of such names could direct the gateway anywhere."""
    result = client.put("star", DATA, **named(f"http://a.localhost:{app.port}{path}"))
    assert_failed(result, UNREACHABLE)
    assert app.to(path) == []


def test_without_the_setting_they_are_refused(app, tmp_path, path):
    with ObjectServer(tmp_path / "data", free_port(), {"SLUICE_OBJECT_BUCKETS": BUCKET}) as server:
        held = minted(server, "aliyun", bucket=BUCKET, keyPrefix="", actions=["upload", "read"])
        client = OSSCalls(port(server), BUCKET, held)
        with pytest.raises(oss2.exceptions.ServerError, match=r"object\.callbackHosts") as refused:
            client.put("none", DATA, **named(app.url + path))
        assert client.refusal(refused.value) == (400, "NotImplemented")
        assert client.code("get", "none") == (404, "NoSuchKey")
    assert app.to(path) == []


def test_only_the_client_waits_for_an_app(app, client, path):
    """Neither the object nor the key is locked while an app works."""
    app.replies[path], goes_on = held_back()
    # As many as there may be, so that the app has as much time as possible before all fail.
    urls = ";".join([app.url + path] * 5)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.put("busy", DATA, **named(urls)).status))
    thread.start()
    try:
        app.wait(path)
        assert client.get("busy") == DATA
        client.put("busy", b"newer")
        client.delete("busy")
        assert client.code("get", "busy") == (404, "NoSuchKey")
    finally:
        goes_on.set()
        thread.join(60)
    assert answers == [200]


def test_a_client_that_disconnects_changes_nothing(app, gateway, client, path):
    """The app is called, and its response is read."""
    app.replies[path], goes_on = held_back()
    urls = ";".join([app.url + path] * 5)
    url = client.oss.sign_url("PUT", "left", 3600, params={"callback": callback(urls)}, slash_safe=True)
    target = url.removeprefix(gateway.object_url)
    before = outcomes(gateway)
    try:
        with socket.create_connection(("127.0.0.1", port(gateway))) as link:
            host = gateway.object_url.removeprefix("http://")
            head = f"PUT {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(DATA)}\r\n\r\n"
            link.sendall(head.encode() + DATA)
            app.wait(path)
        assert client.get("left") == DATA
    finally:
        goes_on.set()
    deadline = time.monotonic() + 60
    while (after := outcomes(gateway)) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert after == before | {"answered": before["answered"] + 1}


def outcomes(server):
    text = requests.get(
        f"{server.url}/metrics", headers={"Authorization": f"Bearer {server.admin_key}"}, timeout=10
    ).text
    found = dict(re.findall(r'^sluice_object_callbacks_total\{outcome="(\w+)"\} (\d+)$', text, re.MULTILINE))
    return {name: int(found.get(name, 0)) for name in ("answered", "failed")}


def test_a_crash_between_the_object_and_the_callback(tmp_path, path):
    """The object is there, and the app is called when the client repeats the completion."""
    with CallbackApp() as app:
        app.replies[path], goes_on = held_back()
        settings = {"SLUICE_OBJECT_BUCKETS": BUCKET, "SLUICE_OBJECT_CALLBACK_HOSTS": app.host}
        with ObjectServer(tmp_path / "data", free_port(), settings) as server:
            app.secret = run("credentials", "callbacks", environment=server.environment).stdout.strip()
            held = minted(server, "aliyun", bucket=BUCKET, keyPrefix="", actions=["upload", "read"])
            client = OSSCalls(port(server), BUCKET, held)
            upload = client.create("crashed")
            tags = [oss2.models.PartInfo(1, client.part("crashed", upload, 1, DATA).etag)]

            def complete(urls):
                return client.oss.complete_multipart_upload("crashed", upload, tags, headers=named(urls))

            failures = []

            def fails():
                with pytest.raises(oss2.exceptions.RequestError) as failure:
                    # As many as there may be, so that the client still waits when the gateway is killed.
                    complete(";".join([app.url + path] * 5))
                failures.append(failure)

            thread = threading.Thread(target=fails)
            thread.start()
            try:
                app.wait(path)
                server.kill()
                thread.join(60)
                assert len(failures) == 1
                before = app.to(path)
                server.start()
                assert client.get("crashed") == DATA and app.to(path) == before
            finally:
                goes_on.set()
            assert json.loads(complete(app.url + path).resp.read()) == ANSWER
            again = app.to(path)[len(before)]
        assert {(call.body, call.fields["webhook-id"]) for call in before} == {(again.body, again.fields["webhook-id"])}
