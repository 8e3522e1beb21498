"""Programs in `hooks.directory`: payloads and responses as in test_hooks.py, and what child processes can do wrong."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from test_hooks import deliveries, shape
from test_service import metrics

from harness.api import API, path_of, problem, tus_error, tus_patch, upload_id
from harness.collector import Collector
from harness.data import MIB, content
from harness.receiver import Receiver
from harness.server import run
from harness.wire import Wire, until

EVERYTHING = "pre-create, post-create, post-receive, pre-finish, post-finish, pre-terminate, post-terminate"
NAMES = EVERYTHING.split(", ")

# Notes what it was given as a line of JSON, and answers with the file `reply` beside the notes, if there is one.
RECORDER = """#!{python}
import json, os, sys
payload = json.load(sys.stdin)
note = {{
    "payload": payload, "environment": dict(os.environ), "directory": os.getcwd(), "arguments": sys.argv,
    "group": os.getpgrp(), "session": os.getsid(0), "process": os.getpid(),
    "descriptors": sorted(int(one) for one in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + one)),
}}
with open("{notes}", "ab", buffering=0) as file:
    file.write(json.dumps(note).encode() + b"\\n")
try:
    with open("{notes}." + payload["Type"]) as file:
        sys.stdout.write(file.read())
except FileNotFoundError:
    pass
