"""Clients of Vimeo's API: PyVimeo in four versions, unmodified, and calls written by hand.

Each version of PyVimeo runs in a process of its own, because they have one name; only the API's root differs.
"""

import base64
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import requests

from harness.api import API
from harness.server import ROOT

VERSIONS = tuple((ROOT / "acceptance/pyvimeo.txt").read_text().split())
NEW, OLD = VERSIONS[:2], VERSIONS[2:]
# Users pull from this machine.
PULLS = {"SLUICE_PULL_ALLOW": "127.0.0.1", "SLUICE_PULL_ALLOW_USERS": "true"}
SCOPES = ["public", "private", "create", "edit", "delete", "upload"]


def token(server, subject="dora", **wanted):
    api = API(server.url, server.admin_key, verify=getattr(server, "authority", True))
    answer = api.post("/v1/vimeo/tokens", {"subject": subject, "scopes": SCOPES} | wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()["access_token"]


def pulled(version, link):
    """The members by which a version of PyVimeo asks for a video that is fetched (protocol notes §4.5, §5.2)."""
    return {"type": "pull", "link": link} if version in OLD else {"upload": {"approach": "pull", "link": link}}


class Failed(Exception):
    """What PyVimeo raised: the name of its class, and the status that it tells, if any."""

    def __init__(self, name, message, status):
        super().__init__(f"{name}: {message}")
        self.name = name
        self.status = status


# Answers each line of its input, with a client of its own.
PROGRAM = """
import json, sys
import vimeo
from vimeo.client import VimeoClient

def answer(wanted):
    VimeoClient.API_ROOT = wanted["root"]
    client = VimeoClient(**wanted["credentials"])
    results = []
    for name, arguments, options in wanted["calls"]:
        result = getattr(client, name)(*arguments, **options)
        if hasattr(result, "status_code"):
            is_json = "json" in result.headers.get("Content-Type", "")
            result = {"status": result.status_code, "json": result.json() if is_json and result.content else None}
        results.append(result)
    return {"results": results}

for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Exception as failure:
        status = getattr(failure, "status_code", None)
        said = {"failure": type(failure).__name__, "message": str(failure), "status": status}
    print(json.dumps(said), flush=True)
"""


def packages(version):
    """The folder with this version of PyVimeo; scripts/setup makes it."""
    return Path(sys.prefix) / f"pyvimeo-{version}"


class Process:
    """One with PyVimeo of one version, which ends with the process of the tests. A start costs more than most calls."""

    def __init__(self, version):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONPATH": str(packages(version))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def ask(self, wanted, timeout):
        end = threading.Timer(timeout, self.process.kill)
        end.start()
        try:
            self.process.stdin.write(json.dumps(wanted) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            end.cancel()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise AssertionError(f"PyVimeo ended with {self.process.returncode}: {self.errors.read()}")
        return json.loads(line)


# Those that do nothing, by version and by whom they trust.
IDLE = collections.defaultdict(list)


class PyVimeo:
    """PyVimeo of one version."""

    def __init__(self, server, version, token=None, key=None, secret=None):
        self.server = server
        self.version = version
        self.credentials = {"token": token, "key": key, "secret": secret}

    def calls(self, *calls, root=None, timeout=120):
        """The results of several calls: name, arguments, options."""
        idle = IDLE[self.version, os.environ.get("REQUESTS_CA_BUNDLE")]
        process = idle.pop() if idle else Process(self.version)
        wanted = {"root": root or self.server.url, "credentials": self.credentials, "calls": calls}
        answer = process.ask(wanted, timeout)
        idle.append(process)
        if "failure" in answer:
            raise Failed(answer["failure"], answer["message"], answer["status"])
        return answer["results"]

    def __getattr__(self, name):
        def call(*arguments, **options):
            return self.calls([name, arguments, options])[0]

        return call


class Plain:
    """Calls by hand, with every header as given."""

    def __init__(self, server, token=None, accept="application/vnd.vimeo.*+json;version=3.4"):
        self.server = server
        self.session = requests.Session()
        self.fields = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})

    def __call__(self, method, path, **options):
        url = path if path.startswith("http") else self.server.url + path
        headers = self.fields | options.pop("headers", {})
        return self.session.request(method, url, headers=headers, timeout=60, allow_redirects=False, **options)

    def create(self, size, approach="tus", **more):
        answer = self("POST", "/me/videos", json={"name": "N", "upload": {"approach": approach, "size": size}} | more)
        assert answer.status_code == (200 if approach == "tus" else 201), answer.text
        return answer.json()

    def ticket(self, **more):
        answer = self("POST", "/me/videos", json={"type": "streaming"} | more, headers={"Accept": "*/*"})
        assert answer.status_code == 201, answer.text
        assert answer.headers["Content-Type"] == "application/vnd.vimeo.uploadticket+json"
        return answer.json()


def basic(key, secret):
    return {"Authorization": "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()}


def upload_of(server, uri):
    """The upload of a video, as the gateway's own API tells it."""
    api = API(server.url, server.admin_key)
    page = {"limit": 200}
    while True:
        document = api.get("/v1/uploads", params=page).json()
        for upload in document["uploads"]:
            if upload["metadata"].get("vimeo_uri") == uri:
                return upload
        assert document.get("nextCursor"), f"{uri} is no upload"
        page["cursor"] = document["nextCursor"]


def stored(server, uri):
    """The bytes of a video, by the gateway's own API."""
    answer = API(server.url, server.admin_key).get(f"/media/{upload_of(server, uri)['id']}")
    assert answer.status_code == 200, answer.text
    return answer.content
