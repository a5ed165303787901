"""What an audit of a day has to know of the time before it: few facts, as records like any other.

Theory of operation
===================

What a read is owed follows from all that happened before it, and most of that is long ago. Yet of
what had ended before any read of the day arrived, the order tells nothing any more. So at a day's
end the records up to a moment (`cut`) are *condensed* into facts, each of which stands for many: a
session's statements become one with the union of what they wrote and the time of the last, one of
what they saw, and so on (`facts` has the kinds). The last hour stays as it is: the *tail*.

=============  =====================================================================================
`condense`     goes through the records of a piece by whole columns, as `spark_jobs.columns` does
`unions`       unites GTID sets for it
`events`       what was left open, the whole sets that bound it, and when primaries were sent what
`turns`        what is left of an earlier primary, once another one has been asked
`ageing`       what is left of sessions and runs that are over
`make`         puts all of this and the facts of the state before together
`records`      makes records of facts, from which all judges conclude what they would have from all
`states`       keeps states on disk, and says which one a day begins with
`end`, `before`  write one, and begin with one, with Spark to hand out the work
=============  =====================================================================================

The rules are not written a second time: neither judges nor columns know of facts. Records that
stand for many have numbers below 0, so that none is numbered, or missing; up to where numbers were
known before is told beside them.

What a state does not hold: in which order things happened before its tail. A read that shares an
older snapshot, or allows for an older state, is not judged then. Answers in there are not held
against a read that left their server (`verdict.Lapse.LEFT`), and a server's losses are counted anew
(`reliance`). What clocks are ahead is found out anew from the tail and the day.
"""
