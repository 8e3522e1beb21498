"""The tables, and the summary against the targets."""

import math

from common import MEBIBYTE
from servers import LOGGED
from small import CREATION, CREATION_AND_APPEND

ACKNOWLEDGED = "sluice, acknowledged"
NONE = "sluice, none"
SYNCED = " + fdatasync"
TUSD = "tusd"


def print_all(results):
    size = results["options"]["mebibytes"]
    if "upload" in results:
        print_uploads(results["upload"], f"Upload of {size} MiB over loopback; medians", "sink")
    if "parallel" in results:
        text = results["parallel"]["contents"]
        print_uploads(results["parallel"]["peers"], f"{text} in parallel over loopback; medians", "sink")
    if "tls" in results:
        print_uploads(results["tls"], f"Upload of {size} MiB by TLS over loopback; medians", "nginx")
        for name, one in results["tls"].items():
            print(f"{name}: {one['cipher']}; kernel TLS: {one['kernelTLS']}")
    if "small" in results:
        text = "Uploads of 1 KiB in one request over 64 connections; medians"
        print_requests(results["small"], text, "nginx, PUT", "uploads/s")
    if "append" in results:
        text = "Uploads of 1 KiB in two requests over 64 connections, and creations alone; medians"
        print_requests(results["append"], text, None, "each/s")
        for name, one in appends(results["append"]).items():
            print(
                f"{name}: a separate PATCH adds {one['time']:.2f} x the time and {one['cpu']:.2f} x the CPU of a POST"
            )
    for name, one in results.get("chunks", {}).items():
        text = f"PATCHes of clients that send {results['options']['chunked_kibibytes']} KiB each: {name}; medians"
        print_requests(one, text, None, "PATCHes/s")
    for count, one in results.get("mint", {}).items():
        text = f"Minting (POST) over {count} connections; medians"
        print_requests(one, text, "nginx, constant answer", "requests/s")
    print_resident(results)
    if results["tusd"]:
        print(f"\ntusd: {results['tusd']}")
    if results["leftOut"]:
        print("\nleft out: " + "; ".join(results["leftOut"]))
    loads = [f"{results['machine'][key][0]:.2f}" for key in ("loadBefore", "loadAfter")]
    print(f"\nload average before and after: {', '.join(loads)}")
    print_summary(results["summary"], results["options"]["quick"])


def print_uploads(results, title, base):
    """`base` is the peer to compare with; those that force to disk are compared with one that does, if there is one."""
    is_parallel = any("firstOfLast" in one for one in results.values())
    print(f"\n{title}")
    heads = f"{'MB/s':>8}{'(worst-best)':>16}{'CPU s/GiB':>11}{'peak MiB':>10}{f'of {base}':>10}{'CPU of it':>11}"
    print(f"{'':24}{heads}{'first/last' if is_parallel else '':>12}".rstrip())
    for name, one in results.items():
        synchronous = name == ACKNOWLEDGED or name.endswith(SYNCED)
        other = results[base + SYNCED if synchronous and base + SYNCED in results else base]
        span = f"({one['worst']:.0f}-{one['best']:.0f})"
        print(
            f"{name:24}{one['megabytesPerSecond']:8.0f}{span:>16}{one['cpuSecondsPerGibibyte']:11.2f}"
            f"{one['peakMemory'] / MEBIBYTE:10.1f}{_ratio(one, other, 'megabytesPerSecond'):>10}"
            f"{_ratio(one, other, 'cpuSecondsPerGibibyte'):>11}"
            + (f"{one['firstOfLast']:12.2f}" if is_parallel else "")
        )


