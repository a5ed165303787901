"""Runs a cluster until Ctrl-C: ``python -m mysql_mocker --port 3307 --replicas 2 --delay 0.3``."""

import argparse
import asyncio
from contextlib import suppress

from mysql_mocker.cluster import Cluster


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mysql_mocker", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the primary's (default: any)")
    parser.add_argument("--replicas", type=int, default=2, metavar="N")
    parser.add_argument(
        "--delay", type=float, default=0.0, metavar="SECONDS", help="of the replicas"
    )
    parser.add_argument("--user", default="root")
    parser.add_argument("--password", default="")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> None:
    accounts = {arguments.user: arguments.password}
    async with Cluster(
        arguments.replicas, arguments.delay, accounts, port=arguments.port
    ) as cluster:
        print(f"primary  {cluster.primary.address}")
        for replica in cluster.replicas:
            print(f"replica  {replica.address}")
        await asyncio.Event().wait()


with suppress(KeyboardInterrupt):
    asyncio.run(_run(_arguments()))
