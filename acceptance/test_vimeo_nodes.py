"""Vimeo's API by three nodes with Ceph and PostgreSQL: any node serves any request of an upload, and can die.

PyVimeo's requests go through a proxy that can cut connections, then through nginx, which gives each to the next node.
"""

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import requests
from tusclient.client import TusClient

from harness import faulty_store as faults
from harness.api import TUS, patch_fields
from harness.cutter import Cutter
from harness.data import KIB, MIB, content
from harness.origin import Origin
from harness.relay import PART, Cluster
from harness.vimeo import NEW, OLD, PROGRAM, VERSIONS, Failed, Plain, PyVimeo, packages, pulled, token
from harness.wire import Closed, Wire, until

BUCKET = "vimeo-nodes"
VIDEO = content(PART + 300 * KIB, 1)
OTHER = content(PART + 200 * KIB, 2)
PIECE = MIB
TUS_PATCH = TUS | {"Content-Type": "application/offset+octet-stream"}


@pytest.fixture(scope="module")
def cutter():
    with Cutter() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(rgw, postgres, cutter, tmp_path_factory):
    settings = {
        "SLUICE_PUBLIC_URL": cutter.url,
        "SLUICE_PULL_ALLOW": "127.0.0.1",
        "SLUICE_PULL_ALLOW_USERS": "true",
        "SLUICE_VIMEO_CALLS_PER_MINUTE": "100000",
    }
    folder = tmp_path_factory.mktemp(BUCKET)
    with Cluster(folder, rgw, BUCKET, postgres.make_database(), environment=settings) as made:
        cutter.target = ("127.0.0.1", made.nginx.port)
        yield made
    rgw.wipe(BUCKET)


@pytest.fixture
def front(cluster, cutter):
    """What SDKs take for the API."""
    cutter.plan([])
    return SimpleNamespace(url=cutter.url, admin_key=cluster.admin_key)


@pytest.fixture
def clients(cluster, request):
    """The calls of each node, with a token of the first one for a user of the test's own."""
    bearer = token(cluster.nodes[0], request.node.name)
    return [Plain(node, bearer) for node in cluster.nodes]


@pytest.fixture
def make_file(tmp_path):
    def make(name, data):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return make


def at(client, link):
    """A link at the node of a client."""
    parts = urlsplit(link)
    return client.server.url + parts.path + (f"?{parts.query}" if parts.query else "")


def head(client, link):
    return requests.head(at(client, link), headers=TUS, timeout=60)


def patch(client, link, offset, data):
    return requests.patch(at(client, link), data=data, headers=TUS_PATCH | {"Upload-Offset": str(offset)}, timeout=60)


def put(client, link, data=b"", content_range=None):
    """The bytes of a link, which needs no token (§1, 11)."""
    fields = {"Content-Range": content_range} if content_range else {}
    return requests.put(at(client, link), data=data, headers=fields, timeout=60)


def probe(client, link):
    answer = put(client, link, content_range="bytes */*")
    assert answer.status_code == 308, answer.text
    return int(answer.headers["Range"].removeprefix("bytes=0-"))


