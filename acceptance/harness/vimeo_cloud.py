"""Vimeo in its own place: its API and the servers that take the bytes, two HTTP servers on ports of their own.

Made from the protocol notes (sections 3, 4, 6 and 11), with nothing of the gateway. Each call is recorded; `problem`
says what a broker must not do, even if the real service would answer.
"""

import email
import json
import math
import re
import secrets
import select
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from harness.http_server import LocalServer

USER_NUMBER = "112233445"
USER = f"/users/{USER_NUMBER}"
USER_NAME = "The Account"
TUS = {"Tus-Resumable": "1.0.0"}
# Most bytes of one PATCH that the service advises are 512 MB; the gateway promises less.
LARGEST_CHUNK = 256 << 20
KNOWN = {"name", "description", "privacy", "password", "license", "locale", "content_rating", "upload"}
VIEWS = ["anybody", "contacts", "disable", "nobody", "password", "unlisted", "users"]
TRACKS = ["captions", "subtitles", "chapters", "descriptions", "metadata"]
UNAUTHORIZED = {"error": "You must provide a valid authenticated access token."}


@dataclass
class Call:
    """A request that arrived, the status of its answer, and what is wrong with it."""

    # "api" or "data"
    host: str
    method: str
    path: str
    query: dict
    # By names in lower case.
    fields: dict
    # That of a PATCH with bytes is only counted.
    body: bytes = b""
    size: int = 0
    problem: str | None = None
    status: int | None = None

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return f"{self.path} {self.query} {self.fields} {self.body.decode(errors='replace')}"

    def blame(self, problem):
        self.problem = self.problem or problem


@dataclass
class Fault:
    """What happens to the next calls with this method and this path, in place of the true answer or besides it."""

    method: str
    # A regular expression for the whole path, at either host.
    path: str
    # Answered in place of the true answer: bytes, or what becomes JSON.
    status: int | None = None
    body: object = b""
    fields: dict = field(default_factory=dict)
    # Bytes of a PATCH that are taken first.
    after: int = 0
    # Waits, here or after those bytes, until `go` is set or the client is gone.
    is_held: bool = False
    # The connection is reset: before anything is done, or with the answer lost.
    is_cut: bool = False
    # Bytes of a PATCH that breaks here stay.
    keeps_partial: bool = False
    is_lost: bool = False
    delay: float = 0
    times: int = 1
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)


class Refused(Exception):
    def __init__(self, status, code, text, *parameters):
        self.status = status
        self.document = {"error": text, "link": None, "developer_message": f"{text} ({code})", "error_code": code}
        if parameters:
            self.document["invalid_parameters"] = [
                {"field": name, "error_code": inner, "error": text, "developer_message": f"{name} is wrong"}
                for name, inner in parameters
            ]


def invalid(name, inner=2204):
    return Refused(400, 2204, "You have provided an invalid parameter.", (name, inner))


NOT_FOUND = (404, 5000, "The requested video could not be found.")


class Cut(Exception):
    """The connection ends without an answer."""


@dataclass
class File:
    """The first file of a video, or a later one."""

    id: int
    approach: str
    size: int | None
    name: str | None = None
    redirect_url: str | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    content: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    is_busy: bool = False


@dataclass
class Attachment:
    """A picture or a text track."""

    id: int
    kind: str
    labels: dict
    is_active: bool
    signature: str = field(default_factory=lambda: secrets.token_hex(16))
    content: bytes | None = None


@dataclass
class Video:
    id: int
    labels: dict
    files: list
    created: float = field(default_factory=time.time)
    modified: float = field(default_factory=time.time)
    # One of the four ends with an error.
    failure: str | None = None
    # Reads since the newest file was complete.
    reads: int = 0
    attachments: dict = field(default_factory=dict)
    hash: str = field(default_factory=lambda: secrets.token_hex(5))

    @property
    def uri(self):
        return f"/videos/{self.id}"

    @property
    def active(self):
        return next((one for one in reversed(self.files) if one.is_complete), None)


