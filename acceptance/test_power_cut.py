"""Power cuts at random moments, replayed block by block: nothing acknowledged is lost, no byte is wrong after resuming.

Clients use a server whose data directory is on a recording disk (`harness/power_lab.py`); the server is killed, and
for many moments of the recording, a state of the disk is made that a power cut could have left. On each a server is
started, as after a boot, and must have everything that was acknowledged by then.

`SLUICE_POWER_STATES` is the number of states of each file system and durability, `SLUICE_POWER_SEED` the seed;
`scripts/nightly` runs thousands.
"""

import contextlib
import functools
import hashlib
import http.client
import os
import random
import threading
import time
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from harness import data as contents
from harness import power_lab
from harness.api import API, OFFSET_TYPE, TUS, path_of, upload_id
from harness.data import KIB, MIB, sha256
from harness.objects import ObjectStore
from harness.server import Server

SUBJECT = "user-1"
BUCKET = "media"
PART = 5 * MIB
SECONDS = 4
# The states that CI checks; `scripts/nightly` checks more.
STATES = {"acknowledged": 14, "completed": 5, "none": 3}

pytestmark = pytest.mark.nightly

# Every state compares the same content again.
content = functools.lru_cache(256)(contents.content)


@functools.lru_cache(1024)
def digest(size, seed):
    return sha256(content(size, seed))


def boot(folder, name):
    """Runs a command as after a reboot, with another boot id."""
    file = Path(folder) / f"boot-{name}"
    file.write_text(f"{zlib.crc32(name.encode()):08x}-1234-4567-89ab-0123456789ab\n")
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"', file]


