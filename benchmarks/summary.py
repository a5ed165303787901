"""The rounds of one contender under one workload, taken together."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians over the rounds of one contender under one workload; of counts, the sums.

    Attributes:
        cpu_spread_us: the least and the greatest processor time per query of a round.
        cpu_of_tidegate: processor time per query, tidegate = 1: the median of each round's ratio.
        throughput: queries per second, direct = 1: likewise.
    """

    contender: str
    workload: str
    rounds: int
    cpu_us_per_query: float | None
    cpu_spread_us: tuple[float, float] | None
    cpu_of_tidegate: float | None
    queries_per_second: float
    throughput: float | None
    p50_us: float | None
    p99_us: float | None
    reads_on_primary: float | None
    reads: int
    stale: int
    fallbacks: int | None
    failed_starts: int
    probes_per_second: float | None


def summarise(measurements: Sequence[Measurement], contender: str, workload: str) -> Summary:
    """The medians of one contender under one workload.

    Raises:
        ValueError: there are no measurements of this contender under this workload.
    """
    selected = [m for m in measurements if (m.contender, m.workload) == (contender, workload)]
    if not selected:
        raise ValueError(f"{contender} was not measured under {workload}")
    cpu = [m.cpu_us_per_query for m in selected if m.cpu_us_per_query is not None]
    fallbacks = [m.fallbacks for m in selected if m.fallbacks is not None]
    return Summary(
        contender=contender,
        workload=workload,
        rounds=len(selected),
        cpu_us_per_query=_median(cpu),
        cpu_spread_us=(min(cpu), max(cpu)) if cpu else None,
        cpu_of_tidegate=ratio(measurements, workload, "cpu_us_per_query", contender, "tidegate"),
        queries_per_second=median(m.queries_per_second for m in selected),
        throughput=ratio(measurements, workload, "queries_per_second", contender, "direct"),
        p50_us=_median([m.p50_us for m in selected if m.p50_us is not None]),
        p99_us=_median([m.p99_us for m in selected if m.p99_us is not None]),
        reads_on_primary=_median(
            [m.reads_on_primary for m in selected if m.reads_on_primary is not None]
        ),
        reads=sum(m.reads for m in selected),
        stale=sum(m.stale for m in selected),
        fallbacks=sum(fallbacks) if fallbacks else None,
        failed_starts=sum(m.failed_starts for m in selected),
        probes_per_second=_median(
            [m.probes_per_second for m in selected if m.probes_per_second is not None]
        ),
    )


def ratio(
    measurements: Sequence[Measurement], workload: str, figure: str, contender: str, reference: str
) -> float | None:
    """The median over the rounds of a contender's figure divided by the reference's in that round.

    Rounds are compared, not medians: other work on the machine changes slowly, and affects both
    contenders of a round alike. None if no round has both.
    """
    figures: dict[tuple[str, int], float] = {}
    for m in measurements:
        value = getattr(m, figure)
        if m.workload == workload and value is not None:
            figures[m.contender, m.round] = value
    ratios = [
        figures[contender, number] / figures[reference, number]
        for name, number in figures
        if name == contender and figures.get((reference, number))
    ]
    return _median(ratios)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
