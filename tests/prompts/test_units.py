"""The parts of a passage that can be quoted."""

from __future__ import annotations

from hypothesis import given, settings

from lorebind_prompts.units import Unit, split_units

from .helpers import texts


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
    assert split_units("x\n```\n\nProse.\n\n```python\ny")[0] == Unit("sentence", "Prose.")


@settings(deadline=None)
@given(texts)
def test_any_text_is_split(text: str) -> None:
    """Splitting terminates for any text, and no unit is empty."""
    assert all(unit.text.strip() for unit in split_units(text))
