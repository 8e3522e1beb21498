"""Where the gateway listens: Unix sockets, and connections that begin with a header of the PROXY protocol."""

import json
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from harness.api import API, upload_id
from harness.daemon import Daemon, free_port, free_ports
from harness.data import MIB, content, sha256
from harness.nginx import Nginx
from harness.server import Server, run
from harness.tls import Certificate
from harness.tools import tool
from harness.wire import Closed, Wire, until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LINE = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n"
BINARY = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11, 0, 12, 192, 0, 2, 7, 127, 0, 0, 1, 18, 103, 1, 187])
LOCAL = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x20, 0, 0, 0])

HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen gateway
    bind 127.0.0.1:{front}
    server one 127.0.0.1:{gateway} {option} check
listen object
    bind 127.0.0.1:{object_front}
    server one 127.0.0.1:{object} {option}
"""


def requests_of(server):
    """The log lines of requests, by id."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    return {line["request"]: line for line in lines if line["message"] == "request"}


def logged(server, answer):
    return until(lambda: requests_of(server).get(answer["X-Request-ID"]))


# Unix sockets


@pytest.fixture
def path(tmp_path_factory):
    """Short: the kernel allows 107 bytes."""
    return str(tmp_path_factory.mktemp("s") / "g.sock")


def settings(path, **more):
    return {"SLUICE_GATEWAY_LISTEN": f"unix:{path}"} | {f"SLUICE_{name}": value for name, value in more.items()}


def curl(path, *arguments):
    done = subprocess.run(["curl", "-sS", "--unix-socket", path, *arguments], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_unix_socket(make_server, path, tmp_path):
    body = content(3 * MIB, 1)
    (tmp_path / "f").write_bytes(body)
    key = ["-H", "Authorization: Bearer " + Server("x").admin_key]
    with make_server(environment=settings(path)) as server:
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o660
        # What it prints works as it is.
        line = server.wait_for_output("echo .* curl .*")[0]
        done = subprocess.run(
            line, shell=True, capture_output=True, env=server.environment | {"SLUICE_API_KEY": server.admin_key}
        )
        assert json.loads(done.stdout)["size"] == len("Hello\n"), (line, done.stderr)
        media = json.loads(curl(path, *key, "-T", tmp_path / "f", "http://localhost/v1/media/"))
        assert sha256(curl(path, *key, f"http://localhost/media/{media['id']}")) == sha256(body)
        with Wire(server.address) as wire:
            assert logged(server, wire.exchange("GET", "/healthz"))["peer"] == "unix:"
        healthy = run("health", environment=server.environment, check=False)
        assert (healthy.returncode, healthy.stdout) == (0, "ok\n"), healthy.stderr
        other = server.environment | {"SLUICE_DATA_DIR": str(tmp_path / "other")}
        second = run("serve", environment=other, check=False)
        assert second.returncode != 0 and path in second.stderr
        server.kill()
        # The file that it left is replaced.
        assert Path(path).is_socket()
        server.start()
        assert sha256(curl(path, *key, f"http://localhost/media/{media['id']}")) == sha256(body)
    assert not Path(path).exists()
    assert run("health", environment=server.environment, check=False).returncode == 1


def test_health_without_arguments_says_what_it_says_with_them(make_server):
    """The command of a container's image does not parse arguments."""

    def both(environment):
        short, long = (run("health", *flags, environment=environment, check=False) for flags in ([], ["--ready"]))
        assert (short.returncode, short.stdout, short.stderr) == (long.returncode, long.stdout, long.stderr)
        return short

    with make_server() as server:
        here = server.environment | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}"}
        assert both(here).stdout == "ok\n"
        wrong = both(here | {"SLUICE_GATEWAY_LISTEN": "nowhere", "SLUICE_GATWAY_LISTEN": "x"})
        assert wrong.returncode == 1 and "nowhere" in wrong.stderr
        assert "SLUICE_GATEWAY_LISTEN?" in wrong.stderr
        assert run("health", "--live", environment=here).stdout == "ok\n"
        assert run("health", "--readi", environment=here, check=False).returncode == 64
    silent = both(here)
    assert silent.returncode == 1 and silent.stderr.startswith("Error: http://127.0.0.1:")


