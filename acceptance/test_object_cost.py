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
# Of the state, where a thousand rows have more pages than two; they are read and written in one go or page by page.
PAGES = 200


def completed(server, parts, folder):
    """Counts of the calls about files of the data directory, by name: of the state, and of all others."""
    wanted = {"bucket": BUCKET, "keyPrefix": "dora/", "actions": ["upload", "read"]}
    port = int(server.object_url.rsplit(":", 1)[1])
    client = OSSCalls(port, BUCKET, minted(server, "aliyun", **wanted))
    key = f"dora/{parts}"
    upload = client.create(key)
    data = content(PART, parts)
    tag = hashlib.md5(data).hexdigest().upper()
    for number in range(1, parts + 1):
        client.part(key, upload, number, data)
    with strace.Trace(server.pid, folder / f"{parts}.strace") as trace:
        client.complete(key, upload, [(number, tag) for number in range(1, parts + 1)])
    assert hashlib.sha256(client.get(key)).digest() == hashlib.sha256(data * parts).digest()
    state, files = Counter(), Counter()
    for name, path in trace.calls:
        if path.startswith(str(server.data)):
            (state if "state" in path.removeprefix(str(server.data)) else files)[name] += 1
    return state, files


@pytest.mark.slow
def test_completing_costs_the_same_for_any_number_of_parts(tmp_path, report):
    if not strace.is_available():
        pytest.skip("no strace, or it may not trace here")
    with ObjectServer(tmp_path / "data", free_port()) as server:
        # What is done once only is done here.
        completed(server, 2, tmp_path)
        few, many = completed(server, 2, tmp_path), completed(server, 1000, tmp_path)
    report(f"calls to complete 2 parts: {dict(few[1])} and {few[0].total()} of the state")
    report(f"calls to complete 1,000 parts: {dict(many[1])} and {many[0].total()} of the state")
    assert many[1] == few[1]
    assert many[0].total() - few[0].total() < PAGES
