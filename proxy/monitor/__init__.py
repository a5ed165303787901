"""Watches the servers: who is up, who is the primary, who has what."""
