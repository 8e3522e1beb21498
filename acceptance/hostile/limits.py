"""Large and many: at each limit and one beyond it; docs/operations.md has the defaults."""

from hostile import accepted, get, line, post, refused

LINE_LIMIT = 32768
HEAD_LIMIT = 65536
COUNT_LIMIT = 100


def target_of_line(length):
    """A GET whose request line has this many bytes."""
    return get(target=b"/" + b"a" * (length - len(b"GET / HTTP/1.1")))


def head(length):
    """A GET whose head has this many bytes."""
    rest = get(b"X: ")
    return get(b"X: " + b"a" * (length - len(rest)))


def count(number):
    """A GET with this many fields."""
    return get(*[b"X: y"] * (number - 1))


CASES = [
    accepted("request line of the largest size", "RFC 9112 §3", target_of_line(LINE_LIMIT), 404),
    refused("request line too long by one", "RFC 9112 §3", target_of_line(LINE_LIMIT + 1), 414),
    refused("request line of 100 KB", "RFC 9112 §3", target_of_line(100_000), 414),
    refused("query of 100 KB", "RFC 9112 §3", get(target=b"/healthz?" + b"a" * 100_000), 414),
    refused("host of 100 KB in the target", "RFC 9112 §3", get(target=b"http://" + b"a" * 100_000 + b"/"), 414),
    refused("percent-encoding of 100 KB", "RFC 9112 §3", get(target=b"/" + b"%41" * 33_000), 414),
    refused("version of 100 KB", "RFC 9112 §3", line(b"GET / HTTP/1." + b"1" * 100_000), 414),
    refused("request line without end", "RFC 9112 §3", b"GET /" + b"a" * 1_000_000, 414),
    accepted("head of the largest size", "RFC 6585 §5", head(HEAD_LIMIT), 200),
    refused("head too large by one", "RFC 6585 §5", head(HEAD_LIMIT + 1), 431),
    refused("field of 200 KB", "RFC 6585 §5", get(b"X: " + b"a" * 200_000), 431),
    refused("field without end", "RFC 6585 §5", get()[:-2] + b"X: " + b"a" * 1_000_000, 431),
    refused("name of 100 KB", "RFC 6585 §5", get(b"X" * 100_000 + b": y"), 431),
    refused("name without end", "RFC 6585 §5", get()[:-2] + b"X" * 1_000_000, 431),
    refused("Host of 100 KB", "RFC 6585 §5", get(host=b"Host: " + b"a" * 100_000), 431),
    accepted("as many fields as are let in", "RFC 6585 §5", count(COUNT_LIMIT), 200),
    refused("one field too many", "RFC 6585 §5", count(COUNT_LIMIT + 1), 431),
    refused("5000 fields", "RFC 6585 §5", count(5000), 431),
    refused("fields without end", "RFC 6585 §5", get()[:-2] + b"X: y\r\n" * 100_000, 431),
    refused("names of one letter without end", "RFC 6585 §5", get()[:-2] + b"a:\r\n" * 100_000, 431),
    refused(
        "JSON of 2 MB",
        "RFC 9110 §15.5.14",
        post(b"Content-Length: 2000000", content=b" " * 2_000_000),
        413,
    ),
    accepted(
        "JSON nested 100000 times", "RFC 8259 §9", post(b"Content-Length: 100000", content=b"[" * 100_000), {400, 422}
    ),
]
