// A document as text: the cited lines, its passages at their places, and lines in no passage.

import { to } from "../address.js";
import { get, withQuery } from "../api.js";
import { alertOf, button, el, field, link, note, shortened, several, show } from "../dom.js";
import { placeOf, whereIn } from "../passages.js";
import { picture } from "../picture.js";
import { listed } from "../searches.js";
import { words } from "../words.js";

const LINES = 200; // that are read together
const BLOCKS = 4; // that are kept: a long document takes no more memory than a short one
const BEFORE = 40; // lines above the cited ones
const LONGEST = 5000; // characters of a line
const MOST = 20; // gaps that are listed

export async function source({ parts, query, signal }, kb) {
  const uri = parts.slice(3).join("/");
  const path = `knowledge-bases/${encodeURIComponent(kb.id)}`;
  const first = Math.max(1, (Number(query.get("line")) || 1) - BEFORE);
  const here = (chunk) => to(["kb", kb.id, "source", uri], { chunk: chunk.id, line: chunk.metadata.line_start });
  const reader = readerOf(path, uri, signal);
  let block;
  try {
    block = await reader.read(first);
  } catch (error) {
    if (error.code !== "not_found" || signal.aborted) throw error;
    const info = query.get("id") && (await get(`${path}/documents/${query.get("id")}`, signal));
    return el("div", { class: "stack" }, el("h2", {}, uri), alertOf(info?.reason || error.message));
  }
  const cited = block.chunks.find((chunk) => chunk.id === query.get("chunk"));
  const { document } = block.data;
  const text = scroller(reader, block, cited, signal);
  const pictureOf = (span) => picture(`${path}/documents/${document.id}`, document.title || uri, span, signal);
  return el("div", { class: "stack" },
    el("div", { class: "stack tight" }, el("h2", {}, document.title || uri), el("p", { class: "small quiet" }, uri, ` · ${several(document.lines, "line")}`)),
    el("div", { class: "two wide-left" },
      el("div", { class: "stack tight" }, el("p", { class: "small" }, words.source.legend), text.element),
      passage(block.chunks, cited, text, here, pictureOf)));
}

/** Reads blocks of lines with the passages that hold them. */
function readerOf(path, uri, signal) {
  let id = "";
  return { read: async (first) => {
    const data = await get(withQuery(`${path}/fetch`, { document: uri, first_line: first, last_line: first + LINES - 1 }), signal);
    id = data.document.id;
    const chunks = await listed(`${path}/documents/${id}/chunks`, { first_line: data.first_line, last_line: data.last_line }, 1000, signal);
    return { data, chunks };
  } };
}

/** The lines; more are read when a person scrolls to an end of them. */
function scroller(reader, start, cited, signal) {
  const lines = el("div", { class: "lines", tabindex: "0", role: "group", "aria-label": words.source.text, scroll: onScroll });
  const status = el("p", { class: "small quiet", role: "status" });
  const jump = el("input", { type: "number", min: 1, max: start.data.document.lines, class: "short" });
  const gaps = el("div", { class: "stack tight" });
  let blocks = [];
  let queue = Promise.resolve();
  let working = 0; // in the queue
  const reset = (block) => {
    blocks = [drawn(block, cited)];
    show(lines, blocks[0].element);
  };
  const tell = () => {
    show(status, words.source.range(blocks[0].data.first_line, blocks.at(-1).data.last_line, start.data.document.lines));
    show(gaps, without(blocks.flatMap((block) => block.data.gaps), (line) => (lines.focus(), open(line))));
    gaps.hidden = !gaps.firstChild;
  };
  function work(act) {
    working += 1;
    queue = queue.then(act).then(tell).catch((error) => signal.aborted || show(status, alertOf(error.message))).finally(() => (working -= 1));
  }
  const later = () => work(async () => {
    const block = drawn(await reader.read(blocks.at(-1).data.last_line + 1), cited);
    lines.append(block.element);
    blocks.push(block);
    if (blocks.length > BLOCKS) {
      const height = lines.scrollHeight;
      blocks.shift().element.remove();
      lines.scrollTop -= height - lines.scrollHeight;
    }
  });
  const earlier = () => work(async () => {
    const { first_line } = blocks[0].data;
    const block = drawn(await reader.read(Math.max(1, first_line - LINES)), cited, first_line - 1);
    const height = lines.scrollHeight;
    lines.prepend(block.element);
    blocks.unshift(block);
    lines.scrollTop += lines.scrollHeight - height;
    if (blocks.length > BLOCKS) blocks.pop().element.remove();
  });
  const open = (line) => work(async () => {
    reset(await reader.read(Math.max(1, line - BEFORE)));
    toLine(line);
  });
  function toLine(line) {
    const row = lines.querySelector(`[data-line="${line}"]`);
    if (row) lines.scrollTop += row.getBoundingClientRect().top - lines.getBoundingClientRect().top - lines.clientHeight / 3;
  }
  function onScroll() {
    if (working) return;
    if (lines.scrollTop + 2 * lines.clientHeight > lines.scrollHeight && blocks.at(-1).data.last_line < start.data.document.lines) later();
    else if (lines.scrollTop < lines.clientHeight && blocks[0].data.first_line > 1) earlier();
  }
  reset(start);
  tell();
  setTimeout(() => cited && toLine(cited.metadata.line_start));
  const form = el("form", { class: "row end", submit: (event) => {
    event.preventDefault();
    if (jump.value) open(Math.min(Number(jump.value), start.data.document.lines));
  } }, field(words.source.jump, jump), el("button", {}, words.source.go));
  return { element: el("div", { class: "stack tight" }, lines, el("div", { class: "row between end" }, status, form)), gaps };
}

