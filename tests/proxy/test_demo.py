"""The demo runs, and its figures are those of its clients and of the routing log."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest

from proxy import cli, demo, demo_audit
from proxy.config import ConfigError

LAG_S = 3.0


def figures(output: str, title: str) -> dict[str, str]:
    """A line of the table, by its heads."""
    lines = output.splitlines()
    heads = next(line for line in lines if line.split()[:2] == ["reads", "stale"]).split()
    line = next(line for line in lines if line.startswith(f"{title} "))
    return dict(zip(heads, line.removeprefix(title).split(), strict=False))


@pytest.mark.not_fast
def test_figures(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    audited: list[int] = []

    async def show(log: Path, name: str) -> None:
        assert name == f"demo-{len(demo.SETTINGS) - 1}"
        audited.append(sum(len(demo._reads(log, f"demo-{n}")) for n in range(len(demo.SETTINGS))))

    monkeypatch.setattr(demo_audit, "show", show)
    monkeypatch.setattr(demo, "LAG_S", LAG_S)
    monkeypatch.setattr(demo, "CONNECTIONS", 2)
    monkeypatch.setattr(demo, "ROUNDS", 1)
    setup = (sys.executable, "-c", "print('What the audit needs is being installed.')")
    assert demo.run_demo(once=True, audit_setup=setup) == 0
    output = capfd.readouterr().out
    table, installed, _ = output.partition("What the audit needs is being installed.")
    assert installed
    assert demo.SETTINGS[-1].title in table
    reads = 2 * demo.READS_PER_ROUND
    best_effort = figures(output, "BEST_EFFORT")
    assert (best_effort["replicas"], best_effort["primary"]) == (str(reads), "0")
    assert int(best_effort["stale"]) > 0
    for setting in demo.SETTINGS[1:]:
        own_writes = figures(output, setting.title)
        assert (own_writes["reads"], own_writes["stale"]) == (str(reads), "0")
        assert int(own_writes["replicas"]) + int(own_writes["primary"]) == reads
    assert audited == [reads * len(demo.SETTINGS)]


def test_what_the_audit_needs_is_installed_or_its_lack_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def prepared(*setup: str) -> bool:
        return asyncio.run(demo_audit.prepare(setup))

    assert prepared()
    assert prepared(sys.executable, "-c", "")
    assert not capsys.readouterr().out
    assert not prepared(sys.executable, "-c", "raise SystemExit(1)")
    assert "what it needs is not installed" in capsys.readouterr().out
    assert not prepared("/no/such/program")
    assert "/no/such/program cannot be run: No such file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "setup"),
    [
        ([], ()),
        (["--audit-setup", "pip", "install"], ["pip", "install"]),
        (["--no-audit"], None),
        (["--no-audit", "--audit-setup", "pip", "install"], None),
    ],
)
def test_options(
    monkeypatch: pytest.MonkeyPatch, options: list[str], setup: list[str] | None
) -> None:
    given: list[object] = []
    monkeypatch.setattr(demo, "run_demo", lambda *arguments: given.extend(arguments) or 0)
    assert cli.main(["demo", "--once", *options]) == 0
    assert given == [True, setup]


def test_a_failed_workload_is_told_and_not_thrown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "PASSWORD", "never-mind")
    monkeypatch.setattr(demo, "_create_table", lambda _port: None)
    assert demo.run_demo(once=True) == 1
    assert "the workload failed" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["pymysql", "sqlglot"])
def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in list(sys.modules):
        if name == "proxy.demo" or name.partition(".")[0] in (missing, "mysql_mocker"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pip install 'tidegate\[demo\]'"):
        importlib.import_module("proxy.demo")
