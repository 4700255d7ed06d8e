"""Chunks that say little join their neighbors: rows of dashes, lists of links, empty markup."""

from __future__ import annotations

import pytest

from lorebind_knowledge.chunking.joining import JoiningChunker, says_little
from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration

from .chunking_texts import check_promises, headings
from .test_chunking import STRATEGIES, each_strategy, limit

PROSE = " ".join(f"Rotate the key of door {number} each year." for number in range(20))
LINKS = "\n".join(f"- [Door {number}](https://example.com/doors/{number})" for number in range(6))
BADGES = '<a href="https://example.com/build"><img src="https://example.com/a.svg"></a>\n' * 3


def row(*cells: str, width: int, fill: str = " ") -> str:
    return "|" + "|".join(cell.ljust(width, fill) for cell in cells) + "|"


def table(width: int) -> str:
    rows = [row(f"door {n}", f"rotate its key on day {n}", width=width) for n in range(3)]
    head = [row("RequestGuard", "When", width=width), row("", "", width=width, fill="-")]
    return "\n".join(["# Keys", "", *head, *rows])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|-----|:---:|\n", True),
        ("───────", True),
        ("}\n    }\n]", True),
        (LINKS, True),
        (BADGES, True),
        ("[a]: https://example.com/a\n[b]: ../b.md 'B'\n", True),
        ("</div>\n<!-- end of the sponsors -->\n///", True),
        ("[![Build of the main branch](a.svg)](https://example.com/build)", True),
        (PROSE, False),
        ("# Keys", False),
        ("| 1 | 2 |", False),
        ("for key in keys:\n    rotate(key)", False),
        ("List<String> names = new ArrayList<>();", False),
        ('{"key": {"day": 7}}', False),
        ("鍵は毎年交換します。", False),
        ("See [the keys](keys.md) for the doors.", False),
    ],
)
def test_what_says_little(text: str, expected: bool) -> None:
    """Punctuation, links and tags say little; prose, code, figures and headings do not."""
    assert says_little(text) is expected


@each_strategy
@pytest.mark.parametrize("width", [20, 60, 200, 450, 900])
def test_a_table_in_any_width(name: str, width: int) -> None:
    """The row of dashes below the names of a table's columns is never a chunk of its own."""
    declaration = ChunkingDeclaration.model_validate(STRATEGIES[name])
    text = table(width)
    where = headings(text)
    chunker = make_chunker(declaration)
    for first, last in check_promises(chunker, text, *limit(declaration), where, joins=True):
        assert any(character.isalnum() for character in text[first:last])


@pytest.mark.parametrize("little", [LINKS, BADGES, "-" * 300])
@pytest.mark.parametrize("before", [PROSE[:200], PROSE[:390], ""])
@pytest.mark.parametrize("after", [PROSE[:390], PROSE])
def test_a_neighbor_gives_a_part_of_its_text(little: str, before: str, after: str) -> None:
    """If two chunks together are too long, both are cut elsewhere, within the size."""
    text = f"{before}\n\n{little}\n\n{after}"
    inner = RecursiveChunker(400, 0)
    assert any(says_little(text[first:last]) for first, last in inner.split(text, 0, len(text)))
    chunks = check_promises(JoiningChunker(inner, 400, "characters"), text, 400, "characters")
    assert not any(says_little(text[first:last]) for first, last in chunks)


def test_the_size_is_more_important_than_links() -> None:
    """A list of links that is longer than a chunk is cut like any other text."""
    text = f"{PROSE}\n\n{LINKS * 20}"
    chunks = check_promises(_joining(200), text, 200, "characters")
    assert sum(says_little(text[first:last]) for first, last in chunks) > 10


def test_dashes_are_more_important_than_the_size() -> None:
    """A row of dashes joins the text before it, up to the largest size that can be declared."""
    text = f"The end\n{'-' * 3000}\n{PROSE}"
    first, *_ = _joining(200).split(text, 0, len(text))
    assert text[slice(*first)].startswith("The end\n---")
    assert first[1] > 2900
    text = f"The end\n{'-' * 50_000}"
    chunks = check_promises(_joining(64), text, 64, "characters", joins=True)
    assert len(chunks) == 7


def test_other_texts_are_not_changed() -> None:
    """If each chunk says something, the chunks are those of the other chunker."""
    inner = RecursiveChunker(200, 40)
    assert _joining(200, 40).split(PROSE, 0, len(PROSE)) == inner.split(PROSE, 0, len(PROSE))


def _joining(size: int, overlap: int = 0) -> JoiningChunker:
    return JoiningChunker(RecursiveChunker(size, overlap), size, "characters")
