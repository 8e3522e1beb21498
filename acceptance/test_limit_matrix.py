"""Each limit of a grant and of a policy at each way in, generated: what fits is stored, what does not is refused in the
form of its dialect, and what is stored afterwards is within the limit, whatever was answered."""

from dataclasses import dataclass, field

import pytest

from harness import clock, ways
from harness.daemon import free_port
from harness.object_client import ObjectServer
from harness.origin import Origin
from harness.ways import BUCKET, COMPANION, File, Refused, World

PNG = b"\x89PNG\r\n\x1a\n" + bytes(92)
MP4 = b"\x00\x00\x00\x18ftypmp42" + bytes(88)
IMAGES = ["image/*"]
FIT = File(PNG)
LARGE = File(PNG + b"\0")
VIDEO = File(MP4, "a.mp4", "video/mp4")
# Which the name does not say.
LIE = File(MP4, "a.png", "video/mp4")
SETTINGS = {
    "SLUICE_OBJECT_BUCKETS": BUCKET,
    "SLUICE_PULL_ALLOW": "127.0.0.0/8",
    "SLUICE_PULL_ALLOW_USERS": "true",
    "SLUICE_TENCENT_APPLIES_PER_SECOND": "10000",
}


@dataclass
class Case:
    """A limit."""

    # Of the credential, and of the policy of its user.
    limits: dict = field(default_factory=dict)
    policy: dict = field(default_factory=dict)
    fits: tuple = (FIT,)
    breaks: tuple = (LARGE,)
    # Sent before; must fit.
    before: tuple = ()
    # What is stored afterwards.
    holds: object = None
    # What a client must say of a file for it to fit.
    needs: frozenset = frozenset()
    # Whether that is also needed for what does not fit.
    needs_always: bool = False

    def is_possible(self, way, kind):
        if not self.limits.keys() <= way.limits:
            return False
        return self.needs <= way.says or (kind == "breaks" and not self.needs_always)

    def sums(self, way):
        """The limits and the policy, with room for what goes with each file."""
        many = (len(self.before) + 1) * way.companions
        size = len(COMPANION.data)
        room = {"storedBytes": size, "periodBytes": size, "quota": size, "periodUploads": 1}

        def sum_of(values):
            return {name: value + many * room[name] if name in room else value for name, value in values.items()}

        return sum_of(self.limits), sum_of(self.policy)


def sizes(uploads):
    return [one["length"] for one in uploads]


def are_images(uploads):
    return all(one["metadata"].get("filetype", "").startswith("image/") for one in uploads)


def are_png(uploads):
    return all(one["metadata"].get("filename", "").endswith(".png") for one in uploads)


CASES = {
    "bytes": Case({"maxBytes": 100}, holds=lambda uploads: max(sizes(uploads), default=0) <= 100),
    "bytes by policy": Case(policy={"uploadBytes": 100}, holds=lambda uploads: max(sizes(uploads), default=0) <= 100),
    "stored": Case(policy={"storedBytes": 100}, holds=lambda uploads: sum(sizes(uploads)) <= 100),
    "stored in all": Case(
        policy={"storedBytes": 199},
        fits=(),
        breaks=(FIT,),
        before=(FIT,),
        holds=lambda uploads: sum(sizes(uploads)) <= 199,
    ),
    "quota": Case({"quota": 100}, holds=lambda uploads: sum(sizes(uploads)) <= 100),
    "quota in all": Case(
        {"quota": 199}, fits=(), breaks=(FIT,), before=(FIT,), holds=lambda uploads: sum(sizes(uploads)) <= 199
    ),
    "bytes of a period": Case(policy={"periodBytes": 100}, holds=lambda uploads: sum(sizes(uploads)) <= 100),
    "uploads at once": Case(policy={"openUploads": 0}, fits=(), breaks=(FIT,), holds=lambda uploads: not uploads),
    "uploads of a period": Case(
        policy={"periodUploads": 1},
        fits=(),
        breaks=(FIT, LARGE),
        before=(FIT,),
        holds=lambda uploads: len(uploads) <= 1,
    ),
    "types": Case({"contentTypes": IMAGES}, breaks=(VIDEO, LIE), holds=are_images, needs=frozenset({"type"})),
    "types by policy": Case(
        policy={"contentTypes": IMAGES}, breaks=(VIDEO, LIE), holds=are_images, needs=frozenset({"type"})
    ),
    "extensions": Case(
        policy={"extensions": ["png"]},
        breaks=(VIDEO, File(PNG, "a.png.exe"), File(PNG, "a.exe")),
        holds=are_png,
        needs=frozenset({"name"}),
    ),
    "content": Case(
        policy={"contentTypes": IMAGES, "checksContent": True},
        breaks=(File(MP4), File(b"%PDF-" + bytes(95))),
        holds=are_images,
        needs=frozenset({"type"}),
    ),
    "content as declared": Case(
        policy={"checksContent": True},
        breaks=(File(MP4), File(b"GIF89a" + bytes(94))),
        needs=frozenset({"type"}),
        needs_always=True,
    ),
    "one-time": Case(
        {"oneTime": True}, fits=(FIT,), breaks=(FIT, LARGE), before=(FIT,), holds=lambda uploads: len(uploads) <= 1
    ),
}


