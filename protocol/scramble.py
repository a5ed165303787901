"""What a client sends in place of its password: a proof for one nonce (facts 6.4 and 6.6)."""

import hashlib


def scramble_caching_sha2(password: bytes, nonce: bytes) -> bytes:
    """The 32 bytes that prove that the client knows its password; empty if the password is."""
    if not password:
        return b""
    stage1 = hashlib.sha256(password).digest()
    stage2 = hashlib.sha256(stage1).digest()
    return _xor(stage1, hashlib.sha256(stage2 + nonce).digest())


def scramble_native(password: bytes, nonce: bytes) -> bytes:
    """The same for mysql_native_password, in 20 bytes."""
    if not password:
        return b""
    # SHA-1 is the plugin's definition.
    stage1 = hashlib.sha1(password, usedforsecurity=False).digest()
    stage2 = hashlib.sha1(stage1, usedforsecurity=False).digest()
    return _xor(stage1, hashlib.sha1(nonce + stage2, usedforsecurity=False).digest())


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes([first ^ second for first, second in zip(a, b, strict=True)])
