"""A disk that a power cut can happen to, under a real file system (ext4, XFS, Btrfs), without a kernel module.

A FUSE file records every block write, every flush and every mark of the test in one log, as dm-log-writes does. A
loop device on it carries the file system. Any moment of the log can be replayed into an image as a disk may have been
at that moment: all that was written before the last flush, and of what was written after it nothing, all, or a random
choice of blocks. The image is then mounted, which replays the file system's journal, and looked at.

Needs root and the Debian packages fuse3, libfuse3-3, e2fsprogs, xfsprogs and btrfs-progs.

    with Disk(folder, mebibytes=512, filesystem="ext4") as disk:
        ...                                                 # start a server on disk.path
        disk.record()                                       # what came before is the base of all states
        ...                                                 # upload; after each response: disk.mark({"offset": 4096})
        disk.stop()                                         # after the server was killed
        for state in disk.states(count=50, seed=7):         # state.marks: those made before its moment
            with state.mounted() as path:
                ...                                         # start a server on `path`: what was acknowledged is there

A mark counts as made before a moment if it stands before it in the log: make it after the response was received. What a
request may have done before its response is shown by a mark before the request.
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import stat
import struct
import subprocess
import sys
import threading
import time

import pytest

BLOCK = 4096
RECORD = struct.Struct("<cQI")  # kind (W, F, M), offset in bytes, bytes that follow
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
ENVIRONMENT = os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def require(filesystem):
    """Skips the test if something for such a disk is missing, and says what."""
    if os.geteuid() != 0:
        pytest.skip("power cuts need root")
    for command in ("fusermount3", "losetup", MAKE[filesystem][0], "unshare"):
        if not shutil.which(command, path=ENVIRONMENT["PATH"]):
            pytest.skip(f"power cuts need {command}: scripts/setup --test")
    if not os.path.exists("/dev/fuse"):
        pytest.skip("power cuts need /dev/fuse")


def unmount(folder):
    """A file system is busy for a moment after its last process has gone."""
    until = time.monotonic() + 60
    while True:
        try:
            return run("umount", folder)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def serve(folder, size, log):
    """The FUSE process: /disk is the disk, a write to /mark is a mark. Ends when it is unmounted."""
    import mfusepy

    class Files(mfusepy.Operations):
        use_ns = True

        def __init__(self):
            self.image = os.open(log + ".image", os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(self.image, size)
            self.records = open(log, "ab", buffering=0)
            self.order = threading.Lock()

        def getattr(self, path, fh=None):
            now = time.time_ns()
            common = dict(st_uid=0, st_gid=0, st_atime=now, st_mtime=now, st_ctime=now, st_nlink=1, st_size=0)
            if path == "/":
                return dict(common, st_mode=stat.S_IFDIR | 0o700, st_nlink=2)
            if path == "/disk":
                return dict(common, st_mode=stat.S_IFREG | 0o600, st_size=size)
            if path == "/mark":
                return dict(common, st_mode=stat.S_IFREG | 0o600)
            raise mfusepy.FuseOSError(2)

        def readdir(self, path, fh):
            return [".", "..", "disk", "mark"]

        def open(self, path, flags):
            return 1

        def truncate(self, path, length, fh=None):
            return 0

        def read(self, path, count, offset, fh):
            return os.pread(self.image, count, offset) if path == "/disk" else b""

        def write(self, path, data, offset, fh):
            with self.order:
                kind = b"W" if path == "/disk" else b"M"
                self.records.write(RECORD.pack(kind, offset, len(data)) + data)
                if kind == b"W":
                    os.pwrite(self.image, data, offset)
            return len(data)

        def fsync(self, path, datasync, fh):
            with self.order:
                self.records.write(RECORD.pack(b"F", 0, 0))
            return 0

        def flush(self, path, fh):
            return 0

    mfusepy.FUSE(Files(), folder, foreground=True, nothreads=False)


class State:
    """The disk as a power cut at one moment may have left it. It must be mounted before the next state is requested."""

    def __init__(self, disk, moment, kept, seed, marks, pending):
        self.disk, self.moment, self.kept, self.seed, self.marks = disk, moment, kept, seed, marks
        self.pending = pending

    def __repr__(self):
        return f"State(moment={self.moment}, kept={self.kept}, seed={self.seed}, marks={len(self.marks)})"

    def build(self, image):
        """Writes the image; unflushed writes survive by whole blocks, as `kept` says: none, all, or some."""
        run("cp", "--sparse=always", self.disk.flushed, image)
        chance = random.Random(self.seed)
        with open(image, "r+b", buffering=0) as file:
            for where, piece in self.pending if self.kept != "none" else []:
                for start in range(0, len(piece), BLOCK):
                    if self.kept == "all" or chance.random() < 0.5:
                        os.pwrite(file.fileno(), piece[start : start + BLOCK], where + start)

    @contextlib.contextmanager
    def mounted(self):
        folder = os.path.join(self.disk.folder, f"state-{self.moment}-{self.kept}")
        image = folder + ".image"
        os.makedirs(folder, exist_ok=True)
        self.build(image)
        device = run("losetup", "-f", "--show", image)
        try:
            run("mount", device, folder)
            try:
                yield os.path.join(folder, "data")
            finally:
                unmount(folder)
        finally:
            run("losetup", "-d", device)
            os.unlink(image)
            os.rmdir(folder)


class Disk:
    def __init__(self, folder, mebibytes=256, filesystem="ext4"):
        self.folder, self.size, self.filesystem = os.path.abspath(folder), mebibytes << 20, filesystem
        self.log, self.base = os.path.join(self.folder, "log"), os.path.join(self.folder, "base.image")
        self.flushed = os.path.join(self.folder, "flushed.image")
        self.device = self.process = None
        self.start = 0

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.fuse, self.top = os.path.join(self.folder, "fuse"), os.path.join(self.folder, "fs")
        os.makedirs(self.fuse)
        os.makedirs(self.top)
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), self.fuse, str(self.size), self.log],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.fuse, "disk")):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the recording disk did not start")
            time.sleep(0.02)
        self.device = run("losetup", "-f", "--show", os.path.join(self.fuse, "disk"))
        run(*MAKE[self.filesystem], self.device)
        run("mount", self.device, self.top)
        self.path = os.path.join(self.top, "data")
        os.mkdir(self.path, 0o700)
        run("sync", "-f", self.top)
        return self

    def record(self):
        """Begins: the disk as it is now, flushed, is what every state starts from."""
        run("sync", "-f", self.top)
        run("cp", "--sparse=always", self.log + ".image", self.base)
        self.start = os.path.getsize(self.log)

    def mark(self, value):
        with open(os.path.join(self.fuse, "mark"), "wb", buffering=0) as file:
            file.write(json.dumps(value).encode())

    def stop(self):
        """Ends the recording; what the unmounting writes is not part of it."""
        self.end = os.path.getsize(self.log)
        if self.device:
            unmount(self.top)
            run("losetup", "-d", self.device)
            self.device = None
        if self.process:
            unmount(self.fuse)
            self.process.wait(120)
            self.process = None

    def __exit__(self, *exception):
        if self.process:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def records(self):
        with open(self.log, "rb") as file:
            file.seek(self.start)
            while file.tell() < self.end:
                kind, offset, count = RECORD.unpack(file.read(RECORD.size))
                yield kind, offset, file.read(count)

    def states(self, count, seed):
        """States at random moments, half of them right after a mark, when what was acknowledged is most at risk.

        In the order of their moments, so that one pass over the log makes them all.
        """
        chance = random.Random(seed)
        marks, total = [], 0
        for kind, _, data in self.records():
            total += 1
            if kind == b"M":
                marks.append((total, json.loads(data)))
        chosen = []
        for number in range(count):
            after = marks and number % 2 == 0
            moment = chance.choice(marks)[0] if after else chance.randint(0, total)
            chosen.append((moment, number))
        run("cp", "--sparse=always", self.base, self.flushed)
        records, place, pending = self.records(), 0, []
        for moment, number in sorted(chosen):
            with open(self.flushed, "r+b", buffering=0) as flushed:
                for kind, offset, data in itertools.islice(records, moment - place):
                    if kind == b"W":
                        pending.append((offset, data))
                    elif kind == b"F":
                        for where, piece in pending:
                            os.pwrite(flushed.fileno(), piece, where)
                        pending.clear()
            place = moment
            made = [value for position, value in marks if position <= moment]
            yield State(self, moment, ("none", "some", "all")[number % 3], seed + number, made, pending)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
