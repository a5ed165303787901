"""Names and values of system variables, in the form in which servers are told of them."""

import pytest

from routing.session.variables import (
    CARRIED,
    NOT_CARRIED,
    PINNING,
    exact,
    followed,
    literal_of,
    pins,
    switched,
)


def test_no_variable_is_treated_in_two_ways() -> None:
    assert not CARRIED & NOT_CARRIED
    assert not PINNING.keys() & (CARRIED | NOT_CARRIED)


def test_what_the_client_wants_to_see_is_followed_too() -> None:
    names = followed("Time_Zone, x_1,x'y,").split(",")
    assert {"Time_Zone", "x_1", "sql_mode", "session_track_gtids"} <= set(names)
    assert len({name.lower() for name in names}) == len(names)
    assert not any("'" in name or not name for name in names)
    assert followed("time_zone,*") == "*"


@pytest.mark.parametrize(
    ("literal", "flags", "made"),
    [
        ("'a=on'", "", ("", "'a=on'")),
        ("'a=on'", "'a=off'", ("", "'a=on'")),
        ("'A =off,b=default'", "'a=on,c=on'", ("", "'a=off,c=on,b=default'")),
        ('"b=on"', "'a=off'", ("", "'a=off,b=on'")),
        ("''", "'a=off'", ("", "'a=off'")),
        ("''", "", ("", "''")),
        ("'default'", "'a=off'", ("'default'", "''")),
        ("'a=on,DEFAULT'", "'a=off,b=on'", ("'default'", "'a=on'")),
        ("'def,b=o'", "'a=off'", ("'default'", "'b=o'")),
        ("DEFAULT", "'a=off'", ("DEFAULT", "")),
        ("5", "'a=off'", ("5", "")),
        ("'a=on;b=off'", "", None),
        ("'a=''on'", "", None),
        ("'a=on\\n'", "", None),
        ("' a=on'", "", None),
    ],
)
def test_flags_of_the_optimizer(literal: str, flags: str, made: tuple[str, str] | None) -> None:
    assert switched(literal, flags) == made


@pytest.mark.parametrize(
    ("name", "value", "literal"),
    [
        ("time_zone", "+05:00", "'+05:00'"),
        ("sql_mode", "", "''"),
        ("sql_select_limit", "5", "5"),
        ("long_query_time", "1.500000", "1.500000"),
        ("sql_select_limit", "5 + 1", None),
        ("sql_select_limit", "", None),
        ("lc_messages", "a'b", None),
        ("lc_messages", "a\\", None),
        ("lc_messages", "é", None),
        ("character_set_results", "", "NULL"),
        ("character_set_results", "latin1", "'latin1'"),
    ],
)
def test_values(name: str, value: str, literal: str | None) -> None:
    assert literal_of(name, value) == literal


@pytest.mark.parametrize(
    ("name", "value", "pinning"),
    [
        ("sql_log_bin", "ON", False),
        ("sql_log_bin", "'on'", False),
        ("sql_log_bin", "0", True),
        ("sql_log_bin", None, True),
        ("profiling", "1", True),
        ("optimizer_trace", "'enabled=off'", False),
        ("optimizer_trace", "'one_line=on,enabled=on'", True),
        ("rand_seed1", "0", True),
    ],
)
def test_what_pins(name: str, value: str | None, pinning: bool) -> None:
    assert pins(name, value) is pinning


@pytest.mark.parametrize(
    ("literal", "sent"),
    [
        ("'ANSI'", "_latin1'ANSI'"),
        ('"ANSI"', "_latin1'ANSI'"),
        ("''", "_latin1''"),
        *((as_it_is, as_it_is) for as_it_is in ("5", "ON", "DEFAULT", "NULL", "'it''s'", "'\\n'")),
        *((as_it_is, as_it_is) for as_it_is in ("_utf8mb4'x'", "'é'", "'", "", "x'41'", '"a""b"')),
    ],
)
def test_what_a_literal_says_does_not_depend_on_the_collation(literal: str, sent: str) -> None:
    assert exact(literal) == sent
