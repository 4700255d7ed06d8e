"""Bodies that would block the server: they are refused before they are parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind.server.bodies import MOST_VALUES, has_too_many_values

from .in_process import problem, served

JSON = {"Content-Type": "application/json"}
HERE = "/knowledge-bases/handbook"
MANY = 300_000


@pytest.mark.parametrize(
    ("path", "prefix", "value", "suffix"),
    [
        (f"{HERE}/query", '{"query": "x", "filters": {"$or": [', "{}", "]}}"),
        (f"{HERE}/query", '{"query": "x", "filters": {"a": [', "1", "]}}"),
        (f"{HERE}/documents", '{"text": "x", "metadata": {"a": [', '""', "]}}"),
        (f"{HERE}/documents", "[", "[]", "]"),
        ("/workflows/reply/runs", '{"input": {"a": [', "1", "]}}"),
    ],
)
async def test_bodies_of_many_values(
    tmp_path: Path, path: str, prefix: str, value: str, suffix: str
) -> None:
    """A body of too many values is refused, and the answer states the limit."""
    async with served(tmp_path) as here:
        body = f"{prefix}{','.join([value] * MANY)}{suffix}"
        answer = await here.client().post(path, content=body, headers=JSON)
        assert problem(answer) == (413, "too_large")
        assert "at most 100,000 JSON values" in answer.json()["detail"]


async def test_declarations_of_many_values(tmp_path: Path) -> None:
    """A declaration has a lower limit, because each of its values can have several problems."""
    async with served(tmp_path) as here:
        client = here.client()
        answer = await client.put("/knowledge-bases/a", json={"sources": [{}] * 10_000})
        assert problem(answer) == (413, "too_large")
        answer = await client.put("/knowledge-bases/a", json={"sources": [{}] * 1000})
        assert problem(answer) == (422, "invalid_request")


async def test_many_unknown_keys(tmp_path: Path) -> None:
    """Very many unknown keys are one mistake."""
    async with served(tmp_path) as here:
        body = {"query": "x", **dict.fromkeys(map(str, range(10_000)), 1)}
        answer = await here.client().post(f"{HERE}/query", json=body)
        assert problem(answer) == (422, "invalid_request")
        assert len(answer.json()["errors"]) == 1


async def test_charsets_of_forms(tmp_path: Path) -> None:
    """A form is UTF-8, ASCII or Latin-1; other codecs are refused before anything is decoded."""
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nA.\r\n--b--'
    async with served(tmp_path) as here:
        client = here.client()
        for charset, status in (("punycode", 415), ("idna", 415), ("zlib", 415), ("UTF-8", 201)):
            kind = f"multipart/form-data; boundary=b; charset={charset}"
            headers = {"Content-Type": kind}
            answer = await client.post(f"{HERE}/documents", content=part, headers=headers)
            assert answer.status_code == status, charset


@pytest.mark.parametrize(
    ("text", "most", "has_more"),
    [
        (b"[1, 2, 3]", 4, False),
        (b"[1, 2, 3]", 3, True),
        (b'{"a": 1, "b": [2]}', 6, False),
        (b'{"a": 1, "b": [2]}', 5, True),
        (b'["a,b,[{,", "\\"\\\\", ",\\"["]', 4, False),
        (b'["a,b,[{,", "\\"\\\\", ",\\"["]', 3, True),
        (b'"' + b"," * MOST_VALUES + b'"', 1, False),
        (b'"' * 50 + b"," * 50, 20, True),
    ],
)
async def test_values_are_counted_exactly(text: bytes, most: int, has_more: bool) -> None:
    """Keys, scalars, lists and mappings count; separators in strings do not."""
    assert await has_too_many_values(text, most) is has_more
