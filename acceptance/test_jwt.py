"""App users upload with a JSON Web Token of an issuer: with discovery, with a key set, and with a PEM file."""

import base64
import json
import re
import time
from datetime import UTC, datetime

import jwt
import pytest
import requests
from botocore.exceptions import ClientError
from test_clients import assert_stored, run_client

from harness.api import API, field_problem, problem, tus_error, upload_id
from harness.daemon import free_port
from harness.data import write_file
from harness.events import Stream
from harness.identity import CONFIGURATION, IdentityProvider, Key, encoded, hmac_by
from harness.object_client import BUCKET, ROLE, ObjectServer, client, code
from harness.receiver import Receiver
from harness.server import run
from harness.wire import until

ALL = "upload, read, mint, delete"


@pytest.fixture(scope="module")
def provider():
    with IdentityProvider() as one:
        one.keys += [Key("three", "PS256"), Key("four", "EdDSA")]
        yield one


@pytest.fixture
def own_provider():
    """A provider that tests can break."""
    with IdentityProvider() as one:
        yield one


def issuers(*entries):
    return {"SLUICE_JWT_ISSUERS": json.dumps(entries)}


def entry(provider, **more):
    return {"issuer": provider.url, "audience": "app"} | more


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, provider):
    settings = issuers(entry(provider, scopes=ALL))
    with ObjectServer(tmp_path_factory.mktemp("jwt") / "data", free_port(), settings) as server:
        yield server


@pytest.fixture(scope="module")
def admin(gateway):
    return API(gateway.url, gateway.admin_key)


@pytest.fixture
def make_gateway(tmp_path):
    made = []

    def make(*entries, **more):
        made.append(ObjectServer(tmp_path / f"data{len(made)}", free_port(), issuers(*entries) | more))
        return made[-1].start()

    yield make
    for one in made:
        one.stop()


def user(gateway, token):
    return API(gateway.url, token)


def challenge(answer):
    """The parameters of WWW-Authenticate."""
    scheme, _, parameters = answer.headers["WWW-Authenticate"].partition(" ")
    assert scheme == "Bearer"
    return dict(re.findall(r'(\w+)="([^"]*)"', parameters))


# Admission


@pytest.mark.parametrize("number", range(4), ids=["RS256", "ES256", "PS256", "EdDSA"])
def test_a_token_admits_its_user(gateway, admin, provider, number):
    app = user(gateway, provider.token(provider.keys[number], sub=f"user-{number}"))
    url = app.created(3, body=b"abc")
    upload = admin.upload(upload_id(url))
    assert (upload["subject"], upload["state"]) == (f"user-{number}", "completed")
    assert upload["issuer"].startswith("identity_")


@pytest.mark.parametrize("number", range(4), ids=["RS256", "ES256", "PS256", "EdDSA"])
def test_tokens_of_pyjwt_are_accepted(gateway, provider, number):
    key = provider.keys[number]
    token = jwt.encode(provider.claims(sub="pyjwt"), key.private, key.algorithm, {"kid": key.id})
    assert user(gateway, token).create(1).status_code == 201


@pytest.mark.parametrize("name", ["tuspy", "aiotus", "tus.py"])
def test_tus_clients_upload_with_a_token(gateway, admin, provider, tmp_path, name):
    path = tmp_path / "file.bin"
    digest = write_file(path, 3 << 20, seed=7)
    done = run_client(name, f"{gateway.url}/files", provider.token(sub="clients"), path, chunk=1 << 20)
    assert_stored(gateway, admin, done["url"], path, digest)
    assert admin.upload(upload_id(done["url"]))["subject"] == "clients"


