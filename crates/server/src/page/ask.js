// What to search for, and the requests that do so: for words or for n-grams.

import { inIndex, post } from "./api.js";
import * as filters from "./filters.js";

/** Hits per page, and characters of a highlighted part of a text. */
export const PAGE = 10;
const WIDTH = 240;
/** Minimum number of hits whose edit distance is computed. */
const CANDIDATES = 100;

export const isOfNgrams = (index) => index.kind === "ngrams" || index.ngrams !== undefined;

/**
 * Returns a search as set up on the page. `isSyntax` says how to read the text, `sort` is null
 * for the default order, and `allowed` and `isVerified` concern n-grams.
 */
export function asked(index, text, { isSyntax, chosen, sort, allowed, isVerified }) {
  const hasText = text.trim() !== "";
  const words = hasText ? { query: text, ...(isSyntax && { syntax: true }) } : { query: { match_all: {} } };
  return { of: index, index: index.name, text, hasText, words, filter: filters.asQuery(chosen), sort, allowed, isVerified };
}

/**
 * Returns the request for `k` hits after the first `from`. N-gram searches have no offset, so
 * they request all hits up to the last one.
 */
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

/** Fetches a page of hits. `hasMore` is true if there are others after it. */
export async function page(what, from, signal) {
  const { path, body } = request(what, from, PAGE);
  const answer = await post(path, body, signal);
  if (!isOfNgrams(what.of)) return { ...answer, hasMore: from + answer.hits.length < answer.matches };
  const hits = answer.hits.slice(from).map((hit) => ofNgrams(hit, answer));
  return { ...answer, hits, hasMore: answer.hits.length === body.k };
}

/**
 * Converts a hit of an n-gram search to the form of other hits: a title, and the matching part of
 * its text, which may be the title.
 */
function ofNgrams(hit, { ngrams }) {
  const { title, text } = hit.document ?? {};
  const part = (field, text) => ({ field, pieces: [{ text, match: false }] });
  const begin = typeof text === "string" ? [part("text", text.slice(0, WIDTH))] : [];
  const isTitle = ({ pieces }) => pieces.map(({ text }) => text).join("") === title;
  const highlights = (hit.highlights ?? begin).map((part) => (isTitle(part) ? { ...part, field: "title" } : part));
  if (typeof title === "string" && title !== "" && !highlights.some(isTitle)) highlights.unshift(part("title", title));
  return { ...hit, highlights, grams: { found: hit.score, of: ngrams, distance: hit.distance } };
}
