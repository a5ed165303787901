"""The command that a session serves now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client.answer import Answer
from routing.request.outcome import CommandOutcome

if TYPE_CHECKING:
    from routing.request.command import Command


class CurrentCommand:
    """A command, what became of it, and how far its answer has come; until the next one begins.

    Attributes:
        command: what the client sent.
        outcome: what became of it.
        answer: the one to it.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self.outcome = CommandOutcome(command)
        self.answer = Answer()

    def begin(self, command: Command) -> None:
        """The client has sent another command."""
        self.command = command
        self.outcome = CommandOutcome(command)
        self.answer = Answer()
