// The device and algorithm that answered and the time of each step, as reported by the server.
// When closed, only the total time is visible.

import { byId, el } from "./dom.js";
import { ms, plural } from "./format.js";

const STEPS = ["wait", "parse", "plan", "search", "fetch", "highlight", "explain"];

export function show(answer) {
  byId("trace").hidden = !answer;
  if (!answer) return;
  const steps = STEPS.map((step) => [step, answer.steps?.[step] ?? 0]).filter(([, time]) => time > 0);
  const whole = answer.steps ? steps.reduce((sum, [, time]) => sum + time, 0) : answer.took_us / 1000;
  const { full, documents, of } = answer.coverage;
  const part = full ? "" : ` — time limit reached: ${documents} of ${of} documents were searched`;
  byId("took").textContent = `${ms(whole)}${part}`;
  byId("answered").replaceChildren(...(answer.steps ? ofWords(answer, steps, whole) : ofNgrams(answer)));
}

function ofWords(answer, steps, whole) {
  const part = ([step, time]) => el("span", { class: `step ${step}`, "--share": time / whole });
  const line = ([step, time]) => el("li", { class: step }, step, " ", el("data", { value: time }, ms(time)));
  return [
    el("p", {}, el("strong", { id: "device" }, answer.device), " with ", el("strong", { id: "algorithm" }, answer.algorithm), answer.why && ` (${answer.why})`),
    el("div", { class: "steps", "aria-hidden": "true" }, steps.map(part)),
    el("ul", { class: "legend", "aria-label": "Time of each step" }, steps.map(line)),
  ];
}

const ofNgrams = ({ ngrams, least }) => [el("p", {}, `The phrase has ${plural(ngrams, "n-gram")}, of which a hit has at least ${least}.`)];
