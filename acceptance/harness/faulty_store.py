"""An HTTP proxy between the gateway and an object store, with faults that tests script, and a record of every request.

Heads and bodies pass unchanged, `Host` included, so signatures stay valid: the gateway's endpoint is the proxy's
address, XX

    with FaultyStore(store.port) as proxy:
        proxy.fault("UploadPart", Refuse(503, "SlowDown"), part=2)          # once
        proxy.fault("CompleteMultipartUpload", LoseAnswer(), times=3)
        …
        assert proxy.count("HeadObject") == 0
"""

import asyncio
import contextlib
import hashlib
import itertools
import math
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from harness.daemon import free_port
from harness.objects import MARK

PIECE = 64 * 1024


# Requests


@dataclass
class Call:
    """One request, as far as it was received. Times are of `time.monotonic()`."""

    number: int
    operation: str
    method: str
    target: str
    bucket: str
    key: str
    part: int | None
    upload_id: str | None
    headers: dict
    began: float
    ended: float | None = None
    # Bytes of the body received from the gateway, and sent to the store.
    received: int = 0
    forwarded: int = 0
    # Bytes of the response body sent to the gateway.
    answered: int = 0
    # The status sent to the gateway; None if none.
    status: int | None = None
    # The fault that applied.
    fault: object = None

    @property
    def length(self):
        """The declared length of the body."""
        return int(self.headers.get("content-length", 0))

    def __repr__(self):
        part = f" part {self.part}" if self.part is not None else ""
        fault = f" {self.fault!r}" if self.fault else ""
        return f"<{self.number} {self.operation} {self.key}{part} {self.received} bytes -> {self.status}{fault}>"


def operation(method, target, headers):
    """(operation, bucket, key, query) of a request in path style, by the names of the S3 API."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    return _name(method, bucket, key, query, headers), bucket, key, query


def _name(method, bucket, key, query, headers):
    copies = "x-amz-copy-source" in headers
    if not bucket:
        return "ListBuckets"
    if not key:
        special = {("GET", "uploads"): "ListMultipartUploads", ("POST", "delete"): "DeleteObjects"}
        for (verb, sub), name in special.items():
            if method == verb and sub in query:
                return name
        for sub in ("location", "lifecycle", "versioning", "cors", "policy"):
            if sub in query:
                return f"{method.title()}Bucket{sub.title()}"
        plain = {"GET": "ListObjects", "PUT": "CreateBucket", "HEAD": "HeadBucket", "DELETE": "DeleteBucket"}
        return plain.get(method, method)
    if "uploadId" in query:
        if method == "PUT":
            return "UploadPartCopy" if copies else "UploadPart"
        names = {"POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload", "GET": "ListParts"}
        return names.get(method, method)
    if method == "POST" and "uploads" in query:
        return "CreateMultipartUpload"
    if method == "PUT":
        return "CopyObject" if copies else "PutObject"
    return {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}.get(method, method)


# Faults


@dataclass
class Fault:
    """Base of all faults; it changes nothing.

    `handle(exchange)` may read the request, ask the store and answer, and returns whether the gateway's connection may
    carry another request.
    """

    async def handle(self, exchange):
        return await exchange.forward()


@dataclass
class Refuse(Fault):
    """Responds with an error without calling the store. With `early` before the body is read: the connection is
    closed after the answer then."""

    status: int = 503
    code: str = "SlowDown"
    early: bool = False
    retry_after: int | None = None
    body: str | None = None

    async def handle(self, exchange):
        if not self.early:
            await exchange.take_body()
        extra = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        content = self.body if self.body is not None else error_document(self.code)
        await exchange.answer(self.status, content, extra)
        return not self.early


@dataclass
class Reset(Fault):
    """Resets both connections once so many bytes of the body have passed (by default half of it)."""

    after: int | None = None

    async def handle(self, exchange):
        after = exchange.call.length // 2 if self.after is None else self.after
        await exchange.forward_part(after)
        return exchange.reset()


@dataclass
class ResetAnswer(Fault):
    """Lets the request through, and resets after so many bytes of the answer's body."""

    after: int = 0

    async def handle(self, exchange):
        await exchange.forward(cut=self.after)
        return exchange.reset()


