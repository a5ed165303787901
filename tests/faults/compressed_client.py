"""A client that compresses once it has logged in."""

import asyncio

from protocol.compression import Algorithm, Compression, agreed_algorithm
from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.packet import frame
from tests.faults.client import Client


class CompressedClient(Client):
    """One connection; `begin` follows the login.

    Attributes:
        sequence_ids: of the compressed packets that came since the last `heard`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._compression: Compression | None = None
        self._plain = b""
        self.sequence_ids: list[int] = []

    @property
    def compression(self) -> Compression:
        assert self._compression is not None
        return self._compression

    def begin(self) -> None:
        """Compress from here on, by what the login named."""
        algorithm = agreed_algorithm(self.capabilities)
        assert algorithm is not Algorithm.UNCOMPRESSED
        self._compression = Compression(algorithm, 3, server=False)

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data if self._compression is None else self._compression.send(data))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are; their answer may begin with any id."""
        if self._compression is not None:
            self._compression._answers.update(range(256))
        self.writer.write(data)

    async def read_packet(self) -> bytes:
        if self._compression is None:
            return await super().read_packet()
        while len(self._plain) < 4:
            await self._pump()
        length = int.from_bytes(self._plain[:3], "little")
        self.sequence_id = self._plain[3]
        while len(self._plain) < 4 + length:
            await self._pump()
        payload, self._plain = self._plain[4 : 4 + length], self._plain[4 + length :]
        return payload

    async def rest(self) -> bytes:
        try:
            while True:
                await self._pump()
        except (asyncio.IncompleteReadError, ConnectionError):
            return self._plain

    def heard(self) -> list[int]:
        """The ids of the compressed packets since the last call."""
        found, self.sequence_ids = self.sequence_ids, []
        return found

    async def _pump(self) -> None:
        header = await self.reader.readexactly(7)
        self.compression.receive_data(header)
        self.compression.receive_data(
            await self.reader.readexactly(int.from_bytes(header[:3], "little"))
        )
        self.sequence_ids.append(header[3])
        while (plain := self.compression.next_plain()) is not None:
            self._plain += plain


class OddClient(CompressedClient):
    """Numbers what is inside of its compressed packets as no other client would."""

    def send(self, payload: bytes, sequence_id: int = 0) -> None:
        if self._compression is None:
            super().send(payload, sequence_id)
            return
        outer = 0 if sequence_id == 0 else self.sequence_ids[-1] + 1
        plain = frame(payload, sequence_id + 77)
        for at in range(0, len(plain), MAX_PACKET_PAYLOAD):
            part = plain[at : at + MAX_PACKET_PAYLOAD]
            self.send_raw(len(part).to_bytes(3, "little") + bytes((outer & 0xFF, 0, 0, 0)) + part)
            outer += 1
        self.sequence_ids.append(outer - 1)
