"""What all kinds of load share: the servers, the source of all bytes, the rates, and the list of what went wrong."""

import json
import random
import socket
import struct
import subprocess
import threading
import time
import traceback
from collections import Counter, deque

from harness.data import MIB, content, sha256
from harness.server import ADMIN_KEY, Server, run
from harness.wire import Closed, Wire

KEY = ("Authorization", f"Bearer {ADMIN_KEY}")
# Short, so that the server's own ways to end a connection are walked often.
ENVIRONMENT = {
    "SLUICE_TIMEOUTS_HEAD": "4s",
    "SLUICE_TIMEOUTS_IDLE": "8s",
    "SLUICE_TIMEOUTS_BODY_PROGRESS": "4s",
    "SLUICE_TIMEOUTS_WRITE": "4s",
    "SLUICE_UPLOADS_EXPIRE_AFTER": "60s",
    "SLUICE_UPLOADS_SWEEP_EVERY": "5s",
    "SLUICE_LOG_LEVEL": "warning",
}
LARGEST = 64 * MIB
# Each upload is a slice of this; the bytes do not repeat, so bytes in a wrong place are seen.
SOURCE = memoryview(content(LARGEST + 16 * MIB, 1))
# Most bytes of finished uploads that one server keeps for downloads.
SHELF_BYTES = 256 * MIB
# By design, under load or on a full disk (openapi.yaml).
BUSY = {503, 507}


class Target:
    """A server, how to speak to it, and the finished uploads that it holds."""

    def __init__(self, name, folder, context=None, environment=None):
        self.name = name
        self.context = context
        self.server = Server(folder / name, environment=ENVIRONMENT | (environment or {})).start()
        # The server ends with this program, also if this is killed.
        command = ["sh", "-c", 'read -r _ || kill -9 "$1"', "sh", str(self.server.pid)]
        self.guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self.pair = json.loads(run("credentials", "tencent", environment=self.server.environment).stdout)
        self.shelf = Shelf()

    def wire(self, timeout=60):
        return Wire(self.server.address, timeout, self.context)

    def ask(self, method, path, fields=(), body=b"", timeout=60):
        """One exchange on a connection of its own."""
        with self.wire(timeout) as wire:
            return wire.exchange(method, path, [*fields, ("Connection", "close")], body)

    def end(self):
        """Ends the server; what was wrong with its end, if anything."""
        try:
            self.server.stop()
            return None
        except AssertionError as failure:
            return str(failure)
        finally:
            self.server.kill()
            self.guard.communicate(b"\n")


class Shelf:
    """Finished uploads; a reader borrows one, so that it is not deleted meanwhile."""

    def __init__(self):
        self.lock = threading.Lock()
        self.items = deque()
        self.borrowed = Counter()

    def add(self, item):
        with self.lock:
            self.items.append(item)

    def borrow(self, generator):
        with self.lock:
            if not self.items:
                return None
            item = generator.choice(self.items)
            self.borrowed[item.identifier] += 1
            return item

    def give_back(self, item):
        with self.lock:
            self.borrowed[item.identifier] -= 1

    def surplus(self, limit=SHELF_BYTES):
        """Takes the uploads to delete: the oldest ones without readers, until the rest fits."""
        taken = []
        with self.lock:
            size = sum(item.size for item in self.items)
            for item in list(self.items):
                if size > limit and not self.borrowed[item.identifier]:
                    self.items.remove(item)
                    taken.append(item)
                    size -= item.size
        return taken


class Item:
    """A slice of the source as an upload."""

    def __init__(self, size, start, path=None):
        self.size = size
        self.start = start
        self.path = path
        # How far bytes were sent, over all requests.
        self.sent = 0
        # Requests that were served later than what followed them.
        self.late = 0

    @property
    def identifier(self):
        return self.path.rsplit("/", 1)[1].split(".", 1)[0]

    def bytes(self, begin, end):
        """The view of these bytes of it."""
        return SOURCE[self.start + begin : self.start + end]

    def digest(self):
        return sha256(self.bytes(0, self.size))


class Rate:
    """At most so many a second, over all threads."""

    def __init__(self, per_second):
        self.per_second = per_second
        self.lock = threading.Lock()
        self.free_at = time.monotonic()

    def take(self, count):
        with self.lock:
            now = time.monotonic()
            self.free_at = max(self.free_at, now - 0.1) + count / self.per_second
            wait = self.free_at - now
        if wait > 0:
            time.sleep(min(wait, 5))


class Log:
    """What was done, counted, and what went wrong."""

    MOST = 50

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = Counter()
        self.failures = []
        self.over = threading.Event()

    def count(self, name, number=1):
        with self.lock:
            self.counts[name] += number

    def fail(self, text, is_last=False):
        with self.lock:
            self.counts["failures"] += 1
            if is_last or len(self.failures) < self.MOST:
                self.failures.append(text)
            else:
                self.over.set()  # Further failures of this run add nothing.


class Worker(threading.Thread):
    """Repeats its turn until the load stops; any exception in a turn is a failure of the server."""

    # Seconds between turns, at the most.
    pause = 0.1

    def __init__(self, target, log, rates, stop, seed):
        self.generator = random.Random(f"{seed} {type(self).__name__} {target.name}")
        super().__init__(name=f"{type(self).__name__} {target.name}", daemon=True)
        self.target = target
        self.log = log
        self.rates = rates
        self.stopping = stop

    def run(self):
        while not self.stopping.is_set() and not self.log.over.is_set():
            try:
                self.turn()
            except (AssertionError, OSError, Closed, ValueError, LookupError) as failure:
                where = traceback.extract_tb(failure.__traceback__)
                lines = ", ".join(f"{frame.name}:{frame.lineno}" for frame in where[1:4])
                self.log.fail(f"{self.name}: {type(failure).__name__}: {str(failure)[:500]} ({lines})")
            self.stopping.wait(self.generator.uniform(0, self.pause))
        self.finish()

    def turn(self):
        raise NotImplementedError

    def finish(self):
        """Gives back what it holds."""

    def count(self, name, number=1):
        self.log.count(name, number)

    def is_busy(self, answer):
        """Whether the server may refuse this for now; counted, as there should be few."""
        if answer.status in BUSY:
            self.count(f"answers {answer.status}")
        return answer.status in BUSY


def expect(condition, text):
    """An assertion that stays when Python runs with -O."""
    if not condition:
        raise AssertionError(text)


def reset(connection):
    """Closes with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
