"""Every view, in light and dark, wide and narrow: axe finds nothing, and nothing is cut off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from tests.app.server.conftest import Process

from .conftest import QUESTION, watched

pytestmark = pytest.mark.enable_socket  # loopback: a browser has no Unix sockets

VIEWS = [
    "",
    "kb/handbook",
    "kb/handbook?q=QUESTION",
    "kb/handbook?q=QUESTION&compare=yes&b_strategy=similarity",
    "kb/pages/documents",
    "kb/pages/documents?state=skipped",
    "kb/pages/ingest",
    "kb/handbook/source/inline%3Areturns?line=1",
    "ask",
    "bindings",
    "workflows",
    "workflows/approval",
    "health",
    "nowhere",
]
PICTURE = "kb/pages/source/pages/plan.pdf"
LOOKS = {"light": (2560, 375), "dark": (640, 1280)}
"""The widths in pixels of each colour scheme; the rules are checked at the last."""
RULES = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
}
BROKEN = "async rules => (await axe.run(rules)).violations"


@pytest.fixture(scope="module")
def axe() -> Any:
    module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs e2e")
    return module.Axe()


@pytest.fixture(scope="module")
def filled(shop: Process) -> Iterator[Process]:
    with httpx.Client(base_url=f"{shop.url}/api/v0", timeout=60) as api:
        api.post("/knowledge-bases/pages/ingest", headers={"Prefer": "wait=20"})
    return shop


def test_every_view(filled: Process, browser: Any, axe: Any) -> None:
    def check(page: Any, view: str) -> None:
        if not page.evaluate("'axe' in window"):
            page.evaluate(axe.axe_script)
        for scheme, widths in LOOKS.items():
            page.emulate_media(color_scheme=scheme)
            for width in widths:
                page.set_viewport_size({"width": width, "height": 900})
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{view} scrolls sideways at {width} px"
            violations = page.evaluate(BROKEN, RULES)
            place = f"{view}, {scheme}"
            assert not violations, f"{place}: {json.dumps(violations, indent=1)[:3000]}"

    with watched(browser, filled.url) as page:
        for view in VIEWS:
            open_view(page, filled, view)
            check(page, view)
        if find_spec("PIL"):
            open_view(page, filled, PICTURE)
            page.get_by_role("button", name="Page as a picture").click()
            page.locator("figure rect").last.wait_for()
            check(page, "the picture of a page")
            page.get_by_role("button", name="Enlarge").first.click()
            check(page, "the enlarged picture")


def open_view(page: Any, server: Process, view: str) -> None:
    page.goto("about:blank")
    page.goto(f"{server.url}/playground#/{view.replace('QUESTION', QUESTION)}")
    page.locator("main h1").wait_for()
    page.wait_for_load_state("networkidle")
