"""Uploads that are cut at random and resumed; each is compared with its source when it is complete."""

import base64
import contextlib
import hashlib
import json
import math
import socket
import time
from urllib.parse import urlsplit

from harness.data import KIB, MIB
from harness.wire import Closed, head
from soak.common import KEY, LARGEST, SOURCE, Item, Worker, expect, reset
from soak.downloads import fetch

TUS = [("Tus-Resumable", "1.0.0")]
# How often each way to send the next bytes is taken. The first three are answered, all others break off.
WAYS = {
    "whole": 30,
    "part": 20,
    "wrong checksum": 3,
    "reset": 14,
    "half-close": 10,
    "stall, close": 10,
    "take-over": 10,
    "time-out": 3,
}
# Bytes of what is abandoned at most: it stays on the disk until it expires.
ABANDONED = 2 * MIB
# How often in one upload a request that was cut off may be served later than what followed it.
MOST_LATE = 10


class Uploader(Worker):
    """One upload in each turn."""

    def turn(self):
        item = self.create()
        if item is None:
            return
        if item.size < ABANDONED and self.generator.random() < 0.1:
            self.give_up(item)
            return
        offset = 0
        while offset < item.size:
            way = "whole" if self.stopping.is_set() else self.choose()
            offset = self.send(item, offset, way)
        self.count("uploads completed")
        self.count("bytes uploaded", item.size)
        digest, size = fetch(self, item)
        expect(size == item.size, f"{item.size} bytes were uploaded, {size} came back")
        expect(digest == item.digest(), f"{item.identifier}: other bytes came back than were uploaded")
        self.target.shelf.add(item)
        for old in self.target.shelf.surplus():
            self.delete(old)

    def choose(self):
        ways = WAYS if self.target.context is None else {key: WAYS[key] for key in WAYS if key != "half-close"}
        return self.generator.choices(list(ways), ways.values())[0]

    def create(self):
        """A new upload, made by the key or by a token; nothing while the server is busy."""
        size = int(math.exp(self.generator.uniform(math.log(KIB), math.log(LARGEST))))
        item = Item(size, self.generator.randrange(len(SOURCE) - size))
        key = KEY
        if self.generator.random() < 0.5:
            body = json.dumps({"subject": "soak", "maxBytes": size, "expiresIn": 600}).encode()
            answer = self.target.ask("POST", "/v1/tus/tokens", [KEY, ("Content-Type", "application/json")], body)
            if self.is_busy(answer):
                return None
            expect(answer.status == 201, f"token: {answer}")
            key = ("Authorization", f"Bearer {json.loads(answer.body)['token']}")
        answer = self.target.ask("POST", "/files", [*TUS, key, ("Upload-Length", size)])
        if self.is_busy(answer):
            return None
        expect(answer.status == 201, f"creation: {answer}")
        item.path = urlsplit(answer["location"]).path
        return item

    def delete(self, item):
        answer = self.target.ask("DELETE", f"/v1/uploads/{item.identifier}", [KEY])
        expect(answer.status == 204, f"deletion: {answer}")
        answer = self.target.ask("GET", f"/media/{item.identifier}", [KEY])
        expect(answer.status in (404, 410), f"download of what was deleted: {answer}")
        self.count("uploads deleted")

    # Steps

    def send(self, item, offset, way):
        """Sends bytes from this offset in one of the ways; returns the offset from which to go on."""
        left = item.size - offset
        is_answered = way in ("whole", "part", "wrong checksum")
        count = left if way == "whole" else self.generator.randint(1 if is_answered else 0, left)
        with self.target.wire() as wire:
            if is_answered:
                return self.send_answered(wire, item, offset, count, way)
            self.send_cut(wire, item, offset, count)
            self.count(f"cut by {way}")
            if way == "take-over":
                self.look(item, offset)
                self.read_refusal(item, wire, (408, 423))
            self.cut(item, wire, way)
        return self.look(item, offset)

    def send_answered(self, wire, item, offset, count, way):
        data = item.bytes(offset, offset + count)
        extra = []
        if way == "wrong checksum" or (way == "part" and self.generator.random() < 0.3):
            digest = hashlib.sha256(data).digest()
            if way == "wrong checksum":
                digest = digest[1:] + digest[:1]
            extra = [("Upload-Checksum", f"sha256 {base64.b64encode(digest).decode()}")]
        with contextlib.suppress(ConnectionError):  # The answer may still be read.
            self.write(wire, item, offset, count, count, extra)
        answer = wire.reply("PATCH")
        if self.is_busy(answer):
            return self.look(item, offset)
        if self.was_late(item, answer):
            return self.look(item, offset)
        if way == "wrong checksum":
            expect(answer.status == 460, f"wrong checksum: {answer}")
            self.count("checksums refused")
            return self.look(item, offset)
        expect(answer.status == 204, f"append of {count} bytes: {answer}")
        expect(answer["upload-offset"] == str(offset + count), f"appended {count} at {offset}: {answer}")
        self.count("appends answered")
        return offset + count

    def send_cut(self, wire, item, offset, count):
        """Announces all that is left, and sends less."""
        announced = item.size - offset
        self.write(wire, item, offset, min(count, announced - 1), announced, [])

    def write(self, wire, item, offset, count, announced, extra):
        is_chunked = self.generator.random() < 0.25
        framing = ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", announced)
        kind = ("Content-Type", "application/offset+octet-stream")
        wire.send(head("PATCH", item.path, [*TUS, ("Upload-Offset", offset), kind, framing, *extra]))
        sent = 0
        while sent < count:
            step = min(count - sent, self.generator.choice([KIB, 16 * KIB, 256 * KIB, 256 * KIB, 256 * KIB]))
            self.rates["upload"].take(step)
            item.sent = max(item.sent, offset + sent + step)
            piece = item.bytes(offset + sent, offset + sent + step)
            wire.send(b"%x\r\n%b\r\n" % (step, piece) if is_chunked else piece)
            sent += step
        if is_chunked and count == announced:
            wire.send(b"0\r\n\r\n")

    def was_late(self, item, answer):
        """A request that was cut off can be read by the server later than the HEAD that was sent behind it."""
        if answer.status not in (409, 423) or item.late >= MOST_LATE:
            return False
        item.late += 1
        self.count("appends behind a late one")
        return True

    def cut(self, item, wire, way):
        match way:
            case "reset":
                reset(wire.socket)
            case "half-close":
                wire.socket.shutdown(socket.SHUT_WR)
                self.read_refusal(item, wire, (400, 503))
            case "stall, close":
                time.sleep(self.generator.uniform(0, 1.5))
            case "time-out":
                self.read_refusal(item, wire, (408,))

    def read_refusal(self, item, wire, wanted):
        """A request that broke off has one of these answers, or none; 408 is that of one that came too slowly."""
        with contextlib.suppress(Closed, ConnectionError):
            answer = wire.reply("PATCH")
            expect(answer.status in wanted or self.was_late(item, answer), f"{wanted} was due: {answer}")

    def look(self, item, least):
        """The offset from HEAD: no acknowledged byte is lost, and none is invented."""
        answer = self.target.ask("HEAD", item.path, TUS)
        while self.is_busy(answer):
            time.sleep(0.5)
            answer = self.target.ask("HEAD", item.path, TUS)
        expect(answer.status == 200, f"HEAD: {answer}")
        offset = int(answer["upload-offset"])
        expect(least <= offset <= item.sent, f"acknowledged {least}, sent {item.sent}, but HEAD says {offset}")
        return offset

    def give_up(self, item):
        """Leaves it to expire, or ends it while bytes arrive."""
        count = self.generator.randint(0, item.size - 1)
        with self.target.wire() as wire:
            self.send_cut(wire, item, 0, count)
            if self.generator.random() < 0.5:
                self.count("uploads left to expire")
                return
            answer = self.target.ask("DELETE", item.path, TUS)
            expect(answer.status == 204, f"termination: {answer}")
            self.read_refusal(item, wire, (404, 410, 423))
        answer = self.target.ask("HEAD", item.path, TUS)
        expect(answer.status in (404, 410), f"HEAD after termination: {answer}")
        self.count("uploads terminated")
