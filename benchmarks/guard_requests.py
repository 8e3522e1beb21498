"""The operations that guard.py measures, as requests on one kept connection."""

import datetime
import hashlib
import hmac
import itertools
import os
import re
import socket
import subprocess
from urllib.parse import urlsplit

from common import KEY
from processes import Peer, environment_with
from servers import BINARY

CONTENT = b"sluice--" * 128
BUCKET, REGION = "uploads", "us-east-1"
TUS = {"Tus-Resumable": "1.0.0"}
BYTES = {"Content-Type": "application/offset+octet-stream"}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
# An append is to an upload of this size; further appends go to another one.
OPEN_BYTES = 64 << 20


# Settings of the servers. Lines of the log have durations in them, whose length is a matter of time.
KINDS = {
    "acknowledged": {"SLUICE_DURABILITY": "acknowledged", "SLUICE_LOG_LEVEL": "warning"},
    "none": {"SLUICE_DURABILITY": "none", "SLUICE_LOG_LEVEL": "warning"},
    "logged": {"SLUICE_DURABILITY": "none", "SLUICE_LOG_LEVEL": "info"},
}
def alone():
    """Runs a command on one core, where a thread that wakes another one goes on until it waits itself.

    On two cores threads race: a task whose result is there before it waits for it allocates less than one that is
    woken. Other programs on the core do not run in between (SCHED_FIFO), or, without the right to that, seldom
    (SCHED_BATCH).
    """
    fifo = ["chrt", "--fifo", "1"]
    policy = fifo if subprocess.run([*fifo, "true"], capture_output=True).returncode == 0 else ["chrt", "--batch", "0"]
    return ["taskset", "-c", str(max(os.sched_getaffinity(0))), *policy]


ALONE = alone()


class Connection:
    """Sends requests at once, head and content, so that the server finds both; then reads the responses."""

    def __init__(self, port):
        self.host = f"127.0.0.1:{port}"
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(60)
        self.received = b""

    def request(self, method, path, fields, content=b""):
        fields = {"Host": self.host} | fields
        if content or method != "HEAD":
            fields["Content-Length"] = len(content)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode() + content

    def send(self, *exchanges):
        """Sends requests at once, `(request, status)` each; returns the head of the last response.

        Between several, the server finds the next one without a wait. Each response must have its status.
        """
        self.socket.sendall(b"".join(request for request, _ in exchanges))
        for request, status in exchanges:
            head = self._response(request, status)
        return head

    def _response(self, request, status):
        while True:
            while b"\r\n\r\n" not in self.received:
                self.received += self._receive()
            head, _, self.received = self.received.partition(b"\r\n\r\n")
            found = int(head[9:12])
            if found >= 200:
                break
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        expected = int(length[1]) if length and not request.startswith(b"HEAD") and found != 204 else 0
        while len(self.received) < expected:
            self.received += self._receive()
        content, self.received = self.received[:expected], self.received[expected:]
        if found != status:
            raise SystemExit(f"{request[:200]!r} was answered by {head.decode()}\n{content.decode(errors='replace')}")
        return head.decode()

    def _receive(self):
        received = self.socket.recv(65536)
        if not received:
            raise SystemExit("the server closed the connection")
        return received


class Gateway:
    """A server with a tus and an object listener, one event loop, and jobs in the background that come seldom.

    `kind` is one of `KINDS`.
    """

    def __init__(self, folder, kind, environment=None, command=(*ALONE, BINARY), **about):
        folder.mkdir(parents=True)
        variables = {
            "SLUICE_DATA_DIR": str(folder / "data"),
            "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
            "SLUICE_OBJECT_LISTEN": "127.0.0.1:0",
            "SLUICE_ADMIN_KEY": KEY,
            # The number of cores must not show.
            "SLUICE_GATEWAY_LOOPS": "1",
            "SLUICE_UPLOADS_SWEEP_EVERY": "1d",
            # Else the number of collisions, and so of steps, is by chance.
            "SWIFT_DETERMINISTIC_HASHING": "1",
        }
        variables |= KINDS[kind] | (environment or {})
        self.peer = Peer(
            f"sluice, {kind}",
            [*command, "serve"],
            environment=variables,
            pattern=r"listening on http://127\.0\.0\.1:(\d+)\n",
            log=folder / "output",
            **about,
        )
        self.pid = self.peer.process.pid
        self.port = self.peer.port
        pattern = r"the object endpoint for S3 clients is at http://[^\s:]+:(\d+)"
        self.object_port = self.peer._wait_for(lambda: self.peer._printed_port(pattern), "has no object endpoint")
        # A preloaded library is for the server only.
        plain = {name: value for name, value in variables.items() if name.startswith("SLUICE_")}
        key_id = "key_" + hashlib.sha256(KEY.encode()).digest()[:8].hex()
        done = subprocess.run(
            [BINARY, "keys", "pair", key_id], env=environment_with(plain), stdout=subprocess.PIPE, text=True, check=True
        )
        self.pair = [line.partition("=")[2] for line in done.stdout.splitlines()]

    def stop(self):
        self.peer.stop()


def mints(gateway):
    connection = Connection(gateway.port)
    fields = AUTHORIZED | {"Content-Type": "application/json"}
    request = connection.request("POST", "/v1/tencent/signatures", fields, b"{}")
    while True:
        yield connection, request, 201


def uploads(gateway):
    connection = Connection(gateway.port)
    fields = AUTHORIZED | TUS | BYTES | {"Upload-Length": len(CONTENT)}
    request = connection.request("POST", "/files", fields, CONTENT)
    while True:
        yield connection, request, 201


def _open_upload(connection):
    """The path of a new upload."""
    fields = AUTHORIZED | TUS | {"Upload-Length": OPEN_BYTES}
    head = connection.send((connection.request("POST", "/files", fields), 201))
    return urlsplit(re.search(r"(?i)\r\nlocation: *(\S+)", head)[1]).path


def heads(gateway):
    connection = Connection(gateway.port)
    request = connection.request("HEAD", _open_upload(connection), TUS)
    while True:
        yield connection, request, 200


def appends(gateway):
    connection = Connection(gateway.port)
    path = _open_upload(connection)
    for offset in itertools.count(0, len(CONTENT)):
        yield connection, connection.request("PATCH", path, TUS | BYTES | {"Upload-Offset": offset}, CONTENT), 204


def puts(gateway):
    connection = Connection(gateway.object_port)
    for number in itertools.count(10_000):
        path = f"/{BUCKET}/videos/{number}"
        yield connection, connection.request("PUT", path, _signed(connection.host, path, *gateway.pair), CONTENT), 200


def _signed(host, path, key, secret):
    """The fields of a PUT of the content that is signed as AWS's clients do it (Signature Version 4)."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(CONTENT).hexdigest()
    fields = {"Host": host, "X-Amz-Content-Sha256": digest, "X-Amz-Date": now}
    names = ";".join(name.lower() for name in fields)
    lines = "".join(f"{name.lower()}:{value}\n" for name, value in fields.items())
    canonical = f"PUT\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    signature = hmac.digest(signing, text.encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return fields | {"Authorization": credential}


# Name, kind of server, and requests without an end.
OPERATIONS = [
    ("mint", "acknowledged", mints),
    ("mint with a line in the log", "logged", mints),
    ("upload of 1 KiB", "acknowledged", uploads),
    ("upload of 1 KiB, durability none", "none", uploads),
    ("HEAD", "acknowledged", heads),
    ("append of 1 KiB", "acknowledged", appends),
    ("object PUT of 1 KiB", "acknowledged", puts),
]
