"""Faults on demand: replies that are late, cut off, or something else altogether."""

import asyncio
from dataclasses import dataclass


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


@dataclass(slots=True)
class Fault:
    """What is to happen to some replies.

    Attributes:
        matching: bytes that the command must contain; empty matches all.
        times: how often it still happens; None for ever.
        delay: seconds before the reply is sent (the command has run by then).
        budget: bytes of the reply that are still sent before the connection breaks.
        raw: bytes to send instead; the command does not run.
        gate: what the reply waits at (the command has run by then).
    """

    matching: bytes
    times: int | None
    delay: float = 0.0
    budget: int | None = None
    raw: bytes | None = None
    gate: Gate | None = None


class Faults:
    """The faults of a server. The oldest that matches a command, and no other, happens to it."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []

    def delay_reply(self, seconds: float, matching: bytes = b"", times: int | None = None) -> None:
        """Sends replies later than they are ready; what was committed is visible already."""
        self._armed.append(Fault(matching, times, delay=seconds))

    def hold_reply(
        self, matching: bytes = b"", times: int | None = 1, raw: bytes | None = None
    ) -> Gate:
        """Keeps replies back until the gate is opened; what was committed is visible already.

        With `raw` it is these bytes that are sent then, and the command does not run.
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

    def clear(self) -> None:
        """No more faults."""
        self._armed.clear()

    def take(self, payload: bytes) -> Fault | None:
        """The fault that a command meets; it counts as happened."""
        for fault in self._armed:
            if fault.matching in payload:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._armed.remove(fault)
                return fault
        return None
