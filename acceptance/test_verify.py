"""`sluice verify`: every record against its bytes and all bytes against their records, beside a running gateway."""

import contextlib
import json
import math
import sqlite3
import subprocess
import threading

import pytest

from harness.api import API, upload_id
from harness.daemon import free_port
from harness.data import MIB, content
from harness.faulty_store import Delay
from harness.object_client import BUCKET, ObjectServer
from harness.server import BINARY, run

ARGUMENTS = ("verify", "--json")


def verify(server, *arguments, environment=None):
    """Status, the findings by their upload's id, and the summary."""
    done = run(*ARGUMENTS, *arguments, environment=environment or server.environment, check=False)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    *findings, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert summary["findings"] == len(findings)
    assert done.returncode == (1 if findings else 0)
    return {finding["id"]: finding["fault"] for finding in findings}, summary


def blob(server, identifier, suffix=""):
    return server.data / "blobs" / identifier[-2:] / (identifier + suffix)


def key_of(keys, identifier):
    return next(key for key in keys if identifier in key)


def digested(api, body):
    """The id of a completed upload whose SHA-256 is recorded."""
    identifier = api.uploaded(body)
    answer = api.get(f"/media/{identifier}", headers={"Want-Repr-Digest": "sha-256=1"})
    assert "Repr-Digest" in answer.headers
    return identifier


