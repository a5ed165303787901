"""``./dev bench``: measures Tidegate, a direct connection, HAProxy and MySQL Router in turns.

``./dev bench audit`` is another benchmark: what the nightly audit costs (`benchmarks.audit`).
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.cluster import Cluster
from benchmarks.contender import VARIANTS, Contender, Direct, HAProxy, Tidegate, running
from benchmarks.measurement import Measurement, measure
from benchmarks.profile import PERF, SampledTidegate, perf
from benchmarks.program import MissingProgramError, mysql_programs, sysbench
from benchmarks.router import Router
from benchmarks.workload import WORKLOADS, Generator, Workload, WorkloadError


def _variant(variant: str, cluster: Cluster) -> Tidegate:
    return Tidegate(cluster, variant, VARIANTS[variant])


_CONTENDERS: Final[Mapping[str, Callable[[Cluster], Contender]]] = {
    "direct": Direct,
    "haproxy": HAProxy,
    "haproxy-1": lambda cluster: HAProxy(cluster, threads=1),
    "router": Router,
    "router-bootstrapped": lambda cluster: Router(cluster, lean=False),
    "tidegate": Tidegate,
    "tidegate-pure": lambda cluster: Tidegate(cluster, "pure", pure=True),
    "tidegate-unlogged": lambda cluster: Tidegate(cluster, "unlogged", routing_log=False),
    **{f"tidegate-{variant}": partial(_variant, variant) for variant in VARIANTS},
}
_USUAL: Final = ("direct", "haproxy", "router", "tidegate")
_USUAL_WORKLOADS: Final = ("point-select", "write-read", "write-read-one")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["audit"]:
        from benchmarks import audit

        return audit.main(arguments[1:])
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is stopped
    workloads = [workload for workload in WORKLOADS if workload.name in options.workload]
    try:
        programs = mysql_programs(router="router" in options.only)
        generator = Generator(sysbench(), programs / "mysqlslap")
        with Cluster(programs) as cluster:
            generator.prepare(cluster.primary)
            contenders = [_CONTENDERS[name](cluster) for name in options.only]
            cluster.settle()
            about = {
                "machine": report.machine(),
                "versions": {
                    "mysqld": cluster.primary.query("SELECT @@version")[0][0],
                    "sysbench": generator.sysbench.version(),
                    **{contender.name: contender.version() for contender in contenders},
                },
            }
            _say(about)
            with running(contenders) as ready:
                measurements = _rounds(cluster, generator, ready, workloads, options)
            if options.profile:
                _profile(cluster, generator, workloads, options)
    except MissingProgramError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(report.render(measurements), flush=True)
    if options.json:
        options.json.write_text(report.to_json(measurements, about) + "\n")
    return 0


def _rounds(
    cluster: Cluster,
    generator: Generator,
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    options: argparse.Namespace,
) -> list[Measurement]:
    measurements = []
    for workload in workloads:
        if workload.replica_delay:
            cluster.delay(workload.replica_delay)
        for number in range(1, options.rounds + 1):
            for contender in contenders:
                _progress(f"{workload.name}: round {number}, {contender.name}")
                try:
                    measurements.append(
                        measure(cluster, generator, contender, workload, number, options.seconds)
                    )
                except WorkloadError as error:  # the other contenders go on
                    print(f"{workload.name}: {contender.name}: {error}", file=sys.stderr)
        if workload.replica_delay:
            cluster.delay(0)
    _progress("")
    return measurements


def _profile(
    cluster: Cluster,
    generator: Generator,
    workloads: Sequence[Workload],
    options: argparse.Namespace,
) -> None:
    """Two more runs of every workload through Tidegate, which are in no other figure."""
    directory: Path = options.profile
    directory.mkdir(parents=True, exist_ok=True)
    tidegate, sampled = Tidegate(cluster), SampledTidegate(cluster)
    with running([tidegate, sampled]):
        for workload in workloads:
            sampled.report()  # discards what starting cost
            measure(cluster, generator, sampled, workload, 0, options.seconds)
            file = directory / f"{workload.name}.functions.txt"
            file.write_text(sampled.report())
            print(f"profile: {file}")
            if PERF and tidegate.pid is not None:
                file = directory / f"{workload.name}.symbols.txt"
                with perf(tidegate.pid, file, options.seconds):
                    measure(cluster, generator, tidegate, workload, 0, options.seconds)
                print(f"profile: {file}")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def _say(about: Mapping[str, Mapping[str, str]]) -> None:
    for facts in about.values():
        print("\n".join(f"{name}: {value}" for name, value in facts.items() if value != "-"))
    print(flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="rounds of all contenders (default 5)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5, metavar="S", help="seconds of each run (default 5)"
    )
    parser.add_argument(
        "--only",
        type=_names(_CONTENDERS),
        default=list(_USUAL),
        metavar="NAME[,...]",
        help=f"contenders, of {', '.join(_CONTENDERS)} (default {','.join(_USUAL)})",
    )
    known = [workload.name for workload in WORKLOADS]
    parser.add_argument(
        "--workload",
        type=_names(known),
        default=list(_USUAL_WORKLOADS),
        metavar="NAME[,...]",
        help=f"workloads, of {', '.join(known)}, or all (default {','.join(_USUAL_WORKLOADS)})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="DIR",
        help="write to DIR where Tidegate's time goes: by function, and by symbol with perf",
    )
    return parser


def _names(known: Sequence[str] | Mapping[str, object]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = list(known) if text == "all" else text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}, all")
        return names

    return read


if __name__ == "__main__":
    sys.exit(main())
