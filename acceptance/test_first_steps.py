"""What a new operator meets first: the page at the root, commands that do not exist, and settings that cannot be."""

import json
import re
import threading

import pytest
import requests

from harness.api import API
from harness.server import run
from harness.wire import until

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


def seen(url, accept=BROWSER, **fields):
    return requests.get(url, headers={"Accept": accept} | fields, timeout=20)


def test_a_browser_sees_what_this_is(server):
    answer = seen(server.url + "/")
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    # Everything that it names is there.
    links = re.findall(r'href="([^"]+)"', answer.text)
    assert len(links) == 2 and all(seen(link).status_code == 200 for link in links)
    command = re.search(r"<pre>curl -T hello.txt (\S+) ", answer.text)[1]
    key = {"Authorization": f"Bearer {server.admin_key}"}
    assert requests.put(command + "hello.txt", data=b"hello", headers=key, timeout=20).status_code == 201


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_others_get_an_error_at_the_root(server, accept):
    answer = seen(server.url + "/", accept)
    assert answer.status_code == 404 and answer.json()["code"] == "not_found"


def test_the_page_repeats_nothing_that_a_client_could_use(server):
    answer = seen(server.url + "/", Host='a"><script>alert(1)</script>')
    assert "<script>" not in answer.text


def test_the_page_below_a_base_path(make_server):
    with make_server(environment={"SLUICE_GATEWAY_BASE_PATH": "/up"}) as server:
        links = re.findall(r'href="([^"]+)"', seen(server.url + "/").text)
        assert links and all("/up/" in link and seen(link).status_code == 200 for link in links)


def test_a_browser_shows_the_description(server):
    shown, stored = seen(server.url + "/openapi.yaml"), seen(server.url + "/openapi.yaml", "*/*")
    assert shown.headers["Content-Type"] == "text/plain; charset=utf-8" and "Accept" in shown.headers["Vary"]
    assert stored.headers["Content-Type"] == "application/yaml" and stored.content == shown.content


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("upload", "did you mean uploads?"), ("kyes", "did you mean keys?"), ("frobnicate", "`sluice --help`")],
)
def test_a_word_that_is_no_command(word, wanted):
    done = run(word, check=False)
    assert done.returncode == 64 and f"{word}: there is no such command or flag" in done.stderr
    assert wanted in done.stderr and ("curl" in done.stderr) == (word == "upload")


def test_a_variable_that_is_no_setting():
    done = run("check", environment={"SLUICE_GATEWAY_LISTN": "127.0.0.1:0"}, check=False)
    assert done.returncode == 1 and "did you mean SLUICE_GATEWAY_LISTEN?" in done.stderr


def test_a_secret_as_a_flag_is_not_repeated():
    done = run("serve", "--admin-key", "slk_secret_0123456789", check=False)
    assert done.returncode == 64 and "slk_secret" not in done.stderr + done.stdout


def test_an_address_in_use_names_its_setting(server, tmp_path):
    environment = {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}", "SLUICE_OBJECT_LISTEN": "none"}
    done = run("serve", data=tmp_path / "other", environment=environment, check=False)
    assert done.returncode == 1 and "gateway.listen" in done.stderr


def test_a_certificate_that_cannot_be_used_names_its_setting(tmp_path):
    environment = {"SLUICE_TLS_CERTIFICATE": "/nowhere.pem", "SLUICE_TLS_KEY": "/nowhere.key"}
    environment |= {"SLUICE_GATEWAY_LISTEN": "127.0.0.1:0", "SLUICE_OBJECT_LISTEN": "none"}
    done = run("serve", data=tmp_path / "data", environment=environment, check=False)
    assert done.returncode == 1 and "/nowhere.pem" in done.stderr and "tls.certificate" in done.stderr


# `sluice uploads`, `sluice media` and `sluice keys list --json`


def listed(server, *arguments, command="uploads", check=True, **environment):
    variables = {"SLUICE_URL": server.url, "SLUICE_API_KEY": server.admin_key} | environment
    return run(command, *arguments, environment=variables, check=check)


def test_uploads_are_listed_and_filtered(server, api, media):
    token = api.post("/v1/tus/tokens", {"subject": "list-1"}).json()["token"]
    mine = api.created(100, key=token, metadata={"filename": "a film.mp4"})
    assert api.patch(mine, 0, b"x" * 25).status_code == 204
    text = listed(server).stdout.splitlines()
    assert text[0].split() == ["ID", "STATE", "PROTOCOL", "BYTES", "DONE", "BEGUN", "SUBJECT", "KEY", "FILENAME"]
    assert any(media in line and "completed" in line and "100%" in line for line in text)
    (line,) = listed(server, "--subject", "list-1").stdout.splitlines()[1:]
    assert "25B/100B" in line and "25%" in line and line.endswith("a film.mp4")
    lines = [json.loads(line) for line in listed(server, "--json", "--state", "open").stdout.splitlines()]
    assert [line["offset"] for line in lines if line.get("subject") == "list-1"] == [25]
    assert lines == [upload for upload in api.get("/v1/uploads?state=open&limit=100").json()["uploads"]]
    assert listed(server, "--json", "--dialect", "vimeo").stdout == ""
    assert len(listed(server, "--since", "1h").stdout.splitlines()) == len(text)


