"""`tidegate`, but it asks what names mean as soon as that may have changed, not every 5 s.

For tests only: definitions can then change often, and reads are independent in between. It is run
like ``proxy.cli``, as a module, and as plain Python, since in compiled modules nothing can be
replaced.
"""

import os
import sys

os.environ["TIDEGATE_PURE"] = "1"

from proxy.cli import main
from proxy.shared import catalogues

if __name__ in ("__main__", "__mp_main__"):  # in each of several workers, too
    catalogues._RENEW_S = 0.02
if __name__ == "__main__":
    sys.exit(main())
