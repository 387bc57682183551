// Why a search found nothing, or less than somebody may expect, by what the server says of the query.

import { isOfNgrams } from "./ask.js";
import { byId, el } from "./dom.js";
import { plural } from "./format.js";

/** What means something in the syntax. */
const SIGNS = /[-+":()^*~<>=[\]{}\\]/;

/** Says what is known. `without` are ways out: functions that search without filters, or without the syntax. */
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
  else if (hasSigns && lines.length === 0 && !isFiltered) say("No document meets all that the query wants: words with + but not with -, phrases as they stand, and conditions.");
  else if (what.hasText && lines.length === 0 && !isFiltered) say("The query has no word to search for: signs alone, or words that the index leaves out, such as “the”.");
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

/** A query that cannot be read. */
export function unread(error, withoutSyntax) {
  byId("why").replaceChildren(
    el("p", { class: "unread" }, error.message),
    el("p", { class: "ways" }, el("button", { type: "button", class: "quiet", onclick: withoutSyntax }, "Search for the words alone")),
  );
}
