"""For how long what servers judged of logins counts, and of what it tells."""

from dataclasses import replace

import pytest

from proxy.server import attributes
from proxy.server.account import Requirement
from proxy.server.identity import Identity
from proxy.server.login import Login
from proxy.server.login_cache import LoginCache
from proxy.server.settings import Settings
from proxy.server.verified_login import VerifiedLogin, preface, verified_login
from routing.servers.topology import Role
from tests.support.identity import IDENTITY

LOGIN = Login("app", b"secret", database="test", attributes={"a": "1", "_pid": "7"})
ACCOUNT = b"CREATE USER `app`@`%` REQUIRE NONE PASSWORD EXPIRE DEFAULT"

MADE = b"SET SESSION autocommit=1"


def row(*values: bytes) -> bytes:
    return b"".join(bytes((len(value),)) + value for value in values)


NAMES = (b"utf8mb4", b"utf8mb4", b"utf8mb4_0900_ai_ci")
REST = (b"NONE", b"", b"1", b"67108864", b"0", b"REPEATABLE-READ", b"", b"0", b"test")
ROW = row(*NAMES, b"", *REST)


def judge(
    login: Login | None = LOGIN,
    *,
    text: bytes = ACCOUNT,
    shown: bytes | None = ROW,
    identity: Identity = IDENTITY,
    role: Role = Role.PRIMARY,
) -> VerifiedLogin | None:
    settings = Settings(role, "OWN_GTID", "test", login, 100.0)
    return verified_login(settings, MADE, False, identity, Requirement.NOTHING, shown, text)


def known() -> VerifiedLogin:
    found = judge()
    assert found is not None
    return found


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_age() -> None:
    clock = Clock()
    cache = LoginCache(5.0, clock)
    assert cache.trusts(known())
    clock.now = 104.9
    assert cache.trusts(known())
    clock.now = 105.0
    assert not cache.trusts(known())
    assert not LoginCache(0.0, Clock()).trusts(known())


def test_a_refusal_is_of_one_user_and_of_what_was_judged_before() -> None:
    clock = Clock()
    cache = LoginCache(5.0, clock)
    cache.on_refused("other", 1045)
    cache.on_refused("app", 1049)  # of a schema
    assert cache.trusts(known())
    clock.now = 101.0
    cache.on_refused("app", 1045)
    assert not cache.trusts(known())
    assert cache.trusts(replace(known(), at=101.5))


def test_many_refusals_are_not_forgotten() -> None:
    clock = Clock()
    cache = LoginCache(5.0, clock)
    clock.now = 101.0
    cache.on_refused("app", 1045)
    for number in range(2000):
        cache.on_refused(f"user{number}", 1045)
    assert not cache.trusts(known())


def test_a_refused_name_that_no_server_has_takes_no_room() -> None:
    """What it begins with is distrusted, which costs a login a question."""
    cache = LoginCache(5.0, Clock())
    cache.on_refused("x" * 200_000, 1045)
    assert max(map(len, cache._refused)) < 100


def test_a_change_is_of_all() -> None:
    clock = Clock()
    cache = LoginCache(5.0, clock)
    clock.now = 101.0
    cache.on_change()
    assert not cache.trusts(known())
    assert cache.trusts(replace(known(), at=101.5))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"attributes": {"a": "1", "_pid": "8"}}, True),
        ({"own_attributes": {"tidegate_client": "x:1"}}, True),
        ({"attributes": {"a": "2"}}, False),
        ({"attributes": {"_pid": "7"}}, False),
        ({"username": "App"}, False),
        ({"password": b"Secret"}, False),
        ({"password": b""}, False),
        ({"database": None}, False),
        ({"character_set": 8}, False),
    ],
)
def test_the_same_login(change: dict[str, object], same: bool) -> None:
    login = replace(LOGIN, **change)  # type: ignore[arg-type]  # as told above
    assert known().is_of(login, "OWN_GTID") is same
    assert not known().is_of(login, "OFF")


@pytest.mark.parametrize(
    "change",
    [
        {"login": None},
        {"shown": None},
        {"text": b""},
        {"text": ACCOUNT + b" WITH MAX_CONNECTIONS_PER_HOUR 5"},
        {"shown": row(*NAMES, b"proxy@%", *REST)},
        {"shown": row(b"x,sql_mode=''", *NAMES[1:], b"", *REST)},
        {"shown": row(*NAMES)},
        {"identity": replace(IDENTITY, counted=5)},
        {"identity": replace(IDENTITY, init_connect="SET @a = 1")},
        {"identity": replace(IDENTITY, cascade_triggers=True)},
    ],
)
def test_what_is_never_lent(change: dict[str, object]) -> None:
    assert judge(**change) is None  # type: ignore[arg-type]  # one of its own


def test_what_brings_a_login_back() -> None:
    text = known().clean_up
    parts = [
        *(b"\x1f", b"\x03ROLLBACK", b"\x02test", b"\x03SET SESSION autocommit=1,"),
        *(b",NAMES utf8mb4 COLLATE utf8mb4_0900_ai_ci", b"\x03SELECT @@", b",DATABASE()"),
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert known().answers == 4
    replica = judge(replace(LOGIN, database=None), role=Role.REPLICA)
    assert replica is not None
    assert b"DATABASE" not in replica.clean_up
    assert replica.answers == 3


def test_character_sets_that_are_not_of_one_login_come_back_by_their_names() -> None:
    found = judge(shown=row(b"latin1", *NAMES[1:], b"", *REST))
    assert found is not None
    assert (
        b",character_set_client=_latin1'latin1',character_set_results=_latin1'utf8mb4',"
        in found.clean_up
    )


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(known())


def test_what_is_told_with_the_first_statement() -> None:
    own = {"tidegate_client": "[fe80::1%eth0]:33", "tidegate_session": "it's\\me/5"}
    statement = (
        b"SET @tidegate_client=_latin1'[fe80::1%eth0]:33',@tidegate_session=_latin1'it?s?me/5'"
    )
    assert attributes.assignment(own) == statement
    packets = preface(Role.PRIMARY, known(), own, False)
    assert [packet[5:] for packet in packets] == [statement, b"SET ROLE NONE"]
    roles = replace(known(), identity=replace(IDENTITY, roles="`r`@`%`"))
    assert len(preface(Role.PRIMARY, roles, own, False)) == 1
    assert len(preface(Role.REPLICA, known(), own, False)) == 1
