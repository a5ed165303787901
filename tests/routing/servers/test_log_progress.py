"""How far a replica was behind what the log had shown."""

import pytest

from protocol.gtid import GtidSet
from routing.servers.log_progress import LogProgress

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
APART = 0.02


def upto(number: int) -> GtidSet:
    return GtidSet.of(U, 1, number + 1)


def read(count: int) -> LogProgress:
    """Each second one transaction more was read, from 1 at second 1 on."""
    progress = LogProgress(APART)
    for number in range(1, count + 1):
        progress.add(float(number), upto(number))
    return progress


@pytest.mark.parametrize(("has", "behind"), [(9, 0.0), (8, 0.5), (6, 2.5), (1, 7.5), (0, 8.5)])
def test_the_oldest_that_it_lacked_tells(has: int, behind: float) -> None:
    assert read(9).behind(upto(has), 9.5) == pytest.approx(behind)


def test_what_was_shown_after_the_look_or_just_before_tells_nothing() -> None:
    progress = read(3)
    assert progress.behind(upto(2), 2.5) == 0
    assert progress.behind(upto(2), 3 + APART / 2) == 0
    assert progress.behind(upto(2), 3.5) == 0.5


def test_nothing_was_read() -> None:
    progress = read(3)
    progress.clear()
    assert progress.behind(upto(0), 9.0) == 0


def test_moments_are_apart() -> None:
    progress = LogProgress(APART)
    for step in range(100):
        progress.add(step * APART / 10, upto(step + 1))
    assert len(progress) <= 11


def test_it_is_bounded_by_number_and_by_bytes() -> None:
    assert len(read(1_000)) == 256
    progress = LogProgress(APART)
    large = GtidSet.parse(f"{U}:{':'.join(str(2 * number) for number in range(1, 100_001))}")
    for number in range(5):
        progress.add(float(number), large)
    assert len(progress) == 1
    assert progress.behind(upto(1), 9.0) == 5.0
