"""Limits of an address, a key and a subject: who is refused, in which form, and who is not."""

import contextlib
import json
import socket
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import boto3
import botocore.config
import pytest
import requests
from tusclient import client as tusclient

from harness.aliyun_vod import Plain, session
from harness.api import API, OFFSET_TYPE, TUS, patch_fields, path_of
from harness.daemon import free_port
from harness.object_client import ObjectServer, code
from harness.object_client import client as object_client
from harness.ugc import announced
from harness.ugc import signer as ugc_signer
from harness.vod_api import refused as vod_refused
from harness.wire import Closed, Wire, head, until

# Tests have only addresses that are exempt by default.
COUNTED = {"SLUICE_LIMITS_ADDRESS_EXEMPT": ""}
SLOW = COUNTED | {"SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_ADDRESS_BURST": "3"}
FORWARDED = "X-Forwarded-For"
# Nobody is nobody's client.
NAMELESS = [
    ("Forwarded", 'for="'),
    ("Forwarded", "for=_hidden"),
    ("Forwarded", "proto=https"),
    (FORWARDED, "unknown"),
    (FORWARDED, "fe80::1%eth0"),
    (FORWARDED, ""),
]


class From(Wire):
    """A connection from an address of the loopback network."""

    def __init__(self, source, address):
        self.socket = socket.create_connection(address, 15, source_address=(source, 0))
        self.buffer = b""


def ask(source, address, count, fields=(), target="/healthz", method="GET"):
    """Answers to requests that are sent at once, so that even a busy machine gets them within a moment."""
    with From(source, address) as wire:
        wire.send(b"".join(head(method, target, fields) for _ in range(count)))
        return [wire.reply(method) for _ in range(count)]


def refused(answers):
    return [answer for answer in answers if answer.status == 429]


def limited(server, name):
    # What waits for the start has used up some requests of this address.
    api = API(server.url, server.admin_key)
    answer = until(lambda: (found := api.get("/metrics")).status_code == 200 and found)
    text = answer.text
    lines = [line for line in text.splitlines() if line.startswith(f'sluice_limited_total{{limit="{name}"}}')]
    return int(float(lines[0].split()[-1])) if lines else 0


def test_requests_of_one_address(make_server):
    with make_server(environment=SLOW) as server:
        answers = ask("127.0.0.2", server.address, 50)
        assert [answer.status for answer in answers[:3]] == [200] * 3
        too_many = refused(answers)
        assert too_many and too_many[0]["Content-Type"] == "application/problem+json"
        answer = too_many[0]
        assert (answer["Retry-After"], answer["RateLimit-Policy"]) == ("1", '"address";q=3;w=3')
        assert answer["RateLimit"] == '"address";r=0;t=1' and answer["X-Request-ID"]
        assert b'"code":"too_many_requests"' in answer.body
        # Another address has its own bucket.
        assert not refused(ask("127.0.0.3", server.address, 3))
        assert limited(server, "address_requests") == len(too_many)


def test_a_client_behind_a_proxy_does_not_choose_its_address(make_server):
    """The proxy appends an element with the client's address, as a list or as a field of its own."""
    with make_server(environment=SLOW | {"SLUICE_TRUSTED_PROXIES": "127.0.0.2"}) as server:

        def counted(each):
            """Those refused of requests with these fields, which are sent at once."""
            with From("127.0.0.2", server.address) as wire:
                wire.send(b"".join(head("GET", "/healthz", fields) for fields in each))
                return refused([wire.reply("GET") for _ in each])

        said = [f'for=198.51.100.{number};x="' for number in range(30)]
        assert counted([[("Forwarded", f"{one}, for=192.0.2.1;proto=https")] for one in said])
        assert counted([[("Forwarded", one), ("Forwarded", 'for="192.0.2.2:80"')] for one in said])
        for field in NAMELESS:
            assert counted([[field]] * 30), field
        assert counted([[("Forwarded", "proto=https"), (FORWARDED, f"192.0.2.{number}")] for number in range(30)])
        assert not refused(ask("127.0.0.2", server.address, 30))


