"""The configuration from a TOML file and from the command line, which overrides the file.

Both use the names in `proxy.config.options`; the file may write underscores for dashes. Only the
file has the tables of `proxy.config.tables`.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from proxy.config import cross_checks, secret_files, tables, toml_text
from proxy.config.config import Config
from proxy.config.error import ConfigError
from proxy.config.option import Option, Value
from proxy.config.options import BY_NAME, did_you_mean

_SECRETS: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "monitor-password-file": ("monitor_password", secret_files.read_password),
    "token-key-file": ("token_keys", secret_files.read_keys),
}
"""Options whose files are read at once: the attribute for the content, and its reader."""


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
        # A path in a file is relative to that file, as people who read the file expect.
        return base / value.expanduser() if isinstance(value, Path) else value
    except (ValueError, RuntimeError) as error:  # RuntimeError: nobody knows the home directory
        raise ConfigError(f"{where}: {error}") from error


def _checked(
    values: dict[str, Value], found: Mapping[str, object], origins: Mapping[str, str]
) -> Config:
    """Read the secrets, and check options against each other."""

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
