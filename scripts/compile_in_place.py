"""Keep the compiled modules beside their sources fresh: compiled if wanted, never outdated.

    python scripts/compile_in_place.py              compiles if a source has changed since
    python scripts/compile_in_place.py --is-wanted  status 0 if there are, or will be, such modules

A compiled module shadows its source, so a stale one would silently run old code. What was compiled
is remembered as a hash of the sources and of everything they import from the project (mypyc folds
imported constants into the code), of the compiler and of the Python.
"""

import ast
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = ROOT / "build" / "compiled-in-place"
PACKAGES = ("protocol", "routing", "proxy")


def modules() -> list[Path]:
    """The modules that pyproject.toml names for compilation, as in setup.py."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tidegate"]
    return sorted(_files(document["compiled"]))


def _files(names: Iterable[str]) -> set[Path]:
    paths = [path for name in names for path in ROOT.glob(name)]
    return {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else (path,))}


def binaries() -> list[Path]:
    """Every compiled module in the tree, including mypyc's shared library."""
    found = list(ROOT.glob("tidegate__mypyc.*.so"))
    for package in PACKAGES:
        found += (ROOT / package).rglob("*.so")
    return found


def imported(source: Path) -> set[Path]:
    """The project's own files that a source file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    paths = (ROOT.joinpath(*name.split(".")) for name in names if name.split(".")[0] in PACKAGES)
    return {f for p in paths for f in (p.with_suffix(".py"), p / "__init__.py") if f.exists()}


def fingerprint() -> str:
    """A hash of everything that the compiled modules are made from."""
    todo, sources = modules(), {ROOT / "setup.py"}
    while todo:
        source = todo.pop()
        if source not in sources:
            sources.add(source)
            todo += imported(source)
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(f"{source.relative_to(ROOT)}\0".encode() + source.read_bytes())
    try:
        mypy = version("mypy")
    except PackageNotFoundError:
        mypy = "none"
    settings = os.environ.get("TIDEGATE_COMPILED", "auto"), os.environ.get("CC"), shutil.which("cc")
    digest.update(repr((modules(), mypy, sys.version, settings)).encode())
    return digest.hexdigest()


def fresh() -> bool:
    """Whether the compiled modules, or their absence, match the sources and settings."""
    compiled = sorted(str(path) for path in binaries())
    try:
        return STAMP.read_text() == "\n".join([fingerprint(), *compiled])
    except FileNotFoundError:
        return not compiled and not modules()


def compile_in_place() -> None:
    """Compile, unless the compiled modules are fresh.

    Raises:
        SystemExit: the compilation failed; its output was printed.
    """
    STAMP.parent.mkdir(exist_ok=True)
    with STAMP.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if fresh():
            return
        for binary in binaries():
            binary.unlink()
        before = fingerprint()
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(
                f"{done.stdout}{done.stderr}\n"
                "the compilation failed; TIDEGATE_COMPILED=0 runs the plain Python"
            )
        if modules() and not binaries() and os.environ.get("TIDEGATE_COMPILED", "auto") != "0":
            print(done.stderr.strip(), file=sys.stderr)  # why nothing was compiled
        STAMP.write_text("\n".join([before, *sorted(str(path) for path in binaries())]))


if __name__ == "__main__":
    if sys.argv[1:] == ["--is-wanted"]:
        sys.path.insert(0, str(ROOT))
        import setup

        sys.exit(not setup.compiles())
    compile_in_place()
