"""The parts of a passage that can be quoted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lorebind_prompts.units import Unit, split_sentences, split_units

from .helpers import texts


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Use e.g. Redis. Then go.", ["Use e.g. Redis.", "Then go."]),
        ("Call `f. X()` now. **Bold** next.", ["Call `f. X()` now.", "**Bold** next."]),
        ("Version 3.11 is fine.", ["Version 3.11 is fine."]),
        ("使用它。然后继续。", ["使用它。", "然后继续。"]),
        ("...", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    """Sentences end where a reader sees their end, not at every full stop."""
    assert split_sentences(text) == sentences


def test_markdown() -> None:
    """Sentences, items, rows and code are units; headings, tags and admonition fences are not."""
    text = """# Title { #title }

A [link](other.md#x) and an <abbr title="x">API</abbr>. Soft
wrapped line with `<b>`:

{* ../docs_src/a.py hl[1] *}

/// note | Details

* Item one. It goes on
  here.
1. Item two

///

<div class="termy">

```python title="a.py"
x = 1
```

</div>

| Name | Use |
| --- | --- |
| `a` | first |
"""
    assert split_units(text) == [
        Unit("sentence", "A link and an API.", "Title"),
        Unit("sentence", "Soft wrapped line with `<b>`:", "Title"),
        Unit("item", "Item one. It goes on here.", "Title"),
        Unit("item", "Item two", "Title"),
        Unit("code", "x = 1", "Title", "python"),
        Unit("row", "`a` | first", "Title"),
    ]


def test_a_passage_may_begin_inside_code() -> None:
    """The rest of a code block that was cut at the start is not treated as prose."""
    assert split_units("return x\n```\n\nProse here.") == [Unit("sentence", "Prose here.")]
    assert split_units("Prose:\n\n```python\nx = 1") == [
        Unit("sentence", "Prose:"),
        Unit("code", "x = 1", "", "python"),
    ]


@settings(deadline=None)
@given(texts)
def test_any_text_is_split(text: str) -> None:
    """Splitting terminates for any text, and no unit is empty."""
    assert all(unit.text.strip() for unit in split_units(text))
