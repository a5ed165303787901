"""``python -m tests.chaos``: a campaign of faults against Tidegate before a real MySQL cluster."""

import argparse
import random
import sys
import time
from collections import Counter

from proxy.version import description
from tests.chaos.campaign import Campaign, Outcome, Plan
from tests.chaos.faults import FAULTS
from tests.chaos.report import LEGEND, PAGE, explanation, table, write
from tests.real_mysql.cluster import find_mysqld
from tests.real_mysql.template import NO_MYSQLD
from tests.real_mysql.template import version as server_version


def main() -> int:
    """Run what the command line asks for; 1 if a promise was broken, 2 if it could not run."""
    plan, wants_page = _plan()
    mysqld = find_mysqld()
    if mysqld is None:
        print(NO_MYSQLD)
        return 2
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    say(f"seed {plan.seed}, {len(plan.faults)} faults")
    outcome = Campaign(plan, mysqld, say).run()
    print(f"\n{table(outcome.rows)}\n\n{LEGEND}\n")
    if wants_page:
        write(
            {
                "run": _run(plan, outcome, server_version(mysqld)),
                "faults": explanation(FAULTS[name] for name in FAULTS),
            }
        )
        print(f"written to {PAGE}")
    if outcome.findings:
        print(f"{len(outcome.findings)} violations; ./dev chaos --seed {plan.seed} draws the same")
    return 1 if outcome.findings else 0


def _plan() -> tuple[Plan, bool]:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="begin no trial later (10)")
    parser.add_argument("--seed", type=int, help="of all that is drawn; what takes how long is not")
    parser.add_argument("--faults", help="their names, with commas; all without it")
    parser.add_argument("--workers", type=int, default=1, help="the proxy's (1)")
    parser.add_argument("--seconds", type=float, default=4, help="how long a fault lasts (4)")
    parser.add_argument("--group", action="store_true", help="the cluster is a group")
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    parser.add_argument("--list", action="store_true", help="tell the faults, and do nothing")
    given = parser.parse_args()
    if given.list:
        print(explanation(FAULTS.values()))
        sys.exit(0)
    faults = tuple(given.faults.split(",")) if given.faults else tuple(FAULTS)
    unknown = set(faults) - set(FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    if not given.group and all(FAULTS[name].needs_group for name in faults):
        parser.error("these faults need --group")
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    plan = Plan(seed, given.minutes, faults, given.workers, given.seconds, given.group)
    return plan, given.write


def _run(plan: Plan, outcome: Outcome, server: str) -> str:
    """What was run, and its figures."""
    trials = sum(row.trials for row in outcome.rows.values())
    workers = "" if plan.workers == 1 else f" --workers {plan.workers}"
    workers += " --group" if plan.group else ""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    summary = [
        f"{today}: {description()}, before MySQL {server}.",
        f"`./dev chaos --minutes {plan.minutes:g} --seed {plan.seed}{workers}`:"
        f" {trials} trials with {outcome.rounds} proxies in {outcome.seconds / 60:.0f} minutes,"
        f" {len(outcome.findings)} violations.",
        f"{LEGEND}.",
        table(outcome.rows),
    ]
    if outcome.findings:
        kinds = Counter(f"{finding.kind} under {fault}" for fault, finding in outcome.findings)
        summary.append("\n".join(f"- {count} times {kind}" for kind, count in kinds.most_common()))
    return "\n\n".join(summary)


if __name__ == "__main__":
    sys.exit(main())
