import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.histogram import Histogram


def test_percentiles_are_buckets_that_so_many_latencies_do_not_exceed() -> None:
    histogram = Histogram({100.0: 50, 200.0: 49, 9000.0: 1})
    assert histogram.percentile(50) == 100.0
    assert histogram.percentile(50.1) == 200.0
    assert histogram.percentile(99) == 200.0
    assert histogram.percentile(99.5) == 9000.0
    assert histogram.percentile(100) == 9000.0


@given(
    st.dictionaries(st.floats(1, 1e6), st.integers(1, 50), min_size=1, max_size=20),
    st.integers(1, 100),
)
def test_a_percentile_is_that_of_the_sorted_latencies(
    counts: dict[float, int], percent: int
) -> None:
    latencies = sorted(latency for latency, count in counts.items() for _ in range(count))
    rank = -(-len(latencies) * percent // 100)  # nearest rank, from 1
    assert Histogram(counts).percentile(percent) == latencies[rank - 1]


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_no_such_percentage(percent: float) -> None:
    with pytest.raises(ValueError, match="percentage"):
        Histogram({1.0: 1}).percentile(percent)


def test_nothing_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="empty"):
        Histogram({}).percentile(50)
