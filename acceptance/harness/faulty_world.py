"""Clients of a gateway whose disk fails, with their knowledge of acknowledged and uncertain requests.

After an error they read the offset and send again, like real clients. Whether a failed request took effect is decided
by the server's next response; acknowledged bytes must stay.
"""

import hashlib
from dataclasses import dataclass, field

import requests
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from urllib3.exceptions import HTTPError

from harness.api import OFFSET_TYPE, TUS, checksum, path_of, upload_id
from harness.object_client import BUCKET

# What an error of the storage may be; 423 is what HEAD says where others say 507 or 503.
STATUSES = {500, 503, 507}
S3_CODES = {"InternalError", "ServiceUnavailable", "SlowDown", "InsufficientStorage", "OperationAborted"}
PROBLEMS = {"storage_failure", "storage_full", "unavailable"}
TUS_CODES = {"ERR_STORAGE_FAILURE", "ERR_STORAGE_FULL", "ERR_UNAVAILABLE", "ERR_FINISHING"}
GONE = {404, 410}
# Seconds after which the server counts as hanging.
TIMEOUT = 30


@dataclass
class Answer:
    status: int
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    #: The connection ended before the whole content came.
    is_cut: bool = False
    #: Of S3: what boto3 made of it, or the code of the error.
    parsed: dict | None = None
    code: str | None = None

    def __repr__(self):
        return f"<{self.status} {self.code or ''} {'cut ' if self.is_cut else ''}{self.body[:200]!r}>"


