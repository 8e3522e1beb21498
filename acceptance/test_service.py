"""Health, metrics, logs, configuration, restart."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from harness.api import API, OFFSET_TYPE, TUS, path_of
from harness.data import content, sha256
from harness.server import run
from harness.wire import until

UNKNOWN = "0" * 26
ROOT = Path(__file__).parent.parent


# Service


def test_health(api):
    version = run("--version").stdout.strip()
    assert api.get("/healthz", key=None).json() == {"status": "ok", "version": version}
    assert api.get("/readyz", key=None).json() == {"status": "ready"}


def test_metrics_are_prometheus_text(api, media):
    before = metrics(api)
    api.uploaded(b"12345")
    api.post("/v1/tencent/signatures", {})
    after = metrics(api)

    def grown(name):
        return sum(value for (key, _), value in after.items() if key == name) - sum(
            value for (key, _), value in before.items() if key == name
        )

    assert grown("sluice_uploads_created_total") == 1
    assert grown("sluice_uploads_completed_total") == 1
    assert grown("sluice_upload_bytes_total") == 5
    assert grown("sluice_minted_total") == 1
    assert grown("sluice_http_requests_total") >= 4


def metrics(api):
    """Parses the text strictly: every sample has a type, no sample stands twice."""
    answer = api.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert answer.text.endswith("\n")
    types, samples = {}, {}
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram", "summary"), line
            types[name] = kind
        elif not line.startswith("#"):
            found = re.fullmatch(r'([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)', line)
            assert found, line
            base = re.sub("_(bucket|sum|count)$", "", found[1])
            assert found[1] in types or types.get(base) == "histogram", line
            assert (found[1], found[2]) not in samples, line
            samples[found[1], found[2]] = float(found[3])
    return samples


# The label names of families that have some; `le` is that of a bucket.
LABELS = {
    "sluice_appends_broken_off_total": ["reason"],
    "sluice_build_info": ["version"],
    "sluice_cloud_calls_total": ["cloud", "outcome"],
    "sluice_hook_calls_total": ["hook", "outcome"],
    "sluice_http_accept_errors_total": ["reason"],
    "sluice_http_request_duration_seconds": ["route"],
    "sluice_http_request_duration_seconds_bucket": ["route", "le"],
    "sluice_http_requests_total": ["route", "method", "status"],
    "sluice_limited_total": ["limit"],
    "sluice_minted_total": ["kind"],
    "sluice_object_callbacks_total": ["outcome"],
    "sluice_pulls_total": ["result"],
    "sluice_tls_handshakes_failed_total": ["reason"],
    "sluice_upload_errors_total": ["code"],
    "sluice_uploads_created_total": ["dialect"],
}


def test_metrics_keep_their_names_types_and_labels(api, media):
    """Dashboards and alerts depend on them: what metrics.txt has stays, what is added needs no line there."""
    api.post("/v1/tencent/signatures", {})
    promised = (Path(__file__).parent / "metrics.txt").read_text().splitlines()
    lines = api.get("/metrics").text.splitlines()
    assert not set(promised) - set(lines)
    families = {line.split(" ")[2] for line in promised}
    for name, labels in metrics(api):
        base = re.sub("_(bucket|sum|count)$", "", name)
        if {name, base} & families:
            assert re.findall(r'(\w+)="', labels or "") == LABELS.get(name, LABELS.get(base, [])), name
    # A family without samples has its two lines all the same.
    created = lines.index("# TYPE sluice_cloud_calls_total counter")
    assert lines[created + 1].startswith("# HELP ")


def test_the_documented_metrics_exist(api):
    families = re.findall(r"^# TYPE (\S+) ", api.get("/metrics").text, re.M)
    table = re.findall(r"^\| (`(?:sluice|process)_.*?) \|", (ROOT / "docs/observability.md").read_text(), re.M)
    documented = [name for names in table for name in re.findall(r"`…?([a-z_]+)", names)]
    assert len(documented) > 25
    # They are there only with a store, with TLS, with certificates by ACME, with a URL for the events, with traces.
    elsewhere = ("sluice_store_", "sluice_tls_certificate_", "sluice_acme_", "sluice_tencent_events_", "sluice_trace_")
    missing = [name for name in documented if not name.startswith(elsewhere)]
    assert [name for name in missing if not any(one.endswith(name) for one in families)] == []


def test_metrics_do_not_grow_with_ids(api):
    api.get("/v1/uploads/" + UNKNOWN)
    names = {labels for _, labels in metrics(api)}
    assert not any(UNKNOWN in (labels or "") for labels in names)


def test_no_secret_reaches_the_log(server, api, media):
    token = api.post("/v1/tus/tokens", {"subject": "u"}).json()["token"]
    url = api.created(3, key=token)
    patched = api.patch(url, 0, b"abc")
    link = api.post(f"/v1/media/{media}/links", {}).json()["url"]
    responses = [patched, api.get(link, key=None), api.get("/v1/uploads", key="slk_wrong_secret_in_a_request")]
    identifiers = [response.headers["X-Request-ID"] for response in responses]
    text = server.whole_log()
    assert all(identifier in text for identifier in identifiers)
    secrets = [
        server.admin_key,
        token,
        url.rsplit(".", 1)[1],
        parse_qs(urlsplit(link).query)["signature"][0],
        "slk_wrong_secret_in_a_request",
    ]
    for secret in secrets:
        assert secret not in text


def test_the_request_id_of_a_response_is_in_the_log(server, api):
    identifier = api.get("/v1/uploads").headers["X-Request-ID"]
    assert identifier in server.whole_log()


def test_the_log_says_who_sent_a_request(make_server):
    with make_server(environment={"SLUICE_LOG_LEVEL": "debug"}) as server:
        check_who_sent_requests(server, API(server.url, server.admin_key))


def check_who_sent_requests(server, api):
    keys = [api.post("/v1/keys", {"name": name, "scopes": ["mint"]}).json() for name in ("one", "two")]
    token = api.post("/v1/tus/tokens", {"subject": "anna"}, key=keys[0]["secret"]).json()["token"]
    url = api.created(3, key=token)
    # By the URL of the upload alone, whoever sends it.
    sent = requests.patch(url, b"abc", headers=TUS | {"Content-Type": OFFSET_TYPE, "Upload-Offset": "0"}, timeout=10)
    others = api.post("/v1/tus/tokens", {}, key=keys[1]["secret"])
    wrong = api.post("/v1/tus/tokens", {}, key="slk_wrong")
    lines = [json.loads(line) for line in server.whole_log().splitlines() if line.startswith("{")]
    of = {line["request"]: line for line in lines if line["message"] == "request"}
    line = of[sent.headers["X-Request-ID"]]
    assert (line["key"], line["subject"]) == (keys[0]["id"], "anna")
    assert (line["status"], line["in"], line["out"] > 0) == (204, 3, True) and isinstance(line["ms"], float)
    assert of[others.headers["X-Request-ID"]]["key"] == keys[1]["id"]
    assert "subject" not in of[others.headers["X-Request-ID"]]
    assert not {"key", "subject"} & of[wrong.headers["X-Request-ID"]].keys()


def test_the_log_says_which_upload_a_request_was_about(server, api):
    url = api.created(3)
    upload = url.rsplit("/", 1)[1].split(".")[0]
    tus = TUS | {"Content-Type": OFFSET_TYPE}
    draft = {"Upload-Draft-Interop-Version": "8", "Content-Type": "application/partial-upload"}
    answers = [
        requests.head(url, headers=TUS, timeout=10),
        requests.patch(url, b"abc", headers=tus | {"Upload-Offset": "1"}, timeout=10),
        requests.patch(url, b"a", headers=tus | {"Upload-Offset": "0"}, timeout=10),
        requests.patch(url, b"b", headers=draft | {"Upload-Offset": "1", "Upload-Complete": "?0"}, timeout=10),
        requests.patch(url, b"c", headers=draft | {"Upload-Offset": "1", "Upload-Complete": "?1"}, timeout=10),
        requests.head(url, headers={"Upload-Draft-Interop-Version": "8"}, timeout=10),
        requests.delete(url, headers=TUS, timeout=10),
        requests.head(url, headers=TUS, timeout=10),
    ]
    assert [answer.status_code for answer in answers] == [200, 409, 204, 204, 409, 204, 204, 410]
    created = api.create(3, body=b"abc")
    stranger = requests.head(url[:-1] + ("A" if url[-1] != "A" else "B"), headers=TUS, timeout=10)
    lines = [json.loads(line) for line in server.whole_log().splitlines() if line.startswith("{")]
    of = {line["request"]: line.get("upload") for line in lines if line["message"] == "request"}
    assert [of[answer.headers["X-Request-ID"]] for answer in answers] == [upload] * len(answers)
    assert of[created.headers["X-Request-ID"]] == created.headers["Location"].rsplit("/", 1)[1].split(".")[0]
    assert of[stranger.headers["X-Request-ID"]] is None


def test_pages_of_other_origins_can_read_errors(api):
    answer = api.get("/v1/uploads", key=None, headers={"Origin": "https://app.example"})
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", "https://app.example")


def test_everything_survives_a_restart(make_server):
    server = make_server().start()
    api = API(server.url, server.admin_key)
    data = content(100_000, 1)
    done = api.uploaded(data, metadata={"filename": "a.bin"})
    url = api.created(len(data))
    api.patch(url, 0, data[:50_000])
    token = api.post("/v1/tus/tokens", {"subject": "u", "oneTime": True}).json()["token"]
    used = api.post("/v1/tus/tokens", {"subject": "u", "oneTime": True}).json()["token"]
    api.created(1, key=used)
    link = api.post(f"/v1/media/{done}/links", {}).json()["url"]
    server.stop()
    server.start()
    api = API(server.url, server.admin_key)
    # What all uploads use is read at the start, and once a minute; that of the one-time token is open, too.
    until(lambda: metrics(api).get(("sluice_open_uploads", None)) == 2)
    assert metrics(api)["sluice_stored_bytes", None] == len(data)
    assert api.download_hash(done) == (sha256(data), len(data))
    assert api.get(f"/v1/media/{done}").json()["filename"] == "a.bin"
    url = server.url + path_of(url)
    assert api.offset(url) == 50_000
    assert api.patch(url, 50_000, data[50_000:]).status_code == 204
    assert api.create(1, key=token).status_code == 201
    assert api.create(1, key=used).status_code == 403
    assert api.get(server.url + link.split(server.url.rsplit(":", 1)[0], 1)[1].lstrip(":0123456789"), key=None).ok


# Configuration


def test_check_prints_the_configuration_without_secrets(server):
    done = run("check", environment=server.environment)
    assert str(server.data) in done.stdout
    assert server.admin_key not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLUICE_GATEWAY_LISTEN", "nonsense"),
        ("SLUICE_GATEWAY_LISTEN", "127.0.0.1:99999"),
        ("SLUICE_DURABILITY", "sometimes"),
        ("SLUICE_TENCENT_MODE", "sideways"),
        ("SLUICE_PUBLIC_URL", "not a url"),
        ("SLUICE_UPLOADS_EXPIRE_AFTER", "soon"),
        ("SLUICE_UNKNOWN_SETTING", "1"),
    ],
)
@pytest.mark.parametrize("command", ["check", "serve"])
def test_an_invalid_setting_is_named(tmp_path, command, name, value):
    done = run(
        command,
        data=tmp_path / "data",
        environment={"SLUICE_GATEWAY_LISTEN": "127.0.0.1:0"} | {name: value},
        check=False,
    )
    assert done.returncode != 0
    assert name in done.stdout + done.stderr


def test_all_invalid_settings_are_named_at_once(tmp_path):
    environment = {"SLUICE_DURABILITY": "sometimes", "SLUICE_TENCENT_MODE": "sideways"}
    done = run("check", data=tmp_path / "data", environment=environment, check=False)
    assert all(name in done.stdout + done.stderr for name in environment)


def test_an_upload_needs_no_key_but_its_url(api):
    url = api.created(3)
    answer = api.request(
        "PATCH", url, key=None, data=b"abc", headers=TUS | {"Upload-Offset": "0", "Content-Type": OFFSET_TYPE}
    )
    assert answer.status_code == 204
