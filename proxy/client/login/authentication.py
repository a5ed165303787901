"""Learns a client's password, so that the servers can decide: the proxy has no accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.authentication import PasswordExchange

if TYPE_CHECKING:
    from protocol.authentication import RsaKey
    from proxy.channel import PacketChannel
    from proxy.shared.known_passwords import KnownPasswords
    from routing.servers.topology import Server


class Authentication:
    """One login of one client: its scramble, or its password over TLS or the proxy's RSA key.

    Attributes:
        username: who logs in.
        awaits: the server whose answer the login waits for; None while the client is to answer.
    """

    def __init__(
        self,
        channel: PacketChannel,
        username: str,
        nonce: bytes,
        rsa_key: RsaKey,
        known: KnownPasswords,
    ) -> None:
        """Begin.

        Args:
            channel: to the client.
            username: who logs in.
            nonce: 20 bytes that the client was given.
            rsa_key: for clients without TLS.
            known: passwords that the primary has accepted.
        """
        self.username = username
        self.awaits: Server | None = None
        self._channel = channel
        self._nonce = nonce
        self._rsa_key = rsa_key
        self._known = known
        self._exchange: PasswordExchange | None = None

    @property
    def is_proven(self) -> bool:
        """Whether the password is one that the primary has accepted for this user before."""
        exchange = self._exchange
        return exchange is not None and exchange.fast

    async def learn(self, plugin: str | None, response: bytes) -> bytes:
        """Learn the client's password.

        Args:
            plugin: the client's authentication plugin.
            response: what it answered to the nonce.

        Raises:
            ChannelClosedError: the client left.
            ProtocolError: it broke the protocol, or cannot do what is asked.
        """
        self._exchange = exchange = PasswordExchange(
            plugin,
            response,
            self._nonce,
            self._channel.private,
            self._rsa_key,
            self._known.get(self.username),
        )
        return await self._converse(exchange, exchange.start())

    async def learn_anew(self) -> bytes | None:
        """The primary refuses the password that fitted the scramble: ask the client for it.

        None if the client has sent it already: then the primary's refusal is final.

        Raises:
            ChannelClosedError, ProtocolError: as `learn`.
        """
        exchange = self._exchange
        if exchange is None or exchange.password is None:
            return None
        self._known.on_refused(self.username, exchange.password)
        if not exchange.fast:
            return None
        return await self._converse(exchange, exchange.insist())

    def accepted(self) -> None:
        """The primary has let the client in: end the exchange; the OK, or an error, follows."""
        exchange = self._exchange
        if exchange is None or exchange.password is None:
            return
        self._known.on_accepted(self.username, exchange.password)
        if exchange.fast:
            self._channel.write_packet(exchange.success(), follows=True)

    async def _converse(self, exchange: PasswordExchange, reply: bytes | None) -> bytes:
        self.awaits = None
        while exchange.password is None:
            if reply is not None:
                self._channel.write_packet(reply)
            reply = exchange.receive(await self._channel.read_packet())
        return exchange.password
