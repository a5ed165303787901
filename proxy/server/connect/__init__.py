"""The opening of a connection to a server: greeting, login, settings."""
