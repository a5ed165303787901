"""The Unix socket's file: what is replaced, what is not, and what is removed."""

import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.address import Address, host_of
from proxy.config import ConfigError, load
from proxy.unix_socket import LONGEST, UnixSocketError, bind, remove


@contextmanager
def listening(path: Path, mode: int) -> Iterator[socket.socket]:
    """Listen there meanwhile, as a proxy does that hands nothing over."""
    bound = bind(path, mode)
    made = path.lstat()
    with bound:
        yield bound
    remove(path, made)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("mode", [0o777, 0o600])
def test_it_is_there_meanwhile(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "s"
    with listening(path, mode) as bound:
        assert connects(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert bound.getsockname() == str(path)
    assert not path.exists()


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.listen()
    left.close()
    assert not connects(path)
    with listening(path, 0o777):
        assert connects(path)


def test_one_that_never_listened_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        with listening(path, 0o777):
            assert connects(path)


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.symlink_to(tmp_path / "gone")
    with listening(path, 0o777):
        assert connects(path)


@pytest.mark.parametrize("backlog", [0, 5])
def test_a_live_one_is_left_alone(tmp_path: Path, backlog: int) -> None:
    """Also where its backlog is full."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(backlog)
        waiting = []
        for _ in range(backlog + 1 if not backlog else 0):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].connect(str(path))
        with pytest.raises(UnixSocketError, match="another process listens there; stop it"):
            bind(path, 0o777)
        assert path.exists()
        for client in waiting:
            client.close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("notes")
    with pytest.raises(UnixSocketError, match="no socket; remove it"):
        bind(path, 0o777)
    assert path.read_text() == "notes"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnixSocketError, match=r"nowhere/s: No such file.*must be in a directory"):
        bind(tmp_path / "nowhere" / "s", 0o777)


def test_the_file_of_a_successor_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listening(path, 0o777):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
    assert path.exists()


def test_the_file_stays_while_a_successor_listens_there(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound = bind(path, 0o777)
    made = path.lstat()
    successor = bound.dup()
    bound.close()
    remove(path, made)
    assert connects(path)
    successor.close()
    remove(path, made)
    assert not path.exists()


def test_how_clients_and_listeners_are_named() -> None:
    assert str(Address("/run/tidegate/tidegate.sock", 0)) == "/run/tidegate/tidegate.sock"
    for peer, host in {
        "localhost": "localhost",
        "10.0.0.1:1234": "10.0.0.1",
        "[2001:db8::1]:1234": "2001:db8::1",
    }.items():
        assert host_of(peer) == host


@pytest.mark.parametrize(
    ("text", "value"), [("0660", "0660"), ("660", "0660"), ("770", "0770"), ("0777", "0777")]
)
def test_modes(text: str, value: str) -> None:
    found = load(None, {"primary": ["db"], "socket": ["s"], "socket-mode": [text]})
    assert found.socket_mode == value


@pytest.mark.parametrize("text", ["888", "07777", "rw", "66"])
def test_no_modes(text: str) -> None:
    with pytest.raises(ConfigError, match='want permissions such as "0660"'):
        load(None, {"primary": ["db"], "socket": ["s"], "socket-mode": [text]})


def test_a_number_is_no_mode(tmp_path: Path) -> None:
    """TOML's 440 is a decimal number: 0670."""
    file = tmp_path / "tidegate.toml"
    file.write_text('primary = "db"\nsocket = "s"\nsocket-mode = 440\n')
    with pytest.raises(ConfigError, match='want permissions such as "0660"'):
        load(file, {})


def test_the_longest_path() -> None:
    for length, fits in ((LONGEST, True), (LONGEST + 1, False)):
        arguments = {"primary": ["db"], "socket": ["/" + "a" * (length - 1)]}
        if fits:
            load(None, arguments)
        else:
            with pytest.raises(ConfigError, match="at most 107 bytes"):
                load(None, arguments)
