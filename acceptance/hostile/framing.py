"""Framing: Content-Length, Transfer-Encoding, both, and disguised forms of them (RFC 9112 §6)."""

from hostile import accepted, answered, chunked, cut, post, refused

BODY = b"{}"
END = b"0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked"


def length(name, value, rule="RFC 9110 §8.6"):
    return refused(f"Content-Length {name}", rule, post(b"Content-Length: " + value, content=BODY))


def coding(name, value, status=400, rule="RFC 9112 §6.1"):
    return refused(f"Transfer-Encoding {name}", rule, post(b"Transfer-Encoding: " + value, content=END), status)


def both(name, *fields):
    return refused(f"both: {name}", "RFC 9112 §6.1", post(*fields, content=END))


CASES = [
    # Both
    both("length first", b"Content-Length: 5", CHUNKED),
    both("coding first", CHUNKED, b"Content-Length: 5"),
    both("length 0", b"Content-Length: 0", CHUNKED),
    both("lower case", b"content-length: 5", b"transfer-encoding: chunked"),
    both("upper case", b"CONTENT-LENGTH: 5", b"TRANSFER-ENCODING: CHUNKED"),
    both("other fields between", b"Content-Length: 5", *[b"X-%d: y" % number for number in range(20)], CHUNKED),
    both("identity", b"Content-Length: 5", b"Transfer-Encoding: identity"),
    both("empty coding", b"Content-Length: 5", b"Transfer-Encoding:"),
    both("bad length", b"Content-Length: x", CHUNKED),
    both("length in the Connection field", b"Connection: content-length", b"Content-Length: 5", CHUNKED),
    both("coding in the Connection field", b"Connection: transfer-encoding", b"Content-Length: 5", CHUNKED),
    refused("both in HTTP/1.0", "RFC 9112 §6.1", post(b"Content-Length: 5", CHUNKED, content=END, version=b"HTTP/1.0")),
    # Content-Length, more than one
    refused(
        "Content-Length twice, equal",
        "RFC 9112 §6.3",
        post(b"Content-Length: 2", b"Content-Length: 2", content=BODY),
    ),
    refused(
        "Content-Length twice, differing",
        "RFC 9112 §6.3",
        post(b"Content-Length: 2", b"Content-Length: 0", content=BODY),
    ),
    refused(
        "Content-Length twice, in other cases",
        "RFC 9112 §6.3",
        post(b"content-length: 2", b"CONTENT-LENGTH: 3", content=BODY),
    ),
    refused(
        "Content-Length twice, one empty",
        "RFC 9112 §6.3",
        post(b"Content-Length: 2", b"Content-Length:", content=BODY),
    ),
    refused(
        "Content-Length twice on a GET",
        "RFC 9112 §6.3",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n",
    ),
    length("list of equal numbers", b"2, 2", "RFC 9112 §6.3"),
    length("list without space", b"2,2", "RFC 9112 §6.3"),
    length("list of differing numbers", b"2, 3", "RFC 9112 §6.3"),
    length("number and comma", b"2,"),
    length("comma and number", b",2"),
    # Content-Length, no number
    length("empty", b""),
    length("white space only", b" \t "),
    length("with plus sign", b"+2"),
    length("negative", b"-2"),
    length("negative zero", b"-0"),
    length("hexadecimal", b"0x2"),
    length("octal", b"0o2"),
    length("fraction", b"2.0"),
    length("exponent", b"2e0"),
    length("with unit", b"2B"),
    length("with parameter", b"2;a=b"),
    length("with underscore", b"1_0"),
    length("with space inside", b"1 0"),
    length("with tab inside", b"1\t0"),
    length("quoted", b'"2"'),
    length("in Arabic digits", "٢".encode()),
    length("in full-width digits", "２".encode()),
    length("superscript", b"\xb2"),
    length("behind a no-break space", b"\xa02"),
    length("NaN", b"NaN"),
    length("Infinity", b"Infinity"),
    # Content-Length, overflow
    length("2^63", b"9223372036854775808"),
    length("2^64 + 2", b"18446744073709551618"),
    length("2^128", b"340282366920938463463374607431768211456"),
    length("of 400 digits", b"9" * 400),
    refused(
        "Content-Length 2^63 - 1",
        "RFC 9110 §15.5.14",
        post(b"Content-Length: 9223372036854775807", content=BODY),
        413,
    ),
    # Content-Length that is good
    accepted("Content-Length 2", "RFC 9110 §8.6", post(b"Content-Length: 2", content=BODY), 201),
    accepted("Content-Length with zeros", "RFC 9110 §8.6", post(b"Content-Length: 0002", content=BODY), 201),
    accepted(
        "Content-Length with 300 zeros",
        "RFC 9110 §8.6",
        post(b"Content-Length: " + b"0" * 300 + b"2", content=BODY),
        201,
    ),
    accepted("Content-Length in white space", "RFC 9112 §5", post(b"Content-Length: \t 2 \t", content=BODY), 201),
    accepted("Content-Length without space", "RFC 9112 §5", post(b"Content-Length:2", content=BODY), 201),
    # Transfer-Encoding
    coding("empty", b""),
    coding("identity", b"identity", rule="RFC 9112 §6.3"),
    coding("gzip", b"gzip", rule="RFC 9112 §6.3"),
    coding("cow", b"cow", rule="RFC 9112 §6.3"),
    coding("gzip, chunked", b"gzip, chunked", 501),
    coding("identity, chunked", b"identity, chunked", 501),
    coding("cow, chunked", b"cow, chunked", 501),
    coding("chunked, gzip", b"chunked, gzip", rule="RFC 9112 §6.3"),
    coding("chunked, identity", b"chunked, identity", rule="RFC 9112 §6.3"),
    coding("chunked twice", b"chunked, chunked"),
    coding("chunked and comma", b"chunked,"),
    coding("comma and chunked", b", chunked"),
    coding("with parameter", b"chunked;q=1", rule="RFC 9112 §7.1"),
    coding("with empty parameter", b"chunked;", rule="RFC 9112 §7.1"),
    coding("in quotes", b'"chunked"', rule="RFC 9112 §7"),
    coding("in single quotes", b"'chunked'", rule="RFC 9112 §7"),
    coding("xchunked", b"xchunked", rule="RFC 9112 §6.3"),
    coding("chunkedx", b"chunkedx", rule="RFC 9112 §6.3"),
    coding("chunk", b"chunk", rule="RFC 9112 §6.3"),
    coding("chun ked", b"chun ked", rule="RFC 9112 §7"),
    coding("behind a no-break space", b"\xa0chunked", rule="RFC 9112 §7"),
    coding("behind a byte order mark", b"\xef\xbb\xbfchunked", rule="RFC 9112 §7"),
    # U+212A is `k` in lower case.
    coding("with a Kelvin sign", "chun\u212aed".encode(), rule="RFC 9112 §7"),
    coding("behind a vertical tab", b"\x0bchunked", rule="RFC 9110 §5.5"),
    coding("chunked and NUL", b"chunked\x00", rule="RFC 9110 §5.5"),
    coding("folded", b"\r\n chunked", rule="RFC 9112 §5.2"),
    coding("folded with a tab", b"\r\n\tchunked", rule="RFC 9112 §5.2"),
    refused("Transfer-Encoding twice", "RFC 9112 §6.1", post(CHUNKED, CHUNKED, content=END)),
    refused(
        "Transfer-Encoding chunked, then identity",
        "RFC 9112 §6.3",
        post(CHUNKED, b"Transfer-Encoding: identity", content=END),
    ),
    refused(
        "Transfer-Encoding identity, then chunked",
        "RFC 9112 §6.1",
        post(b"Transfer-Encoding: identity", CHUNKED, content=END),
        501,
    ),
    refused(
        "Transfer-Encoding chunked, then cow", "RFC 9112 §6.3", post(CHUNKED, b"Transfer-encoding: cow", content=END)
    ),
    refused(
        "Transfer-Encoding chunked, then empty", "RFC 9112 §6.1", post(CHUNKED, b"Transfer-Encoding:", content=END)
    ),
    refused("Transfer-Encoding in HTTP/1.0", "RFC 9112 §6.1", post(CHUNKED, content=END, version=b"HTTP/1.0")),
    refused(
        "Transfer-Encoding on a GET with gzip",
        "RFC 9112 §6.1",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + END,
        501,
    ),
    # Names in disguise
    refused("Transfer-Encoding before a space", "RFC 9112 §5.1", post(b"Transfer-Encoding : chunked", content=END)),
    refused("Transfer-Encoding before a tab", "RFC 9112 §5.1", post(b"Transfer-Encoding\t: chunked", content=END)),
    refused("Transfer-Encoding behind a space", "RFC 9112 §5.2", post(b" Transfer-Encoding: chunked", content=END)),
    refused("Transfer-Encoding behind a tab", "RFC 9112 §5.2", post(b"\tTransfer-Encoding: chunked", content=END)),
    refused("Transfer Encoding", "RFC 9110 §5.1", post(b"Transfer Encoding: chunked", content=END)),
    refused("Transfer-Encoding behind LF", "RFC 9112 §2.2", post(b"X: y\nTransfer-Encoding: chunked", content=END)),
    refused("Transfer-Encoding behind CR", "RFC 9112 §2.2", post(b"X: y\rTransfer-Encoding: chunked", content=END)),
    refused("Transfer-Encoding around LF", "RFC 9112 §2.2", post(b"Transfer-Encoding:\n chunked", content=END)),
    refused("Transfer-Encoding behind NUL", "RFC 9110 §5.1", post(b"\x00Transfer-Encoding: chunked", content=END)),
    refused("Transfer-Encoding before NUL", "RFC 9110 §5.1", post(b"Transfer-Encoding\x00: chunked", content=END)),
    refused("Transfer-Encoding with two colons", "RFC 9112 §7", post(b"Transfer-Encoding:: chunked", content=END)),
    refused("Content-Length before a space", "RFC 9112 §5.1", post(b"Content-Length : 2", content=BODY)),
    refused("Content-Length behind a space", "RFC 9112 §5.2", post(b" Content-Length: 2", content=BODY)),
    refused("Content-Length behind LF", "RFC 9112 §2.2", post(b"X: y\nContent-Length: 2", content=BODY)),
    refused("Content-Length before NUL", "RFC 9110 §5.1", post(b"Content-Length\x00: 2", content=BODY)),
    # Names that only look alike: without framing there is no content (RFC 9112 §6.3), and what follows is no request.
    answered("Content_Length", "RFC 9112 §6.3", post(b"Content_Length: 2", content=BODY), 201, 400),
    answered("Transfer_Encoding", "RFC 9112 §6.3", post(b"Transfer_Encoding: chunked", content=END), 201, 400),
    answered("TE instead of Transfer-Encoding", "RFC 9110 §10.1.4", post(b"TE: chunked", content=END), 201, 400),
    # Codings that are good
    accepted("Transfer-Encoding chunked", "RFC 9112 §7.1", chunked(b"2\r\n{}\r\n0\r\n\r\n"), 201),
    accepted(
        "Transfer-Encoding in other cases",
        "RFC 9112 §7",
        post(b"TRANSFER-encoding: ChUnKeD", content=b"2\r\n{}\r\n0\r\n\r\n"),
        201,
    ),
    accepted(
        "Transfer-Encoding in white space",
        "RFC 9112 §5",
        post(b"Transfer-Encoding: \t chunked \t", content=b"2\r\n{}\r\n0\r\n\r\n"),
        201,
    ),
    # Content that never comes whole
    cut("content cut off", "RFC 9112 §8", post(b"Content-Length: 100", content=BODY), {400, 408}),
    cut("content missing", "RFC 9112 §8", post(b"Content-Length: 2"), {400, 408}),
]
