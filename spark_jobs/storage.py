"""Where results lie: a directory, or a folder at a URI (`Remote`), which only Spark reaches.

Theory of operation
===================

Nothing at a URI is renamed or locked, and all is done with Spark's tables: that works on every file
system of Spark, from every driver. So there

- a text is a folder of its name, in which ``characters=N/`` holds one file. A text that has another
  length was cut short, and does not count. None is written over another one that counts: two files,
  or a text where none was before, were written by two audits at once.
- what consists of several tables is written where it belongs, and its text last: it counts from
  then on. What a crash left has no text; it is emptied, and written anew.
- a folder is emptied by replacing it with an empty table.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from spark_jobs import disk
from spark_jobs.paths import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHARACTERS: Final = "characters"


class Remote:
    """A folder at a URI.

    Attributes:
        spark: the session that reads and writes it.
    """

    def __init__(self, spark: "SparkSession", uri: str) -> None:
        self.spark = spark
        self._uri = uri

    def __truediv__(self, name: str) -> "Remote":
        """A folder in it."""
        return Remote(self.spark, f"{self._uri}/{name}")

    def __str__(self) -> str:
        """Its URI."""
        return self._uri

    def files(self) -> list[str] | None:
        """The paths of all files below it; None if it is not there.

        Files are left out whose names, or whose folders' names, Spark passes over.
        """
        from pyspark.errors import AnalysisException

        files = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            with reaching(self.spark, self._uri):
                return [unquote(file) for file in files.load(*escape([self])).inputFiles()]
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None


Folder = Path | Remote


def at(spark: "SparkSession", place: Path | str) -> Folder:
    """The folder at a path or a URI."""
    return place if isinstance(place, Path) else Remote(spark, place)


def exists(folder: Folder) -> bool:
    """Whether a folder is there; at a URI, whether it has any file."""
    return folder.exists() if isinstance(folder, Path) else bool(folder.files())


def remove(folder: Folder) -> None:
    """Remove a folder with all below it; at a URI, an empty table stays."""
    if isinstance(folder, Path):
        if folder.exists():
            shutil.rmtree(folder)
    elif folder.files() is not None:  # of a killed job, it may have files that are passed over
        folder.spark.range(0).coalesce(1).write.mode("overwrite").parquet(str(folder))


def discard(folder: Folder) -> None:
    """Remove a folder that is not needed any more; at a URI, it stays until it is used again."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)


def fresh(parent: Folder, name: str) -> Folder:
    """Make a folder for temporary tables; at a URI, what is left of an earlier one is removed."""
    if isinstance(parent, Path):
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
    remove(parent / name)
    return parent / name


def hours(folder: Folder) -> set[str]:
    """The folders ``date=…/hour=…`` in a folder."""
    if isinstance(folder, Path):
        return {place.relative_to(folder).as_posix() for place in folder.glob("date=*/hour=*")}
    return {"/".join(file.split("/")[-3:-1]) for file in folder.files() or ()}


def texts(folder: Folder, pattern: str) -> dict[str, str]:
    """Read texts, by their names in a folder.

    Args:
        folder: it need not exist.
        pattern: of their names, as for globs.

    Raises:
        OSError: one cannot be read, or two audits have written it; the message names it.
    """
    found: dict[str, str] = {}
    if isinstance(folder, Path):
        for path in folder.glob(pattern):
            try:
                found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
            except ValueError as error:
                raise OSError(f"{path} is damaged: {error!r}") from error
        return found
    above = -3 - pattern.count("/")
    for file, text in _read(folder, pattern):
        *names, length, _ = file.split("/")[above:]
        name = "/".join(names)
        if f"{_CHARACTERS}={len(text)}" != length:
            continue
        if name in found:
            raise _written_twice(folder / name)
        found[name] = text
    return found


def _written_twice(place: Remote) -> OSError:
    return OSError(
        f"two audits wrote {place} at once, and only one may use an --out at a time: delete that "
        "folder, and run the audit again"
    )


def _read(folder: Remote, pattern: str) -> Iterator[tuple[str, str]]:
    from pyspark.errors import AnalysisException

    (place,) = escape([folder])
    # The empty table that stands for what was removed is no text.
    files = folder.spark.read.option("recursiveFileLookup", "true")
    try:
        rows = (
            files.option("pathGlobFilter", "*.txt")
            .text(f"{place}/{pattern}", wholetext=True)
            .selectExpr("_metadata.file_path", "value")
            .collect()
        )
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return
    yield from ((unquote(path), text) for path, text in rows)


def write_text(folder: Folder, name: str, text: str) -> None:
    """Write a text that exists whole or not at all; in a directory, it replaces one of its name.

    Raises:
        OSError: it cannot be written, or another audit has written it meanwhile.
    """
    import pyarrow as pa

    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
        disk.write_whole(folder / name, [text])
        return
    if texts(folder, name):
        raise _written_twice(folder / name)
    text = text.encode(errors="replace").decode()
    # Spark ends the text with a line feed.
    row = {"value": [text.removesuffix("\n")], _CHARACTERS: [len(text.removesuffix("\n")) + 1]}
    table = folder.spark.createDataFrame(pa.table(row)).coalesce(1)
    written = table.write.mode("overwrite").partitionBy(_CHARACTERS)
    written.text(str(folder / name), compression="none", lineSep="\n")


def emptied(folder: Folder) -> Folder:
    """Make a folder, or remove all below it.

    Raises:
        OSError: it cannot be written.
    """
    remove(folder)
    if isinstance(folder, Path):
        folder.mkdir(parents=True)
    return folder


def put(staged: Folder, place: Folder) -> None:
    """Replace a folder with what was staged, if anything was; at a URI, it was made in its place.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(staged, Path) and isinstance(place, Path):
        remove(place)
        if staged.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            disk.sync_all(staged)
            staged.rename(place)
            disk.sync(place.parent)


@contextmanager
def reaching(spark: "SparkSession", uri: str) -> Iterator[None]:
    """Say what is missing if Spark has no library for a URI.

    Raises:
        OSError: it has none for S3.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if "S3AFileSystem not found" in str(error):
            raise OSError(_without_s3(spark, uri)) from error
        raise


def _without_s3(spark: "SparkSession", uri: str) -> str:
    return (
        f"this Spark cannot read {uri}, since it lacks the library for S3: set spark.jars.packages "
        f"to org.apache.hadoop:hadoop-aws:VERSION in spark-defaults.conf (SPARK_CONF_DIR names its "
        f"directory), with the VERSION of Hadoop that Spark {spark.version} comes with (the name "
        "of hadoop-client-api in its jars), or put that jar and those that it needs there"
    )
