"""The command `tidegate reload`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from proxy.error_text import error_text
from proxy.reload.answer import FAILED
from proxy.reload.control_socket import ask

if TYPE_CHECKING:
    from pathlib import Path


def run(path: Path) -> int:
    """Ask the proxy with this control socket to reload, and print what came of that.

    Returns:
        The exit status: 0 if all that has changed was applied, 1 if something needs a restart, 2
        if the configuration has errors, or no proxy answers.
    """
    try:
        answer = ask(path)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        print(f"tidegate: no proxy listens at {path}: {error.strerror}", file=sys.stderr)
        return FAILED
    except (OSError, ValueError, TypeError) as error:
        print(f"tidegate: {path}: no answer: {error_text(error)}", file=sys.stderr)
        return FAILED
    for line in answer.lines:
        problem = line.startswith(("error:", "warning:"))
        print(f"tidegate: {line}", file=sys.stderr if problem else sys.stdout)
    return answer.status
