"""Cursors of every paged list: whatever a caller sends, the answer is a page or a problem."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

from tests.app.helpers import WORKFLOW

from .in_process import problem, served

HERE = "/knowledge-bases/handbook"
LISTS = (
    "/knowledge-bases",
    f"{HERE}/documents",
    f"{HERE}/documents/inline:returns/chunks",
    f"{HERE}/runs",
    "/workflows",
    "/workflows/reply/threads",
)
KEYS = [
    *("", " ", "x", "nan x", "inf x", "-1 x", "1e999 x", "1.5", "1.5 ", "1_0 x", " 1 x", "\0", "/"),
    *("9" * 400 + " x", "9" * 1400, "٣", "²", "%", "$", "\ud800", "🧭", "~", "000001", "1 " * 500),
]


def cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def nonsense() -> list[str]:
    """Return texts that are no cursors, and cursors with keys of no list."""
    case = random.Random(23)
    values = [None, True, 1, {}, [], ["a"], [1, True], [None, False], ["a", 0], ["a", True, "b"]]
    return [
        *("", "=", "a", "AAAA", "é", "[" * 1900, base64.b64encode(b"[" * 1400).decode()),
        *(base64.urlsafe_b64encode(case.randbytes(size)).decode() for size in range(1, 40)),
        *(cursor(value) for value in values),
        *(cursor([key, backwards]) for key in KEYS for backwards in (True, False)),
    ]


@pytest.mark.parametrize("path", LISTS)
async def test_nonsense_cursors(tmp_path: Path, path: str) -> None:
    """A cursor that no page has given is answered with a page or with `invalid_cursor`."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "reply.yaml").write_text(WORKFLOW)
    async with served(tmp_path, {"autoload": {"include": ["workflows/*.yaml"]}}) as here:
        await here.server.project.aingest("handbook")
        client = here.client()
        assert (await client.get(path)).status_code == 200
        for text in nonsense():
            answer = await client.get(path, params={"cursor": text})
            if answer.status_code != 200:
                assert problem(answer) == (400, "invalid_cursor"), text
