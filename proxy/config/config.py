"""What one proxy does: the value of every option, and the rules that follow."""

import re
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final, Literal

from protocol.compression import Algorithm
from proxy.address import Address
from proxy.config import server_tables, tables, toml_text
from proxy.config.log_keep import KEEP_ALL, LogKeep
from proxy.config.options import OPTIONS
from proxy.config.tables import Table
from proxy.config.words import (
    ClientTls,
    Explain,
    Failover,
    FilteredReplicas,
    LogCompression,
    LogFormat,
    LogLevel,
    OnMaxLag,
    Place,
    ReadFrom,
    ServerTls,
    Switch,
    TableDependencies,
    TopologyKind,
    WithoutPrimary,
)
from routing.consistency.adjustment import Adjustment, written_level
from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    LostPolicy,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.rules import (
    OF_SCOPE,
    Rules,
    TransactionRules,
    WaitBudget,
    longest_wait,
)
from routing.servers.placement import Place as ServerPlace
from routing.servers.placement import Placement
from routing.servers.topology import Server
from routing.sql.verdict import StatementReason

_LISTEN: Final = Address("127.0.0.1", 6446)
CONTROL_SOCKET: Final = "control.sock"
"""The name of the control socket in `state-dir`, where `control-socket` names no other path."""


def _default_name() -> str:
    # The name stands in file names and in metric labels.
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].lstrip(".-") or "tidegate"


