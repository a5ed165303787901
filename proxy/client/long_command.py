"""A command that is too long to be gathered, or a local file: what becomes of its parts.

They go to the primary as they come, wait until it is ready for them, are kept (long data of a
statement that may run anywhere), or are dropped (the error is sent when all of them have come).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.connection import ClientConnection


class LongCommand:
    """The one that is being sent, if one is.

    Attributes:
        going: more parts are to come.
    """

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self.going = False
        self._held: list[bytes] | None = None
        self._change: Callable[[bytes], bytes] | None = None
        self._to: Callable[[bytes], None] | None = None
        self._then: Callable[[], None] | None = None

    def begin(self) -> None:
        """Parts will come; they wait until it is decided what becomes of them."""
        self.going = True
        self._held = []
        self._change = None
        self._to = None
        self._then = None

    def forget(self) -> None:
        """Drop it."""
        self.going = False
        self._held = self._change = self._to = self._then = None

    def hold(self) -> None:
        """Let the client wait, too."""
        self._client.pause_reading()

    def give(
        self,
        to: Callable[[bytes], None],
        change: Callable[[bytes], bytes] | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Decide what becomes of the parts.

        Args:
            to: takes each.
            change: turns the first part into what `to` takes.
            then: follows the last.
        """
        held = self._held
        self._to = to
        self._change = change
        self._then = then
        if held is not None:
            self._held = None
            if held:
                self._give(b"".join(held))
            self._client.resume_reading()
            self._on_end()

    def discard(self, then: Callable[[], None] | None = None) -> None:
        """Drop the parts; `then` sends the error, once all of them have come."""
        self.give(_nowhere, then=then)

    def part(self, data: bytes, done: bool) -> None:
        """A part came."""
        if done:
            self.going = False
        if self._held is not None:
            self._held.append(data)
        else:
            self._give(data)
        self._on_end()

    def _give(self, data: bytes) -> None:
        if self._change is not None:
            data = self._change(data)
            self._change = None
        if self._to is not None:
            self._to(data)

    def _on_end(self) -> None:
        """All of it was taken."""
        if not self.going and self._held is None and self._then is not None:
            then = self._then
            self._then = None
            then()


def _nowhere(data: bytes) -> None:
    """It is not to run."""
