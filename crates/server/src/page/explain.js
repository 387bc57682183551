// The explanation of a hit's score: the contribution of each term, as a bar and as a number.

import { el } from "./dom.js";
import { count, plural, score, short } from "./format.js";

/** Creates a table with a bar in each row. The rows add up to the last one. */
export function explained({ score: whole, terms, static_score, other }) {
  const found = terms.filter((term) => term.score > 0).sort((a, b) => b.score - a.score);
  const rows = found.map((term) => ({ what: term.term, of: term.field, value: term.score, about: about(term) }));
  if (static_score !== 0) rows.push({ what: "The document itself", value: static_score, about: "its static score" });
  if (other !== 0) rows.push({ what: "Conditions", value: other, about: other > 0 ? "that have a score" : "only the best field counts" });
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), Number.MIN_VALUE);
  const row = ({ what, of, value, about }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("span", { class: "term" }, what), of && el("span", { class: "of" }, ` in ${of}`), el("small", {}, about)),
      el("td", {}, el("span", { class: value < 0 ? "meter less" : "meter", "aria-hidden": "true" }, el("span", { "--share": Math.abs(value) / most })), el("data", { value }, score(value))),
    );
  const missing = [...new Set(terms.map((term) => term.term))].filter((term) => !terms.some((other) => other.term === term && other.occurrences > 0));
  return el(
    "div",
    { class: "explained" },
    el(
      "table",
      {},
      el("caption", {}, rows.length > 0 ? "What adds to the score" : "No term adds to the score: all matches have the same score."),
      el("thead", { class: "unseen" }, el("tr", {}, el("th", { scope: "col" }, "Term"), el("th", { scope: "col" }, "Adds"))),
      el("tbody", {}, rows.map(row)),
      el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "Score"), el("td", {}, el("data", { value: whole }, score(whole))))),
    ),
    missing.length > 0 && el("p", { class: "hint" }, `Not in this document: ${missing.join(", ")}`),
  );
}

function about({ occurrences, length, mean_length, documents, idf }) {
  return `${occurrences === 1 ? "once" : `${count(occurrences)} times`} in ${plural(length, "word")} (mean ${short(mean_length)}); in ${plural(documents, "document")}, idf ${short(idf)}`;
}
