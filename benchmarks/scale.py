"""Times requests to two gateways in turns: one has many uploads and events in its state, the other few.

Run it by `benchmarks/scale`. Nothing is asserted about time.
"""

import argparse
import contextlib
import functools
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import scale_media
from common import HERE, KEY, say
from guard_requests import AUTHORIZED, BYTES, CONTENT, OPEN_BYTES, TUS, Connection
from processes import Peer
from servers import BINARY

sys.path.insert(0, str(HERE.parent / "acceptance"))

from harness.postgres import Postgres  # noqa: E402

FEW = 100
# Of the uploads with a number divisible by this, the state is open.
OPEN_EVERY = 100
# Of each subject, as many as fill a page.
UPLOADS_EACH = 50


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/scale", description=__doc__.splitlines()[0])
    parser.add_argument("--uploads", type=int, default=1_000_000, help="in the full state (default 1000000)")
    parser.add_argument("--events-each", type=int, default=10, help="events of each upload (default 10)")
    parser.add_argument("--media", type=int, help="of each video service in the full state, to compare searches")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--requests", type=int, default=300, help="of each kind in a round (default 300)")
    parser.add_argument("--directory", type=Path, help="where the servers store (default: the temporary directory)")
    return parser.parse_args()


def filling(uploads, events_each):
    """SQL for both databases: uploads, most completed, with media and delivered events."""
    now = int(time.time() * 1000)
    subject = f"'user' || (i % {uploads // UPLOADS_EACH})"
    numbers = "WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {})"
    each = numbers.format(uploads)
    is_open = f"i % {OPEN_EVERY} = 0"
    identifier = "('0000000000000000' || (1000000000 + {}))"
    mine = identifier.format("i")
    yield f"""
        INSERT INTO upload (id, dialect, subject, principal, issuer, length, reserved_bytes, completes_when_full, state,
            metadata, created_at, updated_at, expires_at, ended_at)
        {each} SELECT {mine}, 'tus', {subject}, 'key', 'key_1', 5, 0, (1 = 1),
            CASE WHEN {is_open} THEN 'open' ELSE 'completed' END, '{{}}', {now}, {now},
            CASE WHEN {is_open} THEN {now + 86_400_000} END, CASE WHEN {is_open} THEN NULL ELSE {now} END
        FROM number
    """
    yield """
        INSERT INTO media (id, subject, size, metadata, created_at)
        SELECT id, subject, length, '{}', created_at FROM upload WHERE state = 'completed'
    """
    content = (
        '{"createdAt":1,"dialect":"tus","issuer":"key_1","length":5,"metadata":{},"offset":5,"principal":"key",'
        '"state":"completed","updatedAt":1}'
    )
    # A statement for each million.
    count = uploads * events_each - 1
    for begin in range(0, count, 1_000_000):
        number = f"({begin} + i)"
        owner = identifier.format(f"1 + {number} / {events_each}")
        yield f"""
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content, delivery, attempts,
                settled_at)
            {numbers.format(min(1_000_000, count - begin))}
            SELECT {number}, 'msg_' || {number}, 'updated', {owner}, {subject}, {now}, '{content}',
                'delivered', 1, {now}
            FROM number
        """


def fill_uploads(environment, uploads, events_each, postgres):
    say(f"filling a state with {uploads} uploads and {uploads * events_each} events")
    last = f"UPDATE event_counter SET last = {uploads * events_each}"
    fill(environment, [*filling(uploads, events_each), *([last] if postgres else [])], postgres)


def fill(environment, statements, postgres):
    if postgres:
        url = environment["SLUICE_DATABASE_URL"]
        for statement in [*statements, "ANALYZE"]:
            postgres.query(statement, url)
        return
    path = Path(environment["SLUICE_DATA_DIR"]) / "state.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as state:
        state.execute("PRAGMA synchronous = OFF")
        state.execute("PRAGMA cache_size = -500000")
        for statement in statements:
            with state:
                state.execute(statement)


def scalar(environment, statement, postgres):
    if postgres:
        return int(postgres.query(statement, environment["SLUICE_DATABASE_URL"])[0][0])
    path = Path(environment["SLUICE_DATA_DIR"]) / "state.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as state:
        return state.execute(statement).fetchone()[0]


def start(environment, folder):
    return Peer(
        "sluice",
        [BINARY, "serve"],
        environment=environment,
        pattern=r"listening on http://127\.0\.0\.1:(\d+)\n",
        log=folder / "output",
    )


