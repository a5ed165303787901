"""MySQL's and MariaDB's command line clients at a server, by each of the ways in."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product

from tidegate_recording import record

# What makes each client go each way; --commands lets MySQL's take the \\s below.
WAYS = {
    "mysql": {
        "no TLS": ["--ssl-mode=DISABLED", "--get-server-public-key", "--commands"],
        "TLS": ["--ssl-mode=REQUIRED", "--commands"],
        "no compression": ["--compression-algorithms=uncompressed"],
        "zlib": ["--compression-algorithms=zlib"],
        "zstd": ["--compression-algorithms=zstd"],
    },
    "mariadb": {
        "no TLS": ["--skip-ssl"],
        "TLS": ["--ssl"],
        "no compression": [],
        "zlib": ["--compress"],
    },
}

WRITE_AND_READ = """
DROP TABLE IF EXISTS t; CREATE TABLE t (id INT, v LONGTEXT);
INSERT INTO t VALUES (1, REPEAT('x', 2000000)), (2, 'y');
SELECT COUNT(*), SUM(LENGTH(v)) FROM t;
BEGIN; DELETE FROM t; ROLLBACK; SELECT v FROM t WHERE id = 2;
"""
SEVERAL_RESULTS = "DELIMITER //\nSELECT 1; SELECT 2//\n"
PROCEDURE = """
DELIMITER //
DROP PROCEDURE IF EXISTS twice//
CREATE PROCEDURE twice() BEGIN SELECT 1; SELECT 2; END//
CALL twice()//
"""
CHECKS = {
    "what was written is read": (WRITE_AND_READ, "2\t2000001\ny\n", ""),
    "several statements in one text": (SEVERAL_RESULTS, "1\n2\n", ""),
    "a procedure": (PROCEDURE, "1\n2\n", ""),
    "an error": ("SELECT * FROM absent", "", "ERROR 1146 (42S02)"),
    "a large result": ("SELECT REPEAT('x', 5000000)", "x" * 5_000_000 + "\n", ""),
    "another schema": ("USE test2; SELECT DATABASE()", "test2\n", ""),
}


def run(command: list[str], sql: str) -> tuple[str, str]:
    """What a client answers to a script, and what it says of errors."""
    done = subprocess.run(
        command, input=sql, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr


def main() -> None:
    """Run every client of TIDEGATE_CLIENTS (JSON: its name, its command) every way."""
    account = [f"--{name}={os.environ[f'TIDEGATE_{name.upper()}']}" for name in ("host", "port")]
    account += [f"--user={os.environ['TIDEGATE_USER']}", "--batch", "--skip-column-names", "test"]
    os.environ["MYSQL_PWD"] = os.environ["TIDEGATE_PASSWORD"]
    for client, program in json.loads(os.environ["TIDEGATE_CLIENTS"]).items():
        ways = WAYS[client]
        tls = [name for name in ways if "TLS" in name]
        for encryption, compression in product(tls, [name for name in ways if name not in tls]):
            command = [*program, "--no-defaults", *ways[encryption], *ways[compression], *account]
            seen: dict[str, tuple[bool, tuple[str, str]]] = {}
            for name, (sql, expected, error) in CHECKS.items():
                answer = run(command, sql)
                well = answer[0] == expected and (error in answer[1] if error else not answer[1])
                seen[name] = well, answer
            status = run(command, "\\s\n")
            well = ("Cipher in use" in status[0]) == (encryption == "TLS")
            seen["encryption is as asked for"] = well, status
            well = ("Compressed" in status[0]) == (compression != "no compression")
            seen["compression is as asked for"] = well, status
            for name, (well, answer) in seen.items():
                test = f"{client}, {encryption}, {compression}: {name}"
                record(test, "passed" if well else "failed", repr(answer)[-2000:])


if __name__ == "__main__":
    main()
