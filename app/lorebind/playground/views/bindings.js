// The settings in effect at a place, each with the scope, file and line that set it.

import { remember } from "../address.js";
import { get, withQuery } from "../api.js";
import { alertOf, el, field, note, select, show } from "../dom.js";
import { words } from "../words.js";

export async function view({ parts, query, signal }) {
  const workflows = await get("workflows?limit=100", signal);
  const workflow = select([["", words.bindings.project], ...workflows.items.map((item) => item.id)], query.get("workflow") ?? "");
  const task = el("input", { value: query.get("task") ?? "", list: "tasks", autocomplete: "off" });
  const agent = el("input", { value: query.get("agent") ?? "", autocomplete: "off" });
  const tasks = el("datalist", { id: "tasks" });
  const all = el("input", { type: "checkbox" });
  const out = el("div", { class: "stack loose", "aria-live": "polite" });
  async function load() {
    const declared = workflows.items.find((item) => item.id === workflow.value);
    show(tasks, (declared?.tasks ?? []).map((id) => el("option", { value: id })));
    const place = { workflow: workflow.value, task: task.value.trim(), agent: agent.value.trim() };
    remember(parts, place);
    try {
      const data = await get(withQuery("bindings", place), signal);
      show(out, data.items.length ? data.items.map((row) => binding(row, all.checked)) : el("div", { class: "empty" }, el("h2", {}, words.bindings.none), note(data.unbound_by ? words.bindings.unbound(data.unbound_by) : words.bindings.noneText)));
    } catch (error) {
      if (!signal.aborted) show(out, alertOf(error.message));
    }
  }
  await load();
  return el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", {}, words.bindings.title), note(words.bindings.about)),
    el("form", { class: "stack", change: load, submit: (event) => (event.preventDefault(), load()) },
      el("div", { class: "fields" }, field(words.bindings.workflow, workflow), field(words.bindings.task, task), field(words.bindings.agent, agent)), tasks,
      el("label", { class: "check" }, all, words.bindings.all)),
    out);
}

function binding(row, all) {
  const settings = Object.entries(row.settings).filter(([name]) => all || row.provenance[name]?.scope !== "default");
  const heads = words.bindings.heads;
  return el("section", { class: "stack tight", "aria-label": row.id }, el("h2", {}, row.id),
    settings.length ? el("table", { class: "folds" },
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, settings.map(([name, value]) => {
        const from = row.provenance[name];
        return el("tr", {}, el("td", { "data-label": heads[0] }, el("code", {}, name)), el("td", { "data-label": heads[1] }, el("code", {}, JSON.stringify(value))),
          el("td", { "data-label": heads[2] }, from.scope), el("td", { "data-label": heads[3] }, from.file ? `${from.file}:${from.line}` : "–"), el("td", { "data-label": heads[4] }, from.overrode.join(", ") || "–"));
      }))) : note(words.bindings.defaults));
}
