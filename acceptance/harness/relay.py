"""Gateways that relay to an object store, through a proxy that makes it fail; one, or some behind nginx.

scripts/cluster [PORT]      starts some with all that they need, without that proxy, and ends them on Ctrl-C
"""

import base64
import contextlib
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from harness.api import API
from harness.daemon import free_port, free_ports
from harness.faulty_store import FaultyStore
from harness.nginx import Nginx
from harness.postgres import Postgres
from harness.rgw import RGW
from harness.server import Server
from harness.wire import until

MIB = 1 << 20
# The minimum of stores, so that few bytes make many parts.
PART = 5 * MIB
# Short, so that tests of long failures end soon; each is a setting of the gateway.
SETTINGS = {"SLUICE_S3_PART_SIZE": "5MiB", "SLUICE_S3_RETRY_TIME": "10s", "SLUICE_S3_MEMORY": "64MiB"}


def new_secret():
    """What all credentials of a gateway are derived from."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


class Relay:
    """One gateway on its own port, which it keeps over restarts. Its state is in SQLite unless `database` is a URL."""

    def __init__(self, folder, store, bucket, *, database=None, environment=None):
        self.store = store
        self.bucket = bucket
        folder = Path(folder)
        self.proxy = FaultyStore(store.port)
        settings = store.settings(self.proxy.url, bucket) | SETTINGS
        settings["SLUICE_GATEWAY_LISTEN"] = f"127.0.0.1:{free_port()}"
        if database:
            settings |= {"SLUICE_DATABASE_URL": database, "SLUICE_MASTER_SECRET": new_secret()}
        settings |= environment or {}
        # None: not at all.
        settings = {name: value for name, value in settings.items() if value is not None}
        self.server = Server(folder / "data", environment=settings)
        self.api = None

    def __enter__(self):
        self.proxy.__enter__()
        try:
            self.server.start()
            self.api = API(self.server.url, self.server.admin_key)
            self.wait_for_sweep()
            # Requests of the start do not count.
            self.proxy.settle(0.2)
            self.proxy.forget()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def wait_for_sweep(self):
        """Until the first sweep of the process has ended; it asks the store for much."""
        until(lambda: "\nsluice_sweeps_total 0\n" not in self.api.get("/metrics").text, timeout=60)

    def __exit__(self, failure, *_):
        self.proxy.clear()
        try:
            self.server.__exit__(failure)
        finally:
            self.proxy.__exit__()

    def restart(self):
        """After kill -9, or as it is."""
        self.server.kill()
        self.server.start()

    # The store, as it is

    def objects(self):
        """SHA-256 and size of each object, in order."""
        return sorted(self.store.hashes(self.bucket).values())

    def assert_stored(self, *contents):
        """Each of these (SHA-256, size) is one object, nothing else is there, and no multipart upload is left."""
        # The remains of a killed process are removed in the background of requests that find them.
        until(lambda: self.objects() == sorted(contents) and self.store.multiparts(self.bucket) == [], 20)

    def assert_nothing_left(self):
        self.store.assert_empty(self.bucket)


class Cluster:
    """Some gateways with one store, one database and one secret, behind one nginx; each keeps its port."""

    def __init__(self, folder, store, bucket, database, *, nodes=3, environment=None, each=None, port=None):
        """`each`: further settings of single nodes, by their number. `port`: of nginx."""
        folder = Path(folder)
        self.store = store
        self.bucket = bucket
        self.proxy = FaultyStore(store.port)
        ports = free_ports(nodes)
        self.nginx = Nginx(folder / "nginx", ports, port=port)
        settings = store.settings(self.proxy.url, bucket) | SETTINGS
        settings |= {
            "SLUICE_DATABASE_URL": database,
            "SLUICE_MASTER_SECRET": new_secret(),
            "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
            "SLUICE_PUBLIC_URL": self.nginx.url,
        }
        self.nodes = [
            Server(
                folder / f"node{number}" / "data",
                environment=settings
                | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{port}"}
                | (environment or {})
                | (each or {}).get(number, {}),
                log=folder / f"node{number}.log",
            )
            for number, port in enumerate(ports)
        ]
        for number in range(nodes):
            (folder / f"node{number}").mkdir(parents=True)
        self.admin_key = self.nodes[0].admin_key
        self.api = API(self.nginx.url, self.admin_key)

    @property
    def url(self):
        return self.nginx.url

    def __enter__(self):
        self.proxy.__enter__()
        try:
            for node in self.nodes:
                node.start()
            self.nginx.__enter__()
            self.proxy.forget()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, failure, *_):
        self.proxy.clear()
        try:
            self.nginx.__exit__()
            for node in self.nodes:
                node.__exit__(failure)
        finally:
            for node in self.nodes:
                node.kill()
            self.proxy.__exit__()

    def direct(self, number):
        """The API of one node, past nginx."""
        return API(self.nodes[number].url, self.admin_key)

    objects = Relay.objects
    assert_stored = Relay.assert_stored
    assert_nothing_left = Relay.assert_nothing_left


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="cluster-") as folder,
        RGW(Path(folder) / "store") as store,
        Postgres() as postgres,
        Cluster(
            Path(folder),
            store,
            "uploads",
            postgres.make_database(),
            environment={"SLUICE_S3_ENDPOINT": store.url},
            port=port,
        ) as cluster,
    ):
        print(f"export SLUICE={cluster.url}\nexport SLUICE_API_KEY={cluster.admin_key}")
        print(
            f"# nodes: {' '.join(node.url for node in cluster.nodes)}; store: {store.url}; logs: {folder}", flush=True
        )
        signal.pause()


if __name__ == "__main__":
    main()
