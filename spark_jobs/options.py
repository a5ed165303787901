"""The options of an audit, and its command line."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import unquote

from spark_jobs.day import Day

_ABOUT: Final = """\
Reads the routing log with Spark, and checks whether every read saw what it had to see.

exit codes:
  0  every promise was kept
  1  a promise was not kept, a read had no valid proof, acknowledged writes are lost, or a
     binary log contradicts what a replica told the proxy, or what the proxy found independent
  2  nobody can tell: no log, no Java, or a log that lacks what a verdict needs
  130, 143  stopped by Ctrl-C or SIGTERM; the same command can be run again"""

_EXAMPLES: Final = """\
examples:
  tidegate audit --log /var/log/tidegate
  tidegate audit --log /var/log/tidegate --date yesterday --min-coverage 0.999
  tidegate audit --log /var/log/tidegate --live --metrics 127.0.0.1:9478
"""


class UsageError(ValueError):
    """The command line is not understood; the message says why, for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one audit.

    Attributes:
        log: the directory that holds ``date=YYYY-MM-DD/*.jsonl``, also as ``.gz`` or ``.zst``; as
            text, the URI of one that only Spark can read.
        out: where the tables go, and the report if this is a directory; as text, a URI that only
            Spark can write.
        day: the day to judge, whose judgement is kept; None to judge the whole log, and keep the
            judgement until the next one.
        master: Spark's URL of a cluster; None for this machine.
        binlogs: a directory of binary logs to compare the log with; None for none.
        min_coverage: share of the promised reads that must have been judged for a verdict, 0 to 1.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        textfile: the file for metrics for Prometheus' node exporter; None for none.
        live: keep judging the newest hours as segments come.
        window: how many hours a live view judges.
        metrics: host and port at which a live view serves metrics; None for none.
        report: the directory for the report, if `out` is a URI.
    """

    log: Path | str
    out: Path | str
    day: Day | None = None
    master: str | None = None
    binlogs: Path | None = None
    min_coverage: float = 1.0
    clock_error_us: int = 0
    textfile: Path | None = None
    live: bool = False
    window: int = 1
    metrics: tuple[str, int] | None = None
    report: Path | None = None

    @property
    def report_folder(self) -> Path:
        """The directory for the report, for Spark's messages, and for the lock."""
        return self.report or Path(self.out)

    @property
    def name(self) -> str:
        """What reports and metrics call the log."""
        return str(self.log)


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read a command line.

    Raises:
        UsageError: it is not understood.
    """
    parser = _Parser(
        prog="tidegate audit",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--log",
        type=_place,
        required=True,
        metavar="DIR",
        help="the routing log: a directory, or a URI that Spark can read (s3a://…, hdfs://…)",
    )
    parser.add_argument(
        "--out",
        type=_place,
        metavar="DIR",
        help="where the report and the tables are written: a directory, or a URI that Spark can"
        " write (default: LOG/_audit)",
    )
    parser.add_argument(
        "--report",
        type=_directory,
        metavar="DIR",
        help="with a URI as --out: the directory of this machine for the report",
    )
    parser.add_argument(
        "--date",
        type=_day,
        metavar="DAY",
        help="judge only this day (YYYY-MM-DD in UTC, or yesterday), and keep its judgement",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="run on this Spark cluster, such as spark://HOST:7077, or sc://HOST of Spark Connect"
        " (default: on this machine)",
    )
    parser.add_argument(
        "--binlogs",
        type=_directory,
        metavar="DIR",
        help="compare the log with the servers' binary logs in this directory, which has one"
        " folder per server, named by its server_uuid or HOST:PORT",
    )
    parser.add_argument(
        "--min-coverage",
        type=_share,
        default=1.0,
        metavar="SHARE",
        help="give a verdict if at least this share of the reads with a promise can be judged"
        " (0 to 1, default: 1)",
    )
    parser.add_argument(
        "--clock-error",
        type=_milliseconds,
        default=0,
        metavar="MS",
        help="assume that the proxies' clocks may differ by this many milliseconds; with"
        " --binlogs the replicas' clocks, too (default: as far as the log shows)",
    )
    parser.add_argument(
        "--textfile",
        type=Path,
        metavar="PATH",
        help="write metrics to this file, for Prometheus' node exporter",
    )
    parser.add_argument(
        "--live", action="store_true", help="judge the newest hours again and again, until stopped"
    )
    parser.add_argument(
        "--window",
        type=_hours,
        metavar="HOURS",
        help="with --live: how many hours to judge (1 to 48, default: 1)",
    )
    parser.add_argument(
        "--metrics",
        type=_address,
        metavar="HOST:PORT",
        help="with --live: serve metrics for Prometheus at this address",
    )
    chosen = parser.parse_args(arguments)
    if chosen.live and (chosen.date or chosen.binlogs):
        parser.error("--live judges neither days nor binary logs: leave out --date and --binlogs")
    if not chosen.live and (chosen.window or chosen.metrics):
        parser.error("--window and --metrics go with --live")
    _check_out(parser, chosen)
    return Options(
        log=chosen.log,
        out=place(chosen.log, chosen.out, "live" if chosen.live else ""),
        day=chosen.date,
        master=chosen.master,
        binlogs=chosen.binlogs,
        min_coverage=chosen.min_coverage,
        clock_error_us=chosen.clock_error,
        textfile=chosen.textfile,
        live=chosen.live,
        window=chosen.window or 1,
        metrics=chosen.metrics,
        report=chosen.report,
    )


def place(log: Path, out: Path | str | None, part: str = "") -> Path | str:
    """Where the report and the tables go; by default a folder of the log that is never read.

    Args:
        log: the log.
        out: what was asked for.
        part: a folder of the default one. A live view locks its own as long as it runs.
    """
    return log / "_audit" / part if out is None else out


def _check_out(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Tell an audit from writing where it reads, and where it cannot."""
    log, out, report = chosen.log, chosen.out, chosen.report
    if isinstance(log, str) and out is None:
        parser.error(f"{log} needs --out: a directory of this machine, or a URI")
    if isinstance(out, str):
        if chosen.live:
            parser.error("--live needs a directory as --out")
        if report is None:
            parser.error(f"{out} needs --report: a directory of this machine for the report")
        # Spark passes over names that begin with a line or a point.
        if isinstance(log, str) and re.match("$|/(?![_.])", out.removeprefix(log)):
            parser.error(f"--out {out} is in the log: name another place, such as {log}/_audit")
    elif report is not None:
        parser.error("--report goes with a URI as --out")
    if isinstance(log, Path):
        written = Path(report or place(log, out))
        if written.resolve() in map(Path.resolve, [log, *log.glob("date=*")]):
            option = "--report" if report else "--out"
            parser.error(
                f"{option} {written} holds segments, and the audit does not read where it writes"
            )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _place(text: str) -> Path | str:
    """A directory, or the URI of one that only Spark can read."""
    scheme, colon, rest = text.partition(":")
    if not colon or not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme) or Path(text).exists():
        return Path(text)
    if scheme.lower() == "file" and rest.startswith("/"):
        return Path(unquote(re.sub("^//(localhost)?(?=/)", "", rest)))
    if not rest.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text} is no directory, and no URI: want SCHEME:/…")
    return text.rstrip("/")


def _directory(text: str) -> Path:
    found = _place(text)
    if isinstance(found, Path):
        return found
    raise argparse.ArgumentTypeError(
        f"{text} is no directory of this machine: mount it, at the same place on every machine of "
        "the cluster, or copy it to one"
    )


def _day(text: str) -> Day:
    try:
        return Day.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _hours(text: str) -> int:
    hours = int(text)
    if not 1 <= hours <= 48:
        raise argparse.ArgumentTypeError(f"{text} is no window: want 1 to 48 hours")
    return hours


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is no address: want HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: want a number from 0 to 1")
    return share


def _milliseconds(text: str) -> int:
    milliseconds = float(text)
    if not 0 <= milliseconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no length of time: want milliseconds")
    return round(milliseconds * 1000)
