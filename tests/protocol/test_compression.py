import functools
import json
import os
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Algorithm, Compression, agreed_algorithm
from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import (
    PacketOutOfOrderError,
    PacketTooLargeError,
    ProtocolError,
    UncompressError,
)
from protocol.packet import frame
from tests.support import json_vectors

BOTH = (Algorithm.ZLIB, Algorithm.ZSTD)
VECTORS = json_vectors.load("compression")


def drain(side: Compression, data: bytes, size: int = 1 << 30) -> list[bytes]:
    found: list[bytes] = []
    for begin in range(0, len(data), size):
        side.receive_data(data[begin : begin + size])
        while (plain := side.next_plain()) is not None:
            found.append(plain)
    return found


def packet(body: bytes, size: int = 0, sequence_id: int = 0) -> bytes:
    return (
        len(body).to_bytes(3, "little") + bytes((sequence_id,)) + size.to_bytes(3, "little") + body
    )


def sequence_ids(data: bytes) -> list[int]:
    found = []
    while data:
        found.append(data[3])
        data = data[7 + int.from_bytes(data[:3], "little") :]
    return found


def squeezed(
    algorithm: Algorithm, plain: bytes, *, says_size: bool = True, level: int = 3
) -> bytes:
    if algorithm is Algorithm.ZLIB:
        return zlib.compress(plain)
    return zstandard.ZstdCompressor(level=level, write_content_size=says_size).compress(plain)


@functools.cache
def bomb(algorithm: Algorithm) -> bytes:
    size = 300 << 20
    if algorithm is Algorithm.ZSTD:
        return zstandard.ZstdCompressor(level=1).compress(b"x" * size)
    squeezer = zlib.compressobj(1)
    body = b"".join(squeezer.compress(b"x" * (1 << 20)) for _ in range(size >> 20))
    return body + squeezer.flush()


def cost(algorithm: Algorithm, data: bytes, *, refused: bool = False) -> tuple[int, int]:
    """Bytes given out, none of them kept, and the most that Python held meanwhile."""
    side = Compression(algorithm, 6, server=True)
    given = 0
    tracemalloc.start()
    try:
        side.receive_data(data)
        while (plain := side.next_plain()) is not None:
            given += len(plain)
    except UncompressError:
        assert refused
    else:
        assert not refused
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return given, peak


def conversations() -> Iterable[list[dict[str, object]]]:
    keys = {(vector["algorithm"], vector["level"]) for vector in VECTORS}
    for key in sorted(keys):
        yield [v for v in VECTORS if (v["algorithm"], v["level"]) == key]


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    "conversation", list(conversations()), ids=lambda c: f"{c[0]['algorithm']}{c[0]['level']}"
)
def test_a_real_conversation_is_read_and_written(
    conversation: list[dict[str, object]], size: int
) -> None:
    """What a real server and a real client said, from the server's place and from the client's."""
    algorithm = Algorithm(str(conversation[0]["algorithm"]))
    level = json.loads(str(conversation[0]["level"]))
    sides = {server: Compression(algorithm, level, server=server) for server in (True, False)}
    heard = {server: Compression(algorithm, level, server=server) for server in (True, False)}
    for current in conversation:
        data = bytes.fromhex(str(current["data"]))
        server = bool(current["from_server"])
        plains = [bytes.fromhex(plain) for _, plain in current["packets"]]  # type: ignore[attr-defined]
        assert drain(sides[not server], data, size) == plains
        # Compressors differ in their bytes from version to version, not in what they mean.
        sent = b"".join(sides[server].send(plain) for plain in plains)
        assert sequence_ids(sent) == sequence_ids(data)
        assert drain(heard[not server], sent, size) == plains
        heard[server].send(b"".join(plains))


