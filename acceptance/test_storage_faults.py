"""Each system call on the data directory fails: nothing acknowledged is lost, no wrong byte served, and it continues.

A run without faults counts the calls of each scenario; then one of them fails, chosen so that rare calls fail as often
as frequent ones, once or from then on, with EIO, ENOSPC, EDQUOT or after a short write; sometimes `kill -9` follows.
A failed sync discards what was not on the disk, as it does in Linux (harness/faults.c).

    FAULTS_COUNT=2000 FAULTS_SEED=7 scripts/test --only acceptance -k storage_faults -s
"""

import base64
import itertools
import json
import os
import random
import shutil
import signal
from errno import EDQUOT, EIO, ENOSPC, errorcode

import pytest

from harness.api import TUS, checksum, tus_patch, upload_id
from harness.daemon import free_port
from harness.data import KIB, MIB, content
from harness.faults import KINDS, ROOM, WRITES, FaultyServer
from harness.faulty_world import STATUSES, World, is_created
from harness.wire import Wire, until

SEED = int(os.environ.get("FAULTS_SEED", "0")) or random.randrange(1, 2**32)
NAMES = itertools.count(1)
# More failures than these say nothing new.
MOST_FAILURES = 12

# Without one of these the library would not see what it is there for.
MUST_BE_SEEN = {
    "blobs": [
        "open", "create", "pread", "pwrite", "splice", "copy_file_range", "fallocate", "ftruncate", "fsync",
        "fdatasync", "sync_file_range", "rename", "unlink", "mkdir", "rmdir", "setxattr", "getxattr",
    ],
    "state.sqlite": ["create", "pread", "pwrite", "fdatasync"],
    "state.sqlite-wal": ["create", "pwrite", "fdatasync"],
    "state.sqlite-shm": ["create"],
}  # fmt: skip

pytestmark = [
    pytest.mark.skipif(not any(map(shutil.which, ("gcc", "cc", "clang"))), reason="there is no C compiler"),
    pytest.mark.skipif(os.environ.get("SLUICE_TEST_DATABASE") == "postgres", reason="for the state in SQLite"),
]


# Scenarios: what clients do, once.


def some(generator, least, most):
    return content(generator.randint(least, most), generator.getrandbits(32))


def sizes(generator, most):
    return [generator.randint(1, most) for _ in range(3)]


