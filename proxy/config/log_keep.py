"""How much of the routing log is kept: a part of the configuration."""

import re
from dataclasses import dataclass
from typing import Final

_AGE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) *([shd])", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,9}) *([MGT])(?:i?B)?", re.ASCII)
_SECONDS: Final = {"s": 1, "h": 3600, "d": 86_400}
_BYTES: Final = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_ALL: Final = "all"
_WANTED: Final = (
    'want "all", an age such as "30d" or "36h", a size such as "100G", or both: "30d, 100G"'
)


@dataclass(frozen=True, slots=True)
class LogKeep:
    """How long closed segments of the log are kept, and how many bytes of them.

    Attributes:
        age: how long a segment is kept after its last record, s; None for ever.
        size: how many bytes one proxy's closed segments may have together; None for any number.
    """

    age: float | None = None
    size: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.age is not None:
            days, rest = divmod(self.age, _SECONDS["d"])
            parts.append(f"{self.age:.15g}s" if rest else f"{days:.0f}d")
        if self.size is not None:
            parts.append(f"{self.size >> 20}M")
        return ", ".join(parts) or _ALL

    @classmethod
    def read(cls, raw: object) -> "LogKeep":
        """Read ``all``, an age, a size, or both with a comma between them, or an array of such.

        ``m`` and numbers without a unit are refused: they could mean an age or a size.
        """
        texts = raw if isinstance(raw, list) else str(raw).split(",")
        if [str(text).strip().lower() for text in texts] == [_ALL]:
            return cls()
        age: float | None = None
        size: int | None = None
        for text in texts:
            aged = _AGE.fullmatch(str(text).strip())
            sized = _SIZE.fullmatch(str(text).strip())
            if aged and age is None:
                age = float(aged[1]) * _SECONDS[aged[2]]
            elif sized and size is None:
                size = int(sized[1]) * _BYTES[sized[2]]
            else:
                raise ValueError(_WANTED)
        if age == 0 or size == 0 or not texts:
            raise ValueError(_WANTED)
        return cls(age, size)


KEEP_ALL: Final = LogKeep()
