"""The page of the tutorial about the playground: its walk, and the pictures that it shows.

`UPDATE_DOCS=1` takes the pictures again. Otherwise, they are compared with the page loosely: texts
such as times differ, and so do the fonts of machines.
"""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.forked_python import Forked, ForkedPython

from .conftest import watched
from .test_walk import press, tab_to

pytestmark = pytest.mark.enable_socket  # loopback: a browser has no Unix sockets

DOCS = Path(__file__).parents[3] / "docs"
UPDATE = os.environ.get("UPDATE_DOCS") == "1"
LARGEST = 45_000
"""Bytes of a picture."""
PICTURES = ("tutorial-documents", "tutorial-answer", "tutorial-source")
COMPARE = """async (pictures) => {
  const [now, ...others] = await Promise.all(pictures.map(async (picture) => {
    const bitmap = await createImageBitmap(await (await fetch(picture)).blob());
    const canvas = new OffscreenCanvas(80, 56).getContext("2d");
    canvas.imageSmoothingQuality = "high";
    canvas.drawImage(bitmap, 0, 0, 80, 56);
    const { data } = canvas.getImageData(0, 0, 80, 56);
    const colors = data.filter((_, index) => index % 4 < 3); // without alpha
    return { size: [bitmap.width, bitmap.height], colors };
  }));
  const difference = (first, second) =>
    first.reduce((sum, value, index) => sum + Math.abs(value - second[index]) / 255, 0)
    / first.length;
  const margin = now.colors.slice(80 * 28 * 3, 80 * 28 * 3 + 3);
  return {
    sizes: [now, ...others].map(({ size }) => size),
    differences: others.map(({ colors }) => difference(now.colors, colors)),
    empty: difference(now.colors, now.colors.map((_, index) => margin[index % 3])),
  };
}"""
"""Mean differences of brightness, from 0 to 1, between a picture and others or an empty page."""


