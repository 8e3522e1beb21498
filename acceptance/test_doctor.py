"""`sluice doctor`: one broken thing for each check, before the first start and beside a running gateway."""

import email.utils
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import requests

from harness.clock import shifted
from harness.daemon import free_port
from harness.data import MIB
from harness.disk import mounted, small
from harness.faults import Faults
from harness.http_server import LocalServer
from harness.postgres import shared
from harness.server import ADMIN_KEY, BINARY
from harness.tls import Certificate
from harness.wire import until

CODES = {"ok": 0, "warning": 1, "failed": 2}
SECRET = "a-secret-that-nobody-may-see-0123456789"
# The limit on open files of the machine must allow for them.
FEW = {"SLUICE_LIMITS_CONNECTIONS": "500"}
PAIR = {"SLUICE_S3_ACCESS_KEY_ID": "id", "SLUICE_S3_SECRET_ACCESS_KEY": SECRET}


OTHER_USER = 10001


def doctor(settings, *arguments, files=None, program=BINARY, user=None):
    """The results, each with its check, status and text. `files`: the limit on open files. `user`: not this one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    limit = None
    if files:

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    done = subprocess.run(
        [program, "doctor", "--json", *map(str, arguments)],
        env=environment | {name: str(value) for name, value in settings.items()},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    assert done.returncode in (0, 1, 2), (done.returncode, done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr and ADMIN_KEY not in done.stdout + done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results, done.stderr
    assert done.returncode == max(CODES[result["status"]] for result in results)
    return results


def bad(results):
    """What is not well: the pairs of check and status, and all texts."""
    found = [result for result in results if result["status"] != "ok"]
    return [(result["check"], result["status"]) for result in found], " ".join(result["text"] for result in found)


@pytest.fixture
def settings(tmp_path):
    """Of a gateway that was never started and has nothing to complain about."""
    return FEW | {
        "SLUICE_DATA_DIR": tmp_path / "data",
        "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
        "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}",
    }


class Store(LocalServer):
    """Answers HEAD of a bucket; its clock is ahead by some seconds. Keeps objects in memory."""

    def __init__(self, *, status=200, ahead=0):
        self.status, self.ahead = status, ahead
        self.objects = {}
        self.log = []
        # Whether PUT is.
        self.refuses = False
        super().__init__()

    def handle(self, request):
        path, status, content = request.path, 200, b""
        self.log.append(f"{request.command} {path.split('?')[0].split('probe-')[0]}")
        if request.command == "HEAD":
            status = self.status
        elif request.command == "PUT":
            status, body = (403 if self.refuses else 200), request.content()
            if not self.refuses:
                self.objects[path] = body
        elif request.command == "GET":
            content = self.objects[path]
        else:
            del self.objects[path]
            status = 204
        request.date_time_string = lambda: email.utils.formatdate(time.time() + self.ahead, usegmt=True)
        request.respond(status, content, ETag='"00000000000000000000000000000000"')

    @property
    def settings(self):
        return PAIR | {
            "SLUICE_STORAGE": "s3",
            "SLUICE_S3_BUCKET": "bucket",
            "SLUICE_S3_PATH_STYLE": "true",
            "SLUICE_S3_SPOOL": "0",
            "SLUICE_S3_ENDPOINT": self.url,
        }


def test_before_the_first_start_all_is_well_and_nothing_is_made(settings, tmp_path):
    results = doctor(settings)
    assert bad(results)[0] == []
    checks = {result["check"] for result in results}
    assert checks >= {"settings", "dataDir", "openFiles", "clock", "state", "proxies", "gateway.listen", "gateway"}
    assert list(tmp_path.iterdir()) == []


def test_the_lines_for_people_begin_with_the_status(settings):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    environment |= {name: str(value) for name, value in settings.items()}
    done = subprocess.run([BINARY, "doctor"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert all(line.startswith("ok      ") for line in done.stdout.splitlines())


def test_beside_a_running_gateway_its_listeners_and_its_state_are_fine(on_file):
    port, objects = free_port(), free_port()
    listen = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{port}", "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{objects}"}
    server = on_file(environment=listen | FEW).start()
    results = doctor(server.environment, "--probe")
    assert bad(results)[0] == []
    texts = {result["check"]: result["text"] for result in results}
    assert "held by the running gateway" in texts["gateway.listen"] and "held" in texts["object.listen"]
    assert texts["gateway"] == "it runs and is ready" and "this version" in texts["state"]
    assert not [path for path in server.data.iterdir() if "doctor" in path.name]


def test_each_problem_of_the_settings_is_a_line(settings):
    settings |= {"SLUICE_GATEWAY_LISTEN": "nowhere", "SLUICE_ADMIN_KEY": "short", "SLUICE_S3_PART_SIZE": "1"}
    results = doctor(settings)
    assert {(result["check"], result["status"]) for result in results} == {("settings", "failed")}
    assert len(results) == 3


def test_a_data_directory_that_is_a_file_or_open_to_others(settings, tmp_path):
    data = tmp_path / "data"
    data.write_text("")
    assert ("dataDir", "failed") in bad(doctor(settings))[0]
    data.unlink()
    data.mkdir(mode=0o755)
    found, text = bad(doctor(settings))
    assert found == [("dataDir", "warning")] and "0755" in text
    data.chmod(0o700)
    secret = data / "master.secret"
    secret.write_text("x")
    secret.chmod(0o644)
    found, text = bad(doctor(settings))
    assert found == [("dataDir", "warning")] and str(secret) in text


def test_secrets_that_others_can_read(settings, tmp_path):
    key = tmp_path / "admin"
    key.write_text(ADMIN_KEY)
    key.chmod(0o644)
    config = tmp_path / "sluice.yaml"
    config.write_text(f"s3:\n  accessKeyId: id\n  secretAccessKey: {SECRET}\n")
    config.chmod(0o604)
    settings["SLUICE_ADMIN_KEY_FILE"] = key
    found, text = bad(doctor(settings, "--config", config))
    assert sorted(found) == [("adminKey", "warning"), ("s3.secretAccessKey", "warning")]
    assert str(key) in text and str(config) in text and "chmod" in text
    key.chmod(0o600)
    config.chmod(0o640)
    assert bad(doctor(settings, "--config", config))[0] == []


def test_public_objects_whose_bucket_or_prefix_is_not_what_it_seems(settings):
    settings["SLUICE_OBJECT_BUCKETS"] = "uploads, media"
    settings["SLUICE_OBJECT_PUBLIC_READ"] = "uploads, media/public/"
    assert bad(doctor(settings))[0] == []
    settings["SLUICE_OBJECT_PUBLIC_READ"] = "other, media/public"
    found, text = bad(doctor(settings))
    assert found == [("object.publicRead", "warning")] * 2
    assert "the bucket other" in text and "media/public-2" in text
    settings["SLUICE_MEDIA_DOWNLOADS"] = "false"
    found, text = bad(doctor(settings))
    assert found == [("settings", "failed")] and "media.downloads" in text


def test_too_few_open_files(settings):
    found, text = bad(doctor(settings, files=300))
    assert found == [("openFiles", "warning")] and "limits.connections" in text


def test_a_clock_long_ago(settings):
    assert ("clock", "failed") in bad(doctor(settings | shifted(-10 * 365 * 86400)))[0]


def test_a_file_that_is_no_database_or_of_a_newer_version(on_file, settings, tmp_path):
    server = on_file().start()
    server.stop()
    state = server.data / "state.sqlite"
    with sqlite3.connect(state) as database:
        database.execute("INSERT INTO grdb_migrations VALUES ('9999 of tomorrow')")
    database.close()
    settings["SLUICE_DATA_DIR"] = server.data
    found, text = bad(doctor(settings))
    assert found == [("state", "failed")] and "newer version" in text
    state.write_bytes(b"this is no database" * 1000)
    found, text = bad(doctor(settings))
    assert found == [("state", "failed")] and "restore it from a backup" in text
    (server.data / "state.sqlite.migrated").write_text("")
    assert "SLUICE_DATABASE_URL" in bad(doctor(settings))[1]


def test_a_database(settings, tmp_path):
    database = shared()
    url = database.make_database()
    settings["SLUICE_DATABASE_URL"] = url
    # Nodes share it.
    assert bad(doctor(settings))[0] == [("settings", "failed")]
    settings["SLUICE_MASTER_SECRET"] = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    results = doctor(settings)
    assert bad(results)[0] == []
    assert "creates its tables" in next(result["text"] for result in results if result["check"] == "database")
    assert not database.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", url)
    # Clocks are compared, and a wrong one is not its own judge.
    found, text = bad(doctor(settings | shifted(3600)))
    assert ("clock", "failed") in found and "ahead of that of the database" in text
    name = url.rsplit("/", 1)[1]
    database.query(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    found, text = bad(doctor(settings))
    assert found == [("database", "failed")] and "read-only" in text
    settings["SLUICE_DATABASE_URL"] = f"postgres://sluice:{SECRET}@127.0.0.1:{free_port()}/none"
    assert bad(doctor(settings))[0] == [("database", "failed")]


def test_a_store(settings):
    with Store() as store:
        assert bad(doctor(settings | store.settings))[0] == []
        assert store.log == ["HEAD /bucket"]
        assert bad(doctor(settings | store.settings, "--probe"))[0] == []
        assert store.log[2:] == [f"{method} /bucket/.sluice/" for method in ("PUT", "GET", "DELETE")]
        assert not store.objects
        settings_of_spool = settings | store.settings | {"SLUICE_S3_SPOOL": "1024TiB"}
        assert bad(doctor(settings_of_spool))[0] == [("s3.spool", "warning")]
    with Store(ahead=60) as store:
        found, text = bad(doctor(settings | store.settings))
        assert found == [("clock", "warning")] and "behind that of the store" in text
    with Store(status=404) as store:
        found, text = bad(doctor(settings | store.settings))
        assert found == [("store", "failed")] and "s3.createBucket" in text
        assert bad(doctor(settings | store.settings | {"SLUICE_S3_CREATE_BUCKET": "true"}))[0] == []
    with Store(status=403) as store:
        assert bad(doctor(settings | store.settings))[0] == [("store", "failed")]
    assert bad(doctor(settings | store.settings))[0] == [("store", "failed")]


def test_certificates(settings, tmp_path, certificate):
    other = tmp_path / "other"
    other.mkdir()
    wrong = {"SLUICE_TLS_CERTIFICATE": certificate.path, "SLUICE_TLS_KEY": Certificate(other).key_path}
    found, text = bad(doctor(settings | wrong))
    assert found == [("tls.certificate", "failed")] and "mismatch" in text
    # It is valid for two days.
    assert bad(doctor(settings | certificate.settings))[0] == [("tls.certificate", "warning")]
    found, text = bad(doctor(settings | certificate.settings | shifted(3 * 86400)))
    assert found == [("tls.certificate", "failed")] and "expired" in text


def test_addresses_that_cannot_be_used(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings["SLUICE_OBJECT_LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        found, text = bad(doctor(settings))
        assert found == [("object.listen", "failed")] and "another program" in text
    settings["SLUICE_OBJECT_LISTEN"] = "192.0.2.1:9000"
    assert "not an address of this machine" in bad(doctor(settings))[1]
    settings["SLUICE_OBJECT_LISTEN"] = settings["SLUICE_GATEWAY_LISTEN"]
    assert "choose another port" in bad(doctor(settings))[1]
    settings |= {"SLUICE_OBJECT_LISTEN": "unix:/missing/socket", "SLUICE_OBJECT_PUBLIC_URL": "http://localhost"}
    assert bad(doctor(settings))[0] == [("object.listen", "failed")]


@pytest.mark.parametrize(
    ("extra", "check"),
    [
        ({"SLUICE_PUBLIC_URL": "https://uploads.example"}, "trustedProxies"),
        ({"SLUICE_TRUSTED_PROXIES": "0.0.0.0/0"}, "trustedProxies"),
        ({"SLUICE_GATEWAY_LISTEN": "0.0.0.0:0"}, "gateway.listen"),
        ({"SLUICE_DURABILITY": "none"}, "durability"),
    ],
)
def test_settings_with_a_risk(settings, extra, check):
    assert bad(doctor(settings | extra))[0] == [(check, "warning")]


def test_proxies_that_are_named_are_fine(settings):
    settings |= {"SLUICE_PUBLIC_URL": "https://uploads.example", "SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
    assert bad(doctor(settings))[0] == []


# The data directory


@pytest.fixture(scope="module")
def public_folder():
    """A folder that another user can enter, with the program in it; pytest's own are private."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with tempfile.TemporaryDirectory(prefix="sluice-doctor-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(BINARY, folder / "sluice")
        yield folder


