"""`tidegate`, but reads are independent though a premise of the rule does not hold.

For tests only: the variable `MUTANT` of the environment says which. Histories show that such a
proxy gives stale answers. It is run like ``proxy.cli``, as a module, and as plain Python, since in
compiled modules nothing can be replaced.
"""

import os
import sys
from typing import Final

os.environ["TIDEGATE_PURE"] = "1"

from protocol.gtid import Gtid
from proxy.cli import main
from proxy.shared import catalogues
from routing.servers import transaction_ring
from routing.servers.transaction_ring import SharedTransactionTables
from routing.servers.transaction_tables import TableName, TransactionTables
from tests.model.independence_mutants import MUTANTS

_add_rows: Final = TransactionTables.add_rows


def _tables_untold(self: SharedTransactionTables, gtid: Gtid, tables: frozenset[TableName]) -> None:
    """Other workers are not told which tables a transaction changed."""
    _add_rows(self, gtid, tables)
    self._ring.write(bytes((transaction_ring._ROWS,)) + transaction_ring._gtid(gtid))


_RING_MUTANTS: Final[dict[str, tuple[type, str, object]]] = {
    "tables untold": (SharedTransactionTables, "add_rows", _tables_untold),
}

if __name__ in ("__main__", "__mp_main__"):  # in each of several workers, too
    catalogues._RENEW_S = 0.02
    setattr(*(MUTANTS | _RING_MUTANTS)[os.environ["MUTANT"]])
if __name__ == "__main__":
    sys.exit(main())
