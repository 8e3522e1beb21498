"""Large uploads: one at a time, plain and by TLS, and many in parallel."""

import contextlib
import os
import statistics
import sys
from pathlib import Path

import tools
import transfer
from common import GIBIBYTE, in_turns
from servers import TUSD, start_hummingbird, start_nginx, start_sink, start_sluice, start_tusd

PARALLEL = 64
TLS_COUNTERS = Path("/proc/net/tls_stat")


def measure_single(folder, source, options, hummingbird):
    """One upload at a time by curl."""
    size = source.stat().st_size

    def send(peer, paths):
        method, headers = transfer.METHODS[peer.protocol], transfer.HEADERS[peer.protocol]
        return {"seconds": tools.curl(peer.url + paths[0], source, method, headers)[0]}

    return _measure(_plain_peers(folder, hummingbird), options.rounds, "upload", size, 1, send)


def measure_parallel(folder, source, options, hummingbird):
    """One request on each of 64 connections at once."""
    program = tools.compile_c("clients/send_files.c", folder)
    size = source.stat().st_size

    def send(peer, paths):
        method, headers = transfer.METHODS[peer.protocol], transfer.HEADERS[peer.protocol]
        first, last = tools.send_files(program, peer, source, method, headers, paths)
        return {"seconds": last, "firstSeconds": first}

    return _measure(_plain_peers(folder, hummingbird), options.rounds, "parallel", size, PARALLEL, send)


def measure_tls(folder, source, options):
    """As `measure_single`, with one certificate and one cipher for all; says which, and whether the kernel did it."""
    folder.mkdir(parents=True)
    tools.make_certificate(folder)
    starts = [
        lambda: start_nginx(folder / "nginx", tls=folder),
        lambda: start_sluice(folder / "sluice-none", "none", tls=folder),
        lambda: start_sluice(folder / "sluice-acknowledged", "acknowledged", tls=folder),
    ]
    ciphers, kernel = {}, {}

    def send(peer, paths):
        before = _kernel_tls()
        method, headers = transfer.METHODS[peer.protocol], transfer.HEADERS[peer.protocol]
        seconds, ciphers[peer.name] = tools.curl(peer.url + paths[0], source, method, headers, peer.certificate)
        kernel[peer.name] = _kernel_tls_text(before, _kernel_tls())
        return {"seconds": seconds}

    results = _measure(starts, options.rounds, "TLS upload", source.stat().st_size, 1, send)
    if len(set(ciphers.values())) != 1 or None in ciphers.values():
        sys.exit(f"not one cipher for all: {ciphers}")
    for name, one in results.items():
        one |= {"cipher": ciphers[name], "kernelTLS": kernel[name]}
    return results


def _plain_peers(folder, hummingbird):
    program = tools.compile_c("peers/splice_sink.c", folder)
    starts = [
        lambda: start_sink(folder / "sink", program),
        lambda: start_sink(folder / "sink-sync", program, synchronous=True),
        lambda: start_sink(folder / "copy", program, copying=True),
        lambda: start_sink(folder / "copy-sync", program, synchronous=True, copying=True),
        lambda: start_nginx(folder / "nginx"),
        lambda: start_sluice(folder / "sluice-none", "none"),
        lambda: start_sluice(folder / "sluice-acknowledged", "acknowledged"),
    ]
    if TUSD:
        starts.append(lambda: start_tusd(folder / "tusd"))
    if hummingbird:
        starts.append(lambda: start_hummingbird(folder / "hummingbird", hummingbird))
    return starts


def _measure(starts, rounds, label, size, count, send):
    """Starts all, lets `send(peer, paths)` send `count` contents in turns, and sums up; CPU is with the creation."""
    with contextlib.ExitStack() as stack:
        peers = []
        for start in starts:
            peers.append(start())
            stack.callback(peers[-1].stop)
        results = {peer.name: {} for peer in peers}
        for number, peer in in_turns(peers, rounds, label):
            # Earlier data is on disk, so that its write-back does not interfere.
            os.sync()
            before = peer.cpu_seconds()
            paths = transfer.create(peer, count, size)
            created = peer.cpu_seconds()
            sample = send(peer, paths) | {"cpu": peer.cpu_seconds() - before, "cpuOfCreation": created - before}
            transfer.check_and_delete(peer, paths, size)
            if number > 0:
                for key, value in sample.items():
                    results[peer.name].setdefault(key, []).append(value)
        for peer in peers:
            results[peer.name]["peakMemory"] = peer.peak_memory()
    for one in results.values():
        _sum_up(one, size * count)
    return results


def _sum_up(one, total):
    speeds = [total / 1e6 / seconds for seconds in one["seconds"]]
    one |= {
        "megabytesPerSecond": statistics.median(speeds),
        "best": max(speeds),
        "worst": min(speeds),
        "cpuSecondsPerGibibyte": statistics.median(one["cpu"]) / (total / GIBIBYTE),
        "bestCPUSecondsPerGibibyte": min(one["cpu"]) / (total / GIBIBYTE),
    }
    if "firstSeconds" in one:
        shares = [first / last for first, last in zip(one["firstSeconds"], one["seconds"], strict=True)]
        one["firstOfLast"] = statistics.median(shares)


def _kernel_tls():
    """The counters of sessions that the kernel took over; None if it cannot."""
    if not TLS_COUNTERS.exists():
        return None
    pairs = (line.split() for line in TLS_COUNTERS.read_text().splitlines())
    return {name: int(value) for name, value in pairs}


def _kernel_tls_text(before, after):
    if after is None:
        return f"this kernel has none (no {TLS_COUNTERS})"
    grown = [name for name in ("TlsRxSw", "TlsRxDevice", "TlsTxSw", "TlsTxDevice") if after[name] > before[name]]
    return f"in use ({', '.join(grown)})" if grown else "offered by the kernel, not in use"
