// Plan an ingest, see all runs and the workers, and go back to the index before.

import { call, get, patient, withQuery } from "../api.js";
import { alertOf, button, count, duration, el, moment, note, paged, show, table } from "../dom.js";
import { report, tag } from "../runs.js";
import { words } from "../words.js";

export async function ingests(context, kb, ingest) {
  const { signal, may } = context;
  const path = `knowledge-bases/${encodeURIComponent(kb.id)}`;
  const planned = el("div", { "aria-live": "polite" });
  const runs = paged((cursor) => get(withQuery(`${path}/runs`, { limit: 20, brief: true, cursor }), signal), (items) => listing(items, path, signal), () => note(words.ingest.noRuns), signal);
  ingest.after = runs.again;
  const act = (text, work) => button(text, async (event) => {
    event.target.disabled = true;
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) show(planned, alertOf(error.message));
    } finally {
      event.target.disabled = false;
    }
  });
  const plan = act(words.ingest.plan, async () => {
    show(planned, note(words.ingest.planning));
    const data = await patient("POST", `${path}/plan`, {}, signal);
    show(planned, el("section", { class: "card stack tight", "aria-label": words.ingest.plan }, el("h2", {}, words.ingest.planned), report(data),
      el("p", {}, words.ingest.costs(count(data.texts_to_embed), count(data.tokens_to_embed), data.exact, data.cost))));
  });
  const back = act(words.ingest.rollback, async () => {
    await call("POST", `${path}/rollback`, {}, { signal });
    show(planned, note(words.ingest.rolledBack));
  });
  const writes = may("write") && !kb.filled_by_others;
  await runs.load();
  return el("div", { class: "stack loose" },
    el("div", { class: "stack" }, note(words.ingest.about),
      writes ? el("div", { class: "row" }, plan, button(words.ingest.failed, () => ingest.start({ only_failed: true })), back) : note(words.rights("write")),
      planned),
    may("admin") && (await workers(signal)),
    el("section", { class: "stack tight", "aria-label": words.ingest.history }, el("h2", {}, words.ingest.history), runs.element));
}

const listing = (runs, path, signal) => table(words.ingest.heads, runs.map((run) => [
  moment(run.requested_at),
  [run.request.action ?? run.request.strategy, run.origin === "elsewhere" && el("div", { class: "small quiet" }, words.ingest.elsewhere)],
  tag(run.status),
  result(run, path, signal),
]));

/** What a run came to; the names of its documents are read when a person asks. */
function result(run, path, signal) {
  if (!run.report) return run.error?.detail ?? run.waits_for ?? progress(run.progress);
  const out = el("div", {}, report(run.report));
  const more = button(words.ingest.details, async () => {
    try {
      const whole = await get(`${path}/runs/${encodeURIComponent(run.run_id)}`, signal);
      show(out, report(whole.report));
    } catch (error) {
      if (!signal.aborted) show(out, alertOf(error.message));
    }
  }, { class: "bare flush" });
  out.append(more);
  return out;
}

const progress = (data) => (data ? words.ingest.progress(count(data.documents_read), count(data.documents), count(data.chunks_embedded), count(data.chunks)) : "");

/** The live workers, where there are some. */
async function workers(signal) {
  const { items } = await get("workers", signal).catch(() => ({ items: [] }));
  return items.length > 0 && el("section", { class: "stack tight", "aria-label": words.workers.title }, el("h2", {}, words.workers.title),
    table(words.workers.heads, items.map((item) => [item.id.slice(0, 12), item.embedder || words.workers[item.works_on], item.slots ?? "–", item.busy, words.workers.silent(duration(item.silent))]), [2, 3]));
}
