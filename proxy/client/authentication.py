"""Learns a client's password, so that the servers can decide: the proxy has no accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.authentication import PasswordExchange

if TYPE_CHECKING:
    from protocol.authentication import RsaKey
    from proxy.channel import PacketChannel


async def learn_password(
    channel: PacketChannel, plugin: str | None, response: bytes, nonce: bytes, rsa_key: RsaKey
) -> bytes:
    """Ask the client for its password, over TLS or under the proxy's RSA key.

    Args:
        channel: behind the packet that held `response`.
        plugin: the client's authentication plugin.
        response: what it answered to the nonce.
        nonce: 20 bytes that it was given.
        rsa_key: for clients without TLS.

    Raises:
        ChannelClosedError: the client left.
        ProtocolError: it broke the protocol, or cannot do what is asked.
    """
    exchange = PasswordExchange(plugin, response, nonce, channel.secure, rsa_key)
    reply = exchange.start()
    while exchange.password is None:
        if reply is not None:
            channel.write_packet(reply)
        reply = exchange.receive(await channel.read_packet())
    return exchange.password
