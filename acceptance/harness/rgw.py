"""Ceph's object gateway (RADOS Gateway) as a store of one node: a monitor, an OSD in memory, and a gateway.

Debian packages ceph-mon, ceph-osd, ceph-common, radosgw. Everything is below one directory, listens on loopback only,
and runs as child processes. Nothing is kept when it ends.

    cd acceptance && python -m harness.rgw      starts one, prints its settings, and ends it on Ctrl-C
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from botocore.exceptions import ClientError

from harness.daemon import Daemon, free_ports, program, show
from harness.objects import ObjectStore
from harness.wire import until

USER = "tester"
# Gibibytes that may be stored.
ROOM = 12

# Without authentication between the daemons, `secure` connections are impossible, so all modes are `crc`. The short
# intervals make the monitor ready in a second instead of ten. Without TCP_NODELAY small requests wait 40 ms for an ACK.
CONFIGURATION = """
[global]
fsid = {fsid}
mon initial members = a
mon host = v2:127.0.0.1:{mon_port}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr1 = false
ms bind port min = {osd_port}
ms bind port max = {osd_port_last}
ms mon cluster mode = crc
ms mon service mode = crc
ms mon client mode = crc
ms cluster mode = crc
ms service mode = crc
ms client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}/run
admin socket = {folder}/run/$name.asok
crash dir = {folder}/run
log file = {folder}/log/$name.log
mon cluster log file = {folder}/log/cluster.log
log max recent = 500
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000

[mon]
mon data = {folder}/mon
mon tick interval = 1
mon data avail crit = 1
mon data avail warn = 1
mgr initial modules =
paxos propose interval = 0.05
paxos min wait = 0.01

[osd]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = {room}
osd max object name len = 2048
osd class load list = *
osd class default list = *
# A gateway that was killed is missed after so many seconds; until then changes of users wait for it.
osd client watch timeout = 2