def test_nginx_in_front_of_a_unix_socket(make_server, path, tmp_path):
    body = content(8 * MIB, 2)
    with make_server(environment=settings(path, TRUSTED_PROXIES="unix:")) as server:
        with Nginx(tmp_path / "nginx", [f"unix:{path}"]) as nginx:
            api = API(f"http://127.0.0.1:{nginx.port}", server.admin_key)
            url = api.created(len(body))
            assert url.startswith(f"http://127.0.0.1:{nginx.port}/")
            answer = api.patch(url, 0, body)
            assert answer.status_code == 204
            assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
        line = logged(server, answer.headers)
        assert (line["peer"], line["client"]) == ("unix:", "127.0.0.1")


def test_an_object_endpoint_at_a_unix_socket_needs_a_url(make_server, path, tmp_path):
    wanted = {"SLUICE_OBJECT_LISTEN": f"unix:{path}", "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0"}
    refused = run("serve", data=tmp_path / "data", environment=wanted, check=False)
    assert refused.returncode != 0 and "object.publicURL" in refused.stderr
    with make_server(environment=wanted | {"SLUICE_OBJECT_PUBLIC_URL": "https://o.example"}) as server:
        assert b"<Code>AccessDenied</Code>" in curl(path, "http://o.example/uploads")
        minted = API(server.url, server.admin_key).post("/v1/presigned-urls", {"bucket": "uploads", "key": "a"})
        assert minted.json()["url"].startswith("https://o.example/")


@pytest.mark.parametrize("value", ["unix:", "unix:relative", "unix:/", "unix:/" + "x" * 110])
def test_paths_that_cannot_be(tmp_path, value):
    refused = run("serve", data=tmp_path / "data", environment={"SLUICE_GATEWAY_LISTEN": value}, check=False)
    assert refused.returncode != 0 and "unix:/run" in refused.stderr


# The PROXY protocol


