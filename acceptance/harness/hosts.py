"""Names of hosts that lead to this machine, for clients that put the name of a bucket into that of the host.

A table maps a domain to the port that answers for it and for all names below it, whatever port a client asks for.

    HOSTS="s3.localtest=9000 oss.localtest=9000" python -m harness.hosts SCRIPT ARGUMENT…

runs the script of a command-line tool so.
"""

import os
import runpy
import socket
import sys


def resolver(table):
    """What takes the place of `socket.getaddrinfo`."""
    resolve = socket.getaddrinfo

    def resolved(host, port, *arguments, **options):
        name = host.decode() if isinstance(host, bytes) else str(host)
        for domain, target in table.items():
            if name == domain or name.endswith(f".{domain}"):
                return resolve("127.0.0.1", target, *arguments, **options)
        return resolve(host, port, *arguments, **options)

    return resolved


def as_text(table):
    return " ".join(f"{domain}={port}" for domain, port in table.items())


def main():
    pairs = (entry.split("=") for entry in os.environ["HOSTS"].split())
    socket.getaddrinfo = resolver({domain: int(port) for domain, port in pairs})
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
