"""Tidegate beside a direct connection, HAProxy and MySQL Router, on one machine, in turns."""
