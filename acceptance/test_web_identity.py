"""AssumeRoleWithWebIdentity: an app signs its user in at an identity provider, and gets credentials for its token."""

import json
import time

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from harness import object_client
from harness.api import API
from harness.daemon import free_port
from harness.identity import CONFIGURATION, IdentityProvider, Key, encoded, hmac_by
from harness.object_client import BUCKET, ROLE, ObjectServer, code, session
from harness.wire import until


@pytest.fixture(scope="module")
def provider():
    with IdentityProvider() as one:
        yield one


@pytest.fixture
def own_provider():
    """A provider that tests can break."""
    with IdentityProvider() as one:
        yield one


def settings(provider, **more):
    return {"SLUICE_IDENTITY_ISSUER": provider.url, "SLUICE_IDENTITY_AUDIENCE": "app, web"} | more


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, provider):
    with ObjectServer(tmp_path_factory.mktemp("identity") / "data", free_port(), settings(provider)) as server:
        yield server


@pytest.fixture
def make_gateway(tmp_path):
    made = []

    def make(provider, **more):
        made.append(ObjectServer(tmp_path / f"data{len(made)}", free_port(), settings(provider, **more)))
        return made[-1].start()

    yield make
    for one in made:
        one.stop()


def sts(gateway, **options):
    """A client that only knows the endpoint."""
    retries = {"total_max_attempts": 1}
    config = Config(signature_version=UNSIGNED, retries=retries, read_timeout=60, **options)
    return boto3.client("sts", endpoint_url=gateway.object_url, region_name="us-east-1", config=config)


def assumed(gateway, token, **more):
    wanted = {"RoleArn": ROLE, "RoleSessionName": "phone", "WebIdentityToken": token} | more
    return sts(gateway).assume_role_with_web_identity(**wanted)


def s3(gateway, answer):
    return object_client.client(gateway.object_url, **session(answer["Credentials"]))


