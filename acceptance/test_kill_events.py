"""kill -9 while uploads are created, joined, completed, terminated, counted and reported.

At any moment: accounts match the stored bytes, every event is delivered, none under two ids, and no file is left over.
"""

import random
import threading
import time
from collections import Counter, defaultdict

import pytest

from harness.api import API, upload_id
from harness.data import content
from harness.receiver import Receiver
from harness.wire import until

SECRET = "whsec_" + "QUFB" * 11
SUBJECT = "alice"
KILLS = 200
# Bytes of the first append to an upload without a length.
DEFERRED = 300


class Clients:
    """Uploads without pause until the server dies, each client in its own way."""

    def __init__(self, server, token, seed):
        self.server = server
        self.token = token
        self.admin = API(server.url, server.admin_key)
        self.random = random.Random(seed)
        self.doing = Counter()
        self.failures = []

    def run(self, kind):
        api = API(self.server.url, self.token)
        try:
            while True:
                getattr(self, kind)(api)
        except OSError:
            pass  # killed
        except Exception as failure:
            self.failures.append(failure)

    def step(self, kind, call, *arguments, **options):
        """One request; requests that are running when the server dies are counted."""
        self.doing[kind] += 1
        answer = call(*arguments, **options)
        assert answer.status_code in (201, 204), f"{kind}: {answer.status_code} {answer.text}"
        self.doing[kind] -= 1
        return answer

    def complete(self, api):
        data = content(self.random.randint(1, 5000), 1)
        url = self.step("create", api.create, len(data)).headers["Location"]
        self.step("complete", api.patch, url, 0, data)

    def terminate(self, api):
        url = self.step("create", api.create, 100).headers["Location"]
        self.step("append", api.patch, url, 0, bytes(self.random.randint(1, 99)))
        self.step("terminate", api.terminate, url)

    def concatenate(self, api):
        urls = []
        for size in (1000, 2000):
            headers = {"Upload-Concat": "partial"}
            urls.append(self.step("create", api.create, size, headers=headers).headers["Location"])
            self.step("complete a part", api.patch, urls[-1], 0, bytes(size))
        joined = {"Upload-Concat": "final;" + " ".join(urls)}
        whole = self.step("concatenate", api.create, None, headers=joined).headers["Location"]
        if self.random.random() < 0.5:
            # The token may not delete media.
            self.step("delete the whole", self.admin.delete, f"/v1/media/{upload_id(whole)}")

    def defer(self, api):
        url = self.step("create", api.create, None, headers={"Upload-Defer-Length": "1"}).headers["Location"]
        self.step("append", api.patch, url, 0, bytes(DEFERRED))
        self.step("complete", api.patch, url, DEFERRED, bytes(50), headers={"Upload-Length": str(DEFERRED + 50)})


