"""The golden files of tus (Tests/Fixtures/tus, described in Tests/TusTests/WireFile.swift), over raw sockets."""

import re
from pathlib import Path

import pytest

from harness.api import API, path_of
from harness.server import run
from harness.wire import Wire

FOLDER = Path(__file__).resolve().parents[1] / "Tests/Fixtures/tus"
FILES = sorted(path.stem for path in FOLDER.glob("*.wire"))
# They move a clock; `test_an_expired_upload_is_removed` waits instead.
MOVES_CLOCK = {"expiration"}
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
# Fields that the server adds to a protocol's response, and that the draft adds to discovery.
ADDED = {"date", "server", "x-request-id", "content-length", "connection", "upload-limit", "accept-patch"}
SETTINGS = {
    "SLUICE_PUBLIC_URL": "https://uploads.example",
    "SLUICE_LIMITS_UPLOAD_BYTES": "1000",
    # Like tusd, whose responses most of the files have.
    "SLUICE_UPLOADS_DELETE_AFTER_COMPLETION": "true",
}


class Exchange:
    """A request, the expected response, and actions before it."""

    def __init__(self, line, text):
        self.line = line
        lines = text.split("\n")
        while lines[0] == "" or lines[0][0] in "#@":
            lines.pop(0)
            self.line += 1
        self.directives = [line[1:].split(" ") for line in text.split("\n") if line.startswith("@")]
        cut = lines.index("---")
        self.head, self.body = self._message(lines[:cut])
        self.answer_head, self.answer_body = self._message(lines[cut + 1 :])
        self.method = self.head[0].split(" ")[0]

    @staticmethod
    def _message(lines):
        cut = lines.index("") if "" in lines else len(lines)
        return lines[:cut], lines[cut + 1 :]

    def has(self, name):
        return any(line.lower().startswith(name.lower() + ":") for line in self.head)

    def is_of_tus(self):
        """Whether a server answers this as tus: it has other protocols and other paths than the handler alone."""
        if self.method not in ("OPTIONS", "POST", "PATCH") and not self.has("Tus-Resumable"):
            return False
        return self.head[0].count("/") <= 3

    def content(self):
        if self.has("Transfer-Encoding"):
            return "\r\n".join(self.body).rstrip("\r\n") + "\r\n\r\n"
        return "\n".join(self.body)


def exchanges(name):
    line = 1
    for text in (FOLDER / f"{name}.wire").read_text().removesuffix("\n").split("\n===\n"):
        yield Exchange(line, text)
        line += text.count("\n") + 2


def settings(name):
    values = dict(SETTINGS)
    for words in next(exchanges(name)).directives:
        if words[0] == "cors":
            values |= {"SLUICE_CORS_ENABLED": "false"} if words[1] == "off" else {"SLUICE_CORS_ORIGINS": words[1:]}
        elif words[0] == "gone":
            values["SLUICE_UPLOADS_GONE_STATUS"] = words[1]
        elif words[0] == "lifetime":
            values["SLUICE_UPLOADS_EXPIRE_AFTER"] = "0"
    return {key: ",".join(value) if isinstance(value, list) else value for key, value in values.items()}


@pytest.mark.parametrize("name", [name for name in FILES if name not in MOVES_CLOCK])
def test_golden_files(make_server, name):
    server = make_server(environment=settings(name)).start()
    api = API(server.url, server.admin_key)

    def token(**limits):
        return api.post("/v1/tus/tokens", {"subject": "u"} | limits).json()["token"]

    made = run("keys", "create", "--name", "reader", "--scope", "read", environment=server.environment)
    credentials = {
        "upload-key": server.admin_key,
        "read-key": re.search(r"slk_\S+", made.stdout)[0],
        "small-token": token(maxBytes=100),
        "image-token": token(contentTypes=["image/*"]),
        "one-time-token": token(oneTime=True),
    }
    locators = []

    def filled(text):
        last = locators[-1] if locators else "none"
        values = {"upload": last, "id": last.split(".")[0]}
        values |= {f"upload-{number}": locator for number, locator in enumerate(locators, 1)}
        return re.sub(r"\{([a-z]+(-\d+)?)\}", lambda match: values[match[1]], text)

    for exchange in exchanges(name):
        place = f"{name}.wire:{exchange.line}"
        for words in exchange.directives:
            if words[0] == "uploads":
                states = [upload["state"] for upload in api.get("/v1/uploads").json()["uploads"]]
                assert sum(state in ("open", "completed") for state in states) == int(words[1]), place
        if not exchange.is_of_tus():
            continue
        text = "\r\n".join(exchange.head) + "\r\n\r\n" + exchange.content()
        for credential, secret in credentials.items():
            text = text.replace(f"Bearer {credential}\r\n", f"Bearer {secret}\r\n")
        with Wire(server.address) as wire:
            wire.send(filled(text).encode())
            reply = wire.reply(exchange.method)
        if reply.status == 201:
            locators.append(path_of(reply["Location"]).rsplit("/", 1)[1])
        compare(reply, exchange, filled, place)


def compare(reply, exchange, filled, place):
    assert f"HTTP/1.1 {reply.status} {reply.reason}" == exchange.answer_head[0], (place, reply)
    expected = [line.split(":", 1) for line in exchange.answer_head[1:]]
    expected = sorted((name.lower(), filled(value.strip())) for name, value in expected)
    fields = sorted((name, value.encode("latin-1").decode()) for name, value in reply.fields if name not in ADDED)
    assert undated(fields) == undated(expected), place
    lines = reply.body.decode().splitlines()
    assert len(lines) == len(exchange.answer_body), (place, reply)
    for line, text in zip(lines, exchange.answer_body, strict=True):
        if text.endswith("…"):
            assert line.startswith(text[:-1]) and len(line) >= len(text), place
        else:
            assert line == text, place


def undated(fields):
    """The format of a date is compared, not the time."""
    return [(name, DATE.sub("date", value) if name == "upload-expires" else value) for name, value in fields]
