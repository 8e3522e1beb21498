"""Malformed messages and attempts to smuggle requests: the tables in `hostile/`, sent as raw bytes."""

import json
import random
import socket

import pytest

from harness.wire import Closed, Wire
from hostile import CANARY, CANARY_TYPE, GOOD, table

TABLE = table()


def test_the_table_is_large():
    assert len(TABLE) >= 160
    assert all(case.rule and case.data is not None for case in TABLE)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_hostile_bytes(server, case):
    with Wire(server.address) as wire:
        send(wire, case, [])
        check(case, read_all(wire))
    check_next_client(server)


@pytest.mark.parametrize("case", [case for case in TABLE if len(case.data) < 3000], ids=str)
def test_hostile_bytes_in_pieces(server, case):
    """The result does not depend on where packets end."""
    generator = random.Random(case.name)
    cuts = sorted(generator.randrange(len(case.data) + 1) for _ in range(4))
    with Wire(server.address) as wire:
        send(wire, case, cuts)
        check(case, read_all(wire))


def test_the_server_is_unaffected(server):
    """The log consists of complete lines that no client could break."""
    check_next_client(server)
    for line in server.whole_log().split("\n"):
        if line.startswith("{"):
            json.loads(line)
        assert not any(ord(character) < 0x20 or ord(character) == 0x7F for character in line), line


def send(wire, case, cuts):
    data = case.data if case.is_cut else case.data + CANARY
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    try:
        for piece in pieces:
            wire.send(piece)
        if case.is_cut:
            wire.socket.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        pass  # Answered and closed before everything was out; the answer may still be read.


def read_all(wire):
    """All responses until the server closes the connection, which it must do."""
    answers = []
    while True:
        try:
            answer = wire.reply(skip_interim=False)
        except Closed as end:
            assert end.partial == b"", f"after {answers}: {end}"
            return answers
        answers.append(answer)


def check(case, answers):
    description = f"{case.name} ({case.rule}): {answers}"
    if case.goes_on:
        assert answers, description
        canary = answers.pop()
        assert canary.status == 200 and canary["content-type"].startswith(CANARY_TYPE), description
    assert len(answers) == len(case.answers), description
    for answer, wanted in zip(answers, case.answers, strict=True):
        assert answer.status in wanted, description
    if answers and answers[-1].status in (400, 408, 413, 414, 417, 431, 501, 505) and not case.goes_on:
        assert answers[-1]["connection"] == "close", description
        problem = json.loads(answers[-1].body)
        assert problem["status"] == answers[-1].status and problem["detail"], description


def check_next_client(server):
    with Wire(server.address) as wire:
        wire.send(GOOD)
        assert wire.reply().status == 200
