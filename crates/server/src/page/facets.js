// Counts of matches by the fields of an index. Each of them can narrow the search.

import { inIndex, post } from "./api.js";
import { byId, el } from "./dom.js";
import { asQuery, has, setTyped, toggle } from "./filters.js";
import { count } from "./format.js";
import { divide, name } from "./ranges.js";

/** Maximum number of fields, of values of a field, and of values after a click for more. */
const FIELDS = 12;
const VALUES = 8;
const MORE_VALUES = 100;
/**
 * Number of sample values that decide how to divide a number field; up to FEW values are listed
 * individually.
 */
const SAMPLE = 512;
const FEW = 8;

const NUMBERS = ["long", "double", "date"];
const PLAIN = ["keyword", "boolean"];

/** The division of number fields, by index; null means that values are counted individually. */
const scales = new Map();
/** The fields whose list of values is expanded. */
const expanded = new Set();

const fieldsOf = (index) => index.fields.filter(({ type }) => PLAIN.includes(type) || NUMBERS.includes(type)).slice(0, FIELDS);

/**
 * Counts matches by each field. A field that cannot be counted has an error instead. `words` is
 * the query and the way to read it.
 */
export async function counted(index, words, filters, signal) {
  const scale = await scaleOf(index, signal);
  const fields = fieldsOf(index);
  // The values of a field are counted without the filter on that field, so that another value can
  // be chosen.
  const searches = fields.map(({ name, type }) => {
    const ranges = scale.get(name);
    const top = expanded.has(name) ? MORE_VALUES : VALUES;
    const facets = NUMBERS.includes(type) && ranges ? [{ field: name, ranges }] : [{ field: name, top }];
    return { ...words, filter: asQuery(filters, name), k: 0, documents: false, count: true, facets };
  });
  if (searches.length === 0) return [];
  const { results } = await post(inIndex(index.name, "batch"), { searches }, signal);
  return fields.map((field, i) => ({ ...field, ...results[i].facets?.[0], matches: results[i].matches, error: results[i].error }));
}

/** Divides the number fields of an index by a sample of all values. */
async function scaleOf(index, signal) {
  const known = scales.get(index.name);
  const numbers = fieldsOf(index).filter(({ type }) => NUMBERS.includes(type));
  if (known?.generation === index.generation || numbers.length === 0) return known?.scale ?? new Map();
  const searches = numbers.map(({ name }) => ({ query: { match_all: {} }, k: 0, documents: false, facets: [{ field: name, top: SAMPLE }] }));
  const { results } = await post(inIndex(index.name, "batch"), { searches }, signal);
  const scale = new Map();
  numbers.forEach(({ name, type }, i) => {
    const found = results[i].facets?.[0];
    const isFew = found && found.distinct <= FEW;
    // Ranges without bounds divide nothing. Such a field only offers a range to type.
    scale.set(name, isFew ? null : divide(found?.values ?? [], type));
  });
  scales.set(index.name, { generation: index.generation, scale });
  return scale;
}

/** Shows the counts. `changed` is called when the user chooses one. */
export function show(facets, filters, changed) {
  const place = byId("facets");
  place.removeAttribute("aria-busy");
  // The focused element keeps the focus and any text typed into it.
  const active = document.activeElement?.closest("#facets [data-key]");
  const [focused, draft] = [active?.dataset.key, active?.value];
  // A message that concerns all fields, such as a GPU that does not count, is shown once.
  const reasons = new Set(facets.map(({ error }) => error?.reason));
  const [reason] = reasons.size === 1 ? reasons : [];
  if (reason) {
    place.replaceChildren(el("p", { class: "hint" }, reason));
    return;
  }
  const groups = facets.map((facet) => group(facet, filters, changed)).filter(Boolean);
  place.replaceChildren(...(groups.length > 0 ? groups : [el("p", { class: "hint" }, "This index has no fields to filter by: keywords, numbers, booleans or dates.")]));
  const again = focused && place.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  if (!again) return;
  if (again.closest(".typed")) again.value = draft;
  again.focus();
}

