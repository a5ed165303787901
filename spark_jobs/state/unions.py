"""Computes the unions of groups of GTID sets, as canonical text."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Numbers, starts
from spark_jobs.columns.series import greatest_so_far
from spark_jobs.columns.sets import Sets
from spark_jobs.gtid import GtidSet, parse


def united(sets: Sets, texts: pa.Array, group: Numbers, which: Numbers, count: int) -> pa.Array:
    """Unite sets group by group.

    Args:
        sets: the sets.
        texts: the texts that the sets were read from; those of odd sets must be well-formed.
        group: numbers of groups.
        which: for each item of `group`, the number of a set in that group.
        count: how many groups there are.

    Returns:
        The text of each group's union.
    """
    pairs = np.unique(group * len(sets.odd) + which)
    group, which = np.divmod(pairs, len(sets.odd)) if len(pairs) else (pairs, pairs)
    found = _plain(sets, group, which, count)
    odd = np.flatnonzero(sets.odd[which])
    if not len(odd):
        return found
    rest: defaultdict[int, GtidSet] = defaultdict(GtidSet)
    for row in odd:
        rest[int(group[row])].update(parse(str(texts[int(which[row])])))
    its = found.to_pylist()
    for number, gtids in rest.items():
        gtids.update(parse(its[number]))
        its[number] = gtids.text()
    return pa.array(its, pa.string())


def _plain(sets: Sets, group: Numbers, which: Numbers, count: int) -> pa.Array:
    """The same for the sets that are not odd."""
    sizes = sets.sizes[which]
    owner = np.repeat(group, sizes)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.repeat(sets.begins[which], sizes) + step
    if not len(at):
        return pa.array([""] * count, pa.string())
    rank = np.argsort(np.argsort(sets.sources))
    series = owner * len(sets.sources) + rank[sets.source[at]]
    order = np.lexsort((sets.low[at], series))
    series, low, high = series[order], sets.low[at][order], sets.high[at][order]
    first = starts(series)
    most = greatest_so_far(high, first)
    apart = first.copy()
    apart[1:] |= low[1:] > most[:-1] + 1
    begins = np.flatnonzero(apart)
    low, high, series = low[begins], most[np.append(begins[1:], len(most)) - 1], series[begins]
    lows, highs = pa.array(low).cast(pa.string()), pa.array(high).cast(pa.string())
    spans = pc.binary_join_element_wise(lows, highs, "-")
    intervals = pc.if_else(pa.array(low == high), lows, spans)
    heads = np.flatnonzero(starts(series))
    joined = _joined(intervals, np.append(heads, len(series)), ":")
    owner, source = np.divmod(series[heads], len(sets.sources))
    named = pc.binary_join_element_wise(_names(sets, owner, source), joined, ":")
    return _joined(named, np.searchsorted(owner, np.arange(count + 1)), "")


def _names(sets: Sets, owner: Numbers, source: Numbers) -> pa.Array:
    """The text before the intervals of each source: if its UUID was named already, only the tag."""
    names = sorted(sets.sources)
    uuids, tags = zip(*(name.partition(":")[::2] for name in names), strict=True)
    uuid = np.unique(uuids, return_inverse=True)[1][source]
    again = owner[1:] == owner[:-1]
    form = np.zeros(len(owner), np.int64)
    form[1:] = np.where(again, np.where(uuid[1:] == uuid[:-1], 2, 1), 0)
    forms = [*names, *(f",{name}" for name in names), *(f":{tag}" for tag in tags)]
    return pa.array(forms, pa.string()).take(pa.array(form * len(names) + source))


def _joined(texts: pa.Array, ends: Numbers, by: str) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts)
    return pc.binary_join(lists, by)