def test_the_token_reaches_the_hook_of_the_app(make_gateway, own_provider, tmp_path):
    """A client of tusd whose app decides by its own token, in `pre-create`; it verifies the token itself."""
    key, secret = own_provider.keys[0], "whsec_" + base64.b64encode(bytes(32)).decode()

    def reply(call):
        if call.type != "pre-create":
            assert "Authorization" not in call.request["Header"] | call.fields
            return {}
        (field,) = call.request["Header"]["Authorization"]
        token = field.removeprefix("Bearer ")
        claims = jwt.decode(token, key.private.public_key(), [key.algorithm], audience="app")
        if not claims.get("paid"):
            return {"RejectUpload": True, "HTTPResponse": {"StatusCode": 402, "Body": "pay first"}}
        return {"ChangeFileInfo": {"MetaData": call.upload["MetaData"] | {"owner": claims["sub"]}}}

    with Receiver(secret, reply) as app:
        hooks = {
            "SLUICE_HOOKS_URL": app.url,
            "SLUICE_HOOKS_SECRET": secret,
            "SLUICE_HOOKS_FORWARD_HEADERS": "Authorization",
        }
        gateway = make_gateway(entry(own_provider), **hooks)
        admin = API(gateway.url, gateway.admin_key)
        path = tmp_path / "file.bin"
        digest = write_file(path, 100_000, seed=1)
        done = run_client(
            "tuspy", f"{gateway.url}/files", own_provider.token(sub="anna", paid=True), path, chunk=50_000
        )
        assert_stored(gateway, admin, done["url"], path, digest)
        (upload,) = admin.get("/v1/uploads", params={"subject": "anna"}).json()["uploads"]
        assert upload["metadata"]["owner"] == "anna"
        app.wait("post-finish")
        refused = user(gateway, own_provider.token(sub="bert")).create(1)
        assert (refused.status_code, refused.text) == (402, "pay first")
        count = len(app.calls)
        # The app is not asked about a token that is wrong.
        assert user(gateway, own_provider.token(sub="anna", paid=True, exp=1)).create(1).status_code == 401
        assert len(app.calls) == count


def test_other_protocols_admit_the_user(gateway, provider):
    app = user(gateway, provider.token(sub="plain"))
    for answer in (
        app.request("PUT", "/v1/media/a.txt", data=b"abc"),
        app.post("/v1/media", files={"file": ("b.txt", b"abc", "text/plain")}),
        app.request("PUT", "/files", data=b"abc", headers={"Content-Disposition": 'attachment; filename="c.txt"'}),
        app.post("/v1/tus/uploads", {"length": 3}),
    ):
        assert answer.status_code in (200, 201), answer.text
    uploads = app.get("/v1/uploads").json()["uploads"]
    assert len(uploads) == 4 and {upload["subject"] for upload in uploads} == {"plain"}


def test_users_have_access_to_their_own_uploads_only(gateway, admin, provider):
    anna, bert = (user(gateway, provider.token(sub=name)) for name in ("own-anna", "own-bert"))
    media = upload_id(anna.created(3, body=b"abc"))
    running = upload_id(anna.created(3))
    assert anna.get(f"/media/{media}").content == b"abc"
    assert [upload["id"] for upload in anna.get("/v1/uploads").json()["uploads"]] == [running, media]
    assert bert.get("/v1/uploads").json()["uploads"] == []
    for method, path in (
        ("GET", f"/media/{media}"),
        ("GET", f"/v1/media/{media}"),
        ("DELETE", f"/v1/media/{media}"),
        ("GET", f"/v1/uploads/{running}"),
        ("DELETE", f"/v1/uploads/{running}"),
        ("GET", f"/v1/uploads/{running}/events"),
    ):
        problem(bert.request(method, path), 404, "not_found")
    problem(bert.post(f"/v1/media/{media}/links", {}), 404, "not_found")
    # Not even as a part of another upload: the id is no upload URL.
    final = bert.create(None, headers={"Upload-Concat": f"final;/files/{media}"})
    assert final.status_code in (400, 404)
    issuer = admin.upload(media)["issuer"]
    for path in (
        "/v1/uploads?subject=own-anna",
        "/v1/events?subject=own-anna",
        "/v1/quota/subjects/own-anna",
        f"/v1/quota/keys/{issuer}",
    ):
        problem(bert.get(path), 403, "forbidden")
    problem(bert.post("/v1/tus/tokens", {"subject": "own-anna"}), 403, "forbidden")
    problem(bert.post("/v1/tus/uploads", {"length": 1, "subject": "own-anna"}), 403, "forbidden")
    assert anna.delete(f"/v1/uploads/{running}").status_code == 204
    assert anna.delete(f"/v1/media/{media}").status_code == 204


def test_what_only_the_app_may_do_needs_an_api_key(gateway, provider):
    app = user(gateway, provider.token(sub="limited"))
    media = upload_id(app.created(0))
    refused = (
        ("PATCH", f"/v1/media/{media}", {"metadata": {"a": "b"}}),
        ("PATCH", f"/v1/uploads/{media}", {"metadata": {"a": "b"}}),
        ("POST", "/v1/media/pull", {"url": "https://example.com/a"}),
        ("GET", "/v1/keys", None),
        ("GET", "/metrics", None),
        ("GET", "/v1/hooks/deliveries", None),
        ("POST", "/v1/revocations", {"subject": "limited"}),
        ("PUT", "/v1/quota/subjects/limited", {"storedBytes": 1}),
    )
    for method, path, body in refused:
        assert app.request(method, path, json=body).status_code == 403, path


