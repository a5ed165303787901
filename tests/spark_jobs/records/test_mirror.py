"""A log that only Spark can read, copied; `file:` stands in for what is elsewhere."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import nightly
from spark_jobs.records import mirror
from tests.spark_jobs.nights import NoSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_copy_has_what_the_log_has(spark: "SparkSession", tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "{copy}"
    folder = log / "date=2026-11-30"
    folder.mkdir(parents=True)
    names = ("a.jsonl", "b.jsonl.zst", "[c] d%20.jsonl.gz", "e.jsonl.open", "f.txt", "g.jsonl.bz2")
    for name in names:
        (folder / name).write_bytes(name.encode() + b"\n\x00\xff")

    def fetched() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (copy / folder.name).iterdir()}

    uri = f"file:{log}"
    assert mirror.fetch(spark, uri, copy) == 4
    assert fetched() == {name: name.encode() + b"\n\x00\xff" for name in names[:4]}
    assert mirror.fetch(spark, f"{uri}/", copy) == 0
    (folder / "a.jsonl").rename(folder / "a.jsonl.gz")
    changed = folder / "b.jsonl.zst"
    kept, before = changed.read_bytes(), changed.stat().st_mtime_ns
    changed.write_bytes(kept[::-1])
    os.utime(changed, ns=(before, before + 10**9))
    assert mirror.fetch(spark, uri, copy) == 2
    assert fetched().keys() == {"a.jsonl.gz", *names[1:4]}
    assert fetched()["b.jsonl.zst"] == kept[::-1]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_spark_without_s3_says_what_it_lacks(spark: "SparkSession", tmp_path: Path) -> None:
    lacks = r"s3a://bucket/log, .* to org\.apache\.hadoop:hadoop-aws:[0-9]+\.[0-9]+\.[0-9]+ in"
    with pytest.raises(OSError, match=lacks):
        mirror.fetch(spark, "s3a://bucket/log", tmp_path)


def test_it_is_fetched_and_then_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    fetched = []

    class Session(NoSpark):
        def newSession(self) -> "Session":  # noqa: N802 - Spark's name
            return self

    def fetch(_spark: object, uri: str, folder: Path) -> int:
        fetched.append((uri, folder.is_dir()))
        return 0

    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: Session())
    monkeypatch.setattr(mirror, "fetch", fetch)
    assert nightly.main(["--log=s3a://bucket/log", f"--out={tmp_path}"]) == 2
    assert fetched == [("s3a://bucket/log", True)]
    assert "jsonl in s3a://bucket/log." in capsys.readouterr().err
