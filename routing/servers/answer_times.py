"""How soon a server answers, by what reads at ``wait-budget = auto`` have met.

Three running figures a server, none of which depends much on what the statements are that were
sent. They are hints: nothing is proved by them.
"""

from typing import Final

_TRUSTED_S: Final = 2.0
"""How long a measured delay predicts the next one."""
_RISE: Final = 0.25
_FALL: Final = 0.5
"""A delay that falls is believed sooner: while it is overestimated, few reads measure it."""
_LONGER: Final = 1 / 32
_SHORTER: Final = 1 / 4
"""An answer that came sooner counts more: then long statements hardly move the figure."""
_MOST: Final = 2.0
"""A delay of more than so many usual ones counts as that: one stall of the machine is no lag."""
_LONG_AFTER: Final = 10.0


class AnswerTimes:
    """What reads on one server have met lately, s; 0 where nothing is known.

    Attributes:
        alone: from sending a read to its answer, if nothing stood in front of it.
        behind_wait: from the answer to a WAIT to that of the read behind it.
        catch_up: from the acknowledgement of a write to the answer to a WAIT for it.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self.alone = 0.0
        self.behind_wait = 0.0
        self.catch_up = 0.0
        self._trusted_until = 0.0

    def answered(self, seconds: float, waited: float) -> None:
        """A read was answered so long after it was sent; `waited` of that for a WAIT in front."""
        if waited > 0:
            self.behind_wait = _approach(self.behind_wait, max(0.0, seconds - waited))
        else:
            self.alone = _approach(self.alone, max(0.0, seconds))

    def caught_up(self, delay: float, waited: float, now: float) -> None:
        """A WAIT ended well.

        One that began long after the acknowledgement, for its own length, says no more than that
        the server had the write by then.

        Args:
            delay: how long ago what it waited for was acknowledged, s.
            waited: how long it took, s.
            now: monotonic, s.
        """
        known = now < self._trusted_until
        if delay > _LONG_AFTER * waited:
            self.catch_up = min(self.catch_up, delay) if known else 0.0
        elif known:
            delay = min(delay, _MOST * self.catch_up) if self.catch_up > 0 else delay
            self.catch_up += (delay - self.catch_up) * (_RISE if delay > self.catch_up else _FALL)
        else:
            self.catch_up = delay
        self._trusted_until = now + _TRUSTED_S

    def timed_out(self, delay: float, now: float) -> None:
        """A WAIT ran out, so long after the acknowledgement of what it waited for, s."""
        self.catch_up = max(self.catch_up, delay) if now < self._trusted_until else delay
        self._trusted_until = now + _TRUSTED_S

    def remaining(self, changed_at: float, now: float) -> float | None:
        """How long a WAIT would take for what was acknowledged at `changed_at`; None if unknown.

        Times are monotonic, s.
        """
        return max(0.0, changed_at + self.catch_up - now) if now < self._trusted_until else None

    def expected(self, wait: float) -> float:
        """How long a read would take behind a WAIT of that length, s."""
        return max(wait + self.behind_wait, self.alone)


def _approach(figure: float, seconds: float) -> float:
    """A running expectile, a low one; the first time is taken as it is."""
    if figure == 0:
        return seconds
    return figure + (seconds - figure) * (_LONGER if seconds > figure else _SHORTER)
