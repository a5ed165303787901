"""The audit of a real run beside its binary logs, and of the same with each premise broken.

Reads leave out writes to other tables, while replicas lag and definitions change. As it was, the
log contradicts nothing; what is planted in it, or in the binary logs, is found.
"""

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from spark_jobs import nightly
from spark_jobs.binlogs import binlog_source
from spark_jobs.gtid import GtidSet, parse
from spark_jobs.verdict import Dependence, Verdict
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.table_histories import start
from tests.real_mysql.test_table_histories import READS, _schema, histories
from tests.spark_jobs.oracle import Record

__all__ = ["_schema"]

pytestmark = [pytest.mark.deep, pytest.mark.spark, pytest.mark.timeout(1800)]

_COLUMNS = binlog_source.TRANSACTION.names
_GTID, _TABLES = (_COLUMNS.index(name) for name in ("gtid", "tables"))
_NOBODYS = 10**9
"""A number that no transaction has."""


@dataclass
class Audited:
    """What an audit found.

    Attributes:
        dependent: why reads were, by run and number.
        by_word: the reads that were independent by the proxy's word, likewise.
        independent: how many of these were, as the binary logs show.
    """

    dependent: dict[tuple[object, object], str]
    by_word: set[tuple[object, object]]
    independent: int


def audited(log: Sequence[Record], binary_logs: Path, folder: Path) -> Audited:
    runs: defaultdict[object, list[Record]] = defaultdict(list)
    for record in log:
        runs[record["run"]].append(record)
    segments = folder / "log" / "date=2026-11-30"
    segments.mkdir(parents=True)
    for run, records in runs.items():
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (segments / f"gate-0-{run}.jsonl").write_text(lines)
    from pyarrow import parquet

    out = folder / "out"
    nightly.main(["--log", str(folder / "log"), "--out", str(out), "--binlogs", str(binary_logs)])
    report = (out / "report.html").read_text()
    sentence = re.search(r"Of ([\d,]+) reads that were independent by .*?, ([\d,]+) were", report)
    assert sentence is not None, report
    count, independent = (int(number.replace(",", "")) for number in sentence.groups())
    rows = parquet.read_table(out / "dependent").to_pylist()
    reads = parquet.read_table(out / "reads", columns=["run", "seq", "verdict"]).to_pylist()
    by_word = {(row["run"], row["seq"]) for row in reads if row["verdict"] == Verdict.BY_WORD}
    assert count == len(by_word)
    return Audited({(row["run"], row["seq"]): row["why"] for row in rows}, by_word, independent)


def copied(server: RealServer, place: Path) -> list[Path]:
    """The binary logs of a server, copied to a folder of its own."""
    folder = place / server.server_uuid
    folder.mkdir(parents=True)
    base = Path(server.value("SELECT @@log_bin_basename"))
    return [
        Path(shutil.copy(path, folder)) for path in sorted(base.parent.glob(f"{base.name}.[0-9]*"))
    ]


class Planting:
    """Breaks premises in records of a log, each in a read of its own."""

    def __init__(
        self, reads: Sequence[Record], transactions: dict[str, Sequence[str] | None]
    ) -> None:
        self._reads = list(reads)
        self._transactions = transactions

    def change(self) -> Record:
        """Let a read be one of a table that a transaction changed which it left out."""
        for record in self._reads:
            for gtid in self._left_out(record):
                for table in self._transactions.get(gtid) or ():
                    if table not in str(record["tables"]):
                        return self._planted(record, tables=f"{record['tables']},{table}")
        raise AssertionError("no read left out a transaction with tables")

    def lack(self, gtid: str, waited: bool) -> Record:
        """Let the server of a read, which waited or not, have lacked a transaction, too."""
        lacked = parse(gtid)
        for record in self._reads:
            had = parse(str(record["proof_set"]))
            if bool(record["wait_us"]) is waited and had.covers(lacked):
                return self._planted(record, proof_set=had.minus(lacked).text())
        raise AssertionError("no server had it")

    def require(self, gtid: str) -> Record:
        """Let a read have left out a transaction, too."""
        record = self._reads[0]
        required = parse(str(record["required"]))
        required.update(parse(gtid))
        return self._planted(record, required=required.text())

    def _planted(self, record: Record, **fields: object) -> Record:
        self._reads.remove(record)
        record |= fields
        return record

    @staticmethod
    def _left_out(record: Record) -> Iterator[str]:
        left: GtidSet = parse(str(record["required"])).minus(parse(str(record["proof_set"])))
        for source, first, end in left:
            yield from (f"{source}:{number}" for number in range(first, end))


def test_what_is_planted_in_a_real_run_is_found(
    cluster: Cluster, proxy: StartProxy, tmp_path: Path
) -> None:
    replicas = cluster.replicas
    cluster.wait_caught_up()
    for replica in replicas:
        replica.query("FLUSH BINARY LOGS")  # what made the schema is in a file of its own
    running = start(proxy, "eager_names", "50ms")
    judge = histories(cluster, running, 0, READS).judge
    assert not judge.stale
    cluster.wait_caught_up()
    running.stop()
    log = running.log()
    place = tmp_path / "binlogs"
    written = copied(cluster.primary, place)
    of_replicas = [copied(replica, place) for replica in replicas]

    clean = audited(log, place, tmp_path / "clean")
    assert clean.dependent == {}
    assert clean.independent == len(clean.by_word) > 0

    transactions = {
        str(row[_GTID]): row[_TABLES]
        for path in written
        for row in binlog_source.rows(path)
        if row[_GTID]
    }
    opaque = [gtid for gtid, tables in transactions.items() if tables is None]
    by_word = [record for record in log if (record["run"], record["seq"]) in clean.by_word]
    planting = Planting(by_word, transactions)
    changed = planting.change()
    unknown, behind = (planting.lack(opaque[-1], waited) for waited in (False, True))
    beyond = planting.require(f"{cluster.primary.server_uuid}:{_NOBODYS}")
    planted = audited(log, place, tmp_path / "planted")
    # What its server lacked of all up to there may have been anything, too.
    planted.dependent.pop((beyond["run"], beyond["seq"]), None)
    assert planted.dependent == {
        (changed["run"], changed["seq"]): Dependence.CHANGED,
        (unknown["run"], unknown["seq"]): Dependence.OPAQUE,
        (behind["run"], behind["seq"]): Dependence.OPAQUE,
    }
    assert planted.independent == len(planted.by_word) - 4

    # A replica whose later transactions come first in its log did not commit in order.
    for paths in of_replicas:
        first, *_, last = paths
        assert first != last
        last.rename(last.with_suffix(".kept"))
        first.rename(last)
        last.with_suffix(".kept").rename(first)
    disordered = audited(running.log(), place, tmp_path / "disordered")
    assert set(disordered.dependent.values()) == {Dependence.DISORDERED}
