// Formatting of numbers for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const scored = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });

export const count = (number) => whole.format(number);
export const short = (number) => three.format(number);
export const score = (number) => scored.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function bytes(number) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(number) : short(number)} ${units[unit]}`;
}

export function ms(number) {
  if (number >= 1000) return `${short(number / 1000)} s`;
  return number < 0.001 ? "0 ms" : `${number < 0.1 ? number.toFixed(3) : short(number)} ms`;
}

export function duration(seconds) {
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days > 0) return `${plural(days, "day")} ${hours % 24} h`;
  if (hours > 0) return `${hours} h ${minutes % 60} min`;
  return minutes > 0 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}