def test_media_are_the_complete_uploads(server, api):
    token = api.post("/v1/tus/tokens", {"subject": "media-1"}).json()["token"]
    for size in (1000, 24):
        path = api.created(size, key=token, metadata={"filename": f"{size} bytes.mp4"})
        assert api.patch(path, 0, b"x" * size).status_code == 204
    api.created(5, key=token)
    lines = listed(server, "--subject", "media-1", command="media").stdout.splitlines()
    assert lines[0].split() == ["ID", "PROTOCOL", "BYTES", "COMPLETED", "SUBJECT", "KEY", "FILENAME"]
    assert [line.rsplit("  ", 1)[1] for line in lines[1:3]] == ["24 bytes.mp4", "1000 bytes.mp4"]
    assert lines[3:] == ["2 media, 1KiB"]
    found = [json.loads(line) for line in listed(server, "--json", command="media").stdout.splitlines()]
    assert found == api.get("/v1/uploads?state=completed&limit=100").json()["uploads"]
    done = listed(server, "--limit", "0", command="media", check=False)
    assert done.returncode != 0 and "--limit must be" in done.stderr


def test_more_uploads_than_a_page(make_server):
    with make_server() as server:
        api = API(server.url, server.admin_key)
        made = [api.created(1) for _ in range(103)]
        assert len(listed(server, "--json", "--limit", "500").stdout.splitlines()) == len(made)
        assert len(listed(server, "--json", "--limit", "101").stdout.splitlines()) == 101


def test_uploads_are_followed(server, api):
    """Of two uploads one gets bytes, for longer than anyone looks."""
    token = api.post("/v1/tus/tokens", {"subject": "follow-1"}).json()["token"]
    idle, busy = (api.created(1 << 30, key=token) for _ in range(2))
    done = threading.Event()

    def send():
        offset = 0
        while not done.is_set():
            assert api.patch(busy, offset, b"x" * 1024).status_code == 204
            offset += 1024

    sender = threading.Thread(target=send)
    sender.start()
    try:
        text = listed(server, "--follow", "--looks", "3", "--every", "1", "--subject", "follow-1").stdout
    finally:
        done.set()
        sender.join()
    looks = [look.splitlines() for look in text.split("\n\n")]
    assert len(looks) == 3 and all(len(look) == 3 for look in looks)
    assert looks[0][0].split()[5:7] == ["RATE", "IDLE"]
    first, last = looks[2][1:]
    assert busy.rsplit("/", 1)[1].partition(".")[0] in first and re.search(r"iB/s\s+0s", first)
    assert idle.rsplit("/", 1)[1].partition(".")[0] in last and re.search(r" 0B/s\s+[1-9]\d*s", last)


def test_the_gateway_of_this_machine_is_found_by_its_settings(make_server):
    with make_server(environment={"SLUICE_GATEWAY_BASE_PATH": "/up"}) as server:
        API(server.url, server.admin_key).created(1)
        environment = server.environment | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}"}
        assert len(run("uploads", environment=environment).stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("key", "arguments", "wanted"),
    [
        ("slk_wrong_0123456789abcdef", [], "status 401"),
        (None, [], "SLUICE_API_KEY"),
        (..., ["--limit", "0"], "--limit must be"),
        (..., ["--since", "yesterday"], "--since yesterday"),
        (..., ["--follow", "--json"], "exclude each other"),
        (..., ["--state", "none"], "status 422"),
    ],
)
def test_a_list_that_cannot_be_had(server, key, arguments, wanted):
    environment = {"SLUICE_URL": server.url}
    if key:
        environment["SLUICE_API_KEY"] = server.admin_key if key is ... else key
    done = run("uploads", *arguments, environment=environment, check=False)
    assert done.returncode != 0 and wanted in done.stderr and (key is ... or key is None or key not in done.stderr)


def test_keys_are_listed_as_json(make_server):
    with make_server() as server:
        api = API(server.url, server.admin_key)
        made = api.post("/v1/keys", {"name": "n", "scopes": ["mint"], "subjects": ["u:*"]}).json()

        def keys():
            lines = run("keys", "list", "--json", environment=server.environment).stdout.splitlines()
            return {key["id"]: key for key in map(json.loads, lines)}

        known = {key["id"]: key for key in api.get("/v1/keys").json()["keys"]}
        assert keys()[made["id"]] == known[made["id"]] and "secret" not in keys()[made["id"]]
        assert keys().keys() == known.keys()
        assert api.delete(f"/v1/keys/{made['id']}").status_code == 204
        until(lambda: keys()[made["id"]]["status"] == "revoked")
