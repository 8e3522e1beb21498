"""Content to upload."""

import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def pieces(size, seed, piece=MIB):
    """Pseudo-random bytes in pieces; the same for the same seed, however they are cut."""
    # Several times as fast as `random`, which the tests would spend much of their time in.
    key = hashlib.sha256(str(seed).encode()).digest()[:16]
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    while size > 0:
        count = min(piece, size)
        yield stream.update(bytes(count))
        size -= count


def content(size, seed):
    return b"".join(pieces(size, seed))


def write_file(path, size, seed):
    """Writes pseudo-random bytes to a file and returns their SHA-256."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for piece in pieces(size, seed):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def hash_file(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def digest_and_size(data):
    """What stores and downloads are compared by."""
    return sha256(data), len(data)


def crc32c(data):
    """CRC-32C (RFC 3720 appendix B.4), bit by bit; for small content."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return (value ^ 0xFFFFFFFF).to_bytes(4, "big")
