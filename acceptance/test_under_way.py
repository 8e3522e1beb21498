"""Requests that are under way when an upload completes: what they still bring replaces nothing, except where the
protocol lets the last writer win; then record, content and events are those of the last one."""

import contextlib
import hashlib
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import requests
from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness import ways
from harness.daemon import free_port
from harness.data import KIB, content
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.receiver import Receiver
from harness.relay import SETTINGS as RELAY
from harness.relay import new_secret
from harness.ways import BUCKET, COMPANION, File, Refused, World
from harness.wire import Closed, Wire

PNG = b"\x89PNG\r\n\x1a\n"
FILE = File(PNG + content(200 * KIB, 1))
EVIL = PNG + content(200 * KIB, 2)
SECRET = "whsec_c2x1aWNlLWFjY2VwdGFuY2UtdGVzdHMtMTIzNDU2Nzg5MA=="
STORE = "under-way"


class Twin:
    """A request like another one, half of whose content is held back. It has been admitted when this returns."""

    def __init__(self, address, prepared, body):
        url = urlsplit(prepared.url)
        own = {"content-length", "transfer-encoding", "connection"}
        fields = [(name, text(value)) for name, value in prepared.headers.items() if name.lower() not in own]
        if "host" not in {name.lower() for name, _ in fields}:
            fields.append(("Host", url.netloc))
        self.name = f"{prepared.method} {url.path}"
        self.method = prepared.method
        self.rest = b""
        self.answer = None
        self.wire = Wire(address)
        fields += [("Expect", "100-continue"), ("Content-Length", len(body))]
        self.wire.request(prepared.method, prepared.path_url, fields)
        interim = self.wire.interim()
        while interim.status != 100 and interim.status < 200:
            interim = self.wire.interim()
        if interim.status == 100:
            self.wire.send(body[: len(body) // 2])
            self.rest = body[len(body) // 2 :]
        else:
            self.answer = interim

    def finish(self):
        """The status of its response; None if the connection was closed without one."""
        with self.wire:
            if self.answer:
                return self.answer.status
            try:
                with contextlib.suppress(OSError):
                    self.wire.send(self.rest)
                return self.wire.reply(self.method).status
            except Closed as end:
                assert not end.partial, end
                return None


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class BusyWorld(World):
    """Begins a twin before each request with content that is wanted: `bytes` of the file, or `documents`."""

    def __init__(self, server, origin, other=None):
        super().__init__(server, origin)
        # Where twins are sent to.
        self.other = other or server
        self.wanted = None
        self.twins = []

    def address(self, url):
        """Where the other node serves what a URL is for."""
        is_object = urlsplit(url).netloc == urlsplit(self.server.object_url).netloc
        return "127.0.0.1", urlsplit(self.other.object_url if is_object else self.other.url).port

    def call(self, method, url, **options):
        if not self.wanted:
            return super().call(method, url, **options)
        url = url if url.startswith("http") else self.server.url + url
        pieces = None
        if hasattr(options.get("data"), "__next__"):
            pieces = list(options["data"])
            options["data"] = b"".join(pieces)
        prepared = self.session.prepare_request(requests.Request(method, url, **options))
        body = prepared.body or b""
        body = body.encode() if isinstance(body, str) else body
        evil = self.evil(body)
        if len(body) > 1 and (evil != body) == (self.wanted == "bytes"):
            self.twins.append(Twin(self.address(url), prepared, evil))

        def send():
            return super(BusyWorld, self).call(method, url, **options | ({"data": iter(pieces)} if pieces else {}))

        answer = send()
        if answer.status_code == 409 and "send the request again" in answer.text:
            # The gateway read the first bytes of its twin after its own, so the twin took over.
            answer = send()
        data = options.get("data")
        if answer.status_code == 409 and "Upload-Offset" in answer.headers and isinstance(data, bytes):
            # Its twin has brought bytes, after which a client goes on.
            offset = int(answer.headers["Upload-Offset"])
            begin = int(options["headers"]["Upload-Offset"])
            headers = options["headers"] | {"Upload-Offset": str(offset)}
            answer = super().call(method, url, **options | {"headers": headers, "data": data[offset - begin :]})
        return answer

    @staticmethod
    def evil(body):
        """The same with other bytes of the file."""
        if FILE.data in body:
            return body.replace(FILE.data, EVIL)
        if len(body) > 9 and (at := FILE.data.find(body)) >= 0:
            return EVIL[at : at + len(body)]
        return body


class UnsignedContent(ways.AWS):
    """The content is no part of the signature: the twin would else be refused for it."""

    def request(self, world, held, method, key, query=None, data=b"", headers=None):
        class Auth(S3SigV4Auth):
            def payload(self, request):
                return UNSIGNED_PAYLOAD

        url = f"{world.server.object_url}/{BUCKET}/{ways.quote(key)}"
        signed = AWSRequest(method, url, params=query or {}, data=data, headers=headers or {})
        Auth(Credentials(*held[0]), "s3", "us-east-1").add_auth(signed)
        prepared = signed.prepare()
        return world.call(method, prepared.url, data=data, headers=dict(prepared.headers))


# The bytes come with the creation, or begin with it.
CREATIONS = {
    *("tus with the creation", "tus in parts", "draft", "draft in steps", "form", "form with a token"),
    *("POST of a file", "POST of a file in chunks", "PUT of a file"),
}


@dataclass
class Row:
    way: ways.Way
    # Which requests are under way.
    wanted: str
    is_one_time: bool
    # Whether the upload is deleted before they end.
    is_deleted: bool

    @property
    def name(self):
        flags = [self.wanted, "one-time" if self.is_one_time else "", "deleted" if self.is_deleted else ""]
        return "-".join([self.way.name, *filter(None, flags)])

    @property
    def makes(self):
        """Whether the twin makes an upload of its own."""
        return self.wanted == "bytes" and not self.is_one_time and self.way.name in CREATIONS

    @property
    def replaces(self):
        """Whether the twin may store its bytes: what is put again, and not in parts, whose upload has ended."""
        is_put = self.way.replaces and getattr(self.way, "kind", "put") == "put"
        return is_put and self.wanted == "bytes" and not self.is_one_time


def rows():
    for way in ways.ALL:
        if getattr(way, "kind", "") in ("pull", "copy", "copy of parts") or way.name == "pull":
            continue
        way = UnsignedContent(way.name, way.kind) if isinstance(way, ways.AWS) else way
        has_documents = isinstance(way, (ways.UGC, ways.VimeoWay, ways.PresignedParts))
        has_documents |= getattr(way, "kind", "") == "parts"
        for wanted in ("bytes", "documents") if has_documents else ("bytes",):
            has_one_time = "oneTime" in way.limits and "one-time" not in way.without
            for is_one_time in (False, True) if has_one_time else (False,):
                for is_deleted in (False, True):
                    yield Row(way, wanted, is_one_time, is_deleted)


ROWS = [pytest.param(row, id=row.name) for row in rows()]


def at_another_node():
    """Those with bytes; in the gate one for each way, with the flags in turn, as one node has all of them."""
    groups = itertools.groupby((row for row in rows() if row.wanted == "bytes"), lambda row: row.way.name)
    for number, (_, group) in enumerate(groups):
        group = list(group)
        for index, row in enumerate(group):
            is_in_gate = index == number % len(group)
            yield pytest.param(row, id=row.name, marks=[] if is_in_gate else pytest.mark.nightly)


@pytest.fixture(scope="module")
def receiver():
    with Receiver(SECRET) as one:
        yield one


def settings(receiver):
    return {
        "SLUICE_OBJECT_BUCKETS": BUCKET,
        "SLUICE_TENCENT_APPLIES_PER_SECOND": "10000",
        "SLUICE_HOOKS_URL": receiver.url,
        "SLUICE_HOOKS_SECRET": SECRET,
        "SLUICE_HOOKS_EVENTS": "post-finish",
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory, receiver):
    origin = Origin()
    data = tmp_path_factory.mktemp("under-way") / "data"
    with ObjectServer(data, free_port(), settings(receiver)) as server:
        yield BusyWorld(server, origin)
    origin.close()


@pytest.fixture(scope="module")
def two_nodes(rgw, postgres, tmp_path_factory, receiver):
    """Two gateways with one store and one database: twins are sent to the other one."""
    origin = Origin()
    common = settings(receiver) | RELAY | rgw.settings(rgw.url, STORE)
    common |= {"SLUICE_DATABASE_URL": postgres.make_database(), "SLUICE_MASTER_SECRET": new_secret()}
    folder = tmp_path_factory.mktemp("nodes")
    nodes = [ObjectServer(folder / name, free_port(), common) for name in ("one", "other")]
    with contextlib.ExitStack() as stack:
        for node in nodes:
            # The store and the database may be busy with other tests.
            stack.push(node.start(timeout=120).__exit__)
        yield BusyWorld(nodes[0], origin, nodes[1])
    origin.close()
    rgw.wipe(STORE)


def files_of(world, subject):
    return [one for one in world.uploads(subject) if one["length"] != len(COMPANION.data)]


def stored(world, one):
    answer = world.api.get(f"/media/{one['id']}")
    assert answer.status_code == 200, answer.text
    return answer.content


def check(world, receiver, row):
    subject = f"u{world.next()}"
    limits = {"oneTime": True} if row.is_one_time else {}
    held = row.way.mint(world, subject, FILE, **limits)
    world.wanted, world.twins = row.wanted, []
    try:
        row.way.send(world, held, FILE)
    except Refused as refusal:
        # What is for one upload is used up by the request that began first.
        assert row.is_one_time and world.twins, refusal
        assert all(twin.finish() < 300 for twin in world.twins)
        # A part of a file is not complete.
        assert [stored(world, one) for one in files_of(world, subject)] in ([EVIL], [])
        return
    finally:
        world.wanted = None
    assert world.twins
    before = files_of(world, subject)
    contents = {one["id"]: stored(world, one) for one in before}
    assert len(before) == 1 and len(contents[before[0]["id"]]) == len(FILE.data)
    if row.is_deleted:
        assert world.api.delete(f"/v1/uploads/{before[0]['id']}").status_code == 204
    statuses = {twin.name: twin.finish() for twin in world.twins}
    after = files_of(world, subject)
    seen = {one["id"]: stored(world, one) for one in after}
    if row.replaces:
        assert list(statuses.values()) in ([200], [201], [204]), statuses
        assert len(after) == 1 and after[0]["id"] not in contents, (statuses, before, after)
        assert seen[after[0]["id"]] == EVIL and after[0]["length"] == len(EVIL)
    elif row.makes:
        assert all(one in after for one in before) or row.is_deleted
        assert all(data == contents.get(one, EVIL) or EVIL.startswith(data) for one, data in seen.items())
    elif row.is_deleted:
        assert after == [], (statuses, after)
    else:
        assert after == before and seen == contents, (statuses, before, after)
        if row.wanted == "bytes":
            assert all(status is None or status >= 400 for status in statuses.values()), statuses
    # One event of each that was completed, with what was stored.
    for one in {one["id"]: one for one in before + after}.values():
        [call] = receiver.wait("post-finish", upload=one["id"])
        assert call.upload["Size"] == one["length"]


@pytest.mark.parametrize("row", ROWS)
def test_what_is_under_way_at_the_completion(world, receiver, row):
    check(world, receiver, row)


@pytest.mark.parametrize("row", at_another_node())
def test_what_is_under_way_at_another_node(two_nodes, receiver, row):
    check(two_nodes, receiver, row)


# Multipart uploads and what replaces their object

STORES = [
    UnsignedContent("S3", "parts"),
    ways.OSS("OSS", "parts"),
    ways.COS("COS", "parts"),
]


PARTED = content(150 * KIB, 3)


def begun(world, way, held, key):
    """A multipart upload with one part: what completes it."""
    answer = way.need(way.request(world, held, "POST", key, {"uploads": ""}))
    upload = re.search("<UploadId>(.*?)</UploadId>", answer.text)[1]
    query = {"partNumber": "1", "uploadId": upload}
    tag = way.need(way.request(world, held, "PUT", key, query, PARTED)).headers["ETag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
    return "POST", key, {"uploadId": upload}, body.encode()


def object_of(world, receiver, way, held, key, subject):
    """The content of the only object, which is what was recorded, told and listed."""
    [one] = files_of(world, subject)
    data = stored(world, one)
    assert one["length"] == len(data)
    read = world.admin.get_object(Bucket=BUCKET, Key=key)
    assert read["Body"].read() == data
    tag = way.need(way.request(world, held, "HEAD", key)).headers["ETag"]
    # OSS writes it in other letters.
    assert tag.lower() == read["ETag"]
    if "-" not in tag:
        assert tag.strip('"').lower() == hashlib.md5(data).hexdigest()
    else:
        assert data == PARTED
    [listed] = world.admin.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
    assert (listed["Size"], listed["ETag"]) == (len(data), tag.lower())
    [call] = receiver.wait("post-finish", upload=one["id"])
    assert call.upload["Size"] == len(data)
    return data


@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in STORES])
@pytest.mark.parametrize("late", ["put", "completion"])
def test_of_a_put_and_a_completion_the_later_one_wins(two_nodes, receiver, way, late):
    world = two_nodes
    subject = f"u{world.next()}"
    held = way.mint(world, subject, FILE)
    key = f"{held[1]}a.png"
    complete = begun(world, way, held, key)
    put = ("PUT", key, {}, FILE.data)
    first, second = (complete, put) if late == "put" else (put, complete)
    # The later one begins first, with another node, and is sent again here.
    world.wanted, world.twins = "bytes" if late == "put" else "documents", []
    try:
        if late == "put":
            way.need(way.request(world, held, *second))
        else:
            way.need(way.request(world, held, *first))
            way.need(way.request(world, held, *second))
    finally:
        world.wanted = None
    [twin] = world.twins
    if late == "put":
        way.need(way.request(world, held, *first))
        assert object_of(world, receiver, way, held, key, subject) == PARTED
        assert twin.finish() < 300
        assert object_of(world, receiver, way, held, key, subject) == EVIL
    else:
        way.need(way.request(world, held, *first))
        assert object_of(world, receiver, way, held, key, subject) == FILE.data
        # Completed already, and nothing is replaced again.
        assert twin.finish() in (200, 404)
        assert object_of(world, receiver, way, held, key, subject) == FILE.data


@pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in STORES])
def test_puts_and_completions_race(two_nodes, receiver, way, report):
    world = two_nodes
    won = {}
    for _ in range(8):
        subject = f"u{world.next()}"
        held = way.mint(world, subject, FILE)
        key = f"{held[1]}a.png"
        way.need(way.request(world, held, "PUT", key, data=b"before"))
        requests = [("PUT", key, {}, FILE.data), *(begun(world, way, held, key) for _ in range(2))]
        requests.append(("PUT", key, {}, EVIL))
        with ThreadPoolExecutor(len(requests)) as pool:
            answers = list(pool.map(lambda one, held=held: way.request(world, held, *one), requests))
        assert all(answer.status_code == 200 for answer in answers), answers
        data = object_of(world, receiver, way, held, key, subject)
        kind = {FILE.data: "one put", EVIL: "the other put", PARTED: "completion"}[data]
        won[kind] = won.get(kind, 0) + 1
    report(f"{way.name}, puts beside completions, the last one: {won}")
