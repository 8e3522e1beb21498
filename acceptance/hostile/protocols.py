"""Other protocols on the plain port of an HTTP server."""

import struct

from hostile import GOOD, refused

LINE = "RFC 9112 §3"
CLIENT_HELLO = bytes.fromhex(
    "16030100c8010000c40303"
    + "00" * 32
    + "20"
    + "00" * 32
    + "0004130113020100007700000010000e00000b6578616d706c652e636f6d"
)

CASES = [
    refused(
        "HTTP/2 preface", "RFC 9113 §3.4", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 505
    ),
    refused("HTTP/2 frame without preface", "RFC 9113 §4.1", b"\x00\x00\x0c\x04\x00\x00\x00\x00\x00" + b"\x00" * 12),
    refused("TLS 1.3 hello", LINE, CLIENT_HELLO),
    refused("TLS alert", LINE, b"\x15\x03\x01\x00\x02\x02\x28"),
    refused("SSL 2 hello", LINE, b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"),
    refused("PROXY protocol 1", LINE, b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n" + GOOD),
    refused("PROXY protocol 1, unknown", LINE, b"PROXY UNKNOWN\r\n" + GOOD),
    refused("PROXY protocol 2", LINE, b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + b"\x7f\x00\x00\x01" * 3 + GOOD),
    refused("SSH", LINE, b"SSH-2.0-OpenSSH_9.2\r\n"),
    refused("SMTP", LINE, b"EHLO a.example\r\n"),
    refused("FTP", LINE, b"USER anonymous\r\n"),
    refused("IRC", LINE, b"NICK a\r\nUSER a 0 * :a\r\n"),
    refused("RTSP", "RFC 9112 §2.3", b"OPTIONS rtsp://a/ RTSP/1.0\r\nCSeq: 1\r\n\r\n"),
    refused("SIP", "RFC 9112 §2.3", b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP a\r\n\r\n"),
    refused("ICAP", "RFC 9112 §2.3", b"OPTIONS icap://a/x ICAP/1.0\r\nHost: a\r\n\r\n"),
    refused("Redis", LINE, b"*1\r\n$4\r\nPING\r\n"),
    refused("Redis inline", LINE, b"PING\r\n"),
    refused("memcached", LINE, b"get a\r\n"),
    refused("PostgreSQL", LINE, struct.pack(">II", 8, 80877103)),
    refused("SMB", LINE, b"\x00\x00\x00\x2f\xffSMB\x72" + b"\x00" * 40),
    refused("RDP", LINE, b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00"),
    refused("SOCKS 5", LINE, b"\x05\x01\x00"),
    refused("SOCKS 4", LINE, b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00"),
    refused(
        "DNS over TCP",
        LINE,
        b"\x00\x1d\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01",
    ),
    refused("MQTT", LINE, b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd"),
    refused("FastCGI", LINE, b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"),
    refused("AJP", LINE, b"\x12\x34\x00\x01\x0a"),
    refused("Java serialisation", LINE, b"\xac\xed\x00\x05sr\x00"),
    refused("gzip", LINE, b"\x1f\x8b\x08\x00\x00\x00\x00\x00"),
    refused("answer instead of a request", LINE, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    refused("ICY", LINE, b"ICY 200 OK\r\n\r\n"),
    refused("byte order mark", LINE, b"\xef\xbb\xbf" + GOOD),
    refused("UTF-16", LINE, GOOD.decode().encode("utf-16")),
    refused("zeros", LINE, bytes(10_000)),
    refused("all bytes", LINE, bytes(range(256)) * 10),
    refused("spaces", LINE, b" " * 100, 400),
    refused("shell", LINE, b"() { :; }; /bin/true\r\n"),
]
