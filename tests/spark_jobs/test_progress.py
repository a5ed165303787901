"""Progress on a terminal, and nowhere else."""

import io

from spark_jobs.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_stage_and_forgets_it() -> None:
    terminal, times = Terminal(), iter((100.0, 100.4, 1275.0))
    progress = Progress(terminal, lambda: next(times))
    progress.stage("reading the log")
    assert terminal.getvalue() == "\r\x1b[2Kaudit, 0 s: reading the log …"
    progress.stage("judging reads")
    assert terminal.getvalue().endswith("\r\x1b[2Kaudit, 1,175 s: judging reads …")
    progress.end()
    assert terminal.getvalue().endswith("…\r\x1b[2K")
    assert "\n" not in terminal.getvalue()


def test_nothing_else_does() -> None:
    file = io.StringIO()
    progress = Progress(file)
    progress.stage("reading the log")
    progress.end()
    assert file.getvalue() == ""
