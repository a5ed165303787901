"""Series of running maxima, beside a look at all tellings."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.columns import series
from spark_jobs.columns.series import OWN, SEEN, SeriesError, Telling
from tests.spark_jobs.by_columns import lay

NAMES = [3 << 40, -(7 << 40), 11 << 20]

Row = tuple[int, int, int, int, int, int]
"""About, series, at, x, y, z."""

rows = st.lists(
    st.tuples(
        st.sampled_from([OWN, SEEN]),
        st.sampled_from(NAMES),
        *(st.integers(low, high) for low, high in ((-5, 30), (-9, 9), (0, 9), (0, 9))),
    ),
    min_size=1,
    max_size=40,
)


def telling(about: int, told: list[Row]) -> Telling:
    columns = np.array([row[1:] for row in told if row[0] == about], np.int64).reshape(-1, 5).T
    return Telling(about, *columns)


def laid(told: list[Row], folder: Path, parts: int, *, thin: bool = False) -> series.Series:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tellings = [telling(about, told) for about in (OWN, SEEN)]
    if thin:
        tellings = [one for it in tellings for one in series.thinned(it)]
    (folder / "tellings").mkdir()
    table = pa.concat_tables([it.table() for it in tellings])
    pq.write_table(table, folder / "tellings" / "all.parquet")
    return series.Series.open(lay(folder / "tellings", folder / "series", parts))


@given(rows, st.integers(1, 5), st.booleans(), st.booleans())
def test_what_was_told_before_a_moment(
    tmp_path_factory: pytest.TempPathFactory,
    told: list[Row],
    parts: int,
    thin: bool,
    until: bool,
) -> None:
    its = laid(told, tmp_path_factory.mktemp("series"), parts, thin=thin)
    for about in (OWN, SEEN):
        for name in NAMES:
            moments = np.arange(-8, 34)
            end, first = its.find(about, np.full(len(moments), name), moments, until=until)
            for place, moment in enumerate(moments):
                before = [
                    row[3:]
                    for row in told
                    if row[:2] == (about, name) and row[2] < moment + int(until)
                ]
                assert (end[place] >= 0) == bool(before)
                if before:
                    at = end[place]
                    most = its.most_x[at], its.most_y[at], its.most_z[at]
                    assert most == tuple(map(max, zip(*before, strict=True)))
                    if not thin:
                        assert at - first[place] + 1 == len(before)
    nobody = np.array([5 << 50])
    assert its.find(OWN, nobody, np.array([9]), until=True)[0] == -1


@given(rows, st.integers(1, 4))
def test_what_was_told_next(
    tmp_path_factory: pytest.TempPathFactory, told: list[Row], parts: int
) -> None:
    its = laid(told, tmp_path_factory.mktemp("series"), parts)
    for name in NAMES:
        moments = np.arange(-8, 34)
        place, last = its.behind(OWN, np.full(len(moments), name), moments)
        for number, moment in enumerate(moments):
            behind = sorted(row[2:] for row in told if row[:2] == (OWN, name) and row[2] >= moment)
            found = range(int(place[number]), int(last[number]) + 1)
            assert sorted(
                (int(its.x[at]), int(its.y[at]), int(its.z[at])) for at in found
            ) == sorted(row[1:] for row in behind)


def test_whether_writes_rise(tmp_path: Path) -> None:
    name = NAMES[0]
    writes = [(3, 4), (5, 5), (9, 9), (7, 7), (8, 8), (12, 13)]
    told = [(OWN, name, at, -low, high, 0) for at, (low, high) in enumerate(writes)]
    its = laid(told, tmp_path, 1)
    at = np.arange(len(writes))
    end, first = its.find(OWN, np.full(len(writes), name), at, until=True)
    rises = its.falls[end] == its.falls[first]
    assert rises.tolist() == [True, True, True, False, False, False]


def test_keys_have_room_or_it_is_said(tmp_path: Path) -> None:
    parts = [series.Part("a", 1, 2**40, (1, 1), (2, (0, 0, 0)), 0, 2**40, 0)]
    with pytest.raises(SeriesError, match="too many"):
        series.plan(parts, tmp_path)


def test_great_values_of_many_series() -> None:
    values = np.array([2**60, 5, 2**61, 7, 2**40, 2**62])
    first = np.array([True, False, False, True, False, False])
    most = [2**60, 2**60, 2**61, 7, 2**40, 2**62]
    assert series.greatest_so_far(values, first).tolist() == most
