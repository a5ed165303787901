"""A folder for processes and their files that goes away with the test run, however that ends."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

# Waits for the end of its standard input, which the kernel closes when the test run ends, even by
# SIGKILL; then ends what was started and removes what was written.
_GUARD = 'read -r _; cat "$1"/*.pid 2>/dev/null | xargs -r kill -9 2>/dev/null; rm -rf "$1"'


class ScratchFolder:
    """A short-named temporary folder, and the processes that were started for it.

    Attributes:
        path: the folder; short, because the path of a Unix socket may have 107 characters.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="tg-"))
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", self.path], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, name: str, pid: int) -> None:
        """See to it that a process does not outlive the test run."""
        (self.path / f"{name}.pid").write_text(f"{pid}\n")

    def unwatch(self, name: str) -> None:
        """Forget a process that has ended, before another gets its id."""
        (self.path / f"{name}.pid").unlink(missing_ok=True)

    def close(self) -> None:
        """End the processes and remove the folder."""
        self._guard.communicate()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
