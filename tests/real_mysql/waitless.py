"""`tidegate`, but its WAITs wait for nothing: every one says at once that all is there.

For tests only: it shows what an audit says of a proxy that breaks its promises. It is run like
``proxy.cli``, as a module, and as plain Python, since in compiled modules nothing can be replaced.
"""

import os
import sys

os.environ["TIDEGATE_PURE"] = "1"

from protocol.gtid import GtidSet
from proxy.cli import main
from proxy.client.fast_path import request
from proxy.client.statements import wait
from proxy.server.statement_packet import statement_packet
from routing.session.session import Session


def wait_packet(
    state: Session, gtids: GtidSet, budget: float, further: str, query_attributes: bool
) -> bytes:
    """Ask nothing; the answer is that of a WAIT that was reached."""
    columns = f"0 a,1 b,{further}" if further else "0 a,1 b"
    return statement_packet(f"SELECT {columns} LIMIT 1".encode("ascii"), query_attributes)


if __name__ == "__main__":
    for module in (wait, request):
        module.wait_packet = wait_packet  # type: ignore[attr-defined]  # reads of both ways
    sys.exit(main())
