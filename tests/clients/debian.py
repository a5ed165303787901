"""Debian packages of this machine's own release, unpacked beside the system."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.clients.environment import quietly


def unpack(packages: list[str], target: Path) -> None:
    """Have these packages' files below a folder; nothing is installed, and no other comes along.

    They are fetched by apt as this machine configures it, with lists of its own.

    Raises:
        FileNotFoundError: this is no Debian.
        subprocess.CalledProcessError: apt failed; its output has been printed.
    """
    unpacked = target / "unpacked"
    if unpacked.exists() and unpacked.read_text().split() == packages:
        return
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        (Path(work) / "lists" / "partial").mkdir(parents=True)
        options = [f"Dir::State::lists={work}/lists", f"Dir::Cache={work}", "Debug::NoLocking=1"]
        options += ["APT::Sandbox::User=root"]
        apt = ["apt-get", "-qq", *(part for option in options for part in ("-o", option))]
        quietly(*apt, "update")
        quietly(*apt, "download", *packages, cwd=Path(work))
        for package in Path(work).glob("*.deb"):
            quietly("dpkg-deb", "-x", str(package), str(target))
    unpacked.write_text(" ".join(packages))
