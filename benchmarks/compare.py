"""Compares Sluice with other servers, in turns, with the same clients, and prints medians and ratios.

Run it by `benchmarks/run`. Nothing is asserted about time; a response that is not a success ends it.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import chunks
import report
import resident
import servers
import small
import tools
import uploads
from common import HERE, MEBIBYTE

PARTS = ["upload", "parallel", "tls", "small", "append", "chunks", "mint", "idle", "start"]


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/run", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (default 7)")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of an upload (default 1024)")
    parser.add_argument("--part-mebibytes", type=int, default=16, help="size of each of 64 uploads (default 16)")
    parser.add_argument("--chunked-kibibytes", type=int, default=8192, help="size of each of `chunks` (default 8192)")
    parser.add_argument("--seconds", type=int, default=5, help="length of a round of small requests (default 5)")
    parser.add_argument("--idle-connections", type=int, default=10_000, help="how many (default 10000)")
    parser.add_argument("--directory", type=Path, help="where the servers store (default: a new folder in .build)")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be repeated")
    parser.add_argument("--with-hummingbird", action="store_true", help="adds that peer; its build takes minutes")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows only that everything runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.mebibytes, options.part_mebibytes = 1, 16, 1
        options.seconds, options.idle_connections, options.chunked_kibibytes = 1, 200, 256
    options.only = options.only or PARTS
    return options


def left_out(options):
    found = []
    if not servers.TUSD:
        found.append("tusd (SLUICE_PEER_TUSD names no binary)")
    if not options.with_hummingbird:
        found.append("hummingbird (--with-hummingbird builds and adds it)")
    return found


def measure(options, folder, memory):
    """The results of each chosen part. `memory` is the folder of the files to send."""
    hummingbird = tools.build_hummingbird() if options.with_hummingbird else None
    results = {}
    for part in (one for one in PARTS if one in options.only):
        here = folder / part
        if part in ("upload", "tls"):
            source = tools.make_source(memory / "source", options.mebibytes * MEBIBYTE)
            if part == "upload":
                results[part] = uploads.measure_single(here, source, options, hummingbird)
            else:
                results[part] = uploads.measure_tls(here, source, options)
            source.unlink()
        elif part == "parallel":
            source = tools.make_source(memory / "source", options.part_mebibytes * MEBIBYTE)
            peers = uploads.measure_parallel(here, source, options, hummingbird)
            results[part] = {"contents": f"{uploads.PARALLEL} x {options.part_mebibytes} MiB", "peers": peers}
            source.unlink()
        elif part == "small":
            results[part] = small.measure_small_uploads(here, options, hummingbird)
        elif part == "append":
            results[part] = small.measure_appends(here, options)
        elif part == "chunks":
            results[part] = chunks.measure_chunks(here, options)
        elif part == "mint":
            results[part] = {
                count: small.measure_minting(here / str(count), options, count, hummingbird)
                for count in small.CONNECTIONS
            }
        elif part == "idle":
            results[part] = resident.measure_idle(here, options.idle_connections, hummingbird)
        else:
            results[part] = resident.measure_start_up(here, 2 if options.quick else 10, hummingbird)
    return results


def main():
    options = parse_options()
    resident.allow_connections(options.idle_connections)
    parent = options.directory or HERE.parent / ".build"
    parent.mkdir(parents=True, exist_ok=True)
    memory = Path("/dev/shm")
    free = os.statvfs(memory).f_bavail * os.statvfs(memory).f_frsize if memory.is_dir() else 0
    has_room = free > max(options.mebibytes, options.part_mebibytes) * MEBIBYTE * 1.2
    results = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "loadBefore": os.getloadavg()},
        "options": {key: value for key, value in vars(options).items() if key != "directory"},
        "leftOut": left_out(options),
        "tusd": servers.tusd_version() if servers.TUSD else None,
    }
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent) as folder,
        tempfile.TemporaryDirectory(prefix="benchmark-", dir=memory if has_room else parent) as source,
    ):
        results |= measure(options, Path(folder).resolve(), Path(source))
    results["machine"]["loadAfter"] = os.getloadavg()
    results["summary"] = report.summarise(results)
    report.print_all(results)
    target = HERE / "results" / f"{results['date'].replace(':', '').replace('+0000', 'Z')}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target}")


if __name__ == "__main__":
    sys.exit(main())
