"""GtidSet and Gtid against what MySQL makes of texts and pairs, and against plain Python sets."""

import contextlib
import copy
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedGtidSetError, ProtocolError
from protocol.gtid import EMPTY, Gtid, GtidSet, united
from tests.support.json_vectors import load

U = "168066ae-e53d-11f1-b607-02fc00000001"
V = "191e1ad2-e53d-11f1-b607-02fc00000001"
LAST = 2**63 - 2

Model = frozenset[tuple[str, int]]


def one_line(text: str) -> str:
    return text.replace("\n", "")


# What the server says.

# A UUID or a tag with no interval after it, which the server takes for nothing; the other thing
# that it takes for nothing, a reversed interval, needs numbers compared.
NOTHING_READ = re.compile(
    r"(?:^|,)\s*[{]?[0-9a-f-]{32,36}[}]?\s*(?:,|$)|:\s*[a-z_]\w*\s*(?:,|$|:\s*[a-z_])",
    re.IGNORECASE,
)


def reads_as_nothing_in_part(text: str) -> bool:
    """Whether the server passes over a part of the text that is neither blank nor a set."""
    reversed_interval = any(
        int(first) > int(last) for first, last in re.findall(r":\s*(\d+)\s*-\s*(\d+)", text)
    )
    return reversed_interval or NOTHING_READ.search(text) is not None


def holds_an_octal_number(text: str) -> bool:
    """Whether a number is not the same in base 8, even if a wider interval hides the difference."""
    zero_led = re.findall(r"\b0+([1-9]\d*)", re.sub(r"[0-9a-fA-F-]{32,36}", "", text))
    return any(len(number) > 1 or number > "7" for number in zero_led)


@pytest.mark.parametrize("vector", load("gtid_text"), ids=lambda v: ascii(v["text"])[:60])
def test_reads_what_both_of_the_servers_parsers_read_alike(vector: dict[str, Any]) -> None:
    text, canonical = vector["text"], vector["canonical"]
    agreed = canonical is not None and canonical == vector["purged"] and vector["wait"] != "error"
    # A text that is all blanks and commas is an honest empty set.
    blank = not text.strip(" \t\n\v\f\r,")
    misleading = holds_an_octal_number(text) or reads_as_nothing_in_part(text)
    if agreed and (blank or not misleading):
        assert str(GtidSet.parse(text)) == canonical
        assert GtidSet.parse(text.encode()) == GtidSet.parse(text)
        assert bool(GtidSet.parse(text)) == (vector["wait"] == "set")
    else:
        with pytest.raises(MalformedGtidSetError):
            GtidSet.parse(text)


def test_the_captured_texts_hold_every_case() -> None:
    vectors = load("gtid_text")
    assert sum(v["canonical"] is None for v in vectors) > 100
    assert sum(v["wait"] == "set" for v in vectors) > 100
    octal = [
        v["text"] for v in vectors if v["purged"] and v["canonical"] not in (None, v["purged"])
    ]
    assert f"{U}:010" in octal
    # The dangerous ones: a wait for them succeeds though nothing was asked for.
    satisfied = [v["text"] for v in vectors if v["wait"] == "empty" and v["text"].strip(" \n,")]
    assert {U, f"{U}:5-3", f"{U}:1-", f"{U}:tag"} <= set(satisfied)
    for text in satisfied:
        with pytest.raises(MalformedGtidSetError):
            GtidSet.parse(text)


@pytest.mark.parametrize("vector", load("gtid_algebra"), ids=lambda v: v["a"][:24])
def test_computes_what_the_server_computes(vector: dict[str, Any]) -> None:
    a, b = GtidSet.parse(vector["a"]), GtidSet.parse(vector["b"])
    assert (str(a), str(b)) == (vector["a"], vector["b"])
    assert str(a | b) == str(b | a) == vector["union"]
    assert str(a - b) == vector["difference"]
    assert str(a & b) == str(b & a) == vector["intersection"]
    assert (a <= b) is vector["subset"]


