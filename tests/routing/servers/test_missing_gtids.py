"""What WAITs run out for, again and again."""

from protocol.gtid import EMPTY
from routing.servers.missing_gtids import MissingGtids
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
LOST = gtids(f"{V}:1-5")


def run_out(missing: MissingGtids, times: int) -> float:
    """So many WAITs, one after the other, each also for something that comes later; the end."""
    for number in range(times):
        missing.on_timeout(LOST | gtids(f"{U}:{number + 1}"), 0.25, 100.0 + number)
    return 100.0 + times - 1


def pause(missing: MissingGtids, now: float) -> int:
    """For how many seconds no WAIT for what is lost is worth it."""
    return next(n for n in range(99) if not missing.hold_back(LOST, EMPTY, now + n))


def test_each_wait_in_vain_doubles_the_pause() -> None:
    pauses = []
    for times in range(9):
        missing = MissingGtids()
        pauses.append(pause(missing, run_out(missing, times)))
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 30, 30]


def test_waits_that_meet_one_stall_count_once() -> None:
    missing = MissingGtids()
    for number in range(9):
        missing.on_timeout(LOST, 0.25, 100.0 + number / 100)
    assert not pause(missing, 100.09)


def test_only_what_is_still_missing_is_held_back() -> None:
    missing = MissingGtids()
    now = run_out(missing, 5)
    assert missing.hold_back(gtids(f"{V}:1-9"), gtids(f"{V}:2-5"), now)
    assert not missing.hold_back(gtids(f"{V}:1-9"), LOST, now)
    assert not missing.hold_back(gtids(f"{U}:1-9"), EMPTY, now)


def test_a_wait_in_vain_for_something_else_begins_anew() -> None:
    missing = MissingGtids()
    now = run_out(missing, 5) + 1
    missing.on_timeout(gtids(f"{U}:99"), 0.25, now)
    assert not pause(missing, now)
