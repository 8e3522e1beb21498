"""TLS: versions, ALPN, uploads, and peers that do not use it."""

import os
import re
import ssl
import warnings

import pytest

from harness.api import API, tus_patch, upload_id
from harness.data import MIB, content, sha256
from harness.server import run
from harness.wire import Wire, head, until

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
