"""Finding code in Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_knowledge.text.markdown import code_spans, fences, outside_fences

pieces = st.sampled_from(
    ["```", "~~~", "````", "``` py", "`", "\n", "\n\n", " ", "    ", "> ", "- ", "a", "\\", "\t"]
)
texts = st.lists(pieces, max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "language", "code"),
    [
        ("a\n```python title=x\nx = 1\n```\nb", "python", "x = 1"),
        ("~~~ {.py}\n```\n~~~", "py", "```"),
        ("```\n```", "", ""),
        ("- ```\n  a\n    b\n  ```\nc", "", "a\n  b"),
        ("1. x\n\n     ```sh\n     a\n     ```\nb", "sh", "a"),
        ("> ```\n> a\n>\n> b\n> ```\n> c", "", "a\n\nb"),
        ("```\n    ```\na\n```", "", "    ```\na"),
        ("```\n- ```\n```", "", "- ```"),
        ("```\nopen", "", "open"),
        ("```", "", ""),
    ],
)
def test_a_fenced_block(text: str, language: str, code: str) -> None:
    """It may be indented, quoted or in a list item; marks in the code do not close it."""
    (fence,) = fences(text, 0, len(text))
    assert (fence.language, fence.code(text)) == (language, code)


@pytest.mark.parametrize("text", ["``` not a fence ```", "a ```\nb\n```c`", "``\na\n``", ""])
def test_no_fenced_block(text: str) -> None:
    assert list(fences(text, 0, len(text))) == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("a `b` ``c`d``", ["`b`", "``c`d``"]),
        ("`a\nb` `c\n\nd`", ["`a\nb`"]),
        ("> `a\n>\n> b`", []),
        ("\\`a `b`", ["`b`"]),
        ("\\``a`", ["`a`"]),
        ("``a` b", []),
    ],
)
def test_inline_code(text: str, codes: list[str]) -> None:
    """It ends with an equal run of backticks in its paragraph; a backslash escapes one."""
    assert [text[start:end] for start, end in code_spans(text, 0, len(text))] == codes


@given(texts)
def test_the_parts_of_any_text(text: str) -> None:
    """Blocks and what is outside of them make the whole text, in order and without overlap."""
    blocks = list(fences(text, 0, len(text)))
    cuts = [0, *(at for block in blocks for at in (block.start, block.end)), len(text)]
    assert cuts == sorted(cuts)
    assert list(outside_fences(text, 0, len(text))) == list(zip(cuts[::2], cuts[1::2], strict=True))
    for block in blocks:
        assert block.start <= block.inside[0] <= block.inside[1] <= block.end
        assert text[block.start : block.end].lstrip(" \t>-")[:3] in ("```", "~~~")
