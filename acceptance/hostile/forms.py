"""Malformed contents of forms (RFC 2046 §5.1, RFC 7578); the boundary is `b`. Each must be refused."""

FILE = b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\nx\r\n'
TEXTS = b"".join(b"--b\r\nContent-Disposition: form-data; name=a%d\r\n\r\n\r\n" % number for number in range(101))
END = b"--b--\r\n"


def _part(head, content=b"x"):
    return b"--b\r\n" + head + b"\r\n\r\n" + content + b"\r\n" + END


def _named(parameters, more=b""):
    return _part(b"Content-Disposition: form-data; " + parameters + more)


# Name, content, status.
MALFORMED = [
    ("empty", b"", 400),
    ("only line ends", b"\r\n\r\n", 400),
    ("no boundary", b"hello", 400),
    ("another boundary", FILE.replace(b"--b", b"--c") + b"--c--\r\n", 400),
    ("boundary not at the beginning of a line", b"x" + FILE + END, 400),
    ("one hyphen", FILE[1:] + b"-b--\r\n", 400),
    ("line feeds only", (FILE + END).replace(b"\r\n", b"\n"), 400),
    ("carriage returns only", (FILE + END).replace(b"\r\n", b"\r"), 400),
    ("no last boundary", FILE, 400),
    ("half of the last boundary", FILE + b"--b-", 400),
    ("last boundary without its hyphens", FILE + b"--b", 400),
    ("end within a head", b"--b\r\nContent-Disposition: form-data", 400),
    ("end within a content", FILE[:-2], 400),
    ("text after a boundary", FILE.replace(b"--b\r\n", b"--bx\r\n") + END, 400),
    ("boundary as the beginning of a line", FILE + FILE.replace(b"\r\nx\r\n", b"\r\n\r\n--bx\r\n") + END, 400),
    ("NUL after a boundary", FILE.replace(b"--b\r\n", b"--b\0\r\n") + END, 400),
    ("too much white space after a boundary", FILE.replace(b"--b\r\n", b"--b" + b" " * 1000 + b"\r\n") + END, 400),
    ("too much before the first boundary", b"x" * 10_000 + b"\r\n" + FILE + END, 400),
    ("too many parts", b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n" * 1001 + END, 400),
    ("too many tokens", b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\n\r\n' * 1001 + END, 400),
    ("no head", b"--b\r\n\r\nx\r\n" + END, 400),
    ("no Content-Disposition", _part(b"Content-Type: text/plain"), 400),
    ("two Content-Dispositions", _named(b"name=a", b"\r\nContent-Disposition: form-data; name=b"), 400),
    ("another disposition", _part(b"Content-Disposition: attachment; name=a; filename=b"), 400),
    ("no name", _named(b"filename=x"), 400),
    ("two names", _named(b"name=a; name=b"), 400),
    ("two file names", _named(b"name=a; filename=b; filename=c"), 400),
    ("a name without an end", _named(b'name="a'), 400),
    ("a name that is not UTF-8", _named(b'name="\xfc"'), 400),
    ("a text that is not UTF-8", _part(b"Content-Disposition: form-data; name=a", b"\xfc"), 400),
    ("NUL in a head", _named(b'name="\0"'), 400),
    ("a field without a colon", _named(b"name=a", b"\r\nContent-Type"), 400),
    ("white space before a colon", _named(b"name=a", b"\r\nContent-Type : text/plain"), 400),
    ("a folded line", _named(b"name=a;\r\n filename=b"), 400),
    ("a bare line feed in a head", _named(b"name=a", b"\nContent-Type: text/plain"), 400),
    ("a bare carriage return in a head", _named(b"name=a", b"\rContent-Type: text/plain"), 400),
    ("a long head", _named(b"name=a", b"\r\nX: " + b"x" * 9000), 400),
    ("many fields", _named(b"name=a", b"\r\nX: x" * 20), 400),
    ("a multipart within", _named(b"name=a", b"\r\nContent-Type: multipart/mixed; boundary=c"), 400),
    ("a transfer encoding", _named(b"name=a; filename=b", b"\r\nContent-Transfer-Encoding: base64"), 400),
    ("a long text", _part(b"Content-Disposition: form-data; name=a", b"x" * 9000), 413),
    ("a long name", _named(b'name="' + b"x" * 8190 + b'"'), 400),
    ("many texts", TEXTS + END, 413),
    ("no part", END, 400),
    ("only text", _named(b"name=a"), 400),
    ("no file chosen", _part(b'Content-Disposition: form-data; name=a; filename=""', b""), 400),
]  # fmt: skip
