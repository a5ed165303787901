"""Connections to MySQL servers, and what is asked of the servers."""