def test_a_stream_has_the_events_of_the_user_and_ends_with_the_token(gateway, provider):
    token = provider.token(sub="stream", exp=int(time.time()) - 56)
    with Stream(gateway, key=token) as stream:
        assert stream.status == 200
        user(gateway, provider.token(sub="stream-other")).created(1)
        mine = user(gateway, provider.token(sub="stream")).created(1)
        until(lambda: len(stream.events) >= 2, 10, 0.05)
        assert {event.upload["id"] for event in stream.events[1:]} == {upload_id(mine)}
        # The leeway of a minute is over soon.
        until(lambda: stream.ended_well, 10, 0.1)


def test_a_token_mints_for_its_user(gateway, admin, provider):
    app = user(gateway, provider.token(sub="mint"))
    minted = app.post("/v1/tus/tokens", {"subject": "mint", "expiresIn": 604800}).json()
    left = datetime.fromisoformat(minted["expiresAt"]).timestamp() - time.time()
    assert 12 * 3600 - 60 < left <= 12 * 3600
    url = user(gateway, minted["token"]).created(0)
    assert admin.upload(upload_id(url))["subject"] == "mint"
    link = app.post(f"/v1/media/{upload_id(url)}/links", {"expiresIn": 604800}).json()
    assert requests.get(link["url"], timeout=10).status_code == 200
    assert datetime.fromisoformat(link["expiresAt"]).timestamp() - time.time() <= 12 * 3600 + 1

    keys = {"subject": "mint", "bucket": BUCKET, "keyPrefix": "mint/"}
    pair = app.post("/v1/sts/tokens", keys).json()["Credentials"]
    store = client(gateway.object_url, pair=(pair["AccessKeyId"], pair["SecretAccessKey"]), token=pair["SessionToken"])
    store.put_object(Bucket=BUCKET, Key="mint/1", Body=b"1")
    assert code(store.put_object, Bucket=BUCKET, Key="other/1", Body=b"1") == (403, "AccessDenied")

    about = {"bucket": BUCKET, "key": "mint/2"}
    put = app.post("/v1/presigned-urls", about).json()
    assert requests.put(put["url"], data=b"22", timeout=10).status_code == 200
    got = app.post("/v1/presigned-urls", about | {"method": "GET"}).json()
    assert requests.get(got["url"], timeout=10).content == b"22"
    assert app.post("/v1/tencent/signatures", {}).status_code == 201
    assert app.post("/v1/aliyun/uploads", {"title": "a", "fileName": "a.mp4"}).status_code == 201
    assert app.post("/v1/vimeo/tokens", {"subject": "mint"}).status_code == 201

    for wanted in ({"key": "other/1"}, {"key": "mint"}, {"key": "mint/1", "bucket": "vod"}):
        for method in ("PUT", "GET", "DELETE"):
            answer = app.post("/v1/presigned-urls", about | wanted | {"method": method})
            problem(answer, 403, "forbidden")
    for wanted in ({"keyPrefix": ""}, {"keyPrefix": "m"}, {"keyPrefix": "other/"}, {"bucket": "vod"}):
        assert app.post("/v1/sts/tokens", keys | wanted).status_code in (403, 422), wanted
    late = int(time.time()) + 86_400
    field_problem(app.post("/v1/tencent/signatures", {"currentTimeStamp": late}), "expireTime")
    field_problem(app.post("/v1/vimeo/tokens", {"subject": "mint", "code": True}), "code")


def test_pages_with_uppy_upload_to_the_bucket(gateway, provider):
    form = user(gateway, provider.token(sub="uppy")).get("/s3/params?filename=a.txt&type=text/plain").json()
    assert form["fields"]["key"].startswith("uppy/")


# Settings


def test_scopes_are_those_of_the_settings_and_of_a_claim(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider, scopes="upload, read", scopeClaim="scope", scopePrefix="sluice:"))
    uploads = user(gateway, own_provider.token(scope="openid sluice:upload sluice:admin sluice:mint"))
    assert uploads.create(1).status_code == 201
    answer = uploads.get("/v1/uploads")
    problem(answer, 403, "forbidden")
    assert challenge(answer)["error"] == "insufficient_scope"
    assert uploads.post("/v1/tus/tokens", {"subject": "anna"}).status_code == 403
    reads = user(gateway, own_provider.token(scope=["sluice:read"]))
    assert reads.get("/v1/uploads").status_code == 200
    answer = reads.create(1)
    assert tus_error(answer, 403) == "ERR_FORBIDDEN"
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="insufficient_scope", scope="upload"'
    assert user(gateway, own_provider.token()).create(1).status_code == 403


