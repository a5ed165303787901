"""A server as its sessions see it, and a session as its statements do: data, GTIDs, variables."""
