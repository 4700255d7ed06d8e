// The documents of a knowledge base: by state, searched, added, tried again, deleted.

import { remember, to } from "../address.js";
import { call, get, send, withQuery } from "../api.js";
import { alertOf, button, bytes, el, field, link, note, paged, select, several, show, table } from "../dom.js";
import { tag } from "../runs.js";
import { filterRows, metadataFields } from "../settings.js";
import { words } from "../words.js";

const MOST = 6; // keys of metadata that a document shows
const LONGEST = 80; // characters of a value
const SKIPPED = "skipped"; // a state of files that are no documents

export async function documents(context, kb, ingest) {
  const { parts, query, signal, may } = context;
  const base = `knowledge-bases/${encodeURIComponent(kb.id)}`;
  const path = `${base}/documents`;
  const writes = may("write") && !kb.filled_by_others;
  const state = select(words.documents.states, query.get("state") ?? "");
  const name = el("input", { type: "search", value: query.get("name") ?? "", maxlength: 500, autocomplete: "off" });
  const format = el("input", { value: query.get("format") ?? "", list: "formats", autocomplete: "off", maxlength: 100 });
  const formats = el("datalist", { id: "formats" });
  const filters = filterRows(() => metadataFields(kb.id, signal), query.get("filters") ?? "");
  const selection = () => ({ state: state.value, q: name.value.trim(), format: format.value.trim(), filters: filters.text() });
  const status = el("p", { role: "status", class: "small" });
  const problems = el("div", { class: "problems" });
  const read = (cursor) => state.value === SKIPPED
    ? get(withQuery(`${base}/skipped`, { limit: 50, cursor }), signal)
    : get(withQuery(path, { ...selection(), limit: 50, cursor }), signal);
  const rows = (items) => (state.value === SKIPPED ? skipped(items) : listing(items));
  const none = () => el("div", { class: "empty" }, el("h2", {}, words.documents.none), note(state.value === SKIPPED ? words.documents.noSkipped : Object.values(selection()).some(Boolean) ? words.documents.noMatch : words.documents.noneText));
  const list = paged(read, rows, none, signal);
  ingest.after = list.again;

  const listing = (items) => (offer(items), table(words.documents.heads, items.map((item) => [
    [link(item.uri, to(["kb", kb.id, "source", item.uri], { id: item.id })), item.title && item.title !== item.uri && el("div", { class: "small quiet" }, item.title), facts(item)],
    [tag(item.state), item.excluded && [" ", el("span", { class: "tag fair" }, words.documents.excluded)],
      item.reason && el("div", { class: "small" }, item.reason, item.attempts > 1 ? ` (${several(item.attempts, "attempt")})` : ""),
      textless(item)],
    item.chunks,
    writes && actions(item),
  ]), [2], 3));
  const offered = new Set();
  const offer = (items) => show(formats, [...items.reduce((all, item) => (item.format ? all.add(item.format) : all), offered)].sort().map((value) => el("option", { value })));
  const skipped = (items) => table(words.documents.skippedHeads, items.map((item) => [item.uri, item.reason, item.setting ? el("code", {}, item.setting) : "–"]));
  const facts = (item) => {
    const metadata = Object.entries(item.metadata ?? {}).slice(0, MOST).map(([key, value]) => `${key}: ${brief(value)}`);
    const about = [item.format, item.size > 0 && bytes(item.size), item.modified && item.modified.slice(0, 10), ...metadata].filter(Boolean);
    return about.length > 0 && el("div", { class: "small quiet" }, about.join(" · "));
  };
  function actions(item) {
    const one = `${path}/${encodeURIComponent(item.id)}`;
    const act = (text, work, attributes) => button(text, async (event) => {
      event.target.disabled = true;
      status.textContent = "";
      show(problems);
      try {
        await work();
      } catch (error) {
        if (!signal.aborted) show(problems, alertOf(error.message));
        event.target.disabled = false;
      }
    }, { class: "bare", "aria-label": words.documents.of(text, item.uri), ...attributes });
    const sent = (method, url, done) => async () => {
      await send(method, url, { signal });
      status.textContent = done;
      await list.again();
    };
    return el("div", { class: "row tight" },
      item.state === "failed" && act(words.documents.retry, () => ingest.run(`${one}/retry`)),
      item.excluded ? act(words.documents.include, sent("POST", `${one}/include`, words.documents.changed)) : act(words.documents.exclude, sent("POST", `${one}/exclude`, words.documents.changed)),
      item.origin !== "source" && act(words.documents.delete, sent("DELETE", one, words.documents.deleted), { class: "bare danger" }));
  }

  const disableOthers = () => {
    name.disabled = format.disabled = filters.element.disabled = state.value === SKIPPED;
  };
  const change = () => {
    disableOthers();
    const { q, ...others } = selection();
    remember(parts, { ...others, name: q });
    return list.load();
  };
  const search = el("div", { class: "stack", role: "search", change },
    el("div", { class: "fields" }, field(words.documents.search, name), field(words.documents.state, state), field(words.documents.format, format), formats),
    filters.element);
  disableOthers();
  await list.load();
  return el("div", { class: "stack" }, search, writes && adding(path, { signal, load: list.load, status, problems }, packing(`${base}/pack`, `${kb.id}.lorebind`, { signal, problems })), status, problems, list.element);
}

