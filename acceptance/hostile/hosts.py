"""The Host field (RFC 9112 §3.2, RFC 9110 §7.2)."""

from hostile import accepted, answered, get, refused

RULE = "RFC 9112 §3.2"
SYNTAX = "RFC 3986 §3.2.2"


def bad(name, value, rule=SYNTAX):
    return refused(f"Host {name}", rule, get(host=b"Host: " + value))


def good(name, value):
    return accepted(f"Host {name}", SYNTAX, get(host=b"Host: " + value), 200)


CASES = [
    refused("Host missing", RULE, get(host=None)),
    refused("Host missing beside an absolute target", "RFC 9112 §3.2.2", get(target=b"http://a/healthz", host=None)),
    refused("Host twice, equal", RULE, get(b"Host: a")),
    refused("Host twice, differing", RULE, get(b"Host: b")),
    refused("Host twice, in other cases", RULE, get(b"HOST: b")),
    refused("Host twice in HTTP/1.0", RULE, get(b"Host: b", version=b"HTTP/1.0")),
    refused("Host twice beside an absolute target", RULE, get(b"Host: b", target=b"http://a/healthz")),
    refused("Host behind a space", "RFC 9112 §2.2", get(host=b" Host: a")),
    refused("Host before a space", "RFC 9112 §5.1", get(host=b"Host : a")),
    refused("Host folded", "RFC 9112 §5.2", get(host=b"Host:\r\n a")),
    bad("empty", b"", "RFC 9110 §4.2.1"),
    bad("of white space", b"  \t", "RFC 9110 §4.2.1"),
    bad("that is a port", b":80", "RFC 9110 §4.2.1"),
    bad("with a space", b"a b"),
    bad("that is a list", b"a, b"),
    bad("with a path", b"a/b"),
    bad("with a query", b"a?b"),
    bad("with a fragment", b"a#b"),
    bad("with a backslash", b"a\\b"),
    bad("with user information", b"user@a", "RFC 9110 §4.2.4"),
    bad("with a port of letters", b"a:b", "RFC 3986 §3.2.3"),
    bad("with two ports", b"a:80:80", "RFC 3986 §3.2.3"),
    bad("with a port beyond 65535", b"a:65536", "RFC 3986 §3.2.3"),
    bad("with a port of 100 digits", b"a:" + b"9" * 100, "RFC 3986 §3.2.3"),
    bad("with a negative port", b"a:-1", "RFC 3986 §3.2.3"),
    bad("with a port behind a space", b"a: 80", "RFC 3986 §3.2.3"),
    bad("with % at the end", b"a%", "RFC 3986 §2.1"),
    bad("with % and no digits", b"a%zz", "RFC 3986 §2.1"),
    bad("beyond ASCII", "ä.example".encode()),
    bad("in Latin-1", b"\xe4.example"),
    bad("in angle brackets", b"<a>"),
    bad("in quotes", b'"a"'),
    bad("in braces", b"{a}"),
    bad("of IPv6 without brackets", b"::1"),
    bad("of IPv6 with an open bracket", b"[::1"),
    bad("of empty brackets", b"[]"),
    bad("with text behind the brackets", b"[::1]a"),
    bad("of IPv6 with a wrong digit", b"[::g]"),
    bad("of IPv6 with a zone", b"[fe80::1%25eth0]"),
    bad("with a scheme and a path", b"http://a/b"),
    bad("with another scheme", b"ftp://a"),
    bad("with a script", b"<script>alert(1)</script>"),
    good("name", b"uploads.example"),
    good("name and port", b"uploads.example:8443"),
    good("name and empty port", b"uploads.example:"),
    good("IPv4", b"192.0.2.1"),
    good("IPv6", b"[2001:db8::1]:80"),
    good("of 1000 bytes", b"a" * 1000),
    good("with a dot at the end", b"uploads.example."),
    answered("Host missing in HTTP/1.0", RULE, get(version=b"HTTP/1.0", host=None), 200),
]
