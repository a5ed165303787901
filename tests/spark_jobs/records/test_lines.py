"""Lines that are read by columns are read as one by one; all others are left."""

import json
import random
from typing import TYPE_CHECKING, Final

import pytest

from tests.spark_jobs.routing_log import NOTHING, UUID, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]
FILE = "date=2026-11-30/gate-0-a1.jsonl"
YEAR_10000_US = 253_402_300_800_000_000


def log() -> list[str]:
    """Some of every kind."""
    run = Run()
    run.write(7, f"{P}:1", user='Ünïcode \U0001f30a "\\\r\n\0\x1f')
    run.known(7, "r1", f"{P}:1", required=f"{P}:1", bound_us=None, snapshot_us=3)
    run.waited(8, "r1", f"{P}:1", wait_us=-5)
    run.probe("r1", f"{P}:1")
    run.probe("r2", f"{P}:1", lag={"applied": [], "waits": [{"channel": "é", "waits_us": 3}]})
    run.gap(8, 9)
    return [json.dumps(record, separators=(",", ":")) for record in run.records]


def changed(line: str, **fields: object) -> bytes:
    return json.dumps(json.loads(line) | fields).encode()


@pytest.mark.parametrize("end", ["", "\n"])
def test_plain_records_are_read(end: str) -> None:
    lines = pytest.importorskip("spark_jobs.records.lines", exc_type=ImportError)
    texts = log()
    found = lines.plain(("\n".join(texts) + end).encode(), FILE).to_pylist()
    assert [{name: row[name] for name in NOTHING} for row in found] == [
        {name: json.loads(text).get(name) for name in NOTHING} for text in texts
    ]
    assert {(row["file"], row["fault"]) for row in found} == {(FILE, None)}
    # What a record's columns do not hold.
    assert [row["line"] for row in found] == [
        text if '"lag"' in text and '"proof"' in text else None for text in texts
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 2},
        {"kind": "confession"},
        {"seq": None},
        {"seq": "1"},
        {"seq": 1.0},
        {"seq": 2**63},
        {"seq": 2**48 + 1},
        {"wait_us": -(2**48) - 1},
        {"arrived_us": -1},
        {"snapshot_us": YEAR_10000_US},
        {"user": 7},
        {"user": ["app"]},
        {"own_known": 1},
        {"user": "\udcff"},
    ],
)
def test_a_block_with_anything_else_is_left(fields: dict[str, object]) -> None:
    lines = pytest.importorskip("spark_jobs.records.lines", exc_type=ImportError)
    first, second, *_ = log()
    assert lines.plain(b"\n".join([first.encode(), changed(second)]), FILE) is not None
    assert lines.plain(b"\n".join([first.encode(), changed(second, **fields)]), FILE) is None


ODD: Final = (
    b"",
    b"\n",
    b"{}",
    b"[]",
    b"{}{}",
    b"\xef\xbb\xbf",
    b" ",
    b"\r",
    b"\xff",
    b"\xed\xa0\x80",
    b"\0",
    b"\\u0000",
    b"\\ud800",
    b"\\ud83c\\udf0a",
    b"null",
    b"true",
    b"NaN",
    b"-0",
    b"-1",
    b"01",
    b"1.0",
    b"1e3",
    b"99999999999999999999",
    b'"',
    b"'",
    b":",
    b",",
    b"{",
    b"}",
    b'"v":1,',
    b'"v":2,',
    b'"seq":null,',
    b'"\\u0073eq":7,',
    b'"SEQ":7,',
    b'"other":{"seq":7},',
    b'"other":[[1,{"v":3}],"}"],',
    b"/*c*/",
    b"// c",
)


def bent(chance: random.Random, texts: list[bytes]) -> bytes:
    """A line or two in which something is not as it was written."""
    text = chance.choice(texts)
    for _ in range(chance.choice([0, 1, 1, 1, 2])):
        at = chance.randrange(len(text) + 1)
        if chance.random() < 0.5:  # where one token ends and another begins
            at = text.find(chance.choice([b",", b":", b'"', b"}"]), at) + chance.choice([0, 1])
        to = chance.choice([at, at, at + 1, at + chance.randrange(40)])
        text = text[:at] + chance.choice(ODD) + text[to:]
    if chance.random() < 0.2:
        text += chance.choice([b"", b"\n", b" ", b","]) + chance.choice(texts)
    return text


def blocks(seed: int, count: int) -> list[bytes]:
    chance, texts = random.Random(seed), [text.encode() for text in log()]
    return [bent(chance, texts) for _ in range(count)]


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 4_000), pytest.param(2, 100_000, marks=pytest.mark.deep)]
)
def test_what_is_read_by_columns_is_read_alike(
    spark: "SparkSession", seed: int, count: int
) -> None:
    from pyspark.sql import functions as fn

    from spark_jobs.records import ingest, lines

    read = [(block, lines.plain(block, FILE)) for block in blocks(seed, count)]
    plain = [(block, table.to_pylist()) for block, table in read if table is not None]
    assert len(plain) > count / 10
    asked = [
        (number, bytearray(line))
        for number, (block, _) in enumerate(plain)
        for line in block.split(b"\n")
    ]
    told = spark.createDataFrame(asked, "number long, line binary").select(
        fn.lit(FILE).alias("file"), fn.col("line").cast("string").alias("line"), "number"
    )
    one_by_one: list[list[dict[str, object]]] = [[] for _ in plain]
    for row in ingest.parse(told, "number").collect():
        its = row.asDict()
        one_by_one[its.pop("number")].append(its)
    for (block, by_columns), rows in zip(plain, one_by_one, strict=True):
        assert sorted(map(repr, by_columns)) == sorted(map(repr, rows)), block
