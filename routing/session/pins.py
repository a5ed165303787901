"""What keeps a session on its primary connection, and until when.

A connection can hold state that no other can be given: a temporary table, a lock, a handler.
Statements say what they take and release (`routing.sql.session_locks`); `Pins` remembers what is
held. It is forgotten only once it is certain that nothing is held any more.
"""

from typing import Final

from routing.sql.session_locks import Act, PinReason, SessionLock

# One for all sessions.
_NO_REASONS: Final[frozenset[PinReason]] = frozenset()
_NOTHING: Final[frozenset[tuple[PinReason, str]]] = frozenset()
_NAME: Final = 256
"""Bytes that an entry takes with its name."""


class Pins:
    """What one session holds.

    Attributes:
        reasons: why it is pinned, each once; empty if it is not. Replaced, never changed.
    """

    def __init__(self) -> None:
        self.reasons = _NO_REASONS
        self._held = _NOTHING  # replaced, too
        # Locks nest. How often each may be held, by name; "" is for unknown names, and once there
        # is one of these, for all.
        self._locks: dict[str, int] = {}
        self._countless = False

    def apply(self, hold: SessionLock, schema: str, worked: bool | None = None) -> None:
        """Take over what a statement did.

        Args:
            hold: one of its holds.
            schema: the default schema that it ran in.
            worked: of a named lock that is taken or released `once`: whether the server said 1.
                None if that is not known.
        """
        reason = hold.reason
        name = hold.named_in(schema).name
        if hold.act is Act.GIVE_ALL:
            self._held = frozenset(held for held in self._held if held[0] is not reason)
            if reason is PinReason.NAMED_LOCK:
                self._locks = {}
                self._countless = False
        elif reason is PinReason.NAMED_LOCK:
            if hold.act is Act.ACQUIRE:
                self._lock(hold, worked)
            elif hold.once:
                self._unlock(name, worked)
        elif hold.act is Act.ACQUIRE:
            self._held |= {(reason, name)}
        elif hold.act is Act.RELEASE:
            self._held -= {(reason, name)}
        elif any(held[0] is reason for held in self._held):
            self._held |= {(reason, "")}
        self._update()

    def acquire(self, reason: PinReason, name: str = "") -> None:
        """Something is held."""
        self._held |= {(reason, name)}
        self._update()

    def release(self, reason: PinReason, name: str = "") -> None:
        """It is not held any more."""
        if (reason, name) in self._held:
            self._held -= {(reason, name)}
            self._update()

    def holds(self, reason: PinReason, name: str) -> bool:
        """Whether this is held; not for named locks."""
        return (reason, name) in self._held

    def clear(self) -> None:
        """The session was reset."""
        self._held = _NOTHING
        self._locks = {}
        self._countless = False
        self._update()

    @property
    def size(self) -> int:
        """Bytes that the names take, an estimate: servers limit how long they are."""
        return _NAME * (len(self._held) + len(self._locks))

    @property
    def text(self) -> str:
        """All that is held, for people."""
        held = sorted(f"{reason} {name}".rstrip() for reason, name in self._held)
        held += sorted(f"{PinReason.NAMED_LOCK} {name}".rstrip() for name in self._locks)
        if self._countless:
            held.append(PinReason.NAMED_LOCK.value)
        return ", ".join(held)

    def _lock(self, hold: SessionLock, worked: bool | None) -> None:
        if not hold.once:
            self._countless = True
        elif worked is not False:
            if hold.name == "" or "" in self._locks:
                self._forget_names()
                name = ""
            else:
                name = hold.name
            self._locks[name] = self._locks.get(name, 0) + 1

    def _unlock(self, name: str, worked: bool | None) -> None:
        """Count one lock less, if one was released; the count is never below what is held.

        If the server's answer is not known, either a lock of this name was released, or there was
        none.
        """
        if worked is True and (name == "" or "" in self._locks):
            self._forget_names()
            name = ""
        count = self._locks.get(name, 0)
        if worked is False:
            if name:
                self._locks.pop(name, None)  # it holds none of this name
        elif count > 1:
            self._locks[name] = count - 1
        elif name or worked:
            self._locks.pop(name, None)

    def _forget_names(self) -> None:
        total = sum(self._locks.values())
        self._locks = {"": total} if total else {}

    def _update(self) -> None:
        reasons = {reason for reason, _ in self._held}
        if self._locks or self._countless:
            reasons.add(PinReason.NAMED_LOCK)
        if reasons != self.reasons:
            self.reasons = frozenset(reasons) if reasons else _NO_REASONS
