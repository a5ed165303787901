"""The audit's plain part in column expressions: what follows from running maxima alone.

`primary_history.learn(records, plainly=True)` lets columns do what they can, as the audit of a long
log does. The judge, which goes through records one by one, then has only the rest, and the verdicts
are the same. Where clocks may differ (`clock_error_us` above 0) columns are not used at all.
"""
