"""Several processes divide the work of rewriting the asserts of all test files."""

import importlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_share(config: pytest.Config, left_out: Sequence[Path]) -> None:
    """In one of several processes, load a share of the test files, before all are collected.

    pytest rewrites the asserts of a file that is loaded for the first time, which takes longer than
    all else, and keeps the result beside the file. Processes that begin with the same file would
    each do that for every file.

    Args:
        config: of this process.
        left_out: folders that are not collected.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for file in files_in(config.args, left_out)[number :: worker["workercount"]]:
        # What is wrong with a file, or why it is skipped, is told when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def files_in(names: Iterable[str], left_out: Sequence[Path]) -> list[Path]:
    """The test files in the folders among `names`, in the same order in each process."""
    return [
        file
        for name in names
        for file in sorted(Path(name).resolve().rglob("test_*.py"))  # none in a file
        if not any(file.is_relative_to(folder) for folder in left_out)
    ]
