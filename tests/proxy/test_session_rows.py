"""SHOW TIDEGATE SESSIONS: which rows there is room for."""

from types import SimpleNamespace
from typing import Any

import pytest

from protocol.constants import Command as Code
from proxy.shared.activity import Activity
from proxy.shared.administration import session_rows
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.request.stage import DONE, PASSING, Stage
from routing.session.session import Session
from tests.proxy.test_ledger import RULES


def session(number: int, stage: Stage, user: str = "app") -> Any:
    state = Session(RULES[0], 0)
    state.user = user
    command = Command(Code.COM_PING, RULES[0], arrived_us=1_700_000_000_000_001)
    activity = Activity(stage, command, CommandOutcome(command), "db1:3306", False)
    return SimpleNamespace(connection_id=number, state=state, peer="10.0.0.1:5", activity=activity)


def test_idle_sessions_are_left_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_rows, "MOST", 3)
    sessions = [session(number, DONE) for number in range(5)]
    sessions += [session(number, PASSING) for number in range(5, 7)]
    sessions += [session(7, PASSING, "other")]
    rows, left_out = session_rows.rows(sessions, 2, "app")
    assert [row[0] for row in rows] == [5, 6, 0]
    assert left_out == 4
    rows, left_out = session_rows.rows(sessions * 2, 2, None)
    assert [row[4] for row in rows] == ["sending"] * 3
    assert left_out == 13
    assert rows[0][-1] == "2023-11-14T22:13:20.000001Z"
