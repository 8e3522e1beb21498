"""An identity provider (OpenID Connect): its configuration, its keys, and whatever token a test wants it to sign."""

import base64
import hashlib
import hmac
import json
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from harness.http_server import LocalServer

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


class IdentityProvider(LocalServer):
    """`failing` is a status for all requests, or `hang`."""

    def __init__(self):
        self.keys = [Key("one"), Key("two", "ES256")]
        self.asked = []
        self.failing = None
        super().__init__()

    def handle(self, request):
        self.asked.append(request.path)
        if self.failing == "hang":
            # Longer than any client waits.
            time.sleep(30)
        documents = {
            CONFIGURATION: {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [key.json for key in self.keys]},
        }
        body = json.dumps(documents.get(request.path, {})).encode()
        status = self.failing or (200 if request.path in documents else 404)
        request.respond(status, body, "application/json")

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


def hmac_by(secret):
    """A signature like HS256 with a public text as the key."""
    return lambda message: hmac.new(secret, message, hashlib.sha256).digest()
