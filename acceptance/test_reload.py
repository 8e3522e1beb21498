"""SIGHUP: settings that change while the gateway runs, and what never ends it."""

import base64
import contextlib
import json
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
import yaml
from test_limits import COUNTED, ask, refused

from harness import object_client, ways
from harness.api import API, tus_error
from harness.daemon import free_port
from harness.data import content, sha256
from harness.identity import IdentityProvider, Key
from harness.object_client import MINTED, ROLE, ObjectServer
from harness.origin import Origin
from harness.receiver import Receiver
from harness.server import BINARY
from harness.stages import SteppedWorld, Ticks
from harness.ways import File
from harness.wire import until

PAGE = "https://app.example.com"


class Reloaded:
    """A gateway with a configuration file."""

    def __init__(self, make_server, tmp_path, settings, **options):
        self.path = tmp_path / "sluice.yaml"
        self.write(settings)
        self.server = make_server(arguments=["--config", str(self.path)], **options).start()
        self.api = API(self.server.url, self.server.admin_key)

    def write(self, settings):
        self.path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))

    def lines(self, message):
        lines = [json.loads(line) for line in self.server.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == message]

    def hang_up(self, settings=None, message="the settings were read again"):
        """The line that says what the signal did."""
        if settings is not None:
            self.write(settings)
        count = len(self.lines(message))
        self.server.process.send_signal(signal.SIGHUP)
        return until(lambda: len(lines := self.lines(message)) > count and lines[-1])


def preflight(server):
    fields = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
    return requests.options(server.url + "/files", headers=fields, timeout=20).status_code


def test_what_a_reload_changes(make_server, tmp_path):
    """And what a new connection, an open one and a request that begins later get."""
    settings = {"log": {"level": "warning"}, "cors": {"origins": "https://other.example.com"}}
    one = Reloaded(make_server, tmp_path, settings, environment=COUNTED)
    server = one.server
    # Without the messages of this level, what a reload has done is seen only by its effects.
    assert preflight(server) == 403 and one.lines("request") == []
    settings = {"log": {"level": "notice"}, "cors": {"origins": PAGE}}
    assert one.hang_up(settings)["changed"] == "cors.origins, log.level"
    assert preflight(server) == 204 and one.lines("request") == []
    settings |= {"log": {"level": "info"}, "trustedProxies": "127.0.0.9", "limits": {"address": {"uploads": 7}}}
    settings["limits"]["address"] |= {"requestsPerSecond": 1, "burst": 3}
    line = one.hang_up(settings)
    assert line["changed"] == (
        "trustedProxies, limits.address.requestsPerSecond, limits.address.burst, limits.address.uploads, log.level"
    )
    assert refused(ask("127.0.0.2", server.address, 50))
    # A trusted proxy has no limit, its clients do.
    assert not refused(ask("127.0.0.9", server.address, 50))
    assert refused(ask("127.0.0.9", server.address, 50, [("X-Forwarded-For", "192.0.2.7")]))
    until(lambda: any(line.get("client") == "192.0.2.7" for line in one.lines("request")))
    settings["limits"]["address"] |= {"requestsPerSecond": 0, "exempt": "127.0.0.0/8"}
    # The setting of the environment is stronger than the file.
    assert one.hang_up(settings)["changed"] == "limits.address.requestsPerSecond"
    assert not refused(ask("127.0.0.2", server.address, 50))
    # The defaults, where the file no longer has a setting.
    assert "cors.origins" in one.hang_up({})["changed"]
    assert one.hang_up()["changed"] == "none"
    assert preflight(server) == 204


