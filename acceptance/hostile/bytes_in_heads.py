"""Bytes that must not be in a head, in every place of it; line ends and white space."""

from hostile import GOOD, accepted, get, refused

BYTES = {
    "NUL": b"\x00",
    "CR": b"\r",
    "LF": b"\n",
    "VT": b"\x0b",
    "FF": b"\x0c",
    "ESC": b"\x1b",
    "DEL": b"\x7f",
    "backspace": b"\x08",
}

# `%` is the place.
PLACES = {
    "before the method": (b"%GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
    "in the method": (b"G%ET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9110 §9.1"),
    "after the method": (b"GET% /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
    "instead of the first space": (b"GET%/healthz HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
    "in the target": (b"GET /he%althz HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2"),
    "in the query": (b"GET /healthz?a=%b HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2"),
    "after the target": (b"GET /healthz% HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3.2"),
    "instead of the second space": (b"GET /healthz%HTTP/1.1\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
    "in the version": (b"GET /healthz HTTP/%1.1\r\nHost: a\r\n\r\n", "RFC 9112 §2.3"),
    "after the version": (b"GET /healthz HTTP/1.1%\r\nHost: a\r\n\r\n", "RFC 9112 §3"),
    "before a name": (b"GET /healthz HTTP/1.1\r\nHost: a\r\n%X: y\r\n\r\n", "RFC 9112 §5"),
    "in a name": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX%X: y\r\n\r\n", "RFC 9110 §5.1"),
    "after a name": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX%: y\r\n\r\n", "RFC 9112 §5.1"),
    "before a value": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: %y\r\n\r\n", "RFC 9110 §5.5"),
    "in a value": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: y%z\r\n\r\n", "RFC 9110 §5.5"),
    "after a value": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: y%\r\n\r\n", "RFC 9110 §5.5"),
    "in Host": (b"GET /healthz HTTP/1.1\r\nHost: a%b\r\n\r\n", "RFC 9112 §3.2"),
    "before the last empty line": (b"GET /healthz HTTP/1.1\r\nHost: a\r\n%\r\n", "RFC 9112 §2.2"),
    "in the last empty line": (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r%\n", "RFC 9112 §2.2"),
}

MATRIX = [
    refused(f"{name} {place}", rule, template.replace(b"%", byte))
    for place, (template, rule) in PLACES.items()
    for name, byte in BYTES.items()
    # A good head, and then LF.
    if (name, place) != ("LF", "in the last empty line")
]

CASES = [
    *MATRIX,
    # Line ends
    refused("LF for all line ends", "RFC 9112 §2.2", GOOD.replace(b"\r\n", b"\n")),
    refused("CR for all line ends", "RFC 9112 §2.2", GOOD.replace(b"\r\n", b"\r")),
    refused("LF CR for all line ends", "RFC 9112 §2.2", GOOD.replace(b"\r\n", b"\n\r")),
    refused("CR CR LF for all line ends", "RFC 9112 §2.2", GOOD.replace(b"\r\n", b"\r\r\n")),
    refused("LF after the request line", "RFC 9112 §2.2", b"GET /healthz HTTP/1.1\nHost: a\r\n\r\n"),
    refused("LF after a field", "RFC 9112 §2.2", b"GET /healthz HTTP/1.1\r\nHost: a\n\r\n"),
    refused("NEL after a field", "RFC 9112 §2.2", b"GET /healthz HTTP/1.1\r\nHost: a\x85X: y\r\n\r\n"),
    refused("line separator in Host", "RFC 9112 §3.2", "GET /healthz HTTP/1.1\r\nHost: a\u2028b\r\n\r\n".encode()),
    accepted("empty line before a request", "RFC 9112 §2.2", b"\r\n" + GOOD, 200),
    accepted("two empty lines before a request", "RFC 9112 §2.2", b"\r\n\r\n" + GOOD, 200),
    refused("three empty lines before a request", "RFC 9112 §2.2", b"\r\n\r\n\r\n" + GOOD),
    refused("100000 empty lines", "RFC 9112 §2.2", b"\r\n" * 100_000),
    # Folding and white space
    refused("folded with a space", "RFC 9112 §5.2", get(b"X: y\r\n z")),
    refused("folded with a tab", "RFC 9112 §5.2", get(b"X: y\r\n\tz")),
    refused("folded with nothing", "RFC 9112 §5.2", get(b"X: y\r\n ")),
    refused("folded with a field", "RFC 9112 §5.2", get(b"X: y\r\n Content-Length: 5")),
    refused("space before the first field", "RFC 9112 §2.2", b"GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n"),
    refused("empty line with a space", "RFC 9112 §5.2", b"GET /healthz HTTP/1.1\r\nHost: a\r\n \r\n\r\n"),
    refused("space in a name", "RFC 9110 §5.1", get(b"X Y: z")),
    refused("space before the colon", "RFC 9112 §5.1", get(b"X : y")),
    refused("tab before the colon", "RFC 9112 §5.1", get(b"X\t: y")),
    accepted("no space after the colon", "RFC 9112 §5", get(b"X:y"), 200),
    accepted("much space after the colon", "RFC 9112 §5", get(b"X: \t   \t y"), 200),
    accepted("no value", "RFC 9112 §5", get(b"X:"), 200),
    accepted("value of white space", "RFC 9112 §5", get(b"X:  \t "), 200),
]
