"""Tidegate, a direct connection, HAProxy and MySQL Router, measured in turns on one machine."""
