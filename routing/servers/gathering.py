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
        leader: the one whose question is in flight; None if there is none. It may have given up.
        asked: those that the answer in flight will serve.
        waiting: those who came since.
    """

    def __init__(self) -> None:
        self.leader: Reader | None = None
        self.asked: list[Reader] = []
        self.waiting: list[Reader] = []

    def arrive(self, reader: Reader) -> None:
        """A read needs an answer whose question is sent from now on."""
        self.waiting.append(reader)

    def begin(self) -> list[Reader]:
        """Begin the next question, if none is in flight: for whom it is; empty if not.

        The first of them leads, unless the caller chooses another `leader` of them.
        """
        if self.leader is not None or not self.waiting:
            return []
        self.asked, self.waiting = self.waiting, []
        self.leader = self.asked[0]
        return self.asked

    def end(self) -> list[Reader]:
        """The question in flight was answered, or failed: whom it was for."""
        askers, self.asked = self.asked, []
        self.leader = None
        return askers

    def postpone(self) -> None:
        """The question in flight will not be answered: whom it was for need another one."""
        self.waiting = self.end() + self.waiting

    def give_up(self, reader: Reader) -> bool:
        """A read waits no longer; True if nobody waits for the question in flight any more.

        The question is still answered for the others, even if this read led it.
        """
        self._remove(reader)
        return self.leader is not None and not self.asked

    def leave(self, reader: Reader) -> bool:
        """A read's session ends; True if it led the question: others need a new one."""
        leads = self.leader is reader
        self._remove(reader)
        if leads:
            self.postpone()
        return leads

    def _remove(self, reader: Reader) -> None:
        self.asked = [other for other in self.asked if other is not reader]
        self.waiting = [other for other in self.waiting if other is not reader]
