"""What people install: packages that collide with nobody's, from a wheel and from the sdist."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import setup as build

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SOURCES = (
    *("tidegate", "packaging", *build.PACKAGES),
    *("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"),
    *PAGES,
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a wheel is made of, since a build writes beside them."""
    folder = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    # What a compilation in place, or a build of older sources, left there.
    left = folder / "build" / "lib" / "protocol"
    left.mkdir(parents=True)
    (left / "left.py").touch()
    return folder


def command(*words: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**{n: v for n, v in os.environ.items() if n != "PYTHONPATH"}, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages, as an installation has it, with others that have our old names."""
    wheels = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", wheels)
    command(*pip, "wheel", *options, ".", folder=copy, TIDEGATE_COMPILED="0")
    (wheel,) = wheels.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    site = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(site)
    for name in build.PACKAGES:
        (site / f"{name}.py").write_text("raise SystemExit('another project')\n")
    return site


def python(installed: Path, *words: str, **environment: str) -> str:
    """Run this Python where only the installed packages are found, with what they need."""
    return command(
        sys.executable, *words, folder=installed.parent, PYTHONPATH=str(installed), **environment
    )


@pytest.mark.not_fast
def test_nothing_is_installed_beside_tidegate(installed: Path) -> None:
    others = {f"{name}.py" for name in build.PACKAGES}
    names = {path.name for path in installed.iterdir()} - others
    # What is in .data goes below the installation's prefix: the manual page, completions, a unit.
    assert {re.sub(r"-.*\.", ".", name) for name in names} == {
        "tidegate",
        "tidegate.data",
        "tidegate.dist-info",
    }
    (top_level,) = installed.glob("*.dist-info/top_level.txt")
    assert top_level.read_text().split() == ["tidegate"]


@pytest.mark.not_fast
def test_the_licence_is_installed(installed: Path) -> None:
    (metadata,) = installed.glob("*.dist-info/METADATA")
    fields = metadata.read_text().partition("\n\n")[0].splitlines()
    assert "License-Expression: Apache-2.0" in fields
    assert "License-File: LICENSE" in fields
    (licence,) = installed.glob("*.dist-info/licenses/LICENSE")
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.not_fast
def test_the_sdist_has_the_pages_beside_the_sources(copy: Path, tmp_path: Path) -> None:
    command(
        sys.executable, "setup.py", "-q", "sdist", "--formats", "zip", "-d", tmp_path, folder=copy
    )
    (archive,) = tmp_path.glob("*.zip")
    with zipfile.ZipFile(archive) as sdist:
        names = {name.partition("/")[2] for name in sdist.namelist()}
    assert {"README.md", "LICENSE", *PAGES} <= names


@pytest.mark.not_fast
@pytest.mark.spark  # modules of the audit import PySpark
def test_every_module_loads_beside_others_of_the_old_names(installed: Path) -> None:
    modules = [
        path.relative_to(installed).with_suffix("").as_posix().replace("/", ".")
        for path in installed.glob("tidegate/**/*.py")
        if path.stem not in ("__init__", "__main__")
    ]
    assert len(modules) > 150
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        f"print(sorted(set({build.PACKAGES!r}) & set(sys.modules)))\n"
    )
    assert python(installed, "-c", code, *modules) == "[]\n"


@pytest.mark.not_fast
@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_command_runs(installed: Path, pure: str) -> None:
    output = python(installed, "-m", "tidegate", "--version", TIDEGATE_PURE=pure)
    assert output.startswith("tidegate ")
    assert "not compiled" in output
    output = python(installed, "-m", "tidegate", "check", "--primary", "db1", "--replicas", "db2")
    assert 'primary = "db1:3306"' in output
    (entry,) = installed.glob("*.dist-info/entry_points.txt")
    assert "tidegate = tidegate.__main__:main" in entry.read_text()


@pytest.mark.not_fast
def test_the_demo_runs(installed: Path) -> None:
    assert "READ_OWN_WRITES" in python(installed, "-m", "tidegate", "demo", "--once", "--no-audit")


@pytest.mark.not_fast
def test_the_mock_cluster_runs(installed: Path) -> None:
    code = (
        "from tidegate.mysql_mocker import MockCluster\n"
        "from tidegate.mysql_mocker.pytest_plugin import mysql_cluster\n"
        "with MockCluster(replicas=1, lag='1h', http=0) as cluster:\n"
        "    print([state.role for state in cluster.state()])\n"
    )
    assert python(installed, "-c", code) == "['primary', 'replica']\n"
    assert "tidegate mock --port 3307" in python(installed, "-m", "tidegate", "mock", "--help")


def test_an_import_is_turned_and_nothing_else() -> None:
    source = (
        "from routing.gtid import X\n    import protocol as protocol\nimport proxying\n"
        "x = 'from proxy'\nfrom spark_jobs import (\n"
    )
    assert build.installed(source) == (
        "from tidegate.routing.gtid import X\n    import tidegate.protocol as protocol\n"
        "import proxying\nx = 'from proxy'\nfrom tidegate.spark_jobs import (\n"
    )


@pytest.mark.not_fast
@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_the_sdist_builds_and_runs_in_an_empty_environment(copy: Path, tmp_path: Path) -> None:
    command(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    programs = tmp_path / "venv" / "bin"
    pip = (programs / "pip", "--disable-pip-version-check", "--quiet")
    command(*pip, "install", "build", folder=tmp_path)
    command(
        programs / "python", "-m", "build", "--outdir", tmp_path / "dist", copy, folder=tmp_path
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    # The other project that has a package `proxy`.
    command(*pip, "install", "proxy.py", f"{wheel}[demo]", folder=tmp_path)
    output = command(programs / "tidegate", "--version", folder=tmp_path)
    assert ("(compiled" in output) is build.compiles()
    pure = command(programs / "tidegate", "--version", folder=tmp_path, TIDEGATE_PURE="1")
    assert "(not compiled" in pure
    check = command(programs / "tidegate", "check", "--primary", "db1", folder=tmp_path)
    assert 'primary = "db1:3306"' in check
    demo = command(programs / "tidegate", "demo", "--once", "--no-audit", folder=tmp_path)
    assert "READ_OWN_WRITES" in demo