@pytest.mark.parametrize("algorithm", BOTH)
@given(
    payloads=st.lists(
        st.binary(max_size=120) | st.integers(0, 5000).map(lambda n: b"tide" * n), max_size=12
    ),
    first=st.integers(0, 255),
    cuts=st.lists(st.integers(1, 3000), min_size=1, max_size=20),
    chunk=st.integers(1, 4000),
    server=st.booleans(),
)
def test_what_is_sent_arrives(
    algorithm: Algorithm,
    payloads: list[bytes],
    first: int,
    cuts: list[int],
    chunk: int,
    server: bool,
) -> None:
    plain = b"".join(frame(payload, first + n) for n, payload in enumerate(payloads))
    sender = Compression(algorithm, 3, server=server)
    receiver = Compression(algorithm, 3, server=not server)
    sent = b""
    position = 0
    while position < len(plain):
        step = cuts[position % len(cuts)]
        sent += sender.send(plain[position : position + step])
        position += step
    if not server and sent and sent[3] != 0:
        return  # no client begins so
    commands = b"".join(frame(payload, 0) for payload in payloads)
    assert b"".join(drain(receiver, sent, chunk)) == (plain if server else commands)
    assert receiver.buffered == 0


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_every_command_begins_with_0_in_a_packet_of_its_own(sizes: list[int]) -> None:
    client = Compression(Algorithm.ZLIB, 6, server=False)
    commands = [frame(b"\x03" * size, 0) for size in sizes]
    sent = client.send(b"".join(commands))
    assert sequence_ids(sent) == [0] * len(sizes)
    assert drain(Compression(Algorithm.ZLIB, 6, server=True), sent) == commands


def test_an_answer_goes_on_from_its_commands_last_id() -> None:
    server = Compression(Algorithm.ZLIB, 6, server=True)
    command = frame(b"\x03select 1", 0)
    drain(server, packet(command[:6]) + packet(command[6:], sequence_id=1))
    assert sequence_ids(server.send(frame(b"a", 1)) + server.send(frame(b"b", 2))) == [2, 3]
    drain(server, packet(command))
    assert sequence_ids(server.send(frame(b"a", 1))) == [1]


def test_more_than_256_frames_of_a_local_file() -> None:
    client = Compression(Algorithm.ZLIB, 6, server=False)
    server = Compression(Algorithm.ZLIB, 6, server=True)
    command = frame(b"\x03load data", 0)
    file = [frame(b"x" * 60, n) for n in range(2, 700)]
    assert drain(server, client.send(command)) == [command]
    assert drain(client, server.send(frame(b"\xfbname", 1))) == [frame(b"\xfbname", 1)]
    end = frame(b"", 255)
    sent = [client.send(part) for part in [*file, end, command]]
    assert [packet[3] for packet in sent[:-1]] == [n & 0xFF for n in range(2, 701)]
    assert sent[-1][3] == 0
    # The file's parts are numbered where they are passed on; here the ids begin anew at times.
    heard = drain(server, b"".join(sent))
    assert [part[4:] for part in heard] == [part[4:] for part in [*file, end, command]]
    assert heard[:200] + heard[-1:] == [*file[:200], command]


def test_a_packet_is_never_in_more_than_two_compressed_ones() -> None:
    server = Compression(Algorithm.ZSTD, 3, server=True)
    drain(server, packet(frame(b"\x03", 0)))
    long = frame(bytes(MAX_PACKET_PAYLOAD + 5), 1)
    sent = b"".join(server.send(long[n : n + 70_000]) for n in range(0, len(long), 70_000))
    assert sequence_ids(sent) == [1, 2]
    client = Compression(Algorithm.ZSTD, 3, server=False)
    client.send(frame(b"\x03", 0))
    assert b"".join(drain(client, sent)) == long


@pytest.mark.parametrize(("size", "stored"), [(45, True), (46, False)])
def test_what_is_short_is_stored(size: int, stored: bool) -> None:
    sent = Compression(Algorithm.ZLIB, 6, server=True).send(frame(b"x" * size, 0))
    assert (sent[4:7] == bytes(3)) is stored


def test_what_does_not_shrink_is_stored() -> None:
    plain = frame(bytes(range(200)), 0)
    assert Compression(Algorithm.ZLIB, 6, server=True).send(plain) == packet(plain)


