"""`markdown` and `html`: sections, blocks and headings."""

from __future__ import annotations

from itertools import pairwise

from lorebind_knowledge.chunking.sections import HTML, MARKDOWN, SectionChunker, markdown_blocks

from .chunking_texts import headings

FENCE = "```python\ndef a():\n    return 1\n\n\ndef b():\n    return 2\n```"
TABLE = "| name | size |\n| --- | ---: |\n| a | 1 |\n| b | 2 |"


def _markdown(text: str, size: int, overlap: int = 0) -> list[str]:
    chunker = SectionChunker(size, overlap, levels=MARKDOWN, name="markdown")
    return [text[start:end] for start, end in chunker.split(text, 0, len(text), headings(text))]


def _blocks(text: str) -> list[str]:
    places = [0, *(place for place in markdown_blocks(text, 0, len(text)) if place), len(text)]
    parts = [text[start:end] for start, end in pairwise(places)]
    return [part.strip() for part in parts]


def test_a_section_is_a_chunk() -> None:
    """No chunk spans a heading, however short its section is; the preamble is a section too."""
    text = "Before.\n\n# One\n\nFirst.\n\n## Two\n\nSecond.\n\nMore.\n"
    assert _markdown(text, 100) == ["Before.", "# One\n\nFirst.", "## Two\n\nSecond.\n\nMore."]


def test_headings_without_text_go_with_the_next() -> None:
    """A heading is never alone if something follows it."""
    text = "# Title\n\n## Part\n\nText.\n\n## Other\n\nMore.\n\n## Last\n"
    assert _markdown(text, 100) == ["# Title\n\n## Part\n\nText.", "## Other\n\nMore.", "## Last"]


def test_an_underlined_heading_stays_with_its_text() -> None:
    """The line below a setext heading belongs to the heading."""
    text = "Title\n=====\n\nword word word word word word"
    chunker = SectionChunker(26, 0, levels=MARKDOWN, name="markdown")
    chunks = [text[start:end] for start, end in chunker.split(text, 0, len(text), [0])]
    assert chunks == ["Title\n=====\n\nword word", "word word word word"]


def test_a_heading_stays_with_the_beginning_of_its_text() -> None:
    """If a section is too long for one chunk, the first chunk is not only its heading."""
    code = "\n".join(f"line {number}" for number in range(10))
    text = f"# Heading\n\n```\n{code}\n```\n"
    chunks = _markdown(text, 40)
    assert chunks[0].startswith("# Heading\n\n```\nline 0")
    assert len(chunks) > 2


def test_code_and_tables_stay_whole_where_they_fit() -> None:
    """Code and tables that would be cut in the middle get a chunk of their own."""
    text = f"A paragraph of some words.\n\n{FENCE}\n\nBetween.\n\n{TABLE}\n\nAfter."
    assert _markdown(text, 64) == [
        "A paragraph of some words.",
        FENCE,
        "Between.\n\n" + TABLE,
        "After.",
    ]


def test_code_that_does_not_fit_is_cut_at_blank_lines() -> None:
    """A code block that is too large is cut at its blank lines."""
    assert _markdown(FENCE, 40) == [
        "```python\ndef a():\n    return 1",
        "def b():\n    return 2\n```",
    ]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    """Prose is not cut within a sentence that fits."""
    text = "This is the first sentence. This is, e.g. for Tom, the second. And a third!"
    assert _markdown(text, 40) == [
        "This is the first sentence.",
        "This is, e.g. for Tom, the second.",
        "And a third!",
    ]


def test_overlap_stays_in_its_section() -> None:
    """The first chunk of a section repeats nothing from the previous section."""
    text = "# A\n\none two\n\nthree four\n\n# B\n\nfive six"
    assert _markdown(text, 16, 12) == ["# A\n\none two", "three four", "# B\n\nfive six"]


def test_blocks() -> None:
    """Paragraphs, code blocks and tables start blocks, with or without blank lines around them."""
    text = f"One\ntwo.\n\nThree:\n{FENCE}\nFour\n{TABLE}\nFive | six\n\n\nSeven |\neight"
    assert _blocks(text) == [
        "One\ntwo.",
        "Three:",
        FENCE,
        "Four",
        f"{TABLE}\nFive | six",
        "Seven |\neight",
    ]


def test_each_block_begins_once() -> None:
    """A table after a blank line starts only one block."""
    text = f"One\n\n{TABLE}\nAfter\n\n~~~ `info`\ncode\n~~~"
    places = list(markdown_blocks(text, 0, len(text)))
    assert places == [0, 5, text.index("After"), text.index("~~~")]


def test_a_fence_ends_with_its_own_kind() -> None:
    """Other fences and headings in code are code; an unclosed fence continues to the end."""
    text = "````\n```\n\n# no heading\n\n```\n````\n\nText\n\n~~~\nopen\n\n# still code"
    assert _blocks(text) == [
        "````\n```\n\n# no heading\n\n```\n````",
        "Text",
        "~~~\nopen\n\n# still code",
    ]


def test_html() -> None:
    """The text of a page is cut by headings, then blocks, lines, sentences."""
    text = "Title\n\nIntro.\n\nSetup\nStep one.\nStep two is longer. It has two sentences.\n"
    chunker = SectionChunker(40, 0, levels=HTML, name="html")
    setup = text.index("Setup")
    chunks = chunker.split(text, 0, len(text), [0, setup])
    assert [text[start:end] for start, end in chunks] == [
        "Title\n\nIntro.",
        "Setup\nStep one.",
        "Step two is longer.",
        "It has two sentences.",
    ]
