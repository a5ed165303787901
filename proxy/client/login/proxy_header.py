"""Learns from a load balancer whose connection it passes on (`protocol.proxy_header`)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from protocol import proxy_header
from protocol.errors import PacketOutOfOrderError
from proxy.address import Address, host_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network, IPv6Network

    from proxy.channel import PacketChannel


async def take_proxy_header(
    channel: PacketChannel, networks: Sequence[IPv4Network | IPv6Network]
) -> None:
    """Take the header that a client's connection may begin with, and name the client by it.

    Args:
        channel: to the client, which has sent nothing yet that was read.
        networks: whose headers are believed.

    Raises:
        MalformedHeaderError: it is none.
        PacketOutOfOrderError: the peer is in none of the networks.
        ChannelClosedError: the peer left.
    """
    data = await channel.read_exactly(proxy_header.BEGIN)
    if not proxy_header.begins(data):
        channel.put_back(data)
        return
    if not sends_header(channel, networks):
        raise PacketOutOfOrderError(
            "a PROXY header came from an address that is in none of proxy-protocol-networks"
        )
    while missing := proxy_header.missing(data):
        data += await channel.read_exactly(missing)
    source = proxy_header.parse(data)
    if source is not None:
        channel.peer = str(Address(source.host, source.port))


def sends_header(channel: PacketChannel, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a header of the peer's would be believed: it is in one of the networks."""
    host = host_of(channel.peer).partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)
