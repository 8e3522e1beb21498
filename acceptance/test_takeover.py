"""A newer request for an upload takes over from a stalled one, whose bytes are kept."""

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.api import OFFSET_TYPE, TUS, checksum, path_of, upload_id
from harness.data import KIB, content, sha256
from harness.wire import Closed, Wire, until

TRIES = 10
# Functional ceiling; the figures that matter are reported.
CEILING = 5


def patch_fields(offset, length):
    return [*TUS.items(), ("Upload-Offset", offset), ("Content-Type", OFFSET_TYPE), ("Content-Length", length)]


def stalled_patch(server, api, data, count, offset=0):
    """An upload, and a connection whose PATCH has sent `count` bytes of `data` and stalls."""
    url = api.created(len(data))
    wire = Wire(server.address)
    wire.request("PATCH", path_of(url), patch_fields(offset, len(data)))
    wire.send(data[:count])
    # Reading by REST does not interrupt the writer.
    until(lambda: api.upload(upload_id(url))["offset"] == count)
    return url, wire


def assert_ended_with_an_error(wire):
    """The older request got an error that says why, or its connection was closed."""
    try:
        answer = wire.reply("PATCH")
    except Closed:
        return "closed"
    assert answer.status == 423, answer
    assert answer.body.startswith(b"ERR_UPLOAD_INTERRUPTED: "), answer
    # There must be no offset, because some clients use it as the result of their PATCH.
    assert answer["upload-offset"] is None
    return str(answer.status)


def figures(seconds):
    return ", ".join(f"{value * 1000:.1f}" for value in seconds)


def test_head_takes_over(server, api, report):
    seconds, ends = [], set()
    for attempt in range(TRIES):
        data = content(256 * KIB, attempt)
        count = 1000 * (attempt + 1)
        url, stalled = stalled_patch(server, api, data, count)
        with stalled, Wire(server.address) as second:
            begin = time.perf_counter()
            answer = second.exchange("HEAD", path_of(url), TUS.items())
            seconds.append(time.perf_counter() - begin)
            assert answer.status in (200, 204)
            assert answer["upload-offset"] == str(count)
            ends.add(assert_ended_with_an_error(stalled))
        assert api.patch(url, count, data[count:]).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
    report(f"HEAD beside a stalled PATCH, ms: {figures(seconds)}; the older one: {', '.join(sorted(ends))}")
    assert max(seconds) < CEILING


def test_patch_takes_over(server, api, report):
    seconds, ends = [], set()
    for attempt in range(TRIES):
        data = content(256 * KIB, attempt)
        count = 1000 * (attempt + 1)
        url, stalled = stalled_patch(server, api, data, count)
        with stalled, Wire(server.address) as second:
            begin = time.perf_counter()
            answer = second.exchange("PATCH", path_of(url), patch_fields(count, len(data) - count), data[count:])
            seconds.append(time.perf_counter() - begin)
            assert answer.status == 204, answer
            assert answer["upload-offset"] == str(len(data))
            ends.add(assert_ended_with_an_error(stalled))
        assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
    report(f"PATCH beside a stalled PATCH, ms: {figures(seconds)}; the older one: {', '.join(sorted(ends))}")
    assert max(seconds) < CEILING


def test_delete_takes_over(server, api):
    url, stalled = stalled_patch(server, api, content(64 * KIB, 1), 1000)
    with stalled, Wire(server.address) as second:
        assert second.exchange("DELETE", path_of(url), TUS.items()).status == 204
        assert_ended_with_an_error(stalled)
    assert api.upload(upload_id(url))["state"] == "terminated"
    assert server.stored_files(upload_id(url)) == []


def test_a_patch_at_the_wrong_offset_leaves_the_bytes(server, api):
    url, stalled = stalled_patch(server, api, content(64 * KIB, 1), 1000)
    with stalled, Wire(server.address) as second:
        answer = second.exchange("PATCH", path_of(url), patch_fields(0, 3), b"abc")
        assert answer.status == 409
        assert answer["upload-offset"] == "1000"
    assert api.offset(url) == 1000


def test_a_stalled_patch_with_a_checksum_loses_its_bytes(server, api):
    data = content(64 * KIB, 1)
    url = api.created(len(data))
    with Wire(server.address) as stalled, Wire(server.address) as second:
        fields = patch_fields(0, len(data)) + list(checksum("sha1", hashlib.sha1(data).digest()).items())
        stalled.request("PATCH", path_of(url), fields)
        stalled.send(data[:1000])
        time.sleep(0.2)
        assert second.exchange("HEAD", path_of(url), TUS.items())["upload-offset"] == "0"
        assert_ended_with_an_error(stalled)
    assert api.patch(url, 0, data).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_a_chain_of_takeovers(server, api):
    """Each of many PATCHes stalls and is taken over by the next."""
    data = content(256 * KIB, 7)
    url = api.created(len(data))
    wires = []
    step = 10_000
    for offset in range(0, 200_000, step):
        wire = Wire(server.address)
        wire.request("PATCH", path_of(url), patch_fields(offset, len(data) - offset))
        wire.send(data[offset : offset + step])
        until(lambda offset=offset: api.upload(upload_id(url))["offset"] == offset + step)
        wires.append(wire)
    assert api.patch(url, 200_000, data[200_000:]).status_code == 204
    for wire in wires:
        assert_ended_with_an_error(wire)
        wire.close()
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


@pytest.mark.parametrize("requests", [20])
def test_many_heads_at_once(server, api, requests):
    """Many concurrent requests: each gets a response with the received bytes."""
    url, stalled = stalled_patch(server, api, content(64 * KIB, 1), 5000)
    with stalled:
        wires = [Wire(server.address) for _ in range(requests)]
        for wire in wires:
            wire.request("HEAD", path_of(url), TUS.items())
        for wire in wires:
            assert wire.reply("HEAD")["upload-offset"] == "5000"
            wire.close()


@pytest.mark.parametrize("clients", [16])
def test_of_many_at_the_same_offset_one_finishes(server, api, clients, report):
    """A request at the same offset does not interrupt the running one."""
    ends = set()
    for attempt in range(TRIES):
        data = content(256 * KIB, attempt)
        url = api.created(len(data))
        path = path_of(url)
        wires = [Wire(server.address) for _ in range(clients)]

        def patch(wire, path=path, data=data):
            try:
                wire.request("PATCH", path, patch_fields(0, len(data)))
                for start in range(0, len(data), 16 * KIB):
                    wire.send(data[start : start + 16 * KIB])
                return wire.reply("PATCH").status
            except (Closed, OSError):
                return "closed"
            finally:
                wire.close()

        with ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(patch, wires))
        ends.update(map(str, answers))
        assert answers.count(204) == 1, answers
        assert api.download_hash(upload_id(url)) == (sha256(data), len(data))
    report(f"{clients} PATCHes at offset 0: {', '.join(sorted(ends))}")
