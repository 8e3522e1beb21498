"""The image itself, built by `scripts/image` with buildah, without a registry: minutes of compiling.

The two images of Swift and Debian that the Dockerfile begins with are made of this system's packages and of the Swift
that built the program. It needs root, and what `scripts/setup --image` installs.

Only with SLUICE_TEST_IMAGE=1, for a run at night.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.api import API, tus_patch, upload_id
from harness.daemon import free_ports
from harness.data import MIB, content, sha256
from harness.image import USER, check_bill, check_contents, check_size
from harness.server import ADMIN_KEY, ROOT
from harness.tools import lacking
from harness.wire import Wire, until

# What the image of Swift has besides the toolchain, in swift.org's list of dependencies.
PACKAGES = (
    "binutils binutils-gold ca-certificates gcc git libc6-dev libcurl4-openssl-dev libedit2 libncurses6 libpq-dev "
    "libpython3.11 libsqlite3-dev libssl-dev libstdc++-12-dev libxml2-dev pkg-config python3 tzdata uuid-dev zlib1g-dev"
)
# Where this system's packages come from, for containers.
SOURCES = ["-v", "/etc/apt:/etc/apt:ro", "-v", "/usr/share/keyrings:/usr/share/keyrings:ro"]
IMAGE = "localhost/sluice:test"

# The first test waits for everything to be compiled, as each build may (see `engine`).
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2 * 3600)]


class Engine:
    """buildah and podman with a store of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.store = ["--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "overlay"]

    def buildah(self, *arguments, **options):
        return self.run("buildah", *self.store, *arguments, **options)

    def podman(self, *arguments, **options):
        # runc: crun refuses mixed versions of cgroups. Limits may not be raised in a container.
        engine = ["--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc"]
        return self.run("podman", *self.store, *engine, *arguments, **options)

    def run(self, *command, check=True, **options):
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, **options)
        if check:
            assert done.returncode == 0, f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    def packages(self, container, names):
        """Installs packages in a container, from where this system has them."""
        script = f"apt-get -q update && apt-get -q install -y --no-install-recommends {names}"
        self.buildah("run", *SOURCES, container, "--", "sh", "-c", script, timeout=900)

    def make_base(self):
        mirror = self.run("sh", "-c", "apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1")
        root = self.folder / "rootfs"
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root, mirror]
        self.run(*command, timeout=900)
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, root, "/")
        self.buildah("config", "--env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", container)
        self.buildah("commit", "--quiet", "--rm", container, "localhost/debian:bookworm-slim")
        shutil.rmtree(root)

    def make_swift(self):
        """`swift:6.3-bookworm`, as the Dockerfile names it."""
        toolchain = Path(shutil.which(os.environ.get("SWIFT", "swift"))).resolve().parents[2]
        container = self.buildah("from", "--pull-never", "localhost/debian:bookworm-slim")
        self.packages(container, PACKAGES)
        self.buildah("add", "--quiet", container, toolchain / "usr", "/usr")
        (name,) = re.findall(r"^FROM (swift:\S+) AS build$", (ROOT / "Dockerfile").read_text(), re.M)
        self.buildah("commit", "--quiet", "--rm", container, f"localhost/{name}")