def test_cors_of_the_object_endpoint(make_server, tmp_path):
    listen = {"SLUICE_OBJECT_LISTEN": "127.0.0.1:0", "SLUICE_OBJECT_BUCKETS": "uploads"}
    one = Reloaded(make_server, tmp_path, {"cors": {"enabled": False}}, environment=listen)
    fields = {"Origin": PAGE, "Access-Control-Request-Method": "PUT"}

    def status():
        return requests.options(f"{one.server.object_url}/uploads/a", headers=fields, timeout=20).status_code

    assert status() == 403
    assert one.hang_up({"cors": {"origins": PAGE}})["changed"] == "cors.enabled, cors.origins"
    assert status() == 200


@pytest.mark.parametrize(
    "text",
    [
        "log: {level: loud}\ncors: {origins: https://other.example.com}\n",
        "cors: {origins: https://other.example.com}\nlimits: {adress: {burst: 1}}\n",
        "cors: {origins: [",
        None,
    ],
    ids=["value", "key", "syntax", "missing"],
)
def test_a_bad_file_changes_nothing(make_server, tmp_path, text):
    one = Reloaded(make_server, tmp_path, {"cors": {"origins": PAGE}})
    if text is None:
        one.path.unlink()
    line = one.hang_up(text, "the settings were not read again; those before stay in use")
    assert line["level"] == "error" and "sluice.yaml" in line["error"]
    assert preflight(one.server) == 204
    # And the next good one is read.
    one.hang_up({"cors": {"origins": "https://other.example.com"}})
    assert preflight(one.server) == 403


@pytest.fixture
def providers():
    with IdentityProvider() as one, IdentityProvider() as other:
        yield one, other


def issuer(provider, **more):
    return {"issuer": provider.url, "audience": "app", "subjectPrefix": f"{provider.url}:"} | more


def test_issuers_of_tokens(make_server, tmp_path, providers):
    first, second = providers
    one = Reloaded(make_server, tmp_path, {"jwt": {"issuers": [issuer(first, scopes="upload, mint")]}})
    server = one.server
    old, new = first.token(sub="anna"), second.token(sub="anna")
    app, other = API(server.url, old), API(server.url, new)
    url = app.created(10, body=b"abc")
    assert app.create(1001).status_code == 201 and other.create(1).status_code == 401
    minted = API(server.url, app.post("/v1/tus/tokens", {"subject": f"{first.url}:anna"}).json()["token"])
    assert minted.create(1).status_code == 201
    asked = len(first.asked)
    # A token that was verified a moment ago has the new limits at once, and the keys that were fetched are known.
    limited = issuer(first, scopes="upload, mint", maximumBytes=1000)
    assert one.hang_up({"jwt": {"issuers": [limited, issuer(second)]}})["changed"] == "jwt.issuers"
    assert app.create(1001).status_code == 413 and app.create(1000).status_code == 201
    assert other.create(1).status_code == 201
    assert len(first.asked) == asked
    # What a removed issuer's users have ends, and what they minted; their uploads go on.
    one.hang_up({"jwt": {"issuers": [issuer(second)]}})
    for gone in (app, minted):
        assert gone.create(1).status_code == 401
    assert other.create(1).status_code == 201
    assert app.patch(url, 3, b"defghij").status_code == 204
    # An empty list is one of no issuers.
    one.hang_up({})
    assert other.create(1).status_code == 401
    # What mends a slip needs no restart.
    assert one.hang_up({"jwt": {"issuers": [issuer(second)]}})["changed"] == "jwt.issuers"
    assert other.create(1).status_code == 201


def test_keys_of_an_issuer_in_a_file(make_server, tmp_path, providers):
    provider = providers[0]
    path = tmp_path / "issuer.pem"
    path.write_bytes(provider.keys[0].public_pem)
    settings = {"jwt": {"issuers": [issuer(provider, keyFile=str(path))]}}
    one = Reloaded(make_server, tmp_path, settings)
    new = Key("new")

    def admits(key):
        return API(one.server.url, provider.token(key, sub="anna")).create(1).status_code == 201

    assert admits(provider.keys[0]) and not admits(new)
    path.write_text("no key")
    line = one.hang_up(
        settings | {"log": {"level": "warning"}}, "the settings were not read again; those before stay in use"
    )
    assert str(path) in line["error"]
    assert admits(provider.keys[0]) and one.lines("request")
    path.write_bytes(new.public_pem)
    assert one.hang_up(settings)["changed"] == "none"
    assert admits(new) and not admits(provider.keys[0])


