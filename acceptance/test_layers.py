"""Dependencies point downwards: what Package.swift declares, and what sources import, against the layers of
docs/architecture.md."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From the top to the bottom: a target imports only what stands in a row below its own.
LAYERS = [
    ["sluice"],
    ["Gateway"],
    # With the video services, which need no name here: they stand on VODKit.
    ["Administration", "Migration", "Identity", "Companion"],
    ["VODKit"],
    ["ObjectGateway"],
    [
        "ACME",
        "PlainUploads",
        "Callbacks",
        "LiveEvents",
        "ManagementAPI",
        "Operations",
        "Pulls",
        "Stores",
        "Webhooks",
    ],
    ["Tus", "ResumableHTTP", "Forms", "ObjectStore", "TokenServices", "Presigning"],
    ["GatewayKit"],
    ["Telemetry"],
    ["RESTKit", "SettingsKit"],
    ["UploadCore", "DiskStorage", "S3Storage", "SQLiteState", "PostgresState", "Clouds"],
    ["CloudCredentials", "StateRecords", "ObjectGrants", "CloudCalls"],
    ["UploadModel"],
    ["HTTPServer", "HTTPClient", "Signing"],
    ["HTTPWire", "Transport", "Digests", "XMLText"],
    ["Bytes", "MetricsKit", "Tracing", "BuildVersion"],
    ["SystemIO"],
    ["CSystem", "COpenSSL", "CCurl", "CPostgres", "COpenAPI", "CVersion", "CDescriptors"],
    ["CLibraries"],
]
RANK = {target: number for number, row in enumerate(LAYERS) for target in row}
# Dialects translate: neither adapters nor sockets.
DIALECTS = {folder.name for folder in (ROOT / "Sources" / "Dialects").iterdir()}
SERVICES = {
    name
    for name in DIALECTS
    if any("import VODKit" in file.read_text() for file in (ROOT / "Sources/Dialects" / name).rglob("*.swift"))
}
# Neither a video service nor a dialect that stands on no other needs a line above.
for dialect in sorted(DIALECTS):
    RANK.setdefault(dialect, RANK["Companion" if dialect in SERVICES else "Tus"])
OUT_OF_REACH = {"DiskStorage", "S3Storage", "SQLiteState", "PostgresState", "Clouds", "CloudCredentials"}
OUT_OF_REACH |= {"HTTPServer", "HTTPClient", "Transport"}
# For tests only.
OF_TESTS = {"SluiceTesting", "CThreadSanitizer"}
IMPORT = re.compile(r"^(?:@\w+(?:\([^)]*\))? )?(?:\w+ )?import (?:(?:struct|func|class|enum|let|var) )?(\w+)", re.M)


# Calls on files, which only `BlockingIO` and `LinuxCalls` make; see docs/decisions/0038-system-calls.md.
FILE_CALL = re.compile(
    r"(?<![.\w])(?:Glibc\.)?(?:pread|pwrite|ftruncate|fdatasync|fstat|unlink|rmdir|rename)\(|"
    r"\bcsys_(?:splice|sendfile|copy_range|open|preallocate|write_out|start_writeback|set_attribute|get_attribute|lock)"
)


def files_of_a_new_service():
    """What CONTRIBUTING.md says a new video service changes outside its own folders."""
    section = re.search(r"^## A new video service\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    return re.findall(r"^\| `([^`]+)` \|", section[1], re.M)


@pytest.fixture(scope="module")
def targets():
    """Declared dependencies and folder of each target but those of tests."""
    # Beside a build, whose lock it need not wait for.
    command = [os.environ.get("SWIFT", "swift"), "package", "--package-path", str(ROOT), "--ignore-lock"]
    package = json.loads(subprocess.run([*command, "dump-package"], capture_output=True, check=True).stdout)
    return {
        target["name"]: (
            {dependency["byName"][0] for dependency in target["dependencies"] if "byName" in dependency},
            ROOT / (target.get("path") or f"Sources/{target['name']}"),
        )
        for target in package["targets"]
        if target["type"] != "test" and target["name"] not in OF_TESTS
    }


def test_all_targets_have_a_layer(targets):
    assert targets.keys() == RANK.keys()


@pytest.mark.parametrize("name", RANK)
def test_imports_point_downwards(targets, name):
    declared, folder = targets[name]
    imported = {module for path in folder.rglob("*.swift") for module in IMPORT.findall(path.read_text())}
    for other in (declared | imported) & RANK.keys() - {name}:
        assert RANK[other] > RANK[name], f"{name} imports {other}, which does not stand below it"
        assert name not in DIALECTS or other not in OUT_OF_REACH, f"the dialect {name} imports {other}"


def test_file_calls_are_behind_the_seam():
    for path in (ROOT / "Sources").rglob("*.swift"):
        target = path.relative_to(ROOT / "Sources").parts[0]
        # `Stores` writes its secrets at the start and in commands.
        if target in {"SystemIO", "Stores"} | OF_TESTS:
            continue
        code = re.sub(r"//.*", "", path.read_text())
        assert not FILE_CALL.search(code), f"{path} calls the kernel itself: {FILE_CALL.search(code)[0]}"


def test_values_of_tasks_keep_the_isolation():
    """`TaskLocal.with` keeps it; after `withValue` of the library each call of a request is a job of its own."""
    allowed = {Path("Sources/UploadModel/Ports/TaskLocal+Typed.swift")}
    files = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "Sources").rglob("*.swift")}
    assert {name for name, text in files.items() if ".with(" in text and re.search(r"\$\w+\.with\(", text)}
    found = {name for name, text in files.items() if re.search(r"\$\w+\.withValue\(|\bwithValue\(", text)}
    assert found == allowed


def test_a_new_video_service_changes_few_files_outside_its_folders():
    files = files_of_a_new_service()
    assert 0 < len(files) <= 6
    assert all((ROOT / file).is_file() for file in files)
    assert len(SERVICES) >= 3


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_video_service_is_named_only_in_these_files(service):
    in_sources = re.compile(rf"import {service}\b|\b{service}(?:Module|Settings)\b")
    named = {
        path.relative_to(ROOT)
        for path in (ROOT / "Sources").rglob("*.swift")
        if in_sources.search(re.sub(r"//.*", "", path.read_text()))
    }
    files = [ROOT / "Package.swift", Path(__file__), *(ROOT / "scripts").iterdir()]
    named |= {path.relative_to(ROOT) for path in files if path.is_file() and f'"{service}"' in path.read_text()}
    # A command that signs as an app's server does is no part of the gateway.
    outside = {str(path) for path in named if service not in path.parts and path.parts[:2] != ("Sources", "sluice")}
    assert outside <= set(files_of_a_new_service())
    assert {"Package.swift", "Sources/Gateway/GatewayModules.swift", "scripts/affected"} <= outside


def test_the_table_of_modules_is_complete():
    module = re.compile(r"struct (\w+): GatewayModule\b")
    made = {name for path in (ROOT / "Sources").rglob("*.swift") for name in module.findall(path.read_text())}
    section = re.search(r"^## Modules\n(.*?)^### ", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)
    assert set(re.findall(r"^\| `(\w+)` \|", section[1], re.M)) == made
