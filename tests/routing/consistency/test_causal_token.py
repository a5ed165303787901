"""Tokens: what was signed is read back, and nothing else is accepted."""

import hmac
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.causal_token import (
    MAX_TOKEN,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenKeys,
    TokenMalformedError,
    TokenTooLargeError,
    sign,
    verify,
)
from tests.support.gtid_sets import GTID_SETS, gtids

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
V = "a1b2c3d4-0000-4000-8000-0123456789ab"
KEYS = TokenKeys((b"0123456789abcdef",))
OTHER = TokenKeys((b"fedcba9876543210",))
NOW = 1_800_000_000
TIMES = st.integers(0, 2**63 - 1)


def signed(payload: bytes, keys: TokenKeys = KEYS, domain: bytes = b"tidegate token\0") -> str:
    """Make a token of these bytes, in the right format and with the right signature."""
    signature = hmac.digest(keys.keys[0], domain + payload, "sha256")[:16]
    return urlsafe_b64encode(payload + signature).decode().rstrip("=")


HEAD = b"\x01\x80\x80\x80\x80\x08"  # version 1, expiry 2**31


@given(required=GTID_SETS, expires=TIMES, now=TIMES)
def test_what_is_signed_comes_back_until_it_expires(
    required: GtidSet, expires: int, now: int
) -> None:
    token = sign(required, expires, KEYS)
    assert len(token) <= MAX_TOKEN
    assert token == sign(GtidSet.parse(str(required)), expires, KEYS)
    if now < expires:
        assert verify(token, now, KEYS) == required
    else:
        with pytest.raises(TokenExpiredError):
            verify(token, now, KEYS)


@given(first=GTID_SETS, second=GTID_SETS, times=st.tuples(TIMES, TIMES))
def test_what_differs_has_different_tokens(
    first: GtidSet, second: GtidSet, times: tuple[int, int]
) -> None:
    same = first == second and times[0] == times[1]
    assert (sign(first, times[0], KEYS) == sign(second, times[1], KEYS)) == same


def test_the_format() -> None:
    required = gtids(f"{U}:5-7:9,{V}:1:abc:2-3:x:1")
    uuid, other = bytes.fromhex(U.replace("-", "")), bytes.fromhex(V.replace("-", ""))
    payload = HEAD + uuid + bytes((2 << 1, 4, 2, 0, 0))
    payload += other + bytes((1 << 1 | 1, 0, 0))
    payload += b"\x03abc" + bytes((1 << 1 | 1, 1, 1)) + b"\x01x" + bytes((1 << 1, 0, 0))
    assert sign(required, 2**31, KEYS) == signed(payload)


def test_a_token_of_tags_only() -> None:
    required = gtids(f"{U}:a:1:b:2")
    assert verify(sign(required, NOW + 1, KEYS), NOW, KEYS) == required


@pytest.mark.parametrize(
    ("required", "characters"),
    [
        ("", 30),
        (f"{U}:1", 55),
        (f"{U}:12345678", 59),
        (f"{U}:1-12345678", 59),
        (f"{U}:1-1000000000000", 62),
        (f"{U}:1-12345678:12345690-12345699", 62),
        (f"{U}:1-12345678,{V}:1-5", 84),
        (f"{U}:1-12345678:backup:1-5", 72),
    ],
)
def test_sizes(required: str, characters: int) -> None:
    """One UUID with one interval, the usual case, takes less than 64 characters."""
    assert len(sign(gtids(required), NOW, KEYS)) == characters


def test_a_fragmented_set_takes_three_characters_for_each_interval() -> None:
    required = GtidSet({U: [(k, k + 1) for k in range(10, 2000, 2)]})
    assert required.interval_count == 995
    assert len(sign(required, NOW, KEYS)) <= 60 + 3 * 995


