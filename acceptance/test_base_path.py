"""The gateway below a path of an existing host: routes, URLs, and real proxies that pass the path on or remove it."""

import json
import re
import subprocess
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from tusclient.client import TusClient

from harness.aliyun_vod import Plain as Aliyun
from harness.api import API, TUS, path_of, problem, upload_id
from harness.data import KIB, MIB, content, sha256
from harness.draft import Client
from harness.http_server import LocalServer
from harness.openapi import DOCUMENT, parse
from harness.origin import Origin
from harness.proxies import APP, PROXIES, Proxy, check_events, check_resuming
from harness.receiver import Receiver
from harness.server import Server, run
from harness.tools import tool
from harness.ugc import announced, signer
from harness.vimeo import NEW, PyVimeo, token
from harness.wire import Wire, until

BASE = "/uploads"
SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
OPERATIONS = ("/healthz", "/readyz", "/metrics")
OUTSIDE = f"nothing is served at this path; all paths begin with {BASE}"


@pytest.fixture(scope="module")
def receiver():
    with Receiver(SECRET) as one:
        yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory, receiver):
    """A gateway with the base path, and no proxy."""
    settings = {
        "SLUICE_GATEWAY_BASE_PATH": BASE,
        "SLUICE_OBJECT_LISTEN": "127.0.0.1:0",
        "SLUICE_HOOKS_URL": receiver.url,
        "SLUICE_HOOKS_SECRET": SECRET,
        "SLUICE_HOOKS_EVENTS": "pre-create",
        "SLUICE_PULL_ALLOW": "127.0.0.1",
        "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
    }
    with Server(tmp_path_factory.mktemp("server") / "data", environment=settings) as running:
        assert running.url.endswith(BASE)
        yield running


@pytest.fixture(scope="module")
def api(server):
    return API(server.url, server.admin_key)


def root_of(server):
    """The URL of the listener itself."""
    return f"http://127.0.0.1:{server.port}"


# Routes


def operations():
    for path, item in DOCUMENT["paths"].items():
        for method in item.keys() & {"get", "head", "post", "put", "patch", "delete"}:
            yield method.upper(), re.sub(r"\{\w+\}", "x", path)


@pytest.mark.parametrize("method,path", sorted(operations()))
def test_every_route_is_below_the_path_only(server, method, path):
    # The APIs of clouds are told apart by their parameters.
    query = "?Action=DescribeMediaInfos" if path == "/" else ""

    def ask(url):
        return requests.request(method, url + query, timeout=20, stream=True)

    with ask(server.url + path) as below:
        if method != "HEAD":
            assert below.status_code != 404 or "nothing is served" not in below.text
    with ask(root_of(server) + path) as outside:
        if path in OPERATIONS:
            assert outside.status_code == below.status_code != 404
        else:
            assert outside.status_code == 404
            assert method == "HEAD" or problem(outside, 404, "not_found")["detail"] == OUTSIDE


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/healthz/",
        "//healthz",
        "/healthz/../v1/uploads",
        "/v1/uploads",
        "//uploads/v1/uploads",
        "///uploads/v1/uploads",
        "/uploads;x/v1/uploads",
        "/uploadsx/v1/uploads",
        "/Uploads/v1/uploads",
        "/uploads%2Fv1/uploads",
        "/uploads%2Fv1%2Fuploads",
        "/%2Fuploads/v1/uploads",
        "/uploads%20/v1/uploads",
        "/%2575ploads/v1/uploads",
        "/./uploads/v1/uploads",
        "/x/../uploads/v1/uploads",
        "/x/%2e%2e/uploads/v1/uploads",
        "/..%2fuploads/v1/uploads",
        "\\uploads\\v1\\uploads",
        "/%5Cuploads/v1/uploads",
        "http://uploads/v1/uploads",
        "http://127.0.0.1/v1/uploads",
        # Below it, and no route.
        "/uploads//v1/uploads",
        "/uploads/../v1/uploads",
        "/uploads/%2e%2e/v1/uploads",
        "/uploads/uploads/v1/uploads",
        "/uploads/%2Fv1/uploads",
    ],
)
def test_nothing_leads_around_the_path(server, target):
    with Wire(server.address) as wire:
        wire.request("GET", target, [("Authorization", f"Bearer {server.admin_key}")])
        reply = wire.reply("GET")
        document = json.loads(reply.body) if reply.body else {}
        if target.startswith("\\"):
            assert reply.status == 400
            return
        assert (reply.status, reply["Content-Type"]) == (404, "application/problem+json")
        assert document["code"] == "not_found" and document["requestId"] == reply["X-Request-ID"]


