// Passages with their scores: a bar for each signal, the question's words marked.

import { to } from "./address.js";
import { button, clock, count, decimals, el, link, marked } from "./dom.js";
import { words } from "./words.js";

const LONGEST = 10000; // characters of a passage that are shown at first
const SIGNALS = ["dense", "lexical", "terms", "document", "fused", "rerank"];

/** Return the element of a result's passages, and functions that mark and open one of them. */
export function passages(result, question, context, moved) {
  const names = [...SIGNALS, ...new Set(result.matches.flatMap((match) => Object.keys(match.scores)))]
    .filter((name, index, all) => all.indexOf(name) === index && result.matches.some((match) => name in match.scores));
  const most = Object.fromEntries(names.map((name) => [name, Math.max(name === "dense" ? 1 : 1e-9, ...result.matches.map((match) => match.scores[name] ?? 0))]));
  const cards = new Map(result.matches.map((match, index) => [match.id, card(match, index, { result, names, most, moved })]));
  const element = el("ol", { class: "stack" }, [...cards.values()].map((item) => el("li", {}, item)));
  return {
    element,
    cite: (id) => cards.get(id)?.classList.add("cited"),
    open: (citation) => {
      const item = cards.get(citation.id);
      if (!item) return void (location.hash = sourceOf(citation));
      element.querySelectorAll(".shown").forEach((other) => other.classList.remove("shown"));
      item.classList.add("shown");
      item.tabIndex = -1;
      item.scrollIntoView({ block: "nearest" });
      item.focus({ preventScroll: true });
    },
  };
}

/** The address of a passage in its document. */
export const sourceOf = ({ id, metadata }) =>
  to(["kb", metadata.kb_id, "source", metadata.uri], { chunk: id, line: metadata.line_start });

/** The page, slide, sheet, chapter or time of a passage. */
export function placeOf(metadata) {
  const place = metadata.page ? words.place.page(metadata.page, metadata.page_end) : metadata.locator;
  if (place) return metadata.scanned ? words.place.scanned(place) : place;
  return typeof metadata.time_start === "number" ? words.place.time(clock(metadata.time_start), clock(metadata.time_end)) : "";
}

/** Where in its document a passage stands. */
export function whereIn(metadata) {
  const place = [placeOf(metadata)].filter(Boolean);
  if (metadata.line_start) place.push(words.place.lines(metadata.line_start, metadata.line_end));
  return place.join(", ");
}

function card(match, index, { result, names, most, moved }) {
  const { metadata } = match;
  const text = el("div", { class: "text", tabindex: "0", role: "group", "aria-label": words.passage.text(index + 1) }, excerpt(match.text, result.highlights?.[match.id]));
  const terms = Object.entries(result.terms?.[match.id] ?? {});
  const heading = metadata.heading && metadata.heading !== metadata.title ? metadata.heading : "";
  return el("article", { class: "card passage" },
    el("header", {},
      el("h3", {}, `${index + 1}. `, metadata.title || metadata.uri),
      el("span", { class: "score", title: words.passage.score }, decimals(match.score))),
    el("p", { class: "small" }, link(metadata.uri, sourceOf(match)), " ", el("span", { class: "quiet" }, [whereIn(metadata), heading].filter(Boolean).join(" · ")),
      result.searched.length > 1 && [" ", el("span", { class: "tag" }, metadata.kb_id)],
      moved && [" ", el("span", { class: "tag" }, moved(match, index))]),
    el("div", { class: "bars" }, names.map((name) => bar(name, match.scores[name], most[name]))),
    text,
    terms.length > 0 && el("details", {}, el("summary", {}, words.passage.terms),
      el("ul", { class: "row" }, terms.map(([term, { share, related }]) => el("li", { class: "tag" }, `${term} ${Math.round(share * 100)} %${related ? ` (${words.passage.related})` : ""}`)))));
}

/** The text with its marks; of a very long one, the part at the first mark. */
function excerpt(text, offsets = []) {
  const points = text.length > LONGEST ? Array.from(text) : [];
  if (points.length <= LONGEST) return marked(text, offsets);
  const all = () => button(words.rest(count(points.length - LONGEST)), (event) => event.target.parentElement.replaceChildren(...marked(text, offsets)), { class: "bare" });
  const from = Math.max(0, Math.min((offsets[0]?.[0] ?? 0) - LONGEST / 4, points.length - LONGEST));
  const part = points.slice(from, from + LONGEST).join("");
  const inside = offsets.map(([start, end]) => [start - from, end - from]).filter(([, end]) => end <= LONGEST);
  return [from > 0 && "… ", marked(part, inside), from + LONGEST < points.length ? " … " : " ", all()].flat().filter(Boolean);
}

function bar(name, value, most) {
  const share = typeof value === "number" ? Math.max(0, Math.min(100, (value / Math.max(most, 0.01)) * 100)) : 0;
  return el("div", { title: words.signals[name] }, el("span", {}, name), el("b", {}, number(value)), el("span", { class: "track" }, el("i", { "width%": share })));
}

function number(value) {
  if (typeof value !== "number") return "–";
  return value !== 0 && Math.abs(value) < 0.005 ? value.toExponential(0) : decimals(value);
}

export const copied = (text) => {
  const status = el("span", { role: "status", class: "small quiet" });
  const control = button(words.copy, async () => {
    await navigator.clipboard.writeText(text);
    status.textContent = words.copied;
  }, { class: "bare" });
  return el("span", {}, control, status);
};
