// Workflows: the graph, a form of the inputs, live runs, questions to people, and threads.

import { to } from "../address.js";
import { events, get, call } from "../api.js";
import { alertOf, button, duration, el, field, link, moment, note, select, show } from "../dom.js";
import { graphOf } from "../graph.js";
import { tag } from "../runs.js";
import { words } from "../words.js";

export async function view(context) {
  return context.parts[1] ? workflow(context) : all(context);
}

async function all({ signal }) {
  const list = await get("workflows?limit=100", signal);
  return el("div", {},
    el("div", { class: "head" }, el("h1", {}, words.workflows.title), note(words.workflows.about)),
    list.items.length
      ? el("ul", { class: "grid" }, list.items.map((item) => el("li", { class: "card stack tight" }, el("h2", {}, link(item.id, to(["workflows", item.id]))), item.description && el("p", {}, item.description), el("p", { class: "small quiet" }, item.tasks.join(" · ")))))
      : el("div", { class: "empty" }, el("h2", {}, words.workflows.none), note(words.workflows.noneText)));
}

async function workflow({ parts, signal, may }) {
  const [, id, thread] = parts;
  const path = `workflows/${encodeURIComponent(id)}`;
  const [outline, list] = await Promise.all([get(path, signal), get("workflows?limit=100", signal)]);
  const declared = list.items.find((item) => item.id === id);
  const graph = graphOf(outline.flow);
  const out = el("div", { class: "stack", "aria-live": "polite" });
  const run = runner({ path, graph, out, signal, id });
  const threads = el("div", { class: "stack tight" });
  const refresh = async () => show(threads, await threadList(path, id, signal));
  run.after = refresh;
  await refresh();
  if (thread) await showThread(path, thread, { graph, out, run, signal });
  return el("div", { class: "stack loose" },
    el("header", { class: "head" }, el("p", { class: "crumbs" }, link(words.workflows.title, to(["workflows"]))), el("h1", {}, id), outline.description && el("p", {}, outline.description)),
    el("div", { class: "graph", tabindex: "0", role: "group", "aria-label": words.workflows.graph }, graph.element),
    el("div", { class: "two" },
      el("div", { class: "stack" }, may("write") ? form(declared?.inputs ?? {}, (input) => run.start(input)) : note(words.rights("write")), out),
      el("section", { class: "stack tight", "aria-label": words.workflows.threads }, el("h2", {}, words.workflows.threads), threads)));
}

/** A form of declared inputs, or of the properties of a JSON Schema. */
function form(inputs, go, text = words.workflows.run) {
  const controls = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, control(input)]));
  return el("form", { class: "stack", submit: (event) => {
    event.preventDefault();
    const values = {};
    for (const [name, input] of Object.entries(inputs)) {
      const value = valueOf(controls[name], input);
      if (value !== undefined) values[name] = value;
    }
    go(values);
  } }, Object.entries(controls).map(([name, item]) => (item.type === "checkbox" ? el("label", { class: "check" }, item, name) : field(name, item, inputs[name].description))), el("div", {}, el("button", { class: "main" }, text)));
}

function control(input) {
  if (input.enum) return select(input.enum.map(String), String(input.default ?? input.enum[0]));
  if (input.type === "boolean") return el("input", { type: "checkbox", checked: input.default === true });
  if (input.type === "number" || input.type === "integer") return el("input", { type: "number", step: input.type === "integer" ? 1 : "any", required: input.required === true, value: input.default ?? "" });
  return el("textarea", { rows: 2, required: input.required === true, value: input.default === undefined || input.default === null ? "" : typeof input.default === "string" ? input.default : JSON.stringify(input.default) });
}

function valueOf(item, input) {
  if (item.type === "checkbox") return item.checked;
  if (item.value === "") return undefined;
  if (item.type === "number") return Number(item.value);
  if (input.enum) return input.enum.find((value) => String(value) === item.value);
  if (input.type && !["string", "number", "integer", "boolean"].includes(input.type)) {
    try {
      return JSON.parse(item.value);
    } catch {
      return item.value;
    }
  }
  return item.value;
}

