"""Credentials for the store: the gateway finds the same as botocore in the same environment.

A server replaces a bucket that accepts everything, the token service, the container's agent and the instance metadata,
which are not available here. The gateway and boto3 each look for credentials; the test compares the credentials with
which they sign the request for the bucket.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
import requests

from harness.http_server import LocalServer
from harness.server import BINARY, Server

pytest.importorskip("boto3", reason="boto3 is not installed")
from botocore.auth import S3SigV4Auth  # noqa: E402
from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402

BOTO = """
import boto3, os
from botocore.config import Config
config = Config(retries={"max_attempts": 1, "mode": "standard"}, s3={"addressing_style": "path"})
boto3.client("s3", endpoint_url=os.environ["STORE"], region_name="us-east-1", config=config).head_bucket(Bucket="media")
"""
SECRETS = ("s-environment", "s-file", "s-other", "s-sts", "s-container", "s-instance", "Bearer agent", "web-token")


def pair(name):
    return {"AccessKeyId": f"AK{name.upper()}", "SecretAccessKey": f"s-{name}", "Token": f"t-{name}"}


class Cloud(LocalServer):
    """The bucket and, on the same port, all services that issue credentials."""

    def __init__(self):
        self.signed = []
        self.asked = []
        self.expiration = time.time() + 3600
        self.accepted = None
        self.mark = None
        super().__init__()

    def handle(self, request):
        content = request.content()
        if request.path.endswith("/.sluice.store") and self.accepted is None:
            return self.marked(request, content)
        if "Authorization" in request.headers and request.headers["Authorization"].startswith("AWS4"):
            self.signed.append(request)
            key = self.key(request)
            if self.accepted not in (None, key):
                return request.respond(403)
            if "list-type=2" in request.path:
                body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                return request.respond(200, body, "text/xml")
            return request.respond(200)
        self.asked.append(f"{request.command} {request.path}")
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.expiration))
        found = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": end, "Expiration": end}
        if request.command == "POST":
            return self.sts(request, parse_qs(content.decode()), end)
        if request.path == "/container":
            if request.headers.get("Authorization") != "Bearer agent":
                return request.respond(401)
            return request.respond(200, json.dumps(found | pair("container")).encode(), "application/json")
        if request.path == "/latest/api/token":
            return request.respond(200, b"TOKEN", "text/plain")
        if request.headers.get("X-aws-ec2-metadata-token") != "TOKEN":
            return request.respond(401)
        if request.path.endswith("/security-credentials/"):
            return request.respond(200, b"the-role", "text/plain")
        if request.path.endswith("/security-credentials/the-role"):
            return request.respond(200, json.dumps(found | pair("instance")).encode(), "application/json")
        return request.respond(404)

    def marked(self, request, content):
        """The gateway's mark in the store, which it writes at its first start."""
        if request.command == "PUT":
            self.mark = content
        if self.mark is None:
            return request.respond(404, b"<Error><Code>NoSuchKey</Code></Error>", "text/xml")
        return request.respond(200, b"" if request.command == "PUT" else self.mark)

    def sts(self, request, form, end):
        if form["WebIdentityToken"] != ["web-token"] or form["RoleArn"] != ["arn:aws:iam::123456789012:role/x"]:
            body = b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
            return request.respond(403, body, "text/xml")
        keys = pair("sts")
        body = (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            "<AssumeRoleWithWebIdentityResult><AssumedRoleUser><Arn>arn:aws:sts::123456789012:x</Arn>"
            "<AssumedRoleId>A:b</AssumedRoleId></AssumedRoleUser><Credentials>"
            f"<AccessKeyId>{keys['AccessKeyId']}</AccessKeyId><SecretAccessKey>{keys['SecretAccessKey']}"
            f"</SecretAccessKey><SessionToken>{keys['Token']}</SessionToken><Expiration>{end}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )
        return request.respond(200, body.encode(), "text/xml")

    @staticmethod
    def key(request):
        return re.search(r"Credential=([^/]+)/", request.headers["Authorization"])[1]

    def proof(self, request):
        """Key and token of a request, and whether the secret that belongs to the key has signed it."""
        fields = request.headers
        key = self.key(request)
        secret = key.removeprefix("AK").lower()
        names = re.search(r"SignedHeaders=([^,]+)", fields["Authorization"])[1].split(";")
        signed = AWSRequest(
            method=request.command,
            url=self.url + request.path,
            headers={name: fields[name] for name in names},
        )
        date = fields["X-Amz-Date"]
        signed.context["timestamp"] = date
        auth = S3SigV4Auth(Credentials(key, f"s-{secret}"), "s3", "us-east-1")
        canonical = "\n".join(
            [
                request.command,
                request.path.partition("?")[0],
                request.path.partition("?")[2],
                "".join(f"{name}:{fields[name].strip()}\n" for name in names),
                ";".join(names),
                fields["X-Amz-Content-SHA256"],
            ]
        )
        signature = auth.signature(auth.string_to_sign(signed, canonical), signed)
        assert fields["Authorization"].endswith(f"Signature={signature}"), f"{key} was used with another secret"
        return key, fields.get("X-Amz-Security-Token")


@pytest.fixture
def cloud():
    with Cloud() as running:
        yield running


@pytest.fixture
def world(cloud, tmp_path):
    """All variables by place, with their files; and a home without any."""
    (tmp_path / "home").mkdir()
    (tmp_path / "web").write_text("web-token")
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = AKFILE\naws_secret_access_key = s-file\naws_session_token = t-file\n\n"
        "[other]\n  aws_access_key_id=AKOTHER\n  aws_secret_access_key=s-other\n"
    )
    return SimpleNamespace(
        path=tmp_path,
        cloud=cloud,
        variables={
            "environment": {
                "AWS_ACCESS_KEY_ID": "AKENVIRONMENT",
                "AWS_SECRET_ACCESS_KEY": "s-environment",
                "AWS_SESSION_TOKEN": "t-environment",
            },
            "web": {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "web"),
                "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x",
                "AWS_ROLE_SESSION_NAME": "here",
                "AWS_ENDPOINT_URL_STS": cloud.url,
            },
            "file": {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")},
            "other": {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_PROFILE": "other"},
            "container": {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": cloud.url + "/container",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Bearer agent",
            },
            "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud.url},
        },
    )


def environment(world, *places):
    """The environment of a process that finds only these places."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "SLUICE_"))}
    base |= {"HOME": str(world.path / "home"), "AWS_EC2_METADATA_DISABLED": "true"}
    if "instance" in places:
        base["AWS_EC2_METADATA_DISABLED"] = "false"
    for place in places:
        base |= world.variables[place]
    return base


def gateway(world, *places, **settings):
    server = Server(world.path / "data")
    server.environment = (
        environment(world, *places)
        | {name: value for name, value in server.environment.items() if name.startswith("SLUICE_")}
        | {
            "SLUICE_STORAGE": "s3",
            "SLUICE_S3_ENDPOINT": world.cloud.url,
            "SLUICE_S3_BUCKET": "media",
            "SLUICE_S3_PATH_STYLE": "true",
        }
        | settings
    )
    return server


ORDER = [
    (("environment", "web", "file", "container", "instance"), "AKENVIRONMENT"),
    (("web", "file", "container", "instance"), "AKSTS"),
    (("file", "container", "instance"), "AKFILE"),
    (("other", "container"), "AKOTHER"),
    (("environment", "other"), "AKENVIRONMENT"),
    (("container", "instance"), "AKCONTAINER"),
    (("instance",), "AKINSTANCE"),
]


@pytest.mark.parametrize(("places", "expected"), ORDER, ids=["-".join(places) for places, _ in ORDER])
def test_the_gateway_finds_what_botocore_finds(world, places, expected):
    cloud = world.cloud
    with gateway(world, *places) as server:
        ours = cloud.proof(cloud.signed[0])
    asked = list(cloud.asked)
    cloud.signed.clear()
    cloud.asked.clear()
    subprocess.run(
        [sys.executable, "-c", BOTO],
        env=environment(world, *places) | {"STORE": cloud.url},
        check=True,
        timeout=120,
    )
    assert ours == cloud.proof(cloud.signed[0])
    assert ours[0] == expected
    # botocore requests the role of an instance twice; the requests are the same.
    assert set(asked) == set(cloud.asked)
    log = server.log.read_text()
    assert not [secret for secret in SECRETS if secret in log]


def test_the_pair_of_the_settings_comes_first(world):
    settings = {"SLUICE_S3_ACCESS_KEY_ID": "AKSETTINGS", "SLUICE_S3_SECRET_ACCESS_KEY": "s-settings"}
    with gateway(world, "environment", "file", "container", "instance", **settings):
        assert world.cloud.proof(world.cloud.signed[0]) == ("AKSETTINGS", None)
    assert world.cloud.asked == []


def refusal(server, timeout=60):
    """The output of a failed start, and its duration."""
    began = time.monotonic()
    done = subprocess.run([BINARY, "serve"], env=server.environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode not in (0, -signal.SIGABRT, -signal.SIGILL)
    return done.stdout + done.stderr, time.monotonic() - began


def test_without_credentials_it_does_not_start_and_lists_the_places(world, report):
    server = gateway(world)
    # It accepts connections and never responds.
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    server.environment |= {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url}
    text, took = refusal(server)
    for place in (
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        f"{world.path}/home/.aws/credentials",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        f"no response from {url}/: the response did not arrive in time",
    ):
        assert place in text
    silent.close()
    report(f"credentials: a start without any was refused after {took:.2f} s")
    assert world.cloud.signed == []


def test_the_error_of_a_misconfigured_place_contains_no_secret(world):
    (world.path / "web").write_text("other-token")
    text, _ = refusal(gateway(world, "web", "file"))
    assert "responded with status 403 AccessDenied" in text
    assert "other-token" not in text
    world.variables["container"]["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Bearer stranger"
    text, _ = refusal(gateway(world, "container", "instance"))
    assert "the container: " in text and "responded with status 401" in text
    assert "stranger" not in text
    assert world.cloud.signed == []


def test_a_rotated_key_is_used_when_the_store_refuses_the_old_one(world):
    """The gateway checks the bucket at start and for each readiness probe."""
    cloud = world.cloud
    with gateway(world, "file") as server:
        assert cloud.key(cloud.signed[-1]) == "AKFILE"
        text = (world.path / "credentials").read_text()
        new = world.path / "new"
        new.write_text(text.replace("AKFILE", "AKROTATED").replace("s-file", "s-rotated"))
        os.replace(new, world.path / "credentials")
        cloud.accepted = "AKROTATED"
        deadline = time.monotonic() + 60
        while cloud.key(cloud.signed[-1]) != "AKROTATED":
            assert time.monotonic() < deadline, "the new key was not taken"
            requests.get(server.url + "/readyz", timeout=60)
            time.sleep(0.2)
        assert cloud.proof(cloud.signed[-1]) == ("AKROTATED", "t-file")
