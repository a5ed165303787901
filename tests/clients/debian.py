"""Debian packages of this machine's own release: unpacked beside the system, or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
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


def install(packages: list[str]) -> None:
    """Have these installed on this machine, with what they need.

    For interpreters, whose extensions are found only where their packages put them.

    Raises:
        RuntimeError: some are missing, and this user may not install them.
        subprocess.CalledProcessError: apt failed; its output has been printed.
    """
    missing = [package for package in packages if not _installed(package)]
    if not missing:
        return
    if os.getuid():
        raise RuntimeError(f"needs Debian's {' '.join(missing)}: apt-get install them first")
    quietly("apt-get", "-qq", "update")
    quietly(
        *("apt-get", "-qq", "-y", "--no-install-recommends", "install", *missing),
        extra={"DEBIAN_FRONTEND": "noninteractive"},
    )


def _installed(package: str) -> bool:
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout == "installed"


def source(package: str, target: Path) -> Path:
    """Fetch a package's upstream source and unpack it anew; return its one folder.

    Raises:
        FileNotFoundError: this is no Debian.
        subprocess.CalledProcessError: apt failed; its output has been printed.
    """
    target.mkdir(parents=True, exist_ok=True)
    if not list(target.glob("*.orig.tar.*z")):
        with tempfile.TemporaryDirectory(dir=target) as work:
            (Path(work) / "lists" / "partial").mkdir(parents=True)
            listed = Path(work) / "sources.list"
            listed.write_text(f"deb-src [signed-by={_KEYS}] {_archive()} {_release()} main\n")
            options = [
                *(f"Dir::Etc::sourcelist={listed}", "Dir::Etc::sourceparts=-"),
                *(f"Dir::State::lists={work}/lists", f"Dir::Cache={work}"),
                *("Debug::NoLocking=1", "APT::Sandbox::User=root"),
            ]
            apt = ["apt-get", "-qq", *(part for option in options for part in ("-o", option))]
            quietly(*apt, "update")
            quietly(*apt, "source", "--download-only", "--tar-only", package, cwd=target)
    (archive,) = target.glob("*.orig.tar.*z")
    unpacked = target / "unpacked-source"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    return folder


def _archive() -> str:
    """The address of Debian's archive, as apt understands its configuration."""
    for line in quietly("apt-get", "--print-uris", "update").splitlines():
        address, found, _ = line.strip("'").partition("/dists/")
        if found and address.endswith("/debian"):
            return address
    raise FileNotFoundError("apt's configuration names no Debian archive")


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2]
    raise FileNotFoundError("/etc/os-release names no release of Debian")


_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
