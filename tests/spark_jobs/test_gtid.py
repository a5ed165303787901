"""The audit's own GTID algebra against plain sets of (TSID, number)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.gtid import END, GtidSet, MalformedGtidSetError, parse

A = "168066ae-e53d-11f1-b607-02fc00000001"
B = "191e1ad2-e53d-11f1-b607-02fc00000002"

Model = frozenset[tuple[str, int]]

tsids = st.sampled_from([A, f"{A}:blue", f"{A}:red", B])
models = st.frozensets(st.tuples(tsids, st.integers(1, 24)), max_size=40)


def made(model: Model) -> GtidSet:
    gtids = GtidSet()
    for tsid, number in model:
        gtids.add(tsid, number, number + 1)
    return gtids


def members(gtids: GtidSet) -> Model:
    return frozenset((tsid, n) for tsid, start, end in gtids for n in range(start, end))


@given(models)
def test_a_set_holds_what_was_added_in_the_fewest_intervals(model: Model) -> None:
    gtids = made(model)
    assert members(gtids) == model
    assert gtids.count() == len(model)
    assert bool(gtids) == bool(model)
    starts = sum((tsid, number - 1) not in model for tsid, number in model)
    assert len(list(gtids)) == starts


@given(models, models)
def test_update_is_union(one: Model, other: Model) -> None:
    gtids = made(one)
    gtids.update(made(other))
    assert gtids == made(one | other)


@given(models, models)
def test_remove_is_difference_and_a_copy_is_not_touched(one: Model, other: Model) -> None:
    gtids = made(one)
    copy = gtids.copy()
    gtids.remove(made(other))
    assert gtids == made(one - other)
    assert copy == made(one)


@given(st.lists(st.tuples(tsids, st.integers(1, 24), st.integers(1, 6)), max_size=12))
def test_overlapping_intervals_merge(intervals: list[tuple[str, int, int]]) -> None:
    gtids = GtidSet()
    for tsid, start, length in intervals:
        gtids.add(tsid, start, start + length)
    assert members(gtids) == {(t, n) for t, s, length in intervals for n in range(s, s + length)}


@given(models, models)
def test_minus_common_and_covers(one: Model, other: Model) -> None:
    assert members(made(one).minus(made(other), 1000)) == one - other
    assert members(made(one).common(made(other), 1000)) == one & other
    assert made(one).covers(made(other)) == (one >= other)


@given(models, models, st.integers(1, 4))
def test_a_bounded_answer_is_the_beginning_of_the_whole(
    one: Model, other: Model, most: int
) -> None:
    for whole, part in (
        (made(one).minus(made(other), 1000), made(one).minus(made(other), most)),
        (made(one).common(made(other), 1000), made(one).common(made(other), most)),
    ):
        assert len(list(part)) >= min(most, len(list(whole)))
        assert list(part) == list(whole)[: len(list(part))]


@given(models)
def test_text_comes_back(model: Model) -> None:
    assert parse(made(model).text()) == made(model)


def test_text_is_the_servers() -> None:
    text = f"{A}:1-74:500-501:my_tag:1:tag_2:2:5-6,{B}:1"
    assert parse(text).text() == text
    assert parse(f" {A.upper()} : 3 - 5 :01,,\n{B}:7 :Tag: 2,").text() == f"{A}:1:3-5,{B}:7:tag:2"
    assert parse("") == GtidSet()
    assert parse(f"{A}:1-{END - 1}").count() == END - 1


@pytest.mark.parametrize(
    "text",
    [
        A,
        f"{A}:",
        f"{A}:tag",
        f"{A}:tag:",
        f"{A}:one:two:1",
        f"{A}:1:tag",
        f"{A}:5-3",
        f"{A}:0",
        f"{A}:0-3",
        f"{A}:+1",
        f"{A}:1-",
        f"{A}:1-2-3",
        f"{A}:{END}",
        f"{A}:1-{END}",
        f"{A}:" + "9" * 5000,
        f"{A}:2tag:1",
        f"{A}:{'t' * 33}:1",
        A.replace("-", "") + ":1",
        f"{{{A}}}:1",
        "1-5",
        "garbage",
        f"{A}:1,{B}",
    ],
)
def test_what_a_server_would_refuse_or_read_as_nothing_is_refused(text: str) -> None:
    with pytest.raises(MalformedGtidSetError):
        parse(text)


def test_many_intervals_are_asked_without_a_walk() -> None:
    # 200,000 intervals, 20,000 questions: a walk per question would take hours.
    many = GtidSet()
    for number in range(1, 400_000, 2):
        many.add(A, number, number + 1)
    covered = parse(f"{A}:1-1000000")
    one_missing = parse(f"{A}:1-200000:200002-1000000")
    for _ in range(20_000):
        assert covered.covers(many)
        assert many.minus(one_missing, 8).text() == f"{A}:200001"
    assert len(list(many.minus(parse(f"{B}:1"), 8))) == 8
