"""Which proxies serve one cluster, and the history of its primaries' whole sets."""
