"""Starts Spark for the audit.

Unless a cluster is named, Spark runs locally and quietly: no UI, no network beyond this host, no
downloads, no output on the console.
"""

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from spark_jobs import archive, stop_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED: Final = 17
_SPARK_NEEDED: Final = (4, 1)

_NAMED: Final = {"spark.app.name": "tidegate audit"}
SQL_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default for timestamps in Parquet is INT96, which other readers no longer expect.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # For columns that are derived from each other, the optimizer's inferred constraints would grow
    # until memory is exhausted.
    "spark.sql.constraintPropagation.enabled": "false",
    # Records have more columns than Spark compiles by default, with what is compared beside them.
    "spark.sql.codegen.maxFields": "2000",
    # Java compiles a method of more bytes late, and never well. Beyond them Spark cuts expressions
    # into short methods: a million records took 125 s of processor time in place of 165.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Else Spark sorts all records before it writes them by hours.
    "spark.sql.maxConcurrentOutputFileWriters": "50",
    # Else Spark sorts all records where a few hundred kinds of them are counted.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
}
"""Settings of every session that runs the audit's queries."""

SMALL_BYTES: Final = 64 << 20
"""A log of at most so many bytes of JSON is small: some 80,000 records. With 300,000, of which some
are left to the judge, the settings for a small log cost more than they save: 151 s of processor
time rather than 119 s (docs/performance.md)."""

_JAVA: Final = "-XX:-DontCompileHugeMethods -XX:+UseParallelGC"
"""Java's options. Spark generates long methods, which Java by default never compiles. On few cores,
the parallel collector, which stops all threads, costs half as much as a concurrent one."""

_JAVA_OF_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's options for a small log: it is judged before Java's second compiler has paid for itself,
and the serial collector needs 200 MB less."""

_SQL_OF_SMALL: Final = {
    # A generated class is compiled twice, by Spark and by Java, and runs over a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # What is found twice in interpreted expressions costs more to find than to compute.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Each stage would be planned anew, and be a job of its own.
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for a small log."""

_ALONE_BYTES: Final = 24 << 20
"""Up to so many bytes of JSON, a second task of a stage costs more than it saves."""

_LOCAL: Final = "local[*]"
_CONNECT: Final = "sc://"
"""URLs of Spark Connect begin so."""
_CONNECT_PORT: Final = 15002
_CONNECT_S: Final = 10.0
"""How long a server of Spark Connect has to take a connection."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable by which ``spark-submit`` tells where its JVM is."""

_JAVA_HINT: Final = (
    "The audit runs on Spark, which needs Java 17 or newer: install a package such as "
    "openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk-headless (Fedora, RHEL) or "
    "openjdk@17 (Homebrew), or take one from https://adoptium.net, and put java on the PATH or "
    "set JAVA_HOME."
)
_ARROW_HINT: Final = (
    "The audit reads the log with PyArrow and NumPy: install them with  "
    "pip install 'tidegate[audit]'."
)
_PYSPARK_HINT: Final = (
    "The audit runs on Spark: install PySpark 4.1 or newer with  pip install 'tidegate[audit]'  "
    "(or  pip install 'pyspark>=4.1,<5')."
)


