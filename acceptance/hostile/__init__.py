"""Tables of what hostile and broken clients send, byte by byte, with the rule that decides and what must come of it.

A case is sent unchanged, followed by `CANARY`, a valid request with a recognisable response. A refused message must end
the connection, because the start of the next one is unknown (RFC 9112 §6.3, §11.2): a canary that gets a response after
a refusal is a smuggled request.
"""

from dataclasses import dataclass

from harness.server import ADMIN_KEY

CANARY = b"GET /openapi.yaml HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"
CANARY_TYPE = "application/yaml"

# A request that the gateway answers with 200 from its head alone.
GOOD = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

# Visible characters that are not in a token (RFC 9110 §5.6.2), without the colon.
BYTES_NOT_IN_NAMES = [bytes([byte]) for byte in b'"(),/;<=>?@[\\]{}']


@dataclass(frozen=True)
class Case:
    name: str
    # The section that decides.
    rule: str
    data: bytes
    # Statuses of the answers, in their order; each a set of those that are right. None at all: closed in silence.
    answers: tuple
    # Whether the canary after it gets its response.
    goes_on: bool = False
    # Whether the client ends its side behind `data`, without a canary.
    is_cut: bool = False

    def __str__(self):
        return self.name


def statuses(values):
    return tuple(frozenset([value]) if isinstance(value, int) else frozenset(value) for value in values)


def refused(name, rule, data, status=400):
    """One answer with this status (or one of these), then the end."""
    return Case(name, rule, data, statuses([status]))


def accepted(name, rule, data, *answers):
    """These answers, and then the canary's."""
    return Case(name, rule, data, statuses(answers), goes_on=True)


def answered(name, rule, data, *answers):
    """These answers, then the end."""
    return Case(name, rule, data, statuses(answers))


def cut(name, rule, data, *answers):
    """The client sends no more: these answers, if any, then the end."""
    return Case(name, rule, data, statuses(answers), is_cut=True)


def get(*fields, target=b"/healthz", version=b"HTTP/1.1", host=b"Host: a"):
    """A GET with these field lines."""
    lines = [b"GET " + target + b" " + version, *([host] if host is not None else []), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def line(request_line):
    """A request line, and a good Host."""
    return request_line + b"\r\nHost: a\r\n\r\n"


def post(*fields, content=b"", version=b"HTTP/1.1"):
    """A request that mints a signature, and so reads its content: 201 for `{}`."""
    lines = [
        b"POST /v1/tencent/signatures " + version,
        b"Host: a",
        b"Authorization: Bearer " + ADMIN_KEY.encode(),
        b"Content-Type: application/json",
        *fields,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


def chunked(content, *fields):
    """The same with chunked content, given as it is on the wire."""
    return post(b"Transfer-Encoding: chunked", *fields, content=content)


def unique(cases):
    """Checks that names tell the cases apart."""
    names = [case.name for case in cases]
    repeated = sorted({name for name in names if names.count(name) > 1})
    assert not repeated, f"more than one case is named {repeated}"
    return cases


def table():
    """All cases."""
    from hostile import bytes_in_heads, chunks, fields, framing, hosts, limits, persistence, protocols, targets
    from hostile import request_lines as lines

    modules = (framing, chunks, bytes_in_heads, lines, targets, hosts, fields, persistence, protocols, limits)
    return unique([case for module in modules for case in module.CASES])