class Subject:
    """A gateway, and what its requests need."""

    def __init__(self, folder, postgres, fill_state, objects="none"):
        folder.mkdir(parents=True)
        self.environment = environment = {
            "SLUICE_DATA_DIR": str(folder / "data"),
            "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
            "SLUICE_OBJECT_LISTEN": objects,
            "SLUICE_ADMIN_KEY": KEY,
            "SLUICE_DURABILITY": "none",
            "SLUICE_LOG_LEVEL": "warning",
            "SLUICE_UPLOADS_SWEEP_EVERY": "1h",
            "SLUICE_VIMEO_CALLS_PER_MINUTE": "1000000",
        }
        if postgres:
            environment |= postgres.environment(folder / "data")
        # Once, for the schema.
        start(environment, folder).stop()
        fill_state(environment)
        self.started = time.monotonic()
        self.peer = start(environment, folder)
        self.seconds_to_start = time.monotonic() - self.started
        self.connection = None
        self.path = None
        self.offset = OPEN_BYTES

    def connect(self):
        # Not before all states are filled: an idle connection ends after a while.
        self.connection = Connection(self.peer.port)

    def _send(self, method, path, fields, status, content=b""):
        request = self.connection.request(method, path, TUS | AUTHORIZED | fields, content)
        begin = time.perf_counter()
        head = self.connection.send((request, status))
        return time.perf_counter() - begin, head

    def create(self):
        seconds, head = self._send("POST", "/files", {"Upload-Length": OPEN_BYTES}, 201)
        self.path = re.search(r"(?i)\r\nlocation: *http://[^/]*(\S+)", head)[1]
        self.offset = 0
        return seconds

    def head(self):
        return self._send("HEAD", self.path, {}, 200)[0]

    def append(self):
        seconds, _ = self._send("PATCH", self.path, BYTES | {"Upload-Offset": self.offset}, 204, CONTENT)
        self.offset += len(CONTENT)
        return seconds

    def whole(self):
        return self._send("POST", "/files", BYTES | {"Upload-Length": len(CONTENT)}, 201, CONTENT)[0]

    def page(self):
        return self._send("GET", "/v1/uploads?limit=50", {}, 200)[0]

    def page_of_a_subject(self):
        return self._send("GET", "/v1/uploads?limit=50&subject=user1&state=open,completed", {}, 200)[0]


OPERATIONS = {
    "create": Subject.create,
    "HEAD": Subject.head,
    "append of 1 KiB": Subject.append,
    "upload of 1 KiB": Subject.whole,
    "page of 50 uploads": Subject.page,
    "page of a subject": Subject.page_of_a_subject,
}


def measure(subjects, operations, options, at_most=None):
    """Medians in microseconds by operation: of the few, of the many.

    `at_most` bounds the requests of a round by operation.
    """
    found = {}
    for name, operation in operations.items():
        rounds = {subject: [] for subject in subjects}
        requests = min(options.requests, (at_most or {}).get(name, options.requests))
        for number in range(options.rounds + 1):
            for subject in subjects if number % 2 else reversed(subjects):
                times = [operation(subject) for _ in range(requests)]
                if number:
                    rounds[subject].append(statistics.median(times) * 1e6)
        found[name] = [statistics.median(rounds[subject]) for subject in subjects]
        say(f"{name}: " + ", ".join(f"{time:.0f} us" for time in found[name]))
    return found


def compare_uploads(stack, folder, postgres, options):
    subjects = []
    for name, uploads in (("few", FEW), ("many", options.uploads)):

        def fill_state(environment, uploads=uploads):
            fill_uploads(environment, uploads, options.events_each, postgres)

        subjects.append(Subject(folder / name, postgres, fill_state))
        stack.callback(subjects[-1].peer.stop)
    for subject in subjects:
        subject.connect()
    found = measure(subjects, OPERATIONS, options)
    print(f"{options.database}: {FEW} uploads and {options.uploads}, {options.events_each} events each\n")
    return found, "start to first connection, ms", [subject.seconds_to_start * 1000 for subject in subjects]


def compare_media(stack, folder, postgres, options):
    callers = []
    for name, media in (("few", scale_media.FEW_MEDIA), ("many", options.media)):
        begin = int(time.time() - media) * 1000

        def fill_state(environment, media=media, begin=begin):
            say(f"filling a state with {media} media of each service")
            fill(environment, scale_media.filling(media, begin), postgres)

        subject = Subject(folder / name, postgres, fill_state, objects="127.0.0.1:0")
        stack.callback(subject.peer.stop)
        callers.append(scale_media.Caller(subject, media, begin))
    for caller in reversed(callers):
        environment = caller.subject.environment
        caller.prepare(functools.partial(scalar, environment, scale_media.WITHOUT_TERMS, postgres))
        if postgres:
            # As some minutes later: until then, the index of records without terms has all that had none.
            postgres.query("VACUUM ANALYZE", environment["SLUICE_DATABASE_URL"])
    for caller in callers:
        caller.subject.connect()
    # At most half of the few are removed.
    removals = scale_media.FEW_MEDIA // 2 // (options.rounds + 1)
    found = measure(callers, scale_media.OPERATIONS, options, {scale_media.REMOVAL: removals})
    print(f"{options.database}: {scale_media.FEW_MEDIA} media of each service and {options.media}\n")
    return found, "until the terms are added, s", [caller.seconds_to_prepare for caller in callers]


def main():
    options = parse_options()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        postgres = stack.enter_context(Postgres()) if options.database == "postgres" else None
        compare = compare_uploads if options.media is None else compare_media
        found, last, (few, many) = compare(stack, folder, postgres, options)
        print("| | few, us | many, us | ratio |\n|---|---|---|---|")
        for name, times in found.items():
            print(f"| {name} | {times[0]:.0f} | {times[1]:.0f} | {times[1] / times[0]:.2f} |")
        print(f"| {last} | {few:.0f} | {many:.0f} | {many / max(few, 0.1):.2f} |")


if __name__ == "__main__":
    main()
