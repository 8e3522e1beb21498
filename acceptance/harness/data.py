"""Content to upload."""

import hashlib
import random

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def pieces(size, seed, piece=MIB):
    """Pseudo-random bytes in pieces; the same for the same seed."""
    generator = random.Random(seed)
    while size > 0:
        count = min(piece, size)
        yield generator.randbytes(count)
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
