"""The command `tidegate`."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from proxy.config import Config, ConfigError, load
from proxy.config.options import OPTIONS, did_you_mean
from proxy.config.reading import control_socket
from proxy.config.values import duration
from proxy.reload.hangup import Hangup
from proxy.version import description

USAGE_ERROR: Final = 2

_ABOVE: Final = (__package__ or "").removesuffix("proxy")  # "tidegate." in a wheel

_EXAMPLES: Final = """\
examples:
  tidegate run --primary db1 --replicas db2,db3
  tidegate run --config tidegate.toml --wait-budget 500ms --metrics 127.0.0.1:9477
  tidegate check --config tidegate.toml
  tidegate reload --config tidegate.toml
  tidegate audit --log /var/log/tidegate --out report
  tidegate top --url http://127.0.0.1:9477
  tidegate binlog /var/lib/mysql/binlog.000042
  tidegate demo
  tidegate mock --port 3307 --replicas 2 --lag 300ms
"""

_RUN_EXAMPLES: Final = """\
The file uses the same names, for example: wait-budget = "500ms"
The environment (TIDEGATE_WAIT_BUDGET=500ms) overrides the file, and the command line overrides
both. Rules for single users, schemas and ports can only be given in the file, in the tables
[users.NAME], [schemas.NAME] and [listeners."HOST:PORT"].
docs/configuration.md explains every option.

examples:
  tidegate run --primary db1 --replicas db2,db3
  tidegate run --primary db1:3307 --replicas db2 --replicas db3 --on-timeout error
  tidegate run --config tidegate.toml --listen :6446 --log-level debug
  tidegate run --config tidegate.toml --take-over
"""


_RELOAD_EXAMPLES: Final = """\
The running proxy reads the file, environment and command line that it was started with. Here they
only tell where its control socket is: give the same --config, or --control-socket, or --state-dir.
Exit status: 0 if all that has changed was applied, 1 if something needs a restart, 2 if nothing was
changed because of errors, or no proxy answers.

examples:
  tidegate reload --config tidegate.toml
  tidegate reload --control-socket /run/tidegate/control.sock
"""

_MOCK_EXAMPLES: Final = """\
The command prints one line with name and address for each server, then "ready". docs/mocker.md says
how to change the cluster while it runs, by SQL (CALL mock.help()) and by HTTP.

