"""How the proxy stops while clients are connected."""

import pytest

from proxy.serve import drain
from tests.faults.proxy_fixture import proxy_fixture


@pytest.mark.parametrize("tls", [False, True])
async def test_an_idle_client_that_does_not_close_its_side_holds_up_no_stop(
    tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(tls=tls)
        client.writer.transport.pause_reading()
        await drain(proxy.shared)
        assert not [record for record in caplog.records if "cut off" in record.message]
        assert not proxy.shared.sessions
        client.abort()
