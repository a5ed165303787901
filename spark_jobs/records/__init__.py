"""From the files of a routing log to its records, each with what its number shows."""
