"""What a segment holds, and how much of a damaged one is certain."""

import gzip
import hashlib
import re
import sys
from collections.abc import Callable
from io import BytesIO

import pytest
import zstandard

from spark_jobs.records import content
from spark_jobs.records.content import DamagedError, measure, unpacked

TEXT = "".join(f"{number * 7919 % 104_729}\n" for number in range(100_000)).encode()
"""Several blocks of any compression."""


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


GZ, ZST = gzip.compress(TEXT, mtime=0), zstd(TEXT)
DAMAGES = {
    "cut.gz": (GZ[: len(GZ) // 2], "cut short; its first [0-9,]+ bytes count"),
    "in its header.gz": (GZ[:9], "cut short; none of it counts"),
    "without its checksum.gz": (GZ[:-8], f"cut short; its first {len(TEXT):,} bytes count"),
    "empty.gz": (b"", "cut short; none of it counts"),
    "zeros.gz": (bytes(4096), "cut short; none of it counts"),
    "flipped.gz": (flipped(GZ, len(GZ) // 2), "damaged, .*; none of it counts"),
    "wrong checksum.gz": (flipped(GZ, len(GZ) - 6), "damaged, .* incorrect data check; none .*"),
    "second member.gz": (
        GZ + flipped(GZ, len(GZ) // 2),
        f"damaged, .*; its first {len(TEXT):,} bytes count",
    ),
    "rubbish behind.gz": (GZ + b"rubbish", f"damaged, .*; its first {len(TEXT):,} bytes count"),
    "no gzip.gz": (TEXT, "damaged, .*; none of it counts"),
    "cut.zst": (ZST[: len(ZST) // 2], "cut short; its first [0-9,]+ bytes count"),
    "empty.zst": (b"", "cut short; none of it counts"),
    "flipped.zst": (flipped(ZST, len(ZST) // 2), "damaged, .*; none of it counts"),
    "wrong checksum.zst": (flipped(ZST, len(ZST) - 1), "damaged, .*; none of it counts"),
    "second frame.zst": (ZST + ZST[:100], f"cut short; its first {len(TEXT):,} bytes count"),
    "no zst.zst": (TEXT, "damaged, .*; none of it counts"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_has_what_is_certain(damage: str) -> None:
    data, why = DAMAGES[damage]
    suffix = damage[damage.index(".") :]
    measured = measure(BytesIO(data), suffix)
    assert measured.damage is not None
    assert re.fullmatch(why, measured.damage)
    count = re.search("([0-9,]+) bytes", measured.damage)
    assert measured.certain == (int(count[1].replace(",", "")) if count else 0)
    assert measured.certain > 10_000 or not count
    pieces = []
    with pytest.raises(DamagedError):
        pieces.extend(unpacked(BytesIO(data), suffix))
    pieces = []
    for piece in unpacked(BytesIO(data), suffix) if measured.certain else ():
        pieces.append(piece)
        if sum(map(len, pieces)) >= measured.certain:
            break
    assert b"".join(pieces)[: measured.certain] == TEXT[: measured.certain]


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        *(("", TEXT), (".open", TEXT), (".gz", GZ), (".zst", ZST)),
        *((".gz", GZ[:0] + gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:]) + bytes(9)),),
        (".zst", zstd(TEXT[:99]) + zstd(TEXT[99:])),
    ],
)
def test_content_is_the_same_however_it_is_packed(suffix: str, data: bytes) -> None:
    assert b"".join(unpacked(BytesIO(data), suffix)) == TEXT
    whole = (len(TEXT), hashlib.sha256(TEXT).hexdigest(), len(TEXT), None)
    assert measure(BytesIO(data), suffix) == whole
    first = (99, hashlib.sha256(TEXT[:99]).hexdigest(), 99, None)
    assert measure(BytesIO(data), suffix, upto=99) == first
    assert measure(BytesIO(data), suffix, upto=0).size == 0


def test_a_line_without_end_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_LONGEST", 3 << 20)
    bomb = gzip.compress(b"one\ntwo\n" + bytes(64 << 20))
    measured = measure(BytesIO(bomb), ".gz")
    assert measured.damage == "a line has more than 3 MiB; its first 8 bytes count"
    assert (measured.certain, measured.size) <= (8, 6 << 20)
    many = gzip.compress(b"x" * (1 << 20) + b"\n") * 9
    assert measure(BytesIO(many), ".gz").damage is None


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_what_little_stands_for_much_comes_in_pieces(pack: Callable[[bytes], bytes]) -> None:
    packed, suffix = pack(bytes(256 << 20)), ".gz" if pack is gzip.compress else ".zst"
    sizes = [len(piece) for piece in unpacked(BytesIO(packed), suffix)]
    assert (sum(sizes), max(sizes) <= 64 << 20) == (256 << 20, True)


def test_without_its_library_a_zst_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert "no package zstandard is installed" in str(measure(BytesIO(ZST), ".zst").damage)
