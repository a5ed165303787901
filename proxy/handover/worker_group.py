"""The workers of a proxy, as the thread that leads a hand-over sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from proxy.handover.step import Step

STEP_S: Final = 10.0
"""How long workers may take for a step."""


class WorkerGroup(Protocol):
    """All workers of a proxy."""

    def act(self, step: Step) -> None:
        """Have all workers do a step, and wait until they have.

        It is called from another thread than those of the workers.

        Raises:
            StepError: a worker could not, or did not answer.
        """

    def leave(self) -> None:
        """A successor accepts the clients: let the sessions go, and end.

        It cannot fail, since the successor accepts already, and does not wait for workers.
        """

    def fail(self) -> None:
        """End, since this proxy cannot take over."""
