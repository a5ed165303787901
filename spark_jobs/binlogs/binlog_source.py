"""Binary logs as a Spark data source: ``spark.read.format("mysql_binlog").load(PLACE)``.

One partition per file, one row per transaction. A file is read up to its end or to its first
damage. Damage is a row of its own, with `fault` and without a GTID; with the option ``mode`` =
``FAILFAST`` it is an error. The source decodes files with the proxy's own `protocol.binlog`: the
audit mistrusts the proxy's conclusions, and decoding bytes is none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from protocol.binlog.changed_tables import ChangeReader
from protocol.binlog.decode import decode
from protocol.binlog.event import Event
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import ENCRYPTED_MAGIC, MAGIC, LogReader
from protocol.errors import MalformedBinlogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "mysql_binlog"

TRANSACTION: Final = StructType(
    [
        StructField("file", StringType(), False),  # its path
        StructField("position", LongType(), False),  # of the first event, bytes
        StructField("gtid", StringType()),  # null: anonymous
        StructField("source_uuid", StringType()),
        StructField("tag", StringType()),  # "" without one
        StructField("number", LongType()),
        StructField("original_us", LongType()),  # first commit; UTC µs; null: nobody knows
        StructField("immediate_us", LongType()),  # commit on the server whose log it is
        StructField("length", LongType()),  # bytes of the transaction; null: before 8.0
        StructField("server_id", LongType()),  # of the server that committed it first
        # `schema`.`table` of each table that it changed; null: it may have changed anything
        StructField("tables", ArrayType(StringType())),
        StructField("complete", BooleanType()),  # it was read to its end; null: that is not known
        StructField("fault", StringType()),  # why the file could not be read from here on
    ]
)

_PIECE_BYTES: Final = 1 << 20
_UUID_LENGTH: Final = 36
_MODES: Final = ("PERMISSIVE", "FAILFAST")

Row = tuple[
    str, int, str | None, str | None, str | None, int | None, int | None, int | None, int | None,
    int | None, list[str] | None, bool | None, str | None,
]  # fmt: skip
"""A row of `TRANSACTION`."""


class BinlogError(ValueError):
    """Binary logs cannot be read; the message says which, and why."""


def register(spark: "SparkSession") -> None:
    """Register the format with a session, unless it is registered; it needs PyArrow."""
    # Spark looks up the format in the active session. This makes `spark` the active one.
    spark.createDataFrame([], TRANSACTION)
    try:
        spark.dataSource.register(BinlogSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


class BinlogSource(DataSource):
    """The format; options: ``path``, a file or a directory, and ``mode``."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format`` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns."""
        return TRANSACTION

    def reader(self, schema: StructType) -> "BinlogReader":
        """A reader of all files.

        Raises:
            BinlogError: the path is missing, or the mode is unknown.
        """
        mode = str(self.options.get("mode", _MODES[0])).upper()
        if mode not in _MODES:
            raise BinlogError(f"mode {mode}: want one of {', '.join(_MODES)}")
        path = self.options.get("path")
        if not path:
            raise BinlogError('want a path: spark.read.format("mysql_binlog").load("DIR")')
        return BinlogReader(path, strict=mode == "FAILFAST")


@dataclass
class BinlogFile(InputPartition):
    """One file."""

    path: str


class BinlogReader(DataSourceReader):
    """Reads the files at a place, each as a partition.

    Args:
        place: a file, or a directory with files at any depth; a path, or a URI ``file:``.
        strict: whether damage is an error.
    """

    def __init__(self, place: str, *, strict: bool = False) -> None:
        self._place = place
        self._strict = strict

    def partitions(self) -> Sequence[BinlogFile]:
        """The files.

        Raises:
            BinlogError: there is no file.
        """
        found = files(self._place)
        if not found:
            raise BinlogError(f"there is no binary log in {self._place}")
        return [BinlogFile(str(path)) for path in found]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """The rows of a file.

        Raises:
            BinlogError: the file is damaged, and the reader is strict.
        """
        if not isinstance(partition, BinlogFile):
            raise TypeError(f"{partition} is no file of this reader's")
        for row in rows(Path(partition.path)):
            if self._strict and row[-1] is not None:
                raise BinlogError(f"{partition.path}: {row[-1]}")
            yield row


def files(place: str) -> list[Path]:
    """The binary logs at a place: files that begin like one, or are named like one.

    The place may be a server's whole data directory: other files are ignored.

    Raises:
        BinlogError: there is no such place on this machine.
    """
    scheme, _, rest = place.partition(":")
    path = Path(unquote(rest.removeprefix("//"))) if scheme == "file" else Path(place)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BinlogError(f"there is no file and no directory {place}")
    return sorted(file for file in path.rglob("*") if file.is_file() and _is_log(file))


def _is_log(path: Path) -> bool:
    # Named like "binlog.000001", whatever it holds.
    if len(path.suffix) > 6 and path.suffix[1:].isdecimal():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) in (MAGIC, ENCRYPTED_MAGIC)
    except OSError:
        return False  # another user's file, in a data directory


def rows(path: Path) -> Iterator[Row]:
    """The transactions of a file, and a row for its damage if there is any."""
    name = str(path)
    reader = LogReader()
    transactions = _Transactions(name)
    fault: Row | None = None
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                reader.receive_data(piece)
                for event in iter(reader.next_event, None):
                    yield from transactions.take(event)
        reader.finish()
    except MalformedBinlogError as error:
        fault = _fault(name, error.position, str(error))
    except OSError as error:
        fault = _fault(name, reader.position, error.strerror or str(error))
    yield from transactions.finish()
    if fault is not None:
        yield fault


class _Transactions:
    """Makes a row of each transaction, once all of its events have come."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changes = ChangeReader()
        self._begun: Row | None = None

    def take(self, event: Event) -> Iterator[Row]:
        """Take the next event."""
        if event.type in GtidEvent.TYPES:
            yield from self.finish()
            self._begun = _row(self._name, event)
        try:
            changes = self._changes.take(event)
        except MalformedBinlogError:
            # A transaction of an older server, or without a GTID: nobody knows where it ends.
            self._changes = ChangeReader()
            return
        if changes is not None and self._begun is not None:
            names: list[str] | None = None
            if changes.tables is not None:
                tables = sorted(changes.tables)
                names = [f"{_quoted(schema)}.{_quoted(table)}" for schema, table in tables]
            self._begun = (*self._begun[:-3], names, True, None)
            yield from self.finish()

    def finish(self) -> Iterator[Row]:
        """No more events of the present transaction will come."""
        if self._begun is not None:
            yield self._begun
            self._begun = None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _row(name: str, event: Event) -> Row:
    decoded = decode(event)
    if not isinstance(decoded, GtidEvent):
        raise TypeError(f"{event.type_name} was read as {decoded!r}")
    tsid = "" if decoded.gtid is None else decoded.gtid.tsid
    times = decoded.timestamps
    return (
        name,
        event.position,
        None if decoded.gtid is None else str(decoded.gtid),
        tsid[:_UUID_LENGTH] or None,
        tsid[_UUID_LENGTH + 1 :] if tsid else None,
        None if decoded.gtid is None else decoded.gtid.number,
        # 0 means that the server was not told the time.
        None if times is None else times.original or None,
        None if times is None else times.immediate or None,
        decoded.transaction_length,
        event.header.server_id,
        None,
        None,
        None,
    )


def _fault(name: str, position: int, why: str) -> Row:
    return (name, position, None, None, None, None, None, None, None, None, None, None, why)
