"""Faults on demand: replies that are late, cut off, or replaced."""

import asyncio
import re
from dataclasses import dataclass

from mysql_mocker.error import MySQLError
from mysql_mocker.replication.binlog import Transaction


class Gate:
    """Replies wait at it until it is opened.

    Attributes:
        held: how many have come to it; their commands have run by then.
    """

    def __init__(self) -> None:
        self.held = 0
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Lets all pass, from now on."""
        self._opened.set()

    async def passed(self) -> None:
        """Waits until it is open."""
        self.held += 1
        await self._opened.wait()


@dataclass(slots=True, eq=False)
class Fault:
    """What is to happen to some replies.

    Attributes:
        matching: bytes that the command must contain; empty matches all.
        pattern: found in the text of the statement that the command runs; other commands than
            COM_QUERY and COM_STMT_EXECUTE have none, and do not match.
        times: how often it still happens; None for ever.
        delay: seconds before the reply is sent (the command has run by then).
        budget: bytes of the reply that are still sent before the connection breaks.
        raw: bytes to send instead; the command does not run.
        gate: what the reply waits at (the command has run by then).
        error: sent instead; the command does not run.
        unheard: the connection breaks, and the command does not run.
        login: it happens to clients that connect, not to commands.
        happened: how often it did.
    """

    matching: bytes
    times: int | None
    delay: float = 0.0
    budget: int | None = None
    raw: bytes | None = None
    gate: Gate | None = None
    pattern: re.Pattern[str] | None = None
    error: MySQLError | None = None
    unheard: bool = False
    login: bool = False
    happened: int = 0

    @property
    def runs(self) -> bool:
        """Whether the command runs all the same."""
        return self.raw is None and self.error is None and not self.unheard

    def meets(self, payload: bytes, text: str | None) -> bool:
        """Whether it happens to a command; `text` is the statement that it runs, if any."""
        if self.pattern is not None and (text is None or not self.pattern.search(text)):
            return False
        return self.matching in payload and not self.login


class Faults:
    """The faults of a server. The oldest that matches a command, and no other, happens to it."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []
        self._held_applies: list[tuple[str, Gate]] = []

    def delay_reply(self, seconds: float, matching: bytes = b"", times: int | None = None) -> None:
        """Sends replies later than they are ready; what was committed is visible already."""
        self._armed.append(Fault(matching, times, delay=seconds))

    def hold_reply(
        self, matching: bytes = b"", times: int | None = 1, raw: bytes | None = None
    ) -> Gate:
        """Keeps replies back until the gate is opened; what was committed is visible already.

        With `raw`, these bytes are sent then, and the command does not run.
        """
        gate = Gate()
        self._armed.append(Fault(matching, times, gate=gate, raw=raw))
        return gate

    def drop_connection_after(
        self, count: int, matching: bytes = b"", times: int | None = 1
    ) -> None:
        """Breaks the connection after `count` bytes of a reply; 0 sends none of it."""
        self._armed.append(Fault(matching, times, budget=count))

    def raw_reply(self, data: bytes, matching: bytes = b"", times: int | None = 1) -> None:
        """Answers with these bytes, frame headers included."""
        self._armed.append(Fault(matching, times, raw=data))

    def hold_apply(self, matching: str) -> Gate:
        """Holds transactions that a replica applies, before they take their locks.

        Args:
            matching: found in the SQL of one of their statements.
        """
        gate = Gate()
        self._held_applies.append((matching, gate))
        return gate

    async def apply_held(self, transaction: Transaction) -> None:
        """Waits as long as `hold_apply` says."""
        for matching, gate in list(self._held_applies):
            if any(matching in write.sql for write in transaction.writes):
                await gate.passed()

    def arm(self, fault: Fault) -> None:
        """Adds a fault of any kind."""
        self._armed.append(fault)

    def disarm(self, fault: Fault) -> None:
        """Removes a fault; one that is no longer armed is ignored."""
        if fault in self._armed:
            self._armed.remove(fault)

    @property
    def armed(self) -> list[Fault]:
        """Those that can still happen, the oldest first."""
        return list(self._armed)

    @property
    def read_statements(self) -> bool:
        """Whether `take` has to be told the text of statements."""
        return any(fault.pattern is not None for fault in self._armed)

    def clear(self) -> None:
        """No more faults."""
        self._armed.clear()

    def take(self, payload: bytes, text: str | None = None) -> Fault | None:
        """The fault that a command meets; it counts as happened."""
        for fault in self._armed:
            if fault.meets(payload, text):
                return self._happens(fault)
        return None

    def take_login(self) -> Fault | None:
        """The fault that a client meets when it connects; it counts as happened."""
        for fault in self._armed:
            if fault.login:
                return self._happens(fault)
        return None

    def _happens(self, fault: Fault) -> Fault:
        fault.happened += 1
        if fault.times is not None:
            fault.times -= 1
            if fault.times <= 0:
                self._armed.remove(fault)
        return fault
