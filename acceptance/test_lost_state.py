"""A lost, restored or wrong state erases nothing: the gateway reports it, and `sluice adopt` repairs it."""

import contextlib
import json
import re
import shutil
import sqlite3
import time

from harness.api import API, path_of, upload_id
from harness.data import content, sha256
from harness.server import run
from harness.wire import until


def blobs(data):
    return {path.name for path in (data / "blobs").rglob("*") if path.is_file()}


def mark(data):
    return json.loads((data / "store").read_text())


def ready(server):
    answer = API(server.url, None).get("/readyz", key=None)
    return answer.status_code, answer.json().get("code")


def remove_state(data):
    for path in data.glob("state.sqlite*"):
        path.unlink()


def assert_refused(server, code):
    """Alive, not ready, nothing written; the log says what to do. Returns the API."""
    api = API(server.url, server.admin_key)
    assert api.get("/healthz", key=None).status_code == 200
    answer = api.get("/readyz", key=None)
    assert answer.status_code == 503 and answer.json()["code"] == code, answer.text
    assert "sluice adopt" in answer.json()["detail"]
    answer = api.create(3)
    assert answer.status_code == 503, (answer.status_code, answer.text)
    assert "operator" in answer.text
    until(lambda: "sluice adopt" in server.log_tail(200))
    return api


def adopt(server, *arguments):
    return run("adopt", *arguments, environment=server.environment).stdout


def test_a_removed_state_does_not_remove_media(on_file):
    server = on_file(environment={"SLUICE_UPLOADS_SWEEP_EVERY": "1s"}).start()
    api = API(server.url, server.admin_key)
    bodies = {api.uploaded(body): body for body in (content(1000 + number, number) for number in range(30))}
    url = api.created(10)
    assert api.patch(url, 0, b"").status_code == 204
    opened = upload_id(url)
    server.stop()
    before = blobs(server.data)
    first = mark(server.data)
    assert len(before) == 31

    remove_state(server.data)
    server.start()
    api = assert_refused(server, "state_unknown")
    time.sleep(2.5)  # two sweeps that must not be
    assert blobs(server.data) == before
    assert api.get(f"/media/{next(iter(bodies))}").status_code == 404
    # While it runs the data directory is its own.
    done = run("adopt", environment=server.environment, check=False)
    assert done.returncode != 0 and "in use" in done.stderr
    server.stop()

    said = adopt(server, "--dry-run")
    assert "30 completed media" in said and "1 open uploads rebuilt" in said and "nothing was changed" in said
    server.start()
    assert_refused(server, "state_unknown")
    server.stop()

    assert "30 completed media" in adopt(server)
    server.start()
    api = API(server.url, server.admin_key)
    assert api.get("/readyz", key=None).status_code == 200
    for identifier, body in bodies.items():
        assert api.download_hash(identifier) == (sha256(body), len(body))
    assert api.upload(opened)["state"] == "open"
    # Its URL is as good as before: the secret was not lost.
    assert api.offset(server.url + path_of(url)) == 0
    time.sleep(1.5)
    assert blobs(server.data) == before and not (server.data / "quarantine").exists()
    identifier = api.uploaded(b"new")
    assert api.get(f"/media/{identifier}").content == b"new"
    assert mark(server.data)["id"] == first["id"]
    assert "30 uploads" not in adopt_again(server) and "32 uploads have a record" in adopt_again(server)
    server.start()


def adopt_again(server):
    server.stop()
    return adopt(server)


def test_an_older_backup_does_not_remove_newer_media(on_file, tmp_path):
    server = on_file().start()
    api = API(server.url, server.admin_key)
    old = api.uploaded(b"old")
    url = api.created(6)
    assert api.patch(url, 0, b"abc").status_code == 204
    with contextlib.closing(sqlite3.connect(server.data / "state.sqlite")) as source:
        with contextlib.closing(sqlite3.connect(tmp_path / "backup.sqlite")) as backup:
            source.backup(backup)
    # In the backup this one is open.
    assert api.patch(url, 3, b"def").status_code == 204
    newer = [api.uploaded(content(500, number)) for number in range(3)]
    server.stop()
    before = blobs(server.data)

    remove_state(server.data)
    shutil.copy(tmp_path / "backup.sqlite", server.data / "state.sqlite")
    server.start()
    api = assert_refused(server, "state_older")
    # What is known is readable.
    assert api.get(f"/media/{old}").content == b"old"
    assert api.get(f"/media/{newer[0]}").status_code == 404
    server.stop()
    assert blobs(server.data) == before

    assert "3 completed media" in adopt(server)
    server.start()
    api = API(server.url, server.admin_key)
    for number, identifier in enumerate(newer):
        assert api.get(f"/media/{identifier}").content == content(500, number)
    until(lambda: api.upload(upload_id(url))["state"] == "completed", timeout=20)
    assert api.get(f"/media/{upload_id(url)}").content == b"abcdef"
    assert blobs(server.data) == before


def test_a_wrong_database_is_detected(make_server, postgres, tmp_path):
    one, other = postgres.environment(tmp_path / "one"), postgres.environment(tmp_path / "other")
    server = make_server(environment=one).start()
    kept = API(server.url, server.admin_key).uploaded(b"kept")
    server.stop()
    elsewhere = make_server("elsewhere", environment=other).start()
    API(elsewhere.url, elsewhere.admin_key).uploaded(b"other")
    elsewhere.stop()

    for url, code in ((other["SLUICE_DATABASE_URL"], "other_pair"), (postgres.make_database(), "state_unknown")):
        server.environment["SLUICE_DATABASE_URL"] = url
        server.start()
        assert_refused(server, code)
        server.stop()
    assert blobs(server.data) == {kept}
    server.environment["SLUICE_DATABASE_URL"] = one["SLUICE_DATABASE_URL"]
    server.start()
    assert API(server.url, server.admin_key).get(f"/media/{kept}").content == b"kept"
    server.stop()

    # A file system that is not mounted is no storage of this state.
    (server.data / "blobs").rename(tmp_path / "blobs")
    (server.data / "store").rename(tmp_path / "store")
    server.start()
    assert_refused(server, "storage_unknown")
    server.stop()


