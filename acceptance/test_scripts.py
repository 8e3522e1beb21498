"""The scripts of the gate: they test exactly what they should, and fail exactly when they should."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from s3_tests import __main__ as s3_tests

ROOT = Path(__file__).resolve().parent.parent
FAIR = ROOT / "scripts/fair"


def load(name):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


# The work tree that lasts

PROBE = """#!/usr/bin/env bash
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$root/scripts/lasting.sh"
pass_revision "$@"
in_lasting_tree WHAT scripts/probe "${arguments[@]}"
printf 'arguments %s\\n' "${remaining[*]}"
cd "$root"
find . -type f ! -path './.git/*' ! -path './.build/*' ! -path './.venv/*' | sort
cat product.txt
mkdir -p .build .venv
[ ! -e .build/kept ] || echo 'the build folder is kept'
: >.build/kept
: >.venv/kept
: >left-behind.txt
[ ! -e fail ] || exit 7
"""
SWIFT = """#!/bin/sh
case $1 in
--version) echo 'Swift version 6.3.1 (a fake)' ;;
*) echo "target of $(cat "$(dirname "$0")/compiler")" ;;
esac
"""


class Checkout:
    """A small project with the scripts that are tested."""

    def __init__(self, folder, what="commit"):
        self.path, self.tree, self.bin = folder / "checkout", folder / "cache/check", folder / "bin"
        (self.path / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        (self.bin / "swift").write_text(SWIFT)
        (self.bin / "swift").chmod(0o755)
        (self.bin / "compiler").write_text("one\n")
        for name in ("common.sh", "lasting.sh"):
            shutil.copy(ROOT / "scripts" / name, self.path / "scripts")
        (self.path / "scripts/probe").write_text(PROBE.replace("WHAT", what))
        (self.path / "product.txt").write_text("first\n")
        (self.path / "old.txt").write_text("old\n")
        (self.path / ".gitignore").write_text(".build/\n.venv/\nignored.txt\n")
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments):
        names = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        done = subprocess.run(["git", *names, *arguments], cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "-qm", "a commit")

    def environment(self):
        return os.environ | {"SLUICE_CHECK_DIR": str(self.tree), "SWIFT": str(self.bin / "swift")}

    def run(self, *arguments, status=0):
        done = subprocess.run(
            ["bash", self.path / "scripts/probe", *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_run_tests_exactly_the_commit(checkout):
    first = checkout.run("--some", "option")
    assert "./old.txt" in first and "first\n" in first and "arguments --some option" in first
    assert str(checkout.tree) in first
    assert not (checkout.path / "left-behind.txt").exists()

    (checkout.path / "product.txt").write_text("second\n")
    (checkout.path / "old.txt").unlink()
    (checkout.path / "new.txt").write_text("new\n")
    uncommitted = checkout.run()
    assert "not, and are left out" in uncommitted and "?? new.txt" in uncommitted
    assert "./new.txt" not in uncommitted and "./old.txt" in uncommitted and "first\n" in uncommitted
    # What the run before left there is not tested.
    assert "./left-behind.txt" not in uncommitted

    checkout.commit()
    committed = checkout.run()
    assert "left out" not in committed
    assert "./new.txt" in committed and "./old.txt" not in committed and "second\n" in committed

    # An older commit brings the older files back.
    checkout.git("checkout", "-q", "HEAD~1")
    assert "./old.txt" in checkout.run()


def test_a_run_of_the_files_as_they_are_needs_no_commit(tmp_path):
    checkout = Checkout(tmp_path, "files")
    head, status = checkout.git("rev-parse", "HEAD"), checkout.git("status", "--porcelain")
    (checkout.path / "product.txt").write_text("second\n")
    (checkout.path / "old.txt").unlink()
    (checkout.path / "new.txt").write_text("new\n")
    (checkout.path / "ignored.txt").write_text("ignored\n")
    shown = checkout.run()
    assert "./new.txt" in shown and "./old.txt" not in shown and "second\n" in shown and "ignored.txt" not in shown
    # The checkout and its index are as before.
    assert checkout.git("rev-parse", "HEAD") == head
    assert status == "" and checkout.git("status", "--porcelain").split("\n") == [
        "D old.txt",
        " M product.txt",
        "?? new.txt",
    ]


def test_only_what_changed_gets_a_new_time(checkout):
    checkout.run()
    before = {name: (checkout.tree / name).stat().st_mtime_ns for name in ("old.txt", "product.txt")}
    (checkout.path / "product.txt").write_text("second\n")
    checkout.commit()
    assert "the build folder is kept" in checkout.run()
    assert (checkout.tree / "old.txt").stat().st_mtime_ns == before["old.txt"]
    assert (checkout.tree / "product.txt").stat().st_mtime_ns > before["product.txt"]


def test_another_compiler_or_clean_begins_anew(checkout):
    checkout.run()
    (checkout.bin / "compiler").write_text("another\n")
    assert "is kept" not in checkout.run()
    assert (checkout.tree / ".venv/kept").exists()
    assert "is kept" in checkout.run()
    shown = checkout.run("--clean")
    assert "is kept" not in shown and "arguments \n" in shown


def test_a_folder_of_somebody_else_is_not_touched(checkout):
    checkout.tree.mkdir(parents=True)
    (checkout.tree / "thesis.txt").write_text("years of work\n")
    checkout.run(status=1)
    assert (checkout.tree / "thesis.txt").exists()


def test_a_run_in_the_checkout_itself(checkout):
    assert "left-behind" not in checkout.run("--here")
    assert (checkout.path / "left-behind.txt").exists() and not checkout.tree.exists()


def test_the_status_of_the_script_is_that_of_the_run(checkout):
    (checkout.path / "fail").write_text("")
    checkout.commit()
    checkout.run(status=7)


def test_runs_wait_for_each_other(checkout):
    (checkout.path / "scripts/probe").write_text(
        PROBE.replace("WHAT", "commit")
        + 'echo begin >>"$SLUICE_LOG"\n'
        + 'while [ ! -s "$SLUICE_GATE" ]; do sleep 0.05; done\n'
        + 'echo end >>"$SLUICE_LOG"\n'
    )
    checkout.commit()
    log, gate = checkout.path.parent / "log", checkout.path.parent / "gate"
    gate.touch()
    environment = checkout.environment() | {"SLUICE_LOG": str(log), "SLUICE_GATE": str(gate)}
    command = ["bash", checkout.path / "scripts/probe"]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while not log.exists():
        assert first.poll() is None
    second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert "waiting for the run" in second.stdout.readline()
    gate.write_text("open\n")
    assert first.wait(30) == 0
    second.communicate(timeout=30)
    assert second.returncode == 0
    assert log.read_text().split() == ["begin", "end", "begin", "end"]


def test_a_run_that_is_ended_does_not_pass_and_frees_the_work_tree(checkout):
    (checkout.path / "scripts/probe").write_text(
        PROBE.replace("WHAT", "commit") + "echo started; while :; do sleep 0.1; done\n"
    )
    checkout.commit()
    process = subprocess.Popen(
        ["bash", checkout.path / "scripts/probe"], env=checkout.environment(), stdout=subprocess.PIPE, text=True
    )
    while "started" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    (checkout.path / "scripts/probe").write_text(PROBE.replace("WHAT", "commit"))
    checkout.commit()
    assert "waiting" not in checkout.run()


# Failures by chance

SWIFT_TESTS = """#!/usr/bin/env python3
import json, os, re, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
tests = json.loads(os.environ["TESTS"])
pattern = re.compile(arguments.get("--filter", ""))
status = 0
with open(arguments["--event-stream-output-path"], "a", buffering=1) as stream:
    def event(kind, test, **more):
        messages = [{"symbol": "fail", "text": "It broke."}]
        payload = {"kind": kind, "testID": f"{test}/File.swift:3:4", "messages": messages} | more
        print(json.dumps({"kind": "event", "payload": payload}), file=stream)
    for test, failures in tests.items():
        if not pattern.search(f"{test}/File.swift:3:4"):
            continue
        event("testStarted", test)
        counter = os.path.join(os.environ["COUNTS"], re.sub(r"\\W", "_", test))
        runs = int(open(counter).read()) if os.path.exists(counter) else 0
        open(counter, "w").write(str(runs + 1))
        if failures == "hang":
            while True:
                time.sleep(60)
        if failures == "crash":
            os.abort()
        if runs < failures:
            event("issueRecorded", test, issue={"isKnown": False})
            status = 1
        event("testEnded", test)
