// Calls the REST API. The token is kept in the memory of the page only.

const API = "api/v0";
let token = "";
let tenant = "";
let signIn = () => Promise.reject(new Error());

/** Set how a person is asked for a token: a function that returns when there is one. */
export const whenRefused = (ask) => {
  signIn = ask;
};
export const useToken = (text) => {
  token = text;
};
export const useTenant = (name) => {
  tenant = name;
};
/** Whether calls that a person copies need a token, and their tenant. */
export const caller = () => ({ hasToken: Boolean(token), tenant });

/** An error that the server explains: a problem document. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The server answered with status ${status}.`);
    this.status = status;
    this.code = document.code ?? "";
    this.errors = document.errors ?? [];
    this.more = document;
  }
}

/** The server does not answer. */
export class Unreachable extends Error {}

/** Send a request; the answer has been checked. */
export async function send(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    const sent = { ...headers };
    if (token) sent.Authorization = `Bearer ${token}`;
    if (tenant) sent["X-Tenant-ID"] = tenant;
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) sent["Content-Type"] = "application/json";
    const content = body === undefined || isForm ? body : JSON.stringify(body);
    let answer;
    try {
      answer = await fetch(path.startsWith("/") ? path.slice(1) : `${API}/${path}`, { method, headers: sent, body: content, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Unreachable("The server does not answer.");
    }
    if (answer.ok || answer.status === 304) return answer;
    const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
    if (answer.status !== 401) throw problem;
    await signIn(token ? problem.message : "");
  }
}

/** Send a request and return its JSON. */
export async function call(method, path, body, { signal, headers } = {}) {
  const answer = await send(method, path, { body, headers, signal });
  return answer.status === 204 ? null : answer.json();
}

/** The same for work that may take longer than a request: the answer comes as an event. */
export async function patient(method, path, body, signal) {
  for await (const { event, data } of events(method, path, body, { signal })) {
    if (event === "error") throw new Problem(data.status, data);
    return data;
  }
  throw new Unreachable("The connection to the server broke.");
}

export const get = (path, signal) => call("GET", path, undefined, { signal });

/** Return a path with these parameters; those without a value are left out. */
export function withQuery(path, values) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return query.size ? `${path}?${query}` : path;
}

/** Yield the server-sent events of a request as `{event, data, id}`. */
export async function* events(method, path, body, { signal, after } = {}) {
  const headers = { Accept: "text/event-stream" };
  if (after) headers["Last-Event-ID"] = after;
  const answer = await send(method, path, { body, headers, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal?.aborted) return;
      throw new Unreachable("The connection to the server broke.");
    }
    rest = (rest + (part.value ?? "")).replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = read(block);
      if (event) yield event;
    }
    if (part.done) return;
  }
}

function read(block) {
  const event = { event: "message", data: "", id: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") event.data += value;
    else if (name) event[name] = value;
  }
  if (!event.data) return null;
  event.data = JSON.parse(event.data);
  return event;
}

/** Follow the events of something that goes on without us: the connection is renewed until `end`. */
export async function* followed(path, signal, onBreak = () => {}) {
  let after = "";
  for (;;) {
    try {
      for await (const event of events("GET", path, undefined, { signal, after })) {
        onBreak(false);
        after = event.id || after;
        yield event;
        if (event.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted || !(error instanceof Unreachable)) throw error;
      onBreak(true);
    }
    await pause(1000, signal);
  }
}

export const pause = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
