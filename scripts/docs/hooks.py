"""Hooks of the documentation site.

They stop `make docs` when a public name has no docstring, let the site work without a request to
another host, and write `llms.txt` and `llms-full.txt`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.utils import get_relative_url
from mkdocstrings_handlers.python._internal import rendering
from scripts.docs.llms import WrittenPage, llms_full_txt, llms_txt
from scripts.docs.public_names import undocumented

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.lorebind")
_SHIM = "https://unpkg.com/iframe-worker/shim"
_FACTS = ' data-md-component="source"'
"""Lets the theme's script ask GitHub for the stars and forks of the linked repository."""
_written: dict[str, WrittenPage] = {}


def on_config(config: MkDocsConfig) -> None:
    """Show the ways to create an object, its class methods, before its other methods."""
    by_line = rendering._order_map["source"]

    def created_first(item: Any) -> tuple[bool, Any]:
        return "classmethod" not in item.labels, by_line(item)

    rendering._order_map["source"] = created_first  # type: ignore[assignment]


def on_pre_build(config: MkDocsConfig) -> None:
    """Warn about each public name without a docstring; a strict build ends at a warning."""
    for path in undocumented():
        log.warning("%s has no docstring", path)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Start the list of pages, in the order of the navigation."""
    _written.clear()
    for page in nav.pages:
        _written[page.file.src_path] = WrittenPage("", "", page.file.src_path, "")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Keep the text of a page."""
    path = page.file.src_path
    sections = [parent.title for parent in page.ancestors]
    section = sections[-1] if sections else "Overview"
    _written[path] = WrittenPage(section or path, page.title or path, path, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script that the search needs in local files from the site itself, and let no script
    request another host."""
    for expected in (_SHIM, _FACTS):
        if expected not in output:
            log.warning("%s does not contain %s, which is replaced", page, expected)
    return _local(output, get_relative_url("assets/iframe-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same for the page that a server shows for an unknown address."""
    return _local(output_content, "/assets/iframe-worker.js")


def _local(output: str, shim: str) -> str:
    return output.replace(_SHIM, shim).replace(_FACTS, "")


def on_post_build(config: MkDocsConfig) -> None:
    """Write both files into the site."""
    pages = sorted(_written.values(), key=lambda page: page.section != "Overview")
    site = Path(config.site_dir)
    about = config.site_description or ""
    (site / "llms.txt").write_text(llms_txt(config.site_name, about, pages), encoding="utf-8")
    (site / "llms-full.txt").write_text(llms_full_txt(pages), encoding="utf-8")
