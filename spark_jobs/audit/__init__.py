"""One audit: from the records of a log to its findings and tables."""