def print_requests(results, title, base, unit):
    """`base` as in `print_uploads`, with and without an access log; `None` for none.

    Peers that log are also compared with tusd, which always does.
    """
    print(f"\n{title}")
    columns = ["of nginx"] if base else []
    columns += ["of tusd", "its CPU"] if any(name.startswith(TUSD) for name in results) else []
    heads = f"{unit:>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'peak MiB':>10}"
    print(f"{'':40}{heads}{''.join(f'{one:>10}' for one in columns)}")
    for name, one in results.items():
        ratios = []
        if base:
            other = results[base + LOGGED if name.endswith(LOGGED) and base + LOGGED in results else base]
            ratios.append(_ratio(one, other, "perSecond"))
        if "of tusd" in columns:
            other = tusd_beside(results, name)
            ratios += [_ratio(one, other, key) if other else "-" for key in ("perSecond", "cpuMicroseconds")]
        print(
            f"{name:40}{one['perSecond']:12.0f}{one['latency50Milliseconds']:9.2f}{one['latency99Milliseconds']:9.2f}"
            f"{one['cpuMicroseconds']:9.1f}{one['peakMemory'] / MEBIBYTE:10.1f}"
            + "".join(f"{text:>10}" for text in ratios)
        )


def tusd_beside(results, name):
    """The row of tusd that sent what this row sent, if both log."""
    if not name.endswith(LOGGED):
        return None
    way = name.removesuffix(LOGGED).split(", ")[-1]
    return results.get(f"{TUSD}, {way}{LOGGED}") or results.get(TUSD + LOGGED)


def appends(results):
    """For each peer, what the PATCH of an upload in two requests takes, by what its POST takes."""
    found = {}
    for name, alone in results.items():
        both = results.get(name.replace(f", {CREATION}", f", {CREATION_AND_APPEND}", 1))
        if CREATION_AND_APPEND in name or not both:
            continue
        found[name.replace(f", {CREATION}", "", 1)] = {
            "time": alone["perSecond"] / both["perSecond"] - 1,
            "cpu": both["cpuMicroseconds"] / alone["cpuMicroseconds"] - 1 if alone["cpuMicroseconds"] else math.nan,
        }
    return found


def print_resident(results):
    for name, one in results.get("idle", {}).items():
        before, after = (one[key] / MEBIBYTE for key in ("before", "after"))
        text = f"{before:.1f} -> {after:.1f} MiB, {one['bytesPerConnection']:.0f} bytes each"
        print(f"\n{one['connections']} idle connections, {name}: {text}", end="")
    if "idle" in results:
        print()
    for name, one in results.get("start", {}).items():
        print(f"\nstart to first answer, {name}: {one['median']:.0f} ms (median)", end="")
    if "start" in results:
        print()


def _ratio(one, other, key):
    return f"{one[key] / other[key]:.2f}" if other[key] else "-"


def summarise(results):
    """One line for each target: what, how much is wanted, and what was reached (None if not measured in this run).

    `best` compares the best rounds: on a virtual machine whose host takes freed memory back at once, a round may spend
    most of its time in the host's page faults, for any of the servers.
    """
    upload, parallel = results.get("upload"), results.get("parallel", {}).get("peers")
    tls, mint, idle = results.get("tls"), results.get("mint", {}).get(64), results.get("idle")
    speed, cpu = "megabytesPerSecond", "cpuSecondsPerGibibyte"
    size = f"{results['options']['mebibytes']} MiB"
    mints = ("sluice, signature", "nginx, constant answer", "perSecond")
    best = {speed: "best", cpu: "bestCPUSecondsPerGibibyte"}
    rows = [
        (f"{size} plain, none / sink: MB/s", ">=", 0.95, upload, NONE, "sink", speed),
        (f"{size} plain, acknowledged / sink{SYNCED}: MB/s", ">=", 0.95, upload, ACKNOWLEDGED, "sink" + SYNCED, speed),
        (f"{size} plain, none / sink: CPU", "<=", 1.1, upload, NONE, "sink", cpu),
        (f"{size} plain, acknowledged / sink{SYNCED}: CPU", "<=", 1.1, upload, ACKNOWLEDGED, "sink" + SYNCED, cpu),
        ("parallel uploads, none / nginx: MB/s", ">=", 1.0, parallel, NONE, "nginx", speed),
        (f"{size} TLS, none / nginx TLS: MB/s", ">=", 1.0, tls, NONE, "nginx", speed),
        ("mint at 64 / nginx constant: requests/s", ">=", 1.0, mint, *mints),
    ]
    lines = [
        _line(what, sign, target, _quotient(found, one, other, key))
        | {"best": _quotient(found, one, other, best[key]) if key in best else None}
        for what, sign, target, found, one, other, key in rows
    ]
    count = idle[NONE]["connections"] if idle else 10_000
    lines.append(_line(f"{count} idle connections: MiB", "<=", 100, idle and idle[NONE]["after"] / MEBIBYTE))
    return lines + (_summarise_tusd(results) if results["tusd"] else [])


