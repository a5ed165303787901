"""A file system that only Spark reaches: it shows a directory, and is no directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS: Final = count()
"""Hadoop remembers a file system by its name."""


def mount(name: str, folder: Path) -> dict[str, str]:
    """What Hadoop must know for ``viewfs://NAME/here`` to be a directory."""
    return {f"fs.viewfs.mounttable.{name}.link./here": folder.as_uri()}


@contextmanager
def mounted(spark: "SparkSession", folder: Path) -> Iterator[str]:
    """Give a directory a URI."""
    name = f"elsewhere{next(_NUMBERS)}"
    for key, value in mount(name, folder).items():
        spark.conf.set(key, value)
    try:
        yield f"viewfs://{name}/here"
    finally:
        for key in mount(name, folder):
            spark.conf.unset(key)
