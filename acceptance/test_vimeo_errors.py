"""Refusals of Vimeo's API: each code that a client can cause, and wrong input (protocol, sections 3.4 and 5)."""

import base64
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import re
import time
from datetime import datetime
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest
import requests

from harness.api import API, OFFSET_TYPE, TUS, patch_fields
from harness.server import Server, run
from harness.vimeo import SCOPES, Plain, basic, stored, token
from harness.wire import Closed, Wire, head, until

ERROR = "application/vnd.vimeo.error+json"
VIDEO = "/videos/217340000123456"
OLD = {"Accept": "application/vnd.vimeo.*+json;version=3.3.1"}
PROBE = {"Content-Range": "bytes */*"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
NUMBERS = itertools.count(1)


class User(Plain):
    """A user whose account nobody else uses, with their token."""

    def __init__(self, server, **wanted):
        self.name = f"user-{next(NUMBERS)}-{os.getpid()}"
        self.api = API(server.url, server.admin_key)
        self.token = token(server, self.name, **wanted)
        super().__init__(server, self.token)

    def post(self, body, path="/me/videos", **headers):
        return self("POST", path, json=body, headers=headers)

    def bare(self, approach):
        """A video without a size."""
        return self.create(None, approach, upload={"approach": approach})

    def limit(self, **policy):
        answer = self.api.request("PUT", f"/v1/quota/subjects/{self.name}", json=policy)
        assert answer.status_code == 200, answer.text

    def everything(self):
        """What a refused request must not change: uploads in any state, videos, and what is counted."""
        uploads = self.api.get("/v1/uploads", params={"subject": self.name, "limit": 200}).json()["uploads"]
        videos = self("GET", "/me/videos?per_page=100&fields=uri,name,privacy,status,upload.status").json()
        used = self.api.get(f"/v1/quota/subjects/{self.name}").json()["used"]
        return [(one["id"], one["state"], one["offset"]) for one in uploads], videos["data"], used

    def refused(self, answer, status, code=None, field=None, inner=None):
        """Checks the form of a refusal as a whole, and returns its document."""
        assert answer.status_code == status, f"{answer.status_code} instead of {status}: {answer.text}"
        assert answer.headers["Content-Type"] == ERROR
        document = answer.json()
        wanted = {"error", "link", "developer_message"} | ({"error_code"} if code else set())
        assert document.keys() - {"invalid_parameters"} == wanted, document
        assert document["link"] is None
        for name in ("error", "developer_message"):
            assert isinstance(document[name], str) and document[name].strip(), document
        # VimeoNetworking reads the field, and lets it win.
        assert (document.get("error_code"), answer.headers.get("Vimeo-Error-Code")) == (code, code and str(code))
        assert ("invalid_parameters" in document) == (code == 2204), document
        parameters = document.get("invalid_parameters", [])
        for one in parameters:
            assert one.keys() == {"field", "error_code", "error", "developer_message"}, document
            assert isinstance(one["error_code"], int) and one["error"] and one["developer_message"], document
        if field:
            found = [(one["field"], one["error_code"] if inner else None) for one in parameters]
            assert (field, inner) in found, document
        for secret in (self.token, self.api.key, "slv_", "slk_", "slc_"):
            assert secret not in answer.text + str(answer.headers), document
        return document


@pytest.fixture
def user(server):
    return User(server)


@contextlib.contextmanager
def unchanged(user):
    before = user.everything()
    yield
    assert user.everything() == before


def exactly(client, method, target, body=None, **fields):
    """A request whose target is sent as it is: `requests` repairs escapes."""
    host = urlsplit(client.server.url)
    connection = http.client.HTTPConnection(host.hostname, host.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, target.removeprefix(client.server.url), body, client.fields | fields)
        answer = connection.getresponse()
        content = answer.read()
    return SimpleNamespace(
        status_code=answer.status, headers=answer.headers, text=content.decode(), json=lambda: json.loads(content)
    )


def tus_fields(offset):
    return TUS | {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE}


def flipped(text, place=-1):
    """Another text of the same length."""
    letters = list(text)
    digit = letters[place].isdigit()
    letters[place] = ("1" if letters[place] != "1" else "2") if digit else ("A" if letters[place] != "A" else "B")
    return "".join(letters)


# 2204 with the codes of its parameters

UPLOAD = {"approach": "tus", "size": 5}


def cluster(count):
    """What people take for one character, of `count` code points."""
    return "a" + "\u20dd" * (count - 1)


LABELS = [
    ({"name": cluster(129)}, "name", 2250),
    ({"name": "a" + "\u200d" * 100_000}, "name", 2250),
    ({"name": "a" + "\U000e0061" * 128}, "name", 2250),
    ({"description": cluster(5001)}, "description", 2251),
    *[({name: cluster(33)}, name, code) for name, code in (("password", 2233), ("license", 2204), ("locale", 2204))],
    ({"name": "x" * 129}, "name", 2250),
    ({"name": 7}, "name", None),
    ({"name": "a\0b"}, "name", None),
    ({"description": "x" * 5001}, "description", 2251),
    ({"description": []}, "description", None),
    ({"privacy": {"view": "friends"}}, "privacy.view", 2232),
    ({"privacy": {"view": 7}}, "privacy.view", 2232),
    ({"privacy": {"view": "password"}}, "password", 2233),
    ({"privacy": {"view": "password"}, "password": ""}, "password", 2233),
    ({"privacy": {"embed": "friends"}}, "privacy.embed", 2204),
    ({"privacy": {"comments": []}}, "privacy.comments", 2204),
    ({"privacy": {"download": "maybe"}}, "privacy.download", 2204),
    ({"privacy": {"add": 2}}, "privacy.add", 2204),
    # If this were ignored, everybody could see the video.
    ({"privacy": "nobody"}, "privacy", 2204),
    ({"privacy": ["nobody"]}, "privacy", 2204),
    ({"license": {}}, "license", 2204),
    ({"locale": "x" * 33}, "locale", 2204),
    ({"content_rating": [7]}, "content_rating", 2204),
    ({"content_rating": 7}, "content_rating", 2204),
]
VIDEOS = [
    *[({"upload": UPLOAD | {"size": size}}, "upload.size", 2254) for size in (-1, "-1", "x", "", 1.5, "1.5", "5.", [])],
    *[({"upload": UPLOAD | {"size": size}}, "upload.size", 2254) for size in (True, "1e3", " 5", 1 << 63, "9" * 30)],
    ({"upload": UPLOAD | {"size": None}}, "upload.size", 2254),
    ({"upload": {"approach": "streaming", "size": -1}}, "upload.size", 2254),
    *[({"upload": {"approach": one, "size": 5}}, "upload.approach", 2230) for one in ("gcs", "", 7, None, "ticket")],
    *[({"upload": upload}, "upload.approach", 2230) for upload in ({}, "tus", [], 7)],
    ({"upload": {"approach": "post", "redirect_url": 7}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": ["https://x.example"]}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "javascript:alert(1)"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "//x.example"}}, "upload.redirect_url", 2256),
    # A browser is sent there: it must not become another header field.
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/\r\nX-A: b"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/\rb"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/\nb"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/a b"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/\tb"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": "https://x.example/\u0000"}}, "upload.redirect_url", 2256),
    ({"upload": {"approach": "post", "redirect_url": " https://x.example/"}}, "upload.redirect_url", 2256),
    ({"upload": UPLOAD | {"mime_type": 7}}, "upload.mime_type", 2204),
    ({"upload": UPLOAD | {"mime_type": cluster(257)}}, "upload.mime_type", 2204),
    ({"upload": UPLOAD, "file_name": cluster(1025)}, "file_name", 2204),
    (
        {"upload": {"approach": "post", "redirect_url": "https://x.example/" + cluster(2048)}},
        "upload.redirect_url",
        2256,
    ),
    ({"upload": {"approach": "pull"}}, "upload.link", 2204),
    ({"upload": {"approach": "pull", "link": 7}}, "upload.link", 2204),
    ({"upload": {"approach": "pull", "link": "file:///etc/passwd"}}, "upload.link", 2204),
]
TICKETS = [
    *[({"type": kind}, "type", 2230) for kind in ("songs", "", 7, [])],
    *[({"type": "streaming", "size": size}, "size", 2254) for size in (-1, "x", 1.5, {})],
    *[({"type": "streaming", "upgrade_to_1080": one}, "upgrade_to_1080", 2255) for one in ("maybe", 7, [])],
    ({"type": "streaming", "redirect_url": 7}, "redirect_url", 2256),
    *[({"type": "streaming", "machine_id": one}, "machine_id", 2257) for one in ([], {}, True)],
    *[({"type": "streaming", "create_clip": one}, "create_clip", 2258) for one in ("maybe", 7, [])],
    ({"type": "streaming", "name": "x" * 129}, "name", 2250),
]
VERSIONS = [
    ({"upload": UPLOAD}, "file_name", 2204),
    ({"upload": UPLOAD, "file_name": 7}, "file_name", 2204),
    ({"upload": UPLOAD, "file_name": cluster(1025)}, "file_name", 2204),
    ({"upload": {"approach": "tus"}, "file_name": "a"}, "upload.size", 2254),
    ({"upload": UPLOAD | {"size": -1}, "file_name": "a"}, "upload.size", 2254),
]
TRACKS = [
    ({"type": "songs"}, "type", 2204),
    ({"language": "en"}, "type", 2204),
    ({"type": "captions", "language": 7}, "language", 2204),
    ({"type": "captions", "name": "x" * 257}, "name", 2204),
    ({"type": "captions", "name": cluster(257)}, "name", 2204),
    ({"type": "captions", "language": cluster(33)}, "language", 2204),
    ({"type": "captions", "active": "maybe"}, "active", 2204),
]
PICTURES = [({"active": 7}, "active", 2204), ({"active": []}, "active", 2204)]


