"""TLS: versions, ALPN, uploads, and peers that do not use it."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.api import API, tus_patch, upload_id
from harness.data import MIB, content, sha256
from harness.server import run
from harness.tls import Certificate
from harness.wire import Closed, Wire, head, until

# TLS


@pytest.fixture
def tls(certificate, make_server):
    with make_server(environment=certificate.settings) as server:
        yield server


def test_an_upload_by_tls(tls, certificate):
    assert tls.scheme == "https"
    api = API(tls.url, tls.admin_key, verify=str(certificate.path))
    data = content(8 * MIB + 3, 1)
    url = api.created(len(data))
    assert url.startswith("https://")
    for offset in range(0, len(data), 3 * MIB):
        assert api.patch(url, offset, data[offset : offset + 3 * MIB]).status_code == 204
    assert api.download_hash(upload_id(url)) == (sha256(data), len(data))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_supported_tls_versions(tls, certificate, version):
    made = certificate.context(version)
    made.set_alpn_protocols(["h2", "http/1.1"])
    with Wire(tls.address, context=made) as wire:
        assert wire.socket.selected_alpn_protocol() == "http/1.1"
        assert wire.exchange("GET", "/healthz").status == 200
        wire.send(head("GET", "/healthz") * 50)
        assert [wire.reply().status for _ in range(50)] == [200] * 50


def test_a_request_in_the_same_segment_as_the_end_of_the_handshake(tls, certificate):
    """The socket is read only once for both: nothing may wait for another event."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = certificate.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with Wire(tls.address, timeout=5) as wire:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                if outgoing.pending:
                    wire.socket.sendall(outgoing.read())
                incoming.write(wire.socket.recv(65536))
        client.write(head("GET", "/healthz"))
        wire.socket.sendall(outgoing.read())
        answer = b""
        while not answer.startswith(b"HTTP/1.1 200 "):
            incoming.write(wire.socket.recv(65536))
            try:
                answer += client.read(65536)
            except ssl.SSLWantReadError:
                pass  # session tickets came first


def test_older_tls_is_refused(tls, certificate):
    made = certificate.context()
    made.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made.maximum_version = ssl.TLSVersion.TLSv1_1
    made.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Wire(tls.address, context=made)
    with Wire(tls.address, context=certificate.context()) as wire:
        assert wire.exchange("GET", "/healthz").status == 200


WEAK = [
    "AES128-GCM-SHA256",
    "AES256-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
    "DHE-RSA-AES128-GCM-SHA256",
    "DHE-RSA-AES256-SHA256",
]


