"""The audit: PySpark jobs over the routing log. They import nothing of the proxy."""
