"""Titles and headings of reStructuredText, AsciiDoc and LaTeX."""

from __future__ import annotations

import time

import pytest

from lorebind_knowledge.loaders.registry import load_document

RST = """\
=======
 Guide
=======

Intro.

Install it
----------

::

    code

    ====

On Linux
~~~~~~~~
+---+
| a |
+---+

Use it
------
| a line
- item
"""
ASCIIDOC = """\
= Guide
:author: Ann

== Install
----
== not a heading
----
=== On Linux
==no
"""
TEX = r"""\documentclass{article}
\title{The \emph{great} guide}
\begin{document}
\section[short]{Install \texttt{it}}
% \section{Not} \section{Nor}
Here is \\section{this}
\subsection*{On {\bf {Linux}}}\label{x} 5\% more \section{Use it} % \section{Not}
\sectionmark{no}
"""


@pytest.mark.parametrize(
    ("name", "text", "title", "headings"),
    [
        ("a.rst", RST, "Guide", [(1, "Guide"), (2, "Install it"), (3, "On Linux"), (2, "Use it")]),
        ("a.adoc", ASCIIDOC, "Guide", [(1, "Guide"), (2, "Install"), (3, "On Linux")]),
        ("a.tex", TEX, "The great guide", [(3, "Install it"), (4, "On Linux"), (3, "Use it")]),
        ("a.rst", "====\nno\n\ntext\n", "a", []),
        ("a.tex", r"\section{" + "x" * 1001 + "}", "a", []),
        ("a.adoc", "no title", "a", []),
    ],
)
def test_headings(name: str, text: str, title: str, headings: list[tuple[int, str]]) -> None:
    """The text stays as it is; headings start where their lines do."""
    document = load_document(text.encode(), name)
    assert document.text == text
    assert document.title == title
    assert [(heading.level, heading.title) for heading in document.headings] == headings
    for heading in document.headings:
        assert heading.title.split()[0] in document.text[heading.start :].split("\n")[0]


@pytest.mark.parametrize("name", ["a.rst", "a.adoc", "a.tex"])
@pytest.mark.parametrize(
    "unit",
    [
        "=",
        "= ",
        "==\n",
        "a\n=\n",
        r"\section{",
        r"\section{{a}{",
        "\\title[",
        "\\",
        " ",
        "%",
        "{",
        "\n",
    ],
)
def test_time_grows_with_length(name: str, unit: str) -> None:
    """No repeated text makes a document slow."""
    start = time.process_time()
    load_document((unit * (400_000 // len(unit))).encode(), name)
    assert time.process_time() - start < 3
