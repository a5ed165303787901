"""Plain and compiled modules: which of them is loaded, and when they are made again."""

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import protocol
from scripts import compile_in_place

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """A copy of the packages where an extension module that cannot load stands beside a source."""
    for package in compile_in_place.PACKAGES:
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    for module in ("protocol/errors", "routing/record", "proxy/version"):
        (tmp_path / f"{module}{EXTENSION_SUFFIXES[0]}").write_text("not an extension module")
    return tmp_path


def run(code: str, folder: Path, pure: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TIDEGATE_PURE": pure}
    command = [sys.executable, "-c", code]  # -c puts the working directory first on the path
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", ["protocol.errors", "routing.record", "proxy.version"])
def test_pure_loads_the_source_whichever_package_comes_first(shadowed: Path, module: str) -> None:
    done = run(f"import {module} as m; print(m.__file__)", shadowed, pure="1")
    assert done.stdout.strip() == str(shadowed / f"{module.replace('.', '/')}.py"), done.stderr


def test_an_extension_module_comes_first_otherwise(shadowed: Path) -> None:
    for pure in ("", "0"):
        done = run("import protocol.errors", shadowed, pure)
        assert "ImportError" in done.stderr


def test_says_what_runs() -> None:
    assert run("import protocol; print(protocol.compiled())", ROOT, pure="1").stdout == "False\n"
    has_binaries = bool(compile_in_place.binaries())
    assert (
        run("import protocol; print(protocol.compiled())", ROOT, pure="0").stdout
        == f"{has_binaries}\n"
    )
    plain_asked_for = os.environ.get("TIDEGATE_PURE", "0") not in ("", "0")
    assert protocol.compiled() is (has_binaries and not plain_asked_for)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of three modules: `hot` is compiled and imports `near`, which imports `far`."""
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol" / "hot.py").write_text("from protocol import near\n")
    (tmp_path / "protocol" / "near.py").write_text("import protocol.far\n")
    (tmp_path / "protocol" / "far.py").write_text("LIMIT = 1\n")
    (tmp_path / "protocol" / "cold.py").write_text("import protocol.hot\n")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[tool.tidegate]\ncompiled = ["protocol/hot.py"]\n')
    monkeypatch.setattr(compile_in_place, "ROOT", tmp_path)
    monkeypatch.setattr(compile_in_place, "STAMP", tmp_path / "build" / "stamp")
    return tmp_path


def test_a_change_anywhere_below_a_compiled_module_counts(project: Path) -> None:
    before = compile_in_place.fingerprint()
    (project / "protocol" / "cold.py").write_text("import protocol.hot  # changed\n")
    assert compile_in_place.fingerprint() == before
    (project / "protocol" / "far.py").write_text("LIMIT = 2\n")
    assert compile_in_place.fingerprint() != before


def test_what_is_compiled_is_fresh_until_a_source_changes(project: Path) -> None:
    assert not compile_in_place.fresh()
    (project / "setup.py").write_text(
        "import pathlib; pathlib.Path('protocol/hot.made.so').touch()\n"
    )
    compile_in_place.compile_in_place()
    assert compile_in_place.fresh()
    assert [path.name for path in compile_in_place.binaries()] == ["hot.made.so"]
    (project / "protocol" / "hot.py").write_text("")
    assert not compile_in_place.fresh()


def test_a_failed_compilation_is_loud_and_leaves_nothing_old(project: Path) -> None:
    (project / "protocol" / "hot.old.so").touch()
    (project / "setup.py").write_text("raise SystemExit('no such instruction')\n")
    with pytest.raises(SystemExit, match="no such instruction"):
        compile_in_place.compile_in_place()
    assert compile_in_place.binaries() == []
    assert not compile_in_place.fresh()


@pytest.mark.parametrize(
    ("mode", "compiler", "wanted"),
    [("auto", "true", True), ("auto", "false", False), ("0", "true", False), ("1", "true", True)],
)
def test_whether_modules_will_be_compiled_is_known_before(
    mode: str, compiler: str, wanted: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/compile_in_place.py", "--is-wanted"],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_COMPILED": mode, "CC": compiler},
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) is wanted