class Clients:
    """They record their requests on the disk before sending them, and the responses afterwards."""

    def __init__(self, server, disk, seed):
        self.server, self.disk, self.generator = server, disk, random.Random(seed)
        self.api = API(server.url, server.admin_key)
        self.token = self.api.post("/v1/tus/tokens", {"subject": SUBJECT}).json()["token"]
        access_key, secret = server.pair()
        self.store = ObjectStore(server.object_url, access_key, secret)
        self.failures = []
        self.is_over = threading.Event()

    def run(self, work, *arguments):
        try:
            work(random.Random(self.generator.getrandbits(32)), *arguments)
        except (OSError, http.client.HTTPException, BotoCoreError, ClientError):
            pass  # killed
        except Exception as failure:
            self.failures.append(failure)

    def request(self, connection, method, path, headers, body=None):
        connection.request(method, path, body=body, headers=TUS | headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    def create(self, connection, size, seed, token=None):
        fields = {"Upload-Length": str(size), "Authorization": f"Bearer {token or self.token}"}
        answer = self.request(connection, "POST", "/files", fields)
        assert answer.status == 201, answer.status
        path = path_of(answer.headers["Location"])
        self.disk.mark(["upload", path, size, seed])
        return path

    def connect(self):
        return http.client.HTTPConnection(*self.server.address, timeout=20)

    def appending(self, chance, most):
        """Uploads by tus in requests of random size, also of some bytes; some uploads are removed."""
        connection = self.connect()
        while not self.is_over.is_set():
            size, seed = chance.randint(1, 20 * MIB), chance.getrandbits(32)
            data, offset = content(size, seed), 0
            path = self.create(connection, size, seed)
            while offset < size:
                end = min(size, offset + int(most ** chance.random()))
                if end == size:
                    self.disk.mark(["finishing", path])
                fields = {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE}
                answer = self.request(connection, "PATCH", path, fields, data[offset:end])
                assert answer.status == 204, answer.status
                offset = int(answer.headers["Upload-Offset"])
                self.disk.mark(["offset", path, offset])
            self.disk.mark(["done", path])
            if chance.random() < 0.3:
                identifier = path.rsplit("/", 1)[1].split(".", 1)[0]
                self.disk.mark(["removing", path])
                assert self.api.delete(f"/v1/uploads/{identifier}").status_code == 204
                self.disk.mark(["removed", path])

    def small(self, chance):
        """Whole uploads by creation-with-upload, with grants that admit one upload."""
        connection = self.connect()
        while not self.is_over.is_set():
            document = self.api.post("/v1/tus/tokens", {"subject": SUBJECT, "oneTime": True}).json()
            size, seed = chance.randint(1, 64 * KIB), chance.getrandbits(32)
            fields = {"Upload-Length": str(size), "Authorization": f"Bearer {document['token']}"}
            fields["Content-Type"] = OFFSET_TYPE
            answer = self.request(connection, "POST", "/files", fields, content(size, seed))
            assert answer.status == 201, answer.status
            self.disk.mark(["upload", path_of(answer.headers["Location"]), size, seed])
            self.disk.mark(["done", path_of(answer.headers["Location"])])
            self.disk.mark(["used", document["token"]])

    def slow(self, chance):
        """One long PATCH, of which nothing is acknowledged at the power cut."""
        size, seed = 40 * MIB, chance.getrandbits(32)
        connection = self.connect()
        path = self.create(connection, size, seed)
        data = content(size, seed)
        connection.putrequest("PATCH", path)
        for name, value in (TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}).items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        for start in range(0, size, 64 * KIB):
            if self.is_over.is_set():
                return
            connection.send(data[start : start + 64 * KIB])
            time.sleep(SECONDS / 500)

    def objects(self, chance):
        """Objects that are put, replaced and removed."""
        client = self.store.client()
        for number in range(10**6):
            if self.is_over.is_set():
                return
            # Small ones are stored in one step with their record.
            most = chance.choice([2 * MIB, 32 * KIB])
            key, size, seed = f"object-{number // 2}", chance.randint(0, most), chance.getrandbits(32)
            self.disk.mark(["putting", key, size, seed])
            client.put_object(Bucket=BUCKET, Key=key, Body=content(size, seed))
            self.disk.mark(["put", key, size, seed])
            if chance.random() < 0.3:
                self.disk.mark(["deleting", key])
                client.delete_object(Bucket=BUCKET, Key=key)
                self.disk.mark(["deleted", key])

    def multipart(self, chance):
        client = self.store.client()
        for number in range(10**6):
            if self.is_over.is_set():
                return
            key = f"parts-{number}"
            upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
            self.disk.mark(["multipart", key, upload])
            parts = []
            for part in range(1, chance.randint(2, 4)):
                seed = chance.getrandbits(32)
                body = content(PART, seed)
                tag = client.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=part, Body=body)["ETag"]
                parts.append({"PartNumber": part, "ETag": tag})
                self.disk.mark(["part", key, part, seed])
            self.disk.mark(["completing", key])
            client.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
            self.disk.mark(["completed", key])


class Facts:
    """What was acknowledged by a moment, and which requests may have taken effect."""

    def __init__(self, marks):
        self.uploads, self.objects, self.multiparts = {}, {}, {}
        self.tokens = []
        for kind, name, *rest in marks:
            getattr(self, kind)(name, *rest)

    def upload(self, path, size, seed):
        self.uploads[path] = {"size": size, "seed": seed, "offset": 0, "state": "open"}

    def offset(self, path, offset):
        self.uploads[path]["offset"] = offset

    def finishing(self, path):
        pass

    def done(self, path):
        self.uploads[path] |= {"state": "done", "offset": self.uploads[path]["size"]}

    def removing(self, path):
        self.uploads[path]["state"] = "removing"

    def removed(self, path):
        self.uploads[path]["state"] = "removed"

    def used(self, token):
        self.tokens.append(token)

    def putting(self, key, size, seed):
        self.objects.setdefault(key, {"certain": None, "possible": []})["possible"].append((size, seed))

    def put(self, key, size, seed):
        self.objects[key] = {"certain": (size, seed), "possible": []}

    def deleting(self, key):
        self.objects[key]["possible"].append(None)

    def deleted(self, key):
        self.objects[key] = {"certain": None, "possible": []}

    def multipart(self, key, upload):
        self.multiparts[key] = {"upload": upload, "parts": {}, "state": "open"}

    def part(self, key, number, seed):
        self.multiparts[key]["parts"][number] = seed

    def completing(self, key):
        self.multiparts[key]["state"] = "completing"

    def completed(self, key):
        self.multiparts[key]["state"] = "completed"