def named(rows):
    """Rows with short names."""
    return [pytest.param(*row, id=f"{row[1]}-{number}") for number, row in enumerate(rows)]


@pytest.mark.parametrize(("body", "field", "inner"), named(VIDEOS + LABELS))
def test_members_of_a_video(user, body, field, inner):
    with unchanged(user):
        user.refused(user.post({"upload": UPLOAD} | body), 400, 2204, field, inner)


@pytest.mark.parametrize(("body", "field", "inner"), named(TICKETS))
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "replacement"])
def test_members_of_a_ticket(user, body, field, inner, is_new):
    uri = user.create(0)["uri"]
    with unchanged(user):
        method, path = ("POST", "/me/videos") if is_new else ("PUT", uri + "/files")
        user.refused(user(method, path, json=body, headers=OLD), 400, 2204, field, inner)


@pytest.mark.parametrize(("body", "field", "inner"), named([*LABELS, ({"name": ""}, "name", 2231)]))
def test_members_of_an_edit(user, body, field, inner):
    uri = user.create(0)["uri"]
    with unchanged(user):
        # What is right beside it does not count either.
        body = {"license": "by", "description": "D"} | body
        user.refused(user("PATCH", uri, json=body), 400, 2204, field, inner)


@pytest.mark.parametrize(
    ("path", "body", "field", "inner"),
    [
        pytest.param(name, *row, id=f"{name}-{row[1]}-{number}")
        for name, rows in (("versions", VERSIONS), ("texttracks", TRACKS), ("pictures", PICTURES))
        for number, row in enumerate(rows)
    ],
)
def test_members_of_what_a_video_has(user, path, body, field, inner):
    uri = user.create(0)["uri"]
    with unchanged(user):
        user.refused(user.post(body, f"{uri}/{path}"), 400, 2204, field, inner)
        assert user("GET", f"{uri}/{path}").json()["total"] == (path == "versions")


def test_everything_that_is_wrong_is_told_at_once(user):
    body = {"name": "x" * 129, "privacy": {"view": "friends"}, "upload": {"approach": "gcs", "size": -1}}
    document = user.refused(user.post(body), 400, 2204)
    found = {(one["field"], one["error_code"]) for one in document["invalid_parameters"]}
    wanted = {("name", 2250), ("privacy.view", 2232), ("upload.approach", 2230), ("upload.size", 2254)}
    assert found == wanted


@pytest.mark.parametrize("size", [5, "5", 5.0, "5.0", "5.000"])
def test_sizes_as_clients_write_them(user, size):
    assert user.create(size)["upload"]["size"] == 5


def test_members_that_nobody_knows_are_ignored(user):
    odd = {"chunk_size": 1, "x": {"a": [None, {"b": 1}]}, "name": None, "": 1}
    assert user.post(odd | {"upload": UPLOAD | {"status": "x", "y": []}}).status_code == 200


# 2205: what cannot be read

UNREADABLE = {
    "cut": b'{"upload": {',
    "two": b'{"name": "a"} {"name": "b"}',
    "repeated": b'{"name": "a", "name": "b"}',
    "array": b"[]",
    "text": b'"name"',
    "number": b"7",
    "deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "latin": '{"name": "ä"}'.encode("latin-1"),
    "nothing": b"null",
    "form": b"name=a",
    "wide": json.dumps({"a": list(range(30_000))}).encode(),
}
UNREADABLE_FORMS = {
    "escape": b"name=%zz",
    "end": b"name=a%2",
    "bytes": b"name=%ff",
    "fields": b"&".join(b"a%d=1" % number for number in range(2000)),
}


@pytest.mark.parametrize(
    ("body", "kind"),
    [pytest.param(body, "application/json", id=name) for name, body in UNREADABLE.items()]
    + [pytest.param(body, FORM["Content-Type"], id=f"form-{name}") for name, body in UNREADABLE_FORMS.items()],
)
def test_bodies_that_cannot_be_read(user, body, kind):
    uri = user.create(0)["uri"]
    calls = [("POST", "/me/videos"), ("PATCH", uri), ("PUT", uri + "/files"), ("POST", uri + "/versions")]
    with unchanged(user):
        for method, path in calls:
            answer = user(method, path, data=body, headers={"Content-Type": kind})
            user.refused(answer, 400, 2205)


def test_a_huge_body(user):
    with unchanged(user):
        body = json.dumps({"name": "x", "other": "y" * (8 << 20), "upload": UPLOAD})
        user.refused(user("POST", "/me/videos", data=body, headers={"Content-Type": "application/json"}), 413, 2205)


@pytest.mark.parametrize("query", ["fields=%zz", "fields=uri&x=%", "%ff=1", "fields=%00"])
def test_queries_that_cannot_be_read(user, query):
    with unchanged(user):
        user.refused(exactly(user, "POST", f"/me/videos?{query}", json.dumps({"upload": UPLOAD})), 400, 2205)
        user.refused(exactly(user, "GET", f"/me?{query}"), 400, 2205)


@pytest.mark.parametrize("collection", ["/me/videos", "pictures", "texttracks", "versions"])
def test_pages_that_do_not_exist(user, collection):
    path = collection if collection[0] == "/" else f"{user.create(0)['uri']}/{collection}"
    for name, most in (("per_page", 100), ("page", 1_000_000)):
        for value in (0, -1, most + 1, "x", "", "1.5", "1e3", "9" * 30, "%20", "1,2"):
            user.refused(user("GET", f"{path}?{name}={value}"), 400, 2204, name)
        assert user("GET", f"{path}?{name}={most}").status_code == 200
    beyond = user("GET", f"{path}?page=1000000&per_page=100").json()
    assert (beyond["data"], beyond["paging"]["next"]) == ([], None)


@pytest.mark.parametrize(
    "fields",
    ["", ",", ".", "a..b", "uri,,uri.x", "*", "-uri", "a" * 4000, "uri.x.y", "%C3%A4", ",".join("abc" * 500)],
)
def test_fields_with_strange_values(user, fields):
    uri = user.create(0)["uri"]
    for path in ("/me", uri, "/me/videos"):
        answer = user("GET", f"{path}?fields={fields}")
        assert answer.status_code == 200
        assert isinstance(answer.json(), dict)
    # The frame of a list stays, whatever is wanted of its elements.
    assert answer.json()["total"] == 1


@pytest.mark.parametrize(
    ("form", "view"),
    [
        ("=x&&privacy.view=nobody", "nobody"),
        ("a.b.c.d.e.f.g.h=1&privacy.view=nobody&name=N", "nobody"),
        ("", "anybody"),
        (" \r\n", "anybody"),
    ],
)
def test_forms_with_strange_names(user, form, view):
    uri = user.create(0)["uri"]
    answer = user("PATCH", uri, data=form, headers=FORM)
    assert (answer.status_code, answer.json()["privacy"]["view"], answer.json()["name"]) == (200, view, "N")


@pytest.mark.parametrize(
    "form", ["privacy.view=nobody&privacy.view=users", "=x&.=y", "privacy.view=nobody&name.x=1&name=N"]
)
def test_a_member_that_occurs_twice_is_refused(user, form):
    uri = user.create(0)["uri"]
    assert user("PATCH", uri, data=form, headers=FORM).status_code == 400
    assert user("GET", uri).json()["privacy"]["view"] == "anybody"


# 3116


@pytest.mark.parametrize(
    "accept",
    ["application/vnd.vimeo.*+json;version={}", "application/vnd.vimeo.*+json; version={}, application/json"]
    + ["application/vnd.vimeo.*;version={}", 'application/vnd.vimeo.*+json; Version="{}"'],
)
def test_versions_and_bodies_that_disagree(user, accept):
    with unchanged(user):
        for version, body in (("3.4", {"type": "streaming"}), ("3.4.2", {"type": "pull"}), ("4.0", {"type": "x"})):
            user.refused(user.post(body, Accept=accept.format(version)), 400, 3116)
        for version in ("3.2", "3.3.1", "3.0", "2", "3"):
            user.refused(user.post({"upload": UPLOAD}, Accept=accept.format(version)), 400, 3116)


