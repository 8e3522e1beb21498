"""The table at the end."""

import time
from statistics import median

from harness.data import MIB
from soak.judge import WINDOW

COLUMNS = ("resident", "private", "descriptors", "pipe_ends", "threads", "cores")
TITLES = ("RSS MiB", "private MiB", "descriptors", "pipe ends", "threads", "CPU cores")


def print_report(soak):
    for name, samples in soak.samples.items():
        print_samples(name, samples)
        for check in soak.checks.get(name, []):
            print(f"  {'ok    ' if check.is_good else 'FAILED'} {check.name}: {check.text}")
    print("\nWhat was done")
    for name, count in sorted(soak.log.counts.items()):
        amount = f"{count / MIB:.0f} MiB" if name.startswith("bytes") else f"{count}"
        print(f"  {name:40}{amount:>12}")
    for text in soak.log.failures:
        print(f"  FAILED {text}")
    print(f"\n{'PASSED' if soak.is_good else 'FAILED'}: {verdict(soak)}")


def verdict(soak):
    checks = [check for checks in soak.checks.values() for check in checks]
    bad = [check.name for check in checks if not check.is_good]
    minutes = (time.monotonic() - soak.begin) / 60
    text = f"soak of {minutes:.1f} minutes with seed {soak.options.seed}"
    work = f"{soak.log.counts['uploads completed']} uploads, {soak.log.counts['signatures verified']} signatures"
    wrong = f"{soak.log.counts['failures']} wrong answers or failures"
    return f"{text}, {work}: {wrong}, {len(checks) - len(bad)} of {len(checks)} checks good" + "".join(
        f"; not {name}" for name in bad
    )


def print_samples(name, samples):
    if not samples:
        return
    print(f"\nServer {name}\n{'':24}" + "".join(f"{title:>13}" for title in TITLES))
    load = [one for one in samples if one.phase == "load"]
    rows = {"start": pick(samples, "start"), "warm-up (median)": pick(samples, "warm-up")}
    rows["idle after warm-up"] = pick(samples, "idle")
    if load:
        rows["load, begin (median)"] = [one for one in load if one.time <= load[0].time + WINDOW]
        rows["load, end (median)"] = [one for one in load if one.time >= load[-1].time - WINDOW]
        rows["load, all (most)"] = load
    rows["idle at the end"] = pick(samples, "end")
    for title, chosen in rows.items():
        if chosen:
            print_row(title, chosen, max if title.endswith("(most)") else median)
    last = samples[-1].metrics
    print("  metrics: " + ", ".join(f"{key} {value:.0f}" for key, value in last.items() if key != "bytes stored"))


def pick(samples, phase):
    return [one for one in samples if one.phase == phase]


def print_row(title, chosen, combine):
    cores = 0.0
    if len(chosen) > 1:
        cores = (chosen[-1].cpu - chosen[0].cpu) / (chosen[-1].time - chosen[0].time)
    values = {key: combine(getattr(one, key) for one in chosen) for key in COLUMNS if key != "cores"}
    texts = [f"{values['resident'] / MIB:.1f}", f"{values['private'] / MIB:.1f}"]
    texts += [f"{values[key]:.0f}" for key in ("descriptors", "pipe_ends", "threads")]
    print(f"{title:24}" + "".join(f"{text:>13}" for text in [*texts, f"{cores:.2f}"]))