class Check:
    """Compares a server on a state of the disk with the facts."""

    def __init__(self, server, facts, durability, pair):
        self.facts, self.durability = facts, durability
        self.api = API(server.url, server.admin_key)
        self.store = ObjectStore(server.object_url, *pair).client()

    def all(self):
        self.uploads()
        if self.durability != "none":
            self.objects()
            self.parts()
            for token in self.facts.tokens[-20:]:
                assert self.api.create(3, key=token).status_code == 403, "a one-time grant admitted two uploads"
            self.quota()

    def uploads(self):
        for path, fact in self.facts.uploads.items():
            answer = self.api.head(self.api.url + path)
            if fact["state"] == "removed" and self.durability != "none":
                assert answer.status_code in (404, 410), (path, fact, answer.status_code)
            if answer.status_code in (404, 410):
                assert fact["state"].startswith("remov") or self.durability == "none", (path, fact)
                continue
            assert answer.status_code == 200, (path, fact, answer.status_code)
            offset = int(answer.headers["Upload-Offset"])
            if self.durability == "acknowledged" or fact["state"] == "done" and self.durability == "completed":
                assert offset >= fact["offset"], f"{path}: {fact['offset']} bytes were acknowledged, {offset} are there"
            if offset == fact["size"] and self.durability == "none":
                continue
            self.resume(path, fact, offset)

    def resume(self, path, fact, offset):
        """Continues at the offset from HEAD, and compares all bytes."""
        data = content(fact["size"], fact["seed"])
        if offset < len(data):
            answer = self.api.patch(self.api.url + path, offset, data[offset:])
            assert answer.status_code == 204, (path, fact, answer.status_code, answer.text)
        found = self.api.get(f"/media/{upload_id(path)}", stream=True)
        assert found.status_code == 200, (path, fact, found.status_code, found.text)
        body = found.raw.read()
        if body != data:
            wrong = next((n for n, (a, b) in enumerate(zip(body, data, strict=False)) if a != b), None)
            raise AssertionError(f"{path}: {len(body)} bytes, wrong from {wrong} on; from {offset} on, {fact}")

    def objects(self):
        for key, fact in self.facts.objects.items():
            found = self.object(key)
            allowed = [fact["certain"], *fact["possible"]]
            bodies = [None if one is None else digest(*one) for one in allowed]
            assert found in bodies, (key, fact, found)

    def object(self, key):
        try:
            return hashlib.sha256(self.store.get_object(Bucket=BUCKET, Key=key)["Body"].read()).hexdigest()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey", error
            return None

    def parts(self):
        for key, fact in self.facts.multiparts.items():
            found = self.object(key)
            if found is None:
                assert fact["state"] != "completed", (key, fact)
                listed = self.listed(key, fact)
                if self.durability == "acknowledged" and fact["state"] == "open":
                    assert listed.keys() >= fact["parts"].keys(), (key, fact, listed)
                # As a client that resumes: what is listed is not sent again.
                for number, seed in fact["parts"].items():
                    if number not in listed:
                        listed[number] = self.store.upload_part(
                            Bucket=BUCKET,
                            Key=key,
                            UploadId=fact["upload"],
                            PartNumber=number,
                            Body=content(PART, seed),
                        )["ETag"]
                if not fact["parts"]:
                    continue
                named = [{"PartNumber": number, "ETag": listed[number]} for number in sorted(fact["parts"])]
                self.store.complete_multipart_upload(
                    Bucket=BUCKET, Key=key, UploadId=fact["upload"], MultipartUpload={"Parts": named}
                )
                found = self.object(key)
            expected = b"".join(content(PART, seed) for _, seed in sorted(fact["parts"].items()))
            assert found == sha256(expected), (key, fact)

    def listed(self, key, fact):
        answer = self.store.list_parts(Bucket=BUCKET, Key=key, UploadId=fact["upload"])
        return {one["PartNumber"]: one["ETag"] for one in answer.get("Parts", [])}

    def quota(self):
        """The account has what its uploads have."""
        uploads, cursor = [], None
        while True:
            page = self.api.get(f"/v1/uploads?limit=100&subject={SUBJECT}" + (f"&cursor={cursor}" if cursor else ""))
            uploads += page.json()["uploads"]
            cursor = page.json().get("nextCursor")
            if not cursor:
                break
        used = self.api.get(f"/v1/quota/subjects/{SUBJECT}").json()["used"]
        held = [one for one in uploads if one["state"] in ("open", "completed")]
        assert used["openUploads"] == sum(one["state"] == "open" for one in held), used
        assert used["storedBytes"] == sum(one["length"] for one in held), used


