// Requests of searches, and lists that have several pages.

import { get, withQuery } from "./api.js";

/** The body and path of a search. */
export function searchOf(question, values, kb) {
  const { knowledge_bases, task, agent, ...rest } = values;
  const place = { task, agent };
  return kb
    ? [`knowledge-bases/${encodeURIComponent(kb)}/query`, { query: question, explain: true, ...rest }]
    : ["query", { query: question, explain: true, ...rest, ...place, knowledge_bases }];
}

/** The same without what is not set. */
export const clean = (body) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined && value !== null && value !== ""));

/** Return all pages of a list, up to `most` items. */
export async function listed(path, values, most, signal) {
  const items = [];
  for (let cursor; ;) {
    const page = await get(withQuery(path, { ...values, limit: 100, cursor }), signal);
    items.push(...page.items);
    cursor = page.next;
    if (!cursor || items.length >= most) return items;
  }
}
