"""boto3 at the object endpoint of a gateway."""

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from harness.api import API
from harness.server import Server

BUCKET = "uploads"
REGION = "us-east-1"
DOMAIN = "s3.localtest"
ROLE = "arn:aws:iam::123456789012:role/uploader"


def client(url, pair, service="s3", token=None, style="path", verify=None, **settings):
    settings = {
        # Else boto3 makes URLs and forms that are signed as before 2014.
        "signature_version": "s3v4" if service == "s3" else "v4",
        "retries": {"total_max_attempts": 1},
        "s3": {"addressing_style": style},
        "connect_timeout": 10,
        "read_timeout": 120,
    } | settings
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=pair[0],
        aws_secret_access_key=pair[1],
        aws_session_token=token,
        verify=verify,
        config=Config(**settings),
    )


def session(credentials):
    """What `client` wants of the credentials that a token service gave."""
    return {
        "pair": (credentials["AccessKeyId"], credentials["SecretAccessKey"]),
        "token": credentials["SessionToken"],
    }


# Key, secret and token, in the words of each format of `POST /v1/sts/tokens`.
MINTED = {
    "aws": ("AccessKeyId", "SecretAccessKey", "SessionToken"),
    "aliyun": ("AccessKeyId", "AccessKeySecret", "SecurityToken"),
    "tencent": ("tmpSecretId", "tmpSecretKey", "sessionToken"),
}


def minted(server, format, verify=True, **wanted):
    """Key, secret and token of new credentials."""
    wanted = {"subject": "dora", "format": format} | wanted
    answer = API(server.url, server.admin_key, verify=verify).post("/v1/sts/tokens", wanted)
    assert answer.status_code == 201, answer.text
    document = answer.json()
    credentials = document.get("Credentials") or document.get("credentials") or document
    return tuple(credentials[name] for name in MINTED[format])


def code(call, *arguments, **parameters):
    """Status and code with which a call is refused; `None` if it is not."""
    try:
        call(*arguments, **parameters)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return None


class ObjectServer(Server):
    """A gateway with an object endpoint on a port that it keeps over restarts."""

    def __init__(self, data, port, environment=None, **options):
        settings = {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{port}", "SLUICE_OBJECT_DOMAINS": DOMAIN}
        super().__init__(data, environment=settings | (environment or {}), **options)

    def client(self, **options):
        return client(self.object_url, **({"pair": self.pair()} | options))
