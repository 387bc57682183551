// Hits: a title, the parts of texts that match, and on demand the explanation and the whole
// document.

import { get, inIndex, post } from "./api.js";
import { byId, el } from "./dom.js";
import { explained } from "./explain.js";
import { plural, score } from "./format.js";

/** Fields that may hold the title of a document, the best first. */
const TITLES = ["title", "name", "headline", "subject", "label"];
const SNIPPETS = 3;

let made = 0;

/** Creates the element of a hit. `search` is the search that found it. */
export function hit(hit, search) {
  const fields = distinct(hit.highlights ?? []);
  const title = TITLES.map((name) => fields.find(({ field }) => field === name || field.endsWith(`.${name}`))).find(Boolean);
  const others = fields.filter((field) => field !== title);
  const matching = others.filter(({ pieces }) => pieces.some((piece) => piece.match));
  const snippets = (matching.length > 0 ? matching : others.slice(0, 1)).slice(0, SNIPPETS);
  const more = el("div", { class: "opened", ".hidden": true });
  const label = `hit-${(made += 1)}`;
  const heading = title ? marked(title.pieces) : [el("span", { class: "id" }, hit.id)];
  const opener = (name, label, make) => el("button", { type: "button", class: "link", "aria-expanded": "false", "data-opens": name, onclick: (event) => open(event.currentTarget, more, make) }, label);
  return el(
    "li",
    {},
    el(
      "article",
      { tabindex: "-1", "data-id": hit.id, "aria-labelledby": label },
      el("h2", { id: label }, heading),
      snippets.map(({ field, pieces }) => el("p", { class: "snippet" }, others.length > 1 && el("span", { class: "of" }, field), marked(pieces))),
      el(
        "p",
        { class: "meta" },
        title && el("span", { class: "id" }, hit.id),
        sorted(hit, search),
        hit.grams ? grams(hit.grams) : el("span", {}, "score ", el("data", { class: "score", value: hit.score }, score(hit.score))),
        !hit.grams && opener("score", "Why this score", () => explanation(hit, search)),
        opener("document", "Document", () => source(hit, search)),
      ),
      more,
    ),
  );
}

/** Removes sub-fields with the same text as another field. */
function distinct(fields) {
  const text = ({ pieces }) => pieces.map((piece) => piece.text).join("");
  const best = new Map();
  for (const field of fields) {
    const known = best.get(text(field));
    const matches = ({ pieces }) => pieces.filter((piece) => piece.match).length;
    if (!known || matches(field) > matches(known)) best.set(text(field), field);
  }
  return fields.filter((field) => best.get(text(field)) === field);
}

/** Shows the value that the hit was sorted by, unless it was the score. */
function sorted({ sort }, search) {
  if (!search.sort || search.sort.field === "_score") return null;
  const value = sort[0] === null ? "none" : String(sort[0]).replace("T00:00:00.000Z", "");
  return el("span", { class: "sorted" }, `${search.sort.field.replace(/\.keyword$/, "")} ${value}`);
}

/** Shows how many n-grams of the phrase the document has. */
function grams({ found, of, distance }) {
  return el("span", { class: "grams" }, `${found} of ${plural(of, "n-gram")}${distance === undefined ? "" : `, ${plural(distance, "error")}`}`);
}

const marked = (pieces) => pieces.map(({ text, match }) => (match ? el("mark", {}, text) : text));

/** Opens the part of a hit that belongs to a button, or closes it. */
async function open(button, place, make) {
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  for (const other of button.parentElement.querySelectorAll("[aria-expanded]")) other.setAttribute("aria-expanded", "false");
  place.hidden = wasOpen;
  if (wasOpen) return;
  button.setAttribute("aria-expanded", "true");
  try {
    const made = await make();
    // In the meantime, another part may have been opened, or this one closed.
    if (button.getAttribute("aria-expanded") === "true") place.replaceChildren(made);
  } catch (error) {
    place.replaceChildren(el("p", { class: "notice bad", role: "alert" }, error.message));
  }
}

async function explanation({ id }, { index, words, filter }) {
  const only = { ids: { values: [id] } };
  const body = { ...words, filter: filter ? { bool: { filter: [filter, only] } } : only, k: 1, documents: false, explain: true };
  const { hits } = await post(inIndex(index, "search"), body);
  return hits.length > 0 ? explained(hits[0].explanation) : el("p", { class: "hint" }, "The document no longer matches.");
}

async function source({ id, document, grams }, { index }) {
  try {
    // Hits of n-gram searches include their documents.
    if (!grams) ({ document } = await get(inIndex(index, "documents", id)));
  } catch (error) {
    if (error.status !== 404) throw error;
    document = null;
  }
  if (document === null) return el("p", { class: "hint" }, "The document is not available: the index stores only ids, or the document has been deleted.");
  return el("pre", { tabindex: "0", "aria-label": "Document" }, JSON.stringify(document, null, 2));
}

/**
 * Handles keys: arrows move from the search box through the hits, Enter and e open parts of a
 * hit, and Escape goes back.
 */
export function listen() {
  const all = () => [...document.querySelectorAll("#hits article")];
  const go = (to) => {
    to?.focus();
    to?.scrollIntoView({ block: "nearest" });
  };
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || all().length === 0) return;
    event.preventDefault();
    go(all()[0]);
  });
  byId("hits").addEventListener("keydown", (event) => {
    const at = event.target.closest("article");
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const [articles, isHit] = [all(), event.target === at];
    const number = articles.indexOf(at);
    const click = (name) => at.querySelector(`[data-opens=${name}]`)?.click();
    const next = () => (number + 1 < articles.length ? go(articles[number + 1]) : byId("more").hidden || byId("more").focus());
    const keys = {
      ArrowDown: next,
      ArrowUp: () => go(number > 0 ? articles[number - 1] : byId("query")),
      Escape: () => (isHit ? byId("query").focus() : at.focus()),
      Enter: isHit && (() => click("document")),
      e: isHit && (() => click("score")),
    };
    // The arrow keys scroll the text of a document.
    const inText = event.target.closest("pre") && event.key !== "Escape";
    if (!keys[event.key] || inText) return;
    event.preventDefault();
    keys[event.key]();
  });
}
