"""Rotation of the master secret: what was issued stays valid until it expires, or until its secret is dropped."""

import hashlib
import re
import socket
from urllib.parse import urlsplit

import pytest
import requests

from harness import hosts, object_client
from harness.api import API, path_of, problem, tus_error, upload_id
from harness.daemon import free_port, free_ports
from harness.data import KIB, MIB, content, sha256
from harness.object_client import ObjectServer, minted
from harness.object_clients.base import DOMAINS
from harness.object_clients.calls import DIALECTS, refusal
from harness.origin import Origin
from harness.receiver import Receiver
from harness.relay import Cluster, new_secret
from harness.server import run
from harness.wire import until

BUCKET = "media-1250000000"
# The least that each dialect takes for a part that is not the last.
PART = 5 * MIB
# What a session with a token that is none gets.
REFUSED = {
    "s3": (400, "InvalidToken"),
    "oss-v1": (403, "InvalidSecurityToken"),
    "oss-v4": (403, "InvalidSecurityToken"),
    "cos": (403, "InvalidAccessKeyId"),
}


class FileRotation:
    """The secret is in the data directory, and rotated by the command."""

    def __init__(self):
        self.settings = {}

    def prepare(self, server):
        # With the state in a database the secret is a setting.
        for name in ("SLUICE_DATABASE_URL", "SLUICE_MASTER_SECRET"):
            server.environment.pop(name, None)

    def _command(self, server, *arguments):
        printed = run("secret", *arguments, environment=server.environment).stdout
        assert (server.data / "master.secret").read_text().split()[0] not in printed
        return re.findall(r"^([0-9a-f]{8})  is (used|accepted)", printed, re.MULTILINE)

    def rotate(self, server):
        (old, _), *_ = self._command(server, "list")
        (new, uses), (before, accepted) = self._command(server, "rotate")
        assert new != old and before == old and (uses, accepted) == ("used", "accepted")

    def drop(self, server):
        (_, _), (old, _) = self._command(server, "list")
        assert len(self._command(server, "drop", old)) == 1


class SettingRotation:
    """It is a setting."""

    def __init__(self):
        self.secrets = [new_secret()]

    @property
    def settings(self):
        return {"SLUICE_MASTER_SECRET": ",".join(self.secrets)}

    def prepare(self, server):
        pass

    def rotate(self, server):
        self.secrets.insert(0, new_secret())
        server.environment |= self.settings

    def drop(self, server):
        self.secrets.pop()
        server.environment |= self.settings