def moment(seconds):
    """As recorded: without fractions, and not with Z."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


def tree(names):
    """The names of `fields`, with dots, as nested dictionaries; an empty one stands for the whole member."""
    root = {}
    # A whole member comes last, and stays whole.
    for name in sorted(names, key=lambda name: -name.count(".")):
        *parents, last = name.strip().split(".")
        node = root
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = {}
    return root


def filtered(document, wanted):
    if not wanted:
        return document
    if isinstance(document, list):
        return [filtered(one, wanted) for one in document]
    if not isinstance(document, dict):
        return document
    return {name: filtered(value, wanted[name]) for name, value in document.items() if name in wanted}


def without_nulls(document):
    return {name: value for name, value in document.items() if value is not None}


class VimeoCloud:
    """`token`: of the account."""

    def __init__(self, token):
        self.token = token
        self.calls = []
        self.faults = []
        self.videos = {}
        # Bytes that the account's quota has left.
        self.free = 1 << 40
        # Reads of a video that find it transcoding.
        self.transcoding = 1
        # Bytes of a PATCH that breaks are dropped, as by the real service (section 4.3).
        self.keeps_partial = False
        # Of a link whose video is gone: the real service was seen with the first.
        self.gone = 404
        # A creation is answered so, as if its body were lost (section 11, item 1).
        self.forgets_tus = False
        # The members of `upload` that are null are left out, as for a free account (section 4.2).
        self.omits_nulls = False
        self.created_status = 200
        self.limited_until = 0
        self.was_limited = False
        self.lock = threading.RLock()
        self.ended = threading.Event()
        self.last = 217_000_000 + secrets.randbelow(1_000_000)
        self.servers = {
            host: LocalServer(lambda request, host=host: self.serve(request, host)) for host in ("api", "data")
        }

    @property
    def url(self):
        return self.servers["api"].url

    @property
    def data_url(self):
        return self.servers["data"].url

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        for server in self.servers.values():
            server.__exit__()

    # For tests

    def fault(self, method, path, *arguments, **options):
        one = Fault(method, path, *arguments, **options)
        with self.lock:
            self.faults.append(one)
        return one

    def limit(self, seconds):
        """From now on each call of the API is refused with 429, until the second that the answers tell."""
        with self.lock:
            self.limited_until, self.was_limited = math.ceil(time.time() + seconds), False

    def of(self, method, path=".*", host=None):
        """The calls so far with this method and this path."""
        with self.lock:
            return [
                one
                for one in self.calls
                if one.method in method.split("|") and re.fullmatch(path, one.path) and host in (None, one.host)
            ]

    @property
    def problems(self):
        with self.lock:
            return [one for one in self.calls if one.problem]

    def video(self, uri):
        return self.videos[int(uri.rsplit("/", 1)[1])]

    def content(self, uri):
        """The bytes of a video; `None` until all are there."""
        with self.lock:
            file = self.video(uri).active
            return bytes(file.content) if file else None

    def end(self, uri, failure=None):
        """What the service does by itself: it has fetched a file, or failed with one of its statuses."""
        with self.lock:
            video = self.video(uri)
            video.failure = failure
            video.files[-1].is_complete = failure is None

    # The wire

    def serve(self, request, host):
        try:
            self.handle(request, host)
        except Cut:
            request.reset()

    def handle(self, request, host):
        parts = urlsplit(request.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        fields = {name.lower(): value for name, value in request.headers.items()}
        call = Call(host, request.command, parts.path, query, fields)
        if len(fields) != len(request.headers):
            call.blame("a header field is repeated")
        fault = self.recorded(call)
        if fault and fault.delay:
            self.ended.wait(fault.delay)
        is_patch = host == "data" and call.method == "PATCH"
        if not is_patch:
            call.body = b"".join(self.pieces(request))
            call.size = len(call.body)
            if fault:
                self.obey(fault, request)
        elif fault and (fault.status is not None or fault.is_cut and not fault.after):
            for _ in self.pieces(request):
                pass
        if fault and fault.is_cut and not fault.after:
            raise Cut
        if fault and fault.status is not None:
            body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
            self.send(request, call, fault.status, body, {"Content-Type": "application/json"} | fault.fields)
            return
        try:
            if host == "api":
                status, document, kind = self.api(call)
            elif is_patch:
                status, document, kind = self.patch(call, request, fault)
            else:
                status, document, kind = self.data(call)
        except Refused as refusal:
            status, document, kind = refusal.status, refusal.document, "error"
        if fault and fault.is_lost:
            raise Cut
        fields = {}
        if isinstance(document, dict) and host == "api":
            if status < 400:
                wanted = [name for text in query.get("fields", []) for name in text.split(",") if name]
                document = self.chosen(document, wanted)
            fields["Content-Type"] = f"application/vnd.vimeo.{kind}+json"
            body = json.dumps(document).encode()
        elif isinstance(document, dict):
            # Fields, and text in place of a document.
            fields = dict(document)
            body = kind if isinstance(kind, bytes) else b""
        else:
            body = b""
            fields["Content-Type"] = "text/html; charset=UTF-8"
        if host == "api":
            fields |= self.limits(status, kind)
        self.send(request, call, status, body, fields)

    def limits(self, status, kind):
        """Fields of the API's answers (sections 3.1, 3.5)."""
        if status == 401:
            return {"WWW-Authenticate": 'Bearer error="invalid_token"'}
        remaining, reset = (0, self.limited_until) if status == 429 else (99, time.time() + 60)
        return {
            "X-RateLimit-Limit": "100",
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": moment(reset),
            "Cache-Control": "no-cache, max-age=315360000",
            "Vary": "Accept,Vimeo-Client-Id,Accept-Encoding",
        }

    @staticmethod
    def chosen(document, names):
        if "data" not in document:
            return filtered(document, tree(names))
        # A list: the names are those of its entries.
        wanted = tree(name.removeprefix("data.") for name in names)
        return document | {"data": filtered(document["data"], wanted)}

    def recorded(self, call):
        """Records a call and returns the fault that it meets."""
        with self.lock:
            self.calls.append(call)
            if call.host == "data" and self.token in call.text:
                call.blame("the account's token is sent to the servers that take bytes")
            if self.token in call.path or self.token in str(call.query):
                call.blame("the account's token is in a URL")
            for fault in self.faults:
                if fault.method == call.method and re.fullmatch(fault.path, call.path):
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                    return fault
        return None

    def obey(self, fault, request, pieces=(), taken=None):
        """Holds or cuts a call at the place of a fault."""
        fault.reached.set()
        poll = select.poll()
        poll.register(request.connection, select.POLLIN)
        pieces = iter(pieces)
        while fault.is_held and not fault.go.is_set():
            if self.ended.is_set():
                raise Cut
            if poll.poll(20):
                # Bytes that wait to be read would hide that the client is gone; without any, it is.
                piece = next(pieces, None)
                if piece is None:
                    raise Cut
                taken += piece
        if fault.is_cut:
            raise Cut

    @staticmethod
    def pieces(request):
        """The body of a request, also a chunked one."""
        if "chunked" in request.headers.get("Transfer-Encoding", ""):
            while size := int(request.rfile.readline().split(b";")[0], 16):
                yield request.rfile.read(size)
                request.rfile.readline()
            request.rfile.readline()
            return
        left = int(request.headers.get("Content-Length") or 0)
        while left > 0:
            piece = request.rfile.read1(min(left, 1 << 18))
            if not piece:
                raise ConnectionResetError
            left -= len(piece)
            yield piece

    @staticmethod
    def send(request, call, status, body, fields):
        call.status = status
        # The real service sends no length with these.
        is_empty = status in (204, 304)
        request.respond(status, body, Content_Length=None if is_empty else len(body), **fields)

    # The API

    def api(self, call):
        with self.lock:
            if call.fields.get("authorization") != f"Bearer {self.token}":
                call.blame("another token than the account's")
                refusal = Refused(401, None, "")
                refusal.document = UNAUTHORIZED
                raise refusal
            if time.time() < self.limited_until:
                if self.was_limited:
                    call.blame("a call before the time that the service has told")
                self.was_limited = True
                raise Refused(429, None, "Too many API requests. Wait an hour, then try again.")
            if not re.search(r"application/vnd\.vimeo\.\*(\+json)?; ?version=3\.4\b", call.fields.get("accept", "")):
                call.blame("Accept does not name version 3.4")
            if call.method in ("GET", "POST", "PATCH") and not any(call.query.get("fields", [])):
                call.blame("no `fields`")
            if call.body and call.fields.get("content-type", "").split(";")[0] != "application/json":
                call.blame("the body is not JSON")
            for methods, pattern, action in self.ROUTES:
                if found := re.fullmatch(pattern, call.path):
                    if call.method not in methods.split():
                        break
                    return action(self, call, *found.groups())
            call.blame("there is no such call")
            raise Refused(*NOT_FOUND)

    @staticmethod
    def members(call):
        """The body, an object; of nothing an empty one."""
        if not call.body:
            return {}
        try:
            members = call.json
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise Refused(400, 2205, "The body of the request is malformed.")
        return members

    @staticmethod
    def size(upload, name="upload.size"):
        """A number or its text (section 4.1)."""
        value = upload.get("size")
        if isinstance(value, bool) or not re.fullmatch("[0-9]{1,18}", str(value)):
            raise invalid(name, 2254)
        return int(value)

    def new_id(self):
        self.last += 1
        return self.last

    def user(self, call=None):
        used = sum(len(file.content) for video in self.videos.values() for file in video.files)
        space = {"free": self.free, "max": self.free + used, "used": used, "unit": "video_size"}
        user = {
            "uri": USER,
            "name": USER_NAME,
            "link": f"https://vimeo.com/user{USER_NUMBER}",
            "account": "business",
            "created_time": moment(0),
            "resource_key": "c" * 40,
            "upload_quota": {
                "space": space | {"showing": "lifetime"},
                "periodic": {"free": None, "max": None, "used": used, "reset_date": None, "unit": "video_size"},
                "lifetime": space,
            },
        }
        return (200, user, "user") if call else user

    def create(self, call):
        members = self.members(call)
        if unknown := set(members) - KNOWN:
            call.blame(f"unknown members: {sorted(unknown)}")
        if "3.4" not in call.fields.get("accept", "") and "upload" in members or "type" in members:
            raise Refused(400, 3116, "The version and the body of the request do not match.")
        self.check(members)
        upload = members.get("upload", {"approach": "post"})
        if not isinstance(upload, dict):
            raise Refused(400, 2230, "The type of the upload is wrong.")
        approach = "post" if self.forgets_tus else upload.get("approach")
        if approach == "streaming":
            raise invalid("type", 2552)
        if approach not in ("tus", "post", "pull"):
            raise Refused(400, 2230, "The type of the upload is wrong.")
        size = None
        if approach == "tus":
            if set(upload) != {"approach", "size"}:
                call.blame(f"unknown members of upload: {sorted(upload)}")
            size = self.size(upload)
            if size > self.free:
                raise Refused(403, 4101, "You have reached your storage limit.")
        if approach == "pull" and not str(upload.get("link", "")).startswith(("http://", "https://")):
            raise invalid("upload.link")
        number = self.new_id()
        file = File(number, approach, size, redirect_url=upload.get("redirect_url"))
        file.is_complete = size == 0
        video = self.videos[number] = Video(number, members, [file])
        return self.created_status if approach == "tus" else 201, self.document(video, is_new=True), "video"

    @staticmethod
    def check(members):
        privacy = members.get("privacy", {})
        if not isinstance(privacy, dict):
            raise invalid("privacy")
        if privacy.get("view", "anybody") not in VIEWS:
            raise invalid("privacy.view", 2232)
        if privacy.get("view") == "password" and not members.get("password"):
            raise invalid("password", 2233)
        if len(members.get("name") or "") > 128:
            raise invalid("name", 2250)

    def found(self, number):
        video = self.videos.get(int(number))
        if video is None:
            raise Refused(*NOT_FOUND)
        return video

    def all(self, call):
        videos = sorted(self.videos.values(), key=lambda one: -one.id)
        return self.page(call, [self.document(one) for one in videos])

    def page(self, call, documents):
        page, count = (int(call.query.get(name, [number])[0]) for name, number in [("page", "1"), ("per_page", "25")])
        last = max(1, math.ceil(len(documents) / count))

        def link(number):
            return f"{call.path}?page={number}&per_page={count}" if 1 <= number <= last else None

        paging = {"next": link(page + 1), "previous": link(page - 1), "first": link(1), "last": link(last)}
        data = documents[(page - 1) * count : page * count]
        found = {"total": len(documents), "page": page, "per_page": count, "paging": paging, "data": data}
        return 200, found, "video"

    def one(self, call, number):
        video = self.found(number)
        if call.method == "DELETE":
            del self.videos[video.id]
            return 204, None, None
        if call.method == "PATCH":
            members = self.members(call)
            if unknown := set(members) - KNOWN | {"upload"} & set(members):
                call.blame(f"unknown members: {sorted(unknown)}")
            self.check(members)
            privacy = video.labels.get("privacy", {}) | members.get("privacy", {})
            video.labels |= members | {"privacy": privacy}
            video.modified = time.time()
        document = self.document(video)
        if call.method == "GET" and video.active:
            video.reads += 1
        return 200, document, "video"

    def state(self, call, number):
        video = self.found(number)
        states = {"uploading": "upload_incomplete", "available": "ready", "quota_exceeded": "exceeds_quota"}
        status = self.status(video)
        state = states.get(status, "failed" if video.failure else "active")
        return 200, {"state": state, "progress": 100 if state == "ready" else 37, "time_left": 11}, "video"

    def status(self, video):
        if video.failure:
            return video.failure
        if not video.active:
            return "uploading"
        if video.reads >= self.transcoding:
            return "available"
        return "transcoding" if video.reads else "transcode_starting"

    def link(self, file):
        """Where the bytes of a file are sent to."""
        match file.approach:
            case "tus":
                return f"{self.data_url}/files/vimeo-prod-src-tus-us/{file.token}"
            case "post":
                query = {"ticket_id": file.token, "video_file_id": file.id, "signature": "s", "v6": 1}
                return f"{self.data_url}/upload?{urlencode(query)}"
        return None

    def upload(self, file):
        link = self.link(file)
        form = None
        if file.approach == "post":
            form = (
                f'<form method="POST" action="{link.replace("&", "&amp;")}" enctype="multipart/form-data">'
                '<input type="file" name="file_data"><input type="submit" name="submit"></form>'
            )
        document = {
            "status": "complete" if file.is_complete else "in_progress",
            "upload_link": link,
            "form": form,
            "complete_uri": None,
            "approach": file.approach,
            "size": file.size,
            "redirect_url": file.redirect_url,
            "link": None,
        }
        return without_nulls(document) if self.omits_nulls else document

    def document(self, video, is_new=False):
        labels = video.labels
        status = self.status(video)
        first = video.files[0]
        upload = self.upload(first)
        if video.failure:
            upload["status"] = "error" if not video.active else "complete"
        # It was seen to be complete while bytes still come (section 4.9).
        stage = {"available": "complete", "uploading": "in_progress" if is_new else "complete"}
        # The link of an unlisted video changes (section 11, item 4).
        is_hidden = labels.get("privacy", {}).get("view") == "unlisted" and not is_new and video.active
        link = f"https://vimeo.com/{video.id}" + (f"/{video.hash}" if is_hidden else "")
        counts = {
            kind: sum(one.kind == kind for one in video.attachments.values()) for kind in ("pictures", "texttracks")
        } | {"versions": len(video.files)}
        return {
            "uri": video.uri,
            "name": labels.get("name") or "Untitled",
            "description": labels.get("description"),
            "type": "video",
            "link": link,
            "player_embed_url": f"https://player.vimeo.com/video/{video.id}",
            "duration": 0,
            "width": 400,
            "height": 300,
            "language": None,
            "embed": {"html": f'<iframe src="https://player.vimeo.com/video/{video.id}"></iframe>'},
            "created_time": moment(video.created),
            "modified_time": moment(video.modified),
            "release_time": moment(video.created),
            "content_rating": labels.get("content_rating", ["unrated"]),
            "license": labels.get("license"),
            "privacy": {"view": "anybody", "embed": "public", "download": False, "add": True, "comments": "anybody"}
            | labels.get("privacy", {}),
            "pictures": {"uri": None, "active": False, "type": "default", "sizes": [], "resource_key": "d" * 40},
            "tags": [],
            "stats": {"plays": 0},
            "categories": [],
            "metadata": {
                "connections": {
                    kind: {"uri": f"{video.uri}/{kind}", "options": ["GET", "POST"], "total": total}
                    for kind, total in counts.items()
                },
                "interactions": {},
            },
            "user": self.user(),
            "app": {"name": "The Broker", "uri": "/apps/7"},
            "status": status,
            "resource_key": f"{video.id:040x}",
            "manage_link": f"/manage/videos/{video.id}",
            "upload": upload,
            "transcode": {"status": stage.get(status, "error" if video.failure else "in_progress")},
            "is_playable": status == "available",
            "has_audio": False,
        }

    # Later files (section 4.8)

    def versions(self, call, number):
        video = self.videos.get(int(number))
        if call.method == "GET":
            return self.page(call, [self.version(self.found(number), one) for one in reversed(video.files)])
        members = self.members(call)
        if "upload" not in members:
            raise Refused(404, 5011, "No upload was given.")
        if video is None:
            raise Refused(404, 5012, "There is no such video.")
        if members["upload"].get("approach") != "tus":
            raise Refused(404, 5013, "Versions need tus.")
        if not members.get("file_name"):
            raise invalid("file_name")
        if unknown := set(members) - {"file_name", "upload"} | set(members["upload"]) - {"approach", "size"}:
            call.blame(f"unknown members: {sorted(unknown)}")
        size = self.size(members["upload"])
        if size > self.free:
            raise Refused(403, 4101, "You have reached your storage limit.")
        file = File(self.new_id(), "tus", size, name=members["file_name"], is_complete=size == 0)
        video.files.append(file)
        return 201, self.version(video, file), "video.version"

    def one_version(self, call, number, version):
        video = self.found(number)
        for file in video.files:
            if file.id == int(version):
                return 200, self.version(video, file), "video.version"
        raise Refused(*NOT_FOUND)

    def version(self, video, file):
        return {
            "uri": f"{video.uri}/versions/{file.id}",
            "filename": file.name,
            "filesize": file.size if file.is_complete else None,
            "upload_date": moment(video.modified) if file.is_complete else None,
            "duration": None,
            "active": file is video.active,
            "user": self.user(),
            "app": {"name": "The Broker", "uri": "/apps/7"},
            "created_time": moment(video.created),
            "modified_time": moment(video.modified),
            "metadata": {"connections": {}, "interactions": {}},
            "upload": self.upload(file),
            "transcode": {"status": "complete" if file.is_complete else "in_progress"},
            "play": {},
        }

    # Pictures and text tracks (section 6)

    def attachments(self, call, number, kind):
        video = self.found(number)
        if call.method == "GET":
            found = [one for one in video.attachments.values() if one.kind == kind]
            return self.page(call, [self.attachment_document(video, one) for one in found])
        members = self.members(call)
        if kind == "texttracks":
            if members.get("type") not in TRACKS:
                raise invalid("type")
            if not members.get("language"):
                raise invalid("language")
        one = Attachment(self.new_id(), kind, members, bool(members.get("active")))
        video.attachments[one.id] = one
        return 201, self.attachment_document(video, one), self.media_type(kind)

    def attachment(self, call, number, kind, other):
        video = self.found(number)
        one = video.attachments.get(int(other))
        if one is None or one.kind != kind:
            raise Refused(*NOT_FOUND)
        if call.method == "DELETE":
            del video.attachments[one.id]
            return 204, None, None
        if call.method == "PATCH":
            members = self.members(call)
            if "active" in members:
                one.is_active = members["active"] in (True, "true")
            one.labels |= members
        return 200, self.attachment_document(video, one), self.media_type(kind)

    @staticmethod
    def media_type(kind):
        return {"pictures": "picture", "texttracks": "video.texttrack"}[kind]

    def attachment_document(self, video, one):
        uri = f"{video.uri}/{one.kind}/{one.id}"
        query = urlencode({"expires": int(video.created) + 86_400, "sig": one.signature})
        if one.kind == "pictures":
            return {
                "uri": uri,
                "active": one.is_active,
                "type": "custom",
                "base_link": f"https://i.vimeocdn.example/video/{one.id}",
                "sizes": [{"width": 100, "height": 75, "link": f"https://i.vimeocdn.example/video/{one.id}_100x75"}],
                "link": f"{self.data_url}/video/{one.id}?{query}",
                "resource_key": f"{one.id:040x}",
                "default_picture": False,
            }
        return {
            "uri": uri,
            "active": one.is_active,
            "type": one.labels["type"],
            "language": one.labels["language"],
            "display_language": "English",
            "id": one.id,
            "link": f"{self.data_url}/captions/{one.id}?{query}",
            "link_expires_time": int(video.created) + 86_400,
            "hls_link": f"https://captions.example/{one.id}.vtt",
            "hls_link_expires_time": int(video.created) + 86_400,
            "name": one.labels.get("name"),
        }

    ROUTES = [
        ("GET", rf"/me|{USER}", user),
        ("POST", rf"(?:/me|{USER})/videos/?", create),
        ("GET", rf"(?:/me|{USER})/videos", all),
        ("GET PATCH DELETE", r"/videos/(\d+)", one),
        ("GET", r"/videos/(\d+)/status", state),
        ("GET POST", r"/videos/(\d+)/versions", versions),
        ("GET", r"/videos/(\d+)/versions/(\d+)", one_version),
        ("GET POST", r"/videos/(\d+)/(pictures|texttracks)", attachments),
        ("GET PATCH DELETE", r"/videos/(\d+)/(pictures|texttracks)/(\d+)", attachment),
    ]

    # The servers that take bytes: a status, fields and a text

    def data(self, call):
        with self.lock:
            if call.path.startswith("/files"):
                return self.tus(call)
            if call.path == "/upload":
                return self.form(call)
            found = re.fullmatch(r"/(video|captions)/(\d+)", call.path)
            if not found or call.method != "PUT":
                return 404, {"Content-Type": "text/plain"}, b"not found"
            for video in self.videos.values():
                one = video.attachments.get(int(found[2]))
                if one and call.query.get("sig") == [one.signature]:
                    one.content = call.body
                    text = json.dumps({"Status": "success", "Notes": "", "Path": call.path}).encode()
                    return 200, {"Content-Type": "application/json"}, text
            return 403, {"Content-Type": "text/plain"}, b"the signature is wrong"

    def linked(self, call):
        """The video and the file of a link; `None` for those that are gone."""
        for video in self.videos.values():
            for file in video.files:
                if file.approach == "tus" and call.path == urlsplit(self.link(file)).path:
                    return video, file
        return None

    def tus(self, call):
        """Everything but PATCH."""
        fields = TUS | {"Content-Type": "text/plain"}
        if "authorization" in call.fields:
            call.blame("a token at a tus link")
        if call.method == "OPTIONS":
            return 204, TUS | {"Tus-Version": "1.0.0"}, b""
        if call.method != "HEAD":
            call.blame("a tus link takes only HEAD and PATCH")
            return 405, fields | {"Allow": "HEAD, PATCH, OPTIONS"}, b"method not allowed"
        if call.fields.get("tus-resumable") != "1.0.0":
            call.blame("no Tus-Resumable")
            return 412, fields, b"unsupported version"
        linked = self.linked(call)
        if not linked:
            return self.gone, fields, b"upload not found"
        file = linked[1]
        offset = {"Upload-Offset": str(len(file.content)), "Upload-Length": str(file.size)}
        more = {"Upload-Metadata": "notify aHR0cHM6Ly92aW1lby5jb20=", "Cache-Control": "no-store"}
        return 200, TUS | offset | more, b""

    def patch(self, call, request, fault):
        fields = TUS | {"Content-Type": "text/plain"}
        with self.lock:
            linked = self.linked(call)
            refusal = self.patch_refusal(call, linked[1] if linked else None)
            if not refusal:
                video, file = linked
                file.is_busy = True
        if refusal:
            for _ in self.pieces(request):
                pass
            return refusal[0], fields, refusal[1]
        taken = bytearray()
        try:
            pieces = self.pieces(request)
            for piece in pieces:
                before = len(taken)
                taken += piece
                if fault and before < fault.after <= len(taken):
                    self.obey(fault, request, pieces, taken)
            if fault and not fault.after:
                self.obey(fault, request)
        except (Cut, ConnectionError):
            kept = 0
            if self.keeps_partial or fault and fault.keeps_partial:
                kept = fault.after if fault and fault.after else len(taken)
            del taken[kept:]
            raise
        finally:
            with self.lock:
                call.size = len(taken)
                file.content += taken
                file.is_busy = False
                if len(file.content) == file.size and not file.is_complete:
                    file.is_complete, video.reads, video.modified = True, 0, time.time()
        with self.lock:
            if video.id not in self.videos:
                return self.gone, fields, b"upload not found"
        return 204, TUS | {"Upload-Offset": str(len(file.content))}, b""

    def patch_refusal(self, call, file):
        """Status and text; `None` for a PATCH that is taken."""
        announced = int(call.fields.get("content-length") or 0)
        if "authorization" in call.fields:
            call.blame("a token at a tus link")
        if announced > LARGEST_CHUNK:
            call.blame(f"a PATCH of {announced} bytes")
        if call.fields.get("tus-resumable") != "1.0.0":
            call.blame("no Tus-Resumable")
            return 412, b"unsupported version"
        if call.fields.get("content-type") != "application/offset+octet-stream":
            call.blame("another type than that of tus")
            return 415, b"the type is wrong"
        if file is None:
            return self.gone, b"upload not found"
        if file.is_busy:
            call.blame("two PATCHes at once")
            return 423, b"the file is locked"
        if call.fields.get("upload-offset") != str(len(file.content)):
            return 409, b"mismatched offset"
        if len(file.content) + announced > file.size:
            call.blame("more bytes than announced")
            return 413, b"the upload's size was exceeded"
        return None

    def form(self, call):
        """A browser's POST of a file (section 4.4)."""
        for video in self.videos.values():
            file = video.files[0]
            if file.approach == "post" and call.query.get("ticket_id") == [file.token] and call.method == "POST":
                break
        else:
            return 404, {"Content-Type": "text/plain"}, b"not found"
        head = f"Content-Type: {call.fields.get('content-type', '')}\r\n\r\n".encode()
        for part in email.message_from_bytes(head + call.body).walk():
            if part.get_param("name", header="content-disposition") == "file_data":
                file.content[:] = part.get_payload(decode=True)
                file.is_complete, video.reads = True, 0
                place = file.redirect_url or "https://vimeo.com/upload/complete"
                query = f"{'&' if '?' in place else '?'}video_uri={quote(video.uri, safe='')}"
                return 303, {"Location": place + query}, b""
        return 400, {"Content-Type": "text/plain"}, b"there is no file_data"
