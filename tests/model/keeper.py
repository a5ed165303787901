"""How the simulated proxy keeps its scopes for the next start, as `proxy.state.kept_scopes` does.

A write to the file has three steps: the changes are taken, the file has them, the proxy knows that
the file has them. The proxy can be killed between any two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.gtid import GtidSet
from routing.consistency.scope import KeptScope, ScopeKey, ScopeState


@dataclass
class Keeper:
    """Rows and marks, which outlive proxies; and what one proxy still has to write.

    Attributes:
        rows: the scopes in the file.
        marks: scopes that may require more than their rows say.
        unlogged_keys: scopes in which something without a GTID was written; None for all scopes.
        diverged_gtids: by UUID of a server: GTIDs that it has and that the primary may have given
            to other transactions.
    """

    rows: dict[ScopeKey, KeptScope] = field(default_factory=dict)
    marks: set[ScopeKey] = field(default_factory=set)
    unlogged_keys: set[ScopeKey] | None = field(default_factory=set)
    diverged_gtids: dict[str, GtidSet] = field(default_factory=dict)
    _changed: dict[ScopeKey, ScopeState] = field(default_factory=dict)
    _gone: set[ScopeKey] = field(default_factory=set)
    _taken: list[tuple[ScopeState, KeptScope]] = field(default_factory=list)
    _taken_gone: set[ScopeKey] = field(default_factory=set)
    _is_written: bool = False

    # What scopes report

    def ahead(self, scope: ScopeState) -> None:
        self.mark((scope.kind, scope.key))

    def on_change(self, scope: ScopeState) -> None:
        self._changed[scope.kind, scope.key] = scope
        self._gone.discard((scope.kind, scope.key))

    def on_drop(self, scope: ScopeState) -> None:
        key = scope.kind, scope.key
        self.mark(key)
        self._changed.pop(key, None)
        self._gone.add(key)

    def on_unlogged_write(self, keys: tuple[ScopeKey, ...]) -> None:
        if not keys:
            self.unlogged_keys = None
        elif self.unlogged_keys is not None:
            self.unlogged_keys.update(keys)

    def on_compared(self, diverged_gtids: dict[str, GtidSet]) -> None:
        """Servers were compared with the primary."""
        self.diverged_gtids = diverged_gtids

    def mark(self, key: ScopeKey) -> None:
        """The scope may require more than its row in the file says."""
        self.marks.add(key)

    def clear(self, key: ScopeKey) -> None:
        """The scope requires no more than its row says."""
        self.marks.discard(key)

    # Steps of a write

    @property
    def has_something(self) -> bool:
        """Whether `go_on` does anything."""
        return bool(self._changed or self._gone or self._taken or self._taken_gone)

    def go_on(self) -> None:
        """Do the next step."""
        if not self._taken and not self._taken_gone:
            self.take()
        elif not self._is_written:
            self.write()
        else:
            self.learn()

    def take(self) -> None:
        """Take all changes."""
        scopes, self._changed = list(self._changed.values()), {}
        self._taken_gone, self._gone = self._gone, set()
        for scope in scopes:
            self.mark((scope.kind, scope.key))  # the mark comes before the first row
            self._taken.append((scope, scope.to_keep()))

    def write(self) -> None:
        """The file has the changes that were taken."""
        for key in self._taken_gone:
            self.rows.pop(key, None)
        for _, kept in self._taken:
            self.rows[kept.kind, kept.key] = kept
        self._is_written = True

    def learn(self) -> None:
        """The proxy knows that the file has the changes."""
        taken, self._taken = self._taken, []
        self._taken_gone = set()
        self._is_written = False
        for scope, kept in taken:
            if scope.keeper is self and scope.on_kept(kept):
                self.clear((scope.kind, scope.key))

    # The end of a proxy

    def stop(self) -> None:
        """Write all changes: the proxy stops in an orderly way."""
        while self.has_something:
            self.go_on()

    def found(self) -> list[KeptScope]:
        """What the next proxy finds; changes that the file does not have are lost."""
        self._changed, self._gone, self._taken, self._taken_gone = {}, set(), [], set()
        self._is_written = False
        return [
            kept._replace(unknown=kept.unknown or key in self.marks)
            for key, kept in self.rows.items()
        ]
