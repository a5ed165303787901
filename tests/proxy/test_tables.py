"""The tables of the file: what they say, which says more, and what is wrong in them."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.address import Address
from proxy.config import Config, ConfigError, load, tables
from proxy.config.tables import Table
from proxy.config.values import consistency
from routing.consistency.adjustment import NO_ADJUSTMENT, Adjustment
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import AUTO, Rules

SECOND = Address("127.0.0.1", 6447)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tidegate.toml"


def from_text(path: Path, text: str) -> Config:
    path.write_text(f'primary = "db1"\nlisten = "127.0.0.1:6446"\n{text}')
    return load(path, {})


def test_all_tables_and_keys(path: Path) -> None:
    config = from_text(
        path,
        """
        [users.app]
        consistency = "bounded_staleness(250)"
        scope = "User"
        wait-budget = 2
        on_timeout = "stale"
        application = " shop "
        [users."a.b@c"]
        [schemas.books]
        consistency = "STRONG"
        [listeners."LOCALHOST:6447"]
        wait_budget = "10ms"
        [listeners.":6448"]
        """,
    )
    everything = Adjustment(
        Level.BOUNDED_STALENESS, Scope.USER, 2.0, TimeoutPolicy.STALE, 0.25, " shop "
    )
    assert config.users == {"app": everything, "a.b@c": NO_ADJUSTMENT}
    assert config.schemas == {"books": Adjustment(level=Level.STRONG)}
    assert config.listeners == {
        Address("localhost", 6447): Adjustment(wait_budget=0.01),
        Address("0.0.0.0", 6448): NO_ADJUSTMENT,
    }
    assert config.addresses == (Address("127.0.0.1", 6446), *config.listeners)
    path.write_text(config.to_toml())
    assert load(path, {}) == config


def test_the_listen_address_may_have_rules_and_is_one_address(path: Path) -> None:
    config = from_text(
        path, '[listeners."127.0.0.1:6447"]\n[listeners."127.0.0.1:6446"]\nscope = "proxy"\n'
    )
    assert config.addresses == (config.listen, SECOND)
    assert config.rules_for("u", "s", config.listen).scope is Scope.PROXY
    assert config.rules_for("u", "s", SECOND).scope is Scope.USER


SETTINGS = {
    "consistency": ("STRONG", "MONOTONIC_READS", "BEST_EFFORT"),
    "scope": ("connection", "application", "proxy"),
    "wait-budget": ("1s", "2s", "3s"),
    "on-timeout": ("error", "stale", "primary"),
    "application": ("a", "b", "c"),
}


@pytest.mark.parametrize("key", list(SETTINGS))
@pytest.mark.parametrize(
    "present",
    [
        *((), ("listeners",), ("schemas",), ("users",)),
        *(("listeners", "schemas"), ("listeners", "users"), ("schemas", "users")),
        ("listeners", "schemas", "users"),
    ],
)
def test_the_user_comes_before_the_schema_before_the_listener(
    path: Path, key: str, present: tuple[str, ...]
) -> None:
    names = {"listeners": '"127.0.0.1:6447"', "schemas": "s", "users": "u"}
    values = dict(zip(names, SETTINGS[key], strict=True))
    text = "".join(f'[{kind}.{names[kind]}]\n{key} = "{values[kind]}"\n' for kind in present)
    config = from_text(path, text)
    expected = config.rules
    if present:
        read = tables.read("users", {"x": {key: values[present[-1]]}}, pytest.fail)
        expected = read["x"].applied_to(expected)
        assert expected != config.rules or values[present[-1]] == "primary"
    assert config.rules_for("u", "s", SECOND) == expected
    # Nobody else gets any of it.
    assert config.rules_for("v", "t", config.listen) == config.rules
    assert config.rules_for("U", "S", config.listen) == config.rules


def test_tables_add_up(path: Path) -> None:
    config = from_text(
        path,
        """
        [users.u]
        scope = "user"
        [schemas.s]
        consistency = "BOUNDED_STALENESS(2s)"
        scope = "proxy"
        [listeners."127.0.0.1:6447"]
        on-timeout = "error"
        """,
    )
    assert config.rules_for("u", "s", SECOND) == Rules(
        Level.BOUNDED_STALENESS, Scope.USER, 0.25, TimeoutPolicy.ERROR, 2.0
    )
    assert config.rules_for("u", "", SECOND) == Adjustment(
        scope=Scope.USER, on_timeout=TimeoutPolicy.ERROR
    ).applied_to(config.rules)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users = 5", "users = 5: want tables [users.NAME]"),
        (
            '[users]\nscope = "user"',
            '[users]: scope = "user": want a table [users.scope]',
        ),
        (
            '[users.app]\nwait-bugdet = "1s"',
            "[users.app]: wait-bugdet: unknown key; did you mean wait-budget?",
        ),
        (
            "[schemas.app]\nzzzzzz = 1",
            "[schemas.app]: zzzzzz: unknown key; known are consistency, scope, wait-budget,",
        ),
        (
            "[users.app]\nlog-level = 1",
            "[users.app]: log-level: cannot be set in a table; write it above the first table",
        ),
        (
            '[users."a b"]\nconsistency = "STRICT"',
            '[users."a b"]: consistency = "STRICT": want one of BEST_EFFORT,',
        ),
        ("[users.a]\nscope = 1", "[users.a]: scope = 1: want one of connection,"),
        ("[users.a]\nwait-budget = 0", "[users.a]: wait-budget = 0: want a duration"),
        ("[users.a]\napplication = 1", "[users.a]: application = 1: want an application key"),
        (
            '[users.a]\napplication = "a\\nb"',
            '[users.a]: application = "a\\nb": want an application key of at most 255',
        ),
        (
            '[users.a]\non-timeout = "error"\non_timeout = "error"',
            "[users.a]: on_timeout: given twice, as on-timeout",
        ),
        ('[users.""]', '[users.""]: want a name'),
        ("[listeners.6447]", "[listeners.6447]: the port is missing"),
        ('[listeners."db1:0"]', '[listeners."db1:0"]: want a port from 1 to 65535'),
        ('[listeners."a b"]', '[listeners."a b"]: want HOST:PORT'),
        (
            '[listeners."a:1"]\n[listeners."A:01"]',
            '[listeners."A:01"]: given twice, as [listeners."a:1"]',
        ),
        (
            '[listeners."db1:3306"]',
            '[listeners."db1:3306"]: db1:3306 is one of the servers',
        ),
    ],
)
def test_errors_name_file_table_key_and_what_is_allowed(
    path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        from_text(path, text)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_metrics_need_a_port_of_their_own(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metrics: 127\.0\.0\.1:6447 is a listener's address"):
        from_text(path, 'metrics = "127.0.0.1:6447"\n[listeners."127.0.0.1:6447"]\n')


def test_a_narrow_scope_and_an_application_go_with_workers(path: Path) -> None:
    config = from_text(
        path, 'workers = 2\n[users.a]\nscope = "connection"\napplication = "x"\n[users.b]\n'
    )
    assert config.users["a"].scope is Scope.CONNECTION


def test_the_scope_of_an_application_needs_no_key_in_its_table(path: Path) -> None:
    config = from_text(path, '[users.a]\nscope = "application"\n')
    assert config.rules_for("a", "", config.listen).application == ""


LEVELS = st.one_of(
    st.sampled_from([level for level in Level if level is not Level.BOUNDED_STALENESS]).map(
        lambda level: (level, None)
    ),
    st.integers(1, 86_400_000_000).map(
        lambda microseconds: consistency(f"BOUNDED_STALENESS({microseconds}us)")
    ),
    st.just((None, None)),
)
PRINTABLE = st.characters(min_codepoint=32, exclude_categories=["Cs"])


@st.composite
def adjustments(draw: st.DrawFn) -> Adjustment:
    level, staleness = draw(LEVELS)
    return Adjustment(
        level=level,
        staleness=staleness,
        scope=draw(st.none() | st.sampled_from(Scope)),
        wait_budget=draw(st.none() | st.just(AUTO) | st.floats(1e-6, 60)),
        on_timeout=draw(st.none() | st.sampled_from(TimeoutPolicy)),
        application=draw(st.none() | st.text(PRINTABLE, max_size=60)),
    )


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
HOSTS = st.sampled_from(["127.0.0.1", "::1", "fe80::1%eth0", "my_host-1.example"])
ADDRESSES = st.builds(Address, HOSTS, st.integers(7000, 65535))


@given(
    st.dictionaries(NAMES, adjustments(), max_size=3),
    st.dictionaries(NAMES, adjustments(), max_size=3),
    st.dictionaries(ADDRESSES, adjustments(), max_size=3),
)
def test_what_is_written_is_read_as_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    users: dict[str, Adjustment],
    schemas: dict[str, Adjustment],
    listeners: dict[Address, Adjustment],
) -> None:
    config = Config(
        Address("db1", 3306),
        users=Table(users),
        schemas=Table(schemas),
        listeners=Table(listeners),
    )
    path = tmp_path_factory.getbasetemp() / "tables.toml"
    path.write_text(config.to_toml(), encoding="utf-8", newline="")
    assert load(path, {}) == config


def test_a_table_can_be_sent_and_cannot_be_changed(path: Path) -> None:
    config = from_text(path, '[users.a]\nscope = "user"\n[listeners."a:1"]\n')
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 our own
    assert not hasattr(config.users, "__setitem__")
    given = {"a": NO_ADJUSTMENT}
    table = Table(given)
    given.clear()
    assert table == {"a": NO_ADJUSTMENT}
    assert hash(table) == hash(Table({"a": NO_ADJUSTMENT}))
    assert repr(table) == f"Table({dict(table)!r})"
