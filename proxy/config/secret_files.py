"""Reads files that hold secrets. No error message shows what is in them."""

import base64
import binascii
import re
from pathlib import Path
from typing import Final

from routing.consistency.causal_token import MIN_KEY

_SHORTEST_TOKEN: Final = 16
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/=-]{1,1024}")  # RFC 6750, b64token
_HEX: Final = re.compile(rb"(?:[0-9A-Fa-f]{2})+")


def read_password(path: Path) -> bytes:
    """Read a file of one line.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds more than one line.
    """
    password = path.read_bytes()
    for newline in (b"\r\n", b"\n"):
        if password.endswith(newline):
            password = password.removesuffix(newline)
            break
    if b"\0" in password or b"\n" in password:
        raise ValueError(f"{path} must hold one line, the password")
    return password


def read_token(path: Path) -> bytes:
    """Read a file of one line, a token that HTTP can carry.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds something else, or too little.
    """
    token = path.read_bytes().strip()
    if len(token) < _SHORTEST_TOKEN or not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{path} must hold one line, a token of at least {_SHORTEST_TOKEN} letters and digits,"
            " such as openssl rand -hex 32 makes"
        )
    return token


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Read a file of one key per line, each in hex, in base64 or as it is.

    Empty lines do not count.

    Raises:
        OSError: it cannot be read.
        ValueError: a key is too short or is there twice, or there is none.
    """
    lines: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        text = line.strip()
        if not text:
            continue
        key = _key(text)
        if len(key) < MIN_KEY:
            raise ValueError(
                f"{path}: line {number}: a key of {len(key)} bytes is too short; want at least"
                f" {MIN_KEY}, such as openssl rand -hex 32 makes"
            )
        if key in lines:
            raise ValueError(f"{path}: line {number}: is the key of line {lines[key]} again")
        lines[key] = number
    if not lines:
        raise ValueError(f"{path} holds no key; want one per line")
    return tuple(lines)


def _key(text: bytes) -> bytes:
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
    # A passphrase may look like base64.
    return key if len(key) >= MIN_KEY else text
