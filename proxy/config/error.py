"""The error of a configuration that cannot be used."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PASSWORD: Final = re.compile(r"([^\s:]):(?=\S).*@", re.DOTALL)
"""What stands between a colon and the last ``@``, as in ``mysql://USER:PASSWORD@HOST``."""


class ConfigError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: all that is wrong; each says where, what, and what is allowed. A text that was
            given where it does not belong may be a password, and is left out.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(_PASSWORD.sub(r"\1:***@", problem) for problem in problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[str, ...]]:
        return ConfigError, self.problems


class Problems:
    """Collects what is wrong with a configuration, so that all of it is reported at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, problem: str) -> None:
        """Add one."""
        self._found.append(problem)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Add those of a ConfigError that is raised within."""
        try:
            yield
        except ConfigError as error:
            self._found += error.problems

    def report(self) -> None:
        """Raise all of them, if there are any."""
        if self._found:
            raise ConfigError(*self._found)
