"""What a primary's whole sets tell, event by event and without Spark."""

import pytest

pytest.importorskip("pyspark")

from spark_jobs.primaries.primary_snapshots import OPEN, REIGN, TIDE, WROTE, Event, PrimarySnapshots
from tests.spark_jobs.routing_log import UUID

A, B = UUID["primary"], UUID["r1"]
FOREVER = 10_000


class Told:
    """One cluster's events in their order, and PAST of them."""

    def __init__(self) -> None:
        self.tides = PrimarySnapshots()
        self.told: list[dict[str, object]] = []
        self.seq = 0
        self.ended = False

    def add(self, what: int, at_us: int, uuid: str, **fields: object) -> int:
        self.seq += 1
        plain: dict[str, object] = dict.fromkeys(Event._fields)
        plain |= {"cluster": "c", "proxy": "gate", "worker": 0, "run": "a1", "session": 1}
        plain |= {"seq": self.seq, "at_us": at_us, "what": what, "server_uuid": uuid}
        plain |= {"incarnation": 1, "ended_us": at_us, "since_us": 0, "is_whole": False}
        row = tuple((plain | fields)[name] for name in Event._fields)
        self.told += [past._asdict() for past in self.tides.eval(row)]  # type: ignore[arg-type]  # a Row is a tuple
        return self.seq

    def reign(self, at_us: int, uuid: str, until_us: int = FOREVER, **fields: object) -> None:
        self.add(REIGN, at_us, uuid, ended_us=until_us, **fields)

    def tide(self, at_us: int, uuid: str, gtids: str, **fields: object) -> int:
        return self.add(TIDE, at_us, uuid, **{"ended_us": at_us + 5, "gtids": gtids, **fields})

    def wrote(self, at_us: int, uuid: str, gtids: str, **fields: object) -> int:
        return self.add(WROTE, at_us, uuid, gtids=gtids, **fields)

    def end(self, what: str) -> list[dict[str, object]]:
        """Of one kind, all that was told."""
        if not self.ended:
            self.told += [past._asdict() for past in self.tides.terminate()]
        self.ended = True
        return [past for past in self.told if past["what"] == what]


def test_a_gtid_that_the_same_primary_shows_again_was_never_lost() -> None:
    log = Told()
    log.reign(1, A)
    log.reign(1, A, run="b1", proxy="gate2")
    log.wrote(100, A, f"{A}:6-7")
    # The clock of who asked this is ahead.
    log.tide(110, A, f"{A}:1-6", run="b1", proxy="gate2")
    log.tide(120, A, f"{A}:1-7", run="b1", proxy="gate2")
    log.tide(130, A, f"{A}:1-7")
    assert log.end("lost") == []
    assert log.end("term") == []


def test_it_was_not_lost_either_if_another_proxy_saw_it_again() -> None:
    log = Told()
    log.reign(1, A)
    log.reign(1, A, run="b1", proxy="gate2")
    log.wrote(100, A, f"{A}:6-7")
    log.tide(110, A, f"{A}:1-6", run="b1", proxy="gate2")
    log.tide(120, A, f"{A}:1-7")
    assert log.end("lost") == []


def test_a_number_that_is_given_out_again_does_not_bring_back_what_was_lost() -> None:
    for direct in ("the proxy", "another"):
        log = Told()
        log.reign(1, A, 100)
        log.wrote(100, A, f"{A}:6")
        log.reign(200, A, incarnation=2)
        log.tide(210, A, f"{A}:1-5", incarnation=2)
        if direct == "the proxy":
            log.wrote(220, A, f"{A}:6", incarnation=2)
        log.tide(230, A, f"{A}:1-6", incarnation=2)
        (lost,) = log.end("lost")
        assert lost["gtids"] == f"{A}:6"


def test_what_the_new_primary_receives_late_is_no_part_of_what_was_lost() -> None:
    log = Told()
    log.reign(1, A, 100)
    first, last = log.wrote(90, A, f"{A}:6"), log.wrote(100, A, f"{A}:7")
    log.reign(200, B)
    log.tide(210, B, f"{A}:1-5")
    log.tide(220, B, f"{A}:1-6")
    assert first < last
    (lost,) = log.end("lost")
    assert (lost["gtids"], [it.seq for it in lost["writes"]]) == (f"{A}:7", [last])  # type: ignore[attr-defined]  # sources
    (term,) = log.end("term")
    assert (term["gtids"], term["server_uuid"]) == (f"{A}:1-6", B)


def test_a_lost_write_that_ends_after_the_failover_is_bounded_by_the_next_set() -> None:
    log = Told()
    log.reign(1, A, 100)
    log.reign(200, B)
    log.tide(210, B, f"{A}:1-5")
    log.add(OPEN, 250, A)
    tide = log.tide(300, B, f"{A}:1-5,{B}:1")
    log.tide(400, B, f"{A}:1-5,{B}:1-2")
    (bound,) = log.end("bound")
    (mark,) = log.end("mark")
    assert (bound["mark"], mark["mark"], mark["at_us"]) == (1, 1, 300)
    assert tide


def test_so_it_is_if_another_run_has_taken_over() -> None:
    log = Told()
    log.reign(1, A, 240)
    log.add(OPEN, 250, A)
    log.reign(260, B, run="a2")
    log.tide(300, B, f"{A}:1-5,{B}:1", run="a2")
    assert len(log.end("bound")) == 1


@pytest.mark.parametrize("stale", ["superseded", "still the primary", "a replica"])
def test_what_another_server_says_bounds_no_write_of_the_primary(stale: str) -> None:
    log = Told()
    log.reign(1, A)
    log.reign(1, A, run="b1")
    if stale == "superseded":
        log.reign(100, B, run="b1")
        log.add(OPEN, 150, B)
        log.tide(200, A, f"{A}:1-9")
    elif stale == "still the primary":
        log.add(OPEN, 150, A)
        log.reign(160, B, run="c1")
        log.tide(200, B, f"{A}:1-9", run="c1")
    else:
        log.add(OPEN, 150, B)
        log.tide(200, A, f"{A}:1-9")
    assert log.end("bound") == []
