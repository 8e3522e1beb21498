"""tus 1.0.0, rule by rule: cases that neither the golden files nor `test_tus.py` cover.

Requests are raw bytes, as the clients send them.
"""

import base64
import json
import re
import socket
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest
import requests

from harness.api import API, OFFSET_TYPE, TUS, checksum, path_of, tus_error, tus_patch, upload_id
from harness.data import content, sha256
from harness.receiver import Receiver
from harness.wire import Wire, head, until

PARTIAL = [("Upload-Concat", "partial")]


def create(wire, key, *fields, body=b""):
    return wire.exchange("POST", "/files", [*TUS.items(), key, *fields], body)


def patch(wire, url, offset, body, *fields):
    wire.send(tus_patch(url, offset, len(body), fields) + body)
    return wire.reply("PATCH")


def look(wire, url, *fields):
    return wire.exchange("HEAD", path_of(url), [*TUS.items(), *fields])


def chunks(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# Common rules


def test_head_without_a_version_tells_the_offset(wire, api):
    """For tools that are not tus clients."""
    url = api.created(10)
    api.patch(url, 0, b"abc")
    reply = wire.exchange("HEAD", path_of(url))
    assert reply.status in (200, 204)
    assert (reply["Upload-Offset"], reply["Upload-Length"]) == ("3", "10")


def test_an_answer_to_head_has_no_content(wire, api):
    """The next response on the connection shows it."""
    for path in ("/files/nothing", path_of(api.created(1))):
        wire.send(head("HEAD", path, TUS.items()) + head("OPTIONS", "/files"))
        wire.reply("HEAD")
        reply = wire.reply("OPTIONS")
        assert (reply.status, reply["Tus-Version"]) == (204, "1.0.0")


@pytest.mark.parametrize("credential", [None, ("Authorization", "Bearer slk_unknown")])
def test_access_is_judged_after_the_override(wire, api, credential):
    fields = [*TUS.items(), ("Upload-Length", "1"), ("X-HTTP-Method-Override", "POST")]
    reply = wire.exchange("POST", "/files", [*fields, *([credential] if credential else [])])
    assert reply.status == 401


# HEAD, PATCH


def test_an_upload_of_too_many_chunked_bytes_ends_with_its_length(wire, api):
    url = api.created(10)
    wire.send(tus_patch(url, 0, None, [("Transfer-Encoding", "chunked")]) + chunks(b"0123456", b"789xy"))
    reply = wire.reply("PATCH")
    assert reply.status == 413 and reply["Upload-Offset"] is None
    assert api.upload(upload_id(url))["state"] == "completed"
    assert api.get(f"/media/{upload_id(url)}").content == b"0123456789"


def test_a_read_timeout_keeps_what_came(make_server):
    with make_server(environment={"SLUICE_TIMEOUTS_BODY_PROGRESS": "1s"}) as server:
        api = API(server.url, server.admin_key)
        url = api.created(1000)
        with Wire(server.address) as wire:
            wire.send(tus_patch(url, 0, 1000) + bytes(300))
            reply = wire.reply("PATCH")
        assert reply.status == 408 and reply.body.startswith(b"ERR_READ_TIMEOUT: ")
        assert reply["Upload-Offset"] is None
        assert api.offset(url) == 300
        assert api.patch(url, 300, bytes(700)).status_code == 204


# Creation


@pytest.mark.parametrize(
    ("fields", "client"),
    [
        ({"X-Forwarded-For": "192.0.2.1"}, "192.0.2.1"),
        # The client made up the first one; the last one is another trusted proxy.
        ({"X-Forwarded-For": "192.0.2.9, 2001:db8::1, 127.0.0.2"}, "2001:db8::1"),
        ({"Forwarded": 'for=192.0.2.9, for="[2001:db8::1]:80"', "X-Forwarded-For": "192.0.2.9"}, "2001:db8::1"),
        ({"X-Forwarded-For": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_client_behind_a_trusted_proxy_is_in_the_log_and_in_hooks(make_server, fields, client):
    secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
    for proxies in ("127.0.0.0/8", "10.0.0.0/8"):
        is_trusted = proxies.startswith("127")
        with Receiver(secret) as receiver:
            settings = {"TRUSTED_PROXIES": proxies, "HOOKS_URL": receiver.url, "HOOKS_SECRET": secret}
            with make_server(environment={f"SLUICE_{name}": value for name, value in settings.items()}) as server:
                answer = API(server.url, server.admin_key).create(1, headers=fields)
                created = receiver.wait("post-create", upload=upload_id(answer.headers["Location"]))
                address = created[0].request["RemoteAddr"]
            line = next(
                one
                for one in (json.loads(text) for text in server.log.read_text().splitlines() if text.startswith("{"))
                if one.get("request") == answer.headers["X-Request-ID"]
            )
        assert line["peer"] == "127.0.0.1"
        if client and is_trusted:
            assert line["client"] == client
            assert address == (f"[{client}]:0" if ":" in client else f"{client}:0")
        else:
            assert "client" not in line
            assert address.startswith("127.0.0.1:") and not address.endswith(":0")


@pytest.mark.parametrize(
    ("fields", "base"),
    [
        ({"X-Forwarded-Host": "up.example", "X-Forwarded-Proto": "https"}, "https://up.example"),
        ({"Forwarded": "for=192.0.2.1;host=up.example:8443;proto=https"}, "https://up.example:8443"),
        ({"Forwarded": "proto=https"}, "https://{host}"),
        ({"X-Forwarded-Proto": "https"}, "https://{host}"),
        ({"X-Forwarded-Host": "evil.example, up.example", "X-Forwarded-Proto": "https"}, "https://up.example"),
        ({"Forwarded": "host=evil.example, for=192.0.2.1;host=up.example;proto=https"}, "https://up.example"),
        ({"X-Forwarded-Host": "evil.example/x?", "X-Forwarded-Proto": "javascript"}, "http://{host}"),
        ({}, "http://{host}"),
    ],
)
def test_a_trusted_proxy_tells_scheme_and_host(make_server, fields, base):
    with make_server(environment={"SLUICE_TRUSTED_PROXIES": "127.0.0.1"}) as server:
        api = API(server.url, server.admin_key)
        location = api.create(1, headers=fields).headers["Location"]
        assert location.startswith(base.format(host=f"127.0.0.1:{server.port}") + "/files/"), location


@pytest.mark.parametrize("value", [b"../../../etc/passwd", b'a";x="[2J', "a\u2028\u202eb".encode(), b"\xff\xfe"])
def test_a_metadata_value_is_nowhere_taken_literally(make_server, value):
    """No field, no path and no log line of its own."""
    with make_server() as server:
        api = API(server.url, server.admin_key)
        raw = "filename " + base64.b64encode(value).decode()
        identifier = api.uploaded(b"abc", headers={"Upload-Metadata": raw})
        with Wire(server.address) as wire:
            reply = wire.exchange("GET", f"/media/{identifier}", [("Authorization", f"Bearer {server.admin_key}")])
        assert (reply.status, reply.body) == (200, b"abc")
        assert reply["X-Evil"] is None
        assert all(0x20 <= ord(character) < 0x7F for _, text in reply.fields for character in text), reply
        assert "/" not in reply["Content-Disposition"]
        log = server.whole_log()
        assert value not in log.encode(errors="surrogateescape")
        assert all(json.loads(line) for line in log.split("\n") if line.startswith("{"))


@pytest.mark.parametrize(
    "value", [b"a\r\nX-Evil: 1", b'a";x="\x00\x1b[2J', b"evil.exe\x00.jpg", b"a\x7f", "\x85".encode()]
)
@pytest.mark.parametrize("name", ["filename", "filetype", "name", "type"])
def test_a_name_with_a_control_character_is_refused(server, key, name, value):
    raw = f"{name} {base64.b64encode(value).decode()}"
    with Wire(server.address) as wire:
        reply = wire.exchange("POST", "/files", [*TUS.items(), key, ("Upload-Length", 1), ("Upload-Metadata", raw)])
    assert reply.status == 400, reply.body
    assert b"U+00" in reply.body and all(0x20 <= byte < 0x7F or byte == 10 for byte in reply.body), reply.body


@pytest.mark.parametrize("extended", ["evil.exe%00.jpg", "a%0Ab.jpg", "a%1B.jpg"])
def test_a_name_with_a_control_character_is_refused_by_every_way_in(server, extended):
    authorization = {"Authorization": f"Bearer {server.admin_key}"}
    disposition = f"attachment; filename*=UTF-8''{extended}"
    plain = requests.post(
        f"{server.url}/files",
        data=b"x",
        headers={**authorization, "Content-Disposition": disposition},
        timeout=20,
    )
    boundary = "b0undary"
    form = (
        f"--{boundary}\r\nContent-Disposition: form-data; name=f; filename=a.jpg; filename*=UTF-8''{extended}\r\n\r\n"
        f"x\r\n--{boundary}--\r\n"
    )
    formed = requests.post(
        f"{server.url}/files",
        data=form.encode(),
        headers={**authorization, "Content-Type": f"multipart/form-data; boundary={boundary}"},
        timeout=20,
    )
    for response in (plain, formed):
        assert response.status_code == 400, response.text
        assert "control character" in response.text


def test_100_is_sent_for_the_first_bytes_of_a_creation(wire, api, key):
    fields = [*TUS.items(), key, ("Content-Type", OFFSET_TYPE), ("Content-Length", 5), ("Expect", "100-continue")]
    wire.send(head("POST", "/files", [*fields, ("Upload-Length", 5)]))
    assert wire.interim().status == 100
    wire.send(b"hello")
    reply = wire.reply("POST")
    assert (reply.status, reply["Upload-Offset"]) == (201, "5")


@pytest.mark.parametrize(("length", "status"), [(4, 413), (None, 400)])
def test_a_creation_that_must_fail_is_sent_no_100(wire, key, length, status):
    fields = [*TUS.items(), key, ("Content-Type", OFFSET_TYPE), ("Content-Length", 5), ("Expect", "100-continue")]
    wire.send(head("POST", "/files", fields + ([("Upload-Length", length)] if length else [])))
    assert wire.interim().status == status


def test_an_orphan_of_a_broken_creation_expires(make_server):
    """Its client never learned the URL."""
    environment = {"SLUICE_UPLOADS_EXPIRE_AFTER": "1s", "SLUICE_UPLOADS_SWEEP_EVERY": "1s"}
    with make_server(environment=environment) as server:
        api = API(server.url, server.admin_key)
        with Wire(server.address) as wire:
            fields = [*TUS.items(), ("Authorization", f"Bearer {server.admin_key}"), ("Upload-Length", 1000)]
            wire.send(head("POST", "/files", [*fields, ("Content-Type", OFFSET_TYPE), ("Content-Length", 1000)]))
            wire.send(bytes(300))
            (upload,) = until(lambda: [one for one in api.get("/v1/uploads").json()["uploads"] if one["offset"] == 300])
        until(lambda: api.upload(upload["id"])["state"] == "expired", timeout=20)
        until(lambda: server.stored_files(upload["id"]) == [], timeout=20)


@pytest.mark.parametrize("telling", ["with the first bytes", "with the last bytes", "with nothing"])
def test_a_deferred_length_is_returned(wire, key, api, telling):
    """By tusgo, tus-js-client and tus.py, in this order."""
    url = create(wire, key, ("Upload-Defer-Length", "1"))["Location"]
    requests = {
        "with the first bytes": [(b"hello ", True), (b"world", False)],
        "with the last bytes": [(b"hello ", False), (b"world", True)],
        "with nothing": [(b"hello ", False), (b"world", False), (b"", True)],
    }[telling]
    offset = 0
    for body, tells in requests:
        reply = look(wire, url)
        assert (reply["Upload-Length"], reply["Upload-Defer-Length"]) in ((None, "1"), ("11", None))
        reply = patch(wire, url, offset, body, *([("Upload-Length", "11")] if tells else []))
        offset += len(body)
        assert (reply.status, reply["Upload-Offset"]) == (204, str(offset))
    reply = look(wire, url)
    assert (reply["Upload-Offset"], reply["Upload-Length"], reply["Upload-Defer-Length"]) == ("11", "11", None)
    assert api.get(f"/media/{upload_id(url)}").content == b"hello world"


# Expiration


def test_upload_expires_is_an_http_date(wire, key):
    """tusgo reads no other form."""
    created = create(wire, key, ("Upload-Length", "10"))
    url = created["Location"]
    for reply in (created, patch(wire, url, 0, b"abc"), look(wire, url)):
        text = reply["Upload-Expires"]
        assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", text), text
        assert parsedate_to_datetime(text) > datetime.now(UTC)


REFUSED = {
    "offset": (409, 9, b"x", ()),
    "offset that is none": (400, "x", b"x", ()),
    "type": (415, 3, b"x", [("Content-Type", "text/plain")]),
    "version": (412, 3, b"x", [("Tus-Resumable", "0.2.2")]),
    "length": (413, 3, bytes(8), ()),
    "checksum": (460, 3, b"x", checksum("sha1", bytes(20)).items()),
    "algorithm": (400, 3, b"x", [("Upload-Checksum", "crc64 AAAA")]),
    "other length": (400, 3, b"x", [("Upload-Length", "11")]),
}


def refused(wire, api, case):
    status, offset, body, fields = REFUSED[case]
    url = api.created(10)
    api.patch(url, 0, b"abc")
    own = {"Upload-Offset": offset, "Content-Type": OFFSET_TYPE} | TUS | dict(fields)
    reply = wire.exchange("PATCH", path_of(url), own.items(), body)
    assert reply.status == status, reply
    assert look(wire, url)["Upload-Offset"] == "3"
    return reply


@pytest.mark.parametrize("case", REFUSED)
def test_only_409_tells_the_offset(wire, api, case):
    """TUSKit reads it from any response, whatever the status."""
    assert refused(wire, api, case)["Upload-Offset"] == ("3" if case == "offset" else None)


@pytest.mark.parametrize("case", ["offset", "length", "checksum"])
def test_every_patch_returns_upload_expires(wire, api, case):
    """Also by those that fail, where the upload is known (tus 1.0.0, Upload-Expires)."""
    assert refused(wire, api, case)["Upload-Expires"]


# Concatenation


def test_parallel_parts_of_tus_js_client(wire, key, api):
    """It names the kind of the upload in every request for a part."""
    urls = []
    for body in (b"hello ", b"world"):
        fields = [*PARTIAL, ("Upload-Length", len(body)), ("Upload-Metadata", "album Nw==")]
        url = create(wire, key, *fields)["Location"]
        assert patch(wire, url, 0, body[:2], *PARTIAL).status == 204
        reply = look(wire, url, *PARTIAL)
        assert (reply["Upload-Offset"], reply["Upload-Concat"]) == ("2", "partial")
        assert patch(wire, url, 2, body[2:], *PARTIAL).status == 204
        urls.append(url)
    wholes = [create(wire, key, ("Upload-Concat", "final;" + " ".join(urls)))["Location"] for _ in range(2)]
    for url in urls:
        assert wire.exchange("DELETE", path_of(url), TUS.items()).status == 204
    for url in wholes:
        reply = look(wire, url)
        assert (reply["Upload-Offset"], reply["Upload-Length"]) == ("11", "11")
        assert reply["Upload-Concat"] == "final;" + " ".join(urls)
        # Fields of the parts do not apply to the whole.
        assert reply["Upload-Metadata"] is None
        assert api.upload(upload_id(url))["metadata"] == {}
        assert api.get(f"/media/{upload_id(url)}").content == b"hello world"


def test_a_listed_url_is_never_asked_for(wire, key, api):
    """The list names uploads of this server; other servers in it are never contacted."""
    part = path_of(create(wire, key, *PARTIAL, ("Upload-Length", 5))["Location"]).rsplit("/", 1)[1]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert create(wire, key, ("Upload-Concat", f"final;{other}/files/x")).status == 404
        whole = create(wire, key, ("Upload-Concat", f"final;{other}/files/{part}"))["Location"]
        assert patch(wire, f"{api.url}/files/{part}", 0, b"hello").status == 204
        assert look(wire, whole)["Upload-Offset"] == "5"
        listener.settimeout(0.3)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_patch_to_a_whole_changes_nothing(wire, key, api):
    part = create(wire, key, *PARTIAL, ("Upload-Length", 5))["Location"]
    whole = create(wire, key, ("Upload-Concat", f"final;{path_of(part)}"))["Location"]
    assert patch(wire, whole, 0, b"HELLO").status == 403
    assert patch(wire, part, 0, b"hello").status == 204
    assert patch(wire, whole, 5, b"").status == 403
    assert api.get(f"/media/{upload_id(whole)}").content == b"hello"


# What the clients do


@pytest.mark.parametrize("size", [512_000, 1_300_000])
def test_chunks_of_tuskit(wire, key, api, size):
    """512,000 bytes each, all on one connection."""
    data = content(size, 21)
    fields = [("TUS-Resumable", "1.0.0"), key, ("Upload-Length", size), ("Upload-Extension", "creation")]
    url = wire.exchange("POST", "/files", fields)["Location"]
    offset = 0
    while offset < size:
        piece = data[offset : offset + 512_000]
        fields = [("TUS-Resumable", "1.0.0"), key, ("Upload-Offset", offset), ("Content-Type", OFFSET_TYPE)]
        reply = wire.exchange("PATCH", path_of(url), [*fields, ("Upload-Length", size)], piece)
        offset += len(piece)
        assert (reply.status, reply["Upload-Offset"]) == (204, str(offset))
    assert api.download_hash(upload_id(url)) == (sha256(data), size)


def test_tuskit_repeats_a_broken_patch_at_once(server, api):
    """Without HEAD, at the old offset, while the broken one may still be running: the 409 has the offset."""
    data = content(1000, 22)
    url = api.created(len(data))
    with Wire(server.address) as wire:
        wire.send(tus_patch(url, 0, 1000) + data[:300])
        until(lambda: api.upload(upload_id(url))["offset"] == 300)
    with Wire(server.address) as wire:
        reply = patch(wire, url, 0, data)
        assert (reply.status, reply["Upload-Offset"]) == (409, "300")
        assert patch(wire, url, 300, data[300:]).status == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_urls_stay_valid(make_server):
    """tus-js-client keeps them between visits of a page."""
    server = make_server().start()
    api = API(server.url, server.admin_key)
    path = path_of(api.created(10))
    api.patch(server.url + path, 0, b"abc")
    server.stop()
    server.start()
    api = API(server.url, server.admin_key)
    assert api.offset(server.url + path) == 3
    assert api.patch(server.url + path, 3, b"defghij").status_code == 204


@pytest.mark.parametrize("enabled", [True, False])
def test_cors_fields_can_be_left_to_a_proxy(make_server, enabled):
    """Also those of errors that no protocol makes: a page that cannot read them sees a broken network."""
    with make_server(environment={"SLUICE_CORS_ENABLED": str(enabled).lower()}) as server:
        api = API(server.url, server.admin_key)
        origin = {"Origin": "https://app.example"}
        for answer in (
            api.create(1, headers=origin),
            api.create(1, headers=origin, key=None),
            api.request("HEAD", "/files/nothing", headers=TUS | origin),
            api.request("GET", "/files/a/b/c", headers=TUS | origin),
        ):
            names = [name.lower() for name in answer.headers if name.lower().startswith("access-control-")]
            assert len(names) == len(set(names))
            assert bool(names) == enabled, answer.headers


def test_a_head_of_an_upload_that_expired_or_ended_tells_nothing(wire, api):
    url = api.created(3)
    assert api.terminate(url).status_code == 204
    reply = look(wire, url)
    assert reply.status == 410 and reply["Upload-Offset"] is None and reply["Upload-Length"] is None
    tus_error(api.patch(url, 0, b"abc"), 410)
