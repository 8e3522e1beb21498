"""Live progress: event streams, lists, edits, deletion."""

import contextlib
import json
import random
import resource
import shutil
import sqlite3
import subprocess
import threading
import time

import httpx
import httpx_sse
import pytest
import sseclient

from harness.api import API, field_problem, moment, problem, tus_patch, upload_id
from harness.data import MIB, content
from harness.events import Stream
from harness.server import run
from harness.wire import Wire, until

CREATED, COMPLETED, TERMINATED = "upload.created", "upload.completed", "upload.terminated"


def subject():
    return f"events-{time.time_ns()}"


def new(api, length=10, **fields):
    answer = api.post("/v1/tus/uploads", {"length": length} | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def create_key(server, *scopes):
    wanted = [part for scope in scopes for part in ("--scope", scope)]
    done = run("keys", "create", "--name", "events", *wanted, environment=server.environment)
    return next(word for word in done.stdout.split() if word.startswith("slk_"))


def drip(server, url, body, seconds, steps=40):
    """Sends a PATCH slowly and returns its response."""
    with Wire(server.address, timeout=60) as wire:
        wire.send(tus_patch(url, 0, len(body)))
        step = -(-len(body) // steps)
        for begin in range(0, len(body), step):
            wire.send(body[begin : begin + step])
            time.sleep(seconds / steps)
        return wire.reply("PATCH")


# What comes


def test_a_stream_delivers_new_events_in_order(server, api):
    new(api)
    with Stream(server) as stream:
        until(lambda: stream.events)
        assert stream.events[0].name == "ready" and stream.retry > 0
        begin = stream.last_id
        user = subject()
        upload = new(api, 5, subject=user, filename="a.txt")
        api.request("PATCH", f"/v1/uploads/{upload['id']}", json={"metadata": {"album": "7"}})
        assert api.patch(upload["url"], 0, b"12345").status_code == 204
        assert api.delete(f"/v1/media/{upload['id']}").status_code == 204
        names = [CREATED, "upload.updated", COMPLETED, TERMINATED]
        until(lambda: len(stream.recorded) == len(names))
        assert [name for _, name, _ in stream.recorded] == names
        assert [identifier for identifier, _, _ in stream.recorded] == list(range(begin + 1, begin + 5))
        for event in stream.events[1:]:
            assert event.json["type"] == event.name
            assert moment(event.json["time"])
            assert (event.upload["id"], event.upload["subject"]) == (upload["id"], user)
        created, updated, completed, terminated = [event for event in stream.events[1:] if event.id]
        assert (created.upload["state"], created.upload["offset"]) == ("open", 0)
        assert updated.upload["metadata"]["album"] == "7"
        assert (completed.upload["state"], completed.upload["offset"]) == ("completed", 5)
        assert terminated.upload["state"] == "terminated"


def test_progress_of_a_slow_upload(server, api):
    size = 2_000_000
    url = api.created(size)
    with Stream(server) as all_of_them, Stream(server, f"/v1/uploads/{upload_id(url)}/events") as one:
        until(lambda: one.events and all_of_them.events)
        assert drip(server, url, content(size, 3), 5).status == 204
        one.wait()
        until(lambda: all_of_them.recorded)
        assert one.ended_well
        assert [one.events[0].name, one.events[-1].name] == ["snapshot", COMPLETED]
        for stream in (one, all_of_them):
            own = [event for event in stream.progress if event.upload["id"] == upload_id(url)]
            assert len(own) >= 3, stream.events
            offsets = [event.upload["offset"] for event in own]
            assert offsets == sorted(set(offsets)) and 0 < offsets[0] and offsets[-1] <= size
            for event in own:
                assert event.id is None
                assert event.upload["length"] == size
                rate, left = event.json["bytesPerSecond"], event.json["secondsLeft"]
                # About 400,000 bytes a second; a busy machine makes it slower, nothing makes it much faster.
                assert 0 < rate < 1_500_000
                assert left == -(-(size - event.upload["offset"]) // rate)


def test_progress_of_an_upload_in_many_requests_and_without_length(server, api):
    url = api.created(None, headers={"Upload-Defer-Length": "1"})
    with Stream(server, f"/v1/uploads/{upload_id(url)}/events") as stream:
        for index in range(50):
            assert api.patch(url, index * 1000, bytes(1000)).status_code == 204
            time.sleep(0.06)
        until(lambda: stream.progress)
        assert "secondsLeft" not in stream.progress[0].json and "length" not in stream.progress[0].upload
        until(lambda: stream.progress[-1].upload["offset"] == 50_000)
        # It stalls, which is reported once.
        until(lambda: stream.progress[-1].json["bytesPerSecond"] == 0, timeout=30)


def test_a_stream_of_one_upload_begins_with_its_state_and_ends_with_it(server, api):
    upload = new(api, 10)
    other = new(api, 10)
    api.patch(upload["url"], 0, b"123")
    with Stream(server, f"/v1/uploads/{upload['id']}/events") as stream:
        until(lambda: stream.events)
        assert stream.events[0].name == "snapshot"
        assert (stream.events[0].upload["offset"], stream.events[0].upload["state"]) == (3, "open")
        api.terminate(other["url"])
        api.terminate(upload["url"])
        stream.wait()
        assert stream.ended_well
        assert stream.names("upload.progress") == ["snapshot", TERMINATED]
    # A late client sees the end at once; a client that has received it need not reconnect.
    with Stream(server, f"/v1/uploads/{upload['id']}/events") as later:
        later.wait()
        assert later.names() == ["snapshot"]
        assert later.events[0].upload["state"] == "terminated"
    assert Stream(server, f"/v1/uploads/{upload['id']}/events", last_id=stream.last_id).status == 204
    assert Stream(server, f"/v1/uploads/{upload['id']}/events", last_id=later.last_id).status == 204
    with Stream(server, f"/v1/uploads/{upload['id']}/events", last_id=stream.events[0].id) as missed:
        missed.wait()
        assert missed.names() == [TERMINATED, "snapshot"]


def test_filters(server, api):
    mine, others = subject(), subject()
    picked = new(api, subject=others)
    streams = {
        "subject": f"?subject={mine}",
        "types": f"?types={COMPLETED},{TERMINATED}",
        "upload": f"?upload={picked['id']}",
        "token": f"?upload={picked['url'].rsplit('/', 1)[1]}",
        "progress": "?types=upload.progress",
        "both": f"?subject={others}&types={TERMINATED}",
    }
    streams = {name: Stream(server, "/v1/events" + query).start() for name, query in streams.items()}
    with Stream(server) as everything:
        until(lambda: everything.events and all(stream.events for stream in streams.values()))
        first = new(api, 1, subject=mine)
        api.patch(first["url"], 0, b"x")
        api.terminate(picked["url"])
        until(lambda: len(everything.recorded) == 3)
        last = new(api, 1, subject=mine)
        api.terminate(last["url"])
        until(lambda: len(everything.recorded) == 5)
        all_events = everything.recorded

        def expect(name, wanted):
            until(lambda: len(streams[name].recorded) >= len(wanted))
            assert streams[name].recorded == wanted

        expect("subject", [event for event in all_events if event[2] != picked["id"]])
        expect("types", [event for event in all_events if event[1] != CREATED])
        expect("upload", [event for event in all_events if event[2] == picked["id"]])
        expect("token", [event for event in all_events if event[2] == picked["id"]])
        expect("both", [event for event in all_events if event[2] == picked["id"]])
        expect("progress", [])
    for stream in streams.values():
        stream.close()


# Coming back


def test_a_reconnecting_client_misses_nothing_across_restart_and_kill(make_server):
    server = make_server().start()
    whole, expected = [], []
    cursor = 0
    for round_number in range(4):
        api = API(server.url, server.admin_key)
        with Stream(server, last_id=cursor) as stream:
            for _ in range(5):
                upload = new(api, 1)
                api.patch(upload["url"], 0, b"x")
                expected += [(CREATED, upload["id"]), (COMPLETED, upload["id"])]
            # Somewhere in the middle of it.
            enough = random.Random(round_number).randint(1, 10)
            until(lambda stream=stream, enough=enough: len(stream.recorded) >= enough)
            if round_number % 2:
                server.kill()
            else:
                server.stop()
            stream.wait()
            assert stream.ended_well == (round_number % 2 == 0)
            whole += stream.recorded
            cursor = stream.last_id
        server.start()
    with Stream(server, last_id=cursor) as stream:
        until(lambda: len(whole) + len(stream.recorded) >= len(expected))
        whole += stream.recorded
    assert [(name, upload) for _, name, upload in whole] == expected
    assert [identifier for identifier, _, _ in whole] == list(range(1, len(expected) + 1))


def test_a_reconnecting_client_misses_nothing_under_load(server, api):
    """Connections that break again and again, while others create uploads."""
    with Stream(server) as first:
        until(lambda: first.events)
        cursor = begin = first.last_id
    count = 300
    worker = threading.Thread(target=lambda: [new(API(server.url, server.admin_key)) for _ in range(count)])
    worker.start()
    identifiers = []
    while not identifiers or identifiers[-1] < begin + count:
        with Stream(server, last_id=cursor) as stream:
            until(lambda stream=stream: stream.events)
            time.sleep(random.random() / 10)
            # At one moment: more arrive meanwhile.
            events = list(stream.events)
            identifiers += [event.id for event in events if event.name == CREATED]
            cursor = max([cursor, *(event.id for event in events if event.id)])
    worker.join()
    assert identifiers == list(range(begin + 1, begin + count + 1))


def test_the_query_can_have_the_last_event_id_and_the_field_takes_precedence(server, api):
    with Stream(server) as stream:
        until(lambda: stream.events)
        begin = stream.last_id
    new(api)
    new(api)
    with (
        Stream(server, f"/v1/events?lastEventId={begin}") as both,
        Stream(server, f"/v1/events?lastEventId={begin}", last_id=begin + 1) as one,
    ):
        until(lambda: len(both.recorded) == 2 and len(one.recorded) == 1)
        assert [identifier for identifier, _, _ in one.recorded] == [begin + 2]


def test_events_before_the_first_stream_are_not_kept(on_file):
    server = on_file().start()
    api = API(server.url, server.admin_key)
    new(api)
    with Stream(server, "/v1/events?lastEventId=0") as stream:
        until(lambda: stream.events)
        assert stream.events[0].name == "reset"
        begin = stream.last_id
    # Later ones are, also while no stream is open and after a crash.
    new(api)
    server.kill()
    server.start()
    new(API(server.url, server.admin_key))
    with Stream(server, f"/v1/events?lastEventId={begin}") as stream:
        until(lambda: len(stream.recorded) == 2)
        assert [name for _, name, _ in stream.recorded] == [CREATED, CREATED]
        assert [identifier for identifier, _, _ in stream.recorded] == [begin + 1, begin + 2]


def test_all_events_are_kept_if_the_operator_wants_it(on_file):
    server = on_file(environment={"SLUICE_EVENTS_KEEP_ALL": "true"}).start()
    api = API(server.url, server.admin_key)

    def keeps_all():
        with contextlib.closing(sqlite3.connect(f"file:{server.data}/state.sqlite?mode=ro", uri=True)) as state:
            return state.execute("SELECT kept_until FROM event_recording").fetchone()[0] > 0

    # Asked for just after the start.
    until(keeps_all)
    new(api)
    with Stream(server, "/v1/events?lastEventId=0") as stream:
        until(lambda: stream.recorded)
        assert stream.events[0].name == "ready"
        assert stream.recorded[0][1] == CREATED


@pytest.mark.parametrize("last_id", ["999999999", "nonsense", "-1", "1e3", "9" * 40])
@pytest.mark.parametrize("path", ["/v1/events", "/v1/uploads/{}/events"])
def test_an_unknown_last_event_id_is_reported(server, api, path, last_id):
    upload = new(api)
    with Stream(server, path.format(upload["id"]), last_id=last_id) as stream:
        until(lambda: stream.events)
        assert stream.events[0].name == "reset"
        if "uploads" in path:
            until(lambda: len(stream.events) == 2)
            assert stream.events[1].name == "snapshot"
        api.terminate(upload["url"])
        until(lambda: stream.recorded)
        assert [name for _, name, _ in stream.recorded] == [TERMINATED]
        assert stream.recorded[0][0] == stream.events[0].id + 1


# Clients of others


def test_httpx_sse(server, api):
    upload = new(api, 1)
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        httpx_sse.connect_sse(
            client, "GET", f"{server.url}/v1/uploads/{upload['id']}/events", headers=headers
        ) as source,
    ):
        names = []
        for event in source.iter_sse():
            names.append(event.event)
            assert event.json()["upload"]["id"] == upload["id"]
            if event.event == "snapshot":
                api.patch(upload["url"], 0, b"x")
        assert [name for name in names if name != "upload.progress"] == ["snapshot", COMPLETED]


def test_sseclient(server, api):
    upload = new(api, 1)
    answer = api.get(f"/v1/uploads/{upload['id']}/events", stream=True)
    names = []
    for event in sseclient.SSEClient(answer).events():
        names.append(event.event)
        if event.event == "snapshot":
            assert event.retry
            api.terminate(upload["url"])
    assert [name for name in names if name != "upload.progress"] == ["snapshot", TERMINATED]


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("version", ["--http1.1", "--http1.0"])
def test_curl(server, api, version):
    upload = new(api, 1)
    token = upload["url"].rsplit("/", 1)[1]
    command = ["curl", "-sSN", version, "--noproxy", "*", f"{server.url}/v1/uploads/{token}/events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("retry: ")
        assert process.stdout.readline().startswith("id: ")
        assert process.stdout.readline() == "event: snapshot\n"
        api.patch(upload["url"], 0, b"x")
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert f"event: {COMPLETED}\n" in rest


# Who may


def test_who_can_follow_events(server, api):
    upload = new(api)
    token = upload["url"].rsplit("/", 1)[1]
    weak, reader = create_key(server, "mint", "upload"), create_key(server, "read")
    for path in ("/v1/events", f"/v1/uploads/{upload['id']}/events"):
        problem(api.get(path, key=None), 401, "unauthenticated")
        problem(api.get(path, key="slk_unknown"), 401, "unauthenticated")
        problem(api.get(path, key=weak), 403, "forbidden")
        with Stream(server, path, key=reader) as stream:
            assert stream.status == 200
    with Stream(server, f"/v1/uploads/{token}/events", key=None) as stream:
        until(lambda: stream.events)
        assert stream.events[0].upload["id"] == upload["id"]
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    problem(api.get(f"/v1/uploads/{forged}/events", key=None), 401, "unauthenticated")
    problem(api.get(f"/v1/uploads/{forged}/events"), 404, "not_found")
    # The URL gives access only to the events of this upload.
    problem(api.get(f"/v1/uploads/{token}", key=None), 401, "unauthenticated")
    problem(api.get("/v1/events", key=None, params={"upload": token}), 401, "unauthenticated")


def test_pages_of_other_origins_can_follow_events(server, api):
    upload = new(api)
    token = upload["url"].rsplit("/", 1)[1]
    origin = ("Origin", "https://app.example")
    with Stream(server, f"/v1/uploads/{token}/events", key=None, fields=[origin]) as stream:
        assert stream.head["access-control-allow-origin"] == "*"
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "last-event-id",
    }
    answer = api.request("OPTIONS", f"/v1/uploads/{token}/events", key=None, headers=asked)
    assert answer.status_code == 204
    assert "last-event-id" in answer.headers["Access-Control-Allow-Headers"].lower()


def test_a_revoked_key_ends_its_streams(make_server):
    server = make_server().start()
    secret = create_key(server, "read")
    with Stream(server, key=secret) as stream:
        until(lambda: stream.events)
        listed = run("keys", "list", environment=server.environment).stdout
        identifier = next(line for line in listed.splitlines() if "events" in line).split()[0]
        run("keys", "revoke", identifier, environment=server.environment)
        # Checked every 15 seconds.
        stream.wait(60)
        assert stream.ended_well


@pytest.mark.parametrize("by", ["rest", "command"])
def test_a_rotated_key_ends_the_streams_of_its_former_secret(make_server, by):
    """At the end of the overlap, if there is one."""
    server = make_server().start()
    api = API(server.url, server.admin_key)
    made = api.post("/v1/keys", {"name": "events", "scopes": ["read"]}).json()

    def rotate(overlap):
        if by == "rest":
            return api.post(f"/v1/keys/{made['id']}/rotations", {"overlap": overlap}).json()["secret"]
        arguments = ["--overlap", f"{overlap}s"] if overlap else []
        text = run("keys", "rotate", made["id"], *arguments, environment=server.environment).stdout
        return text.partition("API key: ")[2].split()[0]

    with Stream(server, key=made["secret"]) as former:
        until(lambda: former.events)
        second = rotate(0)
        former.wait(60)
        assert former.ended_well
    with Stream(server, key=second) as former:
        until(lambda: former.events)
        third = rotate(3)
        begin = time.monotonic()
        with Stream(server, key=third) as stream:
            until(lambda: stream.events)
            former.wait(60)
            assert former.ended_well and time.monotonic() - begin > 2
            count = len(stream.events)
            api.created(1)
            until(lambda: len(stream.events) > count)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("types=upload.unknown", "types"),
        ("types=", "types"),
        ("types=upload.created,", "types"),
        ("lastEventId=x", "lastEventId"),
        ("lastEventId=", "lastEventId"),
        ("lastEventId=-1", "lastEventId"),
        ("unknown=1", "unknown"),
        ("subject=a&subject=b", "subject"),
    ],
)
def test_an_invalid_query(api, query, field):
    field_problem(api.get(f"/v1/events?{query}"), field)


