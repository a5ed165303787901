"""The configuration: its options, where they come from, and what they may not say of each other."""

from proxy.config.config import Config
from proxy.config.error import ConfigError
from proxy.config.reading import load

__all__ = ["Config", "ConfigError", "load"]
