"""A certificate of its own for servers on 127.0.0.1."""

import ssl
import subprocess


class Certificate:
    """Signed by itself; kept as certificate.pem and key.pem in a folder that is there. `hosts`: further names."""

    def __init__(self, folder, hosts=(), days=2):
        self.path = folder / "certificate.pem"
        self.key_path = folder / "key.pem"
        alternatives = ",".join(["IP:127.0.0.1", *(f"DNS:{host}" for host in hosts)])
        names = ["-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName={alternatives}"]
        files = ["-keyout", self.key_path, "-out", self.path]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), *names, *files]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def settings(self):
        """The settings of a server."""
        return {"SLUICE_TLS_CERTIFICATE": str(self.path), "SLUICE_TLS_KEY": str(self.key_path)}

    def context(self, version=None):
        """Of a client that trusts it, and speaks this version only if one is given."""
        made = ssl.create_default_context(cafile=self.path)
        if version:
            made.minimum_version = made.maximum_version = version
        return made
