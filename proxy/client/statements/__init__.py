"""The proxy's own statements on a session's connections: one file each, SQL and answer."""
