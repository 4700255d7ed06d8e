"""A person's walk through the playground in a real browser."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.app.server.conftest import PROJECT, Process, serving, write_project
from tests.knowledge.documents import pdf_bytes
from tests.processes import run_program

from .conftest import QUESTION, watched

pytestmark = pytest.mark.enable_socket  # loopback: a browser has no Unix sockets


def test_ingest_ask_and_open_a_citation(shop: Process, browser: Any) -> None:
    """The names here are those that checks from outside use."""
    with watched(browser, shop.url) as page:
        page.get_by_role("link", name="handbook", exact=True).click()
        page.get_by_role("button", name="Ingest").click()
        main = page.locator("main")
        main.get_by_text("completed").wait_for()
        main.get_by_text("Nothing is ingested yet.").wait_for(state="detached")
        page.get_by_role("textbox", name="Question").fill(QUESTION)
        page.keyboard.press("Enter")
        for text in ("dense", "lexical", "inline:returns"):
            main.get_by_text(text).first.wait_for()
        main.get_by_role("button", name="Open passage [1], inline:returns").click()
        assert "inline:returns" in (page.locator(".passage.shown").text_content() or "")
        main.get_by_role("link", name="inline:returns", exact=True).first.click()
        page.locator(".line.lit", has_text="You can return goods within 30 days.").wait_for()


def test_why_a_document_is_missing_and_what_the_model_gets(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        page.get_by_role("link", name="handbook", exact=True).click()
        page.get_by_role("textbox", name="Question").fill(QUESTION)
        page.get_by_text("Settings of the search").click()
        page.get_by_label("Passages at most").first.fill("1")
        page.keyboard.press("Enter")
        marks = page.locator(".passage mark")
        marks.first.wait_for()
        assert marks.all_inner_texts() == ["return", "goods"]
        page.get_by_text("The prompt as the model gets it").click()
        page.get_by_text("You can return goods within 30 days.").nth(1).wait_for()
        page.get_by_role("button", name="Add a filter").first.click()
        page.locator("datalist option[value=audience]").first.wait_for(state="attached")
        page.get_by_role("button", name="Remove").click()
        page.get_by_text("Why not?").click()
        page.get_by_label("Document that you expected").fill("inline:shipping")
        for uri, state in (("inline:shipping", "attached"), ("inline:returns", "detached")):
            page.locator(f"datalist option[value='{uri}']").wait_for(state=state)
        page.get_by_role("button", name="Look").click()
        page.get_by_text("The search loses inline:shipping at top_k").wait_for()
        assert "lost here" in page.get_by_role("row").filter(has_text="top_k").inner_text()


def test_two_settings_are_compared_and_a_link_shows_them_again(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        page.get_by_role("link", name="handbook", exact=True).click()
        page.get_by_role("textbox", name="Question").fill(QUESTION)
        page.get_by_label("Compare two settings").check()
        page.get_by_role("combobox", name="Strategy").last.select_option("similarity")
        page.get_by_role("button", name="Ask", exact=True).click()
        second = page.get_by_role("region", name="Second settings")
        second.get_by_text("inline:returns").first.wait_for()
        assert "lexical" not in second.inner_text()
        assert "q=" not in page.url
        page.get_by_label("Put the question into the link").check()
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        second.get_by_text("inline:returns").first.wait_for()
        assert page.get_by_role("textbox", name="Question").input_value() == QUESTION


def test_the_copied_calls_find_the_same(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        page.goto(f"{shop.url}/playground#/kb/handbook?top_k=1&strategy=lexical")
        page.get_by_role("button", name="Add a filter").first.click()
        page.get_by_label("Field").first.fill("audience")
        page.get_by_label("Value").first.fill("customers")
        page.get_by_role("textbox", name="Question").fill(f"{QUESTION} It's urgent.")
        page.keyboard.press("Enter")
        page.get_by_text("The same as a call").click()
        curl, command, python, declared = page.locator("details[open] pre").all_inner_texts()
    words = shlex.split(curl.replace("\\\n", " "))
    body = json.loads(words[words.index("-d") + 1])
    over_http = httpx.post(words[1], json=body, timeout=60).json()
    (match,) = over_http["matches"]
    assert match["metadata"]["uri"] == "inline:returns"
    program = Path(sys.executable).with_name(shlex.split(command)[0])
    sent = [str(program), *shlex.split(command)[1:], "--server", shop.url, "--output", "json"]
    printed = json.loads(run_program(sent, timeout=60).stdout)
    assert [hit["id"] for hit in printed["matches"]] == [match["id"]]
    settings = {"strategy": "lexical", "top_k": 1, "filters": {"audience": {"$eq": "customers"}}}
    written = ast.parse(python, mode="eval").body
    assert isinstance(written, ast.Call)
    assert ast.unparse(written.func) == "project.query"
    assert [ast.literal_eval(part) for part in written.args] == ["handbook", body["query"]]
    assert {part.arg: ast.literal_eval(part.value) for part in written.keywords} == settings
    (kb,) = yaml.safe_load(declared)["knowledge_bases"]
    assert kb == {"id": "handbook", "retrieval": settings}


def test_documents_are_dropped_seen_and_deleted(
    shop: Process, shop_folder: Path, browser: Any, tmp_path: Path
) -> None:
    added = tmp_path / "note.md"
    added.write_text("# Keys\n\nKeys are at the reception.\n")
    with watched(browser, shop.url) as page:
        page.goto(f"{shop.url}/playground#/kb/pages/documents")
        page.get_by_role("button", name="Ingest").click()
        page.get_by_text("completed").first.wait_for()
        page.get_by_role("button", name="Add documents").click()
        page.get_by_label("Files").set_input_files(added)
        page.get_by_role("link", name="added:note.md").wait_for()
        page.get_by_role("combobox", name="State").select_option("failed")
        page.get_by_role("table").get_by_text("a broken PDF").wait_for()
        retry = page.get_by_role("button", name="Try again: pages/broken.pdf")
        page.reload()  # to see no other run
        retry.click()
        run = page.get_by_role("region", name="Run")
        run.get_by_text("a broken PDF").wait_for()
        (shop_folder / "pages" / "broken.pdf").write_bytes(pdf_bytes(["Mended."]))
        retry.click()
        page.get_by_text("No document matches.").wait_for()
        run.get_by_text("completed", exact=True).wait_for()
        page.get_by_role("combobox", name="State").select_option("")
        page.get_by_label("Format").fill("pdf")
        page.get_by_label("Name or title").fill("BROK")
        page.get_by_role("button", name="Add a filter").click()
        page.get_by_label("Field").fill("kind")
        page.get_by_label("Value").fill("page")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="pages/one.md").wait_for(state="detached")
        page.get_by_role("link", name="pages/broken.pdf").wait_for()
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        page.get_by_text("pdf · ").wait_for()
        assert page.get_by_role("row").count() == 2
        page.get_by_label("Value").fill("other")
        page.keyboard.press("Enter")
        page.get_by_text("No document matches.").wait_for()
        page.get_by_role("button", name="Remove").click()
        for label in ("Format", "Name or title"):
            page.get_by_label(label).fill("")
        page.get_by_role("combobox", name="State").select_option("skipped")
        skipped = page.get_by_role("row").filter(has_text="pages/notes.xyz")
        assert "as_text" in skipped.inner_text()
        assert page.get_by_label("Format").is_disabled()
        assert page.get_by_role("button", name="Add a filter").is_disabled()
        page.get_by_role("combobox", name="State").select_option("")
        page.get_by_role("button", name="Exclude from searches: added:note.md").click()
        page.get_by_role("row", name="added:note.md").get_by_text("excluded").wait_for()
        assert not finds(shop, "pages", "Where are the keys?", "added:note.md")
        page.get_by_role("button", name="Include again: added:note.md").click()
        page.get_by_role("button", name="Exclude from searches: added:note.md").wait_for()
        assert finds(shop, "pages", "Where are the keys?", "added:note.md")
        page.get_by_role("button", name="Delete: added:note.md").click()
        page.get_by_role("link", name="added:note.md").wait_for(state="detached")
        with page.expect_download() as download:
            page.get_by_role("button", name="Pack to a file").click()
        assert download.value.suggested_filename == "pages.lorebind"
        assert zipfile.is_zipfile(download.value.path())
        page.get_by_role("link", name="pages/one.md").click()
        page.get_by_text("Line 7 of page one.").first.wait_for()


def test_the_page_of_a_passage_is_shown(shop: Process, shop_folder: Path, browser: Any) -> None:
    """Only as long as the file is the one that was ingested."""
    pytest.importorskip("PIL", reason="needs the extra ocr")
    where = f"{shop.url}/api/v0/knowledge-bases/pages"
    file = shop_folder / "pages" / "plan.pdf"
    before = file.read_bytes()
    httpx.post(f"{where}/ingest", headers={"Prefer": "wait=60"}, timeout=90)
    with watched(browser, shop.url, refused=409) as page:
        page.goto(f"{shop.url}/playground#/kb/pages/source/pages/plan.pdf")
        page.get_by_role("button", name="Page as a picture").click()
        picture = page.get_by_role("img", name="Page 1 of plan")
        picture.wait_for()
        page.get_by_text("The words of this passage are marked.").nth(1).wait_for()
        mark, sheet = (
            page.locator(part).first.bounding_box() for part in ("figure rect", "figure .sheet")
        )
        assert sheet["x"] < mark["x"] < mark["x"] + mark["width"] < sheet["x"] + sheet["width"] / 2
        assert (
            sheet["y"] < mark["y"] < mark["y"] + mark["height"] < sheet["y"] + sheet["height"] / 8
        )
        press(page, "Enlarge")
        enlarged = page.get_by_role("dialog").get_by_role("img", name="Page 1 of plan")
        enlarged.wait_for()
        assert enlarged.bounding_box()["width"] > 2 * sheet["width"]
        page.keyboard.press("Escape")
        enlarged.wait_for(state="detached")
        assert picture.evaluate("async (image) => (await image.decode(), image.naturalWidth)") > 999
        assert picture.evaluate("(image) => image.src").startswith("blob:")
        file.write_bytes(pdf_bytes(["Changed."]))
        page.get_by_role("button", name="Page as a picture").click()
        page.get_by_role("alert").get_by_text("since it was ingested; ingest again").wait_for()
        assert not picture.is_visible()
    file.write_bytes(before)


def test_a_mass_deletion_is_asked_for_and_a_rollback_undoes_a_rebuild(
    tmp_path: Path, browser: Any
) -> None:
    pages = {"id": "pages", "sources": [{"type": "file_glob", "path": "*.md"}]}
    folder = write_project(tmp_path, {**PROJECT, "knowledge_bases": [pages]})
    for number in range(12):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nText {number}.\n")
    with (
        serving(folder, "--port", "0") as server,
        httpx.Client(base_url=f"{server.url}/api/v0/knowledge-bases/pages", timeout=60) as api,
        watched(browser, server.url) as page,
    ):
        for action in ("ingest", "reindex"):
            api.post(f"/{action}", headers={"Prefer": "wait=20"}).raise_for_status()
        page.goto(f"{server.url}/playground#/kb/pages/ingest")
        page.get_by_role("button", name="Go back to the index before").click()
        page.get_by_text("The index before the last rebuild is in use again.").wait_for()
        for number in range(10):
            (folder / f"{number}.md").unlink()
        page.get_by_role("button", name="Ingest").click()
        page.get_by_role("button", name="Remove these documents").click()
        page.get_by_text("2 documents, 2 passages").wait_for()


def test_bindings_show_where_a_setting_comes_from(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        page.get_by_role("link", name="Bindings").click()
        row = page.get_by_role("row").filter(has_text="top_k")
        assert re.search(r"4\s*project\s*lorebind\.yaml:\d+", row.text_content() or "")


def test_a_workflow_asks_a_person(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        page.get_by_role("link", name="Workflows").click()
        page.get_by_role("link", name="approval").click()
        page.get_by_label("subject").fill("the kettle")
        page.get_by_role("button", name="Run").click()
        page.get_by_text("Send it? We look into the kettle.").first.wait_for()
        assert page.locator(".graph .waiting").count() == 1
        page.get_by_label("send").check()
        page.get_by_role("button", name="Send the answer").click()
        page.locator("pre", has_text='"send": true').wait_for()


def test_by_keyboard_alone(shop: Process, browser: Any) -> None:
    """Tab and Enter reach everything: ingest, ask, cite, why, documents, a workflow's question."""
    with watched(browser, shop.url, refused=404) as page:
        page.get_by_role("link", name="handbook", exact=True).wait_for()
        press(page, "handbook")
        page.get_by_role("textbox", name="Question").wait_for()
        press(page, "Ingest")
        page.locator("main").get_by_text("completed").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("/")
        page.keyboard.type(QUESTION)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Open passage [1], inline:returns").wait_for()
        press(page, "Open passage [1], inline:returns")
        assert page.evaluate("document.activeElement.classList.contains('shown')")
        press(page, "Why not?")
        tab_to(page, "Document that you expected")
        page.keyboard.type("inline:nothing")
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("has no document").wait_for()
        press(page, "Compare two settings", "Space")
        press(page, "Documents")
        press(page, "Exclude from searches: inline:returns")
        page.get_by_role("row", name="inline:returns").get_by_text("excluded").wait_for()
        press(page, "Include again: inline:returns")
        page.get_by_role("button", name="Exclude from searches: inline:returns").wait_for()
        press(page, "Runs and plan")
        press(page, "Plan")
        page.get_by_text("What an ingest would do").wait_for()
        press(page, "Bindings")
        page.get_by_role("row").filter(has_text="top_k").wait_for()
        press(page, "Workflows")
        page.get_by_role("link", name="approval").wait_for()
        press(page, "approval")
        page.get_by_label("subject").wait_for()
        tab_to(page, "subject")
        page.keyboard.type("the toaster")
        press(page, "Run")
        page.get_by_text("Send it? We look into the toaster.").first.wait_for()
        press(page, "send", "Space")
        press(page, "Send the answer")
        page.locator("pre", has_text='"send": true').wait_for()


def finds(shop: Process, kb: str, question: str, uri: str) -> bool:
    """Whether a search finds a document."""
    answer = httpx.post(
        f"{shop.url}/api/v0/knowledge-bases/{kb}/query",
        json={"query": question, "top_k": 9},
        timeout=60,
    )
    return any(match["metadata"]["uri"] == uri for match in answer.json()["matches"])


def press(page: Any, name: str, key: str = "Enter") -> None:
    tab_to(page, name)
    page.keyboard.press(key)


def tab_to(page: Any, name: str) -> None:
    """Press Tab until the control with a name has the focus; from the end, it begins again."""
    has_name = """(name) => {
      const { ariaLabel, labels, textContent } = document.activeElement;
      return ariaLabel?.startsWith(name) || [labels?.[0]?.textContent, textContent].includes(name);
    }"""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate(has_name, name):
            return
    raise AssertionError(f"Tab does not reach {name!r}")
