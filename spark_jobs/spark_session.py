"""Starts Spark for the audit.

Unless a cluster is named, Spark runs locally and quietly: no UI, no network beyond this host, no
downloads, no output on the console.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_NEEDED: Final = 17

SQL_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default for timestamps in Parquet is INT96, which other readers no longer expect.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # For columns that are derived from each other, the optimizer's inferred constraints would grow
    # until memory is exhausted.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings of every session that runs the audit's queries."""

_LOCAL: Final = "local[*]"
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
    "The audit runs on Spark: install PySpark 4 with  pip install 'tidegate[audit]'  (or "
    "pip install 'pyspark>=4,<5')."
)


def what_is_missing() -> str | None:
    """Say what is missing to run the audit here and how to get it; None if nothing is."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed. {_PYSPARK_HINT}"
    import pyspark

    if int(pyspark.__version__.partition(".")[0]) < 4:
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


def start_spark(log: Path, master: str | None = None) -> "SparkSession":
    """Start Spark: in this process and its JVM, on a cluster, or as ``spark-submit`` says.

    Args:
        log: file for the output of Spark, its JVM and its Python workers; not for that of a
            cluster's executors. It is not written where ``spark-submit`` has started this process.
        master: Spark's URL of a cluster; None for all cores of this machine, or for what
            ``spark-submit`` was told.

    Raises:
        RuntimeError: ``spark-submit`` and `master` were both given.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = {"spark.app.name": "tidegate audit", **SQL_SETTINGS}
    if _SUBMITTED in os.environ:
        if master is not None:
            raise RuntimeError("give the master to spark-submit, which has started this process")
        return archive.shipped(SparkSession.builder.config(map={**settings}).getOrCreate())
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
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
            # Spark generates long methods, which Java by default never compiles. On few cores, the
            # parallel collector, which stops all threads, costs half as much as a concurrent one.
            "spark.driver.defaultJavaOptions": "-XX:-DontCompileHugeMethods -XX:+UseParallelGC",
        }
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    with log.open("wb") as output:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]  # PySpark left it untyped
            conf, {"stdout": output, "stderr": output}
        )
    spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
    return spark if here else archive.shipped(spark)
