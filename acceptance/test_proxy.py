"""Behind a real nginx, which treats an interim response (1xx) as the final one, of unknown length."""

from types import SimpleNamespace

import pytest

from harness.api import API, path_of, upload_id
from harness.daemon import Daemon, free_port
from harness.data import KIB, MIB, content
from harness.draft import VERSIONS, Client, assert_media
from harness.nginx import Nginx
from harness.tools import tool
from harness.wire import Wire, until

FOR = "proxy_set_header X-Forwarded-For $remote_addr;"
# How the gateway may learn of a proxy: what the proxy says, and what the operator has set.
PROXIES = {
    "nothing": ("", {}),
    "X-Forwarded-For": (FOR, {}),
    "X-Real-IP": ("proxy_set_header X-Real-IP $remote_addr;", {}),
    "Via": ('proxy_set_header Via "1.1 front";', {}),
    "trusted": ("", {"SLUICE_TRUSTED_PROXIES": "127.0.0.1"}),
    "public URL": ("", {"SLUICE_PUBLIC_URL": "https://up.example"}),
    "never": ("", {"SLUICE_UPLOADS_INTERIM_RESPONSES": "never"}),
}


@pytest.fixture
def make_front(make_server, tmp_path):
    """A gateway behind nginx."""
    made = []

    def make(forwarding, environment):
        server = make_server(environment=environment).start()
        nginx = Nginx(tmp_path / "nginx", [server.port], forwarding=forwarding)
        made.append(nginx.__enter__())
        return SimpleNamespace(
            address=("127.0.0.1", nginx.port),
            admin_key=server.admin_key,
            server=server,
            api=API(server.url, server.admin_key),
        )

    yield make
    for nginx in made:
        nginx.__exit__()


@pytest.fixture
def front(make_front):
    return make_front(FOR, {})


@pytest.mark.parametrize("version", [*VERSIONS, None])
def test_the_draft(front, version):
    """All on one connection: each response ends, and the next request is served."""
    data = content(3 * MIB, 1)
    client = Client(front, version)
    interim, reply = client.create(data[:MIB], False)
    assert (interim, reply.status) == ([], 201)
    url = reply["Location"]
    assert client.offset(url) == (MIB, False)
    assert client.append(url, MIB, data[MIB : 2 * MIB], False).status in (201, 204)
    assert client.offset(url) == (2 * MIB, False)
    assert_media(front.api, client.append(url, 2 * MIB, data[2 * MIB :], True), data)


@pytest.mark.parametrize("version", [3, 8])
@pytest.mark.parametrize("proxy", PROXIES)
def test_how_a_proxy_is_detected(make_front, proxy, version):
    front = make_front(*PROXIES[proxy])
    data = content(MIB, 2)
    client = Client(front, version)
    for _ in range(2):
        interim, reply = client.create(data, True)
        assert interim == []
        assert_media(front.api, reply, data)


def test_an_interrupted_creation_leaves_nothing(front):
    """Its client did not learn the upload URL."""
    client = Client(front, 8)
    wire = client.wire
    key = ("Authorization", f"Bearer {front.admin_key}")
    wire.request("POST", "/files", client.fields(key, client.complete(True), ("Content-Length", MIB)))
    wire.send(content(700 * KIB, 3))
    until(lambda: [one["offset"] for one in front.api.get("/v1/uploads").json()["uploads"]] == [700 * KIB])
    wire.close()
    until(lambda: front.api.get("/v1/uploads", params={"state": "open"}).json()["uploads"] == [])
    # What is appended later does not need to be declared.
    client = Client(front, 8)
    _, reply = client.create(b"", False)
    url = reply["Location"]
    data = content(MIB, 4)
    with Wire(front.address) as cut:
        fields = client.fields(
            ("Upload-Offset", 0), client.complete(True), ("Content-Type", "application/partial-upload")
        )
        cut.request("PATCH", path_of(url), [*fields, ("Content-Length", MIB)])
        cut.send(data[: 700 * KIB])
        until(lambda: front.api.upload(upload_id(url))["offset"] == 700 * KIB)
    assert client.offset(url) == (700 * KIB, False)
    assert_media(front.api, client.append(url, 700 * KIB, data[700 * KIB :], True), data)


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_clients_get_interim_responses_by_tls_that_ends_here(make_server, certificate, scheme):
    server = make_server(environment=certificate.settings if scheme == "https" else {}).start()
    with Wire(server.address, context=certificate.context() if scheme == "https" else None) as wire:
        key = ("Authorization", f"Bearer {server.admin_key}")
        fields = [key, ("Upload-Draft-Interop-Version", "8"), ("Upload-Complete", "?1")]
        wire.request("POST", "/files", fields, content(MIB, 5))
        first = wire.reply("POST", skip_interim=False)
        if scheme == "https":
            assert first.status == 104 and upload_id(first["Location"])
            first = wire.reply("POST", skip_interim=False)
        assert first.status == 201


HAPROXY = """
global
    maxconn 100
defaults
    mode http
    timeout connect 10s
    timeout client 120s
    timeout server 120s
frontend web
    bind 127.0.0.1:{port}
    default_backend nginx
backend nginx
    http-reuse always
    server one 127.0.0.1:{nginx} maxconn 1
"""


def test_clients_that_share_a_connection_of_a_proxy(make_front, tmp_path):
    """A 104 that nginx takes for a final response would be followed by the response to another client's request."""
    front = make_front("", {})
    port = free_port()
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(port=port, nginx=front.address[1]))
    haproxy = Daemon("haproxy", [tool("haproxy", "haproxy"), "-db", "-f", configuration], log=tmp_path / "haproxy.log")
    haproxy.start().wait_for_port(port)
    try:
        shared = SimpleNamespace(address=("127.0.0.1", port), admin_key=front.admin_key)
        for number in range(3):
            data = content(MIB, number)
            interim, reply = Client(shared, 8).create(data, True)
            assert interim == []
            assert_media(front.api, reply, data)
            with Wire(shared.address) as other:
                assert other.exchange("GET", "/healthz").status == 200
    finally:
        haproxy.stop()


def test_always(make_server):
    """For proxies that forward them."""
    server = make_server(
        environment={"SLUICE_UPLOADS_INTERIM_RESPONSES": "always", "SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
    ).start()
    interim, reply = Client(server, 8).create(b"hello", True, ("X-Forwarded-For", "192.0.2.1"), ("Via", "1.1 front"))
    assert [one.status for one in interim][:1] == [104]
    assert reply.status == 201


def test_how_this_nginx_handles_an_interim_response(make_front):
    """Why they are not sent: the next request on the connection gets no response. If it fails, nginx is fixed."""
    front = make_front(FOR, {"SLUICE_UPLOADS_INTERIM_RESPONSES": "always"})
    client = Client(front, 8)
    interim, reply = client.create(b"hello", True)
    assert (interim[0].status, reply.status) == (104, 201)
    client.wire.socket.settimeout(3)
    with pytest.raises(TimeoutError):
        client.create(b"hello", True)