@dataclass
class Drop(Fault):
    """Takes the whole request, tells the store nothing, and closes without an answer."""

    async def handle(self, exchange):
        await exchange.take_body()
        return False


@dataclass
class LoseAnswer(Fault):
    """The request takes effect, and the gateway's connection is reset instead of the answer."""

    async def handle(self, exchange):
        await exchange.forward(answer=False)
        return exchange.reset()


@dataclass
class Hang(Fault):
    """Pauses for some seconds, and then continues normally (or resets, with `then_reset`).

    With `after_bytes` it first lets so many bytes of the body through, else it does not even read the body.
    """

    seconds: float = 60
    after_bytes: int | None = None
    then_reset: bool = False

    async def handle(self, exchange):
        if self.after_bytes is not None:
            await exchange.forward_part(self.after_bytes)
            await asyncio.sleep(self.seconds)
            return exchange.reset() if self.then_reset else await exchange.finish()
        await asyncio.sleep(self.seconds)
        return exchange.reset() if self.then_reset else await exchange.forward()


@dataclass
class Delay(Fault):
    """As on a slow link: waits before the request, and before the answer."""

    before: float = 0
    after: float = 0

    async def handle(self, exchange):
        await asyncio.sleep(self.before)
        return await exchange.forward(delay=self.after)


@dataclass
class Lose(Fault):
    """Responds to a part or an object with 200 and the right ETag, but the store never gets it."""

    async def handle(self, exchange):
        digest = await exchange.take_body()
        await exchange.answer(200, "", {"ETag": f'"{digest.hexdigest()}"'})
        return True


@dataclass
class Corrupt(Fault):
    """Changes one byte on the way to the store."""

    at: int = 0

    async def handle(self, exchange):
        return await exchange.forward(corrupt=self.at)


@dataclass
class ChangeETag(Fault):
    """The store's answer comes with another ETag: `""` is an empty one, `None` none at all. Also inside XML."""

    etag: str | None = '""'

    async def handle(self, exchange):
        return await exchange.forward(rewrite=self.rewrite)

    def rewrite(self, head, body):
        head = re.sub(rb"(?im)^etag:[^\r\n]*\r\n", b"", head)
        if self.etag is not None:
            head = head.replace(b"\r\n", b"\r\nETag: " + self.etag.encode() + b"\r\n", 1)
        content = b"" if self.etag is None else b"<ETag>" + self.etag.encode() + b"</ETag>"
        return head, re.sub(rb"<ETag>[^<]*</ETag>|<ETag/>", content, body)


@dataclass
class SlowBody(Fault):
    """Answers 200 at once, sends spaces, and only after some seconds the body of the real answer, or an error.

    So does Amazon for CompleteMultipartUpload. With `code`, that error is in the body of the 200; the request then
    reaches the store only if `takes_effect`. With `times_out` the connection is reset instead of the body.
    """

    seconds: float = 2
    interval: float = 0.1
    code: str | None = None
    takes_effect: bool = False
    times_out: bool = False
    # Amazon sends the XML declaration before the spaces; there may also be none.
    declares: bool = True

    async def handle(self, exchange):
        declaration = b'<?xml version="1.0" encoding="UTF-8"?>\n'
        body = error_document(self.code).encode() if self.code else b""
        if not self.code or self.takes_effect:
            _, found = await exchange.ask()
            body = body or found
        else:
            await exchange.take_body()
        body = re.sub(rb"^<\?xml[^>]*\?>\s*", b"", body)
        await exchange.begin_chunks(200)
        if self.declares:
            await exchange.send_chunk(declaration)
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(self.interval)
            await exchange.send_chunk(b" ")
        if self.times_out:
            return exchange.reset()
        await exchange.send_chunk(body)
        await exchange.send_chunk(b"")
        return True


