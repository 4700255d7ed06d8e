"""Internal addresses in every spelling: only allowed servers are connected to."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.web import fetcher as fetcher_module
from lorebind_knowledge.sources.web.fetcher import Fetcher
from tests.knowledge.web_server import Answer, WebServer

from .trials import Trials

OPEN = "wiki.test"
"""A private host that is allowed."""

INSIDE = [
    *("127.0.0.0/8", "127.0.0.1/32", "0.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *("169.254.0.0/16", "169.254.169.254/32", "100.64.0.0/10", "100.100.100.200/32"),
    *("192.0.0.192/32", "168.63.129.16/32", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
    *("::/128", "::1/128", "fe80::/10", "fc00::/7", "fd00:ec2::254/128", "fec0::/10", "ff00::/8"),
    *("100::/64", "2001:db8::/32", "4000::/3", "64:ff9b:1::/48"),
]
TUNNELS = {
    "mapped": IPv6Address("::ffff:0:0"),
    "compatible": IPv6Address("::"),
    "nat64": IPv6Address("64:ff9b::"),
    "translated": IPv6Address("::ffff:0:0:0"),
}
DIGITS = ("0123456789", "⓪①②③④⑤⑥⑦⑧⑨", "０１２３４５６７８９", "⁰¹²³⁴⁵⁶⁷⁸⁹", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
DOTS = (".", "。", "．", "｡", "%2e")

AROUND = [
    *("http://{host}{port}/", "HTTP://{host}{port}/a?b#c", "https://{host}{port}/"),
    *("http://{host}.{port}/", "http://{host}..{port}/", "http:///{host}{port}/"),
    *("http://example.com@{host}{port}/", "http://a:b@{host}{port}/", "http://@{host}{port}/"),
    *("http://example.com%40{host}{port}/", "http://{host}{port}#@example.com/"),
    *("http://{host}{port}\\@example.com/", "http:\\\\{host}{port}\\", "http:/\\{host}{port}/"),
    *("http://{host}{port}?@example.com/", "http://example.com\\@{host}{port}/", "//{host}{port}/"),
    *("\thttp://{host}{port}/", "http://\t{host}{port}/", "http://{host}{port}\r\n/", " {host} "),
    *("http://{host}\x00.example.com{port}/", "http://{host}%00.example.com{port}/"),
    *("http://{host}%09{port}/", "http://{host}:+80/", "http://{host}:/", "http://{host}:99999/"),
    *("http://[{host}]{port}/", "http://{host}%251{port}/", "http://example.com{port}/{host}"),
    *(
        "ftp://{host}{port}/",
        "file://{host}/etc/passwd",
        "gopher://{host}{port}/",
        "jar:http://{host}/",
    ),
]


def target(case: random.Random) -> IPv4Address | IPv6Address:
    """Return an address that is not public; IPv4 addresses are sometimes embedded in IPv6."""
    network = ip_network(case.choice(INSIDE))
    address = network[case.randrange(min(network.num_addresses, 2**64))]
    if isinstance(address, IPv6Address) or case.random() < 0.7:
        return address
    how = case.choice([*TUNNELS, "6to4", "teredo"])
    if how == "6to4":
        return IPv6Address(0x2002 << 112 | int(address) << 80 | case.getrandbits(16))
    if how == "teredo":
        return IPv6Address(0x20010000 << 96 | case.getrandbits(64) << 32 | ~int(address) % 2**32)
    return IPv6Address(int(TUNNELS[how]) + int(address))


def spelled(case: random.Random, address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv6Address):
        return spelled_ipv6(case, address)
    parts = [int(part) for part in str(address).split(".")]
    shortened = case.choice([1, 2, 3, 4, 4, 4])
    last = int.from_bytes(bytes(parts[shortened - 1 :]), "big")
    numbers = [*parts[: shortened - 1], last]
    if case.random() < 0.1:
        numbers[-1] += 2**32
    text = case.choice(DOTS).join(number_spelled(case, number) for number in numbers)
    if case.random() < 0.3:
        text = text.translate(str.maketrans(DIGITS[0], case.choice(DIGITS)))
    if case.random() < 0.1:
        text = "".join(f"%{ord(char):02x}" if char < "\x7f" else char for char in text)
    return text


def number_spelled(case: random.Random, number: int) -> str:
    return case.choice(
        [
            str(number),
            str(number),
            f"0{number:o}",
            f"{number:#x}",
            f"0X{number:X}",
            f"{number:012o}",
        ]
    )


def spelled_ipv6(case: random.Random, address: IPv6Address) -> str:
    words = address.exploded.split(":")
    dotted = ":".join(words[:6]) + f":{IPv4Address(int(address) % 2**32)}"
    text = case.choice([str(address), address.exploded, dotted])
    zone = case.choice(["", "", "", "%25lo", "%lo", "%251"])
    return f"[{case.choice([str.upper, str.lower])(text)}{zone}]"


class Network:
    """Replaces name resolution, and records all connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connected: list[Any] = []
        self.others = "127.0.0.1"
        """The address of all names that are not allowed."""
        look_up, connect = socket.getaddrinfo, socket.socket.connect

        def answer(
            host: Any, port: Any, family: int = 0, kind: int = 0, proto: int = 0, flags: int = 0
        ) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            if name != OPEN:
                try:
                    return look_up(name, port, family, kind, proto, socket.AI_NUMERICHOST)
                except socket.gaierror:
                    pass
            there = "127.0.0.1" if name == OPEN else self.others
            return look_up(there, port, family, kind, proto, flags)

        def noted(self_: socket.socket, address: Any) -> None:
            self.connected.append(address)
            connect(self_, address)

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        monkeypatch.setattr(socket.socket, "connect", noted)