sys.exit(status)
"""


def fair_swift(tmp_path, tests, *options):
    """Runs invented tests, of which each fails so many times."""
    command, counts, flaky = tmp_path / "tests", tmp_path / "counts", tmp_path / "flaky.txt"
    if not command.exists():
        command.write_text(SWIFT_TESTS)
        command.chmod(0o755)
        counts.mkdir()
    done = subprocess.run(
        [FAIR, "--flaky", flaky, *options, "swift", command, "--", "--filter", "."],
        env=os.environ | {"TESTS": json.dumps(tests), "COUNTS": str(counts)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    runs = {test: int((counts / test.translate(str.maketrans("./()", "____"))).read_text()) for test in tests}
    return done.returncode, done.stdout, flaky.read_text() if flaky.exists() else "", runs


def test_tests_that_pass(tmp_path):
    status, shown, flaky, runs = fair_swift(tmp_path, {"A.B/c()": 0, "A.B/d()": 0})
    assert (status, shown, flaky) == (0, "", "")
    assert runs == {"A.B/c()": 1, "A.B/d()": 1}


def test_a_flaky_test_is_named(tmp_path):
    status, shown, flaky, runs = fair_swift(tmp_path, {"A.B/c()": 1, "A.B/cd()": 0})
    assert status == 0
    assert flaky == "FLAKY: A.B/c(): It broke.\n"
    assert "scripts/test --only swift --filter 'A\\.B/c\\(\\)'" in shown
    # Alone.
    assert runs == {"A.B/c()": 2, "A.B/cd()": 1}


def test_a_test_that_fails_twice_fails_the_stage(tmp_path):
    status, shown, flaky, _ = fair_swift(tmp_path, {"A.B/c()": 2, "A.B/d()": 0})
    assert status == 1 and flaky == ""
    assert "FAILED twice: A.B/c()" in shown


def test_more_than_three_flaky_tests_fail_the_run(tmp_path):
    status, _, _, runs = fair_swift(tmp_path, {f"A.B/c{number}()": 1 for number in range(4)})
    assert status == 1 and set(runs.values()) == {1}


def test_flaky_tests_of_all_stages_count(tmp_path):
    (tmp_path / "flaky.txt").write_text("FLAKY: one: x\nFLAKY: two: x\n")
    assert fair_swift(tmp_path, {"A.B/c()": 1})[0] == 0
    assert fair_swift(tmp_path, {"A.B/d()": 1})[0] == 3


def test_a_crash_names_the_tests_that_ran(tmp_path):
    status, shown, _, _ = fair_swift(tmp_path, {"A.B/c()": 0, "A.B/d()": "crash"})
    assert status not in (0, 1)
    assert "A.B/d()" in shown and "A.B/c()" not in shown


def test_a_stage_that_stands_still_says_why(tmp_path):
    status, shown, _, _ = fair_swift(tmp_path, {"A.B/c()": 0, "A.B/d()": "hang"}, "--still", "10")
    assert status == 4
    assert "nothing moves" in shown and "A.B/d()" in shown and "A.B/c()" not in shown


PYTEST = """
import pathlib, pytest
@pytest.mark.parametrize("value", ["a/b", "c[d]"])
def test_once(value):
    path = pathlib.Path(__file__).with_name("ran-" + value.replace("/", "-"))
    if not path.exists():
        path.touch()
        assert value == "first time"
