"""Every option: a reload applies it, or names it as one that needs a restart."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from protocol.constants import Capability
from protocol.response import ErrPacket
from proxy.address import Address
from proxy.config import Config, ConfigError, load
from proxy.config.options import BY_NAME, OPTIONS
from proxy.config.tables import KINDS, Table
from proxy.reload.source import ATTRIBUTES, Change, Source
from proxy.tls.materials import build, make_key_ring, renew, self_signed
from routing.consistency.adjustment import Adjustment
from routing.consistency.decision import (
    ConflictPolicy,
    LostPolicy,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from tests.faults.proxy_fixture import ProxyFixture, materials
from tests.faults.table_fixture import count, table_fixture
from tests.faults.test_reload import change, shown

ROOT = Path(__file__).parents[2]
KEY = "00112233445566778899aabbccddeeff" * 2
BASE: dict[str, object] = {
    "primary": "db1",
    "replicas": ["db2"],
    "monitor-user": "watch",
    "monitor-password-file": "password",
    "client-tls-cert": "cert.pem",
    "client-tls-key": "key.pem",
    "server-tls": "verify_ca",
    "server-tls-ca": "ca.pem",
    "token-key-file": "keys",
    "rsa-key": "rsa.pem",
    "admins": "operator",
}
OTHER: dict[str, object] = {
    "primary": "db3",
    "replicas": ["db2", "db4"],
    "topology": "auto",
    "listen": ":7000",
    "consistency": "BOUNDED_STALENESS(5s)",
    "scope": "connection",
    "failover": "read_only",
    "on-timeout": "error",
    "transaction-reads": "primary",
    "on-split-conflict": "allow",
    "self-audit": "0",
    "wait-budget": "auto",
    "metrics": ":9999",
    "routing-log": "log",
    "routing-log-keep": "3d",
    "state-dir": "state",
    "control-socket": "control",
    "proxy-name": "other",
    "heartbeat-table": "a.b",
    "server-compression": "zstd",
    "client-compression": "zlib",
    "proxy-protocol-networks": "10.0.0.0/8",
    "monitor-user": "other",
    "client-tls": "required",
    "drain-delay": "5s",
    "max-server-connections": 7,
    "admins": "dba",
    "socket": "sock",
    "socket-mode": "0600",
    "zone": "east",
    "max-user-connections": 7,
    "max-client-connections": 7,
    "max-login-rate": 7,
    "max-session-memory": "7M",
    "client-idle-timeout": "9s",
    "admin-listen": ":9998",
    "admin-token-file": "token",
    "slow-statement-time": "1s",
    "trace-endpoint": "http://127.0.0.1:4318/v1/traces",
    "trace-sample": 0.5,
}
"""Values of options whose present one is no number or word with a successor."""


@cache
def certificates() -> tuple[tuple[bytes, bytes], ...]:
    return self_signed("one", "localhost"), self_signed("two", "localhost")


@cache
def rsa_keys() -> tuple[bytes, ...]:
    config = Config(Address("db1", 1), client_tls="disabled")
    return tuple(make_key_ring(config).rsa_key for _ in range(2))


class Folder:
    """A file, and what it names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "tidegate.toml"
        self.fill(0)
        self.write(BASE)
        given = self.read()
        self.source = Source(self.read, given, given, make_key_ring(given))

    def fill(self, which: int) -> None:
        certificate, key = certificates()[which]
        for name, content in {
            "password": b"secret%d" % which,
            "keys": KEY.replace("0", str(which)).encode(),
            "cert.pem": certificate,
            "key.pem": key,
            "ca.pem": certificate,
            "rsa.pem": rsa_keys()[which],
            "token": b"0123456789abcdef%d" % which,
        }.items():
            (self.path / name).write_bytes(content)

    def write(self, options: dict[str, object], tables: str = "") -> None:
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in options.items()]
        self.file.write_text("".join(lines) + tables)

    def read(self) -> Config:
        return load(self.file, {})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def another(name: str, config: Config, path: Path) -> object:
    """A value that an option does not have."""
    if name in OTHER:
        return OTHER[name]
    option = BY_NAME[name]
    value = getattr(config, option.attribute)
    if isinstance(value, Path):  # the same under another name
        copied = path / f"copied-{value.name}"
        copied.write_bytes(value.read_bytes())
        return str(copied)
    if option.choices:
        return next(word for word in option.choices if word != str(value))
    for text in (f"{value * 2000:.0f}ms", value * 2):
        try:
            option.read(text)
        except ValueError:
            continue
        return text
    raise AssertionError(f"{name}: name another value in OTHER")


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_each_option_is_applied_or_named(folder: Folder, name: str) -> None:
    source = folder.source
    before = source.config
    options = BASE | {name: another(name, before, folder.path)}
    folder.write({key: value for key, value in options.items() if key != _excludes(options)})
    found = source.look()
    option = BY_NAME[name]
    waits = option.at_start or name == "primary"
    assert (name in found.applied, name in found.needs_restart) == (not waits, waits)
    same = getattr(found.config, option.attribute) == getattr(before, option.attribute)
    assert same is waits
    source.take(found)
    again = source.look()
    assert again.applied == ()
    assert again.needs_restart == found.needs_restart  # at each reload, until it is started anew
    folder.write(BASE)
    assert source.look().needs_restart == ()


