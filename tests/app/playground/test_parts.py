"""Functions of the page, called in a browser."""

from __future__ import annotations

import json
import shlex
from typing import Any

import httpx
import pytest

from tests.app.server.conftest import Process

from .conftest import watched

pytestmark = pytest.mark.enable_socket  # loopback: a browser has no Unix sockets

PAGES = """async () => {
  const { paged, el } = await import("./playground/dom.js");
  const reads = [];
  const read = (cursor) =>
    new Promise((resolve, reject) => reads.push({ cursor, resolve, reject }));
  const answer = async (number, items, next) => {
    reads[number].resolve({ items, next });
    await new Promise(setTimeout);
  };
  const { signal } = new AbortController();
  const { element, load } = paged(read, (items) => items.join(), () => "none", signal);
  const [, next] = element.querySelectorAll("button");
  const seen = [];
  const see = () => seen.push(element.innerText ?? element.textContent);
  load(); // and the selection changes before the answer
  load();
  await answer(1, ["newer"], "two");
  await answer(0, ["older"], null);
  see();
  next.click();
  reads[2].reject(new Error("broken"));
  await new Promise(setTimeout);
  see();
  next.click();
  await answer(3, ["second"], null);
  see();
  return { seen, cursors: reads.map(({ cursor }) => cursor ?? null) };
}"""
TEXTS = """async () => {
  const { duration, el, shortened } = await import("./playground/dom.js");
  const { passages, placeOf } = await import("./playground/passages.js");
  const text = "🙂".repeat(6000) + "x".repeat(6000) + "end";
  const match = { id: "1", text, score: 1, scores: {}, metadata: { uri: "a", kb_id: "b" } };
  const result = { matches: [match], searched: ["b"], highlights: { 1: [[12000, 12003]] } };
  const excerpt = passages(result, "", {}).element.querySelector(".text");
  return {
    places: [
      { page: 4, page_end: 5 }, { page: 2, scanned: true }, { locator: "slide 3" },
      { locator: "slide 4", scanned: true },
    ].map(placeOf),
    beginning: el("p", {}, shortened("🙂🙂🙂🙂", 2)).textContent,
    whole: shortened("🙂🙂", 2),
    lengths: [...excerpt.childNodes].slice(0, 3).map((part) => [...part.textContent].length),
    mark: excerpt.querySelector("mark").textContent,
    rest: excerpt.querySelector("button").textContent,
    ago: duration(0.42),
  };
}"""
CALLS = """async (tenant) => {
  const { useTenant, useToken } = await import("./playground/api.js");
  const { callsOf } = await import("./playground/calls.js");
  useTenant(tenant);
  useToken("secret");
  return callsOf("?", { workflow: "w", task: "", agent: "a" }).querySelector("pre").textContent;
}"""

ANSWERS = """async (answers) => {
  window.fetch = async (path) => {
    const answer = answers[path].length > 1 ? answers[path].shift() : answers[path][0];
    if (answer === "broken") throw new TypeError(answer);
    if (answer !== "picture") return new Response(answer);
    const canvas = new OffscreenCanvas(10, 10);
    canvas.getContext("2d").fillRect(0, 0, 5, 5);
    return new Response(await canvas.convertToBlob());
  };
  const { signal } = new AbortController();
"""
RUN = f"""{ANSWERS}
  const {{ runPanel }} = await import("./playground/runs.js");
  const {{ element, ended }} = runPanel("runs/1", signal);
  await ended;
  return element.textContent;
}}"""
PICTURES = f"""{ANSWERS}
  const {{ picture }} = await import("./playground/picture.js");
  const element = picture("docs/a", "a", {{ page: 2, page_end: 8 }}, signal);
  element.querySelector("button").click();
  while (!element.querySelector("figure, [role=alert]")) await new Promise(setTimeout);
  return [...element.querySelectorAll("img, .note")].map((part) => part.alt ?? part.textContent);
}}"""


