"""Certificates by ACME from a real authority: both challenges, restarts, renewal; it is away, or refuses."""

import contextlib
import json
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest
import requests

from harness.daemon import free_port
from harness.pebble import Pebble
from harness.server import BINARY, run
from harness.tls import Certificate
from harness.wire import until

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")

NONE_YET = (
    "there is no certificate for acme.domains yet; until the certificate authority issues one, "
    "clients cannot trust this gateway"
)
NO_BINDING = "the certificate authority wants an account that it knows: set acme.eabKeyId and acme.eabKey"


@pytest.fixture
def make_pebble(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(Pebble(tmp_path / "pebble", **options))


def shake_hands(server, context, name):
    """The certificate of a handshake: what the context has verified of it, and its bytes."""
    with socket.create_connection(server.address, 10) as raw:
        with context.wrap_socket(raw, server_hostname=name) as made:
            return made.getpeercert(), made.getpeercert(binary_form=True)


def no_trust():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def lines(server, message):
    """The log lines with this message."""
    text = server.log.read_text()
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == message]


def first(server, message, timeout=60):
    return until(lambda: lines(server, message), timeout)[0]


def issued(server, count=1):
    return until(lambda: (found := lines(server, "a certificate was issued"))[count - 1 :] and found)[count - 1]


def failed(server, count=1):
    return until(lambda: (found := lines(server, "no certificate was issued"))[count - 1 :] and found)[count - 1]


def folder(server):
    """Where it keeps what is of its authority."""
    (found,) = (server.data / "acme").iterdir()
    return found


def orders(server):
    text = requests.get(f"{server.url}/metrics", headers=server_key(server), verify=False, timeout=10).text
    return {
        found[1]: float(found[2]) for found in re.finditer(r'sluice_acme_orders_total\{result="(\w+)"\} (\S+)', text)
    }


def server_key(server):
    return {"Authorization": f"Bearer {server.admin_key}"}


@pytest.mark.parametrize("challenge", ["tls-alpn-01", "http-01"])
def test_a_certificate_for_several_names_that_a_restart_keeps(make_pebble, on_file, challenge):
    pebble = make_pebble()
    server = on_file(environment=pebble.settings("a.example.com", "b.example.com", challenge=challenge))
    with server:
        assert first(server, NONE_YET)["domains"] == "a.example.com, b.example.com"
        assert issued(server)["domains"] == "a.example.com, b.example.com"
        context = pebble.context()
        for name in ["a.example.com", "b.example.com"]:
            verified, certificate = shake_hands(server, context, name)
            assert {value for _, value in verified["subjectAltName"]} == {"a.example.com", "b.example.com"}
        assert orders(server) == {"ok": 1}
        assert requests.get(server.url + "/healthz", verify=False, timeout=10).status_code == 200
    for path in [server.data / "acme", folder(server)]:
        assert path.stat().st_mode & 0o777 == 0o700
    kept = {path.name: path.stat().st_mode & 0o777 for path in folder(server).iterdir()}
    assert kept == {"account.pem": 0o600, "certificate.pem": 0o600, "attempts.json": 0o600}
    with server:
        assert shake_hands(server, context, "a.example.com")[1] == certificate
        # It asks the authority for nothing.
        assert (pebble.orders(), pebble.issued()) == (1, 1)
    assert len(lines(server, "a certificate was issued")) == 1


def test_the_listener_for_requests_serves_nothing_else(make_pebble, on_file):
    pebble = make_pebble()
    with on_file(environment=pebble.settings("a.example.com", challenge="http-01")) as server:
        issued(server)
        for path in [
            "/",
            "/healthz",
            "/metrics",
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/unknown",
        ]:
            answer = requests.get(f"http://127.0.0.1:{pebble.http_port}{path}", headers=server_key(server), timeout=10)
            assert answer.status_code == 404, path
        # The one that the authority used.
        (token,) = set(re.findall(r"/.well-known/acme-challenge/([\w-]+)", pebble.log())) or {"gone"}
        url = f"http://127.0.0.1:{pebble.http_port}/.well-known/acme-challenge/{token}"
        assert requests.get(url, timeout=10).status_code == 404


