import base64
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ConfigError, load
from proxy.config.secret_files import read_keys
from routing.consistency.causal_token import MIN_KEY


def keys_of(path: Path, content: bytes) -> tuple[bytes, ...]:
    path.write_bytes(content)
    return read_keys(path)


KEYS = st.binary(min_size=MIN_KEY, max_size=64)


@given(st.lists(KEYS, min_size=1, max_size=5, unique=True), st.data())
def test_hex_and_base64_give_the_key_back(
    tmp_path_factory: pytest.TempPathFactory, keys: list[bytes], data: st.DataObject
) -> None:
    ends = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"])
    lines = []
    for key in keys:
        text = base64.b64encode(key)
        # What looks like hex is hex.
        if data.draw(st.booleans()) or re.fullmatch(rb"[0-9A-Fa-f]+", text):
            text = key.hex().encode()
        lines.append(text + data.draw(ends))
    path = tmp_path_factory.getbasetemp() / "keys"
    assert keys_of(path, b"".join(lines)) == tuple(keys)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b"correct horse battery", b"correct horse battery"),
        (b"AbCdXy" * 4, base64.b64decode(b"AbCdXy" * 4)),
        (b"only16letterslik", b"only16letterslik"),  # 12 bytes, were it base64
        (b"not-hex-0123456789ab", b"not-hex-0123456789ab"),
        (b"0123456789abcdef0", b"0123456789abcdef0"),  # an odd number of digits
        ("schlüssel für uns".encode(), "schlüssel für uns".encode()),
        (b"\xff" * 16, b"\xff" * 16),
        (b"A" * 32, b"\xaa" * 16),
    ],
)
def test_how_a_line_is_read(tmp_path: Path, line: bytes, key: bytes) -> None:
    assert keys_of(tmp_path / "keys", line) == (key,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no key; want one per line"),
        (b"\n \n", "holds no key"),
        (b"only 15 letters", "line 1: a key of 15 bytes is too short; want at least 16"),
        (b"ab" * 16 + b"\n\n" + b"cd" * 15, "line 3: a key of 15 bytes is too short"),
        (b"ab" * 16 + b"\n" + b"AB" * 16, "line 2: is the key of line 1 again"),
    ],
)
def test_errors_name_the_line_and_not_the_key(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(None, {"primary": ["db1"], "token-key-file": [str(path)]})
    text = str(caught.value)
    assert text.startswith(f"--token-key-file: {path}")
    assert message in text
    for line in content.decode().split("\n"):
        assert not line.strip() or line not in text
