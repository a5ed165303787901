"""The options: their names, what they take, and how their texts become values.

`OPTIONS` is the only list of options. The command line, the file, the effective configuration that
``tidegate check`` prints and a test of ``docs/configuration.md`` are made from it.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from protocol.compression import Algorithm
from proxy import values
from proxy.address import Address
from proxy.log_keep import LogKeep
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy

ClientTls = Literal["preferred", "disabled", "required"]
ServerTls = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]
LogLevel = Literal["debug", "info", "warning", "error"]
Failover = Literal["off", "read_only"]
Switch = Literal["off", "on"]
FilteredReplicas = Literal["refuse", "allow"]
Place = Literal["primary", "replica"]
Explain = Literal["statement", "primary"]
LogCompression = Literal["zstd", "off"]

Value = (
    tuple[Level, float]
    | Address
    | tuple[Address, ...]
    | tuple[Algorithm, ...]
    | Path
    | LogKeep
    | str
    | int
    | float
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: as the command line and the file write it.
        read: makes the value from what TOML or the command line gave; ValueError says what is
            allowed.
        metavar: stands for the value in ``--help``.
        help: one line for ``--help``.
        group: heading under which ``--help`` and the documentation show it.
        choices: every allowed word, where there are few.
        repeatable: may be given several times on the command line.
    """

    name: str
    read: Callable[[object], Value]
    metavar: str
    help: str
    group: str
    choices: tuple[str, ...] = ()
    repeatable: bool = False

    @property
    def attribute(self) -> str:
        """The field of `Config`."""
        return self.name.replace("-", "_")


_TOPOLOGY: Final = "the servers"
_GUARANTEE: Final = "the guarantee"
_CLIENTS: Final = "clients"
_SERVERS: Final = "the way to the servers"
_OPERATION: Final = "operation"

_WEEK: Final = 7 * 86_400.0

OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "primary",
        values.server,
        "HOST:PORT",
        "the server that takes writes (default port 3306); required",
        _TOPOLOGY,
    ),
    Option(
        "replicas",
        values.servers,
        "HOST:PORT[,…]",
        "servers that replicate from the primary by GTID; may be given several times",
        _TOPOLOGY,
        repeatable=True,
    ),
    Option(
        "consistency",
        values.consistency,
        "LEVEL",
        "what a read must see (default READ_OWN_WRITES)",
        _GUARANTEE,
        choices=tuple(
            f"{level}(TIME)" if level is Level.BOUNDED_STALENESS else level for level in Level
        ),
    ),
    Option(
        "scope",
        values.scope,
        "SCOPE",
        "whose writes count as a session's own (default connection)",
        _GUARANTEE,
        choices=tuple(Scope),
    ),
    Option(
        "wait-budget",
        values.wait_budget,
        "TIME",
        "how long a read may wait for a replica, such as 250ms or 1s (default 250ms)",
        _GUARANTEE,
    ),
    Option(
        "on-timeout",
        values.timeout_policy,
        "POLICY",
        "what a read gets whose wait budget ran out (default primary)",
        _GUARANTEE,
        choices=tuple(TimeoutPolicy),
    ),
    Option(
        "scope-limit",
        values.integer(1, 10_000_000),
        "N",
        "scopes wider than a connection that are kept per worker (default 10000)",
        _GUARANTEE,
    ),
    Option(
        "scope-age",
        values.duration(_WEEK),
        "TIME",
        "time after which one that nobody uses is dropped (default 1h)",
        _GUARANTEE,
    ),
    Option(
        "view-age",
        values.duration_or_0(_WEEK),
        "TIME",
        "how long it is taken for known which views are plain; 0 for ever plain (default 60s)",
        _GUARANTEE,
    ),
    Option(
        "token-key-file",
        values.path,
        "FILE",
        "file of the keys of tokens, one per line; the first signs",
        _GUARANTEE,
    ),
    Option(
        "token-lifetime",
        values.duration(_WEEK),
        "TIME",
        "how long a token is taken (default 1h)",
        _GUARANTEE,
    ),
    Option(
        "primary-fallback-rate",
        values.number(0.001, 1_000_000),
        "RATE",
        "reads per second and worker that may leave late replicas for the primary (default 2000)",
        _GUARANTEE,
    ),
    Option(
        "on-lost-writes",
        values.lost_policy,
        "POLICY",
        "what a read gets after acknowledged writes are gone from the primary (default error)",
        _GUARANTEE,
        choices=tuple(LostPolicy),
    ),
    Option(
        "failover",
        values.choice(values.words(Failover)),
        "MODE",
        "whom the proxy takes for the primary when it has failed (default off)",
        _GUARANTEE,
        choices=values.words(Failover),
    ),
    Option(
        "proof-max-age",
        values.duration(_WEEK, zero=True),
        "TIME",
        "how long a replica counts as what it was without being asked; 0 is never (default 1s)",
        _GUARANTEE,
    ),
    Option(
        "filtered-replicas",
        values.choice(values.words(FilteredReplicas)),
        "MODE",
        "whether replicas that leave out writes may answer guarded reads (default refuse)",
        _GUARANTEE,
        choices=values.words(FilteredReplicas),
    ),
    Option(
        "metadata-reads",
        values.choice(values.words(Place)),
        "PLACE",
        "who answers SHOW and reads of information_schema: primary or replica (default primary)",
        _GUARANTEE,
        choices=values.words(Place),
    ),
    Option(
        "explain",
        values.choice(values.words(Explain)),
        "PLACE",
        "who explains: whoever the statement would go to, or the primary (default statement)",
        _GUARANTEE,
        choices=values.words(Explain),
    ),
    Option(
        "self-audit",
        values.number(0, 1),
        "SHARE",
        "share of the replicas' reads that are checked while they run (default 0.001)",
        _GUARANTEE,
    ),
    Option(
        "listen",
        values.address("0.0.0.0", 6446, 0),
        "[HOST]:PORT",
        "where clients connect; without HOST: every IPv4 interface (default 127.0.0.1:6446)",
        _CLIENTS,
    ),
    Option(
        "client-tls",
        values.choice(values.words(ClientTls)),
        "MODE",
        "TLS between client and proxy (default preferred)",
        _CLIENTS,
        choices=values.words(ClientTls),
    ),
    Option(
        "client-tls-cert",
        values.path,
        "FILE",
        "PEM certificate chain shown to clients (default: self-signed, new at each start)",
        _CLIENTS,
    ),
    Option("client-tls-key", values.path, "FILE", "PEM private key of that certificate", _CLIENTS),
    Option(
        "rsa-key",
        values.path,
        "FILE",
        "PEM RSA private key for passwords sent without TLS (default: new at each start)",
        _CLIENTS,
    ),
    Option(
        "client-compression",
        values.algorithms,
        "ALGORITHM[,…]",
        "what clients may choose (default zlib,zstd,uncompressed)",
        _CLIENTS,
    ),
    Option(
        "max-connections",
        values.integer(1, 1_000_000),
        "N",
        "clients per worker; further ones get error 1040 (default 10000)",
        _CLIENTS,
    ),
    Option(
        "handshake-timeout",
        values.duration(600),
        "TIME",
        "time a client has to log in (default 10s)",
        _CLIENTS,
    ),
    Option(
        "max-allowed-packet",
        values.size(1024, 1 << 30),
        "SIZE",
        "largest packet taken from a client or a server, such as 64M (default 64M)",
        _CLIENTS,
    ),
    Option(
        "max-prepared-statements",
        values.integer(1, 1 << 20),
        "N",
        "most prepared statements of one client at a time (default 4096)",
        _CLIENTS,
    ),
    Option(
        "connect-timeout",
        values.duration(600),
        "TIME",
        "time a server has to accept and log in (default 5s)",
        _SERVERS,
    ),
    Option(
        "kept-connections",
        values.integer(0, 10_000),
        "N",
        "connections to each server kept for later logins, per worker; 0 is off (default 32)",
        _SERVERS,
    ),
    Option(
        "kept-connection-age",
        values.duration(3600),
        "TIME",
        "how long such a connection waits for a login (default 5s)",
        _SERVERS,
    ),
    Option(
        "login-age",
        values.duration_or_0(3600),
        "TIME",
        "how long a server's word on a login holds for logins like it; 0 asks each time (default"
        " 5s)",
        _SERVERS,
    ),
    Option(
        "server-tls",
        values.choice(values.words(ServerTls)),
        "MODE",
        "TLS between proxy and servers (default preferred)",
        _SERVERS,
        choices=values.words(ServerTls),
    ),
    Option(
        "server-tls-ca",
        values.path,
        "FILE",
        "PEM certificates of the CAs that verify_* trusts",
        _SERVERS,
    ),
    Option(
        "server-compression",
        values.algorithms_or_off,
        "ALGORITHM[,…]",
        "zlib, zstd, uncompressed or several in order of preference, or off (default off)",
        _SERVERS,
    ),
    Option(
        "monitor-user",
        values.user,
        "USER",
        "account with which the servers are watched; it needs no privilege",
        _SERVERS,
    ),
    Option(
        "monitor-password-file",
        values.path,
        "FILE",
        "file that holds that account's password",
        _SERVERS,
    ),
    Option(
        "monitor-interval",
        values.duration(60),
        "TIME",
        "time between two looks (default 1s)",
        _SERVERS,
    ),
    Option(
        "heartbeat-table",
        values.table,
        "SCHEMA.TABLE",
        "pt-heartbeat's table: measures lag where the monitor may read nothing better",
        _SERVERS,
    ),
    Option(
        "binlog-lag",
        values.choice(values.words(Switch)),
        "MODE",
        "read replicas' binary logs for the lag of every transaction (default off)",
        _SERVERS,
        choices=values.words(Switch),
    ),
    Option(
        "workers",
        values.integer(1, 256),
        "N",
        "processes that share the port (default 1)",
        _OPERATION,
    ),
    Option(
        "metrics",
        values.address("0.0.0.0", None, 0),
        "[HOST]:PORT",
        "serve Prometheus metrics at http://HOST:PORT/metrics",
        _OPERATION,
    ),
    Option(
        "routing-log",
        values.path,
        "DIR",
        "write one record per statement below this directory",
        _OPERATION,
    ),
    Option(
        "routing-log-keep",
        LogKeep.read,
        "AGE[,SIZE]",
        "age and size of what is kept of it, such as 30d or 30d,100G (default all)",
        _OPERATION,
    ),
    Option(
        "routing-log-compression",
        values.choice(values.words(LogCompression)),
        "ALGORITHM",
        "how closed files of it are compressed (default zstd)",
        _OPERATION,
        choices=values.words(LogCompression),
    ),
    Option(
        "routing-log-sync",
        values.duration_or_0(3600),
        "TIME",
        "how often it is brought to the disk; 0 only with complete files (default 1s)",
        _OPERATION,
    ),
    Option(
        "state-dir",
        values.path,
        "DIR",
        "keep who the primary is (failover = read_only) and scopes (one worker) in this directory",
        _OPERATION,
    ),
    Option(
        "proxy-name",
        values.name,
        "NAME",
        "this proxy's name in the routing log (default: the host name)",
        _OPERATION,
    ),
    Option(
        "log-level",
        values.choice(values.words(LogLevel)),
        "LEVEL",
        "least severe message written to stderr (default info)",
        _OPERATION,
        choices=values.words(LogLevel),
    ),
)

BY_NAME: Final = {option.name: option for option in OPTIONS}


def did_you_mean(name: str, prefix: str = "", others: Iterable[str] = ()) -> str:
    """A clause that names what is nearest to `name`, or all there is when none is near.

    Args:
        name: what is not known.
        prefix: stands before each option's name.
        others: what else could be meant.
    """
    known = [*BY_NAME, *others]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; known are {', '.join(prefix + name for name in known)}"
