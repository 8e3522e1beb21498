"""A private PostgreSQL: initialised in a temporary directory, on a loopback port that it keeps over restarts.

With SLUICE_TEST_DATABASE=postgres each data directory under test has a database in one.

    cd acceptance && python -m harness.postgres      starts one, prints its setting, and ends it on Ctrl-C
"""

import atexit
import base64
import contextlib
import hashlib
import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.daemon import Daemon, free_port, program

USER = "sluice"
IS_WANTED = os.environ.get("SLUICE_TEST_DATABASE", "") == "postgres"


def programs():
    """The folders in which Debian has the programs of each version, the newest first."""
    found = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(found, key=lambda path: float(path.parent.name), reverse=True)


class Postgres:
    """A context manager that starts one and removes its directory in the end.

    Killing it loses nothing that was committed; only a system crash could, because nothing is forced to disk.
    """

    def __init__(self, *, connections=200):
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.data = self.folder / "data"
        self.port = free_port()
        self.password = secrets.token_urlsafe(24)
        self.databases = itertools.count(1)
        self.by_directory = {}
        # PostgreSQL refuses to run as root.
        self.as_user = []
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            self.as_user = ["setpriv", "--reuid", user.pw_uid, "--regid", user.pw_gid, "--clear-groups", "--"]
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": connections,
            "shared_buffers": "32MB",
            "fsync": "off",
            "full_page_writes": "off",
        }
        self.daemon = None

    # Life

    def __enter__(self):
        try:
            password = self.folder / "password"
            password.write_text(self.password)
            password.chmod(0o644)
            form = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
            self._run([*self.as_user, self.program("initdb"), "-D", self.data, "-U", USER, "--pwfile", password, *form])
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name):
        return program(name, folders=programs(), package="postgresql")

    def start(self, timeout=30):
        """Starts it, as a new process on the same port, and waits until it takes connections."""
        settings = [argument for name, value in self.options.items() for argument in ("-c", f"{name}={value}")]
        command = [*self.as_user, self.program("postgres"), "-D", self.data, *settings]
        deadline = time.monotonic() + timeout
        while True:
            self.daemon = Daemon("postgres", command, log=self.folder / "log")
            self.daemon.start()
            while self.daemon.is_running() and not self.is_ready():
                assert time.monotonic() < deadline, f"PostgreSQL did not start:\n{self.daemon.log_tail()}"
                time.sleep(0.02)
            if self.daemon.is_running():
                return self
            # After a kill, shared memory can be in use for a moment, and the next process refuses to share it.
            assert time.monotonic() < deadline, f"PostgreSQL ended:\n{self.daemon.log_tail()}"
            time.sleep(0.1)

    def stop(self):
        """Ends it and all its connections, in good order."""
        if self.daemon:
            self.daemon.stop(number=signal.SIGINT)

    def restart(self):
        self.stop()
        self.start()

    def kill(self):
        """kill -9 of the server and of all its processes: clients see their connections break."""
        if self.daemon is None or not self.daemon.is_running():
            return
        pid = self.daemon.pid
        # Before its children, as it would start some anew.
        self.daemon.pause()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.daemon.kill()
        for child in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def pause(self):
        """No responses, neither on open connections nor on new ones."""
        pid = self.daemon.pid
        self.paused = [pid]
        # Before its children, as it would start some anew.
        os.kill(pid, signal.SIGSTOP)
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            # One may have ended meanwhile: a connection's, or a worker of its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGSTOP)
                self.paused.append(child)

    def go_on(self):
        for one in reversed(self.paused):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)

    def is_ready(self):
        command = [self.program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", self.port, "-t", "5"]
        return subprocess.run(list(map(str, command))).returncode == 0

    # Use

    def url(self, database="postgres"):
        return f"postgres://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def make_database(self):
        """The URL of a new, empty database."""
        name = f"test{next(self.databases)}"
        self.query(f"CREATE DATABASE {name}")
        return self.url(name)

    def environment(self, data):
        """Variables of a server whose data directory is `data`: a database and a master secret of its own."""
        digest = hashlib.sha256(str(data).encode()).digest()
        if digest not in self.by_directory:
            self.by_directory[digest] = self.make_database()
        return {
            "SLUICE_DATABASE_URL": self.by_directory[digest],
            "SLUICE_MASTER_SECRET": base64.b64encode(digest).decode(),
        }

    def query(self, statement, url=None):
        """The rows of a statement as lists of text."""
        environment = os.environ | {"PGPASSWORD": self.password}
        where = ["-d", url or self.url()]
        text = self._run(
            [
                self.program("psql"),
                "-X",
                "-q",
                "-A",
                "-t",
                "-F",
                "\t",
                "-v",
                "ON_ERROR_STOP=1",
                *where,
                "-c",
                statement,
            ],
            environment,
        )
        return [line.split("\t") for line in text.splitlines()]

    def terminate_connections(self):
        """Cuts the connections of all clients and returns their number."""
        rows = self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(rows)

    def connections(self, database=None):
        where = f" AND datname = '{database}'" if database else ""
        text = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        return int(self.query(text + where)[0][0])

    def _run(self, command, environment=None):
        done = subprocess.run(
            list(map(str, command)), env=environment, cwd="/", capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout


_shared = []


def shared():
    """One for the whole run."""
    if not _shared:
        _shared.append(Postgres(connections=400).__enter__())
        atexit.register(_shared[0].close)
    return _shared[0]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with contextlib.suppress(KeyboardInterrupt), Postgres() as postgres:
        print(f"SLUICE_DATABASE_URL={postgres.make_database()}")
        print("ready", flush=True)
        while postgres.is_ready():
            time.sleep(1)


if __name__ == "__main__":
    main()
