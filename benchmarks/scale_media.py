"""Times calls of the video services to two gateways in turns: one has many media in its state, the other few.

Run it by `benchmarks/scale --media N`. Nothing is asserted about time.
"""

import base64
import datetime
import hashlib
import hmac
import json
import subprocess
import time
import uuid
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from common import KEY
from processes import environment_with
from servers import BINARY

WITHOUT_TERMS = "SELECT count(*) FROM dialect_record WHERE terms_version IS NULL OR terms_version <> version"
FEW_MEDIA = 1000
# Of each user, and with each tag, category, class, status and beginning of a name that is searched for.
EACH = 1000
# Of media that began in turns of a second, those of the time that is searched for.
SECONDS = 500
APPLICATION = 1_500_000_000


def vimeo_prefix(subject):
    digest = hashlib.sha256(f"vimeo user {subject}".encode()).digest()
    return f"{int.from_bytes(digest[:8]) & (2**53 - 1) | 1:016}"


def filling(media, begin):
    """SQL for both databases: media of each service, as a version wrote it that knew no terms.

    The gateway adds them, as after an upgrade.
    """
    groups = media // EACH
    users = ", ".join(f"({number}, '{vimeo_prefix(f'user{number}')}')" for number in range(groups))
    created = f"({begin} + i * 1000)"
    group = f"(i % {groups})"
    content = f"""CASE WHEN {group} = 0 THEN '' ELSE ',"content":{{"objectID":"o","size":5,"storedAt":1}}' END"""

    def padded(number, length):
        return f"substr('{'0' * length}' || {number}, length('{'0' * length}' || {number}) - {length - 1})"

    identifier = padded("i", 32)
    aliyun = f"""
        '{{"id":"' || {identifier} || '","kind":"video","application":"app-1000000","subject":"user' || {group}
        || '","bucket":"outin-sluice","key":"app-1000000/sv/' || {identifier} || '.mp4","fileName":"clip.mp4",'
        || '"suffix":"mp4","labels":{{"title":"Clip ' || i || '","description":"","coverURL":"","categoryIDs":['
        || {group} || '],"tags":["all","tag' || {group} || '"]}},"modifiedAt":1,"openUntil":1,"isDeleted":false'
        || {content} || '}}'
    """
    tencent = f"""
        '{{"fileID":"' || (387702290000000000 + i) || '","owner":{{"application":{APPLICATION},"subject":"user'
        || {group} || '"}},"bucket":"vod-1250000000","region":"ap-guangzhou","source":"ServerUpload","video":{{'
        || '"key":"k' || i || '","name":"clip","type":"mp4","size":5}},"replacedCovers":[],"labels":{{"classID":'
        || {group} || '}},"name":"' || {padded(group, 4)} || ' clip","description":"","tags":["all","tag' || {group}
        || '"],"isDeleted":false}}'
    """
    vimeo = f"""
        '{{"id":' || i || ',"subject":"user' || {group} || '","principal":"token","labels":{{"name":"Clip",'
        || '"view":"anybody","embed":"public","comments":"anybody","canDownload":false,"canAdd":true,'
        || '"contentRating":[]}},"approach":"tus","metadata":{{}},'
        || '"isTicket":false,"countsInclusively":false,"modifiedAt":{int(time.time())}}}'
    """
    numbers = f"WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {media})"
    columns = "INSERT INTO dialect_record (kind, key, text, version, created_at)"
    yield f"{columns} {numbers} SELECT 'aliyun media', {identifier}, {aliyun}, 1, {created} FROM number"
    yield f"""
        {columns} {numbers}
        SELECT 'tencent media', '{APPLICATION}/' || (387702290000000000 + i), {tencent}, 1, {created} FROM number
    """
    yield f"""
        {columns} {numbers}, owner (name, prefix) AS (VALUES {users})
        SELECT 'vimeo video', prefix || '/' || {padded("(9999999999999999 - i)", 16)}, {vimeo}, 1, {created}
        FROM number JOIN owner ON owner.name = {group}
    """


