// The documents of a knowledge base: by state, searched, added, tried again, deleted.

import { remember, to } from "../address.js";
import { call, get, send, withQuery } from "../api.js";
import { alertOf, button, el, field, link, note, select, several, show } from "../dom.js";
import { stateOf } from "../runs.js";
import { words } from "../words.js";

export async function documents(context, kb, ingest) {
  const { parts, query, signal, may } = context;
  const path = `knowledge-bases/${encodeURIComponent(kb.id)}/documents`;
  const writes = may("write") && !kb.filled_by_others;
  const state = select(words.documents.states, query.get("state") ?? "");
  const out = el("div", { class: "stack", "aria-live": "polite" });
  let cursors = [undefined];

  async function load() {
    remember(parts, { state: state.value });
    try {
      const page = await get(withQuery(path, { state: state.value, limit: 50, cursor: cursors.at(-1) }), signal);
      show(out, page.items.length ? table(page.items) : el("div", { class: "empty" }, el("h2", {}, words.documents.none), note(state.value ? words.documents.noMatch : words.documents.noneText)), pages(page));
    } catch (error) {
      if (!signal.aborted) show(out, alertOf(error.message));
    }
  }
  const pages = (page) => (page.next || cursors.length > 1) && el("div", { class: "row" },
    cursors.length > 1 && button(words.documents.before, () => (cursors.pop(), load())),
    page.next && button(words.documents.next, () => (cursors.push(page.next), load())));

  function table(items) {
    const heads = words.documents.heads;
    return el("table", { class: "folds" },
      el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: index === 2 ? "number" : null }, head)))),
      el("tbody", {}, items.map((item) => el("tr", {},
        el("td", { "data-label": heads[0] }, link(item.uri, to(["kb", kb.id, "source", item.uri], { id: item.id })), item.title && item.title !== item.uri && el("div", { class: "small quiet" }, item.title), facts(item)),
        el("td", { "data-label": heads[1] }, el("span", { class: `tag ${stateOf(item.state)}` }, item.state), item.excluded && [" ", el("span", { class: "tag fair" }, words.documents.excluded)],
          item.reason && el("div", { class: "small" }, item.reason, item.attempts > 1 ? ` (${several(item.attempts, "attempt")})` : ""),
          item.textless_pages > 0 && el("div", { class: "small fair" }, words.documents.textless(item.textless_pages))),
        el("td", { class: "number", "data-label": heads[2] }, item.chunks),
        el("td", {}, writes && actions(item))))));
  }
  const facts = (item) => {
    const metadata = Object.entries(item.metadata ?? {}).slice(0, 6);
    return metadata.length > 0 && el("div", { class: "small quiet" }, metadata.map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · "));
  };
  function actions(item) {
    const one = `${path}/${encodeURIComponent(item.id)}`;
    const act = (method, url, done) => async (event) => {
      event.target.disabled = true;
      try {
        await send(method, url, { signal });
        status.textContent = done;
        await load();
      } catch (error) {
        show(problems, alertOf(error.message));
        event.target.disabled = false;
      }
    };
    return el("div", { class: "row" },
      item.state === "failed" && button(words.documents.retry, () => ingest.start({ only_failed: true }), { class: "bare" }),
      "excluded" in item && button(item.excluded ? words.documents.include : words.documents.exclude, act("POST", `${one}/${item.excluded ? "include" : "exclude"}`, words.documents.changed), { class: "bare", "aria-label": words.documents.of(item.excluded ? words.documents.include : words.documents.exclude, item.uri) }),
      item.origin !== "source" && button(words.documents.delete, act("DELETE", one, words.documents.deleted), { class: "bare danger", "aria-label": words.documents.of(words.documents.delete, item.uri) }));
  }

  const status = el("p", { role: "status", class: "small" });
  const problems = el("div", {});
  const search = el("form", { class: "fields", change: () => ((cursors = [undefined]), load()), submit: (event) => event.preventDefault() }, field(words.documents.state, state));
  await load();
  const pack = button(words.documents.pack, async () => {
    pack.disabled = true;
    try {
      const answer = await send("POST", `knowledge-bases/${encodeURIComponent(kb.id)}/pack`, { signal });
      const address = URL.createObjectURL(await answer.blob());
      const target = el("a", { download: `${kb.id}.lorebind` });
      target.href = address;
      target.click();
      URL.revokeObjectURL(address);
    } catch (error) {
      if (!signal.aborted) show(problems, alertOf(error.message));
    } finally {
      pack.disabled = false;
    }
  });
  return el("div", { class: "stack" }, search, writes && el("div", { class: "row" }, adding(path, { signal, load, status, problems }), pack), status, problems, out);
}

/** Add a text, or files that are chosen or dropped. */
function adding(path, { signal, load, status, problems }) {
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
  return el("details", {}, el("summary", {}, words.documents.add),
    el("div", { class: "two" },
      el("form", { class: "stack tight", submit: async (event) => {
        event.preventDefault();
        if (await add({ id: name.value.trim(), text: text.value }, words.documents.added(1))) event.target.reset();
      } }, field(words.documents.name, name), field(words.documents.text, text), el("div", {}, el("button", {}, words.documents.addText))),
      el("div", { class: "empty", dragover: over, drop: (event) => (event.preventDefault(), upload([...event.dataTransfer.files])) },
        field(words.documents.files, files, words.documents.drop))));
}
