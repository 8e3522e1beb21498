"""Restarts three gateways in turn below HAProxy while clients upload; see `scripts/rolling-restart`.

A client may see an error only if its SDK tries again by itself. An upload counts when the bytes that the gateway
returns have its SHA-256; it is deleted then.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import boto3.exceptions
import requests
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError
from qcloud_cos.cos_exception import CosException
from requests.adapters import HTTPAdapter
from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError
from urllib3.util.retry import Retry

from harness import aliyun_client, object_client, vod_api
from harness import vimeo as vimeo_clients
from harness.api import OFFSET_TYPE, TUS, upload_id
from harness.daemon import free_ports
from harness.data import KIB, MIB, content, sha256
from harness.postgres import Postgres
from harness.proxies import OBJECTS, UPLOADS, Proxy
from harness.relay import SETTINGS, new_secret
from harness.rgw import RGW
from harness.server import ADMIN_KEY, BINARY, Server
from harness.wire import until
from soak.common import Log, Rate

LARGEST = 24 * MIB
# Each upload is a slice of this; the bytes do not repeat, so bytes in a wrong place are seen.
SOURCE = content(LARGEST + 16 * MIB, 1)
# Bytes a second over all clients: the machine also runs the store, the database and the proxy.
BYTES_PER_SECOND = 6 * MIB
# Longer than HAProxy needs to see that a node is not ready: two checks, 2 s apart.
DRAIN = 8
# Time for HAProxy to see that a node is back.
REST = 5


class Client(threading.Thread):
    """Uploads one file after the other; any exception of its SDK is a failure."""

    def __init__(self, run, number):
        self.kind = type(self).__name__
        super().__init__(name=f"{self.kind} {number}", daemon=True)
        self.site = run.site
        self.log = run.log
        self.rate = run.rate
        self.stopping = run.stopping
        self.generator = random.Random(f"{run.options.seed} {self.name}")

    def run(self):
        while not self.stopping.is_set() and not self.log.over.is_set():
            size = int(2 ** self.generator.uniform(10, LARGEST.bit_length() - 1))
            start = self.generator.randrange(len(SOURCE) - size)
            content = SOURCE[start : start + size]
            began = time.strftime("%H:%M:%S")
            try:
                self.upload(content)
                self.log.count(f"{self.kind}: uploads")
                self.log.count("bytes", size)
            except (
                AssertionError,
                OSError,
                ValueError,
                LookupError,
                TusCommunicationError,
                BotoCoreError,
                ClientError,
                boto3.exceptions.Boto3Error,
                CosException,
                TencentCloudSDKException,
            ) as failure:
                self.log.fail(f"{began} {self.name}, {size} bytes: {type(failure).__name__}: {str(failure)[:400]}")

    def upload(self, content):
        raise NotImplementedError

    def check(self, identifier, content):
        """What the gateway returns for it; this reads past the proxy, and again if the node stops meanwhile."""
        found = self.site.read(identifier)
        assert sha256(found) == sha256(content), f"{identifier} has {len(found)} bytes, or others"


class Paced(io.BytesIO):
    """A file that is read no faster than the rate allows."""

    def __init__(self, content, rate):
        super().__init__(content)
        self.rate = rate

    def read(self, size=-1):
        data = super().read(size)
        self.rate.take(len(data))
        return data


class Tuspy(Client):
    """tus-py-client: a PATCH for each chunk."""

    def upload(self, content):
        token = self.site.token()
        uploader = TusClient(f"https://{UPLOADS}/files", headers={"Authorization": f"Bearer {token}"}).uploader(
            file_stream=Paced(content, self.rate),
            chunk_size=self.generator.choice([MIB, 4 * MIB]),
            retries=8,
            retry_delay=1,
        )
        uploader.upload()
        self.check(upload_id(uploader.url), content)


class Phone(Client):
    """One PATCH for the whole file, over a slow link: longer than a node waits before it stops.

    After a cut it asks for the offset and goes on, as all tus clients do.
    """

    def upload(self, content):
        token = self.site.token()
        headers = TUS | {"Upload-Length": str(len(content)), "Authorization": f"Bearer {token}"}
        answer = requests.post(f"https://{UPLOADS}/files", headers=headers, timeout=60)
        assert answer.status_code == 201, f"creation: {answer.status_code} {answer.text}"
        url, offset, attempts = answer.headers["Location"], 0, 0
        while offset < len(content):
            attempts += 1
            assert attempts <= 20, f"at {offset} after {attempts} attempts"
            fields = TUS | {"Upload-Offset": str(offset), "Content-Type": OFFSET_TYPE}
            try:
                answer = requests.patch(url, data=self.slowly(content, offset), headers=fields, timeout=120)
                if answer.status_code == 204:
                    offset = int(answer.headers["Upload-Offset"])
                    continue
                self.log.count(f"{self.kind}: answers {answer.status_code}")
            except requests.RequestException:
                self.log.count(f"{self.kind}: cuts")
            time.sleep(1)
            answer = requests.head(url, headers=TUS, timeout=60)
            if answer.status_code in (423, 502, 503):
                self.log.count(f"{self.kind}: HEAD {answer.status_code}")
                continue
            assert answer.status_code == 200, f"HEAD: {answer.status_code}"
            found = int(answer.headers["Upload-Offset"])
            assert found >= offset, f"the offset went from {offset} to {found}"
            offset = found
        self.check(upload_id(url), content)

    def slowly(self, content, offset):
        for begin in range(offset, len(content), 256 * KIB):
            piece = content[begin : begin + 256 * KIB]
            self.rate.take(len(piece))
            time.sleep(0.6)
            yield piece


class Boto3(Client):
    """boto3's upload_fileobj, with its default retries."""

    def upload(self, content):
        key = f"boto3/{self.generator.getrandbits(64):x}"
        bucket = object_client.BUCKET
        s3 = self.site.objects(retries={"mode": "standard"})
        transfer = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=2)
        s3.upload_fileobj(Paced(content, self.rate), bucket, key, Config=transfer)
        self.check_object(bucket, key, content)

    def check_object(self, bucket, key, content):
        found = self.site.read_object(bucket, key)
        assert sha256(found) == sha256(content), f"{key} has {len(found)} bytes, or others"


