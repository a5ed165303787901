"""The plain part of the audit by whole columns: most reads get their verdict here.

Theory of operation
===================

A log is a set of Parquet files. Workers go through them three times, chunk by chunk, with arrays of
numbers in place of records (`chunk`). `passes` has the order of the passes, and Spark distributes
the work (`tasks`).

1. `survey` finds what the log holds: runs, servers, levels, stretches of numbers (`numbers`).
2. `tellings` turns what was written, seen and shown into rows of numbers. Spark sorts them, and
   `series` writes them as long arrays of running maxima, which all workers share.
3. `settle` looks up, for each read, what it had to see and what its server had been shown to have.
   If the proof's set covers the former, and the evidence covers the proof's set, the verdict is
   plain. `steps` does the same for the procedure.

The remaining reads are left to the judge (`spark_jobs.reads.judge`), which goes through their
groups record by record, and alone gives the verdict "violation". The verdicts are the same as if
the judge had judged all reads.

If a clock was set back, or a time is too wrong for the series, all reads are left to the judge.
"""
