"""`scripts/version` and `scripts/release`, in repositories of their own."""

import re
import shutil
import subprocess

import pytest

from harness.server import ROOT

SCRIPTS = ("version", "release")
SOURCE = "Sources/C/CVersion/CVersion.c"
CHANGELOG = """# Changes

Text.

## Unreleased

### Fixed

- A newer mend. (#3)

### Added

- A thing with two
  lines. (#4)

## 0.1.0 - 2026-01-31

### Added

- The first thing. (#1)
"""


class Checkout:
    """What the scripts need of one, with a .ci/run that only leaves a mark or fails."""

    def __init__(self, folder):
        self.folder = folder
        for name in SCRIPTS:
            self.copy(f"scripts/{name}")
        self.copy(SOURCE)
        self.write("openapi.yaml", "openapi: 3.1.0\ninfo:\n  title: Sluice\n  version: 0.1.0\nx:\n  version: 7\n")
        self.write("deploy/helm/sluice/Chart.yaml", "version: &version 0.1.0\nappVersion: *version\n")
        self.write("CHANGELOG.md", CHANGELOG)
        self.write(".gitignore", "gate-ran\n")
        self.gate("touch gate-ran")
        self.write(SOURCE, re.sub(r'VERSION "[^"]*"', 'VERSION "0.1.0"', self.read(SOURCE)))

    def copy(self, name):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, self.folder / name)

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def read(self, name):
        return (self.folder / name).read_text()

    def gate(self, command):
        self.write(".ci/run", f"#!/bin/sh\n{command}\n")
        (self.folder / ".ci/run").chmod(0o755)

    def run(self, *command, check=True):
        # Neither the settings of this machine nor a repository around the folder.
        environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        environment |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    def commit(self, text="x"):
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--allow-empty", "--message", text)
        return self.run("git", "rev-parse", "--short=7", "HEAD").stdout.strip()

    def version(self):
        return self.run("scripts/version").stdout.strip()

    def release(self, *arguments, check=True):
        return self.run("scripts/release", *arguments, check=check)

    def refused(self, *arguments):
        done = self.release(*arguments, check=False)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr


@pytest.fixture
def checkout(tmp_path):
    made = Checkout(tmp_path / "checkout")
    made.run("git", "init", "--quiet", "--initial-branch=main")
    made.commit()
    return made


# The version


def test_an_archive_has_the_version_of_its_sources(tmp_path):
    """Also below another repository, whose tags mean nothing here."""
    made = Checkout(tmp_path / "outer/inner")
    assert made.version() == "0.1.0"
    made.run("git", "init", "--quiet", "..")
    made.run("git", "-C", "..", "commit", "--quiet", "--allow-empty", "--message", "x")
    made.run("git", "-C", "..", "tag", "v7.0.0")
    assert made.version() == "0.1.0"


def test_the_version_of_a_commit(checkout):
    first = checkout.commit()
    assert checkout.version() == f"0.1.0-dev+g{first}"
    checkout.run("git", "tag", "v0.1.0")
    checkout.run("git", "tag", "other")
    assert checkout.version() == "0.1.0"
    checkout.write("CHANGELOG.md", "changed")
    assert checkout.version() == f"0.1.0+0.g{first}.dirty"
    second = checkout.commit()
    assert checkout.version() == f"0.1.0+1.g{second}"


def test_a_build_can_be_told_its_version(checkout):
    assert checkout.run("env", "SLUICE_BUILD_VERSION=7.8.9", "scripts/version").stdout == "7.8.9\n"


def test_the_sources_have_the_version_of_the_newest_release():
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert f'#define SLUICE_BUILD_VERSION "{newest}"\n' in (ROOT / SOURCE).read_text()
    assert f"\n  version: {newest}\n" in (ROOT / "openapi.yaml").read_text()


# A release


