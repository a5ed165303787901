"""The table from the purpose of a question to who handles its answer."""

import ast
from pathlib import Path

import pytest

from proxy.client import statements
from proxy.client.answers.proxy_query_answers import HANDLERS, ProxyQueryAnswers
from proxy.server import exchange
from proxy.server.exchange import Exchange, Purpose


@pytest.mark.parametrize("purpose", Purpose)
def test_each_purpose_has_a_handler(purpose: Purpose) -> None:
    """But the client's own commands, whose answers are passed on."""
    assert (purpose in HANDLERS) is (purpose is not Purpose.FORWARD)


def test_no_handler_serves_two_purposes() -> None:
    assert len({*map(id, HANDLERS.values())}) == len(HANDLERS)
    assert all(callable(handler) for handler in HANDLERS.values())
    assert all(hasattr(ProxyQueryAnswers, handler.__name__) for handler in HANDLERS.values())


def test_questions_are_put_in_one_folder() -> None:
    """Each has a file with its SQL and how its answer is read (`proxy.client.statements`)."""
    of_questions = {
        name
        for name, value in vars(exchange).items()
        if isinstance(value, Exchange) and value.purpose is not Purpose.FORWARD
    }
    folder = Path(statements.__file__).parent
    for source in sorted(folder.parent.rglob("*.py")):
        if source.parent != folder:
            names = {
                alias.name
                for node in ast.walk(ast.parse(source.read_text("utf-8")))
                if isinstance(node, ast.ImportFrom) and node.module == exchange.__name__
                for alias in node.names
            }
            assert not names & of_questions, source
