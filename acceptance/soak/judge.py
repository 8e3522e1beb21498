"""Whether what a server has is flat, judged from its samples.

Phases are `start`, `warm-up`, `idle` (after the warm-up), `load` and `end` (idle again).

Memory may grow by a tenth and 4 MiB. What is steady under the same load scatters by less: allocators keep what the
largest number of simultaneous uploads once took, per thread and per arena, and that maximum is reached at random, so
the bound is not zero. Of 10 MiB private memory it is 5 MiB: at 300 requests a second in 13 minutes of load, 23 bytes
kept for each request are beyond it.
"""

from dataclasses import dataclass
from statistics import median

from harness.data import MIB

# Beyond the count after the warm-up.
SPARE_DESCRIPTORS = 2
SPARE_THREADS = 2
# Kept for reuse: at most 32 pipes (and there is standard output), and 4 connections to the state with 3 files each.
MOST_PIPE_ENDS = 65
MOST_STATE_FILES = 12
MOST_DISK = 2 * 1024 * MIB
# Seconds of load at either end whose medians are compared.
WINDOW = 120
# With less load than this, growth cannot be distinguished from warming up.
LEAST_LOAD = 300
SHORT_GROWTH = 24 * MIB


@dataclass
class Check:
    name: str
    text: str
    is_good: bool


def judge(samples):
    """Checks of one server."""
    idle, end = (next(one for one in reversed(samples) if one.phase == phase) for phase in ("idle", "end"))
    return [
        check_count("descriptors", idle.other_descriptors, end.other_descriptors, SPARE_DESCRIPTORS),
        check_most("pipe ends kept", end.pipe_ends, MOST_PIPE_ENDS),
        check_most("state files kept", end.state_files, MOST_STATE_FILES),
        check_count("threads", idle.threads, end.threads, SPARE_THREADS),
        check_most("MiB on disk", max(one.disk for one in samples) / MIB, MOST_DISK / MIB),
        check_most("answers 500, 502, 504", end.metrics["bad"], 0),
        check_most("failures of storage and state", end.metrics["storage errors"], 0),
        *judge_memory([one for one in samples if one.phase == "load"], idle, end),
    ]


def judge_memory(load, idle, end):
    if not load or load[-1].time - load[0].time < LEAST_LOAD:
        return [check_growth("resident, idle", idle.resident, end.resident, SHORT_GROWTH)]
    checks = []
    for name in ("resident", "private"):
        series = [(one.time, getattr(one, name)) for one in load]
        early = median(value for time, value in series if time <= load[0].time + WINDOW)
        late = median(value for time, value in series if time >= load[-1].time - WINDOW)
        allowed = early / 10 + 4 * MIB
        checks.append(check_growth(f"{name}, under load", early, late, allowed))
        rise = slope(series) * (load[-1].time - load[0].time)
        text = f"{rise / MIB:+.1f} MiB over the load (at most {allowed / MIB:.1f})"
        checks.append(Check(f"{name}, trend", text, rise <= allowed))
        before, after = getattr(idle, name), getattr(end, name)
        checks.append(check_growth(f"{name}, idle", before, after, before / 10 + 4 * MIB))
    return checks


def slope(series):
    """Median of the slopes between all pairs (Theil and Sen): single peaks do not move it."""
    return median((y2 - y1) / (x2 - x1) for index, (x1, y1) in enumerate(series) for x2, y2 in series[index + 1 :])


def check_count(name, before, after, spare):
    return Check(name, f"{before} -> {after} (at most {before + spare})", after <= before + spare)


def check_most(name, value, most):
    return Check(name, f"{value:.0f} (at most {most:.0f})", value <= most)


def check_growth(name, before, after, allowed):
    text = f"{before / MIB:.1f} -> {after / MIB:.1f} MiB (at most {(before + allowed) / MIB:.1f})"
    return Check(name, text, after <= before + allowed)