# Spelling.


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" ,, \n", ""),
        (f"{U}:1", f"{U}:1"),
        (f"{U}:5-5", f"{U}:5"),
        (f"{U.upper()}:1-3", f"{U}:1-3"),
        (f"{U}:3:1-2", f"{U}:1-3"),
        (f"{U}:1-5:3-9:20", f"{U}:1-9:20"),
        (f"{U}:1-74:500-501:my_tag:1,\n{V}:1", f"{U}:1-74:500-501:my_tag:1,\n{V}:1"),
        (f"{U}:Tag1:1:TAG2:2:5-6", f"{U}:tag1:1:tag2:2:5-6"),
        (f"{U}:b:1:a:1:b:2", f"{U}:a:1:b:1-2"),
        (f"{V}:1,{U}:2,{U}:t:1,{U}:1", f"{U}:1-2:t:1,\n{V}:1"),
        (f" {U} : 1 - 3 : 7 ,, {V}:01 ", f"{U}:1-3:7,\n{V}:1"),
        (f"{U}:{'0' * 5000}7-07", f"{U}:7"),
        (f"{U}:1-{LAST}", f"{U}:1-{LAST}"),
        (f"{U}:{'a' * 32}:1", f"{U}:{'a' * 32}:1"),
    ],
)
def test_parse(text: str, canonical: str) -> None:
    parsed = GtidSet.parse(text)
    assert str(parsed) == canonical
    assert parsed.text == one_line(canonical)
    assert GtidSet.parse(canonical) == parsed


