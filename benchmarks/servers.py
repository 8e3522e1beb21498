"""How each peer is started. Every function makes its folder and returns a running Peer."""

import json
import os
import shutil
import subprocess
import sys

from common import HERE, KEY
from processes import Peer, free_port

BINARY = os.environ.get("SLUICE_BINARY", str(HERE.parent / ".build/release/sluice"))
TUSD = os.environ.get("SLUICE_PEER_TUSD")
# At the end of the names of peers that write a line for each request, or more.
LOGGED = ", logged"
# Sluice has one event loop for each core.
WORKERS = os.cpu_count() or 1

# As long as a response of Sluice to a request for a signature.
SAMPLE = json.dumps(
    {
        "currentTimeStamp": 1571215095,
        "expireTime": 1571301495,
        "random": 2206253333,
        "secretId": "A" * 36,
        "signature": "A" * 176,
    }
)


def start_sluice(folder, durability, tls=None, logging=False):
    """`tls`: a folder with certificate.pem and key.pem. With `logging`, a line for each request, as by default."""
    folder.mkdir(parents=True)
    environment = {
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
        "SLUICE_OBJECT_LISTEN": "none",
        "SLUICE_ADMIN_KEY": KEY,
        "SLUICE_DURABILITY": durability,
        "SLUICE_LOG_LEVEL": "info" if logging else "warning",
        # Like the peers: uploads are removed by their upload URL.
        "SLUICE_UPLOADS_DELETE_AFTER_COMPLETION": "true",
    }
    if tls:
        environment["SLUICE_TLS_CERTIFICATE"] = str(tls / "certificate.pem")
        environment["SLUICE_TLS_KEY"] = str(tls / "key.pem")
    return Peer(
        f"sluice, {durability}{LOGGED if logging else ''}",
        [BINARY, "serve"],
        environment=environment,
        pattern=r"listening on https?://127\.0\.0\.1:(\d+)\n",
        log=folder / "output",
        protocol="tus",
        creation="/files",
        # Beside it is a reserve of 8 MiB.
        store=folder / "data" / "blobs",
        certificate=tls and tls / "certificate.pem",
    )


NGINX = """
{user} worker_processes {workers}; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 20000; events {{ worker_connections 12000; }}
http {{
    access_log {access}; default_type application/json;
    keepalive_requests 1000000000; keepalive_timeout 75s;
    client_body_temp_path {folder}/body; client_max_body_size 0; client_body_buffer_size 256k;
    proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {tls}
    server {{
        listen 127.0.0.1:{port} {ssl};
        location /up/ {{ root {folder}; dav_methods PUT DELETE; create_full_put_path on; }}
        location /constant {{ return 200 '{sample}'; }}
    }}
}}
"""
# OpenSSL ignores KTLS where the kernel has none.
NGINX_TLS = """
    ssl_certificate {tls}/certificate.pem; ssl_certificate_key {tls}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Options KTLS;
"""


def start_nginx(folder, tls=None, logging=False):
    """Keeps connections as long as Sluice does, has as many workers as that has loops, and the same options."""
    # The last is where scripts/setup unpacks Debian's package.
    unpacked = HERE.parent / ".build/nginx/usr/sbin"
    command = shutil.which("nginx") or shutil.which("nginx", path=f"/usr/sbin:/usr/local/sbin:{unpacked}")
    if not command:
        sys.exit("nginx is missing: scripts/setup --bench unpacks it (Debian package nginx)")
    (folder / "up").mkdir(parents=True)
    port = free_port()
    text = NGINX.format(
        user="user root;" if os.geteuid() == 0 else "",
        workers=WORKERS,
        folder=folder,
        access=f"{folder}/access.log" if logging else "off",
        tls=NGINX_TLS.format(tls=tls) if tls else "",
        port=port,
        ssl="ssl" if tls else "",
        sample=SAMPLE,
    )
    (folder / "nginx.conf").write_text(text)
    return Peer(
        "nginx",
        [command, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")],
        port=port,
        log=folder / "output",
        protocol="put",
        store=folder / "up",
        certificate=tls and tls / "certificate.pem",
    )


def start_sink(folder, program, synchronous=False, copying=False):
    store = folder / "up"
    store.mkdir(parents=True)
    command = [str(program), str(store), *(["sync"] if synchronous else []), *(["copy"] if copying else [])]
    name = f"{'copy sink' if copying else 'sink'}{' + fdatasync' if synchronous else ''}"
    return Peer(name, command, pattern=r"^(\d+)\n", log=folder / "output", protocol="put", store=store)


def start_hummingbird(folder, program):
    store = folder / "up"
    store.mkdir(parents=True)
    command = [str(program), str(store), SAMPLE]
    return Peer("hummingbird", command, pattern=r"^(\d+)\n", log=folder / "output", protocol="put", store=store)


def start_tusd(folder):
    """The binary that SLUICE_PEER_TUSD names, of version 1 or 2, by its documented flags; not behind a proxy.

    Version 2 logs with `-verbose=false`, too: two to four lines for each request.
    """
    store = folder / "data"
    store.mkdir(parents=True)
    port = free_port()
    where = ["-host", "127.0.0.1", "-port", str(port), "-base-path", "/files/", "-upload-dir", str(store)]
    return Peer(
        "tusd" + LOGGED,
        # As quiet as it can be.
        [TUSD, *where, "-verbose=false"],
        port=port,
        log=folder / "output",
        protocol="tus",
        creation="/files/",
        store=store,
    )


def tusd_version():
    """What the binary says of itself, in one line."""
    done = subprocess.run([TUSD, "-version"], capture_output=True, text=True)
    return "; ".join(line for line in done.stdout.splitlines() if line)
