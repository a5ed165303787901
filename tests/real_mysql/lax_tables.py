"""`tidegate`, but reads are independent though a premise of the rule does not hold.

For tests only: the variable `MUTANT` of the environment says which. Histories show that such a
proxy gives stale answers. It is run like ``proxy.cli``, as a module, and as plain Python, since in
compiled modules nothing can be replaced.
"""

import os
import sys

os.environ["TIDEGATE_PURE"] = "1"

from proxy.cli import main
from proxy.shared import catalogues
from tests.model.independence_mutants import MUTANTS

if __name__ == "__main__":
    catalogues._RENEW_S = 0.02
    setattr(*MUTANTS[os.environ["MUTANT"]])
    sys.exit(main())
