"""Small requests: mints that are verified, and connections that come and go without doing much."""

import base64
import contextlib
import hashlib
import hmac
import json
import ssl
import time
from urllib.parse import parse_qsl

from harness.wire import head
from soak.common import KEY, Worker, expect, reset


class Minter(Worker):
    """Tencent signatures on a few connections at once, some pipelined."""

    pause = 0.05
    connections = 4

    def turn(self):
        pair = self.target.pair
        body = json.dumps({"expiresIn": 600}).encode()
        fields = [KEY, ("Content-Type", "application/json"), ("Content-Length", len(body))]
        request = head("POST", "/v1/tencent/signatures", fields) + body
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(self.target.wire()) for _ in range(self.connections)]
            for _ in range(self.generator.randint(1, 20)):
                depth = self.generator.choice([1, 1, 1, 4])
                self.rates["mint"].take(depth * len(wires))
                for wire in wires:
                    wire.send(request * depth)
                for wire in wires:
                    for _ in range(depth):
                        self.check(wire.reply("POST"), pair)
                if self.stopping.is_set():
                    break

    def check(self, answer, pair):
        if self.is_busy(answer):
            return
        expect(answer.status == 201, f"mint: {answer}")
        raw = base64.b64decode(json.loads(answer.body)["signature"], validate=True)
        mac, original = raw[:20], raw[20:]
        right = hmac.new(pair["secretKey"].encode(), original, hashlib.sha1).digest()
        expect(hmac.compare_digest(mac, right), "a signature with a wrong MAC")
        parameters = dict(parse_qsl(original.decode("ascii"), strict_parsing=True))
        expect(parameters["secretId"] == pair["secretId"], f"another account: {parameters}")
        expect(int(parameters["expireTime"]) - int(parameters["currentTimeStamp"]) == 600, f"{parameters}")
        self.count("signatures verified")


class Idler(Worker):
    """Connections that stay open for a while: fresh, after a request, or within a head. Some are left to the server."""

    pause = 0.1
    most = 150

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.open = []

    def turn(self):
        now = time.monotonic()
        for _ in range(self.generator.randint(0, 4)):
            if len(self.open) < self.most:
                # Sometimes longer than the server's timeouts.
                self.open.append((self.connect(), now + self.generator.expovariate(1 / 6)))
        for entry in list(self.open):
            wire, until = entry
            if now >= until or self.was_closed(wire):
                self.open.remove(entry)
                self.part(wire)

    def connect(self):
        wire = self.target.wire()
        match self.generator.randrange(3):
            case 0:
                self.count("connections that asked nothing")
            case 1:
                answer = wire.exchange("GET", "/healthz")
                expect(answer.status == 200, f"/healthz: {answer}")
                self.count("connections kept after a request")
            case _:
                wire.send(head("GET", "/healthz")[: self.generator.randint(1, 30)])
                self.count("connections within a head")
        return wire

    def was_closed(self, wire):
        """Whether the server has ended it, after an answer if it was within a head."""
        wire.socket.settimeout(0)
        try:
            answer = wire.socket.recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            answer = b""
        expect(not answer or answer.startswith(b"HTTP/1.1 408 "), f"idle connection: {answer[:300]}")
        self.count("idle connections closed by the server")
        return True

    def part(self, wire):
        if self.generator.random() < 0.3:
            with contextlib.suppress(OSError):
                reset(wire.socket)
        wire.close()

    def finish(self):
        for wire, _ in self.open:
            self.part(wire)
        self.open.clear()
