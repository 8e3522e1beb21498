"""What all clients of the object endpoint have in common: its location, and the operations."""

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from harness import hosts
from harness.data import MIB

# The least that AWS takes, so that few bytes make several parts.
PART = 5 * MIB
# Other vendors take less, of which a store has to be given several at a time.
SMALL_PART = MIB
# A host below which each bucket has one of its own, by dialect; and one that leads to a bucket without naming it.
DOMAINS = {"s3": "s3.localtest", "oss": "oss.localtest", "cos": "cos.localtest"}
CNAME = "media.localtest"
HOSTS = [*DOMAINS.values(), *(f"*.{domain}" for domain in DOMAINS.values()), CNAME]


@dataclass
class Place:
    """Where a client finds the endpoint, and with what credentials.

    `style`: `path` (the bucket is in the path), `virtual` (in the host), or `cname` (nowhere: the credentials tell).
    `certificate`: what it has to trust; `None` without TLS. `folder`: for all that the client keeps.
    """

    port: int
    style: str
    bucket: str
    credentials: tuple[str, str, str | None]
    folder: Path
    certificate: Path | None = None

    @property
    def scheme(self):
        return "https" if self.certificate else "http"

    def host(self, dialect):
        """As clients see it."""
        if self.style == "path":
            return f"127.0.0.1:{self.port}"
        return CNAME if self.style == "cname" else DOMAINS[dialect]

    def url(self, dialect):
        return f"{self.scheme}://{self.host(dialect)}"

    @property
    def table(self):
        """Of `harness.hosts`."""
        return {domain: self.port for domain in (*DOMAINS.values(), CNAME)}


class ObjectClient(ABC):
    """One client at one place."""

    name: str
    # Of `POST /v1/sts/tokens`.
    format: str
    # In whose words the store is spoken to.
    dialect: str
    # Bytes of the parts that it sends.
    part = PART
    # Whether it resumes an interrupted multipart upload; otherwise it aborts the upload and starts again.
    resumes = True
    # What it raises if the link to the store breaks.
    failures: type[Exception] | tuple[type[Exception], ...]

    def __init__(self, place):
        self.place = place
        self.bucket = place.bucket

    @abstractmethod
    def put(self, path, key):
        """Uploads a small file in one request."""

    @abstractmethod
    def upload(self, path, key):
        """Uploads a large file in parts; after one that failed, what that left to do."""

    @abstractmethod
    def sizes(self, prefix):
        """The objects whose keys begin so, by key."""

    @abstractmethod
    def download(self, key, path): ...

    @abstractmethod
    def delete(self, key): ...


class ToolFailed(Exception):
    """A command-line tool ended badly."""


class CommandLineClient(ObjectClient):
    """A tool that is installed beside Python."""

    script: str
    failures = ToolFailed

    def variables(self):
        """Of the environment, besides those that all have."""
        return {}

    def run(self, *arguments):
        """What it printed; it must end well."""
        acceptance = Path(__file__).resolve().parents[2]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(acceptance),
            "HOSTS": hosts.as_text(self.place.table),
        }
        script = Path(sys.executable).with_name(self.script)
        return subprocess.run(
            [sys.executable, "-m", "harness.hosts", script, *map(str, arguments)],
            env=environment | self.variables(),
            cwd=self.place.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def checked(self, *arguments):
        done = self.run(*arguments)
        # The interpreter of a tool with threads crashed once as it ended, after all was done.
        if done.returncode == -signal.SIGSEGV:
            done = self.run(*arguments)
        if done.returncode != 0:
            raise ToolFailed(
                f"{self.script} {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}"
            )
        return done.stdout