function group(facet, filters, changed) {
  const isNumber = NUMBERS.includes(facet.type);
  const lines = facet.ranges ? rangeLines(facet, filters) : valueLines(facet, filters);
  // Values that are all different, such as titles, narrow nothing.
  const useless = !isNumber && (facet.distinct ?? 0) > FEW && facet.values?.[0]?.count === 1;
  if (!filters.has(facet.name) && (useless || (lines.length === 0 && !isNumber))) return null;
  const boxes = lines.map(({ label, kind, value, number, checked }) => {
    const change = () => {
      toggle(filters, facet.name, kind, value);
      changed();
    };
    const box = el("input", { type: "checkbox", ".checked": checked, onchange: change, "data-key": `${facet.name} ${JSON.stringify(value)}` });
    return el("li", {}, el("label", { class: "choice" }, box, el("span", { class: "value" }, label), el("span", { class: "number" }, count(number))));
  });
  const more = () => {
    if (expanded.has(facet.name)) expanded.delete(facet.name);
    else expanded.add(facet.name);
    changed();
  };
  const others = !facet.ranges && (expanded.has(facet.name) || facet.distinct > facet.values?.length);
  return el(
    "fieldset",
    {},
    el("legend", {}, facet.name.replace(/\.keyword$/, "")),
    facet.error && el("p", { class: "hint" }, facet.error.reason),
    el("ul", { class: "choices" }, boxes),
    others && el("button", { type: "button", class: "link", onclick: more, "data-key": `${facet.name} more` }, expanded.has(facet.name) ? "Fewer" : `${count(facet.distinct - facet.values.length)} more`),
    isNumber && facet.ranges && typedRange(facet, filters, changed),
  );
}

function valueLines(facet, filters) {
  const line = ({ value, count: number }) => ({ label: String(value).replace("T00:00:00.000Z", ""), kind: "values", value, number, checked: has(filters, facet.name, "values", value) });
  const lines = (facet.values ?? []).map(line);
  if (NUMBERS.includes(facet.type)) lines.sort((a, b) => (a.value < b.value ? -1 : 1));
  // Chosen values stay, even if nothing matches them any more.
  const chosen = filters.get(facet.name)?.values ?? [];
  const missing = chosen.filter((value) => !lines.some((line) => line.value === value));
  return [...lines, ...missing.map((value) => line({ value, count: 0 }))];
}

function rangeLines(facet, filters) {
  return facet.ranges.map(({ from, to, count: number }) => {
    const value = {};
    if (from !== null) value.from = from;
    if (to !== null) value.to = to;
    return { label: name(value, facet.type), kind: "ranges", value, number, checked: has(filters, facet.name, "ranges", value) };
  }).filter(({ number, checked }) => number > 0 || checked);
}

/** Creates two inputs for a range that the user types. */
function typedRange(facet, filters, changed) {
  const known = filters.get(facet.name)?.ranges.find((range) => range.typed) ?? {};
  const isDate = facet.type === "date";
  const input = (end, label) =>
    el("label", {}, el("span", { class: "unseen" }, `${facet.name} ${label}`), el("input", { type: isDate ? "date" : "number", step: facet.type === "long" ? "1" : "any", placeholder: label, ".value": known[end] ?? "", onchange: read, "data-key": `${facet.name} ${end}`, "data-end": end }));
  function read(event) {
    const range = {};
    for (const { dataset, value, valueAsNumber } of event.target.closest(".typed").querySelectorAll("input")) {
      if (value !== "") range[dataset.end] = isDate ? value : valueAsNumber;
    }
    setTyped(filters, facet.name, range);
    changed();
  }
  return el("div", { class: isDate ? "typed dates" : "typed" }, input("from", "from"), el("span", { "aria-hidden": "true" }, "–"), input("to", "to"));
}
