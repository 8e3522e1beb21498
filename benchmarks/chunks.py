"""Uploads in many small PATCHes, one after the other: what an append costs."""

import contextlib
import os
import statistics

import tools
import transfer
from common import in_turns
from servers import TUSD, start_sluice, start_tusd

KIBIBYTE = 1 << 10
CHUNKS = tuple(count * KIBIBYTE for count in (4, 64, 256))
CLIENTS = (1, 64)
# CPU is counted in steps of 10 ms: a client sends uploads one after the other until there were this many.
FEWEST_PATCHES = 1024


def measure_chunks(folder, options):
    """One result for each number of clients and size of a PATCH; see `patch_chunks.c`."""
    program = tools.compile_c("clients/patch_chunks.c", folder)
    starts = [lambda: start_sluice(folder / "none", "none"), lambda: start_sluice(folder / "sync", "acknowledged")]
    if TUSD:
        starts += [
            lambda: start_sluice(folder / "none-logged", "none", logging=True),
            lambda: start_sluice(folder / "sync-logged", "acknowledged", logging=True),
            lambda: start_tusd(folder / "tusd"),
        ]
    results = {}
    with contextlib.ExitStack() as stack:
        peers = []
        for start in starts:
            peers.append(start())
            stack.callback(peers[-1].stop)
        for clients in CLIENTS:
            for chunk in CHUNKS[:1] if options.quick else CHUNKS:
                name = f"{clients} x {chunk // KIBIBYTE} KiB"
                results[name] = _measure(program, peers, name, clients, chunk, options)
    return results


def _measure(program, peers, name, clients, chunk, options):
    results = {peer.name: {"rates": [], "medians": [], "latencies": [], "cpu": []} for peer in peers}
    rounds = min(options.rounds, 3)
    for number, peer in in_turns(peers, rounds, f"chunks, {name}"):
        # The round that warms up sends less.
        size = options.chunked_kibibytes * KIBIBYTE // (1 if number else 16)
        is_short = options.quick or number == 0
        uploads = clients if is_short else max(clients, FEWEST_PATCHES * chunk // size)
        os.sync()
        paths = transfer.create(peer, uploads, size)
        before = peer.cpu_seconds()
        seconds, patches, median, percentile = tools.patch_chunks(program, peer, size, chunk, clients, paths)
        cpu = peer.cpu_seconds() - before
        transfer.check_and_delete(peer, paths, size)
        if number > 0:
            one = results[peer.name]
            one["rates"].append(patches / seconds)
            one["medians"].append(median / 1000)
            one["latencies"].append(percentile / 1000)
            one["cpu"].append(cpu / patches * 1e6)
    for peer in peers:
        one = results[peer.name]
        one |= {
            "perSecond": statistics.median(one["rates"]),
            "latency50Milliseconds": statistics.median(one["medians"]),
            "latency99Milliseconds": statistics.median(one["latencies"]),
            "cpuMicroseconds": statistics.median(one["cpu"]),
            "peakMemory": peer.peak_memory(),
        }
    return results