class Tencent(Boto3):
    """vod-python-sdk, which applies, sends to COS and commits."""

    def upload(self, content):
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            self.rate.take(len(content))
            file.write(content)
            file.flush()
            answer = vod_api.upload(self.site.front, self.site.tencent_pair, file.name)
        bucket, _, key = answer["MediaUrl"].partition("://")[2].partition("/")[2].partition("/")
        self.check_object(bucket, key, content)


class Aliyun(Boto3):
    """The SDK of ApsaraVideo VOD for Android, replayed: credentials from the app's server, parts to OSS.

    An upload that the SDK gives up is a failure, and so is one that begins anew.
    """

    def upload(self, content):
        app = aliyun_client.App(self.site.front)
        client = aliyun_client.Android(content)
        client.part_size = MIB
        client.parallel = 2
        client.http.verify = str(self.site.proxy.authority)
        client.before_part = lambda _: self.rate.take(MIB)
        state = client.upload(app)
        assert state == "finished", f"{state}: {client.error!r}"
        self.check_object(app.address["Bucket"], app.address["FileName"], content)


class PyVimeo(Client):
    """PyVimeo, which sends the whole file in one PATCH, and goes on after a cut three times."""

    def upload(self, content):
        client = self.site.vimeo(vimeo_clients.token(self.site.front))
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            self.rate.take(len(content))
            file.write(content)
            file.flush()
            uri = client.upload(file.name)
        upload = client.get(uri, params={"fields": "upload.upload_link,transcode.status"}).json()["upload"]
        self.check(upload_id(upload["upload_link"]), content)


class Backend(Client):
    """An app's backend that mints a token now and then, and tries nothing twice."""

    def upload(self, content):
        time.sleep(0.2)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        body = {"subject": "anna"}
        answer = requests.post(f"https://{UPLOADS}/v1/tus/tokens", json=body, headers=headers, timeout=60)
        assert answer.status_code == 201, f"{answer.status_code} {answer.text}"


