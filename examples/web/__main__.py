"""`python -m examples.web`: runs the application, two proxies and a cluster in one command."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from examples.web.stage import (
    Servers,
    Stage,
    StageError,
    application_servers,
    create_table,
    late_cluster,
    stage,
)
from examples.web.visitor import Visit, visit
from proxy.address import Address

ROUNDS = 6
LOOKS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_run(options))
    except StageError as error:
        print(f"examples.web: {error}", file=sys.stderr)
        return 1


async def _run(options: argparse.Namespace) -> int:
    async with _servers(options) as servers, stage(servers, options.wait_budget) as running:
        if options.once:
            print(_about(options), flush=True)
            print(table(await asyncio.to_thread(compare, running)))
            return 0
        with application_servers(running, tokens=options.tokens) as urls:
            print(_invitation(urls, options), flush=True)
            await _end()
    return 0


async def _end() -> None:
    """Wait until somebody ends the example."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()


@contextlib.asynccontextmanager
async def _servers(options: argparse.Namespace) -> AsyncIterator[Servers]:
    if options.primary is None:
        async with late_cluster(options.lag) as servers:
            yield servers
        return
    if options.password_file is not None:
        password = options.password_file.read_text().rstrip("\r\n")
    else:
        password = getpass.getpass(f"Password of {options.user}: ")
    servers = Servers(options.primary, options.replicas, options.user, password, options.schema)
    await asyncio.to_thread(create_table, servers)
    yield servers


def compare(running: Stage) -> dict[str, Visit]:
    """Run the same visit without tokens and with them."""
    visits = {}
    for title, tokens in (("without tokens", False), ("with tokens", True)):
        with application_servers(running, tokens=tokens) as urls:
            visits[title] = visit(urls, ROUNDS, LOOKS)
    return visits


def table(visits: dict[str, Visit]) -> str:
    """Format the visits, one line for each."""
    lines = [f"{'':14}  pages  stale  from replicas  from the primary"]
    lines += [
        f"{title:14}  {done.pages:5}  {done.stale:5}  {done.roles['replica']:13}"
        f"  {done.roles['primary']:16}"
        for title, done in visits.items()
    ]
    return "\n".join(lines)


def _about(options: argparse.Namespace) -> str:
    late = f", {options.lag:g} s late" if options.primary is None else ""
    return (
        "Two application servers, each behind a proxy of its own; one cluster"
        f" with its replicas{late}.\nA visitor adds {ROUNDS} messages, alternating between the"
        f" servers, and looks at {LOOKS} pages after each.\nA page is stale if it lacks one of the"
        " visitor's own messages.\n"
    )


def _invitation(urls: Sequence[str], options: argparse.Namespace) -> str:
    late = f"\nThe replicas are {options.lag:g} s late." if options.primary is None else ""
    return (
        "".join(f"\n    {url}" for url in urls)
        + f"\n{late}\nTokens are {'on' if options.tokens else 'off'}. Add a message at one server,"
        " and look for it at the other. Ctrl-C ends the example."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.web", description=__doc__)
    parser.add_argument(
        "--once", action="store_true", help="let a script visit, print the counts, and end"
    )
    parser.add_argument(
        "--no-tokens", dest="tokens", action="store_false", help="visitors carry no tokens"
    )
    parser.add_argument(
        "--lag", type=float, default=0.5, metavar="S", help="seconds of lag (default 0.5)"
    )
    parser.add_argument(
        "--wait-budget", default="2s", metavar="TIME", help="how long a read waits (default 2s)"
    )
    real = parser.add_argument_group("your own servers, in place of a cluster in this process")
    real.add_argument("--primary", type=_address, metavar="HOST:PORT")
    real.add_argument(
        "--replicas",
        type=_addresses,
        default=(),
        metavar="HOST:PORT,...",
        help="replicas of that primary",
    )
    real.add_argument("--user", default="root")
    real.add_argument("--password-file", type=Path, metavar="FILE")
    real.add_argument("--schema", default="test", help="schema for the table `messages`")
    return parser


def _address(text: str) -> Address:
    return Address.parse(text, default_host="127.0.0.1", default_port=3306)


def _addresses(text: str) -> list[Address]:
    return [_address(address) for address in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
