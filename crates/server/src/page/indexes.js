// The view of indexes: their sizes, their fields, and the devices that search them.

import { get, isAborted, mayComeBack } from "./api.js";
import { isOfNgrams } from "./ask.js";
import { byId, el } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { problem } from "./problem.js";

/** Milliseconds between attempts to reach a server that does not answer. */
const AGAIN = 3000;

let running = null;
let waiting = 0;
let listening = false;

export function enter() {
  if (!listening) byId("indexes-again").addEventListener("click", load);
  listening = true;
  load();
}

export function leave() {
  clearTimeout(waiting);
  running?.abort();
}

async function load() {
  clearTimeout(waiting);
  running?.abort();
  const mine = (running = new AbortController());
  try {
    const { indexes } = await get("status", mine.signal);
    if (mine.signal.aborted) return;
    problem(null);
    const place = byId("indexes-list");
    // Expanded lists of fields stay expanded.
    const open = new Set([...place.querySelectorAll("details[open]")].map(({ dataset }) => dataset.index));
    place.replaceChildren(indexes.length > 0 ? table(indexes) : nothing());
    for (const details of place.querySelectorAll("details")) details.open = open.has(details.dataset.index);
  } catch (error) {
    if (isAborted(error)) return;
    byId("indexes-list").replaceChildren();
    problem(error, load);
    if (mayComeBack(error)) waiting = setTimeout(load, AGAIN);
  }
}

const nothing = () => el("p", { class: "notice" }, "There are no indexes yet. The ", el("a", { href: "#/search" }, "search view"), " explains how to create one.");

function table(indexes) {
  const columns = ["Index", "Documents", "Deleted", "Size", "Segments", "Fields", "Searched on"];
  const row = (index) => {
    const link = el("a", { href: `#/search?${new URLSearchParams({ index: index.name })}` }, index.name);
    const cells = [count(index.documents), count(index.deleted), bytes(index.bytes), count(index.segments), fields(index), residency(index)];
    return el("tr", {}, el("th", { scope: "row" }, link), cells.map((cell, i) => el("td", { "data-label": columns[i + 1], class: i < 4 ? "number" : null }, el("div", {}, cell))));
  };
  return el(
    "table",
    { class: "indexes" },
    el("caption", { class: "unseen" }, plural(indexes.length, "index", "indexes")),
    el("thead", {}, el("tr", {}, columns.map((name, i) => el("th", { scope: "col", class: i > 0 && i < 5 ? "number" : null }, name)))),
    el("tbody", {}, indexes.map(row)),
  );
}

function fields(of) {
  const { name: index, fields } = of;
  if (isOfNgrams(of)) return of.ngrams ? `n-grams of ${of.ngrams.n} ${of.ngrams.unit === "word" ? "words" : "characters"}` : "n-grams";
  if (fields.length === 0) return "none";
  const list = fields.map(({ name, type }) => el("li", {}, name, " ", el("span", { class: "type" }, type)));
  return el("details", { "data-index": index }, el("summary", {}, plural(fields.length, "field")), el("ul", { class: "fields" }, list));
}

function residency({ residency: { gpu, why_not, gpus } }) {
  if (!gpu && !why_not) return "CPU";
  const on = gpus.map(({ device, whole, used_bytes }) => `${device}: ${whole ? "all lists" : "lists loaded as needed"}, ${bytes(used_bytes)}`);
  return [...on, why_not && `CPU, because no GPU is used: ${why_not}`].filter(Boolean).join("; ") || gpu;
}
