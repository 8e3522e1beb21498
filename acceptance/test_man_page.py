"""`scripts/man-page`: sluice(1) from the argument definitions."""

import json
import shutil
import subprocess

import pytest

from harness.server import BINARY, ROOT, run


@pytest.fixture(scope="module")
def page():
    made = subprocess.run([ROOT / "scripts/man-page", BINARY], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def rendered(page):
    """As `man` shows it, and what the formatter complains about."""
    command = ["groff", "-man", "-ww", "-Tascii", "-P-cbou"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, timeout=60)
    return done.stdout, done.stderr


def commands(command, path=()):
    """Every command with its arguments, without `help`."""
    path = (*path, command["commandName"])
    below = [one for one in command.get("subcommands", []) if one["shouldDisplay"] and one["commandName"] != "help"]
    yield path, [one for one in command.get("arguments", []) if one["shouldDisplay"]]
    for one in below:
        yield from commands(one, path)


def test_the_formatters_have_nothing_to_complain_about(page, rendered):
    assert rendered[1] == "" and rendered[0]
    if lint := shutil.which("mandoc"):
        done = subprocess.run([lint, "-Tlint", "-Wwarning"], input=page, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


def test_every_command_and_option_is_named(rendered):
    definitions = json.loads(run("--experimental-dump-help").stdout)["command"]
    text = " ".join(rendered[0].split())
    found = dict(commands(definitions))
    assert {("sluice", "doctor"), ("sluice", "keys", "create")} <= found.keys()
    for path, arguments in found.items():
        if len(path) > 1:
            assert " ".join(path) in text, path
        for argument in arguments:
            for name in argument.get("names", []):
                assert ("-" if name["kind"] == "short" else "--") + name["name"] in text, (path, name)


def test_text_is_not_taken_for_requests(page):
    assert all(line[0] != "'" for line in page.splitlines() if line)
    macros = {line.split()[0] for line in page.splitlines() if line.startswith(".")}
    assert macros <= {'.\\"', ".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".RI"}
