"""The command that a session serves now."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from proxy.client.answer import Answer
from routing.request.command_progress import CommandProgress
from routing.request.outcome import CommandOutcome

if TYPE_CHECKING:
    from routing.request.command import Command


class CurrentCommand(CommandProgress):
    """A command, what became of it, and how far it has come; until the next one begins.

    Attributes:
        command: what the client sent.
        outcome: what became of it.
        answer: the one to it.
        killed_at: when a KILL was last sent for the session, monotonic s.
    """

    def __init__(self, command: Command) -> None:
        super().__init__()
        self.command = command
        self.outcome = CommandOutcome(command)
        self.answer = Answer()
        self.killed_at = -inf

    def begin(self, command: Command) -> None:
        """The client has sent another command."""
        self.on_command()
        self.command = command
        self.outcome = CommandOutcome(command)
        self.answer = Answer()