def settings(durability):
    return {
        "SLUICE_DURABILITY": durability,
        "SLUICE_OBJECT_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_BUCKETS": BUCKET,
        "SLUICE_QUOTA_SUBJECT_STORED_BYTES": "1TB",
        "SLUICE_LOG_LEVEL": "warning",
    }


@pytest.mark.parametrize("durability", STATES)
@pytest.mark.parametrize("filesystem", power_lab.MAKE)
def test_power_cuts(filesystem, durability, tmp_path, report):
    power_lab.require(filesystem)
    seed = int(os.environ.get("SLUICE_POWER_SEED", random.randrange(2**32)))
    count = int(os.environ.get("SLUICE_POWER_STATES", STATES[durability]))
    print(f"seed {seed}")
    failures, seen = [], defaultdict(int)
    with power_lab.Disk(tmp_path / "lab", mebibytes=1536, filesystem=filesystem) as disk:
        server = Server(disk.path, environment=settings(durability), log=tmp_path / "log", prefix=boot(tmp_path, "a"))
        server.start()
        clients = Clients(server, disk, seed)
        pair = server.pair()
        disk.record()
        works = [(clients.appending, 9 * MIB), (clients.appending, 9 * MIB), (clients.appending, 20 * KIB)]
        # Several, so that they share transactions.
        works += [(clients.small,)] * 3 + [(clients.slow,), (clients.objects,), (clients.multipart,)]
        threads = [threading.Thread(target=clients.run, args=work) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        server.kill()
        clients.is_over.set()
        for thread in threads:
            thread.join(30)
        assert clients.failures == [], (seed, clients.failures)
        disk.stop()
        for number, state in enumerate(disk.states(count, seed)):
            with state.mounted() as path:
                second = Server(
                    path,
                    environment=settings(durability),
                    log=tmp_path / f"log-{number}",
                    prefix=boot(tmp_path, f"b{number}"),
                )
                try:
                    second.start()
                    facts = Facts(state.marks)
                    seen["uploads"] += len(facts.uploads)
                    seen["objects"] += len(facts.objects) + len(facts.multiparts)
                    Check(second, facts, durability, pair).all()
                except Exception as failure:
                    failures.append(f"{state}: {type(failure).__name__} {str(failure)[:600]}")
                finally:
                    with contextlib.suppress(Exception):
                        second.kill()
    lost = "\n".join(failures)
    assert not failures, f"{filesystem}, {durability}, seed {seed}: {len(failures)} of {count} states:\n{lost}"
    report(
        f"power cuts on {filesystem}, durability {durability}, seed {seed}: {count} states,"
        f" {seen['uploads']} uploads and {seen['objects']} objects in them, nothing lost"
    )
