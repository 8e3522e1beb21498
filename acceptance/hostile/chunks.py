"""The chunked transfer coding (RFC 9112 §7.1)."""

from hostile import CANARY, GOOD, accepted, chunked, cut, refused

SIZE = "RFC 9112 §7.1"
EXTENSION = "RFC 9112 §7.1.1"
TRAILER = "RFC 9112 §7.1.2"
END = b"0\r\n\r\n"


def size(name, text):
    """`{}` behind a size line that is not one."""
    return refused(f"chunk size {name}", SIZE, chunked(text + b"\r\n{}\r\n" + END))


def bad(name, rule, content, status=400):
    return refused(f"chunks: {name}", rule, chunked(content), status)


def good(name, rule, content):
    return accepted(f"chunks: {name}", rule, chunked(content), 201)


CASES = [
    # Size
    size("missing", b""),
    size("of letters", b"zz"),
    size("with plus sign", b"+2"),
    size("negative", b"-2"),
    size("negative zero", b"-0"),
    size("with 0x", b"0x2"),
    size("with h", b"2h"),
    size("with underscore", b"0_2"),
    size("fraction", b"2.0"),
    size("with comma", b"2,"),
    size("twice", b"2 2"),
    size("behind a space", b" 2"),
    size("behind a tab", b"\t2"),
    size("before a space", b"2 "),
    size("before a tab", b"2\t"),
    size("before a space and an extension", b"2 ;a=b"),
    size("before NUL", b"2\x00"),
    size("behind NUL", b"\x002"),
    size("before CR", b"2\r"),
    size("behind an empty line", b"\r\n2"),
    size("in Arabic digits", "٢".encode()),
    size("in full-width letters", "Ａ".encode()),
    size("quoted", b'"2"'),
    size("2^63", b"8000000000000000"),
    size("2^64 - 1", b"ffffffffffffffff"),
    size("2^64 + 2", b"10000000000000002"),
    size("2^68 + 2", b"100000000000000002"),
    size("of 17 digits", b"00000000000000002"),
    size("of 1000 zeros", b"0" * 1000 + b"2"),
    bad("size 2^63 - 1", "RFC 9110 §15.5.14", b"7fffffffffffffff\r\n" + b" " * 2_000_000, 413),
    # Line ends
    bad("LF after the size", "RFC 9112 §2.2", b"2\n{}\r\n" + END),
    bad("LF after the content", "RFC 9112 §2.2", b"2\r\n{}\n" + END),
    bad("LF after the last chunk", "RFC 9112 §2.2", b"2\r\n{}\r\n0\n\r\n"),
    bad("LF at the end", "RFC 9112 §2.2", b"2\r\n{}\r\n0\r\n\n"),
    bad("LF only", "RFC 9112 §2.2", b"2\n{}\n0\n\n"),
    bad("CR after the size", "RFC 9112 §2.2", b"2\r{}\r\n" + END),
    bad("CR after the content", "RFC 9112 §2.2", b"2\r\n{}\r" + END),
    bad("CR after the last chunk", "RFC 9112 §2.2", b"2\r\n{}\r\n0\r\r\n"),
    bad("CR CR LF at the end", "RFC 9112 §2.2", b"2\r\n{}\r\n0\r\n\r\r\n"),
    bad("LF CR after the size", "RFC 9112 §2.2", b"2\n\r{}\r\n" + END),
    # Content
    bad("content longer than its size", SIZE, b"2\r\n{} \r\n" + END),
    bad("content shorter than its size", SIZE, b"3\r\n{}\r\n" + END),
    bad("no line end after the content", SIZE, b"2\r\n{}" + END),
    bad("empty line between chunks", SIZE, b"1\r\n{\r\n\r\n1\r\n}\r\n" + END),
    bad("request instead of a chunk", SIZE, b"2\r\n{}\r\n" + GOOD),
    bad("request behind the size 0", SIZE, b"2\r\n{}\r\n0\r\n" + CANARY),
    good("one chunk", SIZE, b"2\r\n{}\r\n" + END),
    good("a chunk for each byte", SIZE, b"1\r\n{\r\n1\r\n}\r\n" + END),
    good("zeros before the size", SIZE, b"0000000000000002\r\n{}\r\n0000000000000000\r\n\r\n"),
    good("capital letters", SIZE, b"A\r\n{        }\r\n" + END),
    accepted(
        "chunks: a request as content",
        SIZE,
        chunked(b"%x\r\n" % len(GOOD) + GOOD + b"\r\n" + END),
        400,
    ),
    # Extensions
    bad("extension with LF", EXTENSION, b"2;a\nb\r\n{}\r\n" + END),
    bad("extension that ends with LF", "RFC 9112 §2.2", b"2;a\n{}\r\n" + END),
    bad("extension with CR", EXTENSION, b"2;a\rb\r\n{}\r\n" + END),
    bad("extension with NUL", EXTENSION, b"2;a\x00b\r\n{}\r\n" + END),
    bad("extension with DEL", EXTENSION, b"2;a\x7fb\r\n{}\r\n" + END),
    bad("extension quoted over lines", EXTENSION, b'2;a="\r\nb"\r\n{}\r\n' + END),
    bad("extension without size", EXTENSION, b";a=b\r\n{}\r\n" + END),
    bad("extension of the last chunk with LF", "RFC 9112 §2.2", b"2\r\n{}\r\n0;a\n\r\n"),
    bad("extension of 5000 bytes", EXTENSION, b"2;" + b"a" * 5000 + b"\r\n{}\r\n" + END),
    bad("extension without end", EXTENSION, b"2;" + b"a" * 1_000_000),
    bad("extensions of 20000 bytes in all", EXTENSION, (b"1;" + b"a" * 998 + b"\r\n \r\n") * 20 + b"2\r\n{}\r\n" + END),
    good("extension", EXTENSION, b"2;a=b\r\n{}\r\n0;c\r\n\r\n"),
    good("extension in quotes", EXTENSION, b'2;a="b;c";d\r\n{}\r\n' + END),
    good("extension that is empty", EXTENSION, b"2;\r\n{}\r\n" + END),
    # Trailers
    bad("trailer without colon", TRAILER, b"2\r\n{}\r\n0\r\nabc\r\n\r\n"),
    bad("trailer without name", TRAILER, b"2\r\n{}\r\n0\r\n: a\r\n\r\n"),
    bad("trailer with space before the colon", "RFC 9112 §5.1", b"2\r\n{}\r\n0\r\nA : b\r\n\r\n"),
    bad("trailer that is folded", "RFC 9112 §5.2", b"2\r\n{}\r\n0\r\nA: b\r\n c\r\n\r\n"),
    bad("trailer behind a space", "RFC 9112 §5.2", b"2\r\n{}\r\n0\r\n A: b\r\n\r\n"),
    bad("trailer with LF", "RFC 9112 §2.2", b"2\r\n{}\r\n0\r\nA: b\n\r\n"),
    bad("trailer with CR", "RFC 9112 §2.2", b"2\r\n{}\r\n0\r\nA: b\rc\r\n\r\n"),
    bad("trailer with NUL", "RFC 9110 §5.5", b"2\r\n{}\r\n0\r\nA: b\x00\r\n\r\n"),
    bad("trailer of 10000 bytes", TRAILER, b"2\r\n{}\r\n0\r\nA: " + b"b" * 10_000 + b"\r\n\r\n"),
    bad("100 trailers", TRAILER, b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 100 + b"\r\n"),
    bad("trailers without end", TRAILER, b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 100_000),
    good("trailer", TRAILER, b"2\r\n{}\r\n0\r\nA: b\r\n\r\n"),
    good("Content-Length in the trailers", "RFC 9110 §6.5.1", b"2\r\n{}\r\n0\r\nContent-Length: 1000\r\n\r\n"),
    good("Transfer-Encoding in the trailers", "RFC 9110 §6.5.1", b"2\r\n{}\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n"),
    good("Host in the trailers", "RFC 9110 §6.5.1", b"2\r\n{}\r\n0\r\nHost: b\r\n\r\n"),
    good("Connection in the trailers", "RFC 9110 §6.5.1", b"2\r\n{}\r\n0\r\nConnection: close\r\n\r\n"),
    good("Authorization in the trailers", "RFC 9110 §6.5.1", b"2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n"),
    # The client leaves
    cut("chunks cut off in a size", "RFC 9112 §8", chunked(b"2"), {400, 408}),
    cut("chunks cut off in the content", "RFC 9112 §8", chunked(b"5\r\n{}"), {400, 408}),
    cut("chunks cut off before the last", "RFC 9112 §8", chunked(b"2\r\n{}\r\n"), {400, 408}),
    cut("chunks cut off in the trailers", "RFC 9112 §8", chunked(b"2\r\n{}\r\n0\r\nA: b\r\n"), {400, 408}),
]