def test_issuers_need_a_restart_if_there_were_none(make_server, tmp_path, providers):
    one = Reloaded(make_server, tmp_path, {})
    line = one.hang_up({"jwt": {"issuers": [issuer(providers[0])]}}, "changed settings need a restart")
    assert line["settings"] == "jwt.issuers"


def test_quotas(make_server, tmp_path):
    """Of accounts without a policy of their own; what they have used stays counted."""
    one = Reloaded(make_server, tmp_path, {})
    api = one.api
    minted = {name: API(one.server.url, mint(api, name)) for name in ("anna", "bert")}
    assert api.request("PUT", "/v1/quota/subjects/bert", json={"openUploads": 3}).status_code == 200
    for name in minted:
        assert [minted[name].create(1).status_code for _ in range(2)] == [201, 201]
    settings = {"quota": {"subject": {"openUploads": 2, "uploadBytes": 10, "extensions": "mp4"}}}
    line = one.hang_up(settings)
    assert line["changed"] == "quota.subject.openUploads, quota.subject.uploadBytes, quota.subject.extensions"
    # The two that are open count at once.
    assert tus_error(minted["anna"].create(1, metadata={"filename": "a.mp4"}), 403) == "ERR_QUOTA_EXCEEDED"
    assert minted["bert"].create(11).status_code == 201 and api.create(11).status_code == 201
    bad = {"quota": {"subject": {"openUploads": -1}}, "log": {"level": "debug"}}
    one.hang_up(bad, "the settings were not read again; those before stay in use")
    assert minted["anna"].create(1, metadata={"filename": "a.mp4"}).status_code == 403
    # Without a limit again, and with another one.
    assert one.hang_up({"quota": {"subject": {"uploadBytes": 10}}})["changed"].startswith("quota.subject.openUploads")
    assert minted["anna"].create(10).status_code == 201 and minted["anna"].create(11).status_code == 413
    line = one.hang_up({"quota": {"period": "1h"}}, "changed settings need a restart")
    assert line["settings"] == "quota.period"
    assert minted["anna"].create(11).status_code == 201


def mint(api, subject):
    return api.post("/v1/tus/tokens", {"subject": subject}).json()["token"]


TOO_LARGE = (400, "EntityTooLarge")


def assumed(server, token):
    """Status of AssumeRoleWithWebIdentity, and the credentials."""
    wanted = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleSessionName": "phone"}
    wanted |= {"RoleArn": ROLE, "WebIdentityToken": token}
    answer = requests.post(server.object_url, data=wanted, timeout=20)
    found = [re.search(f"<{name}>(.*?)</{name}>", answer.text) for name in MINTED["aws"]]
    return answer.status_code, [one and one[1] for one in found]


