"""The configuration from a TOML file, from the environment, and from the command line.

The environment overrides the file, and the command line both. All use the names in
`proxy.config.options`; the file may write underscores for dashes, and the environment has variables
such as ``TIDEGATE_WAIT_BUDGET``. Only the file has the tables of `proxy.config.tables`.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from proxy.address import Address
from proxy.config import cross_checks, secret_files, server_tables, tables, toml_text
from proxy.config.config import Config
from proxy.config.error import ConfigError, Problems
from proxy.config.option import Option, Value
from proxy.config.options import BY_NAME, did_you_mean
from proxy.open_files import system_error

_SECRETS: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "monitor-password-file": ("monitor_password", secret_files.read_password),
    "admin-token-file": ("admin_token", secret_files.read_token),
    "token-key-file": ("token_keys", secret_files.read_keys),
}
"""Options whose files are read at once: the attribute for the content, and its reader."""


_FILES: Final = (*_SECRETS, "client-tls-cert", "client-tls-key", "rsa-key", "server-tls-ca")
"""Options that name files which must be there, and may be read."""
_NOWHERE: Final = Address("", 0)
"""Stands for a primary that is not known."""


def load(
    path: Path | None,
    arguments: Mapping[str, Sequence[str]],
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read a file, override it by the environment and the command line, and check the whole.

    Args:
        path: a TOML file, or None.
        arguments: texts by option name (with dashes), one text per time it was given.
        environment: environment variables. One that is empty is as good as none, and one that is no
            option's is somebody else's: Kubernetes sets TIDEGATE_PORT for a service of that name.

    Raises:
        ConfigError: all that is wrong.
    """
    reading = _Reading()
    if path is not None:
        with reading.problems.collected():
            reading.read_file(path)
    for option in BY_NAME.values():
        text = (environment or {}).get(variable_of(option), "")
        if text:
            reading.read_variable(option, text)
    for name, texts in arguments.items():
        reading.read_argument(BY_NAME[name], texts)
    return reading.finish()


def control_socket(
    path: Path | None,
    arguments: Mapping[str, Sequence[str]],
    environment: Mapping[str, str],
) -> Path | None:
    """Find the control socket of the proxy that runs with these; None if it has none.

    Whatever else is wrong with them is for that proxy to say.

    Raises:
        ConfigError: the file cannot be read.
    """
    reading = _Reading()
    if path is not None:
        reading.read_file(path)
    for option in BY_NAME.values():
        text = environment.get(variable_of(option), "")
        if text:
            reading.read_variable(option, text)
    for name, texts in arguments.items():
        reading.read_argument(BY_NAME[name], texts)
    return reading.control_socket


def variable_of(option: Option) -> str:
    """The environment variable that sets an option."""
    return f"TIDEGATE_{option.attribute.upper()}"


