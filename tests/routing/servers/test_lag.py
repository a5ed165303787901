"""Lag computed from rows, with no other clocks than those of the rows."""

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.servers.clock import Clock
from routing.servers.lag import Behind, Lag, Look, Span
from routing.servers.replication_status import (
    MalformedStatusError,
    Receiver,
    Stamped,
    ThreadError,
    Worker,
    microseconds,
    receiver,
    worker,
)

A = "aaaaaaaa-0000-0000-0000-000000000001"
B = "bbbbbbbb-0000-0000-0000-000000000002"
C = "cccccccc-0000-0000-0000-000000000003"
START = 1_795_343_000_000_000
SAME = Clock(0, 0, 0)
CLOCKS = {A: SAME, B: SAME}


def at(seconds: float) -> int:
    return START + round(seconds * 1e6)


def stamped(
    number: int,
    original: float | None,
    immediate: float | None = None,
    ended: float | None = None,
    source: str = A,
) -> Stamped:
    committed = None if original is None else at(original)
    return Stamped(
        f"{source}:{number}",
        committed,
        committed if immediate is None else at(immediate),
        None if ended is None else at(ended) - 500,
        None if ended is None else at(ended),
    )


def look(
    now: float,
    received: str,
    executed: str,
    *workers: Worker,
    queued: Stamped | None = None,
    source: str = A,
    running: bool = True,
    channel: str = "",
) -> Look:
    receiver = Receiver(channel, source, running, GtidSet.parse(received), queued)
    return Look([receiver], workers, at(now), GtidSet.parse(executed))


def applied(transaction: Stamped, channel: str = "") -> Worker:
    return Worker(channel, transaction, None)


def take(
    lag: Lag,
    taken: Look,
    behind: Behind | None = None,
    epoch: int = 1,
    clocks: dict[str, Clock] = CLOCKS,
) -> list[tuple[int | None, int | None]]:
    """End-to-end and last-hop lag of the transactions that were applied since, µs."""
    new = lag.take(taken, epoch, SAME, clocks, behind)
    return [
        (
            transaction.end_to_end and transaction.end_to_end.us,
            transaction.last_hop and transaction.last_hop.us,
        )
        for transaction in new
    ]


class TestTransactions:
    def test_end_to_end_is_upstream_and_the_last_hop(self) -> None:
        lag = Lag()
        take(lag, look(0, "", "", source=B))
        transaction = stamped(1, original=1.0, immediate=1.25, ended=2.5)
        assert take(lag, look(3, f"{A}:1", f"{A}:1", applied(transaction), source=B)) == [
            (1_500_000, 1_250_000)
        ]
        (found,) = lag.sources
        assert (found.channel, found.source) == ("", A)
        assert found.applied is not None
        assert found.applied.apply_us == 500

    def test_each_counts_once(self) -> None:
        lag = Lag()
        take(lag, look(0, "", ""))
        seen = look(3, f"{A}:1", f"{A}:1", applied(stamped(1, 1.0, ended=1.5)))
        assert len(take(lag, seen)) == 1
        assert take(lag, seen) == []

    def test_what_was_there_before_the_first_look_is_no_news(self) -> None:
        lag = Lag()
        seen = look(3000, f"{A}:1", f"{A}:1", applied(stamped(1, 1.0, ended=1.5)))
        assert take(lag, seen) == []
        (found,) = lag.sources
        assert found.applied is not None  # but shown

    def test_an_original_commit_that_nobody_knows_is_no_lag_of_half_a_century(self) -> None:
        lag = Lag()
        take(lag, look(0, "", ""))
        transaction = stamped(1, original=None, immediate=1.0, ended=1.5)._replace(
            immediate_us=at(1)
        )
        assert take(lag, look(2, f"{A}:1", f"{A}:1", applied(transaction))) == [(None, 500_000)]

    def test_sources_of_one_channel_and_channels_of_one_source_are_apart(self) -> None:
        lag = Lag()
        rows = [
            Receiver("east", B, True, GtidSet.parse(f"{A}:1,{B}:1"), None),
            Receiver("west", C, True, GtidSet.parse(f"{A}:2"), None),
        ]
        empty = Look(rows, [], at(0), EMPTY)
        lag.take(empty, 1, SAME, {})
        workers = [
            applied(stamped(1, 1.0, ended=2.0), "east"),
            applied(stamped(1, 1.0, ended=3.0, source=B), "east"),
            applied(stamped(2, 1.0, ended=4.0), "west"),
        ]
        lag.take(Look(rows, workers, at(5), GtidSet.parse(f"{A}:1-2,{B}:1")), 1, SAME, {})
        end_to_end = {
            (source.channel, source.source): source.applied.end_to_end.us
            for source in lag.sources
            if source.applied is not None and source.applied.end_to_end is not None
        }
        assert end_to_end == {
            ("east", A): 1_000_000,
            ("east", B): 2_000_000,
            ("west", A): 3_000_000,
        }

    def test_the_newest_is_the_one_that_the_source_committed_last(self) -> None:
        # Its worker may have finished before the worker of the earlier transaction.
        lag = Lag()
        take(lag, look(0, "", ""))
        first, second = stamped(1, 1.0, ended=2.001), stamped(2, 1.5, ended=2.0)
        for workers in ([first, second], [second, first]):
            executed = f"{A}:1-2"
            take(
                lag, look(3, executed, executed, *(applied(transaction) for transaction in workers))
            )
            (found,) = lag.sources
            assert found.applied is not None
            assert found.applied.stamped == second

    def test_a_tag_is_not_another_source(self) -> None:
        lag = Lag()
        take(lag, look(0, "", ""))
        transaction = Stamped(f"{A}:tag:1", at(1), at(1), at(1), at(2))
        take(lag, look(2, f"{A}:tag:1", f"{A}:tag:1", applied(transaction)))
        assert [found.source for found in lag.sources] == [A]


