"""Keys and TLS contexts, towards clients and servers."""
