"""Tencent VOD client upload signatures: checked by code that shares nothing with the server."""

import base64
import hashlib
import hmac
import json
import random
import re
import subprocess
import time
from urllib.parse import parse_qsl

import pytest

from harness.api import API, field_problem, problem
from harness.server import Server, run

PATH = "/v1/tencent/signatures"
# The vendor's published example pair.
SECRET_ID = "AKIDUfLUEUigQiXqm7CVSspKJnuaiIKtxqAv"
SECRET_KEY = "bLcPnl88WU30VY57ipRhSePfPdOfSruK"
BASE = {"currentTimeStamp": 1571215095, "expireTime": 1571301495, "random": 220625}
V1 = (
    "HAmUKIMfqwOjXnUMWaWmuUtg0pdzZWNyZXRJZD1BS0lEVWZMVUVVaWdRaVhxbTdDVlNzcEtKbnVhaUlLdHhxQXYmY3VycmVudFRpbWVTdGFtcD0xNTcxMjE1"
    "MDk1JmV4cGlyZVRpbWU9MTU3MTMwMTQ5NSZyYW5kb209MjIwNjI1"
)
V2_PARAMETERS = BASE | {
    "classId": 0,
    "procedure": "LongVideoPreset",
    "taskPriority": 0,
    "taskNotifyMode": "Finish",
    "sourceContext": '{"type":"1"}',
    "oneTimeValid": 1,
    "vodSubAppId": 1500012345,
    "sessionContext": "user-42&x=中",
    "storageRegion": "ap-chongqing",
}
MOST_SECONDS = 7_776_000


def verify(signature, secret_key, secret_id=None):
    """Checks a signature and returns its parameters in order (protocol, section 1.5)."""
    raw = base64.b64decode(signature, validate=True)
    mac, original = raw[:20], raw[20:]
    assert hmac.compare_digest(mac, hmac.new(secret_key.encode(), original, hashlib.sha1).digest()), "wrong MAC"
    pairs = parse_qsl(original.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    parameters = dict(pairs)
    assert len(parameters) == len(pairs), "a parameter is repeated"
    for name in ("currentTimeStamp", "expireTime", "random"):
        assert re.fullmatch("[0-9]+", parameters[name]), parameters
    assert 0 < int(parameters["expireTime"]) - int(parameters["currentTimeStamp"]) <= MOST_SECONDS
    assert int(parameters["random"]) <= 4_294_967_295
    if secret_id:
        assert parameters["secretId"] == secret_id
    return parameters


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    environment = {
        "SLUICE_TENCENT_MODE": "direct",
        "SLUICE_TENCENT_SECRET_ID": SECRET_ID,
        "SLUICE_TENCENT_SECRET_KEY": SECRET_KEY,
    }
    with Server(tmp_path_factory.mktemp("direct") / "data", environment=environment) as server:
        yield server


@pytest.fixture(scope="module")
def direct_api(direct):
    return API(direct.url, direct.admin_key)


def credentials(server):
    return json.loads(run("credentials", "tencent", environment=server.environment).stdout)


# First start


def test_the_printed_curl_line_returns_a_signature_that_verifies(make_server):
    server = make_server(admin_key=None).start()
    server.wait_for_output(r"API key: slk_\S+")
    server.wait_for_output("/v1/tencent/signatures")
    # The line may be broken with backslashes.
    text = server.output().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if "/v1/tencent/signatures" in line)
    command = line[line.index("curl ") :]
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    answer = done.stdout.strip()
    signature = json.loads(answer)["signature"] if answer.startswith("{") else answer
    pair = credentials(server)
    assert pair["mode"] == "relay"
    verify(signature, pair["secretKey"], pair["secretId"])


def test_the_key_is_printed_once(make_server):
    server = make_server(admin_key=None).start()
    key = server.wait_for_output(r"API key: (slk_\S+)")[1]
    server.stop()
    server.start()
    time.sleep(0.3)
    assert "slk_" not in server.output()
    assert API(server.url, key).post(PATH, {}).status_code == 201


# Relay mode


def test_a_signature_of_relay_mode_verifies(server, api):
    pair = credentials(server)
    before = int(time.time())
    answer = api.post(PATH, {"expiresIn": 600})
    assert answer.status_code == 201
    document = answer.json()
    assert document.keys() == {"signature", "secretId", "currentTimeStamp", "expireTime", "random"}
    parameters = verify(document["signature"], pair["secretKey"], pair["secretId"])
    for name in ("secretId", "currentTimeStamp", "expireTime", "random"):
        assert parameters[name] == str(document[name])
    assert before <= document["currentTimeStamp"] <= time.time() + 1
    assert document["expireTime"] - document["currentTimeStamp"] == 600
    assert list(parameters)[:4] == ["secretId", "currentTimeStamp", "expireTime", "random"]
    assert "no-store" in answer.headers["Cache-Control"]


