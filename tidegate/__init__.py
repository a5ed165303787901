"""Tidegate, a MySQL proxy. In an installation, the other packages are below this one (setup.py)."""
