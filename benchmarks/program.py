"""Finds the programs that a benchmark runs, and unpacks those that are not installed.

Nothing is installed: Debian's packages are unpacked below ``.cache`` with all their libraries, and
every program starts with its own libraries, whatever the system has.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".cache"
_PEERS: Final = CACHE / "peers"


class MissingProgramError(Exception):
    """A program is missing and could not be fetched; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is started: the first words of its command, and what its environment adds."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        """The whole environment for `subprocess`."""
        return {**os.environ, **self.environment}

    def version(self, *arguments: str) -> str:
        """The first line that the program prints about itself."""
        done = subprocess.run(
            [*self.command, *(arguments or ("--version",))],
            env=self.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        return (done.stdout or done.stderr).partition("\n")[0].strip()


def mysql_programs(*, router: bool) -> Path:
    """The folder of mysqld, mysql, mysqlslap and, with `router`, mysqlrouter.

    Raises:
        MissingProgramError: Debian's packages could not be unpacked.
    """
    script = [str(ROOT / "scripts" / "install-mysql"), *(["--router"] if router else [])]
    done = subprocess.run(["sh", *script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingProgramError(done.stderr.strip())
    return Path(os.environ.get("TIDEGATE_MYSQL_DIR", CACHE / "mysql")) / "bin"


def router_keyring(folder: Path) -> Program:
    """The mysqlrouter_keyring in the same folder as mysqlrouter."""
    wrapper = folder / "mysqlrouter"
    if wrapper.read_bytes()[:2] != b"#!":
        return Program((str(folder / "mysqlrouter_keyring"),))
    script = wrapper.read_text().replace('bin/mysqlrouter"', 'bin/mysqlrouter_keyring"')
    return Program(("sh", "-c", script, str(wrapper)))


def sysbench() -> Program:
    """Sysbench, the system's or an unpacked one.

    Raises:
        MissingProgramError: it is not installed and could not be unpacked.
    """
    installed = shutil.which("sysbench")
    if installed:
        return Program((installed,))
    root = _unpacked()
    (plugins,) = root.glob("usr/lib/*/libmariadb3/plugin")
    return Program(
        _with_own_libraries(root, "usr/bin/sysbench"),
        {"LUA_PATH": f"{root}/usr/share/sysbench/?.lua", "MARIADB_PLUGIN_DIR": str(plugins)},
    )


def sysbench_script(name: str) -> str:
    """Where one of sysbench's own Lua scripts is, for an installed or an unpacked sysbench."""
    folder = Path() if shutil.which("sysbench") else _unpacked()
    return str(Path("/", folder, "usr/share/sysbench", f"{name}.lua"))


def haproxy() -> Program:
    """HAProxy, the system's or an unpacked one.

    Raises:
        MissingProgramError: it is not installed and could not be unpacked.
    """
    installed = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    return Program(
        (installed,) if installed else _with_own_libraries(_unpacked(), "usr/sbin/haproxy")
    )


def _with_own_libraries(root: Path, program: str) -> tuple[str, ...]:
    loader = next(root.glob("lib*/**/ld-linux*.so.*"))
    libraries = {path.parent for path in root.glob("**/*-linux-gnu/*.so*")}
    return (
        str(loader),
        "--library-path",
        ":".join(sorted(map(str, libraries))),
        str(root / program),
    )


def _unpacked() -> Path:
    """Where sysbench and HAProxy are unpacked, from the Debian archive that apt is set up for."""
    root = _PEERS / "root"
    if root.is_dir():
        return root
    hint = "install the packages sysbench and haproxy (Debian: apt install sysbench haproxy)"
    if not shutil.which("apt-get"):
        raise MissingProgramError(hint)
    archives = _PEERS / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    status = _PEERS / "status"
    status.write_text("")  # an empty machine: every library comes along
    _run(
        [
            *("apt-get", "-qq", "-y", "-o", f"Dir::Cache::archives={archives}"),
            *("-o", f"Dir::State::status={status}", "-o", "APT::Install-Recommends=false"),
            *("-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"),
            *("--download-only", "install", "sysbench", "haproxy"),
        ],
        f"{hint}, or let apt find them: apt-get update",
    )
    unpacking = _PEERS / f"unpacking-{os.getpid()}"
    for package in sorted(archives.glob("*.deb")):
        if not package.name.startswith(("perl", "libperl")):  # for maintainer scripts only
            _run(["dpkg-deb", "-x", str(package), str(unpacking)], hint)
    unpacking.rename(root)
    shutil.rmtree(archives)
    return root


def _run(command: Sequence[str], hint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingProgramError(f"{hint}\n{command[0]} said: {done.stderr.strip()}")
