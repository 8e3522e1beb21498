"""An identity provider (OpenID Connect): its configuration, its keys, and whatever token a test wants it to sign."""

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

CONFIGURATION = "/.well-known/openid-configuration"


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, size=None):
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8))


class Key:
    """One with which tokens are signed: RS256, PS256, ES256 or EdDSA."""

    def __init__(self, identifier, algorithm="RS256", bits=2048):
        self.id = identifier
        self.algorithm = algorithm
        if algorithm in ("RS256", "PS256"):
            self.private = rsa.generate_private_key(65537, bits)
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def json(self):
        about = {"kid": self.id, "use": "sig", "alg": self.algorithm}
        if self.algorithm == "EdDSA":
            return about | {"kty": "OKP", "crv": "Ed25519", "x": encoded(self.private.public_key().public_bytes_raw())}
        public = self.private.public_key().public_numbers()
        if self.algorithm in ("RS256", "PS256"):
            return about | {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
        return about | {"kty": "EC", "crv": "P-256", "x": number(public.x, 32), "y": number(public.y, 32)}

    @property
    def public_pem(self):
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, message):
        if self.algorithm == "RS256":
            return self.private.sign(message, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "PS256":
            return self.private.sign(message, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
        if self.algorithm == "EdDSA":
            return self.private.sign(message)
        first, second = utils.decode_dss_signature(self.private.sign(message, ec.ECDSA(hashes.SHA256())))
        return first.to_bytes(32) + second.to_bytes(32)


class IdentityProvider:
    """Serves on its own port; `failing` is a status for all requests, or `hang`."""

    def __init__(self):
        self.keys = [Key("one"), Key("two", "ES256")]
        self.asked = []
        self.failing = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                provider.asked.append(self.path)
                if provider.failing == "hang":
                    # Longer than any client waits.
                    time.sleep(30)
                documents = {
                    CONFIGURATION: {"issuer": provider.url, "jwks_uri": f"{provider.url}/keys"},
                    "/keys": {"keys": [key.json for key in provider.keys]},
                }
                body = json.dumps(documents.get(self.path, {})).encode()
                self.send_response(provider.failing or (200 if self.path in documents else 404))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def claims(self, **changes):
        """Those of a token that is right; `None` is not there."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": "app", "sub": "anna", "iat": now, "nbf": now, "exp": now + 600} | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, header=None, signature=None, **changes):
        """Signed with the first key, or with `key`, or with `signature`, which is bytes or makes them."""
        key = key or self.keys[0]
        header = {"alg": key.algorithm, "typ": "JWT", "kid": key.id} | (header or {})
        header = {name: value for name, value in header.items() if value is not None}
        message = ".".join(encoded(json.dumps(part).encode()) for part in (header, self.claims(**changes)))
        make = key.sign if signature is None else signature
        return f"{message}.{encoded(make(message.encode()) if callable(make) else make)}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def hmac_by(secret):
    """A signature like HS256 with a public text as the key."""
    return lambda message: hmac.new(secret, message, hashlib.sha256).digest()
