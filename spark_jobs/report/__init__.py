"""The reports of an audit: a page, a summary, and metrics."""
