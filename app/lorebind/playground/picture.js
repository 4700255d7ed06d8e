// Pages of a document as pictures, with the words of a passage marked in them.

import { get, send, withQuery } from "./api.js";
import { alertOf, button, el, note, several, show, svg } from "./dom.js";
import { words } from "./words.js";

const MOST = 4; // pages of a passage that are drawn

/** A button that draws the pages of a passage; `path` is that of its document. */
export function picture(path, title, { page, page_end: last = page, start, end }, signal) {
  const out = el("div", { class: "stack tight" });
  const addresses = [];
  let busy = false;
  const forget = () => addresses.splice(0).forEach((address) => URL.revokeObjectURL(address));
  signal.addEventListener("abort", forget);
  const figure = async (number) => {
    const [answer, { items }] = await Promise.all([
      send("GET", `${path}/pages/${number}`, { signal }), get(withQuery(`${path}/pages/${number}/boxes`, { start, end }), signal)]);
    const address = URL.createObjectURL(await answer.blob());
    addresses.push(address);
    const image = el("img", { src: address, alt: words.source.pictureOf(number, title) });
    await image.decode();
    return sheet(image, items);
  };
  const draw = async () => {
    if (busy) return;
    busy = true;
    show(out, el("p", { class: "small quiet", role: "status" }, words.source.drawing));
    forget();
    try {
      const figures = [];
      for (let number = page; number <= Math.min(last, page + MOST - 1); number++) figures.push(await figure(number));
      show(out, figures, last - page >= MOST && note(words.more(several(last - page + 1 - MOST, "page"))));
    } catch (error) {
      if (!signal.aborted) show(out, alertOf(error.message));
    } finally {
      busy = false;
    }
  };
  return el("div", { class: "stack tight" }, button(words.source.picture, draw), out);
}

/** A picture with boxes over it, which can be enlarged. */
function sheet(image, boxes) {
  const marks = boxes.map(({ left, top, right, bottom }) =>
    svg("rect", { x: left, y: top, width: right - left, height: bottom - top }));
  const page = el("div", { class: "sheet" }, image,
    svg("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, marks));
  const place = el("div", {});
  const large = el("dialog", { class: "large", "aria-label": words.source.large, close: () => show(place) },
    el("form", { method: "dialog", class: "row" }, el("button", {}, words.source.close)), place);
  const enlarge = () => {
    show(place, page.cloneNode(true));
    large.showModal();
    place.querySelector("rect")?.scrollIntoView({ block: "center", inline: "center" });
  };
  return el("figure", { class: "stack tight" }, page,
    el("figcaption", { class: "row between small quiet" }, words.source.marked(boxes.length), button(words.source.enlarge, enlarge, { class: "bare flush" })), large);
}