class _Reading:
    """What was read so far.

    Attributes:
        problems: what is wrong with it.
    """

    def __init__(self) -> None:
        self.problems = Problems()
        self._values: dict[str, Value] = {}
        self._tables: dict[str, object] = {}
        self._origins: dict[str, str] = {}  # where it was given, by the option's name
        self._unread: set[str] = set()  # options whose value is wrong

    def read_file(self, path: Path) -> None:
        """Read a TOML file.

        Raises:
            ConfigError: it is none.
        """
        try:
            content = _read_toml(path)
        except ConfigError:
            self._unread.update(BY_NAME)
            raise
        for key, raw in content.items():
            if key == server_tables.KIND:
                self._read_servers(raw, path)
                continue
            if key in tables.KINDS:
                self._read_tables(key, raw, path)
                self._origins[key] = str(path)
                continue
            option = BY_NAME.get(key.replace("_", "-"))
            where = f"{path}: {key}"
            if option is None:
                hint = did_you_mean(
                    key.replace("_", "-"), others=(*tables.KINDS, server_tables.KIND)
                )
                self.problems.add(f"{where}: unknown key{hint}")
            elif option.name in self._origins:
                self.problems.add(f"{where}: given twice, as {self._origins[option.name]}")
            else:
                self._origins[option.name] = where
                self._take(option, raw, f"{where} = {toml_text.written(raw)}", path.parent)

    def read_variable(self, option: Option, text: str) -> None:
        """Read an environment variable of an option, which counts more than the file."""
        where = self._origins[option.name] = variable_of(option)
        self._take(option, text, f"{where}={text}", Path())

    def read_argument(self, option: Option, texts: Sequence[str]) -> None:
        """Read what the command line gives for an option, which counts more than the file."""
        raw = list(texts) if option.repeatable else texts[-1]
        where = self._origins[option.name] = f"--{option.name}"
        self._take(option, raw, f"{where} {' '.join(texts)}", Path())

    @property
    def control_socket(self) -> Path | None:
        """Where the control socket is, by what was read so far."""
        values = {name: self._values.get(name) for name in ("state-dir", "control-socket")}
        folder, path = (value if isinstance(value, Path) else None for value in values.values())
        return Config(_NOWHERE, state_dir=folder, control_socket=path).control_path

    def finish(self) -> Config:
        """Read the secrets, and check options against each other.

        Raises:
            ConfigError: all that is wrong.
        """
        values = self._values
        if "primary" not in values:
            if "primary" not in self._unread:
                self.problems.add(
                    "primary is missing: give --primary HOST:PORT, or set it in the file or in"
                    " TIDEGATE_PRIMARY"
                )
            self._unread.add("primary")
            values["primary"] = _NOWHERE
        fields: dict[str, object] = {BY_NAME[name].attribute: v for name, v in values.items()}
        if isinstance(level := fields.get("consistency"), tuple):
            fields["consistency"], fields["staleness"] = level
        for name in _FILES:
            path = values.get(name)
            if isinstance(path, Path):
                self._read_named_file(name, path, fields)
        config = Config(**fields, **self._tables)  # type: ignore[arg-type]  # readers give the fields' types
        for name, problem in cross_checks.check(config, self._unread):
            self._add(name, problem)
        self.problems.report()
        return config

    def _take(self, option: Option, raw: object, where: str, base: Path) -> None:
        self._unread.discard(option.name)
        try:
            value = option.read(raw)
            # A path in a file is relative to that file, as people who read the file expect.
            self._values[option.name] = (
                base / value.expanduser() if isinstance(value, Path) else value
            )
        except (ValueError, RuntimeError) as error:  # RuntimeError: nobody knows the home directory
            self.problems.add(f"{where}: {error}")
            self._unread.add(option.name)
            self._values.pop(option.name, None)

    def _read_tables(self, kind: str, raw: object, path: Path) -> None:
        def report(problem: str) -> None:
            self.problems.add(f"{path}: {problem}")
            self._unread.add(kind)

        self._tables[kind] = tables.read(kind, raw, report)
        if kind == "users":
            self._tables["user_limits"] = tables.read_limits(raw, report)

    def _read_servers(self, raw: object, path: Path) -> None:
        def report(problem: str) -> None:
            self.problems.add(f"{path}: {problem}")
            self._unread.add(server_tables.KIND)

        self._tables[server_tables.KIND] = server_tables.read(raw, report)
        self._origins[server_tables.KIND] = str(path)

    def _read_named_file(self, name: str, path: Path, fields: dict[str, object]) -> None:
        """Read a file if it holds a secret, and see whether it can be read if not."""
        try:
            with path.open("rb"):
                pass
            if name in _SECRETS:
                attribute, read = _SECRETS[name]
                fields[attribute] = read(path)
        except OSError as error:
            self._add(name, f"{path} cannot be read: {system_error(error)}")
        except ValueError as error:
            self._add(name, str(error))

    def _add(self, name: str, problem: str) -> None:
        self.problems.add(f"{self._origins.get(name, name)}: {problem}")


def _read_toml(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {system_error(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
