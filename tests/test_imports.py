"""Imports go one way, proxy -> routing -> protocol, in no circle; the lower two do no I/O."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT = {
    "protocol": {"protocol"},
    "routing": {"routing", "protocol"},
    "proxy": {"proxy", "routing", "protocol"},
    "mysql_mocker": {"mysql_mocker", "protocol"},
    "spark_jobs": {"spark_jobs"},
}

COMMANDS = {
    # Commands of the program that run another part of the project, and import it only then; and
    # what the audit shares with what it audits.
    "proxy/cli.py": {"spark_jobs"},
    "proxy/demo.py": {"mysql_mocker"},
    # How the bytes of a binary log are read is no conclusion of the proxy's.
    "spark_jobs/binlogs/binlog_source.py": {"protocol"},
}

IMPURE = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "selectors", "signal", "subprocess"),
    *("socket", "socketserver", "ssl", "http", "urllib", "uvloop"),
    *("time", "sched", "random", "secrets", "uuid"),
    *("io", "logging", "os", "pathlib", "shutil", "sys", "tempfile", "threading"),
    *("prometheus_client", "pymysql"),
}

ALLOWED_IMPURE = {
    # Chooses compiled or plain modules, by the environment, before any of them is loaded.
    "protocol/_implementation.py": {"os", "sys"},
}

FOLDERS = {
    "protocol": ("_implementation", "binlog"),
    "routing": (
        *("stable_enum", "unexpected_event", "servers", "consistency", "sql", "transaction"),
        *("session", "policy", "request"),
    ),
    "proxy": (
        *("config", "binlog", "tls", "control", "reload", "observe", "state", "server", "shared"),
        *("monitor", "client", "check", "handover", "serve", "workers", "cli"),
    ),
    "proxy.server": ("connection", "query", "connect", "pool", "logins"),
    "proxy.client": (
        *("connection", "statements", "servers", "replies", "effects", "sharing", "requests"),
        *("answers", "login", "fast_path", "session", "listener", "admin"),
    ),
    "mysql_mocker": (
        *("error", "sql", "replication", "state", "columns", "evaluation", "statements"),
        *("wire", "server", "control"),
    ),
    "spark_jobs": (
        *("gtid", "tables", "records", "clocks", "primaries", "reads", "procedure"),
        *("traffic", "store", "state", "binlogs", "findings", "audit", "report", "nightly"),
    ),
}
"""Each folder, and some files, of a package: they may import those before them, and any other file
of the package that imports none behind them itself."""


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def parsed(text: bytes) -> ast.Module:
    return ast.parse(text)


def imports(source: Path) -> Iterator[tuple[str, int]]:
    """Top-level names that a file imports, wherever in the file, with their lines."""
    for node in ast.walk(parsed(source.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}:{node.lineno}: relative import"
            yield str(node.module).split(".")[0], node.lineno


def modules(package: str) -> dict[str, Path]:
    return {
        ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): source
        for source in sources(package.replace(".", "/"))
    }


def imported(source: Path, known: dict[str, Path]) -> set[str]:
    """The modules among `known` that a file imports, wherever in the file and for whatever."""
    found: set[str] = set()
    for node in ast.walk(parsed(source.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of_names = {f"{node.module}.{alias.name}" for alias in node.names}
            # A package is imported for its own sake only by a name that is no module's.
            found |= of_names if of_names <= known.keys() else of_names | {str(node.module)}
    return found & known.keys()


def circle(package: str) -> list[str]:
    """Modules of a package of which each imports the next, and the last is the first."""
    known = modules(package)
    graph = {name: imported(source, known) - {name} for name, source in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def broken_directions(package: str, source: Path) -> list[str]:
    where = source.relative_to(ROOT).as_posix()
    foreign = (
        {*MAY_IMPORT, "tests", "benchmarks"} - MAY_IMPORT[package] - COMMANDS.get(where, set())
    )
    return [f"{where}:{line} imports {name}" for name, line in imports(source) if name in foreign]


def impurities(source: Path) -> list[str]:
    where = source.relative_to(ROOT).as_posix()
    return [
        f"{where}:{line} imports {name}"
        for name, line in imports(source)
        if name in IMPURE - ALLOWED_IMPURE.get(where, set())
    ]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_one_way(package: str) -> None:
    assert sources(package)
    assert [
        broken for source in sources(package) for broken in broken_directions(package, source)
    ] == []


@pytest.mark.parametrize("package", ["protocol", "routing"])
def test_protocol_and_routing_are_pure(package: str) -> None:
    assert [found for source in sources(package) for found in impurities(source)] == []


def test_data_goes_through_data_frames_alone() -> None:
    # What Spark Connect does not have: only the module that starts Spark may use them.
    not_there = {"sparkContext", "rdd", "_jvm", "_jsc", "_jdf", "parallelize", "addPyFile"}
    used = [
        f"{source.relative_to(ROOT)}:{node.lineno} uses {node.attr}"
        for source in sources("spark_jobs")
        if source.name != "spark_session.py"
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in not_there
    ]
    assert used == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_files_import_each_other_in_no_circle(package: str) -> None:
    assert circle(package) == []


def behind(package: str, known: dict[str, Path]) -> dict[str, set[str]]:
    """Which of a package's ordered parts each of its parts uses, through whatever files."""
    depth = package.count(".") + 2

    def part(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    uses: dict[str, set[str]] = {}
    for name, source in known.items():
        found = {part(other) for other in imported(source, known) if other != package}
        uses.setdefault(part(name), set()).update(found - {part(name)})
    ordered = {f"{package}.{name}" for name in FOLDERS[package]}

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for other in uses.get(waiting.pop(), set()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen & ordered

    return {name: reached(name) for name in sorted(ordered)}


@pytest.mark.parametrize("package", FOLDERS)
def test_folders_import_one_way(package: str) -> None:
    folders = {path.parent.name for path in (ROOT / package.replace(".", "/")).glob("*/*.py")}
    assert folders <= set(FOLDERS[package]), "the order names every folder"
    order = [f"{package}.{name}" for name in FOLDERS[package]]
    used = behind(package, modules(package))
    assert [
        f"{name} imports {other}, perhaps through others"
        for position, name in enumerate(order)
        for other in sorted(used[name])
        if other not in order[:position]
    ] == []


def test_an_arrow_against_the_order_is_found_through_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_imports.ROOT", tmp_path)
    for folder in ("lower", "upper"):
        (tmp_path / "sample" / folder).mkdir(parents=True)
        (tmp_path / "sample" / folder / "__init__.py").write_text("")
    (tmp_path / "sample" / "lower" / "a.py").write_text("from sample.between import B\n")
    (tmp_path / "sample" / "between.py").write_text("from sample.upper.c import C\n")
    (tmp_path / "sample" / "upper" / "c.py").write_text("")
    monkeypatch.setitem(FOLDERS, "sample", ("lower", "upper"))
    with pytest.raises(AssertionError, match=r"sample\.lower imports sample\.upper"):
        test_folders_import_one_way("sample")


def test_exceptions_are_in_use() -> None:
    for name, modules in ALLOWED_IMPURE.items():
        assert modules <= {found for found, _ in imports(ROOT / name)}


def test_the_walk_sees_every_form_of_import(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import os.path, ssl as tls\nfrom socket import socket\ndef f():\n    import asyncio\n"
    )
    assert [name for name, _ in imports(source)] == ["os", "ssl", "socket", "asyncio"]


def test_a_circle_is_found_where_only_types_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_imports.ROOT", tmp_path)
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "one.py").write_text("from sample.two import Two\n")
    two = tmp_path / "sample" / "two.py"
    two.write_text("if TYPE_CHECKING:\n    from sample import one\n")
    assert sorted(set(circle("sample"))) == ["sample.one", "sample.two"]
    two.write_text("")
    assert circle("sample") == []
