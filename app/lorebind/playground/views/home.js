// All knowledge bases at a glance.

import { to } from "../address.js";
import { get } from "../api.js";
import { age, el, link, note, several, show } from "../dom.js";
import { words } from "../words.js";
import { listed } from "../searches.js";

export async function view({ signal }) {
  const items = await listed("knowledge-bases", {}, 500, signal);
  const cards = items.map((kb) => {
    const state = el("p", { class: "small quiet" }, words.loading);
    get(`knowledge-bases/${encodeURIComponent(kb.id)}/stats`, signal).then((stats) => show(state, summary(stats)), (error) => show(state, error.message));
    return el("li", { class: "card stack tight" },
      el("h2", {}, link(kb.id, to(["kb", kb.id]))),
      kb.description && el("p", {}, kb.description), state);
  });
  return el("div", {},
    el("div", { class: "head" }, el("h1", {}, words.home.title), note(words.home.about)),
    items.length ? el("ul", { class: "grid" }, cards) : el("div", { class: "empty" }, el("h2", {}, words.home.none), note(words.home.noneText)));
}

/** What is in a knowledge base, in one line. */
export function summary(stats) {
  const { ready, pending, failed } = stats.documents;
  if (!stats.last_run && !ready) return words.home.empty;
  return [
    `${several(ready, "document")}, ${several(stats.chunks, "passage")}`,
    pending ? `, ${pending} waiting` : "",
    failed ? [", ", el("span", { class: "bad" }, `${failed} failed`)] : "",
    stats.last_run ? ` · ${words.home.lastRun(age(stats.last_run.started_at))}` : "",
  ];
}
