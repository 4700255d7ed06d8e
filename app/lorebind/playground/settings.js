// The settings of a search: strategy, number, minimum score, place and filters.

import { get } from "./api.js";
import { button, el, field, select, show } from "./dom.js";
import { words } from "./words.js";

const STRATEGIES = ["", "hybrid", "similarity", "mmr", "lexical", "rerank"];
const OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$newer_than", "$older_than"];

/** Return fields for settings, with their values; names in the address begin with `prefix`. */
export async function settingsOf(context, kb, query, prefix) {
  const old = (name) => query.get(prefix + name) ?? "";
  const controls = {
    strategy: select(STRATEGIES.map((name) => [name, name || words.settings.declared]), old("strategy")),
    top_k: el("input", { type: "number", min: 1, max: 50, value: old("top_k"), placeholder: words.settings.declared }),
    min_score: el("input", { type: "number", min: 0, max: 1, step: "0.01", value: old("min_score"), placeholder: words.settings.declared }),
  };
  const fields = Object.entries(controls).map(([name, control]) => field(words.settings[name], control, words.settings[`${name}Hint`]));
  const place = kb ? {} : await places(context, old);
  if (!kb) fields.push(...place.fields);
  const filters = filterRows(() => metadataFields(kb, context.signal), old("filters"));
  const set = () => Object.fromEntries(Object.entries({ ...controls, ...place.controls }).map(([name, control]) => [name, control.value]));
  return {
    element: el("div", { class: "stack" }, el("div", { class: "fields" }, fields), filters.element),
    isChanged: () => Object.values(set()).some(Boolean) || Boolean(filters.text()),
    inAddress: () => Object.fromEntries(Object.entries({ ...set(), filters: filters.text() }).map(([name, value]) => [prefix + name, value])),
    values: () => {
      const { top_k, min_score, knowledge_bases, ...others } = set();
      return {
        ...others,
        top_k: top_k ? Number(top_k) : undefined,
        min_score: min_score ? Number(min_score) : undefined,
        knowledge_bases: kb ? undefined : knowledge_bases ? [knowledge_bases] : [],
        filters: filters.value(),
      };
    },
  };
}

async function places({ signal }, old) {
  const [list, workflows] = await Promise.all([get("knowledge-bases?limit=100", signal), get("workflows?limit=100", signal)]);
  const all = [["", words.settings.all], ...list.items.map((kb) => kb.id)];
  const controls = {
    knowledge_bases: select(all, old("knowledge_bases")),
    workflow: select([["", words.settings.none], ...workflows.items.map((workflow) => workflow.id)], old("workflow")),
    task: el("input", { value: old("task") }),
    agent: el("input", { value: old("agent") }),
  };
  const fields = Object.entries(controls).map(([name, control]) => field(words.settings[name], control, words.settings[`${name}Hint`]));
  return { controls, fields };
}

/** Return the fields of the metadata of one knowledge base. */
export async function metadataFields(kb, signal) {
  if (!kb) return [];
  const { items } = await get(`knowledge-bases/${encodeURIComponent(kb)}/fields`, signal);
  return items;
}

let lists = 0;

/** Rows of conditions; the fields are loaded with the first row that a person adds. */
export function filterRows(load, text) {
  let fields = [];
  const id = `fields-${++lists}`;
  const rows = el("div", { class: "stack tight" });
  const add = (key = "", operator = "$eq", value = "") => {
    const values = fields.find((item) => item.key === key)?.values ?? [];
    const row = el("div", { class: "fields" },
      field(words.settings.key, el("input", { value: key, list: id, class: "key" })),
      field(words.settings.operator, select(OPERATORS.map((name) => [name, words.operators[name]]), operator, { class: "operator" })),
      field(words.settings.value, el("input", { value, class: "value", placeholder: values.slice(0, 3).map((item) => item.value).join(", ") })),
      el("div", { class: "field" }, button(words.settings.remove, () => {
        row.remove();
        element.dispatchEvent(new Event("change", { bubbles: true }));
      }, { class: "bare" })));
    rows.append(row);
  };
  for (const [key, conditions] of Object.entries(parsed(text))) {
    for (const [operator, value] of Object.entries(conditions)) add(key, operator, typeof value === "string" ? value : JSON.stringify(value));
  }
  const value = () => {
    const filters = {};
    for (const row of rows.children) {
      const key = row.querySelector(".key").value.trim();
      if (key) (filters[key] ??= {})[row.querySelector(".operator").value] = typed(row.querySelector(".value").value, row.querySelector(".operator").value);
    }
    return Object.keys(filters).length ? filters : undefined;
  };
  const names = el("datalist", { id });
  const element = el("fieldset", { class: "stack tight" }, el("legend", {}, words.settings.filters), rows,
    names, el("div", {}, button(words.settings.addFilter, async () => {
      if (!fields.length) {
        fields = await load().catch(() => []);
        show(names, fields.map((item) => el("option", { value: item.key })));
      }
      add();
    }, { class: "bare" })));
  return { element, value, text: () => (value() ? JSON.stringify(value()) : "") };
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return {};
  }
}

function typed(text, operator) {
  if (operator === "$in" || operator === "$nin") return text.split(",").map((part) => typed(part.trim(), ""));
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  return { true: true, false: false }[text] ?? text;
}

