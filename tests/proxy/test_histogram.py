"""Which bucket a value is counted in, whatever came before it."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from proxy.observe.histogram import Histogram

BOUNDS = (50, 100, 200, 1000)


@given(st.lists(st.integers(-10, 1100) | st.sampled_from((0, 50, 51, 100, 101, 1000, 1001))))
def test_each_value_is_in_the_bucket_of_the_first_bound_not_below_it(values: list[int]) -> None:
    histogram = Histogram(BOUNDS)
    expected = [0] * (len(BOUNDS) + 1)
    for value in values:
        histogram.add(value)
        expected[bisect_left(BOUNDS, value)] += 1
    assert histogram.counts == expected
    assert histogram.total == sum(values)
