"""What people and machines are shown of an audit: a page, a summary, and metrics in a text file."""
