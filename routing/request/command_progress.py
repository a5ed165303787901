"""How far the command that a session serves has come."""

from typing import Final

from routing.request.stage import (
    DONE,
    FORWARDED,
    PASSING,
    SENT,
    TABLE,
    WAITING,
    Event,
    Stage,
)
from routing.unexpected_event import UnexpectedEventError

_TO_PASSING: Final = frozenset(stage for stage, event in TABLE if event == "first_byte")
_TO_DONE: Final = frozenset(stage for stage, event in TABLE if event == "ended")


class CommandProgress:
    """The stage of a session's command; one object serves one command after the other.

    Nobody else writes the stage. Events that lead to one stage only are methods here. The machine
    of reads tells of each of its own with `expect`, and where it leads with `enter`.

    Attributes:
        stage: how far the command has come.
    """

    def __init__(self) -> None:
        """There is none yet."""
        self.stage: Stage = DONE
        self._following: tuple[Stage, ...] = ()

    def __repr__(self) -> str:
        """Where it stands."""
        return f"<{type(self).__name__}: {self.stage}>"

    @property
    def is_waiting(self) -> bool:
        """Whether it has come, and no server has it."""
        return self.stage in WAITING

    @property
    def is_held(self) -> bool:
        """Whether a server has it, and nothing of the answer has gone to the client."""
        return self.stage == SENT or self.stage == FORWARDED

    # Events of any command

    def on_command(self) -> None:
        """The client has sent one."""
        self._follow("command")

    def on_forward(self) -> None:
        """The fast path sends one that has just come."""
        if self.stage != DONE:
            raise UnexpectedEventError("forward", self.stage)
        self.stage = FORWARDED

    def on_sent(self) -> None:
        """It is written to a server, or to the one that is borrowed for it."""
        self._follow("sent")

    def on_first_byte(self) -> None:
        """Some of the answer goes to the client."""
        if self.stage not in _TO_PASSING:
            raise UnexpectedEventError("first_byte", self.stage)
        self.stage = PASSING

    def on_ended(self) -> None:
        """The client has the whole answer, or one of the proxy's own."""
        if self.stage != FORWARDED and self.stage not in _TO_DONE:
            raise UnexpectedEventError("ended", self.stage)
        self.stage = DONE

    def on_left(self) -> None:
        """The client is gone, or its primary: nobody waits for the answer."""
        self._follow("left")

    def _follow(self, event: Event) -> None:
        self.expect(event)
        (self.stage,) = self._following

    # Events of the machine of reads

    def expect(self, event: Event) -> None:
        """An event comes; `enter` says where it leads, if that is another stage.

        Raises:
            UnexpectedEventError: it cannot come at this stage.
        """
        following = TABLE.get((self.stage, event))
        if following is None:
            raise UnexpectedEventError(event, self.stage)
        self._following = following

    def enter(self, stage: Stage) -> None:
        """The event that came last leads to this stage."""
        if stage not in self._following:
            raise AssertionError(f"no event leads from {self.stage} to {stage} here")
        self.stage = stage
