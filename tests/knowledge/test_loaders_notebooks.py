"""Notebooks: cells, short outputs, headings, and files that are not notebooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.marks import Anchor
from lorebind_knowledge.loaders.registry import load_document


def cell(kind: str, source: Any, *outputs: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "outputs": list(outputs)}


def notebook(*cells: Any) -> bytes:
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def test_cells() -> None:
    """Cells count from 1, including empty ones; headings are those of Markdown cells."""
    data = notebook(
        cell("markdown", ["# Prices\n", "Of doors."]),
        cell("code", "# load\nx = 1", {"text": ["a\n", "b\n"]}, {"data": {"text/plain": "1"}}),
        cell("code", ""),
        cell("markdown", "## Gates\n\nOpen."),
    )
    document = load_document(data, "a.ipynb")
    assert document.text == (
        "# Prices\nOf doors.\n\n# load\nx = 1\na\nb\n1\n\n\n\n## Gates\n\nOpen."
    )
    assert [(h.title, document.text[h.start]) for h in document.headings] == [
        ("Prices", "#"),
        ("Gates", "#"),
    ]
    assert (document.title, document.format) == ("Prices", "notebook")
    at = document.text.index
    cells = [document.span(at(word), at(word) + 1).locator for word in ("Of", "load", "Open")]
    assert cells == ["cell 1", "cell 2", "cell 4"]
    assert document.span(at("load"), len(document.text)).locator == "cells 2-4"


def test_long_outputs_are_left_out() -> None:
    """Logs and pictures, which are less useful than the code, are omitted."""
    data = notebook(cell("code", "run()", {"text": "x" * 501}, {"data": {"image/png": "iVBO"}}))
    assert load_document(data, "a.ipynb").text == "run()"


def test_earlier_format() -> None:
    """Before version 4, cells were in a worksheet and code was called `input`."""
    data = {"worksheets": [{"cells": [{"cell_type": "code", "input": "x = 1"}]}]}
    document = load_document(json.dumps(data).encode(), "a", "application/x-ipynb+json")
    assert (document.text, document.anchors) == ("x = 1", (Anchor(0, "cell", 1),))


def test_rendered_by_others() -> None:
    """A text that another loader extracted from a notebook is read as text."""
    assert load_document(b"'markdown' cell", "a.ipynb", "text/plain").format == "text"
    assert load_document(notebook(cell("raw", "x")), "a.ipynb", "text/plain").text == "x"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"# not JSON", r"a.ipynb: line 1, column 1: not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"cells": 3}', "not a notebook: it has no list of cells"),
        (b"[]", "not a notebook"),
    ],
)
def test_refused(data: bytes, reason: str) -> None:
    """The error describes what is wrong."""
    with pytest.raises(SourceError, match=reason):
        load_document(data, "a.ipynb")


@pytest.mark.parametrize("odd", [None, 3, [], {"source": 3}, {"source": [3], "outputs": [3]}])
def test_odd_cells(odd: Any) -> None:
    """An invalid cell counts, but has no text."""
    document = load_document(notebook(odd, cell("code", "\ud800x")), "a.ipynb")
    assert document.text == "\n\n\N{REPLACEMENT CHARACTER}x"
    assert document.span(3, 4).locator == "cell 2"
