"""Unions by whole columns are those of the sets one by one."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.columns import sets
from spark_jobs.gtid import GtidSet, parse
from spark_jobs.state.unions import united
from tests.spark_jobs.routing_log import UUID

TSIDS = [UUID["primary"], f"{UUID['primary']}:blue", f"{UUID['r1']}:red", UUID["r1"], UUID["r2"]]
spans = st.tuples(st.sampled_from(TSIDS), st.integers(1, 30), st.integers(1, 5))
texts = st.lists(spans, max_size=6).map(lambda its: text_of(*its))


def text_of(*its: tuple[str, int, int]) -> str:
    gtids = GtidSet()
    for tsid, start, size in its:
        gtids.add(tsid, start, start + size)
    return gtids.text()


@given(
    st.lists(st.tuples(st.integers(0, 3), texts, st.booleans()), max_size=20),
)
def test_unions(some: list[tuple[int, str, bool]]) -> None:
    # As a server would not write it, which is read one by one.
    its = [(group, text.upper() if odd else text) for group, text, odd in some]
    named = pa.array([text for _, text in its], pa.string())
    group = np.array([group for group, _ in its], np.int64)
    found = united(sets.parse(named), named, group, np.arange(len(its)), 4)
    expected = [GtidSet() for _ in range(4)]
    for number, text in its:
        expected[number].update(parse(text))
    assert found.to_pylist() == [gtids.text() for gtids in expected]
