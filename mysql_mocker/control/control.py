"""What can be done to a cluster: the verbs that Python, SQL and HTTP share."""

import asyncio
from dataclasses import dataclass
from itertools import count

from mysql_mocker.control import faults, values
from mysql_mocker.control.error import ControlError, Wrong, unknown_name, unknown_server
from mysql_mocker.control.faults import Armed
from mysql_mocker.control.settings import SETTINGS, Setting, Value
from mysql_mocker.control.state import ServerState, role, state_of
from mysql_mocker.server.cluster import Cluster, PromotionError
from mysql_mocker.server.server import Server
from mysql_mocker.state.semi_sync import TIMEOUT_SECONDS

GROUPS = ("replicas", "all")

_MOST_LOST = 10**9
_AT_ONCE = 1e-3  # seconds; a wait of 0 would never end


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promotion did.

    Attributes:
        primary: the new one's name.
        stopped: the servers that had transactions that the new primary lacks, and so cannot follow.
    """

    primary: str
    stopped: list[str]


class Control:
    """Changes a running cluster; to be used in its event loop.

    Servers are named: ``primary``, ``replica1`` and so on, as `state` lists them. `set`, `clear`
    and `disconnect` also take the groups ``replicas`` and ``all``.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._lag = {s: s.apply_delay for s in cluster.servers if s.applier is not None}
        self._armed: dict[Server, list[Armed]] = {server: [] for server in cluster.servers}
        self._numbers = count(1)

    # What there is.

    @property
    def servers(self) -> list[Server]:
        """All servers, as they were made; each has `name`, `host`, `port` and `address`."""
        return self.cluster.servers

    @property
    def primary(self) -> Server:
        """The server that takes writes: another one after a promotion."""
        return self.cluster.primary

    @property
    def replicas(self) -> list[Server]:
        """All other servers."""
        return self.cluster.replicas

    async def state(self) -> list[ServerState]:
        """The state of all servers, in the order in which they were made."""
        return [self._state(server) for server in self.cluster.servers]

    async def server(self, name: str) -> ServerState:
        """The state of one server.

        Raises:
            ControlError: there is no such server.
        """
        return self._state(self._find(name))

    async def statements(self, server: str) -> list[str]:
        """The newest 10,000 statements that clients sent to a server, the oldest first.

        Raises:
            ControlError: there is no such server.
        """
        return [text for _, text in self._find(server).statements]

    def _state(self, server: Server) -> ServerState:
        return state_of(self.cluster, server, self._live(server))

    def _live(self, server: Server) -> list[Armed]:
        """The faults that can still happen; the others are forgotten."""
        server_faults = server.faults.armed
        self._armed[server] = [
            armed for armed in self._armed[server] if armed.fault in server_faults
        ]
        return self._armed[server]

    def _find(self, name: str) -> Server:
        for server in self.cluster.servers:
            if server.name == name:
                return server
        raise unknown_server(name, [server.name for server in self.cluster.servers])

    def _group(self, name: str) -> list[Server]:
        if name == "all":
            return self.cluster.servers
        if name == "replicas":
            return [s for s in self.cluster.servers if role(self.cluster, s) == "replica"]
        return [self._find(name)]

    # What can be done.

    async def set(self, server: str, /, **settings: object) -> None:
        """Changes settings of a server or a group: all of them, or none if one is wrong.

        ``set("replica1", lag="300ms", applying=False)``; `SETTINGS` says what there is.

        Raises:
            ControlError: there is no such server or setting, or it cannot have this value.
        """
        servers = self._group(server)
        found: dict[str, tuple[Setting, Value]] = {}
        for name, raw in settings.items():
            setting = SETTINGS.get(name)
            if setting is None:
                raise unknown_name("setting", name, list(SETTINGS))
            found[name] = setting, setting.read(name, raw)
            for member in servers:
                if not setting.belongs_to(member):
                    is_ = role(self.cluster, member)
                    raise ControlError(
                        Wrong.WRONG_STATE, f"only replicas have {name}; {member.name} is {is_}"
                    )
        for name in SETTINGS:
            if name in found:
                setting, value = found[name]
                for member in servers:
                    await setting.set(member, value)

    async def fault(self, server: str, /, **fields: object) -> dict[str, str | int]:
        """Arms a fault, and shows it with its id.

        ``fault("primary", match="INSERT INTO orders", error=1213)``; `faults.FIELDS` says what
        there is.

        Raises:
            ControlError: there is no such server, or the fault is wrong.
        """
        target = self._find(server)
        fault, shown = faults.read(fields)
        armed = Armed(next(self._numbers), fault, shown)
        target.faults.arm(fault)
        self._live(target).append(armed)
        return armed.shown()

    async def clear(self, server: str = "all", number: int | None = None) -> None:
        """Ends the faults of a server or a group, or the one with this id.

        Raises:
            ControlError: there is no such server, or it has no such fault.
        """
        servers = self._group(server)
        if number is None:
            for member in servers:
                member.faults.clear()
            return
        for member in servers:
            for armed in self._live(member):
                if armed.id == number:
                    member.faults.disarm(armed.fault)
                    return
        raise ControlError(
            Wrong.NOT_THERE, f"there is no fault {number} any more at {server}; see its state"
        )

    async def disconnect(self, server: str) -> int:
        """Breaks all connections to a server or a group; returns how many there were.

        Raises:
            ControlError: there is no such server.
        """
        return sum(member.disconnect() for member in self._group(server))

    async def promote(self, server: str, lose: object = 0) -> Promotion:
        """Makes a replica the primary, without the newest `lose` transactions of the old one.

        Raises:
            ControlError: there is no such server, or it is not a running replica, or it has applied
                what it should lose.
        """
        lost = values.whole_number("lose", lose, 0, _MOST_LOST)
        new = self._find(server)
        try:
            stopped = await self.cluster.promote(new, lost)
        except PromotionError as error:
            raise ControlError(Wrong.WRONG_STATE, str(error)) from error
        return Promotion(new.name, [member.name for member in stopped])

    async def reset(self) -> None:
        """Undoes what `set` and `fault` did, and forgets statements; data and roles stay.

        Raises:
            ControlError: a server that was stopped cannot have its port again.
        """
        first_lag = next(iter(self._lag.values()), 0.0)
        for server in self.cluster.servers:
            server.faults.clear()
            server.statements.clear()
            settings: dict[str, object] = {"login_delay": 0.0, "frozen": False}
            settings |= {"semi_sync": "off", "semi_sync_timeout": TIMEOUT_SECONDS}
            match role(self.cluster, server):
                case "primary":
                    settings |= {"read_only": False, "running": True}
                case "replica":
                    settings |= {"read_only": True, "running": True, "applying": True}
                    settings["ack_delay"] = 0.0
                    settings["lag"] = self._lag.get(server, first_lag)
            await self.set(server.name, **settings)

    async def caught_up(self, within: object = "10s") -> None:
        """Waits until every replica that runs has what the primary has now.

        Raises:
            ControlError: some have not caught up in time.
        """
        seconds = values.duration("within", within)
        wanted = self.cluster.primary.gtids.executed
        replicas = [server for server in self._group("replicas") if server.running]
        waits = [server.gtids.wait(wanted, seconds or _AT_ONCE) for server in replicas]
        results = await asyncio.gather(*waits)
        late = [server.name for server, has in zip(replicas, results, strict=True) if not has]
        if late:
            raise ControlError(
                Wrong.WRONG_STATE,
                f"not caught up within {values.duration_text(seconds)}: {', '.join(late)}",
            )
