"""The description is valid, is what the server serves, and the server keeps to it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.server import ROOT

DOCUMENT = ROOT / "openapi.yaml"
SEED = 42


@pytest.fixture(scope="module")
def document():
    return yaml.safe_load(DOCUMENT.read_text())


def test_the_document_is_valid(document):
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_served_document_is_the_file(api):
    answer = api.get("/openapi.yaml", key=None)
    assert answer.status_code == 200
    assert "yaml" in answer.headers["Content-Type"]
    assert answer.content == DOCUMENT.read_bytes()


def test_every_example_keeps_to_its_schema(document):
    from openapi_schema_validator import OAS31Validator
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    registry = Registry().with_resource("urn:openapi", Resource.from_contents(document, DRAFT202012))

    def errors(schema, value):
        absolute = yaml.safe_load(yaml.safe_dump(schema).replace("'#/components", "'urn:openapi#/components"))
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
                answer = api.request(method.upper(), path.replace("{id}", "0" * 26).replace("{upload}", "x"))
                assert answer.status_code != 405 or "Override" in str(item[method]), (
                    f"{method} {path}: {answer.status_code}"
                )
                assert answer.status_code < 500, f"{method} {path}: {answer.status_code}"


def test_schemathesis_finds_no_server_error(server, api, tmp_path, quick, report):
    command = shutil.which("st", path=str(Path(sys.executable).parent)) or "st"
    api.uploaded(b"something to find", metadata={"filename": "a.txt", "filetype": "text/plain"})
    examples = 10 if quick else 40
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    done = subprocess.run(
        [
            command,
            "run",
            str(DOCUMENT),
            "--url",
            server.url,
            "-H",
            f"Authorization: Bearer {server.admin_key}",
            "--checks",
            checks,
            "--max-examples",
            str(examples),
            "--seed",
            str(SEED),
            "--max-time",
            "120",
            "--phases",
            "examples,coverage,fuzzing",
            "--request-timeout",
            "20",
            "--workers",
            "2",
        ],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=tmp_path,
    )
    print(done.stdout[-8000:])
    lines = [line for line in done.stdout.splitlines() if "generated" in line or "Test cases" in line]
    report(f"schemathesis, seed {SEED}: {' '.join(lines).strip() or 'no summary'}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert api.get("/readyz", key=None).status_code == 200
