// Explanations of why a search found nothing or little, based on the server's answer.

import { isOfNgrams } from "./ask.js";
import { byId, el } from "./dom.js";
import { plural } from "./format.js";

/** Characters with a meaning in the syntax. */
const SIGNS = /[-+":()^*~<>=[\]{}\\]/;

/**
 * Shows the explanations. `without` has functions that search without filters or without the
 * syntax.
 */
export function show(what, answer, without) {
  byId("why").replaceChildren(...(answer ? reasons(what, answer, without) : []));
}

function reasons(what, answer, without) {
  const found = answer.hits.length > 0;
  const lines = [];
  const say = (text) => lines.push(el("p", {}, text));
  if (answer.missing?.length > 0) lines.push(el("p", {}, "In no document: ", answer.missing.flatMap((word) => [el("b", {}, word), " "])));
  if (isOfNgrams(what.of)) {
    if (!found && what.hasText) say(ofNgrams(what, answer));
    if (answer.unverified > 0) say(`${plural(answer.unverified, "candidate")} could not be verified in time.`);
    return lines;
  }
  if (answer.matches !== 0) return lines;
  const isFiltered = what.filter !== undefined;
  const hasSigns = what.words.syntax && SIGNS.test(what.text);
  if (what.of.documents === 0) say("The index has no documents.");
  else if (hasSigns && lines.length === 0 && !isFiltered) say("No document meets all that the query wants: words with + but without those with -, exact phrases, and conditions.");
  else if (what.hasText && lines.length === 0 && !isFiltered) say("The query has no word to search for: it has only signs, or words that the index omits, such as “the”.");
  if (isFiltered) say("Filters are in use.");
  const way = (label, go) => el("button", { type: "button", class: "quiet", onclick: go }, label);
  const ways = [isFiltered && way("Search without filters", without.filters), hasSigns && way("Search for the words alone", without.syntax)].filter(Boolean);
  if (ways.length > 0) lines.push(el("p", { class: "ways" }, ways));
  return lines;
}

const named = { char: "characters", word: "words" };

function ofNgrams({ of }, { ngrams, least }) {
  if (ngrams === 0) return `The phrase is too short: it has no n-gram${of.ngrams ? ` (${of.ngrams.n} ${named[of.ngrams.unit]})` : ""}.`;
  return `No document has ${least} of the ${plural(ngrams, "n-gram")} of the phrase. More errors can be allowed above.`;
}

/** Shows the error of a query that cannot be parsed. */
export function unread(error, withoutSyntax) {
  byId("why").replaceChildren(
    el("p", { class: "unread" }, error.message),
    el("p", { class: "ways" }, el("button", { type: "button", class: "quiet", onclick: withoutSyntax }, "Search for the words alone")),
  );
}
