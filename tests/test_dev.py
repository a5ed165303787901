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
        return [line for line in lines if not line.startswith("-c ")]

    def installed(self) -> set[str]:
        return {path.name for path in (self.folder / ".venv").glob("requirements*.lock")}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for path in (programs / "python", programs / "java"):
        path.write_text(PYTHON if path.name == "python" else "#!/bin/sh\n")
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


def test_the_help_names_every_command(tree: Tree) -> None:
    status, output = tree.dev("help")
    assert status == 0
    for command in ("demo", "test", "bench", "chaos", "audit", "check", "format", "install"):
        assert f"\n  {command} " in output
    status, output = tree.dev("nonsense")
    assert status == 1
    assert "no such command: nonsense" in output