# 8000 to 8003, scopes


def test_credentials_that_are_none(server, user):
    api = user.api
    brief = token(server, user.name, expiresIn=1)
    code = api.post("/v1/vimeo/tokens", {"subject": user.name, "code": True}).json()["code"]
    ended = token(server, user.name)
    assert Plain(server, ended)("DELETE", "/tokens").status_code == 204
    until(lambda: Plain(server, brief)("GET", "/me").status_code == 401, timeout=20, interval=0.2)
    bearers = [brief, code, ended, flipped(user.token), user.token[:-1], user.token + "A", user.token[4:], "x", api.key]
    rows = [({"Authorization": f"Bearer {bearer}"}, 8000) for bearer in bearers]
    rows += [({"Authorization": text}, 8000) for text in ("Bearer", f"Bearer {user.token} x", f"Digest {user.token}")]
    rows += [({}, 8003), ({"Authorization": ""}, 8003)]
    rows += [(basic("a", "b"), 8001), (basic("", ""), 8001), ({"Authorization": "Basic %%%"}, 8001)]
    calls = [("GET", "/me"), ("POST", "/me/videos"), ("DELETE", "/tokens"), ("GET", "/oauth/verify")]
    with unchanged(user):
        for fields, wanted in rows:
            for method, path in calls:
                answer = Plain(server)(method, path, json={"upload": UPLOAD}, headers=fields)
                document = user.refused(answer, 401, wanted)
                assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
                if wanted == 8000:
                    assert document["error"] == "You must provide a valid authenticated access token."


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/oauth/authorize/client", {"grant_type": "client_credentials"}),
        ("/oauth/access_token", {"grant_type": "authorization_code", "code": "x"}),
    ],
)
def test_credentials_of_an_app_that_are_none(server, user, path, body):
    made = run("keys", "create", "--name", "vimeo", "--scope", "mint", environment=server.environment).stdout
    key, secret = re.search(r"id: (\S+)", made)[1], re.search(r"slk_\S+", made)[0]
    rows = [basic(key, "x"), basic("x", secret), basic(key, ""), {}, {"Authorization": f"Bearer {secret}"}]
    for fields in rows:
        user.refused(Plain(server)("POST", path, data=body, headers=fields), 401, 8001)
    for wrong in ({}, {"grant_type": "password"}, body | {"scope": "upload", "code": "y"}):
        answer = Plain(server)("POST", path, data=wrong, headers=basic(key, secret))
        user.refused(answer, 400, 2204)


def test_tokens_without_a_user(server, user):
    made = run("keys", "create", "--name", "vimeo", "--scope", "mint", environment=server.environment).stdout
    key, secret = re.search(r"id: (\S+)", made)[1], re.search(r"slk_\S+", made)[0]
    answer = Plain(server)(
        "POST", "/oauth/authorize/client", data={"grant_type": "client_credentials"}, headers=basic(key, secret)
    )
    assert answer.status_code == 200
    rows = [{"Authorization": f"Bearer {answer.json()['access_token']}"}, basic(key, secret)]
    for fields in rows:
        for method, path in (("GET", "/me"), ("GET", "/me/videos"), ("POST", "/me/videos"), ("GET", VIDEO)):
            user.refused(Plain(server)(method, path, json={"upload": UPLOAD}, headers=fields), 401, 8002)


@pytest.mark.parametrize("scope", ["upload", "edit", "delete"])
def test_scopes_that_are_missing(server, user, scope):
    video, ticket = user.create(0), user.ticket()
    uri = video["uri"]
    picture = user.post({}, uri + "/pictures").json()["uri"]
    calls = {
        "upload": [("POST", "/me/videos"), ("POST", video["user"]["uri"] + "/videos"), ("PUT", uri + "/files")]
        + [("POST", uri + "/" + name) for name in ("versions", "pictures", "texttracks")]
        + [("DELETE", ticket["complete_uri"])],
        "edit": [("PATCH", uri), ("PATCH", picture), ("DELETE", picture)],
        "delete": [("DELETE", uri)],
    }
    weak = token(server, user.name, scopes=[one for one in SCOPES if one != scope])
    body = {"name": "x", "type": "captions", "upload": UPLOAD, "file_name": "a"}
    with unchanged(user):
        for method, path in calls[scope]:
            document = user.refused(Plain(server, weak)(method, path, json=body), 403)
            assert f'"{scope}"' in document["error"]
    assert user("GET", picture).status_code == 200


@pytest.mark.parametrize("kind", ["pictures", "texttracks"])
def test_a_complete_attachment_is_deleted_with_the_scope_delete(server, user, kind):
    """Also one that the same token has added: what is complete stays with an API key that deletes nothing."""
    video = user.create(0)["uri"]
    weak = Plain(server, token(server, user.name, scopes=[one for one in SCOPES if one != "delete"]))
    made = weak("POST", f"{video}/{kind}", json={"type": "captions", "language": "en", "name": "n"}).json()
    assert weak("DELETE", made["uri"]).status_code == 204
    made = weak("POST", f"{video}/{kind}", json={"type": "captions", "language": "en", "name": "n"}).json()
    assert requests.put(made["link"], data=b"content", timeout=20).status_code == 200
    document = user.refused(weak("DELETE", made["uri"]), 403)
    assert '"delete"' in document["error"]
    assert user("GET", made["uri"]).status_code == 200
    assert user("DELETE", made["uri"]).status_code == 204


# 4101 to 4104, 3428

POLICIES = [
    ({"storedBytes": 100}, None, 4101),
    ({"periodBytes": 100}, None, 4102),
    ({"openUploads": 0}, None, 4103),
    ({"periodUploads": 0}, None, 4104),
    ({}, 100, 3428),
    # The token's total is more than the account has.
    ({"storedBytes": 100}, 200, 4101),
    ({"storedBytes": 200}, 100, 3428),
    # Of both limits the period's is told.
    ({"periodBytes": 100}, 100, 4102),
    ({"periodBytes": 100, "storedBytes": 100}, None, 4102),
    ({"periodUploads": 0, "openUploads": 0}, None, 4104),
]
LIMITS = [pytest.param(*row, id=f"{row[2]}-{'-'.join(row[0]) or 'token'}{'-cap' * bool(row[1])}") for row in POLICIES]


@pytest.mark.parametrize(("policy", "total", "code"), LIMITS)
def test_quotas_when_something_is_created(server, policy, total, code):
    user = User(server, **({"quota": total} if total else {}))
    uri = user.create(0)["uri"]
    user.limit(**policy)
    upload = {"size": 101, "link": "https://origin.example/x"}
    bodies = [("POST", "/me/videos", {"upload": upload | {"approach": one}}) for one in ("tus", "streaming", "post")]
    bodies.append(("POST", uri + "/versions", {"file_name": "a", "upload": upload | {"approach": "tus"}}))
    with unchanged(user):
        for method, path, body in bodies:
            answer = user(method, path, json=body)
            user.refused(answer, 403, code)
            # Waiting helps only with a period.
            assert ("Retry-After" in answer.headers) == (code in (4102, 4104))
        for method, path in (("POST", "/me/videos"), ("PUT", uri + "/files")):
            user.refused(user(method, path, json={"type": "streaming", "size": 101}, headers=OLD), 403, code)
    if "Uploads" not in "".join(policy):
        # What still fits is taken, and a quota that counts bytes has room for it once.
        assert user.create(100)["upload"]["size"] == 100
        user.refused(user.post({"upload": UPLOAD}), 403, code)


