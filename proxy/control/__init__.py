"""The socket at which a running proxy takes commands from other processes of the same user."""
