"""Which trackers a client sees, and which GTIDs are tracked for it."""

import pytest

from routing.session.trackers import Trackers
from routing.session.variables import SHOWN_BY_DEFAULT


def test_a_client_sees_what_a_server_shows_by_default() -> None:
    assert Trackers("OWN_GTID").shown == {0, 1, 4, 5}


def test_what_the_client_set_itself() -> None:
    trackers = Trackers("OWN_GTID")
    assert trackers.settings(gtids=True) == (
        "session_track_schema=ON,session_track_state_change=OFF,"
        f"session_track_system_variables=_binary'{SHOWN_BY_DEFAULT}',session_track_gtids=OFF"
    )
    trackers.set("session_track_schema", "OFF")
    trackers.set("session_track_state_change", "1")
    trackers.set("session_track_gtids", "'ALL_GTIDS'")
    trackers.set("session_track_system_variables", "'*'")
    assert trackers.settings(gtids=True) == (
        "session_track_schema=OFF,session_track_state_change=ON,"
        "session_track_system_variables=_binary'*',session_track_gtids=ALL_GTIDS"
    )
    assert "gtids" not in trackers.settings(gtids=False)


def test_a_client_sees_the_system_variables_that_it_names() -> None:
    trackers = Trackers("OWN_GTID")
    assert trackers.shown_variables == SHOWN_BY_DEFAULT
    for value, shown in (
        ("'Time_Zone,sql_mode'", "Time_Zone,sql_mode"),
        ("''", ""),
        ("NULL", "x"),  # as before
        ("'NULL'", "NULL"),
        ("'*'", "*"),
        ("'a''b\\\\c'", "abc"),
        ("DEFAULT", SHOWN_BY_DEFAULT),
        (None, SHOWN_BY_DEFAULT),
    ):
        trackers.set("session_track_system_variables", "'x'")
        trackers.set("session_track_system_variables", value)
        assert trackers.shown_variables == shown
        assert trackers.shown == {0, 1, 4, 5}
        variables = "NULL" if value == "NULL" else f"_binary'{shown}'"
        settings = trackers.settings(gtids=False)
        assert settings.endswith(f"session_track_system_variables={variables}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("session_track_schema", 1),
        ("session_track_state_change", 2),
        ("session_track_gtids", 3),
    ],
)
def test_a_client_sees_the_trackers_that_it_turns_on(name: str, kind: int) -> None:
    for value in ("ON", "1", "'ALL_GTIDS'", "own_gtid", "'*'", None):
        trackers = Trackers("OWN_GTID")
        trackers.set(name, value)
        assert kind in trackers.shown
    for value in ("OFF", "0", "off", "FALSE", "''", "'OFF'"):
        trackers = Trackers("OWN_GTID")
        trackers.set(name, "ON")
        trackers.set(name, value)
        assert kind not in trackers.shown
        assert trackers.shown == {0, 1, 4, 5} - {kind}
    trackers = Trackers("OWN_GTID")
    trackers.set(name, "ON")
    trackers.set(name, "default")
    assert trackers.shown == {0, 1, 4, 5}


@pytest.mark.parametrize(
    ("needed", "value", "tracking"),
    [
        ("OWN_GTID", "OFF", "OWN_GTID"),
        ("OWN_GTID", "0", "OWN_GTID"),
        ("OWN_GTID", None, "OWN_GTID"),
        ("OWN_GTID", "DEFAULT", "OWN_GTID"),
        ("OWN_GTID", "'own_gtid'", "OWN_GTID"),
        ("OWN_GTID", "ALL_GTIDS", "ALL_GTIDS"),
        ("OFF", "OFF", "OFF"),
        ("OFF", "OWN_GTID", "OWN_GTID"),
        ("OFF", "ALL_GTIDS", "ALL_GTIDS"),
    ],
)
def test_what_the_level_needs_is_tracked_whatever_the_client_sets(
    needed: str, value: str | None, tracking: str
) -> None:
    trackers = Trackers(needed)
    assert trackers.gtids == needed
    trackers.set("session_track_gtids", value)
    assert trackers.gtids == tracking


def test_a_client_that_tracks_gtids_itself_gets_these_at_any_level() -> None:
    trackers = Trackers("OFF")
    trackers.set("session_track_gtids", "OWN_GTID")
    trackers.need("ALL_GTIDS")
    assert trackers.gtids == "OWN_GTID"
    trackers.set("session_track_gtids", "OFF")
    assert trackers.gtids == "ALL_GTIDS"
    trackers.need("OFF")
    assert trackers.gtids == "OFF"


def test_other_trackers_do_not_change_what_is_tracked() -> None:
    trackers = Trackers("OWN_GTID")
    trackers.set("session_track_schema", "OFF")
    trackers.set("session_track_transaction_info", "STATE")
    assert trackers.gtids == "OWN_GTID"
    assert trackers.shown == {0, 4, 5}


def test_what_a_client_is_told_of_its_transactions() -> None:
    trackers = Trackers("OWN_GTID")
    for value, tracks in (
        ("STATE", True),
        ("'OFF'", False),
        ("CHARACTERISTICS", True),
        ("0", False),
    ):
        trackers.set("session_track_transaction_info", value)
        assert trackers.of_transactions is tracks
