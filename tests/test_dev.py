"""The command `./dev`: which of its commands install and compile, and what."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))

PYTHON = """\
#!/bin/sh
printf '%s | %s\\n' "$*" "pure=${TIDEGATE_PURE:-}" >>"$CALLS"
case $* in *"$FAILING"*) echo 'no network' >&2; exit 1 ;; esac
"""

TOOL = """\
#!/bin/sh
printf '%s %s\\n' "${0##*/}" "$*" >>"$CALLS"
"""
"""Stands for ruff, mypy, Java and what fetches MySQL."""


@dataclass
class Tree:
    """A copy of `./dev` and the locks, with a Python that only notes how it is called."""

    folder: Path

    def dev(self, *words: str, failing: str = "nothing", **environment: str) -> tuple[int, str]:
        """Run `./dev`; return its status and what it printed."""
        process = subprocess.run(
            [self.folder / "dev", *words],
            env={**os.environ, **environment, "CALLS": str(self.calls), "FAILING": failing},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return process.returncode, process.stdout

    @property
    def calls(self) -> Path:
        return self.folder / "calls"

    def called(self) -> list[str]:
        """The calls of Python since the last time, without those that look whether it works."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [line for line in lines if not line.startswith(("-c ", "java "))]

    def installed(self) -> set[str]:
        return {path.name for path in (self.folder / ".venv").glob("requirements*.lock")}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    tools = (
        *(programs / name for name in ("java", "mypy", "ruff")),
        tmp_path / "scripts/install-mysql",
    )
    for path in (programs / "python", *tools):
        path.write_text(PYTHON if path.name == "python" else TOOL)
        path.chmod(0o755)
    (tmp_path / ".venv" / "made-in").write_text(f"{tmp_path / '.venv'}\n")
    for name in ("dev", "pyproject.toml", *LOCKS):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "dev").chmod(0o755)
    return Tree(tmp_path)


def test_a_demo_installs_what_it_needs_and_compiles_nothing(tree: Tree) -> None:
    status, output = tree.dev("demo", "--once", "--no-audit", TIDEGATE_PURE="")
    assert status == 0, output
    *pip, demo = tree.called()
    assert all(call.startswith("-m pip ") and "--editable" not in call for call in pip)
    assert tree.installed() == {"requirements.lock", "requirements-demo.lock"}
    assert demo == "-m tidegate demo --once --no-audit | pure=1"


def test_a_second_demo_installs_nothing(tree: Tree) -> None:
    tree.dev("demo", "--no-audit")
    tree.called()
    status, output = tree.dev("demo", "--no-audit")
    assert (status, output) == (0, "")
    assert [call.split()[:3] for call in tree.called()] == [["-m", "tidegate", "demo"]]


def test_the_demo_itself_installs_what_the_audit_needs(tree: Tree) -> None:
    tree.dev("demo", "--once")
    demo = tree.called()[-1]
    assert demo.startswith(f"-m tidegate demo --once --audit-setup {tree.folder}/dev install-audit")
    assert "requirements-audit.lock" not in tree.installed()
    java = str(tree.folder / ".venv")
    status, output = tree.dev("install-audit", JAVA_HOME=java)
    assert status == 0
    assert "the audit needs PySpark, 450 MB, once" in output
    assert "requirements-audit.lock" in tree.installed()
    assert tree.dev("install-audit", JAVA_HOME=java) == (0, "")


def test_an_audit_that_cannot_be_installed_is_told(tree: Tree) -> None:
    java = str(tree.folder / ".venv")
    status, output = tree.dev("install-audit", failing="requirements-audit", JAVA_HOME=java)
    assert status == 1
    assert "no network" in output
    assert "requirements-audit.lock" not in tree.installed()
    assert not list((tree.folder / ".cache").iterdir())


def test_an_installation_compiles(tree: Tree) -> None:
    tree.dev("demo", "--no-audit")
    tree.called()
    status, output = tree.dev("install")
    assert status == 0, output
    assert tree.called()[-1].startswith("scripts/compile_in_place.py")
    assert "requirements-dev.lock" in tree.installed()


FAST_LOCKS = {"requirements.lock", "requirements-dev.lock", "requirements-test.lock"}


def test_a_fast_test_needs_nothing_but_python_and_compiles_nothing(tree: Tree) -> None:
    status, output = tree.dev("test", "--fast", JAVA_HOME="/nowhere", TIDEGATE_PURE="")
    assert status == 0, output
    assert tree.installed() == FAST_LOCKS
    *pip, form, lint, types, tests = tree.called()
    assert all(call.startswith("-m pip ") and "--editable" not in call for call in pip)
    assert (form, lint) == ("ruff format --check .", "ruff check .")
    assert types.startswith("mypy ")
    assert tests.startswith("-m pytest --fast ")
    assert tests.endswith("| pure=")


def test_a_fast_test_may_be_of_some_files(tree: Tree) -> None:
    status, output = tree.dev("test", "--fast", "tests/routing", "-k", "a", JAVA_HOME="/nowhere")
    assert status == 0, output
    assert tree.installed() == FAST_LOCKS
    assert tree.called()[-1].startswith("-m pytest --fast tests/routing -k a |")


def test_types_of_the_audit_are_checked_where_pyspark_is(tree: Tree) -> None:
    status, output = tree.dev("check")
    assert status == 0
    assert tree.installed() == FAST_LOCKS
    called = tree.called()
    assert not any("--editable" in call or "compile_in_place" in call for call in called)
    assert "types of spark_jobs/ are not checked" in output
    assert "--exclude" in called[-1]
    (tree.folder / ".venv" / "requirements-audit.lock").touch()
    assert tree.dev("check") == (0, "")
    assert tree.called()[-1].strip() == "mypy --num-workers 2"


def test_the_whole_suite_has_all_that_a_test_needs(tree: Tree) -> None:
    java = str(tree.folder / ".venv")
    status, output = tree.dev("test", JAVA_HOME=java, TIDEGATE_MYSQLD="", TIDEGATE_PURE="")
    assert status == 0, output
    assert tree.installed() == FAST_LOCKS | {"requirements-audit.lock"}
    called = tree.called()
    assert "install-mysql " in called
    assert any(call.startswith("scripts/compile_in_place.py |") for call in called)
    plain, whole = (call for call in called if call.startswith("-m pytest "))
    assert plain.startswith("-m pytest -q -n 2 --plain ")
    assert plain.endswith("| pure=1")
    assert whole.startswith("-m pytest -n ")
    assert "--fast" not in whole
    assert called[-1] == whole


def test_the_whole_suite_does_not_run_where_the_compilation_failed(tree: Tree) -> None:
    java = str(tree.folder / ".venv")
    status, output = tree.dev("test", failing="scripts/compile_in_place.py", JAVA_HOME=java)
    assert status == 1, output
    assert not any(call.startswith("-m pytest ") for call in tree.called())


def test_the_help_names_every_command(tree: Tree) -> None:
    status, output = tree.dev("help")
    assert status == 0
    first = output.partition("\n\n")[2].splitlines()[0]
    assert first.startswith("  test --fast ")
    for command in ("demo", "test", "bench", "chaos", "audit", "check", "format", "install"):
        assert f"\n  {command} " in output
    status, output = tree.dev("nonsense")
    assert status == 1
    assert "no such command: nonsense" in output
