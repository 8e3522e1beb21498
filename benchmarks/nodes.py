"""The rate of two gateways on one PostgreSQL, compared with that of one, with and without delay to the database.

Run it by `benchmarks/nodes`. Nothing is asserted about time.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path

import tools
from common import HERE, KEY, in_turns, say
from processes import Peer, children, cpu_seconds
from servers import BINARY
from small import wrk

sys.path.insert(0, str(HERE.parent / "acceptance"))

from harness.postgres import Postgres  # noqa: E402
from harness.rgw import RGW  # noqa: E402

BUCKET = "benchmark"
# Round trips between gateway and database take so much longer, in milliseconds.
DELAYS = (0, 2)
OPERATIONS = {"create": "creation.lua", "upload of 1 KiB": "create.lua"}


def parse_options():
    parser = argparse.ArgumentParser(prog="benchmarks/nodes", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--seconds", type=int, default=5, help="of each load (default 5)")
    parser.add_argument("--connections", type=int, default=32, help="of clients, to each gateway (default 32)")
    parser.add_argument("--database-connections", type=int, default=8, help="of each gateway (default 8)")
    parser.add_argument("--cores", type=float, default=0.25, help="that each gateway may use; 0: all (default 0.25)")
    parser.add_argument("--quick", action="store_true", help="one round of a second: shows only that everything runs")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 1
    return options


class CPULimit:
    """A control group in which a process has only a share of the cores, as on a machine of its own. Needs root."""

    def __init__(self, name, cores):
        period = 20_000
        quota = int(cores * period)
        old = Path("/sys/fs/cgroup/cpu")
        self.path = (old if old.is_dir() else Path("/sys/fs/cgroup")) / name
        self.path.mkdir()
        if old.is_dir():
            (self.path / "cpu.cfs_period_us").write_text(str(period))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {period}")

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def remove(self):
        """Once its processes have ended."""
        self.path.rmdir()


def database_seconds(postgres):
    """CPU of all processes of the database that run now; those of a gateway's connections run as long as it."""
    pid = postgres.daemon.pid
    return cpu_seconds([pid, *children(pid)])


def start_gateway(folder, settings):
    folder.mkdir(parents=True)
    environment = settings | {
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_LISTEN": "none",
        "SLUICE_ADMIN_KEY": KEY,
        "SLUICE_LOG_LEVEL": "warning",
    }
    pattern = r"listening on http://127\.0\.0\.1:(\d+)\n"
    return Peer("sluice", [BINARY, "serve"], environment=environment, pattern=pattern, log=folder / "output")


@contextlib.contextmanager
def gateways(folder, options, postgres, store, delay):
    """Two of them; the database is `delay` milliseconds away."""
    with contextlib.ExitStack() as stack:
        url = postgres.make_database()
        if delay:
            program = tools.compile_c("peers/delay.c", folder / "programs")
            command = [program, str(postgres.port), str(delay * 500)]
            pattern = r"listening on http://127\.0\.0\.1:(\d+)\n"
            link = Peer("delay", command, pattern=pattern, log=folder / "delay-output")
            stack.callback(link.stop)
            url = url.replace(f":{postgres.port}/", f":{link.port}/")
        # With the mark of the database before.
        store.wipe(BUCKET)
        settings = store.settings(bucket=BUCKET) | {
            "SLUICE_DATABASE_URL": url,
            "SLUICE_DATABASE_CONNECTIONS": str(options.database_connections),
            "SLUICE_MASTER_SECRET": base64.b64encode(secrets.token_bytes(32)).decode(),
        }
        found = []
        for number in range(2):
            limit = None
            if options.cores:
                limit = CPULimit(f"sluice-nodes-{os.getpid()}-{delay}-{number}", options.cores)
                stack.callback(limit.remove)
            peer = start_gateway(folder / f"delay{delay}" / str(number), settings)
            stack.callback(peer.stop)
            if limit:
                limit.add(peer.process.pid)
            found.append(peer)
        yield found


def load(peers, script, seconds, options, postgres):
    """Uploads a second; for each, CPU of gateways and of the database in microseconds; cores that the database used."""
    begin = time.monotonic()
    before = [sum(peer.cpu_seconds() for peer in peers), database_seconds(postgres)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = [pool.submit(wrk, peer, script, "/files", seconds, options.connections) for peer in peers]
        counts = [one.result() for one in running]
    took = time.monotonic() - begin
    after = [sum(peer.cpu_seconds() for peer in peers), database_seconds(postgres)]
    uploads = sum(one["uploads"] for one in counts)
    rate = sum(one["uploads"] / (one["microseconds"] / 1e6) for one in counts)
    gateway, database = (new - old for old, new in zip(before, after, strict=True))
    return rate, gateway / uploads * 1e6, database / uploads * 1e6, database / took


def main():
    options = parse_options()
    if options.cores and os.geteuid() != 0:
        sys.exit("limiting the cores of a gateway needs root; --cores 0 runs without")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = Postgres()
        # Commits wait for the disk, as in production.
        postgres.options |= {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB"}
        stack.enter_context(postgres)
        store = stack.enter_context(RGW(folder / "rgw"))
        store.make_bucket(BUCKET)
        rows = []
        for delay in DELAYS:
            with gateways(folder, options, postgres, store, delay) as peers:
                for name, script in OPERATIONS.items():
                    found = {1: [], 2: []}
                    for number, count in in_turns((1, 2), options.rounds, f"{name}, {delay} ms"):
                        seconds = options.seconds if number else 1
                        result = load(peers[:count], script, seconds, options, postgres)
                        if number:
                            found[count].append(result)
                    rows.append(
                        (name, delay, *([statistics.median(c) for c in zip(*found[n], strict=True)] for n in found))
                    )
        say("")
        print(
            f"each gateway: {options.cores or 'all'} cores, {options.connections} clients, "
            f"{options.database_connections} connections\n"
        )
        print(
            "| | delay, ms | one, /s | two, /s | ratio | CPU of gateway, us | of database, us | its cores, one | two |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for name, delay, one, two in rows:
            print(
                f"| {name} | {delay} | {one[0]:.0f} | {two[0]:.0f} | {two[0] / one[0]:.2f} "
                f"| {one[1]:.0f} | {one[2]:.0f} | {one[3]:.2f} | {two[3]:.2f} |"
            )


if __name__ == "__main__":
    main()
