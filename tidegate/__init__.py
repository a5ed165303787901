"""Tidegate, a MySQL proxy. Installed, the other packages stand below this one (see setup.py)."""