class TestWaits:
    def waits(self, lag: Lag) -> list[Span | None]:
        return [source.waits for source in lag.sources]

    def test_an_idle_source_is_no_lag(self) -> None:
        lag = Lag()
        last = stamped(1, 1.0, ended=1.5)
        for now in (2, 2_000, 2_000_000):
            take(lag, look(now, f"{A}:1", f"{A}:1", applied(last), queued=last))
            assert self.waits(lag) == [Span(0)]

    def test_what_waits_for_a_delayed_applier_grows(self) -> None:
        # A delayed transaction is in no worker's row, and the next one replaces it as queued.
        lag = Lag()
        first, second = stamped(1, 1.0), stamped(2, 5.0)
        take(lag, look(2, f"{A}:1", "", queued=first))
        assert self.waits(lag) == [Span(1_000_000)]
        take(lag, look(6, f"{A}:1-2", "", queued=second))
        assert self.waits(lag) == [Span(5_000_000)]
        take(lag, look(7, f"{A}:1-2", f"{A}:1", queued=second))
        assert self.waits(lag) == [Span(2_000_000)]
        take(lag, look(8, f"{A}:1-2", f"{A}:1-2", queued=second))
        assert self.waits(lag) == [Span(0)]

    def test_what_a_worker_is_applying_waits(self) -> None:
        lag = Lag()
        busy = Worker("", None, stamped(1, 1.0))
        take(lag, look(4, f"{A}:1-2", "", busy, queued=stamped(2, 3.0)))
        assert self.waits(lag) == [Span(3_000_000)]

    def test_something_that_waits_since_nobody_knows_when_is_not_0(self) -> None:
        lag = Lag()
        take(lag, look(4, f"{A}:1-2", "", queued=None, source=A))
        assert self.waits(lag) == [None]

    def test_a_broken_receiver_is_lag_as_soon_as_the_primary_has_more(self) -> None:
        lag = Lag()
        last = stamped(1, 1.0, ended=1.5)
        stopped = look(9, f"{A}:1", f"{A}:1", applied(last), queued=last, running=False)
        take(lag, stopped)
        assert self.waits(lag) == [None]  # it cannot be told
        take(lag, stopped, Behind(A))
        assert self.waits(lag) == [Span(0)]
        take(lag, stopped, Behind(A, GtidSet.parse(f"{A}:2"), 3_000_000))
        assert self.waits(lag) == [Span(3_000_000)]

    def test_nothing_of_another_source_is_known_by_the_primary(self) -> None:
        lag = Lag()
        last = stamped(1, 1.0, ended=1.5, source=B)
        stopped = look(9, f"{B}:1", f"{B}:1", applied(last), queued=last, running=False)
        take(lag, stopped, Behind(A))
        assert self.waits(lag) == [None]

    def test_a_source_of_which_nothing_ever_came(self) -> None:
        lag = Lag()
        take(lag, look(9, "", "", running=False), Behind(A, GtidSet.parse(f"{A}:1"), 2_000_000))
        assert self.waits(lag) == [Span(2_000_000)]

    def test_a_new_incarnation_begins_anew(self) -> None:
        lag = Lag()
        take(lag, look(2, f"{A}:1", "", queued=stamped(1, 1.0)))
        take(lag, look(9, "", ""), epoch=2)
        assert self.waits(lag) == [Span(0)]

    def test_received_transactions_that_are_thrown_away_wait_no_more(self) -> None:
        # After RESET REPLICA they are received again, and queued again.
        lag = Lag()
        take(lag, look(2, f"{A}:1", "", queued=stamped(1, 1.0)))
        take(lag, look(9, "", ""))
        assert self.waits(lag) == [Span(0)]

    def test_an_hour_of_looks_is_remembered_by_its_oldest(self) -> None:
        lag = Lag()
        for number in range(1, 6000):
            transaction = stamped(number, float(number))
            take(lag, look(number + 1, f"{A}:1-{number}", "", queued=transaction))
        assert self.waits(lag) == [Span(5_999_000_000)]


