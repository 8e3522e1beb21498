"""The two ways in which a peer takes an upload, PUT and tus, behind one interface: create, send, check, delete."""

import http.client
import ssl
import sys
from urllib.parse import urlsplit

from common import KEY

METHODS = {"put": "PUT", "tus": "PATCH"}
HEADERS = {
    "put": [],
    "tus": ["Tus-Resumable: 1.0.0", "Upload-Offset: 0", "Content-Type: application/offset+octet-stream"],
}


def _connect(peer):
    if peer.certificate:
        context = ssl.create_default_context(cafile=peer.certificate)
        return http.client.HTTPSConnection("127.0.0.1", peer.port, timeout=60, context=context)
    return http.client.HTTPConnection("127.0.0.1", peer.port, timeout=60)


def _request(connection, peer, method, path, headers, expected):
    connection.request(method, path, headers={"Tus-Resumable": "1.0.0"} | headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status != expected:
        sys.exit(f"{peer.name}: {method} {path}: {answer.status}\n{peer.log_tail()}")
    return answer


def create(peer, count, size):
    """The paths to which `count` contents of `size` bytes are to be sent."""
    if peer.protocol == "put":
        return [f"/up/file{number}" for number in range(count)]
    connection = _connect(peer)
    headers = {"Authorization": f"Bearer {KEY}", "Upload-Length": str(size)}
    paths = []
    for _ in range(count):
        answer = _request(connection, peer, "POST", peer.creation, headers, 201)
        paths.append(urlsplit(answer.headers["Location"]).path)
    connection.close()
    return paths


def stored(peer, size):
    """How many files of that size the peer has."""
    return sum(path.is_file() and path.stat().st_size == size for path in peer.store.rglob("*"))


def check_and_delete(peer, paths, size):
    """Checks that everything is stored, and deletes it, so that the next upload reuses its pages."""
    found = stored(peer, size)
    if found != len(paths):
        sys.exit(f"{peer.name}: {found} files of {size} bytes are stored, not {len(paths)}")
    if peer.protocol == "put":
        for path in paths:
            (peer.store / path.rpartition("/")[2]).unlink()
        return
    connection = _connect(peer)
    for path in paths:
        _request(connection, peer, "DELETE", path, {}, 204)
    connection.close()
