"""The resources of a server at one time, from the system and its own metrics."""

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from soak.common import KEY

METRIC = re.compile(r"^([a-z_]+)(\{[^}]*\})? (\S+)$", re.MULTILINE)
# Answers of these statuses are failures of the server whatever was asked.
BAD_STATUSES = ("500", "502", "504")


@dataclass
class Sample:
    phase: str
    # Seconds since the begin.
    time: float
    # Bytes: VmRSS, and the private part of it (smaps_rollup).
    resident: int = 0
    private: int = 0
    # Open descriptors: all, and of these ends of pipes and files of the state, which pools keep.
    descriptors: int = 0
    pipe_ends: int = 0
    state_files: int = 0
    threads: int = 0
    cpu: float = 0
    # Bytes of the data directory on the disk.
    disk: int = 0
    metrics: dict = field(default_factory=dict)

    @property
    def other_descriptors(self):
        """Those that no pool keeps."""
        return self.descriptors - self.pipe_ends - self.state_files


def take_sample(target, phase, begin):
    pid = target.server.pid
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    rollup = (process / "smaps_rollup").read_text()
    links = [read_link(path) for path in (process / "fd").iterdir()]
    links = [link for link in links if link]
    return Sample(
        phase=phase,
        time=time.monotonic() - begin,
        resident=int(status["VmRSS"].split()[0]) * 1024,
        private=sum(map(int, re.findall(r"^Private_\w+:\s+(\d+) kB", rollup, re.MULTILINE))) * 1024,
        descriptors=len(links),
        pipe_ends=sum(link.startswith("pipe:") for link in links),
        state_files=sum("/state.sqlite" in link for link in links),
        threads=int(status["Threads"]),
        cpu=target.server.cpu_seconds(),
        disk=disk_usage(target.server.data),
        metrics=read_metrics(target),
    )


def read_link(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None  # Closed meanwhile.


def disk_usage(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # Deleted meanwhile.
    return total


def read_metrics(target):
    answer = target.ask("GET", "/metrics", [KEY])
    if answer.status != 200:
        raise AssertionError(f"metrics: {answer}")
    found = METRIC.findall(answer.body.decode())

    def total(name, having=""):
        return sum(float(value) for one, labels, value in found if one == name and having in labels)

    return {
        "connections": total("sluice_http_connections"),
        "accepted": total("sluice_http_connections_accepted_total"),
        "requests": total("sluice_http_requests_total"),
        "refused": total("sluice_http_refused_total"),
        "bad": sum(total("sluice_http_requests_total", f'status="{status}"') for status in BAD_STATUSES),
        "completed": total("sluice_uploads_completed_total"),
        "expired": total("sluice_uploads_expired_total"),
        "taken over": total("sluice_uploads_taken_over_total"),
        "broken off": total("sluice_appends_broken_off_total"),
        "storage errors": total("sluice_upload_errors_total"),
        "bytes stored": total("sluice_upload_bytes_total"),
    }


def wait_until_idle(target, seconds=30):
    """Waits until the server has closed all connections but the one that asks; whether it did."""
    deadline = time.monotonic() + seconds
    while read_metrics(target)["connections"] > 1:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    # Files are released after the last connection.
    time.sleep(2)
    return True