@pytest.mark.parametrize(
    "target", ["/uploads/v1/uploads", "/%75ploads/v1/uploads", "http://a.example/uploads/v1/uploads"]
)
def test_the_same_path_written_in_another_way(server, target):
    with Wire(server.address) as wire:
        wire.request("GET", target, [("Authorization", f"Bearer {server.admin_key}")])
        assert wire.reply("GET").status == 200


def test_options(server):
    """For the whole server, a resource, and a path outside."""
    with Wire(server.address) as wire:
        wire.request("OPTIONS", "*")
        reply = wire.reply("OPTIONS")
        assert reply.status == 204 and "POST" in reply["Allow"]
    origin = {"Origin": "https://page.example", "Access-Control-Request-Method": "PATCH"}
    preflight = requests.options(f"{server.url}/files/x", headers=origin, timeout=20)
    assert preflight.ok and "PATCH" in preflight.headers["Access-Control-Allow-Methods"]
    assert requests.options(f"{server.url}/files", headers=TUS, timeout=20).headers["Tus-Version"] == "1.0.0"
    outside = requests.options(f"{root_of(server)}/files", headers=origin, timeout=20)
    problem(outside, 404, "not_found")
    # A page can read why.
    assert outside.headers["Access-Control-Allow-Origin"]


def test_refusals_keep_the_form_of_their_protocol(make_server):
    limits = {"REQUESTS_PER_SECOND": "1", "BURST": "3", "EXEMPT": ""}
    settings = {f"SLUICE_LIMITS_ADDRESS_{name}": value for name, value in limits.items()}
    with make_server(environment=settings | {"SLUICE_GATEWAY_BASE_PATH": BASE}) as server:

        def last(source, path):
            with requests.Session() as session:
                session.mount("http://", From(source))
                for _ in range(20):
                    answer = session.post(root_of(server) + path, headers=TUS, timeout=20)
                    if answer.status_code == 429:
                        return answer
            raise AssertionError("no request was refused")

        assert last("127.0.0.2", f"{BASE}/files").text.startswith("ERR_TOO_MANY_REQUESTS: ")
        problem(last("127.0.0.3", "/files"), 429, "too_many_requests")


class From(requests.adapters.HTTPAdapter):
    """Connections from an address of the loopback network."""

    def __init__(self, source):
        self.source = source
        super().__init__()

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, source_address=(self.source, 0), **options)


# URLs in responses


def test_uploads(server, api, receiver):
    """tus, the draft, forms, tokens, links and pulls: each URL begins with the path, and works."""
    data = content(100 * KIB, 1)
    url = api.created(len(data))
    assert url.startswith(f"{server.url}/files/")
    # Hooks get what the client sent.
    assert receiver.of("pre-create")[-1].request["URI"] == f"{BASE}/files"
    assert api.patch(url, 0, data).status_code == 204
    media = api.get(f"/v1/media/{upload_id(url)}").json()
    assert media["url"] == f"{server.url}/media/{upload_id(url)}"
    assert api.get(media["url"]).content == data
    link = api.post(f"/v1/media/{media['id']}/links", {"expiresIn": 60}).json()["url"]
    assert link.startswith(media["url"] + "?") and requests.get(link, timeout=20).content == data

    minted = api.post("/v1/tus/tokens", {"subject": "dora"}).json()
    assert minted["endpoint"] == f"{server.url}/files"
    created = api.post("/v1/tus/uploads", {"length": 5})
    assert created.headers["Location"] == created.json()["url"]
    assert created.json()["url"].startswith(f"{server.url}/files/")

    form = api.request("POST", "/files", files={"file": ("a.txt", data)})
    assert form.status_code == 201, form.text
    (url,) = [one["url"] for one in form.json()["media"]]
    assert url.startswith(f"{server.url}/media/") and api.get(url).content == data
    put = api.request("PUT", "/v1/media/a.txt", data=data)
    assert put.headers["Location"] == put.json()["url"] and put.json()["url"].startswith(f"{server.url}/media/")

    with Origin() as origin:
        origin.add("/a", b"hello")
        pulled = api.post("/v1/media/pull", {"url": f"{origin.url}/a"})
        assert pulled.headers["Location"] == f"{server.url}/v1/uploads/{pulled.json()['id']}"
        until(lambda: api.get(pulled.headers["Location"]).json()["state"] == "completed")