def test_clients_behind_a_unix_socket_are_limited_also_without_an_address(make_server, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("s") / "g.sock")
    behind = {"SLUICE_GATEWAY_LISTEN": f"unix:{path}", "SLUICE_TRUSTED_PROXIES": "unix:"}
    with make_server(environment=SLOW | behind) as server:
        for field in [*NAMELESS, (FORWARDED, "192.0.2.1")]:
            with Wire(server.address) as wire:
                wire.send(head("GET", "/healthz", [field]) * 30)
                assert refused([wire.reply("GET") for _ in range(30)]), field
        # What the proxy asks by itself.
        with Wire(server.address) as wire:
            wire.send(head("GET", "/healthz") * 30)
            assert not refused([wire.reply("GET") for _ in range(30)])


def test_object_clients_are_told_to_slow_down(make_server):
    port = free_port()
    with make_server(environment=SLOW | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}"}):
        answers = ask("127.0.0.2", ("127.0.0.1", port), 50, target="/bucket/key")
        slow = [answer for answer in answers if b"<Code>SlowDown</Code>" in answer.body]
        assert slow and {answer.status for answer in slow} == {503}
        assert slow[0]["Retry-After"] == "1"
        other = ask("127.0.0.3", ("127.0.0.1", port), 1, target="/bucket/key")
        assert b"SlowDown" not in other[0].body


