"""The mocker reports GTIDs where MySQL 9.7 does."""

import pytest

from tests.mysql_mocker.gtid_matrix import MATRIX, Row, check, lay_out
from tests.mysql_mocker.raw_client import RawClient


@pytest.mark.not_fast
@pytest.mark.parametrize("mode", ["OFF", "OWN_GTID", "ALL_GTIDS"])
@pytest.mark.parametrize("row", MATRIX, ids=str)
def test_row(client: RawClient, row: Row, mode: str) -> None:
    lay_out(client)
    check(client, row, mode, unused=501)
