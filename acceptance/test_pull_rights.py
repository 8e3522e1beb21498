"""Who makes the gateway fetch from where: ranges of `pull.allow` are for keys that may upload.

Users reach them only by a setting.
"""

import pytest

from harness.aliyun_vod import Plain as ApsaraVOD
from harness.aliyun_vod import refusal
from harness.aliyun_vod import session as assumed
from harness.api import API, problem
from harness.daemon import free_port
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.vimeo import Plain as Vimeo
from harness.vod_api import SDK
from harness.wire import until

INSIDE = b"the page of a service inside"
KEYS = {"mint": ["mint"], "mint and upload": ["mint", "upload"], "admin": ["admin"]}


@pytest.fixture(scope="module")
def origin():
    with Origin() as one:
        one.add("/page.mp4", INSIDE)
        yield one


@pytest.fixture(scope="module", params=[False, True], ids=["by default", "by the setting"])
def server(request, tmp_path_factory):
    settings = {"SLUICE_PULL_ALLOW": "127.0.0.0/8, ::1", "SLUICE_PULL_ATTEMPTS": "1"}
    settings["SLUICE_PULL_ALLOW_USERS"] = str(request.param).lower()
    with ObjectServer(tmp_path_factory.mktemp("pulls") / "data", free_port(), environment=settings) as running:
        running.allows_users = request.param
        yield running


@pytest.fixture(scope="module")
def admin(server):
    return API(server.url, server.admin_key)


@pytest.fixture(scope="module")
def keys(server, admin):
    made = {name: admin.post("/v1/keys", {"name": name, "scopes": scopes}).json() for name, scopes in KEYS.items()}
    return {name: (document["id"], API(server.url, document["secret"])) for name, document in made.items()}


# An address is refused at once; a name, when it is known where it leads.
PLACES = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"]


def url_of(origin, place):
    return origin.url.replace("127.0.0.1", place) + "/page.mp4"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", KEYS)
def test_a_token_of_vimeo_reaches_what_its_key_may_and_users_may(server, keys, origin, name, place):
    key = keys[name][1]
    url = url_of(origin, place)
    direct = key.post("/v1/media/pull", {"url": url})
    if name == "mint":
        problem(direct, 403, "forbidden")
    may = server.allows_users and name != "mint"
    made = key.post("/v1/vimeo/tokens", {"subject": "bob", "scopes": ["upload"]}).json()
    client = Vimeo(server, made["access_token"])
    answer = client("POST", "/me/videos", json={"upload": {"approach": "pull", "link": url}})
    if answer.status_code == 400:
        assert not may, answer.text
        assert answer.json()["error_code"] == 2204
        return
    assert answer.status_code == 201, answer.text
    uri = answer.json()["uri"]
    wanted = "available" if may else "uploading_error"
    until(lambda: client("GET", uri).json()["status"] != "uploading")
    assert client("GET", uri).json()["status"] == wanted


@pytest.mark.parametrize("place", PLACES)
def test_a_session_of_apsaravideo_reaches_what_users_may(server, admin, origin, place):
    url = url_of(origin, place)
    for credentials, may in ((server.pair(), True), (assumed(server), server.allows_users)):
        vod = ApsaraVOD(server, credentials)
        if not may and place != "localhost":
            assert refusal(vod, "UploadMediaByURL", UploadURLs=url) == (400, "InvalidParameter")
            continue
        job = vod("UploadMediaByURL", UploadURLs=url)["UploadJobs"][0]["JobId"]

        def status(vod=vod, job=job):
            return vod("GetURLUploadInfos", JobIds=job)["URLUploadInfoList"][0]["Status"]

        until(lambda: status() in ("SUCCESS", "FAIL"))
        assert status() == ("SUCCESS" if may else "FAIL")


@pytest.mark.parametrize("place", PLACES)
def test_the_pair_of_the_gateway_reaches_all_in_the_api_of_tencent(server, origin, place):
    sdk = SDK(server)
    task = sdk("PullUpload", MediaUrl=url_of(origin, place))["TaskId"]
    until(lambda: sdk("DescribeTaskDetail", TaskId=task)["Status"] == "FINISH")


@pytest.mark.parametrize("what", ["key", "user"])
@pytest.mark.parametrize("ends_with_key", [False, True], ids=["by default", "revokeWithKey"])
def test_a_pull_that_waits_reaches_nothing_inside_after_a_revocation(make_server, ends_with_key, what):
    settings = {
        "SLUICE_PULL_ALLOW": "127.0.0.0/8",
        "SLUICE_PULL_ALLOW_USERS": "true",
        "SLUICE_PULL_RETRY_DELAY": "1500ms",
        "SLUICE_UPLOADS_REVOKE_WITH_KEY": str(ends_with_key).lower(),
    }
    server = make_server(environment=settings).start()
    admin = API(server.url, server.admin_key)
    made = admin.post("/v1/keys", {"name": "one", "scopes": ["mint", "upload"]}).json()
    key = API(server.url, made["secret"])
    with Origin() as origin:
        pages = [origin.add(path, INSIDE, statuses=[(503, {})]) for path in ("/rest", "/vimeo", "/other")]
        pulls = [key.post("/v1/media/pull", {"url": origin.url + "/rest", "subject": "bob"}).json()["id"]]
        token = key.post("/v1/vimeo/tokens", {"subject": "bob", "scopes": ["upload"]}).json()["access_token"]
        video = {"upload": {"approach": "pull", "link": origin.url + "/vimeo"}}
        assert Vimeo(server, token)("POST", "/me/videos", json=video).status_code == 201
        pulls += [one["id"] for one in admin.get("/v1/uploads?subject=bob").json()["uploads"] if one["id"] != pulls[0]]
        assert len(pulls) == 2
        other = admin.post("/v1/media/pull", {"url": origin.url + "/other", "subject": "carol"}).json()["id"]
        until(lambda: all(len(page.requests) == 1 for page in pages))
        if what == "key":
            assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
        else:
            assert admin.post("/v1/revocations", {"subject": "bob"}).status_code == 201
        for identifier in pulls:
            until(lambda one=identifier: admin.upload(one)["state"] == "terminated")
            assert admin.upload(identifier)["pull"]["lastError"]["code"] == "revoked"
        assert [len(page.requests) for page in pages[:2]] == [1, 1]
        until(lambda: admin.upload(other)["state"] == "completed")


def test_a_redirect_leads_nowhere_else(server, keys, origin):
    if server.allows_users:
        return
    client = Vimeo(server, keys["admin"][1].post("/v1/vimeo/tokens", {"subject": "bob"}).json()["access_token"])
    for link in ("http://127.0.0.1:1/x", "http://[::1]:1/x", "http://10.0.0.1/x", "http://localhost./x"):
        answer = client("POST", "/me/videos", json={"upload": {"approach": "pull", "link": link}})
        if answer.status_code == 201:
            uri = answer.json()["uri"]
            until(lambda uri=uri: client("GET", uri).json()["status"] == "uploading_error")
        else:
            assert answer.status_code == 400, link