def test_of_several_loads_only_the_last_is_drawn(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        result = page.evaluate(PAGES)
    first, failed, second = result["seen"]
    assert first.startswith("newer")
    assert "broken" in failed
    assert "Page 1" in failed
    assert second.startswith("second")
    assert "Page 2" in second
    assert result["cursors"] == [None, None, "two", "two"]


def test_places_and_texts(shop: Process, browser: Any) -> None:
    with watched(browser, shop.url) as page:
        result = page.evaluate(TEXTS)
    assert result == {
        "places": ["pages 4–5", "page 2 (scanned)", "slide 3", "slide 4 (scanned)"],
        "beginning": "🙂🙂… Show 2 more characters",
        "whole": "🙂🙂",
        "lengths": [2, 9997, 3],
        "mark": "end",
        "rest": "Show 2,003 more characters",
        "ago": "0.4 s",
    }


def test_a_copied_call_quotes_the_tenant_and_hides_the_token(shop: Process, browser: Any) -> None:
    tenant = "a'b $(id) \"c"
    with watched(browser, shop.url) as page:
        curl = page.evaluate(CALLS, tenant)
    assert '-H "Authorization: Bearer $TOKEN"' in curl
    words = shlex.split(curl.replace("\\\n", " "))
    assert f"X-Tenant-ID: {tenant}" in words


def test_a_run_is_followed_although_a_request_fails(shop: Process, browser: Any) -> None:
    run = {"status": "completed", "requested_at": 1, "finished_at": 3}
    answers = {
        "api/v0/runs/1": ["broken", json.dumps(run)],
        "api/v0/runs/1/events": ["event: end\ndata: {}\n\n"],
    }
    with watched(browser, shop.url) as page:
        assert page.evaluate(RUN, answers).startswith("completed")


def test_a_passage_on_many_pages(shop: Process, browser: Any) -> None:
    """Four pages are drawn, and a note counts the others."""
    answers = {f"api/v0/docs/a/pages/{number}": ["picture"] for number in range(2, 6)}
    answers |= {f"{path}/boxes": ['{"items": []}'] for path in answers}
    with watched(browser, shop.url) as page:
        drawn = page.evaluate(PICTURES, answers)
    assert drawn == [*(f"Page {number} of a" for number in range(2, 6)), "and 3 pages more"]


def test_each_chosen_line_is_opened(shop: Process, browser: Any) -> None:
    """Also while other lines are read; and the gaps are those of the lines on display."""
    paragraphs = [
        f"Paragraph {number} is about tours. {'It rains. ' * 80}" for number in range(200)
    ]
    with (
        httpx.Client(base_url=f"{shop.url}/api/v0/knowledge-bases/pages", timeout=60) as api,
        watched(browser, shop.url) as page,
    ):
        added = api.post("/documents", json={"id": "tours", "text": "\n\n".join(paragraphs)})
        page.goto(f"{shop.url}/playground#/kb/pages/source/added%3Atours")
        page.get_by_text("Lines 1 to 200 of 399").wait_for()
        page.get_by_role("button", name="line 2", exact=True).wait_for()
        held: list[Any] = []
        page.route("**/fetch?*first_line=260&*", lambda route: held.append(route))
        for line in (300, 100):
            page.get_by_label("Line", exact=True).fill(str(line))
            page.get_by_role("button", name="Go to line").click()
        while not held:
            page.wait_for_timeout(20)
        held[0].continue_()
        page.get_by_text("Lines 60 to 259 of 399").wait_for()
        page.get_by_role("button", name="line 62", exact=True).wait_for()
        assert page.get_by_role("button", name="line 2", exact=True).count() == 0
        api.delete(f"/documents/{added.json()['id']}").raise_for_status()


def test_a_view_that_cannot_be_fetched(shop: Process, browser: Any) -> None:
    """It says that the server is away, and goes on when the server answers again."""
    with watched(browser, shop.url, refused=503) as page:
        page.set_default_timeout(20_000)
        page.route("**/views/health.js", lambda route: route.fulfill(status=503))
        page.get_by_role("link", name="Health").click()
        page.get_by_text("The server does not answer").wait_for()
        page.unroute("**/views/health.js")
        page.get_by_role("heading", name="Health").wait_for()