@dataclass
class Hold(Fault):
    """Waits until `release()`; then goes on. `reached` is set when a request waits. With `after` it waits after the
    request took effect, before the answer."""

    after: bool = False
    after_bytes: int | None = None
    reached: threading.Event = field(default_factory=threading.Event, repr=False)
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def release(self):
        self.released.set()

    async def handle(self, exchange):
        if self.after:
            return await exchange.forward(before_answer=self._wait)
        if self.after_bytes is not None:
            await exchange.forward_part(self.after_bytes)
            await self._wait()
            return await exchange.finish()
        await self._wait()
        return await exchange.forward()

    async def _wait(self):
        self.reached.set()
        while not self.released.is_set():
            await asyncio.sleep(0.01)


@dataclass
class Rule:
    """A fault and its requests: those that match, from the `first` one on, `times` of them.

    The gateway writes its mark now and then: it takes a fault only where the rule has no end or names it.
    """

    operation: str | None
    fault: Fault
    part: int | None = None
    key: str | None = None
    upload_id: str | None = None
    first: int = 1
    times: float = 1
    # How many matched so far, and how many got the fault.
    seen: int = 0
    met: int = 0

    def takes(self, call):
        fits = (
            (self.operation is None or re.fullmatch(self.operation, call.operation))
            and (self.part is None or call.part == self.part)
            and (self.key is None or re.search(self.key, call.key))
            and (self.upload_id is None or call.upload_id == self.upload_id)
            and (call.key != MARK or self.times == math.inf or (self.key is not None and MARK in self.key))
        )
        if not fits:
            return False
        self.seen += 1
        if self.seen < self.first or self.met >= self.times:
            return False
        self.met += 1
        return True


def error_document(code, message="The store says so."):
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>1</RequestId><HostId>1</HostId></Error>"
    )


# The proxy


