"""What one session must see, where its state lives, and what another server must be told of it."""

from collections.abc import Sequence
from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Scope
from routing.consistency.rules import REMEMBERING, Rules
from routing.consistency.scope import Scopes, ScopeState, ScopeWriter
from routing.servers.topology import Role, Server
from routing.session.commits import Commits
from routing.session.defaults import UNKNOWN, Defaults
from routing.session.diagnostics_area import DiagnosticsArea
from routing.session.known_tables import KnownTables
from routing.session.lexer_modes import LexerModes
from routing.session.pins import Pins
from routing.session.replica_rejections import ReplicaRejections, StateVersions
from routing.session.text_prepared import TextPreparedStatements
from routing.session.trackers import Trackers
from routing.session.user_variables import UserVariables
from routing.session.variables import (
    DEFAULT_ISOLATION,
    ISOLATION,
    LOGGING,
    RECORDING,
    SWITCH,
    literal_of,
)
from routing.sql.query import SERVER_SCHEMAS
from routing.sql.session_locks import PinReason
from routing.transaction.transaction import Transaction

NO_ROLE: Final = "NONE"
"""What CURRENT_ROLE() says where no role is active."""

_WAIT_TIMEOUT_S: Final = 28800
"""wait_timeout of a server with default settings."""

# Members of enums, looked up once.
_CONNECTION: Final = Scope.CONNECTION
_USER: Final = Scope.USER
_APPLICATION: Final = Scope.APPLICATION
_NO_SERVERS: Final[frozenset[Server]] = frozenset()  # one for all sessions
_ORDERED: Final = frozenset(
    {
        *("names", "character set", "character_set_client", "character_set_connection"),
        *("character_set_results", "collation_connection", SWITCH),
        "default_collation_for_utf8mb4",
    }
)
"""What one of these sets, another may set, too."""


def depends_on_server(role: str) -> bool:
    """Whether the text behind SET ROLE says less than which roles are active then."""
    return role.upper().startswith(("ALL", "DEFAULT"))


def nameable(roles: str) -> str:
    """Roles that can be named to a server in any character set.

    Of others none is chosen. What a replica denies then runs on the primary.
    """
    return roles if roles.isascii() else NO_ROLE


