// The same search as a call: curl, command line, Python and YAML, to copy.

import { caller } from "./api.js";
import { el } from "./dom.js";
import { copied } from "./passages.js";
import { clean, searchOf } from "./searches.js";
import { words } from "./words.js";

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
const python = (value) => JSON.stringify(value).replace(/\btrue\b/g, "True").replace(/\bfalse\b/g, "False").replace(/\bnull\b/g, "None");

export function callsOf(question, values, kb) {
  const settings = clean(values);
  const { knowledge_bases = [], filters, workflow, task, agent, ...plain } = settings;
  const [path, body] = searchOf(question, values, kb);
  const { hasToken, tenant } = caller();
  const headers = (hasToken ? ' -H "Authorization: Bearer $TOKEN"' : "") + (tenant ? ` -H ${quoted(`X-Tenant-ID: ${tenant}`)}` : "");
  const where = Object.entries(clean({ workflow, task, agent }));
  const ids = kb ? [kb] : knowledge_bases;
  const options = Object.entries(plain).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${value}`).join("");
  const filterOptions = Object.entries(filters ?? {}).map(([key, condition]) => ` --filter ${quoted(`${key}=${JSON.stringify(condition)}`)}`).join("");
  const placeOptions = where.map(([name, value]) => ` --${name} ${quoted(value)}`).join("");
  const named = Object.entries({ ...plain, filters }).filter(([, value]) => value !== undefined).map(([name, value]) => `, ${name}=${python(value)}`).join("");
  const place = [...ids.map((id) => python(id)), ...where.map(([name, value]) => `${name}=${python(value)}`)].join(", ");
  const yaml = Object.entries(clean({ ...plain, filters })).map(([name, value]) => `      ${name}: ${JSON.stringify(value)}`).join("\n");
  const calls = {
    curl: `curl ${location.origin}/api/v0/${path}${headers} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(clean({ ...body, explain: undefined })))}`,
    "command line": `lorebind query ${[...ids, question].map(quoted).join(" ")}${options}${filterOptions}${placeOptions}`,
    Python: kb
      ? `project.query(${python(kb)}, ${python(question)}${named})`
      : `project.at(${place}).query(${python(question)}${named})`,
    YAML: `knowledge_bases:\n  - id: ${ids[0] ?? "ID"}\n    retrieval:\n${yaml || "      {}"}`,
  };
  return el("details", {}, el("summary", {}, words.calls), el("div", { class: "stack tight" }, Object.entries(calls).map(([name, text]) =>
    el("div", {}, el("div", { class: "row between" }, el("h4", {}, name), copied(text)), el("pre", { class: "card", tabindex: "0" }, text)))));
}
