"""Times that others state: a client's clock does not decide about revocation, nor about the longest lifetime."""

import time
from datetime import UTC, datetime, timedelta

import pytest
import requests

from harness import clock
from harness.aliyun_vod import Plain as ApsaraVOD
from harness.api import API, field_problem
from harness.daemon import free_port
from harness.minted import Store
from harness.object_client import BUCKET, ObjectServer
from harness.ugc import own_signature
from harness.vimeo import Plain as Vimeo

DAYS = 86_400
LONGEST = 90 * DAYS


def apply(server, signature):
    body = {"signature": signature, "videoName": "v", "videoType": "mp4", "videoSize": 3}
    url = server.url + "/v3/index.php?Action=ApplyUploadUGC"
    return requests.post(url, json=body, timeout=60).json()


@pytest.fixture
def server(tmp_path):
    """A server for each test: a revocation also ends what states a later time, for as long as clocks may differ."""
    with ObjectServer(tmp_path / "data", free_port()) as running:
        yield running


@pytest.fixture
def admin(server):
    return API(server.url, server.admin_key)


@pytest.fixture
def pair(server):
    return server.pair()


def signed(pair, ahead, lifetime=600, **fields):
    begin = int(time.time()) + ahead
    return own_signature(pair, currentTimeStamp=begin, expireTime=begin + lifetime, **fields)


@pytest.mark.parametrize("by", ["subject", "time"])
@pytest.mark.parametrize("ahead", [0, 60, 300, 890])
def test_a_signature_from_a_clock_that_is_ahead_is_revoked_with_its_certificates(server, admin, pair, by, ahead):
    subject = f"{by}-{ahead}"
    signature = signed(pair, ahead, sluiceSubject=subject)
    applied = apply(server, signature)
    assert applied["code"] == 0, applied
    given = applied["data"]["tempCertificate"]
    store = Store(server.object_url, (given["secretId"], given["secretKey"]), given["token"])
    data = applied["data"]
    path = f"/{data['storageBucket']}-{data['storageAppId']}{data['video']['storagePath']}"
    assert store("HEAD", path).status_code == 404
    # The signature has whole seconds.
    time.sleep(1.1)
    body = {"subject": subject} if by == "subject" else {"issuedBefore": datetime.now(UTC).isoformat()}
    assert admin.post("/v1/revocations", body).status_code == 201
    assert apply(server, signature)["code"] == 10004
    assert store("HEAD", path).status_code in (400, 403)
    # What is signed from now on is good again.
    time.sleep(1.1)
    assert apply(server, signed(pair, 0, sluiceSubject=subject))["code"] == 0


def test_a_signature_cannot_begin_in_the_future_or_last_longer_by_it(server, pair):
    assert apply(server, signed(pair, 0, LONGEST - 5))["code"] == 0
    for ahead, lifetime in ((910, 600), (DAYS, 600), (3650 * DAYS, 600), (300, LONGEST), (800, LONGEST)):
        answer = apply(server, signed(pair, ahead, lifetime))
        assert answer["code"] == 10004, (ahead, lifetime, answer)
    # And so are those that the gateway signs.
    api = API(server.url, server.admin_key)
    for ahead in (1000, DAYS, 89 * DAYS):
        begin = int(time.time()) + ahead
        field_problem(api.post("/v1/tencent/signatures", {"currentTimeStamp": begin}), "currentTimeStamp")


def test_the_setting_bounds_what_is_accepted(tmp_path):
    settings = {"SLUICE_LIMITS_CLOCK_SKEW": "30s"}
    with ObjectServer(tmp_path / "data", free_port(), environment=settings) as server:
        pair = server.pair()
        assert apply(server, signed(pair, 20))["code"] == 0
        assert apply(server, signed(pair, 60))["code"] == 10004
        vod = ApsaraVOD(server)
        for seconds, status in ((0, 200), (20, 200), (-20, 200), (60, 400), (-60, 400)):
            when = datetime.now(UTC) + timedelta(seconds=seconds)
            assert vod.answer("SearchMedia", when=when).status_code == status, seconds


class Handed:
    """Everything that a server mints for one user."""

    def __init__(self, server, subject):
        api = API(server.url, server.admin_key)
        self.server = server
        self.token = api.post("/v1/tus/tokens", {"subject": subject, "expiresIn": 604800}).json()["token"]
        self.vimeo = api.post("/v1/vimeo/tokens", {"subject": subject}).json()["access_token"]
        about = {"subject": subject, "bucket": BUCKET, "keyPrefix": f"{subject}/", "expiresIn": 129_600}
        given = api.post("/v1/sts/tokens", about).json()["Credentials"]
        self.session = (given["AccessKeyId"], given["SecretAccessKey"]), given["SessionToken"]
        media = api.post("/v1/tus/uploads", {"length": 0, "subject": subject}).json()["id"]
        self.link = api.post(f"/v1/media/{media}/links", {"expiresIn": 604800}).json()["url"]
        wanted = {"subject": subject, "expiresIn": 604800}
        self.signature = api.post("/v1/tencent/signatures", wanted).json()["signature"]

    def works(self):
        pair, token = self.session
        link = self.server.url + "/media/" + self.link.partition("/media/")[2]
        return {
            "token": API(self.server.url, self.token).create(1).status_code == 201,
            "vimeo": Vimeo(self.server, self.vimeo)("GET", "/me").status_code == 200,
            "session": Store(self.server.object_url, pair, token)("PUT", f"/{BUCKET}/late/x", b"1").status_code == 200,
            "link": requests.get(link, timeout=10).status_code == 200,
            "signature": apply(self.server, self.signature)["code"] == 0,
        }


@pytest.mark.parametrize("ahead", [600, DAYS])
@pytest.mark.parametrize("body", [{"subject": "late"}, None], ids=["subject", "time"])
def test_what_was_minted_while_the_clock_was_ahead_is_revoked(tmp_path, ahead, body):
    right = ObjectServer(tmp_path / "data", free_port())
    usual = dict(right.environment)
    right.environment |= clock.shifted(ahead)
    with right:
        handed = Handed(right, "late")
        works = handed.works()
        # The client's own clock is right: its requests are too old for a server that is a day ahead.
        assert works.pop("session") == (ahead < 900) and all(works.values()), works
    right.environment = usual
    with right:
        if ahead < 900:
            assert all(handed.works().values()), handed.works()
        revocation = body or {"issuedBefore": datetime.now(UTC).isoformat()}
        assert API(right.url, right.admin_key).post("/v1/revocations", revocation).status_code == 201
        assert not any(handed.works().values()), handed.works()
        # What is minted from now on is good.
        time.sleep(1.1)
        assert all(Handed(right, "late").works().values())
