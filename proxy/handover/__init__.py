"""How a new process takes over from one that runs: sockets, scopes, and who accepts clients."""
