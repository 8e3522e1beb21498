"""Writes botocore.json: random requests, and how botocore signs them.

    python3 -m venv /tmp/botocore && /tmp/botocore/bin/pip install botocore==1.44.5
    /tmp/botocore/bin/python Tests/Fixtures/sigv4/make.py

The same requests come out each time. The files are read by Tests/SigningTests/AWS. In the others are the values of
AWS's test suite for Signature Version 4 (suite.json: aws-c-auth, tests/aws-signing-test-suite/v4, and what only its
first edition of 2015 has) and of the examples in the Amazon S3 API Reference (documentation.json).
"""

import base64
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

FILE = Path(__file__).parent / "botocore.json"
RANDOM = random.Random(20130524)

WORDS = [
    "photo.jpg", "a b", "a+b", "a%2Fb", "100%", "ключ", "é", "e\u0301", "🎬", "~tilde_-.", "'(quote)*!", "q?x=1&y=2",
    "#1", "a;b:c@d,e$f", "[x]{y}", "\\back", '"', "<>|^`", "tab\there", "new\nline", "\x7f", "中文 文件",
    "=", "..", ".", "",
]  # fmt: skip
HEADERS = [
    ("Content-Type", "text/plain; charset=utf-8"), ("x-amz-meta-name", "  two   words "), ("X-Amz-Meta-Utf", "é 中"),
    ("x-amz-meta-list", "b"), ("x-amz-meta-list", "a"), ("x-amz-acl", "private"), ("Range", "bytes=0-9"),
    ("X-Amz-Storage-Class", "REDUCED_REDUNDANCY"), ("x-amz-meta-empty", ""), ("x-amz-meta-tab", "a\t\tb"),
    ("User-Agent", "sluice"), ("Expect", "100-continue"), ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
]  # fmt: skip
SIGNERS = {
    ("s3", False): botocore.auth.S3SigV4Auth,
    ("s3", True): botocore.auth.S3SigV4QueryAuth,
    ("general", False): botocore.auth.SigV4Auth,
    ("general", True): botocore.auth.SigV4QueryAuth,
}
ADDED = {"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"}


def text(alphabet, count):
    return "".join(RANDOM.choice(alphabet) for _ in range(count))


def case(number):
    rules = RANDOM.choice(["s3", "s3", "general"])
    lifetime = RANDOM.choice([None, None, 1, 900, 604800])
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    credentials = Credentials(
        "AKIA" + text(letters, 16),
        text(letters + letters.lower() + "/+", 40),
        base64.b64encode(RANDOM.randbytes(RANDOM.randrange(30, 90))).decode() if RANDOM.random() < 0.4 else None,
    )
    service = "s3" if rules == "s3" else RANDOM.choice(["execute-api", "sns", "sts"])
    region = RANDOM.choice(["us-east-1", "eu-central-1", "ap-northeast-3", "garage"])
    host = RANDOM.choice(["bucket.s3.amazonaws.com", "localhost:9000", "s3.example.org:8443"])
    time = RANDOM.randrange(1_000_000_000, 4_000_000_000)
    method = RANDOM.choice(["GET", "PUT", "POST", "HEAD", "DELETE"])
    path = "/" + quote("/".join(RANDOM.choices(WORDS, k=RANDOM.randrange(0, 5))), safe="/~")
    query = [(RANDOM.choice(WORDS[:-1]), RANDOM.choice(WORDS)) for _ in range(RANDOM.randrange(0, 6))]
    if lifetime:
        query = list(dict(query).items())  # botocore keeps one of a name there.
    elif query and RANDOM.random() < 0.5:
        query += [(query[0][0], word) for word in ["z", "", "Z"]]
    if RANDOM.random() < 0.2:
        query += [("uploads", "")]
    headers = RANDOM.sample(HEADERS, RANDOM.randrange(0, 6))
    body = RANDOM.randbytes(RANDOM.randrange(0, 50))

    request = AWSRequest(method=method, url=f"https://{host}{path}", data=body)
    if lifetime:
        request.data = b""
        request.params = dict(query)
    else:
        request.params = query
    for name, value in headers:
        request.headers[name] = value
    if rules == "s3" and not lifetime:
        kind = RANDOM.choice(["signed", "signed", "unsigned", "trailer"])
        if kind == "unsigned":
            request.context["client_config"] = Config(s3={"payload_signing_enabled": False})
        elif kind == "trailer":
            request.context["checksum"] = {"request_algorithm": {"in": "trailer", "name": "x-amz-checksum-crc32"}}

    botocore.auth.get_current_datetime = lambda: datetime.fromtimestamp(time, UTC).replace(tzinfo=None)
    cls = SIGNERS[rules, lifetime is not None]
    signer = cls(credentials, service, region, expires=lifetime) if lifetime else cls(credentials, service, region)
    payload = signer.payload(request)
    signer.add_auth(request)
    if lifetime:
        result = dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True))
        names, signature = result["X-Amz-SignedHeaders"], result["X-Amz-Signature"]
    else:
        parts = request.headers["Authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(", ")
        result = dict(part.split("=", 1) for part in parts)
        names, signature = result["SignedHeaders"], result["Signature"]
    return {
        "name": f"botocore-{number}",
        "accessKeyID": credentials.access_key,
        "secretAccessKey": credentials.secret_key,
        "sessionToken": credentials.token,
        "region": region,
        "service": service,
        "rules": rules,
        "time": time,
        "lifetime": lifetime,
        "method": method,
        "path": path,
        "query": query,
        "headers": [("Host", host), *(header for header in headers if header[0].lower() not in ADDED)],
        "payload": payload,
        "signedHeaders": names,
        "signature": signature,
    }


def main():
    lines = [
        json.dumps({key: value for key, value in case(number).items() if value is not None}) for number in range(64)
    ]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