def test_limits_and_metadata_come_from_settings_and_claims(make_gateway, own_provider):
    gateway = make_gateway(
        entry(
            own_provider,
            scopes=ALL,
            maximumBytes="1KiB",
            maximumBytesClaim="max",
            contentTypes="image/*, video/mp4",
            contentTypesClaim="/limits/types",
            metadata={"tenant": "tenant", "plan": "/app_metadata/plan", "absent": "absent"},
            subjectClaim="uid",
            subjectPrefix="idp:",
        )
    )
    admin = API(gateway.url, gateway.admin_key)
    claims = {"tenant": 7, "app_metadata": {"plan": "gold"}, "uid": "7", "sub": None}
    app = user(gateway, own_provider.token(**claims))
    png = {"filetype": "image/png", "tenant": "8", "absent": "mine"}
    upload = admin.upload(upload_id(app.created(1024, metadata=png)))
    assert upload["subject"] == "idp:7"
    # A name of the issuer is empty where the token does not have the claim.
    assert upload["metadata"] == {"filetype": "image/png", "tenant": "7", "plan": "gold", "absent": ""}
    tus_error(app.create(1025, metadata=png), 413)
    tus_error(app.create(1, metadata={"filetype": "text/plain"}), 415)
    assert app.request("PUT", "/v1/media/a.txt", data=b"1", headers={"Content-Type": "text/plain"}).status_code == 415

    less = user(gateway, own_provider.token(**claims, max=10, limits={"types": ["image/png", "text/plain"]}))
    assert less.create(10, metadata=png).status_code == 201
    tus_error(less.create(11, metadata=png), 413)
    tus_error(less.create(1, metadata={"filetype": "image/gif"}), 415)
    tus_error(less.create(1, metadata={"filetype": "text/plain"}), 415)
    more = user(gateway, own_provider.token(**claims, max=4096))
    tus_error(more.create(1025, metadata=png), 413)

    # Limits follow what is minted.
    metadata = {"tenant": "8", "Tenant": "8", "ABSENT": "mine"}
    wanted = {"subject": "idp:7", "maxBytes": 100, "contentTypes": ["image/*", "text/*"], "metadata": metadata}
    minted = user(gateway, less.post("/v1/tus/tokens", wanted).json()["token"])
    tus_error(minted.create(11, metadata=png), 413)
    tus_error(minted.create(1, metadata={"filetype": "image/gif"}), 415)
    upload = admin.upload(upload_id(minted.created(1, metadata=png)))
    assert upload["metadata"] == {"filetype": "image/png", "tenant": "7", "plan": "gold", "absent": ""}
    problem(less.post("/v1/tus/tokens", wanted | {"contentTypes": ["text/*"]}), 403, "forbidden")
    put = less.post("/v1/presigned-urls", {"bucket": BUCKET, "key": "idp%3A7/a", "contentType": "image/png"}).json()
    assert requests.put(put["url"], data=bytes(11), headers=put["headers"], timeout=10).status_code == 400
    # And where they cannot, nothing is minted.
    for path in ("/v1/vimeo/tokens", "/v1/tencent/signatures", "/v1/aliyun/uploads"):
        body = {"subject": "idp:7"} if "aliyun" not in path else {"title": "a", "fileName": "a.mp4"}
        problem(less.post(path, body), 403, "forbidden")

    for wrong in (
        {"max": "10"},
        {"max": -1},
        {"limits": {"types": "x"}},
        {"limits": {"types": []}},
        {"limits": {"types": ["audio/mp3"]}},
        {"limits": "image/png"},
        {"limits": ["image/png"]},
        {"tenant": []},
        {"tenant": "x" * 1025},
    ):
        answer = user(gateway, own_provider.token(**(claims | wrong))).create(1, metadata=png)
        assert tus_error(answer, 401) == "ERR_UNAUTHENTICATED", wrong


