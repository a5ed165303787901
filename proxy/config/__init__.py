"""The configuration: its options, how they are read, and which values exclude each other."""

from proxy.config.config import Config
from proxy.config.error import ConfigError
from proxy.config.reading import load

__all__ = ["Config", "ConfigError", "load"]
