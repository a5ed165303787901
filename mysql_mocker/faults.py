"""Faults on demand: replies that are late, cut off, or something else altogether."""

from dataclasses import dataclass


@dataclass(slots=True)
class Fault:
    """What is to happen to some replies.

    Attributes:
        matching: bytes that the command must contain; empty matches all.
        times: how often it still happens; None for ever.
        delay: seconds before the reply is sent (the command has run by then).
        budget: bytes of the reply that are still sent before the connection breaks.
        raw: bytes to send instead; the command does not run.
    """

    matching: bytes
    times: int | None
    delay: float = 0.0
    budget: int | None = None
    raw: bytes | None = None


class Faults:
    """The faults of a server. The oldest that matches a command, and no other, happens to it."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []

    def delay_reply(self, seconds: float, matching: bytes = b"", times: int | None = None) -> None:
        """Sends replies later than they are ready; what was committed is visible already."""
        self._armed.append(Fault(matching, times, delay=seconds))

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
