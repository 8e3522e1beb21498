"""Unmodified clients of COS send the bytes of a Tencent VOD upload, with its temporary credentials."""

import hashlib

import pytest

from harness.daemon import free_port
from harness.data import GIB, MIB, content, hash_file, sha256, write_file
from harness.object_client import ObjectServer
from harness.object_clients.base import DOMAINS, Place
from harness.object_clients.tencent import Coscmd
from harness.relay import new_secret
from harness.ugc import Refused, VodJS, announced, signer
from harness.vod_cos import BUCKET, DOMAIN, cos_client, requests_of

PLACES = ["disk", "ceph"]
SIZES = [1, 5 * MIB]


@pytest.fixture(scope="module")
def gateways(tmp_path_factory, request):
    """One for each place, once it is asked for: with files and SQLite, or with Ceph and PostgreSQL."""
    made = {}

    def gateway(place):
        if place not in made:
            settings = {"SLUICE_OBJECT_DOMAINS": f"{DOMAIN},{DOMAINS['cos']}"}
            if place == "ceph":
                store = request.getfixturevalue("rgw")
                settings |= store.settings(bucket="vod-clients", SLUICE_S3_PART_SIZE="5MiB") | {
                    "SLUICE_DATABASE_URL": request.getfixturevalue("postgres").make_database(),
                    "SLUICE_MASTER_SECRET": new_secret(),
                }
            server = ObjectServer(tmp_path_factory.mktemp(place) / "data", free_port(), settings)
            made[place] = server.start()
        return made[place]

    yield gateway
    for server in made.values():
        server.stop()
    if "ceph" in made:
        request.getfixturevalue("rgw").wipe("vod-clients")


@pytest.fixture(params=PLACES)
def gateway(request, gateways):
    return gateways(request.param)


def applied(server, size):
    """An upload that has begun, and its key."""
    client = VodJS(server, signer(server))
    client.apply(announced(size))
    return client, client.applied["video"]["storagePath"].removeprefix("/")


def stored(server, key):
    """The SHA-256 of the object, read piece by piece."""
    body = server.client().get_object(Bucket=BUCKET, Key=key)["Body"]
    return hashlib.file_digest(body, "sha256").hexdigest()


# cos-python-sdk-v5


@pytest.mark.parametrize("size", SIZES)
def test_python_uploads_a_file(gateway, tmp_path, size):
    path = tmp_path / "video.mp4"
    digest = write_file(path, size, size)
    client, key = applied(gateway, size)
    cos = cos_client(client.applied, gateway.object_url)
    sent = requests_of(cos)
    cos.upload_file(BUCKET, key, str(path))
    # One request up to 1 MiB, else: list, initiate, five parts, complete.
    assert [method for method, _, _ in sent if method != "PUT"] == ([] if size == 1 else ["GET", "POST", "POST"])
    assert len(sent) == (1 if size == 1 else 8) and {status for *_, status in sent} == {200}
    data = client.commit()
    assert f"/{data['fileId']}/" in key
    assert stored(gateway, key) == digest


def test_python_sends_only_the_parts_that_are_missing(gateway, tmp_path):
    video = content(3 * MIB + 77, 5)
    path = tmp_path / "video.mp4"
    path.write_bytes(video)
    client, key = applied(gateway, len(video))
    cos = cos_client(client.applied, gateway.object_url)
    upload = cos.create_multipart_upload(BUCKET, key)["UploadId"]
    for number in (1, 3):
        cos.upload_part(BUCKET, key, video[(number - 1) * MIB : number * MIB], number, upload)
    sent = requests_of(cos)
    cos.upload_file(BUCKET, key, str(path))
    parts = sorted(target for method, target, _ in sent if method == "PUT")
    assert parts == [f"/{key}?partNumber={number}&uploadId={upload}" for number in (2, 4)]
    assert [method for method, *_ in sent if method != "PUT"] == ["GET", "GET", "POST"]
    client.commit()
    assert stored(gateway, key) == sha256(video)


def test_python_does_not_resume_with_another_file(gateway, tmp_path):
    """It compares the MD5 of each part, and begins anew."""
    video = content(2 * MIB, 6)
    path = tmp_path / "video.mp4"
    path.write_bytes(video)
    client, key = applied(gateway, len(video))
    cos = cos_client(client.applied, gateway.object_url)
    upload = cos.create_multipart_upload(BUCKET, key)["UploadId"]
    cos.upload_part(BUCKET, key, bytes(MIB), 1, upload)
    sent = requests_of(cos)
    cos.upload_file(BUCKET, key, str(path))
    assert len([target for method, target, _ in sent if method == "PUT" and upload not in target]) == 2
    client.commit()
    assert stored(gateway, key) == sha256(video)


def test_python_aborts_and_begins_again(gateway):
    client, key = applied(gateway, 3)
    cos = cos_client(client.applied, gateway.object_url)
    upload = cos.create_multipart_upload(BUCKET, key)["UploadId"]
    cos.upload_part(BUCKET, key, b"abc", 1, upload)
    cos.abort_multipart_upload(BUCKET, key, upload)
    with pytest.raises(Refused) as caught:
        client.commit()
    assert caught.value.code == 10024
    cos.put_object(BUCKET, b"abc", key)
    client.commit()
    assert stored(gateway, key) == sha256(b"abc")


@pytest.mark.nightly
def test_python_uploads_a_gibibyte(gateways, tmp_path):
    """In parts of 1 MiB, as many as the SDK makes by itself. The file has a number in each, and holes."""
    server = gateways("disk")
    path = tmp_path / "video.mp4"
    with open(path, "wb") as file:
        file.truncate(GIB)
        for start in range(0, GIB, MIB):
            file.seek(start)
            file.write(b"%d" % start)
    client, key = applied(server, GIB)
    cos = cos_client(client.applied, server.object_url)
    sent = requests_of(cos)
    cos.upload_file(BUCKET, key, str(path))
    assert len([method for method, *_ in sent if method == "PUT"]) == 1024
    data = client.commit()
    assert f"/{data['fileId']}/" in key
    assert stored(server, key) == hash_file(path)


# coscmd


def coscmd(server, client, folder):
    certificate = client.applied["tempCertificate"]
    credentials = (certificate["secretId"], certificate["secretKey"], certificate["token"])
    return Coscmd(Place(int(server.object_url.rsplit(":", 1)[1]), "virtual", BUCKET, credentials, folder))


def upload_by_coscmd(server, folder, size):
    path = folder / "video.mp4"
    digest = write_file(path, size, size)
    client, key = applied(server, size)
    coscmd(server, client, folder).put(path, key)
    data = client.commit()
    assert f"/{data['fileId']}/" in key
    assert stored(server, key) == digest


@pytest.mark.parametrize("size", SIZES)
def test_coscmd_uploads_a_file(gateway, tmp_path, size):
    upload_by_coscmd(gateway, tmp_path, size)


def test_coscmd_uploads_a_large_file_in_parts(gateways, tmp_path):
    upload_by_coscmd(gateways("disk"), tmp_path, 20 * MIB + 5)
