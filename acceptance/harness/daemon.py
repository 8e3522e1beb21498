"""Third-party servers as child processes: started in the foreground, and ended by their process id."""

import collections
import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

# Reads "+ PID" and "- PID", and kills those that are left when its input ends.
WATCHER = """
pids=" "
while read -r sign pid; do
    case $sign in
        +) pids="$pids$pid " ;;
        -) pids="${pids%% "$pid" *} ${pids#* "$pid" }" ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done
"""


class Watcher:
    """Ends the servers when this process ends, even by kill -9."""

    lock = threading.Lock()
    process = None

    @classmethod
    def tell(cls, sign, pid):
        with cls.lock:
            if cls.process is None:
                cls.process = subprocess.Popen(
                    ["/bin/sh", "-c", WATCHER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    bufsize=1,
                    start_new_session=True,
                )
            cls.process.stdin.write(f"{sign} {pid}\n")
            cls.process.stdin.flush()


class Daemon:
    """One process that runs in the foreground and writes to `log`."""

    def __init__(self, name, command, *, log, environment=None, cwd="/"):
        self.name = name
        self.command = [str(part) for part in command]
        self.log = Path(log)
        self.environment = environment
        self.cwd = cwd
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        assert not self.is_running(), f"{self.name} runs already"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal is for the tests, which end it then.
                start_new_session=True,
            )
        Watcher.tell("+", self.pid)
        return self

    def wait_for_port(self, port, timeout=60):
        """Returns once the port is open; fails if the process ends before."""
        self.wait_for(lambda: listens(port), f"does not listen on port {port}", timeout)
        return self

    def wait_for(self, condition, failure, timeout=60):
        deadline = time.monotonic() + timeout
        while not condition():
            if not self.is_running() or time.monotonic() > deadline:
                status = self.process.poll()
                self.kill()
                raise AssertionError(f"{self.name} {failure} (status {status}):\n{self.log_tail()}")
            time.sleep(0.01)

    def send_signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """SIGSTOP: connections stay open, and there are no responses."""
        self.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.send_signal(signal.SIGCONT)

    def stop(self, timeout=15, number=signal.SIGTERM):
        """Asks it to end, and kills it if it does not."""
        if self.process is None:
            return
        if self.is_running():
            self.send_signal(number)
            # A stopped process would not see it.
            self.send_signal(signal.SIGCONT)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._forget()

    def _forget(self):
        """From now on its process id can belong to another process."""
        Watcher.tell("-", self.pid)
        self.process.wait()
        self.process = None

    def kill(self):
        """kill -9."""
        if self.process is None:
            return
        self.process.kill()
        self._forget()

    def log_tail(self, lines=30):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


class Ports:
    """Ports that were returned; none is returned twice, because two servers could start on it."""

    # Not the shared generator of `random`, which some tests seed.
    random = random.SystemRandom()
    given = set()
    # The newest of them stay bound, without listening. Whoever sets SO_REUSEADDR can listen there nevertheless, as all
    # servers here do; but another run of these tests, which looks for free ports as this one does, passes them over.
    held = collections.deque(maxlen=256)


def free_ports(count):
    """Free ports, for servers that cannot choose one themselves or must keep theirs.

    Not of those that the system gives to connections by itself: one of them could take it while a server is away.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = []
    while len(found) < count:
        one = socket.socket()
        try:
            # Without SO_REUSEADDR yet, so that it fails if another process holds a port in this way.
            one.bind(("127.0.0.1", Ports.random.randrange(10_000, first) if first > 15_000 else 0))
        except OSError:
            one.close()
            continue
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = one.getsockname()[1]
        if port in Ports.given:
            one.close()
            continue
        Ports.given.add(port)
        if len(Ports.held) == Ports.held.maxlen:
            Ports.held[0].close()
        Ports.held.append(one)
        found.append(port)
    return found


def free_port():
    return free_ports(1)[0]


def listens(port, host="127.0.0.1"):
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def show(store):
    """Prints the settings of a running object store, and waits until it ends or for Ctrl-C."""
    for name, value in store.settings().items():
        print(f"{name}={value}")
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while listens(store.port):
            time.sleep(1)


def program(name, *, folders=(), package=None):
    """The path of a program, from PATH, the usual folders of system programs, or others."""
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/usr/local/sbin", "/sbin", *map(str, folders)]:
        path = Path(folder) / name
        if folder and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise AssertionError(
        f"{name} is not installed (Debian package {package or name}): scripts/setup --test installs it"
    )