class TestHops:
    def test_of_a_wait_behind_an_intermediate(self) -> None:
        lag = Lag()
        transaction = stamped(1, original=1.0, immediate=3.0)
        take(lag, look(4, f"{A}:1", "", queued=transaction, source=B))
        (found,) = lag.sources
        assert (found.waits, found.hop_waits) == (Span(3_000_000), Span(1_000_000))

    def test_what_did_not_come_may_be_late_on_another_hop(self) -> None:
        lag = Lag()
        last = stamped(1, 1.0, 1.0, ended=1.5)
        idle = look(9, f"{A}:1", f"{A}:1", applied(last), queued=last, source=B)
        take(lag, idle, Behind(A, GtidSet.parse(f"{A}:2"), 3_000_000))
        (found,) = lag.sources
        assert (found.waits, found.hop_waits) == (Span(3_000_000), None)


class TestClocks:
    def test_a_clock_that_is_set_aside_is_corrected(self) -> None:
        lag = Lag()
        own = Clock(60_000_000 - 300, 60_000_000 + 300, 0)
        take_at = look(0, "", "")
        lag.take(take_at, 1, own, CLOCKS)
        transaction = stamped(1, 1.0, ended=61.5)
        (found,) = lag.take(look(62, f"{A}:1", f"{A}:1", applied(transaction)), 1, own, CLOCKS)
        assert found.end_to_end == Span(500_300, 600)
        assert found.end_to_end.least_us == 499_700

    def test_of_an_unknown_clock_nothing_is_certain(self) -> None:
        lag = Lag()
        lag.take(look(0, "", ""), 1, SAME, {})
        transaction = stamped(1, 1.0, ended=61.5)
        (found,) = lag.take(look(62, f"{A}:1", f"{A}:1", applied(transaction)), 1, SAME, {})
        assert found.end_to_end == Span(60_500_000, None)
        assert found.end_to_end.least_us == 0

    def test_an_original_that_is_newer_than_the_immediate_is_told_until_it_is_not(self) -> None:
        lag = Lag()
        messages = []
        moments = [(1, 1.0, 1.0), (2, 9.0, 2.0), (3, 9.5, 3.0), (4, 4.0, 4.0)]
        for number, original, immediate in moments:
            transaction = stamped(number, original, immediate)
            taken = look(10, f"{A}:1-{number}", "", queued=transaction, source=B)
            for _ in range(2):
                take(lag, taken)
                messages.append(lag.disordered)
        assert messages == [False, False, True, True, True, True, False, False]

    def test_an_older_one_that_is_applied_later_does_not_take_it_back(self) -> None:
        lag = Lag()
        old, new = stamped(1, 1.0, 1.0, ended=3), stamped(2, 9.0, 2.0)
        take(lag, look(2, f"{A}:1-2", "", queued=new, source=B))
        take(lag, look(4, f"{A}:1-2", f"{A}:1", applied(old), queued=new, source=B))
        assert lag.disordered

    def test_one_source_in_order_does_not_hide_another(self) -> None:
        lag = Lag()
        take(lag, look(2, f"{A}:1", "", queued=stamped(1, 9.0, 2.0), source=B))
        other = stamped(1, 1.0, source=B)
        take(lag, look(2, f"{A}:1,{B}:1", "", queued=other, source=B))
        assert lag.disordered

    def test_one_that_never_commits_again_is_forgotten_when_others_are_right(self) -> None:
        lag = Lag()
        take(lag, look(2, f"{A}:1", "", queued=stamped(1, 9.0, 2.0), source=B))
        executed = f"{A}:1,{B}:1"
        take(lag, look(50, executed, executed, queued=stamped(1, 49.0, source=B), source=B))
        assert lag.disordered
        later = stamped(2, 99.0, source=B)
        take(lag, look(100, f"{A}:1,{B}:1-2", executed, queued=later, source=B))
        assert not lag.disordered

    def test_time_alone_does_not_put_it_right(self) -> None:
        lag = Lag()
        bad = stamped(1, 9.0, 2.0)
        for now in (2, 2_000):
            take(lag, look(now, f"{A}:1", f"{A}:1", queued=bad, source=B))
            assert lag.disordered


