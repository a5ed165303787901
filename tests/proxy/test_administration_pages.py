"""`/v1/…` over HTTP: who is shown what, and who may act."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import MalformedPacketError
from proxy.config.secret_files import read_token
from proxy.shared.administration.http_pages import AdministrationPages
from proxy.shared.administration.merged import COLUMNS, merged
from proxy.shared.administration.question import LENGTH, MOST_ANSWERED, Answer, Question

TOKEN = b"0123456789abcdef"
SHOWN = ("/v1/servers", "/v1/sessions")
ACTIONS = [
    ("POST", "/v1/servers/db2:3306/drain", Question("drain", server="db2:3306")),
    ("POST", "/v1/servers/[::1]:3306/undrain", Question("undrain", server="[::1]:3306")),
    ("POST", "/v1/reload", Question("reload")),
    ("DELETE", "/v1/sessions/12", Question("kill", connection_id=12)),
]


class Pages:
    """The pages, with workers that answer what the test says."""

    def __init__(self, token: bytes = b"", workers: int = 1) -> None:
        self.asked: list[Question] = []
        self.answers: dict[int, Answer | None] = {0: Answer()}
        self._pages = AdministrationPages(self._ask, token, workers)

    def _ask(self, question: Question) -> Mapping[int, Answer | None]:
        self.asked.append(question)
        return self.answers

    def get(
        self, path: str, method: str = "GET", token: str = "", **environ: str
    ) -> tuple[int, Any]:
        """The status and the body."""
        found: list[str] = []
        request = {
            "PATH_INFO": path,
            "REQUEST_METHOD": method,
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1:9477",
            **({"HTTP_AUTHORIZATION": token} if token else {}),
            **environ,
        }
        body = b"".join(self._pages(request, lambda status, headers: found.append(status)))  # type: ignore[arg-type, return-value] # a start_response that writes nothing
        return int(found[0][:3]), json.loads(body)


@pytest.mark.parametrize("path", SHOWN)
def test_what_is_shown(path: str) -> None:
    pages = Pages()
    subject: Any = path.removeprefix("/v1/")
    columns = COLUMNS[subject]
    pages.answers = {0: Answer([[str(i) for i in range(len(columns))]], left_out=3), 1: None}
    status, body = pages.get(path)
    assert status == 200
    assert list(body) == [subject, "notes"]
    assert list(body[subject][0]) == list(columns)
    assert body["notes"] == ["worker 1 does not answer", "3 more have no room here"]


@pytest.mark.parametrize(
    ("environ", "may"),
    [
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_HOST": "10.0.0.1:9477"}, False),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "rebound.example:9477"}, False),
        ({"REMOTE_ADDR": "10.0.0.7", "HTTP_HOST": "localhost"}, False),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": ""}, False),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:9477"}, True),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": "[::1]:9477"}, True),
        ({"REMOTE_ADDR": "::ffff:127.0.0.1", "HTTP_HOST": "127.0.0.1"}, True),
    ],
)
def test_sessions_are_shown_to_this_machine(environ: dict[str, str], may: bool) -> None:
    pages = Pages()
    assert pages.get("/v1/sessions", **environ)[0] == (200 if may else 403)
    assert len(pages.asked) == may
    assert pages.get("/v1/servers", **environ)[0] == 200


@pytest.mark.parametrize(("method", "path", "question"), ACTIONS)
def test_without_a_token_nothing_can_be_changed(method: str, path: str, question: Question) -> None:
    pages = Pages()
    assert pages.get(path, method, "Bearer x")[0] == 403
    assert pages.asked == []


@pytest.mark.parametrize(("method", "path", "question"), ACTIONS)
def test_actions(method: str, path: str, question: Question) -> None:
    pages = Pages(TOKEN)
    pages.answers = {0: Answer([[1] * len(COLUMNS[question.subject])])}
    for wrong in ("", "Bearer", "Bearer x", "Basic 0123456789abcdef", "Bearer 0123456789abcdeg"):
        assert pages.get(path, method, wrong)[0] == 401
    assert pages.get(path, "GET", "Bearer 0123456789abcdef")[0] == 405
    assert pages.asked == []
    assert pages.get(path, method, "bearer 0123456789abcdef")[0] == 200
    assert pages.asked == [question]


@pytest.mark.parametrize("path", SHOWN)
def test_with_a_token_everything_needs_it(path: str) -> None:
    pages = Pages(TOKEN)
    assert pages.get(path)[0] == 401
    assert pages.get(path, token=f"Bearer {TOKEN.decode()}", REMOTE_ADDR="10.0.0.7")[0] == 200
    assert pages.get(path, "POST", f"Bearer {TOKEN.decode()}")[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/", "/v1/nothing", "/v1/sessions/", "/v1/sessions/x", "/v1/sessions/12345678901"),
        *("/v1/servers/db2:3306", "/v1/servers//drain", "/v1/servers/a/b/drain"),
        f"/v1/servers/{'x' * 301}/drain",
    ],
)
def test_other_paths(path: str) -> None:
    assert Pages().get(path)[0] == 404


def test_refusals() -> None:
    pages = Pages(TOKEN)
    token = f"Bearer {TOKEN.decode()}"
    pages.answers = {0: Answer(refusal="it is the primary")}
    assert pages.get("/v1/servers/db1/drain", "POST", token) == (
        409,
        {"error": "it is the primary"},
    )
    pages.answers = {0: Answer()}
    assert pages.get("/v1/sessions/7", "DELETE", token)[0] == 404
    pages.answers = {0: Answer(), 1: None}
    status, body = pages.get("/v1/sessions/7", "DELETE", token)
    assert (status, body["error"]) == (502, "there is no such session; worker 1 does not answer")


# Questions and answers.


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"subject": "passwords", "room": 9}',
        b'{"subject": "kill", "connection_id": "x", "room": 9}',
        b'{"subject": "sessions", "user": 1, "room": 9}',
        b'{"subject": "sessions"}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_questions_that_are_none(data: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        Question.parse(data)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"rows": [1], "left_out": 0, "refusal": ""}', b'{"rows": []}']
)
def test_answers_that_are_none(data: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        Answer.parse(data)


def test_an_answer_has_only_so_many_bytes() -> None:
    answer = Answer(
        [["x" * 1000, number] for number in range(5000)], left_out=7, refusal="y" * 9999
    )
    for room in (0, 100_000, 1 << 30):
        data = answer.serialise(room)
        assert len(data) <= max(8192, min(room, MOST_ANSWERED)) + LENGTH.size
        found = Answer.parse(data[LENGTH.size :])
        assert len(found.rows) + found.left_out == 5007
    question = Question("sessions", "app", room=1 << 40)
    assert Question.parse(question.serialise()[LENGTH.size :]).room == MOST_ANSWERED
    with pytest.raises(ValueError, match="bytes"):
        Question("sessions", "x" * 5000).serialise()


def test_rows_of_another_version_are_left_out() -> None:
    found = merged(Question("kill"), {0: Answer([[1]]), 1: Answer([[1, 2], []])})
    assert list(found.rows) == [[1]]


def test_tokens(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    assert read_token(path) == TOKEN
    for text in ("", "short", "0123456789 abcdef", "0123456789abcdef\nanother", "ä" * 20):
        path.write_text(text)
        with pytest.raises(ValueError, match="must hold one line"):
            read_token(path)
