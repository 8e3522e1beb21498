"""A gateway whose system calls on its data directory fail when a test says so (faults.c, loaded before libc)."""

import contextlib
import ctypes
import functools
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path

from harness.object_client import ObjectServer

SOURCE = Path(__file__).with_name("faults.c")
SLOW_WRITES = Path(__file__).with_name("slow_writes.c")

# As in faults.c.
KINDS = (
    "open create read pread pwrite write writev splice copy_file_range fallocate ftruncate fsync fdatasync"
    " sync_file_range rename unlink mkdir rmdir setxattr getxattr opendir link"
).split()
PLACES = ["blobs", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "other"]
LOG_LINES, LOG_WIDTH, SLOTS = 64, 192, 65536

# Calls that write data, and can write part of it.
WRITES = {"pwrite", "write", "splice", "copy_file_range"}
# Calls that can find no space (syncs because of delayed allocation); the others fail with EIO where these have ENOSPC.
ROOM = WRITES | set("create writev fallocate ftruncate fsync fdatasync mkdir rename setxattr link".split())


class Control(ctypes.Structure):
    """As in faults.c."""

    _fields_ = [
        ("armed", ctypes.c_int32),
        ("sticky", ctypes.c_int32),
        ("is_short", ctypes.c_int32),
        ("kinds", ctypes.c_uint32),
        ("places", ctypes.c_uint32),
        ("unused", ctypes.c_int32),
        ("countdown", ctypes.c_int64),
        ("fired", ctypes.c_int64),
        ("numbers", ctypes.c_int32 * 32),
        ("pattern", ctypes.c_char * 128),
        ("seen", (ctypes.c_int64 * 8) * 32),
        ("injected", (ctypes.c_int64 * 8) * 32),
        ("undone", ctypes.c_int64),
        ("lines", ctypes.c_int64),
        ("log", (ctypes.c_char * LOG_WIDTH) * LOG_LINES),
        ("slots", (ctypes.c_int64 * 4) * SLOTS),
    ]


@functools.cache
def compiled(source=SOURCE):
    """The library of a source, made once for each process that runs tests; `None` without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if not compiler:
        return None
    library = Path(libraries().name) / f"{source.stem}.so"
    options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run([compiler, *options, "-pthread"], check=True)
    return library


@functools.cache
def libraries():
    """Their folder, which ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="libraries-")
    # Also for servers of another user.
    os.chmod(folder.name, 0o755)
    return folder


class Faults:
    """The rule of one process, and what it counted."""

    def __init__(self, folder, root):
        self.library = compiled()
        self.path = Path(folder) / "faults.control"
        self.path.write_bytes(bytes(ctypes.sizeof(Control)))
        with open(self.path, "r+b") as file:
            self.mapping = mmap.mmap(file.fileno(), 0)
        self.control = Control.from_buffer(self.mapping)
        self.environment = {
            "LD_PRELOAD": str(self.library),
            "FAULTS_CONTROL": str(self.path),
            "FAULTS_ROOT": os.path.realpath(root),
        }

    def arm(self, nth=1, *, kinds=KINDS, places=PLACES, pattern="", number=EIO, sticky=False, short=False):
        """The nth call of these fails; with `sticky` all behind it, with `short` it writes half and the next one fails.

        `pattern` is one of fnmatch(3), for the path below the data directory.
        """
        control = self.control
        control.armed = 0
        control.kinds = sum(1 << KINDS.index(kind) for kind in kinds)
        control.places = sum(1 << PLACES.index(place) for place in places)
        control.pattern = pattern.encode()
        control.sticky, control.is_short = sticky, short
        for index, kind in enumerate(KINDS):
            control.numbers[index] = number if number not in (ENOSPC, EDQUOT) or kind in ROOM else EIO
        control.countdown = nth
        control.armed = 1

    def disarm(self):
        self.control.armed = 0

    @contextlib.contextmanager
    def armed(self, *arguments, **options):
        self.arm(*arguments, **options)
        try:
            yield self
        finally:
            self.disarm()

    @property
    def fired(self):
        """Injections so far."""
        return self.control.fired

    def _table(self, table):
        return {
            (kind, place): count
            for row, kind in enumerate(KINDS)
            for column, place in enumerate(PLACES)
            if (count := table[row][column])
        }

    def seen(self):
        """Calls so far, by kind and place."""
        return self._table(self.control.seen)

    def injected(self):
        """Those of them that failed."""
        return self._table(self.control.injected)

    @property
    def undone(self):
        """Bytes that failed syncs discarded."""
        return self.control.undone

    def recent(self, count=8):
        """The last injections, for messages."""
        last = self.control.lines
        return [self.control.log[line % LOG_LINES].value.decode() for line in range(max(0, last - count), last)]


class FaultyServer(ObjectServer):
    """A gateway on ports that it keeps over restarts, with `faults`."""

    def __init__(self, folder, ports, environment=None):
        data = Path(folder) / "data"
        self.faults = Faults(folder, data)
        #: How it ended, if it did so before it listened.
        self.status = None
        settings = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{ports[0]}"}
        super().__init__(data, ports[1], environment=settings | self.faults.environment | (environment or {}))

    def kill(self):
        process = self.process
        if process is not None and self.port is None:
            # It ends by itself.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        super().kill()
        self.status = process.returncode if process is not None else None

    def try_to_start(self):
        """Whether it listens; otherwise it must have reported why and ended properly."""
        mark = self.log.stat().st_size if self.log.exists() else 0
        try:
            self.start()
            return True
        except AssertionError:
            text = self.log.read_bytes()[mark:].decode(errors="replace")
            assert self.status is not None and self.status > 0, f"ended with {self.status}: {text}"
            assert re.search(r"can ?not|failed|error", text), text
            return False
