"""A session's transactions: where each of them stands, and which of its reads leave the primary."""
