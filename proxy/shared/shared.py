"""What all sessions of a worker share. `proxy.serve` makes it; it does nothing by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config import Config
    from proxy.live_config import LiveConfig
    from proxy.observe.ledger import Ledger
    from proxy.observe.metrics import Metrics
    from proxy.server.logins import Logins
    from proxy.server.pool import Pool
    from proxy.server.server_greeting import ServerGreeting
    from proxy.server.slots import Slots
    from proxy.shared.administration.administration import Administration
    from proxy.shared.audits import Audits
    from proxy.shared.catalogues import Catalogues
    from proxy.shared.client_limits import ClientLimits
    from proxy.shared.client_profile import ClientProfile
    from proxy.shared.deadlines import Deadlines
    from proxy.shared.killing.other_workers import OtherWorkers
    from proxy.shared.killing.targets import KillTargets
    from proxy.shared.known_passwords import KnownPasswords
    from proxy.shared.primary_epoch import PrimaryEpoch
    from proxy.shared.primary_presence import PrimaryPresence
    from proxy.shared.probe import Probes
    from proxy.shared.refusals import Refusals
    from proxy.shared.sessions import Sessions
    from proxy.state.kept_scopes import KeptScopes
    from proxy.tasks import CallLater, Start
    from proxy.tls.materials import Materials
    from routing.consistency.scope import Scopes
    from routing.consistency.sharing import Sharing
    from routing.servers.topology import Topology
    from routing.servers.waits import Waits
    from routing.sql.classifier import Classifier


@dataclass(frozen=True, slots=True)
class Shared:
    """Everything that outlives a session.

    A plain record: `proxy.serve.build` alone makes it, and names each value; readers take what they
    need from it. Groups of values would only be a second name for each.

    Attributes:
        live: the configuration that counts now.
        worker: its number, from 0.
        metrics: counts.
        ledger: records statements in metrics and log.
        now: monotonic, s.
        call_later: sets a timer of the event loop.
        deadlines: time limits that are hardly ever reached.
        start: starts a task, and gives it a name (`proxy.tasks`).
        topology: the servers.
        scopes: the scopes wider than a connection that are alive.
        sharing: shares the scopes with other workers; None if there are no other workers.
        kept_scopes: keeps the scopes for the next start; None if they are not kept.
        sessions: the open sessions.
        other_workers: the other workers; None if there are none.
        kill_targets: finds the session that a KILL names, in this worker or another.
        primary_epoch: begins the terms of primaries.
        primary_presence: finds out whether the primary is gone.
        probes: the questions to the primary that reads share.
        waits: the WAITs in flight, which reads may share.
        pool: connections to servers that no session has.
        slots: how many connections sessions may have, and who waits for one.
        logins: logs sessions in at servers.
        server_greeting: what clients are greeted with.
        client_limits: how many clients there may be.
        client_profiles: what clients of a host negotiate.
        known_passwords: the passwords of users who have logged in.
        refusals: clients that were turned away.
        classifier: classifies statements, and remembers those that it has seen.
        catalogues: which views are plain.
        audits: which reads are audited.
        administration: what operators see and do.
    """

    live: LiveConfig
    worker: int
    metrics: Metrics
    ledger: Ledger
    now: Callable[[], float]
    call_later: CallLater
    deadlines: Deadlines
    start: Start
    topology: Topology
    scopes: Scopes
    sharing: Sharing | None
    kept_scopes: KeptScopes | None
    sessions: Sessions
    other_workers: OtherWorkers | None
    kill_targets: KillTargets
    primary_epoch: PrimaryEpoch
    primary_presence: PrimaryPresence
    probes: Probes
    waits: Waits
    pool: Pool
    slots: Slots
    logins: Logins
    server_greeting: ServerGreeting
    client_limits: ClientLimits
    client_profiles: ClientProfile
    known_passwords: KnownPasswords
    refusals: Refusals
    classifier: Classifier
    catalogues: Catalogues
    audits: Audits
    administration: Administration

    @property
    def config(self) -> Config:
        """The options as they are now."""
        return self.live.config

    @property
    def materials(self) -> Materials:
        """The keys and TLS contexts as they are now."""
        return self.live.materials
