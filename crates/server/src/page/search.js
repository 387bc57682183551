// The search view: hits as you type.

import { get, isAborted, mayComeBack } from "./api.js";
import { PAGE, asked, isOfNgrams, page, request } from "./ask.js";
import * as curl from "./curl.js";
import { byId, el } from "./dom.js";
import * as facets from "./facets.js";
import * as filters from "./filters.js";
import { plural } from "./format.js";
import * as hits from "./hits.js";
import * as options from "./options.js";
import { problem } from "./problem.js";
import { name as rangeName } from "./ranges.js";
import * as trace from "./trace.js";
import * as why from "./why.js";

/**
 * Milliseconds without input before a search begins, until the hits of the previous search
 * disappear, and between attempts to reach the server or find a first index.
 */
const PAUSE = 120;
const LATE = 1500;
const AGAIN = 3000;

let indexes = [];
let index = null;
let chosen = new Map();
/** The search that found the hits on the page. */
let shown = null;
/** Aborts the requests of an earlier search, whose answers are no longer needed. */
let running = new AbortController();
let waiting = 0;
let late = 0;
let listening = false;

export async function enter(parameters, isNew) {
  if (!listening) listen();
  if (!isNew && parameters.toString() === address().toString()) return;
  byId("query").value = parameters.get("q") ?? byId("query").value;
  if ([...parameters].length > 0) {
    chosen = filters.read(parameters.get("f"));
    options.read(parameters);
  }
  await start(parameters.get("index") ?? index?.name);
  // On touch screens, focusing the input would open the keyboard.
  const isHandheld = matchMedia("(pointer: coarse)").matches;
  if (isNew && !isHandheld && !byId("found").hidden) byId("query").focus({ preventScroll: true });
}

export function leave() {
  stop();
}

/** Cancels pending work, so that something else can begin. */
function stop() {
  clearTimeout(waiting);
  clearTimeout(late);
  running.abort();
  return (running = new AbortController());
}

/** Fetches the list of indexes and searches one. */
async function start(wanted) {
  const mine = stop();
  try {
    ({ indexes } = await get("status", mine.signal));
  } catch (error) {
    if (!isAborted(error)) failed(error, () => start(wanted));
    return;
  }
  problem(null);
  index = indexes.find(({ name }) => name === wanted) ?? indexes[0] ?? null;
  byId("index").replaceChildren(...indexes.map((of) => el("option", { value: of.name, ".selected": of.name === index?.name }, isOfNgrams(of) ? `${of.name} (n-grams)` : of.name)));
  const [isEmpty, wasEmpty] = [indexes.length === 0, !byId("empty").hidden];
  byId("empty").hidden = !isEmpty;
  byId("found").hidden = byId("search-form").hidden = isEmpty;
  if (isEmpty) {
    showEmpty();
    waiting = setTimeout(() => start(wanted), AGAIN);
    return;
  }
  const isOther = wanted && index.name !== wanted;
  if (isOther) forgetChoices();
  options.show(index);
  if (wasEmpty && document.activeElement === document.body) byId("query").focus();
  await search();
  if (isOther) problem(new Error(`There is no index ${wanted}; showing ${index.name}.`));
}

/** Resets filters and options, which belong to an index. */
function forgetChoices() {
  chosen = new Map();
  options.forget();
}

function listen() {
  listening = true;
  hits.listen();
  options.listen(() => search());
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("query").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, PAUSE);
  });
  byId("index").addEventListener("change", () => {
    forgetChoices();
    start(byId("index").value);
  });
  byId("more").addEventListener("click", more);
  byId("curl").addEventListener("click", () => curl.copy(request(shown, 0, Math.max(PAGE, count()))));
  // Narrow screens have no space next to the hits, so the filters start closed.
  if (matchMedia("(max-width: 45rem)").matches) byId("filters").open = false;
}

function address() {
  const parameters = new URLSearchParams({ index: index?.name ?? "" });
  if (byId("query").value) parameters.set("q", byId("query").value);
  const written = filters.write(chosen);
  if (written) parameters.set("f", written);
  if (index) options.write(index, parameters);
  return parameters;
}

/** Returns the number of hits on the page. */
const count = () => document.querySelectorAll("#hits article").length;

