"""GTID sets: one from its text, and those of every shape for Hypothesis.

Many UUIDs, tags, gaps, and numbers up to the last.
"""

from hypothesis import strategies as st

from protocol.gtid import GtidSet
from protocol.gtid_intervals import END_OF_NUMBERS

NUMBERS = st.one_of(st.integers(1, 300), st.integers(1, END_OF_NUMBERS - 1))
INTERVALS = st.builds(
    lambda start, length: (start, min(start + length, END_OF_NUMBERS)), NUMBERS, NUMBERS
)
TAGS = st.from_regex(r"\A[a-z_][a-z0-9_]{0,31}\Z")
UUIDS = st.uuids().map(str)
TSIDS = st.one_of(UUIDS, st.builds("{}:{}".format, UUIDS, TAGS))


def gtids(text: str) -> GtidSet:
    """The set of a text."""
    return GtidSet.parse(text)


def _sets(tsids: st.SearchStrategy[str]) -> st.SearchStrategy[GtidSet]:
    return st.dictionaries(tsids, st.lists(INTERVALS, max_size=6), max_size=12).map(GtidSet)


GTID_SETS = st.one_of(
    _sets(TSIDS),
    # Several tags of the same UUIDs.
    st.lists(UUIDS, min_size=1, max_size=3).flatmap(
        lambda uuids: _sets(
            st.one_of(
                st.sampled_from(uuids), st.builds("{}:{}".format, st.sampled_from(uuids), TAGS)
            )
        )
    ),
)
