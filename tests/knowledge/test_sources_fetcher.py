"""The fetcher against real servers: its results, its errors, and that it always ends."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import threading
import zlib
from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.web import fetcher as fetcher_module
from lorebind_knowledge.sources.web.fetcher import Fetcher

from .fetched import HERE, content, refusal
from .web_server import Answer, Request, WebServer, drip, endless, hangs_up, silent


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = fetcher_module._RETRY.model_copy(update={"backoff_ms": 0})
    monkeypatch.setattr(fetcher_module, "_RETRY", at_once)


# Documents.


async def test_a_document(server: WebServer) -> None:
    """The body is returned as it was sent, with its media type."""
    server.routes["/a?b=1"] = Answer(b"\xff\x00 bytes", {"Content-Type": "Text/HTML; charset=x"})
    answer = await content(Fetcher(allow=HERE), server.url("/a?b=1#part"))
    assert (answer.data, answer.version) == (b"\xff\x00 bytes", "")
    assert answer.media_type == "text/html; charset=x"
    assert server.requests[0].headers["accept-encoding"] == "gzip"
    assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


async def test_compressed(server: WebServer) -> None:
    """A gzip body is decompressed, with one or several members, in pieces of any size."""
    packed = gzip.compress(b"one ") + gzip.compress(b"two " * 50_000)
    server.routes["/a"] = Answer(packed, {"Content-Encoding": "gzip"})
    answer = await content(Fetcher(allow=HERE), server.url("/a"))
    assert answer.data == b"one " + b"two " * 50_000


async def test_own_headers(server: WebServer) -> None:
    """Declared headers are sent, and override ours."""
    server.routes["/"] = Answer(b"x")
    fetcher = Fetcher(allow=HERE, headers={"X-Key": "k", "user-agent": "other", "Depth": 2})
    await content(fetcher, server.url())
    sent = server.requests[0].headers
    assert (sent["x-key"], sent["user-agent"], sent["depth"]) == ("k", "other", "2")


async def test_many_at_once(server: WebServer) -> None:
    """One fetcher serves many tasks, and event loops of several threads."""
    for number in range(8):
        server.routes[f"/{number}"] = Answer(str(number).encode())
    fetcher = Fetcher(allow=HERE)

    async def all_of_them() -> list[bytes]:
        urls = [server.url(f"/{number}") for number in range(8)]
        return [page.data for page in await asyncio.gather(*(content(fetcher, u) for u in urls))]

    both = await asyncio.gather(all_of_them(), asyncio.to_thread(asyncio.run, all_of_them()))
    assert both == [[str(number).encode() for number in range(8)]] * 2


async def test_proxies_of_the_environment(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies are not used, because the addresses they connect to cannot be checked."""
    server.routes["/"] = Answer(b"direct")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await content(Fetcher(allow=HERE), server.url())).data == b"direct"


# Unchanged documents.


async def test_etag(server: WebServer) -> None:
    """A document with the same ETag is not sent again, but one that changed is."""
    etag = '"1"'

    def answer(request: Request) -> Answer:
        same = request.headers.get("if-none-match") == etag
        return Answer(b"" if same else etag.encode(), {"ETag": etag}, 304 if same else 200)

    server.routes["/"] = answer
    fetcher = Fetcher(allow=HERE)
    first = await content(fetcher, server.url())
    assert await fetcher.fetch(server.url(), first.version) is None
    etag = '"2"'
    second = await content(fetcher, server.url(), first.version)
    assert (first.data, second.data) == (b'"1"', b'"2"')
    assert first.version != second.version
    assert (await content(fetcher, server.url())).data == b'"2"'


DAY = "Mon, 02 Jan 2023 03:04:{:02} GMT"


async def test_last_modified(server: WebServer) -> None:
    """Without an ETag, the date is sent back unchanged."""
    dates = {"Last-Modified": DAY.format(5), "Date": DAY.format(6)}
    server.routes["/"] = [Answer(b"x", dates), Answer(status=304)]
    fetcher = Fetcher(allow=HERE)
    version = (await content(fetcher, server.url())).version
    assert await fetcher.fetch(server.url(), version) is None
    assert server.requests[1].headers["if-modified-since"] == DAY.format(5)


@pytest.mark.parametrize("date", [DAY.format(5), DAY.format(4), "yesterday"])
async def test_a_date_that_is_too_fresh(server: WebServer, date: str) -> None:
    """A document can still change within the second of its date, so that date is no version."""
    server.routes["/"] = Answer(b"x", {"Last-Modified": DAY.format(5), "Date": date})
    assert (await content(Fetcher(allow=HERE), server.url())).version == ""


