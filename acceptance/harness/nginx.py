"""One nginx in front of several servers: in turns, without stickiness, buffering or retries; or as a cache."""

import os
from pathlib import Path

from harness.daemon import Daemon, free_port, program

ROOT = Path(__file__).resolve().parents[2]

# `max_fails=0`: a server that does not answer stays in turn, so that clients meet it.
CONFIGURATION = """
{user} master_process off; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 8192; events {{ worker_connections 2048; }}
http {{
    access_log off;
{storing}
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream gateways {{
{servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 0;
        client_body_timeout 300s;
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
{forwarding}
            proxy_request_buffering off;
{buffering}
            proxy_next_upstream off;
            proxy_connect_timeout 5s;
            proxy_send_timeout 300s;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""

FORWARDING = """
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
""".strip("\n")

# As in docs/object.md.
STORING = "    proxy_cache_path {folder}/cache keys_zone=public:1m;"
CACHING = """
            proxy_cache public;
            proxy_cache_key $scheme$http_host$request_uri;
            proxy_cache_revalidate on;
            proxy_cache_bypass $http_authorization;
            proxy_no_cache $http_authorization;
            add_header X-Cache $upstream_cache_status always;
""".strip("\n")


class Nginx:
    """A context manager that starts and ends it.

    `ports`: of the servers; `unix:` and a path for a Unix socket. `forwarding`: what it tells of itself to the servers.
    `port`: where it listens, by default a free one. `is_cache`: whether it keeps what it may.
    """

    def __init__(self, folder, ports, *, forwarding=FORWARDING, port=None, is_cache=False):
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True)
        self.port = port or free_port()
        configuration = self.folder / "nginx.conf"
        configuration.write_text(
            CONFIGURATION.format(
                # As root it would switch to another user, who cannot read the folder.
                user="user root;" if os.geteuid() == 0 else "",
                folder=self.folder,
                port=self.port,
                forwarding=forwarding,
                storing=STORING.format(folder=self.folder) if is_cache else "",
                buffering=CACHING if is_cache else "            proxy_buffering off;",
                servers="\n".join(f"        server {self._place(port)} max_fails=0;" for port in ports),
            )
        )
        # The last is where scripts/setup unpacks Debian's package.
        command = program("nginx", folders=[ROOT / ".build/nginx/usr/sbin"])
        self.daemon = Daemon(
            "nginx", [command, "-e", self.folder / "error.log", "-c", configuration], log=self.folder / "output"
        )

    @staticmethod
    def _place(port):
        return port if str(port).startswith("unix:") else f"127.0.0.1:{port}"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.daemon.start().wait_for_port(self.port)
        return self

    def __exit__(self, *_):
        self.daemon.stop()
