"""Binary logs as a data source, and as evidence that never passed through the proxy."""
