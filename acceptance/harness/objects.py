"""An object store that speaks S3, as tests see it: by boto3, beside the gateway."""

import contextlib
import functools
import hashlib
import os
import threading

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

MIB = 1 << 20
BUCKET = "uploads"
# See Sources/S3Storage/S3Storage+Store.swift.
MARK = ".sluice.store"
# Reads boto3's description of S3 once; making clients is not safe between threads, using them is.
SESSION = boto3.session.Session()
LOCK = threading.Lock()


class ObjectStore:
    """Where it is and with which key; those who start one (`RGW`, `SwiftS3`) inherit this.

    `url` may be another one than the store's own: that of a `FaultyStore` before it.
    """

    # The least size of a part that is not the last, in bytes.
    LEAST_PART = 5 * MIB

    def __init__(self, url, access_key, secret_key, region="us-east-1"):
        self.url = url
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region

    def client(self, url=None, *, access_key=None, secret_key=None, attempts=1, **options):
        """A boto3 client, which by default asks once only."""
        config = {
            "s3": {"addressing_style": "path"},
            "retries": {"total_max_attempts": attempts, "mode": "standard"},
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
            "proxies": {},
            "max_pool_connections": 32,
        }
        with LOCK:
            return SESSION.client(
                "s3",
                endpoint_url=url or self.url,
                region_name=self.region,
                aws_access_key_id=access_key or self.access_key,
                aws_secret_access_key=secret_key or self.secret_key,
                config=Config(**(config | options)),
            )

    @functools.cached_property
    def _own(self):
        return self.client()

    def use_keys(self, access_key, secret_key):
        """From now on."""
        self.access_key, self.secret_key = access_key, secret_key
        self.__dict__.pop("_own", None)

    def settings(self, url=None, bucket=BUCKET, **more):
        """The settings of a gateway that stores here."""
        return {
            "SLUICE_STORAGE": "s3",
            "SLUICE_S3_ENDPOINT": url or self.url,
            "SLUICE_S3_BUCKET": bucket,
            "SLUICE_S3_REGION": self.region,
            "SLUICE_S3_PATH_STYLE": "true",
            "SLUICE_S3_CREATE_BUCKET": "true",
            "SLUICE_S3_ACCESS_KEY_ID": self.access_key,
            "SLUICE_S3_SECRET_ACCESS_KEY": self.secret_key,
        } | more

    # Looking

    def buckets(self):
        return [one["Name"] for one in self._own.list_buckets()["Buckets"]]

    def keys(self, bucket=BUCKET):
        """The sizes of all objects, by key; without the mark that a gateway leaves in its store."""
        return {key: size for key, size in self._all_keys(bucket).items() if key != MARK}

    def _all_keys(self, bucket):
        pages = self._own.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def multiparts(self, bucket=BUCKET):
        """(key, upload id) of each multipart upload that is neither completed nor aborted."""
        pages = self._own.get_paginator("list_multipart_uploads").paginate(Bucket=bucket)
        return [(one["Key"], one["UploadId"]) for page in pages for one in page.get("Uploads", [])]

    def parts(self, key, upload_id, bucket=BUCKET):
        """The sizes of the parts that the store has, by number."""
        pages = self._own.get_paginator("list_parts").paginate(Bucket=bucket, Key=key, UploadId=upload_id)
        return {one["PartNumber"]: one["Size"] for page in pages for one in page.get("Parts", [])}

    def object_hash(self, key, bucket=BUCKET):
        """SHA-256 and size of an object."""
        digest, size = hashlib.sha256(), 0
        for piece in self._own.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(MIB):
            digest.update(piece)
            size += len(piece)
        return digest.hexdigest(), size

    def hashes(self, bucket=BUCKET):
        """SHA-256 and size of every object, by key; without those that are removed meanwhile."""
        found = {}
        for key in self.keys(bucket):
            with contextlib.suppress(self._own.exceptions.NoSuchKey):
                found[key] = self.object_hash(key, bucket)
        return found

    # Cleaning

    def make_bucket(self, bucket=BUCKET):
        if bucket not in self.buckets():
            self._own.create_bucket(Bucket=bucket)

    def wipe(self, bucket=BUCKET):
        """Empties the bucket, if there is one, with its multipart uploads."""
        if bucket not in self.buckets():
            return
        client = self._own
        for key, upload_id in self.multiparts(bucket):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
        for key in self._all_keys(bucket):
            client.delete_object(Bucket=bucket, Key=key)

    def assert_empty(self, bucket=BUCKET):
        """No objects, tail objects or parts."""
        assert (self.keys(bucket), self.multiparts(bucket)) == ({}, [])

    # The reference to which the gateway is compared

    def upload(self, path, key, *, bucket=BUCKET, part=8 * MIB, threads=4, url=None):
        """boto3's own multipart upload of a file. Its defaults are parts of 8 MiB and ten threads."""
        config = TransferConfig(
            multipart_threshold=part, multipart_chunksize=part, max_concurrency=threads, use_threads=threads > 1
        )
        self.client(url).upload_file(os.fspath(path), bucket, key, Config=config)
