"""What a statement goes through, by the program that counts it."""

import re
import subprocess
import sys
from pathlib import Path

from scripts.compile_in_place import ROOT, modules


def test_all_that_a_statement_goes_through_is_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trace", "--calls"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    entered = {Path(file) for file in re.findall(r"^ +\d+ (\S+\.py) \S+$", done.stdout, re.M)}
    assert len(entered) > 20, done.stdout
    assert entered <= {module.relative_to(ROOT) for module in modules()}
