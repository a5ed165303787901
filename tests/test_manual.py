"""The manual page and the completions name every command and every option."""

import re
import subprocess
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path

import pytest

from proxy.cli import make_parser

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"


def commands() -> dict[str, ArgumentParser]:
    (action,) = (a for a in make_parser()._actions if isinstance(a, _SubParsersAction))
    return dict(action.choices)


OPTIONS = sorted(
    {
        option
        for parser in commands().values()
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
)


@pytest.mark.parametrize("path", ["manual/tidegate.1", "completion/bash/tidegate"])
def test_every_command_and_option_is_named(path: str) -> None:
    text = (PACKAGING / path).read_text().replace("\\-", "-")
    missing = [word for word in (*commands(), *OPTIONS) if not re.search(rf"{word}\b", text)]
    assert not missing, "run scripts/manual"


def test_the_zsh_completion_names_them() -> None:
    text = (PACKAGING / "completion/zsh/_tidegate").read_text()
    missing = [word for word in (*commands(), *OPTIONS) if word not in text]
    assert not missing, "run scripts/manual"


def test_no_option_is_named_that_is_not_there() -> None:
    text = (PACKAGING / "manual/tidegate.1").read_text().replace("\\-", "-")
    named = set(re.findall(r"\\fB(--[a-z-]+)", text))
    assert named - {"--version", "--help"} == set(OPTIONS), "run scripts/manual"


def test_bash_completes_options() -> None:
    script = f"""
    source {PACKAGING / "completion/bash/tidegate"}
    COMP_WORDS=(tidegate run --wait-b) COMP_CWORD=2
    _shtab_tidegate tidegate --wait-b run
    echo "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "--wait-budget"