class Handed:
    """One of everything that can be issued, and running uploads."""

    def __init__(self, server, origin, name):
        self.server = server
        self.name = name
        self.data = content(PART + 3, len(name))
        api = self.api = API(server.url, server.admin_key)
        self.url = api.created(100 * KIB)
        assert api.patch(self.url, 0, self.data[: 40 * KIB]).status_code == 204
        self.token = api.post("/v1/tus/tokens", {"subject": name}).json()["token"]
        self.link = api.post(f"/v1/media/{api.uploaded(b'linked')}/links").json()["url"]
        wanted = {"bucket": BUCKET, "key": f"{name}/presigned"}
        self.presigned = api.post("/v1/presigned-urls", wanted).json()["url"]
        self.pair = server.pair()
        self.sessions = {}
        port = int(server.object_url.rsplit(":", 1)[1])
        for dialect, calls in DIALECTS.items():
            held = minted(server, calls.format, bucket=BUCKET, keyPrefix=f"{name}/", actions=["upload", "read"])
            client, key = calls(port, BUCKET, held), f"{name}/{dialect}"
            upload = client.create(key)
            client.part(key, upload, 1, self.data[:PART])
            self.sessions[dialect] = (client, key, upload)
        self.source = origin.add(f"/{name}", self.data, delay=0.02, piece=64 * KIB)
        self.pull = api.post("/v1/media/pull", json={"url": f"{origin.url}/{name}"}).json()["id"]
        until(lambda: api.upload(self.pull)["offset"] > 0)

    def own(self, dialect):
        """A client with the pair of the administrator."""
        port = int(self.server.object_url.rsplit(":", 1)[1])
        return DIALECTS[dialect](port, BUCKET, (*self.pair, None))

    def by_pair(self, service="s3"):
        return object_client.client(self.server.object_url, self.pair, service=service)

    def goes_on(self):
        api = self.api
        assert api.offset(self.url) == 40 * KIB
        assert api.patch(self.url, 40 * KIB, self.data[40 * KIB : 100 * KIB]).status_code == 204
        assert api.download_hash(upload_id(self.url))[0] == sha256(self.data[: 100 * KIB])
        assert api.create(10, key=self.token).status_code == 201
        assert requests.get(self.link, timeout=10).content == b"linked"
        assert refusal(requests.put(self.presigned, data=b"1", timeout=10)) is None
        for client, key, upload in self.sessions.values():
            client.part(key, upload, 2, self.data[PART:])
            tags = {"aliyun": str.upper}.get(client.format, str.lower)
            parts = [(1, self.data[:PART]), (2, self.data[PART:])]
            client.complete(key, upload, [(number, tags(hashlib.md5(data).hexdigest())) for number, data in parts])
            assert sha256(client.get(key)) == sha256(self.data)
        for dialect in DIALECTS:
            assert self.own(dialect).code("put", f"{self.name}/own-{dialect}") is None, dialect
        assert BUCKET in [one["Name"] for one in self.by_pair().list_buckets()["Buckets"]]
        form = self.by_pair().generate_presigned_post(BUCKET, f"{self.name}/form")
        assert requests.post(form["url"], form["fields"], files={"file": b"1"}, timeout=10).status_code == 204
        given = object_client.session(self.by_pair("sts").get_session_token()["Credentials"])
        assert object_client.client(self.server.object_url, **given).list_objects_v2(Bucket=BUCKET)["KeyCount"] > 0
        assert until(lambda: api.upload(self.pull)["state"] == "completed", 30)
        assert api.download_hash(self.pull)[0] == sha256(self.data)

    def is_refused(self):
        api = self.api
        assert tus_error(api.patch(self.url, 40 * KIB, b"x"), 404)
        tus_error(api.create(10, key=self.token), 401)
        problem(requests.get(self.link, timeout=10), 401, "unauthenticated")
        assert refusal(requests.put(self.presigned, data=b"1", timeout=10)) == REFUSED["s3"]
        for dialect, (client, key, upload) in self.sessions.items():
            assert client.code("put", key) == REFUSED[dialect], dialect
            assert client.code("parts", key, upload) == REFUSED[dialect], dialect
            assert self.own(dialect).code("put", key) == (403, "SignatureDoesNotMatch"), dialect
        assert object_client.code(self.by_pair().list_buckets) == (403, "SignatureDoesNotMatch")
        form = self.by_pair().generate_presigned_post(BUCKET, f"{self.name}/form")
        assert refusal(requests.post(form["url"], form["fields"], files={"file": b"1"}, timeout=10)) == (
            403,
            "SignatureDoesNotMatch",
        )
        assert object_client.code(self.by_pair("sts").get_session_token) == (403, "SignatureDoesNotMatch")
        # What nothing can be known of any more ends with a reason.
        until(lambda: api.upload(self.pull)["state"] == "terminated", 30)
        assert api.upload(self.pull)["pull"]["lastError"]["code"] == "request_unreadable"


@pytest.fixture
def origin():
    with Origin() as one:
        yield one


@pytest.fixture(params=[FileRotation, SettingRotation], ids=["file", "setting"])
def rotation(request):
    return request.param()


def test_issued_credentials_stay_valid_until_their_secret_is_dropped(make_object_server, rotation, origin):
    server = make_object_server(rotation.settings)
    rotation.prepare(server)
    server.start()
    first, unlucky = Handed(server, origin, "first"), Handed(server, origin, "unlucky")
    # Takes longer than its secret is known.
    unlucky.source.delay = 60

    rotation.rotate(server)
    server.stop()
    server.start()
    assert server.pair() != first.pair and server.pair()[0] == first.pair[0]
    first.goes_on()
    second = Handed(server, origin, "second")

    rotation.drop(server)
    server.stop()
    server.start()
    unlucky.is_refused()
    second.goes_on()
    third = Handed(server, origin, "third")
    third.goes_on()
    # What is stored is not concerned.
    assert first.api.download_hash(upload_id(first.url))[0] == sha256(first.data[: 100 * KIB])