def _excludes(options: dict[str, object]) -> str:
    """What makes no sense beside the other options."""
    if options["server-tls"] != "verify_ca":
        return "server-tls-ca"
    return ""


def test_what_makes_no_sense_beside_what_stays_waits_too(folder: Folder) -> None:
    folder.write(BASE | {"primary": "db2", "replicas": ["db1"], "max-connections": 5})
    found = folder.source.look()
    assert found.applied == ("max-connections",)
    assert found.needs_restart == ("primary", "replicas")
    assert found.config.replicas == folder.source.config.replicas


def test_files_count_by_what_they_hold(folder: Folder) -> None:
    assert folder.source.look().applied == ()
    folder.fill(1)
    found = folder.source.look()
    assert set(found.applied) == {
        *("monitor-password-file", "token-key-file", "client-tls-cert", "client-tls-key"),
        *("rsa-key", "server-tls-ca"),
    }
    folder.source.take(found)
    assert folder.source.look() == Change(found.config, found.ring)


@pytest.mark.parametrize("gone", ["password", "keys", "cert.pem", "key.pem", "rsa.pem", "ca.pem"])
def test_a_file_that_is_gone_or_unusable_is_an_error(folder: Folder, gone: str) -> None:
    (folder.path / gone).write_bytes(b"\0")
    with pytest.raises(ConfigError, match=re.escape(gone)):
        folder.source.look()
    (folder.path / gone).unlink()
    with pytest.raises(ConfigError, match=re.escape(gone)):
        folder.source.look()


def test_a_certificate_and_the_key_of_another_are_an_error(folder: Folder) -> None:
    (folder.path / "cert.pem").write_bytes(certificates()[1][0])
    with pytest.raises(ConfigError, match="client-tls-cert"):
        folder.source.look()


def test_keys_that_were_made_stay(folder: Folder) -> None:
    without = {
        name: value
        for name, value in BASE.items()
        if name not in ("client-tls-cert", "client-tls-key", "rsa-key")
    }
    folder.write(without)
    given = folder.read()
    source = Source(folder.read, given, given, make_key_ring(given))
    assert source.look() == Change(source.config, source.ring)
    folder.write(without | {"client-tls": "disabled"})
    found = source.look()
    assert found.ring.rsa_key == source.ring.rsa_key


def test_tables_are_applied_and_listeners_are_not_opened(folder: Folder) -> None:
    tables = '[users.app]\nscope = "connection"\n[listeners.":7001"]\nscope = "connection"\n'
    folder.write(BASE, tables)
    found = folder.source.look()
    assert found.applied == ("users",)
    assert found.needs_restart == ('[listeners."0.0.0.0:7001"]',)
    assert found.config.addresses == folder.source.config.addresses
    own = '[listeners."127.0.0.1:6446"]\nscope = "connection"\n'  # that of `listen`
    folder.write(BASE, own)
    found = folder.source.look()
    assert (found.applied, found.needs_restart) == (("listeners",), ())
    folder.source.take(found)
    folder.write(BASE)
    assert folder.source.look().applied == ("listeners",)


