"""What a worker does when other options count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.monitor.monitor import Monitor
    from proxy.shared.idle_release import IdleRelease
    from proxy.shared.idle_timeout import IdleTimeout
    from proxy.shared.shared import Shared
    from proxy.tls.materials import Materials


def follow_changes(
    shared: Shared, monitor: Monitor, idle_release: IdleRelease, idle_timeout: IdleTimeout
) -> None:
    """Let the parts of a worker follow the changes of its configuration.

    Only parts that have computed something from options are here; the others read the options
    that they need each time. Sessions come last: by then all else is as they will find it.
    """

    def on_change(before: Config, materials: Materials) -> None:
        config = shared.config
        shared.topology.primary_rate_limit.change(config.primary_fallback_rate)
        shared.topology.configure(
            config.proof_max_age,
            allows_filters=config.filtered_replicas == "allow",
            reads_lagging=config.on_max_lag == "stale",
            for_primary=config.for_primary,
        )
        shared.scopes.age = config.scope_age
        shared.probes.limit = config.connect_timeout
        if shared.other_workers is not None:
            shared.other_workers.within = config.connect_timeout
        shared.audits.choose(config.self_audit)
        shared.catalogues.configure()
        shared.pool.configure()
        verifies_otherwise = shared.materials.server_tls is not materials.server_tls
        if verifies_otherwise:  # who was let in before might be let in no more
            for server in shared.topology.watched:
                shared.pool.drop_all(server, "changed")
        shared.slots.configure()
        idle_release.start()
        idle_timeout.start()
        if config.max_login_rate != before.max_login_rate:
            shared.client_limits.configure()
        monitor.on_config_changed(before, renews=verifies_otherwise)
        if config.placement() != before.placement():
            shared.topology.place(config.placement())
            shared.sessions.on_placed(shared.topology)
        shared.sessions.on_config_changed()

    shared.live.follow(on_change)
