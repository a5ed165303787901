"""Whether a replica replicates: what its channels' threads do, with the server's own reasons."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from routing.servers.lag import Look
from routing.servers.replication_status import NO_ERROR, Receiver, ThreadError

_RECOVERY: Final = "group_replication_recovery"
"""The channel by which a member of a group catches up before it is online; then it is stopped."""


class Problem(NamedTuple):
    """A thread of a channel that does not run.

    Attributes:
        channel: its name; "" is the default channel's.
        thread: ``receiver`` or ``applier``.
        retrying: it tries again by itself.
        error: why.
    """

    channel: str
    thread: str
    retrying: bool
    error: ThreadError

    @property
    def text(self) -> str:
        """For people."""
        where = f"channel {self.channel}: " if self.channel else ""
        state = "is not connected to its source" if self.retrying else "is stopped"
        error = self.error
        reason = f" (error {error.number}: {error.message})" if error.number else ""
        return f"{where}its {self.thread} {state}{reason}"


class Channels(NamedTuple):
    """The channels of a replica by which transactions of its cluster come.

    Attributes:
        number: how many there are.
        problems: what does not run.
        delay: the least SOURCE_DELAY, s.
    """

    number: int
    problems: tuple[Problem, ...] = ()
    delay: int = 0

    @property
    def replicating(self) -> bool:
        """Whether all that there is runs."""
        return bool(self.number) and not self.problems

    @property
    def stopped(self) -> bool:
        """Whether nothing comes before somebody starts, mends or configures a channel."""
        ended = {problem.channel for problem in self.problems if not problem.retrying}
        return len(ended) == self.number

    @property
    def state(self) -> frozenset[tuple[str, str, int]]:
        """What does not run, in a form that stays as long as that is the same.

        The message of a receiver that cannot connect counts its attempts.
        """
        if not self.number:
            return frozenset({("", "", 0)})
        return frozenset(
            (problem.channel, problem.thread, problem.error.number) for problem in self.problems
        )

    @property
    def text(self) -> str:
        """For people."""
        if not self.number:
            return "it has no replication channel"
        if self.problems:
            return "; ".join(problem.text for problem in self.problems)
        return f"running, {self.delay} s late (SOURCE_DELAY)" if self.delay else "running"


def channels(look: Look, servers: Collection[str]) -> Channels:
    """What a replica says of its channels.

    Where channels lead to servers of the cluster, others do not count; `servers` are their UUIDs.
    """
    relevant = [receiver for receiver in look.receivers if receiver.channel != _RECOVERY]
    relevant = [receiver for receiver in relevant if receiver.source in servers] or relevant
    problems: list[Problem] = []
    for receiver in relevant:
        problems += _problems(receiver, look)
    delay = min((look.delays.get(receiver.channel, 0) for receiver in relevant), default=0)
    return Channels(len(relevant), tuple(problems), delay)


def _problems(receiver: Receiver, look: Look) -> Iterator[Problem]:
    channel = receiver.channel
    if not receiver.running:
        yield Problem(channel, "receiver", receiver.retrying, receiver.error)
    own = [worker for worker in look.workers if worker.channel == channel]
    if any(worker.running for worker in own):
        return
    errors = [worker.error for worker in own]
    errors += [entry.error for entry in look.coordinators if entry.channel == channel]
    error = next((error for error in errors if error.number), NO_ERROR)
    yield Problem(channel, "applier", False, error)
