"""`deploy/monitoring` with a real Prometheus, which scrapes a gateway under load."""

import base64
import json
import re
import subprocess
import time

import pytest
import requests
import yaml

from harness.api import API
from harness.collector import Collector
from harness.daemon import Daemon, free_port
from harness.data import content
from harness.object_client import BUCKET, ObjectServer
from harness.receiver import Receiver
from harness.server import ROOT
from harness.tools import tool
from harness.wire import until

MONITORING = ROOT / "deploy/monitoring"
RULES = yaml.safe_load((MONITORING / "sluice.rules.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
ROWS = ["Overview", "Uploads", "HTTP by route", "Dialects", "Store", "State", "Hooks", "Process"]
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()

# Metrics of which this gateway has no samples, and why.
WITHOUT = {
    "sluice_store_requests_total": "needs an object store",
    "sluice_store_memory_bytes": "needs an object store",
    "sluice_store_memory_limit_bytes": "needs an object store",
    "sluice_store_spool_files_total": "needs an object store",
    "sluice_tls_handshakes_failed_total": "needs TLS",
    "sluice_tls_certificate_expiry_time_seconds": "needs TLS",
    "sluice_http_accept_errors_total": "needs a lack of descriptors",
    "sluice_upload_errors_total": "needs a storage or a state that fails",
    "sluice_appends_broken_off_total": "needs a connection that breaks off",
    "sluice_pulls_total": "needs a pull",
    "sluice_cloud_calls_total": "needs direct mode",
    "sluice_object_callbacks_total": "needs a callback of an OSS client",
    "sluice_tencent_calls_total": "needs an SDK of Tencent VOD",
    "sluice_aliyun_vod_calls_total": "needs an SDK of ApsaraVideo VOD",
    "sluice_vimeo_calls_total": "needs a client of Vimeo",
    "sluice_store_request_duration_seconds": "needs an object store",
    "sluice_leases_refused_total": "needs two clients of one upload",
    "sluice_quota_refusals_total": "needs a quota",
    "sluice_trace_spans_dropped_total": "needs traces",
    "sluice_limited_total": "needs too many requests of one address",
}


def promtool(*arguments):
    command = [tool("promtool", "prometheus"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def queries():
    """The queries of the dashboard with their variables filled in, by title."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in {"$__rate_interval": "30s", "$job": "sluice", "$instance": ".*"}.items():
                text = text.replace(variable, value)
            assert "$" not in text
            yield panel["title"], text


def names(query):
    found = re.findall(r"\b(?:sluice|process)_\w+", query.replace('"sluice"', ""))
    return {re.sub("_(bucket|count)$", "", name) for name in found}


# Files


def test_the_rules_are_valid_and_fire():
    promtool("check", "rules", "--lint=all", "--lint-fatal", MONITORING / "sluice.rules.yaml")
    promtool("test", "rules", MONITORING / "sluice.rules.test.yaml")
    tests = yaml.safe_load((MONITORING / "sluice.rules.test.yaml").read_text())["tests"]
    fires = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    quiet = {case["alertname"] for test in tests for case in test["alert_rule_test"] if not case["exp_alerts"]}
    assert fires == quiet == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_what_to_do(rule):
    assert rule["for"] and rule["labels"]["severity"] in ("critical", "warning")
    notes = rule["annotations"]
    assert notes["summary"] and notes["description"]
    page, heading = notes["runbook_url"].split("#")
    headings = re.findall(r"^### (\w+)$", (ROOT / page).read_text(), re.M)
    assert heading in {one.lower() for one in headings}


def test_the_structure_of_the_dashboard():
    assert [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"] == ROWS
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance"]
    assert variables["datasource"]["query"] == "prometheus"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}"


def test_what_they_ask_is_documented():
    manual = (ROOT / "docs/observability.md").read_text()
    used = set().union(*(names(query) for _, query in queries()), *(names(rule["expr"]) for rule in RULES))
    assert {name for name in used if f"`{name}" not in manual} == set()


# Prometheus


class Prometheus:
    """With the example of `deploy/monitoring`; only the target, the key's file and the intervals are replaced."""

    def __init__(self, folder, server, *flags):
        text = (MONITORING / "prometheus.yaml").read_text()
        targets = "['sluice-1:8080', 'sluice-2:8080', 'sluice-3:8080']"
        for old, new in {
            targets: f"['127.0.0.1:{server.port}']",
            "/etc/prometheus/sluice.key": str(folder / "sluice.key"),
            "scrape_interval: 15s": "scrape_interval: 1s",
            "evaluation_interval: 15s": "evaluation_interval: 1s",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "prometheus.yaml").write_text(text)
        (folder / "sluice.key").write_text(server.admin_key)
        (folder / "sluice.rules.yaml").write_text((MONITORING / "sluice.rules.yaml").read_text())
        promtool("check", "config", folder / "prometheus.yaml")
        self.port = free_port()
        command = [
            tool("prometheus", "prometheus"),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *flags,
        ]
        self.daemon = Daemon("prometheus", command, log=folder / "log", cwd=folder)

    def get(self, path, **query):
        answer = requests.get(f"http://127.0.0.1:{self.port}/api/v1/{path}", params=query, timeout=20).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def ask(self, query):
        return self.get("query", query=query)["result"]


def load(api, objects, number):
    """Uploads by tus, the draft and boto3, one that is ended, one that is refused; credentials."""
    data = content(70_000, number)
    api.uploaded(data)
    assert api.terminate(api.created(10)).status_code == 204
    assert api.create("none").status_code == 400
    assert api.request("POST", "/files", data=data, headers={"Upload-Complete": "?1"}).ok
    assert api.post("/v1/tencent/signatures", {}).ok and api.post("/v1/tus/tokens", {"subject": "u"}).ok
    assert api.get("/v1/uploads").ok
    objects.put_object(Bucket=BUCKET, Key=f"o{number}", Body=data)
    assert objects.get_object(Bucket=BUCKET, Key=f"o{number}")["Body"].read() == data


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitoring")
    with Receiver(SECRET) as receiver:
        environment = {
            "SLUICE_HOOKS_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_HOOKS_EVENTS": "post-create, post-finish",
        }
        with ObjectServer(folder / "gateway", free_port(), environment) as server:
            api = API(server.url, server.admin_key)
            objects = server.client()
            one = Prometheus(folder, server)
            one.daemon.start().wait_for_port(one.port)
            try:
                for number in range(5):
                    load(api, objects, number)
                    until(lambda number=number: samples(one, number), 20)
                yield one
            finally:
                one.daemon.stop()


def samples(prometheus, number):
    """Whether a scrape has seen the load of this number."""
    found = prometheus.ask("sum(sluice_uploads_terminated_total)")
    return found and float(found[0]["value"][1]) > number


def test_every_query_of_the_dashboard_returns_data(prometheus):
    until(lambda: all(prometheus.ask(query) for _, query in queries() if not names(query) & set(WITHOUT)), 20)
    empty = {name for _, query in queries() if not prometheus.ask(query) for name in names(query)}
    assert empty - set(WITHOUT) == set()
    # The list does not excuse what has data.
    for name in WITHOUT:
        assert prometheus.ask(f'{{__name__=~"{name}(_count)?"}}') == [], f"{name} has data: it needs no line in WITHOUT"
    asked = {name for _, query in queries() for name in names(query)}
    assert set(WITHOUT) <= asked


def test_durations_lead_to_traces(tmp_path):
    """Prometheus asks for OpenMetrics, and stores the trace of a request beside its bucket."""
    with Collector() as collector:
        settings = {"SLUICE_TRACING_ENDPOINT": collector.url, "SLUICE_TRACING_SAMPLE_RATIO": "1"}
        with ObjectServer(tmp_path / "gateway", free_port(), settings) as server:
            API(server.url, server.admin_key).uploaded(b"hello")
            one = Prometheus(tmp_path, server, "--enable-feature=exemplar-storage")
            one.daemon.start().wait_for_port(one.port)
            try:
                until(lambda: requests.get(f"http://127.0.0.1:{one.port}/-/ready", timeout=20).ok, 20)
                query = 'sluice_http_request_duration_seconds_bucket{route="/files/{upload}"}'
                now = time.time()

                def exemplars():
                    found = one.get("query_exemplars", query=query, start=now - 3600, end=now + 3600)
                    return [exemplar for series in found for exemplar in series["exemplars"]]

                (exemplar,) = until(exemplars, 20)
                assert [sample["value"][1] for sample in one.ask("up")] == ["1"]
            finally:
                one.daemon.stop()
            labels = exemplar["labels"]
            (span,) = until(lambda: collector.find(trace=labels["trace_id"], kind=2))
            assert span.name == "PATCH /files/{upload}" and labels["span_id"] == span.id
            assert 0 < float(exemplar["value"]) < 60


def test_every_rule_is_evaluated(prometheus):
    """None fails or fires, and the metrics that each asks for have samples."""

    def rules():
        (group,) = prometheus.get("rules")["groups"]
        return group["rules"]

    until(lambda: all(rule["health"] != "unknown" for rule in rules()), 20)
    assert [rule["name"] for rule in rules()] == [rule["alert"] for rule in RULES]
    assert [rule["name"] for rule in rules() if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules() if rule["state"] == "firing"] == []
    for rule in RULES:
        for name in names(rule["expr"]) - set(WITHOUT):
            assert prometheus.ask(f'{{__name__=~"{name}(_count)?"}}'), rule["alert"]
    assert prometheus.ask('up{job="sluice"}')[0]["value"][1] == "1"
