"""The configuration, read from a TOML file and from the command line, which overrides the file.

Both use the names in `proxy.options`; the file may write underscores for dashes. Only the file has
the tables of `proxy.tables`.
"""

import re
import socket
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from protocol.compression import Algorithm
from proxy import cross_checks, secret_files, tables, toml_text
from proxy.address import Address
from proxy.log_keep import KEEP_ALL, LogKeep
from proxy.options import (
    BY_NAME,
    OPTIONS,
    ClientTls,
    Explain,
    Failover,
    FilteredReplicas,
    LogCompression,
    LogLevel,
    Option,
    Place,
    ServerTls,
    Switch,
    Value,
    did_you_mean,
)
from proxy.tables import Table
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy
from routing.consistency.rules import Adjustment, Rules, written_level
from routing.sql.verdict import Touch

__all__ = ["Address", "Config", "ConfigError", "load"]


class ConfigError(Exception):
    """The configuration cannot be used; the message says where, what, and what is allowed."""


_LISTEN: Final = Address("127.0.0.1", 6446)

_SECRETS: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "monitor-password-file": ("monitor_password", secret_files.read_password),
    "token-key-file": ("token_keys", secret_files.read_keys),
}
"""Options whose files are read at once: the attribute that gets what they hold, and how."""


def _default_name() -> str:
    # The name stands in file names and in metric labels.
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].lstrip(".-") or "tidegate"


@dataclass(frozen=True, slots=True)
class Config:
    """What one proxy does. Times are seconds, sizes bytes; addresses are not resolved.

    Attributes that are no options of their own:
        staleness: the bound of BOUNDED_STALENESS; 0 with another level.
        token_keys: what `token_key_file` holds: the first signs, all verify.
        monitor_password: what `monitor_password_file` holds.
        users: what sessions get instead of the defaults, by user.
        schemas: the same, by schema.
        listeners: the same, by the address that the client came to; clients connect at each.
    """

    primary: Address
    replicas: tuple[Address, ...] = ()
    listen: Address = _LISTEN
    consistency: Level = Level.READ_OWN_WRITES
    staleness: float = 0.0
    scope: Scope = Scope.CONNECTION
    wait_budget: float = 0.25
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY
    scope_limit: int = 10_000
    scope_age: float = 3600.0
    view_age: float = 60.0
    token_key_file: Path | None = None
    token_keys: tuple[bytes, ...] = field(default=(), repr=False)
    token_lifetime: float = 3600.0
    primary_fallback_rate: float = 2000.0
    on_lost_writes: LostPolicy = LostPolicy.ERROR
    failover: Failover = "off"
    proof_max_age: float = 1.0
    filtered_replicas: FilteredReplicas = "refuse"
    metadata_reads: Place = "primary"
    explain: Explain = "statement"
    self_audit: float = 0.001
    metrics: Address | None = None
    routing_log: Path | None = None
    routing_log_keep: LogKeep = KEEP_ALL
    routing_log_compression: LogCompression = "zstd"
    routing_log_sync: float = 1.0
    state_dir: Path | None = None
    monitor_user: str | None = None
    monitor_password_file: Path | None = None
    monitor_password: bytes = field(default=b"", repr=False)
    monitor_interval: float = 1.0
    heartbeat_table: str | None = None
    binlog_lag: Switch = "off"
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
    max_connections: int = 10_000
    handshake_timeout: float = 10.0
    connect_timeout: float = 5.0
    kept_connections: int = 32
    kept_connection_age: float = 5.0
    login_age: float = 5.0
    max_allowed_packet: int = 64 << 20
    max_prepared_statements: int = 4096
    log_level: LogLevel = "info"
    users: Mapping[str, Adjustment] = Table[str]()
    schemas: Mapping[str, Adjustment] = Table[str]()
    listeners: Mapping[Address, Adjustment] = Table[Address]()

    @property
    def rules(self) -> Rules:
        """What a session asks for unless something else is said."""
        return Rules(
            level=self.consistency,
            scope=self.scope,
            wait_budget=self.wait_budget,
            on_timeout=self.on_timeout,
            staleness=self.staleness,
        )

    @property
    def for_primary(self) -> frozenset[Touch]:
        """Reasons of reads that only the primary answers."""
        reasons: set[Touch] = set()
        if self.metadata_reads == "primary":
            reasons.add(Touch.METADATA)
        if self.explain == "primary":
            reasons.add(Touch.PLAN)
        return frozenset(reasons)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where clients connect: `listen` first, then the other listeners."""
        return tuple(dict.fromkeys((self.listen, *self.listeners)))

    def rules_for(self, user: str, schema: str, listener: Address) -> Rules:
        """What a session asks for before it has said anything itself.

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
        """What all tables say, each with its kind and its header ``[kind.NAME]``."""
        for kind in tables.KINDS:
            table: Mapping[object, Adjustment] = getattr(self, kind)
            for name, adjustment in table.items():
                yield kind, toml_text.header(kind, str(name)), adjustment

    def warnings(self) -> list[str]:
        """What works but was hardly meant; one sentence each."""
        found = []
        if not self.replicas:
            found.append("no replicas: every read goes to the primary")
        elif self.monitor_user is None:
            found.append("no monitor-user: the servers' health and lag are not watched")
        if self.heartbeat_table is not None and self.monitor_user is None:
            found.append("heartbeat-table has no effect without monitor-user")
        if self.binlog_lag == "on" and self.monitor_user is None:
            found.append("binlog-lag has no effect without monitor-user")
        if self.routing_log is None and self.routing_log_keep != KEEP_ALL:
            found.append("routing-log-keep has no effect without routing-log")
        bounds = [("", self.consistency, self.staleness)]
        for _, header, adjustment in self.adjustments():
            if adjustment.level is not None:
                bounds.append((f"{header}: ", adjustment.level, adjustment.staleness or 0.0))
        for where, level, staleness in bounds:
            if level is Level.BOUNDED_STALENESS and staleness < self.monitor_interval:
                found.append(
                    f"{where}consistency {written_level(level, staleness)}: the bound is below"
                    f" monitor-interval ({self.monitor_interval * 1000:.9g}ms), so the primary is"
                    " probed for each read that finds no look so young"
                )
        for name, path in (
            ("monitor-password-file", self.monitor_password_file),
            ("token-key-file", self.token_key_file),
            ("client-tls-key", self.client_tls_key),
            ("rsa-key", self.rsa_key),
        ):
            if path is not None and path.exists() and path.stat().st_mode & stat.S_IROTH:
                found.append(f"{name} {path} can be read by every user of this machine: chmod 600")
        return found

    def to_toml(self) -> str:
        """The effective configuration as a file that gives it again; holds no secret."""
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
        lines.append(tables.to_toml("users", self.users))
        lines.append(tables.to_toml("schemas", self.schemas))
        lines.append(tables.to_toml("listeners", self.listeners))
        return "".join(lines)


