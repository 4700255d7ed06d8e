"""Where the fetcher may connect: redirects, refused addresses and certificates."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebind_knowledge.sources.web import fetcher as fetcher_module
from lorebind_knowledge.sources.web.fetcher import Fetcher

from .fetched import HERE, content, refusal
from .web_server import Answer, WebServer


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = fetcher_module._RETRY.model_copy(update={"backoff_ms": 0})
    monkeypatch.setattr(fetcher_module, "_RETRY", at_once)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Host names with the results of successive lookups: addresses separated by spaces."""
    records: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in records:
            answers = records[name]
            addresses = answers.pop(0) if len(answers) > 1 else answers[0]
            return [entry for a in addresses.split() for entry in real(a, port, *args, **kwargs)]
        return real(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return records


async def test_redirects(server: WebServer) -> None:
    """Redirects are followed up to the limit, including relative ones."""
    server.routes["/0"] = Answer(status=301, headers={"Location": "deep/1"})
    server.routes["/deep/1"] = Answer(status=307, headers={"Location": "/2#part"})
    server.routes["/2"] = Answer(b"end")
    assert (await content(Fetcher(allow=HERE, max_redirects=2), server.url("/0"))).data == b"end"
    message = await refusal(Fetcher(allow=HERE, max_redirects=1), server.url("/0"))
    assert message == f"{server.url('/0')}: exceeds the limit of redirects, which is 1"


async def test_redirect_loop(server: WebServer) -> None:
    """A redirect loop ends at the limit."""
    server.routes["/"] = Answer(status=302, headers={"Location": "/"})
    assert "exceeds the limit of redirects, which is 3" in await refusal(
        Fetcher(allow=HERE), server.url()
    )
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("http://169.254.169.254/latest/meta-data/", "not at a public address"),
        ("http://[::ffff:169.254.169.254]/", "not at a public address"),
        ("http://127.0.0.2/", "not at a public address"),
        ("http://localhost:1/", "not at a public address"),
        ("file:///etc/passwd", "is not an http or https address"),
        ("ftp://127.0.0.1/", "is not an http or https address"),
        ("gopher://127.0.0.1:70/x", "is not an http or https address"),
        ("http://[::1", "cannot be fetched"),
        ("http://127.0.0.1:99999/a", "(redirected to http://127.0.0.1:99999/a): is not a valid"),
    ],
)
async def test_redirects_to_where_nothing_may_lead(
    server: WebServer, names: dict[str, list[str]], target: str, says: str
) -> None:
    """A redirect passes the same checks as the declared address."""
    names["localhost"] = ["127.0.0.3"]
    server.routes["/"] = Answer(status=302, headers={"Location": target})
    assert says in await refusal(Fetcher(allow=HERE), server.url())


async def test_an_allowed_host_opens_no_other(
    server: WebServer, names: dict[str, list[str]]
) -> None:
    """No redirect from an allowed private host leads to another private host."""
    names |= {"wiki.internal": ["127.0.0.1"], "admin.internal": ["127.0.0.1"]}
    server.routes["/"] = Answer(
        status=302, headers={"Location": server.url("/secret", "admin.internal")}
    )
    message = await refusal(Fetcher(allow=["wiki.internal"]), server.url(host="wiki.internal"))
    assert "the host 'admin.internal' is not at a public address" in message
    assert [request.target for request in server.requests] == ["/"]


async def test_headers_stay_at_home(servers: Callable[..., WebServer]) -> None:
    """Headers and passwords are sent only to the origin they were declared for."""
    home, abroad = servers(), servers()
    home.routes["/"] = Answer(status=302, headers={"Location": "/next"})
    home.routes["/next"] = Answer(status=302, headers={"Location": abroad.url()})
    abroad.routes["/"] = Answer(b"x", {"Set-Cookie": "a=b"})
    fetcher = Fetcher(allow=HERE, headers={"X-Key": "k"})
    await content(fetcher, home.url().replace("//", "//user:pass@"))
    for request in home.requests:
        assert request.headers["x-key"] == "k"
        assert request.headers["authorization"] == "Basic dXNlcjpwYXNz"
    assert not {"x-key", "authorization", "cookie", "referer"} & set(abroad.requests[0].headers)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]"],
)
async def test_this_machine(server: WebServer, host: str) -> None:
    """No notation of this machine's address is connected to."""
    server.routes["/"] = Answer(b"secret")
    assert "not at a public address" in await refusal(Fetcher(), server.url(host=host))
    assert server.connections == 0


@pytest.mark.parametrize("address", ["ftp://example.com/", "file:///etc/passwd", "http://", "x"])
async def test_what_is_not_the_web(address: str) -> None:
    """Only http and https are fetched."""
    assert "is not an http or https address" in await refusal(Fetcher(), address)


@pytest.fixture
def public_and_private(servers: Callable[..., WebServer]) -> tuple[WebServer, WebServer]:
    """Start servers with one port on two addresses."""
    try:
        public = servers("127.0.0.2")
        return public, servers("127.0.0.1", public.port)
    except OSError:
        pytest.skip("this machine has one loopback address")


async def test_a_name_that_changes(
    public_and_private: tuple[WebServer, WebServer], names: dict[str, list[str]]
) -> None:
    """A name is looked up once, so later addresses that were not checked are not connected to."""
    public, private = public_and_private
    public.routes["/"], private.routes["/"] = Answer(b"public"), Answer(b"secret")
    names["rebind.test"] = ["127.0.0.2", "127.0.0.1"]
    fetcher = Fetcher(allow=["127.0.0.2"])
    assert (await content(fetcher, public.url(host="rebind.test"))).data == b"public"
    assert names["rebind.test"] == ["127.0.0.1"]
    assert "not at a public" in await refusal(fetcher, public.url(host="rebind.test"))
    assert private.connections == 0


async def test_a_name_of_several_addresses(
    public_and_private: tuple[WebServer, WebServer], names: dict[str, list[str]]
) -> None:
    """Refused addresses are skipped; if an address does not respond, the next is tried."""
    public, private = public_and_private
    public.routes["/"] = Answer(b"public")
    names["mixed.test"] = ["127.0.0.1 127.0.0.3 127.0.0.2"]
    fetcher = Fetcher(allow=["127.0.0.2/31"])
    assert (await content(fetcher, public.url(host="mixed.test"))).data == b"public"
    assert private.connections == 0


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The TLS files of a server named docs.test, which the fetcher then trusts."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "docs.test")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("docs.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "docs.test.pem"
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, private, serialization.NoEncryption())
    file.write_bytes(secret + certificate.public_bytes(encoding))
    trusting = ssl.create_default_context(cafile=file)
    monkeypatch.setattr(fetcher_module, "_ssl_context", lambda: trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_certificates_are_of_names(
    servers: Callable[..., WebServer], names: dict[str, list[str]], certified: ssl.SSLContext
) -> None:
    """The certificate must be the host's, although the connection is made to an address."""
    names |= {"docs.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}
    server = servers(tls=certified)
    server.routes["/"] = Answer(b"certified")
    address = server.url(host="docs.test").replace("http:", "https:")
    fetcher = Fetcher(allow=HERE)
    assert (await content(fetcher, address)).data == b"certified"
    assert "CERTIFICATE" in await refusal(fetcher, address.replace("docs", "other"))
    assert len(server.requests) == 1