const brief = (value) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
};

const textless = (item) => {
  const parts = Object.entries(item.textless_parts ?? (item.textless_pages ? { page: item.textless_pages } : {}));
  return parts.length > 0 && el("div", { class: "small fair" }, words.documents.textless(parts.map(([part, number]) => several(number, part)).join(", ")));
};

/** The button that saves the index as a file. */
function packing(path, name, { signal, problems }) {
  const control = button(words.documents.pack, async () => {
    control.disabled = true;
    try {
      const answer = await send("POST", path, { signal });
      const address = URL.createObjectURL(await answer.blob());
      const target = el("a", { download: name });
      target.href = address;
      target.click();
      URL.revokeObjectURL(address);
    } catch (error) {
      if (!signal.aborted) show(problems, alertOf(error.message));
    } finally {
      control.disabled = false;
    }
  });
  return control;
}

/** Add a text, or files that are chosen or dropped. */
function adding(path, { signal, load, status, problems }, pack) {
  const name = el("input", { required: true, autocomplete: "off" });
  const text = el("textarea", { rows: 4, required: true });
  const files = el("input", { type: "file", multiple: true, change: () => upload([...files.files]) });
  async function add(body, what) {
    status.textContent = words.documents.adding;
    show(problems);
    try {
      const answer = await call("POST", path, body, { signal });
      const wrong = (answer.results ?? []).filter((result) => result.error);
      if (wrong.length) show(problems, alertOf(wrong.map((result) => el("p", {}, result.error.detail))));
      status.textContent = what;
      await load();
      return true;
    } catch (error) {
      status.textContent = "";
      show(problems, alertOf(error.message));
      return false;
    }
  }
  function upload(list) {
    if (!list.length) return;
    const form = new FormData();
    list.forEach((file) => form.append(list.length > 1 ? "files" : "file", file, file.name));
    add(form, words.documents.added(list.length));
    files.value = "";
  }
  const over = (event) => event.preventDefault();
  const forms = el("div", { class: "two", hidden: true, id: "adding" },
      el("form", { class: "stack tight", submit: async (event) => {
        event.preventDefault();
        if (await add({ id: name.value.trim(), text: text.value }, words.documents.added(1))) event.target.reset();
      } }, field(words.documents.name, name), field(words.documents.text, text), el("div", {}, el("button", {}, words.documents.addText))),
      el("div", { class: "empty", dragover: over, drop: (event) => (event.preventDefault(), upload([...event.dataTransfer.files])) },
        field(words.documents.files, files, words.documents.drop)));
  const open = button(words.documents.add, () => {
    forms.hidden = !forms.hidden;
    open.setAttribute("aria-expanded", !forms.hidden);
    if (!forms.hidden) name.focus();
  }, { "aria-expanded": "false", "aria-controls": "adding" });
  return el("div", { class: "stack" }, el("div", { class: "row" }, open, pack), forms);
}