def test_handshakes_before_there_is_a_certificate(make_pebble, on_file):
    """Who verifies does not trust it; a handshake of an authority that none asked for fails."""
    settings = make_pebble().settings("a.example.com") | {
        "SLUICE_ACME_DIRECTORY": f"https://127.0.0.1:{free_port()}/dir"
    }
    with on_file(environment=settings) as server:
        failed(server)
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(server, ssl.create_default_context(), "a.example.com")
        assert requests.get(server.url + "/healthz", verify=False, timeout=10).status_code == 200
        validating = no_trust()
        validating.set_alpn_protocols(["acme-tls/1"])
        for name in ["a.example.com", "other.example.com"]:
            with pytest.raises(ssl.SSLError):
                shake_hands(server, validating, name)
        # As one of several protocols it is none of a validation.
        validating.set_alpn_protocols(["acme-tls/1", "http/1.1"])
        shake_hands(server, validating, "a.example.com")
        assert run("health", environment=server.environment, check=False).returncode == 0


def test_an_authority_that_is_away_at_the_start(make_pebble, on_file):
    pebble = make_pebble()
    pebble.daemon.stop()
    with on_file(environment=pebble.settings("a.example.com")) as server:
        line = failed(server)
        assert "cannot be reached" in line["error"]
        assert 9 <= line["retryInSeconds"] <= 11
        pebble.daemon.start().wait_for_port(pebble.port)
        # The operator need not wait.
        server.process.send_signal(signal.SIGHUP)
        issued(server)
        shake_hands(server, pebble.context(), "a.example.com")
        assert orders(server)["ok"] == 1


def test_a_name_that_the_authority_refuses(make_pebble, on_file):
    # A refused nonce would repeat a request.
    pebble = make_pebble(domainBlocklist=["blocked.example.com"], environment={"PEBBLE_WFE_NONCEREJECT": "0"})
    with on_file(environment=pebble.settings("blocked.example.com")) as server:
        line = failed(server)
        assert "rejectedIdentifier" in line["error"], line
        assert 54 <= line["retryInSeconds"] <= 66
        server.process.send_signal(signal.SIGHUP)
        line = failed(server, 2)
        assert line["failures"] == 2
        assert 162 <= line["retryInSeconds"] <= 198
        assert orders(server) == {"failed": 2}
        assert pebble.log().count("POST /order-plz") == 2
        assert json.loads((folder(server) / "attempts.json").read_text())["failures"] == 2
    # Not even many restarts make it ask often: they are few before they have to wait, too.
    for _ in range(3):
        with server:
            requests.get(server.url + "/healthz", verify=False, timeout=10)
            until(lambda: lines(server, "started"))
    assert pebble.log().count("POST /order-plz") <= 3


def test_a_gateway_that_the_authority_does_not_reach(make_pebble, on_file):
    pebble = make_pebble()
    settings = pebble.settings("a.example.com") | {"SLUICE_GATEWAY_LISTEN": "127.0.0.1:0"}
    with on_file(environment=settings) as server:
        line = failed(server)
        assert "could not validate a.example.com" in line["error"], line
        assert "Failed to connect" in line["error"], line
        assert 54 <= line["retryInSeconds"] <= 66


def test_renewal_under_load(make_pebble, on_file):
    """Handshakes go on while the certificate is replaced."""
    pebble = make_pebble(certificateValidityPeriod=20)
    with on_file(environment=pebble.settings("a.example.com")) as server:
        issued(server)
        context, seen, failures, over = pebble.context(), set(), [], threading.Event()

        def load():
            # Dozens of handshakes a second, not as many as possible.
            while not over.wait(0.05):
                try:
                    seen.add(shake_hands(server, context, "a.example.com")[1])
                except (OSError, ssl.SSLError) as failure:
                    failures.append(failure)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            issued(server, 2)
            until(lambda: len(seen) >= 2 or failures)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failures, failures[0]
        # Not ordered more often than that.
        assert pebble.issued() == 2


def test_a_kill_during_an_order(make_pebble, on_file):
    pebble = make_pebble(environment={"PEBBLE_VA_NOSLEEP": "0", "PEBBLE_VA_SLEEPTIME": "2"})
    server = on_file(environment=pebble.settings("a.example.com"))
    server.start()
    until(lambda: "POST /chalZ/" in pebble.log())
    server.kill()
    assert (folder(server) / "account.pem").stat().st_mode & 0o777 == 0o600
    with server:
        issued(server)
        shake_hands(server, pebble.context(), "a.example.com")
        # The same account.
        assert "There are now 2 accounts" not in pebble.log()