def test_the_identity_provider(make_server, tmp_path, providers):
    """It appears, changes, keeps its fetched keys, and ends, with the sessions of its users."""
    first, second = providers
    listen = {"SLUICE_OBJECT_LISTEN": "127.0.0.1:0", "SLUICE_OBJECT_BUCKETS": "uploads"}
    one = Reloaded(make_server, tmp_path, {}, environment=listen)
    server = one.server

    def stored(session):
        store = object_client.client(server.object_url, (session[0], session[1]), token=session[2])
        return object_client.code(store.put_object, Bucket="uploads", Key="anna/1", Body=b"12345")

    def gone(session):
        return stored(session) not in (None, TOO_LARGE)

    assert assumed(server, first.token())[0] == 400
    about = {"issuer": first.url, "audience": "app"}
    assert one.hang_up({"identity": about})["changed"] == "identity.issuer, identity.audience"
    status, session = assumed(server, first.token())
    assert status == 200 and stored(session) is None
    asked = len(first.asked)
    changed = one.hang_up({"identity": about | {"maximumBytes": 3, "audience": "app, web"}})["changed"]
    assert changed == "identity.audience, identity.maximumBytes"
    # What was minted before keeps its limits; what is minted now has the new ones.
    status, smaller = assumed(server, first.token(aud="web"))
    assert (status, stored(smaller), stored(session)) == (200, TOO_LARGE, None)
    assert len(first.asked) == asked
    one.hang_up(
        {"identity": about | {"issuer": "not a URL"}}, "the settings were not read again; those before stay in use"
    )
    assert assumed(server, first.token())[0] == 200
    # A removed audience and a removed issuer end what their users have.
    one.hang_up({"identity": about})
    until(lambda: gone(smaller))
    assert stored(session) is None
    one.hang_up({"identity": about | {"issuer": second.url}})
    assert assumed(server, first.token())[0] == 400 and assumed(server, second.token())[0] == 200
    until(lambda: gone(session))
    one.hang_up({})
    assert assumed(server, second.token())[0] == 400


def test_an_identity_provider_without_a_bucket_needs_a_restart(make_server, tmp_path, providers):
    one = Reloaded(make_server, tmp_path, {"object": {"buckets": []}})
    settings = {"identity": {"issuer": providers[0].url, "audience": "app"}, "object": {"buckets": "uploads"}}
    line = one.hang_up(settings, "changed settings need a restart")
    assert line["settings"] == "object.buckets, identity.issuer, identity.audience"


def test_what_needs_a_restart_is_one_line(make_server, tmp_path):
    one = Reloaded(make_server, tmp_path, {"log": {"level": "info"}})
    settings = {"durability": "none", "limits": {"uploadBytes": "1MiB"}, "cors": {"origins": PAGE}}
    one.write(settings)
    for changed in ("cors.origins", "none"):
        line = one.hang_up(None, "changed settings need a restart")
        assert line["level"] == "warning" and line["settings"] == "durability, limits.uploadBytes"
        assert one.lines("the settings were read again")[-1]["changed"] == changed
    assert one.api.create(2 << 20).status_code == 201
    one.server.stop()
    one.server.start()
    assert API(one.server.url, one.server.admin_key).create(2 << 20).status_code == 413


def test_a_proxy_of_the_proxy_protocol_needs_a_restart_with_it(make_server, tmp_path):
    one = Reloaded(make_server, tmp_path, {})
    line = one.hang_up(
        {"gateway": {"proxyProtocol": True}, "trustedProxies": "127.0.0.0/8"}, "changed settings need a restart"
    )
    assert line["settings"] == "gateway.proxyProtocol, trustedProxies"
    assert one.api.get("/readyz").status_code == 200


def test_hooks_and_their_secret_in_a_file(make_server, tmp_path):
    old, new = ("whsec_" + base64.b64encode(bytes([number] * 32)).decode() for number in (1, 2))
    file = tmp_path / "secret"
    file.write_text(old)
    with Receiver(old) as first, Receiver(new) as second:
        hooks = {"url": first.url, "secretFile": str(file), "timeout": "5s"}
        one = Reloaded(make_server, tmp_path, {"hooks": hooks})
        first.wait("post-finish", upload=one.api.uploaded(b"1"))
        file.write_text(new + "\n")
        hooks |= {"url": second.url, "timeout": "6s"}
        line = one.hang_up({"hooks": hooks})
        assert line["changed"] == "hooks.url, hooks.secret, hooks.timeout"
        assert new not in one.server.log.read_text()
        second.wait("post-finish", upload=one.api.uploaded(b"2"))
        assert not first.failures and not second.failures
        # What is called does not end to be, and goes on to get its own signatures.
        line = one.hang_up({}, "changed settings need a restart")
        assert line["settings"] == "hooks.url, hooks.secret, hooks.timeout"
        second.wait("post-finish", upload=one.api.uploaded(b"3"))


