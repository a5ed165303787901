"""`python -m examples.audit_queries OUT`: asks the kept judgements of an audit what people ask.

OUT is the audit's folder (``--out``), which has judgements of days (``--date``). The questions and
their SQL are those of `docs/audit-tables.md`; in a notebook, take `open_tables` and write your own.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAGE: Final = Path(__file__).parent.parent / "docs" / "audit-tables.md"
_QUERY: Final = re.compile(
    r"(?:^\*\*(?P<question>.+?)\*\*\n\n)?^```sql\n(?P<sql>.+?)^```", re.M | re.S
)


class Query(NamedTuple):
    """A question, and the SQL that answers it; a view that others need has no question."""

    question: str | None
    sql: str


def queries(page: Path = _PAGE) -> list[Query]:
    """The queries of the page on the audit's tables, in their order."""
    matches = _QUERY.finditer(page.read_text("utf-8"))
    return [Query(match["question"], match["sql"]) for match in matches]


def open_tables(spark: "SparkSession", out: Path) -> list[str]:
    """Make a view of each table of the kept judgements; returns the names of the views.

    Beside its own columns each has `date` and `judgement`.

    Args:
        spark: a session; its time zone should be UTC.
        out: the audit's folder.
    """
    days = out / "days"
    names = sorted({folder.name for folder in days.glob("date=*/judgement=*/*/")})
    for name in names:
        table = spark.read.option("basePath", str(days)).option("mergeSchema", "true")
        table.parquet(str(days / "date=*" / "judgement=*" / name)).createOrReplaceTempView(name)
    return names


def answers(spark: "SparkSession", out: Path) -> Iterator[tuple[str, "DataFrame"]]:
    """Each question with its answer."""
    open_tables(spark, out)
    for query in queries():
        answer = spark.sql(query.sql)
        if query.question is not None:
            yield query.question, answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the answers; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.audit_queries")
    parser.add_argument("out", type=Path, help="the folder of an audit that has kept days")
    out: Path = parser.parse_args(arguments).out
    if not any((out / "days").glob("date=*/judgement=*")):
        print(f"{out} has no judgement of a day: run tidegate audit --date DAY", file=sys.stderr)
        return 2
    from pyspark.sql import SparkSession

    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
    spark = SparkSession.builder.master("local[*]").config(map={**settings}).getOrCreate()
    try:
        for question, answer in answers(spark, out):
            print(f"\n{question}")
            answer.show(truncate=False)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