def _summarise_tusd(results):
    """Ratios to tusd, which never forces to disk; all write their log."""
    small, append, chunks = (results.get(part) for part in ("small", "append", "chunks"))
    rate, cpu = "perSecond", "cpuMicroseconds"
    one, both = f", 1 request{LOGGED}", f", {CREATION_AND_APPEND}{LOGGED}"
    upload, parallel = results.get("upload"), results.get("parallel", {}).get("peers")
    size, speed = f"{results['options']['mebibytes']} MiB", "megabytesPerSecond"
    rows = [
        (f"{size} plain, none / tusd: MB/s", ">=", None, upload, NONE, TUSD + LOGGED, speed),
        ("parallel uploads, none / tusd: MB/s", ">=", None, parallel, NONE, TUSD + LOGGED, speed),
        ("1 KiB in one request, none / tusd: uploads/s", ">=", None, small, NONE + one, TUSD + one, rate),
        ("1 KiB in one request, none / tusd: CPU", "<=", None, small, NONE + one, TUSD + one, cpu),
        ("POST + PATCH of 1 KiB, none / tusd: uploads/s", ">=", 2.0, append, NONE + both, TUSD + both, rate),
        ("POST + PATCH of 1 KiB, none / tusd: CPU", "<=", 0.5, append, NONE + both, TUSD + both, cpu),
        ("POST + PATCH, acknowledged / tusd: uploads/s", ">=", 1.2, append, ACKNOWLEDGED + both, TUSD + both, rate),
    ]
    lines = [
        _line(what, sign, target, _quotient(found, first, second, key))
        for what, sign, target, found, first, second, key in rows
    ]
    if append:
        found = appends(append)[NONE]["time"]
        lines.append(_line("a separate PATCH / POST, none: time", "<=", 0.6, found))
    for name, found in (chunks or {}).items():
        target = 3.0 if name == "64 x 4 KiB" else None
        ratio = _quotient(found, NONE + LOGGED, TUSD + LOGGED, rate)
        lines.append(_line(f"PATCHes, {name}, none / tusd: PATCHes/s", ">=", target, ratio))
    return lines


def _quotient(found, one, other, key):
    """None if it was not measured; not a number if there was too little CPU for its clock."""
    if not found:
        return None
    return found[one][key] / found[other][key] if found[other][key] else math.nan


def _line(what, sign, target, reached):
    line = {"what": what, "sign": sign, "target": target, "reached": reached, "result": "not measured"}
    if reached is not None and math.isnan(reached):
        line |= {"reached": None, "result": "too small to measure"}
    elif reached is not None:
        is_met = target is None or (reached >= target if sign == ">=" else reached <= target)
        line["result"] = "no target" if target is None else "ok" if is_met else "short"
    return line


def print_summary(lines, is_quick):
    print(f"\nSummary{' (sizes of --quick: these figures mean nothing)' if is_quick else ''}")
    print(f"{'':56}{'target':>9}{'medians':>9}{'  best':>9}  result")
    for line in lines:
        reached, best = (
            "-" if line.get(key) is None or math.isnan(line[key]) else f"{line[key]:.2f}" for key in ("reached", "best")
        )
        target = "" if line["target"] is None else f"{line['sign']} {line['target']}"
        print(f"{line['what']:56}{target:>9}{reached:>9}{best:>9}  {line['result']}")
