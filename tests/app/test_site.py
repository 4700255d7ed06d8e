"""The generated pages are current, and links between pages and files lead somewhere."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.docs import blocks, terminal_svg
from scripts.docs.llms import SOURCE, WrittenPage, llms_full_txt, llms_txt
from scripts.docs.renew import PAGES
from scripts.docs.yaml_reference import anchor

import lorebind
from lorebind.server.problems import STATUS
from lorebind_config import errors

ROOT = Path(__file__).parents[2]
REPOSITORY = re.compile(r"https://(?:raw\.githubusercontent|github)\.com/lorebind/lorebind/")
_HERE = re.compile(REPOSITORY.pattern + r"(?:(?:blob|tree|raw)/)?main/([^)\s\"#]+)(?:#([\w-]+))?")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)(?:#([^)\s]+))?\)")
_NOT_OURS = ("examples/quickstart/docs/", "tests/", "benchmarks/")
WRITTEN = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    and not str(path.relative_to(ROOT)).startswith(_NOT_OURS)
]


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_current(page: str) -> None:
    """The committed page is the one that its script writes now."""
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page](), "renew it: make pages"


@pytest.mark.parametrize("page", blocks.PAGES)
def test_the_generated_blocks_of_a_page_are_current(page: str) -> None:
    """The layers that a page shows are those that import-linter checks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "<!-- generated: " in text
    assert text == blocks.with_blocks(text), "renew it: make pages"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Links to files of the project, relative or on GitHub, name files and headings that exist."""
    text = page.read_text(encoding="utf-8")
    targets = [(page.parent / link[1], link[2]) for link in _LINK.finditer(text)]
    targets += [(ROOT / link[1], link[2]) for link in _HERE.finditer(text)]
    for path, fragment in targets:
        assert path.exists(), path
        if fragment and path.suffix == ".md":
            headings = re.findall(r"(?m)^#+ (.+)$", path.read_text(encoding="utf-8"))
            assert fragment in map(anchor, headings), f"{path}#{fragment}"


def test_every_error_has_a_cause_and_a_cure() -> None:
    """The reference of errors has a row for each exception and for each problem code."""
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    raised = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__doc__
    }
    assert {*rows} == {*STATUS} | {name for name in raised if name.endswith("Error")} - {
        "LorebindError"
    }
    for code, status in STATUS.items():
        assert f"| {status} |" in rows[code]


def test_the_picture_shows_the_current_commands() -> None:
    """The recorded terminal shows the commands that its script runs, and no path of a machine."""
    picture = html.unescape(terminal_svg.PICTURE.read_text(encoding="utf-8")).replace("\xa0", " ")
    assert not re.search(r"/(?:tmp|home|root|Users)/", picture)
    for command in terminal_svg.COMMANDS:
        assert command in picture, "record it again: make picture"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site, built without a warning.

    Warnings name, for example, each public name that has no docstring.
    """
    folder = tmp_path_factory.mktemp("site")
    # With --quiet, warnings would not count.
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_requests_no_other_host(site: Path) -> None:
    """Scripts, styles and pictures belong to the site, and diagrams are pictures."""
    pages = list(site.rglob("*.html"))
    requested = r"""<(?:script|img|iframe)[^>]*\ssrc="?https?:|<link[^>]*rel="?(?:style|pre|icon)"""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for element in re.findall(rf"(?:{requested})[^>]*>", text):
            assert "http" not in element, (page, element)
        assert 'class="mermaid"' not in text, page
        # The theme's script asks GitHub about the repository that this element names.
        assert 'data-md-component="source"' not in text, page
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheets)
    written = sum(page.read_text(encoding="utf-8").count("```mermaid") for page in WRITTEN)
    drawn = sum(
        page.read_text(encoding="utf-8").count("data:image/svg+xml;base64") for page in pages
    )
    assert written == drawn > 0


def test_the_reference_begins_with_the_ways_to_create_a_project(site: Path) -> None:
    """It has all names; `load` and `build` come first, and the package's example is a block."""
    page = (site / "reference/python/lorebind.html").read_text(encoding="utf-8")
    assert [name for name in lorebind.__all__ if f'id="lorebind.{name}"' not in page] == []
    methods = re.findall(r'<h3 id="lorebind\.Project\.(\w+)', page)
    assert methods.index("load") < methods.index("arun")
    assert methods.index("build") < methods.index("arun")
    example = page.partition('id="lorebind.Project"')[0]
    assert "<pre><span></span><code><a id" in example


def test_language_models_get_a_list_and_all_texts() -> None:
    """Each page has its address and its first sentence; comments for the tests are omitted."""
    run = "<!-- run in an empty folder -->"
    pages = [
        WrittenPage("Overview", "Home", "index.md", "# Home\n\nOne [link](a.md) here. Two."),
        WrittenPage("Guides", "A guide", "a.md", f"{run}\n\n# A guide\n\n| a |\n\nIt\nhelps.\n"),
    ]
    assert llms_txt("Name", "About.", pages) == (
        "# Name\n\n> About.\n"
        f"\n## Overview\n\n- [Home]({SOURCE}index.md): One link here.\n"
        f"\n## Guides\n\n- [A guide]({SOURCE}a.md): It helps.\n"
    )
    assert llms_full_txt(pages).endswith(
        f"<!-- {SOURCE}a.md -->\n\n# A guide\n\n| a |\n\nIt\nhelps.\n"
    )
