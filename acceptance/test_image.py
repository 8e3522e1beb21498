"""The root directory of the container image, as scripts/image-root makes it of the program: without a shell, read-only,
by another user. The Dockerfile runs the same script; a container engine is not needed for what is in the image.
Also which engine scripts/image calls, and how. test_image_build.py builds the image itself.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.api import API, tus_patch, upload_id
from harness.daemon import free_port
from harness.data import MIB, content, sha256
from harness.image import USER, check_bill, check_contents, check_size
from harness.server import BINARY, ROOT, Server, run
from harness.tools import lacking
from harness.wire import Wire, until

# Everything but /data is read-only, as with `docker run --read-only`; /proc and /dev are there, as in any container.
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount --bind "$1" "$0/data"
mount -o remount,bind,ro "$0"
exec /usr/sbin/chroot --userspec=10001:10001 "$0" /usr/bin/sluice serve
"""


def settings():
    """`ENV` of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    (line,) = re.findall(r"^ENV (.*)$", text, re.M)
    return dict(pair.split("=", 1) for pair in line.split())


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Made of the program that all tests use."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        lacking("needs root and unshare")
    folder = tmp_path_factory.mktemp("image") / "root"
    subprocess.run([ROOT / "scripts/image-root", BINARY, folder, folder.parent / "symbols"], check=True)
    # Its folders belong to the run's temporary ones, which only root may enter.
    for parent in [*folder.parents][:3]:
        parent.chmod(0o755)
    for name in ("proc", "dev"):
        (folder / name).mkdir()
    return folder


@pytest.fixture
def server(image, tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, USER, USER)
    own = settings() | {
        "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{free_port()}",
        "SLUICE_OBJECT_LISTEN": "127.0.0.1:0",
        "SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s",
    }
    return Server(data, environment=own, prefix=["unshare", "--mount", "sh", "-c", ENTER, image, data])


def test_an_engine_gets_what_the_dockerfile_copies():
    """`*` in .dockerignore leaves out everything but what later lines take back."""
    seen = (ROOT / ".dockerignore").read_text().split("\n*\n!")[1].split("\n!")
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    for source in " ".join(copied).split():
        assert any(one.strip() == source or one.startswith(source + "/") for one in seen), source


def test_what_is_in_it(image):
    check_contents(image)
    assert (image / "data").stat().st_uid == USER
    assert (image / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.nightly
def test_its_size(image):
    """As docs/install.md says; of a release, because a debug build is three times as large."""
    if any((image / "opt").glob("*")):
        pytest.skip("the program is no release: Swift's libraries are not in it")
    check_size(image)


def test_symbols_are_in_a_place_of_their_own(image):
    """Under the build id of the program, which itself has none."""
    (symbols,) = [path for path in (image.parent / "symbols").rglob("*") if path.is_file()]
    described = subprocess.run(["readelf", "-n", image / "usr/bin/sluice"], capture_output=True, text=True).stdout
    (build_id,) = re.findall(r"Build ID: ([0-9a-f]+)", described)
    assert str(symbols).endswith(f"/symbols/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    assert " .symtab " in sections(symbols) and " .symtab " not in sections(image / "usr/bin/sluice")


def sections(path):
    return subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout


def test_the_bill_of_materials_names_what_is_linked(image):
    """Compared with what the program needs, what dpkg knows, and what the build has resolved."""
    check_bill(image)


def test_the_bill_of_materials_names_the_packages_of_swift(image):
    program, components = check_bill(image)
    assert program["version"] == run("--version").stdout.strip()
    pins = json.loads((ROOT / "Package.resolved").read_text())["pins"]
    resolved = {f"swift:{pin['identity']}": pin["state"].get("version") for pin in pins}
    found = {name: one["version"] for name, one in components.items() if name.startswith("swift:")}
    assert found.items() >= resolved.items() and found.keys() - resolved.keys() == {"swift:runtime"}
    # And those whose code is in the program are among them.
    symbols = subprocess.run(["nm", BINARY], capture_output=True, text=True, check=True).stdout
    modules = {"4GRDB": "grdb.swift", "7Logging": "swift-log", "14ArgumentParser": "swift-argument-parser"}
    for module, package in modules.items():
        assert f" $s{module}" in symbols and f"swift:{package}" in found


def test_a_file_of_unknown_origin_has_no_bill(image, tmp_path):
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/libmystery.so.1").touch()
    done = subprocess.run([ROOT / "scripts/bill-of-materials", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "/usr/lib/libmystery.so.1 belongs to no package" in done.stderr


def test_it_serves_and_stops_in_the_middle_of_an_upload(server, image):
    body = content(8 * MIB, 7)
    with server:
        api = API(server.url, server.admin_key)
        assert api.uploaded(b"hello")
        # The process has neither the rights of root nor a place to write but its data.
        status = Path(f"/proc/{server.pid}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s+10001\s+10001\s+10001$", status, re.M)
        assert re.search(r"^CapEff:\s+0+$", status, re.M)
        inside = ["nsenter", "--target", str(server.pid), "--mount", f"--root=/proc/{server.pid}/root"]
        wanted = {**server.environment, "PATH": "/usr/bin"}
        healthy = subprocess.run([*inside, "/usr/bin/sluice", "health"], env=wanted, capture_output=True)
        assert (healthy.returncode, healthy.stdout) == (0, b"ok\n"), healthy.stderr
        url = api.created(len(body))
        with Wire(server.address) as wire:
            wire.send(tus_patch(url, 0, len(body)) + body[: 3 * MIB])
            until(lambda: api.upload(upload_id(url))["offset"] == 3 * MIB)
            server.stop()
    unhealthy = subprocess.run([BINARY, "health"], env=wanted, capture_output=True)
    assert unhealthy.returncode == 1 and unhealthy.stderr.count(b"\n") == 1 and not unhealthy.stdout
    with server:
        api = API(server.url, server.admin_key)
        offset = api.offset(url)
        assert offset >= 3 * MIB
        assert api.patch(url, offset, body[offset:]).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(body), len(body))


def test_a_program_without_libraries_can_be_a_hook(server, tmp_path):
    """Scripts cannot: there is no shell."""
    hooks = server.data / "hooks"
    hooks.mkdir()
    source = tmp_path / "hook.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("{\\"RejectUpload\\": true}"); }\n')
    subprocess.run(["cc", "-static", "-o", hooks / "pre-create", source], check=True)
    server.environment["SLUICE_HOOKS_DIRECTORY"] = "/data/hooks"
    with server:
        assert API(server.url, server.admin_key).create(3).status_code == 400
    (hooks / "pre-create").write_text("#!/bin/sh\n")
    with pytest.raises(AssertionError, match="pre-create needs /bin/sh, which cannot be executed"):
        server.start()


# scripts/image, with programs that only print how they are called in the place of an engine


def build(folder, tools, *arguments, **environment):
    """Runs scripts/image where only these engines are installed."""
    folder.mkdir(exist_ok=True)
    for name in ("bash", "dirname", "basename", "sed", "head", "git", "uname", "nproc", "id", "env", "cat"):
        if path := shutil.which(name):
            (folder / name).symlink_to(path)
    for tool in tools:
        (folder / tool).write_text(f'#!/bin/bash\nprintf "%s\\n" {tool} "$@"\n')
        (folder / tool).chmod(0o755)
    environment = {"PATH": str(folder), "HOME": str(folder)} | environment
    script = [ROOT / "scripts/image", *arguments]
    return subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("tools", "chosen"),
    [
        (["docker", "podman", "buildah"], "docker"),
        (["podman", "buildah"], "podman"),
        (["buildah"], "buildah"),
    ],
)
def test_it_is_built_with_the_engine_that_is_there(tmp_path, tools, chosen):
    done = build(tmp_path / "bin", tools, "example/sluice:7", "--no-cache")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    called = lines[lines.index(chosen) :]
    assert called[1] == "build"
    assert called[called.index("--tag") + 1] == "example/sluice:7"
    # podman and buildah write the format of OCI by default, which has no HEALTHCHECK.
    assert ("--format" in called) == (chosen != "docker")
    version = subprocess.run([ROOT / "scripts/version"], capture_output=True, text=True, check=True).stdout.strip()
    assert f"VERSION={version}" in called
    assert any(re.fullmatch(r"REVISION=([0-9a-f]{40}|unknown)", line) for line in called), called
    assert called[-3:] == ["--no-cache", str(ROOT), "built example/sluice:7"]


def test_an_engine_can_be_chosen(tmp_path):
    done = build(tmp_path / "bin", ["docker", "buildah"], IMAGE_TOOL="buildah")
    assert "buildah" in done.stdout.splitlines() and "sluice:latest" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("tools", "arguments", "said"), [([], [], "install one"), (["docker"], ["--x"], "comes first")]
)
def test_it_says_what_is_missing(tmp_path, tools, arguments, said):
    done = build(tmp_path / "bin", tools, *arguments)
    assert done.returncode != 0 and said in done.stderr and "build" not in done.stdout
