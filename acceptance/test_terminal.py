"""What a command prints of what a server told it is text, never an order to the terminal."""

import json
import os
import socket
import subprocess
import threading

import pytest

from harness.server import BINARY, run

# To clear the screen, to set a title, the same in one byte, and to turn the line around.
ORDERS = "\x1b[2J\x1b]0;title\x07\u009b31m\u202edlrow\x7f"
SHOWN = r"\u001b[2J\u001b]0;title\u0007\u009b31m\u202edlrow\u007f"


@pytest.fixture
def liar():
    """A server that answers everything with what it is told: its port, and a list to set."""
    answers = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answers[0])

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], answers
        listener.shutdown(socket.SHUT_RDWR)


def answer(status, body):
    head = f"HTTP/1.1 {status} {ORDERS}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def printed(*arguments, **settings):
    """All that a command prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    done = subprocess.run([BINARY, *arguments], env=environment | settings, capture_output=True, timeout=60)
    return (done.stdout + done.stderr).decode()


def safe(text):
    assert not [character for character in text if ord(character) != 10 and not character.isprintable()], text
    return text


def test_health(liar, tmp_path):
    port, answers = liar
    settings = {"SLUICE_DATA_DIR": str(tmp_path), "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{port}"}
    for status in (500, 503):
        answers[:] = [answer(status, f"a{ORDERS}\nb\r\n".encode())]
        text = safe(printed("health", **settings))
        assert f"status {status}: a{SHOWN}\\u000ab" in text and text.count("\n") == 1
        assert safe(printed("health", "--live", **settings)) == text.replace("readyz", "healthz")


def test_uploads(liar, tmp_path):
    port, answers = liar
    settings = {"SLUICE_DATA_DIR": str(tmp_path), "SLUICE_URL": f"http://127.0.0.1:{port}", "SLUICE_API_KEY": "k"}
    answers[:] = [answer(500, json.dumps({"detail": f"x{ORDERS}\nError: y"}).encode())]
    text = safe(printed("uploads", **settings))
    assert f"x{SHOWN}\\u000aError: y" in text and text.count("\n") == 1
    upload = dict.fromkeys(("id", "dialect", "state", "filename", "subject", "issuer"), ORDERS)
    upload |= dict.fromkeys(("createdAt", "updatedAt"), ORDERS) | {"offset": 1, "length": 2}
    answers[:] = [answer(200, json.dumps({"uploads": [upload]}, ensure_ascii=False).encode())]
    assert safe(printed("uploads", **settings)).count(SHOWN) == 7
    text = safe(printed("uploads", "--json", **settings))
    # Escaped for the terminal, it is still the same JSON.
    assert json.loads(text) == upload and text.count("\n") == 1
    assert SHOWN in safe(printed("uploads", "--follow", "--looks", "1", **settings))


def test_keys(server):
    run("keys", "create", "--name", f"n{ORDERS}", "--scope", "read", environment=server.environment)
    text = safe(run("keys", "list", environment=server.environment).stdout)
    assert f"n{SHOWN}" in text
    safe(run("keys", "revoke", f"x{ORDERS}", environment=server.environment, check=False).stderr)
