// Creates elements. Texts become text nodes only, so nothing that a server sends is read as HTML.

import { words } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SAFE = /^(https?:|mailto:|#|[\w./%-]+$)/i;

/** Create an element; functions among the attributes listen to the event of their name. */
export const el = (name, attributes, ...children) =>
  filled(document.createElement(name), attributes, children);

/** The same for a drawing. */
export const svg = (name, attributes, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "value" || name === "checked") element[name] = value;
    else if (name === "href" && !SAFE.test(value)) element.title = value; // such as javascript:
    else if (name === "width%") element.style.width = `${value}%`;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace the content of an element. */
export const show = (element, ...children) => {
  element.replaceChildren(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

let numbers = 0;

/** A labelled field: `control` gets an id. */
export function field(label, control, hint, attributes) {
  control.id ||= `f${++numbers}`;
  const about = hint && el("span", { class: "hint", id: `${control.id}-hint` }, hint);
  if (about) control.setAttribute("aria-describedby", about.id);
  return el("div", { class: "field", ...attributes }, el("label", { for: control.id }, label), control, about);
}

/** A choice; `options` are values, or pairs of a value and its text. */
export const select = (options, value, attributes) =>
  el("select", attributes, options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return el("option", { value: key, selected: key === value }, text);
  }));

export const button = (text, click, attributes) => el("button", { type: "button", click, ...attributes }, text);
export const link = (text, href, attributes) => el("a", { href, ...attributes }, text);
export const note = (...children) => el("p", { class: "note" }, ...children);

/** A table that becomes a list where there is little room; `numeric` are the columns of numbers, `actions` is that of buttons. */
export const table = (heads, rows, numeric = [], actions = -1) =>
  el("table", { class: "folds" },
    el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: numeric.includes(index) ? "number" : null }, head)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, index) => el("td", { "data-label": index && index !== actions ? heads[index] : null, class: index === actions ? "actions" : numeric.includes(index) ? "number" : null }, cell))))));

/** Items of a list in pages, `rows` shows those of a page; `load` begins again with the first one. */
export function paged(read, rows, none, signal) {
  const out = el("div", { "aria-live": "polite" });
  let cursors = [undefined];
  let following = null;
  let turns = 0;
  const before = button(words.pages.before, () => draw(cursors.slice(0, -1)));
  const next = button(words.pages.next, () => draw([...cursors, following]));
  const number = el("span", { class: "small quiet" });
  const pager = el("div", { class: "row", hidden: true }, before, next, number);
  async function draw(there) {
    const turn = ++turns; // of several, only the last is shown
    before.disabled = next.disabled = true; // until the page is there
    try {
      const page = await read(there.at(-1));
      if (turn !== turns) return;
      cursors = there;
      following = page.next;
      show(out, page.items.length ? rows(page.items) : none());
    } catch (error) {
      if (turn !== turns) return;
      if (!signal.aborted) show(out, alertOf(error.message));
    }
    number.textContent = words.pages.number(cursors.length);
    pager.hidden = !following && cursors.length < 2;
    before.disabled = cursors.length < 2;
    next.disabled = !following;
  }
  return { element: el("div", { class: "stack" }, out, pager), load: () => draw([undefined]), again: () => draw(cursors) };
}

/** A message that a screen reader reads out. */
export const alertOf = (...children) => el("div", { class: "alert", role: "alert" }, ...children);

/** The text with the parts at these offsets marked. Offsets count code points, as Python does. */
export function marked(text, offsets, attributes) {
  if (!offsets?.length) return [text];
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of offsets) {
    if (start < at || end > points.length) continue;
    parts.push(points.slice(at, start).join(""), el("mark", attributes, points.slice(start, end).join("")));
    at = end;
  }
  return [...parts, points.slice(at).join("")];
}

/** The text, or its beginning with a button that shows the rest. */
export function shortened(text, most) {
  if (text.length <= most) return text;
  const points = Array.from(text);
  if (points.length <= most) return text;
  const rest = el("span", {}, "… ", button(words.rest(count(points.length - most)), () => rest.replaceWith(points.slice(most).join("")), { class: "bare" }));
  return [points.slice(0, most).join(""), rest];
}

const numbersOf = new Intl.NumberFormat("en");
export const count = (number) => numbersOf.format(number ?? 0);
export const several = (number, singular, plural) => `${count(number)} ${number === 1 ? singular : plural ?? `${singular}s`}`;
export const decimals = (number, digits = 2) => (typeof number === "number" ? number.toFixed(digits) : "–");

/** A moment as local date and time. `seconds` are those since 1970. */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const text = date.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  return el("time", { datetime: date.toISOString(), title: date.toISOString() }, text);
}

export function age(seconds) {
  const past = Math.max(0, Date.now() / 1000 - seconds);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (past >= length) return `${several(Math.floor(past / length), unit)} ago`;
  }
  return "just now";
}

/** A number of bytes in a unit that suits it. */
export const bytes = (number) => {
  for (const [unit, size] of [["MB", 1e6], ["kB", 1e3]]) if (number >= size) return `${decimals(number / size, 1)} ${unit}`;
  return `${count(number)} B`;
};

/** Seconds of a recording as hours, minutes and seconds. */
export const clock = (seconds) => [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");

export const duration = (seconds) =>
  seconds < 60 ? `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
