"""From the bytes of a command to what is sent to a server."""
