"""What lies at a URI: texts that are whole or not there, and folders that are emptied."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import storage
from spark_jobs.storage import Folder, Remote
from spark_jobs.tables import small_table
from tests.spark_jobs.mounted import mounted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(params=["directory", "uri"])
def place(
    spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Folder]:
    """A folder that has nothing, and whose name has what Hadoop takes for a pattern."""
    name = "here [1] %20"
    if request.param == "directory":
        yield tmp_path / name
    else:
        with mounted(spark, tmp_path) as uri:
            yield Remote(spark, f"{uri}/{name}")


def test_texts_are_read_as_they_were_written(place: Folder) -> None:
    text = "é \U0001f40b\n\n{}\n"
    assert storage.texts(place, "*.json") == {}
    storage.write_text(place / "days", "about.json", text)
    storage.write_text(place, "other.txt", "")
    assert storage.texts(place, "*/about.json") == {"days/about.json": text}
    assert storage.texts(place, "*/*.txt") == {}
    assert storage.exists(place / "days")
    storage.remove(place / "days")
    storage.remove(place / "none")
    assert storage.texts(place, "*/about.json") == {}
    storage.write_text(place / "days", "about.json", "anew\n")
    assert storage.texts(place, "*/about.json") == {"days/about.json": "anew\n"}


def test_a_folder_is_emptied_with_all_below_it(spark: "SparkSession", place: Folder) -> None:
    rows = spark.range(3)
    for name in ("a", "b/part=1/date=2026-11-30/hour=4", "b/part=1/date=2026-11-30/hour=23"):
        rows.write.parquet(str(place / name))
    assert small_table.count(place / "a") == 3
    assert storage.hours(place / "b" / "part=1") == {
        "date=2026-11-30/hour=4",
        "date=2026-11-30/hour=23",
    }
    assert storage.hours(place / "none") == set()
    storage.emptied(place / "b")
    assert not storage.exists(place / "b" / "part=1")
    assert storage.exists(place / "a")
    rows.write.parquet(str(storage.fresh(place, "a") / "b"))


def test_what_a_killed_job_left_is_removed(spark: "SparkSession", tmp_path: Path) -> None:
    # Spark passes over these names, but the next job that appends would make their files its own.
    left = tmp_path / "take=1" / "_temporary" / "0" / "task_1" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    with mounted(spark, tmp_path) as uri:
        place = storage.emptied(Remote(spark, uri) / "take=1")
        assert not left.exists()
        spark.range(3).write.mode("append").parquet(str(place / "part=records"))
        assert small_table.count(place / "part=records") == 3


def test_a_spark_without_s3_says_what_it_lacks(spark: "SparkSession") -> None:
    with pytest.raises(
        OSError, match=r"s3a://bucket/audit, .* org\.apache\.hadoop:hadoop-aws:VERSION in"
    ):
        storage.exists(Remote(spark, "s3a://bucket/audit"))


def test_a_text_that_was_cut_short_does_not_count(spark: "SparkSession", tmp_path: Path) -> None:
    with mounted(spark, tmp_path) as uri:
        place = Remote(spark, uri)
        storage.write_text(place, "take=1.jsonl", "whole\n")
        storage.write_text(place, "take=2.jsonl", "one\ntwo\n")
        (written,) = tmp_path.glob("take=2.jsonl/*/*.txt")
        written.write_text("one\n")
        (written.parent / f".{written.name}.crc").unlink()
        assert storage.texts(place, "take=*.jsonl") == {"take=1.jsonl": "whole\n"}
        storage.write_text(place, "take=2.jsonl", "two\n")
        assert storage.texts(place, "take=*.jsonl")["take=2.jsonl"] == "two\n"


def test_two_audits_at_once_are_told(spark: "SparkSession", tmp_path: Path) -> None:
    with mounted(spark, tmp_path) as uri:
        place = Remote(spark, uri)
        for name in ("ours", "take=1.jsonl"):
            storage.write_text(place, name, f"{name[:4]}\n")
        message = r"two audits wrote viewfs:.*take=1\.jsonl at once"
        with pytest.raises(OSError, match=message):
            storage.write_text(place, "take=1.jsonl", "of another audit\n")
        (ours,) = tmp_path.glob("ours/*/*.txt")
        ours.rename(next(tmp_path.glob("take=1.jsonl/characters=5")) / ours.name)
        with pytest.raises(OSError, match=message):
            storage.texts(place, "take=*.jsonl")