def test_nonces_that_the_authority_refuses(make_pebble, on_file):
    pebble = make_pebble(environment={"PEBBLE_WFE_NONCEREJECT": "40"})
    with on_file(environment=pebble.settings("a.example.com")) as server:
        issued(server)
        assert orders(server) == {"ok": 1}
        assert pebble.orders() == 1


def test_an_account_that_the_authority_knows(make_pebble, on_file):
    pebble = make_pebble(
        externalAccountBindingRequired=True,
        externalAccountMACKeys={"kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"},
    )
    with on_file(environment=pebble.settings("a.example.com")) as server:
        assert "externalAccountRequired" in failed(server)["error"]
        assert lines(server, NO_BINDING)
    bound = pebble.settings("a.example.com") | {
        "SLUICE_ACME_EAB_KEY_ID": "kid-1",
        "SLUICE_ACME_EAB_KEY": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W",
    }
    with on_file("bound", environment=bound) as server:
        issued(server)
        assert "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W" not in server.log.read_text()


def test_beside_a_certificate_from_files_and_certificates_of_clients(make_pebble, on_file, tmp_path):
    """The authority has no certificate of a client, and validates nevertheless."""
    pebble = make_pebble()
    (tmp_path / "own").mkdir()
    own = Certificate(tmp_path / "own", hosts=["own.example.com"])
    settings = pebble.settings("a.example.com") | own.settings | {"SLUICE_TLS_CLIENT_AUTHORITIES": str(own.path)}
    with on_file(environment=settings) as server:
        issued(server)
        with_own = own.context()
        with_own.load_cert_chain(own.path, own.key_path)
        shake_hands(server, with_own, "own.example.com")
        theirs = pebble.context()
        theirs.load_cert_chain(own.path, own.key_path)
        shake_hands(server, theirs, "a.example.com")


def test_other_names_need_another_certificate(make_pebble, on_file):
    pebble = make_pebble()
    server = on_file(environment=pebble.settings("a.example.com"))
    with server:
        issued(server)
    server.environment |= pebble.settings("a.example.com", "b.example.com")
    with server:
        issued(server, 2)
        shake_hands(server, pebble.context(), "b.example.com")
    # A file that is damaged is replaced.
    (folder(server) / "certificate.pem").write_text("damaged\n")
    with server:
        issued(server, 3)
        shake_hands(server, pebble.context(), "b.example.com")


def test_doctor_and_check_name_what_is_wrong(make_pebble, on_file):
    pebble = make_pebble()
    server = on_file(environment=pebble.settings("a.example.com"))

    def doctor(**settings):
        done = subprocess.run(
            [BINARY, "doctor", "--json"], env=server.environment | settings, capture_output=True, text=True, timeout=60
        )
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return {line["check"]: (line["status"], line["text"]) for line in found if line["check"].startswith("acme.")}

    found = doctor()
    assert found["acme.directory"][0] == "ok"
    assert found["acme.domains"][0] == "warning"
    with server:
        issued(server)
        assert doctor()["acme.domains"][0] == "ok"
    status, text = doctor(SLUICE_ACME_DIRECTORY=f"https://127.0.0.1:{free_port()}/dir")["acme.directory"]
    assert (status, "cannot be reached" in text) == ("failed", True)
    status, text = doctor(SLUICE_ACME_AUTHORITIES="/etc/hostname")["acme.directory"]
    assert status == "failed"


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"SLUICE_ACME_DOMAINS": "*.example.com"}, "acme.domains"),
        ({"SLUICE_ACME_DOMAINS": "192.0.2.1"}, "acme.domains"),
        ({"SLUICE_ACME_DIRECTORY": "http://ca.example.com/dir"}, "acme.directory"),
        ({"SLUICE_ACME_EAB_KEY_ID": "kid"}, "acme.eabKey"),
        ({"SLUICE_ACME_DOMAINS": "", "SLUICE_ACME_EMAIL": "ops@example.com"}, "acme.domains"),
        ({"SLUICE_DATABASE_URL": "postgres://u:p@127.0.0.1/sluice"}, "cannot be set together with database.url"),
    ],
)
def test_settings_that_do_not_belong_together(settings, said):
    environment = {
        "SLUICE_ACME_DOMAINS": "a.example.com",
        "SLUICE_MASTER_SECRET": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    } | settings
    environment = {name: value for name, value in environment.items() if value}
    done = run("check", environment=environment, check=False)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