@pytest.fixture(params=["plain", "TLS"])
def proxied(request, make_server, tmp_path):
    """A gateway that expects headers of 127.0.0.1, and the context of its clients."""
    environment = {"SLUICE_GATEWAY_PROXY_PROTOCOL": "true", "SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
    certificate = Certificate(tmp_path) if request.param == "TLS" else None
    with make_server(environment=environment | (certificate.settings if certificate else {})) as server:
        yield server, certificate.context() if certificate else None


@pytest.mark.parametrize(("opening", "client"), [(LINE, "192.0.2.7"), (BINARY, "192.0.2.7"), (LOCAL, "127.0.0.1")])
def test_the_client_is_in_the_header(proxied, opening, client):
    server, context = proxied
    with Wire(server.address, context=context, opening=opening) as wire:
        # Also for the second request, and whatever the client says of itself, because it is no trusted proxy.
        fields = [("X-Forwarded-For", "198.51.100.1")] if client != "127.0.0.1" else []
        for _ in range(2):
            line = logged(server, wire.exchange("GET", "/healthz", fields))
            assert (line["peer"], line.get("client")) == (client, None)


@pytest.mark.parametrize("opening", [LINE, BINARY])
def test_a_header_that_comes_slowly(proxied, opening):
    server, context = proxied
    with Wire(server.address) as wire:
        for byte in opening:
            wire.send(bytes([byte]))
        if context:
            wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
        assert logged(server, wire.exchange("GET", "/healthz"))["peer"] == "192.0.2.7"


def test_connections_without_a_header(proxied):
    server, context = proxied
    for opening in (HEALTH, b"PROXY TCP4 192.0.2.7\r\n", b"\x16\x03\x01\x02\x00" + bytes(300)):
        with Wire(server.address, opening=opening) as wire, pytest.raises(Closed) as closed:
            wire.reply("GET")
        assert closed.value.partial == b""
    # As a proxy's check does, which is no failure; and a header that ends in the middle.
    for opening in (b"", LINE[:20]):
        Wire(server.address, opening=opening).close()
    healthy = run("health", environment=server.environment | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}"})
    assert healthy.stdout == "ok\n"
    with Wire(server.address, context=context, opening=LOCAL) as wire:
        fields = [("Authorization", f"Bearer {server.admin_key}")]
        text = wire.exchange("GET", "/metrics", fields).body.decode()
    assert 'sluice_tls_handshakes_failed_total{reason="proxy_header"} 3\n' in text
    until(lambda: "connection of a proxy that does not say for whom" in server.log.read_text())


def test_a_header_that_never_ends(make_server):
    environment = {"SLUICE_TRUSTED_PROXIES": "127.0.0.1", "SLUICE_TIMEOUTS_HEAD": "1s"}
    with make_server(environment=environment | {"SLUICE_GATEWAY_PROXY_PROTOCOL": "true"}) as server:
        for opening in (b"", LINE[:20]):
            with Wire(server.address, opening=opening) as wire, pytest.raises(Closed):
                wire.reply("GET")


def test_others_may_not_send_a_header(make_server):
    environment = {"SLUICE_GATEWAY_PROXY_PROTOCOL": "true", "SLUICE_TRUSTED_PROXIES": "10.0.0.0/8"}
    with make_server(environment=environment) as server:
        with Wire(server.address, opening=LINE) as wire:
            assert wire.exchange("GET", "/healthz").status == 400
        with Wire(server.address) as wire:
            assert logged(server, wire.exchange("GET", "/healthz"))["peer"] == "127.0.0.1"


def test_a_header_needs_a_trusted_proxy(tmp_path):
    for name in ("GATEWAY", "OBJECT"):
        wanted = {f"SLUICE_{name}_PROXY_PROTOCOL": "true"}
        refused = run("serve", data=tmp_path / "data", environment=wanted, check=False)
        assert refused.returncode != 0 and "trustedProxies" in refused.stderr


@contextmanager
def haproxy(folder, server, option):
    front, object_front = free_ports(2)
    file = folder / "haproxy.cfg"
    ports = {"gateway": server.port, "object": server.object_url.rsplit(":", 1)[1]}
    file.write_text(HAPROXY.format(front=front, object_front=object_front, option=option, **ports))
    daemon = Daemon("haproxy", [tool("haproxy", "haproxy"), "-db", "-f", file], log=folder / "haproxy.log")
    daemon.start().wait_for_port(front)
    try:
        yield front, object_front
    finally:
        daemon.stop()


@pytest.mark.parametrize("option", ["send-proxy", "send-proxy-v2"])
def test_haproxy_sends_headers(make_server, tmp_path, option):
    body = content(8 * MIB, 3)
    environment = {
        "SLUICE_GATEWAY_PROXY_PROTOCOL": "true",
        "SLUICE_OBJECT_PROXY_PROTOCOL": "true",
        "SLUICE_OBJECT_LISTEN": f"127.0.0.1:{free_port()}",
        "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
    }
    with make_server(environment=environment) as server, haproxy(tmp_path, server, option) as (front, object_front):
        api = API(f"http://127.0.0.1:{front}", server.admin_key)
        url = api.created(len(body))
        assert api.patch(url, 0, body).status_code == 204
        assert api.download_hash(upload_id(url)) == (sha256(body), len(body))
        key, secret = server.pair()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{object_front}",
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )
        client.put_object(Bucket="uploads", Key="a", Body=body)
        assert client.get_object(Bucket="uploads", Key="a")["Body"].read() == body
