"""Counts what requests cost the server and compares it with guard.json; see README.md. `benchmarks/guard` starts it."""

import argparse
import collections
import contextlib
import ctypes
import functools
import itertools
import json
import math
import mmap
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common import HERE, say
from guard_requests import ALONE, OPERATIONS, Gateway, mints
from tools import compile_c

RECORDED = HERE / "guard.json"
# In the order of guard_counter.c.
COUNTERS = ["allocations", None, "statements", "syncs"]
WARM_UP, COUNTED, TRACED = 200, 200, 100
# Other work can disturb a count, but not each time: a change must show this many times.
ATTEMPTS = 5
# A batch that CPU is measured over, and how many there are at first and at most.
BATCH, BATCHES, MOST_BATCHES = 20, 60, 240
RATIO, WRITES = "cpu ratio", "writes to the log of the state (mean)"
# What a line of the log may cost, as a part of a mint, and the batches by which it is measured.
LINE, LINE_BATCH, LINE_BATCHES = 0.05, 500, 40
# The recorded number times this factor is allowed; for all others, exactly the recorded number.
BOUNDS = {RATIO: 1.25, WRITES: 1.1}

# Calls whose number depends on time or on what happened before, and not on the request. Everything else is counted.
UNCOUNTED = set(
    # A thread sleeps, or wakes another one.
    "epoll_ctl epoll_pwait epoll_pwait2 epoll_wait futex poll ppoll sched_yield"
    # Most libraries read the clock without a system call; a timer is set again when another one is due first.
    " clock_gettime clock_nanosleep gettimeofday nanosleep restart_syscall time timerfd_settime"
    # The heap asks the kernel for memory, or returns it.
    " brk madvise mmap mprotect mremap munmap"
    # Threads of pools come and go.
    " clone clone3 exit gettid prctl rseq rt_sigprocmask sched_getaffinity set_robust_list setpriority".split()
)
# Whether a thread has to be woken is a matter of time; the log (descriptors 1 and 2) is written when its buffer is full
# or a moment has passed.
UNCOUNTED_FILES = re.compile(r"<anon_inode:\[?(eventfd|timerfd)|^[12]<")
# How often a thread polls without result depends on timing, too.
WOULD_BLOCK = re.compile(r"= -1 EAGAIN ")
# SQLite reads what its cache does not have, writes more pages when it splits one, and moves its log into the database
# from time to time. Of these calls only the writes to the log are compared: their mean, with a tolerance.
STATE = re.compile(r"/state\.sqlite(-wal)?>")
ON_STATE = {"pread64", "pwrite64", "fdatasync", "ftruncate", "newfstatat", "fstat"}
# `PID TIME call(first argument … = result`, in one line or in two between which other threads had theirs.
STARTED = re.compile(r"^(\d+) +([\d.]+) (\w+)\(([^,)]*)")
RESUMED = re.compile(r"^(\d+) +([\d.]+) <\.\.\. (\w+) resumed>")


class Counters:
    """The file that a preloaded guard_counter.c counts in."""

    def __init__(self, folder, library):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "counts"
        path.write_bytes(bytes(8 * len(COUNTERS)))
        with open(path, "r+b") as file:
            self.mapping = mmap.mmap(file.fileno(), 0)
        self.values = (ctypes.c_uint64 * len(COUNTERS)).from_buffer(self.mapping)
        self.environment = {"LD_PRELOAD": str(library), "GUARD_COUNTS": str(path)}

    def settled(self, pause):
        """The counts, once they stay the same: what a server does after its response belongs to the request."""
        last, since = None, time.monotonic()
        while True:
            now = list(self.values)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > pause:
                return now
            time.sleep(pause / 5)


