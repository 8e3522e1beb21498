"""Small requests by wrk: minting, and uploads of 1 KiB."""

import contextlib
import itertools
import os
import re
import statistics
import subprocess
import sys

import transfer
from common import HERE, KEY, in_turns
from servers import LOGGED, TUSD, start_hummingbird, start_nginx, start_sluice, start_tusd

CONNECTIONS = (1, 64, 512)
# Where both are measured with an access log as well; otherwise no peer has one.
LOGGED_CONNECTIONS = 64
UPLOAD_CONNECTIONS = 64
UPLOAD_BYTES = 1024
# How uploads are made, in the names of `measure_appends`.
CREATION = "POST"
CREATION_AND_APPEND = "POST+PATCH"


def wrk(peer, script, path, seconds, connections, **more):
    """The counts of the script; ends the program if a request failed or none succeeded.

    `more`: further variables of the script.
    """
    threads = min(2, connections)
    sizes = [f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
    command = ["wrk", *sizes, "-s", str(HERE / "clients" / script), peer.url + path]
    # The scripts share result.lua.
    variables = {"KEY": KEY, "THREADS": threads} | {name.upper(): value for name, value in more.items()}
    environment = os.environ | {"LUA_PATH": str(HERE / "clients" / "?.lua")}
    environment |= {f"SLUICE_BENCHMARK_{name}": str(value) for name, value in variables.items()}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", done.stdout.rpartition("RESULT")[2])}
    if not counts or counts["failures"] or not counts["uploads"]:
        sys.exit(f"{peer.name}: {' '.join(command)}: {done.stdout} {done.stderr}\n{peer.log_tail()}")
    return counts


def measure_minting(folder, options, connections, hummingbird):
    with contextlib.ExitStack() as stack:
        peers = []
        starts = [
            ("nginx, constant answer", "/constant", start_nginx),
            ("sluice, signature", "/v1/tencent/signatures", lambda here: start_sluice(here, "acknowledged")),
        ]
        if connections == LOGGED_CONNECTIONS:
            starts += [
                ("nginx, constant answer, logged", "/constant", lambda here: start_nginx(here, logging=True)),
                (
                    "sluice, signature, logged",
                    "/v1/tencent/signatures",
                    lambda here: start_sluice(here, "acknowledged", logging=True),
                ),
            ]
        if hummingbird:
            name = "hummingbird, constant answer"
            starts.append((name, "/constant", lambda here: start_hummingbird(here, hummingbird)))
        for name, path, start in starts:
            peer = start(folder / str(len(peers)))
            stack.callback(peer.stop)
            peers.append((name, path, peer))
        results = {name: _empty() for name, _, _ in peers}
        for number, (name, path, peer) in in_turns(peers, options.rounds, f"mint, {connections} connections"):
            before = peer.cpu_seconds()
            counts = wrk(peer, "mint.lua", path, options.seconds if number else 1, connections)
            if number > 0:
                _add(results[name], counts, peer.cpu_seconds() - before)
        for name, _, peer in peers:
            results[name]["peakMemory"] = peer.peak_memory()
    return _sum_up(results)


def measure_small_uploads(folder, options, hummingbird):
    """Uploads of 1 KiB in one request each."""
    starts = [("nginx, PUT", "put.lua", "/up/", start_nginx)]
    starts += _sluice_and_tusd([("1 request", "create.lua")])
    if TUSD:
        starts.insert(1, (f"nginx, PUT{LOGGED}", "put.lua", "/up/", lambda here: start_nginx(here, logging=True)))
    if hummingbird:
        starts.append(("hummingbird, PUT", "put.lua", "/up/", _starter(start_hummingbird, hummingbird)))
    return _measure_uploads(folder, starts, options, "small uploads")


def measure_appends(folder, options):
    """Creations alone, and uploads of 1 KiB by a creation and a PATCH: what the separate PATCH costs."""
    ways = [(CREATION, "creation.lua"), (CREATION_AND_APPEND, "create_patch.lua")]
    return _measure_uploads(folder, _sluice_and_tusd(ways), options, "small appends")


def _sluice_and_tusd(ways):
    """Sluice by each way; with tusd, which always logs, also Sluice with its log beside it."""
    starts = []
    for is_logging in (False, True) if TUSD else (False,):
        end = LOGGED if is_logging else ""
        for durability in ("none", "acknowledged"):
            start = _starter(start_sluice, durability, logging=is_logging)
            starts += [(f"sluice, {durability}, {text}{end}", script, "/files", start) for text, script in ways]
    if TUSD:
        starts += [(f"tusd, {text}{LOGGED}", script, "/files/", start_tusd) for text, script in ways]
    return starts


def _measure_uploads(folder, starts, options, label):
    """Over 64 connections. Every peer starts anew each time.

    The files stay until the end: ext4 does not use the inode of a file again for a minute or more after its removal,
    and the search for others then takes most of the time of every peer. For the same reason, wait five minutes
    between two runs on a disk.
    """
    results = {name: _empty() | {"peaks": []} for name, _, _, _ in starts}
    rounds = itertools.count()
    for number, (name, script, path, start) in in_turns(starts, options.rounds, label):
        here = folder / "small" / str(next(rounds))
        os.sync()
        peer = start(here)
        try:
            before = peer.cpu_seconds()
            counts = wrk(peer, script, path, options.seconds if number else 1, UPLOAD_CONNECTIONS)
            cpu = peer.cpu_seconds() - before
            peak = peer.peak_memory()
        finally:
            peer.stop()
        # Some of the requests that wrk cut off at its end are stored, too.
        found = transfer.stored(peer, UPLOAD_BYTES)
        if script != "creation.lua" and not counts["uploads"] <= found <= counts["uploads"] + UPLOAD_CONNECTIONS:
            sys.exit(f"{name}: {found} uploads are stored, {counts['uploads']} were acknowledged")
        if number > 0:
            _add(results[name], counts, cpu)
            results[name]["peaks"].append(peak)
    for one in results.values():
        one["peakMemory"] = max(one["peaks"])
    return _sum_up(results)


def _starter(start, argument, **more):
    return lambda here: start(here, argument, **more)


def _empty():
    return {"rates": [], "medians": [], "latencies": [], "cpu": []}


def _add(one, counts, cpu):
    """Rates and CPU are of uploads (or creations, or minted signatures), latencies of single requests."""
    one["rates"].append(counts["uploads"] / (counts["microseconds"] / 1e6))
    one["medians"].append(counts["median"] / 1000)
    one["latencies"].append(counts["percentile99"] / 1000)
    one["cpu"].append(cpu / counts["uploads"] * 1e6)


def _sum_up(results):
    for one in results.values():
        one |= {
            "perSecond": statistics.median(one["rates"]),
            "latency50Milliseconds": statistics.median(one["medians"]),
            "latency99Milliseconds": statistics.median(one["latencies"]),
            "cpuMicroseconds": statistics.median(one["cpu"]),
        }
    return results