def plain(world, generator):
    """tus, several PATCHes."""
    data = some(generator, 4, 300 * KIB)
    world.tus(data, sizes(generator, max(1, len(data) // 3)))


def verified(world, generator):
    """tus with checksums: small ones are compared before they are written, large ones behind a marker."""
    data = some(generator, 300 * KIB, 800 * KIB)
    world.tus(data, [generator.randint(1, 100 * KIB), generator.randint(260 * KIB, 290 * KIB)], algorithm="sha256")


def refused_checksum(world, generator):
    """A body that does not match its checksum leaves nothing."""
    data = some(generator, 300 * KIB, 400 * KIB)
    path, _ = world.created(len(data))
    fields = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    fields |= checksum("sha1", bytes(20))
    world.attempt("PATCH", lambda: world.ask("PATCH", path, fields, data), lambda one: one.status == 460)
    assert world.offset(path) == 0
    world.send(path, data, 0, [])
    world.keep(path, data)


def with_creation(world, generator):
    data = some(generator, 2, 100 * KIB)
    first = data[: generator.randint(1, len(data))]
    path, answer = world.created(len(data), data=first)
    offset = world.offset(path)
    assert int(answer.headers.get("Upload-Offset", 0)) <= offset <= len(first)
    world.send(path, data, offset, [])
    world.keep(path, data)


def concatenation(world, generator):
    parts = [some(generator, 1, 200 * KIB) for _ in range(3)]
    paths = []
    for part in parts:
        path, _ = world.created(len(part), headers={"Upload-Concat": "partial"})
        world.send(path, part, 0, sizes(generator, len(part)))
        paths.append(path)
    path, _ = world.created(None, headers={"Upload-Concat": "final;" + " ".join(paths)})
    world.keep(path, b"".join(parts))


def deletion(world, generator):
    data = some(generator, 1, 50 * KIB)
    world.delete(world.tus(data, []))
    # One that is open, with some bytes.
    path, _ = world.created(len(data) + 1, data=data)
    world.terminate(path)


def one_time(world, generator):
    """A grant makes one upload: not two, and not none."""
    data = some(generator, 1, 50 * KIB)
    token = one_time_token(world)
    path, _ = world.created(len(data), key=token)
    world.send(path, data, 0, [])
    world.keep(path, data)
    world.attempt("second use", lambda: world.create(1, key=token), lambda one: one.status == 403)


def one_time_token(world):
    wanted, key = {"subject": "u", "oneTime": True}, world.server.admin_key
    answer = world.attempt("token", lambda: world.ask("POST", "/v1/tus/tokens", json=wanted, key=key), is_created)
    return json.loads(answer.body)["token"]


def objects(world, generator):
    key = f"object-{next(NAMES)}"
    world.put(key, some(generator, 0, 300 * KIB))
    world.put(key, some(generator, 300 * KIB, 600 * KIB))
    if generator.random() < 0.5:
        world.remove(key)


def parts(world, generator):
    """In their places, one that is replaced and so has a file of its own, and one upload that is aborted."""
    key = f"parts-{next(NAMES)}"
    size = 5 * MIB
    pieces = [content(size, generator.getrandbits(32)) for _ in range(2)] + [some(generator, 1, 300 * KIB)]
    upload = world.multipart(key, pieces, [2, 1, 3] if generator.random() < 0.5 else None)
    if generator.random() < 0.7:
        pieces[0] = content(size, generator.getrandbits(32))
        world.part(key, upload, 1, pieces[0])
    world.complete(key, upload, pieces)
    world.abort(key, world.multipart(key, [some(generator, 1, 100 * KIB)]))


def fast(world, generator):
    """Blocks are reserved for fast uploads, and writing begins before the end."""
    data = content(66 * MIB, generator.getrandbits(32))
    place = world.keep(world.tus(data, []), data)
    del world.kept[place]
    key = f"large-{next(NAMES)}"
    world.put(key, data[: 9 * MIB])
    del world.kept[key]


SCENARIOS = [
    plain, verified, refused_checksum, with_creation, concatenation, deletion, one_time, objects, parts, fast
]  # fmt: skip
# Of this one only what the others do not have.
FAST_ONLY = {"fallocate", "sync_file_range"}


# The run


@pytest.fixture
def count(quick):
    """How many calls fail."""
    return int(os.environ.get("FAULTS_COUNT", "50" if quick else "150"))


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(durability="acknowledged"):
        server = FaultyServer(tmp_path, (free_port(), free_port()), {"SLUICE_DURABILITY": durability})
        started.append(server)
        return World(server.start(), durability)

    yield begin
    for server in started:
        server.faults.disarm()
        server.kill()


def calls(world):
    """How often each scenario makes each call."""
    table = {}
    for scenario in SCENARIOS:
        before = world.faults.seen()
        world.begin()
        scenario(world, random.Random(f"{SEED} {scenario.__name__}"))
        after = world.faults.seen()
        found = {which: count - before.get(which, 0) for which, count in after.items()}
        table[scenario] = {
            (kind, place): count
            for (kind, place), count in found.items()
            if count > 0 and (scenario is not fast or kind in FAST_ONLY)
        }
    return table


def assert_seen(faults):
    seen = faults.seen()
    missing = [(kind, place) for place, kinds in MUST_BE_SEEN.items() for kind in kinds if (kind, place) not in seen]
    assert not missing, f"the library did not see {missing}; it saw {seen}"


def inject(world, scenario, table, generator):
    """One scenario with one fault."""
    faults = world.faults
    kind, place = generator.choice(sorted(table[scenario]))
    nth = generator.randint(1, table[scenario][kind, place])
    number = generator.choice([EIO, ENOSPC, EDQUOT]) if kind in ROOM else EIO
    sticky = generator.random() < 0.3
    short = not sticky and kind in WRITES and generator.random() < 0.4
    kills = generator.random() < 0.1
    before = faults.fired
    world.begin(kills)
    faults.arm(nth, kinds=[kind], places=[place], number=number, sticky=sticky, short=short)
    name = (
        f"{scenario.__name__}: {place} {kind} {nth}, {errorcode[number]}{', sticky' * sticky}{', short' * short}"
        f"{', kill' * kills}"
    )
    try:
        scenario(world, generator)
        fired = faults.fired > before
        faults.disarm()
        assert world.server.process.poll() is None, "the server ended"
        if kills and fired:
            world.restart()
        assert_well(world)
    except Exception as failure:
        raise AssertionError(f"{name}: {failure}") from failure


def assert_well(world):
    for path in ("/healthz", "/readyz"):
        assert world.ask("GET", path).status == 200, f"{path} is not well"


@pytest.mark.parametrize(("durability", "share"), [("acknowledged", 1), ("completed", 0.3)])
def test_no_failed_call_loses_anything(start, report, count, durability, share):
    print(f"seed {SEED}")
    world = start(durability)
    faults = world.faults
    table = calls(world)
    if durability == "acknowledged":
        assert_seen(faults)
    failures, runs = [], 0
    while faults.fired < count * share and runs < 4 * count + 100:
        scenario = SCENARIOS[runs % len(SCENARIOS)]
        # It takes long.
        if scenario is fast and runs // len(SCENARIOS) % 5:
            scenario = plain
        runs += 1
        if not table[scenario]:
            continue
        try:
            inject(world, scenario, table, random.Random(f"{SEED} {durability} {runs}"))
            if runs % 50 == 0:
                world.check_all()
                world.trim()
        except AssertionError as failure:
            failures.append(f"seed {SEED}, run {runs}, {failure}")
            print(failures[-1])
            if len(failures) == MOST_FAILURES:
                break
            world.kept.clear()
            world.gone.clear()
            world.restart()
    world.restart()
    world.begin()
    world.check_all()
    injected = faults.injected()
    kinds = [(kind, sum(count for (other, _), count in injected.items() if other == kind)) for kind in KINDS]
    report(
        f"storage faults, durability {durability}, seed {SEED}: {sum(injected.values())} failed calls in {runs} runs"
        f" ({', '.join(f'{kind} {count}' for kind, count in kinds if count)}), {faults.undone / MIB:.1f} MiB taken back"
        f" by failed syncs, {world.restarts} restarts, answers {world.errors}"
    )
    assert not failures, "\n".join(failures)
    world.server.stop()


def broken_off(world, data):
    """An upload whose PATCH is running while the server is killed: some bytes were not synchronised."""
    path, _ = world.created(len(data))
    with Wire(world.server.address) as wire:
        wire.send(tus_patch(path, 0, len(data)) + data[:-1])
        identifier = upload_id(path)
        until(lambda: sum(file.stat().st_size for file in world.server.stored_files(identifier)) >= len(data) - 1)
        world.server.kill()
    world.server.start()
    return path


@pytest.mark.parametrize("durability", ["acknowledged", "completed"])
@pytest.mark.parametrize("number", [EIO, ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failed_sync_is_not_repeated(start, durability, number):
    """A second sync would succeed although the bytes are lost: HEAD must never count them."""
    world = start(durability)
    world.begin()
    data = content(3 * MIB, SEED)
    path = broken_off(world, data)
    for kinds in (["fdatasync"], ["fsync", "fdatasync"]):
        with world.faults.armed(kinds=kinds, pattern="blobs/*/*", number=number):
            world.ask("HEAD", path, TUS)
    first = world.offset(path)
    assert first == world.offset(path)
    world.restart()
    world.begin()
    assert world.offset(path) == first
    world.send(path, data, first, [MIB, MIB])
    world.keep(path, data)


def test_the_last_sync_of_an_upload_fails_repeatedly(start):
    """With durability `completed` the only sync is that at the end."""
    world = start("completed")
    world.begin()
    data = content(MIB, SEED)
    path, _ = world.created(len(data))
    offset = 0
    for turn in range(4):
        assert offset < len(data), f"after {turn} failed syncs HEAD tells {offset}, of which nothing is on the disk"
        world.send(path, data[:-1], offset, [300 * KIB])
        fields = TUS | {"Upload-Offset": str(len(data) - 1), "Content-Type": "application/offset+octet-stream"}
        with world.faults.armed(kinds=["fsync", "fdatasync"], places=["blobs"]) as faults:
            before = faults.fired
            answer = world.ask("PATCH", path, fields, data[-1:])
            assert faults.fired > before and answer.status in STATUSES, answer
        offset = world.offset(path)
    world.send(path, data, offset, [])
    world.keep(path, data)


# The database


@pytest.mark.parametrize("number", [EIO, ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("kind", ["pwrite", "fdatasync"])
def test_the_database_continues_after_its_log_failed(start, kind, number):
    """A refused request has no effect, does not use up a one-time grant, and earlier data is intact."""
    world = start()
    world.begin()
    data = content(KIB, SEED)
    world.tus(data, [])
    token = one_time_token(world)
    with world.faults.armed(kinds=[kind], places=["state.sqlite-wal"], number=number, sticky=True):
        for _ in range(5):
            answer = world.create(len(data), key=token)
            world.check_error(repr(answer), answer)
            assert world.ask("GET", "/healthz").status == 200
    path, _ = world.created(len(data), key=token)
    world.attempt("second use", lambda: world.create(1, key=token), lambda one: one.status == 403)
    assert_well(world)
    world.restart()
    world.begin()
    world.send(path, data, 0, [])
    world.keep(path, data)
    world.check_all()


@pytest.mark.rows("pwrite")
@pytest.mark.parametrize("kind", ["pwrite", "fdatasync"])
def test_a_checkpoint_that_fails_loses_nothing(start, kind):
    """Transactions stay in the log until its content is in the database."""
    world = start()
    world.begin()
    note = {"Upload-Metadata": f"note {base64.b64encode(b'x' * 3000).decode()}"}
    with world.faults.armed(kinds=[kind], places=["state.sqlite"], sticky=True) as faults:
        before = faults.fired
        paths = [world.created(1, headers=note)[0] for _ in range(400)]
        assert faults.fired > before, "there was no checkpoint"
    paths += [world.created(1, headers=note)[0] for _ in range(20)]
    world.restart()
    world.begin()
    for path in paths:
        assert world.offset(path) == 0
    plain(world, random.Random(SEED))


# Start and stop


def test_a_start_that_fails_says_why_and_harms_nothing(start, report, count):
    world = start()
    world.begin()
    for scenario in (plain, objects, parts, deletion):
        scenario(world, random.Random(f"{SEED} {scenario.__name__}"))
    faults = world.faults
    before = faults.seen()
    world.restart()
    table = {which: count - before.get(which, 0) for which, count in faults.seen().items()}
    table = {which: count for which, count in table.items() if count > 0}
    generator = random.Random(f"{SEED} starts")
    refused = 0
    for run in range(max(10, count // 5)):
        kind, place = generator.choice(sorted(table))
        number = generator.choice([EIO, ENOSPC, EDQUOT]) if kind in ROOM else EIO
        nth, sticky = generator.randint(1, table[kind, place]), generator.random() < 0.5
        description = f"seed {SEED}, start {run}: {place} {kind} {nth}, {errorcode[number]}{', sticky' * sticky}"
        world.server.kill()
        faults.arm(nth, kinds=[kind], places=[place], number=number, sticky=sticky)
        try:
            if not world.server.try_to_start():
                refused += 1
                faults.disarm()
                world.server.start()
            faults.disarm()
            world.begin()
            assert_well(world)
            world.check_all()
        except AssertionError as failure:
            raise AssertionError(f"{description}: {failure}") from failure
    report(f"starts with a failed call, seed {SEED}: {run + 1}, of which {refused} ended with a reason")
    plain(world, generator)
    world.server.stop()


def test_a_stop_that_fails_harms_nothing(start):
    """SIGTERM while the database is closed with calls that fail: it ends by itself, and everything is there."""
    world = start()
    generator = random.Random(f"{SEED} stops")
    for kind in ["pwrite", "fdatasync", "fsync", "unlink", "ftruncate", "pread"]:
        world.begin()
        plain(world, generator)
        deletion(world, generator)
        world.faults.arm(kinds=[kind], places=["state.sqlite", "state.sqlite-wal", "state.sqlite-shm"], sticky=True)
        world.server.process.send_signal(signal.SIGTERM)
        assert world.server.process.wait(30) >= 0, f"it crashes after a failed {kind}"
        world.restart()
        world.check_all()
    world.server.stop()
