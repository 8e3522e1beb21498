"""Very large numbers from clients: refused or accepted unchanged, and they never crash the server."""

import json

import pytest

from harness.api import OFFSET_TYPE, TUS, path_of
from harness.wire import Wire, head

# Numbers

LARGEST = 2**63 - 1
# Beyond the range of 64 bits, negative, or in another form than digits.
NONE = ["9223372036854775808", "18446744073709551615", "18446744073709551616", "1" + "0" * 400, "-1", f"-{2**63}"]
NONE += ["+1", "1e3", "0x10", "1.0", "١"]


@pytest.fixture(autouse=True)
def it_lives(server):
    pid = server.pid
    yield
    assert server.pid == pid and server.process.poll() is None
    with Wire(server.address) as wire:
        assert wire.exchange("GET", "/healthz").status == 200


def send(server, method, path, *fields, body=b""):
    key = ("Authorization", f"Bearer {server.admin_key}")
    with Wire(server.address) as wire:
        wire.send(head(method, path, [key, *fields]) + body)
        return wire.reply(method)


def encoded(text):
    return text.encode().decode("latin-1")


@pytest.mark.parametrize("number", NONE)
@pytest.mark.parametrize("path", ["/files", "/v1/media", "/v1/tus/tokens", "/v1/hooks/deliveries/redeliver"])
def test_content_length(server, path, number):
    assert send(server, "POST", path, ("Content-Length", encoded(number))).status == 400


@pytest.mark.parametrize("path", ["/files", "/v1/media", "/v1/tus/tokens", "/v1/tencent/signatures"])
def test_the_largest_content_length(server, path):
    assert send(server, "POST", path, *TUS.items(), ("Content-Length", str(LARGEST))).status in (400, 413)


@pytest.mark.parametrize("number", NONE)
def test_lengths_and_offsets_of_tus(server, api, number):
    number = encoded(number)
    assert (
        send(server, "POST", "/files", *TUS.items(), ("Upload-Length", number), ("Content-Length", "0")).status == 400
    )
    path = path_of(api.created(10))
    own = [*TUS.items(), ("Content-Type", OFFSET_TYPE), ("Content-Length", "0")]
    assert send(server, "PATCH", path, *own, ("Upload-Offset", number)).status == 400
    assert send(server, "PATCH", path, *own, ("Upload-Offset", "0"), ("Upload-Length", number)).status == 400


def test_the_largest_length_and_offset_of_tus(server, api):
    largest = str(LARGEST)
    assert send(server, "POST", "/files", *TUS.items(), ("Upload-Length", largest)).status == 413
    path = path_of(api.created(10))
    own = [*TUS.items(), ("Content-Type", OFFSET_TYPE)]
    reply = send(server, "PATCH", path, *own, ("Upload-Offset", largest), ("Content-Length", "0"))
    assert (reply.status, reply["Upload-Offset"]) == (409, "0")
    assert send(server, "PATCH", path, *own, ("Upload-Offset", "0"), ("Content-Length", largest)).status == 413
    deferred = api.create(None, headers={"Upload-Defer-Length": "1"}).headers["Location"]
    fields = [*own, ("Upload-Offset", "0"), ("Upload-Length", largest), ("Content-Length", "0")]
    assert send(server, "PATCH", path_of(deferred), *fields).status == 413
    fields = [*own, ("Upload-Offset", "0"), ("Content-Length", largest)]
    assert send(server, "PATCH", path_of(deferred), *fields).status == 413
    # Zeros in front change no number.
    assert send(server, "PATCH", path, *own, ("Upload-Offset", "0" * 100), ("Content-Length", "0")).status == 204


@pytest.mark.parametrize("number", [str(LARGEST), *NONE])
def test_ranges(server, api, number):
    url = api.created(5)
    assert api.patch(url, 0, b"hello").status_code == 204
    path = "/media/" + path_of(url).rsplit("/", 1)[1].split(".")[0]
    for text in (f"bytes={number}-", f"bytes=-{number}", f"bytes=0-{number}", f"bytes={number}-{number}"):
        reply = send(server, "GET", path, ("Range", encoded(text)))
        assert reply.status in (200, 206, 404, 416), (text, reply)


@pytest.mark.parametrize("number", [str(LARGEST), *NONE[:6]])
def test_numbers_in_queries(api, number):
    assert api.get(f"/v1/uploads?limit={number}").status_code == 422
    assert api.get(f"/v1/hooks/deliveries?cursor={number}").status_code in (200, 422)
    assert api.get(f"/v1/hooks/deliveries?limit={number}").status_code == 422


@pytest.mark.parametrize("number", [LARGEST, 2**63, 2**64, -1, -(2**63), -(2**63) - 1, 10**400, 1.5, 1e300])
def test_numbers_in_json(api, number):
    text = str(number) if isinstance(number, int) else json.dumps(number)
    for path, members in {
        "/v1/tus/tokens": ["expiresIn", "maxBytes"],
        "/v1/sts/tokens": ["expiresIn", "maxBytes"],
        "/v1/presigned-urls": ["expiresIn", "maxBytes"],
        "/v1/tencent/signatures": ["expiresIn", "expireTime", "currentTimeStamp", "random", "classId", "vodSubAppId"],
    }.items():
        for member in members:
            body = f'{{"{member}": {text}}}'.encode()
            answer = api.request("POST", path, data=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (201, 400, 422), (path, member, answer.text)