@pytest.mark.parametrize("version", [3, 8, None])
def test_the_draft(server, api, version):
    data = content(MIB, 2)
    client = Client(server, version)
    interim, reply = client.create(data[: MIB // 2], False, path=f"{BASE}/files")
    urls = [reply["Location"], *(one["Location"] for one in interim if one["Location"])]
    # This client sends no port.
    assert reply.status == 201 and all(url.startswith(f"http://127.0.0.1{BASE}/files/") for url in urls)
    assert client.offset(reply["Location"]) == (MIB // 2, False)
    last = client.append(reply["Location"], MIB // 2, data[MIB // 2 :], True)
    assert last.status in (200, 201, 204)
    assert api.download_hash(upload_id(reply["Location"])) == (sha256(data), MIB)


def test_concatenation(api, server):
    """The URLs of parts are those that clients got, absolute or as paths."""
    parts = [content(10, 3), content(10, 4)]
    urls = []
    for part in parts:
        url = api.created(len(part), headers={"Upload-Concat": "partial"})
        assert api.patch(url, 0, part).status_code == 204
        urls.append(url)
    joined = api.created(None, headers={"Upload-Concat": f"final;{urls[0]} {path_of(urls[1])}"})
    assert joined.startswith(f"{server.url}/files/")
    assert api.get(f"/media/{upload_id(joined)}").content == b"".join(parts)


def test_vimeo(server, api, tmp_path):
    """PyVimeo with the path in its API's root; `uri` members are relative to this root, as those of Vimeo are."""
    data = content(300 * KIB, 5)
    (tmp_path / "clip.mp4").write_bytes(data)
    client = PyVimeo(server, NEW[0], token=token(server))
    uri = client.upload(str(tmp_path / "clip.mp4"), data={"name": "clip"})
    assert re.fullmatch(r"/videos/\d+", uri)
    video, page, ticket = client.calls(
        ["get", [uri], {}],
        ["get", ["/me/videos?per_page=1"], {}],
        ["post", ["/me/videos"], {"data": {"upload": {"approach": "tus", "size": 5}}}],
    )
    assert video["json"]["upload"]["status"] == "complete"
    assert page["json"]["paging"]["first"] == "/me/videos?page=1&per_page=1"
    assert ticket["json"]["upload"]["upload_link"].startswith(f"{server.url}/vimeo/files/")
    form = client.post(
        "/me/videos", data={"upload": {"approach": "post", "size": 5, "redirect_url": "https://a.example"}}
    )
    assert f'action="{server.url}/vimeo/videos/' in form["json"]["upload"]["form"]


def test_a_lenient_head_below_the_path(server):
    """Old clients of Vimeo send lengths with a fraction; that is allowed where their bytes go, and nowhere else."""
    for path, status in [(f"{BASE}/vimeo/videos/x", None), (f"{BASE}/files", 400), ("/vimeo/videos/x", 400)]:
        with Wire(server.address) as wire:
            wire.request("PUT", path, [("Content-Length", "0.0")])
            assert (wire.reply("PUT").status == 400) == (status == 400), path


def test_tencent_and_aliyun(server, api):
    """The calls of SDKs for apps, and those of app servers at the path itself."""
    signature = signer(server)()
    body = announced(5) | {"signature": signature}
    reply = requests.post(f"{server.url}/v3/index.php?Action=ApplyUploadUGC", json=body, timeout=20)
    assert reply.json()["code"] == 0, reply.text
    # Object storage is at its own listener, without the path.
    minted = api.post("/v1/presigned-urls", {"subject": "d", "bucket": "uploads", "key": "d/a"}).json()
    assert minted["url"].startswith(f"{server.object_url}/uploads/d/a?")
    assert requests.put(minted["url"], data=b"hello", headers=minted.get("headers"), timeout=20).status_code == 200
    call = Aliyun(server)
    video = {"FileName": "a.mp4", "Title": "a"}
    assert call("CreateUploadVideo", **video)["UploadAddress"]
    # `/uploads` is the same as `/uploads/`.
    signed = call.answer("CreateUploadVideo", video).request.url.replace(f"{BASE}/?", f"{BASE}?")
    assert requests.post(signed, timeout=20).json()["Code"] == "SignatureNonceUsed"


def test_the_description_names_the_server(server, make_server):
    def servers(url, **options):
        return parse(requests.get(f"{url}/openapi.yaml", timeout=20, **options).content)["servers"]

    assert servers(server.url) == [{"url": server.url}]
    assert servers(server.url, headers={"Host": "a.example"}) == [{"url": f"http://a.example{BASE}"}]
    with make_server() as plain:
        assert servers(plain.url) == DOCUMENT["servers"]
    with make_server(environment={"SLUICE_PUBLIC_URL": "https://app.example/x"}) as named:
        assert servers(named.url) == [{"url": "https://app.example/x"}]


def test_the_public_url_has_the_last_word(make_server):
    """Without a path, the base path follows it. Its own path stands alone, for proxies that replace the path."""
    for public, expected in [
        ("https://app.example", f"https://app.example{BASE}"),
        (f"https://app.example{BASE}", f"https://app.example{BASE}"),
        ("https://app.example/media/in", "https://app.example/media/in"),
    ]:
        settings = {"SLUICE_GATEWAY_BASE_PATH": BASE, "SLUICE_PUBLIC_URL": public}
        with make_server(environment=settings) as server:
            url = API(server.url, server.admin_key).created(1)
            assert url.startswith(f"{expected}/files/")


def test_a_proxy_does_not_choose_the_prefix(server, api):
    """The peer is a trusted proxy; no standard defines the field, so it may come from a client."""
    for name in ("X-Forwarded-Prefix", "X-Forwarded-Path", "X-Script-Name"):
        url = api.created(1, headers={name: "/evil"})
        assert url.startswith(f"{server.url}/files/")


# Operators


def test_the_first_commands_work(make_server):
    """The curl lines that are printed at the first start."""
    with make_server(environment={"SLUICE_GATEWAY_BASE_PATH": BASE}, admin_key=None) as server:
        text = server.wait_for_output(r"(?m)^  echo .*\n.*\n  curl .*$")[0]
        upload, signature = (line.strip() for line in text.splitlines()[::2])
        for command, path, member in (
            (upload, "/v1/media/hello.txt", "id"),
            (signature, "/v1/tencent/signatures", "signature"),
        ):
            assert f":{server.port}{BASE}{path}" in command
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
            assert json.loads(done.stdout)[member]


def test_health_and_doctor(make_server):
    """They ask the gateway without a proxy."""
    with make_server(environment={"SLUICE_GATEWAY_BASE_PATH": BASE}) as server:
        settings = server.environment | {"SLUICE_GATEWAY_LISTEN": f"127.0.0.1:{server.port}"}
        assert run("health", environment=settings).stdout == "ok\n"
        assert "it runs and is ready" in run("doctor", environment=settings, check=False).stdout
        warned = settings | {"SLUICE_PUBLIC_URL": "http://app.example/other"}
        text = run("doctor", environment=warned, check=False).stdout
        assert f"requests are served below {BASE}" in text


@pytest.mark.parametrize("path", ["uploads", "/up loads", "/up//loads", "/../x", "/%75", "https://a.example/x", "/a?b"])
def test_a_path_that_is_none_is_refused(path):
    done = run("check", environment={"SLUICE_GATEWAY_BASE_PATH": path}, check=False)
    assert done.returncode != 0 and "gateway.basePath" in done.stdout + done.stderr


# Behind proxies


@pytest.fixture(scope="module", params=["nginx passes", "nginx strips", "haproxy passes", "haproxy strips"])
def front(request, tmp_path_factory):
    """A gateway below a path of an app's host, with the settings that the file of the proxy asks for."""
    kind, does = request.param.split()
    folder = tmp_path_factory.mktemp("front")
    settings = {"SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
    if does == "passes":
        settings |= {"SLUICE_GATEWAY_BASE_PATH": BASE, "SLUICE_PUBLIC_URL": f"https://{APP}"}
    else:
        settings |= {"SLUICE_PUBLIC_URL": f"https://{APP}{BASE}"}
    # The app that has the host for itself so far.
    app = LocalServer(lambda request: request.respond(content=b"app"))
    with app, Server(folder / "data", environment=settings) as server:
        node = (server.port, server.port)
        strips = does == "strips"
        with Proxy(f"{kind}_path", folder / "proxy", [node] * 3, app=app.port, strips=strips) as proxy:
            api = API(f"https://{APP}{BASE}", server.admin_key, verify=str(proxy.authority))
            until(lambda: api.get("/healthz").status_code == 200, timeout=30)
            yield SimpleNamespace(kind=kind, strips=strips, server=server, proxy=proxy, api=api)


def test_the_app_keeps_its_host(front):
    for path in ("/", "/files", "/healthz", "/uploadsx", "/v1/uploads"):
        assert front.api.get(f"https://{APP}{path}").text == "app", path
    for path in ("/metrics", "/readyz"):
        assert front.api.get(path).status_code == 404, path


def test_tuspy(front, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(front.proxy.authority))
    data = content(3 * MIB, 10)
    path = front.server.data.parent / "tuspy.bin"
    path.write_bytes(data)
    client = TusClient(f"{front.api.url}/files", headers={"Authorization": f"Bearer {front.server.admin_key}"})
    uploader = client.uploader(str(path), chunk_size=MIB)
    uploader.upload_chunk()
    assert uploader.url.startswith(f"https://{APP}{BASE}/files/")
    # Another process goes on, with nothing but the URL.
    client.uploader(str(path), url=uploader.url, chunk_size=MIB).upload()
    assert front.api.download_hash(upload_id(uploader.url)) == (sha256(data), len(data))


def test_minting_by_curl(front):
    command = [
        tool("curl", "curl"),
        *("-sS", "--fail-with-body", "--cacert", front.proxy.authority),
        *("--connect-to", f"{APP}:443:127.0.0.1:{front.proxy.https}"),
        *("-H", f"Authorization: Bearer {front.server.admin_key}"),
    ]

    def curl(*arguments):
        done = subprocess.run([*command, *arguments], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    minted = json.loads(curl("--json", '{"subject": "dora"}', f"{front.api.url}/v1/tus/tokens"))
    assert minted["endpoint"] == f"{front.api.url}/files"
    assert json.loads(curl("-X", "POST", f"{front.api.url}/v1/tencent/signatures"))["signature"]
    data = content(MIB, 11)
    path = front.server.data.parent / "curl.bin"
    path.write_bytes(data)
    (sent,) = json.loads(curl("-F", f"file=@{path}", minted["endpoint"]))["media"]
    assert sent["url"] == f"{front.api.url}/media/{sent['id']}"
    assert curl(sent["url"]) == data


def test_an_upload_that_breaks_off(front):
    check_resuming(Wire((APP, 443), context=front.proxy), APP, front.api, front.api)


def test_events_arrive_at_once(front):
    check_events(front.api)


def test_a_download_link(front):
    identifier = front.api.uploaded(content(KIB, 13))
    url = front.api.post(f"/v1/media/{identifier}/links", {"expiresIn": 60}).json()["url"]
    assert url.startswith(f"{front.api.url}/media/{identifier}?") and dict(parse_qsl(urlsplit(url).query))["signature"]
    assert front.api.get(url, key=None).content == content(KIB, 13)


def test_a_client_cannot_leave_the_path(front):
    """The gateway sees the path as the proxy does, or refuses it."""
    key = ("Authorization", f"Bearer {front.server.admin_key}")
    for rest in ("/../v1/uploads", "/%2e%2e/v1/uploads", "//v1/uploads", "/..%2fv1/uploads"):
        target = BASE + rest
        with Wire((APP, 443), context=front.proxy) as wire:
            wire.request("GET", target, [("Host", APP), key])
            reply = wire.reply("GET")
            # nginx resolves the dots itself, and may join slashes; then the app is asked, or the same route.
            assert reply.status in (400, 404) or reply.body == b"app" or b'"uploads"' in reply.body and "//" in target


def test_interim_responses(front):
    """Their URLs have the path as well, where a proxy passes them on."""
    data = content(MIB, 14)
    with Wire((APP, 443), context=front.proxy) as wire:
        key = ("Authorization", f"Bearer {front.server.admin_key}")
        fields = [("Host", APP), key, ("Upload-Draft-Interop-Version", "8"), ("Upload-Complete", "?1")]
        wire.request("POST", f"{BASE}/files", fields, data)
        reply = wire.reply("POST")
        assert reply.status == 201 and json.loads(reply.body)["url"].startswith(f"{front.api.url}/media/")


def test_the_environment_is_the_documented_one():
    """The settings above are those that the first lines of the files name."""
    for name in ("nginx/sluice-path.conf", "haproxy/haproxy-path.cfg"):
        text = (PROXIES / name).read_text()
        assert f"SLUICE_GATEWAY_BASE_PATH={BASE}, SLUICE_PUBLIC_URL=https://{APP}" in text
        assert f"SLUICE_PUBLIC_URL=https://{APP}{BASE}" in re.sub(r"\s*\n\s*#\s*", " ", text)
