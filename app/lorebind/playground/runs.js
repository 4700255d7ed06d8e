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
  let progress = { documents: 0, documents_read: 0, chunks: 0, chunks_embedded: 0 };
  let start; // the progress when this page came to the run, by which its rate is measured
  const draw = () => show(bars,
    stage(words.ingest.read, "documents_read", progress.documents, words.ingest.documents, true),
    // How many passages there are is known when all documents have been read.
    stage(words.ingest.embed, "chunks_embedded", progress.chunks, words.ingest.chunks, progress.documents_read === progress.documents));
  const stage = (name, key, all, unit, isAll) => {
    const done = progress[key];
    const rate = start ? (done - start[key]) / Math.max((Date.now() - start.at) / 1000, 0.1) : 0;
    const parts = [`${count(done)} / ${count(all)} ${unit}`, rate && words.ingest.rate(rate < 10 ? rate.toFixed(1) : count(Math.round(rate))), rate && isAll && all > done && words.ingest.left(duration((all - done) / rate))];
    return bar(name, done, all, parts.filter(Boolean).join(" · "));
  };
  /** Events that are sent again after a reload tell of earlier progress. */
  const advance = (news) => {
    for (const key of Object.keys(progress)) progress[key] = Math.max(progress[key], news[key] ?? 0);
  };
  const update = async () => {
    const run = await get(path, signal);
    if (run.progress) {
      advance(run.progress);
      start ??= { ...progress, at: Date.now() };
    }
    if (!run.finished_at) draw();
    return run;
  };
  async function follow() {
    draw();
    await update().catch(() => {}); // the events say whether the server is gone
    const timer = setInterval(() => update().catch(() => {}), 1000);
    try {
      for await (const event of followed(`${path}/events`, signal, (broken) => broken && show(status, el("span", { class: "tag bad" }, words.gone.title)))) {
        if (event.event === "ingest_progressed") advance(event.data);
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

const bar = (name, done, all, text) =>
  el("div", { class: "stack tight" },
    el("div", { class: "row between small" }, el("span", {}, name), el("span", { class: "quiet" }, text)),
    el("div", { class: "track", role: "progressbar", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": all, "aria-valuenow": done }, el("i", { "width%": all ? (100 * done) / all : 0 })));

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
