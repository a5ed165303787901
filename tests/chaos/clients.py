"""Who works during a campaign: one client for each level in each scope, each with a habit."""

import random
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, product

from routing.consistency.decision import Level, Scope
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.history import ScopeKey

CONSISTENCIES = (
    *("BEST_EFFORT", "BOUNDED_STALENESS(500ms)", "READ_OWN_WRITES"),
    *("MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
)
OTHER_USER, OTHER_PASSWORD = "app2", "app2-secret"


class Habit(Enum):
    """How a client talks; the value says so."""

    TEXT = "text, rules by SET"
    COMMENTS = "text, rules in comments"
    ATTRIBUTES = "text, rules by connection attributes, TLS"
    PREPARED = "prepared, TLS"
    COMPRESSED = "compressed and prepared, TLS"
    POOLED = "connections that are reset and handed on"
    BENT = "session settings that bend meanings"
    BENT_TOO = "more of these"
    TRANSACTIONS = "reads in transactions, READ ONLY or not, and outside"
    TOKEN = "writes on one connection, carries a token to another"


BENDS = (
    "SET collation_connection = utf32_general_ci",
    "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT', sql_select_limit = 1",
    "SET collation_connection = utf16_bin, session_track_gtids = 'ALL_GTIDS'",
    "SET character_set_results = NULL, time_zone = '+14:00', sql_select_limit = 1",
    "SET NAMES latin1",
    "SET sql_big_selects = 0, max_join_size = 1, sql_safe_updates = 1, big_tables = ON",
    "SET transaction_isolation = 'SERIALIZABLE', session_track_state_change = ON",
    "SET transaction_isolation = 'READ-COMMITTED', max_execution_time = 2000, timestamp = 1",
)


class Accounts:
    """The passwords that clients use now, by user."""

    def __init__(self) -> None:
        self.passwords = {APP_USER: APP_PASSWORD, OTHER_USER: OTHER_PASSWORD}


@dataclass(frozen=True, slots=True)
class Client:
    """One thread of an application.

    Attributes:
        number: which; its registers end in it.
        consistency: what it asks for, as SET writes it.
        scope: in which scope.
        user: its account.
        application: its application's key.
        habit: how it talks.
        bend: what it does to its sessions; empty for nothing.
    """

    number: int
    consistency: str
    scope: Scope
    user: str
    application: str
    habit: Habit
    bend: str

    def scopes(self, connection: str) -> frozenset[ScopeKey]:
        """All to which something on one of its connections belongs."""
        own = {(Scope.CONNECTION, connection), (Scope.PROXY, "")}
        return frozenset({*own, (Scope.USER, self.user), (Scope.APPLICATION, self.application)})

    @property
    def wide_scope(self) -> ScopeKey | None:
        """The scope that it asks for; None if that is its connection."""
        if self.scope is Scope.CONNECTION:
            return None
        return next(key for key in self.scopes("") if key[0] is self.scope)

    def owns(self, other: "Client") -> bool:
        """Whether what another client writes counts as this one's own."""
        if self.scope is Scope.CONNECTION:
            return self.number == other.number
        if self.scope is Scope.USER:
            return self.user == other.user
        if self.scope is Scope.APPLICATION:
            return self.application == other.application
        return True

    def __str__(self) -> str:
        return f"client {self.number} ({self.bend or self.habit.value})"


def make_clients(chance: random.Random) -> list[Client]:
    """One for each level in each scope; habits go round, from another start each time."""
    bends = cycle(chance.sample(BENDS, len(BENDS)))
    users, first = (APP_USER, OTHER_USER), chance.randrange(len(Habit))
    clients = []
    for number, (consistency, scope) in enumerate(product(CONSISTENCIES, Scope)):
        habit = list(Habit)[(first + number) % len(Habit)]
        if habit is Habit.TOKEN and not _carries_tokens(consistency, scope):
            habit = Habit.BENT_TOO
        clients.append(
            Client(
                number,
                consistency,
                scope,
                users[number % 2],
                f"application{number // 2 % 2}",
                habit,
                next(bends) if habit in (Habit.BENT, Habit.BENT_TOO) else "",
            )
        )
    return clients


def _carries_tokens(consistency: str, scope: Scope) -> bool:
    levels = (Level.READ_OWN_WRITES, Level.MONOTONIC_READS, Level.READ_ALL_WRITES)
    return scope is Scope.CONNECTION and consistency in levels
