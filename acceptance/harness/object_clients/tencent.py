"""Tencent Cloud COS: its SDK for Python, and its command-line tool. Neither has a path style."""

import qcloud_cos
import requests

from harness.object_clients.base import CNAME, DOMAINS, SMALL_PART, CommandLineClient, ObjectClient


class COS(ObjectClient):
    """cos-python-sdk-v5."""

    name = "cos"
    format = "tencent"
    dialect = "cos"
    part = SMALL_PART
    # The server may still say that the content ended too early.
    failures = (qcloud_cos.CosClientError, qcloud_cos.CosServiceError)

    def __init__(self, place):
        super().__init__(place)
        identifier, secret, token = place.credentials
        where = {"Domain": CNAME} if place.style == "cname" else {"Endpoint": DOMAINS["cos"]}
        config = qcloud_cos.CosConfig(
            **where,
            SecretId=identifier,
            SecretKey=secret,
            Token=token,
            Scheme=place.scheme,
            VerifySSL=str(place.certificate) if place.certificate else None,
        )
        # A session of its own: connections of the one that all share would lead to where another client was.
        self.cos = qcloud_cos.CosS3Client(config, retry=0, session=requests.Session())

    def put(self, path, key):
        self.cos.put_object_from_local_file(self.bucket, str(path), key, EnableMD5=True)

    def upload(self, path, key):
        self.cos.upload_file(self.bucket, key, str(path), PartSize=self.part >> 20, MAXThread=2, EnableMD5=True)

    def sizes(self, prefix):
        found, marker = {}, ""
        while True:
            page = self.cos.list_objects(self.bucket, Prefix=prefix, Marker=marker, MaxKeys=1)
            found |= {one["Key"]: int(one["Size"]) for one in page.get("Contents", [])}
            if page["IsTruncated"] == "false":
                return found
            marker = page["NextMarker"]

    def download(self, key, path):
        self.cos.download_file(
            self.bucket, key, str(path), PartSize=self.part >> 20, EnableCRC=True, DumpRecordDir=str(self.place.folder)
        )

    def delete(self, key):
        self.cos.delete_object(self.bucket, key)


class Coscmd(CommandLineClient):
    name = "coscmd"
    format = "tencent"
    dialect = "cos"
    part = SMALL_PART
    script = "coscmd"

    def __init__(self, place):
        super().__init__(place)
        identifier, secret, token = place.credentials
        settings = {
            "secret_id": identifier,
            "secret_key": secret,
            "token": token,
            "bucket": self.bucket,
            "endpoint": DOMAINS["cos"],
            "schema": place.scheme,
            "part_size": self.part >> 20,
            "max_thread": 2,
            # None would also mean not to ask at all.
            "retry": 1,
            # The least that it takes, in MiB.
            "multiupload_threshold": 20,
        }
        self.configuration = place.folder / "cos.ini"
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        self.configuration.write_text("".join(["[common]\n", *lines]))

    def variables(self):
        return {"REQUESTS_CA_BUNDLE": str(self.place.certificate)} if self.place.certificate else {}

    def _do(self, *arguments):
        return self.checked("-c", self.configuration, "-l", self.place.folder / "cos.log", *arguments)

    def put(self, path, key):
        self._do("upload", path, key)

    upload = put

    def sizes(self, prefix):
        """Of lines with a path, a size, a class, a day and a time, before some that tell of the whole."""
        rows = (line.rsplit(maxsplit=4) for line in self._do("list", "--all", "--recursive", prefix).splitlines())
        return {row[0].strip(): int(row[1]) for row in rows if row and row[0].strip().startswith(prefix)}

    def download(self, key, path):
        self._do("download", key, path)

    def delete(self, key):
        self._do("delete", "--force", key)
