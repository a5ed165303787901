"""Bytes and values of the MySQL client/server protocol; no socket, no clock, no logging."""

from protocol._implementation import compiled

__all__ = ["compiled"]
