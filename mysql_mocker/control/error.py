"""Mistakes in what the mocker was asked to do."""

from enum import Enum


class Wrong(Enum):
    """What kind of mistake it is."""

    NOT_THERE = "not there"
    UNKNOWN_NAME = "unknown name"
    WRONG_VALUE = "wrong value"
    WRONG_STATE = "wrong state"


class ControlError(Exception):
    """Nothing has changed; the message says why, and what would be right.

    Attributes:
        wrong: the kind of mistake, by which SQL and HTTP choose their codes.
    """

    def __init__(self, wrong: Wrong, message: str) -> None:
        super().__init__(message)
        self.wrong = wrong


def wrong_value(name: str, wanted: str) -> ControlError:
    """A setting or a part of a fault has a value that it cannot have."""
    return ControlError(Wrong.WRONG_VALUE, f"{name}: want {wanted}")


def unknown_name(kind: str, name: str, known: list[str]) -> ControlError:
    """A setting or a field that does not exist."""
    return ControlError(Wrong.UNKNOWN_NAME, f"there is no {kind} {name!r}; {', '.join(known)} are")


def unknown_server(name: str, known: list[str]) -> ControlError:
    """A server that the cluster does not have."""
    return ControlError(
        Wrong.NOT_THERE, f"there is no server {name!r}; the servers are {', '.join(known)}"
    )
