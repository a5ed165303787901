"""The settings of a server: the one list that Python, SQL and HTTP share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mysql_mocker.control.error import ControlError, Wrong, wrong_value
from mysql_mocker.control.values import duration, duration_text, switch
from mysql_mocker.server.server import Server
from mysql_mocker.state.semi_sync import WaitPoint

Value = bool | float | WaitPoint
Shown = bool | str | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set while a server runs.

    Attributes:
        read: makes a value of what was given under the setting's name; raises ControlError.
        get: the value as it is shown; None if the server has no such setting.
        set: changes it.
        of_replicas: whether only servers that follow another one have it.
    """

    read: Callable[[str, object], Value]
    get: Callable[[Server], Shown]
    set: Callable[[Server, Value], Awaitable[None]]
    of_replicas: bool = False

    def belongs_to(self, server: Server) -> bool:
        """Whether the server has it."""
        return server.applier is not None or not self.of_replicas


def _attribute(name: str, *, of_replicas: bool = False, seconds: bool = False) -> Setting:
    async def change(server: Server, value: Value) -> None:
        setattr(server, name, value)

    def get(server: Server) -> Shown:
        if of_replicas and server.applier is None:
            return None
        value = getattr(server, name)
        return duration_text(value) if seconds else bool(value)

    return Setting(duration if seconds else switch, get, change, of_replicas)


def _wait_point(name: str, raw: object) -> WaitPoint:
    try:
        return WaitPoint("off" if raw in (False, 0) else str(raw).lower())
    except ValueError as error:
        raise wrong_value(name, "'off', 'after_sync' or 'after_commit'") from error


async def _set_wait_point(server: Server, point: Value) -> None:
    server.semi_sync.point = WaitPoint(point)
    server.semi_sync.given_up = None


async def _set_wait_limit(server: Server, seconds: Value) -> None:
    if not isinstance(seconds, WaitPoint):
        server.semi_sync.timeout = float(seconds)


async def _run(server: Server, run: Value) -> None:
    if not run:
        await server.stop()
    elif not server.running:
        try:
            await server.start()
        except OSError as error:
            raise ControlError(
                Wrong.WRONG_STATE, f"{server.name} cannot have its port {server.port}: {error}"
            ) from error


async def _set_read_only(server: Server, read_only: Value) -> None:
    if read_only:
        server.read_only = True
    else:
        server.set_variable("read_only", False)


SETTINGS: Final[dict[str, Setting]] = {
    "lag": _attribute("apply_delay", of_replicas=True, seconds=True),
    "applying": _attribute("applying", of_replicas=True),
    "read_only": Setting(switch, lambda server: server.read_only, _set_read_only),
    "semi_sync": Setting(_wait_point, lambda s: s.semi_sync.point.value, _set_wait_point),
    "semi_sync_timeout": Setting(
        duration, lambda s: duration_text(s.semi_sync.timeout), _set_wait_limit
    ),
    "ack_delay": _attribute("ack_delay", of_replicas=True, seconds=True),
    "login_delay": _attribute("login_delay", seconds=True),
    "frozen": _attribute("frozen"),
    "running": Setting(switch, lambda server: server.running, _run),
}
"""By name, in the order in which several changes at once are made."""
