"""Single calls of each SDK, by the same names, and the status and code with which they are refused."""

import re
from abc import ABC, abstractmethod

import oss2
import qcloud_cos
import requests
from botocore import UNSIGNED
from botocore.exceptions import ClientError
from requests.adapters import HTTPAdapter

from harness import object_client
from harness.object_clients.aliyun import REGION
from harness.object_clients.base import DOMAINS


class Calls(ABC):
    """A client with credentials for one bucket.

    `change(request)`, a request of `requests` or botocore, is done to each that was signed. Without credentials
    nothing is signed.
    """

    format: str
    refusals: type[Exception]

    def __init__(self, port, bucket, credentials, change=None):
        self.port = port
        self.bucket = bucket
        self.credentials = credentials
        self.change = change
        self._open()

    @abstractmethod
    def _open(self): ...

    @abstractmethod
    def refusal(self, error):
        """Status and code of an answer."""

    @abstractmethod
    def put(self, key, data=b"1", **fields): ...

    @abstractmethod
    def get(self, key): ...

    @abstractmethod
    def head(self, key): ...

    @abstractmethod
    def delete(self, key): ...

    @abstractmethod
    def list(self, prefix=""): ...

    @abstractmethod
    def create(self, key):
        """The id of a multipart upload."""

    @abstractmethod
    def part(self, key, upload, number, data):
        """The answer."""

    @abstractmethod
    def complete(self, key, upload, parts):
        """`parts`: numbers and ETags without quotation marks."""

    @abstractmethod
    def abort(self, key, upload): ...

    @abstractmethod
    def parts(self, key, upload): ...

    @abstractmethod
    def uploads(self, prefix=""): ...

    @abstractmethod
    def presigned(self, key, seconds):
        """A URL for PUT."""

    def code(self, name, *arguments, **parameters):
        """Status and code with which a call is refused; `None` if it is not."""
        try:
            getattr(self, name)(*arguments, **parameters)
        except self.refusals as error:
            return self.refusal(error)
        return None


class Changing(HTTPAdapter):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def send(self, request, **options):
        if self.change:
            self.change(request)
        return super().send(request, **options)


def refusal(answer):
    """Of a request without SDK."""
    found = re.search("<Code>([^<]+)</Code>", answer.text)
    return (answer.status_code, found and found[1]) if answer.status_code >= 400 else None


def changed_url(request, old, new):
    """Of a request that was signed already."""
    assert old in request.url
    request.url = request.url.replace(old, new)


class S3Calls(Calls):
    format = "aws"
    refusals = ClientError

    def _open(self):
        url = f"http://127.0.0.1:{self.port}"
        if self.credentials:
            *pair, token = self.credentials
            self.s3 = object_client.client(url, pair, token=token)
        else:
            self.s3 = object_client.client(url, (None, None), signature_version=UNSIGNED)
        if self.change:
            self.s3.meta.events.register("before-send.s3", lambda request, **_: self.change(request))

    def refusal(self, error):
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]

    def put(self, key, data=b"1", **fields):
        names = {"Content-Type": "ContentType", "Content-MD5": "ContentMD5"}
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, **{names[name]: fields[name] for name in fields})

    def get(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def head(self, key):
        return self.s3.head_object(Bucket=self.bucket, Key=key)

    def delete(self, key):
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def list(self, prefix=""):
        self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix)

    def create(self, key):
        return self.s3.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]

    def part(self, key, upload, number, data):
        return self.s3.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=number, Body=data)

    def complete(self, key, upload, parts):
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in parts]
        self.s3.complete_multipart_upload(
            Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
        )

    def abort(self, key, upload):
        self.s3.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload)

    def parts(self, key, upload):
        self.s3.list_parts(Bucket=self.bucket, Key=key, UploadId=upload)

    def uploads(self, prefix=""):
        self.s3.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix)

    def presigned(self, key, seconds):
        about = {"Bucket": self.bucket, "Key": key}
        return self.s3.generate_presigned_url("put_object", Params=about, ExpiresIn=seconds)