@pytest.fixture
def playground(tmp_path: Path, forked: ForkedPython, browser: Any) -> Iterator[tuple[str, Path]]:
    """Run `lorebind playground` on an empty folder; yield its address and the folder."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    command = [str(forked.commands / "lorebind"), "playground", str(folder), "--no-browser"]
    process = Forked(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        (url,) = re.findall(r"at (http\S+)/playground;", first)
        yield url, folder
    finally:
        with process:
            process.kill()


def files() -> dict[str, str]:
    """Return the files of the handbook that the tutorial writes."""
    text = (DOCS / "tutorial/index.md").read_text(encoding="utf-8")
    blocks = re.findall(r'```markdown title="handbook/([\w.]+)"\n(.*?)```', text, re.DOTALL)
    assert len(blocks) == 3
    return dict(blocks)


def test_an_empty_folder_is_filled_and_asked(playground: tuple[str, Path], browser: Any) -> None:
    """The walk of the tutorial, with its pictures."""
    url, folder = playground
    with watched(browser, url) as page:
        page.set_viewport_size({"width": 1000, "height": 700})
        page.get_by_text("Nothing is ingested yet.").wait_for()
        page.get_by_role("link", name="files", exact=True).click()
        page.get_by_text("Press Ingest to read the sources; then ask.").wait_for()
        page.get_by_role("link", name="Documents").click()
        page.get_by_role("button", name="Add documents").click()
        name, text = files().popitem()
        dropped = page.evaluate_handle(
            "([name, text]) => { const dropped = new DataTransfer();"
            " dropped.items.add(new File([text], name)); return dropped; }",
            [name, text],
        )
        page.dispatch_event("#adding .empty", "drop", {"dataTransfer": dropped})
        page.get_by_role("link", name=f"added:{name}").wait_for()
        page.get_by_role("button", name=f"Delete: added:{name}").click()
        page.get_by_role("link", name=f"added:{name}").wait_for(state="detached")
        for name, text in files().items():
            (folder / name).write_text(text)
        page.get_by_role("button", name="Add documents").click()
        page.get_by_role("button", name="Ingest").click()
        page.get_by_text("completed", exact=True).first.wait_for()
        page.get_by_role("link", name="expenses.md").wait_for()
        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_role("textbox", name="Question").wait_for()
        page.get_by_role("link", name="Documents").click()
        page.get_by_role("link", name="expenses.md").wait_for()
        page.evaluate("scrollTo(0, 0)")
        check(page, "tutorial-documents")
        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_role("textbox", name="Question").fill("How much may a hotel cost?")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Open passage [1]").wait_for()
        page.get_by_text("Begin a new conversation").wait_for()
        page.evaluate("scrollTo(0, 220)")
        check(page, "tutorial-answer")
        page.get_by_text("Why not?").click()
        page.get_by_label("Document that you expected").fill("expenses.md")
        page.get_by_role("button", name="Look").click()
        page.get_by_role("row").filter(has_text="top_k").wait_for()
        page.get_by_role("link", name="expenses.md", exact=True).first.click()
        page.locator(".line.lit").first.wait_for()
        page.evaluate("scrollTo(0, 220)")
        check(page, "tutorial-source")


def test_the_same_by_keyboard_alone(
    playground: tuple[str, Path], browser: Any, tmp_path: Path
) -> None:
    """From the empty folder to a citation, two settings and a miss, without a mouse."""
    url, folder = playground
    (added, text), *others = files().items()
    (tmp_path / added).write_text(text)
    with watched(browser, url) as page:
        page.on("filechooser", lambda _: None)  # choosers are announced some time after this
        page.get_by_text("Nothing is ingested yet.").wait_for()
        press(page, "files")
        page.get_by_text("Press Ingest to read the sources; then ask.").wait_for()
        press(page, "Documents")
        page.get_by_role("button", name="Add documents").wait_for()
        press(page, "Add documents")
        tab_to(page, "Files")
        with page.expect_file_chooser() as chooser:
            page.keyboard.press("Enter")
        chooser.value.set_files(tmp_path / added)
        page.get_by_role("link", name=f"added:{added}").wait_for()
        for name, text in others:
            (folder / name).write_text(text)
        press(page, "Ingest")
        page.get_by_role("link", name=others[0][0], exact=True).wait_for()
        press(page, "Ask")
        page.get_by_role("textbox", name="Question").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("How much may a hotel cost?")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Open passage [1]").wait_for()
        press(page, "Open passage [1]")
        assert page.evaluate("document.activeElement.classList.contains('shown')")
        press(page, "Compare two settings", "Space")
        for _ in range(2):
            tab_to(page, "Strategy")
        page.keyboard.type("similarity")
        page.keyboard.press("Tab")
        page.keyboard.press("/")
        page.keyboard.press("Enter")
        second = page.get_by_role("region", name="Second settings")
        second.get_by_role("link").first.wait_for()
        assert "lexical" not in second.inner_text()
        uri = second.get_by_role("link").first.inner_text()
        press(page, uri)
        page.locator(".line.lit").first.wait_for()
        press(page, "Ask")
        page.get_by_role("textbox", name="Question").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("Zebra?")
        page.keyboard.press("Enter")
        page.get_by_text("Miss.").or_(page.get_by_text("Weak.")).first.wait_for()
        press(page, "Why not?")
        tab_to(page, "Document that you expected")
        page.keyboard.type(uri)
        page.keyboard.press("Enter")
        page.get_by_role("row").nth(1).wait_for()


def check(page: Any, name: str) -> None:
    """Compare the page with its picture, or take the picture."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    now = page.screenshot(animations="disabled")
    file = DOCS / f"assets/{name}.png"
    if UPDATE:
        file.write_bytes(small(now))
    assert file.stat().st_size <= LARGEST
    blank = page.context.browser.new_page()
    pictures = [now, *((DOCS / f"assets/{other}.png").read_bytes() for other in PICTURES)]
    addresses = [f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in pictures]
    result = blank.evaluate(COMPARE, addresses)
    blank.close()
    assert all(size == result["sizes"][0] for size in result["sizes"])
    differences = dict(zip(PICTURES, result["differences"], strict=True))
    again = f"{name} differs: take it again with UPDATE_DOCS=1; {differences}"
    assert min(differences, key=differences.__getitem__) == name, again
    # The same page has a hundredth of it, and in another font a tenth.
    assert differences[name] < result["empty"] / 2, again


def small(picture: bytes) -> bytes:
    """Return a picture with fewer colors."""
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.open(io.BytesIO(picture)).convert("RGB").quantize(48).save(out, "PNG", optimize=True)
    return out.getvalue()
