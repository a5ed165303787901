"""What travels together is one value: few parameters, and no tuple that stands for several."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = ("protocol", "proxy")

MOST = 7
"""Parameters besides self."""

ALLOWED_LONG = {
    # A command, and a record of the log, are still written field by field.
    "proxy/client/requests/commands/command_context.py: command",
    "proxy/observe/ledger.py: __init__",
    "proxy/observe/routing_log.py: __init__",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(package: str) -> Iterator[tuple[str, ast.Module]]:
    for source in sorted((ROOT / package).rglob("*.py")):
        yield source.relative_to(ROOT).as_posix(), ast.parse(source.read_bytes())


def parameters(function: Function) -> list[str]:
    """All but what a method belongs to."""
    arguments = function.args
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [one.arg for one in found if one.arg not in ("self", "cls")]


def splats(call: ast.Call) -> list[ast.Starred]:
    """The literals among a call's arguments that only stand for several of them."""
    return [
        argument
        for argument in call.args
        if isinstance(argument, ast.Starred) and isinstance(argument.value, (ast.Tuple, ast.List))
    ]


def long_signatures(where: str, module: ast.Module) -> list[str]:
    return [
        f"{where}: {node.name}"
        for node in ast.walk(module)
        if isinstance(node, Function) and len(parameters(node)) > MOST
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_takes_more_than_seven_parameters(package: str) -> None:
    found = {name for where, module in parsed(package) for name in long_signatures(where, module)}
    assert found - ALLOWED_LONG == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_splat_stands_for_an_argument_list(package: str) -> None:
    assert [
        f"{where}:{splat.lineno}"
        for where, module in parsed(package)
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        for splat in splats(node)
    ] == []


def test_both_are_found_where_they_are() -> None:
    module = ast.parse(
        "class A:\n"
        "    def __init__(self, a, b, c, d, e, f, *, g, h): ...\n"
        "    async def fits(self, a, b, c, d, e, f, *, g): ...\n"
        "call(1, *(2, 3), *rest, *(one for one in rest))\n"
    )
    assert long_signatures("a.py", module) == ["a.py: __init__"]
    (call,) = (
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    assert len(splats(call)) == 1
