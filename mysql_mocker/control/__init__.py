"""What can be done to a cluster while it runs, and how: from Python, by SQL and by HTTP."""
