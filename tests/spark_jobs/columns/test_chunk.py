"""Times are by clocks that agree; what is judged is chosen by the times that were written."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

import pyarrow as pa

from spark_jobs.columns.chunk import EVERYTHING, Chunk

RUNS = [("gate", 0, "a1"), ("gate", 1, "a1"), ("gate", 0, "b2"), ("other", 0, "a1")]


def test_each_run_has_a_clock() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "proxy": [proxy for proxy, _, _ in RUNS],
            "worker": [worker for _, worker, _ in RUNS],
            "run": [run for _, _, run in RUNS],
            "arrived_us": [1000] * 4,
            "ended_us": [2000] * 4,
            "snapshot_us": [1500, None, None, None],
            "wait_us": [7] * 4,
        }
    )
    rules = EVERYTHING._replace(judge_from_us=1000, ahead=((RUNS[0], 10), (RUNS[2], -30)))
    chunk = Chunk(batch, rules)
    assert chunk.number("arrived_us").tolist() == [990, 1000, 1030, 1000]
    assert chunk.number("ended_us").tolist() == [1990, 2000, 2030, 2000]
    assert chunk.moment_us.tolist() == [1490, 1000, 1030, 1000]
    assert chunk.number("wait_us").tolist() == [7] * 4
    assert chunk.column("arrived_us").to_pylist() == [990, 1000, 1030, 1000]
    assert chunk.column("snapshot_us").to_pylist() == [1490, None, None, None]
    assert chunk.is_told.tolist() == [True] * 4