class TestDelays:
    def test_of_what_waits(self) -> None:
        lag = Lag()
        take(lag, look(4, f"{A}:1", "", queued=stamped(1, 1.0)))
        assert lag.lacks_for(A) == 3.0
        assert lag.lacks_for(B) == 0

    def test_of_what_was_applied_since_the_look_before(self) -> None:
        lag = Lag()
        take(lag, look(1, "", ""))
        last = stamped(1, 1.0, ended=1.5)
        looked = look(2, f"{A}:1", f"{A}:1", applied(last), queued=last)
        new = lag.take(looked, 1, SAME, CLOCKS)
        assert lag.applied_after(new, A) == [0.5]
        assert lag.applied_after(new, B) == []
        assert lag.lacks_for(A) == 0
        assert take(lag, look(3, f"{A}:1", f"{A}:1", applied(last), queued=last)) == []

    def test_not_by_clocks_that_nobody_knows_or_that_are_wrong(self) -> None:
        lag = Lag()
        take(lag, look(1, "", ""))
        last = stamped(1, 1.0, ended=1.5)
        queued = stamped(2, 1.5)
        new = lag.take(look(4, f"{A}:1-2", f"{A}:1", applied(last), queued=queued), 1, SAME, {})
        assert len(new) == 1
        assert not lag.lacks_for(A)
        assert lag.applied_after(new, A) == []
        second = applied(stamped(2, 1.5, ended=8.5))
        looked = look(9, f"{A}:1-3", f"{A}:1-2", second, queued=stamped(3, 8.0, 2.0))
        new = lag.take(looked, 1, SAME, CLOCKS)
        assert len(new) == 1
        assert not lag.lacks_for(A)
        assert lag.applied_after(new, A) == []

    @pytest.mark.parametrize(("source", "delay"), [(A, 0.5), (B, 86401.5)])
    def test_a_replayed_transaction_counts_from_the_primarys_commit_where_that_is_told(
        self, source: str, delay: float
    ) -> None:
        """Its original commit is that of the server whose log is replayed on the primary."""
        lag = Lag()
        take(lag, look(0, "", "", source=source))
        replayed = stamped(1, original=-86400.0, immediate=1.0, ended=1.5)
        new = lag.take(
            look(2, f"{A}:1", f"{A}:1", applied(replayed), source=source), 1, SAME, CLOCKS
        )
        assert lag.applied_after(new, A) == [delay]

    @pytest.mark.parametrize(("age", "lacks"), [(0.5, 1.0), (1.25, 1.25)])
    def test_so_it_does_while_it_waits(self, age: float, lacks: float) -> None:
        lag = Lag()
        behind = Behind(A, GtidSet.parse(f"{A}:1"), round(age * 1e6))
        replayed = stamped(1, original=-86400.0, immediate=2.0, ended=2.5)
        take(lag, look(3, f"{A}:1", "", queued=replayed), behind)
        assert lag.lacks_for(A) == lacks
        (found,) = lag.sources
        assert found.waits == Span(86403_000_000)
        assert found.hop_waits == Span(round(lacks * 1e6))