def rows():
    for way in ways.ALL:
        for name, case in CASES.items():
            if name in way.without:
                continue
            for kind, files in (("fits", case.fits), ("breaks", case.breaks)):
                for number, file in enumerate(files):
                    if case.is_possible(way, kind):
                        yield pytest.param(way, case, kind, file, id=f"{way.name}-{name}-{kind}-{number}")


ROWS = list(rows())
LATER = [
    *[pytest.param(way, "expiresIn", id=f"{way.name}-expiry") for way in ways.ALL if "expiresIn" in way.limits],
]
AGAIN = [
    pytest.param(way, file, id=f"{way.name}-again-{len(file.data)}")
    for way in ways.ALL
    # What is pulled has no address to send to.
    if type(way).again is not ways.Way.again and getattr(way, "kind", "") != "pull"
    for file in (File(MP4), File(PNG[::-1] + b"evil"))
]
SUBJECTS = [pytest.param(way, id=f"{way.name}-subject") for way in ways.ALL if "subject" in way.limits]
PREFIXES = [
    pytest.param(way, key, id=f"{way.name}-{key}")
    for way in ways.ALL
    if "prefix" in way.limits
    for key in ("elsewhere/a.png", "{subject}", "{subject}x/a.png", "../{subject}/a.png", "a.png", "{SUBJECT}/a.png")
]


def test_there_are_enough_rows():
    assert len(ROWS) + len(LATER) + len(AGAIN) + len(SUBJECTS) + len(PREFIXES) >= 600


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    origin = Origin()
    with ObjectServer(tmp_path_factory.mktemp("matrix") / "data", free_port(), SETTINGS) as server:
        yield World(server, origin)
    origin.close()


def files_of(world, subject):
    """What is stored of a user, but what goes with a file."""
    return [one for one in world.uploads(subject) if one["length"] != len(COMPANION.data)]


@pytest.mark.rows
@pytest.mark.parametrize(("way", "case", "kind", "file"), ROWS)
def test_a_limit_holds(world, way, case, kind, file):
    subject = f"u{world.next()}"
    limits, policy = case.sums(way)
    if policy:
        answer = world.api.request("PUT", f"/v1/quota/subjects/{subject}", json=policy)
        assert answer.status_code == 200, answer.text
    held = way.mint(world, subject, file, **limits)
    if kind == "breaks":
        for one in case.before:
            way.send(world, held, one)
        before = files_of(world, subject)
        with pytest.raises(Refused):
            way.send(world, held, file)
        assert files_of(world, subject) == before
    else:
        way.send(world, held, file)
        assert len(files_of(world, subject)) == 1
    uploads = files_of(world, subject)
    assert not case.holds or case.holds(uploads), uploads


@pytest.mark.parametrize(("way", "file"), AGAIN)
def test_a_completed_upload_is_replaced_only_by_those_who_may_write_there(world, way, file):
    subject = f"u{world.next()}"
    held = way.mint(world, subject, FIT)
    sent = way.send(world, held, FIT)
    [before] = files_of(world, subject)
    try:
        way.again(world, sent, file)
    except Refused:
        is_refused = True
    else:
        is_refused = False
    after = files_of(world, subject)
    if way.replaces:
        # As the vendors' stores do: the old object ends with an event, and the new one has its own digests.
        assert not is_refused
        assert len(after) == 1 and after[0]["id"] != before["id"] and after[0]["length"] == len(file.data)
    else:
        assert after == [before]
        assert world.api.get(f"/media/{before['id']}").content == PNG


@pytest.mark.parametrize("way", SUBJECTS)
def test_an_upload_belongs_to_the_user_of_its_credential(world, way):
    subject = f"u{world.next()}"
    before = world.api.get("/v1/uploads", params={"limit": 1}).json()["uploads"]
    way.send(world, way.mint(world, subject, FIT), FIT)
    since = world.api.get("/v1/uploads", params={"limit": 10}).json()["uploads"]
    known = [one["id"] for one in since].index(before[0]["id"]) if before else len(since)
    # What is copied was stored by somebody else.
    others = {None} if getattr(way, "kind", "").startswith("copy") else set()
    assert {one.get("subject") for one in since[:known]} == {subject} | others


@pytest.mark.parametrize(("way", "key"), PREFIXES)
def test_a_key_outside_the_prefix_is_refused(world, way, key):
    subject = f"u{world.next()}"
    held = way.mint(world, subject, FIT)
    with pytest.raises(Refused):
        way.send(world, held, FIT, key.format(subject=subject, SUBJECT=subject.upper()))
    assert world.uploads(subject) == []


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    """A gateway, and credentials that it minted three days before."""
    origin = Origin()
    data, port = tmp_path_factory.mktemp("expired") / "data", free_port()
    held = {}
    with ObjectServer(data, port, SETTINGS | clock.shifted(-3 * 86_400)) as server:
        early = World(server, origin)
        for way in ways.ALL:
            if "expiresIn" in way.limits:
                held[way.name] = way.mint(early, "dora", FIT, expiresIn=60)
    with ObjectServer(data, port, SETTINGS) as server:
        yield World(server, origin), held
    origin.close()


@pytest.mark.parametrize(("way", "limit"), LATER)
def test_nothing_is_stored_with_an_expired_credential(expired, way, limit):
    world, held = expired
    with pytest.raises(Refused):
        way.send(world, held[way.name], FIT)
    assert world.uploads("dora") == []
