// The search view: hits as you type.

import { get, inIndex, isAborted, post } from "./api.js";
import { byId, el } from "./dom.js";
import * as facets from "./facets.js";
import * as filters from "./filters.js";
import { plural } from "./format.js";
import * as hits from "./hits.js";
import { problem } from "./problem.js";
import { name as rangeName } from "./ranges.js";
import * as trace from "./trace.js";

/** Hits of a page, and characters of a part of a text. */
const PAGE = 10;
const WIDTH = 240;
/** Milliseconds without a key before a search begins, and between looks for the first index. */
const PAUSE = 120;
const AGAIN = 3000;

let indexes = [];
let index = null;
let chosen = new Map();
/** Ends the requests of an earlier search, whose answers nobody wants any more. */
let running = new AbortController();
let waiting = 0;
let listening = false;

export async function enter(parameters, isNew) {
  if (!listening) listen();
  if (!isNew && parameters.toString() === address().toString()) return;
  byId("query").value = parameters.get("q") ?? byId("query").value;
  if (parameters.has("index") || parameters.has("f")) chosen = filters.read(parameters.get("f"));
  await start(parameters.get("index") ?? index?.name);
  // Where the focus brings up a keyboard, somebody has to want it.
  const isHandheld = matchMedia("(pointer: coarse)").matches;
  if (isNew && !isHandheld && !byId("found").hidden) byId("query").focus({ preventScroll: true });
}

export function leave() {
  clearTimeout(waiting);
  running.abort();
}

/** Learns which indexes there are, and searches one. */
async function start(wanted) {
  clearTimeout(waiting);
  running.abort();
  running = new AbortController();
  try {
    ({ indexes } = await get("status", running.signal));
  } catch (error) {
    if (isAborted(error)) return;
    failed(error, () => start(wanted));
    // A server that is starting, or gone, may be there in a moment.
    if (error.status === 503 || error.status === 0) waiting = setTimeout(() => start(wanted), AGAIN);
    return;
  }
  problem(null);
  index = indexes.find(({ name }) => name === wanted) ?? indexes[0] ?? null;
  byId("index").replaceChildren(...indexes.map(({ name }) => el("option", { value: name, ".selected": name === index?.name }, name)));
  const [isEmpty, wasEmpty] = [indexes.length === 0, !byId("empty").hidden];
  byId("empty").hidden = !isEmpty;
  byId("found").hidden = byId("search-form").hidden = isEmpty;
  if (isEmpty) {
    showEmpty();
    waiting = setTimeout(() => start(wanted), AGAIN);
    return;
  }
  const isOther = wanted && index.name !== wanted;
  if (isOther) chosen = new Map();
  if (wasEmpty && document.activeElement === document.body) byId("query").focus();
  await search();
  if (isOther) problem(new Error(`There is no index ${wanted}; this is ${index.name}.`));
}

function listen() {
  listening = true;
  hits.listen();
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("query").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, PAUSE);
  });
  byId("index").addEventListener("change", () => {
    chosen = new Map();
    start(byId("index").value);
  });
  byId("more").addEventListener("click", more);
  // There is no room beside the hits; whoever wants filters opens them.
  if (matchMedia("(max-width: 45rem)").matches) byId("filters").open = false;
}

function address() {
  const parameters = new URLSearchParams({ index: index?.name ?? "" });
  if (byId("query").value) parameters.set("q", byId("query").value);
  const written = filters.write(chosen);
  if (written) parameters.set("f", written);
  return parameters;
}

/** What is searched for now. */
function asked() {
  const text = byId("query").value;
  return { index: index.name, query: text.trim() ? text : { match_all: {} }, filter: filters.asQuery(chosen) };
}

function page({ index, query, filter }, from, signal) {
  const body = { query, filter, k: PAGE, from, count: true, documents: false, highlight: { width: WIDTH, all: true } };
  return post(inIndex(index, "search"), body, signal);
}