@pytest.mark.parametrize("suite", WEAK)
def test_suites_without_forward_secrecy_or_authenticated_encryption_are_refused(tls, certificate, suite):
    made = certificate.context(ssl.TLSVersion.TLSv1_2)
    made.set_ciphers(f"{suite}:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Wire(tls.address, context=made)


@pytest.mark.parametrize(
    "suite", ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"]
)
def test_supported_suites_of_tls_1_2(tls, certificate, suite):
    made = certificate.context(ssl.TLSVersion.TLSv1_2)
    made.set_ciphers(suite)
    with Wire(tls.address, context=made) as wire:
        assert wire.socket.cipher()[0] == suite
        assert wire.exchange("GET", "/healthz").status == 200


def test_all_offered_suites_are_strong(tls, certificate):
    """Whatever a client of TLS 1.2 knows, in any order: the selected suite is ECDHE with GCM or Poly1305."""
    made = certificate.context(ssl.TLSVersion.TLSv1_2)
    made.set_ciphers("ALL:@SECLEVEL=0")
    names = {suite["name"] for suite in made.get_ciphers()}
    spoken = set()
    for name in names:
        try:
            made.set_ciphers(f"{name}:@SECLEVEL=0")
            with Wire(tls.address, context=made) as wire:
                spoken.add(wire.socket.cipher()[0])
        except (ssl.SSLError, ConnectionError):
            pass
    assert spoken and all(re.fullmatch(r"ECDHE-\w+-(AES\d+-GCM-SHA\d+|CHACHA20-POLY1305)", name) for name in spoken)


def test_failed_handshakes_are_counted_and_logged(tls, certificate):
    api = API(tls.url, tls.admin_key, verify=str(certificate.path))

    def failed():
        found = re.findall(
            r'^sluice_tls_handshakes_failed_total\{reason="(\w+)"\} (\d+)$', api.get("/metrics").text, re.M
        )
        return {reason: int(count) for reason, count in found}

    for _ in range(20):
        with Wire(tls.address) as wire:
            wire.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert wire.is_closed()
    until(lambda: failed().get("protocol") == 20)
    with Wire(tls.address) as wire:
        wire.send(b"\x16\x03\x01")
    until(lambda: failed().get("closed") == 1)
    until(lambda: "TLS handshake failed" in tls.log_tail(1000))
    # They cannot fill the log.
    lines = [line for line in tls.log_tail(1000).splitlines() if "TLS handshake failed" in line]
    assert len(lines) < 20
    assert "http request" in lines[0] and "127.0.0.1" in lines[0]


def test_plain_http_on_a_tls_port_does_not_harm(tls, certificate):
    for data in (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"", b"\x16\x03\x01", os.urandom(1000)):
        with Wire(tls.address) as wire:
            wire.send(data)
    with Wire(tls.address, context=certificate.context()) as wire:
        assert wire.exchange("GET", "/healthz").status == 200


def test_takeover_by_tls(tls, certificate):
    api = API(tls.url, tls.admin_key, verify=str(certificate.path))
    url = api.created(100_000)
    with Wire(tls.address, context=certificate.context()) as wire:
        wire.send(tus_patch(url, 0, 100_000) + content(30_000, 1))
        until(lambda: api.upload(upload_id(url))["offset"] == 30_000)
        assert api.offset(url) == 30_000


def test_an_invalid_certificate_is_reported_at_start(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    environment = {
        "SLUICE_TLS_CERTIFICATE": str(bad),
        "SLUICE_TLS_KEY": str(bad),
        "SLUICE_GATEWAY_LISTEN": "127.0.0.1:0",
    }
    done = run("serve", data=tmp_path / "data", environment=environment, check=False)
    assert done.returncode != 0
    assert str(bad) in done.stderr + done.stdout


def files(*certificates):
    return {
        "SLUICE_TLS_CERTIFICATE": ",".join(str(one.path) for one in certificates),
        "SLUICE_TLS_KEY": ",".join(str(one.key_path) for one in certificates),
    }


def test_several_certificates(make_server, tmp_path):
    hosts = {"one": ["up.example"], "two": ["objects.example", "*.objects.example"]}
    for name in hosts:
        (tmp_path / name).mkdir()
    one, two = (Certificate(tmp_path / name, hosts[name]) for name in hosts)
    wanted = {"up.example": one, "objects.example": two, "a.objects.example": two, "a.b.objects.example": one}
    with make_server(environment=files(one, two)) as server:
        for name, certificate in (wanted | {"other.example": one, None: one}).items():
            context = certificate.context()
            context.check_hostname = name in ("up.example", "objects.example", "a.objects.example")
            with socket.create_connection(server.address, timeout=20) as raw:
                with context.wrap_socket(raw, server_hostname=name) as connection:
                    assert connection.getpeercert(True) == ssl.PEM_cert_to_DER_cert(certificate.path.read_text()), name
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    unequal = files(one, two) | {"SLUICE_TLS_KEY": str(one.key_path)}
    refused = run("serve", data=tmp_path / "data", environment=unequal, check=False)
    assert refused.returncode != 0 and "tls.key" in refused.stderr and "2 files" in refused.stderr


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificates_of_clients(make_server, tmp_path, version):
    for name in ("server", "client", "stranger"):
        (tmp_path / name).mkdir()
    own, client, stranger = (Certificate(tmp_path / name) for name in ("server", "client", "stranger"))
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(client.path.read_text() + own.path.read_text())
    environment = own.settings | {"SLUICE_TLS_CLIENT_AUTHORITIES": str(authorities)}
    with make_server(environment=environment) as server:
        for certificate, is_right in ((client, True), (stranger, False), (None, False)):
            context = own.context(version)
            if certificate:
                context.load_cert_chain(certificate.path, certificate.key_path)
            try:
                with Wire(server.address, context=context) as wire:
                    answer = wire.exchange("GET", "/healthz").status
            except (ssl.SSLError, ConnectionResetError, Closed):
                answer = None
            assert answer == (200 if is_right else None)
        # With the certificate of the server itself, which is one of the authorities.
        here = server.environment | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}"}
        assert run("health", environment=here).stdout == "ok\n"
        here |= {"SLUICE_TLS_CLIENT_AUTHORITIES": ""}
        assert run("health", environment=here, check=False).returncode == 1
    useless = environment | {"SLUICE_TLS_CLIENT_AUTHORITIES": str(own.key_path)}
    bad = run("serve", data=tmp_path / "data", environment=useless, check=False)
    assert bad.returncode != 0 and str(own.key_path) in bad.stderr


def answering(kind, context, listening):
    """A server for one connection, which is no gateway."""
    peer, _ = listening.accept()
    with peer:
        if kind == "plain":
            peer.recv(1000)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        elif kind == "silent":
            peer.recv(100_000)
            peer.settimeout(30)
            while peer.recv(100_000):
                pass
        elif kind == "closes":
            # Without what was sent unread, which would be a reset.
            peer.recv(100_000)
        else:
            with context.wrap_socket(peer, server_side=True) as secure:
                if kind != "closes after the handshake":
                    secure.recv(100_000)
                    secure.sendall(b"x" if kind == "no HTTP" else b"HTTP/1.1 200 OK\r\n\r\n")
                # Without close_notify, as a process that was killed.


@pytest.mark.parametrize(
    "kind, told",
    {
        "plain": "TLS failed",
        "silent": "Connection timed out",
        "closes": "ended the handshake",
        # The request is on its way.
        "closes after the handshake": "readyz",
        "no HTTP": "no response of HTTP",
        "well": None,
    }.items(),
)
def test_health_of_a_server_that_is_no_gateway(certificate, tmp_path, kind, told):
    """It says so in one line, within its time, and is not ended by a signal."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.path, certificate.key_path)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        served = pool.submit(answering, kind, context, listening)
        settings = certificate.settings | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{listening.getsockname()[1]}"}
        done = run("health", "--timeout", "2", data=tmp_path, environment=settings, check=False)
        served.result()
    if told is None:
        assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    else:
        assert done.returncode == 1 and done.stdout == ""
        assert told in done.stderr and len(done.stderr.splitlines()) == 1


def resumed(server, context, session=None):
    """Whether a connection resumed a session, and a session that the next one can resume."""
    with socket.create_connection(server.address, timeout=20) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            # The tickets of TLS 1.3 come after the handshake.
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            return connection.session_reused, connection.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_at_another_node(make_server, tmp_path, version):
    certificate = Certificate(tmp_path)
    context = certificate.context(version)
    master = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    other = "BBECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    secrets = (master, f"{other},{master}", other)
    first, second, stranger = (
        make_server(name, environment=certificate.settings | {"SLUICE_MASTER_SECRET": secret})
        for name, secret in zip("abc", secrets, strict=True)
    )
    with first, second, stranger:
        reused, session = resumed(first, context)
        assert not reused
        assert resumed(first, context, session)[0]
        assert resumed(second, context, session)[0]
        assert not resumed(stranger, context, session)[0]
        first.process.send_signal(signal.SIGHUP)
        until(lambda: "the certificate was read again" in first.log.read_text())
        assert resumed(first, context, session)[0]
        first.stop()
        first.start()
        assert resumed(first, context, session)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_is_resumed_where_clients_need_certificates(make_server, tmp_path, version):
    """A resumed session is not verified again: it would outlive the certificate, and the setting."""
    for name in ("server", "client"):
        (tmp_path / name).mkdir()
    own, client = (Certificate(tmp_path / name) for name in ("server", "client"))
    context, anonymous = own.context(version), own.context(version)
    context.load_cert_chain(client.path, client.key_path)
    environment = own.settings | {"SLUICE_MASTER_SECRET": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}
    with make_server("before", environment=environment) as server:
        early = resumed(server, anonymous)[1]
        assert resumed(server, anonymous, early)[0]
    environment |= {"SLUICE_TLS_CLIENT_AUTHORITIES": str(client.path)}
    with make_server("after", environment=environment) as server:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            resumed(server, anonymous, early)
        reused, session = resumed(server, context)
        assert not reused
        assert not resumed(server, context, session)[0]


def served(server, certificate):
    """The certificate that a new connection gets."""
    with socket.create_connection(server.address, timeout=20) as raw:
        with certificate.context().wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            return connection.getpeercert(binary_form=True)


@pytest.mark.parametrize("how", ["SIGHUP", "files"])
def test_a_renewed_certificate_needs_no_restart(make_server, tmp_path, how):
    for name in ("new", "bad", "used"):
        (tmp_path / name).mkdir()
    used, new, bad = (Certificate(tmp_path / name) for name in ("used", "new", "bad"))
    with make_server(environment=used.settings) as server:
        before = served(server, used)
        with socket.create_connection(server.address, timeout=20) as raw:
            with used.context().wrap_socket(raw, server_hostname="127.0.0.1") as kept:
                # The key of another certificate: nothing changes.
                shutil.copy(bad.key_path, tmp_path / "next")
                (tmp_path / "next").rename(used.key_path)
                if how == "SIGHUP":
                    server.process.send_signal(signal.SIGHUP)
                until(lambda: "the certificate was not read again" in server.log.read_text(), timeout=30)
                assert served(server, used) == before
                for source, target in ((new.key_path, used.key_path), (new.path, used.path)):
                    shutil.copy(source, tmp_path / "next")
                    (tmp_path / "next").rename(target)
                if how == "SIGHUP":
                    server.process.send_signal(signal.SIGHUP)
                until(lambda: "the certificate was read again" in server.log.read_text(), timeout=30)
                after = served(server, new)
                assert after == ssl.PEM_cert_to_DER_cert(new.path.read_text()) != before
                # A connection that was open goes on.
                kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
        text = API(server.url, server.admin_key, verify=str(new.path)).get("/metrics").text
        expiry = float(re.search(r"^sluice_tls_certificate_expiry_time_seconds (\S+)$", text, re.M)[1])
        assert 0 < expiry - time.time() < 3 * 86400


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_certificate_that_ends_soon_is_in_the_log(make_server, tmp_path):
    """At the start, and again after a renewal that did not help; not if there is time."""
    for name in ("used", "short", "long"):
        (tmp_path / name).mkdir()
    used, short, long = (
        Certificate(tmp_path / name, days=days) for name, days in [("used", 13), ("short", 2), ("long", 15)]
    )
    ends = []
    with make_server(environment=used.settings) as server:
        for made in (used, short, long):
            if made is not used:
                for source, target in ((made.key_path, used.key_path), (made.path, used.path)):
                    shutil.copy(source, target)
                server.process.send_signal(signal.SIGHUP)
            wanted = ssl.PEM_cert_to_DER_cert(made.path.read_text())
            until(lambda wanted=wanted: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(server.address)) == wanted)
            lines = [json.loads(line) for line in server.whole_log().splitlines() if line.startswith("{")]
            found = [line for line in lines if line["message"] == "the certificate expires soon: renew it"]
            assert {line["level"] for line in found} == {"warning"}
            # The file watch may say it once more.
            ends.append(sorted({line["expires"] for line in found}))
    assert [len(found) for found in ends] == [1, 2, 2]
    assert ends[1][0] < ends[0][0]


class Handshakes(threading.Thread):
    """A client that makes fifty connections a second, by both versions of TLS, and resumes every second session."""

    def __init__(self, server, certificates):
        super().__init__(daemon=True)
        self.server = server
        self.contexts = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = certificates[0].context(version)
            for certificate in certificates[1:]:
                context.load_verify_locations(certificate.path)
            self.contexts.append(context)
        # For each connection without a session to resume, its number and the certificate.
        self.seen = []
        self.count = self.resumed = 0
        self.failures = []
        self.over = threading.Event()

    def run(self):
        due = time.monotonic()
        while not self.over.is_set():
            try:
                for context in self.contexts:
                    session = self.connect(context)
                    self.resumed += self.connect(context, session) is None
            except OSError as failure:
                self.failures.append(failure)
            due += 4 / 50
            self.over.wait(max(0, due - time.monotonic()))

    def connect(self, context, session=None):
        """The session, of a new one; None where it was resumed."""
        with socket.create_connection(self.server.address, timeout=20) as raw:
            with context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as connection:
                if not connection.session_reused:
                    self.seen.append((self.count, connection.getpeercert(binary_form=True)))
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                if not (answer := connection.recv(4096)).startswith(b"HTTP/1.1 200 "):
                    raise ConnectionError(f"answered {answer[:100]!r}")
                self.count += 1
                return None if connection.session_reused else connection.session


@pytest.mark.parametrize("how", ["SIGHUP", "files"])
def test_renewals_during_handshakes(make_server, tmp_path, quick, report, how):
    """Two hundred handshakes a second by four clients, all of which succeed while the certificate is replaced.

    In the gate half as many.
    """
    for name in ("used", "0", "1", "2"):
        (tmp_path / name).mkdir()
    used, *others = certificates = [Certificate(tmp_path / name) for name in ("used", "0", "1", "2")]
    renewals = {"SIGHUP": 5, "files": 2} if quick else {"SIGHUP": 60, "files": 12}
    with make_server(environment=used.settings) as server:
        clients = [Handshakes(server, certificates) for _ in range(2 if quick else 4)]
        first = ssl.PEM_cert_to_DER_cert(used.path.read_text())
        begin = time.monotonic()
        for client in clients:
            client.start()
        try:
            until(lambda: all(client.count for client in clients))
            for number in range(renewals[how]):
                made = others[number % len(others)]
                new = ssl.PEM_cert_to_DER_cert(made.path.read_text())
                count = sum(client.count for client in clients)
                for source, target in ((made.key_path, used.key_path), (made.path, used.path)):
                    shutil.copy(source, tmp_path / "next")
                    (tmp_path / "next").rename(target)
                    if how == "SIGHUP":
                        # Also between the two, which do not belong together then.
                        server.process.send_signal(signal.SIGHUP)
                until(
                    lambda new=new: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(server.address)) == new,
                    timeout=60,
                )
                marks = [client.count for client in clients]
                enough = count + 50 * len(clients)
                until(lambda enough=enough: sum(client.count for client in clients) >= enough, timeout=60)
                # What begins after that has the new one only. One connection of each client may have begun before.
                for client, mark in zip(clients, marks, strict=True):
                    assert {seen for at, seen in list(client.seen) if at > mark} <= {new}
        finally:
            for client in clients:
                client.over.set()
            for client in clients:
                client.join(60)
        seconds = time.monotonic() - begin
        assert [failure for client in clients for failure in client.failures] == []
        assert {seen for client in clients for _, seen in client.seen} > {first}
        assert sum(client.resumed for client in clients) > 0
        total = sum(client.count for client in clients)
        report(f"{renewals[how]} renewals by {how} during {total} handshakes, {total / seconds:.0f} a second")


def test_sighup_does_not_end_a_gateway_without_tls(make_server):
    with make_server() as server:
        server.process.send_signal(signal.SIGHUP)
        api = API(server.url, server.admin_key)
        assert api.uploaded(b"hello")