/** A block of lines; a gap is one line of the text, for all of its numbers. */
function drawn({ data, chunks }, cited, last = data.last_line) {
  const gaps = new Map(data.gaps.map((gap) => [gap.first_line, gap.last_line]));
  const places = placesOf(chunks);
  const rows = [];
  let line = data.first_line;
  for (const text of data.text.split("\n")) {
    const number = line;
    const until = gaps.get(number);
    line = (until ?? number) + 1;
    if (number > last) break;
    if (places.has(number)) rows.push(el("div", { class: "place" }, places.get(number)));
    const held = until ? 0 : chunks.filter(({ metadata }) => metadata.line_start <= number && number <= metadata.line_end).length;
    const lit = cited && cited.metadata.line_start <= number && number <= cited.metadata.line_end;
    const kinds = ["line", held === 1 && "in", held > 1 && "twice", until && "gap", lit && "lit"].filter(Boolean).join(" ");
    rows.push(el("div", { class: kinds, "data-line": number }, el("span", {}, until > number ? `${number}–${until}` : number), el("span", { title: until ? words.source.gap : null }, shortened(text || "\u200b", LONGEST))));
  }
  return { data: { ...data, last_line: Math.min(data.last_line, last), gaps: data.gaps.filter((gap) => gap.first_line <= last) }, element: el("div", {}, rows) };
}

/** The lines at which a page, slide or time begins. */
function placesOf(chunks) {
  const places = new Map();
  let before = "";
  for (const { metadata } of chunks) {
    const place = placeOf(metadata);
    if (place && place !== before && !places.has(metadata.line_start)) places.set(metadata.line_start, place);
    before = place;
  }
  return places;
}

/** The cited passage, or the first: what was embedded with it, and its neighbours. */
function passage(chunks, cited, text, here, pictureOf) {
  const chunk = cited ?? chunks[0];
  const at = chunks.indexOf(chunk);
  const neighbour = (other, label) => other && el("p", { class: "small" }, label, " ", link(whereIn(other.metadata) || other.id.slice(0, 8), here(other)));
  return el("section", { class: "stack tight", "aria-label": words.source.passage },
    el("h3", {}, cited ? words.source.cited : words.source.first),
    neighbour(chunks[at - 1], words.source.previous),
    chunk && el("article", { class: `card stack tight ${cited ? "cited" : ""}` },
      el("p", { class: "small" }, el("b", {}, whereIn(chunk.metadata)), " ", el("span", { class: "quiet" }, chunk.metadata.heading)),
      el("h4", {}, words.source.context), el("pre", { class: "context" }, chunk.context.trim() || words.source.nothing),
      el("h4", {}, words.source.embedded), el("pre", { class: "text", tabindex: "0" }, shortened(chunk.text, LONGEST)),
      chunk.metadata.page && pictureOf(chunk.metadata)),
    neighbour(chunks[at + 1], words.source.next),
    text.gaps);
}

/** Lines that no passage holds, as buttons that `open` them. */
const without = (gaps, open) => gaps.length > 0 && [el("h4", {}, words.source.gaps),
  el("ul", { class: "row" }, gaps.slice(0, MOST).map((gap) => el("li", {}, button(words.place.lines(gap.first_line, gap.last_line), () => open(gap.first_line), { class: "bare" })))),
  gaps.length > MOST && note(words.more(gaps.length - MOST))];
