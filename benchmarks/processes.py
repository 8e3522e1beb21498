"""A server under measurement, as a process."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path


def environment_with(variables):
    """The environment of a server or a command: nothing of ours but `variables`."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")} | variables


def cpu_seconds(pids):
    """Of all threads of these processes, without those that have ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid):
    return map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


class Peer:
    """A server process (with its children) on loopback.

    `protocol` is how it takes uploads: "put" (PUT /up/NAME) or "tus" (POST to `creation`, then PATCH). What it stored
    is found below `store`. With a `certificate` it speaks TLS.
    """

    def __init__(self, name, command, *, log, environment=None, port=None, pattern=None, **about):
        self.name = name
        self.protocol = about.get("protocol")
        self.store = about.get("store")
        self.creation = about.get("creation")
        self.certificate = about.get("certificate")
        # Seconds.
        self.patience = about.get("patience", 20)
        self.log = Path(log)
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command,
                env=environment_with(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.port = port or self._wait_for(lambda: self._printed_port(pattern), "did not say its port")
        self._wait_for(self._listens, "does not listen")
        self.url = f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"

    def _printed_port(self, pattern):
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return found and int(found[1])

    def _listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        return False

    def _wait_for(self, look, failure):
        """Polls every 2 ms, which is the precision of the start-up time, for a while."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end and self.process.poll() is None:
            if found := look():
                return found
            time.sleep(0.002)
        self._end()
        sys.exit(f"{self.name} {failure}:\n{self.log_tail()}")

    def log_tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def processes(self):
        yield self.process.pid
        yield from children(self.process.pid)

    def cpu_seconds(self):
        return cpu_seconds(self.processes())

    def _status(self, key):
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.processes()]
        return [int(re.search(rf"{key}:\s+(\d+)", text)[1]) * 1024 for text in texts]

    def peak_memory(self):
        """Of the largest of its processes, in bytes."""
        return max(self._status("VmHWM"))

    def resident(self):
        """Of all its processes, in bytes."""
        return sum(self._status("VmRSS"))

    def stop(self):
        """Ends it; a server that has already ended fails the run."""
        if self.process.poll() is not None:
            sys.exit(f"{self.name} ended with status {self.process.returncode}:\n{self.log_tail()}")
        self._end()

    def _end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
