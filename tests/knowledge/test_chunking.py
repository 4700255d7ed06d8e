"""All strategies: their guarantees for any text, and their fingerprints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from lorebind_knowledge.chunking.make import make_chunker
from lorebind_knowledge.chunking.strategies import ChunkingDeclaration
from tests.density import examples

from .chunking_texts import GIANTS, TEXTS, check_promises, cut_clusters, headings

PAGES = Path(__file__).parents[2] / "examples" / "quickstart" / "docs"

STRATEGIES: dict[str, dict[str, Any]] = {
    "recursive": {"strategy": "recursive_text_splitter"},
    "recursive in tokens": {"strategy": "recursive_text_splitter", "unit": "tokens"},
    "token": {"strategy": "token"},
    "fixed": {"strategy": "fixed"},
    "fixed in tokens": {"strategy": "fixed", "unit": "tokens"},
    "markdown": {"strategy": "markdown"},
    "markdown in tokens": {"strategy": "markdown", "unit": "tokens"},
    "html": {"strategy": "html"},
    "html in tokens": {"strategy": "html", "unit": "tokens"},
    "json": {"strategy": "json"},
    "json in tokens": {"strategy": "json", "unit": "tokens"},
    "python": {"strategy": "code", "language": "python"},
    "latex in tokens": {"strategy": "code", "language": "latex", "unit": "tokens"},
    "semantic": {"strategy": "semantic", "semantic": {"min_tokens": 8, "max_tokens": 64}},
}

each_strategy = pytest.mark.parametrize("name", STRATEGIES)


def declared(name: str, **more: Any) -> ChunkingDeclaration:
    """Return a strategy of this module, with small chunks if it has a size."""
    size = {} if name == "semantic" else {"size": 64, "overlap": 16}
    return ChunkingDeclaration.model_validate(STRATEGIES[name] | size | more)


def limit(declaration: ChunkingDeclaration) -> tuple[int, str]:
    """Return the maximum size of a chunk, and its unit."""
    if declaration.strategy == "semantic":
        return declaration.semantic.max_tokens, "tokens"
    return declaration.size, declaration.unit


@settings(max_examples=examples(150), deadline=None)
@given(text=TEXTS, share=st.floats(0, 0.999))
@example(text="x" * 500, share=0.25)
@example(text=" " * 70 + "foo" + " " * 70, share=0.95)
@example(text="e\u0301" * 200, share=0.99)
@example(text="\ud83d\ude42 " * 99, share=0)
def test_promises(text: str, share: float) -> None:
    """Chunks are within text and size, in order, stripped, cover all words, and cut no cluster."""
    for name in STRATEGIES:
        note(name)
        overlap = {} if name == "semantic" else {"overlap": min(63, int(64 * share))}
        declaration = declared(name, **overlap)
        chunks = check_promises(
            make_chunker(declaration),
            text,
            *limit(declaration),
            boundaries=headings(text),
            joins=True,
        )
        assert not cut_clusters(text, chunks)


@each_strategy
@pytest.mark.parametrize("giant", GIANTS)
def test_giants(name: str, giant: str) -> None:
    """Texts that repeat one thing are split like any other, however long they are."""
    declaration = ChunkingDeclaration.model_validate(STRATEGIES[name])
    text = GIANTS[giant]
    chunks = check_promises(make_chunker(declaration), text, *limit(declaration), joins=True)
    assert bool(chunks) == bool(text.strip())
    if giant != "one pile of accents":  # no chunk could hold it whole
        assert not cut_clusters(text, chunks)


@settings(max_examples=examples(50), deadline=None)
@given(before=TEXTS, text=TEXTS, after=TEXTS)
def test_a_part_of_a_text(before: str, text: str, after: str) -> None:
    """A part is split as if it were the whole text, with offsets from the start of the whole."""
    whole, shift = f"{before}\n\n{text}\n\n{after}", len(before) + 2
    boundaries = [place + shift for place in headings(text)]
    for name in STRATEGIES:
        note(name)
        chunker = make_chunker(declared(name))
        split = chunker.split(whole, shift, shift + len(text), boundaries)
        alone = chunker.split(text, 0, len(text), headings(text))
        assert [(start - shift, end - shift) for start, end in split] == alone


@each_strategy
def test_real_pages(name: str) -> None:
    """The guarantees hold for real documentation with the default settings."""
    declaration = ChunkingDeclaration.model_validate(STRATEGIES[name])
    chunker = make_chunker(declaration)
    pages = sorted(PAGES.rglob("*.md"))[:20]
    assert len(pages) == 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        check_promises(chunker, text, *limit(declaration), boundaries=headings(text), joins=True)


def test_fingerprints_differ() -> None:
    """Chunkers that could split a text differently have different fingerprints."""
    changes: list[dict[str, Any]] = [{}, {"size": 65}, {"overlap": 15}]
    declarations = [
        declared(name, **change) for name in STRATEGIES if name != "semantic" for change in changes
    ]
    declarations += [
        ChunkingDeclaration.model_validate({"strategy": "semantic", "semantic": settings_})
        for settings_ in (
            {},
            {"breakpoints": "gradient"},
            {"threshold": 91.0},
            {"structural_weight": 0.3},
            {"window": 2},
            {"min_tokens": 31},
            {"max_tokens": 255},
        )
    ]
    different = {make_chunker(declaration).fingerprint for declaration in declarations}
    # `token` is the same as `fixed` with tokens.
    assert len(different) == len(declarations) - len(changes)
    again = {make_chunker(declaration).fingerprint for declaration in declarations}
    assert again == different


def test_a_fingerprint_follows_the_embedder() -> None:
    """The semantic chunker's fingerprint depends on the embedder; the others use none."""

    def never(texts: Any) -> Any:
        raise AssertionError

    semantic, fixed = declared("semantic"), declared("fixed")
    semantics = {
        make_chunker(semantic).fingerprint,
        make_chunker(semantic, never, "local/a").fingerprint,
        make_chunker(semantic, never, "local/b").fingerprint,
    }
    assert len(semantics) == 3
    assert make_chunker(fixed, never, "local/a").fingerprint == make_chunker(fixed).fingerprint


def test_most_chunkers_have_nothing_to_say() -> None:
    """Only a chunker that could not work as declared has notices."""
    assert [list(make_chunker(declared(name)).notices) for name in STRATEGIES] == [[]] * 14
