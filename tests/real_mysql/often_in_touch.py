"""`tidegate`, but it looks ten times a second whose primary has to hear of it.

For tests only, with servers whose wait_timeout is shorter than any in use. It is run like
``proxy.cli``, as a module, and as plain Python, since in compiled modules nothing can be replaced.
"""

import os
import sys

os.environ["TIDEGATE_PURE"] = "1"

from proxy.cli import main
from proxy.shared import keepalive

if __name__ == "__main__":
    keepalive._INTERVAL_S = 0.1  # type: ignore[misc]  # it is constant otherwise
    sys.exit(main())
