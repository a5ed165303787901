"""The judge of one group, event by event and without Spark."""

import pytest

pytest.importorskip("pyspark")

from spark_jobs.primaries.primary_history import Term
from spark_jobs.reads.event import Event
from spark_jobs.reads.judge import Judge
from tests.spark_jobs.routing_log import UUID

A, B = UUID["primary"], UUID["r1"]


class FailedOver(Judge):
    """At 100 B was asked for its set; A had answered last at 90. Run a1 turned to B at 100."""

    terms = {"c": [Term(90, 100, f"{A}:1-5", B)]}  # noqa: RUF012 - a ClassVar in Judge


class TurnedLate(FailedOver):
    successions = {("gate", 0, "a1", B): 300}  # noqa: RUF012 - a ClassVar in Judge


def event(at: int, **fields: object) -> tuple[object, ...]:
    plain: dict[str, object] = dict.fromkeys(Event._fields)
    plain |= {"kind": "cluster", "cluster": "c", "proxy": "gate", "worker": 0, "run": "a1"}
    plain |= {"at": at, "seq": at, "arrived_us": at, "dispatched_us": at, "ended_us": at}
    plain |= {"moment_us": fields.get("arrived_us", at)}
    plain |= {"session": 1, "ordinal": 0, "turn": 0, "judges": False, "learns": True}
    plain |= {"named": "", "own_gtids": "", "observed": "", "outcome": "ok", "is_unnamed": False}
    plain |= {"level": "STRONG", "scope": "connection", "is_read": False, "proof": ""}
    return tuple((plain | fields)[name] for name in Event._fields)


def told(at: int, uuid: str, gtids: str, sent: int) -> tuple[object, ...]:
    """A primary's whole set."""
    return event(at, role="primary", server_uuid=uuid, observed=gtids, dispatched_us=sent)


def verdict(judge: Judge, at: int, shown: str) -> tuple[object, object]:
    fields = {"server": "r2", "server_uuid": UUID["r2"], "role": "replica", "proof": "waited"}
    read = event(at, judges=True, learns=False, is_read=True, proof_set=shown, **fields)
    (row,) = judge.eval(read)  # type: ignore[arg-type]  # a Row is a tuple
    return row[-8], row[-4]


def learn(judge: Judge, *events: tuple[object, ...]) -> None:
    for it in events:
        list(judge.eval(it))  # type: ignore[arg-type]  # a Row is a tuple


def test_the_late_answer_of_an_old_primary_is_not_owed() -> None:
    judge = FailedOver()
    learn(judge, told(101, B, f"{A}:1-5", 100), told(130, A, f"{A}:1-9", 80))
    assert verdict(judge, 200, f"{A}:1-5") == ("ok", None)


def test_what_a_snapshot_lacks_of_what_its_connection_saw_since_is_not_owed() -> None:
    judge = Judge()
    fields = {"level": "MONOTONIC_READS", "is_read": True, "kind": "connection", "session": 1}
    shows = {"server": "r2", "server_uuid": UUID["r2"], "role": "replica", "proof": "waited"}
    read: dict[str, object] = {**fields, **shows, "proof_set": f"{A}:1-5", "judges": True}

    def seen(at: int, gtids: str) -> tuple[object, ...]:
        its = {"role": "primary", "server": "p", "server_uuid": A, "proof": "primary"}
        return event(at, observed=gtids, judges=True, **its, **fields)

    def verdict_of(at: int, moment_us: int) -> tuple[object, object]:
        ((*_, said, _, _, _, missing, _, _, _),) = judge.eval(
            event(at, moment_us=moment_us, **read)  # type: ignore[arg-type]  # as a Row
        )
        return said, missing

    learn(judge, seen(10, f"{A}:1-5"))
    assert verdict_of(20, 20) == ("ok", None)
    learn(judge, seen(30, f"{A}:1-9"))
    assert verdict_of(40, 20) == ("ok", None)
    assert verdict_of(50, 50) == ("violation", f"{A}:6-9")
    assert verdict_of(60, 20) == ("violation", f"{A}:6-9")  # another read's moment, by now


@pytest.mark.parametrize(("kind", "owed"), [(FailedOver, f"{A}:6-9"), (TurnedLate, None)])
def test_who_did_not_know_the_new_primary_asked_the_old_one(
    kind: type[Judge], owed: str | None
) -> None:
    # Who never turned to another may know that this one is the primary again.
    judge = kind()
    learn(judge, told(101, B, f"{A}:1-5", 100), told(130, A, f"{A}:1-9", 120))
    said, missing = verdict(judge, 200, f"{A}:1-5")
    assert (said, missing) == ("violation" if owed else "ok", owed)


def test_what_the_new_primary_says_is_owed_whatever_the_old_one_says_later() -> None:
    judge = FailedOver()
    learn(judge, told(120, B, f"{A}:1-5,{B}:1", 110), told(130, A, f"{A}:1-9", 80))
    assert verdict(judge, 200, f"{A}:1-5") == ("violation", f"{B}:1")


def test_an_old_primary_that_is_one_again_is_believed() -> None:
    class Back(FailedOver):
        terms = {"c": [*FailedOver.terms["c"], Term(140, 150, f"{A}:1-5,{B}:1", A)]}  # noqa: RUF012 - a ClassVar in Judge
        successions = {("gate", 0, "a1", B): 300}  # noqa: RUF012 - a ClassVar in Judge

    judge = Back()
    learn(judge, told(170, A, f"{A}:1-6,{B}:1", 160))
    assert verdict(judge, 200, f"{A}:1-5,{B}:1") == ("violation", f"{A}:6")