def test_each_protocol_has_its_own_refusal(make_server):
    with make_server(environment=SLOW | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{(port := free_port())}"}) as server:
        gateway, objects = server.address, ("127.0.0.1", port)
        number = iter(range(20, 250))

        def last(address, method, target, fields=()):
            # Each from another address, whose burst it uses up.
            *_, answer = ask(f"127.0.0.{next(number)}", address, 20, fields, target, method)
            assert answer["Retry-After"] == "1", answer
            return answer

        tus = list(TUS.items())
        answer = last(gateway, "POST", "/files", tus)
        assert (answer.status, answer["Tus-Resumable"]) == (429, "1.0.0")
        assert answer.body.startswith(b"ERR_TOO_MANY_REQUESTS: ") and answer["RateLimit"] == '"address";r=0;t=1'
        # A client that asks for its offset would otherwise begin anew.
        assert last(gateway, "HEAD", "/files/x", tus).status == 423
        for method, target, fields in [
            ("POST", "/files", [("Upload-Complete", "?1")]),
            ("POST", "/v1/media", [("Content-Type", "multipart/form-data; boundary=x")]),
            ("PUT", "/v1/media/name", []),
        ]:
            answer = last(gateway, method, target, fields)
            assert (answer.status, answer["Content-Type"]) == (429, "application/problem+json")
            assert json.loads(answer.body)["code"] == "too_many_requests" and answer["RateLimit-Policy"]
        answer = last(gateway, "GET", "/me")
        assert (answer.status, answer["X-RateLimit-Remaining"]) == (429, "0")
        assert answer["Content-Type"] == "application/vnd.vimeo.error+json" and "error" in json.loads(answer.body)
        answer = last(gateway, "PUT", "/vimeo/videos/x")
        assert answer.status == 429 and "error" in json.loads(answer.body)
        assert last(gateway, "PATCH", "/vimeo/files/x", tus).body.startswith(b"ERR_TOO_MANY_REQUESTS: ")
        answer = last(gateway, "POST", "/v3/index.php?Action=ApplyUploadUGC")
        assert (answer.status, json.loads(answer.body)["code"]) == (200, 10026)
        answer = last(gateway, "POST", "/", [("X-TC-Action", "ApplyUpload"), ("X-TC-Version", "2018-07-17")])
        assert json.loads(answer.body)["Response"]["Error"]["Code"] == "RequestLimitExceeded"
        answer = last(gateway, "GET", "/?Action=CreateUploadVideo&Version=2017-03-21&Format=JSON&AccessKeyId=x")
        assert (answer.status, json.loads(answer.body)["Code"]) == (400, "Throttling.User")
        for signature in (
            "AWS4-HMAC-SHA256 Credential=x",
            "OSS4-HMAC-SHA256 Credential=x",
            "q-sign-algorithm=sha1&q-ak=x",
        ):
            answer = last(objects, "GET", "/bucket/key", [("Authorization", signature)])
            code = ElementTree.fromstring(answer.body).findtext("Code")
            assert (answer.status, code) == (503, "SlowDown"), signature
        answer = last(objects, "POST", "/", [("Content-Type", "application/x-www-form-urlencoded")])
        assert answer.status == 503 and b"<ErrorResponse" in answer.body
        assert limited(server, "address_requests") > 200


def test_clients_wait_and_go_on(make_server, tmp_path):
    """Unmodified clients that exceed the rate of their address finish by themselves."""
    settings = COUNTED | {"SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "5", "SLUICE_LIMITS_ADDRESS_BURST": "5"}
    with make_server(environment=settings | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{(port := free_port())}"}) as server:
        key, secret = server.pair()
        s3 = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=botocore.config.Config(retries={"mode": "standard", "max_attempts": 10}),
        )
        s3.create_bucket(Bucket="limited")
        for number in range(12):
            s3.put_object(Bucket="limited", Key=f"k{number}", Body=b"x" * 10)
        path = tmp_path / "file"
        path.write_bytes(bytes(range(256)) * 8)
        client = tusclient.TusClient(f"{server.url}/files/", headers={"Authorization": f"Bearer {server.admin_key}"})
        uploader = until(lambda: with_url(client, path))
        uploader.upload()
        assert uploader.offset == 2048
        assert limited(server, "address_requests") > 0


def with_url(client, path):
    with contextlib.suppress(Exception):
        uploader = client.uploader(str(path), chunk_size=128, retries=10, retry_delay=1)
        uploader.set_url(uploader.create_url())
        return uploader


def test_clients_of_a_trusted_proxy(make_server):
    with make_server(environment=SLOW | {"SLUICE_TRUSTED_PROXIES": "127.0.0.9"}) as server:
        # Who does not name its client has no limit; a client that it names has one, by its /64 network.
        assert not refused(ask("127.0.0.9", server.address, 50))
        assert refused(ask("127.0.0.9", server.address, 50, [(FORWARDED, "2001:db8::1")]))
        assert refused(ask("127.0.0.9", server.address, 50, [(FORWARDED, "2001:db8::2")]))
        assert not refused(ask("127.0.0.9", server.address, 3, [(FORWARDED, "2001:db8:0:1::2")]))
        # Who is not trusted cannot name another.
        with From("127.0.0.2", server.address) as wire:
            wire.send(b"".join(head("GET", "/healthz", [(FORWARDED, f"192.0.2.{n}")]) for n in range(50)))
            assert refused([wire.reply() for _ in range(50)])


def test_uploads_of_one_address(make_server):
    with make_server(environment=COUNTED | {"SLUICE_LIMITS_ADDRESS_UPLOADS": "2"}) as server:
        key = ("Authorization", f"Bearer {server.admin_key}")
        running = [From("127.0.0.2", server.address) for _ in range(2)]
        for wire in running:
            wire.send(
                f"PUT /v1/media/f HTTP/1.1\r\nHost: x\r\n{key[0]}: {key[1]}\r\nContent-Type: text/plain\r\n"
                "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
            )
            # The gateway waits for its content.
            assert wire.interim().status == 100
        with From("127.0.0.2", server.address) as wire:
            answer = wire.exchange("PUT", "/v1/media/f", [key], b"ab")
            assert (answer.status, answer["Retry-After"], answer["RateLimit"]) == (429, "1", None)
            # Requests without content go on.
            assert wire.exchange("GET", "/healthz").status == 200
        with From("127.0.0.3", server.address) as wire:
            assert wire.exchange("PUT", "/v1/media/f", [key], b"ab").status == 201
        for wire in running:
            wire.send("ab")
            assert wire.reply().status == 201
            wire.close()
        with From("127.0.0.2", server.address) as wire:
            assert wire.exchange("PUT", "/v1/media/f", [key], b"ab").status == 201
        assert limited(server, "address_uploads") == 1


def test_connections_of_one_address(make_server):
    settings = COUNTED | {"SLUICE_LIMITS_ADDRESS_CONNECTIONS": "2", "SLUICE_TRUSTED_PROXIES": "127.0.0.9"}
    with make_server(environment=settings) as server:
        open_ones = [From("127.0.0.2", server.address) for _ in range(2)]
        assert [wire.exchange("GET", "/healthz").status for wire in open_ones] == [200, 200]
        with From("127.0.0.2", server.address) as third, pytest.raises((Closed, BrokenPipeError)):
            third.exchange("GET", "/healthz")
        with From("127.0.0.3", server.address) as wire:
            assert wire.exchange("GET", "/healthz").status == 200
        proxied = [From("127.0.0.9", server.address) for _ in range(5)]
        assert [wire.exchange("GET", "/healthz").status for wire in proxied] == [200] * 5
        for wire in [*proxied, open_ones.pop()]:
            wire.close()

        def again():
            try:
                return ask("127.0.0.2", server.address, 1)[0].status == 200
            except (Closed, OSError):
                return False

        assert until(again)
        assert open_ones[0].exchange("GET", "/healthz").status == 200
        open_ones[0].close()
        assert limited(server, "address_connections") >= 1


def test_connections_that_a_proxy_names(make_server):
    """The PROXY protocol names the client before the first request, so its connections count."""
    settings = {
        "SLUICE_LIMITS_ADDRESS_CONNECTIONS": "2",
        "SLUICE_TRUSTED_PROXIES": "127.0.0.9",
        "SLUICE_GATEWAY_PROXY_PROTOCOL": "true",
    }

    def proxied(client):
        wire = From("127.0.0.9", server.address)
        wire.send(f"PROXY TCP4 {client} 192.0.2.200 4000 80\r\n")
        return wire

    with make_server(environment=settings) as server:
        open_ones = [proxied("192.0.2.1") for _ in range(2)]
        assert [wire.exchange("GET", "/healthz").status for wire in open_ones] == [200, 200]
        with proxied("192.0.2.1") as third, pytest.raises((Closed, OSError)):
            third.exchange("GET", "/healthz")
        with proxied("192.0.2.2") as other:
            assert other.exchange("GET", "/healthz").status == 200
        open_ones.pop().close()

        def again():
            try:
                with proxied("192.0.2.1") as wire:
                    return wire.exchange("GET", "/healthz").status == 200
            except (Closed, OSError):
                return False

        assert until(again)
        open_ones[0].close()


def test_loopback_is_exempt_by_default(make_server):
    settings = {"SLUICE_LIMITS_ADDRESS_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_ADDRESS_BURST": "1"}
    with make_server(environment=settings | {"SLUICE_LIMITS_ADDRESS_CONNECTIONS": "1"}) as server:
        wires = [From("127.0.0.2", server.address) for _ in range(3)]
        assert [wire.exchange("GET", "/healthz").status for wire in wires * 3] == [200] * 9


def test_requests_of_one_key_and_of_one_subject(make_server):
    settings = {
        "SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "1",
        "SLUICE_LIMITS_KEY_BURST": "20",
        "SLUICE_LIMITS_SUBJECT_REQUESTS_PER_SECOND": "1",
        "SLUICE_LIMITS_SUBJECT_BURST": "4",
    }
    with make_server(environment=settings) as server:
        key = server.admin_key
        tokens = {name: token(server, name) for name in ("alice", "bob")}

        def create(bearer, count):
            fields = [*TUS.items(), ("Upload-Length", "1"), ("Authorization", f"Bearer {bearer}")]
            return ask("127.0.0.2", server.address, count, fields, "/files", "POST")

        answers = create(tokens["alice"], 9)
        assert [answer.status for answer in answers[:4]] == [201] * 4
        assert answers[-1].status == 429 and answers[-1]["RateLimit-Policy"] == '"subject";q=4;w=4'
        assert answers[-1].body.startswith(b"ERR_TOO_MANY_REQUESTS")
        # Another user has a bucket of its own, in the key's.
        assert create(tokens["bob"], 1)[0].status == 201
        media = ask("127.0.0.2", server.address, 40, [("Authorization", f"Bearer {key}")], "/v1/uploads")
        assert media[-1].status == 429 and media[-1]["RateLimit-Policy"] == '"key";q=20;w=20'
        assert json.loads(media[-1].body)["code"] == "too_many_requests"
        # A wrong credential uses up nothing of a key, and needs none of it.
        assert ask("127.0.0.2", server.address, 1, [("Authorization", "Bearer slk_x")], "/v1/uploads")[0].status == 401


def test_object_requests_of_one_subject(make_server):
    settings = {"SLUICE_LIMITS_SUBJECT_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_SUBJECT_BURST": "3"}
    with make_server(environment=settings | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"}) as server:
        api = API(server.url, server.admin_key)
        urls = [
            api.post("/v1/presigned-urls", {"bucket": "uploads", "key": f"k{n}", "subject": "alice"}) for n in range(6)
        ]
        assert urls[0].status_code == 201, urls[0].text
        answers = [requests.put(url.json()["url"], data=b"x", timeout=30) for url in urls]
        slow = [answer for answer in answers if answer.status_code == 503]
        assert slow and "<Code>SlowDown</Code>" in slow[0].text and slow[0].headers["Retry-After"]


def test_signed_calls_count_for_key_and_subject(tmp_path):
    settings = {
        "SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "1",
        "SLUICE_LIMITS_KEY_BURST": "60",
        "SLUICE_LIMITS_SUBJECT_REQUESTS_PER_SECOND": "1",
        "SLUICE_LIMITS_SUBJECT_BURST": "5",
    }
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        users = {name: ugc_signer(server, subject=name)() for name in ("dora", "eve")}

        def apply(name):
            call = {"signature": users[name]} | announced(1)
            return requests.post(f"{server.url}/v3/index.php?Action=ApplyUploadUGC", json=call, timeout=30)

        answers = [apply("dora") for _ in range(9)]
        assert {answer.status_code for answer in answers} == {200}
        assert answers[0].json()["code"] == 0 and answers[-1].json()["code"] == 10026
        assert answers[-1].headers["Retry-After"] == "1"
        assert apply("eve").json()["code"] == 0
        # A session of a user at the API of ApsaraVideo.
        vod = Plain(server, session(server, name="fay"))
        answers = [vod.answer("CreateUploadVideo", {"Title": "t", "FileName": "v.mp4"}) for _ in range(9)]
        assert answers[0].status_code == 200 and answers[-1].status_code == 400
        assert answers[-1].json()["Code"] == "Throttling.User" and answers[-1].headers["Retry-After"] == "1"
        assert Plain(server, session(server, name="gil"))("SearchMedia")["Total"] == 0
        # The pair of a key, at both APIs.
        made = API(server.url, server.admin_key).post("/v1/keys", {"name": "k", "scopes": ["read"]}).json()
        pair = server.pair(made["id"])
        codes = [vod_refused(server, pair, "DescribeSubAppIds", {}) for _ in range(90)]
        assert codes[0] is None and codes[-1] == "RequestLimitExceeded"
        again = [Plain(server, pair).answer("SearchMedia").json() for _ in range(3)]
        assert "Throttling.User" in [answer.get("Code") for answer in again]


def test_a_key_and_its_pair_share_a_limit(make_server):
    settings = {"SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_KEY_BURST": "20"}
    with make_server(environment=settings | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"}) as server:
        signed = object_client(server.object_url, server.pair())
        assert code(signed.list_buckets) is None
        ask("127.0.0.2", server.address, 40, [("Authorization", f"Bearer {server.admin_key}")], "/v1/uploads")
        assert (503, "SlowDown") in [code(signed.list_buckets) for _ in range(5)]
        tokens = boto3.client(
            "sts",
            region_name="us-east-1",
            endpoint_url=server.object_url,
            aws_access_key_id=server.pair()[0],
            aws_secret_access_key=server.pair()[1],
            config=botocore.config.Config(retries={"total_max_attempts": 1}),
        )
        role = {"RoleArn": "arn:aws:iam::123456789012:role/upload", "RoleSessionName": "alice"}
        assert (503, "ServiceUnavailable") in [code(lambda: tokens.assume_role(**role)) for _ in range(5)]


@pytest.mark.parametrize(
    "wrong", [{"DurationSeconds": 10**6}, {"Policy": "{"}, {"Policy": '{"Statement":[{"Effect":"Nope"}]}'}], ids=str
)
def test_signed_calls_that_are_refused_count_for_their_key(tmp_path, wrong):
    settings = {"SLUICE_LIMITS_KEY_REQUESTS_PER_SECOND": "1", "SLUICE_LIMITS_KEY_BURST": "3"}
    with ObjectServer(tmp_path / "data", free_port(), settings) as server:
        key, secret = server.pair()
        tokens = boto3.client(
            "sts",
            region_name="us-east-1",
            endpoint_url=server.object_url,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=botocore.config.Config(retries={"total_max_attempts": 1}, parameter_validation=False),
        )
        role = {"RoleArn": "arn:aws:iam::123456789012:role/upload", "RoleSessionName": "alice"}
        codes = [code(lambda: tokens.assume_role(**role, **wrong)) for _ in range(12)]
        assert codes[0][0] == 400 and (503, "ServiceUnavailable") in codes


def token(server, subject):
    answer = API(server.url, server.admin_key).post("/v1/tus/tokens", {"subject": subject})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def test_uploads_of_one_subject(make_server):
    with make_server(environment={"SLUICE_LIMITS_SUBJECT_UPLOADS": "2"}) as server:
        alice, bob = token(server, "alice"), token(server, "bob")

        def put(wire, bearer, length):
            wire.send(
                f"PUT /v1/media/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}\r\n"
                f"Content-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
            )
            return wire.interim()

        running = [From("127.0.0.2", server.address) for _ in range(2)]
        assert [put(wire, alice, 2).status for wire in running] == [100, 100]
        with From("127.0.0.3", server.address) as wire:
            assert put(wire, alice, 2).status == 429
        with From("127.0.0.3", server.address) as wire:
            assert put(wire, bob, 2).status == 100
        for wire in running:
            wire.send("ab")
            assert wire.reply().status == 201
            wire.close()
        with From("127.0.0.3", server.address) as wire:
            assert put(wire, alice, 2).status == 100


@pytest.mark.parametrize("limit", ["address", "key", "subject"])
def test_bandwidth_slows_down(make_server, limit):
    """Content arrives whole, but takes as long as the rate says; other clients are not slowed down."""
    rate, size = 100_000, 300_000
    settings = COUNTED | {f"SLUICE_LIMITS_{limit.upper()}_BYTES_PER_SECOND": str(rate)}
    settings |= {"SLUICE_TIMEOUTS_BODY_PROGRESS": "1s", "SLUICE_LIMITS_BODY_RATE": str(rate)}
    with make_server(environment=settings) as server:
        mine = token(server, "alice") if limit == "subject" else server.admin_key
        data = bytes(range(256)) * (size // 256)

        def put(source, bearer):
            with From(source, server.address) as wire:
                begin = time.monotonic()
                answer = wire.exchange("PUT", "/v1/media/f", [("Authorization", f"Bearer {bearer}")], data)
                assert answer.status == 201, answer
                assert json.loads(answer.body)["size"] == len(data)
                return time.monotonic() - begin

        # The first second's bytes come at once; the socket's buffers do not count.
        assert put("127.0.0.2", mine) > (size - 1.5 * rate) / rate
        if limit == "address":
            # Both share the rate.
            with ThreadPoolExecutor(2) as pool:
                begin = time.monotonic()
                list(pool.map(lambda _: put("127.0.0.2", mine), range(2)))
                assert time.monotonic() - begin > (2 * size - 1.5 * rate) / rate


BOUNDARY = "multipart/form-data; boundary=b"
FORM_END = b"\r\n--b--\r\n"


def form(fields, data):
    parts = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    return f'{parts}--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode() + data + FORM_END


class Small:
    """Ways to send a small content again and again for alice: method, target, fields and content of each request."""

    def __init__(self, server, bearer):
        self.server, self.api = server, API(server.url, server.admin_key)
        self.key = ("Authorization", f"Bearer {bearer}")
        self.numbers = iter(range(1_000_000))

    def minted(self, **wanted):
        answer = self.api.post("/v1/presigned-urls", {"bucket": "uploads", "subject": "alice"} | wanted)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def tus_patch(self, data):
        url = self.api.create(1_000_000, key=self.key[1].removeprefix("Bearer ")).headers["Location"]
        offsets = iter(range(0, 1_000_000, len(data)))
        return lambda: ("PATCH", path_of(url), patch_fields(next(offsets), len(data)), data)

    def tus_post(self, data):
        fields = [*TUS.items(), ("Upload-Length", str(len(data))), ("Content-Type", OFFSET_TYPE), self.key]
        return lambda: ("POST", "/files", fields, data)

    def draft(self, data):
        fields = [("Upload-Draft-Interop-Version", "8"), ("Upload-Complete", "?1"), self.key]
        return lambda: ("POST", "/files", fields, data)

    def put(self, data):
        return lambda: ("PUT", "/v1/media/f", [self.key], data)

    def chunked(self, data):
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
        return lambda: ("PUT", "/v1/media/f", [self.key, ("Transfer-Encoding", "chunked")], body)

    def form(self, data):
        body = form({"token": self.key[1].removeprefix("Bearer ")}, data)
        return lambda: ("POST", "/v1/media", [("Content-Type", BOUNDARY)], body)

    def object(self, data):
        url = urlsplit(self.minted(key=f"k{next(self.numbers)}")["url"])
        return lambda: ("PUT", f"{url.path}?{url.query}", [("Host", url.netloc)], data)

    def object_form(self, data):
        made = self.minted(key=f"f{next(self.numbers)}", method="POST")
        body = form(made["fields"], data)
        return lambda: ("POST", urlsplit(made["url"]).path, [("Content-Type", BOUNDARY)], body)

    def part(self, data):
        made = self.minted(key=f"p{next(self.numbers)}", parts=[1])
        url = urlsplit(made["parts"][0]["url"])
        return lambda: ("PUT", f"{url.path}?{url.query}", [("Host", url.netloc)], data)


AT_OBJECTS = ["object", "object_form", "part"]


@pytest.mark.parametrize("connections", [1, 6])
@pytest.mark.parametrize("way", ["tus_patch", "tus_post", "draft", "put", "chunked", "form", *AT_OBJECTS])
def test_small_contents_keep_to_the_rate(make_server, way, connections):
    """Requests below one slice, one after the other and at once: in t seconds at most the bytes of t + 1 seconds."""
    rate, size = 20_000, 900
    settings = {"SLUICE_LIMITS_SUBJECT_BYTES_PER_SECOND": str(rate), "SLUICE_LIMITS_SUBJECT_REQUESTS_PER_SECOND": "0"}
    with make_server(environment=settings | {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{(port := free_port())}"}) as server:
        small = Small(server, token(server, "alice"))
        address = ("127.0.0.1", port) if way in AT_OBJECTS else server.address
        makers = [getattr(small, way)(b"a" * size) for _ in range(connections)]
        # Each request takes longer than it takes to send it without a rate.
        count = 60 // connections

        def send(maker):
            with Wire(address, timeout=60) as wire:
                for _ in range(count):
                    method, target, fields, body = maker()
                    if any(name == "Transfer-Encoding" for name, _ in fields):
                        wire.send(head(method, target, fields) + body)
                        answer = wire.reply(method)
                    else:
                        answer = wire.exchange(method, target, [*fields], body)
                    assert answer.status in (200, 201, 204), answer

        begin = time.monotonic()
        with ThreadPoolExecutor(connections) as pool:
            list(pool.map(send, makers))
        taken = time.monotonic() - begin
        assert connections * count * size <= rate * (taken + 1)


@pytest.mark.parametrize("limit", ["address", "key"])
def test_small_contents_of_an_address_and_of_a_key(make_server, limit):
    rate, size = 20_000, 900
    settings = COUNTED | {f"SLUICE_LIMITS_{limit.upper()}_BYTES_PER_SECOND": str(rate)}
    with make_server(environment=settings) as server, From("127.0.0.2", server.address) as wire:
        begin = time.monotonic()
        for _ in range(60):
            answer = wire.exchange("PUT", "/v1/media/f", [("Authorization", f"Bearer {server.admin_key}")], b"a" * size)
            assert answer.status == 201, answer
        assert 60 * size <= rate * (time.monotonic() - begin + 1)


def test_neighbours_wait_for_no_more_than_what_runs(make_server):
    """What one user sent before leaves no debt that stalls another user of the key."""
    settings = {"SLUICE_LIMITS_KEY_BYTES_PER_SECOND": "4000"}
    with make_server(environment=settings) as server:
        alice, bob = (Small(server, token(server, name)) for name in ("alice", "bob"))

        def send(maker, seconds):
            end = time.monotonic() + seconds
            with contextlib.suppress(OSError, Closed), Wire(server.address, timeout=seconds) as wire:
                while time.monotonic() < end:
                    wire.exchange(*maker())

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: send(alice.put(b"a" * 900), 4), range(4)))
        # Without the mend, minutes; here it is what four requests owe.
        with Wire(server.address, timeout=30) as wire:
            assert wire.exchange(*bob.put(b"b" * 3000)()).status == 201


def test_a_client_that_drips_is_ended_and_a_slow_link_is_not(make_server):
    """The minimum rate has a grace, and counts over all the time that a request waits."""
    with make_server(environment={"SLUICE_TIMEOUTS_BODY_PROGRESS": "2s", "SLUICE_LIMITS_BODY_RATE": "100"}) as server:
        api = API(server.url, server.admin_key)
        urls = [api.created(1000) for _ in range(2)]
        dripping, slow = [Wire(server.address) for _ in urls]
        for wire, url in zip((dripping, slow), urls, strict=True):
            wire.send(head("PATCH", path_of(url), patch_fields(0, 1000)))
        for _ in range(10):
            # Never two seconds without a byte.
            with contextlib.suppress(OSError):
                dripping.send(b"x")
            slow.send(b"x" * 100)
            time.sleep(0.5)
        assert slow.reply().status == 204
        assert dripping.reply().status == 408
        # What came is kept, and goes on.
        offset = api.offset(urls[0])
        assert 0 < offset < 10
        assert api.patch(urls[0], offset, b"y" * (1000 - offset)).status_code == 204