async def test_a_version_belongs_to_an_address(server: WebServer) -> None:
    """After a redirect changes, no condition for the previous address is sent."""
    there = {"/1": Answer(b"one", {"ETag": '"e"'}), "/2": Answer(b"two", {"ETag": '"e"'})}
    hops = [Answer(status=302, headers={"Location": target}) for target in there]
    server.routes = {"/": hops, **there}
    fetcher = Fetcher(allow=HERE)
    first = await content(fetcher, server.url())
    assert (await content(fetcher, server.url(), first.version)).data == b"two"
    assert not any("if-none-match" in request.headers for request in server.requests)


@pytest.mark.parametrize("version", ["other", "[]", "7", '["a", "b", "c"]', "null"])
async def test_versions_of_other_sources(server: WebServer, version: str) -> None:
    """A version of another source adds no conditions, and causes no error."""
    server.routes["/"] = Answer(b"x")
    assert (await content(Fetcher(allow=HERE), server.url(), version)).data == b"x"


async def test_not_modified_unasked(server: WebServer) -> None:
    """A 304 response to an unconditional request is an error, not an unchanged document."""
    server.routes["/"] = Answer(status=304)
    assert "returned 304 Not Modified" in await refusal(Fetcher(allow=HERE), server.url())


# Too large, too slow, missing.


async def test_size(server: WebServer) -> None:
    """A document of the maximum size is read; one more byte is refused."""
    server.routes["/"] = [Answer(b"x" * 1024), Answer(b"x" * 1025)]
    fetcher = Fetcher(allow=HERE, max_bytes=1024)
    assert len((await content(fetcher, server.url())).data) == 1024
    assert "is larger than 1 KiB" in await refusal(fetcher, server.url())


async def test_endless(server: WebServer) -> None:
    """A body without an end is cut off at the limit."""
    server.routes["/"] = endless
    message = await refusal(Fetcher(allow=HERE, max_bytes=2 * 1024**2), server.url())
    assert "is larger than 2 MiB" in message


async def test_bomb(server: WebServer) -> None:
    """A body that would unpack to far more than the limit is stopped there."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1024**2)) for _ in range(64)) + packer.flush()
    server.routes["/"] = Answer(bomb, {"Content-Encoding": "gzip"})
    unpacked = 0

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._inner = inflate(wbits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal unpacked
            out = self._inner.decompress(data, most)
            unpacked += len(out)
            return out

    inflate = zlib.decompressobj
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zlib, "decompressobj", Counting)
        message = await refusal(Fetcher(allow=HERE, max_bytes=1024**2), server.url())
    assert "is larger than 1 MiB" in message
    assert unpacked == 1024**2 + 1


@pytest.mark.parametrize("route", [drip, silent], ids=["drip", "silent"])
async def test_slow(server: WebServer, route: Any) -> None:
    """The timeout is for the whole document, even if bytes keep arriving."""
    server.routes["/"] = route
    message = await refusal(Fetcher(allow=HERE, timeout_seconds=0.2), server.url())
    assert message == f"{server.url()}: took longer than 0.2 s"


async def test_slow_redirects(server: WebServer) -> None:
    """Redirects count toward the same timeout."""
    server.routes["/"] = Answer(status=302, headers={"Location": "/slow"})
    server.routes["/slow"] = silent
    message = await refusal(Fetcher(allow=HERE, timeout_seconds=0.2), server.url())
    assert message == f"{server.url()}: took longer than 0.2 s"


async def test_cut_off(server: WebServer) -> None:
    """A connection that ends before the body is an error, after three tries."""
    server.routes["/"] = hangs_up
    assert "cannot be fetched" in await refusal(Fetcher(allow=HERE), server.url())
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("body", "encoding", "says"),
    [
        (b"not gzip", "gzip", "is not valid gzip data"),
        (gzip.compress(b"text" * 99, mtime=0)[:-9], "gzip", "ends in the middle"),
        (b"\x0b\x02\x80text\x03", "br", "is encoded as 'br', which was not requested"),
        (b"", "", "is empty"),
    ],
)
async def test_bad_bodies(server: WebServer, body: bytes, encoding: str, says: str) -> None:
    """A body that cannot be unpacked, has an unrequested encoding or is empty is an error."""
    server.routes["/"] = Answer(body, {"Content-Encoding": encoding} if encoding else {})
    assert says in await refusal(Fetcher(allow=HERE), server.url())


@pytest.mark.parametrize("status", [204, 206, 300, 400, 401, 403, 404, 410, 418, 500, 501, 599])
async def test_other_answers(server: WebServer, status: int) -> None:
    """Any other response is an error that names the status, without a retry."""
    server.routes["/x"] = Answer(b"" if status == 204 else b"body", status=status)
    message = await refusal(Fetcher(allow=HERE), server.url("/x"))
    assert message.startswith(f"{server.url('/x')}: returned {status}")
    assert len(server.requests) == 1


async def test_nobody_there(server: WebServer) -> None:
    """A port without a server is an error that names the address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        assert f"{address}: cannot be fetched" in await refusal(Fetcher(allow=HERE), address)