def test_events_of_a_missing_upload(api):
    problem(api.get("/v1/events", params={"upload": "0" * 26}), 404, "not_found")
    problem(api.get(f"/v1/uploads/{'0' * 26}/events"), 404, "not_found")


def test_head_has_no_stream(server, key):
    with Wire(server.address) as wire:
        answer = wire.exchange("HEAD", "/v1/events", [key])
        assert (answer.status, answer["content-type"]) == (200, "text/event-stream")
        assert wire.exchange("GET", "/healthz").status == 200


# Many, slow, gone


def test_a_stream_asks_proxies_not_to_buffer_it(server):
    """nginx honours it; docs/operations.md, "Behind a proxy"."""
    with Stream(server) as stream:
        assert stream.head["x-accel-buffering"] == "no"


def test_a_stream_by_tls(make_server, certificate):
    server = make_server(environment=certificate.settings).start()
    api = API(server.url, server.admin_key, verify=str(certificate.path))
    upload = new(api, 1)
    path = f"/v1/uploads/{upload['id']}/events"
    with Stream(server, path, context=certificate.context()) as stream:
        until(lambda: stream.events)
        before = connections(api)
        gone = [Stream(server, context=certificate.context()).start() for _ in range(5)]
        until(lambda: all(one.events for one in gone))
        for one in gone:
            one.close()
        until(lambda: connections(api) <= before, timeout=10)
        api.patch(upload["url"], 0, b"x")
        stream.wait()
        assert stream.ended_well
        assert stream.names("upload.progress") == ["snapshot", COMPLETED]


