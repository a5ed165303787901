"""Reads that relied on false proofs, event by event and without Spark."""

import pytest

pytest.importorskip("pyspark")

from spark_jobs.procedure.false_proofs import HAD, OFTEN, RELIED, Event, FalseProofs
from tests.spark_jobs.routing_log import UUID

P, R = UUID["primary"], UUID["r1"]


class Server:
    """Its events, numbered as they happen."""

    def __init__(self) -> None:
        self.false_proofs = FalseProofs()
        self.now = 0
        self.found: list[tuple[int, str]] = []

    def read(self, required: str, incarnation: int = 1) -> int:
        return self._add(RELIED, required, incarnation)

    def had(self, executed: str, incarnation: int = 1, took: int = 0) -> int:
        return self._add(HAD, executed, incarnation, took)

    def _add(self, what: int, gtids: str, incarnation: int, took: int = 0) -> int:
        self.now += 1
        at = (self.now, self.now, self.now + took)
        event = Event("gate", 0, "a1", R, *at, what, incarnation, gtids)
        self.found += [(it.seq, it.lacking) for it in self.false_proofs.eval(event)]  # type: ignore[arg-type]  # a Row is a tuple
        return self.now

    def end(self) -> list[tuple[int, str]]:
        return [*self.found, *((it.seq, it.lacking) for it in self.false_proofs.terminate())]


def test_all_reads_are_told_that_relied_on_what_the_next_set_lacks() -> None:
    server = Server()
    server.had(f"{P}:1-5")
    server.read(f"{P}:5")
    first, second = server.read(f"{P}:6"), server.read(f"{P}:5-7")
    server.had(f"{P}:1-5")
    server.had(f"{P}:1-7")
    assert server.end() == [(first, f"{P}:6"), (second, f"{P}:6-7")]


def test_what_a_server_has_by_then_tells_nothing() -> None:
    server = Server()
    server.read(f"{P}:6")
    server.had(f"{P}:1-6")
    server.had(f"{P}:1-5")  # it lost it later
    assert server.end() == []


@pytest.mark.parametrize(("times", "found"), [(OFTEN - 1, 0), (OFTEN, OFTEN)])
def test_a_server_that_loses_only_what_proofs_told_time_and_again_never_had_it(
    times: int, found: int
) -> None:
    server = Server()
    server.had(f"{P}:1-5")
    for number in range(1, times + 1):
        server.read(f"{P}:{5 + number}", number)
        server.had(f"{P}:1-{4 + number}", number + 1)
    assert len(server.end()) == found


def test_a_server_that_is_made_anew_has_lost_what_its_sets_had_shown() -> None:
    server = Server()
    for number in range(1, 3 * OFTEN):
        server.had(f"{P}:1-9", number)
        server.read(f"{P}:10", number)
        server.had(f"{P}:1-4", number + 1)
    assert server.end() == []


def test_a_set_that_came_late_does_not_make_an_earlier_one_a_loss() -> None:
    server = Server()
    reads = []
    for number in range(1, OFTEN + 1):
        had = 5 * number
        server.had(f"{P}:1-{had + 1}", number, took=3)  # what it had when it answered
        reads.append(server.read(f"{P}:100", number))
        server.had(f"{P}:1-{had}", number + 1)
        server.now += 3
    assert [seq for seq, _ in server.end()] == reads


def test_no_set_tells_nothing() -> None:
    server = Server()
    read = server.read(f"{P}:6")
    server.read(f"{P}:5-3")
    server.had(P)
    server.had(f"{P}:1")
    assert server.end() == [(read, f"{P}:6")]