class Session:
    """Routing's view of one client connection; it does no I/O.

    Attributes:
        initial_rules: what it began with.
        rules: level, scope, budget and policy in force.
        user: who it logged in as.
        scopes: the wider scopes that are alive.
        own_scope: what it wrote and saw itself.
        transaction: where its transaction stands.
        commits: whether what it committed was named.
        pins: what keeps it on the primary.
        text_prepared: statements that are prepared by text.
        schema: the default schema; empty if none is chosen.
        in_server_schema: unqualified names may be a server's own tables (`SERVER_SCHEMAS`).
        known_tables: what names of tables mean to its account.
        schema_version: changes whenever a schema is chosen, be it the same: a server then looks up
            again what the session may do in it.
        login_roles: those that were active from the login at the primary on, in the form for SET
            ROLE.
        role: what the client's last SET ROLE says; None if it gave none.
        active_roles: what gives a replica the roles that are active on the primary, for SET ROLE.
        seeing_roles: what tells the roles on the primary, by which the session sees tables and
            views there, from others; these may have names that no replica can be told.
        role_version: changes with each SET ROLE, which renews all that the session may do.
        schema_role, schema_role_version: those under which the schema was chosen.
        user_variables: what is known of them.
        defaults: what it began with, or has again after a reset.
        variables: session variables that the client set, name to SQL literal; NAMES is one of them.
        primary_variables: those of `NOT_CARRIED` that the client set, name to literal; None if the
            statement does not show it.
        prepared_by_text: the client has prepared statements by text, known ones or not.
        multi_statements: COM_SET_OPTION has turned multi-statements on or off.
        without_primary: it lacks a connection to the primary, which was gone when it wanted one.
        wait_timeout: how long its primary lets it be idle, s.
        variables_version: changes whenever `variables` does.
        results: its character_set_results, if a tracker has told of it; else empty.
        lexer_modes: how its statements are cut into tokens.
        trackers_pending: what failed may have changed the session, which the next OK packet tells.
        result_trackers_pending: results of a transaction may have told nothing of what the next OK
            packet tells.
        trackers: what the client is to see of them, and which GTIDs its primary tells.
        avoided: replicas that do not let this user in.
        rejections: replicas that did not take what it carries.
        diagnostics: what its next statement may ask about those before it.
        preferred: which replica the session asks first (`Topology.number_of`, `Topology.first_of`).
        plain: it is so (`routing.session.plain`); False also where that is not known.
        outdated: the configuration has changed, and the next command takes that over.
    """

    def __init__(
        self,
        rules: Rules,
        preferred: int,
        scopes: Scopes | None = None,
        user: str = "",
        term: int = 0,
    ) -> None:
        self.initial_rules = rules
        self.rules = rules
        self.user = user
        self.scopes = Scopes() if scopes is None else scopes
        self.own_scope = ScopeState(Scope.CONNECTION, "", term, unknown=False)
        self.transaction: Final = Transaction()
        self.commits = Commits(self.transaction)
        self.pins = Pins()
        self.text_prepared = TextPreparedStatements()
        self.schema = ""
        self.in_server_schema = False
        self.known_tables = KnownTables()
        self.schema_version = 0
        self.login_roles = NO_ROLE
        self.role: str | None = None
        self.active_roles = NO_ROLE
        self.seeing_roles = NO_ROLE
        self.role_version = 0
        self.schema_role: str | None = None
        self.schema_role_version = 0
        self.user_variables = UserVariables()
        self.defaults = UNKNOWN
        self.variables: dict[str, str] = {}
        self.variables_version = 0
        self.primary_variables: dict[str, str | None] = {}
        self.prepared_by_text = False
        self.multi_statements = False
        self.without_primary = False
        self.wait_timeout = _WAIT_TIMEOUT_S
        self.results = ""
        self.lexer_modes = LexerModes()
        self.trackers_pending = False
        self.result_trackers_pending = False
        self.trackers = Trackers(rules.tracking)
        self.avoided = _NO_SERVERS
        self.rejections = ReplicaRejections()
        self.diagnostics = DiagnosticsArea()
        self.preferred = preferred
        self.outdated = False
        self.plain = False
        self._start = DEFAULT_ISOLATION, _WAIT_TIMEOUT_S  # what its primary began it with

    def __repr__(self) -> str:
        """Where it stands."""
        rules = self.rules
        words = [f"{rules.consistency} in scope {rules.scope.value}", repr(self.transaction)]
        words += ["plain"] if self.plain else []
        words += ["what it wrote is not known"] if self.unknown else []
        words += [f"pinned by {reason.value}" for reason in sorted(self.pins.reasons)]
        words += ["trackers pending"] if self.trackers_pending else []
        words += ["trackers of results pending"] if self.result_trackers_pending else []
        return f"<Session of {self.user!r} in {self.schema!r}: {', '.join(words)}>"

    # What it must see

    @property
    def required(self) -> GtidSet:
        """GTIDs of its own writes; too small while `unknown`."""
        return self.own_scope.own

    @property
    def unknown(self) -> bool:
        """It may have committed what no packet named (after an ERR of a command that may write)."""
        return self.own_scope.unknown

    def reading(self, rules: Rules, term: int, now: float) -> ScopeState:
        """The scope that a read under these rules reads in."""
        kind = rules.scope
        if kind is _CONNECTION:
            return self.own_scope
        remembers = rules.level in REMEMBERING
        if kind is _USER:
            return self.scopes.get(kind, self.user, term, now, remembers)
        if kind is _APPLICATION:
            return self.scopes.get(kind, rules.application, term, now, remembers)
        return self.scopes.get(kind, "", term, now, remembers)

    def counting_scopes(self, rules: Rules) -> list[ScopeState]:
        """The scopes that count what a statement under these rules does, its own first."""
        return [self.own_scope, *self.scopes.alive(self.user, rules.application)]

    def record_write(
        self,
        gtids: GtidSet,
        primary: Server,
        now: float = 0.0,
        rules: Rules | None = None,
        united: GtidSet | None = None,
    ) -> None:
        """The server acknowledged these transactions as the session's own.

        Args:
            gtids: these.
            primary: the server.
            now: monotonic, s.
            rules: those of the statement; None for the session's.
            united: what its own scope has with these; None if they are still to be united.
        """
        scopes, own = self.scopes, self.own_scope
        wide: Sequence[ScopeState] = ()
        elsewhere: Sequence[ScopeWriter] = ()
        if scopes.in_use:
            application = (rules or self.rules).application
            wide = scopes.alive(self.user, application)
            elsewhere = scopes.writers_elsewhere(self.user, application)
        # What the primary has is put together only where it may be needed.
        is_long = bool(elsewhere) or (united is None and own.may_grow_long(gtids))
        for scope in wide:
            is_long = is_long or scope.may_grow_long(gtids)
        applied = primary.applied if is_long else EMPTY
        if united is None:
            own.record_write(gtids, applied, now)
        else:
            own.record_united_write(united, now)
        for scope in wide:
            scope.record_write(gtids, applied, now)
        for entry in elsewhere:
            entry.record_write(gtids, applied)

    def record_executed(
        self, executed: GtidSet, server: Server, now: float = 0.0, rules: Rules | None = None
    ) -> None:
        """The server's whole set at the end of a statement."""
        self.own_scope.record_executed(executed, now)
        if self.scopes.in_use:
            for scope in self.scopes.alive(self.user, (rules or self.rules).application):
                scope.record_executed(executed, now)
        if server.role is Role.PRIMARY:
            # Whatever this session wrote before was there by then.
            self.own_scope.set_covered(executed)

    def may_have_written(self, rules: Rules | None = None) -> None:
        """A command that may write ended, and nothing said what it committed (fact 2.3)."""
        self.own_scope.may_have_written()
        self.may_be_writing(rules)

    def may_be_writing(self, rules: Rules | None = None) -> bool:
        """A command that may write goes on, and its client has a part of the answer.

        What it has committed by now concerns the reads of other sessions: its own come later.

        Returns:
            Whether other sessions share a scope with this one, or may.
        """
        if not self.scopes.in_use:
            return False
        application = (rules or self.rules).application
        for scope in self.scopes.alive(self.user, application):
            scope.may_have_written()
        for entry in self.scopes.writers_elsewhere(self.user, application):
            entry.may_have_written()
        return True

    @property
    def logs(self) -> bool:
        """Whether what it writes goes to the binary log, and gets a GTID there."""
        pins = self.pins
        return not (pins.reasons and any(pins.holds(PinReason.VARIABLE, name) for name in LOGGING))

    def record_unlogged_write(self, rules: Rules | None = None) -> None:
        """It may have written what never gets to a replica, or gets there without a name."""
        self.own_scope.unlogged = True
        self.scopes.record_unlogged_write(self.user, (rules or self.rules).application)

    def record_answer(self, server: Server, epoch: int, rules: Rules | None = None) -> None:
        """An answer of this server went to the client."""
        self.own_scope.record_answer(server, epoch)
        scopes = self.scopes
        if scopes.in_use:
            application = (rules or self.rules).application
            for scope in scopes.alive(self.user, application):
                scope.record_answer(server, epoch)
            for entry in scopes.writers_elsewhere(self.user, application):
                entry.record_answer()

    def on_probe(self, executed: GtidSet, owned: GtidSet = EMPTY) -> None:
        """What the primary has and is committing, read after all that the session wrote."""
        self.own_scope.on_probe(executed, self.own_scope.doubts, owned)

    @property
    def wants_probe(self) -> bool:
        """Whether the next statement on the primary should bring its `gtid_executed` along."""
        return self.own_scope.unknown or self.own_scope.is_long

    @property
    def is_recorded(self) -> bool:
        """Whether the server records each statement that it runs, in a list that a client reads."""
        holds = self.pins.holds
        return any(holds(PinReason.VARIABLE, name) for name in RECORDING)

    def adjust(self, rules: Rules) -> bool:
        """Read under other rules from now on; whether connections must track other GTIDs.

        What was not tracked so far is not known: the first guarded read has the primary asked. Who
        has no primary has written nothing since that was gone.
        """
        before, needed = self.rules.tracking, rules.tracking
        self.rules = rules
        if before == "OFF" and needed != "OFF" and not self.without_primary:
            self.may_have_written()
        self.trackers.need(needed)
        return before != needed

    # What it carries

    def set_schema(self, name: str) -> None:
        """The primary has another default schema, or has chosen the same one again."""
        self.schema = name
        self.in_server_schema = name.lower() in SERVER_SCHEMAS  # a login may name it in any case
        self.schema_version += 1
        self.schema_role = None if self.role is None else self.active_roles
        self.schema_role_version = self.role_version

    def set_role(self, role: str) -> None:
        """A SET ROLE succeeded; `role` is the text behind it.

        Servers may give an account other roles (mandatory_roles, default roles). So ALL and DEFAULT
        are known when the primary has told which these are (`has_roles`); no role until then.
        """
        self.role = role
        self.active_roles = NO_ROLE if depends_on_server(role) else role
        self.seeing_roles = role
        self.role_version += 1

    def set_login_roles(self, roles: str) -> None:
        """A login at the primary made these roles active, as CURRENT_ROLE() says."""
        self.login_roles = self.seeing_roles = roles
        self.active_roles = nameable(roles)

    def set_active_roles(self, roles: str) -> None:
        """The primary says which roles are active after a SET ROLE, by CURRENT_ROLE()."""
        self.seeing_roles = roles
        if self.active_roles != nameable(roles):
            self.active_roles = nameable(roles)
            self.role_version += 1

    @property
    def state_versions(self) -> StateVersions:
        """What a replica is told that is to follow it, by versions."""
        return self.variables_version, self.role_version, self.schema_version

    def avoids(self, server: Server, now: float) -> bool:
        """Whether a replica does not let it in, or does not take what it carries."""
        if server in self.avoided:
            return True
        return bool(self.rejections.last) and self.rejections.hold(server, self.state_versions, now)

    def on_login(self, user: str) -> None:
        """Somebody else logged in, and has the roles of that login."""
        self.user = user
        self.role = None
        self.role_version = 0
        self.avoided = _NO_SERVERS
        self.rejections.clear()

    def set_variable(self, name: str, literal: str) -> None:
        """The client set a session variable to a literal."""
        if self.variables.get(name) == literal and name not in _ORDERED:
            return
        self.variables.pop(name, None)  # the order of assignment matters: NAMES, then its parts
        self.variables[name] = literal
        self.variables_version += 1
        if name == "wait_timeout" and literal.isdecimal():
            self.wait_timeout = max(1, int(literal))

    def on_connect(
        self,
        sql_mode: str,
        autocommit: bool = True,
        character_set: str = "utf8mb4",
        isolation: str = DEFAULT_ISOLATION,
        defaults: Defaults = UNKNOWN,
        wait_timeout: int = _WAIT_TIMEOUT_S,
    ) -> None:
        """The primary's session begins, or begins again, with these."""
        self.defaults = defaults
        self._start = isolation, wait_timeout
        self.wait_timeout = max(1, wait_timeout)
        literal = literal_of(ISOLATION, isolation)
        if isolation != DEFAULT_ISOLATION and literal is not None:
            self.set_variable(ISOLATION, literal)
        self.transaction.on_connect(autocommit)
        self.lexer_modes.begin(sql_mode, character_set)
        self._pin_defaults()

    def begin_again(self) -> None:
        """It was reset, and its primary is gone: it has what the last one began it with."""
        isolation, wait_timeout = self._start
        self.wait_timeout = max(1, wait_timeout)
        literal = literal_of(ISOLATION, isolation)
        if isolation != DEFAULT_ISOLATION and literal is not None:
            self.set_variable(ISOLATION, literal)
        self._pin_defaults()

    def _pin_defaults(self) -> None:
        for name in self.defaults.pinning:
            self.pins.acquire(PinReason.VARIABLE, name)

    @property
    def limits_time(self) -> bool:
        """Whether its reads may only take so long, and so may the proxy's own questions."""
        return self.defaults.limits_time or "max_execution_time" in self.variables

    @property
    def isolation(self) -> str:
        """The isolation level of its transactions, as trackers tell it, by what it has set."""
        literal = self.variables.get(ISOLATION, DEFAULT_ISOLATION)
        return literal.strip("'\"").upper().replace(" ", "-")

    @property
    def tracks_transactions(self) -> bool:
        """Whether its client is told of its transactions' state, and would see where they are."""
        return self.trackers.of_transactions

    def on_rollback(self, status: int) -> None:
        """The proxy ended the open transaction, which its client is told to begin again."""
        self.transaction.on_rollback(status)

    def reset(self) -> None:
        """COM_RESET_CONNECTION or COM_CHANGE_USER: state goes, what was written stays written.

        Schema and role stay, too (fact 7.9).
        """
        self.transaction.reset()
        self.commits = Commits(self.transaction)
        self.pins.clear()
        self.text_prepared.clear()
        self.prepared_by_text = False
        self.user_variables.clear()
        self.variables.clear()
        self.primary_variables.clear()
        self.variables_version += 1
        self.results = ""
        self.lexer_modes.reset()
        self.trackers_pending = False
        self.adjust(self.initial_rules)
        self.trackers = Trackers(self.rules.tracking)
        self.diagnostics.reset()
