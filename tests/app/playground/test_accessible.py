"""Every view, in light and dark, wide and narrow: axe finds nothing, and nothing is cut off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
GO = """hash => new Promise((resolve) => {
  addEventListener("hashchange", resolve, { once: true });
  location.hash = hash;
})"""
"""Go to another view, which is faster than loading the page again."""
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

    with watched(browser, filled.url) as page, loads(page) as wait_for_loads:
        for view in VIEWS:
            page.evaluate(GO, f"#/{view.replace('QUESTION', QUESTION)}")
            wait_for_loads()
            check(page, view)
        if find_spec("PIL"):
            page.evaluate(GO, f"#/{PICTURE}")
            page.get_by_role("button", name="Page as a picture").click()
            page.locator("figure rect").last.wait_for()
            check(page, "the picture of a page")
            page.get_by_role("button", name="Enlarge").first.click()
            check(page, "the enlarged picture")


@contextmanager
def loads(page: Any) -> Iterator[Callable[[], None]]:
    """Yield a function that waits until a page has a heading and requests nothing for 0.1 s."""
    waiting: set[Any] = set()

    def begin(request: Any) -> None:
        waiting.add(request)

    def end(request: Any) -> None:
        waiting.discard(request)

    listeners = {"request": begin, "requestfinished": end, "requestfailed": end}
    for event, listener in listeners.items():
        page.on(event, listener)

    def wait() -> None:
        quiet = 0
        while quiet < 5:
            page.wait_for_timeout(20)
            quiet = 0 if waiting else quiet + 1
        page.locator("main h1").wait_for()

    yield wait
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
