"""A disk without a free block is freed by the API: for deletions and revocations the state keeps a reserve."""

import os
import time

import pytest
from botocore.exceptions import ClientError

from harness import aliyun_vod
from harness.aliyun_vod import Core
from harness.api import API, path_of, problem, tus_error, upload_id
from harness.daemon import free_port
from harness.data import MIB, content
from harness.disk import small, take_all
from harness.object_client import BUCKET, ObjectServer
from harness.vimeo import Plain
from harness.vimeo import token as vimeo_token
from harness.vod_api import SDK, own_pair
from harness.vod_api import upload as vod_upload

SIZES = {"tmpfs": 64 * MIB, "ext4": 64 * MIB, "xfs": 320 * MIB, "btrfs": 200 * MIB}
NOTE = {"note": "x" * 2000}


@pytest.fixture(params=SIZES)
def disk(request, tmp_path):
    with small(tmp_path / "disk", request.param, SIZES[request.param]) as folder:
        yield folder


@pytest.fixture
def server(disk, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    server = ObjectServer(disk / "data", free_port(), log=tmp_path / "server.log")
    server.start()
    yield server
    server.stop()


def fill(disk, api):
    """Takes all blocks, and the space in the files of the state, until nothing more can be created."""
    refused = 0
    while refused < 20:
        take_all(disk / "ballast")
        refused = refused + 1 if api.create(10, metadata=NOTE).status_code == 507 else 0
    take_all(disk / "ballast")


def vod_file(server, path):
    path.write_bytes(content(1000, 1))
    return vod_upload(server, own_pair(server), path)["FileId"]


def deletions(server, api, folder):
    """What frees space, by name: calls that return whether they succeeded."""
    vimeo = Plain(server, vimeo_token(server, "dora"))
    objects = server.client()

    def is_done(answer):
        return 200 <= answer.status_code < 300 or f"{answer.status_code} {answer.text}"

    def rest(path):
        return lambda: is_done(api.delete(path))

    made = {}
    for number in range(3):
        # The port of another start is another one.
        place = path_of(api.created(1000, metadata=NOTE))
        made[f"tus {number}"] = lambda place=place: is_done(api.terminate(place))
        made[f"open upload {number}"] = rest(f"/v1/uploads/{upload_id(api.created(1000))}")
        made[f"upload {number}"] = rest(f"/v1/uploads/{api.uploaded(content(20_000, number), metadata=NOTE)}")
        made[f"media {number}"] = rest(f"/v1/media/{api.uploaded(b'x')}")
    key = api.post("/v1/keys", {"name": "k", "scopes": ["read"]}).json()["id"]
    made["key"] = rest(f"/v1/keys/{key}")
    assert api.request("PUT", "/v1/quota/subjects/anna", json={"storedBytes": 5}).status_code in (200, 204)
    made["quota"] = rest("/v1/quota/subjects/anna")
    made["revocation of a subject"] = lambda: is_done(api.post("/v1/revocations", {"subject": "bert"}))
    video = vimeo.create(1000)
    other = vimeo.create(1000)
    track = vimeo("POST", f"{other['uri']}/texttracks", json={"type": "captions", "language": "en"}).json()["uri"]
    picture = vimeo("POST", f"{other['uri']}/pictures", json={}).json()["uri"]
    for name, uri in {"video": video["uri"], "text track": track, "picture": picture}.items():
        made[f"Vimeo {name}"] = lambda uri=uri: is_done(vimeo("DELETE", uri))
    stranger = Plain(server, vimeo_token(server, "emil"))
    made["Vimeo token"] = lambda: is_done(stranger("DELETE", "/tokens"))
    for name in ("one", "two", "three"):
        objects.put_object(Bucket=BUCKET, Key=name, Body=content(5000, 2))
    begun = objects.create_multipart_upload(Bucket=BUCKET, Key="many")["UploadId"]
    for number in range(1, 40):
        objects.upload_part(Bucket=BUCKET, Key="many", UploadId=begun, PartNumber=number, Body=b"x" * 1000)
    objects.create_bucket(Bucket="emptied")
    made["object"] = lambda: bool(objects.delete_object(Bucket=BUCKET, Key="one"))
    both = {"Objects": [{"Key": "two"}, {"Key": "three"}]}
    made["objects"] = lambda: "Errors" not in objects.delete_objects(Bucket=BUCKET, Delete=both)
    made["parts"] = lambda: bool(objects.abort_multipart_upload(Bucket=BUCKET, Key="many", UploadId=begun))
    made["bucket"] = lambda: bool(objects.delete_bucket(Bucket="emptied"))
    form = api.post("/s3/multipart", {"filename": "f", "type": "a/b"}).json()
    made["companion"] = lambda: is_done(api.delete(f"/s3/multipart/{form['uploadId']}", params={"key": form["key"]}))
    aliyun, file_id = aliyun_vod.create(server)["VideoId"], vod_file(server, folder / "v.mp4")
    made["ApsaraVideo"] = lambda: Core(server)("DeleteVideo", VideoIds=aliyun)["NonExistVideoIds"] == []
    made["Tencent"] = lambda: bool(SDK(server)("DeleteMedia", FileId=file_id)["RequestId"])
    made["revocation of all"] = lambda: is_done(api.post("/v1/revocations", {"issuedBefore": "2026-01-01T00:00:00Z"}))
    return made


@pytest.mark.rows
@pytest.mark.parametrize("moment", ["live", "after a stop", "after a kill"])
def test_every_deletion_works_without_a_free_block(disk, server, tmp_path, moment, report, request):
    api = API(server.url, server.admin_key)
    kept = api.created(MIB)
    calls = deletions(server, api, tmp_path)
    reserve = disk / "data/reserve"
    whole = reserve.stat().st_size
    assert whole > 4 * MIB
    fill(disk, api)
    if moment != "live":
        server.stop() if moment == "after a stop" else server.kill()
        # What the server has given back is taken by others.
        take_all(disk / "ballast")
        server.start()
        api.url = server.url
        assert api.get("/healthz").status_code == 200
    failed = {}
    for name, call in calls.items():
        # What a deletion has given back is taken, too.
        take_all(disk / "ballast")
        try:
            result = call()
        except Exception as error:
            result = repr(error)
        if result is not True:
            failed[name] = result
    assert failed == {}
    reserved = reserve.stat().st_blocks * 512
    report(
        f"full disk, {request.node.callspec.id}: {len(calls)} deletions, {reserved / MIB:.2f} MiB of the reserve left"
    )
    # The rest is not for uploads.
    if reserved < whole:
        tus_error(api.create(10), 507)
        problem(api.post("/v1/tus/uploads", {"length": 10}), 507, "storage_full")
        fresh = server.url + path_of(kept)
        assert api.patch(fresh, 0, b"x").status_code == 507
        # If its byte has reached the file, the record of it needs room: clients wait after 423.
        found = api.head(fresh)
        assert found.status_code == 423 or found.headers["Upload-Offset"] == "0", found.status_code
    os.truncate(disk / "ballast", 0)
    deadline = time.monotonic() + 60
    while api.create(10).status_code == 507:
        assert time.monotonic() < deadline
    assert reserve.stat().st_blocks * 512 >= whole
    identifier = api.uploaded(b"there is room again")
    assert api.get(f"/media/{identifier}").content == b"there is room again"


@pytest.mark.rows("ext4")
def test_a_thousand_deletions_without_a_free_block(disk, server, report):
    """The reserve is filled up again with what they free."""
    api = API(server.url, server.admin_key)
    found = [api.uploaded(b"x" * 5000, metadata=NOTE) for _ in range(300)]
    fill(disk, api)
    for number, identifier in enumerate(found):
        if number % 10 == 0:
            take_all(disk / "ballast")
        answer = api.delete(f"/v1/uploads/{identifier}")
        assert answer.status_code == 204, f"{number}: {answer.text}"
    report(f"300 deletions: {(disk / 'data/reserve').stat().st_blocks * 512 / MIB:.2f} MiB of the reserve left")


@pytest.mark.rows("ext4")
def test_deletions_that_free_nothing_leave_the_reserve_alone(disk, server):
    """Vimeo completes the upload of a ticket with DELETE, and an object stays when its tags are removed."""
    api = API(server.url, server.admin_key)
    vimeo, objects = Plain(server, vimeo_token(server, "dora")), server.client()
    objects.put_object(Bucket=BUCKET, Key="tagged", Body=b"x", Tagging="a=b")
    ticket = vimeo.ticket()
    bytes_range = {"Content-Range": "bytes 0-99/100"}
    assert vimeo("PUT", ticket["upload_link"], data=content(100, 1), headers=bytes_range).status_code == 200
    fill(disk, api)
    server.stop()
    reserve = disk / "data/reserve"
    # As if another process had taken what a deletion has given back.
    os.truncate(reserve, reserve.stat().st_size - 2 * MIB)
    take_all(disk / "ballast")
    server.start()
    objects = server.client()
    left = reserve.stat().st_blocks
    refused = vimeo("DELETE", ticket["complete_uri"])
    assert refused.status_code == 507, refused.text
    with pytest.raises(ClientError) as failure:
        objects.delete_object_tagging(Bucket=BUCKET, Key="tagged")
    assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
    assert reserve.stat().st_blocks >= left
    os.truncate(disk / "ballast", 0)
    deadline = time.monotonic() + 60
    while (done := vimeo("DELETE", ticket["complete_uri"])).status_code == 507:
        assert time.monotonic() < deadline
    assert done.status_code == 201, done.text
    objects.delete_object_tagging(Bucket=BUCKET, Key="tagged")
    assert objects.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"] == []