async function search() {
  // Without a server, there are no indexes to choose from; this tries to reach it again.
  if (!index) return start();
  const mine = stop();
  history.replaceState(null, "", `#/search?${address()}`);
  const what = asked(index, byId("query").value, { ...options.chosen(index), chosen });
  for (const place of ["hits", "facets"]) byId(place).setAttribute("aria-busy", "true");
  showChosen();
  if (isOfNgrams(index) && !what.hasText) {
    problem(null);
    clear("Type a phrase; it may be misspelt");
    return;
  }
  // Until then, the hits of the previous query stay, but faint.
  late = setTimeout(() => forget("Searching…"), LATE);
  try {
    const answer = await page(what, 0, mine.signal);
    clearTimeout(late);
    if (mine.signal.aborted) return;
    problem(null);
    byId("query").removeAttribute("aria-invalid");
    shown = what;
    curl.forget();
    byId("tools").hidden = false;
    byId("hits").replaceChildren(...answer.hits.map((hit) => hits.hit(hit, what)));
    showCount(answer);
    trace.show(answer);
    why.show(what, answer, { filters: withoutFilters, syntax: withoutSyntax });
    byId("hits").removeAttribute("aria-busy");
    // Counts may take longer than hits. They are requested afterwards, so that they neither delay
    // hits nor compete with them for cores.
    const counted = isOfNgrams(index) ? null : await facets.counted(index, what.words, chosen, mine.signal);
    if (mine.signal.aborted) return;
    if (counted) facets.show(counted, chosen, search);
    byId("facets").removeAttribute("aria-busy");
    byId("facets").classList.remove("stale");
  } catch (error) {
    if (isAborted(error)) return;
    clearTimeout(late);
    if (error.status === 400 && what.words.syntax) unread(error);
    else failed(error, search);
  }
}

/** Fetches the next hits and appends them. */
async function more() {
  const [what, from] = [shown, count()];
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

function showCount({ matches, hasMore }) {
  const found = matches ?? count();
  const some = matches === undefined ? plural(found, "hit") : plural(found, "match", "matches");
  byId("count").textContent = found === 0 ? "No matches" : `${some}${count() < found ? `, ${count()} shown` : ""}`;
  byId("more").hidden = !hasMore;
}

function withoutFilters() {
  chosen.clear();
  byId("query").focus();
  search();
}

function withoutSyntax() {
  options.withoutSyntax(index);
  byId("query").focus();
  search();
}

/** Shows the active filters, each with a button that removes it. */
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

/**
 * Removes the hits of another query, and the messages about them, since they would be misleading.
 */
function forget(text) {
  shown = null;
  byId("hits").replaceChildren();
  byId("count").textContent = text;
  byId("more").hidden = byId("tools").hidden = true;
  trace.show(null);
  why.show();
}

/**
 * Removes the hits when no answer comes. Filters can still be chosen, but are marked because
 * their counts belong to another query.
 */
function clear(text) {
  for (const place of ["hits", "facets"]) byId(place).removeAttribute("aria-busy");
  byId("facets").classList.add("stale");
  forget(text);
}

/** Shows the error of a query that cannot be parsed, perhaps because it is still being typed. */
function unread(error) {
  clear("");
  byId("query").setAttribute("aria-invalid", "true");
  problem(null);
  why.unread(error, withoutSyntax);
}

function failed(error, again) {
  clear("");
  // When the server is back, the index may have changed or disappeared. If it is gone, the next
  // attempt searches another one.
  const retry = error.status === 404 || (mayComeBack(error) && index) ? () => start(index.name) : again;
  problem(error, retry);
  if (mayComeBack(error)) waiting = setTimeout(retry, AGAIN);
}

/** Shows how to begin if there are no indexes. */
function showEmpty() {
  const origin = new URL("..", document.baseURI).href.replace(/\/$/, "");
  const put = `curl -X PUT '${origin}/books/_doc/1?refresh' \\\n  -H 'content-type: application/json' \\\n  -d '{"title": "Emma", "author": "Jane Austen", "year": 1815}'`;
  byId("empty").replaceChildren(
    el("h2", {}, "There are no indexes yet"),
    el("p", {}, "Put a document into an index, which creates the index:"),
    el("pre", { tabindex: "0", "aria-label": "Command" }, put),
    el("p", {}, "Or index a file of documents, one JSON object per line, before starting the server:"),
    el("pre", { tabindex: "0", "aria-label": "Command" }, "warpseek index docs.jsonl -o DIR/books\nwarpseek serve DIR"),
    el("p", { class: "hint" }, "This page checks again every few seconds."),
  );
}
