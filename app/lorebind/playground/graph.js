// Draws the tasks of a workflow as boxes in rows, and its edges as curves.

import { svg } from "./dom.js";

const WIDTH = 168;
const HEIGHT = 48;
const GAP_X = 32;
const GAP_Y = 40;

/** Draw a flow; `mark` shows the state of a task. */
export function graphOf(flow) {
  const tasks = [];
  const edges = [];
  gather(flow, null, tasks, edges);
  const rows = ranked(tasks, edges);
  const most = Math.max(1, ...rows.map((row) => row.length));
  const width = most * (WIDTH + GAP_X) + GAP_X;
  const places = new Map();
  rows.forEach((row, level) => row.forEach((task, index) => places.set(task.path, {
    x: GAP_X + (index + (most - row.length) / 2) * (WIDTH + GAP_X),
    y: 16 + level * (HEIGHT + GAP_Y),
  })));
  const boxes = new Map(tasks.map((task) => [task.path, box(task, places.get(task.path))]));
  const height = 16 + rows.length * (HEIGHT + GAP_Y);
  const names = tasks.map((task) => task.id).join(", ");
  const element = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": names },
    svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" }, svg("path", { d: "M1 1 7 4 1 7" }))),
    edges.map((edge) => curve(edge, places)), [...boxes.values()]);
  const byId = (name) => boxes.get(name) ?? boxes.get(tasks.find((task) => task.id === name)?.path);
  return {
    element,
    mark: (name, state) => byId(name.replace(/\[\d+\]/g, ""))?.setAttribute("class", state),
    clear: () => boxes.forEach((item) => item.setAttribute("class", "")),
  };
}

function gather(flow, parent, tasks, edges) {
  const ids = new Map(flow.tasks.map((task) => [task.id, task.path]));
  for (const task of flow.tasks) {
    tasks.push(task);
    for (const inner of task.flows ?? []) {
      gather(inner, task, tasks, edges);
      const entry = inner.tasks.find((item) => item.id === inner.entry) ?? inner.tasks[0];
      if (entry) edges.push({ source: task.path, target: entry.path, label: "", inner: true });
    }
  }
  for (const edge of flow.edges) {
    edges.push({ source: ids.get(edge.source), target: ids.get(edge.target), label: edge.label || (edge.on === "error" ? "error" : "") });
  }
}

/** Put each task into the row after the last of its forerunners; edges that lead back are left out. */
function ranked(tasks, edges) {
  const order = new Map(tasks.map((task, index) => [task.path, index]));
  const level = new Map(tasks.map((task) => [task.path, 0]));
  for (let round = 0; round < tasks.length; round++) {
    let moved = false;
    for (const { source, target } of edges) {
      if (order.get(source) < order.get(target) && level.get(target) <= level.get(source)) {
        level.set(target, level.get(source) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const rows = [];
  for (const task of tasks) (rows[level.get(task.path)] ??= []).push(task);
  return rows.filter(Boolean);
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function box(task, { x, y }) {
  return svg("g", {}, svg("title", {}, `${task.id}: ${task.type}${task.about ? `. ${task.about}` : ""}`),
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }),
    svg("text", { x: x + 12, y: y + 20 }, short(task.id, 20)),
    svg("text", { x: x + 12, y: y + 37, class: "kind" }, short(task.type, 22)));
}

function curve({ source, target, label, inner }, places) {
  const from = places.get(source);
  const there = places.get(target);
  if (!from || !there) return null;
  const down = there.y > from.y;
  const [x1, y1] = down ? [from.x + WIDTH / 2, from.y + HEIGHT] : [from.x + WIDTH, from.y + HEIGHT / 2];
  const [x2, y2] = down ? [there.x + WIDTH / 2, there.y] : [there.x + WIDTH, there.y + HEIGHT / 2];
  const path = down
    ? `M${x1} ${y1} C${x1} ${y1 + GAP_Y / 1.5} ${x2} ${y2 - GAP_Y / 1.5} ${x2} ${y2}`
    : `M${x1} ${y1} C${x1 + 28} ${y1} ${x2 + 28} ${y2} ${x2} ${y2}`;
  return svg("g", {}, svg("path", { d: path, "marker-end": "url(#tip)", "stroke-dasharray": inner ? "4 4" : null }),
    label && svg("text", { class: "kind", x: (x1 + x2) / 2 + 6, y: (y1 + y2) / 2 + 4 }, short(label, 16)));
}
