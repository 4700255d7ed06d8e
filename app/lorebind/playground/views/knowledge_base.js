// A knowledge base: its state, an ingest at any time, and its tabs.

import { to } from "../address.js";
import { call, get } from "../api.js";
import { alertOf, button, el, link, note, show } from "../dom.js";
import { runPanel } from "../runs.js";
import { words } from "../words.js";
import { asking } from "./ask.js";
import { summary } from "./home.js";

const TABS = {
  ask: (context, kb) => asking(context, kb.id),
  documents: async (context, kb, ingest) => (await import("./documents.js")).documents(context, kb, ingest),
  ingest: async (context, kb, ingests) => (await import("./ingest.js")).ingests(context, kb, ingests),
  source: async (context, kb) => (await import("./source.js")).source(context, kb),
};

export async function view(context) {
  const { parts, signal, may } = context;
  const [, id, tab = "ask"] = parts;
  const path = `knowledge-bases/${encodeURIComponent(id)}`;
  const [kb, stats] = await Promise.all([get(path, signal), get(`${path}/stats`, signal)]);
  const state = el("p", { class: "quiet" }, summary(stats));
  const panel = el("div", { class: "stack tight" });
  const writes = may("write") && !kb.filled_by_others;
  const empty = !stats.documents.ready && !stats.documents.failed && tab === "ask";
  const hint = empty && note(writes ? words.kb.empty : kb.filled_by_others ? words.kb.others : words.kb.emptyForReaders);
  const ingest = ingestButton(path, { panel, state, hint, signal });
  const tabs = ["ask", "documents", "ingest"].map((name) =>
    el("li", {}, link(words.tabs[name], to(["kb", id, ...(name === "ask" ? [] : [name])]), { "aria-current": tab === name ? "page" : tab === "source" && name === "documents" ? "true" : null })));
  const about = el("header", { class: "head" },
    el("p", { class: "crumbs" }, link(words.home.title, to([]))),
    el("div", { class: "row between" }, el("h1", {}, id), writes && ingest.control),
    kb.description && el("p", {}, kb.description), state, panel);
  if (writes) ingest.resume();
  return el("div", {}, about, el("nav", { class: "tabs", "aria-label": words.tabs.label }, el("ul", {}, tabs)),
    hint, await (TABS[tab] ?? TABS.ask)(context, kb, ingest));
}

/** The button that ingests, and the panel that shows the run. */
function ingestButton(path, { panel, state, hint, signal }) {
  const control = button(words.ingest.go, () => start());
  const self = { control, start, resume, run: async (url) => follow(await call("POST", url, {}, { signal })), after: () => {} };
  async function start(options = {}) {
    control.disabled = true;
    try {
      await follow(await call("POST", `${path}/ingest`, options, { signal }));
    } catch (error) {
      if (signal.aborted) return;
      if (error.code === "ingest_running" && (await resume())) return;
      refused(error, options);
    }
  }
  function refused(error, options) {
    control.disabled = false;
    show(panel, alertOf(el("p", {}, error.message), error.code === "mass_delete_refused" && button(words.ingest.allow, () => start({ ...options, allow_mass_delete: true }), { class: "danger" })));
  }
  async function follow(run) {
    control.disabled = true;
    const progress = runPanel(`${path}/runs/${encodeURIComponent(run.run_id)}`, signal);
    show(panel, progress.element);
    try {
      const end = await progress.ended;
      if (end.error) {
        const { only_failed, strategy } = end.request;
        refused({ ...end.error, message: end.error.detail }, { only_failed, strategy });
      }
      const stats = await get(`${path}/stats`, signal);
      show(state, summary(stats));
      if (hint && stats.documents.ready) hint.remove();
      await self.after();
    } finally {
      control.disabled = false;
    }
  }
  /** Follow a run that goes on already, such as after a reload. Returns whether there is one. */
  async function resume() {
    const { items } = await get(`${path}/runs?limit=1&brief=true`, signal).catch(() => ({ items: [] }));
    if (!items.length || !["running", "waiting"].includes(items[0].status)) return false;
    await follow(items[0]).catch((error) => signal.aborted || refused(error));
    return true;
  }
  return self;
}
