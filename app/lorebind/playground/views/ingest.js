// Plan an ingest, see all runs, and go back to the index before.

import { call, patient } from "../api.js";
import { alertOf, button, count, el, moment, note, show } from "../dom.js";
import { report, stateOf } from "../runs.js";
import { words } from "../words.js";
import { listed } from "../searches.js";

export async function ingests(context, kb, ingest) {
  const { signal, may } = context;
  const path = `knowledge-bases/${encodeURIComponent(kb.id)}`;
  const planned = el("div", { "aria-live": "polite" });
  const runs = await listed(`${path}/runs`, {}, 100, signal);
  const plan = button(words.ingest.plan, async () => {
    show(planned, note(words.ingest.planning));
    plan.disabled = true;
    try {
      const data = await patient("POST", `${path}/plan`, {}, signal);
      show(planned, el("section", { class: "card stack tight", "aria-label": words.ingest.plan }, el("h2", {}, words.ingest.planned), report(data),
        el("p", {}, words.ingest.costs(count(data.texts_to_embed), count(data.tokens_to_embed), data.exact, data.cost))));
    } catch (error) {
      if (!signal.aborted) show(planned, alertOf(error.message));
    } finally {
      plan.disabled = false;
    }
  });
  const writes = may("write") && !kb.filled_by_others;
  const back = button(words.ingest.rollback, async () => {
    try {
      await call("POST", `${path}/rollback`, {}, { signal });
      show(planned, note(words.ingest.rolledBack));
    } catch (error) {
      show(planned, alertOf(error.message));
    }
  });
  return el("div", { class: "stack loose" },
    note(words.ingest.about),
    writes ? el("div", { class: "row" }, plan, button(words.ingest.failed, () => ingest.start({ only_failed: true })), back) : note(words.rights("write")),
    planned,
    el("section", { class: "stack tight", "aria-label": words.ingest.history }, el("h2", {}, words.ingest.history),
      runs.length ? table(runs) : note(words.ingest.noRuns)));
}

function table(runs) {
  const heads = words.ingest.heads;
  return el("table", { class: "folds" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, runs.map((run) => el("tr", {},
      el("td", { "data-label": heads[0] }, moment(run.requested_at ?? run.started_at)),
      el("td", { "data-label": heads[1] }, run.request?.action ?? run.strategy ?? ""),
      el("td", { "data-label": heads[2] }, el("span", { class: `tag ${stateOf(run.status)}` }, run.status)),
      el("td", { "data-label": heads[3] }, run.report ? report(run.report) : run.error?.detail ?? progress(run.progress))))));
}

const progress = (data) => (data ? words.ingest.progress(count(data.documents_read), count(data.documents), count(data.chunks_embedded), count(data.chunks)) : "");
