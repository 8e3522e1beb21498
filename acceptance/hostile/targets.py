"""Request targets: their forms (RFC 9112 §3.2), and what percent-encoding hides in them (RFC 3986)."""

from hostile import accepted, get, line, refused

FORM = "RFC 9112 §3.2"
PERCENT = "RFC 3986 §2.1"
UTF8 = "RFC 3629 §3"


def bad(name, rule, target):
    return refused(f"target {name}", rule, get(target=target))


def nothing(name, rule, target, status=404):
    """Well-formed, but names nothing: in particular not what it would name were it decoded twice or cleaned up."""
    return accepted(f"target {name}", rule, get(target=target), status)


CASES = [
    # Forms
    bad("without slash", FORM, b"healthz"),
    bad("with dot and slash", FORM, b"./healthz"),
    bad("that is a query", FORM, b"?a=b"),
    bad("with a fragment", "RFC 9110 §7.1", b"/healthz#a"),
    bad("that is a fragment", "RFC 9110 §7.1", b"#"),
    bad("with a fragment in the query", "RFC 9110 §7.1", b"/healthz?a#b"),
    bad("in authority-form", "RFC 9112 §3.2.3", b"a:80"),
    bad("* with GET", "RFC 9112 §3.2.4", b"*"),
    refused("target * and more", "RFC 9112 §3.2.4", line(b"OPTIONS */x HTTP/1.1")),
    refused("target /* with a space", "RFC 9112 §3.2", line(b"OPTIONS * * HTTP/1.1")),
    accepted("target * with OPTIONS", "RFC 9112 §3.2.4", line(b"OPTIONS * HTTP/1.1"), 204),
    bad("with scheme ftp", "RFC 9112 §3.2.2", b"ftp://a/healthz"),
    bad("with scheme file", "RFC 9112 §3.2.2", b"file:///etc/passwd"),
    bad("with scheme javascript", "RFC 9112 §3.2.2", b"javascript:alert(1)"),
    bad("with scheme gopher", "RFC 9112 §3.2.2", b"gopher://a/"),
    bad("with scheme httpx", "RFC 9112 §3.2.2", b"httpx://a/healthz"),
    bad("with one slash after http", "RFC 9112 §3.2.2", b"http:/healthz"),
    bad("with no host", "RFC 9110 §4.2.1", b"http://"),
    bad("with no host, but a path", "RFC 9110 §4.2.1", b"http:///healthz"),
    bad("with no host, but a port", "RFC 9110 §4.2.1", b"http://:80/healthz"),
    bad("with user information", "RFC 9110 §4.2.4", b"http://user@a/healthz"),
    bad("with user and password", "RFC 9110 §4.2.4", b"http://user:password@a/healthz"),
    bad("with a port beyond 65535", "RFC 3986 §3.2.3", b"http://a:65536/healthz"),
    bad("with a huge port", "RFC 3986 §3.2.3", b"http://a:99999999999999999999/healthz"),
    bad("with a negative port", "RFC 3986 §3.2.3", b"http://a:-1/healthz"),
    bad("with an open bracket", "RFC 3986 §3.2.2", b"http://[::1/healthz"),
    bad("with a backslash in the host", "RFC 3986 §3.2.2", b"http://a\\b/healthz"),
    accepted("target absolute", "RFC 9112 §3.2.2", get(target=b"http://other.example/healthz"), 200),
    accepted("target absolute by https", "RFC 9112 §3.2.2", get(target=b"https://other.example:443/healthz"), 200),
    accepted("target absolute in capitals", "RFC 3986 §6.2.2.1", get(target=b"HTTP://OTHER.example/healthz"), 200),
    # Bytes
    bad("beyond ASCII", "RFC 3986 §2", "/ü".encode()),
    bad("beyond ASCII in the query", "RFC 3986 §2", "/healthz?ü".encode()),
    bad("with Latin-1", "RFC 3986 §2", b"/\xfc"),
    bad("with a full-width slash", "RFC 3986 §2", "/media／x".encode()),
    # Percent-encoding
    bad("that ends with %", PERCENT, b"/%"),
    bad("that ends with % and a digit", PERCENT, b"/%4"),
    bad("with % and no digits", PERCENT, b"/%zz"),
    bad("with % and a sign", PERCENT, b"/%+4"),
    bad("with % and u", PERCENT, b"/%u002e"),
    bad("with % before a slash", PERCENT, b"/%4/1"),
    bad("with an encoded NUL", "RFC 3986 §7.3", b"/%00"),
    bad("with an encoded NUL behind a name", "RFC 3986 §7.3", b"/healthz%00.yaml"),
    bad("with encoded CR LF", "RFC 3986 §7.3", b"/%0d%0aSet-Cookie:%20a=b"),
    bad("with an encoded LF", "RFC 3986 §7.3", b"/healthz%0a"),
    bad("with an encoded tab", "RFC 3986 §7.3", b"/%09"),
    bad("with an encoded DEL", "RFC 3986 §7.3", b"/%7f"),
    bad("with an overlong slash", UTF8, b"/..%c0%af..%c0%afetc/passwd"),
    bad("with an overlong dot", UTF8, b"/%c0%ae%c0%ae/"),
    bad("with an overlong NUL", UTF8, b"/%c0%80"),
    bad("with an overlong slash of 3 bytes", UTF8, b"/%e0%80%af"),
    bad("with a surrogate", UTF8, b"/%ed%a0%80"),
    bad("with a code point beyond the last", UTF8, b"/%f4%90%80%80"),
    bad("with a lone continuation byte", UTF8, b"/%80"),
    bad("with %ff", UTF8, b"/%ff"),
    bad("with half a character", UTF8, b"/%c3"),
    nothing("/..", "RFC 3986 §5.2.4", b"/../healthz"),
    nothing("/.", "RFC 3986 §5.2.4", b"/./healthz"),
    nothing("/%2e%2e", "RFC 3986 §7.3", b"/%2e%2e/healthz"),
    nothing("/%2e%2e/ six times", "RFC 3986 §7.3", b"/%2e%2e" * 6 + b"/etc/passwd"),
    nothing("/media/..", "RFC 3986 §5.2.4", b"/media/../healthz"),
    nothing("/media/..%2f", "RFC 3986 §2.2", b"/media/..%2f..%2fetc%2fpasswd", {401, 403, 404}),
    nothing("/files/..%2f", "RFC 3986 §2.2", b"/files/..%2f..%2fetc%2fpasswd", {404, 405}),
    nothing("/files/../v1/keys", "RFC 3986 §5.2.4", b"/files/../v1/keys"),
    nothing("/files/%2e%2e/v1/keys", "RFC 3986 §7.3", b"/files/%2e%2e/v1/keys"),
    nothing("%252e%252e", "RFC 3986 §2.4", b"/%252e%252e/healthz"),
    nothing("%2568ealthz", "RFC 3986 §2.4", b"/%2568ealthz"),
    nothing("healthz%2f", "RFC 3986 §2.2", b"/healthz%2f"),
    nothing("%2fhealthz", "RFC 3986 §2.2", b"/%2fhealthz"),
    nothing("%5c", "RFC 3986 §2.2", b"/..%5c..%5cwindows"),
    nothing("with two slashes", "RFC 3986 §3.3", b"//healthz"),
    nothing("with a host behind two slashes", "RFC 3986 §4.2", b"//evil.example/healthz"),
    nothing("with a slash at the end", "RFC 3986 §3.3", b"/healthz/"),
    nothing("with a parameter", "RFC 3986 §3.3", b"/healthz;a=b"),
    nothing("with an encoded space", "RFC 3986 §2.1", b"/healthz%20"),
    nothing("with an encoded question mark", "RFC 3986 §2.2", b"/healthz%3fa=b"),
    nothing("with an encoded fragment", "RFC 3986 §2.2", b"/healthz%23"),
    nothing("with a backslash", "RFC 3986 §3.3", b"/..\\..\\etc\\passwd", {400, 404}),
    nothing("with delimiters that are not allowed", "RFC 3986 §3.3", b'/<script>"{|}^`', {400, 404}),
    nothing("in capitals", "RFC 3986 §6.2.2.1", b"/HEALTHZ"),
    nothing("encoded for nothing", "RFC 3986 §6.2.2.2", b"/%68%65%61lthz", 200),
    nothing("with a question mark in the query", "RFC 3986 §3.4", b"/healthz?a?b", 200),
    nothing("with a slash in the query", "RFC 3986 §3.4", b"/healthz?/../etc/passwd", 200),
    nothing("with 4000 segments", "RFC 3986 §3.3", b"/a" * 4000),
]