def chunks(data, size=10):
    """Sent chunked, so that nobody knows the length."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("kind", ["streaming", "post", "ticket", "picture"])
@pytest.mark.parametrize("is_announced", [True, False], ids=["length", "chunked"])
@pytest.mark.parametrize(("policy", "total", "code"), [one for one in LIMITS if "Uploads" not in one.id])
def test_quotas_as_bytes_come(server, policy, total, code, is_announced, kind):
    """Of what was created without a size: iOS reads the status of the video, not that of the PUT (section 8.3)."""
    user = User(server, **({"quota": total} if total else {}))
    if kind == "ticket":
        made = user.ticket()
        link = made["upload_link"]
    elif kind == "picture":
        made = user.post({}, user.create(0)["uri"] + "/pictures").json()
        link = made["link"]
    else:
        made = user.bare(kind)
        link = made["upload"]["upload_link"]
    user.limit(**policy)
    content = bytes(300)
    answer = Plain(server)("PUT", link, data=content if is_announced else chunks(content))
    user.refused(answer, 403, code)
    used = user.api.get(f"/v1/quota/subjects/{user.name}").json()["used"]["storedBytes"]
    assert used <= min([*policy.values(), *([total] if total else [])])
    if kind == "ticket":
        assert user("DELETE", made["complete_uri"]).status_code >= 400
    elif kind == "picture":
        assert user("GET", made["uri"]).json()["sizes"] == []
    else:
        found, state = user("GET", made["uri"]).json(), user("GET", made["uri"] + "/status").json()["state"]
        is_total = code == 3428
        assert (found["status"], state) == (
            ("total_cap_exceeded", "exceeds_total_cap") if is_total else ("quota_exceeded", "exceeds_quota")
        )
        assert (found["upload"]["status"], found["transcode"]["status"]) == ("error", "error")
    # A smaller file gets through, unless the period is used up.
    if code != 4102:
        assert Plain(server)("PUT", link, data=b"small").status_code == 200
        if kind == "ticket":
            assert stored(server, user("DELETE", made["complete_uri"]).headers["Location"]) == b"small"
        elif kind != "picture":
            assert user("GET", made["uri"]).json()["status"] == "available"


def test_room_that_the_token_has_left(server):
    """The cap counts all that the user has, and what is deleted comes back."""
    user = User(server, quota=100)
    uri = user.create(60)["uri"]
    assert user("GET", "/me").json()["upload_quota"]["space"]["free"] == 40
    user.refused(user.post({"upload": {"approach": "tus", "size": 41}}), 403, 3428)
    user.create(40)
    assert user("DELETE", uri).status_code == 204
    user.create(60)


@pytest.mark.parametrize("size", [1 << 62, (1 << 63) - 1])
def test_sizes_for_which_no_server_has_room(user, size):
    with unchanged(user):
        user.refused(user.post({"upload": {"approach": "tus", "size": size}}), 400, 2204, "upload.size")
        user.refused(user.post({"type": "streaming", "size": size}, **OLD), 400, 2204)


# 5000 and others: what is not there


def test_what_is_not_there(server, user):
    video = user.create(5)
    other = User(server)
    theirs, ticket = other.create(5), other.ticket()
    picture = other.post({}, theirs["uri"] + "/pictures").json()["uri"]
    calls = [
        (method, uri + rest)
        for uri in (VIDEO, theirs["uri"], "/videos/0", "/videos/x", "/videos/1", "/videos/9" + "9" * 18, "/videos/-1")
        for method, rest in (
            ("GET", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("GET", "/status"),
            ("PUT", "/files"),
            ("GET", "/versions"),
            ("GET", "/pictures"),
            ("POST", "/texttracks"),
            ("DELETE", "/pictures/217340000123457"),
        )
    ]
    calls += [("GET", picture), ("PATCH", picture), ("DELETE", picture), ("GET", video["uri"] + "/pictures/1")]
    # A picture of one video under another, and the ticket of one user under another.
    calls += [("GET", picture.replace(theirs["uri"], video["uri"])), ("GET", ticket["uri"])]
    calls += [("GET", "/users/1/uploads/" + ticket["ticket_id"]), ("DELETE", ticket["complete_uri"])]
    calls += [("GET", path) for path in ("/me/nothing", "/videos", "/users", "/users/x", "/users/1", "/oauth/nothing")]
    with unchanged(user), unchanged(other):
        for method, path in calls:
            body = {"type": "captions" if path.endswith("texttracks") else "streaming", "name": "x"}
            user.refused(user(method, path, json=body), 404, 5000)


def test_codes_of_versions(user):
    uri = user.create(0)["uri"]
    right = {"file_name": "a", "upload": UPLOAD}
    others = [right | {"upload": {"approach": one, "size": 5}} for one in ("post", "pull", "streaming", "x", 7)]
    rows = [
        (uri, {"file_name": "a"}, {}, 5011),
        (uri, {}, {}, 5011),
        (VIDEO, right, {}, 5012),
        ("/videos/" + user.ticket()["ticket_id"], right, {}, 5012),
        *[(uri, body, {}, 5013) for body in others],
        (uri, right, OLD, 5013),
    ]
    with unchanged(user):
        for where, body, fields, code in rows:
            user.refused(user.post(body, where + "/versions", **fields), 404, code)


def test_codes_of_completion(server, user):
    ticket, second = user.ticket(size=5), user.ticket(size=5)
    other = User(server).ticket(size=5)
    complete = ticket["complete_uri"]
    bare, query = complete.split("?")
    signature = re.search(r"signature=([^&]+)", query)[1]
    rows = [
        (bare, 404, 5007),
        (bare + "?signature=", 404, 5007),
        (bare + "?video_file_id=" + ticket["ticket_id"], 404, 5007),
        (complete.replace(ticket["ticket_id"], VIDEO.rsplit("/", 1)[1]), 404, 5006),
        (complete.replace(ticket["ticket_id"], user.create(5)["uri"].rsplit("/", 1)[1]), 404, 5006),
        (complete.replace(signature, flipped(signature)), 404, 8400),
        (complete.replace(signature, signature[:-1]), 404, 8400),
        (complete.replace(signature, re.search(r"signature=([^&]+)", second["complete_uri"])[1]), 404, 8400),
        (other["complete_uri"], 404, 5000),
        # Nothing has come yet.
        (complete, 400, 4011),
    ]
    with unchanged(user):
        for uri, status, code in rows:
            user.refused(user("DELETE", uri), status, code)
    assert user("PUT", ticket["upload_link"], data=b"abc", headers={"Content-Range": "bytes 0-5/5"}).status_code == 200
    document = user.refused(user("DELETE", complete), 400, 4011)
    assert "3 bytes" in document["developer_message"] and "2 are missing" in document["developer_message"]
    # A refusal does no harm: the rest can still come.
    assert user("PUT", ticket["upload_link"], data=b"de", headers={"Content-Range": "bytes 3-5/5"}).status_code == 200
    answer = user("DELETE", complete)
    assert answer.status_code == 201
    assert stored(server, answer.headers["Location"]) == b"abcde"


PNG = b"\x89PNG\r\n\x1a\n"


def test_files_that_are_no_videos(user):
    """2502, where the gateway is told to look at content."""
    ticket = user.ticket()
    video = user.create(None, "streaming", upload={"approach": "streaming", "mime_type": "video/mp4"})
    user.limit(checksContent=True, contentTypes=["video/*"])
    # Too few bytes to decide before the end.
    assert user("PUT", ticket["upload_link"], data=PNG, headers={"Content-Range": "bytes 0-8/8"}).status_code == 200
    user.refused(user("DELETE", ticket["complete_uri"]), 400, 2502)
    assert user("DELETE", ticket["complete_uri"]).status_code >= 400
    answer = user("PUT", video["upload"]["upload_link"], data=PNG + bytes(1000))
    assert answer.status_code == 400
    # An app that polls learns that this upload has failed.
    assert user("GET", video["uri"]).json().get("status") == "uploading_error"
    assert user("GET", "/me/videos").json()["total"] == 1


# 405, 409, 429


def test_methods_that_are_not_allowed(user):
    video, ticket = user.create(5), user.ticket()
    uri = video["uri"]
    picture = user.post({}, uri + "/pictures").json()
    track = user.post({"type": "captions"}, uri + "/texttracks").json()
    plain, form = user.bare("streaming"), user.bare("post")
    rows = [
        ("/me", "GET"),
        (video["user"]["uri"], "GET"),
        ("/me/videos", "GET, POST"),
        (uri, "GET, PATCH, DELETE"),
        (uri + "/status", "GET"),
        (uri + "/files", "PUT"),
        (uri + "/versions", "GET, POST"),
        (uri + "/versions/" + uri.rsplit("/", 1)[1], "GET"),
        (uri + "/pictures", "GET, POST"),
        (picture["uri"], "GET, PATCH, DELETE"),
        (track["uri"], "GET, PATCH, DELETE"),
        (ticket["uri"], "GET, DELETE"),
        ("/oauth/authorize/client", "POST"),
        ("/oauth/access_token", "POST"),
        ("/oauth/verify", "GET"),
        ("/tokens", "DELETE"),
        (video["upload"]["upload_link"], "HEAD, PATCH, OPTIONS"),
        (plain["upload"]["upload_link"], "PUT, OPTIONS"),
        (ticket["upload_link"], "PUT, OPTIONS"),
        (form["upload"]["upload_link"], "PUT, POST, OPTIONS"),
        (picture["link"], "PUT, OPTIONS"),
        (track["link"], "PUT, OPTIONS"),
    ]
    with unchanged(user):
        for path, allowed in rows:
            names = allowed.split(", ")
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO"} - set(names):
                answer = user(method, path, data=b"")
                user.refused(answer, 405)
                assert answer.headers["Allow"] == allowed, (method, path)
                assert user("OPTIONS", path).headers["Allow"].split(", ") == [*names, *{"OPTIONS"} - set(names)], path
    for method in ("PUT", "FOO", "POST "):
        answer = user("POST", uri, json={}, headers={"X-HTTP-Method-Override": method})
        user.refused(answer, 405)
    # What caches and browsers repeat or send ahead changes nothing.
    with unchanged(user):
        for method in ("DELETE", "PATCH", "PUT"):
            assert user("GET", uri, headers={"X-HTTP-Method-Override": method}).status_code == 200


def test_options_of_links_name_what_they_can_do(user):
    for kind, (_, link) in links_of(user).items():
        plain = Plain(user.server)
        answer = plain("OPTIONS", link)
        assert answer.status_code == 204
        wanted = {"tus": "HEAD, PATCH, OPTIONS", "post": "PUT, POST, OPTIONS"}.get(kind, "PUT, OPTIONS")
        assert answer.headers["Allow"] == wanted
        # No creation, checksum or termination (section 4.3).
        told = {name for name in answer.headers if name.lower().startswith("tus-")}
        assert told == ({"Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size"} if kind == "tus" else set())
        assert answer.headers.get("Tus-Extension") == ("expiration" if kind == "tus" else None)
        page = {"Origin": "https://app.example", "Access-Control-Request-Method": "PATCH"}
        methods = plain("OPTIONS", link, headers=page).headers["Access-Control-Allow-Methods"].split(", ")
        assert set(wanted.split(", ")) <= set(methods)
        assert not {"DELETE", "GET"} & set(methods)


def test_too_many_calls(tmp_path):
    with Server(tmp_path / "data", environment={"SLUICE_VIMEO_CALLS_PER_MINUTE": "3"}) as server:
        user = User(server)
        if time.time() % 60 > 50:
            time.sleep(11)
        link = user.create(3, "streaming")["upload"]["upload_link"]
        for _ in range(2):
            assert user("GET", "/me").status_code == 200
        for method, path in (("GET", "/me"), ("POST", "/me/videos"), ("DELETE", "/tokens")):
            answer = user(method, path, json={"upload": UPLOAD})
            user.refused(answer, 429)
            # go-vimeo recognises it by this, and dot-net reads no other form of a time.
            assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("3", "0")
            assert datetime.fromisoformat(answer.headers["X-RateLimit-Reset"]).utcoffset().seconds == 0
            assert 0 < int(answer.headers["Retry-After"]) <= 60
        # Content is not counted.
        assert Plain(server)("PUT", link, data=b"abc").status_code == 200
        uploads = user.api.get("/v1/uploads").json()["uploads"]
        assert [one["state"] for one in uploads] == ["completed"]


# Links


def links_of(user):
    """A link of each kind, with its video."""
    uri = user.create(0)["uri"]
    track = {"type": "captions", "language": "en"}
    videos = {name: user.create(5, name) for name in ("tus", "streaming", "post")}
    found = {name: (video["uri"], video["upload"]["upload_link"]) for name, video in videos.items()}
    found["ticket"] = None, user.ticket(size=5)["upload_link"]
    found["picture"] = uri, user.post({}, uri + "/pictures").json()["link"]
    found["track"] = uri, user.post(track, uri + "/texttracks").json()["link"]
    return found


def knock(link):
    """The statuses of all that clients send to a link."""
    if "/files/" in link:
        tries = [("HEAD", TUS), ("PATCH", tus_fields(0)), ("OPTIONS", {}), ("OPTIONS", TUS)]
    else:
        tries = [("OPTIONS", {}), ("PUT", {}), ("PUT", PROBE), ("PUT", {"Content-Range": "bytes 0-5/5"}), ("HEAD", TUS)]
        tries += [("PATCH", tus_fields(0)), ("POST", {"Content-Type": "multipart/form-data; boundary=x"})]
    answers = [
        requests.request(method, link, headers=fields, data=None if method == "HEAD" else b"abcde", timeout=20)
        for method, fields in tries
    ]
    return {answer.status_code for answer in answers}


def test_a_link_works_with_the_token_of_anybody(server, user):
    link = user.create(5)["upload"]["upload_link"]
    other = Plain(server, User(server).token)
    for query in ("", "?x=%zz", "?fields=error&expires=1"):
        assert exactly(other, "HEAD", link + query, **TUS).headers["Upload-Offset"] == "0"
    answer = other("PATCH", link, data=b"abcde", headers=tus_fields(0))
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, "5")
    link = user.create(5, "streaming")["upload"]["upload_link"]
    assert exactly(other, "PUT", link + "?x=%zz", b"abcde").status_code == 200


def test_links_that_were_changed(server, user):
    mine, theirs = links_of(user), links_of(User(server))
    second = links_of(user)
    with unchanged(user):
        for kind, (_, link) in mine.items():
            root, name = link.rsplit("/", 1)
            record, signature = name.split(".", 1)
            places = [number for number, letter in enumerate(record) if letter.isalnum()]
            changed = [f"{record}.{flipped(signature, place)}" for place in (0, len(signature) // 2)]
            changed += [f"{flipped(record, place)}.{signature}" for place in (places[0], places[-1])]
            for another in (theirs, second):
                other, sign = another[kind][1].rsplit("/", 1)[1].split(".", 1)
                changed += [f"{record}.{sign}", f"{other}.{signature}"]
            changed += [record, record + ".", "." + signature, signature, f"{record}..{signature}"]
            changed += [f"{record}.{signature}A", f"{record}.{signature[:-1]}", f"0{record}.{signature}"]
            changed += [f"{record}-1.{signature}", f"-{record}.{signature}"]
            for name in changed:
                assert knock(f"{root}/{name}") == {404}, (kind, name)
            # The same name where other kinds of links are.
            for place in ("videos", "pictures", "texttracks", "files", "nothing"):
                if f"/{place}/" not in link:
                    other = f"{server.url}/vimeo/{place}/{record}.{signature}"
                    assert knock(other) == {404}, (kind, place)
    for kind in ("tus", "streaming", "post", "ticket"):
        assert status_of(mine[kind][1]) in ((200, "0"), (308, "bytes=0-0"))


def status_of(link):
    """What a client learns that asks how much is there."""
    if "/files/" in link:
        answer = requests.head(link, headers=TUS, timeout=20)
        return answer.status_code, answer.headers.get("Upload-Offset")
    answer = requests.put(link, headers=PROBE, timeout=20)
    return answer.status_code, answer.headers.get("Range")


@pytest.mark.parametrize("sent", [0, 2, 5])
def test_links_after_the_video_was_deleted(user, sent):
    found = links_of(user)
    del found["ticket"]
    for kind, (uri, link) in found.items():
        if kind == "tus":
            requests.patch(link, data=b"abcde"[:sent], headers=tus_fields(0), timeout=20)
        elif kind != "post":
            requests.put(link, data=b"abcde"[:sent], headers={"Content-Range": "bytes 0-5/5"}, timeout=20)
        # The picture and the track have one video.
        if kind != "track":
            assert user("DELETE", uri).status_code == 204
        for _ in range(2):
            assert knock(link) == {404}, kind
        for method, path in (("DELETE", ""), ("GET", ""), ("PATCH", ""), ("GET", "/status"), ("GET", "/pictures")):
            user.refused(user(method, uri + path, json={"name": "x"}), 404, 5000)
    assert user("GET", "/me/videos").json()["total"] == 0
    used = user.api.get(f"/v1/quota/subjects/{user.name}").json()["used"]
    # Only the ticket is left.
    assert (used["storedBytes"], used["openUploads"]) == (5, 1)


def test_links_of_what_was_deleted_alone(user):
    """A picture, a text track and another file go without their video, or with it."""
    uri = user.create(0)["uri"]
    for path, body in (("/pictures", {}), ("/texttracks", {"type": "captions"})):
        for sent in (b"", b"abcde"):
            made = user.post(body, uri + path).json()
            if sent:
                assert Plain(user.server)("PUT", made["link"], data=sent).status_code == 200
            assert user("DELETE", made["uri"]).status_code == 204
            assert knock(made["link"]) == {404}
            user.refused(user("DELETE", made["uri"]), 404, 5000)
    version = user.post({"file_name": "a", "upload": UPLOAD}, uri + "/versions").json()
    assert requests.patch(version["upload"]["upload_link"], data=b"ab", headers=tus_fields(0)).status_code == 204
    assert user("DELETE", uri).status_code == 204
    assert knock(version["upload"]["upload_link"]) == {404}
    user.refused(user("GET", version["uri"]), 404, 5000)
    # A ticket that nobody wants any more; its client cannot delete it.
    ticket = user.ticket(size=5)
    [upload] = user.api.get("/v1/uploads", params={"subject": user.name, "state": "open"}).json()["uploads"]
    assert user.api.delete(f"/v1/uploads/{upload['id']}").status_code == 204
    assert knock(ticket["upload_link"]) == {404}
    user.refused(user("DELETE", ticket["complete_uri"]), 404, 5006)


def test_a_video_is_deleted_while_bytes_come(server, user):
    for approach in ("tus", "streaming", "post"):
        video = user.create(1 << 20, approach)
        link = video["upload"]["upload_link"]
        if approach == "tus":
            wire = Wire(server.address)
            wire.send(head("PATCH", urlsplit(link).path, patch_fields(0, 1 << 20)) + bytes(1 << 19))
        else:
            put = Put(server, link, 1 << 20)
            wire = put.wire
            put.send(bytes(1 << 19))
        begun(user)
        assert user("DELETE", video["uri"]).status_code == 204
        with contextlib.suppress(ConnectionError, Closed):
            wire.send(bytes(1 << 19))
            assert wire.reply().status >= 400
        wire.close()
        assert knock(link) == {404}, approach


def test_a_ticket_after_its_video_was_deleted(user):
    ticket = user.ticket()
    assert user("PUT", ticket["upload_link"], data=b"abcde").status_code == 200
    uri = user("DELETE", ticket["complete_uri"]).headers["Location"]
    assert user("DELETE", uri).status_code == 204
    assert knock(ticket["upload_link"]) == {404}
    user.refused(user("DELETE", ticket["complete_uri"]), 404, 5006)
    user.refused(user("GET", ticket["uri"]), 404, 5000)
    user.refused(user("DELETE", uri), 404, 5000)


# Content that does not fit


@pytest.mark.parametrize("offset", [0, 2, 4, 5, 6, 1 << 62])
def test_a_patch_at_the_wrong_offset(user, offset):
    link = user.create(5)["upload"]["upload_link"]
    assert requests.patch(link, data=b"abc", headers=tus_fields(0), timeout=20).status_code == 204
    assert requests.patch(link, data=b"de", headers=tus_fields(offset), timeout=20).status_code == 409
    assert status_of(link) == (200, "3")


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, 412), ({"Tus-Resumable": "0.2.2"}, 412), *[(TUS | {"Upload-Offset": text}, 400) for text in ("x", "-1", "")]],
)
def test_a_patch_without_what_tus_needs(user, fields, status):
    link = user.create(5)["upload"]["upload_link"]
    answer = requests.patch(link, data=b"abc", headers={"Content-Type": OFFSET_TYPE} | fields, timeout=20)
    assert answer.status_code == status
    assert status_of(link) == (200, "0")


WHOLE = hashlib.sha256(b"abcde").hexdigest().encode()


@pytest.mark.parametrize(
    "checksum",
    [
        # tus-php, with which vimeo.php 3.0 uploads: hex of the whole file, with each piece.
        "sha256 " + base64.b64encode(WHOLE).decode(),
        "sha1 " + base64.b64encode(hashlib.sha1(b"other").digest()).decode(),
        "sha256 " + base64.b64encode(hashlib.sha256(b"other").digest()).decode(),
        "sha512 x",
        "crc32",
        "",
    ],
)
def test_checksums_of_tus_are_not_looked_at(server, user, checksum):
    version = {"file_name": "a", "upload": UPLOAD}
    for video in (user.create(5), user.post(version, user.create(0)["uri"] + "/versions").json()):
        link = video["upload"]["upload_link"]
        fields = {"Upload-Checksum": checksum}
        assert requests.head(link, headers=TUS | fields, timeout=20).status_code == 200
        for start, end, trailer in ((0, 3, {}), (3, 5, {"Trailer": "Upload-Checksum"})):
            piece = b"abcde"[start:end]
            headers = tus_fields(start) | fields | trailer
            answer = requests.patch(link, data=chunks(piece) if trailer else piece, headers=headers, timeout=20)
            assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(end))
        assert status_of(link) == (200, "5")


def test_a_patch_past_the_size(server, user):
    """A file that grew is never taken for complete, and nothing past the size is stored."""
    video = user.create(5)
    link = video["upload"]["upload_link"]
    for data in (b"abcdefg", chunks(b"abcdefg", 7), chunks(b"abcdefg", 1), b"abcdef", b"abcde" * 1000):
        offset = int(status_of(link)[1])
        answer = requests.patch(link, data=data, headers=tus_fields(offset), timeout=20)
        assert answer.status_code == 413
        assert int(status_of(link)[1]) < 5
        assert user("GET", video["uri"]).json()["status"] == "uploading"
    offset = int(status_of(link)[1])
    # vimeo.php 2.0.5 announces the whole file, but here it sends that much, too.
    assert requests.patch(link, data=b"vwxyz", headers=tus_fields(offset), timeout=20).status_code == 413 or offset == 0
    offset = int(status_of(link)[1])
    assert requests.patch(link, data=b"abcde"[offset:], headers=tus_fields(offset), timeout=20).status_code == 204
    assert user("GET", video["uri"]).json()["status"] == "available"
    for data in (b"x", chunks(b"x")):
        answer = requests.patch(link, data=data, headers=tus_fields(5), timeout=20)
        assert 400 <= answer.status_code < 500, answer.status_code
    assert len(stored(server, video["uri"])) == 5


@pytest.mark.parametrize("announced", [6, 10, 5_000_000])
@pytest.mark.parametrize("approach", ["tus", "streaming", "ticket", "picture"])
def test_more_is_announced_than_the_file_has(server, user, approach, announced):
    """Counts as ends, lengths of whole files: what does not come is not waited for (section 15)."""
    if approach == "picture":
        picture = user.post({}, user.create(0)["uri"] + "/pictures").json()
        link = picture["link"]
    else:
        link, video = target(user, approach, 5)
    if approach == "tus":
        start = head("PATCH", urlsplit(link).path, patch_fields(0, announced))
    else:
        fields = [("Content-Length", announced), ("Content-Range", "bytes 0-5/5")]
        start = head("PUT", urlsplit(link).path, fields)
    with Wire(server.address) as wire:
        wire.send(start + b"abcde")
        assert wire.reply().status == (204 if approach == "tus" else 200)
    if approach == "picture":
        [shown] = user("GET", picture["uri"]).json()["sizes"]
        assert requests.get(shown["link"], timeout=20).content == b"abcde"
    else:
        assert stored(server, video()) == b"abcde"


@pytest.mark.parametrize("approach", ["tus", "streaming", "ticket"])
def test_a_connection_after_less_than_was_announced(server, user, approach):
    """SDKs that resume announce the whole file and send its rest (section 1, 7).

    The connection must end: of a further request on it, the first bytes would be taken for what is missing.
    """
    link, video = target(user, approach, 5)
    if approach == "tus":
        assert requests.patch(link, data=b"abc", headers=tus_fields(0), timeout=20).status_code == 204
        start = head("PATCH", urlsplit(link).path, patch_fields(3, 5))
    else:
        fields = {"Content-Range": "bytes 0-3/5"}
        assert requests.put(link, data=b"abc", headers=fields, timeout=20).status_code == 200
        start = head("PUT", urlsplit(link).path, [("Content-Length", 5), ("Content-Range", "bytes 3-5/5")])
    with Wire(server.address) as wire:
        wire.send(start + b"de")
        answer = wire.reply()
        assert answer.status == (204 if approach == "tus" else 200)
        assert answer["connection"] == "close"
        assert wire.rest() == b""
    assert stored(server, video()) == b"abcde"


@pytest.mark.parametrize("approach", ["streaming", "post", "ticket"])
def test_a_put_past_the_size(server, user, approach):
    if approach == "ticket":
        ticket = user.ticket(size=5)
        link = ticket["upload_link"]
    else:
        video = user.create(5, approach)
        link = video["upload"]["upload_link"]
    plain = Plain(server)
    for text in ("bytes 0-7/7", "bytes: 0-7/7", "bytes 0-6/7", "bytes 0-7.0/7.0"):
        user.refused(plain("PUT", link, data=b"abcdefg", headers={"Content-Range": text}), 413)
    user.refused(plain("PUT", link, data=b"abcdefg", headers={"Content-Range": "bytes 0-4/4"}), 409)
    # What is announced beyond the size may not come; what comes is refused.
    for text in (None, "bytes 0-5/5", "bytes: 0-5/5", "bytes 0-4/5", "bytes 0-5.0/5.0", "bytes 0-5/*"):
        for data in (b"abcdefg", chunks(b"abcdefg"), chunks(b"abcdefg", 1), b"abcdef", bytes(100_000)):
            answer = plain("PUT", link, data=data, headers={"Content-Range": text} if text else {})
            user.refused(answer, 413)
            assert status_of(link) == (308, None if text == "bytes 0-4/5" else "bytes=0-0")
            if approach != "ticket":
                # iOS does not look at the status of the PUT (section 8.3).
                assert user("GET", video["uri"]).json()["status"] == "uploading_error"
    # The rest of a file, and more.
    part = {"Content-Range": "bytes 0-3/5"}
    for more in (b"dex", chunks(b"dex", 1), b"abcdex"):
        assert plain("PUT", link, data=b"abc", headers=part).status_code == 200
        user.refused(plain("PUT", link, data=more, headers={"Content-Range": "bytes 3-5/5"}), 413)
        assert status_of(link) == (308, "bytes=0-0")
    assert plain("PUT", link, data=b"abcde", headers={"Content-Range": "bytes 0-5/5"}).status_code == 200
    uri = user("DELETE", ticket["complete_uri"]).headers["Location"] if approach == "ticket" else video["uri"]
    assert stored(server, uri) == b"abcde"


COMPLETE = ["streaming", "post", "form", "ticket", "picture", "track"]


def complete(user, kind):
    """A link whose content `abcde` is complete, and two functions: one sends content, one tells what is shown."""
    plain = Plain(user.server)
    if kind in ("picture", "track"):
        body = {"type": "captions"} if kind == "track" else {}
        made = user.post(body, user.create(0)["uri"] + ("/texttracks" if kind == "track" else "/pictures")).json()
        link = made["link"]

        def shown():
            found = user("GET", made["uri"]).json()
            return requests.get(found["sizes"][0]["link"] if kind == "picture" else found["hls_link"], timeout=20)

        content = lambda: shown().content  # noqa: E731
    else:
        approach = "post" if kind == "form" else kind
        link, video = target(user, approach, 5)
        uri = []
        content = lambda: stored(user.server, uri[0])  # noqa: E731

    def send(data, **fields):
        if kind == "form":
            boundary = {"Content-Type": "multipart/form-data; boundary=b"}
            return plain("POST", link, data=form((FILE, data)), headers=boundary)
        return plain("PUT", link, data=data, headers=fields)

    assert send(b"abcde").status_code == 200
    if kind not in ("picture", "track"):
        uri.append(video())
    assert content() == b"abcde"
    return link, send, content


@pytest.mark.parametrize("kind", COMPLETE)
def test_other_content_for_a_complete_link(user, kind):
    """The right to send bytes has ended: no answer says that other ones were stored."""
    link, send, content = complete(user, kind)
    assert send(b"abcde").status_code == 200
    for data in (b"vwxyz", b"abcdX", b"abc", b"abcdef", b"a"):
        answer = send(data)
        assert answer.status_code in (409, 413), (data, answer.status_code)
        assert answer.headers["Content-Type"] == ERROR
    if kind != "form":
        ranges = ["bytes 0-5/5", "bytes: 0-5/5", "bytes 0-4/5", "bytes 0-5.0/5.0"]
        for text in ranges:
            assert send(b"abcde", **{"Content-Range": text}).status_code == 200
            assert send(b"vwxyz", **{"Content-Range": text}).status_code == 409
        for data in (chunks(b"vwxyz"), chunks(b"abcdX", 1), chunks(b"abc"), chunks(b"abcdef")):
            assert send(data).status_code in (409, 413)
        assert send(chunks(b"abcde", 2)).status_code == 200
        assert send(b"abcdefg", **{"Content-Range": "bytes 0-7/7"}).status_code in (409, 413)
    if kind in ("streaming", "post", "ticket"):
        # A piece whose answer was lost, and another one.
        assert send(b"de", **{"Content-Range": "bytes 3-5/5"}).status_code == 200
        assert send(b"dX", **{"Content-Range": "bytes 3-5/5"}).status_code == 409
    if kind != "form":
        assert status_of(link) == (308, "bytes=0-5")
    assert content() == b"abcde"


@pytest.mark.parametrize("kind", ["streaming", "ticket", "post"])
@pytest.mark.parametrize("size", [100_000, None])
def test_an_empty_put_changes_nothing(server, user, kind, size):
    """vimeo.js 1.2.1 uses the connection again after an early answer."""
    data = os.urandom(100_000)
    if size is None:
        made = user.ticket() if kind == "ticket" else user.bare(kind)
        link = made["upload_link"] if kind == "ticket" else made["upload"]["upload_link"]
        video = lambda: made["uri"] if kind != "ticket" else user("DELETE", made["complete_uri"]).headers["Location"]  # noqa: E731
    else:
        link, video = target(user, kind, size)
    plain = Plain(server)
    part = {"Content-Range": "bytes 0-100000/100000"}
    for count in (0, 60_000):
        if count:
            assert plain("PUT", link, data=data[:count], headers=part).status_code == 200
        for fields in ({}, part):
            for body in (b"", iter([])):
                answer = plain("PUT", link, data=body, headers=fields)
                assert (answer.status_code, answer.content) == (308, b""), fields
                assert answer.headers.get("Range") in (["bytes=0-60000"] if count else ["bytes=0-0", None])
        assert status_of(link) == (308, f"bytes=0-{count}")
    rest = {"Content-Range": "bytes 60000-100000/100000"}
    assert plain("PUT", link, data=data[60_000:], headers=rest).status_code == 200
    assert stored(server, video()) == data


@pytest.mark.parametrize("kind", ["picture", "track"])
def test_an_empty_put_uses_up_no_link(server, user, kind):
    body = {"type": "captions"} if kind == "track" else {}
    uri = user.create(0)["uri"]
    made = user.post(body, uri + ("/texttracks" if kind == "track" else "/pictures")).json()
    plain = Plain(server)
    for data in (b"", iter([])):
        user.refused(plain("PUT", made["link"], data=data), 400)
    # Neither does a question, or a part.
    assert status_of(made["link"]) == (308, "bytes=0-0")
    assert plain("PUT", made["link"], data=b"de", headers={"Content-Range": "bytes 3-5/5"}).status_code == 308
    for data in (b"abc", chunks(b"abc")):
        user.refused(plain("PUT", made["link"], data=data, headers={"Content-Range": "bytes 0-5/5"}), 409)
    for data in (b"abcdef", chunks(b"abcdef")):
        user.refused(plain("PUT", made["link"], data=data, headers={"Content-Range": "bytes 0-5/5"}), 413)
    assert plain("PUT", made["link"], data=b"abcde", headers={"Content-Range": "bytes 0-5.0/5.0"}).status_code == 200
    assert status_of(made["link"]) == (308, "bytes=0-5")


def test_ranges_that_are_none(user):
    video = user.create(5, "streaming")
    link = video["upload"]["upload_link"]
    for text in ("bytes", "bytes 0-5", "items 0-5/5", "bytes 5-0/5", "bytes -1-5/5", "bytes 0-5.5/5", "bytes 0-9/5"):
        user.refused(Plain(user.server)("PUT", link, data=b"abcde", headers={"Content-Range": text}), 400)
    # There must be no hole.
    for text in ("bytes 1-5/5", "bytes 4-5/5", "bytes 5-5/5"):
        answer = Plain(user.server)("PUT", link, data=b"abcde", headers={"Content-Range": text})
        assert (answer.status_code, answer.headers["Range"]) == (308, "bytes=0-0")
    assert user("GET", video["uri"]).json()["status"] == "uploading"


# Forms


def form(*parts, boundary="b"):
    """A form, written by hand: the disposition of each part, and its content."""
    text = b"".join(
        f"--{boundary}\r\nContent-Disposition: form-data{disposition}\r\n\r\n".encode() + content + b"\r\n"
        for disposition, content in parts
    )
    return text + f"--{boundary}--\r\n".encode()


FILE = '; name="file_data"; filename="a.mp4"'
WRONG_FORMS = {
    "empty": (b"", 400, 2205),
    "no-parts": (b"--b--\r\n", 400, None),
    "no-file": (form(('; name="redirect"', b"x"), ('; name="title"', b"y")), 400, None),
    "other-name": (form(('; name="file"; filename="a.mp4"', b"abcde")), 400, None),
    "case": (form(('; name="FILE_DATA"; filename="a.mp4"', b"abcde")), 400, None),
    "no-name": (form(('; filename="a.mp4"', b"abcde")), 400, None),
    "other-boundary": (form((FILE, b"abcde"), boundary="c"), 400, 2205),
    "cut-head": (b"--b\r\nContent-Disposition: form-data; name", 400, 2205),
    "cut-content": (form((FILE, b"abcde"))[:-11], 400, 2205),
    "too-long": (form((FILE, b"abcdefg")), 413, None),
    "not-chosen": (form(('; name="file_data"; filename=""', b"")), 400, None),
}


@pytest.mark.parametrize("size", [5, None])
@pytest.mark.parametrize(("body", "status", "code"), WRONG_FORMS.values(), ids=WRONG_FORMS)
def test_forms_that_are_wrong(server, user, body, status, code, size):
    # Nothing is too long for what has no size.
    size = 4 if status == 413 else size
    video = user.create(size, "post")
    link = video["upload"]["upload_link"]
    fields = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = Plain(server)("POST", link, data=body, headers=fields)
    user.refused(answer, status, code)
    wanted = "uploading_error" if status == 413 else "uploading"
    assert user("GET", video["uri"]).json()["status"] == wanted
    # The form can be sent again.
    content = b"abcde"[:size]
    assert Plain(server)("POST", link, data=form((FILE, content)), headers=fields).status_code == 200
    assert stored(server, video["uri"]) == content


def test_a_form_of_another_type(server, user):
    video = user.create(5, "post")
    for kind in (FORM["Content-Type"], "text/plain", "multipart/form-data", "multipart/form-data; boundary="):
        answer = Plain(server)("POST", video["upload"]["upload_link"], data=b"abcde", headers={"Content-Type": kind})
        user.refused(answer, 415)
    user.refused(Plain(server)("POST", video["upload"]["upload_link"], data=b"abcde"), 415)
    assert user("GET", video["uri"]).json()["status"] == "uploading"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://app.example", "https://app.example?video_uri={}"),
        ("https://app.example/a?b=c&d=%20", "https://app.example/a?b=c&d=%20&video_uri={}"),
        ("https://app.example/a#top", "https://app.example/a?video_uri={}#top"),
        ("http://app.example:81/a?", "http://app.example:81/a?video_uri={}"),
    ],
)
def test_where_a_form_leads(server, user, url, wanted):
    video = user.create(None, "post", upload={"approach": "post", "redirect_url": url})
    answer = Plain(server)("POST", video["upload"]["upload_link"], files={"file_data": ("a.mp4", b"abcde")})
    location = answer.headers["Location"].replace("?&", "?")
    assert (answer.status_code, location) == (303, wanted.format(quote(video["uri"], safe="")))
    assert stored(server, video["uri"]) == b"abcde"


# Requests at the same time


class Put:
    """A PUT that is sent in pieces, on a connection of its own."""

    def __init__(self, server, link, size, content_range=None):
        fields = [("Content-Length", size), ("Content-Type", "video/mp4")]
        if content_range:
            fields.append(("Content-Range", content_range))
        self.wire = Wire(server.address)
        self.wire.send(head("PUT", urlsplit(link).path, fields))

    def send(self, data):
        self.wire.send(data)

    def status(self):
        """That of the answer; `None` if the connection was closed without one."""
        try:
            return self.wire.reply("PUT").status
        except (Closed, ConnectionError):
            return None
        finally:
            self.wire.close()


def target(user, approach, size):
    """A link, and a function that tells the video once its content is there."""
    if approach == "ticket":
        ticket = user.ticket(size=size)
        return ticket["upload_link"], lambda: user("DELETE", ticket["complete_uri"]).headers["Location"]
    video = user.create(size, approach)
    return video["upload"]["upload_link"], lambda: video["uri"]


def coming(user):
    """The user's open upload, and how much of it has arrived; the gateway's own API does not disturb it."""
    [one] = user.api.get("/v1/uploads", params={"subject": user.name, "state": "open"}).json()["uploads"]
    return one["id"], user.api.upload(one["id"])["offset"]


def begun(user, before=None):
    """Waits until bytes of an upload other than `before` have arrived, and returns its id."""

    def identifier():
        with contextlib.suppress(ValueError):
            one, offset = coming(user)
            return one if offset > 0 and one != before else None

    return until(identifier, timeout=20, interval=0.05)


KINDS = pytest.mark.parametrize("approach", ["streaming", "ticket", "post"])


@KINDS
def test_a_probe_in_the_middle_of_a_put(server, user, approach):
    content = os.urandom(2 << 20)
    half = len(content) // 2
    link, video = target(user, approach, len(content))
    put = Put(server, link, len(content), f"bytes 0-{len(content)}/{len(content)}")
    put.send(content[:half])
    found = []

    def has_all():
        status, text = status_of(link)
        found.append(int(text.removeprefix("bytes=0-")))
        return status == 308 and found[-1] == half

    until(has_all, timeout=20, interval=0.1)
    # What was told stays true.
    assert found == sorted(found)
    put.send(content[half:])
    assert put.status() == 200
    assert stored(server, video()) == content


@KINDS
@pytest.mark.parametrize("is_announced", [True, False], ids=["length", "chunked"])
def test_whoever_adds_nothing_does_not_end_a_put(server, user, approach, is_announced):
    """Probes, polls, stray and impossible requests; also when all bytes are there but not their end."""
    content = os.urandom(1 << 20)
    size = len(content)
    link, video = target(user, approach, size)
    uri = None if approach == "ticket" else video()
    text = f"bytes 0-{size}/{size}"
    if is_announced:
        put = Put(server, link, size, text)
        put.send(content[:-1])
        rest = content[-1:]
    else:
        put = SimpleNamespace(wire=Wire(server.address))
        fields = [("Transfer-Encoding", "chunked"), ("Content-Range", text)]
        put.wire.send(head("PUT", urlsplit(link).path, fields))
        put.wire.send(f"{size:x}\r\n".encode() + content + b"\r\n")
        rest = b"0\r\n\r\n"
    until(lambda: status_of(link) == (308, f"bytes=0-{size - 1}"), timeout=20, interval=0.1)
    plain = Plain(server)
    for _ in range(2):
        assert plain("PUT", link, headers={"Content-Range": f"bytes */{size}"}).status_code == 308
        assert plain("PUT", link).status_code == 308
        assert plain("PUT", link, headers={"Content-Range": text}).status_code == 308
        after = {"Content-Range": f"bytes {size}-{size}/{size}"}
        assert plain("PUT", link, data=b"x", headers=after).status_code == 308
        assert plain("OPTIONS", link).status_code == 204
        if uri:
            assert user("GET", uri).json()["status"] == "uploading"
            assert user("GET", uri + "/status").json()["progress"] <= 99
            assert user("GET", "/me/videos").json()["data"][0]["status"] == "uploading"
    put.wire.send(rest)
    assert put.wire.reply("PUT").status == 200
    assert stored(server, video()) == content


@KINDS
def test_of_two_puts_the_newer_wins(server, user, approach):
    size = 1 << 20
    older, newer = os.urandom(size), os.urandom(size)
    link, video = target(user, approach, size)
    one = Put(server, link, size, f"bytes 0-{size}/{size}")
    one.send(older[: size // 2])
    first = begun(user)
    two = Put(server, link, size, f"bytes 0-{size}/{size}")
    two.send(newer[: size // 4])
    begun(user, first)
    # The older goes on while the newer is not at its end.
    with contextlib.suppress(ConnectionError):
        one.send(older[size // 2 :])
    assert one.status() != 200
    two.send(newer[size // 4 :])
    assert two.status() == 200
    assert stored(server, video()) == newer


@KINDS
def test_of_two_puts_that_resume_the_newer_wins(server, user, approach):
    """A client that lost its connection sends the rest again: what the gateway got meanwhile is passed over."""
    size, start = 1 << 20, 1 << 18
    begin, newer = (os.urandom(count) for count in (start, size - start))
    older = newer
    link, video = target(user, approach, size)
    answer = Plain(server)("PUT", link, data=begin, headers={"Content-Range": f"bytes 0-{start}/{size}"})
    assert answer.status_code == 200
    one = Put(server, link, len(older), f"bytes {start}-{size}/{size}")
    one.send(older[: len(older) // 2])
    until(lambda: coming(user)[1] > start, timeout=20, interval=0.05)
    answer = Plain(server)("PUT", link, data=newer, headers={"Content-Range": f"bytes {start}-{size}/{size}"})
    with contextlib.suppress(ConnectionError):
        one.send(older[len(older) // 2 :])
    assert one.status() != 200
    assert answer.status_code == 200
    assert stored(server, video()) == begin + newer


def test_of_two_forms_the_newer_wins(server, user):
    size = 1 << 20
    older, newer = os.urandom(size), os.urandom(size)
    video = user.bare("post")
    link = video["upload"]["upload_link"]
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    body = form((FILE, older))
    with Wire(server.address) as wire:
        fields = [*kind.items(), ("Content-Length", len(body))]
        wire.send(head("POST", urlsplit(link).path, fields) + body[: size // 2])
        begun(user)
        assert Plain(server)("POST", link, data=form((FILE, newer)), headers=kind).status_code == 200
        with contextlib.suppress(ConnectionError, Closed):
            wire.send(body[size // 2 :])
            assert wire.reply("POST").status >= 400
    assert stored(server, video["uri"]) == newer


def test_of_two_images_one_is_kept_as_a_whole(server, user):
    size = 1 << 18
    older, newer = os.urandom(size), os.urandom(size)
    picture = user.post({}, user.create(0)["uri"] + "/pictures").json()
    one = Put(server, picture["link"], size)
    one.send(older[: size // 2])
    begun(user)
    assert Plain(server)("PUT", picture["link"], data=newer).status_code == 200
    with contextlib.suppress(ConnectionError):
        one.send(older[size // 2 :])
    # As many bytes, but others.
    assert one.status() == 409
    [shown] = user("GET", picture["uri"]).json()["sizes"]
    assert requests.get(shown["link"], timeout=20).content == newer