def test_an_empty_body_means_all_defaults(server, api):
    pair = credentials(server)
    for answer in (api.post(PATH), api.post(PATH, {}), api.request("POST", PATH, data=b"")):
        assert answer.status_code == 201, answer.text
        verify(answer.json()["signature"], pair["secretKey"])


def test_random_differs(api):
    assert len({api.post(PATH, {}).json()["random"] for _ in range(20)}) == 20


def test_the_pair_of_relay_mode_survives_a_restart(make_server):
    server = make_server().start()
    pair = credentials(server)
    server.stop()
    server.start()
    assert credentials(server) == pair
    verify(API(server.url, server.admin_key).post(PATH, {}).json()["signature"], pair["secretKey"], pair["secretId"])


# Text


@pytest.mark.parametrize("accept", ["text/plain", "text/plain;q=1, application/json;q=0.5", "text/*"])
def test_text_is_the_bare_signature(server, api, accept):
    answer = api.post(PATH, {}, headers={"Accept": accept})
    assert answer.status_code == 201
    assert answer.headers["Content-Type"].split(";")[0] == "text/plain"
    verify(answer.text.strip(), credentials(server)["secretKey"])
    assert len(answer.text.split()) == 1


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/*", "text/plain;q=0.1, */*"])
def test_json_otherwise(api, accept):
    assert api.post(PATH, {}, headers={"Accept": accept}).headers["Content-Type"].split(";")[0] == "application/json"


def test_nothing_else_is_acceptable(api):
    problem(api.post(PATH, {}, headers={"Accept": "image/png"}), 406, "not_acceptable")


# Vectors


def test_vector_1_by_http(direct_api):
    document = direct_api.post(PATH, BASE).json()
    assert document == BASE | {"secretId": SECRET_ID, "signature": V1}


def test_vector_2_by_http(direct_api):
    # All options: the values are what counts, since order and encoding are free.
    signature = direct_api.post(PATH, V2_PARAMETERS).json()["signature"]
    parameters = verify(signature, SECRET_KEY, SECRET_ID)
    assert parameters == {key: str(value) for key, value in (V2_PARAMETERS | {"secretId": SECRET_ID}).items()}


def test_vectors_3_and_4_a_space_survives(direct_api):
    parameters = BASE | {"random": 1, "sourceContext": "a b"}
    signature = direct_api.post(PATH, parameters).json()["signature"]
    assert verify(signature, SECRET_KEY)["sourceContext"] == "a b"
    original = base64.b64decode(signature)[20:].decode()
    assert original.endswith(("sourceContext=a+b", "sourceContext=a%20b"))


@pytest.mark.parametrize("value", ["", "a+b", "a%20b", "ä&=?/#", "日本", "😀", '"\\\n\t'])
def test_any_text_survives(direct_api, value):
    answer = direct_api.post(PATH, {"sessionContext": value, "sourceContext": value})
    parameters = verify(answer.json()["signature"], SECRET_KEY)
    assert parameters.get("sessionContext", "") == value
    assert parameters.get("sourceContext", "") == value


def kebab(name):
    return "--" + re.sub("([A-Z])", lambda found: "-" + found[1].lower(), name)


def flags(parameters):
    return [kebab(name) if name == "oneTimeValid" else f"{kebab(name)}={value}" for name, value in parameters.items()]


def test_vectors_by_command(tmp_path):
    environment = {
        "SLUICE_TENCENT_MODE": "direct",
        "SLUICE_TENCENT_SECRET_ID": SECRET_ID,
        "SLUICE_TENCENT_SECRET_KEY": SECRET_KEY,
    }

    def sign(parameters):
        done = run("sign", "tencent", *flags(parameters), data=tmp_path / "data", environment=environment)
        return done.stdout.strip()

    assert sign(BASE) == V1
    parameters = verify(sign(V2_PARAMETERS), SECRET_KEY, SECRET_ID)
    assert parameters == {key: str(value) for key, value in (V2_PARAMETERS | {"secretId": SECRET_ID}).items()}
    signature = sign({"expiresIn": 60})
    parameters = verify(signature, SECRET_KEY, SECRET_ID)
    assert int(parameters["expireTime"]) - int(parameters["currentTimeStamp"]) == 60