def test_a_listener_that_goes_stays_open_until_the_restart(folder: Folder) -> None:
    folder.write(BASE, '[listeners.":7001"]\nscope = "connection"\n')
    given = folder.read()
    source = Source(folder.read, given, given, folder.source.ring)
    folder.write(BASE, '[listeners.":7001"]\nscope = "proxy"\n')
    found = source.look()
    assert (found.applied, found.needs_restart) == (("listeners",), ())
    folder.write(BASE)
    found = source.look()
    assert (found.applied, found.needs_restart) == ((), ('[listeners."0.0.0.0:7001"]',))
    assert found.config.listeners == given.listeners


def test_what_the_start_has_made_of_the_configuration_stays(folder: Folder) -> None:
    """As a port in place of 0, and a directory that the workers share."""
    given = folder.read()
    run = replace(given, listen=Address("127.0.0.1", 7777), state_dir=folder.path)
    source = Source(folder.read, given, run, folder.source.ring)
    folder.write(BASE | {"max-connections": 9})
    found = source.look()
    assert found.needs_restart == ()
    assert (found.config.listen, found.config.state_dir) == (run.listen, run.state_dir)
    assert found.config.max_connections == 9


def test_what_is_the_same_is_not_built_anew(folder: Folder) -> None:
    source = folder.source
    before = source.config, source.ring
    first = build(*before)
    assert renew(first, before, *before).server_tls is first.server_tls
    folder.fill(1)
    found = source.look()
    second = renew(first, before, found.config, found.ring)
    assert second.server_tls is not first.server_tls
    assert second.client_ssl is not first.client_ssl


def test_the_documentation_says_what_needs_a_restart() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    sections = re.split(r"(?m)^### `([a-z-]+)`$", text)[1:]
    marked = {
        name
        for name, section in zip(sections[::2], sections[1::2], strict=True)
        if "A change needs a restart" in section
    }
    assert marked == {"primary"} | {option.name for option in OPTIONS if option.at_start}


# What counts at once for whoever reads an option when it is needed, and what has to be told.


def of_session(proxy: ProxyFixture) -> Any:
    """The newest session."""
    return list(proxy.shared.sessions)[-1]


WORDS: dict[str, tuple[object, Callable[[ProxyFixture], object], object]] = {
    "on_lost_writes": (
        list(LostPolicy)[-1],
        lambda proxy: of_session(proxy)._read.on_lost_writes,
        list(LostPolicy)[-1],
    ),
    "filtered_replicas": (
        "allow",
        lambda proxy: proxy.shared.topology.replicas[0].filters.allowed,
        True,
    ),
    "on_max_lag": ("stale", lambda proxy: proxy.shared.topology.reads_lagging, True),
    "metadata_reads": ("replica", lambda proxy: len(proxy.shared.topology.for_primary), 0),
    "explain": ("primary", lambda proxy: len(proxy.shared.topology.for_primary), 2),
    "without_primary": ("refuse", lambda proxy: of_session(proxy)._reads_on, False),
    "self_audit": (0.0, lambda proxy: proxy.shared.audits.on, False),
    "view_age": (0.0, lambda proxy: proxy.shared.catalogues.off, True),
}
"""Options that something is computed from: another value, what follows from it, and its value."""
SHOWN: dict[str, object] = {
    "scope": Scope.USER,
    "on_timeout": TimeoutPolicy.ERROR,
    "transaction_reads": TransactionReads.PRIMARY,
    "on_split_conflict": list(ConflictPolicy)[-1],
}
"""Rules, which sessions show."""


@pytest.mark.parametrize("name", sorted(WORDS))
async def test_what_was_computed_from_an_option_follows(name: str) -> None:
    value, found, expected = WORDS[name]
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        assert found(proxy) != expected
        change(proxy, **{name: value})
        assert await count(client) == 0
        assert found(proxy) == expected