@given(required=GTID_SETS, data=st.data())
def test_no_changed_character_is_overlooked(required: GtidSet, data: st.DataObject) -> None:
    token = sign(required, NOW + 1, KEYS)
    index = data.draw(st.integers(0, len(token) - 1))
    changed = token[:index] + data.draw(st.characters()) + token[index + 1 :]
    if changed != token:
        with pytest.raises(TokenError):
            verify(changed, NOW, KEYS)


def test_no_changed_bit_is_overlooked() -> None:
    token = sign(gtids(f"{U}:1-3,{V}:tag:7"), NOW + 1, KEYS)
    for index in range(len(token)):
        for bit in range(8):
            changed = token[:index] + chr(ord(token[index]) ^ 1 << bit) + token[index + 1 :]
            with pytest.raises((TokenMalformedError, TokenForgedError)):
                verify(changed, NOW, KEYS)


def test_no_missing_or_added_character_is_overlooked() -> None:
    token = sign(gtids(f"{U}:1-3,{V}:tag:7"), NOW + 1, KEYS)
    for length in range(len(token)):
        for cut in (token[:length], token[length + 1 :], token[:length] + "A" + token[length:]):
            with pytest.raises((TokenMalformedError, TokenForgedError)):
                verify(cut, NOW, KEYS)


AROUND = ("{}=", "{}==", " {}", "{}\n", "{}A", "A{}", "{}é", "{}\0", "{}.")


@pytest.mark.parametrize("around", AROUND)
def test_text_that_no_encoder_writes_is_refused(around: str) -> None:
    for required in ("", f"{U}:1", f"{U}:1000"):  # of all lengths modulo 4
        token = sign(gtids(required), NOW + 1, KEYS)
        with pytest.raises((TokenMalformedError, TokenForgedError)):
            verify(around.format(token), NOW, KEYS)


def test_the_alphabet_of_plain_base64_is_refused() -> None:
    required = EMPTY
    for expires in range(NOW, NOW + 1000):
        token = sign(required, expires + 1, KEYS)
        if "-" in token or "_" in token:
            plain = token.replace("-", "+").replace("_", "/")
            with pytest.raises(TokenMalformedError):
                verify(plain, NOW, KEYS)


def test_the_last_second() -> None:
    token = sign(EMPTY, NOW, KEYS)
    assert verify(token, NOW - 1, KEYS) == EMPTY
    with pytest.raises(TokenExpiredError):
        verify(token, NOW, KEYS)


def test_keys_can_be_changed() -> None:
    old, new = OTHER.keys[0], KEYS.keys[0]
    before = sign(EMPTY, NOW + 1, TokenKeys((old,)))
    between = TokenKeys((new, old))
    assert verify(before, NOW, between) == EMPTY
    after = sign(EMPTY, NOW + 1, between)
    assert after == sign(EMPTY, NOW + 1, TokenKeys((new,)))
    assert verify(after, NOW, TokenKeys((old, new))) == EMPTY
    with pytest.raises(TokenForgedError):
        verify(before, NOW, TokenKeys((new,)))


def test_a_signature_for_another_purpose_is_none_here() -> None:
    with pytest.raises(TokenForgedError):
        verify(signed(HEAD, domain=b""), NOW, KEYS)


def test_keys_are_long_and_not_shown() -> None:
    for keys in ((), (b"",), (b"0" * 15,), (b"0" * 16, b"0" * 15)):
        with pytest.raises(ValueError, match="key"):
            TokenKeys(keys)
    assert "0123" not in repr(KEYS)


@pytest.mark.parametrize("expires", [-1, 2**63])
def test_a_time_that_cannot_be_written(expires: int) -> None:
    with pytest.raises(ValueError, match="cannot expire"):
        sign(EMPTY, expires, KEYS)


def test_an_expired_forgery_is_a_forgery() -> None:
    with pytest.raises(TokenForgedError):
        verify(sign(EMPTY, NOW - 1, OTHER), NOW, KEYS)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_versions(version: int) -> None:
    with pytest.raises(TokenMalformedError, match="version"):
        verify(signed(bytes((version,)) + HEAD[1:]), NOW, KEYS)


