"""What is told of a suite: how to get it, and how to run it at a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

USER, PASSWORD = "root", "suite-secret"
"""The account at every target: all privileges, from every host."""


@dataclass(frozen=True)
class Target:
    """Where a suite finds its server.

    Attributes:
        name: ``direct`` or ``tidegate``.
        host: an IPv4 address.
        port: TCP port.
    """

    name: str
    host: str
    port: int

    @property
    def variables(self) -> dict[str, str]:
        """The name, address and account as environment variables, for programs of ours."""
        return {
            "TIDEGATE_TARGET": self.name,
            "TIDEGATE_HOST": self.host,
            "TIDEGATE_PORT": str(self.port),
            "TIDEGATE_USER": USER,
            "TIDEGATE_PASSWORD": PASSWORD,
        }


@dataclass(frozen=True)
class Invocation:
    """A program that runs a suite and records each test (``inside/tidegate_recording.py``).

    Attributes:
        command: the program and its arguments.
        folder: where it runs.
        environment: variables beside this process's own.
        seconds: after so long it is ended; tests that had no turn count as missing.
    """

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 1800


@dataclass(frozen=True, eq=False)
class Suite:
    """A driver's own tests, or what stands in for them.

    Attributes:
        name: what it is called on the command line.
        title: what is run, for the page; Markdown.
        versions: of what is tested, for the page.
        statements: run on the primary beforehand: the databases and accounts that it expects.
        prepare: fetches and installs what it needs; run before any invocation.
        invocation: how to run it at a target.
        everywhere: run on the primary and on each replica, after these: settings of servers.
        options: of `tidegate run`, where the defaults are not what is tested.
        known: what a test's name, or its error, may contain, with the reason, for users, why it
            ends otherwise through Tidegate.
    """

    name: str
    title: str
    versions: str
    statements: tuple[str, ...]
    prepare: Callable[[], None]
    invocation: Callable[[Target], Invocation]
    everywhere: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
