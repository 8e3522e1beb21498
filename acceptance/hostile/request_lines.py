"""Method, spaces and version (RFC 9112 §3)."""

from hostile import GOOD, accepted, answered, line, refused

LINE = "RFC 9112 §3"
METHOD = "RFC 9110 §9.1"
VERSION = "RFC 9112 §2.3"

CASES = [
    # Parts
    refused("method only", LINE, line(b"GET")),
    refused("method and space", LINE, line(b"GET ")),
    refused("HTTP/0.9", LINE, b"GET /healthz\r\n"),
    refused("no version, but fields", LINE, line(b"GET /healthz")),
    refused("no target", LINE, line(b"GET HTTP/1.1")),
    refused("empty target", LINE, line(b"GET  HTTP/1.1")),
    refused("leading space", LINE, line(b" GET /healthz HTTP/1.1")),
    refused("leading tab", LINE, line(b"\tGET /healthz HTTP/1.1")),
    refused("two spaces before the target", LINE, line(b"GET  /healthz HTTP/1.1")),
    refused("two spaces after the target", LINE, line(b"GET /healthz  HTTP/1.1")),
    refused("trailing space", LINE, line(b"GET /healthz HTTP/1.1 ")),
    refused("trailing tab", LINE, line(b"GET /healthz HTTP/1.1\t")),
    refused("tabs for spaces", LINE, line(b"GET\t/healthz\tHTTP/1.1")),
    refused("space in the target", LINE, line(b"GET /health z HTTP/1.1")),
    refused("space and a second version", LINE, line(b"GET /healthz HTTP/1.1 HTTP/1.1")),
    refused("no-break space before the target", LINE, line(b"GET\xa0/healthz HTTP/1.1")),
    refused("fields only", LINE, b"Host: a\r\n\r\n"),
    refused("colon after the method", METHOD, line(b"GET: /healthz HTTP/1.1")),
    # Methods
    refused("method with a delimiter", METHOD, line(b"GE(T /healthz HTTP/1.1")),
    refused("method with a slash", METHOD, line(b"GE/T /healthz HTTP/1.1")),
    refused("method in quotes", METHOD, line(b'"GET" /healthz HTTP/1.1')),
    refused("method beyond ASCII", METHOD, line("GËT /healthz HTTP/1.1".encode())),
    refused("method with an equals sign", METHOD, line(b"A=B /healthz HTTP/1.1")),
    refused("method of braces", METHOD, line(b"{} /healthz HTTP/1.1")),
    refused("method of 33 bytes", LINE, line(b"M" * 33 + b" /healthz HTTP/1.1"), 501),
    refused("method of 7000 bytes", LINE, line(b"M" * 7000 + b" /healthz HTTP/1.1"), 501),
    refused("method without end", "RFC 9112 §3", b"M" * 1_000_000, 414),
    accepted("method in lower case", METHOD, line(b"get /healthz HTTP/1.1"), 405),
    accepted("method of token characters", METHOD, line(b"!#$%&'*+-.^_`|~ /healthz HTTP/1.1"), 405),
    accepted("method of digits", METHOD, line(b"0 /healthz HTTP/1.1"), 405),
    accepted("method TRACE", "RFC 9110 §9.3.8", line(b"TRACE /healthz HTTP/1.1"), 405),
    accepted("method TRACK", METHOD, line(b"TRACK /healthz HTTP/1.1"), 405),
    accepted("method DEBUG", METHOD, line(b"DEBUG /healthz HTTP/1.1"), 405),
    accepted("method PROPFIND", METHOD, line(b"PROPFIND / HTTP/1.1"), 404),
    refused("method CONNECT", "RFC 9110 §9.3.6", line(b"CONNECT a:443 HTTP/1.1"), 501),
    refused("method CONNECT with a path", "RFC 9110 §9.3.6", line(b"CONNECT /healthz HTTP/1.1"), 501),
    refused("method CONNECT with an URL", "RFC 9110 §9.3.6", line(b"CONNECT http://a/ HTTP/1.1"), 501),
    # Versions
    refused("version in lower case", VERSION, line(b"GET /healthz http/1.1")),
    refused("version HTTP/1", VERSION, line(b"GET /healthz HTTP/1")),
    refused("version HTTP/1.", VERSION, line(b"GET /healthz HTTP/1.")),
    refused("version HTTP/.1", VERSION, line(b"GET /healthz HTTP/.1")),
    refused("version HTTP/1.10", VERSION, line(b"GET /healthz HTTP/1.10")),
    refused("version HTTP/01.1", VERSION, line(b"GET /healthz HTTP/01.1")),
    refused("version HTTP/11.1", VERSION, line(b"GET /healthz HTTP/11.1")),
    refused("version HTTP/1,1", VERSION, line(b"GET /healthz HTTP/1,1")),
    refused("version HTTP/1.1.1", VERSION, line(b"GET /healthz HTTP/1.1.1")),
    refused("version HTTP/+1.1", VERSION, line(b"GET /healthz HTTP/+1.1")),
    refused("version HTTP/-1.1", VERSION, line(b"GET /healthz HTTP/-1.1")),
    refused("version HTTP/x.1", VERSION, line(b"GET /healthz HTTP/x.1")),
    refused("version HTTP 1.1", VERSION, line(b"GET /healthz HTTP 1.1")),
    refused("version HTTP\\1.1", VERSION, line(b"GET /healthz HTTP\\1.1")),
    refused("version HTTPS/1.1", VERSION, line(b"GET /healthz HTTPS/1.1")),
    refused("version HTP/1.1", VERSION, line(b"GET /healthz HTP/1.1")),
    refused("version with another digit one", VERSION, line("GET /healthz HTTP/１.1".encode())),
    refused("version HTTP/0.9", "RFC 9110 §15.6.6", line(b"GET /healthz HTTP/0.9"), 505),
    refused("version HTTP/2.0", "RFC 9110 §15.6.6", line(b"GET /healthz HTTP/2.0"), 505),
    refused("version HTTP/3.0", "RFC 9110 §15.6.6", line(b"GET /healthz HTTP/3.0"), 505),
    refused("version HTTP/9.9", "RFC 9110 §15.6.6", line(b"GET /healthz HTTP/9.9"), 505),
    accepted("version HTTP/1.2", "RFC 9110 §2.5", line(b"GET /healthz HTTP/1.2"), 200),
    accepted("version HTTP/1.9", "RFC 9110 §2.5", line(b"GET /healthz HTTP/1.9"), 200),
    answered("version HTTP/1.0", "RFC 9112 §9.3", b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    # Overriding the method
    accepted(
        "GET that would delete",
        "tus 1.0.0 X-HTTP-Method-Override",
        b"GET /files/x HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: DELETE\r\nTus-Resumable: 1.0.0\r\n\r\n",
        400,
    ),
    accepted(
        "override that is no method",
        "tus 1.0.0 X-HTTP-Method-Override",
        b"POST /files/x HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        + GOOD,
        405,
        200,
    ),
]
