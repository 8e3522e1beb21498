"""Metrics change when what they count happens: state, disk, threads, quotas, hooks, pulls, the object store."""

import base64
import shutil

import pytest
from test_quota import User
from test_service import metrics

from harness.api import API
from harness.data import content
from harness.origin import Origin, Resource
from harness.receiver import Receiver
from harness.wire import until

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Page:
    """The metrics of a gateway, and what has grown since."""

    def __init__(self, api):
        self.api = api
        self.before = metrics(api)

    def now(self, name, **labels):
        return self.sum(metrics(self.api), name, labels)

    def grown(self, name, **labels):
        return self.now(name, **labels) - self.sum(self.before, name, labels)

    @staticmethod
    def sum(samples, name, labels):
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(value for (key, text), value in samples.items() if key == name and all(w in text for w in wanted))


def test_state_disk_and_threads(server, api):
    page = Page(api)
    api.uploaded(content(1000, 1))
    duration = "sluice_state_operation_duration_seconds_count"
    assert page.grown(duration, backend="sqlite", operation="write", outcome="ok") >= 2
    assert page.grown(duration, backend="sqlite", operation="read", outcome="ok") >= 1
    assert page.grown(duration, outcome="failed") == 0
    assert page.grown("sluice_disk_sync_duration_seconds_count", outcome="ok") >= 1
    assert page.grown("sluice_disk_sync_duration_seconds_sum", outcome="ok") > 0
    assert page.grown("sluice_pool_wait_seconds_count", pool="files") >= 1
    assert page.grown("sluice_pool_wait_seconds_count", pool="state") >= 1
    assert page.now("sluice_pool_threads", pool="files") == 16
    assert 0 <= page.now("sluice_pool_threads_busy", pool="files") <= 16
    assert page.now("sluice_pool_queue_length", pool="state") >= 0


def test_a_domain_refusal_is_no_failure_of_the_state(api):
    page = Page(api)
    assert api.request("PUT", "/v1/media/nothing", data=b"x", key="slk_wrong").status_code == 401
    assert api.get("/v1/media/" + "0" * 26).status_code == 404
    assert page.grown("sluice_state_operation_duration_seconds_count", outcome="failed") == 0


def test_space(server, api):
    page = Page(api)
    usage = shutil.disk_usage(server.data)
    assert page.now("sluice_disk_size_bytes") == usage.total
    # Other processes write, too.
    assert abs(page.now("sluice_disk_free_bytes") - usage.free) < usage.total / 10


def test_quotas(api):
    page = Page(api)
    user = User(api, storedBytes=10, openUploads=1)
    assert user.create(11).status_code == 403
    user.created(1)
    assert user.create(1).status_code == 403
    assert page.grown("sluice_quota_refusals_total", account="subject", quota="storedBytes") == 1
    assert page.grown("sluice_quota_refusals_total", account="subject", quota="openUploads") == 1
    assert page.grown("sluice_quota_refusals_total") == 2


def test_uploads_in_use(server, api, wire):
    url = api.created(10)
    page = Page(api)
    assert page.now("sluice_leases_held") == 0
    fields = [("Tus-Resumable", "1.0.0"), ("Upload-Offset", 0), ("Content-Type", "application/offset+octet-stream")]
    wire.request("PATCH", "/" + url.split("/", 3)[3], [*fields, ("Content-Length", 10)])
    wire.send(b"12345")
    until(lambda: page.now("sluice_leases_held") == 1)
    wire.send(b"67890")
    assert wire.reply("PATCH").status == 204
    until(lambda: page.now("sluice_leases_held") == 0)


def test_hooks(make_server):
    with Receiver(SECRET, reply=503) as receiver:
        hooks = {"URL": receiver.url, "SECRET": SECRET, "EVENTS": "pre-create, post-finish", "ON_FAILURE": "allow"}
        settings = {f"SLUICE_HOOKS_{name}": value for name, value in hooks.items()} | {"SLUICE_HOOKS_TIMEOUT": "300ms"}
        server = make_server(environment=settings).start()
        api = API(server.url, server.admin_key)
        page = Page(api)
        api.uploaded(b"abc")
        until(lambda: page.now("sluice_hook_deliveries_pending") == 1)
        assert page.grown("sluice_hook_duration_seconds_count", outcome="failed") >= 1
        until(lambda: page.now("sluice_hook_oldest_pending_seconds") > 0, 20)
        receiver.reply = {}
        until(lambda: page.now("sluice_hook_deliveries_pending") == 0, 60)
        assert page.now("sluice_hook_oldest_pending_seconds") == 0
        assert page.grown("sluice_hook_duration_seconds_count", outcome="answered") >= 1


def test_pulls(make_server):
    with Origin() as origin:
        server = make_server(environment={"SLUICE_PULL_ALLOW": "127.0.0.1"}).start()
        api = API(server.url, server.admin_key)
        page = Page(api)
        origin.resources["/a"] = Resource(content(200_000, 1), delay=0.1, piece=50_000)
        answer = api.post("/v1/media/pull", json={"url": origin.url + "/a"})
        assert answer.status_code == 202, answer.text
        until(lambda: page.now("sluice_pulls_active") == 1)
        until(lambda: api.upload(answer.json()["id"])["state"] == "completed")
        until(lambda: page.now("sluice_pulls_active") == 0)
        assert page.grown("sluice_pull_bytes_total") == 200_000
        assert page.grown("sluice_pull_duration_seconds_count") == 1


@pytest.mark.parametrize("operation", ["put", "get"])
def test_the_object_store(make_relay, operation):
    relay = make_relay()
    page = Page(relay.api)
    identifier = relay.api.uploaded(content(1000, 1))
    relay.api.download_hash(identifier)
    duration = "sluice_store_request_duration_seconds"
    assert page.grown(f"{duration}_count", operation=operation, outcome="ok") >= 1
    assert page.grown(f"{duration}_sum", operation=operation) > 0
    assert page.grown(f"{duration}_count") == page.grown("sluice_store_requests_total")
