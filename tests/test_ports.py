"""Ports for servers: none is handed out twice, neither to one process nor to two."""

import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from scripts.ports import BLOCK, END, FIRST, Ports, reserve_port, reserve_ports

ROOT = Path(__file__).resolve().parent.parent
COUNT = 1_000
"""So many of 22,000 repeat, where each is drawn for itself."""

DRAW = f"""
from scripts.ports import reserve_port
print(*(reserve_port() for _ in range({COUNT})), flush=True)
input()
"""


def test_a_process_is_given_no_port_twice() -> None:
    ports = [reserve_port() for _ in range(COUNT)]
    assert len(set(ports)) == COUNT
    assert all(FIRST < port < END for port in ports)


def test_processes_that_run_at_once_are_given_different_ports() -> None:
    with ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", DRAW],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(3)
        ]
        drawn = []
        for process in processes:
            assert process.stdout is not None
            drawn += process.stdout.readline().split()
        for process in processes:
            process.communicate("\n", timeout=60)
    assert len(set(drawn)) == len(drawn) == 3 * COUNT


def test_a_port_on_which_somebody_listens_is_left_out() -> None:
    ports = Ports()
    taken = ports.reserve(1)[0] + 1
    with ExitStack() as listening:
        with suppress(OSError):  # somebody does already
            listening.enter_context(socket.create_server(("127.0.0.1", taken)))
        assert ports.reserve(1) != [taken]


def test_ports_in_a_row_are_of_one_block() -> None:
    rows = [reserve_ports(40) for _ in range(5)]
    assert all(row == list(range(row[0], row[0] + 40)) for row in rows)
    assert len(set().union(*rows)) == 200
    with pytest.raises(ValueError, match="at most 99"):
        reserve_ports(BLOCK)