def test_ten_reloads_during_uploads_of_each_dialect(tmp_path, report):
    """Each request with content of the file is under way during ten of them."""
    settings = COUNTED | {
        "SLUICE_OBJECT_BUCKETS": ways.BUCKET,
        "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        "SLUICE_PULL_ALLOW_USERS": "true",
        "SLUICE_TENCENT_APPLIES_PER_SECOND": "10000",
    }
    file = File(b"\x89PNG\r\n\x1a\n" + content(220_000, 1))
    ticks, origin = Ticks(), Origin()
    with contextlib.ExitStack() as stack:
        stack.callback(origin.close)

        def make(arguments, **options):
            server = ObjectServer(tmp_path / "data", free_port(), settings, arguments=arguments, **options)
            stack.callback(server.stop)
            return server

        one = Reloaded(make, tmp_path, {})
        worlds = {way.name: SteppedWorld(one.server, origin, ticks, 11, 1000) for way in ways.ALL}

        def send(way, subject):
            return way.send(worlds[way.name], way.mint(worlds[way.name], subject, file), file)

        subjects = {way.name: f"u{number}" for number, way in enumerate(ways.ALL)}
        reloads = 0
        with ThreadPoolExecutor(len(ways.ALL)) as pool:
            sent = {way.name: pool.submit(send, way, subjects[way.name]) for way in ways.ALL}
            while not all(one.done() for one in sent.values()):
                reloads += 1
                limits = {"requestsPerSecond": 1000 + reloads, "uploads": 1000 + reloads}
                limits = {kind: limits | {"bytesPerSecond": f"{reloads}GiB"} for kind in ("address", "key", "subject")}
                changed = {"limits": limits, "log": {"level": "debug" if reloads % 2 else "info"}}
                changed |= {"cors": {"origins": f"https://{reloads}.example.com"}}
                changed |= {"quota": {"subject": {"openUploads": 1000 + reloads}}}
                assert "limits.key.uploads" in one.hang_up(changed)["changed"]
                ticks.next()
        broken = {name: failure for name, done in sent.items() if (failure := done.exception())}
        assert not broken, broken
        assert reloads >= 10
        for name, world in worlds.items():
            # The rest has no content of its own: pulls and copies.
            assert world.stepped or "pull" in name or "copy" in name, name
            found = [upload for upload in world.uploads(subjects[name]) if upload["length"] == len(file.data)]
            assert found, name
            for upload in found:
                assert one.api.download_hash(upload["id"]) == (sha256(file.data), len(file.data)), name
        report(f"reloads during uploads of {len(sent)} ways: {reloads}")
        # Nothing is still counted as under way by a limit that was replaced.
        assert one.hang_up({"limits": {"key": {"uploads": 1}}})
        assert one.api.uploaded(b"1") and one.api.uploaded(b"2")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGHUP])
def test_signals_that_do_not_end_it(make_server, number):
    with make_server() as server:
        for _ in range(3):
            server.process.send_signal(number)
        assert API(server.url, server.admin_key).uploaded(b"hello")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGHUP])
def test_signals_during_the_start_do_not_end_it(make_server, number):
    """A start that waits for a database, which is not there."""
    assert BINARY.exists()
    settings = {"SLUICE_DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "SLUICE_MASTER_SECRET": "A" * 43 + "="}
    server = make_server(environment=settings)
    waiting = threading.Thread(target=lambda: pytest.raises(AssertionError, server.start, timeout=8), daemon=True)
    waiting.start()
    until(lambda: server.log.exists() and "database" in server.log.read_text())
    process = server.process
    process.send_signal(number)
    lines = server.log.read_text().count("\n")
    # It goes on to try.
    until(lambda: server.log.read_text().count("\n") > lines)
    assert process.poll() is None
    process.terminate()
    waiting.join(20)
    server.process = None
