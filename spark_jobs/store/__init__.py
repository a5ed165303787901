"""What has been taken from a routing log: its closed segments, each once, as Parquet."""
