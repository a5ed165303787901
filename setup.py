"""Build the wheel, and compile the modules that pyproject.toml names; all else stands there.

In the source tree the packages stand side by side. Names such as `proxy` and `protocol` are other
projects' too, so in a wheel they stand below `tidegate`, and imports say so: what is copied there
has `from routing.gtid import …` as `from tidegate.routing.gtid import …`. Nothing else differs. An
editable installation is the source tree as it is.

`TIDEGATE_COMPILED` decides about mypyc: `auto` (the default) compiles where a C compiler and
Python's headers are at hand and leaves plain Python otherwise; `1` fails without them; `0` never
compiles. A compilation that was begun and fails is an error in every mode: a silent fall back would
hide it.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final, cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT: Final = Path(__file__).resolve().parent
NAME: Final = "tidegate"
PACKAGES: Final = ("mysql_mocker", "protocol", "proxy", "routing", "spark_jobs")
"""Those that stand beside `tidegate` in the source tree, and below it in a wheel."""

CALLS: Final = ("-fvisibility=hidden", "-fno-semantic-interposition", "-fno-plt")
"""What lets a compiler call, and inline, what the modules call of each other: nobody else does."""

ACROSS_FILES: Final = "-flto=auto"
"""Lets it also inline what another module has, on all processors, when the objects are linked."""

_IMPORT: Final = re.compile(rf"^(\s*(?:from|import) )(?=(?:{'|'.join(PACKAGES)})\b)", re.MULTILINE)


class BuildPackages(build_py):
    """Copies the packages below `tidegate`."""

    def run(self) -> None:
        """Copy, or nothing where the source tree itself is installed."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)  # of a build before, or one in place
        super().run()
        top = Path(self.build_lib, NAME)
        for package in PACKAGES:
            shutil.copytree(package, top / package, ignore=shutil.ignore_patterns("*.so", "*.pyc"))
        for source in top.rglob("*.py"):
            source.write_text(installed(source.read_text()))


class BuildCompiled(build_ext):
    """Compiles the modules where they were copied to, or in the source tree (`--inplace`)."""

    def run(self) -> None:
        """Compile them all."""
        folder = Path() if self.inplace else Path(self.build_lib)
        os.environ["MYPYPATH"] = str(folder)  # from where modules have their names
        above = folder if self.inplace else folder / NAME
        from mypyc.build import mypycify

        modules = [str(above / name) for name in compiled_modules()]
        built = mypycify(modules, group_name=NAME, opt_level="3", debug_level="1", multi_file=True)
        # On paper they may be distutils' own.
        extensions = cast("list[Extension]", built)
        flags = [flag for flag in CALLS if compiler_works(flag)]
        link_flags = []
        if is_gcc() and compiler_works(ACROSS_FILES):  # else that depends on the linker
            flags.append(ACROSS_FILES)
            link_flags = [ACROSS_FILES, "-O3"]
        for extension in extensions:  # mypycify gives all of them one list
            extension.extra_compile_args = [*extension.extra_compile_args, *flags]
            extension.extra_link_args = [*extension.extra_link_args, *link_flags]
        self.distribution.ext_modules = [*extensions]
        command = BuildInParallel(self.distribution)  # this one's options are settled
        command.inplace, command.force = self.inplace, self.force
        command.ensure_finalized()
        command.run()


class BuildInParallel(build_ext):
    """Compiles the sources of an extension side by side, and only those that have changed.

    mypyc writes a file only where its text is another than before. So an object is as new as its
    source if it is younger than that and all headers, and was made by the same command.
    """

    def build_extensions(self) -> None:
        """Compile them all."""
        compiler = self.compiler
        compile_alone = compiler.compile

        def compile_in_parallel(
            sources: list[str], output_dir: str, **options: object
        ) -> list[str]:
            made_by = (compiler.compiler_so, compiler_version(), version("mypy"), sys.version)
            command = repr((*made_by, options))
            objects = Path(output_dir, hashlib.sha256(command.encode()).hexdigest()[:16])
            headers = max(map(_changed_at, Path("build").rglob("*.h")), default=0)

            def compile_changed(source: str) -> str:
                names: list[str] = compiler.object_filenames([source], output_dir=str(objects))
                if _changed_at(Path(names[0])) <= max(headers, _changed_at(Path(source))):
                    (made,) = compile_alone([source], f"{objects}.new", **options)
                    Path(names[0]).parent.mkdir(parents=True, exist_ok=True)
                    Path(made).replace(names[0])  # whole, or not at all
                return names[0]

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(compile_changed, sources))

        compiler.compile = compile_in_parallel
        super().build_extensions()


def _changed_at(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def installed(source: str) -> str:
    """A source file as a wheel has it."""
    return _IMPORT.sub(rf"\1{NAME}.", source)


def compiled_modules() -> list[str]:
    """The files that pyproject.toml names for compilation, by patterns or by their folders'."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tidegate"]
    chosen = _files(document["compiled"])
    return sorted(path.relative_to(ROOT).as_posix() for path in chosen)


def _files(names: Iterable[str]) -> set[Path]:
    paths = [path for name in names for path in ROOT.glob(name)]
    return {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else (path,))}


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


@cache
def compiler_version() -> str:
    """What the C compiler says of itself; "" if there is none."""
    try:
        command = [*_compiler(), "--version"]
        return subprocess.run(command, capture_output=True, check=False, text=True).stdout
    except OSError:
        return ""


def is_gcc() -> bool:
    """Whether the C compiler is GCC."""
    return "Free Software Foundation" in compiler_version()


@cache
def compiler_works(*flags: str) -> bool:
    """Whether this machine can compile an extension module: a C compiler and Python's headers.

    `flags` are what the compiler is to take, too, without a warning.
    """
    strict = ("-Werror", *flags) if flags else ()
    include = ("-I", sysconfig.get_path("include"))
    try:
        with tempfile.TemporaryDirectory() as folder:  # not all know -fsyntax-only
            made = ("-c", "-o", str(Path(folder, "probe.o")))
            probe = subprocess.run(
                [*_compiler(), *made, *strict, *include, "-x", "c", "-"],
                input=b"#include <Python.h>\n",
                capture_output=True,
                check=False,
            )
    except OSError:
        return False
    return probe.returncode == 0


def compiles() -> bool:
    """Whether modules are to be compiled."""
    mode = os.environ.get("TIDEGATE_COMPILED", "auto")
    if mode not in ("auto", "0", "1"):
        sys.exit(f"TIDEGATE_COMPILED is {mode!r}; it can be auto, 1 or 0")
    if mode == "0" or not compiled_modules():
        return False
    if compiler_works():
        return True
    lack = "no C compiler, or no Python.h (Debian: apt install gcc python3-dev)"
    if mode == "1":
        sys.exit(f"TIDEGATE_COMPILED=1, but {lack}")
    print(f"{lack}: Tidegate will run as plain Python", file=sys.stderr)
    return False


if __name__ == "__main__":
    setup(
        packages=[NAME],
        data_files=[
            ("share/man/man1", ["packaging/manual/tidegate.1"]),
            ("share/bash-completion/completions", ["packaging/completion/bash/tidegate"]),
            ("share/zsh/site-functions", ["packaging/completion/zsh/_tidegate"]),
            (
                "share/tidegate",
                ["packaging/systemd/tidegate.service", "packaging/systemd/tidegate.socket"],
            ),
        ],
        cmdclass={"build_py": BuildPackages, "build_ext": BuildCompiled},
        # mypyc's library, for the platform's sake; `BuildCompiled` finds it and the others.
        ext_modules=[Extension(f"{NAME}__mypyc", [])] if compiles() else [],
    )