@dataclass(frozen=True, slots=True)
class Config:
    """What one proxy does. Times are seconds, sizes bytes; addresses are not resolved.

    Attributes that are not options of their own:
        staleness: the bound of BOUNDED_STALENESS; 0 with another level.
        token_keys: what `token_key_file` holds: the first signs, all verify.
        monitor_password: what `monitor_password_file` holds.
        admin_token: what `admin_token_file` holds.
        users: rules that replace the defaults, by user.
        schemas: the same, by schema.
        listeners: the same, by the address that the client connects to; each is listened on.
        servers: where servers are, and their weights.
        user_limits: what replaces `max_user_connections`, by user.
    """

    primary: Address
    replicas: tuple[Address, ...] = ()
    topology: TopologyKind = "static"
    zone: str | None = None
    read_from: ReadFrom = "replicas"
    listen: Address = _LISTEN
    socket: Path | None = None
    socket_mode: str = "0777"
    consistency: Level = Level.READ_OWN_WRITES
    staleness: float = 0.0
    scope: Scope = Scope.USER
    wait_budget: WaitBudget = 0.25
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY
    transaction_reads: TransactionReads = TransactionReads.SPLIT
    on_split_conflict: ConflictPolicy = ConflictPolicy.ERROR
    scope_limit: int = 10_000
    scope_age: float = 3600.0
    view_age: float = 60.0
    token_key_file: Path | None = None
    token_keys: tuple[bytes, ...] = field(default=(), repr=False)
    token_lifetime: float = 3600.0
    primary_fallback_rate: float = 2000.0
    on_lost_writes: LostPolicy = LostPolicy.ERROR
    failover: Failover = "off"
    without_primary: WithoutPrimary = "read"
    proof_max_age: float = 1.0
    filtered_replicas: FilteredReplicas = "refuse"
    max_lag: float | Literal["off"] = 30.0
    on_max_lag: OnMaxLag = "primary"
    metadata_reads: Place = "primary"
    explain: Explain = "statement"
    self_audit: float = 0.001
    metrics: Address | None = None
    statement_digests: Switch = "on"
    slow_statement_time: float | Literal["off"] = "off"
    routing_log: Path | None = None
    routing_log_keep: LogKeep = KEEP_ALL
    routing_log_compression: LogCompression = "gzip"
    routing_log_sync: float = 1.0
    trace_endpoint: str | None = None
    trace_sample: float | None = None
    state_dir: Path | None = None
    control_socket: Path | None = None
    monitor_user: str | None = None
    monitor_password_file: Path | None = None
    monitor_password: bytes = field(default=b"", repr=False)
    monitor_interval: float = 1.0
    heartbeat_table: str | None = None
    binlog_lag: Switch = "off"
    table_dependencies: TableDependencies = "auto"
    table_dependencies_rate: int = 1 << 20
    workers: int = 1
    proxy_name: str = field(default_factory=_default_name)
    client_tls: ClientTls = "preferred"
    client_tls_cert: Path | None = None
    client_tls_key: Path | None = None
    rsa_key: Path | None = None
    server_tls: ServerTls = "preferred"
    server_tls_ca: Path | None = None
    server_compression: tuple[Algorithm, ...] = ()
    client_compression: tuple[Algorithm, ...] = tuple(Algorithm)
    proxy_protocol_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    max_connections: int = 10_000
    admins: tuple[str, ...] = ()
    admin_listen: Address | None = None
    admin_token_file: Path | None = None
    admin_token: bytes = field(default=b"", repr=False)
    max_user_connections: int = 0
    max_client_connections: int = 0
    max_login_rate: float = 0.0
    client_idle_timeout: float = 0.0
    handshake_timeout: float = 10.0
    drain_delay: float = 0.0
    drain_timeout: float = 30.0
    connect_timeout: float = 5.0
    kept_connections: int = 32
    kept_connection_age: float = 5.0
    login_age: float = 5.0
    max_server_connections: int = 0
    server_connection_timeout: float = 5.0
    connection_sharing: Switch = "on"
    connection_sharing_delay: float = 1.0
    max_allowed_packet: int = 64 << 20
    max_prepared_statements: int = 4096
    max_session_memory: int = 64 << 20
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    users: Mapping[str, Adjustment] = Table[str]()
    schemas: Mapping[str, Adjustment] = Table[str]()
    listeners: Mapping[Address, Adjustment] = Table[Address]()
    user_limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    servers: Mapping[Address, ServerPlace] = field(default_factory=dict, hash=False)

    @property
    def traces(self) -> bool:
        """Whether statements become spans."""
        return self.trace_endpoint is not None or self.trace_sample is not None

    @property
    def rules(self) -> Rules:
        """What a session asks for unless a table or the session itself says otherwise."""
        return Rules(
            level=self.consistency,
            scope=self.scope,
            wait_budget=self.wait_budget,
            on_timeout=self.on_timeout,
            staleness=self.staleness,
            transactions=TransactionRules(self.transaction_reads, self.on_split_conflict),
        )

    @property
    def longest_wait(self) -> float:
        """How long a session may wait unless a table or the session itself says otherwise, s."""
        return longest_wait(self.wait_budget)

    @property
    def shares_connections(self) -> bool:
        """Whether idle sessions give their connections back.

        Only with kept connections and a login-age the proxy knows which accounts may log in without
        limits.
        """
        return self.connection_sharing == "on" and bool(self.login_age and self.kept_connections)

    @property
    def lag_limit(self) -> float | None:
        """How far a replica may be behind to be read, s; None for any."""
        return None if self.max_lag == "off" else self.max_lag

    def placement(self) -> Placement[Server] | None:
        """Which servers reads ask first; None if all replicas are as good."""
        if self.zone is None and self.read_from == "replicas" and not self.servers:
            return None
        places = {str(address): place for address, place in self.servers.items()}
        return Placement(self.zone or "", places, with_primary=self.read_from == "any")

    @property
    def may_have_replicas(self) -> bool:
        """Whether there are replicas, or may come some."""
        return bool(self.replicas) or self.topology != "static"

    @property
    def control_path(self) -> Path | None:
        """Where the control socket is; None if there is none."""
        if self.control_socket is None and self.state_dir is not None:
            return self.state_dir / CONTROL_SOCKET
        return self.control_socket

    @property
    def for_primary(self) -> frozenset[StatementReason]:
        """Kinds of reads that only the primary answers, as configured."""
        reasons: set[StatementReason] = set()
        if self.metadata_reads == "primary":
            reasons.add(StatementReason.METADATA)
        if self.explain == "primary":
            reasons.add(StatementReason.PLAN)
        return frozenset(reasons)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where clients connect: `listen` first, then the other listeners."""
        return tuple(dict.fromkeys((self.listen, *self.listeners)))

    def rules_for(self, user: str, schema: str, listener: Address) -> Rules:
        """What a session asks for before it sets anything itself.

        Args:
            user: who logged in.
            schema: its default schema; empty for none.
            listener: which of `addresses` the client came to.
        """
        rules = self.rules
        for found in (
            self.listeners.get(listener),
            self.schemas.get(schema),
            self.users.get(user),
        ):
            if found is not None:
                rules = found.applied_to(rules)
        return rules

    def adjustments(self) -> Iterator[tuple[str, str, Adjustment]]:
        """Yield for each table its kind, its header ``[kind.NAME]`` and what it says."""
        for kind in tables.KINDS:
            table: Mapping[object, Adjustment] = getattr(self, kind)
            for name, adjustment in table.items():
                yield kind, toml_text.header(kind, str(name)), adjustment

    def warnings(self) -> list[str]:
        """Settings that work but are most likely not intended; one sentence each."""
        return [
            *self._without_effect(),
            *self._short_bounds(),
            *self._unverified(),
            *self._readable_secrets(),
        ]

    def _without_effect(self) -> Iterator[str]:
        if self.socket is None and self.socket_mode != "0777":
            yield "socket-mode has no effect without socket"
        if not self.may_have_replicas:
            yield "no replicas: every read goes to the primary"
        elif self.monitor_user is None:
            limit = "" if self.max_lag == "off" else ", so max-lag has no effect"
            yield f"no monitor-user: the servers' health and lag are not watched{limit}"
        elif self.max_lag != "off" and self.max_lag < self.monitor_interval:
            yield (
                f"max-lag ({self.max_lag * 1000:.9g}ms) is below monitor-interval"
                f" ({self.monitor_interval * 1000:.9g}ms): how far replicas are behind is only"
                " known that often"
            )
        if self.topology == "group" and self.failover != "off":
            yield 'failover has no effect with topology = "group", which follows each election'
        yield from self._unused_zones()
        if self.heartbeat_table is not None and self.monitor_user is None:
            yield "heartbeat-table has no effect without monitor-user"
        yield from self._unread_logs()
        if self.routing_log is None and self.routing_log_keep != KEEP_ALL:
            yield "routing-log-keep has no effect without routing-log"

    def _unread_logs(self) -> Iterator[str]:
        if self.binlog_lag == "on" and self.monitor_user is None:
            yield "binlog-lag has no effect without monitor-user"

    def _unused_zones(self) -> Iterator[str]:
        zones = {place.zone for place in self.servers.values()}
        if self.zone is not None and self.zone not in zones:
            yield f'zone has no effect: no [servers."HOST:PORT"] has the zone "{self.zone}"'
        if self.zone is None and zones - {""}:
            yield "the zones of servers have no effect without zone, the proxy's own"

    def _short_bounds(self) -> Iterator[str]:
        bounds = [("", self.consistency, self.staleness)]
        for _, header, adjustment in self.adjustments():
            if adjustment.level is not None:
                bounds.append((f"{header}: ", adjustment.level, adjustment.staleness or 0.0))
        for where, level, staleness in bounds:
            if level is Level.BOUNDED_STALENESS and staleness < self.monitor_interval:
                yield (
                    f"{where}consistency {written_level(level, staleness)}: the bound is below"
                    f" monitor-interval ({self.monitor_interval * 1000:.9g}ms), so reads ask the"
                    " primary whenever the last check of it is older than the bound"
                )

    def _unverified(self) -> Iterator[str]:
        if self.topology == "auto" and self.server_tls not in ("verify_ca", "verify_identity"):
            yield (
                'topology = "auto": whoever has REPLICATION SLAVE on the primary names servers that'
                f' passwords are sent to, and server-tls = "{self.server_tls}" lets every server'
                ' do; want server-tls = "verify_ca" or "verify_identity"'
            )

    def _readable_secrets(self) -> Iterator[str]:
        for name, path in (
            ("monitor-password-file", self.monitor_password_file),
            ("admin-token-file", self.admin_token_file),
            ("token-key-file", self.token_key_file),
            ("client-tls-key", self.client_tls_key),
            ("rsa-key", self.rsa_key),
        ):
            if path is not None and path.exists() and path.stat().st_mode & stat.S_IROTH:
                yield f"{name} {path} can be read by every user of this machine: chmod 600"

    def notes(self) -> list[str]:
        """Settings that often do less than their users expect; one sentence each."""
        if self.scope is Scope.CONNECTION and self.consistency in OF_SCOPE:
            return [
                'scope = "connection" promises nothing from one connection to the next: a web'
                " application, or a pool from which one task takes several connections, needs"
                ' scope = "user"'
            ]
        return []

    def to_toml(self) -> str:
        """The effective configuration as the text of a file that sets it; holds no secret."""
        lines = []
        for option in OPTIONS:
            value = getattr(self, option.attribute)
            if option.name == "consistency":
                value = written_level(self.consistency, self.staleness)
            lines.append(
                f"# {option.name} is not set\n"
                if value is None
                else f"{option.name} = {toml_text.written(value)}\n"
            )
        lines.append(server_tables.to_toml(self.servers))
        lines.append(tables.to_toml("users", self.users, self.user_limits))
        lines.append(tables.to_toml("schemas", self.schemas))
        lines.append(tables.to_toml("listeners", self.listeners))
        return "".join(lines)
