"""Rates, floods of wrong tokens, and outages of the state that has the tokens."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers

from lorebind.server.middleware.callers import Callers, Rates
from lorebind.server.problems import ProblemError
from lorebind.server.state.tables import TABLES
from lorebind.server.state.tokens import Tokens
from lorebind_config.declarations.server import RateLimitDeclaration
from lorebind_knowledge.database.databases import EmbeddedDatabase

from .in_process import problem, served
from .test_request_guard import answering, begin, door, send


async def test_each_token_has_its_rate(tmp_path: Path) -> None:
    declared = {"server": {"rate_limit": {"per_second": 0.5, "burst": 3}}}
    async with served(tmp_path, declared) as here:
        first, other = (here.client(here.token(name)) for name in ("one", "two"))
        left = []
        for _ in range(3):
            answer = await first.get("/knowledge-bases")
            assert answer.status_code == 200
            assert answer.headers["ratelimit-policy"] == '"default";q=3;w=6'
            left.append(answer.headers["ratelimit"])
        assert left == ['"default";r=2;t=2', '"default";r=1;t=4', '"default";r=0;t=6']
        refused = await first.get("/knowledge-bases")
        assert problem(refused) == (429, "rate_limited")
        assert refused.headers["ratelimit"] == '"default";r=0;t=2'
        assert refused.headers["ratelimit-policy"] == '"default";q=3;w=6'
        assert refused.headers["retry-after"] == "2"
        assert (await other.get("/knowledge-bases")).status_code == 200
        assert (await first.get("http://localhost/healthz")).status_code == 200
        await asyncio.sleep(2)
        assert (await first.get("/knowledge-bases")).status_code == 200


def test_any_rate_can_be_declared() -> None:
    """Numbers in headers stay numbers, whatever the rate, and callers are forgotten eventually."""
    rates = Rates(RateLimitDeclaration(per_second=5e-324, burst=1_000_000))
    assert rates.take("a")["RateLimit-Policy"] == '"default";q=1000000;w=1000000000'
    for number in range(20_000):
        rates.take(str(number))
    assert len(rates._limiter._buckets) == 10_000


class Counting(Tokens):
    """Counts how often the tokens are read; a read may be slow or fail."""

    def __init__(self, database: EmbeddedDatabase) -> None:
        super().__init__(database)
        self.reads = 0

    def all(self) -> Any:
        self.reads += 1
        time.sleep(0.05)
        return super().all()


async def test_only_a_known_caller_is_prepared_for() -> None:
    """Others could choose what is read before their token is checked."""
    tokens, prepared = Tokens(EmbeddedDatabase(None, TABLES)), list[str | None]()
    _, alone = tokens.create("alone", "read", ["ann"])
    _, several = tokens.create("several", "read", ["ann", "bob"])
    callers = Callers(tokens, prepare=prepared.append)
    await callers.of(Headers({"authorization": f"Bearer {alone}"}), "/x")
    assert prepared == []  # no token is known yet
    for text, name in (
        *((alone, None), (several, "bob"), (several, None), (several, "eve"), (alone, "eve")),
        *(("lorebind_x_y", "ann"), (f"{alone}x", "ann")),
    ):
        headers = {"authorization": f"Bearer {text}"} | ({"x-tenant-id": name} if name else {})
        with suppress(ProblemError):
            await callers.of(Headers(headers), "/x")
    assert prepared == ["ann", "bob"]

    opened = Callers(tokens, prepare=prepared.append)
    with suppress(ProblemError):
        await opened.of(Headers({"x-tenant-id": "eve"}), "/x")
    assert "eve" not in prepared  # there may be tokens that were not read yet


async def test_a_flood_of_wrong_tokens_costs_nothing() -> None:
    """The database is read at most ten times a second, and no wrong token is remembered."""
    tokens = Counting(EmbeddedDatabase(None, TABLES))
    _, text = tokens.create("one", "read")
    callers = Callers(tokens)
    around = door(answering(begin), tokens)
    around._callers = callers

    async def with_token(token: str) -> int:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
        return (await send(around, headers=headers))[0]

    began = time.monotonic()
    wrong = [f"lorebind_{number:012x}_x" for number in range(2000)]
    statuses = await asyncio.gather(*map(with_token, wrong), with_token(text))
    assert statuses == [401] * 2000 + [200]
    assert tokens.reads <= 2 + (time.monotonic() - began) / 0.1
    tokens.reads, began = 0, time.monotonic()
    for token in wrong[:12]:
        assert await with_token(token) == 401
    assert tokens.reads <= 1 + (time.monotonic() - began) / 0.1
    assert list(callers._by_id.value or ()) == [text.split("_")[1]]


async def test_callers_wait_for_an_outage_together(tmp_path: Path) -> None:
    """Without its state, the server refuses all callers, and does not reveal where its state is."""
    async with served(tmp_path) as here:
        text = here.token("one")
        client = here.client(text)
        assert (await client.get("/knowledge-bases")).status_code == 200
        here.server.database.close()
        for file in (tmp_path / ".lorebind").glob("server.db*"):
            file.unlink()
        (tmp_path / ".lorebind" / "server.db").write_bytes(b"no database" * 1000)
        await asyncio.sleep(0.6)
        for answer in await asyncio.gather(*(client.get("/knowledge-bases") for _ in range(20))):
            assert problem(answer) == (503, "store_unavailable")
            assert answer.headers["retry-after"] == "5"
            assert "server.db" not in answer.text
        assert (await client.get("http://localhost/healthz")).status_code == 200
