// Ask: passages with the reasons of their rank, a streamed answer with citations, and comparisons.

import { remember } from "../address.js";
import { call, events, get } from "../api.js";
import { callsOf } from "../calls.js";
import { alertOf, button, count, decimals, el, field, note, several, show } from "../dom.js";
import { passages } from "../passages.js";
import { clean, searchOf } from "../searches.js";
import { settingsOf } from "../settings.js";
import { whyNot } from "../why.js";
import { words } from "../words.js";

/** The page that asks all knowledge bases, or those of a place. */
export async function view(context) {
  const list = await get("knowledge-bases?limit=100", context.signal);
  if (!list.items.length) return el("div", { class: "stack" }, el("h1", {}, words.ask.title), note(words.home.none));
  return el("div", {}, el("div", { class: "head" }, el("h1", {}, words.ask.title), note(words.ask.about)), await asking(context, null));
}

/** The form and its results; `kb` is the id of one knowledge base, or null for a place or all. */
export async function asking(context, kb) {
  const { parts, query, signal } = context;
  const first = await settingsOf(context, kb, query, "");
  const second = await settingsOf(context, kb, query, "b_");
  const results = el("div", { class: "stack loose" });
  const talk = conversation();

  const question = el("textarea", { rows: 1, "data-question": true, maxlength: 20000, autocomplete: "off", value: query.get("q") ?? "", keydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  } });
  const answers = tick(words.ask.answers, query.get("answer") !== "no");
  const compares = tick(words.ask.compares, query.get("compare") === "yes");
  const inLink = tick(words.ask.inLink, query.has("q"));
  const other = el("div", { class: "stack tight", hidden: !compares.checked }, el("h2", {}, words.ask.second), second.element);
  const keep = () => remember(parts, {
    q: inLink.checked ? question.value : null,
    answer: answers.checked ? null : "no",
    compare: compares.checked ? "yes" : null,
    ...first.inAddress(),
    ...(compares.checked ? second.inAddress() : {}),
  });

  const inner = el("div", { class: "stack" });
  const settings = el("details", { open: compares.checked || first.isChanged(), toggle: () => inner.childElementCount || inner.append(first.element, other) }, el("summary", {}, words.ask.settings), inner);
  let running = new AbortController();
  const form = el("form", { class: "stack", change: () => {
    other.hidden = !compares.checked;
    settings.open ||= compares.checked;
    keep();
  }, submit: (event) => {
    event.preventDefault();
    const text = question.value.trim();
    if (!text) return void question.focus();
    keep();
    running.abort();
    running = new AbortController();
    signal.addEventListener("abort", () => running.abort());
    const both = compares.checked ? [first, second] : [first];
    ask(text, both.map((settings) => settings.values()), { kb, answers: answers.checked && !compares.checked, talk, results, signal: running.signal, context });
  } },
    el("div", { class: "question" }, field(words.ask.question, question), el("button", { class: "main" }, words.ask.ask)),
    el("div", { class: "row" }, answers.label, compares.label, inLink.label),
    settings);
  if (query.get("q")) setTimeout(() => form.requestSubmit());
  return el("div", { class: "stack loose" }, form, results);
}

function tick(text, checked) {
  const box = el("input", { type: "checkbox", checked });
  return { get checked() { return box.checked; }, label: el("label", { class: "check" }, box, text) };
}

/** The messages so far, and their element. */
function conversation() {
  const turns = [];
  return {
    turns,
    history: () => turns.filter((turn) => turn.answer).flatMap((turn) => [{ role: "user", content: turn.question }, { role: "assistant", content: turn.answer }]),
    element: el("div", { class: "stack" }),
  };
}

async function ask(question, settings, { kb, answers, talk, results, signal, context }) {
  const output = el("div", {});
  const answer = answers ? el("section", { class: "stack", "aria-label": words.ask.answer }) : null;
  const status = el("p", { class: "note", role: "status" }, words.ask.searching);
  show(results, status, answer ? el("div", { class: "two" }, answer, output) : output);
  const history = answers ? talk.history() : [];
  const cited = { ids: new Set(), open: () => {} };
  try {
    const searches = settings.map((values) => searched(question, values, kb, signal));
    const work = Promise.all(searches).then((all) => {
      status.textContent = all.map(({ result }) => words.ask.found(result.matches.length, result.seconds)).join(" · ");
      show(output, all.length > 1 ? compared(all, question, context, kb) : ranked(all[0], question, context, kb, cited));
    });
    const writing = answer && answered(question, settings[0], { kb, history, talk, answer, cited, signal, context });
    await Promise.all([work, writing]);
  } catch (error) {
    if (signal.aborted) return;
    show(status, "");
    show(output, alertOf(el("p", {}, error.message), (error.errors ?? []).map((item) => el("p", {}, `${item.pointer ?? ""} ${item.message}. ${item.hint ?? ""}`))));
  }
}

async function searched(question, values, kb, signal) {
  const [path, body] = searchOf(question, values, kb);
  return { result: await call("POST", path, clean(body), { signal }), values };
}

function verdict(result) {
  const state = { hit: "good", weak: "fair", miss: "bad" }[result.verdict];
  const weak = (result.binding ?? result.bindings?.[0])?.weak_below;
  const best = Math.max(0, ...result.matches.map((match) => match.relevance));
  return el("div", { class: "stack tight" },
    el("p", {}, el("b", { class: state }, words.verdict[result.verdict]), " ", result.shortfall || words.verdict[`${result.verdict}Text`]),
    typeof weak === "number" && note(words.verdict.level(decimals(best), decimals(weak))),
    result.notices.map((text) => note(text)));
}

