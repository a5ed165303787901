"""The audit: PySpark jobs over the routing log. They import nothing of the proxy.

Its folders, each of which may use those before it:

==============  ==========================================================================
`tables`        the schemas of all tables
`records`       the files of a log, and the records in them
`clocks`        whether the clocks of the log were right
`primaries`     which proxies serve one cluster, and the history of its primaries
`columns`       verdicts on plain reads, by whole columns
`reads`         verdicts on all other reads, one record after the other
`procedure`     whether the proxy asked where it had to
`store`         the segments that were taken, with ``--date``
`state`         what an audit of a day knows of the time before
`binlogs`       evidence from binary logs
`findings`      incidents, counter-examples, and the results that are kept
`audit`         one audit: from records to findings
`report`        the page, the summary and the metrics
==============  ==========================================================================

`nightly` is the command; `day_audit` and `live` are its forms for a day and for the newest hours.
"""
