"""One run of one contender under one workload."""

from dataclasses import dataclass

from benchmarks.cluster import Cluster
from benchmarks.contender import Contender
from benchmarks.processor import cpu_seconds
from benchmarks.workload import Generator, Workload, WorkloadError

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one run; units are in the names.

    Attributes:
        cpu_us_per_query: processor time of the proxy, without the logins; None without a proxy.
        reads_on_primary: of the SELECTs that the servers ran, the part that the primary ran.
        stale: reads that returned an older value than the session had written before.
        fallbacks: reads that left a replica for another server; None if they are not counted.
        failed_starts: how often the run had to be begun again because a client got an error.
        probes_per_second: how often the primary was asked for what it has; None if not counted.
    """

    contender: str
    workload: str
    round: int
    queries: int
    queries_per_second: float
    cpu_us_per_query: float | None
    p50_us: float | None
    p99_us: float | None
    reads_on_primary: float | None
    reads: int
    stale: int
    fallbacks: int | None
    failed_starts: int
    probes_per_second: float | None = None


def measure(
    cluster: Cluster,
    generator: Generator,
    contender: Contender,
    workload: Workload,
    number: int,
    seconds: float,
) -> Measurement:
    """Run a workload once.

    MySQL Router now and then fails to reach a server when several clients connect at once (error
    2003), so a run that fails is begun again; the figures say how often.

    Raises:
        WorkloadError: it failed three times.
    """
    failed = 0
    while True:
        cluster.settle()
        try:
            return _measure(cluster, generator, contender, workload, number, seconds, failed)
        except WorkloadError:
            failed += 1
            if failed == _ATTEMPTS:
                raise


def _measure(
    cluster: Cluster,
    generator: Generator,
    contender: Contender,
    workload: Workload,
    number: int,
    seconds: float,
    failed: int,
) -> Measurement:
    begun: list[float] = []

    def begin() -> None:
        if contender.pid is not None:
            begun.append(cpu_seconds(contender.pid))

    selects = cluster.status(cluster.servers, "Com_select")
    fallbacks, probes = contender.fallbacks(), contender.probes()
    load = generator.run(workload, contender.port, seconds, begin)
    cpu = cpu_seconds(contender.pid) - begun[0] if contender.pid is not None else None
    ran = [
        after - before
        for before, after in zip(
            selects, cluster.status(cluster.servers, "Com_select"), strict=True
        )
    ]
    after, probed = contender.fallbacks(), contender.probes()
    latencies = load.latencies
    return Measurement(
        contender=contender.name,
        workload=workload.name,
        round=number,
        queries=load.queries,
        queries_per_second=load.queries / load.seconds,
        cpu_us_per_query=None if cpu is None else cpu * 1e6 / load.queries,
        p50_us=latencies.percentile(50) if latencies else None,
        p99_us=latencies.percentile(99) if latencies else None,
        reads_on_primary=ran[0] / sum(ran) if sum(ran) else None,
        reads=load.reads,
        stale=load.stale,
        fallbacks=None if after is None or fallbacks is None else after - fallbacks,
        failed_starts=failed,
        probes_per_second=None
        if probed is None or probes is None
        else (probed - probes) / load.seconds,
    )
