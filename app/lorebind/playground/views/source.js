// A document as text: the cited lines, its passages at their places, and lines in no passage.

import { to } from "../address.js";
import { get, withQuery } from "../api.js";
import { alertOf, button, el, link, note, several, show } from "../dom.js";
import { whereIn } from "../passages.js";
import { words } from "../words.js";
import { listed } from "../searches.js";

const LINES = 400;

export async function source({ parts, query, signal }, kb) {
  const uri = parts.slice(3).join("/");
  const path = `knowledge-bases/${encodeURIComponent(kb.id)}`;
  let first = Math.max(1, (Number(query.get("line")) || 1) - 40);
  const read = () => get(withQuery(`${path}/fetch`, { document: uri, first_line: first, last_line: first + LINES - 1 }), signal);
  let data;
  try {
    data = await read();
  } catch (error) {
    if (error.code !== "not_found") throw error;
    const info = query.get("id") && (await get(`${path}/documents/${query.get("id")}`, signal));
    return el("div", { class: "stack" }, el("h2", {}, uri), alertOf(info?.reason || error.message));
  }
  const chunks = await listed(`${path}/documents/${data.document.id}/chunks`, {}, 2000, signal);
  const cited = chunks.find((chunk) => chunk.id === query.get("chunk"));
  const lines = el("div", { class: "lines", tabindex: "0", role: "group", "aria-label": words.source.text });
  const more = el("div", { class: "row" });
  function draw() {
    const all = data.document.lines;
    show(lines, rows(data, chunks, cited));
    show(more, data.first_line > 1 && button(words.source.before, () => move(-LINES)),
      data.last_line < all && button(words.source.after, () => move(LINES)),
      note(words.source.range(data.first_line, data.last_line, all)));
  }
  async function move(by) {
    first = Math.max(1, first + by);
    try {
      data = await read();
      draw();
      lines.scrollTop = 0;
    } catch (error) {
      if (!signal.aborted) show(more, alertOf(error.message));
    }
  }
  draw();
  setTimeout(() => lines.querySelector(".lit")?.scrollIntoView({ block: "center" }));
  return el("div", { class: "stack" },
    el("div", { class: "stack tight" }, el("h2", {}, data.document.title || uri), el("p", { class: "small quiet" }, uri, ` · ${several(chunks.length, "passage")}`)),
    el("div", { class: "two wide-left" },
      el("div", { class: "stack tight" }, el("p", { class: "small" }, words.source.legend), lines, more),
      el("section", { class: "stack tight", "aria-label": words.source.passages }, el("h3", {}, words.source.passages), passagesOf(chunks, cited, kb, uri))));
}

/** The lines; a gap is one line of the text, for all of its numbers. */
function rows(data, chunks, cited) {
  const gaps = new Map(data.gaps.map((gap) => [gap.first_line, gap.last_line]));
  let line = data.first_line;
  return data.text.split("\n").map((text) => {
    const number = line;
    const until = gaps.get(number);
    line = (until ?? number) + 1;
    const here = until ? 0 : chunks.filter(({ metadata }) => metadata.line_start <= number && number <= metadata.line_end).length;
    const lit = cited && cited.metadata.line_start <= number && number <= cited.metadata.line_end;
    const kinds = ["line", here === 1 && "in", here > 1 && "twice", until && "gap", lit && "lit"].filter(Boolean).join(" ");
    return el("div", { class: kinds }, el("span", {}, until > number ? `${number}–${until}` : number), el("span", { title: until ? words.source.gap : null }, text || "\u200b"));
  });
}

function passagesOf(chunks, cited, kb, uri) {
  const at = cited ? chunks.indexOf(cited) : 0;
  const near = chunks.slice(Math.max(0, at - 1), Math.max(0, at - 1) + 8);
  return [near.map((chunk) => el("article", { class: `card stack tight ${chunk === cited ? "cited passage" : ""}` },
    el("p", { class: "small" }, link(whereIn(chunk.metadata) || chunk.id.slice(0, 8), to(["kb", kb.id, "source", uri], { chunk: chunk.id, line: chunk.metadata.line_start })), " ", el("span", { class: "quiet" }, chunk.metadata.heading)),
    el("details", {}, el("summary", {}, words.source.passage), el("pre", {}, chunk.text)))),
  chunks.length > near.length && note(words.source.more(chunks.length - near.length))];
}
