import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import protocol
from proxy import cli, workers
from proxy.config import Config, load
from proxy.config.options import OPTIONS
from proxy.version import VERSION

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that `run` was given."""
    configs: list[Config] = []

    def run(config: Config, *, reading: workers.Reading, takes_over: bool) -> int:
        assert not takes_over
        assert reading.read() == config  # as a reload reads it
        configs.append(config)
        return 7

    monkeypatch.setattr(workers, "run", run)
    return configs


def test_run_gives_the_configuration_and_the_status(ran: list[Config], tmp_path: Path) -> None:
    path = tmp_path / "tidegate.toml"
    path.write_text('primary = "db1"\nworkers = 3\n')
    arguments = ["--replicas", "db2,db3", "--replica", "db4", "--wait-budget=1s"]
    assert cli.main(["run", "--config", str(path), *arguments]) == 7
    expected = {"replicas": ["db2,db3", "db4"], "wait-budget": ["1s"]}
    assert ran == [load(path, expected)]
    assert len(ran[0].replicas) == 3


def test_every_option_is_an_argument(ran: list[Config], tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("secret")
    config = load(
        None,
        {
            "primary": ["db1"],
            "monitor-user": ["w"],
            "monitor-password-file": [str(tmp_path / "pw")],
            "server-tls": ["verify_identity"],
        },
    )
    values = tomllib.loads(config.to_toml())
    arguments = ["run"]
    for name, value in values.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        if text:
            arguments += [f"--{name}", text]
    assert cli.main(arguments) == 7
    assert ran == [config]
    missing = {option.name for option in OPTIONS} - set(values)
    assert missing == {
        *("client-tls-cert", "client-tls-key", "heartbeat-table", "metrics", "routing-log"),
        *("admin-listen", "admin-token-file", "socket", "zone", "trace-endpoint", "trace-sample"),
        *("rsa-key", "server-tls-ca", "state-dir", "control-socket", "token-key-file"),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "tidegate: primary is missing: give --primary HOST:PORT, or set it in the file"),
        (["run", "--primary", "a", "--wait-bugdet", "1s"], "did you mean --wait-budget?"),
        (["run", "--primary", "a", "--wait_bugdet=1s"], "did you mean --wait-budget?"),
        (["run", "--primary", "a", "--wait", "1s"], "--wait: unknown option"),
        (["run", "--primary", "a", "b"], "tidegate: b: not understood; see tidegate run --help"),
        (
            ["run", "--primary"],
            "argument --primary: expected one argument; see tidegate run --help",
        ),
        (["run", "--primary", "a", "--workers", "x"], "tidegate: --workers x: want a whole number"),
        (["check", "--config", "none.toml"], "tidegate: none.toml: cannot be read: No such file"),
        (["rum"], "invalid choice: 'rum'"),
        (["audit"], "the following arguments are required: --log"),
        (["--nothing", "run", "--primary", "a"], "--nothing: unknown option"),
    ],
)
def test_errors_are_one_line_and_status_2(
    ran: list[Config], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tidegate: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert ran == []


def test_check_prints_what_would_run_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ran: list[Config]
) -> None:
    password = tmp_path / "pw"
    password.write_text("s3cret")
    password.chmod(0o644)
    path = tmp_path / "tidegate.toml"
    path.write_text('primary = "db1"\nmonitor-user = "w"\nmonitor-password-file = "pw"\n')
    assert cli.main(["check", "--config", str(path), "--workers", "2"]) == 0
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err
    assert "tidegate: warning: monitor-password-file" in captured.err
    effective = tmp_path / "effective.toml"
    effective.write_text(captured.out)
    assert load(effective, {}) == load(path, {"workers": ["2"]})
    assert ran == []


@pytest.mark.parametrize(("scope", "notes"), [("connection", 1), ("user", 0)])
def test_check_says_what_the_narrowest_scope_leaves_out(
    capsys: pytest.CaptureFixture[str], scope: str, notes: int
) -> None:
    assert cli.main(["check", "--primary", "db1", "--replicas", "db2", "--scope", scope]) == 0
    assert capsys.readouterr().err.count("tidegate: note: ") == notes


def test_check_looks_into_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.pem").write_text("nothing")
    pair = [
        "--client-tls-cert",
        str(tmp_path / "x.pem"),
        "--client-tls-key",
        str(tmp_path / "x.pem"),
    ]
    assert cli.main(["check", "--primary", "db1", *pair]) == 2
    assert "no usable PEM certificate" in capsys.readouterr().err


def test_help_names_everything_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for option in OPTIONS:
        assert len(re.findall(rf"^  --{option.name}[ ,]", text, re.MULTILINE)) == 1, option.name
        for choice in option.choices:
            assert choice in text
    assert "examples:" in text


def test_without_a_command_it_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    text = capsys.readouterr().out
    for command in ("run", "check", "audit", "demo"):
        assert re.search(rf"^    {command} +\w", text, re.MULTILINE)


def test_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    form = "compiled" if protocol.compiled() else "not compiled"
    assert capsys.readouterr().out.startswith(f"tidegate {VERSION} ({form}, Python 3.")


def test_audit_is_run_by_name_and_has_options_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def main(arguments: list[str]) -> int:
        calls.append(arguments)
        return 1

    nightly = types.ModuleType("spark_jobs.nightly")
    nightly.__dict__["main"] = main
    monkeypatch.setitem(sys.modules, "spark_jobs.nightly", nightly)
    every = [["--log", "a", "--out=b", "c", "--", "-x"], ["--help"], ["--version"], []]
    for arguments in every:
        assert cli.main(["audit", *arguments]) == 1
    assert calls == every


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proxy.cli", "run", "--primary", "x y"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("tidegate: --primary x y: want HOST:PORT")


def test_commands_load_only_what_they_need() -> None:
    script = (
        "import sys; from proxy import cli; cli.main(['run', '--primary', 'x y']);"
        "print(sorted({'uvloop', 'asyncio', 'prometheus_client', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]"]
