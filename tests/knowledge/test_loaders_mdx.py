"""MDX: code is removed, and every line keeps its number."""

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
    """Imports, exports, comments and components are removed; prose, HTML and code stay in place."""
    document = load_document(PAGE.encode(), "a.mdx")
    text = {
        number: line
        for number, line in enumerate(document.text.split("\n"), 1)
        if line.strip() and number > 3
    }
    assert text == {
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
    ("page", "read"),
    [
        ("Use `` a ` <B> `` and <C x={{a: 1}}/>`<D>`.", "Use `` a ` <B> `` and `<D>`."),
        ('<Faq title="How do I\n reset it?" icon="x">Click.</Faq>', " How do I reset it? \nClick."),
        ("Or<Tab label='On Linux' alt=\"\" /> see", "Or On Linux  see"),
        ("<Card\n  title={`Keys`}\n>\nText\n</Card>", " Keys \n\n\nText\n"),
        (
            '# T\n\nimport goods from "abroad"\nand pay.',
            '# T\n\nimport goods from "abroad"\nand pay.',
        ),
        ('# T\n\nimport goods from "a" now.\n\nx', '# T\n\nimport goods from "a" now.\n\nx'),
        ("export default settings before\nyou go.\n", "export default settings before\nyou go.\n"),
        ('import A, { b } from "a"\n# Keys\n', "\n# Keys\n"),
        ("import \"a.css\";\r\n\r\nimport * as B from 'b'\r\n# Keys", "\n\n\n# Keys"),
        ('# T\n\nimport A from "a"\nexport const b = 1\n  + 2\n\nx', "# T\n\n\n\n\n\nx"),
        ('Text\n\nimport A from "a"\n\nMore', "Text\n\n\n\nMore"),
        ("export const m = {\n  a: [{ b: 1 }],\n\n  c: 2,\n}\n\nText", "\n\n\n\n\n\nText"),
        ("export default Layout;\n\nText", "\n\nText"),
        ("export default function Page() {\n\n  return 1\n}\n\nText", "\n\n\n\n\nText"),
    ],
)
def test_what_is_for_programs(page: str, read: str) -> None:
    """Text that only looks like code is kept, and so is text that a tag shows."""
    assert load_document(page.encode(), "a.mdx").text == read


@pytest.mark.parametrize(
    "unit",
    [
        "{/*",
        "<A {",
        '<A "',
        "<A \"'",
        "<A {}",
        "`",
        "import x\n\n",
        "export {",
        "</A",
        "\n",
        "import",
        "import {a\n\n",
        "\n\nimport 'a'\n",
        "import 'a'\n",
        "<A title='",
        " title='",
        "\n\nexport const a = {",
        "\n\nexport default {x",
        "\n\nexport const {",
        "\n\nexport {{}",
    ],
)
def test_time_grows_with_length(unit: str) -> None:
    """No repeated text makes a page slow, within a line or at its start."""
    page = ("# T\n\nx" + unit * (400_000 // len(unit))).encode()
    start = time.process_time()
    load_document(page, "a.mdx")
    assert time.process_time() - start < 3
