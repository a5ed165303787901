"""What an audit of a day must know of the time before: a few facts, in the form of records.

Theory of operation
===================

What a read must see follows from all that happened before it, most of it long ago. But the order of
events that had ended before any read of the day arrived does not matter any more. So at a day's end
the records up to a moment (`cut`) are *condensed* into facts, each of which stands for many. For
example, a session's statements become one fact with the union of what they wrote and the time of
the last, and one with what they saw (`facts` has the kinds). The records of the last hour are kept
as they are: the *tail*.

=============  =====================================================================================
`facts`        the kinds of facts, and how facts are merged
`condense`     makes facts of records
`events`       what was left open, the whole sets that bound it, and when primaries were used
`turns`        what remains of an earlier primary's facts, once another primary has been asked
`ageing`       what remains of sessions and runs that are over
`end`          combines all of this with the facts of the state before, and writes a state
`records`      makes records of facts, from which judges conclude the same as from all records
`states`       keeps states on disk, and chooses the one that an audit of a day begins with
`before`       begins with a state
=============  =====================================================================================

The rules are not written a second time: judges do not know of facts. The records that
stand for many have numbers below 0, so they use no number of the log, and no number is missing
because of them. The last known numbers of the time before are stored beside them.

A state does not hold the order of events before its tail. So a read that shares an older snapshot,
or allows an older state, is not judged then. A read that left a server is not held to answers from
before the tail (`verdict.Lapse.LEFT`), and a server's losses are counted anew
(`false_proofs`). How far clocks are ahead is found out anew from the tail and the day.
"""
