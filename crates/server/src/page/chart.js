// Small charts of the last minutes: one line per series, over a time axis that ends now.

import { el, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 56;
/** Time span of a chart in milliseconds, and marks on its axis. */
const SPAN = 120_000;
const MARKS = ["2 min ago", "1 min ago", "now"];
/**
 * Points further apart than this many milliseconds are not connected, because the load was not
 * measured in between.
 */
const GAP = 5000;

/** Creates a card with a chart. `format` formats a value; each series has a name and a class. */
export function chart(title, series, format) {
  let points = [];
  const lines = series.map(({ style }) => svg("path", { class: `line ${style}` }));
  const marks = MARKS.map((_, i) => svg("path", { class: "mark", d: `M${(i * WIDTH) / (MARKS.length - 1)},0V${HEIGHT}` }));
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, marks, lines);
  const values = series.map(() => el("dd", {}, "–"));
  const terms = series.map(({ name, style }, i) => el("div", {}, el("dt", { class: style }, name), values[i]));
  const highest = el("span", { class: "highest", "aria-hidden": "true" });
  const axis = el("ol", { class: "axis", "aria-hidden": "true" }, MARKS.map((mark) => el("li", {}, mark)));
  const note = el("p", { class: "hint" });
  const card = el("section", { class: "card" }, el("h2", {}, title), el("dl", {}, terms), el("div", { class: "plot" }, highest, drawing), axis, note);

  /** Adds a value for each series, or null where there is none. */
  function add(now, about = "") {
    const time = performance.now();
    points = points.filter((point) => time - point.time <= SPAN);
    points.push({ time, values: now });
    now.forEach((value, i) => (values[i].textContent = value === null ? "–" : format(value)));
    const most = Math.max(...points.flatMap((point) => point.values).filter((value) => value !== null), 0);
    lines.forEach((line, i) => line.setAttribute("d", path(points, i, time, most)));
    highest.textContent = most > 0 ? format(most) : "";
    const known = series.map(({ name }, i) => `${name} ${values[i].textContent}`).join(", ");
    drawing.setAttribute("aria-label", `${title}, the last two minutes: now ${known}; the highest value is ${format(most)}`);
    note.textContent = about;
  }
  return { card, add };
}

/** Returns the line of a series, which is interrupted at gaps. */
function path(points, series, now, most) {
  let before = null;
  const parts = points.map(({ time, values }) => {
    const value = values[series];
    const isJoined = before !== null && time - before <= GAP;
    before = value === null ? null : time;
    if (value === null) return "";
    const x = (1 - (now - time) / SPAN) * WIDTH;
    const y = HEIGHT - 2 - (most > 0 ? value / most : 0) * (HEIGHT - 6);
    return `${isJoined ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return parts.join("");
}
