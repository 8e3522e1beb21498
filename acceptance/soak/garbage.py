"""What else the internet sends: the hostile table with its right answers, random bytes, floods, clients that vanish."""

import contextlib
import json
import socket
import time

from harness.wire import Closed, head
from hostile import CANARY, CANARY_TYPE, table
from soak.common import KEY, Worker, expect, reset

TABLE = table()
REFUSALS = {400, 408, 413, 414, 417, 431, 501, 505}
KINDS = ["table"] * 12 + ["random", "vanish", "flood", "drip", "plain for TLS", "TLS for plain"]


class Garbage(Worker):
    """One hostile client in each turn."""

    pause = 0.1

    def turn(self):
        kind = self.generator.choice(KINDS)
        match kind:
            case "table":
                self.send_case(self.generator.choice(TABLE))
            case "random":
                data = self.generator.randbytes(self.generator.choice([1, 100, 5000, 100_000]))
                self.send_raw(data, {400, 408, 414, 431, 501, 505})
            case "vanish":
                self.vanish()
            case "flood":
                self.send_raw(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X-Flood: 0123456789\r\n" * 5000, {431})
            case "drip":
                self.drip()
            case "plain for TLS":
                self.send_raw(head("GET", "/healthz", [("Connection", "close")]), {200}, is_wrapped=False)
            case "TLS for plain":
                hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self.generator.randbytes(500)
                self.send_raw(hello, {400}, is_wrapped=False)
        self.count(f"garbage: {kind}")

    # The table

    def send_case(self, case):
        if case.is_cut and self.target.context is not None:
            return  # TLS has no half-close that its rule speaks of.
        with self.target.wire() as wire:
            try:
                wire.send(case.data if case.is_cut else case.data + CANARY)
                if case.is_cut:
                    wire.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # Answered and closed before everything was out; the answer may still be read.
            answers, was_reset = self.read_all(wire)
        self.check(case, answers, was_reset)

    def read_all(self, wire):
        """All answers until the server closes, and whether a reset may have lost some."""
        answers = []
        try:
            while True:
                answers.append(wire.reply(skip_interim=False))
        except Closed as end:
            expect(end.was_reset or not end.partial, f"half an answer after {answers}: {end}")
            return answers, end.was_reset
        except TimeoutError:
            raise AssertionError(f"not closed after {answers}") from None
        except OSError:
            return answers, True

    def check(self, case, answers, was_reset):
        description = f"{case.name} ({case.rule}): {answers}"
        expect(len(answers) <= len(case.answers) + case.goes_on, description)
        wanted = [*case.answers, {200}] if case.goes_on else case.answers
        for answer, statuses in zip(answers, wanted, strict=False):
            expect(answer.status in statuses, description)
        if not was_reset:
            expect(len(answers) == len(wanted), description)
            if case.goes_on:
                expect(answers[-1]["content-type"].startswith(CANARY_TYPE), description)
        if answers and answers[-1].status in REFUSALS and not case.goes_on:
            expect(json.loads(answers[-1].body)["status"] == answers[-1].status, description)

    # Other garbage

    def raw(self, is_wrapped):
        return self.target.wire() if is_wrapped else PlainWire(self.target.server.address)

    def send_raw(self, data, wanted, is_wrapped=True):
        """Sends and ends; whatever is answered has one of these statuses."""
        with self.raw(is_wrapped) as wire:
            with contextlib.suppress(OSError):
                wire.send(data)
                if not is_wrapped or self.target.context is None:
                    wire.socket.shutdown(socket.SHUT_WR)
            answer = self.read(wire)
        if answer.startswith(b"HTTP/1.1 "):
            expect(int(answer.split(b" ", 2)[1]) in wanted, f"{wanted} was due: {answer[:300]}")

    def read(self, wire):
        """What comes until the server closes; over TLS it may wait for more, so a while."""
        answer = b""
        wire.socket.settimeout(15)
        try:
            while data := wire.socket.recv(65536):
                answer += data
        except TimeoutError:
            raise AssertionError(f"not closed after {answer[:300]}") from None
        except OSError:
            pass
        return answer

    def vanish(self):
        request = head("POST", "/files", [KEY, ("Tus-Resumable", "1.0.0"), ("Upload-Length", "100")], b"x" * 100)
        with self.raw(self.generator.random() < 0.5) as wire:
            # Cut before the end: an upload that nobody knows would stay until it expires.
            wire.send(request[: self.generator.randrange(len(request) - 10)])
            time.sleep(self.generator.choice([0, 0.01]))
            if self.generator.random() < 0.5:
                reset(wire.socket)

    def drip(self):
        """A head that never ends, a byte at a time: cut off after the time for a head."""
        with self.target.wire() as wire:
            with contextlib.suppress(OSError):
                for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 60:
                    wire.send(bytes([byte]))
                    time.sleep(0.1)
            with contextlib.suppress(Closed, OSError):
                answer = wire.reply()
                expect(answer.status == 408, f"408 was due: {answer}")


class PlainWire:
    """A connection without TLS to a server that may want it."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, 15)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
