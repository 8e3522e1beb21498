"""Downloads, whole and in ranges, compared with the source byte by byte; some break off."""

import hashlib
import json

from harness.data import MIB
from harness.wire import Closed
from soak.common import KEY, Worker, expect, reset


def stream(wire, length, rates):
    """Pieces of the content that follows the head that was read."""
    while length > 0:
        if not wire.buffer:
            wire.buffer = wire.socket.recv(min(length, 256 * 1024))
            if not wire.buffer:
                raise Closed(b"")
        piece, wire.buffer = wire.buffer[:length], wire.buffer[length:]
        length -= len(piece)
        rates["download"].take(len(piece))
        yield piece


def fetch(worker, item):
    """SHA-256 and size of the whole content."""
    digest, size = hashlib.sha256(), 0
    with worker.target.wire() as wire:
        wire.request("GET", f"/media/{item.identifier}", [KEY])
        answer = wire.interim()
        expect(answer.status == 200, f"download: {answer}")
        for piece in stream(wire, int(answer["content-length"]), worker.rates):
            digest.update(piece)
            size += len(piece)
    worker.count("downloads of the whole")
    worker.count("bytes downloaded", size)
    return digest.hexdigest(), size


class Downloader(Worker):
    """Some ranges of one finished upload on one connection in each turn."""

    pause = 0.3

    def turn(self):
        item = self.target.shelf.borrow(self.generator)
        if item is None:
            return
        try:
            path, fields = self.address(item)
            with self.target.wire() as wire:
                for _ in range(self.generator.randint(1, 6)):
                    if not self.get_range(wire, item, path, fields):
                        break
        finally:
            self.target.shelf.give_back(item)

    def address(self, item):
        """By key, or by a link that expires."""
        path = f"/media/{item.identifier}"
        if self.generator.random() < 0.5:
            return path, [KEY]
        answer = self.target.ask("POST", f"/v1{path}/links", [KEY, ("Content-Type", "application/json")], b"{}")
        expect(answer.status == 201, f"link: {answer}")
        url = json.loads(answer.body)["url"]
        return "/" + url.split("/", 3)[3], []

    def get_range(self, wire, item, path, fields):
        begin = self.generator.randrange(item.size)
        end = min(item.size, begin + self.generator.randint(1, 4 * MIB))
        match self.generator.randrange(4):
            case 0:
                begin = max(0, item.size - 1000)
                end, text = item.size, "-1000"
            case 1:
                begin = max(begin, item.size - MIB)
                end, text = item.size, f"{begin}-"
            case _:
                text = f"{begin}-{end - 1}"
        wire.request("GET", path, [*fields, ("Range", f"bytes={text}")])
        answer = wire.interim()
        expect(answer.status == 206, f"range {text} of {item.size}: {answer}")
        wanted = f"bytes {begin}-{end - 1}/{item.size}"
        expect(answer["content-range"] == wanted, f"{wanted} was due: {answer}")
        breaks_off = self.generator.random() < 0.1
        position = begin
        for piece in stream(wire, int(answer["content-length"]), self.rates):
            expect(item.bytes(position, position + len(piece)) == piece, f"other bytes at {position} of {wanted}")
            position += len(piece)
            if breaks_off:
                reset(wire.socket)
                self.count("downloads broken off")
                return False
        expect(position == end, f"{wanted} ended at {position}")
        self.count("downloads of a range")
        self.count("bytes downloaded", end - begin)
        return True