class FaultyStore:
    """Listens on a port of its own and passes on to `port`; a context manager that runs it in a thread."""

    def __init__(self, port, host="127.0.0.1"):
        self.target = (host, port)
        self.calls = []
        self.rules = []
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self.connections = set()
        self.server = None
        # The port is kept while the proxy is down.
        self.port = free_port()

    def __enter__(self):
        threading.Thread(target=self._run, daemon=True).start()
        self.up()
        return self

    def __exit__(self, *_):
        self._do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def _end(self):
        """Nothing runs after the loop has stopped."""
        await self._down()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # Scripting

    def fault(self, operation, fault, **about):
        """Adds a rule (see `Rule`) and returns it; the first matching rule applies."""
        rule = Rule(operation, fault, **about)
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        """No faults from now on."""
        with self.lock:
            self.rules = []

    def forget(self):
        """No calls so far."""
        with self.lock:
            self.calls = []

    def down(self):
        """New connections are refused, those that exist are reset."""
        self._do(self._down())

    def up(self):
        """Listens again, on the same port."""
        self._do(self._up())

    async def _down(self):
        if self.server:
            self.server.close()
            self.server = None
        for writer in list(self.connections):
            reset(writer)
        # The tasks see it.
        await asyncio.sleep(0)

    async def _up(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=4 * PIECE)

    # Looking

    def of(self, operation=None, **about):
        """The calls of an operation (a pattern), in the order in which they began.

        Without those for the gateway's mark, which it writes now and then, unless its key is asked for.
        """
        with self.lock:
            calls = list(self.calls)
        return [
            call
            for call in calls
            if (operation is None or re.fullmatch(operation, call.operation))
            and (call.key != MARK or about.get("key") == MARK)
            and all(getattr(call, name) == value for name, value in about.items())
        ]

    def count(self, operation=None, **about):
        return len(self.of(operation, **about))

    def settle(self, quiet=0.5, timeout=30):
        """Waits until no call runs and none has begun for a while, so that background work has ended."""
        deadline = time.monotonic() + timeout
        while True:
            calls = self.of()
            latest = max([call.ended or time.monotonic() for call in calls], default=0)
            if all(call.ended for call in calls) and time.monotonic() - latest > quiet:
                return
            assert time.monotonic() < deadline, f"the store is still asked: {calls[-10:]}"
            time.sleep(0.05)

    def counts(self):
        """How many of each operation."""
        found = {}
        for call in self.of():
            found[call.operation] = found.get(call.operation, 0) + 1
        return dict(sorted(found.items()))

    # Serving

    async def _serve(self, reader, writer):
        self.connections.add(writer)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Cancelled: the proxy ends.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer):
                pass
        self.connections.discard(writer)
        writer.close()

    async def _exchange(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        call = self._record(head)
        exchange = Exchange(self, call, head, reader, writer)
        try:
            keeps = await (call.fault or Fault()).handle(exchange)
        finally:
            call.ended = time.monotonic()
            exchange.close()
        return keeps and exchange.is_whole and call.headers.get("connection", "").lower() != "close"

    def _record(self, head):
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        name, bucket, key, query = operation(method, target, headers)
        part = int(query["partNumber"]) if query.get("partNumber", "").isdigit() else None
        with self.lock:
            call = Call(
                number=next(self.numbers),
                operation=name,
                method=method,
                target=target,
                bucket=bucket,
                key=key,
                part=part,
                upload_id=query.get("uploadId"),
                headers=headers,
                began=time.monotonic(),
            )
            self.calls.append(call)
            call.fault = next((rule.fault for rule in self.rules if rule.takes(call)), None)
        return call


class Exchange:
    """One request and its answer."""

    def __init__(self, proxy, call, head, reader, writer):
        self.proxy = proxy
        self.call = call
        self.head = head
        self.reader = reader
        self.writer = writer
        self.body = body_pieces(reader, call.headers, self._invited)
        self.store = None
        # Whether the request was read to its end, so that the next one can follow.
        self.is_whole = False
        self.was_invited = False

    def close(self):
        if self.store:
            self.store[1].close()

    def reset(self):
        """Both connections."""
        for writer in (self.writer, self.store[1] if self.store else None):
            if writer:
                reset(writer)
        return False

    # The request

    async def _invited(self):
        """Sends 100 Continue to a client that expects it, unless the store has."""
        if self.call.headers.get("expect", "").lower() == "100-continue" and not self.was_invited:
            self.was_invited = True
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self.writer.drain()

    async def take_body(self):
        """Reads the body, tells the store nothing, and returns its MD5."""
        digest = hashlib.md5(usedforsecurity=False)
        async for data, is_content in self.body:
            self.call.received += len(data)
            if is_content:
                digest.update(data)
        self.is_whole = True
        return digest

    async def _connect(self):
        self.store = await asyncio.open_connection(*self.proxy.target, limit=4 * PIECE)
        self.store[1].get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The proxy itself sends 100 Continue, so the store need not.
        self.store[1].write(re.sub(rb"(?im)^expect:[^\r\n]*\r\n", b"", self.head))

    async def _send_body(self, corrupt=None, limit=None):
        """Passes the body on, or its first `limit` bytes; `rest` is what was read beyond them."""
        writer = self.store[1]
        self.rest = b""
        if limit == 0:
            return
        async for data, is_content in self.body:
            self.call.received += len(data)
            if corrupt is not None and is_content and self.call.forwarded <= corrupt < self.call.forwarded + len(data):
                at = corrupt - self.call.forwarded
                data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
            if limit is not None and self.call.forwarded + len(data) >= limit:
                keep = limit - self.call.forwarded
                data, self.rest = data[:keep], data[keep:]
            writer.write(data)
            await writer.drain()
            self.call.forwarded += len(data)
            if limit is not None and self.call.forwarded >= limit:
                return
        self.is_whole = True

    async def forward_part(self, limit):
        """Passes on the head and the first bytes of the body, and waits until they are sent."""
        await self._connect()
        await self._send_body(limit=limit)
        await self.store[1].drain()

    async def finish(self):
        """The rest after `forward_part`."""
        self.store[1].write(self.rest)
        self.call.forwarded += len(self.rest)
        await self._send_body()
        return await self._pass_answer()

    async def forward(self, *, corrupt=None, answer=True, cut=None, delay=0, rewrite=None, before_answer=None):
        """Passes the request and the answer on; see the faults for what may be changed on the way."""
        await self._connect()
        sending = asyncio.ensure_future(self._send_body_or_reset(corrupt))
        try:
            return await self._pass_answer(
                answer=answer, cut=cut, delay=delay, rewrite=rewrite, before_answer=before_answer
            )
        finally:
            # An answer that comes before the end of the body is one that refuses it.
            await asyncio.wait({sending}, timeout=0.2)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending

    async def _send_body_or_reset(self, corrupt):
        try:
            await self._send_body(corrupt)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The request cannot succeed, so do not wait for a response.
            reset(self.store[1])

    async def ask(self):
        """Passes the request on and returns the head and the body of the store's answer."""
        await self._connect()
        await self._send_body()
        head = await self._answer_head()
        body = [data async for data, is_content in self._answer_body(head) if is_content]
        return head, b"".join(body)

    # The answer

    async def _answer_head(self):
        while True:
            head = await self.store[0].readuntil(b"\r\n\r\n")
            if not head.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")):
                return head

    def _answer_body(self, head):
        status = int(head.split(b" ", 2)[1])
        if self.call.method == "HEAD" or status in (204, 304):
            return body_pieces(self.store[0], {})
        lines = head.decode("latin-1").split("\r\n")[1:]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        return body_pieces(self.store[0], headers, until_end=True)

    async def _pass_answer(self, *, answer=True, cut=None, delay=0, rewrite=None, before_answer=None):
        head = await self._answer_head()
        status = int(head.split(b" ", 2)[1])
        if delay:
            await asyncio.sleep(delay)
        if before_answer:
            await before_answer()
        if not answer:
            async for _ in self._answer_body(head):
                pass
            return False
        # Recorded before it is sent: the test may read the call as soon as the response is complete.
        self.call.status = status
        try:
            if rewrite:
                body = b"".join([data async for data, is_content in self._answer_body(head) if is_content])
                head, body = rewrite(head, body)
                if self.call.method != "HEAD":
                    head = re.sub(rb"(?im)^(content-length|transfer-encoding):[^\r\n]*\r\n", b"", head)
                    head = head.replace(b"\r\n", b"\r\nContent-Length: %d\r\n" % len(body), 1)
                self.call.answered += len(body)
                self.writer.write(head + body)
            else:
                self.writer.write(head)
                async for data, _ in self._answer_body(head):
                    if cut is not None and self.call.answered + len(data) > cut:
                        self.writer.write(data[: cut - self.call.answered])
                        await self.writer.drain()
                        # What was sent must reach the gateway before the reset throws it away.
                        await asyncio.sleep(0.1)
                        self.call.answered = cut
                        self.call.status = None
                        return False
                    self.call.answered += len(data)
                    self.writer.write(data)
                    await self.writer.drain()
            await self.writer.drain()
        except BaseException:
            self.call.status = None
            raise
        return not re.search(rb"(?im)^connection:\s*close", head)

    async def answer(self, status, content, headers):
        body = content.encode()
        fields = {
            "Content-Type": "application/xml",
            "Content-Length": len(body),
            "x-amz-request-id": "faulty",
        } | headers
        lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {value}" for name, value in fields.items())]
        if self.call.method == "HEAD":
            body = b""
        self.call.status = status
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        await self.writer.drain()

    async def begin_chunks(self, status):
        head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.call.status = status
        self.writer.write(head.encode())
        await self.writer.drain()

    async def send_chunk(self, data):
        """An empty one is the end."""
        self.writer.write(b"%x\r\n" % len(data) + data + b"\r\n")
        await self.writer.drain()


async def body_pieces(reader, headers, before=None, until_end=False):
    """The bytes of a body as they are on the wire, in pieces, each with whether it is content (not framing)."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        if before:
            await before()
        while True:
            line = await reader.readuntil(b"\r\n")
            yield line, False
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            async for piece in _exactly(reader, size):
                yield piece, True
            yield await reader.readexactly(2), False
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            yield line, False
        yield line, False
    elif "content-length" in headers:
        size = int(headers["content-length"])
        if size and before:
            await before()
        async for piece in _exactly(reader, size):
            yield piece, True
    elif until_end:
        while piece := await reader.read(PIECE):
            yield piece, True


async def _exactly(reader, size):
    while size > 0:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece


def reset(writer):
    """Closes with RST instead of FIN, and without sending what waits."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