def test_a_directory_of_another_user(settings, public_folder):
    other = {"program": public_folder / "sluice", "user": OTHER_USER}
    data = public_folder / "data"
    settings["SLUICE_DATA_DIR"] = data
    found, text = bad(doctor(settings, **other))
    assert found == [("dataDir", "failed")] and f"because {public_folder} cannot be written" in text
    data.mkdir(mode=0o700)
    found, text = bad(doctor(settings, **other))
    assert ("dataDir", "failed") in found and f"by user {OTHER_USER}" in text and "run as user 0" in text
    data.chmod(0o777)
    found, text = bad(doctor(settings, **other))
    assert found == [("dataDir", "failed")] and f"give it to user {OTHER_USER}, with mode 0700" in text
    os.chown(data, OTHER_USER, OTHER_USER)
    data.chmod(0o700)
    assert bad(doctor(settings, "--probe", **other))[0] == []


def test_what_another_user_may_not_use(settings, public_folder, certificate):
    other = {"program": public_folder / "sluice", "user": OTHER_USER}
    # As another user it has no data directory, which is not what is tested here.
    settings["SLUICE_DATA_DIR"] = public_folder / "own"
    (public_folder / "own").mkdir()
    os.chown(public_folder / "own", OTHER_USER, OTHER_USER)
    (public_folder / "own").chmod(0o700)
    key, chain = public_folder / "key.pem", public_folder / "chain.pem"
    shutil.copy(certificate.key_path, key)
    shutil.copy(certificate.path, chain)
    key.chmod(0o600)
    settings_of_tls = settings | {"SLUICE_TLS_CERTIFICATE": chain, "SLUICE_TLS_KEY": key}
    found, text = bad(doctor(settings_of_tls, **other))
    assert found == [("tls.key", "failed"), ("tls.certificate", "failed")]
    assert f"{key} cannot be read by user {OTHER_USER}" in text
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) > 80:
        found, text = bad(doctor(settings | {"SLUICE_OBJECT_LISTEN": "127.0.0.1:80"}, **other))
        assert found == [("object.listen", "failed")] and "choose a port from 1024 on" in text


