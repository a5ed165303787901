"""A campaign: proxies one after the other, and before each of them one fault after the other."""

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.clients import OTHER_PASSWORD, OTHER_USER, Accounts, make_clients
from tests.chaos.cluster import ChaosCluster, UnhealthyError
from tests.chaos.faults import FAULTS
from tests.chaos.group_cluster import GroupChaosCluster
from tests.chaos.judge import Finding, judge, lost
from tests.chaos.proxy_watch import RECOVERY_S, ProxyWatch
from tests.chaos.relay import Relay, RelayLoop
from tests.chaos.report import Row
from tests.chaos.scene import Fault, Scene
from tests.chaos.sessions import TABLES, all_registers
from tests.chaos.trial import PROOF_MAX_AGE_S, Trial
from tests.chaos.workload import Workload
from tests.real_mysql.commit_order import CommitOrder
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer

WARM_UP_S = 0.5
SHOWN = 3
"""Of findings of one kind in one trial, so many are shown."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign is to do.

    Attributes:
        seed: of all that is drawn.
        minutes: no trial begins later; 0 for one round of all faults.
        faults: names.
        workers: the proxy's.
        seconds: how long a fault lasts, about.
        group: the cluster is a group.
    """

    seed: int
    minutes: float
    faults: tuple[str, ...]
    workers: int = 1
    seconds: float = 4.0
    group: bool = False


