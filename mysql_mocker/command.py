"""`tidegate mock`: runs a cluster until it is told to end."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mysql_mocker import ControlError, MockCluster
from mysql_mocker.control.error import Wrong

_FAILED, _USED_WRONGLY = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line (`tidegate mock --help`); those of `MockCluster`, mostly.

    Attributes:
        schema: the schemas; None for those that a cluster has of itself.
        init: a file of SQL.
        ready_file: gets the names and addresses of the servers.
    """

    port: int
    replicas: int
    lag: str
    user: str
    password: str
    schema: Sequence[str] | None
    init: Path | None
    host: str
    http: str | None
    binlog_dir: Path | None
    tls: bool
    ready_file: Path | None


def run(options: Options) -> int:
    """Runs until SIGTERM or SIGINT; returns the exit status: 0 for success, 1 failure, 2 misuse.

    Prints a line for each server, its name and its address, then one for the HTTP interface if
    there is one, then ``ready``. `ready_file` gets the same names and addresses as a JSON object;
    it is never incomplete, and is deleted when the cluster ends.
    """
    try:
        cluster = MockCluster(
            options.replicas,
            options.lag,
            user=options.user,
            password=options.password,
            schemas=options.schema or ("test",),
            init=_read(options.init),
            port=options.port,
            host=options.host,
            http=options.http,
            binlog_dir=options.binlog_dir,
            tls=options.tls,
        )
        asyncio.run(_serve(cluster, options.ready_file))
    except ControlError as error:
        return _complain(str(error), _USED_WRONGLY)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return _complain(where + (error.strerror or str(error)), _FAILED)
    return 0


def _read(init: Path | None) -> str:
    try:
        return "" if init is None else init.read_text("utf-8")
    except OSError as error:
        raise ControlError(Wrong.WRONG_VALUE, f"{init}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ControlError(Wrong.WRONG_VALUE, f"{init}: not UTF-8") from error


def _complain(sentence: str, status: int) -> int:
    print(f"tidegate: mock: {sentence}", file=sys.stderr)
    return status


async def _serve(cluster: MockCluster, ready_file: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for end in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(end, stopped.set)
    async with cluster:
        addresses = {server.name: server.address for server in cluster.servers}
        if cluster.url:
            addresses["http"] = cluster.url
        with _shown(addresses, ready_file):
            await stopped.wait()


@contextmanager
def _shown(addresses: dict[str, str], ready_file: Path | None) -> Iterator[None]:
    width = max(map(len, addresses))
    for name, address in addresses.items():
        print(f"{name:{width}}  {address}")
    if ready_file is not None:
        # The file appears when it is complete.
        unready = ready_file.with_name(f".{ready_file.name}.unready")
        unready.write_text(json.dumps(addresses, indent=2) + "\n")
        unready.replace(ready_file)
    print("ready", flush=True)
    try:
        yield
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