def read(client, link):
    answer = requests.get(at(client, link), timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.content


def show(client, uri):
    answer = client("GET", uri)
    assert answer.status_code == 200, answer.text
    return answer.json()


def assert_available(clients, uri, data):
    """At all nodes: clients poll until the store has put the video together."""
    for client in clients:
        video = until(lambda c=client: (v := show(c, uri))["status"] == "available" and v, timeout=60, interval=0.1)
        assert (video["upload"]["status"], video["transcode"]["status"]) == ("complete", "complete")
        assert read(client, video["files"][0]["link"]) == data
        assert client("GET", uri + "/status").json()["state"] == "ready"


def assert_gone(clients, *uris):
    for client in clients:
        for uri in uris:
            assert client("GET", uri).status_code == 404, uri


def listed(client):
    """The videos of the list, which has one page, by their uris."""
    page = client("GET", "/me/videos?per_page=100").json()
    assert page["total"] == len(page["data"])
    return [video["uri"] for video in page["data"]]


def completed(client, ticket):
    """The uri of the video that a ticket has become."""
    answer = client("DELETE", ticket["complete_uri"])
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def arrived(client, uri):
    """Bytes of a video's or ticket's first upload as a node knows them, asked without disturbing the writer."""
    headers = {"Authorization": f"Bearer {client.server.admin_key}"}
    found = requests.get(client.server.url + "/v1/uploads", params={"limit": 100}, headers=headers, timeout=60).json()
    return next((one["offset"] for one in found["uploads"] if one["metadata"].get("vimeo_uri") == uri), 0)


def served(node):
    """Calls of Vimeo's API that a node has served."""
    lines = requests.get(node.url + "/metrics", headers={"Authorization": f"Bearer {node.admin_key}"}, timeout=60).text
    return sum(float(one.rsplit(" ", 1)[1]) for one in lines.splitlines() if one.startswith("sluice_vimeo_calls_total"))


# PyVimeo


@pytest.mark.rows("1.1.2", "0.3.10")
@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_meets_another_node_with_each_request(cluster, front, clients, make_file, version):
    calls = [served(node) for node in cluster.nodes]
    sdk = PyVimeo(front, version, clients[0].fields["Authorization"].split()[1])
    image, track = content(500, 3), b"WEBVTT\n"
    options = {"data": {"name": "N", "chunk_size": PIECE}} if version in NEW else {}
    uri = sdk.upload(make_file("video.mp4", VIDEO), **options)
    assert_available(clients, uri, VIDEO)
    if version in NEW:
        options = {"data": {"chunk_size": PIECE}}
    replaced, _, _, changed, found = sdk.calls(
        ["replace", [uri, make_file("other.mp4", OTHER)], options],
        ["upload_picture", [uri, make_file("cover.jpg", image)], {"activate": True}],
        ["upload_texttrack", [uri, "captions", "en-US", make_file("sub.vtt", track)], {}],
        ["patch", [uri], {"data": {"description": "D"}}],
        ["get", [uri], {}],
    )
    assert replaced == uri
    assert (changed["status"], found["status"]) == (200, 200)
    assert_available(clients, uri, OTHER)
    for client in clients:
        video = show(client, uri)
        assert video["description"] == "D"
        assert read(client, video["pictures"]["sizes"][0]["link"]) == image
        [text] = client("GET", uri + "/texttracks").json()["data"]
        assert (text["type"], text["language"], text["name"]) == ("captions", "en-US", "sub.vtt")
        assert read(client, text["hls_link"]) == track
        assert listed(client) == [uri]
    assert [one["status"] for one in sdk.calls(["delete", [uri], {}], ["get", [uri], {}])] == [204, 404]
    assert_gone(clients, uri, video["pictures"]["uri"], text["uri"])
    assert all(served(node) > before for node, before in zip(cluster.nodes, calls, strict=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_pyvimeo_has_a_file_pulled_once(front, clients, version):
    """With a raw POST, because `upload` always sends the bytes itself (§4.5, §5.2)."""
    with Origin() as origin:
        resource = origin.add("/clip.mp4", VIDEO, content_type="video/mp4")
        sdk = PyVimeo(front, version, clients[0].fields["Authorization"].split()[1])
        made = sdk.post("/me/videos", data=pulled(version, origin.url + "/clip.mp4"))
        assert made["status"] == 201
        assert_available(clients, made["json"]["uri"], VIDEO)
        # All nodes look for what is to be pulled.
        assert len(resource.requests) == 1


def cut_and_killed(sdk, cutter, name, *arguments, **options):
    """Runs a method of PyVimeo until its connection is cut; it would try again after 30 s (§4.3)."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(packages(sdk.version))},
    )
    wanted = {"root": sdk.server.url, "credentials": sdk.credentials, "calls": [[name, arguments, options]]}
    try:
        process.stdin.write(json.dumps(wanted).encode())
        process.stdin.close()
        until(lambda: cutter.done or process.poll() is not None, timeout=120)
        assert process.poll() is None, process.stdout.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("version", NEW)
def test_an_interrupted_tus_upload_goes_on_at_another_node(front, clients, cutter, make_file, version):
    first, second, third = clients
    path = make_file("video.mp4", VIDEO)
    sdk = PyVimeo(front, version, first.fields["Authorization"].split()[1])
    # In the second chunk; the heads of requests count, too.
    cutter.plan([3 * PIECE])
    cut_and_killed(sdk, cutter, "upload", path, data={"chunk_size": 2 * PIECE})
    [uri] = listed(second)
    # Whoever asks for the offset takes the upload over from its writer, which may still have bytes to store.
    until(lambda: max(arrived(client, uri) for client in clients) > 2 * PIECE, timeout=60)
    link = show(third, uri)["upload"]["upload_link"]
    # Not only whole chunks: bytes of the broken PATCH stay.
    kept = int(head(second, link).headers["Upload-Offset"])
    assert 2 * PIECE < kept < 3 * PIECE
    assert show(first, uri)["status"] == "uploading"
    uploader = TusClient(second.server.url).uploader(path, url=at(third, link), chunk_size=2 * PIECE)
    assert uploader.offset == kept
    uploader.upload()
    assert_available(clients, uri, VIDEO)


@pytest.mark.parametrize("version", OLD)
def test_an_interrupted_ticket_goes_on_at_another_node(front, clients, cutter, cluster, make_file, version):
    first, second, third = clients
    sdk = PyVimeo(front, version, first.fields["Authorization"].split()[1])
    cutter.plan([2 * PIECE])
    with pytest.raises(Failed) as caught:
        sdk.upload(make_file("video.mp4", VIDEO))
    assert caught.value.name == "ConnectionError"
    assert listed(first) == []
    subject = first("GET", "/me").json()["name"]
    [upload] = cluster.api.get("/v1/uploads", params={"subject": subject}).json()["uploads"]
    made = upload["metadata"]["vimeo_uri"]
    user = first("GET", "/me").json()["uri"]
    ticket = second("GET", made.replace("/videos/", f"{user}/uploads/")).json()
    # Until its writer has stored them, other nodes do not know the bytes.
    until(lambda: arrived(third, made) > PIECE, timeout=60)
    # As PyVimeo goes on after a timeout: a probe, then the rest (§5.3, §5.4).
    kept = probe(third, ticket["upload_link"])
    assert PIECE < kept < 2 * PIECE
    size = len(VIDEO)
    early = second("DELETE", ticket["complete_uri"])
    assert (early.status_code, early.json()["error_code"]) == (400, 4011)
    answer = put(first, ticket["upload_link"], VIDEO[kept:], f"bytes: {kept}-{size}/{size}")
    assert (answer.status_code, answer.content) == (200, b"")
    assert probe(second, ticket["upload_link"]) == size
    uri = completed(third, ticket)
    assert_available(clients, uri, VIDEO)
    assert [listed(client) for client in clients] == [[uri]] * 3


# Step by step


def test_each_step_of_a_tus_upload_is_made_at_another_node(clients):
    first, second, third = clients
    uri = second.create(len(VIDEO))["uri"]
    link = show(third, uri)["upload"]["upload_link"]
    for number, offset in enumerate(range(0, len(VIDEO), PIECE)):
        for client in clients:
            assert head(client, link).headers["Upload-Offset"] == str(offset)
        answer = patch(clients[(number + 2) % 3], link, offset, VIDEO[offset : offset + PIECE])
        assert answer.status_code == 204, answer.text
        assert answer.headers["Upload-Offset"] == str(min(offset + PIECE, len(VIDEO)))
    assert_available(clients, uri, VIDEO)
    # Another file: what all show until it is complete is the one before.
    body = {"file_name": "other.mp4", "upload": {"approach": "tus", "size": len(OTHER)}}
    made = third("POST", uri + "/versions", json=body)
    assert made.status_code == 201, made.text
    link = made.json()["upload"]["upload_link"]
    assert patch(first, link, 0, OTHER[:PIECE]).status_code == 204
    assert_available(clients, uri, VIDEO)
    assert patch(second, link, PIECE, OTHER[PIECE:]).status_code == 204
    assert_available(clients, uri, OTHER)
    assert first("DELETE", uri).status_code == 204
    assert_gone(clients, uri, uri + "/versions")
    for client in clients:
        assert client("DELETE", uri).status_code == 404
        assert head(client, link).status_code == 404


@pytest.mark.parametrize("replaces", [False, True], ids=["new", "replaced"])
def test_each_step_of_a_ticket_is_made_at_another_node(clients, replaces):
    first, second, third = clients
    if replaces:
        video = third.create(len(OTHER), "streaming")
        assert put(first, video["upload"]["upload_link"], OTHER).status_code == 200
        assert_available(clients, video["uri"], OTHER)
        made = second("PUT", video["uri"] + "/files", json={"type": "streaming"}, headers={"Accept": "*/*"})
        assert made.status_code == 201, made.text
        ticket = made.json()
    else:
        ticket = second.ticket()
    link, size = ticket["upload_link"], len(VIDEO)
    for number, offset in enumerate(range(0, size, PIECE)):
        for client in clients:
            assert probe(client, link) == offset
        piece = VIDEO[offset : offset + PIECE]
        answer = put(clients[number % 3], link, piece, f"bytes {offset}-{size}/{size}")
        assert answer.status_code == 200, answer.text
    assert first("GET", ticket["uri"]).json()["upload_link"] == link
    uri = completed(second, ticket)
    assert not replaces or uri == video["uri"]
    # Repeated: a client does not know whether its answer was lost.
    assert [completed(client, ticket) for client in clients] == [uri] * 3
    assert_available(clients, uri, VIDEO)
    assert [listed(client) for client in clients] == [[uri]] * 3


def test_each_step_of_pictures_and_text_tracks_is_made_at_another_node(clients):
    first, second, third = clients
    uri = first.create(0)["uri"]
    for name, body in (("pictures", {}), ("texttracks", {"type": "captions", "language": "en"})):
        made = second("POST", f"{uri}/{name}", json=body)
        assert made.status_code == 201, made.text
        made = made.json()
        data = b"before"
        assert put(first, made["link"], data).status_code == 200
        # At each node: the same bytes are a repetition, and a link takes no others.
        for client in clients:
            assert put(client, made["link"], data).status_code == 200
            assert put(client, made["link"], b"after").status_code == 409
        assert second("PATCH", made["uri"], json={"active": True}).json()["active"] is True
        for client in clients:
            found = show(client, made["uri"])
            assert found["active"] is True
            assert read(client, found["sizes"][0]["link"] if name == "pictures" else found["hls_link"]) == data
        assert third("DELETE", made["uri"]).status_code == 204
        assert_gone(clients, made["uri"])
        for client in clients:
            assert put(client, made["link"], b"x").status_code == 404
            assert client("GET", f"{uri}/{name}").json()["total"] == 0


def test_an_ended_token_is_ended_at_all_nodes(clients):
    assert [client("GET", "/me").status_code for client in clients] == [200] * 3
    assert clients[1]("DELETE", "/tokens").status_code == 204
    assert [client("GET", "/me").status_code for client in clients] == [401] * 3


def test_lists_of_all_nodes_agree(clients):
    """Each creation makes one video, also many at once; a ticket is none until it is completed."""

    def make(number):
        client = clients[number % 3]
        if number % 2:
            return client.create(number, "streaming" if number % 4 == 1 else "tus")["uri"]
        ticket = client.ticket()
        assert put(clients[(number + 1) % 3], ticket["upload_link"], b"x").status_code == 200
        return completed(clients[(number + 2) % 3], ticket)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(24)))
        assert len(set(made)) == 24
        left = clients[0].ticket()
        lists = list(pool.map(lambda number: listed(clients[number % 3]), range(6)))
        assert sorted(lists[0]) == sorted(made)
        assert all(one == lists[0] for one in lists)
    assert clients[1]("GET", left["uri"]).json()["upload_link"] == left["upload_link"]


def test_a_ticket_is_completed_by_all_nodes_at_once(clients):
    """As a client does whose first try lasts too long: both answers name the same video."""
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            ticket = clients[0].ticket()
            assert put(clients[1], ticket["upload_link"], b"x").status_code == 200
            uris = set(pool.map(lambda number, one=ticket: completed(clients[number % 3], one), range(6)))
            assert len(uris) == 1
    assert len(listed(clients[2])) == 5


def test_a_video_is_deleted_while_clients_poll(clients):
    """Whoever deletes is told so, whatever the others read at the same time."""

    def ask(number, uri):
        method = "DELETE" if number in (2, 7) else "GET"
        return method, clients[number % 3](method, uri).status_code

    with ThreadPoolExecutor(12) as pool:
        for _ in range(10):
            uri = clients[0].create(0)["uri"]
            answers = list(pool.map(ask, range(12), [uri] * 12))
            deleted = {status for method, status in answers if method == "DELETE"}
            assert 204 in deleted and deleted <= {204, 404}, answers
            assert {status for method, status in answers if method == "GET"} <= {200, 404}, answers
            assert_gone(clients, uri)


# Two PUTs


def begun(client, approach, size):
    """A ticket or a video, the uri in its upload's metadata, and the link of its bytes."""
    if approach == "ticket":
        made = client.ticket()
        return made, f"/videos/{made['ticket_id']}", made["upload_link"]
    made = client.create(size, approach)
    return made, made["uri"], made["upload"]["upload_link"]


def target(link):
    return urlsplit(link).path


@pytest.mark.parametrize("sent", [1000, PART + 1000])
@pytest.mark.parametrize("approach", ["ticket", "streaming"])
def test_of_two_puts_at_two_nodes_the_newer_wins(clients, approach, sent):
    first, second, third = clients
    older, newer = content(len(VIDEO), 4), VIDEO
    made, uri, link = begun(third, approach, len(newer))
    with Wire(first.server.address, timeout=60) as wire:
        wire.request("PUT", target(link), [("Content-Length", len(older))])
        wire.send(older[:sent])
        # Its bytes have arrived: then it is the older one.
        until(lambda: arrived(first, uri) >= sent, timeout=30)
        assert put(second, link, newer).status_code == 200
        # It is told that it failed, or loses its connection.
        with contextlib.suppress(Closed, OSError):
            wire.send(older[sent:])
            assert wire.reply("PUT").status >= 400
    if approach == "ticket":
        assert probe(third, link) == len(newer)
        uri = completed(third, made)
    assert_available(clients, uri, newer)


def test_puts_at_once_are_never_mixed(clients):
    """Six clients with different bytes and one link, at three nodes; each tries until it is told that it succeeded."""
    contents = [content(2 * MIB, number) for number in range(6)]
    ticket = clients[0].ticket()

    def send(number):
        def succeeded():
            try:
                answer = put(clients[number % 3], ticket["upload_link"], contents[number])
            except requests.ConnectionError:
                return False
            assert answer.status_code in (200, 409, 423), answer.text
            return answer.status_code == 200

        until(succeeded, timeout=120, interval=0.05 * (number + 1))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    assert [probe(client, ticket["upload_link"]) for client in clients] == [2 * MIB] * 3
    uri = completed(clients[1], ticket)
    found = read(clients[2], show(clients[2], uri)["files"][0]["link"])
    assert found in contents
    assert_available(clients, uri, found)


# Nodes that die


@pytest.fixture
def dying(cluster):
    """The first node, which the test kills; it lives again afterwards."""
    yield cluster.nodes[0]
    cluster.proxy.clear()
    if cluster.nodes[0].process is None:
        cluster.nodes[0].start()


def persist(work, *statuses):
    """The first answer with one of these statuses; until the claims of a dead node end, the others ask to wait."""

    def answered():
        answer = work()
        if answer.status_code in statuses:
            return answer
        assert answer.status_code in (409, 423, 503), answer.text
        return None

    return until(answered, timeout=120, interval=0.2)


@pytest.mark.parametrize("sent", [MIB + 1000, PART + 1000])
def test_a_node_dies_in_the_middle_of_a_patch(clients, dying, sent):
    first, second, third = clients
    made = second.create(len(VIDEO))
    link = made["upload"]["upload_link"]
    assert patch(third, link, 0, VIDEO[:PIECE]).status_code == 204
    with Wire(dying.address, timeout=60) as wire:
        wire.request("PATCH", target(link), patch_fields(PIECE, len(VIDEO) - PIECE))
        wire.send(VIDEO[PIECE:sent])
        until(lambda: arrived(first, made["uri"]) >= sent, timeout=30)
        dying.kill()
    answer = persist(lambda: head(second, link), 200)
    kept = int(answer.headers["Upload-Offset"])
    # What was acknowledged is there; what was not may be.
    assert PIECE <= kept <= sent
    assert patch(third, link, kept, VIDEO[kept:]).status_code == 204
    assert_available([second, third], made["uri"], VIDEO)
    assert listed(second) == [made["uri"]]


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("approach", ["tus", "ticket"])
def test_a_node_dies_in_the_middle_of_a_completion(clients, dying, cluster, approach, after):
    """While the store puts the object together, and after it has done so; another node finishes."""
    first, second, third = clients
    hold = faults.Hold(after=after)
    cluster.proxy.fault("CompleteMultipartUpload", hold)
    if approach == "tus":
        made = second.create(len(VIDEO))
        link = made["upload"]["upload_link"]
        complete = lambda client: patch(client, link, 0, VIDEO)  # noqa: E731
    else:
        made = second.ticket()
        assert put(third, made["upload_link"], VIDEO).status_code == 200
        complete = lambda client: client("DELETE", made["complete_uri"])  # noqa: E731
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(complete, first)
        assert hold.reached.wait(60)
        dying.kill()
        with pytest.raises(requests.ConnectionError):
            lost.result()
    try:
        if approach == "tus":
            # The client has lost its answer, and asks how much is there.
            assert persist(lambda: head(third, link), 200).headers["Upload-Offset"] == str(len(VIDEO))
            uri = made["uri"]
        else:
            uri = persist(lambda: complete(third), 201).headers["Location"]
            assert completed(second, made) == uri
        assert_available([second, third], uri, VIDEO)
    finally:
        hold.release()
    dying.start()
    # What the dead node asked for comes late.
    cluster.proxy.settle()
    assert_available(clients, uri, VIDEO)
    assert [listed(client) for client in clients] == [[uri]] * 3
