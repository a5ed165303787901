"""The audit's plain part by whole columns: most reads get their verdict here, and none is refused.

Theory of operation
===================

A log is a set of Parquet files. Workers go through them three times, chunk by chunk, with arrays of
numbers in place of records (`chunk`); `passes` has the order, and Spark hands out the work
(`tasks`).

1. `survey` says what the log is about: runs, servers, levels, stretches of numbers (`numbers`), and
   the tables that need no verdict (`traffic`).
2. `tellings` turns what was written, seen and shown into rows of numbers. Spark puts them in order,
   and `series` lays them down as long arrays of running maxima, which all workers share.
3. `settle` looks up, for each read, what it was owed and what its server had been shown to have.
   Where the claim covers the one, and the evidence the claim, the verdict is plain. `steps` does
   the same with the procedure.

What remains is the judge's (`spark_jobs.judge`), who goes through the groups of those reads record
by record and alone says violation. Verdicts are the same as if he had judged all.

Where clocks may differ all of this says nothing.
"""