UUID = bytes(range(16))


@pytest.mark.parametrize(
    "body",
    [
        UUID[:-1],
        UUID,
        UUID + b"\x80",
        UUID + b"\x00",
        UUID + b"\x02",
        UUID + b"\x02\x00",
        UUID + b"\x04\x00\x00",
        UUID + b"\x02\x00\x00\x00",
        UUID + b"\x02\x80\x00\x00",
        UUID + b"\x82\x00\x00\x00",
        UUID + b"\x02\x00" + b"\xff" * 9 + b"\x00",
        UUID + b"\x02\x00" + b"\xff" * 8 + b"\x7f",
        UUID + b"\xfe" + b"\xff" * 7 + b"\x7f\x00\x00",
        UUID + b"\x03\x00\x00",
        UUID + b"\x03\x00\x00\x00\x02\x00\x00",
        UUID + b"\x01\x01a\x00",
        UUID + b"\x01\x01A\x02\x00\x00",
        UUID + b"\x01\x01\xe9\x02\x00\x00",
        UUID + b"\x01\x03a:1\x02\x00\x00",
        UUID + b"\x01\x21" + b"a" * 33 + b"\x02\x00\x00",
        UUID + b"\x01\x21a",
        UUID + b"\x01\x01b\x03\x00\x00\x01a\x02\x00\x00",
        UUID + b"\x01\x01a\x03\x00\x00\x01a\x02\x05\x00",
        UUID + b"\x02\x00\x00" + UUID + b"\x02\x05\x00",
        b"\xff" * 16 + b"\x02\x00\x00" + UUID + b"\x02\x00\x00",
    ],
)
def test_what_no_signer_writes_is_refused_though_it_is_signed(body: bytes) -> None:
    with pytest.raises(TokenMalformedError):
        verify(signed(HEAD + body), NOW, KEYS)


def test_a_well_formed_body_is_taken() -> None:
    """Otherwise the test above would prove nothing."""
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert verify(signed(HEAD + UUID + b"\x02\x00\x00"), NOW, KEYS) == gtids(f"{uuid}:1")
    body = UUID + b"\x01\x01a\x03\x00\x00\x01b\x02\x00\x00"
    assert verify(signed(HEAD + body), NOW, KEYS) == gtids(f"{uuid}:a:1:b:1")


@pytest.mark.parametrize("head", [b"\x01", b"\x01\x80", b"\x01\x80\x00", b"\x01" + b"\xff" * 10])
def test_expiries_that_no_signer_writes(head: bytes) -> None:
    with pytest.raises(TokenMalformedError):
        verify(signed(head), 0, KEYS)


def test_the_longest_token() -> None:
    def fragmented(count: int) -> GtidSet:
        return GtidSet({U: [(k, k + 1) for k in range(2, 2 * count + 1, 2)]})

    # 4096 characters are 3072 bytes: 6 + 16 + 2 + 2 for each interval + 16.
    longest = fragmented(1516)
    token = sign(longest, NOW + 1, KEYS)
    assert len(token) == MAX_TOKEN
    assert verify(token, NOW, KEYS) == longest
    for count in (1517, 2047, 2048, 10_000):
        with pytest.raises(TokenTooLargeError):
            sign(fragmented(count), NOW, KEYS)
    with pytest.raises(TokenTooLargeError):
        verify(token + "A", NOW, KEYS)
    with pytest.raises(TokenTooLargeError):
        verify("é" * 5000, NOW, KEYS)


def test_messages_do_not_repeat_the_token() -> None:
    token = sign(gtids(f"{U}:1"), NOW, KEYS)
    for text, keys in ((token, KEYS), (token, OTHER), (token[:-1], KEYS), (token + "=", KEYS)):
        with pytest.raises(TokenError) as raised:
            verify(text, NOW, keys)
        assert token[:8] not in str(raised.value)
