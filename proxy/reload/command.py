"""The command `tidegate reload`, and how the running proxy answers it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from proxy.control.connection import ControlConnection, ControlError, Message, connect
from proxy.reload.answer import FAILED, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME: Final = "reload"
_ANSWER_S: Final = 120.0
"""How long the command waits for the answer."""


def run(path: Path) -> int:
    """Ask the proxy with this control socket to reload, and print what came of that.

    Returns:
        The exit status: 0 if all that has changed was applied, 1 if something needs a restart, 2
        if the configuration has errors, or no proxy answers.
    """
    try:
        answer = ask(path)
    except ControlError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return FAILED
    for line in answer.lines:
        problem = line.startswith(("error:", "warning:"))
        print(f"tidegate: {line}", file=sys.stderr if problem else sys.stdout)
    return answer.status


def ask(path: Path) -> Answer:
    """Ask the proxy whose control socket that is for a reload.

    Raises:
        ControlError: nobody answers there, or something else does.
    """
    connection = connect(path)
    if connection is None:
        raise ControlError(f"no proxy listens at {path}")
    try:
        connection.send({"command": NAME})
        message = connection.receive_plain(_ANSWER_S)
    finally:
        connection.close()
    if "error" in message:
        return Answer(errors=(str(message["error"]),))
    try:
        return Answer.from_message(message)
    except TypeError as error:
        raise ControlError(f"{path}: no answer to a reload: {error}") from error


def answering(reload: Callable[[], Answer]) -> Callable[[ControlConnection, Message], None]:
    """What the proxy does at the command (`proxy.control.server`)."""

    def answer(connection: ControlConnection, _: Message) -> None:
        connection.send(reload().to_message())

    return answer
