"""The tables of the report that need no verdict: waits, lag, where statements went, GTID sets."""