def connections(api):
    for line in api.get("/metrics").text.splitlines():
        if line.startswith("sluice_http_connections "):
            return float(line.split()[1])
    raise AssertionError("no such metric")


def test_a_client_that_disconnects_is_detected_at_once(server, api):
    before = connections(api)
    streams = [Stream(server).start() for _ in range(20)]
    until(lambda: all(stream.events for stream in streams))
    assert connections(api) >= before + 20
    for stream in streams:
        stream.close()
    # Much sooner than a line every 15 seconds would tell.
    until(lambda: connections(api) <= before, timeout=10)


def test_many_listeners_get_everything_and_cost_little(make_server, report):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    server = make_server().start()
    api = API(server.url, server.admin_key)
    new(api)
    before, count, uploads = server.peak_memory(), 200, 50
    streams = [Stream(server).start() for _ in range(count)]
    until(lambda: all(stream.events for stream in streams), timeout=60)
    idle = server.cpu_seconds()
    time.sleep(3)
    idle = server.cpu_seconds() - idle
    busy = server.cpu_seconds()
    for _ in range(uploads):
        new(api)
    until(lambda: all(len(stream.recorded) == uploads for stream in streams), timeout=60)
    busy = server.cpu_seconds() - busy
    assert all(stream.recorded == streams[0].recorded for stream in streams)
    grown = server.peak_memory() - before
    report(
        f"{count} listeners: {idle / 3 * 100:.1f} % of a core idle, "
        f"{busy * 1e6 / count / uploads:.0f} us for each event and listener, {grown / count / 1024:.0f} KiB each"
    )
    assert grown < 32 * MIB
    for stream in streams:
        stream.close()