@pytest.fixture
def objects(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    with ObjectServer(tmp_path / "data", free_port()) as server:
        server.client().create_bucket(Bucket=BUCKET)
        yield server


def multipart(server, key, *parts):
    """An open multipart upload: the id of the request, and that of the gateway's upload."""
    client = server.client()
    name = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    for number, part in enumerate(parts, 1):
        client.upload_part(Bucket=BUCKET, Key=key, UploadId=name, PartNumber=number, Body=part)
    api = API(server.url, server.admin_key)
    return next(one["id"] for one in api.get("/v1/uploads?state=open").json()["uploads"] if one.get("key") == key)


def test_each_fault_is_found_and_nothing_else(objects):
    api = API(objects.url, objects.admin_key)
    good = [api.uploaded(content(1000, n)) for n in range(3)]
    opened = api.created(10)
    assert api.patch(opened, 0, b"12345").status_code == 204
    whole = multipart(objects, "whole", content(5 * MIB, 1), content(5 * MIB, 2), content(100, 3))
    assert verify(objects)[0] == {}
    found, summary = verify(objects, "--digests")
    assert found == {} and summary["uploads"] == summary["blobs"] == len(good) + 2

    gone, short, changed = api.uploaded(b"gone"), api.uploaded(b"short"), digested(api, b"changed")
    lost_open = upload_id(api.created(3))
    cut = multipart(objects, "cut", content(5 * MIB, 4), content(5 * MIB, 5))
    stray = api.uploaded(b"without a record")
    for identifier in (gone, lost_open):
        blob(objects, identifier).unlink()
    blob(objects, short).write_bytes(b"shor")
    blob(objects, changed).write_bytes(b"CHANGED")
    with open(blob(objects, cut, ".parts"), "r+b") as file:
        file.truncate(6 * MIB)
    with contextlib.closing(sqlite3.connect(objects.data / "state.sqlite")) as state, state:
        state.execute("DELETE FROM media WHERE id = ?", [stray])
        state.execute("DELETE FROM upload WHERE id = ?", [stray])
    expected = {gone: "missing", lost_open: "missing", short: "length", cut: "part", stray: "unrecorded"}
    assert whole not in expected
    assert verify(objects)[0] == expected
    # The length is right, so that only the digest shows it.
    assert verify(objects, "--digests")[0] == expected | {changed: "digest"}
    # People get a line for each.
    done = run("verify", environment=objects.environment, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == len(expected) + 1
    assert f"part {cut}: bytes of recorded parts are missing or incomplete: 2" in lines
    assert lines[-1].endswith(f"{len(expected)} findings")
    assert done.stderr == ""


def test_uploads_in_progress_are_no_fault(objects):
    api = API(objects.url, objects.admin_key)
    client = objects.client()
    stop, failures = threading.Event(), []

    def work(number):
        mine, turn = API(objects.url, objects.admin_key), 0
        try:
            while not stop.is_set():
                turn += 1
                identifier = mine.uploaded(content(3000, turn))
                url = mine.created(2000)
                assert mine.patch(url, 0, content(500 + turn, turn)).status_code == 204
                key = f"{number}-{turn % 3}"
                client.put_object(Bucket=BUCKET, Key=key, Body=content(40_000, turn))
                name = client.create_multipart_upload(Bucket=BUCKET, Key="m" + key)["UploadId"]
                given = {"Bucket": BUCKET, "Key": "m" + key, "UploadId": name, "PartNumber": 1}
                client.upload_part(Body=content(10_000, turn), **given)
                tag = client.upload_part(Body=content(20_000, turn), **given)["ETag"]
                given.pop("PartNumber")
                client.complete_multipart_upload(**given, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
                if turn % 2:
                    assert mine.delete(f"/v1/uploads/{identifier}").status_code == 204
                    assert mine.terminate(url).status_code == 204
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            assert verify(objects, "--digests")[0] == {}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert verify(objects)[0] == {}
    assert api.get("/readyz", key=None).status_code == 200


def test_what_cannot_be_read_is_status_2(tmp_path, objects):
    done = run("verify", data=tmp_path / "nothing", check=False)
    assert done.returncode == 2 and "there is no state in" in done.stderr and done.stdout == ""
    done = run("verify", environment=objects.environment | {"SLUICE_STORAGE": "tape"}, check=False)
    assert done.returncode == 2 and "storage" in done.stderr


def test_objects_of_a_store_are_asked_for(make_relay, rgw, bucket_name):
    relay = make_relay()
    api, client = relay.api, rgw.client()
    kept, gone, other = (api.uploaded(content(1000, n)) for n in range(3))
    opened = api.created(12 * MIB)
    assert api.patch(opened, 0, content(6 * MIB, 7)).status_code == 204
    assert verify(relay.server, "--digests")[0] == {}
    keys = rgw.keys(bucket_name)
    client.delete_object(Bucket=bucket_name, Key=key_of(keys, gone))
    client.put_object(Bucket=bucket_name, Key=key_of(keys, other), Body=b"other")
    # What other software has in the bucket is no upload.
    client.put_object(Bucket=bucket_name, Key="of others", Body=b"x")
    found, summary = verify(relay.server)
    assert found == {gone: "missing", other: "length"} and summary["uploads"] == 4


def test_a_store_is_asked_for_several_objects_at_once(make_relay, rgw, bucket_name, report):
    relay = make_relay()
    made = [relay.api.uploaded(content(100, n)) for n in range(48)]
    keys, gone = rgw.keys(bucket_name), made[::5]
    for identifier in gone:
        rgw.client().delete_object(Bucket=bucket_name, Key=key_of(keys, identifier))
    relay.proxy.settle()
    relay.proxy.forget()
    relay.proxy.fault("HeadObject", Delay(before=0.25), times=math.inf)
    for _ in range(2):
        done = run(*ARGUMENTS, environment=relay.server.environment, check=False)
        # In the order of the records, newest first, whichever response comes first.
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()[:-1]] == sorted(gone, reverse=True)
    calls = relay.proxy.of("HeadObject")
    at_once = max(sum(other.began <= call.began < other.ended for other in calls) for call in calls)
    assert 4 < at_once <= 16
    relay.proxy.forget()
    run(*ARGUMENTS, environment=relay.server.environment, check=False)
    calls = relay.proxy.of("HeadObject")
    took = max(call.ended for call in calls) - min(call.began for call in calls)
    ratio = sum(call.ended - call.began for call in calls) / took
    report(f"verify of 48 objects in a store 250 ms away: {ratio:.1f} times as fast as one after another")
    assert ratio > 4


def test_records_in_postgres(make_relay, postgres):
    relay = make_relay(database=postgres.make_database())
    identifier = relay.api.uploaded(b"bytes")
    found, summary = verify(relay.server, "--digests")
    assert found == {} and (summary["uploads"], summary["digested"]) == (1, 1)
    relay.store.client().delete_object(Bucket=relay.bucket, Key=key_of(relay.store.keys(relay.bucket), identifier))
    assert verify(relay.server)[0] == {identifier: "missing"}


def test_bash_reads_the_completions(tmp_path):
    script = run("--generate-completion-script", "bash").stdout
    assert "verify" in script and BINARY.exists()
    (tmp_path / "sluice").write_text(script)
    subprocess.run(["bash", "-n", str(tmp_path / "sluice")], check=True)
