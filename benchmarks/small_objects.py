"""Small requests to object stores by wrk, with presigned URLs; and listings by boto3."""

import concurrent.futures
import datetime
import hashlib
import hmac
import statistics
import tempfile
import urllib.parse
from pathlib import Path

from common import in_turns
from small import wrk

CONNECTIONS = 50
OBJECT_BYTES = 1024
PART_BYTES = 100 * 1024
# More than any store takes in one round.
PATHS = 40_000
# Objects that are read.
READ = 500
LISTED, FEW_LISTED = 20_000, 1_000


class Presigner:
    """Signature version 4 in the query, for a path-style URL. boto3's own takes too long for so many."""

    def __init__(self, store, method):
        self.store, self.method = store, method
        now = datetime.datetime.now(datetime.UTC)
        self.time = now.strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.time[:8]}/{store.region}/s3/aws4_request"
        self.host = urllib.parse.urlsplit(store.url).netloc
        key = f"AWS4{store.secret_key}".encode()
        for text in self.scope.split("/"):
            key = hmac.digest(key, text.encode(), "sha256")
        self.key = key

    def path(self, path, **query):
        """The path with its query; `path` needs no encoding."""
        query |= {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.store.access_key}/{self.scope}",
            "X-Amz-Date": self.time,
            "X-Amz-Expires": "3600",
            "X-Amz-SignedHeaders": "host",
        }
        encoded = urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote, safe="")
        request = f"{self.method}\n{path}\n{encoded}\nhost:{self.host}\n\nhost\nUNSIGNED-PAYLOAD"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.time}\n{self.scope}\n{digest}"
        return f"{path}?{encoded}&X-Amz-Signature={hmac.digest(self.key, text.encode(), 'sha256').hex()}"


def _put(target, bucket, number):
    sign = Presigner(target.store, "PUT").path
    return [sign(f"/{bucket}/put/{number}/{index}") for index in range(PATHS)]


def _part(target, bucket, number):
    sign = Presigner(target.store, "PUT").path
    client = target.store.client()
    paths = []
    for each in range(PATHS // 10_000):
        key = f"part/{number}/{each}"
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        paths += [sign(f"/{bucket}/{key}", partNumber=str(part), uploadId=upload) for part in range(1, 10_001)]
    return paths


def _get(target, bucket, _):
    sign = Presigner(target.store, "GET").path
    return [sign(f"/{bucket}/read/{index}") for index in range(READ)]


# wrk cannot send HEAD: it waits for the content.
OPERATIONS = {
    "PUT 1 KiB": ("PUT", OBJECT_BYTES, _put),
    "part of 100 KiB": ("PUT", PART_BYTES, _part),
    "GET 1 KiB": ("GET", 0, _get),
}


def measure(targets, bucket, rounds, seconds, listed):
    """Requests a second and CPU of each in microseconds: medians by operation and target."""
    for target in targets:
        client = target.store.client()
        for index in range(READ):
            client.put_object(Bucket=bucket, Key=f"read/{index}", Body=bytes(OBJECT_BYTES))
    found = {}
    for name, (method, size, paths) in OPERATIONS.items():
        results = {target.name: [] for target in targets}
        for number, target in in_turns(targets, rounds, name):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "paths"
                file.write_text("\n".join(paths(target, bucket, number)) + "\n")
                before = target.cpu_seconds()
                counts = wrk(target, "paths.lua", "/", seconds, CONNECTIONS, paths=file, method=method, bytes=size)
                cpu = target.cpu_seconds() - before
            # The next round then writes into pages that were just freed, as the large uploads do.
            for key, upload in target.store.multiparts(bucket):
                target.store.client().abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
            if number:
                rate = counts["uploads"] / (counts["microseconds"] / 1e6)
                results[target.name].append((rate, cpu / counts["uploads"] * 1e6))
        found[name] = _medians(results)
    found[f"a key in a list of {listed}"] = _listings(targets, bucket, rounds, listed)
    return found


def _listings(targets, bucket, rounds, listed):
    results = {target.name: [] for target in targets}
    for target in targets:
        _fill(target, bucket, listed)
    for number, target in in_turns(targets, rounds, "list"):
        client = target.store.client()
        before = target.cpu_seconds()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="list/")
        count = sum(len(page["Contents"]) for page in pages)
        cpu = target.cpu_seconds() - before
        assert count == listed, f"{target.name} lists {count} keys"
        if number:
            results[target.name].append((0, cpu / count * 1e6))
    return _medians(results)


def _fill(target, bucket, listed):
    """Each key once, by as many connections as the store takes."""
    client = target.store.client()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for one in [
            pool.submit(client.put_object, Bucket=bucket, Key=f"list/{index:06}", Body=b"") for index in range(listed)
        ]:
            one.result()


def _medians(results):
    return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in results.items()}


def print_table(found, targets):
    names = [target.name for target in targets]
    print("\nrequests a second and CPU of each in us, over", CONNECTIONS, "connections")
    print(f"{'':24}" + "".join(f"{name:>24}" for name in names))
    for operation, results in found.items():
        cells = [f"{rate:.0f}/s {cpu:.0f} us" if rate else f"{cpu:.1f} us" for rate, cpu in map(results.get, names)]
        print(f"{operation:24}" + "".join(f"{cell:>24}" for cell in cells))