def test_slow_readers_cost_no_memory_and_miss_nothing(make_server, quick, report):
    """They read nothing while more events occur than any buffer can hold; then they get all of them."""
    server = make_server(environment={"SLUICE_TIMEOUTS_WRITE": "120s"}).start()
    api = API(server.url, server.admin_key)
    metadata = {"note": "x" * 4000}
    upload = new(api, 5, metadata=metadata)
    slow = [Stream(server, buffer=65536) for _ in range(20)]
    count = 1500 if quick else 2500
    before = server.peak_memory()

    def edit(begin):
        own = API(server.url, server.admin_key)
        for number in range(begin, count, 4):
            answer = own.request(
                "PATCH", f"/v1/uploads/{upload['id']}", json={"metadata": {"note": f"{number:05}" + "y" * 3900}}
            )
            assert answer.status_code == 200, answer.text

    with Stream(server) as fast:
        until(lambda: fast.events)
        workers = [threading.Thread(target=edit, args=(begin,)) for begin in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        until(lambda: len(fast.recorded) == count, timeout=60)
        for one in slow:
            one.start()
        until(lambda: all(len(one.events) > count for one in slow), timeout=120)
        assert all(one.recorded == fast.recorded for one in slow)
    grown = server.peak_memory() - before
    # A queue for each would take 120 MB, or 200.
    report(f"{len(slow)} slow listeners, {count} events of 4 KB: {grown / MIB:.0f} MiB")
    assert grown < 64 * MIB
    for one in slow:
        one.close()


def test_a_reader_that_reads_nothing_is_disconnected(make_server):
    server = make_server(environment={"SLUICE_TIMEOUTS_WRITE": "1s"}).start()
    api = API(server.url, server.admin_key)
    upload = new(api, 5)
    before = connections(api)
    stuck = Stream(server, buffer=4096)
    number = 0

    def is_given_up():
        nonlocal number
        for _ in range(100):
            number += 1
            body = {"metadata": {"note": f"{number:08}" + "z" * 3900}}
            assert api.request("PATCH", f"/v1/uploads/{upload['id']}", json=body).status_code == 200
        return connections(api) <= before

    until(is_given_up, timeout=120)
    stuck.close()


def test_shutdown_does_not_wait_for_streams(make_server):
    server = make_server(environment={"SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "300s"}).start()
    api = API(server.url, server.admin_key)
    upload = new(api)
    streams = [Stream(server).start() for _ in range(20)]
    streams += [Stream(server, f"/v1/uploads/{upload['id']}/events").start() for _ in range(20)]
    until(lambda: all(stream.events for stream in streams))
    # Within 30 seconds; the grace time is ten times that.
    server.stop()
    for stream in streams:
        stream.wait()
        assert stream.ended_well


def test_silence_is_broken(server):
    with Stream(server, "/v1/events?subject=nobody") as stream:
        until(lambda: stream.comments, timeout=60)
        assert stream.names() == ["ready"]


def test_the_next_request_of_the_connection_is_served_after_the_stream(server, api):
    upload = new(api)
    with Wire(server.address) as wire:
        wire.request("GET", f"/v1/uploads/{upload['id']}/events", [("Authorization", f"Bearer {server.admin_key}")])
        assert wire.interim().status == 200
        wire.request("GET", "/healthz")
        time.sleep(0.2)
        api.terminate(upload["url"])
        assert f"event: {TERMINATED}".encode() in wire._chunks()
        wire._fields()
        assert json.loads(wire.reply().body)["status"]


# Lists


def test_uploads_are_filtered_by_key_protocol_and_time(server, api):
    user = subject()
    other = API(server.url, create_key(server, "upload"))
    first = new(api, 1, subject=user)
    second = new(other, 1, subject=user)
    own = api.request("PUT", "/v1/media/a.txt", data=b"abc", key=other.key).json()

    def listed(**query):
        page = api.get("/v1/uploads", params=query)
        assert page.status_code == 200, page.text
        return [upload["id"] for upload in page.json()["uploads"]]

    assert listed(subject=user) == [second["id"], first["id"]]
    assert listed(subject=user, key=second["issuer"]) == [second["id"]]
    assert listed(key=second["issuer"]) == [own["id"], second["id"]]
    assert listed(key=second["issuer"], dialect="tus") == [second["id"]]
    assert listed(key=second["issuer"], state="completed,expired") == [own["id"]]
    assert listed(key="key_unknown") == [] and listed(dialect="unknown") == []
    assert listed(subject=user, createdAfter=second["createdAt"]) == [second["id"]]
    assert listed(subject=user, createdBefore=second["createdAt"]) == [first["id"]]
    assert listed(subject=user, createdAfter="2999-01-01T00:00:00Z") == []
    whole = api.upload(second["id"])
    assert whole["issuer"] == whole["principal"] and "alias" not in whole


# Edits


def edit(api, path, **options):
    return api.request("PATCH", path, **options)


def test_metadata_are_edited_as_by_a_merge_patch(api):
    identifier = api.uploaded(b"abc", metadata={"filename": "a.txt", "filetype": "text/plain", "note": "n", "old": "o"})
    answer = edit(api, f"/v1/uploads/{identifier}", json={"metadata": {"old": None, "new": "ü"}, "filename": "b.txt"})
    assert answer.status_code == 200, answer.text
    wanted = {"filename": "b.txt", "filetype": "text/plain", "note": "n", "new": "ü"}
    assert answer.json()["metadata"] == wanted
    media = api.get(f"/v1/media/{identifier}").json()
    assert (media["metadata"], media["filename"], media["contentType"]) == (wanted, "b.txt", "text/plain")
    answer = edit(
        api,
        f"/v1/media/{identifier}",
        data=json.dumps({"filename": None, "contentType": "video/mp4"}),
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200
    assert "filename" not in answer.json() and answer.json()["contentType"] == "video/mp4"
    assert api.get(f"/media/{identifier}").headers["Content-Type"] == "video/mp4"
    assert edit(api, f"/v1/media/{identifier}", json={}).json() == answer.json()


def test_metadata_are_edited_while_bytes_arrive(server, api):
    url = api.created(1000, metadata={"filename": "a"})
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 1000) + bytes(400))
        until(lambda: api.upload(upload_id(url))["offset"] == 400)
        assert edit(api, f"/v1/uploads/{upload_id(url)}", json={"filename": "b"}).status_code == 200
        wire.send(bytes(600))
        assert wire.reply("PATCH").status == 204
    assert api.get(f"/v1/media/{upload_id(url)}").json()["filename"] == "b"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filename": 1}, "filename"),
        ({"filename": "x" * 1025}, "filename"),
        ({"contentType": "nonsense"}, "contentType"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a b": "x"}}, "metadata"),
        ({"metadata": {"a": "x" * 5000}}, "metadata"),
        ({"length": 1}, "length"),
    ],
)
def test_an_invalid_edit(api, media, body, field):
    for kind in ("uploads", "media"):
        field_problem(edit(api, f"/v1/{kind}/{media}", json=body), field)


def test_edits_and_deletions_need_a_scope_and_existing_media(server, api):
    reader = create_key(server, "read")
    identifier = api.uploaded(b"abc")
    for kind in ("uploads", "media"):
        problem(edit(api, f"/v1/{kind}/{identifier}", json={}, key=reader), 403, "forbidden")
        problem(api.delete(f"/v1/{kind}/{identifier}", key=reader), 403, "forbidden")
    unfinished = new(api)["id"]
    problem(edit(api, f"/v1/media/{unfinished}", json={"filename": "x"}), 404, "not_found")
    problem(api.delete(f"/v1/media/{unfinished}"), 404, "not_found")
    assert api.upload(unfinished)["state"] == "open"


def test_conditions_of_edits_and_deletions(server, api):
    identifier = api.uploaded(b"abc")
    tag = api.get(f"/v1/media/{identifier}").json()["etag"]
    wrong = {"If-Match": '"another"'}
    problem(edit(api, f"/v1/media/{identifier}", json={"filename": "x"}, headers=wrong), 412, "precondition_failed")
    problem(api.delete(f"/v1/media/{identifier}", headers=wrong), 412, "precondition_failed")
    right = {"If-Match": tag}
    assert edit(api, f"/v1/media/{identifier}", json={"filename": "x"}, headers=right).json()["filename"] == "x"
    assert api.delete(f"/v1/media/{identifier}", headers=right).status_code == 204
    assert server.stored_files(identifier) == []
    assert api.upload(identifier)["state"] == "terminated"
    problem(api.delete(f"/v1/media/{identifier}"), 410, "gone")
    problem(edit(api, f"/v1/media/{identifier}", json={"filename": "y"}), 410, "gone")
    problem(edit(api, f"/v1/uploads/{identifier}", json={"filename": "y"}), 410, "gone")


def test_deleting_an_upload_interrupts_its_writer(server, api):
    url = api.created(100_000)
    with Stream(server, f"/v1/uploads/{upload_id(url)}/events") as stream, Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 100_000) + bytes(40_000))
        until(lambda: api.upload(upload_id(url))["offset"] == 40_000)
        assert api.delete(f"/v1/uploads/{upload_id(url)}").status_code == 204
        answer = wire.reply("PATCH")
        assert answer.status in (404, 410, 423), answer
        assert wire.is_closed()
        stream.wait()
        assert stream.names("upload.progress") == ["snapshot", TERMINATED]
    assert server.stored_files(upload_id(url)) == []
