"""JSON that is large in another way than by its bytes: answers stay small, and so does memory."""

import json
import re

import pytest

from harness.api import API
from harness.data import KIB, MIB

# JSON limits

PATHS = ["/v1/tus/tokens", "/v1/tencent/signatures", "/v1/sts/tokens", "/v1/presigned-urls"]


def many(count, make_name=str):
    return "{" + ",".join(f"{json.dumps(make_name(number))}:1" for number in range(count)) + "}"


def refusal(api, path, text, status, code):
    answer = api.request("POST", path, data=text.encode(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text[:500]
    assert len(answer.content) < 16 * KIB
    return answer.json()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "text",
    [
        many(100_000),
        "{" + '"a":1,' * 100_000 + '"a":1}',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":[' + "1," * 100_000 + "1]}",
        '{"a":[' + '{"b":1},' * 100_000 + "1]}",
    ],
    ids=["members", "one-name", "depth", "elements", "objects"],
)
def test_documents_beyond_the_limits_are_refused(api, path, text):
    assert len(text) < MIB
    assert "may have at most" in refusal(api, path, text, 400, "invalid_json")["detail"]


@pytest.mark.parametrize("path", PATHS)
def test_the_first_of_many_unknown_members_are_listed(api, path):
    problem = refusal(api, path, many(1000, "{:04}".format), 422, "invalid_field")
    listed = [error["field"] for error in problem["errors"]]
    # What is required and is not there comes first.
    assert len(listed) == 10 and {f"{number:04}" for number in range(5)} < set(listed)
    assert re.search(r"; and 99\d more$", problem["detail"])


@pytest.mark.parametrize("path", PATHS)
def test_long_names_are_not_repeated(api, path):
    problem = refusal(api, path, many(900, lambda number: f"{number:03}" + "x" * 1000), 422, "invalid_field")
    assert max(len(error["field"]) for error in problem["errors"]) == 65
    repeated = "{" + ",".join(['"' + "y" * 100_000 + '":1'] * 8) + "}"
    assert max(len(error["field"]) for error in refusal(api, path, repeated, 422, "invalid_field")["errors"]) == 65


def test_memory_does_not_grow(make_server):
    with make_server() as server:
        api = API(server.url, server.admin_key)
        for path in PATHS:
            refusal(api, path, many(10), 422, "invalid_field")
        before = server.peak_memory()
        for path in PATHS:
            refusal(api, path, many(100_000), 400, "invalid_json")
            refusal(api, path, many(900, lambda number: f"{number:03}" + "x" * 1000), 422, "invalid_field")
        assert server.peak_memory() < before + 24 * MIB