@pytest.fixture
def make_object_server(tmp_path, monkeypatch):
    made = []

    def make(settings):
        gateway, port = free_ports(2)
        settings = settings | {
            "SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{gateway}",
            "SLUICE_OBJECT_BUCKETS": BUCKET,
            "SLUICE_OBJECT_DOMAINS": ",".join(DOMAINS.values()),
            "SLUICE_PULL_ALLOW": "127.0.0.1",
            "SLUICE_PULL_RETRY_DELAY": "20ms",
            "SLUICE_TIMEOUTS_SHUTDOWN_GRACE": "1s",
        }
        monkeypatch.setattr(socket, "getaddrinfo", hosts.resolver({DOMAINS["cos"]: port}))
        made.append(ObjectServer(tmp_path / "data", port, settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_hooks_are_signed_with_the_old_and_the_new_secret(make_server):
    rotation = SettingRotation()
    server = make_server(environment=rotation.settings)

    def secret():
        return run("credentials", "webhooks", environment=server.environment).stdout.strip()

    old = secret()
    rotation.rotate(server)
    with Receiver(old) as receiver:
        server.environment |= {"SLUICE_HOOKS_URL": receiver.url, "SLUICE_HOOKS_EVENTS": "post-finish"}
        server.start()
        api = API(server.url, server.admin_key)
        for known in (old, secret()):
            receiver.secret = known
            receiver.wait("post-finish", upload=api.uploaded(b"1"))
        assert old != known and receiver.failures == []


# The command


def test_a_secret_of_the_settings_is_not_changed_by_the_command(tmp_path):
    secret, other = new_secret(), new_secret()
    for name in ("rotate", "drop"):
        arguments = ["secret", name] + (["01234567"] if name == "drop" else [])
        done = run(*arguments, data=tmp_path, environment={"SLUICE_MASTER_SECRET": secret}, check=False)
        assert done.returncode != 0 and "SLUICE_MASTER_SECRET" in done.stderr and secret not in done.stderr
    listed = run("secret", "list", data=tmp_path, environment={"SLUICE_MASTER_SECRET": f"{secret},{other}"}).stdout
    assert len(re.findall("^[0-9a-f]{8}  ", listed, re.MULTILINE)) == 2
    assert "SLUICE_MASTER_SECRET" in listed and secret not in listed and other not in listed
    assert list(tmp_path.iterdir()) == []


def test_there_is_nothing_to_rotate_before_the_first_start(tmp_path):
    done = run("secret", "rotate", data=tmp_path, check=False)
    assert done.returncode != 0 and "first start" in done.stderr
    assert list(tmp_path.iterdir()) == []


# Many nodes


@pytest.fixture
def cluster(rgw, postgres, bucket_name, tmp_path):
    each = {number: {"SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}"} for number in range(2)}
    with Cluster(tmp_path, rgw, bucket_name, postgres.make_database(), nodes=2, each=each) as made:
        yield made
    rgw.wipe(bucket_name)


def crosswise(cluster):
    """Each node accepts what the other one issued."""
    for maker, user in ((0, 1), (1, 0)):
        made, used = cluster.nodes[maker], cluster.nodes[user]
        api, other = cluster.direct(maker), cluster.direct(user)
        token = api.post("/v1/tus/tokens", {"subject": "anna"}).json()["token"]
        url = used.url + path_of(api.created(10, key=token))
        assert other.patch(url, 0, b"0123456789").status_code == 204
        assert other.create(10, key=token).status_code == 201
        link = api.post(f"/v1/media/{upload_id(url)}/links").json()["url"]
        assert other.get(f"{path_of(link)}?{urlsplit(link).query}", key=None).content == b"0123456789"
        *pair, session = minted(made, "aws", bucket="uploads", keyPrefix="anna/", actions=["upload", "read"])
        client = object_client.client(used.object_url, pair, token=session)
        client.put_object(Bucket="uploads", Key="anna/1", Body=b"1")
        assert client.get_object(Bucket="uploads", Key="anna/1")["Body"].read() == b"1"
        object_client.client(used.object_url, made.pair()).list_buckets()


def test_nodes_are_rotated_one_after_the_other(cluster):
    old, new = cluster.nodes[0].environment["SLUICE_MASTER_SECRET"], new_secret()
    data = content(6 * KIB, 9)
    url = cluster.api.created(len(data))
    held = minted(cluster.nodes[0], "aws", bucket="uploads", keyPrefix="bert/", actions=["upload"])
    offset = 0
    for secrets in ([old, new], [new, old]):
        for node in cluster.nodes:
            node.stop()
            node.environment["SLUICE_MASTER_SECRET"] = ",".join(secrets)
            node.start()
            crosswise(cluster)
            # What began before goes on, at whichever node.
            assert cluster.api.patch(url, offset, data[offset : offset + KIB]).status_code == 204
            offset += KIB
            *pair, token = held
            for one in cluster.nodes:
                client = object_client.client(one.object_url, pair, token=token)
                client.put_object(Bucket="uploads", Key="bert/1", Body=b"1")
    assert cluster.api.patch(url, offset, data[offset:]).status_code == 204
    assert cluster.api.download_hash(upload_id(url)) == (sha256(data), len(data))
    for node in cluster.nodes:
        node.stop()
        node.environment["SLUICE_MASTER_SECRET"] = new
        node.start()
        crosswise(cluster)
        *pair, token = held
        client = object_client.client(node.object_url, pair, token=token)
        refused = object_client.code(client.put_object, Bucket="uploads", Key="bert/1", Body=b"1")
        assert refused == (400, "InvalidToken")