[client]
rgw data = {folder}/rgw
rgw rados pool pg num min = 4

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw thread pool size = 64
rgw max concurrent requests = {requests}
rgw s3 auth use sts = {has_sts}
rgw sts key = {sts_key}
rgw enable usage log = false
rgw dynamic resharding = false
rgw override bucket index max shards = 1
# A completion whose gateway was killed is locked for so many seconds; by default for ten minutes.
rgw mp lock max time = 5
rgw gc obj min wait = 10
rgw gc processor period = 10
rgw gc processor max time = 10
rgw lc debug interval = {day}
rgw lc max wp worker = 1
"""


class RGW(ObjectStore):
    """A cluster below `folder`, which is made; a context manager that starts and ends it.

    `requests`: how many may run at once; beyond it the answer is 503 SlowDown. `day`: the seconds that lifecycle rules
    take for a day; by default a real one. `has_sts`: has a token service, and then answers a key that is not known with
    AccessDenied.
    """

    def __init__(self, folder, *, requests=1024, day=-1, has_sts=False):
        self.folder = Path(folder).resolve()
        self.port, mon_port, osd_port = free_ports(3)
        access_key, secret_key = new_keys()
        super().__init__(f"http://127.0.0.1:{self.port}", access_key, secret_key)
        for name in ("mon", "osd", "rgw", "log", "run"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "keyring").touch()
        self.configuration = self.folder / "ceph.conf"
        self.mon_port = mon_port
        self.fsid = str(uuid.uuid4())
        self.configuration.write_text(
            CONFIGURATION.format(
                fsid=self.fsid,
                folder=self.folder,
                port=self.port,
                mon_port=mon_port,
                osd_port=osd_port,
                # Four are taken; others may be in use.
                osd_port_last=min(osd_port + 200, 65535),
                room=ROOM << 30,
                requests=requests,
                has_sts="true" if has_sts else "false",
                sts_key=secrets.token_hex(8),
                day=day,
            )
        )
        self.mon = self._daemon("ceph-mon", "-i", "a")
        self.osd = self._daemon("ceph-osd", "-i", "0", "--no-mon-config")
        self.rgw = self._daemon("radosgw", "-n", "client.rgw", "--no-mon-config")

    def _daemon(self, name, *arguments):
        command = [program(name), "-f", *arguments, "-c", self.configuration]
        return Daemon(name, command, log=self.folder / "log" / f"{name}.output")

    # Life

    def start(self):
        try:
            monitors = self.folder / "monmap"
            address = f"[v2:127.0.0.1:{self.mon_port}]"
            self._run("monmaptool", "--create", "--clobber", "--fsid", self.fsid, "--addv", "a", address, monitors)
            here = ("-c", self.configuration)
            keyring = self.folder / "keyring"
            self._run("ceph-mon", "--mkfs", "-i", "a", *here, "--monmap", monitors, "--keyring", keyring)
            self.mon.start().wait_for_port(self.mon_port)
            osd = str(uuid.uuid4())
            self._run("ceph", *here, "--connect-timeout", "30", "osd", "new", osd)
            self._run("ceph-osd", "-i", "0", *here, "--no-mon-config", "--mkfs", "--osd-uuid", osd)
            self.osd.start()
            keys = ("--access-key", self.access_key, "--secret-key", self.secret_key)
            self.admin("user", "create", "--uid", USER, "--display-name", USER, *keys)
            self.rgw.start().wait_for_port(self.port)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        # It has nothing to save, and a proper end would take seconds.
        for daemon in (self.rgw, self.osd, self.mon):
            daemon.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def _run(self, name, *arguments):
        command = [program(name), *map(str, arguments)]
        for _ in range(3):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            # On a busy machine, radosgw-admin 16.2 can crash when it ends, after it has done its work and printed the
            # result. Commands that print none can be repeated.
            has_crashed_at_end = done.returncode == -signal.SIGSEGV and "RGWWatcher" in done.stderr
            if not has_crashed_at_end or done.stdout:
                break
        is_done = done.returncode == 0 or has_crashed_at_end
        assert is_done, f"{name} {arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    # Faults

    def kill(self):
        """kill -9 of the gateway: connections are refused."""
        self.rgw.kill()

    def restart(self):
        """Starts the gateway again, on the same port."""
        self.rgw.start().wait_for_port(self.port)

    def pause(self):
        """Requests hang, and so do new connections."""
        self.rgw.pause()

    def go_on(self):
        self.rgw.go_on()

    # Administration

    def admin(self, *arguments):
        """A command of radosgw-admin; its JSON, if it prints some."""
        text = self._run("radosgw-admin", "-c", self.configuration, "--no-mon-config", *arguments)
        return json.loads(text) if text.strip().startswith(("{", "[")) else text

    def suspend(self):
        """Every request is answered with 403 UserSuspended."""
        self.admin("user", "suspend", "--uid", USER)

    def unsuspend(self):
        self.admin("user", "enable", "--uid", USER)

    def set_quota(self, size):
        """Maximum bytes; beyond them the response is 403 QuotaExceeded. `None` means no limit, and is waited for."""
        if size is None:
            self.admin("quota", "disable", "--quota-scope", "user", "--uid", USER)
            # On a busy machine the gateway learns of it late.
            until(self._is_unlimited)
        else:
            self.quota = size
            self.admin("quota", "set", "--quota-scope", "user", "--uid", USER, f"--max-size={size}")
            self.admin("quota", "enable", "--quota-scope", "user", "--uid", USER)

    def _is_unlimited(self):
        client, bucket = self.client(), f"room-{uuid.uuid4()}"
        client.create_bucket(Bucket=bucket)
        try:
            client.put_object(Bucket=bucket, Key="k", Body=bytes(self.quota + 1))
            client.delete_object(Bucket=bucket, Key="k")
            return True
        except ClientError as failure:
            assert failure.response["Error"]["Code"] == "QuotaExceeded", failure
            return False
        finally:
            client.delete_bucket(Bucket=bucket)

    def add_keys(self):
        """A further key of the same user; returns it with its secret."""
        access_key, secret_key = new_keys()
        keys = ("--access-key", access_key, "--secret-key", secret_key)
        self.admin("key", "create", "--uid", USER, "--key-type", "s3", *keys)
        return access_key, secret_key

    def remove_key(self, access_key):
        """From then on that key is answered with 403 InvalidAccessKeyId."""
        self.admin("key", "rm", "--uid", USER, "--key-type", "s3", "--access-key", access_key)

    def rotate_keys(self):
        """A new key, which this object uses from now on, instead of the one before."""
        before = self.access_key
        self.use_keys(*self.add_keys())
        self.remove_key(before)

    def add_role(self, name, trusted=USER):
        """A role with all rights that one user can assume; returns its name for AssumeRole."""
        trust = {
            "Effect": "Allow",
            "Principal": {"AWS": [f"arn:aws:iam:::user/{trusted}"]},
            "Action": ["sts:AssumeRole"],
        }
        rights = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}
        about = ("--role-name", name)
        self.admin("role", "create", *about, "--assume-role-policy-doc", json.dumps(document(trust)))
        self.admin("role-policy", "put", *about, "--policy-name", "all", "--policy-doc", json.dumps(document(rights)))
        return f"arn:aws:iam:::role/{name}"

    def memory(self):
        """Resident bytes of the OSD, which holds the objects."""
        text = Path(f"/proc/{self.osd.pid}/statm").read_text().split()
        return int(text[1]) * os.sysconf("SC_PAGE_SIZE")


def document(statement):
    return {"Version": "2012-10-17", "Statement": [statement]}


def new_keys():
    return f"TEST{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30).replace("-", "x").replace("_", "y")


def main():
    """Prints the settings and waits; or runs a command, which finds the store in SLUICE_TEST_S3_… variables."""
    # A command that was ended has not passed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM if len(sys.argv) > 1 else 0))
    with tempfile.TemporaryDirectory(prefix="rgw-") as folder, RGW(Path(folder) / "cluster") as store:
        if len(sys.argv) > 1:
            settings = {
                name.replace("SLUICE_S3_", "SLUICE_TEST_S3_"): value for name, value in store.settings().items()
            }
            sys.exit(subprocess.run(sys.argv[1:], env=os.environ | settings).returncode)
        show(store)


if __name__ == "__main__":
    main()
