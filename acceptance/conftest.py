"""Fixtures: servers with a data directory of their own, and lines for the end of the run."""

import faulthandler
import itertools
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from harness.api import API
from harness.draft import VERSIONS, Client
from harness.order import longest_first, unit
from harness.postgres import Postgres
from harness.relay import Relay
from harness.rgw import RGW
from harness.rows import left_out
from harness.server import Server
from harness.swift_s3 import SwiftS3
from harness.tls import Certificate
from harness.wire import Wire

FIGURES = pytest.StashKey()
STACKS = pytest.StashKey()
FIGURE = "figure"


def pytest_addoption(parser):
    parser.addoption("--gate", action="store_true", help="without what only scripts/nightly runs; small sizes")
    parser.addoption("--progress", type=Path, help="file for a JSON line for each start, failure and end of a test")


class Figures:
    """Reports of tests, which can run in other processes."""

    def __init__(self):
        self.lines = []

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.lines += [value for name, value in report.user_properties if name == FIGURE]


class Progress:
    """Writes what scripts/fair reads."""

    def __init__(self, path, root):
        self.file = path.open("a", buffering=1)
        self.root = root

    def write(self, kind, nodeid, **more):
        print(json.dumps({"kind": kind, "test": str(self.root / nodeid)} | more), file=self.file)

    def pytest_runtest_logstart(self, nodeid, location):
        self.write("started", nodeid)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.write("failed", report.nodeid, message=crash.message if crash else str(report.longrepr)[-500:])

    def pytest_runtest_logfinish(self, nodeid, location):
        self.write("ended", nodeid)


def pytest_configure(config):
    config.stash[FIGURES] = Figures()
    config.pluginmanager.register(config.stash[FIGURES])
    # Before the output of tests is captured: scripts/fair asks a process that stands still for its stacks.
    config.stash[STACKS] = open(os.dup(sys.__stderr__.fileno()), "w")
    faulthandler.register(signal.SIGUSR1, file=config.stash[STACKS], all_threads=True)
    path = config.getoption("--progress")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(path, config.rootpath))


class Scheduling(LoadFileScheduling):
    """Orders tests by the units of harness/order.py."""

    def _split_scope(self, nodeid):
        return unit(nodeid)


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config, items):
    # In a worker, xdist has already forgotten how it distributes.
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: longest_first(item.nodeid))
    if config.getoption("--gate"):
        left = {item for item in items if item.get_closest_marker("nightly")}
        left.update(left_out([item for item in items if item not in left]))
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter, config):
    if lines := config.stash[FIGURES].lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def report(request):
    """Prints a line now and again at the end of the run."""

    def add(line):
        print(line)
        request.node.user_properties.append((FIGURE, line))

    return add


@pytest.fixture(scope="session")
def quick(request):
    """Whether to use small sizes and counts: in the gate."""
    return request.config.getoption("--gate")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests of a file; it must end well after them."""
    # Clients of tests have no proxy, and mostly no TLS.
    environment = {"SLUICE_UPLOADS_INTERIM_RESPONSES": "always"}
    with Server(tmp_path_factory.mktemp("server") / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def api(server):
    """The API with the admin key."""
    return API(server.url, server.admin_key)


@pytest.fixture
def make_server(tmp_path):
    """Makes further servers; those still running at the end are stopped and must end well."""
    made = []

    def make(name="data", **options):
        one = Server(tmp_path / name, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def on_file(make_server, monkeypatch):
    """Servers with their state in a file, whatever the other tests use."""
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    return make_server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def rgw(tmp_path_factory):
    """Ceph's object gateway, for all tests; each test repairs what it breaks and empties what it fills."""
    with RGW(tmp_path_factory.mktemp("rgw") / "cluster") as store:
        yield store


@pytest.fixture(scope="session")
def swift_s3(tmp_path_factory):
    """OpenStack Swift, likewise."""
    with SwiftS3(tmp_path_factory.mktemp("swift") / "store") as store:
        yield store


BUCKETS = itertools.count(1)


@pytest.fixture
def bucket_name():
    """The name of a bucket that does not exist yet."""
    return f"test-{next(BUCKETS)}"


@pytest.fixture
def make_relay(rgw, bucket_name, tmp_path):
    """Makes gateways with settings in front of a store, Ceph unless another one is given."""
    made = []

    def make(store=rgw, database=None, **environment):
        relay = Relay(tmp_path, store, bucket_name, database=database, environment=environment)
        relay.__enter__()
        made.append(relay)
        return relay

    yield make
    for relay in made:
        relay.__exit__(None)
        relay.store.wipe(bucket_name)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL, one for all tests, each with its own database."""
    with Postgres() as database:
        yield database


@pytest.fixture(scope="module")
def media(api):
    """The id of a completed upload of 1000 bytes."""
    return api.uploaded(b"0123456789" * 100, metadata={"filename": "digits.txt", "filetype": "text/plain", "note": "n"})


@pytest.fixture
def wire(server):
    """A raw connection."""
    with Wire(server.address) as one:
        yield one


@pytest.fixture
def key(server):
    """The header field of the admin key."""
    return ("Authorization", f"Bearer {server.admin_key}")


@pytest.fixture(params=[*VERSIONS, None], ids=[*map(str, VERSIONS), "none"])
def client(request, server):
    return Client(server, request.param)


@pytest.fixture(params=VERSIONS)
def speaking(request, server):
    return Client(server, request.param)
