"""What a fault can lay hands on, and what is told of one."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.chaos.clients import Accounts
from tests.chaos.cluster import ChaosCluster
from tests.chaos.links import CLIENT_TIMEOUT_S
from tests.chaos.proxy_watch import ProxyWatch
from tests.chaos.relay import Relay
from tests.chaos.trial import Trial
from tests.real_mysql.server import RealServer


@dataclass
class Scene:
    """A cluster, the network before it, and clients at work.

    Attributes:
        cluster: the servers.
        relays: the network between the proxy and each server.
        accounts: what clients log in with.
        trial: what clients do now.
        watch: the proxy.
        chance: where to strike.
        seconds: how long a fault lasts, about.
    """

    cluster: ChaosCluster
    relays: dict[RealServer, Relay]
    accounts: Accounts
    trial: Trial
    watch: ProxyWatch
    chance: random.Random
    seconds: float

    def work_on(self, share: float = 1.0) -> None:
        """Let clients work for a share of the fault's time."""
        time.sleep(share * self.seconds)

    def some_replica(self) -> RealServer:
        """One of them."""
        return self.chance.choice(self.cluster.replicas)

    @property
    def primary(self) -> RealServer:
        """The server that takes writes now."""
        return self.cluster.primary

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Clients only read in a `with` block, in which none of their writes is under way.

        Soon replicas have all that they must see.
        """
        self.trial.stop_writing()
        try:
            deadline = time.monotonic() + 2 * CLIENT_TIMEOUT_S
            while self.trial.writing:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.trial.writing} clients did not end their write")
                time.sleep(0.05)
            self.work_on(0.1)
            yield
        finally:
            self.trial.quiet = False

    @contextmanager
    def setting(self, server: RealServer, name: str, value: str) -> Iterator[None]:
        """A global variable's other value, for the length of a `with` block."""
        before = server.value(f"SELECT @@GLOBAL.{name}")
        server.query(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            server.query(f"SET GLOBAL {name} = {before}")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that can go wrong.

    Attributes:
        name: for the command line and the table.
        apply: does it, lets clients work meanwhile, and takes it back where healing does not.
        does: what it does, in a sentence.
        not_promised: what clients must expect.
        harmless: clients see no error of it, but 3024 where they have to wait too long, and the end
            of a session whose transaction reads from a replica that breaks.
        bereaves: a replica loses what it had, and nothing but a question tells: the self-audit may
            be the first to ask. What it proves stale runs on the primary.
        needs_failover: only for a proxy that follows promotions.
        needs_monitor: only for a proxy with a monitor.
        needs_semi_sync: only where the servers have the plugins.
        needs_group: only where the servers are a group.
        in_group: makes sense in a group, too.
    """

    name: str
    apply: Callable[[Scene], None]
    does: str
    not_promised: str
    harmless: bool
    bereaves: bool
    needs_failover: bool
    needs_monitor: bool
    needs_semi_sync: bool
    needs_group: bool
    in_group: bool


def fault(
    not_promised: str,
    *,
    harmless: bool = False,
    bereaves: bool = False,
    needs_failover: bool = False,
    needs_monitor: bool = False,
    needs_semi_sync: bool = False,
    needs_group: bool = False,
    in_group: bool = False,
) -> Callable[[Callable[[Scene], None]], Fault]:
    """Make a fault of a function: its name is the fault's, its docstring says what it does."""

    def make(apply: Callable[[Scene], None]) -> Fault:
        return Fault(
            name=apply.__name__.replace("_", "-"),
            apply=apply,
            does=" ".join((apply.__doc__ or "").split()),
            not_promised=not_promised,
            harmless=harmless,
            bereaves=bereaves,
            needs_failover=needs_failover,
            needs_monitor=needs_monitor or needs_failover,
            needs_semi_sync=needs_semi_sync,
            needs_group=needs_group,
            in_group=in_group or needs_group,
        )

    return make
