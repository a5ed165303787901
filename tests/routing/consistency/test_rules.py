"""Levels, scopes and settings: how they are written, and which counts if several are given."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.consistency.adjustment import (
    MAX_APPLICATION,
    MAX_STALENESS,
    MAX_WAIT_BUDGET,
    NO_ADJUSTMENT,
    SETTINGS,
    Adjustment,
    SettingError,
    read_application,
    read_duration,
    read_level,
    read_setting,
)
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import AUTO, Rules

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)

ADJUSTMENTS = st.builds(
    Adjustment,
    level=st.none() | st.sampled_from(Level),
    scope=st.none() | st.sampled_from(Scope),
    wait_budget=st.none() | st.sampled_from([0.1, 1.0, AUTO]),
    on_timeout=st.none() | st.sampled_from(TimeoutPolicy),
    staleness=st.none() | st.sampled_from([0.5, 2.0]),
    application=st.none() | st.sampled_from(["", "shop"]),
)


# What must be tracked.


@pytest.mark.parametrize(("level", "scope"), list(product(Level, Scope)))
def test_each_level_tracks_what_it_needs(level: Level, scope: Scope) -> None:
    tracking = Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY).tracking
    if level in (Level.MONOTONIC_READS, Level.READ_ALL_WRITES):
        assert tracking == "ALL_GTIDS"
    elif level in (Level.READ_OWN_WRITES, Level.STRONG) or scope is not Scope.CONNECTION:
        assert tracking == "OWN_GTID"
    else:
        assert tracking == "OFF"


# Levels.


@pytest.mark.parametrize("level", [level for level in Level if level != "BOUNDED_STALENESS"])
def test_levels_are_written_by_name(level: Level) -> None:
    for text in (str(level), level.lower(), level.replace("_", "-"), f"  {level}\t"):
        assert read_level(text) == (level, None)
    with pytest.raises(SettingError, match="takes no bound"):
        read_level(f"{level}(5)")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("BOUNDED_STALENESS(500ms)", 0.5),
        ("bounded-staleness( 1.5s )", 1.5),
        ("BOUNDED_STALENESS (2m)", 120.0),
        ("BOUNDED_STALENESS(250)", 0.25),
        ("BOUNDED_STALENESS(750us)", 0.00075),
        ("BOUNDED_STALENESS(.5s)", 0.5),
        ("BOUNDED_STALENESS(1 s)", 1.0),
    ],
)
def test_a_bound_is_written_behind_its_level(text: str, seconds: float) -> None:
    level, staleness = read_level(text)
    assert level is Level.BOUNDED_STALENESS
    assert staleness == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "READ", "STRONGER", "STRONG READ", "READ_OWN_WRITES)", "(5ms)", "5ms"),
        *("BOUNDED_STALENESS", "BOUNDED_STALENESS()", "BOUNDED_STALENESS(0)"),
        *("BOUNDED_STALENESS(-1ms)", "BOUNDED_STALENESS(5ms", "BOUNDED_STALENESS(5ms)x"),
        *("BOUNDED_STALENESS((5ms))", "BOUNDED_STALENESS(25h)", "BOUNDED_STALENESS(1441m)"),
        *("\uff33TRONG", "STRONG\x00", "BOUNDED_STALENESS(\u0665ms)"),
    ],
)
def test_what_is_no_level(text: str) -> None:
    with pytest.raises(SettingError):
        read_level(text)


@given(st.integers(1, 86_400_000_000))
def test_a_level_can_be_read_as_it_is_written(microseconds: int) -> None:
    rules = Rules(Level.BOUNDED_STALENESS, Scope.USER, 0.1, TimeoutPolicy.ERROR, microseconds / 1e6)
    again = read_setting("consistency", rules.consistency).applied_to(RULES)
    assert again.level is Level.BOUNDED_STALENESS
    assert again.staleness == pytest.approx(rules.staleness, rel=1e-9)


@given(st.text(max_size=30))
def test_any_text_is_a_level_or_an_error(text: str) -> None:
    try:
        level, staleness = read_level(text)
    except SettingError:
        return
    assert (staleness is not None) == (level is Level.BOUNDED_STALENESS)


# Durations.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250", 0.25), ("250ms", 0.25), ("1.5s", 1.5), ("1m", 60.0), ("40us", 4e-5), (" 1 s ", 1.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text, MAX_WAIT_BUDGET) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0ms",
        "-1",
        "+1",
        "1e3",
        "1h",
        "ms",
        "1 m s",
        "61s",
        "nan",
        "inf",
        "1,5s",
        "\u0663s",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(SettingError, match="above 0 and at most 60s"):
        read_duration(text, MAX_WAIT_BUDGET)


def test_the_longest_durations() -> None:
    assert read_duration("60s", MAX_WAIT_BUDGET) == MAX_WAIT_BUDGET
    assert read_level("BOUNDED_STALENESS(1440m)")[1] == MAX_STALENESS


# Settings.


@pytest.mark.parametrize(
    ("name", "text", "adjustment"),
    [
        ("consistency", "strong", Adjustment(level=Level.STRONG)),
        (
            "consistency",
            "BOUNDED_STALENESS(2s)",
            Adjustment(level=Level.BOUNDED_STALENESS, staleness=2.0),
        ),
        ("scope", "USER", Adjustment(scope=Scope.USER)),
        ("scope", " proxy ", Adjustment(scope=Scope.PROXY)),
        ("wait_budget", "100ms", Adjustment(wait_budget=0.1)),
        ("wait_budget", " Auto", Adjustment(wait_budget=AUTO)),
        ("on_timeout", "Error", Adjustment(on_timeout=TimeoutPolicy.ERROR)),
        ("application", "Shop 1", Adjustment(application="Shop 1")),
        ("application", "", Adjustment(application="")),
    ],
)
def test_settings(name: str, text: str, adjustment: Adjustment) -> None:
    assert read_setting(name, text) == adjustment


@pytest.mark.parametrize("name", ["", "level", "Scope", "staleness", "token", "wait-budget"])
def test_a_name_that_is_no_setting(name: str) -> None:
    with pytest.raises(SettingError, match="known are consistency, scope"):
        read_setting(name, "1")


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "application"])
def test_an_error_says_what_is_wanted(name: str) -> None:
    with pytest.raises(SettingError, match="want "):
        read_setting(name, "nonsense")


def test_an_application_is_short_and_of_one_line() -> None:
    assert read_application("é" * (MAX_APPLICATION // 2)) == "é" * (MAX_APPLICATION // 2)
    for text in ("é" * (MAX_APPLICATION // 2 + 1), "a\nb", "\x00", "\x1f"):
        with pytest.raises(SettingError, match="application key"):
            read_application(text)
    assert read_application("\udcff") == "\udcff"  # a byte that is no UTF-8


# Several settings.


def test_what_is_not_said_stays() -> None:
    assert NO_ADJUSTMENT.applied_to(RULES) == RULES
    changed = Adjustment(wait_budget=1.0).applied_to(RULES)
    assert changed == Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 1.0, TimeoutPolicy.PRIMARY)


@given(ADJUSTMENTS, ADJUSTMENTS, ADJUSTMENTS)
def test_the_last_word_counts(first: Adjustment, second: Adjustment, third: Adjustment) -> None:
    both = first.and_then(second)
    assert both.applied_to(RULES) == second.applied_to(first.applied_to(RULES))
    assert both.and_then(third) == first.and_then(second.and_then(third))
    assert first.and_then(NO_ADJUSTMENT) == NO_ADJUSTMENT.and_then(first) == first
    assert first.and_then(first) == first


@given(ADJUSTMENTS)
def test_every_field_is_taken_over(adjustment: Adjustment) -> None:
    rules = adjustment.applied_to(RULES)
    for name in Adjustment.__slots__:
        adjusted = getattr(adjustment, name)
        kept = "budget" if name == "wait_budget" else name  # `wait_budget` is that in seconds
        assert getattr(rules, kept) == (getattr(RULES, kept) if adjusted is None else adjusted)
