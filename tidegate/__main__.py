"""The command `tidegate`, and `python -m tidegate`."""

import sys

from proxy.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
