// Why a document was not found: its rank and score at each stage of a search.

import { call, get, withQuery } from "./api.js";
import { alertOf, decimals, el, field, note, show } from "./dom.js";
import { clean } from "./searches.js";
import { words } from "./words.js";

let lists = 0;

/** A form that asks for a document, and shows at which stage it was lost. */
export function whyNot(question, values, kb, { signal }) {
  if (!kb) return null;
  const path = `knowledge-bases/${encodeURIComponent(kb)}`;
  const id = `documents-${++lists}`;
  const options = el("datalist", { id });
  const input = el("input", { list: id, autocomplete: "off", focus: offer, input: offer });
  const out = el("div", { class: "stack tight", "aria-live": "polite" });
  async function offer() {
    const q = input.value.trim();
    const page = await get(withQuery(`${path}/documents`, { q, limit: 20 }), signal).catch(() => ({ items: [] }));
    if (q === input.value.trim()) show(options, page.items.map((item) => el("option", { value: item.uri })));
  }
  const form = el("form", { class: "row end", submit: async (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    const { strategy, top_k, min_score, filters } = values;
    try {
      const why = await call("POST", `${path}/why`, clean({ query: question, document: input.value.trim(), strategy, top_k, min_score, filters }), { signal });
      show(out, note(why.explanation), stages(why));
    } catch (error) {
      show(out, alertOf(error.message));
    }
  } }, field(words.why.document, input), el("button", {}, words.why.ask));
  return el("details", {}, el("summary", {}, words.why.title), el("div", { class: "stack tight" }, form, options, out));
}

function stages(why) {
  const heads = [words.why.stage, words.why.rank, words.why.score, words.why.kept];
  return el("div", { class: "scroll", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: index === 1 || index === 2 ? "number" : null }, head)))),
    el("tbody", {}, why.stages.map((stage) => el("tr", {},
      el("th", { scope: "row" }, stage.stage, stage.stage === why.lost_at && [" ", el("span", { class: "tag bad" }, words.why.lost)]),
      el("td", { class: "number" }, stage.rank ? words.why.of(stage.rank, stage.of) : "–"),
      el("td", { class: "number" }, decimals(stage.score, 3)),
      el("td", {}, stage.note || (stage.passes ? words.why.yes : words.why.no)))))));
}

