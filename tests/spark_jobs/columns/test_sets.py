"""GTID sets as arrays, beside the audit's own parser."""

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.columns import sets
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from tests.spark_jobs.routing_log import UUID

A, B, C = UUID["primary"], UUID["r1"], UUID["r2"]
READ = (
    *("", f"{A}:7", f"{A}:1-7", f"{A}:5-7", f"{B}:1-9", f"{A}:1-57:63:70-71"),
    *(f"{A}:blue:4", f"{A}:1-5:blue:1-3,{B}:1-2:9", f"{A}:blue:2-3:8,{B}:6", f"{A}:a:1:b:2"),
    *(f"{A}:{10**18 - 1}", f"{A}:1-2,{B}:1,{C}:1-3:7"),
)
ODD = (
    *(f"{A}:1-5:", f"{A}:5-3", f"{A}:0", f"{A}", f"{A}:blue", f"{A}:1-5:blue", f"{A}:01"),
    *(f"{A}:+5", f"{A}:1 - 5", f"{A.upper()}:5", f"{A}:5-5x", "5-7", f"{A}:9:3", f"{A}:1-5,{A}:9"),
    *(f"{A}:{10**18}", f"{A}:1--5", ",", ":", f"{A}:1,", f"{A}::1", f",{A}:1", f"{B}:1,{A}:1"),
    *(f"{A}:b:1:a:3", f"{A}:a:b:1", f"{A}:-5", f"{A}:5-", f"{A}x:5", f"{A}:1-2:2", "nonsense"),
    *(f"{A}:1,{B}", f"{A}:1\n", f"{A}:1-0", f"{A[:-1]}g:1", f"{A}:{'x' * 33}:1", f"{A}:é:1"),
    *(f"{A[1:]}:1", f"{A}:1-2-3", f"{A}:1:Blue:2"),
)


def intervals(its: sets.Sets, number: int) -> list[tuple[str, int, int]]:
    """As (source, start, end)."""
    span = range(int(its.begins[number]), int(its.begins[number + 1]))
    return [(its.sources[its.source[at]], int(its.low[at]), int(its.high[at]) + 1) for at in span]


@pytest.mark.parametrize("order", [1, -1])
def test_a_set_is_read_right_or_called_odd(order: int) -> None:
    texts = [*READ, *ODD][::order]
    its = sets.parse(pa.array([*texts, None]))
    assert {text for text, odd in zip(texts, its.odd, strict=False) if odd} == set(ODD)
    assert not its.odd[-1]
    for number, text in enumerate(texts):
        told = [] if text in ODD else list(parse(text))
        assert intervals(its, number) == told
        assert its.tags[number] == sum(name in text for name in (":blue", ":a:", ":b:")) * bool(
            told
        )


def test_each_alone_is_what_it_is_among_others() -> None:
    for text in (*READ, *ODD):
        its = sets.parse(pa.array([text]))
        assert bool(its.odd[0]) == (text in ODD)
        assert intervals(its, 0) == ([] if text in ODD else list(parse(text)))


texts = st.lists(
    st.builds(
        lambda parts: ",".join(
            f"{uuid}:{':'.join(f'{low}-{low + size}' if size else str(low) for low, size in its)}"
            for uuid, its in sorted(parts.items())
        ),
        st.dictionaries(
            st.sampled_from([A, B, C, f"{A}:red", f"{B}:a_1"]),
            st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), min_size=1, max_size=5),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=12,
)


@given(texts, st.data())
def test_what_is_read_is_what_the_parser_reads(plain: list[str], data: st.DataObject) -> None:
    cut = st.sampled_from([None, *range(len(max(plain, key=len)) + 1)])
    marred = [
        text
        if at is None
        else text[:at] + data.draw(st.sampled_from(["", ":", ",", "-", "0", "x"]))
        for text in plain
        if (at := data.draw(cut)) is None or True
    ]
    its = sets.parse(pa.array(marred))
    for number, text in enumerate(marred):
        if its.odd[number]:
            continue
        whole = GtidSet()
        for tsid, start, end in intervals(its, number):
            whole.add(tsid, start, end)
        assert whole == parse(text)


@given(texts)
def test_canonical_sets_are_never_odd(plain: list[str]) -> None:
    canonical = []
    for text in plain:
        its = GtidSet()
        for part in filter(None, text.split(",")):
            its.update(parse(part))
        # As servers write them: each UUID once, its tags behind its plain intervals.
        canonical.append(its.text())
    its = sets.parse(pa.array(canonical))
    for number, text in enumerate(canonical):
        try:
            assert intervals(its, number) == list(parse(text))
        except MalformedGtidSetError:
            assert its.odd[number]


def test_ends_prefixes_and_intervals_within() -> None:
    texts = ["", f"{A}:1-5:9", f"{A}:3-5,{B}:1-2", f"{B}:1:5"]
    its = sets.parse(pa.array(texts))
    a, b = its.sources.index(A), its.sources.index(B)
    assert its.tops(a).tolist() == [0, 9, 5, 0]
    assert its.prefixes(a).tolist() == [0, 5, 0, 0]
    assert its.lows(b).tolist() == [0, 0, 1, 1]
    assert its.sizes.tolist() == [0, 2, 2, 2]
    which, low, high = (
        np.array(it) for it in ([1, 1, 1, 1, 2, 0], [2, 9, 5, 4, 3, 1], [5, 9, 9, 6, 5, 1])
    )
    told = [True, True, False, False, True, False]
    assert sets.covered_by(its, which, a, low, high).tolist() == told
    assert not sets.covered_by(its, which, -1, low, high).any()
