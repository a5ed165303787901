"""The settings that docs/applications.md gives: what stands there is what is run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "applications.md"
_BLOCK = re.compile(
    r"^```(?:python|js|ruby|php|java|toml)\n(?:#|//) (\w+): (.*)\n((?:.*\n)*?)```$", re.M
)
RECIPE = "recipe"


@dataclass(frozen=True)
class Recipe:
    """Some lines of an application's.

    Attributes:
        framework: whose: a program in ``inside`` has its name.
        title: in words; `RECIPE` for what is recommended.
        lines: the program runs them.
    """

    framework: str
    title: str
    lines: str

    @property
    def is_recommended(self) -> bool:
        """Whether it is the recipe, and not what it is compared with."""
        return self.title == RECIPE


def recipes() -> list[Recipe]:
    """All of the page, in its order.

    Raises:
        ValueError: it has none.
    """
    found = [Recipe(*match) for match in _BLOCK.findall(PAGE.read_text())]
    if not found:
        raise ValueError(f"{PAGE} gives no recipes")
    return found
