"""What outlives a process: who the primary is, and what wide scopes require."""
