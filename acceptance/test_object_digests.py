"""The object endpoint returns MD5 and CRC-64 of objects to OSS and COS clients, in the vendor's format."""

import hashlib
import socket

import oss2
import pytest

from harness import hosts
from harness.daemon import free_port
from harness.data import MIB, content
from harness.object_client import ObjectServer, minted
from harness.object_clients.base import DOMAINS, PART
from harness.object_clients.calls import COSCalls, OSSCalls

BUCKET = "media-1250000000"
# "Integrity" in the documentation of both: CRC-64/XZ as a decimal number without sign.
KNOWN = {b"": 0, b"123456789": 11051210869376104954, bytes(MIB): 6947770692288575170}


def crc64(data):
    """As the SDKs compute it."""
    calculator = oss2.utils.Crc64()
    calculator.update(data)
    return calculator.crc


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    settings = {"SLUICE_OBJECT_BUCKETS": BUCKET, "SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values())}
    with ObjectServer(tmp_path_factory.mktemp("digests") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(params=[OSSCalls, COSCalls], ids=["oss", "cos"])
def client(request, gateway, monkeypatch):
    """That keeps the fields of each answer in `answers`."""
    port = int(gateway.object_url.rsplit(":", 1)[1])
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({DOMAINS["cos"]: port}))
    calls = request.param
    wanted = {"bucket": BUCKET, "keyPrefix": "dora/", "actions": ["upload", "read"]}
    made = calls(port, BUCKET, minted(gateway, calls.format, **wanted))
    made.answers = []
    session = made.oss.session.session if calls is OSSCalls else made.cos._session
    session.hooks["response"].append(lambda answer, *_, **__: made.answers.append(answer.headers))
    return made


def returned(client):
    """ETag and CRC-64 in the latest answer."""
    fields = client.answers[-1]
    name = "x-oss-hash-crc64ecma" if client.format == "aliyun" else "x-cos-hash-crc64ecma"
    return fields["ETag"], fields[name]


def expected(client, data):
    digest = hashlib.md5(data).hexdigest()
    return f'"{digest.upper() if client.format == "aliyun" else digest}"', str(crc64(data))


@pytest.mark.parametrize("data", [*KNOWN, content(70_003, 1)], ids=len)
def test_whole_objects(client, data):
    assert crc64(data) == KNOWN.get(data, crc64(data))
    client.put("dora/whole", data)
    assert returned(client) == expected(client, data)
    client.head("dora/whole")
    assert returned(client) == expected(client, data)
    assert client.get("dora/whole") == data
    assert returned(client) == expected(client, data)


def test_objects_of_parts(client):
    pieces = [content(PART, 2), content(1234, 3)]
    upload = client.create("dora/parts")
    tags = []
    # The second first: what is known of the whole must not depend on the order.
    for number in (2, 1):
        client.part("dora/parts", upload, number, pieces[number - 1])
        assert returned(client) == expected(client, pieces[number - 1])
        tags.insert(0, (number, returned(client)[0].strip('"')))
    client.complete("dora/parts", upload, tags)
    data = b"".join(pieces)
    digests = b"".join(hashlib.md5(piece).digest() for piece in pieces)
    tag = f"{hashlib.md5(digests).hexdigest()}-2"
    whole = f'"{tag.upper() if client.format == "aliyun" else tag}"', str(crc64(data))
    if client.format == "aliyun":
        assert returned(client) == whole
    else:
        # COS tells the ETag in the document only.
        assert client.answers[-1]["x-cos-hash-crc64ecma"] == whole[1]
    client.head("dora/parts")
    assert returned(client) == whole
    assert client.get("dora/parts") == data
    assert returned(client) == whole
