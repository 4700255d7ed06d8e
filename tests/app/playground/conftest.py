"""A browser, and a page that notes what must not happen on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.app.server.conftest import forking  # noqa: F401 - servers are forked

CHROMIUM = shutil.which("chromium")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra e2e")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def watched(browser: Any, url: str, *, refused: int = 0, **options: Any) -> Iterator[Any]:
    """Open the playground of a server; at the end, its console must be empty.

    Args:
        browser: the browser.
        url: the server's.
        refused: a status with which the server refuses requests, which Chromium writes down.
        options: those of a browser's context.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(90_000)
    wrong: list[str] = []

    def note(text: str) -> None:
        if not (refused and f"status of {refused}" in text):
            wrong.append(text)

    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}") or dialog.dismiss())
    page.on("console", lambda message: note(f"{message.type}: {message.text}"))
    page.on("request", lambda sent: sent.url.startswith((url, "blob:")) or wrong.append(sent.url))
    page.goto(f"{url}/playground")
    try:
        yield page
        assert not wrong
    finally:
        context.close()
