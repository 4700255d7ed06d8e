// The frame of the page: who is calling, the navigation, and the view that the address names.

import { address, to } from "./address.js";
import { get, Problem, Unreachable, useTenant, useToken, whenRefused } from "./api.js";
import { alertOf, button, el, field, link, note, select, show } from "./dom.js";
import { words } from "./words.js";

const VIEWS = {
  "": () => import("./views/home.js"),
  kb: () => import("./views/knowledge_base.js"),
  ask: () => import("./views/ask.js"),
  bindings: () => import("./views/bindings.js"),
  workflows: () => import("./views/workflows.js"),
  health: () => import("./views/health.js"),
};
const SECTIONS = [["", words.nav.knowledge], ["ask", words.nav.ask], ["bindings", words.nav.bindings], ["workflows", words.nav.workflows], ["health", words.nav.health]];
const RIGHTS = ["read", "write", "admin"];

const page = document.getElementById("page");
const main = el("main", { id: "main", tabindex: "-1" });
let caller = null;
let leaving = new AbortController();

/** Return whether the caller has these rights. */
const may = (rights) => RIGHTS.indexOf(caller.rights) >= RIGHTS.indexOf(rights);

function frame(section) {
  const current = (key) => (key === section || (key === "" && section === "kb") ? "page" : null);
  const links = SECTIONS.map(([key, text]) => el("li", {}, link(text, to(key ? [key] : []), { "aria-current": current(key) })));
  return [
    el("header", { class: "top" }, el("div", {},
      link([el("img", { src: "playground/icon.svg", alt: "" }), caller.project], to([]), { class: "brand", "aria-label": words.nav.home(caller.project) }),
      el("nav", { "aria-label": words.nav.label }, el("ul", {}, links)),
      el("div", { class: "who" },
        caller.open ? words.who.open : [caller.name, el("span", { class: "tag" }, caller.rights), caller.tenant && el("span", { class: "tag" }, caller.tenant)],
        theme()))),
    main,
  ];
}

function theme() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  return button("◐", () => {
    root.dataset.theme = dark() ? "light" : "dark";
  }, { class: "bare", "aria-label": words.who.theme, title: words.who.theme });
}

async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { parts, query } = address();
  const load = VIEWS[parts[0] ?? ""];
  const loaded = load?.().catch((error) => { throw new Unreachable(error.message); }); // while the server tells who is calling
  loaded?.catch(() => {});
  try {
    caller ??= await identified();
    if (signal.aborted) return;
    show(page, frame(parts[0] ?? ""));
    if (!load) return void show(main, missing());
    const { view } = await loaded;
    const element = await view({ parts, query, signal, caller, may });
    if (signal.aborted) return;
    show(main, element);
    document.title = `${main.querySelector("h1")?.textContent ?? ""} · ${caller.project}`;
  } catch (error) {
    if (signal.aborted) return;
    if (!main.isConnected) show(page, main);
    show(main, failure(error));
  }
}

const missing = () => el("div", { class: "head" }, el("h1", {}, words.missing.title), note(words.missing.text), el("p", {}, link(words.missing.back, to([]))));

/** What a person sees where a view cannot be shown. */
function failure(error) {
  if (error instanceof Unreachable) {
    const again = setInterval(() => fetch("healthz").then((answer) => answer.ok && (clearInterval(again), open()), () => {}), 2000);
    leaving.signal.addEventListener("abort", () => clearInterval(again));
    return el("div", { class: "empty", role: "alert" }, el("h1", {}, words.gone.title), note(words.gone.text));
  }
  if (!(error instanceof Problem)) console.error(error);
  return [el("h1", { class: "head" }, words.failed), alertOf(el("p", {}, error.message), button(words.again, open))];
}

/** Return who is calling; a token for several tenants chooses one. */
async function identified() {
  const who = await get("caller");
  if (who.tenant || who.tenants.length < 2) return who;
  useTenant(await answerTo(words.tenant.title, words.tenant.text, field(words.tenant.label, select(who.tenants, who.tenants[0])), words.tenant.go));
  return get("caller");
}

/** Ask a person for one value, and return it. */
function answerTo(title, text, labelled, go, problem) {
  const control = labelled.querySelector("input, select");
  return new Promise((resolve) => {
    const form = el("form", { class: "stack", submit: (event) => {
      event.preventDefault();
      if (control.value.trim()) resolve(control.value.trim());
    } }, labelled, problem && alertOf(problem), el("div", {}, el("button", { class: "main" }, go)));
    show(page, el("main", { id: "main" }, el("div", { class: "empty" }, el("h1", {}, title), note(text), form)));
    control.focus();
  });
}

let asking = null;
whenRefused((problem) => {
  asking ??= answerTo(words.signIn.title, words.signIn.text, field(words.signIn.label, el("input", { type: "password", autocomplete: "off", required: true })), words.signIn.go, problem && words.signIn.wrong)
    .then((text) => {
      useToken(text);
      caller = null;
      asking = null;
      setTimeout(open);
      leaving.abort();
      return new Promise(() => {}); // the view is opened anew
    });
  return asking;
});

addEventListener("hashchange", async () => {
  const before = document.activeElement;
  await open();
  if (!before?.isConnected || before === document.body) main.focus({ preventScroll: true });
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const question = document.querySelector("textarea[data-question]");
  if (question) {
    event.preventDefault();
    question.focus();
  } else if (caller) location.hash = to(["ask"]);
});
open();