def test_the_command_and_the_server_share_the_pair_of_relay_mode(server):
    signature = run("sign", "tencent", "--expires-in", 60, environment=server.environment).stdout.strip()
    pair = credentials(server)
    verify(signature, pair["secretKey"], pair["secretId"])


def test_the_command_refuses_what_the_server_refuses(server):
    done = run("sign", "tencent", f"--expires-in={MOST_SECONDS + 1}", environment=server.environment, check=False)
    assert done.returncode != 0
    assert str(MOST_SECONDS) in done.stderr + done.stdout


# Direct mode


def test_direct_mode_signs_with_the_configured_pair(direct, direct_api):
    assert credentials(direct) == {"mode": "direct", "secretId": SECRET_ID, "secretKey": SECRET_KEY}
    verify(direct_api.post(PATH, {"expiresIn": 60}).json()["signature"], SECRET_KEY, SECRET_ID)


def test_the_secret_may_come_from_a_file(make_server, tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET_KEY + "\n")
    environment = {
        "SLUICE_TENCENT_MODE": "direct",
        "SLUICE_TENCENT_SECRET_ID": SECRET_ID,
        "SLUICE_TENCENT_SECRET_KEY_FILE": str(file),
    }
    with make_server(environment=environment) as server:
        verify(API(server.url, server.admin_key).post(PATH, {}).json()["signature"], SECRET_KEY, SECRET_ID)


def test_direct_mode_needs_a_pair(tmp_path):
    done = run("check", data=tmp_path / "data", environment={"SLUICE_TENCENT_MODE": "direct"}, check=False)
    assert done.returncode != 0
    assert re.search("secret.?id", done.stdout + done.stderr, re.IGNORECASE)


def test_a_key_with_limits_chooses_nothing_that_the_settings_do_not_list(direct, direct_api):
    """In direct mode the key of the account signs what it says."""
    made = direct_api.post("/v1/keys", {"name": "n", "scopes": ["mint", "upload"], "subjects": ["dora"]}).json()
    limited = API(direct.url, made["secret"])
    for name, value in {"procedure": "P", "sourceContext": "eve", "vodSubAppId": 7, "storageRegion": "ap-x"}.items():
        field_problem(limited.post(PATH, {"subject": "dora", name: value}), name)
        assert direct_api.post(PATH, {"subject": "dora", name: value}).status_code == 201
    answer = limited.post(PATH, {"subject": "dora", "classId": 3})
    assert answer.status_code == 201, answer.text
    assert verify(answer.json()["signature"], SECRET_KEY)["sourceContext"] == "dora"


def test_the_secret_is_never_shown(direct, direct_api, tmp_path):
    done = run("check", environment=direct.environment)
    assert SECRET_KEY not in done.stdout + done.stderr
    assert direct.admin_key not in done.stdout + done.stderr
    direct_api.post(PATH, {})
    log = direct.whole_log()
    assert SECRET_KEY not in log
    assert direct.admin_key not in log


# Limits: the edge is accepted, the step past it is refused, with the field named.


LIMITS = [
    ("expiresIn", [1, MOST_SECONDS], [0, -1, MOST_SECONDS + 1, "60", 1.5, True, 10**20]),
    ("random", [0, 4_294_967_295], [-1, 4_294_967_296, "1", 1.5, 10**30]),
    ("classId", [0, 1, 2_147_483_647], [1.5, "1", 10**30]),
    ("taskNotifyMode", ["Finish", "Change", "None"], ["finish", "", "Other", 1]),
    ("taskPriority", [-10, 0, 10], [-11, 11, "1", 0.5]),
    ("procedure", ["LongVideoPreset", "日" * 1024], [1, [], "x" * 1025]),
    ("sourceContext", ["x" * 250, "日" * 250], ["x" * 251, 1, {}]),
    ("sessionContext", ["x" * 1000], ["x" * 1001, 1]),
    ("oneTimeValid", [0, 1], [2, -1, "1", 10**20]),
    ("vodSubAppId", [1, 1500012345], [-1, "1", 1.5, 10**30]),
    ("storageRegion", ["ap-chongqing"], [1, False]),
    ("subject", ["user-42"], [1, []]),
]


def with_procedure(name, value):
    return {name: value} | ({"procedure": "p"} if name in ("taskPriority", "taskNotifyMode") else {})


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, good, _ in LIMITS for value in good])
def test_the_edge_of_a_limit_is_accepted(direct_api, name, value):
    answer = direct_api.post(PATH, with_procedure(name, value))
    assert answer.status_code == 201, answer.text
    parameters = verify(answer.json()["signature"], SECRET_KEY)
    if name not in ("expiresIn", "subject"):
        assert parameters[name] == str(value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, _, bad in LIMITS for value in bad])