"""


class Programs:
    """A directory of programs."""

    def __init__(self, path):
        self.path = path / "hooks"
        self.path.mkdir()
        self.notes_path = path / "notes"

    def add(self, name, text, mode=0o755):
        """A program; it replaces an older one at once, even while that runs."""
        new = self.path / ".new"
        new.write_text(text)
        new.chmod(mode)
        new.rename(self.path / name)

    def shell(self, name, text):
        self.add(name, f"#!/bin/sh\n{text}\n")

    def record(self, *names):
        for name in names or NAMES:
            self.add(name, RECORDER.format(python=sys.executable, notes=self.notes_path))

    def reply(self, name, value):
        (self.notes_path.parent / f"notes.{name}").write_text(json.dumps(value))

    @property
    def notes(self):
        if not self.notes_path.exists():
            return []
        return [json.loads(line) for line in self.notes_path.read_text().splitlines()]

    def of(self, name, upload=None):
        return [
            note
            for note in self.notes
            if note["payload"]["Type"] == name and upload in (None, note["payload"]["Event"]["Upload"]["ID"])
        ]

    def wait(self, name, count=1, upload=None, timeout=20):
        return until(lambda: len(found := self.of(name, upload)) >= count and found, timeout=timeout)


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


@pytest.fixture
def hooked(make_server, programs):
    """A server that runs the programs; called with further settings."""

    def start(prefix=(), **environment):
        defaults = {"DIRECTORY": str(programs.path), "EVENTS": EVERYTHING, "TIMEOUT": "10s"}
        settings = {f"SLUICE_HOOKS_{name}": value for name, value in (defaults | environment).items()}
        settings["SLUICE_UPLOADS_DELETE_AFTER_COMPLETION"] = "true"
        server = make_server(environment=settings, prefix=prefix).start()
        return server, API(server.url, server.admin_key)

    return start


def log_lines(server, message):
    lines = [json.loads(line) for line in server.whole_log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"].startswith(message)]


def children(server):
    """The states of all processes below the server, by process."""
    found, wanted = {}, {server.pid}
    table = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            table.append((int(name), int(fields[1]), fields[0]))
    for _ in range(5):
        for process, parent, state in table:
            if parent in wanted:
                wanted.add(process)
                found[process] = state
    return found


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# What a program gets


def test_a_program_gets_the_payload_of_the_other_hooks_and_nothing_of_the_gateway(hooked, programs):
    programs.record()
    server, api = hooked()
    url = api.created(5, metadata={"filename": "a.txt"}, headers={"x-TENANT": "t1"})
    identifier = upload_id(url)
    assert api.patch(url, 0, b"abcde").status_code == 204
    programs.wait("post-finish", upload=identifier)
    assert api.terminate(url).status_code == 204
    programs.wait("post-terminate", upload=identifier)

    (first,) = programs.of("pre-create")
    assert shape(first["payload"]) == {
        "Type": "str",
        "Event": {
            "Upload": {
                "ID": "str",
                "Size": "int",
                "SizeIsDeferred": "bool",
                "Offset": "int",
                "MetaData": {"filename": "str"},
                "Subject": "NoneType",
                "IsPartial": "bool",
                "IsFinal": "bool",
                "PartialUploads": "NoneType",
                "Storage": "NoneType",
            },
            "HTTPRequest": {
                "Method": "str",
                "URI": "str",
                "RemoteAddr": "str",
                "Header": {name: ["str"] for name in first["payload"]["Event"]["HTTPRequest"]["Header"]},
            },
        },
    }
    assert first["payload"]["Event"]["HTTPRequest"]["Header"]["X-Tenant"] == ["t1"]
    for name in NAMES:
        note = programs.of(name)[-1]
        upload = note["payload"]["Event"]["Upload"]
        environment = note["environment"]
        assert environment.pop("SLUICE_HOOK_ID").startswith("msg_")
        assert environment == {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TUS_ID": "" if name == "pre-create" else identifier,
            "TUS_SIZE": "5",
            "TUS_OFFSET": str(upload["Offset"]),
        }
        assert note["directory"] == str(programs.path) and note["arguments"] == [str(programs.path / name)]
        assert note["descriptors"] == [0, 1, 2]
        assert note["group"] == note["session"] == note["process"]
        assert server.admin_key not in json.dumps(note) and path_of(url).rsplit(".", 1)[1] not in json.dumps(note)
    # The id of an event is that of its delivery.
    known = {one["id"] for one in deliveries(api, "delivered")}
    assert {note["environment"]["SLUICE_HOOK_ID"] for note in programs.of("post-finish")} <= known
    until(lambda: children(server) == {})


def test_signals_have_their_defaults_and_descriptors_are_closed(hooked, programs, tmp_path):
    """In a shell, as Python changes signals itself; the server inherited a descriptor without O_CLOEXEC."""
    programs.shell("pre-create", f"cat /proc/self/status > {tmp_path}/status; ls -l /proc/$$/fd > {tmp_path}/fd")
    prefix = [sys.executable, "-c", "import os, sys; os.dup2(0, 77); os.execvp(sys.argv[1], sys.argv[1:])"]
    server, api = hooked(prefix=prefix)
    assert os.path.exists(f"/proc/{server.pid}/fd/77")
    api.created(1)
    status = dict(line.split(":\t") for line in (tmp_path / "status").read_text().splitlines() if ":\t" in line)
    # Signals 32 and 33 are of the C library, which ignores them in what it spawns.
    assert int(status["SigIgn"], 16) & ~(3 << 31) == 0 and int(status["SigBlk"], 16) == 0
    lines = (tmp_path / "fd").read_text().splitlines()
    numbers = {int(line.split(" -> ")[0].split()[-1]) for line in lines if " -> " in line}
    # Shells have the script open, and copies of what they redirect, from 10 on.
    assert {0, 1, 2} <= numbers and not numbers & {*range(3, 10), 77}


def test_a_gateway_that_was_started_without_standard_input_can_run_programs(hooked, programs):
    """Its pipes can have the numbers 0 to 2."""
    programs.record("pre-create")
    code = "import os, sys; [os.close(one) for one in (0, 2)]; os.execvp(sys.argv[1], sys.argv[1:])"
    programs.reply("pre-create", {"ChangeFileInfo": {"MetaData": {"filename": "b"}}})
    server, api = hooked(prefix=[sys.executable, "-c", code])
    assert "filename Yg==" in api.head(api.created(3)).headers["Upload-Metadata"]
    assert programs.of("pre-create")[0]["descriptors"] == [0, 1, 2]


def test_configured_fields_are_forwarded_to_blocking_programs(hooked, programs):
    programs.record("pre-create", "post-create")
    _, api = hooked(FORWARD_HEADERS="Cookie")
    api.created(1, headers={"Cookie": "session=1"})
    (note,) = programs.of("pre-create")
    assert note["payload"]["Event"]["HTTPRequest"]["Header"]["Cookie"] == ["session=1"]
    (note,) = programs.wait("post-create")
    assert "Cookie" not in note["payload"]["Event"]["HTTPRequest"]["Header"]


# What a program answers


def test_a_creation_is_refused_with_status_and_body(hooked, programs):
    programs.record("pre-create")
    server, api = hooked()
    programs.reply(
        "pre-create",
        {
            "RejectUpload": True,
            "HTTPResponse": {"StatusCode": 402, "Body": "pay first", "Header": {"X-Reason": "quota"}},
        },
    )
    answer = api.create(5)
    assert (answer.status_code, answer.text, answer.headers["X-Reason"]) == (402, "pay first", "quota")
    programs.reply("pre-create", {"RejectUpload": True})
    assert tus_error(api.create(5), 400) == "ERR_REJECTED"
    problem(api.post("/v1/tus/uploads", {"length": 5}), 400, "rejected")
    assert api.get("/v1/uploads").json()["uploads"] == []


def test_a_creation_is_changed_and_the_last_response_too(hooked, programs):
    programs.record("pre-create", "pre-finish", "pre-terminate")
    changes = {"ID": "videos/42", "MetaData": {"filename": "b.txt", "owner": "7"}}
    programs.reply("pre-create", {"ChangeFileInfo": changes})
    programs.reply("pre-finish", {"HTTPResponse": {"StatusCode": 200, "Body": "thanks"}})
    programs.reply("pre-terminate", {"RejectTermination": True, "HTTPResponse": {"StatusCode": 409}})
    _, api = hooked()
    url = api.created(3, metadata={"filename": "a.txt"})
    assert "videos%2F42" in url
    pairs = dict(pair.split(" ") for pair in api.head(url).headers["Upload-Metadata"].split(","))
    assert {key: base64.b64decode(value).decode() for key, value in pairs.items()} == changes["MetaData"]
    answer = api.patch(url, 0, b"abc")
    assert (answer.status_code, answer.text) == (200, "thanks")
    assert programs.of("pre-finish")[0]["environment"]["TUS_ID"] == "videos/42"
    assert api.terminate(url).status_code == 409


def test_a_running_upload_is_stopped(hooked, programs):
    programs.shell("post-receive", """echo '{"StopUpload": true, "HTTPResponse": {"StatusCode": 451}}'""")
    server, api = hooked(PROGRESS_EVERY="200ms")
    url = api.created(50 * MIB)
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 50 * MIB) + content(MIB, 1))
        assert wire.reply("PATCH").status == 451
    until(lambda: api.head(url).status_code == 410)


def test_an_empty_answer_accepts_and_standard_input_need_not_be_read(hooked, programs):
    programs.shell("pre-create", "exec <&-; exit 0")
    _, api = hooked()
    api.created(3, metadata={"filename": "a" * 4000})


def test_programs_in_the_way_of_the_examples_of_tusd(hooked, programs):
    """The payload from /dev/stdin, arithmetic with the environment, and what goes to standard error."""
    programs.shell("pre-create", "exit 0\nnever")
    programs.shell(
        "post-create", 'echo "created $TUS_ID of $TUS_SIZE" >&2\ncat /dev/stdin | grep -o \'"Type":"[^"]*"\' >&2'
    )
    programs.shell("post-receive", 'echo "$TUS_ID at $((100 * $TUS_OFFSET/$TUS_SIZE))%" >&2')
    programs.shell("pre-finish", "cat /dev/stdin > /dev/null")
    programs.shell("post-finish", 'echo "finished $TUS_ID" >&2\ncat /dev/stdin >&2')
    server, api = hooked()
    url = api.created(5)
    name = upload_id(url)
    assert api.patch(url, 0, b"he").status_code == 204
    until(lambda: f"{name} at 40%" in server.log.read_text())
    assert api.patch(url, 2, b"llo").status_code == 204
    said = [f"created {name} of 5", f"{name} at 100%", f"finished {name}"]
    until(lambda: all(line in server.log.read_text() for line in said))
    assert "post-create" in server.log.read_text()


def test_a_long_payload_is_read_whole(hooked, programs):
    """It is longer than a pipe holds."""
    programs.record("pre-create")
    _, api = hooked(FORWARD_HEADERS="x-quotes")
    # Each becomes two bytes in JSON; of fields that are not named only some have room.
    quotes = '"' * 32000
    others = {f"x-{number}": '"' * 1900 for number in range(4)}
    api.created(3, headers={"x-quotes": quotes} | others)
    (note,) = programs.of("pre-create")
    assert len(json.dumps(note["payload"])) > 76000
    assert note["payload"]["Event"]["HTTPRequest"]["Header"]["X-Quotes"] == [quotes]


def test_a_program_may_be_compiled_without_any_library(hooked, programs, tmp_path):
    source = tmp_path / "hook.c"
    source.write_text(
        "#include <stdio.h>\n"
        'int main(void) { while (getchar() != EOF) continue; puts("{\\"RejectUpload\\": true}"); }\n'
    )
    subprocess.run(["cc", "-static", "-o", programs.path / "pre-create", source], check=True)
    _, api = hooked()
    assert tus_error(api.create(3), 400) == "ERR_REJECTED"


# Failures

FAILURES = {
    "status": ("exit 3", "exited with status 3"),
    "signal": ("kill -KILL $$", "signal 9"),
    "garbage": ("echo nonsense", "is not the JSON"),
    "wrong value": ("""echo '{"HTTPResponse": {"StatusCode": 99}}'""", "99"),
    "too much": ("exec cat /dev/zero", "more than 65536 bytes"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_program_that_fails_refuses_or_allows(hooked, programs, name):
    text, reason = FAILURES[name]
    programs.shell("pre-create", text)
    programs.shell("pre-finish", text)
    server, api = hooked()
    start = time.monotonic()
    assert tus_error(api.create(3), 503) == "ERR_UNAVAILABLE"
    # At once, not at the timeout.
    assert time.monotonic() - start < 5
    assert api.get("/v1/uploads").json()["uploads"] == []
    (line,) = log_lines(server, "hook could not be called")
    assert reason in line["error"] and line["hook"] == "pre-create"
    programs.shell("pre-create", "exit 0")
    url = api.created(3)
    assert tus_error(api.patch(url, 0, b"abc"), 503) == "ERR_UNAVAILABLE"
    programs.shell("pre-finish", "exit 0")
    assert api.offset(url) == 3
    assert api.upload(upload_id(url))["state"] == "completed"
    server.stop()
    programs.shell("pre-create", text)
    server.environment["SLUICE_HOOKS_ON_FAILURE"] = "allow"
    server.start()
    # Only a crash is an outage; with a status, programs for tusd reject.
    assert API(server.url, server.admin_key).create(3).status_code == (201 if name == "signal" else 503)
    until(lambda: children(server) == {})


def test_a_program_that_is_missing_or_no_program_after_the_start(hooked, programs):
    programs.shell("pre-create", "exit 0")
    server, api = hooked()
    api.created(1)
    programs.add("pre-create", "exit 0\n")
    assert api.create(1).status_code == 503
    programs.add("pre-create", "#!/missing/interpreter\n")
    assert api.create(1).status_code == 503
    programs.add("pre-create", "#!/bin/sh\n", mode=0o644)
    assert api.create(1).status_code == 503
    (programs.path / "pre-create").unlink()
    assert api.create(1).status_code == 503
    errors = [line["error"] for line in log_lines(server, "hook could not be called")]
    assert "neither a program" in errors[0] and "missing" in errors[1]
    assert "Permission denied" in errors[2] and "missing" in errors[3]
    programs.shell("pre-create", "exit 0")
    api.created(1)


def test_a_program_can_ask_for_another_attempt(hooked, programs, tmp_path):
    """75 is EX_TEMPFAIL of sysexits.h."""
    programs.shell("pre-create", f"[ -e {tmp_path}/ready ] || {{ echo x >> {tmp_path}/tries; exit 75; }}")
    _, api = hooked()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(api.create(3).status_code))
    thread.start()
    until(lambda: (tmp_path / "tries").exists() and len((tmp_path / "tries").read_text().split()) >= 2)
    (tmp_path / "ready").touch()
    thread.join()
    assert answers == [201]


@pytest.mark.parametrize("obeys", [True, False])
def test_a_program_that_hangs_is_killed_with_its_group(hooked, programs, tmp_path, obeys):
    trap = "" if obeys else "trap '' TERM\n"
    programs.shell("pre-create", f"{trap}sleep 300 &\necho $! $$ > {tmp_path}/processes\nwait\nsleep 300")
    server, api = hooked(TIMEOUT="1s")
    start = time.monotonic()
    assert api.create(3).status_code == 503
    took = time.monotonic() - start
    # After the timeout, and for one that ignores SIGTERM after two seconds more.
    assert 1 <= took < (2.5 if obeys else 6)
    processes = (tmp_path / "processes").read_text().split()
    assert len(processes) == 2
    # A signal takes effect in a moment.
    until(lambda: not any(map(is_alive, processes)))
    until(lambda: children(server) == {})
    (line,) = log_lines(server, "hook could not be called")
    assert "hooks.timeout" in line["error"]


def test_what_a_program_leaves_behind_is_killed_and_delays_nothing(hooked, programs, tmp_path):
    """It holds standard output open. The gateway gets orphans as children, as the first process of a container does."""
    programs.shell("pre-create", f"sleep 300 & echo $! > {tmp_path}/process; echo '{{}}'")
    prefix = [
        sys.executable,
        "-c",
        # PR_SET_CHILD_SUBREAPER, which survives exec.
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execvp(sys.argv[1], sys.argv[1:])",
    ]
    server, api = hooked(prefix=prefix)
    start = time.monotonic()
    for _ in range(5):
        api.created(3)
    assert time.monotonic() - start < 5
    until(lambda: not is_alive((tmp_path / "process").read_text().strip()))
    until(lambda: children(server) == {})


def test_standard_error_is_in_the_log_within_limits(hooked, programs):
    programs.shell(
        "post-create",
        "printf 'first\\033[31m line\\n' >&2; head -c 5000 /dev/zero | tr '\\0' x >&2; echo >&2; "
        "i=0; while [ $i -lt 150 ]; do echo line $i >&2; i=$((i+1)); done; printf 'no line feed' >&2",
    )
    server, api = hooked(CONCURRENCY="1")
    identifier = upload_id(api.created(3))
    until(lambda: deliveries(api, "delivered"))
    lines = log_lines(server, "a hook program wrote")
    assert {(line["level"], line["hook"], line["upload"]) for line in lines} == {("warning", "post-create", identifier)}
    texts = [line["text"] for line in lines]
    assert texts[0] == "first\033[31m line" and texts[1] == "x" * 1000 + "…" and texts[2] == "line 0"
    assert len(texts) == 101 and texts[-1] == "… and 53 more lines"


def test_fifty_at_once_have_a_limit_and_block_nobody(hooked, programs, tmp_path):
    (tmp_path / "running").mkdir()
    programs.shell(
        "pre-create",
        f"cd {tmp_path}/running; : > $$; ls | wc -l >> {tmp_path}/counts; sleep 0.3; rm $$; cat > /dev/null",
    )
    server, api = hooked(CONCURRENCY="4", TIMEOUT="60s")
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(API(server.url, server.admin_key).create(3).status_code))
        for _ in range(50)
    ]
    for thread in threads:
        thread.start()
    with Wire(server.address) as wire:
        for _ in range(50):
            assert wire.exchange("GET", "/healthz").status == 200
    for thread in threads:
        thread.join()
    assert answers == [201] * 50
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    # Twice hooks.concurrency.
    assert len(counts) == 50 and 4 < max(counts) <= 8
    until(lambda: children(server) == {})


def test_programs_of_events_keep_no_blocking_hook_waiting(hooked, programs, tmp_path):
    programs.shell("post-create", f"while [ ! -e {tmp_path}/done ]; do sleep 0.1; done")
    programs.shell("pre-create", "exit 0")
    server, api = hooked(CONCURRENCY="2", TIMEOUT="30s")
    for _ in range(6):
        api.created(3)
    until(lambda: len([state for state in children(server).values()]) >= 2)
    start = time.monotonic()
    api.created(3)
    assert time.monotonic() - start < 5
    (tmp_path / "done").touch()
    until(lambda: len(deliveries(api, "delivered")) == 7)


# Events


def test_an_event_is_repeated_with_its_id_until_its_program_succeeds(hooked, programs, tmp_path):
    programs.shell("post-create", f"echo $SLUICE_HOOK_ID >> {tmp_path}/ids; [ -e {tmp_path}/ready ] || exit 4")
    programs.record("post-finish")
    _, api = hooked()
    url = api.created(3)
    assert api.patch(url, 0, b"abc").status_code == 204
    (event,) = until(lambda: [one for one in deliveries(api, "pending") if one["attempts"]])
    assert event["lastError"] == "the program exited with status 4"
    # In order.
    assert programs.of("post-finish") == []
    (tmp_path / "ready").touch()
    programs.wait("post-finish", upload=upload_id(url))
    ids = (tmp_path / "ids").read_text().split()
    assert len(ids) >= 2 and set(ids) == {event["id"]}
    values = metrics(api)
    assert values["sluice_hook_calls_total", '{hook="post-create",outcome="delivered"}'] == 1
    assert values["sluice_hook_calls_total", '{hook="post-create",outcome="retry"}'] >= 1


def test_an_event_that_is_given_up_is_delivered_again_on_request(hooked, programs):
    programs.shell("post-create", "exit 1")
    _, api = hooked(ATTEMPTS="1")
    api.created(3)
    (event,) = until(lambda: deliveries(api, "dead"))
    programs.record("post-create")
    assert api.post("/v1/hooks/redeliveries", {"state": "dead"}).json() == {"count": 1}
    (note,) = programs.wait("post-create")
    assert note["environment"]["SLUICE_HOOK_ID"] == event["id"]


@pytest.mark.parametrize("is_running", [False, True])
def test_an_event_is_delivered_after_the_gateway_was_killed(hooked, programs, tmp_path, is_running):
    """Between the upload and its hook, or while the program of its hook runs."""
    wait = f"echo $$ > {tmp_path}/process; while :; do sleep 0.1; done" if is_running else "exit 1"
    programs.shell("post-finish", wait)
    server, api = hooked(TIMEOUT="2s")
    url = api.created(3)
    assert api.patch(url, 0, b"abc").status_code == 204
    if is_running:
        until(lambda: (tmp_path / "process").exists() and (tmp_path / "process").read_text())
    server.kill()
    if is_running:
        os.kill(int((tmp_path / "process").read_text()), signal.SIGKILL)
    programs.record("post-finish")
    server.start()
    # A claim of the process that was killed lasts for hooks.timeout and a minute.
    (note,) = programs.wait("post-finish", upload=upload_id(url), timeout=90)
    assert note["payload"]["Event"]["Upload"]["Offset"] == 3


def test_the_end_of_the_gateway_ends_programs(hooked, programs, tmp_path):
    programs.shell("post-create", f"trap '' TERM; echo $$ > {tmp_path}/event; sleep 300; sleep 300")
    programs.shell("pre-finish", f"trap '' TERM; echo $$ > {tmp_path}/blocking; sleep 300; sleep 300")
    server, api = hooked(TIMEOUT="5m")
    server.stop()
    server.environment["SLUICE_TIMEOUTS_SHUTDOWN_GRACE"] = "1s"
    server.start()
    api = API(server.url, server.admin_key)
    url = api.created(3)
    thread = threading.Thread(target=lambda: cut(api, url))
    thread.start()
    processes = [until(lambda name=name: read(tmp_path / name)) for name in ("event", "blocking")]
    start = time.monotonic()
    server.stop()
    assert time.monotonic() - start < 15
    thread.join()
    until(lambda: not any(map(is_alive, processes)))
    # The event was not lost, and its claim was given back.
    programs.record("post-create")
    server.start()
    programs.wait("post-create", upload=upload_id(url), timeout=30)


def cut(api, url):
    try:
        api.patch(url, 0, b"abc")
    except OSError:
        pass  # the gateway ended


def read(path):
    return path.read_text().strip() if path.exists() else ""


# Metrics and spans


def test_a_program_is_a_span_and_can_continue_the_trace(hooked, programs, make_server):
    programs.record("pre-create", "post-create")
    programs.shell("pre-finish", "exit 3")
    with Collector() as collector:
        settings = {
            "SLUICE_HOOKS_DIRECTORY": str(programs.path),
            "SLUICE_HOOKS_EVENTS": EVERYTHING,
            "SLUICE_TRACING_ENDPOINT": collector.url,
            "SLUICE_TRACING_SAMPLE_RATIO": "1",
        }
        server = make_server(environment=settings).start()
        api = API(server.url, server.admin_key)
        url = api.created(3)
        assert api.patch(url, 0, b"abc").status_code == 503
        (created,) = programs.wait("post-create")
        (asked,) = programs.of("pre-create")
        (span,) = until(lambda: collector.find(process__executable__name="pre-create"))
        assert asked["environment"]["TRACEPARENT"] == f"00-{span.trace}-{span.id}-01"
        assert (span.name, span.kind, span.attributes["process.exit.code"]) == ("run pre-create", 3, 0)
        assert span.attributes["process.pid"] == asked["process"] and span.attributes["sluice.purpose"] == "hook"
        (event,) = until(lambda: collector.find(process__executable__name="post-create"))
        assert event.trace == span.trace
        assert created["environment"]["TRACEPARENT"] == f"00-{event.trace}-{event.id}-01"
        (failed,) = until(lambda: collector.find(process__executable__name="pre-finish"))
        assert failed.is_error and failed.attributes["error.type"] == "3"
        values = metrics(api)
        assert values["sluice_hook_calls_total", '{hook="pre-finish",outcome="failed"}'] == 1
        assert values["sluice_hook_duration_seconds_count", '{outcome="answered"}'] == 2
        assert values["sluice_hook_duration_seconds_count", '{outcome="failed"}'] == 1
        assert values["sluice_pool_threads", '{pool="hooks"}'] == 32
        server.stop()


# The start


def refused(environment):
    done = run("serve", environment=environment | {"SLUICE_GATEWAY_LISTEN": "127.0.0.1:0"}, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.fixture
def environment(programs, tmp_path):
    return {
        "SLUICE_DATA_DIR": str(tmp_path / "data"),
        "SLUICE_OBJECT_LISTEN": "none",
        "SLUICE_HOOKS_DIRECTORY": str(programs.path),
    }


def test_a_directory_that_cannot_be_used_is_refused(environment, programs, tmp_path):
    assert "has no program for a hook of hooks.events: pre-create" in refused(environment)
    programs.shell("pre-finish", "exit 0")
    assert "has no program" in refused(environment)
    programs.add("post-create", "#!/bin/sh\n", mode=0o644)
    programs.add("post-finish", "#!/missing/python3 -u\n")
    (programs.path / "pre-create").mkdir()
    text = refused(environment)
    # All at once.
    assert f"{programs.path}/post-create cannot be executed" in text and "chmod +x" in text
    assert f"{programs.path}/post-finish needs /missing/python3" in text
    assert f"{programs.path}/pre-create is not a file" in text
    assert "/missing is not there" not in text
    for path, reason in ((tmp_path / "none", "No such file"), (programs.path / "post-create", "not a directory")):
        assert reason in refused(environment | {"SLUICE_HOOKS_DIRECTORY": str(path)})


def test_programs_that_every_user_can_change_are_refused(environment, programs):
    programs.add("post-create", "#!/bin/sh\n", mode=0o757)
    assert f"every user can change {programs.path}/post-create" in refused(environment)
    programs.shell("post-create", "exit 0")
    programs.path.chmod(0o777)
    assert f"every user can change {programs.path}:" in refused(environment)


def test_a_directory_that_is_mounted_for_reading_only_may_have_any_mode(hooked, programs):
    """As a ConfigMap of Kubernetes."""
    programs.record("pre-create")
    programs.path.chmod(0o777)
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    prefix = ["unshare", "-m", "sh", "-c", mount, str(programs.path)]
    if subprocess.run([*prefix, "true"]).returncode != 0:
        pytest.skip("mounts need root")
    _, api = hooked(prefix=prefix)
    api.created(3)
    assert programs.of("pre-create")


def test_other_names_are_remarked_once(hooked, programs):
    for name in ("pre-create", "pre-finish", "pre-create.sh", "on-create"):
        programs.shell(name, "exit 0")
    (programs.path / "lib").mkdir()
    server, api = hooked(EVENTS="pre-create")
    api.created(3)
    remarks = [line["message"] for line in log_lines(server, "hooks.directory: ")]
    assert len(remarks) == 2
    assert f"{programs.path}/pre-finish is not run" in remarks[0]
    assert "no hook is named after: on-create, pre-create.sh;" in remarks[1]


def test_a_url_and_a_directory_exclude_each_other(environment, programs):
    programs.shell("pre-create", "exit 0")
    with Receiver("whsec_" + base64.b64encode(bytes(32)).decode()) as receiver:
        text = refused(environment | {"SLUICE_HOOKS_URL": receiver.url})
        assert "hooks.directory" in text and "together with hooks.url" in text
        assert receiver.calls == []
    assert "an absolute path" in refused(environment | {"SLUICE_HOOKS_DIRECTORY": "hooks"})