class World:
    """With `durability` completed an offset is promised only as long as no sync fails."""

    def __init__(self, server, durability="acknowledged"):
        self.server = server
        self.durability = durability
        self.faults = server.faults
        self.session = None
        self.kills = False
        self.restarts = 0
        self.errors = {}
        self.spent = 0
        # What must be there in the end: paths of media or keys of objects with their content; and what must not.
        self.kept = {}
        self.gone = []

    def begin(self, kills=False):
        """A scenario."""
        self.kills = kills
        self.session = requests.Session()
        self.session.trust_env = False
        if not hasattr(self, "s3"):
            self.s3 = self.server.client(read_timeout=TIMEOUT)

    def restart(self):
        self.faults.disarm()
        self.server.kill()
        self.server.start()
        self.restarts += 1
        self.session.close()

    # Asking

    def ask(self, method, path, headers=None, data=None, key=None, json=None):
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = f"Bearer {key}"
        answer = self.session.request(
            method, self.server.url + path, headers=headers, data=data, json=json, timeout=TIMEOUT, stream=True
        )
        body, is_cut = b"", False
        try:
            body = answer.content
        except (requests.RequestException, HTTPError) as error:
            assert not isinstance(error, requests.ReadTimeout), f"{method} {path} hangs"
            is_cut = True
        return Answer(answer.status_code, answer.headers, body, is_cut)

    def ask_s3(self, call, **parameters):
        try:
            parsed = getattr(self.s3, call)(Bucket=BUCKET, **parameters)
            body, is_cut = b"", False
            if "Body" in parsed:
                try:
                    body = parsed["Body"].read()
                except (BotoCoreError, HTTPError):
                    is_cut = True
            return Answer(200, body=body, is_cut=is_cut, parsed=parsed)
        except ClientError as error:
            return Answer(error.response["ResponseMetadata"]["HTTPStatusCode"], code=error.response["Error"]["Code"])
        except (ConnectionClosedError, EndpointConnectionError, ReadTimeoutError) as error:
            raise AssertionError(f"{call}: no answer: {error}") from error

    def attempt(self, what, ask, good, good_later=None):
        """Repeats a request until it succeeds. After a failed call the fault is removed, and it must succeed."""
        for turn in range(4):
            before = self.faults.fired
            answer = ask()
            if (good_later if turn and good_later else good)(answer):
                return answer
            fired = self.faults.fired - before
            description = f"{what}: {answer!r}, after {self.faults.recent()}"
            assert fired > 0, f"refused without a cause: {description}"
            self.check_error(description, answer)
            self.recover()
        raise AssertionError(f"it does not recover: {description}")

    def check_error(self, description, answer):
        if answer.is_cut:
            name = "cut off"
            assert answer.status in (200, 206), description
        elif answer.code is not None:
            name = answer.code
            # Of HEAD there is a status only.
            assert name in S3_CODES or name in {str(status) for status in STATUSES}, description
        else:
            assert answer.status in STATUSES or (answer.status == 423 and not answer.body), description
            kind = answer.headers.get("Content-Type", "").partition(";")[0]
            name = str(answer.status)
            if kind == "application/problem+json":
                assert any(f'"{code}"'.encode() in answer.body for code in PROBLEMS), description
            elif answer.body:
                code = answer.body.decode().partition(":")[0]
                assert code in TUS_CODES, description
        self.errors[name] = self.errors.get(name, 0) + 1

    def recover(self):
        if self.faults.control.sticky:
            self.faults.disarm()
        if self.kills:
            self.kills = False
            self.restart()

    # tus

    def create(self, length, headers=None, key=None, data=None):
        fields = TUS | ({} if length is None else {"Upload-Length": str(length)}) | (headers or {})
        if data is not None:
            fields["Content-Type"] = OFFSET_TYPE
        return self.ask("POST", "/files", fields, data, key or self.server.admin_key)

    def created(self, length, **options):
        answer = self.attempt("creation", lambda: self.create(length, **options), is_created)
        return path_of(answer.headers["Location"]), answer

    def offset(self, path):
        answer = self.attempt("HEAD", lambda: self.ask("HEAD", path, TUS), lambda one: one.status in (200, 204))
        return int(answer.headers["Upload-Offset"])

    def send(self, path, data, offset, sizes, algorithm=None):
        """Appends in pieces of these sizes, again and again from where the server is, until it has all."""
        sizes = list(sizes)
        while offset < len(data):
            piece = data[offset : offset + (sizes.pop(0) if sizes else len(data))]
            fields = TUS | {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE}
            if algorithm:
                fields |= checksum(algorithm, hashlib.new(algorithm, piece).digest())
            before = self.faults.fired
            answer = self.ask("PATCH", path, fields, piece)
            if answer.status == 204:
                assert int(answer.headers["Upload-Offset"]) == offset + len(piece), answer
                offset += len(piece)
                continue
            description = f"PATCH at {offset} with {len(piece)}: {answer!r}, after {self.faults.recent()}"
            assert self.faults.fired > before, f"refused without a cause: {description}"
            self.check_error(description, answer)
            self.recover()
            now = self.offset(path)
            allowed = {offset, offset + len(piece)} if algorithm else range(offset, offset + len(piece) + 1)
            if self.durability == "completed":
                allowed = range(offset + len(piece) + 1)
            assert now in allowed, f"HEAD tells {now}: {description}"
            offset = now
        assert self.offset(path) == len(data)

    def tus(self, data, sizes, **options):
        path, _ = self.created(len(data))
        self.send(path, data, 0, sizes, **options)
        self.keep(path, data)
        return path

    def keep(self, path, data):
        """Of a completed upload."""
        place = f"/media/{upload_id(path)}"
        self.kept[place] = data
        self.check(place, data)
        return place

    def check(self, place, data):
        """That an acknowledged content is served, and nothing else ever."""

        def is_right(answer):
            whole = answer.status == 200 and not answer.is_cut
            # A part of it is right as well.
            assert answer.status != 200 or data.startswith(answer.body), self.difference(place, data, answer.body)
            assert not whole or answer.body == data, self.difference(place, data, answer.body)
            return whole

        if place.startswith("/"):
            self.attempt(f"GET {place}", lambda: self.ask("GET", place, key=self.server.admin_key), is_right)
        else:
            self.attempt(f"GetObject {place}", lambda: self.ask_s3("get_object", Key=place), is_right)

    def difference(self, place, data, body):
        first = next((i for i, (a, b) in enumerate(zip(data, body, strict=False)) if a != b), min(len(data), len(body)))
        zeros = len(body[first:]) - len(body[first:].lstrip(b"\0"))
        return (
            f"{place}: wrong bytes are served: {len(body)} of {len(data)}, different from {first} on, where {zeros} are"
            f" zeros; after {self.faults.recent()}"
        )

    def delete(self, path):
        """Of an upload, by REST."""
        identifier = upload_id(path)
        key = self.server.admin_key
        self.attempt(
            "DELETE",
            lambda: self.ask("DELETE", f"/v1/uploads/{identifier}", key=key),
            lambda one: one.status == 204,
            lambda one: one.status == 204 or one.status in GONE,
        )
        self.forget(path)

    def terminate(self, path):
        """Of an upload that is open, by tus."""
        self.attempt(
            "termination",
            lambda: self.ask("DELETE", path, TUS),
            lambda one: one.status == 204,
            lambda one: one.status == 204 or one.status in GONE,
        )
        self.forget(path)

    def forget(self, path):
        self.kept.pop(f"/media/{upload_id(path)}", None)
        self.gone.append(path)
        self.check_gone(path)

    def check_gone(self, path):
        place = f"/media/{upload_id(path)}"
        key = self.server.admin_key
        self.attempt("GET of what is gone", lambda: self.ask("GET", place, key=key), lambda one: one.status in GONE)
        self.attempt("HEAD of what is gone", lambda: self.ask("HEAD", path, TUS), lambda one: one.status in GONE)

    # S3

    def put(self, key, data):
        answer = self.attempt("PutObject", lambda: self.ask_s3("put_object", Key=key, Body=data), is_ok)
        assert answer.parsed["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
        self.kept[key] = data
        self.check(key, data)

    def remove(self, key):
        self.attempt("DeleteObject", lambda: self.ask_s3("delete_object", Key=key), is_ok)
        self.kept.pop(key, None)
        self.gone.append(key)
        self.check_no_object(key)

    def check_no_object(self, key):
        self.attempt(
            "GetObject of what is gone",
            lambda: self.ask_s3("get_object", Key=key),
            lambda one: one.code == "NoSuchKey",
        )

    def multipart(self, key, pieces, order=None):
        """The id of an upload with these parts."""
        answer = self.attempt("CreateMultipartUpload", lambda: self.ask_s3("create_multipart_upload", Key=key), is_ok)
        upload = answer.parsed["UploadId"]
        for number in order or range(1, len(pieces) + 1):
            self.part(key, upload, number, pieces[number - 1])
        return upload

    def part(self, key, upload, number, piece):
        parameters = {"Key": key, "UploadId": upload, "PartNumber": number, "Body": piece}
        answer = self.attempt(f"UploadPart {number}", lambda: self.ask_s3("upload_part", **parameters), is_ok)
        assert answer.parsed["ETag"] == f'"{hashlib.md5(piece).hexdigest()}"'

    def complete(self, key, upload, pieces):
        parts = [
            {"PartNumber": number, "ETag": f'"{hashlib.md5(piece).hexdigest()}"'}
            for number, piece in enumerate(pieces, 1)
        ]
        parameters = {"Key": key, "UploadId": upload, "MultipartUpload": {"Parts": parts}}
        # If parts were not synchronised one by one, a failed sync may have lost some, and it is unknown which.
        lost = {"InvalidPart", "InternalError"} if self.durability == "completed" else set()
        answer = self.attempt(
            "CompleteMultipartUpload",
            lambda: self.ask_s3("complete_multipart_upload", **parameters),
            is_ok,
            # It took effect: the object is checked below.
            lambda one: is_ok(one) or one.code in {"NoSuchUpload"} | lost,
        )
        if answer.code in lost:
            self.abort(key, upload)
            return self.complete(key, self.multipart(key, pieces), pieces)
        self.kept[key] = b"".join(pieces)
        self.check(key, self.kept[key])

    def abort(self, key, upload):
        parameters = {"Key": key, "UploadId": upload}
        self.attempt(
            "AbortMultipartUpload",
            lambda: self.ask_s3("abort_multipart_upload", **parameters),
            is_ok,
            lambda one: is_ok(one) or one.code == "NoSuchUpload",
        )
        self.attempt(
            "ListParts", lambda: self.ask_s3("list_parts", **parameters), lambda one: one.code == "NoSuchUpload"
        )

    # All

    def check_all(self):
        """What is kept, and what is gone."""
        for place, data in self.kept.items():
            self.check(place, data)
        for place in self.gone:
            self.check_gone(place) if place.startswith("/") else self.check_no_object(place)

    def trim(self, count=40):
        """Drops the oldest, so that a long run stays fast."""
        for place in list(self.kept)[:-count]:
            del self.kept[place]
        del self.gone[:-count]


def is_ok(answer):
    return answer.parsed is not None and not answer.is_cut


def is_created(answer):
    return answer.status == 201
