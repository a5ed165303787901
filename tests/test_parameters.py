"""What travels together is one value: no function of the product takes more than seven parameters.

Ruff's PLR0913 tells of the same where a line may ignore it; here nothing does. The fields of a
dataclass or of a named tuple are no parameters: such a class is the value.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = ("protocol", "routing", "proxy", "mysql_mocker", "spark_jobs", "tidegate")

MOST = 7

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, inside: str = "") -> Iterator[tuple[str, Function, bool]]:
    """Each function with its qualified name, and whether its first parameter is the instance."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from functions(child, f"{inside}{child.name}.")
        elif isinstance(child, Function):
            static = any(
                isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
                for decorator in child.decorator_list
            )
            yield inside + child.name, child, isinstance(node, ast.ClassDef) and not static
            yield from functions(child, f"{inside}{child.name}.")
        else:
            yield from functions(child, inside)


def parameters(function: Function, *, of_instance: bool) -> int:
    """How many it takes besides `self` or `cls`; ``*args`` and ``**options`` count as one each."""
    taken = function.args
    named = len(taken.posonlyargs + taken.args + taken.kwonlyargs)
    return named + (taken.vararg is not None) + (taken.kwarg is not None) - of_instance


@cache
def trees(package: str) -> list[ast.Module]:
    return [ast.parse(path.read_bytes()) for path in sorted((ROOT / package).rglob("*.py"))]


def above(tree: ast.Module) -> set[str]:
    return {
        name
        for name, function, of_instance in functions(tree)
        if parameters(function, of_instance=of_instance) > MOST
    }


def splats(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Where, by class and function, a call is given some of its arguments as ``*(a, b)``."""
    for child in ast.iter_child_nodes(tree):
        name = inside
        if isinstance(child, ast.ClassDef | Function):
            name = f"{inside}.{child.name}".lstrip(".")
        if isinstance(child, ast.Call) and any(
            isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple | ast.List)
            for argument in child.args
        ):
            yield inside
        yield from splats(child, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_takes_more_than_seven_parameters(package: str) -> None:
    assert {name for tree in trees(package) for name in above(tree)} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_splat_stands_for_arguments(package: str) -> None:
    assert {name for tree in trees(package) for name in splats(tree)} == set()


def test_what_is_counted() -> None:
    tree = ast.parse(
        "class Taken:\n"
        "    def seven(self, a, b, /, c, d, *, e, f, g): ...\n"
        "    def eight(self, a, b, /, c, d, *e, f, g, **h): ...\n"
        "    @staticmethod\n"
        "    def static(a, b, c, d, e, f, g, h): ...\n"
        "async def plain(a, b, c, d, e, f, g, h):\n"
        "    def inner(a, b, c, d, e, f, g, h): ...\n"
    )
    assert above(tree) == {"Taken.eight", "Taken.static", "plain", "plain.inner"}


def test_which_splats_are_found() -> None:
    tree = ast.parse(
        "def one():\n    f(*(1, 2), 3)\n"
        "def none():\n    f(*values, {*(1, 2)})\n"
        "class Two:\n    def two():\n        return g(f(3, *[1, 2]))\n"
    )
    assert list(splats(tree)) == ["one", "Two.two"]
