"""What completing a multipart upload costs: the same for two parts and for a thousand."""

import hashlib
from collections import Counter

import pytest

from harness import strace
from harness.daemon import free_port
from harness.data import KIB, content
from harness.object_client import ObjectServer, minted
from harness.object_clients.calls import OSSCalls

BUCKET = "uploads"
# The least of OSS, which takes the smallest.
PART = 100 * KIB
# At most so many more for a thousand parts, each of which has a row, than for two. A page is two writes of SQLite.
WRITES = 150


def completed(server, parts, key, folder):
    """Counts of the calls about files of the content, by name, and of writes into the log of the state.

    What SQLite reads, and when it moves pages from its log to its file, depends on what was before.
    """
    wanted = {"bucket": BUCKET, "keyPrefix": "dora/", "actions": ["upload", "read"]}
    port = int(server.object_url.rsplit(":", 1)[1])
    client = OSSCalls(port, BUCKET, minted(server, "aliyun", **wanted))
    upload = client.create(key)
    data = content(PART, parts)
    tag = hashlib.md5(data).hexdigest().upper()
    for number in range(1, parts + 1):
        client.part(key, upload, number, data)
    with strace.Trace(server.pid, folder / "calls") as trace:
        client.complete(key, upload, [(number, tag) for number in range(1, parts + 1)])
    assert hashlib.sha256(client.get(key)).digest() == hashlib.sha256(data * parts).digest()
    files = Counter(name for name, path in trace.calls if path.startswith(f"{server.data}/blobs/"))
    return files, sum(name == "pwrite64" and path.endswith("-wal") for name, path in trace.calls)


@pytest.mark.nightly
def test_completing_costs_the_same_for_any_number_of_parts(tmp_path, report):
    if not strace.is_available():
        pytest.skip("no strace, or it may not trace here")
    with ObjectServer(tmp_path / "data", free_port()) as server:
        # What is done once only is done here.
        completed(server, 2, "dora/first", tmp_path)
        few, writes_of_few = completed(server, 2, "dora/few", tmp_path)
        many, writes_of_many = completed(server, 1000, "dora/many", tmp_path)
    report(f"calls on files to complete 2 parts: {dict(few)}, and {writes_of_few} writes of the state")
    report(f"calls on files to complete 1,000 parts: {dict(many)}, and {writes_of_many} writes of the state")
    assert many == few and many["rename"] == 1
    assert writes_of_many - writes_of_few < WRITES
