"""A link that loses packets: the kernel drops some of those to and from a loopback port."""

import contextlib
import os
import subprocess


def is_available():
    """Needs root, and does not work in every container."""
    if os.geteuid() != 0:
        return False
    try:
        # The name of the table is that of the port; several processes may ask at once.
        with loss(1 + os.getpid() % 65535, 0):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _nft(text):
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True, capture_output=True, timeout=30)


def _table(port, percent):
    some = f"numgen random mod 100 < {percent} " if percent < 100 else ""
    rules = "".join(f"tcp {direction} {port} {some}drop\n" for direction in ("dport", "sport") if percent)
    return f"table inet sluice_{port} {{\nchain in {{\ntype filter hook input priority 0;\n{rules}}}\n}}\n"


class Link:
    def __init__(self, port):
        self.port = port

    def lose(self, percent):
        """Drops this many of 100 packets from now on, in both directions; 100 is an interruption."""
        _nft(f"add table inet sluice_{self.port}\ndelete table inet sluice_{self.port}\n{_table(self.port, percent)}")


@contextlib.contextmanager
def loss(port, percent):
    link = Link(port)
    link.lose(percent)
    try:
        yield link
    finally:
        _nft(f"delete table inet sluice_{port}\n")
