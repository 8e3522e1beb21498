"""boto3, the AWS command-line interface, s3cmd, and MinIO's SDK."""

import json
import re

import minio
import urllib3
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from harness import object_client
from harness.object_clients.base import PART, CommandLineClient, ObjectClient, ToolFailed


class Boto3(ObjectClient):
    """The SDK has no way of its own to resume; this does it by its calls, as programs do."""

    name = "boto3"
    format = "aws"
    dialect = "s3"
    # The server may still say that the content ended too early.
    failures = (BotoCoreError, ClientError, Boto3Error)

    def __init__(self, place):
        super().__init__(place)
        *pair, token = place.credentials
        verify = str(place.certificate) if place.certificate else None
        style = "path" if place.style == "path" else "virtual"
        self.s3 = object_client.client(place.url("s3"), pair, token=token, style=style, verify=verify)

    def put(self, path, key):
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())

    def upload(self, path, key):
        about = {"Bucket": self.bucket, "Key": key}
        begun = self.s3.list_multipart_uploads(Bucket=self.bucket, Prefix=key).get("Uploads", [])
        about["UploadId"] = begun[0]["UploadId"] if begun else self.s3.create_multipart_upload(**about)["UploadId"]
        tags = {part["PartNumber"]: part["ETag"] for part in self.s3.list_parts(**about).get("Parts", [])}
        with open(path, "rb") as file:
            for number in range(1, -(-path.stat().st_size // PART) + 1):
                if number not in tags:
                    file.seek((number - 1) * PART)
                    part = self.s3.upload_part(**about, PartNumber=number, Body=file.read(PART))
                    tags[number] = part["ETag"]
        parts = [{"PartNumber": number, "ETag": tags[number]} for number in sorted(tags)]
        self.s3.complete_multipart_upload(**about, MultipartUpload={"Parts": parts})

    def sizes(self, prefix):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def download(self, key, path):
        self.s3.download_file(self.bucket, key, str(path))

    def delete(self, key):
        self.s3.delete_object(Bucket=self.bucket, Key=key)


class AWSCLI(CommandLineClient):
    """`aws s3`, with its own settings but for the sizes of parts."""

    name = "awscli"
    format = "aws"
    dialect = "s3"
    script = "aws"
    resumes = False

    def __init__(self, place, part=PART):
        super().__init__(place)
        self.has_failed = False
        self.configuration = place.folder / "aws.ini"
        style = "path" if place.style == "path" else "virtual"
        self.configuration.write_text(
            "[default]\n"
            f"region = {object_client.REGION}\n"
            "s3 =\n"
            f"  addressing_style = {style}\n"
            f"  multipart_threshold = {part}\n"
            f"  multipart_chunksize = {part}\n"
        )

    def variables(self):
        identifier, secret, token = self.place.credentials
        variables = {
            "AWS_ACCESS_KEY_ID": identifier,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_CONFIG_FILE": str(self.configuration),
            "AWS_ENDPOINT_URL": self.place.url("s3"),
            "AWS_MAX_ATTEMPTS": "1",
        }
        if token:
            variables["AWS_SESSION_TOKEN"] = token
        if self.place.certificate:
            variables["AWS_CA_BUNDLE"] = str(self.place.certificate)
        return variables

    def _url(self, key=""):
        return f"s3://{self.bucket}/{key}"

    def put(self, path, key):
        self.checked("s3", "cp", "--no-progress", path, self._url(key))

    def upload(self, path, key):
        if self.has_failed:
            bucket = ("--bucket", self.bucket)
            listed = json.loads(self.checked("s3api", "list-multipart-uploads", *bucket, "--prefix", key))
            for one in listed["Uploads"]:
                about = ("--key", one["Key"], "--upload-id", one["UploadId"])
                self.checked("s3api", "abort-multipart-upload", *bucket, *about)
        self.has_failed = True
        self.put(path, key)
        self.has_failed = False

    def sizes(self, prefix):
        # `aws s3 ls` fails if there is nothing.
        listed = self.checked("s3api", "list-objects-v2", "--bucket", self.bucket, "--prefix", prefix)
        return {one["Key"]: one["Size"] for one in json.loads(listed or "{}").get("Contents") or []}

    def download(self, key, path):
        self.checked("s3", "cp", "--no-progress", self._url(key), path)

    def delete(self, key):
        self.checked("s3", "rm", self._url(key))


class Minio(ObjectClient):
    """It asks for the region of the bucket first, and aborts what fails."""

    name = "minio"
    format = "aws"
    dialect = "s3"
    resumes = False
    failures = (minio.error.MinioException, urllib3.exceptions.HTTPError)

    def __init__(self, place):
        super().__init__(place)
        identifier, secret, token = place.credentials
        trusted = {"ca_certs": str(place.certificate), "cert_reqs": "CERT_REQUIRED"} if place.certificate else {}
        self.client = minio.Minio(
            place.host("s3"),
            identifier,
            secret,
            token,
            secure=bool(place.certificate),
            http_client=urllib3.PoolManager(retries=False, timeout=60, **trusted),
        )
        if place.style != "path":
            self.client.enable_virtual_style_endpoint()

    def put(self, path, key):
        with open(path, "rb") as file:
            self.client.put_object(self.bucket, key, file, path.stat().st_size)

    def upload(self, path, key):
        self.client.fput_object(self.bucket, key, str(path), part_size=PART)

    def sizes(self, prefix):
        return {one.object_name: one.size for one in self.client.list_objects(self.bucket, prefix, recursive=True)}

    def download(self, key, path):
        self.client.fget_object(self.bucket, key, str(path))

    def delete(self, key):
        self.client.remove_object(self.bucket, key)


class S3cmd(CommandLineClient):
    name = "s3cmd"
    format = "aws"
    dialect = "s3"
    script = "s3cmd"

    def __init__(self, place):
        super().__init__(place)
        host = place.host("s3")
        settings = {
            "host_base": host,
            "host_bucket": host if place.style == "path" else f"%(bucket)s.{host}",
            "use_https": bool(place.certificate),
            "bucket_location": object_client.REGION,
            "multipart_chunk_size_mb": PART >> 20,
            "max_retries": 0,
        }
        if place.certificate:
            settings["ca_certs_file"] = place.certificate
        self.configuration = place.folder / "s3cmd.ini"
        # The id of an upload.
        self.broken_off = None
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        self.configuration.write_text("".join(["[default]\n", *lines]))

    def variables(self):
        # Of a token in its file it thinks that it came from the machine's role, and asks for a new one.
        identifier, secret, token = self.place.credentials
        return {"AWS_ACCESS_KEY": identifier, "AWS_SECRET_KEY": secret, "AWS_SESSION_TOKEN": token}

    def _url(self, key=""):
        return f"s3://{self.bucket}/{key}"

    def _do(self, *arguments):
        return self.checked("--config", self.configuration, "--no-progress", *arguments)

    def put(self, path, key):
        self._do("put", path, self._url(key))

    def upload(self, path, key):
        """It says itself how to go on. By `--continue-put` it would look for the upload in the whole bucket."""
        option = ["--upload-id", self.broken_off] if self.broken_off else []
        try:
            self._do(*option, "put", path, self._url(key))
        except ToolFailed as failure:
            self.broken_off = re.search(r"--upload-id (\S+) put", str(failure))[1]
            raise
        self.broken_off = None

    def sizes(self, prefix):
        lines = self._do("ls", "--recursive", self._url(prefix)).splitlines()
        found = (line.split(maxsplit=3) for line in lines)
        return {url.removeprefix(self._url()): int(size) for _, _, size, url in found}

    def download(self, key, path):
        self._do("get", self._url(key), path)

    def delete(self, key):
        self._do("del", self._url(key))
