// Ranges of numbers and dates with round bounds, for fields with too many values to list.

import { count } from "./format.js";

/** Approximate number of ranges. */
const WANTED = 6;
const DAY = 86_400_000;
/** Ratio of the largest value to the median above which a field is divided by factors. */
const UNEVEN = 100;

/**
 * Divides values, given with their counts, into ranges that cover all of them; the first and the
 * last range are open. Returns none if there is nothing to divide.
 */
export function divide(values, kind) {
  const read = ({ value, count }) => [kind === "date" ? Date.parse(value) : Number(value), count];
  const numbers = values.map(read).filter(([number]) => Number.isFinite(number)).sort(([a], [b]) => a - b);
  const [least, most] = [numbers[0]?.[0], numbers.at(-1)?.[0]];
  if (!(least < most)) return [];
  const bounds = kind === "date" ? dates(least, most) : isUneven(numbers) ? powers(numbers, most) : steps(least, most, kind === "long");
  if (bounds.length === 0) return [];
  const inner = bounds.slice(1).map((to, i) => ({ from: bounds[i], to }));
  return [{ to: bounds[0] }, ...inner, { from: bounds.at(-1) }];
}

/** Returns true if numbers, such as sizes, vary by factors rather than by differences. */
function isUneven(numbers) {
  const whole = numbers.reduce((sum, [, count]) => sum + count, 0);
  let sum = 0;
  const [median] = numbers.find(([, count]) => (sum += count) >= whole / 2);
  return median > 0 && numbers.at(-1)[0] / median > UNEVEN;
}

/** Returns the powers of ten above the smallest positive number. */
function powers(numbers, most) {
  const [least] = numbers.find(([number]) => number > 0);
  const last = Math.floor(Math.log10(most));
  const bounds = [];
  for (let power = Math.max(Math.floor(Math.log10(least)) + 1, last - WANTED + 1); power <= last; power += 1) {
    bounds.push(Number((10 ** power).toPrecision(12)));
  }
  return bounds;
}

/** Returns the multiples of a round step between two numbers. */
function steps(least, most, integers) {
  const rough = (most - least) / WANTED;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  if (integers) step = Math.max(1, Math.round(step));
  const first = Math.floor(least / step);
  const multiples = Array.from({ length: 2 * WANTED }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  return multiples.filter((bound, i) => bound > least && bound <= most && bound !== multiples[i - 1]);
}

/** Returns the starts of years, months or days between two times. */
function dates(least, most) {
  const [from, days] = [new Date(least), (most - least) / DAY];
  const text = (...date) => new Date(Date.UTC(...date)).toISOString().slice(0, 10);
  const bounds = [];
  const add = (bound) => Date.parse(bound) > least && Date.parse(bound) <= most && bounds.push(bound);
  if (days > 2 * 365) {
    const years = steps(from.getUTCFullYear(), new Date(most).getUTCFullYear(), true);
    years.forEach((year) => add(`${String(year).padStart(4, "0")}-01-01`));
  } else if (days > 60) {
    const step = Math.ceil(days / 30 / WANTED);
    for (let i = 0; i <= WANTED; i += 1) add(text(from.getUTCFullYear(), from.getUTCMonth() + i * step, 1));
  } else {
    const step = Math.max(1, Math.ceil(days / WANTED));
    for (let i = 1; i <= WANTED; i += 1) add(text(from.getUTCFullYear(), from.getUTCMonth(), from.getUTCDate() + i * step));
  }
  return bounds;
}

/** Describes a range in words. */
export function name({ from, to, typed }, kind) {
  const before = typed ? "up to" : kind === "date" ? "before" : "below";
  if (from === undefined) return `${before} ${shown(to, kind)}`;
  if (to === undefined) return `from ${shown(from, kind)}`;
  const last = typed ? to : lastBefore(to, kind);
  const [first, end] = [shown(from, kind), shown(last, kind)];
  return first === end ? first : `${first} – ${end}`;
}

/**
 * Shows the start of a year as the year, and large integers with commas, which years do not have.
 */
function shown(value, kind) {
  if (kind === "date") return value.replace(/-01-01$/, "");
  return Number.isInteger(value) && Math.abs(value) >= 10_000 ? count(value) : String(value);
}

/** Returns the last value of a range that ends before `to`, if there is one. */
function lastBefore(to, kind) {
  if (kind === "long") return to - 1;
  if (kind !== "date") return to;
  if (to.endsWith("-01-01")) return `${String(Number(to.slice(0, 4)) - 1).padStart(4, "0")}-01-01`;
  return new Date(Date.parse(to) - DAY).toISOString().slice(0, 10);
}
