"""The page stays itself with hostile documents, and lets in only those who may come in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind.server.state.tables import TABLES
from lorebind.server.state.tokens import Tokens
from lorebind_knowledge.database.databases import EmbeddedDatabase
from tests.app.server.conftest import PROJECT, Process, serving, write_project

from .conftest import QUESTION, watched

pytestmark = pytest.mark.enable_socket  # loopback: a browser has no Unix sockets

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "[1] [99] [x](javascript:alert(1))",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202etxt.exe\u0007",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Process]:
    """Serve documents, names, descriptions and metadata that try to run code."""
    kb = {
        "id": "tours",
        "description": ATTACKS[1],
        "sources": [{"type": "file_glob", "path": "files/*"}],
        "metadata": {"url": "javascript:alert(1)", "attack": ATTACKS[0]},
    }
    folder = write_project(
        tmp_path_factory.mktemp("hostile"), {**PROJECT, "knowledge_bases": [kb], "name": "tours"}
    )
    (folder / "files").mkdir()
    for attack in ATTACKS[:5]:
        name = f"javascript:{attack.replace('/', '')}.md"
        text = f"# {attack}\n\nA tour {attack} starts at nine.\n"
        (folder / "files" / name).write_text(text)
    with serving(folder, "--port", "0") as server:
        with httpx.Client(base_url=f"{server.url}/api/v0", timeout=60) as api:
            api.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"})
        yield server


def test_no_text_becomes_code(hostile: Process, browser: Any) -> None:
    """Each view shows the hostile texts as they are; the console stays empty."""
    with watched(browser, hostile.url) as page:
        page.get_by_text(ATTACKS[1], exact=True).wait_for()
        for where in ("", "/documents", "/ingest"):
            page.goto(f"{hostile.url}/playground#/kb/tours{where}")
            page.get_by_role("heading", name="tours").wait_for()
        page.goto(f"{hostile.url}/playground#/kb/tours")
        page.get_by_role("textbox", name="Question").fill(f"When does a tour start? {ATTACKS[0]}")
        page.keyboard.press("Enter")
        page.locator(".passage", has_text=ATTACKS[1]).first.wait_for()
        page.locator("a", has_text="javascript:").first.click()
        page.locator(".line", has_text="starts at nine").first.wait_for()
        assert page.locator("main script, main img, main [onload], main [onerror]").count() == 0


def test_no_address_becomes_code(hostile: Process, browser: Any) -> None:
    with watched(browser, hostile.url, refused=404) as page:
        for attack in ATTACKS:
            page.goto(f"{hostile.url}/playground#/kb/{attack}/source/{attack}?chunk={attack}")
            page.goto(f"{hostile.url}/playground#/{attack}")
            page.get_by_text("There is no such page").wait_for()
        assert page.locator("main script, main img, main [onload], main [onerror]").count() == 0


def test_the_files_need_no_token_but_a_known_host(hostile: Process) -> None:
    page = httpx.get(f"{hostile.url}/playground")
    assert page.headers["content-security-policy"] == (
        "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    assert httpx.get(f"{hostile.url}/", follow_redirects=True).text == page.text
    foreign = httpx.get(f"{hostile.url}/playground/main.js", headers={"Host": "evil.example"})
    assert foreign.status_code == 403, foreign.text
    assert httpx.get(f"{hostile.url}/playground/..%2fplugin.py").status_code == 404


def test_all_files_are_small() -> None:
    import lorebind

    files = Path(lorebind.__file__).with_name("playground").rglob("*.*")
    assert 50_000 < sum(path.stat().st_size for path in files) < 200 * 1024


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Any]:
    """Serve the shop with a token for each right, and one for two tenants."""
    folder = write_project(tmp_path_factory.mktemp("guarded"))
    (folder / ".lorebind").mkdir()
    database = EmbeddedDatabase(folder / ".lorebind" / "server.db", TABLES)
    tokens = Tokens(database)
    texts = {rights: tokens.create(rights, rights)[1] for rights in ("read", "write", "admin")}
    texts["both"] = tokens.create("both", "write", ("acme", "globex"))[1]
    database.close()
    with serving(folder, "--port", "0") as server:
        yield server, texts


@pytest.mark.parametrize("rights", ["read", "write", "admin"])
def test_rights_decide_what_is_shown(guarded: Any, browser: Any, rights: str) -> None:
    server, texts = guarded
    with signing_in(browser, server.url) as page:
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("The server does not know this token.").wait_for()
        page.get_by_label("Token").fill(texts[rights])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="handbook", exact=True).click()
        page.get_by_role("textbox", name="Question").wait_for()
        writes = rights != "read"
        assert page.get_by_role("button", name="Ingest").count() == writes
        if writes:
            page.get_by_role("button", name="Ingest").click()
            page.locator("main").get_by_text("completed").wait_for()
            page.get_by_role("textbox", name="Question").fill(QUESTION)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Open passage [1], inline:returns").click()
        page.get_by_role("link", name="Documents").click()
        page.get_by_label("Name or title").wait_for()
        assert page.get_by_role("button", name="Add documents").count() == writes
        page.get_by_role("link", name="Runs and plan").click()
        page.get_by_role("heading", name="Runs", exact=True).wait_for()
        assert page.get_by_role("button", name="Plan", exact=True).count() == writes
        needs = page.get_by_text("This needs a token with the rights ‘write’.")
        assert needs.count() == (not writes)
        page.get_by_role("link", name="Bindings").click()
        page.get_by_role("heading", name="Bindings").wait_for()
        page.get_by_role("link", name="Health").click()
        page.get_by_role("heading", name="What doctor finds").wait_for()
        needs = page.get_by_text("This needs a token with the rights ‘admin’.")
        assert needs.count() == (rights != "admin")
        page.reload()
        page.get_by_label("Token").fill(texts[rights])
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="What doctor finds").wait_for()


def test_a_token_for_several_tenants_chooses_one(guarded: Any, browser: Any) -> None:
    server, texts = guarded
    with signing_in(browser, server.url) as page:
        page.get_by_label("Token").fill(texts["both"])
        page.keyboard.press("Enter")
        page.get_by_label("Tenant").select_option("globex")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("globex").wait_for()
        page.get_by_role("link", name="handbook", exact=True).wait_for()


def signing_in(browser: Any, url: str) -> Any:
    """Watch a page whose first requests are refused with 401, which Chromium writes down."""
    return watched(browser, url, refused=401)