def refusal(gateway, token, **more):
    """Code and message."""
    with pytest.raises(ClientError) as raised:
        assumed(gateway, token, **more)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    error = raised.value.response["Error"]
    assert token not in error["Message"] and "anna" not in error["Message"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("number", [0, 1], ids=["RS256", "ES256"])
def test_a_token_gets_credentials_for_the_keys_of_its_user(gateway, provider, number):
    answer = assumed(gateway, provider.token(provider.keys[number]))
    assert answer["SubjectFromWebIdentityToken"] == "anna"
    assert answer["Audience"] == "app" and answer["Provider"] == provider.url
    assert answer["AssumedRoleUser"]["Arn"].endswith("assumed-role/uploader/phone")
    left = answer["Credentials"]["Expiration"].timestamp() - time.time()
    assert 3500 < left <= 3600
    client = s3(gateway, answer)
    client.put_object(Bucket=BUCKET, Key="anna/1", Body=b"1")
    upload = API(gateway.url, gateway.admin_key).get("/v1/uploads?subject=anna").json()["uploads"][0]
    assert upload["subject"] == "anna" and upload["issuer"].startswith("identity_")
    denied = (403, "AccessDenied")
    for key in ("bert/1", "anna", "annabel/1", "1", "anna%2F/1"):
        assert code(client.put_object, Bucket=BUCKET, Key=key, Body=b"1") == denied, key
    assert code(client.get_object, Bucket=BUCKET, Key="anna/1") == denied
    assert code(client.delete_object, Bucket=BUCKET, Key="anna/1") == denied
    assert code(client.put_object, Bucket="other", Key="anna/1", Body=b"1") == denied
    assert code(client.list_buckets) == denied
    # Such credentials get no others.
    given = session(answer["Credentials"])
    assert code(object_client.client(gateway.object_url, service="sts", **given).get_session_token) == (
        403,
        "InvalidClientTokenId",
    )


def test_a_profile_with_a_token_file_needs_nothing_else(gateway, provider, tmp_path, monkeypatch):
    """As in Kubernetes: botocore requests credentials by itself."""
    (tmp_path / "token").write_text(provider.token(aud=["other", "web"]))
    (tmp_path / "config").write_text(
        "[profile phone]\n"
        f"role_arn = {ROLE}\n"
        f"web_identity_token_file = {tmp_path / 'token'}\n"
        "role_session_name = phone\n"
        "region = us-east-1\n"
        "services = here\n"
        "[services here]\n"
        f"sts =\n  endpoint_url = {gateway.object_url}\n"
        f"s3 =\n  endpoint_url = {gateway.object_url}\n  addressing_style = path\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    client = boto3.Session(profile_name="phone").client("s3", config=Config(s3={"addressing_style": "path"}))
    client.put_object(Bucket=BUCKET, Key="anna/profile", Body=b"1")
    assert code(client.put_object, Bucket=BUCKET, Key="bert/profile", Body=b"1") == (403, "AccessDenied")


def test_a_session_policy_narrows(gateway, provider):
    statement = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/anna/a*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    client = s3(gateway, assumed(gateway, provider.token(), Policy=policy, DurationSeconds=900))
    client.put_object(Bucket=BUCKET, Key="anna/a", Body=b"1")
    assert code(client.put_object, Bucket=BUCKET, Key="anna/b", Body=b"1") == (403, "AccessDenied")


# Each returns an unacceptable token and the code of its refusal.
INVALID, EXPIRED = "InvalidIdentityToken", "ExpiredTokenException"
DENIED = {
    "another audience": (INVALID, lambda p: p.token(aud="other")),
    "no audience": (INVALID, lambda p: p.token(aud=None)),
    "another issuer": (INVALID, lambda p: p.token(iss="https://login.example")),
    "a prefix of the issuer": (INVALID, lambda p: p.token(iss=p.url[:-1])),
    "the issuer with a slash": (INVALID, lambda p: p.token(iss=p.url + "/")),
    "no issuer": (INVALID, lambda p: p.token(iss=None)),
    "no subject": (INVALID, lambda p: p.token(sub=None)),
    "an empty subject": (INVALID, lambda p: p.token(sub="")),
    "no end": (INVALID, lambda p: p.token(exp=None)),
    "expired": (EXPIRED, lambda p: p.token(exp=int(time.time()) - 61)),
    "not yet": (INVALID, lambda p: p.token(nbf=int(time.time()) + 120)),
    "made in the future": (INVALID, lambda p: p.token(iat=int(time.time()) + 120)),
    "alg none": (INVALID, lambda p: p.token(header={"alg": "none"}, signature=b"")),
    "alg None": (INVALID, lambda p: p.token(header={"alg": "None"}, signature=b"")),
    "HS256 with the public key": (
        INVALID,
        lambda p: p.token(header={"alg": "HS256"}, signature=hmac_by(p.keys[0].public_pem)),
    ),
    "HS256 without a key id": (
        INVALID,
        lambda p: p.token(header={"alg": "HS256", "kid": None}, signature=hmac_by(p.keys[0].public_pem)),
    ),
    "RS256 with the key for ES256": (INVALID, lambda p: p.token(header={"kid": "two"})),
    "an unknown key": (INVALID, lambda p: p.token(Key("three"))),
    "another key of the same name": (INVALID, lambda p: p.token(Key("one"))),
    "a key of its own": (INVALID, lambda p: (key := Key("one")) and p.token(key, header={"jwk": key.json})),
    "a key at its own place": (INVALID, lambda p: p.token(Key("one"), header={"jku": "http://127.0.0.1:1/keys"})),
    "no signature": (INVALID, lambda p: p.token(signature=b"")),
    "an ES256 signature of zeros": (INVALID, lambda p: p.token(p.keys[1], signature=bytes(64))),
    "tampered": (
        INVALID,
        lambda p: ".".join(
            part if number != 1 else encoded(json.dumps(p.claims(sub="bert")).encode())
            for number, part in enumerate(p.token().split("."))
        ),
    ),
    "no token": (INVALID, lambda p: "no.token.really"),
    "no JSON": (INVALID, lambda p: "AAAA.AAAA.AAAA"),
}


@pytest.mark.parametrize("case", DENIED)
def test_what_is_wrong_is_refused(gateway, provider, case):
    expected, make = DENIED[case]
    assert refusal(gateway, make(provider))[0] == expected
    # And only that.
    assumed(gateway, provider.token())


def test_subjects_stay_apart(gateway, provider):
    for sub, prefix in (("a/b", "a%2Fb/"), ("..", "%2E%2E/"), ("ä b", "%C3%A4%20b/"), ("auth0|7", "auth0|7/")):
        client = s3(gateway, assumed(gateway, provider.token(sub=sub)))
        client.put_object(Bucket=BUCKET, Key=f"{prefix}1", Body=b"1")
        assert code(client.put_object, Bucket=BUCKET, Key=f"{sub}/1", Body=b"1") == (
            None if prefix == f"{sub}/" else (403, "AccessDenied")
        )


def test_the_settings_say_what_users_may(make_gateway, own_provider):
    gateway = make_gateway(
        own_provider,
        SLUICE_IDENTITY_BUCKET="media",
        SLUICE_OBJECT_BUCKETS="uploads,media",
        SLUICE_IDENTITY_KEY_PREFIX="tenants/{tenant}/{email}/",
        SLUICE_IDENTITY_ACTIONS="upload, read, delete",
        SLUICE_IDENTITY_MAXIMUM_BYTES="1KiB",
        SLUICE_IDENTITY_MAXIMUM_LIFETIME="20m",
        SLUICE_IDENTITY_JWKS_URL=f"{own_provider.url}/keys",
    )
    answer = assumed(gateway, own_provider.token(tenant=7, email="anna@example.com"), DurationSeconds=3600)
    assert answer["Credentials"]["Expiration"].timestamp() - time.time() <= 1200
    assert own_provider.asked == ["/keys"]
    client, key = s3(gateway, answer), "tenants/7/anna@example.com/1"
    client.put_object(Bucket="media", Key=key, Body=b"1" * 1024)
    assert client.get_object(Bucket="media", Key=key)["Body"].read() == b"1" * 1024
    assert code(client.put_object, Bucket="media", Key=key, Body=b"1" * 1025) == (400, "EntityTooLarge")
    client.delete_object(Bucket="media", Key=key)
    assert code(client.put_object, Bucket="uploads", Key=key, Body=b"1") == (403, "AccessDenied")
    assert "tenant" in refusal(gateway, own_provider.token(email="x"))[1]


def test_the_provider_is_away(make_gateway, own_provider):
    gateway = make_gateway(own_provider)
    own_provider.failing = 503
    assert refusal(gateway, own_provider.token())[0] == "IDPCommunicationError"
    own_provider.failing = "hang"
    until(lambda: "in time" in refusal(gateway, own_provider.token())[1], 60, 1)
    own_provider.failing = None
    # Requested again after a pause.
    token = own_provider.token()
    until(lambda: code(assumed, gateway, token) is None, 30, 0.5)
    own_provider.failing = 503
    # Its keys are known by now.
    assumed(gateway, own_provider.token())
    until(lambda: refusal(gateway, own_provider.token(Key("new")))[0] == "IDPCommunicationError", 30, 0.5)


def test_the_provider_rotates_its_keys(make_gateway, own_provider):
    gateway = make_gateway(own_provider)
    assumed(gateway, own_provider.token())
    new = Key("new", "ES256")
    own_provider.keys.append(new)
    until(lambda: code(assumed, gateway, own_provider.token(new)) is None, 30, 0.5)
    # Invented key names must not cause a request each.
    before = len(own_provider.asked)
    unknown = Key("unknown", "ES256")
    for _ in range(30):
        unknown.id += "x"
        assert refusal(gateway, own_provider.token(unknown))[0] == INVALID
    assert len(own_provider.asked) - before <= 4
    assert set(own_provider.asked) == {CONFIGURATION, "/keys"}


def test_sessions_end_when_the_provider_or_the_app_is_not_trusted_any_more(make_gateway, own_provider):
    gateway = make_gateway(own_provider)
    clients = {audience: s3(gateway, assumed(gateway, own_provider.token(aud=audience))) for audience in ("app", "web")}

    def restart(**changes):
        gateway.stop()
        gateway.environment |= changes
        gateway.start()
        about = {"Bucket": BUCKET, "Key": "anna/1", "Body": b"1"}
        return {audience: code(client.put_object, **about) for audience, client in clients.items()}

    ended = (400, "ExpiredToken")
    assert restart() == {"app": None, "web": None}
    assert restart(SLUICE_IDENTITY_AUDIENCE="app") == {"app": None, "web": ended}
    del gateway.environment["SLUICE_IDENTITY_ISSUER"], gateway.environment["SLUICE_IDENTITY_AUDIENCE"]
    assert restart() == {"app": ended, "web": ended}
    code_without, message = refusal(gateway, own_provider.token())
    assert code_without == INVALID and "trusts no identity provider" in message