def everything(api):
    """All uploads that are recorded, ended ones included."""
    found, cursor = [], None
    while True:
        answer = api.get("/v1/uploads", params={"limit": 1000} | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        found += answer.json()["uploads"]
        cursor = answer.json().get("nextCursor")
        if not cursor:
            return found


def used(uploads):
    """The expected usage of the account: media, the lengths of open uploads, and parts not in a final upload."""
    stored = sum(
        one["length"] for one in uploads if one["state"] == "completed" and one.get("concatenation") != "partial"
    )
    reserved = 0
    for one in uploads:
        if one["state"] == "open" and one.get("concatenation") != "final":
            reserved += one.get("length", one["offset"])
    return stored, reserved


@pytest.mark.parametrize("durability", ["acknowledged", "none"])
def test_kills(make_server, report, quick, durability):
    kills = 10 if quick else KILLS // 2
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    with Receiver(SECRET, reply=lambda _: 500 if generator.random() < 0.1 else {}) as receiver:
        settings = {
            "SLUICE_DURABILITY": durability,
            "SLUICE_HOOKS_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_HOOKS_EVENTS": "post-create, post-finish, post-terminate",
            "SLUICE_HOOKS_ATTEMPTS": "100",
            "SLUICE_QUOTA_SUBJECT_STORED_BYTES": "1TB",
            "SLUICE_LOG_LEVEL": "warning",
        }
        server = make_server(environment=settings).start()
        moments = Counter()
        for _ in range(kills):
            api = API(server.url, server.admin_key)
            token = api.post("/v1/tus/tokens", {"subject": SUBJECT}).json()["token"]
            clients = Clients(server, token, generator.getrandbits(32))
            threads = [
                threading.Thread(target=clients.run, args=(kind,))
                for kind in ("complete", "terminate", "concatenate", "defer")
            ]
            for thread in threads:
                thread.start()
            time.sleep(generator.uniform(0.02, 0.25))
            moments.update(+clients.doing)
            moments["deliver"] += len(receiver.calls) > 0
            server.kill()
            for thread in threads:
                thread.join(30)
            assert clients.failures == [], (seed, clients.failures)
            server.start()

        receiver.reply = {}
        api = API(server.url, server.admin_key)
        until(lambda: api.get("/v1/hooks/deliveries?state=pending").json()["deliveries"] == [], timeout=300)
        assert api.get("/v1/hooks/deliveries?state=dead").json()["deliveries"] == []
        uploads = everything(api)
        check_events(seed, uploads, receiver.calls)
        check_files(seed, server, uploads)
        check_accounts(seed, api, uploads)
        delivered = Counter(one.id for one in receiver.calls)
        report(
            f"kill -9, durability {durability}, seed {seed}: {kills} kills, on their way: {dict(moments)};"
            f" {len(uploads)} uploads, {len(delivered)} events, {sum(delivered.values()) - len(delivered)} repeated"
        )


def check_events(seed, uploads, calls):
    """Each event at least once, under one id, in order."""
    ids, order = defaultdict(set), defaultdict(list)
    for call in calls:
        identifier = call.upload["ID"]
        ids[(identifier, call.type)].add(call.id)
        if call.type not in order[identifier]:
            order[identifier].append(call.type)
    for one in uploads:
        expected = ["post-create"]
        if one["state"] == "completed" or ("post-finish" in order[one["id"]] and one["state"] != "open"):
            expected.append("post-finish")
        if one["state"] in ("terminated", "expired"):
            expected.append("post-terminate")
        assert order[one["id"]] == expected, (seed, one, order[one["id"]])
        for kind in expected:
            assert len(ids[(one["id"], kind)]) == 1, (seed, one, kind)
    assert set(order) == {one["id"] for one in uploads}, f"seed {seed}: events of uploads that are not recorded"


def check_files(seed, server, uploads):
    """A blob for each upload that is open or complete, and no other; the first sweep after a start removes the rest."""
    needed = {one["id"] for one in uploads if one["state"] in ("open", "completed")}

    def blobs():
        return {path.name for path in (server.data / "blobs").rglob("*") if path.is_file()}

    until(lambda: blobs() <= needed, timeout=20)
    assert blobs() == needed, f"seed {seed}: blobs are missing"


def check_accounts(seed, api, uploads):
    stored, reserved = used(uploads)
    quota = api.get(f"/v1/quota/subjects/{SUBJECT}").json()["used"]
    open_uploads = sum(one["state"] == "open" for one in uploads)
    parts = [one for one in uploads if one["state"] == "completed" and one.get("concatenation") == "partial"]
    # Parts hold their bytes until the final upload that is made of them is complete. An upload without a length holds
    # what its append was about to write when the process was killed, until it goes on or ends.
    begun = [one for one in uploads if one["state"] == "open" and "length" not in one and "concatenation" not in one]
    most = sum(one["length"] for one in parts) + sum(DEFERRED - one["offset"] for one in begun)
    held = quota["storedBytes"] - stored - reserved
    # Each part is named by one final upload, and holds its bytes again when that one is deleted.
    joined = sum(
        one["length"] for one in uploads if one["state"] == "completed" and one.get("concatenation") == "final"
    )
    least = sum(one["length"] for one in parts) - joined
    assert least <= held <= most - joined, (seed, quota, stored, reserved)
    assert quota["openUploads"] == open_uploads, (seed, quota, open_uploads)
    assert quota["periodUploads"] == len(uploads), (seed, quota, len(uploads))
    # Exactly: when everything is terminated nothing is left.
    for one in uploads:
        if one["state"] in ("open", "completed"):
            assert api.delete(f"/v1/uploads/{one['id']}").status_code == 204, (seed, one)
    quota = api.get(f"/v1/quota/subjects/{SUBJECT}").json()["used"]
    assert (quota["storedBytes"], quota["openUploads"]) == (0, 0), (seed, quota)
