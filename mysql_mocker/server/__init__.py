"""Running servers: they listen, accept connections, and follow each other."""
