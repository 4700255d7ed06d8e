// The state of the server: knowledge bases at a glance, and what doctor finds.

import { to } from "../address.js";
import { get, patient } from "../api.js";
import { age, alertOf, button, count, el, link, note, show, table } from "../dom.js";
import { tag } from "../runs.js";
import { words } from "../words.js";
import { listed } from "../searches.js";

export async function view({ signal, may, caller }) {
  const items = await listed("knowledge-bases", {}, 200, signal);
  const heads = words.health.heads;
  const rows = items.map((kb) => {
    const cells = heads.slice(1).map(() => el("span", {}, "…"));
    get(`knowledge-bases/${encodeURIComponent(kb.id)}/stats`, signal).then((stats) => {
      const { ready, pending, failed } = stats.documents;
      const values = [count(ready), count(pending + failed), count(stats.chunks), stats.embedder, lastRun(stats.last_run), stats.last_good_run ? age(stats.last_good_run.ended_at) : words.health.never];
      cells.forEach((cell, index) => show(cell, values[index]));
    }, (error) => show(cells[4], el("span", { class: "bad" }, error.message)));
    return [link(kb.id, to(["kb", kb.id])), ...cells];
  });
  const output = el("div", { class: "stack tight", "aria-live": "polite" });
  const examine = button(words.health.examine, async () => {
    examine.disabled = true;
    show(output, note(words.loading));
    try {
      show(output, findings(await patient("GET", "doctor", undefined, signal)));
    } catch (error) {
      if (!signal.aborted) show(output, alertOf(error.message));
    } finally {
      examine.disabled = false;
    }
  });
  return el("div", { class: "stack loose" },
    el("div", { class: "head" }, el("h1", {}, words.health.title), note(words.health.version(caller.version))),
    el("section", { class: "stack tight" }, el("h2", {}, words.health.knowledge),
      table(heads, rows, [1, 2, 3])),
    el("section", { class: "stack tight" }, el("h2", {}, words.health.doctor), may("admin") ? [note(words.health.about), el("div", {}, examine)] : note(words.rights("admin")), output));
}

const lastRun = (run) => (run ? [tag(run.status), " ", age(run.started_at)] : words.health.never);

const STATES = { ok: "good", warning: "fair", failed: "bad" };

const findings = ({ findings: list }) =>
  el("ul", { class: "stack tight" }, list.map((item) => el("li", {}, el("span", { class: `tag ${STATES[item.status]}` }, item.status), " ", el("b", {}, item.part), ` ${item.detail}`)));
