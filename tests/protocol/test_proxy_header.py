"""Headers of the PROXY protocol: whose connection it is, and no more bytes than they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.proxy_header import MalformedHeaderError, Source, begins, missing, parse

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def binary(command: int, family: int, block: bytes, values: bytes = b"") -> bytes:
    length = (len(block) + len(values)).to_bytes(2, "big")
    return SIGNATURE + bytes((command, family)) + length + block + values


def ipv4(source: str, port: int) -> bytes:
    return (
        bytes(map(int, source.split("."))) + b"\x0a\0\0\1" + port.to_bytes(2, "big") + b"\x0c\xea"
    )


IPV6 = bytes.fromhex("20010db8" + "00" * 11 + "01") + bytes(16) + b"\xff\xff\x0c\xea"
HEADERS = [
    (b"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\n", Source("192.0.2.1", 56324)),
    (b"PROXY TCP6 2001:db8::1 ::1 65535 3306\r\n", Source("2001:db8::1", 65535)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (binary(0x21, 0x11, ipv4("192.0.2.1", 4660)), Source("192.0.2.1", 4660)),
    (binary(0x21, 0x11, ipv4("192.0.2.1", 0), b"\x03\0\4abcd"), Source("192.0.2.1", 0)),
    (binary(0x21, 0x21, IPV6), Source("2001:db8::1", 65535)),
    (binary(0x20, 0x00, b""), None),
    (binary(0x20, 0x11, ipv4("192.0.2.1", 1)), None),
    (binary(0x21, 0x31, bytes(216)), None),
]


def read(stream: bytes) -> tuple[bytes, bytes]:
    """The header that a stream begins with, read as a receiver does, and the rest."""
    data = stream[:4]
    assert begins(data)
    while more := missing(data):
        assert len(data) + more <= len(stream), "cut off"
        data += stream[len(data) : len(data) + more]
    return data, stream[len(data) :]


@pytest.mark.parametrize(("header", "source"), HEADERS)
def test_a_header_is_read_and_nothing_behind_it(header: bytes, source: Source | None) -> None:
    found, rest = read(header + b"\x10\0\0\1the client")
    assert (found, rest) == (header, b"\x10\0\0\1the client")
    assert parse(found) == source


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 192.0.2.1 10.0.0.1 56324\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 56324 65536\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 10.0.0.1 1 2\r\n",
        b"PROXY TCP5 192.0.2.1 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 +1 2\r\n",
        b"PROXY TCP4 \xff 10.0.0.1 1 2\r\n",
        b"PROXYTCP4 192.0.2.1 10.0.0.1 1 2\r\n",
        binary(0x11, 0x11, ipv4("192.0.2.1", 1)),
        binary(0x22, 0x11, ipv4("192.0.2.1", 1)),
        binary(0x21, 0x11, b"\1\2\3"),
        binary(0x21, 0x21, ipv4("192.0.2.1", 1)),
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHeaderError):
        parse(read(data)[0])


@pytest.mark.parametrize(
    "data", [b"PROXY " + b"x" * 200, SIGNATURE + b"\x21\x11\xff\xff", SIGNATURE[:11] + b"X" * 9]
)
def test_no_length_is_believed(data: bytes) -> None:
    with pytest.raises(MalformedHeaderError):
        read(data)


@given(st.binary(max_size=300), st.sampled_from([b"PROXY ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
def test_any_bytes_end_well(data: bytes, begin: bytes) -> None:
    stream = begin + data
    header = stream[:4]
    try:
        while more := missing(header):
            assert more > 0
            if len(header) + more > len(stream):
                return
            header = stream[: len(header) + more]
        parse(header)
    except MalformedHeaderError:
        return


def test_a_client_without_one_is_told_by_its_first_bytes() -> None:
    assert not begins(b"\xb0\0\0\1")
    assert begins(b"PROX")
    assert begins(SIGNATURE[:4])
