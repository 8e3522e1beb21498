"""The server as a process."""

import hashlib
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import requests

from harness import postgres
from harness.wire import until

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SLUICE_BINARY", ROOT / ".build/release/sluice")).resolve()
ADMIN_KEY = "slk_acceptance_admin_key_0123456789abcdefghijklmnop"
# Most memory besides the pages of the program and its libraries (5 MiB at the start), in bytes.
MEMORY = 16 << 20
LISTENING = re.compile(r"listening on (?:(https?)://[^\s:]+:(\d+)|unix:(\S+))")


class Server:
    """One `sluice serve` on a port of its own; stopped by SIGTERM, which must end it with status 0."""

    def __init__(self, data, *, environment=None, admin_key=ADMIN_KEY, arguments=(), log=None, prefix=()):
        self.data = Path(data)
        self.admin_key = admin_key
        self.arguments = list(arguments)
        # A command that runs the server in its place, such as `unshare`.
        self.prefix = list(prefix)
        self.log = Path(log) if log else self.data.parent / f"{self.data.name}.log"
        self.environment = self._environment(environment or {})
        # Another version, for a while.
        self.binary = BINARY
        self.process = None
        self.port = None
        self.scheme = None
        # Of its Unix socket, if it has one.
        self.path = None
        self.lines = []
        # Of the preset key, if it was asked for since the start.
        self.preset_pair = None

    def _environment(self, extra):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        environment |= {
            "SLUICE_DATA_DIR": str(self.data),
            "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
            # Only for tests that want it: they would all take the same port.
            "SLUICE_OBJECT_LISTEN": "none",
        }
        if postgres.IS_WANTED and not any(name.startswith("SLUICE_DATABASE_URL") for name in extra):
            environment |= postgres.shared().environment(self.data)
        if self.admin_key:
            environment["SLUICE_ADMIN_KEY"] = self.admin_key
        return environment | extra

    # Life

    def start(self, timeout=20):
        assert self.binary.exists(), f"{self.binary} is not there: build it, or set SLUICE_BINARY"
        self.lines = []
        self.preset_pair = None
        ready = threading.Event()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, self.binary, "serve", *self.arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout, ready), daemon=True)
        self.reader.start()
        if not ready.wait(timeout) or self.port is None:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.output()}\n{self.log_tail()}")
        return self

    def _read(self, stream, ready):
        self.port = None
        with open(self.log, "ab") as log:
            for line in stream:
                log.write(line)
                log.flush()
                text = line.decode(errors="replace").rstrip("\n")
                self.lines.append(text)
                if found := LISTENING.search(text):
                    self.scheme, self.port, self.path = found[1], int(found[2] or 0), found[3]
                    ready.set()
        stream.close()
        ready.set()

    def stop(self, timeout=30):
        """Asks it to stop and checks that it ends properly."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"SIGTERM did not end the server within {timeout} s:\n{self.log_tail()}") from None
        self.reader.join(5)
        self.process = None
        assert status == 0, f"the server ended with status {status}:\n{self.log_tail()}"

    def kill(self):
        """kill -9."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.reader.join(5)
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, failure, *_):
        if failure is None:
            self.stop()
        else:
            self.kill()

    # Observation

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}{self.environment.get('SLUICE_GATEWAY_BASE_PATH', '')}"

    @property
    def address(self):
        return self.path or ("127.0.0.1", self.port)

    def output(self):
        """Standard output so far."""
        return "\n".join(self.lines)

    @property
    def object_url(self):
        """Of the endpoint for clients of S3."""
        return self.wait_for_output(r"the object endpoint for S3 clients is at (\S+)")[1]

    def pair(self, key_id=None):
        """Access key and secret with which clients of S3 use an API key, by default the preset one."""
        if key_id:
            return self._asked_pair(key_id)
        if not self.preset_pair:
            preset = "key_" + hashlib.sha256(self.admin_key.encode()).digest()[:8].hex()
            self.preset_pair = self._asked_pair(preset)
        return self.preset_pair

    def _asked_pair(self, key_id):
        printed = run("keys", "pair", key_id, environment=self.environment).stdout
        return tuple(line.partition("=")[2] for line in printed.splitlines())

    def wait_for_output(self, pattern, timeout=10):
        deadline = time.monotonic() + timeout
        while True:
            if found := re.search(pattern, self.output()):
                return found
            assert time.monotonic() < deadline, f"no {pattern!r} in the output:\n{self.output()}"
            time.sleep(0.02)

    def whole_log(self):
        """All lines of requests that were answered before the call; lines are written a moment after the response."""
        last = requests.get(self.url + "/healthz", verify=False, timeout=10).headers["X-Request-ID"]

        def text():
            text = self.log.read_text(errors="surrogateescape")
            return text if last in text and text.endswith("\n") else None

        return until(text)

    def log_tail(self, lines=40):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def peak_memory(self):
        """Most resident memory so far, in bytes (VmHWM)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def forget_start(self):
        """Peaks of memory count from here on. A second after the start, code that only the start needed is unmapped."""
        until(lambda: self.resident_memory() < 0.75 * self.peak_memory())
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def resident_memory(self):
        """Bytes of memory now (VmRSS)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def peak_own_memory(self):
        """The same without the pages of files, mostly of the program, which the kernel can read again.

        Only after `forget_start`.
        """
        status = Path(f"/proc/{self.pid}/status").read_text()
        return self.peak_memory() - int(re.search(r"RssFile:\s+(\d+) kB", status)[1]) * 1024

    def anonymous_memory(self):
        """Bytes of memory now that are not pages of files."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024

    def cpu_seconds(self):
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stored_files(self, upload_id):
        """The files of the data directory that belong to an upload."""
        return [path for path in self.data.rglob("*") if path.is_file() and upload_id in path.name]

    def stored_bytes(self, upload_id):
        """Disk space of an upload, including reserved space."""
        return sum(path.stat().st_blocks * 512 for path in self.stored_files(upload_id))


def run(*arguments, data=None, environment=None, check=True):
    """Runs a command of the binary and returns its result."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    if data:
        variables["SLUICE_DATA_DIR"] = str(data)
    if "serve" in arguments:
        # The usual ports may be in use on this machine.
        variables |= {"SLUICE_GATEWAY_LISTEN": "127.0.0.1:0", "SLUICE_OBJECT_LISTEN": "127.0.0.1:0"}
    done = subprocess.run(
        [BINARY, *map(str, arguments)],
        env=variables | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if check:
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done