def test_values_beyond_a_limit_are_refused(direct_api, name, value):
    field_problem(direct_api.post(PATH, with_procedure(name, value)), name)


def test_a_signature_that_no_upload_accepts_is_not_issued(direct_api):
    """Uploads read signatures of at most 16 KiB."""
    parts = ["日" * 1000, "日" * 999]
    for session, procedure, name in [(*parts, "sessionContext"), (*reversed(parts), "procedure")]:
        field_problem(direct_api.post(PATH, {"sessionContext": session, "procedure": procedure}), name)
    answer = direct_api.post(PATH, {"sessionContext": parts[0], "sourceContext": "日" * 250})
    assert answer.status_code == 201 and len(answer.json()["signature"]) <= 16_384


@pytest.mark.parametrize("name", ["taskPriority", "taskNotifyMode"])
def test_task_settings_need_a_procedure(direct_api, name):
    field_problem(direct_api.post(PATH, {name: {"taskPriority": 1, "taskNotifyMode": "None"}[name]}), name)


def test_the_span_of_two_times_is_limited(direct_api):
    begin = 1_571_215_095
    good = direct_api.post(PATH, {"currentTimeStamp": begin, "expireTime": begin + MOST_SECONDS})
    assert good.status_code == 201
    for end in (begin + MOST_SECONDS + 1, begin, begin - 1):
        field_problem(direct_api.post(PATH, {"currentTimeStamp": begin, "expireTime": end}), "expireTime")
    for bad in (1_571_215_095.5, "1571215095", -1):
        field_problem(direct_api.post(PATH, {"currentTimeStamp": bad, "expireTime": begin + 10}), "currentTimeStamp")


def test_two_expiries_are_refused(direct_api):
    answer = direct_api.post(PATH, {"expiresIn": 60, "expireTime": int(time.time()) + 60})
    assert problem(answer, 422, "invalid_field")["errors"][0]["field"] in ("expiresIn", "expireTime")


def test_an_unknown_field_is_refused(direct_api):
    field_problem(direct_api.post(PATH, {"expiresIN": 60}), "expiresIN")


def test_every_wrong_field_is_named(direct_api):
    answer = direct_api.post(PATH, {"random": -1, "expiresIn": 0, "sourceContext": "x" * 251})
    document = problem(answer, 422, "invalid_field")
    assert {error["field"] for error in document["errors"]} == {"random", "expiresIn", "sourceContext"}


def test_seeded_random_parameters_verify(direct_api, report):
    seed = 20240607
    generator = random.Random(seed)
    for _ in range(100):
        parameters = {
            "expiresIn": generator.randint(1, MOST_SECONDS),
            "random": generator.randint(0, 2**32 - 1),
            "procedure": "p",
            "taskPriority": generator.randint(-10, 10),
            "sessionContext": "".join(
                chr(generator.choice([32, 37, 38, 43, 61, 0xE4, 0x4E2D, 0x1F600])) for _ in range(50)
            ),
        }
        answer = direct_api.post(PATH, parameters)
        assert answer.status_code == 201, (seed, parameters, answer.text)
        signed = verify(answer.json()["signature"], SECRET_KEY)
        for name in ("random", "procedure", "taskPriority", "sessionContext"):
            assert signed[name] == str(parameters[name]), (seed, parameters)
    report(f"tencent: 100 random parameter sets verified, seed {seed}")


def test_the_command_line_checks_a_signature(tmp_path):
    """`--verify` prints a parameter a line; a failure has a reason, without the usage of the command."""
    signature = run("sign", "tencent", "--source-context", "a b", data=tmp_path / "data").stdout.strip()
    printed = run("sign", "tencent", "--verify", signature, data=tmp_path / "data").stdout.splitlines()
    parameters = dict(line.split("=", 1) for line in printed)
    assert (parameters["sourceContext"], parameters["secretId"][:4]) == ("a b", "AKID")
    for wrong, reason in [("!", "it is not standard base64"), ("AAAA" + signature[4:], "its code was not made")]:
        failed = run("sign", "tencent", "--verify", wrong, data=tmp_path / "data", check=False)
        assert failed.returncode == 1
        assert reason in failed.stderr and "Usage:" not in failed.stderr
    failed = run("sign", "tencent", "--no-such-flag", "1", data=tmp_path / "data", check=False)
    assert failed.returncode == 64 and "Usage:" in failed.stderr