/** Runs the workflow, and shows what happens in the graph and as a list. */
function runner({ path, graph, out, signal, id }) {
  const self = { start, resume, after: async () => {} };
  async function start(input) {
    await follow(`${path}/runs`, { input });
  }
  async function resume(thread, answers) {
    await follow(`${path}/threads/${encodeURIComponent(thread)}/resume`, { answers });
  }
  async function follow(url, body) {
    const log = el("ol", { class: "stack tight small" });
    const end = el("div", { class: "stack tight" });
    const halt = new AbortController();
    signal.addEventListener("abort", () => halt.abort());
    const stop = button(words.workflows.stop, () => halt.abort());
    show(out, el("section", { class: "card stack", "aria-label": words.workflows.live }, log, end, stop));
    graph.clear();
    try {
      for await (const event of events("POST", url, body, { signal: halt.signal })) {
        const { type, task, data, thread_id: thread } = event.data;
        if (event.event === "error") throw new Error(event.data.detail);
        if (type === "task_start") graph.mark(task, "running");
        if (type === "task_end") {
          graph.mark(task, data.status);
          log.append(el("li", {}, tag(data.status), ` ${task} `, el("span", { class: "quiet" }, duration(data.seconds ?? 0)), data.error && el("div", { class: "bad" }, data.error.message ?? String(data.error))));
        }
        if (type === "run_end") show(end, result(data, thread));
      }
      if (halt.signal.aborted) show(end, note(words.workflows.stopped));
    } catch (error) {
      if (!signal.aborted) show(end, alertOf(error.message));
    } finally {
      stop.remove();
      if (!signal.aborted) await self.after();
    }
  }
  function result(data, thread) {
    const done = data.result ?? {};
    for (const item of done.waiting ?? []) graph.mark(item.task, "waiting");
    return [
      el("p", {}, tag(data.status), " ", link(words.workflows.thread, to(["workflows", id, thread]))),
      questions(done.waiting ?? [], thread, self),
      done.output !== null && done.output !== undefined && output(done.output),
      (done.citations ?? []).length > 0 && el("ol", { class: "small stack tight" }, done.citations.map((item) => el("li", {}, `${item.marker ?? ""} ${item.label ?? item.uri}`))),
    ];
  }
  return self;
}

/** The questions that wait for a person, each with a form of its schema. */
function questions(waiting, thread, run) {
  return waiting.map((item) => {
    const properties = item.schema?.properties;
    const inputs = properties
      ? Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, { ...schema, required: item.schema.required?.includes(name) }]))
      : { [words.workflows.answer]: { type: item.schema?.type ?? "string", required: true } };
    return el("section", { class: "stack tight", "aria-label": words.workflows.question }, el("h3", {}, words.workflows.question), el("p", { class: "answer" }, item.prompt),
      form(inputs, (values) => run.resume(thread, { [item.path]: properties ? values : values[words.workflows.answer] }), words.workflows.send));
  });
}

const output = (value) => [el("h3", {}, words.workflows.output), el("pre", { class: "card", tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2))];

async function threadList(path, id, signal) {
  const { items } = await get(`${path}/threads?limit=50`, signal);
  if (!items.length) return note(words.workflows.noThreads);
  return el("ul", { class: "stack tight" }, items.map((item) => el("li", { class: "row" }, tag(item.status), link(item.thread_id.slice(0, 24), to(["workflows", id, item.thread_id])), el("span", { class: "small quiet" }, moment(Date.parse(item.updated) / 1000)))));
}

async function showThread(path, thread, { graph, out, run, signal }) {
  const url = `${path}/threads/${encodeURIComponent(thread)}`;
  const data = await get(url, signal);
  data.history.forEach((step) => graph.mark(step.path, step.status));
  data.waiting.forEach((item) => graph.mark(item.task, "waiting"));
  const replay = async (step) => {
    try {
      const replayed = await call("POST", `${url}/replay`, { step }, { signal });
      location.hash = to(["workflows", data.workflow, replayed.thread_id]);
    } catch (error) {
      show(out, alertOf(error.message));
    }
  };
  show(out, el("section", { class: "card stack", "aria-label": words.workflows.live },
    el("p", {}, tag(data.status), ` ${thread}`),
    questions(data.waiting, thread, run), data.error && alertOf(data.error), data.output !== null && output(data.output),
    el("ol", { class: "stack tight small" }, data.history.map((step) => el("li", {}, tag(step.status), ` ${step.path} `, el("span", { class: "quiet" }, duration(step.seconds ?? 0)), " ",
      button(words.workflows.replay, () => replay(step.step), { class: "bare", "aria-label": words.workflows.replayAfter(step.path) }))))));
}
