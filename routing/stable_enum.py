"""The base of the closed enums."""

from enum import StrEnum


class StableStrEnum(StrEnum):
    """A string of a closed set: itself in metrics and log, and hashed as fast as any string."""

    __hash__ = str.__hash__