def what_is_missing() -> str | None:
    """Say what is missing to run the audit here and how to get it; None if nothing is."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed. {_PYSPARK_HINT}"
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < _SPARK_NEEDED:
        return f"PySpark {pyspark.__version__} is too old. {_PYSPARK_HINT}"
    for name, package in (("pyarrow", "PyArrow"), ("numpy", "NumPy")):
        if find_spec(name) is None:
            return f"{package} is not installed. {_ARROW_HINT}"
    return _what_is_wrong_with_java()


def _what_is_wrong_with_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return f"Java is not installed. {_JAVA_HINT}"
    try:
        told = subprocess.run(  # noqa: S603 - the operator's own Java, and no argument from outside
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"Java does not run: {error}. {_JAVA_HINT}"
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None:
        return f"{java} does not report its version. {_JAVA_HINT}"
    if int(version[1]) < JAVA_NEEDED:
        return f"{java} is Java {version[1]}, which is too old. {_JAVA_HINT}"
    return None


def is_local(master: str | None) -> bool:
    """Whether `start_spark` would run all of Spark on this machine."""
    return _SUBMITTED not in os.environ and (master or _LOCAL).startswith("local")


def settings_for(size: int | None, temporary: Path | None = None) -> dict[str, str]:
    """The settings that depend on how much is judged on this machine.

    Args:
        size: about how many bytes of JSON; None for many.
        temporary: as for `start_spark`.
    """
    if size is not None and size <= SMALL_BYTES:
        java = _java_options(_JAVA_OF_SMALL, temporary)
        partitions = 1 if size <= _ALONE_BYTES else 2
        settings = {"spark.driver.defaultJavaOptions": java, **_SQL_OF_SMALL}
    else:
        partitions = 2 * (os.cpu_count() or 1)
        settings = {"spark.driver.defaultJavaOptions": _java_options(_JAVA, temporary)}
    return settings | {"spark.sql.shuffle.partitions": str(partitions)}


def start_spark(
    log: Path, master: str | None = None, temporary: Path | None = None, size: int | None = None
) -> "SparkSession":
    """Start Spark: in this process and its JVM, on a cluster, or as ``spark-submit`` says.

    The session's `stop` also ends the JVM, if this has started it.

    Args:
        log: file for the output of Spark, its JVM and its Python workers; not for that of a
            cluster's executors. It is not written where ``spark-submit`` has started this process.
        master: Spark's URL of a cluster, or ``sc://HOST:PORT`` of Spark Connect; None for all cores
            of this machine, or for what ``spark-submit`` was told.
        temporary: a directory for what Spark on this machine writes beside its results; None for
            the system's. ``spark.local.dir`` comes before it.
        size: about how many bytes of JSON will be judged; None for many. On this machine, the
            settings for a small log take half of the processor time that the others would take
            for 20,000 records (docs/performance.md).

    Raises:
        RuntimeError: ``spark-submit`` and `master` were both given.
        ConnectionError: no server of Spark Connect can be reached.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    given = _given(master)
    if given is not None:
        return archive.shipped(given)
    settings = {**_NAMED, **SQL_SETTINGS}
    settings["spark.master"] = master = master or _LOCAL
    settings["spark.ui.showConsoleProgress"] = "false"
    here = is_local(master)
    if here:
        # Python workers are the same Python, and find these modules wherever they are installed.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": str(archive.top()),
            "spark.ui.enabled": "false",
            **settings_for(size, temporary),
        }
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    jvm: subprocess.Popen[bytes] | None = None

    class OwnSession(SparkSession):
        def stop(self) -> None:
            try:
                if not stop_signals.is_stopping():  # else nobody knows which answer Java owes
                    super().stop()
            finally:
                if jvm is not None:
                    stop_signals.ends_first(None)
                    logging.getLogger().addFilter(_is_worth_logging)
                    stop_signals.end(jvm)
                    # PySpark would use its dead gateway for the next session.
                    SparkContext._gateway = SparkContext._jvm = None

    try:
        with log.open("wb") as output, stop_signals.kept_handlers():
            gateway = launch_gateway(  # type: ignore[no-untyped-call]  # PySpark left it untyped
                conf, {"stdout": output, "stderr": output, "process_group": 0}
            )
            jvm = gateway.proc
            spark = OwnSession(SparkContext(conf=conf, gateway=gateway))
        stop_signals.ends_first(jvm)
        return spark if here else archive.shipped(spark)
    except BaseException as error:
        jvm = jvm or _launched(error)
        if jvm is not None:
            stop_signals.end(jvm)
        raise


def _given(master: str | None) -> "SparkSession | None":
    """The session of ``spark-submit`` or of Spark Connect; None if Spark must be started."""
    from pyspark.sql import SparkSession

    if _SUBMITTED not in os.environ:
        return _connected(master) if master is not None and master.startswith(_CONNECT) else None
    if master is not None:
        raise RuntimeError("give the master to spark-submit, which has started this process")
    return SparkSession.builder.config(map={**_NAMED, **SQL_SETTINGS}).getOrCreate()


def _connected(url: str) -> "SparkSession":
    """A session at a server of Spark Connect, which has its own settings, but for those of SQL."""
    from pyspark.sql import SparkSession

    parts = urlsplit(url)
    place = re.split(r"[;?]", parts.netloc.rpartition("@")[2])[0]  # a URL may hold a token
    try:
        # PySpark would try for ten minutes.
        address = parts.hostname or "", parts.port or _CONNECT_PORT
        socket.create_connection(address, _CONNECT_S).close()
    except (OSError, ValueError):
        raise ConnectionError(
            f"no Spark Connect can be reached at {place}: start its server there, or give another "
            f"address to --master, as sc://HOST:PORT (default: {_CONNECT_PORT})"
        ) from None
    return SparkSession.builder.remote(url).config(map={**SQL_SETTINGS}).getOrCreate()


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether a record is not Py4J's of a JVM that ended while a thread told it what is garbage.

    What fails for any other reason is raised, too.
    """
    return record.msg != "Exception while sending command."


def _launched(error: BaseException) -> "subprocess.Popen[bytes] | None":
    """The JVM that PySpark was launching when an error was raised: only a local variable has it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = frame.f_locals.get("proc")
        if isinstance(found, subprocess.Popen):
            return found
    return None


def _java_options(options: str, temporary: Path | None) -> str:
    """Options of the JVM of a Spark on this machine, as ``spark-submit`` reads them."""
    if temporary is None:
        return options
    place = re.sub(r'(["\\])', r"\\\1", str(temporary))
    return f'{options} "-Djava.io.tmpdir={place}"'
