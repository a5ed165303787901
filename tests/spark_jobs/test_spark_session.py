"""Any Spark: a cluster, Spark Connect, ``spark-submit`` and an archive, a session that is there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.ports import reserve_port
from spark_jobs import nightly
from spark_jobs.archive import pack
from spark_jobs.options import Options
from spark_jobs.spark_session import SMALL_BYTES, is_local, settings_for, start_spark
from tests.clients import versions
from tests.clients.environment import Environment
from tests.spark_jobs.mounted import mount
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]
NAME = "elsewhere"
ROOT = Path(__file__).parents[2]

timeout = pytest.mark.timeout(1200)


def log_with_everything(folder: Path) -> Path:
    """A clean run, one with a violation, one with doubt."""
    run = Run("a1")
    run.probe("r1", f"{P}:1-5")
    run.write(7, f"{P}:6")
    run.waited(7, "r1", f"{P}:6", required=f"{P}:6")
    run.write(7, f"{P}:8:10")
    run.known(7, "r1", f"{P}:1-8", required=f"{P}:8")
    other = Run("b2", proxy="gate2", clock=run.clock)
    other.unnamed(8)
    other.waited(8, "r1", f"{P}:1")
    other.waited(9, "r1", f"{P}:6-10", level="STRONG")
    save(folder, run, other)
    return folder


def verdicts(spark: "SparkSession", out: Path) -> list[tuple[object, ...]]:
    reads = spark.read.parquet(str(out / "reads"))
    return sorted(map(tuple, reads.select("run", "seq", "verdict", "finding").collect()), key=str)


def audited(command: Sequence[str], log: Path, out: Path, uri: str = "", **environment: str) -> str:
    """Audit a log; with the URI of the folder of log and results, only Spark meets these."""
    places = ["--log", str(log), "--out", str(out)]
    if uri:
        places = ["--log", f"{uri}/{log.name}", "--out", f"{uri}/{out.name}"]
        places += ["--report", str(out.parent / "report")]
    done = subprocess.run(
        [*command, *places],
        capture_output=True,
        text=True,
        cwd=out.parent,  # not where the sources could be found by chance
        env={**os.environ, **environment},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def test_what_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_local(None)
    assert is_local("local[2]")
    assert is_local("local-cluster[2,1,1024]")
    assert not is_local("spark://head:7077")
    assert not is_local("yarn")
    assert not is_local("sc://head:15002")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not is_local(None)


def test_no_traceback_tells_of_garbage_in_a_jvm_that_has_ended(
    spark: "SparkSession", caplog: pytest.LogCaptureFixture
) -> None:
    import logging

    from py4j import java_gateway  # type: ignore[import-untyped]  # it has no types

    from spark_jobs.spark_session import _is_worth_logging

    assert "Exception while sending command." in Path(java_gateway.__file__).read_text()
    caplog.handler.addFilter(_is_worth_logging)
    logging.error("Exception while sending command.")
    logging.error("Exception")
    assert caplog.messages == ["Exception"]


def test_only_a_small_log_is_judged_without_generated_code() -> None:
    small, large, unknown = (settings_for(it) for it in (SMALL_BYTES, SMALL_BYTES + 1, None))
    assert small["spark.sql.codegen.wholeStage"] == "false"
    assert "TieredStopAtLevel=1" in small["spark.driver.defaultJavaOptions"]
    assert "spark.sql.codegen.wholeStage" not in large
    assert "TieredStopAtLevel" not in large["spark.driver.defaultJavaOptions"]
    assert unknown == large


@pytest.mark.spark
def test_the_archive_has_all_that_executors_import(tmp_path: Path) -> None:
    pack(tmp_path / "modules.zip")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import protocol.gtid, spark_jobs.reads.judge, spark_jobs.gtid as g; print(g.__file__);"
        "from importlib.resources import files; report = files('spark_jobs.report');"
        "[(report / name).read_text() for name in ('page.css', 'page.html.jinja')]"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path / "modules.zip")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "modules.zip" in done.stdout


@pytest.mark.spark
@pytest.mark.deep
@timeout
def test_a_session_that_is_there_goes_on(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object) -> "SparkSession":
        raise AssertionError("another Spark was started")

    monkeypatch.setattr(nightly, "start_spark", no_spark)
    log, out = log_with_everything(tmp_path / "log"), tmp_path / "out"
    assert nightly.run_with(Options(log=log, out=out), spark) == 1
    assert len(verdicts(spark, out)) == 4  # it still runs
    assert {path.name for path in out.glob("tidegate-audit-*")} == set()


@pytest.mark.spark
@pytest.mark.deep
@timeout
def test_a_cluster_of_two_workers_says_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    log = log_with_everything(tmp_path / "log")
    events, settings = tmp_path / "events", tmp_path / "settings"
    events.mkdir()
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(
        "spark.eventLog.enabled true\nspark.eventLog.rolling.enabled false\n"
        f"spark.eventLog.compress false\nspark.eventLog.dir {events.as_uri()}\n"
        + "".join(f"spark.hadoop.{key} {value}\n" for key, value in mount(NAME, tmp_path).items())
    )
    here = audited(
        [sys.executable, "-m", "spark_jobs.nightly"],
        log,
        tmp_path / "here",
        PYTHONPATH=str(ROOT),
    )
    for name, uri in (("there", ""), ("elsewhere", f"viewfs://{NAME}/here")):
        there = audited(
            [sys.executable, "-m", "spark_jobs.nightly", "--master", "local-cluster[2,1,1024]"],
            log,
            tmp_path / name,
            uri,
            PYTHONPATH=str(ROOT),
            SPARK_CONF_DIR=str(settings),
        )
        (application,) = events.iterdir()
        lines = [json.loads(line) for line in application.read_text().splitlines()]
        worked = {
            line["Task Info"]["Executor ID"]
            for line in lines
            if line["Event"] == "SparkListenerTaskEnd"
        }
        assert len(worked) == 2
        # A local cluster leaves its workers' folders where Spark is installed.
        shutil.rmtree(spark_home() / "work" / application.name, ignore_errors=True)
        application.unlink()
        assert here.rpartition("Report")[0] == there.rpartition("Report")[0]
        assert verdicts(spark, tmp_path / "here") == verdicts(spark, tmp_path / name)


def test_without_a_server_of_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    place = f"127.0.0.1:{reserve_port()}"
    for url in (f"sc://{place}", f"sc://{place}/;token=secret", f"sc://me:secret@{place}"):
        with pytest.raises(ConnectionError, match=f"can be reached at {place}: start") as error:
            start_spark(tmp_path / "spark.log", url)
        assert "secret" not in str(error.value)
    for place in ("127.0.0.1:port", "127.0.0.1:99999", "nobody.invalid", ""):
        with pytest.raises(ConnectionError, match=f"can be reached at {place}: start") as error:
            start_spark(tmp_path / "spark.log", f"sc://{place};token=secret")
        assert "secret" not in str(error.value)


@contextmanager
def connect_server(output: Path, *settings: str) -> Iterator[str]:
    """Start a server of Spark Connect; give its URL."""
    port = reserve_port()
    options = (f"spark.connect.grpc.binding.port={port}", "spark.ui.enabled=false", *settings)
    environment = {
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(output.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    with output.open("wb") as file:
        server = subprocess.Popen(
            [
                str(spark_home() / "sbin" / "start-connect-server.sh"),
                *("--master", "local[2]"),
                *(text for option in options for text in ("--conf", option)),
            ],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        while "Spark Connect server started" not in output.read_text():
            assert server.poll() is None, output.read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.spark
@pytest.mark.deep
@timeout
def test_spark_connect_says_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    place = Environment("spark-connect")
    place.install(*versions.SPARK_CONNECT)
    log = log_with_everything(tmp_path / "log")
    command = [sys.executable, "-m", "spark_jobs.nightly"]
    here = audited(command, log, tmp_path / "here", PYTHONPATH=str(ROOT))
    few = {name: value for name, value in settings_for(1).items() if ".sql." in name}
    few |= {f"spark.hadoop.{key}": value for key, value in mount(NAME, tmp_path).items()}
    settings = (f"{name}={value}" for name, value in few.items())
    with connect_server(tmp_path / "server.log", *settings) as url:
        for name, uri in (("there", ""), ("elsewhere", f"viewfs://{NAME}/here")):
            there = audited(
                [*command, "--master", url],
                log,
                tmp_path / name,
                uri,
                PYTHONPATH=f"{ROOT}:{place.packages()}",
            )
            assert here.rpartition("Report")[0] == there.rpartition("Report")[0]
            assert verdicts(spark, tmp_path / "here") == verdicts(spark, tmp_path / name)


@pytest.mark.spark
@pytest.mark.deep
@timeout
def test_spark_submit_with_an_archive(spark: "SparkSession", tmp_path: Path) -> None:
    pack(tmp_path / "tidegate.zip")
    (tmp_path / "audit.py").write_text(
        "import sys\nfrom spark_jobs.nightly import main\nsys.exit(main())\n"
    )
    out = tmp_path / "out"
    printed = audited(
        [
            str(spark_home() / "bin" / "spark-submit"),
            *("--master", "local[2]", "--py-files", "tidegate.zip", "audit.py"),
        ],
        log_with_everything(tmp_path / "log"),
        out,
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH="",
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert "1 read may have been stale." in printed
    assert len(verdicts(spark, out)) == 4
