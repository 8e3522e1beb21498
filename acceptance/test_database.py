"""State in PostgreSQL: how a gateway starts with it, and continues after it was unavailable."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness.api import API, upload_id
from harness.data import content, sha256
from harness.postgres import Postgres, shared
from harness.server import BINARY, ROOT, Server, run
from harness.wire import until

pytestmark = pytest.mark.usefixtures("postgres")


@pytest.fixture(scope="module")
def postgres():
    return shared()


@pytest.fixture
def own_postgres():
    """A database that tests can stop."""
    with Postgres() as one:
        yield one


def nodes(tmp_path, environment, count, **options):
    return [Server(tmp_path / f"node{index}", environment=environment, **options) for index in range(count)]


def test_the_state_is_in_the_database(tmp_path, postgres):
    with Server(tmp_path / "data", environment=postgres.environment(tmp_path)) as server:
        identifier = API(server.url, server.admin_key).uploaded(b"abc")
        server.stop()
        assert not (server.data / "state.sqlite").exists() and not (server.data / "master.secret").exists()
        server.start()
        assert API(server.url, server.admin_key).get(f"/media/{identifier}").content == b"abc"


# Statements that time causes and not the request: a heartbeat, the clock, a look whether a connection still works, and
# what is kept for a second.
BY_TIME = re.compile(
    r"UPDATE node SET heartbeat_at|SELECT \(extract\(epoch FROM now|FROM api_key|FROM revocation|INSERT INTO duty"
    r"|FROM account\s+WHERE[^;]*ORDER BY position NULLS FIRST\s*$|WHERE NOT reads_changes|^SELECT position, node"
    r"|^SELECT 1$|FROM dialect_record"
)
# What is done for several transactions together, after they were committed.
BACKLOG = re.compile(r"WITH taken AS|pg_try_advisory_xact_lock\(hashtextextended\('sluice accounts ")


def without_backlog(statements):
    """Leaves out transactions that number events or count changes of accounts."""
    kept, transaction = [], None
    for statement in statements:
        if statement == "BEGIN":
            transaction = []
        if transaction is None:
            kept.append(statement)
            continue
        transaction.append(statement)
        if statement in ("COMMIT", "ROLLBACK"):
            kept += [] if any(BACKLOG.search(one) for one in transaction) else transaction
            transaction = None
    return kept


def test_statements_of_each_request_are_as_documented(tmp_path, own_postgres):
    rows = re.findall(r"^\| (.+?) \| (\d+) \|", (ROOT / "docs/cluster.md").read_text(), re.M)
    documented = {name: int(count) for name, count in rows}
    # Each with one connection to the database, whose statements are prepared.
    with Server(tmp_path / "data", environment=own_postgres.environment(tmp_path)) as server:
        api = API(server.url, server.admin_key)
        for _ in range(20):
            url = api.created(4)
            api.patch(url, 0, b"ab")
            api.head(url)
            api.patch(url, 2, b"cd")
            assert api.create(4, body=b"abcd").status_code == 201
        urls = [api.created(4) for _ in range(3)]
        api.patch(urls[2], 0, b"ab")
        own_postgres.query("ALTER SYSTEM SET log_statement = 'all'")
        own_postgres.query("SELECT pg_reload_conf()")
        requests = {
            "HEAD": lambda: api.head(urls[0]),
            "PATCH": lambda: api.patch(urls[1], 0, b"ab"),
            "the last PATCH": lambda: api.patch(urls[2], 2, b"cd"),
            "creation with all bytes, at most 32 KiB": lambda: api.create(4, body=b"abcd"),
        }
        assert documented.keys() == requests.keys()
        log = own_postgres.folder / "log"
        found = {}
        for name, request in requests.items():
            time.sleep(1.5)
            before = len(log.read_text(errors="replace"))
            assert request().ok
            time.sleep(0.3)
            # A statement can have several lines; continuations begin with a tab.
            lines = log.read_text(errors="replace")[before:].replace("\n\t", " ").splitlines()
            lines = [line for line in lines if "execute s" in line or "LOG:  statement: " in line]
            by_process = {}
            for line in lines:
                process = re.search(r"\[(\d+)\] LOG:", line)[1]
                by_process.setdefault(process, []).append(line.split(": ", 2)[2].strip())
            statements = [one for process in by_process.values() for one in without_backlog(process)]
            found[name] = [one for one in statements if not BY_TIME.search(one)]
    assert {name: len(one) for name, one in found.items()} == documented, found


def test_the_url_is_a_secret(tmp_path, postgres):
    environment = postgres.environment(tmp_path)
    done = run("check", environment=environment)
    assert "SLUICE_DATABASE_URL" in done.stdout and "<redacted>" in done.stdout
    assert postgres.password not in done.stdout and "%2F" not in done.stdout
    path = tmp_path / "url"
    path.write_text(environment.pop("SLUICE_DATABASE_URL") + "\n")
    environment["SLUICE_DATABASE_URL_FILE"] = str(path)
    with Server(tmp_path / "data", environment=environment) as server:
        API(server.url, server.admin_key).uploaded(b"abc")
    assert postgres.password not in server.log.read_text()


def test_wrong_settings_are_named(tmp_path, postgres):
    environment = postgres.environment(tmp_path)
    del environment["SLUICE_MASTER_SECRET"]
    done = run("check", environment=environment, check=False)
    assert done.returncode != 0 and "masterSecret" in done.stderr and "database.url" in done.stderr
    done = run("check", environment={"SLUICE_DATABASE_URL": "mysql://user:hidden@host/x"}, check=False)
    assert done.returncode != 0 and "PostgreSQL" in done.stderr and "hidden" not in done.stderr
    environment = postgres.environment(tmp_path) | {"SLUICE_DATABASE_URL": "postgres://u:hid den@host:x/y"}
    done = run("serve", data=tmp_path / "data", environment=environment, check=False)
    assert done.returncode != 0 and "URL" in done.stderr and "hid den" not in done.stderr


def test_start_waits_for_a_missing_database_and_names_it(tmp_path, postgres):
    """Also as process 1 of a container, where a signal without a handler would be ignored."""
    environment = postgres.environment(tmp_path) | {"SLUICE_DATABASE_URL": "postgres://u:hidden@127.0.0.1:9/gone"}
    namespace = ["unshare", "--pid", "--fork"] if os.geteuid() == 0 else ["env"]
    log = tmp_path / "log"
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(20)
    environment = Server(tmp_path / "data", environment=environment).environment
    with notified, open(log, "wb") as output:
        process = subprocess.Popen(
            [*namespace, BINARY, "serve"],
            env=environment | {"NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            status = notified.recv(4096).decode()
            assert status == "STATUS=Waiting for the database\nEXTEND_TIMEOUT_USEC=60000000"
            # Again and again, with longer pauses.
            until(lambda: log.read_text().count("waiting for the database") >= 2, 20)
            text = log.read_text()
            assert "127.0.0.1:9/gone" in text and "hidden" not in text
            inner = children(process.pid) or [process.pid]
            # Ignored: reading the certificate is still to come.
            os.kill(inner[0], signal.SIGHUP)
            count = log.read_text().count("waiting for the database")
            until(lambda: log.read_text().count("waiting for the database") > count, 30)
            os.kill(inner[0], signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()


def children(pid):
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def test_start_waits_for_a_database_that_starts_later(tmp_path, own_postgres):
    environment = own_postgres.environment(tmp_path)
    own_postgres.stop()
    timer = threading.Timer(3, own_postgres.start)
    timer.start()
    with Server(tmp_path / "data", environment=environment) as server:
        timer.join()
        API(server.url, server.admin_key).uploaded(b"abc")
        assert "waiting for the database" in server.whole_log()


def test_one_of_several_starting_nodes_creates_the_first_key(tmp_path, postgres):
    started = nodes(tmp_path, postgres.environment(tmp_path), 4, admin_key=None)
    threads = [threading.Thread(target=server.start) for server in started]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [found[1] for server in started if (found := re.search(r"API key: (slk_\S+)", server.output()))]
        assert len(keys) == 1
        for server in started:
            assert API(server.url, keys[0]).get("/v1/uploads").status_code == 200
        listed = run("keys", "list", environment=started[0].environment).stdout
        assert listed.count("key_") == 1 and "key_first" in listed
    finally:
        for server in started:
            server.stop()


def test_uploads_continue_after_a_restart_of_the_database(tmp_path, own_postgres):
    body = content(300_000, 1)
    with Server(tmp_path / "data", environment=own_postgres.environment(tmp_path)) as server:
        api = API(server.url, server.admin_key)
        url = api.created(len(body))
        assert api.patch(url, 0, body[:100_000]).status_code == 204
        own_postgres.stop()
        assert api.patch(url, 100_000, body[100_000:200_000]).status_code == 503
        assert api.get("/readyz", key=None).status_code == 503
        own_postgres.start()
        deadline = time.monotonic() + 30
        while (answer := api.head(url)).status_code != 200:
            # Or 423, while the end of an interrupted request is not recorded yet.
            assert answer.status_code in (423, 503) and time.monotonic() < deadline
            time.sleep(0.1)
        offset = int(answer.headers["Upload-Offset"])
        assert offset >= 100_000
        assert api.patch(url, offset, body[offset:]).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(body), len(body))


def test_requests_end_while_the_database_accepts_bytes_and_does_not_answer(tmp_path, own_postgres):
    environment = own_postgres.environment(tmp_path) | {
        "SLUICE_DATABASE_STATEMENT_TIMEOUT": "1s",
        "SLUICE_DATABASE_CONNECT_TIMEOUT": "2s",
    }
    body = content(300_000, 1)
    with Server(tmp_path / "data", environment=environment) as server:
        api = API(server.url, server.admin_key)
        url = api.created(len(body))
        # The kernel takes what is sent to it, and opens connections.
        own_postgres.pause()
        try:
            answer = api.patch(url, 0, body)
            assert answer.status_code == 503 and "Retry-After" in answer.headers
            assert api.get("/v1/uploads").status_code == 503
            assert api.get("/readyz", key=None).status_code == 503
            assert api.get("/healthz", key=None).status_code == 200
        finally:
            own_postgres.go_on()
        until(lambda: api.get("/readyz", key=None).status_code == 200, timeout=60)
        until(lambda: api.head(url).status_code == 200, timeout=60)
        offset = int(api.head(url).headers["Upload-Offset"])
        assert api.patch(url, offset, body[offset:]).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