def test_what_users_mint_lasts_as_the_issuer_says(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider, scopes=ALL, mintedLifetime="5m"))
    app = user(gateway, own_provider.token(sub="anna"))
    end = int(time.time()) + 301
    signature = app.post("/v1/tencent/signatures", {"subject": "anna"}).json()
    assert end - 10 < signature["expireTime"] <= end
    files = {"videoName": "v", "videoType": "mp4", "videoSize": 3}
    call = f"{gateway.url}/v3/index.php?Action=ApplyUploadUGC"
    begun = requests.post(call, json={"signature": signature["signature"]} | files, timeout=10).json()["data"]
    assert begun["tempCertificate"]["expiredTime"] <= end
    video = app.post("/v1/aliyun/uploads", {"title": "t", "fileName": "v.mp4"}).json()
    again = app.post(f"/v1/aliyun/uploads/{video['VideoId']}/refresh").json()
    for answer in [video, again]:
        assert 290 < int(json.loads(base64.b64decode(answer["UploadAuth"]))["Expiration"]) <= 300
    media = app.request("PUT", "/v1/media/a.txt", data=b"1").json()["id"]
    link = app.post(f"/v1/media/{media}/links", {"expiresIn": 3600}).json()
    assert datetime.fromisoformat(link["expiresAt"]).timestamp() <= end


def test_several_issuers_keep_their_users_apart(make_gateway, own_provider, provider, tmp_path):
    rsa, ed = Key("pem"), Key("pem", "EdDSA")
    (tmp_path / "keys.pem").write_bytes(rsa.public_pem + b"\n" + ed.public_pem)
    gateway = make_gateway(
        entry(own_provider, subjectPrefix="a:"),
        entry(provider, subjectPrefix="b:", jwksUrl=f"{provider.url}/keys", audience=["web", "tv"]),
        {
            "issuer": "partner",
            "audience": "app",
            "keyFile": str(tmp_path / "keys.pem"),
            "algorithms": ["RS256", "EdDSA"],
            "subjectPrefix": "c:",
        },
    )
    admin = API(gateway.url, gateway.admin_key)

    def subject(token):
        return admin.upload(upload_id(user(gateway, token).created(1)))["subject"]

    assert subject(own_provider.token()) == "a:anna"
    assert subject(provider.token(aud="tv")) == "b:anna"
    assert user(gateway, provider.token(aud="app")).create(1).status_code == 401
    # A file has no key ids.
    assert subject(provider.token(rsa, iss="partner", header={"kid": "any"})) == "c:anna"
    assert subject(provider.token(ed, iss="partner", header={"kid": None})) == "c:anna"
    ps256 = jwt.encode(provider.claims(iss="partner"), rsa.private, "PS256")
    assert "not signed with a key" in user(gateway, ps256).create(1).text
    # No issuer signs for another.
    for token in (
        provider.token(iss="partner"),
        provider.token(iss=own_provider.url),
        own_provider.token(aud="web", iss=provider.url),
        own_provider.token(rsa),
    ):
        assert user(gateway, token).create(1).status_code == 401
    names = {upload["issuer"] for upload in admin.get("/v1/uploads").json()["uploads"]}
    assert len(names) == 3


def test_keys_rotate_and_the_provider_may_be_away(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider))
    own_provider.failing = 503
    answer = user(gateway, own_provider.token()).create(1)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    own_provider.failing = None
    until(lambda: user(gateway, own_provider.token()).create(1).status_code == 201, 30, 0.5)
    new = Key("new", "EdDSA")
    own_provider.keys.append(new)
    until(lambda: user(gateway, own_provider.token(new)).create(1).status_code == 201, 30, 0.5)
    # Invented key names must not cause a request each.
    before = len(own_provider.asked)
    unknown = Key("unknown", "ES256")
    for _ in range(30):
        unknown.id += "x"
        assert user(gateway, own_provider.token(unknown)).create(1).status_code == 401
    assert len(own_provider.asked) - before <= 4
    # Nor tokens of an issuer that is not trusted.
    before = len(own_provider.asked)
    assert user(gateway, own_provider.token(unknown, iss="https://login.example")).create(1).status_code == 401
    assert len(own_provider.asked) == before
    assert set(own_provider.asked) == {CONFIGURATION, "/keys"}


WRONG_SETTINGS = {
    "[0].audience": {"audience": ""},
    "[0].issuer": {"issuer": "http://login.example"},
    "[0].keyFile": {"keyFile": "a.pem", "jwksUrl": "https://login.example/keys"},
    "[0].algorithms": {"algorithms": "HS256"},
    "[0].scopes": {"scopes": "admin"},
    "[0].leeway": {"leeway": "6m"},
    "[0].metadata.a b": {"metadata": {"a b": "c"}},
    "[0].subjectClaim": {"subjectClaim": "/a~2"},
    "[0].audiance": {"audiance": "app"},
}


