"""The error of a configuration that cannot be used."""


class ConfigError(Exception):
    """The configuration cannot be used; the message says where, what, and what is allowed."""