async function search() {
  clearTimeout(waiting);
  running.abort();
  const mine = (running = new AbortController());
  history.replaceState(null, "", `#/search?${address()}`);
  const what = asked();
  for (const place of ["hits", "facets"]) byId(place).setAttribute("aria-busy", "true");
  showChosen();
  try {
    const answer = await page(what, 0, mine.signal);
    if (mine.signal.aborted) return;
    problem(null);
    byId("hits").replaceChildren(...(answer.matches === 0 && chosen.size > 0 ? [unfiltered()] : answer.hits.map((hit) => hits.hit(hit, what))));
    showCount(answer);
    trace.show(answer);
    byId("hits").removeAttribute("aria-busy");
    // Counts may take longer than hits, which neither wait for them nor share the cores with them.
    const counted = await facets.counted(index, what.query, chosen, mine.signal);
    if (!mine.signal.aborted) facets.show(counted, chosen, search);
  } catch (error) {
    if (!isAborted(error)) failed(error, search);
  }
}

/** The next hits, below those that are there. */
async function more() {
  const [what, from] = [asked(), document.querySelectorAll("#hits article").length];
  byId("more").disabled = true;
  try {
    const answer = await page(what, from, running.signal);
    const items = answer.hits.map((hit) => hits.hit(hit, what));
    byId("hits").append(...items);
    showCount(answer);
    trace.show(answer);
    items[0]?.querySelector("article").focus();
  } catch (error) {
    if (!isAborted(error)) problem(error);
  }
  byId("more").disabled = false;
}

function showCount({ matches }) {
  const shown = document.querySelectorAll("#hits article").length;
  const text = matches === 0 ? "No matches" : `${plural(matches, "match", "matches")}${shown < matches ? `, ${shown} shown` : ""}`;
  byId("count").textContent = text;
  byId("more").hidden = shown >= matches;
}

/** A way out of filters that admit nothing. */
function unfiltered() {
  const clear = () => {
    chosen.clear();
    byId("query").focus();
    search();
  };
  return el("li", {}, el("button", { type: "button", class: "quiet", onclick: clear }, "Search without filters"));
}

/** The filters in use, each with a button that takes it away. */
function showChosen() {
  const chip = (field, kind, value, label) => {
    const remove = () => {
      filters.toggle(chosen, field, kind, value);
      byId("query").focus();
      search();
    };
    return el("button", { type: "button", class: "chip", onclick: remove, "aria-label": `Remove the filter ${field}: ${label}` }, `${field.replace(/\.keyword$/, "")}: ${label}`, el("span", { "aria-hidden": "true" }, " ×"));
  };
  const typeOf = (field) => index.fields.find(({ name }) => name === field)?.type;
  const chips = [...chosen].flatMap(([field, { values, ranges }]) => [
    ...values.map((value) => chip(field, "values", value, String(value))),
    ...ranges.map((range) => chip(field, "ranges", range, rangeName(range, typeOf(field)))),
  ]);
  byId("chosen").replaceChildren(...chips);
}

/** Hits of another query would be misleading, so they go. */
function failed(error, again) {
  for (const place of ["hits", "facets"]) byId(place).removeAttribute("aria-busy");
  byId("hits").replaceChildren();
  byId("count").textContent = "";
  byId("more").hidden = true;
  trace.show(null);
  // An index that is gone is not there the next time either; others may be.
  const retry = error.status === 404 ? () => start(index.name) : again;
  problem(error, () => {
    problem(null);
    retry();
  });
}

/** How to begin, if there is nothing yet. */
function showEmpty() {
  const origin = new URL("..", document.baseURI).href.replace(/\/$/, "");
  const put = `curl -X PUT '${origin}/books/_doc/1?refresh' \\\n  -H 'content-type: application/json' \\\n  -d '{"title": "Emma", "author": "Jane Austen", "year": 1815}'`;
  byId("empty").replaceChildren(
    el("h2", {}, "There are no indexes yet"),
    el("p", {}, "Put a document into one, and it is made with it:"),
    el("pre", { tabindex: "0", "aria-label": "Command" }, put),
    el("p", {}, "A file of documents, one JSON object a line, becomes an index before the server starts:"),
    el("pre", { tabindex: "0", "aria-label": "Command" }, "warpseek index docs.jsonl -o DIR/books\nwarpseek serve DIR"),
    el("p", { class: "hint" }, "This page looks again every few seconds."),
  );
}