@pytest.mark.parametrize("place", WRONG_SETTINGS)
def test_wrong_settings_are_named(tmp_path, place):
    wrong = {"issuer": "https://login.example", "audience": "app"} | WRONG_SETTINGS[place]
    done = run("check", environment=issuers(wrong) | {"SLUICE_DATA_DIR": str(tmp_path)}, check=False)
    assert done.returncode != 0
    assert f"jwt.issuers{place}" in done.stdout + done.stderr


def test_settings_in_yaml(tmp_path):
    file = tmp_path / "sluice.yaml"
    file.write_text(
        "jwt:\n  issuers:\n"
        "    - issuer: https://a.example\n      audience: [app, web]\n"
        "      maximumBytes: 5GiB\n      subjectPrefix: 'a:'\n"
        "    - issuer: https://b.example\n      audience: app\n"
        "      metadata: {plan: /app/plan}\n      scopes: [upload]\n"
    )
    done = run("check", "--config", str(file), environment={"SLUICE_DATA_DIR": str(tmp_path)}, check=False)
    assert "jwt.issuers[1].subjectPrefix" in done.stdout + done.stderr
    file.write_text(file.read_text() + "      subjectPrefix: 'b:'\n")
    done = run("check", "--config", str(file), environment={"SLUICE_DATA_DIR": str(tmp_path)}, check=False)
    assert done.returncode == 0 and "https://b.example" in done.stdout, done.stdout + done.stderr


# Refusals


def now(seconds=0):
    return int(time.time()) + seconds


def raw(header, claims):
    return f"{encoded(header.encode())}.{encoded(claims.encode())}"


def signed(provider, header, claims):
    """Texts of JSON, which need not be unique."""
    message = raw(header, claims)
    return f"{message}.{encoded(provider.keys[0].sign(message.encode()))}"


def twice(provider):
    claims = json.dumps(provider.claims())
    return signed(provider, '{"alg": "RS256", "kid": "one"}', claims[:-1] + ', "sub": "bert"}')


