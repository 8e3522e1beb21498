"""The object endpoint: unmodified clients of S3, OSS and COS, each with credentials that expire.

Each client runs with every value of each option (style, TLS, storage), and each pair of values with some client.
"""

import contextlib
import socket

import pytest

from harness import hosts
from harness.cutter import Cutter
from harness.daemon import free_port
from harness.data import GIB, MIB, hash_file, write_file
from harness.object_client import ObjectServer, minted
from harness.object_clients import CLIENTS
from harness.object_clients.base import DOMAINS, HOSTS, PART, Place
from harness.tls import Certificate

# As COS names them all: with the number of the account.
BUCKET = "media-1250000000"
SUBJECT = "dora"
SMALL = 70_003
# Above the least that coscmd sends in parts.
LARGE = 4 * PART + MIB + 5
# So much that with two connections at once one part at least was confirmed.
BROKEN_OFF = 2 * PART + MIB

CASES = [
    ("boto3", "path", "tls", "store"),
    ("boto3", "virtual", "plain", "disk"),
    ("awscli", "path", "plain", "disk"),
    ("awscli", "virtual", "tls", "store"),
    ("s3cmd", "path", "tls", "disk"),
    ("s3cmd", "virtual", "plain", "store"),
    ("minio", "path", "plain", "store"),
    ("minio", "virtual", "tls", "disk"),
    ("oss2", "path", "plain", "store"),
    ("oss2", "virtual", "tls", "disk"),
    ("oss2-v4", "path", "tls", "disk"),
    ("oss2-v4", "virtual", "plain", "store"),
    ("oss2-v4", "cname", "plain", "disk"),
    ("oss-v2", "path", "plain", "disk"),
    ("oss-v2", "virtual", "tls", "store"),
    ("oss-v2", "cname", "tls", "disk"),
    ("cos", "virtual", "plain", "disk"),
    ("cos", "cname", "tls", "store"),
    ("coscmd", "virtual", "plain", "disk"),
    ("coscmd", "virtual", "tls", "store"),
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """For the hosts of all buckets."""
    return Certificate(tmp_path_factory.mktemp("tls"), HOSTS)


@pytest.fixture(scope="module")
def gateways(tmp_path_factory, request, certificate):
    """One for each kind, once it is asked for, and a link to it that can be cut."""
    made = {}
    with contextlib.ExitStack() as stack:

        def gateway(tls, storage):
            if (tls, storage) not in made:
                settings = {"SLUICE_OBJECT_BUCKETS": BUCKET, "SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values())}
                if tls == "tls":
                    settings |= certificate.settings
                if storage == "store":
                    store = request.getfixturevalue("rgw")
                    # Each has a state of its own, and a store belongs to one state.
                    bucket = f"object-clients-{tls}"
                    settings |= store.settings(bucket=bucket, SLUICE_S3_PART_SIZE="5MiB")
                    stack.callback(store.wipe, bucket)
                folder = tmp_path_factory.mktemp(f"{tls}-{storage}")
                server = stack.enter_context(ObjectServer(folder / "data", free_port(), settings))
                port = int(server.object_url.rsplit(":", 1)[1])
                made[tls, storage] = server, stack.enter_context(Cutter(("127.0.0.1", port)))
            return made[tls, storage]

        yield gateway


def credentials(server, format, prefix, verify=True):
    """For all keys that begin so."""
    actions = ["upload", "read", "delete"]
    return minted(server, format, verify, subject=SUBJECT, bucket=BUCKET, keyPrefix=prefix, actions=actions)


@pytest.fixture(params=CASES, ids=["-".join(case) for case in CASES])
def case(request, gateways, tmp_path, monkeypatch, certificate):
    """A client, its link to the gateway, and the prefix of its keys."""
    name, style, tls, storage = request.param
    server, link = gateways(tls, storage)
    link.plan([])
    trusted = certificate.path if tls == "tls" else None
    prefix = f"{SUBJECT}/{name}-{style}/"
    held = credentials(server, CLIENTS[name].format, prefix, verify=str(trusted) if trusted else True)
    place = Place(link.port, style, BUCKET, held, tmp_path, trusted)
    monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver(place.table))
    if trusted:
        # For SDKs without a setting of their own.
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(trusted))
    return CLIENTS[name](place), link, prefix


@pytest.mark.rows(
    "boto3-path-tls-store",
    "awscli-path-plain-disk",
    "s3cmd-virtual-plain-store",
    "minio-virtual-tls-disk",
    "oss2-virtual-tls-disk",
    "oss2-v4-cname-plain-disk",
    "oss-v2-path-plain-disk",
    "cos-cname-tls-store",
    "coscmd-virtual-plain-disk",
)
def test_objects_are_uploaded_downloaded_and_removed(case, tmp_path):
    client, _, prefix = case
    files = {f"{prefix}é 漢字+1 (2)~.bin": SMALL, f"{prefix}large.mp4": LARGE}
    for number, (key, size) in enumerate(files.items()):
        source, target = tmp_path / f"source{number}", tmp_path / f"target{number}"
        digest = write_file(source, size, number)
        (client.put if size == SMALL else client.upload)(source, key)
        client.download(key, target)
        assert hash_file(target) == digest
    assert client.sizes(prefix) == files
    for key in files:
        client.delete(key)
    assert client.sizes(prefix) == {}


@pytest.mark.rows(
    "boto3-path-tls-store",
    "awscli-path-plain-disk",
    "minio-virtual-tls-disk",
    "oss2-virtual-tls-disk",
    "oss-v2-path-plain-disk",
    "coscmd-virtual-plain-disk",
)
def test_an_interrupted_upload_continues(case, tmp_path):
    """The link goes down in the middle of a part; later the same client repeats the upload."""
    client, link, prefix = case
    source, target, key = tmp_path / "source", tmp_path / "target", f"{prefix}broken off.mp4"
    digest = write_file(source, LARGE, 7)
    # Whoever tries once more is cut off at once.
    link.plan(range(BROKEN_OFF, BROKEN_OFF + 1000))
    with pytest.raises(client.failures):
        client.upload(source, key)
    assert link.done, "nothing was cut"
    link.plan([])
    client.upload(source, key)
    assert link.sent < LARGE if client.resumes else link.sent >= LARGE
    client.download(key, target)
    assert hash_file(target) == digest
    client.delete(key)


def test_awscli_copies_a_gibibyte_both_ways(gateways, tmp_path, quick):
    """With its own sizes of parts, eight MiB each."""
    server, _ = gateways("plain", "disk")
    prefix = f"{SUBJECT}/big/"
    port = int(server.object_url.rsplit(":", 1)[1])
    place = Place(port, "path", BUCKET, credentials(server, "aws", prefix), tmp_path)
    client = CLIENTS["awscli"](place, part=8 * MIB)
    source, target = tmp_path / "source", tmp_path / "target"
    digest = write_file(source, 64 * MIB if quick else GIB, 3)
    client.put(source, f"{prefix}big.mp4")
    client.download(f"{prefix}big.mp4", target)
    assert hash_file(target) == digest
    client.delete(f"{prefix}big.mp4")