def test_good():
    pass
"""


def test_a_flaky_acceptance_test_is_named(tmp_path):
    (tmp_path / "test_some.py").write_text(PYTEST)
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'acceptance')!r})\n")
    flaky = tmp_path / "flaky.txt"
    base = [sys.executable, "-m", "pytest", "-c", ROOT / "acceptance/pytest.ini", "--rootdir", tmp_path]
    # The hooks of acceptance/conftest.py, for a folder that is not below it.
    plugin = ["-p", "conftest_of_acceptance"]
    (tmp_path / "conftest_of_acceptance.py").write_text(
        f"exec(compile(open({str(ROOT / 'acceptance/conftest.py')!r}).read(), 'conftest', 'exec'))\n"
    )
    done = subprocess.run(
        [FAIR, "--flaky", flaky, "pytest", *base, *plugin, "--", tmp_path],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT / 'acceptance'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line.split(": ")[1] for line in flaky.read_text().splitlines()]
    assert names == [f"{tmp_path}/test_some.py::test_once[{value}]" for value in ("a/b", "c[d]")]
    assert "scripts/test --only acceptance" in done.stdout


# What a change touches


def test_every_target_has_a_row_and_every_test_is_in_one():
    affected = load("affected")
    known = affected.targets()
    assert {name for name, (_, _, is_test) in known.items() if not is_test} == set(affected.ACCEPTANCE)
    rows = {name for row in [*affected.ACCEPTANCE.values(), *affected.OTHER.values()] for name in row.split()}
    files = {path.stem.removeprefix("test_") for path in (ROOT / "acceptance").glob("test_*.py")}
    assert rows == files


def test_a_change_is_tested_by_what_is_above_it():
    affected = load("affected")
    known = affected.targets()
    modules, names, parts = affected.affected(["Sources/Dialects/Forms/FormHandler.swift"], known)
    assert "FormsTests" in modules and "PlainUploadsTests" in modules and "TransportTests" not in modules
    assert names == ["browser", "forms"] and parts == ["tests"]
    modules, names, parts = affected.affected(["Sources/Transport/Channel.swift"], known)
    assert {"TransportTests", "HTTPServerTests", "GatewayTests"} <= set(modules) and "MetricsKitTests" not in modules
    assert "sanitizers" in parts
    assert affected.affected(["Sources/FormsExtra.swift", "LICENSE"], known) == ([], [], [])
    assert len(affected.affected(["Package.swift"], known)[0]) == sum(is_test for _, _, is_test in known.values())


def test_the_gate_runs_everything_unless_only_dialects_tests_and_documents_differ():
    affected = load("affected")
    known = affected.targets()
    files = {path.stem.removeprefix("test_") for path in (ROOT / "acceptance").glob("test_*.py")}
    for file in (
        "Sources/UploadCore/UploadService.swift",
        "Sources/Gateway/GatewayServer.swift",
        "Sources/SluiceTesting/Pattern.swift",
        "Package.swift",
        "acceptance/harness/server.py",
        "acceptance/conftest.py",
        "acceptance/requirements.txt",
        "scripts/test",
        ".ci/run",
        "deploy/compose/one-node.yaml",
        "Sources/Dialects/Unknown/File.swift",
    ):
        assert affected.selection(["docs/tus.md", file, "CHANGELOG.md"], known) == file
    modules, names = affected.selection(["Sources/Dialects/TencentVOD/VODCalls.swift", "docs/tencent.md"], known)
    assert {"GatewayTests", "TencentVODTests"} <= set(modules) and not {"VimeoTests", "TusTests"} & set(modules)
    assert {"tencent_ugc", "minted_rights", "limit_matrix", "docs"} <= set(names) < files
    # With what depends on it.
    modules, names = affected.selection(["Sources/Dialects/ResumableHTTP/Draft.swift"], known)
    assert "PlainUploadsTests" in modules and {"media", "forms", "resumable_http"} <= set(names)
    # Other dialects' tests upload by it.
    _, names = affected.selection(["Sources/Dialects/Tus/TusHandler.swift"], known)
    assert {"cluster", "kill", "s3_storage"} <= set(names)
    modules, names = affected.selection(["acceptance/test_soak.py", "Tests/TransportTests/ChannelTests.swift"], known)
    assert modules == ["TransportTests"] and "soak" in names
    dialects = {name for name, (folder, _, _) in known.items() if folder.startswith("Sources/Dialects/")}
    assert set(affected.DIALECT_OF_OTHERS) <= dialects
    assert {*affected.EACH_DIALECT.split(), *" ".join(affected.DIALECT_OF_OTHERS.values()).split()} <= files


SELECTION = """
set -euo pipefail
root=$PWD
. scripts/selection.sh
[ "${1:-}" != remember ] || { remember_pass; exit; }
select_tests
echo "since <$since> modules <$gate_modules> files <${gate_files[*]}>"
"""


def test_the_gate_leaves_out_only_what_has_passed_in_this_work_tree(tmp_path):
    def git(*arguments):
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def run(*arguments):
        command = ["bash", "-c", SELECTION, "selection", *arguments]
        environment = os.environ | {"SWIFT": "swift"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/selection.sh", tmp_path / "scripts")
    affected = tmp_path / "scripts/affected"
    affected.write_text('#!/bin/sh\n[ "$1 $2" = "--gate $(git rev-parse HEAD~1)" ] && cat answer\n')
    affected.chmod(0o755)
    git("init", "-q")
    for number in range(2):
        (tmp_path / "product.txt").write_text(f"{number}\n")
        git("add", "--all")
        git("commit", "-qm", "a commit")
    stamp, passed = tmp_path / ".git/sluice-toolchain", tmp_path / ".git/sluice-passed"
    everything = "since <> modules <> files <>"
    (tmp_path / "answer").write_text("swift:TusTests GatewayTests\nacceptance:test_tus.py test_rest.py\n")
    # A checkout remembers nothing.
    run("remember")
    assert not passed.exists() and run() == everything

    stamp.write_text("a compiler\n")
    assert run() == everything
    git("checkout", "-q", "HEAD~1")
    run("remember")
    git("checkout", "-q", "-")
    first = git("rev-parse", "HEAD~1").strip()
    files = " ".join(f"{tmp_path}/acceptance/{name}" for name in ("test_tus.py", "test_rest.py"))
    selected = f"since <{first}> modules <TusTests GatewayTests> files <{files}>"
    assert run() == selected

    (tmp_path / "answer").write_text("all:Package.swift\n")
    assert run() == f"everything runs: Package.swift differs from {first[:12]}\n{everything}"
    affected.write_text("#!/bin/sh\nexit 1\n")
    assert run() == everything
    affected.write_text("#!/bin/sh\ncat answer\n")
    (tmp_path / "answer").write_text("swift:\nacceptance:test_docs.py\n")
    assert run() == f"since <{first}> modules <> files <{tmp_path}/acceptance/test_docs.py>"
    # Another machine, a pass of long ago, a commit that is no longer known.
    stamp.write_text("another compiler\n")
    assert run() == everything
    stamp.write_text("a compiler\n")
    os.utime(passed, (passed.stat().st_atime, passed.stat().st_mtime - 8 * 86_400))
    assert run() == everything
    passed.write_text(passed.read_text().replace(first, "1" * 40))
    assert run() == everything


def test_documents_are_checked(tmp_path, monkeypatch):
    checks = load("check-documents")
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A `first` heading\n[a](page.md#a-first-heading) [b](#no-heading) [c](missing.md)\n```\n[d](e.md)\n```\n"
    )
    assert list(checks.broken_links(page)) == [
        "page.md: #no-heading: there is no such heading",
        "page.md: missing.md leads to nothing",
    ]
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    assert len(list(checks.broken_yaml(tmp_path / "bad.yaml"))) == 1
    tests = tmp_path / "Some.swift"
    tests.write_text('@Suite("x")\nstruct One {\n    @Test func a() {}\n}\n')
    assert len(list(checks.unlimited_suites(tests))) == 1
    tests.write_text('@Suite("x", .timeLimit(.minutes(10)))\nstruct One {\n    @Test func a() {}\n}\n')
    assert not list(checks.unlimited_suites(tests))


def test_tests_without_an_expectation_are_listed(tmp_path):
    checks = load("check-tests")
    folder = tmp_path / "Tests/OneTests"
    folder.mkdir(parents=True)
    (folder / "One.swift").write_text(
        """@Suite struct One {
    @Test("says #expect in its name")
    func idle() { run() }

    @Test(arguments: [1, 2])
    func direct(_ one: Int) { #expect(one > 0) }

    @Test func indirect() { check { run() } }

    @Test func waits() async {
        // Ends: it is over.
        await over()
    }

    @Test func commented() {
        // #expect(true)
        check2("#expect(true)")
    }

    private func check(_ body: () -> Void) { helper() }
    private func helper() { Issue.record("x") }
    private func run() {}
}
"""
    )
    (tmp_path / "acceptance").mkdir()
    (tmp_path / "acceptance/test_one.py").write_text(
        "def helper():\n    assert True\n\n\ndef test_a():\n    helper()\n\n\ndef test_b():\n    print(1)\n"
    )
    found = [name for _, _, name in checks.swift(tmp_path) + checks.python(tmp_path)]
    assert found == ["idle", "commented", "test_b"]


def test_statements_that_can_be_deleted_are_found(tmp_path):
    mutate = load("mutate")
    path = tmp_path / "One.swift"
    path.write_text(
        """struct One {
    var count = 0
    mutating func add(_ one: Int) -> Int {
        guard one > 0 else { return 0 }
        count += one
        try? await log("a (")
        let two = f(one)
        call(
            one
        )
        let three = \"""
            count = one
            \"""
        return two
    }
}
"""
    )
    assert list(mutate.statements(path)) == [3, 4, 5]


def test_statements_are_put_behind_a_condition():
    mutate = load("mutate")
    for line, expected in {
        "    try? await log(one)": "    if !mutantGone(7) { try? await log(one) }",
        "  guard a > b else { return }": "  if !mutantGone(7) { guard a > b else { return } }",
        '  guard a(1, 2), b == "," else {': '  guard mutantGone(7) || (a(1, 2)), mutantGone(7) || (b == ",") else {',
        "  if let one, one > 1 {": "  if !mutantGone(7), let one, one > 1 {",
        # Not at once.
        "  defer { close(one) }": "  defer { if !mutantGone(7) { close(one) } }",
    }.items():
        assert mutate.conditional(line, 7) == expected


THING = {
    "Package.swift": """// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "thing",
    targets: [.target(name: "Thing"), .testTarget(name: "ThingTests", dependencies: ["Thing"])]
)
""",
    "Sources/Thing/Thing.swift": """public struct Thing {
    public var count = 0
    public let most: Int
    public var log = ""

    public init(most: Int) {
        self.most = most
        log = "begun"
    }

    public mutating func add(_ one: Int) -> Bool {
        guard count + one <= most else {
            return false
        }
        defer { log += " end" }
        count += one
        log += " add"
        while log.count < 5 {
            log += "....."
        }
        return true
    }
}
""",
    "Tests/ThingTests/ThingTests.swift": """import Testing

@testable import Thing

@Test func adds() {
    var thing = Thing(most: 2)
    let (added, more) = (thing.add(2), thing.add(1))
    #expect(added && !more && thing.count == 2 && thing.log.hasSuffix(" end"))
}
""",
}


@pytest.fixture
def thing(tmp_path):
    for name, text in THING.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/mutate", tmp_path / "scripts")
    return tmp_path


def is_as_before(thing):
    return [path.name for path in (thing / "Sources").rglob("*.swift")] == ["Thing.swift"] and (
        thing / "Sources/Thing/Thing.swift"
    ).read_text() == THING["Sources/Thing/Thing.swift"]


@pytest.mark.nightly
def test_deletions_that_no_test_notices_are_named(thing):
    done = subprocess.run(
        [sys.executable, thing / "scripts/mutate", "Sources/Thing", "--seed", "1"],
        cwd=thing,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr + (thing / ".build/mutants.log").read_text()
    lines = done.stdout.splitlines()
    assert lines[0] == "7 statements, seed 1"
    # `most` must be set; the log of the first line and that of each addition are not looked at.
    place = "no test notices that this is gone: Sources/Thing/Thing.swift"
    assert lines[-4:] == [
        "Thing: 7 statements, 6 compile, 6 tried, 3 noticed, 3 survive",
        f'{place}:17: log += " add"',
        f'{place}:19: log += "....."',
        f'{place}:8: log = "begun"',
    ]
    assert is_as_before(thing)


def test_sources_are_put_back_when_the_run_is_ended(thing):
    swift = thing / "swift"
    swift.write_text("#!/bin/sh\ncp Sources/Thing/Thing.swift seen\necho building\nexec sleep 600\n")
    swift.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, thing / "scripts/mutate", "Sources/Thing/Thing.swift:16"],
        env=os.environ | {"SWIFT": str(swift)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().startswith("1 statements")
    while not (thing / "seen").exists() or "mutantGone(0)" not in (thing / "seen").read_text():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    assert is_as_before(thing)


def test_deletions_that_do_not_compile_are_taken_back(thing):
    mutate = load("mutate")
    mutate.ROOT = thing
    path = thing / "Sources/Thing/Thing.swift"
    mutants = list(mutate.find("Sources/Thing"))
    assert [one.line + 1 for one in mutants] == [7, 8, 12, 15, 16, 17, 19]
    build = mutate.Build(mutants, thing / "log")

    def gone(line, note=""):
        assert build.drop(f"{path}:{line}:1: error: so\n{note}\n")
        return [one.line + 1 for one in mutants if not one.compiles]

    # In its own line; at the end of the initializer, whose assignments are suspected, first to what the error names; in
    # a line with nothing around it.
    assert gone(16) == [16]
    assert gone(9, note="'self.most' not initialized") == [7, 16]
    assert gone(9) == [7, 8, 16]
    assert gone(3) == [7, 8, 12, 15, 16, 17, 19]
    assert not build.drop(f"{path}:3:1: error: so\n")
    assert not build.drop("error: no such module\n")


def test_a_deletion_that_hangs_or_crashes_is_noticed(tmp_path):
    mutate = load("mutate")
    mutate.ROOT = tmp_path
    program = tmp_path / "thingPackageTests.xctest"
    program.write_text(
        "#!/bin/sh\ncase $SLUICE_MUTANT in\n1) exec sleep 600 ;;\n2) kill -9 $$ ;;\n"
        "3) echo '✘ Test adds() recorded an issue'; exec sleep 600 ;;\nesac\n"
    )
    program.chmod(0o755)
    tests = mutate.Tests(tmp_path, tmp_path / "log", {})
    tests.measure(("A",))
    assert 30 < tests.limits[("A",)]
    mutants = [mutate.Mutant(tmp_path, 0, "", "A", number) for number in range(4)]
    results = [tests.run(("A",), one) for one in mutants if one.number != 1]
    assert results == [None, "status -9", "✘ Test adds() recorded an issue"]
    tests.limits[("A",)] = 0.1
    assert tests.run(("A",), mutants[1]).startswith("no end after")


def test_without_a_copy_of_s3_tests_they_are_skipped(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "SLUICE_S3_TESTS"}
    command = [ROOT / "scripts/s3-tests"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("skipped: ") and "github.com/ceph/s3-tests" in done.stdout
    wrong = subprocess.run([*command, tmp_path], env=environment, capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 1 and "is not a copy of" in wrong.stderr


def test_cases_of_s3_tests_are_compared_with_the_list(tmp_path, capsys):
    path = tmp_path / "list.md"
    path.write_text(
        "# List\n\n## Not offered: this\n\n| cases | reason |\n|---|---|\n| `test_a_*` `test_b[x-*` | because |\n"
        "\n## That\n\n| cases | reason |\n|---|---|\n| `test_gone` | so |\n"
    )
    listed = s3_tests.expected_failures(path)
    assert listed == [
        ("test_a_*", "Not offered: this: because"),
        ("test_b[x-*", "Not offered: this: because"),
        ("test_gone", "That: so"),
    ]
    good = {"test_a_1": ("failed", ""), "test_b[x-1]": ("skipped", ""), "test_c": ("passed", "")}
    assert s3_tests.judge(good, listed, is_whole=True)
    assert "no such case, although docs/s3-tests.md has it: test_gone" in capsys.readouterr().out
    assert s3_tests.judge(good | {"test_a_2": ("passed", "")}, listed, is_whole=False)
    assert "passes, although docs/s3-tests.md has it: test_a_2" in capsys.readouterr().out
    for kind in ("failed", "skipped"):
        assert not s3_tests.judge(good | {"test_d": (kind, "why")}, listed, is_whole=False)
        assert f"{kind}: test_d: why" in capsys.readouterr().out
    # Each case of the list in the documents is there for one reason.
    patterns = [pattern for pattern, _ in s3_tests.expected_failures(s3_tests.LIST)]
    assert patterns and len(set(patterns)) == len(patterns)