class Trace:
    """strace of a running server."""

    def __init__(self, pid, output):
        self.output = output
        command = ["strace", "-f", "-y", "-ttt", "-s", "0", "-p", str(pid), "-o", str(output)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "attached" not in line:
            sys.exit(f"strace cannot trace the server: {line}Run this where ptrace is allowed.")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def calls(self):
        """Ends it; returns time, name and first argument of each call that is counted."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        pending, found = {}, []
        for line in self.output.read_text(errors="replace").splitlines():
            if start := STARTED.match(line):
                process, moment, name, argument = start.groups()
                if line.endswith("<unfinished ...>"):
                    pending[process] = argument
                    continue
            elif resumed := RESUMED.match(line):
                process, moment, name = resumed.groups()
                argument = pending.pop(process, "")
            else:
                continue
            if name not in UNCOUNTED and not UNCOUNTED_FILES.search(argument) and not WOULD_BLOCK.search(line):
                found.append((float(moment), name, argument))
        return found


@functools.cache
def can_trace():
    """Not every container allows ptrace. The counts of the preloaded library are compared anyway."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0:
        return True
    print("strace may not trace here: system calls are NOT compared", flush=True)
    return False


def make_folders(server):
    """All folders of uploads: otherwise some requests create one, and after some thousand none does."""
    names = "".join(map(str, range(10))) + "abcdefghijklmnopqrstuvwxyz"
    for first in names:
        for second in names:
            (server / "data" / "blobs" / (first + second)).mkdir(mode=0o700, exist_ok=True)


def usual(values):
    """The most frequent value (of several, the least), and its share of all."""
    value, count = min(collections.Counter(values).items(), key=lambda one: (-one[1], one[0]))
    return value, count / len(values)


def least(values):
    """The least value that a tenth of the requests had, and its share of all; without one, the most frequent."""
    found = [value for value in set(values) if values.count(value) * 10 >= len(values)]
    return (min(found), values.count(min(found)) / len(values)) if found else usual(values)


def compared(values, expected, choose):
    """The recorded count, if a tenth of the requests still had it, and its share of all; else the one of `choose`.

    Where a count has two frequent values, either may be the most frequent one. A request that costs more has neither.
    """
    share = values.count(expected) / len(values)
    return (expected, share) if share >= 0.1 else choose(values)


def send(requests, number=1):
    """Several at once, so that the server does not go to sleep in between: waking up costs it as much as a request."""
    batch = list(itertools.islice(requests, number))
    connection = batch[0][0]
    connection.send(*[exchange for _, *exchange in batch])


def count(gateway, counters, requests, folder, choose, expected):
    """The counts of one operation: `{name: (count per request, share of requests with that count)}`.

    `expected` has the recorded counts; it is empty if there are none.
    """
    results = {}
    seen = []
    before = counters.settled(0.02)
    for _ in range(COUNTED):
        send(requests)
        after = counters.settled(0.002)
        seen.append([new - old for new, old in zip(after, before, strict=True)])
        before = after
    for name, values in zip(COUNTERS, zip(*seen, strict=True), strict=True):
        if name:
            results[name] = compared(values, expected.get(name), choose)

    if not can_trace():
        return results
    trace = Trace(gateway.pid, folder / "strace")
    counters.settled(0.05)
    starts = []
    for _ in range(TRACED):
        starts.append(time.time())
        send(requests)
        counters.settled(0.008)
    end = time.time()
    tables = [collections.Counter() for _ in starts]
    index = written = 0
    for moment, name, argument in sorted(trace.calls()):
        while index + 1 < len(starts) and moment >= starts[index + 1]:
            index += 1
        if not starts[0] <= moment < end:
            continue
        if STATE.search(argument) and name in ON_STATE:
            written += name == "pwrite64" and "-wal" in argument
        else:
            tables[index][name] += 1
    for name in sorted({name for table in tables for name in table}):
        found = compared([table[name] for table in tables], expected.get(name), choose)
        if found[0]:
            results[f"system call {name}"] = found
    if written:
        results[WRITES] = (round(written / TRACED, 1), None)
    return results


def is_counted(name):
    """Whether a number can be measured on this machine."""
    return can_trace() or not (name.startswith("system call ") or name == WRITES)


def agrees(expected, found):
    """Whether these are the recorded counts; the mean, which has a tolerance, and the CPU aside."""
    names = {name for name in expected.keys() | found.keys() if is_counted(name)} - BOUNDS.keys()
    return all(name in found and found[name][0] == expected.get(name) for name in names)


def measure_counts(folder, library, expected):
    """`{operation: {name: (count, share)}}`. Operations whose counts are not the expected ones are counted again."""
    results = {}
    with contextlib.ExitStack() as stack:
        servers = {}
        for kind in sorted({kind for _, kind, _ in OPERATIONS}):
            here = folder / f"counts-{kind}"
            counters = Counters(here, library)
            gateway = Gateway(here / "server", kind, counters.environment)
            stack.callback(gateway.stop)
            make_folders(here / "server")
            servers[kind] = (gateway, counters)
        for name, kind, make in OPERATIONS:
            gateway, counters = servers[kind]
            requests = make(gateway)
            for _ in range(WARM_UP):
                send(requests)
            # The length of a line of the log depends on how long the request took.
            choose = least if kind == "logged" else usual
            recorded = expected.get(name, {})
            results[name] = found = count(gateway, counters, requests, folder, choose, recorded)
            for _ in range(ATTEMPTS - 1):
                if not expected or agrees(recorded, found):
                    break
                again = count(gateway, counters, requests, folder, choose, recorded)
                # Each count by itself: what disturbs one may disturb another one the next time.
                found |= {each: one for each, one in again.items() if one[0] == recorded.get(each)}
                for each in found.keys() - recorded.keys() - again.keys():
                    del found[each]
            say(f"counted: {name}")
    return results


def measure_cpu(folder, calibration, limits):
    """CPU per request, by that of a round of the calibration: `{operation: (ratio, microseconds)}`.

    Both are the best of several batches, which take turns. More batches follow while a ratio is above its limit: other
    work on the machine only ever adds to a batch.
    """
    with contextlib.ExitStack() as stack:
        servers = {}
        for kind in sorted({kind for _, kind, _ in OPERATIONS}):
            servers[kind] = Gateway(folder / f"cpu-{kind}" / "server", kind)
            stack.callback(servers[kind].stop)
            make_folders(folder / f"cpu-{kind}" / "server")
        operations = {name: (servers[kind], make(servers[kind])) for name, kind, make in OPERATIONS}
        process = subprocess.Popen([*ALONE, calibration], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        stack.enter_context(process)
        unit = math.inf
        best = dict.fromkeys(operations, math.inf)
        number = 0
        # The first batch warms up.
        while (
            number <= BATCHES
            or number <= MOST_BATCHES
            and any(best[name] / unit > limits.get(name, math.inf) for name in best)
        ):
            for name, (gateway, requests) in operations.items():
                if number > BATCHES and best[name] / unit <= limits.get(name, math.inf):
                    continue
                rounds = batch_cpu(process.pid, functools.partial(calibrate, process))
                spent = batch_cpu(gateway.pid, functools.partial(send, requests, BATCH))
                if number:
                    unit = min(unit, rounds)
                    best[name] = min(best[name], spent)
            number += 1
        say(f"CPU: {number} batches, a round of the calibration took {unit / 1000:.1f} us")
        return {name: (value / unit, value / 1000) for name, value in best.items()}


def measure_line(folder):
    """What a line of the log costs, as a part of a mint: the medians of batches that take turns.

    A batch is large, as in a busy gateway: the thread that writes the lines wakes up each tenth of a second.
    """
    with contextlib.ExitStack() as stack:
        servers = {}
        for kind in ("none", "logged"):
            gateway = Gateway(folder / f"line-{kind}", kind)
            stack.callback(gateway.stop)
            servers[kind] = (gateway, mints(gateway))
        spent = {kind: [] for kind in servers}
        # The first batches warm up.
        for number in range(-3, LINE_BATCHES):
            for kind, (gateway, requests) in sorted(servers.items(), reverse=number % 2 == 0):
                clock = (~gateway.pid << 3) | 2
                before = cpu_at_rest(clock)
                send(requests, LINE_BATCH)
                # Until the lines are written.
                time.sleep(0.15)
                if number >= 0:
                    spent[kind].append(time.clock_gettime_ns(clock) - before)
        return statistics.median(spent["logged"]) / statistics.median(spent["none"]) - 1


def calibrate(process):
    """A batch of rounds."""
    process.stdin.write(b"." * BATCH)
    answered = 0
    while answered < BATCH:
        answered += len(process.stdout.read(BATCH - answered))


def batch_cpu(pid, batch):
    """CPU nanoseconds of a process for each call of a batch."""
    # clock_getcpuclockid(3): the CPU time of another process, to the nanosecond.
    clock = (~pid << 3) | 2
    before = cpu_at_rest(clock)
    batch()
    return (cpu_at_rest(clock) - before) / BATCH


def cpu_at_rest(clock):
    """Nanoseconds, once the process sleeps: while it runs, the kernel may add them only at its next tick."""
    time.sleep(0.005)
    return time.clock_gettime_ns(clock)


def environment():
    """What the counts depend on besides Sluice."""
    swift = subprocess.run([os.environ.get("SWIFT", "swift"), "--version"], capture_output=True, text=True).stdout
    sqlite = ctypes.CDLL("libsqlite3.so.0").sqlite3_libversion
    sqlite.restype = ctypes.c_char_p
    version = re.search(r"Swift version (\S+)", swift)
    return {
        "architecture": os.uname().machine,
        "glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[-1],
        "sqlite": sqlite().decode(),
        "swift": version[1] if version else "unknown",
    }


def compare(recorded, measured, here):
    """Prints what differs; whether anything costs more than is recorded."""
    worse, better = [], []
    for operation, values in measured.items():
        old_values = recorded.get("operations", {}).get(operation, {})
        for name in sorted(filter(is_counted, values.keys() | old_values.keys())):
            old, new = old_values.get(name, 0), values.get(name, 0)
            bound = BOUNDS.get(name, 1)
            if new > old * bound:
                allowed = f", at most {old * bound:.2f} allowed" if bound > 1 else ""
                worse.append(f"{operation}: {name}: {old} recorded, {new} measured{allowed}")
            elif new < old / bound:
                better.append(f"{operation}: {name}: {old} recorded, {new} measured")
    if better:
        print("\nLess than recorded:\n  " + "\n  ".join(better))
        print("Run `benchmarks/guard --record` and commit benchmarks/guard.json, so that it stays so.")
    if worse:
        print("\nMore than recorded:\n  " + "\n  ".join(worse))
        print(
            "Find what costs more. If it has to be, run `benchmarks/guard --record` and commit benchmarks/guard.json;"
            " the message of the commit says why."
        )
    if worse and recorded.get("environment") != here:
        print(
            f"This does not fail: the numbers were recorded with {recorded.get('environment')}, and this is {here},"
            " which alone can change them. Record them again, on a commit whose cost you trust."
        )
        return False
    return bool(worse)


def record(recorded, measured, here):
    """A ratio that is about the recorded one stays as it is, so that only what changed shows in the commit."""
    for operation, values in measured.items():
        old = recorded.get("operations", {}).get(operation, {}).get(RATIO, 0)
        if old / 1.1 <= values[RATIO] <= old * 1.1:
            values[RATIO] = old
    document = {"environment": here, "operations": measured}
    RECORDED.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    print(f"recorded in {RECORDED.relative_to(HERE.parent)}")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the numbers to guard.json instead of comparing")
    parser.add_argument("--only-counts", action="store_true", help="leave out the CPU")
    options = parser.parse_args()
    if options.record and options.only_counts:
        parser.error("--record wants all numbers: leave out --only-counts")
    if not shutil.which("strace"):
        sys.exit("strace is missing: scripts/setup --test installs it")
    if options.record and not can_trace():
        sys.exit("--record needs a machine on which strace may trace")
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    old = {name: values.get(RATIO, 0) for name, values in recorded.get("operations", {}).items()}

    # Not in memory: which calls a file takes depends on its file system.
    (HERE.parent / ".build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="guard-", dir=HERE.parent / ".build") as name:
        folder = Path(name)
        library = compile_c("guard_counter.c", folder, "-shared", "-fPIC", "-fno-builtin")
        found = measure_counts(folder, library, {} if options.record else recorded.get("operations", {}))
        measured = {name: {key: value for key, (value, _) in values.items()} for name, values in found.items()}
        cpu, line = {}, None
        if not options.only_counts:
            limits = {} if options.record else {name: value * BOUNDS[RATIO] for name, value in old.items()}
            # In memory: what a disk costs the kernel depends on the disk, and on what else uses it.
            memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
            with tempfile.TemporaryDirectory(prefix="guard-", dir=memory) as stores:
                cpu = measure_cpu(Path(stores), compile_c("guard_calibration.c", folder), limits)
                line = measure_line(Path(stores))
        for operation, values in measured.items():
            # To three digits.
            values[RATIO] = float(f"{cpu[operation][0]:.3g}") if cpu else old.get(operation, 0)

    for operation, values in found.items():
        print(f"\n{operation}" + (f": CPU {cpu[operation][1]:.0f} us, ratio {cpu[operation][0]:.2f}" if cpu else ""))
        for name, (value, share) in values.items():
            print(f"  {value:6} {name}" + (f" ({share:.0%} of requests)" if share and share < 1 else ""))
    if line is not None:
        print(f"\na line in the log: {line:.1%} of a mint; at most {LINE:.0%} is wanted")
    if options.record:
        record(recorded, measured, environment())
        return
    if compare(recorded, measured, environment()):
        sys.exit(1)
    print("\nok: nothing costs more than recorded")


main()