function ranked({ result, values }, question, context, kb, cited) {
  const list = passages(result, question, context);
  cited.open = list.open;
  for (const id of cited.ids) list.cite(id);
  cited.cite = list.cite;
  return el("section", { class: "stack", "aria-label": words.ask.passages },
    el("h2", {}, words.ask.passages), verdict(result), list.element,
    !result.matches.length && el("div", { class: "empty" }, note(words.ask.nothing)),
    whyNot(question, values, kb ?? result.searched[0], context),
    callsOf(question, values, kb, context));
}

function compared(all, question, context, kb) {
  const places = all.map(({ result }) => new Map(result.matches.map((match, index) => [match.id, index])));
  return el("div", { class: "two" }, all.map(({ result, values }, side) => {
    const before = places[1 - side];
    const moved = (match, index) => {
      const there = before.get(match.id);
      if (there === undefined) return words.compare.only;
      if (there === index) return words.compare.same;
      return there > index ? words.compare.up(there - index) : words.compare.down(index - there);
    };
    const gone = all[1 - side].result.matches.filter((match) => !places[side].has(match.id));
    return el("section", { class: "stack", "aria-label": words.compare.side[side] },
      el("h2", {}, words.compare.side[side]), note(words.compare.settings(clean(values))), verdict(result), passages(result, question, context, moved).element,
      gone.length > 0 && note(words.compare.gone(gone.map((match) => match.metadata.uri))),
      callsOf(question, values, kb, context));
  }));
}

/** Stream an answer into its element. */
async function answered(question, values, { kb, history, talk, answer, cited, signal, context }) {
  const text = el("div", { class: "answer", "aria-busy": "true" });
  const below = el("div", { class: "stack tight" });
  const stop = button(words.ask.stop, () => halt.abort());
  const halt = new AbortController();
  signal.addEventListener("abort", () => halt.abort());
  const earlier = talk.turns.map((turn) => el("div", { class: "turn" }, el("h3", {}, turn.question), el("div", { class: "answer" }, turn.shown)));
  show(answer, el("h2", {}, words.ask.answer), earlier, el("div", { class: "turn" }, el("h3", {}, question), text, below, stop));
  const body = clean({ question, history, ...values, knowledge_bases: kb ? [kb] : values.knowledge_bases });
  const citations = new Map();
  let written = "";
  const render = (unknown = []) => {
    const shown = withMarkers(written, citations, unknown, cited);
    show(text, shown);
    return shown;
  };
  try {
    for await (const event of events("POST", "answers", body, { signal: halt.signal })) {
      if (event.event === "text") {
        written += event.data.text;
        render();
      } else if (event.event === "citation") {
        citations.set(event.data.marker, event.data);
        cited.ids.add(event.data.id);
        cited.cite?.(event.data.id);
        render();
      } else if (event.event === "end") {
        const end = event.data;
        written = end.text;
        end.citations.forEach((citation) => citations.set(citation.marker, citation));
        talk.turns.push({ question, answer: end.text, shown: withMarkers(written, citations, end.unknown_markers, cited) });
        render(end.unknown_markers);
        show(below, facts(end), prompt(body, context), button(words.ask.newTalk, () => {
          talk.turns.length = 0;
          show(answer, el("h2", {}, words.ask.answer), note(words.ask.fresh));
        }, { class: "bare" }));
      } else if (event.event === "error") throw new Error(event.data.detail);
    }
    if (halt.signal.aborted && !signal.aborted) show(below, note(words.ask.stopped));
  } catch (error) {
    if (!signal.aborted) show(below, alertOf(el("p", {}, error.message), prompt(body, context)));
  } finally {
    text.removeAttribute("aria-busy");
    stop.remove();
  }
}

/** The text with its markers as buttons that open their passages. */
function withMarkers(text, citations, unknown, cited) {
  return text.split(/(\[\d+\])/).map((part) => {
    const citation = citations.get(part);
    if (citation) return button(part.slice(1, -1), () => cited.open(citation), { class: "cite", title: citation.label, "aria-label": words.ask.opens(part, citation.label) });
    if (unknown.includes(part)) return el("span", { class: "unknown", title: words.ask.unknown }, part, el("span", { class: "unseen" }, words.ask.unknown));
    return part;
  });
}

function facts(end) {
  const tokens = Object.values(end.usage ?? {}).filter((value) => typeof value === "number");
  const parts = [end.citations.length ? several(end.citations.length, "citation") : words.ask.noCitations];
  if (end.dropped) parts.push(words.ask.dropped(end.dropped));
  if (end.unknown_markers.length) parts.push(words.ask.unknowns(end.unknown_markers.join(" ")));
  if (tokens.length) parts.push(words.ask.usage(end.usage));
  return [note(parts.join(" · ")),
    el("ol", { class: "stack tight small" }, end.citations.map((citation) => el("li", {}, `${citation.marker} ${citation.label}`)))];
}

/** The prompt as the model gets it, loaded when it is opened. */
function prompt(body, { signal }) {
  const content = el("div", { class: "stack tight" });
  return el("details", { toggle: async (event) => {
    if (!event.target.open || content.childElementCount) return;
    try {
      const dry = await call("POST", "answers", { ...body, dry_run: true }, { signal });
      show(content, note(words.prompt.tokens(count(dry.tokens), dry.tokenizer, dry.exact)),
        dry.messages.map((message) => el("div", {}, el("h4", {}, message.role), el("pre", { class: "card", tabindex: "0" }, message.content))),
        dry.dropped.length > 0 && el("ul", { class: "stack tight" }, dry.dropped.map((item) => el("li", {}, words.prompt.dropped(item)))));
    } catch (error) {
      show(content, alertOf(error.message));
    }
  } }, el("summary", {}, words.prompt.show), content);
}