def load(path: Path | None, arguments: Mapping[str, Sequence[str]]) -> Config:
    """Read a file, override it by command-line arguments, and check the whole.

    Args:
        path: a TOML file, or None.
        arguments: texts by option name (with dashes), one text per time it was given.

    Raises:
        ConfigError: the first thing that is wrong.
    """
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    found: dict[str, object] = {}
    if path is not None:
        for key, raw in _read_toml(path).items():
            if key in tables.KINDS:
                found[key] = _tables(key, raw, path)
                origins[key] = str(path)
                continue
            option = _option(key, path)
            where = f"{path}: {key}"
            if option.name in origins:
                raise ConfigError(f"{where}: given twice, as {origins[option.name]}")
            values[option.name] = _value(
                option, raw, f"{where} = {toml_text.written(raw)}", path.parent
            )
            origins[option.name] = where
    for name, texts in arguments.items():
        option = BY_NAME[name]
        raw = list(texts) if option.repeatable else texts[-1]
        where = f"--{name}"
        values[name] = _value(option, raw, f"{where} {' '.join(texts)}", Path())
        origins[name] = where
    if "primary" not in values:
        raise ConfigError("primary is missing: give --primary HOST:PORT or set it in the file")
    return _checked(values, found, origins)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def _option(key: str, path: Path) -> Option:
    option = BY_NAME.get(key.replace("_", "-"))
    if option is None:
        hint = did_you_mean(key.replace("_", "-"), others=tables.KINDS)
        raise ConfigError(f"{path}: {key}: unknown key{hint}")
    return option


def _tables(kind: str, raw: object, path: Path) -> object:
    try:
        return tables.read(kind, raw)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _value(option: Option, raw: object, where: str, base: Path) -> Value:
    try:
        value = option.read(raw)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    # A path in a file is relative to that file, as the reader of the file sees it.
    return base / value.expanduser() if isinstance(value, Path) else value


def _checked(
    values: dict[str, Value], found: Mapping[str, object], origins: Mapping[str, str]
) -> Config:
    """Read the secrets, and check what one option says of another."""

    def fail(name: str, problem: str) -> ConfigError:
        return ConfigError(f"{origins.get(name, name)}: {problem}")

    for name in (*_SECRETS, "client-tls-cert", "client-tls-key", "rsa-key", "server-tls-ca"):
        _check_readable(values.get(name), fail, name)

    fields: dict[str, object] = {BY_NAME[name].attribute: v for name, v in values.items()}
    if isinstance(level := fields.get("consistency"), tuple):
        fields["consistency"], fields["staleness"] = level
    for name, (attribute, read) in _SECRETS.items():
        path = values.get(name)
        if isinstance(path, Path):
            try:
                fields[attribute] = read(path)
            except ValueError as error:
                raise fail(name, str(error)) from error
    config = Config(**fields, **found)  # type: ignore[arg-type]  # readers give the fields' types

    if "monitor-password-file" in values and config.monitor_user is None:
        raise fail("monitor-password-file", "has no use without monitor-user")
    cross_checks.check(config, fail)
    return config


def _check_readable(path: Value | None, fail: Callable[[str, str], ConfigError], name: str) -> None:
    if not isinstance(path, Path):
        return
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise fail(name, f"{path} cannot be read: {error.strerror}") from error
