"""A browser, and a page that notes what must not happen on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.server.conftest import (  # servers are forked
    PROJECT,
    Process,
    forking,  # noqa: F401
    serving,
    write_project,
)
from tests.knowledge.documents import pdf_bytes

QUESTION = "When can I return goods?"
STEPS = """
def reply(subject):
    return f"We look into {subject}."
"""
WORKFLOW = {
    "id": "approval",
    "description": "Asks a person before it sends.",
    "input": {"subject": {"type": "string"}},
    "tasks": [
        {
            "id": "draft",
            "type": "python",
            "call": "steps:reply",
            "with": {"subject": "{{ .input.subject }}"},
        },
        {
            "id": "ask",
            "type": "wait",
            "prompt": "Send it? {{ .tasks.draft.output }}",
            "schema": {
                "type": "object",
                "required": ["send"],
                "properties": {"send": {"type": "boolean"}},
            },
        },
    ],
}

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


@pytest.fixture(scope="package")
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
def watched(browser: Any, url: str, *, refused: int = 0) -> Iterator[Any]:
    """Open the playground of a server; at the end, its console must be empty.

    All tests use one page, as opening another one takes longer than most of them.

    Args:
        browser: the browser.
        url: the server's.
        refused: a status with which the server refuses requests, which Chromium writes down.
    """
    context = browser.contexts[0] if browser.contexts else browser.new_context()
    page = context.pages[0] if context.pages else context.new_page()
    page.set_default_timeout(90_000)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    wrong: list[str] = []

    def note(text: str) -> None:
        if not (refused and f"status of {refused}" in text):
            wrong.append(text)

    listeners: dict[str, Callable[[Any], object]] = {
        "pageerror": lambda error: wrong.append(f"error: {error}"),
        "dialog": lambda dialog: wrong.append(f"dialog: {dialog.message}") or dialog.dismiss(),
        "console": lambda message: note(f"{message.type}: {message.text}"),
        "request": lambda sent: sent.url.startswith((url, "blob:")) or wrong.append(sent.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        page.goto(f"{url}/playground")
        yield page
        assert not wrong
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.unroute_all()
        page.goto("about:blank")
        for other in context.pages[1:]:
            other.close()
    except BaseException:
        context.close()
        raise


@pytest.fixture(scope="package")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a knowledge base of files, a place that binds another, and a workflow."""
    folder = tmp_path_factory.mktemp("shop")
    pages = folder / "pages"
    pages.mkdir()
    for name in ("one", "two"):
        text = "\n".join(f"Line {number} of page {name}." for number in range(1, 60))
        (pages / f"{name}.md").write_text(f"# Page {name}\n\n{text}\n")
    (pages / "broken.pdf").write_bytes(b"not a PDF")
    (pages / "plan.pdf").write_bytes(pdf_bytes(["Keys of the cellar.", "The gate closes at six."]))
    (pages / "notes.xyz").write_text("Notes of a format that no loader reads.\n")
    (folder / "steps.py").write_text(STEPS)
    pages_kb = {
        "id": "pages",
        "sources": [
            {"type": "file_glob", "path": "pages/*", "metadata": {"static": {"kind": "page"}}}
        ],
    }
    handbook = {**PROJECT["knowledge_bases"][0], "metadata": {"audience": "customers"}}
    declared = {
        **PROJECT,
        "knowledge_bases": [handbook, pages_kb],
        "knowledge": [{"id": "handbook", "top_k": 4}],
        "workflows": [WORKFLOW],
    }
    return write_project(folder, declared)


@pytest.fixture(scope="package")
def shop(shop_folder: Path, browser: Any) -> Iterator[Process]:
    with serving(shop_folder, "--port", "0") as server:
        with httpx.Client(base_url=f"{server.url}/api/v0", timeout=60) as api:
            api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
        yield server
