"""Binary logs as rows: files of a real server and of the mocker, whole and damaged."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from protocol.binlog.event import HEADER_BYTES
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import ENCRYPTED_MAGIC
from tests.support import binlogs

pytest.importorskip("pyspark")

from spark_jobs.binlogs import binlog_source
from spark_jobs.binlogs.binlog_source import (
    TRANSACTION,
    BinlogError,
    BinlogReader,
    BinlogSource,
    Row,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = TRANSACTION.names


def read(path: Path) -> list[dict[str, object]]:
    return [dict(zip(FIELDS, row, strict=True)) for row in binlog_source.rows(path)]


def vector(name: str) -> Path:
    return binlogs.DIRECTORY / f"{name}.binlog"


def positions(name: str) -> list[int]:
    events = binlogs.events(binlogs.load(name))
    return [event.position for event in events if event.type in GtidEvent.TYPES]


@pytest.mark.parametrize("name", [*binlogs.NAMES])
def test_every_transaction_is_a_row(name: str) -> None:
    told = binlogs.gtid_events(name)
    rows = read(vector(name))
    assert [row["position"] for row in rows] == positions(name)
    assert {row["file"] for row in rows} <= {str(vector(name))}
    assert {row["fault"] for row in rows} <= {None}
    assert [row["gtid"] for row in rows] == [
        None if event.gtid is None else str(event.gtid) for event in told
    ]
    for row, event in zip(rows, told, strict=True):
        assert row["length"] == event.transaction_length
        if event.timestamps is not None:
            assert row["original_us"] == (event.timestamps.original or None)
            assert row["immediate_us"] == (event.timestamps.immediate or None)
        if event.gtid is not None:
            tag = f":{row['tag']}" if row["tag"] else ""
            assert f"{row['source_uuid']}{tag}:{row['number']}" == row["gtid"]


def test_vectors_have_tags_and_anonymous_ones() -> None:
    assert {row["tag"] for row in read(vector("transactions"))} > {""}
    assert {row["gtid"] for row in read(vector("anonymous"))} == {None}


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_a_file_that_is_cut_short_is_read_up_to_there(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlogs.load("transactions")[:-cut])
    *whole, last = read(path)
    assert [row["position"] for row in whole] == positions("transactions")
    assert last["gtid"] is None
    assert "the file ends after" in str(last["fault"])
    with pytest.raises(BinlogError, match=r"binlog\.000001: at \d+: the file ends after"):
        list(BinlogReader(str(path), strict=True).read(binlog_source.BinlogFile(str(path))))


def test_a_changed_byte_ends_it_where_it_is(tmp_path: Path) -> None:
    data = bytearray(binlogs.load("transactions"))
    third = positions("transactions")[2]
    data[third + HEADER_BYTES] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    *whole, last = read(path)
    assert [row["position"] for row in whole] == positions("transactions")[:2]
    assert last["position"] == third
    assert "checksum" in str(last["fault"])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "0 bytes are not a binary log"),
        (b"hello", "not a binary log"),
        (ENCRYPTED_MAGIC, "encrypt"),
    ],
)
def test_what_is_no_log_or_a_secret_one(tmp_path: Path, data: bytes, fault: str) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    (row,) = read(path)
    assert (row["position"], row["gtid"]) == (0, None)
    assert fault in str(row["fault"])


def test_logs_are_found_among_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "replica 1"
    folder.mkdir()
    shutil.copy(vector("transactions"), folder / "relay-bin.000002")
    shutil.copy(vector("transactions"), tmp_path / "kept")
    (tmp_path / "binlog.000001").write_text("damaged")
    (tmp_path / "binlog.index").write_text("./binlog.000001\n")
    (tmp_path / "ibdata1").write_bytes(bytes(100))
    wanted = [tmp_path / "binlog.000001", tmp_path / "kept", folder / "relay-bin.000002"]
    assert binlog_source.files(str(tmp_path)) == wanted
    assert binlog_source.files(folder.as_uri()) == wanted[2:]
    assert binlog_source.files(str(wanted[1])) == wanted[1:2]
    assert [one.path for one in BinlogReader(str(tmp_path)).partitions()] == list(map(str, wanted))


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="no file and no directory"):
        binlog_source.files("s3a://bucket/logs")
    with pytest.raises(BinlogError, match="there is no binary log in"):
        BinlogReader(str(tmp_path)).partitions()
    with pytest.raises(BinlogError, match="want a path"):
        BinlogSource({}).reader(TRANSACTION)
    with pytest.raises(BinlogError, match="want one of PERMISSIVE, FAILFAST"):
        BinlogSource({"path": "a", "mode": "DROPMALFORMED"}).reader(TRANSACTION)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_reads_them_side_by_side(spark: "SparkSession", tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    names = [name for name in binlogs.NAMES if name != "anonymous"]
    for number, name in enumerate(names):
        shutil.copy(vector(name), tmp_path / f"binlog.{number:06}")
    (tmp_path / "binlog.000099").write_bytes(binlogs.load("transactions")[:-1])
    other = spark.newSession()
    binlog_source.register(other)
    binlog_source.register(other)
    binlog_source.register(spark)  # though the active session knows it
    table = spark.read.format("mysql_binlog").load(str(tmp_path))
    assert table.rdd.getNumPartitions() == len(names) + 1
    expected: list[Row] = []
    for path in binlog_source.files(str(tmp_path)):
        expected += binlog_source.rows(path)
    assert sorted(map(tuple, table.collect()), key=str) == sorted(expected, key=str)
    strict = spark.read.format("mysql_binlog").option("mode", "failfast").load(str(tmp_path))
    with pytest.raises(Exception, match=r"binlog\.000099: at \d+: the file ends after"):
        strict.collect()