def test_a_release(checkout):
    checkout.release("prepare", "0.2.0")
    text = checkout.read("CHANGELOG.md")
    assert re.search(
        r"\nText\.\n\n## Unreleased\n\n## 0\.2\.0 - \d{4}-\d\d-\d\d\n\n"
        r"### Added\n\n- A thing with two\n  lines. \(#4\)\n\n"
        r"### Fixed\n\n- A newer mend. \(#3\)\n\n## 0\.1\.0 - 2026-01-31\n\n### Added\n\n- The first thing. \(#1\)\n\Z",
        text,
    )
    assert '#define SLUICE_BUILD_VERSION "0.2.0"\n' in checkout.read(SOURCE)
    assert "\n  version: 0.2.0\nx:\n  version: 7\n" in checkout.read("openapi.yaml")
    assert checkout.read("deploy/helm/sluice/Chart.yaml") == "version: &version 0.2.0\nappVersion: *version\n"
    commit = checkout.commit()
    assert "0.2.0 can be released" in checkout.release("check").stdout
    assert not (checkout.folder / "gate-ran").exists()
    checkout.release("tag")
    assert (checkout.folder / "gate-ran").exists()
    assert checkout.run("git", "rev-parse", "--short=7", "v0.2.0^{commit}").stdout.strip() == commit
    assert checkout.run("git", "cat-file", "-t", "v0.2.0").stdout == "tag\n"
    text = checkout.run("git", "tag", "--list", "--format=%(contents)", "v0.2.0").stdout
    assert text.startswith("Sluice 0.2.0\n\n### Added\n\n- A thing with two")
    assert checkout.version() == "0.2.0"
    assert "is released: it has the tag v0.2.0" in checkout.refused("tag")
    assert "is released" in checkout.refused("prepare", "0.2.0")


def test_lines_that_come_later_join_a_section_that_is_not_tagged(checkout):
    checkout.release("prepare", "0.1.0")
    text = checkout.read("CHANGELOG.md")
    assert "### Added\n\n- A thing with two\n  lines. (#4)\n- The first thing. (#1)\n\n### Fixed\n" in text
    assert text.count("## 0.1.0") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.write("new", "x"), "files differ from the commit:\n?? new"),
        (lambda one: one.write("CHANGELOG.md", CHANGELOG), "lines below `## Unreleased`"),
        (
            lambda one: one.write("CHANGELOG.md", one.read("CHANGELOG.md").replace("0 - 2", "0 (2")),
            "has no date",
        ),
        (lambda one: one.write("openapi.yaml", "info:\n  version: 0.1.9\n"), "openapi.yaml says 0.1.9"),
        (lambda one: one.run("git", "tag", "v0.3.0"), "0.2.0 is older than 0.3.0"),
        (lambda one: one.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 0.2.0 - 2026-01-01\n"), "is empty"),
    ],
)
def test_what_is_missing_for_a_release_is_said(checkout, change, said):
    checkout.release("prepare", "0.2.0")
    checkout.commit()
    change(checkout)
    assert said in checkout.refused("check")
    assert said in checkout.refused("tag")
    assert not (checkout.folder / "gate-ran").exists()


@pytest.mark.parametrize(
    ("gate", "said"), [("exit 1", ".ci/run failed"), ("touch left-behind", "the checkout changed while .ci/run ran")]
)
def test_without_the_gate_there_is_no_tag(checkout, gate, said):
    checkout.gate(gate)
    checkout.release("prepare", "0.2.0")
    checkout.commit()
    assert said in checkout.refused("tag")
    assert checkout.run("git", "tag").stdout == ""


@pytest.mark.parametrize(
    ("version", "said"), [("0.0.9", "older than 0.1.0"), ("1", "is not a version"), ("0.1.0", "is released")]
)
def test_a_version_that_cannot_be_next(checkout, version, said):
    checkout.run("git", "tag", "v0.1.0")
    assert said in checkout.refused("prepare", version)
    assert checkout.read("CHANGELOG.md") == CHANGELOG


def test_a_pre_release_comes_before_its_version(checkout):
    checkout.run("git", "tag", "v0.2.0-rc.2")
    assert "older than 0.2.0-rc.2" in checkout.refused("prepare", "0.2.0-rc.1")
    checkout.release("prepare", "0.2.0")


def test_nothing_to_release(checkout):
    checkout.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n")
    assert "nothing below `## Unreleased`" in checkout.refused("prepare", "0.2.0")
