"""Of KILL: whom the id names that a client gives, in whatever worker."""
