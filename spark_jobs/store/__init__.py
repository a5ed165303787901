"""The store: the closed segments of a routing log, each taken once, as Parquet."""
