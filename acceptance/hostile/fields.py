"""Names and values of fields, and fields that ask for something: Expect, Upgrade, Authorization, forwarding."""

from hostile import BYTES_NOT_IN_NAMES, accepted, answered, get, post, refused

NAME = "RFC 9110 §5.6.2"

CASES = [
    *[
        refused(f"name with {character.decode()}", NAME, get(b"X%cY: z" % character))
        for character in BYTES_NOT_IN_NAMES
    ],
    refused("name that is empty", "RFC 9110 §5.1", get(b": y")),
    refused("name beyond ASCII", NAME, get("Ümlaut: y".encode())),
    refused("name in Latin-1", NAME, get(b"\xdcmlaut: y")),
    refused("line without colon", "RFC 9112 §5", get(b"abc")),
    refused("line of a colon", "RFC 9110 §5.1", get(b":")),
    refused("request as a field", "RFC 9112 §5", get(b"GET /openapi.yaml HTTP/1.1")),
    accepted("name of token characters", NAME, get(b"!#$%&'*+-.^_`|~: y"), 200),
    accepted("value with colons", "RFC 9110 §5.5", get(b"X: a:b: c"), 200),
    accepted("value of obs-text", "RFC 9110 §5.5", get(b"X: \x80\xff"), 200),
    accepted("value that is a request", "RFC 9110 §5.5", get(b"X: GET /openapi.yaml HTTP/1.1"), 200),
    accepted("value with a tab", "RFC 9110 §5.5", get(b"X: a\tb"), 200),
    # Expect
    refused("Expect something else", "RFC 9110 §10.1.1", get(b"Expect: 200-ok"), 417),
    refused("Expect 100-continue and something else", "RFC 9110 §10.1.1", get(b"Expect: 100-continue, x"), 417),
    refused("Expect 100-continue with a parameter", "RFC 9110 §10.1.1", get(b"Expect: 100-continue;a=b"), 417),
    accepted("Expect 100-continue without content", "RFC 9110 §10.1.1", get(b"Expect: 100-continue"), 200),
    accepted(
        "Expect 100-continue with the content at once",
        "RFC 9110 §10.1.1",
        post(b"Expect: 100-continue", b"Content-Length: 2", content=b"{}"),
        100,
        201,
    ),
    accepted("Expect 100-CONTINUE", "RFC 9110 §10.1.1", get(b"Expect: 100-CONTINUE"), 200),
    # It is unknown whether a refused client sends its content anyway.
    answered(
        "Expect 100-continue, refused, and a request for content",
        "RFC 9110 §10.1.1",
        b"POST /nothing HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 500\r\n\r\n",
        404,
    ),
    # Upgrade
    accepted(
        "Upgrade to h2c",
        "RFC 9110 §7.8",
        get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"),
        200,
    ),
    accepted(
        "Upgrade to WebSocket",
        "RFC 9110 §7.8",
        get(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: AAAA"),
        200,
    ),
    accepted("Upgrade to TLS", "RFC 2817 §3", get(b"Connection: Upgrade", b"Upgrade: TLS/1.0"), 200),
    # Credentials
    accepted(
        "Authorization twice",
        "RFC 9110 §5.3",
        post(b"Authorization: Bearer x", b"Content-Length: 2", content=b"{}"),
        401,
    ),
    accepted(
        "Authorization in another case of the name",
        "RFC 9110 §5.3",
        post(b"AUTHORIZATION: Bearer x", b"Content-Length: 2", content=b"{}"),
        401,
    ),
    accepted(
        "Authorization of 8000 bytes",
        "RFC 6750 §2.1",
        get(b"Authorization: Bearer " + b"a" * 8000, target=b"/v1/keys"),
        {401, 404},
    ),
    # A field named in Connection is still a field of this request (RFC 9110 §7.6.1).
    accepted(
        "Authorization in the Connection field",
        "RFC 9110 §7.6.1",
        post(b"Connection: authorization, keep-alive", b"Content-Length: 2", content=b"{}"),
        201,
    ),
    accepted("Host in the Connection field", "RFC 9110 §7.6.1", get(b"Connection: host"), 200),
    # What only proxies may say
    accepted("X-Original-URL", "RFC 9110 §7.1", get(b"X-Original-URL: /v1/keys", b"X-Rewrite-URL: /v1/keys"), 200),
    accepted("Forwarded that is broken", "RFC 7239 §4", get(b'Forwarded: for="[::1";host=<>;proto=x:'), 200),
    accepted("X-Forwarded-Host with a path", "RFC 9110 §7.2", get(b"X-Forwarded-Host: a/../b"), 200),
    # Fields that would be answered to
    accepted("Accept that is broken", "RFC 9110 §12.5.1", get(b"Accept: ;;,,/;q=9,text/" + b"*" * 500), 200),
    accepted(
        "Range that is broken",
        "RFC 9110 §14.2",
        get(b"Range: bytes=9-1,-,--,99999999999999999999-", target=b"/openapi.yaml"),
        200,
    ),
    accepted(
        "If-None-Match that is broken",
        "RFC 9110 §13.1.2",
        get(b'If-None-Match: "", W/", "a', target=b"/openapi.yaml"),
        {200, 304},
    ),
    accepted("Accept-Encoding that is broken", "RFC 9110 §12.5.3", get(b"Accept-Encoding: gzip;q=,;,*"), 200),
]
