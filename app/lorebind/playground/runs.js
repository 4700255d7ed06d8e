// A run of an ingest: bars of its stages with rate and time left, then its report.

import { followed, get } from "./api.js";
import { alertOf, count, duration, el, note, several, show } from "./dom.js";
import { words } from "./words.js";

const MOST = 50; // names that a report shows

/** Follow a run; `ended` resolves to it. */
export function runPanel(path, signal) {
  const status = el("p", { role: "status" }, el("span", { class: "tag" }, words.ingest.running));
  const bars = el("div", { class: "progress" });
  const element = el("section", { class: "card stack", "aria-label": words.ingest.run }, status, bars);
  const since = Date.now();
  let progress = { documents: 0, documents_read: 0, chunks: 0, chunks_embedded: 0 };
  const draw = () => show(bars,
    stage(words.ingest.read, progress.documents_read, progress.documents, since, words.ingest.documents),
    stage(words.ingest.embed, progress.chunks_embedded, progress.chunks, since, words.ingest.chunks));
  const update = async () => {
    const run = await get(path, signal);
    if (run.progress) progress = run.progress;
    if (!run.finished_at) draw();
    return run;
  };
  async function follow() {
    draw();
    const timer = setInterval(() => update().catch(() => {}), 1000);
    try {
      for await (const event of followed(`${path}/events`, signal, (broken) => broken && show(status, el("span", { class: "tag bad" }, words.gone.title)))) {
        if (event.event === "ingest_progressed") progress = { ...progress, ...event.data };
        if (event.event === "end") break;
      }
      clearInterval(timer);
      const run = await update();
      show(status, tag(run.status), " ", run.report ? words.ingest.took(duration(run.finished_at - run.requested_at)) : "");
      show(bars, run.report ? report(run.report) : run.error && alertOf(run.error.detail));
      return run;
    } finally {
      clearInterval(timer);
    }
  }
  const ended = follow();
  ended.catch((error) => signal.aborted || show(status, alertOf(error.message)));
  return { element, ended };
}

/** The status of a run or a document, in its colour. */
export const tag = (status) => el("span", { class: `tag ${stateOf(status)}` }, status.replaceAll("_", " "));

export const stateOf = (status) => ({ completed: "good", completed_with_failures: "fair", ready: "good", failed: "bad", interrupted: "fair", partial: "fair", cancelled: "fair", waiting: "fair", pending: "fair" })[status] ?? "";

function stage(name, done, all, since, unit) {
  const seconds = (Date.now() - since) / 1000;
  const left = done && all > done ? words.ingest.left(duration((all - done) * (seconds / done))) : "";
  return el("div", {},
    el("div", { class: "row between small" }, el("span", {}, name), el("span", { class: "quiet" }, `${count(done)} / ${count(all)} ${unit}`, done ? ` · ${words.ingest.rate((done / Math.max(seconds, 0.1)).toFixed(1))}` : "", left && ` · ${left}`)),
    el("div", { class: "track", role: "progressbar", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": all, "aria-valuenow": done }, el("i", { "width%": all ? (100 * done) / all : 0 })));
}

/** The numbers of a report or a plan, and what failed or was skipped. */
export function report(data) {
  const { documents, chunks } = data;
  const parts = ["added", "updated", "removed", "unchanged", "failed"].filter((key) => documents[key]).map((key) => `${count(documents[key])} ${key}`);
  return el("div", { class: "stack tight" },
    el("p", {}, `${words.ingest.documentsOf}: ${parts.join(", ") || words.ingest.none}. ${words.ingest.chunksOf}: ${count(chunks.added)} added, ${count(chunks.removed)} removed, ${count(chunks.total)} in all.`),
    (data.failures ?? []).slice(0, MOST).map((item) => el("p", { class: "small" }, el("b", { class: "bad" }, item.uri), " ", item.reason)),
    data.failures?.length > MOST && note(words.more(count(data.failures.length - MOST))),
    (data.sources ?? []).filter((source) => source.status === "failed").map((source) => el("p", { class: "small" }, el("b", { class: "bad" }, source.source), " ", source.reason)),
    (data.notices ?? []).map((text) => note(text)),
    skippedFiles((data.sources ?? []).flatMap((source) => source.skipped)));
}

const skippedFiles = (files) =>
  files.length > 0 && el("details", {}, el("summary", {}, words.ingest.skipped(several(files.length, "file"))),
    el("ul", { class: "small stack tight" }, files.slice(0, MOST).map((file) => el("li", {}, file.uri, el("span", { class: "quiet" }, ` ${file.reason}`), file.setting && ` (${words.ingest.setting} ${file.setting})`)), files.length > MOST && el("li", {}, words.more(count(files.length - MOST)))));