@dataclass
class Outcome:
    """What a campaign found.

    Attributes:
        rows: figures, by fault.
        findings: what must not have been, by fault.
        rounds: how many proxies were tried.
        seconds: how long it took.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    rounds: int = 0
    seconds: float = 0.0


class Campaign:
    """One cluster, with a relay before each server, and what is tried on it."""

    def __init__(self, plan: Plan, mysqld: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._chance = random.Random(plan.seed)
        self._outcome = Outcome()
        self._cluster = GroupChaosCluster(mysqld) if plan.group else ChaosCluster(mysqld)
        self._relays: dict[RealServer, Relay] = {}
        self._trials = 0
        self._deadline = 0.0

    def run(self) -> Outcome:
        """Do all that was planned.

        Raises:
            UnhealthyError: the cluster could not be mended.
        """
        began = time.monotonic()
        self._deadline = began + 60 * self._plan.minutes
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._cluster)
            loop = stack.enter_context(RelayLoop())
            for server in self._cluster.servers:
                self._relays[server] = relay = Relay(loop, server.port)
                stack.callback(relay.close)
            self._prepare()
            while not self._outcome.rounds or time.monotonic() < self._deadline:
                self._round(self._outcome.rounds)
                self._outcome.rounds += 1
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    def _prepare(self) -> None:
        query = self._cluster.primary.query
        accounts = {OTHER_USER: OTHER_PASSWORD, "watch": "watch-secret"}
        for user, password in accounts.items():
            query(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")
            query(f"GRANT ALL ON app.* TO {user}@'%'")
        for table in range(TABLES):
            query(f"CREATE TABLE app.registers{table} (id INT PRIMARY KEY, value BIGINT)")
        query("CREATE TABLE app.probe (id INT PRIMARY KEY, value BIGINT)")
        query("INSERT INTO app.probe VALUES (0, 0)")
        keys = self._cluster.scratch.path / "token.keys"
        keys.write_text(secrets.token_hex(32))
        keys.chmod(0o600)

    # --- a round: one proxy --------------------------------------------------------------------

    def _round(self, number: int) -> None:
        follows = number % 2 == 0 or self._plan.group
        faults = self._faults(follows=follows)
        if not faults:
            follows = True
            faults = self._faults(follows=True)
        options = self._options(follows=follows)
        settings = " ".join(f"{name}={value}" for name, value in options.items() if value)
        self._say(f"round {number + 1}: {settings}")
        proxy = RunningProxy(self._cluster, f"proxy{number}", self._servers() | options)
        try:
            watch = ProxyWatch(proxy, lambda server: self._relays[server].address)
            with self._clients(proxy) as (workload, accounts):
                for fault in faults:
                    if self._is_over():
                        break
                    if self._trial(fault, proxy, watch, workload, accounts):
                        break  # a proxy that did not recover would fail all others, too
            self._found("(end)", watch.leaks(self._cluster.servers) + watch.stops())
        finally:
            if proxy.running:
                proxy.kill()

    def _is_over(self) -> bool:
        return self._plan.minutes > 0 and time.monotonic() > self._deadline

    def _faults(self, *, follows: bool) -> list[Fault]:
        """Those that make sense here, in an order of this round's own."""
        wanted = [FAULTS[name] for name in self._plan.faults]
        faults = [
            fault
            for fault in wanted
            if (fault.in_group if self._plan.group else not fault.needs_group)
            and (follows or not fault.needs_monitor)
            and (self._cluster.semi_sync or not fault.needs_semi_sync)
        ]
        self._chance.shuffle(faults)
        return faults

    def _servers(self) -> dict[str, str | None]:
        replicas = [self._relays[replica].address for replica in self._cluster.replicas]
        return {
            "primary": self._relays[self._cluster.primary].address,
            "replicas": ",".join(replicas),
            "token_key_file": str(self._cluster.scratch.path / "token.keys"),
        }

    def _options(self, *, follows: bool) -> dict[str, str | None]:
        draw = self._chance.choice
        options: dict[str, str | None] = {
            "connect_timeout": draw(["2s", "5s"]),
            "handshake_timeout": "60s",
            "proof_max_age": f"{PROOF_MAX_AGE_S:g}s",
            "wait_budget": draw(["50ms", "250ms", "1s"]),
            "on_timeout": draw(["primary", "primary", "error"]),
            "self_audit": draw(["0.001", "0.2"]),
            "server_compression": draw(["off", "off", "zlib"]),
            "workers": str(self._plan.workers),
        }
        if follows:
            interval = draw(["100ms", "250ms", "1s"])
            kind = {"topology": "group"} if self._plan.group else {"failover": "read_only"}
            return options | kind | {"monitor_interval": interval}
        return options | {"monitor_user": None, "monitor_password_file": None}

    @contextlib.contextmanager
    def _clients(self, proxy: RunningProxy) -> Iterator[tuple[Workload, Accounts]]:
        accounts = Accounts()
        crowd = make_clients(self._chance)
        workload = Workload(self._cluster, proxy.port, crowd, accounts, self._chance)
        try:
            yield workload, accounts
        finally:
            workload.close()
            if workload.failures:
                raise BaseExceptionGroup("the campaign's own clients failed", workload.failures)

    # --- a trial: one fault --------------------------------------------------------------------

    def _trial(
        self,
        fault: Fault,
        proxy: RunningProxy,
        watch: ProxyWatch,
        workload: Workload,
        accounts: Accounts,
    ) -> bool:
        """Apply a fault, heal it, judge; whether the proxy did not recover."""
        cluster = self._cluster
        self._trials += 1
        trial = Trial(self._trials, fault.name)
        cluster.outages.clear()
        orders = {server: CommitOrder(server) for server in cluster.servers}
        counts = watch.counts()
        workload.begin(trial)
        workload.wait_for_everybody(RECOVERY_S)
        time.sleep(WARM_UP_S)
        trial.began = trial.stamps()
        scene = Scene(
            cluster, self._relays, accounts, trial, watch, self._chance, self._plan.seconds
        )
        try:
            fault.apply(scene)
            unwell = []
        except UnhealthyError as error:  # what a fault waits for is the proxy's
            unwell = [Finding("the proxy did not recover", str(error))]
        for relay in self._relays.values():
            relay.heal()
        cluster.heal()
        trial.healed = trial.stamps()
        unwell += watch.recovered(cluster.primary, cluster.replicas)
        if not unwell:
            unwell = [
                Finding("a client does not get on again", str(client))
                for client in workload.wait_for_everybody(RECOVERY_S)
            ]
        workload.pause()
        cluster.wait_caught_up()
        places = orders[cluster.primary].places()
        findings = judge(trial, places, cluster.outages, harmless=fault.harmless)
        findings += self._registers(trial, places) + unwell
        findings += watch.complaints(may_prove=fault.bereaves)
        self._enter(trial, findings, lost=len(lost(trial, places)), counts=watch.counts() - counts)
        self._found(fault.name, findings)
        return bool(unwell) or not proxy.running

    def _registers(self, trial: Trial, places: dict[int, int]) -> list[Finding]:
        """Whether all servers hold in each register what was written there last."""
        expected: dict[int, int] = {}
        for write in sorted(trial.writes, key=lambda write: places.get(write.value, -1)):
            if write.value in places:
                expected[int(write.register)] = write.value
        findings = []
        for server in self._cluster.servers:
            held = all_registers(server)
            wrong = [(r, v, held.get(r)) for r, v in expected.items() if held.get(r) != v]
            if wrong:
                text = f"{server.name}: register, last value, value held: {wrong[:SHOWN]}"
                findings.append(Finding("a server does not hold what was written last", text))
        return findings

    def _enter(
        self, trial: Trial, findings: list[Finding], lost: int, counts: "dict[str, int]"
    ) -> None:
        row = Row(
            trials=1,
            levels=trial.levels,
            writes=sum(write.acknowledged is not None for write in trial.writes),
            lost=lost,
            violations=len(findings),
            errors=trial.errors,
            fallbacks=counts.get("fallbacks", 0),
            on_replicas=counts.get("on_replicas", 0),
            slowest=trial.slowest,
        )
        self._outcome.rows.setdefault(trial.fault, Row()).add(row)
        self._say(
            f"{trial.fault}: {sum(row.levels.values())} reads, {row.writes} writes,"
            f" {row.violations} violations, slowest {row.slowest:.1f} s,"
            f" errors {dict(row.errors)}"
        )
        if trial.absence is not None:
            answered = trial.levels_without_primary
            self._say(f"  reads without the primary: {dict(answered)}")

    def _found(self, fault: str, findings: list[Finding]) -> None:
        shown: dict[str, int] = {}
        for finding in findings:
            self._outcome.findings.append((fault, finding))
            shown[finding.kind] = shown.get(finding.kind, 0) + 1
            if shown[finding.kind] <= SHOWN:
                self._say(f"VIOLATION under {fault}: {finding}")
