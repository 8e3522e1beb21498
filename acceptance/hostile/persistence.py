"""Requests one after the other on a connection, and what stands between them (RFC 9112 §9)."""

from hostile import CANARY, GOOD, accepted, answered, chunked, cut, get, post

SMUGGLED = b"GET /v1/uploads HTTP/1.1\r\nHost: smuggled\r\n\r\n"
PIPELINE = "RFC 9112 §9.3.2"
PERSISTENCE = "RFC 9112 §9.3"

CASES = [
    # Garbage behind a good request: the first is answered, the rest is refused.
    answered("garbage after a GET", PIPELINE, GOOD + b"\x00\x01\x02garbage\r\n\r\n", 200, 400),
    answered("text after a GET", PIPELINE, GOOD + b"and now for something else\r\n\r\n", 200, 400),
    answered("LF after a GET", "RFC 9112 §2.2", GOOD + b"\n", 200, 400),
    answered("NUL after a GET", PIPELINE, GOOD + b"\x00", 200, 400),
    answered("space after a GET", PIPELINE, GOOD + b" ", 200, 400),
    answered("TLS hello after a GET", PIPELINE, GOOD + b"\x16\x03\x01\x02\x00\x01\x00", 200, 400),
    answered("WebSocket frame after a GET", PIPELINE, GOOD + b"\x81\x85\x01\x02\x03\x04hello", 200, 400),
    answered("HTTP/2 preface after a GET", PIPELINE, GOOD + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 200, 505),
    answered("bad request after ten good ones", PIPELINE, GOOD * 10 + b"GET / HTTP/1.1\r\n\r\n", *[200] * 10, 400),
    answered("smuggled length after a good request", "RFC 9112 §6.3", GOOD + get(b"Content-Length: 1, 1"), 200, 400),
    answered(
        "content of a GET that says none",
        "RFC 9112 §6.3",
        GOOD + b'{"a":"b"}' + b"\r\n\r\n",
        200,
        400,
    ),
    answered(
        "content longer than its length", "RFC 9112 §6.3", post(b"Content-Length: 2", content=b"{}{}\r\n\r\n"), 201, 400
    ),
    answered("content behind the last chunk", "RFC 9112 §7.1", chunked(b"2\r\n{}\r\n0\r\n\r\n{}\r\n\r\n"), 201, 400),
    answered("chunks behind the last chunk", "RFC 9112 §7.1", chunked(b"2\r\n{}\r\n0\r\n\r\n0\r\n\r\n"), 201, 400),
    # A request inside content is content.
    accepted(
        "request in content that nobody reads",
        "RFC 9112 §6.3",
        b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
        404,
    ),
    accepted(
        "request in content that is refused",
        "RFC 9112 §6.3",
        b"POST /v1/tencent/signatures HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
        401,
    ),
    accepted(
        "request in the content of a GET",
        "RFC 9110 §9.3.1",
        get(b"Content-Length: %d" % len(SMUGGLED)) + SMUGGLED,
        200,
    ),
    accepted(
        "request in the content of a DELETE",
        "RFC 9110 §9.3.5",
        b"DELETE /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
        404,
    ),
    accepted(
        "request in JSON content",
        "RFC 9112 §6.3",
        post(b"Content-Length: %d" % len(SMUGGLED), content=SMUGGLED),
        {400, 422},
    ),
    # Chunked content that nobody reads: how long it is, is not known.
    answered(
        "request in chunks that nobody reads",
        "RFC 9112 §9.3",
        b"POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(SMUGGLED)
        + SMUGGLED
        + b"\r\n0\r\n\r\n",
        404,
    ),
    answered(
        "bad chunks that nobody reads",
        "RFC 9112 §7.1",
        b"POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + SMUGGLED,
        404,
    ),
    answered(
        "chunks of a GET",
        "RFC 9112 §7.1",
        get(b"Transfer-Encoding: chunked") + b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n",
        200,
    ),
    answered(
        "large content that nobody reads",
        "RFC 9112 §9.3",
        b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + SMUGGLED * 4000,
        404,
    ),
    # Connection
    answered("request after close", PERSISTENCE, get(b"Connection: close") + GOOD, 200),
    answered("request after Close", PERSISTENCE, get(b"Connection: Close") + GOOD, 200),
    answered("request after keep-alive, close", PERSISTENCE, get(b"Connection: keep-alive, close") + GOOD, 200),
    answered(
        "request after close in a second field", PERSISTENCE, get(b"Connection: x", b"Connection: close") + GOOD, 200
    ),
    answered("request after HTTP/1.0", PERSISTENCE, b"GET /healthz HTTP/1.0\r\n\r\n" + GOOD, 200),
    answered(
        "request after close, with content",
        PERSISTENCE,
        post(b"Connection: close", b"Content-Length: 2", content=b"{}") + GOOD,
        201,
    ),
    accepted("request after closed", PERSISTENCE, get(b"Connection: closed") + GOOD, 200, 200),
    accepted(
        "request after HTTP/1.0 that is kept", PERSISTENCE, get(b"Connection: keep-alive", version=b"HTTP/1.0"), 200
    ),
    accepted("Keep-Alive field", PERSISTENCE, get(b"Keep-Alive: timeout=0, max=0"), 200),
    accepted("Proxy-Connection field", "RFC 9112 §C.2.2", get(b"Proxy-Connection: close"), 200),
    accepted("empty line between requests", "RFC 9112 §2.2", GOOD + b"\r\n" + GOOD, 200, 200),
    accepted("500 requests at once", PIPELINE, GOOD * 500, *[200] * 500),
    # The client leaves
    cut("nothing at all", PERSISTENCE, b""),
    cut("an empty line", "RFC 9112 §2.2", b"\r\n"),
    cut("half a request line", "RFC 9112 §8", b"GET /hea"),
    cut("half a head", "RFC 9112 §8", b"GET /healthz HTTP/1.1\r\nHost: a\r\n"),
    cut("all but the last byte", "RFC 9112 §8", GOOD[:-1]),
    cut("a request and half of another", "RFC 9112 §8", GOOD + GOOD[:-1], 200),
    cut("a request", "RFC 9112 §9.6", GOOD, 200),
    cut("two requests", "RFC 9112 §9.6", GOOD + CANARY, 200, 200),
]
