"""Binary logs: their files and their stream, read and written event by event."""
