"""Counts and quantiles by keys."""

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.columns.tally import COUNT, NONE, quantiles, rounded, spread, tally, together
from spark_jobs.columns.text import Text


def test_rows_are_counted_by_their_keys() -> None:
    text = Text(np.array([0, 1, 0, -1, 0]), pa.array(["a", "b"]))
    number = np.array([1, 1, 1, NONE, 2])
    found = tally(
        {"text": text, "number": number},
        np.array([True, True, True, True, False]),
        sums={"sum": np.array([1, 2, 4, 8, 16])},
        most={"most": np.array([5, 6, 7, 8, 9])},
    )
    assert found.keys == ["text", "number"]
    names = ("text", "number", COUNT, "sum", "most")
    assert {tuple(row[name] for name in names) for row in found.rows()} == {
        *((None, None, 1, 8, 8), ("a", 1, 2, 5, 7), ("b", 1, 1, 2, 6))
    }
    twice = together([found, found]).by("text")
    assert {(row["text"], row[COUNT], row["sum"], row["most"]) for row in twice.rows()} == {
        (None, 2, 16, 8),
        ("a", 4, 10, 7),
        ("b", 2, 4, 6),
    }


@given(st.integers(0, 2**62))
def test_three_digits_are_kept(value: int) -> None:
    (kept,) = rounded(np.array([value]))
    text = str(value)
    assert str(kept) == text[:3] + "0" * len(text[3:])


@given(st.lists(st.integers(-5, 40), min_size=1), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_quantiles_are_the_least_values_that_do(values: list[int], share: float) -> None:
    its, counts = np.unique(values, return_counts=True)
    order = np.arange(len(its))[::-1]
    (found,) = quantiles(its[order], counts[order], [share])
    ranked = sorted(values)
    assert found is not None
    below = sum(value <= found for value in ranked)
    assert below >= share * len(values)
    assert sum(value < found for value in ranked) < max(1, share * len(values))


def test_where_nothing_is_there_is_no_quantile() -> None:
    assert quantiles(np.zeros(0, np.int64), np.zeros(0, np.int64), [0.5]) == [None]
    found = tally({"value": np.array([NONE, NONE])})
    told = spread(found, "value", "{}_us", None)
    assert told == dict.fromkeys(("p50_us", "p95_us", "p99_us", "max_us"))
