"""Vectors of tests/vectors/*.jsonl: one JSON object a line; lines with # in front are comments."""

import json
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent.parent / "vectors"


def load(name: str) -> list[dict[str, Any]]:
    """The objects in the file `name`.jsonl."""
    lines = (DIRECTORY / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if not line.startswith("#")]
    if not found:
        raise ValueError(f"no vectors in {name}.jsonl")
    return found
