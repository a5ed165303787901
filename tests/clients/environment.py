"""A suite's own place: a virtual environment, and the source packages that it fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.real_mysql.template import CACHE

INSIDE = Path(__file__).parent / "inside"


class Environment:
    """A folder below ``.cache/clients`` that holds what one suite needs.

    Attributes:
        folder: the place.
        python: the interpreter of its virtual environment.
    """

    def __init__(self, name: str) -> None:
        self.folder = CACHE / "clients" / name
        self.python = self.folder / "venv" / "bin" / "python"

    def install(self, *requirements: str, extra: Mapping[str, str] | None = None) -> None:
        """Have these installed in the virtual environment, by pip and its configured index.

        Args:
            requirements: what pip is given; nothing is done if the same were installed before.
            extra: environment variables for what is built from source.

        Raises:
            subprocess.CalledProcessError: pip failed; its output has been printed.
        """
        installed = self.folder / "installed"
        wanted = "\n".join([sys.version, str(self.python), *requirements])
        if installed.exists() and installed.read_text() == wanted:
            return
        installed.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "venv", ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "pytest.ini").write_text("[pytest]\n")  # lest the project's own be found
        quietly(sys.executable, "-m", "venv", str(self.folder / "venv"))
        quietly(str(self.python), *_PIP, "install", *requirements, extra=extra)
        installed.write_text(wanted)

    def source(self, requirement: str, extra: Mapping[str, str] | None = None) -> Path:
        """Fetch a source package and unpack it anew, so that an earlier run left nothing in it.

        Args:
            requirement: ``NAME==VERSION``.
            extra: environment variables that its build wants even to tell its name.

        Returns:
            The folder that the package holds.
        """
        packages = self.folder / "packages" / requirement
        if not list(packages.glob("*.tar.gz")):
            name = requirement.partition("==")[0]
            download = ["download", "--no-deps", "--no-binary", name, "--dest", str(packages)]
            quietly(str(self.python), *_PIP, *download, requirement, extra=extra)
        (package,) = packages.glob("*.tar.gz")
        target = self.folder / "sources" / requirement
        shutil.rmtree(target, ignore_errors=True)
        with tarfile.open(package) as archive:
            archive.extractall(target, filter="data")
        (folder,) = target.iterdir()
        return folder

    def packages(self) -> Path:
        """The folder of the virtual environment that holds what is installed."""
        (folder,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return folder

    def replace(self, source: Path, target: Path) -> None:
        """Copy a folder to where an older copy may be."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    def pytest(self, *arguments: str) -> tuple[str, ...]:
        """The command that runs pytest in here, recording; a test that hangs fails."""
        options = ["-q", "-p", "tidegate_recording", "-p", "no:cacheprovider", "--tb=short"]
        options += ["--rootdir=."]  # where a test's name begins
        return (str(self.python), "-m", "pytest", *options, "--timeout=120", *arguments)


def quietly(*command: str, extra: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command and give its standard output; all that it wrote is shown only if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            command,
            env={**outside(), **(extra or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            check=False,
        )
        if done.returncode:
            output.seek(0)
            sys.stderr.write(done.stdout + output.read())
        done.check_returncode()
    return done.stdout


def outside() -> dict[str, str]:
    """This process's environment variables without those that would load the project's modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def adapt(path: Path, old: str, new: str) -> None:
    """Replace a passage of a fetched file; the reason stands where this is called.

    Raises:
        ValueError: the file does not have it, so the suite is not the one that was looked at.
    """
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path} does not have {old!r}")
    path.write_text(text.replace(old, new))


_PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
