"""Which reads share an answer: at most one question is in flight, sent after they all arrived.

This is Raft's ReadIndex: an answer may serve every read that had arrived when its question was
sent. Later reads must not use it, since it may lack what was committed in between; they share the
next one. So the cost to the primary is bounded by round trips, not by the rate of reads.
"""

from typing import Generic, TypeVar

Reader = TypeVar("Reader")


class Gathering(Generic[Reader]):
    """Reads that wait for the primary's set.

    Attributes:
        asked: those that the answer in flight will serve; the first of them leads.
        waiting: those who came since.
    """

    def __init__(self) -> None:
        self.asked: list[Reader] = []
        self.waiting: list[Reader] = []

    def arrive(self, reader: Reader) -> None:
        """A read needs an answer whose question is sent from now on."""
        self.waiting.append(reader)

    def begin(self) -> list[Reader]:
        """Begin the next question, if none is in flight: for whom it is; empty if not."""
        if self.asked or not self.waiting:
            return []
        self.asked, self.waiting = self.waiting, []
        return self.asked

    def end(self) -> list[Reader]:
        """The question in flight was answered, or failed: whom it was for."""
        askers, self.asked = self.asked, []
        return askers

    def leave(self, reader: Reader) -> bool:
        """A read needs no answer any more; True if it led the question: others need a new one."""
        leads = bool(self.asked) and self.asked[0] is reader
        self.asked = [other for other in self.asked if other is not reader]
        self.waiting = [other for other in self.waiting if other is not reader]
        if leads:
            self.waiting = self.end() + self.waiting
        return leads
