from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.frame_numbers import FrameNumbers
from protocol.packet import frame


@given(
    payloads=st.lists(st.binary(max_size=10) | st.just(b"x" * 300), max_size=20),
    odd=st.lists(st.integers(0, 255), min_size=20, max_size=20),
    first=st.integers(0, 255),
    chunk=st.integers(1, 50),
)
def test_numbers_follow_each_other_however_it_is_cut(
    payloads: list[bytes], odd: list[int], first: int, chunk: int
) -> None:
    data = b"".join(map(frame, payloads, odd))
    numbers = FrameNumbers(first)
    out = b"".join(numbers.renumber(data[n : n + chunk]) for n in range(0, len(data), chunk))
    assert out == b"".join(frame(payload, first + n) for n, payload in enumerate(payloads))
    assert numbers.next == (first + len(payloads)) & 0xFF
    numbers.begin(7)
    assert numbers.renumber(frame(b"a", 1)) == frame(b"a", 7)


def test_a_packet_of_several_frames() -> None:
    long = bytes(MAX_PACKET_PAYLOAD)
    assert FrameNumbers(254).renumber(frame(long, 0)) == frame(long, 254)
