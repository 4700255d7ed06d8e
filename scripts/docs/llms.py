"""Texts for language models: `llms.txt` lists the pages, `llms-full.txt` holds their text.

The format is that of https://llmstxt.org.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SOURCE = "https://raw.githubusercontent.com/lorebind/lorebind/main/docs/"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)


class WrittenPage(NamedTuple):
    """A page of the site."""

    section: str
    title: str
    path: str
    """Relative to docs/."""
    markdown: str


def llms_txt(name: str, about: str, pages: list[WrittenPage]) -> str:
    """Return the list: a heading for each section, and a link and one sentence for each page."""
    lines = [f"# {name}", "", f"> {about}"]
    section = None
    for page in pages:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({SOURCE}{page.path}){_summary(page.markdown)}")
    return "\n".join(lines) + "\n"


def llms_full_txt(pages: list[WrittenPage]) -> str:
    """Return the Markdown of all pages, each behind its address."""
    return "\n".join(
        f"<!-- {SOURCE}{page.path} -->\n\n{_COMMENT.sub('', page.markdown).strip()}\n"
        for page in pages
    )


def _summary(markdown: str) -> str:
    for part in _COMMENT.sub("", markdown).split("\n\n"):
        text = " ".join(part.split())
        if text and text[0] not in "#|<:-`![":
            first = re.split(r"(?<=[.:]) ", text)[0]
            return ": " + _LINK.sub(r"\1", first)
    return ""
