// Options of a search: the syntax of its text, the order of hits, and the errors allowed in
// n-gram searches.

import { isOfNgrams } from "./ask.js";
import { byId, el } from "./dom.js";

const SORTED = ["keyword", "long", "double", "boolean", "date"];
const SCORE = "_score";
/** Errors that an n-gram search may allow; no value means the server's default. */
const ALLOWED = [
  ["", "default", {}],
  ...[0, 1, 2, 3, 4, 5].map((errors) => [`e${errors}`, errors === 1 ? "1 wrong character" : `${errors} wrong characters`, { errors }]),
  ...[10, 25, 50, 75].map((share) => [`m${share}`, `${share} % of the n-grams missing`, { misses: `${share}%` }]),
];

/** The user's choices; null where the index decides. */
let syntax = null;
let sort = null;

/** Reads the choices from an address. */
export function read(parameters) {
  syntax = parameters.has("syntax") ? parameters.get("syntax") === "1" : null;
  const [field, order] = (parameters.get("sort") ?? "").split(/:(asc|desc)$/);
  sort = field && order ? { field, order } : null;
  byId("allowed").value = ALLOWED.some(([name]) => name === parameters.get("allow")) ? parameters.get("allow") : "";
  byId("verify").checked = parameters.get("verify") !== "0";
}

/** Adds the choices to an address. */
export function write(index, parameters) {
  if (isOfNgrams(index)) {
    if (byId("allowed").value) parameters.set("allow", byId("allowed").value);
    if (!byId("verify").checked) parameters.set("verify", "0");
    return;
  }
  if (syntax !== null && syntax !== isUsual(index)) parameters.set("syntax", syntax ? "1" : "0");
  if (sort) parameters.set("sort", `${sort.field}:${sort.order}`);
}

/** Resets the choices when another index is selected. */
export function forget() {
  [syntax, sort] = [null, null];
}

const isUsual = (index) => index.syntax === true;
const isSyntax = (index) => syntax ?? isUsual(index);

/** Returns the options of a search. */
export function chosen(index) {
  const [, , allowed] = ALLOWED.find(([name]) => name === byId("allowed").value);
  return { isSyntax: isSyntax(index), sort, allowed, isVerified: byId("verify").checked };
}

/** Switches to plain words, in which signs have no meaning. */
export function withoutSyntax(index) {
  syntax = false;
  show(index);
}

/** Shows the options that an index offers. */
export function show(index) {
  const ofNgrams = isOfNgrams(index);
  for (const [place, isShown] of [["of-words", !ofNgrams], ["of-ngrams", ofNgrams], ["order-of-hits", !ofNgrams], ["filters", !ofNgrams]]) byId(place).hidden = !isShown;
  byId("found").classList.toggle("alone", ofNgrams);
  byId("syntax").checked = isSyntax(index);
  const fields = index.fields.filter(({ type }) => SORTED.includes(type)).map(({ name }) => name);
  // A field that no longer exists cannot be sorted by.
  if (sort && sort.field !== SCORE && !fields.includes(sort.field)) sort = null;
  const option = (name, label) => el("option", { value: name, ".selected": name === (sort?.field ?? SCORE) }, label);
  byId("sort").replaceChildren(option(SCORE, "score"), ...fields.map((name) => option(name, name.replace(/\.keyword$/, ""))));
  byId("order").value = sort?.order ?? "desc";
}

/** Calls `changed` when the user changes an option. */
export function listen(changed) {
  byId("allowed").replaceChildren(...ALLOWED.map(([name, label]) => el("option", { value: name }, label)));
  byId("syntax").addEventListener("change", () => {
    syntax = byId("syntax").checked;
    changed();
  });
  const order = (field, order) => {
    // The order by descending score is the default.
    sort = field === SCORE && order === "desc" ? null : { field, order };
    byId("order").value = order;
    changed();
  };
  byId("sort").addEventListener("change", () => order(byId("sort").value, byId("sort").value === SCORE ? "desc" : "asc"));
  byId("order").addEventListener("change", () => order(byId("sort").value, byId("order").value));
  for (const name of ["allowed", "verify"]) byId(name).addEventListener("change", changed);
}
