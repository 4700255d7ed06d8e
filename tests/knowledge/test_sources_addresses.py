"""Which addresses may be reached, in all notations of an address."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.web.addresses import AddressPolicy

NOT_PUBLIC = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b:1::808:808",
    "100::1",
    "2001:db8::1",
    "2001::1",
    "2002:7f00:1::",
    "4000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%2",
    "fec0::1",
    "ff02::1",
]
ADDRESSES = st.one_of(st.ip_addresses(), st.sampled_from(NOT_PUBLIC)).map(str)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_what_is_not_public(address: str) -> None:
    """Loopback, private, shared, link-local, multicast, reserved and metadata are refused."""
    assert not AddressPolicy().permits("example.com", address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_what_is_public(address: str) -> None:
    """Public addresses are allowed, including those of IPv4 inside IPv6."""
    assert AddressPolicy().permits("example.com", address)


@given(st.ip_addresses(v=4))
def test_disguises(address: IPv4Address) -> None:
    """An IPv4 address has the same result if it is IPv4-mapped or NAT64."""
    plain = AddressPolicy().permits("h", str(address))
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        disguised = IPv6Address(int(IPv6Address(prefix)) + int(address))
        assert AddressPolicy().permits("h", str(disguised)) is plain


@given(ADDRESSES)
def test_an_allowed_host_opens_no_other(address: str) -> None:
    """Allowing a host has no effect on other hosts, and closes nothing for itself."""
    allowing = AddressPolicy(["wiki.internal"])
    public = AddressPolicy().permits("other.internal", address)
    for other in ("other.internal", "internal", "x.wiki.internal", "wiki.internal.example.com"):
        assert allowing.permits(other, address) is public
    assert allowing.permits("wiki.internal", address) >= public


def test_an_allowed_host() -> None:
    """An allowed host may be private, in any case and with or without a trailing dot."""
    for entry in ("Wiki.Internal", "wiki.internal."):
        policy = AddressPolicy([entry])
        assert policy.permits("wiki.internal", "10.0.0.1")
        assert policy.permits("WIKI.internal.", "::1")


def test_a_name_opens_no_credentials() -> None:
    """Addresses that serve credentials are not opened by host name, only by address."""
    for address in ("169.254.169.254", "fd00:ec2::254", "168.63.129.16", "::ffff:169.254.169.254"):
        assert not AddressPolicy(["wiki.internal"]).permits("wiki.internal", address)
        assert AddressPolicy([address]).permits("wiki.internal", address)


def test_allowed_addresses_and_networks() -> None:
    """Allowed addresses and networks are open under any host name, and no others are."""
    policy = AddressPolicy(["10.1.7.9/16", "127.0.0.1", "[::1]", "fd12::/16"])
    for address in ("10.1.0.1", "10.1.255.1", "127.0.0.1", "::ffff:127.0.0.1", "::1", "fd12:3::1"):
        assert policy.permits("any.example", address)
    for address in ("10.2.0.1", "127.0.0.2", "::2", "fd13::1"):
        assert not policy.permits("any.example", address)


@pytest.mark.parametrize(
    "entry",
    ["", "10.0.0.0/99", "http://wiki", "wiki:8080", "*.internal", "two words", "a/b", "u@h"],
)
def test_entries_that_are_nothing(entry: str) -> None:
    """An entry that is not a host, address or network is refused instead of never matching."""
    with pytest.raises(SourceError, match="is not a host name, address or network"):
        AddressPolicy([entry])
