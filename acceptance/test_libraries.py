"""Shared libraries that the program loads only when it needs them."""

import subprocess

import pytest

from harness.daemon import free_port
from harness.server import BINARY, ROOT, run

CURL, POSTGRES = "libcurl.so.4", "libpq.so.5"


def libraries(*options):
    command = [ROOT / "scripts/libraries", *options, BINARY]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def broken(folder, name):
    """Settings with a library of this name that is none."""
    folder.mkdir()
    (folder / name).write_text("")
    return {"LD_LIBRARY_PATH": str(folder)}


def test_packagers_see_them():
    linked = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
    assert libraries("--late") == [CURL, POSTGRES]
    paths = libraries()
    for name in (CURL, POSTGRES):
        assert name not in linked
        assert any(path.endswith("/" + name) for path in paths)
    # What libcurl brings.
    assert any("/libnghttp2.so" in path for path in paths)
    wrong = subprocess.run([ROOT / "scripts/libraries", "/bin/true"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "/bin/true has no note" in wrong.stderr


def test_a_command_that_sends_no_request_needs_none(tmp_path):
    here = broken(tmp_path / "libraries", CURL) | broken(tmp_path / "more", POSTGRES)
    here["LD_LIBRARY_PATH"] = f"{tmp_path}/libraries:{tmp_path}/more"
    assert run("--version", environment=here).stdout
    # The gateway does not run: that is said, so it asked without libcurl.
    asked = run("health", environment=here | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}"}, check=False)
    assert asked.returncode == 1 and "libcurl" not in asked.stdout + asked.stderr


def test_a_gateway_loads_what_it_needs(make_server):
    with make_server() as server:
        with open(f"/proc/{server.pid}/maps") as maps:
            mapped = maps.read()
    assert "/libcurl.so.4" in mapped and "/libpq.so.5" not in mapped


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        pytest.param(CURL, {}, "libcurl cannot be loaded: ", id="curl"),
        pytest.param(
            POSTGRES,
            {"SLUICE_DATABASE_URL": "postgres://127.0.0.1:1/none", "SLUICE_MASTER_SECRET": "s" * 43 + "="},
            "libpq cannot be loaded: ",
            id="postgres",
        ),
    ],
)
def test_a_gateway_without_its_library_does_not_start(tmp_path, name, settings, said):
    listen = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}"}
    here = broken(tmp_path / "libraries", name) | settings | listen
    started = run("serve", data=tmp_path / "data", environment=here, check=False)
    assert started.returncode == 1
    assert said in started.stderr and name in started.stderr
