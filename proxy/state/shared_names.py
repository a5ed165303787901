"""The names of what the workers of one proxy share in the state directory.

A proxy that takes over from another one, which still serves clients, has names of its own: neither
finds the other's workers, nor gets in the way of its files.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from pathlib import Path


class SharedNames(NamedTuple):
    """Those of one proxy.

    Attributes:
        mark: what tells them from another proxy's; empty for one that began while no other ran.
    """

    mark: str = ""

    @classmethod
    def of_successor(cls) -> Self:
        """Names that no other proxy has."""
        return cls(f".{secrets.token_hex(6)}")

    @property
    def scopes(self) -> str:
        """The file of wide scopes (`proxy.state.scope_memory`)."""
        return f"tidegate-scopes{self.mark}.shared"

    @property
    def clients(self) -> str:
        """The file of counts of clients (`proxy.state.shared_client_counts`)."""
        return f"tidegate-clients{self.mark}.shared"

    @property
    def tables(self) -> str:
        """The file of what the primary's log says (`proxy.state.transaction_memory`)."""
        return f"tidegate-tables{self.mark}.shared"

    def kill_socket(self, worker: int) -> str:
        """Where a worker is asked about a KILL."""
        return f"tidegate-worker{self.mark}-{worker}.sock"

    def admin_socket(self, worker: int) -> str:
        """Where a worker is asked about its sessions and servers."""
        return f"tidegate-admin{self.mark}-{worker}.sock"


PLAIN: Final = SharedNames()

ALL_SCOPES: Final = "tidegate-scopes*.shared"
"""What files of wide scopes fit, whichever proxy's."""
_OTHERS: Final = (
    *("tidegate-clients*.shared", "tidegate-tables*.shared"),
    *("tidegate-worker*-*.sock", "tidegate-admin*-*.sock"),
)


def remove_others(folder: Path, names: SharedNames, workers: int) -> None:
    """Remove what other proxies shared that have gone, but for what scopes never forget."""
    own = {names.clients, names.tables}
    for worker in range(workers):
        own |= {names.kill_socket(worker), names.admin_socket(worker)}
    for pattern in _OTHERS:
        for path in folder.glob(pattern):
            if path.name not in own:
                with suppress(OSError):
                    path.unlink()
