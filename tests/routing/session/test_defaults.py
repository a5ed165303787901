"""What a server's sessions begin with, as its own words, and what another must be told of it."""

from __future__ import annotations

import pytest

from routing.session.defaults import NAMES, UNKNOWN, Defaults, defaults_of, differences
from routing.session.init_connect import leaves_nothing

SUMMER_TIME = (
    "1980-01-01 01:00:00,1980-07-01 02:00:00,2000-01-01 01:00:00,2000-07-01 02:00:00,"
    "2026-01-01 01:00:00,2026-07-01 02:00:00"
)
UTC = (
    "1980-01-01 00:00:00,1980-07-01 00:00:00,2000-01-01 00:00:00,2000-07-01 00:00:00,"
    "2026-01-01 00:00:00,2026-07-01 00:00:00"
)
VALUES = {
    **dict.fromkeys(NAMES, "0"),
    "character_set_client": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_0900_ai_ci",
    "optimizer_switch": "a=on,b=off,c=on",
    "optimizer_trace": "enabled=off,one_line=off",
    "sql_mode": "",
    "system_time_zone": UTC,
    "time_zone": "SYSTEM",
}


def begins(**others: str) -> Defaults:
    return defaults_of("\x1f".join({**VALUES, **others}.values()).encode())


def shown_differences(**others: str) -> dict[str, str]:
    return dict(differences(begins(**others), begins()))


def test_where_servers_agree_nothing_is_told() -> None:
    assert shown_differences() == {}
    assert begins() == begins()


@pytest.mark.parametrize(
    ("own", "literals"),
    [
        ({"time_zone": "+02:00"}, {"time_zone": "'+02:00'"}),
        ({"group_concat_max_len": "7"}, {"group_concat_max_len": "7"}),
        ({"sql_notes": "1"}, {"sql_notes": "1"}),
        ({"max_join_size": "9"}, {"max_join_size": "9", "sql_big_selects": "0"}),
        ({"optimizer_switch": "a=on,b=on,c=on,new=on"}, {"optimizer_switch flags": "'b=on'"}),
        (
            {"collation_connection": "utf8mb4_bin"},
            {"names": "utf8mb4 COLLATE utf8mb4_bin"},
        ),
        (
            {"character_set_results": ""},
            {
                "character_set_client": "'utf8mb4'",
                "character_set_results": "NULL",
                "collation_connection": "'utf8mb4_0900_ai_ci'",
            },
        ),
        ({"system_time_zone": SUMMER_TIME}, {"time_zone": f"'SYSTEM ({SUMMER_TIME})'"}),
        ({"explain_format": "?"}, {}),
    ],
)
def test_what_differs_is_told(own: dict[str, str], literals: dict[str, str]) -> None:
    assert shown_differences(**own) == literals


def test_utc_has_a_name_everywhere() -> None:
    other = begins(system_time_zone=SUMMER_TIME)
    assert differences(begins(), other) == {"time_zone": "'+00:00'"}


def test_a_server_that_does_not_say_is_told_nothing() -> None:
    for row in (b"", b"x", begins().row[:-4] + b"\x1f\x1f"):
        assert differences(begins(), defaults_of(row)) == {}
        assert differences(defaults_of(row), begins()) == {}
    assert UNKNOWN.pinning == ()


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"sql_auto_is_null": "1"}, "sql_auto_is_null"),
        ({"profiling": "1"}, "profiling"),
        ({"time_zone": "it's"}, "time_zone"),
        ({"optimizer_switch": "a=on',sql_log_bin='0"}, "optimizer_switch"),
        ({"collation_connection": "a,b=1"}, "collation_connection"),
        ({"character_set_client": "swe7"}, "character_set_client swe7"),
    ],
)
def test_what_cannot_be_told_keeps_the_session_on_the_primary(
    own: dict[str, str], name: str
) -> None:
    assert begins(**own).pinning == (name,)


def test_character_sets_of_another_session() -> None:
    own = begins(time_zone="+01:00")
    other = begins(collation_connection="utf8mb4_bin", time_zone="+09:00")
    assert own.in_sets_of(other) == begins(collation_connection="utf8mb4_bin", time_zone="+01:00")


@pytest.mark.parametrize(
    ("sql", "nothing"),
    [
        ("", True),
        ("SET NAMES latin1", True),
        ("SET autocommit=0; SET time_zone='+01:00'", False),  # not cut within quotes
        ("SET autocommit=0;SET sql_notes = 0", True),
        ("INSERT INTO audit.logins VALUES (1)", True),
        ("SET @a = 1", False),
        ("SET ROLE ALL", False),
        ("CALL p()", False),
        ("SELECT GET_LOCK('a', 1)", False),
        ("CREATE TEMPORARY TABLE t (id INT)", False),
        ("SET SESSION x = 1, @b = 2", False),
    ],
)
def test_what_init_connect_leaves(sql: str, nothing: bool) -> None:
    assert leaves_nothing(sql) is nothing


def test_a_long_init_connect_is_not_read() -> None:
    """It would hold up every client: 200,000 statements take seconds."""
    assert leaves_nothing("SET sql_notes = 0;" * 200)
    assert not leaves_nothing("SET sql_notes = 0;" * 300)