@pytest.mark.parametrize(
    "text",
    [
        U,
        f"{U},{V}:1",
        f"{U}:1,{V}",
        f"{U}:",
        f"{U}:1:",
        f"{U}::1",
        f"{U}:5-3",
        f"{U}:1:5-3",
        f"{U}:1-",
        f"{U}:-1",
        f"{U}:1-2-3",
        f"{U}:0",
        f"{U}:0-5",
        f"{U}:5-0",
        f"{U}:+1",
        f"{U}:010",
        f"{U}:1-010",
        f"{U}:08",
        f"{U}:1_0",
        f"{U}:0x1",
        f"{U}:1e3",
        f"{U}:1 2",
        f"{U}:1\n2",
        f"{U}:1,\n2",
        f"{U}:{LAST + 1}",
        f"{U}:1-{LAST + 1}",
        f"{U}:{2**64 + 1}",
        f"{U}:{'9' * 10_000}",
        f"{U}:1-{'9' * 10_000}",
        f"{U}:tag",
        f"{U}:tag:",
        f"{U}:tag:tag2:1",
        f"{U}:1:tag",
        f"{U}:tag-x:1",
        f"{U}:1tag:1",
        f"{U}:{'a' * 33}:1",
        f"{U}:\u00e9:1",
        f"{U}:\u212a:1",  # its lower case is an ASCII k
        f"{U}:\uff11",  # int() reads it as 1
        f"{U}:1\0",
        f"{U}:1;",
        f"{U} 1",
        f"{U}1",
        f"{U[:-1]}:1",
        f"{U[:-1]}g:1",
        f"{U.replace('-', '')}:1",
        f"{{{U}}}:1",
        "1",
        "tag:1",
        ":1",
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(MalformedGtidSetError):
        GtidSet.parse(text)
    with pytest.raises(MalformedGtidSetError):
        GtidSet.parse(text.encode())


def test_refuses_bytes_that_are_not_ascii() -> None:
    with pytest.raises(MalformedGtidSetError):
        GtidSet.parse(U.encode() + b":1\xff")


def test_the_error_is_both_a_protocol_error_and_a_value_error() -> None:
    with pytest.raises(ProtocolError) as caught:
        GtidSet.parse("x" * 10_000)
    assert isinstance(caught.value, ValueError)
    assert caught.value.error.code == 1772
    assert len(str(caught.value)) < 200


# The type.


def test_the_constructor_sorts_merges_and_folds() -> None:
    made = GtidSet({V: [(7, 9), (1, 3), (3, 5), (8, 12)], U.upper() + ":Tag": [(1, 2)], U: []})
    assert str(made) == f"{U}:tag:1,\n{V}:1-4:7-11"
    assert made.tsids == (f"{U}:tag", V)
    assert made.intervals(V) == ((1, 5), (7, 12))
    assert made.intervals(U) == ()
    assert made.interval_count == 3


@pytest.mark.parametrize(
    ("tsid", "interval"),
    [
        (U, (0, 2)),
        (U, (2, 2)),
        (U, (3, 2)),
        (U, (1, LAST + 2)),
        (U[:-1], (1, 2)),
        (U + ":", (1, 2)),
        (U + ":1", (1, 2)),
        (U + ":a:b", (1, 2)),
        ("", (1, 2)),
    ],
)
def test_the_constructor_refuses(tsid: str, interval: tuple[int, int]) -> None:
    with pytest.raises(MalformedGtidSetError):
        GtidSet({tsid: [interval]})


def test_operations_leave_their_operands_alone() -> None:
    a, b = GtidSet.parse(f"{U}:1-5:9"), GtidSet.parse(f"{U}:3-10:t:1,{V}:1")
    before = (str(a), str(b), hash(a), hash(b))
    kept = a
    kept |= b
    _ = (a | b, a & b, a - b, b - a, a <= b, a.compact(b))
    assert (str(a), str(b), hash(a), hash(b)) == before
    assert kept is not a


def test_equal_sets_hash_alike_however_they_came_to_be() -> None:
    a = GtidSet.parse(f"{U}:1-2:4-6,{V}:1")
    b = GtidSet.parse(f"{V}:1") | GtidSet.parse(f"{U}:4-6") | GtidSet.parse(f"{U}:2,{U}:1")
    assert a == b
    assert hash(a) == hash(b)
    assert {a: 1}[b] == 1
    assert a != GtidSet.parse(f"{U}:1-2:4-6")
    assert a != str(a)


def test_results_that_equal_an_operand_are_that_operand() -> None:
    a, b = GtidSet.parse(f"{U}:1-9,{V}:5"), GtidSet.parse(f"{U}:3")
    assert (a | b) is a
    assert (b | a) is a
    assert (a | EMPTY) is a
    assert (EMPTY | a) is a
    assert (a & a) is a
    assert (b & a) is b
    assert (a - EMPTY) is a
    assert (b - GtidSet.parse(f"{U}:4")) is b
    assert a.compact(b) is a
    less, more = GtidSet.parse(f"{U}:1-9"), GtidSet.parse(f"{U}:1-9,{V}:5")
    assert (less | more) is more
    assert (more | less) is more


def test_numbers_do_not_cost() -> None:
    everything = GtidSet.parse(f"{U}:1-{LAST}")
    odd = GtidSet.parse(f"{U}:1:3:{LAST}")
    assert str(everything - odd) == f"{U}:2:4-{LAST - 1}"
    assert len(everything) == LAST
    assert odd <= everything
    assert f"{U}:{LAST}" in everything
    both = everything | GtidSet.parse(f"{V}:1-{LAST}")
    assert both.count() == 2 * LAST > sys.maxsize
    with pytest.raises(OverflowError):
        len(both)
    assert both


def test_a_tagged_gtid_is_of_another_tsid() -> None:
    assert f"{U}:tag:1" not in GtidSet.parse(f"{U}:1-9")
    assert not GtidSet.parse(f"{U}:tag:1") <= GtidSet.parse(f"{U}:1-9")


def test_greater_or_equal_is_the_mirror_of_less_or_equal() -> None:
    assert GtidSet.parse(f"{U}:1-9") >= GtidSet.parse(f"{U}:2")
    assert not GtidSet.parse(f"{U}:2") >= GtidSet.parse(f"{U}:1-9")


def test_repr_can_be_read_back() -> None:
    a = GtidSet.parse(f"{U}:1-2:4:t:1,{V}:1")
    assert eval(repr(a), {"GtidSet": GtidSet}) == a  # noqa: S307 its own repr


def test_copies_are_equal() -> None:
    a = GtidSet.parse(f"{U}:1-2:4")
    assert copy.copy(a) == a


def test_gtid() -> None:
    assert Gtid.parse(f"{U.upper()}:7") == Gtid(U, 7)
    assert Gtid.parse(f"{U}:Tag:7-7") == Gtid(f"{U}:tag", 7)
    assert str(Gtid(f"{U}:tag", 7)) == f"{U}:tag:7"
    assert Gtid(U, 7) in GtidSet.parse(f"{U}:5-7")
    assert Gtid(U, 8) not in GtidSet.parse(f"{U}:5-7")
    assert Gtid(V, 7) not in GtidSet.parse(f"{U}:5-7")


@pytest.mark.parametrize("text", ["", f"{U}:1-2", f"{U}:1:3", f"{U}:1,{V}:1", U, "x"])
def test_no_gtid(text: str) -> None:
    with pytest.raises(MalformedGtidSetError):
        Gtid.parse(text)
    with pytest.raises(MalformedGtidSetError):
        _ = text in GtidSet.parse(f"{U}:1-9")


def test_compact_closes_gaps_and_no_more() -> None:
    own = GtidSet.parse(f"{U}:5:9:20,{V}:3:5")
    known = GtidSet.parse(f"{U}:1-15:19-40,{V}:1-100,00000000-0000-0000-0000-000000000000:1")
    assert str(own.compact(known)) == f"{U}:5-15:19-20,\n{V}:3-5"
    assert own.compact(EMPTY) is own


# The quick way through a text that is almost another.


def gaps(numbers: range) -> str:
    return ":".join(str(number) for number in numbers)


@pytest.mark.parametrize(
    "text",
    [
        f"{U}:{gaps(range(1, 400, 2))},\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))}-401,\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))}:405-406,\n{V}:1-5",
        f"{U}:{gaps(range(1, 398, 2))},\n{V}:1-5",
        f"{U}:{gaps(range(1, 202, 2))}-203:{gaps(range(205, 400, 2))},\n{V}:1-5",
        f"{U}:{gaps(range(3, 400, 2))},\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))},\n{V}:1-6",
        f"{U}:{gaps(range(1, 400, 2))},\n{V}:1-6:tag:1",
        f"{U}:{gaps(range(1, 400, 2))}:tag:1,\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))}",
        f"{U}:{gaps(range(1, 402, 2))},\n{V}:1-6",
        f"{U}:{gaps(range(1, 400, 2))}:400,\n{V}:1-5",  # adjacent
        f"{U}:{gaps(range(1, 398, 2))}:398,\n{V}:1-5",  # adjacent to what stayed
        f"{U}:{gaps(range(1, 398, 2))}:3,\n{V}:1-5",
        f"{U}:{gaps(range(1, 100, 2))}:tag:{gaps(range(1, 298, 2))}:305,\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))}:2,\n{V}:1-5",  # out of order
        f"{U}:{gaps(range(1, 400, 2))}:07,\n{V}:1-5",
        f"{U}:{gaps(range(1, 400, 2))}, {V}:1-5",
        f"{V}:{gaps(range(1, 400, 2))}",
    ],
)
def test_near_changes_nothing_but_the_speed(text: str) -> None:
    near = GtidSet.parse(f"{U}:{gaps(range(1, 400, 2))},{V}:1-5")
    tagged = GtidSet.parse(f"{U}:{gaps(range(1, 100, 2))}:tag:{gaps(range(1, 300, 2))},{V}:1-5")
    plain = GtidSet.parse(text)
    for other in (near, tagged, plain, EMPTY):
        parsed = GtidSet.parse(text, other)
        assert parsed == plain
        assert str(parsed) == str(plain)
        assert parsed.intervals(U) == plain.intervals(U)


def test_an_equal_text_gives_the_set_that_was_near() -> None:
    near = GtidSet.parse(f"{U}:{gaps(range(1, 400, 2))},{V}:1-5")
    assert GtidSet.parse(str(near), near) is near


@pytest.mark.parametrize("end", [":", ":5-3", ":tag", ":1x", f",{V}", ":" + "9" * 20, ": 1 1"])
def test_near_hides_no_error(end: str) -> None:
    near = GtidSet.parse(f"{U}:{gaps(range(1, 400, 2))}")
    with pytest.raises(MalformedGtidSetError):
        GtidSet.parse(near.text + end, near)


# Against plain sets.

TSIDS = [U, U + ":a", U + ":b_1", V, V + ":a", "00000000-0000-0000-0000-000000000000"]
small_models = st.frozensets(st.tuples(st.sampled_from(TSIDS), st.integers(1, 12)), max_size=25)


@st.composite
def long_models(draw: st.DrawFn) -> tuple[Model, Model]:
    """Two long sets that differ in a few places, as two states of one server do."""
    step = draw(st.integers(2, 3))
    first = {(U, number) for number in range(1, 150, step)} | {(V, 3)}
    edits = st.sets(st.tuples(st.sampled_from([U, U, U, V]), st.integers(1, 155)), max_size=12)
    return frozenset(first ^ draw(edits)), frozenset(first ^ draw(edits))


pairs = st.one_of(st.tuples(small_models, small_models), long_models())


def from_model(model: Model) -> GtidSet:
    numbers: dict[str, list[tuple[int, int]]] = {}
    for tsid, number in model:
        numbers.setdefault(tsid, []).append((number, number + 1))
    return GtidSet(numbers)


def to_model(gtids: GtidSet) -> Model:
    return frozenset(
        (tsid, number)
        for tsid in gtids.tsids
        for start, end in gtids.intervals(tsid)
        for number in range(start, end)
    )


@given(pairs)
def test_algebra_is_that_of_plain_sets(pair: tuple[Model, Model]) -> None:
    a, b = pair
    set_a, set_b = from_model(a), from_model(b)
    results = {"|": set_a | set_b, "&": set_a & set_b, "-": set_a - set_b}
    models = {"|": a | b, "&": a & b, "-": a - b}
    for operation, result in results.items():
        assert to_model(result) == models[operation], operation
        # Normalised: an equal set made another way has the same text and intervals.
        assert result == from_model(models[operation])
        assert str(result) == str(from_model(models[operation]))
    assert (set_a <= set_b) == (a <= b)
    assert (set_b <= set_a) == (b <= a)
    assert (set_a == set_b) == (a == b)
    assert len(set_a) == set_a.count() == len(a)
    assert bool(set_a) == bool(a)


@given(pairs)
def test_compact_is_the_set_and_what_lies_between(pair: tuple[Model, Model]) -> None:
    own, within = pair
    ends: dict[str, tuple[int, int]] = {}
    for tsid, number in own:
        low, high = ends.get(tsid, (number, number))
        ends[tsid] = (min(low, number), max(high, number))
    between = {
        (tsid, number)
        for tsid, number in within
        if tsid in ends and ends[tsid][0] <= number <= ends[tsid][1]
    }
    assert to_model(from_model(own).compact(from_model(within))) == own | between


@given(small_models, st.sampled_from(TSIDS), st.integers(1, 13))
def test_membership_is_that_of_plain_sets(model: Model, tsid: str, number: int) -> None:
    gtids = from_model(model)
    assert (Gtid(tsid, number) in gtids) == ((tsid, number) in model)
    assert (f"{tsid}:{number}" in gtids) == ((tsid, number) in model)


@given(pairs)
def test_text_goes_both_ways(pair: tuple[Model, Model]) -> None:
    gtids, near = from_model(pair[0]), from_model(pair[1])
    # As the server prints it; on one line; through the patient reader; next to another set.
    for text in (str(gtids), gtids.text, " " + gtids.text, gtids.text.upper() + ","):
        for parsed in (GtidSet.parse(text), GtidSet.parse(text, near)):
            assert parsed == gtids
            assert str(parsed) == str(gtids)
            assert to_model(parsed) == pair[0]


@given(st.lists(st.tuples(st.sampled_from(TSIDS), st.integers(1, 30), st.integers(0, 9))))
def test_intervals_may_come_in_any_order_and_overlap(items: list[tuple[str, int, int]]) -> None:
    text = ",".join(f"{tsid}:{start}-{start + more}" for tsid, start, more in items)
    model = {(tsid, start + k) for tsid, start, more in items for k in range(more + 1)}
    assert to_model(GtidSet.parse(text)) == model


# One transaction after the other.


@given(
    small_models,
    st.lists(
        st.one_of(
            st.builds("{}:{}".format, st.sampled_from([*TSIDS, U.upper()]), st.integers(0, 40)),
            st.integers(1, 3).map(lambda more: f"+{more}"),
            st.sampled_from(
                ["", U, f"{U}:", f"{U}:07", f"{U}:7-9", f"{U}:7:9", f"{U}:1 ", f"x{U}:7"]
            ),
        ),
        max_size=9,
    ),
    st.integers(1, 5),
    st.booleans(),
)
def test_what_follows_is_told_as_by_parse_and_union(
    model: Model, texts: list[str], most: int, text_is_cached: bool
) -> None:
    gtids = from_model(model)
    highest = max([number for _, number in model], default=0)
    for text in texts:
        if text.startswith("+"):
            highest += int(text)
            text = f"{U}:{highest}"
        if text_is_cached:
            assert gtids.text == gtids.text
        single, both = gtids.followed_by(text.encode(), most)
        if single is EMPTY:
            assert both is EMPTY
            with contextlib.suppress(MalformedGtidSetError):
                gtids |= GtidSet.parse(text)
            continue
        assert single == GtidSet.parse(text)
        assert both == gtids | single
        assert (single.text, both.text) == (GtidSet.parse(text).text, (gtids | single).text)
        assert both.interval_count <= most
        gtids = both


def test_what_follows_is_told_where_that_is_simple() -> None:
    gtids = GtidSet.parse(f"{U}:5")
    for number, expected in ((6, "5-6"), (7, "5-7"), (9, "5-7:9"), (10, "5-7:9-10"), (12, "")):
        single, both = gtids.followed_by(f"{U}:{number}".encode(), 2)
        assert (single.text, both.text) == (
            (f"{U}:{number}", f"{U}:{expected}") if expected else ("", "")
        )
        gtids = both or gtids
    for text in (f"{U}:10", f"{U}:1", f"{V}:20", f"{U}:tag:20", f"{U}:20-21", f"{U}:{LAST + 1}"):
        assert gtids.followed_by(text.encode(), 9) == (EMPTY, EMPTY)
    assert GtidSet.parse(f"{U}:1:3:5").followed_by(f"{U}:6".encode(), 2) == (EMPTY, EMPTY)
    for text in (f"{U}:5,{V}:5", f"{U}:tag:5", ""):
        assert GtidSet.parse(text).followed_by(f"{U}:6".encode(), 9) == (EMPTY, EMPTY)


# Anything else gives MalformedGtidSetError.


def parse_or_refuse(text: str, near: GtidSet | None = None) -> None:
    try:
        gtids = GtidSet.parse(text, near)
    except MalformedGtidSetError:
        return
    assert GtidSet.parse(str(gtids)) == gtids
    # Nothing but blanks and commas is empty.
    assert gtids or not text.strip(" \t\n\v\f\r,")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    parse_or_refuse(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedGtidSetError):
        GtidSet.parse(data)


@given(st.lists(st.sampled_from([U, V, ":", ":", "-", ",", "\n", " ", "1", "07", "9", "tag", "_"])))
def test_any_words_of_the_language_are_read_or_refused(words: list[str]) -> None:
    parse_or_refuse("".join(words))


LONG = GtidSet.parse(f"{U}:{gaps(range(1, 200, 2))}:tag:4-5:9,{V}:1-5")


@given(
    st.integers(0, len(LONG.text)), st.integers(0, 4), st.text(":-, \n019axX_\u0661", max_size=4)
)
def test_an_edited_text_is_read_or_refused(at: int, removed: int, added: str) -> None:
    text = LONG.text[:at] + added + LONG.text[at + removed :]
    parse_or_refuse(text)
    parse_or_refuse(text, LONG)
    try:
        plain: GtidSet | None = GtidSet.parse(text)
    except MalformedGtidSetError:
        plain = None
    try:
        near: GtidSet | None = GtidSet.parse(text, LONG)
    except MalformedGtidSetError:
        near = None
    assert near == plain


@given(st.lists(small_models, min_size=1, max_size=6))
def test_united_is_what_is_in_any(models: list[Model]) -> None:
    assert to_model(united([from_model(model) for model in models])) == frozenset().union(*models)


_UUIDS = st.one_of(st.just(U), st.just(U.upper()), st.text("0123456789abcdef-", max_size=37))
_NUMBERS = st.one_of(st.integers(-1, 2**63 + 1).map(str), st.text("0123456789-: ", max_size=21))


@given(_UUIDS, st.sampled_from([":", "-", "", " :", "::"]), _NUMBERS)
def test_bytes_of_one_gtid_are_read_as_its_text_is(uuid: str, colon: str, number: str) -> None:
    text = f"{uuid}{colon}{number}"
    try:
        expected = GtidSet.parse(text)
    except MalformedGtidSetError:
        with pytest.raises(MalformedGtidSetError):
            GtidSet.parse(text.encode())
        return
    found = GtidSet.parse(text.encode())
    assert found == expected
    assert found.text == expected.text


def test_an_equal_set_is_the_one_that_is_near() -> None:
    """What all connections of a server are told alike is kept once, however it came to be."""
    near = GtidSet.parse(f"{U}:1-4") | GtidSet.parse(f"{U}:5-9")
    assert GtidSet.parse(f"{U}:1-9", near) is near
    assert GtidSet.parse(f"{U}:1-9", near) is near
    assert near.text == f"{U}:1-9"
    assert GtidSet.parse("") is EMPTY
    assert GtidSet.parse("", near) is EMPTY
