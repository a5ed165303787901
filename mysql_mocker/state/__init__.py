"""What a server is to its sessions, and a session to its statements: data, GTIDs, variables."""
