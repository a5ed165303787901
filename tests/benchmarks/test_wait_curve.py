"""The table of waits by policy: medians of the rounds, and a contender without replicas."""

from types import SimpleNamespace
from typing import cast

from benchmarks.cluster import Cluster
from benchmarks.wait_curve import Run, policies, row


def test_a_row_has_medians_and_all_stale_reads() -> None:
    runs = [
        Run(100.0, 300.4, 900.0, 0.5, 1),
        Run(300.0, 200.0, 5000.0, 0.25, 2),
        Run(200.0, 900.0, 1000.0, 1.0, 0),
    ]
    assert row("free", 50, "auto", runs) == "| free | 50 | auto | 200 | 300 | 1000 | 50% | 3 |"
    assert "| as many as can be |" in row("free", 0, "auto", runs)


def test_one_policy_has_no_replicas() -> None:
    servers = [SimpleNamespace(port=port) for port in (1, 2, 3)]
    cluster = cast("Cluster", SimpleNamespace(primary=servers[0], replicas=servers[1:]))
    contenders = policies(cluster)
    try:
        words = {contender.name: contender.arguments() for contender in contenders}
    finally:
        for contender in contenders:
            contender.stop()
    assert list(words) == ["tidegate-primary", "tidegate-50ms", "tidegate-250ms", "tidegate-auto"]
    assert "--replicas" not in words["tidegate-primary"]
    assert all("127.0.0.1:2,127.0.0.1:3" in words[name] for name in list(words)[1:])
    assert words["tidegate-auto"][-2:] == ["--wait-budget", "auto"]
