"""Compares replicas' global variables with the primary's (`routing.session.global_variables`).

`tidegate check --connect` compares them once. SET GLOBAL, and a restart with another my.cnf, change
them while the proxy runs, so each server is asked again with each new connection of the monitor,
and once a minute. What differs is logged when it changes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from proxy.server.errors import ServerRefusedError
from proxy.server.query import ask, rows
from routing.servers.topology import Role
from routing.session import global_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_EVERY_S: Final = 60.0
"""SHOW GLOBAL VARIABLES goes through all variables of a server, whichever are wanted."""

_LONGEST: Final = 900
"""How long a question may be, bytes: max_allowed_packet may be as small as 1024."""


def _questions() -> tuple[bytes, ...]:
    """Ask for all variables, in as few statements as fit.

    A variable that a server does not know is missing in the answer, and is no error.
    """
    groups = [""]
    for name in global_variables.COMPARED:
        quoted = f"_latin1'{name}'"
        if len(groups[-1]) + len(quoted) > _LONGEST - 60:
            groups.append("")
        groups[-1] += f",{quoted}" if groups[-1] else quoted
    return tuple(
        f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})".encode("ascii")
        for names in groups
    )


QUESTIONS: Final = _questions()

_log = logging.getLogger(__name__)


class ServerDifferences:
    """What a monitor knows of its servers' global variables."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._variables: dict[Server, Mapping[str, str]] = {}
        self._asked: dict[Server, tuple[ServerConnection, float]] = {}  # by which, when
        self._logged: dict[Server, tuple[list[str], list[str]]] = {}

    def forget(self, server: Server) -> None:
        """A server is watched no more."""
        self._variables.pop(server, None)
        self._asked.pop(server, None)
        self._logged.pop(server, None)

    async def ask(self, server: Server, connection: ServerConnection) -> None:
        """Ask a server, if it is time, and compare.

        Raises:
            ChannelClosedError, ProtocolError: as `query`.
        """
        now = self._shared.now()
        last = self._asked.get(server)
        if last is not None and last[0] is connection and now - last[1] < _EVERY_S:
            return
        self._asked[server] = connection, now
        variables: dict[str, str] = {}
        try:
            for question in QUESTIONS:
                ask(connection, question)
                for row in await rows(connection):
                    name = _text(row.get("Variable_name")).lower()
                    variables[name] = _text(row.get("Value"))
        except ServerRefusedError as error:
            _log.debug("server %s does not show its variables: %s", server.name, error)
            self._variables.pop(server, None)
        else:
            self._variables[server] = variables
        self._compare_all()

    def _compare_all(self) -> None:
        topology = self._shared.topology
        primary = self._variables.get(topology.primary)
        for server in topology.watched:
            own = self._variables.get(server)
            if server.role is Role.PRIMARY or primary is None or own is None:
                self._shared.metrics.differences(server.name, None)
                self._logged.pop(server, None)
            else:
                self._compare(server, primary, own)

    def _compare(self, replica: Server, primary: Mapping[str, str], own: Mapping[str, str]) -> None:
        differing = global_variables.not_carried(primary, own)
        carried = global_variables.carried(primary, own)
        self._shared.metrics.differences(replica.name, (len(differing), len(carried)))
        found = list(differing.values()), carried
        before = self._logged.get(replica, ([], []))
        self._logged[replica] = found
        if found[0] != before[0]:
            if differing:
                _log.warning("replica %s: %s", replica.name, "; ".join(differing.values()))
            else:
                _log.info("replica %s no longer differs in what is the server's own", replica.name)
        if found[1] != before[1]:
            _log.info(
                "replica %s begins sessions with other values than the primary, so each is told the"
                " primary's: %s",
                replica.name,
                ", ".join(carried) or "none any more",
            )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