@pytest.mark.parametrize("algorithm", BOTH)
def test_lies_are_refused(algorithm: Algorithm) -> None:
    plain = frame(b"\x03" + b"select 1 " * 20, 0)
    body = squeezed(algorithm, plain)
    size = len(plain)
    lies = {
        "claims more": packet(body, size + 1),
        "claims less": packet(body, size - 1),
        "is cut": packet(body[:-1], size),
        "goes on": packet(body + b"x", size),
        "is twice": packet(body + body, 2 * size),
        "is garbage": packet(b"garbage", size),
        "is empty": packet(b"", size),
        "does not say": packet(squeezed(algorithm, plain, says_size=False), size + 1),
        "says nothing, holds more": packet(squeezed(algorithm, plain, says_size=False), size - 1),
    }
    for name, lie in lies.items():
        side = Compression(algorithm, 6, server=True)
        side.receive_data(lie)
        with pytest.raises(UncompressError):
            print(name, side.next_plain())
    for honest in (packet(body, size), packet(squeezed(algorithm, plain, says_size=False), size)):
        assert drain(Compression(algorithm, 6, server=True), honest) == [plain]


@pytest.mark.parametrize("claimed", [1, 100, MAX_PACKET_PAYLOAD])
@pytest.mark.parametrize("algorithm", BOTH)
def test_a_bomb_does_not_go_off(algorithm: Algorithm, claimed: int) -> None:
    """What 300 MiB of nothing are squeezed to is refused before more than was claimed is there."""
    body = bomb(algorithm)
    given, peak = cost(algorithm, packet(body, claimed), refused=True)
    assert given <= claimed
    assert peak < (1 << 20) + 2 * len(body)


@pytest.mark.parametrize("algorithm", BOTH)
def test_a_few_kb_cost_little_memory(algorithm: Algorithm) -> None:
    plain = frame(b"\x03" + bytes(MAX_PACKET_PAYLOAD - 6), 0)
    compressed = packet(squeezed(algorithm, plain), len(plain))
    assert len(compressed) < 20_000
    given, peak = cost(algorithm, compressed)
    assert given == len(plain)
    assert peak < 1 << 20


MEASURED = """
import resource, sys, zlib, zstandard
from protocol.compression import Algorithm, Compression
algorithm, body, size = Algorithm(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3])
packet = len(body).to_bytes(3, "little") + bytes(1) + size.to_bytes(3, "little") + body
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
side = Compression(algorithm, 6, server=True)
side.receive_data(packet)
given = 0
while (plain := side.next_plain()) is not None:
    given += len(plain)
print(given, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("algorithm", "level", "most_kb"),
    [(Algorithm.ZLIB, 6, 1 << 10), (Algorithm.ZSTD, 3, 4 << 10), (Algorithm.ZSTD, 22, 18 << 10)],
)
def test_a_few_kb_cost_a_window_outside_of_python(
    algorithm: Algorithm, level: int, most_kb: int
) -> None:
    """Whatever the libraries keep: zstd's window is 2 MiB at the usual level, a packet at most."""
    plain = frame(b"\x03" + bytes(MAX_PACKET_PAYLOAD - 6), 0)
    body = squeezed(algorithm, plain, level=level)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, algorithm, body.hex(), str(len(plain))],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    given, peak_kb = map(int, done.stdout.split())
    assert given == len(plain)
    assert peak_kb < most_kb


def test_a_zstd_frame_may_not_want_a_longer_window_than_any_packet() -> None:
    plain = frame(b"\x03" + b"select 1 " * 20, 0)
    for bits, allowed in ((24, True), (25, False), (27, False), (30, False)):
        parameters = zstandard.ZstdCompressionParameters.from_level(
            3, window_log=bits, write_content_size=False
        )
        squeezer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        body = squeezer.compress(plain) + squeezer.flush()
        assert zstandard.get_frame_parameters(body).window_size == 1 << bits
        side = Compression(Algorithm.ZSTD, 6, server=True)
        side.receive_data(packet(body, len(plain)))
        if allowed:
            assert side.next_plain() == plain
        else:
            with pytest.raises(UncompressError):
                side.next_plain()


