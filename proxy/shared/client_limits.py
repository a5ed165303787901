"""Limits of clients: in all, per user and per address, and how fast an address may log in.

Theory of operation
===================

Each client has an `Admission` from its connection to its end. It is counted in all as it connects,
for its address when that is known (a PROXY header may tell it), and for its user once a server has
accepted the password: somebody who does not know it takes no user's place.

A client that meets a limit may still be one of `admins`. So it is let in on trial: it counts
nowhere, and is refused as soon as it names another user. An administrator whose password is right
is held to no limit of addresses, and may be the one connection beyond `max-connections`, as at a
server, whose last connection is for CONNECTION_ADMIN. `max-user-connections` does not hold for
administrators, either (a server's does), but the number in a table of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from proxy.observe.label_values import RefusalCause
from routing.servers.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config
    from proxy.live_config import LiveConfig
    from proxy.state.client_counts import ClientCounts

ON_TRIAL: Final = 64
"""How many clients of a worker may be on trial at once; none if nobody is in `admins`."""

_MOST_RATES: Final = 4096
"""Addresses whose rate of logins is known; the ones that were quiet the longest are forgotten."""

_ALL: Final = b"all"


class Refusal(NamedTuple):
    """Why a client is turned away.

    Attributes:
        cause: as the metric has it.
        code: what the client is told.
        message: in words.
    """

    cause: RefusalCause
    code: ServerErrorCode
    message: str


class ClientLimits:
    """The limits, and who is counted."""

    def __init__(self, live: LiveConfig, counts: ClientCounts, now: Callable[[], float]) -> None:
        """`now` is monotonic, seconds."""
        self._live = live
        self.counts = counts
        self.on_trial = 0
        self._now = now
        self._rates: OrderedDict[str, RateLimit] = OrderedDict()

    @property
    def config(self) -> Config:
        """The options as they are now."""
        return self._live.config

    def configure(self) -> None:
        """Other options count: each address begins anew with the rate of its logins."""
        self._rates.clear()

    def begin(self) -> Admission:
        """The admission of a client that has connected."""
        return Admission(self)

    def of_all(self, most: int) -> Refusal | None:
        """What a client gets if there are `most` already."""
        if self.counts.of(_ALL) < most:
            return None
        return Refusal(
            "max_connections",
            ServerErrorCode.ER_CON_COUNT_ERROR,
            f"Too many connections (Tidegate's max-connections is {self.config.max_connections})",
        )

    def of_address(self, network: str) -> Refusal | None:
        """What a client of an address gets."""
        config = self.config
        if config.max_login_rate and self._rate(network).reserve(self._now(), 0.0) is None:
            return Refusal(
                "max_login_rate",
                ServerErrorCode.ER_CON_COUNT_ERROR,
                f"Too many connections: {network} connects more often than Tidegate's"
                f" max-login-rate ({config.max_login_rate:g} per second) allows; try again later",
            )
        most = config.max_client_connections
        if most and self.counts.of(_of_address(network)) >= most:
            return Refusal(
                "max_client_connections",
                ServerErrorCode.ER_CON_COUNT_ERROR,
                f"Too many connections: {network} has already {most}"
                " (Tidegate's max-client-connections)",
            )
        return None

    def of_user(self, username: str) -> Refusal | None:
        """What a client gets that logs in as this user; as a server says it."""
        config = self.config
        own = config.user_limits.get(username, 0)
        most = own or (0 if username in config.admins else config.max_user_connections)
        if not most or self.counts.of(_of_user(username)) < most:
            return None
        if own:
            return Refusal(
                "max_user_connections",
                ServerErrorCode.ER_USER_LIMIT_REACHED,
                f"User '{username}' has exceeded the 'max_user_connections' resource (current"
                f" value: {own}; it is Tidegate's, of [users.{username}])",
            )
        return Refusal(
            "max_user_connections",
            ServerErrorCode.ER_TOO_MANY_USER_CONNECTIONS,
            f"User {username} already has more than 'max_user_connections' active connections"
            f" (Tidegate's max-user-connections is {most})",
        )

    def _rate(self, network: str) -> RateLimit:
        rate = self._rates.get(network)
        if rate is None:
            # The kernel spreads the connections of an address over all workers.
            rate = RateLimit(self.config.max_login_rate / self.config.workers)
            self._rates[network] = rate
            if len(self._rates) > _MOST_RATES:
                self._rates.popitem(last=False)
        self._rates.move_to_end(network)
        return rate


class Admission:
    """One client, as far as it is counted.

    Methods that return a `Refusal` have counted nothing then; the caller ends the client, and calls
    `leave`.

    Attributes:
        on_trial: which limit the client has met, if it is to be let in only as one of `admins`.
    """

    __slots__ = ("_kinds", "_limits", "_network", "_reserved", "_user", "on_trial")

    def __init__(self, limits: ClientLimits) -> None:
        self.on_trial: Refusal | None = None
        self._limits = limits
        self._kinds: tuple[bytes, ...] = ()  # as which it is counted, besides its user
        self._network = ""
        self._user: str | None = None
        self._reserved = False  # it is the one beyond max-connections

    def connect(self) -> Refusal | None:
        """Count the client, if there is room."""
        refusal = self._limits.of_all(self._limits.config.max_connections)
        if refusal is not None:
            return self._try(refusal)
        self._count(_ALL)
        return None

    def come_from(self, host: str) -> Refusal | None:
        """Count the client for its address; before that it is counted for none."""
        self._network = network_of(host)
        if self.on_trial is not None:
            return None
        refusal = self._limits.of_address(self._network)
        if refusal is not None:
            return self._try(refusal)
        self._count(_of_address(self._network))
        return None

    def name(self, username: str) -> Refusal | None:
        """The client names its user, who is not known to be right yet."""
        return None if username in self._limits.config.admins else self.on_trial

    def log_in(self, username: str) -> Refusal | None:
        """Count the client for a user whom a server has accepted, and no longer for another."""
        if username == self._user:
            return None
        limits = self._limits
        most = limits.config.max_connections
        admin = username in limits.config.admins
        refusal = limits.of_user(username)
        if self.on_trial is not None:
            refusal = refusal or limits.of_all(most + 1) if admin else self.on_trial
        elif self._reserved and not admin:
            # A change of user. The client is one of all that are counted.
            refusal = refusal or limits.of_all(most + 1)
        if refusal is not None:
            return refusal
        if self.on_trial is not None:
            self._end_trial()
            self._count(_ALL)
            self._count(_of_address(self._network))
            self._reserved = limits.of_all(most + 1) is not None
        elif not admin:
            self._reserved = False
        if self._user is not None:
            limits.counts.remove(_of_user(self._user))
        limits.counts.add(_of_user(username))
        self._user = username
        return None

    def leave(self) -> None:
        """The client is gone: count it no more; what was done before is not done again."""
        counts = self._limits.counts
        for kind in self._kinds:
            counts.remove(kind)
        self._kinds = ()
        if self._user is not None:
            counts.remove(_of_user(self._user))
            self._user = None
        self._end_trial()

    def _count(self, kind: bytes) -> None:
        self._limits.counts.add(kind)
        self._kinds += (kind,)

    def _try(self, refusal: Refusal) -> Refusal | None:
        """Let the client in on trial, if anybody may be, and there is room for that."""
        limits = self._limits
        if not limits.config.admins or limits.on_trial >= ON_TRIAL:
            return refusal
        self.leave()
        self.on_trial = refusal
        limits.on_trial += 1
        return None

    def _end_trial(self) -> None:
        if self.on_trial is not None:
            self.on_trial = None
            self._limits.on_trial -= 1


def network_of(host: str) -> str:
    """Whose clients count together: an address of IPv4, or the /64 that one host of IPv6 has."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host  # a Unix socket's
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, 64), strict=False))


def _of_address(network: str) -> bytes:
    return b"address " + network.encode()


def _of_user(username: str) -> bytes:
    return b"user " + username.encode(errors="surrogateescape")
