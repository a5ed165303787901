"""Compile the modules that pyproject.toml names with mypyc; all else stands in pyproject.toml.

`TIDEGATE_COMPILED` decides: `auto` (the default) compiles where a C compiler and Python's headers
are at hand and leaves plain Python otherwise; `1` fails without them; `0` never compiles. A
compilation that was begun and fails is an error in every mode: a silent fall back would hide it.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import cast

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent


def compiler_works() -> bool:
    """Whether this machine can compile an extension module: a C compiler and Python's headers."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    command = [*shlex.split(compiler), "-fsyntax-only", "-I", sysconfig.get_path("include")]
    try:
        probe = subprocess.run(
            [*command, "-x", "c", "-"],
            input=b"#include <Python.h>\n",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return probe.returncode == 0


def extensions() -> list[Extension]:
    """The extension modules to build: none, or all that are named."""
    mode = os.environ.get("TIDEGATE_COMPILED", "auto")
    if mode not in ("auto", "0", "1"):
        sys.exit(f"TIDEGATE_COMPILED is {mode!r}; it can be auto, 1 or 0")
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tidegate"]["compiled"]
    if mode == "0" or not modules:
        return []
    if not compiler_works():
        lack = "no C compiler, or no Python.h (Debian: apt install gcc python3-dev)"
        if mode == "1":
            sys.exit(f"TIDEGATE_COMPILED=1, but {lack}")
        print(f"{lack}: Tidegate will run as plain Python", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    built = mypycify(modules, group_name="tidegate", opt_level="3", debug_level="1")
    return cast("list[Extension]", built)  # on paper they may be distutils' own


setup(ext_modules=extensions())