examples:
  tidegate mock --port 3307 --replicas 2 --lag 300ms
  tidegate mock --init schema.sql --schema shop --user shop --password secret
  tidegate mock --http 8080 --ready-file /tmp/mock.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 success, 1 failure, 2 wrong usage."""
    try:
        return _dispatch(argv)
    except ConfigError as error:
        for problem in error.problems:
            print(f"tidegate: {problem}", file=sys.stderr)
        return USAGE_ERROR


def _dispatch(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    namespace, unknown = parser.parse_known_args(argv)
    if namespace.command == "audit":
        return _audit(unknown)
    if unknown:
        raise ConfigError(_unknown(unknown[0], namespace.command))
    match namespace.command:
        case "run":
            return _run(namespace)
        case "reload":
            return _reload(namespace)
        case "check":
            return _check(_config(namespace), connects=namespace.connect)
        case "binlog":
            return _binlog(namespace.files, namespace.format, namespace.output)
        case "top":
            return _top(namespace)
        case "demo":
            setup = None if namespace.no_audit else namespace.audit_setup
            return _demo(namespace.once, setup)
        case "mock":
            return _mock(namespace)
        case _:
            parser.print_help()
            return USAGE_ERROR


def _run(namespace: argparse.Namespace) -> int:
    hangup = Hangup()
    config = _config(namespace)
    # Loaded here, since the other commands need neither uvloop nor an event loop.
    from proxy import workers

    reading = workers.Reading(lambda: _config(namespace), hangup)
    return workers.run(config, reading=reading, takes_over=namespace.take_over)


def _reload(namespace: argparse.Namespace) -> int:
    from proxy.reload import command

    path = control_socket(namespace.config, _given(namespace), os.environ)
    if path is None:
        raise ConfigError(
            "no control socket is known: give the --config FILE of the running proxy, or its"
            " --state-dir or --control-socket; or send the process a SIGHUP"
        )
    return command.run(path)


def _check(config: Config, *, connects: bool) -> int:
    from proxy.tls import materials as tls

    materials = tls.build(config, tls.make_key_ring(config))
    for warning in config.warnings():
        print(f"tidegate: warning: {warning}", file=sys.stderr)
    for note in config.notes():
        print(f"tidegate: note: {note}", file=sys.stderr)
    print(config.to_toml(), end="")
    if not connects:
        return 0
    from proxy.check import command

    return command.run(config, materials)


def _audit(arguments: Sequence[str]) -> int:
    # By name: the audit must not depend on the proxy that it checks, nor the proxy on the audit.
    nightly = importlib.import_module(f"{_ABOVE}spark_jobs.nightly")
    return int(nightly.main(arguments))


def _binlog(files: Sequence[Path], form: str, output: Path | None) -> int:
    from proxy.binlog import command

    def write_parquet(json_lines: Path, folder: Path) -> None:
        importlib.import_module(f"{_ABOVE}spark_jobs.binlogs.commit_times").write_parquet(
            json_lines, folder
        )

    return command.run(files, form, output, write_parquet)


def _top(namespace: argparse.Namespace) -> int:
    try:
        from proxy import top
        from proxy.error_text import error_text
    except ImportError as error:
        if error.name != "rich":
            raise
        raise ConfigError("top needs rich (pip install 'tidegate[top]')") from error
    try:
        proxy = top.proxy_at(namespace.url, namespace.token_file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--token-file: {error_text(error)}") from error
    try:
        interval = duration(3600)(namespace.interval)
    except ValueError as error:
        raise ConfigError(f"--interval: {error}") from error
    return top.run(proxy, interval, once=namespace.once)


def _demo(once: bool, audit_setup: Sequence[str] | None) -> int:
    from proxy import demo

    return demo.run_demo(once, audit_setup)


def _mock(namespace: argparse.Namespace) -> int:
    # By name: the proxy must not depend on the mock servers that it is tested with.
    try:
        command = importlib.import_module(f"{_ABOVE}mysql_mocker.command")
    except ImportError as error:
        if error.name != "sqlglot":
            raise
        raise ConfigError("mock needs sqlglot (pip install 'tidegate[mock]')") from error
    values = vars(namespace)
    options = {name: values[name] for name in values if name not in ("command", "version")}
    return int(command.run(command.Options(**options)))


def _config(namespace: argparse.Namespace) -> Config:
    return load(namespace.config, _given(namespace), os.environ)


def _given(namespace: argparse.Namespace) -> dict[str, list[str]]:
    """The options of the command line, as texts."""
    texts = {option.name: getattr(namespace, option.attribute) for option in OPTIONS}
    return {name: text for name, text in texts.items() if text}


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in the form of the other errors, without the usage text before it."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(description())
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="tidegate",
        description="A MySQL proxy whose reads see the writes they must see, and can prove it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version and whether it is compiled"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    run = _command(commands, "run", "serve clients until SIGTERM or SIGINT", _RUN_EXAMPLES)
    run.add_argument(
        "--take-over",
        action="store_true",
        help="take the place of the proxy that runs with the same state-dir, if one does: clients"
        " are not refused meanwhile, and its sessions end as at a stop",
    )
    _add_options(run)
    check = _command(
        commands, "check", "validate a configuration and print the effective one, without secrets"
    )
    check.add_argument(
        "--connect",
        action="store_true",
        help="log in to each server as monitor-user, and say what is missing there or differs",
    )
    _add_options(check)
    reload = _command(
        commands,
        "reload",
        "have the running proxy read its configuration anew, and print what came of that",
        _RELOAD_EXAMPLES,
    )
    _add_options(reload)
    # The audit reads its own options.
    commands.add_parser("audit", help="check a routing log with Spark", add_help=False)
    binlog = _command(
        commands, "binlog", "print when the transactions in binary logs were committed"
    )
    binlog.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a binary or relay log")
    binlog.add_argument(
        "--format",
        choices=("text", "json", "parquet"),
        default="text",
        help="text as mysqlbinlog prints it, JSON Lines, or Parquet, which needs the audit's Spark",
    )
    binlog.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="output file, or directory for Parquet (default: stdout)",
    )
    top = _command(
        commands, "top", "show servers, the busiest statements and the sessions that wait"
    )
    top.add_argument(
        "--url",
        default="http://127.0.0.1:9477",
        help="the metrics address of the proxy (default: http://127.0.0.1:9477)",
    )
    top.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the admin-token-file of the proxy"
    )
    top.add_argument(
        "--interval", default="2s", metavar="TIME", help="how often it looks (default: 2s)"
    )
    top.add_argument("--once", action="store_true", help="print one view, and exit")
    demo = _command(
        commands, "demo", "show Tidegate at work on a mock MySQL cluster in this process"
    )
    demo.add_argument("--once", action="store_true", help="exit after the demo")
    demo.add_argument("--no-audit", action="store_true", help="skip the audit, which needs Spark")
    demo.add_argument(
        "--audit-setup",
        nargs="+",
        default=(),
        metavar=("PROGRAM", "ARGUMENT"),
        help="run this once the table is shown; it installs what the audit needs",
    )
    mock = _command(
        commands, "mock", "run a mock MySQL cluster in this process, for tests", _MOCK_EXAMPLES
    )
    _add_mock_options(mock)
    return parser


def _add_mock_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=0,
        help="the primary's port; replicas get the next ones (default: any free ports)",
    )
    add("--replicas", type=int, default=2, metavar="N", help="how many replicas (default: 2)")
    add("--lag", default="0s", metavar="TIME", help="how far replicas lag (default: 0s)")
    add("--user", default="root", help="account for clients (default: root)")
    add("--password", default="", help="its password (default: none)")
    add("--schema", action="append", metavar="NAME", help="schema to create (default: test)")
    add("--init", type=Path, metavar="FILE.sql", help="SQL to run on the primary first")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1)",
    )
    add("--http", metavar="[HOST:]PORT", help="serve the HTTP interface here (default: off)")
    add("--binlog-dir", type=Path, metavar="DIR", help="write binary logs here (default: off)")
    add("--tls", action="store_true", help="let clients use TLS")
    add("--ready-file", type=Path, metavar="FILE", help="write the addresses here as JSON")


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, summary: str, epilog: str = ""
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [--config FILE.toml] [OPTION …]"
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="read options from a file")
    groups = {option.group: parser.add_argument_group(option.group) for option in OPTIONS}
    for option in OPTIONS:
        names = [f"--{option.name}"]
        if option.repeatable:
            names.append(f"--{option.name.removesuffix('s')}")
        # Kept as text: each option has one reader, for the file and for the command line.
        summary = option.help
        if option.choices:
            summary += ": " + ", ".join(option.choices)
        groups[option.group].add_argument(
            *names,
            dest=option.attribute,
            action="append",
            metavar=option.metavar,
            help=summary.replace("%", "%%"),
        )


def _unknown(argument: str, command: str | None) -> str:
    if command in ("run", "check", "reload") and argument.startswith("--"):
        name = argument.removeprefix("--").partition("=")[0].replace("_", "-")
        return f"--{name}: unknown option{did_you_mean(name, '--')}"
    return f"{argument}: not understood; see tidegate {command or ''} --help"


if __name__ == "__main__":
    sys.exit(main())
