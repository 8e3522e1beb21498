"""Pebble, the small certificate authority of Let's Encrypt for tests of ACME, with a name server beside it."""

import json
import re
import ssl
import urllib.request

from harness.daemon import Daemon, free_ports
from harness.tls import Certificate
from harness.tools import tool


class Pebble:
    """Validates all names at 127.0.0.1, on the ports `tls_port` and `http_port`; refuses one nonce in twenty.

    It forgets everything when it stops, and has another root then. `environment`: see its README.
    """

    def __init__(self, folder, *, environment=None, **configuration):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tls_port, self.http_port, self.port, self.management, names, control = free_ports(6)
        self.certificate = Certificate(folder)
        (folder / "pebble.json").write_text(
            json.dumps(
                {
                    "pebble": {
                        "listenAddress": f"127.0.0.1:{self.port}",
                        "managementListenAddress": f"127.0.0.1:{self.management}",
                        "certificate": str(self.certificate.path),
                        "privateKey": str(self.certificate.key_path),
                        "httpPort": self.http_port,
                        "tlsPort": self.tls_port,
                        **configuration,
                    }
                }
            )
        )
        none = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]
        self.names = Daemon(
            "pebble-challtestsrv",
            [
                *(tool("pebble-challtestsrv", "pebble"), "-dns01", f"127.0.0.1:{names}"),
                *("-management", f"127.0.0.1:{control}", *none),
            ],
            log=folder / "names.log",
        )
        self.control = control
        self.daemon = Daemon(
            "pebble",
            [
                tool("pebble", "pebble"),
                "-config",
                folder / "pebble.json",
                "-dnsserver",
                f"127.0.0.1:{names}",
                "-strict",
            ],
            log=folder / "pebble.log",
            environment={"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0", "PATH": "/usr/bin", **(environment or {})},
        )

    def start(self):
        self.names.start().wait_for_port(self.control)
        self.daemon.start().wait_for_port(self.port)
        return self

    def stop(self):
        self.daemon.stop()
        self.names.stop()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def directory(self):
        return f"https://127.0.0.1:{self.port}/dir"

    def settings(self, *domains, challenge="tls-alpn-01"):
        """Of a gateway whose listener is where Pebble expects it."""
        made = {
            "SLUICE_ACME_DOMAINS": ",".join(domains),
            "SLUICE_ACME_DIRECTORY": self.directory,
            "SLUICE_ACME_AUTHORITIES": str(self.certificate.path),
            "SLUICE_ACME_CHALLENGE": challenge,
        }
        if challenge == "http-01":
            return made | {"SLUICE_ACME_HTTP_LISTEN": f"127.0.0.1:{self.http_port}"}
        return made | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{self.tls_port}"}

    def root(self):
        """A file with the root of all certificates that this run of it issues."""
        trust = self.certificate.context()
        with urllib.request.urlopen(f"https://127.0.0.1:{self.management}/roots/0", context=trust, timeout=10) as got:
            path = self.folder / "root.pem"
            path.write_bytes(got.read())
            return path

    def context(self):
        """Of a client that trusts it."""
        return ssl.create_default_context(cafile=self.root())

    def log(self):
        return self.daemon.log.read_text(errors="replace")

    def orders(self):
        """How many orders it has seen."""
        return len(re.findall(r"Added order ", self.log()))

    def issued(self):
        return len(re.findall(r"Issued certificate serial", self.log()))