@pytest.mark.parametrize("name", sorted(SHOWN))
@pytest.mark.parametrize("table", ["", "users", "schemas", "listeners"])
async def test_rules_follow_from_the_next_statement_on(name: str, table: str) -> None:
    value = SHOWN[name]
    async with table_fixture() as proxy:
        client = await proxy.session(database="test")
        assert await shown(client, name) != str(value).encode()
        if table:
            listen = proxy.shared.config.listen
            key = {"users": "app", "schemas": "test", "listeners": listen}[table]
            adjustment = Adjustment(**{name: value})  # type: ignore[arg-type]
            change(proxy, **{table: Table({key: adjustment})})
        else:
            change(proxy, **{name: value})
        assert await shown(client, name) == getattr(value, "value", "").encode()


async def test_logins_follow() -> None:
    async with table_fixture() as proxy:
        await proxy.session()
        change(proxy, client_compression=(), client_tls="required")
        client = await proxy.connect()
        greeting = await client.greet()
        assert not greeting.capabilities & Capability.CLIENT_COMPRESS
        live = proxy.shared.live
        live.change(live.config, replace(materials(), client_ssl=None))
        client = await proxy.connect()
        greeting = await client.greet()
        assert not greeting.capabilities & Capability.CLIENT_SSL
        client = await proxy.connect()
        assert ErrPacket.parse(await client.log_in()).code == 3159


async def test_connection_sharing_begins_with_new_sessions_and_ends_for_all() -> None:
    async with table_fixture(connection_sharing="off") as proxy:
        await proxy.session()
        before = of_session(proxy)
        change(proxy, connection_sharing="on")
        client = await proxy.session()
        after = of_session(proxy)
        assert before._lease is None
        assert after._lease._shares
        change(proxy, connection_sharing="off")
        await client.query("SELECT 1 FROM t")
        assert not after._lease._shares


ANY_ATTRIBUTE = {each for names in ATTRIBUTES.values() for each in names}


def stored(path: Path) -> Iterator[tuple[str, str]]:
    """Options that a class copies into an attribute, and in which method."""
    text = path.read_text()
    if "config" not in text:
        return
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Attribute) for target in node.targets
            ):
                for name in read_in(node.value):
                    yield function.name, name


def read_in(tree: ast.AST) -> set[str]:
    """Options that are read from a value named `config`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ANY_ATTRIBUTE
        and (
            (isinstance(node.value, ast.Name) and node.value.id == "config")
            or (isinstance(node.value, ast.Attribute) and node.value.attr == "config")
        )
    }


AT_START = {option.attribute for option in OPTIONS if option.at_start}
COPIED = {
    # A lease that shares may only stop.
    ("proxy/client/sharing/connection_lease.py", "__init__", "connection_sharing"),
    ("proxy/client/sharing/connection_lease.py", "__init__", "without_primary"),
    # When a stop has begun, its times are set.
    ("proxy/supervisor.py", "_stop", "drain_delay"),
    ("proxy/supervisor.py", "_stop", "drain_timeout"),
}


def test_only_who_follows_changes_copies_an_option() -> None:
    found = {
        (str(path.relative_to(ROOT)), function, name)
        for path in (ROOT / "proxy").rglob("*.py")
        if path.parent.name not in ("config", "reload", "check", "tls")
        for function, name in stored(path)
    }
    assert {
        entry
        for entry in found - COPIED
        if entry[2] not in AT_START
        and entry[1] not in ("configure", "_configure")
        and entry[0] != "proxy/config_changes.py"
    } == set()


def test_what_a_worker_is_built_with_follows_changes() -> None:
    def of(path: str, *functions: str) -> set[str]:
        tree = ast.parse((ROOT / path).read_text())
        return {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (not functions or node.name in functions)
            for name in read_in(node)
        }

    built = of("proxy/serve.py", "build") | of("proxy/worker.py", "_routing_log")
    followed = of("proxy/config_changes.py") | of("proxy/worker.py", "on_change")
    # The servers come and go by `Membership.configure`.
    assert built - followed - AT_START - {"primary", "replicas"} == set()


def test_tables_and_options_have_their_attributes() -> None:
    assert set(Config.__dataclass_fields__) == ANY_ATTRIBUTE
    assert set(ATTRIBUTES) == set(BY_NAME) | set(KINDS) | {"servers"}