def mirrors():
    """Where this system's git finds packages of Swift, if not in their own places: options of a build."""
    listed = subprocess.run(
        ["git", "config", "--system", "--get-regexp", r"^url\..*\.insteadof$"], capture_output=True, text=True
    ).stdout
    folders = {found for found in re.findall(r"^url\.(/.*?)/?\.insteadof ", listed, re.M)}
    return ["-v", "/etc/gitconfig:/etc/gitconfig:ro"] * bool(folders) + [
        option for folder in sorted(folders) for option in ("-v", f"{folder}:{folder}:ro")
    ]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    if not os.environ.get("SLUICE_TEST_IMAGE"):
        pytest.skip("builds an image for minutes; SLUICE_TEST_IMAGE=1 runs it")
    missing = [name for name in ("buildah", "podman", "runc", "debootstrap") if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        lacking(f"needs root and {' '.join(missing)}")
    engine = Engine(tmp_path_factory.mktemp("engine"))
    try:
        engine.make_base()
        engine.make_swift()
        tool = engine.folder / "buildah"
        # scripts/image calls it as an operator would; the store and what is here in place of the network are added.
        options = ["--pull-never", "--layers", *SOURCES, *mirrors()]
        command = ["buildah", *map(str, engine.store), "bud", *options]
        tool.write_text(f'#!/bin/sh\n[ "$1" = build ] && shift\nexec {" ".join(command)} "$@"\n')
        tool.chmod(0o755)
        environment = os.environ | {"IMAGE_TOOL": str(tool), "BUILDAH_ISOLATION": "chroot"}
        build = [ROOT / "scripts/image", IMAGE]
        done = subprocess.run(build, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        yield engine
    finally:
        engine.podman("rm", "--all", "--force", check=False)
        subprocess.run(["umount", engine.folder / "store/overlay"], capture_output=True)


@pytest.fixture(scope="module")
def root(engine):
    """The files of the image."""
    container = engine.buildah("from", "--pull-never", IMAGE)
    yield Path(engine.buildah("mount", container))
    engine.buildah("rm", container)


def test_what_is_in_the_image(engine, root, report):
    check_contents(root)
    report(f"the image: {check_size(root)}")
    check_bill(root, is_of_this_system=False)
    assert (root / "data").stat().st_uid == USER


def test_what_the_image_says_of_itself(engine):
    told = json.loads(engine.podman("image", "inspect", IMAGE))[0]
    config = told["Config"]
    version = subprocess.run([ROOT / "scripts/version"], capture_output=True, text=True, check=True).stdout.strip()
    assert config["Labels"]["org.opencontainers.image.version"] == version
    assert re.fullmatch("[0-9a-f]{40}", config["Labels"]["org.opencontainers.image.revision"])
    assert config["User"] == f"{USER}:{USER}" and config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["/usr/bin/sluice"] and config["Cmd"] == ["serve"]
    assert set(config["Volumes"]) == {"/data"} and set(config["ExposedPorts"]) == {"8080/tcp", "9000/tcp"}
    assert (told.get("HealthCheck") or told["Healthcheck"])["Test"] == ["CMD", "sluice", "health"]
    printed = engine.podman(*run_options("none"), IMAGE, "--version")
    assert printed == version


def run_options(volume, *options):
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    data = [] if volume == "none" else ["-v", f"{volume}:/data"]
    rights = ["--network", "host", "--read-only", "--cap-drop=all"]
    return ["run", "--rm", "--pull", "never", *limits, *data, *rights, *options]


def test_an_upload_outlives_its_container(engine, tmp_path):
    """The first upload; SIGTERM in the middle of another one; a new container on the same volume, where it goes on."""
    ports = free_ports(2)
    settings = ["--env", f"SLUICE_ADMIN_KEY={ADMIN_KEY}", "--env", "SLUICE_TIMEOUTS_SHUTDOWN_GRACE=1s"]
    settings += [
        option
        for name, port in zip(("GATEWAY", "OBJECT"), ports, strict=True)
        for option in ("--env", f"SLUICE_{name}_LISTEN=127.0.0.1:{port}")
    ]
    start = run_options("sluice-test", "--detach", "--name", "sluice", *settings)
    body = content(8 * MIB, 7)
    api = API(f"http://127.0.0.1:{ports[0]}", ADMIN_KEY)

    def is_healthy():
        return engine.podman("exec", "sluice", "sluice", "health", check=False) == "ok"

    engine.podman(*start, IMAGE)
    try:
        until(is_healthy, 60)
        assert api.uploaded(b"hello")
        url = api.created(len(body))
        with Wire(("127.0.0.1", ports[0])) as wire:
            wire.send(tus_patch(url, 0, len(body)) + body[: 3 * MIB])
            until(lambda: api.upload(upload_id(url))["offset"] == 3 * MIB)
            engine.podman("stop", "--time", "30", "sluice")
        engine.podman(*start, IMAGE)
        until(is_healthy, 60)
        api = API(f"http://127.0.0.1:{ports[0]}", ADMIN_KEY)
        offset = api.offset(url)
        assert offset >= 3 * MIB
        assert api.patch(url, offset, body[offset:]).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
    finally:
        engine.podman("rm", "--force", "sluice", check=False)
        engine.podman("volume", "rm", "--force", "sluice-test", check=False)


def test_the_symbols_are_a_stage_of_their_own(engine, root):
    environment = os.environ | {"IMAGE_TOOL": str(engine.folder / "buildah"), "BUILDAH_ISOLATION": "chroot"}
    build = [ROOT / "scripts/image", "localhost/sluice-symbols:test", "--target", "symbols"]
    # Everything before it is in the cache of layers.
    done = subprocess.run(build, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr[-4000:]
    container = engine.buildah("from", "--pull-never", "localhost/sluice-symbols:test")
    (file,) = [path for path in Path(engine.buildah("mount", container)).rglob("*") if path.is_file()]
    described = subprocess.run(["readelf", "-n", root / "usr/bin/sluice"], capture_output=True, text=True).stdout
    (build_id,) = re.findall(r"Build ID: ([0-9a-f]+)", described)
    assert f".build-id/{build_id[:2]}/{build_id[2:]}.debug" in str(file)
    engine.buildah("rm", container)
