"""Texts of SQL mean what they were made of."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(300)]

TEXTS = ("", "it's", "a\\'b", "\\", "''", "\\u0041", "${x}", 'say "no"', "é\n\t%_")


def test_literals(spark: "SparkSession") -> None:
    (row,) = spark.range(1).selectExpr(*map(sql.literal, TEXTS)).collect()
    assert tuple(row) == TEXTS


def test_conditions(spark: "SparkSession") -> None:
    expected = {
        sql.among("'it''s'", ()): False,
        sql.among(sql.literal("it's"), TEXTS): True,
        sql.among(sql.literal("its"), TEXTS): False,
        sql.all_of(()): True,
        sql.all_of(("true", "true or false")): True,
        sql.all_of(("true", "false")): False,
        sql.any_of(()): False,
        sql.any_of(("false", "true")): True,
        f"not {sql.any_of(('true', 'false'))}": False,
    }
    (row,) = spark.range(1).selectExpr(*expected).collect()
    assert list(row) == list(expected.values())
