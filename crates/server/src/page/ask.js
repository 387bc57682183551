// What is searched for, and the requests that ask for it: of words, or of n-grams.

import { inIndex, post } from "./api.js";
import * as filters from "./filters.js";

/** Hits of a page, and characters of a part of a text. */
export const PAGE = 10;
const WIDTH = 240;
/** Hits of which the edit distance is computed, if no more are shown. */
const CANDIDATES = 100;

export const isOfNgrams = (index) => index.kind === "ngrams" || index.ngrams !== undefined;

/** A search as somebody has it on the page. `isSyntax` says how the text is read, `sort` is null for the usual order, and `allowed` and `isVerified` are about n-grams. */
export function asked(index, text, { isSyntax, chosen, sort, allowed, isVerified }) {
  const hasText = text.trim() !== "";
  const words = hasText ? { query: text, ...(isSyntax && { syntax: true }) } : { query: { match_all: {} } };
  return { of: index, index: index.name, text, hasText, words, filter: filters.asQuery(chosen), sort, allowed, isVerified };
}

/** The request for `k` hits behind the first `from`. The best hits of n-grams cannot begin later, so all of them are asked for. */
export function request(what, from, k) {
  if (isOfNgrams(what.of)) {
    const most = from + k;
    const body = { query: what.text, k: most, ...what.allowed };
    if (what.isVerified) Object.assign(body, { verify: true, candidates: Math.max(most, CANDIDATES) });
    return { path: inIndex(what.index, "ngram"), body };
  }
  const { words, filter, sort } = what;
  const body = { ...words, filter, k, from, count: true, documents: false, highlight: { width: WIDTH, all: true } };
  if (sort) body.sort = [sort];
  return { path: inIndex(what.index, "search"), body };
}

/** A page of hits. It `hasMore` if there are others behind it. */
export async function page(what, from, signal) {
  const { path, body } = request(what, from, PAGE);
  const answer = await post(path, body, signal);
  if (!isOfNgrams(what.of)) return { ...answer, hasMore: from + answer.hits.length < answer.matches };
  const hits = answer.hits.slice(from).map((hit) => ofNgrams(hit, answer));
  return { ...answer, hits, hasMore: answer.hits.length === body.k };
}

/** A hit of n-grams with the parts that other hits have: its title, and the part of its text that was found, which may be the title. */
function ofNgrams(hit, { ngrams }) {
  const { title, text } = hit.document ?? {};
  const part = (field, text) => ({ field, pieces: [{ text, match: false }] });
  const begin = typeof text === "string" ? [part("text", text.slice(0, WIDTH))] : [];
  const isTitle = ({ pieces }) => pieces.map(({ text }) => text).join("") === title;
  const highlights = (hit.highlights ?? begin).map((part) => (isTitle(part) ? { ...part, field: "title" } : part));
  if (typeof title === "string" && title !== "" && !highlights.some(isTitle)) highlights.unshift(part("title", title));
  return { ...hit, highlights, grams: { found: hit.score, of: ngrams, distance: hit.distance } };
}
