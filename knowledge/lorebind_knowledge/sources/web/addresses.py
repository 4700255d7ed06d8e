"""Decide which addresses sources may reach: public ones, and those that a project allows.

Public addresses are those that the IANA registries list as globally reachable unicast. An IPv6
address that embeds an IPv4 address (IPv4-mapped, NAT64) is checked as that IPv4 address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

import httpx

from lorebind_config.errors import SourceError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
_OLD_TUNNELS: tuple[Network, ...] = (IPv4Network("192.88.99.0/24"), IPv6Network("2002::/16"))
_METADATA: tuple[Network, ...] = (
    IPv4Network("169.254.0.0/16"),  # link-local: AWS, Azure, Google, and containers' credentials
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),  # AWS
    IPv4Network("168.63.129.16/32"),  # Azure, a public address
    IPv4Network("100.100.100.200/32"),  # Alibaba
    IPv4Network("192.0.0.192/32"),  # Oracle
)
"""Networks where clouds serve a machine's credentials, including link-local addresses."""


class AddressPolicy:
    """The addresses that a source may reach: public ones and allowed ones.

    An allowed host may have private addresses; that does not allow other hosts to use them. An
    allowed address or network may be reached under any host name. Addresses that serve a machine's
    credentials must be allowed as addresses: allowing a host name is not enough, because the
    address of a name can change.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        """Parse the allowed entries.

        Args:
            allow: host names, addresses, and networks such as `10.1.0.0/16`.

        Raises:
            SourceError: an entry is none of these.
        """
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        for entry in allow:
            try:
                network = ip_network(entry.strip("[]"), strict=False)
            except ValueError:
                self._hosts.add(_host(entry))
                continue
            is_single = network.num_addresses == 1
            self._networks.append(ip_network(_plain(network[0])) if is_single else network)

    def permits(self, host: str, address: str) -> bool:
        """Return whether the host, as ASCII, may be reached at the numeric address."""
        plain = _plain(ip_address(address))
        if any(plain in network for network in self._networks):
            return True
        if any(plain in network for network in _METADATA):
            return False
        return host.lower().rstrip(".") in self._hosts or _is_public(plain)


def _plain(address: Address) -> Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(address.packed[-4:])
    return address


def _is_public(address: Address) -> bool:
    if any(address in network for network in _OLD_TUNNELS):
        return False
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _host(entry: str) -> str:
    if re.fullmatch(r"[^\s/:?#@\[\]*]+", entry):
        with suppress(httpx.InvalidURL):
            return httpx.URL(f"http://{entry}/").raw_host.decode("ascii").lower().rstrip(".")
    raise SourceError(
        f"{entry!r} under 'allow' is not a host name, address or network; "
        "write for example 'wiki.internal', '10.0.0.7' or '10.1.0.0/16'"
    )