CROWD = {Tuspy: 2, Phone: 3, Boto3: 2, Tencent: 1, Aliyun: 1, PyVimeo: 1, Backend: 1}


class Site:
    """Three nodes with one store and one database below HAProxy."""

    def __init__(self, folder, stack, before=None):
        store = stack.enter_context(RGW(folder / "store"))
        database = stack.enter_context(Postgres()).make_database()
        ports = free_ports(6)
        self.ports = list(zip(ports[:3], ports[3:], strict=True))
        settings = store.settings(store.url, "uploads") | SETTINGS
        settings |= {
            "SLUICE_DATABASE_URL": database,
            "SLUICE_MASTER_SECRET": new_secret(),
            "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
            "SLUICE_PUBLIC_URL": f"https://{UPLOADS}",
            "SLUICE_OBJECT_PUBLIC_URL": f"https://{OBJECTS}",
            "SLUICE_OBJECT_DOMAINS": OBJECTS,
            "SLUICE_UPLOADS_INTERIM_RESPONSES": "always",
            "SLUICE_TIMEOUTS_DRAIN": f"{DRAIN}s",
        }
        self.nodes = []
        for number, (gateway, objects) in enumerate(self.ports, 1):
            (folder / f"node{number}").mkdir()
            own = {
                "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{gateway}",
                "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{objects}",
            }
            log = folder / f"node{number}.log"
            node = Server(folder / f"node{number}" / "data", environment=settings | own, log=log)
            node.binary = before or node.binary
            node.start()
            # What it is restarted with.
            node.binary = BINARY
            stack.callback(node.kill)
            self.nodes.append(node)
        self.pair = self.nodes[0].pair()
        self.tencent_pair = vod_api.own_pair(self.nodes[0])
        self.proxy = stack.enter_context(Proxy("haproxy", folder / "proxy", self.ports))
        # What requests and the SDKs trust.
        os.environ["REQUESTS_CA_BUNDLE"] = str(self.proxy.authority)
        # In the place of a server, for clients that are given one.
        self.front = SimpleNamespace(
            url=f"https://{UPLOADS}",
            object_url=f"https://{OBJECTS}",
            admin_key=ADMIN_KEY,
            authority=str(self.proxy.authority),
        )
        self.plain = requests.Session()
        self.plain.trust_env = False
        # Not under test: it reads and deletes what was uploaded.
        retry = Retry(total=8, backoff_factor=0.5, status_forcelist=[502, 503], allowed_methods=None)
        self.plain.mount("https://", HTTPAdapter(max_retries=retry))
        self.plain.verify = str(self.proxy.authority)
        self.plain.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        until(lambda: self.plain.get(f"https://{UPLOADS}/healthz").status_code == 200, timeout=30)

    def token(self):
        """An app's upload token; the backend that mints it tries again."""
        answer = self.plain.post(f"https://{UPLOADS}/v1/tus/tokens", json={"subject": "anna"}, timeout=60)
        assert answer.status_code == 201, f"no token: {answer.status_code} {answer.text}"
        return answer.json()["token"]

    def objects(self, **options):
        return object_client.client(f"https://{OBJECTS}", self.pair, verify=str(self.proxy.authority), **options)

    def vimeo(self, token):
        """PyVimeo; its versions are in folders of their own, and one of them is used here."""
        folder = str(vimeo_clients.packages(vimeo_clients.NEW[0]))
        if folder not in sys.path:
            sys.path.append(folder)
        client = importlib.import_module("vimeo.client")
        client.VimeoClient.API_ROOT = f"https://{UPLOADS}"
        return client.VimeoClient(token=token)

    def read(self, identifier):
        """The content of a completed upload, which is deleted then."""

        def content():
            answer = self.plain.get(f"https://{UPLOADS}/media/{identifier}", timeout=60)
            assert answer.status_code == 200, f"media {identifier}: {answer.status_code} {answer.text}"
            return answer.content

        found = again(content)
        self.plain.delete(f"https://{UPLOADS}/v1/uploads/{identifier}", timeout=60)
        return found

    def read_object(self, bucket, key):
        s3 = self.objects(retries={"mode": "standard", "total_max_attempts": 8})
        found = again(lambda: s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        s3.delete_object(Bucket=bucket, Key=key)
        return found


def again(read):
    """Reads once more if a download was cut by the end of a node, which no client can hide from its user."""
    for _ in range(4):
        with contextlib.suppress(requests.ConnectionError, requests.exceptions.ChunkedEncodingError, BotoCoreError):
            return read()
        time.sleep(1)
    return read()


class Run:
    def __init__(self, options, folder, stack):
        self.options = options
        self.log = Log()
        self.rate = Rate(BYTES_PER_SECOND)
        self.stopping = threading.Event()
        self.restarts = 0
        # How long it took.
        self.minutes = 0
        self.site = Site(folder, stack, options.before)

    def run(self):
        clients = [kind(self, number) for kind, count in CROWD.items() for number in range(1, count + 1)]
        for client in clients:
            client.start()
        began = time.monotonic()
        end = began + self.options.minutes * 60
        try:
            while time.monotonic() < end and self.restarts != self.options.restarts and not self.log.over.is_set():
                self.restart(self.site.nodes[self.restarts % len(self.site.nodes)])
        except AssertionError as failure:
            self.log.fail(f"the restart failed: {failure}", is_last=True)
        finally:
            self.minutes = (time.monotonic() - began) / 60
            self.stopping.set()
            deadline = time.monotonic() + 300
            for client in clients:
                client.join(max(0, deadline - time.monotonic()))
        for client in clients:
            if client.is_alive():
                self.log.fail(f"{client.name} did not end", is_last=True)
        self.check_logs()

    def restart(self, node):
        self.log.over.wait(REST)
        began = time.monotonic()
        node.stop(timeout=DRAIN + 40)
        ended = time.monotonic()
        node.start()
        until(lambda: requests.get(f"{node.url}/readyz", timeout=10).status_code == 200, timeout=30)
        self.restarts += 1
        counts = self.log.counts
        uploads = sum(count for name, count in counts.items() if name.endswith(": uploads"))
        text = f"restart {self.restarts}: ended in {ended - began:.1f} s, ready after {time.monotonic() - ended:.1f} s"
        print(f"{text}; {uploads} uploads, {counts['failures']} failures", file=sys.stderr, flush=True)

    def check_logs(self):
        """No line of a node's log is an error."""
        for node in self.site.nodes:
            lines = node.log.read_text(errors="replace").splitlines()
            for line in [line for line in lines if '"level":"error"' in line or '"level":"critical"' in line][:5]:
                self.log.fail(f"log: {line[:300]}", is_last=True)

    def document(self):
        return {
            "minutes": self.minutes,
            "seed": self.options.seed,
            "restarts": self.restarts,
            "passed": self.is_good,
            "counts": dict(sorted(self.log.counts.items())),
            "failures": self.log.failures,
        }

    @property
    def is_good(self):
        return self.restarts > 0 and not self.log.failures


def main():
    parser = argparse.ArgumentParser(prog="scripts/rolling-restart", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, help="length of the load (default 30)")
    parser.add_argument("--restarts", type=int, help="end after so many restarts")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of everything random")
    parser.add_argument("--from", type=Path, dest="before", help="the program of the version before, which runs first")
    parser.add_argument("--json", type=Path, help="where to write counts and failures")
    options = parser.parse_args()
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rolling-")))
        run = Run(options, folder, stack)
        run.run()
        document = run.document()
    for name, count in Counter(document["counts"]).most_common():
        print(f"{name:30} {count}")
    for failure in document["failures"]:
        print(f"failure: {failure}")
    verdict = "passed" if document["passed"] else "FAILED"
    print(f"{verdict}: {document['restarts']} restarts in {run.minutes:.1f} minutes, seed {options.seed}")
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if document["passed"] else 1)


if __name__ == "__main__":
    main()
