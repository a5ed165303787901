"""The collector of GTIDs knows who listens, and nothing more (WL#6128, D and E)."""

import pytest

from mysql_mocker.state.gtids_context import GtidsContext
from protocol.gtid import GtidSet

U = "11111111-1111-1111-1111-111111111111"
OWN, ALL = GtidSet.parse(f"{U}:5"), GtidSet.parse(f"{U}:1-5")


def collected(mode: str, *, listening: bool) -> tuple[GtidSet, int]:
    """What a transaction's end and a statement's end leave, and how often the listener heard."""
    heard = []
    context = GtidsContext(mode)
    if listening:
        context.listen(lambda: heard.append(context.gtids))
    context.transaction_committed(OWN)
    context.statement_committed(ALL)
    return context.gtids, len(heard)


@pytest.mark.parametrize(
    ("mode", "gtids", "times"),
    [("OFF", GtidSet(), 0), ("OWN_GTID", OWN, 1), ("ALL_GTIDS", ALL, 1)],
)
def test_the_listener_hears_of_what_its_mode_collects(
    mode: str, gtids: GtidSet, times: int
) -> None:
    assert collected(mode, listening=True) == (gtids, times)


@pytest.mark.parametrize("mode", ["OFF", "OWN_GTID", "ALL_GTIDS"])
def test_nothing_is_collected_where_nobody_listens(mode: str) -> None:
    assert collected(mode, listening=False) == (GtidSet(), 0)


def test_what_was_collected_adds_up_until_the_answer_is_sent() -> None:
    context = GtidsContext("OWN_GTID")
    context.listen(lambda: None)
    context.transaction_committed(OWN)
    context.transaction_committed(GtidSet.parse(f"{U}:6"))
    assert context.gtids == GtidSet.parse(f"{U}:5-6")
    context.answered()
    assert context.gtids == GtidSet()
    context.forget()
    context.transaction_committed(OWN)
    assert context.gtids == GtidSet()