def test_a_path_below_a_file(settings, tmp_path):
    (tmp_path / "file").touch()
    found, text = bad(doctor(settings | {"SLUICE_DATA_DIR": tmp_path / "file" / "data"}))
    assert ("dataDir", "failed") in found and "cannot be examined: Not a directory" in text


def test_a_full_disk(settings, tmp_path):
    options = ["-t", "tmpfs", "-o", "size=1M,nr_inodes=20"]
    with mounted(tmp_path / "disk", options, "tmpfs") as disk:
        data = disk / "data"
        data.mkdir(mode=0o700)
        settings["SLUICE_DATA_DIR"] = data
        found, text = bad(doctor(settings, "--probe"))
        assert found == [("dataDir", "warning")] and "MiB are free" in text
        with open(disk / "ballast", "wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        found, text = bad(doctor(settings, "--probe"))
        assert found == [("dataDir", "failed"), ("dataDir", "failed")]
        assert "uploads are refused; make room" in text and "No space left on device" in text
        (disk / "ballast").unlink()
        with pytest.raises(OSError):
            for number in range(100):
                (disk / str(number)).touch()
        found, text = bad(doctor(settings))
        assert found == [("dataDir", "failed")] and "can hold no more files" in text


@pytest.mark.parametrize("block", [1024, 4096])
def test_a_file_system_with_small_blocks(settings, tmp_path, block):
    with small(tmp_path / "disk", "ext4", 16 * MIB, block) as disk:
        settings["SLUICE_DATA_DIR"] = disk / "data"
        found, text = bad(doctor(settings))
        assert ("blocks of 1024 bytes" in text) == (("state", "warning") in found) == (block == 1024)


def test_a_disk_that_is_mounted_for_reading_only(settings, tmp_path):
    with mounted(tmp_path / "disk", ["-t", "tmpfs", "-o", "size=1M,ro"], "tmpfs") as disk:
        settings["SLUICE_DATA_DIR"] = disk / "data"
        found, text = bad(doctor(settings))
        assert ("dataDir", "failed") in found and "Read-only file system" in text
        settings["SLUICE_DATA_DIR"] = disk
        found, text = bad(doctor(settings))
        assert ("dataDir", "failed") in found and "Read-only file system" in text


def test_a_file_system_without_extended_attributes(settings, tmp_path):
    with mounted(tmp_path / "disk", ["-t", "hugetlbfs"], "none") as disk:
        for data in (disk / "data", disk):
            settings["SLUICE_DATA_DIR"] = data
            disk.chmod(0o700)
            found, text = bad(doctor(settings))
            assert ("dataDir", "failed") in found and "no extended attributes" in text
            assert "no extended attributes" not in bad(doctor(settings | {"SLUICE_DURABILITY": "none"}))[1]


@pytest.mark.parametrize("kind", ["create", "pwrite", "fsync", "pread", "setxattr", "getxattr"])
def test_the_probe_finds_what_does_not_work(settings, tmp_path, kind):
    """Each call fails with EIO. Attributes are probed: the gateway records in them what survives a power cut."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    faults = Faults(tmp_path, data)
    if faults.library is None:
        pytest.skip("needs a C compiler")
    settings |= faults.environment
    assert bad(doctor(settings, "--probe"))[0] == []
    with faults.armed(kinds=[kind], pattern="doctor-*", sticky=True):
        found, text = bad(doctor(settings, "--probe"))
        assert found == [("dataDir", "failed")] and "Input/output error" in text
        assert bad(doctor(settings))[0] == []
    # An unlink that works leaves nothing.
    assert [path for path in data.iterdir() if "doctor" in path.name] == []


# State and database


def test_a_file_of_an_older_version_is_fine(on_file, settings):
    server = on_file().start()
    server.stop()
    with sqlite3.connect(server.data / "state.sqlite") as database:
        database.execute("DELETE FROM grdb_migrations WHERE rowid = (SELECT max(rowid) FROM grdb_migrations)")
    database.close()
    settings["SLUICE_DATA_DIR"] = server.data
    results = doctor(settings)
    assert bad(results)[0] == []
    assert "the next start changes its tables" in next(one["text"] for one in results if one["check"] == "state")


@pytest.fixture
def database(settings):
    """An empty one, and the settings of a gateway that uses it."""
    server = shared()
    url = server.make_database()
    settings["SLUICE_DATABASE_URL"] = url
    settings["SLUICE_MASTER_SECRET"] = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    return server, url


def test_a_database_that_is_too_old(settings, database):
    """A function in the place of PostgreSQL's own says that it is."""
    server, url = database
    name = url.rsplit("/", 1)[1]
    server.query("CREATE SCHEMA old", url)
    server.query(
        """CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql AS $$ SELECT CASE name
        WHEN 'server_version_num' THEN '110022' WHEN 'server_version' THEN '11.22'
        ELSE pg_catalog.current_setting(name) END $$""",
        url,
    )
    server.query(f"ALTER DATABASE {name} SET search_path = old, pg_catalog", url)
    found, text = bad(doctor(settings))
    assert found == [("database", "failed")] and "PostgreSQL 11.22" in text and "is too old" in text


def test_a_database_of_a_newer_version_or_amid_a_migration(settings, database, make_server):
    server, url = database
    environment = {name: settings[name] for name in ("SLUICE_DATABASE_URL", "SLUICE_MASTER_SECRET")}
    make_server(environment=environment).start().stop()
    results = doctor(settings)
    assert bad(results)[0] == []
    assert "are those of this version" in next(one["text"] for one in results if one["check"] == "database")
    server.query("INSERT INTO sluice_migration VALUES (999, now())", url)
    found, text = bad(doctor(settings))
    assert found == [("database", "failed")] and "newer version" in text
    server.query("DELETE FROM sluice_migration WHERE number = 999", url)
    # As a migration that was cut off leaves it.
    server.query("CREATE TABLE state_import (source text, progress text, finished_at timestamptz)", url)
    server.query("INSERT INTO state_import VALUES ('x', '{}', NULL)", url)
    found, text = bad(doctor(settings))
    assert found == [("database", "failed")] and "a migration into it is not finished" in text


def test_a_database_whose_user_may_do_nothing(settings, database):
    server, url = database
    name = url.rsplit("/", 1)[1]
    user = f"nobody_{name}"
    server.query("REVOKE CREATE ON SCHEMA public FROM PUBLIC", url)
    server.query(f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}'")
    settings["SLUICE_DATABASE_URL"] = f"postgres://{user}:{SECRET}@127.0.0.1:{server.port}/{name}"
    found, text = bad(doctor(settings))
    assert found == [("database", "failed")] and "may not create tables" in text
    settings["SLUICE_DATABASE_URL"] = f"postgres://{user}:not{SECRET}@127.0.0.1:{server.port}/{name}"
    assert bad(doctor(settings))[0] == [("database", "failed")]


def test_a_database_with_too_few_connections(settings, database):
    server, _ = database
    found, text = bad(doctor(settings | {"SLUICE_DATABASE_CONNECTIONS": server.options["max_connections"]}))
    assert found == [("database.connections", "warning")] and "raise max_connections" in text


# Store, certificates, the gateway


def test_a_clock_far_from_the_stores(settings):
    with Store(ahead=-400) as store:
        found, text = bad(doctor(settings | store.settings))
        assert found == [("clock", "failed")] and "ahead of that of the store" in text


def test_a_store_that_refuses_the_probe(settings):
    with Store() as store:
        store.refuses = True
        assert bad(doctor(settings | store.settings))[0] == []
        assert bad(doctor(settings | store.settings, "--probe"))[0] == [("store", "failed")]


def test_a_certificate_that_is_missing_or_no_certificate(settings, tmp_path, certificate):
    wrong = tmp_path / "certificate.pem"
    for text in (None, "nonsense"):
        if text:
            wrong.write_text(text)
        found, said = bad(doctor(settings | certificate.settings | {"SLUICE_TLS_CERTIFICATE": wrong}))
        assert found == [("tls.certificate", "failed")] and str(wrong) in said


def test_a_public_url_without_tls_for_a_gateway_with_it(settings, certificate):
    extra = certificate.settings | {"SLUICE_PUBLIC_URL": "http://uploads.example"}
    found, _ = bad(doctor(settings | extra))
    assert sorted(found) == [("publicURL", "warning"), ("tls.certificate", "warning")]


def test_a_gateway_that_is_about_to_stop_is_not_ready(on_file):
    listen = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}", "SLUICE_TIMEOUTS_DRAIN": "60s"}
    server = on_file(environment=listen | FEW).start()
    assert bad(doctor(server.environment))[0] == []
    server.process.terminate()
    until(lambda: requests.get(server.url + "/readyz", timeout=10).status_code == 503)
    found, text = bad(doctor(server.environment))
    assert found == [("gateway", "failed")] and "it runs and is not ready" in text
    server.kill()


# Hooks


def test_programs_of_hooks(settings, tmp_path):
    hooks = tmp_path / "hooks"
    settings["SLUICE_HOOKS_DIRECTORY"] = hooks
    assert bad(doctor(settings))[0] == [("hooks.directory", "failed")]
    hooks.mkdir()
    (hooks / "pre-create").write_text("#!/bin/sh\n")
    (hooks / "pre-create").chmod(0o644)
    found, text = bad(doctor(settings))
    assert found == [("hooks.directory", "failed")] and "cannot be executed" in text
    (hooks / "pre-create").chmod(0o755)
    assert bad(doctor(settings))[0] == []
    (hooks / "before-create").touch()
    found, text = bad(doctor(settings))
    assert found == [("hooks.directory", "warning")] and "before-create" in text
