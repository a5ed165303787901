"""Files become Parquet piece by piece, and nothing is lost where pieces meet."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.day import HOUR_US
from tests.spark_jobs.routing_log import DAY_US, UUID, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and tasks of a few bytes."""
    from spark_jobs.records import take

    monkeypatch.setattr(take, "_BLOCK", 50)
    monkeypatch.setattr(take, "_LEAST", 50)
    monkeypatch.setattr(take, "_TASK", 120)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", ["", "\n"])
def test_every_line_is_in_one_piece(tmp_path: Path, end: str) -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.records import take

    # Of all lengths, so that pieces end anywhere: also where a line does.
    lines = [f"{number}{'x' * (number % 130)}" for number in range(300)]
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl", "d.jsonl")]
    text = ("\n".join(lines) + end).encode()
    for path in paths[:3]:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    paths[3].touch()
    found: Counter[tuple[str, bytes]] = Counter()
    tasks = list(take._tasks(paths, 2, {}))
    for pieces in tasks:
        for piece in pieces:
            for block in take._blocks(piece):
                found.update((piece.path.name, it) for it in block.split(b"\n") if it)
    assert len(tasks) > 100
    assert found == {(path.name, line.encode()): 1 for path in paths[:3] for line in lines}


def test_names_of_files_stay_on_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.records import take

    damaged = {"date=2026-11-30/\x1b[2J\n.jsonl": "cut short"}
    monkeypatch.setattr(take, "_take", lambda *_, **__: take._Done(Counter(), damaged))
    with pytest.raises(OSError, match=r"`date=2026-11-30/\\x1b\[2J\\n\.jsonl` \(cut short\)$"):
        take.by_hour(None, [], tmp_path)  # type: ignore[arg-type]  # it is not asked


def test_an_hour_of_a_task_is_a_file(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    import pyarrow as pa
    import pyarrow.parquet as pq

    from spark_jobs.records import take

    schema = pa.schema([("number", pa.int64())])
    files = take._Files(tmp_path, 3, schema)
    for number in range(5):
        for place in ("date=2026-11-30/hour=1", "date=2026-11-30/hour=2"):
            files.add(pa.table([[number] * 40_000], schema=schema), place)
    files.end()
    for hour in (1, 2):
        file = pq.ParquetFile(tmp_path / f"date=2026-11-30/hour={hour}/take-3.parquet")
        rows = file.read().column("number").to_pylist()
        assert rows == [number for number in range(5) for _ in range(40_000)]
        assert file.num_row_groups < 5


def test_odd_lines_are_taken_beside_plain_ones(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.records import take

    run = Run()
    folder = tmp_path / "log" / "date=2026-11-30"
    folder.mkdir(parents=True)
    for number, hour in enumerate((0, 5, 23, 24), 1):
        run.clock.now = DAY_US + hour * HOUR_US
        run.write(7, f"{P}:{number}")
    lines = [json.dumps(record) for record in run.records]
    plain, odd = folder / "plain.jsonl", folder / "odd [1].jsonl"
    plain.write_text("\n".join(lines))
    odd.write_text("\n".join([lines[0].replace("app", "\\udcff"), "{}", "", lines[1][:50]]))
    counts = take.by_hour(spark, [plain, odd], tmp_path / "records")
    hours = ["2026-11-30T00", "2026-11-30T05", "2026-11-30T23", "2026-12-01T00"]
    name = f"{folder.name}/{plain.name}", f"{folder.name}/{odd.name}"
    assert counts == {
        **{(name[0], hour, None): 1 for hour in hours},
        (name[1], hours[0], None): 1,
        (name[1], None, "torn"): 1,
        (name[1], None, "damaged"): 1,
    }
    # Those that are no record are not there.
    placed = sorted((tmp_path / "records").glob("date=*/hour=*/*.parquet"))
    assert len(placed) == 5
    whole = take.all_in(spark, [plain, odd], tmp_path / "all")
    assert whole.parsed.where("fault is null").count() == 5
    assert whole.parsed.count() == 7
    assert len(whole.files) >= 2
    assert not list(tmp_path.glob("aside-*"))


def test_a_file_that_is_damaged_since_it_was_checked_is_named(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from spark_jobs.records import take

    path = tmp_path / "date=2026-11-30" / "gate-0-b2.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"{}\n" * 1000)[:-20])
    gone = path.with_name("gone.jsonl")
    kept = take.all_in(spark, [path, gone], tmp_path / "all")
    assert [*kept.damaged] == ["date=2026-11-30/gone.jsonl", "date=2026-11-30/gate-0-b2.jsonl.gz"]
    with pytest.raises(OSError, match=r"while they were read: `date=2026-11-30/gone\.jsonl` \(No"):
        take.by_hour(spark, [gone], tmp_path / "hours")
