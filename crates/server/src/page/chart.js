// Small charts of the last minutes: one line for each series, from the left to now.

import { el, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 56;
/** Points that are kept: two minutes, one a second. */
export const POINTS = 120;

/** A card with a chart. `format` writes a value; series have a name and a class each. */
export function chart(title, series, format) {
  const history = series.map(() => []);
  const lines = series.map(({ style }) => svg("polyline", { class: style }));
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, lines);
  const values = series.map(() => el("dd", {}, "–"));
  const terms = series.map(({ name, style }, i) => el("div", {}, el("dt", { class: style }, name), values[i]));
  const note = el("p", { class: "hint" });
  const card = el("section", { class: "card" }, el("h2", {}, title), el("dl", {}, terms), drawing, note);

  /** Adds a value for each series; null where there is none. */
  function add(now, about = "") {
    now.forEach((value, i) => {
      history[i].push(value);
      if (history[i].length > POINTS) history[i].shift();
      values[i].textContent = value === null ? "–" : format(value);
    });
    const most = Math.max(...history.flat().filter((value) => value !== null), 0);
    history.forEach((points, i) => {
      const places = points.map((value, at) => value !== null && place(value, at, points.length, most));
      lines[i].setAttribute("points", places.filter(Boolean).join(" "));
    });
    const known = series.map(({ name }, i) => `${name} ${values[i].textContent}`).join(", ");
    drawing.setAttribute("aria-label", `${title}, the last ${history[0].length} seconds: now ${known}; the highest value is ${format(most)}`);
    note.textContent = about;
  }
  return { card, add };
}

function place(value, at, count, most) {
  const x = ((POINTS - count + at) / (POINTS - 1)) * WIDTH;
  const y = HEIGHT - 2 - (most > 0 ? value / most : 0) * (HEIGHT - 6);
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}
