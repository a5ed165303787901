"""The configuration, read from a TOML file and from the command line, which overrides the file.

Both use the names in `proxy.options`; the file may write underscores for dashes.
"""

import json
import re
import socket
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from proxy.address import Address
from proxy.options import (
    BY_NAME,
    OPTIONS,
    ClientTls,
    LogLevel,
    Option,
    ServerTls,
    Value,
    did_you_mean,
)
from routing.decision import Level, TimeoutPolicy

__all__ = ["Address", "Config", "ConfigError", "load"]


class ConfigError(Exception):
    """The configuration cannot be used; the message says where, what, and what is allowed."""


_LISTEN: Final = Address("127.0.0.1", 6446)


def _default_name() -> str:
    # The name stands in file names and in metric labels.
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].lstrip(".-") or "tidegate"


@dataclass(frozen=True, slots=True)
class Config:
    """What one proxy does. Times are seconds, sizes bytes; addresses are not resolved."""

    primary: Address
    replicas: tuple[Address, ...] = ()
    listen: Address = _LISTEN
    consistency: Level = Level.READ_OWN_WRITES
    wait_budget: float = 0.25
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY
    metrics: Address | None = None
    routing_log: Path | None = None
    monitor_user: str | None = None
    monitor_password_file: Path | None = None
    monitor_password: bytes = field(default=b"", repr=False)
    monitor_interval: float = 1.0
    workers: int = 1
    proxy_name: str = field(default_factory=_default_name)
    client_tls: ClientTls = "preferred"
    client_tls_cert: Path | None = None
    client_tls_key: Path | None = None
    rsa_key: Path | None = None
    server_tls: ServerTls = "preferred"
    server_tls_ca: Path | None = None
    max_connections: int = 10_000
    handshake_timeout: float = 10.0
    connect_timeout: float = 5.0
    max_allowed_packet: int = 64 << 20
    log_level: LogLevel = "info"

    def warnings(self) -> list[str]:
        """What works but was hardly meant; one sentence each."""
        found = []
        if not self.replicas:
            found.append("no replicas: every read goes to the primary")
        elif self.monitor_user is None:
            found.append("no monitor-user: the servers' health and lag are not watched")
        for name, path in (
            ("monitor-password-file", self.monitor_password_file),
            ("client-tls-key", self.client_tls_key),
            ("rsa-key", self.rsa_key),
        ):
            if path is not None and path.exists() and path.stat().st_mode & stat.S_IROTH:
                found.append(f"{name} {path} can be read by every user of this machine: chmod 600")
        return found

    def to_toml(self) -> str:
        """The effective configuration as a file that gives it again; holds no password."""
        lines = []
        for option in OPTIONS:
            value = getattr(self, option.attribute)
            lines.append(
                f"# {option.name} is not set"
                if value is None
                else f"{option.name} = {_toml(value)}"
            )
        return "\n".join(lines) + "\n"


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
    if path is not None:
        for key, raw in _read_toml(path).items():
            option = _option(key, path)
            where = f"{path}: {key}"
            if option.name in origins:
                raise ConfigError(f"{where}: given twice, as {origins[option.name]}")
            values[option.name] = _value(option, raw, f"{where} = {_toml(raw)}", path.parent)
            origins[option.name] = where
    for name, texts in arguments.items():
        option = BY_NAME[name]
        raw = list(texts) if option.repeatable else texts[-1]
        where = f"--{name}"
        values[name] = _value(option, raw, f"{where} {' '.join(texts)}", Path())
        origins[name] = where
    if "primary" not in values:
        raise ConfigError("primary is missing: give --primary HOST:PORT or set it in the file")
    return _checked(values, origins)


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
        raise ConfigError(f"{path}: {key}: unknown key{did_you_mean(key.replace('_', '-'))}")
    return option


def _value(option: Option, raw: object, where: str, base: Path) -> Value:
    try:
        value = option.read(raw)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    # A path in a file is relative to that file, as the reader of the file sees it.
    return base / value.expanduser() if isinstance(value, Path) else value


def _checked(values: dict[str, Value], origins: Mapping[str, str]) -> Config:
    """Check what one option says of another, and read the password."""

    def fail(name: str, problem: str) -> ConfigError:
        return ConfigError(f"{origins.get(name, name)}: {problem}")

    for name in ("monitor-password-file", "client-tls-cert", "client-tls-key", "rsa-key"):
        _check_readable(values.get(name), fail, name)
    _check_readable(values.get("server-tls-ca"), fail, "server-tls-ca")

    fields: dict[str, object] = {BY_NAME[name].attribute: v for name, v in values.items()}
    password_file = values.get("monitor-password-file")
    if isinstance(password_file, Path):
        fields["monitor_password"] = _read_password(password_file, fail)
    config = Config(**fields)  # type: ignore[arg-type]  # each Option.read gives its field's type

    if "monitor-password-file" in values and config.monitor_user is None:
        raise fail("monitor-password-file", "has no use without monitor-user")
    seen: set[Address] = set()
    for replica in config.replicas:
        if replica == config.primary:
            raise fail("replicas", f"{replica} is the primary; name it once, as primary")
        if replica in seen:
            raise fail("replicas", f"{replica} is named twice")
        seen.add(replica)
    if config.listen in (config.primary, *config.replicas):
        raise fail("listen", f"{config.listen} is one of the servers; the proxy needs its own port")
    if config.metrics is not None and config.metrics == config.listen and config.listen.port:
        raise fail("metrics", f"{config.metrics} is the listen address; metrics need another port")
    if (config.client_tls_cert is None) != (config.client_tls_key is None):
        given = "client-tls-key" if config.client_tls_cert is None else "client-tls-cert"
        raise fail(given, "client-tls-cert and client-tls-key go together; give both or none")
    if config.client_tls == "disabled" and config.client_tls_cert is not None:
        raise fail("client-tls-cert", 'has no use with client-tls = "disabled"')
    verifies = config.server_tls in ("verify_ca", "verify_identity")
    if config.server_tls_ca is not None and not verifies:
        raise fail(
            "server-tls-ca",
            f'is not used by server-tls = "{config.server_tls}"; '
            'want server-tls = "verify_ca" or "verify_identity"',
        )
    if config.server_tls == "verify_ca" and config.server_tls_ca is None:
        raise fail("server-tls", "verify_ca needs server-tls-ca, the file of the CA to trust")
    return config


def _check_readable(path: Value | None, fail: Callable[[str, str], ConfigError], name: str) -> None:
    if not isinstance(path, Path):
        return
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise fail(name, f"{path} cannot be read: {error.strerror}") from error


def _read_password(path: Path, fail: Callable[[str, str], ConfigError]) -> bytes:
    password = path.read_bytes()
    for newline in (b"\r\n", b"\n"):
        if password.endswith(newline):
            password = password.removesuffix(newline)
            break
    if b"\0" in password or b"\n" in password:
        raise fail("monitor-password-file", f"{path} must hold one line, the password")
    return password


def _toml(value: object) -> str:
    """Write a value as TOML; JSON's strings and numbers are TOML's too."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in cast("Iterable[object]", value)) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value))
