// The active filters: for each field, values and ranges of which a document must have one.

/**
 * Converts the filters to a query, leaving out the filter on `without` if it is given; undefined
 * if there are none.
 */
export function asQuery(filters, without) {
  const clauses = [];
  for (const [field, { values, ranges }] of filters) {
    if (field === without) continue;
    const should = ranges.map((range) => ({ range: { [field]: bounds(range) } }));
    if (values.length > 0) should.push({ terms: { [field]: values } });
    clauses.push({ bool: { should } });
  }
  return clauses.length > 0 ? { bool: { filter: clauses } } : undefined;
}

/** Converts a range to bounds. A typed range includes its last value; others end before it. */
function bounds({ from, to, typed }) {
  const bounds = {};
  if (from !== undefined) bounds.gte = from;
  if (to !== undefined) bounds[typed ? "lte" : "lt"] = to;
  return bounds;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function has(filters, field, kind, value) {
  return filters.get(field)?.[kind].some((known) => same(known, value)) ?? false;
}

/** Adds a value or a range, or removes it if it is active. */
export function toggle(filters, field, kind, value) {
  const of = filters.get(field) ?? { values: [], ranges: [] };
  const others = of[kind].filter((known) => !same(known, value));
  const changed = { ...of, [kind]: others.length < of[kind].length ? others : [...others, value] };
  if (changed.values.length + changed.ranges.length > 0) filters.set(field, changed);
  else filters.delete(field);
}

/** Sets the range typed for a field, which replaces an earlier one. */
export function setTyped(filters, field, range) {
  const old = filters.get(field)?.ranges.find((known) => known.typed);
  if (old) toggle(filters, field, "ranges", old);
  if (range.from !== undefined || range.to !== undefined) toggle(filters, field, "ranges", { ...range, typed: true });
}

export const write = (filters) => (filters.size > 0 ? JSON.stringify([...filters]) : null);

/** Reads written filters; returns none if the text is invalid. */
export function read(text) {
  try {
    const pairs = JSON.parse(text) ?? [];
    return new Map(pairs.map(([field, { values, ranges }]) => [String(field), { values: [...values], ranges: [...ranges] }]));
  } catch {
    return new Map();
  }
}
