"""Which system calls a process makes (strace, which must be allowed to trace it)."""

import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

# `PID call(first argument, …`, the first with the path of its file if it is a descriptor.
LINE = re.compile(r"^\d+\s+(\w+)\((?:AT_FDCWD<[^>]*>, |\d+<([^>]*)>)?(?:\"([^\"]*)\")?")


def is_available():
    """Not in every container."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


class Trace:
    """The calls on files, descriptors and memory that all threads of a process make while this is open.

    `calls`, afterwards: the name of each and the path of the file that it is about, if it is about one.
    """

    def __init__(self, pid, output):
        self.pid = pid
        self.output = Path(output)
        self.calls = []

    def __enter__(self):
        # -y: descriptors with their paths.
        command = ["strace", "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-p", self.pid, "-o", self.output]
        self.process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
        # One line for all threads that there are; then one for each that comes.
        line = self.process.stderr.readline()
        assert "attached" in line, f"strace: {line}"
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.reader.join(30)
        found = map(LINE.match, self.output.read_text(errors="replace").splitlines())
        self.calls = [(match[1], match[2] or match[3] or "") for match in found if match]
