"""Whether a server that keeps a read waiting sends anything at all, on any connection.

A long read and a frozen server look alike on one connection. So a server that has sent nothing for
a while, on any connection, is asked for a sign of life. Only if there is no answer the server
counts as dead, until it sends something.
"""

from typing import Final

QUIET_S: Final = 1.0
"""How long a server that keeps a read waiting may say nothing before it is asked."""


class LivenessTimer:
    """Whether one server is silent, judged by regular looks.

    Attributes:
        patience: how long the server has to answer, s.
        asked_at: when it was asked for a sign of life, monotonic s; None if that was answered.
        refused: it was asked, and refused the connection.
    """

    def __init__(self, patience: float) -> None:
        """`patience` is how long the server has to answer, s."""
        self.patience = patience
        self._received: int | None = None
        self._heard_at = 0.0
        self._asked_last = 0.0
        self.asked_at: float | None = None
        self.refused = False

    def look(self, received: int, now: float) -> None:
        """Take the count of what the server has sent so far (`Server.packets_received`)."""
        if received != self._received:
            self._received = received
            self._heard_at = now
            self.asked_at = None
            self.refused = False

    def is_in_question(self, waiting_since: float, now: float) -> bool:
        """Whether to ask it, for the sake of a read that has waited in silence since a moment.

        A server that has answered is asked again only after it had time to send something else.
        """
        if self.asked_at is not None or now - max(waiting_since, self._heard_at) < QUIET_S:
            return False
        return not self._asked_last or now - self._asked_last >= self.patience

    def ask(self, now: float) -> None:
        """It is asked."""
        self.asked_at = self._asked_last = now

    def withdraw(self) -> None:
        """It could not be asked."""
        self.asked_at = None

    def is_dead(self, now: float) -> bool:
        """Whether it has had the time to answer, and has not."""
        if self.asked_at is None:
            return False
        return self.refused or now - self.asked_at >= self.patience
