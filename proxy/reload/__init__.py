"""Reads the configuration anew while the proxy runs."""