# A token that must be refused, and a part of the message.
REFUSED = {
    "another audience": (lambda p: p.token(aud="other"), "another audience"),
    "no audience": (lambda p: p.token(aud=None), "another audience"),
    "another issuer": (lambda p: p.token(iss="https://login.example"), "not trusted"),
    "the issuer with a slash": (lambda p: p.token(iss=p.url + "/"), "not trusted"),
    "no issuer": (lambda p: p.token(iss=None), "not trusted"),
    "no subject": (lambda p: p.token(sub=None), "does not name its user"),
    "an empty subject": (lambda p: p.token(sub=""), "does not name its user"),
    "a subject for several users": (lambda p: p.token(sub="an*"), "does not name its user"),
    "a subject with a line feed": (lambda p: p.token(sub="a\nb"), "does not name its user"),
    "no end": (lambda p: p.token(exp=None), "no expiry"),
    "expired": (lambda p: p.token(exp=now(-61)), "has expired"),
    "not yet": (lambda p: p.token(nbf=now(120)), "not valid yet"),
    "made in the future": (lambda p: p.token(iat=now(120)), "not valid yet"),
    "no time of issue": (lambda p: p.token(iat=None), "no time of issue"),
    "valid for too long": (lambda p: p.token(exp=now(86_500)), "86400 seconds"),
    "alg none": (lambda p: p.token(header={"alg": "none"}, signature=b""), "not signed by"),
    "alg NONE": (lambda p: p.token(header={"alg": "NONE"}, signature=b""), "not signed by"),
    "HS256 with the public key": (
        lambda p: p.token(header={"alg": "HS256"}, signature=hmac_by(p.keys[0].public_pem)),
        "not signed by",
    ),
    "no algorithm": (lambda p: p.token(header={"alg": None}), "no algorithm"),
    "PS256 with a key for RS256": (lambda p: p.token(header={"alg": "PS256"}), "not signed with a key"),
    "a key for another algorithm": (lambda p: p.token(header={"kid": "two"}), "not signed with a key"),
    "an unknown key": (lambda p: p.token(Key("unknown")), "not signed with a key"),
    "another key of the same name": (lambda p: p.token(Key("one")), "not signed with a key"),
    "a key of its own": (lambda p: p.token(key := Key("one"), header={"jwk": key.json}), "not signed with a key"),
    "no signature": (lambda p: p.token(signature=b""), "not signed with a key"),
    "an ES256 signature of zeros": (lambda p: p.token(p.keys[1], signature=bytes(64)), "not signed with a key"),
    "critical parameters": (lambda p: p.token(header={"crit": ["exp"], "exp": 1}), "crit"),
    "another type": (lambda p: p.token(header={"typ": "logout+jwt"}), "another type"),
    "a claim twice": (twice, "has a name twice"),
    "a header twice": (
        lambda p: signed(p, '{"alg": "RS256", "alg": "RS256"}', json.dumps(p.claims())),
        "has a name twice",
    ),
    "five parts": (lambda p: p.token() + ".AAAA.AAAA", "three parts"),
    "no JSON": (lambda p: "eyAA.AAAA.AAAA", "is not JSON"),
    "huge": (lambda p: p.token(more="x" * 20_000), "larger than 16384 bytes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_with_a_reason(gateway, provider, case):
    make, reason = REFUSED[case]
    token = make(provider)
    app = user(gateway, token)
    tus, rest = app.create(1), app.get("/v1/uploads")
    plain = app.request("PUT", "/v1/media/a.txt", data=b"1")
    assert tus_error(tus, 401) == "ERR_UNAUTHENTICATED"
    for answer in (rest, plain):
        problem(answer, 401, "unauthenticated")
    for answer in (tus, rest, plain):
        assert reason in answer.text
        assert challenge(answer)["error"] == "invalid_token"
        assert reason in challenge(answer)["error_description"]
        assert token not in answer.text and "anna" not in answer.text


def test_tokens_are_not_in_the_log(gateway, provider):
    tokens = [provider.token(), provider.token(aud="other"), provider.token(Key("unknown"))]
    for token in tokens:
        user(gateway, token).create(1)
        user(gateway, token).get("/v1/uploads")
    log = gateway.log.read_text()
    for token in tokens:
        assert token not in log and token.split(".")[2] not in log


def test_a_request_without_a_credential_has_no_error_code(gateway):
    for answer in (API(gateway.url).create(1), API(gateway.url).get("/v1/uploads")):
        assert answer.status_code == 401 and "error=" not in answer.headers["WWW-Authenticate"]


# Revocation and quotas


def test_revocations_by_subject_and_by_time_end_tokens(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider, scopes=ALL))
    admin = API(gateway.url, gateway.admin_key)

    def works(token):
        return user(gateway, token).create(1).status_code == 201

    early = {name: own_provider.token(sub=name, iat=now(-30)) for name in ("anna", "bert")}
    minted = user(gateway, early["anna"]).post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    assert works(early["anna"]) and works(early["bert"]) and works(minted)
    with Stream(gateway, key=early["anna"]) as stream:
        assert admin.post("/v1/revocations", {"subject": "anna"}).status_code == 201
        until(lambda: not works(early["anna"]), 3, 0.1)
        until(lambda: stream.ended_well, 5, 0.1)
    answer = user(gateway, early["anna"]).create(1)
    assert "was revoked" in answer.text and challenge(answer)["error"] == "invalid_token"
    assert not works(minted) and works(early["bert"])
    # A new token of the user is valid.
    time.sleep(1)
    later = own_provider.token(sub="anna")
    assert works(later)
    moment = datetime.now(UTC)
    assert admin.post("/v1/revocations", {"issuedBefore": moment.isoformat()}).status_code == 201
    until(lambda: not works(early["bert"]), 3, 0.1)
    time.sleep(1)
    assert works(own_provider.token(sub="bert"))


def test_everything_of_an_issuer_ends_when_it_is_no_longer_trusted(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider, scopes=ALL))
    token = own_provider.token()
    minted = user(gateway, token).post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
    assert user(gateway, minted).create(1).status_code == 201
    gateway.stop()
    gateway.environment |= issuers(entry(own_provider, audience="web"))
    gateway.start()
    for credential in (token, minted):
        assert user(gateway, credential).create(1).status_code == 401


def test_the_quota_of_a_user(gateway, admin, provider):
    assert admin.request("PUT", "/v1/quota/subjects/quota", json={"storedBytes": 100}).status_code == 200
    app = user(gateway, provider.token(sub="quota"))
    app.created(60)
    tus_error(app.create(60), 403)
    own = app.get("/v1/quota").json()
    assert (own["account"], own["name"], own["left"]["storedBytes"]) == ("subject", "quota", 40)
    assert user(gateway, provider.token(sub="quota-2")).create(60).status_code == 201


