"""The Debian package of `scripts/package`: what is in it, and its installation, upgrade and removal by dpkg.

dpkg works on this system, in a mount namespace whose changes are in memory and gone at its end.
"""

import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from harness.server import BINARY, ROOT, run
from harness.tools import lacking, tool

# Holds the namespace: `$0` becomes a copy of the system, with the folder `$1` of this test in it.
ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" overlay "$0/root"
mount --rbind /proc "$0/root/proc"
mount --rbind /dev "$0/root/dev"
mount -t tmpfs tmpfs "$0/root/run"
mkdir -p "$0/root$1"
mount --bind "$1" "$0/root$1"
echo ready
exec cat
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    tool("dpkg-shlibdeps", "dpkg-dev")
    folder = tmp_path_factory.mktemp("package")
    # Compressing it, and reading it again with each installation, would take most of the time.
    environment = os.environ | {"PACKAGE_LEVEL": "none", "SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(
        [ROOT / "scripts/package", BINARY, folder], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    path = folder / done.stdout.splitlines()[-1].rpartition("/")[2]
    fields = subprocess.run(["dpkg-deb", "--field", path], check=True, capture_output=True, text=True).stdout
    listed = subprocess.run(["dpkg-deb", "--contents", path], check=True, capture_output=True, text=True).stdout
    return SimpleNamespace(
        path=path,
        fields=dict(re.findall(r"^(\S+): (.*)$", fields, re.M)),
        # Mode, owner, size, date, time, name.
        files={line.split()[5].removeprefix("."): line.split() for line in listed.splitlines()},
    )


@pytest.mark.nightly
def test_what_it_says_of_itself(package):
    version = run("--version").stdout.strip()
    assert package.fields["Version"] == version.replace("-", "~", 1)
    assert package.path.name == f"sluice_{package.fields['Version']}_{package.fields['Architecture']}.deb"
    # dpkg takes this version, and it comes before the release that it leads to.
    release = re.match(r"[\d.]+", version)[0]
    if "-" in version:
        subprocess.run(["dpkg", "--compare-versions", package.fields["Version"], "lt", release], check=True)
    needed = {one.split()[0] for one in package.fields["Depends"].split(", ")}
    assert needed >= {"libc6", "libcurl4", "libpq5", "libsqlite3-0", "libssl3", "ca-certificates"}


def test_what_is_in_it(package):
    for name, mode in {
        "/usr/bin/sluice": "-rwxr-xr-x",
        "/usr/lib/systemd/system/sluice.service": "-rw-r--r--",
        "/usr/lib/systemd/system/sluice.socket": "-rw-r--r--",
        "/usr/lib/systemd/system/sluice-object.socket": "-rw-r--r--",
        "/etc/sluice/": "drwx------",
        "/etc/sluice/sluice.env": "-rw-------",
        "/usr/share/man/man1/sluice.1.gz": "-rw-r--r--",
        "/usr/share/bash-completion/completions/sluice": "-rw-r--r--",
        "/usr/share/zsh/vendor-completions/_sluice": "-rw-r--r--",
        "/usr/share/fish/vendor_completions.d/sluice.fish": "-rw-r--r--",
        "/usr/share/doc/sluice/copyright": "-rw-r--r--",
        "/usr/share/doc/sluice/changelog.gz": "-rw-r--r--",
        "/usr/share/doc/sluice/examples/cluster.conf": "-rw-r--r--",
        "/usr/share/doc/sluice/examples/nginx/sluice.conf": "-rw-r--r--",
    }.items():
        assert package.files[name][:2] == [mode, "root/root"], name
    # Nothing of /usr/local or of the systems of administrators.
    assert {name.split("/")[1] for name in package.files if name != "/"} == {"usr", "etc"}
    assert not [name for name in package.files if name.startswith("/etc/") and not name.startswith("/etc/sluice/")][1:]


class System:
    """This system with changes that are only in a namespace."""

    def __init__(self, folder, shared):
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", ENTER, folder, shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.is_ready = self.holder.stdout.readline() == "ready\n"
        self.root = folder / "root"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.communicate()

    def run(self, *command, check=True):
        enter = ["nsenter", "--mount", "--target", str(self.holder.pid), "chroot", self.root]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        done = subprocess.run([*enter, *command], env=environment, capture_output=True, text=True, timeout=120)
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def read(self, path):
        return self.run("cat", path).stdout

    def exists(self, path):
        return self.run("test", "-e", path, check=False).returncode == 0


@pytest.fixture
def system(package, tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("dpkg"):
        lacking("needs root, unshare and dpkg")
    folder = tmp_path / "system"
    folder.mkdir()
    with System(folder, package.path.parent) as system:
        if not system.is_ready:
            lacking("needs overlay file systems")
        yield system


def wanted(system):
    """The units that start at boot, as symbolic links."""
    found = system.run("find", "/etc/systemd/system", "-name", "sluice*", "-path", "*.wants/*")
    return sorted(line.partition("/etc/systemd/system/")[2] for line in found.stdout.splitlines())


ENABLED = ["multi-user.target.wants/sluice.service"]
ENABLED += [f"sockets.target.wants/{name}" for name in ("sluice-object.socket", "sluice.socket")]


def test_it_is_installed_upgraded_and_removed(package, system):
    system.run("dpkg", "--install", package.path)
    assert "install ok installed" in system.run("dpkg-query", "--status", "sluice").stdout
    assert wanted(system) == ENABLED
    assert system.run("sluice", "--version").stdout == run("--version").stdout
    # Without a change, it listens as a gateway without settings does.
    lines = system.read("/etc/sluice/sluice.env").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []
    assert "#SLUICE_PUBLIC_URL=https://uploads.example.com" in lines
    # A key of its own, which only root can read, and which the gateway takes.
    key = system.read("/etc/sluice/admin-key")
    assert re.fullmatch(r"slk_[0-9a-f]{48}\n", key)
    assert system.run("stat", "--format=%a %U", "/etc/sluice/admin-key").stdout == "600 root\n"
    checked = system.run("env", "SLUICE_ADMIN_KEY_FILE=/etc/sluice/admin-key", "sluice", "check", "--data-dir=/none")
    assert key.strip() not in checked.stdout
    # The unit as systemd reads it there, with what it names in place.
    units = [f"/usr/lib/systemd/system/{name}" for name in ("sluice.service", "sluice.socket", "sluice-object.socket")]
    verified = system.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units, check=False)
    assert [line for line in verified.stderr.splitlines() if "sluice" in line] == []

    # An upgrade keeps what the administrator has changed.
    system.run("sh", "-c", "echo SLUICE_PUBLIC_URL=https://a.example >> /etc/sluice/sluice.env")
    system.run("systemctl", "disable", "sluice-object.socket")
    system.run("dpkg", "--install", package.path)
    assert system.read("/etc/sluice/admin-key") == key
    assert system.read("/etc/sluice/sluice.env").endswith("SLUICE_PUBLIC_URL=https://a.example\n")
    assert wanted(system) == [name for name in ENABLED if "object" not in name]

    system.run("sh", "-c", "mkdir -p /var/lib/private/sluice && touch /var/lib/private/sluice/state.sqlite")
    system.run("dpkg", "--remove", "sluice")
    assert not system.exists("/usr/bin/sluice") and system.read("/etc/sluice/admin-key") == key
    system.run("dpkg", "--purge", "sluice")
    assert not system.exists("/etc/sluice") and wanted(system) == []
    # Uploads are not settings.
    assert system.exists("/var/lib/private/sluice/state.sqlite")


@pytest.mark.nightly
def test_the_same_program_makes_the_same_package(package, tmp_path):
    environment = os.environ | {"PACKAGE_LEVEL": "0", "SOURCE_DATE_EPOCH": "1700000000"}
    made = []
    for name in ("one", "other"):
        subprocess.run(
            [ROOT / "scripts/package", BINARY, tmp_path / name], env=environment, check=True, capture_output=True
        )
        made.append((tmp_path / name / package.path.name).read_bytes())
    assert made[0] == made[1]


def test_it_says_what_is_missing(tmp_path):
    done = subprocess.run([ROOT / "scripts/package", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1 and f"there is no program {tmp_path}/none" in done.stderr