async def test_no_such_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without an address is an error that names the host."""

    def nowhere(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    message = await refusal(Fetcher(), "https://gone.example/a")
    assert message == "https://gone.example/a: the host 'gone.example' was not found"


# Retries.


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_passes(server: WebServer, status: int) -> None:
    """A busy server is tried three times in all."""
    busy = Answer(b"busy", {"Retry-After": "0"}, status)
    server.routes["/"] = [busy, busy, Answer(b"at last")]
    assert (await content(Fetcher(allow=HERE), server.url())).data == b"at last"
    server.routes["/"] = busy
    assert f"returned {status}" in await refusal(Fetcher(allow=HERE), server.url())
    assert len(server.requests) == 6


@pytest.mark.parametrize("when", ["60", DAY.format(59)])
async def test_retry_after(server: WebServer, when: str) -> None:
    """If Retry-After exceeds the remaining time, there is no retry."""
    server.routes["/"] = Answer(b"", {"Retry-After": when, "Date": DAY.format(0)}, 503)
    message = await refusal(Fetcher(allow=HERE, timeout_seconds=30), server.url())
    assert "returned 503 Service Unavailable" in message
    assert len(server.requests) == 1


# Messages.


async def test_messages_hold_no_secret(server: WebServer) -> None:
    """Messages omit passwords and queries, of the address and of redirects."""
    server.routes["/a?token=hidden1"] = Answer(status=302, headers={"Location": "/b?sig=hidden2"})
    address = server.url("/a?token=hidden1").replace("//", "//user:hidden3@")
    message = await refusal(Fetcher(allow=HERE), address)
    home = server.url("/")
    expected = f"{home}a?... (redirected to {home}b?...): returned 404 Not Found"
    assert message == expected


async def test_a_name_that_hides(server: WebServer) -> None:
    """If a name is given for an address, messages use only that name, also after a redirect."""
    server.routes["/hidden/a"] = Answer(status=302, headers={"Location": "/hidden/b"})
    message = await refusal(Fetcher(allow=HERE), server.url("/hidden/a"), name="the manual")
    assert message == "the manual (redirected): returned 404 Not Found"
    partly = server.url("/*")
    message = await refusal(Fetcher(allow=HERE), server.url("/hidden/a"), name=partly)
    assert message == f"{partly} (redirected to {server.url('')}): returned 404 Not Found"
    assert "the manual: its host is not at a public" in await refusal(
        Fetcher(), server.url(), name="the manual"
    )


async def test_the_log_of_a_name_that_hides(
    server: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The client logs nothing that a name hides, at any level; other addresses are logged."""
    caplog.set_level(logging.DEBUG)
    server.routes["/hidden/a"] = Answer(status=302, headers={"Location": "/hidden/b"})
    await refusal(Fetcher(allow=HERE), server.url("/hidden/a"), name="the manual")
    assert "hidden" not in caplog.text
    await refusal(Fetcher(allow=HERE), server.url("/plain"))
    assert "/plain" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Key", "hidden\r\nHost: x"), ("X-Key", "hiddé"), ("X-Key", ["hidden"]), ("X-Key", True),
     ("X-Key", ""), ("X Key", "v"), ("", "v"), ("Host", "x"), ("Content-Length", "1")],
)  # fmt: skip
def test_headers_that_cannot_be(name: str, value: Any) -> None:
    """An invalid header is refused with its name, but without its value."""
    with pytest.raises(SourceError, match=r"under fetch\.headers") as caught:
        Fetcher(headers={name: value})
    assert "hidd" not in str(caught.value)


async def test_cancelling(server: WebServer) -> None:
    """A cancelled fetch stops immediately and is not reported as a timeout."""
    arrived = threading.Event()

    def waiting(handler: Any, stopping: threading.Event) -> None:
        arrived.set()
        stopping.wait(10)

    waiting.misbehaves = True  # type: ignore[attr-defined]
    server.routes["/"] = waiting
    task = asyncio.create_task(Fetcher(allow=HERE).fetch(server.url()))
    await asyncio.to_thread(arrived.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