@pytest.mark.parametrize(
    "size", [1 << 16, (1 << 16) + 1, (1 << 17) - 1, 3 << 20, MAX_PACKET_PAYLOAD - 4]
)
@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("algorithm", BOTH)
def test_what_is_long_comes_in_slices_and_whole(
    algorithm: Algorithm, says_size: bool, size: int
) -> None:
    noise = random.Random(5).randbytes(50_000)
    payload = (b"\x03" + (noise + bytes(1 << 17)) * (size // (1 << 17) + 1))[: size - 4]
    plain = frame(payload, 0)
    following = frame(b"\x0e", 0)
    data = packet(squeezed(algorithm, plain, says_size=says_size), len(plain)) + packet(following)
    for step in (1 << 30, 10_000):
        found = drain(Compression(algorithm, 6, server=True), data, step)
        assert max(map(len, found)) <= 1 << 16
        assert b"".join(found) == plain + following


def test_what_is_stored_comes_in_slices_and_whole() -> None:
    plain = frame(b"\x03" + random.Random(5).randbytes(1 << 20), 0)
    found = drain(Compression(Algorithm.ZLIB, 6, server=True), packet(plain) + packet(plain))
    assert max(map(len, found)) <= 1 << 16
    assert b"".join(found) == plain * 2


@pytest.mark.parametrize("algorithm", BOTH)
def test_the_end_of_a_long_lie_is_not_given_out(algorithm: Algorithm) -> None:
    """So the command that ends there is never whole."""
    plain = frame(b"\x03" + b"select 1 " * (1 << 15), 0)
    body = squeezed(algorithm, plain)
    size = len(plain)
    lies = [
        *(packet(body, size + 1), packet(body, size - 1), packet(body[:-1], size)),
        *(packet(body + b"x", size), packet(body + bytes(1 << 17), size)),
        *(packet(body + body, 2 * size), packet(b"garbage" * 99, size), packet(b"", size)),
        *(packet(body[:-4], size), packet(body[:20], size), packet(bytes(1 << 17), size)),
    ]
    if algorithm is Algorithm.ZLIB:
        spoilt = body[:-2] + bytes((body[-2] ^ 1,)) + body[-1:]
    else:
        summed = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
        assert drain(Compression(algorithm, 6, server=True), packet(summed, size))[-1]
        lies.append(packet(summed[:-4], size))
        spoilt = summed[:-2] + bytes((summed[-2] ^ 1,)) + summed[-1:]
    lies.append(packet(spoilt, size))
    for lie in lies:
        given, _ = cost(algorithm, lie, refused=True)
        assert given < size


@pytest.mark.parametrize("size", [100_000, 100_001])
def test_whoever_may_send_little_is_refused_more_at_the_header(size: int) -> None:
    for header in (packet(b"", size), size.to_bytes(3, "little") + bytes(4)):
        side = Compression(Algorithm.ZLIB, 6, server=True)
        side.most = 100_000
        side.receive_data(header)
        if size > side.most:
            with pytest.raises(PacketTooLargeError):
                side.next_plain()
        elif header[0]:
            assert side.next_plain() is None


@pytest.mark.parametrize("sequence_id", [1, 5, 255])
def test_a_wrong_sequence_id_is_refused(sequence_id: int) -> None:
    side = Compression(Algorithm.ZLIB, 6, server=True)
    side.receive_data(packet(frame(b"\x03select 1", 0), sequence_id=sequence_id))
    with pytest.raises(PacketOutOfOrderError):
        side.next_plain()


@pytest.mark.parametrize("sequence_id", [0, 2, 255])
def test_a_commands_second_packet_must_follow_its_first(sequence_id: int) -> None:
    side = Compression(Algorithm.ZLIB, 6, server=True)
    command = frame(b"\x03select 1", 0)
    assert drain(side, packet(command[:6])) == [command[:6]]
    side.receive_data(packet(command[6:], sequence_id=sequence_id))
    with pytest.raises(PacketOutOfOrderError):
        side.next_plain()


@pytest.mark.parametrize(
    ("numbers", "cut"),
    [
        *(([number], cut) for number in (0, 1, 200) for cut in (1, 2, 3, 4, 5, 9, 1 << 23)),
        *(([200, 7], 1 << 23), ([5, 9, 0], MAX_PACKET_PAYLOAD)),
    ],
)
def test_a_commands_frames_are_numbered_whatever_numbers_they_have(
    numbers: list[int], cut: int
) -> None:
    size = MAX_PACKET_PAYLOAD * (len(numbers) - 1) + 100
    command = bytearray(frame(b"x" * size, 0))
    expected = bytes(command) + frame(b"\x0e", 0)
    for position, number in enumerate(numbers):
        command[position * (MAX_PACKET_PAYLOAD + 4) + 3] = number
    side = Compression(Algorithm.ZLIB, 6, server=True)
    parts = [bytes(command[at : at + cut]) for at in range(0, len(command), cut)]
    data = b"".join(packet(part, sequence_id=k & 0xFF) for k, part in enumerate(parts))
    assert b"".join(drain(side, data + packet(frame(b"\x0e", 3)))) == expected


def test_commands_in_one_compressed_packet_begin_with_0_each() -> None:
    side = Compression(Algorithm.ZLIB, 6, server=True)
    both = frame(b"\x19\1\0\0\0", 4) + frame(b"\x0e", 5)
    assert drain(side, packet(both)) == [frame(b"\x19\1\0\0\0", 0) + frame(b"\x0e", 0)]


def test_what_goes_on_from_an_answer_keeps_its_numbers() -> None:
    """It is no command: a local file is numbered where it is passed on, and a login needs none."""
    side = Compression(Algorithm.ZLIB, 6, server=True)
    command = frame(b"\x03LOAD DATA", 9)
    assert drain(side, packet(command)) == [frame(b"\x03LOAD DATA", 0)]
    side.send(frame(b"\xfbfile", 1))
    content = frame(b"1", 77) + frame(b"", 3)
    assert drain(side, packet(content[:7], sequence_id=2)) == [content[:7]]
    assert drain(side, packet(content[7:], sequence_id=3)) == [content[7:]]
    assert drain(side, packet(command)) == [frame(b"\x03LOAD DATA", 0)]


def test_an_empty_compressed_packet_may_begin_a_command() -> None:
    side = Compression(Algorithm.ZLIB, 6, server=True)
    assert drain(side, packet(b"") + packet(frame(b"\x0e", 8), sequence_id=1)) == [
        b"",
        frame(b"\x0e", 0),
    ]


def test_a_servers_sequence_ids() -> None:
    client = Compression(Algorithm.ZLIB, 6, server=False)
    client.send(frame(b"\x03a", 0) + frame(b"\x03b", 0))
    for sequence_id in (1, 2, 1, 2, 3):
        assert drain(client, packet(b"x", sequence_id=sequence_id)) == [b"x"]
    assert drain(client, packet(b"ERR 4031", sequence_id=0)) == [b"ERR 4031"]
    client.receive_data(packet(b"x", sequence_id=7))
    with pytest.raises(PacketOutOfOrderError):
        client.next_plain()


def test_the_algorithm_that_is_agreed_on() -> None:
    zlib_too = Capability.CLIENT_COMPRESS | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    assert agreed_algorithm(zlib_too) is Algorithm.ZLIB
    assert agreed_algorithm(Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM) is Algorithm.ZSTD
    assert agreed_algorithm(Capability.CLIENT_PROTOCOL_41) is Algorithm.UNCOMPRESSED


@pytest.mark.parametrize("algorithm", BOTH)
@given(data=st.binary(max_size=200), server=st.booleans(), chunk=st.integers(1, 50))
def test_any_bytes(algorithm: Algorithm, data: bytes, server: bool, chunk: int) -> None:
    whole = Compression(algorithm, 3, server=server)
    parts = Compression(algorithm, 3, server=server)
    outcomes: list[object] = []
    for side, size in ((whole, 1 << 20), (parts, chunk)):
        try:
            outcomes.append(b"".join(drain(side, data, size)))
        except ProtocolError as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]
