"""Each process of several loads its share of the test files first."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support import rewriting


def load(worker: object, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that a process loads."""
    loaded: list[str] = []
    monkeypatch.setattr(rewriting, "ROOT", folder)
    monkeypatch.setattr(rewriting.importlib, "import_module", loaded.append)
    names = [str(folder / "tests"), f"{folder}/tests/test_a.py::test_it"]
    config = SimpleNamespace(args=names, **({} if worker is None else {"workerinput": worker}))
    rewriting.load_share(cast("pytest.Config", config), [folder / "tests" / "out"])
    return loaded


def test_the_shares_are_all_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests" / "out").mkdir(parents=True)
    for name in ("test_a", "test_b", "test_c", "helper", "out/test_d"):
        (tmp_path / "tests" / f"{name}.py").touch()
    shares = [
        load({"workerid": f"gw{number}", "workercount": 2}, tmp_path, monkeypatch)
        for number in range(2)
    ]
    assert shares == [["tests.test_a", "tests.test_c"], ["tests.test_b"]]
    assert load(None, tmp_path, monkeypatch) == []


def test_a_file_that_fails_or_is_skipped_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "test_broken_share.py").write_text("raise ValueError\n")
    (tmp_path / "test_skipped_share.py").write_text(
        "import pytest\n\npytest.skip('none', allow_module_level=True)\n"
    )
    (tmp_path / "test_whole_share.py").touch()
    worker = {"workerid": "gw0", "workercount": 1}
    config = SimpleNamespace(args=[str(tmp_path)], workerinput=worker)
    rewriting.load_share(cast("pytest.Config", config), [])
    names = {f"test_{name}_share" for name in ("broken", "skipped", "whole")}
    assert names & sys.modules.keys() == {"test_whole_share"}
    del sys.modules["test_whole_share"]