def test_an_expired_token_is_refused_also_when_it_was_used_before(make_gateway, own_provider):
    gateway = make_gateway(entry(own_provider, leeway="0"))
    token = own_provider.token(exp=now(3))
    assert user(gateway, token).create(1).status_code == 201
    until(lambda: user(gateway, token).create(1).status_code == 401, 6, 0.2)


def test_a_changed_part_of_a_used_token_is_noticed(gateway, provider):
    token = provider.token(sub="first")
    assert user(gateway, token).create(1).status_code == 201
    head, claims, signature = token.split(".")
    other = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"sub": "second"}
    changed = f"{head}.{encoded(json.dumps(other).encode())}.{signature}"
    assert user(gateway, changed).create(1).status_code == 401


# Audit log


def audited(gateway, **wanted):
    """Lines of the audit log with these fields."""
    found = [json.loads(line) for line in gateway.whole_log().splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == "audit" and wanted.items() <= line.items()]


def test_sign_ins_are_in_the_audit_log(make_gateway, provider):
    """A user is one line for each address, however many tokens it has."""
    gateway = make_gateway(entry(provider, scopes=ALL), SLUICE_TRUSTED_PROXIES="127.0.0.1")
    for number in range(3):
        app = user(gateway, provider.token(sub="audited", jti=str(number)))
        assert app.create(1).status_code == 201
        assert app.get("/v1/uploads").status_code == 200
    (line,) = audited(gateway, action="user.admit")
    assert (line["subject"], line["client"], line["dialect"]) == ("audited", "127.0.0.1", "tus")
    assert line["by"].startswith("identity_") and line["level"] == "notice" and line["request"]
    answer = app.get("/v1/uploads", headers={"X-Forwarded-For": "192.0.2.9"})
    assert answer.status_code == 200
    (line,) = audited(gateway, action="user.admit", client="192.0.2.9")
    assert line["request"] == answer.headers["X-Request-ID"] and line["dialect"] == "management"
    # Its parser takes more spaces than one.
    for number, path in enumerate(("/v1/uploads", "/me")):
        token = provider.token(sub=f"spaced-{number}")
        fields = {"Authorization": "Bearer" + " " * (number + 2) + token}
        assert requests.get(gateway.url + path, headers=fields, timeout=30).status_code == 200
        assert audited(gateway, action="user.admit", subject=f"spaced-{number}")
    text = gateway.whole_log()
    assert app.key not in text and app.key.split(".")[2] not in text


def test_refused_credentials_are_in_the_audit_log(make_gateway, provider):
    gateway = make_gateway(entry(provider))
    stranger = Key("stranger")
    for token in (provider.token(stranger), provider.token(aud="other"), "ey" + "x." * 40, "slk_unknown"):
        assert user(gateway, token).create(1).status_code == 401
        assert user(gateway, token).get("/v1/uploads").status_code == 401
    assert requests.get(gateway.url + "/v1/uploads", timeout=30).status_code == 401
    found = audited(gateway, action="credential.refuse")
    assert [(line["reason"], line["dialect"]) for line in found] == [
        ("ERR_UNAUTHENTICATED", "tus"),
        ("unauthenticated", "management"),
    ]
    assert all(line["client"] == "127.0.0.1" and "by" not in line for line in found)
    with pytest.raises(ClientError):
        client(gateway.object_url, ("wrong", "secret")).list_buckets()
    (line,) = audited(gateway, action="credential.refuse", dialect="s3")
    assert line["reason"] == "InvalidAccessKeyId"
    assert audited(gateway, action="user.admit") == []


def test_a_flood_of_refusals_is_few_lines(make_gateway, provider):
    gateway = make_gateway(entry(provider), SLUICE_TRUSTED_PROXIES="127.0.0.1")
    app = user(gateway, "slk_unknown")
    start = time.monotonic()
    for number in range(150):
        assert app.get("/v1/uploads", headers={"X-Forwarded-For": f"192.0.2.{number}"}).status_code == 401
    seconds = time.monotonic() - start
    lines = audited(gateway, action="credential.refuse")
    assert 1 <= len(lines) <= 10 * (seconds + 2)
    assert len(lines) + sum(line.get("withheld", 0) for line in lines) <= 150


def test_keys_at_token_services_are_in_the_audit_log(make_gateway, provider):
    gateway = make_gateway(entry(provider))
    sts = client(gateway.object_url, gateway.pair(), "sts")
    for name in ("anna", "bert"):
        sts.assume_role(RoleArn=ROLE, RoleSessionName=name)
    (line,) = audited(gateway, action="session.mint")
    assert line["by"].startswith("key_") and line["dialect"] == "sts" and "subject" not in line
