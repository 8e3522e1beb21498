"""Requests of MinIO's SDK for Go (7.0.46), which restic and mc use, as they are on the wire."""

import hashlib

import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class MinioGo:
    """Sends what its calls send, with the pair of the preset key.

    Content over HTTP is sent in signed chunks of 64 KiB without a `Content-Encoding`, and each parameter has a `=`.
    """

    class Auth(S3SigV4Auth):
        def payload(self, request):
            return request.context["payload"]

    def __init__(self, gateway):
        self.url = gateway.object_url
        self.auth = self.Auth(Credentials(*gateway.pair()), "s3", "us-east-1")

    def __call__(self, method, target, content=b"", chunked=False, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        fields["User-Agent"] = "MinIO (linux; amd64) minio-go/v7.0.46"
        payload = hashlib.sha256(content).hexdigest()
        if chunked:
            fields["X-Amz-Decoded-Content-Length"] = str(len(content))
            payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        request = AWSRequest(method, self.url + target, headers=fields, data=content)
        request.context["payload"] = payload
        self.auth.add_auth(request)
        body = self._chunks(request, content) if chunked else content
        answer = requests.request(method, request.url, headers=dict(request.headers), data=body, timeout=60)
        assert answer.ok, f"{method} {target}: {answer.status_code} {answer.text}"
        return answer

    def _chunks(self, request, content):
        signature = request.headers["Authorization"].rpartition("=")[2]
        body = b""
        for start in [*range(0, len(content), 65536), len(content)]:
            chunk = content[start : start + 65536]
            hashes = [hashlib.sha256(data).hexdigest() for data in (b"", chunk)]
            moment = request.context["timestamp"]
            scope = self.auth.credential_scope(request)
            text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", moment, scope, signature, *hashes])
            signature = self.auth.signature(text, request)
            body += f"{len(chunk):x};chunk-signature={signature}\r\n".encode() + chunk + b"\r\n"
        return body
