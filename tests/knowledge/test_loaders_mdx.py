"""MDX: what is for a program is left out, and every line stays where it was."""

from __future__ import annotations

import time

import pytest

from lorebind_knowledge.loaders.registry import load_document

PAGE = """\
---
title: Setup
---
import Tabs from '@theme/Tabs';
import {
  Note,
} from "./note";

export const version = "2"

# Install {/* a comment */}

<Tabs items={["a", {b: 1}]} style={{ color: "<red>" }}>
Run it with `<Tabs/>`, not <b>by hand</b>.
</Tabs>

import the data first, then export it.

```jsx
import x from "y"

<Note/>
```
"""


def test_programs_are_left_out() -> None:
    """Imports, exports, comments and components go; prose, HTML and code stay, line by line."""
    document = load_document(PAGE.encode(), "a.mdx")
    said = {
        number: line
        for number, line in enumerate(document.text.split("\n"), 1)
        if line.strip() and number > 3
    }
    assert said == {
        11: "# Install ",
        14: "Run it with `<Tabs/>`, not <b>by hand</b>.",
        17: "import the data first, then export it.",
        19: "```jsx",
        20: 'import x from "y"',
        22: "<Note/>",
        23: "```",
    }
    assert (document.title, document.format) == ("Setup", "markdown")
    assert [heading.title for heading in document.headings] == ["Install"]
    assert document.span(document.text.index("Run"), len(document.text)).line_start == 14


@pytest.mark.parametrize(
    "unit", ["{/*", "<A {", '<A "', "<A \"'", "<A {}", "`", "import x\n\n", "export {", "</A", "\n"]
)
def test_time_grows_with_length(unit: str) -> None:
    """Nothing that is repeated makes a page slow, within a line and at its beginning."""
    page = ("# T\n\nx" + unit * (400_000 // len(unit))).encode()
    start = time.process_time()
    load_document(page, "a.mdx")
    assert time.process_time() - start < 3
