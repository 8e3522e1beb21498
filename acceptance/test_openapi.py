"""The document is valid, the server serves it, and the server conforms to it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.api import API, upload_id
from harness.openapi import PATH, parse
from harness.server import Server, run

HOOKS = Path(__file__).parent / "harness"
SEED = 42


# Pulls are taken, from this machine only: see schemathesis_hooks.
PULLS = {"SLUICE_PULL_ALLOW": "127.0.0.1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server") / "data", environment=PULLS) as running:
        yield running


@pytest.fixture(scope="module")
def document():
    return parse(PATH.read_text())


def test_the_document_is_valid(document):
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_served_document_is_the_file(api):
    answer = api.get("/openapi.yaml", key=None)
    assert answer.status_code == 200
    assert "yaml" in answer.headers["Content-Type"]
    # With the version of the program.
    version = run("--version").stdout.strip()
    assert answer.text == re.sub(r"(?m)^  version: .*$", f"  version: {version}", PATH.read_text(), count=1)


def test_every_example_matches_its_schema(document):
    from openapi_schema_validator import OAS31Validator
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    registry = Registry().with_resource("urn:openapi", Resource.from_contents(document, DRAFT202012))

    def errors(schema, value):
        absolute = json.loads(json.dumps(schema).replace('"#/components', '"urn:openapi#/components'))
        return [error.message for error in OAS31Validator(absolute, registry=registry).iter_errors(value)]

    checked = 0

    def walk(node, place):
        nonlocal checked
        if isinstance(node, dict):
            if "schema" in node and isinstance(node["schema"], dict):
                values = [node["example"]] if "example" in node else []
                values += [example["value"] for example in node.get("examples", {}).values()]
                for value in values:
                    assert errors(node["schema"], value) == [], f"{place}: {value}"
                    checked += 1
            for key, value in node.items():
                walk(value, f"{place}/{key}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                walk(value, f"{place}/{index}")

    walk(document, "")
    for name, schema in document["components"]["schemas"].items():
        for value in schema.get("examples", []) + ([schema["example"]] if "example" in schema else []):
            assert errors(schema, value) == [], f"{name}: {value}"
            checked += 1
    assert checked >= 10


def test_every_operation_is_routed(api, document):
    """No documented operation is answered as if it were unknown."""
    for path, item in document["paths"].items():
        for method in item:
            if method in ("get", "put", "post", "delete", "options", "head", "patch"):
                place = path.replace("{id}", "0" * 26).replace("{upload}", "x")
                # The head is enough: event streams have no end.
                answer = api.request(method.upper(), place, stream=True)
                answer.close()
                assert answer.status_code != 405 or "Override" in str(item[method]), (
                    f"{method} {path}: {answer.status_code}"
                )
                assert answer.status_code < 500, f"{method} {path}: {answer.status_code}"


CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.parametrize("ids", [pytest.param("random", marks=pytest.mark.nightly), "existing"])
def test_schemathesis_finds_no_server_error(tmp_path, quick, report, ids):
    """With ids that schemathesis makes up, and with ids that are there (until it deletes them)."""
    # It also sets quotas, of its own key too, so nothing else uses this server.
    with Server(tmp_path / "data", environment=PULLS) as server:
        check_by_schemathesis(server, tmp_path, quick, report, ids)


def check_by_schemathesis(server, tmp_path, quick, report, ids):
    api = API(server.url, server.admin_key)
    command = shutil.which("st", path=str(Path(sys.executable).parent)) or "st"
    if ids == "existing":
        urls = [api.created(5, metadata={"filename": "a.txt", "filetype": "text/plain"}) for _ in range(4)]
        for url in urls[:2]:
            assert api.patch(url, 0, b"12345").status_code == 204
        tokens = [url.rsplit("/", 1)[1] for url in urls]
        parameters = {"path.id": [upload_id(url) for url in urls], "path.upload": tokens}
        (tmp_path / "schemathesis.toml").write_text(f"[parameters]\n{toml(parameters)}")
    examples = 3 if quick else 25
    done = subprocess.run(
        [
            *(command, "run", str(PATH), "--url", server.url, "-H", f"Authorization: Bearer {server.admin_key}"),
            *("--checks", CHECKS, "--max-examples", str(examples), "--seed", str(SEED)),
            # More than one worker meets a fault of CPython: `ast.parse` in two threads (python/cpython issue 106905).
            *("--workers", "1"),
            # Event streams have no end; test_events.py follows them.
            *("--exclude-path-regex", "/events$"),
            *("--phases", "examples,coverage,fuzzing", "--request-timeout", "20"),
        ],
        env=os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HOOKS)},
        capture_output=True,
        text=True,
        # It sends thousands of requests, one after the other: this only ends one that hangs.
        timeout=1800,
        cwd=tmp_path,
    )
    print(done.stdout[-8000:])
    cases = re.search(r"(\d+) generated.*", done.stdout)
    report(f"schemathesis, {ids} ids, seed {SEED}: {cases[0] if cases else 'no summary'}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert api.get("/readyz", key=None).status_code == 200


def toml(values):
    return "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in values.items())