class OSSCalls(Calls):
    format = "aliyun"
    refusals = oss2.exceptions.OssError
    auth_version = "v1"

    def _open(self):
        if not self.credentials:
            auth = oss2.AnonymousAuth()
        elif self.credentials[2]:
            auth = oss2.StsAuth(*self.credentials, auth_version=self.auth_version)
        else:
            auth = oss2.make_auth(*self.credentials[:2], auth_version=self.auth_version)
        session = oss2.Session(adapter=Changing(self.change))
        self.oss = oss2.Bucket(auth, f"http://127.0.0.1:{self.port}", self.bucket, session=session, region=REGION)

    def refusal(self, error):
        return error.status, error.code

    def put(self, key, data=b"1", **fields):
        return self.oss.put_object(key, data, headers=fields)

    def get(self, key):
        return self.oss.get_object(key).read()

    def head(self, key):
        return self.oss.head_object(key)

    def delete(self, key):
        self.oss.delete_object(key)

    def list(self, prefix=""):
        self.oss.list_objects_v2(prefix)

    def create(self, key):
        return self.oss.init_multipart_upload(key).upload_id

    def part(self, key, upload, number, data):
        return self.oss.upload_part(key, upload, number, data)

    def complete(self, key, upload, parts):
        parts = [oss2.models.PartInfo(number, tag) for number, tag in parts]
        return self.oss.complete_multipart_upload(key, upload, parts)

    def abort(self, key, upload):
        self.oss.abort_multipart_upload(key, upload)

    def parts(self, key, upload):
        self.oss.list_parts(key, upload)

    def uploads(self, prefix=""):
        self.oss.list_multipart_uploads(prefix)

    def presigned(self, key, seconds):
        return self.oss.sign_url("PUT", key, seconds, slash_safe=True)


class OSS4Calls(OSSCalls):
    auth_version = "v4"


class COSCalls(Calls):
    format = "tencent"
    refusals = qcloud_cos.CosServiceError

    def _open(self):
        session = requests.Session()
        session.mount("http://", Changing(self.change))
        identifier, secret, self.token = self.credentials or (None, None, None)
        config = qcloud_cos.CosConfig(
            Endpoint=DOMAINS["cos"],
            SecretId=identifier,
            SecretKey=secret,
            Token=self.token,
            Anonymous=not self.credentials,
            Scheme="http",
        )
        self.cos = qcloud_cos.CosS3Client(config, retry=0, session=session)

    def refusal(self, error):
        return error.get_status_code(), error.get_error_code()

    def put(self, key, data=b"1", **fields):
        names = {"Content-Type": "ContentType", "Content-MD5": "ContentMD5"}
        return self.cos.put_object(self.bucket, data, key, **{names[name]: fields[name] for name in fields})

    def get(self, key):
        return self.cos.get_object(self.bucket, key)["Body"].get_raw_stream().read()

    def head(self, key):
        return self.cos.head_object(self.bucket, key)

    def delete(self, key):
        self.cos.delete_object(self.bucket, key)

    def list(self, prefix=""):
        self.cos.list_objects(self.bucket, Prefix=prefix)

    def create(self, key):
        return self.cos.create_multipart_upload(self.bucket, key)["UploadId"]

    def part(self, key, upload, number, data):
        return self.cos.upload_part(self.bucket, key, data, number, upload)

    def complete(self, key, upload, parts):
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in parts]
        return self.cos.complete_multipart_upload(self.bucket, key, upload, {"Part": parts})

    def abort(self, key, upload):
        self.cos.abort_multipart_upload(self.bucket, key, upload)

    def parts(self, key, upload):
        self.cos.list_parts(self.bucket, key, upload)

    def uploads(self, prefix=""):
        self.cos.list_multipart_uploads(self.bucket, prefix)

    def presigned(self, key, seconds):
        token = {"x-cos-security-token": self.token} if self.token else {}
        return self.cos.get_presigned_url(self.bucket, key, "PUT", seconds, Params=token)


DIALECTS = {"s3": S3Calls, "oss-v1": OSSCalls, "oss-v4": OSS4Calls, "cos": COSCalls}