@pytest.fixture
def servers(socket_enabled: None) -> Iterator[tuple[WebServer, WebServer]]:
    """Start a server that is allowed, and one on all addresses of this machine that is not."""
    started = WebServer(), WebServer("0.0.0.0")
    yield started
    for server in started:
        server.close()


def test_addresses(
    trials: Trials, servers: tuple[WebServer, WebServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An internal address is an error of the source in any spelling; nothing connects to it."""
    allowed, inside = servers
    inside.otherwise = Answer(b"secret")
    at_once = fetcher_module._RETRY.model_copy(update={"backoff_ms": 0})
    monkeypatch.setattr(fetcher_module, "_RETRY", at_once)
    network = Network(monkeypatch)

    def check(case: random.Random) -> None:
        ip = target(case)
        network.others = str(ip)
        network.connected.clear()
        host = spelled(case, ip) if case.random() < 0.9 else "inside.test"
        port = case.choice([f":{inside.port}", f":{inside.port}", ""])
        address = case.choice(AROUND).format(host=host, port=port)
        fetcher = Fetcher(allow=[OPEN])
        if case.random() < 0.5:
            # UTF-8 bytes, which HTTP headers should not contain.
            location = address.translate({10: None, 13: None}).encode().decode("latin-1")
            status = case.choice([301, 302, 303, 307, 308])
            allowed.routes["/"] = Answer(b"", {"Location": location}, status)
            address = allowed.url(host=OPEN)
        with pytest.raises(SourceError):
            asyncio.run(fetcher.fetch(address))
        assert all(to[:2] == ("127.0.0.1", allowed.port) for to in network.connected), address
        assert inside.connections == 0

    trials.run("addresses", check, short=60, full=555)


def test_names_that_are_allowed_open_no_credentials(
    trials: Trials, monkeypatch: pytest.MonkeyPatch, socket_enabled: None
) -> None:
    """Addresses that serve cloud credentials are blocked even for allowed names."""
    network = Network(monkeypatch)
    metadata = ["169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "168.63.129.16", "100.100.100.200"]

    def check(case: random.Random) -> None:
        within = ip_network(case.choice(metadata))
        address = within[case.randrange(min(within.num_addresses, 2**64))]
        if isinstance(address, IPv4Address) and case.random() < 0.5:
            address = IPv6Address(int(TUNNELS[case.choice(["mapped", "nat64"])]) + int(address))
        network.others = str(ip_address(address))
        name = case.choice(["inside.test", "INSIDE.test.", "ınside.test"])
        with pytest.raises(SourceError):
            asyncio.run(Fetcher(allow=[name]).fetch(f"http://{name}/latest/meta-data/"))
        assert network.connected == []

    trials.run("addresses of credentials", check, short=10, full=100)