def test_orphans_are_quarantined_unless_there_are_too_many(on_file):
    server = on_file().start()
    api = API(server.url, server.admin_key)
    identifiers = [api.uploaded(content(100, number)) for number in range(60)]
    server.stop()

    def forget(some):
        with contextlib.closing(sqlite3.connect(server.data / "state.sqlite")) as state, state:
            for identifier in some:
                state.execute("DELETE FROM media WHERE id = ?", [identifier])
                state.execute("DELETE FROM upload WHERE id = ?", [identifier])

    def orphans():
        return {path.name for path in (server.data / "quarantine").glob("*/*")}

    forget(identifiers[:5])
    server.start()
    until(lambda: orphans() == set(identifiers[:5]), timeout=20)
    assert blobs(server.data) == set(identifiers[5:])
    server.stop()

    # As docs/operations.md has it.
    back = identifiers[0]
    (path,) = (server.data / "quarantine").glob(f"*/{back}")
    path.rename(server.data / "blobs" / back[-2:] / back)
    assert "1 completed media" in adopt(server)
    server.start()
    assert API(server.url, server.admin_key).get(f"/media/{back}").content == content(100, 0)
    server.stop()
    # It was allowed more, which that sweep did not need.
    forget(identifiers[10:50])
    with contextlib.closing(sqlite3.connect(server.data / "state.sqlite")) as state, state:
        state.execute("UPDATE store SET is_sweep_approved = 0")

    server.start()
    api = API(server.url, server.admin_key)
    until(lambda: "sluice_orphans_left 40" in api.get("/metrics").text, timeout=20)
    # Lines are written a moment after the metric is set.
    until(lambda: "too many blobs have no record" in server.log_tail(200))
    assert len(blobs(server.data)) == 56
    assert api.get("/readyz", key=None).status_code == 200
    server.stop()
    assert "40 left" in adopt(server, "--accept")
    server.start()
    until(lambda: len(orphans()) == 44, timeout=20)
    assert len(blobs(server.data)) == 16


def test_after_a_clean_stop_the_file_is_a_complete_copy(on_file, tmp_path):
    server = on_file().start()
    identifier = API(server.url, server.admin_key).uploaded(b"abc")
    server.stop()
    for path in server.data.glob("state.sqlite-*"):
        path.unlink()
    server.start()
    assert API(server.url, server.admin_key).get(f"/media/{identifier}").content == b"abc"
    server.stop()
    assert re.fullmatch("[0-9a-f]{32}", mark(server.data)["id"])


# Under a gateway that serves


def test_a_gateway_is_not_ready_while_directories_of_blobs_are_gone(on_file):
    """Such as after a mount that was lost, or a clean-up of the wrong directory."""
    server = on_file().start()
    api = API(server.url, server.admin_key)
    for number in range(3):
        api.uploaded(content(1000, number))
    assert ready(server) == (200, None)
    moved = server.data.parent / "moved"
    for name in ("blobs", "*"):
        moved.mkdir()
        taken = [server.data / name] if name == "blobs" else list((server.data / "blobs").iterdir())
        for path in taken:
            path.rename(moved / path.name)
        assert ready(server)[0] == 503
        assert api.get("/healthz", key=None).status_code == 200
        assert str(server.data) not in api.get("/readyz", key=None).text
        for path in moved.iterdir():
            path.rename((server.data if name == "blobs" else server.data / "blobs") / path.name)
        moved.rmdir()
        assert ready(server) == (200, None)
    server.stop()


def test_a_gateway_whose_storage_was_replaced_is_not_ready_and_removes_nothing(on_file):
    server = on_file(environment={"SLUICE_UPLOADS_SWEEP_EVERY": "1s"}).start()
    api = API(server.url, server.admin_key)
    kept = api.uploaded(content(1000, 1))
    before, own = blobs(server.data), mark(server.data)
    until(lambda: mark(server.data)["epoch"] > own["epoch"])
    text = (server.data / "store").read_text()
    for wrong, code in (
        (None, "storage_unknown"),
        (json.dumps(mark(server.data) | {"id": "0" * 32}), "other_pair"),
        (json.dumps(mark(server.data) | {"epoch": 10**6}), "state_older"),
    ):
        if wrong is None:
            (server.data / "store").unlink()
        else:
            (server.data / "store").write_text(wrong)
        assert ready(server) == (503, code)
        # Something to record: without it, the mark would not change anyway.
        api.created(5)
        swept = swept_count(api)
        until(lambda swept=swept: swept_count(api) > swept + 1)
        assert ready(server) == (503, code)
        assert not (server.data / "store").exists() if wrong is None else mark(server.data) == json.loads(wrong)
        assert before <= blobs(server.data)
        (server.data / "store").write_text(text)
        assert ready(server) == (200, None)
    assert api.get(f"/media/{kept}").content == content(1000, 1)
    server.stop()


def swept_count(api):
    return int(re.search(r"^sluice_sweeps_total (\d+)", api.get("/metrics").text, re.MULTILINE)[1])