def command(environment, *arguments):
    return subprocess.run(
        [BINARY, *arguments],
        env=environment_with(environment),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


class Caller:
    """Signs and sends calls to one gateway; each returns its seconds."""

    def __init__(self, subject, media, begin):
        self.subject = subject
        self.media, self.groups, self.begin = media, media // EACH, begin
        self.removed = 0
        self.pair = self._pair("key_" + hashlib.sha256(KEY.encode()).digest()[:8].hex())
        printed = json.loads(command(subject.environment, "credentials", "tencent"))
        self.tencent_pair = printed["secretId"], printed["secretKey"]

    def _pair(self, key):
        printed = command(self.subject.environment, "keys", "pair", key)
        return [line.partition("=")[2] for line in printed.splitlines()]

    def _timed(self, method, path, fields, content, status=200):
        connection = self.subject.connection
        request = connection.request(method, path, fields, content)
        begin = time.perf_counter()
        connection.send((request, status))
        return time.perf_counter() - begin

    def aliyun(self, action, **parameters):
        now = datetime.datetime.now(datetime.UTC)
        parameters |= {
            "Action": action,
            "Version": "2017-03-21",
            "AccessKeyId": self.pair[0],
            "SignatureMethod": "HMAC-SHA1",
            "SignatureVersion": "1.0",
            "SignatureNonce": uuid.uuid4().hex,
            "Timestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        line = urlencode(sorted(parameters.items()), quote_via=quote, safe="~")
        text = f"POST&%2F&{quote(line, safe='~')}"
        signature = base64.b64encode(hmac.digest(f"{self.pair[1]}&".encode(), text.encode(), "sha1")).decode()
        return self._timed("POST", f"/?{line}&Signature={quote(signature, safe='')}", {}, b"")

    def tencent(self, action, **parameters):
        body = json.dumps(parameters).encode()
        now = int(time.time())
        host = self.subject.connection.host
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        scope = f"{day}/vod/tc3_request"
        digest = hashlib.sha256(body).hexdigest()
        canonical = f"POST\n/\n\ncontent-type:application/json\nhost:{host}\n\ncontent-type;host\n{digest}"
        text = f"TC3-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"TC3{self.tencent_pair[1]}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        fields = {
            "Content-Type": "application/json",
            "X-TC-Action": action,
            "X-TC-Version": "2018-07-17",
            "X-TC-Timestamp": now,
            "Authorization": f"TC3-HMAC-SHA256 Credential={self.tencent_pair[0]}/{scope}, "
            f"SignedHeaders=content-type;host, Signature={signature}",
        }
        return self._timed("POST", "/", fields, body)

    def search(self, match):
        return self.aliyun("SearchMedia", Match=match)

    def created(self):
        """The bounds of the searched time."""
        first = self.begin // 1000 + self.media // 2
        return [
            datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for second in (first, first + SECONDS)
        ]

    def time(self):
        first, last = self.created()
        return self.search(f"CreationTime=['{first}','{last}')")

    def tencent_time(self):
        first, last = self.created()
        return self.tencent("SearchMedia", CreateTime={"After": first, "Before": last})

    def remove(self):
        # The newest ones; a search by time is in the middle.
        self.removed += 1
        return self.aliyun("DeleteVideo", VideoIds=f"{self.media - self.removed:032}")

    def list(self, page):
        fields = {"Authorization": f"Bearer {self.vimeo_token}"}
        return self._timed("GET", f"/me/videos?page={page}&fields=uri", fields, b"")

    def prepare(self, count):
        """Waits until the gateway has added the terms; `count` tells how many records have none."""
        while count() > 0:
            time.sleep(1)
        self.seconds_to_prepare = time.monotonic() - self.subject.started
        body = json.dumps({"subject": "user0", "scopes": ["public", "private"]}).encode()
        fields = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.subject.peer.port}/v1/vimeo/tokens"
        with urlopen(Request(url, body, fields)) as answer:
            self.vimeo_token = json.load(answer)["access_token"]


REMOVAL = "ApsaraVideo: DeleteVideo"
OPERATIONS = {
    "ApsaraVideo: a time": Caller.time,
    "ApsaraVideo: a tag": lambda caller: caller.search("Tags=tag0"),
    "ApsaraVideo: a category": lambda caller: caller.search("CateId=0"),
    "ApsaraVideo: a status": lambda caller: caller.search("Status=Uploading"),
    "ApsaraVideo: a tag that all have, and a category": lambda caller: caller.search("Tags=all and CateId=0"),
    "ApsaraVideo: a tag that all have": lambda caller: caller.search("Tags=all"),
    "Tencent: a time": Caller.tencent_time,
    "Tencent: a tag": lambda caller: caller.tencent("SearchMedia", Tags=["tag0"]),
    "Tencent: a class": lambda caller: caller.tencent("SearchMedia", ClassIds=[0]),
    "Tencent: a beginning of a name": lambda caller: caller.tencent("SearchMedia", NamePrefixes=["0000"]),
    "Tencent: a tag that all have": lambda caller: caller.tencent("SearchMedia", Tags=["all"]),
    "Vimeo: the first page of a user": lambda caller: caller.list(1),
    "Vimeo: the 20th page of a user": lambda caller: caller.list(20),
    # Last: the others are asked while all media are there.
    REMOVAL: Caller.remove,
}
