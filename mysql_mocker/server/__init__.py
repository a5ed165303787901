"""What a server is: its cluster, sessions, storage, variables and GTID state."""