class TestUnmeasured:
    def test_is_not_0(self) -> None:
        lag = Lag()
        assert lag.cause
        take(lag, look(1, f"{A}:1", f"{A}:1", queued=stamped(1, 1.0)))
        assert not lag.cause
        lag.set_unmeasured("access denied")
        assert (lag.cause, lag.sources) == ("access denied", [])

    def test_a_replica_without_a_channel(self) -> None:
        lag = Lag()
        lag.take(Look([], [], at(0), EMPTY), 1, SAME, {})
        assert "no replication channel" in lag.cause
        lag.take(Look([], [], at(0), EMPTY, has_tables=False), 1, SAME, {})
        assert lag.cause == "its performance_schema is off"


NOTHING: dict[str, bytes | None] = {
    "CHANNEL_NAME": b"",
    "SERVICE_STATE": b"ON",
    "LAST_ERROR_NUMBER": b"0",
    "LAST_ERROR_MESSAGE": b"",
    "LAST_APPLIED_TRANSACTION": b"",
    "APPLYING_TRANSACTION": None,
}


class TestRows:
    def test_of_a_receiver(self) -> None:
        row: dict[str, bytes | None] = {
            "CHANNEL_NAME": b"",
            "SOURCE_UUID": A.encode(),
            "SERVICE_STATE": b"ON",
            "LAST_ERROR_NUMBER": b"0",
            "LAST_ERROR_MESSAGE": b"",
            "RECEIVED_TRANSACTION_SET": f"{A}:1-2,\n{B}:7".encode(),
            "LAST_QUEUED_TRANSACTION": f"{A}:2".encode(),
            "LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP": b"2026-11-22 10:26:29.055500",
            "LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP": b"2026-11-22 10:26:29.339898",
            "LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP": b"2026-11-22 10:26:29.340567",
            "LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP": b"0000-00-00 00:00:00.000000",
        }
        found = receiver(row)
        assert found.received == GtidSet.parse(f"{A}:1-2,{B}:7")
        assert found.running
        queued = found.queued
        assert queued is not None
        assert queued.original_us == 1_795_343_189_055_500
        assert queued.ended_us is None
        assert queued.source == A

    def test_of_a_receiver_that_cannot_connect(self) -> None:
        row: dict[str, bytes | None] = {
            "CHANNEL_NAME": b"",
            "SOURCE_UUID": A.encode(),
            "SERVICE_STATE": b"CONNECTING",
            "LAST_ERROR_NUMBER": b"2003",
            "LAST_ERROR_MESSAGE": b"Can't\nconnect",
            "RECEIVED_TRANSACTION_SET": b"",
            "LAST_QUEUED_TRANSACTION": b"",
        }
        found = receiver(row)
        assert (found.running, found.retrying) == (False, True)
        assert found.error == ThreadError(2003, "Can't connect")
        with pytest.raises(MalformedStatusError, match="LAST_ERROR_NUMBER is no number"):
            receiver({**row, "LAST_ERROR_NUMBER": b"many"})

    def test_of_a_worker_that_has_applied_nothing(self) -> None:
        assert worker(NOTHING) == Worker("", None, None)

    def test_without_a_column(self) -> None:
        with pytest.raises(MalformedStatusError, match="there is no column"):
            receiver({"c": b"soon"})

    def test_of_an_anonymous_transaction(self) -> None:
        row = {**NOTHING, "LAST_APPLIED_TRANSACTION": b"ANONYMOUS"}
        assert worker(row).applied is None

    @pytest.mark.parametrize("text", [b"soon", b"2026-13-01 00:00:00", b"1795343189", b"\xff"])
    def test_of_no_time(self, text: bytes) -> None:
        with pytest.raises(MalformedStatusError, match="COLUMN is no time"):
            microseconds(text, "COLUMN")

    @pytest.mark.parametrize("gtid", [b"x", A.encode(), f"{A}:1-2".encode()])
    def test_of_no_gtid(self, gtid: bytes) -> None:
        with pytest.raises(MalformedStatusError):
            worker({**NOTHING, "APPLYING_TRANSACTION": gtid})
