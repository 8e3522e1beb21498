"""Traces: spans that a collector of OpenTelemetry understands, and their relations across services."""

import base64
import json
import threading

import pytest
from test_service import metrics

from harness.api import API, OFFSET_TYPE, TUS, upload_id
from harness.collector import Collector
from harness.daemon import free_port
from harness.data import content
from harness.object_client import BUCKET, ObjectServer
from harness.origin import Origin, Resource
from harness.postgres import IS_WANTED
from harness.receiver import Receiver
from harness.wire import until

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
SERVER, CLIENT, WORK = 2, 3, 1
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def parent(flags="01", trace=TRACE):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}", "tracestate": "vendor=a"}


@pytest.fixture
def collector():
    with Collector() as one:
        yield one


@pytest.fixture
def traced(make_server, collector):
    """A gateway that exports to the collector; called with further settings."""

    def start(**environment):
        settings = {"SLUICE_TRACING_ENDPOINT": collector.url, "SLUICE_TRACING_SAMPLE_RATIO": "1"}
        server = make_server(environment=settings | environment).start()
        return server, API(server.url, server.admin_key)

    return start


def sample(api, name):
    return sum(value for (key, _), value in metrics(api).items() if key == name)


def test_a_request_is_a_span_of_the_clients_trace(traced, collector):
    server, api = traced()
    url = api.created(3)
    answer = api.patch(url, 0, b"abc", headers=parent())
    assert answer.status_code == 204
    (span,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
    assert (span.parent, span.kind, span.state) == (PARENT, SERVER, "vendor=a")
    assert span.name == "PATCH /files/{upload}" and not span.is_error
    attributes = span.attributes
    assert attributes["http.request.method"] == "PATCH" and attributes["http.response.status_code"] == 204
    assert attributes["http.route"] == "/files/{upload}" and attributes["url.scheme"] == "http"
    assert attributes["client.address"] == "127.0.0.1" and attributes["http.request.body.size"] == 3
    assert attributes["sluice.upload.id"] == upload_id(url)
    assert attributes["sluice.request.id"] == answer.headers["X-Request-ID"]
    assert span.resource["service.name"] == "sluice" and span.resource["service.version"]
    lines = [json.loads(line) for line in server.whole_log().splitlines() if line.startswith("{")]
    (line,) = [one for one in lines if one.get("request") == answer.headers["X-Request-ID"]]
    assert line["trace_id"] == TRACE and line["upload"] == upload_id(url)
    (line,) = [one for one in lines if one["message"] == "upload completed"]
    assert line["trace_id"] == TRACE


OPEN = "application/openmetrics-text;version=1.0.0"


def test_metrics_have_exemplars_for_clients_that_want_them(traced, make_server):
    server, api = traced()
    url = api.created(3)
    assert api.patch(url, 0, b"abc", headers=parent()).status_code == 204
    # What is not sampled is none.
    assert api.get("/v1/uploads", headers=parent("00", "1" * 32)).status_code == 200
    text = f"{OPEN};q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    answer = api.get("/metrics", headers={"Accept": text})
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    lines = answer.text.splitlines()
    assert lines[-1] == "# EOF" and "# TYPE sluice_http_requests counter" in lines
    (line,) = [line for line in lines if f'trace_id="{TRACE}"' in line]
    assert line.startswith('sluice_http_request_duration_seconds_bucket{route="/files/{upload}",le="')
    assert "1" * 32 not in answer.text
    for accept in ("*/*", "text/plain", f"{OPEN};q=0.1, text/plain;q=0.2"):
        answer = api.get("/metrics", headers={"Accept": accept})
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert TRACE not in answer.text and "# EOF" not in answer.text
    # Without traces there is nothing to add.
    other = make_server("untraced").start()
    answer = API(other.url, other.admin_key).get("/metrics", headers={"Accept": text})
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_a_request_without_a_parent_begins_a_trace(traced, collector):
    _, api = traced()
    assert api.get("/v1/uploads").ok
    assert api.get("/v1/uploads", headers={"traceparent": "00-" + "0" * 32 + f"-{PARENT}-01"}).ok
    spans = until(lambda: len(found := collector.find(http__route="/v1/uploads")) == 2 and found)
    assert [span.parent for span in spans] == ["", ""] and len({span.trace for span in spans}) == 2


def test_a_parent_that_is_not_sampled_makes_no_span(traced, collector):
    with Receiver(SECRET) as receiver:
        _, api = traced(SLUICE_HOOKS_URL=receiver.url, SLUICE_HOOKS_SECRET=SECRET, SLUICE_HOOKS_EVENTS="pre-create")
        assert api.create(1, headers=parent("00")).status_code == 201
        assert api.create(1, headers=parent(trace="1" * 32)).status_code == 201
        until(lambda: collector.find(trace="1" * 32, kind=SERVER))
        assert collector.find(trace=TRACE) == []
        # The decision is passed on.
        assert receiver.calls[0].fields["traceparent"].startswith(f"00-{TRACE}-")
        assert receiver.calls[0].fields["traceparent"].endswith("-00")


def test_a_ratio_of_zero_samples_only_what_clients_ask_for(traced, collector):
    _, api = traced(SLUICE_TRACING_SAMPLE_RATIO="0")
    for _ in range(20):
        assert api.get("/v1/uploads").ok
    assert api.get("/v1/uploads", headers=parent()).ok
    until(lambda: collector.find(trace=TRACE))
    assert {span.trace for span in collector.received} == {TRACE}


def test_hooks_continue_the_trace(traced, collector):
    with Receiver(SECRET) as receiver:
        events = "pre-create, post-finish"
        _, api = traced(SLUICE_HOOKS_URL=receiver.url, SLUICE_HOOKS_SECRET=SECRET, SLUICE_HOOKS_EVENTS=events)
        headers = {**parent(), "Upload-Length": "3", "Content-Type": OFFSET_TYPE, **TUS}
        assert api.request("POST", "/files", data=b"abc", headers=headers).status_code == 201
        until(lambda: len(receiver.calls) == 2)
        (server,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
        (delivery,) = until(lambda: collector.find(trace=TRACE, name="deliver completed"))
        calls = until(lambda: len(found := collector.find(trace=TRACE, kind=CLIENT)) == 2 and found)
        assert delivery.parent == server.id and delivery.kind == WORK
        assert {call.parent for call in calls} == {server.id, delivery.id}
        assert {call.name for call in calls} == {"POST hook"}
        assert all(call.attributes["server.port"] == receiver.port for call in calls)
        # What the receiver got names the span of the call.
        received = {call.fields["traceparent"] for call in receiver.calls}
        assert received == {f"00-{TRACE}-{call.id}-01" for call in calls}


def test_a_failed_call_is_an_error(traced, collector):
    port = free_port()
    settings = {"URL": f"http://127.0.0.1:{port}", "SECRET": SECRET, "EVENTS": "pre-create", "TIMEOUT": "200ms"}
    _, api = traced(**{f"SLUICE_HOOKS_{name}": value for name, value in settings.items()})
    assert api.create(1, headers=parent()).status_code == 503
    (server,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
    assert server.is_error and server.attributes["error.type"] == "ERR_UNAVAILABLE"
    calls = collector.find(trace=TRACE, kind=CLIENT)
    assert calls and all(call.is_error for call in calls)
    assert calls[0].attributes["error.type"] == "unreachable"


def test_pulls_are_traces_of_their_own(traced, collector):
    with Origin() as origin:
        _, api = traced(SLUICE_PULL_ALLOW="127.0.0.1")
        origin.resources["/a"] = Resource(content(1000, 1))
        answer = api.post("/v1/media/pull", json={"url": origin.url + "/a?token=secret-of-the-origin"})
        until(lambda: api.upload(answer.json()["id"])["state"] == "completed")
        (pull,) = until(lambda: collector.find(name="pull"))
        assert pull.attributes["sluice.upload.id"] == answer.json()["id"]
        (fetch,) = collector.find(name="GET pull")
        assert (fetch.trace, fetch.parent, fetch.kind) == (pull.trace, pull.id, CLIENT)
        sent = dict(origin.resources["/a"].requests[0].items())
        assert sent["traceparent"] == f"00-{fetch.trace}-{fetch.id}-01"
        assert b"secret-of-the-origin" not in collector.bytes


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        pytest.param("sqlite", WORK, marks=pytest.mark.skipif(IS_WANTED, reason="the state of this run is PostgreSQL")),
        ("postgresql", CLIENT),
    ],
)
def test_operations_of_the_state_are_children(traced, collector, postgres, tmp_path, backend, kind):
    _, api = traced(**(postgres.environment(tmp_path) if backend == "postgresql" else {}))
    url = api.created(3)
    assert api.patch(url, 0, b"abc", headers=parent()).status_code == 204
    (server,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
    writes = until(lambda: collector.find(trace=TRACE, name="state write"))
    assert all((span.parent, span.kind) == (server.id, kind) for span in writes)
    assert all(span.attributes["db.system.name"] == backend and not span.is_error for span in writes)
    assert server.start <= writes[0].start <= writes[0].end <= server.end


def test_requests_to_the_store_are_children(make_relay, collector):
    relay = make_relay(SLUICE_TRACING_ENDPOINT=collector.url, SLUICE_TRACING_SAMPLE_RATIO="0")
    headers = {**parent(), "Upload-Length": "3", "Content-Type": OFFSET_TYPE, **TUS}
    assert relay.api.request("POST", "/files", data=b"abc", headers=headers).status_code == 201
    (server,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
    puts = collector.find(trace=TRACE, name="PUT store")
    assert puts and all(put.parent == server.id and put.kind == CLIENT for put in puts)
    assert all(put.attributes["http.response.status_code"] == 200 for put in puts)


def test_no_credential_is_exported(tmp_path, collector):
    settings = {
        "SLUICE_TRACING_ENDPOINT": collector.url,
        "SLUICE_TRACING_SAMPLE_RATIO": "1",
        "SLUICE_TRACING_HEADERS": "x-collector-key=a%20b",
    }
    with ObjectServer(tmp_path / "gateway", free_port(), settings) as server:
        api = API(server.url, server.admin_key)
        token = api.post("/v1/tus/tokens", {"subject": "u"}).json()["token"]
        url = api.created(3, key=token)
        assert api.patch(url, 0, b"abc").status_code == 204
        link = api.post(f"/v1/media/{upload_id(url)}/links", {}).json()["url"]
        assert api.get(link, key=None).ok
        assert api.get("/v1/uploads", key="slk_wrong_secret").status_code == 401
        presigned = server.client().generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": "k"})
        assert api.request("PUT", presigned, data=b"x", key=None).ok
        until(lambda: collector.find(http__request__method="PUT"))
        assert "a b" not in server.whole_log()
    secrets = [
        server.admin_key,
        token,
        url.rsplit(".", 1)[1],
        link.rsplit("signature=", 1)[1].split("&")[0],
        presigned.rsplit("Signature=", 1)[1].split("&")[0],
        "slk_wrong_secret",
    ]
    assert len(collector.received) >= 6
    assert [secret for secret in secrets if secret.encode() in collector.bytes] == []
    assert {fields["x-collector-key"] for fields in collector.fields} == {"a b"}


def test_what_waits_is_exported_at_the_end(traced, collector):
    server, api = traced()
    arrived, gate = threading.Event(), threading.Event()

    def reply():
        arrived.set()
        return gate.wait(30) and 200

    collector.reply = reply
    assert api.get("/v1/uploads", headers=parent()).ok
    # Not by the metric: asking for it makes spans, too.
    assert arrived.wait(60)
    assert api.get("/v1/uploads", headers=parent(trace="1" * 32)).ok
    gate.set()
    server.stop()
    assert collector.find(trace="1" * 32)


def test_a_collector_that_is_away_disturbs_no_request(make_server):
    port = free_port()
    environment = {"SLUICE_TRACING_ENDPOINT": f"http://127.0.0.1:{port}", "SLUICE_TRACING_SAMPLE_RATIO": "1"}
    server = make_server(environment=environment).start()
    api = API(server.url, server.admin_key)
    for _ in range(20):
        assert api.get("/v1/uploads", headers=parent()).ok
    assert sample(api, "sluice_trace_spans_exported_total") == 0
    # It comes, and gets what waited.
    with Collector(port) as collector:
        until(lambda: len(collector.find(trace=TRACE, kind=SERVER)) == 20, 60)
    assert sample(api, "sluice_trace_spans_dropped_total") == 0


def test_what_a_collector_refuses_is_counted(traced, collector):
    server, api = traced()
    collector.reply = 400
    assert api.get("/v1/uploads").ok
    until(lambda: sample(api, "sluice_trace_spans_dropped_total") >= 1)
    assert "spans were not exported" in server.whole_log()
    collector.reply, collector.body = 200, {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}
    dropped = sample(api, "sluice_trace_spans_dropped_total")
    assert api.get("/v1/uploads").ok
    until(lambda: sample(api, "sluice_trace_spans_dropped_total") > dropped)


def test_a_collector_that_stays_away_loses_spans_and_they_are_counted(traced, collector):
    server, api = traced()
    collector.reply = 503
    assert api.get("/v1/uploads", headers=parent()).ok
    # Four pauses of 1 to 8 seconds lie between five attempts.
    until(lambda: sample(api, "sluice_trace_spans_dropped_total") >= 1, 60)
    assert "the collector responded with status 503" in server.whole_log()
    collector.reply = 200
    assert api.get("/v1/uploads", headers=parent(trace="1" * 32)).ok
    until(lambda: collector.find(trace="1" * 32, kind=SERVER))
    assert collector.find(trace=TRACE) == []


def test_variables_of_opentelemetry(make_server, collector):
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=b",
        "OTEL_SERVICE_NAME": "uploads",
    }
    server = make_server(environment=environment).start()
    api = API(server.url, server.admin_key)
    assert api.get("/v1/uploads", headers=parent()).ok
    (span,) = until(lambda: collector.find(trace=TRACE, kind=SERVER))
    assert span.resource["service.name"] == "uploads" and collector.fields[0]["x-tenant"] == "b"


def test_without_a_collector_nothing_is_passed_on(make_server):
    with Receiver(SECRET) as receiver:
        settings = {"URL": receiver.url, "SECRET": SECRET, "EVENTS": "pre-create"}
        server = make_server(environment={f"SLUICE_HOOKS_{name}": value for name, value in settings.items()}).start()
        api = API(server.url, server.admin_key)
        assert api.create(1, headers=parent()).status_code == 201
        assert "traceparent" not in receiver.calls[0].fields
        assert "trace_id" not in server.whole_log()
