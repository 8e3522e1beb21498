"""OpenStack Swift with its S3 layer, as a second engine that is stricter than Ceph about multipart uploads.

Proxy, account, container and object server from the Python package `swift`, which the tests' environment has; neither
replication nor memcached. The folder must be on a file system with extended attributes of users (ext4, xfs).

    cd acceptance && python -m harness.swift_s3      starts one, prints its settings, and ends it on Ctrl-C
"""

import getpass
import json
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.daemon import Daemon, free_ports, program, show
from harness.objects import ObjectStore

KINDS = ("account", "container", "object")

SERVER = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}/node
mount_check = false
log_name = {kind}
log_udp_host =
log_address = {folder}/log/none
log_level = WARNING
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
log_name = proxy
log_address = {folder}/log/none
log_level = WARNING
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck listing_formats bulk s3api tempauth copy slo dlo versioned_writes symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
storage_url_scheme = http
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = false
allow_multipart_uploads = true
max_upload_part_num = 10000
min_segment_size = 5242880
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
allow_object_versioning = true
"""  # noqa: E501
PLAIN_FILTERS = (
    "catch_errors",
    "gatekeeper",
    "healthcheck",
    "listing_formats",
    "bulk",
    "copy",
    "slo",
    "dlo",
    "symlink",
)

# One map of partitions for each kind of server, with the one device that there is.
RINGS = """
import json, sys
from swift.common.ring import RingBuilder

for kind, port in json.loads(sys.argv[2]).items():
    builder = RingBuilder(4, 1, 0)
    at = {"ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1", "replication_port": port}
    builder.add_dev(at | {"region": 1, "zone": 1, "device": "d1", "weight": 1.0, "meta": ""})
    builder.rebalance()
    builder.get_ring().save(f"{sys.argv[1]}/{kind}.ring.gz")
"""


class SwiftS3(ObjectStore):
    """A store below `folder`, which is made; a context manager that starts and ends it."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.port, *ports = free_ports(4)
        secret = secrets.token_urlsafe(30)
        super().__init__(f"http://127.0.0.1:{self.port}", "test:tester", secret)
        (self.folder / "node/d1").mkdir(parents=True)
        (self.folder / "log").mkdir()
        self.ports = dict(zip(KINDS, ports, strict=True))
        self.daemons = {kind: self._daemon(kind) for kind in (*KINDS, "proxy")}
        self._configure(secret)

    def _program(self, name):
        return program(name, folders=[Path(sys.executable).parent], package="or Python package swift")

    def _daemon(self, kind):
        command = [self._program(f"swift-{kind}-server"), self.folder / f"{kind}.conf"]
        return Daemon(f"swift-{kind}-server", command, log=self.folder / "log" / f"{kind}.output")

    def _configure(self, secret):
        values = {"folder": self.folder, "user": getpass.getuser()}
        hashing = "[swift-hash]\nswift_hash_path_prefix = test\nswift_hash_path_suffix = test\n"
        (self.folder / "swift.conf").write_text(hashing)
        for kind, port in self.ports.items():
            (self.folder / f"{kind}.conf").write_text(SERVER.format(kind=kind, port=port, **values))
        proxy = PROXY.format(port=self.port, secret=secret, **values)
        proxy += "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in PLAIN_FILTERS)
        (self.folder / "proxy.conf").write_text(proxy)

    def _make_rings(self):
        """Not at the top: importing `swift` replaces threads and sockets."""
        ports = json.dumps(self.ports)
        subprocess.run([sys.executable, "-c", RINGS, self.folder, ports], check=True, timeout=60)

    def start(self):
        try:
            self._make_rings()
            for daemon in self.daemons.values():
                daemon.start()
            for kind, daemon in self.daemons.items():
                daemon.wait_for_port(self.port if kind == "proxy" else self.ports[kind])
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        for daemon in reversed(self.daemons.values()):
            daemon.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    # Faults

    def kill(self):
        self.daemons["proxy"].kill()

    def restart(self):
        self.daemons["proxy"].start().wait_for_port(self.port)

    def pause(self):
        self.daemons["proxy"].pause()

    def go_on(self):
        self.daemons["proxy"].go_on()


def main():
    with tempfile.TemporaryDirectory(prefix="swift-") as folder, SwiftS3(Path(folder) / "store") as store:
        show(store)


if __name__ == "__main__":
    main()
