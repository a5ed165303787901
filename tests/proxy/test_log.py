"""Messages on stderr: one line each, as text and as JSON."""

import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import log
from proxy.log import Formatter, JsonFormatter

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("proxy.x", logging.WARNING, "x.py", 1, message, arguments, None)


@given(TEXTS)
def test_no_text_adds_a_line(name: str) -> None:
    for formatter in (Formatter(None), JsonFormatter(3)):
        assert formatter.format(record("client %s came", name)).isprintable()


@given(TEXTS)
def test_json_has_the_message_and_its_template(name: str) -> None:
    found = json.loads(JsonFormatter(3).format(record("client %s came", name)))
    when = found.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", when)
    assert found == {
        "level": "warning",
        "logger": "proxy.x",
        "worker": 3,
        "message": f"client {name} came",
        "template": "client %s came",
    }


def test_a_single_worker_has_no_number() -> None:
    assert "worker" not in json.loads(JsonFormatter(None).format(record("x")))


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_shown(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json" if form == "json" else "text")
    try:
        int("broken\nline")
    except ValueError:
        logging.getLogger("proxy.x").exception("it failed")
    logging.getLogger("proxy.x").debug("not shown")
    lines = capsys.readouterr().err.splitlines()
    if form == "json":
        (line,) = lines
        assert "ValueError: invalid literal" in json.loads(line)["exception"]
    else:
        assert lines[0].endswith("ERROR proxy.x: it failed")
        assert lines[-1].startswith("ValueError: invalid literal")
